//! Kernels that reach memory of the host.

#![expect(
    unsafe_code,
    reason = "a kernel that may write to memory of the host can break anything; the caller vouches for it"
)]

use crate::device::memory;
use crate::{Device, Error, Launch};

impl Device {
    /// Lets kernels of this device and its siblings access memory of the host that is not the
    /// device's. Launches from now on look addresses that are not device memory up in a list, which
    /// makes accesses there slow and costs others nothing.
    ///
    /// Ranges must not overlap.
    ///
    /// # Safety
    ///
    /// Until [`Device::unregister_host`], the memory is mapped, and while a kernel runs that
    /// accesses it, nothing else uses it (a Rust reference to it counts as use), save through
    /// atomics.
    pub unsafe fn register_host(&self, addr: u64, len: u64) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { self.arena.register(addr, len) }.map_err(memory)
    }

    /// Ends what [`Device::register_host`] began for the range that starts at `addr`. Kernels that
    /// access it must have ended.
    pub fn unregister_host(&self, addr: u64) -> Result<(), Error> {
        self.arena.unregister(addr).map_err(memory)
    }

    /// Start and size of the registered range that holds `addr`.
    pub fn registered_range(&self, addr: u64) -> Option<(u64, u64)> {
        self.arena.registered_range(addr)
    }
}

impl Launch {
    /// Lets the kernel access every address of the process, for data that lies in ordinary memory
    /// of the host. An access where nothing is mapped still ends the launch with an error. Code is
    /// the same as without, and as fast.
    ///
    /// # Safety
    ///
    /// The kernel accesses no memory but that of the device, and memory of the process that nothing
    /// else uses meanwhile (a Rust reference to it counts as use), save through atomics.
    pub unsafe fn open_memory(mut self, open: bool) -> Launch {
        self.open_memory = open;
        self
    }
}
