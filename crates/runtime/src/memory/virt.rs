//! Address space and memory apart: ranges of addresses are reserved, physical memory is created,
//! and a program maps one into the other and says which access is allowed.
//!
//! Physical memory is a file without a name, so that it can be mapped several times. **Invariant**:
//! a granule of a reservation that is not mapped, or may not be accessed, has no access for the
//! process either; so a kernel that touches it faults.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::{Arc, PoisonError, RwLockReadGuard, RwLockWriteGuard, Weak};

use super::reserve::Protection;
use super::{Arena, MemoryError};

/// Reservations, mappings and physical memory are multiples of this.
pub const GRANULE: u64 = 2 << 20;

/// Inaccessible bytes behind a reservation.
const GAP: u64 = GRANULE;

/// What may be done with mapped memory.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Access {
    /// Nothing: an access is a fault.
    None,
    /// Only reads.
    Read,
    /// Reads and writes.
    ReadWrite,
}

impl Access {
    /// What a write, or else a read, needs.
    pub(super) fn of(is_write: bool) -> Access {
        if is_write {
            Access::ReadWrite
        } else {
            Access::Read
        }
    }

    fn protection(self) -> Protection {
        match self {
            Access::None => Protection::None,
            Access::Read => Protection::Read,
            Access::ReadWrite => Protection::ReadWrite,
        }
    }
}

/// Memory without an address. It lasts until the last handle and the last mapping of it are gone.
#[derive(Debug)]
pub struct PhysicalMemory {
    /// The arena keeps what is mapped, so this must not keep the arena.
    arena: Weak<Arena>,
    part: u32,
    file: File,
    size: u64,
}

impl PhysicalMemory {
    /// Zeroed memory of a device, a multiple of [`GRANULE`], which counts against the limit of the
    /// device.
    pub fn new(arena: &Arc<Arena>, part: u32, size: u64) -> Result<PhysicalMemory, MemoryError> {
        if size == 0 || !size.is_multiple_of(GRANULE) {
            return Err(bad(0, size, "sizes are multiples of 2 MiB"));
        }
        let out_of_memory = || MemoryError::OutOfMemory { size };
        if !arena.heaps_mut()[part as usize].charge(size) {
            return Err(out_of_memory());
        }
        let file = super::reserve::memory_file(size);
        match file {
            Ok(file) => Ok(PhysicalMemory {
                arena: Arc::downgrade(arena),
                part,
                file,
                size,
            }),
            Err(_) => {
                arena.heaps_mut()[part as usize].refund(size);
                Err(out_of_memory())
            }
        }
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The part of the arena whose device it belongs to.
    pub fn part(&self) -> u32 {
        self.part
    }
}

impl Drop for PhysicalMemory {
    fn drop(&mut self) {
        if let Some(arena) = self.arena.upgrade() {
            arena.heaps_mut()[self.part as usize].refund(self.size);
        }
    }
}

/// Physical memory at an address.
#[derive(Debug)]
struct Mapping {
    len: u64,
    /// Of each granule.
    access: Vec<Access>,
    _memory: Arc<PhysicalMemory>,
}

#[derive(Debug)]
struct Reserved {
    len: u64,
    part: u32,
    /// All that was taken from the heap's address space: start and length.
    span: (u64, u64),
}

/// All reservations and mappings of an arena.
#[derive(Default, Debug)]
pub(super) struct Virtual {
    reserved: BTreeMap<u64, Reserved>,
    mapped: BTreeMap<u64, Mapping>,
}

impl Virtual {
    /// The mapping that holds an address.
    fn mapping(&self, addr: u64) -> Option<(u64, &Mapping)> {
        let (&start, mapping) = self.mapped.range(..=addr).next_back()?;
        (addr - start < mapping.len).then_some((start, mapping))
    }

    /// Whether nothing is mapped.
    pub(super) fn is_empty(&self) -> bool {
        self.mapped.is_empty()
    }

    /// Whether all bytes are mapped with at least this access.
    pub(super) fn allows(&self, addr: u64, len: u64, wanted: Access) -> bool {
        let Some(end) = addr.checked_add(len) else {
            return false;
        };
        let mut at = addr;
        while at < end {
            let Some((start, mapping)) = self.mapping(at) else {
                return false;
            };
            if mapping.access[((at - start) / GRANULE) as usize] < wanted {
                return false;
            }
            at = (at / GRANULE + 1) * GRANULE;
        }
        true
    }

    /// Starts and lengths of the mappings that make up the range, if they do exactly.
    fn whole_mappings(&self, addr: u64, len: u64) -> Option<Vec<u64>> {
        let end = addr.checked_add(len)?;
        let mut at = addr;
        let mut found = Vec::new();
        while at < end {
            found.push(at);
            at += self.mapped.get(&at)?.len;
        }
        (at == end && len != 0).then_some(found)
    }

    /// Says in words what an address in a reservation is.
    pub(super) fn describe(&self, addr: u64) -> Option<String> {
        let (&start, reserved) = self.reserved.range(..=addr).next_back()?;
        let offset = addr - start;
        if offset >= reserved.len {
            return None;
        }
        let state = match self.mapping(addr) {
            None => "nothing is mapped there",
            Some((at, mapping)) => match mapping.access[((addr - at) / GRANULE) as usize] {
                Access::None => "what is mapped there may not be accessed",
                Access::Read => "what is mapped there may only be read",
                Access::ReadWrite => "the access runs over the end of what is mapped there",
            },
        };
        let len = reserved.len;
        Some(format!(
            "byte {offset} of the {len} bytes reserved at {start:#x}: {state}"
        ))
    }
}

fn bad(addr: u64, size: u64, note: &str) -> MemoryError {
    let note = note.to_owned();
    MemoryError::BadRange { addr, size, note }
}

/// Addresses and lengths are whole granules.
fn check_granules(addr: u64, len: u64) -> Result<(), MemoryError> {
    if len != 0 && addr.is_multiple_of(GRANULE) && len.is_multiple_of(GRANULE) {
        return Ok(());
    }
    Err(bad(addr, len, "addresses and sizes are multiples of 2 MiB"))
}

impl Arena {
    /// Reserves addresses of a part. Nothing can be accessed there until memory is mapped.
    pub fn reserve(&self, part: u32, len: u64, align: u64) -> Result<u64, MemoryError> {
        check_granules(0, len)?;
        if align != 0 && !align.is_power_of_two() {
            return Err(bad(0, len, "the alignment is no power of two"));
        }
        let align = align.max(GRANULE);
        let out_of_memory = || MemoryError::OutOfMemory { size: len };
        let sum = len.checked_add(align).and_then(|sum| sum.checked_add(GAP));
        let span_len = sum.ok_or_else(out_of_memory)?;
        let taken = self.heaps_mut()[part as usize].take_span(span_len);
        let span = taken.ok_or_else(out_of_memory)?;
        let start = span.next_multiple_of(align);
        let reserved = Reserved {
            len,
            part,
            span: (span, span_len),
        };
        self.virt_mut().reserved.insert(start, reserved);
        Ok(start)
    }

    /// Gives reserved addresses back; nothing may be mapped there. `addr` and `len` are those of a
    /// reservation.
    pub fn release(&self, addr: u64, len: u64) -> Result<(), MemoryError> {
        let mut virt = self.virt_mut();
        if virt.reserved.get(&addr).is_none_or(|it| it.len != len) {
            return Err(bad(addr, len, "this is no reservation"));
        }
        if virt.mapped.range(addr..addr + len).next().is_some() {
            return Err(bad(addr, len, "memory is mapped there"));
        }
        let reserved = virt.reserved.remove(&addr);
        drop(virt);
        if let Some(Reserved { part, span, .. }) = reserved {
            self.heaps_mut()[part as usize].give_span(span.0, span.1);
        }
        Ok(())
    }

    /// Maps physical memory from `offset` on into a reservation. It may not be accessed before
    /// [`Arena::set_access`] allows it.
    pub fn map(
        &self,
        addr: u64,
        memory: &Arc<PhysicalMemory>,
        offset: u64,
        len: u64,
    ) -> Result<(), MemoryError> {
        check_granules(addr, len)?;
        check_granules(offset, len)?;
        if offset > memory.size || len > memory.size - offset {
            return Err(bad(addr, len, "the physical memory is smaller"));
        }
        let mut virt = self.virt_mut();
        let reserved = virt.reserved.range(..=addr).next_back();
        let fits = |(&start, it): (&u64, &Reserved)| {
            addr - start < it.len && len <= it.len - (addr - start)
        };
        if !reserved.is_some_and(fits) {
            return Err(bad(addr, len, "this is not inside a reservation"));
        }
        let is_taken =
            virt.mapping(addr).is_some() || virt.mapped.range(addr..addr + len).next().is_some();
        if is_taken {
            return Err(bad(addr, len, "memory is mapped there already"));
        }
        let mapped = self.reservation.map_file(addr, len, &memory.file, offset);
        mapped.map_err(|_| MemoryError::OutOfMemory { size: len })?;
        let mapping = Mapping {
            len,
            access: vec![Access::None; (len / GRANULE) as usize],
            _memory: memory.clone(),
        };
        virt.mapped.insert(addr, mapping);
        Ok(())
    }

    /// Undoes one or several whole calls of [`Arena::map`].
    pub fn unmap(&self, addr: u64, len: u64) -> Result<(), MemoryError> {
        let mut virt = self.virt_mut();
        let Some(found) = virt.whole_mappings(addr, len) else {
            return Err(bad(addr, len, "these are not whole mappings"));
        };
        let gone = self.reservation.decommit(addr, len);
        gone.map_err(|err| bad(addr, len, &err.to_string()))?;
        let gone: Vec<_> = found.iter().map(|at| virt.mapped.remove(at)).collect();
        // The last use of physical memory looks at the heap, which is locked before mappings are.
        drop(virt);
        drop(gone);
        Ok(())
    }

    /// Says which access to mapped memory is allowed.
    pub fn set_access(&self, addr: u64, len: u64, access: Access) -> Result<(), MemoryError> {
        check_granules(addr, len)?;
        let mut virt = self.virt_mut();
        if !virt.allows(addr, len, Access::None) {
            return Err(bad(addr, len, "not all of this is mapped"));
        }
        let changed = self
            .reservation
            .set_protection(addr, len, access.protection());
        changed.map_err(|err| bad(addr, len, &err.to_string()))?;
        for at in (addr..addr + len).step_by(GRANULE as usize) {
            let found = virt.mapped.range_mut(..=at).next_back();
            if let Some((&start, mapping)) = found {
                mapping.access[((at - start) / GRANULE) as usize] = access;
            }
        }
        Ok(())
    }

    /// The access that is allowed at an address where memory is mapped.
    pub fn access_at(&self, addr: u64) -> Option<Access> {
        let virt = self.virt();
        let (start, mapping) = virt.mapping(addr)?;
        Some(mapping.access[((addr - start) / GRANULE) as usize])
    }

    /// Start and length of the mapping that holds an address.
    pub(super) fn mapped_range(&self, addr: u64) -> Option<(u64, u64)> {
        let virt = self.virt();
        virt.mapping(addr)
            .map(|(start, mapping)| (start, mapping.len))
    }

    pub(super) fn virt(&self) -> RwLockReadGuard<'_, Virtual> {
        // What is recorded was done before.
        self.virt.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn virt_mut(&self) -> RwLockWriteGuard<'_, Virtual> {
        self.virt.write().unwrap_or_else(PoisonError::into_inner)
    }
}
