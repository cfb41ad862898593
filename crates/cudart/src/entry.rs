//! Versions, the driver's functions by name, the profiler.
#![expect(unsafe_code, reason = "exports functions under C's names")]

#[cfg(cudart13)]
use crate::call::passes;
use crate::call::{Code, Result, exports};
use crate::driver::cu;
use crate::host;

/// The version of the interface, as `CUDART_VERSION` counts.
#[cfg(not(cudart13))]
const VERSION: i32 = 12_090;
#[cfg(cudart13)]
const VERSION: i32 = 13_000;

/// The address of a function of the driver. One that is not there is told by the status, and only
/// if that is not wanted, by an error.
fn entry_point(symbol: u64, out: u64, version: u32, flags: u64, status: u64) -> Result {
    let mut found = 0_u32;
    match cu!(cuGetProcAddress_v2(symbol, out, version, flags, &mut found)) {
        Err(Code::SYMBOL_NOT_FOUND) if status != 0 => host::put(status, found),
        Ok(()) => host::put_if_wanted(status, found),
        other => other,
    }
}

exports! {
    /// The version of this library.
    early cudaRuntimeGetVersion(out: u64) {
        host::put(out, VERSION)
    }

    /// The version of the driver; 0 if there is none.
    early cudaDriverGetVersion(out: u64) {
        let mut version = 0_i32;
        match cu!(cuDriverGetVersion(&mut version)) {
            Ok(()) | Err(Code::INSUFFICIENT_DRIVER) => host::put(out, version),
            other => other,
        }
    }

    /// A function of the driver.
    early cudaGetDriverEntryPoint(
        symbol: u64, out: u64, flags: u64, status: u64,
    ) or cudaGetDriverEntryPoint_ptsz {
        entry_point(symbol, out, VERSION as u32, flags_of_call(flags), status)
    }

    /// A function of the driver, as of a version.
    early cudaGetDriverEntryPointByVersion(
        symbol: u64, out: u64, version: u32, flags: u64, status: u64,
    ) or cudaGetDriverEntryPointByVersion_ptsz {
        entry_point(symbol, out, version, flags_of_call(flags), status)
    }

    /// There are no such tables: they are for NVIDIA's own libraries.
    early cudaGetExportTable(out: u64, _id: u64) {
        host::put_if_wanted(out, 0_u64)?;
        Err(Code::SYMBOL_NOT_FOUND)
    }

    /// Tools may begin to measure.
    early cudaProfilerStart() {
        Ok(())
    }

    /// Tools may end to measure.
    early cudaProfilerStop() {
        Ok(())
    }
}

#[cfg(cudart13)]
passes! {
    cudaLogsCurrent(out: u64, flags: u32) = cuLogsCurrent;
    cudaLogsDumpToFile(iterator: u64, path: u64, flags: u32) = cuLogsDumpToFile;
    cudaLogsDumpToMemory(iterator: u64, buffer: u64, size: u64, flags: u32) = cuLogsDumpToMemory;
    cudaLogsRegisterCallback(function: u64, data: u64, out: u64) = cuLogsRegisterCallback;
    cudaLogsUnregisterCallback(callback: u64) = cuLogsUnregisterCallback;
}

/// By default the functions mean the default stream that the program was compiled for.
fn flags_of_call(flags: u64) -> u64 {
    const PER_THREAD: u64 = 2;
    match flags {
        0 if crate::call::is_per_thread() => PER_THREAD,
        _ => flags,
    }
}
