//! Rematerializes addresses that are also used as numbers.
//!
//! An address that stems from an index that may wrap is a scalar while it serves as an address
//! alone, see [`crate::MayWrap`]. Compilers turn `x > 0 ? p[i - 1] : p[i]` into an access at
//! `p + 4 * (i - (x > 0))`: one such use at the edge of a tile would make every access to `p[i]` a
//! gather. So an instruction that computes with an address gets a copy of it that is computed again
//! from the index.
//!
//! ```text
//! block0: v3 = iadd v1, (shl (sext v2), 2); v4 = load [v3]
//! block1: v6 = iadd v3, v5; v7 = load [v6]
//! =>
//! block0: v3 = iadd v1, (shl (sext v2), 2); v4 = load [v3]
//! block1: v8 = iadd v1, (shl (sext v2), 2); v6 = iadd v8, v5; v7 = load [v6]
//! ```

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, Inst, InstData, IntBinaryOp, ResizeOp, Value};

use crate::analysis::divergence::Divergence;
use crate::analysis::flow::numbers_in;
use crate::cost;

/// Returns how many addresses are computed again.
pub(crate) fn run(func: &mut Function, optimistic: &Divergence) -> usize {
    let mut is_address: SecondaryMap<Value, bool> = SecondaryMap::new();
    let mut uses: Vec<(Value, Block)> = Vec::new();
    for block in func.blocks.keys() {
        for node in func.insts_in(block) {
            if let Some(access) = node.data.access() {
                is_address[access.addr] = true;
            }
            let numbers = numbers_in(optimistic, node).into_iter();
            let wrapped = numbers.filter(|&value| optimistic.variability(value).hides_wrap());
            uses.extend(wrapped.map(|value| (value, block)));
        }
    }
    uses.retain(|&(value, _)| is_address[value]);
    uses.sort_unstable();
    uses.dedup();
    let mut n_addresses = 0;
    for (value, block) in uses {
        n_addresses += usize::from(rematerialize(func, optimistic, block, value));
    }
    n_addresses
}

/// Computes an address again for the instructions of a block that use it as a number.
fn rematerialize(func: &mut Function, optimistic: &Divergence, block: Block, value: Value) -> bool {
    let computes = |inst: &Inst| numbers_in(optimistic, &func.insts[*inst]).contains(&value);
    let insts = &func.blocks[block].insts;
    let users: Vec<Inst> = insts.iter().copied().filter(&computes).collect();
    let Some(at) = insts.iter().position(computes) else {
        return false;
    };
    let mut made = Vec::new();
    let Some(own) = copy(func, optimistic, value, cost::DEPTH_OF_ADDRESS, &mut made) else {
        return false;
    };
    func.blocks[block].insts.splice(at..at, made);
    for user in users {
        for arg in func.insts[user].data.args_mut() {
            if *arg == value {
                *arg = own;
            }
        }
    }
    true
}

/// Computes a value again from the narrow index that it stems from.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are kept")]
fn copy(
    func: &mut Function,
    optimistic: &Divergence,
    value: Value,
    depth: u32,
    made: &mut Vec<Inst>,
) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    let inst = func.maker(value)?;
    let mut data = func.insts[inst].data.clone();
    match data {
        InstData::Resize {
            op: ResizeOp::Sext | ResizeOp::Uext,
            ..
        }
        | InstData::IntBinary {
            op: IntBinaryOp::SmulWide | IntBinaryOp::UmulWide,
            ..
        } => {}
        InstData::IntBinary {
            op: IntBinaryOp::Add | IntBinaryOp::Sub | IntBinaryOp::Mul | IntBinaryOp::Shl,
            ..
        } => {
            for arg in data.args_mut() {
                if optimistic.variability(*arg).may_wrap().is_some() {
                    *arg = copy(func, optimistic, *arg, depth, made)?;
                }
            }
        }
        _ => return None,
    }
    let (ty, loc) = (func.ty(value), func.insts[inst].loc);
    let new = func.make_inst(data, &[ty], loc);
    made.push(new);
    Some(func.insts[new].results[0])
}
