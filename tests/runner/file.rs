//! Test files: PTX with directives in its comments.
//!
//! ```text
//! // test interp
//! // test run gang=1,4,16                   compiled, and in the interpreter by the plan
//! // test run seed=1,2                      each schedule in the interpreter and in compiled code
//! // test check
//! // test snapshot after=STAGE gang=16 passes=-NAME,…      (gang and passes may be left out)
//! // run: f(1, 0f3F800000) == 3            one call; results in parentheses if there are several
//! // run: f(0.5) == 0.25 ulp 2             or `rel 1e-6`, `abs 1e-6`; `as bf16`: what bits mean
//! // (0.25) == 0.125 ulp 2                 directly below a call: one more of the same function
//! // launch: k<<<2, 64>>>(in = s32[1, 2], out = s32[2]) => out = s32[3, 4]
//! // launch memcheck timeout=2: …          options before the colon
//! // traps: misaligned                     the launch above must end with this error
//! add.sat.u32 a, b, c; // error: …         `test check` must find this here, and nothing else
//! ```
//!
//! A directive goes on in the following comment lines that are indented by four or more spaces.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::launch::LaunchLine;
use crate::value::{Expected, split_top};

/// One file's tests.
#[derive(Debug)]
pub(crate) struct TestFile {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    pub(crate) commands: Vec<Command>,
    pub(crate) runs: Vec<RunLine>,
    pub(crate) launches: Vec<LaunchLine>,
    pub(crate) errors: Vec<ErrorLine>,
}

/// What to do with the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Interp,
    Run { gangs: Vec<u32> },
    Seeds(Vec<u64>),
    Check,
    Snapshot(Snapshot),
}

/// `snapshot after=STAGE gang=N passes=-NAME,…`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) after: String,
    pub(crate) gang: Option<u32>,
    pub(crate) passes: String,
}

impl Snapshot {
    fn parse<'a>(words: impl Iterator<Item = &'a str>) -> Result<Snapshot> {
        let mut snapshot = Snapshot {
            after: String::new(),
            gang: None,
            passes: String::new(),
        };
        for word in words {
            match word.split_once('=') {
                Some(("after", stage)) => snapshot.after = stage.to_owned(),
                Some(("gang", gang)) => {
                    snapshot.gang = Some(gang.parse().context("a gang width is a number")?);
                }
                Some(("passes", passes)) => snapshot.passes = passes.to_owned(),
                _ => bail!("expected `after=…`, `gang=…` or `passes=…`, not `{word}`"),
            }
        }
        ensure!(!snapshot.after.is_empty(), "a snapshot is of a stage");
        Ok(snapshot)
    }
}

/// `// run: func(args) == want`
#[derive(Debug)]
pub(crate) struct RunLine {
    /// Counted from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) func: String,
    pub(crate) args: Vec<String>,
    pub(crate) want: Vec<Expected>,
}

/// `// error: text`, or `// unsupported: text`
#[derive(Debug)]
pub(crate) struct ErrorLine {
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) unsupported: bool,
}

impl TestFile {
    pub(crate) fn read(path: &Path) -> Result<TestFile> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        TestFile::parse(path, text)
    }

    fn parse(path: &Path, text: String) -> Result<TestFile> {
        let mut file = TestFile {
            path: path.to_owned(),
            text: String::new(),
            commands: Vec::new(),
            runs: Vec::new(),
            launches: Vec::new(),
            errors: Vec::new(),
        };
        for (line, directive) in directives(&text) {
            file.directive(line, &directive)
                .with_context(|| format!("{}:{line}: {directive}", path.display()))?;
        }
        file.text = text;
        file.validate()
            .with_context(|| path.display().to_string())?;
        Ok(file)
    }

    fn directive(&mut self, line: usize, directive: &str) -> Result<()> {
        if let Some(command) = directive.strip_prefix("test ") {
            self.commands.push(command.trim().parse()?);
        } else if let Some(run) = directive.strip_prefix("run:") {
            self.runs.push(RunLine::parse(line, run.trim())?);
        } else if let Some(rest) = directive.strip_prefix("launch") {
            let (options, launch) = rest.split_once(':').context("a launch needs a colon")?;
            self.launches
                .push(LaunchLine::parse(line, options, launch.trim())?);
        } else if let Some(trap) = directive.strip_prefix("traps:") {
            let launch = self
                .launches
                .last_mut()
                .context("`traps` needs a launch before it")?;
            ensure!(launch.want.is_empty(), "a launch that traps has no results");
            launch.traps = Some(trap.trim().to_owned());
        } else if let Some(text) = directive.strip_prefix("error:") {
            self.errors.push(ErrorLine {
                line,
                text: text.trim().to_owned(),
                unsupported: false,
            });
        } else if let Some(text) = directive.strip_prefix("unsupported:") {
            self.errors.push(ErrorLine {
                line,
                text: text.trim().to_owned(),
                unsupported: true,
            });
        }
        Ok(())
    }

    /// A file that tests nothing is a mistake.
    fn validate(&self) -> Result<()> {
        ensure!(!self.commands.is_empty(), "no `// test` directive");
        let executes = self
            .commands
            .iter()
            .any(|c| matches!(c, Command::Interp | Command::Run { .. } | Command::Seeds(_)));
        let has_lines = !self.runs.is_empty() || !self.launches.is_empty();
        ensure!(
            executes == has_lines,
            "`test interp` and `test run` need `run:` or `launch:` lines, and these need them"
        );
        let checks = self.commands.contains(&Command::Check);
        ensure!(
            checks || self.errors.is_empty(),
            "`error:` needs `test check`"
        );
        for launch in &self.launches {
            let tests_something = launch.traps.is_some() || !launch.want.is_empty();
            ensure!(
                tests_something,
                "line {}: the launch has neither results nor `traps:`",
                launch.line
            );
        }
        Ok(())
    }
}

/// The directives with their lines, continuations joined.
fn directives(text: &str) -> Vec<(usize, String)> {
    const WORDS: [&str; 7] = [
        "test ",
        "run:",
        "launch:",
        "launch ",
        "traps:",
        "error:",
        "unsupported:",
    ];
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (idx, line) in text.lines().enumerate() {
        let Some((code, comment)) = line.split_once("//") else {
            open = false;
            continue;
        };
        let alone = code.trim().is_empty();
        if open && alone && comment.starts_with("    ") {
            let (_, directive) = found.last_mut().expect("a directive is open");
            directive.push(' ');
            directive.push_str(comment.trim());
            continue;
        }
        let comment = comment.trim();
        if open && alone && comment.starts_with('(') {
            let called = found.last().and_then(|(_, directive)| called(directive));
            if let Some(run) = called.map(|called| format!("{called}{comment}")) {
                found.push((idx + 1, run));
                continue;
            }
        }
        // Behind code only errors are expected; anything else there is prose.
        open = WORDS.iter().any(|word| comment.starts_with(word));
        open &= alone || comment.starts_with("error:") || comment.starts_with("unsupported:");
        if open {
            found.push((idx + 1, comment.to_owned()));
        }
    }
    found
}

/// `run: func` of a directive that calls a function.
fn called(directive: &str) -> Option<&str> {
    let (called, _) = directive.split_once('(')?;
    called.starts_with("run:").then_some(called)
}

impl std::str::FromStr for Command {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Command> {
        let mut words = text.split_whitespace();
        let command = words.next().unwrap_or("");
        if command == "snapshot" {
            return Ok(Command::Snapshot(Snapshot::parse(words)?));
        }
        let option = words.next();
        ensure!(words.next().is_none(), "too many words");
        match (command, option.and_then(|option| option.split_once('='))) {
            ("interp", None) => Ok(Command::Interp),
            ("check", None) => Ok(Command::Check),
            ("run", Some(("gang", gangs))) => {
                let gangs = gangs.split(',').map(|gang| gang.parse::<u32>());
                Ok(Command::Run {
                    gangs: gangs
                        .collect::<Result<_, _>>()
                        .context("gang widths are numbers")?,
                })
            }
            ("run", Some(("seed", seeds))) => {
                let seeds = seeds.split(',').map(|seed| seed.parse::<u64>());
                let seeds = seeds.collect::<Result<_, _>>();
                Ok(Command::Seeds(seeds.context("seeds are numbers")?))
            }
            _ => bail!(
                "expected `interp`, `run gang=…`, `run seed=…`, `check` or `snapshot after=…`"
            ),
        }
    }
}

impl RunLine {
    fn parse(line: usize, text: &str) -> Result<RunLine> {
        let (call, want) = text.split_once("==").context("a run line needs `==`")?;
        let (func, args) = call
            .trim()
            .split_once('(')
            .context("expected `function(arguments)`")?;
        let args = args.strip_suffix(')').context("expected `)` before `==`")?;
        Ok(RunLine {
            line,
            text: text.to_owned(),
            func: func.trim().to_owned(),
            args: split_top(args),
            want: Expected::parse_list(want.trim())?,
        })
    }
}

/// Called by `main`.
pub(crate) mod tests {
    use super::*;

    fn parse(text: &str) -> Result<TestFile> {
        TestFile::parse(Path::new("x.ptx"), text.to_owned())
    }

    pub(crate) fn a_file() {
        let file = parse(
            "// test interp\n// test run gang=1,4\n// test check\n.func f();\n// prose run: no\n\
             // run: f(1,\n//     (2)) == (3, nan) ulp 2\n// (4) == 5\n// (6) == 7\n\
             add x; // error: bad\n// (prose)\n",
        )
        .unwrap();
        assert_eq!(
            file.commands,
            [
                Command::Interp,
                Command::Run { gangs: vec![1, 4] },
                Command::Check
            ]
        );
        assert_eq!(
            (
                file.runs[0].line,
                file.runs[0].args.len(),
                file.runs[0].want.len()
            ),
            (6, 2, 2)
        );
        let rows = file.runs.iter().map(|run| (run.line, run.func.as_str()));
        assert_eq!(Vec::from_iter(rows), [(6, "f"), (8, "f"), (9, "f")]);
        assert_eq!(
            (file.errors[0].line, file.errors[0].text.as_str()),
            (10, "bad")
        );
    }

    pub(crate) fn files_that_test_nothing() {
        for text in [
            ".version 7.0",
            "// test interp",
            "// run: f() == 1",
            "// test check\n// run: f() == 1",
            "// test interp\n// run: f() = 1",
            "// test run\n// run: f() == 1",
            "// test interp\n// launch: k<<<1, 1>>>(a = s32[4])",
            "// test interp\n// run: f() == 1\nx // error: y",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
