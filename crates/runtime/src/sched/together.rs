//! The common case: all live lanes of a CTA run and stop together.

use ptxjit_abi::LaneState;
use ptxjit_abi::warp_ops::lanes;

use super::cta::{Cta, Phase, low_bits};
use super::{Progress, Runner, Shortcut, point_number};
use crate::error::LaunchError;

/// What the lane states of a CTA look like after an entry.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Stopped {
    /// All have ended.
    Done,
    /// All that have not ended wait here, and may be resumed with the masks as they are now.
    At(u32),
    /// Anything else.
    Apart,
}

impl Runner<'_> {
    /// Enters all gangs at `state` and sees where the lanes stop.
    pub(super) fn step_together(
        &mut self,
        cta: &mut Cta,
        state: u32,
    ) -> Result<Progress, LaunchError> {
        cta.set_go_on(if cta.n_exited == 0 {
            &self.grid.go_on.complete
        } else {
            &self.grid.go_on.incomplete
        });
        self.enter(cta, state, 0, cta.n_gangs)?;
        if self.grid.never_waits() {
            return Ok(Progress::Done);
        }
        let next = match self.examine(cta) {
            Stopped::Done => return Ok(Progress::Done),
            Stopped::Apart => {
                self.go_lane_wise(cta)?;
                return Ok(Progress::Some);
            }
            Stopped::At(next) => next,
        };
        let point = &self.grid.kernel.resume_points[next as usize];
        if !point.results.is_empty() || self.grid.shortcuts[next as usize] == Shortcut::Warp {
            self.spell_out(cta);
            self.spread_all(cta);
        }
        let (may_go, progress) = match self.grid.shortcuts[next as usize] {
            Shortcut::None => (false, Progress::Some),
            Shortcut::Go => (true, Progress::Some),
            Shortcut::StripMine => (true, Progress::StripMine),
            Shortcut::Yield => (true, Progress::OnlyYields),
            Shortcut::Barrier => (true, Progress::Some),
            Shortcut::CountedBarrier => (cta.n_exited == 0, Progress::Some),
            Shortcut::ClusterArrive => {
                self.arrive_at_cluster(cta, point, None)?;
                (true, Progress::Some)
            }
            Shortcut::ClusterWait => {
                if !self.wait_for_cluster(cta, point)? {
                    cta.phase = Phase::AtCluster(next);
                    return Ok(Progress::Some);
                }
                (true, Progress::Some)
            }
            Shortcut::Warp => (self.warps_together(cta, next), Progress::Some),
        };
        if may_go {
            self.reduce_together(cta, next);
            cta.phase = Phase::Together(next);
        } else {
            self.go_lane_wise(cta)?;
        }
        Ok(progress)
    }

    /// Looks at the lane states; brings `masks` up to date if lanes have ended.
    fn examine(&self, cta: &mut Cta) -> Stopped {
        match common_state(cta) {
            Some(LaneState::EXITED) => return Stopped::Done,
            Some(state) => return Stopped::At(u32::from(state)),
            None => self.spell_out(cta),
        }
        let states = &cta.lane_states.slice()[..cta.n_threads as usize];
        // Without early exit, so that it becomes vector code.
        if states
            .iter()
            .fold(LaneState::EXITED, |all, &state| all & state)
            == LaneState::EXITED
        {
            return Stopped::Done;
        }
        let Some(&first) = states.iter().find(|&&state| state != LaneState::EXITED) else {
            return Stopped::Done;
        };
        // One pass without branches: what differs from the first waiting lane, and how many have
        // ended.
        let (differs, n_exited) =
            states
                .iter()
                .fold((0u16, 0u16), |(differs, n_exited), &state| {
                    let exited = u16::from(state == LaneState::EXITED);
                    (
                        differs | ((state ^ first) & exited.wrapping_sub(1)),
                        n_exited + exited,
                    )
                });
        let partial = differs & LaneState::PARTIAL != 0 || first & LaneState::PARTIAL != 0;
        if differs & !LaneState::PARTIAL != 0 {
            return Stopped::Apart;
        }
        let next = point_number(first);
        if u32::from(n_exited) != cta.n_exited {
            cta.n_exited = u32::from(n_exited);
            refresh_masks(cta);
        }
        if partial && !self.gangs_agree(cta, next) {
            return Stopped::Apart;
        }
        Stopped::At(next as u32)
    }

    /// Gives each lane of gangs that have stopped as a whole its own state. Its values may stay
    /// with the first of them, see [`Cta::unspread`].
    pub(super) fn spell_out(&self, cta: &mut Cta) {
        if self.grid.never_waits() {
            return;
        }
        let gang_width = cta.layout.gang;
        for gang in 0..cta.n_gangs {
            let mask = cta.masks.slice()[gang as usize];
            let state = cta.gang_states.slice()[gang as usize];
            if mask == 0 || state == LaneState::DIVERGED {
                continue;
            }
            cta.gang_states.slice_mut()[gang as usize] = LaneState::DIVERGED;
            let first_thread = gang * gang_width;
            let states = &mut cta.lane_states.slice_mut()[first_thread as usize..];
            match mask == low_bits(gang_width) {
                true => states[..gang_width as usize].fill(state),
                false => lanes(mask).for_each(|lane| states[lane as usize] = state),
            }
            if state != LaneState::EXITED {
                cta.unspread[gang as usize] = mask;
            }
        }
    }

    /// Gives each lane of a gang that has stopped as a whole its own values.
    pub(super) fn spread(&self, cta: &mut Cta, gang: u32) {
        let mask = std::mem::take(&mut cta.unspread[gang as usize]);
        if mask == 0 {
            return;
        }
        let first_thread = gang * cta.layout.gang;
        let first_lane = first_thread + mask.trailing_zeros();
        let state = point_number(cta.lane_states.slice()[first_lane as usize]);
        for &slot in &self.grid.kernel.resume_points[state].shared {
            cta.layout
                .spread(cta.slots.slice_mut(), first_thread, mask, slot);
        }
    }

    /// The same for all gangs.
    pub(super) fn spread_all(&self, cta: &mut Cta) {
        for gang in 0..cta.n_gangs {
            self.spread(cta, gang);
        }
    }

    /// The lanes among some of a gang, which wait at a point, whose uniforms there equal those of
    /// the lowest of them. Lanes that have stopped as a whole, and are all of these, share their
    /// values; if some of them are left out, each has its own afterwards.
    pub(super) fn agreeing(&self, cta: &mut Cta, gang: u32, point: usize, mask: u32) -> u32 {
        if cta.unspread[gang as usize] == mask {
            return mask;
        }
        self.spread(cta, gang);
        if mask.is_power_of_two() {
            return mask;
        }
        let uniforms = &self.grid.kernel.resume_points[point].uniforms;
        let (slots, lowest) = (cta.slots.slice(), mask.trailing_zeros() as usize);
        let first_thread = gang * cta.layout.gang;
        uniforms.iter().fold(mask, |agreeing, &(offset, ty)| {
            let equal = |ty| {
                cta.layout
                    .equal_lanes(slots, first_thread, offset, ty, lowest)
            };
            agreeing & equal(ty)
        })
    }

    /// Whether the lanes in each gang's mask hold equal uniforms of a point.
    pub(super) fn gangs_agree(&self, cta: &mut Cta, point: usize) -> bool {
        (0..cta.n_gangs).all(|gang| {
            let mask = cta.masks.slice()[gang as usize];
            mask == 0 || self.agreeing(cta, gang, point, mask) == mask
        })
    }
}

/// The state in which all gangs have stopped, if each has done so as a whole.
fn common_state(cta: &Cta) -> Option<u16> {
    let n_gangs = cta.n_gangs as usize;
    let mut states = cta.masks.slice()[..n_gangs]
        .iter()
        .zip(cta.gang_states.slice())
        .filter(|&(&mask, _)| mask != 0)
        .map(|(_, &state)| state);
    let first = states.next()?;
    (first != LaneState::DIVERGED && states.all(|state| state == first)).then_some(first)
}

/// Makes the masks hold the lanes that have not ended.
fn refresh_masks(cta: &mut Cta) {
    cta.masks_are_full = false;
    let gang = cta.layout.gang as usize;
    let (n_threads, n_gangs) = (cta.n_threads as usize, cta.n_gangs as usize);
    let states = cta.lane_states.slice()[..n_threads].chunks(gang);
    for (mask, states) in cta.masks.slice_mut()[..n_gangs].iter_mut().zip(states) {
        let live = |(lane, &state): (usize, &u16)| u32::from(state != LaneState::EXITED) << lane;
        *mask = states
            .iter()
            .enumerate()
            .map(live)
            .fold(0, |mask, bit| mask | bit);
        debug_assert_eq!(*mask & !low_bits(gang as u32), 0);
    }
}
