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
    Value,
};

use rustc_hash::FxHashSet;

use crate::analysis::divergence::Divergence;
use crate::analysis::progress;
use crate::analysis::variability::Variability;
use crate::cost;
use crate::heuristics::Heuristic;
use crate::speculate::clone::{self, Copies};
use crate::speculate::groups;
use crate::speculate::stable::Stable;
use crate::{Setup, order};
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

    /// Whether it is easy to tell which values have the same quotient.
    fn has_bounds(&self, func: &Function) -> bool {
        self.op == IntBinaryOp::Udiv || self.shift(func).is_some()
    }

    /// In a block where the quotient is `known` to be uniform, `affine < 3 << 8` is `known < 3`.
    pub(super) fn compare_in(&self, func: &mut Function, block: Block, known: Value) {
        let count = self.shift(func).filter(|_| self.op == IntBinaryOp::Ushr);
        let Some(count) = count else { return };
        for idx in 0..func.blocks[block].insts.len() {
            let inst = func.blocks[block].insts[idx];
            let node = &func.insts[inst];
            if let Some((op @ (CompareOp::Ult | CompareOp::Uge), ty, [affine, bound])) =
                node.data.as_compare()
                && let Some(bits) = func.as_const(bound).filter(|_| affine == self.affine)
                && bits & ((1 << count) - 1) == 0
            {
                let bits = bits >> count;
                let bound = func.make_inst(InstData::Const { ty, bits }, &[ty], node.loc);
                func.blocks[block].insts.insert(idx, bound);
                let args = [known, func.result(bound)];
                func.insts[inst].data = InstData::compare(op, ty, args);
            }
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
pub(crate) fn run(func: &mut Function, setup: &Setup<'_>) -> Versions {
    let mut versions = Versions::default();
    if !setup.starts_together() {
        return versions;
    }
    let order = order::run(func, &[]);
    let spins = progress::run(func, &order);
    let mut divergence = Divergence::new(setup.gang, setup.facts);
    divergence.propagate(func, &order);
    let finder = Finder {
        func,
        divergence: &divergence,
        stable: &Stable::new(func, order, false),
    };
    let found = func.blocks.keys();
    let found = found.filter_map(|block| Some((block, finder.quotient(block)?)));
    let found: Vec<(Block, Quotient)> = found.take(cost::MOST_BRANCHES).collect();
    for (block, quotient) in found {
        if versions.cold[block] {
            continue;
        }
        let insts = &func.blocks[block].insts;
        let at = insts.iter().position(|&inst| inst == quotient.inst);
        let at = at.expect("the quotient is there");
        if let Some((region, end)) = region(func, setup.gang, block)
            && clone::can_copy(func, block, at, &region)
        {
            let waits = region.iter().any(|&block| spins[block].is_some());
            let may_group = setup.is_on(Heuristic::LaneGroups) && quotient.has_bounds(func);
            let grouped = (may_group && !waits).then_some(end);
            let old = copy(func, (block, at), &region, quotient, grouped);
            versions.n_versions += 1;
            versions.n_grouped += usize::from(grouped.is_some());
            for block in old {
                versions.cold[block] = true;
            }
        }
    }
    versions
}

/// What tells quotients.
struct Finder<'a> {
    func: &'a Function,
    divergence: &'a Divergence,
    stable: &'a Stable,
}

impl Finder<'_> {
    /// The quotient that must be uniform for the block's branch to be.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others hide no quotient")]
    fn quotient(&self, block: Block) -> Option<Quotient> {
        let data = &self.func.blocks[block];
        let cond = data.term.condition()?;
        if self.divergence.variability(cond) == Variability::Uniform {
            return None;
        }
        // From the branch's condition back to its operands.
        let mut work = vec![cond];
        let mut seen = FxHashSet::default();
        while let Some(value) = work.pop() {
            let maker = self.func.maker(value).filter(|&inst| seen.insert(inst));
            let Some(inst) = maker.filter(|inst| data.insts.contains(inst)) else {
                continue;
            };
            match self.func.insts[inst].data {
                InstData::IntBinary {
                    op: IntBinaryOp::Ushr | IntBinaryOp::Sshr | IntBinaryOp::Udiv,
                    ty: Type::B32 | Type::B64,
                    args: [_, divisor],
                } if self.divergence.variability(divisor) == Variability::Uniform => {
                    if let Some(quotient) = self.quotient_of(inst, block) {
                        return Some(quotient);
                    }
                }
                InstData::IntBinary { args, .. } | InstData::Compare { args, .. } => {
                    work.extend(args)
                }
                InstData::Resize { arg, .. } | InstData::IntUnary { arg, .. } => work.push(arg),
                _ => {}
            }
        }
        None
    }

    /// The quotient that an instruction computes, if the divided value is affine and stays so, and
    /// its lanes have two quotients at most.
    fn quotient_of(&self, inst: Inst, block: Block) -> Option<Quotient> {
        let (op, ty, [affine, divisor]) = self.func.insts[inst].data.as_binary()?;
        let stride = self.divergence.variability(affine).exact_stride()?;
        let most = u64::from(self.divergence.gang - 1);
        let span = stride.unsigned_abs().saturating_mul(most);
        let is_one = spans_two(span, op, self.func.as_const(divisor))
            && self.stable.is_stable_in(self.func, affine, block);
        is_one.then_some(Quotient {
            inst,
            op,
            ty,
            affine,
            divisor,
            rises: stride > 0,
        })
    }
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
            let is_behind = block != start && dom.dominates(start, block);
            is_behind && !clone::has_fixed(func, gang, block)
        };
        let n_insts = region.iter().chain(&more);
        let n_insts: usize = n_insts.map(|&block| func.blocks[block].insts.len()).sum();
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
    let known = (func.result(quotient.inst), of_first);
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
    let mut put = |data: InstData, ty: Type| func.append(block, data, ty, loc);
    let arg = affine;
    let [first, last] = [false, true].map(|last| put(InstData::EndLane { ty, last, arg }, ty));
    let of = |arg: Value| InstData::binary(op, ty, [arg, divisor]);
    let [of_first, of_last] = [first, last].map(|arg| put(of(arg), ty));
    let same = InstData::compare(CompareOp::Eq, ty, [of_first, of_last]);
    let same = put(same, Type::B1);
    if op != IntBinaryOp::Udiv {
        return (same, of_first);
    }
    // If the affine value wraps, both ends can have a quotient that lanes between them have not.
    let ends = if rises { [first, last] } else { [last, first] };
    let in_order = put(InstData::compare(CompareOp::Ule, ty, ends), Type::B1);
    let both = InstData::binary(IntBinaryOp::And, Type::B1, [same, in_order]);
    (put(both, Type::B1), of_first)
}
