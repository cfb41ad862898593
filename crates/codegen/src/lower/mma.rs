//! Matrices in the registers of a whole warp: products by a function of ours, and tiles that are transposed in registers.

use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use ptxjit_ir::{Inst, InstData, Type, Value, WarpOp};

use super::Lower;
use super::values::{Parts, Val, vector_type};
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

    /// The columns of a tile of 8 by 8 halves, whose rows are the vectors of a value.
    pub(super) fn transpose_tile(&mut self, tile: Value) -> Parts {
        const LOW: [u8; 16] = [0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23];
        let rows = self.parts(tile);
        // Halves of two rows side by side, of four, of eight.
        let pairs: Vec<[cl::Value; 2]> = rows
            .chunks(2)
            .map(|rows| {
                [LOW, LOW.map(|byte| byte + 8)].map(|bytes| self.shuffle(rows[0], rows[1], bytes))
            })
            .collect();
        let fours: Vec<[cl::Value; 4]> = pairs
            .chunks(2)
            .map(|pairs| {
                let [a, b] = self.zip(Type::B32, pairs[0][0], pairs[1][0]);
                let [c, d] = self.zip(Type::B32, pairs[0][1], pairs[1][1]);
                [a, b, c, d]
            })
            .collect();
        let columns = (0..4).flat_map(|i| self.zip(Type::B64, fours[0][i], fours[1][i]));
        let columns: Vec<cl::Value> = columns.collect();
        columns
            .into_iter()
            .map(|column| self.cast_vector(column, types::I32X4))
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
