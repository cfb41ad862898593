//! Extended-precision arithmetic with the carry flag: PTX ISA, "Extended-Precision Integer
//! Arithmetic Instructions".
//!
//! CC.CF is the carry out of an adder, in unsigned arithmetic for all types, and a subtraction adds
//! the complement: its flag is 0 for a borrow. The ISA's text leaves open how `subc` and `addc`
//! mix; the 128-bit division that NVIDIA's compilers emit reads the flag of `subc.cc` with `addc`
//! and counts on this.

use ptxjit_ir::{CompareOp, IntBinaryOp, IntUnaryOp, Type, Value};

use crate::translate::{Inst, Translator};

use super::common::{Done, INT, INT32_64};
use super::desc::{A, B, C, D, Gate, InstDesc, inst, since};
use super::integer::product;
use super::modifiers::Mod::{Cc, Hi, Lo, Sat};
use super::types::PtxType::{S32, S64, U64};

const GATES: &[Gate] = &[since(1, 2, 0), since(4, 3, 20).types(&[U64, S64])];
const GATES_MAD: &[Gate] = &[since(3, 0, 20), since(4, 3, 20).types(&[U64, S64])];
// Without `.cc`, ptxas asks no newer version for 64 bits.
const GATES_PLAIN: &[Gate] = &[since(1, 2, 0)];
const GATES_PLAIN_MAD: &[Gate] = &[since(3, 0, 20)];

/// The rows of this chapter. Without `.cc`, ptxas takes 16-bit types and `.sat` as well, which the
/// ISA does not list.
pub const TABLE: &[InstDesc] = &[
    inst("add", &[D, A, B], add)
        .types(&[INT32_64])
        .with(&[Cc])
        .gates(GATES),
    inst("addc", &[D, A, B], addc)
        .types(&[INT])
        .gates(GATES_PLAIN),
    inst("addc", &[D, A, B], addc)
        .types(&[INT32_64])
        .with(&[Cc])
        .gates(GATES),
    inst("addc", &[D, A, B], add_sat)
        .types(&[&[S32]])
        .with(&[Sat])
        .gates(GATES_PLAIN),
    inst("sub", &[D, A, B], sub)
        .types(&[INT32_64])
        .with(&[Cc])
        .gates(GATES),
    inst("subc", &[D, A, B], subc)
        .types(&[INT])
        .gates(GATES_PLAIN),
    inst("subc", &[D, A, B], subc)
        .types(&[INT32_64])
        .with(&[Cc])
        .gates(GATES),
    inst("subc", &[D, A, B], sub_sat)
        .types(&[&[S32]])
        .with(&[Sat])
        .gates(GATES_PLAIN),
    inst("mad", &[D, A, B, C], mad)
        .types(&[INT32_64])
        .with(&[Cc])
        .choose(&[&[Lo, Hi]])
        .lead(&[Lo, Hi])
        .gates(GATES_MAD),
    inst("madc", &[D, A, B, C], madc)
        .types(&[INT])
        .choose(&[&[Lo, Hi]])
        .lead(&[Lo, Hi])
        .gates(GATES_PLAIN_MAD),
    inst("madc", &[D, A, B, C], madc)
        .types(&[INT32_64])
        .with(&[Cc])
        .choose(&[&[Lo, Hi]])
        .lead(&[Lo, Hi])
        .gates(GATES_MAD),
    inst("madc", &[D, A, B, C], mad_sat)
        .types(&[&[S32]])
        .with(&[Hi, Sat])
        .lead(&[Hi])
        .gates(GATES_PLAIN_MAD),
];

/// The sum and whether it carries.
fn add_out(t: &mut Translator<'_>, a: Value, b: Value) -> (Value, Value) {
    let sum = t.binary(IntBinaryOp::Add, a, b);
    let carry = t.compare(CompareOp::Ult, sum, a);
    (sum, carry)
}

/// `a + b + CC.CF` and whether it carries: at most one of the two additions does.
fn add_in_out(t: &mut Translator<'_>, a: Value, b: Value) -> (Value, Value) {
    let ty = t.value_ty(a);
    let carry_in = t.carry();
    let one_or_zero = t.zext_or_trunc(carry_in, ty);
    let (partial, first) = add_out(t, a, b);
    let (sum, second) = add_out(t, partial, one_or_zero);
    let carry = t.binary(IntBinaryOp::Or, first, second);
    (sum, carry)
}

/// Writes the result, and the flag under `.cc`.
fn finish<'m>(t: &mut Translator<'m>, inst: &Inst<'m>, (result, carry): (Value, Value)) -> Done {
    if inst.has(Cc) {
        t.set_carry(carry);
    }
    t.dst(inst, 0, result)
}

/// `d = a + b`, carry out.
fn add<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let (a, b) = (t.src(inst, 1)?, t.src(inst, 2)?);
    let result = add_out(t, a, b);
    finish(t, inst, result)
}

/// `d = a + b + CC.CF`
fn addc<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let (a, b) = (t.src(inst, 1)?, t.src(inst, 2)?);
    let result = add_in_out(t, a, b);
    finish(t, inst, result)
}

/// `d = a - b`, carry out unless it borrows.
fn sub<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let (a, b) = (t.src(inst, 1)?, t.src(inst, 2)?);
    let difference = t.binary(IntBinaryOp::Sub, a, b);
    let carry = t.compare(CompareOp::Uge, a, b);
    finish(t, inst, (difference, carry))
}

/// `d = a - b`, less one if the flag says that a borrow is due: `a + !b + CC.CF`
fn subc<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let (a, b) = (t.src(inst, 1)?, t.src(inst, 2)?);
    let complement = t.unary(IntUnaryOp::Not, b);
    let result = add_in_out(t, a, complement);
    finish(t, inst, result)
}

/// `d = half of a * b + c`, the carry out of the addition only.
fn mad<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let (a, b, c) = (t.src(inst, 1)?, t.src(inst, 2)?, t.src(inst, 3)?);
    let product = product(t, inst, a, b);
    let result = add_out(t, product, c);
    finish(t, inst, result)
}

/// `d = half of a * b + c + CC.CF`
fn madc<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let (a, b, c) = (t.src(inst, 1)?, t.src(inst, 2)?, t.src(inst, 3)?);
    let product = product(t, inst, a, b);
    let result = add_in_out(t, product, c);
    finish(t, inst, result)
}

/// `x + y + CC.CF` of `.s32` numbers, clamped to their range.
fn saturating<'m>(t: &mut Translator<'m>, inst: &Inst<'m>, x: Value, y: Value) -> Done {
    let carry_in = t.carry();
    let carry = t.zext_or_trunc(carry_in, Type::B64);
    let (x, y) = (t.sext_or_trunc(x, Type::B64), t.sext_or_trunc(y, Type::B64));
    let partial = t.binary(IntBinaryOp::Add, x, y);
    let exact = t.binary(IntBinaryOp::Add, partial, carry);
    let least = t.iconst(Type::B64, i64::from(i32::MIN) as u64);
    let greatest = t.iconst(Type::B64, i32::MAX as u64);
    let bounded = t.binary(IntBinaryOp::Smax, exact, least);
    let bounded = t.binary(IntBinaryOp::Smin, bounded, greatest);
    let result = t.zext_or_trunc(bounded, Type::B32);
    t.dst(inst, 0, result)
}

/// `d = a + b + CC.CF`, clamped.
fn add_sat<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let (a, b) = (t.src(inst, 1)?, t.src(inst, 2)?);
    saturating(t, inst, a, b)
}

/// `d = a - b`, less one if a borrow is due, clamped: `a + !b + CC.CF`, as `!b` is `-b - 1`.
fn sub_sat<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let (a, b) = (t.src(inst, 1)?, t.src(inst, 2)?);
    let complement = t.unary(IntUnaryOp::Not, b);
    saturating(t, inst, a, complement)
}

/// `d = high half of a * b + c + CC.CF`, clamped.
fn mad_sat<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let (a, b, c) = (t.src(inst, 1)?, t.src(inst, 2)?, t.src(inst, 3)?);
    let product = product(t, inst, a, b);
    saturating(t, inst, product, c)
}
