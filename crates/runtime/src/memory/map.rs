//! The map of valid memory: one byte for each 16 bytes of the arena, in which compiled code looks
//! before each access under `memcheck`.
//!
//! A byte says how many of the 16, from the first on, may be accessed; with [`READ_ONLY`] set, only
//! loaded from. Everything that is not marked is 0. Code that finds an access not allowed asks the
//! runtime, which checks it exactly: so the map may say too little (memory of the host, mappings
//! with rights of their own), and never too much.
//!
//! Address space for the whole map is reserved at once; memory is used where the map was written.

#![expect(
    unsafe_code,
    reason = "the map is memory that compiled code reads through its address"
)]

use std::io;
use std::ops::Range;
use std::ptr;

use super::PAGE;

/// log2 of the bytes that one byte of the map tells about.
const GRANULE_BITS: u32 = 4;
const GRANULE: u64 = 1 << GRANULE_BITS;

/// Set in the bytes of memory that kernels may not change.
pub(crate) const READ_ONLY: u8 = 0x80;

/// See the module.
#[derive(Debug)]
pub(crate) struct ValidMap {
    /// Address of the byte for address 0, which lies outside of the map.
    origin: u64,
    start: u64,
    len: u64,
}

impl ValidMap {
    /// A map of `1 << bits` bytes from `base` on, nothing of it valid.
    pub(crate) fn new(base: u64, bits: u32) -> io::Result<ValidMap> {
        let len = 1u64 << (bits - GRANULE_BITS);
        let size = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at a place that the system picks.
        let at = unsafe { libc::mmap(ptr::null_mut(), size, rights, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = at as u64;
        Ok(ValidMap {
            origin: start.wrapping_sub(base >> GRANULE_BITS),
            start,
            len,
        })
    }

    /// What is added to an address divided by 16 for the address of its byte.
    pub(crate) fn origin(&self) -> u64 {
        self.origin
    }

    /// Marks bytes as valid. They start at a multiple of 16, and the bytes behind them up to the
    /// next are not valid.
    pub(crate) fn mark(&self, bytes: Range<u64>, flags: u8) {
        let whole = bytes.start..bytes.end / GRANULE * GRANULE;
        self.fill(whole.start..whole.end, GRANULE as u8 | flags);
        if bytes.end > whole.end {
            let rest = (bytes.end - whole.end) as u8;
            self.fill(whole.end..whole.end + GRANULE, rest | flags);
        }
    }

    /// Marks bytes, and those up to the next multiple of 16, as not valid. Whole pages of the map
    /// give their memory back.
    pub(crate) fn clear(&self, bytes: Range<u64>) {
        let bytes = bytes.start..bytes.end.next_multiple_of(GRANULE);
        let (first, n) = self.place(&bytes);
        let pages = first.next_multiple_of(PAGE)..(first + n) / PAGE * PAGE;
        let len = pages.end.saturating_sub(pages.start);
        // SAFETY: the pages lie inside the mapping, are private, and are zero when next read. Code
        // that reads them meanwhile is as in `fill`.
        let is_given = len > 0
            && unsafe { libc::madvise(pages.start as *mut _, len as usize, libc::MADV_DONTNEED) }
                == 0;
        if is_given {
            let addr = |place: u64| place.wrapping_sub(self.origin) << GRANULE_BITS;
            self.fill(bytes.start..addr(pages.start), 0);
            self.fill(addr(pages.end)..bytes.end, 0);
        } else {
            self.fill(bytes, 0);
        }
    }

    fn fill(&self, bytes: Range<u64>, value: u8) {
        let (first, n) = self.place(&bytes);
        // SAFETY: inside the mapping. Code that reads bytes meanwhile accesses memory that is being
        // allocated or freed, which is its own race; any byte is a valid value.
        unsafe { ptr::write_bytes(first as *mut u8, value, n as usize) };
    }

    /// The bytes about some of the arena's: the first one's address, and how many.
    fn place(&self, bytes: &Range<u64>) -> (u64, u64) {
        let first = (bytes.start >> GRANULE_BITS).wrapping_add(self.origin);
        let n = bytes.end.saturating_sub(bytes.start) >> GRANULE_BITS;
        let offset = first.wrapping_sub(self.start);
        assert!(
            offset <= self.len && n <= self.len - offset,
            "memory of the arena"
        );
        (first, n)
    }
}

impl Drop for ValidMap {
    fn drop(&mut self) {
        // SAFETY: the mapping is this object's, and code that reads it holds the arena that holds
        // it.
        unsafe { libc::munmap(self.start as *mut libc::c_void, self.len as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::{READ_ONLY, ValidMap};

    /// Kilobytes of memory that a mapping uses.
    fn resident(map: &ValidMap) -> u64 {
        let all = std::fs::read_to_string("/proc/self/smaps").expect("Linux has it");
        let at = format!("{:x}-", map.start);
        let lines = all.lines().skip_while(|line| !line.starts_with(&at));
        let of_this = lines.skip(1);
        let rss = of_this
            .into_iter()
            .find_map(|line| line.strip_prefix("Rss:"));
        let digits = rss.and_then(|text| text.split_whitespace().next());
        digits
            .and_then(|digits| digits.parse().ok())
            .expect("the mapping is there")
    }

    #[test]
    fn what_is_cleared_takes_no_memory() {
        let base = 1 << 40;
        let map = ValidMap::new(base, 32).unwrap();
        let look = |addr: u64| {
            let at = (addr >> 4).wrapping_add(map.origin());
            // SAFETY: a byte of the map, which nothing else changes.
            unsafe { *(at as *const u8) }
        };
        let (start, len) = (base + 48, 256 << 20);
        map.mark(start - 16..start + len + 8, READ_ONLY);
        assert!(resident(&map) >= len >> 14);
        map.clear(start..start + len);
        assert!(resident(&map) <= len >> 20, "{} KB", resident(&map));
        assert_eq!(look(start - 16), 16 | READ_ONLY);
        for addr in [start, start + len / 2, start + len - 16] {
            assert_eq!(look(addr), 0);
        }
        assert_eq!(look(start + len), 8 | READ_ONLY);
    }
}
