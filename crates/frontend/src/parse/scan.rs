//! The fast scan over PTX text that finds where things end, before any grammar looks at them.
//!
//! It knows comments, strings and braces, nothing else, and runs at memory-like speed: a module of
//! tens of MB is mostly function bodies that no launch asks for. It also refuses what is wrong
//! anywhere in a text: stray characters outside ASCII, unknown preprocessor lines, unterminated
//! comments and strings.

use std::borrow::Cow;

use crate::diag::Diagnostic;
use crate::source::Span;

type Result<T> = std::result::Result<T, Diagnostic>;

/// Bytes at which the scan has to stop and think.
const SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    let stops = b"{}\"/#;";
    let mut idx = 0;
    while idx < stops.len() {
        table[stops[idx] as usize] = true;
        idx += 1;
    }
    let mut byte = 128;
    while byte < 256 {
        table[byte] = true;
        byte += 1;
    }
    table
};

/// Open brackets and conditions of a statement. The grammar's code calls itself for each, and the
/// stack must be enough for them.
const MAX_NESTING: u32 = 100;

/// Bytes that matter to [`check_nesting`].
const NESTING: [bool; 128] = {
    let mut table = [false; 128];
    let bytes = b"()[]{}?=,;";
    let mut idx = 0;
    while idx < bytes.len() {
        table[bytes[idx] as usize] = true;
        idx += 1;
    }
    table
};

/// A letter, digit, `_` or `$`.
pub(super) fn is_follow(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

/// The text with blanks for its comments and line markers, so that offsets stay the same.
pub(super) fn without_comments(text: &str) -> Result<Cow<'_, str>> {
    let bytes = text.as_bytes();
    let mut blanked = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(skip) = bytes[at..]
        .iter()
        .position(|&byte| matches!(byte, b'/' | b'#' | b'"'))
    {
        at += skip;
        let end = match bytes[at] {
            b'"' => {
                at = string_end(bytes, at)?;
                continue;
            }
            b'#' => Some(line_marker_end(bytes, at)?),
            _ => comment_end(bytes, at)?,
        };
        let Some(end) = end else {
            at += 1;
            continue;
        };
        blanked.push_str(&text[copied..at]);
        blanked.extend(std::iter::repeat_n(' ', end - at));
        (copied, at) = (end, end);
    }
    if copied == 0 {
        return Ok(Cow::Borrowed(text));
    }
    blanked.push_str(&text[copied..]);
    Ok(Cow::Owned(blanked))
}

/// What the grammar relies on: that the text is ASCII, and that nothing in it is nested so deeply
/// that the stack could overflow. `a ? b : c ? d : e` nests without brackets; braces nest in
/// initializers alone, since scopes are statements to the grammar.
pub(super) fn check_nesting(text: &[u8]) -> Result<()> {
    check_ascii(text, 0, text.len())?;
    let (mut open, mut conditions, mut in_initializer) = (0u32, 0u32, false);
    for (at, &byte) in text.iter().enumerate() {
        if !NESTING[usize::from(byte & 0x7f)] {
            continue;
        }
        match byte {
            b'{' | b'}' if !in_initializer => {}
            b'(' | b'[' | b'{' => open += 1,
            b'?' => conditions += 1,
            b'=' => in_initializer = true,
            b',' => conditions = 0,
            b';' => (open, conditions, in_initializer) = (0, 0, false),
            _ => open = open.saturating_sub(1),
        }
        if open + conditions > MAX_NESTING {
            return Err(Diagnostic::error("this is nested too deeply").label(span(at, at + 1), ""));
        }
    }
    Ok(())
}

/// The next byte at or after `at` that is `{`, `}` or `;`, outside comments and strings.
pub(super) fn next_delimiter(text: &[u8], at: usize) -> Result<Option<usize>> {
    let mut at = at;
    while let Some(skip) = text[at..].iter().position(|&byte| SPECIAL[byte as usize]) {
        at += skip;
        at = match text[at] {
            b'{' | b'}' | b';' => return Ok(Some(at)),
            b'"' => string_end(text, at)?,
            b'/' => comment_end(text, at)?.unwrap_or(at + 1),
            b'#' => line_marker_end(text, at)?,
            byte => return Err(stray(text, at, byte)),
        };
    }
    Ok(None)
}

/// The end of the braces that open at `open`.
pub(super) fn braces_end(text: &[u8], open: usize) -> Result<usize> {
    let mut depth = 1u32;
    let mut at = open + 1;
    while let Some(found) = next_delimiter(text, at)? {
        at = found + 1;
        match text[found] {
            b'{' => depth += 1,
            b'}' if depth == 1 => return Ok(at),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    Err(Diagnostic::error("this `{` is never closed").label(span(open, open + 1), "no `}` for it"))
}

/// The first byte at or after `at` that is neither white space nor in a comment.
pub(super) fn skip_space(text: &[u8], at: usize) -> Result<usize> {
    let mut at = at;
    while let Some(&byte) = text.get(at) {
        at = match byte {
            b' ' | b'\n' | b'\t' | b'\r' | 0x0b | 0x0c => at + 1,
            b'/' => match comment_end(text, at)? {
                Some(end) => end,
                None => return Ok(at),
            },
            b'#' => line_marker_end(text, at)?,
            _ => return Ok(at),
        };
    }
    Ok(at)
}

/// The end of a word that starts at `at` with a dot: `.entry`.
pub(super) fn word_end(text: &[u8], at: usize) -> usize {
    let tail = &text[at + 1..];
    at + 1
        + tail
            .iter()
            .position(|&byte| !is_follow(byte))
            .unwrap_or(tail.len())
}

/// The end of a directive that has no terminator, such as `.version`: where the next one starts.
pub(super) fn open_directive_end(text: &[u8], at: usize) -> Result<usize> {
    let mut at = word_end(text, at);
    loop {
        let token = skip_space(text, at)?;
        at = match text.get(token) {
            None | Some(b'.' | b'@' | b'{' | b'}' | b';') => return Ok(token),
            Some(b'"') => string_end(text, token)?,
            Some(&byte) if is_follow(byte) => number_or_name_end(text, token),
            Some(&byte) if byte >= 128 => return Err(stray(text, token, byte)),
            Some(_) => token + 1,
        };
    }
}

/// Dots inside count: `9.0` is one token.
fn number_or_name_end(text: &[u8], at: usize) -> usize {
    let tail = &text[at..];
    at + tail
        .iter()
        .position(|&byte| !is_follow(byte) && byte != b'.')
        .unwrap_or(tail.len())
}

fn string_end(text: &[u8], open: usize) -> Result<usize> {
    let mut at = open + 1;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => return Ok(at + 1),
            b'\n' => break,
            // A backslash keeps the next character from ending the string.
            b'\\' if text.get(at + 1) != Some(&b'\n') => at += 2,
            _ => at += 1,
        }
    }
    Err(Diagnostic::error("this string is not closed on its line")
        .label(span(open, open + 1), "no `\"` for it"))
}

/// The end of the comment at `at`; `None` if the slash starts none.
fn comment_end(text: &[u8], at: usize) -> Result<Option<usize>> {
    match text.get(at + 1) {
        Some(b'/') => {
            let tail = &text[at..];
            let end = at
                + tail
                    .iter()
                    .position(|&byte| byte == b'\n')
                    .unwrap_or(tail.len());
            check_ascii(text, at, end).map(|()| Some(end))
        }
        Some(b'*') => match text[at + 2..].windows(2).position(|pair| pair == b"*/") {
            Some(skip) => {
                let end = at + 2 + skip + 2;
                check_ascii(text, at, end).map(|()| Some(end))
            }
            None => Err(Diagnostic::error("this comment is never closed")
                .label(span(at, at + 2), "no `*/` for it")),
        },
        Some(_) | None => Ok(None),
    }
}

/// Source text is ASCII; ptxas holds to that in comments too.
fn check_ascii(text: &[u8], start: usize, end: usize) -> Result<()> {
    match text[start..end].iter().position(|byte| !byte.is_ascii()) {
        Some(skip) => Err(stray(text, start + skip, text[start + skip])),
        None => Ok(()),
    }
}

/// The end of the line `# 12 "file.cu"` or `#line 12 "file.cu"`, which mean nothing to us. Other
/// preprocessor lines would change the meaning of the text, so they are refused.
fn line_marker_end(text: &[u8], at: usize) -> Result<usize> {
    let line_start = text[..at]
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |before| before + 1);
    let is_first = text[line_start..at].iter().all(u8::is_ascii_whitespace);
    let tail = &text[at..];
    let end = at
        + tail
            .iter()
            .position(|&byte| byte == b'\n')
            .unwrap_or(tail.len());
    let after = text[at + 1..end].trim_ascii_start();
    let after = after
        .strip_prefix(b"line")
        .map_or(after, |rest| rest.trim_ascii_start());
    if is_first && after.first().is_some_and(u8::is_ascii_digit) {
        return Ok(end);
    }
    Err(Diagnostic::error("`#` does not belong here")
        .label(span(at, at + 1), "")
        .note("of the C preprocessor only `#line` is understood; run it before ptxjit"))
}

fn stray(text: &[u8], at: usize, byte: u8) -> Diagnostic {
    let len = text[at + 1..]
        .iter()
        .take_while(|&&byte| byte & 0xc0 == 0x80)
        .count();
    let what = match std::str::from_utf8(&text[at..at + 1 + len]) {
        Ok(character) => format!("`{character}`"),
        Err(_) => format!("byte {byte:#04x}"),
    };
    Diagnostic::error(format!("{what} is not ASCII"))
        .label(span(at, at + 1 + len), "")
        .note("PTX is ASCII text, in comments too")
}

/// The caller has made sure that the text is short enough for 32-bit offsets.
pub(super) fn span(start: usize, end: usize) -> Span {
    let offset = |at| u32::try_from(at).unwrap_or(u32::MAX);
    Span::new(offset(start), offset(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces() {
        let end = |text: &str| braces_end(text.as_bytes(), 0).ok();
        assert_eq!(end("{ { } } }"), Some(7));
        assert_eq!(end("{ /* } */ // }\n \"}\" # 1 \"}\"\n}"), None);
        assert_eq!(end("{ /* } */ // }\n \"}\"\n # 1 \"}\"\n}"), Some(30));
        assert_eq!(end("{ /* }"), None);
        assert_eq!(end("{ \" }"), None);
        assert_eq!(end("{ ä }"), None);
        assert_eq!(end("{ \"ä\" }"), Some(8));
        assert_eq!(end("{ a / b }"), Some(9));
    }

    #[test]
    fn comments() {
        let blanked = |text: &str| without_comments(text).unwrap().into_owned();
        assert_eq!(blanked("a / b"), "a / b");
        assert_eq!(blanked("a /* \n */ b // c\nd"), "a         b     \nd");
        assert_eq!(blanked("\"//\" // c"), "\"//\"     ");
        assert_eq!(blanked("# 1 \"a\"\nret;"), "       \nret;");
    }

    #[test]
    fn open_directives() {
        let end = |text: &str| open_directive_end(text.as_bytes(), 0).ok();
        assert_eq!(end(".version 9.0\n.target"), Some(13));
        assert_eq!(end(".target sm_90a, // .x\n debug"), Some(28));
        assert_eq!(end(".file 1 \"a.cu\", 1, 2 .file"), Some(21));
    }
}
