//! A kernel variant in executable memory.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;
use std::time::Duration;

use ptxjit_ir::{FuncId, SharedLayout, SrcLoc, VarId};
use serde::{Deserialize, Serialize};

use crate::context::EnterFn;
use crate::facts::Facts;
use crate::object::Object;
use crate::resume::{ResumeKind, ResumePoint};

/// What a symbol of compiled code stands for.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum SymbolRef {
    /// Generic address of a `.global` variable, window offset of a `.const` one.
    Var(VarId),
    /// Generic address of a function's descriptor: 16 bytes whose first word is the function's
    /// module-wide number plus one.
    Func(FuncId),
}

/// How code does an instruction that has no vector form.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SlowForm {
    /// The lanes one after the other.
    Lanes,
    /// By a call to a function of ours, for each lane.
    Call,
}

impl fmt::Display for SlowForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SlowForm::Lanes => "done lane by lane",
            SlowForm::Call => "evaluated by a call",
        })
    }
}

/// Where the time of a compilation went, and what came out.
#[derive(Copy, Clone, PartialEq, Debug, Default)]
pub struct CompileStats {
    /// Lowering of calls, and the plan for the gang.
    pub vectorize: Duration,
    /// From the plan to CLIF.
    pub lower: Duration,
    /// Cranelift's instruction selection and what else it does.
    pub select: Duration,
    /// Cranelift's register allocation.
    pub regalloc: Duration,
    /// Placing the code in memory.
    pub link: Duration,
    /// CLIF instructions.
    pub clif_insts: usize,
    /// Bytes of code.
    pub code_bytes: usize,
}

/// A kernel's code in its place.
pub struct Placed {
    /// Entry point.
    pub enter: EnterFn,
    /// See [`CompiledKernel::code`].
    pub code: Range<usize>,
    /// See [`CompiledKernel::locs`].
    pub locs: Vec<(u32, SrcLoc)>,
    /// Keeps the code alive.
    pub module: Box<dyn Send + Sync>,
}

/// A kernel variant in executable memory.
pub struct CompiledKernel {
    /// Gang width.
    pub gang: u32,
    /// Why it is 1 though more was asked for, in words.
    pub narrowed: Option<String>,
    /// What it takes for granted.
    pub facts: Facts,
    /// Entry point.
    pub enter: EnterFn,
    /// Executable range. Stubs lie in it as well, without locations of their own: while one runs,
    /// `CtaContext::fault_loc` says on behalf of which statement.
    pub code: Range<usize>,
    /// (code offset, location), ascending: the location holds up to the next offset;
    /// `SrcLoc(u32::MAX)` stands for none.
    pub locs: Vec<(u32, SrcLoc)>,
    /// Resume points; number 0 is the entry.
    pub resume_points: Vec<ResumePoint>,
    /// Gangs may only be entered with all of their lanes. Where some lanes of a gang are to go on
    /// by themselves, the same kernel compiled without [`Facts::whole_gangs`] does it: the two are
    /// [alike](CompiledKernel::is_alike).
    pub whole_gangs: bool,
    /// Bytes of context slots per gang.
    pub frame_size: u32,
    /// Symbols whose values the runtime puts in `CtaContext::symbols`.
    pub symbols: Vec<SymbolRef>,
    /// Window offsets of shared variables, and the static size.
    pub shared: SharedLayout,
    /// Bytes of each thread's local window that have a fixed place; the dynamic stack starts here.
    pub local_static: u32,
    /// The code uses the dynamic stack.
    pub uses_stack: bool,
    /// Run with subnormals flushed (MXCSR FTZ and DAZ).
    pub flush_denormals: bool,
    /// Remarks for `dump`, if listings were asked for: why this width, what is varying and why.
    pub notes: Vec<String>,
    /// Instructions without a vector form, in the order of the text.
    pub slow: Vec<(SrcLoc, SlowForm)>,
    /// CLIF and machine code text, if asked for.
    pub listings: BTreeMap<&'static str, String>,
    /// What compiling took; nothing for code that was loaded.
    pub stats: CompileStats,
    /// Its registers were allocated in one pass, which takes a tenth of the time and gives slower
    /// code.
    quick: bool,
    /// The same code with registers allocated well, once there is some.
    better: OnceLock<Placed>,
    /// Keeps the code alive.
    _module: Box<dyn Send + Sync>,
}

impl CompiledKernel {
    /// The kernel of an object whose code was placed.
    pub fn new(object: Object, placed: Placed) -> CompiledKernel {
        let head = object.head;
        CompiledKernel {
            gang: head.gang,
            narrowed: head.narrowed,
            facts: head.facts,
            enter: placed.enter,
            code: placed.code,
            locs: placed.locs,
            resume_points: head.resume_points,
            whole_gangs: head.whole_gangs,
            frame_size: head.frame_size,
            symbols: head.symbols,
            shared: head.shared,
            local_static: head.local_static,
            uses_stack: head.uses_stack,
            flush_denormals: head.flush_denormals,
            notes: object.notes,
            slow: object.slow,
            listings: object.listings,
            stats: object.stats,
            quick: head.quick,
            better: OnceLock::new(),
            _module: placed.module,
        }
    }

    /// A kernel around an entry point that is not made by this crate: nothing is compiled, no code
    /// range is known. For tests of the runtime.
    pub fn from_enter(
        enter: EnterFn,
        gang: u32,
        frame_size: u32,
        resume_points: Vec<ResumePoint>,
    ) -> CompiledKernel {
        CompiledKernel {
            gang,
            narrowed: None,
            facts: Facts::default(),
            enter,
            code: 0..0,
            locs: Vec::new(),
            resume_points,
            whole_gangs: false,
            frame_size,
            symbols: Vec::new(),
            shared: SharedLayout::default(),
            local_static: 0,
            uses_stack: false,
            flush_denormals: false,
            notes: Vec::new(),
            slow: Vec::new(),
            listings: BTreeMap::new(),
            stats: CompileStats::default(),
            quick: false,
            better: OnceLock::new(),
            _module: Box::new(()),
        }
    }

    /// Whether the code looks at lane states to see which lanes have ended: then no lane that has
    /// not ended may have that state, from the start of a CTA on.
    pub fn looks_at_ended_lanes(&self) -> bool {
        let is_warp_op = |point: &ResumePoint| matches!(point.kind, ResumeKind::Warp { .. });
        self.gang == 32 && self.resume_points.iter().any(is_warp_op)
    }

    /// Whether the code was made in a hurry, and [`CompiledKernel::improve`] would make launches
    /// faster.
    pub fn is_quick(&self) -> bool {
        self.quick && self.better.get().is_none()
    }

    /// Takes over the code of `other`, the same variant compiled without haste. Entries from now on
    /// use it, also those of launches under way: both lay out slots and number resume points alike.
    /// False if they do not.
    pub fn improve(&self, other: CompiledKernel) -> bool {
        let is_same = self.facts == other.facts
            && self.whole_gangs == other.whole_gangs
            && self.is_alike(&other);
        let placed = Placed {
            enter: other.enter,
            code: other.code,
            locs: other.locs,
            module: other._module,
        };
        is_same && self.better.set(placed).is_ok()
    }

    /// Whether two kernels lay out slots and number resume points alike, so that lanes that one has
    /// stopped go on in the other.
    pub fn is_alike(&self, other: &CompiledKernel) -> bool {
        self.gang == other.gang
            && self.frame_size == other.frame_size
            && self.resume_points == other.resume_points
            && self.symbols == other.symbols
            && self.shared == other.shared
            && self.local_static == other.local_static
    }

    /// What to enter now, and the range of its code.
    pub fn entry(&self) -> (EnterFn, Range<usize>) {
        match self.better.get() {
            Some(better) => (better.enter, better.code.clone()),
            None => (self.enter, self.code.clone()),
        }
    }

    /// The source location of a pc inside the code.
    pub fn loc_of(&self, pc: usize) -> Option<SrcLoc> {
        let better = self.better.get();
        better
            .and_then(|better| loc_in(&better.code, &better.locs, pc))
            .or_else(|| loc_in(&self.code, &self.locs, pc))
    }
}

fn loc_in(code: &Range<usize>, locs: &[(u32, SrcLoc)], pc: usize) -> Option<SrcLoc> {
    if !code.contains(&pc) {
        return None;
    }
    let offset = (pc - code.start) as u32;
    let idx = locs.partition_point(|&(start, _)| start <= offset);
    idx.checked_sub(1)
        .map(|idx| locs[idx].1)
        .filter(|&loc| loc != SrcLoc(u32::MAX))
}
