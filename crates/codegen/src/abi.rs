//! The contract between compiled code and the runtime that calls it.
//!
//! # Running a CTA
//!
//! A *gang* is `G` consecutive threads (by linear index) of a CTA; a CTA of `n` threads has `ceil(n / G)` gangs. Compiled code is one
//! function per kernel variant, entered as `enter(cta, state, first_gang, end_gang)`: for each gang in the range whose
//! mask in [`CtaContext::masks`] is not zero it resumes the lanes of the mask at `state` (0 is the kernel's entry, others
//! index [`CompiledKernel::resume_points`]), and runs them until each has ended or waits.
//!
//! * A lane that waits has stored its live values in its *context slots* and the number of its resume point in
//!   `lane_states[thread]`. If fewer lanes waited together than the mask the gang was entered with,
//!   [`LaneState::PARTIAL`] is or-ed to the number.
//! * A lane that ended has `lane_states[thread] == LaneState::EXITED`.
//! * If all lanes that a gang was entered with stopped together, their common state is in `gang_states[gang]` instead: none has a state of
//!   its own then, and values that are the same for all of them are only in the slot of the first, see [`ResumePoint::shared`]. Else
//!   `gang_states[gang]` is [`LaneState::APART`].
//! * Code [for whole gangs only](CompiledKernel::whole_gangs) is entered with ranges all of whose gangs have all of their lanes.
//! * If all gangs of the range stopped so at one state for which `go_on[state]` is not zero, the code resumes them there
//!   itself, instead of returning.
//! * Lanes may be resumed together only if their resume point is the same and their slots listed in
//!   [`ResumePoint::uniforms`] hold equal bytes. That is certain for lanes of one gang that waited without `PARTIAL`.
//! * What a lane waits for is the business of the runtime: it reads operands from slots, writes results to slots, and
//!   enters the lanes again at the same number. `Ready` and `Yield` points may be entered at once.
//!
//! Where no lane can ever wait (there is one resume point, the entry), lane states are not written: all lanes have ended when
//! the code returns.
//!
//! The stack is at a multiple of 64 where it is called: nothing depends on it but that vectors saved there do not cross cache lines.
//!
//! The return value is 0, or 1 if the CTA must stop: then the `fault_*` fields say why. A hardware fault (an access to
//! an unmapped page of the arena) shows as a signal whose pc lies in [`CompiledKernel::code`].
//!
//! # Slots
//!
//! Each gang has a frame of `frame_size` bytes at `slots + gang * frame_size`. A slot at `offset` holds `G` elements side by
//! side: 8 bytes each for `B64`, else 4 bytes each (a `B1` is 0 or all ones, narrow values are zero-extended).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use ptxjit_ir::{BarrierOp, FuncId, InstData, SrcLoc, Type, VarId, WarpOp};
use ptxjit_passes::vectorize::MOST_THREADS;
use serde::{Deserialize, Serialize};

/// Entry point of compiled code: `(cta, state, first_gang, end_gang) -> 0 | 1`.
pub type EnterFn = unsafe extern "C" fn(*mut CtaContext, u32, u32, u32) -> u32;

/// States of a lane beside resume-point numbers.
#[derive(Copy, Clone, Debug)]
pub struct LaneState;

impl LaneState {
    /// The thread has not started.
    pub const ENTRY: u16 = 0;
    /// Set when a lane waited with fewer lanes than its gang was entered with.
    pub const PARTIAL: u16 = 0x8000;
    /// Of a gang: its lanes have states of their own.
    pub const APART: u16 = 0xfffe;
    /// The thread has ended.
    pub const EXITED: u16 = 0xffff;
}

/// Everything compiled code reaches. One per CTA in flight; the runtime fills it.
#[repr(C)]
#[derive(Debug)]
pub struct CtaContext {
    /// Host address of the parameter block: offset 0 of the `.param` window.
    ///
    /// As with all windows, the 64 bytes below are mapped: lanes that do not run are sent there.
    pub params: u64,
    /// Values of [`CompiledKernel::symbols`], in order.
    pub symbols: *const u64,
    /// First address of the arena, a multiple of its size. Its first and last 64 KB are never mapped.
    pub arena_base: u64,
    /// log2 of the arena's size.
    pub arena_bits: u64,
    /// Generic address of offset 0 of this CTA's `.shared` window. At least 2 GB on both sides of a window are unmapped or its own,
    /// but for the 64 bytes below offset 0.
    pub shared_base: u64,
    /// Generic address of offset 0 of the module's `.const` window.
    pub const_base: u64,
    /// Generic address of offset 0 of thread 0's `.local` window.
    pub local_base: u64,
    /// Distance from one thread's local window to the next.
    pub local_stride: u64,
    /// Per thread: offset of the top of its dynamic stack in its local window (grows upward).
    pub stack_top: *mut u32,
    /// Context slots.
    pub slots: *mut u8,
    /// Per thread: its state. Padded to a multiple of 32 threads with `EXITED`.
    pub lane_states: *mut u16,
    /// Per gang: the state in which its lanes stopped, or `APART`.
    pub gang_states: *mut u16,
    /// Per resume point: 1 if gangs that all stopped there may go on at once.
    pub go_on: *const u8,
    /// Per gang: the lanes to enter, bit i for lane i.
    pub masks: *mut u32,
    /// Per thread, padded to a multiple of 32: `%tid.x`.
    pub tid_x: *const u32,
    /// `%tid.y`.
    pub tid_y: *const u32,
    /// `%tid.z`.
    pub tid_z: *const u32,
    /// 64 bytes of zeros and junk that loads and stores of inactive lanes are sent to; 64-byte aligned.
    pub junk: *mut u8,
    /// Not zero when compiled code shall leave at the next poll (cancellation).
    pub poll: *const u32,
    /// Functions of the runtime.
    pub fns: *const RuntimeFns,
    /// The runtime's own data.
    pub user: *mut core::ffi::c_void,
    /// `%ntid`.
    pub ntid: [u32; 3],
    /// `%nctaid`.
    pub nctaid: [u32; 3],
    /// `%ctaid`.
    pub ctaid: [u32; 3],
    /// Threads in the CTA.
    pub n_threads: u32,
    /// `%nclusterid`.
    pub nclusterid: [u32; 3],
    /// `%cluster_nctaid`.
    pub cluster_nctaid: [u32; 3],
    /// `%clusterid`.
    pub clusterid: [u32; 3],
    /// `%cluster_ctaid`.
    pub cluster_ctaid: [u32; 3],
    /// `%cluster_ctarank`.
    pub cluster_ctarank: u32,
    /// `%is_explicit_cluster`: 0 or 1.
    pub is_explicit_cluster: u32,
    /// `%gridid`.
    pub gridid: u64,
    /// `%smid`: number of the worker.
    pub smid: u32,
    /// `%nsmid`: number of workers.
    pub nsmid: u32,
    /// `%envreg0` … `%envreg31`.
    pub envreg: [u32; 32],
    /// CTAs that follow in the first dimension and that compiled code may start by itself, each when the one before has ended as a whole
    /// in the same entry. It counts them down, and `ctaid` and `clusterid` up.
    pub ctas_left: u32,
    /// `%dynamic_smem_size`.
    pub dynamic_smem_size: u32,
    /// `%total_smem_size`.
    pub total_smem_size: u32,
    /// Written by compiled code when it enters a gang, whose mask is in `masks`: for fault reports.
    pub current_gang: u32,
    /// While compiled code runs the lanes of the gang one after the other: the one whose turn it is, as a bit; else zero.
    pub current_lane: u32,
    /// Why the code returned 1: a [`FaultKind`] as a number.
    pub fault_kind: u32,
    /// Source location of the fault.
    pub fault_loc: u32,
    /// Gang of the fault.
    pub fault_gang: u32,
    /// Lanes of the gang that are at fault.
    pub fault_mask: u32,
    /// The bad address, if there is one.
    pub fault_addr: u64,
}

/// Why compiled code stopped its CTA.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum FaultKind {
    /// No fault.
    None = 0,
    /// An address outside device memory.
    BadAddress = 1,
    /// `trap`.
    Trap = 2,
    /// Control reached a place the program promised it would not.
    Unreachable = 3,
    /// The thread's local memory is used up (recursion, `alloca`).
    StackOverflow = 4,
    /// An indirect call through a pointer that is no function of the expected signature.
    BadCallTarget = 5,
    /// A runtime function asked to stop; the runtime has recorded why.
    Runtime = 6,
    /// Cancelled through `poll`.
    Cancelled = 7,
}

/// Room for the value of each lane of a gang of any width, see [`RuntimeFns::device`].
pub const DEVICE_VALUE_BYTES: usize = 8 * 32;

/// Functions that compiled code calls. All take the context first.
#[repr(C)]
#[derive(Copy, Clone)]
pub struct RuntimeFns {
    /// An operation of the device for the threads `first_thread + i` for each bit `i` of `mask`. `op` is an
    /// [`InstData::Device`] that the code keeps. `values` holds its operands and then its results, each
    /// [`DEVICE_VALUE_BYTES`] after the one before and within it one element for each lane, laid out as in a context slot.
    /// Returns the lane that must stop the grid with `FaultKind::Runtime`, as a bit, or 0.
    pub device: unsafe extern "C" fn(
        cta: *mut CtaContext,
        op: *const InstData,
        first_thread: u32,
        mask: u32,
        values: *mut u8,
        loc: u32,
    ) -> u32,
    /// `%clock64`.
    pub clock64: unsafe extern "C" fn(cta: *mut CtaContext) -> u64,
    /// `%globaltimer`, nanoseconds.
    pub globaltimer: unsafe extern "C" fn(cta: *mut CtaContext) -> u64,
    /// Under `memcheck`: checks an access of `size` bytes (`write` 0 or 1, 2 for atomics) at `addrs[lane]` for each lane of `mask` of gang
    /// `gang`. Returns 0, or 1 to stop with `FaultKind::Runtime`.
    pub check_access: unsafe extern "C" fn(
        cta: *mut CtaContext,
        addrs: *const u64,
        mask: u32,
        size: u32,
        write: u32,
        gang: u32,
        loc: u32,
    ) -> u32,
    /// In code that is compiled so: the lanes of `mask` that may not access memory at `addrs[lane]`, or near it.
    pub outside: unsafe extern "C" fn(cta: *mut CtaContext, addrs: *const u64, mask: u32) -> u32,
}

impl fmt::Debug for RuntimeFns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RuntimeFns")
    }
}

/// What a compiled variant takes for granted about its launches.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Facts {
    /// `ntid.y == ntid.z == 1`.
    pub one_dimensional: bool,
    /// The gang width divides `ntid.x`: a gang never spans two rows, and every gang is full.
    pub whole_rows: bool,
    /// The gang width divides the number of threads: every gang is full. Code that takes this for granted may be
    /// [for whole gangs only](CompiledKernel::whole_gangs).
    pub whole_gangs: bool,
    /// `%ctaid.x * %ntid.x + %tid.x` is always less than [`MOST_THREADS`].
    pub small_grid: bool,
    /// No component of `%nctaid` exceeds 65,536.
    pub small_ctaid: bool,
}

impl Facts {
    /// What holds for a launch of this shape with gangs of `gang` lanes.
    pub fn of(grid: [u32; 3], block: [u32; 3], gang: u32) -> Facts {
        let threads = block.iter().map(|&n| u64::from(n)).product::<u64>();
        Facts {
            one_dimensional: block[1] == 1 && block[2] == 1,
            whole_rows: block[0].is_multiple_of(gang),
            whole_gangs: threads.is_multiple_of(u64::from(gang)),
            small_grid: u64::from(grid[0]) * u64::from(block[0]) <= MOST_THREADS,
            small_ctaid: grid.iter().all(|&n| n <= 1 << 16),
        }
    }
}

/// Window offset of a page of shared windows that lanes which do not run are sent to. It lies a gigabyte and more below offset 0,
/// in the gap between windows, so that small wrong offsets fault.
pub const IDLE_OFFSET: i64 = -0x5554_5000;

/// How to compile.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CompileOptions {
    /// Gang width: 1, 4, 8, 16, 32, or none to let the cost model choose.
    pub gang: Option<u32>,
    /// Launch facts.
    pub facts: Facts,
    /// Call `check_access` before every access.
    pub memcheck: bool,
    /// Ask `outside` about addresses that are not in the arena, instead of taking them for a fault.
    pub foreign: bool,
    /// Whether the code may be made fast rather than made to run fast, see [`CompiledKernel::is_quick`].
    pub haste: Haste,
    /// The code goes on where code [for whole gangs](CompiledKernel::whole_gangs) has stopped, which was not too complex: so this is not
    /// either, and has the same width.
    pub goes_on: bool,
    /// When to give up.
    pub until: Option<Instant>,
}

/// How much of a hurry there is.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Haste {
    /// None: code is made to run fast.
    None,
    /// Long code may be made fast.
    Some,
    /// So may all but short code: few threads will run it first.
    Much,
}

/// A value that the runtime needs of a waiting lane.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Operand {
    /// The same for all lanes.
    Const(u64),
    /// In a slot.
    Slot {
        /// Offset in the gang's frame.
        offset: u32,
        /// Type of the element.
        ty: Type,
    },
}

/// What lanes at a resume point wait for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ResumeKind {
    /// Nothing (a call or a return continues here).
    Ready,
    /// Nothing; but it is good for the caches if other threads now come as far.
    Turn,
    /// Another thread's progress: the lane spun for a while. `nanosleep` too.
    Yield,
    /// A CTA barrier. Operands: id, count (0: all threads), predicate (for reductions); results as the op has.
    Barrier {
        /// Which.
        op: BarrierOp,
        /// `.aligned` or `bar.`.
        aligned: bool,
    },
    /// A warp operation. Operands: the op's, then the member mask if `sync`.
    Warp {
        /// Which.
        op: WarpOp,
        /// Has a member mask.
        sync: bool,
        /// Operand type (of `match`).
        ty: Type,
    },
}

/// A place where lanes wait and are resumed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResumePoint {
    /// What for.
    pub kind: ResumeKind,
    /// The PTX statement.
    pub loc: SrcLoc,
    /// What the runtime reads.
    pub operands: Vec<Operand>,
    /// What the runtime writes before resuming: (slot offset, type).
    pub results: Vec<(u32, Type)>,
    /// Slots that must be equal among lanes resumed together.
    pub uniforms: Vec<(u32, Type)>,
    /// Slots that only the first lane fills where a gang stopped as a whole: the others have the same value.
    pub shared: Vec<(u32, Type)>,
}

/// What a symbol of compiled code stands for.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SymbolRef {
    /// Generic address of a `.global` variable, window offset of a `.const` one.
    Var(VarId),
    /// Generic address of a function's descriptor: 16 bytes whose first word is the function's module-wide number plus one.
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
pub(crate) struct Placed {
    pub enter: EnterFn,
    pub code: std::ops::Range<usize>,
    pub locs: Vec<(u32, SrcLoc)>,
    /// Keeps the code alive.
    pub _module: Box<dyn Send + Sync>,
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
    /// Executable range. Stubs lie in it as well, without locations of their own: while one runs, `CtaContext::fault_loc` says
    /// on behalf of which statement.
    pub code: std::ops::Range<usize>,
    /// (code offset, location), ascending: the location holds up to the next offset; `SrcLoc(u32::MAX)` stands for none.
    pub locs: Vec<(u32, SrcLoc)>,
    /// Resume points; number 0 is the entry.
    pub resume_points: Vec<ResumePoint>,
    /// Gangs may only be entered with all of their lanes. Where some lanes of a gang are to go on by themselves, the same kernel
    /// compiled without [`Facts::whole_gangs`] does it: the two are [alike](CompiledKernel::is_alike).
    pub whole_gangs: bool,
    /// Bytes of context slots per gang.
    pub frame_size: u32,
    /// Symbols whose values the runtime puts in `CtaContext::symbols`.
    pub symbols: Vec<SymbolRef>,
    /// Window offsets of shared variables, and the static size.
    pub shared: ptxjit_ir::SharedLayout,
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
    /// Its registers were allocated in one pass, which takes a tenth of the time and gives slower code.
    pub(crate) quick: bool,
    /// The same code with registers allocated well, once there is some.
    pub(crate) better: OnceLock<Placed>,
    /// Keeps the code alive.
    pub(crate) _module: Box<dyn Send + Sync>,
}

impl CompiledKernel {
    /// A kernel around an entry point that is not made by this crate: nothing is compiled, no code range is known. For
    /// tests of the runtime.
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
            shared: ptxjit_ir::SharedLayout::default(),
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

    /// Whether the code looks at lane states to see which lanes have ended: then no lane that has not ended may have that
    /// state, from the start of a CTA on.
    pub fn looks_at_ended_lanes(&self) -> bool {
        let is_warp_op = |point: &ResumePoint| matches!(point.kind, ResumeKind::Warp { .. });
        self.gang == 32 && self.resume_points.iter().any(is_warp_op)
    }

    /// Whether the code was made in a hurry, and [`CompiledKernel::improve`] would make launches faster.
    pub fn is_quick(&self) -> bool {
        self.quick && self.better.get().is_none()
    }

    /// Takes over the code of `other`, the same variant compiled without haste. Entries from now on use it, also those of
    /// launches under way: both lay out slots and number resume points alike. False if they do not.
    pub fn improve(&self, other: CompiledKernel) -> bool {
        let is_same = self.facts == other.facts
            && self.whole_gangs == other.whole_gangs
            && self.is_alike(&other);
        let placed = Placed {
            enter: other.enter,
            code: other.code,
            locs: other.locs,
            _module: other._module,
        };
        is_same && self.better.set(placed).is_ok()
    }

    /// Whether two kernels lay out slots and number resume points alike, so that lanes that one has stopped go on in the other.
    pub fn is_alike(&self, other: &CompiledKernel) -> bool {
        self.gang == other.gang
            && self.frame_size == other.frame_size
            && self.resume_points == other.resume_points
            && self.symbols == other.symbols
            && self.shared == other.shared
            && self.local_static == other.local_static
    }

    /// What to enter now, and the range of its code.
    pub fn entry(&self) -> (EnterFn, std::ops::Range<usize>) {
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

fn loc_in(code: &std::ops::Range<usize>, locs: &[(u32, SrcLoc)], pc: usize) -> Option<SrcLoc> {
    if !code.contains(&pc) {
        return None;
    }
    let offset = (pc - code.start) as u32;
    let idx = locs.partition_point(|&(start, _)| start <= offset);
    idx.checked_sub(1)
        .map(|idx| locs[idx].1)
        .filter(|&loc| loc != SrcLoc(u32::MAX))
}
