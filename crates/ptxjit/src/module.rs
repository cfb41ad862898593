//! Modules and their kernels.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ptxjit_codegen::Haste;
use ptxjit_frontend::source::Source;
use ptxjit_frontend::translate;
use ptxjit_ir::{KernelAttrs, KernelParam, Program, Var, VarId, VarInit};
use ptxjit_runtime::{LaunchError, ModuleMemory, VarSource};

use crate::cache::Key;
use crate::compile::{self, Got, Limit, Stored, Variant, Variants};
use crate::diagnostic::Text;
use crate::failure::Cause;
use crate::{Device, Diagnostics, Dim3, Element, Error, Launch, Options, names};

/// A PTX module on a device: its kernels, and its variables in device memory.
///
/// Loading reads the module's outline; a kernel is parsed, checked and translated when it is asked for, and compiled when it
/// is first launched. A module can be shared by threads and is cheap to clone; all clones have the same variables.
#[derive(Clone)]
pub struct Module {
    pub(crate) inner: Arc<ModuleInner>,
}

pub(crate) struct ModuleInner {
    pub(crate) front: Arc<translate::Module>,
    pub(crate) device: Device,
    pub(crate) memory: Arc<ModuleMemory>,
    kernels: Mutex<HashMap<String, Arc<KernelInner>>>,
    /// Of the module's text.
    key: OnceLock<Key>,
}

/// What is known of a kernel. The module keeps it, so it must not keep the module.
pub(crate) struct KernelInner {
    pub(crate) name: String,
    pub(crate) params: Vec<KernelParam>,
    pub(crate) attrs: KernelAttrs,
    pub(crate) variants: Variants,
    /// Its place in the cache on disk.
    pub(crate) stored: Option<Stored>,
    front: Arc<translate::Module>,
    /// As translated.
    program: OnceLock<Arc<Program>>,
}

impl KernelInner {
    /// The kernel as translated; that happens here if the cache made it unnecessary so far.
    pub(crate) fn program(&self) -> Result<Arc<Program>, Error> {
        if let Some(program) = self.program.get() {
            return Ok(program.clone());
        }
        let program = self.front.program(&self.name).map_err(|list| {
            let text = Text::Module(self.front.clone());
            Error::from_diagnostics(Diagnostics::new(list, &text))
        })?;
        program.check_sizes().map_err(|message| Error::Compile {
            kernel: self.name.clone(),
            message,
        })?;
        Ok(self.program.get_or_init(|| Arc::new(program)).clone())
    }

    /// The error of a launch whose time limit passed before there was code.
    pub(crate) fn timed_out(&self, limit: Duration) -> Error {
        let timeout = LaunchError::Timeout {
            kernel: self.name.clone(),
            seconds: limit.as_secs_f64(),
        };
        Cause::from(timeout).into_error(&self.name, &self.front)
    }

    /// Makes sure that the kernel can be translated.
    fn check(&self) -> Result<(), Error> {
        let stored = self.stored.as_ref().map(|it| (it, it.checked_key()));
        if stored.is_some_and(|(stored, key)| stored.cache.get(key).is_some()) {
            return Ok(());
        }
        self.program()?;
        if let Some((stored, key)) = stored {
            stored.cache.put(key, b"");
        }
        Ok(())
    }
}

impl Module {
    /// Loads the PTX file at `path`.
    pub fn load(device: &Device, path: impl AsRef<Path>) -> Result<Module, Error> {
        let path = path.as_ref();
        let text = read(path)?;
        // Kept only for messages, and so read again rather than copied.
        let again = || read(path).unwrap_or_default();
        Module::build(device, &path.to_string_lossy(), text, again)
    }

    /// Loads PTX from memory. `name` stands for the file's name in messages.
    pub fn from_source(
        device: &Device,
        name: &str,
        text: impl Into<String>,
    ) -> Result<Module, Error> {
        let text = text.into();
        let copy = text.clone();
        Module::build(device, name, text.into_bytes(), || copy.into_bytes())
    }

    fn build(
        device: &Device,
        name: &str,
        text: Vec<u8>,
        again: impl FnOnce() -> Vec<u8>,
    ) -> Result<Module, Error> {
        let front = match translate::Module::parse(Source::from_bytes(name, text)) {
            Ok(module) => Arc::new(module),
            Err(list) => {
                let text = Text::Source(Arc::new(Source::from_bytes(name, again())));
                return Err(Error::from_diagnostics(Diagnostics::new(list, &text)));
            }
        };
        let memory = ModuleMemory::new(device.arena.clone(), Box::new(Vars(front.clone())));
        let kernels = Mutex::default();
        let inner = ModuleInner {
            front,
            device: device.clone(),
            memory: Arc::new(memory),
            kernels,
            key: OnceLock::new(),
        };
        Ok(Module {
            inner: Arc::new(inner),
        })
    }

    /// Names of all kernels as the PTX has them, in its order.
    pub fn kernel_names(&self) -> Vec<String> {
        self.inner
            .front
            .kernels()
            .into_iter()
            .map(|kernel| kernel.name)
            .collect()
    }

    /// The kernel called `name`, mangled or demangled (`saxpy`, `ns::scale<float>`, `saxpy(int, float*)`).
    ///
    /// This is where a kernel's code is checked: wrong PTX gives [`Error::Invalid`], instructions that cannot be executed yet
    /// give [`Error::Unsupported`].
    pub fn kernel(&self, name: &str) -> Result<Kernel, Error> {
        let all = self.kernel_names();
        match names::find(name, all.iter().map(String::as_str)).as_slice() {
            [] => Err(Error::usage(format!(
                "there is no kernel `{name}`; the module has {}",
                list(&all)
            ))),
            [found] => self.kernel_named(found),
            several => {
                let several: Vec<String> = several.iter().map(|&name| name.to_owned()).collect();
                Err(Error::usage(format!(
                    "`{name}` could be any of {}",
                    list(&several)
                )))
            }
        }
    }

    /// The kernel of a module that has just one.
    pub fn only_kernel(&self) -> Result<Kernel, Error> {
        let names = self.kernel_names();
        match names.as_slice() {
            [name] => self.kernel_named(name),
            [] => Err(Error::usage("the module has no kernel")),
            _ => Err(Error::usage(format!(
                "the module has several kernels, choose one of {}",
                list(&names)
            ))),
        }
    }

    fn kernel_named(&self, name: &str) -> Result<Kernel, Error> {
        if let Some(kernel) = self.lock_kernels().get(name) {
            return Ok(Kernel {
                module: self.inner.clone(),
                inner: kernel.clone(),
            });
        }
        // Not under the lock: other kernels can be translated meanwhile. If two threads want this one, the first wins.
        let front = &self.inner.front;
        let described = front
            .kernel(name)
            .ok_or_else(|| Error::usage(format!("there is no kernel `{name}`")))?;
        let kernel = Arc::new(KernelInner {
            name: described.name,
            params: described.params,
            attrs: described.attrs,
            variants: Variants::default(),
            stored: self.stored(name),
            front: front.clone(),
            program: OnceLock::new(),
        });
        kernel.check()?;
        let inner = self
            .lock_kernels()
            .entry(name.to_owned())
            .or_insert(kernel)
            .clone();
        Ok(Kernel {
            module: self.inner.clone(),
            inner,
        })
    }

    /// The place of a kernel's code on disk.
    fn stored(&self, kernel: &str) -> Option<Stored> {
        let inner = &self.inner;
        let cache = inner.device.cache.as_ref()?;
        let text = || Key::new(&[inner.front.source().text().as_bytes()]);
        Stored::new(cache, *inner.key.get_or_init(text), kernel)
    }

    fn lock_kernels(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<KernelInner>>> {
        // The map is consistent between any two statements.
        self.inner
            .kernels
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The module variable called `name`, in `.global` or `.const`.
    pub fn global(&self, name: &str) -> Option<Global> {
        let id = self.inner.front.var_id(name)?;
        let var = self.inner.front.var(id)?;
        Some(Global {
            module: self.clone(),
            id,
            size: var.size,
        })
    }

    /// What is odd about the module but not wrong.
    pub fn warnings(&self) -> Diagnostics {
        Diagnostics::new(
            self.inner.front.warnings().to_vec(),
            &Text::Module(self.inner.front.clone()),
        )
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Module")
            .field(&self.inner.front.source().name())
            .finish()
    }
}

fn list(names: &[String]) -> String {
    const SHOWN: usize = 20;
    let quoted: Vec<String> = names
        .iter()
        .take(SHOWN)
        .map(|name| format!("`{name}`"))
        .collect();
    let rest = names.len().saturating_sub(SHOWN);
    match (quoted.as_slice(), rest) {
        ([], _) => "none".to_owned(),
        (_, 0) => quoted.join(", "),
        (_, rest) => format!("{} and {rest} more", quoted.join(", ")),
    }
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })
}

/// A kernel that was checked and translated.
#[derive(Clone)]
pub struct Kernel {
    pub(crate) module: Arc<ModuleInner>,
    pub(crate) inner: Arc<KernelInner>,
}

impl Kernel {
    /// The name as the PTX has it.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Name and size in bytes of each parameter.
    pub fn params(&self) -> impl Iterator<Item = (&str, usize)> {
        self.inner
            .params
            .iter()
            .map(|param| (param.name.as_str(), param.size as usize))
    }

    /// A launch of this kernel, to be described further.
    pub fn launch(&self) -> Launch {
        Launch::new(self)
    }

    /// Compiles for blocks of this size, without haste, if that has not happened yet, and tells the gang width. Launches compile
    /// by themselves.
    pub fn compile(&self, block: impl Into<Dim3>) -> Result<u32, Error> {
        let options = Options::default();
        let variant = Variant::new(
            &self.inner,
            &options,
            Dim3([1; 3]),
            block.into(),
            false,
            Limit::NONE,
        )?;
        Ok(self.variant(&variant, Haste::None, Limit::NONE)?.code.gang)
    }

    /// The code for `variant`.
    pub(crate) fn variant(
        &self,
        variant: &Variant,
        haste: Haste,
        limit: Limit,
    ) -> Result<Got, Error> {
        self.inner.variants.get(&self.inner, variant, haste, limit)
    }

    /// The kernel at a stage of its compilation, as text; [`crate::dump_stages`] lists the stages.
    pub fn dump(
        &self,
        stage: &str,
        block: impl Into<Dim3>,
        options: &Options,
    ) -> Result<String, Error> {
        compile::dump(
            &self.module.front,
            &self.inner,
            stage,
            options,
            block.into(),
        )
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kernel").field(&self.inner.name).finish()
    }
}

/// A variable of a module, in device memory.
#[derive(Clone, Debug)]
pub struct Global {
    module: Module,
    id: VarId,
    size: u64,
}

impl Global {
    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Its generic address, which kernels can use.
    pub fn address(&self) -> Result<u64, Error> {
        Ok(self
            .checked(self.module.inner.memory.var_range(self.id))?
            .start)
    }

    /// Overwrites the first elements.
    pub fn write<T: Element>(&self, values: &[T]) -> Result<(), Error> {
        self.checked(
            self.module
                .inner
                .memory
                .write(self.id, 0, bytemuck::cast_slice(values)),
        )
    }

    /// Reads the first `count` elements.
    pub fn read<T: Element>(&self, count: usize) -> Result<Vec<T>, Error> {
        if count
            .checked_mul(T::SIZE)
            .is_none_or(|size| size as u64 > self.size)
        {
            return Err(Error::usage(format!(
                "{count} elements are more than the variable has"
            )));
        }
        let mut values = bytemuck::zeroed_vec(count);
        let bytes = bytemuck::cast_slice_mut(&mut values);
        self.checked(self.module.inner.memory.read(self.id, 0, bytes))?;
        Ok(values)
    }

    fn checked<R>(&self, result: Result<R, ptxjit_runtime::LaunchError>) -> Result<R, Error> {
        result.map_err(|err| Cause::from(err).into_error("", &self.module.inner.front))
    }
}

/// The frontend's variables, as the runtime asks for them.
struct Vars(Arc<translate::Module>);

impl VarSource for Vars {
    fn var(&self, id: VarId) -> Option<Var> {
        self.0.var(id)
    }

    fn init(&self, id: VarId) -> Result<VarInit, String> {
        let text = Text::Module(self.0.clone());
        self.0
            .var_init(id)
            .map_err(|list| Diagnostics::new(list, &text).to_string())
    }
}
