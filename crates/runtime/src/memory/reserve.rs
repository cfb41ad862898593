//! One reserved range of address space, and the system calls that give and take its pages.
//!
//! The range is a power of two in size and aligned to its size, so that one shift tells whether an
//! address lies in it. It starts out unmapped for access; [`Reservation::commit`] makes pages
//! readable and writable, zeroed; [`Reservation::decommit`] drops their contents and forbids access
//! again.

#![expect(
    unsafe_code,
    reason = "address space is reserved and protected through libc"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Size of the pages that protection works in; a multiple of the system's.
pub(crate) const PAGE: u64 = 4096;

/// Pages of this size are asked for where an allocation is large enough.
pub(crate) const HUGE_PAGE: u64 = 2 << 20;

/// Largest and smallest size (as a power of two) that is tried. Less than 16 GB has no place for
/// windows with their guards.
const BITS: std::ops::RangeInclusive<u32> = 34..=44;

/// Where ranges are looked for if the system does not grant twice their size: multiples of all
/// sizes, far from what others map.
const FIRST_HINT: u64 = 1 << 44;
const HINTS: u64 = 16;

/// What may be done with pages.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Protection {
    /// Nothing.
    None,
    /// They may be read.
    Read,
    /// They may be read and written.
    ReadWrite,
}

/// Memory that can be mapped several times: a file of zeros without a name.
pub(crate) fn memory_file(size: u64) -> io::Result<File> {
    // SAFETY: the name is a string of the program.
    let fd = unsafe { libc::memfd_create(c"ptxjit".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: made a moment ago, and owned by nothing else.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    file.set_len(size)?;
    Ok(file)
}

/// The range at address 0 is reserved from here on: below it systems map nothing.
const FIRST: u64 = 1 << 16;

/// How long a reservation at address 0 waits for the end of another.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether the range at address 0 is reserved by this process.
static LOW: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

/// The reserved range. Dropping it unmaps everything.
#[derive(Debug)]
pub(crate) struct Reservation {
    base: u64,
    bits: u32,
}

impl Reservation {
    /// Reserves the largest range that the system grants.
    pub(crate) fn new() -> io::Result<Reservation> {
        let mut last = io::Error::from(io::ErrorKind::OutOfMemory);
        for bits in BITS.rev() {
            match Reservation::with_bits(bits) {
                Ok(reservation) => return Ok(reservation),
                Err(err) => last = err,
            }
        }
        Err(last)
    }

    /// Reserves twice the size and gives back what lies outside the aligned half; under a limit on
    /// address space, tries places.
    fn with_bits(bits: u32) -> io::Result<Reservation> {
        let size = 1u64 << bits;
        let whole = match map_none(ptr::null_mut(), 2 * size, 0) {
            Ok(whole) => whole,
            Err(err) => return Reservation::at_hint(bits).ok_or(err),
        };
        let base = whole.next_multiple_of(size);
        for (start, len) in [(whole, base - whole), (base + size, whole + size - base)] {
            if len != 0 {
                // SAFETY: the piece belongs to the mapping made above, and nobody knows it yet.
                unsafe { libc::munmap(start as *mut libc::c_void, len as usize) };
            }
        }
        Ok(Reservation { base, bits })
    }

    /// Reserves the first range that is free of some that are aligned.
    fn at_hint(bits: u32) -> Option<Reservation> {
        let size = 1u64 << bits;
        (0..HINTS).find_map(|idx| {
            let base = FIRST_HINT + idx * size;
            let got = map_none(base as *mut libc::c_void, size, 0).ok()?;
            let reservation = Reservation { base: got, bits };
            // Elsewhere, it is dropped and given back.
            (got == base).then_some(reservation)
        })
    }

    /// Reserves the range that begins at address 0, once in a process: waits a while for the end of
    /// another such reservation.
    pub(crate) fn low() -> io::Result<Reservation> {
        let (taken, freed) = &LOW;
        let guard = taken.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = freed.wait_timeout_while(guard, PATIENCE, |taken| *taken);
        let (mut taken, result) = waited.unwrap_or_else(PoisonError::into_inner);
        if result.timed_out() {
            let note = "another device has the addresses below 4 GB";
            return Err(io::Error::new(io::ErrorKind::AddrInUse, note));
        }
        let mut last = io::Error::from(io::ErrorKind::OutOfMemory);
        for bits in BITS.rev() {
            let len = (1 << bits) - FIRST;
            match map_none(FIRST as *mut libc::c_void, len, libc::MAP_FIXED_NOREPLACE) {
                Ok(FIRST) => {
                    *taken = true;
                    return Ok(Reservation { base: 0, bits });
                }
                Ok(elsewhere) => {
                    // Old kernels take the address for a hint.
                    // SAFETY: mapped a moment ago, and no other code has the address yet.
                    unsafe { libc::munmap(elsewhere as *mut libc::c_void, len as usize) };
                }
                Err(err) => last = err,
            }
        }
        Err(last)
    }

    /// First address.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// log2 of the size.
    pub(crate) fn bits(&self) -> u32 {
        self.bits
    }

    /// Size in bytes.
    pub(crate) fn size(&self) -> u64 {
        1 << self.bits
    }

    fn assert_inside(&self, addr: u64, len: u64) {
        let inside =
            addr >= self.base && len <= self.size() && addr - self.base <= self.size() - len;
        assert!(
            inside && addr.is_multiple_of(PAGE) && len.is_multiple_of(PAGE),
            "pages of the reservation"
        );
    }

    /// Makes pages readable and writable.
    pub(crate) fn commit(&self, addr: u64, len: u64) -> io::Result<()> {
        self.assert_inside(addr, len);
        // SAFETY: the pages belong to this reservation, which holds no Rust objects.
        let rc = unsafe {
            libc::mprotect(
                addr as *mut libc::c_void,
                len as usize,
                libc::PROT_READ | libc::PROT_WRITE,
            )
        };
        if rc == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Asks for huge pages in a committed range; without effect where the system has none.
    pub(crate) fn prefer_huge_pages(&self, addr: u64, len: u64) {
        self.assert_inside(addr, len);
        #[cfg(target_os = "linux")]
        // SAFETY: a hint about pages of this reservation.
        unsafe {
            libc::madvise(addr as *mut libc::c_void, len as usize, libc::MADV_HUGEPAGE);
        }
    }

    /// Drops the pages' contents and forbids access.
    pub(crate) fn decommit(&self, addr: u64, len: u64) -> io::Result<()> {
        self.assert_inside(addr, len);
        // A fresh mapping also frees the page tables, which `madvise` would keep.
        map_none(addr as *mut libc::c_void, len, libc::MAP_FIXED).map(|_| ())
    }

    /// Maps a file in place of the pages, without access.
    pub(crate) fn map_file(&self, addr: u64, len: u64, file: &File, offset: u64) -> io::Result<()> {
        self.assert_inside(addr, len);
        let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let at = addr as *mut libc::c_void;
        // SAFETY: the pages belong to this reservation, which holds no Rust objects.
        let mapped = unsafe {
            libc::mmap(
                at,
                len as usize,
                libc::PROT_NONE,
                flags,
                file.as_raw_fd(),
                offset,
            )
        };
        if mapped == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Sets what may be done with mapped pages.
    pub(crate) fn set_protection(
        &self,
        addr: u64,
        len: u64,
        protection: Protection,
    ) -> io::Result<()> {
        self.assert_inside(addr, len);
        let bits = match protection {
            Protection::None => libc::PROT_NONE,
            Protection::Read => libc::PROT_READ,
            Protection::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
        };
        // SAFETY: as in `commit`.
        let rc = unsafe { libc::mprotect(addr as *mut libc::c_void, len as usize, bits) };
        if rc == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Forbids access and keeps the contents.
    pub(crate) fn protect(&self, addr: u64, len: u64) -> io::Result<()> {
        self.assert_inside(addr, len);
        // SAFETY: as in `commit`.
        let rc =
            unsafe { libc::mprotect(addr as *mut libc::c_void, len as usize, libc::PROT_NONE) };
        if rc == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let start = self.base.max(FIRST);
        let len = self.base + self.size() - start;
        // SAFETY: the whole range is this reservation's, and its owner promises that nothing uses
        // it any more.
        unsafe { libc::munmap(start as *mut libc::c_void, len as usize) };
        if self.base == 0 {
            let (taken, freed) = &LOW;
            *taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
            freed.notify_one();
        }
    }
}

/// Maps pages that cannot be accessed and count against no limit on memory.
fn map_none(addr: *mut libc::c_void, len: u64, extra: libc::c_int) -> io::Result<u64> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | extra;
    let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
    // SAFETY: either the system picks the place, or the caller owns the pages it asks to replace.
    let mapped = unsafe { libc::mmap(addr, len, libc::PROT_NONE, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        Err(io::Error::last_os_error())
    } else {
        Ok(mapped as u64)
    }
}
