//! CTA barriers: who has arrived, and when the waiting lanes may go on.
//!
//! A warp arrives at a barrier once each of its lanes that has not ended has executed a barrier
//! instruction with that id, whichever instruction it was; it then counts as 32 threads, a partial
//! last warp too. Without a count a barrier waits for every warp that has not ended. A completed
//! barrier resets before its waiters run, so the same id can be used again at once. See "Parallel
//! Synchronization and Communication Instructions: bar, barrier" in the PTX ISA.
//!
//! The warps of a warpgroup wait for each other at a barrier of their own, of which the other warps
//! are no part.

use ptxjit_ir::{BarrierOp, WARPS_OF_WARPGROUP};

/// Number of barriers of a CTA that programs name.
pub(crate) const N_NAMED: usize = 16;

/// Most warps that a CTA can have.
pub(crate) const MAX_WARPS: usize = 32;

/// Number of barriers of a CTA: those that programs name, then one of each warpgroup.
pub(crate) const N_BARRIERS: usize = N_NAMED + MAX_WARPS / WARPS_OF_WARPGROUP;

/// The barrier of a warp's warpgroup.
pub(crate) fn of_warpgroup(warp: usize) -> usize {
    N_NAMED + warp / WARPS_OF_WARPGROUP
}

/// Of the lanes that have not ended, those that a barrier waits for: all, or those of its
/// warpgroup.
pub(crate) fn live_at(id: usize, mut live: WarpMasks) -> WarpMasks {
    if id >= N_NAMED {
        let is_other = |&(warp, _): &(usize, &mut u32)| of_warpgroup(warp) != id;
        let others = live.iter_mut().enumerate().filter(is_other);
        others.for_each(|(_, live)| *live = 0);
    }
    live
}

/// Threads of a warp.
const WARP: u32 = 32;

/// Per warp: a mask of lanes.
pub(crate) type WarpMasks = [u32; MAX_WARPS];

/// One barrier.
#[derive(Clone, Debug)]
pub(crate) struct Barrier {
    /// Lanes that wait.
    pub(crate) waiting: WarpMasks,
    /// Lanes that arrived without waiting.
    arrived: WarpMasks,
    /// Threads that it waits for; 0: all.
    count: u32,
    /// No lane has arrived since the last reset.
    idle: bool,
}

impl Default for Barrier {
    fn default() -> Barrier {
        Barrier {
            waiting: [0; MAX_WARPS],
            arrived: [0; MAX_WARPS],
            count: 0,
            idle: true,
        }
    }
}

impl Barrier {
    /// Lanes of a warp execute a barrier instruction.
    pub(crate) fn arrive(&mut self, op: BarrierOp, warp: usize, lanes: u32, count: u32) {
        if self.idle {
            // Later arrivals must name the same count, see `conflict`.
            self.count = count;
            self.idle = false;
        }
        match op {
            BarrierOp::Arrive => self.arrived[warp] |= lanes,
            BarrierOp::Sync
            | BarrierOp::RedPopc
            | BarrierOp::RedAnd
            | BarrierOp::RedOr
            | BarrierOp::Warpgroup => self.waiting[warp] |= lanes,
            BarrierOp::ClusterArrive | BarrierOp::ClusterWait => {
                unreachable!("the cluster's barrier is none of the CTA's")
            }
        }
    }

    /// What is wrong with an arrival with this count, in a CTA of so many warps: counts are of
    /// whole warps, and all who meet name the same. No count means all of the CTA.
    pub(crate) fn conflict(&self, count: u32, n_warps: usize) -> Option<String> {
        if !count.is_multiple_of(WARP) {
            return Some(format!(
                "a count of {count} threads is no multiple of {WARP}"
            ));
        }
        let all = WARP * n_warps as u32;
        let named = |count| if count == 0 { all } else { count };
        let (mine, theirs) = (named(count), named(self.count));
        (!self.idle && mine != theirs).then(|| {
            format!("a count of {mine} threads, where others that are there have named {theirs}")
        })
    }

    /// Whether no lane is at the barrier.
    pub(crate) fn is_idle(&self) -> bool {
        self.idle
    }

    /// If the barrier is complete, resets it and returns the lanes that may go on, per warp. `live`
    /// holds the lanes that have not ended, of `n_warps` warps.
    pub(crate) fn complete(&mut self, live: &[u32]) -> Option<WarpMasks> {
        if self.idle {
            return None;
        }
        let here = |warp: usize| self.waiting[warp] | self.arrived[warp];
        let whole = |warp: usize| here(warp) != 0 && live[warp] & !here(warp) == 0;
        let n_whole = (0..live.len()).filter(|&warp| whole(warp)).count();
        let needed = match self.count {
            0 if (0..live.len()).all(|warp| live[warp] == 0 || whole(warp)) => n_whole,
            0 => return None,
            count => count.div_ceil(32) as usize,
        };
        if n_whole < needed.max(1) {
            return None;
        }
        let going: Vec<usize> = (0..live.len())
            .filter(|&warp| whole(warp))
            .take(needed)
            .collect();
        Some(self.release(&going, live.len()))
    }

    fn release(&mut self, warps: &[usize], n_warps: usize) -> WarpMasks {
        let mut released = [0; MAX_WARPS];
        for &warp in warps {
            released[warp] = std::mem::take(&mut self.waiting[warp]);
            self.arrived[warp] = 0;
        }
        // Warps beyond the count belong to the next phase.
        self.idle = (0..n_warps).all(|warp| self.waiting[warp] | self.arrived[warp] == 0);
        released
    }

    /// Number of threads that the barrier waits for, and that have arrived, for reports.
    pub(crate) fn progress(&self, live: &[u32]) -> (u32, u32) {
        let here: u32 = (0..live.len())
            .map(|warp| (self.waiting[warp] | self.arrived[warp]).count_ones())
            .sum();
        let expected = if self.count == 0 {
            live.iter().map(|lanes| lanes.count_ones()).sum()
        } else {
            self.count
        };
        (expected, here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u32 = u32::MAX;

    #[test]
    fn waits_for_every_lane_of_every_warp() {
        let mut barrier = Barrier::default();
        let live = [ALL, 0x1f];
        barrier.arrive(BarrierOp::Sync, 0, 0xffff, 0);
        barrier.arrive(BarrierOp::Sync, 1, 0x1f, 0);
        assert_eq!(barrier.complete(&live), None);
        barrier.arrive(BarrierOp::Sync, 0, 0xffff_0000, 0);
        let released = barrier.complete(&live).unwrap();
        assert_eq!(&released[..2], &[ALL, 0x1f]);
        assert!(barrier.is_idle() && barrier.complete(&live).is_none());
    }

    #[test]
    fn ended_lanes_and_warps_are_not_waited_for() {
        let mut barrier = Barrier::default();
        barrier.arrive(BarrierOp::Sync, 0, 0x0f, 0);
        assert_eq!(barrier.complete(&[0x1f, ALL]), None);
        assert_eq!(barrier.complete(&[0x0f, ALL]), None);
        assert_eq!(barrier.complete(&[0x0f, 0]).unwrap()[0], 0x0f);
    }

    #[test]
    fn arrive_does_not_wait_and_counts() {
        let mut barrier = Barrier::default();
        let live = [ALL; 3];
        barrier.arrive(BarrierOp::Arrive, 0, ALL, 64);
        assert_eq!(barrier.complete(&live), None);
        barrier.arrive(BarrierOp::Sync, 2, ALL, 64);
        let released = barrier.complete(&live).unwrap();
        assert_eq!(&released[..3], &[0, 0, ALL]);
    }

    #[test]
    fn an_arrived_warp_counts_after_it_ended() {
        let mut barrier = Barrier::default();
        barrier.arrive(BarrierOp::Arrive, 0, ALL, 64);
        barrier.arrive(BarrierOp::Sync, 1, ALL, 64);
        assert_eq!(barrier.complete(&[0, ALL]).unwrap()[1], ALL);
    }

    #[test]
    fn warpgroups_wait_for_their_own_warps() {
        let mut live = [0; MAX_WARPS];
        live[..6].copy_from_slice(&[ALL, 0, ALL, ALL, ALL, 0x3]);
        let id = of_warpgroup(3);
        assert_eq!((id, of_warpgroup(4)), (N_NAMED, N_NAMED + 1));
        let mut barrier = Barrier::default();
        for warp in [3, 0] {
            barrier.arrive(BarrierOp::Warpgroup, warp, ALL, 0);
            assert_eq!(barrier.complete(&live_at(id, live)[..6]), None);
        }
        barrier.arrive(BarrierOp::Warpgroup, 2, ALL, 0);
        let released = barrier.complete(&live_at(id, live)[..6]).unwrap();
        assert_eq!(&released[..6], &[ALL, 0, ALL, ALL, 0, 0]);
    }

    #[test]
    fn partial_warps_count_as_32_and_surplus_warps_stay() {
        let mut barrier = Barrier::default();
        let live = [ALL, ALL, 0x3];
        for (warp, &lanes) in live.iter().enumerate() {
            barrier.arrive(BarrierOp::Sync, warp, lanes, 64);
        }
        assert_eq!(&barrier.complete(&live).unwrap()[..3], &[ALL, ALL, 0]);
        assert!(!barrier.is_idle() && barrier.complete(&live).is_none());
        barrier.arrive(BarrierOp::Sync, 0, ALL, 64);
        assert_eq!(&barrier.complete(&live).unwrap()[..3], &[ALL, 0, 0x3]);
        assert!(barrier.is_idle());
    }
}
