//! Under `memcheck`: each access is looked up in the map of valid memory before it is made (see
//! `CtaContext::map_origin`).
//!
//! Of neighbours the first byte of the first lane and the last byte of the last one decide: between
//! two allocations lies more than a gang accesses side by side. Lanes elsewhere are looked up one
//! by one, by a stub. Where the map does not allow the access the runtime is asked, which checks it
//! exactly, and only for lanes that run; so the map is asked for all.

use core::mem::offset_of;

use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_abi::CtaContext;
use ptxjit_ir::{Access, Space, Type};

use super::forms::Kind;
use crate::lower::stubs::{Stub, byte_is_bad};
use crate::lower::{Buffer, Lower};
use crate::ops::{Address, Parts, Place, Strided};

/// From the first byte of a gang's access to the last: less than lies between two allocations.
const MOST_REACH: u64 = 1 << 10;

/// What lanes do at their places.
#[derive(Copy, Clone)]
struct Exact {
    /// Bytes of one lane's access.
    bytes: u32,
    kind: Kind,
}

impl Exact {
    fn writes(self) -> bool {
        self.kind != Kind::Load
    }
}

impl Lower<'_, '_> {
    /// Stops the CTA if a running lane may not make this access at its place.
    pub(super) fn check_exactly(&mut self, access: Access, kind: Kind, place: &Place) {
        if access.space == Space::Local && self.is_in_frame(access) {
            return;
        }
        let bytes = access.bytes;
        let exact = Exact { bytes, kind };
        let offset = place.offset;
        let bad = match place.address {
            // Memory of the host is in no map.
            _ if self.inputs.foreign && !access.space.is_window() => {
                return self.ask_runtime(place, exact);
            }
            Address::Scalar(at) => self.ends_are_bad([at, at], offset, exact),
            Address::Strided(at, stride) => self.row_is_bad(Strided { at, stride, offset }, exact),
            Address::MayWrap(wrapping) => {
                return self.check_may_wrap(place, wrapping.strided(offset), exact);
            }
            Address::Lanes(_) | Address::Lanes32(..) => self.some_are_bad(place, exact),
        };
        let [ask, fine] = self.b.branch(bad);
        self.ask_in(ask, fine, place, exact);
    }

    /// Whether an access to local memory certainly lies among the variables there.
    fn is_in_frame(&self, access: Access) -> bool {
        let size = i64::from(access.bytes);
        let end = i64::from(crate::slots::Slots::of(self.func).size);
        let at = self.func.as_const(access.addr);
        let start = at.map(|at| i64::from(at as u32 as i32) + i64::from(access.offset));
        start.is_some_and(|start| start >= 0 && start + size <= end && start % size == 0)
    }

    /// Asks the runtime in a block of its own, and goes on in another.
    fn ask_in(&mut self, ask: cl::Block, fine: cl::Block, place: &Place, exact: Exact) {
        let masks = (self.mask.bits, self.mask.full, self.mask.parts.clone());
        self.b.set_cold_block(ask);
        self.b.switch_to_block(ask);
        self.ask_runtime(place, exact);
        self.b.ins().jump(fine, &[]);
        self.b.switch_to_block(fine);
        (self.mask.bits, self.mask.full, self.mask.parts) = masks;
    }

    /// Where no index wraps, as a mark on the first lane's address would tell, lanes lie at a
    /// constant distance.
    fn check_may_wrap(&mut self, place: &Place, lanes: Strided, exact: Exact) {
        // What masks are made of must be there on both ways.
        self.mask_as_bits_or_one();
        let [look, ask, fine] = self.b.create_blocks();
        let is_inside = self.b.is_inside(lanes.at);
        self.b.ins().brif(is_inside, look, &[], ask, &[]);
        self.b.switch_to_block(look);
        let bad = self.row_is_bad(lanes, exact);
        self.b.ins().brif(bad, ask, &[], fine, &[]);
        self.ask_in(ask, fine, place, exact);
    }

    /// Not zero if a lane, running or not, may not make the access.
    fn row_is_bad(&mut self, lanes: Strided, exact: Exact) -> cl::Value {
        let Exact { bytes, .. } = exact;
        let reach = lanes.stride * (self.b.lanes as i64 - 1);
        let is_short = reach.unsigned_abs() + u64::from(bytes) <= MOST_REACH;
        // Lanes at other distances than multiples of the size do not tell of each other whether
        // they are aligned.
        let is_even = lanes.stride % i64::from(bytes) == 0;
        if !(is_short && is_even && bytes.is_power_of_two()) {
            return self.some_are_bad(&lanes.place(), exact);
        }
        let ends = [reach.min(0), reach.max(0)].map(|more| self.b.plus(lanes.at, more));
        self.ends_are_bad(ends, lanes.offset, exact)
    }

    /// Whether the first byte of the access at `first` or the last byte of that at `last` is not
    /// valid, or they are misaligned.
    fn ends_are_bad(
        &mut self,
        [first, last]: [cl::Value; 2],
        offset: i32,
        exact: Exact,
    ) -> cl::Value {
        let size = exact.bytes;
        let bytes = i64::from(size);
        let start = self.b.plus(first, offset.into());
        let end = self.b.plus(last, i64::from(offset) + bytes - 1);
        let mut bad = self.byte_is_bad(end, exact);
        // An aligned access of 16 bytes or less lies within what one byte of the map tells about.
        if first != last || size > 16 || !size.is_power_of_two() {
            let other = self.byte_is_bad(start, exact);
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
    fn byte_is_bad(&mut self, at: cl::Value, exact: Exact) -> cl::Value {
        let origin = self.b.field(offset_of!(CtaContext, map_origin));
        let bad = byte_is_bad(&mut self.b, origin, at, exact.writes());
        self.b.ins().uextend(types::I32, bad)
    }

    /// Not zero if a lane, running or not, may not make the access.
    fn some_are_bad(&mut self, place: &Place, exact: Exact) -> cl::Value {
        let addrs = self.store_addresses(place);
        let bits = self.mask_as_bits_or_one();
        let origin = self.b.field(offset_of!(CtaContext, map_origin));
        let found = self.buffer_address(Buffer::Found);
        let (size, write) = (exact.bytes, exact.writes());
        self.call(Stub::Lookup { size, write }, &[addrs, bits, origin, found]);
        self.b.load_own(types::I32, found, 0)
    }

    /// Writes each lane's own address to a buffer.
    fn store_addresses(&mut self, place: &Place) -> cl::Value {
        let Place { address, offset } = place;
        let offset = i64::from(*offset);
        if self.b.lanes == 1 {
            let at = self.b.lane_address(address, 0);
            let at = self.b.plus(at, offset);
            return self.store_to_buffer(Buffer::Addresses, &[at]);
        }
        let parts = self.lane_addresses(address);
        let add = self.b.vconst(Type::B64, offset as u64);
        let parts = parts.iter().map(|&part| self.b.ins().iadd(part, add));
        let parts: Parts = parts.collect();
        self.store_to_buffer(Buffer::Addresses, &parts)
    }

    /// The runtime looks at the access.
    fn ask_runtime(&mut self, place: &Place, exact: Exact) {
        let bits = self.mask_as_bits_or_one();
        let addrs = self.store_addresses(place);
        let found = self.buffer_address(Buffer::Found);
        let what = (exact.kind as i64) << 32 | i64::from(exact.bytes);
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
        let status = self.b.load_own(types::I32, found, 0);
        self.stop_if(status, bits);
    }
}
