//! PTX text to AST to IR.
//!
//! `parse` turns text into the AST of `ast`: first only the skeleton of a module, later the bodies
//! of the functions in use. `isa` knows the instructions, `translate` makes IR of them. Everything
//! that can be wrong with a module is reported as a `diag::Diagnostic`.

#![forbid(unsafe_code)]

// The grammar's code names it, since pest is used without `std` (`parse/grammar.rs` says why).
extern crate alloc;

pub mod ast;
pub mod diag;
pub mod escape;
pub mod isa;
pub mod parse;
pub mod source;
pub mod translate;
