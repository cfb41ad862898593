//! The `ptxjit` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    ptxjit_cli::run_command(std::env::args_os())
}
