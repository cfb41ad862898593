//! Windows of generic addresses, and operations of the device.

use core::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_abi::{CtaContext, DEVICE_VALUE_BYTES, RuntimeFns};
use ptxjit_ir::{CTA_SHIFT, Inst, InstData, Space, Type, Value};

use crate::lower::Lower;
use crate::ops::{Parts, Val, WINDOW, int_type};

impl Lower<'_, '_> {
    /// `cvta.local` and `cvta.to.local`.
    pub(in crate::lower) fn local_generic(&mut self, result: Value, arg: Value, to_generic: bool) {
        let val = if let Some(window) = self.only_window() {
            let x = self.scalar(arg);
            Val::Uniform(if to_generic {
                self.b.ins().iadd(x, window)
            } else {
                self.b.ins().isub(x, window)
            })
        } else {
            let windows = self.windows();
            let parts = self.parts(arg);
            let parts = parts.iter().zip(&windows).map(|(&x, &window)| {
                if to_generic {
                    self.b.ins().iadd(x, window)
                } else {
                    self.b.ins().isub(x, window)
                }
            });
            Val::Varying(parts.collect())
        };
        self.def(result, val);
    }

    /// `isspacep`.
    pub(in crate::lower) fn is_space(&mut self, result: Value, space: Space, arg: Value) {
        let ranges = self.space_ranges(space);
        let test = |lower: &mut Self, x: cl::Value| {
            let mut inside = lower.b.ins().iconst(types::I8, 0);
            for &(base, size) in &ranges {
                let distance = lower.b.ins().isub(x, base);
                let hit = lower.b.ins().icmp(IntCC::UnsignedLessThan, distance, size);
                inside = lower.b.ins().bor(inside, hit);
            }
            if matches!(space, Space::Global | Space::Generic) {
                lower.b.ins().bxor_imm_s(inside, 1)
            } else {
                inside
            }
        };
        let val = if self.is_uniform(result) {
            let x = self.scalar(arg);
            Val::Uniform(test(self, x))
        } else {
            let parts = self.parts(arg);
            let lanes: Vec<cl::Value> = (0..self.b.lanes)
                .map(|lane| {
                    let x = self.b.extract(Type::B64, &parts, lane);
                    test(self, x)
                })
                .collect();
            Val::Varying(self.b.collect(Type::B1, &lanes))
        };
        self.def(result, val);
    }

    /// The ranges of generic addresses of a space; for `.global` those that are not.
    fn space_ranges(&mut self, space: Space) -> Vec<(cl::Value, cl::Value)> {
        let window = self.b.ins().iconst(types::I64, WINDOW);
        let shared = self.b.field(offset_of!(CtaContext, shared_base));
        let const_base = self.b.field(offset_of!(CtaContext, const_base));
        let params = self.b.field(offset_of!(CtaContext, params));
        let local = self.b.field(offset_of!(CtaContext, local_base));
        let stride = self.b.field(offset_of!(CtaContext, local_stride));
        let n = self.b.ctx32(offset_of!(CtaContext, n_threads));
        let n = self.b.ins().uextend(types::I64, n);
        let local_size = self.b.ins().imul(n, stride);
        let small = self.b.ins().iconst(types::I64, 64 << 10);
        let bank = self.b.ins().iconst(types::I64, 1 << 20);
        match space {
            Space::Shared if self.inputs.clusters => {
                let rank = self.b.ctx32(offset_of!(CtaContext, cluster_ctarank));
                let rank = self.b.ins().uextend(types::I64, rank);
                let part = self.b.ins().ishl_imm_s(rank, i64::from(CTA_SHIFT));
                let size = self.b.ins().iconst(types::I64, 1 << CTA_SHIFT);
                vec![(self.b.ins().iadd(shared, part), size)]
            }
            Space::Shared | Space::SharedCluster => vec![(shared, window)],
            Space::Const => vec![(const_base, bank)],
            Space::Param => vec![(params, small)],
            Space::Local => vec![(local, local_size)],
            Space::Global | Space::Generic => {
                vec![(shared, window), (const_base, bank), (local, local_size)]
            }
        }
    }

    /// A device operation: operands are stored to memory, results loaded from there.
    pub(in crate::lower) fn device(&mut self, inst: Inst) {
        let node = &self.func.insts[inst];
        let InstData::Device { args, .. } = &node.data else {
            unreachable!("called for operations of the device")
        };
        let place = |n: usize| (n * DEVICE_VALUE_BYTES) as i32;
        let area = self.device_area(args.len() + node.results.len());
        for (n, &arg) in args.iter().enumerate() {
            for (i, part) in self.lane_parts(arg).into_iter().enumerate() {
                let at = place(n) + 16 * i as i32;
                self.b.store_own(part, area, at);
            }
        }
        let op = self.b.kept_inst(&node.data);
        let fns = self.b.field(offset_of!(CtaContext, fns));
        let (thread, bits) = (self.gang_thread(), self.mask_as_bits());
        let loc = self.b.u32_const(i64::from(self.node.loc.0));
        let call = [self.b.cta, op, thread, bits, area, loc];
        let bad = self
            .b
            .call_runtime(fns, offset_of!(RuntimeFns, device), &call);
        self.stop_if(bad, bad);
        for (n, &result) in node.results.iter().enumerate() {
            let (ty, at) = (self.func.ty(result), place(args.len() + n));
            let val = if self.b.lanes == 1 {
                let x = self.b.load_own(int_type(ty), area, at);
                // A predicate of a lane is 0 or all ones.
                Val::Uniform(if ty == Type::B1 {
                    self.b.ins().band_imm_u(x, 1)
                } else {
                    x
                })
            } else {
                let at = self.b.ins().iadd_imm_s(area, i64::from(at));
                Val::Varying(self.b.load_buffer(at, ty))
            };
            self.def(result, val);
        }
    }

    /// The value of each lane as vectors.
    fn lane_parts(&mut self, value: Value) -> Parts {
        if self.b.lanes == 1 {
            let x = self.scalar(value);
            Parts::from_elem(self.b.lane_scalar(self.func.ty(value), x), 1)
        } else {
            self.parts(value)
        }
    }

    /// Memory of the function for operands and results of one operation of the device.
    fn device_area(&mut self, n_values: usize) -> cl::Value {
        let size = (n_values.max(1) * DEVICE_VALUE_BYTES) as u32;
        let slot = match self.slots.device_area {
            Some(slot) => slot,
            None => {
                let data = cl::StackSlotData::new(cl::StackSlotKind::ExplicitSlot, size, 4);
                self.b.create_sized_stack_slot(data)
            }
        };
        self.slots.device_area = Some(slot);
        let data = &mut self.b.func.sized_stack_slots[slot];
        data.size = data.size.max(size);
        self.b.ins().stack_addr(types::I64, slot, 0)
    }
}
