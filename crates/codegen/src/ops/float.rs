//! Floating-point ops; one function serves scalars and vectors, since CLIF's ops do.
//!
//! NaNs: results in f32 may be any NaN; the optimizer inserts `fcanonical` where an instruction
//! reads their bits.
//!
//! Flushing: if the whole kernel runs with FTZ and DAZ set, arithmetic flushes by itself; otherwise
//! `.ftz` is done by bit operations, and so it is always for results that no arithmetic instruction
//! computes (negation, minimum, selection).

use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{self as cl, InstBuilder};
use ptxjit_ir::{FloatBinaryOp, FloatCompareOp, FloatFmt, FloatMode, FloatUnaryOp, Round};

use super::{Emitter, Running};

const SIGN_F32: u64 = 0x8000_0000;

impl Emitter<'_> {
    /// Without its sign. Of vectors, a constant in memory has the bits that stay, where Cranelift
    /// computes them from nothing each time.
    fn magnitude(&mut self, fmt: FloatFmt, x: cl::Value) -> cl::Value {
        if !self.is_vector(x) {
            return self.ins().fabs(x);
        }
        let bits = self.as_int(fmt, x);
        let stay = self.bits_like(fmt, x, fmt.ty().mask() >> 1);
        let bits = self.ins().band(bits, stay);
        self.as_float(fmt, bits)
    }

    /// An f32 with the other sign, likewise. Multiply-adds change signs themselves.
    fn negated(&mut self, x: cl::Value) -> cl::Value {
        if !self.is_vector(x) {
            return self.ins().fneg(x);
        }
        let bits = self.as_int(FloatFmt::F32, x);
        let sign = self.bits_like(FloatFmt::F32, x, SIGN_F32);
        let bits = self.ins().bxor(bits, sign);
        let result = self.as_float(FloatFmt::F32, bits);
        self.negated.insert(result, x);
        result
    }

    /// An operand of a multiply-add, whose sign that may change.
    fn addend_or_factor(&mut self, x: cl::Value) -> cl::Value {
        match self.negated.get(&x) {
            Some(&x) => self.ins().fneg(x),
            None => x,
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "outer arm admits no others")]
    pub(crate) fn float_unary(
        &mut self,
        op: FloatUnaryOp,
        fmt: FloatFmt,
        mode: FloatMode,
        x: cl::Value,
    ) -> Option<cl::Value> {
        if matches!(fmt, FloatFmt::F16 | FloatFmt::Bf16) {
            return self.half_unary(op, fmt, mode, x);
        }
        let x = self.as_float(fmt, x);
        match op {
            FloatUnaryOp::Neg | FloatUnaryOp::Abs | FloatUnaryOp::Copy => {
                let x = self.flush_always(fmt, mode.ftz, x);
                Some(match op {
                    FloatUnaryOp::Neg if fmt == FloatFmt::F64 => self.changed_sign(x),
                    FloatUnaryOp::Neg => self.negated(x),
                    FloatUnaryOp::Abs => self.magnitude(fmt, x),
                    _ => x,
                })
            }
            FloatUnaryOp::Sat => Some(self.saturate(fmt, x)),
            FloatUnaryOp::Relu => Some(self.relu(fmt, mode.ftz, x)),
            FloatUnaryOp::CanonicalNan => Some(self.with_canonical_nans(fmt, x)),
            FloatUnaryOp::RoundInt => self.round_to_int(fmt, mode, x),
            FloatUnaryOp::Sqrt if mode.round != Round::Rn => {
                (fmt == FloatFmt::F32).then(|| self.directed_sqrt(mode, x))
            }
            FloatUnaryOp::Sqrt | FloatUnaryOp::SqrtApprox => {
                let x = self.flush(fmt, mode.ftz, x);
                Some(self.ins().sqrt(x))
            }
            FloatUnaryOp::RcpApprox | FloatUnaryOp::RsqrtApprox
                if fmt == FloatFmt::F64 && mode.ftz =>
            {
                Some(self.high_word_approx(op == FloatUnaryOp::RsqrtApprox, x))
            }
            FloatUnaryOp::RcpApprox => {
                let one = self.float_like(fmt, x, 1.0);
                self.float_binary(
                    FloatBinaryOp::Div,
                    fmt,
                    FloatMode {
                        round: Round::Rn,
                        ..mode
                    },
                    one,
                    x,
                )
            }
            // Both roundings together stay below 2^-23, the bound is 2^-22.9.
            FloatUnaryOp::RsqrtApprox => {
                let x = self.flush(fmt, mode.ftz, x);
                let root = self.ins().sqrt(x);
                let one = self.float_like(fmt, x, 1.0);
                Some(self.ins().fdiv(one, root))
            }
            FloatUnaryOp::SinApprox
            | FloatUnaryOp::CosApprox
            | FloatUnaryOp::Lg2Approx
            | FloatUnaryOp::Ex2Approx
            | FloatUnaryOp::TanhApprox => {
                if fmt == FloatFmt::F32 {
                    self.approx_f32(op, mode.ftz, x)
                } else {
                    None
                }
            }
        }
    }

    fn saturate(&mut self, fmt: FloatFmt, x: cl::Value) -> cl::Value {
        let (zero, one) = (self.float_like(fmt, x, 0.0), self.float_like(fmt, x, 1.0));
        let x = self.greater(x, zero);
        let x = self.lesser(x, one);
        self.saturated.insert(x);
        x
    }

    fn relu(&mut self, fmt: FloatFmt, ftz: bool, x: cl::Value) -> cl::Value {
        let x = self.flush_always(fmt, ftz, x);
        let zero = self.float_like(fmt, x, 0.0);
        let positive = self.greater(x, zero);
        let nan = self.ins().fcmp(FloatCC::Unordered, x, x);
        let canonical = self.canonical_nan(fmt, x);
        self.pick(nan, canonical, positive)
    }

    fn round_to_int(&mut self, fmt: FloatFmt, mode: FloatMode, x: cl::Value) -> Option<cl::Value> {
        let x = self.flush_always(fmt, mode.ftz, x);
        self.integral(mode.round, x)
    }

    /// Rounds to an integral value, where that is one instruction.
    pub(super) fn integral(&mut self, round: Round, x: cl::Value) -> Option<cl::Value> {
        match round {
            Round::Rn => Some(self.ins().nearest(x)),
            Round::Rz => Some(self.ins().trunc(x)),
            Round::Rm => Some(self.ins().floor(x)),
            Round::Rp => Some(self.ins().ceil(x)),
            Round::Rna => None,
        }
    }

    /// The result of arithmetic with canonical NaNs.
    pub(crate) fn with_canonical_nans(&mut self, fmt: FloatFmt, x: cl::Value) -> cl::Value {
        let nan = self.ins().fcmp(FloatCC::Unordered, x, x);
        let canonical = self.canonical_nan(fmt, x);
        self.pick(nan, canonical, x)
    }

    /// `rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64`: of operand and result only the high words
    /// count.
    fn high_word_approx(&mut self, root: bool, x: cl::Value) -> cl::Value {
        let fmt = FloatFmt::F64;
        let x = self.high_word(x);
        let one = self.float_like(fmt, x, 1.0);
        let y = if root {
            let root = self.ins().sqrt(x);
            self.ins().fdiv(one, root)
        } else {
            self.ins().fdiv(one, x)
        };
        let high = self.high_word(y);
        let nan = self.bits_like(fmt, x, 0x7fff_ffff_0000_0000);
        let nan = self.as_float(fmt, nan);
        let is_nan = self.ins().fcmp(FloatCC::Unordered, y, y);
        self.pick(is_nan, nan, high)
    }

    /// The high word of an f64 alone, subnormals flushed.
    fn high_word(&mut self, x: cl::Value) -> cl::Value {
        let fmt = FloatFmt::F64;
        let magnitude = self.ins().fabs(x);
        let least = self.float_like(fmt, x, f64::MIN_POSITIVE);
        let small = self.ins().fcmp(FloatCC::LessThan, magnitude, least);
        let bits = self.as_int(fmt, x);
        let (high, sign) = (
            self.bits_like(fmt, x, 0xffff_ffff_0000_0000),
            self.bits_like(fmt, x, 1 << 63),
        );
        let mask = self.pick(small, sign, high);
        let kept = self.ins().band(bits, mask);
        self.as_float(fmt, kept)
    }

    /// Flushes what is marked as small to a zero of its sign.
    fn flush_marked(&mut self, small: cl::Value, x: cl::Value) -> cl::Value {
        let fmt = FloatFmt::F32;
        let bits = self.as_int(fmt, x);
        let sign_mask = self.bits_like(fmt, x, SIGN_F32);
        let sign = self.ins().band(bits, sign_mask);
        let flushed = self.pick(small, sign, bits);
        self.as_float(fmt, flushed)
    }

    /// `x * y + z` (or without `z`), flushed by what it is before it becomes a subnormal: what
    /// rounds up to the least normal number only because subnormals have fewer bits is flushed too.
    /// The scaled copy has no subnormals near that bound.
    fn flushed_product(&mut self, x: cl::Value, y: cl::Value, z: Option<cl::Value>) -> cl::Value {
        let fmt = FloatFmt::F32;
        let up = self.float_like(fmt, x, 2f64.powi(32));
        let scaled = self.ins().fmul(x, up);
        let (plain, scaled) = match z {
            Some(z) => {
                let up = self.ins().fmul(z, up);
                (self.ins().fma(x, y, z), self.ins().fma(scaled, y, up))
            }
            None => (self.ins().fmul(x, y), self.ins().fmul(scaled, y)),
        };
        let size = self.ins().fabs(scaled);
        let least = self.float_like(fmt, x, 2f64.powi(32 - 126));
        let small = self.ins().fcmp(FloatCC::LessThan, size, least);
        self.flush_marked(small, plain)
    }

    /// `x / y`, flushed likewise. A quotient of 24-bit numbers is never so near below a power of
    /// two that rounding it to 24 bits makes it one.
    fn flushed_quotient(&mut self, x: cl::Value, y: cl::Value) -> cl::Value {
        let fmt = FloatFmt::F32;
        let quotient = self.ins().fdiv(x, y);
        let (over, under) = (self.ins().fabs(x), self.ins().fabs(y));
        let least = self.float_like(fmt, x, f64::from(f32::MIN_POSITIVE));
        let bound = self.ins().fmul(under, least);
        let small = self.ins().fcmp(FloatCC::LessThan, over, bound);
        self.flush_marked(small, quotient)
    }

    pub(crate) fn float_binary(
        &mut self,
        op: FloatBinaryOp,
        fmt: FloatFmt,
        mode: FloatMode,
        x: cl::Value,
        y: cl::Value,
    ) -> Option<cl::Value> {
        if matches!(fmt, FloatFmt::F16 | FloatFmt::Bf16) {
            return self.half_binary(op, fmt, mode, x, y);
        }
        let (x, y) = (self.as_float(fmt, x), self.as_float(fmt, y));
        match op {
            FloatBinaryOp::Min
            | FloatBinaryOp::Max
            | FloatBinaryOp::MinNan
            | FloatBinaryOp::MaxNan => Some(self.min_max(op, fmt, mode.ftz, x, y)),
            _ if mode.round != Round::Rn => {
                if fmt == FloatFmt::F32 {
                    self.directed_binary(op, mode, x, y)
                } else {
                    None
                }
            }
            FloatBinaryOp::DivApprox if fmt != FloatFmt::F32 => None,
            FloatBinaryOp::Add
            | FloatBinaryOp::Sub
            | FloatBinaryOp::Mul
            | FloatBinaryOp::Div
            | FloatBinaryOp::DivApprox
            | FloatBinaryOp::DivFull => Some(self.arithmetic(op, fmt, mode.ftz, x, y)),
        }
    }

    /// A sum, a difference, a product or a quotient, rounded to the nearest.
    fn arithmetic(
        &mut self,
        op: FloatBinaryOp,
        fmt: FloatFmt,
        ftz: bool,
        x: cl::Value,
        y: cl::Value,
    ) -> cl::Value {
        self.stays_in_register(fmt, x);
        let (x, y) = (self.flush(fmt, ftz, x), self.flush(fmt, ftz, y));
        let z = match op {
            FloatBinaryOp::Mul if self.flushes_itself(fmt, ftz) => {
                return self.flushed_product(x, y, None);
            }
            FloatBinaryOp::Div | FloatBinaryOp::DivFull | FloatBinaryOp::DivApprox
                if self.flushes_itself(fmt, ftz) =>
            {
                let quotient = self.flushed_quotient(x, y);
                return if op == FloatBinaryOp::DivApprox {
                    self.approximate_quotient(x, y, quotient)
                } else {
                    quotient
                };
            }
            FloatBinaryOp::Add => self.ins().fadd(x, y),
            FloatBinaryOp::Sub => self.ins().fsub(x, y),
            FloatBinaryOp::Mul => self.ins().fmul(x, y),
            FloatBinaryOp::Div | FloatBinaryOp::DivFull => self.ins().fdiv(x, y),
            FloatBinaryOp::DivApprox => {
                let quotient = self.ins().fdiv(x, y);
                self.approximate_quotient(x, y, quotient)
            }
            FloatBinaryOp::Min
            | FloatBinaryOp::Max
            | FloatBinaryOp::MinNan
            | FloatBinaryOp::MaxNan => unreachable!("the caller admits no others"),
        };
        self.flush(fmt, ftz, z)
    }

    /// The result of `div.approx.f32` from a quotient: for divisors above 2^126 it is the dividend
    /// times zero (see "Floating Point Instructions: div").
    fn approximate_quotient(
        &mut self,
        x: cl::Value,
        y: cl::Value,
        quotient: cl::Value,
    ) -> cl::Value {
        const BOUND: f64 = (1u128 << 126) as f64;
        let fmt = FloatFmt::F32;
        let size = self.ins().fabs(y);
        let bound = self.float_like(fmt, y, BOUND);
        let is_large = self.ins().fcmp(FloatCC::GreaterThan, size, bound);
        let (bits, sign) = (self.as_int(fmt, y), self.bits_like(fmt, y, 1 << 31));
        let zero = self.ins().band(bits, sign);
        let zero = self.as_float(fmt, zero);
        let small = self.ins().fmul(x, zero);
        let (small, quotient) = (self.as_int(fmt, small), self.as_int(fmt, quotient));
        let picked = self.pick(is_large, small, quotient);
        self.as_float(fmt, picked)
    }

    pub(crate) fn fma(
        &mut self,
        fmt: FloatFmt,
        mode: FloatMode,
        args: [cl::Value; 3],
        lanes: Running,
    ) -> Option<cl::Value> {
        if matches!(fmt, FloatFmt::F16 | FloatFmt::Bf16) {
            return (mode.round == Round::Rn).then(|| self.half_fma(fmt, mode, args));
        }
        let [x, y, z] = args.map(|arg| self.as_float(fmt, arg));
        if mode.round != Round::Rn {
            return (fmt == FloatFmt::F32).then(|| self.directed_fma(mode, [x, y, z], lanes));
        }
        let [x, y, z] = [x, y, z].map(|x| self.flush(fmt, mode.ftz, x));
        if self.flushes_itself(fmt, mode.ftz) {
            return Some(self.flushed_product(x, y, Some(z)));
        }
        self.stays_in_register(fmt, y);
        let [x, y, z] = [x, y, z].map(|x| self.addend_or_factor(x));
        Some(self.ins().fma(x, y, z))
    }

    /// Has Cranelift load a factor or the first summand in f64 separately: as a memory operand it
    /// would swap places with the other one, and of two NaNs the other would be returned. A second
    /// use achieves that, and an unused copy of it emits no code.
    fn stays_in_register(&mut self, fmt: FloatFmt, x: cl::Value) {
        let dfg = &self.func.dfg;
        let is_load = |inst| dfg.insts[inst].opcode() == cl::Opcode::Load;
        if fmt == FloatFmt::F64 && dfg.value_def(x).inst().is_some_and(is_load) {
            self.ins().fneg(x);
        }
    }

    /// The result is a predicate: `i8`, or a mask of the operands' lane width.
    pub(crate) fn float_compare(
        &mut self,
        op: FloatCompareOp,
        fmt: FloatFmt,
        ftz: bool,
        x: cl::Value,
        y: cl::Value,
    ) -> cl::Value {
        if matches!(fmt, FloatFmt::F16 | FloatFmt::Bf16) {
            return self.half_compare(op, fmt, ftz, x, y);
        }
        let (x, y) = (self.as_float(fmt, x), self.as_float(fmt, y));
        let (x, y) = (self.flush(fmt, ftz, x), self.flush(fmt, ftz, y));
        let cc = match op {
            FloatCompareOp::Eq => FloatCC::Equal,
            FloatCompareOp::Lt => FloatCC::LessThan,
            FloatCompareOp::Le => FloatCC::LessThanOrEqual,
            FloatCompareOp::Gt => FloatCC::GreaterThan,
            FloatCompareOp::Ge => FloatCC::GreaterThanOrEqual,
            FloatCompareOp::Neu => FloatCC::NotEqual,
            FloatCompareOp::Ltu => FloatCC::UnorderedOrLessThan,
            FloatCompareOp::Leu => FloatCC::UnorderedOrLessThanOrEqual,
            FloatCompareOp::Gtu => FloatCC::UnorderedOrGreaterThan,
            FloatCompareOp::Geu => FloatCC::UnorderedOrGreaterThanOrEqual,
            FloatCompareOp::Num => FloatCC::Ordered,
            FloatCompareOp::Nan => FloatCC::Unordered,
            // These two have no vector form.
            FloatCompareOp::Ne => {
                let differ = self.ins().fcmp(FloatCC::NotEqual, x, y);
                let ordered = self.ins().fcmp(FloatCC::Ordered, x, y);
                return self.ins().band(differ, ordered);
            }
            FloatCompareOp::Equ => {
                let equal = self.ins().fcmp(FloatCC::Equal, x, y);
                let unordered = self.ins().fcmp(FloatCC::Unordered, x, y);
                return self.ins().bor(equal, unordered);
            }
        };
        self.ins().fcmp(cc, x, y)
    }
}
