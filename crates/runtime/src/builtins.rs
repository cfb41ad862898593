//! The functions that compiled code calls: device runtime functions, clocks, and the exact check of accesses.
//!
//! They run on the stack of compiled code, with the default floating-point control, and no signal leaves their frames. All
//! trust of the caller ends at the context pointer: addresses given by the kernel are checked before they are followed.

#![expect(unsafe_code, reason = "called by compiled code with raw pointers")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ptxjit_abi::{CtaContext, RuntimeFns};
use ptxjit_interp::printf::{self, Source as _};
use ptxjit_ir::{Builtin, SrcLoc};

use crate::error::{LaunchError, Threads, Trap, TrapCause};
use crate::fault::CallbackGuard;
use crate::fp::{FpControl, FpGuard};
use crate::grid::Grid;
use crate::memory::HeapCheck;
use crate::sched::cta::tid_of;
use crate::view::View;

/// The table that contexts point at.
pub(crate) const FUNCTIONS: RuntimeFns = RuntimeFns {
    builtin,
    clock64,
    globaltimer,
    check_access,
    outside,
};

/// Alignment of what device `malloc` returns.
const MALLOC_ALIGN: u64 = 16;

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
        let tid = tid_of(thread, self.ctx.ntid);
        LaunchError::Trap(Box::new(Trap {
            cause,
            kernel: self.grid.name.to_string(),
            ctaid: self.ctx.ctaid,
            threads: Threads {
                first: tid,
                last: tid,
                count: 1,
            },
            loc: Some(SrcLoc(loc)),
        }))
    }

    fn view(&self, thread: u32) -> View<'_> {
        View::new(self.grid, self.ctx, thread)
    }
}

unsafe extern "C" fn builtin(
    cta: *mut CtaContext,
    builtin: u32,
    thread: u32,
    args: *mut u64,
    loc: u32,
) -> u32 {
    let _callback = CallbackGuard::new();
    let _fp = FpGuard::set(FpControl::DEFAULT);
    // SAFETY: called by compiled code with its own context.
    let call = unsafe { Call::new(cta) };
    let Some(&which) = Builtin::ALL.get(builtin as usize) else {
        call.grid.fail(LaunchError::System(format!(
            "internal error: there is no builtin number {builtin}"
        )));
        return 1;
    };
    // SAFETY: the contract gives every builtin room for its arguments, at least one word for a result.
    let args = unsafe { std::slice::from_raw_parts_mut(args, n_args(which)) };
    match run(&call, which, thread, args) {
        Ok(()) => 0,
        Err(cause) => {
            call.grid.fail(call.trap(cause, thread, loc));
            1
        }
    }
}

fn n_args(builtin: Builtin) -> usize {
    match builtin {
        Builtin::Vprintf => 2,
        Builtin::Malloc | Builtin::Free => 1,
        Builtin::AssertFail => 5,
    }
}

/// Arguments in, result out in the first of them.
fn run(call: &Call<'_>, builtin: Builtin, thread: u32, args: &mut [u64]) -> Result<(), TrapCause> {
    match builtin {
        Builtin::Vprintf => args[0] = vprintf(call, thread, args[0], args[1])?,
        Builtin::Malloc => args[0] = malloc(call, args[0]),
        Builtin::Free => free(call, args[0])?,
        Builtin::AssertFail => return Err(assert_fail(call, thread, args)),
    }
    Ok(())
}

fn malloc(call: &Call<'_>, size: u64) -> u64 {
    if size == 0 || !call.grid.shared.device_heap.charge(size) {
        return 0;
    }
    match call
        .grid
        .arena
        .alloc_aligned(call.grid.shared.part, size, MALLOC_ALIGN)
    {
        Ok(addr) => addr,
        Err(_) => {
            call.grid.shared.device_heap.refund(size);
            0
        }
    }
}

fn free(call: &Call<'_>, addr: u64) -> Result<(), TrapCause> {
    if addr == 0 {
        return Ok(());
    }
    let size = call.grid.arena.allocation_size(addr);
    call.grid
        .arena
        .free(addr)
        .map_err(|err| TrapCause::BadCall {
            note: err.to_string(),
        })?;
    call.grid.shared.device_heap.refund(size.unwrap_or(0));
    Ok(())
}

/// `__assertfail(message, file, line, function, charsize)`: the line that CUDA prints.
fn assert_fail(call: &Call<'_>, thread: u32, args: &[u64]) -> TrapCause {
    let view = call.view(thread);
    let text =
        |addr| String::from_utf8_lossy(&view.c_string(addr).unwrap_or_default()).into_owned();
    let (message, file, line, function) =
        (text(args[0]), text(args[1]), args[2] as u32, text(args[3]));
    let tid = tid_of(thread, call.ctx.ntid);
    TrapCause::Assert {
        message: printf::assert_message((&file, line, &function), call.ctx.ctaid, tid, &message),
    }
}

/// `vprintf(format, args)`: the number of arguments, as CUDA returns.
fn vprintf(call: &Call<'_>, thread: u32, format: u64, args: u64) -> Result<u64, TrapCause> {
    let mut source = Source {
        view: call.view(thread),
        args,
    };
    let text = source.string(format).map_err(bad_text)?;
    let printed = printf::format(&text, &mut source).map_err(bad_text)?;
    call.grid.print(&printed.text);
    Ok(u64::from(printed.n_args))
}

/// An address that `vprintf` cannot read at.
fn bad_text(addr: u64) -> TrapCause {
    TrapCause::BadAddress {
        addr: Some(addr),
        note: "`vprintf` cannot read here".into(),
    }
}

/// Where `vprintf` finds its arguments.
struct Source<'a> {
    view: View<'a>,
    args: u64,
}

impl printf::Source for Source<'_> {
    type Error = u64;

    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), u64> {
        let addr = self.args.wrapping_add(offset);
        self.view.read(addr, bytes).ok_or(addr)
    }

    fn string(&mut self, addr: u64) -> Result<Vec<u8>, u64> {
        self.view.c_string(addr).ok_or(addr)
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

unsafe extern "C" fn outside(cta: *mut CtaContext, addrs: *const u64, mask: u32) -> u32 {
    let _callback = CallbackGuard::new();
    // SAFETY: called by compiled code with its own context.
    let call = unsafe { Call::new(cta) };
    let is_bad = |&lane: &u32| {
        // SAFETY: compiled code passes an address for each lane of the mask.
        let addr = unsafe { *addrs.add(lane as usize) };
        !call.grid.arena.contains(addr) && !call.grid.arena.is_near_foreign(addr)
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
