//! Memsets.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use crate::call::{Code, Result, exports};
use crate::driver::cu;
use crate::memory::{Extent, PitchedPtr};

fn fill(to: u64, value: i32, count: usize, stream: Option<u64>) -> Result {
    match stream {
        _ if count == 0 => Ok(()),
        Some(stream) => cu!(cuMemsetD8Async(to, value as u8, count, stream)),
        None => cu!(cuMemsetD8_v2(to, value as u8, count)),
    }
}

fn fill_rows(
    to: u64,
    pitch: usize,
    value: i32,
    width: usize,
    height: usize,
    stream: Option<u64>,
) -> Result {
    match stream {
        _ if width == 0 || height == 0 => Ok(()),
        Some(stream) => cu!(cuMemsetD2D8Async(
            to,
            pitch,
            value as u8,
            width,
            height,
            stream
        )),
        None => cu!(cuMemsetD2D8_v2(to, pitch, value as u8, width, height)),
    }
}

/// Layers lie `ysize` rows apart.
fn fill_box(to: PitchedPtr, value: i32, extent: Extent, stream: Option<u64>) -> Result {
    let layer = to.pitch.checked_mul(to.ysize).ok_or(Code::INVALID_VALUE)?;
    if extent.height == to.ysize || extent.depth <= 1 {
        let rows = extent.height.checked_mul(extent.depth);
        let rows = rows.ok_or(Code::INVALID_VALUE)?;
        return fill_rows(to.ptr, to.pitch, value, extent.width, rows, stream);
    }
    for z in 0..extent.depth {
        let at = to.ptr.wrapping_add((layer * z) as u64);
        fill_rows(at, to.pitch, value, extent.width, extent.height, stream)?;
    }
    Ok(())
}

exports! {
    /// Sets bytes.
    fn cudaMemset(to: u64, value: i32, count: usize) or cudaMemset_ptds {
        fill(to, value, count, None)
    }

    /// Sets bytes.
    fn cudaMemsetAsync(to: u64, value: i32, count: usize, stream: u64) or cudaMemsetAsync_ptsz {
        fill(to, value, count, Some(stream))
    }

    /// Sets rows.
    fn cudaMemset2D(
        to: u64, pitch: usize, value: i32, width: usize, height: usize,
    ) or cudaMemset2D_ptds {
        fill_rows(to, pitch, value, width, height, None)
    }

    /// Sets rows.
    fn cudaMemset2DAsync(
        to: u64, pitch: usize, value: i32, width: usize, height: usize, stream: u64,
    ) or cudaMemset2DAsync_ptsz {
        fill_rows(to, pitch, value, width, height, Some(stream))
    }

    /// Sets a box.
    fn cudaMemset3D(to: PitchedPtr, value: i32, extent: Extent) or cudaMemset3D_ptds {
        fill_box(to, value, extent, None)
    }

    /// Sets a box.
    fn cudaMemset3DAsync(
        to: PitchedPtr, value: i32, extent: Extent, stream: u64,
    ) or cudaMemset3DAsync_ptsz {
        fill_box(to, value, extent, Some(stream))
    }
}
