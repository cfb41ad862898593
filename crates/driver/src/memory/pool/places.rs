//! The pools of places: each place has a default pool for each kind of memory, and a current one.
//!
//! Those of a device for pinned memory are the device's own pools, which `cuMemAllocAsync` uses.
//! The others, of the host and for managed memory, are made when a program first asks for them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

use crate::error::Result;
use crate::types::{
    CUmemAllocationType, CUmemLocation, CUmemLocationType, CUmemPoolProps, CUmemoryPool, CUresult,
};

use super::{POOLS, Pool, current_pool, default_pool, device_of, get, set_current_pool};

/// A place and a kind of memory.
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
struct Key {
    location: u32,
    id: i32,
    kind: u32,
}

struct Pools {
    default: Arc<Pool>,
    current: Arc<Pool>,
}

static PLACES: LazyLock<Mutex<HashMap<Key, Pools>>> = LazyLock::new(Mutex::default);

impl Key {
    fn new(location: CUmemLocation, kind: CUmemAllocationType) -> Result<Key> {
        if ![CUmemAllocationType::PINNED, CUmemAllocationType::MANAGED].contains(&kind) {
            return Err(CUresult::INVALID_VALUE);
        }
        device_of(location, kind)?;
        let has_number = [CUmemLocationType::DEVICE, CUmemLocationType::HOST_NUMA];
        let id = match has_number.contains(&location.type_) {
            true => location.id,
            false => 0,
        };
        Ok(Key {
            location: location.type_.0,
            id,
            kind: kind.0,
        })
    }

    /// The pools of the place, with a new default one if there is none yet.
    fn with_pools<R>(self, use_them: impl FnOnce(&mut Pools) -> R) -> Result<R> {
        let mut places = PLACES.lock();
        if let Some(pools) = places.get_mut(&self) {
            return Ok(use_them(pools));
        }
        let kind = CUmemAllocationType(self.kind);
        let location = CUmemLocation {
            type_: CUmemLocationType(self.location),
            id: self.id,
        };
        let props = CUmemPoolProps {
            allocType: kind,
            location,
            ..CUmemPoolProps::default()
        };
        let device = device_of(location, kind)?;
        let default = POOLS.insert(|handle| Pool::new(handle, device, props, true))?;
        let current = default.clone();
        let pools = places.entry(self).or_insert(Pools { default, current });
        Ok(use_them(pools))
    }
}

/// Whether the place's pools are those of the device.
fn is_of_device(location: CUmemLocation, kind: CUmemAllocationType) -> bool {
    location.type_ == CUmemLocationType::DEVICE && kind == CUmemAllocationType::PINNED
}

/// Places whose current pool a program destroys use their default one again.
pub(super) fn forget(pool: &Pool) {
    for pools in PLACES.lock().values_mut() {
        if pools.current.handle == pool.handle {
            pools.current = pools.default.clone();
        }
    }
}

// --- The interface ---

/// `cuMemGetDefaultMemPool`.
pub fn default_pool_at(location: CUmemLocation, kind: CUmemAllocationType) -> Result<CUmemoryPool> {
    match is_of_device(location, kind) {
        true => default_pool(location.id),
        false => Key::new(location, kind)?.with_pools(|pools| pools.default.raw()),
    }
}

/// `cuMemGetMemPool`.
pub fn current_pool_at(location: CUmemLocation, kind: CUmemAllocationType) -> Result<CUmemoryPool> {
    match is_of_device(location, kind) {
        true => current_pool(location.id),
        false => Key::new(location, kind)?.with_pools(|pools| pools.current.raw()),
    }
}

/// `cuMemSetMemPool`: the pool must be one of that place and kind.
pub fn set_current_pool_at(
    location: CUmemLocation,
    kind: CUmemAllocationType,
    pool: CUmemoryPool,
) -> Result<()> {
    let key = Key::new(location, kind)?;
    let pool = get(pool)?;
    if Key::new(pool.props.location, pool.props.allocType)? != key {
        return Err(CUresult::INVALID_VALUE);
    }
    match is_of_device(location, kind) {
        true => set_current_pool(location.id, pool.raw()),
        false => key.with_pools(|pools| pools.current = pool),
    }
}
