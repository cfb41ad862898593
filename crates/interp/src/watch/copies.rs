//! Asynchronous copies: their accesses happen at any time between their issue and what waits for
//! them, beside all that their thread does meanwhile.
//!
//! PTX ISA, "Asynchronous operations" and "Proxies": a bulk copy goes by the async proxy, which
//! sees ordinary writes only behind a `fence.proxy.async`; the completion of one is followed by
//! such a fence. Reads before it need to be ordered only.

use super::clock::{Agent, AgentKind, Clock, Epoch};
use super::order::Place;
use super::{Accessed, Watch, Who};

/// A copy in progress: what reads and what writes for it, and its numbers among what these do.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Copy {
    reader: (Agent, Epoch),
    writer: (Agent, Epoch),
}

impl Copy {
    pub(super) fn by(&self, is_write: bool) -> (Agent, Epoch) {
        match is_write {
            true => self.writer,
            false => self.reader,
        }
    }
}

/// An operation that completes late: the copy whose accesses have been noted, or what its thread
/// had done when it began.
pub(crate) enum Begun {
    Copy(Copy),
    Past(Clock),
}

/// The first CTA of a cluster, and the number of an operation there.
pub(crate) type Late = (u32, u64);

impl Watch {
    /// The accesses of the thread's copy have been noted. It completes later.
    pub(crate) fn set_aside(&mut self, who: &Who, late: Late) {
        if let Some(copy) = self.thread(who).copy.take() {
            self.order.begun.insert(late, Begun::Copy(copy));
        }
    }

    /// An operation of the thread arrives at an mbarrier later, perhaps after all its copies.
    pub(crate) fn arrives_later(&mut self, who: &Who, late: Late, with_copies: bool) {
        let Some(cta) = self.ctas.get_mut(&who.cta) else {
            return;
        };
        let past = &mut cta.threads[who.thread as usize].past;
        let clock = match with_copies {
            true => self.order.past_with_copies(who.agent(), past),
            false => self.order.past(who.agent(), past),
        };
        self.order.begun.insert(late, Begun::Past(clock));
    }

    /// An operation has arrived at an mbarrier, which has this parity behind it.
    pub(crate) fn arrived_late(&mut self, who: &Who, late: Late, at: (u32, u64), parity: bool) {
        self.needs_mbarrier(who, at);
        match self.order.begun.remove(&late) {
            Some(Begun::Copy(copy)) => self.order.mbarrier_bytes(at, copy.writer, parity),
            Some(Begun::Past(clock)) => self.order.mbarrier_learns(at, &clock, parity),
            None => {}
        }
    }

    /// `cp.async`.
    pub(crate) fn begin_copy(&mut self, who: &Who) {
        let state = self.thread(who);
        let copier = (who.agent().copier(), state.past.issue());
        state.copy = Some(Copy {
            reader: copier,
            writer: copier,
        });
    }

    /// A bulk copy that completes in a group.
    pub(crate) fn begin_bulk(&mut self, who: &Who) {
        let state = self.thread(who);
        let number = state.past.issue_bulk();
        let [reader, writer] = [AgentKind::BulkReader, AgentKind::BulkWriter]
            .map(|kind| (who.agent().of_kind(kind), number));
        state.copy = Some(Copy { reader, writer });
    }

    /// A bulk copy that completes on an mbarrier.
    pub(crate) fn begin_bulk_on(&mut self, who: &Who, at: (u32, u64)) {
        let agent = self.order.issue_on(at);
        self.thread(who).copy = Some(Copy {
            reader: agent,
            writer: agent,
        });
    }

    /// The bytes of the thread's bulk copy have come, as far as an mbarrier is concerned that has
    /// this parity behind it.
    pub(crate) fn bulk_bytes(&mut self, who: &Who, at: (u32, u64), parity: bool) {
        if let Some(copy) = self.thread(who).copy {
            self.order.mbarrier_bytes(at, copy.writer, parity);
        }
    }

    pub(crate) fn end_copy(&mut self, who: &Who) {
        self.thread(who).copy = None;
    }

    /// Whether the thread's accesses are those of a copy.
    pub(crate) fn is_copying(&self, cta: u32, thread: u32) -> bool {
        let cta = self.ctas.get(&cta);
        cta.is_some_and(|cta| cta.threads[thread as usize].copy.is_some())
    }

    pub(crate) fn commit_group(&mut self, who: &Who) {
        self.thread(who).past.commit_group();
    }

    pub(crate) fn wait_group(&mut self, who: &Who, n: usize) {
        let agent = who.agent();
        self.thread(who).past.wait_group(agent, n);
    }

    pub(crate) fn wait_all(&mut self, who: &Who) {
        let agent = who.agent();
        self.thread(who).past.wait_all(agent);
    }

    pub(crate) fn commit_bulk(&mut self, who: &Who) {
        self.thread(who).past.commit_bulk();
    }

    pub(crate) fn wait_bulk(&mut self, who: &Who, n: usize, reads: bool) {
        let agent = who.agent();
        self.thread(who).past.wait_bulk(agent, n, reads);
    }

    /// `fence.proxy.async`.
    pub(crate) fn fence_proxies(&mut self, who: &Who) {
        let agent = who.agent();
        self.thread(who).past.fence_proxies(agent);
    }
}

impl Accessed {
    pub(super) fn place(&self) -> Place {
        self.shared_of.map_or(Place::Device, Place::Shared)
    }
}
