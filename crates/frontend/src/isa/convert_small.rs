//! Conversions between pairs of 16 and of 8, 6 or 4 bits that PTX 9.1 and 9.2 added: PTX ISA, "Data
//! Movement and Conversion Instructions: cvt".
//!
//! The formats of 8, 6 and 4 bits are exact in f32, and so are their products with the powers of
//! two that `.scaled::n2::ue8m0` takes, but for those too large for any format. Each conversion is
//! therefore put together from some by way of f32, and rounds once.
//!
//! `.s2f6` is no float: a signed byte counts 64ths.

use ptxjit_ir::{
    Convert, FloatBinaryOp, FloatCompareOp, FloatFmt, FloatMode, NumFmt, Round, Type, Value,
};

use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use super::common::Done;
use super::convert::{check_small, conversion, elements, num_fmt, pack, pack2_from_pair};
use super::desc::{A, B, C, D, Gate, InstDesc, Opd, inst, since};
use super::modifiers::Mod::{Relu, Rn, Satfinite, ScaledN2Ue8m0};
use super::types::PtxType::{self, B16, Bf16x2, F16x2, F32, S2f6x2};
use super::types::PtxType::{E2m1x2, E2m3x2, E3m2x2, E4m3x2, E5m2x2};

const FAMILIES: &[&str] = &[
    "100a", "101a", "103a", "110a", "120a", "121a", "100f", "101f", "110f", "120f",
];
const NARROWING: &[Gate] = &[since(9, 1, 0).only(FAMILIES)];
const WIDENING: &[Gate] = &[since(9, 2, 0).only(FAMILIES)];
const FIXED: &[Gate] = &[since(9, 1, 0).only(&["100a", "101a", "103a", "110a", "120a", "121a"])];

const SMALL: &[PtxType] = &[E4m3x2, E5m2x2, E2m3x2, E3m2x2, E2m1x2];
const SMALLEST: &[PtxType] = &[E2m3x2, E3m2x2, E2m1x2];

/// A pair of scales.
const SCALES: Opd = A.is(B16).reg();

/// The rows of `cvt` between pairs.
pub const TABLE: &[InstDesc] = &[
    inst("cvt", &[D, A.nth(1)], pack2_from_pair)
        .types(&[SMALL, &[Bf16x2]])
        .choose(&[&[Rn], &[Satfinite]])
        .optional(&[&[Relu]])
        .gates(NARROWING)
        .check(check_small),
    inst("cvt", &[D, A.nth(1)], pack2_from_pair)
        .types(&[SMALLEST, &[F16x2]])
        .choose(&[&[Rn], &[Satfinite]])
        .optional(&[&[Relu]])
        .gates(NARROWING)
        .check(check_small),
    inst("cvt", &[D, A.nth(1)], widen)
        .types(&[&[Bf16x2], SMALL])
        .choose(&[&[Rn]])
        .optional(&[&[Relu], &[Satfinite]])
        .gates(WIDENING)
        .check(check_small),
    inst("cvt", &[D, A.nth(1), SCALES], widen)
        .types(&[&[Bf16x2], SMALL])
        .with(&[ScaledN2Ue8m0])
        .choose(&[&[Rn]])
        .optional(&[&[Relu], &[Satfinite]])
        .gates(WIDENING)
        .check(check_small),
    inst("cvt", &[D, A.nth(1)], widen)
        .types(&[&[Bf16x2], &[S2f6x2]])
        .choose(&[&[Rn]])
        .optional(&[&[Relu], &[Satfinite]])
        .gates(FIXED),
    inst("cvt", &[D, A.nth(1), SCALES], widen)
        .types(&[&[Bf16x2], &[S2f6x2]])
        .with(&[ScaledN2Ue8m0])
        .choose(&[&[Rn]])
        .optional(&[&[Relu], &[Satfinite]])
        .gates(FIXED),
    inst("cvt", &[D, A.nth(1), B.nth(1)], to_fixed)
        .types(&[&[S2f6x2], &[F32]])
        .choose(&[&[Rn], &[Satfinite]])
        .optional(&[&[Relu]])
        .gates(FIXED),
    inst("cvt", &[D, A.nth(1), B.nth(1), C.is(B16).reg()], to_fixed)
        .types(&[&[S2f6x2], &[F32]])
        .with(&[ScaledN2Ue8m0])
        .choose(&[&[Rn], &[Satfinite]])
        .optional(&[&[Relu]])
        .gates(FIXED),
    inst("cvt", &[D, A.nth(1)], to_fixed)
        .types(&[&[S2f6x2], &[Bf16x2]])
        .choose(&[&[Rn], &[Satfinite]])
        .optional(&[&[Relu]])
        .gates(FIXED),
    inst("cvt", &[D, A.nth(1), SCALES], to_fixed)
        .types(&[&[S2f6x2], &[Bf16x2]])
        .with(&[ScaledN2Ue8m0])
        .choose(&[&[Rn], &[Satfinite]])
        .optional(&[&[Relu]])
        .gates(FIXED),
];

/// Steps of a unit of `.s2f6`.
const STEPS: f32 = 64.0;
/// The greatest `.s2f6`, which a NaN becomes.
const GREATEST: u64 = 127;

/// A small pair, times the scales if there are any, to a pair of `.bf16`.
fn widen<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let pair = t.src(inst, 1)?;
    let scales = scales(t, inst)?;
    let round = conversion(t, inst);
    let from = inst.ty(1);
    let elems = elements(t, from, pair);
    let mut results = elems;
    for (n, elem) in elems.into_iter().enumerate() {
        let mut wide = match from {
            S2f6x2 => {
                let count = t.convert(Convert::new(NumFmt::S8, NumFmt::F32), elem);
                binary(t, FloatBinaryOp::Mul, count, 1.0 / STEPS)
            }
            _ => {
                let half = t.convert(Convert::new(num_fmt(from), NumFmt::F16), elem);
                t.convert(Convert::new(NumFmt::F16, NumFmt::F32), half)
            }
        };
        if let Some(scales) = scales {
            wide = nearest(t, FloatBinaryOp::Mul, wide, scales[n]);
        }
        let to_bf16 = Convert {
            from: NumFmt::F32,
            ..round
        };
        results[n] = t.convert(to_bf16, wide);
    }
    let d = pack(t, inst, &results);
    t.dst(inst, 0, d)
}

/// Two numbers, divided by the scales if there are any, to a pair of `.s2f6`.
fn to_fixed<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let scales = scales(t, inst)?;
    let numbers = match inst.ty(1) {
        F32 => [t.src(inst, 2)?, t.src(inst, 1)?],
        _ => {
            let pair = t.src(inst, 1)?;
            let widen = Convert::new(NumFmt::Bf16, NumFmt::F32);
            t.halves(pair).map(|elem| t.convert(widen, elem))
        }
    };
    let mut results = numbers;
    for (n, mut number) in numbers.into_iter().enumerate() {
        if let Some(scales) = scales {
            number = nearest(t, FloatBinaryOp::Div, number, scales[n]);
        }
        let is_nan = t.float_compare(FloatCompareOp::Nan, FloatFmt::F32, false, number, number);
        if inst.has(Relu) {
            number = binary(t, FloatBinaryOp::Max, number, 0.0);
        }
        let count = binary(t, FloatBinaryOp::Mul, number, STEPS);
        let to_byte = Convert {
            round: Round::Rn,
            ..Convert::new(NumFmt::F32, NumFmt::S8)
        };
        let byte = t.convert(to_byte, count);
        let greatest = t.iconst(Type::B8, GREATEST);
        results[n] = t.select(is_nan, greatest, byte);
    }
    let d = t.concat(&results, Type::B16);
    t.dst(inst, 0, d)
}

/// The two scales as f32, the one for the lower element first.
fn scales<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<Option<[Value; 2]>, Diagnostic> {
    if !inst.has(ScaledN2Ue8m0) {
        return Ok(None);
    }
    let pair = t.src(inst, inst.n_operands() - 1)?;
    let to_bf16 = Convert::new(NumFmt::Ue8m0, NumFmt::Bf16);
    let to_f32 = Convert::new(NumFmt::Bf16, NumFmt::F32);
    let scales = t.halves(pair).map(|scale| {
        let half = t.convert(to_bf16, scale);
        t.convert(to_f32, half)
    });
    Ok(Some(scales))
}

fn nearest(t: &mut Translator<'_>, op: FloatBinaryOp, x: Value, y: Value) -> Value {
    t.float_binary(op, FloatFmt::F32, FloatMode::RN, x, y)
}

fn binary(t: &mut Translator<'_>, op: FloatBinaryOp, x: Value, y: f32) -> Value {
    let y = t.iconst(Type::B32, y.to_bits().into());
    nearest(t, op, x, y)
}
