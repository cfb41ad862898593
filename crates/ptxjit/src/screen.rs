//! Screened launches: compiled code that notices whether there may be anything to find, before the
//! exact and slow detectors are asked.
//!
//! A launch that the sanitizers `race`, `init` or `sync` watch is looked at before it runs: for the
//! memory, the parameters and the shape that it has, [`ptxjit_passes::screen`] proves of most
//! accesses that there is nothing to find. If it does so of all, the launch runs as without
//! sanitizers. Otherwise instrumented code runs it, which looks at the others, on one worker where
//! accesses are compared. If nothing was suspected it is over, with nothing found. Otherwise, and
//! if it failed, memory is put back and the interpreter runs it again. Findings are always those of
//! the interpreter.
//!
//! A launch of which only memory is checked runs compiled code with these checks, whose findings
//! are exact, unless all of it is proven.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ptxjit_abi::{CompiledKernel, Facts, SymbolRef};
use ptxjit_codegen::BaselineTier;
use ptxjit_ir::{Program, VarId};
use ptxjit_passes::screen::{self, Launched, Needs, Params, Screened, UNWRITTEN, Wanted};
use ptxjit_runtime::{LaunchError, TagTables};

use crate::compile::{Failed, Limit, Variant, Variants};
use crate::failure::Cause;
use crate::improve::{self, Job};
use crate::launch::Launch;
use crate::module::KernelInner;
use crate::sanitize::Checks;
use crate::{Engine, Error, Options, UsageRule};

/// Tags that a launch may take if barriers in loops make intervals; then there are intervals for a
/// few thousand barriers at most.
const TAGS: u64 = 1 << 28;
const MOST_INTERVALS: u64 = 4096;

/// No launch takes more tags.
const MOST_TAGS: u64 = 1 << 31;

/// Bytes of a window of shared memory that have tags: more than any GPU has, with room between
/// variables.
const SHARED_BYTES: u64 = 1 << 20;

/// Bytes below each table of shared memory, see [`screen`].
const PAD: u64 = 64;

/// Bytes of the flag, and what tables are aligned to.
const PAGE: u64 = 4096;

/// Consecutive launches of a kernel whose bounds were not proven until no more proofs are tried: a
/// kernel whose addresses come from memory is proven in no launch.
const MOST_UNPROVEN: u32 = 8;

/// What a launch with checks of memory takes at least if a proof is to be tried for the next one of
/// its kernel: most proofs take less than a tenth of it.
const LONG: Duration = Duration::from_millis(1);

/// Forms of a kernel that check for different needs. Launches that would take more check for
/// everything: compiling costs more than that.
const MOST_FORMS: usize = 8;

/// What the launches of a kernel are screened with; none for kernels that cannot be.
#[derive(Default)]
pub(crate) struct Screens {
    by_checks: Mutex<HashMap<Wanted, Option<Arc<Screen>>>>,
    /// A launch in which compiled code checked memory took [`LONG`].
    took_long: AtomicBool,
}

struct Screen {
    kernel: screen::Kernel,
    /// By what is checked; everything if there is no list.
    forms: Mutex<HashMap<FormKey, Arc<Form>>>,
    /// What was found out about the last launch.
    last: Mutex<Option<(Given, Option<Arc<Needs>>)>>,
    /// Launches since one was proven, among those that run without instrumentation in any case.
    n_unproven: AtomicU32,
}

type FormKey = Option<Vec<(u32, [bool; 4])>>;

struct Form {
    screened: Screened,
    compiled: Mutex<HashMap<(u32, Facts, bool), Arc<CompiledKernel>>>,
}

/// All that proofs start from.
#[derive(PartialEq, Eq, Debug)]
struct Given {
    block: [u32; 3],
    grid: [u32; 3],
    shared: u32,
    params: Vec<u8>,
    blocks: Vec<(u64, u64)>,
    unwritten: Vec<(u64, u64)>,
    vars: BTreeMap<VarId, u64>,
}

/// A launch that can be screened: the kernel, and the form of its code.
pub(crate) struct Ready {
    screen: Arc<Screen>,
    variant: Variant,
    wanted: Wanted,
}

impl Ready {
    /// Gang width of the code.
    pub(crate) fn gang(&self) -> u32 {
        self.variant.gang
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ready({:?})", self.wanted)
    }
}

impl Screens {
    fn get(
        &self,
        kernel: &KernelInner,
        wanted: Wanted,
        limit: Limit,
    ) -> Result<Option<Arc<Screen>>, Error> {
        let known = lock(&self.by_checks).get(&wanted).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let made = screened(kernel, wanted, limit)?.ok().map(|kernel| {
            Arc::new(Screen {
                kernel,
                forms: Mutex::default(),
                last: Mutex::default(),
                n_unproven: AtomicU32::new(0),
            })
        });
        lock(&self.by_checks).insert(wanted, made.clone());
        Ok(made)
    }

    pub(crate) fn took_long(&self) -> bool {
        self.took_long.load(Ordering::Relaxed)
    }

    /// Remembers how long a launch took in which compiled code checked memory.
    pub(crate) fn note_checked(&self, time: Duration) {
        if time >= LONG {
            self.took_long.store(true, Ordering::Relaxed);
        }
    }
}

/// The kernel as it is screened, or why it is not.
fn screened(
    kernel: &KernelInner,
    wanted: Wanted,
    limit: Limit,
) -> Result<Result<screen::Kernel, &'static str>, Error> {
    let marked = kernel.marked_program()?;
    if wanted.mem && kernel.has_near_constants(&marked) {
        return Ok(Err(
            "constants lie side by side, and compiled code does not tell them apart",
        ));
    }
    // Without copies there is no use for marks, which hold up the optimizer.
    let mut program = Program::clone(&marked);
    if !screen::keep_copies(&mut program) {
        program = Program::clone(&*kernel.program()?);
    }
    let kept = screen::keep(&mut program, wanted);
    kernel.optimize(&mut program, limit)?;
    let admitted = screen::admits(&marked, &program, wanted);
    Ok(admitted.map(|()| screen::Kernel::new(program, kept, wanted)))
}

/// The instrumented program, to be looked at: as it checks for everything.
pub(crate) fn program(
    kernel: &KernelInner,
    options: &Options,
    limit: Limit,
) -> Result<Arc<Program>, Error> {
    let screened = screened(kernel, wanted(options.sanitize), limit)?;
    let screened = screened.map_err(|why| {
        let text = format!("this kernel is watched in the interpreter alone: {why}");
        Error::usage(UsageRule::Options, text)
    })?;
    Ok(Arc::new(screened.screened(None).program))
}

fn wanted(checks: Checks) -> Wanted {
    Wanted {
        mem: checks.mem,
        race: checks.race,
        init: checks.init,
        sync: checks.sync,
    }
}

impl Screen {
    /// The form that checks for such needs.
    fn form(&self, needs: Option<&Needs>) -> Arc<Form> {
        let mut forms = lock(&self.forms);
        let is_new = |key: &FormKey| !forms.contains_key(key) && forms.len() >= MOST_FORMS;
        let needs = match needs {
            Some(needs) if is_new(&Some(needs.key())) && self.kernel.must_prove() => {
                forms.clear();
                Some(needs)
            }
            needs => needs.filter(|needs| !is_new(&Some(needs.key()))),
        };
        let form = forms.entry(needs.map(Needs::key)).or_insert_with(|| {
            Arc::new(Form {
                screened: self.kernel.screened(needs),
                compiled: Mutex::default(),
            })
        });
        form.clone()
    }

    /// What must be checked of a launch; everything if none.
    fn needs(&self, given: Given) -> Option<Arc<Needs>> {
        if let Some((before, needs)) = &*lock(&self.last)
            && *before == given
        {
            return needs.clone();
        }
        let launched = Launched {
            block: given.block,
            grid: given.grid,
            params: &given.params,
            shared: given.shared,
            blocks: &given.blocks,
            unwritten: &given.unwritten,
            vars: &given.vars,
        };
        let needs = self.kernel.prove(&launched).ok().map(Arc::new);
        *lock(&self.last) = Some((given, needs.clone()));
        needs
    }
}

impl Form {
    /// The code for a variant. What was made in a hurry is improved: here without baseline,
    /// otherwise beside the launch.
    fn code(
        self: &Arc<Form>,
        kernel: &str,
        variant: &Variant,
        (baseline, limit): (BaselineTier, Limit),
    ) -> Result<Arc<CompiledKernel>, Failed> {
        let key = (variant.gang, variant.facts, variant.memcheck);
        let known = lock(&self.compiled).get(&key).cloned();
        let code = match known {
            Some(code) => code,
            None => {
                let code = Arc::new(self.compile(variant, baseline, limit)?);
                lock(&self.compiled).insert(key, code.clone());
                code
            }
        };
        if code.is_quick() && baseline == BaselineTier::Never {
            self.improve(variant, &code, limit)?;
        } else if code.is_quick() {
            let (form, quick) = (Arc::downgrade(self), Arc::downgrade(&code));
            let variant = variant.clone();
            let improve = move || match (form.upgrade(), quick.upgrade()) {
                (Some(form), Some(code)) => form.improve(&variant, &code, Limit::NONE),
                (None, _) | (_, None) => Ok(()),
            };
            improve::later(Job::new(kernel, improve));
        }
        Ok(code)
    }

    fn compile(
        &self,
        variant: &Variant,
        baseline: BaselineTier,
        limit: Limit,
    ) -> Result<CompiledKernel, Failed> {
        let mut options = variant.compile_options(baseline, limit);
        options.keeps_accesses = true;
        Ok(ptxjit_codegen::compile(&self.screened.program, &options)?)
    }

    fn improve(
        &self,
        variant: &Variant,
        code: &CompiledKernel,
        limit: Limit,
    ) -> Result<(), Failed> {
        if code.is_quick() {
            code.improve(self.compile(variant, BaselineTier::Never, limit)?);
        }
        Ok(())
    }
}

impl Launch {
    /// What is needed to screen the launch; none if it cannot be screened.
    pub(crate) fn screen(&self, limit: Limit) -> Result<Option<Ready>, Error> {
        let (options, kernel) = (&self.options, &self.kernel.inner);
        let wanted = Wanted {
            mem: options.memcheck,
            ..wanted(options.sanitize)
        };
        let is_plain = options.engine == Engine::Jit
            && !options.schedule.is_interpreted()
            && !self.keeps_choices()
            && options.coverage.is_none()
            && !self.open_memory
            && self.peers.is_none()
            && !self.cooperative
            && self.cluster_shape().0 == [1; 3];
        if !is_plain {
            return Ok(None);
        }
        // What is wrong with the kernel itself is told when it is interpreted.
        let Ok(Some(screen)) = kernel.screens.get(kernel, wanted, limit) else {
            return Ok(None);
        };
        let threads = self.block.count();
        if screen.kernel.needs_whole_warps() && !threads.is_multiple_of(32) {
            return Ok(None);
        }
        let mut variant = self.variant(limit)?;
        variant.memcheck = wanted.mem;
        variant.foreign = false;
        variant.facts.whole_gangs = false;
        Ok(Some(Ready {
            screen,
            variant,
            wanted,
        }))
    }

    /// Runs the launch with what instrumentation it needs, and tells how long that took and whether
    /// it needed none. None if something is suspected; memory is then as it was before.
    pub(crate) fn run_screened(
        &self,
        ready: &Ready,
        params: &[u8],
    ) -> Result<Option<(Duration, bool)>, Error> {
        let start = Instant::now();
        let limit = Limit::start(self.options.timeout);
        let _user = self.kernel.module.device.arena.use_tables();
        // Variables must have their places before proofs, tables and a copy of memory are made.
        let Some(vars) = self.placed_vars(ready) else {
            return Ok(None);
        };
        let given = self.given(ready, params, vars);
        let needs = given.and_then(|given| ready.screen.needs(given));
        if needs.is_none() && ready.screen.kernel.must_prove() {
            return Ok(None);
        }
        let proving = start.elapsed();
        let is_proven = needs.as_ref().is_some_and(|needs| needs.is_clean);
        let time = match &needs {
            Some(needs) if is_proven => {
                let ran = self.run_plain(ready, (needs, limit), params)?;
                let (name, front) = (&self.kernel.inner.name, &self.kernel.module.front);
                Some(ran.map_err(|cause| cause.into_error(name, front))?)
            }
            Some(_) | None => self.run_instrumented(ready, (needs.as_deref(), limit), params)?,
        };
        Ok(time.map(|time| (time + proving, is_proven)))
    }

    /// Runs the launch without checks if it is proven that there is nothing to find; none
    /// otherwise.
    pub(crate) fn run_proven(
        &self,
        params: &[u8],
    ) -> Result<Option<Result<Duration, Cause>>, Error> {
        let start = Instant::now();
        let limit = Limit::start(self.options.timeout);
        let Some((ready, needs)) = self.proven(params, limit)? else {
            return Ok(None);
        };
        let proving = start.elapsed();
        let ran = self.run_plain(&ready, (&needs, limit), params)?;
        Ok(Some(ran.map(|time| time + proving)))
    }

    /// Whether it is proven that the launch has nothing to find, with memory as it is now.
    pub(crate) fn is_proven(&self, params: &[u8], limit: Limit) -> Result<bool, Error> {
        Ok(self.proven(params, limit)?.is_some())
    }

    /// The proof that the launch has nothing to find; none if there is no such proof, or if none is
    /// tried any more.
    fn proven(&self, params: &[u8], limit: Limit) -> Result<Option<(Ready, Arc<Needs>)>, Error> {
        let Some(ready) = self.screen(limit)? else {
            return Ok(None);
        };
        let n_unproven = &ready.screen.n_unproven;
        if n_unproven.load(Ordering::Relaxed) >= MOST_UNPROVEN {
            return Ok(None);
        }
        let given = self
            .placed_vars(&ready)
            .and_then(|vars| self.given(&ready, params, vars));
        let needs = given.and_then(|given| ready.screen.needs(given));
        let Some(needs) = needs.filter(|needs| needs.is_clean) else {
            n_unproven.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        };
        n_unproven.store(0, Ordering::Relaxed);
        Ok(Some((ready, needs)))
    }

    /// The addresses of variables in device memory, and offsets of those in constant memory. None
    /// if they cannot be placed.
    fn placed_vars(&self, ready: &Ready) -> Option<BTreeMap<VarId, u64>> {
        let vars = ready.screen.kernel.placed_vars();
        let symbols: Vec<SymbolRef> = vars.iter().map(|&var| SymbolRef::Var(var)).collect();
        let addrs = self.kernel.module.memory.symbols(&symbols).ok()?;
        Some(vars.into_iter().zip(addrs).collect())
    }

    /// What a proof starts from. None if there is memory that it does not know.
    fn given(&self, ready: &Ready, params: &[u8], vars: BTreeMap<VarId, u64>) -> Option<Given> {
        let arena = &self.kernel.module.device.arena;
        let blocks = arena.live_blocks()?;
        let unwritten = match ready.wanted.init {
            true => arena.unwritten_blocks(),
            false => Vec::new(),
        };
        Some(Given {
            block: self.block.0,
            grid: self.n_blocks().0,
            shared: self.shared,
            params: params.to_vec(),
            blocks,
            unwritten,
            vars,
        })
    }

    /// Runs a launch that has nothing to find, bounds included.
    fn run_plain(
        &self,
        ready: &Ready,
        (needs, limit): (&Needs, Limit),
        params: &[u8],
    ) -> Result<Result<Duration, Cause>, Error> {
        let mut variant = self.variant(limit)?;
        variant.memcheck = false;
        let got = self.kernel.variant(&variant, self.baseline(), limit)?;
        Variants::improve(&self.kernel.inner, &variant, &got.code);
        let desc = self.whole_desc((&variant, &got.code), params.to_vec())?;
        let device = &self.kernel.module.device;
        let launched = device.runtime.launch(&desc);
        if !ready.wanted.init {
            device.arena.all_written();
        } else if launched.is_ok() {
            for &(start, len) in &needs.written {
                device.arena.written(start, len);
            }
        }
        Ok(launched.map(|stats| stats.time).map_err(Cause::from))
    }

    fn run_instrumented(
        &self,
        ready: &Ready,
        (needs, limit): (Option<&Needs>, Limit),
        params: &[u8],
    ) -> Result<Option<Duration>, Error> {
        let form = ready.screen.form(needs);
        let name = &self.kernel.inner.name;
        let how = (self.baseline(), limit);
        let Ok(code) = form.code(name, &ready.variant, how) else {
            return Ok(None);
        };
        let mut desc = self.whole_desc((&ready.variant, &code), Vec::new())?;
        let module = &self.kernel.module;
        let device = &module.device;
        let arena = &device.arena;
        if module.memory.symbols(&code.symbols).is_err() {
            return Ok(None);
        }
        let screened = &form.screened;
        let Some((tables, of_screen)) = self.tables(ready, screened) else {
            return Ok(None);
        };
        let stores = needs.and_then(|needs| needs.stores.as_deref());
        let snapshot = screened.writes.then(|| arena.snapshot(stores));
        if ready.wanted.init {
            arena.mark_unwritten(&tables, UNWRITTEN);
        }
        let flag = of_screen.flag;
        arena.write_tables(flag, &[0]);
        desc.params = params.to_vec();
        desc.params.resize(screened.params_at as usize, 0);
        desc.params.extend(of_screen.to_bytes());
        if screened.n_bounds > 0 {
            let bounds = needs.into_iter().flat_map(Needs::bounds);
            let words = bounds.flat_map(|(start, size)| [start, size]);
            desc.params.extend(words.flat_map(u64::to_le_bytes));
        }
        desc.param_bytes = desc.params.len() as u32;
        if screened.compares {
            desc.threads = Some(1);
        }
        let launched = device.runtime.launch(&desc);
        let mut suspected = [0];
        arena.read_tables(flag, &mut suspected);
        let is_clean = launched.is_ok() && suspected == [0];
        if ready.wanted.init {
            arena.clear_marks(&tables, UNWRITTEN, is_clean);
        } else if is_clean {
            arena.all_written();
        }
        match launched {
            Ok(stats) if is_clean => return Ok(Some(stats.time)),
            Err(err @ (LaunchError::Timeout { .. } | LaunchError::Cancelled { .. })) => {
                let kernel = &self.kernel;
                return Err(Cause::from(err).into_error(&kernel.inner.name, &kernel.module.front));
            }
            Ok(_) | Err(_) => {}
        }
        if let Some(snapshot) = snapshot {
            arena.restore(&snapshot, &tables);
        }
        Ok(None)
    }

    /// The place of each table, and the parameter that tells the code of it. None if tables or tags
    /// would be too large.
    fn tables(&self, ready: &Ready, screened: &Screened) -> Option<(TagTables, Params)> {
        let arena = &self.kernel.module.device.arena;
        let width = self.block.count() + 1;
        let n_ctas = self.n_blocks().count();
        let intervals = match screened.barriers {
            Some(n) => u64::from(n) + 1,
            None => (TAGS / n_ctas.saturating_mul(width)).clamp(8, MOST_INTERVALS),
        };
        let chunk = width * intervals;
        let tags = n_ctas
            .checked_mul(chunk)
            .filter(|&tags| tags <= MOST_TAGS)?;
        let scale = u64::from(4 / screened.granule);
        let span = arena.live_span()?;
        let low = span.start / PAGE * PAGE;
        let device_bytes = ((span.end - low) * scale).next_multiple_of(PAGE) + PAGE;
        let shared_bytes = SHARED_BYTES * scale + PAGE;
        let all = PAGE + 3 * (device_bytes + shared_bytes);
        arena.trim_tables();
        let base = arena.take_tags(tags as u32)?;
        let start = arena.grow_tables(all).ok()?;
        let shared = [0, 1, 2].map(|idx| start + PAGE + idx * shared_bytes + PAD);
        let first = start + PAGE + 3 * shared_bytes;
        let device = [0, 1, 2]
            .map(|idx: u64| (first + idx * device_bytes).wrapping_sub(low.wrapping_mul(scale)));
        if ready.variant.memcheck {
            arena.prepare_checks().ok()?;
            let of_block = |(at, size): (u64, u64)| {
                device.map(|table| {
                    let place = |addr: u64| addr.wrapping_mul(scale).wrapping_add(table);
                    place(at)..place(at + size)
                })
            };
            let blocks = arena.live_blocks()?;
            arena.mark_tables(std::iter::once(start..first));
            arena.mark_tables(blocks.into_iter().flat_map(of_block));
        }
        let tables = TagTables {
            origins: [device[0], device[2]],
            granule: screened.granule,
            base,
        };
        let params = Params {
            base,
            chunk: chunk as u32,
            width: width as u32,
            flag: start,
            device,
            shared,
        };
        Some((tables, params))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // The maps are consistent between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
