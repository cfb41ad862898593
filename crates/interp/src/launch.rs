//! The description of a launch, and the loop over its CTAs.

use std::ops::Range;

use ptxjit_device::asynchronous::Queue;
use ptxjit_device::tcgen05::TensorMemory;
use ptxjit_ir::{
    FuncId, Function, MAX_CLUSTER, MAX_SHARED_BYTES, Program, RelocTarget, SharedLayout, Space,
    SrcLoc,
};

use crate::access::LOCAL_BASE;
use crate::bounds::shared_objects;
use crate::choose::{Chooser, NextCta, Recorder, Replay, Schedule, Task, Turns};
use crate::cluster::Cluster;
use crate::fault::{Fault, FaultKind};
use crate::host::Host;
use crate::memory::Memory;
use crate::planned::Plan;
use crate::postdom::PostDominators;
use crate::watch::finding::Finding;
use crate::watch::{Allocated, Checks, LastWrites, Names, Watch};

/// A launch of a program's kernel.
#[derive(Clone)]
pub struct Launch<'a> {
    /// What to run.
    pub program: &'a Program,
    /// CTAs in each dimension.
    pub grid: [u32; 3],
    /// Threads of a CTA in each dimension.
    pub block: [u32; 3],
    /// CTAs of a cluster in each dimension, if the launch names them; the kernel may require some.
    pub cluster: Option<[u32; 3]>,
    /// The parameter block.
    pub params: &'a [u8],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// Generic address of a `.global` variable or a function's descriptor (16 bytes, whose first
    /// word is the function's number plus one); window offset of a `.const` variable.
    pub symbols: &'a dyn Fn(RelocTarget) -> u64,
    /// Generic address of the `.const` window, which lies in [`Memory`].
    pub const_base: u64,
    /// Size of the `.const` window.
    pub const_size: u64,
    /// Addresses of the variables in it, in ascending order; empty if they are not known.
    pub const_vars: &'a [Range<u64>],
    /// All CTAs are live at once.
    pub cooperative: bool,
    /// `%gridid`.
    pub grid_id: u64,
    /// `%envreg0` to `%envreg31`.
    pub envreg: [u32; 32],
    /// Bounds.
    pub limits: Limits,
    /// What to look for. The program should have marks ([`ptxjit_ir::MarkOp`]) then.
    pub checks: Checks,
    /// In what order threads make progress. Under all schedules but the deterministic one the
    /// program should have marks.
    pub schedule: Schedule,
    /// Whether the choices of the schedule are kept.
    pub records: bool,
    /// Whether [`Watched::writes`] are kept.
    pub keeps_writes: bool,
    /// Choices that were made by a launch with the same schedule, program and shape, to be made
    /// again.
    pub replay: Option<&'a Turns>,
    /// The plan of the kernel for gangs of some width, which run as it says under the deterministic
    /// schedule. The kernel is the function that was planned, and calls no other.
    pub plan: Option<&'a Plan>,
}

/// Bounds of what a thread may use, and of how long it runs at a stretch.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Local memory of a thread.
    pub local_bytes: u64,
    /// Calls inside calls.
    pub call_depth: usize,
    /// Instructions of a thread before the next thread's turn.
    pub quantum: u32,
    /// Instructions of the live CTAs before another CTA is started beside them.
    pub patience: u64,
    /// Whether an access must be aligned to its size.
    pub check_alignment: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            local_bytes: ptxjit_ir::MAX_LOCAL_BYTES,
            call_depth: 1 << 14,
            quantum: 4096,
            patience: 1 << 26,
            check_alignment: true,
        }
    }
}

impl<'a> Launch<'a> {
    /// A launch without dynamic shared memory, constants and symbols.
    pub fn new(
        program: &'a Program,
        grid: [u32; 3],
        block: [u32; 3],
        params: &'a [u8],
    ) -> Launch<'a> {
        Launch {
            program,
            grid,
            block,
            cluster: None,
            params,
            dynamic_shared: 0,
            symbols: &|_| 0,
            const_base: 0,
            const_size: 0,
            const_vars: &[],
            cooperative: false,
            grid_id: 1,
            envreg: [0; 32],
            limits: Limits::default(),
            checks: Checks::default(),
            schedule: Schedule::default(),
            records: false,
            keeps_writes: false,
            replay: None,
            plan: None,
        }
    }
}

impl Launch<'_> {
    /// CTAs of a cluster in each dimension.
    pub(crate) fn cluster_shape(&self) -> [u32; 3] {
        let required = self.program.attrs.req_cluster;
        self.cluster.or(required).unwrap_or([1; 3])
    }

    /// `%is_explicit_cluster`.
    pub(crate) fn has_clusters(&self) -> bool {
        self.cluster.is_some() || self.program.attrs.req_cluster.is_some()
    }
}

/// What came of a launch that was watched.
pub struct Watched {
    /// How it ended.
    pub result: Result<(), Fault>,
    /// What the checks found, but for what ended it.
    pub findings: Vec<Finding>,
    /// Memory that it allocated and did not free.
    pub allocated: Vec<Allocated>,
    /// The choices of the schedule, if they were kept.
    pub turns: Turns,
    /// Preemption points that groups of lanes have passed.
    pub points: u64,
    /// Who wrote each word of device memory last, if that was kept.
    pub writes: LastWrites,
    /// Threads by counter, if the program has counters.
    pub counts: Vec<u64>,
}

impl Default for Watched {
    /// A launch that did nothing.
    fn default() -> Watched {
        Watched {
            result: Ok(()),
            findings: Vec::new(),
            allocated: Vec::new(),
            turns: Turns::default(),
            points: 0,
            writes: LastWrites::default(),
            counts: Vec::new(),
        }
    }
}

/// Runs a launch to its end.
pub fn launch(
    launch: &Launch<'_>,
    memory: &mut dyn Memory,
    host: &mut dyn Host,
) -> Result<(), Fault> {
    watched(launch, memory, host).result
}

/// Runs a launch to its end and looks for what [`Launch::checks`] says.
pub fn watched(launch: &Launch<'_>, memory: &mut dyn Memory, host: &mut dyn Host) -> Watched {
    let failed = |fault| Watched {
        result: Err(fault),
        ..Watched::default()
    };
    let kernel = match check(launch) {
        Ok(kernel) => kernel,
        Err(fault) => return failed(fault),
    };
    let layout = match launch.checks.mem {
        true => SharedLayout::apart(launch.program),
        false => SharedLayout::new(launch.program),
    };
    // What waits in vain is known from what is watched, whatever the checks: these must not change
    // a schedule.
    let keeps_choices = launch.records || launch.replay.is_some() || launch.keeps_writes;
    let is_watched =
        launch.checks.any() || keeps_choices || launch.schedule != Schedule::Deterministic;
    let watch = is_watched.then(|| {
        let names = names(launch, &layout);
        let shape = (launch.grid, launch.block, launch.cluster_shape());
        let mut watch = Watch::new(launch.checks, shape, names);
        watch.writes = launch.keeps_writes.then(LastWrites::default);
        Box::new(watch)
    });
    let shared_objects = match launch.checks.mem {
        true => shared_objects(&layout, launch.dynamic_shared),
        false => Vec::new(),
    };
    let counters = launch.program.counters.as_ref();
    let n_counters = counters.map_or(0, |counters| counters.n);
    let mut machine = Machine {
        launch,
        layout,
        post_dominators: PostDominators::default(),
        memory,
        host,
        shared: Vec::new(),
        tensor: Vec::new(),
        members: Vec::new(),
        queue: Queue::default(),
        shared_objects,
        local_base: LOCAL_BASE,
        waiting: 0..0,
        steps: 0,
        watch,
        progress: 0,
        chooser: chooser(launch),
        points: 0,
        counts: vec![0; n_counters as usize],
    };
    machine.waiting = 0..machine.n_clusters();
    let result = run(&mut machine, kernel);
    let (turns, points) = (machine.chooser.turns(), machine.points);
    let counts = std::mem::take(&mut machine.counts);
    let (findings, allocated, writes) = machine
        .watch
        .map_or_else(Default::default, |watch| watch.finish());
    Watched {
        result,
        findings,
        allocated,
        turns,
        points,
        writes,
        counts,
    }
}

/// What makes the choices of a launch.
fn chooser(launch: &Launch<'_>) -> Box<dyn Chooser> {
    match launch.replay {
        Some(turns) => Box::new(Replay::new(turns)),
        // The deterministic schedule has no choices.
        None if launch.records && launch.schedule != Schedule::Deterministic => {
            Box::new(Recorder::new(launch.schedule.chooser()))
        }
        None => launch.schedule.chooser(),
    }
}

/// Instructions of the live CTAs before another CTA is started beside them, under schedules that
/// run groups of lanes: of these some let lanes wait for long.
const PATIENCE: u64 = 1 << 22;

fn run<'p>(machine: &mut Machine<'p, '_>, kernel: &'p Function) -> Result<(), Fault> {
    let launch = machine.launch;
    let mut live: Vec<Cluster<'_>> = Vec::new();
    // A cooperative launch starts all before any runs.
    while launch.cooperative && start(machine, kernel, &mut live, false)? {}
    let mut started_at = 0;
    let patience = match launch.schedule {
        Schedule::Deterministic => launch.limits.patience,
        _ => launch.limits.patience.min(PATIENCE),
    };
    while !machine.waiting.is_empty() || !live.is_empty() {
        let is_stuck = !live.is_empty()
            && live
                .iter()
                .all(|cluster| cluster.is_stuck(machine.progress));
        let impatient = is_stuck || machine.steps - started_at > patience;
        let has_room = live.len() < launch.schedule.live_ctas();
        let may_start = !machine.waiting.is_empty() && (has_room || impatient);
        if is_stuck && !may_start {
            if complete_any(machine, &mut live)? {
                continue;
            }
            return Err(live[0].ctas[0].no_progress());
        }
        let progress = machine.progress;
        let tasks = || tasks(&live, progress);
        let next = machine.chooser.next_cta(may_start, &tasks);
        match next.map_err(|_| departed(&live))? {
            NextCta::Start { last } => {
                start(machine, kernel, &mut live, last)?;
                started_at = machine.steps;
                continue;
            }
            NextCta::Everyone => live
                .iter_mut()
                .try_for_each(|cluster| cluster.turn(machine, None))?,
            NextCta::One(number) => {
                let has = |cluster: &&mut Cluster<'p>| cluster.rank_of(number).is_some();
                let Some(cluster) = live.iter_mut().find(has) else {
                    return Err(departed(&live));
                };
                cluster.turn(machine, cluster.rank_of(number))?;
            }
        }
        retire(machine, &mut live);
    }
    Ok(())
}

/// No thread gets further: completes an operation that one of them has begun, if there is one.
fn complete_any<'p>(
    machine: &mut Machine<'p, '_>,
    live: &mut [Cluster<'p>],
) -> Result<bool, Fault> {
    for cluster in live {
        if cluster.complete_any(machine)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Starts a cluster, if there is one left.
fn start<'p>(
    machine: &mut Machine<'p, '_>,
    kernel: &'p Function,
    live: &mut Vec<Cluster<'p>>,
    last: bool,
) -> Result<bool, Fault> {
    let Some(first) = machine.take_cluster(last) else {
        return Ok(false);
    };
    live.push(Cluster::new(machine, kernel, first)?);
    machine.progress += 1;
    Ok(true)
}

/// All groups that can run; while any do more than turn in waiting loops, these.
fn tasks(live: &[Cluster<'_>], progress: u64) -> Vec<Task> {
    let moves = |cluster: &&Cluster<'_>| !cluster.is_stuck(progress);
    let of = |clusters: &mut dyn Iterator<Item = &Cluster<'_>>| -> Vec<Task> {
        let ctas = clusters.flat_map(|cluster| &cluster.ctas);
        ctas.flat_map(|cta| cta.tasks(progress)).collect()
    };
    let moving = of(&mut live.iter().filter(moves));
    match moving.is_empty() {
        true => of(&mut live.iter()),
        false => moving,
    }
}

fn departed(live: &[Cluster<'_>]) -> Fault {
    match live.first() {
        Some(cluster) => cluster.ctas[0].departed(),
        None => of_launch(FaultKind::Departed),
    }
}

/// Takes leave of clusters whose threads have ended.
fn retire(machine: &mut Machine<'_, '_>, live: &mut Vec<Cluster<'_>>) {
    live.retain(|cluster| {
        let is_done = cluster.is_done();
        if let (true, Some(watch)) = (is_done, &mut machine.watch) {
            let ctas = cluster.ctas.iter();
            ctas.for_each(|cta| watch.end_cta(cta.env.cta));
        }
        !is_done
    });
}

/// Names of what the program and its parameters name.
fn names(launch: &Launch<'_>, layout: &SharedLayout) -> Names {
    let program = launch.program;
    let mut names = Names::default();
    for (&id, var) in &program.vars {
        if let Some(&offset) = layout.offsets.get(&id) {
            let size = match var.dynamic_shared {
                true => launch.dynamic_shared.into(),
                false => var.size,
            };
            names.shared.push((offset.into(), size, var.name.clone()));
        } else if var.space == Space::Global && !var.is_extern {
            let addr = (launch.symbols)(RelocTarget::Var(id));
            names.globals.push((addr, var.size, var.name.clone()));
        }
    }
    for param in program.params.iter().filter(|param| param.size == 8) {
        let start = param.offset as usize;
        if let Some(bytes) = launch.params.get(start..start + 8) {
            let value = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
            names.params.push((value, param.name.clone()));
        }
    }
    names
}

/// What all CTAs of a launch share.
pub(crate) struct Machine<'p, 'm> {
    pub(crate) launch: &'m Launch<'p>,
    pub(crate) layout: SharedLayout,
    pub(crate) post_dominators: PostDominators,
    pub(crate) memory: &'m mut dyn Memory,
    pub(crate) host: &'m mut dyn Host,
    /// Shared memory of the CTAs of the cluster whose turn it is, by rank; none of those that have
    /// ended.
    pub(crate) shared: Vec<Option<Vec<u8>>>,
    /// Tensor memory of these CTAs, once it has been used.
    pub(crate) tensor: Vec<Option<Box<TensorMemory>>>,
    /// The numbers of these CTAs in the grid, by rank.
    pub(crate) members: Vec<u32>,
    /// What threads of this cluster have begun and not completed.
    pub(crate) queue: Queue,
    /// Start and end of the variables in it, if bounds are exact.
    pub(crate) shared_objects: Vec<(u64, u64)>,
    /// Generic address of the local memory of the thread that runs.
    pub(crate) local_base: u64,
    /// The clusters that have not been started.
    pub(crate) waiting: Range<u64>,
    /// Instructions executed so far.
    pub(crate) steps: u64,
    pub(crate) watch: Option<Box<Watch>>,
    /// Grows whenever something has happened that a waiting thread may wait for.
    pub(crate) progress: u64,
    pub(crate) chooser: Box<dyn Chooser>,
    /// Preemption points that groups of lanes have passed.
    pub(crate) points: u64,
    /// Threads by counter.
    counts: Vec<u64>,
}

impl<'p> Machine<'p, '_> {
    fn clusters(&self) -> [u32; 3] {
        let shape = self.launch.cluster_shape();
        std::array::from_fn(|axis| self.launch.grid[axis] / shape[axis])
    }

    /// Clusters of the grid.
    pub(crate) fn n_clusters(&self) -> u64 {
        self.clusters().iter().map(|&n| u64::from(n)).product()
    }

    /// Takes a cluster that has not been started, the last or the first: `%ctaid` of its first CTA.
    pub(crate) fn take_cluster(&mut self, last: bool) -> Option<[u32; 3]> {
        let number = match last {
            true => self.waiting.next_back(),
            false => self.waiting.next(),
        };
        let clusterid = ctaid(self.clusters(), number?);
        let shape = self.launch.cluster_shape();
        Some(std::array::from_fn(|axis| clusterid[axis] * shape[axis]))
    }

    /// A thread has come to a counter, which counts it or not.
    pub(crate) fn count(&mut self, counter: u32, counts: bool) {
        if let Some(count) = self.counts.get_mut(counter as usize) {
            *count += u64::from(counts);
        }
    }

    pub(crate) fn checks(&self) -> Checks {
        self.launch.checks
    }

    /// Whether shadows of values are kept.
    pub(crate) fn watches_values(&self) -> bool {
        self.checks().init
    }

    pub(crate) fn function(&self, id: FuncId) -> Option<&'p Function> {
        self.launch.program.functions.get(&id)
    }
}

fn check<'p>(launch: &Launch<'p>) -> Result<&'p Function, Fault> {
    let refuse = |why: String| of_launch(FaultKind::Launch(why));
    let threads = launch
        .block
        .iter()
        .try_fold(1u32, |acc, &n| acc.checked_mul(n));
    check_cluster(launch).map_err(refuse)?;
    if launch.grid.contains(&0) || !matches!(threads, Some(1..=1024)) {
        return Err(refuse(format!(
            "no launch of {:?} CTAs of {:?} threads",
            launch.grid, launch.block
        )));
    }
    launch.program.check_sizes().map_err(refuse)?;
    let shared = u64::from(SharedLayout::new(launch.program).static_size);
    let shared = shared + u64::from(launch.dynamic_shared);
    if shared > MAX_SHARED_BYTES {
        return Err(refuse(format!(
            "{shared} bytes of shared memory are too many: the limit is {MAX_SHARED_BYTES}"
        )));
    }
    let kernel = launch.program.functions.get(&launch.program.entry);
    kernel.ok_or_else(|| refuse("the program has no kernel".to_owned()))
}

/// A fault of the launch as a whole.
fn of_launch(kind: FaultKind) -> Fault {
    Fault {
        kind,
        ctaid: [0; 3],
        tid: None,
        function: String::new(),
        loc: SrcLoc::default(),
        calls: Vec::new(),
    }
}

/// What CUDA asks of clusters.
fn check_cluster(launch: &Launch<'_>) -> Result<(), String> {
    let (shape, attrs) = (launch.cluster_shape(), &launch.program.attrs);
    if attrs.explicit_cluster && !launch.has_clusters() {
        return Err("`.explicitcluster` requires a launch with clusters".to_owned());
    }
    if attrs.req_cluster.is_some_and(|required| required != shape) {
        return Err(format!(
            "clusters of {shape:?} CTAs are not what `.reqnctapercluster` requires"
        ));
    }
    let size = shape.iter().try_fold(1u32, |size, &n| size.checked_mul(n));
    let most = attrs
        .max_cluster_rank
        .unwrap_or(MAX_CLUSTER)
        .min(MAX_CLUSTER);
    if !size.is_some_and(|size| (1..=most).contains(&size)) {
        return Err(format!("clusters of {shape:?} CTAs are too large"));
    }
    match (0..3).all(|axis| launch.grid[axis].is_multiple_of(shape[axis])) {
        true => Ok(()),
        false => Err("the grid is no multiple of the cluster".to_owned()),
    }
}

pub(crate) fn ctaid(grid: [u32; 3], linear: u64) -> [u32; 3] {
    let (x, y) = (u64::from(grid[0]), u64::from(grid[1]));
    [
        (linear % x) as u32,
        (linear / x % y) as u32,
        (linear / x / y) as u32,
    ]
}
