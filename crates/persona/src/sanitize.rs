//! `PTXJIT_SANITIZE`: what to look for in a program, and what is to be done about it.

use std::path::PathBuf;

/// Most findings that are told of, unless there is a limit: more of a program would be noise.
const LIMIT: usize = 100;

/// `race,init;suppress=FILE;fail=warning`: a list of checks, then settings, all parted by
/// semicolons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sanitize {
    /// Bounds, lifetime, alignment.
    pub mem: bool,
    /// Accesses that nothing orders.
    pub race: bool,
    /// Writes of the value that is there already are races, too.
    pub same_value: bool,
    /// Uses of what was never written.
    pub init: bool,
    /// Barriers, member masks, deadlocks.
    pub sync: bool,
    /// Memory that is never freed.
    pub leak: bool,
    /// File with the findings that are not told.
    pub suppress: Option<PathBuf>,
    /// Which findings count as faults.
    pub fail: FailOn,
    /// Most findings that are told of.
    pub limit: usize,
    /// Files that get all findings.
    pub reports: Vec<Report>,
}

impl Default for Sanitize {
    fn default() -> Self {
        Self {
            mem: false,
            race: false,
            same_value: false,
            init: false,
            sync: false,
            leak: false,
            suppress: None,
            fail: FailOn::default(),
            limit: LIMIT,
            reports: Vec::new(),
        }
    }
}

/// A file that gets all findings of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What is written.
    pub format: ReportFormat,
    /// The file; `%p` in its name stands for the number of the process.
    pub file: PathBuf,
}

/// How findings are written to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportFormat {
    /// As people read them.
    Text,
    /// As `ptxjit run --json` has them.
    Json,
    /// SARIF 2.1.0.
    Sarif,
}

/// From which severity on a finding counts as a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailOn {
    /// Bugs.
    #[default]
    Error,
    /// What is legal but fragile, too.
    Warning,
    /// None does.
    Never,
}

impl Sanitize {
    /// Whether there is anything to look for.
    #[must_use]
    pub fn any(&self) -> bool {
        self.mem || self.race || self.init || self.sync || self.leak
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split(';').map(str::trim);
        let mut sanitize = Self::default();
        for check in parts.next().unwrap_or("").split(',') {
            sanitize.check(check.trim())?;
        }
        for part in parts.filter(|part| !part.is_empty()) {
            sanitize.setting(part)?;
        }
        Ok(sanitize)
    }

    fn check(&mut self, name: &str) -> Result<(), String> {
        match name {
            "mem" => self.mem = true,
            "race" => self.race = true,
            "same-value" => self.same_value = true,
            "init" => self.init = true,
            "sync" => self.sync = true,
            // Programs that leave it to the end of the process to free their memory are no bug.
            "all" => {
                (self.mem, self.race, self.init, self.sync) = (true, true, true, true);
            }
            "leak" => self.leak = true,
            _ => {
                return Err(format!(
                    "asks for `{name}`, which is none of mem, race, same-value, init, sync, leak, all"
                ));
            }
        }
        Ok(())
    }

    fn setting(&mut self, part: &str) -> Result<(), String> {
        match part.split_once('=') {
            Some(("suppress", file)) if !file.is_empty() => self.suppress = Some(file.into()),
            Some(("fail", "error")) => self.fail = FailOn::Error,
            Some(("fail", "warning")) => self.fail = FailOn::Warning,
            Some(("fail", "never")) => self.fail = FailOn::Never,
            Some(("limit", number)) => match number.parse() {
                Ok(limit) => self.limit = limit,
                Err(_) => return Err(format!("has `{part}`, and `{number}` is no number")),
            },
            Some(("report", report)) => self.reports.push(Report::parse(report)?),
            _ => {
                return Err(format!(
                    "has `{part}`, which is none of suppress=FILE, fail=error, fail=warning, fail=never, \
                     limit=N, report=text=FILE, report=json=FILE, report=sarif=FILE"
                ));
            }
        }
        Ok(())
    }
}

impl Report {
    fn parse(text: &str) -> Result<Self, String> {
        let (format, file) = match text.split_once('=') {
            Some((format, file)) if !file.is_empty() => (format, file),
            _ => return Err(format!("has `report={text}`, which names no file")),
        };
        let format = match format {
            "text" => ReportFormat::Text,
            "json" => ReportFormat::Json,
            "sarif" => ReportFormat::Sarif,
            _ => {
                return Err(format!(
                    "has `report={text}`, and `{format}` is none of text, json, sarif"
                ));
            }
        };
        Ok(Self {
            format,
            file: file.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_and_settings() {
        let parsed = Sanitize::parse("race, init;suppress=a b.txt; fail=warning;").unwrap();
        let wanted = Sanitize {
            race: true,
            init: true,
            suppress: Some("a b.txt".into()),
            fail: FailOn::Warning,
            ..Sanitize::default()
        };
        assert_eq!(parsed, wanted);
        let all = Sanitize::parse("all").unwrap();
        assert!(all.mem && all.race && all.init && all.sync && !all.same_value && !all.leak);
        let parsed = Sanitize::parse("leak;limit=7;report=sarif=a=b;report=json=c.%p").unwrap();
        let report = |format, file: &str| Report {
            format,
            file: file.into(),
        };
        let wanted = Sanitize {
            leak: true,
            limit: 7,
            reports: vec![
                report(ReportFormat::Sarif, "a=b"),
                report(ReportFormat::Json, "c.%p"),
            ],
            ..Sanitize::default()
        };
        assert_eq!(parsed, wanted);
        for (text, wanted) in [
            ("races", "`races`, which is none of mem"),
            ("mem,", "``, which is none of mem"),
            ("mem;limit=few", "`few` is no number"),
            ("mem;report=sarif", "names no file"),
            ("mem;report=xml=x", "`xml` is none of"),
            ("mem;fail=often", "`fail=often`"),
            ("mem;suppress=", "`suppress=`"),
        ] {
            let why = Sanitize::parse(text).unwrap_err();
            assert!(why.contains(wanted), "{text}: {why}");
        }
    }
}
