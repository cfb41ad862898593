//! Libraries that a program loads itself. Handles and options are the driver's.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use crate::call::passes;

passes! {
    cudaLibraryLoadData(
        out: u64, code: u64, keys: u64, values: u64, count: u32, more_keys: u64, more_values: u64,
        more: u32,
    ) = cuLibraryLoadData;
    cudaLibraryLoadFromFile(
        out: u64, path: u64, keys: u64, values: u64, count: u32, more_keys: u64, more_values: u64,
        more: u32,
    ) = cuLibraryLoadFromFile;
    cudaLibraryUnload(library: u64) = cuLibraryUnload;
    cudaLibraryGetKernel(out: u64, library: u64, name: u64) = cuLibraryGetKernel;
    cudaLibraryGetKernelCount(out: u64, library: u64) = cuLibraryGetKernelCount;
    cudaLibraryEnumerateKernels(out: u64, count: u32, library: u64) = cuLibraryEnumerateKernels;
    cudaLibraryGetGlobal(out: u64, size: u64, library: u64, name: u64) = cuLibraryGetGlobal;
    cudaLibraryGetManaged(out: u64, size: u64, library: u64, name: u64) = cuLibraryGetManaged;
    cudaLibraryGetUnifiedFunction(out: u64, library: u64, name: u64) = cuLibraryGetUnifiedFunction;
}
