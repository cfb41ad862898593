//! Copies of scattered lanes, lane by lane.

use ptxjit_ir::{Inst, Type};

use super::forms::Kind;
use crate::lower::Lower;
use crate::ops::vector_type;

impl Lower<'_, '_> {
    /// Emits a load and the store of what it gives.
    pub(in crate::lower) fn emit_copy(&mut self, load: Inst, store: Inst) {
        let func = self.func;
        let accesses = [load, store].map(|inst| func.insts[inst].data.access());
        let [Some(read), Some(write)] = accesses else {
            unreachable!("a copy is a load and a store")
        };
        self.loc(func.insts[load].loc);
        let from = self.place(read, Kind::Load);
        self.loc(func.insts[store].loc);
        let to = self.place(write, Kind::Store);
        let from_lanes = self.redirect(from.address, from.offset);
        let to_lanes = self.redirect(to.address, to.offset);
        let mut to_pair = None;
        self.for_each_address(&from_lanes, |lower, lane, at| {
            lower.loc(func.insts[load].loc);
            let row = vector_type(Type::B32);
            let row = lower.b.load_device(row, at, from.offset);
            lower.loc(func.insts[store].loc);
            let pair = match to_pair.take() {
                Some(pair) => pair,
                None => lower.b.lane_addresses_of_pair(&to_lanes, lane / 2),
            };
            to_pair = lane.is_multiple_of(2).then_some(pair);
            lower.b.store_device(row, pair[lane % 2], to.offset);
        });
    }
}
