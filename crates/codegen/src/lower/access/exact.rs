//! Under `memcheck`: each access is looked up in the map of valid memory before it is made (see
//! `CtaContext::map_origin`).
//!
//! Of neighbours the first byte of the first lane and the last byte of the last one decide: between
//! two allocations lies more than a gang accesses side by side. Lanes elsewhere are looked up one
//! by one, by a stub. Where the map does not allow the access the runtime is asked, which checks it
//! exactly, and only for lanes that run; so the map is asked for all.

use core::mem::offset_of;

use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use ptxjit_abi::CtaContext;
use ptxjit_ir::{Space, Type, Value};

use crate::lower::stubs::{Stub, byte_is_bad};
use crate::lower::{Buffer, Lower};
use crate::ops::{Address, Parts};

/// From the first byte of a gang's access to the last: less than lies between two allocations.
const MOST_REACH: u64 = 1 << 10;

/// An access: constant offset, bytes of a lane, and 0 for loads, 1 for stores, 2 for atomics.
pub(in crate::lower) type Access = (i32, u32, u32);

impl Lower<'_, '_> {
    /// Stops the CTA if a running lane may not make this access.
    pub(super) fn check_exactly(
        &mut self,
        (space, addr): (Space, Value),
        address: &Address,
        access: Access,
    ) {
        if space == Space::Local && self.is_in_frame(addr, access) {
            return;
        }
        let bad = match address {
            // Memory of the host is in no map.
            _ if self.inputs.foreign && !space.is_window() => None,
            Address::Scalar(at) => Some(self.ends_are_bad(*at, *at, access)),
            Address::Strided(at, stride) => {
                let reach = stride * (self.b.lanes as i64 - 1);
                let is_short = reach.unsigned_abs() + u64::from(access.1) <= MOST_REACH;
                // Lanes at other distances than multiples of the size do not tell of each other
                // whether they are aligned.
                let is_even = stride % i64::from(access.1) == 0;
                if is_short && is_even && access.1.is_power_of_two() {
                    let (low, high) = (reach.min(0), reach.max(0));
                    let (first, last) = (self.b.plus(*at, low), self.b.plus(*at, high));
                    Some(self.ends_are_bad(first, last, access))
                } else {
                    Some(self.some_are_bad(address, access))
                }
            }
            Address::MayWrap(wrapping) => {
                return self.check_may_wrap(address, (wrapping.at, wrapping.stride), access);
            }
            Address::Lanes(_) | Address::Lanes32(..) => Some(self.some_are_bad(address, access)),
        };
        let Some(bad) = bad else {
            return self.ask_runtime(address, access);
        };
        let (ask, fine) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(bad, ask, &[], fine, &[]);
        self.ask_in(ask, fine, address, access);
    }

    /// Whether an access to local memory certainly lies among the variables there.
    fn is_in_frame(&self, addr: Value, (offset, size, _): Access) -> bool {
        let end = i64::from(crate::slots::Slots::of(self.func).size);
        let start =
            (self.func.as_const(addr)).map(|at| at as u32 as i32 as i64 + i64::from(offset));
        start.is_some_and(|start| {
            start >= 0 && start + i64::from(size) <= end && start % i64::from(size) == 0
        })
    }

    /// Asks the runtime in a block of its own, and goes on in another.
    fn ask_in(&mut self, ask: cl::Block, fine: cl::Block, address: &Address, access: Access) {
        let masks = (self.mask.bits, self.mask.full, self.mask.parts.clone());
        self.b.set_cold_block(ask);
        self.b.switch_to_block(ask);
        self.ask_runtime(address, access);
        self.b.ins().jump(fine, &[]);
        self.b.switch_to_block(fine);
        (self.mask.bits, self.mask.full, self.mask.parts) = masks;
    }

    /// Where no index wraps, as a mark on the first lane's address would tell, lanes lie at a
    /// constant distance.
    fn check_may_wrap(
        &mut self,
        address: &Address,
        (at, stride): (cl::Value, i64),
        access: Access,
    ) {
        // What masks are made of must be there on both ways.
        self.mask_as_bits_or_one();
        let [look, ask, fine] = std::array::from_fn(|_| self.b.create_block());
        let is_inside = self.b.is_inside(at);
        self.b.ins().brif(is_inside, look, &[], ask, &[]);
        self.b.switch_to_block(look);
        let reach = stride * (self.b.lanes as i64 - 1);
        let (first, last) = (self.b.plus(at, reach.min(0)), self.b.plus(at, reach.max(0)));
        let is_short = reach.unsigned_abs() + u64::from(access.1) <= MOST_REACH;
        if is_short && stride % i64::from(access.1) == 0 && access.1.is_power_of_two() {
            let bad = self.ends_are_bad(first, last, access);
            self.b.ins().brif(bad, ask, &[], fine, &[]);
        } else {
            let bad = self.some_are_bad(&Address::Strided(at, stride), access);
            self.b.ins().brif(bad, ask, &[], fine, &[]);
        }
        self.ask_in(ask, fine, address, access);
    }

    /// Whether the first byte of the access at `first` or the last byte of that at `last` is not
    /// valid, or they are misaligned.
    fn ends_are_bad(
        &mut self,
        first: cl::Value,
        last: cl::Value,
        (offset, size, write): Access,
    ) -> cl::Value {
        let bytes = i64::from(size);
        let start = self.b.plus(first, offset.into());
        let end = self.b.plus(last, i64::from(offset) + bytes - 1);
        let mut bad = self.byte_is_bad(end, write);
        // An aligned access of 16 bytes or less lies within what one byte of the map tells about.
        if first != last || size > 16 || !size.is_power_of_two() {
            let other = self.byte_is_bad(start, write);
            bad = self.b.ins().bor(bad, other);
        }
        if size > 1 && size.is_power_of_two() {
            let low = self.b.ins().band_imm_s(start, bytes - 1);
            let low = self.b.ins().ireduce(types::I32, low);
            bad = self.b.ins().bor(bad, low);
        }
        bad
    }

    /// Not zero if a byte may not be accessed.
    fn byte_is_bad(&mut self, at: cl::Value, write: u32) -> cl::Value {
        let origin = self.b.field(offset_of!(CtaContext, map_origin));
        let bad = byte_is_bad(&mut self.b, origin, at, write != 0);
        self.b.ins().uextend(types::I32, bad)
    }

    /// Not zero if a lane, running or not, may not make the access.
    fn some_are_bad(&mut self, address: &Address, access: Access) -> cl::Value {
        let (_, size, write) = access;
        let addrs = self.store_addresses(address, access.0);
        let bits = self.mask_as_bits_or_one();
        let origin = self.b.field(offset_of!(CtaContext, map_origin));
        let slot = self.buffer(Buffer::Found);
        let found = self.b.ins().stack_addr(types::I64, slot, 0);
        let stub = Stub::Lookup {
            size,
            write: write != 0,
        };
        self.call(stub, &[addrs, bits, origin, found]);
        let flags = MemFlagsData::trusted();
        self.b.ins().load(types::I32, flags, found, 0)
    }

    /// Writes each lane's own address to a buffer.
    fn store_addresses(&mut self, address: &Address, offset: i32) -> cl::Value {
        if self.b.lanes == 1 {
            let at = self.b.lane_address(address, 0);
            let at = self.b.plus(at, i64::from(offset));
            return self.store_to_buffer(Buffer::Addresses, &[at]);
        }
        let parts = self.lane_addresses(address);
        let add = self.b.vconst(Type::B64, i64::from(offset) as u64);
        let parts: Parts = parts
            .iter()
            .map(|&part| self.b.ins().iadd(part, add))
            .collect();
        self.store_to_buffer(Buffer::Addresses, &parts)
    }

    /// The runtime looks at the access.
    fn ask_runtime(&mut self, address: &Address, (offset, size, write): Access) {
        let bits = self.mask_as_bits_or_one();
        let addrs = self.store_addresses(address, offset);
        let slot = self.buffer(Buffer::Found);
        let found = self.b.ins().stack_addr(types::I64, slot, 0);
        let what = i64::from(write) << 32 | i64::from(size);
        let args = [
            self.b.cta,
            addrs,
            bits,
            self.b.ins().iconst(types::I64, what),
            self.gang_idx(),
            self.b.ins().iconst(types::I32, i64::from(self.node.loc.0)),
            found,
        ];
        self.call(Stub::AskExactly, &args);
        let flags = MemFlagsData::trusted();
        let status = self.b.ins().load(types::I32, flags, found, 0);
        self.stop_if(status, bits);
    }
}
