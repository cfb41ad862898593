//! Functions: kernels of modules, with their attributes.

use std::sync::Arc;

use parking_lot::Mutex;
use ptxjit::{KernelUsage, Prepared};

use crate::context::{CONTEXTS, Context};
use crate::error::{self, Result};
use crate::handle::{Kind, Object, Slab};
use crate::launch::Shape;
use crate::launch_state::LaunchState;
use crate::library;
use crate::types::{CUfunction, CUfunction_attribute as Attribute, CUmodule, CUresult};

pub(crate) static FUNCTIONS: Slab<Function> = Slab::new(Kind::Function);

/// A kernel of a module.
pub(crate) struct Function {
    handle: u64,
    pub(crate) name: String,
    /// Handle of the module.
    pub(crate) module: u64,
    /// Handle of the context.
    pub(crate) context: u64,
    pub(crate) kernel: ptxjit::Kernel,
    pub(crate) settings: Mutex<Settings>,
    /// For launches by the calls of old.
    pub(crate) launch_state: Mutex<LaunchState>,
    /// Launches that were prepared before, the latest last. Each is large, and goes in and out with
    /// every launch.
    ready: Mutex<Vec<(Shape, Box<Prepared>)>>,
}

/// Prepared launches that a function keeps: programs launch a kernel with few shapes.
const MAX_READY: usize = 8;

/// Attributes that a program can set.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Settings {
    /// Bytes of dynamic shared memory that launches may ask for, if it was set.
    pub(crate) max_dynamic_shared: Option<u32>,
    pub(crate) carveout: i32,
    pub(crate) cluster: [u32; 3],
    pub(crate) non_portable_cluster: bool,
    pub(crate) cluster_policy: i32,
    pub(crate) shared_mode: i32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            max_dynamic_shared: None,
            carveout: -1,
            cluster: [0; 3],
            non_portable_cluster: false,
            cluster_policy: 0,
            shared_mode: 0,
        }
    }
}

/// Shared memory that a block may have without asking for more.
pub(crate) const DEFAULT_SHARED: u32 = 48 << 10;

/// Threads of a block.
pub(crate) const MAX_THREADS: u32 = 1024;

/// Registers of a thread. There are none here; this many do not limit how many blocks a
/// multiprocessor seems to hold.
pub(crate) const N_REGISTERS: u32 = 32;

impl Object for Function {
    fn handle(&self) -> u64 {
        self.handle
    }
}

impl Function {
    /// Adds a kernel of a module.
    pub(crate) fn new(
        name: &str,
        module: u64,
        context: u64,
        kernel: ptxjit::Kernel,
    ) -> Result<Arc<Function>> {
        FUNCTIONS.insert(|handle| Function {
            handle,
            name: name.to_owned(),
            module,
            context,
            kernel,
            settings: Mutex::default(),
            launch_state: Mutex::default(),
            ready: Mutex::default(),
        })
    }

    /// The handle as the interface has it.
    pub(crate) fn raw(&self) -> CUfunction {
        CUfunction(self.handle)
    }

    /// The context, if it is still there.
    pub(crate) fn context(&self) -> Result<Arc<Context>> {
        CONTEXTS
            .get(self.context)
            .ok_or(CUresult::CONTEXT_IS_DESTROYED)
    }

    /// Takes a prepared launch of a shape.
    pub(crate) fn take_ready(&self, shape: &Shape) -> Option<Box<Prepared>> {
        let mut ready = self.ready.lock();
        let idx = ready.iter().rposition(|(known, _)| known == shape)?;
        Some(ready.remove(idx).1)
    }

    /// Keeps a prepared launch for the next one of its shape.
    pub(crate) fn keep_ready(&self, shape: Shape, prepared: Box<Prepared>) {
        let mut ready = self.ready.lock();
        if ready.len() == MAX_READY {
            ready.remove(0);
        }
        ready.push((shape, prepared));
    }

    /// Most threads of a block.
    pub(crate) fn max_threads(&self) -> u32 {
        max_threads(&self.kernel)
    }

    /// Checks the dynamic shared memory of a launch.
    pub(crate) fn check_shared(&self, dynamic: u32) -> Result<()> {
        if dynamic == 0 {
            // The engine checks static shared memory, without a look at the kernel's code here.
            return Ok(());
        }
        match dynamic <= self.dynamic_shared_limit()? {
            true => Ok(()),
            false => Err(CUresult::INVALID_VALUE),
        }
    }

    /// Dynamic shared memory that a launch may ask for.
    pub(crate) fn dynamic_shared_limit(&self) -> Result<u32> {
        match self.settings.lock().max_dynamic_shared {
            Some(limit) => Ok(limit),
            None => Ok(DEFAULT_SHARED.saturating_sub(usage(&self.kernel)?.static_shared)),
        }
    }
}

/// The function of a handle: of a function, or of a kernel in the current context.
pub(crate) fn get(handle: CUfunction) -> Result<Arc<Function>> {
    match FUNCTIONS.get(handle.0) {
        Some(function) => Ok(function),
        None => library::function_of_kernel(handle.0),
    }
}

/// Most threads of a block of a kernel.
pub(crate) fn max_threads(kernel: &ptxjit::Kernel) -> u32 {
    let limit = kernel.max_threads();
    limit.map_or(MAX_THREADS, |max| max.min(MAX_THREADS))
}

/// What a kernel needs.
pub(crate) fn usage(kernel: &ptxjit::Kernel) -> Result<KernelUsage> {
    kernel.usage().map_err(|err| error::told(&err))
}

/// The value of an attribute of a kernel on a device with some compute capability.
pub(crate) fn attribute_of(
    kernel: &ptxjit::Kernel,
    settings: &Settings,
    capability: (u32, u32),
    attribute: Attribute,
) -> Result<i32> {
    let required = kernel.required_cluster();
    let cluster = required.map_or(settings.cluster, |cluster| cluster.0);
    let value = match attribute {
        Attribute::MAX_THREADS_PER_BLOCK => max_threads(kernel),
        Attribute::SHARED_SIZE_BYTES => usage(kernel)?.static_shared,
        Attribute::CONST_SIZE_BYTES => usage(kernel)?.constants as u32,
        Attribute::LOCAL_SIZE_BYTES => usage(kernel)?.local as u32,
        Attribute::NUM_REGS => N_REGISTERS,
        Attribute::PTX_VERSION => kernel.target().number,
        Attribute::BINARY_VERSION => capability.0 * 10 + capability.1,
        Attribute::CACHE_MODE_CA | Attribute::DEVICE_NODE_UPDATE_SUPPORTED => 0,
        Attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES => match settings.max_dynamic_shared {
            Some(bytes) => bytes,
            None => DEFAULT_SHARED.saturating_sub(usage(kernel)?.static_shared),
        },
        Attribute::PREFERRED_SHARED_MEMORY_CARVEOUT => return Ok(settings.carveout),
        Attribute::CLUSTER_SIZE_MUST_BE_SET => u32::from(kernel.wants_cluster()),
        Attribute::REQUIRED_CLUSTER_WIDTH => cluster[0],
        Attribute::REQUIRED_CLUSTER_HEIGHT => cluster[1],
        Attribute::REQUIRED_CLUSTER_DEPTH => cluster[2],
        Attribute::NON_PORTABLE_CLUSTER_SIZE_ALLOWED => u32::from(settings.non_portable_cluster),
        Attribute::CLUSTER_SCHEDULING_POLICY_PREFERENCE => return Ok(settings.cluster_policy),
        Attribute::SHARED_MEMORY_MODE => return Ok(settings.shared_mode),
        _ => return Err(CUresult::INVALID_VALUE),
    };
    Ok(value as i32)
}

/// Sets an attribute of a kernel on a device whose blocks can have `shared_limit` bytes of
/// shared memory.
pub(crate) fn set_attribute_of(
    kernel: &ptxjit::Kernel,
    settings: &mut Settings,
    shared_limit: u32,
    attribute: Attribute,
    value: i32,
) -> Result<()> {
    let positive = u32::try_from(value).map_err(|_| CUresult::INVALID_VALUE);
    match attribute {
        Attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES => {
            let room = shared_limit.saturating_sub(usage(kernel)?.static_shared);
            let bytes = positive.ok().filter(|&bytes| bytes <= room);
            settings.max_dynamic_shared = Some(bytes.ok_or(CUresult::INVALID_VALUE)?);
        }
        Attribute::PREFERRED_SHARED_MEMORY_CARVEOUT if (-1..=100).contains(&value) => {
            settings.carveout = value;
        }
        // The shape of clusters cannot be changed where the PTX has one.
        Attribute::REQUIRED_CLUSTER_WIDTH
        | Attribute::REQUIRED_CLUSTER_HEIGHT
        | Attribute::REQUIRED_CLUSTER_DEPTH
            if kernel.required_cluster().is_some() =>
        {
            return Err(CUresult::INVALID_VALUE);
        }
        Attribute::REQUIRED_CLUSTER_WIDTH => settings.cluster[0] = positive?,
        Attribute::REQUIRED_CLUSTER_HEIGHT => settings.cluster[1] = positive?,
        Attribute::REQUIRED_CLUSTER_DEPTH => settings.cluster[2] = positive?,
        Attribute::NON_PORTABLE_CLUSTER_SIZE_ALLOWED => settings.non_portable_cluster = value != 0,
        Attribute::CLUSTER_SCHEDULING_POLICY_PREFERENCE => settings.cluster_policy = value,
        Attribute::SHARED_MEMORY_MODE => settings.shared_mode = value,
        _ => return Err(CUresult::INVALID_VALUE),
    }
    Ok(())
}

// --- The interface ---

/// `cuFuncGetAttribute`.
pub fn attribute(handle: CUfunction, attribute: Attribute) -> Result<i32> {
    let function = get(handle)?;
    let capability = function.context()?.device.capability();
    let settings = *function.settings.lock();
    attribute_of(&function.kernel, &settings, capability, attribute)
}

/// `cuFuncSetAttribute`.
pub fn set_attribute(handle: CUfunction, attribute: Attribute, value: i32) -> Result<()> {
    let function = get(handle)?;
    let limit = function.context()?.device.shared_limit();
    let mut settings = function.settings.lock();
    set_attribute_of(&function.kernel, &mut settings, limit, attribute, value)
}

/// `cuFuncSetCacheConfig`: a hint.
pub fn set_cache_config(handle: CUfunction, config: u32) -> Result<()> {
    get(handle)?;
    check_config(config, 3)
}

/// `cuFuncSetSharedMemConfig`: a hint.
pub fn set_shared_config(handle: CUfunction, config: u32) -> Result<()> {
    get(handle)?;
    check_config(config, 2)
}

pub(crate) fn check_config(config: u32, last: u32) -> Result<()> {
    match config <= last {
        true => Ok(()),
        false => Err(CUresult::INVALID_VALUE),
    }
}

/// `cuFuncGetModule`.
pub fn module(handle: CUfunction) -> Result<CUmodule> {
    Ok(CUmodule(get(handle)?.module))
}

/// `cuFuncGetName`: the address of a text that stays as long as the process.
pub fn name(handle: CUfunction) -> Result<u64> {
    if handle.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    Ok(crate::names::address(&get(handle)?.name))
}

/// `cuFuncGetParamInfo`: offset and size of a parameter.
pub fn param(handle: CUfunction, idx: usize) -> Result<(usize, usize)> {
    param_of(&get(handle)?.kernel, idx)
}

/// `cuFuncGetParamCount`.
pub fn param_count(handle: CUfunction) -> Result<usize> {
    Ok(get(handle)?.kernel.param_layout().len())
}

/// Offset and size of a kernel's parameter.
pub(crate) fn param_of(kernel: &ptxjit::Kernel, idx: usize) -> Result<(usize, usize)> {
    let param = kernel.param_layout().nth(idx);
    let param = param.ok_or(CUresult::INVALID_VALUE)?;
    Ok((param.offset, param.size))
}

/// `cuFuncLoad`: the kernel was translated when it was asked for.
pub fn load(handle: CUfunction) -> Result<()> {
    get(handle).map(|_| ())
}
