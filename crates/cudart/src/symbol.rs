//! Variables of device code, by their shadows on the host.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use crate::call::{Code, Result, exports};
use crate::copy::{self, Kind};
use crate::host;
use crate::registry;

/// Bytes of a variable, which must be in it.
pub(crate) fn part(symbol: u64, offset: usize, count: usize) -> Result<u64> {
    let (address, size) = registry::variable(symbol)?;
    match offset.checked_add(count) {
        Some(end) if end <= size => Ok(address + offset as u64),
        _ => Err(Code::INVALID_VALUE),
    }
}

/// Copies to a variable come from anywhere.
pub(crate) fn check_to(kind: u32) -> Result {
    match Kind::new(kind)? {
        Kind::HostToDevice | Kind::DeviceToDevice | Kind::Default => Ok(()),
        Kind::HostToHost | Kind::DeviceToHost => Err(Code::INVALID_MEMCPY_DIRECTION),
    }
}

/// Copies of a variable go anywhere.
pub(crate) fn check_from(kind: u32) -> Result {
    match Kind::new(kind)? {
        Kind::DeviceToHost | Kind::DeviceToDevice | Kind::Default => Ok(()),
        Kind::HostToHost | Kind::HostToDevice => Err(Code::INVALID_MEMCPY_DIRECTION),
    }
}

exports! {
    /// The address of a variable.
    fn cudaGetSymbolAddress(out: u64, symbol: u64) {
        host::put(out, registry::variable(symbol)?.0)
    }

    /// The size of a variable.
    fn cudaGetSymbolSize(out: u64, symbol: u64) {
        host::put(out, registry::variable(symbol)?.1)
    }

    /// Copies to a variable.
    fn cudaMemcpyToSymbol(
        symbol: u64, from: u64, count: usize, offset: usize, kind: u32,
    ) or cudaMemcpyToSymbol_ptds {
        check_to(kind)?;
        copy::copy(part(symbol, offset, count)?, from, count, kind)
    }

    /// Copies to a variable.
    fn cudaMemcpyToSymbolAsync(
        symbol: u64, from: u64, count: usize, offset: usize, kind: u32, stream: u64,
    ) or cudaMemcpyToSymbolAsync_ptsz {
        check_to(kind)?;
        copy::copy_async(part(symbol, offset, count)?, from, count, kind, stream)
    }

    /// Copies of a variable.
    fn cudaMemcpyFromSymbol(
        to: u64, symbol: u64, count: usize, offset: usize, kind: u32,
    ) or cudaMemcpyFromSymbol_ptds {
        check_from(kind)?;
        copy::copy(to, part(symbol, offset, count)?, count, kind)
    }

    /// Copies of a variable.
    fn cudaMemcpyFromSymbolAsync(
        to: u64, symbol: u64, count: usize, offset: usize, kind: u32, stream: u64,
    ) or cudaMemcpyFromSymbolAsync_ptsz {
        check_from(kind)?;
        copy::copy_async(to, part(symbol, offset, count)?, count, kind, stream)
    }
}
