//! Results: codes for callers, and failures of work that runs later.

use ptxjit::{Error, ErrorKind, FailureKind, ShapeRule};

use crate::fault::Fault;
use crate::report;
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
    /// Whether the context is unusable from now on. It is after a fault, and not if the kernel
    /// never started.
    pub(crate) is_sticky: bool,
    /// What is known of it, if a kernel failed.
    pub(crate) fault: Option<Box<Fault>>,
}

impl Failure {
    /// A failure that leaves the context unusable.
    pub(crate) fn sticky(code: CUresult, report: impl Into<String>) -> Failure {
        Failure {
            code,
            report: report.into(),
            is_sticky: true,
            fault: None,
        }
    }

    /// Has the report say more.
    pub(crate) fn add(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let own = self.fault.as_mut().map(|fault| &mut fault.report);
        for report in [&mut self.report].into_iter().chain(own) {
            *report = format!("{}\n{text}", report.trim_end());
        }
    }
}

impl From<Error> for Failure {
    fn from(err: Error) -> Failure {
        let fault = match &err {
            Error::Launch(failure) => Some(Box::new(Fault::of(failure, code_of(&err)))),
            _ => None,
        };
        Failure {
            code: code_of(&err),
            is_sticky: is_fault(&err),
            report: err.to_string(),
            fault,
        }
    }
}

/// Whether a kernel ran and went wrong.
fn is_fault(err: &Error) -> bool {
    match err.kind() {
        ErrorKind::Launch(FailureKind::Resources) => false,
        ErrorKind::Launch(_) => true,
        _ => false,
    }
}

/// The driver's code for an error of the engine.
pub(crate) fn code_of(err: &Error) -> CUresult {
    match err.kind() {
        ErrorKind::Read => CUresult::FILE_NOT_FOUND,
        ErrorKind::Invalid => CUresult::INVALID_PTX,
        ErrorKind::Unsupported | ErrorKind::Compile(_) => CUresult::NOT_SUPPORTED,
        ErrorKind::NotFound | ErrorKind::Unresolved => CUresult::NOT_FOUND,
        ErrorKind::Shape(ShapeRule::Cooperative) => CUresult::COOPERATIVE_LAUNCH_TOO_LARGE,
        ErrorKind::Shape(ShapeRule::Cluster) => CUresult::INVALID_CLUSTER_SIZE,
        ErrorKind::Shape(_) | ErrorKind::Usage(_) | ErrorKind::Address => CUresult::INVALID_VALUE,
        ErrorKind::OutOfMemory(_) => CUresult::OUT_OF_MEMORY,
        ErrorKind::Launch(kind) => code_of_failure(kind),
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
        FailureKind::HostStack | FailureKind::Resources => CUresult::LAUNCH_OUT_OF_RESOURCES,
        _ => CUresult::LAUNCH_FAILED,
    }
}

/// Likewise, but programs ask for names that may not be there: of that nothing is told.
pub(crate) fn unless_missing(err: &Error) -> CUresult {
    match err.kind() {
        ErrorKind::NotFound => CUresult::NOT_FOUND,
        _ => told(err),
    }
}

/// The code for an error of the engine, whose text goes where reports go.
pub(crate) fn told(err: &Error) -> CUresult {
    let code = code_of(err);
    report::say(
        &code.name().unwrap_or_default().to_string_lossy(),
        &err.to_string(),
    );
    code
}
