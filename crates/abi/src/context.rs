//! What compiled code reaches: the context of a CTA, states of lanes, functions of the runtime.

use std::fmt;

use ptxjit_ir::InstData;

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
    pub const DIVERGED: u16 = 0xfffe;
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
    /// Under `memcheck`: what is added to an address divided by 16 for the address of its byte in
    /// the map of valid memory. The byte says how many of the 16 bytes, from the first on, may be
    /// accessed; its highest bit that they may only be loaded from.
    pub map_origin: u64,
    /// Values of [`crate::CompiledKernel::symbols`], in order.
    pub symbols: *const u64,
    /// First address of the arena, a multiple of its size. Its first and last 64 KB are never
    /// mapped.
    pub arena_base: u64,
    /// log2 of the arena's size.
    pub arena_bits: u64,
    /// Generic address of offset 0 of the `.shared` window: that of this CTA, or of its cluster if
    /// it has several ([`ptxjit_ir::CTA_SHIFT`]). At least 2 GB on both sides of a window are
    /// unmapped or its own, but for the 64 bytes below offset 0.
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
    /// Per gang: the state in which its lanes stopped, or `DIVERGED`.
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
    /// 64 bytes of zeros and junk that loads and stores of inactive lanes are sent to; 64-byte
    /// aligned.
    pub junk: *mut u8,
    /// Not zero when compiled code shall leave at the next poll (cancellation).
    pub poll: *const u32,
    /// Functions of the runtime.
    pub fns: *const RuntimeFns,
    /// For each counter of the program [`COUNTER_WORDS`]. The worker's own, so plain additions are
    /// enough.
    pub counters: *mut u64,
    /// If a profile wants to know of accesses of this CTA: for each place and warp, [`TRACE_WARPS`]
    /// of them, how many executions are left before it is told of one, which compiled code counts
    /// down, and a word of the runtime's own. Null if not.
    pub traces: *mut [u32; 2],
    /// The runtime's own data.
    pub user: *mut core::ffi::c_void,
    /// The runtime's own data about the cluster; null if it has one CTA.
    pub cluster: *const core::ffi::c_void,
    /// The runtime's own data of this CTA: its tensor memory.
    pub tensor_memory: *mut core::ffi::c_void,
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
    /// CTAs that follow in the first dimension and that compiled code may start by itself, each
    /// when the one before has ended as a whole in the same entry. It counts them down, and `ctaid`
    /// and `clusterid` up.
    pub ctas_left: u32,
    /// `%dynamic_smem_size`.
    pub dynamic_smem_size: u32,
    /// `%total_smem_size`.
    pub total_smem_size: u32,
    /// Written by compiled code when it enters a gang, whose mask is in `masks`: for fault reports.
    pub current_gang: u32,
    /// While compiled code runs the lanes of the gang one at a time: the one whose turn it
    /// is, as a bit; else zero.
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
    /// Compiled code's own: what it found of the CTA when it started it.
    pub known: u32,
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

/// Words of a counter ([`InstData::Count`]): threads; then, where a gang is a warp, how often a
/// warp has reached it, and how often with all the threads that it has; of one that counts sides
/// how often the condition was true for some threads of a warp and false for others.
pub const COUNTER_WORDS: usize = 3;

/// Warps that a CTA can have.
pub const TRACE_WARPS: usize = 32;

/// Room for the value of each lane of a gang of any width, see [`RuntimeFns::device`].
pub const DEVICE_VALUE_BYTES: usize = 8 * 32;

/// Functions that compiled code calls. All take the context first.
#[repr(C)]
#[derive(Copy, Clone)]
pub struct RuntimeFns {
    /// An operation of the device for the threads `first_thread + i` for each bit `i` of `mask`.
    /// `op` is an [`InstData::Device`] that the code keeps. `values` holds its operands and then
    /// its results, each [`DEVICE_VALUE_BYTES`] after the one before and within it one element for
    /// each lane, laid out as in a context slot. Returns the lane that must stop the grid with
    /// `FaultKind::Runtime`, as a bit, or 0.
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
    /// Under `memcheck`, where the map of valid memory does not allow it: checks an access of
    /// `size` bytes (`write` 0 or 1, 2 for atomics) at `addrs[lane]` for each lane of `mask` of
    /// gang `gang`. Returns 0, or 1 to stop with `FaultKind::Runtime`.
    pub check_access: unsafe extern "C" fn(
        cta: *mut CtaContext,
        addrs: *const u64,
        mask: u32,
        size: u32,
        write: u32,
        gang: u32,
        loc: u32,
    ) -> u32,
    /// Of the first lane of `mask` of gang `gang` whose access to `addrs[lane]` is not allowed: 1,
    /// to stop with `FaultKind::Runtime`, if it is misaligned, 0 if it is outside of device memory.
    /// The lower half of `what` is what the address plus the upper half must be a multiple of. 0 if
    /// all lanes are aligned.
    pub misaligned: unsafe extern "C" fn(
        cta: *mut CtaContext,
        addrs: *const u64,
        mask: u32,
        what: u64,
        gang: u32,
        loc: u32,
    ) -> u32,
    /// In code that is compiled so: the lanes of `mask` that may not access `size` bytes at
    /// `addrs[lane]`. If the size is 0: that may access nothing there nor near it.
    pub outside:
        unsafe extern "C" fn(cta: *mut CtaContext, addrs: *const u64, mask: u32, size: u32) -> u32,
}

impl fmt::Debug for RuntimeFns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RuntimeFns")
    }
}

/// Window offset of a page of shared windows that lanes which do not run are sent to. It lies a
/// gigabyte and more below offset 0, in the gap between windows, so that small wrong offsets fault.
pub const IDLE_OFFSET: i64 = -0x5554_5000;
