//! Calls that would not do what they say while a capture goes on, which break it. The mode of a
//! capture and that of the calling thread decide which calls of other threads do.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{CAPTURES, Capture, MODE, N_CAPTURES, forbidden};
use crate::context::Context;
use crate::error::Result;
use crate::stream::{Role, Stream};
use crate::types::{CUresult, CUstreamCaptureMode};

/// Breaks some captures; whether there were any.
fn break_all(is_hit: impl Fn(&Capture) -> bool) -> bool {
    if N_CAPTURES.load(Ordering::Acquire) == 0 {
        return false;
    }
    let hit: Vec<Arc<Capture>> = {
        let captures = CAPTURES.lock();
        captures
            .iter()
            .filter(|known| is_hit(known))
            .cloned()
            .collect()
    };
    hit.iter().for_each(|capture| capture.invalidate());
    !hit.is_empty()
}

/// To be called by what may have to wait for work, or gives memory back at once, in whatever
/// stream: allocating and freeing memory, loading modules, asking for events.
pub(crate) fn check_call() -> Result<()> {
    let (thread, mode) = (std::thread::current().id(), MODE.get());
    let is_hit = |capture: &Capture| {
        let is_own = capture.thread == thread && capture.mode != CUstreamCaptureMode::RELAXED;
        match mode {
            CUstreamCaptureMode::GLOBAL => is_own || capture.mode == CUstreamCaptureMode::GLOBAL,
            CUstreamCaptureMode::THREAD_LOCAL => is_own,
            _ => false,
        }
    };
    if N_CAPTURES.load(Ordering::Acquire) != 0 && break_all(is_hit) {
        return Err(CUresult::STREAM_CAPTURE_UNSUPPORTED);
    }
    Ok(())
}

/// Whether a stream that is captured belongs to a context.
pub(super) fn is_in(
    capture: &Capture,
    context: &Context,
    is_counted: impl Fn(&Stream) -> bool,
) -> bool {
    let state = capture.state.lock();
    let mut members = state.members.iter();
    members.any(|member| member.stream.context == context.raw().0 && is_counted(&member.stream))
}

/// To be called by what would wait for all streams of a context.
pub(crate) fn check_synchronize(context: &Context) -> Result<()> {
    match break_all(|capture| is_in(capture, context, |_| true)) {
        true => Err(CUresult::STREAM_CAPTURE_UNSUPPORTED),
        false => Ok(()),
    }
}

/// To be called by what would wait for a stream.
pub(crate) fn check_wait(stream: &Stream) -> Result<()> {
    if stream.is_capturing() {
        return Err(forbidden(stream));
    }
    match stream.role {
        Role::Legacy => check_legacy(&*stream.context()?),
        Role::PerThread | Role::Blocking | Role::NonBlocking => Ok(()),
    }
}

/// To be called before work for a legacy stream, which would depend on blocking streams.
pub(crate) fn check_legacy(context: &Context) -> Result<()> {
    match break_all(|capture| is_in(capture, context, is_blocking)) {
        true => Err(CUresult::STREAM_CAPTURE_IMPLICIT),
        false => Ok(()),
    }
}

pub(super) fn is_blocking(stream: &Stream) -> bool {
    stream.role != Role::NonBlocking
}
