//! What reports say of a file as a whole.

use std::iter::Sum;

use ptxjit::coverage::{Condition, File};

/// How much of a file there is, and how much of that was run.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Totals {
    pub(super) lines: usize,
    pub(super) lines_run: usize,
    /// Of the lines that were run, those with instructions that were not.
    pub(super) lines_partly: usize,
    pub(super) functions: usize,
    pub(super) functions_run: usize,
    /// Of conditions.
    pub(super) sides: usize,
    pub(super) sides_run: usize,
}

impl Totals {
    pub(super) fn of(file: &File) -> Totals {
        let run = || file.lines.values().filter(|line| line.threads > 0);
        let sides = || file.conditions.iter().flat_map(|it| &it.sides);
        Totals {
            lines: file.lines.len(),
            lines_run: run().count(),
            lines_partly: run().filter(|line| !line.is_complete()).count(),
            functions: file.functions.len(),
            functions_run: file.functions.iter().filter(|it| it.threads > 0).count(),
            sides: sides().count(),
            sides_run: sides().filter(|&&threads| threads > 0).count(),
        }
    }
}

impl Sum for Totals {
    fn sum<I: Iterator<Item = Totals>>(all: I) -> Totals {
        all.fold(Totals::default(), |a, b| Totals {
            lines: a.lines + b.lines,
            lines_run: a.lines_run + b.lines_run,
            lines_partly: a.lines_partly + b.lines_partly,
            functions: a.functions + b.functions,
            functions_run: a.functions_run + b.functions_run,
            sides: a.sides + b.sides,
            sides_run: a.sides_run + b.sides_run,
        })
    }
}

/// Whether any thread has come to a condition.
pub(super) fn is_reached(condition: &Condition) -> bool {
    condition.sides.iter().any(|&threads| threads > 0)
}
