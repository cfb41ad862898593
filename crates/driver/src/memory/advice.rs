//! Advice on managed memory.
//!
//! All memory is the host's, so advice changes nothing but what programs are told when they ask for
//! it. It is kept by ranges of bytes: neighbors with other advice are other ranges.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::device;
use crate::error::Result;
use crate::stream;
use crate::types::{
    CU_DEVICE_CPU, CU_DEVICE_INVALID, CUdeviceptr, CUmem_advise, CUmem_range_attribute,
    CUmemAttach_flags, CUmemLocation, CUmemLocationType, CUresult, CUstream, HostPtr,
};
use crate::{host, state};

use super::{Allocation, REGISTRY};

/// What a program has said of some bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Advice {
    read_mostly: bool,
    preferred: Option<CUmemLocation>,
    accessed_by: Vec<i32>,
    prefetched: Option<CUmemLocation>,
}

/// A range up to `end`.
#[derive(Clone, Debug)]
struct Piece {
    end: u64,
    advice: Advice,
}

/// Ranges with advice, by first address. They do not overlap.
static PIECES: Mutex<BTreeMap<u64, Piece>> = Mutex::new(BTreeMap::new());

/// Makes an address the start of a piece if it lies in one.
fn split(pieces: &mut BTreeMap<u64, Piece>, at: u64) {
    let Some((_, piece)) = pieces.range_mut(..at).next_back() else {
        return;
    };
    if piece.end > at {
        let rest = piece.clone();
        piece.end = at;
        pieces.insert(at, rest);
    }
}

/// Changes the advice on a range.
fn change(start: u64, end: u64, change: impl Fn(&mut Advice)) {
    let mut pieces = PIECES.lock();
    split(&mut pieces, start);
    split(&mut pieces, end);
    let mut gaps = Vec::new();
    let mut at = start;
    for (&first, piece) in pieces.range_mut(start..end) {
        if at < first {
            gaps.push((at, first));
        }
        change(&mut piece.advice);
        at = piece.end;
    }
    if at < end {
        gaps.push((at, end));
    }
    for (start, end) in gaps {
        let mut advice = Advice::default();
        change(&mut advice);
        pieces.insert(start, Piece { end, advice });
    }
}

/// Forgets what was said of memory that is freed.
pub(super) fn forget(allocation: &Allocation) {
    let (start, end) = (allocation.base, allocation.base + allocation.size);
    let mut pieces = PIECES.lock();
    pieces.retain(|&first, _| first < start || first >= end);
}

/// The advice on all parts of a range.
fn of(start: u64, end: u64) -> Vec<Advice> {
    let mut pieces = PIECES.lock();
    split(&mut pieces, start);
    split(&mut pieces, end);
    let mut found = Vec::new();
    let mut at = start;
    for (&first, piece) in pieces.range(start..end) {
        if at < first {
            found.push(Advice::default());
        }
        found.push(piece.advice.clone());
        at = piece.end;
    }
    if at < end {
        found.push(Advice::default());
    }
    found
}

/// The end of a range that lies in managed memory.
fn managed_end(addr: u64, len: usize) -> Result<u64> {
    let allocation = REGISTRY.find_range(addr, len as u64);
    let is_managed = allocation.is_some_and(|found| found.is_managed());
    match len != 0 && is_managed {
        true => Ok(addr + len as u64),
        false => Err(CUresult::INVALID_VALUE),
    }
}

/// A device, or -1 for the host, as a location.
pub fn location_of(device: i32) -> CUmemLocation {
    match device {
        CU_DEVICE_CPU => CUmemLocation {
            type_: CUmemLocationType::HOST,
            id: 0,
        },
        _ => CUmemLocation {
            type_: CUmemLocationType::DEVICE,
            id: device,
        },
    }
}

fn check_location(location: CUmemLocation) -> Result<()> {
    match location.type_ {
        CUmemLocationType::DEVICE => device::get(location.id).map(|_| ()),
        CUmemLocationType::HOST | CUmemLocationType::HOST_NUMA_CURRENT => Ok(()),
        CUmemLocationType::HOST_NUMA if location.id >= 0 => Ok(()),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// A location as the functions of before CUDA 12.2 have it.
fn device_of(location: Option<CUmemLocation>) -> i32 {
    match location {
        Some(location) if location.type_ == CUmemLocationType::DEVICE => location.id,
        Some(location) if location.type_ == CUmemLocationType::HOST => CU_DEVICE_CPU,
        Some(_) | None => CU_DEVICE_INVALID,
    }
}

// --- The interface ---

/// `cuMemAdvise`.
pub fn advise(
    addr: CUdeviceptr,
    len: usize,
    advice: CUmem_advise,
    location: CUmemLocation,
) -> Result<()> {
    state::state()?;
    let end = managed_end(addr, len)?;
    match advice {
        CUmem_advise::SET_READ_MOSTLY => change(addr, end, |piece| piece.read_mostly = true),
        CUmem_advise::UNSET_READ_MOSTLY => change(addr, end, |piece| piece.read_mostly = false),
        CUmem_advise::SET_PREFERRED_LOCATION => {
            check_location(location)?;
            change(addr, end, |piece| piece.preferred = Some(location));
        }
        CUmem_advise::UNSET_PREFERRED_LOCATION => change(addr, end, |piece| piece.preferred = None),
        CUmem_advise::SET_ACCESSED_BY | CUmem_advise::UNSET_ACCESSED_BY => {
            check_location(location)?;
            let accessor = device_of(Some(location));
            // Only devices and the host as a whole access memory.
            if accessor == CU_DEVICE_INVALID {
                return Err(CUresult::INVALID_VALUE);
            }
            let is_set = advice == CUmem_advise::SET_ACCESSED_BY;
            change(addr, end, |piece| {
                piece.accessed_by.retain(|&known| known != accessor);
                if is_set {
                    piece.accessed_by.push(accessor);
                }
            });
        }
        _ => return Err(CUresult::INVALID_VALUE),
    }
    Ok(())
}

/// `cuMemPrefetchAsync`.
pub fn prefetch(
    addr: CUdeviceptr,
    len: usize,
    location: CUmemLocation,
    flags: u32,
    stream: CUstream,
) -> Result<()> {
    stream::get(stream)?;
    if flags != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let end = managed_end(addr, len)?;
    check_location(location)?;
    change(addr, end, |piece| piece.prefetched = Some(location));
    Ok(())
}

/// Ranges of managed memory, as batches have them: address and bytes.
pub type ManagedRange = (CUdeviceptr, usize);

/// What batches of ranges have in common: the stream is not the legacy default stream, and all
/// memory is managed.
fn check_batch(ranges: &[ManagedRange], flags: u64, stream: CUstream) -> Result<()> {
    let is_legacy = stream::get(stream)?.role == stream::Role::Legacy;
    if is_legacy || flags != 0 || ranges.is_empty() {
        return Err(CUresult::INVALID_VALUE);
    }
    for &(addr, len) in ranges {
        managed_end(addr, len)?;
    }
    Ok(())
}

/// `cuMemDiscardBatchAsync`: contents that a program gives up may as well stay.
pub fn discard_batch(ranges: &[ManagedRange], flags: u64, stream: CUstream) -> Result<()> {
    check_batch(ranges, flags, stream)
}

/// `cuMemPrefetchBatchAsync` and `cuMemDiscardAndPrefetchBatchAsync`: `firsts` has the first range
/// that each location is for.
pub fn prefetch_batch(
    ranges: &[ManagedRange],
    locations: &[CUmemLocation],
    firsts: &[usize],
    flags: u64,
    stream: CUstream,
) -> Result<()> {
    check_batch(ranges, flags, stream)?;
    let is_rising = firsts.first() == Some(&0) && firsts.is_sorted_by(|a, b| a < b);
    let is_within = firsts.last().is_some_and(|&last| last < ranges.len());
    if locations.len() != firsts.len() || !is_rising || !is_within {
        return Err(CUresult::INVALID_VALUE);
    }
    for &location in locations {
        check_location(location)?;
    }
    for (idx, &(addr, len)) in ranges.iter().enumerate() {
        let of = firsts.partition_point(|&first| first <= idx) - 1;
        prefetch(addr, len, locations[of], 0, stream)?;
    }
    Ok(())
}

/// `cuMemRangeGetAttribute`: the values, each of four bytes, that fill `size` bytes.
pub fn range_attribute(
    attribute: CUmem_range_attribute,
    size: usize,
    addr: CUdeviceptr,
    len: usize,
) -> Result<Vec<i32>> {
    state::state()?;
    let parts = of(addr, managed_end(addr, len)?);
    // What all parts agree on.
    let common = |get: fn(&Advice) -> Option<CUmemLocation>| {
        let first = get(&parts[0]);
        first.filter(|_| parts.iter().all(|part| get(part) == first))
    };
    let preferred = || common(|part| part.preferred);
    let prefetched = || common(|part| part.prefetched);
    let kind = |location: Option<CUmemLocation>| location.map_or(0, |at| at.type_.0 as i32);
    let id = |location: Option<CUmemLocation>| location.map_or(CU_DEVICE_INVALID, |at| at.id);
    let value = match attribute {
        CUmem_range_attribute::READ_MOSTLY => i32::from(parts.iter().all(|part| part.read_mostly)),
        CUmem_range_attribute::PREFERRED_LOCATION => device_of(preferred()),
        CUmem_range_attribute::LAST_PREFETCH_LOCATION => device_of(prefetched()),
        CUmem_range_attribute::PREFERRED_LOCATION_TYPE => kind(preferred()),
        CUmem_range_attribute::PREFERRED_LOCATION_ID => id(preferred()),
        CUmem_range_attribute::LAST_PREFETCH_LOCATION_TYPE => kind(prefetched()),
        CUmem_range_attribute::LAST_PREFETCH_LOCATION_ID => id(prefetched()),
        CUmem_range_attribute::ACCESSED_BY => return accessors(&parts, size),
        _ => return Err(CUresult::INVALID_VALUE),
    };
    match size {
        4 => Ok(vec![value]),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// Who accesses all parts; what is left of the room is filled with a device that is none.
fn accessors(parts: &[Advice], size: usize) -> Result<Vec<i32>> {
    /// More than any number of devices.
    const MAX_SIZE: usize = 1 << 16;
    if size == 0 || !size.is_multiple_of(4) || size > MAX_SIZE {
        return Err(CUresult::INVALID_VALUE);
    }
    let by_all = |device: &&i32| parts.iter().all(|part| part.accessed_by.contains(device));
    let mut devices: Vec<i32> = parts[0]
        .accessed_by
        .iter()
        .filter(by_all)
        .copied()
        .collect();
    devices.resize(size / 4, CU_DEVICE_INVALID);
    Ok(devices)
}

/// `cuMemRangeGetAttribute` and each of `cuMemRangeGetAttributes`, with the result put where the
/// client wants it.
pub fn put_range_attribute(
    to: HostPtr,
    size: usize,
    attribute: CUmem_range_attribute,
    addr: CUdeviceptr,
    len: usize,
) -> Result<()> {
    if to.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    host::put_all(to.0, &range_attribute(attribute, size, addr, len)?)
}

/// `cuStreamAttachMemAsync`: kernels of all streams can use managed memory in any case.
pub fn attach(stream: CUstream, addr: CUdeviceptr, len: usize, flags: u32) -> Result<()> {
    let is_default = stream.is_null() || stream == CUstream::LEGACY;
    stream::get(stream)?;
    let found = REGISTRY.find(addr).filter(|found| found.is_managed());
    let found = found.ok_or(CUresult::INVALID_VALUE)?;
    let is_whole = addr == found.base && len as u64 == found.size;
    if len != 0 && !is_whole {
        return Err(CUresult::INVALID_VALUE);
    }
    match CUmemAttach_flags(flags) {
        CUmemAttach_flags::GLOBAL | CUmemAttach_flags::HOST => Ok(()),
        CUmemAttach_flags::SINGLE if !is_default => Ok(()),
        _ => Err(CUresult::INVALID_VALUE),
    }
}
