//! Emission of pure instructions: as one scalar where the result is uniform or affine, else quad by
//! quad; lane by lane where there is no vector form; by a call to the IR's own evaluation where
//! there is no inline form at all.

use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{self as ir, FloatFmt, Inst, InstData, IntBinaryOp, Type};
use ptxjit_vectorize::Variability;
use smallvec::SmallVec;

use super::Lower;
use super::values::{Parts, Val, int_type, vector_type};
use ptxjit_abi::SlowForm;
use ptxjit_abi::object::Helper;

/// One quad of a value: one vector, or two at 64 bits.
pub(super) type Quad = SmallVec<[cl::Value; 2]>;

impl Lower<'_, '_> {
    /// Emits a pure instruction whose result is a scalar.
    pub(super) fn pure_scalar(&mut self, inst: Inst) {
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

    /// The scalar in whatever register class it is in.
    fn any_scalar(&mut self, value: ir::Value) -> cl::Value {
        match self.get(value) {
            Val::Uniform(x) | Val::Affine(x, _) => x,
            Val::Varying(_) => unreachable!("{value} is varying where a scalar is wanted"),
        }
    }

    /// Emits quad `q` of a pure instruction with a varying result.
    pub(super) fn pure_quad(&mut self, inst: Inst, q: usize) {
        let data = &self.func.insts[inst].data;
        let result = self.func.insts[inst].results[0];
        let quad = match self.vector_op(data, q) {
            Some(quad) => quad,
            None => {
                self.note_slow(SlowForm::Lanes);
                self.by_lane(data, self.func.ty(result), q)
            }
        };
        self.push_quad(result, quad, q);
    }

    /// Quad `q` of float arithmetic. It stays a vector of floats: all of its uses are float
    /// arithmetic.
    pub(super) fn float_quad(&mut self, inst: Inst, q: usize) {
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
        let cast: Quad = quad
            .into_iter()
            .map(|part| self.cast_vector(part, ty))
            .collect();
        if q == 0 {
            self.available.splats.remove(&value);
            self.available
                .vals
                .insert(value, Val::Varying(Parts::new()));
        }
        let is_last = q + 1 == self.quads();
        let Some(Val::Varying(parts)) = self.available.vals.get_mut(&value) else {
            unreachable!("quads are pushed in order")
        };
        parts.extend(cast);
        if is_last && self.decided.residents.home(value).is_some() {
            self.bring_home(value);
        } else if is_last && self.plan.escapes[value] {
            let val = Val::Varying(parts.clone());
            self.define_variables(value, &val);
        }
    }

    /// Quad `q` of a value: one vector, or two at 64 bits.
    pub(super) fn quad(&mut self, value: ir::Value, q: usize) -> Quad {
        let n = if self.func.ty(value) == Type::B64 {
            2
        } else {
            1
        };
        if let Some(Val::Varying(parts)) = self.available.vals.get(&value) {
            return parts[q * n..(q + 1) * n].iter().copied().collect();
        }
        let parts = self.parts(value);
        parts[q * n..(q + 1) * n].iter().copied().collect()
    }

    /// Emits an instruction for the four lanes of a quad one after the other.
    pub(super) fn by_lane(&mut self, data: &InstData, ty: Type, q: usize) -> Quad {
        let args: SmallVec<[(Type, Quad); 4]> = data
            .args()
            .iter()
            .map(|&arg| (self.func.ty(arg), self.quad(arg, q)))
            .collect();
        let uniform: SmallVec<[Option<cl::Value>; 4]> = data
            .args()
            .iter()
            .map(|&arg| match self.variability(arg) {
                Variability::Uniform => Some(self.any_scalar(arg)),
                Variability::Affine { .. } | Variability::Varying => None,
            })
            .collect();
        let lanes: SmallVec<[cl::Value; 4]> = (0..4)
            .map(|lane| {
                let lane_args: SmallVec<[cl::Value; 4]> = args
                    .iter()
                    .zip(&uniform)
                    .map(|((ty, quad), uniform)| {
                        uniform.unwrap_or_else(|| self.extract(*ty, quad, lane))
                    })
                    .collect();
                self.scalar_op(data, &lane_args)
            })
            .collect();
        self.collect(ty, &lanes).into_iter().collect()
    }

    /// The scalar form of a pure instruction. Operands and result may be in either register class.
    pub(super) fn scalar_op(&mut self, data: &InstData, args: &[cl::Value]) -> cl::Value {
        match *data {
            InstData::Const { ty, bits } => self.constant(ty, bits, false),
            InstData::StateOf { block } => {
                let state = self.plan.wait_of[block].expect("states are waits");
                self.b.ins().iconst(types::I32, i64::from(state))
            }
            InstData::VarAddr { var, offset } => self.var_addr(var, offset),
            InstData::FuncAddr { func } => self.func_addr(func),
            InstData::StackAddr { slot, offset } => {
                let at = i64::from(self.decided.slots.offsets[slot]) + i64::from(offset);
                self.b.ins().iconst(types::I64, at)
            }
            InstData::IntUnary { op, ty, .. } => {
                let x = self.cast_scalar(args[0], int_type(ty));
                self.scalar_int_unary(op, ty, x)
            }
            InstData::IntBinary { op, ty, .. } => {
                let count = matches!(op, IntBinaryOp::Shl | IntBinaryOp::Ushr | IntBinaryOp::Sshr);
                let x = self.cast_scalar(args[0], int_type(ty));
                let y = self.cast_scalar(args[1], if count { types::I32 } else { int_type(ty) });
                self.scalar_int_binary(op, ty, x, y)
                    .unwrap_or_else(|| self.by_call(data, args))
            }
            InstData::IntTernary { op, ty, .. } => {
                let ints = self.in_int_registers(args);
                self.scalar_int_ternary(op, ty, &ints)
                    .unwrap_or_else(|| self.by_call(data, args))
            }
            InstData::Lop3 { lut, .. } => {
                let x: SmallVec<[cl::Value; 3]> = args
                    .iter()
                    .map(|&arg| self.cast_scalar(arg, types::I32))
                    .collect();
                self.lop3(lut, [x[0], x[1], x[2]])
            }
            InstData::Resize { op, from, to, .. } => {
                let x = self.cast_scalar(args[0], int_type(from));
                self.scalar_resize(op, from, to, x)
            }
            InstData::Compare { op, ty, .. } => {
                let x = self.cast_scalar(args[0], int_type(ty));
                let y = self.cast_scalar(args[1], int_type(ty));
                self.b.ins().icmp(super::int::condition(op), x, y)
            }
            InstData::Select { ty, .. } => {
                let float = matches!(self.b.func.dfg.value_type(args[1]), types::F32 | types::F64);
                let class = match (ty, float) {
                    (Type::B32, true) => types::F32,
                    (Type::B64, true) => types::F64,
                    _ => int_type(ty),
                };
                let x = self.cast_scalar(args[1], class);
                let y = self.cast_scalar(args[2], class);
                self.b.ins().select(args[0], x, y)
            }
            InstData::FloatUnary { op, fmt, mode, .. } => self
                .float_unary(op, fmt, mode, args[0])
                .unwrap_or_else(|| self.by_call(data, args)),
            InstData::FloatBinary { op, fmt, mode, .. } => self
                .float_binary(op, fmt, mode, args[0], args[1])
                .unwrap_or_else(|| self.by_call(data, args)),
            InstData::Fma { fmt, mode, .. } => self
                .fma(fmt, mode, [args[0], args[1], args[2]])
                .unwrap_or_else(|| self.by_call(data, args)),
            InstData::FloatCompare { op, fmt, ftz, .. } => {
                self.float_compare(op, fmt, ftz, args[0], args[1])
            }
            InstData::Convert { cvt, .. } => self
                .scalar_convert(&cvt, args[0])
                .unwrap_or_else(|| self.by_call(data, args)),
            InstData::ToGeneric { space, .. } | InstData::FromGeneric { space, .. } => {
                let base = self.window_base(space);
                let x = self.cast_scalar(args[0], types::I64);
                if matches!(data, InstData::ToGeneric { .. }) {
                    self.b.ins().iadd(x, base)
                } else {
                    self.b.ins().isub(x, base)
                }
            }
            InstData::Bfi { ty, .. } => {
                let ints = self.in_int_registers(args);
                self.scalar_bfi(ty, &ints)
            }
            InstData::ConvertRs { cvt, .. } => self
                .narrow_f32(&cvt, Some(args[1]), args[0])
                .unwrap_or_else(|| self.by_call(data, args)),
            InstData::Sreg { .. }
            | InstData::IsSpace { .. }
            | InstData::EndLane { .. }
            | InstData::FirstRunning { .. }
            | InstData::Load { .. }
            | InstData::Store { .. }
            | InstData::Atomic { .. }
            | InstData::Fence { .. }
            | InstData::Barrier { .. }
            | InstData::Warp { .. }
            | InstData::Call { .. }
            | InstData::CallIndirect { .. }
            | InstData::Device { .. }
            | InstData::StackSave
            | InstData::StackRestore { .. }
            | InstData::Alloca { .. }
            | InstData::Nanosleep { .. }
            | InstData::Prefetch { .. }
            | InstData::Count { .. }
            | InstData::Nop => unreachable!("not a pure instruction: {data:?}"),
        }
    }

    /// Scalars that may be kept in float registers, for an instruction on integers.
    fn in_int_registers(&mut self, args: &[cl::Value]) -> SmallVec<[cl::Value; 4]> {
        args.iter()
            .map(|&arg| match self.b.func.dfg.value_type(arg) {
                types::F32 => self.cast_scalar(arg, types::I32),
                types::F64 => self.cast_scalar(arg, types::I64),
                _ => arg,
            })
            .collect()
    }

    /// Evaluates an instruction that has no inline form.
    fn by_call(&mut self, data: &InstData, args: &[cl::Value]) -> cl::Value {
        self.note_slow(SlowForm::Call);
        self.evaluated(data, args)
    }

    /// Evaluates an instruction by a call to `ptxjit_ir::eval`.
    pub(super) fn evaluated(&mut self, data: &InstData, args: &[cl::Value]) -> cl::Value {
        let mut call_args = vec![self.kept_inst(data)];
        for idx in 0..4 {
            let arg = match args.get(idx) {
                Some(&arg) => self.to_i64(arg),
                None => self.b.ins().iconst(types::I64, 0),
            };
            call_args.push(arg);
        }
        let raw = self
            .call_helper(Helper::Eval, &call_args, Some(types::I64))
            .expect("eval returns a value");
        let ty = data.result_type();
        if ty == Type::B64 {
            raw
        } else {
            self.b.ins().ireduce(int_type(ty), raw)
        }
    }

    /// A scalar of any type as the `u64` that evaluation works on.
    pub(super) fn to_i64(&mut self, x: cl::Value) -> cl::Value {
        match self.b.func.dfg.value_type(x) {
            types::I64 => x,
            types::F64 => self.cast_scalar(x, types::I64),
            types::F32 => {
                let bits = self.cast_scalar(x, types::I32);
                self.b.ins().uextend(types::I64, bits)
            }
            _ => self.b.ins().uextend(types::I64, x),
        }
    }

    /// The vector form of a pure instruction for one quad, where there is one.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others work lane by lane")]
    fn vector_op(&mut self, data: &InstData, q: usize) -> Option<Quad> {
        match *data {
            InstData::IntUnary { op, ty, arg } => {
                let x = self.quad(arg, q);
                self.vector_int_unary(op, ty, x)
            }
            InstData::IntBinary {
                op,
                ty,
                args: [a, b],
            } => self.vector_int_binary(op, ty, a, b, q),
            InstData::IntTernary { op, ty, args } => self.vector_int_ternary(op, ty, args, q),
            InstData::Bfi {
                ty,
                args: [a, b, pos, len],
            } => match (self.func.as_const(pos), self.func.as_const(len)) {
                (Some(pos), Some(len)) => {
                    let (field, into) = (self.quad(a, q), self.quad(b, q));
                    Some(self.vector_bfi(ty, field, into, pos, len))
                }
                _ if ty == Type::B64 => None,
                _ => self
                    .vector_bfi_any([a, b, pos, len], q)
                    .map(|word| Quad::from_elem(word, 1)),
            },
            InstData::Lop3 { lut, args } => {
                let x = args.map(|arg| self.quad(arg, q)[0]);
                Some(Quad::from_elem(self.lop3(lut, x), 1))
            }
            InstData::Resize { op, from, to, arg } => {
                let x = self.quad(arg, q);
                Some(self.vector_resize(op, from, to, x))
            }
            InstData::Compare {
                op,
                ty,
                args: [a, b],
            } => {
                let (x, y) = (self.quad(a, q), self.quad(b, q));
                Some(self.vector_compare(op, ty, x, y))
            }
            InstData::Select {
                ty,
                cond,
                args: [a, b],
            } => Some(self.vector_select(ty, cond, a, b, q)),
            InstData::FloatUnary { op, fmt, mode, arg } => {
                let x = self.quad(arg, q);
                x.into_iter()
                    .map(|x| self.float_unary(op, fmt, mode, x))
                    .collect()
            }
            InstData::FloatBinary {
                op,
                fmt,
                mode,
                args: [a, b],
            } => {
                let (x, y) = (self.quad(a, q), self.quad(b, q));
                x.into_iter()
                    .zip(y)
                    .map(|(x, y)| self.float_binary(op, fmt, mode, x, y))
                    .collect()
            }
            InstData::Fma { fmt, mode, args } => {
                let [x, y, z] = args.map(|arg| self.quad(arg, q));
                (0..x.len())
                    .map(|i| self.fma(fmt, mode, [x[i], y[i], z[i]]))
                    .collect()
            }
            InstData::FloatCompare {
                op,
                fmt,
                ftz,
                args: [a, b],
            } => {
                let (x, y) = (self.quad(a, q), self.quad(b, q));
                match fmt {
                    FloatFmt::F16 | FloatFmt::Bf16 | FloatFmt::F32 => Some(Quad::from_elem(
                        self.float_compare(op, fmt, ftz, x[0], y[0]),
                        1,
                    )),
                    FloatFmt::F64 => {
                        let lo = self.float_compare(op, fmt, ftz, x[0], y[0]);
                        let hi = self.float_compare(op, fmt, ftz, x[1], y[1]);
                        Some(Quad::from_elem(self.narrow(lo, hi), 1))
                    }
                }
            }
            InstData::Convert { cvt, arg } => {
                let x = self.quad(arg, q);
                self.vector_convert(&cvt, x)
            }
            InstData::ConvertRs { cvt, arg, bits } => {
                let (x, bits) = (self.quad(arg, q)[0], self.quad(bits, q)[0]);
                let code = self.narrow_f32(&cvt, Some(bits), x)?;
                Some(Quad::from_elem(code, 1))
            }
            InstData::ToGeneric { space, arg } | InstData::FromGeneric { space, arg } => {
                let base = self.window_base(space);
                let base = self.b.ins().splat(types::I64X2, base);
                let add = matches!(data, InstData::ToGeneric { .. });
                let x = self.quad(arg, q);
                Some(
                    x.into_iter()
                        .map(|x| {
                            if add {
                                self.b.ins().iadd(x, base)
                            } else {
                                self.b.ins().isub(x, base)
                            }
                        })
                        .collect(),
                )
            }
            _ => None,
        }
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
            let masks = self.widen_mask(mask);
            return (0..2).map(|i| self.choose(masks[i], x[i], y[i])).collect();
        }
        Quad::from_elem(self.choose(mask, x[0], y[0]), 1)
    }
}
