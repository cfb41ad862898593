//! How the IR's values are held from definition to use: in the form that their variability says, in
//! variables between nodes. Scalars are held in the register class that their definition suggests.

use core::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use ptxjit_abi::CtaContext;
use ptxjit_ir::{self as ir, Inst, InstData, Type, Value};
use ptxjit_vectorize::{MayWrap, Variability};
use smallvec::SmallVec;

use crate::lower::stubs::Stub;
use crate::lower::{Buffer, Lower};
use crate::ops::{Parts, Val, int_type, subword_type, vector_type};

impl Lower<'_, '_> {
    /// The value in the form that its variability says.
    pub(in crate::lower) fn get(&mut self, value: ir::Value) -> Val {
        let known = self.own(value);
        let known = known.or_else(|| self.available.vals.get(&value).cloned());
        if let Some(val) = known {
            return val;
        }
        let val = self.fetch(value);
        self.available.vals.insert(value, val.clone());
        val
    }

    fn fetch(&mut self, value: ir::Value) -> Val {
        if let Some(pinned) = self.emitted.pinned.get(&value) {
            return pinned.clone();
        }
        if let Some(&InstData::Const { ty, bits }) = self.func.def_inst(value) {
            return Val::Uniform(self.b.constant(ty, bits, self.decided.is_float[value]));
        }
        if self.decided.in_bits[value] {
            let bits = self.pred_bits(value);
            return Val::Varying(self.b.mask_from_bits(bits));
        }
        if let Some(inst) = self.decided.invariants.rematerialized[value] {
            self.emit_pinned(inst, value);
            return self.available.vals[&value].clone();
        }
        if let Some(quads) = self.loosened(value) {
            return Val::Varying(quads);
        }
        self.fetch_variables(value)
    }

    fn fetch_variables(&mut self, value: ir::Value) -> Val {
        if let Some(home) = self.decided.residents.home(value) {
            return Val::Varying(self.load_home(home, self.func.ty(value)));
        }
        let vars = self.variables(value);
        let parts = self.b.use_vars(&vars);
        match self.plan.variability[value] {
            Variability::Uniform => Val::Uniform(parts[0]),
            Variability::Affine { stride, .. } => Val::Affine(parts[0], stride),
            Variability::Varying => Val::Varying(parts),
        }
    }

    /// The variables that carry an escaping value between nodes.
    pub(in crate::lower) fn variables(
        &mut self,
        value: ir::Value,
    ) -> SmallVec<[cranelift_frontend::Variable; 8]> {
        if self.vars.values[value].is_empty() {
            let n = match self.plan.variability[value] {
                Variability::Uniform | Variability::Affine { .. } => 1,
                Variability::Varying if self.decided.in_bits[value] => 1,
                Variability::Varying if self.decided.packed.carried[value] => {
                    self.b.n_packed(self.func.ty(value))
                }
                Variability::Varying => self.b.n_parts(self.func.ty(value)),
            };
            let ty = self.variable_type(value);
            self.vars.values[value] = (0..n).map(|_| self.b.declare_var(ty)).collect();
            self.vars.count += n;
        }
        self.vars.values[value].clone()
    }

    /// The type of an escaping value's variables.
    pub(in crate::lower) fn variable_type(&self, value: ir::Value) -> cl::Type {
        match self.plan.variability[value] {
            Variability::Uniform | Variability::Affine { .. } => self.scalar_type(value),
            Variability::Varying if self.decided.in_bits[value] => types::I32,
            Variability::Varying if self.decided.packed.carried[value] => {
                subword_type(self.func.ty(value))
            }
            Variability::Varying => vector_type(self.func.ty(value)),
        }
    }

    /// Records the result of an instruction; scalars may come in either register class.
    pub(in crate::lower) fn def(&mut self, value: ir::Value, val: Val) {
        let val = self.cast_val(value, val);
        self.available.splats.remove(&value);
        self.available.vals.insert(value, val.clone());
        if self.decided.residents.home(value).is_some() {
            self.bring_home(value);
        } else if self.decided.crosses[value] && !self.decided.invariants.is_pinned(value) {
            // Other nodes hold it as a vector, whether the guard passed or not.
            let val = match self.plan.variability[value] {
                Variability::Varying => Val::Varying(self.for_gang(|lower| lower.parts(value))),
                Variability::Uniform | Variability::Affine { .. } => val,
            };
            self.define_variables(value, &val);
        }
    }

    /// What a value is held as, in the register class and the vectors in which it is held.
    pub(super) fn cast_val(&mut self, value: ir::Value, val: Val) -> Val {
        let (scalar, vector) = (self.scalar_type(value), vector_type(self.func.ty(value)));
        match val {
            Val::Uniform(x) => Val::Uniform(self.b.cast_scalar(x, scalar)),
            Val::Affine(x, stride) => Val::Affine(self.b.cast_scalar(x, scalar), stride),
            Val::Varying(parts) => Val::Varying(self.b.cast_vectors(&parts, vector)),
        }
    }

    /// Assigns an escaping value's variables, or writes its home.
    pub(in crate::lower) fn define_variables(&mut self, value: ir::Value, val: &Val) {
        if let (Some(home), Val::Varying(parts)) = (self.decided.residents.home(value), val) {
            return self.store_home(home, parts);
        }
        let vars = self.variables(value);
        match val {
            Val::Uniform(x) | Val::Affine(x, _) => self.b.def_var(vars[0], *x),
            Val::Varying(parts) if self.decided.in_bits[value] => {
                let bits = self.b.bits_of(parts);
                self.b.def_var(vars[0], bits);
            }
            Val::Varying(parts) => {
                let parts = match self.decided.packed.carried[value] {
                    true => self.b.repacked(parts, self.func.ty(value)),
                    false => parts.clone(),
                };
                self.b.def_vars(&vars, &parts);
            }
        }
    }

    /// A uniform value as an integer scalar (for an affine one, that of lane 0).
    pub(in crate::lower) fn scalar(&mut self, value: ir::Value) -> cl::Value {
        let x = match self.get(value) {
            Val::Uniform(x) | Val::Affine(x, _) => x,
            Val::Varying(_) => unreachable!("{value} is varying where a scalar is wanted"),
        };
        self.b.cast_scalar(x, int_type(self.func.ty(value)))
    }

    /// All lanes of a value as integer vectors.
    pub(in crate::lower) fn parts(&mut self, value: ir::Value) -> Parts {
        if let Some(own) = self.own_parts(value) {
            return own;
        }
        if let Some(parts) = self.available.splats.get(&value) {
            return parts.clone();
        }
        let ty = self.func.ty(value);
        let parts = match self.get(value) {
            Val::Varying(parts) => return parts,
            Val::Uniform(_) if self.func.as_const(value).is_some() => {
                let bits = self.func.as_const(value).expect("just tested");
                let splat = self.b.vconst(ty, bits);
                SmallVec::from_elem(splat, self.b.n_parts(ty))
            }
            Val::Uniform(x) => self.b.splat_parts(ty, x),
            Val::Affine(base, stride) => match self.variability(value).may_wrap() {
                None => self.b.affine_parts(ty, base, stride),
                Some(may_wrap) => self.resolved_parts(base, stride, may_wrap),
            },
        };
        self.available.splats.insert(value, parts.clone());
        parts
    }

    /// All lanes of an affine value whose bits show whether its index wrapped.
    fn resolved_parts(&mut self, base: cl::Value, stride: i64, may_wrap: MayWrap) -> Parts {
        let slack = may_wrap.scale << (MayWrap::BITS - 4);
        let near = self.b.ins().iadd_imm_s(base, slack);
        let plain = self
            .b
            .ins()
            .icmp_imm_s(IntCC::UnsignedLessThan, near, 2 * slack);
        let parts = self.either(
            plain,
            vec![vector_type(Type::B64); self.b.n_parts(Type::B64)],
            |lower| lower.b.affine_parts(Type::B64, base, stride).to_vec(),
            |lower| {
                let buf = lower.buffer_address(Buffer::Addresses);
                let zero = lower.b.ins().iconst(types::I64, 0);
                lower.call_resolve_wrapped(base, stride, may_wrap, zero, buf);
                lower.b.load_buffer(buf, Type::B64).to_vec()
            },
        );
        Parts::from_vec(parts)
    }

    /// Lane masks of a predicate, one `i32x4` per quad.
    pub(in crate::lower) fn mask_parts(&mut self, value: ir::Value) -> Parts {
        self.parts(value)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest are pure")]
    /// Emits an invariant here, whether it is ahead of the nodes or where it is used.
    pub(super) fn emit_pinned(&mut self, inst: Inst, value: ir::Value) {
        match self.func.insts[inst].data {
            InstData::Sreg { sreg } => {
                let val = self.sreg(sreg);
                self.available.vals.insert(value, val);
            }
            InstData::Load {
                ty, addr, offset, ..
            } => {
                let base = self.b.field(offset_of!(CtaContext, params));
                let at = self.scalar(addr);
                let at = if self.b.func.dfg.value_type(at) == types::I64 {
                    at
                } else {
                    self.b.ins().sextend(types::I64, at)
                };
                let at = self.b.ins().iadd(base, at);
                let ty = if self.decided.is_float[value] {
                    self.scalar_type(value)
                } else {
                    int_type(ty)
                };
                let x = self.b.ins().load(ty, MemFlagsData::new(), at, offset);
                self.available.vals.insert(value, Val::Uniform(x));
            }
            _ => {
                let args: Vec<cl::Value> = self.func.insts[inst]
                    .data
                    .args()
                    .iter()
                    .map(|&arg| match self.get(arg) {
                        Val::Uniform(x) | Val::Affine(x, _) => x,
                        Val::Varying(_) => unreachable!("invariants are scalars"),
                    })
                    .collect();
                let x = match self.marked_extension(inst) {
                    Some(x) => x,
                    None => self.scalar_op(&self.func.insts[inst].data, &args),
                };
                let x = self.b.cast_scalar(x, self.scalar_type(value));
                let val = match self.plan.variability[value] {
                    Variability::Affine { stride, .. } => Val::Affine(x, stride),
                    Variability::Uniform | Variability::Varying => Val::Uniform(x),
                };
                self.available.vals.insert(value, val);
            }
        }
    }

    /// A packed value as quads.
    fn loosened(&mut self, value: Value) -> Option<Parts> {
        let mut parts = self.held_packed(value)?;
        if self.func.ty(value) == Type::B1 {
            return Some(self.b.masks_of_width(parts, 32));
        }
        while self.b.lane_width(&parts) < 32 {
            parts = self.b.widened_each(false, &parts);
        }
        Some(parts)
    }

    /// The value at the lane that runs, if only one does.
    pub(in crate::lower) fn own(&mut self, value: Value) -> Option<Val> {
        let active_lane = self.lane.active.as_ref()?;
        if let Some(val) = active_lane.vals.get(&value) {
            return Some(val.clone());
        }
        let lane = active_lane.lane;
        if self.decided.in_bits[value] {
            let bits = self.for_gang(|lower| lower.pred_bits(value));
            let bit = self.b.ins().ushr(bits, lane);
            let bit = self.b.ins().band_imm_s(bit, 1);
            let x = Val::Uniform(self.b.ins().ireduce(types::I8, bit));
            let active_lane = self.lane.active.as_mut().expect("just seen");
            active_lane.vals.insert(value, x.clone());
            return Some(x);
        }
        let x = match self.for_gang(|lower| lower.get(value)) {
            Val::Uniform(x) => x,
            Val::Affine(base, stride) => match self.plan.variability[value].may_wrap() {
                None => self.lane_of_affine(value, base, stride, lane),
                Some(may_wrap) => {
                    let parts = self.resolved_parts(base, stride, may_wrap);
                    self.pick_lane(value, &parts, lane)
                }
            },
            Val::Varying(parts) => self.pick_lane(value, &parts, lane),
        };
        let x = self.b.cast_scalar(x, self.scalar_type(value));
        let active_lane = self.lane.active.as_mut().expect("just seen");
        active_lane.vals.insert(value, Val::Uniform(x));
        Some(Val::Uniform(x))
    }

    /// A vector of the value at the lane that runs, if only one does.
    fn own_parts(&mut self, value: Value) -> Option<Parts> {
        let active_lane = self.lane.active.as_ref()?;
        if let Some(parts) = active_lane.splats.get(&value) {
            return Some(parts.clone());
        }
        let ty = self.func.ty(value);
        let splat = match self.func.as_const(value) {
            Some(bits) => self.b.vconst(ty, bits),
            None => {
                let Some(Val::Uniform(x)) = self.own(value) else {
                    unreachable!("one lane has scalars only")
                };
                self.b.splat(ty, x)
            }
        };
        let parts = Parts::from_elem(splat, self.b.n_parts(ty));
        let active_lane = self.lane.active.as_mut().expect("just seen");
        active_lane.splats.insert(value, parts.clone());
        Some(parts)
    }

    /// Emits code that sees values as the whole gang holds them.
    pub(in crate::lower) fn for_gang<T>(&mut self, emit: impl FnOnce(&mut Self) -> T) -> T {
        let active_lane = self.lane.active.take();
        let result = emit(self);
        self.lane.active = active_lane;
        result
    }

    fn pick_lane(&mut self, value: Value, parts: &[cl::Value], lane: cl::Value) -> cl::Value {
        let ty = self.func.ty(value);
        let buf = self.store_to_buffer(Buffer::Picked, parts);
        self.b.pick_from(buf, (ty, int_type(ty)), lane)
    }

    /// `base + stride * lane`.
    pub(in crate::lower) fn lane_of_affine(
        &mut self,
        value: Value,
        base: cl::Value,
        stride: i64,
        lane: cl::Value,
    ) -> cl::Value {
        let ty = int_type(self.func.ty(value));
        let base = self.b.cast_scalar(base, ty);
        let lane = if ty == types::I64 {
            lane
        } else {
            self.b.ins().ireduce(ty, lane)
        };
        let distance = self.b.ins().imul_imm_s(lane, stride);
        self.b.ins().iadd(base, distance)
    }

    /// Writes the lanes of a value that may have wrapped to a buffer; an unmarked value is near
    /// `origin`.
    pub(in crate::lower) fn call_resolve_wrapped(
        &mut self,
        base: cl::Value,
        stride: i64,
        may_wrap: MayWrap,
        origin: cl::Value,
        buf: cl::Value,
    ) {
        let stride = self.b.ins().iconst(types::I64, stride);
        let scale = if may_wrap.above {
            -may_wrap.scale
        } else {
            may_wrap.scale
        };
        let scale = self.b.ins().iconst(types::I64, scale);
        let lanes = self.b.lanes;
        let lanes = self.b.ins().iconst(types::I32, lanes as i64);
        let args = [base, stride, scale, origin, lanes, buf];
        self.call(Stub::ResolveWrapped, &args);
    }

    /// A value that is at hand as packed vectors, or is carried so from another node.
    pub(super) fn held_packed(&mut self, value: Value) -> Option<Parts> {
        if let Some(parts) = self.available.subword.get(&value) {
            return Some(parts.clone());
        }
        let is_carried = self.decided.packed.carried[value]
            && !self.available.vals.contains_key(&value)
            && self.lane.active.is_none();
        if !is_carried {
            return None;
        }
        let vars = self.variables(value);
        let parts = self.b.use_vars(&vars);
        self.available.subword.insert(value, parts.clone());
        Some(parts)
    }
}
