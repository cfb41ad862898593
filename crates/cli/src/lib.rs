//! The `ptxjit` command, as a library so that tests can use its parts.
//!
//! Each subcommand is one file. `case`, `plan`, `session` and `judge` make a test of a case file; `arg`, `dtype`, `fill`, `contents`
//! and `npy` know how numbers become bytes. What a launch is lies below, in the `ptxjit` library.

#![forbid(unsafe_code)]

use std::process::ExitCode;

pub mod arg;
pub mod args;
mod cache;
pub mod case;
mod check;
pub mod compare;
pub mod contents;
pub mod discover;
pub mod dtype;
mod dump;
pub mod fill;
mod half;
mod isa;
pub mod judge;
mod junit;
pub mod npy;
pub mod plan;
mod run;
pub mod session;
mod term;
mod test;

pub use isa::markdown as isa_table;

/// Does what the command line asks for.
pub fn main(cli: &args::Cli) -> ExitCode {
    if let Some(diag) = cli.command.diag() {
        term::set_error_limit(diag.error_limit);
    }
    match &cli.command {
        args::Command::Run(args) => run::run(args),
        args::Command::Test(args) => test::run(args),
        args::Command::Check(args) => check::run(args),
        args::Command::Dump(args) => dump::run(args),
        args::Command::Isa(args) => isa::run(args),
        args::Command::Cache(args) => cache::run(args),
    }
}
