//! Checking modules without running them.

use std::path::Path;
use std::sync::Arc;

use ptxjit_frontend::source::Source;
use ptxjit_frontend::translate::{self, Refused};

use crate::diagnostic::Text;
use crate::module::{read, refused_error};
use crate::{Diagnostics, Error};

/// Parses and checks all of the PTX file at `path`: every function, variable and instruction.
///
/// What is correct but cannot be executed yet is no finding; [`crate::Module::kernel`] tells about
/// that.
pub fn check(path: impl AsRef<Path>) -> Result<Diagnostics, Error> {
    let path = path.as_ref();
    let source = Source::from_bytes(path.to_string_lossy(), read(path)?);
    Ok(run(translate::Module::load(source)))
}

/// Parses and checks PTX in memory. `name` stands for the file's name in messages.
///
/// ```
/// let ptx = ".version 7.0\n.target sm_80\n.address_size 64\n.func f() { nonsense; }";
/// let found = ptxjit::check_text("bad.ptx", ptx);
/// assert!(found.iter().next().is_some());
/// ```
pub fn check_text(name: &str, text: impl Into<String>) -> Diagnostics {
    check_bytes(name, text.into().into_bytes())
}

/// As [`check_text`], of text as bytes; a NUL may end it.
pub fn check_bytes(name: &str, bytes: Vec<u8>) -> Diagnostics {
    run(translate::Module::load(Source::from_bytes(name, bytes)))
}

/// What the outline of a module tells, without a device.
#[derive(Debug)]
pub struct Outline(translate::Module);

impl Outline {
    /// Whether addresses of the module have 32 bits, as they have where it does not say otherwise;
    /// see [`Device::with_32_bit_addresses`](crate::Device::with_32_bit_addresses).
    pub fn has_32_bit_addresses(&self) -> bool {
        self.0.address_bits() != Some(64)
    }

    /// Reads the outline of PTX in memory. `name` stands for the file's name in messages.
    pub fn read(name: &str, bytes: Vec<u8>) -> Result<Outline, Error> {
        match translate::Module::load(Source::from_bytes(name, bytes)) {
            Ok(module) => Ok(Outline(module)),
            Err(refused) => Err(refused_error(*refused)),
        }
    }

    /// The `.target` number, 80 of `sm_80`.
    pub fn target(&self) -> u32 {
        self.0.target().number
    }

    /// Names of all kernels as the PTX has them, in its order.
    pub fn kernel_names(&self) -> Vec<String> {
        let kernels = self.0.kernels().into_iter();
        kernels.map(|kernel| kernel.name).collect()
    }
}

pub(crate) fn run(module: Result<translate::Module, Box<Refused>>) -> Diagnostics {
    match module {
        Ok(module) => {
            let module = Arc::new(module);
            let mut found = module.warnings().to_vec();
            found.extend(module.check());
            Diagnostics::new(found, &Text::Module(module))
        }
        Err(refused) => {
            Diagnostics::new(refused.diagnostics, &Text::Source(Arc::new(refused.source)))
        }
    }
}
