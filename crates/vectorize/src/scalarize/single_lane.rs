//! Finds blocks that at most one lane of a gang runs at a time, as after `if (threadIdx.x == 0)`:
//! all values computed there are scalars.
//!
//! Such a region is entered by one edge, which a lane takes only if its element of an affine value
//! with non-zero stride equals a uniform value. It ends where other edges join, and nothing in it
//! waits, so no second lane can arrive before the first has left.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, Class, CompareOp, Function, InstData, IntBinaryOp, IntUnaryOp, Terminator, Type, Value,
};
use smallvec::SmallVec;

use crate::Order;
use crate::analysis::flow::Given;
use crate::analysis::variability::Variability;
use crate::cost;

/// Which lanes run a block.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum SingleLane {
    /// Any lanes.
    #[default]
    No,
    /// One lane that arrives from a block run by any; or the lanes of a lane loop, one at a time.
    Root,
    /// One lane that arrives from another such block.
    Inner,
}

/// Finds the regions. `variability` tells how values vary; `can_stop` whether lanes can stop at a
/// block or arrive there from elsewhere.
pub(crate) fn run(
    given: &Given<'_>,
    preds: &SecondaryMap<Block, Vec<Block>>,
    variability: &dyn Fn(Value) -> Variability,
    can_stop: &dyn Fn(Block) -> bool,
) -> SecondaryMap<Block, SingleLane> {
    let Given { func, order, .. } = *given;
    let lane = Lane {
        func,
        gang: given.gang,
        variability,
    };
    let mut single_lane = SecondaryMap::new();
    if given.gang == 1 {
        return single_lane;
    }
    for block in order.blocks() {
        for (root, taken) in sides(func, block) {
            let is_entered = single_lane[block] == SingleLane::No && preds[root] == [block];
            if !is_entered || !lane.is_behind(block, taken) {
                continue;
            }
            let region = region(func, order, preds, root);
            let around = order.enclosing(block);
            let stays = |&block: &Block| {
                let is_inside = |range| order.is_in(range, block);
                !can_stop(block) && around.as_ref().is_none_or(is_inside)
            };
            if region.iter().all(stays) {
                let inner = region.into_iter();
                inner.for_each(|block| single_lane[block] = SingleLane::Inner);
                single_lane[root] = SingleLane::Root;
            }
        }
    }
    single_lane
}

/// The blocks to which a conditional branch leads, unless they are one, and for which conditions.
fn sides(func: &Function, block: Block) -> SmallVec<[(Block, bool); 2]> {
    if let Terminator::Brif { then_, else_, .. } = &func.blocks[block].term
        && then_.block != else_.block
    {
        return SmallVec::from_slice(&[(then_.block, true), (else_.block, false)]);
    }
    SmallVec::new()
}

/// The blocks that are reached through `root` only.
pub(crate) fn region(
    func: &Function,
    order: &Order,
    preds: &SecondaryMap<Block, Vec<Block>>,
    root: Block,
) -> Vec<Block> {
    let mut inside: SecondaryMap<Block, bool> = SecondaryMap::new();
    let mut found = vec![root];
    inside[root] = true;
    let mut next = 0;
    while let Some(&block) = found.get(next) {
        next += 1;
        let targets = func.successors(block);
        found.extend(targets.filter(|&to| !std::mem::replace(&mut inside[to], true)));
    }
    // In layout order, a block with other predecessors is dropped before most of those behind it.
    found.sort_by_key(|&block| order.block_pos[block]);
    loop {
        let before = found.len();
        found.retain(|&block| {
            let stays = block == root || preds[block].iter().all(|&pred| inside[pred]);
            inside[block] = stays;
            stays
        });
        if found.len() == before {
            return found;
        }
    }
}

struct Lane<'a> {
    func: &'a Function,
    gang: u32,
    variability: &'a dyn Fn(Value) -> Variability,
}

impl Lane<'_> {
    /// Whether at most one lane of a gang can leave a block to one side of its branch.
    fn is_behind(&self, block: Block, taken: bool) -> bool {
        let cond = self.func.blocks[block].term.condition();
        cond.is_some_and(|cond| self.is_single_lane(cond, taken, cost::DEPTH_OF_CONDITION))
    }

    /// Whether at most one lane of a gang can have this truth value.
    fn is_single_lane(&self, cond: Value, truth: bool, depth: u32) -> bool {
        let Some(depth) = depth.checked_sub(1) else {
            return false;
        };
        match self.func.def_inst(cond) {
            Some(&InstData::Compare { op, ty, args }) => self.is_one_place(op, ty, args, truth),
            Some(&InstData::IntBinary { op, args, .. }) => {
                let any = if truth {
                    IntBinaryOp::And
                } else {
                    IntBinaryOp::Or
                };
                let mut args = args.into_iter();
                op == any && args.any(|arg| self.is_single_lane(arg, truth, depth))
            }
            Some(&InstData::IntUnary {
                op: IntUnaryOp::Not,
                arg,
                ..
            }) => self.is_single_lane(arg, !truth, depth),
            _ => false,
        }
    }

    fn is_one_place(&self, op: CompareOp, ty: Type, [a, b]: [Value; 2], truth: bool) -> bool {
        let constant = self.func.as_const(b);
        let equal = match (op, truth) {
            (CompareOp::Eq, true) | (CompareOp::Ne, false) => true,
            (CompareOp::Ult, true) | (CompareOp::Uge, false) => constant == Some(1),
            (CompareOp::Ule, true) | (CompareOp::Ugt, false) => constant == Some(0),
            _ => false,
        };
        let affine = match [a, b].map(self.variability) {
            [affine, Variability::Uniform] | [Variability::Uniform, affine] => affine,
            _ => return false,
        };
        equal
            && affine
                .exact_stride()
                .is_some_and(|stride| self.is_apart(stride, ty))
    }

    /// Whether no two lanes of a gang have the same element of a value of this stride.
    fn is_apart(&self, stride: i64, ty: Type) -> bool {
        let most = match ty {
            Type::B32 => i64::from(i32::MAX),
            Type::B64 => i64::MAX,
            Type::B1 | Type::B8 | Type::B16 => return false,
        };
        let span = stride.checked_mul(i64::from(self.gang) - 1);
        let span = span.and_then(i64::checked_abs);
        stride != 0 && span.is_some_and(|span| span <= most)
    }
}

/// Whether an instruction's result is a scalar where one lane runs: not if it depends on the lanes'
/// places in the gang.
pub(crate) fn is_scalar(data: &InstData) -> bool {
    data.class() == Class::Arithmetic
        || matches!(
            data,
            InstData::Const { .. }
                | InstData::Load { .. }
                | InstData::MaskedLoad { .. }
                | InstData::Atomic { .. }
                | InstData::ToGeneric { .. }
                | InstData::FromGeneric { .. }
        )
}
