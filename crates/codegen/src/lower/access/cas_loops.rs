//! Atomic operations of a gang by compare-and-swap loops: those without a locked instruction, as
//! sums of floats.
//!
//! A locked instruction takes longer than all code around it, so the gang should need few.
//! Contiguous lanes that fit in 16 bytes share one compare-and-swap. Otherwise lanes follow each
//! other, in ascending order, and neighbors with the same address share one, as in sums over sorted
//! keys.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use ptxjit_abi::SlowForm;
use ptxjit_abi::object::Helper;
use ptxjit_ir::{AtomicFmt, AtomicOp, FloatBinaryOp, FloatFmt, FloatMode};
use ptxjit_vectorize::Variability;
use smallvec::SmallVec;

use crate::decisions::atomics::{Rmw, Update};
use crate::lower::access::atomics::Operands;
use crate::lower::{Buffer, Lower};
use crate::ops::{Address, Parts, Place, Strided, Words, Wrapping, int_type, vector_type};
use crate::slots::lane_bytes;

/// Bytes of one compare-and-swap.
const ROW: i64 = 16;

impl Lower<'_, '_> {
    /// The operations of contiguous lanes by rows, if those are aligned; returns the old values.
    pub(super) fn atomic_rows(
        &mut self,
        update: Update,
        operands: &Operands<'_>,
        place: &Place,
    ) -> Parts {
        let ty = operands.rmw.fmt.ty();
        let (Address::Strided(at, _) | Address::MayWrap(Wrapping { at, .. })) = place.address
        else {
            unreachable!("the lanes are contiguous")
        };
        let first = self.b.plus(at, i64::from(place.offset));
        let rest = self.b.ins().band_imm_s(first, ROW - 1);
        let mut fits = self.b.ins().icmp_imm_s(IntCC::Equal, rest, 0);
        if matches!(place.address, Address::MayWrap(..)) {
            let inside = self.b.is_inside(at);
            fits = self.b.ins().band(fits, inside);
        }
        if let Some(full) = self.unless_full() {
            fits = self.b.ins().band(fits, full);
        }
        let n_olds = if operands.result {
            self.b.n_parts(ty)
        } else {
            0
        };
        let olds = self.either(
            fits,
            vec![vector_type(ty); n_olds],
            |lower| lower.cas_contiguous(operands, update, at, place.offset),
            |lower| lower.atomic_loop(operands, place).to_vec(),
        );
        Parts::from_vec(olds)
    }

    /// All lanes run, contiguous from a multiple of 16 bytes on.
    fn cas_contiguous(
        &mut self,
        operands: &Operands<'_>,
        update: Update,
        at: cl::Value,
        offset: i32,
    ) -> Vec<cl::Value> {
        let ty = operands.rmw.fmt.ty();
        let args = self.parts(operands.args[0]);
        let stride = i64::from(ty.bytes());
        let olds = self.load_whole(Words::one(ty), Strided { at, stride, offset });
        let both = olds.iter().zip(&args);
        let news = both.map(|(&old, &arg)| self.updated(update, old, arg));
        let news: Parts = news.collect();
        let args = self.store_to_buffer(Buffer::Operand(0), &args);
        let news = self.store_to_buffer(Buffer::Operand(1), &news);
        let olds = self.store_to_buffer(Buffer::Operand(2), &olds);
        let at = self.b.plus(at, i64::from(offset));

        let [head, iteration, done] = self.b.create_blocks();
        let row = self.b.append_block_param(head, types::I64);
        let zero = self.b.ins().iconst(types::I64, 0);
        self.b.ins().jump(head, &[zero.into()]);
        self.b.switch_to_block(head);
        let size = i64::from(ty.bytes()) * self.b.lanes as i64;
        let is_end = self.b.ins().icmp_imm_s(IntCC::Equal, row, size);
        self.b.ins().brif(is_end, done, &[], iteration, &[]);
        self.b.switch_to_block(iteration);
        self.cas_row(operands.rmw, [args, olds, news], at, row);
        let row = self.b.ins().iadd_imm_s(row, ROW);
        self.b.ins().jump(head, &[row.into()]);
        self.b.switch_to_block(done);
        match operands.result {
            true => self.b.load_buffer(olds, ty).to_vec(),
            false => Vec::new(),
        }
    }

    /// Updates a row of elements at once, or one by one if another thread has changed any of them.
    /// The buffers hold operands, the elements as they were found, and what becomes of those.
    fn cas_row(
        &mut self,
        rmw: Rmw,
        [args, olds, news]: [cl::Value; 3],
        at: cl::Value,
        row: cl::Value,
    ) {
        let (old, new) = (self.load_row(olds, row), self.load_row(news, row));
        let place = self.b.ins().iadd(at, row);
        let flags = MemFlagsData::new();
        let found = self.b.ins().atomic_cas(flags, place, old, new);
        let same = self.b.ins().icmp(IntCC::Equal, found, old);
        let [again, next] = self.b.create_blocks();
        self.b.set_cold_block(again);
        self.b.ins().brif(same, next, &[], again, &[]);
        self.b.switch_to_block(again);
        let (size, clif) = (i64::from(rmw.fmt.ty().bytes()), int_type(rmw.fmt.ty()));
        for k in 0..ROW / size {
            let lane = self.b.plus(row, size * k);
            let [arg, out] = [args, olds].map(|buf| self.b.ins().iadd(buf, lane));
            let arg = self.b.load_own(clif, arg, 0);
            let place = self.b.plus(place, size * k);
            let old = self.scoped(|lower| lower.rmw(rmw, place, &[arg]));
            self.b.store_own(old, out, 0);
        }
        self.b.ins().jump(next, &[]);
        self.b.switch_to_block(next);
    }

    fn load_row(&mut self, buf: cl::Value, row: cl::Value) -> cl::Value {
        let at = self.b.ins().iadd(buf, row);
        let low = self.b.load_own(types::I64, at, 0);
        let high = self.b.load_own(types::I64, at, 8);
        self.b.ins().iconcat(low, high)
    }

    /// The update of a vector of elements.
    fn updated(&mut self, update: Update, old: cl::Value, arg: cl::Value) -> cl::Value {
        match update {
            Update::Int(op, ty) => self.b.combine(op, ty, old, arg),
            Update::Sum(fmt) => {
                let mode = FloatMode {
                    ftz: fmt == FloatFmt::F32,
                    ..FloatMode::RN
                };
                let sum = self.b.float_binary(FloatBinaryOp::Add, fmt, mode, old, arg);
                let sum = sum.expect("rounded to nearest, sums have an inline form");
                let seen = if fmt == FloatFmt::F32 {
                    self.b.with_canonical_nans(fmt, sum)
                } else {
                    sum
                };
                self.b.cast_vector(seen, vector_type(fmt.ty()))
            }
        }
    }

    /// The running lanes' operations in their order. Neighbors with one address update the element
    /// in a register, and then share one compare-and-swap. Old values go to `out`.
    fn cas_runs(
        &mut self,
        rmw: Rmw,
        (addrs, offset): (cl::Value, i32),
        args: &[cl::Value],
        out: Option<cl::Value>,
    ) {
        let (ty, bytes) = (rmw.fmt.ty(), lane_bytes(rmw.fmt.ty()));
        let clif = int_type(ty);
        let bits = self.mask_as_bits();
        let [head, first, run, iteration, more, commit, done] = self.b.create_blocks();
        let left = self.b.append_block_param(head, types::I32);
        self.b.ins().jump(head, &[bits.into()]);
        self.b.switch_to_block(head);
        self.b.ins().brif(left, first, &[], done, &[]);

        self.b.switch_to_block(first);
        let place = self.b.lowest_lane(left, addrs);
        let at = self.b.plus(place, i64::from(offset));
        let found = self.b.ins().load(clif, MemFlagsData::new(), at, 0);
        self.b.ins().jump(run, &[found.into()]);

        // Retried from here if another thread has changed the element meanwhile.
        let before = self.b.append_block_param(run, clif);
        self.b.switch_to_block(run);
        let iteration_left = self.b.append_block_param(iteration, types::I32);
        let old = self.b.append_block_param(iteration, clif);
        self.b.ins().jump(iteration, &[left.into(), before.into()]);
        self.b.switch_to_block(iteration);
        let lane = self.b.ins().ctz(iteration_left);
        let lane = self.b.ins().uextend(types::I64, lane);
        let args: Vec<cl::Value> = self
            .b
            .each(args, |b, buf| b.load_lane(buf, lane, clif, bytes));
        let new = self.scoped(|lower| lower.b.update(rmw, at, old, &args));
        if let Some(out) = out {
            self.b.store_lane(out, lane, ty, old);
        }
        let less = self.b.ins().iadd_imm_s(iteration_left, -1);
        let rest = self.b.ins().band(iteration_left, less);
        self.b.ins().brif(rest, more, &[], commit, &[]);
        self.b.switch_to_block(more);
        let next = self.b.lowest_lane(rest, addrs);
        let same = self.b.ins().icmp(IntCC::Equal, next, place);
        self.b
            .ins()
            .brif(same, iteration, &[rest.into(), new.into()], commit, &[]);

        self.b.switch_to_block(commit);
        let found = self
            .b
            .ins()
            .atomic_cas(MemFlagsData::new(), at, before, new);
        let same = self.b.ins().icmp(IntCC::Equal, found, before);
        self.b
            .ins()
            .brif(same, head, &[rest.into()], run, &[found.into()]);
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
        let [iteration, done] = self.b.create_blocks();
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
        let out = self.buffer_address(Buffer::Operand(2));
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
    pub(in crate::lower) fn lane_loop(&mut self, body: impl FnOnce(&mut Self, cl::Value)) {
        let bits = self.mask_as_bits();
        let [head, iteration, done] = self.b.create_blocks();
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
