//! Integer arithmetic: PTX ISA, "Integer Arithmetic Instructions".

use ptxjit_ir::{CompareOp, InstData, IntBinaryOp, IntTernaryOp, IntUnaryOp, Type, Value};

use crate::ast::OperandKind;
use crate::translate::{Inst, Translator};

use super::common::{Done, INT, INT32_64, lanewise, map1, map2, map3};
use super::desc::{A, B, C, D, InstDesc, inst, since};
use super::modifiers::Mod::{Clamp, Hi, Lo, Relu, Sat, Shiftamt, Wide, Wrap};
use super::types::PtxType;
use super::types::PtxType::*;

const SIGNED: &[PtxType] = &[S16, S32, S64];
const INT16_32: &[PtxType] = &[U16, U32, S16, S32];
const INT32: &[PtxType] = &[U32, S32];
const INT16X2: &[PtxType] = &[U16x2, S16x2];

/// The rows of this chapter.
pub const TABLE: &[InstDesc] = &[
    inst("add", &[D, A, B], add).types(&[INT]),
    inst("add", &[D, A, B], add).types(&[&[S32]]).with(&[Sat]),
    inst("add", &[D, A, B], add_x2)
        .types(&[INT16X2])
        .gates(&[since(8, 0, 90)]),
    inst("sub", &[D, A, B], sub).types(&[INT]),
    inst("sub", &[D, A, B], sub).types(&[&[S32]]).with(&[Sat]),
    inst("mul", &[D, A, B], mul)
        .types(&[INT])
        .choose(&[&[Lo, Hi]])
        .lead(&[Lo, Hi]),
    inst("mul", &[D.double(0), A, B], mul)
        .types(&[INT16_32])
        .with(&[Wide])
        .lead(&[Wide]),
    inst("mad", &[D, A, B, C], mad)
        .types(&[INT])
        .choose(&[&[Lo, Hi]])
        .lead(&[Lo, Hi]),
    inst("mad", &[D.double(0), A, B, C.double(0)], mad)
        .types(&[INT16_32])
        .with(&[Wide])
        .lead(&[Wide]),
    inst("mad", &[D, A, B, C], mad)
        .types(&[&[S32]])
        .with(&[Hi, Sat])
        .lead(&[Hi]),
    inst("mul24", &[D, A, B], mul24)
        .types(&[INT32])
        .choose(&[&[Lo, Hi]])
        .lead(&[Lo, Hi]),
    inst("mad24", &[D, A, B, C], mad24)
        .types(&[INT32])
        .choose(&[&[Lo, Hi]])
        .lead(&[Lo, Hi]),
    inst("mad24", &[D, A, B, C], mad24)
        .types(&[&[S32]])
        .with(&[Hi, Sat])
        .lead(&[Hi]),
    inst("sad", &[D, A, B, C], sad).types(&[INT]),
    inst("div", &[D, A, B], div).types(&[INT]),
    inst("rem", &[D, A, B], rem).types(&[INT]),
    inst("abs", &[D, A], abs).types(&[SIGNED]),
    inst("neg", &[D, A], neg).types(&[SIGNED]),
    inst("min", &[D, A, B], min).types(&[INT]),
    inst("min", &[D, A, B], min)
        .types(&[INT16X2])
        .gates(&[since(8, 0, 90)]),
    inst("min", &[D, A, B], min)
        .types(&[&[S32, S16x2]])
        .with(&[Relu])
        .gates(&[since(8, 0, 90)]),
    inst("max", &[D, A, B], max).types(&[INT]),
    inst("max", &[D, A, B], max)
        .types(&[INT16X2])
        .gates(&[since(8, 0, 90)]),
    inst("max", &[D, A, B], max)
        .types(&[&[S32, S16x2]])
        .with(&[Relu])
        .gates(&[since(8, 0, 90)]),
    inst("popc", &[D.is(U32), A], popc)
        .types(&[&[B32, B64]])
        .gates(&[since(2, 0, 20)]),
    inst("clz", &[D.is(U32), A], clz)
        .types(&[&[B32, B64]])
        .gates(&[since(2, 0, 20)]),
    inst("bfind", &[D.is(U32), A], bfind)
        .types(&[INT32_64])
        .optional(&[&[Shiftamt]])
        .gates(&[since(2, 0, 20)]),
    inst("fns", &[D, A, B, C], fns)
        .types(&[&[B32]])
        .gates(&[since(6, 0, 30)]),
    inst("brev", &[D, A], brev)
        .types(&[&[B32, B64]])
        .gates(&[since(2, 0, 20)]),
    inst("bfe", &[D, A, B.is(U32), C.is(U32)], bfe)
        .types(&[INT32_64])
        .check(check_bfe_positions)
        .gates(&[since(2, 0, 20)]),
    inst("bfi", &[D, A, B, C.is(U32), C.is(U32)], bfi)
        .types(&[&[B32, B64]])
        .check(check_bfi_positions)
        .gates(&[since(2, 0, 20)]),
    inst("szext", &[D, A, B.is(U32)], szext)
        .types(&[INT32])
        .choose(&[&[Clamp, Wrap]])
        .gates(&[since(7, 6, 70)]),
    // The operands of `bmsk.b32` are numbers: ptxas refuses float registers.
    inst("bmsk", &[D.is(U32), A.is(U32), B.is(U32)], bmsk)
        .types(&[&[B32]])
        .choose(&[&[Clamp, Wrap]])
        .gates(&[since(7, 6, 70)]),
    inst("dp4a", &[D.is(U32), A, B.nth(1), C.is(U32)], dp4a)
        .types(&[INT32, INT32])
        .gates(&[since(5, 0, 61)]),
    inst("dp2a", &[D.is(U32), A, B.nth(1), C.is(U32)], dp2a)
        .types(&[INT32, INT32])
        .choose(&[&[Lo, Hi]])
        .lead(&[Lo, Hi])
        .gates(&[since(5, 0, 61)]),
];

/// `d = a + b`, wrapping; `.sat` clamps to the range of `.s32`.
fn add<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let op = if inst.has(Sat) {
        IntBinaryOp::SaddSat
    } else {
        IntBinaryOp::Add
    };
    map2(t, inst, |t, a, b| t.binary(op, a, b))
}

/// Two wrapping 16-bit sums: the sum of the low 15 bits of each half cannot carry into the next
/// half, and the top bits are added without carry.
fn add_x2<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    map2(t, inst, |t, a, b| {
        let low = t.iconst(Type::B32, 0x7fff_7fff);
        let high = t.iconst(Type::B32, 0x8000_8000);
        let a_low = t.binary(IntBinaryOp::And, a, low);
        let b_low = t.binary(IntBinaryOp::And, b, low);
        let sum = t.binary(IntBinaryOp::Add, a_low, b_low);
        let differ = t.binary(IntBinaryOp::Xor, a, b);
        let top = t.binary(IntBinaryOp::And, differ, high);
        t.binary(IntBinaryOp::Xor, sum, top)
    })
}

/// `d = a - b`, wrapping; `.sat` clamps to the range of `.s32`.
fn sub<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let op = if inst.has(Sat) {
        IntBinaryOp::SsubSat
    } else {
        IntBinaryOp::Sub
    };
    map2(t, inst, |t, a, b| t.binary(op, a, b))
}

/// The product, or the half of it that the modifiers name.
pub fn product(t: &mut Translator<'_>, inst: &Inst<'_>, a: Value, b: Value) -> Value {
    let is_signed = inst.ty(0).is_signed();
    let op = match (inst.pick(&[Hi, Wide]), is_signed) {
        (Some(Hi), true) => IntBinaryOp::SmulHi,
        (Some(Hi), false) => IntBinaryOp::UmulHi,
        (Some(_), true) => IntBinaryOp::SmulWide,
        (Some(_), false) => IntBinaryOp::UmulWide,
        (None, _) => IntBinaryOp::Mul,
    };
    t.binary(op, a, b)
}

/// `d = a * b`: low half, high half, or all of it.
fn mul<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    map2(t, inst, |t, a, b| product(t, inst, a, b))
}

/// `d = a * b + c`; `.hi.sat` clamps the sum.
fn mad<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let op = if inst.has(Sat) {
        IntBinaryOp::SaddSat
    } else {
        IntBinaryOp::Add
    };
    map3(t, inst, |t, a, b, c| {
        let product = product(t, inst, a, b);
        t.binary(op, product, c)
    })
}

/// Low or high 32 bits of the 48-bit product of the low 24 bits.
fn product24(t: &mut Translator<'_>, inst: &Inst<'_>, a: Value, b: Value) -> Value {
    let is_signed = inst.ty(0).is_signed();
    let [a, b] = [a, b].map(|x| {
        if is_signed {
            let count = t.iconst(Type::B32, 8);
            let high = t.binary(IntBinaryOp::Shl, x, count);
            t.binary(IntBinaryOp::Sshr, high, count)
        } else {
            let mask = t.iconst(Type::B32, 0xff_ffff);
            t.binary(IntBinaryOp::And, x, mask)
        }
    });
    if inst.has(Lo) {
        return t.binary(IntBinaryOp::Mul, a, b);
    }
    let wide = t.binary(
        if is_signed {
            IntBinaryOp::SmulWide
        } else {
            IntBinaryOp::UmulWide
        },
        a,
        b,
    );
    t.extract(wide, 16, Type::B32)
}

/// `d = a * b` of 24-bit numbers.
fn mul24<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    map2(t, inst, |t, a, b| product24(t, inst, a, b))
}

/// `d = a * b + c` of 24-bit factors; `.hi.sat` clamps the sum.
fn mad24<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let op = if inst.has(Sat) {
        IntBinaryOp::SaddSat
    } else {
        IntBinaryOp::Add
    };
    map3(t, inst, |t, a, b, c| {
        let product = product24(t, inst, a, b);
        t.binary(op, product, c)
    })
}

/// `d = c + |a - b|`, the difference taken in the type's signedness; all wrapping.
fn sad<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let (min, max) = min_max_ops(inst.ty(0).is_signed());
    map3(t, inst, |t, a, b, c| {
        let high = t.binary(max, a, b);
        let low = t.binary(min, a, b);
        let difference = t.binary(IntBinaryOp::Sub, high, low);
        t.binary(IntBinaryOp::Add, c, difference)
    })
}

/// `d = a / b` toward zero.
fn div<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let op = if inst.ty(0).is_signed() {
        IntBinaryOp::Sdiv
    } else {
        IntBinaryOp::Udiv
    };
    map2(t, inst, |t, a, b| t.binary(op, a, b))
}

/// `d = a % b` with the sign of `a`.
fn rem<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let op = if inst.ty(0).is_signed() {
        IntBinaryOp::Srem
    } else {
        IntBinaryOp::Urem
    };
    map2(t, inst, |t, a, b| t.binary(op, a, b))
}

/// `d = |a|`; the least number stays.
fn abs<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    map1(t, inst, |t, a| t.unary(IntUnaryOp::Abs, a))
}

/// `d = -a`; the least number stays.
fn neg<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    map1(t, inst, |t, a| t.unary(IntUnaryOp::Neg, a))
}

/// The ops for minimum and maximum.
pub const fn min_max_ops(is_signed: bool) -> (IntBinaryOp, IntBinaryOp) {
    if is_signed {
        (IntBinaryOp::Smin, IntBinaryOp::Smax)
    } else {
        (IntBinaryOp::Umin, IntBinaryOp::Umax)
    }
}

/// `d = min(a, b)` of each element; `.relu` clamps to 0 from below.
fn min<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    min_max(t, inst, |(min, _)| min)
}

/// `d = max(a, b)` of each element; `.relu` clamps to 0 from below.
fn max<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    min_max(t, inst, |(_, max)| max)
}

fn min_max<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    pick: fn((IntBinaryOp, IntBinaryOp)) -> IntBinaryOp,
) -> Done {
    let ty = inst.ty(0);
    let op = pick(min_max_ops(ty.is_signed() || ty == S16x2));
    map2(t, inst, |t, a, b| {
        lanewise(t, ty, [a, b], |t, [a, b]| {
            let d = t.binary(op, a, b);
            if !inst.has(Relu) {
                return d;
            }
            let ty = t.value_ty(d);
            let zero = t.iconst(ty, 0);
            t.binary(IntBinaryOp::Smax, d, zero)
        })
    })
}

/// Number of one bits.
fn popc<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    map1(t, inst, |t, a| t.unary(IntUnaryOp::Popc, a))
}

/// Number of leading zeros.
fn clz<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    map1(t, inst, |t, a| t.unary(IntUnaryOp::Clz, a))
}

/// Position of the first bit from the top that differs from the sign (from 0 if unsigned), all ones
/// if there is none. `.shiftamt` gives the left shift that brings it to the top.
fn bfind<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let ty = inst.ty(0);
    let msb = ty.bits() - 1;
    map1(t, inst, |t, a| {
        let a = if ty.is_signed() {
            let count = t.iconst(Type::B32, u64::from(msb));
            let sign = t.binary(IntBinaryOp::Sshr, a, count);
            t.binary(IntBinaryOp::Xor, a, sign)
        } else {
            a
        };
        let leading = t.unary(IntUnaryOp::Clz, a);
        if inst.has(Shiftamt) {
            let width = t.value_ty(a);
            let zero = t.iconst(width, 0);
            let is_none = t.compare(CompareOp::Eq, a, zero);
            let none = t.iconst(Type::B32, 0xffff_ffff);
            t.select(is_none, none, leading)
        } else {
            // Without a bit `leading` is msb + 1, which gives all ones.
            let msb = t.iconst(Type::B32, u64::from(msb));
            t.binary(IntBinaryOp::Sub, msb, leading)
        }
    })
}

/// Position of the n-th set bit from a base.
fn fns<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    map3(t, inst, |t, mask, base, offset| {
        t.ternary(IntTernaryOp::Fns, [mask, base, offset])
    })
}

/// Bits in reverse order.
fn brev<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    map1(t, inst, |t, a| t.unary(IntUnaryOp::Brev, a))
}

/// Constant positions and lengths must be 0 to 255.
fn check_positions<'m>(t: &mut Translator<'m>, inst: &Inst<'m>, operands: [usize; 2]) -> Done {
    for n in operands {
        if matches!(
            inst.operand(n).map(|operand| &operand.kind),
            Some(OperandKind::Constant(_))
        ) {
            let value = t.src_const(inst, n)?;
            if !(0..=255).contains(&value) {
                return Err(inst.operand_error(
                    n,
                    format!("`{value}` is out of range: 0 to 255 can stand here"),
                ));
            }
        }
    }
    Ok(())
}

fn check_bfe_positions<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    check_positions(t, inst, [2, 3])
}

fn check_bfi_positions<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    check_positions(t, inst, [3, 4])
}

/// Extracts `c` bits of `a` from position `b`.
fn bfe<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let op = if inst.ty(0).is_signed() {
        IntTernaryOp::SBfe
    } else {
        IntTernaryOp::UBfe
    };
    map3(t, inst, |t, a, position, length| {
        t.ternary(op, [a, position, length])
    })
}

/// Inserts the low `d` bits of `a` into `b` at position `c`.
fn bfi<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let args = [
        t.src(inst, 1)?,
        t.src(inst, 2)?,
        t.src(inst, 3)?,
        t.src(inst, 4)?,
    ];
    let ty = t.value_ty(args[0]);
    let f = t.ins(InstData::Bfi { ty, args }, ty);
    t.dst(inst, 0, f)
}

/// Extends the low `b` bits of `a`, as a bit field at position 0.
fn szext<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let op = if inst.ty(0).is_signed() {
        IntTernaryOp::SBfe
    } else {
        IntTernaryOp::UBfe
    };
    map2(t, inst, |t, a, n| {
        let length = limit_count(t, inst, n);
        let zero = t.iconst(Type::B32, 0);
        t.ternary(op, [a, zero, length])
    })
}

/// A number of bits at most 32 (`.clamp`) or modulo 32 (`.wrap`).
pub fn limit_count(t: &mut Translator<'_>, inst: &Inst<'_>, n: Value) -> Value {
    let (op, limit) = if inst.has(Clamp) {
        (IntBinaryOp::Umin, 32)
    } else {
        (IntBinaryOp::And, 31)
    };
    let limit = t.iconst(Type::B32, limit);
    t.binary(op, n, limit)
}

/// `b` ones from bit `a` on; bits past the top are lost.
fn bmsk<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    map2(t, inst, |t, position, width| {
        let position = limit_count(t, inst, position);
        let width = limit_count(t, inst, width);
        let one = t.iconst(Type::B32, 1);
        // A shift by 32 gives 0, and 0 - 1 is all ones.
        let end = t.binary(IntBinaryOp::Shl, one, width);
        let ones = t.binary(IntBinaryOp::Sub, end, one);
        t.binary(IntBinaryOp::Shl, ones, position)
    })
}

/// `d = c` plus the products of corresponding bytes of `a` and `b`.
fn dp4a<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let op = match (inst.ty(0).is_signed(), inst.ty(1).is_signed()) {
        (false, false) => IntTernaryOp::Dp4aUU,
        (false, true) => IntTernaryOp::Dp4aUS,
        (true, false) => IntTernaryOp::Dp4aSU,
        (true, true) => IntTernaryOp::Dp4aSS,
    };
    map3(t, inst, |t, a, b, c| t.ternary(op, [a, b, c]))
}

/// `d = c` plus the products of the halves of `a` with the low or high two bytes of `b`.
fn dp2a<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let op = match (inst.has(Hi), inst.ty(0).is_signed(), inst.ty(1).is_signed()) {
        (false, false, false) => IntTernaryOp::Dp2aLoUU,
        (false, false, true) => IntTernaryOp::Dp2aLoUS,
        (false, true, false) => IntTernaryOp::Dp2aLoSU,
        (false, true, true) => IntTernaryOp::Dp2aLoSS,
        (true, false, false) => IntTernaryOp::Dp2aHiUU,
        (true, false, true) => IntTernaryOp::Dp2aHiUS,
        (true, true, false) => IntTernaryOp::Dp2aHiSU,
        (true, true, true) => IntTernaryOp::Dp2aHiSS,
    };
    map3(t, inst, |t, a, b, c| t.ternary(op, [a, b, c]))
}
