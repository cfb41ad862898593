//! Gang lowering of the IR to native code through Cranelift.
//!
//! [`compile`] takes an optimised program and launch facts to a [`CompiledKernel`]: calls that were not inlined become states
//! (`calls`), the vectorizer plans for a gang width, `lower` emits CLIF, `compile` turns it into executable memory. What code and
//! runtime promise each other is in [`abi`].
//!
//! This is the only crate that names Cranelift.

pub mod abi;
mod calls;
mod compile;
mod denormals;
mod emit;
mod helpers;
mod lower;
mod notes;
mod schedule;
pub mod warp_ops;

pub use abi::{
    CompileOptions, CompiledKernel, CtaContext, EnterFn, Facts, FaultKind, LaneState, Operand,
    ResumeKind, ResumePoint, RuntimeFns, SlowForm, SymbolRef,
};
pub use compile::{CompileError, choose_gang, compile, compile_listing};
