//! Misuse of barriers and warp operations that a launch survives: lanes of a warp at different
//! `.aligned` barriers, member masks that do not fit each other.

use std::collections::BTreeMap;
use std::ops::Range;

use ptxjit_ir::{BarrierOp, WarpOp};
use smallvec::SmallVec;

use crate::launch::Machine;
use crate::schedule::Cta;
use crate::thread::{Thread, Wait, WaitKind};
use crate::warp::LANES;
use crate::watch::finding::{AccessOp, Finding, FindingKind, Severity};

impl<'p> Cta<'p> {
    /// Threads that have met at a barrier of the aligned kind at different instructions: lanes of
    /// one warp must not, and warps seldom mean to where all of the CTA take part.
    pub(crate) fn look_for_divergence(
        &mut self,
        machine: &mut Machine<'p, '_>,
        completed: &[(u32, u64)],
    ) {
        let Some(&(first, _)) = completed.first() else {
            return;
        };
        let mut firsts: BTreeMap<u32, usize> = BTreeMap::new();
        for &(thread, _) in completed {
            let idx = thread as usize;
            let of_warp = *firsts.entry(thread / LANES as u32).or_insert(idx);
            let (here, there, whole) = (
                &self.threads[idx],
                &self.threads[of_warp],
                &self.threads[first as usize],
            );
            if here.loc != there.loc && (is_aligned(here, false) || is_aligned(there, false)) {
                let text =
                    "lanes of one warp wait at different instructions for an `.aligned` barrier";
                let found = (FindingKind::BarrierDivergence, Severity::Error, text);
                self.met(machine, (idx, of_warp), found);
            } else if here.loc != whole.loc && is_aligned(here, true) && is_aligned(whole, true) {
                let text = "warps wait at different instructions for one barrier of the CTA";
                let found = (FindingKind::BarrierDivergence, Severity::Warning, text);
                self.met(machine, (idx, first as usize), found);
            }
        }
    }

    /// Two threads have met that should not have.
    fn met(
        &self,
        machine: &mut Machine<'p, '_>,
        (here, there): (usize, usize),
        (kind, severity, text): (FindingKind, Severity, &str),
    ) {
        let [here, there] = [here, there].map(|idx| machine.who(&self.env, &self.threads[idx]));
        if let Some(watch) = &mut machine.watch {
            let accesses = [here, there].map(|who| watch.access_of(&who, AccessOp::Barrier));
            let message = format!("{}: {text}", watch.by(&here));
            watch.add(Finding::new(kind, severity, message, accesses.to_vec()));
        }
    }

    /// Lanes that wait at one statement, one of them for another whose mask is not the same: that
    /// other does not wait for it. At different statements lanes may do so, as their groups are
    /// part of each other.
    pub(crate) fn look_for_masks(&self, machine: &mut Machine<'p, '_>, warp: Range<usize>) {
        let masked = |idx: usize| {
            let wait = self.warp_wait(idx)?;
            Some((idx, wait.op, wait.mask?))
        };
        let waiting: SmallVec<[_; LANES]> = warp.clone().filter_map(masked).collect();
        let Some(&(_, _, mask)) = waiting.first() else {
            return;
        };
        if waiting.iter().all(|&(.., other)| other == mask) {
            return;
        }
        for &(here, op, mask) in &waiting {
            let is_wrong = |&&(there, other_op, other): &&(usize, WarpOp, u32)| {
                let names = mask >> (there - warp.start) & 1 != 0;
                let [a, b] = [here, there].map(|idx| &self.threads[idx]);
                let same_place = op == other_op && a.loc == b.loc && a.calls() == b.calls();
                names && other != mask && same_place
            };
            let Some(&(there, _, other)) = waiting.iter().find(is_wrong) else {
                continue;
            };
            let text = format!(
                "waits with member mask {mask:#010x} for lane {}, which names {other:#010x} at the same statement",
                there - warp.start
            );
            let who = machine.who(&self.env, &self.threads[here]);
            let (kind, severity) = (FindingKind::WarpMask, Severity::Error);
            machine.misuse(who, kind, severity, (AccessOp::Warp, text));
        }
    }
}

/// Whether a thread waits for an `.aligned` barrier, of all threads of the CTA if that is asked.
fn is_aligned(thread: &Thread<'_>, of_all: bool) -> bool {
    match thread.wait() {
        Some(Wait {
            kind: WaitKind::Barrier {
                op, aligned, count, ..
            },
            ..
        }) => *aligned && !(of_all && (*count != 0 || *op == BarrierOp::Warpgroup)),
        Some(_) | None => false,
    }
}
