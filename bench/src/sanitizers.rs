//! What sanitizers and coverage cost: each kernel without any and with each of several lists of
//! checks, in turns.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ptxjit::coverage::Coverage;
use ptxjit::sanitize::Checks;
use ptxjit::{Buffer, Device, Error, Module, Options, Prepared};

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
    for (list, ratios) in LISTS.iter().zip(&ratios) {
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

/// The times of launches without checks, and of those with each list.
fn of_case(case: &Case, options: &Options, rounds: usize) -> Result<Vec<Times>> {
    let device = Device::new()?;
    let module = Module::from_source(&device, case.name, case.ptx)?;
    let kernel = module.kernel(case.kernel)?;
    let init: Vec<Vec<u64>> = case.buffers.iter().map(data::make).collect();
    let buffers: Vec<Buffer<u64>> = init
        .iter()
        .map(|words| device.alloc_from(words))
        .collect::<Result<_, _>>()?;
    let lists = std::iter::once("").chain(LISTS);
    let mut launches: Vec<(&str, Prepared, Times)> = Vec::new();
    for list in lists {
        let mut options = options.clone();
        options.timeout = Some(LIMIT);
        options.sanitize = checks(list);
        options.coverage = (list == "coverage").then(Coverage::of_threads);
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
            let result = prepared.run();
            let time = start.elapsed().as_secs_f64();
            match result {
                Ok(stats) if stats.is_screened || !is_screened(list) => {
                    times.is_proven = stats.is_proven;
                    times.best = Some(if round == 0 { best } else { best.min(time) });
                }
                Ok(_) | Err(Error::Launch(_)) => times.best = None,
                Err(err) => return Err(err.into()),
            }
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
