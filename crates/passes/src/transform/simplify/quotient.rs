//! Divisions by constants that compilers have made products of.
//!
//! That a value is a quotient tells more than the instructions that compute it: neighboring
//! threads mostly have the same one, and the vectorizer knows where it changes. Where a vector of
//! quotients is needed after all, the code generator multiplies, too.
//!
//! A product with `m`, shifted by `p`, is the quotient by `d` if `m * d` is 2^p and so little more
//! that it does not matter for any dividend (Granlund and Montgomery, "Division by Invariant
//! Integers using Multiplication", PLDI 1994).
//!
//! ```text
//! v2 = umulhi.b32 v0, 0xcccccccd; v3 = ushr.b32 v2, 2   ==>   v3 = udiv.b32 v0, 5
//! ```

use ptxjit_ir::{InstData, IntBinaryOp, Type, Value};

use super::{Ctx, Found, known};

/// The high half of a product is a shift by so many bits.
const HIGH: u32 = 32;

/// The divisor for which `x * m >> power` is the quotient of each `x` up to `most`.
fn divisor(m: u64, power: u32, most: u64) -> Option<u64> {
    if m == 0 || power > 63 {
        return None;
    }
    let power = 1u128 << power;
    let d = power / u128::from(m) + 1;
    let excess = d * u128::from(m) - power;
    let is_exact = u128::from(most) * excess < power;
    u64::try_from(d).ok().filter(|_| is_exact)
}

/// The operands of a binary operation.
fn args_of(ctx: &Ctx, value: Value, wanted: IntBinaryOp) -> Option<[Value; 2]> {
    let InstData::IntBinary { op, args, .. } = ctx.def(value)? else {
        return None;
    };
    (op == wanted).then_some(args)
}

/// An operand and a constant.
fn with_constant(ctx: &Ctx, value: Value, wanted: IntBinaryOp) -> Option<(Value, u64)> {
    let [arg, constant] = args_of(ctx, value, wanted)?;
    Some((arg, ctx.as_const(constant)?))
}

fn quotient(ctx: &mut Ctx, op: IntBinaryOp, dividend: Value, divisor: u64) -> Found {
    let divisor = ctx.constant(Type::B32, divisor);
    Found::Inst(InstData::IntBinary {
        op,
        ty: Type::B32,
        args: [dividend, divisor],
    })
}

/// `value >> shift`, if that is a quotient of unsigned words.
pub(super) fn unsigned(ctx: &mut Ctx, value: Value, shift: u64) -> Option<Found> {
    let shift = u32::try_from(shift).ok().filter(|&shift| shift < HIGH)?;
    let product = with_constant(ctx, value, IntBinaryOp::UmulHi);
    let (dividend, m, power) = match product {
        Some((dividend, m)) => (dividend, m, HIGH + shift),
        None => {
            let (dividend, m) = with_33_bits(ctx, value)?;
            (dividend, m, HIGH + shift + 1)
        }
    };
    let most = known::possible(ctx, dividend);
    let divisor = divisor(m, power, most).filter(|&d| d <= u64::from(u32::MAX))?;
    Some(quotient(ctx, IntBinaryOp::Udiv, dividend, divisor))
}

/// The half of the high part of a product with a number of 33 bits, `((x - t) >> 1) + t` for
/// `t = x * m >> 32`: `x` and `m + (1 << 32)`.
fn with_33_bits(ctx: &Ctx, value: Value) -> Option<(Value, u64)> {
    let [a, b] = args_of(ctx, value, IntBinaryOp::Add)?;
    [(a, b), (b, a)].into_iter().find_map(|(half, high)| {
        let (dividend, m) = with_constant(ctx, high, IntBinaryOp::UmulHi)?;
        let (rest, 1) = with_constant(ctx, half, IntBinaryOp::Ushr)? else {
            return None;
        };
        let is_rest = args_of(ctx, rest, IntBinaryOp::Sub)? == [dividend, high];
        is_rest.then_some((dividend, m + (1 << HIGH)))
    })
}

/// `a + b`, if that is a quotient of signed words: a shifted product, and one for what is negative.
pub(super) fn signed(ctx: &mut Ctx, a: Value, b: Value) -> Option<Found> {
    [(a, b), (b, a)]
        .into_iter()
        .find_map(|(shifted, sign)| of_signed(ctx, shifted, sign))
        .map(|(dividend, divisor)| quotient(ctx, IntBinaryOp::Sdiv, dividend, divisor))
}

fn of_signed(ctx: &Ctx, shifted: Value, sign: Value) -> Option<(Value, u64)> {
    let (signed, 31) = with_constant(ctx, sign, IntBinaryOp::Ushr)? else {
        return None;
    };
    let (high, shift) = with_constant(ctx, shifted, IntBinaryOp::Sshr).unwrap_or((shifted, 0));
    let (dividend, m) = high_part(ctx, high)?;
    let has_sign = [dividend, high, shifted].contains(&signed);
    let shift = u32::try_from(shift)
        .ok()
        .filter(|&shift| has_sign && shift < HIGH - 1)?;
    // A dividend may be as far below zero as 2^31. Its product is rounded down, so there the excess
    // may just reach the next integer.
    let most = (1 << 31) - 1;
    let divisor = divisor(m, HIGH + shift, most)?;
    let fits = m * divisor - (1 << (HIGH + shift)) <= 1 << (shift + 1);
    (fits && divisor <= most).then_some((dividend, divisor))
}

/// A dividend and the factor, of up to 32 bits, of which this is the high part of the product.
fn high_part(ctx: &Ctx, high: Value) -> Option<(Value, u64)> {
    const SIGN: u64 = 1 << 31;
    if let Some((dividend, m)) = with_constant(ctx, high, IntBinaryOp::SmulHi) {
        return (m < SIGN).then_some((dividend, m));
    }
    // A factor of 2^31 and more is negative as an operand, and the dividend is added once.
    let [a, b] = args_of(ctx, high, IntBinaryOp::Add)?;
    [(a, b), (b, a)].into_iter().find_map(|(high, added)| {
        let (dividend, m) = with_constant(ctx, high, IntBinaryOp::SmulHi)?;
        (dividend == added && m >= SIGN).then_some((dividend, m))
    })
}
