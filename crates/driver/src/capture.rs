//! Stream capture: commands of streams that become nodes of a graph.
//!
//! A capture begins in one stream, and takes in others that wait for an event that was recorded in
//! it. Each of its streams has the nodes that its next node depends on. All must have been joined,
//! by events, with the first stream when that one ends the capture.
//!
//! What a capture cannot hold, and calls that would not do what they say while it goes on
//! (`calls`), break it: they return `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED` or a code that tells
//! more, and ending the capture gives no graph.
//!
//! Locks: a capture's lock may be held while that of a graph's body is taken.

mod calls;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::ThreadId;

use parking_lot::Mutex;

use crate::command::Command;
use crate::error::Result;
use crate::graph::work::Work;
use crate::graph::{self, Graph};
use crate::stream::{self, Role, Stream};
use crate::types::{
    CUgraph, CUgraphEdgeData, CUgraphNode, CUresult, CUstream, CUstreamCaptureMode,
    CUstreamCaptureStatus, CUstreamUpdateCaptureDependencies_flags, HostPtr,
};

pub(crate) use calls::{check_call, check_legacy, check_synchronize, check_wait};

use calls::{is_blocking, is_in};

/// A node that the next one depends on, by its number, and what the edge from it means.
pub(crate) type Dep = (u32, CUgraphEdgeData);

/// A capture that goes on, or has ended.
pub(crate) struct Capture {
    id: u64,
    mode: CUstreamCaptureMode,
    thread: ThreadId,
    graph: Arc<Graph>,
    /// The capture made the graph.
    has_own_graph: bool,
    state: Mutex<State>,
}

struct State {
    is_valid: bool,
    /// Streams that take part, the one it began in first. None once it has ended.
    members: Vec<Member>,
}

struct Member {
    stream: Arc<Stream>,
    deps: Vec<Dep>,
    /// What programs were shown of `deps`; it stays where it is until the next look or command.
    shown: (Vec<CUgraphNode>, Vec<CUgraphEdgeData>),
}

/// A stream's place for the capture that it takes part in.
#[derive(Default)]
pub(crate) struct Slot {
    is_set: AtomicBool,
    capture: Mutex<Option<Arc<Capture>>>,
}

impl Slot {
    /// Whether the stream takes part in a capture.
    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    fn get(&self) -> Option<Arc<Capture>> {
        self.is_set().then(|| self.capture.lock().clone()).flatten()
    }

    /// Puts a capture there, unless there is one.
    fn set(&self, capture: &Arc<Capture>) -> bool {
        let mut slot = self.capture.lock();
        let is_free = slot.is_none();
        if is_free {
            *slot = Some(capture.clone());
            self.is_set.store(true, Ordering::Release);
        }
        is_free
    }

    fn clear(&self) {
        let mut slot = self.capture.lock();
        *slot = None;
        self.is_set.store(false, Ordering::Release);
    }
}

/// Captures that go on, and their number, which most calls look at only.
static CAPTURES: Mutex<Vec<Arc<Capture>>> = Mutex::new(Vec::new());
static N_CAPTURES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MODE: Cell<CUstreamCaptureMode> = const { Cell::new(CUstreamCaptureMode::GLOBAL) };
}

impl State {
    fn member(&mut self, stream: &Arc<Stream>) -> Option<&mut Member> {
        let mut members = self.members.iter_mut();
        members.find(|member| Arc::ptr_eq(&member.stream, stream))
    }
}

impl Capture {
    /// Makes the capture give no graph.
    fn invalidate(&self) {
        self.state.lock().is_valid = false;
    }

    fn is_over(&self) -> bool {
        self.state.lock().members.is_empty()
    }

    fn is_valid(&self) -> bool {
        self.state.lock().is_valid
    }

    /// The dependencies of a stream's next node.
    fn deps(&self, stream: &Arc<Stream>) -> Vec<Dep> {
        let mut state = self.state.lock();
        state
            .member(stream)
            .map_or_else(Vec::new, |member| member.deps.clone())
    }

    /// Takes the streams out of capture: with their dependencies, and whether all went well.
    fn end(self: &Arc<Capture>) -> (Vec<Member>, bool) {
        let (members, is_valid) = {
            let mut state = self.state.lock();
            (std::mem::take(&mut state.members), state.is_valid)
        };
        for member in &members {
            member.stream.capture.clear();
        }
        let mut captures = CAPTURES.lock();
        captures.retain(|known| known.id != self.id);
        N_CAPTURES.store(captures.len(), Ordering::Release);
        (members, is_valid)
    }
}

/// Breaks the capture of a stream by something that cannot be done in one, and says so.
pub(crate) fn forbidden(stream: &Stream) -> CUresult {
    broken(stream, CUresult::STREAM_CAPTURE_UNSUPPORTED)
}

/// Breaks the capture of a stream, if there is one; the code, or that it was broken before.
fn broken(stream: &Stream, code: CUresult) -> CUresult {
    let Some(capture) = stream.capture.get() else {
        return code;
    };
    let was_valid = std::mem::replace(&mut capture.state.lock().is_valid, false);
    match was_valid {
        true => code,
        false => CUresult::STREAM_CAPTURE_INVALIDATED,
    }
}

/// Adds a node to the graph of a stream that is captured.
pub(crate) fn add(stream: &Arc<Stream>, work: impl FnOnce() -> Result<Work>) -> Result<()> {
    let capture = stream.capture.get().ok_or(CUresult::ILLEGAL_STATE)?;
    if !capture.is_valid() {
        return Err(CUresult::STREAM_CAPTURE_INVALIDATED);
    }
    let work = work()?;
    let mut state = capture.state.lock();
    let added = match state.member(stream) {
        Some(member) => capture.graph.add(work.clone(), &member.deps).map(|node| {
            member.deps = vec![(node.id, CUgraphEdgeData::default())];
        }),
        // The capture has ended meanwhile.
        None => Err(CUresult::ILLEGAL_STATE),
    };
    state.is_valid &= added.is_ok();
    drop(state);
    if added.is_err() {
        work.end();
    }
    added
}

/// Likewise, with the work of a command.
pub(crate) fn add_command(stream: &Arc<Stream>, command: Command) -> Result<()> {
    match Work::of_command(command) {
        Some(work) => add(stream, || Ok(work)),
        None => Err(forbidden(stream)),
    }
}

/// What an event holds that was recorded in a stream that is captured.
#[derive(Clone)]
pub(crate) struct Captured {
    capture: Arc<Capture>,
    deps: Vec<Dep>,
}

/// What an event that is recorded in a captured stream stands for.
pub(crate) fn record(stream: &Arc<Stream>) -> Result<Captured> {
    let capture = stream.capture.get().ok_or(CUresult::ILLEGAL_STATE)?;
    if !capture.is_valid() {
        return Err(CUresult::STREAM_CAPTURE_INVALIDATED);
    }
    let deps = capture.deps(stream);
    Ok(Captured { capture, deps })
}

impl Captured {
    /// The code for a call that asks whether the event has happened, which breaks the capture.
    pub(crate) fn asked(&self) -> CUresult {
        self.capture.invalidate();
        CUresult::CAPTURED_EVENT
    }

    /// Has a stream depend on the event, which takes the stream into the capture.
    pub(crate) fn join(&self, stream: &Arc<Stream>) -> Result<()> {
        if stream.role == Role::Legacy {
            self.capture.invalidate();
            return Err(CUresult::STREAM_CAPTURE_IMPLICIT);
        }
        if self.capture.is_over() {
            return Err(match stream.is_capturing() {
                true => broken(stream, CUresult::STREAM_CAPTURE_ISOLATION),
                false => CUresult::CAPTURED_EVENT,
            });
        }
        if !self.capture.is_valid() {
            return Err(CUresult::STREAM_CAPTURE_INVALIDATED);
        }
        let own = stream.capture.get();
        if own.is_some_and(|own| own.id != self.capture.id) {
            self.capture.invalidate();
            return Err(broken(stream, CUresult::STREAM_CAPTURE_MERGE));
        }
        let mut state = self.capture.state.lock();
        if let Some(member) = state.member(stream) {
            for dep in &self.deps {
                if !member.deps.iter().any(|(id, _)| *id == dep.0) {
                    member.deps.push(*dep);
                }
            }
            return Ok(());
        }
        // The capture may have ended, or the stream may have joined another one, since this was
        // looked at.
        if state.members.is_empty() || !stream.capture.set(&self.capture) {
            return Err(CUresult::STREAM_CAPTURE_MERGE);
        }
        state.members.push(Member {
            stream: stream.clone(),
            deps: self.deps.clone(),
            shown: Default::default(),
        });
        Ok(())
    }
}

/// Has a stream that is captured wait for an event that was recorded outside.
pub(crate) fn foreign_event(stream: &Stream) -> CUresult {
    broken(stream, CUresult::STREAM_CAPTURE_ISOLATION)
}

/// Ends the capture that began in a stream that goes away. One that took the stream in goes on, as
/// programs end such streams once they have joined the first one; if they have not, the end of the
/// capture finds it out.
pub(crate) fn abandon(stream: &Arc<Stream>) {
    let Some(capture) = stream.capture.get() else {
        return;
    };
    let is_first = {
        let state = capture.state.lock();
        let first = state.members.first();
        first.is_some_and(|member| Arc::ptr_eq(&member.stream, stream))
    };
    if is_first {
        capture.end();
        capture.give_up_graph();
    }
}

impl Capture {
    /// Ends a graph that was not completed.
    fn give_up_graph(&self) {
        match self.has_own_graph {
            true => self.graph.end(),
            false => self.graph.set_owned(false),
        }
    }
}

// --- The interface ---

/// `cuThreadExchangeStreamCaptureMode`: the mode of the calling thread before.
pub fn exchange_mode(mode: CUstreamCaptureMode) -> Result<CUstreamCaptureMode> {
    check_mode(mode)?;
    Ok(MODE.replace(mode))
}

fn check_mode(mode: CUstreamCaptureMode) -> Result<()> {
    match mode {
        CUstreamCaptureMode::GLOBAL
        | CUstreamCaptureMode::THREAD_LOCAL
        | CUstreamCaptureMode::RELAXED => Ok(()),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// `cuStreamBeginCapture`.
pub fn begin(stream: CUstream, mode: CUstreamCaptureMode) -> Result<()> {
    check_mode(mode)?;
    let stream = stream::get(stream)?;
    check_begin(&stream)?;
    let graph = Graph::make(0, true)?;
    start(&stream, graph.clone(), Vec::new(), mode, true).inspect_err(|_| graph.end())
}

/// `cuStreamBeginCaptureToGraph`: `arrays` are those of nodes and of what the edges from them mean.
pub fn begin_to_graph(
    stream: CUstream,
    graph: CUgraph,
    arrays: [HostPtr; 2],
    count: usize,
    mode: CUstreamCaptureMode,
) -> Result<()> {
    check_mode(mode)?;
    let stream = stream::get(stream)?;
    check_begin(&stream)?;
    let graph = graph::get(graph)?;
    let deps = graph::read_deps(&graph, arrays[0], arrays[1], count)?;
    let unique: std::collections::HashSet<u32> = deps.iter().map(|(id, _)| *id).collect();
    if unique.len() != deps.len() {
        return Err(CUresult::INVALID_VALUE);
    }
    start(&stream, graph, deps, mode, false)
}

fn check_begin(stream: &Stream) -> Result<()> {
    if stream.role == Role::Legacy {
        return Err(CUresult::STREAM_CAPTURE_UNSUPPORTED);
    }
    match stream.is_capturing() {
        true => Err(CUresult::ILLEGAL_STATE),
        false => Ok(()),
    }
}

fn start(
    stream: &Arc<Stream>,
    graph: Arc<Graph>,
    deps: Vec<Dep>,
    mode: CUstreamCaptureMode,
    has_own_graph: bool,
) -> Result<()> {
    static NEXT_ID: AtomicU64 = AtomicU64::new(1);
    let member = Member {
        stream: stream.clone(),
        deps,
        shown: Default::default(),
    };
    let capture = Arc::new(Capture {
        id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
        mode,
        thread: std::thread::current().id(),
        graph,
        has_own_graph,
        state: Mutex::new(State {
            is_valid: true,
            members: vec![member],
        }),
    });
    if !stream.capture.set(&capture) {
        return Err(CUresult::ILLEGAL_STATE);
    }
    let mut captures = CAPTURES.lock();
    captures.push(capture);
    N_CAPTURES.store(captures.len(), Ordering::Release);
    Ok(())
}

/// Whether a stream is captured to a graph that the client had before, and so need not be given.
pub fn is_to_known_graph(stream: CUstream) -> Result<bool> {
    let stream = stream::get_even_failed(stream)?;
    let capture = stream.capture.get();
    Ok(capture.is_some_and(|capture| !capture.has_own_graph))
}

/// `cuStreamEndCapture`: the graph.
pub fn end(stream: CUstream) -> Result<CUgraph> {
    let stream = stream::get_even_failed(stream)?;
    let capture = stream.capture.get().ok_or(CUresult::ILLEGAL_STATE)?;
    {
        let state = capture.state.lock();
        let first = state.members.first().ok_or(CUresult::ILLEGAL_STATE)?;
        if !Arc::ptr_eq(&first.stream, &stream) {
            return Err(CUresult::STREAM_CAPTURE_UNMATCHED);
        }
    }
    let is_own_thread = capture.thread == std::thread::current().id();
    if capture.mode != CUstreamCaptureMode::RELAXED && !is_own_thread {
        return Err(CUresult::STREAM_CAPTURE_WRONG_THREAD);
    }
    let (members, is_valid) = capture.end();
    let code = match is_valid {
        false => CUresult::STREAM_CAPTURE_INVALIDATED,
        true if capture.graph.is_destroyed() => CUresult::STREAM_CAPTURE_INVALIDATED,
        true if is_joined(&capture.graph, &members) => {
            capture.graph.set_owned(false);
            return Ok(capture.graph.raw());
        }
        true => CUresult::STREAM_CAPTURE_UNJOINED,
    };
    if capture.has_own_graph {
        capture.graph.end();
    }
    Err(code)
}

/// Whether the first stream depends on all that others depend on.
fn is_joined(graph: &Graph, members: &[Member]) -> bool {
    let Some((first, others)) = members.split_first() else {
        return true;
    };
    let body = graph.body.lock();
    let joined = body.ancestors(first.deps.iter().map(|(id, _)| *id));
    let mut open = others.iter().flat_map(|member| &member.deps);
    open.all(|(id, _)| joined.contains(id))
}

/// What `cuStreamGetCaptureInfo` tells. The addresses are those of arrays of nodes that the next
/// one depends on, and of what the edges from them mean.
#[derive(Copy, Clone, Default, Debug)]
pub struct Info {
    pub status: CUstreamCaptureStatus,
    pub id: u64,
    pub graph: CUgraph,
    pub nodes: HostPtr,
    pub edges: HostPtr,
    pub count: usize,
    /// All edges mean what is usual.
    pub is_plain: bool,
}

/// `cuStreamGetCaptureInfo`, in all versions.
pub fn info(stream: CUstream) -> Result<Info> {
    let stream = stream::get(stream)?;
    if stream.role == Role::Legacy {
        let context = stream.context()?;
        let captures = CAPTURES.lock();
        let mut hits = captures
            .iter()
            .filter(|known| is_in(known, &context, is_blocking));
        // This breaks nothing.
        if hits.next().is_some() {
            return Err(CUresult::STREAM_CAPTURE_IMPLICIT);
        }
    }
    let Some(capture) = stream.capture.get() else {
        return Ok(Info::default());
    };
    let mut state = capture.state.lock();
    if !state.is_valid {
        return Ok(Info {
            status: CUstreamCaptureStatus::INVALIDATED,
            id: capture.id,
            ..Info::default()
        });
    }
    let Some(member) = state.member(&stream) else {
        return Ok(Info::default());
    };
    member.show(&capture.graph);
    let (nodes, edges) = &member.shown;
    Ok(Info {
        status: CUstreamCaptureStatus::ACTIVE,
        id: capture.id,
        graph: capture.graph.raw(),
        nodes: HostPtr(nodes.as_ptr() as u64),
        edges: HostPtr(edges.as_ptr() as u64),
        count: nodes.len(),
        is_plain: graph::check_lossless(edges).is_ok(),
    })
}

impl Member {
    /// Writes down the dependencies as programs see them.
    fn show(&mut self, graph: &Graph) {
        let body = graph.body.lock();
        // A program that has destroyed a node learns of it by the next command.
        let known = self.deps.iter().filter_map(|(id, data)| {
            let node = body.nodes.get(id)?;
            Some((CUgraphNode(node.handle), *data))
        });
        self.shown = known.unzip();
    }
}

/// `cuStreamUpdateCaptureDependencies`: `arrays` as in [`begin_to_graph`].
pub fn update_dependencies(
    stream: CUstream,
    arrays: [HostPtr; 2],
    count: usize,
    flags: u32,
) -> Result<()> {
    let is_set = match CUstreamUpdateCaptureDependencies_flags(flags) {
        CUstreamUpdateCaptureDependencies_flags::ADD_CAPTURE_DEPENDENCIES => false,
        CUstreamUpdateCaptureDependencies_flags::SET_CAPTURE_DEPENDENCIES => true,
        _ => return Err(CUresult::INVALID_VALUE),
    };
    let stream = stream::get(stream)?;
    let capture = stream.capture.get().ok_or(CUresult::ILLEGAL_STATE)?;
    if !capture.is_valid() {
        return Err(CUresult::STREAM_CAPTURE_INVALIDATED);
    }
    let deps = graph::read_deps(&capture.graph, arrays[0], arrays[1], count)?;
    let mut state = capture.state.lock();
    let member = state.member(&stream).ok_or(CUresult::ILLEGAL_STATE)?;
    if is_set {
        member.deps.clear();
    }
    for dep in deps {
        match member.deps.iter_mut().find(|(id, _)| *id == dep.0) {
            Some(known) => *known = dep,
            None => member.deps.push(dep),
        }
    }
    Ok(())
}
