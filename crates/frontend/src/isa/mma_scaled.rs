//! `mma` with block scaling: `.kind::mx*` formats whose blocks of elements share a scale factor.
//! PTX ISA, "Warp-Level Matrix Instructions: mma", "Block Scaling for mma.sync".

use crate::ast::OperandKind;
use crate::diag::Diagnostic;
use crate::parse::constexpr;
use crate::translate::{Inst, Translator};

use super::desc::{A, Elems, Gate, InstDesc, Opd, imm, inst, since};
use super::mma::{F8F6F4, F32, ROW_COL, SM120F, check_fragments, frag, out};
use super::mma_product;
use super::mma_sparse::META;
use super::modifiers::Mod;
use super::types::PtxType as T;

/// Sparse 4-bit products are in no family target.
const SM120A: &[Gate] = &[since(8, 7, 120).only(&["120a", "121a"])];
const UE8M0_4X: &[Gate] = &[since(9, 1, 120).only(&["120a", "120f", "121a", "121f"])];
const UE8M0_4X_SPARSE: &[Gate] = &[since(9, 1, 120).only(&["120a", "121a"])];

const FP4: &[T] = &[T::E2m1];
const UE8M0: &[T] = &[T::Ue8m0];
const UE4M3: &[T] = &[T::Ue4m3];

const SCALE: Opd = A.is(T::B32).vec(Elems::Of(1)).reg();
/// Which byte of the scale register, and which of four lanes has it.
const SELECTOR: Opd = A.is(T::U16).vec(Elems::List(2));

const DENSE: &[Opd] = &[
    out(4, T::F32),
    frag(4, T::E4m3x4),
    frag(2, T::E4m3x4),
    frag(4, T::F32),
    SCALE,
    SELECTOR,
    SCALE,
    SELECTOR,
];
const SPARSE: &[Opd] = &[
    out(4, T::F32),
    frag(4, T::E4m3x4),
    frag(4, T::E4m3x4),
    frag(4, T::F32),
    META,
    imm(0, 0),
    SCALE,
    SELECTOR,
    SCALE,
    SELECTOR,
];

const MXF8: &[&[T]] = &[F32, F8F6F4, F8F6F4, F32, UE8M0];
const MXF4: &[&[T]] = &[F32, FP4, FP4, F32, UE8M0];
const NVF4: &[&[T]] = &[F32, FP4, FP4, F32, UE4M3];
const X1: &[&[Mod]] = &[&[Mod::ScaleVec1X]];
const X2: &[&[Mod]] = &[&[Mod::ScaleVec2X]];

/// The required part of a form: shape, kind and what else belongs to it.
const fn scaled(
    operands: &'static [Opd],
    form: &'static [&'static [Mod]],
    types: &'static [&'static [T]],
) -> InstDesc {
    inst("mma", operands, mma_product::scaled)
        .with(ROW_COL)
        .choose(form)
        .types(types)
        .gates(SM120F)
        .check(check_scaled)
        .effect()
}

const DENSE_8: &[&[Mod]] = &[&[Mod::M16n8k32], &[Mod::KindMxf8f6f4], &[Mod::BlockScale]];
const DENSE_4: &[&[Mod]] = &[&[Mod::M16n8k64], &[Mod::KindMxf4], &[Mod::BlockScale]];
const DENSE_4_2X: &[&[Mod]] = &[
    &[Mod::M16n8k64],
    &[Mod::KindMxf4nvf4],
    &[Mod::BlockScale],
    &[Mod::ScaleVec2X],
];
const DENSE_4_4X: &[&[Mod]] = &[
    &[Mod::M16n8k64],
    &[Mod::KindMxf4nvf4],
    &[Mod::BlockScale],
    &[Mod::ScaleVec4X],
];
const ORDERED: &[Mod] = &[Mod::SpOrderedMetadata];
const SPARSE_8: &[&[Mod]] = &[
    ORDERED,
    &[Mod::M16n8k64],
    &[Mod::KindMxf8f6f4],
    &[Mod::BlockScale],
];
const SPARSE_4: &[&[Mod]] = &[
    ORDERED,
    &[Mod::M16n8k128],
    &[Mod::KindMxf4],
    &[Mod::BlockScale],
];
const SPARSE_4_2X: &[&[Mod]] = &[
    ORDERED,
    &[Mod::M16n8k128],
    &[Mod::KindMxf4nvf4],
    &[Mod::BlockScale],
    &[Mod::ScaleVec2X],
];
const SPARSE_4_4X: &[&[Mod]] = &[
    ORDERED,
    &[Mod::M16n8k128],
    &[Mod::KindMxf4nvf4],
    &[Mod::BlockScale],
    &[Mod::ScaleVec4X],
];

pub const TABLE: &[InstDesc] = &[
    scaled(DENSE, DENSE_8, MXF8).optional(X1),
    scaled(DENSE, DENSE_4, MXF4).optional(X2),
    scaled(DENSE, DENSE_4_2X, MXF4),
    scaled(DENSE, DENSE_4_4X, NVF4),
    scaled(DENSE, DENSE_4_4X, MXF4).gates(UE8M0_4X),
    scaled(SPARSE, SPARSE_8, MXF8).optional(X1),
    scaled(SPARSE, SPARSE_4, MXF4).optional(X2).gates(SM120A),
    scaled(SPARSE, SPARSE_4_2X, MXF4).gates(SM120A),
    scaled(SPARSE, SPARSE_4_4X, NVF4).gates(SM120A),
    scaled(SPARSE, SPARSE_4_4X, MXF4).gates(UE8M0_4X_SPARSE),
];

/// The selectors `{byte, thread}` are in range: the bytes that are taken begin at a multiple of
/// their number.
fn check_scaled<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    check_fragments(t, inst)?;
    let bytes: &[i64] = match inst.pick(&[Mod::ScaleVec4X, Mod::KindMxf8f6f4]) {
        Some(Mod::ScaleVec4X) => &[0],
        Some(_) => &[0, 1, 2, 3],
        None => &[0, 2],
    };
    let n = inst.n_operands();
    for (n, threads) in [(n - 3, 1), (n - 1, 3)] {
        let Some(OperandKind::Vector(elems)) = inst.operand(n).map(|operand| &operand.kind) else {
            continue;
        };
        for (elem, is_byte) in elems.iter().zip([true, false]) {
            let OperandKind::Constant(expr) = &elem.kind else {
                continue;
            };
            let Some(value) = constexpr::evaluate(expr)?
                .as_int()
                .map(|value| value as i64)
            else {
                continue;
            };
            let (what, is_right) = if is_byte {
                ("byte-id", bytes.contains(&value))
            } else {
                ("thread-id", (0..=threads).contains(&value))
            };
            if !is_right {
                let range = if is_byte {
                    format!("one of {bytes:?}")
                } else {
                    format!("0 to {threads}")
                };
                let message = format!(
                    "{what} {value} is out of range: `{}` takes {range} here",
                    inst.name
                );
                return Err(Diagnostic::error(message).label(elem.span, ""));
            }
        }
    }
    Ok(())
}
