//! PTX source text with its file names, and the spans that point into it.
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

/// The text of one PTX module, or of several that are linked.
///
/// Several texts lie one behind the other in one address space of offsets, each after a line of its
/// own, so that a span tells by itself which of them it points into. Offsets are 32-bit, so 4 GiB
/// of text and more are refused by `parse`.
#[derive(Debug, Default)]
pub struct Source {
    text: String,
    files: Vec<File>,
    index: OnceLock<Index>,
}

/// One of the texts.
#[derive(Debug)]
struct File {
    name: String,
    start: usize,
}

/// Stands between two texts. It makes the end of one an offset of that one, and each text start on
/// a line of its own.
const SEPARATOR: char = '\n';

impl Source {
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let name = name.into();
        Source {
            text: text.into(),
            files: vec![File { name, start: 0 }],
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

    /// Several texts as one source; at least one.
    pub fn join(sources: impl IntoIterator<Item = Source>) -> Self {
        let mut sources = sources.into_iter();
        // The first is not copied: mostly it is the only one.
        let mut joined = sources.next().unwrap_or_else(|| Source::new("", ""));
        for source in sources {
            joined.text.push(SEPARATOR);
            let base = joined.text.len();
            joined.text.push_str(&source.text);
            joined
                .files
                .extend(source.files.into_iter().map(|file| File {
                    name: file.name,
                    start: base + file.start,
                }));
        }
        joined.index = OnceLock::new();
        joined
    }

    /// The number of texts.
    pub fn n_files(&self) -> usize {
        self.files.len()
    }

    /// Which of the texts an offset lies in.
    pub fn file_at(&self, offset: u32) -> usize {
        let after = self
            .files
            .partition_point(|file| file.start <= offset as usize);
        after.saturating_sub(1)
    }

    /// The name of a text.
    pub fn file_name(&self, file: usize) -> &str {
        self.files.get(file).map_or("", |file| &file.name)
    }

    /// Where a text lies.
    pub fn file_span(&self, file: usize) -> Span {
        let start = self.files.get(file).map_or(0, |file| file.start);
        let end = match self.files.get(file + 1) {
            Some(next) => next.start - SEPARATOR.len_utf8(),
            None => self.text.len(),
        };
        Span::new(to_u32(start), to_u32(end))
    }

    /// One of the texts.
    pub fn file_text(&self, file: usize) -> &str {
        self.slice(self.file_span(file))
    }

    /// The name of the first text.
    pub fn name(&self) -> &str {
        self.file_name(0)
    }

    /// All text; offsets count from its start.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text of a span; empty where the span does not lie in this source.
    pub fn slice(&self, span: Span) -> &str {
        self.text
            .get(span.start as usize..span.end as usize)
            .unwrap_or("")
    }

    /// Line and column of a byte offset in its text; offsets past the end mean the end.
    pub fn position(&self, offset: u32) -> Position {
        let offset = offset.min(to_u32(self.text.len()));
        let index = self.index();
        let line = index.line_at(offset);
        let first = index.line_at(self.file_span(self.file_at(offset)).start);
        let start = index.starts[line - 1];
        let inner = index.inner_bytes(&self.text, offset) - index.inner_bytes(&self.text, start);
        Position {
            line: to_u32(line + 1 - first),
            column: offset - start - inner + 1,
        }
    }

    /// The line of a byte offset, counted from 1 at the start of all text.
    pub(crate) fn line_at(&self, offset: u32) -> u32 {
        to_u32(self.index().line_at(offset))
    }

    /// The text of a line without what ends it, as byte offsets; that of the last line for lines
    /// past it.
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

/// Where lines start, and how many characters there are up to some place: made once, so that no
/// question about a place takes longer in a longer text or line.
#[derive(Debug)]
struct Index {
    starts: Vec<u32>,
    /// How many bytes before each multiple of [`CHUNK`] do not begin a character; none are kept of
    /// ASCII.
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
    fn several_texts() {
        let parts = [("a.ptx", "x\ny"), ("b.ptx", ""), ("c.ptx", "\nz")];
        let source = Source::join(parts.map(|(name, text)| Source::new(name, text)));
        let at = |offset| {
            let Position { line, column } = source.position(offset);
            (source.file_name(source.file_at(offset)), line, column)
        };
        assert_eq!(at(0), ("a.ptx", 1, 1));
        assert_eq!(at(2), ("a.ptx", 2, 1));
        assert_eq!(
            at(3),
            ("a.ptx", 2, 2),
            "the end belongs to the text it ends"
        );
        assert_eq!(at(4), ("b.ptx", 1, 1));
        assert_eq!(at(5), ("c.ptx", 1, 1));
        assert_eq!(at(6), ("c.ptx", 2, 1));
        assert_eq!(at(100), ("c.ptx", 2, 2));
        let texts: Vec<&str> = (0..3).map(|file| source.file_text(file)).collect();
        assert_eq!(texts, ["x\ny", "", "\nz"]);
    }

    #[test]
    fn trailing_nul_and_bad_utf8() {
        assert_eq!(Source::from_bytes("", b"ret;\0\0".to_vec()).text(), "ret;");
        assert_eq!(Source::from_bytes("", b"\xff".to_vec()).text(), "\u{fffd}");
    }
}
