//! Kernels that reach memory of the host.

#![expect(
    unsafe_code,
    reason = "a kernel that may write to memory of the host can break anything; the caller vouches for it"
)]

use crate::Launch;

impl Launch {
    /// Lets the kernel access every address of the process, for data that lies in ordinary memory of the host. An access where nothing is
    /// mapped still ends the launch with an error. Code is the same as without, and as fast.
    ///
    /// # Safety
    ///
    /// The kernel accesses no memory but that of the device, and memory of the process that nothing else uses meanwhile (a Rust
    /// reference to it counts as use), save through atomics.
    pub unsafe fn open_memory(mut self, open: bool) -> Launch {
        self.open_memory = open;
        self
    }
}
