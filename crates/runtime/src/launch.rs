//! A launch from the host's side: what it takes, what is checked before anything runs, what comes
//! back.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ptxjit_abi::CompiledKernel;
use ptxjit_ir::{KernelAttrs, MAX_LOCAL_BYTES};

use crate::counters::Counters;
use crate::error::{LaunchError, ShapeRule};
use crate::grid::{Grid, MAX_IN_FLIGHT};
use crate::memory::{Pattern, READ_ONLY};
use crate::module::ModuleMemory;
use crate::runtime::{MAX_PARAM_BYTES, Runtime};
use crate::sched::shortcuts;
use crate::traces::Traces;

/// Static and dynamic shared memory that a CTA may have.
pub const MAX_SHARED_BYTES: u32 = ptxjit_ir::MAX_SHARED_BYTES as u32;

/// Threads that a CTA may have.
pub const MAX_THREADS: u32 = 1024;

const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];

/// CTAs that a cluster may have.
const MAX_CLUSTER: u64 = ptxjit_ir::MAX_CLUSTER as u64;

/// Bytes of the workspace of grid-wide synchronisation: its size, then the barrier's word, both
/// `u32`.
const WORKSPACE_BYTES: u64 = 256;

/// In what order the threads of a launch make progress.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Schedule {
    /// All workers take CTAs in ascending order, as it comes.
    #[default]
    Parallel,
    /// One worker, a fixed order.
    Deterministic,
    /// One worker, an order of CTAs and gangs drawn from a seed; the same seed gives the same
    /// order.
    Seed(u64),
}

/// Takes what device code prints; called once per `printf`, by any worker.
pub type OutputFn = dyn Fn(&[u8]) + Send + Sync;

/// Cancels launches. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<Flag>);

impl CancelToken {
    /// Cancels every launch that has this token, now and later.
    pub fn cancel(&self) {
        self.0.set();
    }

    /// Whether [`CancelToken::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_set()
    }
}

/// Makes the code for some lanes of a gang, see [`CompiledKernel::whole_gangs`]. Says why it
/// cannot.
pub type MakeCode = dyn Fn() -> Result<Arc<CompiledKernel>, String> + Send + Sync;

/// Tells whether a kernel may access so many bytes at an address in the memory of another device.
#[derive(Clone)]
pub struct PeerGuard(pub Arc<dyn Fn(u64, u64) -> bool + Send + Sync>);

impl std::fmt::Debug for PeerGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PeerGuard")
    }
}

/// Everything about one launch.
#[derive(Clone)]
pub struct LaunchDesc {
    /// The kernel, compiled under facts that hold for this launch.
    pub kernel: Arc<CompiledKernel>,
    /// Makes the code to go on with where lanes of a gang stop apart; must be there if `kernel` is
    /// for whole gangs only.
    pub for_some_lanes: Option<Arc<MakeCode>>,
    /// Its name, for reports.
    pub name: Arc<str>,
    /// Its attributes.
    pub attrs: KernelAttrs,
    /// Bytes that its parameters take.
    pub param_bytes: u32,
    /// The parameter block.
    pub params: Vec<u8>,
    /// Its module's variables.
    pub module: Arc<ModuleMemory>,
    /// CTAs of the grid.
    pub grid: [u32; 3],
    /// `%ctaid.x` of the first CTA in each row. The others follow; `%nctaid` tells of these CTAs
    /// alone.
    pub first_column: u32,
    /// Threads of a CTA.
    pub block: [u32; 3],
    /// So many CTAs side by side along x run as one; 1 if each runs by itself. The grid's x is a
    /// multiple of it, and the kernel is one that cannot tell.
    pub joined: u32,
    /// Explicit cluster shape.
    pub cluster: Option<[u32; 3]>,
    /// Dynamic shared memory.
    pub shared_bytes: u32,
    /// All CTAs are started before any is waited for, and may synchronise.
    pub cooperative: bool,
    /// Workers to use; all if none.
    pub threads: Option<usize>,
    /// Every address of the process may be accessed, not only device memory: what is not mapped
    /// faults, all else is the kernel's to read and write. The caller that sets this vouches for
    /// the kernel.
    pub open_memory: bool,
    /// Whether the kernel may access bytes in the other devices' parts of the arena; all of them if
    /// none. With this, the kernel must be compiled to ask about addresses.
    pub peers: Option<PeerGuard>,
    /// The kernel was compiled to check every access exactly.
    pub checks_accesses: bool,
    /// Order of progress.
    pub schedule: Schedule,
    /// Time limit.
    pub timeout: Option<Duration>,
    /// Cancellation.
    pub cancel: Option<CancelToken>,
    /// Takes what the kernel prints; standard output if none.
    pub output: Option<Arc<OutputFn>>,
    /// Takes what the kernel counts; must be there, with as many counters, if it counts.
    pub counters: Option<Arc<Counters>>,
    /// Takes what the kernel asks of memory; it must have as many places.
    pub traces: Option<Arc<Traces>>,
}

impl LaunchDesc {
    /// The grid and the CTAs of which it consists, with those that run as one.
    pub(crate) fn joined_shape(&self) -> [[u32; 3]; 2] {
        let ([x, y, z], [width, height, depth]) = (self.grid, self.block);
        [
            [x / self.joined, y, z],
            [width * self.joined, height, depth],
        ]
    }
}

/// What a launch did.
#[derive(Copy, Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct LaunchStats {
    /// CTAs that ran.
    pub n_ctas: u64,
    /// Workers that could take part.
    pub n_workers: usize,
    /// Wall time.
    pub time: Duration,
}

impl Runtime {
    /// Runs a kernel to its end. A fault of the kernel is an error; the process and later launches
    /// are fine.
    pub fn launch(&self, desc: &LaunchDesc) -> Result<LaunchStats, LaunchError> {
        let start = Instant::now();
        check(desc)?;
        if desc.kernel.gang == 0 || !desc.kernel.gang.is_power_of_two() || desc.kernel.gang > 32 {
            return Err(LaunchError::Invalid(format!(
                "gang width {} is not 1 to 32",
                desc.kernel.gang
            )));
        }
        check_joined(desc)?;
        if desc.cancel.as_ref().is_some_and(CancelToken::is_cancelled) {
            let kernel = desc.name.to_string();
            return Err(LaunchError::Cancelled { kernel });
        }
        let (symbols, consts) = desc.module.bind(&desc.kernel.symbols)?;
        let params = self.shared.take_params(&desc.params)?;
        let workspace = match desc.cooperative {
            true => Some(Workspace::new(self)?),
            false => None,
        };
        let param_range = params.base()..params.base() + desc.params.len() as u64;
        let [grid, block] = desc.joined_shape();
        let n_ctas: u64 = grid.iter().map(|&extent| u64::from(extent)).product();
        let n_workers = self.workers_for(desc, n_ctas);
        let n_warps = block.iter().product::<u32>().div_ceil(32);
        let read_only = (param_range.clone(), consts.clone());
        let mut grid = Grid::new(
            desc,
            self.shared.clone(),
            param_range,
            consts,
            symbols,
            workspace.as_ref().map_or([0; 32], Workspace::envreg),
            n_workers,
            shortcuts(&desc.kernel.resume_points, n_warps),
        );
        if let Some(guard) = &desc.peers {
            grid.guard_peers(self.part(), guard.clone());
        }
        if desc.checks_accesses {
            grid.map_origin = Some(self.arena().map_origin()?);
            self.mark_read_only(desc, read_only);
        }
        let grid = Arc::new(grid);
        let result = self.run(&grid, desc);
        self.shared.give_params(params);
        result?;
        Ok(LaunchStats {
            n_ctas: grid.n_done() * u64::from(desc.joined),
            n_workers: n_workers as usize,
            time: start.elapsed(),
        })
    }

    /// Tells the map of valid memory which bytes are parameters and constant variables.
    fn mark_read_only(&self, desc: &LaunchDesc, (params, consts): (Range<u64>, Range<u64>)) {
        let vars = exact_parts(consts.clone(), desc.module.const_vars());
        for (bytes, valid) in [(params.clone(), vec![params]), (consts, vars)] {
            let most = bytes.end.max(bytes.start + MAX_PARAM_BYTES);
            self.arena()
                .mark_window(bytes.start..most, valid.into_iter(), READ_ONLY);
        }
    }

    fn workers_for(&self, desc: &LaunchDesc, n_ctas: u64) -> u32 {
        let n_workers = match desc.schedule {
            Schedule::Parallel => desc
                .threads
                .map_or(self.shared.n_workers, |n| n.clamp(1, 1024) as u32),
            Schedule::Deterministic | Schedule::Seed(_) => 1,
        };
        n_workers
            .min(self.shared.n_workers)
            .min(u32::try_from(n_ctas).unwrap_or(u32::MAX))
    }

    /// The launching thread works too; it does not wait for pool threads that come too late to find
    /// work.
    fn run(&self, grid: &Arc<Grid>, desc: &LaunchDesc) -> Result<(), LaunchError> {
        let pool = match grid.n_workers {
            0 | 1 => None,
            _ => Some(self.shared.pool()?),
        };
        let is_watched = desc.timeout.is_some() || desc.cancel.is_some();
        if is_watched {
            self.shared
                .watchdog
                .watch(grid, desc.timeout, desc.cancel.as_ref())?;
        }
        for worker in 1..grid.n_workers {
            let grid = grid.clone();
            if let Some(pool) = pool {
                pool.spawn(move || grid.work(worker));
            }
        }
        grid.work(0);
        let result = grid.finish();
        if is_watched {
            self.shared.watchdog.release(grid);
        }
        result
    }
}

/// What CUDA checks before a kernel starts.
fn check(desc: &LaunchDesc) -> Result<(), LaunchError> {
    let checks = [check_block, check_grid, check_sizes, check_cluster];
    for check in checks {
        check(desc).map_err(|(rule, message)| LaunchError::Shape {
            rule,
            message: format!("kernel `{}`: {message}", desc.name),
        })?;
    }
    Ok(())
}

/// A broken rule, in words.
type Broken = (ShapeRule, String);

fn shape([x, y, z]: [u32; 3]) -> String {
    format!("({x}, {y}, {z})")
}

fn is_over(value: [u32; 3], limit: [u32; 3]) -> bool {
    (0..3).any(|axis| value[axis] == 0 || value[axis] > limit[axis])
}

fn check_block(desc: &LaunchDesc) -> Result<(), Broken> {
    let block = desc.block;
    if is_over(block, MAX_BLOCK) {
        let (given, limit) = (shape(block), shape(MAX_BLOCK));
        let message = format!("block {given} is not within (1, 1, 1) and {limit}");
        return Err((ShapeRule::Block, message));
    }
    let n_threads: u32 = block.iter().product();
    let too_large = || format!("a block of {n_threads} threads is too large");
    if n_threads > MAX_THREADS {
        let message = format!("{}: the limit is {MAX_THREADS}", too_large());
        return Err((ShapeRule::Block, message));
    }
    if let Some(required) = desc.attrs.req_ntid.filter(|&required| required != block) {
        let (given, required) = (shape(block), shape(required));
        let message = format!("block {given} is not {required}, which `.reqntid` requires");
        return Err((ShapeRule::Threads, message));
    }
    if let Some(limit) = desc.attrs.max_threads.filter(|&limit| n_threads > limit) {
        let message = format!("{}: `.maxntid` allows {limit}", too_large());
        return Err((ShapeRule::Threads, message));
    }
    Ok(())
}

fn check_grid(desc: &LaunchDesc) -> Result<(), Broken> {
    if is_over(desc.grid, MAX_GRID) {
        let (given, limit) = (shape(desc.grid), shape(MAX_GRID));
        let message = format!("grid {given} is not within (1, 1, 1) and {limit}");
        return Err((ShapeRule::Grid, message));
    }
    let n_ctas: u64 = desc.grid.iter().map(|&extent| u64::from(extent)).product();
    if desc.cooperative && n_ctas > MAX_IN_FLIGHT as u64 {
        let message = format!(
            "a cooperative launch of {n_ctas} CTAs is too large: the limit is {MAX_IN_FLIGHT}"
        );
        return Err((ShapeRule::Cooperative, message));
    }
    Ok(())
}

fn check_sizes(desc: &LaunchDesc) -> Result<(), Broken> {
    let (given, needed) = (desc.params.len() as u64, u64::from(desc.param_bytes));
    if given != needed {
        let message = format!("{given} bytes of parameters given, {needed} needed");
        return Err((ShapeRule::Params, message));
    }
    if needed > MAX_PARAM_BYTES {
        let message =
            format!("{needed} bytes of parameters are too many: the limit is {MAX_PARAM_BYTES}");
        return Err((ShapeRule::Params, message));
    }
    let layout = &desc.kernel.shared;
    let shared = u64::from(layout.static_size - layout.padding) + u64::from(desc.shared_bytes);
    if shared > u64::from(MAX_SHARED_BYTES) {
        let message = format!(
            "{shared} bytes of shared memory are too many: the limit is {MAX_SHARED_BYTES}"
        );
        return Err((ShapeRule::Shared, message));
    }
    let local = u64::from(desc.kernel.local_static);
    if local > MAX_LOCAL_BYTES {
        let message = format!(
            "{local} bytes of local memory for each thread are too many: the limit is {MAX_LOCAL_BYTES}"
        );
        return Err((ShapeRule::Local, message));
    }
    Ok(())
}

fn check_cluster(desc: &LaunchDesc) -> Result<(), Broken> {
    let broken = |message: String| Err((ShapeRule::Cluster, message));
    let Some(cluster) = desc.cluster.or(desc.attrs.req_cluster) else {
        return match desc.attrs.explicit_cluster {
            true => broken("`.explicitcluster` requires a launch with clusters".into()),
            false => Ok(()),
        };
    };
    if let (Some(given), Some(required)) = (desc.cluster, desc.attrs.req_cluster)
        && given != required
    {
        return broken(format!(
            "cluster {given:?} is not {required:?}, which `.reqnctapercluster` requires"
        ));
    }
    let extents = cluster.iter().map(|&extent| u64::from(extent));
    let size = extents.fold(1u64, u64::saturating_mul);
    if size == 0 || size > MAX_CLUSTER {
        return broken(format!(
            "a cluster of {size} CTAs is not within 1 and {MAX_CLUSTER}"
        ));
    }
    if let Some(limit) = desc.attrs.max_cluster_rank.filter(|&n| size > n.into()) {
        return broken(format!(
            "a cluster of {size} CTAs is too large: `.maxclusterrank` allows {limit}"
        ));
    }
    if (0..3).any(|axis| !desc.grid[axis].is_multiple_of(cluster[axis])) {
        return broken(format!(
            "grid {:?} is no multiple of cluster {cluster:?}",
            desc.grid
        ));
    }
    Ok(())
}

fn check_joined(desc: &LaunchDesc) -> Result<(), LaunchError> {
    let n_threads: u32 = desc.block.iter().product();
    let is_possible = desc.grid[0].is_multiple_of(desc.joined)
        && n_threads.saturating_mul(desc.joined) <= MAX_THREADS;
    let (joined, block) = (desc.joined, shape(desc.block));
    match joined == 1 || joined != 0 && is_possible && desc.cluster.is_none() {
        true => Ok(()),
        false => Err(LaunchError::Invalid(format!(
            "{joined} CTAs of {block} threads cannot run as one"
        ))),
    }
}

/// The memory that cooperative groups' grid-wide barrier works in; `%envreg1` and `%envreg2` hold
/// its address.
struct Workspace<'a> {
    runtime: &'a Runtime,
    addr: u64,
}

impl Workspace<'_> {
    fn new(runtime: &Runtime) -> Result<Workspace<'_>, LaunchError> {
        let arena = runtime.arena();
        let addr = arena.alloc(runtime.part(), WORKSPACE_BYTES, 256)?;
        let workspace = Workspace { runtime, addr };
        arena.fill(addr, Pattern::U8(0), WORKSPACE_BYTES)?;
        arena.write(addr, &(WORKSPACE_BYTES as u32).to_le_bytes())?;
        Ok(workspace)
    }

    fn envreg(&self) -> [u32; 32] {
        let mut envreg = [0; 32];
        (envreg[1], envreg[2]) = ((self.addr >> 32) as u32, self.addr as u32);
        envreg
    }
}

impl Drop for Workspace<'_> {
    fn drop(&mut self) {
        // Allocated above and freed only here.
        let _ = self.runtime.arena().free(self.addr);
    }
}

/// The constant variables, if each starts where the map of valid memory can have a boundary; else
/// all that is in use. Those that were placed before any launch was checked may lie side by side.
fn exact_parts(all: Range<u64>, vars: Vec<Range<u64>>) -> Vec<Range<u64>> {
    match vars.iter().all(|var| var.start.is_multiple_of(16)) {
        true => vars,
        false => vec![all],
    }
}

/// A flag that many may look at, for tests and tokens.
#[derive(Debug, Default)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
