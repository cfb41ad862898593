//! Analyses and transformations of the IR.
//!
//! `analysis/` reads a function and returns plain data, `transform/` changes a function,
//! [`pipeline`] is the order in which that happens to a program before it is vectorized.

#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

pub mod analysis;
pub mod effort;
pub mod pipeline;
pub mod screen;
#[cfg(test)]
mod testing;
pub mod transform;
