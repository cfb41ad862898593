//! Kernels with and without bugs: what the sanitizers must find in each of them, and nothing else
//! (`tests/sanitize/README.md`).

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use ptxjit::Options;
use ptxjit::sanitize::Checks;
use ptxjit_cli::discover;
use ptxjit_cli::judge::{self, Verdict};
use ptxjit_cli::paths::Outside;
use ptxjit_tests::root;

/// The least that may pass for a slow machine; a hang is what this is for.
const LIMIT: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let args = Arguments::from_args();
    let folder: PathBuf = root().join("tests/sanitize");
    let tests = match discover::tests(&[folder], "small", Outside::Refused) {
        Ok(tests) => tests,
        Err(err) => panic!("{err:#}"),
    };
    let trials = tests.into_iter().map(|test| {
        Trial::test(test.name.clone(), move || {
            let mut options = Options::default();
            options.sanitize = Checks {
                mem: true,
                race: true,
                init: true,
                sync: true,
                leak: true,
                same_value: false,
            };
            match judge::isolated(&test, "small", &options, LIMIT) {
                Verdict::Passed => Ok(()),
                Verdict::Failed(text) => Err(Failed::from(text)),
                Verdict::Unsupported(text) => Err(Failed::from(format!("unsupported: {text}"))),
            }
        })
    });
    libtest_mimic::run(&args, trials.collect()).exit_code()
}
