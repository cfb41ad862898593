//! Events.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::event;
use ptxjit_driver::types::{CUevent, CUstream};

use crate::call::{Out, exports};

exports! {
    /// Makes an event.
    fn cuEventCreate(out: Out<CUevent>, flags: u32) {
        out.fill(|| event::create(flags))
    }

    /// Ends an event.
    fn cuEventDestroy_v2(event: CUevent) {
        event::destroy(event)
    }

    /// Puts an event into a stream.
    fn cuEventRecord(event: CUevent, stream: CUstream) or cuEventRecord_ptsz {
        event::record(event, stream)
    }

    /// Puts an event into a stream, or into the graph that it is captured to.
    fn cuEventRecordWithFlags(
        event: CUevent, stream: CUstream, flags: u32,
    ) or cuEventRecordWithFlags_ptsz {
        event::record_with_flags(event, stream, flags)
    }

    /// Whether an event has happened.
    fn cuEventQuery(event: CUevent) {
        event::query(event)
    }

    /// Waits for an event.
    fn cuEventSynchronize(event: CUevent) {
        event::synchronize(event)
    }

    /// Milliseconds between two events.
    fn cuEventElapsedTime(out: Out<f32>, start: CUevent, end: CUevent) {
        let time = event::elapsed(start, end)?;
        out.put(time)
    }

    /// Milliseconds between two events.
    fn cuEventElapsedTime_v2(out: Out<f32>, start: CUevent, end: CUevent) {
        let time = event::elapsed(start, end)?;
        out.put(time)
    }

    /// Has a stream wait for an event.
    fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: u32) or cuStreamWaitEvent_ptsz {
        event::wait(stream, event, flags)
    }
}
