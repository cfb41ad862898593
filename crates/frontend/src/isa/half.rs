//! Arithmetic on f16, f16x2, bf16 and bf16x2: PTX ISA, "Half Precision Floating Point
//! Instructions".
//!
//! Every operation is rounded once, to its own format. Packed types are worked on element by
//! element.

use ptxjit_ir::{CompareOp, FloatBinaryOp, FloatMode, IntBinaryOp, Round, Type, Value};

use crate::translate::{Inst, Translator};

use super::common::{Done, ROUND, clamp_result, fmt_of, lanewise, map3, mode_for};
use super::desc::{A, B, C, D, Gate, InstDesc, inst, since};
use super::float::{abs, arithmetic, check_xorsign, ex2, max, min, neg, tanh};
use super::modifiers::Mod;
use super::modifiers::Mod::{Abs, Approx, Ftz, NaN, Oob, Relu, Rn, Sat, Xorsign};
use super::types::PtxType;
use super::types::PtxType::{Bf16, Bf16x2, F16, F16x2};

const F16S: &[&[PtxType]] = &[&[F16, F16x2]];
const BF16S: &[&[PtxType]] = &[&[Bf16, Bf16x2]];

const ARITHMETIC: &[&[Mod]] = &[&[Rn], &[Ftz], &[Sat]];
const GATES_F16: &[Gate] = &[since(4, 2, 53)];
const GATES_BF16: &[Gate] = &[since(7, 8, 90)];

const MIN_MAX_F16: &[&[Mod]] = &[&[Ftz], &[NaN], &[Xorsign], &[Abs]];
const MIN_MAX_BF16: &[&[Mod]] = &[&[NaN], &[Xorsign], &[Abs]];
const MIN_MAX_GATES: &[Gate] = &[since(7, 0, 80), since(7, 2, 86).mods(&[Xorsign])];

/// The rows of this chapter.
pub const TABLE: &[InstDesc] = &[
    inst("add", &[D, A, B], add)
        .types(F16S)
        .optional(ARITHMETIC)
        .gates(GATES_F16),
    inst("add", &[D, A, B], add)
        .types(BF16S)
        .optional(&[&[Rn]])
        .gates(GATES_BF16),
    inst("sub", &[D, A, B], sub)
        .types(F16S)
        .optional(ARITHMETIC)
        .gates(GATES_F16),
    inst("sub", &[D, A, B], sub)
        .types(BF16S)
        .optional(&[&[Rn]])
        .gates(GATES_BF16),
    inst("mul", &[D, A, B], mul)
        .types(F16S)
        .optional(ARITHMETIC)
        .gates(GATES_F16),
    inst("mul", &[D, A, B], mul)
        .types(BF16S)
        .optional(&[&[Rn]])
        .gates(GATES_BF16),
    inst("fma", &[D, A, B, C], fma)
        .types(F16S)
        .choose(&[&[Rn]])
        .optional(&[&[Ftz], &[Sat, Relu]])
        .gates(&[since(4, 2, 53), since(7, 0, 80).mods(&[Relu])]),
    // The ISA lists `.rn` only, but ptxas takes every rounding (and none but `.rn` has an effect).
    inst("fma", &[D, A, B, C], fma)
        .types(BF16S)
        .choose(&[ROUND])
        .optional(&[&[Relu]])
        .gates(&[since(7, 0, 80)]),
    // The ISA has no `.sat` here, but ptxas takes it.
    inst("fma", &[D, A, B, C], fma)
        .types(F16S)
        .with(&[Oob])
        .choose(&[&[Rn]])
        .optional(&[&[Relu, Sat]])
        .gates(&[since(8, 1, 90)]),
    inst("fma", &[D, A, B, C], fma)
        .types(BF16S)
        .with(&[Oob])
        .choose(&[ROUND])
        .optional(&[&[Relu]])
        .gates(&[since(8, 1, 90)]),
    inst("neg", &[D, A], neg)
        .types(F16S)
        .optional(&[&[Ftz]])
        .gates(&[since(6, 0, 53)]),
    inst("neg", &[D, A], neg)
        .types(BF16S)
        .gates(&[since(7, 0, 80)]),
    inst("abs", &[D, A], abs)
        .types(F16S)
        .optional(&[&[Ftz]])
        .gates(&[since(6, 5, 53)]),
    inst("abs", &[D, A], abs)
        .types(BF16S)
        .gates(&[since(7, 0, 80)]),
    inst("min", &[D, A, B], min)
        .types(F16S)
        .optional(MIN_MAX_F16)
        .gates(MIN_MAX_GATES)
        .check(check_xorsign),
    inst("min", &[D, A, B], min)
        .types(BF16S)
        .optional(MIN_MAX_BF16)
        .gates(MIN_MAX_GATES)
        .check(check_xorsign),
    inst("max", &[D, A, B], max)
        .types(F16S)
        .optional(MIN_MAX_F16)
        .gates(MIN_MAX_GATES)
        .check(check_xorsign),
    inst("max", &[D, A, B], max)
        .types(BF16S)
        .optional(MIN_MAX_BF16)
        .gates(MIN_MAX_GATES)
        .check(check_xorsign),
    inst("tanh", &[D, A], tanh)
        .types(F16S)
        .with(&[Approx])
        .gates(&[since(7, 0, 75)]),
    inst("tanh", &[D, A], tanh)
        .types(BF16S)
        .with(&[Approx])
        .gates(GATES_BF16),
    inst("ex2", &[D, A], ex2)
        .types(F16S)
        .with(&[Approx])
        .gates(&[since(7, 0, 75)]),
    inst("ex2", &[D, A], ex2)
        .types(BF16S)
        .with(&[Approx])
        .choose(&[&[Ftz]])
        .gates(GATES_BF16),
];

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

/// The OOB-NaN, with which tensor copies fill what lies outside of a tensor. The ISA names it but
/// not its bits; these are the ones in NVIDIA's patent application US 2024/0168765 A1 (table 89),
/// for both formats.
pub const OOB_NAN: u64 = 0x7ff7;

/// `d = a * b + c`, rounded once; under `.oob` +0 if a factor is the OOB-NaN.
fn fma<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let ty = inst.ty(0);
    let fmt = fmt_of(ty);
    // ptxas compiles all roundings that may be written to the one instruction that the hardware
    // has.
    let mode = FloatMode {
        round: Round::Rn,
        ..mode_for(t, inst, fmt)
    };
    map3(t, inst, |t, a, b, c| {
        lanewise(t, ty, [a, b, c], |t, [a, b, c]| {
            let d = t.fma(fmt, mode, a, b, c);
            let d = clamp_result(t, inst, fmt, d);
            if inst.has(Oob) {
                zero_if_oob(t, [a, b], d)
            } else {
                d
            }
        })
    })
}

fn zero_if_oob(t: &mut Translator<'_>, factors: [Value; 2], d: Value) -> Value {
    let marker = t.iconst(Type::B16, OOB_NAN);
    let zero = t.iconst(Type::B16, 0);
    let [a, b] = factors.map(|factor| t.compare(CompareOp::Eq, factor, marker));
    let is_oob = t.binary(IntBinaryOp::Or, a, b);
    t.select(is_oob, zero, d)
}
