//! Conversions with an inline form; the others are evaluated by a call.

use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{Convert, FloatFmt, FloatMode, FloatUnaryOp, NumFmt, ResizeOp, Round, Type};

use super::rounding::{Exact, Rest};
use super::{Emitter, Quad, SHOW_INT, int_type, sign_extended};

/// The float format, for the two that have native arithmetic.
#[expect(clippy::wildcard_enum_match_arm, reason = "others work by bits")]
fn native(fmt: NumFmt) -> Option<FloatFmt> {
    match fmt {
        NumFmt::F32 => Some(FloatFmt::F32),
        NumFmt::F64 => Some(FloatFmt::F64),
        _ => None,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "others have other forms")]
fn half(fmt: NumFmt) -> Option<FloatFmt> {
    match fmt {
        NumFmt::F16 => Some(FloatFmt::F16),
        NumFmt::Bf16 => Some(FloatFmt::Bf16),
        _ => None,
    }
}

/// Whether a float format has no native arithmetic.
fn is_small(fmt: NumFmt) -> bool {
    !fmt.is_int() && native(fmt).is_none() && half(fmt).is_none()
}

fn is_plain(cvt: &Convert) -> bool {
    !cvt.satfinite && !cvt.relu
}

/// How an integer-to-integer conversion without saturation changes the width.
fn int_resize(cvt: &Convert) -> Option<ResizeOp> {
    let is_resize = cvt.from.is_int() && cvt.to.is_int() && !cvt.sat;
    is_resize.then_some(match cvt.from.is_signed_int() {
        _ if cvt.to.ty() <= cvt.from.ty() => ResizeOp::Trunc,
        true => ResizeOp::Sext,
        false => ResizeOp::Uext,
    })
}

fn unsaturated(cvt: &Convert) -> Convert {
    Convert { sat: false, ..*cvt }
}

fn mode_of(cvt: &Convert) -> FloatMode {
    FloatMode {
        round: cvt.round,
        ftz: cvt.ftz,
    }
}

impl Emitter<'_> {
    pub(crate) fn scalar_convert(&mut self, cvt: &Convert, x: cl::Value) -> Option<cl::Value> {
        if is_small(cvt.from) || is_small(cvt.to) {
            return self.small_convert(cvt, x);
        }
        if let Some(fmt) = half(cvt.to) {
            return self.convert_to_half(cvt, fmt, &Quad::from_elem(x, 1));
        }
        if let Some(fmt) = half(cvt.from) {
            let wide = self.half_to_f32(fmt, false, x);
            let rest = Convert {
                from: NumFmt::F32,
                ..*cvt
            };
            return if cvt.to == NumFmt::F32 {
                self.wide_half(cvt, fmt, wide)
            } else {
                self.scalar_convert(&rest, wide)
            };
        }
        if !is_plain(cvt) {
            return None;
        }
        if let Some(op) = int_resize(cvt) {
            let x = self.cast_scalar(x, int_type(cvt.from.ty()));
            return Some(if cvt.from.ty() == cvt.to.ty() {
                x
            } else {
                self.scalar_resize(op, cvt.from.ty(), cvt.to.ty(), x)
            });
        }
        match (native(cvt.from), native(cvt.to)) {
            (_, Some(to)) if cvt.sat => {
                let x = self.scalar_convert(&unsaturated(cvt), x)?;
                self.float_unary(FloatUnaryOp::Sat, to, FloatMode::RN, x)
            }
            (Some(from), Some(to)) => self.float_to_float(cvt, from, to, x),
            (None, Some(to)) if cvt.from.is_int() => self.scalar_from_int(cvt, to, x),
            (Some(from), None) if cvt.to.is_int() => self.scalar_to_int(cvt, from, x),
            _ => None,
        }
    }

    /// A half that became an f32, with the other modifiers of the conversion.
    fn wide_half(&mut self, cvt: &Convert, fmt: FloatFmt, wide: cl::Value) -> Option<cl::Value> {
        let mut wide = wide;
        if cvt.satfinite {
            return None;
        }
        if cvt.ftz && fmt == FloatFmt::Bf16 {
            wide = self.flush_bits(wide);
        }
        if cvt.relu || cvt.sat {
            let op = if cvt.relu {
                FloatUnaryOp::Relu
            } else {
                FloatUnaryOp::Sat
            };
            return self.float_unary(op, FloatFmt::F32, FloatMode::RN, wide);
        }
        Some(match fmt {
            FloatFmt::Bf16 => wide,
            FloatFmt::F16 | FloatFmt::F32 | FloatFmt::F64 => {
                self.with_canonical_nans(FloatFmt::F32, wide)
            }
        })
    }

    /// From one of the halves to itself.
    fn same_half(&mut self, cvt: &Convert, fmt: FloatFmt, x: cl::Value) -> Option<cl::Value> {
        if cvt.satfinite {
            return None;
        }
        let mut x = x;
        if cvt.integral {
            x = self.half_unary(
                FloatUnaryOp::RoundInt,
                fmt,
                FloatMode {
                    round: cvt.round,
                    ftz: false,
                },
                x,
            )?;
        }
        if cvt.relu {
            x = self.half_unary(FloatUnaryOp::Relu, fmt, FloatMode::RN, x)?;
        }
        if cvt.sat {
            x = self.half_unary(FloatUnaryOp::Sat, fmt, FloatMode::RN, x)?;
        }
        self.half_unary(FloatUnaryOp::Copy, fmt, FloatMode::RN, x)
    }

    /// Whether integers of a format are converted to a half through f32: they are exact there, or
    /// so large that they overflow in any case.
    fn by_f32(from: NumFmt, fmt: FloatFmt) -> bool {
        from.ty() < Type::B32 || (from.ty() == Type::B32 && fmt == FloatFmt::F16)
    }

    /// To a half: by an f32 that rounds to the same, one scalar or the vectors of a quad.
    fn convert_to_half(&mut self, cvt: &Convert, fmt: FloatFmt, x: &Quad) -> Option<cl::Value> {
        let wide = match (cvt.from, half(cvt.from)) {
            (_, Some(from)) if from == fmt => return self.same_half(cvt, fmt, x[0]),
            (_, Some(from)) => self.half_to_f32(from, false, x[0]),
            (NumFmt::F32, _) => x[0],
            (NumFmt::F64, _) => {
                let near = x.iter().map(|&x| self.as_float(FloatFmt::F64, x)).collect();
                let rest = Rest::Nothing;
                self.exact_to_f32_before(cvt.round, Exact { near, rest })?
            }
            (from, _) if from.is_int() && Self::by_f32(from, fmt) => {
                if self.is_vector(x[0]) {
                    self.vector_to_f32(from, x[0])
                } else {
                    self.int_to_float_scalar(from, FloatFmt::F32, x[0])
                }
            }
            (from, _) if from.is_int() => {
                let exact = self.exact_from_int(from, x);
                self.exact_to_f32_before(cvt.round, exact)?
            }
            _ => return None,
        };
        self.narrow_f32(cvt, None, wide)
    }

    /// An exact number as an f32 that rounds to a half in the same direction as the number does.
    fn exact_to_f32_before(&mut self, round: Round, exact: Exact) -> Option<cl::Value> {
        if round == Round::Rn {
            let odd = self.rounded_to_odd(exact);
            return Some(self.demote_odd(odd));
        }
        // Rounding twice in one direction is the same as once.
        self.exact_to_f32(FloatMode { round, ftz: false }, exact)
    }

    /// From or to tf32, a format of 8, 6 or 4 bits, or ue8m0.
    fn small_convert(&mut self, cvt: &Convert, x: cl::Value) -> Option<cl::Value> {
        match (cvt.from, half(cvt.from)) {
            (NumFmt::F32, _) => self.narrow_f32(cvt, None, x),
            (_, Some(from)) => {
                let wide = self.half_to_f32(from, false, x);
                self.narrow_f32(cvt, None, wide)
            }
            _ => self.small_to_half(cvt, x),
        }
    }

    /// Between f32 and f64, or rounding in place; scalars only, save the latter.
    fn float_to_float(
        &mut self,
        cvt: &Convert,
        from: FloatFmt,
        to: FloatFmt,
        x: cl::Value,
    ) -> Option<cl::Value> {
        match (from, to) {
            _ if from == to => {
                let op = if cvt.integral {
                    FloatUnaryOp::RoundInt
                } else {
                    FloatUnaryOp::Copy
                };
                self.float_unary(
                    op,
                    from,
                    FloatMode {
                        round: cvt.round,
                        ftz: cvt.ftz,
                    },
                    x,
                )
            }
            (FloatFmt::F32, _) => {
                let x = self.as_float(from, x);
                let x = self.flush(from, cvt.ftz, x);
                Some(self.ins().fpromote(types::F64, x))
            }
            _ => self.f64_to_f32(cvt, &Quad::from_elem(x, 1)),
        }
    }

    /// f64 to f32, one scalar or the two vectors of a quad.
    fn f64_to_f32(&mut self, cvt: &Convert, x: &Quad) -> Option<cl::Value> {
        let nearest = cvt.round == Round::Rn;
        let near: Quad = x
            .iter()
            .map(|&x| {
                let x = self.as_float(FloatFmt::F64, x);
                if cvt.ftz && nearest {
                    self.flush_before_demotion(x)
                } else {
                    x
                }
            })
            .collect();
        if nearest {
            return Some(self.demote(&near));
        }
        let exact = Exact {
            near,
            rest: Rest::Nothing,
        };
        self.exact_to_f32(mode_of(cvt), exact)
    }

    /// f64 numbers whose f32 is flushed to zeros of their sign: those below the least normal f32
    /// once rounded to 24 bits.
    fn flush_before_demotion(&mut self, x: cl::Value) -> cl::Value {
        const BOUND: f64 = f32::MIN_POSITIVE as f64 * (1.0 - 1.0 / 33_554_432.0);
        let fmt = FloatFmt::F64;
        let size = self.ins().fabs(x);
        let bound = self.float_like(fmt, x, BOUND);
        let small = self.ins().fcmp(FloatCC::LessThan, size, bound);
        let bits = self.as_int(fmt, x);
        let sign = self.bits_like(fmt, x, 1 << 63);
        let sign = self.ins().band(bits, sign);
        let kept = self.pick(small, sign, bits);
        self.as_float(fmt, kept)
    }

    fn scalar_from_int(&mut self, cvt: &Convert, to: FloatFmt, x: cl::Value) -> Option<cl::Value> {
        let is_exact = to == FloatFmt::F64 && cvt.from.ty() <= Type::B32;
        if cvt.round == Round::Rn || is_exact {
            return Some(self.int_to_float_scalar(cvt.from, to, x));
        }
        let exact = self.exact_from_int(cvt.from, &Quad::from_elem(x, 1));
        if to == FloatFmt::F64 {
            return Some(self.exact_to_f64(cvt.round, exact)[0]);
        }
        self.exact_to_f32(mode_of(cvt), exact)
    }

    fn rounded(&mut self, fmt: FloatFmt, cvt: &Convert, x: cl::Value) -> Option<cl::Value> {
        let x = self.as_float(fmt, x);
        let x = self.flush(fmt, cvt.ftz, x);
        match cvt.round == Round::Rz {
            // Conversions round so.
            true => Some(x),
            false => self.integral(cvt.round, x),
        }
    }

    fn scalar_to_int(&mut self, cvt: &Convert, from: FloatFmt, x: cl::Value) -> Option<cl::Value> {
        let ty = if cvt.to.ty() == Type::B64 {
            types::I64
        } else {
            types::I32
        };
        let x = self.rounded(from, cvt, x)?;
        let n = if cvt.to.is_signed_int() {
            self.ins().fcvt_to_sint_sat(ty, x)
        } else {
            self.ins().fcvt_to_uint_sat(ty, x)
        };
        let n = self.clamp_narrow(cvt.to, n);
        if from == FloatFmt::F32 && ty == types::I32 {
            return Some(n);
        }
        // PTX gives the minimum for NaN here, CLIF zero.
        let nan = self.ins().fcmp(FloatCC::Unordered, x, x);
        let ty = self.func.dfg.value_type(n);
        let min = self.ins().iconst(
            ty,
            sign_extended(cvt.to.ty(), 1 << (cvt.to.ty().bits() - 1)),
        );
        Some(self.ins().select(nan, min, n))
    }

    /// Clamps a 32-bit integer to a narrower format's range, and makes it one of its values.
    fn clamp_narrow(&mut self, to: NumFmt, n: cl::Value) -> cl::Value {
        let ty = to.ty();
        if ty >= Type::B32 {
            return n;
        }
        let clamped = if to.is_signed_int() {
            let most = ty.mask() >> 1;
            let (low, high) = (
                self.bits_like(FloatFmt::F32, n, !most & 0xffff_ffff),
                self.bits_like(FloatFmt::F32, n, most),
            );
            let n = self.ins().smax(n, low);
            self.ins().smin(n, high)
        } else {
            let most = self.bits_like(FloatFmt::F32, n, ty.mask());
            self.ins().umin(n, most)
        };
        if self.is_vector(n) {
            let mask = self.bits_like(FloatFmt::F32, n, ty.mask());
            self.ins().band(clamped, mask)
        } else {
            self.ins().ireduce(int_type(ty), clamped)
        }
    }

    pub(crate) fn vector_convert(&mut self, cvt: &Convert, x: Quad) -> Option<Quad> {
        if is_small(cvt.from) || is_small(cvt.to) {
            return Some(Quad::from_elem(self.small_convert(cvt, x[0])?, 1));
        }
        if let Some(fmt) = half(cvt.to) {
            return Some(Quad::from_elem(self.convert_to_half(cvt, fmt, &x)?, 1));
        }
        if let Some(fmt) = half(cvt.from) {
            let wide = self.half_to_f32(fmt, false, x[0]);
            if cvt.to == NumFmt::F32 {
                return Some(Quad::from_elem(self.wide_half(cvt, fmt, wide)?, 1));
            }
            return self.vector_convert(
                &Convert {
                    from: NumFmt::F32,
                    ..*cvt
                },
                Quad::from_elem(wide, 1),
            );
        }
        if !is_plain(cvt) {
            return None;
        }
        if let Some(op) = int_resize(cvt) {
            return Some(if cvt.from.ty() == cvt.to.ty() {
                x
            } else {
                self.vector_resize(op, cvt.from.ty(), cvt.to.ty(), x)
            });
        }
        self.vector_convert_native(cvt, x)
    }

    /// A conversion of which one side at least is a float of 32 or 64 bits, and none a narrower
    /// one.
    fn vector_convert_native(&mut self, cvt: &Convert, x: Quad) -> Option<Quad> {
        match (cvt.from, cvt.to) {
            (_, NumFmt::F32 | NumFmt::F64) if cvt.sat => {
                let fmt = native(cvt.to)?;
                let x = self.vector_convert(&unsaturated(cvt), x)?;
                self.each(&x, |b, x| {
                    b.float_unary(FloatUnaryOp::Sat, fmt, FloatMode::RN, x)
                })
            }
            (NumFmt::F32, NumFmt::F32) => Some(Quad::from_elem(
                self.float_to_float(cvt, FloatFmt::F32, FloatFmt::F32, x[0])?,
                1,
            )),
            (NumFmt::F64, NumFmt::F64) => self.each(&x, |b, x| {
                b.float_to_float(cvt, FloatFmt::F64, FloatFmt::F64, x)
            }),
            (from, NumFmt::F32) if from.is_int() => {
                if from.ty() <= Type::B32 && cvt.round == Round::Rn {
                    return Some(Quad::from_elem(self.vector_to_f32(from, x[0]), 1));
                }
                let exact = self.exact_from_int(from, &x);
                let rounded = self.exact_to_f32(mode_of(cvt), exact)?;
                Some(Quad::from_elem(rounded, 1))
            }
            (from, NumFmt::F64) if from.is_int() => {
                let exact = self.exact_from_int(from, &x);
                Some(self.exact_to_f64(cvt.round, exact))
            }
            (NumFmt::F64, to) if to.is_int() && to.ty() <= Type::B32 => {
                Some(Quad::from_elem(self.f64_to_words(cvt, x)?, 1))
            }
            (NumFmt::F32, to) if to.is_int() && to.ty() <= Type::B32 => {
                let x = self.rounded(FloatFmt::F32, cvt, x[0])?;
                // Narrow formats fit in a signed word.
                let signed = cvt.to != NumFmt::U32;
                let n = if signed {
                    self.ins().fcvt_to_sint_sat(types::I32X4, x)
                } else {
                    self.ins().fcvt_to_uint_sat(types::I32X4, x)
                };
                Some(Quad::from_elem(self.clamp_signed_lanes(to, n), 1))
            }
            (NumFmt::F32, NumFmt::F64) => {
                let x = self.as_float(FloatFmt::F32, x[0]);
                let x = self.flush(FloatFmt::F32, cvt.ftz, x);
                Some(self.promote(x))
            }
            (NumFmt::F64, NumFmt::F32) => Some(Quad::from_elem(self.f64_to_f32(cvt, &x)?, 1)),
            _ => None,
        }
    }

    /// f64 lanes to integers of up to 32 bits.
    fn f64_to_words(&mut self, cvt: &Convert, x: Quad) -> Option<cl::Value> {
        const F64: FloatFmt = FloatFmt::F64;
        let ty = cvt.to.ty();
        let (least, most) = if cvt.to.is_signed_int() {
            let most = (1u64 << (ty.bits() - 1)) as f64;
            (-most, most - 1.0)
        } else {
            (0.0, ty.mask() as f64)
        };
        let mut words = Quad::new();
        let mut nans = Quad::new();
        for x in x {
            let x = self.rounded(F64, cvt, x)?;
            nans.push(self.ins().fcmp(FloatCC::Unordered, x, x));
            let (least, most) = (
                self.float_like(F64, x, least),
                self.float_like(F64, x, most),
            );
            let show = self.float_like(F64, x, SHOW_INT);
            // A NaN becomes the least.
            let x = self.greater(x, least);
            let x = self.lesser(x, most);
            let x = if cvt.round == Round::Rz {
                self.ins().trunc(x)
            } else {
                x
            };
            words.push(self.ins().fadd(x, show));
        }
        let words = self.narrow(words[0], words[1]);
        if cvt.to.is_signed_int() {
            return Some(self.lanes_masked(ty, words));
        }
        // Of a NaN the ISA wants the top bit in either case.
        let nan = self.narrow(nans[0], nans[1]);
        let top = self.vconst(Type::B32, 1 << (ty.bits() - 1));
        Some(self.pick(nan, top, words))
    }

    fn vector_to_f32(&mut self, from: NumFmt, x: cl::Value) -> cl::Value {
        let x = self.word_lanes(from, x);
        if from == NumFmt::U32 {
            self.ins().fcvt_from_uint(types::F32X4, x)
        } else {
            self.ins().fcvt_from_sint(types::F32X4, x)
        }
    }

    /// Clamps signed words to a narrower format, signed or not.
    fn clamp_signed_lanes(&mut self, to: NumFmt, n: cl::Value) -> cl::Value {
        if to.ty() < Type::B32 && !to.is_signed_int() {
            let zero = self.bits_like(FloatFmt::F32, n, 0);
            let n = self.ins().smax(n, zero);
            return self.clamp_narrow(to, n);
        }
        self.clamp_narrow(to, n)
    }
}
