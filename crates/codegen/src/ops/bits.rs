//! Floats as bits and numbers: the steps that all float operations share. Each takes a scalar or a
//! vector.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{FloatFmt, NumFmt, Type};

use super::{Emitter, Quad, int_type, vector_type};

const SIGN_F32: u64 = 0x8000_0000;
const NAN_F32: u64 = 0x7fff_ffff;

impl Emitter<'_> {
    pub(crate) fn is_vector(&self, x: cl::Value) -> bool {
        self.func.dfg.value_type(x).is_vector()
    }

    /// Reinterprets a scalar or vector as floats.
    pub(crate) fn as_float(&mut self, fmt: FloatFmt, x: cl::Value) -> cl::Value {
        match fmt {
            FloatFmt::F64 => self.cast_to(x, [types::F64, types::F64X2]),
            FloatFmt::F16 | FloatFmt::Bf16 | FloatFmt::F32 => {
                self.cast_to(x, [types::F32, types::F32X4])
            }
        }
    }

    /// Reinterprets a scalar as one type, a vector as another.
    fn cast_to(&mut self, x: cl::Value, [scalar, vector]: [cl::Type; 2]) -> cl::Value {
        match self.is_vector(x) {
            true => self.cast_vector(x, vector),
            false => self.cast_scalar(x, scalar),
        }
    }

    /// Reinterprets a scalar or vector as integers.
    pub(super) fn as_int(&mut self, fmt: FloatFmt, x: cl::Value) -> cl::Value {
        match fmt {
            FloatFmt::F64 => self.cast_to(x, [types::I64, types::I64X2]),
            FloatFmt::F16 | FloatFmt::Bf16 | FloatFmt::F32 => {
                self.cast_to(x, [types::I32, types::I32X4])
            }
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
    pub(crate) fn float_like(&mut self, fmt: FloatFmt, like: cl::Value, value: f64) -> cl::Value {
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
    pub(crate) fn pick(&mut self, cond: cl::Value, a: cl::Value, b: cl::Value) -> cl::Value {
        if !self.is_vector(a) {
            return self.ins().select(cond, a, b);
        }
        let ty = self.func.dfg.value_type(cond);
        let (x, y) = (self.cast_vector(a, ty), self.cast_vector(b, ty));
        let picked = self.ins().blendv(cond, x, y);
        let out = self.func.dfg.value_type(a);
        self.cast_vector(picked, out)
    }

    /// Subnormals to zeros of the same sign, by bits.
    pub(super) fn flush_bits(&mut self, x: cl::Value) -> cl::Value {
        let fmt = FloatFmt::F32;
        let bits = self.as_int(fmt, x);
        let magnitude_mask = self.bits_like(fmt, x, NAN_F32);
        let magnitude = self.ins().band(bits, magnitude_mask);
        let least = self.bits_like(fmt, x, 0x0080_0000);
        let subnormal = self.ins().icmp(IntCC::SignedLessThan, magnitude, least);
        let flushed = if self.is_vector(bits) {
            let drop = self.ins().band(subnormal, magnitude_mask);
            self.ins().band_not(bits, drop)
        } else {
            let sign_mask = self.bits_like(fmt, x, SIGN_F32);
            let sign = self.ins().band(bits, sign_mask);
            self.ins().select(subnormal, sign, bits)
        };
        self.as_float(fmt, flushed)
    }

    /// Flushes operands or results of arithmetic, unless the hardware does.
    pub(crate) fn flush(&mut self, fmt: FloatFmt, ftz: bool, x: cl::Value) -> cl::Value {
        if ftz && fmt == FloatFmt::F32 && !self.flush_denormals {
            self.flush_bits(x)
        } else {
            x
        }
    }

    pub(crate) fn flush_always(&mut self, fmt: FloatFmt, ftz: bool, x: cl::Value) -> cl::Value {
        if ftz && fmt == FloatFmt::F32 {
            self.flush_bits(x)
        } else {
            x
        }
    }

    /// An f64 with the other sign. Cranelift would merge an `fneg` into an `fma`, which does not
    /// change the sign of a NaN.
    pub(super) fn changed_sign(&mut self, x: cl::Value) -> cl::Value {
        let sign = self.float_like(FloatFmt::F64, x, -0.0);
        self.ins().bxor(x, sign)
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
        let less = self.ins().fcmp(FloatCC::LessThan, x, y);
        self.select_float(less, x, y)
    }

    /// `x > y ? x : y`.
    pub(super) fn greater(&mut self, x: cl::Value, y: cl::Value) -> cl::Value {
        let less = self.ins().fcmp(FloatCC::LessThan, y, x);
        self.select_float(less, x, y)
    }

    /// Whether `.ftz` has to be done here.
    pub(super) fn flushes_itself(&self, fmt: FloatFmt, ftz: bool) -> bool {
        ftz && fmt == FloatFmt::F32 && !self.flush_denormals
    }

    /// A vector of zeros for lanes of `ty`.
    pub(crate) fn zero_vector(&mut self, ty: Type) -> cl::Value {
        let zeros = [0; 16];
        self.vconst_bytes(vector_type(ty), &zeros)
    }

    /// A scalar integer to the nearest f32 or f64.
    pub(crate) fn int_to_float_scalar(
        &mut self,
        from: NumFmt,
        to: FloatFmt,
        x: cl::Value,
    ) -> cl::Value {
        let signed = from.is_signed_int();
        let x = self.cast_scalar(x, int_type(from.ty()));
        let x = match self.func.dfg.value_type(x) {
            types::I32 | types::I64 => x,
            _ if signed => self.ins().sextend(types::I32, x),
            _ => self.ins().uextend(types::I32, x),
        };
        let ty = if to == FloatFmt::F64 {
            types::F64
        } else {
            types::F32
        };
        if signed {
            self.ins().fcvt_from_sint(ty, x)
        } else {
            self.ins().fcvt_from_uint(ty, x)
        }
    }

    pub(crate) fn vector_to_f64(&mut self, from: NumFmt, x: cl::Value) -> Quad {
        let x = self.word_lanes(from, x);
        // The back end converts the low lanes; the high ones are brought there.
        let high = self.shuffle(
            x,
            x,
            [8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15],
        );
        let high = self.cast_vector(high, types::I32X4);
        [x, high]
            .into_iter()
            .map(|x| {
                if from == NumFmt::U32 {
                    let wide = self.ins().uwiden_low(x);
                    self.ins().fcvt_from_uint(types::F64X2, wide)
                } else {
                    let wide = self.ins().swiden_low(x);
                    self.ins().fcvt_from_sint(types::F64X2, wide)
                }
            })
            .collect()
    }

    /// The high words of four 64-bit lanes.
    pub(super) fn high_words(&mut self, lo: cl::Value, hi: cl::Value) -> cl::Value {
        let words = self.shuffle(
            lo,
            hi,
            [4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31],
        );
        self.cast_vector(words, types::I32X4)
    }

    fn select_float(&mut self, cond: cl::Value, x: cl::Value, y: cl::Value) -> cl::Value {
        if !self.is_vector(x) {
            return self.ins().select(cond, x, y);
        }
        let ty = self.func.dfg.value_type(x);
        let mask = self.cast_vector(cond, ty);
        self.ins().bitselect(mask, x, y)
    }

    /// Lanes of an integer format of up to 32 bits as 32-bit integers; unsigned ones below 2^31
    /// count as signed.
    pub(super) fn word_lanes(&mut self, from: NumFmt, x: cl::Value) -> cl::Value {
        if from.is_signed_int() && from.ty() < Type::B32 {
            self.lanes_signed(from.ty(), x)
        } else {
            x
        }
    }
}
