//! What sanitizers find: findings with the places they are about, in the PTX and in the source it
//! was compiled from.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ptxjit_frontend::escape::escape_lines;
use ptxjit_frontend::source::Span;
use ptxjit_frontend::translate;
use ptxjit_interp::{Access, Allocated};
use ptxjit_ir::{InstData, Program, Space, SrcLoc};
use ptxjit_runtime::Arena;

pub use ptxjit_interp::{AccessOp, Checks, FindingKind, Hazard, Object, Reason, Severity};

use crate::Schedule;
pub use crate::documents::{Style, json, sarif, text};
use crate::failure::{FailureKind, LaunchFailure};
pub use crate::suppress::Suppression;

/// A place in a file.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub struct SourcePlace {
    /// The file, by the name that the PTX has for it.
    pub file: String,
    /// Counted from 1.
    pub line: u32,
    /// Counted from 1; 0 if it is not known.
    pub column: u32,
}

/// One of the accesses that a finding is about.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct FoundAccess {
    /// What it does.
    pub op: AccessOp,
    /// The function that the program has called, if no thread of a kernel does it: then there is no
    /// CTA, no thread and no statement.
    pub call: Option<String>,
    /// The CTA of the thread.
    pub ctaid: [u32; 3],
    /// The thread.
    pub tid: [u32; 3],
    /// How many threads do the same, where that is known.
    pub threads: u32,
    /// The statement in the PTX.
    pub ptx: SourcePlace,
    /// The statement's text.
    pub text: String,
    /// Where it comes from in the source, the innermost first: inlined functions and calls. Empty
    /// where no `.loc` tells.
    pub stack: Vec<SourcePlace>,
}

impl FoundAccess {
    /// What a program does by calling `call`; `stack` tells from where, as far as that is known.
    pub fn by_program(op: AccessOp, call: &str, stack: Vec<SourcePlace>) -> FoundAccess {
        FoundAccess {
            op,
            call: Some(call.to_owned()),
            ctaid: [0; 3],
            tid: [0; 3],
            threads: 0,
            ptx: SourcePlace::default(),
            text: String::new(),
            stack,
        }
    }

    /// The place that the access is known by: a statement, or a call of the program.
    fn site(&self) -> (String, u32) {
        match &self.call {
            None => (self.ptx.file.clone(), self.ptx.line),
            // Programs have functions that wrap calls, so that their callers count, too.
            Some(call) => {
                let places = self.stack.iter().map(place);
                let line = self.stack.first().map_or(0, |at| at.line);
                (places.fold(call.clone(), |all, it| all + " " + &it), line)
            }
        }
    }

    /// The lines about it in a report.
    pub fn render(&self) -> String {
        let verb = verb(self.op);
        let mut source = String::new();
        if let Some((first, outer)) = self.stack.split_first() {
            source = format!(" at {}", place(first));
            for outer in outer {
                source += &format!(" (inlined or called at {})", place(outer));
            }
        }
        if let Some(call) = &self.call {
            return format!("  --> `{call}`\n   = {verb} by the program{source}\n");
        }
        let SourcePlace { file, line, column } = &self.ptx;
        let (ctaid, tid) = (triple(self.ctaid), triple(self.tid));
        format!(
            "  --> {file}:{line}:{column}  {}\n   = {verb}{source}, CTA {ctaid}, thread {tid}\n",
            self.text
        )
    }
}

/// Something that a sanitizer found.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// What is wrong.
    pub kind: FindingKind,
    /// How bad it is.
    pub severity: Severity,
    /// The kernel; empty if it is the program that does something.
    pub kernel: String,
    /// What happened, in one sentence.
    pub message: String,
    /// The memory: `shared`, `global`, `local`, `const`, `param` or `register`.
    pub space: Option<&'static str>,
    /// Of a race: the order in which the accesses ran.
    pub hazard: Option<Hazard>,
    /// Of a race: why it is one.
    pub reason: Option<Reason>,
    /// The address; in windows the offset.
    pub address: Option<u64>,
    /// Bytes of the access.
    pub bytes: Option<u64>,
    /// How often it happened.
    pub count: u64,
    /// The variable or allocation.
    pub object: Option<Object>,
    /// The access that was found out, then what it has to do with.
    pub accesses: Vec<FoundAccess>,
    /// More about it.
    pub notes: Vec<String>,
    /// The order in which threads made progress.
    pub schedule: String,
}

impl Finding {
    /// What tells it from others, without addresses and threads.
    pub fn key(&self) -> (FindingKind, Vec<(String, u32)>, String) {
        let mut sites: Vec<_> = self.accesses.iter().map(FoundAccess::site).collect();
        sites.sort();
        let object = self.object.as_ref().map_or("", |object| &object.name);
        (self.kind, sites, object.to_owned())
    }

    /// A finding about global memory, to be told more of; `kernel` is empty if it is about what the
    /// program does.
    pub fn new(kind: FindingKind, severity: Severity, kernel: &str, message: String) -> Finding {
        Finding {
            kind,
            severity,
            kernel: kernel.to_owned(),
            message,
            space: Some("global"),
            hazard: None,
            reason: None,
            address: None,
            bytes: None,
            count: 1,
            object: None,
            accesses: Vec::new(),
            notes: Vec::new(),
            schedule: String::new(),
        }
    }

    /// The finding as text of several lines.
    pub fn render(&self) -> String {
        let (kind, kernel) = (self.kind.name(), &self.kernel);
        let severity = match self.severity {
            Severity::Error => "",
            Severity::Warning => " (warning)",
            Severity::Info => " (info)",
        };
        let mut text = match kernel.as_str() {
            "" => format!("{kind}{severity}: {}\n", self.message),
            kernel => format!("{kind}{severity}: kernel `{kernel}`: {}\n", self.message),
        };
        for access in &self.accesses {
            text += &access.render();
        }
        for note in &self.notes {
            text += &format!("   = note: {note}\n");
        }
        if self.count > 1 {
            text += &format!("   = note: {} times in all\n", self.count);
        }
        if !["", "parallel", "deterministic"].contains(&self.schedule.as_str()) {
            text += &format!("   = note: under schedule {}\n", self.schedule);
        }
        escape_lines(&text).into_owned()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render())
    }
}

fn place(place: &SourcePlace) -> String {
    match place.column {
        0 => format!("{}:{}", place.file, place.line),
        column => format!("{}:{}:{column}", place.file, place.line),
    }
}

fn triple([x, y, z]: [u32; 3]) -> String {
    format!("({x}, {y}, {z})")
}

fn verb(op: AccessOp) -> &'static str {
    match op {
        AccessOp::Load => "read",
        AccessOp::Store => "written",
        AccessOp::Atomic => "updated atomically",
        AccessOp::Copy => "copied asynchronously",
        AccessOp::Barrier => "at a barrier",
        AccessOp::Warp => "in a warp operation",
        AccessOp::Alloc => "allocated",
        AccessOp::Free => "freed",
        AccessOp::Branch => "branched on",
        AccessOp::Launch => "launched",
        _ => "here",
    }
}

/// The findings of launches, shared with those who carry them out.
#[derive(Clone, Default, Debug)]
pub struct Report(Arc<Mutex<Vec<Finding>>>);

impl Report {
    /// What was found so far.
    pub fn findings(&self) -> Vec<Finding> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Takes what was found so far out of the report.
    pub fn take(&self) -> Vec<Finding> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn extend(&self, findings: impl IntoIterator<Item = Finding>) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for finding in findings {
            let key = finding.key();
            match list.iter_mut().find(|other| other.key() == key) {
                Some(other) => {
                    other.count += finding.count;
                    if finding.severity > other.severity {
                        let count = other.count;
                        *other = Finding { count, ..finding };
                    }
                }
                None => list.push(finding),
            }
        }
    }
}

/// What turns the engines' findings into those for users.
pub(crate) struct Context<'a> {
    pub(crate) kernel: &'a str,
    pub(crate) module: &'a translate::Module,
    pub(crate) arena: &'a Arena,
    pub(crate) schedule: Schedule,
}

impl Context<'_> {
    pub(crate) fn access(&self, access: &Access) -> FoundAccess {
        let (ptx, text) = self.statement(access.site.loc);
        let sites = std::iter::once(&access.site.loc).chain(&access.site.calls);
        let stack = sites.flat_map(|&loc| self.module.source_stack(loc));
        FoundAccess {
            op: access.op,
            call: None,
            ctaid: access.ctaid,
            tid: access.tid,
            threads: access.threads,
            ptx,
            text,
            stack: stack
                .map(|line| SourcePlace {
                    file: line.file,
                    line: line.line,
                    column: line.column,
                })
                .collect(),
        }
    }

    fn statement(&self, loc: SrcLoc) -> (SourcePlace, String) {
        let source = self.module.source();
        let position = self.module.position(loc);
        let rest = source.text().get(loc.0 as usize..).unwrap_or("");
        let len = rest.find([';', '\n']).map_or(0, |end| end + 1);
        let span = Span::new(loc.0, loc.0.saturating_add(u32::try_from(len).unwrap_or(0)));
        let place = SourcePlace {
            file: source.file_name(source.file_at(loc.0)).to_owned(),
            line: position.line,
            column: position.column,
        };
        // Compilers put tabs between words.
        let words: Vec<&str> = source.slice(span).split_whitespace().collect();
        (place, words.join(" "))
    }

    /// A finding of the engine.
    pub(crate) fn finding(&self, finding: ptxjit_interp::Finding) -> Finding {
        Finding {
            kind: finding.kind,
            severity: finding.severity,
            kernel: self.kernel.to_owned(),
            message: finding.message,
            space: finding.space.map(space),
            hazard: finding.hazard,
            reason: finding.reason,
            address: finding.address,
            bytes: finding.bytes,
            count: finding.count,
            object: finding.object,
            accesses: finding
                .accesses
                .iter()
                .map(|access| self.access(access))
                .collect(),
            notes: finding.notes,
            schedule: self.schedule.to_string(),
        }
    }

    /// What a failure of a launch of a program is as a finding, if it is one.
    pub(crate) fn of_failure(&self, failure: &LaunchFailure, program: &Program) -> Option<Finding> {
        let addr = failure.address;
        let is_freed = addr.is_some_and(|addr| self.arena.is_freed(addr));
        let kind = match failure.kind() {
            FailureKind::BadAddress if addr.is_some_and(|addr| addr < 1 << 16) => {
                FindingKind::NullPointer
            }
            FailureKind::BadAddress if failure.is_foreign_local => FindingKind::ForeignLocal,
            FailureKind::BadAddress if is_freed => FindingKind::UseAfterFree,
            FailureKind::BadAddress => FindingKind::OutOfBounds,
            FailureKind::Misaligned => FindingKind::Misaligned,
            FailureKind::BadBarrier => FindingKind::BarrierCount,
            FailureKind::BadMask => FindingKind::WarpMask,
            FailureKind::BadRuntimeCall if is_freed => FindingKind::DoubleFree,
            FailureKind::BadRuntimeCall => FindingKind::InvalidFree,
            FailureKind::Deadlock => FindingKind::Deadlock,
            _ => return None,
        };
        let fallback = match kind {
            FindingKind::Deadlock | FindingKind::BarrierCount => AccessOp::Barrier,
            FindingKind::WarpMask => AccessOp::Warp,
            FindingKind::DoubleFree | FindingKind::InvalidFree => AccessOp::Free,
            _ => AccessOp::Load,
        };
        let accesses = failure.places.iter().map(|place| Access {
            op: op_at(program, place.loc).unwrap_or(fallback),
            ctaid: failure.ctaid().unwrap_or_default(),
            tid: place.tid.or(failure.tid()).unwrap_or_default(),
            site: ptxjit_interp::Site {
                loc: place.loc,
                calls: place.calls.clone(),
            },
            threads: place.threads,
        });
        let accesses: Vec<Access> = accesses.collect();
        let message = failure.message().to_owned();
        let mut finding = ptxjit_interp::Finding::new(kind, Severity::Error, message, accesses);
        finding.address = addr;
        Some(self.finding(finding))
    }

    /// A block that was never freed.
    pub(crate) fn leak(&self, block: &Allocated) -> Finding {
        let size = block.size;
        let message = format!("{size} bytes from `malloc` are never freed");
        let accesses = vec![block.access.clone()];
        let mut finding =
            ptxjit_interp::Finding::new(FindingKind::Leak, Severity::Error, message, accesses);
        finding.space = Some(Space::Global);
        finding.address = Some(block.addr);
        finding.bytes = Some(size);
        self.finding(finding)
    }
}

/// What a statement does, as far as an instruction of the program tells.
#[expect(clippy::wildcard_enum_match_arm, reason = "others access no memory")]
fn op_at(program: &Program, loc: SrcLoc) -> Option<AccessOp> {
    let insts = program
        .functions
        .values()
        .flat_map(|func| func.insts.values());
    insts
        .filter(|inst| inst.loc == loc)
        .find_map(|inst| match &inst.data {
            InstData::Load { .. } => Some(AccessOp::Load),
            InstData::Store { .. } => Some(AccessOp::Store),
            InstData::Atomic { .. } => Some(AccessOp::Atomic),
            InstData::Barrier { .. } => Some(AccessOp::Barrier),
            InstData::Warp { .. } => Some(AccessOp::Warp),
            _ => None,
        })
}

fn space(space: Space) -> &'static str {
    match space {
        Space::Shared | Space::SharedCluster => "shared",
        Space::Global => "global",
        Space::Local => "local",
        Space::Const => "const",
        Space::Param => "param",
        Space::Generic => "register",
    }
}
