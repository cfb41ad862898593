//! What programs set in pools and ask of them: attributes, access, and the pools that devices use.

use std::sync::atomic::Ordering;

use crate::device;
use crate::error::Result;
use crate::host;
use crate::types::{
    CUmemAccess_flags, CUmemAccessDesc, CUmemLocation, CUmemLocationType, CUmemPool_attribute,
    CUmemoryPool, CUresult,
};

use super::super::value::Value;
use super::{HAS_EXCESS, Pool, current_of, default_of, get};

/// `cuMemPoolGetAttribute`.
pub fn attribute(handle: CUmemoryPool, attribute: CUmemPool_attribute) -> Result<Value> {
    let pool = get(handle)?;
    let state = pool.state.lock();
    let flag = |is_on| Ok(Value::Int(i32::from(is_on)));
    match attribute {
        CUmemPool_attribute::REUSE_FOLLOW_EVENT_DEPENDENCIES => flag(state.reuse.follow_events),
        CUmemPool_attribute::REUSE_ALLOW_OPPORTUNISTIC => flag(state.reuse.opportunistic),
        CUmemPool_attribute::REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
            flag(state.reuse.internal_dependencies)
        }
        CUmemPool_attribute::RELEASE_THRESHOLD => Ok(Value::Long(state.release_threshold)),
        CUmemPool_attribute::RESERVED_MEM_CURRENT => Ok(Value::Long(state.reserved.current)),
        CUmemPool_attribute::RESERVED_MEM_HIGH => Ok(Value::Long(state.reserved.high)),
        CUmemPool_attribute::USED_MEM_CURRENT => Ok(Value::Long(state.used.current)),
        CUmemPool_attribute::USED_MEM_HIGH => Ok(Value::Long(state.used.high)),
        CUmemPool_attribute::ALLOCATION_TYPE => Ok(Value::Int(pool.props.allocType.0 as i32)),
        CUmemPool_attribute::EXPORT_HANDLE_TYPES => flag(false),
        CUmemPool_attribute::LOCATION_ID => Ok(Value::Int(pool.props.location.id)),
        CUmemPool_attribute::LOCATION_TYPE => Ok(Value::Int(pool.props.location.type_.0 as i32)),
        CUmemPool_attribute::MAX_POOL_SIZE => Ok(Value::Long(pool.props.maxSize as u64)),
        CUmemPool_attribute::HW_DECOMPRESS_ENABLED => flag(false),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// `cuMemPoolSetAttribute`; the value is an address of the client.
pub fn set_attribute(
    handle: CUmemoryPool,
    attribute: CUmemPool_attribute,
    value: u64,
) -> Result<()> {
    let pool = get(handle)?;
    let flag = || Ok(host::get::<i32>(value)? != 0);
    let long = || host::get::<u64>(value);
    // Only a reset is allowed.
    let reset = || match long()? {
        0 => Ok(()),
        _ => Err(CUresult::INVALID_VALUE),
    };
    let mut state = pool.state.lock();
    match attribute {
        CUmemPool_attribute::REUSE_FOLLOW_EVENT_DEPENDENCIES => state.reuse.follow_events = flag()?,
        CUmemPool_attribute::REUSE_ALLOW_OPPORTUNISTIC => state.reuse.opportunistic = flag()?,
        CUmemPool_attribute::REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
            state.reuse.internal_dependencies = flag()?;
        }
        CUmemPool_attribute::RELEASE_THRESHOLD => state.release_threshold = long()?,
        CUmemPool_attribute::RESERVED_MEM_HIGH => {
            reset()?;
            state.reserved.high = state.reserved.current;
        }
        CUmemPool_attribute::USED_MEM_HIGH => {
            reset()?;
            state.used.high = state.used.current;
        }
        _ => return Err(CUresult::INVALID_VALUE),
    }
    if state.reserved.current > state.release_threshold {
        HAS_EXCESS.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// `cuMemPoolSetAccess`.
pub fn set_access(handle: CUmemoryPool, access: &[CUmemAccessDesc]) -> Result<()> {
    let pool = get(handle)?;
    let kinds = [
        CUmemAccess_flags::NONE,
        CUmemAccess_flags::READ,
        CUmemAccess_flags::READWRITE,
    ];
    for desc in access {
        if desc.location.type_ != CUmemLocationType::DEVICE || !kinds.contains(&desc.flags) {
            return Err(CUresult::INVALID_VALUE);
        }
        let device = device::get(desc.location.id)?;
        // A device can always use its own memory.
        let is_own = !pool.is_host() && device.ordinal == pool.device.ordinal;
        if is_own && desc.flags != CUmemAccess_flags::READWRITE {
            return Err(CUresult::INVALID_VALUE);
        }
    }
    let mut state = pool.state.lock();
    for desc in access {
        state.access.insert(desc.location.id, desc.flags);
    }
    Ok(())
}

/// `cuMemPoolGetAccess`.
pub fn access(handle: CUmemoryPool, location: CUmemLocation) -> Result<CUmemAccess_flags> {
    let pool = get(handle)?;
    let is_own_kind = match location.type_ {
        CUmemLocationType::DEVICE => {
            device::get(location.id)?;
            !pool.is_host() && location.id == pool.device.ordinal
        }
        CUmemLocationType::HOST => return Ok(host_access(&pool)),
        _ => return Err(CUresult::INVALID_VALUE),
    };
    let state = pool.state.lock();
    let set = state.access.get(&location.id).copied();
    // Every device can use managed memory.
    Ok(set.unwrap_or(match is_own_kind || pool.is_managed() {
        true => CUmemAccess_flags::READWRITE,
        false => CUmemAccess_flags::NONE,
    }))
}

impl Pool {
    /// Whether a device may access the memory.
    pub(crate) fn may_access(&self, device: i32) -> bool {
        let set = self.state.lock().access.get(&device).copied();
        let is_for_all = self.is_host() || self.is_managed();
        match set {
            Some(flags) => flags != CUmemAccess_flags::NONE,
            None => is_for_all || device == self.device.ordinal,
        }
    }
}

/// What the program may do with a pool's memory without the driver.
fn host_access(pool: &Pool) -> CUmemAccess_flags {
    match pool.is_host() || pool.is_managed() {
        true => CUmemAccess_flags::READWRITE,
        false => CUmemAccess_flags::NONE,
    }
}

/// `cuDeviceGetDefaultMemPool`.
pub fn default_pool(device: i32) -> Result<CUmemoryPool> {
    Ok(default_of(device::get(device)?)?.raw())
}

/// `cuDeviceGetMemPool`.
pub fn current_pool(device: i32) -> Result<CUmemoryPool> {
    Ok(current_of(device::get(device)?)?.raw())
}

/// `cuDeviceSetMemPool`.
pub fn set_current_pool(device: i32, handle: CUmemoryPool) -> Result<()> {
    let device = device::get(device)?;
    let pool = get(handle)?;
    if pool.is_host() || pool.device.ordinal != device.ordinal {
        return Err(CUresult::INVALID_VALUE);
    }
    *device.pools.current.lock() = Some(pool);
    Ok(())
}
