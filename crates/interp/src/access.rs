//! Addresses and memory accesses of a thread.
//!
//! Generic addresses of the windows: shared, local and parameter memory lie at fixed places from
//! 2^60 on, the same for all CTAs and threads; constants lie where the launch says, in global
//! memory. An address in no window is global.

use ptxjit_ir::{AtomicFmt, AtomicOp, CTA_SHIFT, ROW_BYTES, Space, Type, Value, eval};

use crate::fault::FaultKind;
use crate::launch::Machine;
use crate::memory::{MemFault, read_le, update_slice};
use crate::observe::Region;
use crate::schedule::Env;
use crate::thread::Thread;

pub(crate) const SHARED_BASE: u64 = 1 << 60;
pub(crate) const LOCAL_BASE: u64 = 2 << 60;
const PARAM_BASE: u64 = 3 << 60;
/// Where bounds are exact each thread has a window of local memory of its own among these many
/// bytes, [`LOCAL_STEP`] apart.
const LOCAL_WINDOWS: u64 = 1 << 59;
const LOCAL_STEP: u64 = 1 << 32;
/// Windows reach this far on both sides of their base; what is not backed by memory faults.
pub(crate) const WINDOW: u64 = 1 << 31;

/// Where an address leads.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Shared,
    Local,
    Param,
    Memory,
}

/// An address as an instruction gives it.
#[derive(Copy, Clone)]
pub(crate) struct Address {
    pub(crate) space: Space,
    pub(crate) base: u64,
    pub(crate) offset: i32,
}

impl Address {
    pub(crate) fn generic(addr: u64) -> Address {
        Address {
            space: Space::Generic,
            base: addr,
            offset: 0,
        }
    }
}

impl Machine<'_, '_> {
    /// Says whose local memory the window of that space is from now on. A GPU shows each thread its
    /// own at the same generic addresses; where bounds are exact they differ, so that a pointer to
    /// another thread's is known for what it is.
    pub(crate) fn enter(&mut self, env: &Env, thread: &Thread<'_>) {
        if self.checks().mem {
            let number = u64::from(env.cta) * u64::from(env.n_threads) + u64::from(thread.linear);
            let most = LOCAL_WINDOWS / LOCAL_STEP - 2;
            self.local_base = LOCAL_BASE + (1 + number % most) * LOCAL_STEP;
        }
    }

    /// What lies at a generic address.
    pub(crate) fn region(&self, addr: u64) -> Region {
        match place(addr) {
            Place::Shared => {
                let offset = addr.wrapping_sub(SHARED_BASE);
                let (rank, at) = (offset >> CTA_SHIFT, offset & ((1 << CTA_SHIFT) - 1));
                match usize::try_from(rank)
                    .ok()
                    .and_then(|rank| self.members.get(rank))
                {
                    Some(&cta) => Region::Shared(cta, at),
                    None => Region::ReadOnly,
                }
            }
            Place::Local => Region::Local(addr.wrapping_sub(self.local_base)),
            Place::Param => Region::ReadOnly,
            Place::Memory if self.is_const(addr) => Region::ReadOnly,
            Place::Memory => Region::Device,
        }
    }

    pub(crate) fn is_const(&self, addr: u64) -> bool {
        addr.wrapping_sub(self.launch.const_base) < self.launch.const_size
    }

    /// Generic address of offset 0 of a window; 0 for the spaces without one.
    pub(crate) fn window_base(&self, space: Space) -> u64 {
        match space {
            Space::Generic | Space::Global => 0,
            Space::Shared | Space::SharedCluster => SHARED_BASE,
            Space::Local => self.local_base,
            Space::Param => PARAM_BASE,
            Space::Const => self.launch.const_base,
        }
    }

    /// `isspacep`.
    pub(crate) fn is_space(&self, env: &Env, space: Space, addr: u64) -> bool {
        let inside = |base: u64, size: u64| addr.wrapping_sub(base) < size;
        let is_const = self.is_const(addr);
        match space {
            Space::Generic => true,
            // Kernel parameters lie in the global window.
            Space::Global => {
                place(addr) == Place::Param || (place(addr) == Place::Memory && !is_const)
            }
            Space::Shared if self.shared.len() > 1 => {
                let rank = addr.wrapping_sub(SHARED_BASE) >> CTA_SHIFT;
                rank == u64::from(env.rank)
            }
            Space::Shared | Space::SharedCluster => place(addr) == Place::Shared,
            Space::Local => place(addr) == Place::Local,
            Space::Param => inside(PARAM_BASE, self.launch.params.len() as u64),
            Space::Const => is_const,
        }
    }

    pub(crate) fn generic(&self, addr: Address) -> u64 {
        self.window_base(addr.space)
            .wrapping_add(addr.base)
            .wrapping_add(addr.offset as u64)
    }

    /// Reads memory.
    pub(crate) fn read(
        &mut self,
        thread: &Thread<'_>,
        addr: Address,
        out: &mut [u8],
    ) -> Result<(), FaultKind> {
        let size = out.len() as u32;
        let addr = self.aligned(addr, size)?;
        let read = self.read_at(thread, addr, out);
        read.map_err(|why| FaultKind::BadAddress { addr, size, why })
    }

    /// Reads memory at a generic address, aligned or not.
    pub(crate) fn read_at(
        &mut self,
        thread: &Thread<'_>,
        addr: u64,
        out: &mut [u8],
    ) -> Result<(), MemFault> {
        self.check_object(thread, addr, out.len() as u64)?;
        let window: &[u8] = match place(addr) {
            Place::Memory => return self.memory.load(addr, out),
            Place::Shared => {
                let (rank, offset) = self.shared_place(addr)?;
                let end = offset.checked_add(out.len()).ok_or(MemFault::Unmapped)?;
                let memory = self.shared[rank]
                    .as_ref()
                    .and_then(|bytes| bytes.get(offset..end));
                out.copy_from_slice(memory.ok_or(MemFault::Unmapped)?);
                return Ok(());
            }
            Place::Param => self.launch.params,
            // Local memory that was never written reads as zero.
            Place::Local => {
                let limit = self.launch.limits.local_bytes as usize;
                let range = window_range(addr, self.local_base, out.len(), limit);
                let range = range.ok_or(MemFault::Unmapped)?;
                for (byte, idx) in out.iter_mut().zip(range) {
                    *byte = thread.local.get(idx).copied().unwrap_or(0);
                }
                return Ok(());
            }
        };
        let range = window_range(addr, PARAM_BASE, out.len(), window.len());
        let source = range.and_then(|range| window.get(range));
        out.copy_from_slice(source.ok_or(MemFault::Unmapped)?);
        Ok(())
    }

    /// Writes memory.
    pub(crate) fn write(
        &mut self,
        thread: &mut Thread<'_>,
        addr: Address,
        bytes: &[u8],
    ) -> Result<(), FaultKind> {
        let size = bytes.len() as u32;
        let addr = self.aligned(addr, size)?;
        let written = self.write_at(thread, addr, bytes);
        written.map_err(|why| FaultKind::BadAddress { addr, size, why })
    }

    /// Writes memory at a generic address, aligned or not.
    pub(crate) fn write_at(
        &mut self,
        thread: &mut Thread<'_>,
        addr: u64,
        bytes: &[u8],
    ) -> Result<(), MemFault> {
        match self.own_slice(thread, addr, bytes.len())? {
            Some(slice) => slice.copy_from_slice(bytes),
            None => self.memory.store(addr, bytes)?,
        }
        Ok(())
    }

    /// Read-modify-write of one element; returns the old value.
    pub(crate) fn atomic(
        &mut self,
        thread: &mut Thread<'_>,
        (op, fmt): (AtomicOp, AtomicFmt),
        addr: Address,
        args: &[u64],
    ) -> Result<u64, FaultKind> {
        let size = fmt.ty().bytes();
        let addr = self.aligned(addr, size)?;
        // Only `.global` additions of f32 flush subnormals.
        let mut update = |old| eval::atomic(op, fmt, old, args, place(addr) == Place::Memory);
        let old = self.update_at(thread, addr, size, &mut update);
        old.map_err(|why| FaultKind::BadAddress { addr, size, why })
    }

    /// Read-modify-write of the element of `size` bytes at a generic address.
    pub(crate) fn update_at(
        &mut self,
        thread: &mut Thread<'_>,
        addr: u64,
        size: u32,
        update: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, MemFault> {
        match self.own_slice(thread, addr, size as usize)? {
            Some(slice) => Ok(update_slice(slice, update)),
            None => self.memory.update(addr, size, update),
        }
    }

    /// Writable memory of the interpreter's own; none if the address is global.
    fn own_slice<'t>(
        &'t mut self,
        thread: &'t mut Thread<'_>,
        generic: u64,
        len: usize,
    ) -> Result<Option<&'t mut [u8]>, MemFault> {
        self.check_object(thread, generic, len as u64)?;
        match place(generic) {
            Place::Memory => Ok(None),
            Place::Param => Err(MemFault::Forbidden(
                "kernel parameters are read-only".to_owned(),
            )),
            Place::Shared => {
                let (rank, offset) = self.shared_place(generic)?;
                let end = offset.checked_add(len).ok_or(MemFault::Unmapped)?;
                let memory = self.shared[rank].as_mut();
                let slice = memory.and_then(|bytes| bytes.get_mut(offset..end));
                slice.map(Some).ok_or(MemFault::Unmapped)
            }
            Place::Local => {
                let limit = self.launch.limits.local_bytes as usize;
                let range =
                    window_range(generic, self.local_base, len, limit).ok_or(MemFault::Unmapped)?;
                if thread.local.len() < range.end {
                    thread
                        .local
                        .resize(range.end.next_power_of_two().min(limit), 0);
                }
                Ok(thread.local.get_mut(range))
            }
        }
    }

    /// The rank of the CTA in whose shared memory a generic address lies, and the offset there.
    fn shared_place(&self, generic: u64) -> Result<(usize, usize), MemFault> {
        let offset = generic.checked_sub(SHARED_BASE).ok_or(MemFault::Unmapped)?;
        let rank = (offset >> CTA_SHIFT) as usize;
        let what = match self.shared.get(rank) {
            Some(Some(_)) => return Ok((rank, (offset & ((1 << CTA_SHIFT) - 1)) as usize)),
            Some(None) => "which has exited".to_owned(),
            None => format!("of which the cluster has {}", self.shared.len()),
        };
        Err(MemFault::Forbidden(format!(
            "shared memory of the CTA with rank {rank}, {what}"
        )))
    }

    /// `%cluster_ctarank`.
    pub(crate) fn cluster_rank(&self, env: &Env) -> u32 {
        env.rank
    }

    /// The generic address, if it is a multiple of the size of the access.
    fn aligned(&self, addr: Address, size: u32) -> Result<u64, FaultKind> {
        let generic = self.generic(addr);
        let misaligned = self.launch.limits.check_alignment
            && size.is_power_of_two()
            && !generic.is_multiple_of(u64::from(size));
        if misaligned {
            Err(FaultKind::Misaligned {
                addr: generic,
                size,
            })
        } else {
            Ok(generic)
        }
    }

    /// A row of a tile is aligned, whatever its words are. PTX ISA, "ldmatrix".
    pub(crate) fn check_row(&self, offset: u64) -> Result<(), FaultKind> {
        let row = Address {
            space: Space::Shared,
            base: offset as u32 as i32 as u64,
            offset: 0,
        };
        self.aligned(row, ROW_BYTES).map(|_| ())
    }

    /// `Load`: `results` side by side. The whole access must be aligned.
    pub(crate) fn load(
        &mut self,
        thread: &mut Thread<'_>,
        addr: Address,
        ty: Type,
        results: &[Value],
    ) -> Result<(), FaultKind> {
        let size = ty.bytes() as usize;
        let mut bytes = [0u8; 64];
        let bytes = bytes
            .get_mut(..size * results.len())
            .ok_or_else(|| too_wide(results.len()))?;
        self.read(thread, addr, bytes)?;
        for (&result, element) in results.iter().zip(bytes.chunks_exact(size)) {
            thread.frame().set(result, read_le(element));
        }
        Ok(())
    }

    /// `Store` of elements side by side.
    pub(crate) fn store(
        &mut self,
        thread: &mut Thread<'_>,
        addr: Address,
        ty: Type,
        elements: &[u64],
    ) -> Result<(), FaultKind> {
        let size = ty.bytes() as usize;
        let mut bytes = [0u8; 64];
        let bytes = bytes
            .get_mut(..size * elements.len())
            .ok_or_else(|| too_wide(elements.len()))?;
        for (element, slot) in elements.iter().zip(bytes.chunks_exact_mut(size)) {
            slot.copy_from_slice(&element.to_le_bytes()[..size]);
        }
        self.write(thread, addr, bytes)
    }
}

fn too_wide(n: usize) -> FaultKind {
    FaultKind::Launch(format!(
        "an access to {n} elements is wider than any PTX has"
    ))
}

pub(crate) fn place(generic: u64) -> Place {
    let near = |base: u64| generic.wrapping_sub(base).wrapping_add(WINDOW) < 2 * WINDOW;
    if near(SHARED_BASE) {
        Place::Shared
    } else if generic.wrapping_sub(LOCAL_BASE).wrapping_add(WINDOW) < LOCAL_WINDOWS {
        Place::Local
    } else if near(PARAM_BASE) {
        Place::Param
    } else {
        Place::Memory
    }
}

/// The bytes of an access in a window of `size` bytes.
fn window_range(
    generic: u64,
    base: u64,
    len: usize,
    size: usize,
) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(generic.checked_sub(base)?).ok()?;
    let end = start.checked_add(len)?;
    (end <= size).then_some(start..end)
}
