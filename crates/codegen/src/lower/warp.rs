//! Warp operations that need no rendezvous.

use cranelift_codegen::ir::InstBuilder;
use ptxjit_ir::{Inst, InstData, Value};

use super::Lower;
use super::values::Val;

impl Lower<'_, '_> {
    /// Whether lanes need not always wait at an instruction.
    pub(super) fn has_fast_path(&self, inst: Inst) -> bool {
        match self.func.insts[inst].data {
            InstData::Warp { .. } => false,
            _ => false,
        }
    }

    pub(super) fn emit_fast_path(&mut self, _pos: usize, inst: Inst) {
        unreachable!("{inst} has no fast path");
    }

    /// `activemask`: the lanes that run here together, at their places in the warp.
    pub(super) fn active_mask(&mut self, result: Value) {
        let bits = self.mask_as_bits();
        let thread = self.gang().thread;
        let first = self.b.ins().band_imm_s(thread, 31);
        let bits = self.b.ins().ishl(bits, first);
        self.def(result, Val::Uniform(bits));
    }
}
