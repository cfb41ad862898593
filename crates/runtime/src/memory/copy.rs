//! Copies between the host and global memory, and within it.
//!
//! Every copy is checked against the allocations. Long ones are done in steps, each of which looks again: allocations elsewhere
//! need not wait for the whole, and memory that is freed meanwhile ends the copy with an error.

#![expect(
    unsafe_code,
    reason = "copies reach device memory through addresses that are checked here"
)]

use std::sync::RwLockReadGuard;

use super::heap::Heap;
use super::{Arena, MemoryError, raw};

/// Bytes copied while the heap is held still.
const STEP: u64 = 128 << 10;

/// What memory is filled with.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Pattern {
    /// One byte.
    U8(u8),
    /// Two bytes, the lower first.
    U16(u16),
    /// Four bytes, the lowest first.
    U32(u32),
}

impl Pattern {
    /// Size in bytes.
    pub fn size(self) -> u64 {
        match self {
            Pattern::U8(_) => 1,
            Pattern::U16(_) => 2,
            Pattern::U32(_) => 4,
        }
    }

    /// The pattern repeated to four bytes.
    fn word(self) -> u32 {
        match self {
            Pattern::U8(byte) => u32::from(byte) * 0x0101_0101,
            Pattern::U16(half) => u32::from(half) * 0x0001_0001,
            Pattern::U32(word) => word,
        }
    }
}

impl Arena {
    /// Copies to the device; the bytes must lie in one live allocation.
    pub fn write(&self, addr: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let len = bytes.len() as u64;
        self.in_steps(addr, len, |at, start, end| {
            // SAFETY: the range lies in a live block, which is committed as long as the heap is held still.
            unsafe { raw::write(at, &bytes[start as usize..end as usize]) };
        })
    }

    /// Copies from the device; the bytes must lie in one live allocation.
    pub fn read(&self, addr: u64, bytes: &mut [u8]) -> Result<(), MemoryError> {
        let len = bytes.len() as u64;
        self.in_steps(addr, len, |at, start, end| {
            // SAFETY: as in `write`.
            unsafe { raw::read(at, &mut bytes[start as usize..end as usize]) };
        })
    }

    /// Fills bytes of one live allocation with `count` copies of a pattern.
    pub fn fill(&self, addr: u64, pattern: Pattern, count: u64) -> Result<(), MemoryError> {
        let word = pattern.word();
        let len = count.saturating_mul(pattern.size());
        self.in_steps(addr, len, |at, start, end| {
            // SAFETY: as in `write`. A step is a multiple of every pattern.
            unsafe { raw::fill(at, word, end - start) };
        })
    }

    /// Copies between live allocations; the ranges may overlap.
    pub fn copy(&self, to: u64, from: u64, len: u64) -> Result<(), MemoryError> {
        if len == 0 {
            return Ok(());
        }
        // What is still to be read must not be overwritten.
        let backwards = to > from && to - from < len;
        let mut done = 0;
        while done < len {
            let n = (len - done).min(STEP);
            let start = if backwards { len - done - n } else { done };
            let heaps = self.heaps();
            self.check_range(&heaps, from, len)?;
            self.check_range(&heaps, to, len)?;
            // SAFETY: as in `write`, for both ranges.
            unsafe { raw::copy(to + start, from + start, n) };
            done += n;
        }
        Ok(())
    }

    /// Calls `step(address, start, end)` for pieces of the range, each while its allocation is alive.
    fn in_steps(
        &self,
        addr: u64,
        len: u64,
        mut step: impl FnMut(u64, u64, u64),
    ) -> Result<(), MemoryError> {
        let mut start = 0;
        while start < len {
            let end = len.min(start + STEP);
            let heaps = self.heaps();
            self.check_range(&heaps, addr, len)?;
            step(addr + start, start, end);
            start = end;
        }
        Ok(())
    }

    /// Whether the bytes lie in one live allocation.
    fn check_range(
        &self,
        heaps: &RwLockReadGuard<'_, Vec<Heap>>,
        addr: u64,
        size: u64,
    ) -> Result<(), MemoryError> {
        let part = self.part_of(addr);
        if part.is_some_and(|part| heaps[part as usize].is_live(addr, size)) {
            return Ok(());
        }
        let note = self.describe_in(heaps, addr);
        Err(MemoryError::BadRange { addr, size, note })
    }
}
