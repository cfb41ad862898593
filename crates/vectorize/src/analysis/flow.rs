//! Which branches diverge, and where lanes can be pending. Divergence of values and of control flow
//! is solved together, since each depends on the other.

use std::collections::BTreeSet;

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, BlockCall, Function, InstData, InstNode, Terminator, Value};
use smallvec::SmallVec;

use crate::analysis::divergence::Divergence;
use crate::analysis::meetings::{Meeting, Search};
use crate::analysis::order::{Node, Order};
use crate::analysis::variability::{Because, Variability};
use crate::scalarize::lane_loops::LaneLoop;
use crate::scalarize::single_lane::SingleLane;
use crate::{PlanFacts, Yield};
use ptxjit_passes::effort::{Effort, Spent};

/// The solution.
pub(crate) struct Flow {
    pub variability: SecondaryMap<Value, Variability>,
    pub because: SecondaryMap<Value, Because>,
    /// Blocks that one lane runs at a time.
    pub single_lane: SecondaryMap<Block, SingleLane>,
    /// Values used in another node than the one that defines them.
    pub escapes: SecondaryMap<Value, bool>,
    pub divergent: SecondaryMap<Block, bool>,
    pub pending: Vec<Vec<usize>>,
    pub pending_in: Vec<Vec<usize>>,
    pub maybe_empty: Vec<bool>,
}

/// What stays fixed while values and control flow are solved.
pub(crate) struct Given<'a> {
    pub func: &'a Function,
    pub order: &'a Order,
    pub waits: &'a SecondaryMap<Block, bool>,
    pub yields: &'a SecondaryMap<Block, Option<Yield>>,
    pub gang: u32,
    pub facts: PlanFacts,
    /// Regions that are scalarized by lane loops.
    pub lane_loops: &'a [LaneLoop],
    pub effort: &'a Effort,
}

impl<'a> Given<'a> {
    /// The lane loop that a position belongs to.
    pub(super) fn lane_loop_at(&self, pos: usize) -> Option<&'a LaneLoop> {
        let mut regions = self.lane_loops.iter();
        regions.find(|region| region.range.contains(&pos))
    }

    /// Whether all lanes stop at the start of a block. The runtime resumes them, and no lane is
    /// pending then.
    pub(super) fn always_waits(&self, block: Block) -> bool {
        let first = self.func.insts_in(block).next();
        let is_warp = first.is_some_and(|node| matches!(node.data, InstData::Warp { .. }));
        self.waits[block] && !is_warp
    }
}

/// `single_lane` has the blocks that one lane runs at a time, those of `lane_loops` among them.
pub(crate) fn run(
    given: &Given<'_>,
    single_lane: SecondaryMap<Block, SingleLane>,
) -> Result<Flow, Spent> {
    let Given { func, order, .. } = *given;
    let mut divergence = Divergence::new(given.gang, given.facts);
    divergence.single_lane = single_lane;
    loop {
        given.effort.spend(func.insts.len())?;
        divergence.propagate(func, order);
        let divergent = divergent(func, order, &divergence);
        let pending = Pending::solve(given, &divergent)?;
        let changed = mark_merged(given, &pending, &divergent, &mut divergence)?
            | mark_spread(func, order, &mut divergence);
        if !changed {
            return Ok(Flow::of(func, divergence, divergent, pending));
        }
    }
}

impl Flow {
    fn of(
        func: &Function,
        divergence: Divergence,
        divergent: SecondaryMap<Block, bool>,
        pending: Pending,
    ) -> Flow {
        let mut variability = SecondaryMap::new();
        for value in func.values.keys() {
            variability[value] = divergence.variability(value);
        }
        let sorted = |sets: Vec<BTreeSet<usize>>| {
            let sets = sets.into_iter();
            sets.map(|set| set.into_iter().collect()).collect()
        };
        Flow {
            variability,
            because: divergence.because,
            single_lane: divergence.single_lane,
            escapes: crate::escapes(func),
            divergent,
            pending: sorted(pending.body),
            pending_in: sorted(pending.arrive),
            maybe_empty: pending.maybe_empty,
        }
    }
}

fn divergent(func: &Function, order: &Order, divergence: &Divergence) -> SecondaryMap<Block, bool> {
    let mut out = SecondaryMap::new();
    for block in order.blocks() {
        let is_for_all = divergence.gang > 1 && divergence.single_lane[block] == SingleLane::No;
        out[block] = is_for_all
            && match func.blocks[block].term {
                Terminator::Brif { cond: value, .. }
                | Terminator::Switch { index: value, .. }
                | Terminator::Dispatch(value) => {
                    divergence.variability(value) != Variability::Uniform
                }
                Terminator::Jump(_)
                | Terminator::Ret(_)
                | Terminator::Exit
                | Terminator::Trap(_) => false,
            };
    }
    out
}

/// The edges into a block.
#[derive(Clone, Default)]
struct Incoming<'a> {
    /// Those that lead to the block itself: the positions that they come from, and the arguments.
    sources: Vec<usize>,
    calls: Vec<&'a BlockCall>,
    /// Those that lead to the end of the block's loop.
    repeats: Vec<&'a BlockCall>,
    /// An edge may be taken while lanes are pending at the block.
    meets: bool,
    /// An edge may be taken while lanes still need the parameters of another iteration.
    overlaps: bool,
}

impl Incoming<'_> {
    /// Whether all edges pass the same value for a parameter in all iterations.
    fn is_same(&self, func: &Function, idx: usize) -> bool {
        let calls = self.calls.iter().chain(&self.repeats);
        let mut args = calls.map(|call| call.args[idx]);
        let first = args.next();
        // An argument that is the same on all edges still changes between iterations if the edges
        // leave a loop.
        is_fixed(func, first) && args.all(|arg| Some(arg) == first)
    }

    /// Whether two edges that meet pass different values for a parameter.
    fn differs(&self, func: &Function, idx: usize, meeting: &Meeting) -> bool {
        let [one, other] = meeting.edges.map(|edge| self.calls[edge].args[idx]);
        one != other || meeting.over_iterations && !is_fixed(func, Some(one))
    }

    /// The parameters of the block for which edges may meet with different arguments, and which
    /// are not known to be written lane by lane yet.
    fn unsettled(
        &self,
        func: &Function,
        divergence: &Divergence,
        block: Block,
    ) -> Vec<(usize, Value)> {
        if divergence.single_lane[block] == SingleLane::Inner || !(self.meets || self.overlaps) {
            return Vec::new();
        }
        let params = func.blocks[block].params.iter().copied().enumerate();
        let is_open = |idx, param| !divergence.merged[param] && !self.is_same(func, idx);
        params.filter(|&(idx, param)| is_open(idx, param)).collect()
    }
}

fn incoming<'a>(
    given: &Given<'a>,
    pending: &Pending,
    divergent: &SecondaryMap<Block, bool>,
) -> SecondaryMap<Block, Incoming<'a>> {
    let Given { func, order, .. } = *given;
    let mut incoming: SecondaryMap<Block, Incoming<'_>> = SecondaryMap::new();
    for (pos, block) in order.places() {
        let lane_loop = given.lane_loop_at(pos);
        let calls = func.blocks[block].term.targets();
        let targets = order.targets(func, pos);
        for ((idx, call), &target) in calls.into_iter().enumerate().zip(&targets) {
            let others = targets.iter().enumerate();
            let others = others.filter(|&(other, _)| divergent[block] && other != idx);
            let others = others.map(|(_, &node)| node);
            let elsewhere = pending.body[pos].iter().copied().chain(others);
            let edges = &mut incoming[call.block];
            // A lane loop writes the parameters for one lane at a time.
            edges.overlaps |= lane_loop.is_some_and(|region| !region.range.contains(&target));
            match order.nodes[target] {
                Node::Block(_) => {
                    edges.meets |= order.must_blend(target, elsewhere);
                    edges.sources.push(pos);
                    edges.calls.push(call);
                }
                Node::LoopEnd(_) => {
                    edges.overlaps |= order.must_blend(target, elsewhere);
                    edges.repeats.push(call);
                }
            }
        }
    }
    incoming
}

/// A parameter is written lane by lane where edges with different arguments meet.
fn mark_merged(
    given: &Given<'_>,
    pending: &Pending,
    divergent: &SecondaryMap<Block, bool>,
    divergence: &mut Divergence,
) -> Result<bool, Spent> {
    let Given { func, order, .. } = *given;
    let incoming = incoming(given, pending, divergent);
    let mut changed = false;
    for (pos, block) in order.places() {
        let edges = &incoming[block];
        let unsettled = edges.unsettled(func, divergence, block);
        if unsettled.is_empty() {
            continue;
        }
        let meetings = match edges.overlaps {
            true => None,
            false => {
                let diverges = |block: Block| divergent[block];
                Search::new(given, pending, &diverges, pos, &edges.sources).run()?
            }
        };
        for (idx, param) in unsettled {
            let differs = |meeting: &Meeting| edges.differs(func, idx, meeting);
            let meetings = meetings.as_ref();
            if meetings.is_none_or(|them| them.iter().any(differs)) {
                divergence.merged[param] = true;
                divergence.make_varying(param, Because::Merge(block));
                changed = true;
            }
        }
    }
    Ok(changed)
}

/// A value from an index that may have wrapped stays a scalar only if it serves as an address, is
/// passed on to such values, or shows by its own bits whether the index wrapped.
fn mark_spread(func: &Function, order: &Order, divergence: &mut Divergence) -> bool {
    let mut numbers: Vec<Value> = Vec::new();
    for block in order.blocks() {
        add_numbers(func, divergence, block, &mut numbers);
    }
    let mut changed = false;
    for value in numbers {
        if divergence.variability(value).hides_wrap() {
            divergence.spread[value] = true;
            divergence.make_varying(value, Because::MayWrap);
            changed = true;
        }
    }
    changed
}

/// Lists the values that a block uses as numbers, or passes on as such.
fn add_numbers(func: &Function, divergence: &Divergence, block: Block, numbers: &mut Vec<Value>) {
    let is_for_all = divergence.single_lane[block] == SingleLane::No;
    for node in func.insts_in(block) {
        numbers.extend(match is_for_all {
            true => numbers_in(divergence, node),
            false => numbers_of_one(&node.data),
        });
    }
    let term = &func.blocks[block].term;
    if term.targets().is_empty() {
        term.for_each_arg(|arg| numbers.push(arg));
    }
    for call in term.targets() {
        let is_scalar = divergence.single_lane[call.block] == SingleLane::Inner;
        let passed = func.blocks[call.block].params.iter().zip(&call.args);
        let passed = passed.filter(|&(&param, _)| is_scalar || divergence.is_varying(param));
        numbers.extend(passed.map(|(_, &arg)| arg));
    }
}

/// The operands that an instruction uses as numbers, lane by lane.
pub(crate) fn numbers_in(divergence: &Divergence, node: &InstNode) -> SmallVec<[Value; 4]> {
    let keeps_affine = matches!(
        node.data,
        InstData::IntBinary { .. }
            | InstData::Resize { .. }
            | InstData::Select { .. }
            | InstData::ToGeneric { .. }
            | InstData::FromGeneric { .. }
    );
    let is_scalar = keeps_affine && !divergence.is_varying(node.results[0]);
    match is_scalar || matches!(node.data, InstData::Prefetch { .. }) {
        true => SmallVec::new(),
        false => numbers_of_one(&node.data),
    }
}

/// The same where one lane runs: the code computes that lane's own number for all operands but
/// addresses.
fn numbers_of_one(data: &InstData) -> SmallVec<[Value; 4]> {
    let (mut args, addr) = (data.args(), data.address());
    args.retain(|arg| Some(*arg) != addr);
    args
}

/// A constant is the same in every iteration.
fn is_fixed(func: &Function, value: Option<Value>) -> bool {
    value.is_some_and(|value| func.as_const(value).is_some())
}

/// The nodes where lanes may be pending while a node is reached, or runs.
pub(super) struct Pending {
    /// On arrival, before a wait at the node's start.
    pub(super) arrive: Vec<BTreeSet<usize>>,
    pub(super) body: Vec<BTreeSet<usize>>,
    /// Whether the node may be reached with no lane for it.
    pub(super) maybe_empty: Vec<bool>,
}

impl Pending {
    fn solve(given: &Given<'_>, divergent: &SecondaryMap<Block, bool>) -> Result<Pending, Spent> {
        let order = given.order;
        let n = order.nodes.len();
        let mut out = Pending {
            arrive: vec![BTreeSet::new(); n],
            body: vec![BTreeSet::new(); n],
            maybe_empty: vec![false; n],
        };
        loop {
            let mut changed = false;
            for pos in 0..n {
                let effort = 1 + out.arrive[pos].len() + out.body[pos].len();
                given.effort.spend(effort)?;
                changed |= match (given.lane_loop_at(pos), order.nodes[pos]) {
                    (Some(region), _) => out.lane_loop(region, pos),
                    (None, Node::Block(block)) => out.block(given, pos, block, divergent[block]),
                    (None, Node::LoopEnd(header)) => out.loop_end(given, pos, header),
                };
            }
            if !changed {
                return Ok(out);
            }
        }
    }

    /// All lanes leave a lane loop at once, as far as its surroundings can tell; no lane is pending
    /// inside.
    fn lane_loop(&mut self, region: &LaneLoop, pos: usize) -> bool {
        if *region.range.start() != pos {
            return false;
        }
        let arrived = self.arrive[pos].clone();
        let mut changed = self.maybe_empty[pos] && self.go(&[], &arrived);
        self.body[pos].extend(arrived);
        let pending = self.body[pos].clone();
        changed |= self.go(&region.exits, &pending);
        if region.ends {
            let next = region.exits.iter().chain(&pending).min();
            changed |= next.is_some_and(|&next| self.leave_empty(next));
        }
        changed
    }

    fn block(&mut self, given: &Given<'_>, pos: usize, block: Block, diverges: bool) -> bool {
        let mut changed = false;
        let arrived = self.arrive[pos].clone();
        if given.waits[block] || self.maybe_empty[pos] {
            changed |= self.go(&[], &arrived);
        }
        if !given.always_waits(block) {
            let before = self.body[pos].len();
            self.body[pos].extend(arrived);
            changed |= self.body[pos].len() != before;
        }
        let pending = self.body[pos].clone();
        let targets = given.order.targets(given.func, pos);
        if diverges || targets.is_empty() {
            changed |= self.go(&targets, &pending);
        } else {
            for target in targets {
                changed |= self.go(&[target], &pending);
            }
        }
        changed
    }

    fn loop_end(&mut self, given: &Given<'_>, pos: usize, header: Block) -> bool {
        let pending = self.arrive[pos].clone();
        self.body[pos] = pending.clone();
        let mut changed = self.add(given.order.pos(header), &pending);
        if self.maybe_empty[pos] || given.yields[header].is_some() {
            changed |= self.go(&[], &pending);
        }
        changed
    }

    /// A node may be reached with no lane for it. Whether that is new.
    fn leave_empty(&mut self, node: usize) -> bool {
        !std::mem::replace(&mut self.maybe_empty[node], true)
    }

    /// Lanes leave for all of `targets`; the first node in order that has lanes runs next.
    fn go(&mut self, targets: &[usize], pending: &BTreeSet<usize>) -> bool {
        let mut all = pending.clone();
        all.extend(targets);
        let Some(next) = all.pop_first() else {
            return false;
        };
        let changed = self.add(next, &all);
        targets != [next] && self.leave_empty(next) || changed
    }

    fn add(&mut self, node: usize, pending: &BTreeSet<usize>) -> bool {
        let before = self.arrive[node].len();
        self.arrive[node].extend(pending.iter().copied().filter(|&other| other != node));
        self.arrive[node].len() != before
    }
}
