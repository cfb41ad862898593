//! Memory: what was allocated, where it lies and of what sort it is.
//!
//! A device pointer is an address of the host, inside the engine's arena. So pinned and managed
//! memory are ordinary allocations with another tag. Everything that a client can name by a pointer
//! has an entry in [`REGISTRY`].

pub mod advice;
pub mod alloc;
pub mod array;
pub mod batch;
pub mod copy;
pub mod fill;
pub mod pointer;
pub mod pool;
mod sampled;
pub mod shape;
pub mod tensor_map;
pub mod texture;
pub mod texture_reference;
pub mod value;
pub mod vmm;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;
use ptxjit::sanitize::AccessOp;

use crate::context::Context;
use crate::error::Result;
use crate::findings::{self, Graves, Site};
use crate::types::CUresult;

/// Of what sort an allocation is, which decides who may free it and what is told of it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Sort {
    /// `cuMemAlloc` and `cuMemAllocPitch`.
    Device,
    /// `cuMemAllocManaged`.
    Managed,
    /// `cuMemAllocHost` and `cuMemHostAlloc`, with their flags.
    Pinned(u32),
    /// Memory of the program, registered with these flags; it lies outside of the arena.
    Registered(u32),
    /// From the pool with this handle.
    Pool(u64),
    /// A variable of a module.
    Global,
    /// A managed variable.
    ManagedGlobal,
    /// Mapped by `cuMemMap`.
    Virtual,
    /// Allocated by a node of a graph.
    Graph,
}

/// One allocation.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) base: u64,
    pub(crate) size: u64,
    /// Bytes of the block of a pool; otherwise the size.
    pub(crate) capacity: u64,
    pub(crate) sort: Sort,
    /// Handle of the context it belongs to; 0 if it belongs to none.
    pub(crate) context: u64,
    /// Ordinal of the device.
    pub(crate) device: i32,
    /// Unique in the process.
    pub(crate) id: u64,
    /// The call that has made it, if anything is to be told of that.
    pub(crate) site: Option<Arc<Site>>,
    /// Whether operations on the memory are to be synchronous; kept, as they differ in nothing that
    /// can be seen.
    pub(crate) sync_memops: AtomicBool,
}

impl Allocation {
    /// Whether the memory is the host's as far as programs are told.
    pub(crate) fn is_host(&self) -> bool {
        match self.sort {
            Sort::Pinned(_) | Sort::Registered(_) => true,
            Sort::Pool(pool) => pool::is(pool, pool::Pool::is_host),
            Sort::Device
            | Sort::Managed
            | Sort::Global
            | Sort::ManagedGlobal
            | Sort::Virtual
            | Sort::Graph => false,
        }
    }

    /// Whether the memory is managed.
    pub(crate) fn is_managed(&self) -> bool {
        match self.sort {
            Sort::Managed | Sort::ManagedGlobal => true,
            Sort::Pool(pool) => pool::is(pool, pool::Pool::is_managed),
            Sort::Device
            | Sort::Pinned(_)
            | Sort::Registered(_)
            | Sort::Global
            | Sort::Virtual
            | Sort::Graph => false,
        }
    }
}

/// All allocations, by first address.
pub(crate) static REGISTRY: Registry = Registry {
    map: RwLock::new(BTreeMap::new()),
    next_id: AtomicU64::new(1),
};

/// See [`REGISTRY`].
pub(crate) struct Registry {
    map: RwLock<BTreeMap<u64, Arc<Allocation>>>,
    next_id: AtomicU64,
}

impl Registry {
    /// Notes an allocation.
    pub(crate) fn add(
        &self,
        context: &Context,
        base: u64,
        size: u64,
        sort: Sort,
    ) -> Arc<Allocation> {
        self.insert(Allocation {
            base,
            size,
            capacity: size,
            sort,
            context: context.raw().0,
            device: context.device.ordinal,
            id: 0,
            site: None,
            sync_memops: AtomicBool::new(false),
        })
    }

    /// Likewise; the number and the site are given here.
    pub(crate) fn insert(&self, allocation: Allocation) -> Arc<Allocation> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let site = Site::here();
        let allocation = Arc::new(Allocation {
            id,
            site,
            ..allocation
        });
        Graves::clear(allocation.base, allocation.size);
        let mut map = self.map.write();
        map.insert(allocation.base, allocation.clone());
        allocation
    }

    /// The allocation that an address lies in.
    pub(crate) fn find(&self, addr: u64) -> Option<Arc<Allocation>> {
        let map = self.map.read();
        let (_, allocation) = map.range(..=addr).next_back()?;
        (addr - allocation.base < allocation.size).then(|| allocation.clone())
    }

    /// The allocation that `len` bytes lie in, all of them.
    pub(crate) fn find_range(&self, addr: u64, len: u64) -> Option<Arc<Allocation>> {
        let allocation = self.find(addr)?;
        (len <= allocation.size - (addr - allocation.base)).then_some(allocation)
    }

    /// Takes out the allocation that starts at an address, if it is of a sort that `is_right`
    /// accepts.
    pub(crate) fn take(
        &self,
        base: u64,
        is_right: impl Fn(Sort) -> bool,
    ) -> Result<Arc<Allocation>> {
        let mut map = self.map.write();
        match map.get(&base) {
            Some(allocation) if is_right(allocation.sort) => {}
            _ => return Err(CUresult::INVALID_VALUE),
        }
        let taken = map.remove(&base).ok_or(CUresult::INVALID_VALUE)?;
        drop(map);
        Graves::bury(&taken);
        Ok(taken)
    }

    /// Takes out all that `is_right` accepts.
    pub(crate) fn take_all(&self, is_right: impl Fn(&Allocation) -> bool) -> Vec<Arc<Allocation>> {
        let mut taken = Vec::new();
        self.map.write().retain(|_, allocation| {
            let goes = is_right(allocation);
            if goes {
                taken.push(allocation.clone());
            }
            !goes
        });
        taken.iter().for_each(Graves::bury);
        taken
    }

    /// All that `is_right` accepts.
    pub(crate) fn filter(&self, is_right: impl Fn(&Allocation) -> bool) -> Vec<Arc<Allocation>> {
        let map = self.map.read();
        let right = map.values().filter(|allocation| is_right(allocation));
        right.cloned().collect()
    }

    /// The allocation that ends before an address, the nearest one.
    pub(crate) fn find_below(&self, addr: u64) -> Option<Arc<Allocation>> {
        let map = self.map.read();
        let (_, below) = map.range(..=addr).next_back()?;
        (addr - below.base >= below.size).then(|| below.clone())
    }

    /// Whether some of the bytes lie in an allocation.
    pub(crate) fn overlaps(&self, addr: u64, len: u64) -> bool {
        let map = self.map.read();
        let below = map.range(..addr.saturating_add(len)).next_back();
        below.is_some_and(|(_, allocation)| addr < allocation.base + allocation.size)
    }
}

/// Bytes that a copy or memset on the device may touch: they lie in one allocation, or in mappings
/// side by side. `op` is what it does to them.
pub(crate) fn check_device_range(addr: u64, len: u64, op: AccessOp) -> Result<()> {
    find_device_range(addr, len).inspect_err(|_| findings::bad_range(addr, len, op))
}

fn find_device_range(addr: u64, len: u64) -> Result<()> {
    let (mut at, mut left) = (addr, len);
    while left != 0 {
        let found = REGISTRY.find(at).ok_or(CUresult::INVALID_VALUE)?;
        let here = found.size - (at - found.base);
        if left <= here {
            return Ok(());
        }
        if found.sort != Sort::Virtual {
            return Err(CUresult::INVALID_VALUE);
        }
        (at, left) = (at + here, left - here);
    }
    Ok(())
}

/// Whether an address is the driver's. Otherwise it is memory of the program.
pub(crate) fn is_known(addr: u64) -> bool {
    REGISTRY.find(addr).is_some()
}

/// Frees what belongs to a context that ends.
pub(crate) fn remove_all(context: &Context) {
    findings::context_ends(context);
    let of_this = |allocation: &Allocation| allocation.context == context.raw().0;
    for allocation in REGISTRY.take_all(of_this) {
        alloc::release(&allocation);
    }
    texture::remove_all(context.raw().0);
    array::remove_all(context.raw().0);
}
