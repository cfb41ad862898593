//! What an operation of the device ([`DeviceOp`]) does, written once for both engines.
//!
//! The interpreter and compiled code call [`execute`] for one thread after the other. What an
//! operation needs of the thread that executes it comes through [`Thread`], which checks every
//! address; so nothing here needs `unsafe`, and a wrong operand ends in a [`Fault`] that names the
//! reason.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod asynchronous;
mod builtin;
mod mbarrier;
pub mod printf;
#[cfg(test)]
mod printf_tests;
pub mod tcgen05;
pub mod tensor;
pub mod texture;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use ptxjit_ir::{AsyncOp, CTA_SHIFT, DeviceOp, SrcLoc};

use asynchronous::{Issuer, Queue};
use tcgen05::TensorMemory;

/// What an operation sees of the thread that executes it.
pub trait Thread {
    /// Fills `bytes` from memory at a generic address.
    fn read(&mut self, addr: u64, bytes: &mut [u8]) -> Result<(), Fault>;

    /// Writes `bytes` to memory at a generic address.
    fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Fault>;

    /// Gathers rows of memory at generic addresses to places in `bytes`.
    fn read_rows(&mut self, rows: &Rows, bytes: &mut [u8]) -> Result<(), Fault> {
        rows.each()
            .try_for_each(|(addr, place)| self.read(addr, &mut bytes[place]))
    }

    /// Gathers rows of memory, those of a tensor that begins at `tensor`, right into `len` bytes of
    /// shared memory at a generic address, where each has its place, and calls `finish` with these.
    /// False where that cannot be done at once: then the caller goes through a buffer.
    fn gather(
        &mut self,
        _to: u64,
        _len: usize,
        _tensor: u64,
        _rows: &[(usize, Rows)],
        _finish: &mut dyn FnMut(&mut [u8]),
    ) -> bool {
        false
    }

    /// Scatters places in `len` bytes of shared memory at a generic address to rows of memory.
    /// False, possibly with some of it done, where that cannot be done at once.
    fn scatter(&mut self, _from: u64, _len: usize, _rows: &[(usize, Rows)]) -> bool {
        false
    }

    /// Scatters places in `bytes` to rows of memory at generic addresses.
    fn write_rows(&mut self, rows: &Rows, bytes: &[u8]) -> Result<(), Fault> {
        rows.each()
            .try_for_each(|(addr, place)| self.write(addr, &bytes[place]))
    }

    /// Replaces the little-endian element of `size` bytes (1, 2, 4 or 8) at a generic address
    /// atomically by what `update` makes of it; returns the old one. `update` may be called several
    /// times.
    fn update(
        &mut self,
        addr: u64,
        size: u32,
        update: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, Fault>;

    /// Replaces the 16 bytes at a generic address atomically by `new`, if they are what is expected
    /// where something is; returns the old ones. Without atomic operations, for an engine that runs
    /// one thread at a time.
    fn exchange(&mut self, addr: u64, expected: Option<u128>, new: u128) -> Result<u128, Fault> {
        let mut bytes = [0; 16];
        self.read(addr, &mut bytes)?;
        let old = u128::from_le_bytes(bytes);
        let is_replaced = expected.is_none_or(|expected| expected == old);
        self.write(addr, &if is_replaced { new } else { old }.to_le_bytes())?;
        Ok(old)
    }

    /// The texture, sampler or surface that a handle stands for.
    fn object(&mut self, handle: u64) -> Option<Arc<texture::Object>>;

    /// `%tid`.
    fn tid(&self) -> [u32; 3];

    /// The thread's place in its CTA, counted along x, y, z.
    fn number(&self) -> u32;

    /// The instruction that is executed.
    fn loc(&self) -> SrcLoc;

    /// Whether the thread's CTA is the odd one of its pair.
    fn is_odd(&self) -> bool;

    /// Shared memory of a CTA that has not ended.
    fn shared(&self, cta: Member) -> Result<&[u8], Fault>;

    /// Tensor memory of a CTA that has not ended, if it has been used.
    fn tensor_memory(&mut self, cta: Member) -> Result<&mut Option<Box<TensorMemory>>, Fault>;

    /// `%ctaid`.
    fn ctaid(&self) -> [u32; 3];

    /// `%cluster_ctarank`.
    fn cluster_rank(&self) -> u32;

    /// `%cluster_nctarank`.
    fn cluster_size(&self) -> u32;

    /// Generic address of offset 0 of the window of the cluster's shared memory, in which that of
    /// the CTA with rank r begins at `r << CTA_SHIFT`.
    fn shared_window(&self) -> u64;

    /// Takes a cluster that was not started off the grid: `%ctaid` of its first CTA.
    fn cancel_launch(&mut self) -> Option<[u32; 3]>;

    /// What the threads of the cluster have begun and not completed.
    fn queue(&mut self) -> &mut Queue;

    /// Does something in the name of the thread that has begun an operation.
    fn act_as(&mut self, issuer: &Issuer, act: &mut Act<'_>) -> Result<(), Fault>;

    /// An operation has been begun. For engines that watch accesses: the copy's are ordered by what
    /// the thread has done before now.
    fn begun(&mut self, _issuer: &Issuer, _op: &AsyncOp, _args: &[u64]) -> Result<(), Fault> {
        Ok(())
    }

    /// Text that the kernel prints.
    fn print(&mut self, text: &[u8]);

    /// Allocates on the device heap; 0 if there is no room.
    fn malloc(&mut self, size: u64) -> u64;

    /// Gives memory of the device heap back; the error says what is wrong with the pointer, which
    /// is never null.
    fn free(&mut self, addr: u64) -> Result<(), String>;
}

/// Something that a thread does.
pub type Act<'a> = dyn FnMut(&mut dyn Thread) -> Result<(), Fault> + 'a;

/// Who executed an instruction, for reports.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Site {
    /// `%ctaid`.
    pub ctaid: [u32; 3],
    /// `%tid`.
    pub tid: [u32; 3],
    /// The instruction.
    pub loc: SrcLoc,
}

impl dyn Thread + '_ {
    /// The place in the shared memory of another CTA of the cluster that corresponds to a generic
    /// address in that of any.
    pub fn in_cta(&self, addr: u64, rank: u32) -> Result<u64, Fault> {
        let (base, n) = (self.shared_window(), self.cluster_size());
        if rank >= n {
            return Err(Fault::refused(format!(
                "the cluster has {n} CTAs, and none with rank {rank}"
            )));
        }
        let offset = addr.wrapping_sub(base);
        if self.rank_of(addr).is_none() {
            return Err(Fault::refused(format!(
                "{addr:#x} is no address in shared memory"
            )));
        }
        Ok(base + (u64::from(rank) << CTA_SHIFT) + (offset & ((1 << CTA_SHIFT) - 1)))
    }

    /// The rank of the CTA in whose shared memory a generic address lies.
    pub fn rank_of(&self, addr: u64) -> Option<u32> {
        let rank = addr.wrapping_sub(self.shared_window()) >> CTA_SHIFT;
        u32::try_from(rank)
            .ok()
            .filter(|&rank| rank < self.cluster_size())
    }
}

/// A CTA of a pair. PTX ISA, "CTA Pair".
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Member {
    /// The thread's own.
    Own,
    /// The one whose rank in the cluster differs in the last bit.
    Peer,
}

/// Rows of bytes at even distances, in memory and in a buffer.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Rows {
    /// The generic address of the first.
    pub addr: u64,
    /// Bytes from one to the next in memory.
    pub stride: u64,
    /// How many.
    pub count: usize,
    /// Bytes of each.
    pub len: usize,
    /// Bytes from one to the next in the buffer, which begins with the first.
    pub pitch: usize,
    /// They belong to more memory than caches hold: what is written there is better not kept in
    /// caches.
    pub is_large: bool,
}

impl Rows {
    /// Address and place in the buffer of each row. An address that would lie beyond the end of the
    /// address space is the last one, where no memory is.
    pub fn each(self) -> impl Iterator<Item = (u64, Range<usize>)> {
        (0..self.count).map(move |n| {
            let offset = self.stride.saturating_mul(n as u64);
            let place = n * self.pitch;
            (self.addr.saturating_add(offset), place..place + self.len)
        })
    }

    /// The same bytes as one row, if they follow each other on both sides.
    pub fn joined(self) -> Rows {
        if self.stride != self.len as u64 || self.pitch != self.len {
            return self;
        }
        Rows {
            count: 1,
            len: self.count * self.len,
            ..self
        }
    }

    /// Bytes from the first of the first row to the last of the last, if addresses reach so far.
    pub fn extent(self) -> Option<u64> {
        let rest = (self.count as u64).checked_sub(1)?;
        let last = self.stride.checked_mul(rest)?;
        let len = last.checked_add(self.len as u64)?;
        self.addr.checked_add(len).map(|_| len)
    }
}

/// Why an operation stops the grid.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The thread must not access these bytes.
    BadAddress {
        /// First address.
        addr: u64,
        /// Bytes.
        size: u64,
        /// What is wrong, where the engine that checked the address knows.
        why: String,
    },
    /// An address that is no multiple of what the operation wants.
    Misaligned {
        /// The address.
        addr: u64,
        /// What it must be a multiple of.
        size: u32,
    },
    /// An assertion of the program failed.
    Assert {
        /// The line that CUDA prints to standard error.
        message: String,
    },
    /// Operands that make no sense.
    Refused {
        /// What is wrong with which operand.
        why: String,
    },
    /// An operation that another instruction has begun failed when it was completed.
    Late {
        /// That instruction, and who executed it.
        site: Site,
        /// How it failed.
        fault: Box<Fault>,
    },
}

impl Fault {
    /// Operands that make no sense.
    pub fn refused(why: impl Into<String>) -> Fault {
        Fault::Refused { why: why.into() }
    }

    /// The fault of an operation that was begun at a place.
    fn of(self, site: Site) -> Fault {
        match self {
            Fault::Late { .. } => self,
            other => Fault::Late {
                site,
                fault: Box::new(other),
            },
        }
    }

    /// A thread asks for its CTA's peer, and there is none.
    pub fn no_peer() -> Fault {
        Fault::refused("the CTA has no peer: a pair is of two neighbors in a cluster")
    }

    /// A thread asks for its CTA's peer, which has ended.
    pub fn peer_has_exited() -> Fault {
        Fault::refused("the peer of the CTA has exited")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::BadAddress { addr, size, why } => {
                write!(f, "access to {size} bytes at {addr:#x}: {why}")
            }
            Fault::Misaligned { addr, size } => {
                write!(f, "address {addr:#x} is not a multiple of {size}")
            }
            Fault::Assert { message: text } | Fault::Refused { why: text } => f.write_str(text),
            Fault::Late { fault, .. } => fault.fmt(f),
        }
    }
}

/// Executes an operation for one thread: `args` as [`DeviceOp::args`] says, one word each,
/// `results` likewise.
pub fn execute(
    op: &DeviceOp,
    thread: &mut dyn Thread,
    args: &[u64],
    results: &mut [u64],
) -> Result<(), Fault> {
    match op {
        DeviceOp::Builtin(builtin) => builtin::call(*builtin, thread, args, results),
        DeviceOp::Tensor(op) => tensor::execute(*op, thread, args),
        DeviceOp::Exchange128 { compares } => exchange(*compares, thread, args, results),
        DeviceOp::Clear => clear(thread, args[0], args[1]),
        DeviceOp::Async(op) => asynchronous::execute(op, thread, args),
        DeviceOp::CancelLaunch => {
            if let Some([x, y, z]) = thread.cancel_launch().map(|at| at.map(u64::from)) {
                (results[0], results[1]) = (x | y << 32 | z << 48, 1);
            }
            Ok(())
        }
        DeviceOp::BadBulk => Err(bad_bulk([args[0], args[1]], args[2])),
        DeviceOp::BadBarrier => Err(mbarrier::uninitialized(args[0])),
        DeviceOp::Texture(op) => texture::execute(*op, thread, args, results),
        // Results are zero already.
        DeviceOp::Mark(_) | DeviceOp::AlignedRow | DeviceOp::Trace(_) => Ok(()),
        DeviceOp::TensorMemory(op) => tcgen05::execute(op, thread, args, results),
    }
}

/// What is wrong with a bulk copy of which something is no multiple of 16. PTX ISA, "Data Movement
/// and Conversion Instructions: cp.async.bulk".
fn bad_bulk(places: [u64; 2], bytes: u64) -> Fault {
    const UNIT: u32 = 16;
    match places.iter().find(|addr| !addr.is_multiple_of(UNIT.into())) {
        Some(&addr) => Fault::Misaligned { addr, size: UNIT },
        None => Fault::refused(format!(
            "a bulk copy of {bytes} bytes: a multiple of {UNIT} is needed"
        )),
    }
}

/// `atom.exch.b128` and `atom.cas.b128`.
fn exchange(
    compares: bool,
    thread: &mut dyn Thread,
    args: &[u64],
    results: &mut [u64],
) -> Result<(), Fault> {
    const SIZE: u32 = 16;
    let addr = args[0];
    if !addr.is_multiple_of(SIZE.into()) {
        return Err(Fault::Misaligned { addr, size: SIZE });
    }
    let number = |n: usize| u128::from(args[n]) | u128::from(args[n + 1]) << 64;
    let (expected, new) = match compares {
        true => (Some(number(1)), number(3)),
        false => (None, number(1)),
    };
    let old = thread.exchange(addr, expected, new)?;
    (results[0], results[1]) = (old as u64, (old >> 64) as u64);
    Ok(())
}

/// `st.bulk`. PTX ISA, "Data Movement and Conversion Instructions: st.bulk".
fn clear(thread: &mut dyn Thread, addr: u64, size: u64) -> Result<(), Fault> {
    const UNIT: u32 = 8;
    const MAX: u64 = 1 << 24;
    if !size.is_multiple_of(UNIT.into()) || size > MAX {
        return Err(Fault::refused(format!(
            "`st.bulk` of {size} bytes: a multiple of {UNIT}, and at most {MAX}, is needed"
        )));
    }
    if thread.rank_of(addr).is_none() {
        return Err(Fault::refused(format!(
            "`st.bulk`: {addr:#x} is no address in shared memory"
        )));
    }
    if !addr.is_multiple_of(UNIT.into()) {
        return Err(Fault::Misaligned { addr, size: UNIT });
    }
    // No shared memory has as many bytes as a size may say.
    const PIECE: u64 = 1 << 12;
    let zeros = [0; PIECE as usize];
    (0..size).step_by(PIECE as usize).try_for_each(|at| {
        let len = PIECE.min(size - at) as usize;
        thread.write(addr.wrapping_add(at), &zeros[..len])
    })
}
