//! Text from outside, made fit for a terminal.
//!
//! Modules, case files and file names are written by strangers, and what they contain is quoted in
//! messages. A terminal obeys some characters: ESC and U+009B begin commands, OSC renames windows,
//! BEL rings, carriage returns overwrite, and bidirectional controls show a line in another order
//! than it is read. All text that is quoted passes through here first; text of our own does not
//! need to, but suffers no harm.

use std::borrow::Cow;
use std::fmt::Write;

/// `text` with every character that a terminal obeys instead of showing written as an escape:
/// `\n`, `\r` and `\t`, and `\u{1b}` for the others. Meant for what is quoted within a line.
pub fn escape(text: &str) -> Cow<'_, str> {
    escape_if(text, is_obeyed)
}

/// Like [`escape`], but line feeds and tabs stay: for text that is laid out in lines of its own.
pub fn escape_lines(text: &str) -> Cow<'_, str> {
    escape_if(text, |c| is_obeyed(c) && c != '\n' && c != '\t')
}

fn escape_if(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    let Some(first) = text.find(&is_escaped) else {
        return Cow::Borrowed(text);
    };
    let mut out = String::with_capacity(text.len() + 8);
    out.push_str(&text[..first]);
    for c in text[first..].chars() {
        if is_escaped(c) {
            push_escape(&mut out, c);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Adds the escape of `c`.
pub(crate) fn push_escape(out: &mut String, c: char) {
    match c {
        '\n' | '\r' | '\t' => out.extend(c.escape_default()),
        _ => {
            let written = write!(out, "{}", c.escape_unicode());
            debug_assert!(written.is_ok(), "a `String` takes whatever is written");
        }
    }
}

/// Whether a terminal would obey `c`: C0, DEL and C1, what ends a line, and what changes the
/// direction of writing.
pub(crate) fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::{escape, escape_lines};

    #[test]
    fn harmless_text_is_borrowed() {
        for text in ["", "saxpy.ptx", "größer \\ ☃ 🦀 \u{a0}\u{200d}"] {
            assert!(matches!(escape(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn commands_to_a_terminal() {
        for (text, want) in [
            ("a\u{1b}[2Jb", "a\\u{1b}[2Jb"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("\u{9d}0;title\u{9c}", "\\u{9d}0;title\\u{9c}"),
            ("gone\r\u{8}\u{7f}", "gone\\r\\u{8}\\u{7f}"),
            (
                "x\u{202e}y\u{2066}z\u{2069}",
                "x\\u{202e}y\\u{2066}z\\u{2069}",
            ),
            ("\u{61c}\u{200e}\u{200f}", "\\u{61c}\\u{200e}\\u{200f}"),
            ("line\u{2028}\u{85}\n\t", "line\\u{2028}\\u{85}\\n\\t"),
            ("\0", "\\u{0}"),
        ] {
            assert_eq!(escape(text), want);
        }
    }

    #[test]
    fn lines_stay_lines() {
        assert_eq!(escape_lines("a\n\tb\r\n\u{9b}"), "a\n\tb\\r\n\\u{9b}");
    }

    /// Of the whole of Unicode, nothing that is left can move a cursor.
    #[test]
    fn no_control_character_is_left() {
        let all: String = ('\0'..=char::MAX).collect();
        assert!(!escape(&all).chars().any(char::is_control));
    }
}
