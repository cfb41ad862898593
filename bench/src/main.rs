//! Compares ptxjit with native C on whole kernels, and measures what big modules cost. See
//! `bench/README.md`.

#![expect(
    clippy::print_stdout,
    reason = "a benchmark's results go to standard output"
)]

mod cases;
mod compile;
mod data;
mod frontend;
mod native;
mod plot;
mod race;
mod report;
mod roofline;
mod sanitizers;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand};
use ptxjit::Options;
use serde_json::{Value, json};

use crate::native::Native;
use crate::roofline::Roofline;

/// Compares ptxjit with native C.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    kernels: Kernels,
}

#[derive(Subcommand)]
enum Command {
    /// Measures modules of 1000 kernels and of 1000 globals.
    Frontend {
        /// Processes per module; the best of each number counts.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Also write the results here.
        #[arg(long)]
        json: Option<PathBuf>,
    },
    /// Measures the stages of compilation.
    Compile {
        /// Compilations of each kernel; the fastest counts.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Only the kernel of this name or, if there is none, those whose names contain it.
        #[arg(long, default_value = "")]
        filter: String,
        /// Lanes per vector operation; ptxjit's choice if not given.
        #[arg(long)]
        gang: Option<u32>,
        /// The code of launches that wait for it, rather than the code that large kernels start
        /// with.
        #[arg(long)]
        eager: bool,
        /// Also write the results here.
        #[arg(long)]
        json: Option<PathBuf>,
    },
    /// Measures what sanitizers cost.
    Sanitizers {
        /// Launches of each kind and kernel; the fastest counts.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Only the kernel of this name or, if there is none, those whose names contain it.
        #[arg(long, default_value = "")]
        filter: String,
        /// Which kernels.
        #[arg(long, value_enum, default_value_t)]
        set: Set,
        /// Threads of the host; all if not given.
        #[arg(long)]
        threads: Option<usize>,
        /// What a first launch takes beyond a later one, instead of launches.
        #[arg(long)]
        compile: bool,
    },
    /// One measurement of `frontend`; without a kernel, of checking the module.
    #[command(hide = true)]
    Probe {
        module: PathBuf,
        kernel: Option<String>,
    },
}

use cases::Set;

#[derive(Args)]
struct Kernels {
    /// Threads of the host for both; all if not given.
    #[arg(long)]
    threads: Option<usize>,
    /// Lanes per vector operation: 1, 4, 8, 16 or 32; ptxjit's choice if not given.
    #[arg(long)]
    gang: Option<u32>,
    /// Rounds that count, each one run of ptxjit and one of the native version.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Only the kernel of this name or, if there is none, those whose names contain it.
    #[arg(long, default_value = "")]
    filter: String,
    /// Which kernels.
    #[arg(long, value_enum, default_value_t)]
    set: Set,
    /// Also write the results here.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Also draw the ratios of processor time here, as SVG.
    #[arg(long)]
    svg: Option<PathBuf>,
    /// The C compiler for the native versions.
    #[arg(long, env = "CC", default_value = "cc")]
    cc: String,
    /// The processor that the C compiler may use; `x86-64-v3` has vectors of 256 bits, like ptxjit.
    #[arg(long, default_value = "native")]
    march: String,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    match cli.command {
        None => kernels(&cli.kernels),
        Some(Command::Frontend { rounds, json }) => {
            ensure!(rounds > 0, "there must be a round");
            let results = frontend::run(rounds, &mut std::io::stdout())?;
            write_json(json.as_deref(), &results)
        }
        Some(Command::Compile {
            rounds,
            filter,
            gang,
            eager,
            json,
        }) => {
            ensure!(rounds > 0, "there must be a round");
            let mut options = Options::default();
            options.gang = gang;
            options.eager = eager;
            let results = compile::run(&filter, &options, rounds, &mut std::io::stdout())?;
            write_json(json.as_deref(), &results)
        }
        Some(Command::Sanitizers {
            rounds,
            filter,
            set,
            threads,
            compile,
        }) => {
            ensure!(rounds > 0, "there must be a round");
            let mut options = Options::default();
            options.threads = threads;
            options.eager = true;
            let chosen: Vec<_> = cases::chosen(cases::of(set), &filter).collect();
            let run = if compile {
                sanitizers::run_compile
            } else {
                sanitizers::run
            };
            run(&chosen, &options, rounds, &mut std::io::stdout())
        }
        Some(Command::Probe { module, kernel }) => {
            let numbers = match kernel {
                Some(kernel) => frontend::probe(&module, &kernel)?,
                None => frontend::probe_check(&module)?,
            };
            println!("{numbers}");
            Ok(())
        }
    }
}

fn kernels(args: &Kernels) -> Result<()> {
    ensure!(args.rounds > 0, "there must be a round");
    let dir = temp_dir()?;
    let native = match Native::build(&args.cc, &args.march, dir.path()) {
        Ok(native) => Some(native),
        Err(error) => {
            eprintln!("no native versions: {error:#}");
            None
        }
    };
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.unwrap_or(available);
    if let Some(native) = &native {
        native.set_threads(threads)?;
    }
    let mut options = Options::default();
    options.threads = Some(threads);
    options.gang = args.gang;
    // Launches are compared, not how fast they start.
    options.eager = true;
    let roofline = native.as_ref().map(Roofline::measure).transpose()?;
    println!("{threads} threads, {} rounds", args.rounds);
    println!("{}\n", roofline.map_or_else(String::new, |it| it.text()));
    println!("{}", report::header());
    let chosen = cases::chosen(cases::of(args.set), &args.filter);
    let (mut results, mut ratios, mut wrong) = (Vec::new(), Vec::new(), 0);
    for case in chosen {
        let outcome = race::run(case, &options, args.rounds, native.as_ref())
            .with_context(|| format!("benchmark {}", case.name))?;
        println!("{}", report::row(case, &outcome, roofline.as_ref()));
        wrong += usize::from(outcome.mismatch.is_some());
        results.push(report::json(case, &outcome));
        ratios.extend(
            outcome
                .ratio(|times| &times.cpu)
                .map(|ratio| (case.name, ratio)),
        );
    }
    write_json(
        args.json.as_deref(),
        &json!({
            "threads": threads,
            "roofline": roofline.map(|it| it.json()),
            "kernels": results,
        }),
    )?;
    if let Some(path) = &args.svg {
        let title = "processor time of ptxjit over that of native C with OpenMP, on the same cores";
        std::fs::write(path, plot::svg(title, &ratios))
            .with_context(|| format!("{} cannot be written", path.display()))?;
    }
    ensure!(
        !results.is_empty(),
        "no kernel's name contains `{}`",
        args.filter
    );
    ensure!(
        wrong == 0,
        "{wrong} kernels did not compute what the native version did"
    );
    Ok(())
}

fn write_json(path: Option<&Path>, value: &Value) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, format!("{value:#}\n"))
        .with_context(|| format!("{} cannot be written", path.display()))
}

/// A folder that is removed when this is dropped.
struct TempDir(PathBuf);

impl TempDir {
    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // What remains is in the folder for temporary things.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A directory of its own. One that is there already is of a run that was killed.
fn temp_dir() -> Result<TempDir> {
    let all = std::env::temp_dir();
    for number in 0.. {
        let path = all.join(format!("ptxjit-bench-{}-{number}", std::process::id()));
        match std::fs::create_dir(&path) {
            Err(err) if err.kind() == ErrorKind::AlreadyExists => {}
            made => {
                made.with_context(|| format!("{} cannot be made", path.display()))?;
                return Ok(TempDir(path));
            }
        }
    }
    unreachable!("there are fewer directories than numbers")
}
