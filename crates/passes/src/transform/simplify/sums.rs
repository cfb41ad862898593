//! Terms of sums that cancel.
//!
//! A tile of rows is often filled by `tile[i / W][i % W]`, where the remainder is
//! `i - W * (i / W)`: then the address `4 * W * (i / W) + 4 * (i % W)` is `4 * i`, and lanes are
//! contiguous. Integers wrap around, so a sum is the same whatever the order of its terms.
//!
//! ```text
//! v1 = imul v0, 22; v3 = isub v2, v1; v4 = imul v0, 88; v5 = shl v3, 2; v6 = iadd v4, v5
//! =>
//! v6 = shl v2, 2
//! ```

use ptxjit_ir::{InstData, IntBinaryOp, IntUnaryOp, Type, Value};
use smallvec::SmallVec;

use super::{Ctx, Found};

/// Terms of a sum that are looked at, and the operations from it to each: indices of a tile have
/// fewer.
const MOST_TERMS: usize = 8;
const DEPTH: u32 = 5;

/// Of more terms, products would be computed again that others need anyway.
const MOST_LEFT: usize = 2;

/// A sum of multiples of values, and a constant.
#[derive(Default)]
struct Sum {
    terms: SmallVec<[(Value, u64); MOST_TERMS]>,
    constant: u64,
    /// Whether two terms are of one value.
    meets: bool,
    n_visited: usize,
}

/// Computes a sum or difference of two values from fewer terms, if some cancel.
pub(super) fn cancel(
    ctx: &mut Ctx,
    op: IntBinaryOp,
    ty: Type,
    [a, b]: [Value; 2],
) -> Option<Found> {
    let mut sum = Sum::default();
    sum.add(ctx, ty, (a, 1), DEPTH)?;
    let factor = if op == IntBinaryOp::Sub { u64::MAX } else { 1 };
    sum.add(ctx, ty, (b, factor), DEPTH)?;
    if !sum.meets {
        return None;
    }
    let n_before = sum.terms.len();
    sum.terms.retain(|&mut (_, factor)| factor & ty.mask() != 0);
    if sum.terms.len() == n_before || sum.terms.len() > MOST_LEFT {
        return None;
    }
    let constant = sum.constant & ty.mask();
    let mut whole: Option<Value> = None;
    for (value, factor) in sum.terms {
        let term = match factor & ty.mask() {
            1 => value,
            factor => {
                let factor = ctx.constant(ty, factor);
                ctx.emit(binary(IntBinaryOp::Mul, ty, value, factor), ty)
            }
        };
        whole = Some(match whole {
            None => term,
            Some(whole) => ctx.emit(binary(IntBinaryOp::Add, ty, whole, term), ty),
        });
    }
    Some(match (whole, constant) {
        (None, constant) => Found::Const(constant),
        (Some(whole), 0) => Found::Value(whole),
        (Some(whole), constant) => {
            let constant = ctx.constant(ty, constant);
            Found::Inst(binary(IntBinaryOp::Add, ty, whole, constant))
        }
    })
}

fn binary(op: IntBinaryOp, ty: Type, a: Value, b: Value) -> InstData {
    let args = [a, b];
    InstData::IntBinary { op, ty, args }
}

impl Sum {
    /// Adds a multiple of a value; `None` if there are too many terms.
    fn add(
        &mut self,
        ctx: &Ctx,
        ty: Type,
        (value, factor): (Value, u64),
        depth: u32,
    ) -> Option<()> {
        self.n_visited += 1;
        if self.n_visited > 2 * MOST_TERMS {
            return None;
        }
        let times = |by: u64| factor.wrapping_mul(by);
        if let Some(bits) = ctx.as_const(value) {
            self.constant = self.constant.wrapping_add(times(bits));
            return Some(());
        }
        let def = ctx.func.def_inst(value).filter(|_| depth > 0);
        match def {
            Some(&InstData::IntBinary {
                op: op @ (IntBinaryOp::Add | IntBinaryOp::Sub),
                args: [a, b],
                ..
            }) => {
                self.add(ctx, ty, (a, factor), depth - 1)?;
                let is_sum = op == IntBinaryOp::Add;
                let factor = if is_sum { factor } else { times(u64::MAX) };
                self.add(ctx, ty, (b, factor), depth - 1)
            }
            Some(&InstData::IntBinary {
                op: IntBinaryOp::Mul,
                args: [a, b],
                ..
            }) if let Some(by) = ctx.as_const(b) => self.add(ctx, ty, (a, times(by)), depth - 1),
            Some(&InstData::IntBinary {
                op: IntBinaryOp::Shl,
                args: [a, b],
                ..
            }) if let Some(by) = ctx.as_const(b).filter(|&by| by < u64::from(ty.bits())) => {
                self.add(ctx, ty, (a, times(1 << by)), depth - 1)
            }
            Some(&InstData::IntUnary {
                op: IntUnaryOp::Neg,
                arg,
                ..
            }) => self.add(ctx, ty, (arg, times(u64::MAX)), depth - 1),
            _ => self.add_term(value, factor),
        }
    }

    fn add_term(&mut self, value: Value, factor: u64) -> Option<()> {
        let mut terms = self.terms.iter_mut();
        if let Some((_, old)) = terms.find(|(other, _)| *other == value) {
            *old = old.wrapping_add(factor);
            self.meets = true;
        } else if self.terms.len() == MOST_TERMS {
            return None;
        } else {
            self.terms.push((value, factor));
        }
        Some(())
    }
}
