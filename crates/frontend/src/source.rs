//! PTX source text with its file name, and the spans that point into it.
//!
//! A span is a pair of byte offsets; lines and columns are computed only when a diagnostic or a
//! trap asks for them. How a span is drawn is in `diag`.

use std::sync::OnceLock;

/// A half-open range of bytes of the source text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    pub const fn new(start: u32, end: u32) -> Self {
        Span { start, end }
    }

    /// The smallest span that holds both.
    pub fn to(self, other: Span) -> Span {
        Span::new(self.start.min(other.start), self.end.max(other.end))
    }

    /// An empty span at the start of this one.
    pub fn at_start(self) -> Span {
        Span::new(self.start, self.start)
    }

    /// An empty span at the end of this one.
    pub fn at_end(self) -> Span {
        Span::new(self.end, self.end)
    }

    pub fn len(self) -> u32 {
        self.end.saturating_sub(self.start)
    }

    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// Line and column, both counted from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

/// One PTX module as text. Offsets are 32-bit, so text from 4 GiB on is refused by `parse`.
#[derive(Debug, Default)]
pub struct Source {
    name: String,
    text: String,
    line_starts: OnceLock<Vec<u32>>,
}

impl Source {
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Source {
            name: name.into(),
            text: text.into(),
            line_starts: OnceLock::new(),
        }
    }

    /// From bytes as a file or a driver call delivers them: NULs that end the text are dropped,
    /// and what is not UTF-8 becomes U+FFFD, which the parser then refuses with its place.
    pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        let mut bytes = bytes;
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        let text = String::from_utf8(bytes)
            .unwrap_or_else(|err| String::from_utf8_lossy(err.as_bytes()).into_owned());
        Source::new(name, text)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text of a span; empty where the span does not lie in this source.
    pub fn slice(&self, span: Span) -> &str {
        self.text
            .get(span.start as usize..span.end as usize)
            .unwrap_or("")
    }

    /// Line and column of a byte offset; offsets past the end mean the end.
    pub fn position(&self, offset: u32) -> Position {
        let offset = offset.min(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
        let starts = self.line_starts();
        let line = starts.partition_point(|&start| start <= offset);
        let line_start = starts[line - 1];
        let before = &self.text.as_bytes()[line_start as usize..offset as usize];
        let continuation = |byte: &&u8| **byte & 0xc0 == 0x80;
        let column = before.len() - before.iter().filter(continuation).count() + 1;
        Position {
            line: to_u32(line),
            column: to_u32(column),
        }
    }

    fn line_starts(&self) -> &[u32] {
        self.line_starts.get_or_init(|| {
            let newlines = self
                .text
                .bytes()
                .enumerate()
                .filter(|&(_, byte)| byte == b'\n');
            std::iter::once(0)
                .chain(newlines.map(|(at, _)| to_u32(at + 1)))
                .collect()
        })
    }
}

/// Offsets and counts of a source that `parse` accepted fit; others saturate.
fn to_u32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions() {
        let source = Source::new("a.ptx", "ab\nä b\n");
        let at = |offset| {
            let Position { line, column } = source.position(offset);
            (line, column)
        };
        assert_eq!(at(0), (1, 1));
        assert_eq!(at(2), (1, 3));
        assert_eq!(at(3), (2, 1));
        assert_eq!(at(5), (2, 2));
        assert_eq!(at(8), (3, 1));
        assert_eq!(at(1000), (3, 1));
    }

    #[test]
    fn trailing_nul_and_bad_utf8() {
        assert_eq!(Source::from_bytes("", b"ret;\0\0".to_vec()).text(), "ret;");
        assert_eq!(Source::from_bytes("", b"\xff".to_vec()).text(), "\u{fffd}");
    }
}
