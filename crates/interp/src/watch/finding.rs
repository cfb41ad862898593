//! What the checks of a launch have found.

use std::collections::HashMap;

use ptxjit_ir::{Space, SrcLoc};

/// What is wrong.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum FindingKind {
    /// Two accesses to the same bytes that nothing orders, one of them a write.
    Race,
    /// A use of a value that was never written.
    UninitializedRead,
    /// An access outside of the object.
    OutOfBounds,
    /// An access at, or near, the null pointer.
    NullPointer,
    /// An address that is no multiple of what the access needs.
    Misaligned,
    /// An access to memory that was freed.
    UseAfterFree,
    /// Memory is freed a second time.
    DoubleFree,
    /// What is freed is no allocation.
    InvalidFree,
    /// An access to another thread's local memory.
    ForeignLocal,
    /// Memory that is never freed.
    Leak,
    /// Lanes of a warp at different `.aligned` barriers.
    BarrierDivergence,
    /// Counts of a barrier that do not fit each other.
    BarrierCount,
    /// Member masks that do not fit the lanes.
    WarpMask,
    /// A shuffle from a lane that takes no part.
    ShflSource,
    /// An mbarrier used against its rules.
    MbarrierMisuse,
    /// Threads wait for each other in vain.
    Deadlock,
    /// Results that depend on the order of progress.
    ScheduleDependent,
}

impl FindingKind {
    /// All kinds.
    pub const ALL: &'static [FindingKind] = &[
        FindingKind::Race,
        FindingKind::UninitializedRead,
        FindingKind::OutOfBounds,
        FindingKind::NullPointer,
        FindingKind::Misaligned,
        FindingKind::UseAfterFree,
        FindingKind::DoubleFree,
        FindingKind::InvalidFree,
        FindingKind::ForeignLocal,
        FindingKind::Leak,
        FindingKind::BarrierDivergence,
        FindingKind::BarrierCount,
        FindingKind::WarpMask,
        FindingKind::ShflSource,
        FindingKind::MbarrierMisuse,
        FindingKind::Deadlock,
        FindingKind::ScheduleDependent,
    ];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            FindingKind::Race => "race",
            FindingKind::UninitializedRead => "uninitialized-read",
            FindingKind::OutOfBounds => "out-of-bounds",
            FindingKind::NullPointer => "null-pointer",
            FindingKind::Misaligned => "misaligned",
            FindingKind::UseAfterFree => "use-after-free",
            FindingKind::DoubleFree => "double-free",
            FindingKind::InvalidFree => "invalid-free",
            FindingKind::ForeignLocal => "foreign-local",
            FindingKind::Leak => "leak",
            FindingKind::BarrierDivergence => "barrier-divergence",
            FindingKind::BarrierCount => "barrier-count",
            FindingKind::WarpMask => "warp-mask",
            FindingKind::ShflSource => "shfl-source",
            FindingKind::MbarrierMisuse => "mbarrier-misuse",
            FindingKind::Deadlock => "deadlock",
            FindingKind::ScheduleDependent => "schedule-dependent",
        }
    }
}

/// How bad it is.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Nothing that changes a result, as writes of the value that is there.
    Info,
    /// Legal but fragile.
    Warning,
    /// A bug.
    Error,
}

/// What was done to the memory, or where a thread was.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[expect(missing_docs, reason = "the names say it")]
#[non_exhaustive]
pub enum AccessOp {
    Load,
    Store,
    Atomic,
    Copy,
    Barrier,
    Warp,
    Alloc,
    Free,
    Branch,
    Exit,
    Launch,
}

/// A statement, and the calls through which it was reached.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Site {
    /// The statement.
    pub loc: SrcLoc,
    /// Statements that call, the innermost first.
    pub calls: Vec<SrcLoc>,
}

/// One of the accesses that a finding is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// What it does.
    pub op: AccessOp,
    /// The CTA of the thread.
    pub ctaid: [u32; 3],
    /// The thread.
    pub tid: [u32; 3],
    /// Where.
    pub site: Site,
    /// How many threads do the same, where that is known.
    pub threads: u32,
}

/// The order in which the accesses of a race ran.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Hazard {
    /// A read after a write.
    Raw,
    /// A write after a read.
    War,
    /// A write after a write.
    Waw,
}

/// Why accesses race.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// Nothing orders them.
    Order,
    /// Both are strong, but their scopes do not include each other's threads.
    Scope,
    /// A copy that no thread has waited for.
    Async,
    /// A read by `ld.global.nc` of memory that the launch writes.
    Proxy,
    /// Both are strong, but overlap only in part.
    MixedSize,
}

/// The variable or allocation that was accessed.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Object {
    /// Its name, or that of a parameter that points to it; empty if there is none.
    pub name: String,
    /// Where the access begins in it.
    pub offset: i64,
    /// Its size in bytes.
    pub size: u64,
}

/// Something that a check found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What is wrong.
    pub kind: FindingKind,
    /// How bad it is.
    pub severity: Severity,
    /// What happened, in one sentence.
    pub message: String,
    /// The memory, if it is about memory; [`Space::Generic`] stands for registers.
    pub space: Option<Space>,
    /// Of a race.
    pub hazard: Option<Hazard>,
    /// Of a race.
    pub reason: Option<Reason>,
    /// The address: in windows the offset.
    pub address: Option<u64>,
    /// Bytes of the access.
    pub bytes: Option<u64>,
    /// What was accessed.
    pub object: Option<Object>,
    /// The access that was found out, then what it has to do with.
    pub accesses: Vec<Access>,
    /// How often it happened.
    pub count: u64,
    /// More about it.
    pub notes: Vec<String>,
}

impl Finding {
    /// A finding about these accesses.
    pub fn new(
        kind: FindingKind,
        severity: Severity,
        message: String,
        accesses: Vec<Access>,
    ) -> Finding {
        Finding {
            kind,
            severity,
            message,
            space: None,
            hazard: None,
            reason: None,
            address: None,
            bytes: None,
            object: None,
            accesses,
            count: 1,
            notes: Vec::new(),
        }
    }

    /// What tells it from others: the kind, the places, and what was accessed.
    pub fn key(&self) -> (FindingKind, Vec<Site>, String) {
        let mut sites: Vec<Site> = self
            .accesses
            .iter()
            .map(|access| access.site.clone())
            .collect();
        sites.sort();
        let object = self.object.as_ref();
        let object = object.map_or(String::new(), |object| object.name.clone());
        (self.kind, sites, object)
    }
}

/// The findings of a launch, each once.
#[derive(Default)]
pub(crate) struct Findings {
    list: Vec<Finding>,
    known: HashMap<(FindingKind, Vec<Site>, String), usize>,
}

impl Findings {
    pub(crate) fn add(&mut self, finding: Finding) {
        let key = finding.key();
        match self.known.get(&key) {
            Some(&idx) => {
                let before = &mut self.list[idx];
                before.count += 1;
                if finding.severity > before.severity {
                    *before = Finding {
                        count: before.count,
                        ..finding
                    };
                }
            }
            None => {
                self.known.insert(key, self.list.len());
                self.list.push(finding);
            }
        }
    }

    pub(crate) fn into_list(self) -> Vec<Finding> {
        self.list
    }
}
