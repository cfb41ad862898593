//! Devices.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::types::{CUdevprop, CUuuid, HostPtr};
use ptxjit_driver::{device, put_text};

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

    /// The name of a device.
    fn cuDeviceGetName(name: HostPtr, len: i32, device: i32) {
        put_text(name, len, device::name(device)?)
    }

    /// What no other device has, in any process.
    fn cuDeviceGetUuid(out: Out<CUuuid>, device: i32) {
        out.fill(|| device::uuid(device))
    }

    /// What no other device has, in any process.
    fn cuDeviceGetUuid_v2(out: Out<CUuuid>, device: i32) {
        out.fill(|| device::uuid(device))
    }

    /// The place on the bus.
    fn cuDeviceGetPCIBusId(id: HostPtr, len: i32, device: i32) {
        put_text(id, len, &device::pci_bus_id(device)?)
    }

    /// The device at a place on the bus.
    fn cuDeviceGetByPCIBusId(out: Out<i32>, id: HostPtr) {
        out.fill(|| device::by_pci_bus_id(id))
    }

    /// Bytes of memory.
    fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: i32) {
        bytes.fill(|| device::total_memory(device))
    }

    /// An attribute.
    fn cuDeviceGetAttribute(out: Out<i32>, attribute: i32, device: i32) {
        out.fill(|| device::attribute(attribute, device))
    }

    /// Attributes as old programs ask for them.
    fn cuDeviceGetProperties(out: Out<CUdevprop>, device: i32) {
        out.fill(|| device::properties(device))
    }

    /// The compute capability.
    fn cuDeviceComputeCapability(major: Out<i32>, minor: Out<i32>, device: i32) {
        let capability = device::compute_capability(device)?;
        major.put(capability.0)?;
        minor.put(capability.1)
    }
}
