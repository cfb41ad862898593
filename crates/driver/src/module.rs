//! Modules: images that were loaded into a context.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;

use crate::context::{self, CONTEXTS, Context};
use crate::device::Device;
use crate::error::{self, Result};
use crate::findings;
use crate::function::{self, Function};
use crate::handle::{Kind, Object, Slab};
use crate::host;
use crate::image::jit::{self, Options};
use crate::image::{self, Image, Loaded, Refusal};
use crate::memory::{Allocation, REGISTRY, Sort};
use crate::types::{CUdeviceptr, CUfunction, CUmodule, CUresult, HostPtr};

pub(crate) static MODULES: Slab<Module> = Slab::new(Kind::Module);

/// A module in a context.
pub(crate) struct Module {
    handle: u64,
    /// Handle of the context.
    pub(crate) context: u64,
    pub(crate) engine: ptxjit::Module,
    functions: Mutex<HashMap<String, Arc<Function>>>,
    /// Start and size of variables that were asked for.
    globals: Mutex<HashMap<String, (u64, u64)>>,
    /// Its own managed variables.
    managed: Managed,
}

impl Object for Module {
    fn handle(&self) -> u64 {
        self.handle
    }
}

pub(crate) fn get(handle: CUmodule) -> Result<Arc<Module>> {
    MODULES.get(handle.0).ok_or(CUresult::INVALID_HANDLE)
}

impl Module {
    /// Loads an image into a context.
    pub(crate) fn load(context: &Context, image: &Image) -> Loaded<Arc<Module>> {
        let engine = image.load_whole(context.device)?;
        let managed = Managed::of(&engine, context.device)?;
        Ok(Module::add(context, engine, managed)?)
    }

    /// Adds a module that is on the context's device already.
    pub(crate) fn add(
        context: &Context,
        engine: ptxjit::Module,
        managed: Managed,
    ) -> Result<Arc<Module>> {
        MODULES.insert(|handle| Module {
            handle,
            context: context.raw().0,
            engine,
            functions: Mutex::default(),
            globals: Mutex::default(),
            managed,
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
        let kernel = self.engine.kernel_exact(name);
        let kernel = kernel.map_err(|err| error::unless_missing(&err))?;
        let function = Function::new(name, self.handle, self.context, kernel)?;
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
        if global.is_managed() {
            return Ok(range);
        }
        let context = CONTEXTS
            .get(self.context)
            .ok_or(CUresult::CONTEXT_IS_DESTROYED)?;
        REGISTRY.add(&context, range.0, range.1, Sort::Global);
        globals.insert(name.to_owned(), range);
        Ok(range)
    }

    /// Takes the module and its functions away.
    pub(crate) fn unload(&self) {
        if MODULES.remove(self.handle).is_some() {
            self.end();
        }
    }

    fn end(&self) {
        findings::module_ends(self);
        for function in self.functions.lock().values() {
            function::FUNCTIONS.remove(function.handle());
        }
        for (base, _) in self.globals.lock().values() {
            let _ = REGISTRY.take(*base, |sort| sort == Sort::Global);
        }
        self.managed.end();
    }
}

/// Managed variables, which all devices may access: by address, and through each module of a
/// library.
#[derive(Default)]
pub(crate) struct Managed(Mutex<Vec<u64>>);

impl Managed {
    /// Places those of a module, and notes them as allocations.
    pub(crate) fn of(engine: &ptxjit::Module, device: &Device) -> Result<Managed> {
        let managed = Managed::default();
        for global in engine.managed() {
            if global.is_extern() {
                continue;
            }
            let base = global.address().map_err(|err| error::code_of(&err))?;
            REGISTRY.insert(Allocation {
                base,
                size: global.size(),
                capacity: global.size(),
                sort: Sort::ManagedGlobal,
                context: 0,
                device: device.ordinal,
                id: 0,
                site: None,
                sync_memops: AtomicBool::new(false),
            });
            managed.0.lock().push(base);
        }
        Ok(managed)
    }

    /// They are no allocations any more.
    pub(crate) fn end(&self) {
        for base in self.0.lock().drain(..) {
            let _ = REGISTRY.take(base, |sort| sort == Sort::ManagedGlobal);
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

/// `cuModuleLoadData`, `cuModuleLoadFatBinary`, and `cuModuleLoadDataEx` with options.
pub fn load_data(address: HostPtr, options: Options) -> Result<CUmodule> {
    let context = context::current()?;
    let jit = jit::read(&options)?;
    if address.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    let load = || Module::load(&context, &image::read(address.0)?);
    Ok(jit.finish(load())?.raw())
}

/// `cuModuleLoad`.
pub fn load_file(path: HostPtr) -> Result<CUmodule> {
    let context = context::current()?;
    let path = host::string(path)?;
    let load = || Module::load(&context, &image::read_file(&path)?);
    Ok(load().map_err(Refusal::told)?.raw())
}

/// `cuModuleGetFunctionCount`.
pub fn function_count(handle: CUmodule) -> Result<u32> {
    Ok(get(handle)?.engine.kernel_names().len() as u32)
}

/// `cuModuleEnumerateFunctions`: the first `count` functions.
pub fn enumerate_functions(handle: CUmodule, count: u32) -> Result<Vec<CUfunction>> {
    let module = get(handle)?;
    let names = module.engine.kernel_names();
    let names = names.iter().take(count as usize);
    names.map(|name| Ok(module.function(name)?.raw())).collect()
}

/// `cuModuleGetLoadingMode`: 1 is eager, 2 is lazy.
pub fn loading_mode() -> Result<u32> {
    Ok(match crate::state::state()?.config.module_loading {
        ptxjit_persona::ModuleLoading::Eager => 1,
        ptxjit_persona::ModuleLoading::Lazy => 2,
    })
}

/// `cuModuleUnload`.
pub fn unload(handle: CUmodule) -> Result<()> {
    let module = get(handle)?;
    let context = CONTEXTS
        .get(module.context)
        .ok_or(CUresult::CONTEXT_IS_DESTROYED)?;
    context.wait();
    let module = MODULES.remove(handle.0).ok_or(CUresult::INVALID_HANDLE)?;
    module.end();
    Ok(())
}

/// `cuModuleGetFunction`.
pub fn get_function(handle: CUmodule, name: HostPtr) -> Result<CUfunction> {
    let module = get(handle)?;
    let name = host::string(name)?;
    match name.is_empty() {
        true => Err(CUresult::INVALID_VALUE),
        false => Ok(module.function(&name)?.raw()),
    }
}

/// `cuModuleGetGlobal`: address and size.
pub fn get_global(handle: CUmodule, name: HostPtr) -> Result<(CUdeviceptr, usize)> {
    let (base, size) = get(handle)?.global(&host::string(name)?)?;
    Ok((base, size as usize))
}
