//! Launches that failed: what happened, where in the PTX, and where in the source it was compiled
//! from.

use std::fmt;
use std::sync::Arc;

use ptxjit_frontend::escape::escape_lines;
use ptxjit_frontend::source::Span;
use ptxjit_frontend::{diag, translate};
use ptxjit_interp::{Fault, FaultKind as InterpFault, MemFault};
use ptxjit_ir::SrcLoc;
use ptxjit_runtime::{LaunchError, MemoryError, TrapCause};

use crate::device::memory;
use crate::diagnostic::Text;
use crate::{Error, UsageRule};

/// Why and where a launch failed.
#[derive(Clone)]
pub struct LaunchFailure {
    kind: FailureKind,
    kernel: String,
    message: String,
    ctaid: Option<[u32; 3]>,
    tid: Option<[u32; 3]>,
    /// The address that was accessed or freed.
    pub(crate) address: Option<u64>,
    /// The address is of local memory of another thread.
    pub(crate) is_foreign_local: bool,
    /// Where it happened.
    pub(crate) places: Vec<Place>,
    module: Arc<translate::Module>,
}

/// A place that a failure is about.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) loc: SrcLoc,
    pub(crate) remark: String,
    /// The calls that led there, the innermost first.
    pub(crate) calls: Vec<SrcLoc>,
    pub(crate) tid: Option<[u32; 3]>,
    pub(crate) threads: u32,
}

impl Place {
    fn new(loc: SrcLoc, remark: String) -> Place {
        Place {
            loc,
            remark,
            calls: Vec::new(),
            tid: None,
            threads: 1,
        }
    }
}

/// What kind of failure it was.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum FailureKind {
    /// An access outside device memory; under memcheck, outside an allocation.
    BadAddress,
    /// An address that is no multiple of the access size.
    Misaligned,
    /// `trap` was executed, or control reached what the program declares unreachable.
    Trap,
    /// A device `assert` failed.
    Assert,
    /// A thread's local memory is used up.
    StackOverflow,
    /// An indirect call of something that is no function with that signature.
    BadCall,
    /// A barrier that does not exist, or one used against its rules.
    BadBarrier,
    /// A member mask that does not fit the lanes.
    BadMask,
    /// A call of a runtime function that makes no sense, such as `free` of what is no allocation.
    BadRuntimeCall,
    /// The code needs more of the host's stack than there is.
    HostStack,
    /// Threads wait for each other in vain.
    Deadlock,
    /// The time limit passed.
    Timeout,
    /// The host cancelled it.
    Cancelled,
    /// The system refused memory or threads that the launch needs; nothing may have run.
    Resources,
    /// Anything else.
    Other,
}

/// What the engines say.
pub(crate) enum Cause {
    Runtime(LaunchError),
    Interp(Box<Fault>),
}

impl From<LaunchError> for Cause {
    fn from(err: LaunchError) -> Cause {
        Cause::Runtime(err)
    }
}

impl From<MemoryError> for Cause {
    fn from(err: MemoryError) -> Cause {
        Cause::Runtime(err.into())
    }
}

impl Cause {
    /// The error for the user. What never ran is no failed launch.
    pub(crate) fn into_error(self, kernel: &str, module: &Arc<translate::Module>) -> Error {
        match self {
            Cause::Runtime(LaunchError::Invalid(text)) => Error::usage(UsageRule::Variables, text),
            Cause::Runtime(LaunchError::Shape { rule, message }) => Error::Shape { rule, message },
            Cause::Runtime(LaunchError::UnresolvedSymbol(name)) => Error::Unresolved { name },
            Cause::Runtime(LaunchError::Memory(err)) => memory(err),
            Cause::Runtime(err) => Error::Launch(Box::new(of_runtime(&err, module))),
            Cause::Interp(fault) => match fault.kind {
                InterpFault::Launch(text) => Error::usage(UsageRule::Variables, text),
                InterpFault::Departed => Error::usage(UsageRule::Recording, fault.kind.to_string()),
                _ => Error::Launch(Box::new(of_interp(&fault, kernel, module))),
            },
        }
    }
}

fn of_runtime(err: &LaunchError, module: &Arc<translate::Module>) -> LaunchFailure {
    let mut failure = LaunchFailure {
        kind: FailureKind::Other,
        kernel: String::new(),
        message: escape_lines(&err.to_string()).into_owned(),
        ctaid: None,
        tid: None,
        address: None,
        is_foreign_local: false,
        places: Vec::new(),
        module: module.clone(),
    };
    match err {
        LaunchError::Deadlock(deadlock) => {
            failure.kind = FailureKind::Deadlock;
            failure.kernel.clone_from(&deadlock.kernel);
            failure.ctaid = Some(deadlock.ctaid);
            let groups = deadlock.groups.iter();
            failure.places = groups
                .map(|group| Place::new(group.loc, format!("{} wait here", group.threads)))
                .collect();
        }
        LaunchError::Trap(trap) => {
            failure.kind = match trap.cause {
                TrapCause::BadAddress { .. } => FailureKind::BadAddress,
                TrapCause::Misaligned { .. } => FailureKind::Misaligned,
                TrapCause::Trap | TrapCause::Unreachable => FailureKind::Trap,
                TrapCause::Assert { .. } => FailureKind::Assert,
                TrapCause::StackOverflow { .. } => FailureKind::StackOverflow,
                TrapCause::HostStack { .. } => FailureKind::HostStack,
                TrapCause::BadCallTarget => FailureKind::BadCall,
                TrapCause::BadBarrier { .. } => FailureKind::BadBarrier,
                TrapCause::BadCall { .. } => FailureKind::BadRuntimeCall,
                _ => FailureKind::Other,
            };
            failure.kernel.clone_from(&trap.kernel);
            failure.ctaid = Some(trap.ctaid);
            failure.tid = Some(trap.threads.first);
            failure.address = match trap.cause {
                TrapCause::BadAddress { addr, .. } => addr,
                TrapCause::Misaligned { addr, .. } => Some(addr),
                _ => None,
            };
            let places = trap.loc.iter();
            failure.places = places.map(|&loc| Place::new(loc, String::new())).collect();
        }
        LaunchError::Timeout { kernel, .. } => {
            failure.kind = FailureKind::Timeout;
            failure.kernel.clone_from(kernel);
        }
        LaunchError::Cancelled { kernel } => {
            failure.kind = FailureKind::Cancelled;
            failure.kernel.clone_from(kernel);
        }
        LaunchError::System(_) => failure.kind = FailureKind::Resources,
        _ => {}
    }
    // Code that belongs to no statement has a place outside the text.
    failure.places.retain(|place| place.loc.0 != u32::MAX);
    failure
}

fn of_interp(fault: &Fault, kernel: &str, module: &Arc<translate::Module>) -> LaunchFailure {
    let kind = match &fault.kind {
        InterpFault::BadAddress { .. } => FailureKind::BadAddress,
        InterpFault::Misaligned { .. } => FailureKind::Misaligned,
        InterpFault::Trap | InterpFault::Unreachable => FailureKind::Trap,
        InterpFault::StackOverflow => FailureKind::StackOverflow,
        InterpFault::BadCallTarget(_) => FailureKind::BadCall,
        InterpFault::Assert(_) => FailureKind::Assert,
        InterpFault::Deadlock(_) => FailureKind::Deadlock,
        InterpFault::BadBarrier(_) => FailureKind::BadBarrier,
        InterpFault::BadMask(_) => FailureKind::BadMask,
        InterpFault::BadFree { .. } => FailureKind::BadRuntimeCall,
        InterpFault::Cancelled => FailureKind::Timeout,
        _ => FailureKind::Other,
    };
    let places = match &fault.kind {
        InterpFault::Deadlock(groups) => groups
            .iter()
            .map(|group| Place {
                loc: group.loc,
                remark: format!("{} threads wait here", group.threads.len()),
                calls: group.calls.clone(),
                tid: Some(group.tid),
                threads: group.threads.len() as u32,
            })
            .collect(),
        _ => vec![Place {
            calls: fault.calls.clone(),
            ..Place::new(fault.loc, String::new())
        }],
    };
    let what = match &fault.kind {
        InterpFault::Misaligned { .. } => format!("misaligned access: {}", fault.kind),
        InterpFault::Cancelled => "time limit exceeded".to_owned(),
        kind => kind.to_string(),
    };
    let [x, y, z] = fault.ctaid;
    let thread = fault.tid.map_or(String::new(), |[x, y, z]| {
        format!(", thread ({x}, {y}, {z})")
    });
    let message = format!("kernel `{kernel}`, CTA ({x}, {y}, {z}){thread}: {what}");
    LaunchFailure {
        kind,
        kernel: kernel.to_owned(),
        message: escape_lines(&message).into_owned(),
        ctaid: Some(fault.ctaid),
        tid: fault.tid,
        is_foreign_local: matches!(
            &fault.kind,
            InterpFault::BadAddress {
                why: MemFault::ForeignLocal,
                ..
            }
        ),
        address: match &fault.kind {
            InterpFault::BadAddress { addr, .. }
            | InterpFault::Misaligned { addr, .. }
            | InterpFault::BadFree { addr, .. } => Some(*addr),
            _ => None,
        },
        places,
        module: module.clone(),
    }
}

impl LaunchFailure {
    /// What kind of failure it was.
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// The name of the CUDA driver's error for this.
    pub fn cuda_name(&self) -> &'static str {
        match self.kind {
            FailureKind::BadAddress => "CUDA_ERROR_ILLEGAL_ADDRESS",
            FailureKind::Misaligned => "CUDA_ERROR_MISALIGNED_ADDRESS",
            FailureKind::Assert => "CUDA_ERROR_ASSERT",
            FailureKind::StackOverflow | FailureKind::HostStack => {
                "CUDA_ERROR_HARDWARE_STACK_ERROR"
            }
            FailureKind::BadCall => "CUDA_ERROR_INVALID_PC",
            FailureKind::Deadlock | FailureKind::Timeout => "CUDA_ERROR_LAUNCH_TIMEOUT",
            FailureKind::Resources => "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
            FailureKind::Trap
            | FailureKind::BadBarrier
            | FailureKind::BadMask
            | FailureKind::BadRuntimeCall
            | FailureKind::Cancelled
            | FailureKind::Other => "CUDA_ERROR_LAUNCH_FAILED",
        }
    }

    /// The kernel's name; empty if nothing of it ran.
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// What happened, in one sentence.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Block of the thread that failed.
    pub fn ctaid(&self) -> Option<[u32; 3]> {
        self.ctaid
    }

    /// The thread that failed, in its block; the first one if several are meant.
    pub fn tid(&self) -> Option<[u32; 3]> {
        self.tid
    }

    /// The PTX file, by the name that it was loaded with.
    pub fn file(&self) -> &str {
        let source = self.module.source();
        let loc = self.places.first().map_or(0, |place| place.loc.0);
        source.file_name(source.file_at(loc))
    }

    /// Line and column in the PTX, counted from 1.
    pub fn position(&self) -> Option<(u32, u32)> {
        let position = self.module.position(self.places.first()?.loc);
        Some((position.line, position.column))
    }

    /// File, line and column in the program that the PTX was compiled from, where its `.loc`
    /// directives tell it.
    pub fn source_position(&self) -> Option<(String, u32, u32)> {
        let line = self.module.source_line(self.places.first()?.loc)?;
        Some((line.file, line.line, line.column))
    }

    /// The failure with the lines of PTX that it is about.
    pub fn render(&self, color: bool) -> String {
        let mut diagnostic = diag::Diagnostic::error(&self.message);
        for Place { loc, remark, .. } in &self.places {
            diagnostic = diagnostic.label(self.statement(*loc), remark);
            if let Some(line) = self.module.source_line(*loc) {
                let column = if line.column == 0 {
                    String::new()
                } else {
                    format!(":{}", line.column)
                };
                diagnostic =
                    diagnostic.note(format!("compiled from {}:{}{column}", line.file, line.line));
            }
        }
        diag::render(
            &diagnostic,
            Text::Module(self.module.clone()).source(),
            color,
        )
    }

    /// The statement that starts at `loc`.
    fn statement(&self, loc: SrcLoc) -> Span {
        let text = self.module.source().text();
        let rest = text.get(loc.0 as usize..).unwrap_or("");
        let len = rest.find([';', '\n']).unwrap_or(rest.len());
        Span::new(loc.0, loc.0.saturating_add(u32::try_from(len).unwrap_or(0)))
    }
}

impl fmt::Display for LaunchFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl fmt::Debug for LaunchFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaunchFailure")
            .field("kind", &self.kind)
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}
