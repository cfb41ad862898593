//! Gives modules at the edges to the checker, and those without errors to a launch, each in a
//! process of its own: both must end in time, and without much memory.
//!
//! ```text
//! fuzz-extremes [--start SEED] [--count N] [--limit BYTES] [--out DIR]
//! ```
//!
//! `fuzz-extremes --check SEED --limit BYTES` and `fuzz-extremes --run SEED --limit BYTES` are such
//! processes: they print what they took. `fuzz-extremes --print SEED --limit BYTES` prints the
//! module.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ptxjit::{Device, Diagnostic, Module, Options, Severity};
use ptxjit_tests::fuzz::extremes;

/// Seconds that a module may take, on a processor that does nothing else.
const SECONDS: u64 = 10;

/// KiB of memory that a module may take.
const MEMORY: u64 = 1 << 20;

/// Bytes that the shapes of a module need to differ in length.
const LEAST_LIMIT: usize = 1 << 12;

/// The time limit of a launch whose code is there: many kernels never end. Compilation has no such
/// limit, as what bounds it must be counts of its work.
const LAUNCH: Duration = Duration::from_millis(500);

/// What the process that checks prints first if the module can be launched.
const VALID: &str = "valid";

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
    let (mut start, mut count, mut limit, mut out) =
        (0, 5000, 1 << 20, PathBuf::from("target/fuzz"));
    let mut part = None;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next();
        let value = value.with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--start" => start = value.parse()?,
            "--count" => count = value.parse()?,
            "--limit" => limit = value.parse()?,
            "--check" => part = Some((Part::Check, value.parse()?)),
            "--print" => part = Some((Part::Print, value.parse()?)),
            "--run" => part = Some((Part::Run, value.parse()?)),
            "--out" => out = value.into(),
            _ => anyhow::bail!("unknown option {word}"),
        }
    }
    anyhow::ensure!(
        limit >= LEAST_LIMIT,
        "--limit needs {LEAST_LIMIT} bytes at least"
    );
    match part {
        Some((Part::Check, seed)) => {
            check(seed, limit);
            return Ok(0);
        }
        Some((Part::Print, seed)) => {
            std::io::stdout().write_all(extremes::module(seed, limit).as_bytes())?;
            return Ok(0);
        }
        Some((Part::Run, seed)) => {
            launch(seed, limit)?;
            return Ok(0);
        }
        None => {}
    }
    let mut n_launched = 0;
    let mut n_found = 0;
    for seed in start..start + count {
        let (launched, problem) = problem(seed, limit)?;
        n_launched += usize::from(launched);
        if let Some(problem) = problem {
            n_found += 1;
            std::fs::create_dir_all(&out)?;
            let path = out.join(format!("extreme-{seed}.ptx"));
            std::fs::write(&path, extremes::module(seed, limit))?;
            eprintln!("seed {seed}: {problem}: written to {}", path.display());
        }
    }
    eprintln!("{count} modules, {n_launched} launched, {n_found} findings");
    Ok(n_found)
}

/// What a process of its own does with the module of a seed.
#[derive(Clone, Copy)]
enum Part {
    Check,
    Print,
    Run,
}

/// Checks the module of a seed and draws what is wrong with it.
#[expect(clippy::print_stdout, reason = "a program that prints a line")]
fn check(seed: u64, limit: usize) {
    let start = Instant::now();
    let found = ptxjit::check_text("extreme.ptx", extremes::module(seed, limit));
    let drawn = found.to_string().len();
    let wrong = |found: &Diagnostic| found.severity() == Severity::Error;
    let verdict = if found.iter().any(wrong) {
        "refused"
    } else {
        VALID
    };
    println!(
        "{verdict}: {} findings, {drawn} bytes drawn, {:?}",
        found.iter().count(),
        start.elapsed()
    );
}

/// Launches a kernel of the module of a seed. Any error is an answer; only time and memory count.
#[expect(clippy::print_stdout, reason = "a program that prints a line")]
fn launch(seed: u64, limit: usize) -> Result<()> {
    let start = Instant::now();
    let device = Device::with_threads(2)?;
    let answer = match launch_on(&device, seed, limit) {
        Ok(()) => "finished".to_owned(),
        Err(err) => err
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned(),
    };
    let peak = peak_memory()?;
    println!("{answer}; {peak} KiB, {:?}", start.elapsed());
    anyhow::ensure!(peak <= MEMORY, "the process took {peak} KiB of memory");
    Ok(())
}

fn launch_on(device: &Device, seed: u64, limit: usize) -> Result<(), ptxjit::Error> {
    let module = Module::from_source(device, "extreme.ptx", extremes::module(seed, limit))?;
    let names = module.kernel_names();
    let name = match seed % 3 {
        0 => &names[(seed / 3) as usize % names.len()],
        _ => "kernel",
    };
    let kernel = module.kernel_exact(name)?;
    let mut options = Options::default();
    // Half of the launches wait for the best code, so that all of the compiler is under the limit.
    options.eager = seed.is_multiple_of(2);
    options.gang = [None, None, Some(1), Some(8), Some(32)][(seed / 6 % 5) as usize];
    let launch = kernel.launch().grid(2).block(64);
    let launch = launch.param_block(vec![0; kernel.param_bytes()]);
    // The kernel keeps the code, so the launch that follows compiles nothing.
    launch.clone().options(options.clone()).prepare()?;
    options.timeout = Some(LAUNCH);
    launch.options(options).run()?;
    Ok(())
}

/// The most KiB of memory that this process has had at once.
fn peak_memory() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let words = line.context("no VmHWM in /proc/self/status")?;
    Ok(words.trim().trim_end_matches(" kB").parse()?)
}

/// Whether the module of a seed was launched, and what is wrong with checking or launching it.
fn problem(seed: u64, limit: usize) -> Result<(bool, Option<String>)> {
    let checked = limited("--check", seed, limit, Some(MEMORY))?;
    if !checked.status.success() || !checked.stdout.starts_with(VALID.as_bytes()) {
        return Ok((false, failure("check", &checked)));
    }
    // A device reserves more address space than it may have memory: the process itself tells what
    // it took.
    let launched = limited("--run", seed, limit, None)?;
    Ok((true, failure("run", &launched)))
}

fn failure(what: &str, output: &Output) -> Option<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    (!output.status.success()).then(|| format!("{what}: {}: {}", output.status, said.trim()))
}

/// Runs a part in a process of its own; the shell sets the limits of time and of address space in
/// KiB.
fn limited(part: &str, seed: u64, limit: usize, space: Option<u64>) -> Result<Output> {
    let space = space.map_or_else(|| "unlimited".to_owned(), |kib| kib.to_string());
    let command = format!(
        "ulimit -t {SECONDS} && ulimit -v {space} && exec \"$0\" {part} {seed} --limit {limit}"
    );
    let this = std::env::current_exe()?;
    let mut command_line = Command::new("sh");
    Ok(command_line.args(["-c", &command]).arg(this).output()?)
}
