//! Screened launches: compiled code that notices whether there may be anything to find, before the
//! exact and slow detectors are asked.
//!
//! A launch that the sanitizers `race`, `init` or `sync` watch runs first as
//! [`ptxjit_passes::screen`] instruments it, on one worker. If nothing was suspected it is over,
//! with nothing found. Otherwise, and if it failed, memory is put back and the interpreter runs it
//! again. Findings are always those of the interpreter.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ptxjit_abi::{CompiledKernel, Facts};
use ptxjit_codegen::BaselineTier;
use ptxjit_ir::Program;
use ptxjit_passes::screen::{self, Params, Screened, UNWRITTEN, Wanted};
use ptxjit_runtime::{LaunchError, TagTables};

use crate::compile::{Limit, Variant};
use crate::failure::Cause;
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

/// What the launches of a kernel are screened with; none for kernels that cannot be.
#[derive(Default)]
pub(crate) struct Screens(Mutex<HashMap<Wanted, Option<Arc<Screen>>>>);

struct Screen {
    screened: Screened,
    compiled: Mutex<HashMap<(u32, Facts, bool), Arc<CompiledKernel>>>,
}

/// A launch that can be screened: the code, and its place among tags.
pub(crate) struct Ready {
    screen: Arc<Screen>,
    code: Arc<CompiledKernel>,
    variant: Variant,
    wanted: Wanted,
}

impl Ready {
    /// Gang width of the code.
    pub(crate) fn gang(&self) -> u32 {
        self.code.gang
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
        let known = lock(&self.0).get(&wanted).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let made = screened(kernel, wanted, limit)?.ok().map(|screened| {
            Arc::new(Screen {
                screened,
                compiled: Mutex::default(),
            })
        });
        lock(&self.0).insert(wanted, made.clone());
        Ok(made)
    }
}

/// The instrumented program, or why there is none.
fn screened(
    kernel: &KernelInner,
    wanted: Wanted,
    limit: Limit,
) -> Result<Result<Screened, &'static str>, Error> {
    let marked = kernel.marked_program()?;
    if wanted.mem && kernel.has_near_constants(&marked) {
        return Ok(Err(
            "constants lie side by side, and compiled code does not tell them apart",
        ));
    }
    let mut program = Program::clone(&*kernel.program()?);
    let kept = screen::keep(&mut program);
    kernel.optimize(&mut program, limit)?;
    let admitted = screen::admits(&marked, &program, wanted);
    Ok(admitted.map(|()| screen::run(program, &kept, wanted)))
}

/// The instrumented program, to be looked at.
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
    Ok(Arc::new(screened.program))
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
    fn code(&self, variant: &Variant, limit: Limit) -> Result<Arc<CompiledKernel>, ()> {
        let key = (variant.gang, variant.facts, variant.memcheck);
        if let Some(code) = lock(&self.compiled).get(&key) {
            return Ok(code.clone());
        }
        let mut options = variant.compile_options(BaselineTier::LongCode, limit);
        options.keeps_accesses = true;
        let code = ptxjit_codegen::compile(&self.screened.program, &options);
        let code = Arc::new(code.map_err(|_| ())?);
        lock(&self.compiled).insert(key, code.clone());
        Ok(code)
    }
}

impl Launch {
    /// What is needed to screen the launch; none if it cannot be screened.
    pub(crate) fn screen(&self, limit: Limit) -> Result<Option<Ready>, Error> {
        let (options, kernel) = (&self.options, &self.kernel.inner);
        let checks = options.sanitize;
        let wanted = wanted(checks);
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
        if screen.screened.whole_warps && !threads.is_multiple_of(32) {
            return Ok(None);
        }
        let mut variant = self.variant(limit)?;
        variant.memcheck = checks.mem;
        variant.foreign = false;
        variant.facts.whole_gangs = false;
        let Ok(code) = screen.code(&variant, limit) else {
            return Ok(None);
        };
        Ok(Some(Ready {
            screen,
            code,
            variant,
            wanted,
        }))
    }

    /// Runs the launch with instrumentation. None if something is suspected; memory is then as it
    /// was before.
    pub(crate) fn run_screened(
        &self,
        ready: &Ready,
        params: &[u8],
    ) -> Result<Option<Duration>, Error> {
        let mut desc = self.desc(&ready.variant, &ready.code, Vec::new())?;
        let module = &self.kernel.module;
        let device = &module.device;
        let arena = &device.arena;
        let _user = arena.use_tables();
        // Variables must have their places before tables and a copy of memory are made.
        if module.memory.symbols(&ready.code.symbols).is_err() {
            return Ok(None);
        }
        let Some((tables, of_screen)) = self.tables(ready) else {
            return Ok(None);
        };
        let screened = &ready.screen.screened;
        let snapshot = screened.writes.then(|| arena.snapshot());
        if ready.wanted.init {
            arena.mark_unwritten(&tables, UNWRITTEN);
        }
        let flag = of_screen.flag;
        arena.write_tables(flag, &[0]);
        desc.params = params.to_vec();
        desc.params.resize(screened.params_at as usize, 0);
        desc.params.extend(of_screen.to_bytes());
        desc.param_bytes = desc.params.len() as u32;
        desc.threads = Some(1);
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
    fn tables(&self, ready: &Ready) -> Option<(TagTables, Params)> {
        let arena = &self.kernel.module.device.arena;
        let screened = &ready.screen.screened;
        if ready.variant.memcheck {
            // Tables are marked as valid as they grow.
            arena.prepare_checks().ok()?;
        }
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
        let base = arena.take_tags(tags as u32)?;
        let start = arena.grow_tables(all).ok()?;
        let shared = [0, 1, 2].map(|idx| start + PAGE + idx * shared_bytes + PAD);
        let first = start + PAGE + 3 * shared_bytes;
        let device = [0, 1, 2]
            .map(|idx: u64| (first + idx * device_bytes).wrapping_sub(low.wrapping_mul(scale)));
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
