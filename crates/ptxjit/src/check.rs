//! Checking modules without running them.

use std::path::Path;
use std::sync::Arc;

use ptxjit_frontend::source::Source;
use ptxjit_frontend::translate::{self, Refused};

use crate::diagnostic::Text;
use crate::module::read;
use crate::{Diagnostics, Error};

/// Parses and checks all of the PTX file at `path`: every function, variable and instruction.
///
/// What is correct but cannot be executed yet is no finding; [`crate::Module::kernel`] tells about that.
pub fn check(path: impl AsRef<Path>) -> Result<Diagnostics, Error> {
    let path = path.as_ref();
    let source = Source::from_bytes(path.to_string_lossy(), read(path)?);
    Ok(run(translate::Module::load(source)))
}

/// Parses and checks PTX in memory. `name` stands for the file's name in messages.
///
/// ```
/// let found = ptxjit::check_text("bad.ptx", ".version 7.0\n.target sm_80\n.address_size 64\n.func f() { nonsense; }");
/// assert!(found.iter().next().is_some());
/// ```
pub fn check_text(name: &str, text: impl Into<String>) -> Diagnostics {
    let source = Source::from_bytes(name, text.into().into_bytes());
    run(translate::Module::load(source))
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
