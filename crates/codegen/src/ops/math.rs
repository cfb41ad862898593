//! The `.approx` functions in f32: range reduction and a polynomial, the same code for scalars and
//! vectors, and step by step the same as in `eval::approx`, which keeps the coefficients.
//!
//! Bounds and special values are those of the tables in "Floating Point Instructions" of the PTX
//! ISA; the errors in the comments are measured over all inputs. Where the hardware flushes
//! subnormals, nothing here depends on them: `.ftz` forms make none, the others are never compiled
//! in that mode.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::eval::approx::{
    EX2, LG2, MANY_TURNS, PI_HIGH, ROUND_TO_INT, SIN, TANH_ONE, TANH_P, TANH_Q,
};
use ptxjit_ir::{self as ir, FloatFmt, FloatMode, FloatUnaryOp, InstData, Type};
use smallvec::SmallVec;

use super::Emitter;

const F32: FloatFmt = FloatFmt::F32;

impl Emitter<'_> {
    /// One of the five functions of this file; `x` is an f32 or a vector of them.
    pub(super) fn approx_f32(
        &mut self,
        op: FloatUnaryOp,
        ftz: bool,
        x: cl::Value,
    ) -> Option<cl::Value> {
        let x = self.as_float(F32, x);
        match op {
            FloatUnaryOp::SinApprox => {
                let x = self.flush(F32, ftz, x);
                Some(self.sin_cos(op, x))
            }
            FloatUnaryOp::CosApprox => Some(self.sin_cos(op, x)),
            FloatUnaryOp::Lg2Approx => {
                let x = self.flush(F32, ftz, x);
                Some(self.lg2(ftz, x))
            }
            FloatUnaryOp::Ex2Approx if ftz => Some(self.ex2(x)),
            FloatUnaryOp::Ex2Approx => Some(self.ex2_subnormal(x)),
            FloatUnaryOp::TanhApprox => Some(self.tanh(x)),
            FloatUnaryOp::Neg
            | FloatUnaryOp::Abs
            | FloatUnaryOp::Sat
            | FloatUnaryOp::Relu
            | FloatUnaryOp::Copy
            | FloatUnaryOp::CanonicalNan
            | FloatUnaryOp::RoundInt
            | FloatUnaryOp::Sqrt
            | FloatUnaryOp::RcpApprox
            | FloatUnaryOp::SqrtApprox
            | FloatUnaryOp::RsqrtApprox => None,
        }
    }

    /// The polynomial with these coefficients, lowest first.
    fn polynomial(&mut self, x: cl::Value, coefficients: &[f64]) -> cl::Value {
        let mut rest = coefficients.iter().rev();
        let highest = *rest.next().expect("a polynomial has coefficients");
        let mut sum = self.float_like(F32, x, highest);
        for &coefficient in rest {
            let coefficient = self.float_like(F32, x, coefficient);
            sum = self.ins().fma(sum, x, coefficient);
        }
        sum
    }

    /// The integer nearest to `x`, as a float and in the low bits of an integer.
    fn split_int(&mut self, x: cl::Value) -> (cl::Value, cl::Value) {
        let big = self.float_like(F32, x, ROUND_TO_INT);
        let sum = self.ins().fadd(x, big);
        let bits = self.as_int(F32, sum);
        (self.ins().fsub(sum, big), bits)
    }

    /// `x` where `cond` holds (a comparison of such values), else +0.
    fn keep_if(&mut self, cond: cl::Value, x: cl::Value) -> cl::Value {
        if self.is_vector(x) {
            let (mask, bits) = (self.as_int(F32, cond), self.as_int(F32, x));
            let kept = self.ins().band(mask, bits);
            return self.as_float(F32, kept);
        }
        let zero = self.float_like(F32, x, 0.0);
        self.ins().select(cond, x, zero)
    }

    /// `y`, a NaN where `x` is one.
    fn nan_from(&mut self, x: cl::Value, y: cl::Value) -> cl::Value {
        let nan = self.ins().fcmp(FloatCC::Unordered, x, x);
        self.pick(nan, x, y)
    }

    /// 2^x, zero where it would be subnormal: 0.9 ulp. Integers give exact results.
    fn ex2(&mut self, x: cl::Value) -> cl::Value {
        // A NaN goes through as 128 and comes back in the end.
        let bits = self.as_int(F32, x);
        let most = self.bits_like(F32, x, u64::from(128f32.to_bits()));
        let clamped = self.ins().smin(bits, most);
        let clamped = self.as_float(F32, clamped);
        let (whole, count) = self.split_int(clamped);
        let part = self.ins().fsub(clamped, whole);
        let power = self.polynomial(part, &EX2);
        let power = self.as_int(F32, power);
        // Of 2^128 this makes an infinity.
        let up = self.ins().ishl_imm_s(count, 23);
        let scaled = self.ins().iadd(power, up);
        let scaled = self.as_float(F32, scaled);
        let least = self.float_like(F32, x, -126.0);
        let normal = self.ins().fcmp(FloatCC::GreaterThanOrEqual, x, least);
        let y = self.keep_if(normal, scaled);
        self.nan_from(x, y)
    }

    /// 2^x with subnormal results.
    fn ex2_subnormal(&mut self, x: cl::Value) -> cl::Value {
        let least = self.float_like(F32, x, -126.0);
        let small = self.ins().fcmp(FloatCC::LessThan, x, least);
        let shift = self.float_like(F32, x, 64.0);
        let shift = self.keep_if(small, shift);
        // Exact where it is not zero: it takes x nearer to zero.
        let x = self.ins().fadd(x, shift);
        let y = self.ex2(x);
        let (one, back) = (
            self.float_like(F32, x, 1.0),
            self.float_like(F32, x, 2f64.powi(-64)),
        );
        let back = self.pick(small, back, one);
        self.ins().fmul(y, back)
    }

    /// log2(x): absolute error 2^-22.8 in (0.5, 2), relative error 2^-23 elsewhere.
    fn lg2(&mut self, ftz: bool, x: cl::Value) -> cl::Value {
        let zero = self.float_like(F32, x, 0.0);
        let small = (!ftz).then(|| {
            let least = self.float_like(F32, x, f64::from(f32::MIN_POSITIVE));
            self.ins().fcmp(FloatCC::LessThan, x, least)
        });
        let normal = match small {
            Some(small) => {
                let up = self.float_like(F32, x, 2f64.powi(24));
                let scaled = self.ins().fmul(x, up);
                self.pick(small, scaled, x)
            }
            None => x,
        };
        // The significand goes from sqrt(1/2) to sqrt(2), so that results near zero have no
        // exponent to cancel.
        let root = self.bits_like(
            F32,
            x,
            u64::from(core::f32::consts::FRAC_1_SQRT_2.to_bits()),
        );
        let bits = self.as_int(F32, normal);
        let above = self.ins().isub(bits, root);
        let exponent = self.ins().sshr_imm_s(above, 23);
        let exponent = self.int_to_float(exponent);
        let exponent = match small {
            Some(small) => {
                let down = self.float_like(F32, x, 24.0);
                let down = self.keep_if(small, down);
                self.ins().fsub(exponent, down)
            }
            None => exponent,
        };
        let mask = self.bits_like(F32, x, 0x007f_ffff);
        let significand = self.ins().band(above, mask);
        let significand = self.ins().iadd(significand, root);
        let significand = self.as_float(F32, significand);
        let one = self.float_like(F32, x, 1.0);
        let part = self.ins().fsub(significand, one);
        let factor = self.polynomial(part, &LG2);
        let y = self.ins().fma(part, factor, exponent);
        self.lg2_special(x, y, zero)
    }

    /// Infinity for itself, -infinity for zeros, NaN for what is not positive otherwise.
    fn lg2_special(&mut self, x: cl::Value, y: cl::Value, zero: cl::Value) -> cl::Value {
        let infinity = self.float_like(F32, x, f64::INFINITY);
        let below = self.ins().fcmp(FloatCC::LessThan, x, infinity);
        // Here NaN is not below either.
        let y = self.pick(below, y, x);
        let nan = self.float_like(F32, x, f64::NAN);
        let negative = self.ins().fcmp(FloatCC::LessThan, x, zero);
        let y = self.pick(negative, nan, y);
        let minus = self.float_like(F32, x, f64::NEG_INFINITY);
        let none = self.ins().fcmp(FloatCC::Equal, x, zero);
        self.pick(none, minus, y)
    }

    /// Integers of 32 bits to the nearest float.
    fn int_to_float(&mut self, x: cl::Value) -> cl::Value {
        let ty = if self.is_vector(x) {
            types::F32X4
        } else {
            types::F32
        };
        self.ins().fcvt_from_sint(ty, x)
    }

    /// sin or cos: absolute error 2^-22. Arguments of many turns of the circle are rare, and
    /// evaluated by a call.
    fn sin_cos(&mut self, op: FloatUnaryOp, x: cl::Value) -> cl::Value {
        let magnitude = self.ins().fabs(x);
        let limit = self.float_like(F32, x, f64::from(MANY_TURNS));
        let is_large = self
            .ins()
            .fcmp(FloatCC::GreaterThanOrEqual, magnitude, limit);
        let large = if self.is_vector(x) {
            self.ins().vany_true(is_large)
        } else {
            is_large
        };
        let (near, far, done) = (
            self.create_block(),
            self.create_block(),
            self.create_block(),
        );
        let ty = self.func.dfg.value_type(x);
        let result = self.append_block_param(done, ty);
        self.set_cold_block(far);
        self.ins().brif(large, far, &[], near, &[]);

        // The result of the other lanes must not depend on their neighbors.
        self.switch_to_block(far);
        let mut y = self.evaluate(op, x);
        if self.is_vector(x) {
            let others = self.sin_cos_near(op == FloatUnaryOp::CosApprox, x);
            let (y_bits, others) = (self.as_int(F32, y), self.as_int(F32, others));
            let bits = self.ins().bitselect(is_large, y_bits, others);
            y = self.as_float(F32, bits);
        }
        self.ins().jump(done, &[y.into()]);

        self.switch_to_block(near);
        let y = self.sin_cos_near(op == FloatUnaryOp::CosApprox, x);
        self.ins().jump(done, &[y.into()]);

        self.switch_to_block(done);
        result
    }

    /// Calls the IR's evaluation of an op for each lane.
    fn evaluate(&mut self, op: FloatUnaryOp, x: cl::Value) -> cl::Value {
        // Evaluation reads the operands that it is passed, not their names.
        let data = InstData::FloatUnary {
            op,
            fmt: F32,
            mode: FloatMode::RN,
            arg: ir::Value::from_u32(0),
        };
        if !self.is_vector(x) {
            let y = self.evaluated(&data, &[x]);
            return self.as_float(F32, y);
        }
        let bits = self.as_int(F32, x);
        let lanes: SmallVec<[cl::Value; 4]> = (0..4)
            .map(|lane| {
                let lane = self.ins().extractlane(bits, lane);
                self.evaluated(&data, &[lane])
            })
            .collect();
        let y = self.collect(Type::B32, &lanes);
        self.as_float(F32, y[0])
    }

    fn sin_cos_near(&mut self, cos: bool, x: cl::Value) -> cl::Value {
        const PI_LOW: f64 = core::f64::consts::PI - PI_HIGH as f64;
        let per_turn = self.float_like(F32, x, core::f64::consts::FRAC_1_PI);
        let big = self.float_like(F32, x, ROUND_TO_INT);
        // cos(x) is sin(x - (k - 1/2) π) with the sign of k: precise near its zeros too, where
        // tangents come from.
        let half = self.float_like(F32, x, 0.5);
        let sum = if cos {
            let sum = self.ins().fma(x, per_turn, half);
            self.ins().fadd(sum, big)
        } else {
            self.ins().fma(x, per_turn, big)
        };
        let turns = self.ins().fsub(sum, big);
        let turns = if cos {
            self.ins().fsub(turns, half)
        } else {
            turns
        };
        let (high, low) = (
            self.float_like(F32, x, -f64::from(PI_HIGH)),
            self.float_like(F32, x, -PI_LOW),
        );
        let angle = self.ins().fma(turns, high, x);
        let angle = self.ins().fma(turns, low, angle);
        let square = self.ins().fmul(angle, angle);
        // A factor, so that -0 stays -0.
        let factor = self.polynomial(square, &SIN);
        let y = self.ins().fmul(factor, angle);
        // Odd half turns change the sign.
        let (sum, y) = (self.as_int(F32, sum), self.as_int(F32, y));
        let sign = self.ins().ishl_imm_s(sum, 31);
        let y = self.ins().bxor(y, sign);
        self.as_float(F32, y)
    }

    /// tanh: relative error 2^-21.
    fn tanh(&mut self, x: cl::Value) -> cl::Value {
        let bits = self.as_int(F32, x);
        let magnitude_mask = self.bits_like(F32, x, 0x7fff_ffff);
        let magnitude = self.ins().band(bits, magnitude_mask);
        let sign = self.ins().bxor(bits, magnitude);
        let most = self.bits_like(F32, x, u64::from(TANH_ONE.to_bits()));
        let clamped = self.ins().smin(magnitude, most);
        let clamped = self.as_float(F32, clamped);
        let square = self.ins().fmul(clamped, clamped);
        let over = self.polynomial(square, &TANH_P);
        let under = self.polynomial(square, &TANH_Q);
        let ratio = self.ins().fdiv(over, under);
        let y = self.ins().fmul(ratio, clamped);
        let y = self.as_int(F32, y);
        let one = self.bits_like(F32, x, u64::from(1f32.to_bits()));
        let large = self
            .ins()
            .icmp(IntCC::SignedGreaterThanOrEqual, magnitude, most);
        let y = self.pick(large, one, y);
        let y = self.ins().bor(y, sign);
        let y = self.as_float(F32, y);
        self.nan_from(x, y)
    }
}
