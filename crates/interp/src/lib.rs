//! The plain, slow meaning of the IR: runs a [`Program`](ptxjit_ir::Program) for a launch, one
//! thread at a time.
//!
//! This is the oracle that compiled code is compared with. It shares nothing with the code
//! generator but the IR and [`ptxjit_ir::eval`], reaches global memory only through the [`Memory`]
//! trait, and everything that is not memory (output, heap, clocks) through [`Host`].
//!
//! * Each thread is a state machine with a stack of frames, so that it can wait anywhere. Threads
//!   of a CTA run in order, each
//!   until it waits, ends, or has used up its quantum; so a thread that spins for another one gets
//!   its turn to see it move.
//! * That is the deterministic order; [`Schedule`] has others, which run groups of lanes between
//!   preemption points (`groups.rs`).
//! * CTAs run one after another in ascending order. A cooperative launch has all of them live at
//!   once; otherwise the next CTA
//!   is started early only if the live ones run on for very long (they may be waiting for it).
//! * Programs that expect lockstep run warp by warp, with reconvergence at the immediate
//!   post-dominator.
//! * With a [plan](Launch::plan), gangs run as the vectorizer has planned them, and what the plan
//!   claims is compared with what each thread computes (`planned/`).
//! * A CTA in which no thread can go on is a deadlock and is reported with what every group waits
//!   for.
//!
//! Atomicity and ordering are trivial here: one host thread runs everything, and memory is
//! sequentially consistent under every schedule.

#![forbid(unsafe_code)]

mod access;
pub mod barrier;
mod bounds;
mod call;
mod choose;
mod cluster;
mod device;
mod exec;
mod fault;
mod groups;
mod host;
mod launch;
mod lockstep;
mod marks;
mod memory;
mod misuse;
mod observe;
mod planned;
mod postdom;
mod rendezvous;
mod schedule;
mod sreg;
#[cfg(test)]
mod tests;
mod thread;
pub mod warp;
mod watch;

pub use choose::{Schedule, Turn, Turns};
pub use fault::{Fault, FaultKind, WaitGroup};
pub use host::{Host, SilentHost};
pub use launch::{Launch, Limits, Watched, launch, watched};
pub use memory::{MemFault, Memory, VecMemory};
pub use watch::finding::{
    Access, AccessOp, Finding, FindingKind, Hazard, Object, Reason, Severity, Site,
};
pub use watch::{Allocated, Checks, LastWrites};
