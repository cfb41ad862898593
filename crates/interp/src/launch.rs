//! The description of a launch, and the loop over its CTAs.

use std::ops::Range;

use ptxjit_device::tcgen05::TensorMemory;
use ptxjit_ir::{
    FuncId, Function, MAX_CLUSTER, MAX_SHARED_BYTES, Program, RelocTarget, SharedLayout, Space,
    SrcLoc,
};

use crate::access::LOCAL_BASE;
use crate::bounds::shared_objects;
use crate::choose::{Rng, Schedule};
use crate::cluster::Cluster;
use crate::fault::{Fault, FaultKind};
use crate::host::Host;
use crate::memory::Memory;
use crate::postdom::PostDominators;
use crate::watch::finding::Finding;
use crate::watch::{Allocated, Checks, Names, Watch};

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
    /// Generic address of a `.global` variable or a function's descriptor (16 bytes, whose first word is the function's
    /// number plus one); window offset of a `.const` variable.
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
    /// In what order threads make progress.
    pub schedule: Schedule,
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
        findings: Vec::new(),
        allocated: Vec::new(),
    };
    let kernel = match check(launch) {
        Ok(kernel) => kernel,
        Err(fault) => return failed(fault),
    };
    let layout = match launch.checks.mem {
        true => SharedLayout::apart(launch.program),
        false => SharedLayout::new(launch.program),
    };
    let watch = launch.checks.any().then(|| {
        let names = names(launch, &layout);
        let shape = (launch.grid, launch.block, launch.cluster_shape());
        Box::new(Watch::new(launch.checks, shape, names))
    });
    let shared_objects = match launch.checks.mem {
        true => shared_objects(&layout, launch.dynamic_shared),
        false => Vec::new(),
    };
    let mut machine = Machine {
        launch,
        layout,
        post_dominators: PostDominators::default(),
        memory,
        host,
        shared: Vec::new(),
        tensor: Vec::new(),
        members: Vec::new(),
        shared_objects,
        local_base: LOCAL_BASE,
        next: 0,
        steps: 0,
        watch,
        progress: 0,
        rng: Rng::new(launch.schedule.seed()),
    };
    let result = run(&mut machine, kernel);
    let (findings, allocated) = machine
        .watch
        .map_or_else(Default::default, |watch| watch.finish());
    Watched {
        result,
        findings,
        allocated,
    }
}

fn run<'p>(machine: &mut Machine<'p, '_>, kernel: &'p Function) -> Result<(), Fault> {
    let launch = machine.launch;
    let mut live: Vec<Cluster<'_>> = Vec::new();
    let total = machine.n_clusters();
    let mut started_at = 0;
    while machine.next < total || !live.is_empty() {
        let is_stuck = !live.is_empty()
            && live
                .iter()
                .all(|cluster| cluster.is_stuck(machine.progress));
        let impatient = is_stuck || machine.steps - started_at > launch.limits.patience;
        let has_room = live.len() < launch.schedule.live_ctas();
        if machine.next < total && (has_room || launch.cooperative || impatient) {
            let first = machine.take_cluster();
            live.push(Cluster::new(machine, kernel, first)?);
            started_at = machine.steps;
            machine.progress += 1;
            // A cooperative launch starts all before any runs.
            if launch.cooperative && machine.next < total {
                continue;
            }
        } else if is_stuck {
            return Err(live[0].ctas[0].no_progress());
        }
        let order = machine.order_of(live.len());
        for idx in order {
            live[idx].turn(machine)?;
        }
        live.retain(|cluster| {
            let is_done = cluster.is_done();
            if let (true, Some(watch)) = (is_done, &mut machine.watch) {
                let ctas = cluster.ctas.iter();
                ctas.for_each(|cta| watch.end_cta(cta.env.cta));
            }
            !is_done
        });
    }
    Ok(())
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
    /// Shared memory of the CTAs of the cluster whose turn it is, by rank; none of those that have ended.
    pub(crate) shared: Vec<Option<Vec<u8>>>,
    /// Tensor memory of these CTAs, once it has been used.
    pub(crate) tensor: Vec<Option<Box<TensorMemory>>>,
    /// The numbers of these CTAs in the grid, by rank.
    pub(crate) members: Vec<u32>,
    /// Start and end of the variables in it, if bounds are exact.
    pub(crate) shared_objects: Vec<(u64, u64)>,
    /// Generic address of the local memory of the thread that runs.
    pub(crate) local_base: u64,
    /// The first cluster that has not been started.
    pub(crate) next: u64,
    /// Instructions executed so far.
    pub(crate) steps: u64,
    pub(crate) watch: Option<Box<Watch>>,
    /// Grows whenever something has happened that a waiting thread may wait for.
    pub(crate) progress: u64,
    pub(crate) rng: Rng,
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

    /// Takes the first cluster that has not been started: `%ctaid` of its first CTA.
    pub(crate) fn take_cluster(&mut self) -> [u32; 3] {
        let clusterid = ctaid(self.clusters(), self.next);
        self.next += 1;
        let shape = self.launch.cluster_shape();
        std::array::from_fn(|axis| clusterid[axis] * shape[axis])
    }

    pub(crate) fn checks(&self) -> Checks {
        self.launch.checks
    }

    /// Whether shadows of values are kept.
    pub(crate) fn watches_values(&self) -> bool {
        self.checks().init
    }

    /// The order in which so many take their turns now.
    pub(crate) fn order_of(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        match self.launch.schedule {
            Schedule::Deterministic | Schedule::RoundRobin => {}
            Schedule::Adversarial => order.reverse(),
            Schedule::Random(_) | Schedule::Pct { .. } => {
                for at in (1..n).rev() {
                    order.swap(at, self.rng.below(at + 1));
                }
            }
        }
        order
    }

    /// Instructions of a thread before the next one's turn.
    pub(crate) fn quantum(&mut self) -> u32 {
        const FEW: [u32; 8] = [1, 1, 2, 3, 7, 20, 60, 300];
        match self.launch.schedule {
            Schedule::Deterministic | Schedule::Adversarial => self.launch.limits.quantum.max(1),
            Schedule::RoundRobin => 1,
            Schedule::Random(_) => FEW[self.rng.below(FEW.len())],
            // Long runs, with few points where a thread falls behind.
            Schedule::Pct { depth, .. } => match self.rng.below(64 / depth.clamp(1, 16) as usize) {
                0 => FEW[self.rng.below(FEW.len())],
                _ => self.launch.limits.quantum.max(1),
            },
        }
    }

    pub(crate) fn function(&self, id: FuncId) -> Option<&'p Function> {
        self.launch.program.functions.get(&id)
    }
}

fn check<'p>(launch: &Launch<'p>) -> Result<&'p Function, Fault> {
    let refuse = |why: String| Fault {
        kind: FaultKind::Launch(why),
        ctaid: [0; 3],
        tid: None,
        function: String::new(),
        loc: SrcLoc::default(),
        calls: Vec::new(),
    };
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
