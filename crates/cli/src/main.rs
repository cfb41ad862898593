//! The `ptxjit` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::thread::Builder;

/// Deeply nested PTX takes some; memory is only used when touched.
const STACK_SIZE: usize = 64 << 20;

/// The work is done on a thread whose stack has a size of ours: that of the first one is the user's choice, and can be too small.
fn main() -> ExitCode {
    let work = || ptxjit_cli::run_command(std::env::args_os());
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
