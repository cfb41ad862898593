//! Where mbarriers are, and what orders those who arrive before those who wait.
//!
//! PTX ISA, "mbarrier": the word is an mbarrier from `mbarrier.init` to `mbarrier.inval`, and no
//! other operation may touch it in between. What an operation does to one that is not there is
//! undefined, whatever the word holds.

use super::finding::{AccessOp, Finding, FindingKind, Severity};
use super::order::Place;
use super::{Watch, Who};

/// Bytes of an mbarrier.
const BYTES: u64 = 8;

impl Watch {
    /// The word at an address in a CTA's shared memory has become an mbarrier.
    pub(crate) fn mbarrier_init(&mut self, (cta, addr): (u32, u64)) {
        if let Some(cta) = self.ctas.get_mut(&cta) {
            cta.mbarriers.insert(addr);
        }
    }

    /// The word is no mbarrier any more. What was done to the mbarrier does not race with this:
    /// operations that come too late are found as such, and the lanes of a warp that has voted are
    /// done with it, though nothing orders their memory.
    pub(crate) fn mbarrier_inval(&mut self, (cta, addr): (u32, u64)) {
        if let Some(cta) = self.ctas.get_mut(&cta) {
            cta.mbarriers.remove(&addr);
            cta.shared.forget(addr, BYTES);
        }
    }

    /// Mbarriers that an ordinary write hits are none any more.
    pub(super) fn overwrite_mbarriers(&mut self, place: Place, addr: u64, size: u32) {
        let Place::Shared(cta) = place else { return };
        let Some(cta) = self
            .ctas
            .get_mut(&cta)
            .filter(|cta| !cta.mbarriers.is_empty())
        else {
            return;
        };
        let end = addr + u64::from(size);
        let hit = cta.mbarriers.range(addr.saturating_sub(BYTES - 1)..end);
        let hit: Vec<u64> = hit.copied().collect();
        for at in hit {
            cta.mbarriers.remove(&at);
        }
    }

    /// An operation needs an mbarrier at an address.
    pub(crate) fn needs_mbarrier(&mut self, who: &Who, (cta, addr): (u32, u64)) {
        let is_there = self
            .ctas
            .get(&cta)
            .is_some_and(|cta| cta.mbarriers.contains(&addr));
        if !is_there && self.checks.sync {
            let text = "uses a word as mbarrier that `mbarrier.init` has not made one, or that is none any more";
            self.mbarrier_misuse(who, text);
        }
    }

    /// A rule about mbarriers was broken by a thread.
    pub(crate) fn mbarrier_misuse(&mut self, who: &Who, text: &str) {
        let access = self.access_of(who, AccessOp::Barrier);
        let message = format!("{} {text}", self.by(who));
        let (kind, severity) = (FindingKind::MbarrierMisuse, Severity::Error);
        self.findings
            .add(Finding::new(kind, severity, message, vec![access]));
    }

    pub(crate) fn mbarrier_arrive(
        &mut self,
        who: &Who,
        at: (u32, u64),
        releases: bool,
        parity: bool,
    ) {
        let Some(cta) = self.ctas.get_mut(&who.cta) else {
            return;
        };
        let past = &mut cta.threads[who.thread as usize].past;
        self.order
            .mbarrier_arrive((who.agent(), past), at, releases, parity);
    }

    /// Whether the states that a thread has of an mbarrier are of the current phase or the one
    /// before: of others nothing can be asked, as a state tells no more than the parity of its
    /// phase.
    pub(crate) fn has_recent_state(&mut self, who: &Who, at: (u32, u64)) -> bool {
        let is_recent = self.order.phases_since_arrival(who.agent(), at) <= 1;
        if !is_recent && self.checks.sync {
            let text = "waits for a phase of an mbarrier that was over before the last one began";
            self.mbarrier_misuse(who, text);
        }
        is_recent
    }

    pub(crate) fn mbarrier_copies(&mut self, who: &Who, at: (u32, u64)) {
        let Some(cta) = self.ctas.get_mut(&who.cta) else {
            return;
        };
        let past = &mut cta.threads[who.thread as usize].past;
        self.order.mbarrier_copies(who.agent(), past, at);
    }

    pub(crate) fn mbarrier_complete(&mut self, who: &Who, at: (u32, u64), acquires: bool) {
        let Some(cta) = self.ctas.get_mut(&who.cta) else {
            return;
        };
        let past = &mut cta.threads[who.thread as usize].past;
        self.order.mbarrier_complete(past, at, acquires);
    }
}
