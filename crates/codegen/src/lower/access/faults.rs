//! How compiled code stops its CTA: all places that find a fault leave by the same few exits.
//!
//! A place only passes which lanes run and their addresses. The exit works out which of them are at
//! fault, once in the function, so that an access costs a few instructions of cold code, not a
//! report of its own.

use core::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_abi::object::Helper;
use ptxjit_abi::{CtaContext, FaultKind, RuntimeFns};

use crate::lower::stubs::Stub;
use crate::lower::{Buffer, Lower};
use crate::ops::{Address, Alignment, Parts, SMALL_OFFSET};

/// The exits, created at first use. All take what happened where, and bits of lanes.
#[derive(Default)]
pub(in crate::lower) struct Exits {
    /// The lanes are at fault; and the address.
    known: Option<cl::Block>,
    /// How the access must be aligned, lane 0's address and the stride: some of the lanes are
    /// outside the arena or misaligned.
    row: Option<cl::Block>,
    /// How the access must be aligned; the lanes' addresses lie in the first buffer: some of them
    /// are outside the arena or misaligned.
    lanes: Option<cl::Block>,
}

impl Lower<'_, '_> {
    /// Stops the CTA: records the fault and returns 1. Ends the current block.
    pub(in crate::lower) fn fault(
        &mut self,
        kind: FaultKind,
        bits: cl::Value,
        addr: Option<cl::Value>,
    ) {
        let site = self.site(kind);
        let addr = addr.unwrap_or_else(|| self.b.ins().iconst(types::I64, 0));
        let exit = self.known_exit();
        self.b.jump_with(exit, &[site, bits, addr]);
    }

    /// An address failed its test: stops the CTA. If the lanes' addresses turn out to be valid,
    /// goes on to `fine`.
    pub(super) fn report_bad(&mut self, address: &Address, alignment: Alignment, fine: cl::Block) {
        let masks = (self.mask.bits, self.mask.full, self.mask.parts.clone());
        let bits = self.mask_as_bits_or_one();
        if self.inputs.foreign {
            let parts = match self.b.lanes {
                1 => Parts::from_elem(self.b.lane_address(address, 0), 1),
                _ => self.lane_addresses(address),
            };
            let addrs = self.store_to_buffer(Buffer::Addresses, &parts);
            self.exit_if_misaligned(address, alignment, bits);
            self.stop_if_outside(addrs, bits, alignment, Some(fine));
            (self.mask.bits, self.mask.full, self.mask.parts) = masks;
            return;
        }
        match address {
            Address::Scalar(x) if alignment.is_known() => {
                self.fault(FaultKind::BadAddress, bits, Some(*x));
            }
            Address::Scalar(x) => self.exit_with_row(*x, 0, alignment, bits),
            Address::Strided(x, stride) if self.is_short(*stride) => {
                self.exit_with_row(*x, *stride, alignment, bits);
            }
            Address::Strided(..) => {
                // Lane 0 may not run, and its address not matter.
                let parts = self.lane_addresses(address);
                let addrs = self.store_to_buffer(Buffer::Addresses, &parts);
                self.exit_if_misaligned(address, alignment, bits);
                self.stop_if_outside(addrs, bits, alignment, Some(fine));
            }
            Address::Lanes(_) | Address::Lanes32(..) => {
                let parts = self.lane_addresses(address);
                self.store_to_buffer(Buffer::Addresses, &parts);
                self.exit_with_lanes(alignment, bits);
            }
            Address::MayWrap(..) => unreachable!("tested when it is resolved"),
        }
        (self.mask.bits, self.mask.full, self.mask.parts) = masks;
    }

    fn exit_with_row(&mut self, at: cl::Value, stride: i64, alignment: Alignment, bits: cl::Value) {
        let (site, what) = (self.site(FaultKind::BadAddress), self.what(alignment));
        let stride = self.b.ins().iconst(types::I64, stride);
        let exit = self.row_exit();
        self.b.jump_with(exit, &[site, bits, what, at, stride]);
    }

    fn exit_with_lanes(&mut self, alignment: Alignment, bits: cl::Value) {
        let (site, what) = (self.site(FaultKind::BadAddress), self.what(alignment));
        let exit = self.lanes_exit();
        self.b.jump_with(exit, &[site, bits, what]);
    }

    /// The lanes' addresses lie in the first buffer: stops the CTA if one of those in `bits` is
    /// misaligned.
    pub(super) fn exit_if_misaligned(
        &mut self,
        address: &Address,
        alignment: Alignment,
        bits: cl::Value,
    ) {
        if alignment.is_known() {
            return;
        }
        let low = self.misaligned_bits(address, alignment);
        let go_on = self.b.begin_cold(low);
        self.exit_with_lanes(alignment, bits);
        self.b.switch_to_block(go_on);
    }

    /// How an access must be aligned, as one number.
    fn what(&mut self, alignment: Alignment) -> cl::Value {
        let what = i64::from(alignment.offset) << 32 | i64::from(alignment.bytes);
        self.b.ins().iconst(types::I64, what)
    }

    /// Stops the CTA if the address of one of the lanes in `bits`, all of which lie at `addrs`, is
    /// outside of the arena. Goes on at `fine`, if that is given.
    pub(super) fn stop_if_outside(
        &mut self,
        addrs: cl::Value,
        bits: cl::Value,
        alignment: Alignment,
        fine: Option<cl::Block>,
    ) {
        let size = self.b.ins().iconst(types::I32, i64::from(alignment.asked));
        let bad = self.bad_lanes(addrs, bits, size);
        let stop = self.b.create_block();
        let go_on = fine.unwrap_or_else(|| self.b.create_block());
        self.b.ins().brif(bad, stop, &[], go_on, &[]);
        self.b.set_cold_block(stop);
        self.b.switch_to_block(stop);
        let first = self.address_of_first(addrs, bad);
        self.fault(FaultKind::BadAddress, bad, Some(first));
        if fine.is_none() {
            self.b.switch_to_block(go_on);
        }
    }

    /// Whether lanes at this stride cannot lie on both sides of the margins of the arena.
    fn is_short(&self, stride: i64) -> bool {
        let reach = stride.unsigned_abs().saturating_mul(self.b.lanes as u64);
        self.mask.is_full || reach <= u64::from(SMALL_OFFSET)
    }

    /// What happened where, as one number.
    pub(in crate::lower) fn site(&mut self, kind: FaultKind) -> cl::Value {
        let site = i64::from(kind as u32) << 32 | i64::from(self.node.loc.0);
        self.b.ins().iconst(types::I64, site)
    }

    fn known_exit(&mut self) -> cl::Block {
        let params = [types::I64, types::I32, types::I64];
        let exit = &mut self.emitted.exits.known;
        *exit.get_or_insert_with(|| cold_block(&mut self.b, &params))
    }

    fn row_exit(&mut self) -> cl::Block {
        let params = [types::I64, types::I32, types::I64, types::I64, types::I64];
        let exit = &mut self.emitted.exits.row;
        *exit.get_or_insert_with(|| cold_block(&mut self.b, &params))
    }

    fn lanes_exit(&mut self) -> cl::Block {
        let params = [types::I64, types::I32, types::I64];
        let exit = &mut self.emitted.exits.lanes;
        *exit.get_or_insert_with(|| cold_block(&mut self.b, &params))
    }

    /// Emits the exits that were used.
    pub(in crate::lower) fn emit_exits(&mut self) {
        if let Some(row) = self.emitted.exits.row {
            self.emit_row_exit(row);
        }
        if let Some(lanes) = self.emitted.exits.lanes {
            self.emit_lanes_exit(lanes);
        }
        if let Some(known) = self.emitted.exits.known {
            self.emit_known_exit(known);
        }
    }

    /// Returns to the runtime with what is known.
    fn emit_known_exit(&mut self, known: cl::Block) {
        let (site, bits) = self.enter_exit(known);
        let addr = self.b.block_params(known)[2];
        self.record_fault(site, bits, addr);
        let one = self.b.ins().iconst(types::I32, 1);
        self.b.ins().return_(&[one]);
    }

    /// The lanes' addresses go to the first buffer.
    fn emit_row_exit(&mut self, row: cl::Block) {
        let (site, bits) = self.enter_exit(row);
        let params = self.b.block_params(row);
        let (what, at, stride) = (params[2], params[3], params[4]);
        let addrs = self.buffer_address(Buffer::Addresses);
        let lanes = self.b.lanes as i64;
        let lanes = self.b.ins().iconst(types::I32, lanes);
        let args = [at, stride, lanes, addrs];
        self.b.call_helper(Helper::Row, &args, None);
        let exit = self.lanes_exit();
        self.b.jump_with(exit, &[site, bits, what]);
    }

    fn emit_lanes_exit(&mut self, lanes: cl::Block) {
        let (site, bits) = self.enter_exit(lanes);
        let addrs = self.buffer_address(Buffer::Addresses);
        let what = self.b.block_params(lanes)[2];
        self.stop_if_misaligned(site, bits, (addrs, what));
        // Where sizes matter, only addresses that may be misaligned lead here, and these are
        // tested for the size.
        let size = self.b.ins().ireduce(types::I32, what);
        let bad = self.bad_lanes(addrs, bits, size);
        // All running lanes of an affine access can lie in the unmapped margins.
        let none = self.b.ins().icmp_imm_s(IntCC::Equal, bad, 0);
        let bad = self.b.ins().select(none, bits, bad);
        let first = self.address_of_first(addrs, bad);
        let exit = self.known_exit();
        self.b.jump_with(exit, &[site, bad, first]);
    }

    /// In an exit: the runtime reports the first lane if that is misaligned rather than outside the
    /// arena.
    fn stop_if_misaligned(
        &mut self,
        site: cl::Value,
        bits: cl::Value,
        (addrs, what): (cl::Value, cl::Value),
    ) {
        let fns = self.b.field(offset_of!(CtaContext, fns));
        let misaligned = offset_of!(RuntimeFns, misaligned);
        let loc = self.b.ins().ireduce(types::I32, site);
        let gang = self.gang_idx();
        let args = [self.b.cta, addrs, bits, what, gang, loc];
        let status = self.b.call_runtime(fns, misaligned, &args);
        let [stop, go_on] = self.b.branch(status);
        self.b.switch_to_block(stop);
        let kind = i64::from(FaultKind::Runtime as u32) << 32;
        let site = self.b.ins().iconst(types::I64, kind);
        let exit = self.known_exit();
        self.b.jump_with(exit, &[site, bits, addrs]);
        self.b.switch_to_block(go_on);
    }

    fn enter_exit(&mut self, exit: cl::Block) -> (cl::Value, cl::Value) {
        self.b.switch_to_block(exit);
        let params = self.b.block_params(exit);
        (params[0], params[1])
    }

    fn record_fault(&mut self, site: cl::Value, bits: cl::Value, addr: cl::Value) {
        let loc = self.b.ins().ireduce(types::I32, site);
        let kind = self.b.ins().ushr_imm_s(site, 32);
        let kind = self.b.ins().ireduce(types::I32, kind);
        let gang = self.gang_idx();
        let fields = [
            (kind, offset_of!(CtaContext, fault_kind)),
            (loc, offset_of!(CtaContext, fault_loc)),
            (gang, offset_of!(CtaContext, fault_gang)),
            (bits, offset_of!(CtaContext, fault_mask)),
            (addr, offset_of!(CtaContext, fault_addr)),
        ];
        for (value, at) in fields {
            let cta = self.b.cta;
            self.b.store_own(value, cta, at as i32);
        }
    }

    /// Which of the lanes in `bits`, whose addresses lie at `addrs`, are outside the arena, or may
    /// not access so many bytes.
    fn bad_lanes(&mut self, addrs: cl::Value, bits: cl::Value, size: cl::Value) -> cl::Value {
        if self.inputs.foreign {
            let fns = self.b.field(offset_of!(CtaContext, fns));
            let outside = offset_of!(RuntimeFns, outside);
            let args = [self.b.cta, addrs, bits, size];
            return self.b.call_runtime(fns, outside, &args);
        }
        let arena = self.b.field(offset_of!(CtaContext, arena_base));
        let size = self.b.field(offset_of!(CtaContext, arena_bits));
        let found = self.buffer_address(Buffer::Found);
        self.call(Stub::BadLanes, &[addrs, bits, arena, size, found]);
        self.b.load_own(types::I32, found, 0)
    }

    /// The address of the first lane in `bad`, which is not empty.
    fn address_of_first(&mut self, addrs: cl::Value, bad: cl::Value) -> cl::Value {
        let lane = self.b.ins().ctz(bad);
        let lane = self.b.ins().uextend(types::I64, lane);
        let at = self.b.ins().ishl_imm_s(lane, 3);
        let at = self.b.ins().iadd(addrs, at);
        self.b.load_own(types::I64, at, 0)
    }

    /// Stops the CTA if the runtime returned an error.
    pub(in crate::lower) fn stop_if(&mut self, status: cl::Value, bits: cl::Value) {
        let fine = self.b.begin_cold(status);
        self.fault(FaultKind::Runtime, bits, None);
        self.b.switch_to_block(fine);
    }
}

fn cold_block(b: &mut cranelift_frontend::FunctionBuilder<'_>, params: &[cl::Type]) -> cl::Block {
    let block = b.create_block();
    for &ty in params {
        b.append_block_param(block, ty);
    }
    b.set_cold_block(block);
    block
}
