//! Accesses that are probably contiguous, which a guard at run time confirms.

use ptxjit_abi::warp_ops::WARP;
use ptxjit_ir::{Access, Space, Value};
use ptxjit_vectorize::Variability;

use super::{Assumed, Decisions};

impl Decisions<'_> {
    /// Whether the lanes are probably contiguous, so that the guard pays.
    pub(crate) fn is_speculated_contiguous(
        &mut self,
        access: Access,
        assumed: Assumed<'_>,
    ) -> bool {
        let Access { space, addr, .. } = access;
        let size = i64::from(access.bytes);
        let varies = self.variability(addr, assumed) == Variability::Varying && self.plan.gang > 4;
        // Each lane has local memory of its own. Quads consist of words or pairs.
        let by_quads = space.is_window() && matches!(size, 4 | 8);
        let is_known = by_quads && self.quad_step(addr, assumed).map(i64::from) == Some(size);
        let is_common =
            space != Space::Local && (self.plan.speculated[addr] == Some(size) || is_known);
        // Any access among shared variables may serve inactive lanes.
        let is_whole = by_quads && i64::from(self.inputs.shared.static_size) >= size;
        let may_run = space == Space::Shared && is_whole || !assumed.is_general;
        let is_watched = self.inputs.memcheck && self.inputs.foreign;
        varies && is_common && may_run && !assumed.is_cold && !is_watched
    }

    /// The stride of an address within each quad, if it is known.
    pub(crate) fn quad_step(&mut self, value: Value, assumed: Assumed<'_>) -> Option<i32> {
        let runs_whole = self.plan.gang as usize == WARP && !assumed.one_lane;
        runs_whole.then(|| self.patterns.quad_step(value))?
    }
}
