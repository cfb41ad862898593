//! Privatizes atomic additions of lane loops to one place.
//!
//! Searches and filters count results in one word of global memory, for which all processors
//! contend. No thread can observe when a relaxed addition takes place, other than by the order in
//! which one thread accesses one place. So while the lanes of a region run, their additions are
//! summed up in a private word, and added when the last lane is done, or before an access that may
//! alias the place.

use core::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_abi::CtaContext;
use ptxjit_ir::{
    Access, AtomicFmt, AtomicOp, Effect, Inst, InstData, MemSem, Space, SrcLoc, Value,
};
use ptxjit_vectorize::{LaneLoop, Node, Variability};

use super::forms::Kind;
use crate::decisions::atomics::Rmw;
use crate::lower::{Buffer, Lower};
use crate::ops::{Address, Alignment, Place, int_type};

/// No access is longer than this, nor does one cross a multiple of it.
const LINE: i64 = 64;

/// The privatized place of the region being emitted.
#[derive(Copy, Clone)]
pub(in crate::lower) struct PrivateSum {
    fmt: AtomicFmt,
    /// In memory, as loops have better use for registers: the pending sum, its address, and the
    /// first lane that added to it.
    slot: cl::StackSlot,
    /// The size of the arena minus a line.
    reach: cl::Value,
    loc: SrcLoc,
}

/// Offsets of the three in the slot.
const SUM: i32 = 0;
const PLACE: i32 = 8;
const LANE: i32 = 16;

impl Lower<'_, '_> {
    /// At the start of a region: whether additions of its lanes are privatized.
    pub(in crate::lower) fn begin_private_sum(&mut self, region: &LaneLoop) {
        let Some((fmt, loc)) = self.added(region) else {
            return;
        };
        let slot = self.buffer(Buffer::PrivateSum);
        let zero = self.b.ins().iconst(types::I64, 0);
        self.b.ins().stack_store(types::I64, zero, slot, SUM);
        self.privatize_nothing(slot);
        let size = self.b.field(offset_of!(CtaContext, arena_bits));
        let reach = self.b.ins().iadd_imm_s(size, -LINE);
        self.lane.private_sum = Some(PrivateSum {
            fmt,
            slot,
            reach,
            loc,
        });
    }

    /// The place is the arena's first line, which is never mapped, so that no access aliases it.
    fn privatize_nothing(&mut self, slot: cl::StackSlot) {
        let arena = self.b.field(offset_of!(CtaContext, arena_base));
        self.b.ins().stack_store(types::I64, arena, slot, PLACE);
    }

    /// The format of the first such addition, if nothing in the region depends on when it takes
    /// place.
    #[expect(clippy::wildcard_enum_match_arm, reason = "`effect` tells of the rest")]
    fn added(&self, region: &LaneLoop) -> Option<(AtomicFmt, SrcLoc)> {
        let nodes = &self.plan.order.nodes[region.range.clone()];
        let waits_for_others = nodes.iter().any(|node| match *node {
            Node::LoopEnd(header) => self.plan.yields[header].is_some(),
            Node::Block(_) => false,
        });
        if self.inputs.memcheck || self.inputs.foreign || waits_for_others {
            return None;
        }
        let mut found = None;
        for block in region.blocks(&self.plan.order) {
            for &inst in &self.func.blocks[block].insts {
                let data = &self.func.insts[inst].data;
                let is_ordered = match data {
                    // Merged stores may cross a line.
                    InstData::Store { args, .. } if args.len() > 1 => true,
                    InstData::Load { sem, .. }
                    | InstData::Store { sem, .. }
                    | InstData::Atomic { sem, .. } => {
                        !matches!(sem, MemSem::Weak | MemSem::NonCoherent | MemSem::Relaxed)
                    }
                    InstData::MaskedLoad { .. } | InstData::Prefetch { .. } => false,
                    _ => data.effect() != Effect::Pure,
                };
                if is_ordered {
                    return None;
                }
                if let Some(fmt) = self.addition(inst) {
                    found.get_or_insert((fmt, self.func.insts[inst].loc));
                }
            }
        }
        found
    }

    /// The format of an integer addition in global memory, at a uniform address, whose result is
    /// unused.
    fn addition(&self, inst: Inst) -> Option<AtomicFmt> {
        let InstData::Atomic {
            op: AtomicOp::Add,
            fmt,
            space: Space::Global,
            addr,
            ..
        } = self.func.insts[inst].data
        else {
            return None;
        };
        let is_integer = matches!(
            fmt,
            AtomicFmt::U32 | AtomicFmt::S32 | AtomicFmt::U64 | AtomicFmt::S64
        );
        let is_used = |&result: &Value| self.decided.is_used[result];
        let is_one_place = self.plan.variability[addr] == Variability::Uniform;
        let is_unused = !self.func.insts[inst].results.iter().any(is_used);
        (is_integer && is_one_place && is_unused).then_some(fmt)
    }

    /// Whether an access of the running lane is tested by [`Lower::settle_before`].
    pub(super) fn may_alias_private_sum(&self, address: &Address) -> bool {
        self.lane.private_sum.is_some() && matches!(address, Address::Scalar(_))
    }

    /// Before an access of the running lane: tests that it is in the arena, and flushes the private
    /// sum if the two may alias.
    pub(super) fn settle_before(&mut self, space: Space, place: &Place) {
        let (Some(private_sum), Address::Scalar(at)) = (self.lane.private_sum, &place.address)
        else {
            return;
        };
        if space.is_window() {
            return;
        }
        // All addresses in the arena have their upper bits in common. Those in one line do not
        // differ in the others either, and neither crosses a line, as accesses are aligned.
        let own = self.b.plus(*at, i64::from(place.offset));
        let slot = private_sum.slot;
        let mine = self.b.ins().stack_load(types::I64, types::I64, slot, PLACE);
        let differ = self.b.ins().bxor(own, mine);
        let beyond = self.b.ins().iadd_imm_s(differ, -LINE);
        let outside = IntCC::UnsignedGreaterThanOrEqual;
        let rare = self.b.ins().icmp(outside, beyond, private_sum.reach);
        let go_on = self.b.begin_cold(rare);
        // The alignment was tested before.
        self.check(&place.address, Alignment::KNOWN);
        self.flush_rarely(private_sum, go_on, |lower| lower.privatize_nothing(slot));
        self.b.switch_to_block(go_on);
    }

    /// Behind the last lane of a region.
    pub(in crate::lower) fn flush_private_sum(&mut self) {
        if let Some(private_sum) = self.lane.private_sum.take() {
            self.settle(private_sum);
        }
    }

    /// On the cold path: flushes the private sum; `then` records the next place.
    fn flush_rarely(
        &mut self,
        private_sum: PrivateSum,
        go_on: cl::Block,
        then: impl FnOnce(&mut Self),
    ) {
        let [add, done] = self.b.create_blocks();
        self.b.set_cold_block(done);
        self.settle_to(private_sum, add, done);
        self.b.switch_to_block(done);
        let lane = self.lane_bit();
        self.note_lane(lane);
        then(self);
        self.b.ins().jump(go_on, &[]);
    }

    /// Adds the private sum to its place.
    fn settle(&mut self, private_sum: PrivateSum) {
        let [add, done] = self.b.create_blocks();
        self.settle_to(private_sum, add, done);
        self.b.switch_to_block(done);
    }

    fn settle_to(&mut self, private_sum: PrivateSum, add: cl::Block, done: cl::Block) {
        let here = self.node.loc;
        let ty = int_type(private_sum.fmt.ty());
        let sum = self.load_of_sum(private_sum, ty, SUM);
        self.b.ins().brif(sum, add, &[], done, &[]);
        self.b.set_cold_block(add);
        self.b.switch_to_block(add);
        self.loc(private_sum.loc);
        let lane = self.load_of_sum(private_sum, types::I32, LANE);
        self.note_lane(lane);
        let at = self.load_of_sum(private_sum, types::I64, PLACE);
        let rmw = Rmw {
            op: AtomicOp::Add,
            fmt: private_sum.fmt,
            space: Space::Global,
        };
        self.rmw(rmw, at, &[sum]);
        let zero = self.b.ins().iconst(ty, 0);
        self.store_of_sum(private_sum, zero, SUM);
        self.b.ins().jump(done, &[]);
        self.loc(here);
    }

    fn load_of_sum(&mut self, private_sum: PrivateSum, ty: cl::Type, at: i32) -> cl::Value {
        let slot = private_sum.slot;
        self.b.ins().stack_load(types::I64, ty, slot, at)
    }

    fn store_of_sum(&mut self, private_sum: PrivateSum, x: cl::Value, at: i32) {
        let slot = private_sum.slot;
        self.b.ins().stack_store(types::I64, x, slot, at);
    }

    /// Adds to the private sum, if the region being emitted has one.
    pub(super) fn add_privately(&mut self, inst: Inst) -> bool {
        let Some(private_sum) = self.lane.private_sum else {
            return false;
        };
        if self.addition(inst) != Some(private_sum.fmt) {
            return false;
        }
        let InstData::Atomic {
            space,
            addr,
            offset,
            ref args,
            ..
        } = self.func.insts[inst].data
        else {
            return false;
        };
        let bytes = private_sum.fmt.ty().bytes();
        let access = Access {
            space,
            addr,
            offset,
            bytes,
        };
        self.lane.private_sum = None;
        let place = self.place(access, Kind::Atomic);
        self.lane.private_sum = Some(private_sum);
        self.move_private_sum(private_sum, &place);
        let more = self.scalar(args[0]);
        let ty = int_type(private_sum.fmt.ty());
        let sum = self.load_of_sum(private_sum, ty, SUM);
        let sum = self.b.ins().iadd(sum, more);
        self.store_of_sum(private_sum, sum, SUM);
        true
    }

    /// Flushes the private sum if it is of another place than this.
    fn move_private_sum(&mut self, private_sum: PrivateSum, place: &Place) {
        let at = self.b.lane_address(&place.address, 0);
        let at = self.b.plus(at, i64::from(place.offset));
        let before = self.load_of_sum(private_sum, types::I64, PLACE);
        let is_other = self.b.ins().icmp(IntCC::NotEqual, at, before);
        let go_on = self.b.begin_cold(is_other);
        self.flush_rarely(private_sum, go_on, |lower| {
            lower.store_of_sum(private_sum, at, PLACE);
            let lane = lower.lane_bit();
            lower.store_of_sum(private_sum, lane, LANE);
        });
        self.b.switch_to_block(go_on);
    }
}
