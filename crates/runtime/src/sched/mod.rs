//! The CTA scheduler: enters compiled code for the lanes that can run, and lets waiting lanes go on
//! when what they wait for has happened.
//!
//! ```text
//!            all live lanes stop at one point that all may leave
//!              +-----------------------------+
//!              v                             |
//! start --> Together --enter all gangs--> examine --otherwise--> LaneWise --round--> LaneWise ...
//!              ^                                                     |
//!              +------------- all live lanes are ready at one point -+
//! ```
//!
//! * **Together** is the common case. As long as all gangs stop as a whole, compiled code passes
//!   barriers by itself ([`GoOn`]); else it costs
//!   one pass over the lane states per barrier.
//! * **LaneWise** keeps sets of lanes per warp ([`lanes`]). A *round* enters every lane that was
//!   ready at its start once, in
//!   groups that stand at the same state with the same uniform values; so no lane starves, however
//!   others spin.
//! * A CTA whose lanes only yield is put aside after some rounds ([`Outcome::Spinning`]), because
//!   what they wait for may be
//!   the doing of a CTA that has not started. If no lane can run at all, that is a deadlock,
//!   reported as such.

pub(crate) mod barrier;
pub(crate) mod cluster;
pub(crate) mod cta;
pub(crate) mod lanes;
pub(crate) mod report;
pub(crate) mod slots;

mod lane_wise;
mod together;
mod warps;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;

use ptxjit_abi::{CompiledKernel, LaneState, Operand, ResumeKind, ResumePoint};
use ptxjit_ir::BarrierOp;

use crate::error::LaunchError;
use crate::grid::Grid;
use crate::thread;
use crate::worker::{Entered, Worker};
use cta::{Cta, Phase, low_bits};

/// How far a CTA got.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// All threads have ended.
    Done,
    /// It is another CTA's turn.
    StripMine,
    /// For a while all that could run only yielded.
    Spinning,
    /// No thread can run before the barrier of the cluster is complete.
    AtCluster,
}

/// A source of arbitrary but reproducible choices (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// A source whose choices depend on nothing but `seed`.
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// A number below `n`, which is not 0.
    pub(crate) fn below(&mut self, n: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((((z ^ (z >> 31)) >> 32) * u64::from(n)) >> 32) as u32
    }
}

/// Runs CTAs of one launch on one thread.
pub(crate) struct Runner<'a> {
    pub(crate) grid: &'a Grid,
    pub(crate) worker: Worker,
    /// Chooses the order of gangs and groups, if the schedule is a random one.
    pub(crate) rng: Option<Rng>,
}

impl Runner<'_> {
    /// Runs a started CTA until it is done or has only yielded for `patience` rounds on end; says
    /// whether any lane got further.
    pub(crate) fn run(
        &mut self,
        cta: &mut Cta,
        patience: u32,
    ) -> Result<(Outcome, bool), LaunchError> {
        let (mut idle_rounds, mut any_progress) = (0, false);
        loop {
            let progress = match cta.phase {
                Phase::Together(state) => self.step_together(cta, state)?,
                Phase::AtCluster(_) => Progress::AtCluster,
                Phase::LaneWise => self.round(cta)?,
            };
            match progress {
                Progress::Done => return Ok((Outcome::Done, true)),
                Progress::AtCluster => return Ok((Outcome::AtCluster, any_progress)),
                Progress::StripMine if self.grid.wave > 1 => return Ok((Outcome::StripMine, true)),
                Progress::Some | Progress::StripMine => (idle_rounds, any_progress) = (0, true),
                Progress::OnlyYields => {
                    idle_rounds += 1;
                    if idle_rounds >= patience {
                        let is_alone = !self.grid.in_clusters;
                        if is_alone && thread::complete_any(self.grid, cta.ctx())? {
                            (idle_rounds, any_progress) = (0, true);
                            continue;
                        }
                        return Ok((Outcome::Spinning, any_progress));
                    }
                }
            }
        }
    }

    /// Enters the gangs in the range whose masks are not zero.
    fn enter(
        &mut self,
        cta: &mut Cta,
        state: u32,
        first_gang: u32,
        end_gang: u32,
    ) -> Result<(), LaunchError> {
        if cta.masks_are_full || !self.grid.kernel.whole_gangs {
            return self.enter_with(&self.grid.kernel, cta, state, first_gang..end_gang);
        }
        let full = low_bits(cta.layout.gang);
        let mask = |cta: &Cta, gang: u32| cta.masks.slice()[gang as usize];
        let is_partial = |gang: u32| ![0, full].contains(&mask(cta, gang));
        if (first_gang..end_gang).any(is_partial) {
            let kernel = self.grid.code.for_some_lanes()?;
            return self.enter_with(kernel, cta, state, first_gang..end_gang);
        }
        // All lanes of some gangs, which need not be neighbours.
        let mut next = first_gang;
        let mut run = |cta: &Cta| {
            let first = (next..end_gang).find(|&gang| mask(cta, gang) != 0)?;
            let end = (first..end_gang).find(|&gang| mask(cta, gang) == 0);
            next = end.unwrap_or(end_gang);
            Some(first..next)
        };
        let Some(mut now) = run(cta) else {
            return Ok(());
        };
        while let Some(later) = run(cta) {
            // None of them may leave a barrier before the others have come.
            cta.set_go_on(&self.grid.go_on.never);
            self.enter_with(&self.grid.kernel, cta, state, now)?;
            now = later;
        }
        self.enter_with(&self.grid.kernel, cta, state, now)
    }

    #[expect(unsafe_code, reason = "enters compiled code")]
    fn enter_with(
        &mut self,
        kernel: &CompiledKernel,
        cta: &mut Cta,
        state: u32,
        gangs: Range<u32>,
    ) -> Result<(), LaunchError> {
        if self.grid.is_stopped() {
            return Err(self.grid.stop_error());
        }
        for gang in gangs.clone() {
            // What the lanes have is read now, and each stop tells anew.
            if cta.masks.slice()[gang as usize] != 0 {
                cta.unspread[gang as usize] = 0;
            }
        }
        let ctx = cta.ctx_ptr();
        // SAFETY: the grid holds the kernel; `prepare` laid the CTA out for it; no reference into
        // its buffers is held here.
        let entered = unsafe {
            self.worker
                .enter(kernel.entry(), ctx, state, gangs.start, gangs.end)
        };
        cta.end_entry();
        match entered {
            Entered::Ok => Ok(()),
            Entered::Stopped => Err(report::stopped(self.grid, cta)),
            Entered::Signal(signal) => Err(report::signal(self.grid, cta, signal)),
        }
    }
}

/// What a step did.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Progress {
    /// All threads have ended.
    Done,
    /// Some lane got further.
    Some,
    /// All lanes have made their turns of a loop.
    StripMine,
    /// Every lane that ran has yielded.
    OnlyYields,
    /// No lane can run before the barrier of the cluster is complete.
    AtCluster,
}

/// The number of the resume point in a lane's state; not for lanes that have ended.
fn point_number(state: u16) -> usize {
    usize::from(state & !LaneState::PARTIAL)
}

/// The operands of a barrier: id, count, predicate.
fn barrier_operands(op: BarrierOp, point: &ResumePoint) -> (Operand, Operand, Option<Operand>) {
    let id = point.operands.first().copied().unwrap_or(Operand::Const(0));
    let (count, pred) = match op {
        BarrierOp::Sync
        | BarrierOp::Arrive
        | BarrierOp::ClusterArrive
        | BarrierOp::ClusterWait
        | BarrierOp::Warpgroup => (point.operands.get(1), None),
        BarrierOp::RedPopc | BarrierOp::RedAnd | BarrierOp::RedOr => {
            let pred = point.operands.last().copied();
            (
                point.operands.get(1).filter(|_| point.operands.len() > 2),
                pred,
            )
        }
    };
    (id, count.copied().unwrap_or(Operand::Const(0)), pred)
}

/// One item for each resume point. Kernels that never wait have one point, and small launches of
/// them should not spend their time on allocations.
pub(crate) type PerPoint<T> = Cow<'static, [T]>;

/// What [`together`] may do when all live lanes wait at a point.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Shortcut {
    /// Only what the lane-wise scheduler does.
    None,
    /// They may all go on.
    Go,
    /// They may all go on; it is another CTA's turn.
    StripMine,
    /// They may all go on, and have yielded.
    Yield,
    /// A barrier of all threads, or of each warpgroup; they may all go on.
    Barrier,
    /// A barrier whose count is that of the whole CTA: as long as no thread has ended they may all
    /// go on.
    CountedBarrier,
    /// Arrival at the barrier of the cluster.
    ClusterArrive,
    /// Wait for the barrier of the cluster.
    ClusterWait,
    /// A warp operation; each warp's lanes may go on if they are all that the operation waits for.
    Warp,
}

/// Where compiled code may resume all gangs by itself when all have stopped as a whole: a table for
/// when no thread has ended, for when some have, and for when the lanes are not all together.
#[derive(Debug)]
pub(crate) struct GoOn {
    pub(crate) complete: PerPoint<u8>,
    pub(crate) incomplete: PerPoint<u8>,
    pub(crate) never: PerPoint<u8>,
}

impl GoOn {
    /// `in_waves`: other CTAs have their turns in between.
    pub(crate) fn new(points: &[ResumePoint], shortcuts: &[Shortcut], in_waves: bool) -> GoOn {
        if shortcuts == [Shortcut::Go] {
            return GoOn {
                complete: Cow::Borrowed(&[1]),
                incomplete: Cow::Borrowed(&[1]),
                never: Cow::Borrowed(&[0]),
            };
        }
        let table = |complete: bool| {
            let may = |(point, shortcut): (&ResumePoint, &Shortcut)| match shortcut {
                Shortcut::Go => 1,
                Shortcut::StripMine => u8::from(!in_waves),
                Shortcut::Barrier => u8::from(point.results.is_empty()),
                Shortcut::CountedBarrier => u8::from(complete && point.results.is_empty()),
                Shortcut::None | Shortcut::Yield | Shortcut::Warp => 0,
                Shortcut::ClusterArrive | Shortcut::ClusterWait => 0,
            };
            points.iter().zip(shortcuts).map(may).collect()
        };
        GoOn {
            complete: table(true),
            incomplete: table(false),
            never: vec![0; points.len()].into(),
        }
    }
}

/// Finds the shortcut for each resume point of a kernel, for CTAs of `n_warps` warps.
pub(crate) fn shortcuts(points: &[ResumePoint], n_warps: u32) -> PerPoint<Shortcut> {
    if let [
        ResumePoint {
            kind: ResumeKind::Ready,
            ..
        },
    ] = points
    {
        return Cow::Borrowed(&[Shortcut::Go]);
    }
    points
        .iter()
        .map(|point| shortcut(point, n_warps))
        .collect()
}

fn shortcut(point: &ResumePoint, n_warps: u32) -> Shortcut {
    let op = match point.kind {
        ResumeKind::Ready => return Shortcut::Go,
        ResumeKind::StripMine => return Shortcut::StripMine,
        ResumeKind::Yield => return Shortcut::Yield,
        ResumeKind::Warp { .. } => return Shortcut::Warp,
        ResumeKind::Barrier { op, .. } if op.is_cluster() => {
            return match op == BarrierOp::ClusterArrive {
                true => Shortcut::ClusterArrive,
                false => Shortcut::ClusterWait,
            };
        }
        ResumeKind::Barrier {
            op: BarrierOp::Arrive,
            ..
        } => return Shortcut::None,
        ResumeKind::Barrier {
            op: BarrierOp::Warpgroup,
            ..
        } => return Shortcut::Barrier,
        ResumeKind::Barrier { op, .. } => op,
    };
    match barrier_operands(op, point) {
        (Operand::Const(0..16), Operand::Const(0), _) => Shortcut::Barrier,
        (Operand::Const(0..16), Operand::Const(count), _) if count == 32 * u64::from(n_warps) => {
            Shortcut::CountedBarrier
        }
        (Operand::Const(_) | Operand::Slot { .. }, Operand::Const(_) | Operand::Slot { .. }, _) => {
            Shortcut::None
        }
    }
}
