//! Describing launches and carrying them out. This file is long because a launch has many settings,
//! each of them a method.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ptxjit_abi::{COUNTER_WORDS, CompiledKernel};
use ptxjit_codegen::{BaselineTier, Plan};
use ptxjit_interp::{LastWrites, Turns, Watched};
use ptxjit_ir::Program;
use ptxjit_runtime::{CancelToken, Counters, LaunchDesc, PeerGuard, ShapeRule, Traces, Traffic};

use crate::compile::{Got, Limit, Variant, Variants, WARP};
use crate::coverage::Coverage;
use crate::failure::Cause;
use crate::global::{self, vars_of};
use crate::joined::Columns;
use crate::module::Tells;
use crate::options::OutputFn;
use crate::recording::Launched;
use crate::sanitize::{Checks, Context, Finding, FoundAccess, Report};
use crate::screen::Ready;
use crate::texture::Keep;
use crate::{
    Arg, Buffer, CodeOrigin, Dim3, Element, Engine, Error, Global, Kernel, Options, Schedule,
    UsageRule, interp,
};

/// A launch of no more threads than this is often over before code made with care would be ready.
pub(crate) const FEW_THREADS: u64 = 1 << 16;

/// A launch of no more threads than this takes less time than compiling code for many lanes.
const TINY_THREADS: u64 = 1 << 12;

/// A launch in the making. [`Launch::run`] carries it out; [`Launch::prepare`] does all but that.
///
/// A kernel can reach only device memory: a wild access ends the launch with an error. It can still
/// overwrite *other* device memory, as on a GPU, unless [`Launch::memcheck`] is on.
#[derive(Clone, Debug)]
#[must_use = "a launch does nothing until it is run"]
pub struct Launch {
    pub(crate) kernel: Kernel,
    grid: Dim3,
    pub(crate) block: Dim3,
    cluster: Option<Dim3>,
    pub(crate) shared: u32,
    pub(crate) cooperative: bool,
    pub(crate) open_memory: bool,
    pub(crate) peers: Option<PeerGuard>,
    args: Vec<Arg>,
    /// All parameters at once, instead of `args`.
    block_of_params: Option<Vec<u8>>,
    keeps: Vec<Keep>,
    pub(crate) options: Options,
    report: Report,
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
            open_memory: false,
            peers: None,
            args: Vec::new(),
            block_of_params: None,
            keeps: Vec::new(),
            options: Options::default(),
            report: Report::default(),
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

    /// Keeps the kernel out of the memory of the device's [siblings](crate::Device::siblings), save
    /// for what the guard allows, which is asked at each such access: first address and bytes.
    /// Without a guard all memory can be accessed. Accesses beyond the device's own global memory
    /// become slow.
    pub fn peers(mut self, guard: Option<PeerGuard>) -> Launch {
        self.peers = guard;
        self
    }

    /// The launch may start when the one before it has executed `griddepcontrol.launch_dependents`
    /// in all its blocks. Launches run in sequence here, which is one of the orders that this
    /// allows: nothing changes.
    pub fn programmatic(self, _programmatic: bool) -> Launch {
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

    /// All arguments at once, as the bytes of the parameter block: each in the place that
    /// [`Kernel::param_layout`] tells. There must be exactly as many as [`Kernel::param_bytes`].
    pub fn param_block(mut self, bytes: impl Into<Vec<u8>>) -> Launch {
        self.block_of_params = Some(bytes.into());
        self
    }

    /// Says that the kernel reaches `buffer` through a pointer that is not a buffer argument, which
    /// keeps it alive.
    pub fn uses<T: Element>(mut self, buffer: &Buffer<T>) -> Launch {
        self.keeps.push(buffer.keep());
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

    /// Fails as soon as the token is cancelled.
    pub fn cancel(mut self, token: &CancelToken) -> Launch {
        self.options.cancel = Some(token.clone());
        self
    }

    /// Checks every access for exact bounds, alignment and freed memory.
    pub fn memcheck(mut self, memcheck: bool) -> Launch {
        self.options.memcheck = memcheck;
        self
    }

    /// What to look for, see [`Options::sanitize`].
    pub fn sanitize(mut self, checks: Checks) -> Launch {
        self.options.sanitize = checks;
        self
    }

    /// Where the findings of this launch come to; they are there when it has been run. A launch
    /// that had to stop for one is an error, too.
    pub fn report(&self) -> Report {
        self.report.clone()
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

    /// Takes what the launch has run, see [`Options::coverage`].
    pub fn coverage(mut self, coverage: &Coverage) -> Launch {
        self.options.coverage = Some(coverage.clone());
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
    pub fn prepare(mut self) -> Result<Prepared, Error> {
        self.check_addresses()?;
        if let Some(coverage) = &self.options.coverage {
            coverage.register(&self.kernel.module);
            self.kernel.inner = self.kernel.inner.telling(coverage.tells());
        }
        if self.options.schedule.completes_late() {
            self.kernel.inner = self.kernel.inner.completing_late();
        }
        if let Some(gang) = self
            .options
            .gang
            .filter(|gang| ![1, 4, 8, 16, 32].contains(gang))
        {
            return Err(Error::usage(
                UsageRule::Options,
                format!("a gang has 1, 4, 8, 16 or 32 lanes, not {gang}"),
            ));
        }
        let params = self.param_bytes()?;
        let start = Instant::now();
        let limit = Limit::start(self.options.timeout);
        if self.options.sanitize.mem {
            self.options.memcheck = true;
        }
        let code = match self.actual_engine() {
            Engine::Jit => {
                let (columns, rest) = self.columns(limit)?;
                let variant = self.likely_variant(&params, limit)?;
                let got = self.kernel.variant(&variant, self.baseline(), limit)?;
                let desc = self.desc(columns, (&variant, &got.code), params.clone())?;
                let desc = Box::new(desc);
                let rest = rest.map(|columns| self.part(columns, params.clone(), limit));
                Code::Jit(Part { variant, got, desc }, rest.transpose()?)
            }
            Engine::Interp | Engine::Plan if self.open_memory => {
                let text = "the interpreter reaches device memory only, and this launch more";
                return Err(Error::usage(UsageRule::Options, text));
            }
            Engine::Interp | Engine::Plan if self.wants_marks() => {
                Code::Interp(self.kernel.inner.marked_program()?, None)
            }
            Engine::Interp => Code::Interp(self.kernel.inner.program()?, None),
            Engine::Plan => self.planned(limit)?,
        };
        let module = &self.kernel.module;
        let opaque = match &code {
            Code::Jit(part, _) => global::opaque(module, vars_of(&part.got.code.symbols)),
            Code::Interp(program, _) => global::opaque(module, program.vars.keys().copied()),
        };
        let screen = match &code {
            Code::Interp(..) => self.ready_to_screen(limit)?,
            Code::Jit(..) => None,
        };
        Ok(Prepared {
            screen,
            opaque,
            writes: Arc::default(),
            launch: self,
            params,
            code,
            compile_time: start.elapsed(),
        })
    }

    /// The plan for the gangs of this launch, and the function that it is for. Warps in lockstep
    /// have none.
    fn planned(&self, limit: Limit) -> Result<Code, Error> {
        let kernel = &self.kernel.inner;
        let program = kernel.variants.optimized(kernel, limit)?;
        if program.lockstep {
            return Ok(Code::Interp(kernel.program()?, None));
        }
        let options = self.variant(limit)?.compile_options(self.baseline(), limit);
        let planned = ptxjit_codegen::plan(&program, &options);
        let (program, plan) = planned.map_err(|err| limit.error(kernel, err.into()))?;
        Ok(Code::Interp(Arc::new(program), Some(Arc::new(plan))))
    }

    /// What executes: checks of more than memory watch the interpreter, and it alone can make the
    /// choices of a schedule one by one.
    pub(crate) fn actual_engine(&self) -> Engine {
        let options = &self.options;
        let checks = options.sanitize;
        let watches = checks.race || checks.init || checks.sync || checks.leak;
        match watches || self.keeps_choices() || options.schedule.is_interpreted() {
            true => Engine::Interp,
            false => options.engine,
        }
    }

    /// What the launch is screened with, if sanitizers are on and it can be.
    fn ready_to_screen(&self, limit: Limit) -> Result<Option<Arc<Ready>>, Error> {
        match self.options.sanitize.any() {
            true => Ok(self.screen(limit)?.map(Arc::new)),
            false => Ok(None),
        }
    }

    /// Whether checks of memory in compiled code may take longer than a proof that there is nothing
    /// to find: few threads are done before, unless an earlier launch tells otherwise.
    fn may_gain_by_proof(&self) -> bool {
        self.options.memcheck
            && (self.n_threads() > FEW_THREADS || self.kernel.inner.screens.took_long())
    }

    /// Whether single choices or writes matter.
    pub(crate) fn keeps_choices(&self) -> bool {
        let options = &self.options;
        options.record.is_some() || options.replay.is_some() || options.keep_writes
    }

    /// Whether the interpreter's program has marks. They change no result, but tell what is seen as
    /// a whole.
    fn wants_marks(&self) -> bool {
        let is_in_order = self.options.schedule.interpreted(0) == Default::default();
        self.options.sanitize.any() || self.keeps_choices() || !is_in_order
    }

    /// The form of the code for this launch.
    pub(crate) fn variant(&self, limit: Limit) -> Result<Variant, Error> {
        self.variant_of(self.columns(limit)?.0, limit)
    }

    fn variant_of(&self, columns: Columns, limit: Limit) -> Result<Variant, Error> {
        let is_tiny = !self.options.eager && self.n_threads() <= TINY_THREADS;
        let kernel = &self.kernel.inner;
        let grid = columns.joined.grid(self.n_blocks());
        let block = columns.joined.block(self.block);
        let (cluster, options) = (self.cluster_shape(), &self.options);
        let mut variant = Variant::new(kernel, options, grid, block, cluster, is_tiny, limit)?;
        // Addresses outside of the arena are in no map.
        variant.foreign = self.wants_foreign() || (variant.memcheck && self.open_memory);
        Ok(variant)
    }

    /// The form of the code that the next run needs: one without checks if the run is proven as
    /// things are. Code with checks is compiled once a run is not proven.
    fn likely_variant(&self, params: &[u8], limit: Limit) -> Result<Variant, Error> {
        let mut variant = self.variant(limit)?;
        variant.memcheck &= !(self.may_gain_by_proof() && self.is_proven(params, limit)?);
        Ok(variant)
    }

    /// The shape of clusters, which the kernel may require.
    pub(crate) fn cluster_shape(&self) -> Dim3 {
        let required = self.kernel.inner.attrs.req_cluster.map(Dim3);
        self.cluster.or(required).unwrap_or(Dim3([1; 3]))
    }

    /// Blocks of the grid. With `.blocksareclusters` the launch counts clusters.
    pub(crate) fn n_blocks(&self) -> Dim3 {
        let Dim3(grid) = self.grid;
        if !self.kernel.inner.attrs.blocks_are_clusters {
            return self.grid;
        }
        let Dim3(cluster) = self.cluster_shape();
        Dim3(std::array::from_fn(|axis| {
            grid[axis].saturating_mul(cluster[axis])
        }))
    }

    /// Whether the code must ask about addresses: of registered memory of the host, and of other
    /// devices.
    fn wants_foreign(&self) -> bool {
        let asks = self.peers.is_some() || self.kernel.module.device.arena.has_foreign();
        asks && !self.open_memory
    }

    /// Threads of the whole grid.
    pub(crate) fn n_threads(&self) -> u64 {
        let sizes = self.grid.0.iter().chain(&self.block.0);
        sizes.fold(1, |all, &n| all.saturating_mul(n.into()))
    }

    /// How much the compiler should hurry.
    pub(crate) fn baseline(&self) -> BaselineTier {
        if self.options.eager {
            BaselineTier::Never
        } else if self.n_threads() <= FEW_THREADS {
            BaselineTier::UnlessShort
        } else {
            BaselineTier::LongCode
        }
    }

    /// The arguments, each in the place of its parameter.
    fn param_bytes(&self) -> Result<Vec<u8>, Error> {
        if let Some(bytes) = &self.block_of_params {
            return self.whole_block(bytes);
        }
        let params = &self.kernel.inner.params;
        if params.len() != self.args.len() {
            let (name, wanted, given) = (self.kernel.name(), params.len(), self.args.len());
            return Err(Error::usage(
                UsageRule::Arguments,
                format!("kernel `{name}` has {wanted} parameters, but {given} arguments are given"),
            ));
        }
        let mut block = vec![0; self.kernel.param_bytes()];
        for (idx, (param, arg)) in params.iter().zip(&self.args).enumerate() {
            let (wanted, given) = (param.size as usize, arg.bytes.len());
            if wanted != given && !(wanted == 4 && self.is_narrow_address(&arg.bytes)) {
                let name = &param.name;
                return Err(Error::usage(
                    UsageRule::Arguments,
                    format!(
                        "argument {idx} has {given} bytes, but parameter `{name}` has {wanted}"
                    ),
                ));
            }
            block[param.offset as usize..][..wanted].copy_from_slice(&arg.bytes[..wanted]);
        }
        Ok(block)
    }

    /// Whether an argument of eight bytes is an address that has 32 bits in the kernel's module.
    fn is_narrow_address(&self, bytes: &[u8]) -> bool {
        let is_narrow = self.kernel.module.front.address_bits() != Some(64);
        is_narrow && bytes.len() == 8 && bytes[4..] == [0; 4]
    }

    /// A kernel with addresses of 32 bits needs memory that has such.
    fn check_addresses(&self) -> Result<(), Error> {
        let module = &self.kernel.module;
        if module.front.address_bits() != Some(32) || module.device.arena.is_low() {
            return Ok(());
        }
        let why = "the kernel's module has `.address_size 32`, and the memory of the device lies elsewhere: \
                   `Device::with_32_bit_addresses` makes one for it";
        Err(Error::usage(UsageRule::Variables, why.to_owned()))
    }

    /// The launch of some columns.
    fn part(&self, columns: Columns, params: Vec<u8>, limit: Limit) -> Result<Box<Part>, Error> {
        let variant = self.variant_of(columns, limit)?;
        let got = self.kernel.variant(&variant, self.baseline(), limit)?;
        let desc = Box::new(self.desc(columns, (&variant, &got.code), params)?);
        Ok(Box::new(Part { variant, got, desc }))
    }

    /// The launch of all blocks, each by itself.
    pub(crate) fn whole_desc(
        &self,
        compiled: (&Variant, &Arc<CompiledKernel>),
        params: Vec<u8>,
    ) -> Result<LaunchDesc, Error> {
        let all = Columns::all(self.n_blocks());
        self.desc(all, compiled, params)
    }

    fn desc(
        &self,
        columns: Columns,
        (variant, compiled): (&Variant, &Arc<CompiledKernel>),
        params: Vec<u8>,
    ) -> Result<LaunchDesc, Error> {
        let Dim3([_, n_rows, n_layers]) = self.n_blocks();
        let kernel = &self.kernel.inner;
        let (mut counters, mut traces) = (None, None);
        if let Some(coverage) = &self.options.coverage {
            let program = kernel.program()?;
            counters = program.counters.as_ref().map(|it| it.n);
            let n_traced = program.traced.len();
            traces = (coverage.tells() == Tells::Traces).then(|| Traces::new(n_traced));
        }
        Ok(LaunchDesc {
            kernel: compiled.clone(),
            for_some_lanes: compiled
                .whole_gangs
                .then(|| Variants::for_some_lanes(kernel, variant, self.baseline())),
            name: kernel.name.as_str().into(),
            attrs: kernel.attrs.clone(),
            param_bytes: kernel.param_bytes() as u32,
            params,
            module: self.kernel.module.memory.clone(),
            grid: [columns.n, n_rows, n_layers],
            first_column: columns.first,
            block: self.block.0,
            joined: columns.joined.0,
            cluster: self.cluster.map(|cluster| cluster.0),
            shared_bytes: self.shared,
            cooperative: self.cooperative,
            open_memory: self.open_memory,
            peers: self.peers.clone(),
            checks_accesses: variant.memcheck,
            threads: self.options.threads,
            schedule: self.options.schedule.compiled(),
            timeout: self.options.timeout,
            cancel: self.options.cancel.clone(),
            output: self.options.output.clone(),
            counters: counters.map(|n| Arc::new(Counters::new(n))),
            traces: traces.map(Arc::new),
        })
    }

    fn check_block(&self, bytes: &[u8]) -> Result<(), Error> {
        let (name, given, wanted) = (self.kernel.name(), bytes.len(), self.kernel.param_bytes());
        if given == wanted {
            return Ok(());
        }
        Err(Error::Shape {
            rule: ShapeRule::Params,
            message: format!("kernel `{name}`: {given} bytes of parameters given, {wanted} needed"),
        })
    }

    fn whole_block(&self, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        if !self.args.is_empty() {
            let name = self.kernel.name();
            return Err(Error::usage(
                UsageRule::Arguments,
                format!("kernel `{name}` is given both a parameter block and single arguments"),
            ));
        }
        self.check_block(bytes)?;
        Ok(bytes.to_vec())
    }
}

/// A launch that is ready: it can be run many times, also from several threads. Its shape and its
/// parameters can be changed, which costs far less than to prepare another one.
#[derive(Clone, Debug)]
pub struct Prepared {
    launch: Launch,
    params: Vec<u8>,
    code: Code,
    compile_time: Duration,
    /// What the launch is screened with before it is interpreted.
    screen: Option<Arc<Ready>>,
    /// Variables that must be bound to a texture or surface.
    opaque: Vec<Global>,
    /// Who wrote what in the last run.
    writes: Arc<Mutex<LastWrites>>,
}

/// Compiled code with its launch as the runtime takes it, so that a run has nothing to put
/// together.
#[derive(Clone)]
struct Part {
    variant: Variant,
    got: Got,
    desc: Box<LaunchDesc>,
}

#[derive(Clone)]
enum Code {
    /// The launch, and that of columns of blocks that it leaves.
    Jit(Part, Option<Box<Part>>),
    /// With the plan that it runs by, if there is one.
    Interp(Arc<Program>, Option<Arc<Plan>>),
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Code::Jit(part, _) => write!(f, "Jit(gang {})", part.got.code.gang),
            Code::Interp(..) => f.write_str("Interp"),
        }
    }
}

impl Prepared {
    /// Gang width of the code; 1 for the interpreter.
    pub fn gang(&self) -> u32 {
        match &self.code {
            Code::Jit(part, _) => part.got.code.gang,
            Code::Interp(_, plan) => plan.as_ref().map_or(1, |plan| plan.gang),
        }
    }

    /// Why the gang is narrower than was asked for, if it is: control flow that is too complex for
    /// gangs runs one lane at a time.
    pub fn narrowed(&self) -> Option<&str> {
        match &self.code {
            Code::Jit(part, _) => part.got.code.narrowed.as_deref(),
            Code::Interp(..) => None,
        }
    }

    /// Where the code came from; none for the interpreter.
    pub fn origin(&self) -> Option<CodeOrigin> {
        match &self.code {
            Code::Jit(part, _) => Some(part.got.origin),
            Code::Interp(..) => None,
        }
    }

    /// Whether the code was made in a hurry and is not improved yet, see [`Options::eager`].
    pub fn is_quick(&self) -> bool {
        match &self.code {
            Code::Jit(part, _) => part.got.code.is_quick(),
            Code::Interp(..) => false,
        }
    }

    /// How long each stage took, and the size of the code in bytes, if it was compiled for this
    /// launch.
    pub fn stages(&self) -> Option<CompileStages> {
        match &self.code {
            Code::Jit(Part { got, .. }, _) if got.origin == CodeOrigin::Compiled => {
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
            Code::Jit(..) | Code::Interp(..) => None,
        }
    }

    /// How long compiling took; almost nothing if the code was there already.
    pub fn compile_time(&self) -> Duration {
        self.compile_time
    }

    /// Checks that a texture or surface is bound to each variable for one that the kernel needs, as
    /// [`Prepared::run`] does.
    pub fn check_bindings(&self) -> Result<(), Error> {
        self.opaque.iter().try_for_each(Global::check_bound)
    }

    /// Whether the launch has a [guard](Launch::peers).
    pub fn is_guarded(&self) -> bool {
        self.launch.peers.is_some()
    }

    /// Runs the launch to its end.
    pub fn run(&self) -> Result<LaunchStats, Error> {
        self.check_bindings()?;
        let (kernel, module) = (&self.launch.kernel.inner, &self.launch.kernel.module);
        let mut ran_as = self.launch.options.schedule;
        let mut found: Vec<Finding> = Vec::new();
        let mut is_proven = false;
        let result = match &self.code {
            // Memory of the host was registered after the code was chosen.
            Code::Jit(part, _) if !part.variant.foreign && self.launch.wants_foreign() => {
                let mut anew = self.clone();
                anew.reshape()?;
                return anew.run();
            }
            Code::Jit(part, rest) => {
                let proven = match self.launch.may_gain_by_proof() {
                    true => self.launch.run_proven(&self.params)?,
                    false => None,
                };
                is_proven = proven.is_some();
                match proven {
                    Some(result) => result,
                    None if self.launch.options.memcheck && !part.variant.memcheck => {
                        self.run_with_checks()?
                    }
                    None => self.run_parts(part, rest.as_deref()),
                }
            }
            Code::Interp(program, plan) => {
                let start = Instant::now();
                if let Some(ready) = &self.screen {
                    let screened = self.launch.run_screened(ready, &self.params)?;
                    if let Some((time, is_proven)) = screened {
                        let stats = self.stats(time, true);
                        return Ok(LaunchStats { is_proven, ..stats });
                    }
                }
                let (schedule, turns) = self.choices()?;
                let request = interp::Request {
                    plan: plan.as_deref(),
                    ..self.request(schedule, turns.as_ref())
                };
                let program = match schedule.completes_late() {
                    // A recorded schedule need not be that of the launch.
                    true => &kernel.completing_late().marked_program()?,
                    false => program,
                };
                let (result, watched) = interp::run(&self.launch.kernel, program, &request);
                let Watched {
                    findings,
                    allocated,
                    turns,
                    writes,
                    counts,
                    ..
                } = watched;
                let counts: Vec<_> = counts.iter().map(|&n| [n, 0, 0]).collect();
                self.cover(&counts, None, false);
                if let Some(recording) = &self.launch.options.record {
                    recording.push(self.launched(schedule), turns);
                }
                *self.writes.lock().unwrap_or_else(PoisonError::into_inner) = writes;
                let context = self.context(schedule);
                found.extend(findings.into_iter().map(|it| context.finding(it)));
                module.note_allocated(allocated, &self.context(schedule));
                ran_as = schedule;
                result.map(|()| start.elapsed())
            }
        };
        let result = result.map_err(|cause| cause.into_error(&kernel.name, &module.front));
        if let (Err(Error::Launch(failure)), true) = (&result, self.launch.options.sanitize.any()) {
            let program = kernel.marked_program()?;
            found.extend(self.context(ran_as).of_failure(failure, &program));
        }
        if !found.is_empty() {
            module.device.tell(&found);
            self.launch.report.extend(found);
        }
        let stats = self.stats(result?, is_proven);
        Ok(LaunchStats { is_proven, ..stats })
    }

    /// Runs the launch with checks of memory in its code, though it was prepared without.
    fn run_with_checks(&self) -> Result<Result<Duration, Cause>, Error> {
        let limit = Limit::start(self.launch.options.timeout);
        let variant = self.launch.variant(limit)?;
        let (kernel, baseline) = (&self.launch.kernel, self.launch.baseline());
        let got = kernel.variant(&variant, baseline, limit)?;
        let desc = (self.launch).whole_desc((&variant, &got.code), self.params.clone())?;
        Ok(self.run_compiled(&variant, &got, &desc))
    }

    fn run_parts(&self, part: &Part, rest: Option<&Part>) -> Result<Duration, Cause> {
        let time = self.run_compiled(&part.variant, &part.got, &part.desc)?;
        let Some(Part { variant, got, desc }) = rest else {
            return Ok(time);
        };
        // The time limit is that of both.
        let desc = match desc.timeout {
            Some(limit) => &LaunchDesc {
                timeout: Some(limit.saturating_sub(time)),
                ..LaunchDesc::clone(desc)
            },
            None => desc,
        };
        Ok(time + self.run_compiled(variant, got, desc)?)
    }

    fn run_compiled(
        &self,
        variant: &Variant,
        got: &Got,
        desc: &LaunchDesc,
    ) -> Result<Duration, Cause> {
        let (kernel, device) = (&self.launch.kernel.inner, &self.launch.kernel.module.device);
        Variants::improve(kernel, variant, &got.code);
        device.arena.all_written();
        let launched = device.runtime.launch(desc);
        if let (true, Ok(stats)) = (variant.memcheck, &launched) {
            kernel.screens.note_checked(stats.time);
        }
        if let Some(counters) = &desc.counters {
            let traffic = desc.traces.as_ref().map(|it| it.take());
            let by_warps = got.code.gang == WARP;
            self.cover(&counters.take(), traffic.as_deref(), by_warps);
        }
        Ok(launched?.time)
    }

    fn stats(&self, time: Duration, is_screened: bool) -> LaunchStats {
        let screen = self.screen.as_ref().filter(|_| is_screened);
        LaunchStats {
            gang: screen.map_or_else(|| self.gang(), |screen| screen.gang()),
            compile_time: self.compile_time,
            time,
            is_screened,
            is_proven: false,
        }
    }

    /// Hands on what a run has counted.
    fn cover(&self, counts: &[[u64; COUNTER_WORDS]], traffic: Option<&[Traffic]>, by_warps: bool) {
        let kernel = &self.launch.kernel;
        if let Some(coverage) = &self.launch.options.coverage {
            let n_ctas = self.launch.n_blocks().count();
            coverage.add(kernel, (counts, traffic), n_ctas, by_warps);
        }
    }

    /// Other blocks in the grid, and threads in a block. Code for such blocks is compiled if there
    /// is none yet.
    pub fn set_shape(
        &mut self,
        grid: impl Into<Dim3>,
        block: impl Into<Dim3>,
    ) -> Result<(), Error> {
        let (grid, block) = (grid.into(), block.into());
        if (grid, block) == (self.launch.grid, self.launch.block) {
            return Ok(());
        }
        let before = (self.launch.grid, self.launch.block);
        (self.launch.grid, self.launch.block) = (grid, block);
        let result = self.reshape();
        if result.is_err() {
            (self.launch.grid, self.launch.block) = before;
        }
        result
    }

    /// Makes the code fit the shape.
    fn reshape(&mut self) -> Result<(), Error> {
        let launch = &self.launch;
        let limit = Limit::start(launch.options.timeout);
        let Code::Jit(Part { variant, got, desc }, rest) = &mut self.code else {
            self.screen = launch.ready_to_screen(limit)?;
            return Ok(());
        };
        let (columns, left) = launch.columns(limit)?;
        let wanted = launch.likely_variant(&self.params, limit)?;
        if *variant != wanted {
            let start = Instant::now();
            *got = launch.kernel.variant(&wanted, launch.baseline(), limit)?;
            let params = std::mem::take(&mut desc.params);
            **desc = launch.desc(columns, (&wanted, &got.code), params)?;
            *variant = wanted;
            self.compile_time = start.elapsed();
        }
        (desc.grid, desc.block) = (launch.n_blocks().0, launch.block.0);
        (desc.grid[0], desc.joined) = (columns.n, columns.joined.0);
        let left = left.map(|columns| launch.part(columns, self.params.clone(), limit));
        *rest = left.transpose()?;
        Ok(())
    }

    /// Other bytes of dynamic shared memory.
    pub fn set_shared(&mut self, bytes: u32) {
        self.launch.shared = bytes;
        for part in self.parts_mut() {
            part.desc.shared_bytes = bytes;
        }
    }

    /// Other arguments, as [`Launch::param_block`] takes them. Buffers among the former ones are
    /// not kept alive any longer.
    pub fn set_param_block(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.launch.check_block(bytes)?;
        self.launch.args.clear();
        self.launch.keeps.clear();
        self.params.copy_from_slice(bytes);
        for part in self.parts_mut() {
            part.desc.params.copy_from_slice(bytes);
        }
        Ok(())
    }

    fn parts_mut(&mut self) -> impl Iterator<Item = &mut Part> {
        let parts = match &mut self.code {
            Code::Jit(part, rest) => [Some(part), rest.as_deref_mut()],
            Code::Interp(..) => [None, None],
        };
        parts.into_iter().flatten()
    }

    /// Where the findings of the launch come to.
    pub fn report(&self) -> Report {
        self.launch.report.clone()
    }

    /// Whether [`Checks::leak`] is on.
    pub fn wants_leaks(&self) -> bool {
        self.launch.options.sanitize.leak
    }

    /// See [`Kernel::leaks`].
    pub fn leaks(&self) -> Vec<Finding> {
        self.launch.kernel.leaks()
    }

    /// The write by the last run of this launch that last changed the word of device memory at an
    /// address, and whether that was an atomic operation on floating-point numbers; see
    /// [`Options::keep_writes`].
    pub fn last_write(&self, addr: u64) -> Option<(FoundAccess, bool)> {
        let writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        let access = writes.find(addr)?;
        let context = self.context(self.launch.options.schedule);
        Some((context.access(&access), writes.is_float_atomic(addr)))
    }

    /// The schedule of an interpreted launch, and its choices if they were made before.
    fn choices(&self) -> Result<(Schedule, Option<Turns>), Error> {
        let options = &self.launch.options;
        let own = match options.schedule {
            Schedule::Parallel => Schedule::Deterministic,
            schedule => schedule,
        };
        match &options.replay {
            None => Ok((own, None)),
            Some(recording) => {
                let (schedule, turns) = recording.follow(&self.launched(own))?;
                Ok((schedule, Some(turns)))
            }
        }
    }

    /// What is launched, as recorded schedules say it.
    fn launched(&self, schedule: Schedule) -> Launched {
        let launch = &self.launch;
        Launched {
            kernel: launch.kernel.name().to_owned(),
            module: launch.kernel.module.text_hash(),
            grid: launch.n_blocks().0,
            block: launch.block.0,
            cluster: launch.cluster.map(|cluster| cluster.0),
            shared: launch.shared,
            cooperative: launch.cooperative,
            schedule,
        }
    }

    fn context(&self, schedule: Schedule) -> Context<'_> {
        let (kernel, module) = (&self.launch.kernel.inner, &self.launch.kernel.module);
        Context {
            kernel: &kernel.name,
            module: &module.front,
            arena: &module.device.arena,
            schedule,
        }
    }

    fn request<'a>(&'a self, schedule: Schedule, replay: Option<&'a Turns>) -> interp::Request<'a> {
        let launch = &self.launch;
        interp::Request {
            params: &self.params,
            grid: launch.n_blocks().0,
            block: launch.block.0,
            cluster: launch.cluster.map(|cluster| cluster.0),
            shared: launch.shared,
            cooperative: launch.cooperative,
            peers: launch.peers.as_ref(),
            options: &launch.options,
            schedule,
            replay,
            plan: None,
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
    /// Sanitizers were on, and compiled code made sure that they have nothing to find.
    pub is_screened: bool,
    /// It was known before the launch that there was nothing to find: it ran as without sanitizers.
    pub is_proven: bool,
}
