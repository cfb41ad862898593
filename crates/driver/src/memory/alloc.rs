//! Allocations: device, pitched, managed and pinned memory, and memory of the program that is
//! registered.

use crate::capture;
use crate::command::checked;
use crate::context::{self, Context};
use crate::device;
use crate::error::Result;
use crate::findings;
use crate::graph;
use crate::types::{CUdeviceptr, CUmemAttach_flags, CUresult};

use super::{Allocation, REGISTRY, Sort, advice, pool};

/// Alignment of all allocations: that of linear textures, which programs make of them.
const ALIGN: u64 = 512;

/// What a pitch is a multiple of.
const PITCH: usize = 512;

/// Flags of `cuMemHostAlloc`: portable, mapped, write-combined.
const HOST_ALLOC_FLAGS: u32 = 7;

/// Flags of `cuMemHostRegister`: portable, mapped, memory of a device, read-only.
const HOST_REGISTER_FLAGS: u32 = 15;
const IO_MEMORY: u32 = 4;

fn allocate(context: &Context, size: usize, sort: Sort) -> Result<CUdeviceptr> {
    capture::check_call()?;
    if size == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let engine = context.device.engine()?;
    let base = engine.alloc_raw(size as u64, ALIGN).or_else(|_| {
        // Pools may hold memory that is not in use.
        pool::release_all(context.device);
        checked(engine.alloc_raw(size as u64, ALIGN))
    })?;
    REGISTRY.add(context, base, size as u64, sort);
    // The host writes this memory without a call.
    if matches!(sort, Sort::Managed | Sort::Pinned(_)) {
        device::note_written(base, size as u64);
    }
    Ok(base)
}

/// Gives memory back. The registry does not know it any more.
pub(super) fn release(allocation: &Allocation) {
    if allocation.sort == Sort::Managed {
        advice::forget(allocation);
    }
    let engine = device::get(allocation.device).and_then(|device| device.engine());
    let Ok(engine) = engine else { return };
    match allocation.sort {
        Sort::Device | Sort::Managed | Sort::Pinned(_) | Sort::Graph => {
            // The engine knows the allocation, as it made it.
            let _ = engine.free_raw(allocation.base);
        }
        Sort::Pool(handle) => pool::give_back(allocation, handle),
        Sort::Registered(_) => {
            let _ = engine.unregister_host(allocation.base);
        }
        // A module's, or one that the program unmaps.
        Sort::Global | Sort::ManagedGlobal | Sort::Virtual => {}
    }
}

/// `cuMemAlloc`.
pub fn alloc(size: usize) -> Result<CUdeviceptr> {
    allocate(&*context::current()?, size, Sort::Device)
}

/// `cuMemAllocPitch`: address and pitch.
pub fn alloc_pitch(width: usize, height: usize, element: u32) -> Result<(CUdeviceptr, usize)> {
    let context = context::current()?;
    if ![4, 8, 16].contains(&element) || width == 0 || height == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let pitch = width.checked_next_multiple_of(PITCH);
    let size = pitch.and_then(|pitch| Some((pitch, pitch.checked_mul(height)?)));
    let (pitch, size) = size.ok_or(CUresult::OUT_OF_MEMORY)?;
    Ok((allocate(&context, size, Sort::Device)?, pitch))
}

/// `cuMemAllocManaged`.
pub fn alloc_managed(size: usize, flags: u32) -> Result<CUdeviceptr> {
    let flags = CUmemAttach_flags(flags);
    if flags != CUmemAttach_flags::GLOBAL && flags != CUmemAttach_flags::HOST {
        return Err(CUresult::INVALID_VALUE);
    }
    allocate(&*context::current()?, size, Sort::Managed)
}

/// `cuMemHostAlloc`, and `cuMemAllocHost` without flags.
pub fn host_alloc(size: usize, flags: u32) -> Result<u64> {
    if flags & !HOST_ALLOC_FLAGS != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let context = context::current()?;
    if size == 0 {
        return Ok(0);
    }
    allocate(&context, size, Sort::Pinned(flags))
}

/// `cuMemFree`. Waits for what runs, as the memory may be in use. Address 0 is fine without a
/// context, too.
pub fn free(addr: CUdeviceptr) -> Result<()> {
    if addr == 0 {
        return Ok(());
    }
    let context = context::current_even_failed()?;
    capture::check_call()?;
    if graph::is_memory(addr) {
        context.wait();
        return graph::free(addr);
    }
    let is_right = |sort| matches!(sort, Sort::Device | Sort::Managed | Sort::Pool(_));
    if !REGISTRY
        .find(addr)
        .is_some_and(|found| found.base == addr && is_right(found.sort))
    {
        findings::bad_free(addr);
        return Err(CUresult::INVALID_VALUE);
    }
    // Memory of a context that has failed can be freed without an error.
    context.wait();
    release(&*REGISTRY.take(addr, is_right)?);
    Ok(())
}

/// `cuMemFreeHost`.
pub fn free_host(addr: u64) -> Result<()> {
    let context = context::current_even_failed()?;
    if addr == 0 {
        return Ok(());
    }
    capture::check_call()?;
    let allocation = REGISTRY.take(addr, |sort| matches!(sort, Sort::Pinned(_)));
    let allocation = allocation.inspect_err(|_| findings::bad_free(addr))?;
    context.wait();
    release(&allocation);
    Ok(())
}

/// `cuMemHostGetDevicePointer`.
pub fn host_device_pointer(addr: u64, flags: u32) -> Result<CUdeviceptr> {
    context::current()?;
    let allocation = REGISTRY.find(addr).ok_or(CUresult::INVALID_VALUE)?;
    match (allocation.sort, flags) {
        (Sort::Pinned(_) | Sort::Registered(_), 0) => Ok(addr),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// `cuMemHostGetFlags`.
pub fn host_flags(addr: u64) -> Result<u32> {
    context::current()?;
    match REGISTRY.find(addr).ok_or(CUresult::INVALID_VALUE)?.sort {
        // All pinned memory can be reached by devices.
        Sort::Pinned(flags) => Ok(flags | 2),
        Sort::Registered(flags) => Ok(flags & 3 | 2),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// `cuMemHostRegister`.
pub fn host_register(addr: u64, size: usize, flags: u32) -> Result<()> {
    let context = context::current()?;
    let is_range = addr != 0 && size != 0 && addr.checked_add(size as u64).is_some();
    if flags & !HOST_REGISTER_FLAGS != 0 || !is_range {
        return Err(CUresult::INVALID_VALUE);
    }
    if REGISTRY.overlaps(addr, size as u64) {
        return Err(CUresult::HOST_MEMORY_ALREADY_REGISTERED);
    }
    if flags & IO_MEMORY != 0 {
        return Err(CUresult::NOT_SUPPORTED);
    }
    crate::host::check_pages(addr, size as u64)?;
    crate::host::register(context.device.engine()?, addr, size as u64)?;
    REGISTRY.add(&context, addr, size as u64, Sort::Registered(flags));
    Ok(())
}

/// `cuMemHostUnregister`.
pub fn host_unregister(addr: u64) -> Result<()> {
    let context = context::current_even_failed()?;
    let is_registered = |sort| matches!(sort, Sort::Registered(_));
    // An address inside a registered range is the wrong one of memory that is known.
    let is_inside = REGISTRY
        .find(addr)
        .is_some_and(|found| is_registered(found.sort) && found.base != addr);
    if is_inside {
        return Err(CUresult::INVALID_VALUE);
    }
    let allocation = REGISTRY.take(addr, is_registered);
    let allocation = allocation.map_err(|_| CUresult::HOST_MEMORY_NOT_REGISTERED)?;
    context.wait();
    release(&allocation);
    Ok(())
}

/// `cuMemGetInfo`: free and total bytes.
pub fn info() -> Result<(usize, usize)> {
    let device = context::current()?.device;
    let total = device.figures.memory;
    let used = device.engine()?.used_bytes();
    Ok((total.saturating_sub(used) as usize, total as usize))
}

/// `cuMemGetAddressRange`: start and size of the allocation that holds an address.
pub fn address_range(addr: CUdeviceptr) -> Result<(CUdeviceptr, usize)> {
    context::current()?;
    // What an unknown pointer gives.
    let found = REGISTRY.find(addr).ok_or(CUresult::NOT_FOUND)?;
    Ok((found.base, found.size as usize))
}
