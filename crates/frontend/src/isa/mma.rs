//! `mma` without sparsity. PTX ISA, "Warp-Level Matrix Instructions: mma".
//!
//! A row is a shape with its types and the number of registers that each lane holds of D, A, B and
//! C: the elements of the matrix, divided among 32 lanes and packed into registers.

use smallvec::SmallVec;

use crate::ast::{Operand, OperandKind};
use crate::diag::Diagnostic;
use crate::parse::constexpr::{self, Value};
use crate::source::Span;
use crate::translate::{Inst, Translator};

use super::common::ROUND;
use super::desc::{A, D, Elems, Gate, InstDesc, Opd, inst, since};
use super::mma_product::product;
use super::modifiers::Mod;
use super::types::PtxType as T;

/// Modifiers of every `mma` but the oldest.
pub(super) const ROW_COL: &[Mod] = &[Mod::Sync, Mod::Aligned, Mod::Row, Mod::Col];
pub(super) const F16: &[T] = &[T::F16];
pub(super) const BF16: &[T] = &[T::Bf16];
pub(super) const TF32: &[T] = &[T::Tf32];
pub(super) const F32: &[T] = &[T::F32];
pub(super) const S32: &[T] = &[T::S32];
pub(super) const BYTES: &[T] = &[T::S8, T::U8];
pub(super) const NIBBLES: &[T] = &[T::S4, T::U4];
pub(super) const FP8: &[T] = &[T::E4m3, T::E5m2];
/// Formats of `.kind::f8f6f4` and `.kind::mxf8f6f4`.
pub(super) const F8F6F4: &[T] = &[T::E4m3, T::E5m2, T::E3m2, T::E2m3, T::E2m1];
pub(super) const SATFINITE: &[&[Mod]] = &[&[Mod::Satfinite]];
const FLOAT: &[T] = &[T::F64];
const BIT: &[T] = &[T::B1];

const SM70: &[Gate] = &[since(6, 4, 70)];
const SM75: &[Gate] = &[since(6, 5, 75)];
const SM80: &[Gate] = &[since(7, 0, 80)];
const SM90: &[Gate] = &[since(7, 8, 90)];
/// Targets that know the kind, whatever it does there.
pub(super) const ANY_KIND: Gate = since(8, 6, 100).mods(&[Mod::KindMxf8f6f4]).only(&[
    "100a", "100f", "101a", "101f", "103a", "103f", "110a", "110f", "120a", "120f", "121a", "121f",
]);
const FP8_K16: &[Gate] = &[
    since(8, 7, 89),
    ANY_KIND,
    since(8, 7, 120)
        .mods(&[Mod::KindF8f6f4])
        .only(&["120a", "120f", "121a", "121f"]),
];
const SM89: &[Gate] = &[since(8, 7, 89), ANY_KIND];
/// The family of consumer Blackwell GPUs.
pub(super) const SM120F: &[Gate] = &[since(8, 7, 120).only(&["120a", "120f", "121a", "121f"])];

/// A fragment of `n` registers that is written.
pub(super) const fn out(n: u8, ty: T) -> Opd {
    D.is(ty).vec(Elems::List(n))
}

/// A fragment of `n` registers that is read.
pub(super) const fn frag(n: u8, ty: T) -> Opd {
    A.is(ty).vec(Elems::List(n)).sreg()
}

const fn mma(
    shapes: &'static [&'static [Mod]],
    types: &'static [&'static [T]],
    operands: &'static [Opd],
) -> InstDesc {
    inst("mma", operands, product)
        .with(ROW_COL)
        .choose(shapes)
        .types(types)
        .check(check_fragments)
        .effect()
}

/// The first shape: the only one whose matrices may both be stored either way.
const fn quad_pairs(
    types: &'static [&'static [T]],
    operands: &'static [Opd],
    gates: &'static [Gate],
) -> InstDesc {
    inst("mma", operands, product)
        .effect()
        .with(&[Mod::Sync, Mod::Aligned, Mod::M8n8k4])
        .optional(&[&[Mod::Row], &[Mod::Col]])
        .repeats(&[Mod::Row, Mod::Col])
        .types(types)
        .gates(gates)
        .check(check_layouts)
}

const fn bits(
    shapes: &'static [&'static [Mod]],
    operands: &'static [Opd],
    gates: &'static [Gate],
) -> InstDesc {
    mma(shapes, &[S32, BIT, BIT, S32], operands).gates(gates)
}

const M8N8K4: &[&[Mod]] = &[&[Mod::M8n8k4]];
const M8N8K16: &[&[Mod]] = &[&[Mod::M8n8k16]];
const M8N8K32: &[&[Mod]] = &[&[Mod::M8n8k32]];
const M16N8K4: &[&[Mod]] = &[&[Mod::M16n8k4]];
const M16N8K8: &[&[Mod]] = &[&[Mod::M16n8k8]];
const M16N8K16: &[&[Mod]] = &[&[Mod::M16n8k16]];
const M16N8K32: &[&[Mod]] = &[&[Mod::M16n8k32]];
const M16N8K64: &[&[Mod]] = &[&[Mod::M16n8k64]];
const BIT_OP_75: &[&[Mod]] = &[&[Mod::M8n8k128], &[Mod::Xor, Mod::And], &[Mod::Popc]];
const BIT_OP_128: &[&[Mod]] = &[&[Mod::M16n8k128], &[Mod::Xor, Mod::And], &[Mod::Popc]];
const BIT_OP_256: &[&[Mod]] = &[&[Mod::M16n8k256], &[Mod::Xor, Mod::And], &[Mod::Popc]];

/// Fragments D, A, B, C of m8n8 shapes in which a lane has 32 bits of A and of B.
const SMALL: &[Opd] = &[
    out(2, T::S32),
    frag(1, T::B32),
    frag(1, T::B32),
    frag(2, T::S32),
];
const MIDDLE: &[Opd] = &[
    out(4, T::S32),
    frag(2, T::B32),
    frag(1, T::B32),
    frag(4, T::S32),
];
const LARGE: &[Opd] = &[
    out(4, T::S32),
    frag(4, T::B32),
    frag(2, T::B32),
    frag(4, T::S32),
];
/// ptxas lets these kinds pass on plain 8-bit floats.
const FP8_OPTIONS: &[&[Mod]] = &[&[Mod::KindF8f6f4, Mod::KindMxf8f6f4]];
pub(super) const JUNK_KIND: &[&[Mod]] = &[&[Mod::KindMxf8f6f4]];
/// ptxas lets these junk modifiers pass on 4-bit integers.
const NIBBLE_OPTIONS: &[&[Mod]] = &[&[Mod::Satfinite], &[Mod::Xor, Mod::And], &[Mod::Popc]];

pub const TABLE: &[InstDesc] = &[
    quad_pairs(
        &[F16, F16, F16, F16],
        &[
            out(4, T::F16x2),
            frag(2, T::F16x2),
            frag(2, T::F16x2),
            frag(4, T::F16x2),
        ],
        SM70,
    ),
    quad_pairs(
        &[F32, F16, F16, F16],
        &[
            out(8, T::F32),
            frag(2, T::F16x2),
            frag(2, T::F16x2),
            frag(4, T::F16x2),
        ],
        SM70,
    ),
    quad_pairs(
        &[F32, F16, F16, F32],
        &[
            out(8, T::F32),
            frag(2, T::F16x2),
            frag(2, T::F16x2),
            frag(8, T::F32),
        ],
        SM70,
    ),
    mma(
        M16N8K8,
        &[F16, F16, F16, F16],
        &[
            out(2, T::F16x2),
            frag(2, T::F16x2),
            frag(1, T::F16x2),
            frag(2, T::F16x2),
        ],
    )
    .gates(SM75),
    mma(
        M16N8K8,
        &[F32, F16, F16, F32],
        &[
            out(4, T::F32),
            frag(2, T::F16x2),
            frag(1, T::F16x2),
            frag(4, T::F32),
        ],
    )
    .gates(SM75),
    mma(
        M16N8K16,
        &[F16, F16, F16, F16],
        &[
            out(2, T::F16x2),
            frag(4, T::F16x2),
            frag(2, T::F16x2),
            frag(2, T::F16x2),
        ],
    )
    .gates(SM80),
    mma(
        M16N8K16,
        &[F32, F16, F16, F32],
        &[
            out(4, T::F32),
            frag(4, T::F16x2),
            frag(2, T::F16x2),
            frag(4, T::F32),
        ],
    )
    .gates(SM80),
    // Not in the ISA's list, but ptxas has it, with the registers of the form of f16: so its
    // elements are taken to be where those of f16 are.
    quad_pairs(
        &[F32, BF16, BF16, F32],
        &[
            out(8, T::F32),
            frag(2, T::Tf32),
            frag(2, T::Tf32),
            frag(8, T::F32),
        ],
        SM80,
    ),
    mma(
        M16N8K8,
        &[F32, BF16, BF16, F32],
        &[
            out(4, T::F32),
            frag(2, T::Tf32),
            frag(1, T::Tf32),
            frag(4, T::F32),
        ],
    )
    .gates(SM80),
    mma(
        M16N8K16,
        &[F32, BF16, BF16, F32],
        &[
            out(4, T::F32),
            frag(4, T::Tf32),
            frag(2, T::Tf32),
            frag(4, T::F32),
        ],
    )
    .gates(SM80),
    mma(
        M16N8K4,
        &[F32, TF32, TF32, F32],
        &[
            out(4, T::F32),
            frag(2, T::Tf32),
            frag(1, T::Tf32),
            frag(4, T::F32),
        ],
    )
    .gates(SM80),
    mma(
        M16N8K8,
        &[F32, TF32, TF32, F32],
        &[
            out(4, T::F32),
            frag(4, T::Tf32),
            frag(2, T::Tf32),
            frag(4, T::F32),
        ],
    )
    .gates(SM80),
    mma(
        M8N8K4,
        &[FLOAT, FLOAT, FLOAT, FLOAT],
        &[
            out(2, T::B64),
            frag(1, T::B64),
            frag(1, T::B64),
            frag(2, T::B64),
        ],
    )
    .optional(&[ROUND])
    .gates(SM80),
    mma(
        M16N8K4,
        &[FLOAT, FLOAT, FLOAT, FLOAT],
        &[
            out(4, T::B64),
            frag(2, T::B64),
            frag(1, T::B64),
            frag(4, T::B64),
        ],
    )
    .optional(&[ROUND])
    .gates(SM90),
    mma(
        M16N8K8,
        &[FLOAT, FLOAT, FLOAT, FLOAT],
        &[
            out(4, T::B64),
            frag(4, T::B64),
            frag(2, T::B64),
            frag(4, T::B64),
        ],
    )
    .optional(&[ROUND])
    .gates(SM90),
    mma(
        M16N8K16,
        &[FLOAT, FLOAT, FLOAT, FLOAT],
        &[
            out(4, T::B64),
            frag(8, T::B64),
            frag(4, T::B64),
            frag(4, T::B64),
        ],
    )
    .optional(&[ROUND])
    .gates(SM90),
    mma(M8N8K16, &[S32, BYTES, BYTES, S32], SMALL)
        .optional(SATFINITE)
        .gates(SM75),
    mma(M16N8K16, &[S32, BYTES, BYTES, S32], MIDDLE)
        .optional(SATFINITE)
        .gates(SM80),
    mma(M16N8K32, &[S32, BYTES, BYTES, S32], LARGE)
        .optional(SATFINITE)
        .gates(SM80),
    mma(M8N8K32, &[S32, NIBBLES, NIBBLES, S32], SMALL)
        .optional(NIBBLE_OPTIONS)
        .gates(SM75),
    mma(M16N8K32, &[S32, NIBBLES, NIBBLES, S32], MIDDLE)
        .optional(NIBBLE_OPTIONS)
        .gates(SM80),
    mma(M16N8K64, &[S32, NIBBLES, NIBBLES, S32], LARGE)
        .optional(NIBBLE_OPTIONS)
        .gates(SM80),
    bits(
        BIT_OP_75,
        SMALL,
        &[since(7, 0, 75), since(7, 1, 80).mods(&[Mod::And])],
    ),
    bits(
        BIT_OP_128,
        MIDDLE,
        &[since(7, 0, 80), since(7, 1, 80).mods(&[Mod::And])],
    ),
    bits(
        BIT_OP_256,
        LARGE,
        &[since(7, 0, 80), since(7, 1, 80).mods(&[Mod::And])],
    ),
    mma(
        M16N8K16,
        &[F16, FP8, FP8, F16],
        &[
            out(2, T::F16x2),
            frag(2, T::B32),
            frag(1, T::B32),
            frag(2, T::F16x2),
        ],
    )
    .optional(FP8_OPTIONS)
    .gates(FP8_K16),
    mma(
        M16N8K16,
        &[F32, FP8, FP8, F32],
        &[
            out(4, T::F32),
            frag(2, T::B32),
            frag(1, T::B32),
            frag(4, T::F32),
        ],
    )
    .optional(FP8_OPTIONS)
    .gates(FP8_K16),
    mma(
        M16N8K32,
        &[F16, FP8, FP8, F16],
        &[
            out(2, T::F16x2),
            frag(4, T::B32),
            frag(2, T::B32),
            frag(2, T::F16x2),
        ],
    )
    .optional(JUNK_KIND)
    .gates(SM89),
    mma(
        M16N8K32,
        &[F32, FP8, FP8, F32],
        &[
            out(4, T::F32),
            frag(4, T::B32),
            frag(2, T::B32),
            frag(4, T::F32),
        ],
    )
    .optional(JUNK_KIND)
    .gates(&[since(8, 4, 89), ANY_KIND]),
    mma(
        &[&[Mod::M16n8k32], &[Mod::KindF8f6f4]],
        &[F16, F8F6F4, F8F6F4, F16],
        &[
            out(2, T::F16x2),
            frag(4, T::B32),
            frag(2, T::B32),
            frag(2, T::F16x2),
        ],
    )
    .gates(SM120F),
    mma(
        &[&[Mod::M16n8k32], &[Mod::KindF8f6f4]],
        &[F32, F8F6F4, F8F6F4, F32],
        &[
            out(4, T::F32),
            frag(4, T::B32),
            frag(2, T::B32),
            frag(4, T::F32),
        ],
    )
    .gates(SM120F),
];

/// Two layouts, in any combination.
pub(super) fn check_layouts<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let layouts = layouts(t, inst).len();
    if layouts != 2 {
        return Err(inst.error(format!(
            "`{}` needs two layouts, `.row` or `.col`, and has {layouts}",
            inst.name
        )));
    }
    check_lists(t, inst)
}

/// A is stored by rows and B by columns.
pub(super) fn check_fragments<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
) -> Result<(), Diagnostic> {
    let layouts = layouts(t, inst);
    let wrong = layouts
        .iter()
        .zip([Mod::Row, Mod::Col])
        .find(|((layout, _), right)| layout != right);
    if let Some((&(_, span), right)) = wrong {
        let message = format!(
            "`{}` takes A by rows and B by columns: `.row.col`",
            inst.name
        );
        return Err(Diagnostic::error(message).label(span, format!("must be `.{}`", right.name())));
    }
    check_lists(t, inst)
}

/// The layouts in written order.
pub(super) fn layouts(t: &Translator<'_>, inst: &Inst<'_>) -> SmallVec<[(Mod, Span); 2]> {
    let layout = |text: &str| [Mod::Row, Mod::Col].into_iter().find(|m| m.name() == text);
    inst.ast
        .modifiers
        .iter()
        .filter_map(|m| Some((layout(m.text(t.source))?, m.span)))
        .collect()
}

/// A `0f` constant.
fn is_single(elem: &Operand) -> bool {
    let OperandKind::Constant(expr) = &elem.kind else {
        return false;
    };
    matches!(constexpr::evaluate(expr), Ok(Value::F32Bits(_)))
}

/// A list of nothing but constants has a type only where the instruction gives it one.
pub(super) fn check_lists<'m>(_: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    for (n, operand) in inst.ast.operands.iter().enumerate() {
        let OperandKind::Vector(elems) = &operand.kind else {
            continue;
        };
        let is_constant = elems
            .iter()
            .all(|elem| matches!(elem.kind, OperandKind::Constant(_)));
        let is_typed = match inst.opd_type(n) {
            T::S32 | T::B64 | T::U16 => true,
            T::F32 => elems.iter().all(is_single),
            _ => false,
        };
        if is_constant && !is_typed {
            return Err(inst.operand_error(
                n,
                "a list of nothing but constants has no type that fits here",
            ));
        }
    }
    Ok(())
}

/// Every register of the result is needed: none can be `_`.
pub(super) fn check_no_sink(inst: &Inst<'_>) -> Result<(), Diagnostic> {
    let Some(OperandKind::Vector(elems)) = inst.operand(0).map(|operand| &operand.kind) else {
        return Ok(());
    };
    match elems
        .iter()
        .find(|elem| matches!(elem.kind, OperandKind::Sink))
    {
        Some(sink) => Err(Diagnostic::error(format!(
            "`_` cannot stand in the result of `{}`",
            inst.name
        ))
        .label(sink.span, "")),
        None => Ok(()),
    }
}
