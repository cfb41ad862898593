//! Modules and functions: images that were loaded into a context, and what can be launched from them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::context::{self, CONTEXTS, Context};
use crate::error::{self, Result};
use crate::handle::{Kind, Object, Slab};
use crate::host;
use crate::image::{self, Image};
use crate::memory::{REGISTRY, Sort};
use crate::types::{CUdeviceptr, CUfunction, CUmodule, CUresult, HostPtr};

pub(crate) static MODULES: Slab<Module> = Slab::new(Kind::Module);
pub(crate) static FUNCTIONS: Slab<Function> = Slab::new(Kind::Function);

/// A module in a context.
pub(crate) struct Module {
    handle: u64,
    /// Handle of the context.
    pub(crate) context: u64,
    pub(crate) engine: ptxjit::Module,
    functions: Mutex<HashMap<String, Arc<Function>>>,
    /// Start and size of variables that were asked for.
    globals: Mutex<HashMap<String, (u64, u64)>>,
}

/// A kernel of a module.
pub(crate) struct Function {
    handle: u64,
    pub(crate) name: String,
    /// Handle of the module.
    pub(crate) module: u64,
    /// Handle of the context.
    pub(crate) context: u64,
    pub(crate) kernel: ptxjit::Kernel,
    /// Dynamic shared memory that launches may ask for.
    pub(crate) max_dynamic_shared: AtomicU32,
}

impl Object for Module {
    fn handle(&self) -> u64 {
        self.handle
    }
}

impl Object for Function {
    fn handle(&self) -> u64 {
        self.handle
    }
}

impl Function {
    /// The handle as the interface has it.
    pub(crate) fn raw(&self) -> CUfunction {
        CUfunction(self.handle)
    }
}

/// Dynamic shared memory that a function may have without asking for more.
pub(crate) const DEFAULT_SHARED: u32 = 48 << 10;

pub(crate) fn get(handle: CUmodule) -> Result<Arc<Module>> {
    MODULES.get(handle.0).ok_or(CUresult::INVALID_HANDLE)
}

/// The function of a handle.
pub(crate) fn function(handle: CUfunction) -> Result<Arc<Function>> {
    FUNCTIONS.get(handle.0).ok_or(CUresult::INVALID_HANDLE)
}

impl Module {
    /// Loads an image into a context.
    pub(crate) fn load(context: &Context, image: &Image) -> Result<Arc<Module>> {
        let engine = image.load(context.device)?;
        MODULES.insert(|handle| Module {
            handle,
            context: context.raw().0,
            engine,
            functions: Mutex::default(),
            globals: Mutex::default(),
        })
    }

    /// The handle as the interface has it.
    pub(crate) fn raw(&self) -> CUmodule {
        CUmodule(self.handle)
    }

    /// The kernel with this very name.
    pub(crate) fn function(&self, name: &str) -> Result<Arc<Function>> {
        let mut functions = self.functions.lock();
        if let Some(function) = functions.get(name) {
            return Ok(function.clone());
        }
        let kernel = self
            .engine
            .kernel_exact(name)
            .map_err(|err| match err.kind() {
                // Programs ask for names that may not be there.
                ptxjit::ErrorKind::NotFound => CUresult::NOT_FOUND,
                _ => error::told(&err),
            })?;
        let function = FUNCTIONS.insert(|handle| Function {
            handle,
            name: name.to_owned(),
            module: self.handle,
            context: self.context,
            kernel,
            max_dynamic_shared: AtomicU32::new(DEFAULT_SHARED),
        })?;
        functions.insert(name.to_owned(), function.clone());
        Ok(function)
    }

    /// Address and size of a variable.
    pub(crate) fn global(&self, name: &str) -> Result<(u64, u64)> {
        let mut globals = self.globals.lock();
        if let Some(&range) = globals.get(name) {
            return Ok(range);
        }
        let global = self.engine.global(name).ok_or(CUresult::NOT_FOUND)?;
        let range = (
            global.address().map_err(|err| error::code_of(&err))?,
            global.size(),
        );
        let context = CONTEXTS
            .get(self.context)
            .ok_or(CUresult::CONTEXT_IS_DESTROYED)?;
        REGISTRY.add(&context, range.0, range.1, Sort::Global);
        globals.insert(name.to_owned(), range);
        Ok(range)
    }

    fn end(&self) {
        for function in self.functions.lock().values() {
            FUNCTIONS.remove(function.handle);
        }
        for (base, _) in self.globals.lock().values() {
            let _ = REGISTRY.take(*base, |sort| sort == Sort::Global);
        }
    }
}

/// Ends all modules of a context.
pub(crate) fn remove_all(context: u64) {
    for module in MODULES.all() {
        if module.context == context && MODULES.remove(module.handle).is_some() {
            module.end();
        }
    }
}

// --- The interface ---

/// `cuModuleLoadData`.
pub fn load_data(address: HostPtr) -> Result<CUmodule> {
    let context = context::current()?;
    let image = image::read(address.0)?;
    Ok(Module::load(&context, &image)?.raw())
}

/// `cuModuleLoad`.
pub fn load_file(path: HostPtr) -> Result<CUmodule> {
    let context = context::current()?;
    let image = image::read_file(&host::string(path)?)?;
    Ok(Module::load(&context, &image)?.raw())
}

/// `cuModuleUnload`.
pub fn unload(handle: CUmodule) -> Result<()> {
    let module = get(handle)?;
    let context = CONTEXTS
        .get(module.context)
        .ok_or(CUresult::CONTEXT_IS_DESTROYED)?;
    let _ = context.synchronize();
    let module = MODULES.remove(handle.0).ok_or(CUresult::INVALID_HANDLE)?;
    module.end();
    Ok(())
}

/// `cuModuleGetFunction`.
pub fn get_function(handle: CUmodule, name: HostPtr) -> Result<CUfunction> {
    let module = get(handle)?;
    Ok(module.function(&host::string(name)?)?.raw())
}

/// `cuModuleGetGlobal`: address and size.
pub fn get_global(handle: CUmodule, name: HostPtr) -> Result<(CUdeviceptr, usize)> {
    let (base, size) = get(handle)?.global(&host::string(name)?)?;
    Ok((base, size as usize))
}

/// `cuFuncSetAttribute`, for dynamic shared memory.
pub(crate) fn set_max_dynamic_shared(function: &Function, bytes: i32) -> Result<()> {
    let bytes = u32::try_from(bytes).map_err(|_| CUresult::INVALID_VALUE)?;
    function.max_dynamic_shared.store(bytes, Ordering::Relaxed);
    Ok(())
}
