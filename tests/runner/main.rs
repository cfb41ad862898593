//! Runs the test files: every `.ptx` below `isa/`, `passes/`, `diag/`, `exec/`, `fuzz/` and
//! `regress/` is one test per command.
//!
//! The form of the files is described in `file`. `PTXJIT_BLESS=1` rewrites snapshots instead of
//! comparing them.

mod diag;
mod execute;
mod file;
mod launch;
mod signature;
mod snapshot;
mod value;
mod wrapper;

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use libtest_mimic::{Arguments, Failed, Trial};
use ptxjit_tests::{files_below, root};

use crate::execute::Runner;
use crate::file::{Command, TestFile};

/// Folders below `tests/` that hold test files.
const FOLDERS: [&str; 6] = ["isa", "passes", "diag", "exec", "fuzz", "regress"];

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    // Launches use several threads themselves.
    args.test_threads
        .get_or_insert_with(|| std::thread::available_parallelism().map_or(1, |n| n.get()));
    let tests = root().join("tests");
    let mut trials = Vec::new();
    for folder in FOLDERS
        .iter()
        .map(|folder| tests.join(folder))
        .filter(|folder| folder.is_dir())
    {
        for path in files_below(&folder, ".ptx") {
            trials.extend(trials_of(&tests, &path));
        }
    }
    trials.extend(self_tests());
    libtest_mimic::run(&args, trials).exit_code()
}

fn trials_of(tests: &Path, path: &Path) -> Vec<Trial> {
    let name = path
        .strip_prefix(tests)
        .unwrap_or(path)
        .display()
        .to_string();
    let file = match TestFile::read(path) {
        Ok(file) => Arc::new(file),
        Err(err) => {
            return vec![Trial::test(name, move || {
                Err(Failed::from(format!("{err:#}")))
            })];
        }
    };
    let mut trials = Vec::new();
    for command in file.commands.clone() {
        match command {
            Command::Interp => trials.push(trial(&name, "interp", &file, |file| {
                execute::file(file, Runner::Interp)
            })),
            Command::Run { gangs } => {
                for gang in gangs {
                    let label = format!("gang={gang}");
                    trials.push(trial(&name, &label, &file, move |file| {
                        execute::file(file, Runner::Gang(gang))
                    }));
                    if gang > 1 {
                        let label = format!("plan of gang={gang}");
                        trials.push(trial(&name, &label, &file, move |file| {
                            execute::file(file, Runner::Plan(gang))
                        }));
                    }
                }
            }
            Command::Seeds(seeds) => {
                for seed in seeds {
                    for runner in [Runner::InterpSeed(seed), Runner::GangSeed(seed)] {
                        trials.push(trial(&name, &runner.to_string(), &file, move |file| {
                            execute::file(file, runner)
                        }));
                    }
                }
            }
            Command::Check => trials.push(trial(&name, "check", &file, diag::check)),
            Command::Snapshot(of) => {
                let label = format!("snapshot after={}", of.after);
                trials.push(trial(&name, &label, &file, move |file| {
                    snapshot::check(file, &of)
                }));
            }
        }
    }
    trials
}

fn trial(
    name: &str,
    label: &str,
    file: &Arc<TestFile>,
    test: impl FnOnce(&TestFile) -> Result<()> + Send + 'static,
) -> Trial {
    let file = file.clone();
    Trial::test(format!("{name} ({label})"), move || {
        test(&file).map_err(|err| Failed::from(format!("{err:#}")))
    })
}

/// The runner's own unit tests: this target has no test harness that would find them.
fn self_tests() -> Vec<Trial> {
    let list: [(&str, fn()); 6] = [
        ("runner::file::a_file", file::tests::a_file),
        (
            "runner::file::files_that_test_nothing",
            file::tests::files_that_test_nothing,
        ),
        ("runner::launch::a_launch", launch::tests::a_launch),
        ("runner::launch::refusals", launch::tests::refusals),
        ("runner::value::literals", value::tests::literals),
        ("runner::value::closeness", value::tests::closeness),
    ];
    let trial = |(name, test): (&str, fn())| {
        Trial::test(name, move || {
            std::panic::catch_unwind(AssertUnwindSafe(test))
                .map_err(|_| Failed::from("the assertion above"))
        })
    };
    list.into_iter().map(trial).collect()
}
