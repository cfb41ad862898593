//! Rules for integer comparisons and selection.

use ptxjit_ir::{CompareOp, InstData, IntBinaryOp, IntUnaryOp, ResizeOp, Type, Value, eval};

use super::{Ctx, Found, bits};

fn not(arg: Value) -> Option<Found> {
    Some(Found::Inst(InstData::IntUnary {
        op: IntUnaryOp::Not,
        ty: Type::B1,
        arg,
    }))
}

/// Rules for comparisons.
pub(super) fn compare(ctx: &mut Ctx, op: CompareOp, ty: Type, [a, b]: [Value; 2]) -> Option<Found> {
    if a == b {
        let holds = eval::compare(op, ty, 0, 0);
        return Some(Found::Const(holds.into()));
    }
    match (ctx.as_const(a), ctx.as_const(b)) {
        (Some(_), None) => Some(Found::Inst(InstData::Compare {
            op: op.swapped(),
            ty,
            args: [b, a],
        })),
        (_, Some(c)) => compare_const(ctx, op, ty, a, c),
        (None, None) => match (ctx.def(a)?, ctx.def(b)?) {
            (
                InstData::Resize {
                    op: ResizeOp::Uext,
                    from,
                    arg: x,
                    ..
                },
                InstData::Resize {
                    op: ResizeOp::Uext,
                    from: other,
                    arg: y,
                    ..
                },
            ) if from == other => Some(Found::Inst(InstData::Compare {
                op: bits::narrow_compare(op)?,
                ty: from,
                args: [x, y],
            })),
            (
                InstData::Resize {
                    op: ResizeOp::Sext,
                    from,
                    arg: x,
                    ..
                },
                InstData::Resize {
                    op: ResizeOp::Sext,
                    from: other,
                    arg: y,
                    ..
                },
            ) if from == other && from != Type::B1 => Some(Found::Inst(InstData::Compare {
                op,
                ty: from,
                args: [x, y],
            })),
            _ => None,
        },
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "others are left alone")]
fn compare_const(ctx: &mut Ctx, op: CompareOp, ty: Type, a: Value, c: u64) -> Option<Found> {
    if ty == Type::B1 && matches!(op, CompareOp::Eq | CompareOp::Ne) {
        return if (op == CompareOp::Eq) == (c & 1 != 0) {
            Some(Found::Value(a))
        } else {
            not(a)
        };
    }
    if let Some(found) = at_limit(op, c, ty) {
        return Some(found);
    }
    let is_equality = matches!(op, CompareOp::Eq | CompareOp::Ne);
    let def = ctx.def(a)?;
    match def {
        // The outcome depends on a predicate alone.
        InstData::Select {
            cond, args: [x, y], ..
        } => {
            let (x, y) = (ctx.as_const(x)?, ctx.as_const(y)?);
            by_predicate(
                cond,
                eval::compare(op, ty, x, c),
                eval::compare(op, ty, y, c),
            )
        }
        InstData::Resize { .. } => compare_resized(ctx, op, ty, &def, c),
        InstData::IntBinary {
            op: IntBinaryOp::Sub | IntBinaryOp::Xor,
            args,
            ..
        } if is_equality && c == 0 => Some(Found::Inst(InstData::Compare { op, ty, args })),
        InstData::IntBinary {
            op: IntBinaryOp::Add,
            args: [x, k],
            ..
        } if is_equality => {
            let rest = ctx.as_const(k).map(|k| c.wrapping_sub(k))?;
            let args = [x, ctx.constant(ty, rest)];
            Some(Found::Inst(InstData::Compare { op, ty, args }))
        }
        // The generic address of a variable is not null.
        InstData::ToGeneric { arg, .. } if is_equality && c == 0 => {
            let is_variable = matches!(
                ctx.def(arg)?,
                InstData::StackAddr { .. } | InstData::VarAddr { .. }
            );
            is_variable.then_some(Found::Const((op == CompareOp::Ne).into()))
        }
        _ => None,
    }
}

/// Comparisons of an extended value with a constant that the narrow type has too.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are left alone")]
fn compare_resized(
    ctx: &mut Ctx,
    op: CompareOp,
    ty: Type,
    def: &InstData,
    c: u64,
) -> Option<Found> {
    match *def {
        InstData::Resize {
            op: resize @ (ResizeOp::Uext | ResizeOp::Sext),
            from: Type::B1,
            to,
            arg,
        } => {
            let one = eval::resize(resize, Type::B1, to, 1);
            by_predicate(
                arg,
                eval::compare(op, ty, one, c),
                eval::compare(op, ty, 0, c),
            )
        }
        InstData::Resize {
            op: ResizeOp::Uext,
            from,
            arg,
            ..
        } if c <= from.mask() => {
            let args = [arg, ctx.constant(from, c)];
            Some(Found::Inst(InstData::Compare {
                op: bits::narrow_compare(op)?,
                ty: from,
                args,
            }))
        }
        InstData::Resize {
            op: ResizeOp::Sext,
            from,
            to,
            arg,
        } if eval::resize(ResizeOp::Sext, from, to, c & from.mask()) == c => {
            let args = [arg, ctx.constant(from, c)];
            Some(Found::Inst(InstData::Compare { op, ty: from, args }))
        }
        _ => None,
    }
}

/// Comparisons with the end of the range.
fn at_limit(op: CompareOp, c: u64, ty: Type) -> Option<Found> {
    let (smallest, greatest) = (0, ty.mask());
    match op {
        CompareOp::Ult if c == smallest => Some(Found::Const(0)),
        CompareOp::Uge if c == smallest => Some(Found::Const(1)),
        CompareOp::Ugt if c == greatest => Some(Found::Const(0)),
        CompareOp::Ule if c == greatest => Some(Found::Const(1)),
        CompareOp::Ult
        | CompareOp::Uge
        | CompareOp::Ugt
        | CompareOp::Ule
        | CompareOp::Eq
        | CompareOp::Ne
        | CompareOp::Slt
        | CompareOp::Sle
        | CompareOp::Sgt
        | CompareOp::Sge => None,
    }
}

fn by_predicate(cond: Value, if_true: bool, if_false: bool) -> Option<Found> {
    match (if_true, if_false) {
        (true, false) => Some(Found::Value(cond)),
        (false, true) => not(cond),
        (same, _) => Some(Found::Const(same.into())),
    }
}

/// Rules for selection.
pub(super) fn select(ctx: &mut Ctx, ty: Type, cond: Value, [a, b]: [Value; 2]) -> Option<Found> {
    if a == b {
        return Some(Found::Value(a));
    }
    if let Some(cond) = ctx.as_const(cond) {
        return Some(Found::Value(if cond & 1 != 0 { a } else { b }));
    }
    if let Some(InstData::IntUnary {
        op: IntUnaryOp::Not,
        arg,
        ..
    }) = ctx.def(cond)
    {
        return Some(Found::Inst(InstData::Select {
            ty,
            cond: arg,
            args: [b, a],
        }));
    }
    if let Some(args) = known_sides(ctx, cond, [a, b]) {
        return Some(Found::Inst(InstData::Select { ty, cond, args }));
    }
    let (x, y) = (ctx.as_const(a), ctx.as_const(b));
    if ty == Type::B1 {
        return select_predicate(ctx, cond, [a, b], x, y);
    }
    let resize = |op, cond| {
        Some(Found::Inst(InstData::Resize {
            op,
            from: Type::B1,
            to: ty,
            arg: cond,
        }))
    };
    match (x?, y?) {
        (1, 0) => resize(ResizeOp::Uext, cond),
        (ones, 0) if ones == ty.mask() => resize(ResizeOp::Sext, cond),
        (0, 1) | (0, _) if y == Some(1) || y == Some(ty.mask()) => {
            let inverse = ctx.emit(
                InstData::IntUnary {
                    op: IntUnaryOp::Not,
                    ty: Type::B1,
                    arg: cond,
                },
                Type::B1,
            );
            resize(
                if y == Some(1) {
                    ResizeOp::Uext
                } else {
                    ResizeOp::Sext
                },
                inverse,
            )
        }
        _ => None,
    }
}

/// What the same predicate selected before is known on either side.
fn known_sides(ctx: &Ctx, cond: Value, [a, b]: [Value; 2]) -> Option<[Value; 2]> {
    let sides = |value: Value| match ctx.func.def_inst(value) {
        Some(&InstData::Select {
            cond: inner, args, ..
        }) if inner == cond => Some(args),
        _ => None,
    };
    match (sides(a), sides(b)) {
        (Some([x, _]), _) => Some([x, b]),
        (None, Some([_, y])) => Some([a, y]),
        (None, None) => None,
    }
}

fn select_predicate(
    ctx: &mut Ctx,
    cond: Value,
    [a, b]: [Value; 2],
    x: Option<u64>,
    y: Option<u64>,
) -> Option<Found> {
    let logic = |op, args| {
        Some(Found::Inst(InstData::IntBinary {
            op,
            ty: Type::B1,
            args,
        }))
    };
    let inverse = |ctx: &mut Ctx| {
        ctx.emit(
            InstData::IntUnary {
                op: IntUnaryOp::Not,
                ty: Type::B1,
                arg: cond,
            },
            Type::B1,
        )
    };
    match (x, y) {
        (Some(1), Some(0)) => Some(Found::Value(cond)),
        (Some(0), Some(1)) => not(cond),
        (Some(1), _) => logic(IntBinaryOp::Or, [cond, b]),
        (_, Some(0)) => logic(IntBinaryOp::And, [cond, a]),
        (Some(0), _) => {
            let args = [inverse(ctx), b];
            logic(IntBinaryOp::And, args)
        }
        (_, Some(1)) => {
            let args = [inverse(ctx), a];
            logic(IntBinaryOp::Or, args)
        }
        _ => None,
    }
}
