//! Integer ops that 128-bit vectors have no instruction for: quotients, high halves of products, shifts by different counts,
//! counting bits, bit fields, byte dot products.
//!
//! Quotients of 32-bit integers go through f64: a quotient that is no integer is further below the next one than rounding to
//! 53 bits can lift it. Divisions by constants become multiplications (Warren, "Hacker's Delight", chapter 10).
//!
//! The file is long because it collects everything that the vector unit lacks.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{self as ir, FloatFmt, IntBinaryOp, IntTernaryOp, IntUnaryOp, NumFmt, Type};

use super::Lower;
use super::pure::Quad;
use super::values::int_type;

const F32: FloatFmt = FloatFmt::F32;

/// Added to a number below 2^51, shows it as an integer in the low bits of the sum.
pub(super) const SHOW_INT: f64 = 6_755_399_441_055_744.0;

/// `n / d == mulhi(n, multiplier) >> shift` for all 32-bit `n`; with `add`, `(t + ((n - t) >> 1)) >> (shift - 1)` for
/// `t = mulhi(n, multiplier)`.
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

/// Multiplier and shift for a divisor of magnitude 2 or more: `mulhi(n, multiplier)`, plus or minus `n` where the signs of
/// divisor and multiplier differ, shifted, plus one if negative.
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
    fn lane_word(&mut self, like: cl::Value, bits: u32) -> cl::Value {
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
        if ty > Type::B32 || ty == Type::B1 {
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
        let by_constant = match constant {
            Some(d) if signed => self.divide_signed_constant(x, d as i32),
            Some(d) => self.divide_constant(x, (d as u64 & ty.mask()) as u32),
            None => None,
        };
        let (quotient, checked) = match by_constant {
            Some(quotient) => (quotient, true),
            None => (self.divide_words(signed, x, y), false),
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
            let special = if rem && ty != Type::B32 { x } else { ones };
            self.pick(is_zero, special, result)
        };
        Some(Quad::from_elem(self.lanes_masked(ty, result), 1))
    }

    /// The quotients of 32-bit lanes; of zero divisors anything.
    fn divide_words(&mut self, signed: bool, x: cl::Value, y: cl::Value) -> cl::Value {
        let from = if signed { NumFmt::S32 } else { NumFmt::U32 };
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
    fn wide_products(&mut self, signed: bool, x: cl::Value, y: cl::Value) -> [cl::Value; 2] {
        // The back end knows these as pmuldq and pmuludq.
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
        // Overflow: the result's sign is neither operand's (of a difference, the operands' signs differ as well).
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

    /// Shifts by a count of each lane's own, up to 32 bits wide.
    pub(super) fn vector_shift_each(
        &mut self,
        op: IntBinaryOp,
        ty: Type,
        x: cl::Value,
        count: cl::Value,
    ) -> Option<cl::Value> {
        // Only x86 has the conversion that gives 2^31 its bits.
        if ty > Type::B32 || ty == Type::B1 || !cfg!(target_arch = "x86_64") {
            return None;
        }
        let most = self.lane_word(x, 31);
        let clamped = self.b.ins().umin(count, most);
        let inside = self.b.ins().icmp(IntCC::Equal, clamped, count);
        let shifted = match op {
            IntBinaryOp::Shl => {
                let factor = self.power_of_two(clamped);
                let product = self.b.ins().imul(x, factor);
                self.b.ins().band(product, inside)
            }
            IntBinaryOp::Sshr => {
                let x = self.lanes_signed_or_same(ty, x);
                // Of a negative number the complement is shifted.
                let sign = self.b.ins().sshr_imm_s(x, 31);
                let folded = self.b.ins().bxor(x, sign);
                let shifted = self.shift_down_each(folded, clamped);
                self.b.ins().bxor(shifted, sign)
            }
            _ => {
                let shifted = self.shift_down_each(x, clamped);
                self.b.ins().band(shifted, inside)
            }
        };
        Some(self.lanes_masked(ty, shifted))
    }

    fn lanes_signed_or_same(&mut self, ty: Type, x: cl::Value) -> cl::Value {
        if ty == Type::B32 {
            x
        } else {
            self.lanes_signed(ty, x)
        }
    }

    /// 2^n for lanes from 0 to 31: a float's exponent, converted back.
    fn power_of_two(&mut self, n: cl::Value) -> cl::Value {
        let exponent = self.b.ins().ishl_imm_s(n, 23);
        let one = self.lane_word(n, 1f32.to_bits());
        let power = self.b.ins().iadd(exponent, one);
        let power = self.as_float(F32, power);
        self.b.ins().x86_cvtt2dq(types::I32X4, power)
    }

    /// `x >> n` as the bits of `x * 2^(31 - n)` from 31 on.
    fn shift_down_each(&mut self, x: cl::Value, n: cl::Value) -> cl::Value {
        let most = self.lane_word(x, 31);
        let up = self.b.ins().isub(most, n);
        let factor = self.power_of_two(up);
        let [low, high] = self
            .wide_products(false, x, factor)
            .map(|product| self.b.ins().ushr_imm_s(product, 31));
        self.narrow(low, high)
    }

    /// Population count, leading zeros, bit reversal.
    pub(super) fn vector_count(
        &mut self,
        op: IntUnaryOp,
        ty: Type,
        x: &[cl::Value],
    ) -> Option<Quad> {
        let one = |x: cl::Value| Some(Quad::from_elem(x, 1));
        match (op, ty) {
            (_, Type::B1) => None,
            (IntUnaryOp::Popc, Type::B64) => {
                let counts = [x[0], x[1]].map(|x| self.popc_lanes(x, 64));
                one(self.narrow(counts[0], counts[1]))
            }
            (IntUnaryOp::Popc, _) => one(self.popc_lanes(x[0], 32)),
            (IntUnaryOp::Clz, Type::B8 | Type::B16 | Type::B32) => {
                let zeros = self.clz_words(x[0]);
                let unused = self.lane_word(zeros, 32 - ty.bits());
                one(if ty == Type::B32 {
                    zeros
                } else {
                    self.b.ins().isub(zeros, unused)
                })
            }
            (IntUnaryOp::Brev, Type::B32 | Type::B64) => {
                Some(x.iter().map(|&x| self.reverse_bits(ty, x)).collect())
            }
            _ => None,
        }
    }

    fn popc_lanes(&mut self, x: cl::Value, bits: i64) -> cl::Value {
        let ty = self.b.func.dfg.value_type(x);
        let bytes = self.cast_vector(x, types::I8X16);
        let counts = self.b.ins().popcnt(bytes);
        let mut sum = self.cast_vector(counts, ty);
        let mut step = 8;
        while step < bits {
            let next = self.b.ins().ushr_imm_s(sum, step);
            sum = self.b.ins().iadd(sum, next);
            step *= 2;
        }
        let mask = self.vconst(if bits == 64 { Type::B64 } else { Type::B32 }, 0x7f);
        self.b.ins().band(sum, mask)
    }

    /// By the exponent of the integer as a float. The second bit from the top is cleared, so that nothing rounds up to the next
    /// power of two.
    fn clz_words(&mut self, x: cl::Value) -> cl::Value {
        let half = self.b.ins().ushr_imm_s(x, 1);
        let top = self.b.ins().band_not(x, half);
        let float = self.b.ins().fcvt_from_sint(types::F32X4, top);
        let bits = self.as_int(F32, float);
        let exponent = self.b.ins().ushr_imm_s(bits, 23);
        let bias = self.lane_word(x, 127 + 31);
        let zeros = self.b.ins().isub(bias, exponent);
        let (least, most) = (self.lane_word(x, 0), self.lane_word(x, 32));
        // Of zero the exponent is 0; of a negative number the sign bit makes it large.
        let zeros = self.b.ins().smin(zeros, most);
        self.b.ins().smax(zeros, least)
    }

    fn reverse_bits(&mut self, ty: Type, x: cl::Value) -> cl::Value {
        let nibbles: [u8; 16] = std::array::from_fn(|n| (n as u8).reverse_bits() >> 4);
        let low_table = self.vconst_bytes(types::I8X16, &nibbles);
        let high_table = self.vconst_bytes(types::I8X16, &nibbles.map(|n| n << 4));
        let mask = self.vconst_bytes(types::I8X16, &[15; 16]);
        let bytes = self.cast_vector(x, types::I8X16);
        let low = self.b.ins().band(bytes, mask);
        let up = self.b.ins().ushr_imm_s(x, 4);
        let up = self.cast_vector(up, types::I8X16);
        let high = self.b.ins().band(up, mask);
        let high_result = self.b.ins().swizzle(high_table, low);
        let low_result = self.b.ins().swizzle(low_table, high);
        let reversed = self.b.ins().bor(high_result, low_result);
        let size = ty.bytes() as u8;
        let order: [u8; 16] =
            std::array::from_fn(|i| i as u8 / size * size + size - 1 - i as u8 % size);
        let result = self.shuffle(reversed, reversed, order);
        self.cast_vector(result, super::values::vector_type(ty))
    }

    /// Bit field extraction at a position and length known here.
    pub(super) fn vector_bfe(
        &mut self,
        signed: bool,
        ty: Type,
        x: Quad,
        pos: u64,
        len: u64,
    ) -> Quad {
        let bits = u64::from(ty.bits());
        let (pos, len) = (pos & 255, len & 255);
        if len == 0 || (!signed && pos >= bits) {
            let zero = self.vconst(ty, 0);
            return Quad::from_elem(zero, x.len());
        }
        let up = bits - (pos + len).min(bits);
        // Beyond the end there are only copies of the last bit.
        let down = (up + pos).min(bits - 1);
        x.into_iter()
            .map(|x| {
                let top = if up == 0 {
                    x
                } else {
                    self.b.ins().ishl_imm_s(x, up as i64)
                };
                if signed {
                    self.b.ins().sshr_imm_s(top, down as i64)
                } else {
                    self.b.ins().ushr_imm_s(top, down as i64)
                }
            })
            .collect()
    }

    /// Bit field insertion at a position and length known here.
    pub(super) fn vector_bfi(
        &mut self,
        ty: Type,
        field: Quad,
        into: Quad,
        pos: u64,
        len: u64,
    ) -> Quad {
        let bits = u64::from(ty.bits());
        let (pos, len) = (pos & 255, len & 255);
        if pos >= bits || len == 0 {
            return into;
        }
        let ones = if len >= 64 { u64::MAX } else { (1 << len) - 1 };
        let mask = self.vconst(ty, ones << pos);
        field
            .into_iter()
            .zip(into)
            .map(|(field, into)| {
                let placed = self.b.ins().ishl_imm_s(field, pos as i64);
                let differ = self.b.ins().bxor(placed, into);
                let taken = self.b.ins().band(differ, mask);
                self.b.ins().bxor(taken, into)
            })
            .collect()
    }

    /// `bfi` of scalars.
    pub(super) fn scalar_bfi(&mut self, ty: Type, args: &[cl::Value]) -> cl::Value {
        let clif = int_type(ty);
        let (field, into) = (
            self.cast_scalar(args[0], clif),
            self.cast_scalar(args[1], clif),
        );
        let (pos, len) = (
            self.b.ins().band_imm_s(args[2], 255),
            self.b.ins().band_imm_s(args[3], 255),
        );
        let all = self.b.ins().iconst(clif, -1);
        let above = self.scalar_shift(IntBinaryOp::Shl, ty, all, len);
        let ones = self.b.ins().bnot(above);
        let mask = self.scalar_shift(IntBinaryOp::Shl, ty, ones, pos);
        let placed = self.scalar_shift(IntBinaryOp::Shl, ty, field, pos);
        let taken = self.b.ins().band(placed, mask);
        let kept = self.b.ins().band_not(into, mask);
        self.b.ins().bor(taken, kept)
    }

    /// `bfe` of scalars.
    pub(super) fn scalar_bfe(&mut self, signed: bool, ty: Type, args: &[cl::Value]) -> cl::Value {
        let clif = int_type(ty);
        let bits = i64::from(ty.bits());
        let x = self.cast_scalar(args[0], clif);
        let (pos, len) = (
            self.b.ins().band_imm_s(args[1], 255),
            self.b.ins().band_imm_s(args[2], 255),
        );
        if !signed {
            let shifted = self.scalar_shift(IntBinaryOp::Ushr, ty, x, pos);
            let all = self.b.ins().iconst(clif, -1);
            let above = self.scalar_shift(IntBinaryOp::Shl, ty, all, len);
            return self.b.ins().band_not(shifted, above);
        }
        let end = self.b.ins().iadd(pos, len);
        let width = self.b.ins().iconst(types::I32, bits);
        let end = self.b.ins().umin(end, width);
        let up = self.b.ins().isub(width, end);
        let down = self.b.ins().iadd(up, pos);
        let top = self.scalar_shift(IntBinaryOp::Shl, ty, x, up);
        let field = self.scalar_shift(IntBinaryOp::Sshr, ty, top, down);
        let zero = self.b.ins().iconst(clif, 0);
        let some = self.b.ins().icmp_imm_s(IntCC::NotEqual, len, 0);
        self.b.ins().select(some, field, zero)
    }

    /// `prmt` of vectors with selectors known here.
    pub(super) fn vector_prmt(&mut self, x: cl::Value, y: cl::Value, selectors: u64) -> cl::Value {
        let nibble = |i: usize| (selectors >> (4 * (i % 4)) & 15) as u8;
        let lanes: [u8; 16] = std::array::from_fn(|i| {
            let (pick, word) = (nibble(i) & 7, (i / 4 * 4) as u8);
            if pick < 4 {
                word + pick
            } else {
                16 + word + pick - 4
            }
        });
        let bytes = self.shuffle(x, y, lanes);
        if selectors & 0x8888 == 0 {
            return bytes;
        }
        let zero = self.vconst_bytes(types::I8X16, &[0; 16]);
        let signs = self.b.ins().icmp(IntCC::SignedLessThan, bytes, zero);
        let copied: [u8; 16] = std::array::from_fn(|i| if nibble(i) & 8 != 0 { 0xff } else { 0 });
        let copied = self.vconst_bytes(types::I8X16, &copied);
        let signs = self.b.ins().band(signs, copied);
        let plain = self.b.ins().band_not(bytes, copied);
        self.b.ins().bor(signs, plain)
    }

    /// `prmt` of scalars.
    pub(super) fn scalar_prmt(&mut self, args: &[cl::Value]) -> cl::Value {
        let [x, y, selectors] =
            [args[0], args[1], args[2]].map(|arg| self.cast_scalar(arg, types::I32));
        let low = self.b.ins().uextend(types::I64, x);
        let high = self.b.ins().uextend(types::I64, y);
        let high = self.b.ins().ishl_imm_s(high, 32);
        let bytes = self.b.ins().bor(low, high);
        let mut result = self.b.ins().iconst(types::I32, 0);
        for i in 0..4 {
            let selector = self.b.ins().ushr_imm_s(selectors, 4 * i);
            let count = self.b.ins().ishl_imm_s(selector, 3);
            let count = self.b.ins().band_imm_s(count, 56);
            let byte = self.b.ins().ushr(bytes, count);
            let byte = self.b.ins().ireduce(types::I8, byte);
            let sign = self.b.ins().sshr_imm_s(byte, 7);
            let copy = self.b.ins().band_imm_s(selector, 8);
            let byte = self.b.ins().select(copy, sign, byte);
            let byte = self.b.ins().uextend(types::I32, byte);
            let placed = self.b.ins().ishl_imm_s(byte, 8 * i);
            result = self.b.ins().bor(result, placed);
        }
        result
    }

    /// Part `idx` of a word cut into parts of `bits` bits, extended to a word; scalar or vector.
    fn word_part(&mut self, signed: bool, x: cl::Value, bits: i64, idx: i64) -> cl::Value {
        let up = 32 - bits * (idx + 1);
        let top = if up == 0 {
            x
        } else {
            self.b.ins().ishl_imm_s(x, up)
        };
        if signed {
            self.b.ins().sshr_imm_s(top, 32 - bits)
        } else {
            self.b.ins().ushr_imm_s(top, 32 - bits)
        }
    }

    /// `dp4a` and `dp2a`, scalar or vector; none for other ops.
    pub(super) fn dot_product(
        &mut self,
        op: IntTernaryOp,
        [x, y, sum]: [cl::Value; 3],
    ) -> Option<cl::Value> {
        // Number of products, signs, first byte of the second operand.
        let (n, x_signed, y_signed, first) = match op {
            IntTernaryOp::Dp4aUU => (4, false, false, 0),
            IntTernaryOp::Dp4aUS => (4, false, true, 0),
            IntTernaryOp::Dp4aSU => (4, true, false, 0),
            IntTernaryOp::Dp4aSS => (4, true, true, 0),
            IntTernaryOp::Dp2aLoUU => (2, false, false, 0),
            IntTernaryOp::Dp2aLoUS => (2, false, true, 0),
            IntTernaryOp::Dp2aLoSU => (2, true, false, 0),
            IntTernaryOp::Dp2aLoSS => (2, true, true, 0),
            IntTernaryOp::Dp2aHiUU => (2, false, false, 2),
            IntTernaryOp::Dp2aHiUS => (2, false, true, 2),
            IntTernaryOp::Dp2aHiSU => (2, true, false, 2),
            IntTernaryOp::Dp2aHiSS => (2, true, true, 2),
            IntTernaryOp::ShfL
            | IntTernaryOp::ShfR
            | IntTernaryOp::Prmt
            | IntTernaryOp::UBfe
            | IntTernaryOp::SBfe
            | IntTernaryOp::Fns => return None,
        };
        let mut sum = sum;
        for idx in 0..n {
            let left = self.word_part(x_signed, x, 32 / n, idx);
            let right = self.word_part(y_signed, y, 8, first + idx);
            let product = self.b.ins().imul(left, right);
            sum = self.b.ins().iadd(sum, product);
        }
        Some(sum)
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
