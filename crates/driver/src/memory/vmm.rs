//! Virtual memory: addresses that are reserved, memory without an address, and mappings of one to
//! the other.
//!
//! The engine keeps one access for all devices, so a mapping gets the widest that any of them was
//! given. What no access was given to a device is kept from it all the same, unless it is the first
//! device, in whose part of the arena the addresses lie.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use ptxjit::{Access, PhysicalMemory};

use crate::device;
use crate::error::{self, Result};
use crate::handle::{Kind, Object, Slab};
use crate::state;
use crate::types::{
    CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationCompType,
    CUmemAllocationGranularity_flags, CUmemAllocationHandleType, CUmemAllocationProp,
    CUmemAllocationType, CUmemGenericAllocationHandle, CUmemLocation, CUmemLocationType, CUresult,
};

use super::{Allocation, REGISTRY, Sort};

pub(crate) static PHYSICALS: Slab<Physical> = Slab::new(Kind::Physical);

/// What sizes and addresses are multiples of.
const GRANULE: u64 = ptxjit::Device::VM_GRANULE;

/// Memory without an address. It lasts until it is released and unmapped.
pub(crate) struct Physical {
    handle: u64,
    memory: PhysicalMemory,
    props: CUmemAllocationProp,
    users: Mutex<Users>,
}

#[derive(Default)]
struct Users {
    /// References of the program; without any, the handle is no longer good.
    n_references: u32,
    n_mappings: u32,
}

impl Object for Physical {
    fn handle(&self) -> u64 {
        self.handle
    }
}

impl Physical {
    /// Changes the number of users; without any, the memory ends.
    fn change(&self, change: impl FnOnce(&mut Users)) {
        let mut users = self.users.lock();
        change(&mut users);
        let has_users = users.n_references != 0 || users.n_mappings != 0;
        drop(users);
        if !has_users {
            PHYSICALS.remove(self.handle);
        }
    }
}

/// A mapping: what is mapped, and who may access it.
struct Mapping {
    end: u64,
    physical: Arc<Physical>,
    access: HashMap<i32, CUmemAccess_flags>,
}

/// Mappings by first address.
static MAPPINGS: Mutex<std::collections::BTreeMap<u64, Mapping>> =
    Mutex::new(std::collections::BTreeMap::new());

fn get(handle: CUmemGenericAllocationHandle) -> Result<Arc<Physical>> {
    let physical = PHYSICALS.get(handle).ok_or(CUresult::INVALID_VALUE)?;
    let is_good = physical.users.lock().n_references != 0;
    match is_good {
        true => Ok(physical),
        false => Err(CUresult::INVALID_VALUE),
    }
}

/// An error of the engine: apart from a lack of memory, the program has passed something wrong.
fn code(err: ptxjit::Error) -> CUresult {
    match error::code_of(&err) {
        CUresult::OUT_OF_MEMORY => CUresult::OUT_OF_MEMORY,
        _ => CUresult::INVALID_VALUE,
    }
}

fn is_size(size: u64) -> bool {
    size != 0 && size.is_multiple_of(GRANULE)
}

/// The device of an allocation that can be made.
fn check(props: &CUmemAllocationProp) -> Result<&'static device::Device> {
    let handle_types = CUmemAllocationHandleType::POSIX_FILE_DESCRIPTOR
        | CUmemAllocationHandleType::WIN32
        | CUmemAllocationHandleType::WIN32_KMT
        | CUmemAllocationHandleType::FABRIC;
    if props.type_ != CUmemAllocationType::PINNED
        || !handle_types.contains(props.requestedHandleTypes)
        || u32::from(props.allocFlags.compressionType) > CUmemAllocationCompType::GENERIC.0
    {
        return Err(CUresult::INVALID_VALUE);
    }
    let device = match props.location.type_ {
        CUmemLocationType::DEVICE => device::get(props.location.id)?,
        CUmemLocationType::HOST
        | CUmemLocationType::HOST_NUMA
        | CUmemLocationType::HOST_NUMA_CURRENT => device::get(0)?,
        _ => return Err(CUresult::INVALID_VALUE),
    };
    // Memory that could be exported is memory: it is the export that cannot be had.
    match props.allocFlags.usage != 0 {
        true => Err(CUresult::NOT_SUPPORTED),
        false => Ok(device),
    }
}

// --- The interface ---

/// `cuMemGetAllocationGranularity`.
pub fn granularity(
    props: &CUmemAllocationProp,
    option: CUmemAllocationGranularity_flags,
) -> Result<usize> {
    check(props)?;
    match option {
        CUmemAllocationGranularity_flags::MINIMUM
        | CUmemAllocationGranularity_flags::RECOMMENDED => Ok(GRANULE as usize),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// `cuMemAddressReserve`; the address that the program would like is not looked at.
pub fn reserve(size: usize, align: usize, flags: u64) -> Result<CUdeviceptr> {
    let engine = device::get(0)?.engine()?;
    let is_align = align == 0 || align.is_power_of_two();
    if flags != 0 || !is_align || !is_size(size as u64) {
        return Err(CUresult::INVALID_VALUE);
    }
    engine.vm_reserve(size as u64, align as u64).map_err(code)
}

/// `cuMemAddressFree`.
pub fn free(addr: CUdeviceptr, size: usize) -> Result<()> {
    device::get(0)?
        .engine()?
        .vm_free(addr, size as u64)
        .map_err(code)
}

/// `cuMemCreate`.
pub fn create(
    size: usize,
    props: &CUmemAllocationProp,
    flags: u64,
) -> Result<CUmemGenericAllocationHandle> {
    let device = check(props)?;
    if flags != 0 || !is_size(size as u64) {
        return Err(CUresult::INVALID_VALUE);
    }
    let engine = device.engine()?;
    let memory = PhysicalMemory::new(engine, size as u64).or_else(|_| {
        super::pool::release_all(device);
        PhysicalMemory::new(engine, size as u64).map_err(code)
    })?;
    let physical = PHYSICALS.insert(|handle| Physical {
        handle,
        memory,
        props: *props,
        users: Mutex::new(Users {
            n_references: 1,
            n_mappings: 0,
        }),
    })?;
    Ok(physical.handle)
}

/// `cuMemRelease`.
pub fn release(handle: CUmemGenericAllocationHandle) -> Result<()> {
    get(handle)?.change(|users| users.n_references = users.n_references.saturating_sub(1));
    Ok(())
}

/// `cuMemGetAllocationPropertiesFromHandle`.
pub fn properties(handle: CUmemGenericAllocationHandle) -> Result<CUmemAllocationProp> {
    Ok(get(handle)?.props)
}

/// `cuMemRetainAllocationHandle`: one more reference to what is mapped at an address.
pub fn retain(addr: u64) -> Result<CUmemGenericAllocationHandle> {
    state::state()?;
    let mappings = MAPPINGS.lock();
    let (_, mapping) = mappings
        .range(..=addr)
        .next_back()
        .ok_or(CUresult::INVALID_VALUE)?;
    if addr >= mapping.end {
        return Err(CUresult::INVALID_VALUE);
    }
    mapping.physical.change(|users| users.n_references += 1);
    Ok(mapping.physical.handle)
}

/// `cuMemMap`.
pub fn map(
    addr: CUdeviceptr,
    size: usize,
    offset: usize,
    handle: CUmemGenericAllocationHandle,
    flags: u64,
) -> Result<()> {
    let physical = get(handle)?;
    let device = device::get(physical.memory.device() as i32)?;
    // CUDA maps from the start only.
    if flags != 0 || offset != 0 || !is_size(size as u64) {
        return Err(CUresult::INVALID_VALUE);
    }
    let mut mappings = MAPPINGS.lock();
    let engine = device.engine()?;
    engine
        .vm_map(addr, &physical.memory, 0, size as u64)
        .map_err(code)?;
    physical.change(|users| users.n_mappings += 1);
    REGISTRY.insert(Allocation {
        base: addr,
        size: size as u64,
        capacity: size as u64,
        sort: Sort::Virtual,
        context: 0,
        device: device.ordinal,
        id: 0,
        site: None,
        sync_memops: AtomicBool::new(false),
    });
    let mapping = Mapping {
        end: addr + size as u64,
        physical,
        access: HashMap::new(),
    };
    mappings.insert(addr, mapping);
    Ok(())
}

/// First addresses of the mappings that make up a range, all of it.
fn starts(
    mappings: &std::collections::BTreeMap<u64, Mapping>,
    addr: u64,
    size: u64,
) -> Result<Vec<u64>> {
    let end = addr.checked_add(size).ok_or(CUresult::INVALID_VALUE)?;
    let mut at = addr;
    let mut starts = Vec::new();
    while at < end {
        let mapping = mappings.get(&at).ok_or(CUresult::INVALID_VALUE)?;
        starts.push(at);
        at = mapping.end;
    }
    match at == end && size != 0 {
        true => Ok(starts),
        false => Err(CUresult::INVALID_VALUE),
    }
}

/// `cuMemUnmap`: one or several whole mappings. The program has waited for what uses them.
pub fn unmap(addr: CUdeviceptr, size: usize) -> Result<()> {
    let engine = device::get(0)?.engine()?;
    let mut mappings = MAPPINGS.lock();
    let starts = starts(&mappings, addr, size as u64)?;
    engine.vm_unmap(addr, size as u64).map_err(code)?;
    for start in starts {
        let _ = REGISTRY.take(start, |sort| sort == Sort::Virtual);
        if let Some(mapping) = mappings.remove(&start) {
            mapping.physical.change(|users| users.n_mappings -= 1);
        }
    }
    Ok(())
}

/// `cuMemSetAccess`.
pub fn set_access(addr: CUdeviceptr, size: usize, access: &[CUmemAccessDesc]) -> Result<()> {
    let engine = device::get(0)?.engine()?;
    if access.is_empty() {
        return Err(CUresult::INVALID_VALUE);
    }
    let mut given = Vec::new();
    for desc in access {
        given.push((accessor(desc.location)?, desc.flags));
        engine_access(desc.flags)?;
    }
    let mut mappings = MAPPINGS.lock();
    for start in starts(&mappings, addr, size as u64)? {
        let Some(mapping) = mappings.get_mut(&start) else {
            continue;
        };
        mapping.access.extend(given.iter().copied());
        let widest = mapping.access.values().map(|flags| flags.0).max();
        let widest = engine_access(CUmemAccess_flags(widest.unwrap_or(0)))?;
        engine
            .vm_protect(start, mapping.end - start, widest)
            .map_err(code)?;
    }
    Ok(())
}

/// A device, or -1 for the host.
fn accessor(location: CUmemLocation) -> Result<i32> {
    match location.type_ {
        CUmemLocationType::DEVICE => Ok(device::get(location.id)?.ordinal),
        CUmemLocationType::HOST
        | CUmemLocationType::HOST_NUMA
        | CUmemLocationType::HOST_NUMA_CURRENT => Ok(-1),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

fn engine_access(flags: CUmemAccess_flags) -> Result<Access> {
    match flags {
        CUmemAccess_flags::NONE => Ok(Access::None),
        CUmemAccess_flags::READ => Ok(Access::Read),
        CUmemAccess_flags::READWRITE => Ok(Access::ReadWrite),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// Whether a device may access what is mapped at an address.
pub(crate) fn may_access(device: i32, addr: u64) -> bool {
    let mappings = MAPPINGS.lock();
    let found = mappings.range(..=addr).next_back();
    let found = found.filter(|(_, found)| addr < found.end);
    let flags = found.and_then(|(_, mapping)| mapping.access.get(&device).copied());
    flags.is_some_and(|flags| flags != CUmemAccess_flags::NONE)
}

/// `cuMemGetAccess`.
pub fn access(location: CUmemLocation, addr: CUdeviceptr) -> Result<CUmemAccess_flags> {
    state::state()?;
    let who = accessor(location)?;
    let mappings = MAPPINGS.lock();
    let found = mappings.range(..=addr).next_back();
    let (_, mapping) = found
        .filter(|(_, found)| addr < found.end)
        .ok_or(CUresult::INVALID_VALUE)?;
    Ok(mapping
        .access
        .get(&who)
        .copied()
        .unwrap_or(CUmemAccess_flags::NONE))
}
