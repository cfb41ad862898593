//! Memory pools and allocations in the order of streams.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::memory::pool;
use ptxjit_driver::types::{
    CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationType, CUmemLocation,
    CUmemPool_attribute, CUmemPoolProps, CUmemoryPool, CUstream, HostPtr,
};

use crate::call::{In, Out, exports};

exports! {
    /// Allocates in the order of a stream.
    fn cuMemAllocAsync(
        out: Out<CUdeviceptr>, size: usize, stream: CUstream,
    ) or cuMemAllocAsync_ptsz {
        out.fill(|| pool::alloc_async(size, stream))
    }

    /// Allocates from a pool in the order of a stream.
    fn cuMemAllocFromPoolAsync(
        out: Out<CUdeviceptr>, size: usize, pool: CUmemoryPool, stream: CUstream,
    ) or cuMemAllocFromPoolAsync_ptsz {
        out.fill(|| pool::alloc_from_pool_async(size, pool, stream))
    }

    /// Frees in the order of a stream.
    fn cuMemFreeAsync(address: CUdeviceptr, stream: CUstream) or cuMemFreeAsync_ptsz {
        pool::free_async(address, stream)
    }

    /// Makes a pool.
    fn cuMemPoolCreate(out: Out<CUmemoryPool>, props: In<CUmemPoolProps>) {
        let props = props.get()?;
        out.fill(|| pool::create(&props))
    }

    /// Ends a pool.
    fn cuMemPoolDestroy(pool: CUmemoryPool) {
        pool::destroy(pool)
    }

    /// Gives free memory of a pool back to the device.
    fn cuMemPoolTrimTo(pool: CUmemoryPool, keep: usize) {
        pool::trim_to(pool, keep)
    }

    /// An attribute of a pool.
    fn cuMemPoolGetAttribute(pool: CUmemoryPool, attribute: CUmemPool_attribute, out: HostPtr) {
        pool::attribute(pool, attribute)?.put(out.0)
    }

    /// Sets an attribute of a pool.
    fn cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: CUmemPool_attribute, value: HostPtr) {
        pool::set_attribute(pool, attribute, value.0)
    }

    /// Which devices may use a pool's memory.
    fn cuMemPoolSetAccess(pool: CUmemoryPool, map: In<CUmemAccessDesc>, count: usize) {
        pool::set_access(pool, &map.get_all(count)?)
    }

    /// How a place may use a pool's memory.
    fn cuMemPoolGetAccess(
        out: Out<CUmemAccess_flags>, pool: CUmemoryPool, location: In<CUmemLocation>,
    ) {
        let location = location.get()?;
        out.fill(|| pool::access(pool, location))
    }

    /// The pool that a device starts with.
    fn cuDeviceGetDefaultMemPool(out: Out<CUmemoryPool>, device: i32) {
        out.fill(|| pool::default_pool(device))
    }

    /// The pool that a device uses.
    fn cuDeviceGetMemPool(out: Out<CUmemoryPool>, device: i32) {
        out.fill(|| pool::current_pool(device))
    }

    /// Sets the pool that a device uses.
    fn cuDeviceSetMemPool(device: i32, pool: CUmemoryPool) {
        pool::set_current_pool(device, pool)
    }

    /// The pool that a place starts with.
    fn cuMemGetDefaultMemPool(
        out: Out<CUmemoryPool>, location: In<CUmemLocation>, kind: CUmemAllocationType,
    ) {
        let location = location.get()?;
        out.fill(|| pool::default_pool_at(location, kind))
    }

    /// The pool that a place uses.
    fn cuMemGetMemPool(
        out: Out<CUmemoryPool>, location: In<CUmemLocation>, kind: CUmemAllocationType,
    ) {
        let location = location.get()?;
        out.fill(|| pool::current_pool_at(location, kind))
    }

    /// Sets the pool that a place uses.
    fn cuMemSetMemPool(location: In<CUmemLocation>, kind: CUmemAllocationType, pool: CUmemoryPool) {
        pool::set_current_pool_at(location.get()?, kind, pool)
    }
}
