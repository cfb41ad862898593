//! Versions regions for gangs whose lanes have the same trip count.
//!
//! A thread that starts at its own number and goes on in steps runs `(n - i) / step` iterations,
//! give or take one, and compilers compute the number ahead, for the remainder iterations of an
//! unrolled loop. It differs between lanes only in the gang that the bound cuts in two. The first
//! and the last lane tell: an affine value between them has no other quotient. The code that
//! depends on it is cloned for gangs in which the quotient is uniform, and so are the branches and
//! loops that follow; all other gangs run the original, which is cold and gets a loop over groups
//! of lanes ([`groups`]) if it can.
//!
//! ```text
//! block1: v3 = ushr v2, 8; ...; brif v5, block2, block3
//! =>
//! block1: v7 = end_lane.first v2; v8 = end_lane.last v2; v9 = ushr v7, 8; v10 = ushr v8, 8
//!         v11 = eq v9, v10; brif v11, block6, block5
//! block5: v3 = ushr v2, 8; ...; brif v5, block2, block3
//! block6: ... with v9 in place of v3; brif v12, block7, block3
//! ```

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, BlockCall, CompareOp, Function, Inst, InstData, IntBinaryOp, SrcLoc, Terminator, Type,
    Value, ValueDef,
};

use crate::analysis::divergence::Divergence;
use crate::analysis::progress;
use crate::analysis::variability::Variability;
use crate::cost;
use crate::heuristics::Heuristic;
use crate::speculate::clone::{self, Copies};
use crate::speculate::groups;
use crate::speculate::stable::Stable;
use crate::{PlanFacts, order};
use ptxjit_passes::analysis::{cfg, dominators, loops};

/// A quotient of an affine value.
#[derive(Copy, Clone)]
pub(crate) struct Quotient {
    pub inst: Inst,
    pub op: IntBinaryOp,
    pub ty: Type,
    pub affine: Value,
    /// The divisor, or the count of a shift.
    pub divisor: Value,
    /// Whether the stride is positive.
    rises: bool,
}

impl Quotient {
    /// The count, if the quotient is a shift by a constant.
    pub(super) fn shift(&self, func: &Function) -> Option<u64> {
        func.as_const(self.divisor)
            .filter(|_| self.op != IntBinaryOp::Udiv)
    }

    /// In a block where the quotient is `known` to be uniform, `affine < 3 << 8` is `known < 3`.
    pub(super) fn compare_in(&self, func: &mut Function, block: Block, known: Value) {
        let count = self.shift(func).filter(|_| self.op == IntBinaryOp::Ushr);
        let Some(count) = count else { return };
        for idx in 0..func.blocks[block].insts.len() {
            let inst = func.blocks[block].insts[idx];
            let InstData::Compare {
                op: op @ (CompareOp::Ult | CompareOp::Uge),
                ty,
                args: [affine, bound],
            } = func.insts[inst].data
            else {
                continue;
            };
            let Some(bits) = func.as_const(bound).filter(|_| affine == self.affine) else {
                continue;
            };
            if bits & ((1 << count) - 1) != 0 {
                continue;
            }
            let bound = InstData::Const {
                ty,
                bits: bits >> count,
            };
            let bound = func.make_inst(bound, &[ty], func.insts[inst].loc);
            func.blocks[block].insts.insert(idx, bound);
            let args = [known, func.insts[bound].results[0]];
            func.insts[inst].data = InstData::Compare { op, ty, args };
        }
    }
}

/// What was done to a function.
#[derive(Default)]
pub(crate) struct Versions {
    /// The blocks that only gangs with different quotients run.
    pub cold: SecondaryMap<Block, bool>,
    pub n_versions: usize,
    /// How many of the originals got a loop over groups of lanes.
    pub n_grouped: usize,
}

/// Versions the code that depends on quotients.
pub(crate) fn run(func: &mut Function, entries: &[Block], gang: u32, facts: PlanFacts) -> Versions {
    let mut versions = Versions::default();
    if gang == 1 || !entries.is_empty() {
        return versions;
    }
    let order = order::run(func, entries);
    let spins = progress::run(func, &order);
    let mut divergence = Divergence::new(gang, facts);
    divergence.propagate(func, &order);
    let stable = Stable::new(func, order, false);
    let found: Vec<(Block, Quotient)> = func
        .blocks
        .keys()
        .filter_map(|block| Some((block, quotient(func, &divergence, &stable, block)?)))
        .take(cost::MOST_BRANCHES)
        .collect();
    let is_on = facts.switches.is_on(Heuristic::LaneGroups);
    for (block, quotient) in found {
        if versions.cold[block] {
            continue;
        }
        let insts = &func.blocks[block].insts;
        let at = insts.iter().position(|&inst| inst == quotient.inst);
        let at = at.expect("the quotient is there");
        if let Some((region, end)) = region(func, gang, block)
            && clone::can_copy(func, block, at, &region)
        {
            let shifts = quotient.op != IntBinaryOp::Udiv;
            let has_bounds = !shifts || quotient.shift(func).is_some();
            let waits = region.iter().any(|&block| spins[block].is_some());
            let grouped = (is_on && has_bounds && !waits).then_some(end);
            let old = copy(func, (block, at), &region, quotient, grouped);
            versions.n_versions += 1;
            versions.n_grouped += usize::from(grouped.is_some());
            old.into_iter()
                .for_each(|block| versions.cold[block] = true);
        }
    }
    versions
}

/// The quotient that must be uniform for the block's branch to be.
#[expect(clippy::wildcard_enum_match_arm, reason = "others hide no quotient")]
fn quotient(
    func: &Function,
    divergence: &Divergence,
    stable: &Stable,
    block: Block,
) -> Option<Quotient> {
    let data = &func.blocks[block];
    let Terminator::Brif { cond, .. } = data.term else {
        return None;
    };
    let variability = |value: Value| divergence.variability[value].unwrap_or(Variability::Uniform);
    if variability(cond) == Variability::Uniform {
        return None;
    }
    // From the branch's condition back to its operands.
    let mut work = vec![cond];
    while let Some(value) = work.pop() {
        let ValueDef::Result(inst, _) = func.values[value].def else {
            continue;
        };
        if !data.insts.contains(&inst) {
            continue;
        }
        match func.insts[inst].data {
            InstData::IntBinary {
                op: op @ (IntBinaryOp::Ushr | IntBinaryOp::Sshr | IntBinaryOp::Udiv),
                ty: ty @ (Type::B32 | Type::B64),
                args: [affine, divisor],
            } if variability(divisor) == Variability::Uniform => {
                let Variability::Affine {
                    stride,
                    may_wrap: None,
                    ..
                } = variability(affine)
                else {
                    continue;
                };
                let most = u64::from(divergence.gang - 1);
                let span = stride.unsigned_abs().saturating_mul(most);
                if spans_two(span, op, func.as_const(divisor))
                    && stable.is_stable_in(func, affine, block)
                {
                    return Some(Quotient {
                        inst,
                        op,
                        ty,
                        affine,
                        divisor,
                        rises: stride > 0,
                    });
                }
            }
            InstData::IntBinary { args, .. } | InstData::Compare { args, .. } => work.extend(args),
            InstData::Resize { arg, .. } | InstData::IntUnary { arg, .. } => work.push(arg),
            _ => {}
        }
    }
    None
}

/// Whether values that lie so far apart at most have two quotients at most. A divisor that is not
/// known is compared when the code runs.
fn spans_two(span: u64, op: IntBinaryOp, divisor: Option<u64>) -> bool {
    match (op, divisor) {
        (_, None) => span < 1 << 31,
        (IntBinaryOp::Udiv, Some(divisor)) => span < divisor.min(1 << 31),
        (_, Some(count)) => span < 1 << count.min(31),
    }
}

/// The blocks from a block up to a post-dominator, if there are loops among them and they can be
/// cloned: behind the first such post-dominator others follow as long as each adds a loop. With
/// them, the post-dominator.
fn region(func: &Function, gang: u32, start: Block) -> Option<(Vec<Block>, Block)> {
    let graph = cfg::run(func);
    let (dom, post) = (dominators::run(&graph), dominators::run_post(func, &graph));
    let forest = loops::run(&graph);
    let is_fixed = |&inst: &Inst| clone::is_fixed(func, gang, inst);
    let mut region: Vec<Block> = Vec::new();
    let mut from = start;
    while let Some(end) = post.idom(from) {
        let mut more: Vec<Block> = Vec::new();
        let mut work: Vec<Block> = graph.succs[from].to_vec();
        if from != start {
            more.push(from);
        }
        while let Some(block) = work.pop() {
            if block != end
                && !more.contains(&block)
                && more.len() <= cost::COPIED_FOR_TRIP_COUNTS.blocks
            {
                more.push(block);
                work.extend(&graph.succs[block]);
            }
        }
        let has_loop = more.iter().any(|&block| forest.headed_by(block).is_some());
        let is_own = |&block: &Block| {
            let insts = &func.blocks[block].insts;
            block != start && dom.dominates(start, block) && !insts.iter().any(is_fixed)
        };
        let n_insts: usize = region
            .iter()
            .chain(&more)
            .map(|&block| func.blocks[block].insts.len())
            .sum();
        let fits = n_insts <= cost::COPIED_FOR_TRIP_COUNTS.insts
            && more.len() <= cost::COPIED_FOR_TRIP_COUNTS.blocks;
        if !has_loop || !fits || !more.iter().all(is_own) {
            break;
        }
        region.extend(more);
        from = end;
    }
    (!region.is_empty()).then_some((region, from))
}

/// Clones the rest of the block from the quotient on, and the region. The original gets a loop over
/// groups of lanes, if the block behind it is given. Returns the blocks of the original.
fn copy(
    func: &mut Function,
    (start, at): (Block, usize),
    region: &[Block],
    quotient: Quotient,
    end: Option<Block>,
) -> Vec<Block> {
    let loc = func.insts[quotient.inst].loc;
    let old_rest = clone::split(func, start, at);
    let (same, of_first) = test(func, start, quotient, loc);
    let old = std::iter::once(old_rest).chain(region.iter().copied());
    let known = (func.insts[quotient.inst].results[0], of_first);
    let copies = Copies::new(func, old.collect(), &[known]);
    for &block in &copies.old {
        quotient.compare_in(func, copies.blocks[&block], of_first);
    }
    let grouped = end.map(|end| groups::surround(func, &copies.old, end, quotient, loc));
    let original = grouped.as_ref().map_or(old_rest, |grouped| grouped.head);
    func.blocks[start].term = Terminator::Brif {
        cond: same,
        then_: BlockCall::new(copies.blocks[&old_rest]),
        else_: BlockCall::new(original),
    };
    func.blocks[start].term_loc = loc;
    copies.repair_uses(func, grouped.as_ref().map(|grouped| grouped.head));
    let mut old = copies.old;
    old.extend(grouped.into_iter().flat_map(|it| [it.head, it.latch]));
    old
}

/// Whether the first and the last lane have the same quotient, and that quotient.
fn test(func: &mut Function, block: Block, quotient: Quotient, loc: SrcLoc) -> (Value, Value) {
    let Quotient {
        op,
        ty,
        affine,
        divisor,
        rises,
        ..
    } = quotient;
    let mut put = |data: InstData, ty: Type| {
        let inst = func.make_inst(data, &[ty], loc);
        func.blocks[block].insts.push(inst);
        func.insts[inst].results[0]
    };
    let [first, last] = [false, true].map(|last| {
        put(
            InstData::EndLane {
                ty,
                last,
                arg: affine,
            },
            ty,
        )
    });
    let [of_first, of_last] = [first, last].map(|arg| {
        let args = [arg, divisor];
        put(InstData::IntBinary { op, ty, args }, ty)
    });
    let equal = |args: [Value; 2]| InstData::Compare {
        op: CompareOp::Eq,
        ty,
        args,
    };
    let same = put(equal([of_first, of_last]), Type::B1);
    if op != IntBinaryOp::Udiv {
        return (same, of_first);
    }
    // If the affine value wraps, both ends can have a quotient that lanes between them have not.
    let in_order = InstData::Compare {
        op: CompareOp::Ule,
        ty,
        args: if rises { [first, last] } else { [last, first] },
    };
    let in_order = put(in_order, Type::B1);
    let both = InstData::IntBinary {
        op: IntBinaryOp::And,
        ty: Type::B1,
        args: [same, in_order],
    };
    (put(both, Type::B1), of_first)
}
