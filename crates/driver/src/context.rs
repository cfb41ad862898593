//! Contexts: stacks of current ones, primary contexts, and errors that stick.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::device::{self, Device};
use crate::error::{Failure, Result};
use crate::handle::{Kind, Object, Slab};
use crate::stream::Stream;
use crate::thread_end::{self, Kept};
use crate::types::{
    CUcontext, CUctx_flags, CUctxCreateParams, CUexecAffinityParam, CUexecAffinityType, CUresult,
};
use crate::{capture, event, host, memory, module, report, stream};

pub(crate) static CONTEXTS: Slab<Context> = Slab::new(Kind::Context);

/// What a program works in on one device.
pub struct Context {
    handle: u64,
    /// Unique in the process; a primary context that was reset has another one.
    pub(crate) id: u64,
    pub(crate) device: &'static Device,
    pub(crate) api_version: u32,
    pub(crate) is_primary: bool,
    pub(crate) flags: AtomicU32,
    pub(crate) health: Arc<Health>,
    pub(crate) legacy: Arc<Stream>,
    /// Streams that the legacy stream waits for, and that wait for it.
    pub(crate) blocking: RwLock<Vec<Arc<Stream>>>,
    pub(crate) settings: Mutex<Settings>,
    /// Handles of contexts whose memory this context may use.
    pub(crate) peers: Mutex<HashSet<u64>>,
    /// Users by `cuCtxAttach`, its maker among them.
    n_users: AtomicU32,
}

/// Whether a context can be used; shared with the work in its streams.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// The code of the first fault, 0 before.
    code: AtomicU32,
    /// The code of work that failed and left the context usable, until a call has told it.
    untold: AtomicU32,
    is_destroyed: AtomicBool,
}

/// Values that programs set and ask for.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) stack_size: usize,
    pub(crate) printf_fifo_size: usize,
    pub(crate) malloc_heap_size: usize,
    pub(crate) sync_depth: usize,
    pub(crate) pending_launches: usize,
    pub(crate) l2_fetch_granularity: usize,
    pub(crate) persisting_l2: usize,
    pub(crate) cache_config: u32,
    pub(crate) shared_config: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        // What an A100 reports in a new context.
        Settings {
            stack_size: 1024,
            printf_fifo_size: 1 << 20,
            malloc_heap_size: 8 << 20,
            sync_depth: 2,
            pending_launches: 2048,
            l2_fetch_granularity: 64,
            persisting_l2: 0,
            cache_config: 0,
            shared_config: 1,
        }
    }
}

impl Object for Context {
    fn handle(&self) -> u64 {
        self.handle
    }
}

impl Health {
    /// Notes a failure, which makes the context unusable if it is sticky; the first one counts. The
    /// report goes out once.
    pub(crate) fn poison(&self, failure: &Failure) {
        report::failure(failure);
        let to = match failure.is_sticky {
            true => &self.code,
            false => &self.untold,
        };
        let code = failure.code.0;
        let _ = to.compare_exchange(0, code, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// What a call that has waited for work tells: the code of a fault, or once that of work that
    /// failed otherwise.
    pub(crate) fn check_done(&self) -> Result<()> {
        self.check()?;
        match self.untold.swap(0, Ordering::AcqRel) {
            0 => Ok(()),
            code => Err(CUresult(code)),
        }
    }

    /// The code of a fault, if there was one.
    pub(crate) fn check(&self) -> Result<()> {
        match self.code.load(Ordering::Acquire) {
            0 => Ok(()),
            code => Err(CUresult(code)),
        }
    }

    /// Makes the context usable again.
    pub(crate) fn clear(&self) {
        self.code.store(0, Ordering::Release);
        self.untold.store(0, Ordering::Release);
    }

    pub(crate) fn is_destroyed(&self) -> bool {
        self.is_destroyed.load(Ordering::Acquire)
    }
}

impl Context {
    fn new(handle: u64, device: &'static Device, flags: u32, api: u32, primary: bool) -> Context {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let health = Arc::<Health>::default();
        Context {
            handle,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            device,
            api_version: api,
            is_primary: primary,
            flags: AtomicU32::new(flags),
            legacy: Stream::legacy(handle, health.clone()),
            health,
            blocking: RwLock::default(),
            settings: Mutex::default(),
            peers: Mutex::default(),
            n_users: AtomicU32::new(1),
        }
    }

    /// The handle as the interface has it.
    pub(crate) fn raw(&self) -> CUcontext {
        CUcontext(self.handle)
    }

    /// `cuCtxAttach`.
    pub(crate) fn add_user(&self) {
        self.n_users.fetch_add(1, Ordering::Relaxed);
    }

    /// `cuCtxDetach`; whether there is no user any more.
    pub(crate) fn remove_user(&self) -> bool {
        self.n_users.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Waits for all work of all streams, and tells whether it went well.
    pub(crate) fn synchronize(&self) -> Result<()> {
        self.wait();
        self.health.check_done()
    }

    /// Waits for all work of all streams.
    pub(crate) fn wait(&self) {
        let mut streams = vec![self.legacy.clone()];
        let of_this = stream::STREAMS
            .all()
            .into_iter()
            .filter(|stream| stream.context == self.handle);
        streams.extend(of_this);
        streams.extend(self.blocking.read().iter().cloned());
        for stream in &streams {
            stream.wait_for_all();
        }
        report::flush();
        memory::pool::on_synchronize();
    }

    /// Waits for work, then frees what belongs to the context.
    fn destroy(&self) {
        self.wait();
        self.health.is_destroyed.store(true, Ordering::Release);
        stream::remove_all(self.handle);
        event::remove_all(self.handle);
        module::remove_all(self.handle);
        memory::remove_all(self);
    }
}

// --- The stack of the calling thread ---

thread_local! {
    static STACK: Kept<Vec<Arc<Context>>> = const { thread_end::kept(Vec::new()) };
}

/// Leaves the calling thread, which ends, without contexts.
pub(crate) fn end_thread() {
    STACK.with_borrow_mut(|stack| **stack = Vec::new());
}

fn push(stack: &mut Vec<Arc<Context>>, context: Arc<Context>) {
    thread_end::watch();
    stack.push(context);
}

/// The current context, whatever has become of it.
fn top() -> Option<Arc<Context>> {
    STACK.with(|stack| {
        let mut stack = stack.borrow_mut();
        let top = stack.last_mut()?;
        // A primary context that was reset has another object under the same handle.
        if top.health.is_destroyed()
            && let Some(again) = CONTEXTS.get(top.handle)
        {
            *top = again;
        }
        Some(top.clone())
    })
}

/// The current context, which must be there and not destroyed. It may have failed.
pub(crate) fn current_even_failed() -> Result<Arc<Context>> {
    let context = top().ok_or(CUresult::INVALID_CONTEXT)?;
    match context.health.is_destroyed() {
        true => Err(CUresult::CONTEXT_IS_DESTROYED),
        false => Ok(context),
    }
}

/// The current context, ready for use.
pub(crate) fn current() -> Result<Arc<Context>> {
    let context = current_even_failed()?;
    context.health.check()?;
    Ok(context)
}

/// The context of a handle; null is the current one.
pub(crate) fn get_or_current(handle: CUcontext) -> Result<Arc<Context>> {
    match handle.is_null() {
        true => current_even_failed(),
        false => get(handle),
    }
}

/// The context of a handle.
pub(crate) fn get(handle: CUcontext) -> Result<Arc<Context>> {
    CONTEXTS.get(handle.0).ok_or(CUresult::INVALID_CONTEXT)
}

// --- The interface ---

/// `cuCtxGetCurrent`.
pub fn get_current() -> Result<CUcontext> {
    Ok(top().map_or(CUcontext::NULL, |context| context.raw()))
}

/// `cuCtxSetCurrent`: replaces the top of the stack, or pops it if the handle is null.
pub fn set_current(handle: CUcontext) -> Result<()> {
    STACK.with(|stack| {
        let mut stack = stack.borrow_mut();
        let top = stack.last_mut();
        if handle.is_null() {
            stack.pop();
            return Ok(());
        }
        if let Some(top) = &top
            && top.handle == handle.0
            && !top.health.is_destroyed()
        {
            return Ok(());
        }
        let context = get(handle)?;
        match top {
            Some(top) => *top = context,
            None => push(&mut stack, context),
        }
        Ok(())
    })
}

/// `cuCtxPushCurrent`.
pub fn push_current(handle: CUcontext) -> Result<()> {
    check_not_null(handle)?;
    let context = get(handle)?;
    STACK.with_borrow_mut(|stack| push(stack, context));
    Ok(())
}

/// `cuCtxPopCurrent`.
pub fn pop_current() -> Result<CUcontext> {
    let popped = STACK.with(|stack| stack.borrow_mut().pop());
    popped
        .map(|context| context.raw())
        .ok_or(CUresult::INVALID_CONTEXT)
}

/// Flags that `cuCtxCreate` takes.
const FLAGS: u32 = 0xff;

fn check_flags(flags: u32) -> Result<()> {
    let schedule = flags & CUctx_flags::SCHED_MASK.0;
    let is_schedule = [0, 1, 2, 4].contains(&schedule);
    match flags & !FLAGS == 0 && is_schedule {
        true => Ok(()),
        false => Err(CUresult::INVALID_VALUE),
    }
}

/// `cuCtxCreate`: makes a context and pushes it. `api_version` is that of the function's version.
pub fn create(flags: u32, device: i32, api_version: u32) -> Result<CUcontext> {
    check_flags(flags)?;
    let device = device::get(device)?;
    device.engine()?;
    let context =
        CONTEXTS.insert(|handle| Context::new(handle, device, flags, api_version, false))?;
    let handle = context.raw();
    STACK.with_borrow_mut(|stack| push(stack, context));
    Ok(handle)
}

/// `cuCtxCreate` with parameters for affinity: a part of a device's multiprocessors is not to be
/// had.
pub fn create_with_affinity(
    flags: u32,
    device: i32,
    affinities: &[CUexecAffinityParam],
) -> Result<CUcontext> {
    match affinities.first() {
        None => create(flags, device, 3020),
        Some(param) if param.type_ == CUexecAffinityType::SM_COUNT => {
            device::get(device)?;
            Err(CUresult::UNSUPPORTED_EXEC_AFFINITY)
        }
        Some(_) => Err(CUresult::INVALID_VALUE),
    }
}

/// `cuCtxCreate_v4`: contexts for graphics are not to be had either.
pub fn create_with_params(
    flags: u32,
    device: i32,
    params: Option<CUctxCreateParams>,
) -> Result<CUcontext> {
    let params = params.unwrap_or_default();
    if !params.cigParams.is_null() {
        return Err(CUresult::NOT_SUPPORTED);
    }
    let count = usize::try_from(params.numExecAffinityParams);
    let count = count.map_err(|_| CUresult::INVALID_VALUE)?;
    let affinities = host::get_all(params.execAffinityParams.0, count)?;
    create_with_affinity(flags, device, &affinities)
}

/// A null handle means no context here.
fn check_not_null(handle: CUcontext) -> Result<()> {
    match handle.is_null() {
        true => Err(CUresult::INVALID_VALUE),
        false => Ok(()),
    }
}

/// `cuCtxDestroy`.
pub fn destroy(handle: CUcontext) -> Result<()> {
    check_not_null(handle)?;
    let context = get(handle)?;
    if context.is_primary {
        return Err(CUresult::INVALID_CONTEXT);
    }
    let context = CONTEXTS.remove(handle.0).ok_or(CUresult::INVALID_CONTEXT)?;
    context.destroy();
    STACK.with(|stack| {
        let mut stack = stack.borrow_mut();
        if stack.last().is_some_and(|top| top.handle == handle.0) {
            stack.pop();
        }
    });
    Ok(())
}

/// `cuCtxSynchronize`; a null handle is the current context.
pub fn synchronize(handle: CUcontext) -> Result<()> {
    let context = get_or_current(handle)?;
    capture::check_synchronize(&context)?;
    context.synchronize()
}

/// `cuCtxGetDevice`; a null handle is the current context.
pub fn get_device(handle: CUcontext) -> Result<i32> {
    Ok(get_or_current(handle)?.device.ordinal)
}

/// `cuCtxGetFlags`. A primary context maps memory of the host, whatever its flags say.
pub fn get_flags() -> Result<u32> {
    let context = current_even_failed()?;
    let flags = context.flags.load(Ordering::Relaxed);
    Ok(match context.is_primary {
        true => flags | CUctx_flags::MAP_HOST.0,
        false => flags,
    })
}

/// `cuCtxSetFlags`.
pub fn set_flags(flags: u32) -> Result<()> {
    check_flags(flags)?;
    current()?.flags.store(flags, Ordering::Relaxed);
    Ok(())
}

/// `cuCtxGetId`; a null handle is the current context.
pub fn get_id(handle: CUcontext) -> Result<u64> {
    Ok(get_or_current(handle)?.id)
}

/// `cuCtxGetApiVersion`; a null handle is the current context.
pub fn get_api_version(handle: CUcontext) -> Result<u32> {
    Ok(get_or_current(handle)?.api_version)
}

/// Makes a context that has failed usable again, with memory and modules as they are. An extension.
pub fn clear_error(handle: CUcontext) -> Result<()> {
    let context = get_or_current(handle)?;
    context.wait();
    context.health.clear();
    Ok(())
}

/// Waits for the work of all contexts, and makes those usable again that have failed. An extension.
pub fn clear_all_errors() {
    for context in CONTEXTS.all() {
        context.wait();
        context.health.clear();
    }
}

// --- Primary contexts ---

/// A device's primary context. Its handle stays the same.
#[derive(Default)]
pub(crate) struct Primary {
    handle: Option<u64>,
    n_users: u32,
    flags: u32,
}

const PRIMARY_API_VERSION: u32 = 3020;

/// `cuDevicePrimaryCtxRetain`.
pub fn primary_retain(device: i32) -> Result<CUcontext> {
    let device = device::get(device)?;
    device.engine()?;
    let mut primary = device.primary.lock();
    let handle = match primary.handle {
        Some(handle) => handle,
        None => CONTEXTS.reserve()?,
    };
    primary.handle = Some(handle);
    if CONTEXTS.get(handle).is_none() {
        let context = Context::new(handle, device, primary.flags, PRIMARY_API_VERSION, true);
        CONTEXTS.set(handle, Some(Arc::new(context)));
    }
    primary.n_users += 1;
    Ok(CUcontext(handle))
}

/// `cuDevicePrimaryCtxRelease`.
pub fn primary_release(device: i32) -> Result<()> {
    let device = device::get(device)?;
    let mut primary = device.primary.lock();
    if primary.n_users == 0 {
        return Err(CUresult::INVALID_CONTEXT);
    }
    primary.n_users -= 1;
    if primary.n_users == 0 {
        end(&primary);
    }
    Ok(())
}

/// `cuDevicePrimaryCtxReset`: ends the context and what belongs to it; who uses it goes on with an
/// empty one.
pub fn primary_reset(device: i32) -> Result<()> {
    let device = device::get(device)?;
    let primary = device.primary.lock();
    end(&primary);
    if let Some(handle) = primary.handle.filter(|_| primary.n_users != 0) {
        let context = Context::new(handle, device, primary.flags, PRIMARY_API_VERSION, true);
        CONTEXTS.set(handle, Some(Arc::new(context)));
    }
    Ok(())
}

fn end(primary: &Primary) {
    let context = primary.handle.and_then(|handle| CONTEXTS.get(handle));
    if let Some(context) = context {
        CONTEXTS.set(context.handle, None);
        context.destroy();
    }
}

/// `cuDevicePrimaryCtxSetFlags`.
pub fn primary_set_flags(device: i32, flags: u32) -> Result<()> {
    check_flags(flags)?;
    let device = device::get(device)?;
    let mut primary = device.primary.lock();
    primary.flags = flags;
    if let Some(context) = primary.handle.and_then(|handle| CONTEXTS.get(handle)) {
        context.flags.store(flags, Ordering::Relaxed);
    }
    Ok(())
}

/// `cuDevicePrimaryCtxGetState`: the flags, and whether the context is active.
pub fn primary_state(device: i32) -> Result<(u32, bool)> {
    let device = device::get(device)?;
    let primary = device.primary.lock();
    let context = primary.handle.and_then(|handle| CONTEXTS.get(handle));
    Ok((primary.flags, context.is_some()))
}
