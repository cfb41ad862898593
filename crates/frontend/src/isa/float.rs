//! Arithmetic on f32, f64 and f32x2: PTX ISA, "Floating Point Instructions".
//!
//! Rounding is to nearest even where none is written; nothing is ever contracted into a fused
//! operation. Targets before sm_20 flush f32 subnormals throughout. Before PTX 1.4 `div`, `rcp`,
//! `sqrt`, `rsqrt`, `sin`, `cos`, `lg2` and `ex2` name no accuracy and mean `.approx.ftz` for f32,
//! `.rn` for f64.
//!
//! The file is long because it is one chapter of the ISA.

use ptxjit_ir::{
    CompareOp, Convert, FloatBinaryOp, FloatCompareOp, FloatFmt, FloatMode, FloatUnaryOp,
    IntBinaryOp, NumFmt, Round, Type, Value,
};

use crate::translate::{Inst, Translator};

use super::common::{
    Done, ROUND, clamp_result, fmt_of, is_flushed, lanewise, map1, map2, map3, mode_for,
};
use super::desc::{A, B, C, D, DP, Gate, InstDesc, inst, since};
use super::modifiers::Mod;
use super::modifiers::Mod::{
    Abs, Approx, Finite, Ftz, Full, Infinite, NaN, Normal, Notanumber, Number, Rm, Rp, Rz, Sat,
    Subnormal, Xorsign,
};
use super::types::PtxType;
use super::types::PtxType::{F32, F32x2, F64};

const TYPE_F32: &[&[PtxType]] = &[&[F32]];
const TYPE_F32X2: &[&[PtxType]] = &[&[F32x2]];
const TYPE_F64: &[&[PtxType]] = &[&[F64]];

const FTZ: Gate = since(1, 4, 0).mods(&[Ftz]);
const APPROX: Gate = since(1, 4, 0).mods(&[Approx, Full]);
const DIRECTED: Gate = since(2, 0, 20).mods(&[Rm, Rp]);
const ROUNDED: Gate = since(2, 0, 20).mods(ROUND);
const DIRECTED_F64: Gate = since(2, 0, 20).mods(&[Rz, Rm, Rp]);
const GATES_F32X2: &[Gate] = &[since(8, 6, 100)];
const GATES_F64: &[Gate] = &[since(1, 0, 13)];

/// The rows of this chapter.
pub const TABLE: &[InstDesc] = &[
    inst("testp", &[DP, A], testp)
        .types(&[&[F32, F64]])
        .choose(&[&[Finite, Infinite, Number, Notanumber, Normal, Subnormal]])
        .gates(&[since(2, 0, 20)]),
    inst("copysign", &[D, A, B], copysign)
        .types(&[&[F32, F64]])
        .gates(&[since(2, 0, 20)]),
    inst("add", &[D, A, B], add)
        .types(TYPE_F32)
        .optional(&[ROUND, &[Ftz], &[Sat]])
        .gates(&[FTZ, DIRECTED]),
    inst("add", &[D, A, B], add)
        .types(TYPE_F32X2)
        .optional(&[ROUND, &[Ftz]])
        .gates(GATES_F32X2),
    inst("add", &[D, A, B], add)
        .types(TYPE_F64)
        .optional(&[ROUND])
        .gates(GATES_F64),
    inst("sub", &[D, A, B], sub)
        .types(TYPE_F32)
        .optional(&[ROUND, &[Ftz], &[Sat]])
        .gates(&[FTZ, DIRECTED]),
    inst("sub", &[D, A, B], sub)
        .types(TYPE_F32X2)
        .optional(&[ROUND, &[Ftz]])
        .gates(GATES_F32X2),
    inst("sub", &[D, A, B], sub)
        .types(TYPE_F64)
        .optional(&[ROUND])
        .gates(GATES_F64),
    inst("mul", &[D, A, B], mul)
        .types(TYPE_F32)
        .optional(&[ROUND, &[Ftz], &[Sat]])
        .gates(&[FTZ, DIRECTED]),
    inst("mul", &[D, A, B], mul)
        .types(TYPE_F32X2)
        .optional(&[ROUND, &[Ftz]])
        .gates(GATES_F32X2),
    inst("mul", &[D, A, B], mul)
        .types(TYPE_F64)
        .optional(&[ROUND])
        .gates(GATES_F64),
    inst("fma", &[D, A, B, C], fma)
        .types(TYPE_F32)
        .choose(&[ROUND])
        .optional(&[&[Ftz], &[Sat]])
        .gates(&[since(2, 0, 20)]),
    inst("fma", &[D, A, B, C], fma)
        .types(TYPE_F32X2)
        .choose(&[ROUND])
        .optional(&[&[Ftz]])
        .gates(GATES_F32X2),
    inst("fma", &[D, A, B, C], fma)
        .types(TYPE_F64)
        .choose(&[ROUND])
        .gates(&[since(1, 4, 13)]),
    inst("mad", &[D, A, B, C], fma)
        .types(TYPE_F32)
        .choose(&[ROUND])
        .optional(&[&[Ftz], &[Sat]])
        .gates(&[since(2, 0, 20)]),
    inst("mad", &[D, A, B, C], mad_unrounded)
        .types(TYPE_F32)
        .optional(&[&[Ftz], &[Sat]])
        .gates(&[FTZ])
        .check(check_mad_unrounded),
    inst("mad", &[D, A, B, C], fma)
        .types(TYPE_F64)
        .choose(&[ROUND])
        .gates(GATES_F64),
    inst("mad", &[D, A, B, C], fma)
        .types(TYPE_F64)
        .gates(GATES_F64)
        .check(check_before_1_4),
    inst("div", &[D, A, B], div)
        .types(TYPE_F32)
        .choose(&[&[Approx, Full]])
        .optional(&[&[Ftz]])
        .gates(&[APPROX]),
    inst("div", &[D, A, B], div)
        .types(TYPE_F32)
        .choose(&[ROUND])
        .optional(&[&[Ftz]])
        .gates(&[ROUNDED]),
    inst("div", &[D, A, B], div)
        .types(TYPE_F64)
        .choose(&[ROUND])
        .gates(&[since(1, 0, 13), DIRECTED_F64]),
    inst("div", &[D, A, B], div)
        .types(&[&[F32, F64]])
        .check(check_before_1_4),
    inst("abs", &[D, A], abs)
        .types(TYPE_F32)
        .optional(&[&[Ftz]])
        .gates(&[FTZ]),
    inst("abs", &[D, A], abs).types(TYPE_F64).gates(GATES_F64),
    inst("neg", &[D, A], neg)
        .types(TYPE_F32)
        .optional(&[&[Ftz]])
        .gates(&[FTZ]),
    inst("neg", &[D, A], neg).types(TYPE_F64).gates(GATES_F64),
    inst("min", &[D, A, B], min)
        .types(TYPE_F32)
        .optional(MIN_MAX)
        .gates(MIN_MAX_GATES)
        .check(check_xorsign),
    inst("min", &[D, A, B, C], min3)
        .types(TYPE_F32)
        .optional(MIN_MAX3)
        .gates(&[since(8, 8, 100)]),
    inst("min", &[D, A, B], min)
        .types(TYPE_F64)
        .gates(GATES_F64),
    inst("max", &[D, A, B], max)
        .types(TYPE_F32)
        .optional(MIN_MAX)
        .gates(MIN_MAX_GATES)
        .check(check_xorsign),
    inst("max", &[D, A, B, C], max3)
        .types(TYPE_F32)
        .optional(MIN_MAX3)
        .gates(&[since(8, 8, 100)]),
    inst("max", &[D, A, B], max)
        .types(TYPE_F64)
        .gates(GATES_F64),
    inst("rcp", &[D, A], rcp)
        .types(&[&[F32, F64]])
        .with(&[Approx])
        .optional(&[&[Ftz]])
        .gates(&[APPROX, since(2, 1, 20).types(&[F64])])
        .check(check_rcp_approx),
    inst("rcp", &[D, A], rcp)
        .types(TYPE_F32)
        .choose(&[ROUND])
        .optional(&[&[Ftz]])
        .gates(&[ROUNDED]),
    // The ISA has no `.ftz` here, but ptxas takes and ignores it.
    inst("rcp", &[D, A], rcp)
        .types(TYPE_F64)
        .choose(&[ROUND])
        .optional(&[&[Ftz]])
        .gates(&[since(1, 4, 13), DIRECTED_F64]),
    inst("rcp", &[D, A], rcp)
        .types(&[&[F32, F64]])
        .check(check_before_1_4),
    inst("sqrt", &[D, A], sqrt)
        .types(TYPE_F32)
        .with(&[Approx])
        .optional(&[&[Ftz]])
        .gates(&[APPROX]),
    inst("sqrt", &[D, A], sqrt)
        .types(TYPE_F32)
        .choose(&[ROUND])
        .optional(&[&[Ftz]])
        .gates(&[ROUNDED]),
    inst("sqrt", &[D, A], sqrt)
        .types(TYPE_F64)
        .choose(&[ROUND])
        .gates(&[since(1, 4, 13), DIRECTED_F64]),
    inst("sqrt", &[D, A], sqrt)
        .types(&[&[F32, F64]])
        .check(check_before_1_4),
    inst("rsqrt", &[D, A], rsqrt)
        .types(TYPE_F32)
        .with(&[Approx])
        .optional(&[&[Ftz]])
        .gates(&[APPROX]),
    inst("rsqrt", &[D, A], rsqrt)
        .types(TYPE_F64)
        .with(&[Approx])
        .optional(&[&[Ftz]])
        .gates(&[since(1, 4, 13), since(4, 0, 20).mods(&[Ftz])]),
    inst("rsqrt", &[D, A], rsqrt)
        .types(&[&[F32, F64]])
        .check(check_before_1_4),
    inst("sin", &[D, A], sin)
        .types(TYPE_F32)
        .with(&[Approx])
        .optional(&[&[Ftz]])
        .gates(&[APPROX]),
    inst("sin", &[D, A], sin)
        .types(TYPE_F32)
        .check(check_before_1_4),
    inst("cos", &[D, A], cos)
        .types(TYPE_F32)
        .with(&[Approx])
        .optional(&[&[Ftz]])
        .gates(&[APPROX]),
    inst("cos", &[D, A], cos)
        .types(TYPE_F32)
        .check(check_before_1_4),
    inst("lg2", &[D, A], lg2)
        .types(TYPE_F32)
        .with(&[Approx])
        .optional(&[&[Ftz]])
        .gates(&[APPROX]),
    inst("lg2", &[D, A], lg2)
        .types(TYPE_F32)
        .check(check_before_1_4),
    inst("ex2", &[D, A], ex2)
        .types(TYPE_F32)
        .with(&[Approx])
        .optional(&[&[Ftz]])
        .gates(&[APPROX]),
    inst("ex2", &[D, A], ex2)
        .types(TYPE_F32)
        .check(check_before_1_4),
    inst("tanh", &[D, A], tanh)
        .types(TYPE_F32)
        .with(&[Approx])
        .gates(&[since(7, 0, 75)]),
];

const MIN_MAX: &[&[Mod]] = &[&[Ftz], &[NaN], &[Xorsign], &[Abs]];
const MIN_MAX3: &[&[Mod]] = &[&[Ftz], &[NaN], &[Abs]];
const MIN_MAX_GATES: &[Gate] = &[
    FTZ,
    since(7, 0, 80).mods(&[NaN]),
    since(7, 2, 86).mods(&[Xorsign]),
];

/// The class of a float, decided on its bits.
fn testp<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let (inf, least_normal) = match inst.ty(0) {
        F64 => (0x7ff0_0000_0000_0000, 0x0010_0000_0000_0000),
        _ => (0x7f80_0000, 0x0080_0000),
    };
    map1(t, inst, |t, a| {
        let ty = t.value_ty(a);
        let no_sign = t.iconst(ty, ty.mask() >> 1);
        let magnitude = t.binary(IntBinaryOp::And, a, no_sign);
        let (op, limit) = match inst.pick(&[Finite, Infinite, Number, Notanumber, Normal]) {
            Some(Finite) => (CompareOp::Ult, inf),
            Some(Infinite) => (CompareOp::Eq, inf),
            Some(Number) => (CompareOp::Ule, inf),
            Some(Notanumber) => (CompareOp::Ugt, inf),
            Some(Normal) => return is_normal(t, magnitude, least_normal, inf),
            // Subnormal: from 1 to just below the least normal number, zero wraps around.
            _ => {
                let one = t.iconst(ty, 1);
                let limit = t.iconst(ty, least_normal - 1);
                let below = t.binary(IntBinaryOp::Sub, magnitude, one);
                return t.compare(CompareOp::Ult, below, limit);
            }
        };
        let limit = t.iconst(ty, limit);
        t.compare(op, magnitude, limit)
    })
}

/// Zero counts as normal.
fn is_normal(t: &mut Translator<'_>, magnitude: Value, least_normal: u64, inf: u64) -> Value {
    let ty = t.value_ty(magnitude);
    let least = t.iconst(ty, least_normal);
    let range = t.iconst(ty, inf - least_normal);
    let zero = t.iconst(ty, 0);
    let above = t.binary(IntBinaryOp::Sub, magnitude, least);
    let in_range = t.compare(CompareOp::Ult, above, range);
    let is_zero = t.compare(CompareOp::Eq, magnitude, zero);
    t.binary(IntBinaryOp::Or, in_range, is_zero)
}

/// The sign of `a` with the magnitude of `b`.
fn copysign<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    map2(t, inst, |t, a, b| {
        let sign = sign_of(t, a);
        let ty = t.value_ty(b);
        let no_sign = t.iconst(ty, ty.mask() >> 1);
        let magnitude = t.binary(IntBinaryOp::And, b, no_sign);
        t.binary(IntBinaryOp::Or, sign, magnitude)
    })
}

/// The sign bit of a value, in its place.
fn sign_of(t: &mut Translator<'_>, value: Value) -> Value {
    let ty = t.value_ty(value);
    let sign = t.iconst(ty, 1 << (ty.bits() - 1));
    t.binary(IntBinaryOp::And, value, sign)
}

/// `d = a op b` of each element, rounded, flushed and clamped as the modifiers say.
pub fn arithmetic<'m>(t: &mut Translator<'m>, inst: &Inst<'m>, op: FloatBinaryOp) -> Done {
    let ty = inst.ty(0);
    let fmt = fmt_of(ty);
    let mode = mode_for(t, inst, fmt);
    map2(t, inst, |t, a, b| {
        lanewise(t, ty, [a, b], |t, [a, b]| {
            let d = t.float_binary(op, fmt, mode, a, b);
            clamp_result(t, inst, fmt, d)
        })
    })
}

/// `d = a + b`
fn add<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    arithmetic(t, inst, FloatBinaryOp::Add)
}

/// `d = a - b`
fn sub<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    arithmetic(t, inst, FloatBinaryOp::Sub)
}

/// `d = a * b`
fn mul<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    arithmetic(t, inst, FloatBinaryOp::Mul)
}

/// `d = a * b + c`, rounded once.
fn fma<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let ty = inst.ty(0);
    let fmt = fmt_of(ty);
    let mode = mode_for(t, inst, fmt);
    map3(t, inst, |t, a, b, c| {
        lanewise(t, ty, [a, b, c], |t, [a, b, c]| {
            let d = t.fma(fmt, mode, a, b, c);
            clamp_result(t, inst, fmt, d)
        })
    })
}

/// `mad.f32` without rounding exists before sm_20, and until PTX 3.1 means `mad.rn` on later
/// targets.
fn check_mad_unrounded<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    if t.arch().number >= 20 && t.version().at_least(3, 2) {
        return Err(inst.error("`mad.f32` needs a rounding modifier: `.rn`, `.rz`, `.rm` or `.rp`"));
    }
    Ok(())
}

/// Before sm_20 the product is truncated to 24 bits with any exponent, then added and rounded to
/// nearest; but if `c` is zero, the product is that of `mul`. From sm_20 on it is `mad.rn`.
fn mad_unrounded<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    if t.arch().number >= 20 {
        return fma(t, inst);
    }
    map3(t, inst, |t, a, b, c| {
        let fused = mad_truncated(t, a, b, c);
        let nearest = FloatMode {
            round: Round::Rn,
            ftz: true,
        };
        let product = t.float_binary(FloatBinaryOp::Mul, FloatFmt::F32, nearest, a, b);
        let separate = t.float_binary(FloatBinaryOp::Add, FloatFmt::F32, nearest, product, c);
        let zero = t.iconst(Type::B32, 0);
        let is_zero = t.float_compare(FloatCompareOp::Eq, FloatFmt::F32, true, c, zero);
        let d = t.select(is_zero, separate, fused);
        clamp_result(t, inst, FloatFmt::F32, d)
    })
}

/// `a * b + c`, the product truncated to 24 bits. f64 holds the product of two f32 exactly, and the
/// sum of two numbers of 24 bits well enough (53 >= 2 * 24 + 2) for the second rounding, to f32, to
/// be harmless.
fn mad_truncated(t: &mut Translator<'_>, a: Value, b: Value, c: Value) -> Value {
    let to_f64 = Convert {
        ftz: true,
        ..Convert::new(NumFmt::F32, NumFmt::F64)
    };
    let to_f32 = Convert {
        ftz: true,
        ..Convert::new(NumFmt::F64, NumFmt::F32)
    };
    let [a, b, c] = [a, b, c].map(|value| t.convert(to_f64, value));
    let product = t.float_binary(FloatBinaryOp::Mul, FloatFmt::F64, FloatMode::RN, a, b);
    let kept = t.iconst(Type::B64, u64::MAX << (53 - 24));
    let product = t.binary(IntBinaryOp::And, product, kept);
    let sum = t.float_binary(FloatBinaryOp::Add, FloatFmt::F64, FloatMode::RN, product, c);
    t.convert(to_f32, sum)
}

/// Forms that name no accuracy ended with PTX 1.4.
fn check_before_1_4<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    if !t.version().at_least(1, 4) {
        return Ok(());
    }
    let opcode = inst.desc.opcode;
    let needs = match (opcode, inst.ty(0)) {
        ("sin" | "cos" | "lg2" | "ex2" | "rsqrt", _) => "`.approx`",
        ("div", F32) => "`.approx`, `.full` or a rounding modifier",
        ("rcp" | "sqrt", F32) => "`.approx` or a rounding modifier",
        _ => "a rounding modifier",
    };
    Err(inst.error(format!("`{}` needs {needs}", inst.name)))
}

/// Whether the instruction is an approximation: it says so, or is an f32 form from before PTX 1.4.
fn is_approx(inst: &Inst<'_>) -> bool {
    inst.has(Approx) || inst.ty(0) == F32 && inst.round().is_none()
}

/// Mode of an approximation. At f64, `.ftz` selects a coarser form.
fn approx_mode(t: &Translator<'_>, inst: &Inst<'_>) -> FloatMode {
    let is_old = inst.ty(0) == F32 && !inst.has(Approx) && !inst.has(Full);
    FloatMode {
        round: Round::Rn,
        ftz: inst.ftz() || is_old || is_flushed(t, inst, fmt_of(inst.ty(0))),
    }
}

/// `d = a / b`
fn div<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let fmt = fmt_of(inst.ty(0));
    let (op, mode) = if inst.has(Full) {
        (FloatBinaryOp::DivFull, approx_mode(t, inst))
    } else if is_approx(inst) {
        (FloatBinaryOp::DivApprox, approx_mode(t, inst))
    } else {
        (FloatBinaryOp::Div, mode_for(t, inst, fmt))
    };
    map2(t, inst, |t, a, b| t.float_binary(op, fmt, mode, a, b))
}

/// `d = op(a)` of each element.
pub fn unary<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    op: FloatUnaryOp,
    mode: FloatMode,
) -> Done {
    let ty = inst.ty(0);
    let fmt = fmt_of(ty);
    map1(t, inst, |t, a| {
        lanewise(t, ty, [a], |t, [a]| t.float_unary(op, fmt, mode, a))
    })
}

/// `d = |a|`
pub fn abs<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let mode = mode_for(t, inst, fmt_of(inst.ty(0)));
    unary(t, inst, FloatUnaryOp::Abs, mode)
}

/// `d = -a`
pub fn neg<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let mode = mode_for(t, inst, fmt_of(inst.ty(0)));
    unary(t, inst, FloatUnaryOp::Neg, mode)
}

/// With two inputs, `.abs` and `.xorsign` come together.
pub fn check_xorsign<'m>(_: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    match (inst.has(Xorsign), inst.has(Abs)) {
        (true, false) => Err(inst.error("`.xorsign` needs `.abs`")),
        (false, true) => Err(inst.error("`.abs` with two inputs needs `.xorsign`")),
        (true, true) | (false, false) => Ok(()),
    }
}

fn min_op(inst: &Inst<'_>) -> FloatBinaryOp {
    if inst.has(NaN) {
        FloatBinaryOp::MinNan
    } else {
        FloatBinaryOp::Min
    }
}

fn max_op(inst: &Inst<'_>) -> FloatBinaryOp {
    if inst.has(NaN) {
        FloatBinaryOp::MaxNan
    } else {
        FloatBinaryOp::Max
    }
}

/// `d = min(a, b)` of each element.
pub fn min<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    min_max(t, inst, min_op(inst))
}

/// `d = max(a, b)` of each element.
pub fn max<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    min_max(t, inst, max_op(inst))
}

fn min_max<'m>(t: &mut Translator<'m>, inst: &Inst<'m>, op: FloatBinaryOp) -> Done {
    let ty = inst.ty(0);
    let fmt = fmt_of(ty);
    let mode = mode_for(t, inst, fmt);
    map2(t, inst, |t, a, b| {
        lanewise(t, ty, [a, b], |t, [a, b]| {
            if inst.has(Xorsign) {
                xorsign_abs(t, op, fmt, mode, [a, b])
            } else {
                t.float_binary(op, fmt, mode, a, b)
            }
        })
    })
}

/// `op` of the magnitudes, with the exclusive or of the signs unless the result is NaN.
fn xorsign_abs(
    t: &mut Translator<'_>,
    op: FloatBinaryOp,
    fmt: FloatFmt,
    mode: FloatMode,
    args: [Value; 2],
) -> Value {
    let [a, b] = args.map(|arg| t.float_unary(FloatUnaryOp::Abs, fmt, FloatMode::RN, arg));
    let result = t.float_binary(op, fmt, mode, a, b);
    let differ = t.binary(IntBinaryOp::Xor, args[0], args[1]);
    let sign = sign_of(t, differ);
    let signed = t.binary(IntBinaryOp::Or, result, sign);
    let is_nan = t.float_compare(FloatCompareOp::Nan, fmt, false, result, result);
    t.select(is_nan, result, signed)
}

/// `d = min(min(a, b), c)`; `.abs` takes the magnitudes of all three.
fn min3<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    min_max3(t, inst, min_op(inst))
}

/// `d = max(max(a, b), c)`; `.abs` takes the magnitudes of all three.
fn max3<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    min_max3(t, inst, max_op(inst))
}

fn min_max3<'m>(t: &mut Translator<'m>, inst: &Inst<'m>, op: FloatBinaryOp) -> Done {
    let mode = mode_for(t, inst, FloatFmt::F32);
    map3(t, inst, |t, a, b, c| {
        let [a, b, c] = [a, b, c].map(|arg| {
            if inst.has(Abs) {
                t.float_unary(FloatUnaryOp::Abs, FloatFmt::F32, FloatMode::RN, arg)
            } else {
                arg
            }
        });
        let ab = t.float_binary(op, FloatFmt::F32, mode, a, b);
        t.float_binary(op, FloatFmt::F32, mode, ab, c)
    })
}

fn check_rcp_approx<'m>(_: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    if inst.ty(0) == F64 && !inst.ftz() {
        return Err(inst.error("`rcp.approx.f64` needs `.ftz`"));
    }
    Ok(())
}

/// `d = 1 / a`
fn rcp<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    if is_approx(inst) {
        let mode = approx_mode(t, inst);
        return unary(t, inst, FloatUnaryOp::RcpApprox, mode);
    }
    let fmt = fmt_of(inst.ty(0));
    let mode = mode_for(t, inst, fmt);
    let one = if fmt == FloatFmt::F64 {
        1f64.to_bits()
    } else {
        u64::from(1f32.to_bits())
    };
    map1(t, inst, |t, a| {
        let one = t.iconst(fmt.ty(), one);
        t.float_binary(FloatBinaryOp::Div, fmt, mode, one, a)
    })
}

/// The square root of `a`.
fn sqrt<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    if is_approx(inst) {
        let mode = approx_mode(t, inst);
        return unary(t, inst, FloatUnaryOp::SqrtApprox, mode);
    }
    let mode = mode_for(t, inst, fmt_of(inst.ty(0)));
    unary(t, inst, FloatUnaryOp::Sqrt, mode)
}

/// `d = 1 / sqrt(a)`
fn rsqrt<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let mode = approx_mode(t, inst);
    unary(t, inst, FloatUnaryOp::RsqrtApprox, mode)
}

/// The sine of `a`.
fn sin<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let mode = approx_mode(t, inst);
    unary(t, inst, FloatUnaryOp::SinApprox, mode)
}

/// The cosine of `a`.
fn cos<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let mode = approx_mode(t, inst);
    unary(t, inst, FloatUnaryOp::CosApprox, mode)
}

/// The binary logarithm of `a`.
fn lg2<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let mode = approx_mode(t, inst);
    unary(t, inst, FloatUnaryOp::Lg2Approx, mode)
}

/// 2 to the power of `a`.
pub fn ex2<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let mode = approx_mode(t, inst);
    unary(t, inst, FloatUnaryOp::Ex2Approx, mode)
}

/// The hyperbolic tangent of `a`.
pub fn tanh<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let mode = approx_mode(t, inst);
    unary(t, inst, FloatUnaryOp::TanhApprox, mode)
}
