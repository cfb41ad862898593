//! Memory for arguments: pages that calls may write, with nothing around them.
//!
//! The library may write wherever an argument points, so every address that the fuzzer makes up is
//! either in these pages, or where there is no memory. They lie far below all else, since offsets
//! and pitches lead away from them.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::rng::Rng;

/// Where the first pages are.
const FIRST: u64 = 8 << 40;

/// How far pages are from the next.
const DISTANCE: u64 = 1 << 32;

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
    /// Maps pages.
    pub(crate) fn new() -> Scratch {
        Scratch {
            base: map(PAGES, libc::PROT_READ | libc::PROT_WRITE),
            next: Cell::new(0),
        }
    }

    /// The next slot's address. A call uses less than all, so that its arguments do not overlap.
    pub(crate) fn slot(&self) -> u64 {
        let slot = self.next.get();
        self.next.set((slot + 1) % (PAGES / SLOT - 1));
        self.base + (slot * SLOT) as u64
    }

    /// An address with `len` bytes before their end.
    pub(crate) fn before_end(&self, len: usize) -> u64 {
        self.base + (PAGES - len.min(PAGES)) as u64
    }

    /// An address behind them.
    pub(crate) fn behind(&self, rng: &mut Rng) -> u64 {
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
    static N_MAPPED: AtomicU64 = AtomicU64::new(0);
    let place = FIRST + N_MAPPED.fetch_add(1, Ordering::Relaxed) * DISTANCE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: a new mapping is nothing that anybody uses, and replaces none.
    let address = unsafe { libc::mmap(place as *mut c_void, len, protection, flags, -1, 0) };
    assert_eq!(address as u64, place, "there is nothing yet");
    place
}
