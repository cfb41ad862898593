//! Rules for integer arithmetic.

use ptxjit_ir::{InstData, IntBinaryOp, IntUnaryOp, ResizeOp, Type, Value};

use super::{Ctx, Found, known, logic, quotient, sums};
use crate::transform::gvn::is_commutative;

/// Rules for one operand.
pub(super) fn unary(ctx: &mut Ctx, op: IntUnaryOp, ty: Type, arg: Value) -> Option<Found> {
    match (op, ctx.def(arg)?) {
        (IntUnaryOp::Not, def) => logic::not(ctx, ty, &def),
        (
            IntUnaryOp::Neg,
            InstData::IntUnary {
                op: IntUnaryOp::Neg,
                arg,
                ..
            },
        )
        | (
            IntUnaryOp::Brev,
            InstData::IntUnary {
                op: IntUnaryOp::Brev,
                arg,
                ..
            },
        ) => Some(Found::Value(arg)),
        (
            IntUnaryOp::Neg,
            InstData::IntBinary {
                op: IntBinaryOp::Sub,
                args: [a, b],
                ..
            },
        ) => Some(Found::Inst(InstData::IntBinary {
            op: IntBinaryOp::Sub,
            ty,
            args: [b, a],
        })),
        (
            IntUnaryOp::Neg
            | IntUnaryOp::Abs
            | IntUnaryOp::Popc
            | IntUnaryOp::Clz
            | IntUnaryOp::Brev,
            _,
        ) => None,
    }
}

/// Rules for two operands.
pub(super) fn binary(ctx: &mut Ctx, op: IntBinaryOp, ty: Type, args: [Value; 2]) -> Option<Found> {
    let [a, b] = args;
    if is_commutative(op) && ctx.as_const(a).is_some() && ctx.as_const(b).is_none() {
        return Some(Found::Inst(InstData::IntBinary {
            op,
            ty,
            args: [b, a],
        }));
    }
    if let Some(found) = same_operands(op, ty, a, b) {
        return Some(found);
    }
    let c = ctx.as_const(b);
    match op {
        IntBinaryOp::Add => add(ctx, ty, a, b, c)
            .or_else(|| (ty == Type::B32).then(|| quotient::signed(ctx, a, b))?)
            .or_else(|| sums::cancel(ctx, op, ty, args)),
        IntBinaryOp::Sub => sub(ctx, ty, a, b, c).or_else(|| sums::cancel(ctx, op, ty, args)),
        IntBinaryOp::Mul => mul(ctx, ty, a, c?),
        IntBinaryOp::UmulWide => mul_wide(ctx, ty, a, c?, ResizeOp::Uext),
        IntBinaryOp::SmulWide => mul_wide(ctx, ty, a, c?, ResizeOp::Sext),
        IntBinaryOp::UmulHi | IntBinaryOp::SmulHi => (c? == 0).then_some(Found::Const(0)),
        IntBinaryOp::Udiv | IntBinaryOp::Urem => divide(ctx, op, ty, a, c?),
        IntBinaryOp::Sdiv => (c? == 1).then_some(Found::Value(a)),
        IntBinaryOp::Srem => (c? == 1).then_some(Found::Const(0)),
        IntBinaryOp::And => logic::and(ctx, ty, a, b, c),
        IntBinaryOp::Or => logic::or(ctx, ty, a, b, c),
        IntBinaryOp::Xor => logic::xor(ctx, ty, a, c?),
        IntBinaryOp::Shl | IntBinaryOp::Ushr | IntBinaryOp::Sshr => shift(ctx, op, ty, a, c?),
        IntBinaryOp::Umin => (c? == 0).then_some(Found::Const(0)),
        IntBinaryOp::Umax | IntBinaryOp::SaddSat | IntBinaryOp::SsubSat => {
            (c? == 0).then_some(Found::Value(a))
        }
        IntBinaryOp::Smin | IntBinaryOp::Smax => None,
    }
}

fn same_operands(op: IntBinaryOp, ty: Type, a: Value, b: Value) -> Option<Found> {
    if a != b {
        return None;
    }
    match op {
        IntBinaryOp::Sub | IntBinaryOp::Xor | IntBinaryOp::SsubSat => Some(Found::Const(0)),
        IntBinaryOp::And
        | IntBinaryOp::Or
        | IntBinaryOp::Smin
        | IntBinaryOp::Smax
        | IntBinaryOp::Umin
        | IntBinaryOp::Umax => Some(Found::Value(a)),
        // The count of a shift has a type of its own.
        IntBinaryOp::Shl | IntBinaryOp::Ushr | IntBinaryOp::Sshr => None,
        IntBinaryOp::Add
        | IntBinaryOp::Mul
        | IntBinaryOp::UmulHi
        | IntBinaryOp::SmulHi
        | IntBinaryOp::UmulWide
        | IntBinaryOp::SmulWide
        | IntBinaryOp::Udiv
        | IntBinaryOp::Sdiv
        | IntBinaryOp::Urem
        | IntBinaryOp::Srem
        | IntBinaryOp::SaddSat => {
            let _ = ty;
            None
        }
    }
}

fn inst(op: IntBinaryOp, ty: Type, a: Value, b: Value) -> InstData {
    InstData::IntBinary {
        op,
        ty,
        args: [a, b],
    }
}

fn add(ctx: &mut Ctx, ty: Type, a: Value, b: Value, c: Option<u64>) -> Option<Found> {
    if let Some(c) = c {
        return add_const(ctx, ty, a, c);
    }
    match (ctx.def(a), ctx.def(b)) {
        (
            _,
            Some(InstData::IntUnary {
                op: IntUnaryOp::Neg,
                arg,
                ..
            }),
        ) => Some(Found::Inst(inst(IntBinaryOp::Sub, ty, a, arg))),
        (
            Some(InstData::IntUnary {
                op: IntUnaryOp::Neg,
                arg,
                ..
            }),
            _,
        ) => Some(Found::Inst(inst(IntBinaryOp::Sub, ty, b, arg))),
        (
            Some(InstData::IntBinary {
                op: IntBinaryOp::Sub,
                args: [x, y],
                ..
            }),
            _,
        ) if y == b => Some(Found::Value(x)),
        (
            _,
            Some(InstData::IntBinary {
                op: IntBinaryOp::Sub,
                args: [x, y],
                ..
            }),
        ) if y == a => Some(Found::Value(x)),
        // In addresses, constants go to the end of the sum, where `address_fold` takes them.
        (
            Some(InstData::IntBinary {
                op: IntBinaryOp::Add,
                args: [x, k],
                ..
            }),
            _,
        ) if ty == Type::B64 && ctx.as_const(k).is_some() => {
            let sum = ctx.emit(inst(IntBinaryOp::Add, ty, x, b), ty);
            Some(Found::Inst(inst(IntBinaryOp::Add, ty, sum, k)))
        }
        (
            _,
            Some(InstData::IntBinary {
                op: IntBinaryOp::Add,
                args: [x, k],
                ..
            }),
        ) if ty == Type::B64 && ctx.as_const(k).is_some() => {
            let sum = ctx.emit(inst(IntBinaryOp::Add, ty, a, x), ty);
            Some(Found::Inst(inst(IntBinaryOp::Add, ty, sum, k)))
        }
        _ => None,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "other sums stay")]
fn add_const(ctx: &mut Ctx, ty: Type, a: Value, c: u64) -> Option<Found> {
    if c == 0 {
        return Some(Found::Value(a));
    }
    match ctx.def(a)? {
        InstData::IntBinary {
            op: IntBinaryOp::Add,
            args: [x, k],
            ..
        } => {
            let sum = ctx.constant(ty, ctx.as_const(k)?.wrapping_add(c));
            Some(Found::Inst(inst(IntBinaryOp::Add, ty, x, sum)))
        }
        InstData::IntBinary {
            op: IntBinaryOp::Sub,
            args: [k, x],
            ..
        } => {
            let sum = ctx.constant(ty, ctx.as_const(k)?.wrapping_add(c));
            Some(Found::Inst(inst(IntBinaryOp::Sub, ty, sum, x)))
        }
        InstData::VarAddr { var, offset } => Some(Found::Inst(InstData::VarAddr {
            var,
            offset: offset.wrapping_add(c as i64),
        })),
        InstData::StackAddr { slot, offset } => {
            let offset = i32::try_from(i64::from(offset).checked_add(c as i64)?).ok()?;
            Some(Found::Inst(InstData::StackAddr { slot, offset }))
        }
        // ~x + 1
        InstData::IntUnary {
            op: IntUnaryOp::Not,
            arg,
            ..
        } if c == 1 => Some(Found::Inst(InstData::IntUnary {
            op: IntUnaryOp::Neg,
            ty,
            arg,
        })),
        _ => None,
    }
}

fn sub(ctx: &mut Ctx, ty: Type, a: Value, b: Value, c: Option<u64>) -> Option<Found> {
    if let Some(c) = c {
        let negated = ctx.constant(ty, c.wrapping_neg());
        return Some(Found::Inst(inst(IntBinaryOp::Add, ty, a, negated)));
    }
    if ctx.as_const(a) == Some(0) {
        return Some(Found::Inst(InstData::IntUnary {
            op: IntUnaryOp::Neg,
            ty,
            arg: b,
        }));
    }
    match (ctx.def(a), ctx.def(b)) {
        (
            _,
            Some(InstData::IntUnary {
                op: IntUnaryOp::Neg,
                arg,
                ..
            }),
        ) => Some(Found::Inst(inst(IntBinaryOp::Add, ty, a, arg))),
        (
            Some(InstData::IntBinary {
                op: IntBinaryOp::Add,
                args: [x, y],
                ..
            }),
            _,
        ) if x == b => Some(Found::Value(y)),
        (
            Some(InstData::IntBinary {
                op: IntBinaryOp::Add,
                args: [x, y],
                ..
            }),
            _,
        ) if y == b => Some(Found::Value(x)),
        (
            _,
            Some(InstData::IntBinary {
                op: IntBinaryOp::Sub,
                args: [x, y],
                ..
            }),
        ) if x == a => Some(Found::Value(y)),
        _ => None,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "other products stay")]
fn mul(ctx: &mut Ctx, ty: Type, a: Value, c: u64) -> Option<Found> {
    match c {
        0 => return Some(Found::Const(0)),
        1 => return Some(Found::Value(a)),
        _ if c == ty.mask() => {
            return Some(Found::Inst(InstData::IntUnary {
                op: IntUnaryOp::Neg,
                ty,
                arg: a,
            }));
        }
        _ if c.is_power_of_two() => {
            let count = ctx.constant(Type::B32, c.trailing_zeros().into());
            return Some(Found::Inst(inst(IntBinaryOp::Shl, ty, a, count)));
        }
        _ => {}
    }
    match ctx.def(a)? {
        InstData::IntBinary {
            op: IntBinaryOp::Mul,
            args: [x, k],
            ..
        } => {
            let product = ctx.constant(ty, ctx.as_const(k)?.wrapping_mul(c));
            Some(Found::Inst(inst(IntBinaryOp::Mul, ty, x, product)))
        }
        InstData::IntBinary {
            op: IntBinaryOp::Shl,
            args: [x, k],
            ..
        } => {
            let product = ctx.constant(ty, c.checked_shl(u32::try_from(ctx.as_const(k)?).ok()?)?);
            Some(Found::Inst(inst(IntBinaryOp::Mul, ty, x, product)))
        }
        InstData::IntBinary {
            op: IntBinaryOp::Add,
            args: [x, k],
            ..
        } if ty == Type::B64 => {
            let (k, scale) = (ctx.as_const(k)?, ctx.constant(ty, c));
            let scaled = ctx.emit(inst(IntBinaryOp::Mul, ty, x, scale), ty);
            let rest = ctx.constant(ty, k.wrapping_mul(c));
            Some(Found::Inst(inst(IntBinaryOp::Add, ty, scaled, rest)))
        }
        _ => None,
    }
}

/// A full product by a power of two is a shift of the extended operand: that keeps addresses of
/// arrays in one form.
fn mul_wide(ctx: &mut Ctx, ty: Type, a: Value, c: u64, op: ResizeOp) -> Option<Found> {
    let wide = if ty == Type::B16 {
        Type::B32
    } else {
        Type::B64
    };
    if c == 0 {
        return Some(Found::Const(0));
    }
    // As a signed operand, the highest power of two is negative.
    let is_negative = op == ResizeOp::Sext && c >> (ty.bits() - 1) != 0;
    if !c.is_power_of_two() || is_negative {
        return None;
    }
    let extended = ctx.emit(
        InstData::Resize {
            op,
            from: ty,
            to: wide,
            arg: a,
        },
        wide,
    );
    let count = ctx.constant(Type::B32, c.trailing_zeros().into());
    Some(Found::Inst(inst(IntBinaryOp::Shl, wide, extended, count)))
}

fn divide(ctx: &mut Ctx, op: IntBinaryOp, ty: Type, a: Value, c: u64) -> Option<Found> {
    if !c.is_power_of_two() {
        let divides = op == IntBinaryOp::Udiv;
        return divides.then(|| divide_shifted(ctx, ty, a, c))?;
    }
    if op == IntBinaryOp::Urem {
        let mask = ctx.constant(ty, c - 1);
        return Some(Found::Inst(inst(IntBinaryOp::And, ty, a, mask)));
    }
    let count = ctx.constant(Type::B32, c.trailing_zeros().into());
    Some(Found::Inst(inst(IntBinaryOp::Ushr, ty, a, count)))
}

/// Compilers shift dividends of even divisors first, and divide by what is left.
fn divide_shifted(ctx: &mut Ctx, ty: Type, a: Value, c: u64) -> Option<Found> {
    let InstData::IntBinary {
        op: IntBinaryOp::Ushr,
        args: [x, k],
        ..
    } = ctx.def(a)?
    else {
        return None;
    };
    let k = ctx.as_const(k).filter(|&k| k < u64::from(ty.bits()))?;
    let product = u64::try_from(u128::from(c) << k).ok();
    let divisor = ctx.constant(ty, product.filter(|&product| product <= ty.mask())?);
    Some(Found::Inst(inst(IntBinaryOp::Udiv, ty, x, divisor)))
}

/// The operand of an operation that alone decides its bits from `bit` on: the other one has none
/// there, and no carry reaches them.
fn above(ctx: &Ctx, op: IntBinaryOp, [x, y]: [Value; 2], bit: u64) -> Option<Value> {
    if !matches!(op, IntBinaryOp::Add | IntBinaryOp::Or | IntBinaryOp::Xor) {
        return None;
    }
    let (in_x, in_y) = (known::possible(ctx, x), known::possible(ctx, y));
    match op == IntBinaryOp::Add && in_x & in_y != 0 {
        true => None,
        false if in_x >> bit == 0 => Some(y),
        false if in_y >> bit == 0 => Some(x),
        false => None,
    }
}

fn shift(ctx: &mut Ctx, op: IntBinaryOp, ty: Type, a: Value, c: u64) -> Option<Found> {
    if c == 0 {
        return Some(Found::Value(a));
    }
    if c >= u64::from(ty.bits()) {
        if op != IntBinaryOp::Sshr {
            return Some(Found::Const(0));
        }
        let last = u64::from(ty.bits()) - 1;
        if c == last {
            return None;
        }
        let count = ctx.constant(Type::B32, last);
        return Some(Found::Inst(inst(op, ty, a, count)));
    }
    if (op, ty) == (IntBinaryOp::Ushr, Type::B32)
        && let Some(found) = quotient::unsigned(ctx, a, c)
    {
        return Some(found);
    }
    let InstData::IntBinary {
        op: inner,
        args: [x, k],
        ..
    } = ctx.def(a)?
    else {
        return None;
    };
    if op == IntBinaryOp::Ushr
        && let Some(high) = above(ctx, inner, [x, k], c)
    {
        let count = ctx.constant(Type::B32, c);
        return Some(Found::Inst(inst(op, ty, high, count)));
    }
    let k = ctx.as_const(k)?;
    match (op, inner) {
        (IntBinaryOp::Shl, IntBinaryOp::Shl)
        | (IntBinaryOp::Ushr, IntBinaryOp::Ushr)
        | (IntBinaryOp::Sshr, IntBinaryOp::Sshr) => {
            let count = ctx.constant(Type::B32, k.checked_add(c)?.min(u64::from(ty.bits())));
            Some(Found::Inst(inst(op, ty, x, count)))
        }
        (IntBinaryOp::Ushr, IntBinaryOp::Shl) if k == c => {
            let mask = ctx.constant(ty, ty.mask() >> c);
            Some(Found::Inst(inst(IntBinaryOp::And, ty, x, mask)))
        }
        (IntBinaryOp::Shl, IntBinaryOp::Ushr) if k == c => {
            let mask = ctx.constant(ty, ty.mask() << c);
            Some(Found::Inst(inst(IntBinaryOp::And, ty, x, mask)))
        }
        (IntBinaryOp::Sshr, IntBinaryOp::Shl) if k == c => {
            let bits = ty.bits() - c as u32;
            let narrow = [Type::B8, Type::B16, Type::B32]
                .into_iter()
                .find(|narrow| narrow.bits() == bits)?;
            let low = ctx.emit(
                InstData::Resize {
                    op: ResizeOp::Trunc,
                    from: ty,
                    to: narrow,
                    arg: x,
                },
                narrow,
            );
            Some(Found::Inst(InstData::Resize {
                op: ResizeOp::Sext,
                from: narrow,
                to: ty,
                arg: low,
            }))
        }
        // An address: the constant moves out of the scaled index.
        (IntBinaryOp::Shl, IntBinaryOp::Add) if ty == Type::B64 => {
            let count = ctx.constant(Type::B32, c);
            let scaled = ctx.emit(inst(IntBinaryOp::Shl, ty, x, count), ty);
            let rest = ctx.constant(ty, k << c);
            Some(Found::Inst(inst(IntBinaryOp::Add, ty, scaled, rest)))
        }
        _ => None,
    }
}
