//! Floating-point arithmetic, comparison, minimum and maximum in the four formats that arithmetic
//! works in.

use super::softfloat::Layout;
use super::{approx, exact};
use crate::ops::{FloatBinaryOp, FloatCompareOp, FloatUnaryOp};
use crate::types::{FloatFmt, FloatMode, Round};

/// One float in, one out.
pub fn float_unary(op: FloatUnaryOp, fmt: FloatFmt, mode: FloatMode, a: u64) -> u64 {
    let layout = Layout::of(fmt);
    let a = input(layout, mode.ftz, a);
    let result = match op {
        FloatUnaryOp::Neg => a ^ layout.sign(),
        FloatUnaryOp::Abs => a & layout.magnitude(),
        FloatUnaryOp::Sat => saturate(fmt, a),
        FloatUnaryOp::Relu => relu(layout, a),
        FloatUnaryOp::Copy => a,
        FloatUnaryOp::CanonicalNan if layout.is_nan(a) => layout.canonical_nan(),
        FloatUnaryOp::CanonicalNan => a,
        FloatUnaryOp::RoundInt => round_int(fmt, mode.round, a),
        FloatUnaryOp::Sqrt => exact::sqrt(fmt, mode, a),
        FloatUnaryOp::RcpApprox
        | FloatUnaryOp::SqrtApprox
        | FloatUnaryOp::RsqrtApprox
        | FloatUnaryOp::SinApprox
        | FloatUnaryOp::CosApprox
        | FloatUnaryOp::Lg2Approx
        | FloatUnaryOp::Ex2Approx
        | FloatUnaryOp::TanhApprox => approx::unary(op, fmt, mode, a),
    };
    output(layout, mode.ftz, result)
}

/// Two floats in, one out.
pub fn float_binary(op: FloatBinaryOp, fmt: FloatFmt, mode: FloatMode, a: u64, b: u64) -> u64 {
    let layout = Layout::of(fmt);
    let (a, b) = (input(layout, mode.ftz, a), input(layout, mode.ftz, b));
    let result = match op {
        FloatBinaryOp::Add => exact::add(fmt, mode, a, b),
        // A NaN keeps its sign.
        FloatBinaryOp::Sub if layout.is_nan(b) => exact::add(fmt, mode, a, b),
        FloatBinaryOp::Sub => exact::add(fmt, mode, a, b ^ layout.sign()),
        FloatBinaryOp::Mul => exact::mul(fmt, mode, a, b),
        FloatBinaryOp::Div => exact::div(fmt, mode, a, b),
        FloatBinaryOp::DivApprox => approx::div_approx(fmt, mode.ftz, a, b),
        FloatBinaryOp::DivFull => approx::div_full(fmt, mode.ftz, a, b),
        FloatBinaryOp::Min => number(layout, a, b, |a, b| {
            if layout.order(b) < layout.order(a) {
                b
            } else {
                a
            }
        }),
        FloatBinaryOp::Max => number(layout, a, b, |a, b| {
            if layout.order(b) > layout.order(a) {
                b
            } else {
                a
            }
        }),
        FloatBinaryOp::MinNan | FloatBinaryOp::MaxNan if layout.is_nan(a) || layout.is_nan(b) => {
            layout.canonical_nan()
        }
        FloatBinaryOp::MinNan => {
            if layout.order(b) < layout.order(a) {
                b
            } else {
                a
            }
        }
        FloatBinaryOp::MaxNan => {
            if layout.order(b) > layout.order(a) {
                b
            } else {
                a
            }
        }
    };
    output(layout, mode.ftz, result)
}

/// `a * b + c`, rounded once.
pub fn fma(fmt: FloatFmt, mode: FloatMode, a: u64, b: u64, c: u64) -> u64 {
    let layout = Layout::of(fmt);
    let [a, b, c] = [a, b, c].map(|arg| input(layout, mode.ftz, arg));
    output(layout, mode.ftz, exact::fma(fmt, mode, a, b, c))
}

/// Floating-point comparison; `ftz` flushes the operands.
pub fn float_compare(op: FloatCompareOp, fmt: FloatFmt, ftz: bool, a: u64, b: u64) -> bool {
    let layout = Layout::of(fmt);
    // Exact in all formats, so the host's comparison serves.
    let (a, b) = (
        exact::to_f64(fmt, input(layout, ftz, a)),
        exact::to_f64(fmt, input(layout, ftz, b)),
    );
    let unordered = a.is_nan() || b.is_nan();
    match op {
        FloatCompareOp::Eq => a == b,
        FloatCompareOp::Ne => !unordered && a != b,
        FloatCompareOp::Lt => a < b,
        FloatCompareOp::Le => a <= b,
        FloatCompareOp::Gt => a > b,
        FloatCompareOp::Ge => a >= b,
        FloatCompareOp::Equ => unordered || a == b,
        FloatCompareOp::Neu => unordered || a != b,
        FloatCompareOp::Ltu => unordered || a < b,
        FloatCompareOp::Leu => unordered || a <= b,
        FloatCompareOp::Gtu => unordered || a > b,
        FloatCompareOp::Geu => unordered || a >= b,
        FloatCompareOp::Num => !unordered,
        FloatCompareOp::Nan => unordered,
    }
}

/// Clamps to [+0, 1]; NaN and -0 give +0.
pub(super) fn saturate(fmt: FloatFmt, a: u64) -> u64 {
    let layout = Layout::of(fmt);
    if layout.is_nan(a) || layout.is_neg(a) {
        return 0;
    }
    let one = match fmt {
        FloatFmt::F16 => 0x3c00,
        FloatFmt::Bf16 => 0x3f80,
        FloatFmt::F32 => 0x3f80_0000,
        FloatFmt::F64 => 0x3ff0_0000_0000_0000,
    };
    a.min(one)
}

/// Rounds to an integral value in the same format; the sign of zero stays.
pub(super) fn round_int(fmt: FloatFmt, round: Round, a: u64) -> u64 {
    let x = exact::to_f64(fmt, a);
    // Exact: the integer nearest to a number of a format is itself a number of the format.
    exact::narrow(fmt, FloatMode::RN, integral(round, x))
}

/// The integral value that `x` rounds to.
pub(super) fn integral(round: Round, x: f64) -> f64 {
    match round {
        Round::Rn => x.round_ties_even(),
        Round::Rna => x.round(),
        Round::Rz => x.trunc(),
        Round::Rm => x.floor(),
        Round::Rp => x.ceil(),
    }
}

/// Negative numbers to +0, NaN to the canonical NaN.
pub(super) fn relu(layout: Layout, a: u64) -> u64 {
    if layout.is_nan(a) {
        layout.canonical_nan()
    } else if layout.is_neg(a) {
        0
    } else {
        a
    }
}

/// An operand's own bits, flushed under `.ftz`.
pub(super) fn input(layout: Layout, ftz: bool, a: u64) -> u64 {
    if ftz {
        layout.flush(a)
    } else {
        a & (layout.sign() | layout.magnitude())
    }
}

fn output(layout: Layout, ftz: bool, a: u64) -> u64 {
    if ftz { layout.flush(a) } else { a }
}

/// A NaN operand gives way to the other one; two give the canonical NaN.
fn number(layout: Layout, a: u64, b: u64, pick: impl FnOnce(u64, u64) -> u64) -> u64 {
    match (layout.is_nan(a), layout.is_nan(b)) {
        (true, true) => layout.canonical_nan(),
        (true, false) => b,
        (false, true) => a,
        (false, false) => pick(a, b),
    }
}
