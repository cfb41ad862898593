//! `cvt` between all number formats.
//!
//! Order of the steps: flush the input, take it apart, round once into the destination, then
//! `.relu`, `.satfinite`, `.sat`, and flush the result.

use super::float::{input, integral, saturate};
use super::int;
use super::softfloat::{Direction, Finite, Layout, Num, Rounding};
use crate::types::{Convert, FloatFmt, NumFmt, Round};

/// A conversion without random bits.
pub fn convert(cvt: &Convert, a: u64) -> u64 {
    let a = a & cvt.from.ty().mask();
    match (cvt.from.is_int(), cvt.to.is_int()) {
        (true, true) => int_to_int(cvt, a),
        (true, false) => from_num(cvt, Direction::To(cvt.round), int_num(cvt.from, a)),
        (false, true) => float_to_int(cvt, a),
        (false, false) => float_to_float(cvt, a),
    }
}

/// A conversion from f32 with stochastic rounding; `bits` are the random bits, left-aligned in a
/// `B32`.
pub fn convert_rs(cvt: &Convert, a: u64, bits: u64) -> u64 {
    from_num(
        cvt,
        Direction::Stochastic(bits as u32),
        float_num(cvt, a & cvt.from.ty().mask()),
    )
}

fn int_to_int(cvt: &Convert, a: u64) -> u64 {
    let value = int_value(cvt.from, a);
    let value = if cvt.sat {
        value.clamp(int_min(cvt.to), int_max(cvt.to))
    } else {
        value
    };
    value as u64 & cvt.to.ty().mask()
}

/// The value of an integer encoding.
fn int_value(fmt: NumFmt, a: u64) -> i128 {
    if fmt.is_signed_int() {
        int::signed(fmt.ty(), a).into()
    } else {
        a.into()
    }
}

fn int_min(fmt: NumFmt) -> i128 {
    if fmt.is_signed_int() {
        -(1 << (fmt.ty().bits() - 1))
    } else {
        0
    }
}

fn int_max(fmt: NumFmt) -> i128 {
    i128::from(fmt.ty().mask() >> u32::from(fmt.is_signed_int()))
}

fn int_num(fmt: NumFmt, a: u64) -> Num {
    let value = int_value(fmt, a);
    let (neg, sig) = (value < 0, value.unsigned_abs() as u64);
    if sig == 0 {
        Num::Zero { neg: false }
    } else {
        Num::Finite(Finite { neg, exp: 0, sig })
    }
}

/// Float to integer: rounds to an integral value and clamps.
fn float_to_int(cvt: &Convert, a: u64) -> u64 {
    let mask = cvt.to.ty().mask();
    match float_num(cvt, a) {
        Num::Zero { .. } => 0,
        Num::Nan => {
            let indefinite = cvt.from == NumFmt::F64 || matches!(cvt.to, NumFmt::S64 | NumFmt::U64);
            if indefinite {
                1 << (cvt.to.ty().bits() - 1)
            } else {
                0
            }
        }
        Num::Inf { neg } => {
            (if neg {
                int_min(cvt.to)
            } else {
                int_max(cvt.to)
            }) as u64
                & mask
        }
        Num::Finite(x) => {
            // Every format's numbers are exact in f64.
            let magnitude = Layout::F64.pack(Rounding::to(Round::Rz), x);
            let value = integral(cvt.round, f64::from_bits(magnitude)) as i128;
            value.clamp(int_min(cvt.to), int_max(cvt.to)) as u64 & mask
        }
    }
}

fn float_to_float(cvt: &Convert, a: u64) -> u64 {
    match arithmetic_fmt(cvt.to) {
        Some(fmt) if cvt.from == cvt.to => same_format(cvt, fmt, a),
        Some(FloatFmt::F64) if !cvt.sat && float_num(cvt, a) == Num::Nan => nan_to_f64(cvt, a),
        Some(FloatFmt::F32) if !cvt.sat && !cvt.relu && float_num(cvt, a) == Num::Nan => {
            nan_to_f32(cvt, a)
        }
        Some(_) | None => from_num(cvt, Direction::To(cvt.round), float_num(cvt, a)),
    }
}

/// A NaN of a narrower format in f64: quiet, its payload in the upper bits.
fn nan_to_f64(cvt: &Convert, a: u64) -> u64 {
    match arithmetic_fmt(cvt.from).map(Layout::of) {
        Some(from) if !cvt.relu => {
            let to = Layout::F64;
            let payload = (a & ((1 << from.man_bits) - 1)) << (to.man_bits - from.man_bits);
            let quiet = 1 << (to.man_bits - 1);
            to.with_sign(from.is_neg(a), to.infinity() | quiet | payload)
        }
        _ => Layout::F64.canonical_nan(),
    }
}

/// A NaN of another format in f32. Hardware moves the bits of a bf16 as they are, and keeps of f64
/// what of the payload there is room for, made quiet.
#[expect(clippy::wildcard_enum_match_arm, reason = "others have one NaN")]
fn nan_to_f32(cvt: &Convert, a: u64) -> u64 {
    let to = Layout::F32;
    match cvt.from {
        NumFmt::Bf16 => a << 16,
        NumFmt::F64 => {
            let from = Layout::F64;
            let payload = a >> (from.man_bits - to.man_bits) & ((1 << to.man_bits) - 1);
            let quiet = 1 << (to.man_bits - 1);
            to.with_sign(from.is_neg(a), to.infinity() | quiet | payload)
        }
        _ => to.canonical_nan(),
    }
}

/// Copy or round to integral; a copied NaN keeps its payload.
fn same_format(cvt: &Convert, fmt: FloatFmt, a: u64) -> u64 {
    let layout = Layout::of(fmt);
    let a = input(layout, flushes(cvt, cvt.from), a);
    let a = if cvt.integral {
        super::float::round_int(fmt, cvt.round, a)
    } else {
        a
    };
    let a = if cvt.relu {
        super::float::relu(layout, a)
    } else {
        a
    };
    let a = if cvt.satfinite && layout.is_inf(a) {
        layout.with_sign(layout.is_neg(a), layout.max_finite())
    } else {
        a
    };
    if cvt.sat { saturate(fmt, a) } else { a }
}

/// `.ftz` is about f32 only.
fn flushes(cvt: &Convert, fmt: NumFmt) -> bool {
    cvt.ftz && fmt == NumFmt::F32
}

fn arithmetic_fmt(fmt: NumFmt) -> Option<FloatFmt> {
    [FloatFmt::F16, FloatFmt::Bf16, FloatFmt::F32, FloatFmt::F64]
        .into_iter()
        .find(|float| float.num() == fmt)
}

/// The number that float encoding `a` of the source format stands for, after flushing.
fn float_num(cvt: &Convert, a: u64) -> Num {
    match Layout::of_num(cvt.from) {
        Some(layout) => {
            // A tf32 lies in the high bits of its register.
            let a = if cvt.from == NumFmt::Tf32 {
                a >> TF32_SHIFT
            } else {
                a
            };
            layout.unpack(input(layout, flushes(cvt, cvt.from), a))
        }
        None if cvt.from == NumFmt::Ue8m0 && a != UE8M0_NAN => Num::Finite(Finite {
            neg: false,
            exp: a as i32 - UE8M0_BIAS,
            sig: 1,
        }),
        None if cvt.from.is_int() => int_num(cvt.from, a),
        None => Num::Nan,
    }
}

const TF32_SHIFT: u32 = 13;
const UE8M0_NAN: u64 = 0xff;
const UE8M0_BIAS: i32 = 127;

/// Rounds a number into the destination, a float format.
fn from_num(cvt: &Convert, direction: Direction, num: Num) -> u64 {
    let Some(layout) = Layout::of_num(cvt.to) else {
        return to_ue8m0(cvt, num);
    };
    let bits = match num {
        // `.relu` makes no difference: formats without NaN have no other positive maximum to offer.
        Num::Nan if layout.canonical_nan() > layout.max_finite() => layout.canonical_nan(),
        Num::Nan => layout.max_finite(),
        Num::Zero { neg } | Num::Inf { neg } | Num::Finite(Finite { neg, .. })
            if neg && cvt.relu =>
        {
            0
        }
        Num::Zero { neg } => layout.with_sign(neg, 0),
        Num::Inf { neg } if cvt.satfinite => layout.with_sign(neg, layout.max_finite()),
        Num::Inf { neg } => layout.with_sign(neg, layout.infinity()),
        Num::Finite(x) => {
            let magnitude = layout.pack_magnitude(
                Rounding {
                    direction,
                    ftz: flushes(cvt, cvt.to),
                },
                x,
            );
            let magnitude = match magnitude > layout.max_finite() {
                true if cvt.satfinite => layout.max_finite(),
                true => layout.overflow(direction, x),
                false => magnitude,
            };
            layout.with_sign(x.neg, magnitude)
        }
    };
    let bits = match arithmetic_fmt(cvt.to) {
        Some(fmt) if cvt.sat => saturate(fmt, bits),
        Some(_) | None => bits,
    };
    if cvt.to == NumFmt::Tf32 {
        bits << TF32_SHIFT
    } else if flushes(cvt, cvt.to) {
        layout.flush(bits)
    } else {
        bits
    }
}

/// ue8m0 holds a power of two: the magnitude of the source rounded down (`.rz`) or up (`.rp`) to
/// one.
fn to_ue8m0(cvt: &Convert, num: Num) -> u64 {
    const MAX: u64 = 0xfe;
    let x = match num {
        Num::Nan => return UE8M0_NAN,
        Num::Zero { .. } => return 0,
        Num::Inf { .. } => return if cvt.satfinite { MAX } else { UE8M0_NAN },
        Num::Finite(x) => x,
    };
    let up = match cvt.round {
        Round::Rp => !x.sig.is_power_of_two(),
        Round::Rz | Round::Rm => false,
        // Not offered by PTX: to nearest on the significand.
        Round::Rn | Round::Rna => x.sig.unbounded_shl(x.sig.leading_zeros() + 1) >> 63 != 0,
    };
    let exp = x.exp + 63 - x.sig.leading_zeros() as i32 + i32::from(up) + UE8M0_BIAS;
    match u64::try_from(exp) {
        Err(_) => 0,
        Ok(exp) if exp <= MAX => exp,
        Ok(_) if cvt.satfinite => MAX,
        Ok(_) => UE8M0_NAN,
    }
}
