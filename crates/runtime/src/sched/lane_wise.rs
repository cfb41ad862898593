//! The general case: lanes that run, wait and end independently of each other.

use ptxjit_abi::{LaneState, Operand, ResumeKind, ResumePoint};
use ptxjit_ir::BarrierOp;

use super::barrier::{self, MAX_WARPS, N_BARRIERS, N_NAMED, WarpMasks};
use super::cta::{Cta, Phase};
use super::lanes::Lanes;
use super::{Progress, Runner, barrier_operands, point_number, report};
use crate::error::{LaunchError, TrapCause};
use ptxjit_abi::warp_ops::{WARP, lanes};

impl Runner<'_> {
    /// Sorts all lanes after an entry of all gangs.
    pub(super) fn go_lane_wise(&mut self, cta: &mut Cta) -> Result<(), LaunchError> {
        cta.phase = Phase::LaneWise;
        self.spell_out(cta);
        cta.lanes.reset(cta.n_threads);
        let all = cta.lanes.live;
        self.sort_stopped(cta, &all)?;
        self.settle(cta, &all);
        Ok(())
    }

    /// Enters every lane that is ready now once, and sees what that lets happen.
    pub(super) fn round(&mut self, cta: &mut Cta) -> Result<Progress, LaunchError> {
        let mut pending = cta.lanes.ready;
        for (warp, yielded) in std::mem::take(&mut cta.lanes.yielded)
            .into_iter()
            .enumerate()
        {
            pending[warp] |= yielded;
        }
        cta.lanes.ready = pending;
        if !Lanes::any(&pending) {
            return self.nothing_runs(cta);
        }
        if self.rng.is_none() && self.join(cta) {
            return Ok(Progress::Some);
        }
        let mut progress = Progress::OnlyYields;
        while Lanes::any(&pending) {
            let entered = self.enter_group(cta, &pending)?;
            for warp in 0..cta.lanes.n_warps {
                pending[warp] &= !entered[warp];
                cta.lanes.ready[warp] &= !entered[warp];
            }
            if self.sort_stopped(cta, &entered)? {
                progress = Progress::Some;
            }
            self.settle(cta, &entered);
        }
        let n_warps = cta.lanes.n_warps;
        if (0..n_warps)
            .filter(|&warp| self.meet_unsynchronised(cta, warp))
            .count()
            > 0
        {
            progress = Progress::Some;
        }
        Ok(if cta.lanes.is_done() {
            Progress::Done
        } else {
            progress
        })
    }

    /// No lane can be entered: the CTA is done, or lanes wait that nobody will ever wake.
    fn nothing_runs(&mut self, cta: &mut Cta) -> Result<Progress, LaunchError> {
        if cta.lanes.is_done() {
            return Ok(Progress::Done);
        }
        let n_warps = cta.lanes.n_warps;
        if (0..n_warps)
            .filter(|&warp| self.meet_unsynchronised(cta, warp))
            .count()
            > 0
        {
            return Ok(Progress::Some);
        }
        if Lanes::any(&cta.lanes.at_cluster) {
            return Ok(Progress::AtCluster);
        }
        Err(report::deadlock(self.grid, cta))
    }

    /// Goes on together if all live lanes are ready at one state with equal uniforms per gang.
    fn join(&mut self, cta: &mut Cta) -> bool {
        if !cta.lanes.all_ready() {
            return false;
        }
        let states = &cta.lane_states.slice()[..cta.n_threads as usize];
        let mut waiting = states
            .iter()
            .filter(|&&state| state != LaneState::EXITED)
            .map(|&state| point_number(state));
        let Some(state) = waiting.next() else {
            return false;
        };
        if waiting.any(|other| other != state) {
            return false;
        }
        let live = cta.lanes.live;
        set_masks(cta, &live);
        if !self.gangs_agree(cta, state) {
            return false;
        }
        cta.n_exited = cta.n_threads - live.iter().map(|lanes| lanes.count_ones()).sum::<u32>();
        cta.phase = Phase::Together(state as u32);
        true
    }

    /// Enters a group of the pending lanes and returns it.
    fn enter_group(
        &mut self,
        cta: &mut Cta,
        pending: &WarpMasks,
    ) -> Result<WarpMasks, LaunchError> {
        let (state, only_gang) = self.choose(cta, pending);
        let mut group = [0; MAX_WARPS];
        for gang in 0..cta.n_gangs {
            let (warp, shift, full) = gang_lanes(cta, gang);
            let mut here = (pending[warp] >> shift) & full;
            if here == 0 || only_gang.is_some_and(|only| only != gang) {
                continue;
            }
            let at = at_state(cta, warp, pending[warp], |other| {
                point_number(other) == state
            });
            here &= at >> shift;
            if here != 0 {
                group[warp] |= self.agreeing(cta, gang, state, here) << shift;
            }
        }
        self.check_whole(cta, state, &group)?;
        let (first, end) = set_masks(cta, &group);
        cta.set_go_on(&self.grid.go_on.never);
        self.enter(cta, state as u32, first, end)?;
        self.spell_out(cta);
        Ok(group)
    }

    /// Refuses to part lanes that an `.aligned` instruction keeps together.
    fn check_whole(&self, cta: &Cta, state: usize, group: &WarpMasks) -> Result<(), LaunchError> {
        let point = &self.grid.kernel.resume_points[state];
        let is_part = |&warp: &usize| group[warp] != 0 && group[warp] != cta.lanes.live[warp];
        let Some(warp) = (0..cta.lanes.n_warps).find(|warp| point.is_whole && is_part(warp)) else {
            return Ok(());
        };
        let note = format!(
            "the threads of a warp execute an `.aligned` instruction together, and lanes {:#010x} have not come here",
            cta.lanes.live[warp] & !group[warp]
        );
        let thread = (warp * WARP) as u32 + group[warp].trailing_zeros();
        let cause = TrapCause::BadCall { note };
        Err(report::of_thread(self.grid, cta, thread, point.loc, cause))
    }

    /// The state to enter next: the first in the program, so that lanes behind catch up; or any,
    /// with a single gang, in a random schedule.
    fn choose(&mut self, cta: &Cta, pending: &WarpMasks) -> (usize, Option<u32>) {
        let states = cta.lane_states.slice();
        if let Some(rng) = &mut self.rng {
            let n = pending.iter().map(|lanes| lanes.count_ones()).sum();
            let thread = threads(pending)
                .nth(rng.below(n) as usize)
                .expect("the number is below the count");
            return (
                point_number(states[thread as usize]),
                Some(thread / cta.layout.gang),
            );
        }
        let mut least = usize::MAX;
        for (warp, &mask) in pending.iter().enumerate().filter(|&(_, &mask)| mask != 0) {
            for lane in lanes(mask) {
                least = least.min(point_number(states[warp * WARP + lane as usize]));
            }
        }
        (least, None)
    }

    /// Puts lanes that have just stopped in their sets. Returns whether any did more than yield.
    fn sort_stopped(&mut self, cta: &mut Cta, stopped: &WarpMasks) -> Result<bool, LaunchError> {
        let mut progress = false;
        for (warp, &stopped) in stopped.iter().enumerate() {
            let mut rest = stopped;
            while rest != 0 {
                // Lanes usually stop together; those at one state are sorted at once.
                let state = cta.lane_states.slice()[warp * WARP + rest.trailing_zeros() as usize];
                let group = at_state(cta, warp, rest, |other| other == state);
                rest &= !group;
                if state == LaneState::EXITED || self.grid.never_waits() {
                    cta.lanes.live[warp] &= !group;
                    progress = true;
                    continue;
                }
                let point = &self.grid.kernel.resume_points[point_number(state)];
                if point.reads_slots() || !point.results.is_empty() {
                    self.spread_warp(cta, warp);
                }
                match point.kind {
                    ResumeKind::Ready | ResumeKind::StripMine => cta.lanes.ready[warp] |= group,
                    ResumeKind::Yield => cta.lanes.yielded[warp] |= group,
                    ResumeKind::Warp { .. } => {
                        self.check_members(cta, point, warp, group)?;
                        cta.lanes.in_warp_op[warp] |= group;
                    }
                    ResumeKind::Barrier {
                        op: BarrierOp::ClusterArrive,
                        ..
                    } => {
                        self.arrive_at_cluster(cta, point, Some((warp, group)))?;
                        cta.lanes.ready[warp] |= group;
                    }
                    ResumeKind::Barrier {
                        op: BarrierOp::ClusterWait,
                        ..
                    } => self.lanes_at_cluster(cta, point, warp, group)?,
                    ResumeKind::Barrier {
                        op: BarrierOp::Warpgroup,
                        ..
                    } => {
                        let id = barrier::of_warpgroup(warp);
                        cta.lanes.arrive(id, BarrierOp::Warpgroup, (warp, group), 0);
                    }
                    ResumeKind::Barrier { op, .. } => self.arrive(cta, op, point, warp, group)?,
                }
                progress |= point.kind != ResumeKind::Yield;
            }
        }
        Ok(progress)
    }

    /// Gives each lane of a warp its own values.
    fn spread_warp(&self, cta: &mut Cta, warp: usize) {
        let per_warp = WARP as u32 / cta.layout.gang;
        let first = warp as u32 * per_warp;
        for gang in first..cta.n_gangs.min(first + per_warp) {
            self.spread(cta, gang);
        }
    }

    /// Lanes that execute an operation with a member mask must be among its members.
    fn check_members(
        &self,
        cta: &Cta,
        point: &ResumePoint,
        warp: usize,
        group: u32,
    ) -> Result<(), LaunchError> {
        let ResumeKind::Warp { op, sync: true, .. } = point.kind else {
            return Ok(());
        };
        let Some(&operand) = point.operands.last() else {
            return Ok(());
        };
        let mask = |lane: u32| member_mask(cta, warp as u32 * 32 + lane, operand);
        let is_outside = |&lane: &u32| mask(lane) >> lane & 1 == 0;
        let outside = match operand {
            Operand::Const(members) => lanes(group & !(members as u32)).next(),
            Operand::Slot { .. } => lanes(group).find(is_outside),
        };
        let Some(lane) = outside else { return Ok(()) };
        let cause = TrapCause::NoMember {
            op: op.to_string(),
            mask: mask(lane),
            lane,
        };
        let thread = warp as u32 * 32 + lane;
        Err(report::of_thread(self.grid, cta, thread, point.loc, cause))
    }

    /// Lanes of a warp execute a barrier instruction.
    fn arrive(
        &self,
        cta: &mut Cta,
        op: BarrierOp,
        point: &ResumePoint,
        warp: usize,
        group: u32,
    ) -> Result<(), LaunchError> {
        let (id, count, _) = barrier_operands(op, point);
        let same_for_all = matches!((id, count), (Operand::Const(_), Operand::Const(_)));
        let mut rest = group;
        while rest != 0 {
            let lowest = rest.trailing_zeros();
            let bits = if same_for_all { rest } else { 1 << lowest };
            rest &= !bits;
            let thread = warp as u32 * 32 + lowest;
            let read = |operand| cta.layout.read(cta.slots.slice(), thread, operand);
            let (id, count) = (read(id), read(count) as u32);
            if id >= N_NAMED as u64 {
                return Err(report::of_thread(
                    self.grid,
                    cta,
                    thread,
                    point.loc,
                    TrapCause::BadBarrier { id },
                ));
            }
            let barrier = &cta.lanes.barriers[id as usize];
            if let Some(why) = barrier.conflict(count, cta.lanes.n_warps) {
                let cause = TrapCause::BadBarrierCount { id, why };
                return Err(report::of_thread(self.grid, cta, thread, point.loc, cause));
            }
            cta.lanes.arrive(id as usize, op, (warp, bits), count);
        }
        if op == BarrierOp::Arrive {
            cta.lanes.ready[warp] |= group;
        }
        Ok(())
    }

    /// Lets lanes go on whose warp operation or barrier is complete as `stopped` have stopped.
    fn settle(&mut self, cta: &mut Cta, stopped: &WarpMasks) {
        for (warp, &lanes) in stopped.iter().enumerate().take(cta.lanes.n_warps) {
            if lanes != 0 && cta.lanes.in_warp_op[warp] != 0 {
                self.meet_synchronised(cta, warp);
            }
        }
        for id in 0..N_BARRIERS {
            if cta.lanes.active_barriers >> id & 1 != 0 {
                self.complete_barrier(cta, id);
            }
        }
    }

    fn complete_barrier(&mut self, cta: &mut Cta, id: usize) {
        let n_warps = cta.lanes.n_warps;
        loop {
            let live = barrier::live_at(id, cta.lanes.live);
            let Some(released) = cta.lanes.barriers[id].complete(&live[..n_warps]) else {
                break;
            };
            self.reduce(cta, &released);
            for (ready, released) in cta.lanes.ready.iter_mut().zip(released) {
                *ready |= released;
            }
        }
        if cta.lanes.barriers[id].is_idle() {
            cta.lanes.active_barriers &= !(1 << id);
        }
    }

    /// Gives lanes that leave a barrier the results of its reduction, if it is one.
    fn reduce(&self, cta: &mut Cta, released: &WarpMasks) {
        let points = &self.grid.kernel.resume_points;
        let point_of = |cta: &Cta, thread: u32| {
            &points[point_number(cta.lane_states.slice()[thread as usize])]
        };
        let pred = |cta: &Cta, thread: u32| match point_of(cta, thread) {
            point @ ResumePoint {
                kind: ResumeKind::Barrier { op, .. },
                ..
            } => {
                let operand = barrier_operands(*op, point).2?;
                Some(cta.layout.read(cta.slots.slice(), thread, operand) & 1)
            }
            _ => None,
        };
        let preds = || threads(released).filter_map(|thread| pred(cta, thread));
        let (count, popc) = (preds().count() as u64, preds().sum::<u64>());
        if count == 0 {
            return;
        }
        for thread in threads(released) {
            let point = point_of(cta, thread);
            let value = match point.kind {
                ResumeKind::Barrier {
                    op: BarrierOp::RedPopc,
                    ..
                } => popc,
                ResumeKind::Barrier {
                    op: BarrierOp::RedAnd,
                    ..
                } => u64::from(popc == count),
                ResumeKind::Barrier {
                    op: BarrierOp::RedOr,
                    ..
                } => u64::from(popc != 0),
                ResumeKind::Barrier {
                    op:
                        BarrierOp::Sync
                        | BarrierOp::Arrive
                        | BarrierOp::ClusterArrive
                        | BarrierOp::ClusterWait
                        | BarrierOp::Warpgroup,
                    ..
                }
                | ResumeKind::Ready
                | ResumeKind::StripMine
                | ResumeKind::Yield
                | ResumeKind::Warp { .. } => continue,
            };
            if let Some(&(offset, ty)) = point.results.first() {
                cta.layout
                    .write(cta.slots.slice_mut(), thread, offset, ty, value);
            }
        }
    }

    /// [`Runner::reduce`] for all lanes in the masks, at one point.
    pub(super) fn reduce_together(&self, cta: &mut Cta, point: u32) {
        let point = &self.grid.kernel.resume_points[point as usize];
        if matches!(point.kind, ResumeKind::Barrier { .. }) && !point.results.is_empty() {
            let live = live_lanes(cta);
            self.reduce(cta, &live);
        }
    }
}

pub(super) fn member_mask(cta: &Cta, thread: u32, operand: Operand) -> u32 {
    cta.layout.read(cta.slots.slice(), thread, operand) as u32
}

/// The lanes of `mask` in a warp whose states pass a test. The states are padded, so a warp has all
/// of them.
pub(super) fn at_state(cta: &Cta, warp: usize, mask: u32, test: impl Fn(u16) -> bool) -> u32 {
    let states = &cta.lane_states.slice()[warp * WARP..][..WARP];
    let bit = |(lane, &state): (usize, &u16)| u32::from(test(state)) << lane;
    mask & states
        .iter()
        .enumerate()
        .map(bit)
        .fold(0, |mask, bit| mask | bit)
}

/// The threads in a set, ascending.
pub(super) fn threads(set: &WarpMasks) -> impl Iterator<Item = u32> {
    set.iter()
        .enumerate()
        .flat_map(|(warp, &mask)| lanes(mask).map(move |lane| warp as u32 * 32 + lane))
}

/// A gang's warp, the position of its first lane there, and a mask of its width.
fn gang_lanes(cta: &Cta, gang: u32) -> (usize, u32, u32) {
    let first = gang * cta.layout.gang;
    (
        (first / 32) as usize,
        first % 32,
        super::cta::low_bits(cta.layout.gang),
    )
}

/// Makes the gangs' masks hold a set of lanes; returns the range of gangs that have any.
fn set_masks(cta: &mut Cta, set: &WarpMasks) -> (u32, u32) {
    cta.masks_are_full = false;
    let (mut first, mut end) = (cta.n_gangs, 0);
    for gang in 0..cta.n_gangs {
        let (warp, shift, full) = gang_lanes(cta, gang);
        let mask = (set[warp] >> shift) & full;
        cta.masks.slice_mut()[gang as usize] = mask;
        if mask != 0 {
            first = first.min(gang);
            end = gang + 1;
        }
    }
    (first, end)
}

/// The lanes in the gangs' masks.
pub(super) fn live_lanes(cta: &Cta) -> WarpMasks {
    let mut set = [0; MAX_WARPS];
    for gang in 0..cta.n_gangs {
        let (warp, shift, _) = gang_lanes(cta, gang);
        set[warp] |= cta.masks.slice()[gang as usize] << shift;
    }
    set
}
