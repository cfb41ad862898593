//! `tcgen05.mma`: products whose matrices are in shared and tensor memory. PTX ISA, "TensorCore 5th
//! Generation Matrix Multiply and accumulate Operations".

use crate::ast::OperandKind;
use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use super::desc::{A, ADDR, ANY, Elems, Gate, InstDesc, Opd, OpdKind, inst, since};
use super::mma::check_lists;
use super::modifiers::Mod;
use super::operands::check_src_operand;
use super::tcgen05::{ARCHS, CTA_GROUP, GATES, SPECIFIC, check_group, check_tensor_address};
use super::tcgen05_exec::product;
use super::types::PtxType as T;

const I8: &[Gate] = &[since(8, 6, 100).only(&["100a", "101a", "110a"])];
const SCALED: &[Gate] = &[since(8, 6, 100).only(ARCHS), SCALE_VEC, BLOCK];
const SCALED_SPECIFIC: &[Gate] = &[since(8, 6, 100).only(SPECIFIC), SCALE_VEC, BLOCK];
const NVF4: &[Gate] = &[since(8, 7, 100).only(ARCHS), SCALE_VEC, BLOCK];
const NVF4_SPECIFIC: &[Gate] = &[since(8, 7, 100).only(SPECIFIC), SCALE_VEC, BLOCK];
const SCALE_VEC: Gate = since(8, 6, 100)
    .mods(&[Mod::ScaleVec1X, Mod::ScaleVec2X, Mod::ScaleVec4X])
    .only(SPECIFIC);
const BLOCK: Gate = since(8, 8, 100).mods(&[Mod::Block16, Mod::Block32]);

const DESC: Opd = A.is(T::U64);
/// The instruction descriptor.
const IDESC: Opd = A.is(T::U32);
/// Whether the old value of D is added.
const ENABLE: Opd = A.is(T::Pred).negatable();
/// Words of the lanes of D that are kept.
const LANE_MASK: Opd = A.is(T::B32).vec(Elems::Any);

const COLLECTOR_A: &[Mod] = &[
    Mod::CollectorAFill,
    Mod::CollectorAUse,
    Mod::CollectorALastuse,
    Mod::CollectorADiscard,
];
const COLLECTOR_B: &[Mod] = &[
    Mod::CollectorB0Fill,
    Mod::CollectorB0Use,
    Mod::CollectorB0Lastuse,
    Mod::CollectorB0Discard,
    Mod::CollectorB1Fill,
    Mod::CollectorB1Use,
    Mod::CollectorB1Lastuse,
    Mod::CollectorB1Discard,
    Mod::CollectorB2Fill,
    Mod::CollectorB2Use,
    Mod::CollectorB2Lastuse,
    Mod::CollectorB2Discard,
    Mod::CollectorB3Fill,
    Mod::CollectorB3Use,
    Mod::CollectorB3Lastuse,
    Mod::CollectorB3Discard,
];

/// D, A, B, (metadata,) descriptor, then an optional mask, whether D is added, and an optional
/// scale of D: [`check_tail`] tells the last three apart.
const PLAIN: &[Opd] = &[ADDR, ANY, DESC, IDESC, ANY, ANY.opt(), ANY.opt()];
const PLAIN_SPARSE: &[Opd] = &[ADDR, ANY, DESC, ADDR, IDESC, ANY, ANY.opt(), ANY.opt()];
const SCALE: &[Opd] = &[ADDR, ANY, DESC, IDESC, ADDR, ADDR, ENABLE];
const SCALE_SPARSE: &[Opd] = &[ADDR, ANY, DESC, ADDR, IDESC, ADDR, ADDR, ENABLE];
/// The last is the mask of zero columns.
const WEIGHT: &[Opd] = &[ADDR, ANY, DESC, IDESC, ENABLE, DESC.opt()];
const WEIGHT_SPARSE: &[Opd] = &[ADDR, ANY, DESC, ADDR, IDESC, ENABLE, DESC.opt()];

const fn plain(
    required: &'static [Mod],
    operands: &'static [Opd],
    kinds: &'static [&'static [Mod]],
) -> InstDesc {
    inst("tcgen05", operands, product)
        .effect()
        .with(required)
        .choose(kinds)
        .optional(&[COLLECTOR_A, &[Mod::Ashift]])
        .gates(GATES)
        .check(check_plain)
}

/// Kinds with block scaling; `options` are the sizes of a block that may be written.
const fn scaled(
    required: &'static [Mod],
    operands: &'static [Opd],
    kinds: &'static [&'static [Mod]],
    options: &'static [&'static [Mod]],
) -> InstDesc {
    inst("tcgen05", operands, product)
        .effect()
        .with(required)
        .choose(kinds)
        .optional(options)
        .gates(SCALED)
        .check(check_common)
}

/// Products with stationary weights, of a single CTA.
const fn weight(
    required: &'static [Mod],
    operands: &'static [Opd],
    kinds: &'static [&'static [Mod]],
) -> InstDesc {
    inst("tcgen05", operands, product)
        .effect()
        .with(required)
        .choose(kinds)
        .optional(&[COLLECTOR_B])
        .gates(GATES)
        .check(check_common)
}

const MMA: &[Mod] = &[Mod::Mma];
const MMA_SP: &[Mod] = &[Mod::Mma, Mod::Sp];
const MMA_WS: &[Mod] = &[Mod::Mma, Mod::Ws, Mod::CtaGroup1];
const MMA_WS_SP: &[Mod] = &[Mod::Mma, Mod::Ws, Mod::Sp, Mod::CtaGroup1];
const FLOATS: &[&[Mod]] = &[CTA_GROUP, &[Mod::KindF16, Mod::KindTf32, Mod::KindF8f6f4]];
const BYTES: &[&[Mod]] = &[CTA_GROUP, &[Mod::KindI8]];
const MXF8: &[&[Mod]] = &[CTA_GROUP, &[Mod::KindMxf8f6f4], &[Mod::BlockScale]];
const MXF4: &[&[Mod]] = &[CTA_GROUP, &[Mod::KindMxf4], &[Mod::BlockScale]];
const MXF4NVF4: &[&[Mod]] = &[
    CTA_GROUP,
    &[Mod::KindMxf4nvf4],
    &[Mod::BlockScale],
    &[Mod::ScaleVec2X, Mod::ScaleVec4X, Mod::Block16, Mod::Block32],
];
const BLOCK_1: &[&[Mod]] = &[COLLECTOR_A, &[Mod::ScaleVec1X, Mod::Block32]];
const BLOCK_2: &[&[Mod]] = &[COLLECTOR_A, &[Mod::ScaleVec2X, Mod::Block32]];
const BLOCK_CHOSEN: &[&[Mod]] = &[COLLECTOR_A];

pub const TABLE: &[InstDesc] = &[
    plain(MMA, PLAIN, FLOATS),
    plain(MMA, PLAIN, BYTES).gates(I8),
    plain(MMA_SP, PLAIN_SPARSE, FLOATS),
    plain(MMA_SP, PLAIN_SPARSE, BYTES).gates(I8),
    scaled(MMA, SCALE, MXF8, BLOCK_1),
    scaled(MMA, SCALE, MXF4, BLOCK_2),
    scaled(MMA, SCALE, MXF4NVF4, BLOCK_CHOSEN).gates(NVF4),
    scaled(MMA_SP, SCALE_SPARSE, MXF8, BLOCK_1),
    scaled(MMA_SP, SCALE_SPARSE, MXF4, BLOCK_2).gates(SCALED_SPECIFIC),
    scaled(MMA_SP, SCALE_SPARSE, MXF4NVF4, BLOCK_CHOSEN).gates(NVF4_SPECIFIC),
    weight(
        MMA_WS,
        WEIGHT,
        &[&[Mod::KindF16, Mod::KindTf32, Mod::KindF8f6f4]],
    ),
    weight(MMA_WS, WEIGHT, &[&[Mod::KindI8]]).gates(I8),
    weight(
        MMA_WS_SP,
        WEIGHT_SPARSE,
        &[&[Mod::KindF16, Mod::KindTf32, Mod::KindF8f6f4]],
    ),
    weight(MMA_WS_SP, WEIGHT_SPARSE, &[&[Mod::KindI8]]).gates(I8),
];

/// What all products share: the group, addresses of tensor memory, and A as a descriptor or in
/// tensor memory.
fn check_common<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    check_group(t, inst)?;
    for (n, opd) in inst.opds.iter().enumerate() {
        if opd.kind == OpdKind::Addr {
            check_tensor_address(t, inst, n)?;
        }
    }
    let Some(a) = inst.operand(1) else {
        return Ok(());
    };
    match a.kind {
        OperandKind::Address(_) => check_tensor_address(t, inst, 1)?,
        _ => check_src_operand(t, inst, a, &DESC, T::U64)?,
    }
    check_lists(t, inst)
}

fn check_plain<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    check_common(t, inst)?;
    let in_tensor_memory = matches!(
        inst.operand(1).map(|a| &a.kind),
        Some(OperandKind::Address(_))
    );
    if inst.has(Mod::Ashift) {
        if !in_tensor_memory {
            return Err(inst.error("`.ashift` needs A in tensor memory"));
        }
        if let Some(m) = inst.pick(&[Mod::CollectorAFill, Mod::CollectorAUse]) {
            return Err(inst.error(format!("`.{}` cannot be combined with `.ashift`", m.name())));
        }
    }
    check_tail(t, inst)
}

/// The optional mask and scale around the predicate.
fn check_tail<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let mut n = if inst.has(Mod::Sp) { 5 } else { 4 };
    if let Some(operand) = inst.operand(n)
        && let OperandKind::Vector(words) = &operand.kind
    {
        let expected = if inst.has(Mod::CtaGroup2) { 8 } else { 4 };
        if words.len() != expected {
            let message = format!(
                "the mask of lanes has {expected} words here, not {}",
                words.len()
            );
            return Err(inst.operand_error(n, message));
        }
        check_src_operand(t, inst, operand, &LANE_MASK, T::B32)?;
        n += 1;
    }
    let Some(enable) = inst.operand(n) else {
        return Err(inst.error(format!(
            "`{}` needs a predicate that tells whether D is added",
            inst.name
        )));
    };
    check_src_operand(t, inst, enable, &ENABLE, T::Pred)?;
    let Some(scale) = inst.operand(n + 1) else {
        return Ok(());
    };
    if inst.operand(n + 2).is_some() {
        return Err(inst.operand_error(n + 2, format!("`{}` has no such operand", inst.name)));
    }
    if inst.has(Mod::KindI8) {
        // Not in the ISA: ptxas takes one predicate more.
        return check_src_operand(t, inst, scale, &ENABLE, T::Pred);
    }
    if inst.has(Mod::KindF8f6f4) {
        return Err(
            Diagnostic::error("D is scaled only by `.kind::f16` and `.kind::tf32`")
                .label(scale.span, ""),
        );
    }
    super::target::require(
        t,
        inst,
        &since(8, 6, 100).only(&["100a", "100f", "103a", "103f"]),
        "a scale of D",
    )?;
    let value = t.src_const(inst, n + 1)?;
    if (0..=15).contains(&value) {
        return Ok(());
    }
    Err(inst.operand_error(
        n + 1,
        format!("{value} is out of range: the scale of D is 0 to 15"),
    ))
}
