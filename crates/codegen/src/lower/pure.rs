//! Emission of pure instructions: as one scalar where the result is uniform or affine, else quad by
//! quad; lane by lane where there is no vector form; by a call to the IR's own evaluation where
//! there is no inline form at all.

use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{self as ir, FloatFmt, Inst, InstData, IntBinaryOp, Type};
use ptxjit_vectorize::Variability;
use smallvec::SmallVec;

use super::Lower;
use crate::ops::{Parts, Quad, Running, Val, condition, int_type, vector_type};
use ptxjit_abi::SlowForm;

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

    /// Whether most lanes run in the node being emitted.
    fn running(&self) -> Running {
        if self.node.is_general {
            Running::Few
        } else {
            Running::Most
        }
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
            .map(|part| self.b.cast_vector(part, ty))
            .collect();
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
                        uniform.unwrap_or_else(|| self.b.extract(*ty, quad, lane))
                    })
                    .collect();
                self.scalar_op(data, &lane_args)
            })
            .collect();
        self.b.collect(ty, &lanes).into_iter().collect()
    }

    /// The scalar form of a pure instruction. Operands and result may be in either register class.
    pub(super) fn scalar_op(&mut self, data: &InstData, args: &[cl::Value]) -> cl::Value {
        match *data {
            InstData::Const { ty, bits } => self.b.constant(ty, bits, false),
            InstData::StateOf { block } => {
                let state = self.plan.wait_of[block].expect("states are waits");
                self.b.ins().iconst(types::I32, i64::from(state))
            }
            InstData::VarAddr { var, offset } => self.var_addr(var, offset),
            InstData::FuncAddr { func } => self.b.func_addr(func),
            InstData::StackAddr { slot, offset } => {
                let at = i64::from(self.decided.slots.offsets[slot]) + i64::from(offset);
                self.b.ins().iconst(types::I64, at)
            }
            InstData::IntUnary { op, ty, .. } => {
                let x = self.b.cast_scalar(args[0], int_type(ty));
                self.b.scalar_int_unary(op, ty, x)
            }
            InstData::IntBinary { op, ty, .. } => {
                let count = matches!(op, IntBinaryOp::Shl | IntBinaryOp::Ushr | IntBinaryOp::Sshr);
                let x = self.b.cast_scalar(args[0], int_type(ty));
                let y = self
                    .b
                    .cast_scalar(args[1], if count { types::I32 } else { int_type(ty) });
                self.b
                    .scalar_int_binary(op, ty, x, y)
                    .unwrap_or_else(|| self.by_call(data, args))
            }
            InstData::IntTernary { op, ty, .. } => {
                let ints = self.b.in_int_registers(args);
                self.b
                    .scalar_int_ternary(op, ty, &ints)
                    .unwrap_or_else(|| self.by_call(data, args))
            }
            InstData::Lop3 { lut, .. } => {
                let x: SmallVec<[cl::Value; 3]> = args
                    .iter()
                    .map(|&arg| self.b.cast_scalar(arg, types::I32))
                    .collect();
                self.b.lop3(lut, [x[0], x[1], x[2]])
            }
            InstData::Resize { op, from, to, .. } => {
                let x = self.b.cast_scalar(args[0], int_type(from));
                self.b.scalar_resize(op, from, to, x)
            }
            InstData::Compare { op, ty, .. } => {
                let x = self.b.cast_scalar(args[0], int_type(ty));
                let y = self.b.cast_scalar(args[1], int_type(ty));
                self.b.ins().icmp(condition(op), x, y)
            }
            InstData::Select { ty, .. } => {
                let float = matches!(self.b.func.dfg.value_type(args[1]), types::F32 | types::F64);
                let class = match (ty, float) {
                    (Type::B32, true) => types::F32,
                    (Type::B64, true) => types::F64,
                    _ => int_type(ty),
                };
                let x = self.b.cast_scalar(args[1], class);
                let y = self.b.cast_scalar(args[2], class);
                self.b.ins().select(args[0], x, y)
            }
            InstData::FloatUnary { op, fmt, mode, .. } => self
                .b
                .float_unary(op, fmt, mode, args[0])
                .unwrap_or_else(|| self.by_call(data, args)),
            InstData::FloatBinary { op, fmt, mode, .. } => self
                .b
                .float_binary(op, fmt, mode, args[0], args[1])
                .unwrap_or_else(|| self.by_call(data, args)),
            InstData::Fma { fmt, mode, .. } => self
                .b
                .fma(fmt, mode, [args[0], args[1], args[2]], self.running())
                .unwrap_or_else(|| self.by_call(data, args)),
            InstData::FloatCompare { op, fmt, ftz, .. } => {
                self.b.float_compare(op, fmt, ftz, args[0], args[1])
            }
            InstData::Convert { cvt, .. } => self
                .b
                .scalar_convert(&cvt, args[0])
                .unwrap_or_else(|| self.by_call(data, args)),
            InstData::ToGeneric { space, .. } | InstData::FromGeneric { space, .. } => {
                let base = self.b.window_base(space);
                let x = self.b.cast_scalar(args[0], types::I64);
                if matches!(data, InstData::ToGeneric { .. }) {
                    self.b.ins().iadd(x, base)
                } else {
                    self.b.ins().isub(x, base)
                }
            }
            InstData::Bfi { ty, .. } => {
                let ints = self.b.in_int_registers(args);
                self.b.scalar_bfi(ty, &ints)
            }
            InstData::ConvertRs { cvt, .. } => self
                .b
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

    /// Evaluates an instruction that has no inline form.
    fn by_call(&mut self, data: &InstData, args: &[cl::Value]) -> cl::Value {
        self.note_slow(SlowForm::Call);
        self.b.evaluated(data, args)
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
            InstData::Bfi {
                ty,
                args: [a, b, pos, len],
            } => match (self.func.as_const(pos), self.func.as_const(len)) {
                (Some(pos), Some(len)) => {
                    let (field, into) = (self.quad(a, q), self.quad(b, q));
                    Some(self.b.vector_bfi(ty, field, into, pos, len))
                }
                _ if ty == Type::B64 => None,
                _ => self
                    .vector_bfi_any([a, b, pos, len], q)
                    .map(|word| Quad::from_elem(word, 1)),
            },
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
                x.into_iter()
                    .map(|x| self.b.float_unary(op, fmt, mode, x))
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
                    .map(|(x, y)| self.b.float_binary(op, fmt, mode, x, y))
                    .collect()
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
                match fmt {
                    FloatFmt::F16 | FloatFmt::Bf16 | FloatFmt::F32 => Some(Quad::from_elem(
                        self.b.float_compare(op, fmt, ftz, x[0], y[0]),
                        1,
                    )),
                    FloatFmt::F64 => {
                        let lo = self.b.float_compare(op, fmt, ftz, x[0], y[0]);
                        let hi = self.b.float_compare(op, fmt, ftz, x[1], y[1]);
                        Some(Quad::from_elem(self.b.narrow(lo, hi), 1))
                    }
                }
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
            InstData::ToGeneric { space, arg } | InstData::FromGeneric { space, arg } => {
                let base = self.b.window_base(space);
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
            let masks = self.b.widen_mask(mask);
            return (0..2)
                .map(|i| self.b.choose(masks[i], x[i], y[i]))
                .collect();
        }
        Quad::from_elem(self.b.choose(mask, x[0], y[0]), 1)
    }
}
