//! Compiles and runs kernels with tangled control flow while address space comes and goes: code
//! must be placed, results must be the interpreter's, and no compilation may take longer than it
//! should.
//!
//! ```text
//! fuzz-flow [--start SEED] [--seconds S] [--blocks MOST] [--slow SECONDS]
//! ```

#![expect(
    unsafe_code,
    reason = "address space is mapped around what the library maps"
)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ptxjit::Device;
use ptxjit_tests::fuzz::flow;
use ptxjit_tests::fuzz::rng::Rng;

/// Mappings that are kept at a time.
const MOST_MAPPED: usize = 200;

struct Args {
    start: u64,
    seconds: u64,
    blocks: usize,
    slow: u64,
}

fn main() -> ExitCode {
    match arguments().and_then(|args| run(&args)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(err) => {
            eprintln!("error: {err:#}");
            ExitCode::from(2)
        }
    }
}

fn arguments() -> Result<Args> {
    let mut args = Args {
        start: 0,
        seconds: 60,
        blocks: 1000,
        slow: 10,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next();
        let value = value.with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--start" => args.start = value.parse()?,
            "--seconds" => args.seconds = value.parse()?,
            "--blocks" => args.blocks = value.parse::<usize>()?.max(2),
            "--slow" => args.slow = value.parse()?,
            _ => bail!("`{word}` is not known"),
        }
    }
    Ok(args)
}

/// The number of findings.
fn run(args: &Args) -> Result<usize> {
    let device = Device::new()?;
    let (begin, mut found, mut seed) = (Instant::now(), 0, args.start);
    let mut clutter = Clutter::default();
    let mut longest = Duration::ZERO;
    while begin.elapsed() < Duration::from_secs(args.seconds) {
        clutter.change(seed);
        let before = processor_time();
        let result = flow::check(&device, seed, args.blocks);
        let time = processor_time().saturating_sub(before);
        longest = longest.max(time);
        let is_slow = time > Duration::from_secs(args.slow);
        let problem = match result {
            Ok(()) => is_slow.then(|| format!("{time:?}")),
            Err(problem) => Some(problem),
        };
        if let Some(problem) = problem {
            found += 1;
            eprintln!("seed {seed}: {problem}");
        }
        seed += 1;
    }
    let n = seed - args.start;
    eprintln!("{n} kernels, {found} findings, {longest:?} for the slowest");
    Ok(found)
}

/// What this thread, which compiles, has used of a processor: other processes do not show in it.
fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to the given place.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Address space in use, as in a process with large libraries.
#[derive(Default)]
struct Clutter(Vec<(*mut libc::c_void, usize)>);

impl Clutter {
    /// Maps some ranges, from a page to a terabyte, and unmaps others.
    fn change(&mut self, seed: u64) {
        let mut rng = Rng::new(seed ^ 0x00c1_0772);
        for _ in 0..10 {
            if self.0.len() >= MOST_MAPPED || (!self.0.is_empty() && rng.chance(40)) {
                self.unmap(rng.below(self.0.len()));
            }
            let size = 4096usize << rng.below(28);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: the system picks the place.
            let at =
                unsafe { libc::mmap(std::ptr::null_mut(), size, libc::PROT_NONE, flags, -1, 0) };
            if at != libc::MAP_FAILED {
                self.0.push((at, size));
            }
        }
    }

    fn unmap(&mut self, number: usize) {
        let (at, size) = self.0.swap_remove(number);
        // SAFETY: mapped by `change`, and never accessed.
        unsafe { libc::munmap(at, size) };
    }
}

impl Drop for Clutter {
    fn drop(&mut self) {
        while !self.0.is_empty() {
            self.unmap(0);
        }
    }
}
