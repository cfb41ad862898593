//! What ptxjit has to say beyond a code: reports of faults, logs of images that were refused.
//!
//! Reports go to standard error; `PTXJIT_REPORT=FILE` has them as lines of JSON in a file instead,
//! and `PTXJIT_QUIET=1` keeps them away. The last one can be asked for.

use std::io::Write;

use parking_lot::Mutex;

use crate::error::Failure;
use crate::fault;
use crate::logs;
use crate::state;

static LAST: Mutex<String> = Mutex::new(String::new());

/// A failure in a stream.
pub(crate) fn failure(failure: &Failure) {
    let name = failure.code.name().unwrap_or_default().to_string_lossy();
    say(&name, &failure.report);
    if let Some(fault) = &failure.fault {
        fault::keep((**fault).clone());
    }
}

/// Something that a call wants to tell beyond its code.
pub(crate) fn say(code: &str, text: &str) {
    *LAST.lock() = text.to_owned();
    logs::add(code, text);
    let Ok(state) = state::state() else { return };
    let config = state.config;
    if let Some(path) = &config.report {
        let line = format!("{{\"code\":{},\"report\":{}}}\n", json(code), json(text));
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path);
        // There is no better place to complain than the one that the user has turned away from.
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    } else if !config.quiet {
        let text = format!("ptxjit: {code}\n{}\n", text.trim_end());
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

/// A panic in a call.
pub fn bug(name: &str) {
    say(
        "CUDA_ERROR_UNKNOWN",
        &format!("error: `{name}` panicked: this is a bug in ptxjit"),
    );
}

/// The last report.
pub fn last() -> String {
    LAST.lock().clone()
}

/// Makes sure that what kernels have printed is out.
pub(crate) fn flush() {
    // Kernels print without a buffer of ours; Rust's standard output has one.
    let _ = std::io::stdout().flush();
}

/// A string of JSON.
fn json(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
