//! Memory that nodes allocate and free.
//!
//! An allocation has its address from the making of its node on, and the memory stays with the
//! graph and what was instantiated from it. So running an allocation means only that the memory is
//! in use from there on. It can be freed by a node of the same graph, by one of another, or by the
//! program.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;

use crate::capture;
use crate::command::{Command, checked};
use crate::context;
use crate::device::{self, Device};
use crate::error::Result;
use crate::memory::{REGISTRY, Sort};
use crate::stream::Stream;
use crate::types::{
    CUDA_MEM_ALLOC_NODE_PARAMS, CUdeviceptr, CUgraphMem_attribute, CUmemAllocationType,
    CUmemLocationType, CUresult,
};

use super::work::Work;

/// Alignment of allocations.
const ALIGN: u64 = 256;

/// Memory of an allocation node.
pub(crate) struct GraphMemory {
    /// What programs are told; `dptr` is the address.
    pub(crate) params: CUDA_MEM_ALLOC_NODE_PARAMS,
    device: &'static Device,
    /// That of the allocation.
    id: u64,
    /// A launch that was made has allocated it, and no call that was made has freed it.
    is_live: AtomicBool,
    /// The same for what has run.
    is_used: AtomicBool,
}

/// All memory of nodes by address, and what of it outlives its graph until the program frees it.
static MEMORY: LazyLock<Mutex<HashMap<u64, Weak<GraphMemory>>>> = LazyLock::new(Mutex::default);
static KEPT: LazyLock<Mutex<HashMap<u64, Arc<GraphMemory>>>> = LazyLock::new(Mutex::default);

/// Bytes of a device's graphs.
#[derive(Copy, Clone, Default)]
struct Usage {
    used: u64,
    used_high: u64,
    reserved: u64,
    reserved_high: u64,
}

static USAGE: LazyLock<Mutex<HashMap<i32, Usage>>> = LazyLock::new(Mutex::default);

fn count(device: &Device, change: impl FnOnce(&mut Usage)) {
    let mut all = USAGE.lock();
    let usage = all.entry(device.ordinal).or_default();
    change(usage);
    usage.used_high = usage.used_high.max(usage.used);
    usage.reserved_high = usage.reserved_high.max(usage.reserved);
}

impl Drop for GraphMemory {
    fn drop(&mut self) {
        self.set_used(false);
        let (address, size) = (self.params.dptr, self.params.bytesize as u64);
        // A context that ended has taken it already.
        let is_own = REGISTRY
            .find(address)
            .is_some_and(|known| known.id == self.id);
        if is_own
            && REGISTRY.take(address, |sort| sort == Sort::Graph).is_ok()
            && let Ok(engine) = self.device.engine()
        {
            let _ = engine.free_raw(address);
        }
        count(self.device, |usage| usage.reserved -= size);
    }
}

impl GraphMemory {
    /// Memory for a new node.
    pub(super) fn new(mut params: CUDA_MEM_ALLOC_NODE_PARAMS) -> Result<Arc<GraphMemory>> {
        let context = context::current()?;
        let device = match params.poolProps.location.id {
            id if id == context.device.ordinal => context.device,
            id => device::get(id).map_err(|_| CUresult::INVALID_VALUE)?,
        };
        if params.bytesize == 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        let size = params.bytesize as u64;
        params.dptr = checked(device.engine()?.alloc_raw(size, ALIGN))?;
        // The array belongs to the program, which may have freed it when it asks.
        params.accessDescs = Default::default();
        params.accessDescCount = 0;
        let id = REGISTRY.add(&context, params.dptr, size, Sort::Graph).id;
        count(device, |usage| usage.reserved += size);
        let memory = Arc::new(GraphMemory {
            params,
            device,
            id,
            is_live: AtomicBool::new(false),
            is_used: AtomicBool::new(false),
        });
        MEMORY.lock().insert(params.dptr, Arc::downgrade(&memory));
        Ok(memory)
    }

    /// Notes at a launch that the memory is allocated, or no more; what it was before.
    pub(super) fn set_live(self: &Arc<GraphMemory>, is_live: bool) -> bool {
        let mut kept = KEPT.lock();
        match is_live {
            true => kept.insert(self.params.dptr, self.clone()),
            false => kept.remove(&self.params.dptr),
        };
        self.is_live.swap(is_live, Ordering::AcqRel)
    }

    /// Whether a launch has allocated it that was not followed by a free.
    pub(super) fn is_live(&self) -> bool {
        self.is_live.load(Ordering::Acquire)
    }

    /// Counts the memory as a stream reaches its allocation or its end.
    pub(super) fn set_used(&self, is_used: bool) {
        if self.is_used.swap(is_used, Ordering::AcqRel) != is_used {
            let size = self.params.bytesize as u64;
            count(self.device, |usage| match is_used {
                true => usage.used += size,
                false => usage.used -= size,
            });
        }
    }
}

/// The memory of a node by its address.
pub(super) fn find(address: CUdeviceptr) -> Result<Arc<GraphMemory>> {
    let memory = MEMORY.lock().get(&address).and_then(Weak::upgrade);
    memory.ok_or(CUresult::INVALID_VALUE)
}

/// Frees memory that a graph has allocated, by a call of the program that has waited for the graph.
pub(crate) fn free(address: CUdeviceptr) -> Result<()> {
    let memory = find(address)?;
    match memory.set_live(false) {
        true => memory.set_used(false),
        false => return Err(CUresult::INVALID_VALUE),
    }
    Ok(())
}

/// Whether memory was allocated by a node.
pub(crate) fn is_memory(address: CUdeviceptr) -> bool {
    find(address).is_ok()
}

/// `cuMemFreeAsync` of what a graph has allocated.
pub(crate) fn free_async(address: CUdeviceptr, stream: &Arc<Stream>) -> Result<()> {
    let memory = find(address)?;
    if !memory.is_live() {
        return Err(CUresult::INVALID_VALUE);
    }
    let work = memory.clone();
    let work = move || {
        work.set_used(false);
        Ok(())
    };
    stream.submit(Command::Work(Box::new(work)))?;
    memory.set_live(false);
    Ok(())
}

/// `cuMemAllocAsync` in a stream that is captured.
pub(crate) fn capture_alloc(stream: &Arc<Stream>, size: usize) -> Result<CUdeviceptr> {
    let device = stream.context()?.device;
    let mut params = CUDA_MEM_ALLOC_NODE_PARAMS {
        bytesize: size,
        ..CUDA_MEM_ALLOC_NODE_PARAMS::default()
    };
    params.poolProps.allocType = CUmemAllocationType::PINNED;
    params.poolProps.location.type_ = CUmemLocationType::DEVICE;
    params.poolProps.location.id = device.ordinal;
    let mut address = 0;
    capture::add(stream, || {
        let memory = GraphMemory::new(params)?;
        address = memory.params.dptr;
        Ok(Work::Alloc(memory))
    })?;
    Ok(address)
}

/// `cuMemFreeAsync` in a stream that is captured.
pub(crate) fn capture_free(stream: &Arc<Stream>, address: CUdeviceptr) -> Result<()> {
    match find(address) {
        Ok(memory) => capture::add(stream, || Ok(Work::Free(memory))),
        // Memory that no graph has allocated.
        Err(_) => Err(capture::forbidden(stream)),
    }
}

// --- The interface ---

/// `cuDeviceGraphMemTrim`: memory goes back with its graph, so that there is never anything to
/// trim.
pub fn device_mem_trim(device: i32) -> Result<()> {
    device::get(device)?;
    let mut known = MEMORY.lock();
    known.retain(|_, memory| memory.strong_count() != 0);
    Ok(())
}

/// `cuDeviceGetGraphMemAttribute`.
pub fn device_get_mem_attribute(device: i32, attribute: CUgraphMem_attribute) -> Result<u64> {
    let device = device::get(device)?;
    let usage = USAGE.lock().get(&device.ordinal).copied();
    let usage = usage.unwrap_or_default();
    match attribute {
        CUgraphMem_attribute::USED_MEM_CURRENT => Ok(usage.used),
        CUgraphMem_attribute::USED_MEM_HIGH => Ok(usage.used_high),
        CUgraphMem_attribute::RESERVED_MEM_CURRENT => Ok(usage.reserved),
        CUgraphMem_attribute::RESERVED_MEM_HIGH => Ok(usage.reserved_high),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// `cuDeviceSetGraphMemAttribute`: the marks of high tide can be set to 0, which means what is
/// there now.
pub fn device_set_mem_attribute(
    device: i32,
    attribute: CUgraphMem_attribute,
    value: u64,
) -> Result<()> {
    let device = device::get(device)?;
    if value != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    match attribute {
        CUgraphMem_attribute::USED_MEM_HIGH => count(device, |usage| usage.used_high = 0),
        CUgraphMem_attribute::RESERVED_MEM_HIGH => count(device, |usage| usage.reserved_high = 0),
        _ => return Err(CUresult::INVALID_VALUE),
    }
    Ok(())
}
