//! Device memory by address, for those who build another interface on top of this one.
//!
//! An address is a `u64` that kernels can use as a pointer. Nothing frees raw memory but
//! [`Device::free_raw`]. All copies are checked: the bytes must lie in one allocation, of this
//! device or of a sibling.

use crate::device::memory;
use crate::{Device, Error, Pattern, UsageRule};

impl Device {
    /// Allocates `size` bytes, aligned to `align` (a power of two) and to 256 bytes; the contents
    /// are unspecified. An allocation of no bytes has an address of its own, too.
    ///
    /// ```
    /// # use ptxjit::{Device, Pattern};
    /// let device = Device::new()?;
    /// let addr = device.alloc_raw(1000, 256)?;
    /// device.fill_raw(addr, Pattern::U16(0x0102), 500)?;
    /// let mut bytes = [0; 3];
    /// device.read_raw(addr + 997, &mut bytes)?;
    /// assert_eq!(bytes, [1, 2, 1]);
    /// assert_eq!(device.range_of(addr + 10), Some((addr, 1000)));
    /// device.free_raw(addr)?;
    /// assert!(device.read_raw(addr, &mut bytes).is_err());
    /// # Ok::<(), ptxjit::Error>(())
    /// ```
    pub fn alloc_raw(&self, size: u64, align: u64) -> Result<u64, Error> {
        /// Far more than anything needs; the allocator's sums do not overflow.
        const MAX_ALIGN: u64 = 1 << 32;
        if !align.is_power_of_two() || align > MAX_ALIGN {
            return Err(Error::usage(
                UsageRule::Options,
                format!("an alignment of {align} is no power of two up to {MAX_ALIGN}"),
            ));
        }
        self.arena.alloc(self.part(), size, align).map_err(memory)
    }

    /// Frees what [`Device::alloc_raw`] returned, on this device or on a sibling.
    pub fn free_raw(&self, addr: u64) -> Result<(), Error> {
        self.arena.free(addr).map_err(memory)
    }

    /// Copies from the device.
    pub fn read_raw(&self, addr: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.arena.read(addr, bytes).map_err(memory)
    }

    /// Copies to the device.
    pub fn write_raw(&self, addr: u64, bytes: &[u8]) -> Result<(), Error> {
        self.arena.write(addr, bytes).map_err(memory)
    }

    /// Writes `count` adjacent copies of a pattern.
    pub fn fill_raw(&self, addr: u64, pattern: Pattern, count: u64) -> Result<(), Error> {
        self.arena.fill(addr, pattern, count).map_err(memory)
    }

    /// Copies within the device, or between siblings. The ranges may overlap.
    pub fn copy_raw(&self, to: u64, from: u64, len: u64) -> Result<(), Error> {
        self.arena.copy(to, from, len).map_err(memory)
    }

    /// Tells [`Device::track_contents`] of bytes of one allocation that were written by other means
    /// than copies and fills of this library, or that may be at any time.
    pub fn note_written(&self, addr: u64, len: u64) {
        self.arena.note_written(addr, len);
    }

    /// Start and size of the allocation that holds `addr`, of this device or of a sibling.
    pub fn range_of(&self, addr: u64) -> Option<(u64, u64)> {
        self.arena.range_of(addr)
    }

    /// The addresses among which all memory of this device and its siblings lies, windows of shared
    /// and local memory included.
    pub fn arena_range(&self) -> std::ops::Range<u64> {
        let base = self.arena.base();
        base..base + (1 << self.arena.bits())
    }

    /// The [ordinal](Device::ordinal) of the device, this one or a sibling, to whose part of the
    /// address space `addr` belongs, whether or not anything is allocated there.
    pub fn device_of(&self, addr: u64) -> Option<usize> {
        self.arena.part_of(addr).map(|part| part as usize)
    }

    /// Says in words what lies at an address, or near it.
    pub fn describe_address(&self, addr: u64) -> String {
        self.arena.describe(addr)
    }
}
