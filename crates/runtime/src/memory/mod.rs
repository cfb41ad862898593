//! Device memory: one arena of reserved address space that holds everything a kernel can reach.
//!
//! A device pointer is a host address inside the arena, so data structures with pointers just work. The lower part is the
//! heap of global memory, the upper part holds windows (`.shared`, `.local`, `.const`, `.param`), each between wide
//! inaccessible gaps. **Invariant**: whatever address compiled code makes up, if it lies in the arena, then an access
//! reaches device memory or faults; host memory is never in the arena.
//!
//! * [`heap`](self) knows every allocation's exact bounds; host copies are checked against them, and so is every access under
//!   `memcheck`.
//! * Contents are plain bytes without synchronisation of their own: a host copy that races with a kernel sees what it
//!   sees, as on a GPU.

#![expect(
    unsafe_code,
    reason = "copies reach device memory through addresses that were checked here"
)]

mod heap;
mod raw;
mod reserve;
mod windows;

use std::io;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(crate) use heap::BlockState;
pub(crate) use reserve::PAGE;
pub(crate) use windows::Window;

use heap::Heap;
use reserve::{HUGE_PAGE, Reservation};
use windows::{WindowSpace, idle_page};

/// Why a request for device memory, or a copy to or from it, was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// No room.
    #[error("out of device memory: {size} bytes were asked for")]
    OutOfMemory {
        /// Bytes asked for.
        size: u64,
    },
    /// The address space could not be reserved.
    #[error("cannot reserve address space for device memory: {0}")]
    Reserve(String),
    /// Not the start of a live allocation.
    #[error("cannot free {addr:#x}: {note}")]
    BadFree {
        /// The address.
        addr: u64,
        /// What is there.
        note: String,
    },
    /// A copy that is not inside one allocation.
    #[error("{size} bytes at {addr:#x} are not inside one allocation: {note}")]
    BadRange {
        /// First address.
        addr: u64,
        /// Bytes.
        size: u64,
        /// What is there.
        note: String,
    },
}

/// What an exact check says about an access to global memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum HeapCheck {
    /// Inside a live allocation.
    Ok,
    /// Inside an allocation that was freed.
    Freed,
    /// In no allocation, or across the end of one.
    OutOfBounds,
}

/// The device's memory. All methods may be called from any thread.
#[derive(Debug)]
pub struct Arena {
    heap: RwLock<Heap>,
    windows: Mutex<WindowSpace>,
    null_window: u64,
    reservation: Reservation,
}

impl Arena {
    /// Reserves the address space; no memory is used yet.
    pub fn new() -> Result<Arc<Arena>, MemoryError> {
        let reservation =
            Reservation::new().map_err(|err| MemoryError::Reserve(err.to_string()))?;
        let (base, size) = (reservation.base(), reservation.size());
        let middle = base + size / 2;
        // The first page stays unused, so that no pointer equals the arena's base.
        let heap = RwLock::new(Heap::new(base + (1 << 20)..middle));
        let (null_window, windows) = WindowSpace::new(middle..base + size);
        reservation
            .commit(idle_page(null_window), PAGE)
            .map_err(|err| MemoryError::Reserve(err.to_string()))?;
        Ok(Arc::new(Arena {
            heap,
            windows: Mutex::new(windows),
            null_window,
            reservation,
        }))
    }

    /// First address, a multiple of the size.
    pub fn base(&self) -> u64 {
        self.reservation.base()
    }

    /// log2 of the size in bytes.
    pub fn bits(&self) -> u32 {
        self.reservation.bits()
    }

    /// Whether an address lies in the arena.
    pub fn contains(&self, addr: u64) -> bool {
        addr >> self.bits() == self.base() >> self.bits()
    }

    /// Address of offset 0 of a window without memory: but for the page for idle lanes, all that a 32-bit offset reaches from there is
    /// inaccessible.
    pub(crate) fn null_window(&self) -> u64 {
        self.null_window
    }

    /// Allocates global memory as `cuMemAlloc` does, aligned to 256 bytes or more; the contents are unspecified.
    pub fn alloc(&self, size: u64, align: u64) -> Result<u64, MemoryError> {
        self.alloc_aligned(size, align.max(256))
    }

    /// Allocates with any power of two as alignment.
    pub(crate) fn alloc_aligned(&self, size: u64, align: u64) -> Result<u64, MemoryError> {
        let out_of_memory = || MemoryError::OutOfMemory { size };
        let mut heap = self.heap_mut();
        let (addr, pages) = heap.alloc(size, align).ok_or_else(out_of_memory)?;
        let Some(pages) = pages else { return Ok(addr) };
        if self.reservation.commit(pages.start, pages.len).is_err() {
            // Nothing of it was committed, so its pages need no attention.
            let _ = heap.free(addr);
            return Err(out_of_memory());
        }
        if pages.len >= 2 * HUGE_PAGE {
            self.reservation.prefer_huge_pages(pages.start, pages.len);
        }
        Ok(addr)
    }

    /// Frees what [`Arena::alloc`] returned. A kernel that still uses it faults or reads other data.
    pub fn free(&self, addr: u64) -> Result<(), MemoryError> {
        let freed = self.heap_mut().free(addr);
        let pages = freed.map_err(|_| MemoryError::BadFree {
            addr,
            note: self.describe(addr),
        })?;
        if let Some(pages) = pages {
            // If this fails the pages stay readable: a wild access goes unnoticed, nothing worse.
            let _ = self.reservation.decommit(pages.start, pages.len);
        }
        Ok(())
    }

    /// Bytes in live allocations.
    pub fn live_bytes(&self) -> u64 {
        self.heap().live_bytes()
    }

    /// Copies to the device; the bytes must lie in one live allocation.
    pub fn write(&self, addr: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let _heap = self.checked(addr, bytes.len() as u64)?;
        // SAFETY: the range lies in a live block, which is committed as long as the lock is held.
        unsafe { raw::write(addr, bytes) };
        Ok(())
    }

    /// Copies from the device; the bytes must lie in one live allocation.
    pub fn read(&self, addr: u64, bytes: &mut [u8]) -> Result<(), MemoryError> {
        let _heap = self.checked(addr, bytes.len() as u64)?;
        // SAFETY: as in `write`.
        unsafe { raw::read(addr, bytes) };
        Ok(())
    }

    /// Fills bytes of one live allocation.
    pub fn fill(&self, addr: u64, byte: u8, len: u64) -> Result<(), MemoryError> {
        let _heap = self.checked(addr, len)?;
        // SAFETY: as in `write`.
        unsafe { raw::fill(addr, byte, len) };
        Ok(())
    }

    /// Copies between live allocations; the ranges may overlap.
    pub fn copy(&self, to: u64, from: u64, len: u64) -> Result<(), MemoryError> {
        let heap = self.checked(to, len)?;
        if len != 0 && !heap.is_live(from, len) {
            drop(heap);
            return Err(MemoryError::BadRange {
                addr: from,
                size: len,
                note: self.describe(from),
            });
        }
        // SAFETY: as in `write`, for both ranges.
        unsafe { raw::copy(to, from, len) };
        Ok(())
    }

    /// Holds the heap still if the range lies in one live allocation.
    fn checked(&self, addr: u64, size: u64) -> Result<RwLockReadGuard<'_, Heap>, MemoryError> {
        let heap = self.heap();
        if size == 0 || heap.is_live(addr, size) {
            return Ok(heap);
        }
        drop(heap);
        Err(MemoryError::BadRange {
            addr,
            size,
            note: self.describe(addr),
        })
    }

    /// Size of the live allocation that starts at `addr`.
    pub(crate) fn allocation_size(&self, addr: u64) -> Option<u64> {
        let (start, block) = self.heap().block_at_or_below(addr)?;
        (start == addr && block.state == BlockState::Live).then_some(block.size)
    }

    /// Exact check of an access to global memory.
    pub(crate) fn check_heap(&self, addr: u64, size: u64) -> HeapCheck {
        match self.heap().block_at_or_below(addr) {
            Some((start, block)) if size <= block.size && addr - start <= block.size - size => {
                match block.state {
                    BlockState::Live => HeapCheck::Ok,
                    BlockState::Freed => HeapCheck::Freed,
                }
            }
            Some(_) | None => HeapCheck::OutOfBounds,
        }
    }

    /// Says in words what lies at an address of global memory, or near it.
    pub fn describe(&self, addr: u64) -> String {
        if addr < 1 << 16 {
            return "a null pointer, or an offset from one".into();
        }
        if !self.contains(addr) {
            return "not an address of device memory".into();
        }
        let heap = self.heap();
        let below = heap.block_at_or_below(addr);
        let above = heap.block_above(addr);
        if let Some((start, block)) = below
            && addr - start < block.size.max(1)
        {
            let (size, offset) = (block.size, addr - start);
            return match block.state {
                BlockState::Live => {
                    format!("byte {offset} of the {size}-byte allocation at {start:#x}")
                }
                BlockState::Freed => format!(
                    "byte {offset} of the {size}-byte allocation at {start:#x}, which was freed"
                ),
            };
        }
        let behind = below.map(|(start, block)| {
            (
                addr - (start + block.size),
                start,
                block.size,
                "past the end",
            )
        });
        let before =
            above.map(|(start, block)| (start - addr, start, block.size, "before the start"));
        match [behind, before]
            .into_iter()
            .flatten()
            .min_by_key(|&(distance, ..)| distance)
        {
            Some((0, start, size, side)) => {
                format!("right {side} of the {size}-byte allocation at {start:#x}")
            }
            Some((distance, start, size, side)) if distance < 1 << 40 => {
                format!("{distance} bytes {side} of the {size}-byte allocation at {start:#x}")
            }
            Some(_) | None => "no allocation is near".into(),
        }
    }

    fn heap(&self) -> RwLockReadGuard<'_, Heap> {
        // The heap is consistent between any two statements that could panic.
        self.heap.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn heap_mut(&self) -> RwLockWriteGuard<'_, Heap> {
        self.heap.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies from committed device memory without further checks.
///
/// # Safety
///
/// The bytes are committed and stay so meanwhile.
pub(crate) unsafe fn read_committed(addr: u64, bytes: &mut [u8]) {
    // SAFETY: the caller's promise.
    unsafe { raw::read(addr, bytes) };
}

impl Window {
    /// Copies into the window; the bytes must be accessible.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.check(offset, bytes.len() as u64)?;
        // SAFETY: the range is committed, which only `&mut self` can change.
        unsafe { raw::write(self.base() + offset, bytes) };
        Ok(())
    }

    /// Copies out of the window; the bytes must be accessible.
    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.check(offset, bytes.len() as u64)?;
        // SAFETY: as in `write`.
        unsafe { raw::read(self.base() + offset, bytes) };
        Ok(())
    }

    fn check(&self, offset: u64, len: u64) -> io::Result<()> {
        let fits = len <= self.len() && offset <= self.len() - len;
        if fits {
            Ok(())
        } else {
            Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "outside the window",
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_checked_and_arrive() {
        let arena = Arena::new().unwrap();
        let small = arena.alloc(10, 1).unwrap();
        let big = arena.alloc(10 << 20, 1).unwrap();
        for (addr, size) in [(small, 10u64), (big, 10 << 20)] {
            assert!(addr.is_multiple_of(256) && arena.contains(addr));
            arena.fill(addr, 7, size).unwrap();
            arena.write(addr + size - 3, &[1, 2, 3]).unwrap();
            let mut back = [0; 5];
            arena.read(addr + size - 5, &mut back).unwrap();
            assert_eq!(back, [7, 7, 1, 2, 3]);
            assert!(matches!(
                arena.write(addr + size - 2, &[1, 2, 3]),
                Err(MemoryError::BadRange { .. })
            ));
            assert!(arena.read(addr.wrapping_sub(1), &mut back).is_err());
        }
        arena.copy(big, small, 10).unwrap();
        let mut back = [0; 10];
        arena.read(big, &mut back).unwrap();
        assert_eq!(back, [7, 7, 7, 7, 7, 7, 7, 1, 2, 3]);
        arena.free(big).unwrap();
        assert!(
            arena
                .read(big, &mut back)
                .unwrap_err()
                .to_string()
                .contains("which was freed")
        );
        assert!(arena.free(big).is_err() && arena.free(small + 4).is_err());
        arena.free(small).unwrap();
        assert_eq!(arena.live_bytes(), 0);
    }

    #[test]
    fn wild_addresses_are_described() {
        let arena = Arena::new().unwrap();
        let a = arena.alloc(100 << 10, 256).unwrap();
        assert_eq!(
            arena.describe(a + (100 << 10) + 4),
            format!("4 bytes past the end of the 102400-byte allocation at {a:#x}")
        );
        assert_eq!(
            arena.describe(a - 8),
            format!("8 bytes before the start of the 102400-byte allocation at {a:#x}")
        );
        assert!(arena.describe(8).contains("null"));
        assert!(
            arena
                .describe(arena.base() - 8)
                .contains("not an address of device memory")
        );
    }

    #[test]
    fn windows_hold_data_and_their_places_are_used_again() {
        let arena = Arena::new().unwrap();
        let mut a = Window::new(&arena, 100_000).unwrap();
        for base in [a.base(), arena.null_window()] {
            // SAFETY: the page for idle lanes is mapped from the start.
            unsafe {
                raw::write(idle_page(base), &[3; 64]);
                raw::fill(idle_page(base), 0, 64);
            }
        }
        let b = Window::new(&arena, 100_000).unwrap();
        assert!(a.base().abs_diff(b.base()) >= 2 << 30);
        assert!(a.write(0, &[1]).is_err());
        a.set_len(5000).unwrap();
        a.write(8190, &[1, 2]).unwrap();
        a.set_len(100).unwrap();
        a.set_len(8192).unwrap();
        let mut back = [0; 2];
        a.read(8190, &mut back).unwrap();
        assert_eq!(back, [1, 2]);
        let base = a.base();
        drop(a);
        assert_eq!(Window::new(&arena, 100_000).unwrap().base(), base);
    }
}
