//! Results: codes for callers, and failures of work that runs later.

use ptxjit::{Error, FailureKind};

use crate::types::CUresult;

/// What a call of the driver gives, or the code that tells why not.
pub type Result<T> = std::result::Result<T, CUresult>;

/// Work in a stream that failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// The code that the context reports from now on.
    pub(crate) code: CUresult,
    /// What ptxjit has to say about it.
    pub(crate) report: String,
    /// Whether the context is unusable from now on. It is after a fault, and not if the kernel never started.
    pub(crate) is_sticky: bool,
}

impl Failure {
    /// A failure that leaves the context unusable.
    pub(crate) fn sticky(code: CUresult, report: impl Into<String>) -> Failure {
        Failure {
            code,
            report: report.into(),
            is_sticky: true,
        }
    }
}

impl From<Error> for Failure {
    fn from(err: Error) -> Failure {
        Failure {
            code: code_of(&err),
            is_sticky: matches!(err, Error::Launch(_)),
            report: err.to_string(),
        }
    }
}

/// The driver's code for an error of the engine.
pub(crate) fn code_of(err: &Error) -> CUresult {
    match err {
        Error::Read { .. } => CUresult::FILE_NOT_FOUND,
        Error::Invalid(_) => CUresult::INVALID_PTX,
        Error::Unsupported(_) | Error::Compile { .. } => CUresult::NOT_SUPPORTED,
        Error::Usage(_) => CUresult::INVALID_VALUE,
        Error::OutOfMemory(_) => CUresult::OUT_OF_MEMORY,
        Error::Launch(failure) => code_of_failure(failure.kind()),
        _ => CUresult::UNKNOWN,
    }
}

fn code_of_failure(kind: FailureKind) -> CUresult {
    match kind {
        FailureKind::BadAddress => CUresult::ILLEGAL_ADDRESS,
        FailureKind::Misaligned => CUresult::MISALIGNED_ADDRESS,
        FailureKind::Assert => CUresult::ASSERT,
        FailureKind::StackOverflow => CUresult::HARDWARE_STACK_ERROR,
        FailureKind::BadCall => CUresult::INVALID_PC,
        FailureKind::Deadlock | FailureKind::Timeout => CUresult::LAUNCH_TIMEOUT,
        _ => CUresult::LAUNCH_FAILED,
    }
}
