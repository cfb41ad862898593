//! Places for windows (`.shared`, `.local`, `.const`, `.param`) in the arena: each has 2 GB of
//! inaccessible addresses on both sides, so that a sign-extended 32-bit offset that misses the
//! window misses all other memory too. Neighbours share the gap between them.
//!
//! In the gap below each, at [`IDLE_OFFSET`], lies a page that can be accessed: compiled code sends
//! lanes that do not run there.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use ptxjit_abi::IDLE_OFFSET;

use super::Arena;
use super::reserve::PAGE;

/// Between two windows: 2 GB and some room for the constant offset of an instruction.
const GUARD: u64 = (2 << 30) + (1 << 20);

/// The page for idle lanes of the window whose offset 0 is at `base`.
pub(super) fn idle_page(base: u64) -> u64 {
    base.wrapping_add_signed(IDLE_OFFSET)
}

// The page lies in the gap, and nearer than a 32-bit offset reaches.
const _: () = assert!(IDLE_OFFSET < 0 && IDLE_OFFSET.unsigned_abs() + PAGE < GUARD - PAGE);
const _: () = assert!(IDLE_OFFSET.unsigned_abs().is_multiple_of(PAGE));

const MIB: u64 = 1 << 20;

/// Hands out places.
#[derive(Debug)]
pub(super) struct WindowSpace {
    fresh: Range<u64>,
    /// Places given back, by their capacity.
    free: BTreeMap<u64, Vec<u64>>,
}

impl WindowSpace {
    /// A space over `range`, and the address of a window that stays empty.
    pub(super) fn new(range: Range<u64>) -> (u64, WindowSpace) {
        let null = range.start + GUARD;
        (
            null,
            WindowSpace {
                fresh: null..range.end,
                free: BTreeMap::new(),
            },
        )
    }

    /// A place for `capacity` bytes.
    fn take(&mut self, capacity: u64) -> Option<u64> {
        if let Some(addr) = self.free.get_mut(&capacity).and_then(Vec::pop) {
            return Some(addr);
        }
        let base = self.fresh.start + GUARD;
        let end = base + capacity;
        if end + GUARD > self.fresh.end {
            return None;
        }
        self.fresh.start = end;
        Some(base)
    }

    fn give_back(&mut self, addr: u64, capacity: u64) {
        self.free.entry(capacity).or_default().push(addr);
    }
}

/// A window's memory. Dropping it forgets its contents and frees its place.
#[derive(Debug)]
pub(crate) struct Window {
    arena: Arc<Arena>,
    base: u64,
    capacity: u64,
    /// Leading bytes that can be accessed.
    len: u64,
}

impl Window {
    /// A window that can grow to `capacity` bytes. None of it can be accessed yet, but for the page
    /// for idle lanes.
    pub(crate) fn new(arena: &Arc<Arena>, capacity: u64) -> io::Result<Window> {
        let size = match capacity {
            // Few different sizes, so that places can be used again.
            size @ 0..=MIB => size.next_power_of_two().max(PAGE),
            size => size.next_multiple_of(MIB),
        };
        let place = lock(&arena.windows).take(size);
        let place = place.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::OutOfMemory,
                "no address space left for windows",
            )
        })?;
        let window = Window {
            arena: arena.clone(),
            base: place,
            capacity: size,
            len: 0,
        };
        arena.reservation.commit(idle_page(place), PAGE)?;
        Ok(window)
    }

    /// Makes exactly the first `len` bytes (rounded up to pages) accessible, keeping the contents.
    pub(crate) fn set_len(&mut self, len: u64) -> io::Result<()> {
        let len = len.next_multiple_of(PAGE);
        assert!(len <= self.capacity, "windows grow up to their capacity");
        if len > self.len {
            self.arena
                .reservation
                .commit(self.base + self.len, len - self.len)?;
        } else if len < self.len {
            self.arena
                .reservation
                .protect(self.base + len, self.len - len)?;
        }
        self.len = len;
        Ok(())
    }

    /// Makes some bytes (whole pages) accessible or not, keeping the contents.
    pub(crate) fn set_part(&self, offset: u64, len: u64, is_accessible: bool) -> io::Result<()> {
        assert!(offset + len <= self.capacity, "parts lie in the window");
        let (reservation, addr) = (&self.arena.reservation, self.base + offset);
        match (len, is_accessible) {
            (0, _) => Ok(()),
            (_, true) => reservation.commit(addr, len),
            (_, false) => reservation.protect(addr, len),
        }
    }

    /// Address of offset 0, a multiple of the page size.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Bytes it can grow to.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes that can be accessed.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The arena it lies in.
    pub(crate) fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let reservation = &self.arena.reservation;
        let idle = reservation.decommit(idle_page(self.base), PAGE);
        if idle.is_ok() && reservation.decommit(self.base, self.capacity).is_ok() {
            lock(&self.arena.windows).give_back(self.base, self.capacity);
        }
    }
}

fn lock(space: &Mutex<WindowSpace>) -> std::sync::MutexGuard<'_, WindowSpace> {
    // The space is consistent between any two statements that could panic.
    space.lock().unwrap_or_else(PoisonError::into_inner)
}
