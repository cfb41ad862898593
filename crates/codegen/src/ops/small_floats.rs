//! Rounding of f32 to narrower formats (f16, bf16, tf32, those of 8, 6 and 4 bits, ue8m0), and
//! conversion of the smallest of them to halves.
//!
//! All of it works on words: a scalar `i32` or the lanes of an `i32x4`. A number's bits without
//! sign, its *magnitude*, become a fixed-point number: the encoding in the narrow format, with the
//! bits that rounding drops below it. Then rounding is an addition of less than a unit and a shift,
//! in any direction; a carry moves on into the exponent, as it should, and so to the encoding of
//! infinity.
//!
//! For normal results of a format with fewer exponents, the fixed-point form is the magnitude with
//! another bias. For subnormal ones it is the significand of the sum with the least normal number,
//! whose last bit has the weight of subnormals. The sum drops lower bits: it is the one toward
//! zero, with a sticky bit where that matters. To the nearest, the addition itself rounds, if the
//! number added is greater.
//!
//! Magnitudes that are too large are limited before, such that they round as the mode wants it: to
//! the greatest finite number or to infinity.
//!
//! NaNs are replaced last. The canonical NaN has all bits set but the sign; a format without NaN
//! takes that as its greatest number.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{Convert, FloatFmt, FloatMode, FloatUnaryOp, NumFmt, Round, Type};

use super::{Emitter, int_type};

const F32: FloatFmt = FloatFmt::F32;
const F32_BIAS: u32 = 127;
const F32_MAN_BITS: u32 = 23;
const F32_MAGNITUDE: u64 = 0x7fff_ffff;
const F32_MAX: u64 = 0x7f7f_ffff;
/// The canonical NaN of both halves.
const HALF_NAN: u64 = 0x7fff;

/// What the encodings beyond the finite numbers mean.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Beyond {
    /// An infinity and NaNs.
    Ieee,
    /// One NaN.
    Nan,
    /// There are none.
    Nothing,
}

/// A narrow format with a sign.
#[derive(Copy, Clone)]
struct Format {
    exp_bits: u32,
    man_bits: u32,
    beyond: Beyond,
}

impl Format {
    fn of(fmt: NumFmt) -> Option<Format> {
        let (exp_bits, man_bits, beyond) = match fmt {
            NumFmt::F16 => (5, 10, Beyond::Ieee),
            NumFmt::Bf16 => (8, 7, Beyond::Ieee),
            NumFmt::Tf32 => (8, 10, Beyond::Ieee),
            NumFmt::E4m3 => (4, 3, Beyond::Nan),
            NumFmt::E5m2 => (5, 2, Beyond::Ieee),
            NumFmt::E2m3 => (2, 3, Beyond::Nothing),
            NumFmt::E3m2 => (3, 2, Beyond::Nothing),
            NumFmt::E2m1 => (2, 1, Beyond::Nothing),
            NumFmt::U8 | NumFmt::U16 | NumFmt::U32 | NumFmt::U64 => return None,
            NumFmt::S8 | NumFmt::S16 | NumFmt::S32 | NumFmt::S64 => return None,
            NumFmt::F32 | NumFmt::F64 | NumFmt::Ue8m0 => return None,
        };
        Some(Format {
            exp_bits,
            man_bits,
            beyond,
        })
    }

    fn bias(self) -> u32 {
        (1 << (self.exp_bits - 1)) - 1
    }

    /// Number of low bits of an f32 that a normal number of this format does not keep.
    fn dropped(self) -> u32 {
        F32_MAN_BITS - self.man_bits
    }

    /// All of those bits.
    fn dropped_mask(self) -> u64 {
        (1 << self.dropped()) - 1
    }

    /// Whether every exponent of f32 is one of this format.
    fn has_all_exponents(self) -> bool {
        self.bias() == F32_BIAS
    }

    /// All bits but the sign, also the canonical NaN.
    fn magnitude(self) -> u64 {
        (1 << (self.exp_bits + self.man_bits)) - 1
    }

    fn sign(self) -> u64 {
        self.magnitude() + 1
    }

    fn max_finite(self) -> u64 {
        match self.beyond {
            Beyond::Ieee => self.magnitude() - (1 << self.man_bits),
            Beyond::Nan => self.magnitude() - 1,
            Beyond::Nothing => self.magnitude(),
        }
    }

    /// The difference of the biases, where f32 has its exponent.
    fn rebias(self) -> u64 {
        u64::from(F32_BIAS - self.bias()) << F32_MAN_BITS
    }

    /// The encoding in f32 of a normal number.
    fn in_f32(self, magnitude: u64) -> u64 {
        (magnitude << self.dropped()) + self.rebias()
    }

    fn least_normal_in_f32(self) -> u64 {
        self.in_f32(1 << self.man_bits)
    }
}

#[derive(Copy, Clone)]
enum Rounding {
    To(Round),
    /// Away from zero if the dropped bits and these, both left-aligned, carry out. There are no
    /// more of these than are dropped of a normal number.
    Random(cl::Value),
}

/// How an f32 becomes a number of a narrow format.
#[derive(Copy, Clone)]
struct Narrowing {
    to: Format,
    rounding: Rounding,
    /// Subnormal operands are taken for zero.
    flush_operand: bool,
    /// Results below the least normal number when rounded with all bits, to the nearest, become
    /// zero.
    flush_result: bool,
    sat: bool,
    satfinite: bool,
    relu: bool,
}

impl Narrowing {
    fn of(to: Format, cvt: &Convert) -> Narrowing {
        Narrowing {
            to,
            rounding: Rounding::To(cvt.round),
            flush_operand: cvt.ftz && cvt.from == NumFmt::F32,
            flush_result: false,
            sat: cvt.sat,
            satfinite: cvt.satfinite || to.beyond == Beyond::Nothing,
            relu: cvt.relu,
        }
    }

    /// Whether a subnormal f32 makes another result than zero.
    fn minds_subnormals(&self) -> bool {
        let to_zero = matches!(
            self.rounding,
            Rounding::To(Round::Rn | Round::Rna | Round::Rz)
        );
        self.to.has_all_exponents() || !to_zero
    }

    /// Whether numbers that are too large may stay finite, and infinity does not.
    fn parts_infinity(&self) -> bool {
        let away = matches!(self.rounding, Rounding::To(Round::Rn | Round::Rna));
        !self.to.has_all_exponents() && !self.satfinite && !self.sat && !away
    }
}

/// 2^-127 as a `bf16`.
const LEAST_OF_UE8M0: u64 = 0x40;

impl Emitter<'_> {
    /// A conversion of f32 to a narrow format, with random bits for `.rs`.
    pub(crate) fn narrow_f32(
        &mut self,
        cvt: &Convert,
        random: Option<cl::Value>,
        x: cl::Value,
    ) -> Option<cl::Value> {
        let x = self.as_float(F32, x);
        if cvt.to == NumFmt::Ue8m0 {
            let word = self.f32_to_ue8m0(cvt, x)?;
            return Some(self.in_type(Type::B8, word));
        }
        let mut how = Narrowing::of(Format::of(cvt.to)?, cvt);
        if let Some(random) = random {
            how.rounding = Rounding::Random(self.as_int(F32, random));
        }
        let code = self.narrowed(&how, x);
        if cvt.to == NumFmt::Tf32 {
            return Some(self.ins().ishl_imm_s(code, i64::from(how.to.dropped())));
        }
        Some(self.in_type(cvt.to.ty(), code))
    }

    /// Rounds an f32 to the nearest half; under `flush` to zero if that is subnormal.
    pub(super) fn f32_to_half(&mut self, fmt: FloatFmt, flush: bool, x: cl::Value) -> cl::Value {
        let cvt = Convert::new(NumFmt::F32, fmt.num());
        let format = Format::of(cvt.to).expect("halves are narrow formats");
        let x = self.as_float(F32, x);
        let mut how = Narrowing::of(format, &cvt);
        how.flush_result = flush;
        let code = self.narrowed(&how, x);
        self.in_type(Type::B16, code)
    }

    /// A word as a value of a type: a scalar of its width, or lanes as they are.
    fn in_type(&mut self, ty: Type, word: cl::Value) -> cl::Value {
        if self.is_vector(word) || ty == Type::B32 {
            word
        } else {
            self.ins().ireduce(int_type(ty), word)
        }
    }

    /// The encoding, as a word.
    fn narrowed(&mut self, how: &Narrowing, x: cl::Value) -> cl::Value {
        let mut x = x;
        if how.flush_operand && how.minds_subnormals() {
            x = self.flush_bits(x);
        }
        if how.sat {
            // Rounding is monotonic and keeps 0 and 1.
            x = self.clamped_to_one(x);
        }
        let bits = self.as_int(F32, x);
        let rides_along = how.to.has_all_exponents() && !how.satfinite && !how.flush_result;
        let magnitude = if how.relu {
            let zero = self.word(bits, 0);
            self.ins().smax(bits, zero)
        } else if how.sat || rides_along {
            // There is no sign, or it stays on top.
            bits
        } else {
            self.masked(bits, F32_MAGNITUDE)
        };
        let limited = self.limited(how, magnitude);
        let mut code = self.rounded_magnitude(how, bits, limited);
        if how.parts_infinity() {
            let infinite = self.above(magnitude, F32_MAX);
            let infinity = self.word(bits, how.to.max_finite() + 1);
            code = self.pick(infinite, infinity, code);
        }
        if magnitude != bits && !how.relu {
            let sign = self.ins().bxor(bits, magnitude);
            let count = 31 - how.to.sign().trailing_zeros();
            let sign = self.ins().ushr_imm_s(sign, i64::from(count));
            code = self.ins().bor(code, sign);
        }
        if how.sat {
            return code;
        }
        let is_nan = self.ins().fcmp(FloatCC::Unordered, x, x);
        let nan = self.word(bits, how.to.magnitude());
        self.pick(is_nan, nan, code)
    }

    /// `.sat`: clamps to [0, 1], NaN to zero.
    fn clamped_to_one(&mut self, x: cl::Value) -> cl::Value {
        self.float_unary(FloatUnaryOp::Sat, F32, FloatMode::RN, x)
            .expect("it has a form for f32")
    }

    /// Magnitudes too large for the format made such that they round to its greatest number or to
    /// what is beyond.
    fn limited(&mut self, how: &Narrowing, magnitude: cl::Value) -> cl::Value {
        let to = how.to;
        let most = to.in_f32(to.max_finite());
        let limit = if how.satfinite {
            self.word(magnitude, most)
        } else if how.sat || to.has_all_exponents() {
            return magnitude;
        } else {
            match how.rounding {
                Rounding::To(Round::Rn | Round::Rna) => {
                    self.word(magnitude, to.in_f32(to.max_finite() + 1))
                }
                Rounding::To(Round::Rz | Round::Rm | Round::Rp) => {
                    self.word(magnitude, most | to.dropped_mask())
                }
                // The carry is that of the number's own dropped bits.
                Rounding::Random(_) => {
                    let dropped = self.masked(magnitude, to.dropped_mask());
                    let most = self.word(magnitude, most);
                    self.ins().bor(dropped, most)
                }
            }
        };
        self.ins().smin(magnitude, limit)
    }

    /// Rounds a magnitude, maybe with its sign on top; `bits` has the sign.
    fn rounded_magnitude(
        &mut self,
        how: &Narrowing,
        bits: cl::Value,
        magnitude: cl::Value,
    ) -> cl::Value {
        let to = how.to;
        let fixed = match how.rounding {
            Rounding::To(Round::Rn) => return self.nearest(how, magnitude),
            _ if to.has_all_exponents() => magnitude,
            Rounding::To(Round::Rz) | Rounding::Random(_) => self.fixed_point(to, false, magnitude),
            Rounding::To(Round::Rna | Round::Rm | Round::Rp) => {
                self.fixed_point(to, true, magnitude)
            }
        };
        let sum = match how.rounding {
            Rounding::To(Round::Rn | Round::Rz) => fixed,
            Rounding::To(Round::Rna) => {
                let half = self.word(bits, 1 << (to.dropped() - 1));
                self.ins().iadd(fixed, half)
            }
            Rounding::To(direction @ (Round::Rm | Round::Rp)) => {
                let all = self.word(bits, to.dropped_mask());
                let negative = self.ins().sshr_imm_s(bits, 31);
                let more = if direction == Round::Rm {
                    self.ins().band(all, negative)
                } else {
                    self.ins().band_not(all, negative)
                };
                self.ins().iadd(fixed, more)
            }
            Rounding::Random(random) => {
                let more = self.ins().ushr_imm_s(random, i64::from(32 - to.dropped()));
                self.ins().iadd(fixed, more)
            }
        };
        self.ins().ushr_imm_s(sum, i64::from(to.dropped()))
    }

    /// Rounds a magnitude to the nearest, ties to even.
    fn nearest(&mut self, how: &Narrowing, magnitude: cl::Value) -> cl::Value {
        let to = how.to;
        let count = i64::from(to.dropped());
        let last = self.ins().ushr_imm_s(magnitude, count);
        let odd = self.masked(last, 1);
        let below_half = (1u32 << (to.dropped() - 1)) - 1;
        let more = below_half.wrapping_sub(to.rebias() as u32);
        let more = self.word(magnitude, u64::from(more));
        let sum = self.ins().iadd(magnitude, more);
        let sum = self.ins().iadd(sum, odd);
        let normal = self.ins().ushr_imm_s(sum, count);
        let least = to.least_normal_in_f32();
        if how.flush_result {
            // From halfway below the least normal number on, one rounds to it.
            let keep = self.above(magnitude, least - u64::from(below_half) - 2);
            return self.keep_bits(keep, normal);
        }
        if to.has_all_exponents() {
            return normal;
        }
        // The last bit of a sum with this is worth that of subnormals.
        let pad = self.word(magnitude, least + (u64::from(to.dropped()) << F32_MAN_BITS));
        let (x, pad_float) = (self.as_float(F32, magnitude), self.as_float(F32, pad));
        let padded = self.ins().fadd(x, pad_float);
        let padded = self.as_int(F32, padded);
        let small = self.ins().isub(padded, pad);
        let is_normal = self.above(magnitude, least - 1);
        self.pick(is_normal, normal, small)
    }

    /// A magnitude as fixed-point number: the encoding, and below it the bits to drop. If some more
    /// bits are not zero and `sticky` asks for it, the last is set.
    fn fixed_point(&mut self, to: Format, sticky: bool, magnitude: cl::Value) -> cl::Value {
        let least = to.least_normal_in_f32();
        let pad = self.word(magnitude, least);
        let (x, pad_float) = (self.as_float(F32, magnitude), self.as_float(F32, pad));
        let padded = self.ins().fadd(x, pad_float);
        let back = self.ins().fsub(padded, pad_float);
        let padded = self.as_int(F32, padded);
        let small = self.ins().isub(padded, pad);
        let too_large = self.ins().fcmp(FloatCC::LessThan, x, back);
        let too_large = self.mask_word(too_large);
        let mut small = self.ins().iadd(small, too_large);
        if sticky {
            let inexact = self.ins().fcmp(FloatCC::NotEqual, x, back);
            let inexact = self.mask_word(inexact);
            let last = self.masked(inexact, 1);
            small = self.ins().bor(small, last);
        }
        let rebias = self.word(magnitude, to.rebias());
        let normal = self.ins().isub(magnitude, rebias);
        let is_normal = self.above(magnitude, least - 1);
        self.pick(is_normal, normal, small)
    }

    /// All ones where a comparison of words or f32 holds.
    fn mask_word(&mut self, cond: cl::Value) -> cl::Value {
        if self.is_vector(cond) {
            return self.cast_vector(cond, types::I32X4);
        }
        let word = self.ins().uextend(types::I32, cond);
        self.ins().ineg(word)
    }

    /// ue8m0: the exponent of the power of two at or below an f32, or at or above it.
    fn f32_to_ue8m0(&mut self, cvt: &Convert, x: cl::Value) -> Option<cl::Value> {
        const LEAST: u64 = 1 << (F32_MAN_BITS - 1);
        const MAX: u64 = 0xfe;
        const NAN: u64 = 0xff;
        let bits = self.as_int(F32, x);
        let magnitude = self.masked(bits, F32_MAGNITUDE);
        let mut code = match cvt.round {
            Round::Rz | Round::Rm => self.ins().ushr_imm_s(magnitude, i64::from(F32_MAN_BITS)),
            Round::Rp => {
                let more = self.word(bits, (1 << F32_MAN_BITS) - 1);
                let sum = self.ins().iadd(magnitude, more);
                let code = self.ins().ushr_imm_s(sum, i64::from(F32_MAN_BITS));
                // The least number of the format is subnormal in f32.
                let above_least = self.above(magnitude, LEAST);
                self.keep_bits(above_least, code)
            }
            Round::Rn | Round::Rna => return None,
        };
        if !cvt.satfinite {
            // Of infinity and NaN the exponent is the NaN; rounding up may have carried beyond.
            let nan = self.word(bits, NAN);
            return Some(self.ins().smin(code, nan));
        }
        let max = self.word(bits, MAX);
        code = self.ins().smin(code, max);
        let is_nan = self.ins().fcmp(FloatCC::Unordered, x, x);
        let nan = self.word(bits, NAN);
        Some(self.pick(is_nan, nan, code))
    }

    /// A conversion of a format of 8, 6 or 4 bits to f16, or of ue8m0 to bf16: exact.
    pub(super) fn small_to_half(&mut self, cvt: &Convert, x: cl::Value) -> Option<cl::Value> {
        let word = if self.is_vector(x) {
            self.cast_vector(x, types::I32X4)
        } else {
            let x = self.cast_scalar(x, types::I8);
            self.ins().uextend(types::I32, x)
        };
        let code = match (cvt.from, cvt.to) {
            (NumFmt::Ue8m0, NumFmt::Bf16) => self.ue8m0_to_bf16(word),
            (NumFmt::E4m3 | NumFmt::E5m2, NumFmt::F16)
            | (NumFmt::E2m3 | NumFmt::E3m2 | NumFmt::E2m1, NumFmt::F16) => {
                self.small_to_f16(cvt, Format::of(cvt.from)?, word)
            }
            _ => return None,
        };
        Some(self.in_type(Type::B16, code))
    }

    fn ue8m0_to_bf16(&mut self, word: cl::Value) -> cl::Value {
        let normal = self.ins().ishl_imm_s(word, 7);
        let is_normal = self.above(word, 0);
        let least = self.word(word, LEAST_OF_UE8M0);
        let code = self.pick(is_normal, normal, least);
        let is_nan = self.above(word, 0xfe);
        let nan = self.word(word, HALF_NAN);
        self.pick(is_nan, nan, code)
    }

    fn small_to_f16(&mut self, cvt: &Convert, from: Format, word: cl::Value) -> cl::Value {
        const F16_MAN_BITS: u32 = 10;
        const F16_BIAS: u32 = 15;
        let magnitude = self.masked(word, from.magnitude());
        let sign = self.masked(word, from.sign());
        let half = if from.bias() == F16_BIAS {
            let count = i64::from(F16_MAN_BITS - from.man_bits);
            self.ins().ishl_imm_s(magnitude, count)
        } else {
            // As an f32 with the exponent of the f16, all of whose numbers are normal. A subnormal
            // has a leading one that is none.
            let up = self.ins().ishl_imm_s(magnitude, i64::from(from.dropped()));
            let bias = u64::from(F16_BIAS - from.bias()) << F32_MAN_BITS;
            let rebias = self.word(word, bias);
            let normal = self.ins().iadd(up, rebias);
            let pad = self.word(word, bias + (1 << F32_MAN_BITS));
            let padded = self.ins().iadd(up, pad);
            let (padded, pad) = (self.as_float(F32, padded), self.as_float(F32, pad));
            let small = self.ins().fsub(padded, pad);
            let small = self.as_int(F32, small);
            let is_normal = self.above(magnitude, (1 << from.man_bits) - 1);
            let wide = self.pick(is_normal, normal, small);
            let count = i64::from(F32_MAN_BITS - F16_MAN_BITS);
            self.ins().ushr_imm_s(wide, count)
        };
        let signed = if cvt.relu {
            let zero = self.word(word, 0);
            let positive = self.ins().icmp(IntCC::Equal, sign, zero);
            self.keep_bits(positive, half)
        } else {
            let count = i64::from(15 - from.sign().trailing_zeros());
            let sign = self.ins().ishl_imm_s(sign, count);
            self.ins().bor(half, sign)
        };
        let last_number = match from.beyond {
            Beyond::Ieee => from.max_finite() + 1,
            Beyond::Nan => from.max_finite(),
            Beyond::Nothing => return signed,
        };
        let is_nan = self.above(magnitude, last_number);
        let nan = self.word(word, HALF_NAN);
        self.pick(is_nan, nan, signed)
    }
}
