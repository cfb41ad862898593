//! Gang lowering of the IR to native code through Cranelift.
//!
//! [`compile`] takes an optimised program and launch facts to a [`CompiledKernel`]: calls that were not inlined become states
//! (`calls`), the vectorizer plans for a gang width, `lower` emits CLIF, `compile` makes an [`Object`] of it, which can be stored,
//! and `link` places that in executable memory. What code and runtime promise each other is in [`abi`].
//!
//! This is the only crate that names Cranelift.

pub mod abi;
mod calls;
mod chains;
mod code_space;
mod compile;
mod denormals;
mod emit;
mod factors;
mod gang;
mod gathered;
mod helpers;
mod host;
mod link;
mod lower;
mod masked;
mod mma;
mod notes;
mod object;
mod operands;
mod pairs;
mod registers;
mod schedule;
mod slots;
pub mod warp_ops;
mod weigh;
mod ymm;

pub use abi::{
    CompileOptions, CompileStats, CompiledKernel, CtaContext, EnterFn, Facts, FaultKind, Haste,
    IDLE_OFFSET, LaneState, Operand, ResumeKind, ResumePoint, RuntimeFns, SlowForm, SymbolRef,
};
pub use compile::{CompileError, compile, compile_listing, compile_object};
pub use gang::{GangChoice, choose as choose_gang};
pub use host::target;
pub use object::Object;
