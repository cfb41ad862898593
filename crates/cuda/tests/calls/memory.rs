//! Memory for arguments: pages that calls may write, between pages that nothing may touch.
//!
//! The library may write wherever an argument points, so every address that the fuzzer makes up is
//! either in these pages, or where there is no memory. An overflow of these pages hits the guard.

use std::cell::Cell;
use std::ffi::c_void;

use crate::rng::Rng;

/// Room around the pages, larger than any size that goes with a pointer to them by accident.
const GUARD: usize = 1 << 36;

/// Pages that are read and written.
const PAGES: usize = 1 << 16;

/// Where an argument is put; pages hold many.
const SLOT: usize = 1 << 10;

/// The pages, one set per thread.
pub(crate) struct Scratch {
    base: u64,
    next: Cell<usize>,
}

impl Scratch {
    /// Maps pages and guards.
    pub(crate) fn new() -> Scratch {
        let guarded = map(2 * GUARD, libc::PROT_NONE);
        let base = guarded + GUARD as u64;
        // SAFETY: the range lies in the mapping, which belongs to this object.
        let result = unsafe {
            libc::mprotect(
                base as *mut c_void,
                PAGES,
                libc::PROT_READ | libc::PROT_WRITE,
            )
        };
        assert_eq!(result, 0, "pages can be opened");
        let next = Cell::new(0);
        Scratch { base, next }
    }

    /// The next slot's address. A call uses less than all, so that its arguments do not overlap.
    pub(crate) fn slot(&self) -> u64 {
        let slot = self.next.get();
        self.next.set((slot + 1) % (PAGES / SLOT - 1));
        self.base + (slot * SLOT) as u64
    }

    /// An address with `len` bytes before the guard.
    pub(crate) fn before_guard(&self, len: usize) -> u64 {
        self.base + (PAGES - len.min(PAGES)) as u64
    }

    /// An address in the guard.
    pub(crate) fn in_guard(&self, rng: &mut Rng) -> u64 {
        self.base + (PAGES + rng.below(1 << 20)) as u64
    }

    /// All of it.
    pub(crate) fn pages(&self) -> (u64, usize) {
        (self.base, PAGES)
    }

    /// Puts words at an address of the pages; what does not fit is left out.
    pub(crate) fn put(&self, at: u64, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.put_bytes(at, &bytes);
    }

    /// Puts bytes at an address of the pages; what does not fit is left out.
    pub(crate) fn put_bytes(&self, at: u64, bytes: &[u8]) {
        let Some(offset) = at.checked_sub(self.base) else {
            return;
        };
        let len = bytes.len().min(PAGES.saturating_sub(offset as usize));
        // SAFETY: the target lies in the pages. A call of another thread may write there at the
        // same time, as with any program that makes that mistake.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, len) };
    }

    /// The word at an address of the pages.
    pub(crate) fn word(&self, at: u64) -> Option<u64> {
        let offset = at.checked_sub(self.base)?;
        let fits = offset % 8 == 0 && offset as usize + 8 <= PAGES;
        // SAFETY: the word lies in the pages and is aligned.
        fits.then(|| unsafe { (at as *const u64).read_volatile() })
    }
}

/// A page that can be read, and not written.
pub(crate) fn read_only_page() -> u64 {
    map(4096, libc::PROT_READ)
}

fn map(len: usize, protection: i32) -> u64 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping is nothing that anybody uses.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
    assert_ne!(address, libc::MAP_FAILED, "{len} bytes can be mapped");
    address as u64
}
