//! f16 and bf16: conversion to f32 by bit operations (`small_floats` has the other direction),
//! arithmetic in f32 rounded once more.
//!
//! A half is a scalar `i16` or stands zero-extended in the lanes of an `i32x4`. Sums, products,
//! quotients and roots rounded to f32 and then to the half are those rounded once, since f32 has
//! more than twice the bits of either format and two more; a fused multiply-add needs its inexact
//! sum rounded to odd first. Results that are NaN are canonical.
//!
//! Kernels with arithmetic in these formats never run with subnormals flushed by the hardware;
//! conversions may.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{FloatBinaryOp, FloatCompareOp, FloatFmt, FloatMode, FloatUnaryOp, Round};

use super::{Emitter, Quad};

const F32: FloatFmt = FloatFmt::F32;
const SIGN: u64 = 0x8000;
const MAGNITUDE: u64 = 0x7fff;
/// The canonical NaN of both formats.
const NAN: u64 = 0x7fff;
const F32_INFINITY: u64 = 0x7f80_0000;

/// The bits of infinity, also the mask of the exponent.
fn infinity(fmt: FloatFmt) -> u64 {
    if fmt == FloatFmt::F16 { 0x7c00 } else { 0x7f80 }
}

fn one(fmt: FloatFmt) -> u64 {
    if fmt == FloatFmt::F16 { 0x3c00 } else { 0x3f80 }
}

impl Emitter<'_> {
    /// A half's bits in 32-bit lanes or a scalar `i32`.
    fn half_bits(&mut self, x: cl::Value) -> cl::Value {
        if self.is_vector(x) {
            return self.cast_vector(x, types::I32X4);
        }
        let x = self.cast_scalar(x, types::I16);
        self.ins().uextend(types::I32, x)
    }

    /// Back from 32 bits, the upper ones zero.
    fn half_value(&mut self, bits: cl::Value) -> cl::Value {
        if self.is_vector(bits) {
            bits
        } else {
            self.ins().ireduce(types::I16, bits)
        }
    }

    /// An integer constant of 32 bits, scalar or vector as `like`.
    pub(crate) fn word(&mut self, like: cl::Value, bits: u64) -> cl::Value {
        self.bits_like(F32, like, bits)
    }

    pub(crate) fn masked(&mut self, x: cl::Value, mask: u64) -> cl::Value {
        let mask = self.word(x, mask);
        self.ins().band(x, mask)
    }

    pub(crate) fn above(&mut self, x: cl::Value, limit: u64) -> cl::Value {
        let limit = self.word(x, limit);
        self.ins().icmp(IntCC::SignedGreaterThan, x, limit)
    }

    /// Subnormals to zeros of their sign, on bits.
    fn flush_half(&mut self, fmt: FloatFmt, ftz: bool, bits: cl::Value) -> cl::Value {
        if !ftz {
            return bits;
        }
        let exponent = self.masked(bits, infinity(fmt));
        let normal = self.above(exponent, 0);
        let sign = self.masked(bits, SIGN);
        self.pick(normal, bits, sign)
    }

    /// The f32 of the same value; of a NaN some NaN.
    pub(super) fn half_to_f32(&mut self, fmt: FloatFmt, ftz: bool, x: cl::Value) -> cl::Value {
        let bits = self.half_bits(x);
        let bits = self.flush_half(fmt, ftz, bits);
        if fmt == FloatFmt::Bf16 {
            let up = self.ins().ishl_imm_s(bits, 16);
            return self.as_float(F32, up);
        }
        let magnitude = self.masked(bits, MAGNITUDE);
        let sign = self.ins().bxor(bits, magnitude);
        let sign = self.ins().ishl_imm_s(sign, 16);
        let up = self.ins().ishl_imm_s(magnitude, 13);
        let scaled = if self.flush_denormals {
            self.rebias_normal(magnitude, up)
        } else {
            self.rebias(up)
        };
        let special = self.above(magnitude, 0x7bff);
        let exponent = self.word(bits, F32_INFINITY);
        let exponent = self.keep_bits(special, exponent);
        let wide = self.ins().bor(scaled, exponent);
        let wide = self.ins().bor(wide, sign);
        self.as_float(F32, wide)
    }

    /// From the half's bias to that of f32: a product that makes subnormals normal.
    fn rebias(&mut self, up: cl::Value) -> cl::Value {
        let up = self.as_float(F32, up);
        let factor = self.float_like(F32, up, 2f64.powi(112));
        let scaled = self.ins().fmul(up, factor);
        self.as_int(F32, scaled)
    }

    /// The same without reading a subnormal, which the hardware would take for zero.
    fn rebias_normal(&mut self, magnitude: cl::Value, up: cl::Value) -> cl::Value {
        let bias = self.word(up, 112 << 23);
        let normal = self.ins().iadd(up, bias);
        let least = self.word(up, 113 << 23);
        let padded = self.ins().iadd(up, least);
        let (padded, pad) = (self.as_float(F32, padded), self.as_float(F32, least));
        let small = self.ins().fsub(padded, pad);
        let small = self.as_int(F32, small);
        let is_normal = self.above(magnitude, 0x3ff);
        self.pick(is_normal, normal, small)
    }

    /// `x` where `cond` holds, else zero, on integers.
    pub(super) fn keep_bits(&mut self, cond: cl::Value, x: cl::Value) -> cl::Value {
        if self.is_vector(x) {
            return self.ins().band(cond, x);
        }
        let zero = self.word(x, 0);
        self.ins().select(cond, x, zero)
    }

    /// Whether a half's bits are a NaN.
    fn half_is_nan(&mut self, fmt: FloatFmt, bits: cl::Value) -> cl::Value {
        let magnitude = self.masked(bits, MAGNITUDE);
        self.above(magnitude, infinity(fmt))
    }

    pub(super) fn half_unary(
        &mut self,
        op: FloatUnaryOp,
        fmt: FloatFmt,
        mode: FloatMode,
        x: cl::Value,
    ) -> Option<cl::Value> {
        match op {
            FloatUnaryOp::Neg
            | FloatUnaryOp::Abs
            | FloatUnaryOp::Copy
            | FloatUnaryOp::Sat
            | FloatUnaryOp::Relu => {
                let bits = self.half_bits(x);
                let bits = self.flush_half(fmt, mode.ftz, bits);
                let result = self.half_sign_op(op, fmt, bits);
                Some(self.half_value(result))
            }
            // Every half that this file computes has a canonical NaN, and bits from elsewhere never
            // reach this op.
            FloatUnaryOp::CanonicalNan => None,
            FloatUnaryOp::RoundInt
            | FloatUnaryOp::Sqrt
            | FloatUnaryOp::RcpApprox
            | FloatUnaryOp::SqrtApprox
            | FloatUnaryOp::RsqrtApprox
            | FloatUnaryOp::SinApprox
            | FloatUnaryOp::CosApprox
            | FloatUnaryOp::Lg2Approx
            | FloatUnaryOp::Ex2Approx
            | FloatUnaryOp::TanhApprox => {
                let wide = self.half_to_f32(fmt, mode.ftz, x);
                // What is subnormal in f32 is zero in f16.
                let ftz = op == FloatUnaryOp::Ex2Approx && (mode.ftz || fmt == FloatFmt::F16);
                let y = self.float_unary(
                    op,
                    F32,
                    FloatMode {
                        round: mode.round,
                        ftz,
                    },
                    wide,
                )?;
                Some(self.f32_to_half(fmt, mode.ftz, y))
            }
        }
    }

    /// Unary ops on bits.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others change no bits")]
    fn half_sign_op(&mut self, op: FloatUnaryOp, fmt: FloatFmt, bits: cl::Value) -> cl::Value {
        match op {
            FloatUnaryOp::Neg => {
                let sign = self.word(bits, SIGN);
                self.ins().bxor(bits, sign)
            }
            FloatUnaryOp::Abs => self.masked(bits, MAGNITUDE),
            FloatUnaryOp::Sat => {
                let most = self.word(bits, one(fmt));
                let clamped = self.ins().smin(bits, most);
                // Neither negative nor NaN.
                let limit = self.word(bits, infinity(fmt));
                let number = self.ins().icmp(IntCC::SignedLessThanOrEqual, bits, limit);
                self.keep_bits(number, clamped)
            }
            FloatUnaryOp::Relu => {
                let limit = self.word(bits, MAGNITUDE);
                let positive = self.ins().icmp(IntCC::SignedLessThanOrEqual, bits, limit);
                let kept = self.keep_bits(positive, bits);
                let is_nan = self.half_is_nan(fmt, bits);
                let nan = self.word(bits, NAN);
                self.pick(is_nan, nan, kept)
            }
            _ => bits,
        }
    }

    pub(super) fn half_binary(
        &mut self,
        op: FloatBinaryOp,
        fmt: FloatFmt,
        mode: FloatMode,
        x: cl::Value,
        y: cl::Value,
    ) -> Option<cl::Value> {
        match op {
            FloatBinaryOp::Min
            | FloatBinaryOp::Max
            | FloatBinaryOp::MinNan
            | FloatBinaryOp::MaxNan => Some(self.half_min_max(op, fmt, mode.ftz, x, y)),
            FloatBinaryOp::Add | FloatBinaryOp::Sub | FloatBinaryOp::Mul | FloatBinaryOp::Div
                if mode.round == Round::Rn =>
            {
                let (x, y) = (
                    self.half_to_f32(fmt, mode.ftz, x),
                    self.half_to_f32(fmt, mode.ftz, y),
                );
                let z = self.float_binary(op, F32, FloatMode::RN, x, y)?;
                Some(self.f32_to_half(fmt, mode.ftz, z))
            }
            FloatBinaryOp::Add | FloatBinaryOp::Sub | FloatBinaryOp::Mul | FloatBinaryOp::Div => {
                None
            }
            FloatBinaryOp::DivApprox | FloatBinaryOp::DivFull => None,
        }
    }

    /// Integers in the order of the values, -0 below +0; its own inverse on the low 16 bits.
    fn half_order(&mut self, bits: cl::Value) -> cl::Value {
        let up = self.ins().ishl_imm_s(bits, 16);
        let signed = self.ins().sshr_imm_s(up, 16);
        let negative = self.ins().sshr_imm_s(up, 31);
        let flip = self.masked(negative, MAGNITUDE);
        self.ins().bxor(signed, flip)
    }

    fn half_min_max(
        &mut self,
        op: FloatBinaryOp,
        fmt: FloatFmt,
        ftz: bool,
        x: cl::Value,
        y: cl::Value,
    ) -> cl::Value {
        let (x, y) = (self.half_bits(x), self.half_bits(y));
        let (x, y) = (self.flush_half(fmt, ftz, x), self.flush_half(fmt, ftz, y));
        let (a, b) = (self.half_order(x), self.half_order(y));
        let is_min = matches!(op, FloatBinaryOp::Min | FloatBinaryOp::MinNan);
        let picked = if is_min {
            self.ins().smin(a, b)
        } else {
            self.ins().smax(a, b)
        };
        let picked = self.half_order(picked);
        let picked = self.masked(picked, 0xffff);
        let (nan_x, nan_y) = (self.half_is_nan(fmt, x), self.half_is_nan(fmt, y));
        let nan = self.word(x, NAN);
        let result = if matches!(op, FloatBinaryOp::MinNan | FloatBinaryOp::MaxNan) {
            let either = self.ins().bor(nan_x, nan_y);
            self.pick(either, nan, picked)
        } else {
            let picked = self.pick(nan_x, y, picked);
            let picked = self.pick(nan_y, x, picked);
            let both = self.ins().band(nan_x, nan_y);
            self.pick(both, nan, picked)
        };
        self.half_value(result)
    }

    pub(super) fn half_compare(
        &mut self,
        op: FloatCompareOp,
        fmt: FloatFmt,
        ftz: bool,
        x: cl::Value,
        y: cl::Value,
    ) -> cl::Value {
        let (x, y) = (self.half_to_f32(fmt, ftz, x), self.half_to_f32(fmt, ftz, y));
        self.float_compare(op, F32, false, x, y)
    }

    pub(super) fn half_fma(
        &mut self,
        fmt: FloatFmt,
        mode: FloatMode,
        args: [cl::Value; 3],
    ) -> cl::Value {
        let [x, y, z] = args.map(|arg| self.half_to_f32(fmt, mode.ftz, arg));
        let sum = if fmt == FloatFmt::F16 {
            // Exact: 22 bits.
            let product = self.ins().fmul(x, y);
            self.odd_sum_f32(product, z)
        } else {
            self.bf16_fma(x, y, z)
        };
        self.f32_to_half(fmt, mode.ftz, sum)
    }

    /// `x + y` and its error, both exact together (Knuth's TwoSum).
    pub(super) fn two_sum(&mut self, x: cl::Value, y: cl::Value) -> (cl::Value, cl::Value) {
        let sum = self.ins().fadd(x, y);
        let y_part = self.ins().fsub(sum, x);
        let x_part = self.ins().fsub(sum, y_part);
        let x_error = self.ins().fsub(x, x_part);
        let y_error = self.ins().fsub(y, y_part);
        (sum, self.ins().fadd(x_error, y_error))
    }

    /// `x + y` rounded to odd: toward zero, the last bit set if that is inexact.
    fn odd_sum_f32(&mut self, x: cl::Value, y: cl::Value) -> cl::Value {
        let (sum, error) = self.two_sum(x, y);
        let (bits, error_bits) = (self.as_int(F32, sum), self.as_int(F32, error));
        // Of an infinite sum the error is NaN and does not count.
        let size = self.ins().fabs(error);
        let zero = self.float_like(F32, x, 0.0);
        let inexact = self.ins().fcmp(FloatCC::GreaterThan, size, zero);
        let differ = self.ins().bxor(bits, error_bits);
        let back = self.ins().sshr_imm_s(differ, 31);
        let toward_zero = self.ins().iadd(bits, back);
        let last = self.word(bits, 1);
        let odd = self.ins().bor(toward_zero, last);
        let result = self.pick(inexact, odd, bits);
        self.as_float(F32, result)
    }

    /// The sum of a product and a number, with enough bits and a sticky one for bf16. In f64, where
    /// the product neither overflows nor loses bits.
    fn bf16_fma(&mut self, x: cl::Value, y: cl::Value, z: cl::Value) -> cl::Value {
        let [x, y, z] = [x, y, z].map(|arg| self.promote(arg));
        let sums: Quad = (0..x.len())
            .map(|i| {
                let product = self.ins().fmul(x[i], y[i]);
                self.odd_sum_f64(product, z[i])
            })
            .collect();
        self.demote_odd(sums)
    }

    fn odd_sum_f64(&mut self, x: cl::Value, y: cl::Value) -> cl::Value {
        let (sum, error) = self.two_sum(x, y);
        self.to_odd(sum, error)
    }

    /// An f64 sum rounded to odd instead of to nearest, given its error. The product of both must
    /// neither over- nor underflow.
    pub(super) fn to_odd(&mut self, sum: cl::Value, error: cl::Value) -> cl::Value {
        let fmt = FloatFmt::F64;
        let bits = self.as_int(fmt, sum);
        let sides = self.ins().fmul(sum, error);
        let zero = self.float_like(fmt, sum, 0.0);
        let below = self.ins().fcmp(FloatCC::LessThan, sides, zero);
        let above = self.ins().fcmp(FloatCC::GreaterThan, sides, zero);
        let (last, back) = (
            self.bits_like(fmt, sum, 1),
            self.bits_like(fmt, sum, u64::MAX),
        );
        let emit = self.ins().iadd(bits, back);
        let toward_zero = self.pick(below, emit, bits);
        let odd = self.ins().bor(toward_zero, last);
        let inexact = self.ins().bor(below, above);
        let result = self.pick(inexact, odd, bits);
        self.as_float(fmt, result)
    }

    /// f32 to f64: one scalar, or the two vectors of a quad.
    pub(super) fn promote(&mut self, x: cl::Value) -> Quad {
        let x = self.as_float(F32, x);
        if !self.is_vector(x) {
            return Quad::from_elem(self.ins().fpromote(types::F64, x), 1);
        }
        let low = self.ins().fvpromote_low(x);
        let upper = [8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15];
        let high = self.shuffle(x, x, upper);
        let high = self.cast_vector(high, types::F32X4);
        [low, self.ins().fvpromote_low(high)].into_iter().collect()
    }

    /// f64 to f32 such that rounding that to a half is right: only the first 13 bits are kept, the
    /// last of them set if any other was. Even the least half has them all in f32, so that nothing
    /// is rounded here.
    pub(super) fn demote_odd(&mut self, x: Quad) -> cl::Value {
        const DROPPED: u64 = (1 << 40) - 1;
        let fmt = FloatFmt::F64;
        let kept: Quad = x
            .into_iter()
            .map(|x| {
                let bits = self.as_int(fmt, x);
                let mask = self.bits_like(fmt, x, DROPPED);
                let rest = self.ins().band(bits, mask);
                let carry = self.ins().iadd(rest, mask);
                let sticky = self.ins().bor(carry, bits);
                let kept = self.ins().band_not(sticky, mask);
                self.as_float(fmt, kept)
            })
            .collect();
        self.demote(&kept)
    }
}
