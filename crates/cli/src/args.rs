//! The command line.

use crate::sanitize::{ChecksArg, FailOn, ProgramChecks, ProgramReport, ReportArg};
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use ptxjit::Schedule;

use crate::arg::CliArg;
use crate::coverage::{CoverageArg, ProfileArg};
use crate::picture::Size;
use crate::shard::Shard;

/// Runs CUDA-compiled PTX on CPUs.
#[derive(Debug, Parser)]
#[command(name = "ptxjit", version, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Launch one kernel, or the launches of a case file.
    Run(Box<RunArgs>),
    /// Run case files and compare the results with their expectations.
    Test(TestArgs),
    /// Parse and check PTX files without running anything.
    Check(CheckArgs),
    /// Show a kernel at a stage of its compilation.
    Dump(DumpArgs),
    /// List the PTX instructions that this build supports.
    Isa(IsaArgs),
    /// Look at or empty the folder where `run` keeps compiled code.
    Cache(CacheArgs),
    /// Run a program with ptxjit in the place of the GPU: its CUDA libraries are ptxjit's.
    ///
    /// The program's exit status is that of this command; 127 if it is not found, 126 if it cannot
    /// be run.
    Exec(LaunchArgs),
    /// Put this command and the libraries into a folder, as an installation has them: bin/ and
    /// lib/.
    #[command(hide = true)]
    Dist(DistArgs),
    /// Stand in for NVIDIA's `ptxas`: check a PTX file, and deliver it as if it were machine code.
    ///
    /// Takes the options of `ptxas`; those that matter are -o, --gpu-name, -c, -v and --version.
    /// Under the name `ptxas` the command does the same.
    #[command(disable_help_flag = true)]
    Ptxas(PtxasArgs),
}

#[derive(Debug, Args)]
pub struct PtxasArgs {
    /// What `ptxas` would be given.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct LaunchArgs {
    /// The compute capability that devices report; 8.0 if not given.
    #[arg(long, value_name = "X.Y", value_parser = capability)]
    pub compute_capability: Option<String>,
    /// The GPU to resemble (a100, h100, rtx4090, …), or a file that describes one.
    #[arg(long, value_name = "NAME|FILE")]
    pub persona: Option<OsString>,
    /// How many devices there are.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1024))]
    pub devices: Option<u32>,
    /// Memory of each device, as in 512M or 8G.
    #[arg(long, value_name = "BYTES")]
    pub memory: Option<String>,
    /// Check every access: exact bounds, alignment, freed memory.
    #[arg(long)]
    pub memcheck: bool,
    /// Look for bugs in kernels, and in what the program does with memory: a list of mem, race,
    /// init, sync and leak, or all, which is all but leak. Checks of more than memory are slow.
    #[arg(long, value_name = "CHECKS")]
    pub sanitize: Option<ProgramChecks>,
    /// Leave out findings that this file lists.
    #[arg(long, value_name = "FILE", requires = "sanitize")]
    pub suppress: Option<PathBuf>,
    /// From which severity on findings are faults.
    #[arg(long, value_name = "SEVERITY", requires = "sanitize")]
    pub sanitize_fail: Option<FailOn>,
    /// Tell of so many findings at most; 100 if not given.
    #[arg(long, value_name = "N", requires = "sanitize")]
    pub sanitize_limit: Option<usize>,
    /// Stop a kernel that takes longer.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<Duration>,
    /// The order in which threads make progress: deterministic, roundrobin, random:SEED,
    /// adversarial or `pct:SEED[:DEPTH]`.
    #[arg(long)]
    pub schedule: Option<Schedule>,
    /// Write a line per call of the driver.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write reports of faults and findings as lines of JSON, instead of text to standard error; or
    /// all findings of a process as a document. May be repeated.
    #[arg(long, value_name = "FILE|text=FILE|json=FILE|sarif=FILE")]
    pub report: Vec<ProgramReport>,
    /// Print the environment as a shell's `export` lines instead of running anything: eval
    /// "$(ptxjit exec --print-env)".
    #[arg(long)]
    pub print_env: bool,
    /// The program and its arguments.
    #[arg(
        required_unless_present = "print_env",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct DistArgs {
    pub folder: PathBuf,
    /// Leave out names that are links to others.
    #[arg(long)]
    pub no_links: bool,
}

impl Command {
    /// How the command tells what is wrong with modules, if it reads any.
    pub fn diag(&self) -> Option<&DiagArgs> {
        match self {
            Command::Run(args) => Some(&args.diag),
            Command::Test(args) => Some(&args.diag),
            Command::Check(args) => Some(&args.diag),
            Command::Dump(args) => Some(&args.diag),
            Command::Isa(_) | Command::Cache(_) | Command::Exec(_) => None,
            Command::Dist(_) | Command::Ptxas(_) => None,
        }
    }
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// The PTX file; several are linked. Fat binaries will do, too, and to be linked also objects
    /// and libraries that hold such.
    #[arg(required_unless_present = "case")]
    pub files: Vec<PathBuf>,
    /// The kernel, mangled or demangled; may be left out if the module has only one.
    #[arg(long)]
    pub kernel: Option<String>,
    /// Thread blocks in the grid: X, X,Y or X,Y,Z.
    #[arg(long, default_value = "1", value_name = "X[,Y[,Z]]")]
    pub grid: Dims,
    /// Threads in a block.
    #[arg(long, default_value = "1", value_name = "X[,Y[,Z]]")]
    pub block: Dims,
    /// Thread blocks in a cluster.
    #[arg(long, value_name = "X[,Y[,Z]]")]
    pub cluster: Option<Dims>,
    /// Dynamic shared memory.
    #[arg(long, default_value_t = 0, value_name = "BYTES")]
    pub shared: u32,
    /// A cooperative launch: all blocks of the grid run at once and may wait for each other.
    #[arg(long)]
    pub cooperative: bool,
    /// The launch may overlap with the one before it.
    #[arg(long)]
    pub programmatic: bool,
    /// A kernel argument, in order.
    ///
    /// TYPE=VALUE for a scalar (u8 … u64, s8 … s64, f16, bf16, f32, f64, b8 … b128; hexadecimal
    /// gives the bits of a float type, as do 0f… and 0d…); bytes=HEX for a structure;
    /// `TYPE[N]=INIT` for a buffer passed by pointer, where INIT is zeros, uninit, arange,
    /// arange:START:STEP, fill:VALUE, random:SEED:LO:HI, @FILE.npy or @FILE.bin; TYPE=@FILE takes
    /// the length from the file; same=I passes argument I's pointer again; tensormap={…} or
    /// tensormap=@FILE.json passes a tensor map by value, with the fields of a case file's, and in
    /// place of `buffer` either `arg`, the index of the argument whose buffer it describes, or
    /// `data`, a buffer of its own written like an argument; tex={…}, surf={…} and sampler={…} pass
    /// the handle of a texture, surface or sampler in the same way, whose data may also be a file
    /// (`npy`).
    #[arg(long = "arg", value_name = "ARG", allow_hyphen_values = true)]
    pub args: Vec<CliArg>,
    /// Bind a texture, surface or sampler, written as for --arg, to a module variable.
    #[arg(
        long,
        value_name = "SYMBOL=OBJECT",
        allow_hyphen_values = true,
        value_parser = crate::arg::parse_binding
    )]
    pub bind: Vec<(String, CliArg)>,
    /// Print argument I's buffer after the launch, the first N elements of it if given.
    #[arg(long, value_name = "I[:N]")]
    pub print: Vec<PrintSpec>,
    /// Write argument I's buffer to FILE after the launch: NumPy's format if FILE ends in .npy, a
    /// picture if it ends in .png, else raw bytes.
    ///
    /// A picture needs a size: I=FILE.png:WIDTHxHEIGHT. A u8 buffer is grey with one element per
    /// pixel, RGB with three, RGBA with four. Elements of other types, one per pixel, go through a
    /// colour map from violet (least) over green to yellow (greatest): floats in proportion to
    /// their value, integers to its logarithm; NaN is black.
    #[arg(long, value_name = "I=FILE")]
    pub out: Vec<OutSpec>,
    /// Launch N times on the same buffers and report times.
    #[arg(long, default_value = "1", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// Restore the buffers before each repetition, untimed.
    #[arg(long)]
    pub reset: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
    /// Neither use compiled code of earlier runs nor keep any.
    #[arg(long)]
    pub no_cache: bool,
    /// Run the launches of a case file.
    #[arg(long, value_name = "case.json")]
    pub case: Option<PathBuf>,
    /// Which case of the file.
    #[arg(long, requires = "case", default_value = "small")]
    pub label: String,
    /// The PTX file to run the case with; the first one it names if left out.
    #[arg(long, requires = "case", value_name = "FILE")]
    pub ptx: Option<PathBuf>,
    /// Write every buffer of the case as DIR/NAME.npy, and device output as DIR/stdout.
    ///
    /// Names that have separators of folders or NUL, or start with a dot, are refused.
    #[arg(long, requires = "case", value_name = "DIR")]
    pub out_dir: Option<PathBuf>,
    /// Let the case read files outside of its folder. Without it, a case's PTX and data are plain
    /// files below the folder of its case.json, and links that lead out of it are refused.
    #[arg(long, requires = "case")]
    pub allow_outside: bool,
    /// Report findings of sanitizers as text, json or sarif, perhaps to a file: sarif=FILE. May be
    /// given several times.
    #[arg(long, value_name = "FORMAT[=FILE]")]
    pub report: Vec<ReportArg>,
    /// Leave out findings that this file lists.
    #[arg(long, value_name = "FILE")]
    pub suppress: Option<PathBuf>,
    /// Write what would silence the findings.
    #[arg(long, value_name = "FILE")]
    pub suppress_out: Option<PathBuf>,
    /// Run under so many schedules, from equal buffers, and gather the findings.
    #[arg(long, value_name = "N", requires = "sanitize", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub explore: Option<u32>,
    /// Write what the schedule chooses to FILE, to be replayed. Interprets the kernel.
    #[arg(long, value_name = "FILE", conflicts_with = "explore")]
    pub record: Option<PathBuf>,
    /// Make the choices that --record wrote to FILE, with any checks. The modules and the launches
    /// must be the same.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["record", "explore", "schedule"])]
    pub replay: Option<PathBuf>,
    #[command(flatten)]
    pub exec: ExecArgs,
    #[command(flatten)]
    pub diag: DiagArgs,
}

/// How to execute.
#[derive(Clone, Debug, Args)]
pub struct ExecArgs {
    /// Lanes that one vector operation advances: 1, 4, 8, 16 or 32. Chosen per kernel if left out.
    #[arg(long, value_name = "N", value_parser = gang)]
    pub gang: Option<u32>,
    /// Threads of the host to use; all cores if left out.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub threads: Option<u32>,
    /// The order in which threads make progress: deterministic, roundrobin, random:SEED,
    /// adversarial or `pct:SEED[:DEPTH]`.
    #[arg(long)]
    pub schedule: Option<Schedule>,
    /// Stop a launch that takes longer, to compile or to run.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<Duration>,
    /// Check every access: exact bounds, alignment, freed memory; the same as --sanitize mem.
    #[arg(long)]
    pub memcheck: bool,
    /// Look for bugs: a list of mem, race, init, sync and leak, or all. Checks of more than memory
    /// interpret the kernel, which is slow.
    #[arg(long, value_name = "CHECKS")]
    pub sanitize: Option<ChecksArg>,
    /// From which severity of findings on the command fails.
    #[arg(long, value_name = "SEVERITY", default_value = "error")]
    pub sanitize_fail: FailOn,
    /// Keep so many findings.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub sanitize_limit: usize,
    /// Write which lines and sides of conditions were run, over all launches, as lcov=FILE,
    /// html=DIR or json=FILE. May be given several times.
    #[arg(long, value_name = "FORMAT=PATH")]
    pub coverage: Vec<CoverageArg>,
    /// Tell what each line does and asks of memory: instructions, active lanes, sectors, bank
    /// conflicts, atomics, barriers; as a table, or as json=FILE.
    #[arg(long, value_name = "json=FILE", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub profile: Option<ProfileArg>,
    /// Interpret instead of compiling; slow, for comparison.
    #[arg(long)]
    pub interp: bool,
    /// Interpret gang by gang, as the vectorizer has planned, and fail where the plan claims what
    /// is not so.
    #[arg(long, hide = true, conflicts_with = "interp")]
    pub by_plan: bool,
    /// Finish compiling before the first launch. Otherwise a large kernel starts with code made in
    /// a hurry, which is improved beside the launch. Implied where launches are repeated.
    #[arg(long)]
    pub eager: bool,
}

/// How to tell what is wrong with a module.
#[derive(Clone, Debug, Args)]
pub struct DiagArgs {
    /// Show the first N errors of a module and how many more there are; 0 shows all.
    #[arg(long, value_name = "N", default_value_t = ptxjit::ERROR_LIMIT)]
    pub error_limit: usize,
}

#[derive(Debug, Args)]
pub struct TestArgs {
    /// Case files, or folders to search for `case.json`.
    #[arg(required = true)]
    pub paths: Vec<PathBuf>,
    /// Which cases to run.
    #[arg(long, default_value = "small")]
    pub label: String,
    /// Write the results as JUnit XML.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Tests to run at a time; one per core if left out.
    #[arg(short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub jobs: Option<u32>,
    /// Only tests whose name contains TEXT.
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// Run only part I of N of the tests, counted from 1. Every test is in exactly one part, the
    /// same on every machine.
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Make the parts of --shard take about as long as each other, by the times in a report of an
    /// earlier run (--json or --junit); may be given several times. All parts need the same files.
    #[arg(long, value_name = "FILE", requires = "shard")]
    pub timings: Vec<PathBuf>,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
    /// Let cases read files outside of their folders. Without it, a case's PTX and data are plain
    /// files below the folder of its case.json, and links that lead out of it are refused.
    #[arg(long)]
    pub allow_outside: bool,
    #[command(flatten)]
    pub exec: ExecArgs,
    #[command(flatten)]
    pub diag: DiagArgs,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// PTX files.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
    /// Compile every kernel, too.
    #[arg(long)]
    pub all_kernels: bool,
    /// Link the files, and check them as the one program that they are together.
    #[arg(long)]
    pub link: bool,
    #[command(flatten)]
    pub diag: DiagArgs,
}

#[derive(Debug, Args)]
pub struct DumpArgs {
    /// The PTX file; several are linked.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// The kernel; may be left out if the module has only one.
    #[arg(long)]
    pub kernel: Option<String>,
    /// The block size to specialise for.
    #[arg(long, default_value = "256", value_name = "X[,Y[,Z]]")]
    pub block: Dims,
    /// Gang width; chosen if left out.
    #[arg(long, value_name = "N", value_parser = gang)]
    pub gang: Option<u32>,
    /// Heuristics of the vectorizer to switch off.
    #[arg(long, hide = true, value_name = "-NAME,…", allow_hyphen_values = true)]
    pub passes: Option<String>,
    /// From `opt` on, with the code that notices whether these sanitizers may have something to
    /// find.
    #[arg(long, value_name = "CHECKS")]
    pub sanitize: Option<ChecksArg>,
    /// ast, ir, the name of a pass, gang, vectorize, clif or asm; `help` lists them.
    #[arg(long, value_name = "STAGE", default_value = "ir")]
    pub after: String,
    #[command(flatten)]
    pub diag: DiagArgs,
}

#[derive(Debug, Args)]
pub struct IsaArgs {
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CacheArgs {
    #[command(subcommand)]
    pub action: CacheAction,
}

#[derive(Debug, Subcommand)]
pub enum CacheAction {
    /// Tell where it is and how large.
    ///
    /// It is in $PTXJIT_CACHE_DIR, or else $XDG_CACHE_HOME/ptxjit, or else ~/.cache/ptxjit, and
    /// takes at most $PTXJIT_CACHE_SIZE bytes (512M if not set).
    Show,
    /// Remove everything in it.
    Clear,
}

/// Up to three dimensions; those not given are 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dims(pub [u32; 3]);

impl FromStr for Dims {
    type Err = String;

    fn from_str(text: &str) -> Result<Dims, String> {
        let mut dims = [1; 3];
        for (idx, part) in text.split(',').enumerate() {
            let dim = dims.get_mut(idx).ok_or("more than three dimensions")?;
            *dim = part
                .trim()
                .parse()
                .map_err(|_| format!("`{part}` is not a dimension"))?;
        }
        Ok(Dims(dims))
    }
}

/// `I` or `I:N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrintSpec {
    pub arg: usize,
    pub count: Option<usize>,
}

impl FromStr for PrintSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<PrintSpec, String> {
        let number = |text: &str| {
            text.parse()
                .map_err(|_| format!("`{text}` is not a number"))
        };
        match text.split_once(':') {
            Some((arg, count)) => Ok(PrintSpec {
                arg: number(arg)?,
                count: Some(number(count)?),
            }),
            None => Ok(PrintSpec {
                arg: number(text)?,
                count: None,
            }),
        }
    }
}

/// `I=FILE`, or `I=FILE.png:WIDTHxHEIGHT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutSpec {
    pub arg: usize,
    pub path: PathBuf,
    /// Of a picture.
    pub size: Option<Size>,
}

impl FromStr for OutSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<OutSpec, String> {
        let (arg, path) = text.split_once('=').ok_or("expected I=FILE")?;
        let arg = arg
            .parse()
            .map_err(|_| format!("`{arg}` is not an argument's index"))?;
        if path.ends_with(".png") {
            return Err("a picture needs a size: I=FILE.png:WIDTHxHEIGHT".to_owned());
        }
        let (path, size) = match path.rsplit_once(':') {
            Some((picture, size)) if picture.ends_with(".png") => (picture, Some(size.parse()?)),
            _ => (path, None),
        };
        Ok(OutSpec {
            arg,
            path: path.into(),
            size,
        })
    }
}

fn gang(text: &str) -> Result<u32, String> {
    match text {
        "1" | "4" | "8" | "16" | "32" => Ok(text.parse().expect("a literal number")),
        _ => Err("a gang has 1, 4, 8, 16 or 32 lanes".to_owned()),
    }
}

/// `X.Y`; the driver knows which there are.
fn capability(text: &str) -> Result<String, String> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    match text.split_once('.') {
        Some((major, minor)) if is_number(major) && is_number(minor) => Ok(text.to_owned()),
        _ => Err("expected a capability such as 8.0".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| format!("`{text}` is not a number of seconds"))?;
    Duration::try_from_secs_f64(seconds).map_err(|err| err.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn run_line() {
        let words = "ptxjit run saxpy.ptx --kernel saxpy --grid 40 --block 16,16 --arg u32=1 --arg s32=-1 \
                     --arg f32[10]=arange --print 2:3 --out 2=y.npy --gang 8 --timeout 1.5 --schedule seed:7";
        let cli = Cli::try_parse_from(words.split_whitespace()).unwrap();
        let Command::Run(run) = cli.command else {
            panic!("not run")
        };
        assert_eq!(run.grid, Dims([40, 1, 1]));
        assert_eq!(run.block, Dims([16, 16, 1]));
        assert_eq!(run.args.len(), 3);
        assert_eq!(
            run.print,
            [PrintSpec {
                arg: 2,
                count: Some(3)
            }]
        );
        assert_eq!(run.exec.gang, Some(8));
        assert_eq!(run.exec.timeout, Some(Duration::from_millis(1500)));
        assert_eq!(run.exec.schedule, Some(Schedule::Random(7)));
    }

    #[test]
    fn refusals() {
        for words in [
            "ptxjit run",
            "ptxjit run a.ptx --grid 1,2,3,4",
            "ptxjit run a.ptx --grid x",
            "ptxjit run a.ptx --gang 2",
            "ptxjit run a.ptx --repeat 0",
            "ptxjit run a.ptx --timeout -1",
            "ptxjit run a.ptx --label large",
            "ptxjit run a.ptx --schedule random",
            "ptxjit test",
            "ptxjit run a.ptx --out 0=x.png",
            "ptxjit run a.ptx --out 0=x.png:3",
            "ptxjit test x --shard 0/2",
            "ptxjit test x --shard 3/2",
            "ptxjit test x --timings y.json",
            "ptxjit exec",
            "ptxjit exec --compute-capability sm_80 -- true",
            "ptxjit exec --devices -1 -- true",
            "ptxjit exec --timeout soon -- true",
            "ptxjit exec --sanitize races -- true",
            "ptxjit exec --sanitize all;fail=never -- true",
            "ptxjit exec --suppress x -- true",
        ] {
            assert!(
                Cli::try_parse_from(words.split_whitespace()).is_err(),
                "{words}"
            );
        }
    }
}
