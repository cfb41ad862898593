//! How the lanes of an access lie: chosen once for each access in each version of its node.

use ptxjit_abi::warp_ops::WARP;
use ptxjit_ir::{Access, Space, Value};
use ptxjit_vectorize::Variability;

use super::{Assumed, Decisions};

/// How the lanes of a load or a store lie.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum AccessKind {
    /// Only one lane accesses memory.
    Lane,
    /// All lanes access one place.
    Broadcast,
    /// Each lane accesses its own local memory.
    Local,
    /// The lanes are so many bytes apart, unless an index may have wrapped, which is tested.
    Strided { bytes: i64, may_wrap: bool },
    /// The lanes, or those of each quad, are probably contiguous: a guard at run time confirms it.
    Guarded,
    /// Each lane is elsewhere.
    Scattered,
}

impl Decisions<'_> {
    /// How the lanes of an access lie.
    pub(super) fn access_kind(&mut self, access: Access, assumed: Assumed<'_>) -> AccessKind {
        match self.is_guarded(access, assumed) {
            true => AccessKind::Guarded,
            false => self.proved_kind(access, assumed),
        }
    }

    /// How the lanes of an access lie by what is proved.
    pub(crate) fn proved_kind(&self, access: Access, assumed: Assumed<'_>) -> AccessKind {
        if self.plan.gang == 1 || assumed.one_lane {
            return AccessKind::Lane;
        }
        match self.variability(access.addr, assumed) {
            _ if access.space == Space::Local => AccessKind::Local,
            Variability::Uniform => AccessKind::Broadcast,
            // Marks are above the bits that count in a window.
            Variability::Affine {
                stride, may_wrap, ..
            } => AccessKind::Strided {
                bytes: stride,
                may_wrap: may_wrap.is_some() && !access.space.is_window(),
            },
            Variability::Varying => AccessKind::Scattered,
        }
    }

    /// Whether the lanes are probably contiguous, so that the guard pays.
    fn is_guarded(&mut self, access: Access, assumed: Assumed<'_>) -> bool {
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

    /// Whether an access is in code that runs only in CTAs in which it passes its tests in all
    /// threads.
    pub(crate) fn is_tested_before(&self, access: Access, assumed: Assumed<'_>) -> bool {
        let key = (access.addr, access.offset, access.bytes);
        assumed.is_proven && self.cta_ranges.tested.contains(&key)
    }
}
