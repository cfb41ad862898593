//! Runs random programs on every engine, compares, and makes those that fail small.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use ptxjit::{Arg, Device, Engine, Error, Kernel, Module, Options, Schedule};

use super::case::{Case, difference};
use super::generate::{self, Program};
use super::{cluster, tree};

/// A way to run a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// What runs it.
    pub by: By,
    /// Threads of the host.
    pub threads: usize,
    /// Order of progress.
    pub seed: Option<u64>,
}

/// What runs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The interpreter.
    Threads,
    /// The interpreter, by the plan for gangs of this width.
    Plan(u32),
    /// Compiled code for gangs of this width.
    Code(u32),
}

impl Config {
    const INTERP: Config = Config {
        by: By::Threads,
        threads: 1,
        seed: None,
    };

    fn options(self) -> Options {
        let mut options = Options::default();
        options.threads = Some(self.threads);
        let seconds = if matches!(self.by, By::Code(_)) {
            10
        } else {
            30
        };
        options.timeout = Some(Duration::from_secs(seconds));
        match self.by {
            By::Threads => options.engine = Engine::Interp,
            By::Plan(gang) => {
                options.engine = Engine::Plan;
                options.gang = Some(gang);
            }
            By::Code(gang) => options.gang = Some(gang),
        }
        if let Some(seed) = self.seed {
            options.schedule = Schedule::Random(seed);
        }
        options
    }
}

impl std::fmt::Display for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.by {
            By::Threads => write!(f, "interpreter")?,
            By::Plan(gang) => write!(f, "plan of gang={gang}")?,
            By::Code(gang) => write!(f, "gang={gang} threads={}", self.threads)?,
        }
        self.seed
            .map_or(Ok(()), |seed| write!(f, " schedule=seed:{seed}"))
    }
}

/// The ways to run the program of `seed` with this text. Large programs run at some of the widths:
/// compiling takes most of the time.
pub fn configs(seed: u64, ptx: &str) -> Vec<Config> {
    const SMALL: usize = 18_000;
    let jit = |gang, threads, seed| Config {
        by: By::Code(gang),
        threads,
        seed,
    };
    let gang = [1, 4, 8, 16, 32, 4, 8][(seed % 7) as usize];
    let mut configs: Vec<Config> = if ptx.len() < SMALL {
        [1, 4, 8, 16, 32].map(|gang| jit(gang, 1, None)).to_vec()
    } else if ptx.len() < 2 * SMALL {
        vec![jit(1, 1, None), jit(4, 1, None), jit(gang, 1, None)]
    } else {
        vec![jit(1, 1, None), jit(4, 1, None)]
    };
    let last = configs[configs.len() - 1 - (seed % 2) as usize].by;
    // A plan tells what is wrong with it before code does.
    let plan = |config: &Config| match config.by {
        By::Code(gang) if gang > 1 => Some(Config {
            by: By::Plan(gang),
            ..*config
        }),
        By::Threads | By::Plan(_) | By::Code(_) => None,
    };
    let plans: Vec<Config> = configs.iter().filter_map(plan).collect();
    configs.splice(..0, plans);
    // The code is there already.
    configs.extend(
        [(2, None), (1, Some(seed)), (2, Some(seed + 1))].map(|(threads, seed)| Config {
            by: last,
            threads,
            seed,
        }),
    );
    configs
}

/// What went wrong.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The kind of failure; shrinking keeps it.
    pub kind: Kind,
    /// Where.
    pub config: Config,
    /// What it looks like.
    pub detail: String,
}

/// Kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The generator's text was refused.
    Refused,
    /// The code generator gave up.
    Compile,
    /// A launch failed.
    Launch,
    /// A result differs from the interpreter's.
    Mismatch,
    /// ptxjit panicked.
    Panic,
}

/// Runs `ptx` in the interpreter and in all `configs`; the first failure, if any.
pub fn check(device: &Device, ptx: &str, case: &Case, configs: &[Config]) -> Option<Finding> {
    let mut current = Config::INTERP;
    let result = std::panic::catch_unwind(AssertUnwindSafe(|| {
        compare(device, ptx, case, configs, &mut current)
    }));
    match result {
        Ok(Ok(())) => None,
        Ok(Err(finding)) => Some(*finding),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            let detail = text.unwrap_or_default();
            Some(Finding {
                kind: Kind::Panic,
                config: current,
                detail,
            })
        }
    }
}

fn compare(
    device: &Device,
    ptx: &str,
    case: &Case,
    configs: &[Config],
    current: &mut Config,
) -> Result<(), Box<Finding>> {
    let failed = |config: Config, error: &Error| {
        let kind = match error {
            Error::Compile { .. } => Kind::Compile,
            Error::Launch(_) => Kind::Launch,
            _ => Kind::Refused,
        };
        Box::new(Finding {
            kind,
            config,
            detail: error.to_string(),
        })
    };
    let kernel = Module::from_source(device, "fuzz.ptx", ptx).and_then(|module| module.kernel("k"));
    let kernel = kernel.map_err(|err| failed(Config::INTERP, &err))?;
    let want =
        run(device, &kernel, case, Config::INTERP).map_err(|err| failed(Config::INTERP, &err))?;
    for &config in configs {
        *current = config;
        let got = run(device, &kernel, case, config).map_err(|err| failed(config, &err))?;
        if let Some(detail) = difference(&case.inputs(), &want, &got) {
            return Err(Box::new(Finding {
                kind: Kind::Mismatch,
                config,
                detail,
            }));
        }
    }
    Ok(())
}

fn run(
    device: &Device,
    kernel: &Kernel,
    case: &Case,
    config: Config,
) -> Result<Vec<Vec<u8>>, Error> {
    let mut launch = kernel
        .launch()
        .grid(case.grid)
        .block(case.block)
        .options(config.options());
    let mut buffers = Vec::new();
    for input in case.inputs() {
        let buffer = device.alloc_from(&input.bytes)?;
        launch = launch.arg(&buffer);
        buffers.push(buffer);
    }
    let (number, float, array) = case.scalars();
    launch
        .arg(number)
        .arg(float)
        .arg(Arg::from_bytes(array))
        .run()?;
    buffers.iter().map(|buffer| buffer.read()).collect()
}

/// What random programs are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// Instructions, control flow, warps.
    Threads,
    /// Clusters, mbarriers, asynchronous copies.
    Clusters,
}

/// The program of a seed, and its launch.
pub fn program(about: About, seed: u64) -> (Program, Case) {
    match about {
        About::Threads => (generate::program(seed), Case::random(seed)),
        About::Clusters => cluster::program(seed),
    }
}

/// The program of `seed`: nothing, or what went wrong with it.
pub fn seed(device: &Device, about: About, seed: u64) -> Option<(Program, Case, Finding)> {
    let (program, case) = program(about, seed);
    let text = program.text();
    let finding = check(device, &text, &case, &configs(seed, &text))?;
    Some((program, case, finding))
}

/// The same in fewer ways, for a run that takes little time: narrow gangs, which compile fast.
pub fn seed_quickly(device: &Device, about: About, seed: u64) -> Option<(Case, Finding)> {
    const NARROW: u32 = 8;
    let (program, case) = program(about, seed);
    let text = program.text();
    let mut configs = configs(seed, &text);
    let is_narrow = |by: By| match by {
        By::Threads => false,
        By::Plan(gang) | By::Code(gang) => gang <= NARROW,
    };
    configs.retain(|config| is_narrow(config.by));
    Some((case, check(device, &text, &case, &configs)?))
}

/// Leaves out of a failing program what it does not need to fail in the same way.
pub fn shrink(
    device: &Device,
    program: &Program,
    case: &Case,
    finding: &Finding,
) -> (Program, Case, Finding) {
    let mut best = (program.clone(), *case, finding.clone());
    // The interpreter has always run before.
    let configs: Vec<Config> = match finding.config.by {
        By::Threads => Vec::new(),
        By::Plan(_) | By::Code(_) => vec![finding.config],
    };
    let still = |program: &Program, case: &Case| {
        check(device, &program.text(), case, &configs).filter(|found| found.kind == finding.kind)
    };
    for (grid, block) in [
        ([1, 1, 1], case.block),
        ([1, 1, 1], [32, 1, 1]),
        ([1, 1, 1], [7, 1, 1]),
        ([1, 1, 1], [2, 1, 1]),
    ] {
        let smaller = Case {
            grid,
            block,
            data: case.data,
        };
        if let Some(found) = still(&best.0, &smaller) {
            best = (best.0, smaller, found);
        }
    }
    let mut chunk = tree::count(&mut best.0.functions).div_ceil(2);
    while chunk > 0 {
        let mut changed = false;
        let mut start = 0;
        while start < tree::count(&mut best.0.functions) {
            let mut candidate = best.0.clone();
            tree::remove(&mut candidate.functions, start, chunk);
            match still(&candidate, &best.1) {
                Some(found) => {
                    best = (candidate, best.1, found);
                    changed = true;
                }
                None => start += chunk,
            }
        }
        if !changed || chunk > 1 {
            chunk /= 2;
        }
    }
    best
}

/// Writes a finding as a PTX file that [`Case::parse`] understands.
pub fn save(dir: &Path, name: &str, ptx: &str, case: &Case, finding: &Finding) -> Result<PathBuf> {
    std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let path = dir.join(name);
    let detail: String = finding
        .detail
        .lines()
        .map(|line| format!("// {line}\n"))
        .collect();
    let text = format!(
        "{}\n// {:?} at {}\n{detail}{ptx}",
        case.line(),
        finding.kind,
        finding.config
    );
    std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    Ok(path)
}
