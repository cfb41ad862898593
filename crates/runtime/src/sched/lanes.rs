//! The lane-wise state of a CTA: which lanes can run, which wait, and for what. Masks are kept per
//! warp.

use ptxjit_ir::BarrierOp;

use crate::sched::barrier::{Barrier, MAX_WARPS, N_BARRIERS, WarpMasks};
use crate::sched::cta::low_bits;

/// See the module. A lane is in exactly one of `ready`, `yielded`, `in_warp_op`, `at_cluster`, or
/// waiting at a barrier, or has ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lanes {
    /// Lanes that have not ended.
    pub(crate) live: WarpMasks,
    /// Lanes that can be entered at their state.
    pub(crate) ready: WarpMasks,
    /// Lanes that can be entered in the next round.
    pub(crate) yielded: WarpMasks,
    /// Lanes that wait for a warp operation.
    pub(crate) in_warp_op: WarpMasks,
    /// Lanes that wait for the barrier of the cluster.
    pub(crate) at_cluster: WarpMasks,
    /// Barriers.
    pub(crate) barriers: [Barrier; N_BARRIERS],
    /// Barriers that are not idle.
    pub(crate) active_barriers: u32,
    /// Warps of the CTA.
    pub(crate) n_warps: usize,
}

impl Lanes {
    /// All lanes of a CTA of `n_threads` are ready.
    pub(crate) fn start(&mut self, n_threads: u32) {
        self.reset(n_threads);
        self.ready = self.live;
    }

    /// All lanes are live and in no set yet.
    pub(crate) fn reset(&mut self, n_threads: u32) {
        self.n_warps = n_threads.div_ceil(32) as usize;
        self.live = [0; MAX_WARPS];
        for (warp, live) in self.live.iter_mut().enumerate().take(self.n_warps) {
            *live = low_bits(n_threads - warp as u32 * 32);
        }
        (self.ready, self.yielded) = ([0; MAX_WARPS], [0; MAX_WARPS]);
        (self.in_warp_op, self.at_cluster) = ([0; MAX_WARPS], [0; MAX_WARPS]);
        for id in 0..N_BARRIERS {
            if self.active_barriers >> id & 1 != 0 {
                self.barriers[id] = Barrier::default();
            }
        }
        self.active_barriers = 0;
    }

    /// Lanes of a warp execute an instruction on a barrier.
    pub(crate) fn arrive(&mut self, id: usize, op: BarrierOp, at: (usize, u32), count: u32) {
        let (warp, lanes) = at;
        self.barriers[id].arrive(op, warp, lanes, count);
        self.active_barriers |= 1 << id;
    }

    /// Whether every live lane is ready and nothing else is going on.
    pub(crate) fn all_ready(&self) -> bool {
        self.active_barriers == 0
            && (0..self.n_warps).all(|warp| self.ready[warp] == self.live[warp])
    }

    /// Whether all lanes have ended.
    pub(crate) fn is_done(&self) -> bool {
        self.live[..self.n_warps].iter().all(|&lanes| lanes == 0)
    }

    /// Whether any lane is in a set.
    pub(crate) fn any(set: &WarpMasks) -> bool {
        set.iter().any(|&lanes| lanes != 0)
    }
}
