//! The semantics of the CUDA driver API on top of the `ptxjit` crate.
//!
//! Each public function is one function of the interface, or one of its versions, with results
//! instead of out-pointers;
//! `crates/cuda` exports them under C's names. Handles are numbers that are checked ([`handle`]),
//! memory of the client is read and written where it may not be there ([`host`]), and work runs in
//! streams ([`stream`]).
//!
//! Suggested reading: [`state`], [`context`], [`stream`], [`command`], [`launch`], [`memory`],
//! [`graph`], [`capture`].
//!
//! **Invariants**: nothing that a client passes makes the process crash or hang; a failed launch
//! makes its context unusable and nothing else; no lock is held while a function of the client
//! runs.

pub mod types;

mod handle;

mod call;
pub mod capture;
mod command;
pub mod context;
pub mod device;
mod error;
pub mod event;
pub mod fault;
mod findings;
pub mod function;
pub mod graph;
pub mod host;
pub mod image;
pub mod launch;
pub mod launch_state;
pub mod library;
pub mod link;
pub mod logs;
pub mod memory;
pub mod module;
mod names;
pub mod occupancy;
pub mod peer;
pub mod private_table;
pub mod ptx_run;
pub mod report;
pub mod settings;
mod state;
pub mod stream;
mod thread_end;
pub mod trace;

pub use error::Result;
pub use findings::calling;
pub use host::put_text;
pub use state::{check_call, init, with_per_thread_default};
