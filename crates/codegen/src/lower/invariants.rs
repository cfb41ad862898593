//! The CTA context's fields, and values that are emitted ahead of all nodes.

use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use ptxjit_ir::{self as ir, Inst, InstData};
use ptxjit_vectorize::Variability;

use super::values::Val;
use super::{Available, Lower};
use crate::decisions::multiples;
use ptxjit_abi::CtaContext;

impl Lower<'_, '_> {
    /// Loads the context's fields that compiled code uses.
    pub(super) fn load_fields(&mut self) {
        let wide = [
            core::mem::offset_of!(CtaContext, params),
            core::mem::offset_of!(CtaContext, map_origin),
            core::mem::offset_of!(CtaContext, symbols),
            core::mem::offset_of!(CtaContext, arena_base),
            core::mem::offset_of!(CtaContext, arena_bits),
            core::mem::offset_of!(CtaContext, shared_base),
            core::mem::offset_of!(CtaContext, const_base),
            core::mem::offset_of!(CtaContext, local_base),
            core::mem::offset_of!(CtaContext, local_stride),
            core::mem::offset_of!(CtaContext, stack_top),
            core::mem::offset_of!(CtaContext, slots),
            core::mem::offset_of!(CtaContext, lane_states),
            core::mem::offset_of!(CtaContext, gang_states),
            core::mem::offset_of!(CtaContext, go_on),
            core::mem::offset_of!(CtaContext, poll),
            core::mem::offset_of!(CtaContext, masks),
            core::mem::offset_of!(CtaContext, tid_x),
            core::mem::offset_of!(CtaContext, tid_y),
            core::mem::offset_of!(CtaContext, tid_z),
            core::mem::offset_of!(CtaContext, junk),
            core::mem::offset_of!(CtaContext, fns),
            core::mem::offset_of!(CtaContext, counters),
        ];
        for offset in wide {
            let flags = MemFlagsData::trusted().with_can_move();
            let value = self
                .b
                .ins()
                .load(types::I64, flags, self.emitted.cta, offset as i32);
            self.emitted.fields.insert(offset, value);
        }
        let bits = self.field(core::mem::offset_of!(CtaContext, arena_bits));
        let one = self.b.ins().iconst(types::I64, 1);
        let size = self.b.ins().ishl(one, bits);
        self.emitted
            .fields
            .insert(core::mem::offset_of!(CtaContext, arena_bits), size);
        let upper = self.b.ins().ineg(size);
        self.emitted.forbidden = (0..=multiples::MOST)
            .map(|bits| match bits {
                0 => upper,
                _ => self.b.ins().bor_imm_s(upper, (1 << bits) - 1),
            })
            .collect();
    }

    /// A 64-bit field of the context; for `arena_bits` the arena's size.
    pub(super) fn field(&self, offset: usize) -> cl::Value {
        self.emitted.fields[&offset]
    }

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
                let base = self.field(core::mem::offset_of!(CtaContext, params));
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
                    super::values::int_type(ty)
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
                let x = self.cast_scalar(x, self.scalar_type(value));
                let val = match self.plan.variability[value] {
                    Variability::Affine { stride, .. } => Val::Affine(x, stride),
                    Variability::Uniform | Variability::Varying => Val::Uniform(x),
                };
                self.available.vals.insert(value, val);
            }
        }
    }
}
