//! Which branches diverge, and where lanes can be pending. Divergence of values and of control flow
//! is solved together, since each depends on the other.

use std::collections::BTreeSet;

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, BlockCall, Function, Inst, InstData, Terminator, Value};

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

/// `single_lane` has the blocks that one lane runs at a time, those of `lane_loops` among them.
pub(crate) fn run(
    given: &Given<'_>,
    single_lane: SecondaryMap<Block, SingleLane>,
) -> Result<Flow, Spent> {
    let Given {
        func,
        order,
        gang,
        facts,
        ..
    } = *given;
    let mut divergence = Divergence::new(gang, facts);
    divergence.single_lane = single_lane;
    loop {
        given.effort.spend(func.insts.len())?;
        divergence.propagate(func, order);
        let divergent = divergent(func, order, &divergence, gang);
        let pending = Pending::solve(given, &divergent)?;
        let changed = mark_merged(given, &pending, &divergent, &mut divergence)?
            | mark_spread(func, order, &mut divergence);
        if !changed {
            let mut out = SecondaryMap::new();
            for value in func.values.keys() {
                out[value] = divergence.variability[value].unwrap_or(Variability::Uniform);
            }
            let sorted = |sets: Vec<BTreeSet<usize>>| {
                sets.into_iter()
                    .map(|set| set.into_iter().collect())
                    .collect()
            };
            return Ok(Flow {
                variability: out,
                because: divergence.because,
                single_lane: divergence.single_lane,
                escapes: crate::escapes(func),
                divergent,
                pending: sorted(pending.body),
                pending_in: sorted(pending.arrive),
                maybe_empty: pending.maybe_empty,
            });
        }
    }
}

fn divergent(
    func: &Function,
    order: &Order,
    divergence: &Divergence,
    gang: u32,
) -> SecondaryMap<Block, bool> {
    let mut out = SecondaryMap::new();
    for node in &order.nodes {
        if let Node::Block(block) = *node {
            out[block] = gang > 1
                && divergence.single_lane[block] == SingleLane::No
                && match func.blocks[block].term {
                    Terminator::Brif { cond: value, .. }
                    | Terminator::Switch { index: value, .. }
                    | Terminator::Dispatch(value) => divergence.variability[value]
                        .is_some_and(|held| held != Variability::Uniform),
                    Terminator::Jump(_)
                    | Terminator::Ret(_)
                    | Terminator::Exit
                    | Terminator::Trap(_) => false,
                };
        }
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
        let mut args = self
            .calls
            .iter()
            .chain(&self.repeats)
            .map(|call| call.args[idx]);
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
}

fn incoming<'a>(
    given: &Given<'a>,
    pending: &Pending,
    divergent: &SecondaryMap<Block, bool>,
) -> SecondaryMap<Block, Incoming<'a>> {
    let Given { func, order, .. } = *given;
    let mut incoming: SecondaryMap<Block, Incoming<'_>> = SecondaryMap::new();
    for (pos, node) in order.nodes.iter().enumerate() {
        let Node::Block(block) = *node else { continue };
        let mut lane_loops = given.lane_loops.iter();
        let lane_loop = lane_loops.find(|region| region.range.contains(&pos));
        let calls = func.blocks[block].term.targets();
        let targets: Vec<usize> = calls
            .iter()
            .map(|call| order.target(pos, call.block))
            .collect();
        for (idx, &call) in calls.iter().enumerate() {
            let others = targets
                .iter()
                .enumerate()
                .filter(|&(other, _)| divergent[block] && other != idx)
                .map(|(_, &node)| node);
            let elsewhere = pending.body[pos].iter().copied().chain(others);
            let target = targets[idx];
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
    for (pos, node) in order.nodes.iter().enumerate() {
        let Node::Block(block) = *node else { continue };
        let edges = &incoming[block];
        if divergence.single_lane[block] == SingleLane::Inner || !(edges.meets || edges.overlaps) {
            continue;
        }
        let params = func.blocks[block].params.iter().copied().enumerate();
        let unsettled: Vec<(usize, Value)> = params
            .filter(|&(idx, param)| !divergence.merged[param] && !edges.is_same(func, idx))
            .collect();
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
            if meetings
                .as_ref()
                .is_none_or(|them| them.iter().any(differs))
            {
                divergence.merged[param] = true;
                divergence.variability[param] = Some(Variability::Varying);
                divergence.because[param] = Because::Merge(block);
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
    for node in &order.nodes {
        let Node::Block(block) = *node else { continue };
        let data = &func.blocks[block];
        for &inst in &data.insts {
            if divergence.single_lane[block] == SingleLane::No {
                numbers_in(func, divergence, inst, &mut numbers);
            } else {
                numbers_of_one(func, inst, &mut numbers);
            }
        }
        if data.term.targets().is_empty() {
            data.term.for_each_arg(|arg| numbers.push(arg));
        }
        for call in data.term.targets() {
            for (&param, &arg) in func.blocks[call.block].params.iter().zip(&call.args) {
                let is_scalar = divergence.single_lane[call.block] == SingleLane::Inner;
                if is_scalar || divergence.variability[param] == Some(Variability::Varying) {
                    numbers.push(arg);
                }
            }
        }
    }
    let mut changed = false;
    for value in numbers {
        let may_wrap = divergence.variability[value].and_then(Variability::may_wrap);
        if may_wrap.is_some_and(|may_wrap| may_wrap.sums_left == 0) {
            divergence.spread[value] = true;
            divergence.variability[value] = Some(Variability::Varying);
            divergence.because[value] = Because::MayWrap;
            changed = true;
        }
    }
    changed
}

/// The operands that an instruction uses as numbers, lane by lane.
pub(crate) fn numbers_in(
    func: &Function,
    divergence: &Divergence,
    inst: Inst,
    numbers: &mut Vec<Value>,
) {
    let node = &func.insts[inst];
    let keeps_affine = matches!(
        node.data,
        InstData::IntBinary { .. }
            | InstData::Resize { .. }
            | InstData::Select { .. }
            | InstData::ToGeneric { .. }
            | InstData::FromGeneric { .. }
    );
    if keeps_affine && divergence.variability[node.results[0]] != Some(Variability::Varying) {
        return;
    }
    if matches!(node.data, InstData::Prefetch { .. }) {
        return;
    }
    numbers_of_one(func, inst, numbers);
}

/// The same where one lane runs: the code computes that lane's own number for all operands but
/// addresses.
fn numbers_of_one(func: &Function, inst: Inst, numbers: &mut Vec<Value>) {
    let data = &func.insts[inst].data;
    let addr = data.address();
    numbers.extend(data.args().into_iter().filter(|&arg| Some(arg) != addr));
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
                given
                    .effort
                    .spend(1 + out.arrive[pos].len() + out.body[pos].len())?;
                let mut regions = given.lane_loops.iter();
                changed |= match order.nodes[pos] {
                    _ if regions.any(|region| region.range.contains(&pos)) => {
                        out.lane_loops(given, pos)
                    }
                    Node::Block(block) => out.block(given, divergent, pos, block),
                    Node::LoopEnd(header) => out.loop_end(order, given.yields, pos, header),
                };
            }
            if !changed {
                return Ok(out);
            }
        }
    }

    /// All lanes leave a lane loop at once, as far as its surroundings can tell; no lane is pending
    /// inside.
    fn lane_loops(&mut self, given: &Given<'_>, pos: usize) -> bool {
        let mut roots = given.lane_loops.iter();
        let Some(region) = roots.find(|region| *region.range.start() == pos) else {
            return false;
        };
        let arrived = self.arrive[pos].clone();
        let mut changed = self.maybe_empty[pos] && self.go(&[], &arrived);
        self.body[pos].extend(arrived);
        let pending = self.body[pos].clone();
        changed |= self.go(&region.exits, &pending);
        if region.ends {
            let next = region.exits.iter().chain(&pending).min();
            changed |=
                next.is_some_and(|&next| !std::mem::replace(&mut self.maybe_empty[next], true));
        }
        changed
    }

    fn block(
        &mut self,
        given: &Given<'_>,
        divergent: &SecondaryMap<Block, bool>,
        pos: usize,
        block: Block,
    ) -> bool {
        let Given {
            func, order, waits, ..
        } = *given;
        let mut changed = false;
        let always_waits = waits[block]
            && !matches!(
                func.insts[func.blocks[block].insts[0]].data,
                InstData::Warp { .. }
            );
        let arrived = self.arrive[pos].clone();
        if always_waits {
            // All lanes stop here. The runtime resumes them, and no lane is pending then.
            changed |= self.go(&[], &arrived);
        } else {
            if waits[block] || self.maybe_empty[pos] {
                changed |= self.go(&[], &arrived);
            }
            let before = self.body[pos].len();
            self.body[pos].extend(arrived);
            changed |= self.body[pos].len() != before;
        }
        let pending = self.body[pos].clone();
        let targets: Vec<usize> = func.blocks[block]
            .term
            .targets()
            .iter()
            .map(|call| order.target(pos, call.block))
            .collect();
        if divergent[block] || targets.is_empty() {
            changed |= self.go(&targets, &pending);
        } else {
            for target in targets {
                changed |= self.go(&[target], &pending);
            }
        }
        changed
    }

    fn loop_end(
        &mut self,
        order: &Order,
        yields: &SecondaryMap<Block, Option<Yield>>,
        pos: usize,
        header: Block,
    ) -> bool {
        let pending = self.arrive[pos].clone();
        self.body[pos] = pending.clone();
        let start = order.block_pos[header].expect("headers are in the order") as usize;
        let mut changed = self.add(start, &pending);
        if self.maybe_empty[pos] || yields[header].is_some() {
            changed |= self.go(&[], &pending);
        }
        changed
    }

    /// Lanes leave for all of `targets`; the first node in order that has lanes runs next.
    fn go(&mut self, targets: &[usize], pending: &BTreeSet<usize>) -> bool {
        let mut all = pending.clone();
        all.extend(targets);
        let Some(next) = all.pop_first() else {
            return false;
        };
        let mut changed = self.add(next, &all);
        if targets != [next] && !std::mem::replace(&mut self.maybe_empty[next], true) {
            changed = true;
        }
        changed
    }

    fn add(&mut self, node: usize, pending: &BTreeSet<usize>) -> bool {
        let before = self.arrive[node].len();
        self.arrive[node].extend(pending.iter().copied().filter(|&other| other != node));
        self.arrive[node].len() != before
    }
}
