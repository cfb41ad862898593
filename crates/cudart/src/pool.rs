//! Memory pools. The structures are the driver's.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use crate::call::passes;

passes! {
    cudaDeviceGetDefaultMemPool(out: u64, device: i32) = cuDeviceGetDefaultMemPool;
    cudaDeviceGetMemPool(out: u64, device: i32) = cuDeviceGetMemPool;
    cudaDeviceSetMemPool(device: i32, pool: u64) = cuDeviceSetMemPool;
    cudaMemPoolCreate(out: u64, properties: u64) = cuMemPoolCreate;
    cudaMemPoolDestroy(pool: u64) = cuMemPoolDestroy;
    cudaMemPoolTrimTo(pool: u64, size: usize) = cuMemPoolTrimTo;
    cudaMemPoolGetAttribute(pool: u64, attribute: u32, value: u64) = cuMemPoolGetAttribute;
    cudaMemPoolSetAttribute(pool: u64, attribute: u32, value: u64) = cuMemPoolSetAttribute;
    cudaMemPoolGetAccess(out: u64, pool: u64, place: u64) = cuMemPoolGetAccess;
    cudaMemPoolSetAccess(pool: u64, list: u64, count: usize) = cuMemPoolSetAccess;
    cudaMemPoolExportToShareableHandle(
        out: u64, pool: u64, kind: u64, flags: u32,
    ) = cuMemPoolExportToShareableHandle;
    cudaMemPoolImportFromShareableHandle(
        out: u64, handle: u64, kind: u64, flags: u32,
    ) = cuMemPoolImportFromShareableHandle;
    cudaMemPoolExportPointer(out: u64, address: u64) = cuMemPoolExportPointer;
    cudaMemPoolImportPointer(out: u64, pool: u64, data: u64) = cuMemPoolImportPointer;

    #[cfg(cudart13)]
    cudaMemGetDefaultMemPool(out: u64, place: u64, kind: u32) = cuMemGetDefaultMemPool;
    #[cfg(cudart13)]
    cudaMemGetMemPool(out: u64, place: u64, kind: u32) = cuMemGetMemPool;
    #[cfg(cudart13)]
    cudaMemSetMemPool(place: u64, kind: u32, pool: u64) = cuMemSetMemPool;
}
