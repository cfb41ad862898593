//! The `ptxjit` command.
#![forbid(unsafe_code)]

fn main() {}
