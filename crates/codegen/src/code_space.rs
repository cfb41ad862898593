//! Address space for code: reserved in regions, handed out in blocks, one block for all pieces of
//! an object.
//!
//! Code refers to its neighbours by distances of 32 bits. Memory that the system places anew for
//! each piece can lie further away than that in a process with much address space in use, so all
//! pieces of an object are put side by side in a block of a region that was reserved before. A
//! dropped block gives its memory back to the system and its addresses to the region; a region
//! without blocks is given back as well, but for one.
//!
//! Failing to find room is an error, never a panic.

#![expect(
    unsafe_code,
    reason = "address space is reserved and protected through libc"
)]

use std::collections::BTreeMap;
use std::io;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cranelift_jit::{BranchProtection, JITMemoryKind, JITMemoryProvider};
use cranelift_module::{ModuleError, ModuleResult};

/// Size of the pages that blocks consist of; a multiple of the system's.
const PAGE: usize = 1 << 16;

/// Regions have this size if the system grants it.
const REGION: usize = 256 << 20;

/// The smallest region that is asked for, but for an object that needs more.
const SMALLEST_REGION: usize = 1 << 20;

/// A reserved range of address space.
#[derive(Debug)]
struct Region {
    base: usize,
    size: usize,
    /// Free ranges, by start; no two of them touch.
    free: BTreeMap<usize, usize>,
}

/// All regions of the process.
static REGIONS: Mutex<Vec<Region>> = Mutex::new(Vec::new());

fn regions() -> MutexGuard<'static, Vec<Region>> {
    // The regions are consistent between any two statements that could panic.
    REGIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Region {
    /// Reserves a region with room for `size` bytes, larger than that if the system grants it.
    fn reserve(size: usize) -> io::Result<Region> {
        let mut wanted = REGION.max(size);
        loop {
            match map_none(ptr::null_mut(), wanted, 0) {
                Ok(base) => {
                    return Ok(Region {
                        base,
                        size: wanted,
                        free: BTreeMap::from([(base, wanted)]),
                    });
                }
                Err(err) if wanted <= size.max(SMALLEST_REGION) => return Err(err),
                Err(_) => wanted = (wanted / 4).max(SMALLEST_REGION).max(size),
            }
        }
    }

    /// Takes the first free range that is large enough.
    fn take(&mut self, size: usize) -> Option<usize> {
        let (&start, &room) = self.free.iter().find(|&(_, &room)| room >= size)?;
        self.free.remove(&start);
        if room > size {
            self.free.insert(start + size, room - size);
        }
        Some(start)
    }

    fn give_back(&mut self, start: usize, size: usize) {
        let (mut start, mut size) = (start, size);
        if let Some((&before, &room)) = self.free.range(..start).next_back()
            && before + room == start
        {
            self.free.remove(&before);
            (start, size) = (before, room + size);
        }
        if let Some(room) = self.free.remove(&(start + size)) {
            size += room;
        }
        self.free.insert(start, size);
    }

    fn is_empty(&self) -> bool {
        self.free.get(&self.base) == Some(&self.size)
    }
}

/// Memory for the pieces of one object. Dropping it frees them: the owner promises that none runs
/// any more.
#[derive(Debug)]
pub(crate) struct Block {
    base: usize,
    size: usize,
    /// Bytes that pieces take.
    used: usize,
}

impl Block {
    /// A writable block of `size` bytes or some more.
    pub(crate) fn new(size: usize) -> io::Result<Block> {
        let size = size.max(1).checked_next_multiple_of(PAGE);
        let size = size.ok_or(io::ErrorKind::OutOfMemory)?;
        let mut regions = regions();
        let base = match regions.iter_mut().find_map(|region| region.take(size)) {
            Some(base) => base,
            None => {
                let mut region = Region::reserve(size)?;
                let base = region.take(size).ok_or(io::ErrorKind::OutOfMemory)?;
                regions.push(region);
                base
            }
        };
        drop(regions);
        let block = Block {
            base,
            size,
            used: 0,
        };
        block.protect(size, libc::PROT_READ | libc::PROT_WRITE)?;
        Ok(block)
    }

    fn protect(&self, size: usize, protection: libc::c_int) -> io::Result<()> {
        // SAFETY: the pages belong to this block alone, and no code in them runs while it is
        // written.
        let rc = unsafe { libc::mprotect(self.base as *mut libc::c_void, size, protection) };
        match rc {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl JITMemoryProvider for Block {
    fn allocate(&mut self, size: usize, align: u64, kind: JITMemoryKind) -> io::Result<*mut u8> {
        let refused = |what: &str| Err(io::Error::new(io::ErrorKind::OutOfMemory, what));
        if !matches!(kind, JITMemoryKind::Executable) {
            return refused("an object has nothing but code");
        }
        let start = usize::try_from(align)
            .ok()
            .and_then(|align| (self.base + self.used).checked_next_multiple_of(align));
        let end = start.and_then(|start| start.checked_add(size));
        match (start, end) {
            (Some(start), Some(end)) if end <= self.base + self.size => {
                self.used = end - self.base;
                Ok(start as *mut u8)
            }
            _ => refused("the object's code is larger than its block"),
        }
    }

    /// Nothing: dropping the block frees it.
    unsafe fn free_memory(&mut self) {}

    fn finalize(&mut self, _: BranchProtection) -> ModuleResult<()> {
        let failed = |err: io::Error| ModuleError::Allocation { err };
        // SAFETY: the range is mapped.
        unsafe { clear_cache(self.base, self.used) }.map_err(failed)?;
        self.protect(self.size, libc::PROT_READ | libc::PROT_EXEC)
            .map_err(failed)?;
        flush_pipelines().map_err(failed)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // A fresh mapping drops the contents and the page tables. If the system refuses, the
        // addresses stay taken.
        let base = self.base as *mut libc::c_void;
        if map_none(base, self.size, libc::MAP_FIXED).is_err() {
            return;
        }
        let mut regions = regions();
        let range = |region: &Region| region.base..region.base + region.size;
        let Some(idx) = regions.iter().position(|it| range(it).contains(&self.base)) else {
            unreachable!("a block lies in the region that it was taken from");
        };
        regions[idx].give_back(self.base, self.size);
        if regions[idx].is_empty() && regions.len() > 1 {
            let region = regions.swap_remove(idx);
            // SAFETY: no block lies in the region, which is off the list.
            unsafe { libc::munmap(region.base as *mut libc::c_void, region.size) };
        }
    }
}

/// Makes written bytes visible to the instruction fetch of this processor, where the hardware does
/// not.
///
/// # Safety
///
/// The range is mapped.
#[cfg(target_arch = "x86_64")]
unsafe fn clear_cache(_: usize, _: usize) -> io::Result<()> {
    Ok(())
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn clear_cache(base: usize, size: usize) -> io::Result<()> {
    // SAFETY: the caller's promise.
    unsafe { wasmtime_internal_jit_icache_coherence::clear_cache(base as *const _, size) }
        .map_err(io::Error::other)
}

/// Has all processors that run this process fetch their next instructions from memory, where the
/// hardware does not see to that.
#[cfg(target_arch = "x86_64")]
fn flush_pipelines() -> io::Result<()> {
    Ok(())
}

#[cfg(not(target_arch = "x86_64"))]
fn flush_pipelines() -> io::Result<()> {
    wasmtime_internal_jit_icache_coherence::pipeline_flush_mt().map_err(io::Error::other)
}

/// Maps pages that cannot be accessed and count against no limit on memory.
fn map_none(addr: *mut libc::c_void, size: usize, extra: libc::c_int) -> io::Result<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | extra;
    // SAFETY: either the system picks the place, or the caller owns the pages it asks to replace.
    let mapped = unsafe { libc::mmap(addr, size, libc::PROT_NONE, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        Err(io::Error::last_os_error())
    } else {
        Ok(mapped as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executable(block: &mut Block, size: usize, align: u64) -> io::Result<usize> {
        let piece = block.allocate(size, align, JITMemoryKind::Executable)?;
        Ok(piece as usize)
    }

    #[test]
    fn pieces_lie_side_by_side_whatever_is_mapped_between() {
        let mut block = Block::new(200_000).unwrap();
        let mut fillers = Vec::new();
        let mut last = 0;
        for piece in 0..20 {
            // Any memory that the system placed now would lie far off.
            let size = 64 << 30;
            fillers.push((map_none(ptr::null_mut(), size, 0).unwrap(), size));
            let at = executable(&mut block, 9000, 64).unwrap();
            assert!(at.is_multiple_of(64));
            assert!(
                piece == 0 || at.abs_diff(last) < 10_000,
                "{at:#x} {last:#x}"
            );
            last = at;
        }
        for (base, size) in fillers {
            // SAFETY: mapped above, and used by nothing.
            unsafe { libc::munmap(base as *mut libc::c_void, size) };
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        assert!(Block::new(usize::MAX).is_err());
        assert!(Block::new(1 << 60).is_err());
        let mut block = Block::new(100).unwrap();
        assert!(executable(&mut block, PAGE + 1, 1).is_err());
        assert!(executable(&mut block, usize::MAX, 1 << 63).is_err());
        executable(&mut block, PAGE, 64).unwrap();
        assert!(executable(&mut block, 1, 1).is_err());
    }

    #[test]
    fn free_ranges_join() {
        let mut region = Region::reserve(PAGE).unwrap();
        let places: Vec<usize> = (0..4).map(|_| region.take(PAGE).unwrap()).collect();
        assert!(!region.is_empty());
        for idx in [1, 3, 0, 2] {
            region.give_back(places[idx], PAGE);
        }
        assert!(region.is_empty());
        assert_eq!(region.take(region.size), Some(region.base));
        // SAFETY: the region is on no list.
        unsafe { libc::munmap(region.base as *mut libc::c_void, region.size) };
    }
}
