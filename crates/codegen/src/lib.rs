//! Gang lowering of the IR to native code through Cranelift.
//!
//! [`compile()`] takes an optimised program and launch facts to a
//! [`CompiledKernel`](ptxjit_abi::CompiledKernel): calls that were not inlined become states
//! (`calls`), the vectorizer plans for a gang width, `lower` emits CLIF, `compile` makes an
//! [`Object`](ptxjit_abi::object::Object) of it, which can be stored, and `link` places that in
//! executable memory. What code and runtime promise each other is in `ptxjit_abi`.
//!
//! This is the only crate that names Cranelift.

#![deny(clippy::wildcard_enum_match_arm)]

mod calls;
mod chains;
mod clif;
mod code_space;
mod compile;
mod decisions;
mod denormals;
mod emit;
mod fma_operands;
mod gang;
mod helpers;
mod host;
mod limits;
mod link;
mod lower;
mod object;
mod ops;
mod planned;
mod registers;
mod schedule;
mod slots;
mod weigh;
mod wide;

pub use ptxjit_vectorize::heuristics::{Heuristic, Switches};

pub use compile::{
    BaselineTier, CompileError, CompileOptions, compile, compile_listing, compile_object,
};
pub use gang::{GangChoice, choose as choose_gang};
pub use host::{Target, describe};
pub use link::place;
pub use planned::plan;
pub use ptxjit_vectorize::Plan;
