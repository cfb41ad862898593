//! Sanitizers on the command line: which checks, what is reported how, and what case files expect
//! of them.

use std::path::PathBuf;
use std::str::FromStr;

use ptxjit::sanitize::{
    AccessOp, Checks, Finding, FindingKind, FoundAccess, Hazard, Reason, Severity, SourcePlace,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// `mem,race,…` or `all`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ChecksArg(pub Checks);

impl FromStr for ChecksArg {
    type Err = String;

    fn from_str(text: &str) -> Result<ChecksArg, String> {
        let mut checks = Checks::default();
        for word in text.split(',') {
            match word.trim() {
                "mem" => checks.mem = true,
                "race" => checks.race = true,
                "same-value" => checks.same_value = true,
                "init" => checks.init = true,
                "sync" => checks.sync = true,
                "leak" => checks.leak = true,
                "all" => {
                    checks.mem = true;
                    checks.race = true;
                    checks.init = true;
                    checks.sync = true;
                    checks.leak = true;
                }
                other => {
                    return Err(format!(
                        "`{other}` is none of mem, race, same-value, init, sync, leak, all"
                    ));
                }
            }
        }
        Ok(ChecksArg(checks))
    }
}

/// The checks for a program that is not ours, as [`ChecksArg`] has them: of leaks nothing can be
/// said, as there is no last launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramChecks(pub String);

impl FromStr for ProgramChecks {
    type Err = String;

    fn from_str(text: &str) -> Result<ProgramChecks, String> {
        text.parse::<ChecksArg>()?;
        if text.split(',').any(|word| word.trim() == "leak") {
            return Err("`leak` is for `run` and `test`: a program has no last launch".to_owned());
        }
        Ok(ProgramChecks(text.to_owned()))
    }
}

/// From which severity on findings are failures.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum FailOn {
    #[default]
    Error,
    Warning,
    Never,
}

impl FailOn {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            FailOn::Error => "error",
            FailOn::Warning => "warning",
            FailOn::Never => "never",
        }
    }

    pub fn fails(self, finding: &Finding) -> bool {
        match self {
            FailOn::Error => finding.severity == Severity::Error,
            FailOn::Warning => finding.severity >= Severity::Warning,
            FailOn::Never => false,
        }
    }
}

/// `text`, `json` or `sarif`, and perhaps a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportArg {
    pub format: ReportFormat,
    pub file: Option<PathBuf>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ReportFormat {
    Text,
    Json,
    Sarif,
}

impl FromStr for ReportArg {
    type Err = String;

    fn from_str(text: &str) -> Result<ReportArg, String> {
        let (word, file) = match text.split_once('=') {
            Some((word, file)) => (word, Some(PathBuf::from(file))),
            None => (text, None),
        };
        let format = match word {
            "text" => ReportFormat::Text,
            "json" => ReportFormat::Json,
            "sarif" => ReportFormat::Sarif,
            other => return Err(format!("`{other}` is none of text, json, sarif")),
        };
        Ok(ReportArg { format, file })
    }
}

/// What a case file expects of sanitizers.
#[derive(Clone, Debug, Deserialize)]
pub struct Expected {
    /// `clean`, or the kind of finding that must come.
    pub sanitize: String,
    #[serde(default)]
    pub report: Option<ExpectedReport>,
    /// So many schedules are tried.
    #[serde(default)]
    pub explore: Option<u32>,
}

/// The finding that must come.
#[derive(Clone, Debug, Deserialize)]
pub struct ExpectedReport {
    pub kind: String,
    /// Kinds that are as good.
    #[serde(default)]
    pub or_kinds: Vec<String>,
    /// Kinds that may come besides.
    #[serde(default)]
    pub also: Vec<String>,
    #[serde(default)]
    pub severity: Option<String>,
}

impl Expected {
    /// What did not come out as expected.
    pub fn judge(&self, findings: &[Finding]) -> Vec<String> {
        let errors: Vec<&Finding> = findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error)
            .collect();
        let unexpected = |allowed: &dyn Fn(FindingKind) -> bool| {
            let others = errors.iter().filter(|finding| !allowed(finding.kind));
            others.map(|finding| finding.render()).collect::<Vec<_>>()
        };
        let Some(report) = &self.report else {
            return unexpected(&|_| false);
        };
        let is_wanted = |kind: FindingKind| {
            kind.name() == report.kind || report.or_kinds.iter().any(|other| other == kind.name())
        };
        let mut problems = unexpected(&|kind| {
            is_wanted(kind) || report.also.iter().any(|also| also == kind.name())
        });
        let must_come = report
            .severity
            .as_deref()
            .is_none_or(|severity| severity == "error");
        if must_come && !errors.iter().any(|finding| is_wanted(finding.kind)) {
            problems.push(format!(
                "a finding `{}` was expected, and none came",
                report.kind
            ));
        }
        problems
    }
}

/// Writes findings as text. A loop that the compiler has unrolled has many instructions of one
/// line; of findings that differ in these alone, the first is shown.
pub fn text(findings: &[Finding]) -> String {
    let mut shown: Vec<(&Finding, usize)> = Vec::new();
    for finding in findings {
        match shown
            .iter_mut()
            .find(|(other, _)| are_alike(other, finding))
        {
            Some((_, more)) => *more += 1,
            None => shown.push((finding, 0)),
        }
    }
    let text = shown.iter().map(|(finding, more)| {
        let more = match more {
            0 => String::new(),
            1 => "   = note: the same of 1 more pair of instructions of these lines\n".to_owned(),
            n => format!("   = note: the same of {n} more pairs of instructions of these lines\n"),
        };
        format!("{}{more}\n", finding.render())
    });
    text.collect()
}

/// Whether findings say the same of the same lines of the source.
fn are_alike(a: &Finding, b: &Finding) -> bool {
    let lines = |finding: &Finding| -> Vec<(AccessOp, Vec<SourcePlace>)> {
        let accesses = finding.accesses.iter();
        accesses.map(|it| (it.op, it.stack.clone())).collect()
    };
    let name = |finding: &Finding| finding.object.as_ref().map(|it| it.name.clone());
    let is_known = a.accesses.len() > 1 && a.accesses.iter().all(|it| !it.stack.is_empty());
    is_known
        && (a.kind, a.severity, &a.kernel, a.hazard) == (b.kind, b.severity, &b.kernel, b.hazard)
        && (name(a), lines(a)) == (name(b), lines(b))
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

fn op(op: AccessOp) -> &'static str {
    match op {
        AccessOp::Load => "load",
        AccessOp::Store => "store",
        AccessOp::Atomic => "atomic",
        AccessOp::Copy => "copy",
        AccessOp::Barrier => "barrier",
        AccessOp::Warp => "warp",
        AccessOp::Alloc => "alloc",
        AccessOp::Free => "free",
        AccessOp::Branch => "branch",
        AccessOp::Exit => "exit",
        _ => "other",
    }
}

fn hazard(hazard: Hazard) -> &'static str {
    match hazard {
        Hazard::Raw => "raw",
        Hazard::War => "war",
        Hazard::Waw => "waw",
    }
}

fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Order => "order",
        Reason::Scope => "scope",
        Reason::Async => "async",
        Reason::Proxy => "proxy",
        Reason::MixedSize => "mixed-size",
    }
}

fn place(place: &SourcePlace) -> Value {
    json!({"file": place.file, "line": place.line, "column": place.column})
}

fn access(access: &FoundAccess) -> Value {
    let stack: Vec<Value> = access
        .stack
        .iter()
        .map(|frame| json!({"function": null, "source": place(frame)}))
        .collect();
    json!({
        "op": op(access.op), "ctaid": access.ctaid, "tid": access.tid, "threads": access.threads,
        "ptx": {"file": access.ptx.file, "line": access.ptx.line},
        "source": access.stack.first().map(place), "stack": stack,
    })
}

fn finding(finding: &Finding) -> Value {
    let object = finding
        .object
        .as_ref()
        .map(|object| json!({"name": object.name, "offset": object.offset, "size": object.size}));
    json!({
        "kind": finding.kind.name(), "severity": severity(finding.severity), "kernel": finding.kernel,
        "message": finding.message, "space": finding.space, "hazard": finding.hazard.map(hazard),
        "reason": finding.reason.map(reason), "address": finding.address.map(|addr| format!("{addr:#x}")),
        "bytes": finding.bytes, "count": finding.count, "schedule": finding.schedule, "object": object,
        "accesses": finding.accesses.iter().map(access).collect::<Vec<_>>(), "notes": finding.notes,
    })
}

/// The document of `--json`.
pub fn document(checks: Checks, findings: &[Finding], suppressed: usize, is_cut: bool) -> Value {
    let names = [
        (checks.mem, "mem"),
        (checks.race, "race"),
        (checks.init, "init"),
        (checks.sync, "sync"),
        (checks.leak, "leak"),
    ];
    let names: Vec<&str> = names
        .iter()
        .filter(|(is_on, _)| *is_on)
        .map(|&(_, name)| name)
        .collect();
    json!({
        "checks": names, "suppressed": suppressed, "truncated": is_cut,
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

/// SARIF 2.1.0.
pub fn sarif(findings: &[Finding]) -> Value {
    let rules: Vec<Value> = FindingKind::ALL
        .iter()
        .map(|kind| json!({"id": kind.name(), "shortDescription": {"text": kind.name()}}))
        .collect();
    let location = |access: &FoundAccess| {
        let at = access.stack.first().unwrap_or(&access.ptx);
        let mut region = json!({"startLine": at.line.max(1)});
        if at.column > 0 {
            region["startColumn"] = json!(at.column);
        }
        json!({"physicalLocation": {"artifactLocation": {"uri": at.file}, "region": region}})
    };
    let results: Vec<Value> = findings
        .iter()
        .map(|finding| {
            let level = match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Info => "note",
            };
            let (first, others) = match finding.accesses.split_first() {
                Some((first, others)) => {
                    (vec![location(first)], others.iter().map(location).collect())
                }
                None => (Vec::new(), Vec::new()),
            };
            json!({
                "ruleId": finding.kind.name(), "level": level,
                "message": {"text": format!("kernel `{}`: {}", finding.kernel, finding.message)},
                "locations": first, "relatedLocations": others,
                "partialFingerprints": {"ptxjit/v1": fingerprint(finding)},
            })
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
        "runs": [{"tool": {"driver": {"name": "ptxjit", "version": env!("CARGO_PKG_VERSION"), "rules": rules}}, "results": results}],
    })
}

/// FNV-1a of what tells the finding from others.
fn fingerprint(finding: &Finding) -> String {
    let (kind, sites, object) = finding.key();
    let text = format!("{} {sites:?} {object}", kind.name());
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{hash:016x}")
}
