//! Memory pools: allocations in the order of streams.
//!
//! Memory is given out at the call. What is ordered is the free: a block that was freed in a stream
//! may be used again by that stream at once, as its later commands run after those that used the
//! block, and by other streams once the commands before the free have run ([`Block::mark`]). So
//! neither an allocation nor a free is a command, and no system call is made while a pool has a
//! block of the right size.
//!
//! A pool gives free memory back to the device beyond its release threshold when the program
//! synchronizes, and all of it when the device runs out of memory. Under memcheck blocks are not
//! used again and are as long as was asked for, so that late accesses and those past the end are
//! found.

mod places;
mod settings;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use ptxjit_persona::Config;

use crate::command::{Command, checked};
use crate::device::{self, Device};
use crate::error::Result;
use crate::findings;
use crate::graph;
use crate::handle::{Kind, Object, Slab};
use crate::stream::{self, Deps, Mark, Stream};
use crate::types::{
    CUdeviceptr, CUmemAccess_flags, CUmemAllocationHandleType, CUmemAllocationType, CUmemLocation,
    CUmemLocationType, CUmemPoolProps, CUmemoryPool, CUresult, CUstream,
};

use super::{Allocation, REGISTRY, Sort, advice, alloc};
pub use places::{current_pool_at, default_pool_at, set_current_pool_at};
pub use settings::*;

pub(crate) static POOLS: Slab<Pool> = Slab::new(Kind::Pool);

/// Whether a pool may hold more than its release threshold.
static HAS_EXCESS: AtomicBool = AtomicBool::new(false);

/// Blocks are multiples of this.
const UNIT: u64 = 512;

/// Blocks of a size that are looked at for one that can be used again.
const MAX_LOOKS: usize = 32;

/// A pool.
pub(crate) struct Pool {
    handle: u64,
    pub(crate) device: &'static Device,
    pub(crate) props: CUmemPoolProps,
    is_default: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Blocks that were freed, by size.
    free: BTreeMap<u64, Vec<Block>>,
    /// Bytes of the device that the pool holds, and those of them that the program has.
    reserved: Count,
    used: Count,
    release_threshold: u64,
    reuse: Reuse,
    /// Access of other devices, by ordinal.
    access: HashMap<i32, CUmemAccess_flags>,
    is_destroyed: bool,
}

/// What a pool may do to use memory again; on until the program says otherwise.
struct Reuse {
    follow_events: bool,
    opportunistic: bool,
    internal_dependencies: bool,
}

impl Default for Reuse {
    fn default() -> Reuse {
        Reuse {
            follow_events: true,
            opportunistic: true,
            internal_dependencies: true,
        }
    }
}

/// A number of bytes and the highest that it was.
#[derive(Copy, Clone, Default)]
struct Count {
    current: u64,
    high: u64,
}

impl Count {
    fn add(&mut self, bytes: u64) {
        self.current += bytes;
        self.high = self.high.max(self.current);
    }
}

/// Memory that was freed.
struct Block {
    base: u64,
    /// The last command that may use it; none if all have run.
    mark: Option<Mark>,
}

impl Block {
    fn is_done(&self) -> bool {
        self.mark.as_ref().is_none_or(Mark::is_done)
    }

    /// Whether commands that `stream` gets from now on may use the memory.
    fn is_free_for(&self, stream: &Arc<Stream>, reuse: &Reuse) -> bool {
        let is_own = |mark: &Mark| Arc::ptr_eq(&mark.stream, stream);
        match &self.mark {
            None => true,
            Some(mark) => is_own(mark) || (reuse.opportunistic && mark.is_done()),
        }
    }
}

/// The pools of a device.
#[derive(Default)]
pub(crate) struct DevicePools {
    default: OnceLock<Arc<Pool>>,
    current: Mutex<Option<Arc<Pool>>>,
}

impl Object for Pool {
    fn handle(&self) -> u64 {
        self.handle
    }
}

impl Pool {
    fn new(handle: u64, device: &'static Device, props: CUmemPoolProps, is_default: bool) -> Pool {
        Pool {
            handle,
            device,
            props,
            is_default,
            state: Mutex::default(),
        }
    }

    /// The handle as the interface has it.
    pub(crate) fn raw(&self) -> CUmemoryPool {
        CUmemoryPool(self.handle)
    }

    /// Whether the memory is the host's: only its tag differs.
    pub(crate) fn is_host(&self) -> bool {
        self.props.location.type_ != CUmemLocationType::DEVICE
    }

    /// Whether the memory is managed.
    pub(crate) fn is_managed(&self) -> bool {
        self.props.allocType == CUmemAllocationType::MANAGED
    }

    /// Allocates for commands that `stream` gets from now on.
    fn alloc(&self, size: u64, stream: &Arc<Stream>) -> Result<CUdeviceptr> {
        let capacity = match keeps_blocks() {
            true => size.checked_next_multiple_of(UNIT),
            false => Some(size),
        };
        let capacity = capacity.ok_or(CUresult::OUT_OF_MEMORY)?;
        let take_free = || self.state.lock().take_free(capacity, stream);
        let reused = keeps_blocks().then(take_free).flatten();
        let (base, capacity) = match reused {
            Some(block) => block,
            None => self.alloc_fresh(capacity, stream)?,
        };
        REGISTRY.insert(Allocation {
            base,
            size,
            capacity,
            sort: Sort::Pool(self.handle),
            context: 0,
            device: self.device.ordinal,
            id: 0,
            site: None,
            sync_memops: AtomicBool::new(false),
        });
        Ok(base)
    }

    /// Gets a block from the device, or one that the stream must wait for if there is no other.
    fn alloc_fresh(&self, capacity: u64, stream: &Arc<Stream>) -> Result<(u64, u64)> {
        let engine = self.device.engine()?;
        let alloc = || {
            let mut state = self.state.lock();
            if self.props.maxSize != 0 && state.would_exceed(capacity, self.props.maxSize as u64) {
                return Err(CUresult::OUT_OF_MEMORY);
            }
            // Room is counted before another thread can take it, as the lock is held.
            let base = checked(engine.alloc_raw(capacity, UNIT))?;
            state.reserved.add(capacity);
            state.used.add(capacity);
            Ok((base, capacity))
        };
        if let Ok(block) = alloc() {
            return Ok(block);
        }
        self.release(0);
        release_all(self.device);
        if let Ok(block) = alloc() {
            return Ok(block);
        }
        let waiting = self.state.lock().take_waiting(capacity);
        let (block, mark) = waiting.ok_or(CUresult::OUT_OF_MEMORY)?;
        stream.submit_after(Deps::from_iter(mark), Command::Nothing)?;
        Ok(block)
    }

    /// Takes back a block, which commands up to `mark` may use.
    fn give_back(&self, allocation: &Allocation, mark: Option<Mark>) {
        if self.is_managed() {
            advice::forget(allocation);
        }
        let (base, size) = (allocation.base, allocation.capacity);
        let mut state = self.state.lock();
        state.used.current -= size;
        state
            .free
            .entry(size)
            .or_default()
            .push(Block { base, mark });
        let has_excess = state.reserved.current > state.release_threshold || !keeps_blocks();
        let ends = state.is_destroyed;
        drop(state);
        if ends || !keeps_blocks() {
            self.release(0);
        }
        if has_excess && !HAS_EXCESS.load(Ordering::Relaxed) {
            HAS_EXCESS.store(true, Ordering::Relaxed);
        }
    }

    /// Gives free memory back to the device until the pool holds no more than `keep` bytes. What
    /// commands may still use stays; true if there is such memory beyond the limit.
    fn release(&self, keep: u64) -> bool {
        let Ok(engine) = self.device.engine() else {
            return false;
        };
        let mut state = self.state.lock();
        let State { free, reserved, .. } = &mut *state;
        let mut is_waiting = false;
        // Large blocks first: fewer calls.
        for (&size, blocks) in free.iter_mut().rev() {
            blocks.retain(|block| {
                if reserved.current <= keep {
                    return true;
                }
                if !block.is_done() {
                    is_waiting = true;
                    return true;
                }
                reserved.current -= size;
                // The engine knows the block, as it made it.
                let _ = engine.free_raw(block.base);
                false
            });
        }
        free.retain(|_, blocks| !blocks.is_empty());
        if state.is_destroyed && state.reserved.current == 0 {
            POOLS.remove(self.handle);
        }
        is_waiting
    }
}

impl State {
    /// A free block of about the size that the stream can use at once.
    fn take_free(&mut self, capacity: u64, stream: &Arc<Stream>) -> Option<(u64, u64)> {
        // A larger block serves as well, unless much of it would lie idle.
        let sizes = self
            .free
            .range_mut(capacity..=capacity.saturating_add(capacity / 4));
        for (&size, blocks) in sizes {
            let mut newest_first = blocks.iter().enumerate().rev().take(MAX_LOOKS);
            let reuse = &self.reuse;
            let found = newest_first.find(|(_, block)| block.is_free_for(stream, reuse));
            if let Some((idx, _)) = found {
                let block = blocks.swap_remove(idx);
                self.used.add(size);
                return Some((block.base, size));
            }
        }
        None
    }

    /// A free block of any size that suffices, with the command that must run before it can be
    /// used.
    fn take_waiting(&mut self, capacity: u64) -> Option<((u64, u64), Option<Mark>)> {
        if !self.reuse.internal_dependencies {
            return None;
        }
        let (&size, blocks) = self
            .free
            .range_mut(capacity..)
            .find(|(_, blocks)| !blocks.is_empty())?;
        let block = blocks.swap_remove(0);
        self.used.add(size);
        Some(((block.base, size), block.mark))
    }

    fn would_exceed(&self, capacity: u64, max: u64) -> bool {
        self.reserved
            .current
            .checked_add(capacity)
            .is_none_or(|sum| sum > max)
    }
}

/// Whether pools keep memory that was freed.
fn keeps_blocks() -> bool {
    !Config::get().memcheck
}

/// The program has waited for something: pools give up what they hold beyond their thresholds.
pub(crate) fn on_synchronize() {
    if !HAS_EXCESS.load(Ordering::Relaxed) || !HAS_EXCESS.swap(false, Ordering::Relaxed) {
        return;
    }
    for pool in POOLS.all() {
        let threshold = pool.state.lock().release_threshold;
        let keep = if keeps_blocks() { threshold } else { 0 };
        if pool.release(keep) {
            HAS_EXCESS.store(true, Ordering::Relaxed);
        }
    }
}

/// Has all pools of a device give up what is free.
pub(crate) fn release_all(device: &Device) {
    for pool in POOLS.all() {
        if pool.device.ordinal == device.ordinal {
            pool.release(0);
        }
    }
}

/// Takes back memory that no command uses any more.
pub(crate) fn give_back(allocation: &Allocation, pool: u64) {
    if let Some(pool) = POOLS.get(pool) {
        pool.give_back(allocation, None);
    }
}

/// Whether something holds for the pool of an allocation.
pub(crate) fn is(pool: u64, test: impl Fn(&Pool) -> bool) -> bool {
    POOLS.get(pool).is_some_and(|pool| test(&pool))
}

/// The pool of a handle, which the program has not destroyed.
pub(crate) fn get(handle: CUmemoryPool) -> Result<Arc<Pool>> {
    let pool = POOLS.get(handle.0).ok_or(CUresult::INVALID_HANDLE)?;
    let is_destroyed = pool.state.lock().is_destroyed;
    match is_destroyed {
        true => Err(CUresult::INVALID_HANDLE),
        false => Ok(pool),
    }
}

fn default_of(device: &'static Device) -> Result<Arc<Pool>> {
    let pools = &device.pools;
    if let Some(pool) = pools.default.get() {
        return Ok(pool.clone());
    }
    let props = CUmemPoolProps {
        allocType: CUmemAllocationType::PINNED,
        location: CUmemLocation {
            type_: CUmemLocationType::DEVICE,
            id: device.ordinal,
        },
        ..CUmemPoolProps::default()
    };
    // Only one thread's pool stays; the handle of the other's stands for nothing again.
    let pool = POOLS.insert(|handle| Pool::new(handle, device, props, true))?;
    let kept = pools.default.get_or_init(|| pool.clone());
    if kept.handle != pool.handle {
        POOLS.remove(pool.handle);
    }
    Ok(kept.clone())
}

fn current_of(device: &'static Device) -> Result<Arc<Pool>> {
    let current = device.pools.current.lock().clone();
    current.map_or_else(|| default_of(device), Ok)
}

// --- The interface ---

/// `cuMemAllocAsync`: from the current pool of the stream's device. No bytes have no place: unlike
/// `cuMemAlloc`, it gives the null address for them.
pub fn alloc_async(size: usize, stream: CUstream) -> Result<CUdeviceptr> {
    let stream = stream::get(stream)?;
    if size == 0 {
        return Ok(0);
    }
    if stream.is_capturing() {
        return graph::capture_alloc(&stream, size);
    }
    let pool = current_of(stream.context()?.device)?;
    pool.alloc(size as u64, &stream)
}

/// `cuMemAllocFromPoolAsync`.
pub fn alloc_from_pool_async(
    size: usize,
    pool: CUmemoryPool,
    stream: CUstream,
) -> Result<CUdeviceptr> {
    let pool = get(pool)?;
    let stream = stream::get(stream)?;
    if size == 0 {
        return Ok(0);
    }
    match stream.is_capturing() {
        true => graph::capture_alloc(&stream, size),
        false => pool.alloc(size as u64, &stream),
    }
}

/// `cuMemFreeAsync`. Memory of a context that has failed can be freed without an error.
pub fn free_async(addr: CUdeviceptr, stream: CUstream) -> Result<()> {
    let stream = stream::get_even_failed(stream)?;
    if addr == 0 {
        return Ok(());
    }
    if stream.is_capturing() {
        return graph::capture_free(&stream, addr);
    }
    if graph::is_memory(addr) {
        return graph::free_async(addr, &stream);
    }
    let is_of_device = |found: &Allocation| found.base == addr && found.sort == Sort::Device;
    if REGISTRY
        .find(addr)
        .is_some_and(|found| is_of_device(&found))
    {
        // Memory of `cuMemAlloc` has no pool that it could go back to later.
        return alloc::free(addr);
    }
    let allocation = REGISTRY.take(addr, |sort| matches!(sort, Sort::Pool(_)));
    let allocation = allocation.inspect_err(|_| findings::bad_free(addr))?;
    let Sort::Pool(pool) = allocation.sort else {
        return Err(CUresult::INVALID_VALUE);
    };
    let mark = stream.mark_of_all()?;
    if let Some(pool) = POOLS.get(pool) {
        pool.give_back(&allocation, mark);
    }
    Ok(())
}

/// Where a pool's memory can lie. Managed memory need not prefer a place.
fn device_of(location: CUmemLocation, kind: CUmemAllocationType) -> Result<&'static Device> {
    match location.type_ {
        CUmemLocationType::DEVICE => device::get(location.id),
        CUmemLocationType::NONE if kind == CUmemAllocationType::MANAGED => device::get(0),
        // The host's memory is a part of the arena like any other.
        CUmemLocationType::HOST
        | CUmemLocationType::HOST_NUMA
        | CUmemLocationType::HOST_NUMA_CURRENT => device::get(0),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// `cuMemPoolCreate`.
pub fn create(props: &CUmemPoolProps) -> Result<CUmemoryPool> {
    let is_type = [CUmemAllocationType::PINNED, CUmemAllocationType::MANAGED];
    let handle_types = CUmemAllocationHandleType::POSIX_FILE_DESCRIPTOR
        | CUmemAllocationHandleType::WIN32
        | CUmemAllocationHandleType::WIN32_KMT
        | CUmemAllocationHandleType::FABRIC;
    if !is_type.contains(&props.allocType) || !handle_types.contains(props.handleTypes) {
        return Err(CUresult::INVALID_VALUE);
    }
    let device = device_of(props.location, props.allocType)?;
    if props.handleTypes != CUmemAllocationHandleType::NONE || props.usage != 0 {
        return Err(CUresult::NOT_SUPPORTED);
    }
    let pool = POOLS.insert(|handle| Pool::new(handle, device, *props, false))?;
    Ok(pool.raw())
}

/// `cuMemPoolDestroy`: memory that the program still has stays its own until it is freed.
pub fn destroy(handle: CUmemoryPool) -> Result<()> {
    let pool = get(handle)?;
    if pool.is_default {
        return Err(CUresult::INVALID_VALUE);
    }
    let mut current = pool.device.pools.current.lock();
    if current
        .as_ref()
        .is_some_and(|current| current.handle == pool.handle)
    {
        *current = None;
    }
    drop(current);
    places::forget(&pool);
    pool.state.lock().is_destroyed = true;
    if pool.release(0) {
        HAS_EXCESS.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// `cuMemPoolTrimTo`.
pub fn trim_to(handle: CUmemoryPool, keep: usize) -> Result<()> {
    get(handle)?.release(keep as u64);
    Ok(())
}
