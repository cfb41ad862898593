//! Tracefiles of LCOV, as its `geninfo` describes them, for `genhtml` and services that read them.
//!
//! `DA` and `FNDA` count threads. Conditions are branches of their line: each is a block of its
//! own, whose branch 0 is the side where the condition holds; a branch by an index has one for each
//! target. A condition that no thread has come to has `-`.

use std::fmt::Write as _;

use ptxjit::coverage::File;

use super::totals::is_reached;

/// All files, a record each.
pub(super) fn document(files: &[File]) -> String {
    let mut out = String::new();
    for file in files.iter().filter(|file| !file.lines.is_empty()) {
        // Writing to a string does not fail.
        let _ = record(&mut out, file);
    }
    out
}

fn record(out: &mut String, file: &File) -> std::fmt::Result {
    writeln!(out, "TN:")?;
    writeln!(out, "SF:{}", one_line(&file.name))?;
    for function in &file.functions {
        writeln!(out, "FN:{},{}", function.line, function.name)?;
    }
    for function in &file.functions {
        writeln!(out, "FNDA:{},{}", function.threads, function.name)?;
    }
    let begun = file.functions.iter().filter(|it| it.threads > 0).count();
    writeln!(out, "FNF:{}\nFNH:{begun}", file.functions.len())?;
    branches(out, file)?;
    for (number, line) in &file.lines {
        writeln!(out, "DA:{number},{}", line.threads)?;
    }
    let run = file.lines.values().filter(|it| it.threads > 0).count();
    writeln!(out, "LF:{}\nLH:{run}\nend_of_record", file.lines.len())
}

fn branches(out: &mut String, file: &File) -> std::fmt::Result {
    let mut taken = 0;
    let (mut line, mut block) = (0, 0);
    for condition in &file.conditions {
        block = match condition.line == line {
            true => block + 1,
            false => 0,
        };
        line = condition.line;
        let is_reached = is_reached(condition);
        for (side, &threads) in condition.sides.iter().enumerate() {
            let count = match is_reached {
                true => threads.to_string(),
                false => "-".to_owned(),
            };
            taken += usize::from(threads > 0);
            writeln!(out, "BRDA:{line},{block},{side},{count}")?;
        }
    }
    let sides: usize = file.conditions.iter().map(|it| it.sides.len()).sum();
    writeln!(out, "BRF:{sides}\nBRH:{taken}")
}

/// A name that cannot end its line.
fn one_line(name: &str) -> String {
    name.replace(['\n', '\r'], " ")
}
