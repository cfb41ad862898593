//! Address space and memory apart: reserve addresses, create memory, map it.
//!
//! All addresses and sizes are multiples of [`Device::VM_GRANULE`]. An access to reserved addresses
//! where nothing is mapped, or to what may not be accessed so, is a fault of the kernel, and an
//! error of a copy.

use std::sync::Arc;

use ptxjit_runtime::{GRANULE, PhysicalPages};

use crate::device::memory;
use crate::{Access, Device, Error};

/// Memory without an address. Clones are the same memory, which lasts until the last one and the
/// last mapping are gone.
#[derive(Clone, Debug)]
pub struct PhysicalMemory(Arc<PhysicalPages>);

impl PhysicalMemory {
    /// Zeroed memory of a device, which counts as used.
    pub fn new(device: &Device, size: u64) -> Result<PhysicalMemory, Error> {
        let pages = PhysicalPages::new(&device.arena, device.part(), size).map_err(memory)?;
        Ok(PhysicalMemory(Arc::new(pages)))
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.0.size()
    }

    /// [Ordinal](Device::ordinal) of its device.
    pub fn device(&self) -> usize {
        self.0.part() as usize
    }
}

impl Device {
    /// Unit of reservations, mappings and physical memory: 2 MiB.
    pub const VM_GRANULE: u64 = GRANULE;

    /// Reserves addresses, aligned to `align` (a power of two, or 0) and to [`Device::VM_GRANULE`].
    ///
    /// ```
    /// # use ptxjit::{Access, Device, PhysicalMemory};
    /// let device = Device::new()?;
    /// let size = 2 * Device::VM_GRANULE;
    /// let addr = device.vm_reserve(size, 0)?;
    /// let memory = PhysicalMemory::new(&device, Device::VM_GRANULE)?;
    /// // The same memory twice.
    /// device.vm_map(addr, &memory, 0, memory.size())?;
    /// device.vm_map(addr + memory.size(), &memory, 0, memory.size())?;
    /// device.vm_protect(addr, size, Access::ReadWrite)?;
    /// device.write_raw(addr, &[1, 2, 3])?;
    /// let mut bytes = [0; 3];
    /// device.read_raw(addr + memory.size(), &mut bytes)?;
    /// assert_eq!(bytes, [1, 2, 3]);
    /// device.vm_unmap(addr, size)?;
    /// device.vm_free(addr, size)?;
    /// # Ok::<(), ptxjit::Error>(())
    /// ```
    pub fn vm_reserve(&self, size: u64, align: u64) -> Result<u64, Error> {
        self.arena.reserve(self.part(), size, align).map_err(memory)
    }

    /// Gives back what [`Device::vm_reserve`] reserved, as a whole; nothing may be mapped there.
    pub fn vm_free(&self, addr: u64, size: u64) -> Result<(), Error> {
        self.arena.release(addr, size).map_err(memory)
    }

    /// Maps `size` bytes of `physical`, from `offset` on, to reserved addresses. They may not be
    /// accessed yet.
    pub fn vm_map(
        &self,
        addr: u64,
        physical: &PhysicalMemory,
        offset: u64,
        size: u64,
    ) -> Result<(), Error> {
        self.arena
            .map(addr, &physical.0, offset, size)
            .map_err(memory)
    }

    /// Undoes one or several whole calls of [`Device::vm_map`].
    pub fn vm_unmap(&self, addr: u64, size: u64) -> Result<(), Error> {
        self.arena.unmap(addr, size).map_err(memory)
    }

    /// Says which access to mapped addresses is allowed, for all siblings.
    pub fn vm_protect(&self, addr: u64, size: u64, access: Access) -> Result<(), Error> {
        self.arena.set_access(addr, size, access).map_err(memory)
    }

    /// The access that is allowed at an address where memory is mapped.
    pub fn vm_access(&self, addr: u64) -> Option<Access> {
        self.arena.access_at(addr)
    }
}
