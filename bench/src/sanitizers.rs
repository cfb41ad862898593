//! What sanitizers and coverage cost: each kernel without any and with each of several lists of
//! checks, in turns; and what compiling costs with them.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ptxjit::coverage::Coverage;
use ptxjit::sanitize::Checks;
use ptxjit::{Buffer, Device, Error, LaunchStats, Module, Options, Prepared};

use crate::cases::Case;
use crate::data;
use crate::race::{prepare, reset_device};

/// What is measured, beside launches without checks.
const LISTS: [&str; 5] = ["race", "init", "all", "mem", "coverage"];

/// A launch that takes longer is one that the interpreter runs.
const LIMIT: Duration = Duration::from_secs(60);

/// The launches of a kernel with one list of checks.
struct Times {
    /// Seconds of the fastest; none if it was not judged by compiled code.
    best: Option<f64>,
    is_proven: bool,
}

/// Measures the cases, all that a launch takes included, and prints a row for each; the means come
/// last.
pub(crate) fn run(
    cases: &[&Case],
    options: &Options,
    rounds: usize,
    out: &mut impl Write,
) -> Result<()> {
    write!(out, "{:20} {:>9}", "ms", "plain")?;
    for list in LISTS {
        write!(out, " {list:>9} {:>6}  ", "ratio")?;
    }
    writeln!(out)?;
    let mut ratios: [Vec<f64>; LISTS.len()] = Default::default();
    for case in cases {
        let times =
            of_case(case, options, rounds).with_context(|| format!("benchmark {}", case.name))?;
        let plain = times[0].best.unwrap_or(f64::NAN);
        write!(out, "{:20} {:9.3}", case.name, 1e3 * plain)?;
        for (times, ratios) in times[1..].iter().zip(&mut ratios) {
            let mark = if times.is_proven { '=' } else { ' ' };
            match times.best {
                Some(best) => {
                    ratios.push(best / plain);
                    write!(out, " {:9.3} {:6.2} {mark}", 1e3 * best, best / plain)?;
                }
                None => write!(out, " {:>9} {:>6} {mark}", "interp", "")?,
            }
        }
        writeln!(out)?;
        out.flush()?;
    }
    write_means(&ratios, out)
}

/// Measures what the first launch of a new module takes beyond a later one: parsing, compiling for
/// the checks, and proofs. Prints a row for each case, and the means.
pub(crate) fn run_compile(
    cases: &[&Case],
    options: &Options,
    rounds: usize,
    out: &mut impl Write,
) -> Result<()> {
    write!(out, "{:20} {:>9}", "ms, first launch", "plain")?;
    for list in LISTS {
        write!(out, " {list:>9} {:>6}", "ratio")?;
    }
    writeln!(out)?;
    let mut ratios: [Vec<f64>; LISTS.len()] = Default::default();
    for case in cases {
        let of = |list| {
            first_launch(case, options, list, rounds)
                .with_context(|| format!("benchmark {}", case.name))
        };
        let plain = of("")?.unwrap_or(f64::NAN);
        write!(out, "{:20} {:9.3}", case.name, 1e3 * plain)?;
        for (list, ratios) in LISTS.into_iter().zip(&mut ratios) {
            match of(list)? {
                Some(time) => {
                    ratios.push(time / plain);
                    write!(out, " {:9.3} {:6.2}", 1e3 * time, time / plain)?;
                }
                None => write!(out, " {:>9} {:>6}", "interp", "")?,
            }
        }
        writeln!(out)?;
        out.flush()?;
    }
    write_means(&ratios, out)
}

fn write_means(ratios: &[Vec<f64>; LISTS.len()], out: &mut impl Write) -> Result<()> {
    for (list, ratios) in LISTS.iter().zip(ratios) {
        let logs: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
        let mean = (logs / ratios.len() as f64).exp();
        let worst = ratios.iter().copied().fold(0.0, f64::max);
        let n = ratios.len();
        writeln!(
            out,
            "{list}: geometric mean {mean:.2}, worst {worst:.1}, {n} kernels"
        )?;
    }
    Ok(())
}

/// Seconds that the first launch of a module takes beyond the second, without the time in which its
/// threads run; the least of several modules. None if the interpreter runs it.
fn first_launch(case: &Case, options: &Options, list: &str, rounds: usize) -> Result<Option<f64>> {
    let options = with_checks(options, list);
    let device = Device::new()?;
    let init: Vec<Vec<u64>> = case.buffers.iter().map(data::make).collect();
    let buffers = on_device(&device, &init)?;
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        reset_device(case, &buffers, &init)?;
        let start = Instant::now();
        let module = Module::from_source(&device, case.name, case.ptx)?;
        let kernel = module.kernel(case.kernel)?;
        let prepared = prepare(case, (&device, &kernel), &buffers, &options)?;
        let Some(stats) = launch(&prepared, list)? else {
            return Ok(None);
        };
        let first = start.elapsed().saturating_sub(stats.time);
        reset_device(case, &buffers, &init)?;
        let start = Instant::now();
        let stats = launch(&prepared, list)?;
        let later = start.elapsed() - stats.map_or(Duration::ZERO, |stats| stats.time);
        best = best.min(first.saturating_sub(later).as_secs_f64());
    }
    Ok(Some(best))
}

fn on_device(device: &Device, init: &[Vec<u64>]) -> Result<Vec<Buffer<u64>>> {
    let buffers = init.iter().map(|words| device.alloc_from(words));
    Ok(buffers.collect::<Result<_, _>>()?)
}

fn with_checks(options: &Options, list: &str) -> Options {
    let mut options = options.clone();
    options.timeout = Some(LIMIT);
    options.sanitize = checks(list);
    options.coverage = (list == "coverage").then(Coverage::of_threads);
    options
}

/// Runs a launch; none if compiled code did not judge it.
fn launch(prepared: &Prepared, list: &str) -> Result<Option<LaunchStats>> {
    match prepared.run() {
        Ok(stats) if stats.is_screened || !is_screened(list) => Ok(Some(stats)),
        Ok(_) | Err(Error::Launch(_)) => Ok(None),
        Err(err) => Err(err.into()),
    }
}

/// The times of launches without checks, and of those with each list.
fn of_case(case: &Case, options: &Options, rounds: usize) -> Result<Vec<Times>> {
    let device = Device::new()?;
    let module = Module::from_source(&device, case.name, case.ptx)?;
    let kernel = module.kernel(case.kernel)?;
    let init: Vec<Vec<u64>> = case.buffers.iter().map(data::make).collect();
    let buffers = on_device(&device, &init)?;
    let lists = std::iter::once("").chain(LISTS);
    let mut launches: Vec<(&str, Prepared, Times)> = Vec::new();
    for list in lists {
        let options = with_checks(options, list);
        let prepared = prepare(case, (&device, &kernel), &buffers, &options)?;
        let times = Times {
            best: Some(f64::INFINITY),
            is_proven: false,
        };
        launches.push((list, prepared, times));
    }
    for round in 0..=rounds {
        for (list, prepared, times) in &mut launches {
            let Some(best) = times.best else {
                continue;
            };
            reset_device(case, &buffers, &init)?;
            let start = Instant::now();
            let stats = launch(prepared, list)?;
            let time = start.elapsed().as_secs_f64();
            times.is_proven = stats.as_ref().is_some_and(|stats| stats.is_proven);
            times.best = stats.map(|_| if round == 0 { best } else { best.min(time) });
        }
    }
    Ok(launches.into_iter().map(|it| it.2).collect())
}

/// Whether launches with such checks are interpreted unless compiled code has judged them.
fn is_screened(list: &str) -> bool {
    !matches!(list, "" | "mem" | "coverage")
}

fn checks(list: &str) -> Checks {
    let is_on = |name: &str| list == name || list == "all";
    Checks {
        mem: is_on("mem"),
        race: is_on("race"),
        init: is_on("init"),
        sync: is_on("sync"),
        ..Checks::default()
    }
}
