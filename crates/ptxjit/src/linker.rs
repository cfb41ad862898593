//! Linking of several PTX modules.

use ptxjit_frontend::source::Source;
use ptxjit_frontend::translate;

use crate::{Device, Diagnostics, Error, Module, UsageRule, check};

/// PTX modules that are to become one.
///
/// The rules are those of CUDA's linkers: `.extern` means the `.visible` definition in one of the
/// modules, else the first that is `.weak`; `.common` variables join; what has no linking directive
/// is private to its module; all kernels can be launched. A variable exists once, whichever
/// module's kernels use it, and a call costs the same within a module and across two.
///
/// ```no_run
/// # fn main() -> Result<(), ptxjit::Error> {
/// let device = ptxjit::Device::new()?;
/// let mut linker = ptxjit::Linker::new();
/// linker.add_file("kernels.ptx")?;
/// linker.add_file("math.ptx")?;
/// let module = linker.link(&device)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Linker {
    sources: Vec<Source>,
}

impl Linker {
    /// A linker without modules.
    pub fn new() -> Linker {
        Linker::default()
    }

    /// Adds the PTX file at `path`.
    pub fn add_file(&mut self, path: impl AsRef<std::path::Path>) -> Result<&mut Linker, Error> {
        let path = path.as_ref();
        let bytes = crate::module::read(path)?;
        Ok(self.add_bytes(&path.to_string_lossy(), bytes))
    }

    /// Adds a module. `name` stands for the file's name in messages.
    pub fn add(&mut self, name: &str, text: impl Into<String>) -> &mut Linker {
        self.add_bytes(name, text.into().into_bytes())
    }

    /// As [`Linker::add`], of text as bytes; a NUL may end it.
    pub fn add_bytes(&mut self, name: &str, bytes: Vec<u8>) -> &mut Linker {
        self.sources.push(Source::from_bytes(name, bytes));
        self
    }

    /// Links the modules. Everything that they use must be defined in one of them or be built in; a
    /// declaration that is not used does no harm.
    ///
    /// As with [`Module::load`], bodies are looked at when a kernel is asked for; [`Module::check`]
    /// checks them all.
    pub fn link(self, device: &Device) -> Result<Module, Error> {
        Module::build(device, self.front()?)
    }

    /// Links the modules and checks all of them, but loads nothing.
    pub fn check(self) -> Result<Diagnostics, Error> {
        Ok(check::run(self.front()?))
    }

    fn front(self) -> Result<Result<translate::Module, Box<translate::Refused>>, Error> {
        if self.sources.is_empty() {
            return Err(Error::usage(
                UsageRule::Modules,
                "there is no module to link",
            ));
        }
        Ok(translate::Module::link(Source::join(self.sources)))
    }
}

/// Links modules, each a name for messages and its text; see [`Linker`].
pub fn link<N: AsRef<str>, T: Into<String>>(
    device: &Device,
    modules: impl IntoIterator<Item = (N, T)>,
) -> Result<Module, Error> {
    let mut linker = Linker::new();
    for (name, text) in modules {
        linker.add(name.as_ref(), text);
    }
    linker.link(device)
}
