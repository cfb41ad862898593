//! Powers of two that uniform values are known to be multiples of.

use ptxjit_ir::{Function, InstData, IntBinaryOp, SpecialReg, Value, ValueDef};

/// What a uniform value is known to be a multiple of, as log2; `of_row` is that of `%ntid.x`.
#[expect(clippy::wildcard_enum_match_arm, reason = "others may be odd")]
pub(crate) fn trailing_zeros(func: &Function, value: Value, of_row: u8) -> u8 {
    let ValueDef::Result(inst, _) = func.values[value].def else {
        return 0;
    };
    let of = |value: Value| trailing_zeros(func, value, of_row);
    match func.insts[inst].data {
        InstData::Const { bits, .. } => bits.trailing_zeros().min(31) as u8,
        InstData::Sreg {
            sreg: SpecialReg::NtidX,
        } => of_row,
        InstData::Resize { arg, .. } => of(arg),
        InstData::IntBinary {
            op: IntBinaryOp::Shl,
            args: [a, b],
            ..
        } => match func.as_const(b) {
            Some(c) if c < 32 => (of(a) + c as u8).min(31),
            _ => 0,
        },
        InstData::IntBinary {
            op: IntBinaryOp::Mul,
            args: [a, b],
            ..
        } => (of(a) + of(b)).min(31),
        InstData::IntBinary {
            op: IntBinaryOp::Add | IntBinaryOp::Sub | IntBinaryOp::Or,
            args: [a, b],
            ..
        } => of(a).min(of(b)),
        InstData::IntBinary {
            op: IntBinaryOp::And,
            args: [a, b],
            ..
        } => of(a).max(of(b)),
        _ => 0,
    }
}
