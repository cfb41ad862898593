//! The `.approx` and `.full` ops: computed in f64 and rounded once, far inside the ISA's bounds.
//!
//! The special values of the ISA's tables (infinities, zeros, NaNs, negative arguments) are those of the f64 functions.

use super::exact;
use super::softfloat::Layout;
use crate::ops::FloatUnaryOp;
use crate::types::{FloatFmt, FloatMode, Round};

/// An approximate function of one operand, which is flushed already if it is to be; the caller flushes the result.
pub(super) fn unary(op: FloatUnaryOp, fmt: FloatFmt, mode: FloatMode, a: u64) -> u64 {
    if fmt == FloatFmt::F64
        && mode.ftz
        && matches!(op, FloatUnaryOp::RcpApprox | FloatUnaryOp::RsqrtApprox)
    {
        return high_word(op, a);
    }
    exact::narrow(fmt, nearest(mode.ftz), function(op, exact::to_f64(fmt, a)))
}

/// `div.approx`: `a * (1/b)`, where the reciprocal of a number above 2^126 is zero.
pub(super) fn div_approx(fmt: FloatFmt, ftz: bool, a: u64, b: u64) -> u64 {
    let (x, y) = (exact::to_f64(fmt, a), exact::to_f64(fmt, b));
    const TWO_TO_126: f64 = f64::from_bits((1023 + 126) << 52);
    let flushes = fmt == FloatFmt::F32 && y.abs() > TWO_TO_126;
    let quotient = if flushes {
        x * 0.0f64.copysign(y)
    } else {
        x / y
    };
    exact::narrow(fmt, nearest(ftz), quotient)
}

/// `div.full`.
pub(super) fn div_full(fmt: FloatFmt, ftz: bool, a: u64, b: u64) -> u64 {
    exact::narrow(
        fmt,
        nearest(ftz),
        exact::to_f64(fmt, a) / exact::to_f64(fmt, b),
    )
}

fn nearest(ftz: bool) -> FloatMode {
    FloatMode {
        round: Round::Rn,
        ftz,
    }
}

fn function(op: FloatUnaryOp, x: f64) -> f64 {
    match op {
        FloatUnaryOp::RcpApprox => 1.0 / x,
        FloatUnaryOp::SqrtApprox => x.sqrt(),
        FloatUnaryOp::RsqrtApprox => 1.0 / x.sqrt(),
        FloatUnaryOp::SinApprox => x.sin(),
        FloatUnaryOp::CosApprox => x.cos(),
        FloatUnaryOp::Lg2Approx => x.log2(),
        FloatUnaryOp::Ex2Approx => x.exp2(),
        FloatUnaryOp::TanhApprox => x.tanh(),
        FloatUnaryOp::Neg
        | FloatUnaryOp::Abs
        | FloatUnaryOp::Sat
        | FloatUnaryOp::Relu
        | FloatUnaryOp::Copy
        | FloatUnaryOp::RoundInt
        | FloatUnaryOp::Sqrt => unreachable!("{op} is exact"),
    }
}

/// `rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64`: only the high words of operand and result count.
fn high_word(op: FloatUnaryOp, a: u64) -> u64 {
    const HIGH: u64 = 0xffff_ffff_0000_0000;
    const NAN: u64 = 0x7fff_ffff_0000_0000;
    let a = Layout::F64.flush(a & HIGH);
    let result = function(op, f64::from_bits(a));
    if result.is_nan() {
        NAN
    } else {
        result.to_bits() & HIGH
    }
}
