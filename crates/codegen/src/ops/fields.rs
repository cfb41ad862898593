//! Bits of integers: shifts by per-lane counts, counting, reversing, fields, permutations of bytes,
//! byte dot products.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{FloatFmt, IntBinaryOp, IntTernaryOp, IntUnaryOp, Type};

use crate::wide::lane_shifts::{self, Shift};

use super::{Emitter, Quad, int_type, vector_type};

const F32: FloatFmt = FloatFmt::F32;

impl Emitter<'_> {
    /// Shifts by per-lane counts, up to 32 bits wide.
    #[expect(clippy::wildcard_enum_match_arm, reason = "callers pass shifts")]
    pub(crate) fn vector_shift_each(
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
        if self.has_lane_shifts {
            let (shift, x) = match op {
                IntBinaryOp::Shl => (Shift::Left, x),
                IntBinaryOp::Sshr => (Shift::SignedRight, self.lanes_signed_or_same(ty, x)),
                _ => (Shift::Right, x),
            };
            let shifted = lane_shifts::emit(self, shift, x, count);
            return Some(self.lanes_masked(ty, shifted));
        }
        let most = self.lane_word(x, 31);
        let clamped = self.ins().umin(count, most);
        let inside = self.ins().icmp(IntCC::Equal, clamped, count);
        let shifted = match op {
            IntBinaryOp::Shl => {
                let factor = self.power_of_two(clamped);
                let product = self.ins().imul(x, factor);
                self.ins().band(product, inside)
            }
            IntBinaryOp::Sshr => {
                let x = self.lanes_signed_or_same(ty, x);
                // Of a negative number the complement is shifted.
                let sign = self.ins().sshr_imm_s(x, 31);
                let complemented = self.ins().bxor(x, sign);
                let shifted = self.shift_down_each(complemented, clamped);
                self.ins().bxor(shifted, sign)
            }
            _ => {
                let shifted = self.shift_down_each(x, clamped);
                self.ins().band(shifted, inside)
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
        let exponent = self.ins().ishl_imm_s(n, 23);
        let one = self.lane_word(n, 1f32.to_bits());
        let power = self.ins().iadd(exponent, one);
        let power = self.as_float(F32, power);
        self.ins().x86_cvtt2dq(types::I32X4, power)
    }

    /// `x >> n` as the bits of `x * 2^(31 - n)` from 31 on.
    fn shift_down_each(&mut self, x: cl::Value, n: cl::Value) -> cl::Value {
        let most = self.lane_word(x, 31);
        let up = self.ins().isub(most, n);
        let factor = self.power_of_two(up);
        let [low, high] = self
            .wide_products(false, x, factor)
            .map(|product| self.ins().ushr_imm_s(product, 31));
        self.narrow(low, high)
    }

    /// Shifts 32-bit lanes by a scalar count or by lanes of counts, clamped as PTX does.
    pub(crate) fn shift_words(
        &mut self,
        op: IntBinaryOp,
        x: cl::Value,
        count: cl::Value,
    ) -> Option<cl::Value> {
        if self.is_vector(count) {
            return self.vector_shift_each(op, Type::B32, x, count);
        }
        let most = self.ins().iconst(types::I32, 31);
        let clamped = self.ins().umin(count, most);
        if op == IntBinaryOp::Sshr {
            return Some(self.ins().sshr(x, clamped));
        }
        let shifted = if op == IntBinaryOp::Shl {
            self.ins().ishl(x, clamped)
        } else {
            self.ins().ushr(x, clamped)
        };
        let inside = self.ins().icmp_imm_s(IntCC::UnsignedLessThan, count, 32);
        let zero = self.vconst(Type::B32, 0);
        Some(self.ins().select(inside, shifted, zero))
    }

    /// The bits of a word from a place on.
    pub(crate) fn bits_from(&mut self, like: cl::Value, count: cl::Value) -> Option<cl::Value> {
        let all = self.lane_word(like, u32::MAX);
        self.shift_words(IntBinaryOp::Shl, all, count)
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
                    self.ins().isub(zeros, unused)
                })
            }
            (IntUnaryOp::Clz, Type::B64) => {
                let (low, high) = (self.narrow(x[0], x[1]), self.high_words(x[0], x[1]));
                let (low, high) = (self.clz_words(low), self.clz_words(high));
                let word = self.lane_word(high, 32);
                let beyond = self.ins().iadd(low, word);
                let is_clear = self.ins().icmp(IntCC::Equal, high, word);
                one(self.pick(is_clear, beyond, high))
            }
            (IntUnaryOp::Brev, Type::B32 | Type::B64) => {
                Some(x.iter().map(|&x| self.reverse_bits(ty, x)).collect())
            }
            _ => None,
        }
    }

    pub(crate) fn popc_lanes(&mut self, x: cl::Value, bits: i64) -> cl::Value {
        let ty = self.func.dfg.value_type(x);
        let bytes = self.cast_vector(x, types::I8X16);
        let counts = self.ins().popcnt(bytes);
        let mut sum = self.cast_vector(counts, ty);
        let mut step = 8;
        while step < bits {
            let next = self.ins().ushr_imm_s(sum, step);
            sum = self.ins().iadd(sum, next);
            step *= 2;
        }
        let mask = self.vconst(if bits == 64 { Type::B64 } else { Type::B32 }, 0x7f);
        self.ins().band(sum, mask)
    }

    /// By the exponent of the integer as a float. The second bit from the top is cleared, so that
    /// nothing rounds up to the next power of two.
    fn clz_words(&mut self, x: cl::Value) -> cl::Value {
        let half = self.ins().ushr_imm_s(x, 1);
        let top = self.ins().band_not(x, half);
        let float = self.ins().fcvt_from_sint(types::F32X4, top);
        let bits = self.as_int(F32, float);
        let exponent = self.ins().ushr_imm_s(bits, 23);
        let bias = self.lane_word(x, 127 + 31);
        let zeros = self.ins().isub(bias, exponent);
        let (least, most) = (self.lane_word(x, 0), self.lane_word(x, 32));
        // Of zero the exponent is 0; of a negative number the sign bit makes it large.
        let zeros = self.ins().smin(zeros, most);
        self.ins().smax(zeros, least)
    }

    fn reverse_bits(&mut self, ty: Type, x: cl::Value) -> cl::Value {
        let nibbles: [u8; 16] = std::array::from_fn(|n| (n as u8).reverse_bits() >> 4);
        let low_table = self.vconst_bytes(types::I8X16, &nibbles);
        let high_table = self.vconst_bytes(types::I8X16, &nibbles.map(|n| n << 4));
        let mask = self.vconst_bytes(types::I8X16, &[15; 16]);
        let bytes = self.cast_vector(x, types::I8X16);
        let low = self.ins().band(bytes, mask);
        let up = self.ins().ushr_imm_s(x, 4);
        let up = self.cast_vector(up, types::I8X16);
        let high = self.ins().band(up, mask);
        let high_result = self.ins().swizzle(high_table, low);
        let low_result = self.ins().swizzle(low_table, high);
        let reversed = self.ins().bor(high_result, low_result);
        let size = ty.bytes() as u8;
        let order: [u8; 16] =
            std::array::from_fn(|i| i as u8 / size * size + size - 1 - i as u8 % size);
        let result = self.shuffle(reversed, reversed, order);
        self.cast_vector(result, vector_type(ty))
    }

    /// Bit field extraction at a position and length known here.
    pub(crate) fn vector_bfe(
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
                    self.ins().ishl_imm_s(x, up as i64)
                };
                if signed {
                    self.ins().sshr_imm_s(top, down as i64)
                } else {
                    self.ins().ushr_imm_s(top, down as i64)
                }
            })
            .collect()
    }

    /// Bit field insertion at a position and length known here.
    pub(crate) fn vector_bfi(
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
                let placed = self.ins().ishl_imm_s(field, pos as i64);
                let differ = self.ins().bxor(placed, into);
                let taken = self.ins().band(differ, mask);
                self.ins().bxor(taken, into)
            })
            .collect()
    }

    /// `bfi` of scalars.
    pub(crate) fn scalar_bfi(&mut self, ty: Type, args: &[cl::Value]) -> cl::Value {
        let clif = int_type(ty);
        let (field, into) = (
            self.cast_scalar(args[0], clif),
            self.cast_scalar(args[1], clif),
        );
        let (pos, len) = (
            self.ins().band_imm_s(args[2], 255),
            self.ins().band_imm_s(args[3], 255),
        );
        let all = self.ins().iconst(clif, -1);
        let above = self.scalar_shift(IntBinaryOp::Shl, ty, all, len);
        let ones = self.ins().bnot(above);
        let mask = self.scalar_shift(IntBinaryOp::Shl, ty, ones, pos);
        let placed = self.scalar_shift(IntBinaryOp::Shl, ty, field, pos);
        let taken = self.ins().band(placed, mask);
        let kept = self.ins().band_not(into, mask);
        self.ins().bor(taken, kept)
    }

    /// `bfe` of scalars.
    pub(super) fn scalar_bfe(&mut self, signed: bool, ty: Type, args: &[cl::Value]) -> cl::Value {
        let clif = int_type(ty);
        let bits = i64::from(ty.bits());
        let x = self.cast_scalar(args[0], clif);
        let (pos, len) = (
            self.ins().band_imm_s(args[1], 255),
            self.ins().band_imm_s(args[2], 255),
        );
        if !signed {
            let shifted = self.scalar_shift(IntBinaryOp::Ushr, ty, x, pos);
            let all = self.ins().iconst(clif, -1);
            let above = self.scalar_shift(IntBinaryOp::Shl, ty, all, len);
            return self.ins().band_not(shifted, above);
        }
        let end = self.ins().iadd(pos, len);
        let width = self.ins().iconst(types::I32, bits);
        let end = self.ins().umin(end, width);
        let up = self.ins().isub(width, end);
        let down = self.ins().iadd(up, pos);
        let top = self.scalar_shift(IntBinaryOp::Shl, ty, x, up);
        let field = self.scalar_shift(IntBinaryOp::Sshr, ty, top, down);
        let zero = self.ins().iconst(clif, 0);
        let some = self.ins().icmp_imm_s(IntCC::NotEqual, len, 0);
        self.ins().select(some, field, zero)
    }

    /// `prmt` of vectors with selectors known here.
    pub(crate) fn vector_prmt(&mut self, x: cl::Value, y: cl::Value, selectors: u64) -> cl::Value {
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
        let signs = self.ins().icmp(IntCC::SignedLessThan, bytes, zero);
        let copied: [u8; 16] = std::array::from_fn(|i| if nibble(i) & 8 != 0 { 0xff } else { 0 });
        let copied = self.vconst_bytes(types::I8X16, &copied);
        let signs = self.ins().band(signs, copied);
        let plain = self.ins().band_not(bytes, copied);
        self.ins().bor(signs, plain)
    }

    /// `prmt` of vectors with any selectors.
    pub(crate) fn vector_prmt_any(
        &mut self,
        x: cl::Value,
        y: cl::Value,
        selectors: cl::Value,
    ) -> cl::Value {
        // One selector per byte.
        let mut spread = self.and_word(selectors, 0xffff);
        for (shift, mask) in [(8, 0x00ff_00ff), (4, 0x0f0f_0f0f)] {
            let up = self.ins().ishl_imm_s(spread, shift);
            let both = self.ins().bor(spread, up);
            spread = self.and_word(both, mask);
        }
        // The eight bytes of two lanes side by side; indices of the other two lanes lie outside and
        // give zeros.
        let low = self.shuffle(
            x,
            y,
            [0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23],
        );
        let high = self.shuffle(
            x,
            y,
            [8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31],
        );
        let places = self.and_word(spread, 0x0707_0707);
        let places = self.cast_vector(places, types::I8X16);
        let mut bytes = None;
        for (half, first) in [(low, 0u8), (high, 16)] {
            let base: [u8; 16] = std::array::from_fn(|i| (i as u8 / 4 * 8).wrapping_sub(first));
            let base = self.vconst_bytes(types::I8X16, &base);
            let at = self.ins().iadd(places, base);
            let picked = self.ins().swizzle(half, at);
            bytes = Some(match bytes {
                None => picked,
                Some(other) => self.ins().bor(other, picked),
            });
        }
        let bytes = bytes.expect("there are two halves");
        let zero = self.vconst_bytes(types::I8X16, &[0; 16]);
        let signs = self.ins().icmp(IntCC::SignedLessThan, bytes, zero);
        let most = self.vconst_bytes(types::I8X16, &[7; 16]);
        let spread = self.cast_vector(spread, types::I8X16);
        let copies = self.ins().icmp(IntCC::SignedGreaterThan, spread, most);
        self.ins().bitselect(copies, signs, bytes)
    }

    pub(super) fn and_word(&mut self, x: cl::Value, mask: u32) -> cl::Value {
        let mask = self.lane_word(x, mask);
        self.ins().band(x, mask)
    }

    /// `prmt` of scalars.
    pub(super) fn scalar_prmt(&mut self, args: &[cl::Value]) -> cl::Value {
        let [x, y, selectors] =
            [args[0], args[1], args[2]].map(|arg| self.cast_scalar(arg, types::I32));
        let low = self.ins().uextend(types::I64, x);
        let high = self.ins().uextend(types::I64, y);
        let high = self.ins().ishl_imm_s(high, 32);
        let bytes = self.ins().bor(low, high);
        let mut result = self.ins().iconst(types::I32, 0);
        for i in 0..4 {
            let selector = self.ins().ushr_imm_s(selectors, 4 * i);
            let count = self.ins().ishl_imm_s(selector, 3);
            let count = self.ins().band_imm_s(count, 56);
            let byte = self.ins().ushr(bytes, count);
            let byte = self.ins().ireduce(types::I8, byte);
            let sign = self.ins().sshr_imm_s(byte, 7);
            let copy = self.ins().band_imm_s(selector, 8);
            let byte = self.ins().select(copy, sign, byte);
            let byte = self.ins().uextend(types::I32, byte);
            let placed = self.ins().ishl_imm_s(byte, 8 * i);
            result = self.ins().bor(result, placed);
        }
        result
    }

    /// Part `idx` of a word cut into parts of `bits` bits, extended to a word; scalar or vector.
    fn word_part(&mut self, signed: bool, x: cl::Value, bits: i64, idx: i64) -> cl::Value {
        let up = 32 - bits * (idx + 1);
        let top = if up == 0 {
            x
        } else {
            self.ins().ishl_imm_s(x, up)
        };
        if signed {
            self.ins().sshr_imm_s(top, 32 - bits)
        } else {
            self.ins().ushr_imm_s(top, 32 - bits)
        }
    }

    /// `dp4a` and `dp2a`, scalar or vector; none for other ops.
    pub(crate) fn dot_product(
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
        if n == 4 && self.is_vector(x) {
            return Some(self.dot_of_bytes([x, y], [x_signed, y_signed], sum));
        }
        let mut sum = sum;
        for idx in 0..n {
            let left = self.word_part(x_signed, x, 32 / n, idx);
            let right = self.word_part(y_signed, y, 8, first + idx);
            let product = self.ins().imul(left, right);
            sum = self.ins().iadd(sum, product);
        }
        Some(sum)
    }

    /// Even and odd bytes are extended to words, whose products are added in pairs: Cranelift
    /// selects one instruction for that.
    fn dot_of_bytes(
        &mut self,
        words: [cl::Value; 2],
        signed: [bool; 2],
        sum: cl::Value,
    ) -> cl::Value {
        let mut sum = sum;
        for is_odd in [false, true] {
            let mut halves = |word: cl::Value, is_signed: bool| {
                let word = self.cast_vector(word, types::I16X8);
                let top = match is_odd {
                    true => word,
                    false => self.ins().ishl_imm_s(word, 8),
                };
                match is_signed {
                    true => self.ins().sshr_imm_s(top, 8),
                    false => self.ins().ushr_imm_s(top, 8),
                }
            };
            let (x, y) = (halves(words[0], signed[0]), halves(words[1], signed[1]));
            let low = [x, y].map(|half| self.ins().swiden_low(half));
            let high = [x, y].map(|half| self.ins().swiden_high(half));
            let [low, high] = [low, high].map(|[x, y]| self.ins().imul(x, y));
            let pairs = self.ins().iadd_pairwise(low, high);
            sum = self.ins().iadd(sum, pairs);
        }
        sum
    }
}
