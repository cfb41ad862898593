//! What sanitizers find in the kernels of a program: `PTXJIT_SANITIZE`.
//!
//! Each finding is told once per process, where reports of faults go. Those that are severe enough
//! are kept as faults, too, so that who asks for faults (the pytest plugin does) learns of them;
//! the program's calls succeed, as the launch has gone on.

use std::collections::HashSet;
use std::sync::OnceLock;

use parking_lot::Mutex;
use ptxjit::sanitize::{Finding, FindingKind, Report, Severity, Suppression};
use ptxjit_persona::{Config, FailOn};

use crate::fault::{self, Fault};
use crate::report;
use crate::types::CUresult;

/// Most findings that are told of; more of a program would be noise.
const MOST: usize = 100;

type Key = (FindingKind, Vec<(String, u32)>, String);

/// What has been told.
static TOLD: Mutex<Option<HashSet<Key>>> = Mutex::new(None);

/// Tells what a launch has found. `fault` has the text of the fault that ended it, which is told by
/// itself.
pub(crate) fn tell(report: &Report, fault: Option<&str>) {
    for finding in report.take() {
        let is_fault = fault == Some(&finding.message);
        let is_known = suppressions().iter().any(|it| it.matches(&finding));
        if !is_fault && !is_known && is_new(&finding) {
            say(&finding);
        }
    }
}

fn is_new(finding: &Finding) -> bool {
    let mut told = TOLD.lock();
    let told = told.get_or_insert_default();
    told.len() < MOST && told.insert(finding.key())
}

fn say(finding: &Finding) {
    let text = finding.render();
    report::say(&format!("sanitizer: {}", finding.kind.name()), &text);
    let fails = match Config::get().sanitize.fail {
        FailOn::Error => finding.severity == Severity::Error,
        FailOn::Warning => finding.severity >= Severity::Warning,
        FailOn::Never => false,
    };
    if fails {
        fault::keep(fault_of(finding, text));
    }
}

/// A finding as programs can ask for it. No call has failed.
fn fault_of(finding: &Finding, report: String) -> Fault {
    let first = finding.accesses.first();
    let source = first.and_then(|access| access.stack.first());
    let source = source.map(|at| format!("{}:{}:{}", at.file, at.line, at.column));
    Fault {
        code: CUresult::SUCCESS,
        kind: finding.kind.name(),
        kernel: finding.kernel.clone(),
        block: first.map(|access| access.ctaid),
        thread: first.map(|access| access.tid),
        ptx_line: first.map_or(0, |access| access.ptx.line),
        source: source.unwrap_or_default(),
        report,
    }
}

/// The file of suppressions. Without one that can be read, everything is told.
fn suppressions() -> &'static [Suppression] {
    static LIST: OnceLock<Vec<Suppression>> = OnceLock::new();
    LIST.get_or_init(|| {
        let Some(path) = &Config::get().sanitize.suppress else {
            return Vec::new();
        };
        let read = std::fs::read_to_string(path).map_err(|err| err.to_string());
        let list = read.and_then(|text| Suppression::parse_all(&text));
        list.unwrap_or_else(|why| {
            let name = path.display();
            report::say(
                "sanitizer",
                &format!("error: suppressions of {name}: {why}"),
            );
            Vec::new()
        })
    })
}
