//! Libraries: images that are loaded once and used in all contexts, and their kernels.
//!
//! A library needs no current context. In each context in which one of its functions or variables
//! is first asked for, it gets a module there, with variables of its own but for managed ones, of
//! which all contexts have one copy.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::context::{self, CONTEXTS, Context};
use crate::device;
use crate::error::{self, Result};
use crate::function::{self, Function, Settings};
use crate::handle::{Kind, Object, Slab};
use crate::host;
use crate::image::jit::{self, Options};
use crate::image::{self, Image, Loaded};
use crate::module::{MODULES, Managed, Module};
use crate::names;
use crate::types::{
    CUdeviceptr, CUfunction, CUfunction_attribute as Attribute, CUkernel, CUlibrary, CUmodule,
    CUresult, HostPtr,
};

static LIBRARIES: Slab<Library> = Slab::new(Kind::Library);
static KERNELS: Slab<Kernel> = Slab::new(Kind::Kernel);

/// An image that is loaded for all contexts.
struct Library {
    handle: u64,
    /// The module to ask about kernels; of its variables the managed ones are used.
    engine: ptxjit::Module,
    /// These variables, once the library is in a context or they are asked for.
    managed: Mutex<Option<Managed>>,
    /// Handles of modules, by identity of the context.
    modules: Mutex<HashMap<u64, u64>>,
    kernels: Mutex<HashMap<String, Arc<Kernel>>>,
}

/// A kernel of a library.
struct Kernel {
    handle: u64,
    library: u64,
    name: String,
    engine: ptxjit::Kernel,
    /// Attributes by device.
    settings: Mutex<HashMap<i32, Settings>>,
    /// Handles of functions, by identity of the context.
    functions: Mutex<HashMap<u64, u64>>,
}

impl Object for Library {
    fn handle(&self) -> u64 {
        self.handle
    }
}

impl Object for Kernel {
    fn handle(&self) -> u64 {
        self.handle
    }
}

fn get(handle: CUlibrary) -> Result<Arc<Library>> {
    LIBRARIES.get(handle.0).ok_or(CUresult::INVALID_HANDLE)
}

fn kernel(handle: CUkernel) -> Result<Arc<Kernel>> {
    KERNELS.get(handle.0).ok_or(CUresult::INVALID_HANDLE)
}

/// The function that a kernel is in the current context.
pub(crate) fn function_of_kernel(handle: u64) -> Result<Arc<Function>> {
    let kernel = kernel(CUkernel(handle))?;
    kernel.function(&*context::current()?)
}

impl Library {
    fn load(image: &Image) -> Loaded<Arc<Library>> {
        let engine = image.load(device::get(0)?)?;
        Ok(LIBRARIES.insert(|handle| Library {
            handle,
            engine,
            managed: Mutex::default(),
            modules: Mutex::default(),
            kernels: Mutex::default(),
        })?)
    }

    /// Loading a library is no error if functions are missing; asking for something in it is.
    fn check_defined(&self) -> Result<()> {
        let checked = self.engine.check_defined();
        checked.map_err(|err| error::told(&err))
    }

    fn place_managed(&self) -> Result<()> {
        let mut managed = self.managed.lock();
        if managed.is_none() {
            *managed = Some(Managed::of(&self.engine, device::get(0)?)?);
        }
        Ok(())
    }

    /// The module in a context.
    fn module(&self, context: &Context) -> Result<Arc<Module>> {
        let mut modules = self.modules.lock();
        let known = modules.get(&context.id);
        if let Some(module) = known.and_then(|&handle| MODULES.get(handle)) {
            return Ok(module);
        }
        self.check_defined()?;
        self.place_managed()?;
        let engine = self.engine.on_with_managed(context.device.engine()?);
        let module = Module::add(context, engine, Managed::default())?;
        modules.insert(context.id, module.raw().0);
        Ok(module)
    }

    fn kernel(&self, name: &str) -> Result<Arc<Kernel>> {
        let mut kernels = self.kernels.lock();
        if let Some(kernel) = kernels.get(name) {
            return Ok(kernel.clone());
        }
        self.check_defined()?;
        let engine = self.engine.kernel_exact(name);
        let kernel = Kernel {
            handle: KERNELS.reserve()?,
            library: self.handle,
            name: name.to_owned(),
            engine: engine.map_err(|err| error::unless_missing(&err))?,
            settings: Mutex::default(),
            functions: Mutex::default(),
        };
        let kernel = Arc::new(kernel);
        KERNELS.set(kernel.handle, Some(kernel.clone()));
        kernels.insert(name.to_owned(), kernel.clone());
        Ok(kernel)
    }
}

impl Kernel {
    fn function(&self, context: &Context) -> Result<Arc<Function>> {
        let mut functions = self.functions.lock();
        let known = functions.get(&context.id);
        if let Some(function) = known.and_then(|&handle| function::FUNCTIONS.get(handle)) {
            return Ok(function);
        }
        let module = get(CUlibrary(self.library))?.module(context)?;
        let function = module.function(&self.name)?;
        if let Some(settings) = self.settings.lock().get(&context.device.ordinal) {
            *function.settings.lock() = *settings;
        }
        functions.insert(context.id, function.raw().0);
        Ok(function)
    }
}

// --- The interface: libraries ---

/// `cuLibraryLoadData`.
pub fn load_data(address: HostPtr, options: Options) -> Result<CUlibrary> {
    let jit = jit::read(&options)?;
    if address.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    let load = || Library::load(&image::read(address.0)?);
    Ok(CUlibrary(jit.finish(load())?.handle))
}

/// `cuLibraryLoadFromFile`.
pub fn load_file(path: HostPtr, options: Options) -> Result<CUlibrary> {
    let jit = jit::read(&options)?;
    let path = host::string(path)?;
    let load = || Library::load(&image::read_file(&path)?);
    Ok(CUlibrary(jit.finish(load())?.handle))
}

/// `cuLibraryUnload`. Waits for what runs.
pub fn unload(handle: CUlibrary) -> Result<()> {
    let library = LIBRARIES.remove(handle.0);
    let library = library.ok_or(CUresult::INVALID_HANDLE)?;
    let modules = library.modules.lock();
    for module in modules.values().filter_map(|&module| MODULES.get(module)) {
        if let Some(context) = CONTEXTS.get(module.context) {
            context.wait();
        }
        module.unload();
    }
    if let Some(managed) = &*library.managed.lock() {
        managed.end();
    }
    for kernel in library.kernels.lock().values() {
        KERNELS.remove(kernel.handle);
    }
    Ok(())
}

/// `cuLibraryGetKernel`.
pub fn get_kernel(handle: CUlibrary, name: HostPtr) -> Result<CUkernel> {
    let library = get(handle)?;
    Ok(CUkernel(library.kernel(&host::string(name)?)?.handle))
}

/// `cuLibraryGetKernelCount`.
pub fn kernel_count(handle: CUlibrary) -> Result<u32> {
    Ok(get(handle)?.engine.kernel_names().len() as u32)
}

/// `cuLibraryEnumerateKernels`: the first `count` kernels.
pub fn enumerate_kernels(handle: CUlibrary, count: u32) -> Result<Vec<CUkernel>> {
    let library = get(handle)?;
    let names = library.engine.kernel_names();
    let names = names.iter().take(count as usize);
    names
        .map(|name| Ok(CUkernel(library.kernel(name)?.handle)))
        .collect()
}

/// `cuLibraryGetModule`: the module in the current context.
pub fn get_module(handle: CUlibrary) -> Result<CUmodule> {
    let library = get(handle)?;
    Ok(library.module(&*context::current()?)?.raw())
}

/// `cuLibraryGetGlobal`: address and size of a variable in the current context.
pub fn get_global(handle: CUlibrary, name: HostPtr) -> Result<(CUdeviceptr, usize)> {
    let library = get(handle)?;
    let module = library.module(&*context::current()?)?;
    let (base, size) = module.global(&host::string(name)?)?;
    Ok((base, size as usize))
}

/// `cuLibraryGetManaged`: address and size of a managed variable.
pub fn get_managed(handle: CUlibrary, name: HostPtr) -> Result<(CUdeviceptr, usize)> {
    let library = get(handle)?;
    let name = host::string(name)?;
    let global = library.engine.global(&name);
    let global = global.filter(|global| global.is_managed());
    let global = global.ok_or(CUresult::NOT_FOUND)?;
    library.place_managed()?;
    let base = global.address().map_err(|err| error::code_of(&err))?;
    Ok((base, global.size() as usize))
}

// --- The interface: kernels ---

/// `cuKernelGetFunction`: the function in the current context.
pub fn get_function(handle: CUkernel) -> Result<CUfunction> {
    let kernel = kernel(handle)?;
    Ok(kernel.function(&*context::current()?)?.raw())
}

/// `cuKernelGetLibrary`.
pub fn get_library(handle: CUkernel) -> Result<CUlibrary> {
    Ok(CUlibrary(kernel(handle)?.library))
}

/// `cuKernelGetName`: the address of a text that stays as long as the process.
pub fn get_name(handle: CUkernel) -> Result<u64> {
    if handle.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    Ok(names::address(&kernel(handle)?.name))
}

/// `cuKernelGetAttribute`, on a device.
pub fn attribute(handle: CUkernel, attribute: Attribute, device: i32) -> Result<i32> {
    let kernel = kernel(handle)?;
    let device = device::get(device)?;
    let settings = kernel.settings.lock().get(&device.ordinal).copied();
    let settings = settings.unwrap_or_default();
    function::attribute_of(&kernel.engine, &settings, device.capability(), attribute)
}

/// `cuKernelSetAttribute`, on a device and in all contexts there.
pub fn set_attribute(
    handle: CUkernel,
    attribute: Attribute,
    value: i32,
    device: i32,
) -> Result<()> {
    let kernel = kernel(handle)?;
    let device = device::get(device)?;
    let limit = device.shared_limit();
    let set = |settings: &mut Settings| {
        function::set_attribute_of(&kernel.engine, settings, limit, attribute, value)
    };
    set(kernel.settings.lock().entry(device.ordinal).or_default())?;
    let functions = kernel.functions.lock();
    let functions = functions.values();
    for function in functions.filter_map(|&handle| function::FUNCTIONS.get(handle)) {
        let context = function.context();
        if context.is_ok_and(|context| context.device.ordinal == device.ordinal) {
            set(&mut function.settings.lock())?;
        }
    }
    Ok(())
}

/// `cuKernelSetCacheConfig`: a hint.
pub fn set_cache_config(handle: CUkernel, config: u32, device: i32) -> Result<()> {
    kernel(handle)?;
    device::get(device)?;
    function::check_config(config, 3)
}

/// `cuKernelGetParamInfo`: offset and size of a parameter. It needs a context, unlike the count.
pub fn param(handle: CUkernel, idx: usize) -> Result<(usize, usize)> {
    context::current_even_failed()?;
    function::param_of(&kernel(handle)?.engine, idx)
}

/// `cuKernelGetParamCount`.
pub fn param_count(handle: CUkernel) -> Result<usize> {
    Ok(kernel(handle)?.engine.param_layout().len())
}
