//! Atomic operations: lane after lane, in ascending order. `updates` computes the new elements.

use cranelift_codegen::ir::{self as cl, InstBuilder};
use ptxjit_ir::{self as ir, Access, Inst, InstData};

use super::forms::Kind;
use crate::lower::Lower;
use crate::ops::{Address, Parts, Place, Rmw, Val};

/// An atomic with its operands.
pub(in crate::lower) struct Operands<'a> {
    pub rmw: Rmw,
    pub args: &'a [ir::Value],
    /// The old values are used.
    pub result: bool,
}

impl Lower<'_, '_> {
    pub(in crate::lower) fn atomic(&mut self, inst: Inst) {
        let func = self.func;
        let InstData::Atomic {
            op,
            fmt,
            space,
            addr,
            offset,
            ref args,
            ..
        } = func.insts[inst].data
        else {
            unreachable!("called for atomics")
        };
        if self.add_privately(inst) {
            return;
        }
        let rmw = Rmw { op, fmt, space };
        let bytes = fmt.ty().bytes();
        let access = Access {
            space,
            addr,
            offset,
            bytes,
        };
        let place = self.place(access, Kind::Atomic);
        let result = func.insts[inst].results.first().copied();
        let result = result.filter(|&result| self.decided.is_used[result]);
        if self.b.lanes == 1 || self.lane.active.is_some() {
            let at = self.b.lane_address(&place.address, 0);
            let at = self.b.plus(at, i64::from(place.offset));
            let operands: Vec<cl::Value> = args.iter().map(|&arg| self.scalar(arg)).collect();
            let old = self.rmw(rmw, at, &operands);
            if let Some(result) = result {
                self.def(result, Val::Uniform(old));
            }
            return;
        }
        let operands = Operands {
            rmw,
            args,
            result: result.is_some(),
        };
        let olds = self.atomic_gang(&operands, &place);
        if let Some(result) = result {
            self.def(result, Val::Varying(olds));
        }
    }

    /// An atomic of a gang; the result is the old values, none where they are not used.
    fn atomic_gang(&mut self, operands: &Operands<'_>, place: &Place) -> Parts {
        let rmw = operands.rmw;
        if let Address::Scalar(at) = place.address {
            let at = self.b.plus(at, i64::from(place.offset));
            if let Some(olds) = self.atomic_at_one_place(operands, at) {
                return olds;
            }
        }
        if let Some(olds) = self.atomic_side_by_side(operands, place) {
            return olds;
        }
        // Other operations take longer than the loop around them.
        let is_plain = rmw.is_shared() && self.b.has_update(rmw);
        if !is_plain || self.node.version.is_general {
            return self.atomic_loop(operands, place);
        }
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
