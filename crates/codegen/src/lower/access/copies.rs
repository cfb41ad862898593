//! Copies of scattered lanes, lane by lane.

use cranelift_codegen::ir::InstBuilder;
use ptxjit_ir::{Inst, InstData, Type};
use ptxjit_vectorize::Variability;

use crate::lower::Lower;
use crate::ops::{device, vector_type};

impl Lower<'_, '_> {
    /// Emits a load and the store behind it, if they are a copy and lanes are scattered on both
    /// sides. Returns how many instructions these are.
    pub(in crate::lower) fn emit_copy(&mut self, insts: &[Inst]) -> usize {
        let &[load, store, ..] = insts else { return 0 };
        let is_for_all = self.b.lanes > 1 && self.lane.active.is_none();
        if !is_for_all || !self.decided.copies.contains(load) {
            return 0;
        }
        let func = self.func;
        let InstData::Load {
            space: from_space,
            ty,
            n,
            addr: from_addr,
            offset: from_offset,
            ..
        } = func.insts[load].data
        else {
            unreachable!("a copy starts with a load")
        };
        let InstData::Store {
            space: to_space,
            addr: to_addr,
            offset: to_offset,
            ..
        } = func.insts[store].data
        else {
            unreachable!("a copy ends with a store")
        };
        let size = ty.bytes() * u32::from(n);
        for (space, addr) in [(from_space, from_addr), (to_space, to_addr)] {
            if self.variability(addr) != Variability::Varying
                || self.is_speculated_contiguous(space, addr, size.into())
            {
                return 0;
            }
        }
        self.loc(func.insts[load].loc);
        let from = self.place(from_space, from_addr, from_offset, size, 0);
        self.loc(func.insts[store].loc);
        let to = self.place(to_space, to_addr, to_offset, size, 1);
        let from_lanes = self.redirect(from.address, from.offset);
        let to_lanes = self.redirect(to.address, to.offset);
        let mut to_pair = None;
        self.for_each_address(&from_lanes, |lower, lane, at| {
            lower.loc(func.insts[load].loc);
            let row = lower
                .b
                .ins()
                .load(vector_type(Type::B32), device(), at, from.offset);
            lower.loc(func.insts[store].loc);
            let pair = match to_pair.take() {
                Some(pair) => pair,
                None => lower.b.lane_addresses_of_pair(&to_lanes, lane / 2),
            };
            to_pair = lane.is_multiple_of(2).then_some(pair);
            lower
                .b
                .ins()
                .store(device(), row, pair[lane % 2], to.offset);
        });
        2
    }
}
