//! The functions that compiled code calls: operations of the device, clocks, and the exact check of accesses.
//!
//! They run on the stack of compiled code, with the default floating-point control, and no signal leaves their frames. All
//! trust of the caller ends at the context pointer: addresses given by the kernel are checked before they are followed.

#![expect(unsafe_code, reason = "called by compiled code with raw pointers")]

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ptxjit_abi::{CtaContext, DEVICE_VALUE_BYTES, RuntimeFns};
use ptxjit_device::asynchronous::{self, Issuer, Queue};
use ptxjit_device::tcgen05::TensorMemory;
use ptxjit_device::texture::{Bound, Object};
use ptxjit_device::{Act, Fault, Member, Rows, Site, Thread};
use ptxjit_ir::{DeviceOp, Fetch, InstData, SrcLoc, TextureOp, Type, TypeList};
use smallvec::SmallVec;

use crate::error::{LaunchError, TrapCause};
use crate::fault::CallbackGuard;
use crate::fp::{FpControl, FpGuard};
use crate::grid::Grid;
use crate::memory::{ClusterWindow, HeapCheck};
use crate::sampling::{self, Area};
use crate::sched::cta::tid_of;
use crate::traces;
use crate::view::View;

/// The table that contexts point at.
pub(crate) const FUNCTIONS: RuntimeFns = RuntimeFns {
    device,
    clock64,
    globaltimer,
    check_access,
    misaligned,
    outside,
};

/// What a callback works with.
struct Call<'a> {
    grid: &'a Grid,
    ctx: &'a CtaContext,
}

impl Call<'_> {
    /// # Safety
    ///
    /// `cta` is the context of a CTA that runs on this thread.
    unsafe fn new<'a>(cta: *mut CtaContext) -> Call<'a> {
        // SAFETY: compiled code does not write to the context while it waits for the callback.
        let ctx = unsafe { &*cta };
        // SAFETY: set by `Grid::fill_context`; the grid outlives the entry.
        let grid = unsafe { &*ctx.user.cast_const().cast::<Grid>() };
        Call { grid, ctx }
    }

    fn trap(&self, cause: TrapCause, thread: u32, loc: u32) -> LaunchError {
        let site = Site {
            ctaid: self.ctx.ctaid,
            tid: tid_of(thread, self.ctx.ntid),
            loc: SrcLoc(loc),
        };
        self.grid.trap_at(cause, site)
    }

    /// The error of an operation that a thread executes, or has completed for another.
    fn fault(&self, fault: Fault, thread: u32, loc: u32) -> LaunchError {
        match fault {
            Fault::Late { site, fault } => self.grid.trap_at(trap_cause(*fault), site),
            other => self.trap(trap_cause(other), thread, loc),
        }
    }

    fn view(&self, thread: u32) -> View<'_> {
        View::new(self.grid, self.ctx, thread)
    }
}

unsafe extern "C" fn device(
    cta: *mut CtaContext,
    op: *const InstData,
    first_thread: u32,
    mask: u32,
    values: *mut u8,
    loc: u32,
) -> u32 {
    let _callback = CallbackGuard::new();
    let _fp = FpGuard::set(FpControl::DEFAULT);
    // SAFETY: called by compiled code with its own context, and with an instruction that it keeps.
    let (call, op) = unsafe { (Call::new(cta), &*op) };
    let InstData::Device { op, .. } = op else {
        let what = format!("internal error: {op:?} is no operation of the device");
        call.grid.fail(LaunchError::System(what));
        return mask & mask.wrapping_neg();
    };
    let mask = match op {
        DeviceOp::Texture(TextureOp::Fetch(fetch)) => {
            let lanes = (first_thread, mask, loc);
            // SAFETY: compiled code passes room for the operands and results of all lanes.
            match unsafe { fetch_together(&call, fetch, lanes, Area(values)) } {
                Ok(0) => return 0,
                Ok(rest) => rest,
                Err((lane, fault)) => {
                    call.grid.fail(call.fault(fault, first_thread + lane, loc));
                    return 1 << lane;
                }
            }
        }
        DeviceOp::Trace(op) => {
            if let Some(traces) = &call.grid.traces {
                let area = Area(values);
                // SAFETY: the operand is an address for each lane, of this type.
                let addr = |lane| unsafe { area.address(op.addr, lane) };
                let at = traces::place(op.site, first_thread);
                // SAFETY: the table has a place for each access and warp; compiled code does not use it meanwhile.
                let pace = unsafe { &mut *call.ctx.traces.add(at) };
                traces.note(call.ctx, (op, traces::turn(pace)), mask, addr);
            }
            return 0;
        }
        _ => mask,
    };
    let mut values = Values::new(op, values);
    for lane in ptxjit_abi::warp_ops::lanes(mask) {
        let thread = first_thread + lane;
        let mut view = DeviceThread {
            call: &call,
            view: call.view(thread),
            thread,
            loc: SrcLoc(loc),
        };
        // SAFETY: compiled code passes room for the operands and results of all lanes.
        let done = unsafe {
            values.with(lane as usize, |args, results| {
                ptxjit_device::execute(op, &mut view, args, results)
            })
        };
        if let Err(fault) = done {
            call.grid.fail(call.fault(fault, thread, loc));
            return 1 << lane;
        }
    }
    0
}

/// Reads a texture for lanes that name the same objects together. The result has the lanes for which that cannot be done.
///
/// # Safety
///
/// The area holds the operands and has room for the results.
unsafe fn fetch_together(
    call: &Call<'_>,
    fetch: &Fetch,
    (first_thread, mask, loc): (u32, u32, u32),
    area: Area,
) -> Result<u32, (u32, Fault)> {
    let n_handles = 1 + usize::from(fetch.sampler);
    let handles = |lane: u32| -> [u64; 2] {
        std::array::from_fn(|n| match n < n_handles {
            // SAFETY: the caller's promise.
            true => unsafe { area.handle(n, lane) },
            false => 0,
        })
    };
    let (mut todo, mut rest) = (mask, 0);
    while todo != 0 {
        let lane = todo.trailing_zeros();
        let named = handles(lane);
        let same = ptxjit_abi::warp_ops::lanes(todo).filter(|&lane| handles(lane) == named);
        let group = same.fold(0, |group, lane| group | 1 << lane);
        todo &= !group;
        let thread = first_thread + lane;
        let mut view = DeviceThread {
            call,
            view: call.view(thread),
            thread,
            loc: SrcLoc(loc),
        };
        let bound = Bound::of(fetch, &mut view, &named).map_err(|fault| (lane, fault))?;
        // SAFETY: the caller's promise.
        let done = unsafe { sampling::fetch(&call.grid.arena, fetch, &bound, group, area) };
        rest |= if done { 0 } else { group };
    }
    Ok(rest)
}

/// Operands and results of an operation of the device, as compiled code lays them out: see `RuntimeFns::device`.
struct Values {
    at: *mut u8,
    args: TypeList,
    results: TypeList,
    words: SmallVec<[u64; 16]>,
}

impl Values {
    fn new(op: &DeviceOp, at: *mut u8) -> Values {
        let (args, results) = (op.args(), op.results());
        Values {
            at,
            words: smallvec::smallvec![0; args.len() + results.len()],
            args,
            results,
        }
    }

    /// Calls `f` with the operands of one lane and stores its results.
    ///
    /// # Safety
    ///
    /// The memory holds as many values as the operation has.
    unsafe fn with<T>(&mut self, lane: usize, f: impl FnOnce(&[u64], &mut [u64]) -> T) -> T {
        let element = |n: usize, ty: Type| {
            let offset = n * DEVICE_VALUE_BYTES + lane * if ty == Type::B64 { 8 } else { 4 };
            self.at.wrapping_add(offset)
        };
        let (args, results) = self.words.split_at_mut(self.args.len());
        for (n, (word, &ty)) in args.iter_mut().zip(&self.args).enumerate() {
            let at = element(n, ty);
            // SAFETY: the caller's promise; elements lie at multiples of their size.
            *word = ty.mask()
                & unsafe {
                    match ty {
                        Type::B64 => at.cast::<u64>().read(),
                        _ => at.cast::<u32>().read().into(),
                    }
                };
        }
        let done = f(args, results);
        for (n, (&word, &ty)) in results.iter().zip(&self.results).enumerate() {
            let at = element(self.args.len() + n, ty);
            // SAFETY: as above.
            unsafe {
                match ty {
                    Type::B64 => at.cast::<u64>().write(word),
                    // A predicate is 0 or all ones.
                    Type::B1 => at.cast::<u32>().write((word as u32 & 1).wrapping_neg()),
                    _ => at.cast::<u32>().write(word as u32),
                }
            }
        }
        done
    }
}

/// A thread of compiled code as `ptxjit-device` sees it.
struct DeviceThread<'a> {
    call: &'a Call<'a>,
    view: View<'a>,
    thread: u32,
    loc: SrcLoc,
}

impl Thread for DeviceThread<'_> {
    fn read(&mut self, addr: u64, bytes: &mut [u8]) -> Result<(), Fault> {
        let size = bytes.len() as u64;
        let read = self.view.read(addr, bytes);
        read.ok_or_else(|| self.bad_address(addr, size))
    }

    fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Fault> {
        let written = self.view.write(addr, bytes);
        written.ok_or_else(|| self.bad_address(addr, bytes.len() as u64))
    }

    fn read_rows(&mut self, rows: &Rows, bytes: &mut [u8]) -> Result<(), Fault> {
        if self.view.read_rows(*rows, bytes) {
            return Ok(());
        }
        rows.each()
            .try_for_each(|(addr, place)| self.read(addr, &mut bytes[place]))
    }

    fn gather(
        &mut self,
        to: u64,
        len: usize,
        tensor: u64,
        rows: &[(usize, Rows)],
        finish: &mut dyn FnMut(&mut [u8]),
    ) -> bool {
        let arena = self.view.arena();
        let Some(bytes) = self.view.shared(to, len) else {
            return false;
        };
        crate::ahead::fetch_next(tensor, rows);
        let read = |&(at, rows): &(usize, Rows)| arena.read_rows(rows, &mut bytes[at..]).is_ok();
        if !rows.iter().all(read) {
            return false;
        }
        finish(bytes);
        true
    }

    fn scatter(&mut self, from: u64, len: usize, rows: &[(usize, Rows)]) -> bool {
        let arena = self.view.arena();
        let Some(bytes) = self.view.shared(from, len) else {
            return false;
        };
        let write = |&(at, rows): &(usize, Rows)| arena.write_rows(rows, &bytes[at..]).is_ok();
        rows.iter().all(write)
    }

    fn write_rows(&mut self, rows: &Rows, bytes: &[u8]) -> Result<(), Fault> {
        if self.view.write_rows(*rows, bytes) {
            return Ok(());
        }
        rows.each()
            .try_for_each(|(addr, place)| self.write(addr, &bytes[place]))
    }

    fn update(
        &mut self,
        addr: u64,
        size: u32,
        update: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, Fault> {
        if !addr.is_multiple_of(u64::from(size)) {
            return Err(Fault::Misaligned { addr, size });
        }
        let old = self.view.update(addr, size, update);
        old.ok_or_else(|| self.bad_address(addr, u64::from(size)))
    }

    fn exchange(&mut self, addr: u64, expected: Option<u128>, new: u128) -> Result<u128, Fault> {
        let old = self.view.exchange(addr, expected, new);
        old.ok_or_else(|| self.bad_address(addr, 16))
    }

    fn object(&mut self, handle: u64) -> Option<Arc<Object>> {
        self.call.grid.shared.textures.recent(handle)
    }

    fn tid(&self) -> [u32; 3] {
        tid_of(self.thread, self.call.ctx.ntid)
    }

    fn number(&self) -> u32 {
        self.thread
    }

    fn loc(&self) -> SrcLoc {
        self.loc
    }

    fn is_odd(&self) -> bool {
        self.call.ctx.cluster_ctarank & 1 != 0
    }

    fn shared(&self, cta: Member) -> Result<&[u8], Fault> {
        match cta {
            Member::Own => Ok(self.view.all_shared()),
            Member::Peer => {
                let (_, peer) = self.peer()?;
                Ok(self.view.shared_of(peer))
            }
        }
    }

    fn tensor_memory(&mut self, cta: Member) -> Result<&mut Option<Box<TensorMemory>>, Fault> {
        if cta == Member::Peer {
            let (cluster, peer) = self.peer()?;
            // SAFETY: the CTAs of a cluster are started together and run on one thread; the result lives no longer than this
            // borrow of the only thread of theirs that executes an operation now.
            return Ok(unsafe { cluster.tensors.memory_of(peer) });
        }
        // SAFETY: the CTA has been started, it runs on this thread, and the result lives no longer than this borrow of the only
        // thread of the CTA that executes an operation now.
        let memory = unsafe { crate::tensor::memory_of(self.call.ctx) };
        memory.map_err(|leak| {
            let ctaid = leak.site().ctaid;
            Fault::refused(format!("before this, in CTA {ctaid:?}: {leak}"))
        })
    }

    fn ctaid(&self) -> [u32; 3] {
        self.call.ctx.ctaid
    }

    fn cluster_rank(&self) -> u32 {
        self.call.ctx.cluster_ctarank
    }

    fn cluster_size(&self) -> u32 {
        self.call.grid.cluster_size()
    }

    fn shared_window(&self) -> u64 {
        self.call.ctx.shared_base
    }

    fn queue(&mut self) -> &mut Queue {
        // SAFETY: the CTA has been started, it runs on this thread, and the result lives no longer
        // than this borrow of the only thread of the cluster that executes an operation now.
        unsafe { crate::tensor::queue_of(self.call.ctx) }
    }

    fn act_as(&mut self, issuer: &Issuer, act: &mut Act<'_>) -> Result<(), Fault> {
        let call = Call {
            grid: self.call.grid,
            ctx: crate::tensor::context_of(self.call.ctx, issuer.rank),
        };
        act(&mut DeviceThread {
            call: &call,
            view: call.view(issuer.thread),
            thread: issuer.thread,
            loc: issuer.site.loc,
        })
    }

    fn print(&mut self, text: &[u8]) {
        self.call.grid.print(text);
    }

    fn malloc(&mut self, size: u64) -> u64 {
        self.call.grid.shared.malloc(size)
    }

    fn free(&mut self, addr: u64) -> Result<(), String> {
        self.call.grid.shared.free(addr)
    }
}

impl DeviceThread<'_> {
    /// The cluster, and the rank of the peer of the thread's CTA, which has not ended.
    fn peer(&self) -> Result<(&ClusterWindow, u32), Fault> {
        let cluster = crate::view::cluster_of(self.call.ctx).ok_or_else(Fault::no_peer)?;
        let peer = cluster.peer_of(self.call.ctx.cluster_ctarank);
        match peer.ok_or_else(Fault::no_peer)? {
            peer if cluster.has_ended(peer) => Err(Fault::peer_has_exited()),
            peer => Ok((cluster, peer)),
        }
    }

    fn bad_address(&self, addr: u64, size: u64) -> Fault {
        let why = crate::view::describe(self.call.grid, self.call.ctx, addr);
        Fault::BadAddress { addr, size, why }
    }
}

/// A CTA has ended: completes what its threads have begun.
pub(crate) fn finish(grid: &Grid, ctx: &CtaContext) -> Result<(), LaunchError> {
    outside_of_code(grid, ctx, &mut |thread| asynchronous::finish(thread))
}

/// The threads of a CTA, or of its cluster, only turn in loops: completes an operation, if there is
/// one.
pub(crate) fn complete_any(grid: &Grid, ctx: &CtaContext) -> Result<bool, LaunchError> {
    let mut is_one = false;
    outside_of_code(grid, ctx, &mut |thread| {
        is_one = asynchronous::complete_any(thread)?;
        Ok(())
    })?;
    Ok(is_one)
}

/// Does something about operations that the threads of a CTA have begun, while no thread of its
/// cluster is in compiled code.
fn outside_of_code(grid: &Grid, ctx: &CtaContext, act: &mut Act<'_>) -> Result<(), LaunchError> {
    let call = Call { grid, ctx };
    let mut thread = DeviceThread {
        call: &call,
        view: call.view(0),
        thread: 0,
        loc: SrcLoc::default(),
    };
    if thread.queue().is_empty() {
        return Ok(());
    }
    act(&mut thread).map_err(|fault| call.fault(fault, 0, SrcLoc::default().0))
}

fn trap_cause(fault: Fault) -> TrapCause {
    match fault {
        Fault::BadAddress { addr, why, .. } => TrapCause::BadAddress {
            addr: Some(addr),
            note: why,
        },
        Fault::Misaligned { addr, size } => TrapCause::Misaligned { addr, size },
        Fault::Assert { message } => TrapCause::Assert { message },
        other => TrapCause::BadCall {
            note: other.to_string(),
        },
    }
}

unsafe extern "C" fn clock64(_cta: *mut CtaContext) -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the time stamp counter, and Linux lets programs read it.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    return nanoseconds();
}

unsafe extern "C" fn globaltimer(_cta: *mut CtaContext) -> u64 {
    nanoseconds()
}

/// Nanoseconds since 1970; never runs backwards within the process.
fn nanoseconds() -> u64 {
    static START: std::sync::OnceLock<(Instant, u64)> = std::sync::OnceLock::new();
    let (start, wall) = START.get_or_init(|| {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        (Instant::now(), wall.as_nanos() as u64)
    });
    wall + start.elapsed().as_nanos() as u64
}

unsafe extern "C" fn check_access(
    cta: *mut CtaContext,
    addrs: *const u64,
    mask: u32,
    size: u32,
    write: u32,
    gang: u32,
    loc: u32,
) -> u32 {
    let _callback = CallbackGuard::new();
    // SAFETY: called by compiled code with its own context.
    let call = unsafe { Call::new(cta) };
    for lane in ptxjit_abi::warp_ops::lanes(mask) {
        // SAFETY: compiled code passes an address for each lane of the mask.
        let addr = unsafe { *addrs.add(lane as usize) };
        let thread = gang * call.grid.kernel.gang + lane;
        if let Some(cause) = bad_access(&call, thread, addr, size, write != 0) {
            call.grid.fail(call.trap(cause, thread, loc));
            return 1;
        }
    }
    0
}

unsafe extern "C" fn misaligned(
    cta: *mut CtaContext,
    addrs: *const u64,
    mask: u32,
    what: u64,
    gang: u32,
    loc: u32,
) -> u32 {
    let _callback = CallbackGuard::new();
    // SAFETY: called by compiled code with its own context.
    let call = unsafe { Call::new(cta) };
    let (size, offset) = (what as u32, (what as i64 >> 32) as u64);
    for lane in ptxjit_abi::warp_ops::lanes(mask) {
        // SAFETY: compiled code passes an address for each lane of the mask.
        let base = unsafe { *addrs.add(lane as usize) };
        let addr = base.wrapping_add(offset);
        if !addr.is_multiple_of(u64::from(size)) {
            let thread = gang * call.grid.kernel.gang + lane;
            let cause = TrapCause::Misaligned { addr, size };
            call.grid.fail(call.trap(cause, thread, loc));
            return 1;
        }
        if !is_reachable(&call, base) {
            return 0;
        }
    }
    0
}

/// Whether an access to an address, or near it, gets past the test of compiled code.
fn is_reachable(call: &Call<'_>, addr: u64) -> bool {
    let arena = &call.grid.arena;
    arena.contains(addr) || call.grid.open_memory || arena.is_near_foreign(addr)
}

unsafe extern "C" fn outside(cta: *mut CtaContext, addrs: *const u64, mask: u32) -> u32 {
    let _callback = CallbackGuard::new();
    // SAFETY: called by compiled code with its own context.
    let call = unsafe { Call::new(cta) };
    let is_bad = |&lane: &u32| {
        // SAFETY: compiled code passes an address for each lane of the mask.
        let addr = unsafe { *addrs.add(lane as usize) };
        !is_reachable(&call, addr)
    };
    let lanes = ptxjit_abi::warp_ops::lanes(mask).filter(is_bad);
    lanes.fold(0, |bad, lane| bad | 1 << lane)
}

/// What is wrong with an access, if anything.
fn bad_access(
    call: &Call<'_>,
    thread: u32,
    addr: u64,
    size: u32,
    is_write: bool,
) -> Option<TrapCause> {
    let bytes = u64::from(size);
    if is_write && call.view(thread).is_read_only(addr) {
        let place = crate::view::describe(call.grid, call.ctx, addr);
        return Some(TrapCause::BadAddress {
            addr: Some(addr),
            note: format!("kernels cannot write here: {place}"),
        });
    }
    let arena = &call.grid.arena;
    if let Some(note) = outside_of_shared_variables(call, addr, bytes) {
        let addr = Some(addr);
        return Some(TrapCause::BadAddress { addr, note });
    }
    let is_foreign =
        !arena.contains(addr) && (call.grid.open_memory || arena.is_foreign(addr, bytes));
    if !is_foreign && !call.view(thread).in_window(addr, bytes) {
        match call.grid.arena.check_heap(addr, bytes, is_write) {
            HeapCheck::Ok => {}
            HeapCheck::Freed | HeapCheck::OutOfBounds => {
                let note = crate::view::describe(call.grid, call.ctx, addr);
                return Some(TrapCause::BadAddress {
                    addr: Some(addr),
                    note,
                });
            }
        }
    }
    let misaligned = size.is_power_of_two() && !addr.is_multiple_of(bytes);
    misaligned.then_some(TrapCause::Misaligned { addr, size })
}

/// Says what is wrong with an access to shared memory that is not inside one variable, where variables are kept apart.
fn outside_of_shared_variables(call: &Call<'_>, addr: u64, bytes: u64) -> Option<String> {
    let layout = &call.grid.kernel.shared;
    let offset = addr.checked_sub(call.ctx.shared_base)?;
    let end = u64::from(call.ctx.total_smem_size);
    if layout.padding == 0 || offset >= end {
        return None;
    }
    let dynamic = (u64::from(layout.static_size), end);
    let sized = layout.objects.iter();
    let objects = sized
        .map(|&(start, size)| (u64::from(start), u64::from(start) + u64::from(size)))
        .chain([dynamic]);
    let mut below = None;
    for (start, end) in objects {
        if offset >= start && offset + bytes <= end {
            return None;
        }
        if offset >= start {
            below = Some((start, end));
        }
    }
    let (start, end) = below?;
    let (size, distance) = (end - start, offset - start);
    Some(format!(
        "{bytes} bytes at byte {distance} of a shared variable that has {size} bytes"
    ))
}
