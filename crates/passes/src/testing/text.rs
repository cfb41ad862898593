//! Comparing functions as text.

use ptxjit_ir::{Function, print, verify};

use crate::transform::compact;

/// The function's blocks after renumbering, without the first and the last line.
pub(crate) fn text(func: &Function) -> String {
    let mut func = func.clone();
    verify::function(&func, None)
        .unwrap_or_else(|errors| panic!("{}\n{}", errors[0], print::function(&func)));
    compact::run(&mut func);
    let text = print::function(&func);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines[1..lines.len() - 1].join("\n")
}

/// Compares with lines whose indentation does not matter.
#[track_caller]
pub(crate) fn check(func: &Function, expected: &str) {
    let expected: Vec<&str> = expected
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    assert_eq!(text(func), expected.join("\n"));
}
