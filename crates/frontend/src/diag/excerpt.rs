//! The lines that labels touch, cut and escaped for a terminal, with the labels' places in them.
//!
//! annotate-snippets lays out all text that it is given, several times over, and panics on spans
//! that end past the text or inside a character: it gets little text, and spans that fit.

use std::ops::{Range, RangeInclusive};

use crate::escape::{is_obeyed, push_escape};
use crate::source::{Source, Span};

/// Lines that a label is drawn over; of longer ones the beginning is enough to find them.
const MAX_LINES: u32 = 40;

/// Bytes of a label within one line.
const MAX_LABEL: usize = 400;

/// Bytes drawn before and after the labels of a line. Lines without cuts are shortened to the width
/// of a terminal by annotate-snippets, so what is cut here would not be seen anyway.
const MARGIN: usize = 200;

/// Lines to draw.
pub(super) struct Excerpt {
    pub text: String,
    /// Number of the first line in its file.
    pub first_line: u32,
    /// The places of the labels in `text`.
    pub spans: Vec<Range<usize>>,
}

/// First and last line of a span, as far as it is drawn, counted through all files.
pub(super) fn lines_of(span: Span, source: &Source) -> RangeInclusive<u32> {
    let first = source.line_at(span.start);
    let last = source.line_at(span.end.max(span.start));
    first..=last.min(first.saturating_add(MAX_LINES))
}

/// The lines that `spans` touch, with all lines between them.
pub(super) fn cut(spans: &[Span], source: &Source) -> Excerpt {
    let touched = spans.iter().map(|&span| lines_of(span, source));
    let lines = touched.reduce(|a, b| *a.start().min(b.start())..=*a.end().max(b.end()));
    let lines = lines.unwrap_or(1..=1);
    let spans: Vec<Range<usize>> = spans.iter().map(|&span| clamp(span, source)).collect();
    let mut cutter = Cutter::default();
    for line in lines.clone() {
        if line > *lines.start() {
            cutter.text.push('\n');
        }
        let whole = source.line_range(line);
        cutter.line(
            source.text(),
            whole.clone(),
            visible(&whole, &spans, source),
        );
    }
    let start = source.line_range(*lines.start()).start;
    Excerpt {
        first_line: source
            .position(u32::try_from(start).unwrap_or(u32::MAX))
            .line,
        spans: spans.iter().map(|span| cutter.place(span)).collect(),
        text: cutter.text,
    }
}

/// A span that lies in the text, between characters, and is not longer than what is drawn of it.
fn clamp(span: Span, source: &Source) -> Range<usize> {
    let text = source.text();
    let start = text.floor_char_boundary(span.start as usize);
    let last_line = source.line_range(*lines_of(span, source).end());
    let end = (span.end as usize).min(last_line.end).max(start);
    start..text.ceil_char_boundary(end)
}

/// What is drawn of the line `whole`: the labels in it and a margin.
fn visible(whole: &Range<usize>, spans: &[Range<usize>], source: &Source) -> Range<usize> {
    let here = spans
        .iter()
        .filter(|span| span.start <= whole.end && span.end >= whole.start);
    let ends = here.map(|span| {
        let start = span.start.clamp(whole.start, whole.end);
        let end = span.end.clamp(start, whole.end);
        start..end.min(start + MAX_LABEL)
    });
    let shown = ends.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
    let shown = shown.unwrap_or(whole.start..whole.start);
    let start = shown.start.saturating_sub(MARGIN).max(whole.start);
    let end = shown.end.min(shown.start + 4 * MAX_LABEL) + MARGIN;
    let text = source.text();
    text.floor_char_boundary(start)..text.ceil_char_boundary(end.min(whole.end))
}

/// Text under construction.
#[derive(Default)]
struct Cutter {
    text: String,
    /// Places in the source and in `text` from which both go on alike, up to the next.
    anchors: Vec<(usize, usize)>,
}

impl Cutter {
    fn line(&mut self, source: &str, whole: Range<usize>, shown: Range<usize>) {
        self.anchor(whole.start);
        if shown.start > whole.start {
            self.text.push('…');
        }
        self.anchor(shown.start);
        for (skip, c) in source[shown.clone()].char_indices() {
            if is_obeyed(c) && c != '\t' {
                push_escape(&mut self.text, c);
                self.anchor(shown.start + skip + c.len_utf8());
            } else {
                self.text.push(c);
            }
        }
        if shown.end < whole.end {
            self.text.push('…');
        }
        self.anchor(shown.end);
    }

    fn anchor(&mut self, at: usize) {
        self.anchors.push((at, self.text.len()));
    }

    fn place(&self, span: &Range<usize>) -> Range<usize> {
        let start = self.locate(span.start);
        start..self.locate(span.end).max(start)
    }

    /// Where a place of the source is drawn; of what is cut away, where the cut is.
    fn locate(&self, at: usize) -> usize {
        let after = self.anchors.partition_point(|&(source, _)| source <= at);
        let limit = self.anchors.get(after);
        let limit = limit.map_or(self.text.len(), |&(_, drawn)| drawn);
        match self.anchors[..after].last() {
            Some(&(source, drawn)) => self
                .text
                .ceil_char_boundary((drawn + at - source).min(limit)),
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(text: &str, spans: &[Range<u32>]) -> (Excerpt, Vec<String>) {
        let spans: Vec<Span> = spans.iter().map(|s| Span::new(s.start, s.end)).collect();
        let cut = cut(&spans, &Source::new("a.ptx", text));
        let marked = cut
            .spans
            .iter()
            .map(|span| cut.text[span.clone()].to_owned());
        let marked = marked.collect();
        (cut, marked)
    }

    #[test]
    fn whole_lines() {
        let (cut, marked) = excerpt("one\r\ntwo three\nfour\n", &[9..14, 5..8]);
        assert_eq!((cut.text.as_str(), cut.first_line), ("two three", 2));
        assert_eq!(marked, ["three", "two"]);
    }

    #[test]
    fn controls_are_escaped_and_labels_follow() {
        let (cut, marked) = excerpt("a\u{9b}b \u{1b}c\t\u{202e}d", &[1..3, 3..4, 5..7, 11..12]);
        assert_eq!(cut.text, "a\\u{9b}b \\u{1b}c\t\\u{202e}d");
        assert_eq!(marked, ["\\u{9b}", "b", "\\u{1b}c", "d"]);
    }

    #[test]
    fn long_lines_are_cut_around_labels() {
        let text = format!("{}name{}", "x ".repeat(50_000), " y".repeat(50_000));
        let (cut, marked) = excerpt(&text, std::slice::from_ref(&(100_000..100_004)));
        assert!(cut.text.len() < 2 * MARGIN + 20, "{}", cut.text.len());
        assert!(cut.text.starts_with("…x") && cut.text.ends_with("y…"));
        assert_eq!(marked, ["name"]);
    }

    /// However long the lines and the labels are, and wherever they lie, little is drawn.
    #[test]
    fn bounded_by_labels() {
        let line = "z".repeat(5_000) + "\n";
        let text = line.repeat(200);
        let end = u32::try_from(text.len()).unwrap();
        let (cut, marked) = excerpt(&text, &[0..end, 100..90_000, end..end + 7, 7..7]);
        assert!(cut.text.len() < 300 * 2 * (2 * MARGIN + 4 * MAX_LABEL));
        assert_eq!(marked.len(), 4);
        assert!(cut.text.lines().all(|line| line.len() < 3_000));
    }
}
