//! Events: marks in streams, with the time at which they were reached.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::capture::{self, Captured};
use crate::command::Command;
use crate::context;
use crate::error::Result;
use crate::graph::work::Work;
use crate::handle::{Kind, Object, Slab};
use crate::memory::pool;
use crate::stream::{self, Deps, Mark};
use crate::types::{
    CUevent, CUevent_flags, CUevent_record_flags, CUevent_wait_flags, CUresult, CUstream,
};

pub(crate) static EVENTS: Slab<Event> = Slab::new(Kind::Event);

/// An event of a program.
pub(crate) struct Event {
    handle: u64,
    /// Handle of the context.
    pub(crate) context: u64,
    flags: CUevent_flags,
    record: Mutex<Option<Record>>,
}

/// The latest record of an event.
#[derive(Clone)]
enum Record {
    /// A command of a stream.
    Run { mark: Mark, stamp: Arc<Stamp> },
    /// A place in a graph that is being captured.
    Captured(Captured),
}

/// The time at which a stream came to a record, in nanoseconds; 0 before.
#[derive(Default)]
pub(crate) struct Stamp(AtomicU64);

impl Stamp {
    /// Notes the time.
    pub(crate) fn set(&self) {
        static START: OnceLock<Instant> = OnceLock::new();
        let time = START.get_or_init(Instant::now).elapsed().as_nanos() as u64;
        self.0.store(time.max(1), Ordering::Release);
    }
}

impl Object for Event {
    fn handle(&self) -> u64 {
        self.handle
    }
}

impl Event {
    /// What a stream that waits for the event waits for; nothing if it was never recorded or has
    /// happened.
    pub(crate) fn mark(&self) -> Option<Mark> {
        match &*self.record.lock() {
            Some(Record::Run { mark, .. }) if !mark.is_done() => Some(mark.clone()),
            Some(Record::Run { .. } | Record::Captured(_)) | None => None,
        }
    }

    /// Likewise, for calls that ask what has become of the event; they break a capture that the
    /// event is a part of.
    fn asked(&self) -> Result<Option<Mark>> {
        if let Some(Record::Captured(captured)) = self.record() {
            return Err(captured.asked());
        }
        capture::check_call()?;
        Ok(self.mark())
    }

    /// Notes a record by a command.
    pub(crate) fn set_record(&self, mark: Mark, stamp: Arc<Stamp>) {
        *self.record.lock() = Some(Record::Run { mark, stamp });
    }

    /// The handle as the interface has it.
    pub(crate) fn raw(&self) -> CUevent {
        CUevent(self.handle)
    }

    fn record(&self) -> Option<Record> {
        self.record.lock().clone()
    }
}

pub(crate) fn get(handle: CUevent) -> Result<Arc<Event>> {
    EVENTS.get(handle.0).ok_or(CUresult::INVALID_HANDLE)
}

/// Ends all events of a context.
pub(crate) fn remove_all(context: u64) {
    for event in EVENTS.all() {
        if event.context == context {
            EVENTS.remove(event.handle);
        }
    }
}

// --- The interface ---

/// `cuEventCreate`.
pub fn create(flags: u32) -> Result<CUevent> {
    let flags = CUevent_flags(flags);
    if flags.0 & !7 != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    if flags.contains(CUevent_flags::INTERPROCESS) {
        // Such an event must not have timing; if that is right, it is still not to be had.
        return Err(match flags.contains(CUevent_flags::DISABLE_TIMING) {
            true => CUresult::NOT_SUPPORTED,
            false => CUresult::INVALID_VALUE,
        });
    }
    let context = context::current()?.raw().0;
    let event = EVENTS.insert(|handle| Event {
        handle,
        context,
        flags,
        record: Mutex::default(),
    })?;
    Ok(CUevent(event.handle))
}

/// `cuEventDestroy`. Streams that wait for it still do.
pub fn destroy(handle: CUevent) -> Result<()> {
    EVENTS
        .remove(handle.0)
        .map(|_| ())
        .ok_or(CUresult::INVALID_HANDLE)
}

/// `cuEventRecord`.
pub fn record(handle: CUevent, stream: CUstream) -> Result<()> {
    record_with_flags(handle, stream, CUevent_record_flags::DEFAULT.0)
}

/// `cuEventRecordWithFlags`; an external record is a node of the graph that a stream is captured
/// to.
pub fn record_with_flags(handle: CUevent, stream: CUstream, flags: u32) -> Result<()> {
    let is_external = match CUevent_record_flags(flags) {
        CUevent_record_flags::DEFAULT => false,
        CUevent_record_flags::EXTERNAL => true,
        _ => return Err(CUresult::INVALID_VALUE),
    };
    let event = get(handle)?;
    let stream = stream::get(stream)?;
    if stream.context != event.context {
        return Err(CUresult::INVALID_HANDLE);
    }
    match (stream.is_capturing(), is_external) {
        (true, true) => capture::add(&stream, || Ok(Work::Record(event))),
        (true, false) => {
            let captured = capture::record(&stream)?;
            *event.record.lock() = Some(Record::Captured(captured));
            Ok(())
        }
        (false, true) => Err(CUresult::INVALID_VALUE),
        (false, false) => {
            let stamp = Arc::<Stamp>::default();
            // Programs record an event per operation, most of them when nothing is left to do.
            let mark = match stream.mark_if_idle()? {
                Some(mark) => {
                    stamp.set();
                    mark
                }
                None => stream.submit(Command::Stamp(stamp.clone()))?,
            };
            event.set_record(mark, stamp);
            Ok(())
        }
    }
}

/// `cuEventQuery`.
pub fn query(handle: CUevent) -> Result<()> {
    let event = get(handle)?;
    match event.asked()? {
        None => health_of(&event),
        Some(mark) => {
            mark.stream.health.check()?;
            mark.stream.kick();
            Err(CUresult::NOT_READY)
        }
    }
}

/// `cuEventSynchronize`.
pub fn synchronize(handle: CUevent) -> Result<()> {
    let event = get(handle)?;
    if let Some(mark) = event.asked()? {
        mark.wait();
    }
    pool::on_synchronize();
    health_of(&event)
}

fn health_of(event: &Event) -> Result<()> {
    match event.record() {
        Some(Record::Run { mark, .. }) => mark.stream.health.check_done(),
        Some(Record::Captured(_)) | None => Ok(()),
    }
}

/// `cuEventElapsedTime`, in milliseconds.
pub fn elapsed(start: CUevent, end: CUevent) -> Result<f32> {
    let time = |handle| {
        let event = get(handle)?;
        let (mark, stamp) = match event.record().ok_or(CUresult::INVALID_HANDLE)? {
            Record::Run { mark, stamp } => (mark, stamp),
            Record::Captured(captured) => return Err(captured.asked()),
        };
        if event.flags.contains(CUevent_flags::DISABLE_TIMING) {
            return Err(CUresult::INVALID_HANDLE);
        }
        Ok((mark, stamp))
    };
    let (start, end) = (time(start)?, time(end)?);
    for (mark, _) in [&start, &end] {
        mark.stream.health.check()?;
    }
    let reached = |stamp: &Stamp| match stamp.0.load(Ordering::Acquire) {
        0 => Err(CUresult::NOT_READY),
        time => Ok(time as f64),
    };
    Ok(((reached(&end.1)? - reached(&start.1)?) * 1e-6) as f32)
}

/// `cuStreamWaitEvent`.
pub fn wait(stream: CUstream, handle: CUevent, flags: u32) -> Result<()> {
    let is_external = match CUevent_wait_flags(flags) {
        CUevent_wait_flags::DEFAULT => false,
        CUevent_wait_flags::EXTERNAL => true,
        _ => return Err(CUresult::INVALID_VALUE),
    };
    let stream = stream::get(stream)?;
    let event = get(handle)?;
    match (event.record(), stream.is_capturing()) {
        (_, true) if is_external => capture::add(&stream, || Ok(Work::Wait(event))),
        (_, false) if is_external => Err(CUresult::INVALID_VALUE),
        (Some(Record::Captured(captured)), _) => captured.join(&stream),
        (Some(Record::Run { .. }), true) => Err(capture::foreign_event(&stream)),
        (None, _) => Ok(()),
        (Some(Record::Run { .. }), false) => {
            if let Some(mark) = event.mark() {
                stream.submit_after(Deps::from_iter([mark]), Command::Nothing)?;
            }
            Ok(())
        }
    }
}
