//! Launches.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use crate::call::{Code, Result, exports};
use crate::device;
use crate::driver::cu;
use crate::host;
use crate::registry;

host::plain! {
    /// `dim3`.
    Dim3 { x: u32, y: u32, z: u32 }

    /// `cudaLaunchConfig_t`, with its padding. It differs from the driver's `CUlaunchConfig` only
    /// in the type of `shared`, whose upper half is padding there.
    Config { grid: Dim3, block: Dim3, shared: usize, stream: u64, attributes: u64, n_attributes: u32, padding: u32 }
}

/// A launch as the functions of the interface have it.
struct Launch {
    kernel: u64,
    grid: Dim3,
    block: Dim3,
    args: u64,
    shared: usize,
    stream: u64,
}

impl Launch {
    fn run(&self, is_cooperative: bool) -> Result {
        let shared = u32::try_from(self.shared).map_err(|_| Code::INVALID_VALUE)?;
        let (grid, block) = (self.grid, self.block);
        let launched = match is_cooperative {
            true => cu!(cuLaunchCooperativeKernel(
                self.kernel,
                grid.x,
                grid.y,
                grid.z,
                block.x,
                block.y,
                block.z,
                shared,
                self.stream,
                self.args
            )),
            false => cu!(cuLaunchKernel(
                self.kernel,
                grid.x,
                grid.y,
                grid.z,
                block.x,
                block.y,
                block.z,
                shared,
                self.stream,
                self.args,
                0_u64
            )),
        };
        told(launched, grid, block)
    }
}

/// The runtime has a code of its own for grids and blocks that no kernel can have.
fn told(launched: Result, grid: Dim3, block: Dim3) -> Result {
    match launched {
        Err(Code::INVALID_VALUE) if !is_possible(grid, block) => Err(Code::INVALID_CONFIGURATION),
        _ => launched,
    }
}

fn is_possible(grid: Dim3, block: Dim3) -> bool {
    let Ok(device) = device::current() else {
        return true;
    };
    let within = |size: u32, attribute: i32| {
        let limit = device::attribute(attribute, device);
        (1..=i64::from(limit)).contains(&i64::from(size))
    };
    let n_threads = [block.x, block.y, block.z].into_iter().map(u64::from);
    let n_threads = n_threads.fold(1, u64::saturating_mul);
    n_threads <= device::attribute(1, device) as u64
        && within(block.x, 2)
        && within(block.y, 3)
        && within(block.z, 4)
        && within(grid.x, 5)
        && within(grid.y, 6)
        && within(grid.z, 7)
}

/// A launch's configuration as the driver takes it.
pub(crate) fn config(from: u64) -> Result<Config> {
    let config: Config = host::get(from)?;
    match u32::try_from(config.shared) {
        Ok(_) => Ok(config),
        Err(_) => Err(Code::INVALID_VALUE),
    }
}

exports! {
    /// Launches a kernel.
    fn cudaLaunchKernel(
        function: u64, grid: Dim3, block: Dim3, args: u64, shared: usize, stream: u64,
    ) or cudaLaunchKernel_ptsz {
        let kernel = registry::kernel(function)?;
        Launch { kernel, grid, block, args, shared, stream }.run(false)
    }

    /// Launches a kernel whose blocks all run at once.
    fn cudaLaunchCooperativeKernel(
        function: u64, grid: Dim3, block: Dim3, args: u64, shared: usize, stream: u64,
    ) or cudaLaunchCooperativeKernel_ptsz {
        let kernel = registry::kernel(function)?;
        Launch { kernel, grid, block, args, shared, stream }.run(true)
    }

    /// Launches a kernel, with attributes.
    fn cudaLaunchKernelExC(from: u64, function: u64, args: u64) or cudaLaunchKernelExC_ptsz {
        let config = config(from)?;
        let kernel = registry::kernel(function)?;
        told(cu!(cuLaunchKernelEx(&config, kernel, args, 0_u64)), config.grid, config.block)
    }

    /// Launches a kernel that [`__cudaGetKernel`] has found. What that could not find is looked up
    /// again, for its error.
    fn __cudaLaunchKernel(kernel: u64, grid: Dim3, block: Dim3, args: u64, shared: usize, stream: u64) or __cudaLaunchKernel_ptsz {
        let kernel = registry::kernel(kernel)?;
        Launch { kernel, grid, block, args, shared, stream }.run(false)
    }

    /// The kernel of a host function; the function itself if there is none.
    fn __cudaGetKernel(out: u64, function: u64) {
        let kernel = registry::kernel(function);
        host::put(out, kernel.unwrap_or(function))?;
        kernel.map(drop)
    }
}

// --- Configurations between `<<<…>>>` and the function that launches ---

type Configuration = (Dim3, Dim3, usize, u64);

/// What has been pushed and not popped: more than one while arguments of a launch launch something
/// themselves.
struct Configurations {
    last: Option<Configuration>,
    before: ManuallyDrop<Vec<Configuration>>,
}

thread_local! {
    // Without a destructor, since destructors of global objects launch, too: by then the main
    // thread's variables have ended.
    static CONFIGURATIONS: RefCell<Configurations> = const {
        RefCell::new(Configurations { last: None, before: ManuallyDrop::new(Vec::new()) })
    };
}

impl Configurations {
    fn push(&mut self, configuration: Configuration) {
        self.before.extend(self.last.replace(configuration));
    }

    fn pop(&mut self) -> Option<Configuration> {
        let popped = self.last.take();
        self.last = self.before.pop();
        if self.last.is_none() {
            // Nothing else frees its memory.
            *self.before = Vec::new();
        }
        popped
    }
}

exports! {
    /// Keeps what is in `<<<…>>>`.
    early __cudaPushCallConfiguration(grid: Dim3, block: Dim3, shared: usize, stream: u64) {
        CONFIGURATIONS.with_borrow_mut(|all| all.push((grid, block, shared, stream)));
        Ok(())
    }

    /// Gives back what was in `<<<…>>>`.
    early __cudaPopCallConfiguration(grid_out: u64, block_out: u64, shared_out: u64, stream_out: u64) {
        let last = CONFIGURATIONS.with_borrow_mut(Configurations::pop);
        let (grid, block, shared, stream) = last.ok_or(Code::MISSING_CONFIGURATION)?;
        host::put(grid_out, grid)?;
        host::put(block_out, block)?;
        host::put(shared_out, shared)?;
        host::put(stream_out, stream)
    }
}
