//! Checking modules without running them.

use std::path::Path;
use std::sync::Arc;

use ptxjit_frontend::source::Source;
use ptxjit_frontend::translate;

use crate::diagnostic::Text;
use crate::module::read;
use crate::{Diagnostics, Error};

/// Parses and checks all of the PTX file at `path`: every function, variable and instruction.
///
/// What is correct but cannot be executed yet is no finding; [`crate::Module::kernel`] tells about that.
pub fn check(path: impl AsRef<Path>) -> Result<Diagnostics, Error> {
    let path = path.as_ref();
    let text = read(path)?;
    // Kept only for messages, and so read again rather than copied.
    Ok(run(&path.to_string_lossy(), text, || {
        read(path).unwrap_or_default()
    }))
}

/// Parses and checks PTX in memory. `name` stands for the file's name in messages.
///
/// ```
/// let found = ptxjit::check_text("bad.ptx", ".version 7.0\n.target sm_80\n.address_size 64\n.func f() { nonsense; }");
/// assert!(found.iter().next().is_some());
/// ```
pub fn check_text(name: &str, text: impl Into<String>) -> Diagnostics {
    let text = text.into();
    let copy = text.clone();
    run(name, text.into_bytes(), || copy.into_bytes())
}

fn run(name: &str, text: Vec<u8>, again: impl FnOnce() -> Vec<u8>) -> Diagnostics {
    match translate::Module::parse(Source::from_bytes(name, text)) {
        Ok(module) => {
            let module = Arc::new(module);
            let mut found = module.warnings().to_vec();
            found.extend(module.check());
            Diagnostics::new(found, &Text::Module(module))
        }
        Err(list) => Diagnostics::new(
            list,
            &Text::Source(Arc::new(Source::from_bytes(name, again()))),
        ),
    }
}
