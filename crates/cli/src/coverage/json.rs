//! Coverage as JSON: all that is known, for programs. `docs/coverage.md` describes it.

use ptxjit::coverage::{Condition, File, FileKind, Line};
use serde_json::{Value, json};

use super::totals::{Totals, is_reached};

/// Version of the document's form.
const VERSION: u32 = 1;

/// All files.
pub(super) fn document(files: &[File]) -> Value {
    json!({
        "version": VERSION,
        "files": files.iter().map(file).collect::<Vec<_>>(),
    })
}

fn file(file: &File) -> Value {
    let functions = file.functions.iter();
    let functions = functions
        .map(|it| json!({"name": it.name, "line": it.line, "threads": it.threads}))
        .collect::<Vec<_>>();
    json!({
        "file": file.name,
        "kind": kind(file.kind),
        "totals": totals(&Totals::of(file)),
        "functions": functions,
        "lines": file.lines.iter().map(|(&number, it)| line(number, it)).collect::<Vec<_>>(),
        "branches": file.conditions.iter().map(condition).collect::<Vec<_>>(),
    })
}

fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Source => "source",
        _ => "ptx",
    }
}

fn totals(totals: &Totals) -> Value {
    json!({
        "lines": totals.lines, "lines_run": totals.lines_run, "lines_partly": totals.lines_partly,
        "functions": totals.functions, "functions_run": totals.functions_run,
        "sides": totals.sides, "sides_run": totals.sides_run,
    })
}

fn line(number: u32, line: &Line) -> Value {
    let state = match (line.threads, line.is_complete()) {
        (0, _) => "never",
        (_, false) => "partly",
        (_, true) => "run",
    };
    let warps = line.warps.map(|warps| {
        json!({
            "executions": warps.executions, "whole": warps.whole, "instructions": warps.instructions,
            "mean_active_lanes": line.mean_active_lanes(), "never_whole": line.is_never_whole(),
        })
    });
    let ptx = line.ptx.iter().map(place).collect::<Vec<_>>();
    json!({
        "line": number, "state": state, "threads": line.threads,
        "instructions": line.instructions, "instructions_run": line.instructions_run,
        "thread_instructions": line.thread_instructions, "warps": warps, "ptx": ptx,
    })
}

fn condition(condition: &Condition) -> Value {
    let all: u64 = condition.sides.iter().sum();
    let warps = condition.warps.filter(|&warps| warps > 0);
    let lanes = warps.map(|warps| all as f64 / warps as f64);
    let side = |(idx, &threads): (usize, &u64)| match condition.targets.get(idx) {
        Some(target) => json!({"target": target, "threads": threads}),
        None => json!({"holds": idx == 0, "threads": threads}),
    };
    let sides: Vec<Value> = condition.sides.iter().enumerate().map(side).collect();
    json!({
        "kind": condition.kind.name(), "line": condition.line, "function": condition.function,
        "ptx": place(&condition.ptx), "reached": is_reached(condition),
        "sides": sides,
        "warps": condition.warps, "diverged": condition.diverged, "mean_active_lanes": lanes,
    })
}

fn place((file, line): &(String, u32)) -> Value {
    json!({"file": file, "line": line})
}
