//! Gives modules at the edges to the checker, each in a process of its own: it must end in time, and without much memory.
//!
//! ```text
//! fuzz-extremes [--start SEED] [--count N] [--limit BYTES] [--out DIR]
//! ```
//!
//! `fuzz-extremes --one SEED --limit BYTES` is such a process: it prints what it took.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result};
use ptxjit_tests::fuzz::extremes;

/// Seconds that a module may take, on a processor that does nothing else.
const SECONDS: u64 = 10;

/// KiB of memory that a module may take.
const MEMORY: u64 = 1 << 20;

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
    let (mut start, mut count, mut limit, mut one, mut out) =
        (0, 5000, 1 << 20, None, PathBuf::from("target/fuzz"));
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next();
        let value = value.with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--start" => start = value.parse()?,
            "--count" => count = value.parse()?,
            "--limit" => limit = value.parse()?,
            "--one" => one = Some(value.parse()?),
            "--out" => out = value.into(),
            _ => anyhow::bail!("unknown option {word}"),
        }
    }
    if let Some(seed) = one {
        look(seed, limit);
        return Ok(0);
    }
    let mut n_found = 0;
    for seed in start..start + count {
        if let Some(problem) = problem(seed, limit)? {
            n_found += 1;
            std::fs::create_dir_all(&out)?;
            let path = out.join(format!("extreme-{seed}.ptx"));
            std::fs::write(&path, extremes::module(seed, limit))?;
            eprintln!("seed {seed}: {problem}: written to {}", path.display());
        }
    }
    eprintln!("{count} modules, {n_found} findings");
    Ok(n_found)
}

/// Checks the module of a seed and draws what is wrong with it.
#[expect(clippy::print_stdout, reason = "a program that prints a line")]
fn look(seed: u64, limit: usize) {
    let start = Instant::now();
    let found = ptxjit::check_text("extreme.ptx", extremes::module(seed, limit));
    let drawn = found.to_string().len();
    println!(
        "{} findings, {drawn} bytes drawn, {:?}",
        found.iter().count(),
        start.elapsed()
    );
}

/// What is wrong with checking the module of a seed. The shell sets the limits of time and memory.
fn problem(seed: u64, limit: usize) -> Result<Option<String>> {
    let command = format!(
        "ulimit -t {SECONDS} && ulimit -v {MEMORY} && exec \"$0\" --one {seed} --limit {limit}"
    );
    let this = std::env::current_exe()?;
    let output = Command::new("sh")
        .args(["-c", &command])
        .arg(this)
        .output()?;
    if output.status.success() {
        return Ok(None);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Ok(Some(format!("{}: {}", output.status, said.trim())))
}
