//! `mma.sp`: A holds the nonzero elements only, and metadata says where they belong. PTX ISA,
//! "Warp-Level Matrix Instructions: mma.sp".

use super::desc::{A, Elems, Gate, InstDesc, Opd, imm, inst, since};
use super::mma::{
    ANY_KIND, BF16, BYTES, F8F6F4, F16, F32, FP8, JUNK_KIND, NIBBLES, ROW_COL, S32, SM120F, TF32,
    check_fragments, frag, out,
};
use super::mma_product::sparse;
use super::modifiers::Mod;
use super::types::PtxType as T;

const SPARSE: &[Mod] = &[Mod::Sp, Mod::SpOrderedMetadata];
const GATES: &[Gate] = &[
    since(7, 1, 80),
    since(8, 5, 80).mods(&[Mod::SpOrderedMetadata]),
];
const SM89: &[Gate] = &[
    since(8, 4, 89),
    since(8, 5, 89).mods(&[Mod::SpOrderedMetadata]),
    ANY_KIND,
];
/// The metadata, and which lanes hold it.
pub(super) const META: Opd = A.is(T::B32).vec(Elems::Of(1)).reg();
const SATFINITE: &[&[Mod]] = &[&[Mod::Satfinite]];

const fn sp(
    shapes: &'static [&'static [Mod]],
    types: &'static [&'static [T]],
    operands: &'static [Opd],
) -> InstDesc {
    inst("mma", operands, sparse)
        .with(ROW_COL)
        .choose(shapes)
        .types(types)
        .gates(GATES)
        .check(check_fragments)
        .effect()
}

const fn integer(
    shapes: &'static [&'static [Mod]],
    inputs: &'static [&'static [T]],
    operands: &'static [Opd],
) -> InstDesc {
    sp(shapes, inputs, operands).optional(SATFINITE)
}

const K8: &[&[Mod]] = &[SPARSE, &[Mod::M16n8k8]];
const K16: &[&[Mod]] = &[SPARSE, &[Mod::M16n8k16]];
const K32: &[&[Mod]] = &[SPARSE, &[Mod::M16n8k32]];
const K64: &[&[Mod]] = &[SPARSE, &[Mod::M16n8k64]];
const K128: &[&[Mod]] = &[SPARSE, &[Mod::M16n8k128]];
/// `.kind::f8f6f4` has no form with unordered metadata.
const KIND: &[&[Mod]] = &[
    &[Mod::SpOrderedMetadata],
    &[Mod::M16n8k64],
    &[Mod::KindF8f6f4],
];

const FP8_ORDERED: &[&[Mod]] = &[&[Mod::SpOrderedMetadata], &[Mod::M16n8k64]];

/// Fragments of a shape with two registers of A and two of B, and with four of each.
const F16_SMALL: &[Opd] = &[
    out(2, T::F16x2),
    frag(2, T::F16x2),
    frag(2, T::F16x2),
    frag(2, T::F16x2),
    META,
    imm(0, 3),
];
const F16_LARGE: &[Opd] = &[
    out(2, T::F16x2),
    frag(4, T::F16x2),
    frag(4, T::F16x2),
    frag(2, T::F16x2),
    META,
    imm(0, 3),
];
const F32_SMALL: &[Opd] = &[
    out(4, T::F32),
    frag(2, T::F16x2),
    frag(2, T::F16x2),
    frag(4, T::F32),
    META,
    imm(0, 3),
];
const F32_LARGE: &[Opd] = &[
    out(4, T::F32),
    frag(4, T::F16x2),
    frag(4, T::F16x2),
    frag(4, T::F32),
    META,
    imm(0, 3),
];
const WORD_SMALL: &[Opd] = &[
    out(4, T::F32),
    frag(2, T::B32),
    frag(2, T::B32),
    frag(4, T::F32),
    META,
    imm(0, 3),
];
const WORD_LARGE: &[Opd] = &[
    out(4, T::F32),
    frag(4, T::B32),
    frag(4, T::B32),
    frag(4, T::F32),
    META,
    imm(0, 1),
];
const INT_SMALL: &[Opd] = &[
    out(4, T::S32),
    frag(2, T::B32),
    frag(2, T::B32),
    frag(4, T::S32),
    META,
    imm(0, 1),
];
const INT_LARGE: &[Opd] = &[
    out(4, T::S32),
    frag(4, T::B32),
    frag(4, T::B32),
    frag(4, T::S32),
    META,
    imm(0, 0),
];
const FP8_LARGE: &[Opd] = &[
    out(4, T::F32),
    frag(4, T::B32),
    frag(4, T::B32),
    frag(4, T::F32),
    META,
    imm(0, 0),
];
const FP8_F16: &[Opd] = &[
    out(2, T::F16x2),
    frag(4, T::B32),
    frag(4, T::B32),
    frag(2, T::F16x2),
    META,
    imm(0, 0),
];

pub const TABLE: &[InstDesc] = &[
    sp(K16, &[F16, F16, F16, F16], F16_SMALL),
    sp(K16, &[F32, F16, F16, F32], F32_SMALL),
    sp(K32, &[F16, F16, F16, F16], F16_LARGE),
    sp(K32, &[F32, F16, F16, F32], F32_LARGE),
    sp(K16, &[F32, BF16, BF16, F32], WORD_SMALL),
    sp(K32, &[F32, BF16, BF16, F32], WORD_LARGE),
    sp(K8, &[F32, TF32, TF32, F32], WORD_SMALL),
    sp(K16, &[F32, TF32, TF32, F32], WORD_LARGE),
    integer(K32, &[S32, BYTES, BYTES, S32], INT_SMALL),
    integer(K64, &[S32, BYTES, BYTES, S32], INT_LARGE),
    integer(K64, &[S32, NIBBLES, NIBBLES, S32], INT_SMALL),
    integer(K128, &[S32, NIBBLES, NIBBLES, S32], INT_LARGE),
    sp(K64, &[F32, FP8, FP8, F32], FP8_LARGE)
        .optional(JUNK_KIND)
        .gates(SM89),
    // Not in the ISA, but ptxas has it.
    sp(FP8_ORDERED, &[F16, FP8, FP8, F16], FP8_F16)
        .optional(JUNK_KIND)
        .gates(SM120F),
    sp(KIND, &[F32, F8F6F4, F8F6F4, F32], FP8_LARGE).gates(SM120F),
    sp(KIND, &[F16, F8F6F4, F8F6F4, F16], FP8_F16).gates(SM120F),
];
