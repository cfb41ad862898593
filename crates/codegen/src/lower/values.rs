//! How the IR's values are held from definition to use: in the form that their variability says, in
//! variables between nodes. Scalars are held in the register class that their definition suggests.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{self as ir, InstData, Type};
use ptxjit_vectorize::{MayWrap, Variability};
use smallvec::SmallVec;

use super::{Buffer, Lower};
use crate::decisions::Assumed;
use crate::ops::{Parts, Val, int_type, subword_type, vector_type};

impl Lower<'_, '_> {
    /// The scalar CLIF type in which a uniform value is kept.
    pub(super) fn scalar_type(&self, value: ir::Value) -> cl::Type {
        match (self.func.ty(value), self.decided.is_float[value]) {
            (Type::B32, true) => types::F32,
            (Type::B64, true) => types::F64,
            (ty, _) => int_type(ty),
        }
    }

    /// The value in the form that its variability says.
    pub(super) fn get(&mut self, value: ir::Value) -> Val {
        if let Some(own) = self.own(value) {
            return own;
        }
        if let Some(val) = self.available.vals.get(&value) {
            return val.clone();
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
            return Val::Varying(self.load_home(home));
        }
        let vars = self.variables(value);
        let parts: Parts = vars.iter().map(|&var| self.b.use_var(var)).collect();
        match self.plan.variability[value] {
            Variability::Uniform => Val::Uniform(parts[0]),
            Variability::Affine { stride, .. } => Val::Affine(parts[0], stride),
            Variability::Varying => Val::Varying(parts),
        }
    }

    /// The variables that carry an escaping value between nodes.
    pub(super) fn variables(
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
    pub(super) fn variable_type(&self, value: ir::Value) -> cl::Type {
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
    pub(super) fn def(&mut self, value: ir::Value, val: Val) {
        let val = match val {
            Val::Uniform(x) => Val::Uniform(self.b.cast_scalar(x, self.scalar_type(value))),
            Val::Affine(x, stride) => {
                Val::Affine(self.b.cast_scalar(x, self.scalar_type(value)), stride)
            }
            Val::Varying(parts) => {
                let ty = vector_type(self.func.ty(value));
                Val::Varying(
                    parts
                        .into_iter()
                        .map(|part| self.b.cast_vector(part, ty))
                        .collect(),
                )
            }
        };
        self.available.splats.remove(&value);
        self.available.vals.insert(value, val.clone());
        if self.decided.residents.home(value).is_some() {
            self.bring_home(value);
        } else if self.plan.escapes[value] && !self.decided.invariants.is_pinned(value) {
            // Other nodes hold it as a vector, whether the guard passed or not.
            let val = match self.plan.variability[value] {
                Variability::Varying => Val::Varying(self.for_gang(|lower| lower.parts(value))),
                Variability::Uniform | Variability::Affine { .. } => val,
            };
            self.define_variables(value, &val);
        }
    }

    /// The variability of a value in the code being emitted.
    pub(super) fn variability(&self, value: ir::Value) -> Variability {
        self.decided.variability(value, self.assumed())
    }

    /// What holds in the code being emitted.
    pub(super) fn assumed(&self) -> Assumed<'_> {
        Assumed {
            one_lane: self.lane.active.is_some(),
            affine_inputs: self.node.affine_inputs,
        }
    }

    /// Assigns an escaping value's variables, or writes its home.
    pub(super) fn define_variables(&mut self, value: ir::Value, val: &Val) {
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
                vars.iter()
                    .zip(parts)
                    .for_each(|(&var, part)| self.b.def_var(var, part));
            }
        }
    }

    /// A uniform value as an integer scalar (for an affine one, that of lane 0).
    pub(super) fn scalar(&mut self, value: ir::Value) -> cl::Value {
        let x = match self.get(value) {
            Val::Uniform(x) | Val::Affine(x, _) => x,
            Val::Varying(_) => unreachable!("{value} is varying where a scalar is wanted"),
        };
        self.b.cast_scalar(x, int_type(self.func.ty(value)))
    }

    /// All lanes of a value as integer vectors.
    pub(super) fn parts(&mut self, value: ir::Value) -> Parts {
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
            Val::Uniform(x) => {
                let splat = self.b.splat(ty, x);
                SmallVec::from_elem(splat, self.b.n_parts(ty))
            }
            Val::Affine(base, stride) => match self.variability(value).may_wrap() {
                None => self.b.affine_parts(ty, base, stride),
                Some(may_wrap) => self.resolved_parts(base, stride, may_wrap),
            },
        };
        self.available.splats.insert(value, parts.clone());
        parts
    }

    /// All lanes of an affine value whose bits show whether its index wrapped.
    pub(super) fn resolved_parts(
        &mut self,
        base: cl::Value,
        stride: i64,
        may_wrap: MayWrap,
    ) -> Parts {
        let slack = may_wrap.scale << (MayWrap::BITS - 4);
        let near = self.b.ins().iadd_imm_s(base, slack);
        let plain = self
            .b
            .ins()
            .icmp_imm_s(IntCC::UnsignedLessThan, near, 2 * slack);
        let parts = self.either(
            plain,
            vec![types::I64X2; self.b.n_parts(Type::B64)],
            |lower| lower.b.affine_parts(Type::B64, base, stride).to_vec(),
            |lower| {
                let slot = lower.buffer(Buffer::Addresses);
                let buf = lower.b.ins().stack_addr(types::I64, slot, 0);
                let zero = lower.b.ins().iconst(types::I64, 0);
                lower.call_resolve_wrapped(base, stride, may_wrap, zero, buf);
                lower.b.load_buffer(buf, Type::B64).to_vec()
            },
        );
        Parts::from_vec(parts)
    }

    /// Lane masks of a predicate, one `i32x4` per quad.
    pub(super) fn mask_parts(&mut self, value: ir::Value) -> Parts {
        self.parts(value)
    }
}
