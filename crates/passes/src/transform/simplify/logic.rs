//! Rules for bitwise logic.

use ptxjit_ir::{FloatCompareOp, InstData, IntBinaryOp, IntUnaryOp, ResizeOp, Type, Value};

use super::{Ctx, Found, bits, known};

fn inst(op: IntBinaryOp, ty: Type, a: Value, b: Value) -> InstData {
    InstData::IntBinary {
        op,
        ty,
        args: [a, b],
    }
}

/// The complement of something defined so.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are left alone")]
pub(super) fn not(ctx: &mut Ctx, ty: Type, def: &InstData) -> Option<Found> {
    match *def {
        InstData::IntUnary {
            op: IntUnaryOp::Not,
            arg,
            ..
        } => Some(Found::Value(arg)),
        InstData::Compare { op, ty, args } => Some(Found::Inst(InstData::Compare {
            op: op.inverse(),
            ty,
            args,
        })),
        InstData::FloatCompare { op, fmt, ftz, args } => {
            Some(Found::Inst(InstData::FloatCompare {
                op: float_inverse(op),
                fmt,
                ftz,
                args,
            }))
        }
        // -x - 1
        InstData::IntUnary {
            op: IntUnaryOp::Neg,
            arg,
            ..
        } if ty != Type::B1 => {
            let one = ctx.constant(ty, ty.mask());
            Some(Found::Inst(inst(IntBinaryOp::Add, ty, arg, one)))
        }
        _ => None,
    }
}

/// `a & b`; `c` is `b` if that is a constant.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are left alone")]
pub(super) fn and(ctx: &mut Ctx, ty: Type, a: Value, b: Value, c: Option<u64>) -> Option<Found> {
    let Some(c) = c else {
        let inverse = |x: Value| match ctx.func.def_inst(x) {
            Some(&InstData::IntUnary {
                op: IntUnaryOp::Not,
                arg,
                ..
            }) => Some(arg),
            _ => None,
        };
        return (inverse(a) == Some(b) || inverse(b) == Some(a)).then_some(Found::Const(0));
    };
    let possible = known::possible(ctx, a);
    if possible & c == 0 {
        return Some(Found::Const(0));
    }
    if possible & !c == 0 {
        return Some(Found::Value(a));
    }
    match ctx.def(a)? {
        InstData::IntBinary {
            op: IntBinaryOp::And,
            args: [x, k],
            ..
        } => {
            let mask = ctx.constant(ty, ctx.as_const(k)? & c);
            Some(Found::Inst(inst(IntBinaryOp::And, ty, x, mask)))
        }
        // The other part of the sum has no bit in the mask.
        InstData::IntBinary {
            op: op @ (IntBinaryOp::Or | IntBinaryOp::Add),
            args: [x, y],
            ..
        } => {
            let (in_x, in_y) = (known::possible(ctx, x), known::possible(ctx, y));
            let kept = if op == IntBinaryOp::Add && in_x & in_y != 0 {
                return None;
            } else if in_y & c == 0 {
                x
            } else if in_x & c == 0 {
                y
            } else {
                return None;
            };
            Some(Found::Inst(inst(IntBinaryOp::And, ty, kept, b)))
        }
        // Bits from the extension do not matter.
        InstData::Resize {
            op: ResizeOp::Sext,
            from,
            arg,
            ..
        } if c & !from.mask() == 0 => {
            let wide = ctx.emit(
                InstData::Resize {
                    op: ResizeOp::Uext,
                    from,
                    to: ty,
                    arg,
                },
                ty,
            );
            Some(Found::Inst(inst(IntBinaryOp::And, ty, wide, b)))
        }
        _ => None,
    }
}

/// `a | b`; `c` is `b` if that is a constant.
pub(super) fn or(ctx: &mut Ctx, ty: Type, a: Value, b: Value, c: Option<u64>) -> Option<Found> {
    match c {
        Some(0) => return Some(Found::Value(a)),
        Some(c) if c == ty.mask() => return Some(Found::Const(c)),
        // As indices are written that were sums: what looks for sums need not look for these.
        Some(c) if matches!(ty, Type::B32 | Type::B64) && known::possible(ctx, a) & c == 0 => {
            return Some(Found::Inst(inst(IntBinaryOp::Add, ty, a, b)));
        }
        Some(_) | None => {}
    }
    bits::reassemble(ctx, ty, a, b)
}

/// `a ^ c`.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are left alone")]
pub(super) fn xor(ctx: &mut Ctx, ty: Type, a: Value, c: u64) -> Option<Found> {
    if c == 0 {
        return Some(Found::Value(a));
    }
    if c == ty.mask() {
        return Some(Found::Inst(InstData::IntUnary {
            op: IntUnaryOp::Not,
            ty,
            arg: a,
        }));
    }
    match ctx.def(a)? {
        InstData::IntBinary {
            op: IntBinaryOp::Xor,
            args: [x, k],
            ..
        } => {
            let mask = ctx.constant(ty, ctx.as_const(k)? ^ c);
            Some(Found::Inst(inst(IntBinaryOp::Xor, ty, x, mask)))
        }
        _ => None,
    }
}

/// A function of three bits that depends on fewer of them is a simpler operation.
pub(super) fn lop3(ctx: &mut Ctx, lut: u8, args: [Value; 3]) -> Option<Found> {
    let ty = Type::B32;
    let [a, b, c] = args;
    // A constant of all zeros or ones, or an operand met twice, selects a part of the table.
    let mut table = lut;
    for (i, &arg) in args.iter().enumerate() {
        match ctx.as_const(arg) {
            Some(0) => table = fix(table, i, false),
            Some(bits) if bits == ty.mask() => table = fix(table, i, true),
            Some(_) | None => {}
        }
    }
    let depends = [0, 1, 2].map(|i| fix(table, i, false) != fix(table, i, true));
    match depends {
        [false, false, false] => Some(Found::Const(if table & 1 != 0 { ty.mask() } else { 0 })),
        [true, true, true] if table == lut => None,
        [true, true, true] => Some(Found::Inst(InstData::Lop3 { lut: table, args })),
        [true, false, false] => one(table & 0x10 != 0, ty, a),
        [false, true, false] => one(table & 0x04 != 0, ty, b),
        [false, false, true] => one(table & 0x02 != 0, ty, c),
        // The four entries by (x, y) = 00, 01, 10, 11.
        [true, true, false] => two(ctx, [table, table >> 2, table >> 4, table >> 6], a, b),
        [true, false, true] => two(ctx, [table, table >> 1, table >> 4, table >> 5], a, c),
        [false, true, true] => two(ctx, [table, table >> 1, table >> 2, table >> 3], b, c),
    }
}

/// The table when operand `i` is known.
fn fix(table: u8, i: usize, bit: bool) -> u8 {
    let (mask, shift) = [(0xf0u8, 4), (0xcc, 2), (0xaa, 1)][i];
    if bit {
        let half = table & mask;
        half | half >> shift
    } else {
        let half = table & !mask;
        half | half << shift
    }
}

fn one(is_identity: bool, ty: Type, arg: Value) -> Option<Found> {
    Some(if is_identity {
        Found::Value(arg)
    } else {
        Found::Inst(InstData::IntUnary {
            op: IntUnaryOp::Not,
            ty,
            arg,
        })
    })
}

fn two(ctx: &mut Ctx, table: [u8; 4], x: Value, y: Value) -> Option<Found> {
    let ty = Type::B32;
    let not = |ctx: &mut Ctx, arg| {
        ctx.emit(
            InstData::IntUnary {
                op: IntUnaryOp::Not,
                ty,
                arg,
            },
            ty,
        )
    };
    let (op, x, y) = match table.map(|entry| entry & 1) {
        [0, 0, 0, 1] => (IntBinaryOp::And, x, y),
        [0, 1, 1, 1] => (IntBinaryOp::Or, x, y),
        [0, 1, 1, 0] => (IntBinaryOp::Xor, x, y),
        [0, 0, 1, 0] => (IntBinaryOp::And, x, not(ctx, y)),
        [0, 1, 0, 0] => (IntBinaryOp::And, not(ctx, x), y),
        [1, 0, 1, 1] => (IntBinaryOp::Or, x, not(ctx, y)),
        [1, 1, 0, 1] => (IntBinaryOp::Or, not(ctx, x), y),
        // The remaining ones are complements of the first three.
        [1, 1, 1, 0] => return negated(ctx, IntBinaryOp::And, x, y),
        [1, 0, 0, 0] => return negated(ctx, IntBinaryOp::Or, x, y),
        [1, 0, 0, 1] => return negated(ctx, IntBinaryOp::Xor, x, y),
        _ => return None,
    };
    Some(Found::Inst(inst(op, ty, x, y)))
}

fn negated(ctx: &mut Ctx, op: IntBinaryOp, x: Value, y: Value) -> Option<Found> {
    let ty = Type::B32;
    let arg = ctx.emit(inst(op, ty, x, y), ty);
    Some(Found::Inst(InstData::IntUnary {
        op: IntUnaryOp::Not,
        ty,
        arg,
    }))
}

/// The same for floats, where what is ordered becomes unordered.
fn float_inverse(op: FloatCompareOp) -> FloatCompareOp {
    match op {
        FloatCompareOp::Eq => FloatCompareOp::Neu,
        FloatCompareOp::Ne => FloatCompareOp::Equ,
        FloatCompareOp::Lt => FloatCompareOp::Geu,
        FloatCompareOp::Le => FloatCompareOp::Gtu,
        FloatCompareOp::Gt => FloatCompareOp::Leu,
        FloatCompareOp::Ge => FloatCompareOp::Ltu,
        FloatCompareOp::Equ => FloatCompareOp::Ne,
        FloatCompareOp::Neu => FloatCompareOp::Eq,
        FloatCompareOp::Ltu => FloatCompareOp::Ge,
        FloatCompareOp::Leu => FloatCompareOp::Gt,
        FloatCompareOp::Gtu => FloatCompareOp::Le,
        FloatCompareOp::Geu => FloatCompareOp::Lt,
        FloatCompareOp::Num => FloatCompareOp::Nan,
        FloatCompareOp::Nan => FloatCompareOp::Num,
    }
}
