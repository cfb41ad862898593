//! The `ptxjit` command, as a library so that tests can use its parts.
//!
//! Each subcommand is one file. `case`, `plan`, `session` and `judge` make a test of a case file;
//! `arg`, `dtype`, `fill`, `contents` and `npy` know how numbers become bytes, `picture` how they
//! become pixels; `paths`, `replace` and `term` stand between this process and the names, the disks
//! and the terminals of others. What a launch is lies below, in the `ptxjit` library.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

pub mod arg;
pub mod args;
mod cache;
pub mod case;
mod check;
pub mod compare;
pub mod contents;
pub mod coverage;
pub mod discover;
pub mod dtype;
mod dump;
mod exec;
pub mod explore;
pub mod fill;
mod half;
mod input;
mod isa;
pub mod judge;
mod junit;
mod libraries;
pub mod npy;
mod npy_header;
pub mod paths;
pub mod picture;
pub mod plan;
mod plan_texture;
mod ptxas;
pub mod replace;
mod run;
pub mod sanitize;
pub mod session;
pub mod shard;
pub mod suppress;
pub mod tensor_map;
mod term;
mod test;
pub mod texture;

pub use isa::markdown as isa_table;

/// Does what `ptxas` is asked for: the same command under the name of the assembler whose place it
/// takes.
pub fn ptxas_main(words: &[OsString]) -> ExitCode {
    term::exit_code(ptxas::run(words))
}

/// Does what the words of a command line ask for.
pub fn run_command(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    match args::Cli::try_parse_from(joined(words)) {
        Ok(cli) => main(&cli),
        Err(err) if err.use_stderr() => {
            // Names that a shell's pattern has matched are quoted.
            term::err(err.render().to_string().trim_end());
            term::exit_code(ExitCode::from(2))
        }
        Err(help) => {
            term::out_painted(&term::rendered(&help.render()));
            term::exit_code(ExitCode::SUCCESS)
        }
    }
}

/// Joins `--profile json=FILE`, whose value may be left out: what follows can be the name of a
/// file.
fn joined(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut out: Vec<OsString> = Vec::new();
    for word in words {
        let is_value = word.as_encoded_bytes().starts_with(b"json=");
        // Words for other programs are theirs.
        let command = out.get(1).cloned().unwrap_or_default();
        let is_ours = command == "run" || command == "test";
        match out.last_mut() {
            Some(last) if last == "--profile" && is_value && is_ours => {
                last.push("=");
                last.push(word);
            }
            _ => out.push(word),
        }
    }
    out
}

/// Does what a command line asks for.
pub fn main(cli: &args::Cli) -> ExitCode {
    if let Some(diag) = cli.command.diag() {
        term::set_error_limit(diag.error_limit);
    }
    let code = match &cli.command {
        args::Command::Run(args) => run::run(args),
        args::Command::Test(args) => test::run(args),
        args::Command::Check(args) => check::run(args),
        args::Command::Dump(args) => dump::run(args),
        args::Command::Isa(args) => isa::run(args),
        args::Command::Cache(args) => cache::run(args),
        args::Command::Exec(args) => exec::run(args),
        args::Command::Dist(args) => exec::dist(args),
        args::Command::Ptxas(args) => ptxas::run(&args.words),
    };
    term::exit_code(code)
}
