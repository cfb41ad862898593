//! Rules for changes of width, bit fields and byte permutation: which bits of which value a value
//! is made of.

use ptxjit_ir::{CompareOp, Function, InstData, IntBinaryOp, IntTernaryOp, ResizeOp, Type, Value};

use super::{Ctx, Found, known};

/// How far definitions are followed.
const MAX_DEPTH: u32 = 6;

/// Rules for changes of width.
pub(super) fn resize(
    ctx: &mut Ctx,
    op: ResizeOp,
    from: Type,
    to: Type,
    arg: Value,
) -> Option<Found> {
    let make = |op, from, to, arg| Some(Found::Inst(InstData::Resize { op, from, to, arg }));
    match (op, ctx.def(arg)) {
        (ResizeOp::Trunc, def) => trunc(ctx, from, to, arg, def?),
        (
            ResizeOp::Uext,
            Some(InstData::Resize {
                op: ResizeOp::Uext,
                from,
                arg,
                ..
            }),
        ) => make(ResizeOp::Uext, from, to, arg),
        (
            ResizeOp::Sext,
            Some(InstData::Resize {
                op: inner @ (ResizeOp::Uext | ResizeOp::Sext),
                from,
                arg,
                ..
            }),
        ) => make(inner, from, to, arg),
        (
            ResizeOp::Uext,
            Some(InstData::Resize {
                op: ResizeOp::Trunc,
                from: wide,
                arg,
                ..
            }),
        ) if wide >= to => {
            let low = if wide == to {
                arg
            } else {
                ctx.emit(
                    InstData::Resize {
                        op: ResizeOp::Trunc,
                        from: wide,
                        to,
                        arg,
                    },
                    to,
                )
            };
            let mask = ctx.constant(to, from.mask());
            Some(Found::Inst(InstData::IntBinary {
                op: IntBinaryOp::And,
                ty: to,
                args: [low, mask],
            }))
        }
        (ResizeOp::Sext, Some(_)) if known::possible(ctx, arg) >> (from.bits() - 1) == 0 => {
            make(ResizeOp::Uext, from, to, arg)
        }
        (ResizeOp::Uext | ResizeOp::Sext, _) => None,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "others are left alone")]
fn trunc(ctx: &mut Ctx, from: Type, to: Type, arg: Value, def: InstData) -> Option<Found> {
    match slice(ctx.func, arg, 0, to.bits()) {
        (found, 0) if ctx.func.ty(found) == to => return Some(Found::Value(found)),
        (found, 0) if found != arg && ctx.func.ty(found) > to => {
            let from = ctx.func.ty(found);
            return Some(Found::Inst(InstData::Resize {
                op: ResizeOp::Trunc,
                from,
                to,
                arg: found,
            }));
        }
        _ => {}
    }
    match def {
        InstData::Resize {
            op,
            from: narrow,
            arg,
            ..
        } if narrow < to => Some(Found::Inst(InstData::Resize {
            op,
            from: narrow,
            to,
            arg,
        })),
        // The low half of 64-bit arithmetic on extended words is 32-bit arithmetic.
        InstData::IntBinary {
            op:
                op @ (IntBinaryOp::Add
                | IntBinaryOp::Sub
                | IntBinaryOp::Mul
                | IntBinaryOp::And
                | IntBinaryOp::Or
                | IntBinaryOp::Xor),
            args: [a, b],
            ..
        } if from == Type::B64 && to == Type::B32 => {
            let (a, b) = (low_word(ctx, a)?, low_word(ctx, b)?);
            let args = [narrow(ctx, a), narrow(ctx, b)];
            Some(Found::Inst(InstData::IntBinary { op, ty: to, args }))
        }
        _ => None,
    }
}

/// A 64-bit operand whose low word is at hand.
enum Word {
    Value(Value),
    Const(u64),
}

#[expect(clippy::wildcard_enum_match_arm, reason = "others are left alone")]
fn low_word(ctx: &Ctx, value: Value) -> Option<Word> {
    match *ctx.func.def_inst(value)? {
        InstData::Const { bits, .. } => Some(Word::Const(bits)),
        InstData::Resize {
            op: ResizeOp::Uext | ResizeOp::Sext,
            from: Type::B32,
            arg,
            ..
        } => Some(Word::Value(arg)),
        _ => None,
    }
}

fn narrow(ctx: &mut Ctx, word: Word) -> Value {
    match word {
        Word::Value(value) => value,
        Word::Const(bits) => ctx.constant(Type::B32, bits),
    }
}

/// Follows the bits `lo .. lo + n` of a value to a value that holds them, and to their place there.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are left alone")]
pub(super) fn slice(func: &Function, mut value: Value, mut lo: u32, n: u32) -> (Value, u32) {
    for _ in 0..2 * MAX_DEPTH {
        let Some(data) = func.def_inst(value) else {
            break;
        };
        let ty = func.ty(value);
        let next = match *data {
            InstData::Resize {
                op: ResizeOp::Trunc,
                arg,
                ..
            } => Some((arg, lo)),
            InstData::Resize {
                op: ResizeOp::Uext | ResizeOp::Sext,
                from,
                arg,
                ..
            } if lo + n <= from.bits() => Some((arg, lo)),
            InstData::IntBinary {
                op, args: [a, b], ..
            } => slice_binary(func, op, [a, b], lo, n, ty),
            InstData::IntTernary {
                op: IntTernaryOp::Prmt,
                args: [a, b, selectors],
                ..
            } if n == 8 && lo.is_multiple_of(8) => func
                .as_const(selectors)
                .map(|selectors| selectors >> (lo / 2) & 0xf)
                .filter(|selector| *selector < 8)
                .map(|selector| {
                    let source = if selector < 4 { a } else { b };
                    (source, 8 * (selector as u32 & 3))
                }),
            _ => None,
        };
        // Stop where the bits are a whole value: what that is made of is its own matter.
        if lo == 0 && ty.bits() == n {
            break;
        }
        let Some(next) = next else { break };
        (value, lo) = next;
    }
    (value, lo)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "others are left alone")]
fn slice_binary(
    func: &Function,
    op: IntBinaryOp,
    [a, b]: [Value; 2],
    lo: u32,
    n: u32,
    ty: Type,
) -> Option<(Value, u32)> {
    let field = known::low_bits(n) << lo;
    let is_clear = |value: Value| known::possible_in(func, value) & field == 0;
    match op {
        IntBinaryOp::Or if is_clear(b) => Some((a, lo)),
        IntBinaryOp::Or if is_clear(a) => Some((b, lo)),
        IntBinaryOp::And => (func.as_const(b)? & field == field).then_some((a, lo)),
        IntBinaryOp::Shl => Some((a, lo.checked_sub(u32::try_from(func.as_const(b)?).ok()?)?)),
        IntBinaryOp::Ushr => {
            let count = u32::try_from(func.as_const(b)?).ok()?;
            (lo.checked_add(count)?.checked_add(n)? <= ty.bits()).then_some((a, lo + count))
        }
        _ => None,
    }
}

/// `n` bits of `source` from `from` on, placed at `at` among zeros.
#[derive(Copy, Clone)]
struct Piece {
    source: Value,
    from: u32,
    at: u32,
    n: u32,
}

/// An `or` of parts of one value may be that value.
pub(super) fn reassemble(ctx: &mut Ctx, ty: Type, a: Value, b: Value) -> Option<Found> {
    let piece = merge(
        piece(ctx.func, a, MAX_DEPTH)?,
        piece(ctx.func, b, MAX_DEPTH)?,
    )?;
    let source_ty = ctx.func.ty(piece.source);
    if (piece.from, piece.at) != (0, 0) {
        return None;
    }
    let (from, to, arg) = (source_ty, ty, piece.source);
    match source_ty.cmp(&ty) {
        std::cmp::Ordering::Equal if piece.n == ty.bits() => Some(Found::Value(arg)),
        std::cmp::Ordering::Less if piece.n == from.bits() => Some(Found::Inst(InstData::Resize {
            op: ResizeOp::Uext,
            from,
            to,
            arg,
        })),
        std::cmp::Ordering::Greater if piece.n == ty.bits() => {
            Some(Found::Inst(InstData::Resize {
                op: ResizeOp::Trunc,
                from,
                to,
                arg,
            }))
        }
        std::cmp::Ordering::Equal => {
            let mask = ctx.constant(ty, known::low_bits(piece.n));
            Some(Found::Inst(InstData::IntBinary {
                op: IntBinaryOp::And,
                ty,
                args: [arg, mask],
            }))
        }
        std::cmp::Ordering::Less | std::cmp::Ordering::Greater => None,
    }
}

fn merge(a: Piece, b: Piece) -> Option<Piece> {
    let (low, high) = if a.at <= b.at { (a, b) } else { (b, a) };
    let is_row =
        low.source == high.source && low.at + low.n == high.at && low.from + low.n == high.from;
    is_row.then_some(Piece {
        n: low.n + high.n,
        ..low
    })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "others are left alone")]
fn piece(func: &Function, value: Value, depth: u32) -> Option<Piece> {
    let ty = func.ty(value);
    let whole = Piece {
        source: value,
        from: 0,
        at: 0,
        n: ty.bits(),
    };
    let Some(data) = func.def_inst(value).filter(|_| depth > 0) else {
        return Some(whole);
    };
    let of = |value: Value| piece(func, value, depth - 1);
    match *data {
        InstData::Resize {
            op: ResizeOp::Uext,
            arg,
            ..
        } => of(arg),
        InstData::Resize {
            op: ResizeOp::Trunc,
            arg,
            to,
            ..
        } => clip(of(arg)?, 0, to.bits()),
        InstData::IntBinary { op, args, .. } => {
            piece_binary(func, op, args, ty, depth).or(Some(whole))
        }
        _ => Some(whole),
    }
}

/// The piece that a shift, a mask or a sum of pieces is.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are left alone")]
fn piece_binary(
    func: &Function,
    op: IntBinaryOp,
    [a, b]: [Value; 2],
    ty: Type,
    depth: u32,
) -> Option<Piece> {
    let of = |value: Value| piece(func, value, depth - 1);
    let c = func.as_const(b);
    let count = c.filter(|&c| c < u64::from(ty.bits())).map(|c| c as u32);
    match op {
        IntBinaryOp::Shl => {
            let (part, count) = (of(a)?, count?);
            clip(
                Piece {
                    at: part.at + count,
                    ..part
                },
                0,
                ty.bits(),
            )
        }
        IntBinaryOp::Ushr => {
            let part = clip(of(a)?, count?, ty.bits())?;
            Some(Piece {
                at: part.at - count?,
                ..part
            })
        }
        IntBinaryOp::And => {
            let mask = c.filter(|&mask| mask != 0)?;
            let (start, end) = (mask.trailing_zeros(), known::width(mask));
            let is_run = mask == known::low_bits(end) & !known::low_bits(start);
            if is_run {
                clip(of(a)?, start, end)
            } else {
                None
            }
        }
        IntBinaryOp::Or => merge(of(a)?, of(b)?),
        _ => None,
    }
}

/// What of the piece lies in the bits `start .. end`.
fn clip(piece: Piece, start: u32, end: u32) -> Option<Piece> {
    let at = piece.at.max(start);
    let n = (piece.at + piece.n)
        .min(end)
        .checked_sub(at)
        .filter(|&n| n > 0)?;
    Some(Piece {
        source: piece.source,
        from: piece.from + (at - piece.at),
        at,
        n,
    })
}

/// Rules for bit fields, funnel shifts and byte permutation.
pub(super) fn ternary(
    ctx: &mut Ctx,
    op: IntTernaryOp,
    ty: Type,
    args: [Value; 3],
) -> Option<Found> {
    let [a, b, c] = args;
    match op {
        IntTernaryOp::UBfe | IntTernaryOp::SBfe => bit_field(
            ctx,
            op,
            ty,
            a,
            ctx.as_const(b)? as u8,
            ctx.as_const(c)? as u8,
        ),
        IntTernaryOp::ShfL | IntTernaryOp::ShfR => {
            let (at_zero, at_end) = if op == IntTernaryOp::ShfL {
                (b, a)
            } else {
                (a, b)
            };
            match ctx.as_const(c)? {
                0 => Some(Found::Value(at_zero)),
                count if count >= 32 => Some(Found::Value(at_end)),
                _ => None,
            }
        }
        IntTernaryOp::Prmt => permute(ctx, a, b, ctx.as_const(c)? as u16),
        IntTernaryOp::Fns
        | IntTernaryOp::Dp4aUU
        | IntTernaryOp::Dp4aUS
        | IntTernaryOp::Dp4aSU
        | IntTernaryOp::Dp4aSS
        | IntTernaryOp::Dp2aLoUU
        | IntTernaryOp::Dp2aLoUS
        | IntTernaryOp::Dp2aLoSU
        | IntTernaryOp::Dp2aLoSS
        | IntTernaryOp::Dp2aHiUU
        | IntTernaryOp::Dp2aHiUS
        | IntTernaryOp::Dp2aHiSU
        | IntTernaryOp::Dp2aHiSS => None,
    }
}

fn bit_field(
    ctx: &mut Ctx,
    op: IntTernaryOp,
    ty: Type,
    a: Value,
    pos: u8,
    len: u8,
) -> Option<Found> {
    let (pos, len, bits) = (u32::from(pos), u32::from(len), ty.bits());
    if len == 0 {
        return Some(Found::Const(0));
    }
    let shift = |ctx: &mut Ctx, op, value, by: u32| {
        let count = ctx.constant(Type::B32, by.into());
        ctx.emit(
            InstData::IntBinary {
                op,
                ty,
                args: [value, count],
            },
            ty,
        )
    };
    if op == IntTernaryOp::UBfe {
        let low = shift(ctx, IntBinaryOp::Ushr, a, pos);
        let mask = ctx.constant(ty, known::low_bits(len));
        return Some(Found::Inst(InstData::IntBinary {
            op: IntBinaryOp::And,
            ty,
            args: [low, mask],
        }));
    }
    // Beyond the top, the field is filled with the top bit.
    let end = (pos + len).min(bits);
    let high = shift(ctx, IntBinaryOp::Shl, a, bits - end);
    let count = ctx.constant(Type::B32, (bits - end + pos).into());
    Some(Found::Inst(InstData::IntBinary {
        op: IntBinaryOp::Sshr,
        ty,
        args: [high, count],
    }))
}

/// A permutation that moves at most two rows of bytes is shifts and masks.
fn permute(ctx: &mut Ctx, a: Value, b: Value, selector: u16) -> Option<Found> {
    let digits = [0, 4, 8, 12].map(|shift| selector >> shift & 0xf);
    // The top bit of a digit replicates a sign.
    if digits.iter().any(|&digit| digit >= 8) {
        return None;
    }
    let possible = [a, b].map(|value| known::possible(ctx, value));
    // Rows as (from b, first byte there, first byte of the result, length).
    let mut rows: Vec<(bool, u32, u32, u32)> = Vec::new();
    for (at, &digit) in (0u32..).zip(&digits) {
        let (from_b, byte) = (digit >= 4, u32::from(digit % 4));
        if possible[usize::from(from_b)] >> (8 * byte) & 0xff == 0 {
            continue;
        }
        match rows.last_mut() {
            Some((b, first, start, n))
                if *b == from_b && *first + *n == byte && *start + *n == at =>
            {
                *n += 1
            }
            _ => rows.push((from_b, byte, at, 1)),
        }
    }
    let ty = Type::B32;
    let mut row = |(from_b, first, start, n): (bool, u32, u32, u32)| {
        let source = if from_b { b } else { a };
        let shift = |ctx: &mut Ctx, op, value, bytes: u32| {
            let count = ctx.constant(Type::B32, u64::from(8 * bytes));
            ctx.emit(
                InstData::IntBinary {
                    op,
                    ty,
                    args: [value, count],
                },
                ty,
            )
        };
        let low = shift(ctx, IntBinaryOp::Ushr, source, first);
        let placed = shift(ctx, IntBinaryOp::Shl, low, start);
        let mask = ctx.constant(ty, known::low_bits(8 * n) << (8 * start));
        InstData::IntBinary {
            op: IntBinaryOp::And,
            ty,
            args: [placed, mask],
        }
    };
    match *rows.as_slice() {
        [] => Some(Found::Const(0)),
        [only] => Some(Found::Inst(row(only))),
        [first, second] => {
            let (first, second) = (row(first), row(second));
            let args = [ctx.emit(first, ty), ctx.emit(second, ty)];
            Some(Found::Inst(InstData::IntBinary {
                op: IntBinaryOp::Or,
                ty,
                args,
            }))
        }
        _ => None,
    }
}

/// Whether a comparison of two values zero-extended from a narrower type gives the same on the
/// narrow ones, and which does.
pub(super) fn narrow_compare(op: CompareOp) -> Option<CompareOp> {
    match op {
        CompareOp::Eq
        | CompareOp::Ne
        | CompareOp::Ult
        | CompareOp::Ule
        | CompareOp::Ugt
        | CompareOp::Uge => Some(op),
        // Zero-extended values are not negative.
        CompareOp::Slt => Some(CompareOp::Ult),
        CompareOp::Sle => Some(CompareOp::Ule),
        CompareOp::Sgt => Some(CompareOp::Ugt),
        CompareOp::Sge => Some(CompareOp::Uge),
    }
}
