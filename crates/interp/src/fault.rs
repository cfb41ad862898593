//! Why a launch ended before its threads did.

use std::fmt;

use ptxjit_device::Site;
use ptxjit_ir::SrcLoc;

use crate::memory::MemFault;

/// A launch that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// What happened.
    pub kind: FaultKind,
    /// In which CTA.
    pub ctaid: [u32; 3],
    /// In which thread; none if it concerns the whole CTA.
    pub tid: Option<[u32; 3]>,
    /// In which function; empty if it concerns the whole CTA.
    pub function: String,
    /// At which statement.
    pub loc: SrcLoc,
    /// The calls that led there, the innermost first.
    pub calls: Vec<SrcLoc>,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FaultKind {
    /// The launch itself makes no sense.
    Launch(String),
    /// An access to `size` bytes at generic address `addr` that is not allowed.
    BadAddress {
        /// Generic address.
        addr: u64,
        /// Bytes of the access.
        size: u32,
        /// What is wrong.
        why: MemFault,
    },
    /// An address that is no multiple of the size of the access.
    Misaligned {
        /// Generic address.
        addr: u64,
        /// Bytes of the access.
        size: u32,
    },
    /// `trap`.
    Trap,
    /// Control reached what the program promised unreachable.
    Unreachable,
    /// Local memory or call depth used up.
    StackOverflow,
    /// An indirect call through this, which is no function of the signature.
    BadCallTarget(u64),
    /// A failed `assert`, with CUDA's message.
    Assert(String),
    /// The host refused a request of the kernel, with its reason.
    Host(String),
    /// A barrier used with counts, or by a number, that it cannot have.
    BadBarrier(String),
    /// A member mask that does not fit the lanes.
    BadMask(String),
    /// What is given to `free` is no live allocation.
    BadFree {
        /// The address.
        addr: u64,
        /// What is there.
        why: String,
    },
    /// No thread of the CTA can go on.
    Deadlock(Vec<WaitGroup>),
    /// An operation that another instruction has begun failed when it was completed. Faults of a
    /// launch name that instruction instead.
    Late {
        /// That instruction, and who executed it.
        site: Site,
        /// What happened.
        kind: Box<FaultKind>,
    },
    /// The plan of a gang claims what is not so.
    Plan(String),
    /// A recorded schedule chooses what is not there.
    Departed,
    /// The host asked to stop.
    Cancelled,
}

/// Threads of a CTA that wait for the same thing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitGroup {
    /// For what, such as "barrier 0: 32 of 64 threads arrived".
    pub what: String,
    /// Linear numbers of the threads.
    pub threads: Vec<u32>,
    /// The statement where the first of them waits.
    pub loc: SrcLoc,
    /// The calls that led there, the innermost first.
    pub calls: Vec<SrcLoc>,
    /// The first of them.
    pub tid: [u32; 3],
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::Launch(why)
            | FaultKind::Assert(why)
            | FaultKind::Host(why)
            | FaultKind::BadBarrier(why)
            | FaultKind::BadMask(why)
            | FaultKind::BadFree { why, .. } => f.write_str(why),
            FaultKind::BadAddress { addr, size, why } => {
                write!(f, "access to {size} bytes at {addr:#x}: {why}")
            }
            FaultKind::Misaligned { addr, size } => {
                write!(f, "address {addr:#x} is not a multiple of {size}")
            }
            FaultKind::Trap => f.write_str("`trap`"),
            FaultKind::Unreachable => f.write_str("control reached a place declared unreachable"),
            FaultKind::StackOverflow => f.write_str("local memory or call depth is used up"),
            FaultKind::BadCallTarget(addr) => {
                write!(f, "{addr:#x} is no function of the called signature")
            }
            FaultKind::Deadlock(groups) => {
                f.write_str("deadlock")?;
                groups.iter().try_for_each(|group| {
                    write!(f, "; {} threads at {}", group.threads.len(), group.what)
                })
            }
            FaultKind::Late { kind, .. } => kind.fmt(f),
            FaultKind::Plan(what) => write!(f, "the plan of the gang does not hold: {what}"),
            FaultKind::Departed => f.write_str(
                "the launch departs from the recorded schedule: it does not do the same every time, \
                 or the file is not as it was written",
            ),
            FaultKind::Cancelled => f.write_str("cancelled"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.ctaid;
        write!(f, "{} in cta ({x}, {y}, {z})", self.kind)?;
        match self.tid {
            Some([x, y, z]) => write!(f, " thread ({x}, {y}, {z})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Fault {}
