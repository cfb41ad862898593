//! Gives damaged PTX to the checker: it must neither panic nor take long.
//!
//! ```text
//! fuzz-parser [--start SEED] [--seconds S] [--out DIR] [FOLDER...]
//! ```
//!
//! The folders hold the PTX that is damaged; those of the repository's tests if none is given.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ptxjit_tests::fuzz::mutate::Checker;
use ptxjit_tests::root;

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(err) => {
            eprintln!("error: {err:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<usize> {
    let (mut seed, mut seconds, mut out, mut folders) =
        (0, 60, PathBuf::from("target/fuzz"), Vec::new());
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("{word} needs a value"))
        };
        match word.as_str() {
            "--start" => seed = value()?.parse()?,
            "--seconds" => seconds = value()?.parse()?,
            "--out" => out = value()?.into(),
            _ => folders.push(PathBuf::from(word)),
        }
    }
    if folders.is_empty() {
        folders.push(root().join("tests"));
    }
    let checker = Checker::new(&folders)?;
    let (start, mut found, first) = (Instant::now(), 0, seed);
    while start.elapsed() < Duration::from_secs(seconds) {
        if let Err((text, problem)) = checker.run(seed) {
            found += 1;
            std::fs::create_dir_all(&out)?;
            let path = out.join(format!("parse-{seed}.ptx"));
            std::fs::write(&path, text)?;
            eprintln!("seed {seed}: {problem}: written to {}", path.display());
        }
        seed += 1;
    }
    eprintln!("{} texts in {seconds} s, {found} findings", seed - first);
    Ok(found)
}
