//! Integer operations on vectors whose form depends on the operands: counts that are constant or
//! uniform, products, fields.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{self as ir, IntBinaryOp, IntTernaryOp, Type};
use ptxjit_vectorize::Variability;

use crate::lower::Lower;
use crate::ops::Quad;

impl Lower<'_, '_> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "others are tried below")]
    pub(super) fn vector_int_binary(
        &mut self,
        op: IntBinaryOp,
        ty: Type,
        a: ir::Value,
        b: ir::Value,
        q: usize,
    ) -> Option<Quad> {
        match op {
            IntBinaryOp::Shl | IntBinaryOp::Ushr | IntBinaryOp::Sshr => {
                return self.vector_shift(op, ty, a, b, q);
            }
            IntBinaryOp::UmulWide | IntBinaryOp::SmulWide => {
                return self.vector_mul_wide(op, ty, a, b, q);
            }
            IntBinaryOp::UmulHi | IntBinaryOp::SmulHi => {
                let (x, y) = (self.quad(a, q)[0], self.quad(b, q)[0]);
                return self
                    .b
                    .vector_mul_hi(op == IntBinaryOp::SmulHi, ty, x, y)
                    .map(|high| Quad::from_elem(high, 1));
            }
            IntBinaryOp::Udiv | IntBinaryOp::Sdiv | IntBinaryOp::Urem | IntBinaryOp::Srem => {
                return self.vector_divide(op, ty, a, b, q);
            }
            IntBinaryOp::SaddSat | IntBinaryOp::SsubSat if ty == Type::B32 => {
                let (x, y) = (self.quad(a, q)[0], self.quad(b, q)[0]);
                return Some(Quad::from_elem(
                    self.b.vector_saturate(op == IntBinaryOp::SsubSat, x, y),
                    1,
                ));
            }
            IntBinaryOp::SaddSat | IntBinaryOp::SsubSat => return None,
            _ => {}
        }
        let (x, y) = (self.quad(a, q), self.quad(b, q));
        self.b
            .each_of_two((&x, &y), |b, x, y| b.vector_simple(op, ty, x, y))
    }

    /// Shifts by a uniform count, or by per-lane counts.
    fn vector_shift(
        &mut self,
        op: IntBinaryOp,
        ty: Type,
        a: ir::Value,
        count: ir::Value,
        q: usize,
    ) -> Option<Quad> {
        if self.variability(count) != Variability::Uniform {
            if ty == Type::B64 {
                return None;
            }
            let (x, counts) = (self.quad(a, q)[0], self.quad(count, q)[0]);
            return self
                .b
                .vector_shift_each(op, ty, x, counts)
                .map(|shifted| Quad::from_elem(shifted, 1));
        }
        let width = u64::from(ty.bits());
        let x = self.quad(a, q);
        if let Some(n) = self.func.as_const(count) {
            if n >= width && op != IntBinaryOp::Sshr {
                let zero = self.b.vconst(ty, 0);
                return Some(Quad::from_elem(zero, x.len()));
            }
            let n = self.b.ins().iconst(types::I32, n.min(width - 1) as i64);
            return Some(self.b.each(&x, |b, x| b.shift_lanes(op, ty, x, n)));
        }
        let count = self.scalar(count);
        let most = self.b.ins().iconst(types::I32, width as i64 - 1);
        let clamped = self.b.ins().umin(count, most);
        let inside = self
            .b
            .ins()
            .icmp_imm_s(IntCC::UnsignedLessThan, count, width as i64);
        let zero = self.b.vconst(ty, 0);
        Some(
            x.into_iter()
                .map(|x| {
                    let shifted = self.b.shift_lanes(op, ty, x, clamped);
                    if op == IntBinaryOp::Sshr {
                        shifted
                    } else {
                        self.b.ins().select(inside, shifted, zero)
                    }
                })
                .collect(),
        )
    }

    fn vector_mul_wide(
        &mut self,
        op: IntBinaryOp,
        ty: Type,
        a: ir::Value,
        b: ir::Value,
        q: usize,
    ) -> Option<Quad> {
        let signed = op == IntBinaryOp::SmulWide;
        let (x, y) = (self.quad(a, q)[0], self.quad(b, q)[0]);
        if ty != Type::B32 {
            let (x, y) = if signed {
                (self.b.lanes_signed(ty, x), self.b.lanes_signed(ty, y))
            } else {
                (x, y)
            };
            let z = self.b.ins().imul(x, y);
            let wide = if ty == Type::B16 {
                Type::B32
            } else {
                Type::B16
            };
            return Some(Quad::from_elem(self.b.lanes_masked(wide, z), 1));
        }
        Some(Quad::from(self.b.wide_products(signed, x, y)))
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest are dot products")]
    pub(super) fn vector_int_ternary(
        &mut self,
        op: IntTernaryOp,
        ty: Type,
        [a, b, c]: [ir::Value; 3],
        q: usize,
    ) -> Option<Quad> {
        let count = self.func.as_const(c);
        match op {
            IntTernaryOp::ShfL | IntTernaryOp::ShfR => {
                let Some(n) = count.map(|n| n.min(32)) else {
                    return self
                        .vector_funnel(op == IntTernaryOp::ShfL, [a, b, c], q)
                        .map(|word| Quad::from_elem(word, 1));
                };
                let (lo, hi) = (self.quad(a, q)[0], self.quad(b, q)[0]);
                let left = if op == IntTernaryOp::ShfL { n } else { 32 - n };
                if left == 0 || left == 32 {
                    // ShfL by 0 and ShfR by 32 give the high word, the other ends the low one.
                    return Some(Quad::from_elem(if left == 0 { hi } else { lo }, 1));
                }
                let up = self.b.ins().ishl_imm_s(hi, left as i64);
                let down = self.b.ins().ushr_imm_s(lo, 32 - left as i64);
                Some(Quad::from_elem(self.b.ins().bor(up, down), 1))
            }
            IntTernaryOp::UBfe | IntTernaryOp::SBfe => {
                let signed = op == IntTernaryOp::SBfe;
                match (self.func.as_const(b), count) {
                    (Some(pos), Some(len)) => {
                        let x = self.quad(a, q);
                        Some(self.b.vector_bfe(signed, ty, x, pos, len))
                    }
                    _ if ty == Type::B64 => None,
                    _ => self
                        .vector_bfe_any(signed, [a, b, c], q)
                        .map(|field| Quad::from_elem(field, 1)),
                }
            }
            IntTernaryOp::Prmt => {
                let (x, y) = (self.quad(a, q)[0], self.quad(b, q)[0]);
                let bytes = match count {
                    Some(selectors) => self.b.vector_prmt(x, y, selectors),
                    None => {
                        let selectors = self.quad(c, q)[0];
                        self.b.vector_prmt_any(x, y, selectors)
                    }
                };
                Some(Quad::from_elem(bytes, 1))
            }
            _ => {
                let words = [a, b, c].map(|arg| self.quad(arg, q)[0]);
                self.b
                    .dot_product(op, words)
                    .map(|sum| Quad::from_elem(sum, 1))
            }
        }
    }

    /// Two counts, both as scalars if they are uniform, else both as lanes.
    fn counts(&mut self, counts: [ir::Value; 2], q: usize) -> [cl::Value; 2] {
        let is_uniform = |&count: &ir::Value| self.plan.variability[count] == Variability::Uniform;
        match counts.iter().all(is_uniform) {
            true => counts.map(|count| self.scalar(count)),
            false => counts.map(|count| self.quad(count, q)[0]),
        }
    }

    /// The low bytes of two counts.
    fn low_bytes(&mut self, counts: [ir::Value; 2], q: usize) -> [cl::Value; 2] {
        self.counts(counts, q).map(|count| {
            let mask = self.b.lane_word(count, 255);
            self.b.ins().band(count, mask)
        })
    }

    /// Funnel shifts by any count.
    fn vector_funnel(
        &mut self,
        left: bool,
        [a, b, c]: [ir::Value; 3],
        q: usize,
    ) -> Option<cl::Value> {
        let (lo, hi) = (self.quad(a, q)[0], self.quad(b, q)[0]);
        let [count, _] = self.counts([c, c], q);
        let width = self.b.lane_word(count, 32);
        let count = self.b.ins().umin(count, width);
        let rest = self.b.ins().isub(width, count);
        let (up, down) = if left { (count, rest) } else { (rest, count) };
        let high = self.b.shift_words(IntBinaryOp::Shl, hi, up)?;
        let low = self.b.shift_words(IntBinaryOp::Ushr, lo, down)?;
        Some(self.b.ins().bor(high, low))
    }

    /// Bit field extraction from 32-bit lanes at any position and length.
    fn vector_bfe_any(
        &mut self,
        signed: bool,
        [a, pos, len]: [ir::Value; 3],
        q: usize,
    ) -> Option<cl::Value> {
        let x = self.quad(a, q)[0];
        let [pos, len] = self.low_bytes([pos, len], q);
        if !signed {
            let shifted = self.b.shift_words(IntBinaryOp::Ushr, x, pos)?;
            let above = self.b.bits_from(x, len)?;
            return Some(self.b.ins().band_not(shifted, above));
        }
        let width = self.b.lane_word(len, 32);
        let end = self.b.ins().iadd(pos, len);
        let end = self.b.ins().umin(end, width);
        let up = self.b.ins().isub(width, end);
        let down = self.b.ins().iadd(up, pos);
        let top = self.b.shift_words(IntBinaryOp::Shl, x, up)?;
        let field = self.b.shift_words(IntBinaryOp::Sshr, top, down)?;
        let none = self.b.lane_word(len, 0);
        let is_none = self.b.ins().icmp(IntCC::Equal, len, none);
        let zero = self.b.vconst(Type::B32, 0);
        Some(if self.b.is_vector(len) {
            self.b.pick(is_none, zero, field)
        } else {
            self.b.ins().select(is_none, zero, field)
        })
    }

    /// Bit field insertion into 32-bit lanes at any position and length.
    pub(super) fn vector_bfi_any(
        &mut self,
        [a, b, pos, len]: [ir::Value; 4],
        q: usize,
    ) -> Option<cl::Value> {
        let (field, into) = (self.quad(a, q)[0], self.quad(b, q)[0]);
        let [pos, len] = self.low_bytes([pos, len], q);
        let above = self.b.bits_from(field, len)?;
        let ones = self.b.ins().bnot(above);
        let mask = self.b.shift_words(IntBinaryOp::Shl, ones, pos)?;
        let placed = self.b.shift_words(IntBinaryOp::Shl, field, pos)?;
        Some(self.b.ins().bitselect(mask, placed, into))
    }
}
