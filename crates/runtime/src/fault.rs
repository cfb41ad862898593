//! Hardware faults and stop signals in compiled code.
//!
//! Compiled code runs on a stack of its own ([`crate::worker`]). When it faults, the kernel
//! delivers a signal on the worker's alternate stack; if the interrupted frame is one that may be
//! abandoned, the handler rewrites the interrupted registers so that the thread leaves the compiled
//! code and returns a [`Signal`] to the function that entered it. Everything else is handed to the
//! handler that was installed before, or to the default action, so that crashes elsewhere in the
//! process stay crashes.
//!
//! ```text
//! worker: Idle --enter--> Compiled --call of a runtime function--> Callback --return--> Compiled
//!                            |  signal: leave the frame               |  signal: none of ours
//!         Compiled --return--> Idle
//! ```
//!
//! * `SIGSEGV`, `SIGBUS`, `SIGILL`, `SIGFPE`: leave when the state is `Compiled` and either the pc
//!   lies in the kernel's code
//!   or (helpers called by it) the address lies in the arena. Helpers own nothing that must be
//!   released. A copy of host memory that faults ([`crate::host`]) returns an error, on any thread.
//! * The stop signal (a real-time signal): leave when the state is `Compiled` and the pc lies in
//!   the kernel's code.
//!   Otherwise nothing: whoever stops a launch repeats the signal until the worker has left, and
//!   sets a flag that the scheduler reads between entries.

#![expect(
    unsafe_code,
    reason = "signal handlers read and write the interrupted context"
)]

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence};

use corosensei::trap::CoroutineTrapHandler;
use libc::{c_int, c_void, siginfo_t};

/// Why compiled code was left.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum SignalKind {
    /// `SIGSEGV` or `SIGBUS`.
    Access,
    /// Access to the guard page of the code's own stack.
    NativeStack,
    /// `SIGILL`: a trap instruction.
    Illegal,
    /// `SIGFPE`.
    Arithmetic,
    /// The stop signal.
    Stop,
}

/// A signal that ended an entry into compiled code.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Signal {
    /// Which.
    pub(crate) kind: SignalKind,
    /// A pc in the kernel's code: of the fault, or of the call to the helper that faulted if that
    /// can be found.
    pub(crate) pc: usize,
    /// The address that was accessed, if known.
    pub(crate) addr: Option<u64>,
}

/// What a worker thread is doing; the handler runs on the same thread and reads it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum State {
    Idle,
    Compiled,
    Callback,
}

/// A worker's record for the handler.
pub(crate) struct Record {
    state: Cell<State>,
    handler: CoroutineTrapHandler<Option<Signal>>,
    stack: Range<usize>,
    code: Cell<(usize, usize)>,
    arena: Cell<(u64, u32)>,
}

thread_local! {
    static CURRENT: Cell<*const Record> = const { Cell::new(ptr::null()) };
}

impl Record {
    /// A record for a coroutine with this handler, whose stack (guard page included) is `stack`.
    pub(crate) fn new(
        handler: CoroutineTrapHandler<Option<Signal>>,
        stack: Range<usize>,
    ) -> Record {
        Record {
            state: Cell::new(State::Idle),
            handler,
            stack,
            code: Cell::new((0, 0)),
            arena: Cell::new((0, 63)),
        }
    }

    /// Says which code and arena the next entry uses.
    pub(crate) fn set_ranges(&self, code: &Range<usize>, arena_base: u64, arena_bits: u32) {
        self.code.set((code.start, code.end));
        self.arena.set((arena_base, arena_bits));
    }

    /// Runs `f`, which enters compiled code, with this record current. The record is current on
    /// this thread only meanwhile, so the handler never sees one that is gone.
    pub(crate) fn during<R>(&self, f: impl FnOnce() -> R) -> R {
        let before = CURRENT.replace(self);
        self.state.set(State::Compiled);
        compiler_fence(Ordering::SeqCst);
        let result = f();
        compiler_fence(Ordering::SeqCst);
        self.state.set(State::Idle);
        CURRENT.set(before);
        result
    }
}

/// Marks that a runtime function runs on behalf of compiled code: its frames must not be abandoned.
pub(crate) struct CallbackGuard(*const Record);

impl CallbackGuard {
    /// From here to the drop, signals do not leave.
    pub(crate) fn new() -> CallbackGuard {
        let record = CURRENT.get();
        // SAFETY: a current record is borrowed by `during` further up this thread's stack.
        if let Some(record) = unsafe { record.as_ref() } {
            record.state.set(State::Callback);
            compiler_fence(Ordering::SeqCst);
        }
        CallbackGuard(record)
    }
}

impl Drop for CallbackGuard {
    fn drop(&mut self) {
        // SAFETY: as in `new`: callbacks return before `during` does.
        if let Some(record) = unsafe { self.0.as_ref() } {
            compiler_fence(Ordering::SeqCst);
            record.state.set(State::Compiled);
        }
    }
}

const FAULT_SIGNALS: [c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];

struct Installed {
    previous: [libc::sigaction; FAULT_SIGNALS.len()],
    stop: c_int,
}

// SAFETY: plain data; the function pointers inside belong to the process.
unsafe impl Send for Installed {}
// SAFETY: never changed after it was made.
unsafe impl Sync for Installed {}

static INSTALLED: OnceLock<Installed> = OnceLock::new();

/// Installs the handlers, once per process.
pub(crate) fn install() {
    INSTALLED.get_or_init(|| {
        let previous = FAULT_SIGNALS.map(current_action);
        Installed {
            previous,
            stop: free_realtime_signal(),
        }
    });
    // The handlers go in after `INSTALLED` is set, because they read it.
    static HANDLERS: OnceLock<()> = OnceLock::new();
    HANDLERS.get_or_init(|| {
        for signal in FAULT_SIGNALS {
            set_action(signal, on_fault);
        }
        set_action(stop_signal(), on_stop);
    });
}

/// The number of the stop signal.
fn stop_signal() -> c_int {
    INSTALLED
        .get()
        .map_or(libc::SIGURG, |installed| installed.stop)
}

/// Asks a worker thread to leave compiled code.
pub(crate) fn send_stop(thread: libc::pthread_t) {
    // SAFETY: the caller lists only threads that are inside a launch, so the thread exists.
    unsafe { libc::pthread_kill(thread, stop_signal()) };
}

/// The calling thread, for [`send_stop`].
pub(crate) fn this_thread() -> libc::pthread_t {
    // SAFETY: no preconditions.
    unsafe { libc::pthread_self() }
}

fn current_action(signal: c_int) -> libc::sigaction {
    let mut action = MaybeUninit::zeroed();
    // SAFETY: asks for the action without changing it; zeroed is a valid `sigaction` if the call
    // fails.
    unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
        action.assume_init()
    }
}

/// A real-time signal that nobody handles; `SIGURG`, which is ignored by default, if there is none.
fn free_realtime_signal() -> c_int {
    let candidates = (libc::SIGRTMIN() + 3..=libc::SIGRTMAX()).rev();
    candidates
        .into_iter()
        .find(|&signal| current_action(signal).sa_sigaction == libc::SIG_DFL)
        .unwrap_or(libc::SIGURG)
}

type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

fn set_action(signal: c_int, handler: Handler) {
    // SAFETY: zeroed is a valid `sigaction` to fill in.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the handler has the signature that `SA_SIGINFO` asks for and does only what a handler
    // may.
    unsafe { libc::sigaction(signal, &action, ptr::null_mut()) };
}

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the arguments are those of this very signal.
    if unsafe { land(context) } {
        return;
    }
    // SAFETY: likewise.
    if !unsafe { leave(signal, info, context) } {
        // SAFETY: likewise.
        unsafe { chain(signal, info, context) };
    }
}

extern "C" fn on_stop(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the arguments are those of this very signal. If the frame cannot be left now, the
    // sender tries again.
    unsafe { leave(signal, info, context) };
}

/// Arranges for a copy of host memory that has faulted to return an error; false if it was no such
/// copy.
///
/// # Safety
///
/// `context` is that of a signal handler that runs now.
unsafe fn land(context: *mut c_void) -> bool {
    // SAFETY: the kernel passes a valid context.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let landing = crate::host::landing(context_pc(context));
    if let Some(pc) = landing {
        set_pc(context, pc);
    }
    landing.is_some()
}

/// Arranges for the interrupted thread to leave compiled code; false if the signal is not ours.
///
/// # Safety
///
/// The arguments are those of a signal handler that runs now.
unsafe fn leave(signal: c_int, info: *mut siginfo_t, context: *mut c_void) -> bool {
    // SAFETY: a record is current only while `during` borrows it on this thread.
    let Some(record) = (unsafe { CURRENT.get().as_ref() }) else {
        return false;
    };
    if record.state.get() != State::Compiled {
        return false;
    }
    // SAFETY: the kernel passes a valid context.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let (pc, sp) = (context_pc(context), context_sp(context));
    if !record.handler.stack_ptr_in_bounds(sp) {
        return false;
    }
    // SAFETY: the kernel passes a valid description of the signal.
    let (code, addr) = unsafe { ((*info).si_code, (*info).si_addr() as u64) };
    let is_access = signal == libc::SIGSEGV || signal == libc::SIGBUS;
    // A non-canonical address comes without the address (`SI_KERNEL`).
    const SI_KERNEL: c_int = 0x80;
    let addr = (is_access && code != SI_KERNEL).then_some(addr);
    let Some(pc) = kernel_pc(record, pc, sp, addr) else {
        return false;
    };
    let in_own_stack = addr.is_some_and(|addr| record.stack.contains(&(addr as usize)));
    let kind = match signal {
        libc::SIGSEGV | libc::SIGBUS if in_own_stack => SignalKind::NativeStack,
        libc::SIGSEGV | libc::SIGBUS => SignalKind::Access,
        libc::SIGILL => SignalKind::Illegal,
        libc::SIGFPE => SignalKind::Arithmetic,
        _ => SignalKind::Stop,
    };
    let result = Signal { kind, pc, addr };
    // SAFETY: the stack pointer lies in the coroutine that the handler belongs to; its frames are
    // compiled code and helpers, which own nothing; and the registers are set as asked, right
    // below.
    let registers = unsafe { record.handler.setup_trap_handler(move || Some(result)) };
    set_registers(context, &registers);
    true
}

/// The pc in the kernel's code to blame, or none if the frame may not be left.
fn kernel_pc(record: &Record, pc: usize, sp: usize, addr: Option<u64>) -> Option<usize> {
    let (start, end) = record.code.get();
    if (start..end).contains(&pc) {
        return Some(pc);
    }
    let (base, bits) = record.arena.get();
    if addr.is_none_or(|addr| addr >> bits != base >> bits) {
        return None;
    }
    // A helper faulted on device memory. The first word of the stack that points into the kernel
    // is, or was, the return address of a call; good enough to name a line.
    let words = (sp.next_multiple_of(8)..record.stack.end)
        .step_by(8)
        .take(512);
    for word in words {
        // SAFETY: between the stack pointer and the end of the coroutine's stack, which is mapped.
        let value = unsafe { ptr::read_volatile(word as *const usize) };
        if (start..end).contains(&value) {
            return Some(value - 1);
        }
    }
    Some(UNKNOWN_PC)
}

/// A pc in no code.
const UNKNOWN_PC: usize = usize::MAX;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn context_pc(context: &libc::ucontext_t) -> usize {
    context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn context_sp(context: &libc::ucontext_t) -> usize {
    context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn set_pc(context: &mut libc::ucontext_t, pc: usize) {
    context.uc_mcontext.gregs[libc::REG_RIP as usize] = pc as i64;
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn set_registers(context: &mut libc::ucontext_t, registers: &corosensei::trap::TrapHandlerRegs) {
    let gregs = &mut context.uc_mcontext.gregs;
    gregs[libc::REG_RIP as usize] = registers.rip as i64;
    gregs[libc::REG_RSP as usize] = registers.rsp as i64;
    gregs[libc::REG_RBP as usize] = registers.rbp as i64;
    gregs[libc::REG_RDI as usize] = registers.rdi as i64;
    gregs[libc::REG_RSI as usize] = registers.rsi as i64;
}

#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
fn context_pc(context: &libc::ucontext_t) -> usize {
    context.uc_mcontext.pc as usize
}

#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
fn context_sp(context: &libc::ucontext_t) -> usize {
    context.uc_mcontext.sp as usize
}

#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
fn set_pc(context: &mut libc::ucontext_t, pc: usize) {
    context.uc_mcontext.pc = pc as u64;
}

#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
fn set_registers(context: &mut libc::ucontext_t, registers: &corosensei::trap::TrapHandlerRegs) {
    let machine = &mut context.uc_mcontext;
    machine.pc = registers.pc;
    machine.sp = registers.sp;
    machine.regs[0] = registers.x0;
    machine.regs[1] = registers.x1;
    machine.regs[29] = registers.x29;
    machine.regs[30] = registers.lr;
}

/// Does what would have happened to the signal without us.
///
/// # Safety
///
/// As for [`leave`].
unsafe fn chain(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let idx = FAULT_SIGNALS.iter().position(|&known| known == signal);
    let Some(previous) =
        idx.and_then(|idx| INSTALLED.get().map(|installed| &installed.previous[idx]))
    else {
        return;
    };
    match previous.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // The faulting instruction runs again and meets the default action: the process dies
            // with this signal. SAFETY: `previous` came from `sigaction`, with the default action.
            let mut default: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
            default.sa_sigaction = libc::SIG_DFL;
            // SAFETY: sets a valid action.
            unsafe { libc::sigaction(signal, &default, ptr::null_mut()) };
        }
        address if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: installed with `SA_SIGINFO`, so it has this signature.
            let handler: Handler = unsafe { std::mem::transmute(address) };
            handler(signal, info, context);
        }
        address => {
            // SAFETY: installed without `SA_SIGINFO`, so it takes the number only.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(address) };
            handler(signal);
        }
    }
}

/// An alternate signal stack, in place from a thread's first launch until the thread ends: to put
/// it there for each launch would cost more than a small launch does.
struct SignalStack {
    memory: Vec<u8>,
}

thread_local! {
    static SIGNAL_STACK: SignalStack = SignalStack::install();
}

/// Makes sure that the calling thread has a signal stack. While the thread is ending it has to do
/// with what there is.
pub(crate) fn ensure_signal_stack() {
    let _ = SIGNAL_STACK.try_with(|_| ());
}

impl SignalStack {
    /// Enough for the largest register files and our handlers.
    const SIZE: usize = 64 << 10;

    /// Puts the stack in place.
    fn install() -> SignalStack {
        let mut memory: Vec<u8> = Vec::with_capacity(Self::SIZE);
        let stack = libc::stack_t {
            ss_sp: memory.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: Self::SIZE,
        };
        // SAFETY: the memory outlives its use: the drop, on the same thread, takes the stack away
        // first.
        unsafe { libc::sigaltstack(&stack, ptr::null_mut()) };
        SignalStack { memory }
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        let mut now = MaybeUninit::zeroed();
        // SAFETY: asks for the stack that is in place; zeroed is a valid answer if the call fails.
        let now: libc::stack_t = unsafe {
            libc::sigaltstack(ptr::null(), now.as_mut_ptr());
            now.assume_init()
        };
        // Another one, or none, may be in place by now. The one from before ours may be gone with
        // what the thread had before.
        if now.ss_sp == self.memory.as_mut_ptr().cast() {
            let none = libc::stack_t {
                ss_sp: ptr::null_mut(),
                ss_flags: libc::SS_DISABLE,
                ss_size: 0,
            };
            // SAFETY: takes our stack away, on which nothing runs.
            unsafe { libc::sigaltstack(&none, ptr::null_mut()) };
        }
    }
}
