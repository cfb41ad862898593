//! Streams: queues of commands that run in order.
//!
//! [`queue`] says how commands are run and by whom, [`dispatch`] wakes streams on which no thread
//! waits. This file has the streams themselves, what the default ones wait for, and the interface.

pub mod attributes;
pub mod callback;
pub(crate) mod dispatch;
pub mod memop;
pub(crate) mod queue;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::capture;
use crate::command::Command;
use crate::context::{self, CONTEXTS, Context, Health};
use crate::error::Result;
use crate::handle::{Kind, Object, Slab};
use crate::memory::pool;
use crate::state;
use crate::thread_end::{self, Kept};
use crate::types::{CUcontext, CUresult, CUstream, CUstream_flags};
use attributes::Attributes;
use queue::Queue;
pub(crate) use queue::{Deps, Mark};

pub(crate) static STREAMS: Slab<Stream> = Slab::new(Kind::Stream);

/// Highest and lowest priority.
pub(crate) const PRIORITIES: (i32, i32) = (-5, 0);

/// How a stream takes part in the order of the default stream.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// The context's default stream: waits for all blocking streams, and they for it.
    Legacy,
    /// The default stream of one thread; otherwise like a blocking one.
    PerThread,
    Blocking,
    NonBlocking,
}

/// A queue of commands.
pub struct Stream {
    handle: u64,
    /// Handle of the context.
    pub(crate) context: u64,
    pub(crate) id: u64,
    pub(crate) role: Role,
    pub(crate) priority: AtomicI32,
    pub(crate) attributes: Mutex<Attributes>,
    pub(crate) health: Arc<Health>,
    /// The capture that commands go to.
    pub(crate) capture: capture::Slot,
    is_destroyed: AtomicBool,
    queue: Queue,
}

impl Object for Stream {
    fn handle(&self) -> u64 {
        self.handle
    }
}

impl Stream {
    fn new(handle: u64, context: u64, health: Arc<Health>, role: Role, priority: i32) -> Stream {
        use std::sync::atomic::AtomicU64;
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        Stream {
            handle,
            context,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            role,
            priority: AtomicI32::new(priority),
            attributes: Mutex::default(),
            health,
            capture: capture::Slot::default(),
            is_destroyed: AtomicBool::new(false),
            queue: Queue::default(),
        }
    }

    /// The default stream of a context that is being made.
    pub(crate) fn legacy(context: u64, health: Arc<Health>) -> Arc<Stream> {
        let handle = CUstream::LEGACY.0;
        Arc::new(Stream::new(handle, context, health, Role::Legacy, 0))
    }

    /// The handle as the interface has it.
    pub(crate) fn raw(&self) -> CUstream {
        CUstream(self.handle)
    }

    /// The context, if it is still there.
    pub(crate) fn context(&self) -> Result<Arc<Context>> {
        CONTEXTS
            .get(self.context)
            .ok_or(CUresult::CONTEXT_IS_DESTROYED)
    }

    /// Whether commands go to a graph.
    pub(crate) fn is_capturing(&self) -> bool {
        self.capture.is_set()
    }

    /// Adds a command behind all that the stream's role makes it wait for; or adds it to the graph
    /// that the stream is captured to.
    pub(crate) fn submit(self: &Arc<Stream>, command: Command) -> Result<Mark> {
        self.submit_after(Deps::new(), command)
    }

    /// Likewise, and behind some commands of other streams.
    pub(crate) fn submit_after(
        self: &Arc<Stream>,
        mut deps: Deps,
        command: Command,
    ) -> Result<Mark> {
        if self.is_capturing() {
            capture::add_command(self, command)?;
            return Ok(self.no_mark());
        }
        self.add_role_deps(&mut deps)?;
        Ok(self.push(deps, command))
    }

    /// Adds commands that no other thread's come between. The stream is not capturing.
    pub(crate) fn submit_all(
        self: &Arc<Stream>,
        mut commands: Vec<(Deps, Command)>,
    ) -> Result<Vec<Mark>> {
        if let Some((deps, _)) = commands.first_mut() {
            self.add_role_deps(deps)?;
        }
        Ok(self.push_all(commands))
    }

    /// The commands of other streams that a command of this one waits for by the rules of the
    /// default stream.
    fn add_role_deps(&self, deps: &mut Deps) -> Result<()> {
        match self.role {
            Role::NonBlocking => {}
            Role::Blocking | Role::PerThread => deps.extend(self.context()?.legacy.tail()),
            Role::Legacy => {
                let context = self.context()?;
                capture::check_legacy(&context)?;
                let mut has_gone = false;
                for stream in context.blocking.read().iter() {
                    let tail = stream.tail();
                    has_gone |= tail.is_none() && stream.is_destroyed.load(Ordering::Relaxed);
                    deps.extend(tail);
                }
                if has_gone {
                    let gone = |stream: &Arc<Stream>| {
                        stream.is_destroyed.load(Ordering::Relaxed) && !stream.has_work()
                    };
                    context.blocking.write().retain(|stream| !gone(stream));
                }
            }
        }
        Ok(())
    }

    /// What has run once all commands so far have, those that this stream's role makes it wait for
    /// among them.
    pub(crate) fn mark_of_all(self: &Arc<Stream>) -> Result<Option<Mark>> {
        let mut deps = Deps::new();
        self.add_role_deps(&mut deps)?;
        match deps.is_empty() {
            true => Ok(self.tail()),
            false => Ok(Some(self.push(deps, Command::Nothing))),
        }
    }

    /// A mark that was reached before, if there is nothing that a command submitted now would wait
    /// for. The stream is not capturing.
    pub(crate) fn mark_if_idle(self: &Arc<Stream>) -> Result<Option<Mark>> {
        if self.has_work() {
            return Ok(None);
        }
        let mut deps = Deps::new();
        self.add_role_deps(&mut deps)?;
        Ok(deps.is_empty().then(|| self.no_mark()))
    }

    /// Submits a command and waits until it has run.
    pub(crate) fn run(self: &Arc<Stream>, command: Command) -> Result<()> {
        if self.is_capturing() {
            return Err(capture::forbidden(self));
        }
        let mark = self.submit(command)?;
        mark.wait();
        self.health.check_done()
    }

    /// Waits for all that was submitted so far.
    pub(crate) fn wait_for_all(self: &Arc<Stream>) {
        if let Some(mark) = self.tail() {
            mark.wait();
        }
    }

    fn end(self: &Arc<Stream>) {
        capture::abandon(self);
        self.is_destroyed.store(true, Ordering::Relaxed);
        self.queue.close();
    }
}

impl Context {
    /// A stream that takes part in the order of the default stream.
    fn add_blocking(&self, stream: &Arc<Stream>) {
        self.blocking.write().push(stream.clone());
    }
}

/// The default streams of one thread, by the numbers of their contexts.
type OwnStreams = SmallVec<[(u64, Arc<Stream>); 1]>;

thread_local! {
    static OWN: Kept<OwnStreams> = thread_end::kept(SmallVec::new());
}

/// Ends the default streams of the calling thread, which ends.
pub(crate) fn end_thread() {
    for (_, stream) in OWN.with_borrow_mut(|own| std::mem::take(&mut **own)) {
        stream.end();
    }
}

/// The calling thread's default stream in a context.
fn per_thread(context: &Context) -> Arc<Stream> {
    OWN.with_borrow_mut(|own| {
        if let Some((_, stream)) = own.iter().find(|(id, _)| *id == context.id) {
            return stream.clone();
        }
        own.retain(|(_, stream)| !stream.health.is_destroyed());
        let handle = CUstream::PER_THREAD.0;
        let health = context.health.clone();
        let stream = Stream::new(handle, context.raw().0, health, Role::PerThread, 0);
        let stream = Arc::new(stream);
        context.add_blocking(&stream);
        thread_end::watch();
        own.push((context.id, stream.clone()));
        stream
    })
}

/// The stream of a handle, whose context need not be healthy.
pub(crate) fn get_even_failed(handle: CUstream) -> Result<Arc<Stream>> {
    let is_per_thread =
        handle == CUstream::PER_THREAD || (handle.is_null() && state::is_per_thread_default());
    if is_per_thread {
        Ok(per_thread(&*context::current_even_failed()?))
    } else if handle.is_null() || handle == CUstream::LEGACY {
        Ok(context::current_even_failed()?.legacy.clone())
    } else {
        let stream = STREAMS.get(handle.0).ok_or(CUresult::INVALID_HANDLE)?;
        match stream.health.is_destroyed() {
            true => Err(CUresult::CONTEXT_IS_DESTROYED),
            false => Ok(stream),
        }
    }
}

/// The stream of a handle, ready for commands.
pub(crate) fn get(handle: CUstream) -> Result<Arc<Stream>> {
    let stream = get_even_failed(handle)?;
    stream.health.check()?;
    Ok(stream)
}

/// Ends all streams of a context.
pub(crate) fn remove_all(context: u64) {
    for stream in STREAMS.all() {
        if stream.context == context && STREAMS.remove(stream.handle).is_some() {
            stream.end();
        }
    }
}

// --- The interface ---

/// `cuStreamCreate` and `cuStreamCreateWithPriority`.
pub fn create(flags: u32, priority: i32) -> Result<CUstream> {
    let role = match CUstream_flags(flags) {
        CUstream_flags::DEFAULT => Role::Blocking,
        CUstream_flags::NON_BLOCKING => Role::NonBlocking,
        _ => return Err(CUresult::INVALID_VALUE),
    };
    let context = context::current()?;
    let priority = priority.clamp(PRIORITIES.0, PRIORITIES.1);
    let health = context.health.clone();
    let make = |handle| Stream::new(handle, context.raw().0, health, role, priority);
    let stream = STREAMS.insert(make)?;
    if role == Role::Blocking {
        context.add_blocking(&stream);
    }
    Ok(stream.raw())
}

/// `cuStreamDestroy`: returns at once; what was submitted still runs.
pub fn destroy(handle: CUstream) -> Result<()> {
    let stream = STREAMS.remove(handle.0).ok_or(CUresult::INVALID_HANDLE)?;
    stream.end();
    Ok(())
}

/// `cuStreamQuery`.
pub fn query(handle: CUstream) -> Result<()> {
    let stream = get(handle)?;
    capture::check_wait(&stream)?;
    match stream.tail() {
        None => stream.health.check_done(),
        Some(_) => {
            stream.kick();
            Err(CUresult::NOT_READY)
        }
    }
}

/// `cuStreamSynchronize`.
pub fn synchronize(handle: CUstream) -> Result<()> {
    let stream = get(handle)?;
    capture::check_wait(&stream)?;
    stream.wait_for_all();
    // Work that the legacy stream must wait for counts as its own.
    if stream.role == Role::Legacy {
        let mut deps = Deps::new();
        stream.add_role_deps(&mut deps)?;
        deps.iter().for_each(Mark::wait);
    }
    pool::on_synchronize();
    stream.health.check_done()
}

/// `cuStreamGetFlags`.
pub fn get_flags(handle: CUstream) -> Result<u32> {
    Ok(match get(handle)?.role {
        Role::NonBlocking => CUstream_flags::NON_BLOCKING.0,
        Role::Legacy | Role::PerThread | Role::Blocking => CUstream_flags::DEFAULT.0,
    })
}

/// `cuStreamGetPriority`.
pub fn get_priority(handle: CUstream) -> Result<i32> {
    Ok(get(handle)?.priority.load(Ordering::Relaxed))
}

/// `cuStreamGetId`.
pub fn get_id(handle: CUstream) -> Result<u64> {
    Ok(get(handle)?.id)
}

/// `cuStreamGetCtx`.
pub fn get_ctx(handle: CUstream) -> Result<CUcontext> {
    Ok(CUcontext(get(handle)?.context))
}

/// `cuStreamGetDevice`.
pub fn get_device(handle: CUstream) -> Result<i32> {
    Ok(get(handle)?.context()?.device.ordinal)
}
