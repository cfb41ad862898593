//! Diagnostics as plain data, and the one function that draws them.
//!
//! Everything in the frontend that can fail returns `Diagnostic`s; nothing else knows how they look.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::source::{Source, Span};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Error,
    Warning,
}

/// Whose fault it is: the PTX is wrong, or it is right and we cannot do it yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Wrong,
    Unsupported,
}

/// A place in the source with a remark; the remark may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    pub span: Span,
    pub text: String,
}

/// One finding. The first label is the place that is to blame; the others explain it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    pub kind: Kind,
    pub message: String,
    pub labels: Vec<Label>,
    pub notes: Vec<String>,
}

impl Diagnostic {
    pub fn error(message: impl Into<String>) -> Self {
        Diagnostic {
            severity: Severity::Error,
            kind: Kind::Wrong,
            message: message.into(),
            labels: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub fn warning(message: impl Into<String>) -> Self {
        Diagnostic {
            severity: Severity::Warning,
            ..Diagnostic::error(message)
        }
    }

    /// `what` is not supported yet.
    pub fn unsupported(what: impl std::fmt::Display) -> Self {
        let message = format!("{what} is not supported yet");
        Diagnostic {
            kind: Kind::Unsupported,
            ..Diagnostic::error(message)
        }
    }

    #[must_use]
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push(Label {
            span,
            text: text.into(),
        });
        self
    }

    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    /// The same, found in text that begins at `offset` of the source.
    #[must_use]
    pub(crate) fn shifted(mut self, offset: u32) -> Self {
        for label in &mut self.labels {
            label.span = Span::new(label.span.start + offset, label.span.end + offset);
        }
        self
    }

    /// Where the fault lies, if it lies in the source at all.
    pub fn span(&self) -> Option<Span> {
        self.labels.first().map(|label| label.span)
    }
}

/// Draws a diagnostic as rustc would.
pub fn render(diagnostic: &Diagnostic, source: &Source, color: bool) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group = Group::with_title(level.primary_title(printable(&diagnostic.message)));
    for labels in by_file(diagnostic, source) {
        group = group.element(snippet(&labels, source));
    }
    let notes = diagnostic.notes.iter();
    let group = notes.fold(group, |group, note| {
        group.element(Level::NOTE.message(printable(note)))
    });
    let renderer = if color {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    renderer.render(&[group])
}

/// A label and what kind of mark it gets.
type Mark<'a> = (AnnotationKind, &'a Label);

/// The labels of each text, the one to blame first: a snippet shows lines of one text.
fn by_file<'a>(diagnostic: &'a Diagnostic, source: &Source) -> Vec<Vec<Mark<'a>>> {
    let mut files: Vec<(usize, Vec<Mark<'a>>)> = Vec::new();
    for (idx, label) in diagnostic.labels.iter().enumerate() {
        let kind = match idx {
            0 => AnnotationKind::Primary,
            _ => AnnotationKind::Context,
        };
        let file = source.file_at(label.span.start);
        match files.iter_mut().find(|(known, _)| *known == file) {
            Some((_, labels)) => labels.push((kind, label)),
            None => files.push((file, vec![(kind, label)])),
        }
    }
    files.into_iter().map(|(_, labels)| labels).collect()
}

fn snippet<'a>(
    labels: &[Mark<'a>],
    source: &'a Source,
) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
    let window = window(labels, source);
    let annotations = labels.iter().map(|(kind, label)| {
        let span = clamp(label.span, source.text());
        let annotation =
            kind.span(span.start - window.start..span.end.min(window.end) - window.start);
        match label.text.as_str() {
            "" => annotation,
            text => annotation.label(printable(text)),
        }
    });
    let start = to_u32(window.start);
    Snippet::source(&source.text()[window.clone()])
        .path(source.file_name(source.file_at(start)))
        .line_start(source.position(start).line as usize)
        .annotations(annotations)
}

/// The lines that the labels touch. annotate-snippets looks at all text that it is given, which
/// takes long for a module of many MB.
fn window(labels: &[Mark<'_>], source: &Source) -> Range<usize> {
    let text = source.text();
    let spans = labels.iter().map(|(_, label)| clamp(label.span, text));
    let touched = spans.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
    let touched = touched.unwrap_or(0..0);
    let start = text[..touched.start]
        .rfind('\n')
        .map_or(0, |before| before + 1);
    let end = text[touched.end..]
        .find('\n')
        .map_or(text.len(), |skip| touched.end + skip);
    start..end
}

/// annotate-snippets panics on spans that end past the text or inside a character.
fn clamp(span: Span, text: &str) -> Range<usize> {
    let start = text.floor_char_boundary(span.start as usize);
    let end = text.ceil_char_boundary(span.end as usize);
    start..end.max(start)
}

/// Offsets within a source fit.
fn to_u32(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Messages quote the source, which may hold control characters.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_control() && c != '\n' {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}
