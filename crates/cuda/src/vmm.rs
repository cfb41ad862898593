//! Virtual memory: addresses, memory, and mappings.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::memory::vmm;
use ptxjit_driver::types::{
    CUdeviceptr, CUmemAccessDesc, CUmemAllocationGranularity_flags, CUmemAllocationProp,
    CUmemGenericAllocationHandle, CUmemLocation,
};

use crate::call::{In, Out, exports};

exports! {
    /// What sizes are multiples of.
    fn cuMemGetAllocationGranularity(
        out: Out<usize>, props: In<CUmemAllocationProp>, option: CUmemAllocationGranularity_flags,
    ) {
        let props = props.get()?;
        out.fill(|| vmm::granularity(&props, option))
    }

    /// Reserves addresses.
    fn cuMemAddressReserve(
        out: Out<CUdeviceptr>, size: usize, align: usize, _wanted: CUdeviceptr, flags: u64,
    ) {
        out.fill(|| vmm::reserve(size, align, flags))
    }

    /// Gives addresses back.
    fn cuMemAddressFree(address: CUdeviceptr, size: usize) {
        vmm::free(address, size)
    }

    /// Makes memory without an address.
    fn cuMemCreate(
        out: Out<CUmemGenericAllocationHandle>, size: usize, props: In<CUmemAllocationProp>,
        flags: u64,
    ) {
        let props = props.get()?;
        out.fill(|| vmm::create(size, &props, flags))
    }

    /// Gives up a reference to memory.
    fn cuMemRelease(handle: CUmemGenericAllocationHandle) {
        vmm::release(handle)
    }

    /// What memory was made from.
    fn cuMemGetAllocationPropertiesFromHandle(
        out: Out<CUmemAllocationProp>, handle: CUmemGenericAllocationHandle,
    ) {
        out.fill(|| vmm::properties(handle))
    }

    /// Adds a reference to the memory at an address.
    fn cuMemRetainAllocationHandle(out: Out<CUmemGenericAllocationHandle>, address: u64) {
        out.fill(|| vmm::retain(address))
    }

    /// Maps memory to addresses.
    fn cuMemMap(
        address: CUdeviceptr, size: usize, offset: usize, handle: CUmemGenericAllocationHandle,
        flags: u64,
    ) {
        vmm::map(address, size, offset, handle, flags)
    }

    /// Undoes mappings.
    fn cuMemUnmap(address: CUdeviceptr, size: usize) {
        vmm::unmap(address, size)
    }

    /// Says who may access what is mapped.
    fn cuMemSetAccess(
        address: CUdeviceptr, size: usize, access: In<CUmemAccessDesc>, count: usize,
    ) {
        vmm::set_access(address, size, &access.get_all(count)?)
    }

    /// How a place may access what is mapped.
    fn cuMemGetAccess(out: Out<u64>, location: In<CUmemLocation>, address: CUdeviceptr) {
        let location = location.get()?;
        out.fill(|| Ok(u64::from(vmm::access(location, address)?.0)))
    }
}
