//! Products of matrices in the registers of a whole warp, by a function of ours.

use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use ptxjit_ir::{Inst, InstData, WarpOp};

use super::Lower;
use super::values::{Val, vector_type};
use crate::helpers::Helper;
use crate::mma::{MmaBuffer, register_stride};

impl Lower<'_, '_> {
    /// D for the lanes of `group`.
    pub(super) fn mma_by_call(&mut self, inst: Inst, group: cl::Value) -> Vec<Val> {
        let data = self.func.insts[inst].data.clone();
        let InstData::Warp {
            op: WarpOp::Mma(mma),
            ref args,
            ..
        } = data
        else {
            unreachable!("only products come here");
        };
        let flags = MemFlagsData::trusted();
        let ty = mma.register();
        let slot = self.mma_buffer();
        let buffer = self.b.ins().stack_addr(types::I64, slot, 0);
        for (n, &arg) in args[..mma.n_args()].iter().enumerate() {
            for (i, part) in self.parts(arg).into_iter().enumerate() {
                let at = register_stride(ty) * n + 16 * i;
                self.b.ins().store(flags, part, buffer, at as i32);
            }
        }
        let data = self.kept_inst(&data);
        let group = self.b.ins().uextend(types::I64, group);
        self.call_helper(Helper::Mma, &[data, group, buffer], None);
        (0..mma.d_registers())
            .map(|n| {
                let at = core::mem::offset_of!(MmaBuffer, results) + register_stride(ty) * n;
                let parts = (0..self.n_parts(ty)).map(|i| {
                    let at = (at + 16 * i) as i32;
                    self.b.ins().load(vector_type(ty), flags, buffer, at)
                });
                Val::Varying(parts.collect())
            })
            .collect()
    }

    /// A stack slot for the operands and results of one product.
    fn mma_buffer(&mut self) -> cl::StackSlot {
        *self.mma_slot.get_or_insert_with(|| {
            let size = size_of::<MmaBuffer>() as u32;
            let data = cl::StackSlotData::new(cl::StackSlotKind::ExplicitSlot, size, 4);
            self.b.create_sized_stack_slot(data)
        })
    }
}
