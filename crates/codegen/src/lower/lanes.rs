//! Integer ops on vectors: 32-bit lanes, where narrow integers are zero-extended, and 64-bit lanes.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{self as ir, CompareOp, IntBinaryOp, IntTernaryOp, IntUnaryOp, ResizeOp, Type};
use ptxjit_vectorize::Variability;

use super::Lower;
use super::int::condition;
use super::pure::Quad;

fn is_signed(op: CompareOp) -> bool {
    match op {
        CompareOp::Slt | CompareOp::Sle | CompareOp::Sgt | CompareOp::Sge => true,
        CompareOp::Eq
        | CompareOp::Ne
        | CompareOp::Ult
        | CompareOp::Ule
        | CompareOp::Ugt
        | CompareOp::Uge => false,
    }
}

impl Lower<'_, '_> {
    /// Sign-extends narrow lanes in place.
    pub(super) fn lanes_signed(&mut self, ty: Type, x: cl::Value) -> cl::Value {
        let shift = 32 - i64::from(ty.bits());
        let up = self.b.ins().ishl_imm_s(x, shift);
        self.b.ins().sshr_imm_s(up, shift)
    }

    /// Clears the bits that an op left above a narrow type's width.
    pub(super) fn lanes_masked(&mut self, ty: Type, x: cl::Value) -> cl::Value {
        match ty {
            Type::B8 | Type::B16 => {
                let mask = self.vconst(Type::B32, ty.mask());
                self.b.ins().band(x, mask)
            }
            Type::B1 | Type::B32 | Type::B64 => x,
        }
    }

    pub(super) fn vector_int_unary(&mut self, op: IntUnaryOp, ty: Type, x: Quad) -> Option<Quad> {
        let narrow = matches!(ty, Type::B8 | Type::B16);
        match op {
            IntUnaryOp::Not | IntUnaryOp::Neg => Some(
                x.into_iter()
                    .map(|x| {
                        let y = if op == IntUnaryOp::Not {
                            self.b.ins().bnot(x)
                        } else {
                            self.b.ins().ineg(x)
                        };
                        self.lanes_masked(ty, y)
                    })
                    .collect(),
            ),
            IntUnaryOp::Abs if narrow => {
                let signed = self.lanes_signed(ty, x[0]);
                let abs = self.b.ins().iabs(signed);
                Some(Quad::from_elem(self.lanes_masked(ty, abs), 1))
            }
            IntUnaryOp::Abs => Some(x.into_iter().map(|x| self.b.ins().iabs(x)).collect()),
            IntUnaryOp::Popc | IntUnaryOp::Clz | IntUnaryOp::Brev => self.vector_count(op, ty, &x),
        }
    }

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
                    .vector_mul_hi(op == IntBinaryOp::SmulHi, ty, x, y)
                    .map(|high| Quad::from_elem(high, 1));
            }
            IntBinaryOp::Udiv | IntBinaryOp::Sdiv | IntBinaryOp::Urem | IntBinaryOp::Srem => {
                return self.vector_divide(op, ty, a, b, q);
            }
            IntBinaryOp::SaddSat | IntBinaryOp::SsubSat if ty == Type::B32 => {
                let (x, y) = (self.quad(a, q)[0], self.quad(b, q)[0]);
                return Some(Quad::from_elem(
                    self.vector_saturate(op == IntBinaryOp::SsubSat, x, y),
                    1,
                ));
            }
            IntBinaryOp::SaddSat | IntBinaryOp::SsubSat => return None,
            _ => {}
        }
        let (x, y) = (self.quad(a, q), self.quad(b, q));
        x.into_iter()
            .zip(y)
            .map(|(x, y)| self.vector_simple(op, ty, x, y))
            .collect()
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "others have longer forms")]
    pub(super) fn vector_simple(
        &mut self,
        op: IntBinaryOp,
        ty: Type,
        x: cl::Value,
        y: cl::Value,
    ) -> Option<cl::Value> {
        let signed_narrow = matches!(ty, Type::B8 | Type::B16)
            && matches!(op, IntBinaryOp::Smin | IntBinaryOp::Smax);
        let (x, y) = if signed_narrow {
            (self.lanes_signed(ty, x), self.lanes_signed(ty, y))
        } else {
            (x, y)
        };
        let z = match op {
            IntBinaryOp::Add => self.b.ins().iadd(x, y),
            IntBinaryOp::Sub => self.b.ins().isub(x, y),
            IntBinaryOp::Mul => self.b.ins().imul(x, y),
            IntBinaryOp::And => return Some(self.b.ins().band(x, y)),
            IntBinaryOp::Or => return Some(self.b.ins().bor(x, y)),
            IntBinaryOp::Xor => return Some(self.b.ins().bxor(x, y)),
            IntBinaryOp::Smin | IntBinaryOp::Smax | IntBinaryOp::Umin | IntBinaryOp::Umax
                if ty == Type::B64 =>
            {
                let cc = match op {
                    IntBinaryOp::Smin => IntCC::SignedLessThan,
                    IntBinaryOp::Smax => IntCC::SignedGreaterThan,
                    IntBinaryOp::Umin => IntCC::UnsignedLessThan,
                    _ => IntCC::UnsignedGreaterThan,
                };
                let pick = self.b.ins().icmp(cc, x, y);
                self.b.ins().blendv(pick, x, y)
            }
            IntBinaryOp::Smin => self.b.ins().smin(x, y),
            IntBinaryOp::Smax => self.b.ins().smax(x, y),
            IntBinaryOp::Umin => self.b.ins().umin(x, y),
            IntBinaryOp::Umax => self.b.ins().umax(x, y),
            _ => return None,
        };
        Some(self.lanes_masked(ty, z))
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
                .vector_shift_each(op, ty, x, counts)
                .map(|shifted| Quad::from_elem(shifted, 1));
        }
        let width = u64::from(ty.bits());
        let x = self.quad(a, q);
        if let Some(n) = self.func.as_const(count) {
            if n >= width && op != IntBinaryOp::Sshr {
                let zero = self.vconst(ty, 0);
                return Some(Quad::from_elem(zero, x.len()));
            }
            let n = self.b.ins().iconst(types::I32, n.min(width - 1) as i64);
            return Some(
                x.into_iter()
                    .map(|x| self.shift_lanes(op, ty, x, n))
                    .collect(),
            );
        }
        let count = self.scalar(count);
        let most = self.b.ins().iconst(types::I32, width as i64 - 1);
        let clamped = self.b.ins().umin(count, most);
        let inside = self
            .b
            .ins()
            .icmp_imm_s(IntCC::UnsignedLessThan, count, width as i64);
        let zero = self.vconst(ty, 0);
        Some(
            x.into_iter()
                .map(|x| {
                    let shifted = self.shift_lanes(op, ty, x, clamped);
                    if op == IntBinaryOp::Sshr {
                        shifted
                    } else {
                        self.b.ins().select(inside, shifted, zero)
                    }
                })
                .collect(),
        )
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "callers pass shifts")]
    fn shift_lanes(
        &mut self,
        op: IntBinaryOp,
        ty: Type,
        x: cl::Value,
        count: cl::Value,
    ) -> cl::Value {
        match op {
            IntBinaryOp::Shl => {
                let y = self.b.ins().ishl(x, count);
                self.lanes_masked(ty, y)
            }
            IntBinaryOp::Sshr => {
                let x = if matches!(ty, Type::B8 | Type::B16) {
                    self.lanes_signed(ty, x)
                } else {
                    x
                };
                let y = self.b.ins().sshr(x, count);
                self.lanes_masked(ty, y)
            }
            _ => self.b.ins().ushr(x, count),
        }
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
                (self.lanes_signed(ty, x), self.lanes_signed(ty, y))
            } else {
                (x, y)
            };
            let z = self.b.ins().imul(x, y);
            let wide = if ty == Type::B16 {
                Type::B32
            } else {
                Type::B16
            };
            return Some(Quad::from_elem(self.lanes_masked(wide, z), 1));
        }
        // Cranelift selects pmuldq and pmuludq for `imul` of two widened vectors.
        let widened = |lower: &mut Self, x| {
            if signed {
                [lower.b.ins().swiden_low(x), lower.b.ins().swiden_high(x)]
            } else {
                [lower.b.ins().uwiden_low(x), lower.b.ins().uwiden_high(x)]
            }
        };
        let (x, y) = (widened(self, x), widened(self, y));
        Some((0..2).map(|i| self.b.ins().imul(x[i], y[i])).collect())
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
                        Some(self.vector_bfe(signed, ty, x, pos, len))
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
                    Some(selectors) => self.vector_prmt(x, y, selectors),
                    None => {
                        let selectors = self.quad(c, q)[0];
                        self.vector_prmt_any(x, y, selectors)
                    }
                };
                Some(Quad::from_elem(bytes, 1))
            }
            _ => {
                let words = [a, b, c].map(|arg| self.quad(arg, q)[0]);
                self.dot_product(op, words)
                    .map(|sum| Quad::from_elem(sum, 1))
            }
        }
    }

    pub(super) fn vector_resize(&mut self, op: ResizeOp, from: Type, to: Type, x: Quad) -> Quad {
        if from == Type::B64 {
            let low = self.narrow(x[0], x[1]);
            return self.vector_resize(op, Type::B32, to, Quad::from_elem(low, 1));
        }
        let x = x[0];
        let lanes = match (op, from) {
            (ResizeOp::Trunc, _) if to == Type::B1 => {
                let up = self.b.ins().ishl_imm_s(x, 31);
                self.b.ins().sshr_imm_s(up, 31)
            }
            (ResizeOp::Trunc, _) => self.lanes_masked(to, x),
            (ResizeOp::Uext, Type::B1) => self.b.ins().ushr_imm_s(x, 31),
            (ResizeOp::Uext, _) => x,
            (ResizeOp::Sext, Type::B1 | Type::B32) => self.if_narrow_masked(to, x),
            (ResizeOp::Sext, _) => {
                let signed = self.lanes_signed(from, x);
                self.if_narrow_masked(to, signed)
            }
        };
        if to != Type::B64 {
            return Quad::from_elem(lanes, 1);
        }
        if op == ResizeOp::Sext {
            [
                self.b.ins().swiden_low(lanes),
                self.b.ins().swiden_high(lanes),
            ]
            .into_iter()
            .collect()
        } else {
            [
                self.b.ins().uwiden_low(lanes),
                self.b.ins().uwiden_high(lanes),
            ]
            .into_iter()
            .collect()
        }
    }

    fn if_narrow_masked(&mut self, to: Type, x: cl::Value) -> cl::Value {
        self.lanes_masked(to, x)
    }

    pub(super) fn vector_compare(&mut self, op: CompareOp, ty: Type, x: Quad, y: Quad) -> Quad {
        let cc = condition(op);
        let mask = match ty {
            Type::B64 => {
                let lo = self.b.ins().icmp(cc, x[0], y[0]);
                let hi = self.b.ins().icmp(cc, x[1], y[1]);
                self.narrow(lo, hi)
            }
            Type::B8 | Type::B16 if is_signed(op) => {
                let (x, y) = (self.lanes_signed(ty, x[0]), self.lanes_signed(ty, y[0]));
                self.b.ins().icmp(cc, x, y)
            }
            // Zero-extended lanes are not negative: the signed comparison, which is cheaper, gives
            // the same.
            Type::B8 | Type::B16 => self.b.ins().icmp(signed_condition(op), x[0], y[0]),
            Type::B1 | Type::B32 => self.b.ins().icmp(cc, x[0], y[0]),
        };
        Quad::from_elem(mask, 1)
    }
}

fn signed_condition(op: CompareOp) -> IntCC {
    match op {
        CompareOp::Ult => IntCC::SignedLessThan,
        CompareOp::Ule => IntCC::SignedLessThanOrEqual,
        CompareOp::Ugt => IntCC::SignedGreaterThan,
        CompareOp::Uge => IntCC::SignedGreaterThanOrEqual,
        CompareOp::Eq
        | CompareOp::Ne
        | CompareOp::Slt
        | CompareOp::Sle
        | CompareOp::Sgt
        | CompareOp::Sge => condition(op),
    }
}
