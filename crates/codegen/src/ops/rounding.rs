//! f32 results rounded toward zero, down or up: sums, products, quotients, roots and conversions.
//!
//! The host rounds to nearest only, so the exact result is held as the nearest f64 and the sign of
//! the rest. Rounded to f32, that is at most one step off; a comparison of the two tells whether.
//! Rounding down is rounding up of the negated operands, with the sign of a sum that is zero as
//! well.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{FloatBinaryOp, FloatFmt, FloatMode, NumFmt, Round, Type};

use super::{Emitter, Quad, Running};

const F32: FloatFmt = FloatFmt::F32;
const F64: FloatFmt = FloatFmt::F64;

/// The least normal f32, as bits.
const LEAST: u64 = 0x0080_0000;

/// The difference between an exact number and the nearest f64.
pub(super) enum Rest {
    Nothing,
    /// The difference itself.
    Error(Quad),
    /// A number with the sign of the difference, or zero.
    Sign(Quad),
}

/// An exact number: the f64 nearest to it, one scalar or the two vectors of a quad, and the rest.
pub(super) struct Exact {
    pub near: Quad,
    pub rest: Rest,
}

impl Emitter<'_> {
    /// `add`, `sub`, `mul` or `div` in f32 in a direction other than to nearest.
    pub(super) fn directed_binary(
        &mut self,
        op: FloatBinaryOp,
        mode: FloatMode,
        x: cl::Value,
        y: cl::Value,
    ) -> Option<cl::Value> {
        let (x, y) = (self.flush(F32, mode.ftz, x), self.flush(F32, mode.ftz, y));
        let down = mode.round == Round::Rm;
        let negate_y = match op {
            FloatBinaryOp::Add => down,
            FloatBinaryOp::Sub => !down,
            FloatBinaryOp::Mul
            | FloatBinaryOp::Div
            | FloatBinaryOp::DivApprox
            | FloatBinaryOp::DivFull
            | FloatBinaryOp::Min
            | FloatBinaryOp::Max
            | FloatBinaryOp::MinNan
            | FloatBinaryOp::MaxNan => false,
        };
        let (x, y) = (self.negated_if(down, x), self.negated_if(negate_y, y));
        let (x, y) = (self.promote(x), self.promote(y));
        let exact = match op {
            FloatBinaryOp::Add | FloatBinaryOp::Sub => self.exact_sum(&x, &y),
            FloatBinaryOp::Mul => self.exact_product(&x, &y),
            FloatBinaryOp::Div => self.exact_quotient(&x, &y),
            FloatBinaryOp::DivApprox
            | FloatBinaryOp::DivFull
            | FloatBinaryOp::Min
            | FloatBinaryOp::Max
            | FloatBinaryOp::MinNan
            | FloatBinaryOp::MaxNan => return None,
        };
        let rounded = self.round_up_or_to_zero(mode, &exact);
        Some(self.negated_if(down, rounded))
    }

    /// `fma` in f32 in a direction other than to nearest.
    pub(super) fn directed_fma(
        &mut self,
        mode: FloatMode,
        args: [cl::Value; 3],
        lanes: Running,
    ) -> cl::Value {
        let [x, y, z] = args.map(|arg| self.flush(F32, mode.ftz, arg));
        match self.constant_lanes(z) {
            // Inactive lanes would make the rare case frequent.
            Some(c) if lanes == Running::Few && !self.is_never_rare(mode.round, x, y, c) => {
                self.exact_fma(mode, [x, y, z])
            }
            // So that neither `z` over two nor the rest of an addition to it, down to 2^-70 of it,
            // gets near to the subnormal numbers: the host may flush them.
            Some(c) if (1e-15..1e30).contains(&c.abs()) => self.directed_fma_near(mode, x, y, c),
            _ => self.exact_fma(mode, [x, y, z]),
        }
    }

    /// Whether `x * y + c` never needs the rare case, as in `expf`: `x` lies between zero and one,
    /// so that the product is at most half of `c`, and where it is so small that the sum is `c`,
    /// the nearest number is the one in the wanted direction.
    fn is_never_rare(&self, round: Round, x: cl::Value, y: cl::Value, c: f32) -> bool {
        let down = matches!(round, Round::Rm | Round::Rz);
        let factor = self.constant_lanes(y);
        down && self.is_saturated(x) && factor.is_some_and(|y| (0.0..=c / 2.0).contains(&y))
    }

    fn is_saturated(&self, x: cl::Value) -> bool {
        let dfg = &self.func.dfg;
        let mut x = x;
        while let Some(inst) = dfg.value_def(x).inst()
            && dfg.insts[inst].opcode() == cl::Opcode::Bitcast
        {
            x = dfg.inst_args(inst)[0];
        }
        self.saturated.contains(&x)
    }

    /// `x * y + c`. If `c` is the greater summand by far, the sum to nearest less `c` is exact, and
    /// a second fma tells on which side it lies.
    fn directed_fma_near(
        &mut self,
        mode: FloatMode,
        x: cl::Value,
        y: cl::Value,
        c: f32,
    ) -> cl::Value {
        let z = self.float_like(F32, x, f64::from(c));
        let near = self.ins().fma(x, y, z);
        let change = self.ins().fsub(near, z);
        let minus = self.ins().fneg(change);
        let rest = self.ins().fma(x, y, minus);
        let zero = self.float_like(F32, x, 0.0);
        // Away from zero, or towards it.
        let (positive, bits) = (c > 0.0, self.as_int(F32, near));
        let rounded = match (mode.round, positive) {
            (Round::Rp, true) => {
                let above = self.ins().fcmp(FloatCC::GreaterThan, rest, zero);
                self.ins().isub(bits, above)
            }
            (Round::Rm, false) => {
                let below = self.ins().fcmp(FloatCC::LessThan, rest, zero);
                self.ins().isub(bits, below)
            }
            (_, true) => {
                let below = self.ins().fcmp(FloatCC::LessThan, rest, zero);
                self.ins().iadd(bits, below)
            }
            (_, false) => {
                let above = self.ins().fcmp(FloatCC::GreaterThan, rest, zero);
                self.ins().iadd(bits, above)
            }
        };
        let rounded = self.as_float(F32, rounded);
        if self.is_never_rare(mode.round, x, y, c) {
            return rounded;
        }
        let size = self.ins().fabs(change);
        let half = self.float_like(F32, x, f64::from(c.abs() / 2.0));
        let far = FloatCC::UnorderedOrGreaterThan;
        let far = self.ins().fcmp(far, size, half);
        // A product so small that it changes nothing may leave no rest, either.
        let same = self.ins().fcmp(FloatCC::Equal, change, zero);
        let [some_x, some_y] = [x, y].map(|x| self.ins().fcmp(FloatCC::NotEqual, x, zero));
        let lost = self.ins().band(some_x, some_y);
        let lost = self.ins().band(same, lost);
        let rare = self.ins().bor(far, lost);
        let rare = self.any(&[rare]);
        self.unless(rare, &[rounded], |emit| {
            vec![emit.exact_fma(mode, [x, y, z])]
        })[0]
    }

    fn exact_fma(&mut self, mode: FloatMode, [x, y, z]: [cl::Value; 3]) -> cl::Value {
        let down = mode.round == Round::Rm;
        let (x, z) = (self.negated_if(down, x), self.negated_if(down, z));
        let [x, y, z] = [x, y, z].map(|arg| self.promote(arg));
        let product = self.exact_product(&x, &y);
        let exact = self.exact_sum(&product.near, &z);
        let rounded = self.round_up_or_to_zero(mode, &exact);
        self.negated_if(down, rounded)
    }

    /// `sqrt` in f32 in a direction other than to nearest.
    pub(super) fn directed_sqrt(&mut self, mode: FloatMode, x: cl::Value) -> cl::Value {
        let x = self.flush(F32, mode.ftz, x);
        let x = self.promote(x);
        let mut exact = Exact {
            near: Quad::new(),
            rest: Rest::Nothing,
        };
        let mut rest = Quad::new();
        for x in x {
            let root = self.ins().sqrt(x);
            let minus = self.ins().fneg(root);
            rest.push(self.ins().fma(minus, root, x));
            exact.near.push(root);
        }
        exact.rest = Rest::Sign(rest);
        // Roots are not negative: down is toward zero.
        let round = match mode.round {
            Round::Rm => Round::Rz,
            round @ (Round::Rn | Round::Rna | Round::Rz | Round::Rp) => round,
        };
        self.round_up_or_to_zero(FloatMode { round, ..mode }, &exact)
    }

    /// An exact number in f32, in a direction other than to nearest.
    fn directed_f32(&mut self, mode: FloatMode, exact: Exact) -> cl::Value {
        if mode.round != Round::Rm {
            return self.round_up_or_to_zero(mode, &exact);
        }
        let mut negated =
            |quad: Quad| -> Quad { quad.into_iter().map(|x| self.ins().fneg(x)).collect() };
        let exact = Exact {
            near: negated(exact.near),
            rest: match exact.rest {
                Rest::Nothing => Rest::Nothing,
                Rest::Error(error) => Rest::Error(negated(error)),
                Rest::Sign(sign) => Rest::Sign(negated(sign)),
            },
        };
        let rounded = self.round_up_or_to_zero(mode, &exact);
        self.ins().fneg(rounded)
    }

    fn negated_if(&mut self, negate: bool, x: cl::Value) -> cl::Value {
        if negate { self.ins().fneg(x) } else { x }
    }

    /// Knuth's TwoSum.
    fn exact_sum(&mut self, x: &Quad, y: &Quad) -> Exact {
        let (near, error) = x.iter().zip(y).map(|(&x, &y)| self.two_sum(x, y)).unzip();
        Exact {
            near,
            rest: Rest::Error(error),
        }
    }

    /// A product of f32 numbers is an f64 number.
    fn exact_product(&mut self, x: &Quad, y: &Quad) -> Exact {
        Exact {
            near: x
                .iter()
                .zip(y)
                .map(|(&x, &y)| self.ins().fmul(x, y))
                .collect(),
            rest: Rest::Nothing,
        }
    }

    /// A quotient of f32 numbers, whose remainder is an f64 number.
    fn exact_quotient(&mut self, x: &Quad, y: &Quad) -> Exact {
        let (near, sign) = x
            .iter()
            .zip(y)
            .map(|(&x, &y)| {
                let quotient = self.ins().fdiv(x, y);
                let minus = self.ins().fneg(quotient);
                let remainder = self.ins().fma(minus, y, x);
                (quotient, self.ins().fmul(remainder, y))
            })
            .unzip();
        Exact {
            near,
            rest: Rest::Sign(sign),
        }
    }

    /// The exact values of 64-bit integers: one scalar, or the two vectors of a quad.
    fn exact_integer(&mut self, signed: bool, x: &Quad) -> Exact {
        let (high, low) = self.integer_halves(signed, x);
        // The high part is zero or the greater one, and so this error is exact.
        let (near, error) = high
            .into_iter()
            .zip(low)
            .map(|(high, low)| {
                let sum = self.ins().fadd(high, low);
                let part = self.ins().fsub(sum, high);
                (sum, self.ins().fsub(low, part))
            })
            .unzip();
        Exact {
            near,
            rest: Rest::Error(error),
        }
    }

    /// High and low words of 64-bit integers by their values, in f64.
    fn integer_halves(&mut self, signed: bool, x: &Quad) -> (Quad, Quad) {
        let word = if signed { NumFmt::S32 } else { NumFmt::U32 };
        let (high, low) = if self.is_vector(x[0]) {
            let low = self.narrow(x[0], x[1]);
            let high = self.high_words(x[0], x[1]);
            (
                self.vector_to_f64(word, high),
                self.vector_to_f64(NumFmt::U32, low),
            )
        } else {
            let x = self.cast_scalar(x[0], types::I64);
            let high = if signed {
                self.ins().sshr_imm_s(x, 32)
            } else {
                self.ins().ushr_imm_s(x, 32)
            };
            let mask = self.ins().iconst(types::I64, 0xffff_ffff);
            let low = self.ins().band(x, mask);
            let halves = [high, low].map(|half| self.ins().fcvt_from_sint(types::F64, half));
            (Quad::from_elem(halves[0], 1), Quad::from_elem(halves[1], 1))
        };
        let high = high
            .into_iter()
            .map(|high| {
                let unit = self.float_like(F64, high, 4_294_967_296.0);
                self.ins().fmul(high, unit)
            })
            .collect();
        (high, low)
    }

    /// The nearest f32.
    fn nearest_f32(&mut self, exact: Exact) -> cl::Value {
        let odd = self.rounded_to_odd(exact);
        self.demote(&odd)
    }

    /// In f64, rounded to odd.
    pub(super) fn rounded_to_odd(&mut self, exact: Exact) -> Quad {
        match exact.rest {
            Rest::Nothing => exact.near,
            Rest::Error(rest) | Rest::Sign(rest) => {
                self.each_of_two((&exact.near, &rest), |b, near, rest| b.to_odd(near, rest))
            }
        }
    }

    /// f64 to the nearest f32: one scalar, or the two vectors of a quad.
    pub(super) fn demote(&mut self, x: &Quad) -> cl::Value {
        if !self.is_vector(x[0]) {
            return self.ins().fdemote(types::F32, x[0]);
        }
        let [low, high] = [x[0], x[1]].map(|x| self.ins().fvdemote(x));
        let halves = [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23];
        let both = self.shuffle(low, high, halves);
        self.cast_vector(both, types::F32X4)
    }

    /// The exact number minus `from`, as far as its sign goes.
    fn minus(&mut self, exact: &Exact, from: &Quad) -> Quad {
        (0..from.len())
            .map(|i| {
                let difference = self.ins().fsub(exact.near[i], from[i]);
                match &exact.rest {
                    Rest::Nothing => difference,
                    // A difference that is not zero is greater than the error.
                    Rest::Error(error) => self.ins().fadd(difference, error[i]),
                    Rest::Sign(sign) => {
                        let zero = self.float_like(F64, difference, 0.0);
                        let equal = self.ins().fcmp(FloatCC::Equal, difference, zero);
                        self.pick(equal, sign[i], difference)
                    }
                }
            })
            .collect()
    }

    /// All ones where `x` compares with zero so; one mask of 32 bits per lane.
    fn mask_of(&mut self, cc: FloatCC, x: &Quad) -> cl::Value {
        let masks: Quad = x
            .iter()
            .map(|&x| {
                let zero = self.float_like(F64, x, 0.0);
                self.ins().fcmp(cc, x, zero)
            })
            .collect();
        if masks.len() == 2 {
            return self.narrow(masks[0], masks[1]);
        }
        let word = self.ins().uextend(types::I32, masks[0]);
        self.ins().ineg(word)
    }

    /// Toward zero if that is the mode's direction, else up.
    fn round_up_or_to_zero(&mut self, mode: FloatMode, exact: &Exact) -> cl::Value {
        let nearest = self.demote(&exact.near);
        let back = self.promote(nearest);
        // NaN at infinities and NaNs, unless the number is finite and too large for f32: then it
        // leads back to that.
        let beyond = self.minus(exact, &back);
        let bits = self.as_int(F32, nearest);
        if mode.round == Round::Rz {
            // Beyond is on the side of zero.
            let sides: Quad = (0..back.len())
                .map(|i| self.ins().fmul(beyond[i], back[i]))
                .collect();
            let step = self.mask_of(FloatCC::LessThan, &sides);
            let rounded = self.ins().iadd(bits, step);
            let rounded = self.as_float(F32, rounded);
            return if mode.ftz {
                self.flush_bits(rounded)
            } else {
                rounded
            };
        }
        let above = self.mask_of(FloatCC::GreaterThan, &beyond);
        let sign = self.ins().sshr_imm_s(bits, 31);
        let one = self.bits_like(F32, bits, 1);
        let up = self.ins().bor(sign, one);
        let step = self.ins().band(above, up);
        let rounded = self.ins().iadd(bits, step);
        let rounded = self.as_float(F32, rounded);
        if mode.ftz {
            self.flush_rounded_up(exact, rounded)
        } else {
            rounded
        }
    }

    /// Flushes by what rounding up to 24 bits gives: the least normal number comes from all numbers
    /// above the one before it that has as many bits.
    fn flush_rounded_up(&mut self, exact: &Exact, rounded: cl::Value) -> cl::Value {
        const BEFORE: f64 = f32::MIN_POSITIVE as f64 * (1.0 - 1.0 / 16_777_216.0);
        let before: Quad = exact
            .near
            .iter()
            .map(|&near| self.float_like(F64, near, BEFORE))
            .collect();
        let beyond = self.minus(exact, &before);
        let above = self.mask_of(FloatCC::GreaterThan, &beyond);
        let flushed = self.flush_bits(rounded);
        let bits = self.as_int(F32, flushed);
        let least = self.bits_like(F32, bits, LEAST);
        // Positive, and no more than the least normal number.
        let lesser = self.ins().umin(bits, least);
        let small = self.ins().icmp(IntCC::Equal, lesser, bits);
        let kept = self.ins().band(above, least);
        let result = self.pick(small, kept, bits);
        self.as_float(F32, result)
    }

    /// The result of a conversion to f32 in any direction, of f64 numbers or 64-bit integers.
    pub(super) fn exact_to_f32(&mut self, mode: FloatMode, exact: Exact) -> Option<cl::Value> {
        match mode.round {
            Round::Rn => Some(self.nearest_f32(exact)),
            Round::Rz | Round::Rm | Round::Rp => Some(self.directed_f32(mode, exact)),
            Round::Rna => None,
        }
    }

    /// An integer in f64, rounded in any direction.
    pub(super) fn exact_to_f64(&mut self, round: Round, exact: Exact) -> Quad {
        let Rest::Error(errors) = exact.rest else {
            return exact.near;
        };
        if round == Round::Rn {
            return exact.near;
        }
        let both = (&exact.near[..], &errors[..]);
        self.each_of_two(both, |b, near, error| b.stepped(round, near, error))
    }

    /// The nearest f64 number or, if that lies on the wrong side, the one beside it.
    fn stepped(&mut self, round: Round, near: cl::Value, error: cl::Value) -> cl::Value {
        let bits = self.as_int(F64, near);
        let zero = self.float_like(F64, near, 0.0);
        let negative = self.ins().sshr_imm_s(bits, 63);
        let one = self.bits_like(F64, near, 1);
        let upward = self.ins().bor(negative, one);
        let (side, moved) = match round {
            Round::Rp => (self.ins().fneg(error), self.ins().iadd(bits, upward)),
            Round::Rm => (error, self.ins().isub(bits, upward)),
            Round::Rz | Round::Rn | Round::Rna => {
                (self.ins().fmul(near, error), self.ins().isub(bits, one))
            }
        };
        let is_beyond = self.ins().fcmp(FloatCC::LessThan, side, zero);
        self.pick(is_beyond, moved, bits)
    }

    /// Integers of up to 32 bits, of which each is an f64 number, or of 64 bits; scalars as they
    /// are.
    pub(super) fn exact_from_int(&mut self, from: NumFmt, x: &Quad) -> Exact {
        if from.ty() == Type::B64 {
            return self.exact_integer(from.is_signed_int(), x);
        }
        let near = if self.is_vector(x[0]) {
            self.vector_to_f64(from, x[0])
        } else {
            Quad::from_elem(self.int_to_float_scalar(from, F64, x[0]), 1)
        };
        Exact {
            near,
            rest: Rest::Nothing,
        }
    }
}
