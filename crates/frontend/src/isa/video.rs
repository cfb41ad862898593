//! Scalar video instructions: PTX ISA, "Scalar Video Instructions".
//!
//! A byte, half or word of each source is widened by its own type, the operation is done exactly in
//! 64 bits, then clamped, combined with a third source or merged into it.

use ptxjit_ir::{CompareOp, IntBinaryOp, IntUnaryOp, ResizeOp, Type, Value};

use crate::translate::{Inst, Selected, Translator};

use super::common::Done;
use super::desc::{A, B, C, D, Gate, InstDesc, Opd, Selector, inst, since};
use super::integer::{limit_count, min_max_ops};
use super::modifiers::Mod;
use super::modifiers::Mod::{Add, Clamp, Max, Min, Po, Sat, Shr7, Shr15, Wrap};
use super::types::PtxType;
use super::types::PtxType::{S32, U32};

const INT: &[PtxType] = &[U32, S32];
const TYPES: &[&[PtxType]] = &[INT, INT, INT];
const SHIFT_TYPES: &[&[PtxType]] = &[INT, INT, &[U32]];
const SECOND: &[Mod] = &[Add, Min, Max];
/// The comparisons of `vset`.
pub const COMPARISONS: &[Mod] = &[Mod::Eq, Mod::Ne, Mod::Lt, Mod::Le, Mod::Gt, Mod::Ge];
const GATES: &[Gate] = &[since(2, 0, 20)];

const PART_A: Opd = A.nth(1).select(Selector::Part);
const PART_B: Opd = B.nth(2).select(Selector::Part);
/// With a merge: `d` or `d.dsel`, and for the latter `c`.
const MERGE: &[Opd] = &[D.select(Selector::Part), PART_A, PART_B, C.opt()];
/// With a second operation.
const WITH_C: &[Opd] = &[D, PART_A, PART_B, C];
// `vset` names only the types of its sources; its result is unsigned.
const SET_A: Opd = A.select(Selector::Part);
const SET_B: Opd = B.nth(1).select(Selector::Part);

const fn arithmetic_rows(opcode: &'static str, handler: super::desc::Handler) -> [InstDesc; 2] {
    [
        inst(opcode, MERGE, handler)
            .types(TYPES)
            .optional(&[&[Sat]])
            .gates(GATES)
            .check(check_merge),
        inst(opcode, WITH_C, handler)
            .types(TYPES)
            .choose(&[SECOND])
            .optional(&[&[Sat]])
            .gates(GATES),
    ]
}

const fn shift_rows(opcode: &'static str, handler: super::desc::Handler) -> [InstDesc; 2] {
    [
        inst(opcode, MERGE, handler)
            .types(SHIFT_TYPES)
            .choose(&[&[Clamp, Wrap]])
            .optional(&[&[Sat]])
            .gates(GATES)
            .check(check_merge),
        inst(opcode, WITH_C, handler)
            .types(SHIFT_TYPES)
            .choose(&[&[Clamp, Wrap], SECOND])
            .optional(&[&[Sat]])
            .gates(GATES),
    ]
}

const VADD: [InstDesc; 2] = arithmetic_rows("vadd", vadd);
const VSUB: [InstDesc; 2] = arithmetic_rows("vsub", vsub);
const VABSDIFF: [InstDesc; 2] = arithmetic_rows("vabsdiff", vabsdiff);
const VMIN: [InstDesc; 2] = arithmetic_rows("vmin", vmin);
const VMAX: [InstDesc; 2] = arithmetic_rows("vmax", vmax);
const VSHL: [InstDesc; 2] = shift_rows("vshl", vshl);
const VSHR: [InstDesc; 2] = shift_rows("vshr", vshr);

/// The rows of this chapter.
pub const TABLE: &[InstDesc] = &[
    VADD[0],
    VADD[1],
    VSUB[0],
    VSUB[1],
    VABSDIFF[0],
    VABSDIFF[1],
    VMIN[0],
    VMIN[1],
    VMAX[0],
    VMAX[1],
    VSHL[0],
    VSHL[1],
    VSHR[0],
    VSHR[1],
    inst(
        "vmad",
        &[D, PART_A.minus(), PART_B.minus(), C.minus()],
        vmad,
    )
    .types(TYPES)
    .optional(&[&[Sat], &[Shr7, Shr15]])
    .gates(GATES)
    .check(check_vmad),
    inst("vmad", &[D, PART_A, PART_B, C], vmad)
        .types(TYPES)
        .with(&[Po])
        .optional(&[&[Sat], &[Shr7, Shr15]])
        .gates(GATES),
    inst(
        "vset",
        &[
            D.is(U32).select(Selector::Part),
            SET_A,
            SET_B,
            C.is(U32).opt(),
        ],
        vset,
    )
    .types(&[INT, INT])
    .choose(&[COMPARISONS])
    .gates(GATES)
    .check(check_merge),
    inst("vset", &[D.is(U32), SET_A, SET_B, C.is(U32)], vset)
        .types(&[INT, INT])
        .choose(&[COMPARISONS, SECOND])
        .gates(GATES),
];

/// A merge into part of `d` needs `c`, which gives the rest.
fn check_merge<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    if t.selector(inst, 0).is_some() && inst.n_operands() < 4 {
        return Err(inst.operand_error(
            0,
            "a destination of which a part is selected needs a fourth operand: the other parts",
        ));
    }
    Ok(())
}

/// Negations: of `a` and `b`, or of `c`.
fn check_vmad<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    use crate::ast::OperandKind;
    let _ = t;
    let is_negated = |n| {
        matches!(
            inst.operand(n).map(|operand| &operand.kind),
            Some(OperandKind::Neg(_))
        )
    };
    if is_negated(3) && is_negated(1) != is_negated(2) {
        return Err(inst.operand_error(3, "the product and the addend cannot both be negated"));
    }
    Ok(())
}

/// The selected part of a word as a `B64`, extended by its type.
pub fn extend_part(
    t: &mut Translator<'_>,
    word: Value,
    selector: Option<&str>,
    is_signed: bool,
) -> Value {
    let value = match selector.and_then(part) {
        Some((from, width)) => t.extract(word, from, width),
        None => word,
    };
    widen(t, value, is_signed)
}

/// First bit and width that `.b0` to `.b3`, `.h0`, `.h1` select.
fn part(selector: &str) -> Option<(u32, Type)> {
    let (size, digit) = selector.split_at_checked(1)?;
    let idx: u32 = digit.parse().ok()?;
    match size {
        "b" => Some((8 * idx, Type::B8)),
        "h" => Some((16 * idx, Type::B16)),
        _ => None,
    }
}

fn widen(t: &mut Translator<'_>, value: Value, is_signed: bool) -> Value {
    if is_signed {
        t.sext_or_trunc(value, Type::B64)
    } else {
        t.zext_or_trunc(value, Type::B64)
    }
}

/// Clamps a `B64` to the range of a type of `bits` bits.
pub fn clamp(t: &mut Translator<'_>, value: Value, bits: u32, is_signed: bool) -> Value {
    let (least, greatest) = if is_signed {
        (-1i64 << (bits - 1), (1i64 << (bits - 1)) - 1)
    } else {
        (0, (1i64 << bits) - 1)
    };
    let least = t.iconst(Type::B64, least as u64);
    let greatest = t.iconst(Type::B64, greatest as u64);
    let value = t.binary(IntBinaryOp::Smax, value, least);
    t.binary(IntBinaryOp::Smin, value, greatest)
}

/// The sources `a` and `b`, extended, then `op`, then what follows every scalar operation.
fn scalar<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    op: impl FnOnce(&mut Translator<'m>, Value, Value) -> Value,
) -> Done {
    let (a, b) = (t.src_selected(inst, 1)?, t.src_selected(inst, 2)?);
    let a = extend(t, inst, a, 1);
    let b = extend(t, inst, b, 2);
    let result = op(t, a, b);
    finish(t, inst, result, inst.ty(0).is_signed())
}

fn extend<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    source: Selected<'m>,
    nth_type: usize,
) -> Value {
    extend_part(
        t,
        source.word,
        source.selector,
        inst.ty(nth_type).is_signed(),
    )
}

/// Clamps the exact result, applies the second operation or the merge with `c`, and writes the low
/// 32 bits.
fn finish<'m>(t: &mut Translator<'m>, inst: &Inst<'m>, result: Value, is_signed: bool) -> Done {
    let selector = t.selector(inst, 0);
    let selected = selector.and_then(part);
    let bits = selected.map_or(32, |(_, width)| width.bits());
    let result = if inst.has(Sat) {
        clamp(t, result, bits, is_signed)
    } else {
        result
    };
    let c = t.src_opt(inst, 3)?;
    let d = match (c, inst.pick(SECOND), selected) {
        (Some(c), Some(second), _) => {
            let c = widen(t, c, is_signed);
            let op = match second {
                Add => IntBinaryOp::Add,
                Min => IntBinaryOp::Smin,
                _ => IntBinaryOp::Smax,
            };
            let combined = t.binary(op, result, c);
            t.zext_or_trunc(combined, Type::B32)
        }
        (Some(c), None, Some((from, _))) => {
            let word = t.zext_or_trunc(result, Type::B32);
            insert(t, word, c, from, bits)
        }
        (_, _, None) | (None, _, Some(_)) => t.zext_or_trunc(result, Type::B32),
    };
    t.dst_selected(inst, 0, d)
}

/// Puts the low `bits` bits of `part` into `word` from bit `from` on.
pub fn insert(t: &mut Translator<'_>, part: Value, word: Value, from: u32, bits: u32) -> Value {
    let from = t.iconst(Type::B32, u64::from(from));
    let bits = t.iconst(Type::B32, u64::from(bits));
    t.ins(
        ptxjit_ir::InstData::Bfi {
            ty: Type::B32,
            args: [part, word, from, bits],
        },
        Type::B32,
    )
}

/// `d = a + b`
fn vadd<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    scalar(t, inst, |t, a, b| t.binary(IntBinaryOp::Add, a, b))
}

/// `d = a - b`
fn vsub<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    scalar(t, inst, |t, a, b| t.binary(IntBinaryOp::Sub, a, b))
}

/// `d = |a - b|`
fn vabsdiff<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    scalar(t, inst, |t, a, b| {
        let difference = t.binary(IntBinaryOp::Sub, a, b);
        t.unary(IntUnaryOp::Abs, difference)
    })
}

/// `d = min(a, b)`
fn vmin<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    scalar(t, inst, |t, a, b| t.binary(min_max_ops(true).0, a, b))
}

/// `d = max(a, b)`
fn vmax<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    scalar(t, inst, |t, a, b| t.binary(min_max_ops(true).1, a, b))
}

/// `d = a << b`, the amount at most 32 or modulo 32. What `.sat` clamps has 34 bits (the ISA's
/// `.s34`): more are lost.
fn vshl<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    shift(t, inst, |t, a, amount| {
        let shifted = t.binary(IntBinaryOp::Shl, a, amount);
        if !inst.has(Sat) {
            return shifted;
        }
        let above = t.iconst(Type::B32, 64 - 34);
        let top = t.binary(IntBinaryOp::Shl, shifted, above);
        t.binary(IntBinaryOp::Sshr, top, above)
    })
}

/// `d = a >> b`, filled with the sign of `a`.
fn vshr<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    shift(t, inst, |t, a, amount| {
        t.binary(IntBinaryOp::Sshr, a, amount)
    })
}

fn shift<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    op: impl FnOnce(&mut Translator<'m>, Value, Value) -> Value,
) -> Done {
    scalar(t, inst, |t, a, b| {
        let amount = t.zext_or_trunc(b, Type::B32);
        let amount = limit_count(t, inst, amount);
        op(t, a, amount)
    })
}

/// The comparison of two extended values.
pub fn compare(t: &mut Translator<'_>, inst: &Inst<'_>, a: Value, b: Value) -> Value {
    let op = match inst.pick(COMPARISONS) {
        Some(Mod::Ne) => CompareOp::Ne,
        Some(Mod::Lt) => CompareOp::Slt,
        Some(Mod::Le) => CompareOp::Sle,
        Some(Mod::Gt) => CompareOp::Sgt,
        Some(Mod::Ge) => CompareOp::Sge,
        _ => CompareOp::Eq,
    };
    let truth = t.compare(op, a, b);
    t.ins(
        ptxjit_ir::InstData::Resize {
            op: ResizeOp::Uext,
            from: Type::B1,
            to: Type::B64,
            arg: truth,
        },
        Type::B64,
    )
}

/// `d = a cmp b ? 1 : 0`
fn vset<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let (a, b) = (t.src_selected(inst, 1)?, t.src_selected(inst, 2)?);
    let a = extend(t, inst, a, 0);
    let b = extend(t, inst, b, 1);
    let truth = compare(t, inst, a, b);
    finish(t, inst, truth, false)
}

/// 128 bits: the low and the high half.
type Wide = [Value; 2];

fn add_wide(t: &mut Translator<'_>, x: Wide, y: Wide) -> Wide {
    let low = t.binary(IntBinaryOp::Add, x[0], y[0]);
    let carry = t.compare(CompareOp::Ult, low, x[0]);
    let carry = t.zext_or_trunc(carry, Type::B64);
    let high = t.binary(IntBinaryOp::Add, x[1], y[1]);
    [low, t.binary(IntBinaryOp::Add, high, carry)]
}

/// `d = ±(a * b) ± c` or `a * b + c + 1`, scaled and clamped. Products of words need more than 64
/// bits, so 128 are used.
fn vmad<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let (a, b, c) = (
        t.src_selected(inst, 1)?,
        t.src_selected(inst, 2)?,
        t.src_selected(inst, 3)?,
    );
    let negates_product = a.is_negated != b.is_negated;
    let is_signed =
        inst.ty(1).is_signed() || inst.ty(2).is_signed() || negates_product || c.is_negated;
    let (x, y) = (extend(t, inst, a, 1), extend(t, inst, b, 2));
    let mut product = [
        t.binary(IntBinaryOp::Mul, x, y),
        t.binary(IntBinaryOp::SmulHi, x, y),
    ];
    if negates_product {
        product = product.map(|half| t.unary(IntUnaryOp::Not, half));
    }
    // The complement, extended; with the one added below that is the negative.
    let addend = if c.is_negated {
        t.unary(IntUnaryOp::Not, c.word)
    } else {
        c.word
    };
    let addend = widen(t, addend, is_signed);
    let count = t.iconst(Type::B32, 63);
    let sign = t.binary(IntBinaryOp::Sshr, addend, count);
    let mut sum = add_wide(t, product, [addend, sign]);
    if inst.has(Po) || negates_product || c.is_negated {
        let one = [t.iconst(Type::B64, 1), t.iconst(Type::B64, 0)];
        sum = add_wide(t, sum, one);
    }
    let scaled = match inst.pick(&[Shr7, Shr15]) {
        Some(Shr7) => shift_right_wide(t, sum, 7),
        Some(_) => shift_right_wide(t, sum, 15),
        None => sum,
    };
    let result = if inst.has(Sat) {
        clamp_wide(t, scaled, is_signed)
    } else {
        scaled[0]
    };
    let d = t.zext_or_trunc(result, Type::B32);
    t.dst(inst, 0, d)
}

/// Shifts 128 bits right, filling with the sign.
fn shift_right_wide(t: &mut Translator<'_>, [low, high]: Wide, count: u32) -> Wide {
    let right = t.iconst(Type::B32, u64::from(count));
    let left = t.iconst(Type::B32, u64::from(64 - count));
    let low = t.binary(IntBinaryOp::Ushr, low, right);
    let carried = t.binary(IntBinaryOp::Shl, high, left);
    [
        t.binary(IntBinaryOp::Or, low, carried),
        t.binary(IntBinaryOp::Sshr, high, right),
    ]
}

/// Clamps 128 bits to 32, of which the low 64 are returned.
fn clamp_wide(t: &mut Translator<'_>, [low, high]: Wide, is_signed: bool) -> Value {
    if !is_signed {
        // Never negative, and less than 2^64 + 2^32: any high bit means too large.
        let greatest = t.iconst(Type::B64, u64::from(u32::MAX));
        let zero = t.iconst(Type::B64, 0);
        let bounded = t.binary(IntBinaryOp::Umin, low, greatest);
        let fits = t.compare(CompareOp::Eq, high, zero);
        return t.select(fits, bounded, greatest);
    }
    let count = t.iconst(Type::B32, 63);
    let sign = t.binary(IntBinaryOp::Sshr, low, count);
    let fits = t.compare(CompareOp::Eq, high, sign);
    let bounded = clamp(t, low, 32, true);
    let zero = t.iconst(Type::B64, 0);
    let is_negative = t.compare(CompareOp::Slt, high, zero);
    let least = t.iconst(Type::B64, i64::from(i32::MIN) as u64);
    let greatest = t.iconst(Type::B64, i32::MAX as u64);
    let outside = t.select(is_negative, least, greatest);
    t.select(fits, bounded, outside)
}
