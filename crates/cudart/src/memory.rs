//! Memory: allocation, registration, hints.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use crate::call::{Code, Result, exports, passes};
use crate::driver::cu;
use crate::host;

host::plain! {
    /// `cudaExtent`.
    Extent { width: usize, height: usize, depth: usize }

    /// `cudaPitchedPtr`.
    PitchedPtr { ptr: u64, pitch: usize, xsize: usize, ysize: usize }

    /// `cudaMemLocation`.
    MemLocation { kind: i32, id: i32 }
}

impl MemLocation {
    /// The structure as it is passed by value: in one word.
    pub(crate) fn word(self) -> u64 {
        u64::from(self.kind as u32) | u64::from(self.id as u32) << 32
    }

    /// Where a device's number, or -1 for the host, means that memory is to be.
    #[cfg(not(cudart13))]
    fn of_device(device: i32) -> MemLocation {
        match device {
            -1 => MemLocation { kind: 2, id: 0 },
            id => MemLocation { kind: 1, id },
        }
    }
}

/// Puts what `make` makes, or null for a size of 0.
fn sized(out: u64, size: usize, make: impl FnOnce() -> Result) -> Result {
    match size {
        0 => host::put(out, 0_u64),
        _ => make(),
    }
}

/// Rows of `width` bytes, at a pitch.
fn pitched(width: usize, height: usize) -> Result<(u64, usize)> {
    let (mut address, mut pitch) = (0_u64, 0_usize);
    if width != 0 && height != 0 {
        // Elements of 4 bytes: the pitch fits all of them.
        cu!(cuMemAllocPitch_v2(
            &mut address,
            &mut pitch,
            width,
            height,
            4_u32
        ))?;
    }
    Ok((address, pitch))
}

exports! {
    /// Memory on the device.
    fn cudaMalloc(out: u64, size: usize) {
        sized(out, size, || cu!(cuMemAlloc_v2(out, size)))
    }

    /// Memory of the host that the device accesses.
    fn cudaMallocHost(out: u64, size: usize) {
        sized(out, size, || cu!(cuMemAllocHost_v2(out, size)))
    }

    /// Memory of the host that the device accesses.
    fn cudaHostAlloc(out: u64, size: usize, flags: u32) {
        sized(out, size, || cu!(cuMemHostAlloc(out, size, flags)))
    }

    /// Rows on the device.
    fn cudaMallocPitch(out: u64, pitch_out: u64, width: usize, height: usize) {
        let (address, pitch) = pitched(width, height)?;
        host::put(pitch_out, pitch)?;
        host::put(out, address)
    }

    /// Layers of rows on the device.
    fn cudaMalloc3D(out: u64, extent: Extent) {
        let rows = extent.height.checked_mul(extent.depth).ok_or(Code::INVALID_VALUE)?;
        let (ptr, pitch) = pitched(extent.width, rows)?;
        host::put(out, PitchedPtr { ptr, pitch, xsize: extent.width, ysize: extent.height })
    }

    /// Frees memory of the device.
    fn cudaFree(address: u64) {
        match address {
            0 => Ok(()),
            _ => cu!(cuMemFree_v2(address)),
        }
    }

    /// Frees memory of the host.
    fn cudaFreeHost(address: u64) {
        match address {
            0 => Ok(()),
            _ => cu!(cuMemFreeHost(address)),
        }
    }
}

passes! {
    cudaMallocManaged(out: u64, size: usize, flags: u32) = cuMemAllocManaged;
    cudaMallocAsync(out: u64, size: usize, stream: u64) or cudaMallocAsync_ptsz = cuMemAllocAsync;
    cudaMallocFromPoolAsync(
        out: u64, size: usize, pool: u64, stream: u64,
    ) or cudaMallocFromPoolAsync_ptsz = cuMemAllocFromPoolAsync;
    cudaFreeAsync(address: u64, stream: u64) or cudaFreeAsync_ptsz = cuMemFreeAsync;
    cudaHostRegister(address: u64, size: usize, flags: u32) = cuMemHostRegister_v2;
    cudaHostUnregister(address: u64) = cuMemHostUnregister;
    cudaHostGetDevicePointer(out: u64, address: u64, flags: u32) = cuMemHostGetDevicePointer_v2;
    cudaHostGetFlags(out: u64, address: u64) = cuMemHostGetFlags;
    cudaMemGetInfo(free: u64, total: u64) = cuMemGetInfo_v2;
    cudaMemRangeGetAttribute(
        data: u64, size: usize, attribute: u32, address: u64, count: usize,
    ) = cuMemRangeGetAttribute;
    cudaMemRangeGetAttributes(
        data: u64, sizes: u64, attributes: u64, n_attributes: usize, address: u64, count: usize,
    ) = cuMemRangeGetAttributes;

    #[cfg(cudart13)]
    cudaMemDiscardBatchAsync(
        addresses: u64, sizes: u64, count: usize, flags: u64, stream: u64,
    ) or cudaMemDiscardBatchAsync_ptsz = cuMemDiscardBatchAsync;
    #[cfg(cudart13)]
    cudaMemPrefetchBatchAsync(
        addresses: u64, sizes: u64, count: usize, places: u64, idxs: u64, n_places: usize,
        flags: u64, stream: u64,
    ) or cudaMemPrefetchBatchAsync_ptsz = cuMemPrefetchBatchAsync;
    #[cfg(cudart13)]
    cudaMemDiscardAndPrefetchBatchAsync(
        addresses: u64, sizes: u64, count: usize, places: u64, idxs: u64, n_places: usize,
        flags: u64, stream: u64,
    ) or cudaMemDiscardAndPrefetchBatchAsync_ptsz = cuMemDiscardAndPrefetchBatchAsync;
    #[cfg(cudart13)]
    cudaMemGetLocationInfo(
        address: u64, size: usize, summary: usize, sampling: usize, out: u64,
    ) = cuMemGetLocationInfo;
}

#[cfg(not(cudart13))]
exports! {
    /// A hint.
    fn cudaMemAdvise(address: u64, count: usize, advice: u32, device: i32) {
        cu!(cuMemAdvise_v2(address, count, advice, MemLocation::of_device(device).word()))
    }

    /// A hint.
    fn cudaMemAdvise_v2(address: u64, count: usize, advice: u32, place: MemLocation) {
        cu!(cuMemAdvise_v2(address, count, advice, place.word()))
    }

    /// A hint.
    fn cudaMemPrefetchAsync(
        address: u64, count: usize, device: i32, stream: u64,
    ) or cudaMemPrefetchAsync_ptsz {
        cu!(cuMemPrefetchAsync_v2(address, count, MemLocation::of_device(device).word(), 0_u32, stream))
    }

    /// A hint.
    fn cudaMemPrefetchAsync_v2(
        address: u64, count: usize, place: MemLocation, flags: u32, stream: u64,
    ) or cudaMemPrefetchAsync_v2_ptsz {
        cu!(cuMemPrefetchAsync_v2(address, count, place.word(), flags, stream))
    }
}

#[cfg(cudart13)]
exports! {
    /// A hint.
    fn cudaMemAdvise(address: u64, count: usize, advice: u32, place: MemLocation) {
        cu!(cuMemAdvise_v2(address, count, advice, place.word()))
    }

    /// A hint.
    fn cudaMemPrefetchAsync(
        address: u64, count: usize, place: MemLocation, flags: u32, stream: u64,
    ) or cudaMemPrefetchAsync_ptsz {
        cu!(cuMemPrefetchAsync_v2(address, count, place.word(), flags, stream))
    }
}
