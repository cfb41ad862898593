//! From a translated kernel to code: which variants of it exist, where they come from, and what
//! they look like on the way.

#![expect(unsafe_code, reason = "places code that was stored by this very build")]

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ptxjit_abi::object::Object;
use ptxjit_abi::{CompiledKernel, Facts};
use ptxjit_codegen::{BaselineTier, CompileError, CompileOptions, Heuristic, Switches, Target};
use ptxjit_frontend::source::Source;
use ptxjit_frontend::translate;
use ptxjit_ir::{FuncId, Function, Program, print};
use ptxjit_passes::effort::Spent;
use ptxjit_passes::pipeline;
use ptxjit_runtime::MakeCode;

use crate::cache::{self, Cache, Key};
use crate::coverage::Coverage;
use crate::improve::{self, Job};
use crate::module::{KernelInner, Tells};
use crate::once::{Once, TimedOut};
use crate::screen;
use crate::{CompileObstacle, Dim3, Error, Options, UsageRule};

/// Threads of a warp.
pub(crate) const WARP: u32 = 32;

/// What distinguishes one compiled form of a kernel from another.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Variant {
    pub(crate) gang: u32,
    pub(crate) facts: Facts,
    pub(crate) memcheck: bool,
    /// See [`CompileOptions::goes_on`].
    pub(crate) goes_on: bool,
    /// Memory of the host is registered.
    pub(crate) foreign: bool,
    /// Lanes of a gang are never serialized, for counters to tell what a warp does.
    whole_warps: bool,
}

impl Variant {
    /// The variant for launches of this shape.
    pub(crate) fn new(
        kernel: &KernelInner,
        options: &Options,
        grid: Dim3,
        block: Dim3,
        cluster: Dim3,
        is_tiny: bool,
        limit: Limit,
    ) -> Result<Variant, Error> {
        let counts_warps = options
            .coverage
            .as_ref()
            .is_some_and(Coverage::counts_warps);
        let gang = match options.gang {
            Some(gang) => gang,
            None if counts_warps => WARP,
            None => kernel.variants.choose(kernel, block, limit)?.gang(is_tiny),
        };
        Ok(Variant {
            gang,
            facts: Facts::of(grid.0, block.0, cluster.0, gang),
            memcheck: options.memcheck,
            goes_on: false,
            foreign: false,
            whole_warps: counts_warps && gang == WARP,
        })
    }

    pub(crate) fn compile_options(&self, baseline: BaselineTier, limit: Limit) -> CompileOptions {
        CompileOptions {
            gang: Some(self.gang),
            facts: self.facts,
            memcheck: self.memcheck,
            keeps_accesses: false,
            foreign: self.foreign,
            baseline,
            goes_on: self.goes_on,
            target: target(),
            switches: match self.whole_warps {
                true => Switches::default().without(Heuristic::LaneLoops),
                false => Switches::default(),
            },
            until: limit.until,
        }
    }
}

/// What code is compiled for: the host, with vectors of 128 bits if `$PTXJIT_VECTOR_BITS` says so.
/// The same for the life of the process, as code of the two must not meet in one cache.
fn target() -> Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    *TARGET.get_or_init(|| {
        let is_held_down = std::env::var("PTXJIT_VECTOR_BITS").is_ok_and(|bits| bits == "128");
        Target::host(if is_held_down { 128 } else { 256 })
    })
}

/// How long a launch may take to compile.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Limit {
    pub(crate) until: Option<Instant>,
    /// What it was counted from.
    limit: Option<Duration>,
}

impl Limit {
    /// None.
    pub(crate) const NONE: Limit = Limit {
        until: None,
        limit: None,
    };

    /// From now on. A limit beyond the end of the clock is none.
    pub(crate) fn start(limit: Option<Duration>) -> Limit {
        Limit {
            until: limit.and_then(|limit| Instant::now().checked_add(limit)),
            limit,
        }
    }

    pub(crate) fn error(self, kernel: &KernelInner, why: Failed) -> Error {
        match why {
            Failed::Time => kernel.timed_out(self.limit.unwrap_or_default()),
            Failed::Refused { obstacle, message } => Error::Compile {
                kernel: kernel.name.clone(),
                obstacle,
                message,
            },
            Failed::Earlier(error) => error,
        }
    }
}

/// Why there is no code.
pub(crate) enum Failed {
    /// The time limit passed; another launch may have more.
    Time,
    /// For good.
    Refused {
        obstacle: CompileObstacle,
        message: String,
    },
    /// The kernel could not be translated.
    Earlier(Error),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Time => f.write_str("the time limit passed"),
            Failed::Refused { message, .. } => f.write_str(message),
            Failed::Earlier(error) => error.fmt(f),
        }
    }
}

impl From<TimedOut> for Failed {
    fn from(_: TimedOut) -> Failed {
        Failed::Time
    }
}

impl From<Spent> for Failed {
    fn from(_: Spent) -> Failed {
        // Without a limit on work.
        Failed::Time
    }
}

impl From<CompileError> for Failed {
    fn from(err: CompileError) -> Failed {
        match err {
            CompileError::Time => Failed::Time,
            other => Failed::Refused {
                obstacle: obstacle(&other),
                message: other.to_string(),
            },
        }
    }
}

fn obstacle(error: &CompileError) -> CompileObstacle {
    match error {
        CompileError::BadGang(_) | CompileError::NeedsLockstep(_) => CompileObstacle::Gang,
        CompileError::Host(_) => CompileObstacle::Host,
        CompileError::TooComplex(_) | CompileError::Time => CompileObstacle::Limit,
        CompileError::Place(_) => CompileObstacle::Memory,
        CompileError::Internal(_) => CompileObstacle::Internal,
    }
}

impl From<Error> for Failed {
    fn from(err: Error) -> Failed {
        Failed::Earlier(err)
    }
}

/// Where a compiled form came from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum CodeOrigin {
    /// An earlier launch of this process.
    Memory,
    /// The cache on disk.
    Disk,
    /// It was compiled for this launch.
    Compiled,
}

/// A compiled form, where it came from and how long that took.
#[derive(Clone)]
pub(crate) struct Got {
    pub(crate) code: Arc<CompiledKernel>,
    pub(crate) origin: CodeOrigin,
}

/// A kernel's place in the cache on disk.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) cache: Arc<Cache>,
    /// What all entries of the kernel depend on.
    base: Key,
}

impl Stored {
    /// The place of the kernel called `name` of a module whose text hashes to `module`; none where
    /// builds cannot be told apart.
    pub(crate) fn new(cache: &Arc<Cache>, module: Key, name: &str) -> Option<Stored> {
        let build = cache::build()?;
        Some(Stored {
            cache: cache.clone(),
            base: Key::new(&[build.as_bytes(), module.bytes(), name.as_bytes()]),
        })
    }

    /// The place of the same kernel where its code tells more.
    pub(crate) fn telling(&self, tells: Tells) -> Stored {
        let tells = format!("{tells:?}");
        Stored {
            cache: self.cache.clone(),
            base: Key::new(&[self.base.bytes(), tells.as_bytes()]),
        }
    }

    /// The entry that says that the kernel was checked and translated before.
    pub(crate) fn checked_key(&self) -> Key {
        Key::new(&[self.base.bytes(), b"checked"])
    }

    fn choice_key(&self, block: Dim3) -> Key {
        let block = format!("{:?}", block.0);
        Key::new(&[self.base.bytes(), b"gang", block.as_bytes()])
    }

    pub(crate) fn can_join_key(&self) -> Key {
        Key::new(&[self.base.bytes(), b"can join"])
    }

    fn code_key(&self, variant: &Variant) -> Option<Key> {
        let target = ptxjit_codegen::describe(target()).ok()?;
        let variant = format!("{variant:?}");
        let parts = [
            self.base.bytes(),
            b"code",
            target.as_bytes(),
            variant.as_bytes(),
        ];
        Some(Key::new(&parts))
    }

    pub(crate) fn put_code(&self, variant: &Variant, object: &Object) {
        if let Some(key) = self.code_key(variant) {
            self.cache.put(key, &object.to_bytes());
        }
    }

    fn get_code(&self, variant: &Variant) -> Option<CompiledKernel> {
        let object = Object::from_bytes(&self.cache.get(self.code_key(variant)?)?)?;
        // SAFETY: the entry is whole, by its hash, and its key names the build and the target: a
        // process of this build made it. Only the user can write to the folder.
        unsafe { ptxjit_codegen::place(object) }.ok()
    }
}

/// The gang width for blocks of some shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    pub(crate) gang: u32,
    tiny: u32,
}

impl Choice {
    fn gang(self, is_tiny: bool) -> u32 {
        if is_tiny { self.tiny } else { self.gang }
    }
}

/// The compiled forms of one kernel, made when first wanted.
#[derive(Default)]
pub(crate) struct Variants {
    optimized: Once<Arc<Program>>,
    /// See [`joinable`](ptxjit_passes::analysis::joinable).
    pub(crate) can_join: Once<bool>,
    chosen: Mutex<HashMap<Dim3, Choice>>,
    compiled: Mutex<HashMap<Variant, Arc<Slot>>>,
}

/// Where a form will be, or why there will never be one.
type Slot = Once<Result<(Arc<CompiledKernel>, CodeOrigin), (CompileObstacle, String)>>;

impl Variants {
    /// The gang width for blocks of this shape.
    pub(crate) fn choose(
        &self,
        kernel: &KernelInner,
        block: Dim3,
        limit: Limit,
    ) -> Result<Choice, Error> {
        if let Some(&choice) = lock(&self.chosen).get(&block) {
            return Ok(choice);
        }
        let stored = kernel.stored.as_ref();
        let known = stored.and_then(|stored| stored.cache.get(stored.choice_key(block)));
        let choice = match known.as_deref() {
            Some(&[gang, tiny]) => Choice {
                gang: gang.into(),
                tiny: tiny.into(),
            },
            _ => {
                let optimized = self.optimized(kernel, limit)?;
                let made = ptxjit_codegen::choose_gang(&optimized, block.0, target(), limit.until)
                    .map_err(|err| limit.error(kernel, err.into()))?;
                let choice = Choice {
                    gang: made.gang,
                    tiny: made.tiny,
                };
                if let Some(stored) = stored {
                    let bytes = [choice.gang, choice.tiny].map(|gang| gang as u8);
                    stored.cache.put(stored.choice_key(block), &bytes);
                }
                choice
            }
        };
        lock(&self.chosen).insert(block, choice);
        Ok(choice)
    }

    /// The code for `variant`. Without baseline, what was made in a hurry before is improved first.
    pub(crate) fn get(
        &self,
        kernel: &KernelInner,
        variant: &Variant,
        baseline: BaselineTier,
        limit: Limit,
    ) -> Result<Got, Error> {
        let slot = lock(&self.compiled)
            .entry(variant.clone())
            .or_default()
            .clone();
        let mut is_new = false;
        let made = slot.get(limit.until, || {
            is_new = true;
            match self.make(kernel, variant, baseline, limit) {
                Err(Failed::Refused { obstacle, message }) => Ok(Err((obstacle, message))),
                made => made.map(Ok),
            }
        });
        let refused = |(obstacle, message)| Failed::Refused { obstacle, message };
        let made = made.and_then(|made| made.map_err(refused));
        let (code, origin) = made.map_err(|why| limit.error(kernel, why))?;
        if baseline == BaselineTier::Never && code.is_quick() {
            improve::now(kernel, variant, &code, limit).map_err(|why| limit.error(kernel, why))?;
        }
        Ok(Got {
            code,
            origin: if is_new { origin } else { CodeOrigin::Memory },
        })
    }

    fn make(
        &self,
        kernel: &KernelInner,
        variant: &Variant,
        baseline: BaselineTier,
        limit: Limit,
    ) -> Result<(Arc<CompiledKernel>, CodeOrigin), Failed> {
        let stored = kernel.stored.as_ref();
        if let Some(code) = stored.and_then(|stored| stored.get_code(variant)) {
            return Ok((Arc::new(code), CodeOrigin::Disk));
        }
        let object = self.object(kernel, variant, baseline, limit)?;
        if let Some(stored) = stored {
            stored.put_code(variant, &object);
        }
        // SAFETY: this process has just made the object.
        let code = unsafe { ptxjit_codegen::place(object) }?;
        Ok((Arc::new(code), CodeOrigin::Compiled))
    }

    /// Compiles.
    pub(crate) fn object(
        &self,
        kernel: &KernelInner,
        variant: &Variant,
        baseline: BaselineTier,
        limit: Limit,
    ) -> Result<Object, Failed> {
        let program = self.optimized(kernel, limit)?;
        let options = variant.compile_options(baseline, limit);
        Ok(ptxjit_codegen::compile_object(&program, &options)?)
    }

    /// Has quickly made code improved beside the launches that use it.
    pub(crate) fn improve(
        kernel: &Arc<KernelInner>,
        variant: &Variant,
        code: &Arc<CompiledKernel>,
    ) {
        if code.is_quick() {
            improve::later(Job::of_variant(kernel, variant, code));
        }
    }

    /// What makes the code to go on with where lanes of a gang stop apart, when that first happens
    /// in a launch. Workers have small stacks, so it is made on a thread of its own.
    pub(crate) fn for_some_lanes(
        kernel: &Arc<KernelInner>,
        variant: &Variant,
        baseline: BaselineTier,
    ) -> Arc<MakeCode> {
        let kernel = kernel.clone();
        let mut variant = variant.clone();
        variant.facts.whole_gangs = false;
        variant.goes_on = true;
        Arc::new(move || {
            let make = || {
                // The watchdog of the launch ends it if this takes too long for its limit.
                let got = kernel
                    .variants
                    .get(&kernel, &variant, baseline, Limit::NONE);
                let code = got.map_err(|err| err.to_string())?.code;
                Variants::improve(&kernel, &variant, &code);
                Ok(code)
            };
            std::thread::scope(|scope| {
                let thread = std::thread::Builder::new().stack_size(improve::STACK_SIZE);
                let thread = thread.spawn_scoped(scope, make);
                let made = thread.map_err(|err| err.to_string())?.join();
                made.unwrap_or_else(|panic| {
                    let why = improve::panic_text(&*panic);
                    Err(format!("internal error: the compiler panicked: {why}"))
                })
            })
        })
    }

    pub(crate) fn optimized(
        &self,
        kernel: &KernelInner,
        limit: Limit,
    ) -> Result<Arc<Program>, Error> {
        let make = || {
            let mut program = Program::clone(&*kernel.program()?);
            kernel.optimize(&mut program, limit)?;
            Ok(Arc::new(program))
        };
        let made = self.optimized.get(limit.until, make);
        made.map_err(|why: Failed| limit.error(kernel, why))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // The maps are consistent between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Names of the stages that [`crate::Kernel::dump`] can show, in order.
pub fn dump_stages() -> Vec<&'static str> {
    let mut stages = vec!["ast", "ir"];
    stages.extend(pipeline::pass_names());
    stages.extend(["opt", "gang", "vectorize", "heuristics", "clif", "asm"]);
    stages
}

pub(crate) fn dump(
    front: &translate::Module,
    kernel: &KernelInner,
    stage: &str,
    options: &Options,
    block: Dim3,
) -> Result<String, Error> {
    let limit = Limit::start(options.timeout);
    let cluster = Dim3(kernel.attrs.req_cluster.unwrap_or([1; 3]));
    let variant = &Variant::new(kernel, options, Dim3([1; 3]), block, cluster, false, limit)?;
    let program = || match options.sanitize.any() {
        true => screen::program(kernel, options, limit),
        false => kernel.variants.optimized(kernel, limit),
    };
    let listing = |stage: &str| {
        let optimized = program()?;
        let mut options_of = variant.compile_options(BaselineTier::Never, limit);
        options_of.keeps_accesses = options.sanitize.any();
        options_of.switches = Switches::parse(&options.passes)
            .map_err(|why| Error::usage(UsageRule::Options, why))?;
        let compiled = ptxjit_codegen::compile_listing(&optimized, &options_of)
            .map_err(|err| limit.error(kernel, err.into()))?;
        match stage {
            "gang" => {
                let why = match options.gang {
                    Some(_) => vec!["as asked for".to_owned()],
                    None => {
                        ptxjit_codegen::choose_gang(&optimized, block.0, target(), None)
                            .map_err(|err| limit.error(kernel, err.into()))?
                            .reasons
                    }
                };
                let why = format!("gang width {}: {}\n", variant.gang, why.join("; "));
                Ok(why + &notes(front.source(), &compiled) + "\n" + &compiled.listings["gang"])
            }
            _ => Ok(compiled.listings.get(stage).cloned().unwrap_or_default()),
        }
    };
    match stage {
        "ast" => Ok(syntax_tree(front, kernel)),
        "ir" => Ok(print::program(&*kernel.program()?)),
        "opt" => Ok(print::program(&*program()?)),
        "gang" | "vectorize" | "heuristics" | "clif" | "asm" => listing(stage),
        pass if pipeline::pass_names().contains(&pass) => after_pass(kernel, pass),
        _ => Err(Error::usage(
            UsageRule::Options,
            format!(
                "there is no stage `{stage}`; choose one of {}",
                dump_stages().join(", ")
            ),
        )),
    }
}

/// What there is to say about a plan and the code made from it.
fn notes(source: &Source, compiled: &CompiledKernel) -> String {
    let slow = compiled.slow.iter().map(|(loc, form)| {
        let rest = source.text().get(loc.0 as usize..).unwrap_or("");
        let line = source.position(loc.0).line;
        let file = match source.n_files() {
            1 => String::new(),
            _ => format!("{}, ", source.file_name(source.file_at(loc.0))),
        };
        let statement = rest.split([';', '\n']).next().unwrap_or_default();
        format!("{file}line {line}: `{statement}` is {form}")
    });
    compiled
        .notes
        .iter()
        .cloned()
        .chain(slow)
        .map(|note| note + "\n")
        .collect()
}

/// All functions as `pass` left them the first time.
fn after_pass(kernel: &KernelInner, pass: &str) -> Result<String, Error> {
    let mut program = Program::clone(&*kernel.program()?);
    let mut seen = Vec::new();
    let mut text = String::new();
    let mut observer = |name: &'static str, id: FuncId, func: &Function| {
        if name == pass && !seen.contains(&id) {
            seen.push(id);
            text.push_str(&print::function(func));
        }
    };
    // Without a time limit it does not fail.
    let _ = pipeline::optimize(
        &mut program,
        &pipeline::Options::default(),
        Some(&mut observer),
    );
    Ok(text)
}

/// The kernel's function and body as they were parsed.
fn syntax_tree(front: &translate::Module, kernel: &KernelInner) -> String {
    let Some(described) = front.kernel(&kernel.name) else {
        return String::new();
    };
    let function = front.function_ast(described.func);
    let body = function
        .body
        .map(|range| ptxjit_frontend::parse::body(front.source(), range));
    match body {
        Some(Ok(body)) => format!("{function:#?}\n{body:#?}\n"),
        Some(Err(_)) | None => format!("{function:#?}\n"),
    }
}
