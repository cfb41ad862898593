//! Everything that can go wrong.

use std::path::PathBuf;

use crate::{Diagnostics, LaunchFailure};

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The PTX file cannot be read.
    #[error("error: cannot read {}: {source}", path.display())]
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
    #[error("error: cannot compile kernel `{kernel}`: {message}")]
    #[non_exhaustive]
    Compile {
        /// The kernel.
        kernel: String,
        /// Why.
        message: String,
    },
    /// The host asked for something impossible: an unknown kernel, arguments that do not fit, a grid that is too large.
    #[error("error: {0}")]
    Usage(String),
    /// An address that is no allocation of the device, or a range that is not inside one.
    #[error("error: {0}")]
    Address(String),
    /// The device has not enough memory.
    #[error("error: out of device memory: {0}")]
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
            Error::Usage(_) | Error::Address(_) => "CUDA_ERROR_INVALID_VALUE",
            Error::OutOfMemory(_) => "CUDA_ERROR_OUT_OF_MEMORY",
            Error::Launch(failure) => failure.cuda_name(),
        }
    }
}
