//! Powers of two that uniform values are known to be multiples of.

use ptxjit_ir::{Function, InstData, IntBinaryOp, SpecialReg, Value};

/// What a uniform value is known to be a multiple of, as log2; `of_row` is that of `%ntid.x`.
#[expect(clippy::wildcard_enum_match_arm, reason = "others may be odd")]
pub(crate) fn trailing_zeros(func: &Function, value: Value, of_row: u8) -> u8 {
    let of = |value: Value| trailing_zeros(func, value, of_row);
    let Some(data) = func.def_inst(value) else {
        return 0;
    };
    match *data {
        InstData::Const { bits, .. } => bits.trailing_zeros().min(31) as u8,
        InstData::Sreg {
            sreg: SpecialReg::NtidX,
        } => of_row,
        InstData::Resize { arg, .. } => of(arg),
        InstData::IntBinary { op, args, .. } => match (op, args) {
            (IntBinaryOp::Shl, [a, b]) => match func.as_const(b) {
                Some(count) if count < 32 => (of(a) + count as u8).min(31),
                _ => 0,
            },
            (IntBinaryOp::Mul, [a, b]) => (of(a) + of(b)).min(31),
            (IntBinaryOp::Add | IntBinaryOp::Sub | IntBinaryOp::Or, [a, b]) => of(a).min(of(b)),
            (IntBinaryOp::And, [a, b]) => of(a).max(of(b)),
            _ => 0,
        },
        _ => 0,
    }
}
