//! What the vectorizer decides about the kernels of `bench/`: `passes/bench.txt` has the summary of
//! each plan. A change of a plan has to be meant; `PTXJIT_BLESS=1` rewrites the file, and the
//! commit says why.

use std::fmt::Write;
use std::fs;

use ptxjit::{Device, Module, Options};
use ptxjit_tests::{files_below, root};

/// The summaries of all kernels, by file and name.
fn summaries() -> anyhow::Result<String> {
    let mut options = Options::default();
    options.gang = Some(16);
    let mut files = files_below(&root().join("bench/kernels"), ".ptx");
    files.sort();
    let mut text = String::new();
    for path in files {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let module = Module::from_source(&Device::new()?, &file, fs::read_to_string(&path)?)?;
        let mut names: Vec<String> = module.kernel_names();
        names.sort();
        for name in names {
            let kernel = module.kernel(&name)?;
            writeln!(text, "{file}: {name}")?;
            for line in kernel.dump("heuristics", [256, 1, 1], &options)?.lines() {
                writeln!(text, "    {line}")?;
            }
        }
    }
    Ok(text)
}

#[test]
fn plans_of_the_benchmarks_are_as_they_were() {
    let path = root().join("tests/passes/bench.txt");
    let new = summaries().expect("the kernels of the benchmarks can be compiled");
    if std::env::var_os("PTXJIT_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, new).expect("the summaries can be written");
        return;
    }
    let old = fs::read_to_string(&path).expect("there are summaries");
    for (old, new) in old.lines().zip(new.lines()) {
        assert_eq!(
            old, new,
            "run this test with PTXJIT_BLESS=1 if this is meant"
        );
    }
    assert_eq!(old.len(), new.len(), "kernels were added or removed");
}
