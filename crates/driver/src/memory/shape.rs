//! Copies of boxes: what the 2-D, 3-D, array and peer copies take, checked and made a
//! [`CopyCommand`].

use std::sync::Arc;

use ptxjit::sanitize::AccessOp;

use crate::context;
use crate::error::Result;
use crate::stream;
use crate::types::{
    CUDA_MEMCPY2D_v2, CUDA_MEMCPY3D_PEER_v1, CUDA_MEMCPY3D_v2, CUarray, CUcontext, CUdeviceptr,
    CUmemorytype, CUresult, CUstream,
};

use super::array::{self, Array};
use super::check_device_range;
use super::copy::{self, CopyCommand, Extent, Place, Source, Until, check_unified};

/// `CU_DEVICE_ATTRIBUTE_MAX_PITCH`.
const MAX_PITCH: u64 = i32::MAX as u64;

/// One side of a copy, as a program describes it.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Side {
    pub(crate) kind: CUmemorytype,
    /// The address on a host, or of a device; whichever `kind` says.
    pub(crate) host: u64,
    pub(crate) device: CUdeviceptr,
    pub(crate) array: CUarray,
    /// Bytes, row and layer where the box starts.
    pub(crate) start: [u64; 3],
    /// Bytes of a row and rows of a layer.
    pub(crate) pitch: u64,
    pub(crate) height: u64,
}

impl Side {
    /// Where a box of an extent lies, if it lies inside.
    fn place(&self, extent: Extent, op: AccessOp) -> Result<Place> {
        match self.kind {
            CUmemorytype::ARRAY => array_place(&*array::get(self.array)?, self.start, extent),
            CUmemorytype::HOST => {
                self.memory_place(self.host, extent, |addr, len| check_unified(addr, len, op))
            }
            CUmemorytype::DEVICE => self.memory_place(self.device, extent, |addr, len| {
                check_device_range(addr, len, op)
            }),
            CUmemorytype::UNIFIED => self.memory_place(self.device, extent, |addr, len| {
                check_unified(addr, len, op)
            }),
            _ => Err(CUresult::INVALID_VALUE),
        }
    }

    fn memory_place(
        &self,
        base: u64,
        extent: Extent,
        check: impl Fn(u64, u64) -> Result<()>,
    ) -> Result<Place> {
        let [x, y, z] = self.start;
        let [width, height, depth] = extent;
        let fits =
            |start: u64, len: u64, room: u64| start.checked_add(len).is_some_and(|end| end <= room);
        // A single row needs no pitch, and a single layer no height.
        let has_rows = height > 1 || depth > 1 || y > 0 || z > 0;
        let has_layers = depth > 1 || z > 0;
        if self.pitch > MAX_PITCH
            || (has_rows || self.pitch != 0) && !fits(x, width, self.pitch)
            || (has_layers || self.height != 0) && !fits(y, height, self.height)
        {
            return Err(CUresult::INVALID_VALUE);
        }
        let layer = self.pitch.checked_mul(self.height.max(height));
        let layer = layer.ok_or(CUresult::INVALID_VALUE)?;
        // In 128 bits nothing overflows.
        let [x, y, z, pitch, wide_layer] = [x, y, z, self.pitch, layer].map(u128::from);
        let first = u128::from(base) + x + y * pitch + z * wide_layer;
        let last = u128::from(depth - 1) * wide_layer + u128::from(height - 1) * pitch;
        let len = u64::try_from(last + u128::from(width)).map_err(|_| CUresult::INVALID_VALUE)?;
        let addr = u64::try_from(first).map_err(|_| CUresult::INVALID_VALUE)?;
        check(addr, len)?;
        Ok(Place {
            addr,
            pitch: self.pitch,
            layer,
        })
    }
}

fn array_place(array: &Array, start: [u64; 3], extent: Extent) -> Result<Place> {
    let room = array.extent();
    let is_inside = (0..3).all(|axis| {
        let end = start[axis].checked_add(extent[axis]);
        end.is_some_and(|end| end <= room[axis])
    });
    let element = array.element_bytes();
    let is_whole = start[0].is_multiple_of(element) && extent[0].is_multiple_of(element);
    if !is_inside || !is_whole {
        return Err(CUresult::INVALID_VALUE);
    }
    let layer = array.pitch() * room[1];
    Ok(Place {
        addr: array.base() + start[0] + start[1] * array.pitch() + start[2] * layer,
        pitch: array.pitch(),
        layer,
    })
}

/// A copy between two sides; none if there is nothing to copy.
pub(crate) fn between(to: &Side, from: &Side, extent: Extent) -> Result<Option<CopyCommand>> {
    if extent.contains(&0) {
        return Ok(None);
    }
    Ok(Some(CopyCommand {
        to: to.place(extent, AccessOp::Store)?,
        from: Source::Memory(from.place(extent, AccessOp::Load)?),
        extent,
    }))
}

/// What `cuMemcpy2D` describes.
pub(crate) fn command_2d(params: &CUDA_MEMCPY2D_v2) -> Result<Option<CopyCommand>> {
    let to = Side {
        kind: params.dstMemoryType,
        host: params.dstHost.0,
        device: params.dstDevice,
        array: params.dstArray,
        start: [params.dstXInBytes as u64, params.dstY as u64, 0],
        pitch: params.dstPitch as u64,
        height: 0,
    };
    let from = Side {
        kind: params.srcMemoryType,
        host: params.srcHost.0,
        device: params.srcDevice,
        array: params.srcArray,
        start: [params.srcXInBytes as u64, params.srcY as u64, 0],
        pitch: params.srcPitch as u64,
        height: 0,
    };
    between(
        &to,
        &from,
        [params.WidthInBytes as u64, params.Height as u64, 1],
    )
}

/// What `cuMemcpy3D` describes; memory nodes of graphs take the same.
pub(crate) fn command_3d(params: &CUDA_MEMCPY3D_v2) -> Result<Option<CopyCommand>> {
    if params.srcLOD != 0 || params.dstLOD != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let to = Side {
        kind: params.dstMemoryType,
        host: params.dstHost.0,
        device: params.dstDevice,
        array: params.dstArray,
        start: [params.dstXInBytes, params.dstY, params.dstZ].map(|start| start as u64),
        pitch: params.dstPitch as u64,
        height: params.dstHeight as u64,
    };
    let from = Side {
        kind: params.srcMemoryType,
        host: params.srcHost.0,
        device: params.srcDevice,
        array: params.srcArray,
        start: [params.srcXInBytes, params.srcY, params.srcZ].map(|start| start as u64),
        pitch: params.srcPitch as u64,
        height: params.srcHeight as u64,
    };
    let extent = [params.WidthInBytes, params.Height, params.Depth];
    between(&to, &from, extent.map(|size| size as u64))
}

/// Submits a copy, if there is one.
fn submit(stream: CUstream, copy: Option<CopyCommand>, until: Until) -> Result<()> {
    let stream = stream::get(stream)?;
    copy.map_or(Ok(()), |copy| copy::submit(&stream, copy, until))
}

// --- The interface ---

/// `cuMemcpy2D` and `cuMemcpy2DUnaligned`.
pub fn copy_2d(params: &CUDA_MEMCPY2D_v2) -> Result<()> {
    submit(CUstream::NULL, command_2d(params)?, Until::Done)
}

/// `cuMemcpy2DAsync`.
pub fn copy_2d_async(params: &CUDA_MEMCPY2D_v2, stream: CUstream) -> Result<()> {
    submit(stream, command_2d(params)?, Until::Submitted)
}

/// `cuMemcpy3D`.
pub fn copy_3d(params: &CUDA_MEMCPY3D_v2) -> Result<()> {
    submit(CUstream::NULL, command_3d(params)?, Until::Done)
}

/// `cuMemcpy3DAsync`.
pub fn copy_3d_async(params: &CUDA_MEMCPY3D_v2, stream: CUstream) -> Result<()> {
    submit(stream, command_3d(params)?, Until::Submitted)
}

/// The contexts of a copy between devices must be there; where the memory lies the addresses tell.
fn check_contexts(contexts: [CUcontext; 2]) -> Result<()> {
    for handle in contexts {
        context::get(handle)?;
    }
    Ok(())
}

/// `cuMemcpy3DPeer` and, with a stream, `cuMemcpy3DPeerAsync`.
pub fn copy_3d_peer(params: &CUDA_MEMCPY3D_PEER_v1, stream: CUstream) -> Result<()> {
    check_contexts([params.dstContext, params.srcContext])?;
    let plain = CUDA_MEMCPY3D_v2 {
        srcXInBytes: params.srcXInBytes,
        srcY: params.srcY,
        srcZ: params.srcZ,
        srcLOD: params.srcLOD,
        srcMemoryType: params.srcMemoryType,
        srcHost: params.srcHost,
        srcDevice: params.srcDevice,
        srcArray: params.srcArray,
        srcPitch: params.srcPitch,
        srcHeight: params.srcHeight,
        dstXInBytes: params.dstXInBytes,
        dstY: params.dstY,
        dstZ: params.dstZ,
        dstLOD: params.dstLOD,
        dstMemoryType: params.dstMemoryType,
        dstHost: params.dstHost,
        dstDevice: params.dstDevice,
        dstArray: params.dstArray,
        dstPitch: params.dstPitch,
        dstHeight: params.dstHeight,
        WidthInBytes: params.WidthInBytes,
        Height: params.Height,
        Depth: params.Depth,
        ..CUDA_MEMCPY3D_v2::default()
    };
    copy_3d_async(&plain, stream)
}

/// `cuMemcpyPeer` and, with a stream, `cuMemcpyPeerAsync`.
pub fn copy_peer(
    to: CUdeviceptr,
    to_context: CUcontext,
    from: CUdeviceptr,
    from_context: CUcontext,
    len: usize,
    stream: CUstream,
) -> Result<()> {
    check_contexts([to_context, from_context])?;
    copy::on_device_async(to, from, len, stream)
}

/// Bytes of an array from an offset on, as the 1-D copies with arrays mean them.
fn array_bytes(array: CUarray, offset: usize, len: usize) -> Result<u64> {
    let array: Arc<Array> = array::get(array)?;
    let end = offset.checked_add(len);
    match end.is_some_and(|end| end as u64 <= array.bytes()) {
        true => Ok(array.base() + offset as u64),
        false => Err(CUresult::INVALID_VALUE),
    }
}

/// A place in a 1-D copy with arrays.
#[derive(Copy, Clone, Debug)]
pub enum Linear {
    /// Memory of the program.
    Host(u64),
    Device(CUdeviceptr),
    /// An array and an offset in bytes.
    Array(CUarray, usize),
}

impl Linear {
    fn address(self, len: usize, op: AccessOp) -> Result<u64> {
        match self {
            Linear::Host(addr) => check_unified(addr, len as u64, op).map(|()| addr),
            Linear::Device(addr) => check_device_range(addr, len as u64, op).map(|()| addr),
            Linear::Array(array, offset) => array_bytes(array, offset, len),
        }
    }
}

fn linear(to: Linear, from: Linear, len: usize) -> Result<Option<CopyCommand>> {
    let (to, from) = (
        to.address(len, AccessOp::Store)?,
        from.address(len, AccessOp::Load)?,
    );
    Ok((len != 0).then(|| CopyCommand::linear(to, from, len as u64)))
}

/// `cuMemcpyAtoH`, `HtoA`, `AtoD`, `DtoA` and `AtoA`.
pub fn copy_linear(to: Linear, from: Linear, len: usize) -> Result<()> {
    submit(CUstream::NULL, linear(to, from, len)?, Until::Done)
}

/// `cuMemcpyAtoHAsync` and `cuMemcpyHtoAAsync`.
pub fn copy_linear_async(to: Linear, from: Linear, len: usize, stream: CUstream) -> Result<()> {
    submit(stream, linear(to, from, len)?, Until::Submitted)
}
