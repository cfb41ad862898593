//! Rules for floating-point arithmetic. Each keeps the result's bits, those of NaNs included: which
//! NaN f64 keeps depends on the order of the operands, so these do not change places there unless
//! one is known to be a number, and a change of sign shows.

use ptxjit_ir::{
    Convert, FloatBinaryOp, FloatFmt, FloatMode, FloatUnaryOp, InstData, NumFmt, Round, Type, Value,
};

use super::{Ctx, Found, known};

/// Rules for one operand.
pub(super) fn unary(
    ctx: &mut Ctx,
    op: FloatUnaryOp,
    fmt: FloatFmt,
    mode: FloatMode,
    arg: Value,
) -> Option<Found> {
    if mode.ftz {
        return None;
    }
    if op == FloatUnaryOp::Copy {
        return Some(Found::Value(arg));
    }
    let InstData::FloatUnary {
        op: inner,
        mode: inner_mode,
        arg,
        ..
    } = ctx.def(arg)?
    else {
        return None;
    };
    if inner_mode.ftz {
        return None;
    }
    match (op, inner) {
        (FloatUnaryOp::Neg, FloatUnaryOp::Neg) => Some(Found::Value(arg)),
        (FloatUnaryOp::Abs, FloatUnaryOp::Neg | FloatUnaryOp::Abs) => {
            Some(Found::Inst(InstData::FloatUnary { op, fmt, mode, arg }))
        }
        _ => None,
    }
}

/// Integers without a sign are converted to floats as signed ones, for which processors have
/// instructions.
pub(super) fn convert(ctx: &Ctx, cvt: Convert, arg: Value) -> Option<Found> {
    let signed = if cvt.from == NumFmt::U32 {
        NumFmt::S32
    } else if cvt.from == NumFmt::U64 {
        NumFmt::S64
    } else {
        return None;
    };
    let sign = 1 << (signed.ty().bits() - 1);
    if cvt.to.is_int() || known::possible(ctx, arg) & sign != 0 {
        return None;
    }
    let cvt = Convert {
        from: signed,
        ..cvt
    };
    Some(Found::Inst(InstData::Convert { cvt, arg }))
}

/// Rules for two operands.
pub(super) fn binary(
    ctx: &mut Ctx,
    op: FloatBinaryOp,
    fmt: FloatFmt,
    mode: FloatMode,
    [a, b]: [Value; 2],
) -> Option<Found> {
    let make = |op, args| {
        Some(Found::Inst(InstData::FloatBinary {
            op,
            fmt,
            mode,
            args,
        }))
    };
    match op {
        FloatBinaryOp::Add | FloatBinaryOp::Mul
            if ctx.as_const(a).is_some_and(|a| !keeps_nan(fmt, a)) && ctx.as_const(b).is_none() =>
        {
            make(op, [b, a])
        }
        FloatBinaryOp::Add if fmt == FloatFmt::F64 => add_const(ctx, fmt, mode, a, b),
        FloatBinaryOp::Sub if fmt == FloatFmt::F64 => None,
        // a + (-b); flushing before or after the sign changes is the same.
        FloatBinaryOp::Add => match (negated(ctx, a, mode), negated(ctx, b, mode)) {
            (_, Some(b)) => make(FloatBinaryOp::Sub, [a, b]),
            (Some(a), None) => make(FloatBinaryOp::Sub, [b, a]),
            (None, None) => add_const(ctx, fmt, mode, a, b),
        },
        FloatBinaryOp::Sub => {
            let b = negated(ctx, b, mode)?;
            make(FloatBinaryOp::Add, [a, b])
        }
        FloatBinaryOp::Mul if !mode.ftz => {
            let is_same = ctx.as_const(b)? == one(fmt) && is_arithmetic(ctx, fmt, a);
            is_same.then_some(Found::Value(a))
        }
        // Both are the exact quotient, rounded once.
        FloatBinaryOp::Div => {
            let reciprocal = exact_reciprocal(fmt, ctx.as_const(b)?)?;
            let b = ctx.constant(fmt.ty(), reciprocal);
            make(FloatBinaryOp::Mul, [a, b])
        }
        FloatBinaryOp::Mul
        | FloatBinaryOp::DivApprox
        | FloatBinaryOp::DivFull
        | FloatBinaryOp::Min
        | FloatBinaryOp::Max
        | FloatBinaryOp::MinNan
        | FloatBinaryOp::MaxNan => None,
    }
}

/// Whether a constant is a NaN whose bits the result may have.
fn keeps_nan(fmt: FloatFmt, bits: u64) -> bool {
    fmt == FloatFmt::F64 && f64::from_bits(bits).is_nan()
}

/// `x` if the value is `-x`, and an operation in `mode` would not see whether that was flushed.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are left alone")]
fn negated(ctx: &Ctx, value: Value, mode: FloatMode) -> Option<Value> {
    match ctx.func.def_inst(value)? {
        InstData::FloatUnary {
            op: FloatUnaryOp::Neg,
            mode: inner,
            arg,
            ..
        } if mode.ftz || !inner.ftz => Some(*arg),
        _ => None,
    }
}

/// Adding -0 changes nothing (adding +0 makes +0 of -0). Rounding down, a sum of zeros of both
/// signs is -0, so that is left alone.
fn add_const(ctx: &Ctx, fmt: FloatFmt, mode: FloatMode, a: Value, b: Value) -> Option<Found> {
    let is_negative_zero = ctx.as_const(b)? == 1 << (fmt.ty().bits() - 1);
    let is_same = is_negative_zero && !mode.ftz && mode.round != Round::Rm;
    (is_same && is_arithmetic(ctx, fmt, a)).then_some(Found::Value(a))
}

/// Whether a NaN that the value is would come out of arithmetic with a number as it is.
fn is_arithmetic(ctx: &Ctx, fmt: FloatFmt, value: Value) -> bool {
    match ctx.func.def_inst(value) {
        Some(&InstData::FloatUnary { op, fmt: of, .. }) => {
            of == fmt
                && !matches!(
                    op,
                    FloatUnaryOp::Neg | FloatUnaryOp::Abs | FloatUnaryOp::Copy
                )
        }
        Some(&InstData::FloatBinary { fmt: of, .. } | &InstData::Fma { fmt: of, .. }) => of == fmt,
        Some(InstData::Convert { cvt, .. }) => cvt.from.is_int() && cvt.to == fmt.num(),
        _ => false,
    }
}

/// Bits of the mantissa that are stored, and the exponent's bias.
fn layout(fmt: FloatFmt) -> (u32, u64) {
    match fmt {
        FloatFmt::F16 => (10, 15),
        FloatFmt::Bf16 => (7, 127),
        FloatFmt::F32 => (23, 127),
        FloatFmt::F64 => (52, 1023),
    }
}

fn one(fmt: FloatFmt) -> u64 {
    let (mantissa, bias) = layout(fmt);
    bias << mantissa
}

/// The reciprocal of a power of two, if it is a normal number too.
fn exact_reciprocal(fmt: FloatFmt, bits: u64) -> Option<u64> {
    let (mantissa, bias) = layout(fmt);
    let ty: Type = fmt.ty();
    let sign = bits & 1 << (ty.bits() - 1);
    let exponent = (bits ^ sign) >> mantissa;
    let is_power = bits & ((1 << mantissa) - 1) == 0 && exponent != 0;
    // The exponents of a number and its reciprocal are at the same distance from the bias.
    let reciprocal = (2 * bias)
        .checked_sub(exponent)
        .filter(|&reciprocal| reciprocal != 0)?;
    (is_power && exponent <= 2 * bias).then_some(sign | reciprocal << mantissa)
}
