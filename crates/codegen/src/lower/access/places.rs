//! Where an instruction accesses memory: its address, tested.

use ptxjit_ir::Access;

use super::forms::Kind;
use crate::lower::Lower;
use crate::ops::{Address, Alignment, Place, Wrapping};

impl Lower<'_, '_> {
    /// Resolves an address and emits its bounds test where no guard page covers the access, unless
    /// the index may have wrapped.
    pub(in crate::lower) fn place(&mut self, access: Access, kind: Kind) -> Place {
        let alignment = self.alignment(access);
        let place = match self.decided.is_tested_before(access, self.assumed()) {
            true => self.proven_place(access, alignment),
            false => self.tested_place(access, alignment),
        };
        if self.inputs.memcheck {
            // The same access was looked at before in the block, for the same lanes.
            if self.available.looked_up.insert((access, kind)) {
                self.check_exactly(access, kind, &place);
            }
        } else {
            self.settle_before(access.space, &place);
        }
        place
    }

    /// The place of an access that passes its test in all threads of the CTA.
    fn proven_place(&mut self, access: Access, alignment: Alignment) -> Place {
        let (address, offset) = self.locate(access, alignment);
        if alignment.stays(access.offset) {
            self.note_tested(access, &address, alignment);
        }
        Place { address, offset }
    }

    /// Notes that an address was tested.
    fn note_tested(&mut self, access: Access, address: &Address, alignment: Alignment) {
        let tested = (address.clone(), alignment.bytes);
        let key = (access.addr, access.space);
        self.available.addresses.insert(key, tested);
    }

    /// The place of an access, tested unless the index may have wrapped.
    fn tested_place(&mut self, access: Access, alignment: Alignment) -> Place {
        let stays = alignment.stays(access.offset);
        if stays && let Some(address) = self.known_address(access, alignment) {
            let offset = access.offset;
            return Place { address, offset };
        }
        let (address, offset) = self.locate(access, alignment);
        let alignment = Alignment {
            offset,
            ..alignment
        };
        let address = self.unless_marked(access, address, alignment);
        // Windows have two gigabytes of unmapped memory on both sides: all that 32 bits reach.
        match access.space.is_window() || self.may_alias_private_sum(&address) {
            true => self.check_alignment(&address, alignment),
            false => self.check(&address, alignment),
        }
        if stays {
            self.note_tested(access, &address, alignment);
        }
        Place { address, offset }
    }

    /// An address that was tested before.
    fn known_address(&self, access: Access, alignment: Alignment) -> Option<Address> {
        let key = (access.addr, access.space);
        let (address, bytes) = self.available.addresses.get(&key)?;
        let address = match *address {
            Address::MayWrap(wrapping) => Address::MayWrap(Wrapping {
                alignment,
                ..wrapping
            }),
            Address::Scalar(_)
            | Address::Strided(..)
            | Address::Lanes(_)
            | Address::Lanes32(..) => address.clone(),
        };
        (*bytes >= alignment.bytes).then_some(address)
    }

    /// An address that may have a mark, which tells that an index wrapped.
    fn unless_marked(&self, access: Access, address: Address, alignment: Alignment) -> Address {
        match (address, self.variability(access.addr).may_wrap()) {
            (Address::Strided(at, stride), Some(may_wrap)) if !access.space.is_window() => {
                Address::MayWrap(Wrapping {
                    at,
                    stride,
                    may_wrap,
                    alignment,
                })
            }
            (other, _) => other,
        }
    }
}
