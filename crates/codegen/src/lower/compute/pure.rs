//! Emission of pure instructions: as one scalar where the result is uniform or affine, else quad by
//! quad; lane by lane where there is no vector form; by a call to the IR's own evaluation where
//! there is no inline form at all.

use cranelift_codegen::ir::{self as cl, InstBuilder};
use ptxjit_abi::SlowForm;
use ptxjit_ir::{self as ir, FloatFmt, Inst, InstData, Space, Type};
use ptxjit_vectorize::Variability;
use smallvec::SmallVec;

use crate::lower::Lower;
use crate::ops::{Parts, Quad, Val, vector_type};

impl Lower<'_, '_> {
    /// Emits a pure instruction whose result is a scalar.
    pub(in crate::lower) fn pure_scalar(&mut self, inst: Inst) {
        let node = &self.func.insts[inst];
        let result = node.results[0];
        let args: SmallVec<[cl::Value; 4]> = node
            .data
            .args()
            .iter()
            .map(|&arg| self.any_scalar(arg))
            .collect();
        let x = match self.marked_extension(inst) {
            Some(x) => x,
            None => self.scalar_op(&node.data, &args),
        };
        let val = match self.variability(result) {
            Variability::Uniform => Val::Uniform(x),
            Variability::Affine { stride, .. } => Val::Affine(x, stride),
            Variability::Varying => unreachable!("varying results are emitted by quads"),
        };
        self.def(result, val);
    }

    /// Emits quad `q` of a pure instruction with a varying result.
    pub(in crate::lower) fn pure_quad(&mut self, inst: Inst, q: usize) {
        let data = &self.func.insts[inst].data;
        let result = self.func.insts[inst].results[0];
        let quad = self.vector_op(data, q);
        let quad = quad.unwrap_or_else(|| {
            self.note_slow(SlowForm::Lanes);
            self.by_lane(data, self.func.ty(result), q)
        });
        self.push_quad(result, quad, q);
    }

    /// Quad `q` of float arithmetic. It stays a vector of floats: all of its uses are float
    /// arithmetic.
    pub(in crate::lower) fn float_quad(&mut self, inst: Inst, q: usize) {
        let result = self.func.insts[inst].results[0];
        let Some(quad) = self.vector_op(&self.func.insts[inst].data, q) else {
            return self.pure_quad(inst, q);
        };
        match self.available.vals.get_mut(&result) {
            Some(Val::Varying(parts)) if q > 0 => parts.extend(quad),
            _ => {
                self.available
                    .vals
                    .insert(result, Val::Varying(quad.into_iter().collect()));
            }
        }
    }

    /// Adds a quad to a value under construction.
    pub(super) fn push_quad(&mut self, value: ir::Value, quad: Quad, q: usize) {
        let ty = vector_type(self.func.ty(value));
        let cast: Quad = self.b.each(&quad, |b, part| b.cast_vector(part, ty));
        if q == 0 {
            self.available.splats.remove(&value);
            self.available
                .vals
                .insert(value, Val::Varying(Parts::new()));
        }
        let is_last = q + 1 == self.b.quads();
        let Some(Val::Varying(parts)) = self.available.vals.get_mut(&value) else {
            unreachable!("quads are pushed in order")
        };
        parts.extend(cast);
        if is_last && self.decided.residents.home(value).is_some() {
            self.bring_home(value);
        } else if is_last && self.decided.crosses[value] {
            let val = Val::Varying(parts.clone());
            self.define_variables(value, &val);
        }
    }

    /// The vector form of a pure instruction for one quad, where there is one.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others work lane by lane")]
    fn vector_op(&mut self, data: &InstData, q: usize) -> Option<Quad> {
        match *data {
            InstData::IntUnary { op, ty, arg } => {
                let x = self.quad(arg, q);
                self.b.vector_int_unary(op, ty, x)
            }
            InstData::IntBinary {
                op,
                ty,
                args: [a, b],
            } => self.vector_int_binary(op, ty, a, b, q),
            InstData::IntTernary { op, ty, args } => self.vector_int_ternary(op, ty, args, q),
            InstData::Bfi { ty, args } => self.vector_bfi(ty, args, q),
            InstData::Lop3 { lut, args } => {
                let x = args.map(|arg| self.quad(arg, q)[0]);
                Some(Quad::from_elem(self.b.lop3(lut, x), 1))
            }
            InstData::Resize { op, from, to, arg } => {
                let x = self.quad(arg, q);
                Some(self.b.vector_resize(op, from, to, x))
            }
            InstData::Compare {
                op,
                ty,
                args: [a, b],
            } => {
                let (x, y) = (self.quad(a, q), self.quad(b, q));
                Some(self.b.vector_compare(op, ty, x, y))
            }
            InstData::Select {
                ty,
                cond,
                args: [a, b],
            } => Some(self.vector_select(ty, cond, a, b, q)),
            InstData::FloatUnary { op, fmt, mode, arg } => {
                let x = self.quad(arg, q);
                self.b.each(&x, |b, x| b.float_unary(op, fmt, mode, x))
            }
            InstData::FloatBinary {
                op,
                fmt,
                mode,
                args: [a, b],
            } => {
                let (x, y) = (self.quad(a, q), self.quad(b, q));
                self.b
                    .each_of_two((&x, &y), |b, x, y| b.float_binary(op, fmt, mode, x, y))
            }
            InstData::Fma { fmt, mode, args } => {
                let [x, y, z] = args.map(|arg| self.quad(arg, q));
                let lanes = self.running();
                (0..x.len())
                    .map(|i| self.b.fma(fmt, mode, [x[i], y[i], z[i]], lanes))
                    .collect()
            }
            InstData::FloatCompare {
                op,
                fmt,
                ftz,
                args: [a, b],
            } => {
                let (x, y) = (self.quad(a, q), self.quad(b, q));
                let low = self.b.float_compare(op, fmt, ftz, x[0], y[0]);
                let all = match fmt {
                    FloatFmt::F16 | FloatFmt::Bf16 | FloatFmt::F32 => low,
                    FloatFmt::F64 => {
                        let high = self.b.float_compare(op, fmt, ftz, x[1], y[1]);
                        self.b.narrow(low, high)
                    }
                };
                Some(Quad::from_elem(all, 1))
            }
            InstData::Convert { cvt, arg } => {
                let x = self.quad(arg, q);
                self.b.vector_convert(&cvt, x)
            }
            InstData::ConvertRs { cvt, arg, bits } => {
                let (x, bits) = (self.quad(arg, q)[0], self.quad(bits, q)[0]);
                let code = self.b.narrow_f32(&cvt, Some(bits), x)?;
                Some(Quad::from_elem(code, 1))
            }
            InstData::ToGeneric { space, arg } => Some(self.vector_window(space, true, arg, q)),
            InstData::FromGeneric { space, arg } => Some(self.vector_window(space, false, arg, q)),
            _ => None,
        }
    }

    fn vector_bfi(&mut self, ty: Type, args: [ir::Value; 4], q: usize) -> Option<Quad> {
        let [field, into, pos, len] = args;
        match (self.func.as_const(pos), self.func.as_const(len)) {
            (Some(pos), Some(len)) => {
                let (field, into) = (self.quad(field, q), self.quad(into, q));
                Some(self.b.vector_bfi(ty, field, into, pos, len))
            }
            _ if ty == Type::B64 => None,
            _ => self
                .vector_bfi_any(args, q)
                .map(|word| Quad::from_elem(word, 1)),
        }
    }

    /// Addresses from a window to generic ones, or back.
    fn vector_window(&mut self, space: Space, to_generic: bool, arg: ir::Value, q: usize) -> Quad {
        let base = self.b.window_base(space);
        let base = self.b.splat(Type::B64, base);
        let x = self.quad(arg, q).into_iter();
        x.map(|x| match to_generic {
            true => self.b.ins().iadd(x, base),
            false => self.b.ins().isub(x, base),
        })
        .collect()
    }

    fn vector_select(
        &mut self,
        ty: Type,
        cond: ir::Value,
        a: ir::Value,
        b: ir::Value,
        q: usize,
    ) -> Quad {
        let (x, y) = (self.quad(a, q), self.quad(b, q));
        if self.variability(cond) == Variability::Uniform {
            let cond = self.scalar(cond);
            return x
                .into_iter()
                .zip(y)
                .map(|(x, y)| self.b.ins().select(cond, x, y))
                .collect();
        }
        let mask = self.quad(cond, q)[0];
        if ty == Type::B64 {
            let masks = self.b.widen_mask(mask);
            return (0..2)
                .map(|i| self.b.choose(masks[i], x[i], y[i]))
                .collect();
        }
        Quad::from_elem(self.b.choose(mask, x[0], y[0]), 1)
    }
}
