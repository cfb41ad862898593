//! Arrays and mipmapped arrays. Handles are the driver's.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use crate::call::{Code, Result, exports, passes};
use crate::channel::Format;
use crate::driver::cu;
use crate::host;
use crate::memory::Extent;

host::plain! {
    /// `CUDA_ARRAY3D_DESCRIPTOR`, with its padding.
    ArrayDesc { width: usize, height: usize, depth: usize, format: u32, n_channels: u32, flags: u32, padding: u32 }
}

fn desc(array: u64) -> Result<ArrayDesc> {
    let mut desc: ArrayDesc = host::zeroed();
    cu!(cuArray3DGetDescriptor_v2(&mut desc, array))?;
    Ok(desc)
}

/// The format of an array's elements.
pub(crate) fn format(array: u64) -> Result<Format> {
    let desc = desc(array)?;
    Ok(Format {
        format: desc.format,
        n_channels: desc.n_channels,
    })
}

/// Bytes of an element.
pub(crate) fn element(array: u64) -> Result<usize> {
    Ok(format(array)?.element())
}

/// Bytes of a row.
pub(crate) fn row(array: u64) -> Result<usize> {
    Ok(desc(array)?.width * element(array)?)
}

fn new_desc(channels: u64, extent: Extent, flags: u32) -> Result<ArrayDesc> {
    let format = Format::of(&host::get(channels)?)?;
    Ok(ArrayDesc {
        width: extent.width,
        height: extent.height,
        depth: extent.depth,
        format: format.format,
        n_channels: format.n_channels,
        flags,
        padding: 0,
    })
}

exports! {
    /// An array of one or two dimensions.
    fn cudaMallocArray(out: u64, channels: u64, width: usize, height: usize, flags: u32) {
        let extent = Extent { width, height, depth: 0 };
        cu!(cuArray3DCreate_v2(out, &new_desc(channels, extent, flags)?))
    }

    /// An array of any shape.
    fn cudaMalloc3DArray(out: u64, channels: u64, extent: Extent, flags: u32) {
        cu!(cuArray3DCreate_v2(out, &new_desc(channels, extent, flags)?))
    }

    /// An array with mipmaps.
    fn cudaMallocMipmappedArray(
        out: u64, channels: u64, extent: Extent, n_levels: u32, flags: u32,
    ) {
        cu!(cuMipmappedArrayCreate(out, &new_desc(channels, extent, flags)?, n_levels))
    }

    /// Frees an array.
    fn cudaFreeArray(array: u64) {
        match array {
            0 => Ok(()),
            _ => cu!(cuArrayDestroy(array)),
        }
    }

    /// Frees an array with mipmaps.
    fn cudaFreeMipmappedArray(array: u64) {
        match array {
            0 => Ok(()),
            _ => cu!(cuMipmappedArrayDestroy(array)),
        }
    }

    /// What an array is.
    fn cudaArrayGetInfo(channels: u64, extent: u64, flags: u64, array: u64) {
        let desc = desc(array)?;
        let format = Format { format: desc.format, n_channels: desc.n_channels };
        if array == 0 {
            return Err(Code::INVALID_RESOURCE_HANDLE);
        }
        host::put_if_wanted(channels, format.desc()?)?;
        host::put_if_wanted(extent, Extent { width: desc.width, height: desc.height, depth: desc.depth })?;
        host::put_if_wanted(flags, desc.flags)
    }
}

passes! {
    cudaGetMipmappedArrayLevel(out: u64, array: u64, level: u32) = cuMipmappedArrayGetLevel;
    cudaArrayGetPlane(out: u64, array: u64, idx: u32) = cuArrayGetPlane;
    cudaArrayGetMemoryRequirements(
        out: u64, array: u64, device: i32,
    ) = cuArrayGetMemoryRequirements;
    cudaMipmappedArrayGetMemoryRequirements(
        out: u64, array: u64, device: i32,
    ) = cuMipmappedArrayGetMemoryRequirements;
    cudaArrayGetSparseProperties(out: u64, array: u64) = cuArrayGetSparseProperties;
    cudaMipmappedArrayGetSparseProperties(
        out: u64, array: u64,
    ) = cuMipmappedArrayGetSparseProperties;
}
