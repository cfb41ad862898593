//! Modules and their kernels. This file is long because all that a module tells stands together.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ptxjit_codegen::BaselineTier;
use ptxjit_frontend::source::Source;
use ptxjit_frontend::translate::{self, Refused};
use ptxjit_frontend::{ast, diag};
use ptxjit_interp::Allocated;
use ptxjit_ir::{KernelAttrs, KernelParam, Program, SharedLayout, Space};
use ptxjit_passes::pipeline;
use ptxjit_passes::transform::trace;
use ptxjit_runtime::{LaunchError, ModuleMemory};

use crate::cache::Key;
use crate::compile::{self, Got, Limit, Stored, Variant, Variants};
use crate::diagnostic::Text;
use crate::failure::Cause;
use crate::global::{Global, Vars};
use crate::sanitize::{Context, Finding};
use crate::screen::Screens;
use crate::{CompileObstacle, Device, Diagnostics, Dim3, Error, Launch, Options, UsageRule, names};

/// A PTX module on a device, or several that are linked: its kernels, and its variables in device
/// memory.
///
/// Loading reads the module's outline; a kernel is parsed, checked and translated when it is asked
/// for, and compiled when it is first launched. A module can be shared by threads and is cheap to
/// clone; all clones have the same variables.
#[derive(Clone)]
pub struct Module {
    pub(crate) inner: Arc<ModuleInner>,
}

pub(crate) struct ModuleInner {
    pub(crate) front: Arc<translate::Module>,
    pub(crate) device: Device,
    pub(crate) memory: Arc<ModuleMemory>,
    /// What is bound to opaque variables.
    pub(crate) bound: crate::global::Bound,
    shared: Arc<Shared>,
    /// Blocks that watched launches have left, by address.
    left: Mutex<Vec<(u64, Finding)>>,
}

impl ModuleInner {
    /// The key of all texts, each by itself: what they say joined depends on where one ends.
    fn text_key(&self) -> Key {
        let key = || {
            let source = self.front.source();
            let texts = (0..source.n_files()).map(|file| source.file_text(file).as_bytes());
            Key::new(&texts.collect::<Vec<_>>())
        };
        *self.shared.key.get_or_init(key)
    }

    /// A hash of all texts, as a few hexadecimal digits.
    pub(crate) fn text_hash(&self) -> String {
        let key = self.text_key();
        let bytes = key.bytes()[..8].iter();
        bytes.map(|byte| format!("{byte:02x}")).collect()
    }

    fn leaks(&self) -> Vec<Finding> {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let arena = &self.device.arena;
        let is_live = |addr: u64| arena.range_of(addr).is_some_and(|(start, _)| start == addr);
        let live = left.iter().filter(|&&(addr, _)| is_live(addr));
        live.map(|(_, finding)| finding.clone()).collect()
    }

    /// Remembers blocks that a launch has allocated and not freed.
    pub(crate) fn note_allocated(&self, blocks: Vec<Allocated>, context: &Context<'_>) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.extend(blocks.iter().map(|block| (block.addr, context.leak(block))));
    }
}

/// What modules with the same text have in common: see [`Module::on`].
#[derive(Default)]
struct Shared {
    kernels: Mutex<HashMap<String, Arc<KernelInner>>>,
    /// Of the module's texts.
    key: OnceLock<Key>,
    /// Set when nothing was found wrong.
    is_checked: OnceLock<()>,
    /// Functions that are used and defined nowhere.
    undefined: OnceLock<Vec<diag::Diagnostic>>,
}

/// What is known of a kernel. The module keeps it, so it must not keep the module.
pub(crate) struct KernelInner {
    pub(crate) name: String,
    pub(crate) params: Vec<KernelParam>,
    pub(crate) attrs: KernelAttrs,
    pub(crate) variants: Variants,
    pub(crate) screens: Screens,
    /// Its place in the cache on disk.
    pub(crate) stored: Option<Stored>,
    front: Arc<translate::Module>,
    /// What its programs tell of how they run.
    tells: Tells,
    /// As translated.
    program: OnceLock<Arc<Program>>,
    /// The same with marks, for sanitizers.
    marked: OnceLock<Arc<Program>>,
    /// The kernel with counters, and with traces as well.
    counted: OnceLock<Arc<KernelInner>>,
    traced: OnceLock<Arc<KernelInner>>,
    /// Whether asynchronous operations complete late, and the kernel of which they do.
    is_late: bool,
    late: OnceLock<Arc<KernelInner>>,
}

/// What code tells of how it is run.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Tells {
    Nothing,
    /// How often, for coverage.
    Counts,
    /// And what it asks of memory, for profiles.
    Traces,
}

impl KernelInner {
    /// The kernel as translated; that happens here if the cache made it unnecessary so far.
    pub(crate) fn program(&self) -> Result<Arc<Program>, Error> {
        if let Some(program) = self.program.get() {
            return Ok(program.clone());
        }
        let program = self.translate(false)?;
        program.check_sizes().map_err(|message| Error::Compile {
            kernel: self.name.clone(),
            obstacle: CompileObstacle::Limit,
            message,
        })?;
        Ok(self.program.get_or_init(|| Arc::new(program)).clone())
    }

    /// The kernel as translated, with marks for sanitizers.
    pub(crate) fn marked_program(&self) -> Result<Arc<Program>, Error> {
        if let Some(program) = self.marked.get() {
            return Ok(program.clone());
        }
        // What is wrong with it is told by the plain one.
        self.program()?;
        let program = self.translate(true)?;
        Ok(self.marked.get_or_init(|| Arc::new(program)).clone())
    }

    fn translate(&self, marks: bool) -> Result<Program, Error> {
        let counters = self.tells != Tells::Nothing;
        let extras = translate::Extras {
            marks,
            late: self.is_late,
            counters,
        };
        let translated = self.front.program_with(&self.name, extras);
        let mut program = translated.map_err(|list| {
            let text = Text::Module(self.front.clone());
            Error::from_diagnostics(Diagnostics::new(list, &text))
        })?;
        if self.tells == Tells::Traces {
            trace::run(&mut program);
        }
        Ok(program)
    }

    /// The same kernel, whose code tells so much, and is kept apart.
    pub(crate) fn telling(self: &Arc<KernelInner>, tells: Tells) -> Arc<KernelInner> {
        let kept = match tells {
            _ if self.tells == tells => return self.clone(),
            Tells::Nothing => return self.clone(),
            Tells::Counts => &self.counted,
            Tells::Traces => &self.traced,
        };
        let stored = || self.stored.as_ref().map(|stored| stored.telling(tells));
        let telling = || KernelInner {
            tells,
            ..self.apart(stored())
        };
        kept.get_or_init(|| Arc::new(telling())).clone()
    }

    /// The same kernel, whose asynchronous operations complete late, and whose code is kept apart.
    pub(crate) fn completing_late(self: &Arc<KernelInner>) -> Arc<KernelInner> {
        if self.is_late {
            return self.clone();
        }
        // Its code is seldom wanted again, and soon compiled.
        let late = || KernelInner {
            is_late: true,
            ..self.apart(None)
        };
        self.late.get_or_init(|| Arc::new(late())).clone()
    }

    /// The same kernel with nothing made of it yet.
    fn apart(&self, stored: Option<Stored>) -> KernelInner {
        KernelInner {
            name: self.name.clone(),
            params: self.params.clone(),
            attrs: self.attrs.clone(),
            variants: Variants::default(),
            screens: Screens::default(),
            stored,
            front: self.front.clone(),
            tells: self.tells,
            program: OnceLock::new(),
            marked: OnceLock::new(),
            counted: OnceLock::new(),
            traced: OnceLock::new(),
            is_late: self.is_late,
            late: OnceLock::new(),
        }
    }

    /// Optimizes a program of the kernel, as translated.
    pub(crate) fn optimize(&self, program: &mut Program, limit: Limit) -> Result<(), Error> {
        let options = pipeline::Options {
            until: limit.until,
            ..pipeline::Options::default()
        };
        let done = pipeline::optimize(program, &options, None);
        done.map(|_| ())
            .map_err(|why| limit.error(self, why.into()))
    }

    /// Whether the program names one of several constant variables of the module.
    pub(crate) fn has_near_constants(&self, program: &Program) -> bool {
        let is_const = |space: Space| space == Space::Const;
        let of_module = self.front.vars();
        let n = of_module.iter().filter(|(_, var)| is_const(var.space));
        program.vars.values().any(|var| is_const(var.space)) && n.count() > 1
    }

    /// Bytes of the parameter block.
    pub(crate) fn param_bytes(&self) -> usize {
        let ends = self
            .params
            .iter()
            .map(|param| param.offset as usize + param.size as usize);
        ends.max().unwrap_or(0)
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
        let source = Source::from_bytes(path.to_string_lossy(), read(path)?);
        Module::build(device, translate::Module::load(source))
    }

    /// Loads PTX from memory. `name` stands for the file's name in messages.
    pub fn from_source(
        device: &Device,
        name: &str,
        text: impl Into<String>,
    ) -> Result<Module, Error> {
        let source = Source::from_bytes(name, text.into().into_bytes());
        Module::build(device, translate::Module::load(source))
    }

    /// As [`Module::from_source`], of text as bytes; a NUL may end it.
    pub fn from_bytes(device: &Device, name: &str, bytes: Vec<u8>) -> Result<Module, Error> {
        let source = Source::from_bytes(name, bytes);
        Module::build(device, translate::Module::load(source))
    }

    pub(crate) fn build(
        device: &Device,
        front: Result<translate::Module, Box<Refused>>,
    ) -> Result<Module, Error> {
        let front = Arc::new(front.map_err(|refused| refused_error(*refused))?);
        let memory = Module::memory(device, &front);
        Ok(Module::with_memory(device, front, Arc::default(), memory))
    }

    /// The same module once more, on this device or on another: with variables of its own, as if it
    /// had been loaded again, but what was checked, translated and compiled is shared.
    pub fn on(&self, device: &Device) -> Module {
        let front = self.inner.front.clone();
        let memory = Module::memory(device, &front);
        Module::with_memory(device, front, self.inner.shared.clone(), memory)
    }

    /// Likewise, but managed variables are those of this module.
    pub fn on_with_managed(&self, device: &Device) -> Module {
        let front = self.inner.front.clone();
        let memory = Module::memory(device, &front).with_managed_of(self.inner.memory.clone());
        Module::with_memory(device, front, self.inner.shared.clone(), memory)
    }

    fn memory(device: &Device, front: &Arc<translate::Module>) -> ModuleMemory {
        let vars = Box::new(Vars(front.clone()));
        ModuleMemory::new(device.arena.clone(), device.runtime.part(), vars)
    }

    fn with_memory(
        device: &Device,
        front: Arc<translate::Module>,
        shared: Arc<Shared>,
        memory: ModuleMemory,
    ) -> Module {
        let inner = ModuleInner {
            front,
            device: device.clone(),
            memory: Arc::new(memory),
            bound: Mutex::default(),
            shared,
            left: Mutex::default(),
        };
        Module {
            inner: Arc::new(inner),
        }
    }

    /// Checks every function, variable and instruction, used or not, as [`crate::check()`] does.
    pub fn check(&self) -> Diagnostics {
        Diagnostics::new(
            self.inner.front.check(),
            &Text::Module(self.inner.front.clone()),
        )
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

    /// The kernel called `name`, mangled or demangled (`saxpy`, `ns::scale<float>`, `saxpy(int,
    /// float*)`).
    ///
    /// This is where a kernel's code is checked: wrong PTX gives [`Error::Invalid`], instructions
    /// that cannot be executed yet give [`Error::Unsupported`].
    pub fn kernel(&self, name: &str) -> Result<Kernel, Error> {
        let all = self.kernel_names();
        match names::find(name, all.iter().map(String::as_str)).as_slice() {
            [] => Err(Error::NotFound(format!(
                "there is no kernel `{name}`; the module has {}",
                list(&all)
            ))),
            [found] => self.kernel_named(found),
            several => {
                let several: Vec<String> = several.iter().map(|&name| name.to_owned()).collect();
                Err(Error::usage(
                    UsageRule::Choice,
                    format!("`{name}` could be any of {}", list(&several)),
                ))
            }
        }
    }

    /// Blocks of `malloc` that launches with sanitizers have left, of all kernels.
    pub fn leaks(&self) -> Vec<Finding> {
        self.inner.leaks()
    }

    /// The kernel whose name in the PTX is `name`; [`Error::NotFound`] if there is none.
    pub fn kernel_exact(&self, name: &str) -> Result<Kernel, Error> {
        self.kernel_named(name)
    }

    /// The kernel of a module that has just one.
    pub fn only_kernel(&self) -> Result<Kernel, Error> {
        let names = self.kernel_names();
        match names.as_slice() {
            [name] => self.kernel_named(name),
            [] => Err(Error::usage(UsageRule::Choice, "the module has no kernel")),
            _ => Err(Error::usage(
                UsageRule::Choice,
                format!(
                    "the module has several kernels, choose one of {}",
                    list(&names)
                ),
            )),
        }
    }

    fn kernel_named(&self, name: &str) -> Result<Kernel, Error> {
        if let Some(kernel) = self.lock_kernels().get(name) {
            return Ok(Kernel {
                module: self.inner.clone(),
                inner: kernel.clone(),
            });
        }
        // Not under the lock: other kernels can be translated meanwhile. If two threads want this
        // one, the first wins.
        let front = &self.inner.front;
        let described = front
            .kernel(name)
            .ok_or_else(|| Error::NotFound(format!("there is no kernel `{name}`")))?;
        let kernel = Arc::new(KernelInner {
            name: described.name,
            params: described.params,
            attrs: described.attrs,
            variants: Variants::default(),
            screens: Screens::default(),
            stored: self.stored(name),
            front: front.clone(),
            tells: Tells::Nothing,
            program: OnceLock::new(),
            marked: OnceLock::new(),
            counted: OnceLock::new(),
            traced: OnceLock::new(),
            is_late: false,
            late: OnceLock::new(),
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
        Stored::new(cache, inner.text_key(), kernel)
    }

    fn lock_kernels(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<KernelInner>>> {
        // The map is consistent between any two statements.
        self.inner
            .shared
            .kernels
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The module variable called `name`, in `.global` or `.const`.
    pub fn global(&self, name: &str) -> Option<Global> {
        let id = self.inner.front.var_id(name)?;
        Global::new(self, id, self.inner.front.var(id)?)
    }

    /// All module variables in `.global` and `.const`, in order of their first declaration.
    pub fn globals(&self) -> Vec<Global> {
        let vars = self.inner.front.vars().into_iter();
        vars.filter_map(|(id, var)| Global::new(self, id, var))
            .collect()
    }

    /// The [managed](Global::is_managed) ones of them.
    pub fn managed(&self) -> Vec<Global> {
        let front = &self.inner.front;
        let managed = front.vars().into_iter();
        let managed = managed.filter(|&(id, _)| front.is_managed(id));
        managed
            .filter_map(|(id, var)| Global::new(self, id, var))
            .collect()
    }

    /// Parses and checks everything: all functions and variables, side by side in large modules.
    /// What is correct but cannot be executed yet is no error here, but when a kernel that needs it
    /// is asked for.
    pub fn check_all(&self) -> Result<(), Error> {
        if self.inner.shared.is_checked.get().is_some() {
            return Ok(());
        }
        let mut found = self.inner.front.check();
        found.retain(|diagnostic| {
            diagnostic.severity == diag::Severity::Error && diagnostic.kind == diag::Kind::Wrong
        });
        if found.is_empty() {
            let _ = self.inner.shared.is_checked.set(());
            return Ok(());
        }
        let text = Text::Module(self.inner.front.clone());
        Err(Error::Invalid(Diagnostics::new(found, &text)))
    }

    /// Finds functions that are called, or whose address is taken, and that are defined nowhere:
    /// drivers do not load such a module. Its kernels that need none of them can be launched all
    /// the same.
    pub fn check_defined(&self) -> Result<(), Error> {
        let front = &self.inner.front;
        let undefined = &self.inner.shared.undefined;
        match &undefined.get_or_init(|| front.undefined_functions())[..] {
            [] => Ok(()),
            found => {
                let text = Text::Module(front.clone());
                Err(Error::Invalid(Diagnostics::new(found.to_vec(), &text)))
            }
        }
    }

    /// The `.version` of the module, major and minor; of several modules the highest.
    pub fn ptx_version(&self) -> (u32, u32) {
        let version = self.inner.front.version();
        (version.major, version.minor)
    }

    /// The `.target` of the module; of several modules the highest.
    pub fn target(&self) -> Target {
        Target::of(&self.inner.front)
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

/// What is wrong with a source that is no module.
pub(crate) fn refused_error(refused: Refused) -> Error {
    let text = Text::Source(Arc::new(refused.source));
    Error::from_diagnostics(Diagnostics::new(refused.diagnostics, &text))
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

/// The architecture that a module is written for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Target {
    /// 90 of `sm_90a`.
    pub number: u32,
    /// `a`: it needs this very architecture.
    pub is_specific: bool,
    /// `f`: it needs an architecture of this family.
    pub is_family: bool,
}

impl Target {
    fn of(front: &translate::Module) -> Target {
        let arch = front.target();
        Target {
            number: arch.number,
            is_specific: arch.suffix == ast::ArchSuffix::Specific,
            is_family: arch.suffix == ast::ArchSuffix::Family,
        }
    }
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

    /// Each parameter with its place in the parameter block.
    pub fn param_layout(&self) -> impl ExactSizeIterator<Item = Param<'_>> {
        self.inner.params.iter().map(|param| Param {
            name: &param.name,
            offset: param.offset as usize,
            size: param.size as usize,
            align: param.align as usize,
        })
    }

    /// Bytes of the parameter block, see [`Launch::param_block`].
    pub fn param_bytes(&self) -> usize {
        self.inner.param_bytes()
    }

    /// `.maxntid` or `.reqntid`: how many threads a block may have, if the kernel says.
    pub fn max_threads(&self) -> Option<u32> {
        let attrs = &self.inner.attrs;
        let required = attrs.req_ntid.map(|block| block.iter().product());
        attrs.max_threads.or(required)
    }

    /// `.reqntid`: the only shape of a block that is allowed.
    pub fn required_block(&self) -> Option<Dim3> {
        self.inner.attrs.req_ntid.map(Dim3)
    }

    /// `.reqnctapercluster`: the shape that clusters must have.
    pub fn required_cluster(&self) -> Option<Dim3> {
        self.inner.attrs.req_cluster.map(Dim3)
    }

    /// `.explicitcluster`: launches must name the shape of clusters, unless the kernel does.
    pub fn wants_cluster(&self) -> bool {
        self.inner.attrs.explicit_cluster
    }

    /// What the kernel needs beside its parameters, found by optimizing it, which launches have to
    /// do anyway.
    pub fn usage(&self) -> Result<KernelUsage, Error> {
        let program = self.inner.variants.optimized(&self.inner, Limit::NONE)?;
        let in_space = |space: Space| {
            let vars = program.vars.values().filter(move |var| var.space == space);
            vars.fold(0u64, |sum, var| sum.saturating_add(var.size))
        };
        let slots = program.functions.values().map(|function| {
            let slots = function.slots.values();
            slots.map(|slot| u64::from(slot.size)).sum::<u64>()
        });
        Ok(KernelUsage {
            static_shared: SharedLayout::new(&program).static_size,
            constants: in_space(Space::Const),
            local: slots.sum(),
        })
    }

    /// Name and size in bytes of each parameter.
    pub fn params(&self) -> impl Iterator<Item = (&str, usize)> {
        self.inner
            .params
            .iter()
            .map(|param| (param.name.as_str(), param.size as usize))
    }

    /// The `.target` of its module; see [`Module::target`].
    pub fn target(&self) -> Target {
        Target::of(&self.module.front)
    }

    /// Blocks of `malloc` that launches with sanitizers have left, of all kernels of the module.
    pub fn leaks(&self) -> Vec<Finding> {
        self.module.leaks()
    }

    /// A launch of this kernel, to be described further.
    pub fn launch(&self) -> Launch {
        Launch::new(self)
    }

    /// Compiles for blocks of this size, without baseline, if that has not happened yet, and tells
    /// the gang width. Launches compile by themselves.
    pub fn compile(&self, block: impl Into<Dim3>) -> Result<u32, Error> {
        let options = Options::default();
        let variant = Variant::new(
            &self.inner,
            &options,
            Dim3([1; 3]),
            block.into(),
            Dim3([1; 3]),
            false,
            Limit::NONE,
        )?;
        Ok(self
            .variant(&variant, BaselineTier::Never, Limit::NONE)?
            .code
            .gang)
    }

    /// The code for `variant`.
    pub(crate) fn variant(
        &self,
        variant: &Variant,
        baseline: BaselineTier,
        limit: Limit,
    ) -> Result<Got, Error> {
        self.inner
            .variants
            .get(&self.inner, variant, baseline, limit)
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

/// A kernel's parameter and its place in the parameter block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Param<'a> {
    /// Its name in the PTX.
    pub name: &'a str,
    /// Bytes before it.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// Alignment in bytes.
    pub align: usize,
}

/// What a kernel needs, see [`Kernel::usage`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct KernelUsage {
    /// Bytes of shared memory, without the dynamic part.
    pub static_shared: u32,
    /// Bytes of the `.const` variables that the kernel and the functions it can reach use.
    pub constants: u64,
    /// Bytes of local memory that these functions need per thread, each counted once.
    pub local: u64,
}
