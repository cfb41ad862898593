//! PTX source text with its file name, and the spans that point into it.
//!
//! A span is a pair of byte offsets; lines and columns are computed only when a diagnostic or a
//! trap asks for them. How a span is drawn is in `diag`.

use std::ops::Range;
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
    index: OnceLock<Index>,
}

impl Source {
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Source {
            name: name.into(),
            text: text.into(),
            index: OnceLock::new(),
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
        let offset = offset.min(to_u32(self.text.len()));
        let index = self.index();
        let line = index.line_at(offset);
        let start = index.starts[line - 1];
        let inner = index.inner_bytes(&self.text, offset) - index.inner_bytes(&self.text, start);
        Position {
            line: to_u32(line),
            column: offset - start - inner + 1,
        }
    }

    /// The line of a byte offset, counted from 1.
    pub(crate) fn line_at(&self, offset: u32) -> u32 {
        to_u32(self.index().line_at(offset))
    }

    /// The text of a line without what ends it, as byte offsets; that of the last line for lines past it.
    pub(crate) fn line_range(&self, line: u32) -> Range<usize> {
        let starts = &self.index().starts;
        let idx = (line.max(1) as usize).min(starts.len());
        let start = starts[idx - 1] as usize;
        let end = match starts.get(idx) {
            Some(&next) => next as usize - 1,
            None => self.text.len(),
        };
        let has_return = self.text.as_bytes()[start..end].last() == Some(&b'\r');
        start..end - usize::from(has_return)
    }

    fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::new(&self.text))
    }
}

/// Where lines start, and how many characters there are up to some place: made once, so that no question
/// about a place takes longer in a longer text or line.
#[derive(Debug)]
struct Index {
    starts: Vec<u32>,
    /// How many bytes before each multiple of [`CHUNK`] do not begin a character; none are kept of ASCII.
    inner: Vec<u32>,
}

/// Bytes between two places of [`Index::inner`].
const CHUNK: usize = 1 << 10;

impl Index {
    fn new(text: &str) -> Index {
        let newlines = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n');
        let starts = std::iter::once(0).chain(newlines.map(|(at, _)| to_u32(at + 1)));
        let starts = starts.collect();
        let mut inner = Vec::new();
        if !text.is_ascii() {
            let mut count = 0;
            for chunk in text.as_bytes().chunks(CHUNK) {
                inner.push(count);
                count += count_inner(chunk);
            }
            inner.push(count);
        }
        Index { starts, inner }
    }

    fn line_at(&self, offset: u32) -> usize {
        self.starts.partition_point(|&start| start <= offset)
    }

    /// How many bytes before `offset` do not begin a character.
    fn inner_bytes(&self, text: &str, offset: u32) -> u32 {
        let offset = offset as usize;
        match self.inner.get(offset / CHUNK) {
            Some(before) => before + count_inner(&text.as_bytes()[offset / CHUNK * CHUNK..offset]),
            None => 0,
        }
    }
}

fn count_inner(bytes: &[u8]) -> u32 {
    to_u32(bytes.iter().filter(|&&byte| byte & 0xc0 == 0x80).count())
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

    /// In long lines, too, columns count characters.
    #[test]
    fn columns_of_long_lines() {
        let text = format!("x\n{}", "aä".repeat(5_000));
        let source = Source::new("a.ptx", text.as_str());
        for (at, _) in text.char_indices().skip(2) {
            let column = text[2..at].chars().count() + 1;
            let position = source.position(to_u32(at));
            assert_eq!((position.line, position.column), (2, to_u32(column)));
        }
    }

    #[test]
    fn lines() {
        let source = Source::new("a.ptx", "ab\r\n\nc");
        assert_eq!(source.line_range(1), 0..2);
        assert_eq!(source.line_range(2), 4..4);
        assert_eq!(source.line_range(3), 5..6);
        assert_eq!(source.line_range(9), 5..6);
    }

    #[test]
    fn trailing_nul_and_bad_utf8() {
        assert_eq!(Source::from_bytes("", b"ret;\0\0".to_vec()).text(), "ret;");
        assert_eq!(Source::from_bytes("", b"\xff".to_vec()).text(), "\u{fffd}");
    }
}
