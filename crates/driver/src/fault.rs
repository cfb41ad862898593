//! Faults of kernels, as programs can ask for them: an extension of the driver's interface.
//!
//! A code tells little of what ptxjit knows. The latest faults are kept until a program takes them.

use std::collections::VecDeque;

use parking_lot::Mutex;
use ptxjit::{FailureKind, LaunchFailure};

use crate::types::CUresult;

/// Most faults that are kept; a program that never asks must not run out of memory.
const MAX_KEPT: usize = 256;

static KEPT: Mutex<VecDeque<Fault>> = Mutex::new(VecDeque::new());

/// What is known of a fault.
#[derive(Clone, Debug)]
pub struct Fault {
    pub code: CUresult,
    /// What kind it is, in a word.
    pub kind: &'static str,
    pub kernel: String,
    pub block: Option<[u32; 3]>,
    pub thread: Option<[u32; 3]>,
    /// Line of the PTX, counted from 1; 0 if it is not known.
    pub ptx_line: u32,
    /// `FILE:LINE:COLUMN` in the program that the PTX was compiled from, or empty.
    pub source: String,
    /// All of it, for people.
    pub report: String,
}

impl Fault {
    /// What the engine says of a launch that failed.
    pub(crate) fn of(failure: &LaunchFailure, code: CUresult) -> Fault {
        let source = failure.source_position();
        let source = source.map(|(file, line, column)| format!("{file}:{line}:{column}"));
        Fault {
            code,
            kind: kind(failure.kind()),
            kernel: failure.kernel().to_owned(),
            block: failure.ctaid(),
            thread: failure.tid(),
            ptx_line: failure.position().map_or(0, |(line, _)| line),
            source: source.unwrap_or_default(),
            report: failure.to_string(),
        }
    }
}

fn kind(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::BadAddress => "bad-address",
        FailureKind::Misaligned => "misaligned",
        FailureKind::Trap => "trap",
        FailureKind::Assert => "assert",
        FailureKind::StackOverflow => "stack-overflow",
        FailureKind::BadCall => "bad-call",
        FailureKind::BadBarrier => "bad-barrier",
        FailureKind::BadRuntimeCall => "bad-runtime-call",
        FailureKind::HostStack => "host-stack",
        FailureKind::Deadlock => "deadlock",
        FailureKind::Timeout => "timeout",
        FailureKind::Cancelled => "cancelled",
        FailureKind::Resources => "resources",
        _ => "other",
    }
}

/// Keeps a fault.
pub(crate) fn keep(fault: Fault) {
    let mut kept = KEPT.lock();
    if kept.len() == MAX_KEPT {
        kept.pop_front();
    }
    kept.push_back(fault);
}

/// Takes the oldest fault that is kept.
pub fn take() -> Option<Fault> {
    KEPT.lock().pop_front()
}
