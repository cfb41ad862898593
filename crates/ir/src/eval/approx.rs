//! The `.approx` and `.full` ops. Compiled code does the same in vectors, step by step, so that all
//! engines give the same bits: a change of an order or a constant here is one there
//! (`ops/math.rs` of the code generator).
//!
//! f16 and bf16 go by way of f32 and are rounded once more. What has no inline form is computed in
//! f64 and rounded once. Bounds and special values are those of the tables in "Floating Point
//! Instructions" of the PTX ISA; the errors in the comments are measured over all inputs.

use super::exact;
use super::softfloat::Layout;
use crate::ops::FloatUnaryOp;
use crate::types::{FloatFmt, FloatMode, Round};

/// Added to a number below 2^22, rounds it to an integer, which then lies in the low bits of the
/// sum.
pub const ROUND_TO_INT: f64 = 12_582_912.0;

/// 2^x on [-0.5, 0.5].
pub const EX2: [f64; 7] = [
    1.0,
    0.693_147_188_026_228_8,
    0.240_226_507_605_680_9,
    0.055_503_571_142_191_26,
    0.009_618_082_557_285_997,
    0.001_339_086_346_364_825_2,
    0.000_154_531_629_421_180_66,
];

/// log2(1 + x) / x for 1 + x from sqrt(1/2) to sqrt(2).
pub const LG2: [f64; 8] = [
    1.442_694_994_893_046_5,
    -0.721_352_931_362_973_6,
    0.480_916_708_000_228_7,
    -0.360_225_182_461_030_14,
    0.287_288_882_373_849_3,
    -0.249_271_822_074_447_65,
    0.232_652_578_821_631_32,
    -0.142_759_734_361_442_99,
];

/// sin(x) / x by x² on [-π/2, π/2]; chosen so that x times this is never above 1 and is 1 at π/2.
pub const SIN: [f64; 5] = [
    1.0,
    -0.166_666_61,
    0.008_333_223,
    -0.000_198_229_57,
    0.000_002_634_697_2,
];

/// tanh(x) = x P(x²) / Q(x²) below [`TANH_ONE`]; both begin with the same number, so that tiny
/// arguments are their own results.
pub const TANH_P: [f64; 7] = [
    4.893_525_185_543_85e-3,
    6.372_619_288_754_36e-4,
    1.485_722_357_179_79e-5,
    5.122_297_090_371_14e-8,
    -8.604_671_522_137_35e-11,
    2.000_187_904_824_77e-13,
    -2.760_768_477_423_55e-16,
];
/// See [`TANH_P`].
pub const TANH_Q: [f64; 4] = [
    4.893_525_185_543_85e-3,
    2.268_434_632_439_00e-3,
    1.185_347_056_866_54e-4,
    1.198_258_394_667_02e-6,
];

/// From here on tanh is 1 to within 2^-21.
pub const TANH_ONE: f32 = 7.905_311;

/// π cut off, not rounded: this and the rest are positive, and zeros keep their sign through the
/// reduction.
pub const PI_HIGH: f32 = f32::from_bits(0x4049_0fda);

/// From here on sines and cosines are those of f64.
pub const MANY_TURNS: f32 = 131_072.0;

/// An approximate function of one operand, which is flushed already if it is to be; the caller
/// flushes the result.
pub(super) fn unary(op: FloatUnaryOp, fmt: FloatFmt, mode: FloatMode, a: u64) -> u64 {
    let by_high_word = matches!(op, FloatUnaryOp::RcpApprox | FloatUnaryOp::RsqrtApprox);
    match fmt {
        FloatFmt::F64 if mode.ftz && by_high_word => high_word(op, a),
        FloatFmt::F64 => exact::narrow(fmt, nearest(mode.ftz), function(op, f64::from_bits(a))),
        FloatFmt::F32 => unary_f32(op, mode.ftz, f32::from_bits(a as u32)),
        FloatFmt::F16 | FloatFmt::Bf16 => {
            // What is subnormal in f32 is zero in f16.
            let ftz = op == FloatUnaryOp::Ex2Approx && (mode.ftz || fmt == FloatFmt::F16);
            let wide = unary_f32(op, ftz, exact::to_f64(fmt, a) as f32);
            exact::narrow(fmt, nearest(mode.ftz), exact::to_f64(FloatFmt::F32, wide))
        }
    }
}

/// `div.approx`: the quotient, but a zero times `a` if `b` is above 2^126, whose reciprocal the
/// hardware flushes.
pub(super) fn div_approx(fmt: FloatFmt, ftz: bool, a: u64, b: u64) -> u64 {
    if fmt != FloatFmt::F32 {
        let quotient = exact::to_f64(fmt, a) / exact::to_f64(fmt, b);
        return exact::narrow(fmt, nearest(ftz), quotient);
    }
    if f32::from_bits(b as u32).abs() > 2f32.powi(126) {
        let zero = b & Layout::F32.sign();
        return exact::mul(fmt, nearest(ftz), a, zero);
    }
    exact::div(fmt, nearest(ftz), a, b)
}

/// `div.full`.
pub(super) fn div_full(fmt: FloatFmt, ftz: bool, a: u64, b: u64) -> u64 {
    exact::div(fmt, nearest(ftz), a, b)
}

fn nearest(ftz: bool) -> FloatMode {
    FloatMode {
        round: Round::Rn,
        ftz,
    }
}

fn unary_f32(op: FloatUnaryOp, ftz: bool, x: f32) -> u64 {
    let y = match op {
        FloatUnaryOp::RcpApprox => {
            let one = u64::from(1f32.to_bits());
            return exact::div(FloatFmt::F32, nearest(ftz), one, x.to_bits().into());
        }
        FloatUnaryOp::SqrtApprox => x.sqrt(),
        // Both roundings together stay below 2^-23, the bound is 2^-22.9.
        FloatUnaryOp::RsqrtApprox => 1.0 / x.sqrt(),
        FloatUnaryOp::SinApprox => sin_cos(false, x),
        FloatUnaryOp::CosApprox => sin_cos(true, x),
        FloatUnaryOp::Lg2Approx => lg2(x),
        FloatUnaryOp::Ex2Approx if ftz => ex2(x),
        FloatUnaryOp::Ex2Approx => ex2_subnormal(x),
        FloatUnaryOp::TanhApprox => tanh(x),
        FloatUnaryOp::Neg
        | FloatUnaryOp::Abs
        | FloatUnaryOp::Sat
        | FloatUnaryOp::Relu
        | FloatUnaryOp::Copy
        | FloatUnaryOp::CanonicalNan
        | FloatUnaryOp::RoundInt
        | FloatUnaryOp::Sqrt => unreachable!("{op} is exact"),
    };
    exact::from_f32(y)
}

/// The polynomial with these coefficients, lowest first.
fn polynomial<const N: usize>(x: f32, coefficients: &[f64; N]) -> f32 {
    let highest = coefficients[N - 1] as f32;
    let rest = coefficients[..N - 1].iter().rev();
    rest.fold(highest, |sum, &coefficient| {
        sum.mul_add(x, coefficient as f32)
    })
}

/// The integer nearest to `x`, as a float and in the low bits of an integer.
fn split_int(x: f32) -> (f32, u32) {
    let sum = x + ROUND_TO_INT as f32;
    (sum - ROUND_TO_INT as f32, sum.to_bits())
}

/// 2^x, zero where it would be subnormal: 0.9 ulp. Integers give exact results.
fn ex2(x: f32) -> f32 {
    if x.is_nan() {
        return x;
    }
    // Of negative numbers as integers nothing is greater than this.
    let clamped = (x.to_bits() as i32).min(128f32.to_bits() as i32);
    let clamped = f32::from_bits(clamped as u32);
    let (whole, count) = split_int(clamped);
    let power = polynomial(clamped - whole, &EX2);
    // Of 2^128 this makes an infinity.
    let scaled = power.to_bits().wrapping_add(count << 23);
    if x >= -126.0 {
        f32::from_bits(scaled)
    } else {
        0.0
    }
}

/// 2^x with subnormal results.
fn ex2_subnormal(x: f32) -> f32 {
    let (shift, back) = if x < -126.0 {
        (64.0, 1.0 / 18_446_744_073_709_551_616.0)
    } else {
        (0.0, 1.0)
    };
    // The sum is exact where the shift is not zero: it takes x nearer to zero.
    ex2(x + shift) * back
}

/// log2(x): absolute error 2^-22.8 in (0.5, 2), relative error 2^-23 elsewhere.
fn lg2(x: f32) -> f32 {
    if x == 0.0 {
        return f32::NEG_INFINITY;
    }
    if x < 0.0 {
        return f32::NAN;
    }
    if x.is_nan() || x.is_infinite() {
        return x;
    }
    let (normal, down) = if x < f32::MIN_POSITIVE {
        (x * 16_777_216.0, 24.0)
    } else {
        (x, 0.0)
    };
    // The significand goes from sqrt(1/2) to sqrt(2), so that results near zero have no exponent to
    // cancel.
    let root = core::f32::consts::FRAC_1_SQRT_2.to_bits();
    let above = normal.to_bits().wrapping_sub(root);
    let exponent = (above as i32 >> 23) as f32 - down;
    let significand = f32::from_bits((above & 0x007f_ffff) + root);
    let part = significand - 1.0;
    part.mul_add(polynomial(part, &LG2), exponent)
}

/// sin or cos: absolute error 2^-22.
fn sin_cos(cos: bool, x: f32) -> f32 {
    if x.abs() >= MANY_TURNS {
        let x = f64::from(x);
        return if cos { x.cos() } else { x.sin() } as f32;
    }
    let (per_turn, big) = (core::f32::consts::FRAC_1_PI, ROUND_TO_INT as f32);
    // cos(x) is sin(x - (k - 1/2) π) with the sign of k: precise near its zeros too, where tangents
    // come from.
    let (sum, turns) = if cos {
        let sum = x.mul_add(per_turn, 0.5) + big;
        (sum, sum - big - 0.5)
    } else {
        let sum = x.mul_add(per_turn, big);
        (sum, sum - big)
    };
    let low = -(core::f64::consts::PI - f64::from(PI_HIGH)) as f32;
    let angle = turns.mul_add(-PI_HIGH, x);
    let angle = turns.mul_add(low, angle);
    // A factor, so that -0 stays -0.
    let y = polynomial(angle * angle, &SIN) * angle;
    // Odd half turns change the sign.
    f32::from_bits(y.to_bits() ^ sum.to_bits() << 31)
}

/// tanh: relative error 2^-21.
fn tanh(x: f32) -> f32 {
    let magnitude = x.abs();
    if x.is_nan() {
        return x;
    }
    if magnitude >= TANH_ONE {
        return 1f32.copysign(x);
    }
    let square = magnitude * magnitude;
    let ratio = polynomial(square, &TANH_P) / polynomial(square, &TANH_Q);
    (ratio * magnitude).copysign(x)
}

/// A function in f64.
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
        | FloatUnaryOp::CanonicalNan
        | FloatUnaryOp::RoundInt
        | FloatUnaryOp::Sqrt => unreachable!("{op} is exact"),
    }
}

/// `rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64`: only the high words of operand and result
/// count.
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
