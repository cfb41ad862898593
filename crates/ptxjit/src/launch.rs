//! Describing launches and carrying them out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ptxjit_codegen::{CompiledKernel, Haste};
use ptxjit_ir::Program;
use ptxjit_runtime::LaunchDesc;

use crate::buffer::Block;
use crate::compile::{Got, Limit, Variant, Variants};
use crate::failure::Cause;
use crate::options::OutputFn;
use crate::{
    Arg, Buffer, CodeOrigin, Dim3, Element, Engine, Error, Kernel, Options, Schedule, interp,
};

/// A launch of no more threads than this is often over before code made with care would be ready.
const FEW_THREADS: u64 = 1 << 16;

/// A launch of no more threads than this takes less time than compiling code for many lanes.
const TINY_THREADS: u64 = 1 << 12;

/// A launch in the making. [`Launch::run`] carries it out; [`Launch::prepare`] does all but that.
///
/// A kernel can reach only device memory: a wild access ends the launch with an error. It can still overwrite *other* device
/// memory, as on a GPU, unless [`Launch::memcheck`] is on.
#[derive(Clone, Debug)]
#[must_use = "a launch does nothing until it is run"]
pub struct Launch {
    kernel: Kernel,
    grid: Dim3,
    block: Dim3,
    cluster: Option<Dim3>,
    shared: u32,
    cooperative: bool,
    args: Vec<Arg>,
    keeps: Vec<Arc<Block>>,
    options: Options,
}

impl Launch {
    pub(crate) fn new(kernel: &Kernel) -> Launch {
        Launch {
            kernel: kernel.clone(),
            grid: Dim3([1; 3]),
            block: Dim3([1; 3]),
            cluster: None,
            shared: 0,
            cooperative: false,
            args: Vec::new(),
            keeps: Vec::new(),
            options: Options::default(),
        }
    }

    /// Blocks in the grid; one if not set.
    pub fn grid(mut self, grid: impl Into<Dim3>) -> Launch {
        self.grid = grid.into();
        self
    }

    /// Threads in a block; one if not set.
    pub fn block(mut self, block: impl Into<Dim3>) -> Launch {
        self.block = block.into();
        self
    }

    /// Blocks in a cluster.
    pub fn cluster(mut self, cluster: impl Into<Dim3>) -> Launch {
        self.cluster = Some(cluster.into());
        self
    }

    /// Bytes of dynamic shared memory.
    pub fn shared(mut self, bytes: u32) -> Launch {
        self.shared = bytes;
        self
    }

    /// All blocks of the grid run at once and may wait for each other.
    pub fn cooperative(mut self, cooperative: bool) -> Launch {
        self.cooperative = cooperative;
        self
    }

    /// The next argument: a number, or a buffer that is passed by pointer.
    pub fn arg(mut self, arg: impl Into<Arg>) -> Launch {
        let arg = arg.into();
        self.keeps.extend(arg.keeps.clone());
        self.args.push(arg);
        self
    }

    /// The next argument, a structure as the bytes it has on the device.
    pub fn arg_bytes(self, bytes: impl Into<Vec<u8>>) -> Launch {
        self.arg(Arg::from_bytes(bytes))
    }

    /// Says that the kernel reaches `buffer` through a pointer that is not a buffer argument, which keeps it alive.
    pub fn uses<T: Element>(mut self, buffer: &Buffer<T>) -> Launch {
        self.keeps.push(buffer.block());
        self
    }

    /// Replaces all options.
    pub fn options(mut self, options: Options) -> Launch {
        self.options = options;
        self
    }

    /// Lanes per vector operation: 1, 4, 8, 16 or 32. Chosen if not set.
    pub fn gang(mut self, gang: u32) -> Launch {
        self.options.gang = Some(gang);
        self
    }

    /// Threads of the host to use.
    pub fn threads(mut self, threads: usize) -> Launch {
        self.options.threads = Some(threads);
        self
    }

    /// Fails if compiling takes longer, or running.
    pub fn timeout(mut self, timeout: Duration) -> Launch {
        self.options.timeout = Some(timeout);
        self
    }

    /// Checks every access for exact bounds, alignment and freed memory.
    pub fn memcheck(mut self, memcheck: bool) -> Launch {
        self.options.memcheck = memcheck;
        self
    }

    /// Order of progress.
    pub fn schedule(mut self, schedule: Schedule) -> Launch {
        self.options.schedule = schedule;
        self
    }

    /// Finish compiling before the launch, see [`Options::eager`].
    pub fn eager(mut self, eager: bool) -> Launch {
        self.options.eager = eager;
        self
    }

    /// What executes.
    pub fn engine(mut self, engine: Engine) -> Launch {
        self.options.engine = engine;
        self
    }

    /// Takes what the kernel prints, instead of standard output.
    pub fn output(mut self, output: impl Fn(&[u8]) + Send + Sync + 'static) -> Launch {
        self.options.output = Some(Arc::new(output) as Arc<OutputFn>);
        self
    }

    /// Compiles what is not compiled yet and runs the launch to its end.
    pub fn run(self) -> Result<LaunchStats, Error> {
        self.prepare()?.run()
    }

    /// Does everything but run: checks the arguments and compiles.
    pub fn prepare(self) -> Result<Prepared, Error> {
        if let Some(gang) = self
            .options
            .gang
            .filter(|gang| ![1, 4, 8, 16, 32].contains(gang))
        {
            return Err(Error::usage(format!(
                "a gang has 1, 4, 8, 16 or 32 lanes, not {gang}"
            )));
        }
        let params = self.param_block()?;
        let start = Instant::now();
        let limit = Limit::start(self.options.timeout);
        let kernel = &self.kernel.inner;
        let code = match self.options.engine {
            Engine::Jit => {
                let is_tiny = !self.options.eager && self.n_threads() <= TINY_THREADS;
                let variant =
                    Variant::new(kernel, &self.options, self.grid, self.block, is_tiny, limit)?;
                let got = self.kernel.variant(&variant, self.haste(), limit)?;
                Code::Jit(variant, got)
            }
            Engine::Interp => Code::Interp(kernel.program()?),
        };
        Ok(Prepared {
            launch: self,
            params,
            code,
            compile_time: start.elapsed(),
        })
    }

    /// Threads of the whole grid.
    fn n_threads(&self) -> u64 {
        let sizes = self.grid.0.iter().chain(&self.block.0);
        sizes.fold(1, |all, &n| all.saturating_mul(n.into()))
    }

    /// How much the compiler should hurry.
    fn haste(&self) -> Haste {
        if self.options.eager {
            Haste::None
        } else if self.n_threads() <= FEW_THREADS {
            Haste::Much
        } else {
            Haste::Some
        }
    }

    /// The arguments, each in the place of its parameter.
    fn param_block(&self) -> Result<Vec<u8>, Error> {
        let params = &self.kernel.inner.params;
        if params.len() != self.args.len() {
            let (name, wanted, given) = (self.kernel.name(), params.len(), self.args.len());
            return Err(Error::usage(format!(
                "kernel `{name}` has {wanted} parameters, but {given} arguments are given"
            )));
        }
        let size = params
            .iter()
            .map(|param| param.offset as usize + param.size as usize)
            .max()
            .unwrap_or(0);
        let mut block = vec![0; size];
        for (idx, (param, arg)) in params.iter().zip(&self.args).enumerate() {
            let (wanted, given) = (param.size as usize, arg.bytes.len());
            if wanted != given {
                let name = &param.name;
                return Err(Error::usage(format!(
                    "argument {idx} has {given} bytes, but parameter `{name}` has {wanted}"
                )));
            }
            block[param.offset as usize..][..wanted].copy_from_slice(&arg.bytes);
        }
        Ok(block)
    }
}

/// A launch that is ready: it can be run many times, also from several threads.
#[derive(Clone, Debug)]
pub struct Prepared {
    launch: Launch,
    params: Vec<u8>,
    code: Code,
    compile_time: Duration,
}

#[derive(Clone)]
enum Code {
    Jit(Variant, Got),
    Interp(Arc<Program>),
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Code::Jit(_, got) => write!(f, "Jit(gang {})", got.code.gang),
            Code::Interp(_) => f.write_str("Interp"),
        }
    }
}

impl Prepared {
    /// Gang width of the code; 1 for the interpreter.
    pub fn gang(&self) -> u32 {
        match &self.code {
            Code::Jit(_, got) => got.code.gang,
            Code::Interp(_) => 1,
        }
    }

    /// Why the gang is narrower than was asked for, if it is: control flow that is too complex for gangs runs one lane at a time.
    pub fn narrowed(&self) -> Option<&str> {
        match &self.code {
            Code::Jit(_, got) => got.code.narrowed.as_deref(),
            Code::Interp(_) => None,
        }
    }

    /// Where the code came from; none for the interpreter.
    pub fn origin(&self) -> Option<CodeOrigin> {
        match &self.code {
            Code::Jit(_, got) => Some(got.origin),
            Code::Interp(_) => None,
        }
    }

    /// Whether the code was made in a hurry and is not improved yet, see [`Options::eager`].
    pub fn is_quick(&self) -> bool {
        match &self.code {
            Code::Jit(_, got) => got.code.is_quick(),
            Code::Interp(_) => false,
        }
    }

    /// How long each stage took, and the size of the code in bytes, if it was compiled for this launch.
    pub fn stages(&self) -> Option<CompileStages> {
        match &self.code {
            Code::Jit(_, got) if got.origin == CodeOrigin::Compiled => {
                let stats = &got.code.stats;
                Some(CompileStages {
                    vectorize: stats.vectorize,
                    lower: stats.lower,
                    select: stats.select,
                    regalloc: stats.regalloc,
                    link: stats.link,
                    clif_insts: stats.clif_insts,
                    code_bytes: stats.code_bytes,
                })
            }
            Code::Jit(..) | Code::Interp(_) => None,
        }
    }

    /// How long compiling took; almost nothing if the code was there already.
    pub fn compile_time(&self) -> Duration {
        self.compile_time
    }

    /// Runs the launch to its end.
    pub fn run(&self) -> Result<LaunchStats, Error> {
        let module = &self.launch.kernel.module;
        let start = Instant::now();
        let result = match &self.code {
            Code::Jit(variant, got) => {
                Variants::improve(&self.launch.kernel.inner, variant, &got.code);
                let launched = module.device.runtime.launch(&self.desc(variant, &got.code));
                launched.map_err(Cause::from).map(|_| ())
            }
            Code::Interp(program) => interp::run(&self.launch.kernel, program, &self.request()),
        };
        result.map_err(|cause| cause.into_error(&self.launch.kernel.inner.name, &module.front))?;
        Ok(LaunchStats {
            gang: self.gang(),
            compile_time: self.compile_time,
            time: start.elapsed(),
        })
    }

    fn desc(&self, variant: &Variant, compiled: &Arc<CompiledKernel>) -> LaunchDesc {
        let (launch, kernel) = (&self.launch, &self.launch.kernel.inner);
        LaunchDesc {
            kernel: compiled.clone(),
            for_some_lanes: compiled
                .whole_gangs
                .then(|| Variants::for_some_lanes(kernel, variant, launch.haste())),
            name: kernel.name.clone(),
            attrs: kernel.attrs.clone(),
            param_bytes: self.params.len() as u32,
            params: self.params.clone(),
            module: launch.kernel.module.memory.clone(),
            grid: launch.grid.0,
            block: launch.block.0,
            cluster: launch.cluster.map(|cluster| cluster.0),
            shared_bytes: launch.shared,
            cooperative: launch.cooperative,
            threads: launch.options.threads,
            schedule: launch.options.schedule.into(),
            timeout: launch.options.timeout,
            cancel: None,
            output: launch.options.output.clone(),
        }
    }

    fn request(&self) -> interp::Request<'_> {
        let launch = &self.launch;
        interp::Request {
            params: &self.params,
            grid: launch.grid.0,
            block: launch.block.0,
            cluster: launch.cluster.map_or([1; 3], |cluster| cluster.0),
            shared: launch.shared,
            cooperative: launch.cooperative,
            options: &launch.options,
        }
    }
}

/// Where the time of a compilation went, and what came out.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct CompileStages {
    /// The plan for the gang.
    pub vectorize: Duration,
    /// From the plan to the code generator's input.
    pub lower: Duration,
    /// Choice and emission of instructions.
    pub select: Duration,
    /// Register allocation.
    pub regalloc: Duration,
    /// Placing the code in memory.
    pub link: Duration,
    /// Instructions of the code generator's input.
    pub clif_insts: usize,
    /// Bytes of code.
    pub code_bytes: usize,
}

/// What a launch took.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LaunchStats {
    /// Gang width of the code that ran.
    pub gang: u32,
    /// Time to compile; almost nothing if the code was there already.
    pub compile_time: Duration,
    /// Time to run, from the call to the end of the last thread.
    pub time: Duration,
}
