//! Sums, products, quotients and square roots, rounded once in any direction.
//!
//! f16, bf16 and f32 operands are computed in f64, *rounded to odd*: if the f64 result is inexact,
//! its last bit is set. As f64 has more than two bits above twice their precision and a wider
//! exponent range, rounding that once more into the narrow format is the correct rounding of the
//! exact result (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved
//! algorithms using rounding to odd"). f64 itself uses the host's operations to nearest, and
//! 128-bit integers for the other directions.

use super::softfloat::{Finite, Layout, Num, Rounding};
use crate::types::{FloatFmt, FloatMode, Round};

/// `a + b`.
pub(super) fn add(fmt: FloatFmt, mode: FloatMode, a: u64, b: u64) -> u64 {
    if let Some(bits) = native_f32(fmt, mode, || f32(a) + f32(b)) {
        return bits;
    }
    match fmt {
        FloatFmt::F16 | FloatFmt::Bf16 | FloatFmt::F32 => narrow(
            fmt,
            mode,
            odd_sum(mode.round, to_f64(fmt, a), to_f64(fmt, b)),
        ),
        FloatFmt::F64 => {
            let native = f64::from_bits(a) + f64::from_bits(b);
            finish_f64(mode.round, native, [a, b], || {
                Some(soft_sum(mode.round, wide(a), wide(b), [a, b]))
            })
        }
    }
}

/// `a * b`.
pub(super) fn mul(fmt: FloatFmt, mode: FloatMode, a: u64, b: u64) -> u64 {
    if let Some(bits) = native_f32(fmt, mode, || f32(a) * f32(b)) {
        return bits;
    }
    match fmt {
        // A product of two 24-bit significands is exact in f64.
        FloatFmt::F16 | FloatFmt::Bf16 | FloatFmt::F32 => {
            narrow(fmt, mode, to_f64(fmt, a) * to_f64(fmt, b))
        }
        FloatFmt::F64 => {
            let native = f64::from_bits(a) * f64::from_bits(b);
            finish_f64(mode.round, native, [a, b], || {
                Some(wide(a)?.times(wide(b)?).pack(mode.round))
            })
        }
    }
}

/// `a / b`.
pub(super) fn div(fmt: FloatFmt, mode: FloatMode, a: u64, b: u64) -> u64 {
    if let Some(bits) = native_f32(fmt, mode, || f32(a) / f32(b)) {
        return bits;
    }
    match fmt {
        FloatFmt::F16 | FloatFmt::Bf16 | FloatFmt::F32 => {
            narrow(fmt, mode, odd_quotient(to_f64(fmt, a), to_f64(fmt, b)))
        }
        FloatFmt::F64 => {
            let native = f64::from_bits(a) / f64::from_bits(b);
            finish_f64(mode.round, native, [a, b], || {
                Some(wide(a)?.over(wide(b)?).pack(mode.round))
            })
        }
    }
}

/// Square root.
pub(super) fn sqrt(fmt: FloatFmt, mode: FloatMode, a: u64) -> u64 {
    if let Some(bits) = native_f32(fmt, mode, || f32(a).sqrt()) {
        return bits;
    }
    match fmt {
        FloatFmt::F16 | FloatFmt::Bf16 | FloatFmt::F32 => {
            narrow(fmt, mode, odd_sqrt(to_f64(fmt, a)))
        }
        FloatFmt::F64 => {
            let native = f64::from_bits(a).sqrt();
            finish_f64(mode.round, native, [a, a], || {
                Some(wide(a)?.sqrt().pack(mode.round))
            })
        }
    }
}

/// `a * b + c`, rounded once.
pub(super) fn fma(fmt: FloatFmt, mode: FloatMode, a: u64, b: u64, c: u64) -> u64 {
    match fmt {
        FloatFmt::F16 | FloatFmt::Bf16 | FloatFmt::F32 => {
            let product = to_f64(fmt, a) * to_f64(fmt, b);
            narrow(fmt, mode, odd_sum(mode.round, product, to_f64(fmt, c)))
        }
        FloatFmt::F64 => {
            let (x, y, z) = (f64::from_bits(a), f64::from_bits(b), f64::from_bits(c));
            // In the order in which x86 looks for NaNs.
            finish_f64(mode.round, x.mul_add(y, z), [b, a, c], || {
                let product = wide(a).zip(wide(b)).map(|(a, b)| a.times(b));
                let zero_sign = (a ^ b) & Layout::F64.sign();
                Some(soft_sum(mode.round, product, wide(c), [zero_sign, c]))
            })
        }
    }
}

/// The exact value of a number; f64 as it is.
pub(super) fn to_f64(fmt: FloatFmt, bits: u64) -> f64 {
    match fmt {
        FloatFmt::F64 => f64::from_bits(bits),
        FloatFmt::F32 => f64::from(f32(bits)),
        FloatFmt::Bf16 => f64::from(f32::from_bits((bits as u32) << 16)),
        FloatFmt::F16 => half_to_f64(bits),
    }
}

/// Rounds an f64 to a format. NaNs become canonical, in f64 quiet.
pub(super) fn narrow(fmt: FloatFmt, mode: FloatMode, x: f64) -> u64 {
    if let Some(bits) = native_f32(fmt, mode, || x as f32) {
        return bits;
    }
    let bits = x.to_bits();
    match fmt {
        FloatFmt::F64 if x.is_nan() => nan_f64(&[bits]),
        FloatFmt::F64 => bits,
        // Spelled out, so that the layout is a constant in each.
        FloatFmt::F16 => narrow_to(Layout::F16, mode, bits),
        FloatFmt::Bf16 => narrow_to(Layout::BF16, mode, bits),
        FloatFmt::F32 => narrow_to(Layout::F32, mode, bits),
    }
}

#[inline(always)]
fn narrow_to(layout: Layout, mode: FloatMode, bits: u64) -> u64 {
    match Layout::F64.unpack(bits) {
        Num::Nan => layout.canonical_nan(),
        Num::Inf { neg } => layout.with_sign(neg, layout.infinity()),
        Num::Zero { neg } => layout.with_sign(neg, 0),
        Num::Finite(x) => layout.pack(Rounding::of(mode), x),
    }
}

/// The result of the host's f32 operation if it is the one wanted. Under `.ftz` the least normal
/// number may have come from below and have to be flushed: see [`Rounding::ftz`].
#[inline(always)]
fn native_f32(fmt: FloatFmt, mode: FloatMode, operation: impl FnOnce() -> f32) -> Option<u64> {
    if fmt != FloatFmt::F32 || mode.round != Round::Rn {
        return None;
    }
    let result = operation();
    let is_clear = !mode.ftz || result.abs() != f32::MIN_POSITIVE;
    is_clear.then(|| {
        if mode.ftz {
            Layout::F32.flush(from_f32(result))
        } else {
            from_f32(result)
        }
    })
}

/// The bits of an f32, NaNs made canonical.
pub(super) fn from_f32(x: f32) -> u64 {
    if x.is_nan() {
        Layout::F32.canonical_nan()
    } else {
        x.to_bits().into()
    }
}

/// The NaN that an f64 operation on `args` gives: the first NaN among them made quiet, else the one
/// that x86 makes of nothing. The PTX ISA leaves it open which NaN is kept. Passes and compiled
/// code keep to this rule; for `a * b + c` the order is b, a, c.
pub(super) fn nan_f64(args: &[u64]) -> u64 {
    const QUIET: u64 = 1 << 51;
    const MADE: u64 = 0xfff8 << 48;
    let nan = args.iter().find(|&&arg| Layout::F64.is_nan(arg));
    nan.map_or(MADE, |nan| nan | QUIET)
}

fn f32(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn half_to_f64(bits: u64) -> f64 {
    let sign = (bits & 0x8000) << 48;
    let (exp, man) = (bits >> 10 & 0x1f, bits & 0x3ff);
    let magnitude = match exp {
        0 => (man as f64 * (1.0 / 16_777_216.0)).to_bits(),
        31 => 0x7ff << 52 | man << 42,
        _ => (exp + 1023 - 15) << 52 | man << 42,
    };
    f64::from_bits(sign | magnitude)
}

/// Moves the inexact nearest result `x` to its odd neighbour, toward `error`, the exact result
/// minus `x`.
fn to_odd(x: f64, error: f64) -> f64 {
    let bits = x.to_bits();
    if error == 0.0 || error.is_nan() || !x.is_finite() || bits & 1 != 0 {
        return x;
    }
    // Adding one moves away from zero. The even `x` cannot be zero or the last finite number here,
    // so neither end is passed.
    let grow = (error > 0.0) == (x > 0.0);
    f64::from_bits(if grow {
        bits.wrapping_add(1)
    } else {
        bits.wrapping_sub(1)
    })
}

/// `a + b` rounded to odd; an exact zero gets the sign that the final direction asks for. No
/// operand is so large that the sum overflows.
fn odd_sum(round: Round, a: f64, b: f64) -> f64 {
    let sum = a + b;
    if sum == 0.0 {
        return zero_sum(round, a.is_sign_negative(), b.is_sign_negative());
    }
    // Knuth's TwoSum: the error is exact.
    let b_part = sum - a;
    let a_part = sum - b_part;
    to_odd(sum, (a - a_part) + (b - b_part))
}

/// The sign of a sum that is exactly zero.
fn zero_sum(round: Round, a_neg: bool, b_neg: bool) -> f64 {
    let neg = if a_neg == b_neg {
        a_neg
    } else {
        round == Round::Rm
    };
    if neg { -0.0 } else { 0.0 }
}

/// `a / b` rounded to odd for operands of at most 24 bits, so that the remainder is exact and in
/// range.
fn odd_quotient(a: f64, b: f64) -> f64 {
    let quotient = a / b;
    if !quotient.is_finite() || b.is_infinite() {
        return quotient;
    }
    let remainder = (-quotient).mul_add(b, a);
    to_odd(quotient, if b < 0.0 { -remainder } else { remainder })
}

/// The square root rounded to odd for operands of at most 24 bits.
fn odd_sqrt(a: f64) -> f64 {
    let root = a.sqrt();
    if !root.is_finite() || root == 0.0 {
        return root;
    }
    to_odd(root, (-root).mul_add(root, a))
}

/// The result of an f64 operation, given the host's, to nearest: it stands for nearest, for
/// operands that are not finite and where `exact` (another direction) gives none.
fn finish_f64<const N: usize>(
    round: Round,
    native: f64,
    args: [u64; N],
    exact: impl FnOnce() -> Option<u64>,
) -> u64 {
    if native.is_nan() {
        return nan_f64(&args);
    }
    let special = args.iter().any(|&arg| !f64::from_bits(arg).is_finite());
    if round == Round::Rn || special {
        return native.to_bits();
    }
    exact().unwrap_or(native.to_bits())
}

/// A sum; none stands for a zero, whose sign is that of the f64 in `sides`.
fn soft_sum(round: Round, x: Option<Wide>, y: Option<Wide>, sides: [u64; 2]) -> u64 {
    let neg = sides.map(|side| Layout::F64.is_neg(side));
    let sum = match (x, y) {
        (None, None) => None,
        (Some(x), None) | (None, Some(x)) => Some(x),
        (Some(x), Some(y)) => x.plus(y),
    };
    sum.map_or_else(
        || zero_sum(round, neg[0], neg[1]).to_bits(),
        |sum| sum.pack(round),
    )
}

/// `±sig * 2^exp`, `sig` not zero; inexact ones have a sticky lowest bit below at least 60 others.
#[derive(Copy, Clone)]
struct Wide {
    neg: bool,
    exp: i32,
    sig: u128,
}

/// The value of a finite f64 that is not zero.
fn wide(bits: u64) -> Option<Wide> {
    match Layout::F64.unpack(bits) {
        Num::Finite(x) => Some(Wide {
            neg: x.neg,
            exp: x.exp,
            sig: x.sig.into(),
        }),
        Num::Nan | Num::Inf { .. } | Num::Zero { .. } => None,
    }
}

impl Wide {
    /// The same value with its leading bit at `bit`, which is not below its place now.
    fn lead_at(self, bit: u32) -> Wide {
        let shift = (self.sig.leading_zeros() + bit).saturating_sub(127);
        Wide {
            sig: self.sig << shift,
            exp: self.exp - shift as i32,
            ..self
        }
    }

    fn times(self, other: Wide) -> Wide {
        Wide {
            neg: self.neg != other.neg,
            exp: self.exp + other.exp,
            sig: self.sig * other.sig,
        }
    }

    /// Quotient of two 53-bit numbers: 64 bits and a sticky one.
    fn over(self, other: Wide) -> Wide {
        let (x, y) = (self.lead_at(126), other.lead_at(62));
        let (quotient, remainder) = (x.sig / y.sig, x.sig % y.sig);
        Wide {
            neg: x.neg != y.neg,
            exp: x.exp - y.exp,
            sig: quotient | u128::from(remainder != 0),
        }
    }

    fn sqrt(self) -> Wide {
        let x = self.lead_at(125);
        // An even exponent halves.
        let x = if x.exp & 1 == 0 {
            x
        } else {
            Wide {
                sig: x.sig << 1,
                exp: x.exp - 1,
                ..x
            }
        };
        let root = x.sig.isqrt();
        Wide {
            neg: false,
            exp: x.exp / 2,
            sig: root | u128::from(root * root != x.sig),
        }
    }

    /// The sum, none if it is zero. Operands have at most 107 bits, so the 18 and more bits below
    /// them lose a bit only where the operands are too far apart to cancel more than one leading
    /// bit; the sticky bit then stays below what is kept.
    fn plus(self, other: Wide) -> Option<Wide> {
        let (x, y) = (self.lead_at(124), other.lead_at(124));
        let (big, small) = if (x.exp, x.sig) >= (y.exp, y.sig) {
            (x, y)
        } else {
            (y, x)
        };
        let distance = (big.exp - small.exp) as u32;
        let shifted = small.sig.unbounded_shr(distance);
        let lost = shifted.unbounded_shl(distance) != small.sig;
        let addend = shifted | u128::from(lost);
        let sig = if big.neg == small.neg {
            big.sig + addend
        } else {
            big.sig - addend
        };
        (sig != 0).then_some(Wide { sig, ..big })
    }

    /// Rounds to f64.
    fn pack(self, round: Round) -> u64 {
        let excess = 64u32.saturating_sub(self.sig.leading_zeros());
        let kept = (self.sig >> excess) as u64;
        let lost = u128::from(kept) << excess != self.sig;
        let x = Finite {
            neg: self.neg,
            exp: self.exp + excess as i32,
            sig: kept | u64::from(lost),
        };
        Layout::F64.pack(Rounding::to(round), x)
    }
}
