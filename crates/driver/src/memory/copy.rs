//! Copies of bytes in one dimension.
//!
//! A copy without `Async` in its name has run when it returns, unless both sides are device memory. One with pageable
//! memory of the host as its source reads it at the call.

use crate::command::Command;
use crate::error::Result;
use crate::host;
use crate::stream;
use crate::types::{CUdeviceptr, CUresult, CUstream};

use super::{check_device_range, is_known};

/// Bytes from one place to another; both may be of the host or of a device.
#[derive(Clone, Debug)]
pub(crate) struct CopyCommand {
    pub(crate) to: u64,
    pub(crate) from: u64,
    pub(crate) len: u64,
}

impl CopyCommand {
    /// Copies.
    pub(crate) fn run(&self) -> Result<()> {
        host::copy(self.to, self.from, self.len)
    }
}

/// When a copy returns.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Until {
    /// When it has run.
    Done,
    /// When it is submitted.
    Submitted,
}

fn submit(stream: CUstream, to: u64, from: u64, len: usize, until: Until) -> Result<()> {
    let stream = stream::get(stream)?;
    if len == 0 {
        return Ok(());
    }
    let len = len as u64;
    let copy = Command::Copy(CopyCommand { to, from, len });
    match until {
        Until::Done => stream.run(copy),
        // A graph reads and writes the program's memory when it is launched.
        Until::Submitted if stream.is_capturing() => stream.submit(copy).map(|_| ()),
        // The program may change its memory once the call has returned.
        Until::Submitted if !is_known(from) => {
            let mut bytes = vec![0; len as usize];
            host::read_bytes(from, &mut bytes)?;
            stream.submit(Command::Write { to, bytes }).map(|_| ())
        }
        // The program may look at its memory, or free it, when the call has returned.
        Until::Submitted if !is_known(to) => stream.run(copy),
        Until::Submitted => stream.submit(copy).map(|_| ()),
    }
}

/// `cuMemcpyHtoD`.
pub fn to_device(to: CUdeviceptr, from: u64, len: usize) -> Result<()> {
    check_device_range(to, len as u64)?;
    submit(CUstream::NULL, to, from, len, Until::Done)
}

/// `cuMemcpyDtoH`.
pub fn to_host(to: u64, from: CUdeviceptr, len: usize) -> Result<()> {
    check_device_range(from, len as u64)?;
    submit(CUstream::NULL, to, from, len, Until::Done)
}

/// `cuMemcpyDtoD`.
pub fn on_device(to: CUdeviceptr, from: CUdeviceptr, len: usize) -> Result<()> {
    on_device_async(to, from, len, CUstream::NULL)
}

/// `cuMemcpyHtoDAsync`.
pub fn to_device_async(to: CUdeviceptr, from: u64, len: usize, stream: CUstream) -> Result<()> {
    check_device_range(to, len as u64)?;
    submit(stream, to, from, len, Until::Submitted)
}

/// `cuMemcpyDtoHAsync`.
pub fn to_host_async(to: u64, from: CUdeviceptr, len: usize, stream: CUstream) -> Result<()> {
    check_device_range(from, len as u64)?;
    submit(stream, to, from, len, Until::Submitted)
}

/// `cuMemcpyDtoDAsync`.
pub fn on_device_async(
    to: CUdeviceptr,
    from: CUdeviceptr,
    len: usize,
    stream: CUstream,
) -> Result<()> {
    check_device_range(to, len as u64)?;
    check_device_range(from, len as u64)?;
    submit(stream, to, from, len, Until::Submitted)
}

/// `cuMemcpy`: the addresses tell what they are.
pub fn unified(to: u64, from: u64, len: usize) -> Result<()> {
    check_unified(to, from, len)?;
    let until = match is_known(to) && is_known(from) {
        true => Until::Submitted,
        false => Until::Done,
    };
    submit(CUstream::NULL, to, from, len, until)
}

/// `cuMemcpyAsync`.
pub fn unified_async(to: u64, from: u64, len: usize, stream: CUstream) -> Result<()> {
    check_unified(to, from, len)?;
    submit(stream, to, from, len, Until::Submitted)
}

fn check_unified(to: u64, from: u64, len: usize) -> Result<()> {
    for addr in [to, from] {
        if is_known(addr) {
            check_device_range(addr, len as u64)?;
        } else if crate::device::arena_contains(addr) {
            // Memory of the driver in which nothing is allocated.
            return Err(CUresult::INVALID_VALUE);
        }
    }
    Ok(())
}
