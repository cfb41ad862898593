//! The CTA context's fields, the table of symbols, and the time.

use core::mem::offset_of;

use crate::decisions::multiples;
use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use ptxjit_abi::{CtaContext, SymbolRef};
use ptxjit_ir::{FuncId, Type};

use super::{Emitter, Parts};

/// Generic addresses up to this far above a shared window's base count as shared.
pub(crate) const WINDOW: i64 = 1 << 30;

impl Emitter<'_> {
    /// Loads the context's fields that compiled code uses.
    pub(crate) fn load_fields(&mut self) {
        let wide = [
            offset_of!(CtaContext, params),
            offset_of!(CtaContext, map_origin),
            offset_of!(CtaContext, symbols),
            offset_of!(CtaContext, arena_base),
            offset_of!(CtaContext, arena_bits),
            offset_of!(CtaContext, shared_base),
            offset_of!(CtaContext, const_base),
            offset_of!(CtaContext, local_base),
            offset_of!(CtaContext, local_stride),
            offset_of!(CtaContext, stack_top),
            offset_of!(CtaContext, slots),
            offset_of!(CtaContext, lane_states),
            offset_of!(CtaContext, gang_states),
            offset_of!(CtaContext, go_on),
            offset_of!(CtaContext, poll),
            offset_of!(CtaContext, masks),
            offset_of!(CtaContext, tid_x),
            offset_of!(CtaContext, tid_y),
            offset_of!(CtaContext, tid_z),
            offset_of!(CtaContext, junk),
            offset_of!(CtaContext, fns),
            offset_of!(CtaContext, counters),
        ];
        for offset in wide {
            let flags = MemFlagsData::trusted().with_can_move();
            let cta = self.cta;
            let value = self.ins().load(types::I64, flags, cta, offset as i32);
            self.fields.insert(offset, value);
        }
        let bits = self.field(offset_of!(CtaContext, arena_bits));
        let one = self.ins().iconst(types::I64, 1);
        let size = self.ins().ishl(one, bits);
        self.fields.insert(offset_of!(CtaContext, arena_bits), size);
        let upper = self.ins().ineg(size);
        self.forbidden = (0..=multiples::MOST)
            .map(|bits| match bits {
                0 => upper,
                _ => self.ins().bor_imm_s(upper, (1 << bits) - 1),
            })
            .collect();
    }

    /// A 64-bit field of the context; for `arena_bits` the arena's size.
    pub(crate) fn field(&self, offset: usize) -> cl::Value {
        self.fields[&offset]
    }
    pub(crate) fn ctx32(&mut self, offset: usize) -> cl::Value {
        let (cta, flags) = (self.cta, MemFlagsData::trusted().with_can_move());
        self.ins().load(types::I32, flags, cta, offset as i32)
    }

    pub(crate) fn u32_const(&mut self, x: i64) -> cl::Value {
        self.ins().iconst(types::I32, x)
    }

    pub(crate) fn time(&mut self, offset: usize) -> cl::Value {
        let fns = self.field(offset_of!(CtaContext, fns));
        let mut sig = cl::Signature::new(cranelift_codegen::isa::CallConv::triple_default(
            &target_lexicon::Triple::host(),
        ));
        sig.params.push(cl::AbiParam::new(types::I64));
        sig.returns.push(cl::AbiParam::new(types::I64));
        let sig = self.import_signature(sig);
        let callee = self.load_own(types::I64, fns, offset as i32);
        let cta = self.cta;
        let call = self.ins().call_indirect(sig, callee, &[cta]);
        self.inst_results(call)[0]
    }

    pub(crate) fn time_part(&mut self, x: cl::Value, low: bool, high: bool) -> cl::Value {
        match (low, high) {
            (true, _) => self.ins().ireduce(types::I32, x),
            (_, true) => {
                let x = self.ins().ushr_imm_s(x, 32);
                self.ins().ireduce(types::I32, x)
            }
            _ => x,
        }
    }

    /// Generic address of offset 0 of each lane's local window.
    pub(crate) fn local_windows(&mut self, thread: cl::Value) -> Parts {
        let base = self.field(offset_of!(CtaContext, local_base));
        let stride = self.field(offset_of!(CtaContext, local_stride));
        let thread = self.ins().uextend(types::I64, thread);
        let distance = self.ins().imul(thread, stride);
        let mut at = self.ins().iadd(base, distance);
        if self.lanes == 1 {
            return Parts::from_elem(at, 1);
        }
        let lanes: Vec<cl::Value> = (0..self.lanes)
            .map(|_| {
                let here = at;
                at = self.ins().iadd(at, stride);
                here
            })
            .collect();
        self.collect(Type::B64, &lanes)
    }

    pub(crate) fn func_addr(&mut self, func: FuncId) -> cl::Value {
        self.symbol(SymbolRef::Func(func))
    }

    pub(crate) fn symbol(&mut self, symbol: SymbolRef) -> cl::Value {
        let symbols = &mut self.external.symbols;
        let idx = *self.symbols.entry(symbol).or_insert_with(|| {
            symbols.push(symbol);
            symbols.len() - 1
        });
        let table = self.field(offset_of!(CtaContext, symbols));
        let flags = MemFlagsData::trusted().with_can_move();
        self.ins().load(types::I64, flags, table, 8 * idx as i32)
    }
}
