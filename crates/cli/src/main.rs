//! The `ptxjit` command; under the name `ptxas`, its sub-command of that name.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    if Path::new(&name)
        .file_stem()
        .is_some_and(|stem| stem == "ptxas")
    {
        return ptxjit_cli::ptxas_main(&words.collect::<Vec<OsString>>());
    }
    ptxjit_cli::main(&ptxjit_cli::args::Cli::parse())
}
