//! Comparison and selection: PTX ISA, "Comparison and Selection Instructions", also those of half
//! precision.

use ptxjit_ir::{
    CompareOp, FloatCompareOp, FloatFmt, InstData, IntBinaryOp, IntUnaryOp, ResizeOp, Type, Value,
};
use smallvec::SmallVec;

use crate::ast::OperandKind;
use crate::translate::{Inst, Translator};

use super::common::{Done, SCALAR, fmt_of, is_flushed, is_packed};
use super::desc::{A, B, C, D, DP, Gate, InstDesc, PRED, inst, since};
use super::modifiers::Mod;
use super::modifiers::Mod::{And, Ftz, Or, Xor};
use super::types::PtxType::*;
use super::types::{Class, PtxType};

const CMP: &[Mod] = &[
    Mod::Eq,
    Mod::Ne,
    Mod::Lt,
    Mod::Le,
    Mod::Gt,
    Mod::Ge,
    Mod::Lo,
    Mod::Ls,
    Mod::Hi,
    Mod::Hs,
    Mod::Equ,
    Mod::Neu,
    Mod::Ltu,
    Mod::Leu,
    Mod::Gtu,
    Mod::Geu,
    Mod::Num,
    Mod::Nan,
];
const BOOL: &[Mod] = &[And, Or, Xor];

const SCALAR_F16: &[PtxType] = &[B16, B32, B64, U16, U32, U64, S16, S32, S64, F16, F32, F64];
const SCALAR_HALF: &[PtxType] = &[
    B16, B32, B64, U16, U32, U64, S16, S32, S64, F16, Bf16, F32, F64,
];
const WORD: &[PtxType] = &[U32, S32];
const INT16_32: &[PtxType] = &[U16, S16, U32, S32];

const F64_TARGET: Gate = since(1, 0, 13).types(&[F64]);
const GATES: &[Gate] = &[F64_TARGET, since(1, 4, 0).mods(&[Ftz])];
const GATES_F16: &[Gate] = &[since(4, 2, 53)];
const GATES_F16_INT: &[Gate] = &[since(6, 5, 53)];
const GATES_BF16: &[Gate] = &[since(7, 8, 90)];

const SET: &[super::desc::Opd] = &[D, A.nth(1), B.nth(1)];
const SET_BOOL: &[super::desc::Opd] = &[D, A.nth(1), B.nth(1), PRED];

/// `set` with these types, without and with a boolean operator.
const fn set_rows(types: &'static [&'static [PtxType]], gates: &'static [Gate]) -> [InstDesc; 2] {
    [
        inst("set", SET, set)
            .types(types)
            .choose(&[CMP])
            .optional(&[&[Ftz]])
            .gates(gates)
            .check(check_set),
        inst("set", SET_BOOL, set)
            .types(types)
            .choose(&[CMP, BOOL])
            .optional(&[&[Ftz]])
            .gates(gates)
            .check(check_set),
    ]
}

const SET_PLAIN: [InstDesc; 2] = set_rows(&[&[U32, S32, F32], SCALAR], GATES);
const SET_TO_F16: [InstDesc; 2] = set_rows(&[&[F16], SCALAR_F16], GATES_F16);
const SET_TO_BF16: [InstDesc; 2] = set_rows(&[&[Bf16], SCALAR_HALF], GATES_BF16);
const SET_F16: [InstDesc; 2] = set_rows(&[INT16_32, &[F16]], GATES_F16_INT);
const SET_BF16: [InstDesc; 2] = set_rows(&[INT16_32, &[Bf16]], GATES_BF16);
const SET_F16X2: [InstDesc; 2] = set_rows(&[&[F16x2], &[F16x2]], GATES_F16);
const SET_F16X2_INT: [InstDesc; 2] = set_rows(&[WORD, &[F16x2]], GATES_F16_INT);
const SET_BF16X2: [InstDesc; 2] = set_rows(&[&[Bf16x2, U32, S32], &[Bf16x2]], GATES_BF16);

/// `setp` of these types with such a destination, without and with a boolean operator.
const fn setp_rows(
    types: &'static [&'static [PtxType]],
    operands: [&'static [super::desc::Opd]; 2],
    gates: &'static [Gate],
) -> [InstDesc; 2] {
    [
        inst("setp", operands[0], setp)
            .types(types)
            .choose(&[CMP])
            .optional(&[&[Ftz]])
            .gates(gates)
            .check(check_setp),
        inst("setp", operands[1], setp)
            .types(types)
            .choose(&[CMP, BOOL])
            .optional(&[&[Ftz]])
            .gates(gates)
            .check(check_setp),
    ]
}

const SETP_PAIR: [&[super::desc::Opd]; 2] =
    [&[DP.pair().sink(), A, B], &[DP.pair().sink(), A, B, PRED]];

const SETP: [InstDesc; 2] = setp_rows(&[SCALAR], SETP_PAIR, GATES);
const SETP_F16: [InstDesc; 2] = setp_rows(&[&[F16]], SETP_PAIR, GATES_F16);
const SETP_F16X2: [InstDesc; 2] = setp_rows(&[&[F16x2]], SETP_PAIR, GATES_F16);
const SETP_BF16: [InstDesc; 2] = setp_rows(&[&[Bf16]], SETP_PAIR, GATES_BF16);
const SETP_BF16X2: [InstDesc; 2] = setp_rows(&[&[Bf16x2]], SETP_PAIR, GATES_BF16);

/// The rows of these chapters.
pub const TABLE: &[InstDesc] = &[
    SETP[0],
    SETP[1],
    inst("selp", &[D, A, B, PRED], selp)
        .types(&[SCALAR])
        .gates(&[F64_TARGET]),
    inst("slct", &[D, A, B, C.nth(1)], slct)
        .types(&[SCALAR, &[S32]])
        .gates(&[F64_TARGET]),
    inst("slct", &[D, A, B, C.nth(1)], slct)
        .types(&[SCALAR, &[F32]])
        .optional(&[&[Ftz]])
        .gates(GATES),
    SET_PLAIN[0],
    SET_PLAIN[1],
    SET_TO_F16[0],
    SET_TO_F16[1],
    SET_TO_BF16[0],
    SET_TO_BF16[1],
    SET_F16[0],
    SET_F16[1],
    SET_BF16[0],
    SET_BF16[1],
    SET_F16X2[0],
    SET_F16X2[1],
    SET_F16X2_INT[0],
    SET_F16X2_INT[1],
    SET_BF16X2[0],
    SET_BF16X2[1],
    SETP_F16[0],
    SETP_F16[1],
    SETP_F16X2[0],
    SETP_F16X2[1],
    SETP_BF16[0],
    SETP_BF16[1],
    SETP_BF16X2[0],
    SETP_BF16X2[1],
];

/// Which comparisons a type has, and where `.ftz` may stand.
fn check_comparison(inst: &Inst<'_>, ty: PtxType) -> Done {
    let Some(op) = inst.pick(CMP) else {
        return Ok(());
    };
    let is_equality = matches!(op, Mod::Eq | Mod::Ne);
    let is_ordering = matches!(op, Mod::Lt | Mod::Le | Mod::Gt | Mod::Ge);
    let is_unsigned = matches!(op, Mod::Lo | Mod::Ls | Mod::Hi | Mod::Hs);
    let (is_legal, rule) = match ty.class() {
        Class::Bits => (
            is_equality,
            "bit types are compared only with `.eq` and `.ne`",
        ),
        Class::Unsigned => (
            is_equality || is_ordering || is_unsigned,
            "comparisons that are true for NaN or test for it need a float type",
        ),
        Class::Signed => (
            is_equality || is_ordering,
            "`.lo`, `.ls`, `.hi` and `.hs` are unsigned, the others need a float type",
        ),
        Class::Float | Class::Format => (
            !is_unsigned,
            "`.lo`, `.ls`, `.hi` and `.hs` are for unsigned integers",
        ),
        Class::Pred | Class::Opaque => (false, "there is no comparison of this type"),
    };
    if !is_legal {
        return Err(inst
            .error(format!(
                "`.{}` is no comparison of `.{}`",
                op.name(),
                ty.name()
            ))
            .note(rule));
    }
    if inst.ftz() && !matches!(ty, F32 | F16 | F16x2) {
        return Err(inst.error(format!(
            "`.ftz` is not allowed on a comparison of `.{}`",
            ty.name()
        )));
    }
    Ok(())
}

fn check_setp<'m>(_: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    if matches!(inst.ty(0), F16 | Bf16) && has_second_destination(inst) {
        return Err(inst.operand_error(
            0,
            format!("`{}` has a single destination, not `p|q`", inst.name),
        ));
    }
    check_comparison(inst, inst.ty(0))
}

/// Whether the destination is `p|q`, and `q` is more than `_`.
fn has_second_destination(inst: &Inst<'_>) -> bool {
    match inst.operand(0).map(|operand| &operand.kind) {
        Some(OperandKind::Pair(pair)) => !matches!(pair[1].kind, OperandKind::Sink),
        _ => false,
    }
}

fn check_set<'m>(_: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    if inst.ftz() && inst.ty(0) == Bf16 {
        return Err(inst.error("`.ftz` is not allowed on `set` with a result of type `.bf16`"));
    }
    check_comparison(inst, inst.ty(1))
}

/// Compares operands 1 and 2, of type `ty`: one `B1` for each element.
fn compare<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    ty: PtxType,
) -> Result<SmallVec<[Value; 2]>, crate::diag::Diagnostic> {
    let (a, b) = (t.src(inst, 1)?, t.src(inst, 2)?);
    let op = inst.pick(CMP).unwrap_or(Mod::Eq);
    if let Some(fmt) = ty.float_fmt() {
        let ftz = is_flushed(t, inst, fmt);
        let op = float_op(op);
        if !is_packed(ty) {
            return Ok(SmallVec::from_slice(&[t.float_compare(op, fmt, ftz, a, b)]));
        }
        let (a, b) = (t.halves(a), t.halves(b));
        return Ok(a
            .into_iter()
            .zip(b)
            .map(|(a, b)| t.float_compare(op, fmt, ftz, a, b))
            .collect());
    }
    let op = int_op(op, ty.is_signed());
    Ok(SmallVec::from_slice(&[t.compare(op, a, b)]))
}

fn int_op(op: Mod, is_signed: bool) -> CompareOp {
    match (op, is_signed) {
        (Mod::Ne, _) => CompareOp::Ne,
        (Mod::Lt, true) => CompareOp::Slt,
        (Mod::Le, true) => CompareOp::Sle,
        (Mod::Gt, true) => CompareOp::Sgt,
        (Mod::Ge, true) => CompareOp::Sge,
        (Mod::Lt | Mod::Lo, _) => CompareOp::Ult,
        (Mod::Le | Mod::Ls, _) => CompareOp::Ule,
        (Mod::Gt | Mod::Hi, _) => CompareOp::Ugt,
        (Mod::Ge | Mod::Hs, _) => CompareOp::Uge,
        _ => CompareOp::Eq,
    }
}

fn float_op(op: Mod) -> FloatCompareOp {
    match op {
        Mod::Ne => FloatCompareOp::Ne,
        Mod::Lt => FloatCompareOp::Lt,
        Mod::Le => FloatCompareOp::Le,
        Mod::Gt => FloatCompareOp::Gt,
        Mod::Ge => FloatCompareOp::Ge,
        Mod::Equ => FloatCompareOp::Equ,
        Mod::Neu => FloatCompareOp::Neu,
        Mod::Ltu => FloatCompareOp::Ltu,
        Mod::Leu => FloatCompareOp::Leu,
        Mod::Gtu => FloatCompareOp::Gtu,
        Mod::Geu => FloatCompareOp::Geu,
        Mod::Num => FloatCompareOp::Num,
        Mod::Nan => FloatCompareOp::Nan,
        _ => FloatCompareOp::Eq,
    }
}

/// The boolean operator of `.and`, `.or` or `.xor` with operand 3.
fn combine(t: &mut Translator<'_>, inst: &Inst<'_>, truth: Value, with: Option<Value>) -> Value {
    let Some(with) = with else { return truth };
    let op = match inst.pick(BOOL) {
        Some(Mod::Or) => IntBinaryOp::Or,
        Some(Mod::Xor) => IntBinaryOp::Xor,
        _ => IntBinaryOp::And,
    };
    t.binary(op, truth, with)
}

/// `p = (a cmp b) op c` and `q = !(a cmp b) op c`; of packed types `p` and `q` are the low and the
/// high element's.
fn setp<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let truths = compare(t, inst, inst.ty(0))?;
    let with = t.src_opt(inst, 3)?;
    let p = combine(t, inst, truths[0], with);
    if !has_second_destination(inst) {
        return t.dst_pair(inst, 0, p, p);
    }
    let q = match truths.get(1) {
        Some(&high) => high,
        None => t.unary(IntUnaryOp::Not, truths[0]),
    };
    let q = combine(t, inst, q, with);
    t.dst_pair(inst, 0, p, q)
}

/// `d = (a cmp b) op c` as all ones or 1.0, of each element.
fn set<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let truths = compare(t, inst, inst.ty(1))?;
    let with = t.src_opt(inst, 3)?;
    let dtype = inst.ty(0);
    let to = dtype.ir().unwrap_or(Type::B32);
    let elem = if truths.len() == 2 { Type::B16 } else { to };
    let mut values: SmallVec<[Value; 2]> = SmallVec::new();
    for truth in truths {
        let truth = combine(t, inst, truth, with);
        values.push(match one(dtype) {
            Some(bits) => {
                let one = t.iconst(elem, bits);
                let zero = t.iconst(elem, 0);
                t.select(truth, one, zero)
            }
            None => t.ins(
                InstData::Resize {
                    op: ResizeOp::Sext,
                    from: Type::B1,
                    to: elem,
                    arg: truth,
                },
                elem,
            ),
        });
    }
    let d = if values.len() == 1 {
        values[0]
    } else {
        t.concat(&values, to)
    };
    t.dst(inst, 0, d)
}

/// 1.0 of a float type's elements.
fn one(ty: PtxType) -> Option<u64> {
    match ty.float_fmt()? {
        FloatFmt::F16 => Some(0x3c00),
        FloatFmt::Bf16 => Some(0x3f80),
        FloatFmt::F32 => Some(0x3f80_0000),
        FloatFmt::F64 => Some(0x3ff0_0000_0000_0000),
    }
}

/// `d = c ? a : b`
fn selp<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let (a, b, c) = (t.src(inst, 1)?, t.src(inst, 2)?, t.src(inst, 3)?);
    t.count_choice(c);
    let d = t.select(c, a, b);
    t.dst(inst, 0, d)
}

/// `d = c >= 0 ? a : b`; -0 counts as 0 and NaN selects `b`.
fn slct<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let (a, b, c) = (t.src(inst, 1)?, t.src(inst, 2)?, t.src(inst, 3)?);
    let zero = t.iconst(Type::B32, 0);
    let is_positive = if inst.ty(1) == F32 {
        let fmt = fmt_of(F32);
        let ftz = is_flushed(t, inst, fmt);
        t.float_compare(FloatCompareOp::Ge, fmt, ftz, c, zero)
    } else {
        t.compare(CompareOp::Sge, c, zero)
    };
    let d = t.select(is_positive, a, b);
    t.dst(inst, 0, d)
}
