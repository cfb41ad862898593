//! Powers of two that values are multiples of, so that accesses are known to be aligned.
//!
//! Parameters of blocks are met over all edges, from the optimistic side: an address that a loop
//! advances by 16 bytes stays a multiple of 16 if it starts as one.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, InstData, IntBinaryOp, Value, VarId};
use ptxjit_vectorize::Plan;

/// Greater multiples are of no use: no access has more than 64 bytes.
pub(crate) const MOST: u8 = 6;

/// log2 of a power of two that each value is a multiple of; `align_of` is a variable's alignment.
pub(super) fn find(
    func: &Function,
    plan: &Plan,
    predecessors: &SecondaryMap<Block, Vec<Block>>,
    align_of: &dyn Fn(VarId) -> u32,
) -> SecondaryMap<Value, u8> {
    let mut known: SecondaryMap<Value, u8> = SecondaryMap::with_default(MOST);
    for block in plan.order.blocks() {
        // Parameters of blocks that other code leads to may be anything.
        if plan.starts_at(block) || predecessors[block].is_empty() {
            let params = func.blocks[block].params.iter();
            params.for_each(|&param| known[param] = 0);
        }
    }
    loop {
        let mut has_changed = false;
        let mut lower = |known: &mut SecondaryMap<Value, u8>, value: Value, to: u8| {
            has_changed |= to < known[value];
            known[value] = known[value].min(to);
        };
        for block in plan.order.blocks() {
            for node in func.insts_in(block) {
                let to = of_inst(func, &node.data, align_of, &|value| known[value]);
                for &result in &node.results {
                    lower(&mut known, result, to);
                }
            }
            for (param, arg) in func.passed_by(block) {
                let to = known[arg];
                lower(&mut known, param, to);
            }
        }
        if !has_changed {
            return known;
        }
    }
}

fn zeros(bits: u64) -> u8 {
    bits.trailing_zeros().min(u32::from(MOST)) as u8
}

#[expect(clippy::wildcard_enum_match_arm, reason = "others may be odd")]
fn of_inst(
    func: &Function,
    data: &InstData,
    align_of: &dyn Fn(VarId) -> u32,
    of: &dyn Fn(Value) -> u8,
) -> u8 {
    match *data {
        InstData::Const { bits, .. } => zeros(bits),
        InstData::VarAddr { var, offset } => zeros(u64::from(align_of(var)) | offset as u64),
        InstData::Alloca { align, .. } => zeros(u64::from(align)),
        // Windows begin at pages, and those of local memory at cache lines.
        InstData::Resize { arg, .. }
        | InstData::ToGeneric { arg, .. }
        | InstData::FromGeneric { arg, .. } => of(arg),
        InstData::EndLane { arg, .. } | InstData::FirstRunning { arg, .. } => of(arg),
        InstData::Select { args: [a, b], .. } => of(a).min(of(b)),
        InstData::IntBinary {
            op, args: [a, b], ..
        } => of_binary(op, [of(a), of(b)], func.as_const(b)),
        _ => 0,
    }
}

fn of_binary(op: IntBinaryOp, [a, b]: [u8; 2], count: Option<u64>) -> u8 {
    match op {
        IntBinaryOp::Add
        | IntBinaryOp::Sub
        | IntBinaryOp::Or
        | IntBinaryOp::Xor
        | IntBinaryOp::Smin
        | IntBinaryOp::Smax
        | IntBinaryOp::Umin
        | IntBinaryOp::Umax => a.min(b),
        IntBinaryOp::And => a.max(b),
        IntBinaryOp::Mul | IntBinaryOp::UmulWide | IntBinaryOp::SmulWide => (a + b).min(MOST),
        IntBinaryOp::Shl => match count {
            Some(count) => (u64::from(a) + count).min(u64::from(MOST)) as u8,
            None => a,
        },
        // What is left of a zero may be anything above.
        IntBinaryOp::Ushr
        | IntBinaryOp::Sshr
        | IntBinaryOp::UmulHi
        | IntBinaryOp::SmulHi
        | IntBinaryOp::Udiv
        | IntBinaryOp::Sdiv
        | IntBinaryOp::Urem
        | IntBinaryOp::Srem
        | IntBinaryOp::SaddSat
        | IntBinaryOp::SsubSat => 0,
    }
}
