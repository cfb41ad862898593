//! The `ptxjit` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    ptxjit_cli::main(&ptxjit_cli::args::Cli::parse())
}
