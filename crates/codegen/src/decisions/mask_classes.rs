//! Which nodes share a mask.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{BarrierOp, Block, Function, Inst, InstData, Value, ValueDef};
use ptxjit_vectorize::{LaneLoop, Node, Plan, Variability, WaitKind};

use super::{is_pure, lane_loops};
use ptxjit_abi::warp_ops::WARP;

/// How far back a value is looked at that may be the same for diverged lanes.
const MOST_STEPS: u32 = 6;

/// Which lanes run: those the gang was entered with, those in a node's own variables, or the one
/// that a lane loop runs; or, within a node, those for which an instruction's predicate is true.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum MaskClass {
    Entry,
    Own(usize),
    Lane,
    Predicate,
}

/// The classes of all nodes: of the lanes that arrive, and of those that run the body.
pub(crate) struct MaskClasses {
    pub arrive: Vec<MaskClass>,
    pub body: Vec<MaskClass>,
}

impl MaskClasses {
    /// Decides which nodes run for just the lanes the gang was entered with, so that they need no
    /// mask: the nodes that are only reached by all lanes of such a node at once, or at which those
    /// reconverge. Others share the mask of their only predecessor or of a node whose lanes
    /// reconverge at them, or have their own.
    pub(crate) fn of(func: &Function, plan: &Plan) -> MaskClasses {
        let n = plan.order.nodes.len();
        let inverse = |reconvergence: &[Option<usize>]| {
            let mut joined = vec![None; n];
            for (join, from) in reconvergence.iter().enumerate() {
                if let Some(from) = *from {
                    joined[from] = Some(join);
                }
            }
            joined
        };
        let mut found = Classifier {
            func,
            plan,
            region_of: lane_loops::places(plan),
            straight: inverse(&plan.reconvergence.straight),
            over_strip_mined: inverse(&plan.reconvergence.over_strip_mined),
            arrive: vec![None; n],
            body: vec![None; n],
        };
        loop {
            let before = (found.arrive.clone(), found.body.clone());
            for pos in 0..n {
                found.node(pos);
            }
            if before == (found.arrive.clone(), found.body.clone()) {
                break;
            }
        }
        let settled = |classes: Vec<Option<MaskClass>>| {
            let classes = classes.into_iter().enumerate();
            classes
                .map(|(pos, class)| class.unwrap_or(MaskClass::Own(pos)))
                .collect()
        };
        MaskClasses {
            arrive: settled(found.arrive),
            body: settled(found.body),
        }
    }
}

fn blocks_of(func: &Function) -> SecondaryMap<Inst, Option<Block>> {
    let mut block_of = SecondaryMap::new();
    for (block, data) in func.blocks.iter() {
        for &inst in &data.insts {
            block_of[inst] = Some(block);
        }
    }
    block_of
}

struct Classifier<'a> {
    func: &'a Function,
    plan: &'a Plan,
    region_of: Vec<Option<usize>>,
    /// The node at which each one's lanes reconverge, without and with strip-mined loops between.
    straight: Vec<Option<usize>>,
    over_strip_mined: Vec<Option<usize>>,
    arrive: Vec<Option<MaskClass>>,
    body: Vec<Option<MaskClass>>,
}

impl Classifier<'_> {
    fn node(&mut self, pos: usize) {
        let (func, plan) = (self.func, self.plan);
        if let Some(region) = self.region_of[pos] {
            return self.by_lane(pos, &plan.lane_loops[region]);
        }
        let block = plan.order.nodes[pos].block();
        let is_resumed = block.is_some_and(|block| plan.wait_of[block].is_some());
        if block == Some(func.entry) || is_resumed {
            meet(&mut self.body[pos], MaskClass::Entry, pos);
        }
        if let Some(class) = self.arrive[pos]
            && !always_waits(func, plan, pos)
        {
            meet(&mut self.body[pos], class, pos);
        }
        let Some(class) = self.body[pos] else { return };
        self.join(pos, class, &|_| true);
        match plan.order.nodes[pos] {
            Node::LoopEnd(header) => self.edge(pos, class, plan.order.pos(header), true),
            Node::Block(block) => {
                for target in plan.order.targets(func, pos) {
                    self.edge(pos, class, target, !plan.divergent[block]);
                }
            }
        }
    }

    /// Assigns a class to the nodes at which a node's lanes reconverge, if they are among those
    /// asked for.
    fn join(&mut self, pos: usize, class: MaskClass, is_asked: &dyn Fn(usize) -> bool) {
        if let Some(join) = self.over_strip_mined[pos].filter(|&join| is_asked(join)) {
            // Without all lanes of the gang, only the direct reconvergence counts.
            if class == MaskClass::Entry {
                meet(&mut self.arrive[join], class, join);
            } else if self.plan.reconvergence.straight[join].is_none() {
                self.arrive[join] = Some(MaskClass::Own(join));
            }
        }
        if let Some(join) = self.straight[pos].filter(|&join| is_asked(join)) {
            let over_strip_mined = self.plan.reconvergence.over_strip_mined[join];
            let is_whole = |from: usize| self.body[from] == Some(MaskClass::Entry);
            if !over_strip_mined.is_some_and(is_whole) {
                meet(&mut self.arrive[join], class, join);
            }
        }
    }

    fn edge(&mut self, pos: usize, class: MaskClass, target: usize, whole: bool) {
        // Its class is that of the node whose lanes reconverge here.
        let reconvergence = &self.plan.reconvergence;
        let is_joined = reconvergence.straight[target].is_some()
            || reconvergence.over_strip_mined[target].is_some();
        if target > pos && is_joined {
            return;
        }
        // A node that can also be reached without lanes must find its own mask empty: the shared
        // one is not.
        let whole =
            whole && !self.plan.pending[pos].contains(&target) && !self.plan.maybe_empty[target];
        let class = if whole { class } else { MaskClass::Own(target) };
        meet(&mut self.arrive[target], class, target);
    }

    /// A node of a lane loop. The lanes reach the root together, and leave as if from there.
    fn by_lane(&mut self, pos: usize, region: &LaneLoop) {
        self.body[pos] = Some(MaskClass::Lane);
        let is_outside = |join: usize| !region.range.contains(&join);
        if pos != *region.range.start() {
            self.arrive[pos] = Some(MaskClass::Lane);
            for join in [self.straight[pos], self.over_strip_mined[pos]] {
                if let Some(join) = join.filter(|&join| is_outside(join)) {
                    self.arrive[join] = Some(MaskClass::Own(join));
                }
            }
            return;
        }
        let Some(class) = self.arrive[pos] else {
            return;
        };
        self.join(pos, class, &is_outside);
        let whole = region.exits.len() == 1 && !region.ends;
        for &target in &region.exits {
            self.edge(pos, class, target, whole);
        }
    }
}

/// A node that nodes of several classes lead to has its own.
fn meet(slot: &mut Option<MaskClass>, class: MaskClass, own: usize) {
    *slot = match *slot {
        None => Some(class),
        Some(found) if found == class => Some(class),
        Some(_) => Some(MaskClass::Own(own)),
    };
}

/// Whether every lane that arrives at a node waits.
pub(crate) fn always_waits(func: &Function, plan: &Plan, pos: usize) -> bool {
    let block = plan.order.nodes[pos].block();
    let wait = block.and_then(|block| plan.wait_at(block));
    wait.is_some_and(|wait| match wait.kind {
        WaitKind::Inst(inst) => !has_fast_path(func, plan, inst),
        WaitKind::Entry | WaitKind::Ready | WaitKind::Yield | WaitKind::StripMine => false,
    })
}

/// Whether lanes need not always wait at an instruction.
pub(crate) fn has_fast_path(func: &Function, plan: &Plan, inst: Inst) -> bool {
    plan.gang as usize == WARP && matches!(func.insts[inst].data, InstData::Warp { .. })
}

/// What the waits of code whose gangs are warps need not provide for.
#[derive(Default)]
pub(crate) struct Met {
    /// The blocks that begin with a warp operation at which no lane ever waits.
    pub(crate) always: Vec<Block>,
    /// The blocks from which all lanes of a warp go on together, though they may reach them
    /// diverged: they begin with an instruction that is `.aligned`. Code behind counts on it.
    pub(crate) again: Vec<Block>,
}

/// Finds the warp operations at which no lane ever waits: a gang is a warp, its lanes converge
/// wherever they wait for anything before, and the operation is for all of them. If lanes may
/// diverge at one wait, they may reach what follows it diverged, up to where they have to be
/// together.
pub(crate) fn met_by_all(func: &Function, plan: &Plan) -> Met {
    if plan.gang as usize != WARP {
        return Met::default();
    }
    let classes = MaskClasses::of(func, plan);
    let (mut met, mut diverged) = (Vec::new(), Vec::new());
    for wait in &plan.waits {
        let is_whole = match wait.kind {
            WaitKind::Entry | WaitKind::StripMine => true,
            WaitKind::Ready => false,
            WaitKind::Inst(inst) => {
                let begin = plan.order.pos(wait.block);
                is_for_all(func, plan, inst) && classes.arrive[begin] == MaskClass::Entry
            }
            WaitKind::Yield => {
                let end = plan.order.end_pos[wait.block].expect("loops have ends");
                classes.body[end as usize] == MaskClass::Entry
            }
        };
        match wait.kind {
            _ if !is_whole => diverged.push(wait.block),
            WaitKind::Inst(inst) if has_fast_path(func, plan, inst) => met.push(wait.block),
            WaitKind::Inst(_)
            | WaitKind::Entry
            | WaitKind::Ready
            | WaitKind::Yield
            | WaitKind::StripMine => {}
        }
    }
    let reach = Reach::of(func, plan, &diverged);
    met.retain(|&block| !reach.is_reached[block]);
    Met {
        always: met,
        again: reach.ends,
    }
}

/// Where lanes may come diverged.
struct Reach<'a> {
    func: &'a Function,
    plan: &'a Plan,
    block_of: SecondaryMap<Inst, Option<Block>>,
    is_reached: SecondaryMap<Block, bool>,
    /// The blocks at which they are together again.
    ends: Vec<Block>,
}

impl<'a> Reach<'a> {
    /// From waits at which lanes may diverge.
    fn of(func: &'a Function, plan: &'a Plan, diverged: &[Block]) -> Reach<'a> {
        let mut apart = Vec::new();
        loop {
            let mut reach = Reach {
                func,
                plan,
                block_of: blocks_of(func),
                is_reached: SecondaryMap::new(),
                ends: Vec::new(),
            };
            reach.follow(diverged, &apart);
            let parts = |&end: &Block| !reach.has_one_state(end);
            let (n_before, ends) = (apart.len(), reach.ends.iter().copied());
            apart.extend(ends.filter(parts));
            if apart.len() == n_before {
                return reach;
            }
        }
    }

    /// Marks what can be reached, up to `.aligned` instructions other than those at `apart`.
    fn follow(&mut self, diverged: &[Block], apart: &[Block]) {
        let targets = |block: Block| self.func.successors(block);
        let mut work: Vec<Block> = diverged.iter().copied().flat_map(targets).collect();
        for &block in diverged {
            self.is_reached[block] = true;
        }
        while let Some(block) = work.pop() {
            if std::mem::replace(&mut self.is_reached[block], true) {
                continue;
            }
            match self.plan.wait_at(block).map(|wait| wait.kind) {
                Some(WaitKind::Inst(inst))
                    if is_aligned(self.func, self.plan, inst) && !apart.contains(&block) =>
                {
                    self.ends.push(block);
                }
                _ => work.extend(targets(block)),
            }
        }
    }

    /// Whether lanes that wait at a block have the same values of what is uniform or affine, which
    /// is what one group of lanes can have.
    fn has_one_state(&self, block: Block) -> bool {
        self.plan.wait_at(block).is_none_or(|wait| {
            let mut live = wait.live.iter();
            live.all(|&value| self.is_same(value, MOST_STEPS))
        })
    }

    /// Whether a value that is not varying is the same for all lanes, wherever they came from: it
    /// was computed before they could diverge, or from such values.
    fn is_same(&self, value: Value, steps: u32) -> bool {
        match self.func.values[value].def {
            _ if self.plan.is_varying(value) => true,
            _ if self.func.as_const(value).is_some() => true,
            ValueDef::Param(block, _) => !self.is_reached[block],
            ValueDef::Result(inst, _) => {
                let data = &self.func.insts[inst].data;
                let is_computed = is_pure(data) && steps > 0;
                let args = || data.args();
                let is_together =
                    |block: Block| !self.is_reached[block] || self.ends.contains(&block);
                self.block_of[inst].is_some_and(is_together)
                    || is_computed && args().iter().all(|&arg| self.is_same(arg, steps - 1))
            }
        }
    }
}

/// Whether all lanes of a warp execute this very instruction, and wait for each other there. PTX
/// ISA, `.aligned` of "bar, barrier" and of instructions on matrices.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "others are no such instructions"
)]
fn is_aligned(func: &Function, plan: &Plan, inst: Inst) -> bool {
    is_for_all(func, plan, inst)
        && match func.insts[inst].data {
            InstData::Warp { op, sync, .. } => sync && op.is_aligned(),
            InstData::Barrier { op, aligned, .. } => aligned && op != BarrierOp::Arrive,
            _ => false,
        }
}

/// Whether all lanes of a warp that reach an instruction go on from there together: they are the
/// members of a warp operation, wait at one barrier, or yield.
#[expect(clippy::wildcard_enum_match_arm, reason = "others depend on the mask")]
fn is_for_all(func: &Function, plan: &Plan, inst: Inst) -> bool {
    let is_uniform = |value: &Value| plan.variability[*value] == Variability::Uniform;
    match &func.insts[inst].data {
        InstData::Warp { sync, args, .. } => {
            let members = args.last().filter(|_| *sync);
            members.is_none_or(|&members| func.as_const(members) == Some(0xffff_ffff))
        }
        InstData::Barrier { id, count, .. } => is_uniform(id) && count.iter().all(is_uniform),
        InstData::Nanosleep { .. } => true,
        _ => false,
    }
}
