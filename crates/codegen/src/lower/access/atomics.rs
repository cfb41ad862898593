//! Atomic operations: lane after lane, in ascending order. `updates` computes the new elements.

use cranelift_codegen::ir::{self as cl, InstBuilder};
use ptxjit_ir::{self as ir, Access, Inst, InstData};

use super::forms::Kind;
use crate::decisions::atomics::{AtomicKind, Rmw};
use crate::lower::Lower;
use crate::ops::{Address, Parts, Place, Val};

/// An atomic with its operands.
pub(in crate::lower) struct Operands<'a> {
    pub rmw: Rmw,
    pub args: &'a [ir::Value],
    /// The old values are used.
    pub result: bool,
}

impl Lower<'_, '_> {
    pub(in crate::lower) fn atomic(&mut self, inst: Inst, kind: AtomicKind) {
        let node = &self.func.insts[inst];
        let (
            InstData::Atomic {
                addr, offset, args, ..
            },
            Some(rmw),
        ) = (&node.data, Rmw::of(&node.data))
        else {
            unreachable!("called for atomics")
        };
        if self.add_privately(inst) {
            return;
        }
        let access = Access {
            space: rmw.space,
            addr: *addr,
            offset: *offset,
            bytes: rmw.fmt.ty().bytes(),
        };
        let place = self.place(access, Kind::Atomic);
        let result = node.results.first().copied();
        let result = result.filter(|&result| self.decided.is_used[result]);
        let operands = Operands {
            rmw,
            args,
            result: result.is_some(),
        };
        let old = match kind == AtomicKind::Lane {
            true => Val::Uniform(self.atomic_lane(&operands, &place)),
            false => Val::Varying(self.atomic_gang(kind, &operands, &place)),
        };
        if let Some(result) = result {
            self.def(result, old);
        }
    }

    /// An atomic of the only lane.
    fn atomic_lane(&mut self, operands: &Operands<'_>, place: &Place) -> cl::Value {
        let at = self.b.lane_address(&place.address, 0);
        let at = self.b.plus(at, i64::from(place.offset));
        let args = operands.args.iter();
        let args: Vec<cl::Value> = args.map(|&arg| self.scalar(arg)).collect();
        self.rmw(operands.rmw, at, &args)
    }

    /// An atomic of a gang; the result is the old values, none where they are not used.
    fn atomic_gang(&mut self, kind: AtomicKind, operands: &Operands<'_>, place: &Place) -> Parts {
        match kind {
            AtomicKind::Lane => unreachable!("a gang has several lanes"),
            AtomicKind::Combined(op) => {
                let at = self.only_place(place);
                self.update_combined(op, operands, at);
                Parts::new()
            }
            AtomicKind::Tickets => {
                let at = self.only_place(place);
                self.tickets(operands, at)
            }
            AtomicKind::InOrder => {
                let at = self.only_place(place);
                self.update_in_order(operands, at)
            }
            AtomicKind::Rows(update) => self.atomic_rows(update, operands, place),
            AtomicKind::Unrolled => self.atomic_one_by_one(operands, place),
            AtomicKind::Loop => self.atomic_loop(operands, place),
        }
    }

    /// The place that all lanes update.
    fn only_place(&mut self, place: &Place) -> cl::Value {
        let Address::Scalar(at) = place.address else {
            unreachable!("all lanes update one place")
        };
        self.b.plus(at, i64::from(place.offset))
    }

    /// Lane after lane, without a loop if all run.
    fn atomic_one_by_one(&mut self, operands: &Operands<'_>, place: &Place) -> Parts {
        let Some(full) = self.unless_full() else {
            return self.atomic_unrolled(operands, place);
        };
        let [all, some, done] = self.b.create_blocks();
        self.b.ins().brif(full, all, &[], some, &[]);
        self.b.switch_to_block(all);
        let olds = self.in_full(|lower| lower.atomic_unrolled(operands, place));
        let params: Parts = olds
            .iter()
            .map(|&old| {
                let ty = self.b.func.dfg.value_type(old);
                self.b.append_block_param(done, ty)
            })
            .collect();
        self.b.jump_with(done, &olds);
        self.b.switch_to_block(some);
        let olds = self.scoped(|lower| lower.atomic_loop(operands, place));
        self.b.jump_with(done, &olds);
        self.b.switch_to_block(done);
        params
    }

    /// Lane after lane, all of which run.
    fn atomic_unrolled(&mut self, operands: &Operands<'_>, place: &Place) -> Parts {
        let ty = operands.rmw.fmt.ty();
        let mut olds = Vec::with_capacity(self.b.lanes);
        self.for_each_address(&place.address, |lower, lane, at| {
            let at = lower.b.plus(at, i64::from(place.offset));
            let args = lower.lane_operands(operands, lane);
            olds.push(lower.rmw(operands.rmw, at, &args));
        });
        if operands.result {
            self.b.collect(ty, &olds)
        } else {
            Parts::new()
        }
    }
}
