//! Reads random images as textures and surfaces in the interpreter and as native code, and
//! compares.
//!
//! ```text
//! fuzz-images [--start SEED] [--seconds S]
//! ```

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ptxjit::Device;
use ptxjit_tests::fuzz::images;

fn main() -> ExitCode {
    match arguments().and_then(|(start, seconds)| run(start, seconds)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(err) => {
            eprintln!("error: {err:#}");
            ExitCode::from(2)
        }
    }
}

/// The first seed, and how long to go on.
fn arguments() -> Result<(u64, u64)> {
    let (mut start, mut seconds) = (0, 60);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next();
        let value = value.with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--start" => start = value.parse()?,
            "--seconds" => seconds = value.parse()?,
            _ => bail!("`{word}` is not known"),
        }
    }
    Ok((start, seconds))
}

/// The number of findings.
fn run(start: u64, seconds: u64) -> Result<usize> {
    let device = Device::new()?;
    let (begin, mut found, mut seed) = (Instant::now(), 0, start);
    while begin.elapsed() < Duration::from_secs(seconds) {
        if let Err(problem) = images::check(&device, seed) {
            found += 1;
            eprintln!("seed {seed}: {problem}");
        }
        seed += 1;
    }
    eprintln!("{} kernels, {found} findings", seed - start);
    Ok(found)
}
