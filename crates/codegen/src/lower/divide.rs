//! Quotients, high halves of products and saturating sums of integers, which 128-bit vectors have
//! no instructions for.
//!
//! Quotients go through f64: one that is no integer is further below the next integer than rounding
//! to 53 bits can lift it, for dividends below 2^51. Divisions by constants become multiplications
//! (Warren, "Hacker's Delight", chapter 10), those by a number that all lanes share a
//! multiplication by a reciprocal in f64.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{self as ir, FloatFmt, InstData, IntBinaryOp, NumFmt, Type};
use ptxjit_vectorize::Variability;

use super::Lower;
use super::pure::Quad;

const F32: FloatFmt = FloatFmt::F32;

/// Added to a number below 2^51, shows it as an integer in the low bits of the sum.
pub(super) const SHOW_INT: f64 = 6_755_399_441_055_744.0;

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

impl Lower<'_, '_> {
    pub(super) fn lane_word(&mut self, like: cl::Value, bits: u32) -> cl::Value {
        self.bits_like(F32, like, u64::from(bits))
    }

    /// Division and remainder of a quad.
    pub(super) fn vector_divide(
        &mut self,
        op: IntBinaryOp,
        ty: Type,
        a: ir::Value,
        b: ir::Value,
        q: usize,
    ) -> Option<Quad> {
        if ty == Type::B64 {
            return Some(self.divide_wide(op, a, b, q));
        }
        if ty == Type::B1 {
            return None;
        }
        let signed = matches!(op, IntBinaryOp::Sdiv | IntBinaryOp::Srem);
        let rem = matches!(op, IntBinaryOp::Urem | IntBinaryOp::Srem);
        let (x, y) = (self.quad(a, q)[0], self.quad(b, q)[0]);
        let (x, y) = if signed && ty != Type::B32 {
            (self.lanes_signed(ty, x), self.lanes_signed(ty, y))
        } else {
            (x, y)
        };
        let constant = self
            .func
            .as_const(b)
            .map(|bits| super::values::sign_extended(ty, bits));
        // Narrow lanes are words that are not negative.
        let from = if signed || ty != Type::B32 {
            NumFmt::S32
        } else {
            NumFmt::U32
        };
        let by_constant = match constant {
            Some(d) if signed => self.divide_signed_constant(x, d as i32),
            Some(d) => self.divide_constant(x, (d as u64 & ty.mask()) as u32),
            None => None,
        };
        let (quotient, checked) = match by_constant {
            Some(quotient) => (quotient, true),
            None if self.plan.variability[b] == Variability::Uniform => {
                (self.divide_by_one(signed, from, x, b), false)
            }
            None => (self.divide_words(from, x, y), false),
        };
        let result = if rem {
            let product = self.b.ins().imul(quotient, y);
            self.b.ins().isub(x, product)
        } else {
            quotient
        };
        let result = if checked {
            result
        } else {
            let none = self.lane_word(x, 0);
            let is_zero = self.b.ins().icmp(IntCC::Equal, y, none);
            let ones = self.lane_word(x, u32::MAX);
            self.pick(is_zero, ones, result)
        };
        Some(Quad::from_elem(self.lanes_masked(ty, result), 1))
    }

    /// The quotients of 32-bit lanes; undefined for zero divisors.
    fn divide_words(&mut self, from: NumFmt, x: cl::Value, y: cl::Value) -> cl::Value {
        let (x, y) = (self.vector_to_f64(from, x), self.vector_to_f64(from, y));
        let show = self.float_like(FloatFmt::F64, x[0], SHOW_INT);
        let parts: Quad = x
            .into_iter()
            .zip(y)
            .map(|(x, y)| {
                let quotient = self.b.ins().fdiv(x, y);
                let whole = self.b.ins().trunc(quotient);
                self.b.ins().fadd(whole, show)
            })
            .collect();
        self.narrow(parts[0], parts[1])
    }

    /// The reciprocal of a uniform divisor, a little too large: products with it are never below
    /// the quotient, and not far enough above to reach the next integer.
    fn reciprocal(&mut self, signed: bool, divisor: ir::Value) -> cl::Value {
        if let Some(&factor) = self.available.reciprocals.get(&(divisor, signed)) {
            return factor;
        }
        let factor = self.make_reciprocal(signed, divisor);
        self.available.reciprocals.insert((divisor, signed), factor);
        factor
    }

    fn make_reciprocal(&mut self, signed: bool, divisor: ir::Value) -> cl::Value {
        let from = match (signed, self.func.ty(divisor)) {
            (true, Type::B8) => NumFmt::S8,
            (true, Type::B16) => NumFmt::S16,
            (true, Type::B32) => NumFmt::S32,
            (false, Type::B8) => NumFmt::U8,
            (false, Type::B16) => NumFmt::U16,
            (false, Type::B32) => NumFmt::U32,
            (_, Type::B1 | Type::B64) => NumFmt::S64,
        };
        let divisor = self.scalar(divisor);
        let divisor = self.int_to_float_scalar(from, FloatFmt::F64, divisor);
        let one = self.constant(Type::B64, 1f64.to_bits(), true);
        let nearest = self.b.ins().fdiv(one, divisor);
        let bits = self.cast_scalar(nearest, types::I64);
        let above = self.b.ins().iadd_imm_s(bits, 1);
        let above = self.cast_scalar(above, types::F64);
        self.b.ins().splat(types::F64X2, above)
    }

    /// The quotients of 32-bit lanes by a uniform divisor; undefined for zero.
    fn divide_by_one(
        &mut self,
        signed: bool,
        from: NumFmt,
        x: cl::Value,
        divisor: ir::Value,
    ) -> cl::Value {
        let factor = self.reciprocal(signed, divisor);
        let x = self.vector_to_f64(from, x);
        let show = self.float_like(FloatFmt::F64, x[0], SHOW_INT);
        let parts: Quad = x
            .into_iter()
            .map(|x| {
                let quotient = self.b.ins().fmul(x, factor);
                let whole = self.b.ins().trunc(quotient);
                self.b.ins().fadd(whole, show)
            })
            .collect();
        self.narrow(parts[0], parts[1])
    }

    /// Division of 64-bit lanes: as floats if all operands are below 2^51, as indices are, else
    /// lane by lane.
    fn divide_wide(&mut self, op: IntBinaryOp, a: ir::Value, b: ir::Value, q: usize) -> Quad {
        let (x, y) = (self.quad(a, q), self.quad(b, q));
        let mut all = self.b.ins().bor(x[0], x[1]);
        for &y in &y {
            all = self.b.ins().bor(all, y);
        }
        // Computed before the branch, so that other divisions can reuse it.
        let is_shared = self.plan.variability[b] == Variability::Uniform;
        let factor = is_shared.then(|| self.reciprocal(true, b));
        let beyond = self.vconst(Type::B64, !0 << 51);
        let beyond = self.b.ins().band(all, beyond);
        let large = self.b.ins().vany_true(beyond);
        let (near, far, done) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        let results = [(); 2].map(|()| self.b.append_block_param(done, types::I64X2));
        self.b.set_cold_block(far);
        self.b.ins().brif(large, far, &[], near, &[]);

        self.b.switch_to_block(far);
        let data = InstData::IntBinary {
            op,
            ty: Type::B64,
            args: [a, b],
        };
        let quotients = self.scoped(|lower| lower.by_lane(&data, Type::B64, q));
        self.b
            .ins()
            .jump(done, &[quotients[0].into(), quotients[1].into()]);

        self.b.switch_to_block(near);
        let rem = matches!(op, IntBinaryOp::Urem | IntBinaryOp::Srem);
        let quotients = [0, 1].map(|i| self.divide_indices(rem, x[i], y[i], factor));
        self.b
            .ins()
            .jump(done, &[quotients[0].into(), quotients[1].into()]);
        self.b.switch_to_block(done);
        results.into_iter().collect()
    }

    /// Quotients or remainders of 64-bit lanes below 2^51.
    fn divide_indices(
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
            let shown = self.b.ins().bor(x, unit_bits);
            let shown = self.as_float(F64, shown);
            self.b.ins().fsub(shown, unit)
        });
        let quotient = match factor {
            Some(factor) => self.b.ins().fmul(over, factor),
            None => self.b.ins().fdiv(over, under),
        };
        let whole = self.b.ins().trunc(quotient);
        let result = if rem {
            let minus = self.b.ins().fneg(whole);
            self.b.ins().fma(minus, under, over)
        } else {
            whole
        };
        let shown = self.b.ins().fadd(result, unit);
        let shown = self.as_int(F64, shown);
        let result = self.b.ins().bxor(shown, unit_bits);
        let none = self.vconst(Type::B64, 0);
        let is_zero = self.b.ins().icmp(IntCC::Equal, y, none);
        let ones = self.vconst(Type::B64, u64::MAX);
        self.pick(is_zero, ones, result)
    }

    fn divide_constant(&mut self, x: cl::Value, d: u32) -> Option<cl::Value> {
        if d == 0 {
            return None;
        }
        if d.is_power_of_two() {
            return Some(self.b.ins().ushr_imm_s(x, i64::from(d.trailing_zeros())));
        }
        let magic = unsigned_magic(d);
        let multiplier = self.lane_word(x, magic.multiplier);
        let high = self.mul_hi_words(false, x, multiplier);
        if !magic.add {
            return Some(self.b.ins().ushr_imm_s(high, i64::from(magic.shift)));
        }
        let rest = self.b.ins().isub(x, high);
        let half = self.b.ins().ushr_imm_s(rest, 1);
        let sum = self.b.ins().iadd(high, half);
        Some(self.b.ins().ushr_imm_s(sum, i64::from(magic.shift) - 1))
    }

    fn divide_signed_constant(&mut self, x: cl::Value, d: i32) -> Option<cl::Value> {
        match d {
            0 => return None,
            1 => return Some(x),
            -1 => return Some(self.b.ins().ineg(x)),
            _ => {}
        }
        let (multiplier, shift) = signed_magic(d);
        let factor = self.lane_word(x, multiplier as u32);
        let high = self.mul_hi_words(true, x, factor);
        let high = match (d > 0, multiplier > 0) {
            (true, false) => self.b.ins().iadd(high, x),
            (false, true) => self.b.ins().isub(high, x),
            (true, true) | (false, false) => high,
        };
        let shifted = self.b.ins().sshr_imm_s(high, i64::from(shift));
        let negative = self.b.ins().ushr_imm_s(shifted, 31);
        Some(self.b.ins().iadd(shifted, negative))
    }

    /// Both halves of the full products of 32-bit lanes.
    pub(super) fn wide_products(
        &mut self,
        signed: bool,
        x: cl::Value,
        y: cl::Value,
    ) -> [cl::Value; 2] {
        // Cranelift selects pmuldq and pmuludq for these.
        if signed {
            let (a, b) = (self.b.ins().swiden_low(x), self.b.ins().swiden_low(y));
            let (c, d) = (self.b.ins().swiden_high(x), self.b.ins().swiden_high(y));
            [self.b.ins().imul(a, b), self.b.ins().imul(c, d)]
        } else {
            let (a, b) = (self.b.ins().uwiden_low(x), self.b.ins().uwiden_low(y));
            let (c, d) = (self.b.ins().uwiden_high(x), self.b.ins().uwiden_high(y));
            [self.b.ins().imul(a, b), self.b.ins().imul(c, d)]
        }
    }

    fn mul_hi_words(&mut self, signed: bool, x: cl::Value, y: cl::Value) -> cl::Value {
        let [low, high] = self.wide_products(signed, x, y);
        self.high_words(low, high)
    }

    /// High halves of products.
    pub(super) fn vector_mul_hi(
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
                let product = self.b.ins().imul(x, y);
                let high = self.b.ins().ushr_imm_s(product, i64::from(ty.bits()));
                Some(self.lanes_masked(ty, high))
            }
        }
    }

    /// Saturating sum or difference of 32-bit lanes.
    pub(super) fn vector_saturate(&mut self, sub: bool, x: cl::Value, y: cl::Value) -> cl::Value {
        let sum = if sub {
            self.b.ins().isub(x, y)
        } else {
            self.b.ins().iadd(x, y)
        };
        // Overflow: the result's sign is neither operand's (of a difference, the operands' signs
        // differ as well).
        let left = self.b.ins().bxor(x, sum);
        let right = if sub {
            self.b.ins().bxor(x, y)
        } else {
            self.b.ins().bxor(y, sum)
        };
        let both = self.b.ins().band(left, right);
        let overflow = self.b.ins().sshr_imm_s(both, 31);
        let sign = self.b.ins().sshr_imm_s(x, 31);
        let most = self.lane_word(x, i32::MAX as u32);
        let bound = self.b.ins().bxor(sign, most);
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
