//! Devices.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::device;

use crate::call::{Out, exports};

exports! {
    /// The number of devices.
    fn cuDeviceGetCount(count: Out<i32>) {
        count.fill(device::count)
    }

    /// The device with an ordinal.
    fn cuDeviceGet(out: Out<i32>, ordinal: i32) {
        out.fill(|| device::ordinal(ordinal))
    }

    /// Bytes of memory.
    fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: i32) {
        bytes.fill(|| device::total_memory(device))
    }

    /// The compute capability.
    fn cuDeviceComputeCapability(major: Out<i32>, minor: Out<i32>, device: i32) {
        let capability = device::compute_capability(device)?;
        major.put(capability.0)?;
        minor.put(capability.1)
    }
}
