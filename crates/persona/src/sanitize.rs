//! `PTXJIT_SANITIZE`: what to look for in the kernels of a program, and what is to be done about
//! it.

use std::path::PathBuf;

/// `race,init;suppress=FILE;fail=warning`: a list of checks, then settings, all parted by
/// semicolons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// File with the findings that are not told.
    pub suppress: Option<PathBuf>,
    /// Which findings count as faults.
    pub fail: FailOn,
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
        self.mem || self.race || self.init || self.sync
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
            "all" => {
                (self.mem, self.race, self.init, self.sync) = (true, true, true, true);
            }
            "leak" => return Err("asks for `leak`, for which a program has no end".to_owned()),
            _ => {
                return Err(format!(
                    "asks for `{name}`, which is none of mem, race, same-value, init, sync, all"
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
            Some(("report", _)) => {
                return Err("has `report=`; PTXJIT_REPORT=FILE takes reports".to_owned());
            }
            _ => {
                return Err(format!(
                    "has `{part}`, which is none of suppress=FILE, fail=error, fail=warning, fail=never"
                ));
            }
        }
        Ok(())
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
        assert!(all.mem && all.race && all.init && all.sync && !all.same_value);
        for (text, wanted) in [
            ("races", "`races`, which is none of mem"),
            ("mem,", "``, which is none of mem"),
            ("leak", "`leak`"),
            ("mem;fail=often", "`fail=often`"),
            ("mem;suppress=", "`suppress=`"),
            ("mem;report=sarif=x", "PTXJIT_REPORT"),
        ] {
            let why = Sanitize::parse(text).unwrap_err();
            assert!(why.contains(wanted), "{text}: {why}");
        }
    }
}
