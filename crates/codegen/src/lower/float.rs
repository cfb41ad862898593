//! Floating-point ops; one function serves scalars and vectors, since CLIF's ops do.
//!
//! NaNs: results in f32 may be any NaN; the optimizer inserts `fcanonical` where an instruction
//! reads their bits.
//!
//! Flushing: if the whole kernel runs with FTZ and DAZ set, arithmetic flushes by itself; otherwise
//! `.ftz` is done by bit operations, and so it is always for results that no arithmetic instruction
//! computes (negation, minimum, selection).

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{
    FloatBinaryOp, FloatCompareOp, FloatFmt, FloatMode, FloatUnaryOp, Inst, InstData, Round, Type,
};

use super::Lower;
use super::values::vector_type;

const SIGN_F32: u64 = 0x8000_0000;
const NAN_F32: u64 = 0x7fff_ffff;

impl Lower<'_, '_> {
    pub(super) fn is_vector(&self, x: cl::Value) -> bool {
        self.b.func.dfg.value_type(x).is_vector()
    }

    /// Reinterprets a scalar or vector as floats.
    pub(super) fn as_float(&mut self, fmt: FloatFmt, x: cl::Value) -> cl::Value {
        let vector = self.is_vector(x);
        match (fmt, vector) {
            (FloatFmt::F64, true) => self.cast_vector(x, types::F64X2),
            (FloatFmt::F64, false) => self.cast_scalar(x, types::F64),
            (_, true) => self.cast_vector(x, types::F32X4),
            (_, false) => self.cast_scalar(x, types::F32),
        }
    }

    /// Reinterprets a scalar or vector as integers.
    pub(super) fn as_int(&mut self, fmt: FloatFmt, x: cl::Value) -> cl::Value {
        let vector = self.is_vector(x);
        match (fmt, vector) {
            (FloatFmt::F64, true) => self.cast_vector(x, types::I64X2),
            (FloatFmt::F64, false) => self.cast_scalar(x, types::I64),
            (_, true) => self.cast_vector(x, types::I32X4),
            (_, false) => self.cast_scalar(x, types::I32),
        }
    }

    /// An integer constant of the format's width, scalar or vector as `like`.
    pub(super) fn bits_like(&mut self, fmt: FloatFmt, like: cl::Value, bits: u64) -> cl::Value {
        let ty = fmt.ty();
        if self.is_vector(like) {
            self.vconst(ty, bits)
        } else {
            self.constant(ty, bits, false)
        }
    }

    /// A float constant, scalar or vector as `like`.
    pub(super) fn float_like(&mut self, fmt: FloatFmt, like: cl::Value, value: f64) -> cl::Value {
        let bits = if fmt == FloatFmt::F64 {
            value.to_bits()
        } else {
            u64::from((value as f32).to_bits())
        };
        if self.is_vector(like) {
            let x = self.vconst(fmt.ty(), bits);
            self.as_float(fmt, x)
        } else {
            self.constant(fmt.ty(), bits, true)
        }
    }

    /// `cond ? a : b` where `cond` is the result of a comparison of such values.
    pub(super) fn pick(&mut self, cond: cl::Value, a: cl::Value, b: cl::Value) -> cl::Value {
        if !self.is_vector(a) {
            return self.b.ins().select(cond, a, b);
        }
        let ty = self.b.func.dfg.value_type(cond);
        let (x, y) = (self.cast_vector(a, ty), self.cast_vector(b, ty));
        let picked = self.b.ins().blendv(cond, x, y);
        let out = self.b.func.dfg.value_type(a);
        self.cast_vector(picked, out)
    }

    /// Subnormals to zeros of the same sign, by bits.
    pub(super) fn flush_bits(&mut self, x: cl::Value) -> cl::Value {
        let fmt = FloatFmt::F32;
        let bits = self.as_int(fmt, x);
        let magnitude_mask = self.bits_like(fmt, x, NAN_F32);
        let magnitude = self.b.ins().band(bits, magnitude_mask);
        let least = self.bits_like(fmt, x, 0x0080_0000);
        let subnormal = self.b.ins().icmp(IntCC::SignedLessThan, magnitude, least);
        let flushed = if self.is_vector(bits) {
            let drop = self.b.ins().band(subnormal, magnitude_mask);
            self.b.ins().band_not(bits, drop)
        } else {
            let sign_mask = self.bits_like(fmt, x, SIGN_F32);
            let sign = self.b.ins().band(bits, sign_mask);
            self.b.ins().select(subnormal, sign, bits)
        };
        self.as_float(fmt, flushed)
    }

    /// Flushes operands or results of arithmetic, unless the hardware does.
    pub(super) fn flush(&mut self, fmt: FloatFmt, ftz: bool, x: cl::Value) -> cl::Value {
        if ftz && fmt == FloatFmt::F32 && !self.inputs.flush_denormals {
            self.flush_bits(x)
        } else {
            x
        }
    }

    pub(super) fn flush_always(&mut self, fmt: FloatFmt, ftz: bool, x: cl::Value) -> cl::Value {
        if ftz && fmt == FloatFmt::F32 {
            self.flush_bits(x)
        } else {
            x
        }
    }

    /// An f64 with the other sign. Cranelift would merge an `fneg` into an `fma`, which does not
    /// change the sign of a NaN.
    fn changed_sign(&mut self, x: cl::Value) -> cl::Value {
        let sign = self.float_like(FloatFmt::F64, x, -0.0);
        self.b.ins().bxor(x, sign)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "outer arm admits no others")]
    pub(super) fn float_unary(
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
                    FloatUnaryOp::Neg => self.b.ins().fneg(x),
                    FloatUnaryOp::Abs => self.b.ins().fabs(x),
                    _ => x,
                })
            }
            FloatUnaryOp::Sat => {
                let (zero, one) = (self.float_like(fmt, x, 0.0), self.float_like(fmt, x, 1.0));
                let x = self.greater(x, zero);
                let x = self.lesser(x, one);
                self.emitted.saturated.insert(x);
                Some(x)
            }
            FloatUnaryOp::Relu => {
                let x = self.flush_always(fmt, mode.ftz, x);
                let zero = self.float_like(fmt, x, 0.0);
                let positive = self.greater(x, zero);
                let nan = self.b.ins().fcmp(FloatCC::Unordered, x, x);
                let canonical = self.canonical_nan(fmt, x);
                Some(self.pick(nan, canonical, positive))
            }
            FloatUnaryOp::CanonicalNan => Some(self.with_canonical_nans(fmt, x)),
            FloatUnaryOp::RoundInt => {
                let x = self.flush_always(fmt, mode.ftz, x);
                match mode.round {
                    Round::Rn => Some(self.b.ins().nearest(x)),
                    Round::Rz => Some(self.b.ins().trunc(x)),
                    Round::Rm => Some(self.b.ins().floor(x)),
                    Round::Rp => Some(self.b.ins().ceil(x)),
                    Round::Rna => None,
                }
            }
            FloatUnaryOp::Sqrt if mode.round != Round::Rn => {
                (fmt == FloatFmt::F32).then(|| self.directed_sqrt(mode, x))
            }
            FloatUnaryOp::Sqrt | FloatUnaryOp::SqrtApprox => {
                let x = self.flush(fmt, mode.ftz, x);
                Some(self.b.ins().sqrt(x))
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
                let root = self.b.ins().sqrt(x);
                let one = self.float_like(fmt, x, 1.0);
                Some(self.b.ins().fdiv(one, root))
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

    /// The result of arithmetic with canonical NaNs.
    pub(super) fn with_canonical_nans(&mut self, fmt: FloatFmt, x: cl::Value) -> cl::Value {
        let nan = self.b.ins().fcmp(FloatCC::Unordered, x, x);
        let canonical = self.canonical_nan(fmt, x);
        self.pick(nan, canonical, x)
    }

    pub(super) fn makes_nans_canonical(data: &InstData) -> bool {
        matches!(
            data,
            InstData::FloatUnary {
                op: FloatUnaryOp::CanonicalNan,
                fmt: FloatFmt::F32,
                ..
            }
        )
    }

    /// The same for all of the gang's lanes, where NaNs are rare.
    pub(super) fn canonical_nans_of_gang(&mut self, inst: Inst) {
        let node = &self.func.insts[inst];
        let (arg, result) = (node.data.args()[0], node.results[0]);
        let parts: Vec<cl::Value> = self
            .parts(arg)
            .iter()
            .map(|&part| self.cast_vector(part, types::F32X4))
            .collect();
        // One comparison tests two vectors, which must not share a register.
        let n_tests = self.strip().max(parts.len() / 2);
        let tests: Vec<cl::Value> = (0..n_tests)
            .map(|at| {
                let other = parts[(at + n_tests) % parts.len()];
                self.b.ins().fcmp(FloatCC::Unordered, parts[at], other)
            })
            .collect();
        let any = self.any(&tests);
        let fixed = self.unless(any, &parts, |lower| {
            parts
                .iter()
                .map(|&part| lower.with_canonical_nans(FloatFmt::F32, part))
                .collect()
        });
        for (q, part) in fixed.into_iter().enumerate() {
            self.push_quad(result, smallvec::smallvec![part], q);
        }
    }

    pub(super) fn canonical_nan(&mut self, fmt: FloatFmt, like: cl::Value) -> cl::Value {
        let bits = if fmt == FloatFmt::F64 {
            0x7ff8_0000_0000_0000
        } else {
            NAN_F32
        };
        let nan = self.bits_like(fmt, like, bits);
        self.as_float(fmt, nan)
    }

    /// `x < y ? x : y`; Cranelift selects one instruction for this form.
    pub(super) fn lesser(&mut self, x: cl::Value, y: cl::Value) -> cl::Value {
        let less = self.b.ins().fcmp(FloatCC::LessThan, x, y);
        self.select_float(less, x, y)
    }

    /// `x > y ? x : y`.
    pub(super) fn greater(&mut self, x: cl::Value, y: cl::Value) -> cl::Value {
        let less = self.b.ins().fcmp(FloatCC::LessThan, y, x);
        self.select_float(less, x, y)
    }

    fn select_float(&mut self, cond: cl::Value, x: cl::Value, y: cl::Value) -> cl::Value {
        if !self.is_vector(x) {
            return self.b.ins().select(cond, x, y);
        }
        let ty = self.b.func.dfg.value_type(x);
        let mask = self.cast_vector(cond, ty);
        self.b.ins().bitselect(mask, x, y)
    }

    /// `rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64`: of operand and result only the high words
    /// count.
    fn high_word_approx(&mut self, root: bool, x: cl::Value) -> cl::Value {
        let fmt = FloatFmt::F64;
        let x = self.high_word(x);
        let one = self.float_like(fmt, x, 1.0);
        let y = if root {
            let root = self.b.ins().sqrt(x);
            self.b.ins().fdiv(one, root)
        } else {
            self.b.ins().fdiv(one, x)
        };
        let high = self.high_word(y);
        let nan = self.bits_like(fmt, x, 0x7fff_ffff_0000_0000);
        let nan = self.as_float(fmt, nan);
        let is_nan = self.b.ins().fcmp(FloatCC::Unordered, y, y);
        self.pick(is_nan, nan, high)
    }

    /// The high word of an f64 alone, subnormals flushed.
    fn high_word(&mut self, x: cl::Value) -> cl::Value {
        let fmt = FloatFmt::F64;
        let magnitude = self.b.ins().fabs(x);
        let least = self.float_like(fmt, x, f64::MIN_POSITIVE);
        let small = self.b.ins().fcmp(FloatCC::LessThan, magnitude, least);
        let bits = self.as_int(fmt, x);
        let (high, sign) = (
            self.bits_like(fmt, x, 0xffff_ffff_0000_0000),
            self.bits_like(fmt, x, 1 << 63),
        );
        let mask = self.pick(small, sign, high);
        let kept = self.b.ins().band(bits, mask);
        self.as_float(fmt, kept)
    }

    /// Flushes what is marked as small to a zero of its sign.
    fn flush_marked(&mut self, small: cl::Value, x: cl::Value) -> cl::Value {
        let fmt = FloatFmt::F32;
        let bits = self.as_int(fmt, x);
        let sign_mask = self.bits_like(fmt, x, SIGN_F32);
        let sign = self.b.ins().band(bits, sign_mask);
        let flushed = self.pick(small, sign, bits);
        self.as_float(fmt, flushed)
    }

    /// Whether `.ftz` has to be done here.
    fn flushes_itself(&self, fmt: FloatFmt, ftz: bool) -> bool {
        ftz && fmt == FloatFmt::F32 && !self.inputs.flush_denormals
    }

    /// `x * y + z` (or without `z`), flushed by what it is before it becomes a subnormal: what
    /// rounds up to the least normal number only because subnormals have fewer bits is flushed too.
    /// The scaled copy has no subnormals near that bound.
    fn flushed_product(&mut self, x: cl::Value, y: cl::Value, z: Option<cl::Value>) -> cl::Value {
        let fmt = FloatFmt::F32;
        let up = self.float_like(fmt, x, 2f64.powi(32));
        let scaled = self.b.ins().fmul(x, up);
        let (plain, scaled) = match z {
            Some(z) => {
                let up = self.b.ins().fmul(z, up);
                (self.b.ins().fma(x, y, z), self.b.ins().fma(scaled, y, up))
            }
            None => (self.b.ins().fmul(x, y), self.b.ins().fmul(scaled, y)),
        };
        let size = self.b.ins().fabs(scaled);
        let least = self.float_like(fmt, x, 2f64.powi(32 - 126));
        let small = self.b.ins().fcmp(FloatCC::LessThan, size, least);
        self.flush_marked(small, plain)
    }

    /// `x / y`, flushed likewise. A quotient of 24-bit numbers is never so near below a power of
    /// two that rounding it to 24 bits makes it one.
    fn flushed_quotient(&mut self, x: cl::Value, y: cl::Value) -> cl::Value {
        let fmt = FloatFmt::F32;
        let quotient = self.b.ins().fdiv(x, y);
        let (over, under) = (self.b.ins().fabs(x), self.b.ins().fabs(y));
        let least = self.float_like(fmt, x, f64::from(f32::MIN_POSITIVE));
        let bound = self.b.ins().fmul(under, least);
        let small = self.b.ins().fcmp(FloatCC::LessThan, over, bound);
        self.flush_marked(small, quotient)
    }

    pub(super) fn float_binary(
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
            | FloatBinaryOp::DivFull => {
                self.stays_in_register(fmt, x);
                let (x, y) = (self.flush(fmt, mode.ftz, x), self.flush(fmt, mode.ftz, y));
                let z = match op {
                    FloatBinaryOp::Mul if self.flushes_itself(fmt, mode.ftz) => {
                        return Some(self.flushed_product(x, y, None));
                    }
                    FloatBinaryOp::Div | FloatBinaryOp::DivFull | FloatBinaryOp::DivApprox
                        if self.flushes_itself(fmt, mode.ftz) =>
                    {
                        let quotient = self.flushed_quotient(x, y);
                        return Some(if op == FloatBinaryOp::DivApprox {
                            self.approximate_quotient(x, y, quotient)
                        } else {
                            quotient
                        });
                    }
                    FloatBinaryOp::Add => self.b.ins().fadd(x, y),
                    FloatBinaryOp::Sub => self.b.ins().fsub(x, y),
                    FloatBinaryOp::Mul => self.b.ins().fmul(x, y),
                    FloatBinaryOp::Div | FloatBinaryOp::DivFull => self.b.ins().fdiv(x, y),
                    FloatBinaryOp::DivApprox
                    | FloatBinaryOp::Min
                    | FloatBinaryOp::Max
                    | FloatBinaryOp::MinNan
                    | FloatBinaryOp::MaxNan => {
                        let quotient = self.b.ins().fdiv(x, y);
                        self.approximate_quotient(x, y, quotient)
                    }
                };
                Some(self.flush(fmt, mode.ftz, z))
            }
        }
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
        let size = self.b.ins().fabs(y);
        let bound = self.float_like(fmt, y, BOUND);
        let is_large = self.b.ins().fcmp(FloatCC::GreaterThan, size, bound);
        let (bits, sign) = (self.as_int(fmt, y), self.bits_like(fmt, y, 1 << 31));
        let zero = self.b.ins().band(bits, sign);
        let zero = self.as_float(fmt, zero);
        let small = self.b.ins().fmul(x, zero);
        let (small, quotient) = (self.as_int(fmt, small), self.as_int(fmt, quotient));
        let picked = self.pick(is_large, small, quotient);
        self.as_float(fmt, picked)
    }

    pub(super) fn fma(
        &mut self,
        fmt: FloatFmt,
        mode: FloatMode,
        args: [cl::Value; 3],
    ) -> Option<cl::Value> {
        if matches!(fmt, FloatFmt::F16 | FloatFmt::Bf16) {
            return (mode.round == Round::Rn).then(|| self.half_fma(fmt, mode, args));
        }
        let [x, y, z] = args.map(|arg| self.as_float(fmt, arg));
        if mode.round != Round::Rn {
            return (fmt == FloatFmt::F32).then(|| self.directed_fma(mode, [x, y, z]));
        }
        let [x, y, z] = [x, y, z].map(|x| self.flush(fmt, mode.ftz, x));
        if self.flushes_itself(fmt, mode.ftz) {
            return Some(self.flushed_product(x, y, Some(z)));
        }
        self.stays_in_register(fmt, y);
        Some(self.b.ins().fma(x, y, z))
    }

    /// Has Cranelift load a factor or the first summand in f64 separately: as a memory operand it
    /// would swap places with the other one, and of two NaNs the other would be returned. A second
    /// use achieves that, and an unused copy of it emits no code.
    fn stays_in_register(&mut self, fmt: FloatFmt, x: cl::Value) {
        let dfg = &self.b.func.dfg;
        let is_load = |inst| dfg.insts[inst].opcode() == cl::Opcode::Load;
        if fmt == FloatFmt::F64 && dfg.value_def(x).inst().is_some_and(is_load) {
            self.b.ins().fneg(x);
        }
    }

    /// The result is a predicate: `i8`, or a mask of the operands' lane width.
    pub(super) fn float_compare(
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
                let differ = self.b.ins().fcmp(FloatCC::NotEqual, x, y);
                let ordered = self.b.ins().fcmp(FloatCC::Ordered, x, y);
                return self.b.ins().band(differ, ordered);
            }
            FloatCompareOp::Equ => {
                let equal = self.b.ins().fcmp(FloatCC::Equal, x, y);
                let unordered = self.b.ins().fcmp(FloatCC::Unordered, x, y);
                return self.b.ins().bor(equal, unordered);
            }
        };
        self.b.ins().fcmp(cc, x, y)
    }

    /// A vector of zeros for lanes of `ty`.
    pub(super) fn zero_vector(&mut self, ty: Type) -> cl::Value {
        let zeros = [0; 16];
        self.vconst_bytes(vector_type(ty), &zeros)
    }
}
