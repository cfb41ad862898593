//! Asynchronous copies: their accesses happen at any time between their issue and what waits for
//! them, beside all that their thread does meanwhile.
//!
//! PTX ISA, "Asynchronous operations" and "Proxies": a bulk copy goes by the async proxy, which
//! sees ordinary writes only behind a `fence.proxy.async`; the completion of one is followed by
//! such a fence. Reads before it need to be ordered only.

use super::clock::{Agent, AgentKind, Epoch};
use super::order::Place;
use super::{Accessed, Watch, Who};

/// A copy in progress: what reads and what writes for it, and its numbers among what these do.
#[derive(Copy, Clone, Debug)]
pub(super) struct Copy {
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

impl Watch {
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
