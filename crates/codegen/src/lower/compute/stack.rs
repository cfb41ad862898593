//! The dynamic stack: `alloca`, `stacksave` and `stackrestore`.

use core::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_abi::{CtaContext, FaultKind};
use ptxjit_ir::{Type, Value};

use crate::lower::Lower;
use crate::ops::{Parts, Val, vector_type};

impl Lower<'_, '_> {
    fn stack_tops(&mut self) -> cl::Value {
        self.out.uses_stack = true;
        let tops = self.b.field(offset_of!(CtaContext, stack_top));
        let thread = self.gang_thread();
        let at = self.b.ins().uextend(types::I64, thread);
        let at = self.b.ins().ishl_imm_s(at, 2);
        self.b.ins().iadd(tops, at)
    }

    /// The tops of the lanes' stacks as 64-bit offsets.
    fn load_tops(&mut self) -> Parts {
        let at = self.stack_tops();
        if self.b.lanes == 1 {
            let top = self.b.load_own(types::I32, at, 0);
            return Parts::from_elem(self.b.ins().uextend(types::I64, top), 1);
        }
        (0..self.b.quads())
            .flat_map(|q| {
                let tops = self.b.load_own(vector_type(Type::B32), at, 16 * q as i32);
                self.b.widened(false, tops)
            })
            .collect()
    }

    /// Sets the tops of the running lanes' stacks, which must stay within their windows.
    fn store_tops(&mut self, tops: &Parts) {
        let at = self.stack_tops();
        let limit = self.b.field(offset_of!(CtaContext, local_stride));
        if self.b.lanes == 1 {
            let over = self
                .b
                .ins()
                .icmp(IntCC::UnsignedGreaterThan, tops[0], limit);
            let bits = self.b.u32_const(1);
            self.overflow_if(over, bits);
            let top = self.b.ins().ireduce(types::I32, tops[0]);
            self.b.store_own(top, at, 0);
            return;
        }
        let limit = self.b.splat(Type::B64, limit);
        let mask = self.mask_vectors();
        let over: Vec<cl::Value> = self.b.each(tops, |b, top| {
            b.ins().icmp(IntCC::UnsignedGreaterThan, top, limit)
        });
        let over: Parts = (0..self.b.quads())
            .map(|q| {
                let narrow = self.b.narrow(over[2 * q], over[2 * q + 1]);
                self.b.ins().band(narrow, mask[q])
            })
            .collect();
        let bits = self.b.bits_of(&over);
        self.overflow_if(bits, bits);
        for q in 0..self.b.quads() {
            let old = self.b.load_own(vector_type(Type::B32), at, 16 * q as i32);
            let new = self.b.narrow(tops[2 * q], tops[2 * q + 1]);
            let new = self.b.ins().blendv(mask[q], new, old);
            self.b.store_own(new, at, 16 * q as i32);
        }
    }

    fn overflow_if(&mut self, over: cl::Value, bits: cl::Value) {
        let fine = self.b.begin_cold(over);
        self.fault(FaultKind::StackOverflow, bits, None);
        self.b.switch_to_block(fine);
    }

    fn def_lanes(&mut self, result: Value, parts: Parts) {
        let val = if self.b.lanes == 1 {
            Val::Uniform(parts[0])
        } else {
            Val::Varying(parts)
        };
        self.def(result, val);
    }

    fn lanes_of(&mut self, value: Value) -> Parts {
        if self.b.lanes == 1 {
            Parts::from_elem(self.scalar(value), 1)
        } else {
            self.parts(value)
        }
    }

    pub(in crate::lower) fn stack_save(&mut self, result: Value) {
        let tops = self.load_tops();
        self.def_lanes(result, tops);
    }

    pub(in crate::lower) fn stack_restore(&mut self, arg: Value) {
        let tops = self.lanes_of(arg);
        self.store_tops(&tops);
    }

    /// A size, or one larger than all stacks if sums with it could wrap.
    fn no_wrap(&mut self, size: cl::Value) -> cl::Value {
        const BEYOND: u64 = 1 << 40;
        if self.b.lanes == 1 {
            let beyond = self.b.ins().iconst(types::I64, BEYOND as i64);
            return self.b.ins().umin(size, beyond);
        }
        let beyond = self.b.vconst(Type::B64, BEYOND);
        let is_over = self.b.ins().icmp(IntCC::UnsignedGreaterThan, size, beyond);
        self.b.ins().blendv(is_over, beyond, size)
    }

    pub(in crate::lower) fn alloca(&mut self, result: Value, size: Value, align: u32) {
        let tops = self.load_tops();
        let sizes = self.lanes_of(size);
        let sizes: Parts = sizes.iter().map(|&size| self.no_wrap(size)).collect();
        let align = i64::from(align.max(8));
        let round = |lower: &mut Self, x: cl::Value, unit: i64| {
            if lower.b.lanes == 1 {
                let up = lower.b.ins().iadd_imm_s(x, unit - 1);
                return lower.b.ins().band_imm_s(up, -unit);
            }
            let (add, mask) = (
                lower.b.vconst(Type::B64, (unit - 1) as u64),
                lower.b.vconst(Type::B64, (-unit) as u64),
            );
            let up = lower.b.ins().iadd(x, add);
            lower.b.ins().band(up, mask)
        };
        let starts: Parts = tops.iter().map(|&top| round(self, top, align)).collect();
        let ends: Parts = starts
            .iter()
            .zip(&sizes)
            .map(|(&start, &size)| {
                let end = self.b.ins().iadd(start, size);
                round(self, end, 16)
            })
            .collect();
        self.store_tops(&ends);
        self.def_lanes(result, starts);
    }
}
