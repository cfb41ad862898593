//! Runs random kernels in the interpreter and as native code, and compares. What fails is made
//! small and written to a file.
//!
//! ```text
//! fuzz-kernels [--clusters] [--start SEED] [--count N | --seconds S] [--out DIR] [--no-shrink]
//! fuzz-kernels [--clusters] --show SEED   print the program of a seed
//! fuzz-kernels [--clusters] --times SEED  run it each way by itself, with times
//! fuzz-kernels --replay FILE...           run files that an earlier run has written
//! ```
//!
//! With `--clusters` programs are about clusters, mbarriers and asynchronous copies.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ptxjit::Device;
use ptxjit_tests::fuzz::case::Case;
use ptxjit_tests::fuzz::drive::{self, About};

struct Args {
    about: About,
    start: u64,
    count: u64,
    seconds: Option<u64>,
    out: PathBuf,
    shrink: bool,
    show: Option<u64>,
    times: Option<u64>,
    replay: Vec<PathBuf>,
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
        about: About::Threads,
        start: 0,
        count: 1000,
        seconds: None,
        out: PathBuf::from("target/fuzz"),
        shrink: true,
        show: None,
        times: None,
        replay: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("{word} needs a value"))
        };
        match word.as_str() {
            "--clusters" => args.about = About::Clusters,
            "--start" => args.start = value()?.parse()?,
            "--count" => args.count = value()?.parse()?,
            "--seconds" => args.seconds = Some(value()?.parse()?),
            "--out" => args.out = value()?.into(),
            "--show" => args.show = Some(value()?.parse()?),
            "--times" => args.times = Some(value()?.parse()?),
            "--no-shrink" => args.shrink = false,
            "--replay" => args.replay = words.by_ref().map(PathBuf::from).collect(),
            _ => bail!("`{word}` is not known"),
        }
    }
    Ok(args)
}

/// The number of findings.
fn run(args: &Args) -> Result<usize> {
    if let Some(seed) = args.show {
        let (program, case) = drive::program(args.about, seed);
        eprintln!("{}\n{}", case.line(), program.text());
        return Ok(0);
    }
    let device = Device::new()?;
    if let Some(seed) = args.times {
        return Ok(times(&device, args.about, seed));
    }
    if !args.replay.is_empty() {
        return replay(&device, &args.replay);
    }
    let (start, mut found, mut n) = (Instant::now(), 0, 0);
    let limit = args.seconds.map(Duration::from_secs);
    while limit.map_or(n < args.count, |limit| start.elapsed() < limit) {
        let seed = args.start + n;
        n += 1;
        if let Some((program, case, finding)) = drive::seed(&device, args.about, seed) {
            found += 1;
            eprintln!(
                "seed {seed}: {:?} at {}: {}",
                finding.kind, finding.config, finding.detail
            );
            let (program, case, finding) = if args.shrink {
                drive::shrink(&device, &program, &case, &finding)
            } else {
                (program, case, finding)
            };
            let path = drive::save(
                &args.out,
                &format!("seed-{seed}.ptx"),
                &program.text(),
                &case,
                &finding,
            )?;
            eprintln!("  written to {}", path.display());
        }
    }
    eprintln!(
        "{n} programs in {:.0} s, {found} findings",
        start.elapsed().as_secs_f64()
    );
    Ok(found)
}

fn times(device: &Device, about: About, seed: u64) -> usize {
    let (program, case) = drive::program(about, seed);
    let text = program.text();
    let start = Instant::now();
    let mut found = usize::from(drive::check(device, &text, &case, &[]).is_some());
    eprintln!("{}\ninterpreter alone: {:?}", case.line(), start.elapsed());
    for config in drive::configs(seed, &text) {
        let start = Instant::now();
        let finding = drive::check(device, &text, &case, &[config]);
        eprintln!("with {config}: {:?} {finding:?}", start.elapsed());
        found += usize::from(finding.is_some());
    }
    found
}

fn replay(device: &Device, files: &[PathBuf]) -> Result<usize> {
    let mut found = 0;
    for path in files {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let case = Case::parse(&text).with_context(|| path.display().to_string())?;
        match drive::check(device, &text, &case, &drive::configs(0, "")) {
            None => eprintln!("{}: ok", path.display()),
            Some(finding) => {
                found += 1;
                eprintln!(
                    "{}: {:?} at {}: {}",
                    path.display(),
                    finding.kind,
                    finding.config,
                    finding.detail
                );
            }
        }
    }
    Ok(found)
}
