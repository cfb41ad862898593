//! Copies of bytes and rows.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use crate::call::{Code, Result, exports, passes};
use crate::device;
use crate::driver::cu;
use crate::host;

/// `cudaMemcpyKind`, checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    HostToHost,
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
    Default,
}

/// `CU_MEMORYTYPE_…`.
pub(crate) const HOST: u64 = 1;
pub(crate) const DEVICE: u64 = 2;
pub(crate) const ARRAY: u64 = 3;
pub(crate) const UNIFIED: u64 = 4;

impl Kind {
    pub(crate) fn new(kind: u32) -> Result<Kind> {
        Ok(match kind {
            0 => Kind::HostToHost,
            1 => Kind::HostToDevice,
            2 => Kind::DeviceToHost,
            3 => Kind::DeviceToDevice,
            4 => Kind::Default,
            _ => return Err(Code::INVALID_MEMCPY_DIRECTION),
        })
    }

    /// The driver's types of memory of source and target.
    pub(crate) fn memory_types(self) -> (u64, u64) {
        match self {
            Kind::HostToHost => (HOST, HOST),
            Kind::HostToDevice => (HOST, DEVICE),
            Kind::DeviceToHost => (DEVICE, HOST),
            Kind::DeviceToDevice => (DEVICE, DEVICE),
            Kind::Default => (UNIFIED, UNIFIED),
        }
    }
}

/// A copy of bytes.
pub(crate) fn copy(to: u64, from: u64, size: usize, kind: u32) -> Result {
    match Kind::new(kind)? {
        _ if size == 0 => Ok(()),
        Kind::HostToDevice => cu!(cuMemcpyHtoD_v2(to, from, size)),
        Kind::DeviceToHost => cu!(cuMemcpyDtoH_v2(to, from, size)),
        Kind::DeviceToDevice => cu!(cuMemcpyDtoD_v2(to, from, size)),
        Kind::HostToHost | Kind::Default => cu!(cuMemcpy(to, from, size)),
    }
}

/// A copy of bytes in a stream.
pub(crate) fn copy_async(to: u64, from: u64, size: usize, kind: u32, stream: u64) -> Result {
    match Kind::new(kind)? {
        _ if size == 0 => Ok(()),
        Kind::HostToDevice => cu!(cuMemcpyHtoDAsync_v2(to, from, size, stream)),
        Kind::DeviceToHost => cu!(cuMemcpyDtoHAsync_v2(to, from, size, stream)),
        Kind::DeviceToDevice => cu!(cuMemcpyDtoDAsync_v2(to, from, size, stream)),
        Kind::HostToHost | Kind::Default => cu!(cuMemcpyAsync(to, from, size, stream)),
    }
}

host::plain! {
    /// One side of a copy of rows.
    Side { x: usize, y: usize, kind: u64, host: u64, device: u64, array: u64, pitch: usize }

    /// `CUDA_MEMCPY2D`.
    Copy2d { source: Side, target: Side, width: usize, height: usize }
}

impl Side {
    /// Memory at an address.
    pub(crate) fn linear(kind: u64, address: u64, pitch: usize) -> Side {
        Side {
            kind,
            host: address,
            device: address,
            pitch,
            ..host::zeroed()
        }
    }

    /// An array from a place on; the offset is in bytes.
    pub(crate) fn array(array: u64, x: usize, y: usize) -> Side {
        Side {
            kind: ARRAY,
            array,
            x,
            y,
            ..host::zeroed()
        }
    }
}

/// Rows between two sides; with a stream, in it.
pub(crate) fn rows(
    target: Side,
    source: Side,
    size: (usize, usize),
    stream: Option<u64>,
) -> Result {
    let (width, height) = size;
    if width == 0 || height == 0 {
        return Ok(());
    }
    let is_too_wide = |side: &Side| side.kind != ARRAY && height > 1 && side.pitch < width;
    if is_too_wide(&target) || is_too_wide(&source) {
        // `cudaErrorInvalidPitchValue`
        return Err(Code(12));
    }
    let copy = Copy2d {
        source,
        target,
        width,
        height,
    };
    match stream {
        Some(stream) => cu!(cuMemcpy2DAsync_v2(&copy, stream)),
        None => cu!(cuMemcpy2DUnaligned_v2(&copy)),
    }
}

/// The memory of two addresses.
fn linear(
    to: (u64, usize),
    from: (u64, usize),
    size: (usize, usize),
    kind: u32,
    stream: Option<u64>,
) -> Result {
    let (source, target) = Kind::new(kind)?.memory_types();
    let target = Side::linear(target, to.0, to.1);
    let source = Side::linear(source, from.0, from.1);
    rows(target, source, size, stream)
}

fn to_array(
    to: Side,
    from: (u64, usize),
    size: (usize, usize),
    kind: u32,
    stream: Option<u64>,
) -> Result {
    let (source, _) = Kind::new(kind)?.memory_types();
    rows(to, Side::linear(source, from.0, from.1), size, stream)
}

fn from_array(
    to: (u64, usize),
    from: Side,
    size: (usize, usize),
    kind: u32,
    stream: Option<u64>,
) -> Result {
    let (_, target) = Kind::new(kind)?.memory_types();
    rows(Side::linear(target, to.0, to.1), from, size, stream)
}

exports! {
    /// Copies bytes.
    fn cudaMemcpy(to: u64, from: u64, size: usize, kind: u32) or cudaMemcpy_ptds {
        copy(to, from, size, kind)
    }

    /// Copies bytes.
    fn cudaMemcpyAsync(
        to: u64, from: u64, size: usize, kind: u32, stream: u64,
    ) or cudaMemcpyAsync_ptsz {
        copy_async(to, from, size, kind, stream)
    }

    /// Copies bytes between devices.
    fn cudaMemcpyPeer(to: u64, to_device: i32, from: u64, from_device: i32, size: usize) {
        cu!(cuMemcpyPeer(to, device::primary(to_device)?, from, device::primary(from_device)?, size))
    }

    /// Copies bytes between devices.
    fn cudaMemcpyPeerAsync(
        to: u64, to_device: i32, from: u64, from_device: i32, size: usize, stream: u64,
    ) {
        cu!(cuMemcpyPeerAsync(to, device::primary(to_device)?, from, device::primary(from_device)?, size, stream))
    }

    /// Copies rows.
    fn cudaMemcpy2D(
        to: u64, to_pitch: usize, from: u64, from_pitch: usize, width: usize, height: usize,
        kind: u32,
    ) or cudaMemcpy2D_ptds {
        linear((to, to_pitch), (from, from_pitch), (width, height), kind, None)
    }

    /// Copies rows.
    fn cudaMemcpy2DAsync(
        to: u64, to_pitch: usize, from: u64, from_pitch: usize, width: usize, height: usize,
        kind: u32, stream: u64,
    ) or cudaMemcpy2DAsync_ptsz {
        linear((to, to_pitch), (from, from_pitch), (width, height), kind, Some(stream))
    }

    /// Copies rows to an array.
    fn cudaMemcpy2DToArray(
        to: u64, x: usize, y: usize, from: u64, pitch: usize, width: usize, height: usize,
        kind: u32,
    ) or cudaMemcpy2DToArray_ptds {
        to_array(Side::array(to, x, y), (from, pitch), (width, height), kind, None)
    }

    /// Copies rows to an array.
    fn cudaMemcpy2DToArrayAsync(
        to: u64, x: usize, y: usize, from: u64, pitch: usize, width: usize, height: usize,
        kind: u32, stream: u64,
    ) or cudaMemcpy2DToArrayAsync_ptsz {
        to_array(Side::array(to, x, y), (from, pitch), (width, height), kind, Some(stream))
    }

    /// Copies rows of an array.
    fn cudaMemcpy2DFromArray(
        to: u64, pitch: usize, from: u64, x: usize, y: usize, width: usize, height: usize,
        kind: u32,
    ) or cudaMemcpy2DFromArray_ptds {
        from_array((to, pitch), Side::array(from, x, y), (width, height), kind, None)
    }

    /// Copies rows of an array.
    fn cudaMemcpy2DFromArrayAsync(
        to: u64, pitch: usize, from: u64, x: usize, y: usize, width: usize, height: usize,
        kind: u32, stream: u64,
    ) or cudaMemcpy2DFromArrayAsync_ptsz {
        from_array((to, pitch), Side::array(from, x, y), (width, height), kind, Some(stream))
    }

    /// Copies rows between arrays.
    fn cudaMemcpy2DArrayToArray(
        to: u64, to_x: usize, to_y: usize, from: u64, from_x: usize, from_y: usize, width: usize,
        height: usize, kind: u32,
    ) or cudaMemcpy2DArrayToArray_ptds {
        Kind::new(kind)?;
        rows(Side::array(to, to_x, to_y), Side::array(from, from_x, from_y), (width, height), None)
    }
}

passes! {
    #[cfg(not(cudart13))]
    cudaMemcpyBatchAsync(
        to: u64, from: u64, sizes: u64, count: usize, attributes: u64, idxs: u64,
        n_attributes: usize, failed: u64, stream: u64,
    ) or cudaMemcpyBatchAsync_ptsz = cuMemcpyBatchAsync;
    #[cfg(not(cudart13))]
    cudaMemcpy3DBatchAsync(
        count: usize, ops: u64, failed: u64, flags: u64, stream: u64,
    ) or cudaMemcpy3DBatchAsync_ptsz = cuMemcpy3DBatchAsync;
    #[cfg(cudart13)]
    cudaMemcpyBatchAsync(
        to: u64, from: u64, sizes: u64, count: usize, attributes: u64, idxs: u64,
        n_attributes: usize, stream: u64,
    ) or cudaMemcpyBatchAsync_ptsz = cuMemcpyBatchAsync_v2;
    #[cfg(cudart13)]
    cudaMemcpy3DBatchAsync(
        count: usize, ops: u64, flags: u64, stream: u64,
    ) or cudaMemcpy3DBatchAsync_ptsz = cuMemcpy3DBatchAsync_v2;
    #[cfg(cudart13)]
    cudaMemcpyWithAttributesAsync(
        to: u64, from: u64, size: usize, attributes: u64, stream: u64,
    ) or cudaMemcpyWithAttributesAsync_ptsz = cuMemcpyWithAttributesAsync;
    #[cfg(cudart13)]
    cudaMemcpy3DWithAttributesAsync(
        op: u64, flags: u64, stream: u64,
    ) or cudaMemcpy3DWithAttributesAsync_ptsz = cuMemcpy3DWithAttributesAsync;
}
