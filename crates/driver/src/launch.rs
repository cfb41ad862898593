//! Launches of kernels: arguments, checks, and what a stream runs.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use ptxjit::{Options, Prepared, Schedule};
use ptxjit_persona::Config;

use crate::command::Command;
use crate::error::{Failure, Result};
use crate::host;
use crate::module::{self, Function};
use crate::stream;
use crate::types::{CUfunction, CUresult, CUstream, HostPtr};

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
        self.prepare()?.run()?;
        Ok(())
    }

    /// Does everything but run: finds the code, or compiles it.
    pub(crate) fn prepare(&self) -> std::result::Result<Prepared, Failure> {
        let shape = &self.shape;
        let mut launch = self.function.kernel.launch().options(options().clone());
        launch = launch
            .grid(shape.grid)
            .block(shape.block)
            .shared(shape.shared);
        launch = launch.cooperative(shape.cooperative);
        if let Some(cluster) = shape.cluster {
            launch = launch.cluster(cluster);
        }
        Ok(launch.param_block(self.params.clone()).prepare()?)
    }
}

/// How all launches are carried out: what the environment says.
fn options() -> &'static Options {
    static OPTIONS: OnceLock<Options> = OnceLock::new();
    OPTIONS.get_or_init(|| {
        let config = Config::get();
        let mut options = Options::default();
        options.timeout = config.timeout;
        options.memcheck = config.memcheck;
        options.gang = config.gang;
        options.schedule = match config.schedule {
            ptxjit_persona::Schedule::Free => Schedule::Parallel,
            ptxjit_persona::Schedule::Deterministic => Schedule::Deterministic,
            ptxjit_persona::Schedule::Seed(seed) => Schedule::Seed(seed),
        };
        options
    })
}

const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];
const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
const MAX_THREADS: u32 = 1024;

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
        let limit = function
            .kernel
            .max_threads()
            .map_or(MAX_THREADS, |max| max.min(MAX_THREADS));
        let required = function.kernel.required_block();
        if n_threads > limit || required.is_some_and(|block| block.0 != self.block) {
            return Err(CUresult::INVALID_VALUE);
        }
        if self.shared > function.max_dynamic_shared.load(Ordering::Relaxed) {
            return Err(CUresult::INVALID_VALUE);
        }
        Ok(())
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
    let function = module::function(function)?;
    let stream = stream::get(stream)?;
    if stream.context != function.context {
        return Err(CUresult::INVALID_HANDLE);
    }
    shape.check(&function)?;
    let params = arguments.read(&function)?;
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
