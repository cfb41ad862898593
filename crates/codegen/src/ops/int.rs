//! Integer ops on scalars; `lanes` has the vector forms.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{CompareOp, IntBinaryOp, IntTernaryOp, IntUnaryOp, ResizeOp, Type};
use smallvec::SmallVec;

use super::{Emitter, int_type};

/// CLIF's name for a comparison.
pub(crate) fn condition(op: CompareOp) -> IntCC {
    match op {
        CompareOp::Eq => IntCC::Equal,
        CompareOp::Ne => IntCC::NotEqual,
        CompareOp::Slt => IntCC::SignedLessThan,
        CompareOp::Sle => IntCC::SignedLessThanOrEqual,
        CompareOp::Sgt => IntCC::SignedGreaterThan,
        CompareOp::Sge => IntCC::SignedGreaterThanOrEqual,
        CompareOp::Ult => IntCC::UnsignedLessThan,
        CompareOp::Ule => IntCC::UnsignedLessThanOrEqual,
        CompareOp::Ugt => IntCC::UnsignedGreaterThan,
        CompareOp::Uge => IntCC::UnsignedGreaterThanOrEqual,
    }
}

impl Emitter<'_> {
    pub(crate) fn scalar_int_unary(&mut self, op: IntUnaryOp, ty: Type, x: cl::Value) -> cl::Value {
        match op {
            IntUnaryOp::Not if ty == Type::B1 => self.ins().bxor_imm_s(x, 1),
            IntUnaryOp::Not => self.ins().bnot(x),
            IntUnaryOp::Neg => self.ins().ineg(x),
            IntUnaryOp::Abs => self.ins().iabs(x),
            IntUnaryOp::Popc => {
                let n = self.ins().popcnt(x);
                self.to_i32(n)
            }
            IntUnaryOp::Clz => {
                let n = self.ins().clz(x);
                self.to_i32(n)
            }
            IntUnaryOp::Brev => self.ins().bitrev(x),
        }
    }

    /// Zero-extends or truncates to `i32`.
    fn to_i32(&mut self, x: cl::Value) -> cl::Value {
        match self.func.dfg.value_type(x) {
            types::I32 => x,
            types::I64 => self.ins().ireduce(types::I32, x),
            _ => self.ins().uextend(types::I32, x),
        }
    }

    /// An operation for which CLIF has an instruction, on scalars or vectors; `None` for others.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others take several")]
    pub(super) fn one_inst(
        &mut self,
        op: IntBinaryOp,
        x: cl::Value,
        y: cl::Value,
    ) -> Option<cl::Value> {
        Some(match op {
            IntBinaryOp::Add => self.ins().iadd(x, y),
            IntBinaryOp::Sub => self.ins().isub(x, y),
            IntBinaryOp::Mul => self.ins().imul(x, y),
            IntBinaryOp::And => self.ins().band(x, y),
            IntBinaryOp::Or => self.ins().bor(x, y),
            IntBinaryOp::Xor => self.ins().bxor(x, y),
            IntBinaryOp::Smin => self.ins().smin(x, y),
            IntBinaryOp::Smax => self.ins().smax(x, y),
            IntBinaryOp::Umin => self.ins().umin(x, y),
            IntBinaryOp::Umax => self.ins().umax(x, y),
            _ => return None,
        })
    }

    /// The same where the operation is known to be one.
    pub(crate) fn plain_op(&mut self, op: IntBinaryOp, x: cl::Value, y: cl::Value) -> cl::Value {
        let result = self.one_inst(op, x, y);
        result.expect("callers pass no other operations")
    }

    pub(crate) fn scalar_int_binary(
        &mut self,
        op: IntBinaryOp,
        ty: Type,
        x: cl::Value,
        y: cl::Value,
    ) -> Option<cl::Value> {
        Some(match op {
            IntBinaryOp::Add
            | IntBinaryOp::Sub
            | IntBinaryOp::Mul
            | IntBinaryOp::And
            | IntBinaryOp::Or
            | IntBinaryOp::Xor
            | IntBinaryOp::Smin
            | IntBinaryOp::Smax
            | IntBinaryOp::Umin
            | IntBinaryOp::Umax => return self.one_inst(op, x, y),
            IntBinaryOp::UmulHi | IntBinaryOp::SmulHi => {
                self.scalar_mul_hi(op == IntBinaryOp::SmulHi, ty, x, y)
            }
            IntBinaryOp::UmulWide | IntBinaryOp::SmulWide => {
                self.scalar_mul_wide(op == IntBinaryOp::SmulWide, ty, x, y)
            }
            IntBinaryOp::Udiv | IntBinaryOp::Sdiv => {
                self.scalar_divide(op == IntBinaryOp::Sdiv, ty, x, y)
            }
            IntBinaryOp::Urem | IntBinaryOp::Srem => {
                self.scalar_rem(op == IntBinaryOp::Srem, ty, x, y)
            }
            IntBinaryOp::Shl | IntBinaryOp::Ushr | IntBinaryOp::Sshr => {
                self.scalar_shift(op, ty, x, y)
            }
            IntBinaryOp::SaddSat | IntBinaryOp::SsubSat if ty == Type::B32 => {
                self.scalar_saturated(op, x, y)
            }
            IntBinaryOp::SaddSat | IntBinaryOp::SsubSat => return None,
        })
    }

    /// Saturated sums and differences of 32 bits.
    fn scalar_saturated(&mut self, op: IntBinaryOp, x: cl::Value, y: cl::Value) -> cl::Value {
        let [x, y] = [x, y].map(|x| self.ins().sextend(types::I64, x));
        let wide = match op == IntBinaryOp::SaddSat {
            true => self.ins().iadd(x, y),
            false => self.ins().isub(x, y),
        };
        let [lo, hi] =
            [i32::MIN, i32::MAX].map(|end| self.ins().iconst(types::I64, i64::from(end)));
        let wide = self.ins().smax(wide, lo);
        let wide = self.ins().smin(wide, hi);
        self.ins().ireduce(types::I32, wide)
    }

    fn extend(&mut self, signed: bool, ty: cl::Type, x: cl::Value) -> cl::Value {
        if signed {
            self.ins().sextend(ty, x)
        } else {
            self.ins().uextend(ty, x)
        }
    }

    fn scalar_mul_hi(&mut self, signed: bool, ty: Type, x: cl::Value, y: cl::Value) -> cl::Value {
        if ty == Type::B64 {
            return if signed {
                self.ins().smulhi(x, y)
            } else {
                self.ins().umulhi(x, y)
            };
        }
        let [x, y] = [x, y].map(|x| self.extend(signed, types::I64, x));
        let product = self.ins().imul(x, y);
        let high = self.ins().ushr_imm_s(product, i64::from(ty.bits()));
        self.ins().ireduce(int_type(ty), high)
    }

    fn scalar_mul_wide(&mut self, signed: bool, ty: Type, x: cl::Value, y: cl::Value) -> cl::Value {
        let wide = if ty == Type::B32 {
            types::I64
        } else {
            types::I32
        };
        let (x, y) = (self.extend(signed, wide, x), self.extend(signed, wide, y));
        self.ins().imul(x, y)
    }

    /// The remainder of a number that is mostly less than twice the divisor, as with
    /// `(x + 1) % w`: a subtraction, where a division takes some ten times as long.
    fn scalar_rem(&mut self, signed: bool, ty: Type, x: cl::Value, y: cl::Value) -> cl::Value {
        let general = |b: &mut Self| match signed {
            true => b.scalar_sdiv(true, ty, x, y),
            false => b.scalar_udiv(true, ty, x, y),
        };
        if ty != Type::B32 || self.known(y).is_some() {
            return general(self);
        }
        // In 64 bits, unsigned: a negative dividend stays far above the divisor, and to one that is
        // not positive everything is too large.
        let divisor = match signed {
            true => {
                let zero = self.ins().iconst(types::I32, 0);
                self.ins().smax(y, zero)
            }
            false => y,
        };
        let divisor = self.ins().uextend(types::I64, divisor);
        let wide = self.extend(signed, types::I64, x);
        let less = self.ins().isub(wide, divisor);
        let is_small = self.ins().icmp(IntCC::UnsignedLessThan, wide, divisor);
        let rest = self.ins().select(is_small, wide, less);
        let cc = IntCC::UnsignedGreaterThanOrEqual;
        let is_large = self.ins().icmp(cc, rest, divisor);
        let rest = self.ins().ireduce(types::I32, rest);
        self.unless(is_large, &[rest], |b| vec![general(b)])[0]
    }

    fn scalar_divide(&mut self, signed: bool, ty: Type, x: cl::Value, y: cl::Value) -> cl::Value {
        let constant = self.known(y).filter(|_| ty == Type::B32);
        if let Some(quotient) = constant.and_then(|d| self.scalar_divide_constant(signed, x, d)) {
            return quotient;
        }
        match signed {
            true => self.scalar_sdiv(false, ty, x, y),
            false => self.scalar_udiv(false, ty, x, y),
        }
    }

    /// Hardware traps on a zero divisor, PTX does not.
    fn scalar_udiv(&mut self, rem: bool, ty: Type, x: cl::Value, y: cl::Value) -> cl::Value {
        let clif = int_type(ty);
        let zero = self.ins().icmp_imm_s(IntCC::Equal, y, 0);
        let one = self.ins().iconst(clif, 1);
        let divisor = self.ins().select(zero, one, y);
        let ones = self.ins().iconst(clif, -1);
        let result = match rem {
            true => self.ins().urem(x, divisor),
            false => self.ins().udiv(x, divisor),
        };
        self.ins().select(zero, ones, result)
    }

    /// Nor does it on minimum / -1.
    fn scalar_sdiv(&mut self, rem: bool, ty: Type, x: cl::Value, y: cl::Value) -> cl::Value {
        let clif = int_type(ty);
        let zero = self.ins().icmp_imm_s(IntCC::Equal, y, 0);
        let minus = self.ins().icmp_imm_s(IntCC::Equal, y, -1);
        let either = self.ins().bor(zero, minus);
        let one = self.ins().iconst(clif, 1);
        let divisor = self.ins().select(either, one, y);
        let ones = self.ins().iconst(clif, -1);
        let result = if rem {
            self.ins().srem(x, divisor)
        } else {
            let q = self.ins().sdiv(x, divisor);
            let negated = self.ins().ineg(x);
            self.ins().select(minus, negated, q)
        };
        self.ins().select(zero, ones, result)
    }

    /// A scalar that is a constant.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the enum is Cranelift's")]
    fn known(&self, x: cl::Value) -> Option<i64> {
        let inst = self.func.dfg.value_def(x).inst()?;
        match self.func.dfg.insts[inst] {
            cl::InstructionData::UnaryImm {
                opcode: cl::Opcode::Iconst,
                imm,
            } => Some(imm.bits()),
            _ => None,
        }
    }

    /// CLIF takes the count modulo the width, PTX clamps it.
    #[expect(clippy::wildcard_enum_match_arm, reason = "callers pass shifts")]
    pub(super) fn scalar_shift(
        &mut self,
        op: IntBinaryOp,
        ty: Type,
        x: cl::Value,
        count: cl::Value,
    ) -> cl::Value {
        let width = i64::from(ty.bits());
        if let Some(count) = self.known(count) {
            let count = count & 0xffff_ffff;
            return match op {
                IntBinaryOp::Sshr => self.ins().sshr_imm_s(x, count.min(width - 1)),
                _ if count >= width => self.ins().iconst(int_type(ty), 0),
                IntBinaryOp::Shl => self.ins().ishl_imm_s(x, count),
                _ => self.ins().ushr_imm_s(x, count),
            };
        }
        if op == IntBinaryOp::Sshr {
            let most = self.ins().iconst(types::I32, width - 1);
            let count = self.ins().umin(count, most);
            return self.ins().sshr(x, count);
        }
        let shifted = if op == IntBinaryOp::Shl {
            self.ins().ishl(x, count)
        } else {
            self.ins().ushr(x, count)
        };
        let inside = self.ins().icmp_imm_s(IntCC::UnsignedLessThan, count, width);
        let zero = self.ins().iconst(int_type(ty), 0);
        self.ins().select(inside, shifted, zero)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest are dot products")]
    pub(crate) fn scalar_int_ternary(
        &mut self,
        op: IntTernaryOp,
        ty: Type,
        args: &[cl::Value],
    ) -> Option<cl::Value> {
        match op {
            IntTernaryOp::ShfL | IntTernaryOp::ShfR => {
                let x: SmallVec<[cl::Value; 3]> =
                    self.each(args, |b, arg| b.cast_scalar(arg, types::I32));
                let low = self.ins().uextend(types::I64, x[0]);
                let high = self.ins().uextend(types::I64, x[1]);
                let high = self.ins().ishl_imm_s(high, 32);
                let wide = self.ins().bor(low, high);
                let most = self.ins().iconst(types::I32, 32);
                let count = self.ins().umin(x[2], most);
                let word = if op == IntTernaryOp::ShfL {
                    let shifted = self.ins().ishl(wide, count);
                    self.ins().ushr_imm_s(shifted, 32)
                } else {
                    self.ins().ushr(wide, count)
                };
                Some(self.ins().ireduce(types::I32, word))
            }
            IntTernaryOp::UBfe | IntTernaryOp::SBfe => {
                Some(self.scalar_bfe(op == IntTernaryOp::SBfe, ty, args))
            }
            IntTernaryOp::Prmt => Some(self.scalar_prmt(args)),
            _ => {
                let words =
                    [args[0], args[1], args[2]].map(|arg| self.cast_scalar(arg, types::I32));
                self.dot_product(op, words)
            }
        }
    }

    /// Any function of three inputs as a sum of products, shortest of it and its complement.
    pub(crate) fn lop3(&mut self, lut: u8, [a, b, c]: [cl::Value; 3]) -> cl::Value {
        match lut {
            0x96 => {
                let ab = self.ins().bxor(a, b);
                self.ins().bxor(ab, c)
            }
            0xe8 => {
                let ab = self.ins().bxor(a, b);
                let pick = self.ins().band(ab, c);
                let both = self.ins().band(a, b);
                self.ins().bor(pick, both)
            }
            // c where a, else …: Shannon expansion on a, each half a function of b and c.
            _ => {
                let hi = self.lop2(lut >> 4, b, c);
                let lo = self.lop2(lut & 15, b, c);
                let diff = self.ins().bxor(hi, lo);
                let picked = self.ins().band(diff, a);
                self.ins().bxor(picked, lo)
            }
        }
    }

    /// Any function of two inputs; the index is `b << 1 | c`.
    fn lop2(&mut self, lut: u8, b: cl::Value, c: cl::Value) -> cl::Value {
        match lut {
            0x0 => self.ins().bxor(b, b),
            0x1 => {
                let or = self.ins().bor(b, c);
                self.ins().bnot(or)
            }
            0x2 => self.ins().band_not(c, b),
            0x3 => self.ins().bnot(b),
            0x4 => self.ins().band_not(b, c),
            0x5 => self.ins().bnot(c),
            0x6 => self.ins().bxor(b, c),
            0x7 => {
                let and = self.ins().band(b, c);
                self.ins().bnot(and)
            }
            0x8 => self.ins().band(b, c),
            0x9 => {
                let xor = self.ins().bxor(b, c);
                self.ins().bnot(xor)
            }
            0xa => c,
            0xb => {
                let not = self.ins().bnot(b);
                self.ins().bor(not, c)
            }
            0xc => b,
            0xd => {
                let not = self.ins().bnot(c);
                self.ins().bor(b, not)
            }
            0xe => self.ins().bor(b, c),
            _ => {
                let zero = self.ins().bxor(b, b);
                self.ins().bnot(zero)
            }
        }
    }

    pub(crate) fn scalar_resize(
        &mut self,
        op: ResizeOp,
        from: Type,
        to: Type,
        x: cl::Value,
    ) -> cl::Value {
        let (from_clif, to_clif) = (int_type(from), int_type(to));
        match op {
            ResizeOp::Trunc if to == Type::B1 => {
                let low = if from_clif == types::I8 {
                    x
                } else {
                    self.ins().ireduce(types::I8, x)
                };
                self.ins().band_imm_s(low, 1)
            }
            _ if from_clif == to_clif => {
                // A predicate as a byte is 0 or 1 already.
                if op == ResizeOp::Sext && from == Type::B1 {
                    self.ins().ineg(x)
                } else {
                    x
                }
            }
            ResizeOp::Trunc => self.ins().ireduce(to_clif, x),
            ResizeOp::Uext => self.ins().uextend(to_clif, x),
            ResizeOp::Sext if from == Type::B1 => {
                let wide = self.ins().uextend(to_clif, x);
                self.ins().ineg(wide)
            }
            ResizeOp::Sext => self.ins().sextend(to_clif, x),
        }
    }

    /// Scalars that may be kept in float registers, for an instruction on integers.
    pub(crate) fn in_int_registers(&mut self, args: &[cl::Value]) -> SmallVec<[cl::Value; 4]> {
        args.iter()
            .map(|&arg| match self.func.dfg.value_type(arg) {
                types::F32 => self.cast_scalar(arg, types::I32),
                types::F64 => self.cast_scalar(arg, types::I64),
                _ => arg,
            })
            .collect()
    }
}
