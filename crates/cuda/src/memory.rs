//! Allocations.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::memory::alloc;
use ptxjit_driver::types::CUdeviceptr;

use crate::call::{Out, exports};

exports! {
    /// Allocates memory of the device.
    fn cuMemAlloc_v2(out: Out<CUdeviceptr>, size: usize) {
        out.fill(|| alloc::alloc(size))
    }

    /// Allocates rows.
    fn cuMemAllocPitch_v2(
        out: Out<CUdeviceptr>, pitch: Out<usize>, width: usize, height: usize, element: u32,
    ) {
        let (address, bytes) = alloc::alloc_pitch(width, height, element)?;
        pitch.put(bytes)?;
        out.put(address)
    }

    /// Allocates managed memory.
    fn cuMemAllocManaged(out: Out<CUdeviceptr>, size: usize, flags: u32) {
        out.fill(|| alloc::alloc_managed(size, flags))
    }

    /// Allocates pinned memory.
    fn cuMemAllocHost_v2(out: Out<u64>, size: usize) {
        out.fill(|| alloc::host_alloc(size, 0))
    }

    /// Allocates pinned memory.
    fn cuMemHostAlloc(out: Out<u64>, size: usize, flags: u32) {
        out.fill(|| alloc::host_alloc(size, flags))
    }

    /// Frees memory of the device.
    fn cuMemFree_v2(address: CUdeviceptr) {
        alloc::free(address)
    }

    /// Frees pinned memory.
    fn cuMemFreeHost(address: u64) {
        alloc::free_host(address)
    }

    /// The device pointer of pinned memory.
    fn cuMemHostGetDevicePointer_v2(out: Out<CUdeviceptr>, address: u64, flags: u32) {
        out.fill(|| alloc::host_device_pointer(address, flags))
    }

    /// Flags of pinned memory.
    fn cuMemHostGetFlags(out: Out<u32>, address: u64) {
        out.fill(|| alloc::host_flags(address))
    }

    /// Lets kernels use memory of the program.
    fn cuMemHostRegister_v2(address: u64, size: usize, flags: u32) {
        alloc::host_register(address, size, flags)
    }

    /// Ends that.
    fn cuMemHostUnregister(address: u64) {
        alloc::host_unregister(address)
    }

    /// Free and total memory.
    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) {
        let info = alloc::info()?;
        free.put_if_wanted(info.0)?;
        total.put_if_wanted(info.1)
    }

    /// The allocation that holds an address.
    fn cuMemGetAddressRange_v2(base: Out<CUdeviceptr>, size: Out<usize>, address: CUdeviceptr) {
        let range = alloc::address_range(address)?;
        base.put_if_wanted(range.0)?;
        size.put_if_wanted(range.1)
    }
}
