//! Diagnostics as plain data, and the one function that draws them (`draw`).
//!
//! Everything in the frontend that can fail returns `Diagnostic`s; nothing else knows how they
//! look.

mod draw;
mod excerpt;

use crate::source::Span;

pub use draw::render;

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
