//! Writing to the terminal, or to what stands in for one.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::builder::StyledStr;
use ptxjit::sanitize::Style;
use serde_json::Value;

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

/// The help as clap draws it.
pub(crate) fn rendered(text: &StyledStr) -> String {
    if stdout_color() {
        text.ansi().to_string()
    } else {
        text.to_string()
    }
}

/// <https://no-color.org>
fn wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Writes lines to standard output. Text from outside that they quote cannot command a terminal.
pub(crate) fn out(text: &str) {
    out_bytes(ptxjit::escape_lines(text).as_bytes());
}

/// Like [`out`], for text with colours: its makers have escaped what it quotes.
pub(crate) fn out_painted(text: &str) {
    out_bytes(text.as_bytes());
}

/// Writes a JSON document to standard output.
pub(crate) fn out_json(document: &Value) {
    out_bytes(json_line(document).as_bytes());
}

/// One line, in which all that a terminal would obey is escaped in JSON's way.
fn json_line(document: &Value) -> String {
    let mut line = String::new();
    for c in document.to_string().chars() {
        // Such characters are within strings, and none is outside of the basic plane.
        match ptxjit::escape(c.encode_utf8(&mut [0; 4])) {
            Cow::Borrowed(same) => line.push_str(same),
            Cow::Owned(_) => line.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
    }
    line + "\n"
}

/// Writes bytes as they are: what the device prints, which is the program's own.
pub(crate) fn out_bytes(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    note("standard output", written);
}

/// Writes lines to standard error. Text from outside that they quote cannot command a terminal.
pub(crate) fn err(text: &str) {
    let written = writeln!(std::io::stderr(), "{}", ptxjit::escape_lines(text));
    note("standard error", written);
}

/// Like [`err`], for text with colors: its makers have escaped what it quotes.
pub(crate) fn err_painted(text: &str) {
    let written = writeln!(std::io::stderr(), "{text}");
    note("standard error", written);
}

/// How findings look on standard error: in colors and as wide as the terminal, if it is one.
pub(crate) fn stderr_style() -> Style {
    let size = console::Term::stderr().size_checked();
    let width = size.map(|(_, columns)| usize::from(columns));
    Style {
        color: std::io::stderr().is_terminal() && wanted(),
        // Narrower than words are is no use.
        width: width.filter(|&width| width >= 40),
    }
}

/// Why something could not be written, if it could not.
static LOST: OnceLock<String> = OnceLock::new();

/// Remembers the first failure. A reader that has gone away wants no more, and is no reason to
/// fail.
fn note(stream: &str, written: io::Result<()>) {
    if let Err(err) = written
        && err.kind() != io::ErrorKind::BrokenPipe
    {
        LOST.get_or_init(|| format!("error: cannot write to {stream}: {err}"));
    }
}

/// `code`, or 1 if some of what should have been written was lost.
pub(crate) fn exit_code(code: ExitCode) -> ExitCode {
    let Some(text) = LOST.get() else { return code };
    err(text);
    ExitCode::from(1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::json_line;

    #[test]
    fn documents_stay_the_same_and_command_nothing() {
        let all: String = ('\0'..='\u{3000}').chain(['\u{1f980}']).collect();
        let document = json!({"\u{9b}key": all, "plain": [1, "größer"]});
        let line = json_line(&document);
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&line).ok(),
            Some(document)
        );
        assert_eq!(
            ptxjit::escape(line.trim_end_matches('\n')),
            line.trim_end_matches('\n')
        );
        assert!(line.contains("größer"));
    }
}
