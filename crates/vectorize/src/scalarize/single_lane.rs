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

use crate::analysis::variability::Variability;
use crate::cost;
use crate::{Node, Order};

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
    func: &Function,
    order: &Order,
    gang: u32,
    preds: &SecondaryMap<Block, Vec<Block>>,
    variability: &dyn Fn(Value) -> Variability,
    can_stop: &dyn Fn(Block) -> bool,
) -> SecondaryMap<Block, SingleLane> {
    let mut single_lane = SecondaryMap::new();
    if gang == 1 {
        return single_lane;
    }
    for node in &order.nodes {
        let Node::Block(block) = *node else { continue };
        let Terminator::Brif { cond, then_, else_ } = &func.blocks[block].term else {
            continue;
        };
        if single_lane[block] != SingleLane::No || then_.block == else_.block {
            continue;
        }
        for (root, taken) in [(then_.block, true), (else_.block, false)] {
            let lane = Lane {
                func,
                gang,
                variability,
            };
            if preds[root] == [block] && lane.is_single_lane(*cond, taken, cost::DEPTH_OF_CONDITION)
            {
                let region = region(func, order, preds, root);
                let whole = enclosing(order, block);
                let stays = |block: Block| {
                    let pos = order.block_pos[block].expect("reachable") as usize;
                    !can_stop(block) && whole.as_ref().is_none_or(|range| range.contains(&pos))
                };
                if region.iter().all(|&block| stays(block)) {
                    region
                        .iter()
                        .for_each(|&block| single_lane[block] = SingleLane::Inner);
                    single_lane[root] = SingleLane::Root;
                }
            }
        }
    }
    single_lane
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
        for call in func.blocks[block].term.targets() {
            if !std::mem::replace(&mut inside[call.block], true) {
                found.push(call.block);
            }
        }
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

/// The positions of the innermost loop that contains a block.
pub(crate) fn enclosing(order: &Order, block: Block) -> Option<std::ops::RangeInclusive<usize>> {
    let pos = order.block_pos[block].expect("reachable") as usize;
    order.nodes[pos..].iter().find_map(|node| match *node {
        Node::LoopEnd(header) => order
            .loop_range(header)
            .filter(|range| range.contains(&pos)),
        Node::Block(_) => None,
    })
}

struct Lane<'a> {
    func: &'a Function,
    gang: u32,
    variability: &'a dyn Fn(Value) -> Variability,
}

impl Lane<'_> {
    /// Whether at most one lane of a gang can have this truth value.
    fn is_single_lane(&self, cond: Value, truth: bool, depth: u32) -> bool {
        let Some(depth) = depth.checked_sub(1) else {
            return false;
        };
        match self.func.def_inst(cond) {
            Some(&InstData::Compare { op, ty, args }) => self.is_one_place(op, ty, args, truth),
            Some(&InstData::IntBinary { op, args, .. })
                if matches!(
                    (op, truth),
                    (IntBinaryOp::And, true) | (IntBinaryOp::Or, false)
                ) =>
            {
                args.iter()
                    .any(|&arg| self.is_single_lane(arg, truth, depth))
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
        let stride = match ((self.variability)(a), (self.variability)(b)) {
            (
                Variability::Affine {
                    stride,
                    may_wrap: None,
                    ..
                },
                Variability::Uniform,
            )
            | (
                Variability::Uniform,
                Variability::Affine {
                    stride,
                    may_wrap: None,
                    ..
                },
            ) => stride,
            _ => return false,
        };
        let most = match ty {
            Type::B32 => i64::from(i32::MAX),
            Type::B64 => i64::MAX,
            Type::B1 | Type::B8 | Type::B16 => return false,
        };
        let span = stride.checked_mul(i64::from(self.gang) - 1);
        equal
            && stride != 0
            && span
                .and_then(i64::checked_abs)
                .is_some_and(|span| span <= most)
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
