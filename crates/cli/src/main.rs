//! The `ptxjit` command; under the name `ptxas`, its sub-command of that name.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::thread::Builder;

/// Deeply nested PTX takes some; memory is only used when touched.
const STACK_SIZE: usize = 64 << 20;

/// The work is done on a thread whose stack has a size of ours: that of the first one is the user's
/// choice, and can be too small.
fn main() -> ExitCode {
    let work = || {
        let mut words: Vec<OsString> = std::env::args_os().collect();
        let name = words.first().map(Path::new).and_then(Path::file_stem);
        if name.is_some_and(|name| name == "ptxas") {
            return ptxjit_cli::ptxas_main(&words.split_off(1));
        }
        ptxjit_cli::run_command(words)
    };
    let thread = Builder::new()
        .name("main".to_owned())
        .stack_size(STACK_SIZE)
        .spawn(work);
    match thread {
        // What a panic of the first thread would end with; the message has been printed.
        Ok(thread) => thread.join().unwrap_or(ExitCode::from(101)),
        Err(err) => {
            eprintln!("error: cannot start a thread: {err}");
            ExitCode::from(1)
        }
    }
}
