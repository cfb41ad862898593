//! Memsets.

use ptxjit::sanitize::AccessOp;

use crate::command::Command;
use crate::error::Result;
use crate::findings;
use crate::host;
use crate::stream;
use crate::types::{CUdeviceptr, CUresult, CUstream};

use super::{REGISTRY, Sort, check_device_range};

/// Rows of values of 1, 2 or 4 bytes.
#[derive(Clone, Debug)]
pub(crate) struct FillCommand {
    pub(crate) to: u64,
    /// Bytes from the start of one row to that of the next.
    pub(crate) pitch: u64,
    pub(crate) value: u32,
    /// Bytes of a value.
    pub(crate) size: u32,
    /// Values in a row.
    pub(crate) width: u64,
    pub(crate) height: u64,
}

impl FillCommand {
    /// Sets the memory.
    pub(crate) fn run(&self) -> Result<()> {
        let bytes = self.value.to_le_bytes();
        let pattern = &bytes[..self.size as usize];
        let len = self.width * u64::from(self.size);
        let all = (self.height - 1) * self.pitch + len;
        if findings::watches_program() && !findings::is_there(self.to, all) {
            findings::gone(self.to, all, AccessOp::Store);
            return Err(CUresult::INVALID_VALUE);
        }
        (0..self.height).try_for_each(|row| host::fill(self.to + row * self.pitch, pattern, len))
    }

    /// Checks the arguments; none if there is nothing to set.
    pub(crate) fn check(self) -> Result<Option<FillCommand>> {
        let size = u64::from(self.size);
        if ![1, 2, 4].contains(&size) || !self.to.is_multiple_of(size) {
            return Err(CUresult::INVALID_VALUE);
        }
        if self.width == 0 || self.height == 0 {
            return Ok(None);
        }
        let row = self
            .width
            .checked_mul(size)
            .ok_or(CUresult::INVALID_VALUE)?;
        let is_pitch = self.height == 1 || (self.pitch >= row && self.pitch.is_multiple_of(size));
        let all = self
            .pitch
            .checked_mul(self.height - 1)
            .and_then(|all| all.checked_add(row));
        match all {
            Some(len) if is_pitch => check_device_range(self.to, len, AccessOp::Store)?,
            _ => return Err(CUresult::INVALID_VALUE),
        }
        Ok(Some(self))
    }
}

/// A memset in a stream. It returns at once, unless the memory is pinned and `is_async` is not set.
fn submit(fill: FillCommand, stream: CUstream, is_async: bool) -> Result<()> {
    let stream = stream::get(stream)?;
    let Some(fill) = fill.check()? else {
        return Ok(());
    };
    let is_pinned = REGISTRY
        .find(fill.to)
        .is_some_and(|found| matches!(found.sort, Sort::Pinned(_)));
    match is_pinned && !is_async {
        true => stream.run(Command::Fill(fill)),
        false => stream.submit(Command::Fill(fill)).map(|_| ()),
    }
}

/// `cuMemsetD8`, `D16` and `D32`: `size` is that of a value in bytes.
pub fn fill(to: CUdeviceptr, value: u32, size: u32, count: usize) -> Result<()> {
    submit(row(to, value, size, count), CUstream::NULL, false)
}

/// Likewise, `Async`.
pub fn fill_async(
    to: CUdeviceptr,
    value: u32,
    size: u32,
    count: usize,
    stream: CUstream,
) -> Result<()> {
    submit(row(to, value, size, count), stream, true)
}

fn row(to: CUdeviceptr, value: u32, size: u32, count: usize) -> FillCommand {
    FillCommand {
        to,
        pitch: 0,
        value,
        size,
        width: count as u64,
        height: 1,
    }
}

/// `cuMemsetD2D8`, `D16` and `D32`; `shape` is the width in values and the height.
pub fn fill_2d(
    to: CUdeviceptr,
    pitch: usize,
    value: u32,
    size: u32,
    shape: (usize, usize),
) -> Result<()> {
    submit(rows(to, pitch, value, size, shape), CUstream::NULL, false)
}

/// Likewise, `Async`.
pub fn fill_2d_async(
    to: CUdeviceptr,
    pitch: usize,
    value: u32,
    size: u32,
    shape: (usize, usize),
    stream: CUstream,
) -> Result<()> {
    submit(rows(to, pitch, value, size, shape), stream, true)
}

fn rows(
    to: CUdeviceptr,
    pitch: usize,
    value: u32,
    size: u32,
    (width, height): (usize, usize),
) -> FillCommand {
    FillCommand {
        to,
        pitch: pitch as u64,
        value,
        size,
        width: width as u64,
        height: height as u64,
    }
}
