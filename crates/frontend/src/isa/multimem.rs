//! `multimem`. PTX ISA, "Data Movement and Conversion Instructions: multimem". An address has one
//! replica: the memory itself.

use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use super::desc::{A, ADDR, D, Elems, Gate, InstDesc, Opd, inst, since};
use super::modifiers::Mod;
use super::operands::vector_length;
use super::types::PtxType as T;

const SCOPE: &[Mod] = &[Mod::Cta, Mod::Cluster, Mod::Gpu, Mod::Sys];
const GLOBAL: &[Mod] = &[Mod::Global];
const LOAD_SEM: &[Mod] = &[Mod::Weak, Mod::Relaxed, Mod::Acquire];
const STORE_SEM: &[Mod] = &[Mod::Weak, Mod::Relaxed, Mod::Release];
const RED_SEM: &[Mod] = &[Mod::Relaxed, Mod::Release];
const LOGIC: &[&[Mod]] = &[&[Mod::And, Mod::Or, Mod::Xor]];
const ADD: &[&[Mod]] = &[&[Mod::Add]];
const MIN_MAX: &[&[Mod]] = &[&[Mod::Min, Mod::Max]];
const VEC: &[Mod] = &[Mod::V2, Mod::V4, Mod::V8];
const ACC: &[Mod] = &[Mod::AccF32, Mod::AccF16];
const BITS: &[&[T]] = &[&[T::B32, T::B64]];
const SUMS: &[&[T]] = &[&[T::U32, T::S32, T::U64]];
const ORDERED: &[&[T]] = &[&[T::U32, T::S32, T::U64, T::S64]];
const INTS: &[&[T]] = &[&[T::B32, T::B64, T::U32, T::U64, T::S32, T::S64]];
const FLOATS: &[&[T]] = &[&[T::F32, T::F64]];
const SMALL: &[T] = &[
    T::F16,
    T::F16x2,
    T::Bf16,
    T::Bf16x2,
    T::E5m2,
    T::E5m2x2,
    T::E5m2x4,
    T::E4m3,
    T::E4m3x2,
    T::E4m3x4,
];
const FP8: &[T] = &[T::E5m2, T::E5m2x2, T::E5m2x4, T::E4m3, T::E4m3x2, T::E4m3x4];
const ALL_FLOATS: &[&[T]] = &[&[
    T::F16,
    T::F16x2,
    T::Bf16,
    T::Bf16x2,
    T::F32,
    T::F64,
    T::E5m2,
    T::E5m2x2,
    T::E5m2x4,
    T::E4m3,
    T::E4m3x2,
    T::E4m3x4,
]];
const HALVES: &[&[T]] = &[&[T::F16, T::F16x2, T::Bf16, T::Bf16x2]];
const FP8_ARCHS: &[&str] = &[
    "100a", "100f", "101a", "101f", "103a", "103f", "110a", "110f", "120a", "120f", "121a", "121f",
];
const GATES: &[Gate] = &[
    since(8, 1, 90),
    since(8, 6, 100).types(FP8).only(FP8_ARCHS),
    since(8, 2, 90).mods(&[Mod::AccF32]),
    since(8, 6, 100).mods(&[Mod::AccF16]).only(FP8_ARCHS),
];

const DV: Opd = D.vec(Elems::ByModifier);
const AV: Opd = A.vec(Elems::ByModifier);

const fn row(
    operands: &'static [Opd],
    options: &'static [&'static [Mod]],
    required: &'static [Mod],
) -> InstDesc {
    inst("multimem", operands, access)
        .effect()
        .with(required)
        .optional(options)
        .gates(GATES)
        .check(check)
}

const LOAD: &[Mod] = &[Mod::LdReduce];
const STORE: &[Mod] = &[Mod::St];
const RED: &[Mod] = &[Mod::Red];
const LOAD_OPTIONS: &[&[Mod]] = &[LOAD_SEM, SCOPE, GLOBAL];
const STORE_OPTIONS: &[&[Mod]] = &[STORE_SEM, SCOPE, GLOBAL];
const RED_OPTIONS: &[&[Mod]] = &[RED_SEM, SCOPE, GLOBAL];
const LOAD_FLOAT: &[&[Mod]] = &[LOAD_SEM, SCOPE, GLOBAL, VEC, ACC];
const STORE_FLOAT: &[&[Mod]] = &[STORE_SEM, SCOPE, GLOBAL, VEC];
const RED_FLOAT: &[&[Mod]] = &[RED_SEM, SCOPE, GLOBAL, VEC];

pub const TABLE: &[InstDesc] = &[
    row(&[D, ADDR], LOAD_OPTIONS, LOAD)
        .choose(LOGIC)
        .types(BITS),
    row(&[D, ADDR], LOAD_OPTIONS, LOAD).choose(ADD).types(SUMS),
    row(&[D, ADDR], LOAD_OPTIONS, LOAD)
        .choose(MIN_MAX)
        .types(ORDERED),
    row(&[DV, ADDR], LOAD_FLOAT, LOAD)
        .choose(ADD)
        .types(&[SMALL]),
    row(&[DV, ADDR], &[LOAD_SEM, SCOPE, GLOBAL, VEC], LOAD)
        .choose(ADD)
        .types(FLOATS),
    row(&[DV, ADDR], LOAD_FLOAT, LOAD)
        .choose(MIN_MAX)
        .types(&[SMALL]),
    row(&[ADDR, A], STORE_OPTIONS, STORE).types(INTS),
    row(&[ADDR, AV], STORE_FLOAT, STORE).types(ALL_FLOATS),
    row(&[ADDR, A], RED_OPTIONS, RED).choose(LOGIC).types(BITS),
    row(&[ADDR, A], RED_OPTIONS, RED).choose(ADD).types(SUMS),
    row(&[ADDR, A], RED_OPTIONS, RED)
        .choose(MIN_MAX)
        .types(ORDERED),
    row(&[ADDR, AV], RED_FLOAT, RED).choose(ADD).types(HALVES),
    row(&[ADDR, AV], RED_FLOAT, RED).choose(ADD).types(FLOATS),
];

/// With one replica, what its values are reduced to is the value.
fn access<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    if inst.has(Mod::LdReduce) {
        super::memory::ld(t, inst)
    } else if inst.has(Mod::St) {
        super::memory::st(t, inst)
    } else {
        super::atomics::atomic(t, inst)
    }
}

/// Vectors have 32, 64 or 128 bits, accumulation precision goes with addition, a scope with an
/// ordering.
fn check<'m>(_: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let (ty, n) = (inst.ty(0), vector_length(inst) as u32);
    if n > 1 && ty == T::F64 || !matches!(ty.bits() * n, 32 | 64 | 128) {
        let vector = if n > 1 {
            format!("`.v{n}` of ")
        } else {
            String::new()
        };
        return Err(inst.error(format!(
            "`multimem` works on 32, 64 or 128 bits, not on {vector}`.{}`",
            ty.name()
        )));
    }
    let is_half = matches!(ty, T::F16 | T::F16x2 | T::Bf16 | T::Bf16x2);
    if inst.has(Mod::AccF32) && !is_half || inst.has(Mod::AccF16) && !FP8.contains(&ty) {
        return Err(inst.error(format!(
            "this accumulation precision does not go with `.{}`",
            ty.name()
        )));
    }
    let ordering = inst.pick(&[Mod::Relaxed, Mod::Acquire, Mod::Release]);
    match (ordering, inst.pick(SCOPE)) {
        (None, Some(scope)) => Err(inst.error(format!(
            "the scope `.{}` needs an ordering such as `.relaxed`",
            scope.name()
        ))),
        (Some(ordering), None) => Err(inst.error(format!(
            "`.{}` on `multimem` needs a scope: `.cta`, `.cluster`, `.gpu` or `.sys`",
            ordering.name()
        ))),
        (Some(_), Some(_)) | (None, None) => Ok(()),
    }
}
