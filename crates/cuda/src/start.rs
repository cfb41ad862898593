//! Start, versions, errors, and the way to all other functions.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use std::ffi::CStr;

use ptxjit_driver::types::{CUresult, HostPtr};
use ptxjit_driver::{Result, device, host, private_table};

use crate::call::{Out, exports};
use crate::symbols;
use crate::table::{self, Resolved};

exports! {
    /// Initializes the driver.
    early cuInit(flags: u32) {
        ptxjit_driver::init(flags)
    }

    /// The version of the CUDA driver API.
    early cuDriverGetVersion(version: Out<i32>) {
        version.put(device::driver_version())
    }

    /// The name of a code; a static string, or null.
    early cuGetErrorName(error: CUresult, text: Out<HostPtr>) {
        put_text(text, error.name())
    }

    /// What a code means; a static string, or null.
    early cuGetErrorString(error: CUresult, text: Out<HostPtr>) {
        put_text(text, error.description())
    }

    /// Tables of functions that NVIDIA's own libraries want. There are none.
    early cuGetExportTable(table: Out<HostPtr>, id: HostPtr) {
        table.put_if_wanted(HostPtr::NULL)?;
        Err(private_table::missing(id))
    }

    /// The address of a function, by the rules before CUDA 12.
    early cuGetProcAddress(name: HostPtr, address: Out<HostPtr>, version: i32, flags: u64) {
        match put_address(address, look_up(name, version, flags)?)? {
            true => Ok(()),
            false => Err(CUresult::NOT_FOUND),
        }
    }

    /// The address of a function in the version that a client was compiled against. What is not
    /// found is a null pointer and a status, but no error.
    early cuGetProcAddress_v2(
        name: HostPtr, address: Out<HostPtr>, version: i32, flags: u64, status: Out<u32>,
    ) {
        let found = look_up(name, version, flags)?;
        status.put_if_wanted(match found {
            Resolved::Symbol(_) => QUERY_SUCCESS,
            Resolved::NotFound => QUERY_SYMBOL_NOT_FOUND,
            Resolved::VersionNotSufficient => QUERY_VERSION_NOT_SUFFICIENT,
        })?;
        put_address(address, found).map(|_| ())
    }

    /// There is no profiler, and starting it is no error.
    fn cuProfilerStart() {
        Ok(())
    }

    /// Likewise.
    fn cuProfilerStop() {
        Ok(())
    }

    /// Likewise.
    fn cuProfilerInitialize(_config: HostPtr, _output: HostPtr, _mode: u32) {
        Ok(())
    }

    /// Waits for nothing: all memory is the host's.
    fn cuFlushGPUDirectRDMAWrites(_target: u32, _scope: u32) {
        Ok(())
    }
}

const QUERY_SUCCESS: u32 = 0;
const QUERY_SYMBOL_NOT_FOUND: u32 = 1;
const QUERY_VERSION_NOT_SUFFICIENT: u32 = 2;

/// Flags of `cuGetProcAddress`: a stream 0 means the legacy stream, or that of the thread.
const LEGACY_STREAM: u64 = 1;
const PER_THREAD_DEFAULT_STREAM: u64 = 2;

fn look_up(name: HostPtr, version: i32, flags: u64) -> Result<Resolved> {
    let name = host::string(name)?;
    let version = u32::try_from(version).map_err(|_| CUresult::INVALID_VALUE)?;
    if flags & !(LEGACY_STREAM | PER_THREAD_DEFAULT_STREAM) != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    Ok(table::resolve(
        &name,
        version,
        flags & PER_THREAD_DEFAULT_STREAM != 0,
    ))
}

/// Puts the address there, or null; whether there is one.
fn put_address(address: Out<HostPtr>, found: Resolved) -> Result<bool> {
    let symbol = match found {
        Resolved::Symbol(symbol) => symbols::address_of(symbol),
        Resolved::NotFound | Resolved::VersionNotSufficient => None,
    };
    address.put(symbol.map_or(HostPtr::NULL, |symbol| HostPtr(symbol as u64)))?;
    Ok(symbol.is_some())
}

fn put_text(text: Out<HostPtr>, found: Option<&'static CStr>) -> Result<()> {
    let address = found.map_or(HostPtr::NULL, |found| HostPtr(found.as_ptr() as u64));
    text.put(address)?;
    found.map(|_| ()).ok_or(CUresult::INVALID_VALUE)
}
