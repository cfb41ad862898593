//! Why a launch did not end well.

use std::fmt;

use ptxjit_ir::SrcLoc;

use crate::memory::MemoryError;

/// Threads of a CTA, as a report names them: the first and the last by linear index. Between them
/// may be some that are not meant.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Threads {
    /// `%tid` of the first.
    pub first: [u32; 3],
    /// `%tid` of the last.
    pub last: [u32; 3],
    /// How many.
    pub count: u32,
}

impl fmt::Display for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.first;
        if self.count == 1 {
            return write!(f, "thread ({x}, {y}, {z})");
        }
        let [to_x, to_y, to_z] = self.last;
        write!(
            f,
            "{} threads in ({x}, {y}, {z}) to ({to_x}, {to_y}, {to_z})",
            self.count
        )
    }
}

/// What a thread did wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TrapCause {
    /// An access outside device memory, or under `memcheck` outside an allocation.
    BadAddress {
        /// The address, where the machine tells it.
        addr: Option<u64>,
        /// What is there, in words.
        note: String,
    },
    /// `memcheck`: an address that is no multiple of the access size.
    Misaligned {
        /// The address.
        addr: u64,
        /// Bytes accessed.
        size: u32,
    },
    /// `trap`.
    Trap,
    /// Control reached a place that the program promised it would not.
    Unreachable,
    /// The thread's local memory is used up.
    StackOverflow {
        /// Bytes that a thread has.
        limit: u64,
    },
    /// Compiled code needs more of the host's stack than there is.
    HostStack {
        /// Bytes that there are.
        limit: usize,
    },
    /// An indirect call through a pointer to no function of the expected signature.
    BadCallTarget,
    /// A barrier id that does not exist.
    BadBarrier {
        /// The id.
        id: u64,
    },
    /// A count of threads at a barrier that no barrier can have, or not this one.
    BadBarrierCount {
        /// The barrier.
        id: u64,
        /// What is wrong.
        why: String,
    },
    /// The barrier of the cluster, used against its rules.
    ClusterBarrier {
        /// What is wrong.
        why: String,
    },
    /// A warp operation executed by a lane that its member mask does not name.
    NoMember {
        /// The operation.
        op: String,
        /// The mask.
        mask: u32,
        /// The lane.
        lane: u32,
    },
    /// A failed device `assert`.
    Assert {
        /// The line that CUDA prints to standard error.
        message: String,
    },
    /// A call of a runtime function that makes no sense.
    BadCall {
        /// What is wrong.
        note: String,
    },
    /// An arithmetic exception, which compiled code must not raise: our bug.
    Arithmetic,
}

impl fmt::Display for TrapCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrapCause::BadAddress {
                addr: Some(addr),
                note,
            } => write!(f, "access to {addr:#x}: {note}"),
            TrapCause::BadAddress { addr: None, note } => {
                write!(f, "access to a bad address: {note}")
            }
            TrapCause::Misaligned { addr, size } => {
                write!(f, "misaligned access of {size} bytes at {addr:#x}")
            }
            TrapCause::Trap => f.write_str("`trap` was executed"),
            TrapCause::Unreachable => {
                f.write_str("control reached a place the program declares unreachable")
            }
            TrapCause::StackOverflow { limit } => {
                write!(f, "local memory of {limit} bytes is used up")
            }
            TrapCause::HostStack { limit } => write!(
                f,
                "the code of this kernel needs more than {limit} bytes of the host's stack: that of a narrower gang needs less"
            ),
            TrapCause::BadCallTarget => {
                f.write_str("indirect call of something that is no function with this signature")
            }
            TrapCause::BadBarrier { id } => {
                write!(f, "barrier {id} does not exist: ids are 0 to 15")
            }
            TrapCause::BadBarrierCount { id, why } => write!(f, "barrier {id}: {why}"),
            TrapCause::ClusterBarrier { why } => f.write_str(why),
            TrapCause::NoMember { op, mask, lane } => write!(
                f,
                "`{op}` with member mask {mask:#010x} by lane {lane}, which the mask does not name"
            ),
            TrapCause::Assert { message } => f.write_str(message),
            TrapCause::BadCall { note } => f.write_str(note),
            TrapCause::Arithmetic => {
                f.write_str("arithmetic exception in compiled code (a bug in ptxjit)")
            }
        }
    }
}

/// A thread stopped its grid.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Trap {
    /// Why.
    pub cause: TrapCause,
    /// Name of the kernel.
    pub kernel: String,
    /// `%ctaid` of the CTA.
    pub ctaid: [u32; 3],
    /// `%ctaid` of the last CTA among whose threads it is: another one only if CTAs ran as one.
    pub last_ctaid: [u32; 3],
    /// The thread, or the threads among which it is.
    pub threads: Threads,
    /// The PTX statement.
    pub loc: Option<SrcLoc>,
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.ctaid;
        write!(f, "kernel `{}`, CTA ({x}, {y}, {z})", self.kernel)?;
        if self.last_ctaid != self.ctaid {
            let [x, y, z] = self.last_ctaid;
            write!(f, " to ({x}, {y}, {z})")?;
        }
        write!(f, ", {}: {}", self.threads, self.cause)
    }
}

/// Threads of a CTA that wait for the same thing in vain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitingGroup {
    /// What for, in words: the instruction with its barrier or mask.
    pub what: String,
    /// The PTX statement.
    pub loc: SrcLoc,
    /// Who.
    pub threads: Threads,
}

/// No thread of a CTA can run and not all have ended.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Deadlock {
    /// Name of the kernel.
    pub kernel: String,
    /// `%ctaid` of the CTA.
    pub ctaid: [u32; 3],
    /// Who waits for what.
    pub groups: Vec<WaitingGroup>,
    /// Number of threads that have ended.
    pub n_exited: u32,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.ctaid;
        write!(f, "kernel `{}`, CTA ({x}, {y}, {z}): deadlock", self.kernel)?;
        for group in &self.groups {
            write!(f, "; {} wait at {}", group.threads, group.what)?;
        }
        if self.n_exited != 0 {
            write!(f, "; {} threads have ended", self.n_exited)?;
        }
        Ok(())
    }
}

/// The rule that the description of a launch breaks.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ShapeRule {
    /// Extents of the block: none is zero or too large, nor is their product.
    Block,
    /// `.maxntid` or `.reqntid` of the kernel.
    Threads,
    /// Extents of the grid.
    Grid,
    /// Shape of the clusters.
    Cluster,
    /// The CTAs of a cooperative launch all run at once.
    Cooperative,
    /// Size of the parameters.
    Params,
    /// Size of shared memory.
    Shared,
    /// Size of a thread's local memory.
    Local,
}

/// Why a launch failed.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// A module or its code cannot be used so; nothing ran.
    #[error("{0}")]
    Invalid(String),
    /// Shapes, sizes or parameters break a rule; nothing ran.
    #[error("{message}")]
    Shape {
        /// The rule.
        rule: ShapeRule,
        /// The rule and the value that breaks it, in words.
        message: String,
    },
    /// A thread stopped the grid.
    #[error("{0}")]
    Trap(Box<Trap>),
    /// Threads wait for each other.
    #[error("{0}")]
    Deadlock(Box<Deadlock>),
    /// The time limit passed.
    #[error("kernel `{kernel}`: time limit of {seconds} s exceeded")]
    Timeout {
        /// Name of the kernel.
        kernel: String,
        /// The limit.
        seconds: f64,
    },
    /// Cancelled by the host.
    #[error("kernel `{kernel}`: cancelled")]
    Cancelled {
        /// Name of the kernel.
        kernel: String,
    },
    /// No memory for the launch itself.
    #[error("{0}")]
    Memory(#[from] MemoryError),
    /// The system refused something that the launch needs.
    #[error("cannot run the kernel: {0}")]
    System(String),
    /// There is no code to go on with.
    #[error("cannot compile the kernel: {0}")]
    Code(String),
    /// A variable that no module defines.
    #[error("`{0}` is declared `.extern` and not defined")]
    UnresolvedSymbol(String),
}

impl LaunchError {
    /// The error in terms of CTAs of `width` threads along x, of which so many ran as one.
    pub(crate) fn with_ctas_apart(mut self, joined: u32, width: u32) -> LaunchError {
        if let LaunchError::Trap(trap) = &mut self {
            let Threads { first, last, .. } = &mut trap.threads;
            let [from, to] = [first[0] / width, last[0] / width];
            let of_first = trap.ctaid[0] * joined;
            trap.ctaid[0] = of_first + from.min(to);
            trap.last_ctaid[0] = of_first + from.max(to);
            (first[0], last[0]) = (first[0] % width, last[0] % width);
        }
        self
    }
}

impl From<std::io::Error> for LaunchError {
    fn from(err: std::io::Error) -> LaunchError {
        LaunchError::System(err.to_string())
    }
}
