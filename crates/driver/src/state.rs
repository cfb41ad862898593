//! Whether the driver is initialized, and what one call may do.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use ptxjit_persona::Config;

use crate::device::Device;
use crate::error::Result;
use crate::findings;
use crate::types::CUresult;

/// What `cuInit` sets up, for the life of the process.
pub(crate) struct State {
    pub(crate) config: &'static Config,
    pub(crate) devices: Vec<Device>,
}

static STATE: OnceLock<State> = OnceLock::new();

/// Whether this process is a fork of one that had initialized the driver: its threads are gone, so
/// nothing can run.
static IS_FORKED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
    static PER_THREAD_DEFAULT: Cell<bool> = const { Cell::new(false) };
}

/// `cuInit`.
pub fn init(flags: u32) -> Result<()> {
    if flags != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    if IS_FORKED.load(Ordering::Relaxed) {
        return Err(CUresult::NOT_INITIALIZED);
    }
    let config = Config::get();
    static STARTED: OnceLock<Result<()>> = OnceLock::new();
    (*STARTED.get_or_init(|| findings::start(config)))?;
    let state = STATE.get_or_init(|| {
        at_fork();
        if config.sanitize.any() {
            at_exit();
        }
        let devices = Device::all(config);
        State { config, devices }
    });
    match state.devices.is_empty() {
        true => Err(CUresult::NO_DEVICE),
        false => Ok(()),
    }
}

/// The driver's state, once it is initialized.
pub(crate) fn state() -> Result<&'static State> {
    match STATE.get() {
        Some(state) if !IS_FORKED.load(Ordering::Relaxed) => Ok(state),
        _ => Err(CUresult::NOT_INITIALIZED),
    }
}

/// What holds for every call but the few that are allowed before `cuInit` and in callbacks.
pub fn check_call() -> Result<()> {
    state()?;
    if IN_CALLBACK.get() {
        return Err(CUresult::NOT_PERMITTED);
    }
    Ok(())
}

/// Runs a function of the client that must not call the driver.
pub(crate) fn in_callback<R>(call: impl FnOnce() -> R) -> R {
    let before = IN_CALLBACK.replace(true);
    let result = call();
    IN_CALLBACK.set(before);
    result
}

/// Runs a call whose default stream is the thread's own: those with names that end in `_ptds` or
/// `_ptsz`.
pub fn with_per_thread_default<R>(call: impl FnOnce() -> R) -> R {
    let before = PER_THREAD_DEFAULT.replace(true);
    let result = call();
    PER_THREAD_DEFAULT.set(before);
    result
}

/// Whether stream 0 means the thread's own default stream in this call.
pub(crate) fn is_per_thread_default() -> bool {
    PER_THREAD_DEFAULT.get()
}

extern "C" fn on_fork() {
    IS_FORKED.store(true, Ordering::Relaxed);
}

extern "C" fn on_exit() {
    if state().is_ok() {
        findings::finish();
    }
}

/// Has findings told that are known at the end of the process only.
#[expect(unsafe_code, reason = "registers a function with the C library")]
fn at_exit() {
    // SAFETY: the function takes nothing and lets no panic out, and stays as long as the process.
    unsafe { libc::atexit(on_exit) };
}

/// Has forked children know what they are.
#[expect(unsafe_code, reason = "registers a function with the C library")]
fn at_fork() {
    // SAFETY: the function does what is allowed after a fork, and stays as long as the process, as
    // libraries with running threads are never unloaded.
    unsafe { libc::pthread_atfork(None, None, Some(on_fork)) };
}
