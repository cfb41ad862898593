//! Fuzzing: random kernels that must do the same in the interpreter and as native code, and random
//! text for the parser.
//!
//! [`generate`] makes a program from a seed, [`drive`] runs it everywhere, compares, and makes what
//! fails small; [`cluster`] makes programs of clusters and asynchronous copies, [`images`] reads of
//! textures and surfaces; [`mutate`] damages PTX text; [`flow`] makes tangled control flow,
//! [`extremes`] large and deep modules. A program does the same under every schedule: threads write
//! only places of their own, or meet at barriers in between, or use atomic operations whose order
//! does not show. NaNs are compared as a class, and so never reach an integer.
//!
//! The commands are in `tests/fuzz/`; a short run is part of `cargo test`.

pub mod access;
pub mod affine;
pub mod calls;
pub mod case;
pub mod cluster;
pub mod control;
pub mod drive;
pub mod extremes;
pub mod flow;
pub mod generate;
pub mod images;
pub mod indices;
pub mod mutate;
pub mod ops;
mod patterns;
pub mod rng;
pub mod sync;
pub mod tree;
pub mod warp;
