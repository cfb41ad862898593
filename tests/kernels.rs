//! Real kernels with numpy's results: every build of every case below `tests/kernels/`, at the gang
//! width that is chosen and at each fixed one. A kernel that needs something unsupported fails
//! here: the folder holds none.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use ptxjit::Options;
use ptxjit_cli::discover;
use ptxjit_cli::judge::{self, Verdict};
use ptxjit_cli::paths::Outside;
use ptxjit_tests::root;

/// The least that may pass for a slow machine; a hang is what this is for.
const LIMIT: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let args = Arguments::from_args();
    let folder: PathBuf = root().join("tests/kernels");
    let tests = match discover::tests(&[folder], "small", Outside::Refused) {
        Ok(tests) => tests,
        Err(err) => panic!("{err:#}"),
    };
    let mut trials = Vec::new();
    for test in &tests {
        for gang in [None, Some(1), Some(4), Some(8), Some(16), Some(32)] {
            let label = gang.map_or("gang chosen".to_owned(), |gang| format!("gang={gang}"));
            let name = format!("{} ({label})", test.name);
            let test = test.clone();
            trials.push(Trial::test(name, move || {
                let mut options = Options::default();
                options.gang = gang;
                match judge::isolated(&test, "small", &options, LIMIT) {
                    Verdict::Passed => Ok(()),
                    Verdict::Failed(text) => Err(Failed::from(text)),
                    Verdict::Unsupported(text) => Err(Failed::from(format!("unsupported: {text}"))),
                }
            }));
        }
    }
    libtest_mimic::run(&args, trials).exit_code()
}
