//! `wmma`: loading, storing and multiplying matrices whose fragments have no documented layout. PTX
//! ISA, "Warp-Level Matrix Instructions: wmma".

use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use super::common::ROUND;
use super::desc::{A, ADDR, Gate, InstDesc, Opd, inst, since};
use super::mma::{check_fragments, check_layouts, check_lists, frag, out};
use super::modifiers::Mod;
use super::operands::check_memory;
use super::types::PtxType as T;
use super::wmma_fragments as wmma;

/// What all share: `.sync` is required, `.aligned` since PTX 6.3, and the state space of a load or
/// store may be written.
const LAYOUT: &[Mod] = &[Mod::Row, Mod::Col];
const SPACE: &[Mod] = &[Mod::Global, Mod::Shared, Mod::SharedCta];
const ALIGNED: &[Mod] = &[Mod::Aligned];
const MEMORY: &[&[Mod]] = &[ALIGNED, SPACE];
const STRIDE: Opd = A.is(T::U32).opt();

const K16: &[Mod] = &[Mod::M16n16k16, Mod::M8n32k16, Mod::M32n8k16];
const ROW: &[Mod] = &[Mod::Row];
const COL: &[Mod] = &[Mod::Col];

const F16: &[T] = &[T::F16];
const F32: &[T] = &[T::F32];
const S32: &[T] = &[T::S32];
const BYTES: &[T] = &[T::S8, T::U8];
const NIBBLES: &[T] = &[T::S4, T::U4];

const SM70: &[Gate] = &[
    since(6, 0, 70),
    since(6, 1, 70).mods(&[Mod::M8n32k16, Mod::M32n8k16]),
    SHARED_CTA,
];
const SM72: &[Gate] = &[since(6, 3, 72), SHARED_CTA];
const SM75: &[Gate] = &[since(6, 3, 75), SHARED_CTA];
const SM80: &[Gate] = &[since(7, 0, 80), SHARED_CTA];
const SHARED_CTA: Gate = since(7, 8, 0).mods(&[Mod::SharedCta]);

/// `wmma.load` of one of `matrices` with its layout and shape.
const fn load(
    form: &'static [&'static [Mod]],
    types: &'static [&'static [T]],
    operands: &'static [Opd],
) -> InstDesc {
    inst("wmma", operands, wmma::load)
        .with(&[Mod::Load, Mod::Sync])
        .choose(form)
        .optional(MEMORY)
        .types(types)
        .check(check_memory_form)
        .effect()
}

const fn store(
    form: &'static [&'static [Mod]],
    types: &'static [&'static [T]],
    operands: &'static [Opd],
) -> InstDesc {
    inst("wmma", operands, wmma::store)
        .with(&[Mod::Store, Mod::D, Mod::Sync])
        .choose(form)
        .optional(MEMORY)
        .types(types)
        .check(check_memory_form)
        .effect()
}

/// `wmma.mma`, with A and B stored either way.
const fn product(
    form: &'static [&'static [Mod]],
    types: &'static [&'static [T]],
    operands: &'static [Opd],
) -> InstDesc {
    inst("wmma", operands, wmma::product)
        .with(&[Mod::Mma, Mod::Sync])
        .choose(form)
        .optional(PLAIN)
        .types(types)
        .repeats(&[Mod::Row, Mod::Col])
        .check(check_product)
        .effect()
}

const PLAIN: &[&[Mod]] = &[&[Mod::Row], &[Mod::Col], ALIGNED];
const SATURATED: &[&[Mod]] = &[&[Mod::Row], &[Mod::Col], ALIGNED, &[Mod::Satfinite]];
const ROUNDED: &[&[Mod]] = &[&[Mod::Row], &[Mod::Col], ALIGNED, ROUND];

const fn half(types: &'static [&'static [T]], operands: &'static [Opd]) -> InstDesc {
    product(&[K16], types, operands)
        .optional(SATURATED)
        .gates(SM70)
        .check(check_half)
}

const fn bytes(
    form: &'static [&'static [Mod]],
    ty: &'static [&'static [T]],
    operands: &'static [Opd],
) -> InstDesc {
    product(form, ty, operands).optional(SATURATED).gates(SM72)
}

const fn words(
    form: &'static [&'static [Mod]],
    types: &'static [&'static [T]],
    operands: &'static [Opd],
) -> InstDesc {
    product(form, types, operands).gates(SM80)
}

/// Types of less than a byte are stored by rows and by columns respectively.
const fn sub_byte(form: &'static [&'static [Mod]], types: &'static [&'static [T]]) -> InstDesc {
    product(form, types, SMALL)
        .gates(SM75)
        .check(check_sub_byte)
}

const A_OR_B: &[Mod] = &[Mod::A, Mod::B];
const LOAD_AB: &[&[Mod]] = &[A_OR_B, LAYOUT, K16];
const LOAD_C: &[&[Mod]] = &[&[Mod::C], LAYOUT, K16];
const SQUARE: &[&[Mod]] = &[A_OR_B, LAYOUT, &[Mod::M16n16k16]];
const FLAT_A: &[&[Mod]] = &[&[Mod::A], LAYOUT, &[Mod::M8n32k16]];
const FLAT_B: &[&[Mod]] = &[&[Mod::B], LAYOUT, &[Mod::M8n32k16]];
const TALL_A: &[&[Mod]] = &[&[Mod::A], LAYOUT, &[Mod::M32n8k16]];
const TALL_B: &[&[Mod]] = &[&[Mod::B], LAYOUT, &[Mod::M32n8k16]];

const F16_FRAG: Opd = out(8, T::F16x2);

pub const TABLE: &[InstDesc] = &[
    load(LOAD_AB, &[F16], &[F16_FRAG, ADDR, STRIDE]).gates(SM70),
    load(LOAD_C, &[F16], &[out(4, T::F16x2), ADDR, STRIDE]).gates(SM70),
    load(LOAD_C, &[F32], &[out(8, T::F32), ADDR, STRIDE]).gates(SM70),
    load(LOAD_C, &[S32], &[out(8, T::S32), ADDR, STRIDE]).gates(SM72),
    load(SQUARE, &[BYTES], &[out(2, T::B32), ADDR, STRIDE]).gates(SM72),
    load(FLAT_A, &[BYTES], &[out(1, T::B32), ADDR, STRIDE]).gates(SM72),
    load(FLAT_B, &[BYTES], &[out(4, T::B32), ADDR, STRIDE]).gates(SM72),
    load(TALL_A, &[BYTES], &[out(4, T::B32), ADDR, STRIDE]).gates(SM72),
    load(TALL_B, &[BYTES], &[out(1, T::B32), ADDR, STRIDE]).gates(SM72),
    load(SQUARE, &[&[T::Bf16]], &[out(4, T::Tf32), ADDR, STRIDE]).gates(SM80),
    load(FLAT_A, &[&[T::Bf16]], &[out(2, T::Tf32), ADDR, STRIDE]).gates(SM80),
    load(FLAT_B, &[&[T::Bf16]], &[out(8, T::Tf32), ADDR, STRIDE]).gates(SM80),
    load(TALL_A, &[&[T::Bf16]], &[out(8, T::Tf32), ADDR, STRIDE]).gates(SM80),
    load(TALL_B, &[&[T::Bf16]], &[out(2, T::Tf32), ADDR, STRIDE]).gates(SM80),
    load(
        &[A_OR_B, LAYOUT, &[Mod::M16n16k8]],
        &[&[T::Tf32]],
        &[out(4, T::Tf32), ADDR, STRIDE],
    )
    .gates(SM80),
    load(
        &[&[Mod::C], LAYOUT, &[Mod::M16n16k8]],
        &[F32],
        &[out(8, T::F32), ADDR, STRIDE],
    )
    .gates(SM80),
    load(
        &[A_OR_B, LAYOUT, &[Mod::M8n8k4]],
        &[&[T::F64]],
        &[out(1, T::B64), ADDR, STRIDE],
    )
    .gates(SM80),
    load(
        &[&[Mod::C], LAYOUT, &[Mod::M8n8k4]],
        &[&[T::F64]],
        &[out(2, T::B64), ADDR, STRIDE],
    )
    .gates(SM80),
    load(
        &[&[Mod::A], ROW, &[Mod::M8n8k32]],
        &[NIBBLES],
        &[out(1, T::B32), ADDR, STRIDE],
    )
    .gates(SM75),
    load(
        &[&[Mod::B], COL, &[Mod::M8n8k32]],
        &[NIBBLES],
        &[out(1, T::B32), ADDR, STRIDE],
    )
    .gates(SM75),
    load(
        &[&[Mod::A], ROW, &[Mod::M8n8k128]],
        &[&[T::B1]],
        &[out(1, T::B32), ADDR, STRIDE],
    )
    .gates(SM75),
    load(
        &[&[Mod::B], COL, &[Mod::M8n8k128]],
        &[&[T::B1]],
        &[out(1, T::B32), ADDR, STRIDE],
    )
    .gates(SM75),
    load(
        &[&[Mod::C], LAYOUT, &[Mod::M8n8k32, Mod::M8n8k128]],
        &[S32],
        &[out(2, T::S32), ADDR, STRIDE],
    )
    .gates(SM75),
    store(&[LAYOUT, K16], &[F16], &[ADDR, frag(4, T::F16x2), STRIDE]).gates(SM70),
    store(&[LAYOUT, K16], &[F32], &[ADDR, frag(8, T::F32), STRIDE]).gates(SM70),
    store(&[LAYOUT, K16], &[S32], &[ADDR, frag(8, T::S32), STRIDE]).gates(SM72),
    store(
        &[LAYOUT, &[Mod::M16n16k8]],
        &[F32],
        &[ADDR, frag(8, T::F32), STRIDE],
    )
    .gates(SM80),
    store(
        &[LAYOUT, &[Mod::M8n8k4]],
        &[&[T::F64]],
        &[ADDR, frag(2, T::B64), STRIDE],
    )
    .gates(SM80),
    store(
        &[LAYOUT, &[Mod::M8n8k32, Mod::M8n8k128]],
        &[S32],
        &[ADDR, frag(2, T::S32), STRIDE],
    )
    .gates(SM75),
    half(
        &[F16, F16],
        &[
            out(4, T::F16x2),
            frag(8, T::F16x2),
            frag(8, T::F16x2),
            frag(4, T::F16x2),
        ],
    ),
    half(
        &[F16, F32],
        &[
            out(4, T::F16x2),
            frag(8, T::F16x2),
            frag(8, T::F16x2),
            frag(8, T::F32),
        ],
    ),
    half(
        &[F32, F16],
        &[
            out(8, T::F32),
            frag(8, T::F16x2),
            frag(8, T::F16x2),
            frag(4, T::F16x2),
        ],
    ),
    half(
        &[F32, F32],
        &[
            out(8, T::F32),
            frag(8, T::F16x2),
            frag(8, T::F16x2),
            frag(8, T::F32),
        ],
    ),
    bytes(SQUARE_K16, SIGNED, SQUARE_BYTES),
    bytes(SQUARE_K16, UNSIGNED, SQUARE_BYTES),
    bytes(FLAT, SIGNED, FLAT_BYTES),
    bytes(FLAT, UNSIGNED, FLAT_BYTES),
    bytes(TALL, SIGNED, TALL_BYTES),
    bytes(TALL, UNSIGNED, TALL_BYTES),
    words(
        SQUARE_K16,
        BF16,
        &[
            out(8, T::F32),
            frag(4, T::Tf32),
            frag(4, T::Tf32),
            frag(8, T::F32),
        ],
    ),
    words(
        FLAT,
        BF16,
        &[
            out(8, T::F32),
            frag(2, T::Tf32),
            frag(8, T::Tf32),
            frag(8, T::F32),
        ],
    ),
    words(
        TALL,
        BF16,
        &[
            out(8, T::F32),
            frag(8, T::Tf32),
            frag(2, T::Tf32),
            frag(8, T::F32),
        ],
    ),
    words(
        &[&[Mod::M16n16k8]],
        TF32,
        &[
            out(8, T::F32),
            frag(4, T::Tf32),
            frag(4, T::Tf32),
            frag(8, T::F32),
        ],
    ),
    words(
        &[&[Mod::M8n8k4]],
        F64,
        &[
            out(2, T::B64),
            frag(1, T::B64),
            frag(1, T::B64),
            frag(2, T::B64),
        ],
    )
    .optional(ROUNDED),
    sub_byte(&[&[Mod::M8n8k32]], &[S32, &[T::S4], &[T::S4], S32]).optional(SATURATED),
    sub_byte(&[&[Mod::M8n8k32]], &[S32, &[T::U4], &[T::U4], S32]).optional(SATURATED),
    sub_byte(
        &[&[Mod::M8n8k128], &[Mod::Xor, Mod::And], &[Mod::Popc]],
        &[S32, &[T::B1], &[T::B1], S32],
    )
    .gates(&[since(6, 3, 75), since(7, 1, 80).mods(&[Mod::And])]),
];

const SQUARE_K16: &[&[Mod]] = &[&[Mod::M16n16k16]];
const FLAT: &[&[Mod]] = &[&[Mod::M8n32k16]];
const TALL: &[&[Mod]] = &[&[Mod::M32n8k16]];
const SIGNED: &[&[T]] = &[S32, &[T::S8], &[T::S8], S32];
const UNSIGNED: &[&[T]] = &[S32, &[T::U8], &[T::U8], S32];
const BF16: &[&[T]] = &[F32, &[T::Bf16], &[T::Bf16], F32];
const TF32: &[&[T]] = &[F32, &[T::Tf32], &[T::Tf32], F32];
const F64: &[&[T]] = &[&[T::F64], &[T::F64], &[T::F64], &[T::F64]];
const SMALL: &[Opd] = &[
    out(2, T::S32),
    frag(1, T::U32),
    frag(1, T::U32),
    frag(2, T::S32),
];
const SQUARE_BYTES: &[Opd] = &[
    out(8, T::S32),
    frag(2, T::U32),
    frag(2, T::U32),
    frag(8, T::S32),
];
const FLAT_BYTES: &[Opd] = &[
    out(8, T::S32),
    frag(1, T::U32),
    frag(4, T::U32),
    frag(8, T::S32),
];
const TALL_BYTES: &[Opd] = &[
    out(8, T::S32),
    frag(4, T::U32),
    frag(1, T::U32),
    frag(8, T::S32),
];

/// `.aligned` was implicit before PTX 6.3 and must be written since.
fn check_aligned<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let version = t.version();
    match (inst.has(Mod::Aligned), version.at_least(6, 3)) {
        (false, true) => Err(inst.error(format!(
            "`{}` lacks `.aligned`, which is mandatory since PTX 6.3",
            inst.name
        ))),
        (true, false) => Err(inst.error(format!(
            "`.aligned` on `wmma` needs PTX 6.3, but `.version` is {}.{}",
            version.major, version.minor
        ))),
        (true, true) | (false, false) => Ok(()),
    }
}

fn check_memory_form<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    check_aligned(t, inst)?;
    let n = if inst.has(Mod::Load) { 1 } else { 0 };
    check_memory(t, inst, n)?;
    check_lists(t, inst)
}

fn check_product<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    check_aligned(t, inst)?;
    check_layouts(t, inst)
}

/// Saturation of floats was dropped.
fn check_half<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    if inst.has(Mod::Satfinite) && t.version().at_least(6, 5) {
        return Err(inst.error("`.satfinite` on floating-point `wmma.mma` was removed in PTX 6.5"));
    }
    check_product(t, inst)
}

fn check_sub_byte<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    check_product(t, inst)?;
    check_fragments(t, inst)
}
