//! Launches of kernels: arguments, checks, and what a stream runs.

use std::sync::{Arc, OnceLock};

use ptxjit::{Error, Options, Prepared, Schedule};
use ptxjit_persona::Config;

use crate::command::Command;
use crate::context::Context;
use crate::device;
use crate::error::{Failure, Result};
use crate::findings;
use crate::function::{self, Function};
use crate::host;
use crate::occupancy;
use crate::peer;
use crate::stream;
use crate::types::{
    CUfunction, CUlaunchAttribute, CUlaunchAttributeID as Id, CUlaunchConfig, CUresult, CUstream,
    HostPtr,
};

/// Shape and options of a launch.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) cluster: Option<[u32; 3]>,
    pub(crate) shared: u32,
    pub(crate) cooperative: bool,
}

/// A kernel with its arguments.
#[derive(Clone)]
pub(crate) struct KernelCommand {
    pub(crate) function: Arc<Function>,
    pub(crate) shape: Shape,
    /// The parameter block.
    pub(crate) params: Vec<u8>,
}

impl KernelCommand {
    /// Runs the kernel to its end.
    pub(crate) fn run(&self) -> std::result::Result<(), Failure> {
        let ready = self.function.take_ready(&self.shape);
        let ready = match ready {
            Some(mut ready) if self.fits(&ready) => {
                ready.set_param_block(&self.params)?;
                ready
            }
            Some(_) | None => Box::new(self.prepare()?),
        };
        run(&ready)?;
        self.function.keep_ready(self.shape, ready);
        Ok(())
    }

    /// Does everything but run: finds the code, or compiles it.
    pub(crate) fn prepare(&self) -> std::result::Result<Prepared, Failure> {
        let shape = &self.shape;
        let launch = self.function.kernel.launch().options(options().clone());
        let launch = launch.grid(shape.grid).block(shape.block);
        let launch = launch.shared(shape.shared).cooperative(shape.cooperative);
        let launch = match shape.cluster {
            Some(cluster) => launch.cluster(cluster),
            None => launch,
        };
        let guard = self.guarded_context().map(|context| peer::guard(&context));
        let launch = launch.peers(guard);
        Ok(launch.param_block(self.params.clone()).prepare()?)
    }

    /// Whether a launch that was prepared before is guarded as it has to be now.
    pub(crate) fn fits(&self, prepared: &Prepared) -> bool {
        prepared.is_guarded() == self.guarded_context().is_some()
    }

    /// The kernel's context, if that has to be kept out of other devices' memory.
    fn guarded_context(&self) -> Option<Arc<Context>> {
        // Most programs see one device: their launches need not look for the context.
        if device::count() == Ok(1) {
            return None;
        }
        let context = self.function.context().ok()?;
        peer::needs_guard(&context).then_some(context)
    }
}

/// Runs a launch to its end, and tells what its checks have found.
pub(crate) fn run(prepared: &Prepared) -> std::result::Result<(), Failure> {
    let result = prepared.run();
    let mut history = String::new();
    if options().sanitize.any() {
        let fault = match &result {
            Err(Error::Launch(failure)) => Some(failure.message()),
            Ok(_) | Err(_) => None,
        };
        history = findings::tell(&prepared.report(), fault);
    }
    result.map_err(|err| {
        let mut failure = Failure::from(err);
        failure.add(&history);
        failure
    })?;
    Ok(())
}

/// How all launches are carried out: what the environment says.
pub(crate) fn options() -> &'static Options {
    static OPTIONS: OnceLock<Options> = OnceLock::new();
    OPTIONS.get_or_init(|| {
        let config = Config::get();
        let mut options = Options::default();
        options.timeout = config.timeout;
        options.memcheck = config.memcheck;
        options.sanitize = findings::checks(&config.sanitize);
        options.gang = config.gang;
        options.schedule = match config.schedule {
            ptxjit_persona::Schedule::Free => Schedule::Parallel,
            ptxjit_persona::Schedule::Deterministic => Schedule::Deterministic,
            ptxjit_persona::Schedule::RoundRobin => Schedule::RoundRobin,
            ptxjit_persona::Schedule::Random(seed) => Schedule::Random(seed),
            ptxjit_persona::Schedule::Adversarial => Schedule::Adversarial,
            ptxjit_persona::Schedule::Pct { seed, depth } => Schedule::Pct { seed, depth },
        };
        options
    })
}

const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];
const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];

/// Blocks of a cluster on any device that has clusters; some allow twice as many.
pub(crate) const MAX_CLUSTER: u32 = 8;

impl Shape {
    /// Checks a launch of a function, as far as a call must refuse it.
    pub(crate) fn check(&self, function: &Function) -> Result<()> {
        let is_within = |dims: [u32; 3], limits: [u32; 3]| {
            (0..3).all(|axis| (1..=limits[axis]).contains(&dims[axis]))
        };
        if !is_within(self.grid, MAX_GRID) || !is_within(self.block, MAX_BLOCK) {
            return Err(CUresult::INVALID_VALUE);
        }
        let n_threads: u32 = self.block.iter().product();
        let required = function.kernel.required_block();
        let is_required = required.is_none_or(|block| block.0 == self.block);
        if n_threads > function.max_threads() || !is_required {
            return Err(CUresult::INVALID_VALUE);
        }
        function.check_shared(self.shared)?;
        self.check_cluster(function)
    }

    /// Checks a node of a graph. Its grid may be empty until it is launched: programs that know it
    /// later set it in the executable graph.
    pub(crate) fn check_node(&self, function: &Function) -> Result<()> {
        let grid = self.grid.map(|n| n.max(1));
        Shape { grid, ..*self }.check(function)
    }

    /// Checks the shape of clusters. That of the PTX counts if a launch has none.
    fn check_cluster(&self, function: &Function) -> Result<()> {
        let Some(cluster) = self.cluster else {
            return Ok(());
        };
        let size = cluster.iter().fold(1u32, |size, &n| size.saturating_mul(n));
        let is_large = function.settings.lock().non_portable_cluster;
        let limit = if is_large {
            2 * MAX_CLUSTER
        } else {
            MAX_CLUSTER
        };
        if size == 0 || size > limit {
            return Err(CUresult::INVALID_CLUSTER_SIZE);
        }
        match (0..3).all(|axis| self.grid[axis].is_multiple_of(cluster[axis])) {
            true => Ok(()),
            false => Err(CUresult::INVALID_CLUSTER_SIZE),
        }
    }

    /// Checks that all blocks of a cooperative launch fit the device at once.
    fn check_cooperative(&self, function: &Function) -> Result<()> {
        let device = function.context()?.device;
        let n_threads = self.block.iter().product();
        let dynamic = self.shared as usize;
        let fitting = occupancy::blocks_per_multiprocessor(device, function, n_threads, dynamic)?;
        let fitting = u64::from(fitting) * u64::from(device.figures.persona.multiprocessors);
        let n_blocks = self.grid.iter().map(|&n| u64::from(n)).product::<u64>();
        match n_blocks <= fitting {
            true => Ok(()),
            false => Err(CUresult::COOPERATIVE_LAUNCH_TOO_LARGE),
        }
    }
}

/// Where a launch finds its arguments: `kernelParams` and `extra`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Arguments {
    pub params: HostPtr,
    pub extra: HostPtr,
}

impl Arguments {
    /// Reads the parameter block of a function.
    pub(crate) fn read(&self, function: &Function) -> Result<Vec<u8>> {
        match (self.params.is_null(), self.extra.is_null()) {
            (false, false) => Err(CUresult::INVALID_VALUE),
            (false, true) => self.read_params(function),
            (true, false) => self.read_extra(function),
            (true, true) if function.kernel.param_bytes() == 0 => Ok(Vec::new()),
            (true, true) => Err(CUresult::INVALID_VALUE),
        }
    }

    fn read_params(&self, function: &Function) -> Result<Vec<u8>> {
        let mut block = vec![0; function.kernel.param_bytes()];
        for (idx, param) in function.kernel.param_layout().enumerate() {
            let address = host::get::<u64>(self.params.0.wrapping_add(8 * idx as u64))?;
            host::read_bytes(address, &mut block[param.offset..][..param.size])?;
        }
        Ok(block)
    }

    fn read_extra(&self, function: &Function) -> Result<Vec<u8>> {
        const END: u64 = 0;
        const BUFFER: u64 = 1;
        const SIZE: u64 = 2;
        let (mut buffer, mut size) = (None, None);
        // A list without an end is no list.
        for pair in 0..8 {
            let at = self.extra.0.wrapping_add(16 * pair);
            let key = host::get::<u64>(at)?;
            if key == END {
                break;
            }
            let value = host::get::<u64>(at.wrapping_add(8))?;
            match key {
                BUFFER => buffer = Some(value),
                SIZE => size = Some(host::get::<usize>(value)?),
                _ => return Err(CUresult::INVALID_VALUE),
            }
        }
        let (Some(buffer), Some(size)) = (buffer, size) else {
            return Err(CUresult::INVALID_VALUE);
        };
        let mut block = vec![0; function.kernel.param_bytes()];
        if size < block.len() {
            return Err(CUresult::INVALID_VALUE);
        }
        host::read_bytes(buffer, &mut block)?;
        Ok(block)
    }
}

/// Submits a launch.
pub(crate) fn submit(
    function: CUfunction,
    shape: Shape,
    arguments: Arguments,
    stream: CUstream,
) -> Result<()> {
    let function = function::get(function)?;
    submit_with(function, shape, |function| arguments.read(function), stream)
}

/// Likewise, with what gives the parameter block once the launch has been checked.
pub(crate) fn submit_with(
    function: Arc<Function>,
    shape: Shape,
    param_block: impl FnOnce(&Function) -> Result<Vec<u8>>,
    stream: CUstream,
) -> Result<()> {
    let stream = stream::get(stream)?;
    if stream.context != function.context {
        return Err(CUresult::INVALID_HANDLE);
    }
    shape.check(&function)?;
    if shape.cooperative {
        shape.check_cooperative(&function)?;
    }
    let params = param_block(&function)?;
    if !stream.is_capturing() {
        findings::launched(&function, &params);
    }
    let kernel = KernelCommand {
        function,
        shape,
        params,
    };
    stream.submit(Command::Kernel(Box::new(kernel))).map(|_| ())
}

// --- The interface ---

/// `cuLaunchKernel`, and `cuLaunchCooperativeKernel` if `cooperative` is set.
pub fn kernel(
    function: CUfunction,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: CUstream,
    arguments: Arguments,
    cooperative: bool,
) -> Result<()> {
    let shape = Shape {
        grid,
        block,
        cluster: None,
        shared,
        cooperative,
    };
    submit(function, shape, arguments, stream)
}

/// What `cuLaunchKernelEx` and its kin take.
#[derive(Clone, Debug)]
pub struct LaunchConfig {
    raw: CUlaunchConfig,
    attributes: Vec<CUlaunchAttribute>,
}

impl LaunchConfig {
    /// Reads a configuration at an address.
    pub fn read(address: HostPtr) -> Result<LaunchConfig> {
        let raw = host::get::<CUlaunchConfig>(address.0)?;
        let attributes = host::get_all(raw.attrs.0, raw.numAttrs as usize)?;
        Ok(LaunchConfig { raw, attributes })
    }

    /// The shape, and what the attributes make of it.
    pub(crate) fn shape(&self) -> Result<Shape> {
        let raw = &self.raw;
        let mut shape = Shape {
            grid: [raw.gridDimX, raw.gridDimY, raw.gridDimZ],
            block: [raw.blockDimX, raw.blockDimY, raw.blockDimZ],
            cluster: None,
            shared: raw.sharedMemBytes,
            cooperative: false,
        };
        for attribute in &self.attributes {
            shape.apply(attribute)?;
        }
        Ok(shape)
    }
}

impl Shape {
    /// Does what an attribute asks for. Work that may overlap by an attribute runs in order
    /// instead.
    pub(crate) fn apply(&mut self, attribute: &CUlaunchAttribute) -> Result<()> {
        match attribute.id {
            Id::COOPERATIVE => self.cooperative = attribute.value.number() != 0,
            Id::CLUSTER_DIMENSION => {
                let dim = attribute.value.cluster_dim();
                self.cluster = Some([dim.x, dim.y, dim.z]);
            }
            Id::DEVICE_UPDATABLE_KERNEL_NODE => return Err(CUresult::NOT_SUPPORTED),
            Id::IGNORE
            | Id::ACCESS_POLICY_WINDOW
            | Id::SYNCHRONIZATION_POLICY
            | Id::CLUSTER_SCHEDULING_POLICY_PREFERENCE
            | Id::PROGRAMMATIC_STREAM_SERIALIZATION
            | Id::PROGRAMMATIC_EVENT
            | Id::PRIORITY
            | Id::MEM_SYNC_DOMAIN_MAP
            | Id::MEM_SYNC_DOMAIN
            | Id::PREFERRED_CLUSTER_DIMENSION
            | Id::LAUNCH_COMPLETION_EVENT
            | Id::PREFERRED_SHARED_MEMORY_CARVEOUT
            | Id::NVLINK_UTIL_CENTRIC_SCHEDULING
            | Id::PORTABLE_CLUSTER_SIZE_MODE
            | Id::SHARED_MEMORY_MODE => {}
            _ => return Err(CUresult::INVALID_VALUE),
        }
        Ok(())
    }
}

/// `cuLaunchKernelEx`.
pub fn kernel_ex(config: &LaunchConfig, function: CUfunction, arguments: Arguments) -> Result<()> {
    submit(function, config.shape()?, arguments, config.raw.hStream)
}
