//! Sanitizers on the command line: which checks, what is reported how, and what case files expect
//! of them.

use std::path::PathBuf;
use std::str::FromStr;

use ptxjit::sanitize::{Checks, Finding, FindingKind, Severity};
use serde::Deserialize;

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

/// The checks for a program that is not ours, as [`ChecksArg`] has them; `all` is all but `leak`
/// there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramChecks(pub String);

impl FromStr for ProgramChecks {
    type Err = String;

    fn from_str(text: &str) -> Result<ProgramChecks, String> {
        text.parse::<ChecksArg>()?;
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

impl ReportFormat {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ReportFormat::Text => "text",
            ReportFormat::Json => "json",
            ReportFormat::Sarif => "sarif",
        }
    }
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

/// Where reports of a program that is not ours go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramReport {
    /// All, as lines of JSON.
    Lines(PathBuf),
    /// The findings of a process, as a document.
    Document(ReportFormat, PathBuf),
}

impl FromStr for ProgramReport {
    type Err = String;

    fn from_str(text: &str) -> Result<ProgramReport, String> {
        match text.parse() {
            Ok(ReportArg {
                format,
                file: Some(file),
            }) => Ok(ProgramReport::Document(format, file)),
            Ok(ReportArg { file: None, .. }) | Err(_) => Ok(ProgramReport::Lines(text.into())),
        }
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
