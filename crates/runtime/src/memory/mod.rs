//! Device memory: one arena of reserved address space that holds everything a kernel can reach.
//!
//! A device pointer is a host address inside the arena, so data structures with pointers just work.
//! The lower part is the heap of global memory, the upper part holds windows (`.shared`, `.local`,
//! `.const`, `.param`), each between wide inaccessible gaps. **Invariant**: whatever address
//! compiled code makes up, if it lies in the arena, then an access reaches device memory or faults;
//! host memory is never in the arena.
//!
//! * [`heap`](self) knows every allocation's exact bounds; host copies are checked against them,
//!   and so is every access under
//!   `memcheck`.
//! * Contents are plain bytes without synchronisation of their own: a host copy that races with a
//!   kernel sees what it
//!   sees, as on a GPU.

#![expect(
    unsafe_code,
    reason = "copies reach device memory through addresses that were checked here"
)]

mod cluster;
mod contents;
mod copy;
mod foreign;
mod heap;
mod map;
mod raw;
mod readers;
mod reserve;
mod tables;
mod virt;
mod windows;

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(crate) use cluster::ClusterWindow;
pub(crate) use foreign::{read_host, write_host};
pub(crate) use heap::BlockState;
pub(crate) use map::READ_ONLY;
pub(crate) use reserve::PAGE;
pub(crate) use windows::Window;

pub(crate) use copy::Alive;
pub use copy::Pattern;
pub use tables::{Snapshot, TagTables};
pub use virt::{Access, GRANULE, PhysicalMemory};

use contents::Contents;
use foreign::Foreign;
use heap::Heap;
use map::ValidMap;
use readers::Readers;
use reserve::{HUGE_PAGE, Reservation};
use tables::Tables;
use virt::Virtual;
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

/// The memory of one or several devices. All methods may be called from any thread.
///
/// Each device has its own *part* of the heap, so that an address tells its device. Kernels of any
/// device may access all parts.
#[derive(Debug)]
pub struct Arena {
    /// One per part.
    heaps: RwLock<Vec<Heap>>,
    /// Blocks freed, by part.
    n_freed: Box<[AtomicU64]>,
    readers: Readers,
    /// Locked after `heaps`, if both are.
    virt: RwLock<Virtual>,
    foreign: Foreign,
    n_parts: u32,
    /// log2 of the address space of a part.
    part_bits: u32,
    windows: Mutex<WindowSpace>,
    null_window: u64,
    /// Made when a launch first wants it. Heaps change it under their lock.
    map: OnceLock<ValidMap>,
    contents: Contents,
    tables: Tables,
    reservation: Reservation,
}

/// Where the heap of an arena with addresses of 32 bits begins: far from 0, where null pointers and
/// offsets from them lead.
const NARROW_START: u64 = 256 << 20;

/// Where it ends. Addresses of 32 bits that are not below stand for places in windows, as the
/// frontend has it.
pub const NARROW_END: u64 = 0xe000_0000;

/// Most devices that one arena can serve.
pub const MAX_PARTS: u32 = 64;

impl Arena {
    /// Reserves the address space for one device; no memory is used yet.
    pub fn new() -> Result<Arc<Arena>, MemoryError> {
        Arena::with_parts(1)
    }

    /// Reserves the address space for so many devices, 1 to [`MAX_PARTS`].
    pub fn with_parts(n_parts: u32) -> Result<Arc<Arena>, MemoryError> {
        Arena::over(Reservation::new(), n_parts.clamp(1, MAX_PARTS))
    }

    /// Reserves address space for one device whose global memory has addresses of 32 bits, below
    /// [`NARROW_END`]. There is one such arena at a time in a process.
    pub fn low() -> Result<Arc<Arena>, MemoryError> {
        Arena::over(Reservation::low(), 1)
    }

    /// Whether addresses of global memory have 32 bits.
    pub fn is_low(&self) -> bool {
        self.base() == 0
    }

    fn over(reservation: io::Result<Reservation>, n_parts: u32) -> Result<Arc<Arena>, MemoryError> {
        let reservation = reservation.map_err(|err| MemoryError::Reserve(err.to_string()))?;
        let (base, size) = (reservation.base(), reservation.size());
        // Windows are thinly spread: where address space is scarce, they need more of it than the
        // heap does.
        let heap_bits = reservation.bits() - if size < 1 << 40 { 2 } else { 1 };
        let middle = base + (1 << heap_bits);
        let part_bits = heap_bits - n_parts.next_power_of_two().ilog2();
        let heap = |part: u32| {
            let start = base + (u64::from(part) << part_bits);
            // Nothing lies where a part starts, so that no pointer equals the arena's base and a
            // copy cannot run from one part into the next.
            let leaves_room = Arena::leaves_room(reservation.bits(), n_parts, base);
            let end = start + (1 << (part_bits - u32::from(leaves_room)));
            match base {
                0 => Heap::new(NARROW_START..NARROW_END.min(end)),
                _ => Heap::new(start + (1 << 20)..end),
            }
        };
        let (null_window, windows) = WindowSpace::new(middle..base + size);
        reservation
            .commit(idle_page(null_window), PAGE)
            .map_err(|err| MemoryError::Reserve(err.to_string()))?;
        Ok(Arc::new(Arena {
            heaps: RwLock::new((0..n_parts).map(heap).collect()),
            n_freed: (0..n_parts).map(|_| AtomicU64::new(0)).collect(),
            readers: Readers::default(),
            virt: RwLock::default(),
            foreign: Foreign::default(),
            n_parts,
            part_bits,
            windows: Mutex::new(windows),
            null_window,
            map: OnceLock::new(),
            contents: Contents::default(),
            tables: Tables::default(),
            reservation,
        }))
    }

    /// Number of parts.
    pub fn n_parts(&self) -> u32 {
        self.n_parts
    }

    /// The part that an address of global memory belongs to, allocated or not.
    pub fn part_of(&self, addr: u64) -> Option<u32> {
        let part = addr.checked_sub(self.base())? >> self.part_bits;
        (part < u64::from(self.n_parts)).then_some(part as u32)
    }

    /// The addresses of a part: the first, and log2 of how many.
    pub(crate) fn range_of_part(&self, part: u32) -> (u64, u32) {
        let start = self.base() + (u64::from(part) << self.part_bits);
        (start, self.part_bits)
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

    /// Address of offset 0 of a window without memory: but for the page for idle lanes, all that a
    /// 32-bit offset reaches from there is inaccessible.
    pub(crate) fn null_window(&self) -> u64 {
        self.null_window
    }

    /// Allocates global memory of a part as `cuMemAlloc` does, aligned to 256 bytes or more; the
    /// contents are unspecified.
    pub fn alloc(&self, part: u32, size: u64, align: u64) -> Result<u64, MemoryError> {
        self.alloc_aligned(part, size, align.max(256))
    }

    /// Allocates with any power of two as alignment.
    pub(crate) fn alloc_aligned(
        &self,
        part: u32,
        size: u64,
        align: u64,
    ) -> Result<u64, MemoryError> {
        let out_of_memory = || MemoryError::OutOfMemory { size };
        let mut heaps = self.heaps_mut();
        let heap = &mut heaps[part as usize];
        let (addr, pages) = heap.alloc(size, align).ok_or_else(out_of_memory)?;
        self.contents.allocated(addr, size);
        let mark = || {
            if let Some(map) = self.map.get() {
                map.mark(addr..addr + size, 0);
            }
        };
        let Some(pages) = pages else {
            mark();
            return Ok(addr);
        };
        if self.reservation.commit(pages.start, pages.len).is_err() {
            // Nothing of it was committed, so its pages need no attention.
            if let Ok(Some(freed)) = heap.free(addr) {
                heap.give_span(freed.start, freed.span);
            }
            return Err(out_of_memory());
        }
        if pages.len >= 2 * HUGE_PAGE {
            self.reservation.prefer_huge_pages(pages.start, pages.len);
        }
        mark();
        Ok(addr)
    }

    /// Frees what [`Arena::alloc`] returned. A kernel that still uses it faults or reads other
    /// data.
    pub fn free(&self, addr: u64) -> Result<(), MemoryError> {
        let part = self.part_of(addr);
        let free = |part: u32| {
            let mut heaps = self.heaps_mut();
            let heap = &mut heaps[part as usize];
            let block = heap.live_block(addr);
            let freed = heap.free(addr).ok();
            if let (Some(map), Some((start, size)), Some(_)) = (self.map.get(), block, freed) {
                map.clear(start..start + size);
            }
            self.contents.freed(addr);
            self.n_freed[part as usize].fetch_add(1, Ordering::SeqCst);
            self.readers.wait();
            freed
        };
        let Some((part, freed)) = part.and_then(|part| Some((part, free(part)?))) else {
            let note = self.describe(addr);
            return Err(MemoryError::BadFree { addr, note });
        };
        if let Some(pages) = freed {
            // Not under the lock: this takes long for large blocks. If it fails the pages stay
            // readable, and a wild access goes unnoticed, nothing worse.
            let _ = self.reservation.decommit(pages.start, pages.len);
            self.heaps_mut()[part as usize].give_span(pages.start, pages.span);
        }
        Ok(())
    }

    /// The map of valid memory, with all that is allocated. From the first call on allocations lie
    /// far apart, so that two neighbouring lanes of which one is inside of an allocation are not in
    /// two.
    fn valid_map(&self) -> Result<&ValidMap, MemoryError> {
        if let Some(map) = self.map.get() {
            return Ok(map);
        }
        // Allocations wait until all that is live is marked.
        let mut heaps = self.heaps_mut();
        if self.map.get().is_none() {
            let map = ValidMap::new(self.base(), self.bits())
                .map_err(|err| MemoryError::Reserve(err.to_string()))?;
            for heap in heaps.iter_mut() {
                heap.keep_apart();
                for (start, size) in heap.live_blocks() {
                    map.mark(start..start + size, 0);
                }
            }
            let _ = self.map.set(map);
        }
        Ok(self.map.get().expect("set above, or by another thread"))
    }

    /// Gets ready for launches that check every access exactly, and keeps allocations apart from
    /// now on.
    pub fn prepare_checks(&self) -> Result<(), MemoryError> {
        self.valid_map().map(|_| ())
    }

    /// Whether [`Arena::prepare_checks`] was called.
    pub(crate) fn checks_accesses(&self) -> bool {
        self.map.get().is_some()
    }

    /// Keeps account of which bytes of allocations are written, from now on. Kernels are taken to
    /// write everything, unless [`Arena::set_states`] tells of it.
    pub fn track_contents(&self) {
        self.contents.track();
    }

    /// A kernel has run that did not tell what it wrote.
    pub fn all_written(&self) {
        self.contents.all_written();
    }

    /// For each byte from `addr` on 0 if it is written, 0xff if it never was, or what
    /// [`Arena::set_states`] said of it.
    pub fn states(&self, addr: u64, states: &mut [u8]) {
        self.contents.states(addr, states);
    }

    /// Says what bytes from `addr` on are.
    pub fn set_states(&self, addr: u64, states: &[u8]) {
        self.contents.set_states(addr, states);
    }

    /// Whether an address lies in an allocation that was freed.
    pub fn is_freed(&self, addr: u64) -> bool {
        self.check_heap(addr, 1, false) == HeapCheck::Freed
    }

    /// What compiled code adds to an address divided by 16 for that of its byte in the map of valid
    /// memory.
    pub(crate) fn map_origin(&self) -> Result<u64, MemoryError> {
        Ok(self.valid_map()?.origin())
    }

    /// Marks exactly these parts of a window as valid, with `flags` of the map, and all the rest of
    /// it as not.
    pub(crate) fn mark_window(
        &self,
        window: Range<u64>,
        valid: impl Iterator<Item = Range<u64>>,
        flags: u8,
    ) {
        if let Some(map) = self.map.get() {
            map.clear(window);
            valid.for_each(|bytes| map.mark(bytes, flags));
        }
    }

    /// Bytes in live allocations of a part.
    pub fn live_bytes(&self, part: u32) -> u64 {
        self.heaps()[part as usize].live_bytes()
    }

    /// Refuses allocations that would bring [`Arena::live_bytes`] of a part above `limit`.
    pub fn set_limit(&self, part: u32, limit: u64) {
        self.heaps_mut()[part as usize].set_limit(limit);
    }

    /// See [`Arena::set_limit`]; `u64::MAX` if there is none.
    pub fn limit(&self, part: u32) -> u64 {
        self.heaps()[part as usize].limit()
    }

    /// Tells that bytes of one allocation were written past the arena, or may be at any time.
    pub fn note_written(&self, addr: u64, len: u64) {
        self.contents.written(addr, len);
    }

    /// Start and size of the live allocation, or the mapping, that holds `addr`.
    pub fn range_of(&self, addr: u64) -> Option<(u64, u64)> {
        let part = self.part_of(addr)?;
        let block = self.heaps()[part as usize].live_block(addr);
        block.or_else(|| self.mapped_range(addr))
    }

    /// Size of the live allocation that starts at `addr`.
    pub(crate) fn allocation_size(&self, addr: u64) -> Option<u64> {
        let (start, size) = self.range_of(addr)?;
        (start == addr).then_some(size)
    }

    /// Exact check of an access to global memory.
    pub(crate) fn check_heap(&self, addr: u64, size: u64, is_write: bool) -> HeapCheck {
        let Some(part) = self.part_of(addr) else {
            return HeapCheck::OutOfBounds;
        };
        match self.heaps()[part as usize].block_at_or_below(addr) {
            Some((start, block)) if size <= block.size && addr - start <= block.size - size => {
                match block.state {
                    BlockState::Live => HeapCheck::Ok,
                    BlockState::Freed => HeapCheck::Freed,
                }
            }
            Some(_) | None if self.virt().allows(addr, size, Access::of(is_write)) => HeapCheck::Ok,
            // Instrumented code asks where a lane that does not run would leave the marked parts.
            Some(_) | None if self.is_in_used_tables(addr, size) => HeapCheck::Ok,
            Some(_) | None => HeapCheck::OutOfBounds,
        }
    }

    /// Says in words what lies at an address of global memory, or near it.
    pub fn describe(&self, addr: u64) -> String {
        self.describe_in(&self.heaps(), addr)
    }

    fn describe_in(&self, heaps: &[Heap], addr: u64) -> String {
        if addr < 1 << 16 {
            return "a null pointer, or an offset from one".into();
        }
        if !self.contains(addr) {
            return "not an address of device memory".into();
        }
        let Some(part) = self.part_of(addr) else {
            return "no allocation is near".into();
        };
        if let Some(text) = self.virt().describe(addr) {
            return text;
        }
        let heap = &heaps[part as usize];
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

    fn heaps(&self) -> RwLockReadGuard<'_, Vec<Heap>> {
        // The heaps are consistent between any two statements that could panic.
        self.heaps.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn heaps_mut(&self) -> RwLockWriteGuard<'_, Vec<Heap>> {
        self.heaps.write().unwrap_or_else(PoisonError::into_inner)
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

/// Copies to committed device memory without further checks.
///
/// # Safety
///
/// The bytes are committed and stay so meanwhile.
pub(crate) unsafe fn write_committed(addr: u64, bytes: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { raw::write(addr, bytes) };
}

/// Committed device memory as a slice.
///
/// # Safety
///
/// The bytes are committed, and nobody else accesses them while the slice lives.
pub(crate) unsafe fn committed<'a>(addr: u64, len: usize) -> &'a mut [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(addr as *mut u8, len) }
}

/// Replaces an element of 1, 2, 4 or 8 bytes in memory of the process atomically; returns the old
/// one.
///
/// # Safety
///
/// The element is aligned and may be written, and stays so meanwhile.
pub(crate) unsafe fn update_committed(
    addr: u64,
    size: u32,
    update: &mut dyn FnMut(u64) -> u64,
) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { raw::update(addr, size, update) }
}

/// Replaces 16 bytes of memory of the process atomically: see [`Arena::exchange`].
///
/// # Safety
///
/// The place is a multiple of 16 and may be written, and stays so meanwhile.
pub(crate) unsafe fn exchange_committed(addr: u64, expected: Option<u128>, new: u128) -> u128 {
    // SAFETY: the caller's promise.
    unsafe { raw::exchange(addr, expected, new) }
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
        let small = arena.alloc(0, 10, 1).unwrap();
        let big = arena.alloc(0, 10 << 20, 1).unwrap();
        for (addr, size) in [(small, 10u64), (big, 10 << 20)] {
            assert!(addr.is_multiple_of(256) && arena.contains(addr));
            arena.fill(addr, Pattern::U8(7), size).unwrap();
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
        assert_eq!(arena.live_bytes(0), 0);
    }

    #[test]
    fn parts_have_their_own_addresses_and_limits() {
        let arena = Arena::with_parts(3).unwrap();
        for part in 0..3 {
            let addr = arena.alloc(part, 5000, 256).unwrap();
            assert_eq!(arena.part_of(addr), Some(part));
            assert_eq!(arena.range_of(addr + 4999), Some((addr, 5000)));
            assert_eq!(arena.range_of(addr + 5000), None);
            assert_eq!(arena.live_bytes(part), 5000);
        }
        arena.set_limit(1, 6000);
        assert!(arena.alloc(1, 1001, 256).is_err() && arena.alloc(2, 1001, 256).is_ok());
        for addr in [arena.null_window(), arena.base() - 1, 0, u64::MAX] {
            assert_eq!((arena.part_of(addr), arena.range_of(addr)), (None, None));
            assert!(arena.free(addr).is_err());
        }
    }

    #[test]
    fn wild_addresses_are_described() {
        let arena = Arena::new().unwrap();
        let a = arena.alloc(0, 100 << 10, 256).unwrap();
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
