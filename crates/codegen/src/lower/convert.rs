//! Conversions that have an inline form; the rest is evaluated by a call.

use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{Convert, FloatFmt, FloatMode, FloatUnaryOp, NumFmt, ResizeOp, Round};

use super::Lower;
use super::pure::Quad;
use super::values::int_type;

/// The float format, for the two that arithmetic is done in.
fn native(fmt: NumFmt) -> Option<FloatFmt> {
    match fmt {
        NumFmt::F32 => Some(FloatFmt::F32),
        NumFmt::F64 => Some(FloatFmt::F64),
        _ => None,
    }
}

fn is_plain(cvt: &Convert) -> bool {
    !cvt.satfinite && !cvt.relu
}

/// How an integer-to-integer conversion without saturation changes the width.
fn int_resize(cvt: &Convert) -> Option<ResizeOp> {
    if !(cvt.from.is_int() && cvt.to.is_int()) || cvt.sat {
        return None;
    }
    Some(if cvt.to.ty() <= cvt.from.ty() {
        ResizeOp::Trunc
    } else if cvt.from.is_signed_int() {
        ResizeOp::Sext
    } else {
        ResizeOp::Uext
    })
}

impl Lower<'_, '_> {
    pub(super) fn scalar_convert(&mut self, cvt: &Convert, x: cl::Value) -> Option<cl::Value> {
        if !is_plain(cvt) {
            return None;
        }
        if let Some(op) = int_resize(cvt) {
            let x = self.cast_scalar(x, int_type(cvt.from.ty()));
            return Some(if cvt.from.ty() == cvt.to.ty() { x } else { self.scalar_resize(op, cvt.from.ty(), cvt.to.ty(), x) });
        }
        match (native(cvt.from), native(cvt.to)) {
            (Some(from), Some(to)) => self.float_to_float(cvt, from, to, x),
            (None, Some(to)) if cvt.from.is_int() && cvt.round == Round::Rn && !cvt.sat => Some(self.scalar_from_int(cvt, to, x)),
            (Some(from), None) if cvt.to.is_int() => self.scalar_to_int(cvt, from, x),
            _ => None,
        }
    }

    /// Between f32 and f64, or rounding in place; scalars only, save the latter.
    fn float_to_float(&mut self, cvt: &Convert, from: FloatFmt, to: FloatFmt, x: cl::Value) -> Option<cl::Value> {
        if cvt.sat {
            return None;
        }
        match (from, to) {
            _ if from == to => {
                let op = if cvt.integral { FloatUnaryOp::RoundInt } else { FloatUnaryOp::Copy };
                self.float_unary(op, from, FloatMode { round: cvt.round, ftz: cvt.ftz }, x)
            }
            (FloatFmt::F32, _) => {
                let x = self.as_float(from, x);
                let x = self.flush(from, cvt.ftz, x);
                Some(self.b.ins().fpromote(types::F64, x))
            }
            _ if cvt.round != Round::Rn => None,
            _ => {
                let x = self.as_float(from, x);
                let y = self.b.ins().fdemote(types::F32, x);
                Some(self.flush(to, cvt.ftz, y))
            }
        }
    }

    fn scalar_from_int(&mut self, cvt: &Convert, to: FloatFmt, x: cl::Value) -> cl::Value {
        let signed = cvt.from.is_signed_int();
        let x = self.cast_scalar(x, int_type(cvt.from.ty()));
        let x = match self.b.func.dfg.value_type(x) {
            types::I32 | types::I64 => x,
            _ if signed => self.b.ins().sextend(types::I32, x),
            _ => self.b.ins().uextend(types::I32, x),
        };
        let ty = if to == FloatFmt::F64 { types::F64 } else { types::F32 };
        if signed { self.b.ins().fcvt_from_sint(ty, x) } else { self.b.ins().fcvt_from_uint(ty, x) }
    }

    fn rounded(&mut self, fmt: FloatFmt, cvt: &Convert, x: cl::Value) -> Option<cl::Value> {
        let x = self.as_float(fmt, x);
        let x = self.flush(fmt, cvt.ftz, x);
        match cvt.round {
            Round::Rz => Some(x),
            Round::Rn => Some(self.b.ins().nearest(x)),
            Round::Rm => Some(self.b.ins().floor(x)),
            Round::Rp => Some(self.b.ins().ceil(x)),
            Round::Rna => None,
        }
    }

    fn scalar_to_int(&mut self, cvt: &Convert, from: FloatFmt, x: cl::Value) -> Option<cl::Value> {
        let ty = match cvt.to {
            NumFmt::S32 | NumFmt::U32 => types::I32,
            NumFmt::S64 | NumFmt::U64 => types::I64,
            _ => return None,
        };
        let x = self.rounded(from, cvt, x)?;
        let n = if cvt.to.is_signed_int() { self.b.ins().fcvt_to_sint_sat(ty, x) } else { self.b.ins().fcvt_to_uint_sat(ty, x) };
        if from == FloatFmt::F32 && ty == types::I32 {
            return Some(n);
        }
        // PTX gives the minimum for NaN here, CLIF zero.
        let nan = self.b.ins().fcmp(FloatCC::Unordered, x, x);
        let min = self.b.ins().iconst(ty, if ty == types::I32 { i64::from(i32::MIN) } else { i64::MIN });
        Some(self.b.ins().select(nan, min, n))
    }

    pub(super) fn vector_convert(&mut self, cvt: &Convert, x: Quad) -> Option<Quad> {
        if !is_plain(cvt) {
            return None;
        }
        if let Some(op) = int_resize(cvt) {
            return Some(if cvt.from.ty() == cvt.to.ty() { x } else { self.vector_resize(op, cvt.from.ty(), cvt.to.ty(), x) });
        }
        match (cvt.from, cvt.to) {
            (NumFmt::F32, NumFmt::F32) => Some(Quad::from_elem(self.float_to_float(cvt, FloatFmt::F32, FloatFmt::F32, x[0])?, 1)),
            (NumFmt::F64, NumFmt::F64) => {
                x.into_iter().map(|x| self.float_to_float(cvt, FloatFmt::F64, FloatFmt::F64, x)).collect()
            }
            (NumFmt::S32 | NumFmt::U32, NumFmt::F32) if cvt.round == Round::Rn && !cvt.sat => {
                let signed = cvt.from == NumFmt::S32;
                let y = if signed { self.b.ins().fcvt_from_sint(types::F32X4, x[0]) } else { self.b.ins().fcvt_from_uint(types::F32X4, x[0]) };
                Some(Quad::from_elem(y, 1))
            }
            (NumFmt::F32, NumFmt::S32 | NumFmt::U32) => {
                let x = self.rounded(FloatFmt::F32, cvt, x[0])?;
                let signed = cvt.to == NumFmt::S32;
                let n = if signed { self.b.ins().fcvt_to_sint_sat(types::I32X4, x) } else { self.b.ins().fcvt_to_uint_sat(types::I32X4, x) };
                Some(Quad::from_elem(n, 1))
            }
            (NumFmt::F32, NumFmt::F64) if !cvt.sat => {
                let x = self.as_float(FloatFmt::F32, x[0]);
                let x = self.flush(FloatFmt::F32, cvt.ftz, x);
                let lo = self.b.ins().fvpromote_low(x);
                let high = self.shuffle(x, x, [8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15]);
                let high = self.cast_vector(high, types::F32X4);
                let hi = self.b.ins().fvpromote_low(high);
                Some([lo, hi].into_iter().collect())
            }
            (NumFmt::F64, NumFmt::F32) if cvt.round == Round::Rn && !cvt.sat => {
                let halves: Quad = x
                    .into_iter()
                    .map(|x| {
                        let x = self.as_float(FloatFmt::F64, x);
                        self.b.ins().fvdemote(x)
                    })
                    .collect();
                let both = self.shuffle(halves[0], halves[1], [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23]);
                let both = self.cast_vector(both, types::F32X4);
                Some(Quad::from_elem(self.flush(FloatFmt::F32, cvt.ftz, both), 1))
            }
            _ => None,
        }
    }
}
