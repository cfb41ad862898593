//! Quotients of vectors: those by a number that all lanes share multiply by its reciprocal in f64,
//! which is computed once.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{self as ir, FloatFmt, InstData, IntBinaryOp, NumFmt, Type};
use ptxjit_vectorize::Variability;

use crate::lower::Lower;
use crate::ops::{Quad, SHOW_INT, float_vector_type, sign_extended, vector_type};

impl Lower<'_, '_> {
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
            (self.b.lanes_signed(ty, x), self.b.lanes_signed(ty, y))
        } else {
            (x, y)
        };
        let constant = self.func.as_const(b).map(|bits| sign_extended(ty, bits));
        // Narrow lanes are words that are not negative.
        let from = if signed || ty != Type::B32 {
            NumFmt::S32
        } else {
            NumFmt::U32
        };
        let by_constant = match constant {
            Some(d) if signed => self.b.divide_signed_constant(x, d as i32),
            Some(d) => self.b.divide_constant(x, (d as u64 & ty.mask()) as u32),
            None => None,
        };
        let (quotient, checked) = match by_constant {
            Some(quotient) => (quotient, true),
            None if self.plan.variability[b] == Variability::Uniform => {
                (self.divide_by_one(signed, from, x, b), false)
            }
            None => (self.b.divide_words(from, x, y), false),
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
            let none = self.b.lane_word(x, 0);
            let is_zero = self.b.ins().icmp(IntCC::Equal, y, none);
            let ones = self.b.lane_word(x, u32::MAX);
            self.b.pick(is_zero, ones, result)
        };
        Some(Quad::from_elem(self.b.lanes_masked(ty, result), 1))
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
        let divisor = self.b.int_to_float_scalar(from, FloatFmt::F64, divisor);
        let one = self.b.constant(Type::B64, 1f64.to_bits(), true);
        let nearest = self.b.ins().fdiv(one, divisor);
        let bits = self.b.cast_scalar(nearest, types::I64);
        let above = self.b.ins().iadd_imm_s(bits, 1);
        let above = self.b.cast_scalar(above, types::F64);
        self.b.ins().splat(float_vector_type(Type::B64), above)
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
        let x = self.b.vector_to_f64(from, x);
        let show = self.b.float_like(FloatFmt::F64, x[0], SHOW_INT);
        let parts: Quad = x
            .into_iter()
            .map(|x| {
                let quotient = self.b.ins().fmul(x, factor);
                let whole = self.b.ins().trunc(quotient);
                self.b.ins().fadd(whole, show)
            })
            .collect();
        self.b.narrow(parts[0], parts[1])
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
        let beyond = self.b.vconst(Type::B64, !0 << 51);
        let beyond = self.b.ins().band(all, beyond);
        let large = self.b.ins().vany_true(beyond);
        let [near, far, done] = self.b.create_blocks();
        let results = [(); 2].map(|()| self.b.append_block_param(done, vector_type(Type::B64)));
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
        let quotients = [0, 1].map(|i| self.b.divide_indices(rem, x[i], y[i], factor));
        self.b
            .ins()
            .jump(done, &[quotients[0].into(), quotients[1].into()]);
        self.b.switch_to_block(done);
        results.into_iter().collect()
    }
}
