//! What is known of the bits of a value.

use ptxjit_ir::{
    Function, InstData, IntBinaryOp, IntTernaryOp, IntUnaryOp, ResizeOp, SpecialReg, Value,
};

use super::Ctx;

/// How far definitions are followed.
const MAX_DEPTH: u32 = 6;

/// The bits that can be set in a value.
pub(super) fn possible(ctx: &Ctx, value: Value) -> u64 {
    possible_at(ctx.func, value, MAX_DEPTH)
}

/// The bits that can be set in a value, for callers without a context.
pub fn possible_in(func: &Function, value: Value) -> u64 {
    possible_at(func, value, MAX_DEPTH)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "others may set any bit")]
fn possible_at(func: &Function, value: Value, depth: u32) -> u64 {
    let all = func.ty(value).mask();
    let Some(data) = func.def_inst(value) else {
        return all;
    };
    if depth == 0 {
        return all;
    }
    let of = |value: Value| possible_at(func, value, depth - 1);
    let bits = match *data {
        InstData::Const { bits, .. } => bits,
        InstData::Sreg { sreg } => sreg_bits(sreg),
        InstData::Resize {
            op: ResizeOp::Uext | ResizeOp::Trunc,
            arg,
            ..
        } => of(arg),
        // The bits above are the sign's.
        InstData::Resize {
            op: ResizeOp::Sext,
            from,
            arg,
            ..
        } => match of(arg) {
            bits if bits >> (from.bits() - 1) == 0 => bits,
            bits => bits | !from.mask(),
        },
        InstData::IntUnary {
            op: IntUnaryOp::Popc | IntUnaryOp::Clz,
            ..
        } => 0x7f,
        InstData::Select { args: [a, b], .. } => of(a) | of(b),
        InstData::IntTernary {
            op: IntTernaryOp::UBfe,
            args: [_, _, len],
            ..
        } => match func.as_const(len) {
            Some(len) => low_bits((len & 0xff) as u32),
            None => all,
        },
        InstData::IntBinary {
            op, args: [a, b], ..
        } => binary_bits(func, op, a, b, &of),
        _ => all,
    };
    bits & all
}

fn binary_bits(
    func: &Function,
    op: IntBinaryOp,
    a: Value,
    b: Value,
    of: &dyn Fn(Value) -> u64,
) -> u64 {
    let c = func.as_const(b);
    match op {
        IntBinaryOp::And => of(a) & of(b),
        IntBinaryOp::Or | IntBinaryOp::Xor | IntBinaryOp::Umax => of(a) | of(b),
        IntBinaryOp::Shl => c.map_or(u64::MAX, |c| if c < 64 { of(a) << c } else { 0 }),
        IntBinaryOp::Ushr => c.map_or_else(
            || low_bits(width(of(a))),
            |c| if c < 64 { of(a) >> c } else { 0 },
        ),
        IntBinaryOp::Umin => low_bits(width(of(a)).min(width(of(b)))),
        IntBinaryOp::Add => match (of(a), of(b)) {
            (a, b) if a & b == 0 => a | b,
            (a, b) => low_bits(width(a).max(width(b)) + 1),
        },
        IntBinaryOp::Mul | IntBinaryOp::UmulWide => low_bits(width(of(a)) + width(of(b))),
        IntBinaryOp::Udiv if c.is_some_and(|c| c != 0) => low_bits(width(of(a))),
        IntBinaryOp::Urem => match c {
            Some(c) if c != 0 => low_bits(width(c - 1)),
            Some(_) | None => u64::MAX,
        },
        IntBinaryOp::Sub
        | IntBinaryOp::UmulHi
        | IntBinaryOp::SmulHi
        | IntBinaryOp::SmulWide
        | IntBinaryOp::Udiv
        | IntBinaryOp::Sdiv
        | IntBinaryOp::Srem
        | IntBinaryOp::Sshr
        | IntBinaryOp::Smin
        | IntBinaryOp::Smax
        | IntBinaryOp::SaddSat
        | IntBinaryOp::SsubSat => u64::MAX,
    }
}

/// Limits that CUDA sets for all devices.
#[expect(clippy::wildcard_enum_match_arm, reason = "others may set any bit")]
fn sreg_bits(sreg: SpecialReg) -> u64 {
    match sreg {
        SpecialReg::TidX | SpecialReg::TidY => 0x3ff,
        SpecialReg::TidZ => 0x3f,
        SpecialReg::NtidX | SpecialReg::NtidY => 0x7ff,
        SpecialReg::NtidZ => 0x7f,
        SpecialReg::LaneId => 0x1f,
        SpecialReg::CtaidX | SpecialReg::NctaidX => 0x7fff_ffff,
        SpecialReg::CtaidY | SpecialReg::CtaidZ | SpecialReg::NctaidY | SpecialReg::NctaidZ => {
            0xffff
        }
        _ => u64::MAX,
    }
}

/// A row of `n` bits.
pub(super) fn low_bits(n: u32) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

/// Number of bits up to the highest one.
pub(super) fn width(bits: u64) -> u32 {
    64 - bits.leading_zeros()
}
