//! The `ptxjit` command, as a library so that tests can use its parts.
//!
//! Each subcommand is one file. `case`, `plan`, `session` and `judge` make a test of a case file; `arg`, `dtype`, `fill` and
//! `npy` know how numbers become bytes. What a launch is lies below, in the `ptxjit` library.

#![forbid(unsafe_code)]

use std::process::ExitCode;

pub mod args;
mod run;
mod test;
mod check;
mod dump;
mod isa;
pub mod discover;
pub mod judge;
pub mod session;
pub mod plan;
pub mod case;
pub mod compare;
mod arg;
pub mod dtype;
pub mod fill;
pub mod npy;
mod half;
mod junit;
mod term;

pub use isa::markdown as isa_table;

/// Does what the command line asks for.
pub fn main(cli: &args::Cli) -> ExitCode {
    match &cli.command {
        args::Command::Run(args) => run::run(args),
        args::Command::Test(args) => test::run(args),
        args::Command::Check(args) => check::run(args),
        args::Command::Dump(args) => dump::run(args),
        args::Command::Isa(args) => isa::run(args),
    }
}
