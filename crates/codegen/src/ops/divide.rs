//! Quotients, high halves of products and saturating sums of integers, which 128-bit vectors have
//! no instructions for.
//!
//! Quotients go through f64: one that is no integer is further below the next integer than rounding
//! to 53 bits can lift it, for dividends below 2^51. Divisions by constants become multiplications
//! (Warren, "Hacker's Delight", chapter 10).

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{FloatFmt, NumFmt, Type};

use super::{Emitter, Quad};

/// Added to a number below 2^51, shows it as an integer in the low bits of the sum.
pub(crate) const SHOW_INT: f64 = 6_755_399_441_055_744.0;

/// `n / d == mulhi(n, multiplier) >> shift` for all 32-bit `n`; with `add`, `(t + ((n - t) >> 1))
/// >> (shift - 1)` for `t = mulhi(n, multiplier)`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Unsigned {
    multiplier: u32,
    shift: u32,
    add: bool,
}

/// The multiplication for a divisor of 2 or more.
fn unsigned_magic(d: u32) -> Unsigned {
    let most = 32 - (d - 1).leading_zeros();
    for shift in 0..=most {
        let power = 1u128 << (32 + shift);
        let multiplier = power.div_ceil(u128::from(d));
        if multiplier <= u128::from(u32::MAX) && multiplier * u128::from(d) - power <= 1 << shift {
            return Unsigned {
                multiplier: multiplier as u32,
                shift,
                add: false,
            };
        }
    }
    let multiplier = (((1u128 << most) - u128::from(d)) << 32) / u128::from(d) + 1;
    Unsigned {
        multiplier: multiplier as u32,
        shift: most,
        add: true,
    }
}

/// Multiplier and shift for a divisor of magnitude 2 or more: `mulhi(n, multiplier)`, plus or minus
/// `n` where the signs of divisor and multiplier differ, shifted, plus one if negative.
fn signed_magic(d: i32) -> (i32, u32) {
    const TWO_31: u64 = 1 << 31;
    let size = u64::from(d.unsigned_abs());
    let limit = TWO_31 + u64::from(d < 0);
    let limit = limit - 1 - limit % size;
    let mut p = 31;
    loop {
        p += 1;
        let power = 1u128 << p;
        let delta = u128::from(size) - power % u128::from(size);
        if power > u128::from(limit) * delta {
            let multiplier = ((power + delta) / u128::from(size)) as u32 as i32;
            return (
                if d < 0 {
                    multiplier.wrapping_neg()
                } else {
                    multiplier
                },
                p - 32,
            );
        }
    }
}

const F32: FloatFmt = FloatFmt::F32;

impl Emitter<'_> {
    pub(crate) fn lane_word(&mut self, like: cl::Value, bits: u32) -> cl::Value {
        self.bits_like(F32, like, u64::from(bits))
    }

    /// The quotients of 32-bit lanes; undefined for zero divisors.
    pub(crate) fn divide_words(&mut self, from: NumFmt, x: cl::Value, y: cl::Value) -> cl::Value {
        let (x, y) = (self.vector_to_f64(from, x), self.vector_to_f64(from, y));
        let show = self.float_like(FloatFmt::F64, x[0], SHOW_INT);
        let parts: Quad = x
            .into_iter()
            .zip(y)
            .map(|(x, y)| {
                let quotient = self.ins().fdiv(x, y);
                let whole = self.ins().trunc(quotient);
                self.ins().fadd(whole, show)
            })
            .collect();
        self.narrow(parts[0], parts[1])
    }

    /// Quotients or remainders of 64-bit lanes below 2^51.
    pub(crate) fn divide_indices(
        &mut self,
        rem: bool,
        x: cl::Value,
        y: cl::Value,
        factor: Option<cl::Value>,
    ) -> cl::Value {
        const F64: FloatFmt = FloatFmt::F64;
        // 2^52: its last bit is worth one.
        let unit = self.float_like(F64, x, 4_503_599_627_370_496.0);
        let unit_bits = self.as_int(F64, unit);
        let [over, under] = [x, y].map(|x| {
            let shown = self.ins().bor(x, unit_bits);
            let shown = self.as_float(F64, shown);
            self.ins().fsub(shown, unit)
        });
        let quotient = match factor {
            Some(factor) => self.ins().fmul(over, factor),
            None => self.ins().fdiv(over, under),
        };
        let whole = self.ins().trunc(quotient);
        let result = if rem {
            let minus = self.ins().fneg(whole);
            self.ins().fma(minus, under, over)
        } else {
            whole
        };
        let shown = self.ins().fadd(result, unit);
        let shown = self.as_int(F64, shown);
        let result = self.ins().bxor(shown, unit_bits);
        let none = self.vconst(Type::B64, 0);
        let is_zero = self.ins().icmp(IntCC::Equal, y, none);
        let ones = self.vconst(Type::B64, u64::MAX);
        self.pick(is_zero, ones, result)
    }

    /// The quotient of a 32-bit scalar by a constant; `None` for divisors of less than 2.
    pub(crate) fn scalar_divide_constant(
        &mut self,
        signed: bool,
        x: cl::Value,
        d: i64,
    ) -> Option<cl::Value> {
        if signed {
            let d = i32::try_from(d).ok().filter(|&d| d >= 2)?;
            let (multiplier, shift) = signed_magic(d);
            let wide = self.ins().sextend(types::I64, x);
            let product = self.ins().imul_imm_s(wide, i64::from(multiplier as u32));
            let shifted = self.ins().sshr_imm_s(product, i64::from(32 + shift));
            let shifted = self.ins().ireduce(types::I32, shifted);
            let sign = self.ins().ushr_imm_s(x, 31);
            return Some(self.ins().iadd(shifted, sign));
        }
        let d = d as u32;
        let magic = (d >= 2 && !d.is_power_of_two()).then(|| unsigned_magic(d))?;
        let wide = self.ins().uextend(types::I64, x);
        let product = self.ins().imul_imm_s(wide, i64::from(magic.multiplier));
        let high = if magic.add {
            let high = self.ins().ushr_imm_s(product, 32);
            let sum = self.ins().iadd(high, wide);
            self.ins().ushr_imm_s(sum, i64::from(magic.shift))
        } else {
            self.ins().ushr_imm_s(product, i64::from(32 + magic.shift))
        };
        Some(self.ins().ireduce(types::I32, high))
    }

    pub(crate) fn divide_constant(&mut self, x: cl::Value, d: u32) -> Option<cl::Value> {
        if d == 0 {
            return None;
        }
        if d.is_power_of_two() {
            return Some(self.ins().ushr_imm_s(x, i64::from(d.trailing_zeros())));
        }
        let magic = unsigned_magic(d);
        let multiplier = self.lane_word(x, magic.multiplier);
        let high = self.mul_hi_words(false, x, multiplier);
        if !magic.add {
            return Some(self.ins().ushr_imm_s(high, i64::from(magic.shift)));
        }
        let rest = self.ins().isub(x, high);
        let half = self.ins().ushr_imm_s(rest, 1);
        let sum = self.ins().iadd(high, half);
        Some(self.ins().ushr_imm_s(sum, i64::from(magic.shift) - 1))
    }

    pub(crate) fn divide_signed_constant(&mut self, x: cl::Value, d: i32) -> Option<cl::Value> {
        match d {
            0 => return None,
            1 => return Some(x),
            -1 => return Some(self.ins().ineg(x)),
            _ => {}
        }
        let (multiplier, shift) = signed_magic(d);
        let factor = self.lane_word(x, multiplier as u32);
        let high = self.mul_hi_words(true, x, factor);
        let high = match (d > 0, multiplier > 0) {
            (true, false) => self.ins().iadd(high, x),
            (false, true) => self.ins().isub(high, x),
            (true, true) | (false, false) => high,
        };
        let shifted = self.ins().sshr_imm_s(high, i64::from(shift));
        let negative = self.ins().ushr_imm_s(shifted, 31);
        Some(self.ins().iadd(shifted, negative))
    }

    /// Both halves of the full products of 32-bit lanes.
    pub(crate) fn wide_products(
        &mut self,
        signed: bool,
        x: cl::Value,
        y: cl::Value,
    ) -> [cl::Value; 2] {
        // Cranelift selects pmuldq and pmuludq for these.
        let ([a, c], [b, d]) = (self.widened(signed, x), self.widened(signed, y));
        [self.ins().imul(a, b), self.ins().imul(c, d)]
    }

    fn mul_hi_words(&mut self, signed: bool, x: cl::Value, y: cl::Value) -> cl::Value {
        let [low, high] = self.wide_products(signed, x, y);
        self.high_words(low, high)
    }

    /// High halves of products.
    pub(crate) fn vector_mul_hi(
        &mut self,
        signed: bool,
        ty: Type,
        x: cl::Value,
        y: cl::Value,
    ) -> Option<cl::Value> {
        match ty {
            Type::B64 | Type::B1 => None,
            Type::B32 => Some(self.mul_hi_words(signed, x, y)),
            Type::B8 | Type::B16 => {
                let (x, y) = if signed {
                    (self.lanes_signed(ty, x), self.lanes_signed(ty, y))
                } else {
                    (x, y)
                };
                let product = self.ins().imul(x, y);
                let high = self.ins().ushr_imm_s(product, i64::from(ty.bits()));
                Some(self.lanes_masked(ty, high))
            }
        }
    }

    /// Saturating sum or difference of 32-bit lanes.
    pub(crate) fn vector_saturate(&mut self, sub: bool, x: cl::Value, y: cl::Value) -> cl::Value {
        let sum = if sub {
            self.ins().isub(x, y)
        } else {
            self.ins().iadd(x, y)
        };
        // Overflow: the result's sign is neither operand's (of a difference, the operands' signs
        // differ as well).
        let left = self.ins().bxor(x, sum);
        let right = if sub {
            self.ins().bxor(x, y)
        } else {
            self.ins().bxor(y, sum)
        };
        let both = self.ins().band(left, right);
        let overflow = self.ins().sshr_imm_s(both, 31);
        let sign = self.ins().sshr_imm_s(x, 31);
        let most = self.lane_word(x, i32::MAX as u32);
        let bound = self.ins().bxor(sign, most);
        self.pick(overflow, bound, sum)
    }
}

#[cfg(test)]
mod tests {
    use super::{signed_magic, unsigned_magic};

    /// Numbers around powers of two, multiples and the ends.
    fn dividends(d: u32) -> impl Iterator<Item = u32> {
        let near = |x: u32| (0..3).map(move |i| x.wrapping_add(i).wrapping_sub(1));
        let powers = (0..32).flat_map(move |bit| near(1 << bit));
        let multiples = [1, 2, 3, u32::MAX / d.max(1), u32::MAX / d.max(1) / 2]
            .into_iter()
            .flat_map(move |k| near(d.wrapping_mul(k)));
        powers.chain(multiples).chain([0, u32::MAX])
    }

    fn divisors() -> impl Iterator<Item = u32> {
        (2..2000)
            .chain((1..32).flat_map(|bit| [(1u32 << bit) - 1, 1 << bit, (1 << bit) + 1]))
            .chain([641, 6_700_417, u32::MAX, u32::MAX - 1])
    }

    #[test]
    fn unsigned_multiplication_divides() {
        for d in divisors().filter(|&d| d >= 2) {
            let magic = unsigned_magic(d);
            for n in dividends(d) {
                let high = ((u64::from(n) * u64::from(magic.multiplier)) >> 32) as u32;
                let quotient = if magic.add {
                    (high + ((n - high) >> 1)) >> (magic.shift - 1)
                } else {
                    high >> magic.shift
                };
                assert_eq!(quotient, n / d, "{n} / {d} by {magic:?}");
            }
        }
    }

    #[test]
    fn signed_multiplication_divides() {
        for d in divisors()
            .map(|d| d as i32)
            .flat_map(|d| [d, d.wrapping_neg()])
            .filter(|d| d.unsigned_abs() >= 2)
        {
            let (multiplier, shift) = signed_magic(d);
            for n in dividends(d.unsigned_abs()).map(|n| n as i32) {
                let mut high = ((i64::from(n) * i64::from(multiplier)) >> 32) as i32;
                if d > 0 && multiplier < 0 {
                    high = high.wrapping_add(n);
                } else if d < 0 && multiplier > 0 {
                    high = high.wrapping_sub(n);
                }
                let shifted = high >> shift;
                assert_eq!(
                    shifted + (shifted < 0) as i32,
                    n.wrapping_div(d),
                    "{n} / {d} by {multiplier}, {shift}"
                );
            }
        }
    }
}
