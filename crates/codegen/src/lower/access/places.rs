//! Where an instruction accesses memory: its address, tested.

use ptxjit_ir::{Space, Value};

use crate::lower::Lower;
use crate::ops::{Address, Alignment, Place, Wrapping};

impl Lower<'_, '_> {
    /// Resolves an address and emits its bounds test where no guard page covers the access, unless
    /// the index may have wrapped. `size` is that of the whole access of one lane.
    pub(in crate::lower) fn place(
        &mut self,
        space: Space,
        addr: Value,
        offset: i32,
        size: u32,
        write: u32,
    ) -> Place {
        let alignment = self.alignment(space, addr, offset, size);
        let (address, offset) = if self.is_proven(addr, offset, size) {
            let (address, left) = self.locate(space, addr, offset, alignment);
            if alignment.stays(offset) {
                let tested = (address.clone(), alignment.bytes);
                self.available.addresses.insert((addr, space), tested);
            }
            (address, left)
        } else {
            self.tested_address(space, addr, offset, alignment)
        };
        if self.inputs.memcheck {
            let access = (offset, size, write);
            // Other accesses of the block with the same address and mask were looked at.
            if self.available.looked_up.insert((addr, space, access)) {
                self.check_exactly((space, addr), &address, access);
            }
            return Place { address, offset };
        }
        let place = Place { address, offset };
        self.settle_before(space, &place);
        place
    }

    /// The address and offset of an access, tested unless the index may have wrapped.
    fn tested_address(
        &mut self,
        space: Space,
        addr: Value,
        offset: i32,
        alignment: Alignment,
    ) -> (Address, i32) {
        let key = (addr, space);
        let stays = alignment.stays(offset);
        let known = self.available.addresses.get(&key).filter(|_| stays);
        if let Some((address, bytes)) = known
            && *bytes >= alignment.bytes
        {
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
            return (address, offset);
        }
        let (address, offset) = self.locate(space, addr, offset, alignment);
        let alignment = Alignment {
            offset,
            ..alignment
        };
        let address = match address {
            Address::Strided(at, stride) => match self.variability(addr).may_wrap() {
                Some(may_wrap) if !space.is_window() => Address::MayWrap(Wrapping {
                    at,
                    stride,
                    may_wrap,
                    alignment,
                }),
                _ => Address::Strided(at, stride),
            },
            other @ (Address::Scalar(_)
            | Address::MayWrap(..)
            | Address::Lanes(_)
            | Address::Lanes32(..)) => other,
        };
        // Windows have two gigabytes of unmapped memory on both sides: all that 32 bits reach.
        match space.is_window() || self.may_alias_private_sum(&address) {
            true => self.check_alignment(&address, alignment),
            false => self.check(&address, alignment),
        }
        if stays {
            let tested = (address.clone(), alignment.bytes);
            self.available.addresses.insert(key, tested);
        }
        (address, offset)
    }

    /// What has to be found out about an access's alignment. Under `memcheck` the map's test does.
    pub(super) fn alignment(&self, space: Space, addr: Value, offset: i32, size: u32) -> Alignment {
        let is_known = 1 << self.decided.multiples[addr] >= size && offset % size as i32 == 0;
        let asked = match self.inputs.foreign && !space.is_window() {
            true => size,
            false => 0,
        };
        if self.inputs.memcheck || !size.is_power_of_two() || is_known {
            return Alignment {
                asked,
                ..Alignment::KNOWN
            };
        }
        Alignment {
            bytes: size,
            offset,
            asked,
        }
    }
}
