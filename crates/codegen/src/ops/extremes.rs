//! Minimum and maximum of floats.

use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{self as cl, InstBuilder};
use ptxjit_ir::{FloatBinaryOp, FloatFmt};

use super::Emitter;

impl Emitter<'_> {
    /// PTX's minimum and maximum: a NaN loses, -0 is less than +0.
    pub(crate) fn min_max(
        &mut self,
        op: FloatBinaryOp,
        fmt: FloatFmt,
        ftz: bool,
        x: cl::Value,
        y: cl::Value,
    ) -> cl::Value {
        let (x, y) = (
            self.flush_always(fmt, ftz, x),
            self.flush_always(fmt, ftz, y),
        );
        if let Some(picked) = self.min_max_with_number(op, fmt, x, y) {
            return picked;
        }
        if !self.is_vector(x) {
            return self.scalar_min_max(op, fmt, x, y);
        }
        let is_min = matches!(op, FloatBinaryOp::Min | FloatBinaryOp::MinNan);
        let cc = if is_min {
            FloatCC::LessThan
        } else {
            FloatCC::GreaterThan
        };
        let first = self.ins().fcmp(cc, x, y);
        let picked = self.pick(first, x, y);
        // Equal operands differ at most in the sign of zero.
        let equal = self.ins().fcmp(FloatCC::Equal, x, y);
        let (xi, yi) = (self.as_int(fmt, x), self.as_int(fmt, y));
        let zero = if is_min {
            self.ins().bor(xi, yi)
        } else {
            self.ins().band(xi, yi)
        };
        let zero = self.as_float(fmt, zero);
        let picked = self.pick(equal, zero, picked);
        let nan = self.canonical_nan(fmt, x);
        let nan_y = self.ins().fcmp(FloatCC::Unordered, y, y);
        if matches!(op, FloatBinaryOp::MinNan | FloatBinaryOp::MaxNan) {
            let either = self.ins().fcmp(FloatCC::Unordered, x, y);
            return self.pick(either, nan, picked);
        }
        let other = self.pick(nan_y, x, picked);
        let nan_both = self.ins().fcmp(FloatCC::Unordered, other, other);
        self.pick(nan_both, nan, other)
    }

    /// The same for scalars, with conditional moves: a choice between floats would be a branch, and
    /// chains of these are long.
    fn scalar_min_max(
        &mut self,
        op: FloatBinaryOp,
        fmt: FloatFmt,
        x: cl::Value,
        y: cl::Value,
    ) -> cl::Value {
        let is_min = matches!(op, FloatBinaryOp::Min | FloatBinaryOp::MinNan);
        let both = self.min_max_of_numbers(is_min, fmt, x, y);
        let nan = self.canonical_nan(fmt, x);
        let [xi, yi, nan] = [x, y, nan].map(|x| self.as_int(fmt, x));
        let picked = if matches!(op, FloatBinaryOp::MinNan | FloatBinaryOp::MaxNan) {
            let either = self.ins().fcmp(FloatCC::Unordered, x, y);
            self.ins().select(either, nan, both)
        } else {
            let nan_x = self.ins().fcmp(FloatCC::Unordered, x, x);
            let nan_y = self.ins().fcmp(FloatCC::Unordered, y, y);
            let without_x = self.ins().select(nan_y, nan, yi);
            let with_x = self.ins().select(nan_y, xi, both);
            self.ins().select(nan_x, without_x, with_x)
        };
        self.as_float(fmt, picked)
    }

    /// The bits of the lesser or greater of two numbers. Of equal ones the host's instruction takes
    /// the second, here once the one and once the other: they differ at most in the sign of zero.
    pub(crate) fn min_max_of_numbers(
        &mut self,
        is_min: bool,
        fmt: FloatFmt,
        x: cl::Value,
        y: cl::Value,
    ) -> cl::Value {
        let (a, b) = match is_min {
            true => (self.lesser(x, y), self.lesser(y, x)),
            false => (self.greater(x, y), self.greater(y, x)),
        };
        let (a, b) = (self.as_int(fmt, a), self.as_int(fmt, b));
        match is_min {
            true => self.ins().bor(a, b),
            false => self.ins().band(a, b),
        }
    }

    /// With a constant that is not NaN, the host's instruction suffices: of equal or unordered
    /// operands it returns the second.
    fn min_max_with_number(
        &mut self,
        op: FloatBinaryOp,
        fmt: FloatFmt,
        x: cl::Value,
        y: cl::Value,
    ) -> Option<cl::Value> {
        let is_min = match op {
            FloatBinaryOp::Min => true,
            FloatBinaryOp::Max => false,
            FloatBinaryOp::Add
            | FloatBinaryOp::Sub
            | FloatBinaryOp::Mul
            | FloatBinaryOp::Div
            | FloatBinaryOp::DivApprox
            | FloatBinaryOp::DivFull
            | FloatBinaryOp::MinNan
            | FloatBinaryOp::MaxNan => return None,
        };
        if fmt != FloatFmt::F32 {
            return None;
        }
        let is_fine = |number: Option<f32>| {
            // Of two zeros that must be this one.
            number.is_some_and(|c| !c.is_nan() && (c != 0.0 || c.is_sign_negative() == is_min))
        };
        let (other, number) = if is_fine(self.constant_lanes(y)) {
            (x, y)
        } else if is_fine(self.constant_lanes(x)) {
            (y, x)
        } else {
            return None;
        };
        Some(if is_min {
            self.lesser(other, number)
        } else {
            self.greater(other, number)
        })
    }
}
