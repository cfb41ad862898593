//! Runs kernels whose threads exchange values under all sanitizers: what was made race-free must be
//! clean, a race that was put in must be found, and compiled code of every width must say what the
//! exact interpreter says.
//!
//! ```text
//! fuzz-sync [affine] [--start SEED] [--seconds S] [--show SEED]
//! ```
//!
//! With `affine` the kernels are those whose addresses are functions of the thread's numbers; of
//! them only that is asked. `--show` prints the kernel of a seed.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ptxjit::Device;
use ptxjit_tests::fuzz::{affine, sync};

/// Kernels before a device is replaced, as its memory is kept.
const PER_DEVICE: u64 = 1000;

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

/// The number of findings.
#[expect(clippy::print_stdout, reason = "`--show` prints a program")]
fn run() -> Result<usize> {
    let (mut start, mut seconds) = (0, 60);
    let mut words = std::env::args().skip(1).peekable();
    let is_affine = words.next_if(|word| word == "affine").is_some();
    while let Some(word) = words.next() {
        let value = words.next();
        let value: u64 = value
            .with_context(|| format!("{word} needs a value"))?
            .parse()?;
        match word.as_str() {
            "--start" => start = value,
            "--seconds" => seconds = value,
            "--show" => {
                match is_affine {
                    true => print!("{}", affine::program(value).text),
                    false => print!("{}", sync::program(value).text),
                }
                return Ok(0);
            }
            _ => bail!("`{word}` is not known"),
        }
    }
    let (begin, mut found, mut screened, mut proven) = (Instant::now(), 0, 0, 0);
    let mut device = Device::new()?;
    let mut seed = start;
    while begin.elapsed() < Duration::from_secs(seconds) {
        let result = match is_affine {
            true => affine::check(&device, seed).map(|it| (it.screened, it.proven)),
            false => sync::check(&device, seed).map(|n| (n, 0)),
        };
        match result {
            Ok((of_screened, of_proven)) => {
                screened += of_screened;
                proven += of_proven;
            }
            Err(problem) => {
                found += 1;
                eprintln!("seed {seed}: {problem}");
            }
        }
        seed += 1;
        if seed.is_multiple_of(PER_DEVICE) {
            device = Device::new()?;
        }
    }
    let n = seed - start;
    eprintln!("{n} kernels, {found} problems; {screened} launches were screened, {proven} proven");
    Ok(found)
}
