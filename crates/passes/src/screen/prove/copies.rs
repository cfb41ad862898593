//! Copies of `cp.async`, which read and write at any time between their issue and the wait for
//! them.
//!
//! A copy may be in conflict with whatever its own thread accesses meanwhile, and with what other
//! threads of the CTA access in all intervals of barriers from the one of the issue to the one of
//! the wait. What orders accesses of one thread counts as *steps*: what a copy's thread did in
//! earlier steps than that of the issue, or does in later ones than that of the wait, is ordered.
//!
//! Groups are those of all threads: what only some threads commit or wait for is not followed.

use std::collections::VecDeque;

use ptxjit_ir::{DeviceOp, Inst, MarkOp, Value, WarpOp};

use super::Unproven;
use super::covered::Use;
use super::form::{DIGITS, Form};
use super::log::{self, Moment, Sync};
use super::region::Region;
use super::walk::{Active, Walk};

/// Copies in progress.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// Those in no group yet.
    open: Vec<Pending>,
    groups: VecDeque<Vec<Pending>>,
    /// The last access was one of a copy.
    is_issuing: bool,
}

/// An access of a copy in progress.
#[derive(Debug)]
pub(super) struct Pending {
    /// Its place in the log.
    pub(super) entry: usize,
    /// What will then have been written.
    pub(super) store: Option<Use>,
}

impl Walk<'_> {
    /// When an access happens.
    pub(super) fn moment(&mut self, inst: Inst) -> Moment {
        let is_copy = self.plan.in_copies.contains(&inst);
        let was_copy = std::mem::replace(&mut self.copies.is_issuing, is_copy);
        if is_copy && !was_copy {
            self.step += 1;
        }
        // Of iterations that are followed at once later ones come after copies of earlier ones.
        let many = self.active.iter().find(|active| active.is_many());
        let step = many.filter(|_| is_copy).map_or(self.step, |it| it.step);
        Moment {
            interval: self.interval,
            step,
            is_copy,
            is_once: many.is_none(),
        }
    }

    pub(super) fn issue(&mut self, access: Pending) {
        self.copies.open.push(access);
    }

    /// Operations of the device, and marks.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "no other operation is admitted that matters here"
    )]
    pub(super) fn device(
        &mut self,
        op: &DeviceOp,
        args: &[Value],
        region: &Region,
    ) -> Result<(), Unproven> {
        let last = match op {
            DeviceOp::AlignedRow => {
                let is_aligned = log::is_aligned(&self.vals[args[0]], region, 16);
                self.log.may_fail |= !is_aligned;
                return Ok(());
            }
            DeviceOp::Mark(MarkOp::CommitGroup) => None,
            DeviceOp::Mark(MarkOp::WaitGroup(n)) => Some(*n as usize),
            DeviceOp::Mark(MarkOp::WaitAll) => Some(0),
            _ => return Ok(()),
        };
        let all = &self.facts.shape.all;
        if !region.exact || (region.lo, region.hi) != (all.lo, all.hi) {
            return Err(Unproven("some threads commit or wait for copies"));
        }
        // A wait for all is one for those in no group, too.
        if !matches!(op, DeviceOp::Mark(MarkOp::WaitGroup(_))) {
            let open = std::mem::take(&mut self.copies.open);
            self.copies.groups.push_back(open);
        }
        while last.is_some_and(|last| self.copies.groups.len() > last) {
            for access in self.copies.groups.pop_front().into_iter().flatten() {
                self.log.completed(access.entry, self.interval, self.step);
                if let Some(store) = access.store {
                    self.covered.stored(store);
                }
            }
        }
        self.step += 1;
        self.copies.is_issuing = false;
        Ok(())
    }

    /// A warp operation: where lanes might be missing that matter, none may.
    pub(super) fn warp(
        &mut self,
        (inst, op, args): (Inst, WarpOp, &[Value]),
        region: &Region,
    ) -> Result<(), Unproven> {
        let is_whole = self.facts.shape.is_whole_warps(region);
        if self.plan.unsure.contains(&inst) && !is_whole {
            return Err(Unproven("threads may diverge before a warp operation"));
        }
        let is_once = !self.active.iter().any(Active::is_many);
        let is_sync = matches!(op, WarpOp::Sync | WarpOp::AlignedSync);
        if is_sync && is_whole && is_once && self.is_of_all_lanes(args) {
            self.log.syncs.push(Sync {
                step: self.step,
                lo: region.lo,
                hi: region.hi,
            });
            self.step += 1;
        }
        Ok(())
    }

    fn is_of_all_lanes(&self, args: &[Value]) -> bool {
        let mask = args.last().and_then(|&mask| self.vals[mask].as_const());
        mask.is_some_and(|mask| mask.rem_euclid(1 << 32) == 0xffff_ffff)
    }

    /// What lanes get from each other, if it is known whose.
    pub(super) fn shuffled(&mut self, op: WarpOp, args: &[Value], region: &Region) -> Option<Form> {
        let &[value, source, clamp, _] = args else {
            return None;
        };
        // No lane is out of range with these bits of the third operand.
        let is_whole = self.vals[clamp].as_const()?.rem_euclid(1 << 32) & 0x1f1f == 0x1f;
        let is_known = matches!(op, WarpOp::ShflIdx | WarpOp::ShflBfly);
        let is_there = self.facts.shape.is_whole_warps(region) && self.is_of_all_lanes(args);
        if !is_known || !is_whole || !is_there {
            return None;
        }
        let (value, source) = (self.vals[value], self.vals[source]);
        let shape = &self.facts.shape;
        self.tables.shuffled((op, &value, &source), shape)
    }
}

/// Whether all threads of one range are in another.
pub(super) fn is_within(inner: [&[i64; DIGITS]; 2], outer: [&[i64; DIGITS]; 2]) -> bool {
    (0..DIGITS).all(|idx| outer[0][idx] <= inner[0][idx] && inner[1][idx] <= outer[1][idx])
}
