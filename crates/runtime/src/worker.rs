//! A worker: the thread's means to enter compiled code and to come back from it, whatever happens.
//!
//! Compiled code runs in a coroutine, on a stack of its own. Normally the coroutine is suspended
//! and resumed, once per entry; when a signal ends an entry, the coroutine returns instead, and a
//! new one is made on the same stack.

#![expect(unsafe_code, reason = "calls compiled code")]

use std::cell::RefCell;
use std::ops::Range;

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult};
use ptxjit_abi::{CtaContext, EnterFn};

use crate::fault::{self, Record, Signal};
use crate::fp::{FpControl, FpGuard};

/// Stack of compiled code. Device functions keep their frames elsewhere, so this holds spills and
/// helpers. A long kernel compiled in a hurry has megabytes of spills; pages that no code touches
/// cost nothing.
pub(crate) const STACK_SIZE: usize = 32 << 20;

/// One entry.
#[derive(Copy, Clone)]
struct Call {
    enter: EnterFn,
    cta: *mut CtaContext,
    state: u32,
    first_gang: u32,
    end_gang: u32,
}

/// How an entry ended.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Entered {
    /// All lanes wait or ended.
    Ok,
    /// Compiled code returned 1; the context says why.
    Stopped,
    /// A signal.
    Signal(Signal),
}

type Body = Coroutine<Option<Call>, u32, Option<Signal>, DefaultStack>;

/// What a thread needs to run compiled code; made once per thread.
struct Coro {
    body: Body,
    record: Record,
}

impl Coro {
    fn new(stack: DefaultStack) -> Coro {
        let bounds = stack.limit().get()..stack.base().get();
        let body = Body::with_stack(stack, |yielder, mut call: Option<Call>| {
            while let Some(now) = call {
                // SAFETY: `Worker::enter` got this call from a caller that promises a laid-out CTA.
                let stop = unsafe { call_aligned(now) };
                call = yielder.suspend(stop);
            }
            None
        });
        let record = Record::new(body.trap_handler(), bounds);
        Coro { body, record }
    }
}

/// Calls compiled code with the stack at a multiple of 64 bytes, as it expects: vectors that it
/// saves there do not cross cache lines then.
///
/// # Safety
///
/// As for the entry point.
#[cfg(all(target_arch = "x86_64", unix))]
unsafe fn call_aligned(call: Call) -> u32 {
    let stop: u32;
    // SAFETY: a call by the rules of the platform, but for the place of the stack, which is put
    // back.
    unsafe {
        std::arch::asm!(
            "mov r12, rsp",
            "and rsp, -64",
            "call {enter}",
            "mov rsp, r12",
            enter = in(reg) call.enter,
            in("rdi") call.cta,
            in("esi") call.state,
            in("edx") call.first_gang,
            in("ecx") call.end_gang,
            lateout("eax") stop,
            out("r12") _,
            clobber_abi("C"),
        );
    }
    stop
}

#[cfg(not(all(target_arch = "x86_64", unix)))]
unsafe fn call_aligned(call: Call) -> u32 {
    // SAFETY: as promised.
    unsafe { (call.enter)(call.cta, call.state, call.first_gang, call.end_gang) }
}

impl Drop for Coro {
    fn drop(&mut self) {
        if self.body.started() && !self.body.done() {
            // Lets the body return, which is cheaper than unwinding it.
            self.body.resume(None);
        }
    }
}

thread_local! {
    static SPARE: RefCell<Option<Box<Coro>>> = const { RefCell::new(None) };
}

/// A thread's means during one launch.
pub(crate) struct Worker {
    /// Large, and taken and kept with every launch.
    coro: Option<Box<Coro>>,
    fp: FpControl,
    arena: (u64, u32),
}

impl Worker {
    /// Prepares the calling thread to run code on memory in the arena.
    pub(crate) fn new(arena: (u64, u32), flush_denormals: bool) -> std::io::Result<Worker> {
        fault::install();
        fault::ensure_signal_stack();
        let coro = match SPARE.try_with(|spare| spare.borrow_mut().take()) {
            Ok(Some(coro)) => coro,
            Ok(None) | Err(_) => Box::new(Coro::new(DefaultStack::new(STACK_SIZE)?)),
        };
        let fp = if flush_denormals {
            FpControl::FLUSH
        } else {
            FpControl::DEFAULT
        };
        Ok(Worker {
            coro: Some(coro),
            fp,
            arena,
        })
    }

    /// Enters compiled code, which lies in `code`.
    ///
    /// # Safety
    ///
    /// `enter` is alive, and `cta` is laid out for the kernel it belongs to; no reference into what
    /// it points at is in use.
    pub(crate) unsafe fn enter(
        &mut self,
        (enter, code): (EnterFn, Range<usize>),
        cta: *mut CtaContext,
        state: u32,
        first_gang: u32,
        end_gang: u32,
    ) -> Entered {
        let coro = self.coro.as_mut().expect("put back after every entry");
        let call = Call {
            enter,
            cta,
            state,
            first_gang,
            end_gang,
        };
        let _fp = FpGuard::set(self.fp);
        let (body, record) = (&mut coro.body, &coro.record);
        record.set_ranges(&code, self.arena.0, self.arena.1);
        match record.during(|| body.resume(Some(call))) {
            CoroutineResult::Yield(0) => Entered::Ok,
            CoroutineResult::Yield(_) => Entered::Stopped,
            CoroutineResult::Return(signal) => {
                self.renew();
                Entered::Signal(signal.expect("the body returns by itself only when asked to"))
            }
        }
    }

    /// Replaces a coroutine that a signal has ended.
    fn renew(&mut self) {
        let Some(coro) = self.coro.take() else { return };
        let coro = std::mem::ManuallyDrop::new(*coro);
        // SAFETY: `coro` is not used or dropped after its fields are read out; the record has no
        // drop.
        let body = unsafe { std::ptr::read(&coro.body) };
        self.coro = Some(Box::new(Coro::new(body.into_stack())));
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let coro = self.coro.take();
        // While the thread is ending there may be no place to keep it; then it is dropped.
        let _ = SPARE.try_with(|spare| spare.replace(coro));
    }
}
