//! Values that are emitted ahead of all nodes.

use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use ptxjit_ir::{self as ir, Inst, InstData};
use ptxjit_vectorize::Variability;

use super::{Available, Lower};
use crate::ops::{Val, int_type};
use ptxjit_abi::CtaContext;

impl Lower<'_, '_> {
    pub(super) fn emit_cta_invariants(&mut self) {
        for (value, inst) in self.decided.invariants.of_cta.clone() {
            self.emit_pinned(inst, value);
            let val = self.available.vals[&value].clone();
            self.emitted.pinned.insert(value, val);
        }
        self.available = Available::default();
    }

    pub(super) fn emit_gang_invariants(&mut self) {
        for (value, inst) in self.decided.invariants.of_gang.clone() {
            self.emit_pinned(inst, value);
            let val = self.available.vals[&value].clone();
            self.define_variables(value, &val);
        }
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
                let base = self.b.field(core::mem::offset_of!(CtaContext, params));
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
}
