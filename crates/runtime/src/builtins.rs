//! The functions that compiled code calls: operations of the device, clocks, and the exact check of
//! accesses.
//!
//! They run on the stack of compiled code, with the default floating-point control, and no signal
//! leaves their frames. All trust of the caller ends at the context pointer: addresses given by the
//! kernel are checked before they are followed.

#![expect(unsafe_code, reason = "called by compiled code with raw pointers")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ptxjit_abi::{CtaContext, DEVICE_VALUE_BYTES, RuntimeFns};
use ptxjit_device::tcgen05::{self, Registers};
use ptxjit_device::texture::Bound;
use ptxjit_device::{Fault, Site};
use ptxjit_ir::{DeviceOp, Fetch, InstData, SrcLoc, TensorMemoryOp, TextureOp, Type, TypeList};
use smallvec::SmallVec;

use crate::error::{LaunchError, TrapCause};
use crate::fault::CallbackGuard;
use crate::fp::{FpControl, FpGuard};
use crate::grid::Grid;
use crate::memory::HeapCheck;
use crate::sampling::{self, Area};
use crate::sched::cta::tid_of;
use crate::thread::DeviceThread;
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

    fn thread(&self, thread: u32, loc: u32) -> DeviceThread<'_> {
        DeviceThread::new(self.grid, self.ctx, thread, SrcLoc(loc))
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
    let _fp = FpGuard::set_for_callback(FpControl::DEFAULT);
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
                    let thread = call.thread(first_thread + lane, loc);
                    call.grid.fail(thread.error(fault));
                    return 1 << lane;
                }
            }
        }
        DeviceOp::TensorMemory(op) => {
            let lanes = (first_thread, mask, loc);
            // SAFETY: as above.
            match unsafe { access_together(&call, op, lanes, Area(values)) } {
                Ok(true) => return 0,
                Ok(false) => mask,
                Err(fault) => {
                    call.grid.fail(call.thread(first_thread, loc).error(fault));
                    return 1;
                }
            }
        }
        DeviceOp::Trace(op) => {
            if let Some(traces) = &call.grid.traces {
                let area = Area(values);
                // SAFETY: the operand is an address for each lane, of this type.
                let addr = |lane| unsafe { area.address(op.addr, lane) };
                let at = traces::place(op.site, first_thread);
                // SAFETY: the table has a place for each access and warp; compiled code does not
                // use it meanwhile.
                let pace = unsafe { &mut *call.ctx.traces.add(at) };
                traces.note(call.ctx, (op, traces::turn(pace)), mask, addr);
            }
            return 0;
        }
        _ => mask,
    };
    let mut values = Values::new(op, values);
    for lane in ptxjit_abi::warp_ops::lanes(mask) {
        let mut thread = call.thread(first_thread + lane, loc);
        // SAFETY: compiled code passes room for the operands and results of all lanes.
        let done = unsafe {
            values.with(lane as usize, |args, results| {
                ptxjit_device::execute(op, &mut thread, args, results)
            })
        };
        if let Err(fault) = done {
            call.grid.fail(thread.error(fault));
            return 1 << lane;
        }
    }
    0
}

/// Loads or stores registers of tensor memory for lanes that are the first of their gang, at one
/// address. False, with nothing done, if they must be executed one by one.
///
/// # Safety
///
/// The area holds the operands and has room for the results.
unsafe fn access_together(
    call: &Call<'_>,
    op: &TensorMemoryOp,
    (first_thread, mask, loc): (u32, u32, u32),
    area: Area,
) -> Result<bool, Fault> {
    let (TensorMemoryOp::Load(access) | TensorMemoryOp::Store(access)) = op else {
        return Ok(false);
    };
    let threads = mask.trailing_ones();
    // SAFETY: the caller's promise.
    let address = |lane| unsafe { area.address(Type::B32, lane) };
    let is_same = (1..threads).all(|lane| address(lane) == address(0));
    if threads == 0 || threads != mask.count_ones() || !is_same {
        return Ok(false);
    }
    let registers = Registers {
        // The address is the first value, and registers are all others.
        // SAFETY: the caller's promise.
        words: unsafe { area.values_mut(1, access.registers()) },
        pitch: DEVICE_VALUE_BYTES / 4,
        threads: threads as usize,
    };
    let mut thread = call.thread(first_thread, loc);
    tcgen05::execute_together(op, &mut thread, address(0) as u32, registers)
}

/// Reads a texture for lanes that name the same objects together. The result has the lanes for
/// which that cannot be done.
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
    let n_handles = sampling::n_handles(fetch);
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
        let group = (0..n_handles).fold(todo, |group, n| {
            // SAFETY: the caller's promise.
            group & unsafe { area.lanes_with(n, named[n]) }
        });
        todo &= !group;
        // PERF: a result that holds a fault is large, and would be copied at each read.
        let mut fault = None;
        let find = |handles: &[u64]| {
            let mut thread = call.thread(first_thread + lane, loc);
            Bound::of(fetch, &mut thread, handles)
                .map_err(|found| fault = Some(found))
                .ok()
        };
        let textures = &call.grid.shared.textures;
        let done = sampling::with_bound(textures, fetch, named, find, |bound| {
            // SAFETY: the caller's promise.
            unsafe { bound.read(&call.grid.arena, group, area) }
        });
        if let Some(fault) = fault {
            return Err((lane, fault));
        }
        if done != Some(true) {
            rest |= group;
        }
    }
    Ok(rest)
}

/// Operands and results of an operation of the device, as compiled code lays them out: see
/// `RuntimeFns::device`.
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
        if !is_reachable(&call, base, size) {
            return 0;
        }
    }
    0
}

/// Whether an access to so many bytes, or if there are none to some near the address, gets past the
/// test of compiled code.
fn is_reachable(call: &Call<'_>, addr: u64, size: u32) -> bool {
    let grid = call.grid;
    if size != 0 {
        return grid.may_access(addr, size.into());
    }
    grid.open_memory || grid.arena.contains(addr) || grid.arena.is_near_foreign(addr)
}

unsafe extern "C" fn outside(cta: *mut CtaContext, addrs: *const u64, mask: u32, size: u32) -> u32 {
    let _callback = CallbackGuard::new();
    // SAFETY: called by compiled code with its own context.
    let call = unsafe { Call::new(cta) };
    let is_bad = |&lane: &u32| {
        // SAFETY: compiled code passes an address for each lane of the mask.
        let addr = unsafe { *addrs.add(lane as usize) };
        !is_reachable(&call, addr, size)
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
    if let Some(note) = outside_of_shared_variables(call, addr, bytes) {
        let addr = Some(addr);
        return Some(TrapCause::BadAddress { addr, note });
    }
    let may_access = call.grid.may_access(addr, bytes);
    if !may_access && call.grid.arena.contains(addr) {
        let note = crate::view::describe(call.grid, call.ctx, addr);
        let addr = Some(addr);
        return Some(TrapCause::BadAddress { addr, note });
    }
    let is_foreign = may_access && !call.grid.arena.contains(addr);
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

/// Says what is wrong with an access to shared memory that is not inside one variable, where
/// variables are kept apart.
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
