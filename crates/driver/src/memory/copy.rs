//! Copies of bytes in up to three dimensions, between the host, devices and arrays.
//!
//! A copy without `Async` in its name has run when it returns, unless both sides are device memory.
//! One with pageable memory of the host as its source reads it at the call. [`shape`](super::shape)
//! has the copies of boxes.

use std::sync::Arc;

use ptxjit::sanitize::AccessOp;

use crate::command::Command;
use crate::error::Result;
use crate::findings;
use crate::host;
use crate::stream::{self, Stream};
use crate::types::{CUdeviceptr, CUresult, CUstream};

use super::{REGISTRY, check_device_range, is_known};

/// Where the rows of a box are.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// Address of the first byte.
    pub(crate) addr: u64,
    /// Bytes from one row to the next.
    pub(crate) pitch: u64,
    /// Bytes from one layer of rows to the next.
    pub(crate) layer: u64,
}

impl Place {
    fn row(&self, row: u64, layer: u64) -> u64 {
        self.addr + row * self.pitch + layer * self.layer
    }
}

/// What a copy reads.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Memory, when the copy runs.
    Memory(Place),
    /// Bytes that were read when the call was made, row by row without gaps.
    Bytes(Arc<[u8]>),
}

/// Bytes in a row, rows in a layer, layers; none is 0.
pub(crate) type Extent = [u64; 3];

/// A box of bytes from one place to another. It holds addresses, not handles, and was checked when
/// it was made.
#[derive(Clone, Debug)]
pub(crate) struct CopyCommand {
    pub(crate) to: Place,
    pub(crate) from: Source,
    pub(crate) extent: Extent,
}

impl CopyCommand {
    /// Bytes in one dimension.
    pub(crate) fn linear(to: u64, from: u64, len: u64) -> CopyCommand {
        let place = |addr| Place {
            addr,
            pitch: len,
            layer: len,
        };
        CopyCommand {
            to: place(to),
            from: Source::Memory(place(from)),
            extent: [len, 1, 1],
        }
    }

    /// Copies.
    pub(crate) fn run(&self) -> Result<()> {
        let [width, height, depth] = self.extent;
        let packed = Place {
            addr: 0,
            pitch: width,
            layer: width * height,
        };
        let from = match &self.from {
            Source::Memory(place) => *place,
            Source::Bytes(bytes) => Place {
                addr: bytes.as_ptr() as u64,
                ..packed
            },
        };
        // Boxes without gaps on both sides are one row.
        let is_packed = |place: &Place| {
            (height == 1 || place.pitch == width) && (depth == 1 || place.layer == width * height)
        };
        self.check_there(&from)?;
        if is_packed(&self.to) && is_packed(&from) {
            return host::copy(self.to.addr, from.addr, width * height * depth);
        }
        for layer in 0..depth {
            for row in 0..height {
                host::copy(self.to.row(row, layer), from.row(row, layer), width)?;
            }
        }
        Ok(())
    }

    /// Has it told if memory was freed since the call.
    fn check_there(&self, from: &Place) -> Result<()> {
        if !findings::watches_program() {
            return Ok(());
        }
        let [width, height, depth] = self.extent;
        for (place, op) in [(&self.to, AccessOp::Store), (from, AccessOp::Load)] {
            let last = place.row(height - 1, depth - 1);
            let len = last + width - place.addr;
            if !findings::is_there(place.addr, len) {
                findings::gone(place.addr, len, op);
                return Err(CUresult::INVALID_VALUE);
            }
        }
        Ok(())
    }

    /// The copy with its source read now.
    pub(crate) fn staged(self) -> Result<CopyCommand> {
        let Source::Memory(place) = self.from else {
            return Ok(self);
        };
        let [width, height, depth] = self.extent;
        let mut bytes = vec![0; (width * height * depth) as usize];
        let rows = (0..depth).flat_map(|layer| (0..height).map(move |row| (row, layer)));
        for (piece, (row, layer)) in bytes.chunks_exact_mut(width as usize).zip(rows) {
            host::read_bytes(place.row(row, layer), piece)?;
        }
        Ok(CopyCommand {
            from: Source::Bytes(bytes.into()),
            ..self
        })
    }

    /// Whether one side is memory of the program that the driver does not know.
    fn is_pageable(addr: u64) -> bool {
        // Arrays are in the arena, but not to be found by address.
        !is_known(addr) && !crate::device::arena_contains(addr)
    }

    /// Whether neither side is the host's.
    fn is_on_devices(&self) -> bool {
        let is_device = |addr| match REGISTRY.find(addr) {
            Some(found) => !found.is_host(),
            None => !Self::is_pageable(addr),
        };
        match &self.from {
            Source::Memory(from) => is_device(self.to.addr) && is_device(from.addr),
            Source::Bytes(_) => false,
        }
    }
}

/// When a copy returns.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Until {
    /// When it has run, unless the host has no part in it.
    Done,
    /// When it is submitted.
    Submitted,
}

/// Submits a copy that was checked.
pub(crate) fn submit(stream: &Arc<Stream>, copy: CopyCommand, until: Until) -> Result<()> {
    let reads_null = matches!(&copy.from, Source::Memory(from) if from.addr == 0);
    if reads_null || copy.to.addr == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let is_pageable = |place: &Place| CopyCommand::is_pageable(place.addr);
    let reads_pageable = matches!(&copy.from, Source::Memory(from) if is_pageable(from));
    match until {
        Until::Done if !copy.is_on_devices() => stream.run(Command::Copy(copy)),
        // A graph reads and writes the program's memory when it is launched.
        Until::Submitted if stream.is_capturing() => stream.submit(Command::Copy(copy)).map(|_| ()),
        // The program may look at its memory, or free it, when the call has returned.
        Until::Submitted if is_pageable(&copy.to) => stream.run(Command::Copy(copy)),
        // The program may change its memory once the call has returned.
        Until::Submitted if reads_pageable => {
            let copy = copy.staged()?;
            stream.submit(Command::Copy(copy)).map(|_| ())
        }
        Until::Done | Until::Submitted => stream.submit(Command::Copy(copy)).map(|_| ()),
    }
}

fn submit_linear(stream: CUstream, to: u64, from: u64, len: usize, until: Until) -> Result<()> {
    let stream = stream::get(stream)?;
    if len == 0 {
        return Ok(());
    }
    submit(&stream, CopyCommand::linear(to, from, len as u64), until)
}

/// `cuMemcpyHtoD`.
pub fn to_device(to: CUdeviceptr, from: u64, len: usize) -> Result<()> {
    check_device_range(to, len as u64, AccessOp::Store)?;
    submit_linear(CUstream::NULL, to, from, len, Until::Done)
}

/// `cuMemcpyDtoH`.
pub fn to_host(to: u64, from: CUdeviceptr, len: usize) -> Result<()> {
    check_device_range(from, len as u64, AccessOp::Load)?;
    submit_linear(CUstream::NULL, to, from, len, Until::Done)
}

/// `cuMemcpyDtoD`.
pub fn on_device(to: CUdeviceptr, from: CUdeviceptr, len: usize) -> Result<()> {
    on_device_async(to, from, len, CUstream::NULL)
}

/// `cuMemcpyHtoDAsync`.
pub fn to_device_async(to: CUdeviceptr, from: u64, len: usize, stream: CUstream) -> Result<()> {
    check_device_range(to, len as u64, AccessOp::Store)?;
    submit_linear(stream, to, from, len, Until::Submitted)
}

/// `cuMemcpyDtoHAsync`.
pub fn to_host_async(to: u64, from: CUdeviceptr, len: usize, stream: CUstream) -> Result<()> {
    check_device_range(from, len as u64, AccessOp::Load)?;
    submit_linear(stream, to, from, len, Until::Submitted)
}

/// `cuMemcpyDtoDAsync`.
pub fn on_device_async(
    to: CUdeviceptr,
    from: CUdeviceptr,
    len: usize,
    stream: CUstream,
) -> Result<()> {
    check_device_range(to, len as u64, AccessOp::Store)?;
    check_device_range(from, len as u64, AccessOp::Load)?;
    submit_linear(stream, to, from, len, Until::Submitted)
}

/// `cuMemcpy`: the addresses tell what they are.
pub fn unified(to: u64, from: u64, len: usize) -> Result<()> {
    check_unified(to, len as u64, AccessOp::Store)?;
    check_unified(from, len as u64, AccessOp::Load)?;
    submit_linear(CUstream::NULL, to, from, len, Until::Done)
}

/// `cuMemcpyAsync`.
pub fn unified_async(to: u64, from: u64, len: usize, stream: CUstream) -> Result<()> {
    check_unified(to, len as u64, AccessOp::Store)?;
    check_unified(from, len as u64, AccessOp::Load)?;
    submit_linear(stream, to, from, len, Until::Submitted)
}

/// Bytes of a device or of the program, as the address tells.
pub(crate) fn check_unified(addr: u64, len: u64, op: AccessOp) -> Result<()> {
    if len == 0 {
        return Ok(());
    }
    if is_known(addr) {
        return check_device_range(addr, len, op);
    }
    // Memory of the driver in which nothing is allocated, or no memory at all.
    match addr == 0 || crate::device::arena_contains(addr) || addr.checked_add(len).is_none() {
        true => {
            findings::bad_range(addr, len, op);
            Err(CUresult::INVALID_VALUE)
        }
        false => Ok(()),
    }
}
