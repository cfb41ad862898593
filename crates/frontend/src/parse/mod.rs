//! PTX text to `ast`: the skeleton of a module at once, its bodies and initializers on demand.
//!
//! [`module`] finds where everything is with a plain scan (`scan`) and hands only the headers of
//! functions and variables to the grammar; [`body()`] and [`initializer()`] parse what the skeleton
//! left as ranges, independently of each other and so in parallel if the caller likes. Syntax stops
//! at the first error. No input makes these functions panic, and nesting is bounded everywhere.
//!
//! What is checked here is what can be said without knowing names or instructions: the shape of
//! the text, the order and the arguments of directives, the form of declarations.

mod arch;
mod body;
pub mod constexpr;
mod debug;
mod declare;
mod expr;
mod function;
mod grammar;
mod initializer;
mod scan;
mod skeleton;

pub use arch::NEWEST_VERSION;

use crate::ast::{Body, Initializer, Module};
use crate::diag::Diagnostic;
use crate::source::{Source, Span};

/// Parses the one module of a source without the contents of its bodies and initializers.
pub fn module(source: &Source) -> Result<Module, Vec<Diagnostic>> {
    let module = outline(source, source.file_span(0))?;
    if module.errors.is_empty() {
        Ok(module)
    } else {
        Err(module.errors)
    }
}

/// As [`module`], for the module that `range` holds; but what stands before an error is returned
/// all the same, with the error among [`Module::errors`].
pub fn outline(source: &Source, range: Span) -> Result<Module, Vec<Diagnostic>> {
    skeleton::module(source, range).map_err(|err| vec![err])
}

/// What is wrong with the debug information at module scope.
pub fn check_debug(source: &Source, module: &Module) -> Vec<Diagnostic> {
    debug::check(source, module)
}

/// Parses one function body, `ast::Function::body`.
pub fn body(source: &Source, range: Span) -> Result<Body, Vec<Diagnostic>> {
    body::body(source, range).map_err(|err| vec![err])
}

/// Parses one initializer, `ast::Variable::init`.
pub fn initializer(source: &Source, range: Span) -> Result<Initializer, Vec<Diagnostic>> {
    initializer::initializer(source, range).map_err(|err| vec![err])
}
