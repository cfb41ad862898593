//! Everything that can go wrong.

use std::path::PathBuf;

use ptxjit_frontend::escape::{escape, escape_lines};
use ptxjit_runtime::ShapeRule;

use crate::{Diagnostics, FailureKind, LaunchFailure};

/// What kind of error an [`Error`] is, for programs that have numbers for them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// [`Error::Read`].
    Read,
    /// [`Error::Invalid`].
    Invalid,
    /// [`Error::Unsupported`].
    Unsupported,
    /// [`Error::Compile`], and what stands against it.
    Compile(CompileObstacle),
    /// [`Error::NotFound`].
    NotFound,
    /// [`Error::Unresolved`].
    Unresolved,
    /// [`Error::Shape`], and the rule that is broken.
    Shape(ShapeRule),
    /// [`Error::Address`].
    Address,
    /// [`Error::OutOfMemory`], and what ran out.
    OutOfMemory(Shortage),
    /// [`Error::Usage`], and the rule that is broken.
    Usage(UsageRule),
    /// [`Error::Launch`], and how it failed.
    Launch(FailureKind),
}

/// The rule that the host's request breaks, see [`Error::Usage`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum UsageRule {
    /// Arguments fit the kernel's parameters in number and size.
    Arguments,
    /// An option has one of its values, and options go together.
    Options,
    /// A launch is the one whose schedule was recorded, and does the same again.
    Recording,
    /// A name, or its absence, chooses one kernel of the module.
    Choice,
    /// A linker is given modules.
    Modules,
    /// A range lies inside of its buffer or variable.
    Range,
    /// The fields of an image, texture, surface, sampler or tensor map are within their limits.
    Description,
    /// An opaque variable is bound to an object of its kind before a kernel uses it.
    Binding,
    /// The kernel's variables have places and values that a launch can give them.
    Variables,
}

/// What keeps a kernel from being compiled, see [`Error::Compile`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum CompileObstacle {
    /// The gang width asked for does not run this kernel.
    Gang,
    /// The host's processor is not supported.
    Host,
    /// The kernel is larger or more complex than what is compiled.
    Limit,
    /// The system has no memory for the code.
    Memory,
    /// A bug of ptxjit.
    Internal,
}

/// What ran out, see [`Error::OutOfMemory`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Shortage {
    /// The memory of the device, or of the part of the host that stands for it.
    Device,
    /// Addresses that the process may reserve (`ulimit -v`).
    Addresses,
}

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The PTX file cannot be read.
    #[error("error: cannot read {}: {source}", escape(&path.to_string_lossy()))]
    #[non_exhaustive]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The module is not correct PTX.
    #[error("{0}")]
    Invalid(Diagnostics),
    /// The module is correct, but needs something that ptxjit cannot do yet.
    #[error("{0}")]
    Unsupported(Diagnostics),
    /// The code generator cannot make code of a kernel.
    #[error(
        "error: cannot compile kernel `{}`: {}",
        escape(kernel),
        escape_lines(message)
    )]
    #[non_exhaustive]
    Compile {
        /// The kernel.
        kernel: String,
        /// What stands against it.
        obstacle: CompileObstacle,
        /// Why.
        message: String,
    },
    /// The module has no kernel of that name.
    #[error("error: {}", escape_lines(_0))]
    NotFound(String),
    /// The module declares a variable or function `.extern` that nothing defines.
    #[error("error: `{}` is declared `.extern` and not defined", escape(name))]
    #[non_exhaustive]
    Unresolved {
        /// The name.
        name: String,
    },
    /// The shape of a launch, the size of its parameters or of its shared memory breaks a rule.
    #[error("error: {}", escape_lines(message))]
    #[non_exhaustive]
    Shape {
        /// The rule.
        rule: ShapeRule,
        /// The rule and the value that breaks it, in words.
        message: String,
    },
    /// The host asked for something else that is impossible, such as arguments that do not fit.
    #[error("error: {}", escape_lines(message))]
    Usage {
        /// The rule.
        rule: UsageRule,
        /// The rule and the value that breaks it, in words.
        message: String,
    },
    /// An address that is no allocation of the device, or a range that is not inside one.
    #[error("error: {}", escape_lines(_0))]
    Address(String),
    /// There is not enough memory for a request.
    #[error("error: out of device memory: {}", escape_lines(message))]
    OutOfMemory {
        /// What ran out.
        shortage: Shortage,
        /// The request in words.
        message: String,
    },
    /// The kernel was launched and failed.
    #[error("{0}")]
    Launch(Box<LaunchFailure>),
}

impl Error {
    pub(crate) fn usage(rule: UsageRule, message: impl Into<String>) -> Error {
        let message = message.into();
        Error::Usage { rule, message }
    }

    pub(crate) fn from_diagnostics(list: Diagnostics) -> Error {
        if list.is_unsupported() {
            Error::Unsupported(list)
        } else {
            Error::Invalid(list)
        }
    }

    /// What kind of error it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Read { .. } => ErrorKind::Read,
            Error::Invalid(_) => ErrorKind::Invalid,
            Error::Unsupported(_) => ErrorKind::Unsupported,
            Error::Compile { obstacle, .. } => ErrorKind::Compile(*obstacle),
            Error::NotFound(_) => ErrorKind::NotFound,
            Error::Unresolved { .. } => ErrorKind::Unresolved,
            Error::Shape { rule, .. } => ErrorKind::Shape(*rule),
            Error::Usage { rule, .. } => ErrorKind::Usage(*rule),
            Error::Address(_) => ErrorKind::Address,
            Error::OutOfMemory { shortage, .. } => ErrorKind::OutOfMemory(*shortage),
            Error::Launch(failure) => ErrorKind::Launch(failure.kind()),
        }
    }

    /// The name of the CUDA driver's error for this, such as `CUDA_ERROR_ILLEGAL_ADDRESS`.
    pub fn cuda_name(&self) -> &'static str {
        match self {
            Error::Read { .. } => "CUDA_ERROR_FILE_NOT_FOUND",
            Error::Invalid(_) => "CUDA_ERROR_INVALID_PTX",
            Error::Unsupported(_) | Error::Compile { .. } => "CUDA_ERROR_NOT_SUPPORTED",
            Error::NotFound(_) | Error::Unresolved { .. } => "CUDA_ERROR_NOT_FOUND",
            Error::Shape {
                rule: ShapeRule::Cooperative,
                ..
            } => "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
            Error::Shape {
                rule: ShapeRule::Cluster,
                ..
            } => "CUDA_ERROR_INVALID_CLUSTER_SIZE",
            Error::Shape { .. } | Error::Usage { .. } | Error::Address(_) => {
                "CUDA_ERROR_INVALID_VALUE"
            }
            Error::OutOfMemory { .. } => "CUDA_ERROR_OUT_OF_MEMORY",
            Error::Launch(failure) => failure.cuda_name(),
        }
    }
}
