//! Atomic operations: lane after lane, in ascending order. `updates` computes the new elements.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use ptxjit_ir::{self as ir, AtomicFmt, AtomicOp, Inst, InstData};
use ptxjit_vectorize::Variability;
use smallvec::SmallVec;

use super::{Buffer, Lower};
use crate::ops::{Address, Parts, Place, Rmw, Val, int_type};
use crate::slots::lane_bytes;
use ptxjit_abi::SlowForm;
use ptxjit_abi::object::Helper;

/// An atomic with its operands.
pub(super) struct Operands<'a> {
    pub rmw: Rmw,
    pub args: &'a [ir::Value],
    /// The old values are used.
    pub result: bool,
}

impl Lower<'_, '_> {
    pub(super) fn atomic(&mut self, inst: Inst) {
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
        let ty = fmt.ty();
        let rmw = Rmw { op, fmt, space };
        let place = self.place(space, addr, offset, ty.bytes(), 2);
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
        if !is_plain || self.node.is_general {
            return self.atomic_loop(operands, place);
        }
        let Some(full) = self.unless_full() else {
            return self.atomic_unrolled(operands, place);
        };
        let (all, some, done) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
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

    /// The operands of one lane.
    pub(super) fn lane_operands(
        &mut self,
        operands: &Operands<'_>,
        lane: usize,
    ) -> SmallVec<[cl::Value; 2]> {
        operands
            .args
            .iter()
            .map(|&arg| match self.variability(arg) {
                Variability::Uniform => self.scalar(arg),
                Variability::Affine { .. } | Variability::Varying => {
                    let parts = self.parts(arg);
                    self.b.extract(self.func.ty(arg), &parts, lane)
                }
            })
            .collect()
    }

    /// Lane after lane in a loop, those that run.
    pub(super) fn atomic_loop(&mut self, operands: &Operands<'_>, place: &Place) -> Parts {
        let rmw = operands.rmw;
        let ty = rmw.fmt.ty();
        let addresses = self.lane_addresses(&place.address);
        let addrs = self.store_to_buffer(Buffer::Data, &addresses);
        let args: Vec<cl::Value> = operands
            .args
            .iter()
            .enumerate()
            .map(|(k, &arg)| {
                let parts = self.parts(arg);
                self.store_to_buffer(Buffer::Operand(k), &parts)
            })
            .collect();
        let out_slot = self.buffer(Buffer::Operand(2));
        let out = self.b.ins().stack_addr(types::I64, out_slot, 0);
        if self.b.needs_cas_loop(rmw) {
            let out = operands.result.then_some(out);
            self.cas_runs(rmw, (addrs, place.offset), &args, out);
        } else {
            self.lane_loop(|lower, lane| {
                let at = lower.b.load_lane(addrs, lane, types::I64, 8);
                let at = lower.b.plus(at, i64::from(place.offset));
                let args: Vec<cl::Value> = args
                    .iter()
                    .map(|&buf| lower.b.load_lane(buf, lane, int_type(ty), lane_bytes(ty)))
                    .collect();
                let old = lower.rmw(rmw, at, &args);
                if operands.result {
                    lower.b.store_lane(out, lane, ty, old);
                }
            });
        }
        if operands.result {
            self.b.load_buffer(out, ty)
        } else {
            Parts::new()
        }
    }

    /// Runs `body` for each running lane, in a loop.
    pub(super) fn lane_loop(&mut self, body: impl FnOnce(&mut Self, cl::Value)) {
        let bits = self.mask_as_bits();
        let (head, iteration, done) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        let left = self.b.append_block_param(head, types::I32);
        self.b.ins().jump(head, &[bits.into()]);
        self.b.switch_to_block(head);
        self.b.ins().brif(left, iteration, &[], done, &[]);
        self.b.switch_to_block(iteration);
        let lane = self.b.ins().ctz(left);
        let lane = self.b.ins().uextend(types::I64, lane);
        self.scoped(|lower| body(lower, lane));
        let less = self.b.ins().iadd_imm_s(left, -1);
        let rest = self.b.ins().band(left, less);
        self.b.ins().jump(head, &[rest.into()]);
        self.b.switch_to_block(done);
    }

    /// One lane's read-modify-write; the result is the old value.
    pub(super) fn rmw(&mut self, rmw: Rmw, at: cl::Value, args: &[cl::Value]) -> cl::Value {
        let ty = int_type(rmw.fmt.ty());
        if let Some(op) = rmw.native() {
            let flags = MemFlagsData::new();
            return self.b.ins().atomic_rmw(ty, flags, op, at, args[0]);
        }
        if rmw.op == AtomicOp::Cas && !rmw.is_shared() {
            let flags = MemFlagsData::new();
            return self.b.ins().atomic_cas(flags, at, args[0], args[1]);
        }
        if !self.b.has_update(rmw) {
            return self.rmw_by_call(rmw, at, args);
        }
        self.cas_loop(rmw, at, |lower, old| lower.b.update(rmw, at, old, args))
    }

    /// Replaces an element by the result of `next`, with a compare-and-swap loop; returns the old
    /// value.
    pub(super) fn cas_loop(
        &mut self,
        rmw: Rmw,
        at: cl::Value,
        next: impl FnOnce(&mut Self, cl::Value) -> cl::Value,
    ) -> cl::Value {
        let ty = int_type(rmw.fmt.ty());
        let flags = MemFlagsData::new();
        let first = self.b.ins().load(ty, flags, at, 0);
        if rmw.is_shared() {
            let new = next(self, first);
            self.b.ins().store(flags, new, at, 0);
            return first;
        }
        let (iteration, done) = (self.b.create_block(), self.b.create_block());
        let old = self.b.append_block_param(iteration, ty);
        self.b.ins().jump(iteration, &[first.into()]);
        self.b.switch_to_block(iteration);
        let new = self.scoped(|lower| next(lower, old));
        let found = self.b.ins().atomic_cas(flags, at, old, new);
        let same = self.b.ins().icmp(IntCC::Equal, found, old);
        self.b
            .ins()
            .brif(same, done, &[], iteration, &[found.into()]);
        self.b.switch_to_block(done);
        old
    }

    fn rmw_by_call(&mut self, rmw: Rmw, at: cl::Value, args: &[cl::Value]) -> cl::Value {
        self.note_slow(SlowForm::Call);
        let ty = int_type(rmw.fmt.ty());
        // The call must not fault: if the address is bad, this load faults.
        self.b.ins().load(types::I8, MemFlagsData::new(), at, 0);
        let op = AtomicOp::ALL
            .iter()
            .position(|&op| op == rmw.op)
            .expect("every op is in ALL") as i64;
        let fmt = crate::helpers::FORMATS
            .iter()
            .position(|&fmt| fmt == rmw.fmt)
            .expect("every format is listed") as i64;
        let code = self.b.ins().iconst(types::I64, op | fmt << 8);
        let code = if rmw.fmt == AtomicFmt::F32 {
            let flush = self.b.flushes(rmw.space, at);
            let flush = self.b.ins().ishl_imm_s(flush, 16);
            self.b.ins().bor(code, flush)
        } else {
            code
        };
        let a = self.b.to_i64(args[0]);
        let b = match args.get(1) {
            Some(&b) => self.b.to_i64(b),
            None => self.b.ins().iconst(types::I64, 0),
        };
        let old = self
            .b
            .call_helper(Helper::Atomic, &[code, at, a, b], Some(types::I64))
            .expect("it returns the old value");
        if ty == types::I64 {
            old
        } else {
            self.b.ins().ireduce(ty, old)
        }
    }
}
