//! Attributes of pointers, and advice on managed memory.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::memory::advice::ManagedRange;
use ptxjit_driver::memory::{advice, pointer};
use ptxjit_driver::types::{
    CUdeviceptr, CUmem_advise, CUmem_range_attribute, CUmemLocation, CUpointer_attribute, CUresult,
    CUstream, HostPtr,
};
use ptxjit_driver::{Result, host};

use crate::call::{In, exports};

/// Ranges of a batch.
fn ranges(addresses: In<CUdeviceptr>, sizes: In<usize>, count: usize) -> Result<Vec<ManagedRange>> {
    let sizes = sizes.get_all(count)?;
    Ok(addresses.get_all(count)?.into_iter().zip(sizes).collect())
}

exports! {
    /// An attribute of a pointer.
    fn cuPointerGetAttribute(out: HostPtr, attribute: CUpointer_attribute, address: CUdeviceptr) {
        pointer::attribute(attribute, address)?.put(out.0)
    }

    /// Attributes of a pointer.
    fn cuPointerGetAttributes(
        count: u32, attributes: In<CUpointer_attribute>, out: In<HostPtr>, address: CUdeviceptr,
    ) {
        let places = out.get_all(count as usize)?;
        let values = pointer::attributes(&attributes.get_all(count as usize)?, address)?;
        places.iter().zip(values).try_for_each(|(place, value)| value.put(place.0))
    }

    /// Sets an attribute of a pointer.
    fn cuPointerSetAttribute(value: HostPtr, attribute: CUpointer_attribute, address: CUdeviceptr) {
        pointer::set_attribute(value.0, attribute, address)
    }

    /// Advice on managed memory.
    fn cuMemAdvise(address: CUdeviceptr, count: usize, advice: CUmem_advise, device: i32) {
        advice::advise(address, count, advice, advice::location_of(device))
    }

    /// Advice on managed memory.
    fn cuMemAdvise_v2(
        address: CUdeviceptr, count: usize, advice: CUmem_advise, location: CUmemLocation,
    ) {
        advice::advise(address, count, advice, location)
    }

    /// Has managed memory come to a device.
    fn cuMemPrefetchAsync(
        address: CUdeviceptr, count: usize, device: i32, stream: CUstream,
    ) or cuMemPrefetchAsync_ptsz {
        advice::prefetch(address, count, advice::location_of(device), 0, stream)
    }

    /// Has managed memory come to a place.
    fn cuMemPrefetchAsync_v2(
        address: CUdeviceptr, count: usize, location: CUmemLocation, flags: u32, stream: CUstream,
    ) or cuMemPrefetchAsync_v2_ptsz {
        advice::prefetch(address, count, location, flags, stream)
    }

    /// Gives up the contents of managed memory.
    fn cuMemDiscardBatchAsync(
        addresses: In<CUdeviceptr>, sizes: In<usize>, count: usize, flags: u64, stream: CUstream,
    ) or cuMemDiscardBatchAsync_ptsz {
        advice::discard_batch(&ranges(addresses, sizes, count)?, flags, stream)
    }

    /// Has ranges of managed memory come to places.
    fn cuMemPrefetchBatchAsync(
        addresses: In<CUdeviceptr>, sizes: In<usize>, count: usize, places: In<CUmemLocation>,
        firsts: In<usize>, n_places: usize, flags: u64, stream: CUstream,
    ) or cuMemPrefetchBatchAsync_ptsz {
        let (ranges, places) = (ranges(addresses, sizes, count)?, places.get_all(n_places)?);
        advice::prefetch_batch(&ranges, &places, &firsts.get_all(n_places)?, flags, stream)
    }

    /// Gives up the contents of managed memory, and has it come to places.
    fn cuMemDiscardAndPrefetchBatchAsync(
        addresses: In<CUdeviceptr>, sizes: In<usize>, count: usize, places: In<CUmemLocation>,
        firsts: In<usize>, n_places: usize, flags: u64, stream: CUstream,
    ) or cuMemDiscardAndPrefetchBatchAsync_ptsz {
        let (ranges, places) = (ranges(addresses, sizes, count)?, places.get_all(n_places)?);
        advice::prefetch_batch(&ranges, &places, &firsts.get_all(n_places)?, flags, stream)
    }

    /// Ties managed memory to a stream.
    fn cuStreamAttachMemAsync(
        stream: CUstream, address: CUdeviceptr, length: usize, flags: u32,
    ) or cuStreamAttachMemAsync_ptsz {
        advice::attach(stream, address, length, flags)
    }

    /// What was said of managed memory.
    fn cuMemRangeGetAttribute(
        out: HostPtr, size: usize, attribute: CUmem_range_attribute, address: CUdeviceptr,
        count: usize,
    ) {
        advice::put_range_attribute(out, size, attribute, address, count)
    }

    /// What was said of managed memory.
    fn cuMemRangeGetAttributes(
        out: In<HostPtr>, sizes: In<usize>, attributes: In<CUmem_range_attribute>,
        n_attributes: usize, address: CUdeviceptr, count: usize,
    ) {
        if n_attributes == 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        let attributes = attributes.get_all(n_attributes)?;
        for (idx, attribute) in attributes.into_iter().enumerate() {
            let place = host::get(out.address() + 8 * idx as u64)?;
            let size = host::get(sizes.address() + 8 * idx as u64)?;
            advice::put_range_attribute(place, size, attribute, address, count)?;
        }
        Ok(())
    }
}
