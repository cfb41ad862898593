//! Global memory as the interpreter sees it, and a simple one for tests.

use std::collections::BTreeMap;
use std::fmt;

/// Why an access to global memory failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MemFault {
    /// No memory at this address, or not for the whole access.
    Unmapped,
    /// Memory that the program must not touch, with the reason.
    Forbidden(String),
    /// Local memory of another thread.
    ForeignLocal,
}

impl fmt::Display for MemFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemFault::Unmapped => f.write_str("outside device memory"),
            MemFault::ForeignLocal => f.write_str("local memory of another thread"),
            MemFault::Forbidden(why) => f.write_str(why),
        }
    }
}

/// Global (and constant) memory by generic address. The interpreter keeps shared, local and
/// parameter memory itself, at generic addresses from 2^60 on, which must be none of this memory's.
pub trait Memory {
    /// Fills `bytes` from memory at `addr`.
    fn load(&mut self, addr: u64, bytes: &mut [u8]) -> Result<(), MemFault>;

    /// Writes `bytes` to memory at `addr`.
    fn store(&mut self, addr: u64, bytes: &[u8]) -> Result<(), MemFault>;

    /// Atomically replaces the little-endian element of `size` bytes (1, 2, 4 or 8) at `addr` by
    /// what `update` makes of it; returns the old one. `update` may be called several times.
    fn update(
        &mut self,
        addr: u64,
        size: u32,
        update: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, MemFault>;

    /// Start and size of the allocation that holds an address.
    fn allocation(&mut self, _addr: u64) -> Option<(u64, u64)> {
        None
    }

    /// Which bytes from `addr` on were never written: [`Memory::set_states`] tells what states
    /// there are. All were, unless somebody keeps account of it.
    fn states(&mut self, _addr: u64, states: &mut [u8]) {
        states.fill(0);
    }

    /// For each byte from `addr` on the bits that were never written, or a pattern for those that
    /// were computed from such.
    fn set_states(&mut self, _addr: u64, _states: &[u8]) {}
}

/// Allocations in vectors, with exact bounds.
#[derive(Clone, Default, Debug)]
pub struct VecMemory {
    blocks: BTreeMap<u64, Vec<u8>>,
    next: u64,
}

impl VecMemory {
    const FIRST: u64 = 0x1_0000_0000;
    const GAP: u64 = 0x1000;

    /// Memory without any allocation.
    pub fn new() -> VecMemory {
        VecMemory {
            blocks: BTreeMap::new(),
            next: VecMemory::FIRST,
        }
    }

    /// Puts `bytes` somewhere, 256-byte aligned and far from all others; returns the address.
    pub fn alloc(&mut self, bytes: Vec<u8>) -> u64 {
        let addr = self.next;
        self.next += (bytes.len() as u64 + VecMemory::GAP).next_multiple_of(256);
        self.blocks.insert(addr, bytes);
        addr
    }

    /// Drops the allocation that starts at `addr`; false if there is none.
    pub fn free(&mut self, addr: u64) -> bool {
        self.blocks.remove(&addr).is_some()
    }

    /// The allocation that starts at `addr`, empty if there is none.
    pub fn bytes(&self, addr: u64) -> &[u8] {
        self.blocks.get(&addr).map_or(&[], Vec::as_slice)
    }

    fn slice(&mut self, addr: u64, len: usize) -> Result<&mut [u8], MemFault> {
        let (start, block) = self
            .blocks
            .range_mut(..=addr)
            .next_back()
            .ok_or(MemFault::Unmapped)?;
        let offset = usize::try_from(addr - start).map_err(|_| MemFault::Unmapped)?;
        let end = offset.checked_add(len).ok_or(MemFault::Unmapped)?;
        block.get_mut(offset..end).ok_or(MemFault::Unmapped)
    }
}

impl Memory for VecMemory {
    fn load(&mut self, addr: u64, bytes: &mut [u8]) -> Result<(), MemFault> {
        bytes.copy_from_slice(self.slice(addr, bytes.len())?);
        Ok(())
    }

    fn store(&mut self, addr: u64, bytes: &[u8]) -> Result<(), MemFault> {
        self.slice(addr, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    fn update(
        &mut self,
        addr: u64,
        size: u32,
        update: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, MemFault> {
        Ok(update_slice(self.slice(addr, size as usize)?, update))
    }
}

/// Replaces the little-endian number in `slice` (at most 8 bytes), returns the old one.
pub(crate) fn update_slice(slice: &mut [u8], update: &mut dyn FnMut(u64) -> u64) -> u64 {
    let old = read_le(slice);
    let len = slice.len();
    slice.copy_from_slice(&update(old).to_le_bytes()[..len]);
    old
}

/// A little-endian number of at most 8 bytes.
pub(crate) fn read_le(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |acc, &byte| acc << 8 | u64::from(byte))
}
