//! Operations of warps: which lanes meet in one, and what they get from it.

use ptxjit_abi::warp_ops::{self as warp, WARP, lanes};
use ptxjit_abi::{Operand, ResumeKind};
use ptxjit_ir::{Type, WarpOp};
use smallvec::SmallVec;

use super::cta::Cta;
use super::lane_wise::{at_state, live_lanes, member_mask};
use super::{Runner, point_number};

/// What makes lanes meet in one `.sync` warp operation, wherever in the program they are.
#[derive(Copy, Clone, PartialEq, Eq)]
struct Meeting {
    op: WarpOp,
    ty: Type,
    members: u32,
}

impl Runner<'_> {
    /// All live lanes wait at one warp operation: completes it if it waits for no lanes but these.
    pub(super) fn warps_together(&self, cta: &mut Cta, point: u32) -> bool {
        let point = &self.grid.kernel.resume_points[point as usize];
        let ResumeKind::Warp { op, sync, ty } = point.kind else {
            return false;
        };
        let live = live_lanes(cta);
        let complete = |warp: usize| {
            let Some(members) = point.operands.last().copied().filter(|_| sync) else {
                return true;
            };
            let mask = |lane| member_mask(cta, warp as u32 * 32 + lane, members);
            let first = mask(live[warp].trailing_zeros());
            live[warp] & !first == 0
                && (matches!(members, Operand::Const(_))
                    || lanes(live[warp]).all(|l| mask(l) == first))
        };
        let n_warps = cta.n_threads.div_ceil(32) as usize;
        if !(0..n_warps).all(|warp| live[warp] == 0 || complete(warp)) {
            return false;
        }
        for (warp, &group) in live
            .iter()
            .enumerate()
            .take(n_warps)
            .filter(|&(_, &group)| group != 0)
        {
            self.exchange(cta, warp, group, op, ty);
        }
        true
    }

    /// Completes the `.sync` operations of a warp at which all members that live have arrived.
    pub(super) fn meet_synchronised(&mut self, cta: &mut Cta, warp: usize) {
        let mut rest = cta.lanes.in_warp_op[warp];
        while rest != 0 {
            let first = rest.trailing_zeros();
            let Some(meeting) = self.meeting(cta, warp, first) else {
                rest &= !(1 << first);
                continue;
            };
            let group = self.companions(cta, warp, rest, first, meeting);
            rest &= !group;
            if meeting.members & cta.lanes.live[warp] & !group == 0 {
                self.exchange(cta, warp, group, meeting.op, meeting.ty);
                cta.lanes.in_warp_op[warp] &= !group;
                cta.lanes.ready[warp] |= group;
            }
        }
    }

    /// The lanes among `rest` that are in the same meeting as lane `first`.
    fn companions(&self, cta: &Cta, warp: usize, rest: u32, first: u32, meeting: Meeting) -> u32 {
        let state = point_number(cta.lane_states.slice()[warp * WARP + first as usize]);
        let here = at_state(cta, warp, rest, |other| point_number(other) == state);
        let operands = &self.grid.kernel.resume_points[state].operands;
        // Lanes at one instruction with a constant mask belong together; others are asked each.
        let (sure, ask) = match operands.last() {
            Some(Operand::Const(_)) => (here, rest & !here),
            Some(Operand::Slot { .. }) | None => (0, rest),
        };
        lanes(ask)
            .filter(|&lane| self.meeting(cta, warp, lane) == Some(meeting))
            .fold(sure, |group, lane| group | 1 << lane)
    }

    /// The meeting that a waiting lane is in, if its operation is a `.sync` one.
    fn meeting(&self, cta: &Cta, warp: usize, lane: u32) -> Option<Meeting> {
        let thread = warp as u32 * 32 + lane;
        let point =
            &self.grid.kernel.resume_points[point_number(cta.lane_states.slice()[thread as usize])];
        match point.kind {
            ResumeKind::Warp { op, sync: true, ty } => {
                let members = member_mask(cta, thread, *point.operands.last()?);
                Some(Meeting { op, ty, members })
            }
            ResumeKind::Warp { sync: false, .. }
            | ResumeKind::Ready
            | ResumeKind::StripMine
            | ResumeKind::Yield
            | ResumeKind::Barrier { .. } => None,
        }
    }

    /// Completes an operation without `.sync` for the lanes of a warp that wait at the same
    /// instruction, once no lane of the warp can run. Of several such instructions the first in the
    /// program goes first: lanes behind it are the ones that the others would have waited for under
    /// lockstep.
    pub(super) fn meet_unsynchronised(&mut self, cta: &mut Cta, warp: usize) -> bool {
        if cta.lanes.ready[warp] != 0 || cta.lanes.in_warp_op[warp] == 0 {
            return false;
        }
        let states = cta.lane_states.slice();
        let state = |lane: u32| point_number(states[warp * WARP + lane as usize]);
        let waiting = || {
            lanes(cta.lanes.in_warp_op[warp])
                .filter(|&lane| self.meeting(cta, warp, lane).is_none())
        };
        let Some(number) = waiting().map(state).min() else {
            return false;
        };
        let group = waiting()
            .filter(|&lane| state(lane) == number)
            .fold(0, |group, lane| group | 1 << lane);
        let ResumeKind::Warp { op, ty, .. } = self.grid.kernel.resume_points[number].kind else {
            return false;
        };
        self.exchange(cta, warp, group, op, ty);
        cta.lanes.in_warp_op[warp] &= !group;
        cta.lanes.ready[warp] |= group;
        true
    }

    /// Computes a warp operation for the lanes of `group`, each with the slots of its resume point.
    fn exchange(&self, cta: &mut Cta, warp: usize, group: u32, op: WarpOp, ty: Type) {
        let points = &self.grid.kernel.resume_points;
        let thread = |lane: u32| warp as u32 * 32 + lane;
        let point_of =
            |cta: &Cta, lane| point_number(cta.lane_states.slice()[thread(lane) as usize]);
        let mut args: SmallVec<[_; 3]> = SmallVec::from_elem([0; WARP], op.n_args());
        let mut results: SmallVec<[_; 2]> = SmallVec::from_elem([0; WARP], op.n_results());
        let first = point_of(cta, group.trailing_zeros() % 32);
        if at_state(cta, warp, group, |state| point_number(state) == first) == group {
            let point = &points[first];
            for (arg, &operand) in args.iter_mut().zip(&point.operands) {
                *arg = cta.layout.gather(cta.slots.slice(), warp, operand);
            }
            warp::compute(op, ty, group, &args, &mut results);
            for (values, &result) in results.iter().zip(&point.results) {
                cta.layout
                    .scatter(cta.slots.slice_mut(), warp, group, result, values);
            }
            return;
        }
        for lane in lanes(group) {
            for (arg, &operand) in args.iter_mut().zip(&points[point_of(cta, lane)].operands) {
                arg[lane as usize] = cta.layout.read(cta.slots.slice(), thread(lane), operand);
            }
        }
        warp::compute(op, ty, group, &args, &mut results);
        for lane in lanes(group) {
            for (values, &(offset, ty)) in results.iter().zip(&points[point_of(cta, lane)].results)
            {
                cta.layout.write(
                    cta.slots.slice_mut(),
                    thread(lane),
                    offset,
                    ty,
                    values[lane as usize],
                );
            }
        }
    }
}
