//! Writing to the terminal, or to what stands in for one.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

/// `--error-limit` of the command that this process executes.
static ERROR_LIMIT: AtomicUsize = AtomicUsize::new(ptxjit::ERROR_LIMIT);

/// How many errors of a module are shown; 0 is no limit.
pub(crate) fn error_limit() -> usize {
    // It is written once, before any thread is started.
    ERROR_LIMIT.load(Ordering::Relaxed)
}

pub(crate) fn set_error_limit(limit: usize) {
    ERROR_LIMIT.store(limit, Ordering::Relaxed);
}

/// Colours, where the reader is a person at a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Color {
    Green,
    Red,
    Yellow,
}

/// `text` in `color` if `on`.
pub(crate) fn paint(text: &str, color: Color, on: bool) -> String {
    if !on {
        return text.to_owned();
    }
    let code = match color {
        Color::Green => 32,
        Color::Red => 31,
        Color::Yellow => 33,
    };
    format!("\x1b[1;{code}m{text}\x1b[0m")
}

/// Whether standard output wants colours.
pub(crate) fn stdout_color() -> bool {
    std::io::stdout().is_terminal() && wanted()
}

/// <https://no-color.org>
fn wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Writes to standard output. A reader that has gone away is no reason to fail: the exit code still tells the result.
pub(crate) fn out(text: &str) {
    out_bytes(text.as_bytes());
}

/// Like [`out`], for what may not be text.
pub(crate) fn out_bytes(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

/// Writes to standard error.
pub(crate) fn err(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
