//! What compiling costs, stage by stage.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ptxjit::{Buffer, CompileStages, Device, Module, Options};
use serde_json::{Value, json};

use crate::cases::{Case, Set, chosen, of};
use crate::{data, race};

/// One compilation, from the text on.
struct Profile {
    /// Outline of the module; parsing and translating the kernel; passes and whatever else has no
    /// time of its own.
    load: Duration,
    kernel: Duration,
    passes: Duration,
    stages: CompileStages,
    gang: u32,
}

impl Profile {
    fn total(&self) -> Duration {
        let stages = &self.stages;
        let code = stages.vectorize + stages.lower + stages.select + stages.regalloc + stages.link;
        self.load + self.kernel + self.passes + code
    }
}

/// Compiles each kernel this many times and prints the fastest of each.
pub(crate) fn run(
    filter: &str,
    options: &Options,
    rounds: usize,
    out: &mut dyn Write,
) -> Result<Value> {
    let title = format!(
        "{:<16} {:>5} {:>4} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>8} {:>6} {:>8} {:>7} {:>7}",
        "kernel",
        "lines",
        "gang",
        "load",
        "parse",
        "passes",
        "plan",
        "lower",
        "select",
        "regalloc",
        "link",
        "total ms",
        "CLIF",
        "bytes"
    );
    writeln!(out, "{title}\n{}", "-".repeat(title.len()))?;
    let mut results = Vec::new();
    for case in chosen(of(Set::Standard), filter) {
        let mut best: Option<Profile> = None;
        for _ in 0..rounds {
            let profile =
                profile(case, options).with_context(|| format!("kernel {}", case.name))?;
            if best
                .as_ref()
                .is_none_or(|best| profile.total() < best.total())
            {
                best = Some(profile);
            }
        }
        let Some(best) = best else { continue };
        let (lines, stages) = (case.ptx.lines().count(), &best.stages);
        writeln!(
            out,
            "{:<16} {:>5} {:>4} {:>7.2} {:>7.2} {:>7.2} {:>7.2} {:>7.2} {:>7.2} {:>8.2} {:>6.2} {:>8.2} {:>7} {:>7}",
            case.name,
            lines,
            best.gang,
            ms(best.load),
            ms(best.kernel),
            ms(best.passes),
            ms(stages.vectorize),
            ms(stages.lower),
            ms(stages.select),
            ms(stages.regalloc),
            ms(stages.link),
            ms(best.total()),
            stages.clif_insts,
            stages.code_bytes
        )?;
        results.push(json!({
            "kernel": case.name,
            "lines": lines,
            "gang": best.gang,
            "load_ms": ms(best.load),
            "parse_ms": ms(best.kernel),
            "passes_ms": ms(best.passes),
            "plan_ms": ms(stages.vectorize),
            "lower_ms": ms(stages.lower),
            "select_ms": ms(stages.select),
            "regalloc_ms": ms(stages.regalloc),
            "link_ms": ms(stages.link),
            "total_ms": ms(best.total()),
            "clif_insts": stages.clif_insts,
            "code_bytes": stages.code_bytes,
        }));
    }
    Ok(json!({ "eager": options.eager, "compile": results }))
}

fn profile(case: &Case, options: &Options) -> Result<Profile> {
    let device = Device::new()?;
    // Contents do not matter: nothing is launched.
    let buffers = case
        .buffers
        .iter()
        .map(|spec| device.alloc::<u64>(data::words(spec)));
    let buffers: Vec<Buffer<u64>> = buffers.collect::<Result<_, _>>()?;
    let start = Instant::now();
    let module = Module::from_source(&device, case.name, case.ptx)?;
    let load = start.elapsed();
    let start = Instant::now();
    let kernel = module.kernel(case.kernel)?;
    let parse = start.elapsed();
    let prepared = race::prepare(case, (&device, &kernel), &buffers, options)?;
    let stages = prepared.stages().context("it was compiled before")?;
    let code = stages.vectorize + stages.lower + stages.select + stages.regalloc + stages.link;
    Ok(Profile {
        load,
        kernel: parse,
        passes: prepared.compile_time().saturating_sub(code),
        stages,
        gang: prepared.gang(),
    })
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
