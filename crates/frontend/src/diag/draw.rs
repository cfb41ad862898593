//! Draws a diagnostic as rustc would.
//!
//! What it takes depends on the labels alone, not on the size of the module: only the lines that
//! labels touch are looked at, and of long lines only the part around the labels (`excerpt`).

use annotate_snippets::{Annotation, AnnotationKind, Element, Group, Level, Origin};
use annotate_snippets::{Renderer, Snippet};

use super::excerpt::{self, Excerpt};
use super::{Diagnostic, Severity};
use crate::escape::{escape, escape_lines};
use crate::source::Source;

/// Labels further apart than this many lines are drawn in excerpts of their own.
const MAX_GAP: u32 = 100;

/// Draws a diagnostic, with the lines it is about.
pub fn render(diagnostic: &Diagnostic, source: &Source, color: bool) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(escape_lines(&diagnostic.message));
    let mut group = Group::with_title(title);
    for labels in clusters(diagnostic, source) {
        group = group.elements(pictures(diagnostic, source, &labels));
    }
    let notes = diagnostic.notes.iter();
    let group = notes.fold(group, |group, note| {
        group.element(Level::NOTE.message(escape_lines(note)))
    });
    let renderer = if color {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    renderer.render(&[group])
}

/// Positions of the labels, in groups that are near each other in one file; that of the first label
/// is first.
fn clusters(diagnostic: &Diagnostic, source: &Source) -> Vec<Vec<usize>> {
    let lines = |idx: &usize| excerpt::lines_of(diagnostic.labels[*idx].span, source);
    let mut order: Vec<usize> = (0..diagnostic.labels.len()).collect();
    order.sort_by_key(|idx| *lines(idx).start());
    let mut clusters: Vec<Vec<usize>> = Vec::new();
    let (mut file, mut end) = (0, 0);
    for idx in order {
        let touched = lines(&idx);
        let before = std::mem::replace(&mut file, file_of(diagnostic, idx, source));
        match clusters.last_mut() {
            Some(last) if file == before && *touched.start() <= end + MAX_GAP => last.push(idx),
            Some(_) | None => clusters.push(vec![idx]),
        }
        end = end.max(*touched.end());
    }
    clusters.sort_by_key(|labels| !labels.contains(&0));
    for labels in &mut clusters {
        labels.sort_unstable();
    }
    clusters
}

fn file_of(diagnostic: &Diagnostic, label: usize, source: &Source) -> usize {
    source.file_at(diagnostic.labels[label].span.start)
}

/// Where the labels stand, and the lines they touch.
fn pictures<'a>(
    diagnostic: &'a Diagnostic,
    source: &'a Source,
    labels: &[usize],
) -> [Element<'a>; 2] {
    let spans: Vec<_> = labels
        .iter()
        .map(|&idx| diagnostic.labels[idx].span)
        .collect();
    let Excerpt {
        text,
        first_line,
        spans: drawn,
    } = excerpt::cut(&spans, source);
    let annotations = labels.iter().zip(drawn).map(|(&idx, span)| {
        let kind = match idx {
            0 => AnnotationKind::Primary,
            _ => AnnotationKind::Context,
        };
        match diagnostic.labels[idx].text.as_str() {
            "" => kind.span(span),
            text => kind.span(span).label(escape(text)),
        }
    });
    let annotations: Vec<Annotation<'a>> = annotations.collect();
    let start = spans.first().map_or(0, |span| span.start);
    let at = source.position(start);
    let origin = Origin::path(escape(source.file_name(source.file_at(start))))
        .line(at.line as usize)
        .char_column(at.column as usize);
    let snippet = Snippet::source(text)
        .line_start(first_line as usize)
        .annotations(annotations);
    [origin.into(), snippet.into()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Span;

    /// Lines that are next to each other in all text may belong to different files.
    #[test]
    fn each_file_has_lines_of_its_own() {
        let parts = [("a.ptx", "one\ntwo"), ("b.ptx", "three\nfour")];
        let source = Source::join(parts.map(|(name, text)| Source::new(name, text)));
        let span = |word: &str| {
            let at = u32::try_from(source.text().find(word).unwrap()).unwrap();
            Span::new(at, at + u32::try_from(word.len()).unwrap())
        };
        let error = Diagnostic::error("odd").label(span("four"), "here");
        let error = error.label(span("two"), "and here");
        let drawn = render(&error, &source, false);
        let lines: Vec<&str> = drawn.lines().map(str::trim).collect();
        let at = |line: &str| lines.iter().position(|&one| one == line);
        let places = ["--> b.ptx:2:1", "2 | four", "::: a.ptx:2:1", "2 | two"].map(at);
        assert!(places.is_sorted() && places[0].is_some(), "{drawn}");
        assert!(
            !drawn.contains("three") && !drawn.contains("one"),
            "{drawn}"
        );
    }
}
