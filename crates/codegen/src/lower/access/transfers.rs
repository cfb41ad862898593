//! Accesses of the lanes that run by stubs, through a buffer.

use core::mem::offset_of;

use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_abi::CtaContext;
use ptxjit_ir::Type;

use crate::lower::stubs::{Stub, Transfer};
use crate::lower::{Buffer, Lower};
use crate::ops::{Parts, Strided, Words};

impl Transfer {
    fn of(store: bool, ty: Type, places: Places) -> Transfer {
        Transfer {
            store,
            gather: matches!(places, Places::At(..)),
            bytes: ty.bytes(),
        }
    }
}

/// Where the lanes are that a stub accesses.
#[derive(Copy, Clone)]
pub(super) enum Places {
    Strided(Strided),
    /// At the addresses in a buffer plus an offset.
    At(cl::Value, i32),
}

impl Places {
    /// The places of each lane's `k`-th word, as a distance from those of the first.
    fn word(self, k: usize, ty: Type) -> (Places, i64) {
        (self, k as i64 * i64::from(ty.bytes()))
    }
}

impl Lower<'_, '_> {
    /// Loads words of the running lanes by a stub: parts of the first words, then of the second,
    /// and so on.
    pub(super) fn load_by_stub(&mut self, words: Words, places: Places) -> Vec<cl::Value> {
        let Words { ty, n } = words;
        let bits = self.mask_as_bits();
        let mut parts = Vec::new();
        for k in 0..n {
            let buf = self.buffer_address(Buffer::Data);
            let what = Transfer::of(false, ty, places);
            self.call_transfer(what, places.word(k, ty), bits, buf);
            parts.extend(self.b.load_buffer(buf, ty));
        }
        parts
    }

    /// Stores words of the running lanes by a stub.
    pub(super) fn store_by_stub(&mut self, parts: &[Parts], ty: Type, places: Places) {
        let bits = self.mask_as_bits();
        for (k, parts) in parts.iter().enumerate() {
            let buf = self.store_to_buffer(Buffer::Data, parts);
            let what = Transfer::of(true, ty, places);
            self.call_transfer(what, places.word(k, ty), bits, buf);
        }
    }

    /// Calls a stub for the lanes in `bits`. A fault inside of it is reported at the current
    /// location.
    fn call_transfer(
        &mut self,
        what: Transfer,
        (places, more): (Places, i64),
        bits: cl::Value,
        buf: cl::Value,
    ) {
        let (at, distance) = match places {
            Places::At(addrs, offset) => (addrs, i64::from(offset) + more),
            Places::Strided(lanes) => {
                let offset = i64::from(lanes.offset) + more;
                (self.b.ins().iadd_imm_s(lanes.at, offset), lanes.stride)
            }
        };
        let loc = self.b.ins().iconst(types::I32, i64::from(self.node.loc.0));
        let fault_loc = offset_of!(CtaContext, fault_loc);
        self.b.store_own(loc, self.b.cta, fault_loc as i32);
        let distance = self.b.ins().iconst(types::I64, distance);
        self.call(Stub::Transfer(what), &[at, distance, bits, buf]);
    }
}
