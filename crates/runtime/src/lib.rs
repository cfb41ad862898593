//! Device memory, faults and CTA scheduling: what runs compiled kernels.
//!
//! Suggested reading: [`memory`] (where everything lies), [`launch`] (what a launch takes),
//! [`grid`] (who works on it), [`sched`] (how a CTA is run), [`fault`] and [`worker`] (how compiled
//! code is left when it misbehaves). The contract with compiled code is `ptxjit_abi`.
//!
//! **Invariants**: a kernel reaches device memory or faults, never the host's unless an `unsafe`
//! call has opened it; a fault, a deadlock or a time limit ends the launch with an error and leaves
//! the process as it was; starting a CTA allocates nothing in the steady state.

mod ahead;
mod buf;
mod builtins;
mod code;
mod counters;
mod error;
mod fault;
mod fp;
mod grid;
pub mod host;
mod launch;
pub mod memory;
mod module;
mod runtime;
mod sampling;
mod sched;
mod supply;
mod tensor;
mod thread;
mod traces;
mod view;
mod watchdog;
mod worker;

#[cfg(test)]
mod module_tests;

pub use counters::Counters;
pub use error::{Deadlock, LaunchError, ShapeRule, Threads, Trap, TrapCause, WaitingGroup};
pub use launch::{
    CancelToken, LaunchDesc, LaunchStats, MAX_SHARED_BYTES, MAX_THREADS, MakeCode, OutputFn,
    PeerGuard, Schedule,
};
pub use memory::{
    Access, Arena, GRANULE, MAX_PARTS, MemoryError, Pattern, PhysicalMemory as PhysicalPages,
    Snapshot, TagTables,
};
pub use module::{ModuleMemory, VarSource};
pub use runtime::Runtime;
pub use traces::{Served, Traces, Traffic, sampled_ctas};
