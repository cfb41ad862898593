//! Memory of the process that is not device memory, and the ranges of it that kernels may access
//! all the same.

#![expect(unsafe_code, reason = "memory of the process is reached by address")]

use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{RwLock, RwLockReadGuard};

use super::reserve::PAGE;
use super::{Arena, MemoryError};

/// An access may lie so far from the address that compiled code tests, as everywhere.
const MARGIN: u64 = 32 << 10;

/// The ranges, apart from each other and in order.
#[derive(Default, Debug)]
pub(super) struct Foreign {
    ranges: RwLock<Vec<Range<u64>>>,
    any: AtomicBool,
}

impl Foreign {
    fn lock(&self) -> RwLockReadGuard<'_, Vec<Range<u64>>> {
        // The list is consistent between any two statements that could panic.
        self.ranges.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arena {
    /// Lets kernels that are launched from now on access memory that is not the arena's.
    ///
    /// # Safety
    ///
    /// Until [`Arena::unregister`], the memory is mapped, and what kernels do with it is sound.
    pub unsafe fn register(&self, addr: u64, len: u64) -> Result<(), MemoryError> {
        let bad = |note: &str| {
            let (size, note) = (len, note.to_owned());
            Err(MemoryError::BadRange { addr, size, note })
        };
        let end = match addr.checked_add(len) {
            Some(end) if len != 0 && end < 1 << 48 => end,
            Some(_) | None => return bad("this is no memory of the process"),
        };
        let size = 1u64 << self.bits();
        if addr < self.base() + size && end > self.base() {
            return bad("this is device memory");
        }
        let ranges = self.foreign.ranges.write();
        let mut ranges = ranges.unwrap_or_else(PoisonError::into_inner);
        let at = ranges.partition_point(|range| range.end <= addr);
        if ranges.get(at).is_some_and(|range| range.start < end) {
            return bad("some of it is registered already");
        }
        ranges.insert(at, addr..end);
        self.foreign.any.store(true, Ordering::Release);
        Ok(())
    }

    /// Undoes [`Arena::register`] for the range that starts at `addr`. No kernel that uses it may
    /// be running.
    pub fn unregister(&self, addr: u64) -> Result<(), MemoryError> {
        let ranges = self.foreign.ranges.write();
        let mut ranges = ranges.unwrap_or_else(PoisonError::into_inner);
        let Some(at) = ranges.iter().position(|range| range.start == addr) else {
            let note = "no registered range starts there".to_owned();
            return Err(MemoryError::BadFree { addr, note });
        };
        ranges.remove(at);
        self.foreign
            .any
            .store(!ranges.is_empty(), Ordering::Release);
        Ok(())
    }

    /// Start and length of the registered range that holds an address.
    pub fn registered_range(&self, addr: u64) -> Option<(u64, u64)> {
        let ranges = self.foreign.lock();
        let range = ranges.get(ranges.partition_point(|range| range.end <= addr))?;
        range
            .contains(&addr)
            .then(|| (range.start, range.end - range.start))
    }

    /// Whether any range is registered.
    pub fn has_foreign(&self) -> bool {
        self.foreign.any.load(Ordering::Acquire)
    }

    /// Reads bytes of one registered range; `None` if they lie in none.
    pub fn read_registered(&self, addr: u64, bytes: &mut [u8]) -> Option<()> {
        let is_there = self.is_foreign(addr, bytes.len() as u64);
        is_there.then(|| read_host(addr, bytes))?
    }

    /// Writes bytes of one registered range; `None` if they lie in none.
    pub fn write_registered(&self, addr: u64, bytes: &[u8]) -> Option<()> {
        let is_there = self.is_foreign(addr, bytes.len() as u64);
        is_there.then(|| write_host(addr, bytes))?
    }

    /// Whether all bytes lie in one registered range.
    pub(crate) fn is_foreign(&self, addr: u64, len: u64) -> bool {
        let range = self.registered_range(addr);
        range.is_some_and(|(start, size)| len <= size && addr - start <= size - len)
    }

    /// Whether an address lies in the pages of a registered range, or so near that an access with a
    /// small offset can.
    pub(crate) fn is_near_foreign(&self, addr: u64) -> bool {
        let ranges = self.foreign.lock();
        let from = addr.saturating_sub(MARGIN) / PAGE * PAGE;
        let near = ranges.get(ranges.partition_point(|range| range.end <= from));
        near.is_some_and(|range| range.start / PAGE * PAGE <= addr.saturating_add(MARGIN))
    }
}

/// Reads bytes anywhere in the process, if they can be read: the system copies them, so a wild
/// address is no fault.
pub(crate) fn read_host(addr: u64, bytes: &mut [u8]) -> Option<()> {
    let local = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let remote = libc::iovec {
        iov_base: addr as *mut libc::c_void,
        iov_len: bytes.len(),
    };
    // SAFETY: writes to `bytes` only; what it reads is checked by the system.
    let n = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    (usize::try_from(n) == Ok(bytes.len())).then_some(())
}

/// Writes bytes anywhere in the process, if they can be written.
pub(crate) fn write_host(addr: u64, bytes: &[u8]) -> Option<()> {
    let local = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let remote = libc::iovec {
        iov_base: addr as *mut libc::c_void,
        iov_len: bytes.len(),
    };
    // SAFETY: reads `bytes` only; what it writes is memory that the host has given to kernels, and
    // the system checks it.
    let n = unsafe { libc::process_vm_writev(libc::getpid(), &local, 1, &remote, 1, 0) };
    (usize::try_from(n) == Ok(bytes.len())).then_some(())
}

#[cfg(test)]
mod tests {
    use super::read_host;

    #[test]
    fn reads_what_is_there() {
        let from = [1u8, 2, 3];
        let mut to = [0; 3];
        assert!(read_host(from.as_ptr() as u64, &mut to).is_some());
        assert_eq!(to, from);
        assert!(read_host(8, &mut to).is_none() && read_host(u64::MAX, &mut to).is_none());
    }
}
