//! Dot products with constants, of bytes or half-words that were put together for them.

use ptxjit_ir::{InstData, IntBinaryOp, IntTernaryOp, ResizeOp, Type, Value};

use super::{Ctx, Found, bits, known};

/// How a dot product reads its first two operands.
#[derive(Copy, Clone)]
struct Form {
    /// Bits of an element of the first operand; those of the second have 8.
    bits: u32,
    is_signed: [bool; 2],
    /// Where the elements of the second operand start.
    from: u32,
}

fn form(op: IntTernaryOp) -> Option<Form> {
    let (bits, is_signed, from) = match op {
        IntTernaryOp::Dp4aUU => (8, [false, false], 0),
        IntTernaryOp::Dp4aUS => (8, [false, true], 0),
        IntTernaryOp::Dp4aSU => (8, [true, false], 0),
        IntTernaryOp::Dp4aSS => (8, [true, true], 0),
        IntTernaryOp::Dp2aLoUU => (16, [false, false], 0),
        IntTernaryOp::Dp2aLoUS => (16, [false, true], 0),
        IntTernaryOp::Dp2aLoSU => (16, [true, false], 0),
        IntTernaryOp::Dp2aLoSS => (16, [true, true], 0),
        IntTernaryOp::Dp2aHiUU => (16, [false, false], 16),
        IntTernaryOp::Dp2aHiUS => (16, [false, true], 16),
        IntTernaryOp::Dp2aHiSU => (16, [true, false], 16),
        IntTernaryOp::Dp2aHiSS => (16, [true, true], 16),
        IntTernaryOp::ShfL
        | IntTernaryOp::ShfR
        | IntTernaryOp::Prmt
        | IntTernaryOp::UBfe
        | IntTernaryOp::SBfe
        | IntTernaryOp::Fns => return None,
    };
    Some(Form {
        bits,
        is_signed,
        from,
    })
}

/// A sum of products of what the elements were made of: compilers like to put three bytes of a
/// picture together for one instruction.
pub(super) fn product(
    ctx: &mut Ctx,
    op: IntTernaryOp,
    [packed, factors, sum]: [Value; 3],
) -> Option<Found> {
    let form = form(op)?;
    let factors = ctx.as_const(factors)?;
    let mut products: Vec<(ResizeOp, Value, i64)> = Vec::new();
    for i in 0..32 / form.bits {
        let factor = (factors >> (form.from + 8 * i)) as u8;
        let factor = match form.is_signed[1] {
            true => i64::from(factor as i8),
            false => i64::from(factor),
        };
        let (element, at) = bits::slice(ctx.func, packed, form.bits * i, form.bits);
        let possible = known::possible(ctx, element);
        if factor == 0 || possible & known::low_bits(form.bits) << at == 0 {
            continue;
        }
        let is_whole = ctx.func.ty(element).bits() == form.bits;
        let is_small = possible >> (form.bits - u32::from(form.is_signed[0])) == 0;
        let is_wide = ctx.func.ty(element) > Type::B32;
        if at != 0 || is_wide || !is_whole && !is_small {
            return None;
        }
        let op = match form.is_signed[0] && is_whole {
            true => ResizeOp::Sext,
            false => ResizeOp::Uext,
        };
        products.push((op, element, factor));
    }
    let ty = Type::B32;
    let mut total = sum;
    for (op, element, factor) in products {
        let from = ctx.func.ty(element);
        let word = match from == ty {
            true => element,
            false => ctx.emit(
                InstData::Resize {
                    op,
                    from,
                    to: ty,
                    arg: element,
                },
                ty,
            ),
        };
        let factor = ctx.constant(ty, factor as u64);
        let args = [word, factor];
        let product = InstData::IntBinary {
            op: IntBinaryOp::Mul,
            ty,
            args,
        };
        let product = ctx.emit(product, ty);
        let args = [total, product];
        let add = InstData::IntBinary {
            op: IntBinaryOp::Add,
            ty,
            args,
        };
        total = ctx.emit(add, ty);
    }
    Some(Found::Value(total))
}
