//! A CTA in flight: its context for compiled code and the memory behind it. Reused from CTA to CTA
//! and from launch to launch, so that starting a CTA allocates nothing.

#![expect(unsafe_code, reason = "the context is shared with compiled code")]

use std::sync::Arc;

use ptxjit_abi::{CtaContext, LaneState};
use ptxjit_ir::{CTA_SHIFT, MAX_LOCAL_BYTES};

use crate::buf::RawBuf;
use crate::counters::Table;
use crate::grid::Grid;
use crate::memory::{Arena, ClusterWindow, PAGE, Window};
use crate::sched::barrier::{MAX_WARPS, WarpMasks};
use crate::sched::lanes::Lanes;
use crate::sched::slots::SlotLayout;
use crate::tensor::TensorSlot;
use crate::traces;

/// Threads are padded to a multiple of this many.
const PAD: u32 = 32;

/// Windows of shared memory have room for this many bytes: more than any launch may use.
const SHARED_CAPACITY: u64 = 240 << 10;

/// A local region whose accessible size exceeds this gives its pages back after a launch.
const LOCAL_KEPT: u64 = 1 << 30;

/// Where compiled code goes on when the CTA is run again.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// All live lanes stand at this state, and `masks` holds them.
    Together(u32),
    /// All live lanes wait for the barrier of the cluster at this state, and `masks` holds them.
    AtCluster(u32),
    /// As [`Lanes`] says.
    LaneWise,
}

/// Lanes at the barrier of the cluster.
#[derive(Copy, Clone, Debug)]
pub(super) struct ClusterArrivals {
    /// They have arrived in this phase.
    pub(super) arrived: WarpMasks,
    /// The phase in which they arrived is complete, and they have not waited for it yet.
    pub(super) passed: WarpMasks,
}

impl ClusterArrivals {
    const NONE: ClusterArrivals = ClusterArrivals {
        arrived: [0; MAX_WARPS],
        passed: [0; MAX_WARPS],
    };
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Cta {
    /// Shared with compiled code.
    ctx: Box<CtaContext>,
    shared: Option<Window>,
    local: Option<Window>,
    pub(super) slots: RawBuf<u8>,
    pub(super) lane_states: RawBuf<u16>,
    pub(super) gang_states: RawBuf<u16>,
    pub(super) masks: RawBuf<u32>,
    /// Of each gang, the lanes that have stopped as a whole and whose shared values only the first
    /// of them has so far; none if each has its own. As long as these lanes go on together, it
    /// stays so.
    pub(super) unspread: Vec<u32>,
    tid: [RawBuf<u32>; 3],
    stack_top: RawBuf<u32>,
    junk: RawBuf<u8>,
    traces: RawBuf<u32>,
    pub(crate) tensor: TensorSlot,
    /// Block shape that `tid` and the padding of `lane_states` are for.
    shape: [u32; 3],
    pub(super) layout: SlotLayout,
    pub(super) n_threads: u32,
    pub(super) n_gangs: u32,
    /// `masks` hold all threads.
    pub(super) masks_are_full: bool,
    /// Lanes that had ended when `masks` was last made.
    pub(super) n_exited: u32,
    pub(super) phase: Phase,
    pub(super) lanes: Box<Lanes>,
    pub(super) at_cluster: ClusterArrivals,
    /// CTAs that compiled code might have started by itself and did not.
    n_left: u32,
}

// SAFETY: the raw pointers in the context point at this CTA's own buffers and at the launch it is
// prepared for; one thread at a time uses a CTA, and prepares it again for its launch.
unsafe impl Send for Cta {}

impl Cta {
    /// An empty one.
    pub(crate) fn new() -> Cta {
        // SAFETY: integers, null pointers and arrays of integers are valid when zeroed; compiled
        // code sees the context only after `prepare`.
        let ctx = Box::new(unsafe { std::mem::zeroed::<CtaContext>() });
        Cta {
            ctx,
            shared: None,
            local: None,
            slots: RawBuf::new(0),
            lane_states: RawBuf::new(0),
            gang_states: RawBuf::new(0),
            masks: RawBuf::new(0),
            unspread: Vec::new(),
            tid: [RawBuf::new(0), RawBuf::new(0), RawBuf::new(0)],
            stack_top: RawBuf::new(0),
            junk: RawBuf::new(128),
            traces: RawBuf::new(0),
            tensor: TensorSlot::new(),
            shape: [0; 3],
            layout: SlotLayout { frame: 0, gang: 1 },
            n_threads: 0,
            n_gangs: 0,
            masks_are_full: false,
            n_exited: 0,
            phase: Phase::Together(0),
            lanes: Box::default(),
            at_cluster: ClusterArrivals::NONE,
            n_left: 0,
        }
    }

    /// Lays everything out for the CTAs of a launch. `grid` must stay where it is while the CTA is
    /// run, and so must the window in `cluster`, where the CTA's shared memory is if it is one of
    /// several; beside it stands its rank.
    pub(crate) fn prepare(
        &mut self,
        grid: &Grid,
        worker: u32,
        cluster: Option<(&ClusterWindow, u32)>,
    ) -> std::io::Result<()> {
        let kernel = &*grid.kernel;
        self.n_threads = grid.n_threads();
        self.n_gangs = self.n_threads.div_ceil(kernel.gang);
        self.layout = SlotLayout {
            frame: kernel.frame_size,
            gang: kernel.gang,
        };
        self.slots
            .reserve(kernel.frame_size as usize * self.n_gangs as usize);
        self.masks.reserve(self.n_gangs as usize);
        self.gang_states.reserve(self.n_gangs as usize);
        self.gang_states.slice_mut().fill(LaneState::DIVERGED);
        self.unspread.clear();
        self.unspread.resize(self.n_gangs as usize, 0);
        self.masks_are_full = false;
        if self.shape != grid.block {
            self.set_shape(grid.block);
        }
        if kernel.uses_stack {
            self.stack_top.reserve(self.n_threads as usize);
        }
        let shared_base = match cluster {
            Some((cluster, _)) => cluster.base(),
            None => self.prepare_shared(&grid.arena, u64::from(grid.shared_bytes))?,
        };
        let (local_base, local_stride) = self.prepare_local(grid)?;
        if grid.map_origin.is_some() {
            let local_len = self.local.as_ref().map_or(0, Window::len);
            let rank = cluster.map_or(0, |(_, rank)| rank);
            let shared = shared_base + (u64::from(rank) << CTA_SHIFT);
            mark_windows(grid, shared, (local_base, local_stride, local_len));
        }
        let ctx = &mut *self.ctx;
        // A context used before may be of a launch with other clusters.
        (ctx.cluster_ctaid, ctx.cluster_ctarank) = ([0; 3], 0);
        // A fault may have left it.
        ctx.current_lane = 0;
        grid.fill_context(ctx);
        (ctx.shared_base, ctx.local_base, ctx.local_stride) =
            (shared_base, local_base, local_stride);
        ctx.stack_top = self.stack_top.ptr();
        ctx.slots = self.slots.ptr();
        ctx.lane_states = self.lane_states.ptr();
        ctx.gang_states = self.gang_states.ptr();
        ctx.go_on = grid.go_on.never.as_ptr();
        ctx.masks = self.masks.ptr();
        [ctx.tid_x, ctx.tid_y, ctx.tid_z] =
            [0, 1, 2].map(|axis: usize| self.tid[axis].ptr().cast_const());
        ctx.junk = self.junk.ptr();
        ctx.smid = worker;
        ctx.cluster = cluster.map_or(std::ptr::null(), |(cluster, rank)| {
            cluster.tensors.set(rank, &self.tensor);
            (&raw const *cluster).cast()
        });
        Ok(())
    }

    /// The table in which compiled code counts; it must stay where it is while the CTA is run.
    pub(crate) fn set_counters(&mut self, table: Option<&Table<'_>>) {
        self.ctx.counters = table.map_or(std::ptr::null_mut(), Table::ptr);
    }

    fn set_shape(&mut self, block: [u32; 3]) {
        let padded = self.n_threads.next_multiple_of(PAD);
        self.lane_states.reserve(padded as usize);
        for axis in &mut self.tid {
            axis.reserve(padded as usize);
        }
        for thread in 0..padded {
            // Threads beyond the last row get the numbers that would follow; nobody acts on them.
            let tid = tid_of(thread, block);
            for (axis, tid) in self.tid.iter_mut().zip(tid) {
                axis.slice_mut()[thread as usize] = tid;
            }
        }
        self.lane_states.slice_mut().fill(LaneState::EXITED);
        self.shape = block;
    }

    fn prepare_shared(&mut self, arena: &Arc<Arena>, bytes: u64) -> std::io::Result<u64> {
        let window = in_arena(&mut self.shared, arena, SHARED_CAPACITY)?;
        if window.len() != bytes.next_multiple_of(PAGE) {
            window.set_len(bytes)?;
        }
        Ok(window.base())
    }

    fn prepare_local(&mut self, grid: &Grid) -> std::io::Result<(u64, u64)> {
        let stack = match grid.kernel.uses_stack {
            true => grid.stack_bytes,
            false => 0,
        };
        // No thread has more, whatever the limit of its stack.
        let bytes = (u64::from(grid.kernel.local_static) + stack).min(MAX_LOCAL_BYTES);
        let stride = local_stride(bytes);
        if stride == 0 {
            return Ok((grid.arena.null_window(), 0));
        }
        let bytes = stride * u64::from(self.n_threads);
        let window = in_arena(&mut self.local, &grid.arena, bytes)?;
        // Local memory beyond the last thread's is harmless to leave accessible; shrinking would
        // cost a system call.
        if window.len() < bytes {
            window.set_len(bytes)?;
        }
        Ok((window.base(), stride))
    }

    /// Makes ready to run the CTA with this `%ctaid` from its beginning.
    pub(crate) fn start(&mut self, grid: &Grid, ctaid: [u32; 3], lane_wise: bool) {
        grid.fill_cta(&mut self.ctx, ctaid);
        self.tensor.start(&mut self.ctx, grid.schedule);
        self.ctx.traces = match &grid.traces {
            Some(traces) if traces::is_sampled(grid.grid, ctaid) => {
                self.traces.reserve(traces.n_words());
                traces::start(self.traces.slice_mut());
                self.traces.ptr().cast()
            }
            Some(_) | None => std::ptr::null_mut(),
        };
        (self.ctx.ctas_left, self.n_left) = (0, 0);
        if grid.kernel.uses_stack {
            self.stack_top.slice_mut()[..self.n_threads as usize].fill(grid.kernel.local_static);
        }
        self.n_exited = 0;
        if grid.in_clusters {
            self.at_cluster = ClusterArrivals::NONE;
        }
        if lane_wise {
            self.lane_states.slice_mut()[..self.n_threads as usize].fill(LaneState::ENTRY);
            self.lanes.start(self.n_threads);
            self.phase = Phase::LaneWise;
        } else {
            let (n, gang) = (self.n_threads, self.layout.gang);
            if grid.looks_at_ended_lanes {
                self.lane_states.slice_mut()[..n as usize].fill(LaneState::ENTRY);
            }
            if !std::mem::replace(&mut self.masks_are_full, true) {
                for (idx, mask) in self.masks.slice_mut()[..self.n_gangs as usize]
                    .iter_mut()
                    .enumerate()
                {
                    *mask = low_bits((n - idx as u32 * gang).min(gang));
                }
            }
            self.phase = Phase::Together(0);
        }
    }

    /// Lets compiled code start so many CTAs that follow in the first dimension. Each of them is
    /// this CTA from then on.
    pub(crate) fn let_follow(&mut self, n: u32) {
        self.ctx.ctas_left = n;
    }

    /// Compiled code has returned: this CTA is the last that it started.
    pub(super) fn end_entry(&mut self) {
        self.n_left += std::mem::take(&mut self.ctx.ctas_left);
    }

    /// Of the CTAs that might have followed, those that were not started.
    pub(crate) fn n_left(&self) -> u32 {
        self.n_left
    }

    /// Says at which resume points compiled code may go on by itself. The table has an entry for
    /// each, and stays where it is.
    pub(super) fn set_go_on(&mut self, table: &[u8]) {
        self.ctx.go_on = table.as_ptr();
    }

    /// The context, for compiled code.
    pub(super) fn ctx_ptr(&mut self) -> *mut CtaContext {
        &mut *self.ctx
    }

    /// The context, to read after compiled code returned.
    pub(crate) fn ctx(&self) -> &CtaContext {
        &self.ctx
    }

    /// Bytes of local memory per thread.
    pub(crate) fn local_limit(&self) -> u64 {
        self.ctx.local_stride
    }

    /// `%tid` of a thread.
    pub(crate) fn tid(&self, thread: u32) -> [u32; 3] {
        tid_of(thread, self.shape)
    }

    /// Gives back memory that only some launches need.
    pub(crate) fn trim(&mut self) {
        if self
            .local
            .as_ref()
            .is_some_and(|window| window.len() > LOCAL_KEPT)
        {
            self.local = None;
        }
    }
}

/// Tells the map of valid memory which bytes of a CTA's windows are variables.
fn mark_windows(grid: &Grid, shared: u64, (local, stride, local_len): (u64, u64, u64)) {
    let layout = &grid.kernel.shared;
    let arena = &grid.arena;
    let end = shared + u64::from(grid.shared_bytes);
    let dynamic = shared + u64::from(layout.static_size)..end;
    let window = shared..shared + SHARED_CAPACITY;
    let objects = layout.objects.iter().map(|&(offset, size)| {
        let start = shared + u64::from(offset);
        start..start + u64::from(size)
    });
    if layout.padding == 0 {
        // Variables side by side need not begin at multiples of what the map tells about.
        arena.mark_window(window, std::iter::once(shared..end), 0);
    } else {
        arena.mark_window(window, objects.chain([dynamic]), 0);
    }
    let len = stride * u64::from(grid.n_threads());
    if len != 0 {
        let window = local..local + local_len.max(len);
        arena.mark_window(window, std::iter::once(local..local + len), 0);
    }
}

/// The window if it is in this arena and large enough, else a new one in its place.
fn in_arena<'a>(
    slot: &'a mut Option<Window>,
    arena: &Arc<Arena>,
    bytes: u64,
) -> std::io::Result<&'a mut Window> {
    let fits = |window: &Window| window.capacity() >= bytes && Arc::ptr_eq(window.arena(), arena);
    if !slot.as_ref().is_some_and(fits) {
        *slot = None;
        *slot = Some(Window::new(arena, bytes)?);
    }
    Ok(slot.as_mut().expect("set above"))
}

/// Distance between the local windows of neighbouring threads.
fn local_stride(bytes: u64) -> u64 {
    let stride = bytes.next_multiple_of(64);
    // At a multiple of the page size all threads' variables would compete for the same few cache
    // sets.
    if stride >= PAGE && (stride / 64).is_multiple_of(2) {
        stride + 64
    } else {
        stride
    }
}

/// `%tid` of the thread with this linear index.
pub(crate) fn tid_of(thread: u32, block: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = block.map(|extent| extent.max(1));
    [thread % x, thread / x % y, thread / x / y]
}

/// The `n` lowest bits, n up to 32.
pub(crate) fn low_bits(n: u32) -> u32 {
    if n >= 32 { u32::MAX } else { (1 << n) - 1 }
}
