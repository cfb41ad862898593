//! Logic and shifts: PTX ISA, "Logic and Shift Instructions".

use ptxjit_ir::{CompareOp, InstData, IntBinaryOp, IntTernaryOp, IntUnaryOp, Type};

use crate::translate::{Inst, Translator};

use super::common::{BITS, Done, map1, map2, map3};
use super::desc::{A, B, C, D, InstDesc, PRED, imm, inst, since};
use super::integer::limit_count;
use super::modifiers::Mod::{And, Clamp, L, Or, R, Wrap};
use super::types::PtxType;
use super::types::PtxType::*;

const LOGIC: &[PtxType] = &[Pred, B16, B32, B64];
const SHIFT_RIGHT: &[PtxType] = &[B16, B32, B64, U16, U32, U64, S16, S32, S64];
/// Shift counts are numbers of 32 bits whatever is shifted; ptxas refuses float registers.
const COUNT: super::desc::Opd = B.is(U32);
/// ptxas takes any integer for the table and uses its low byte.
const LUT: super::desc::Opd = imm(i64::MIN, i64::MAX);

/// The rows of this chapter.
pub const TABLE: &[InstDesc] = &[
    inst("and", &[D, A.negatable(), B.negatable()], and).types(&[LOGIC]),
    inst("or", &[D, A.negatable(), B.negatable()], or).types(&[LOGIC]),
    inst("xor", &[D, A.negatable(), B.negatable()], xor).types(&[LOGIC]),
    inst("not", &[D, A.negatable()], not).types(&[LOGIC]),
    inst("cnot", &[D, A], cnot).types(&[BITS]),
    inst("lop3", &[D, A, B, C, LUT], lop3)
        .types(&[&[B32]])
        .gates(&[since(4, 3, 50)]),
    inst(
        "lop3",
        &[D.always_pair().sink(), A, B, C, LUT, PRED],
        lop3_bool,
    )
    .types(&[&[B32]])
    .choose(&[&[Or, And]])
    .gates(&[since(8, 2, 70)]),
    inst("shf", &[D, A, B, COUNT], shf)
        .types(&[&[B32]])
        .choose(&[&[L, R], &[Clamp, Wrap]])
        .lead(&[L, R])
        .gates(&[since(3, 1, 32)]),
    inst("shl", &[D, A, COUNT], shl).types(&[BITS]),
    inst("shr", &[D, A, COUNT], shr).types(&[SHIFT_RIGHT]),
];

/// `d = a & b`
fn and<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    map2(t, inst, |t, a, b| t.binary(IntBinaryOp::And, a, b))
}

/// `d = a | b`
fn or<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    map2(t, inst, |t, a, b| t.binary(IntBinaryOp::Or, a, b))
}

/// `d = a ^ b`
fn xor<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    map2(t, inst, |t, a, b| t.binary(IntBinaryOp::Xor, a, b))
}

/// `d = ~a`
fn not<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    map1(t, inst, |t, a| t.unary(IntUnaryOp::Not, a))
}

/// `d = a == 0 ? 1 : 0`
fn cnot<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    map1(t, inst, |t, a| {
        let ty = t.value_ty(a);
        let zero = t.iconst(ty, 0);
        let is_zero = t.compare(CompareOp::Eq, a, zero);
        t.zext_or_trunc(is_zero, ty)
    })
}

/// Any function of three bits.
fn lop3<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let lut = t.src_const(inst, 4)? as u8;
    map3(t, inst, |t, a, b, c| {
        t.ins(
            InstData::Lop3 {
                lut,
                args: [a, b, c],
            },
            Type::B32,
        )
    })
}

/// The same, with `p = (d != 0) op q`.
fn lop3_bool<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let (a, b, c) = (t.src(inst, 1)?, t.src(inst, 2)?, t.src(inst, 3)?);
    let lut = t.src_const(inst, 4)? as u8;
    let q = t.src(inst, 5)?;
    let d = t.ins(
        InstData::Lop3 {
            lut,
            args: [a, b, c],
        },
        Type::B32,
    );
    let zero = t.iconst(Type::B32, 0);
    let is_set = t.compare(CompareOp::Ne, d, zero);
    let op = if inst.has(Or) {
        IntBinaryOp::Or
    } else {
        IntBinaryOp::And
    };
    let p = t.binary(op, is_set, q);
    t.dst_pair(inst, 0, d, p)
}

/// The upper (`.l`) or lower (`.r`) half of `b:a`, shifted.
fn shf<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let op = if inst.has(L) {
        IntTernaryOp::ShfL
    } else {
        IntTernaryOp::ShfR
    };
    map3(t, inst, |t, a, b, count| {
        let count = if inst.has(Wrap) {
            limit_count(t, inst, count)
        } else {
            count
        };
        t.ternary(op, [a, b, count])
    })
}

/// `d = a << b`; 0 from the width on.
fn shl<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    map2(t, inst, |t, a, count| t.binary(IntBinaryOp::Shl, a, count))
}

/// `d = a >> b`, filled with the sign for signed types.
fn shr<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let op = if inst.ty(0).is_signed() {
        IntBinaryOp::Sshr
    } else {
        IntBinaryOp::Ushr
    };
    map2(t, inst, |t, a, count| t.binary(op, a, count))
}
