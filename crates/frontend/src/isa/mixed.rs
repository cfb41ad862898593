//! Arithmetic that widens f16 or bf16 operands to f32: PTX ISA, "Mixed Precision Floating Point
//! Instructions".
//!
//! Widening is exact, subnormals included; the one rounding is that of the f32 operation.

use ptxjit_ir::{Convert, FloatBinaryOp, FloatFmt, NumFmt, Value};

use crate::translate::{Inst, Translator};

use super::common::{Done, ROUND, clamp_result, fmt_of, map2, map3, mode_for};
use super::desc::{A, B, C, D, Gate, InstDesc, inst, since};
use super::modifiers::Mod::Sat;
use super::types::PtxType;
use super::types::PtxType::{Bf16, F16, F32};

const TYPES: &[&[PtxType]] = &[&[F32], &[F16, Bf16]];
const GATES: &[Gate] = &[since(8, 6, 100)];

/// The rows of this chapter.
pub const TABLE: &[InstDesc] = &[
    inst("add", &[D, A.nth(1), C], add)
        .types(TYPES)
        .optional(&[ROUND, &[Sat]])
        .gates(GATES),
    inst("sub", &[D, A.nth(1), C], sub)
        .types(TYPES)
        .optional(&[ROUND, &[Sat]])
        .gates(GATES),
    inst("fma", &[D, A.nth(1), B.nth(1), C], fma)
        .types(TYPES)
        .choose(&[ROUND])
        .optional(&[&[Sat]])
        .gates(GATES),
];

fn widen(t: &mut Translator<'_>, inst: &Inst<'_>, value: Value) -> Value {
    t.convert(Convert::new(fmt_of(inst.ty(1)).num(), NumFmt::F32), value)
}

fn arithmetic<'m>(t: &mut Translator<'m>, inst: &Inst<'m>, op: FloatBinaryOp) -> Done {
    let mode = mode_for(t, inst, FloatFmt::F32);
    map2(t, inst, |t, a, c| {
        let a = widen(t, inst, a);
        let d = t.float_binary(op, FloatFmt::F32, mode, a, c);
        clamp_result(t, inst, FloatFmt::F32, d)
    })
}

/// `d = a + c`
fn add<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    arithmetic(t, inst, FloatBinaryOp::Add)
}

/// `d = a - c`
fn sub<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    arithmetic(t, inst, FloatBinaryOp::Sub)
}

/// `d = a * b + c`, rounded once.
fn fma<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let mode = mode_for(t, inst, FloatFmt::F32);
    map3(t, inst, |t, a, b, c| {
        let (a, b) = (widen(t, inst, a), widen(t, inst, b));
        let d = t.fma(FloatFmt::F32, mode, a, b, c);
        clamp_result(t, inst, FloatFmt::F32, d)
    })
}
