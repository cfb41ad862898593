//! What is wrong with a PTX module, as data and as text.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use ptxjit_frontend::escape::escape_lines;
use ptxjit_frontend::source::Source;
use ptxjit_frontend::{diag, translate};

/// How bad a [`Diagnostic`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Severity {
    /// The module cannot be used.
    Error,
    /// The module can be used, but something about it is odd.
    Warning,
}

/// One finding about a PTX module.
#[derive(Clone)]
pub struct Diagnostic {
    inner: diag::Diagnostic,
    text: Text,
}

/// The text that spans point into, kept by whoever has it.
#[derive(Clone)]
pub(crate) enum Text {
    /// A module that could be loaded.
    Module(Arc<translate::Module>),
    /// The text of one that could not.
    Source(Arc<Source>),
}

impl Text {
    pub(crate) fn source(&self) -> &Source {
        match self {
            Text::Module(module) => module.source(),
            Text::Source(source) => source,
        }
    }
}

impl Diagnostic {
    /// How bad it is.
    pub fn severity(&self) -> Severity {
        match self.inner.severity {
            diag::Severity::Error => Severity::Error,
            diag::Severity::Warning => Severity::Warning,
        }
    }

    /// Whether the PTX is right and this version of ptxjit cannot run it yet.
    pub fn is_unsupported(&self) -> bool {
        match self.inner.kind {
            diag::Kind::Unsupported => true,
            diag::Kind::Wrong => false,
        }
    }

    /// What is wrong, in one sentence.
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// Further remarks.
    pub fn notes(&self) -> &[String] {
        &self.inner.notes
    }

    /// Name of the file with the place to blame, as given when the module was loaded.
    pub fn file(&self) -> &str {
        let source = self.text.source();
        let start = self.inner.span().map_or(0, |span| span.start);
        source.file_name(source.file_at(start))
    }

    /// First line and column of the place to blame, both counted from 1.
    pub fn position(&self) -> Option<(u32, u32)> {
        self.inner.span().map(|span| self.line_column(span.start))
    }

    /// Line and column just behind the place to blame.
    pub fn end_position(&self) -> Option<(u32, u32)> {
        self.inner.span().map(|span| self.line_column(span.end))
    }

    fn line_column(&self, offset: u32) -> (u32, u32) {
        let position = self.text.source().position(offset);
        (position.line, position.column)
    }

    /// The finding with the lines it is about, as the Rust compiler would draw it.
    pub fn render(&self, color: bool) -> String {
        diag::render(&self.inner, self.text.source(), color)
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl fmt::Debug for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.position().unwrap_or_default();
        write!(f, "{}:{line}:{column}: {}", self.file(), self.message())
    }
}

/// How many findings are drawn where the caller does not say.
///
/// Text that is not PTX at all has as many as it has lines; the first ones tell what it is.
pub const ERROR_LIMIT: usize = 100;

/// Messages quote the module.
fn escaped(mut diagnostic: diag::Diagnostic) -> diag::Diagnostic {
    for text in std::iter::once(&mut diagnostic.message).chain(&mut diagnostic.notes) {
        if let Cow::Owned(escaped) = escape_lines(text) {
            *text = escaped;
        }
    }
    diagnostic
}

/// One or more [`Diagnostic`]s.
#[derive(Clone, Debug)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    pub(crate) fn new(list: Vec<diag::Diagnostic>, text: &Text) -> Diagnostics {
        Diagnostics(
            list.into_iter()
                .map(|inner| Diagnostic {
                    inner: escaped(inner),
                    text: text.clone(),
                })
                .collect(),
        )
    }

    /// The findings in the order of the source.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.0.iter()
    }

    /// The first `limit` findings as the Rust compiler would draw them, and how many are left out;
    /// 0 is no limit.
    pub fn render(&self, color: bool, limit: usize) -> String {
        let n_drawn = match limit {
            0 => self.0.len(),
            limit => limit.min(self.0.len()),
        };
        let drawn = self.0.iter().take(n_drawn);
        let mut parts: Vec<String> = drawn.map(|diagnostic| diagnostic.render(color)).collect();
        parts.extend(left_out(self.0.len() - n_drawn));
        parts.join("\n")
    }

    /// Whether nothing is wrong with the module but that it needs what ptxjit cannot do yet.
    pub fn is_unsupported(&self) -> bool {
        let mut errors = self
            .0
            .iter()
            .filter(|diagnostic| diagnostic.severity() == Severity::Error)
            .peekable();
        errors.peek().is_some() && errors.all(Diagnostic::is_unsupported)
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false, ERROR_LIMIT))
    }
}

/// Tells that findings are not drawn.
fn left_out(count: usize) -> Option<String> {
    match count {
        0 => None,
        1 => Some("1 more finding is not shown".to_owned()),
        count => Some(format!("{count} more findings are not shown")),
    }
}
