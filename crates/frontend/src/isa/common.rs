//! What many handlers share: lists of types, reading the sources and writing the one result, and
//! working lane by lane on packed types.

use ptxjit_ir::{FloatFmt, FloatMode, FloatUnaryOp, Round, Type, Value};

use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use super::modifiers::Mod;
use super::types::PtxType;

use PtxType::*;

/// What a handler returns.
pub(super) type Done = Result<(), Diagnostic>;

/// The integer types that arithmetic works in.
pub(super) const INT: &[PtxType] = &[U16, U32, U64, S16, S32, S64];
/// Integers of 32 and 64 bits.
pub(super) const INT32_64: &[PtxType] = &[U32, U64, S32, S64];
/// Bits of 16, 32 and 64 bits.
pub(super) const BITS: &[PtxType] = &[B16, B32, B64];
/// Every scalar type of 16, 32 and 64 bits that registers have, apart from `.f16`.
pub(super) const SCALAR: &[PtxType] = &[B16, B32, B64, U16, U32, U64, S16, S32, S64, F32, F64];
/// The rounding modifiers of float arithmetic.
pub(super) const ROUND: &[Mod] = &[Mod::Rn, Mod::Rz, Mod::Rm, Mod::Rp];

/// `d = f(a)`
pub(super) fn map1<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    f: impl FnOnce(&mut Translator<'m>, Value) -> Value,
) -> Done {
    let a = t.src(inst, 1)?;
    let d = f(t, a);
    t.dst(inst, 0, d)
}

/// `d = f(a, b)`
pub(super) fn map2<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    f: impl FnOnce(&mut Translator<'m>, Value, Value) -> Value,
) -> Done {
    let a = t.src(inst, 1)?;
    let b = t.src(inst, 2)?;
    let d = f(t, a, b);
    t.dst(inst, 0, d)
}

/// `d = f(a, b, c)`
pub(super) fn map3<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    f: impl FnOnce(&mut Translator<'m>, Value, Value, Value) -> Value,
) -> Done {
    let a = t.src(inst, 1)?;
    let b = t.src(inst, 2)?;
    let c = t.src(inst, 3)?;
    let d = f(t, a, b, c);
    t.dst(inst, 0, d)
}

/// Whether values of this type are two elements side by side.
pub(super) const fn is_packed(ty: PtxType) -> bool {
    matches!(ty, U16x2 | S16x2 | F16x2 | Bf16x2 | F32x2)
}

/// Applies `f` to each pair, triple, … of corresponding elements; a type that is not packed has one
/// element.
pub(super) fn lanewise<'m, const N: usize>(
    t: &mut Translator<'m>,
    ty: PtxType,
    args: [Value; N],
    mut f: impl FnMut(&mut Translator<'m>, [Value; N]) -> Value,
) -> Value {
    if !is_packed(ty) {
        return f(t, args);
    }
    let halves = args.map(|arg| t.halves(arg));
    let low = f(t, halves.map(|half| half[0]));
    let high = f(t, halves.map(|half| half[1]));
    let to = ty.ir().unwrap_or(Type::B64);
    t.concat(&[low, high], to)
}

/// The format that a float instruction computes in. Only for types that are floats.
pub(super) fn fmt_of(ty: PtxType) -> FloatFmt {
    ty.float_fmt().unwrap_or(FloatFmt::F32)
}

/// Rounding and flushing of an instruction on elements of format `fmt`. f64 is never flushed,
/// although `rcp.rn.ftz.f64` may be written; f32 always is on targets before sm_20.
pub(super) fn mode_for(t: &Translator<'_>, inst: &Inst<'_>, fmt: FloatFmt) -> FloatMode {
    FloatMode {
        round: inst.round().unwrap_or(Round::Rn),
        ftz: is_flushed(t, inst, fmt),
    }
}

/// Whether subnormals of format `fmt` count as zeros in an instruction.
pub(super) fn is_flushed(t: &Translator<'_>, inst: &Inst<'_>, fmt: FloatFmt) -> bool {
    match fmt {
        FloatFmt::F64 => false,
        FloatFmt::F32 => inst.ftz() || t.arch().number < 20,
        FloatFmt::F16 | FloatFmt::Bf16 => inst.ftz(),
    }
}

/// Applies `.sat` and `.relu` to a result, where they are written.
pub(super) fn clamp_result(
    t: &mut Translator<'_>,
    inst: &Inst<'_>,
    fmt: FloatFmt,
    value: Value,
) -> Value {
    if inst.has(Mod::Sat) {
        t.float_unary(FloatUnaryOp::Sat, fmt, FloatMode::RN, value)
    } else if inst.has(Mod::Relu) {
        t.float_unary(FloatUnaryOp::Relu, fmt, FloatMode::RN, value)
    } else {
        value
    }
}
