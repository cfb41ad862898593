//! Everything that can go wrong.

use std::path::PathBuf;

use ptxjit_frontend::escape::{escape, escape_lines};

use crate::{Diagnostics, LaunchFailure};

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
        /// Why.
        message: String,
    },
    /// The host asked for something impossible: an unknown kernel, arguments that do not fit, a grid that is too large.
    #[error("error: {}", escape_lines(_0))]
    Usage(String),
    /// The device has not enough memory.
    #[error("error: out of device memory: {}", escape_lines(_0))]
    OutOfMemory(String),
    /// The kernel was launched and failed.
    #[error("{0}")]
    Launch(Box<LaunchFailure>),
}

impl Error {
    pub(crate) fn usage(message: impl Into<String>) -> Error {
        Error::Usage(message.into())
    }

    pub(crate) fn from_diagnostics(list: Diagnostics) -> Error {
        if list.is_unsupported() {
            Error::Unsupported(list)
        } else {
            Error::Invalid(list)
        }
    }

    /// The name of the CUDA driver's error for this, such as `CUDA_ERROR_ILLEGAL_ADDRESS`.
    pub fn cuda_name(&self) -> &'static str {
        match self {
            Error::Read { .. } => "CUDA_ERROR_FILE_NOT_FOUND",
            Error::Invalid(_) => "CUDA_ERROR_INVALID_PTX",
            Error::Unsupported(_) | Error::Compile { .. } => "CUDA_ERROR_NOT_SUPPORTED",
            Error::Usage(_) => "CUDA_ERROR_INVALID_VALUE",
            Error::OutOfMemory(_) => "CUDA_ERROR_OUT_OF_MEMORY",
            Error::Launch(failure) => failure.cuda_name(),
        }
    }
}
