//! What sanitizers find in a program and its kernels: `PTXJIT_SANITIZE`.
//!
//! Each finding is told once per process, where reports of faults go, and is in the files that the
//! variable asks for. Those that are severe enough are kept as faults, too, so that who asks for
//! faults (the pytest plugin does) learns of them; a program's calls succeed in spite of what its
//! kernels do, as launches go on.
//!
//! [`memory`] looks at what the program itself does with memory.

mod files;
mod graves;
mod memory;
mod site;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use parking_lot::Mutex;
use ptxjit::sanitize::{Checks, Finding, FindingKind, FoundAccess, Report, Severity, Suppression};
use ptxjit_persona::{Config, FailOn, Sanitize};

use crate::error::Result;
use crate::fault::{self, Fault};
use crate::report;
use crate::types::CUresult;

pub(crate) use graves::Graves;
pub(crate) use memory::{bad_free, bad_range, context_ends, gone, is_there, launched, module_ends};
pub(crate) use site::Site;
pub use site::calling;

type Key = (FindingKind, Vec<(String, u32)>, String);

/// What has been told.
#[derive(Default)]
struct Told {
    list: Vec<Finding>,
    places: HashMap<Key, usize>,
    n_suppressed: usize,
    /// Findings beyond the limit.
    n_more: usize,
}

static TOLD: Mutex<Option<Told>> = Mutex::new(None);

/// Makes ready to tell of findings: what is asked for must be right, as a program that was to be
/// checked must not go on as if it had been.
pub(crate) fn start(config: &Config) -> Result<()> {
    let known = suppressions().as_ref().map(|_| ());
    let checked = match &config.refused {
        Some(why) => Err(why.clone()),
        None => known
            .map_err(Clone::clone)
            .and_then(|()| files::check(&config.sanitize.reports)),
    };
    checked.map_err(|why| {
        // Said in any case: reports may go to a file that is not looked at, or nowhere.
        eprintln!("ptxjit: error: {why}");
        CUresult::INVALID_VALUE
    })
}

/// Says at the end of the process what is known only now.
pub(crate) fn finish() {
    // Nothing may come out of a function that the C library calls.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        memory::process_ends();
        let more = TOLD.lock().as_ref().map_or(0, |told| told.n_more);
        if more != 0 {
            let limit = settings().limit;
            let text = format!("{more} more findings are not told of: the limit is {limit}");
            report::say("sanitizer", &text);
        }
        files::write_last(&settings().reports, contents);
    }));
}

/// Whether what the program itself does with memory is looked at.
pub(crate) fn watches_program() -> bool {
    let sanitize = settings();
    sanitize.mem || sanitize.leak
}

fn settings() -> &'static Sanitize {
    &Config::get().sanitize
}

/// Tells what a launch has found. `fault` has the text of the fault that ended it, which is told by
/// itself; what is known of the memory that it is about is the result.
pub(crate) fn tell(report: &Report, fault: Option<&str>) -> String {
    let mut history = String::new();
    for mut finding in report.take() {
        let is_fault = fault == Some(&finding.message);
        if is_fault {
            let n_accesses = finding.accesses.len();
            memory::explain(&mut finding);
            let added = finding.accesses[n_accesses..].iter();
            history.extend(added.map(FoundAccess::render));
        }
        tell_one(finding, is_fault);
    }
    ptxjit::escape_lines(&history).into_owned()
}

/// Tells of a finding that is new. That it is a fault, which is told by itself, must still be
/// written to files.
fn tell_one(finding: Finding, is_fault: bool) {
    if !note(&finding) {
        return;
    }
    if !is_fault {
        say(&finding);
    }
    files::write(&settings().reports, contents);
}

/// Adds a finding to those of the process; whether it is to be told.
fn note(finding: &Finding) -> bool {
    let mut told = TOLD.lock();
    let told = told.get_or_insert_default();
    let suppressions = suppressions().as_deref().unwrap_or_default();
    if suppressions.iter().any(|it| it.matches(finding)) {
        told.n_suppressed += 1;
        return false;
    }
    let key = finding.key();
    if let Some(&idx) = told.places.get(&key) {
        told.list[idx].count += finding.count;
        return false;
    }
    if told.list.len() >= settings().limit {
        told.n_more += 1;
        return false;
    }
    told.places.insert(key, told.list.len());
    told.list.push(finding.clone());
    true
}

/// The document of a format, and whether it has findings.
fn contents(format: ptxjit_persona::ReportFormat) -> (String, bool) {
    use ptxjit::sanitize::{Style, json, sarif, text};
    let told = TOLD.lock();
    let (list, n_suppressed, n_more) = match &*told {
        Some(told) => (told.list.as_slice(), told.n_suppressed, told.n_more),
        None => (&[] as &[Finding], 0, 0),
    };
    let text = match format {
        ptxjit_persona::ReportFormat::Text => text(list, Style::default()),
        ptxjit_persona::ReportFormat::Json => {
            json(checks(settings()), list, n_suppressed, n_more != 0)
        }
        ptxjit_persona::ReportFormat::Sarif => sarif(list),
    };
    (text, !list.is_empty())
}

/// What was asked for, as the engine has it. Of `malloc` in kernels only the interpreter tells who
/// has called it: it is not asked for that alone.
pub(crate) fn checks(sanitize: &Sanitize) -> Checks {
    Checks {
        mem: sanitize.mem,
        race: sanitize.race,
        same_value: sanitize.same_value,
        init: sanitize.init,
        sync: sanitize.sync,
        leak: sanitize.leak && (sanitize.race || sanitize.init || sanitize.sync),
    }
}

fn say(finding: &Finding) {
    let text = finding.render();
    report::say(&format!("sanitizer: {}", finding.kind.name()), &text);
    let fails = match settings().fail {
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
    let by_thread = first.filter(|access| access.call.is_none());
    let source = first.and_then(|access| access.stack.first());
    let source = source.map(|at| format!("{}:{}:{}", at.file, at.line, at.column));
    Fault {
        code: CUresult::SUCCESS,
        kind: finding.kind.name(),
        kernel: finding.kernel.clone(),
        block: by_thread.map(|access| access.ctaid),
        thread: by_thread.map(|access| access.tid),
        ptx_line: by_thread.map_or(0, |access| access.ptx.line),
        source: source.unwrap_or_default(),
        report,
    }
}

/// The file of suppressions, or what is wrong with it.
fn suppressions() -> &'static std::result::Result<Vec<Suppression>, String> {
    static LIST: OnceLock<std::result::Result<Vec<Suppression>, String>> = OnceLock::new();
    LIST.get_or_init(|| {
        let Some(path) = &settings().suppress else {
            return Ok(Vec::new());
        };
        let read = std::fs::read_to_string(path).map_err(|err| err.to_string());
        let list = read.and_then(|text| Suppression::parse_all(&text));
        list.map_err(|why| format!("suppressions of `{}`: {why}", path.display()))
    })
}
