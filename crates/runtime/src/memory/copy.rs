//! Copies between the host and global memory, and within it.
//!
//! Every copy is checked against the allocations. Long ones are done in steps, each of which looks
//! again: allocations elsewhere need not wait for the whole, and memory that is freed meanwhile
//! ends the copy with an error.

#![expect(
    unsafe_code,
    reason = "copies reach device memory through addresses that are checked here"
)]

use std::cell::Cell;
use std::sync::RwLockReadGuard;
use std::sync::atomic::Ordering;

use ptxjit_device::Rows;

use super::heap::Heap;
use super::virt::Virtual;
use super::{Access, Arena, MemoryError, raw};

/// Bytes copied while the heap is held still.
const STEP: u64 = 128 << 10;

/// A range was found alive in a part of the arena, of which so many blocks had been freed.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Alive {
    part: usize,
    n_freed: u64,
}

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
        self.contents.written(addr, len);
        self.in_steps(addr, len, Access::ReadWrite, |at, start, end| {
            // SAFETY: the range lies in a live block or in mapped memory, which stays as it is
            // while the locks are held.
            unsafe { raw::write(at, &bytes[start as usize..end as usize]) };
        })
    }

    /// Copies from the device; the bytes must lie in one live allocation.
    pub fn read(&self, addr: u64, bytes: &mut [u8]) -> Result<(), MemoryError> {
        let len = bytes.len() as u64;
        self.in_steps(addr, len, Access::Read, |at, start, end| {
            // SAFETY: as in `write`.
            unsafe { raw::read(at, &mut bytes[start as usize..end as usize]) };
        })
    }

    /// Gathers rows, all of which lie in one live allocation, to places in `bytes`.
    pub(crate) fn read_rows(&self, rows: Rows, bytes: &mut [u8]) -> Result<(), MemoryError> {
        let heaps = self.heaps();
        let _virt = self.check_rows(&heaps, rows, Access::Read)?;
        for (addr, place) in rows.joined().each() {
            // SAFETY: as in `write`.
            unsafe { raw::read(addr, &mut bytes[place]) };
        }
        Ok(())
    }

    /// Scatters places in `bytes` to rows, all of which lie in one live allocation.
    pub(crate) fn write_rows(&self, rows: Rows, bytes: &[u8]) -> Result<(), MemoryError> {
        let heaps = self.heaps();
        let _virt = self.check_rows(&heaps, rows, Access::ReadWrite)?;
        if rows.is_large {
            crate::ahead::beside(rows.joined().each(), |(addr, place)| {
                // SAFETY: as in `write`.
                unsafe { raw::stream(addr, &bytes[place]) };
            });
            raw::end_stream();
        } else {
            for (addr, place) in rows.joined().each() {
                // SAFETY: as in `write`.
                unsafe { raw::write(addr, &bytes[place]) };
            }
        }
        Ok(())
    }

    /// As [`Arena::check_ranges`], for all bytes from the first row to the last.
    fn check_rows(
        &self,
        heaps: &[Heap],
        rows: Rows,
        access: Access,
    ) -> Result<Option<RwLockReadGuard<'_, Virtual>>, MemoryError> {
        let extent = rows.extent().unwrap_or(u64::MAX);
        self.check_ranges(heaps, &[(rows.addr, extent, access)])
    }

    /// Fills bytes of one live allocation with `count` copies of a pattern.
    pub fn fill(&self, addr: u64, pattern: Pattern, count: u64) -> Result<(), MemoryError> {
        let word = pattern.word();
        let len = count.saturating_mul(pattern.size());
        self.contents.written(addr, len);
        self.in_steps(addr, len, Access::ReadWrite, |at, start, end| {
            // SAFETY: as in `write`. A step is a multiple of every pattern.
            unsafe { raw::fill(at, word, end - start) };
        })
    }

    /// Copies between live allocations; the ranges may overlap.
    pub fn copy(&self, to: u64, from: u64, len: u64) -> Result<(), MemoryError> {
        if len == 0 {
            return Ok(());
        }
        self.contents.written(to, len);
        // What is still to be read must not be overwritten.
        let backwards = to > from && to - from < len;
        let mut done = 0;
        while done < len {
            let n = (len - done).min(STEP);
            let start = if backwards { len - done - n } else { done };
            let heaps = self.heaps();
            let _virt = self.check_ranges(
                &heaps,
                &[(from, len, Access::Read), (to, len, Access::ReadWrite)],
            )?;
            // SAFETY: as in `write`, for both ranges.
            unsafe { raw::copy(to + start, from + start, n) };
            done += n;
        }
        Ok(())
    }

    /// Replaces an element of 1, 2, 4 or 8 bytes atomically, for a kernel; returns the old one. The
    /// element must be aligned and lie in one live allocation.
    pub(crate) fn update(
        &self,
        addr: u64,
        size: u32,
        update: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, MemoryError> {
        let mut old = 0;
        self.in_steps(addr, size.into(), Access::ReadWrite, |at, _, _| {
            // SAFETY: as in `write`; an element is one piece.
            old = unsafe { raw::update(at, size, update) };
        })?;
        Ok(old)
    }

    /// Replaces 16 bytes atomically by `new`, if they are what is expected where something is;
    /// returns the old ones. They must be aligned and lie in one live allocation.
    pub(crate) fn exchange(
        &self,
        addr: u64,
        expected: Option<u128>,
        new: u128,
    ) -> Result<u128, MemoryError> {
        let mut old = 0;
        self.in_steps(addr, 16, Access::ReadWrite, |at, _, _| {
            // SAFETY: as in `update`.
            old = unsafe { raw::exchange(at, expected, new) };
        })?;
        Ok(old)
    }

    /// Calls `work` while each of the ranges (address and size) lies in one live allocation and
    /// none of them is freed; none if they do not. `seen` is of an earlier call with the same
    /// ranges, or none.
    pub(crate) fn while_alive<T>(
        &self,
        ranges: &[(u64, u64)],
        seen: &Cell<Option<Alive>>,
        work: impl FnOnce() -> T,
    ) -> Option<T> {
        let n_freed_in = |part: usize| self.n_freed[part].load(Ordering::SeqCst);
        if let Some(Alive { part, n_freed }) = seen.get() {
            let _reading = self.readers.read();
            if n_freed_in(part) == n_freed {
                return Some(work());
            }
        }
        let heaps = self.heaps();
        let mut virt = None;
        for &(addr, size) in ranges {
            let found = self
                .check_ranges(&heaps, &[(addr, size, Access::Read)])
                .ok()?;
            virt = virt.or(found);
        }
        if let (None, &[(addr, _)]) = (&virt, ranges)
            && let Some(part) = self.part_of(addr)
        {
            let part = part as usize;
            let n_freed = n_freed_in(part);
            seen.set(Some(Alive { part, n_freed }));
        }
        Some(work())
    }

    /// Calls `step(address, start, end)` for pieces of the range, each while its allocation is
    /// alive.
    fn in_steps(
        &self,
        addr: u64,
        len: u64,
        access: Access,
        mut step: impl FnMut(u64, u64, u64),
    ) -> Result<(), MemoryError> {
        let mut start = 0;
        while start < len {
            let end = len.min(start + STEP);
            let heaps = self.heaps();
            let _virt = self.check_ranges(&heaps, &[(addr, len, access)])?;
            step(addr + start, start, end);
            start = end;
        }
        Ok(())
    }

    /// Whether each range lies in one live allocation, or in mapped memory, which the guard holds
    /// still.
    fn check_ranges(
        &self,
        heaps: &[Heap],
        ranges: &[(u64, u64, Access)],
    ) -> Result<Option<RwLockReadGuard<'_, Virtual>>, MemoryError> {
        let mut virt = None;
        for &(addr, size, access) in ranges {
            let part = self.part_of(addr);
            if part.is_some_and(|part| heaps[part as usize].is_live(addr, size)) {
                continue;
            }
            if virt
                .get_or_insert_with(|| self.virt())
                .allows(addr, size, access)
            {
                continue;
            }
            // The description looks there, too.
            drop(virt.take());
            let note = self.describe_in(heaps, addr);
            return Err(MemoryError::BadRange { addr, size, note });
        }
        Ok(virt)
    }
}
