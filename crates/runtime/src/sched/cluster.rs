//! The CTAs of a cluster, which run in turns on one worker, and the barrier on which they wait for
//! each other.
//!
//! A thread arrives once in a phase and then waits for it, once. A phase is complete when all
//! threads of the cluster that have not ended have arrived. PTX ISA, "Parallel Synchronization and
//! Communication Instructions: barrier.cluster".

use ptxjit_abi::ResumePoint;

use super::barrier::WarpMasks;
use super::cta::{Cta, Phase};
use super::lane_wise::live_lanes;
use super::lanes::Lanes;
use super::{Outcome, Runner, report};
use crate::error::{LaunchError, TrapCause};
use crate::memory::ClusterWindow;
use crate::thread;

/// Rounds of nothing but yielding of a CTA before it is the next one's turn.
const PATIENCE: u32 = 2;

/// A cluster in flight.
pub(crate) struct Cluster {
    /// By rank; their contexts point at the window.
    #[expect(clippy::vec_box, reason = "a context does not move while its CTA runs")]
    pub(crate) ctas: Vec<Box<Cta>>,
    /// None if there is one CTA, which has a window of its own.
    pub(crate) shared: Option<Box<ClusterWindow>>,
    /// CTAs that have not ended, by rank.
    pub(crate) is_live: Vec<bool>,
}

impl Runner<'_> {
    /// Runs a cluster until it is done or has only yielded for `patience` rounds on end; says
    /// whether any lane got further.
    pub(crate) fn run_cluster(
        &mut self,
        cluster: &mut Cluster,
        patience: u32,
    ) -> Result<(Outcome, bool), LaunchError> {
        let (mut idle_rounds, mut any_progress) = (0, false);
        loop {
            let (progress, spins) = self.cluster_round(cluster)?;
            if !cluster.is_live.contains(&true) {
                return Ok((Outcome::Done, true));
            }
            if progress {
                (idle_rounds, any_progress) = (0, true);
                continue;
            }
            if !spins {
                return Err(report::cluster_deadlock(self.grid, cluster));
            }
            idle_rounds += 1;
            if idle_rounds >= patience {
                if thread::complete_any(self.grid, cluster.ctas[0].ctx())? {
                    (idle_rounds, any_progress) = (0, true);
                    continue;
                }
                return Ok((Outcome::Spinning, any_progress));
            }
        }
    }

    /// Every CTA that has not ended has its turn. Whether any lane got further, and whether any
    /// spins.
    fn cluster_round(&mut self, cluster: &mut Cluster) -> Result<(bool, bool), LaunchError> {
        let (mut any_progress, mut spins) = (false, false);
        let n = cluster.ctas.len();
        let first = self.rng.as_mut().map_or(0, |rng| rng.below(n as u32)) as usize;
        for rank in (0..n).map(|turn| (first + turn) % n) {
            if !cluster.is_live[rank] {
                continue;
            }
            let (outcome, progress) = self.run(&mut cluster.ctas[rank], PATIENCE)?;
            any_progress |= progress;
            match outcome {
                Outcome::Done => {
                    thread::finish(self.grid, cluster.ctas[rank].ctx())?;
                    if let Some(leak) = cluster.ctas[rank].tensor.leak() {
                        return Err(self.grid.leaked(&leak));
                    }
                    cluster.end(rank)?;
                }
                Outcome::Spinning | Outcome::StripMine => spins = true,
                Outcome::AtCluster => {}
            }
            any_progress |= cluster.complete_barrier();
        }
        Ok((any_progress, spins))
    }

    /// Lanes arrive at the barrier of the cluster: those of one warp, or all.
    pub(super) fn arrive_at_cluster(
        &self,
        cta: &mut Cta,
        point: &ResumePoint,
        group: Option<(usize, u32)>,
    ) -> Result<(), LaunchError> {
        for (warp, lanes) in groups(cta, group) {
            let at = &mut cta.at_cluster;
            let twice = (at.arrived[warp] | at.passed[warp]) & lanes;
            at.arrived[warp] |= lanes;
            if twice != 0 {
                let why =
                    "arrives at the barrier of the cluster a second time without having waited";
                return Err(self.misuse(cta, point, warp, twice, why));
            }
        }
        Ok(())
    }

    /// All live lanes wait for the barrier of the cluster: whether they may go on.
    pub(super) fn wait_for_cluster(
        &self,
        cta: &mut Cta,
        point: &ResumePoint,
    ) -> Result<bool, LaunchError> {
        let live = live_lanes(cta);
        for (warp, lanes) in groups(cta, None) {
            self.check_arrived(cta, point, warp, lanes)?;
        }
        if !pairs(&live, &cta.at_cluster.passed).all(|(live, passed)| live & !passed == 0) {
            return Ok(false);
        }
        remove(&mut cta.at_cluster.passed, &live);
        Ok(true)
    }

    /// Some lanes wait for the barrier of the cluster.
    pub(super) fn lanes_at_cluster(
        &self,
        cta: &mut Cta,
        point: &ResumePoint,
        warp: usize,
        group: u32,
    ) -> Result<(), LaunchError> {
        self.check_arrived(cta, point, warp, group)?;
        let go = group & cta.at_cluster.passed[warp];
        cta.at_cluster.passed[warp] &= !go;
        cta.lanes.ready[warp] |= go;
        cta.lanes.at_cluster[warp] |= group & !go;
        Ok(())
    }

    fn check_arrived(
        &self,
        cta: &Cta,
        point: &ResumePoint,
        warp: usize,
        lanes: u32,
    ) -> Result<(), LaunchError> {
        let at = &cta.at_cluster;
        match lanes & !(at.arrived[warp] | at.passed[warp]) {
            0 => Ok(()),
            missing => {
                let why = "waits for the barrier of the cluster without having arrived";
                Err(self.misuse(cta, point, warp, missing, why))
            }
        }
    }

    fn misuse(
        &self,
        cta: &Cta,
        point: &ResumePoint,
        warp: usize,
        lanes: u32,
        why: &str,
    ) -> LaunchError {
        let thread = warp as u32 * 32 + lanes.trailing_zeros();
        let cause = TrapCause::ClusterBarrier { why: why.into() };
        report::of_thread(self.grid, cta, thread, point.loc, cause)
    }
}

impl Cluster {
    /// All threads of a CTA have ended. While others of the cluster run, nothing may access its
    /// shared memory.
    fn end(&mut self, rank: usize) -> std::io::Result<()> {
        self.is_live[rank] = false;
        match &self.shared {
            Some(shared) if self.is_live.contains(&true) => shared.end(rank as u32),
            Some(_) | None => Ok(()),
        }
    }

    /// Begins the next phase of the barrier if all have arrived. Whether they have.
    fn complete_barrier(&mut self) -> bool {
        let mut live = self.ctas.iter().zip(&self.is_live);
        let is_missing = |cta: &Cta| {
            let live = live_now(cta);
            pairs(&live, &cta.at_cluster.arrived).any(|(live, arrived)| live & !arrived != 0)
        };
        let has_arrived = |cta: &Cta| Lanes::any(&cta.at_cluster.arrived);
        let missing = live.any(|(cta, &is_live)| is_live && is_missing(cta));
        if missing || !self.ctas.iter().any(|cta| has_arrived(cta)) {
            return false;
        }
        for cta in &mut self.ctas {
            release(cta);
        }
        true
    }

    /// Threads of the cluster that have arrived at its barrier, and those that must.
    pub(super) fn progress(&self) -> (u32, u32) {
        let count = |masks: &WarpMasks| masks.iter().map(|lanes| lanes.count_ones()).sum::<u32>();
        let live = self
            .ctas
            .iter()
            .zip(&self.is_live)
            .filter(|(_, live)| **live);
        live.fold((0, 0), |(arrived, all), (cta, _)| {
            let live = live_now(cta);
            (arrived + count(&cta.at_cluster.arrived), all + count(&live))
        })
    }
}

/// The phase is complete: lanes that wait go on, the others will not have to wait.
fn release(cta: &mut Cta) {
    let at = &mut cta.at_cluster;
    for (passed, arrived) in at.passed.iter_mut().zip(&mut at.arrived) {
        *passed |= std::mem::take(arrived);
    }
    match cta.phase {
        Phase::AtCluster(state) => {
            let live = live_lanes(cta);
            remove(&mut cta.at_cluster.passed, &live);
            cta.phase = Phase::Together(state);
        }
        Phase::LaneWise => {
            let waiting = std::mem::take(&mut cta.lanes.at_cluster);
            remove(&mut cta.at_cluster.passed, &waiting);
            for (ready, waiting) in cta.lanes.ready.iter_mut().zip(waiting) {
                *ready |= waiting;
            }
        }
        Phase::Together(_) => {}
    }
}

/// Lanes that have not ended.
fn live_now(cta: &Cta) -> WarpMasks {
    match cta.phase {
        Phase::Together(_) | Phase::AtCluster(_) => live_lanes(cta),
        Phase::LaneWise => cta.lanes.live,
    }
}

/// The lanes of one warp, or all live ones.
fn groups(cta: &Cta, group: Option<(usize, u32)>) -> Vec<(usize, u32)> {
    match group {
        Some(group) => vec![group],
        None => live_lanes(cta).into_iter().enumerate().collect(),
    }
}

fn pairs<'a>(a: &'a WarpMasks, b: &'a WarpMasks) -> impl Iterator<Item = (u32, u32)> + 'a {
    a.iter().copied().zip(b.iter().copied())
}

fn remove(from: &mut WarpMasks, lanes: &WarpMasks) {
    for (from, lanes) in from.iter_mut().zip(lanes) {
        *from &= !lanes;
    }
}
