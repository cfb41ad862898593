//! `wgmma`: asynchronous products of a warpgroup. PTX ISA, "Asynchronous Warpgroup Level Matrix
//! Multiply-Accumulate Instructions".
//!
//! The shapes `.m64nNkK` are many, so they are no modifiers of the list: [`shape`] reads them, and
//! N decides how many registers the accumulator D has.

use crate::ast::OperandKind;
use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use super::desc::{A, ANY, D, Elems, Gate, InstDesc, Opd, imm, inst, since};
use super::misc::mark;
use super::mma::{BYTES, FP8, check_lists, check_no_sink, frag};
use super::modifiers::Mod;
use super::operands::check_src_operand;
use super::types::PtxType as T;
use super::wgmma_product;

const DENSE: &[Gate] = &[since(8, 0, 90).only(&["90a"])];
const SPARSE: &[Gate] = &[since(8, 2, 90).only(&["90a"])];
const SATFINITE: &[&[Mod]] = &[&[Mod::Satfinite], &[Mod::Aligned]];

/// The accumulator; [`check_product`] counts it.
const fn accumulator(ty: T) -> Opd {
    D.is(ty).vec(Elems::Any)
}

const DESC: Opd = A.is(T::U64);
/// Whether the old value of D is added.
const SCALE_D: Opd = A.is(T::Pred).negatable();
const META: Opd = A.is(T::B32).reg();
/// Negates the elements of A or B, if it is -1.
const SCALE: Opd = imm(-1, 1);
const TRANS: Opd = imm(0, 1);
const SELECTOR_2: Opd = imm(0, 1);
const SELECTOR_1: Opd = imm(0, 0);

const fn dense(types: &'static [&'static [T]], operands: &'static [Opd]) -> InstDesc {
    inst("wgmma", operands, product)
        .effect()
        .with(&[Mod::MmaAsync, Mod::Sync])
        .optional(&[&[Mod::Aligned]])
        .extra(is_shape)
        .types(types)
        .gates(DENSE)
        .check(check_product)
}

const fn sparse(types: &'static [&'static [T]], operands: &'static [Opd]) -> InstDesc {
    inst("wgmma", operands, product)
        .effect()
        .with(&[Mod::MmaAsync, Mod::Sp, Mod::Sync])
        .optional(&[&[Mod::Aligned]])
        .extra(is_shape)
        .types(types)
        .gates(SPARSE)
        .check(check_product)
}

const F16: &[&[T]] = &[&[T::F16], &[T::F16], &[T::F16]];
const F16_F32: &[&[T]] = &[&[T::F32], &[T::F16], &[T::F16]];
const BF16: &[&[T]] = &[&[T::F32], &[T::Bf16], &[T::Bf16]];
const TF32: &[&[T]] = &[&[T::F32], &[T::Tf32], &[T::Tf32]];
const FP8_F16: &[&[T]] = &[&[T::F16], FP8, FP8];
const FP8_F32: &[&[T]] = &[&[T::F32], FP8, FP8];
const INT: &[&[T]] = &[&[T::S32], BYTES, BYTES];
const BIT: &[&[T]] = &[&[T::S32], &[T::B1], &[T::B1]];

/// The last operand tells how B is stored; if A has a descriptor, the one before it tells how A is.
const F16_OPDS: &[Opd] = &[
    accumulator(T::F16x2),
    ANY,
    DESC,
    SCALE_D,
    SCALE,
    SCALE,
    TRANS,
    TRANS.opt(),
];
const F32_TRANS: &[Opd] = &[
    accumulator(T::F32),
    ANY,
    DESC,
    SCALE_D,
    SCALE,
    SCALE,
    TRANS,
    TRANS.opt(),
];
const HALF_OPDS: &[Opd] = &[accumulator(T::F16x2), ANY, DESC, SCALE_D, SCALE, SCALE];
const F32_OPDS: &[Opd] = &[accumulator(T::F32), ANY, DESC, SCALE_D, SCALE, SCALE];
const S32_OPDS: &[Opd] = &[accumulator(T::S32), ANY, DESC, SCALE_D];
const F16_SPARSE: &[Opd] = &[
    accumulator(T::F16x2),
    ANY,
    DESC,
    META,
    SELECTOR_2,
    SCALE_D,
    SCALE,
    SCALE,
    TRANS,
    TRANS.opt(),
];
const F32_TRANS_SPARSE: &[Opd] = &[
    accumulator(T::F32),
    ANY,
    DESC,
    META,
    SELECTOR_2,
    SCALE_D,
    SCALE,
    SCALE,
    TRANS,
    TRANS.opt(),
];
const TF32_SPARSE: &[Opd] = &[
    accumulator(T::F32),
    ANY,
    DESC,
    META,
    SELECTOR_2,
    SCALE_D,
    SCALE,
    SCALE,
];
const FP8_F16_SPARSE: &[Opd] = &[
    accumulator(T::F16x2),
    ANY,
    DESC,
    META,
    SELECTOR_1,
    SCALE_D,
    SCALE,
    SCALE,
];
const FP8_F32_SPARSE: &[Opd] = &[
    accumulator(T::F32),
    ANY,
    DESC,
    META,
    SELECTOR_1,
    SCALE_D,
    SCALE,
    SCALE,
];
const S32_SPARSE: &[Opd] = &[accumulator(T::S32), ANY, DESC, META, SELECTOR_1, SCALE_D];

pub const TABLE: &[InstDesc] = &[
    // ptxas does not insist on `.aligned`, though the ISA does.
    inst("wgmma", &[], mark)
        .effect()
        .with(&[Mod::Fence, Mod::Sync])
        .optional(&[&[Mod::Aligned]])
        .gates(DENSE),
    inst("wgmma", &[], mark)
        .effect()
        .with(&[Mod::CommitGroup, Mod::Sync])
        .optional(&[&[Mod::Aligned]])
        .gates(DENSE),
    inst("wgmma", &[imm(0, i64::MAX)], wgmma_product::wait)
        .effect()
        .with(&[Mod::WaitGroup, Mod::Sync])
        .optional(&[&[Mod::Aligned]])
        .gates(DENSE),
    dense(F16, F16_OPDS),
    dense(F16_F32, F32_TRANS),
    dense(BF16, F32_TRANS),
    dense(TF32, F32_OPDS),
    dense(FP8_F16, HALF_OPDS),
    dense(FP8_F32, F32_OPDS),
    dense(INT, S32_OPDS).optional(SATFINITE),
    dense(BIT, S32_OPDS).choose(&[&[Mod::And], &[Mod::Popc]]),
    sparse(F16, F16_SPARSE),
    sparse(F16_F32, F32_TRANS_SPARSE),
    sparse(BF16, F32_TRANS_SPARSE),
    sparse(TF32, TF32_SPARSE),
    sparse(FP8_F16, FP8_F16_SPARSE),
    sparse(FP8_F32, FP8_F32_SPARSE),
    sparse(INT, S32_SPARSE).optional(SATFINITE),
];

/// N and K of `m64nNkK`.
fn shape(text: &str) -> Option<(u32, u32)> {
    let (n, k) = text.strip_prefix("m64n")?.split_once('k')?;
    let number = |digits: &str| {
        digits
            .parse()
            .ok()
            .filter(|number: &u32| number.to_string() == digits)
    };
    Some((number(n)?, number(k)?))
}

fn is_shape(text: &str) -> bool {
    shape(text).is_some()
}

/// K of the dense forms on elements of this type: 32 bytes of them.
fn depth(ty: T) -> u32 {
    match ty {
        T::F16 | T::Bf16 => 16,
        T::Tf32 => 8,
        T::B1 => 256,
        _ => 32,
    }
}

fn check_shape(inst: &Inst<'_>) -> Result<u32, Diagnostic> {
    let [text] = inst.extra[..] else {
        return Err(inst.error(format!(
            "`{}` needs one shape, such as `.m64n8k16`",
            inst.name
        )));
    };
    let (n, k) = shape(text).unwrap_or_default();
    let expected = depth(inst.ty(1)) << u32::from(inst.has(Mod::Sp));
    if k != expected {
        return Err(inst.error(format!(
            "shape `.{text}` does not go with these types: K must be {expected}"
        )));
    }
    let is_integer = inst.ty(0) == T::S32;
    let is_allowed =
        n % 8 == 0 && (8..=256).contains(&n) && (!is_integer || n % 16 == 0 || matches!(n, 8 | 24));
    if is_allowed {
        return Ok(n);
    }
    let rule = if is_integer {
        "8, 16, 24 or a multiple of 16"
    } else {
        "a multiple of 8"
    };
    Err(inst.error(format!(
        "shape `.{text}` does not exist: N must be {rule} up to 256"
    )))
}

fn product<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let n = check_shape(inst)?;
    wgmma_product::product(t, inst, n.into())
}

fn check_product<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let n = check_shape(inst)?;
    if inst.ty(1) != inst.ty(2) && BYTES.contains(&inst.ty(1)) {
        super::target::require(t, inst, &since(8, 4, 0), "mixing `.s8` and `.u8`")?;
    }
    let expected = if inst.ty(0) == T::F16 { n / 4 } else { n / 2 };
    let is_counted = |operand: &OperandKind| matches!(operand, OperandKind::Vector(elems) if elems.len() == expected as usize);
    if !inst
        .operand(0)
        .is_some_and(|operand| is_counted(&operand.kind))
    {
        return Err(inst.operand_error(
            0,
            format!("D of this shape is a list of {expected} registers in braces"),
        ));
    }
    check_no_sink(inst)?;
    check_a(t, inst)?;
    check_scales(t, inst)?;
    check_lists(t, inst)
}

/// A is in registers, or in shared memory behind a descriptor.
fn check_a<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    const LIST: Opd = frag(4, T::B32);
    const FLOATS: Opd = frag(4, T::F16x2);
    const WORDS: Opd = frag(4, T::Tf32);
    let Some(operand) = inst.operand(1) else {
        return Ok(());
    };
    let is_list = matches!(operand.kind, OperandKind::Vector(_));
    let has_trans = matches!(inst.ty(1), T::F16 | T::Bf16);
    if has_trans && inst.has_optional() == is_list {
        let n = if is_list {
            "one operand tells how B is stored, none how A is"
        } else {
            "two operands tell how A and B are stored"
        };
        return Err(inst.error(format!("`{}`: {n}", inst.name)));
    }
    match (is_list, inst.ty(1)) {
        (true, T::F16) => check_src_operand(t, inst, operand, &FLOATS, T::F16x2),
        (true, T::Bf16 | T::Tf32) => check_src_operand(t, inst, operand, &WORDS, T::Tf32),
        (true, _) => check_src_operand(t, inst, operand, &LIST, T::B32),
        (false, _) => check_src_operand(t, inst, operand, &DESC, T::U64),
    }
}

/// The factors of A and B are 1 or -1.
fn check_scales<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let first = if inst.has(Mod::Sp) { 6 } else { 4 };
    for n in [first, first + 1] {
        if n < inst.n_operands() && t.src_const(inst, n)? == 0 {
            return Err(inst.operand_error(n, "a matrix is scaled by 1 or -1"));
        }
    }
    Ok(())
}
