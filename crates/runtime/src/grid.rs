//! One launch in flight: what its CTAs share, who works on it, and how it ends.
//!
//! Workers take chunks of CTAs in ascending order. A CTA belongs to the worker that started it and
//! never runs on two at once. A worker whose started CTAs all only yield starts the next one, since
//! that may be the one they wait for.
//!
//! # Ending
//!
//! ```text
//! running --last CTA done--> ended
//!    |  first fault, time limit, cancellation: `stop` set, error recorded
//!    v
//! stopping: workers leave at their next look at `stop`; those inside compiled code get the stop
//!           signal, again and again, from threads that wait for them --last worker gone--> ended
//! ```
//!
//! `stop` is only a hint to look at the recorded error, which a mutex guards; so its accesses need
//! no ordering.

mod clusters;
mod reach;

use std::collections::VecDeque;
use std::io::Write;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ptxjit_abi::{CompiledKernel, CtaContext, RuntimeFns};
use smallvec::SmallVec;

use crate::builtins;
use crate::code::Code;
use crate::counters::{Counters, Table};
use crate::error::LaunchError;
use crate::fault;
use crate::launch::{OutputFn, PeerGuard, Schedule};
use crate::memory::Arena;
use crate::runtime::Shared;
use crate::sched::cta::Cta;
use crate::sched::{GoOn, Outcome, PerPoint, Rng, Runner, Shortcut};
use crate::supply::{Supply, ctaid_of};
use crate::thread;
use crate::traces::Traces;
use crate::worker::Worker;

/// Rounds of nothing but yielding before a CTA is put aside for the first time.
const PATIENCE: u32 = 8;

/// CTAs that a worker keeps in flight at most.
pub(crate) const MAX_IN_FLIGHT: usize = 2048;

/// CTAs put aside that get a turn before the next CTA is started.
const TURNS_BETWEEN_STARTS: usize = 8;

/// How often those who wait for workers of a stopped launch repeat the stop signal.
pub(crate) const SIGNAL_PERIOD: Duration = Duration::from_millis(2);

/// Threads of CTAs that take turns, together: in a step of a loop each accesses some word next to
/// its neighbor's, so these are some pages.
const WAVE_THREADS: u32 = 4096;

/// Shared memory of CTAs that take turns, together: it should stay in the first cache.
const WAVE_SHARED_BYTES: u32 = 24 << 10;

/// Addresses of a process have so many bits.
const USER_BITS: u32 = if cfg!(target_arch = "x86_64") { 47 } else { 48 };

/// See the module.
pub(crate) struct Grid {
    pub(crate) kernel: Arc<CompiledKernel>,
    pub(crate) code: Code,
    pub(crate) name: Arc<str>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) arena: Arc<Arena>,
    pub(crate) grid: [u32; 3],
    /// `%ctaid.x` of the first CTA in each row.
    first_column: u32,
    pub(crate) block: [u32; 3],
    /// CTAs of the launch, side by side along x, that each of these is.
    joined: u32,
    pub(crate) cluster: Option<[u32; 3]>,
    /// CTAs are started and run by clusters: these have several, or wait as such.
    pub(crate) in_clusters: bool,
    /// Static and dynamic shared memory of a CTA.
    pub(crate) shared_bytes: u32,
    pub(crate) dynamic_shared: u32,
    pub(crate) params: Range<u64>,
    pub(crate) consts: Range<u64>,
    pub(crate) symbols: Vec<u64>,
    pub(crate) fns: RuntimeFns,
    pub(crate) envreg: [u32; 32],
    pub(crate) grid_id: u64,
    /// Of a thread, for recursion and `alloca`: the same for all CTAs of the launch.
    pub(crate) stack_bytes: u64,
    pub(crate) n_workers: u32,
    pub(crate) schedule: Schedule,
    pub(crate) cooperative: bool,
    /// See [`crate::launch::LaunchDesc::open_memory`].
    pub(crate) open_memory: bool,
    /// The device's part of the arena, and what the kernel may access in the others; everything if
    /// none.
    peers: Option<(u32, PeerGuard)>,
    pub(crate) shortcuts: PerPoint<Shortcut>,
    pub(crate) go_on: GoOn,
    /// CTAs that take turns.
    pub(crate) wave: usize,
    /// Compiled code looks at lane states to see which lanes have ended.
    pub(crate) looks_at_ended_lanes: bool,
    /// Accesses are checked by the map of valid memory, whose origin this is.
    pub(crate) map_origin: Option<u64>,
    pub(crate) output: Option<Arc<OutputFn>>,
    counters: Option<Arc<Counters>>,
    pub(crate) traces: Option<Arc<Traces>>,
    /// CTAs that no worker has taken yet start here.
    pub(crate) next: AtomicU64,
    /// Not zero when everybody shall stop; compiled code polls it.
    stop: AtomicU32,
    state: Mutex<State>,
    /// Signalled when a worker leaves, and when the launch is stopped.
    changed: Condvar,
    /// CTAs that have run to their end.
    done: AtomicU64,
}

#[derive(Default)]
struct State {
    error: Option<LaunchError>,
    /// Threads that work on the launch now.
    workers: SmallVec<[libc::pthread_t; 8]>,
    /// Late workers stay out.
    closed: bool,
    /// Threads that wait for workers to leave: signalling none costs a system call all the same.
    n_waiting: u32,
}

impl Grid {
    /// The parts of a launch that `Grid` itself keeps track of.
    #[expect(
        clippy::too_many_arguments,
        reason = "called once, by the launch, which has computed all of them"
    )]
    pub(crate) fn new(
        launch: &crate::launch::LaunchDesc,
        shared: Arc<Shared>,
        params: Range<u64>,
        consts: Range<u64>,
        symbols: Vec<u64>,
        envreg: [u32; 32],
        n_workers: u32,
        shortcuts: PerPoint<Shortcut>,
    ) -> Grid {
        let shared_bytes = launch.kernel.shared.static_size + launch.shared_bytes;
        let [grid, block] = launch.joined_shape();
        let cluster = launch.cluster.or(launch.attrs.req_cluster);
        let waits = |shortcut: &Shortcut| *shortcut == Shortcut::ClusterWait;
        let in_clusters =
            cluster.is_some_and(|cluster| cluster != [1; 3]) || shortcuts.iter().any(waits);
        let wave = match shortcuts.contains(&Shortcut::StripMine) && !in_clusters {
            true => wave(block.iter().product(), shared_bytes),
            false => 1,
        };
        Grid {
            kernel: launch.kernel.clone(),
            code: Code::new(launch),
            name: launch.name.clone(),
            arena: shared.arena.clone(),
            grid,
            first_column: launch.first_column,
            block,
            joined: launch.joined,
            cluster,
            in_clusters,
            shared_bytes,
            dynamic_shared: launch.shared_bytes,
            params,
            consts,
            symbols,
            fns: builtins::FUNCTIONS,
            envreg,
            grid_id: shared.next_grid_id(),
            stack_bytes: shared.stack_bytes(),
            n_workers,
            schedule: launch.schedule,
            cooperative: launch.cooperative,
            open_memory: launch.open_memory,
            peers: None,
            wave,
            go_on: GoOn::new(&launch.kernel.resume_points, &shortcuts, wave > 1),
            shortcuts,
            looks_at_ended_lanes: launch.kernel.looks_at_ended_lanes(),
            map_origin: None,
            output: launch.output.clone(),
            counters: launch.counters.clone(),
            traces: launch.traces.clone(),
            next: AtomicU64::new(0),
            stop: AtomicU32::new(0),
            state: Mutex::default(),
            changed: Condvar::new(),
            done: AtomicU64::new(0),
            shared,
        }
    }

    /// Threads of a CTA.
    pub(crate) fn n_threads(&self) -> u32 {
        self.block.iter().product()
    }

    /// CTAs of the grid.
    pub(crate) fn n_ctas(&self) -> u64 {
        self.grid.iter().map(|&extent| u64::from(extent)).product()
    }

    /// CTAs of a cluster.
    pub(crate) fn cluster_size(&self) -> u32 {
        self.cluster.map_or(1, |cluster| cluster.iter().product())
    }

    /// What workers take: CTAs, or clusters of them.
    pub(crate) fn n_units(&self) -> u64 {
        match self.in_clusters {
            true => self.n_ctas() / u64::from(self.cluster_size()),
            false => self.n_ctas(),
        }
    }

    /// Whether lanes only ever end, and their states are not written.
    pub(crate) fn never_waits(&self) -> bool {
        self.kernel.resume_points.len() <= 1
    }

    /// Whether a CTA is ready to be another when it has ended: nothing but its number tells it from
    /// one just started.
    fn may_follow(&self) -> bool {
        // Which CTAs are traced is told when they start.
        let is_told = self.traces.is_some();
        let resets = self.kernel.uses_stack || self.looks_at_ended_lanes || is_told;
        !resets && self.cluster.is_none() && !self.cooperative
    }

    /// CTAs that have run to their end.
    pub(crate) fn n_done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Fills in what is the same for all CTAs.
    pub(crate) fn fill_context(&self, ctx: &mut CtaContext) {
        let cluster = self.cluster.unwrap_or([1; 3]);
        ctx.params = self.params.start;
        ctx.map_origin = self.map_origin.unwrap_or(0);
        ctx.symbols = self.symbols.as_ptr();
        let (base, bits) = self.reach();
        (ctx.arena_base, ctx.arena_bits) = (base, u64::from(bits));
        ctx.const_base = self.consts.start;
        ctx.poll = self.stop.as_ptr().cast_const();
        ctx.fns = &raw const self.fns;
        ctx.user = (&raw const *self).cast_mut().cast();
        ctx.ntid = self.block;
        ctx.nctaid = self.grid;
        ctx.n_threads = self.n_threads();
        ctx.nclusterid = std::array::from_fn(|axis| self.grid[axis] / cluster[axis]);
        ctx.cluster_nctaid = cluster;
        ctx.is_explicit_cluster = u32::from(self.cluster.is_some());
        ctx.gridid = self.grid_id;
        ctx.nsmid = self.n_workers;
        ctx.envreg = self.envreg;
        ctx.dynamic_smem_size = self.dynamic_shared;
        ctx.total_smem_size = self.shared_bytes;
    }

    /// Fills in what tells one CTA from another.
    pub(crate) fn fill_cta(&self, ctx: &mut CtaContext, ctaid: [u32; 3]) {
        ctx.ctaid = ctaid;
        match self.cluster {
            // Without clusters each CTA is one by itself.
            None => ctx.clusterid = ctaid,
            Some(cluster) => {
                ctx.clusterid = std::array::from_fn(|axis| ctaid[axis] / cluster[axis]);
                ctx.cluster_ctaid = std::array::from_fn(|axis| ctaid[axis] % cluster[axis]);
                let [x, y, z] = ctx.cluster_ctaid;
                ctx.cluster_ctarank = x + cluster[0] * (y + cluster[1] * z);
            }
        }
    }

    /// Whether workers shall stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) != 0
    }

    /// Stops the launch because of `error`, unless it is stopped already.
    pub(crate) fn fail(&self, error: LaunchError) {
        let error = error.with_ctas_apart(self.joined, self.block[0] / self.joined);
        let mut state = self.lock();
        state.error.get_or_insert(error);
        self.stop.store(1, Ordering::Relaxed);
        self.notify(&state);
    }

    /// The error that stopped the launch.
    pub(crate) fn stop_error(&self) -> LaunchError {
        let cancelled = || LaunchError::Cancelled {
            kernel: self.name.to_string(),
        };
        self.lock().error.clone().unwrap_or_else(cancelled)
    }

    /// Hands on what the kernel prints, one call of `printf` at a time.
    pub(crate) fn print(&self, text: &[u8]) {
        match &self.output {
            Some(output) => output(text),
            // A closed standard output is no fault of the kernel.
            None => drop(std::io::stdout().lock().write_all(text)),
        }
    }

    /// Tells those who wait that workers have left or shall leave.
    fn notify(&self, state: &State) {
        if state.n_waiting != 0 {
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements that could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works on the launch until nothing is left to take or it is stopped. `worker` numbers the
    /// thread.
    pub(crate) fn work(&self, worker: u32) {
        {
            let mut state = self.lock();
            if state.closed {
                return;
            }
            state.workers.push(fault::this_thread());
        }
        let run = std::panic::AssertUnwindSafe(|| run_ctas(self, worker));
        match std::panic::catch_unwind(run) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.fail(error),
            Err(_) => self.fail(LaunchError::System(
                "internal error: a worker panicked".into(),
            )),
        }
        let mut state = self.lock();
        let me = fault::this_thread();
        state.workers.retain(|thread| *thread != me);
        self.notify(&state);
        if self.is_stopped() {
            drop(self.wait_for_workers(state));
        }
    }

    /// Lets no more workers in, waits for those at work, and returns how the launch ended.
    pub(crate) fn finish(&self) -> Result<(), LaunchError> {
        let mut state = self.lock();
        state.closed = true;
        let state = self.wait_for_workers(state);
        state.error.clone().map_or(Ok(()), Err)
    }

    fn wait_for_workers<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while !state.workers.is_empty() {
            state.n_waiting += 1;
            if self.is_stopped() {
                // The threads cannot end while they are listed, and taking them off the list needs
                // the lock.
                state
                    .workers
                    .iter()
                    .for_each(|&thread| fault::send_stop(thread));
                let waited = self.changed.wait_timeout(state, SIGNAL_PERIOD);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            } else {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            state.n_waiting -= 1;
        }
        state
    }

    /// Asks the workers at work to leave compiled code. They may not be able to just now: ask
    /// again.
    pub(crate) fn signal_workers(&self) {
        // The threads cannot end while they are listed, and taking them off the list needs the
        // lock.
        self.lock()
            .workers
            .iter()
            .for_each(|&thread| fault::send_stop(thread));
    }
}

/// How many CTAs take turns.
fn wave(n_threads: u32, shared_bytes: u32) -> usize {
    let few = WAVE_SHARED_BYTES / shared_bytes.max(1);
    (WAVE_THREADS / n_threads.max(1)).min(few).clamp(1, 64) as usize
}

/// A worker's part of the launch.
fn run_ctas(grid: &Grid, worker: u32) -> Result<(), LaunchError> {
    let faults = match grid.arena.has_foreign() || grid.peers.is_some() {
        true => (0, USER_BITS),
        false => grid.reach(),
    };
    let means = Worker::new(faults, grid.kernel.flush_denormals)?;
    let rng = match grid.schedule {
        Schedule::Seed(seed) => Some(Rng::new(seed)),
        Schedule::Parallel | Schedule::Deterministic => None,
    };
    let mut ctas = Ctas {
        grid,
        worker,
        counters: grid.counters.as_deref().map(Table::new),
        idle: SmallVec::new(),
        n_in_flight: 0,
        n_done: 0,
    };
    let mut runner = Runner {
        grid,
        worker: means,
        rng,
    };
    if grid.in_clusters {
        return clusters::run(runner, &mut ctas);
    }
    let mut supply = Supply::new(grid);
    let mut aside: VecDeque<Box<Cta>> = VecDeque::new();
    let mut wave: Vec<Box<Cta>> = Vec::new();
    let follows = runner.rng.is_none() && grid.may_follow();
    loop {
        if grid.is_stopped() {
            return Err(grid.stop_error());
        }
        let started = match supply.next(&mut runner.rng) {
            None => None,
            Some(idx) => match ctas.start(idx, runner.rng.is_some()) {
                Ok(mut cta) => {
                    let may_follow = follows && aside.is_empty() && !grid.kernel.is_quick();
                    let n = if may_follow {
                        supply.n_following(idx)
                    } else {
                        0
                    };
                    cta.let_follow(n);
                    Some((cta, n))
                }
                // A cooperative grid can do nothing without all of its CTAs; others make room as
                // they end.
                Err(error) if aside.is_empty() || grid.cooperative => return Err(error),
                Err(_) => {
                    supply.put_back(idx);
                    None
                }
            },
        };
        let fresh = started.is_some();
        if let Some((mut cta, n)) = started {
            let outcome = runner.run(&mut cta, PATIENCE)?.0;
            let n = n - cta.n_left();
            supply.skip(n);
            ctas.n_done += u64::from(n);
            match outcome {
                Outcome::Done => ctas.done(cta)?,
                Outcome::Spinning | Outcome::AtCluster => aside.push_back(cta),
                Outcome::StripMine => wave.push(cta),
            }
        }
        if wave.len() >= grid.wave || !fresh && !wave.is_empty() {
            run_wave(&mut runner, &mut ctas, &mut wave, &mut aside)?;
        }
        if !wave.is_empty() {
            continue;
        }
        if aside.is_empty() {
            if fresh { continue } else { return Ok(()) }
        }
        if !fresh || !grid.cooperative {
            take_turns(&mut runner, &mut ctas, &mut aside, fresh)?;
        }
    }
}

/// Runs CTAs that alternate until none is left.
#[expect(
    clippy::vec_box,
    reason = "contexts are large and move between lists all the time"
)]
fn run_wave(
    runner: &mut Runner<'_>,
    ctas: &mut Ctas<'_>,
    wave: &mut Vec<Box<Cta>>,
    aside: &mut VecDeque<Box<Cta>>,
) -> Result<(), LaunchError> {
    while !wave.is_empty() {
        for mut cta in std::mem::take(wave) {
            match runner.run(&mut cta, PATIENCE)?.0 {
                Outcome::Done => ctas.done(cta)?,
                Outcome::Spinning | Outcome::AtCluster => aside.push_back(cta),
                Outcome::StripMine => wave.push(cta),
            }
        }
    }
    Ok(())
}

/// Gives CTAs that were put aside a turn each: some of them if there are others to start, else all.
fn take_turns(
    runner: &mut Runner<'_>,
    ctas: &mut Ctas<'_>,
    aside: &mut VecDeque<Box<Cta>>,
    more_to_start: bool,
) -> Result<(), LaunchError> {
    let mut n_turns = if more_to_start {
        aside.len().min(TURNS_BETWEEN_STARTS)
    } else {
        aside.len()
    };
    let mut any_progress = false;
    while n_turns > 0 {
        let Some(mut cta) = aside.pop_front() else {
            break;
        };
        let (outcome, progress) = runner.run(&mut cta, 1)?;
        any_progress |= progress;
        match outcome {
            Outcome::Done => ctas.done(cta)?,
            Outcome::Spinning | Outcome::StripMine | Outcome::AtCluster => aside.push_back(cta),
        }
        n_turns -= 1;
    }
    if !any_progress && !more_to_start {
        // What they wait for is up to another worker, which may need this core.
        std::thread::yield_now();
    }
    Ok(())
}

/// A worker's stock of CTA contexts.
struct Ctas<'a> {
    grid: &'a Grid,
    worker: u32,
    counters: Option<Table<'a>>,
    /// Laid out for this launch and not in use.
    idle: SmallVec<[Box<Cta>; 2]>,
    n_in_flight: usize,
    n_done: u64,
}

impl Ctas<'_> {
    /// Starts the CTA with this linear index.
    fn start(&mut self, idx: u64, lane_wise: bool) -> Result<Box<Cta>, LaunchError> {
        let mut cta = match self.idle.pop() {
            Some(cta) => cta,
            None if self.n_in_flight >= MAX_IN_FLIGHT => {
                return Err(LaunchError::System("too many CTAs in flight".into()));
            }
            None => {
                let mut cta = self.grid.shared.take_cta();
                cta.prepare(self.grid, self.worker, None)?;
                cta.set_counters(self.counters.as_ref());
                cta
            }
        };
        self.n_in_flight += 1;
        let mut ctaid = ctaid_of(idx, self.grid.grid);
        ctaid[0] += self.grid.first_column;
        cta.start(self.grid, ctaid, lane_wise);
        Ok(cta)
    }

    /// Takes a CTA whose threads have ended.
    fn done(&mut self, mut cta: Box<Cta>) -> Result<(), LaunchError> {
        thread::finish(self.grid, cta.ctx())?;
        if let Some(leak) = cta.tensor.leak() {
            return Err(self.grid.leaked(&leak));
        }
        self.n_in_flight -= 1;
        self.n_done += 1;
        self.idle.push(cta);
        Ok(())
    }
}

impl Drop for Ctas<'_> {
    fn drop(&mut self) {
        self.grid.done.fetch_add(self.n_done, Ordering::Relaxed);
        for cta in self.idle.drain(..) {
            self.grid.shared.give_cta(cta);
        }
    }
}
