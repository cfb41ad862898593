//! Memory of the client: what a call points at, read and written where it may not be there.
//!
//! Every pointer that a client passes goes through here. An address that cannot be read or written
//! gives
//! `CUDA_ERROR_INVALID_VALUE`.

#![expect(
    unsafe_code,
    reason = "writes to addresses that the client of a C interface names as its own"
)]

use ptxjit_runtime::host;

use crate::device;
use crate::error::Result;
use crate::types::{CUresult, HostPtr, Raw};

/// Longest string that is read.
const MAX_STRING: usize = 64 << 10;

/// Longest PTX text that is read.
pub(crate) const MAX_TEXT: usize = 1 << 30;

const PAGE: u64 = 4096;

/// Fills `bytes` from the client's memory.
pub(crate) fn read_bytes(from: u64, bytes: &mut [u8]) -> Result<()> {
    host::read(from, bytes).map_err(|_| CUresult::INVALID_VALUE)
}

/// Copies bytes to the client's memory.
pub(crate) fn write_bytes(to: u64, bytes: &[u8]) -> Result<()> {
    // SAFETY: the client has named this memory as the place for a result.
    unsafe { host::write(to, bytes) }.map_err(|_| CUresult::INVALID_VALUE)?;
    device::note_written(to, bytes.len() as u64);
    Ok(())
}

/// Copies between memory of the client and of devices, in any direction.
pub(crate) fn copy(to: u64, from: u64, len: u64) -> Result<()> {
    // SAFETY: the target is device memory, or the client has named it as the target of a copy.
    unsafe { host::copy(to, from, len) }.map_err(|_| CUresult::INVALID_VALUE)?;
    device::note_written(to, len);
    Ok(())
}

/// Fills memory with a pattern of 1, 2 or 4 bytes.
pub(crate) fn fill(to: u64, pattern: &[u8], len: u64) -> Result<()> {
    // SAFETY: as for `copy`.
    unsafe { host::fill(to, pattern, len) }.map_err(|_| CUresult::INVALID_VALUE)?;
    device::note_written(to, len);
    Ok(())
}

/// Whether all pages of a range can be read.
pub(crate) fn check_pages(addr: u64, len: u64) -> Result<()> {
    let last = addr.checked_add(len - 1).ok_or(CUresult::INVALID_VALUE)?;
    let mut byte = [0];
    let mut pages = (addr / PAGE..=last / PAGE).map(|page| (page * PAGE).max(addr));
    pages.try_for_each(|addr| read_bytes(addr, &mut byte))
}

/// Lets kernels access memory of the client.
pub(crate) fn register(engine: &ptxjit::Device, addr: u64, len: u64) -> Result<()> {
    // SAFETY: the client has named this memory for kernels to use, until it takes that back.
    let result = unsafe { engine.register_host(addr, len) };
    result.map_err(|_| CUresult::INVALID_VALUE)
}

/// A value at an address.
pub fn get<T: Raw>(from: u64) -> Result<T> {
    if from == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    // Large enough for all types of the interface; only the bytes of this one are touched.
    let mut bytes = [0; 1024];
    let bytes = &mut bytes[..size_of::<T>()];
    read_bytes(from, bytes)?;
    Ok(T::read(bytes))
}

/// Puts a value at an address.
pub fn put<T: Raw>(to: u64, value: T) -> Result<()> {
    if to == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let mut bytes = [0; 1024];
    let bytes = &mut bytes[..size_of::<T>()];
    // Padding of the client's struct stays what it is.
    read_bytes(to, bytes)?;
    value.write(bytes);
    write_bytes(to, bytes)
}

/// An array of values.
pub fn get_all<T: Raw>(from: u64, count: usize) -> Result<Vec<T>> {
    // Nothing in the interface takes more; a wild count must not make us ask for all memory.
    const MAX_COUNT: usize = 1 << 20;
    if count > MAX_COUNT || (from == 0 && count != 0) {
        return Err(CUresult::INVALID_VALUE);
    }
    let size = size_of::<T>() as u64;
    (0..count as u64)
        .map(|idx| get(from.wrapping_add(idx * size)))
        .collect()
}

/// Puts values into an array.
pub fn put_all<T: Raw>(to: u64, values: &[T]) -> Result<()> {
    let size = size_of::<T>() as u64;
    for (idx, &value) in values.iter().enumerate() {
        put(to.wrapping_add(idx as u64 * size), value)?;
    }
    Ok(())
}

/// The bytes of a string up to its NUL, which lies within `limit` bytes. Nothing behind the NUL's
/// page is touched.
pub(crate) fn c_bytes(from: u64, limit: usize) -> Result<Vec<u8>> {
    if from == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let mut bytes = Vec::new();
    let mut page = [0; PAGE as usize];
    while bytes.len() < limit {
        let at = from
            .checked_add(bytes.len() as u64)
            .ok_or(CUresult::INVALID_VALUE)?;
        let piece = &mut page[..(PAGE - at % PAGE) as usize];
        read_bytes(at, piece)?;
        if let Some(end) = piece.iter().position(|&byte| byte == 0) {
            bytes.extend_from_slice(&piece[..end]);
            return Ok(bytes);
        }
        bytes.extend_from_slice(piece);
    }
    Err(CUresult::INVALID_VALUE)
}

/// A string of the client; bytes that are not UTF-8 are replaced, so that such a name is found
/// nowhere.
pub fn string(from: HostPtr) -> Result<String> {
    let bytes = c_bytes(from.0, MAX_STRING)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Likewise, with the length as C's functions have it.
pub fn put_text(to: HostPtr, len: i32, text: &str) -> Result<()> {
    let len = usize::try_from(len).map_err(|_| CUresult::INVALID_VALUE)?;
    put_string(to.0, len, text.as_bytes())
}

/// Puts a string into a buffer of `len` bytes, cut to fit, always with its NUL.
pub(crate) fn put_string(to: u64, len: usize, text: &[u8]) -> Result<()> {
    let Some(room) = len.checked_sub(1) else {
        return Err(CUresult::INVALID_VALUE);
    };
    let mut bytes = text[..text.len().min(room)].to_vec();
    bytes.push(0);
    write_bytes(to, &bytes)
}
