//! Where lanes wait, and what they leave for the runtime there.

use ptxjit_ir::{BarrierOp, SrcLoc, Type, WarpOp};
use serde::{Deserialize, Serialize};

/// A value that the runtime needs of a waiting lane.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Operand {
    /// The same for all lanes.
    Const(u64),
    /// In a slot.
    Slot {
        /// Offset in the gang's frame.
        offset: u32,
        /// Type of the element.
        ty: Type,
    },
}

/// What lanes at a resume point wait for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ResumeKind {
    /// Nothing (a call or a return continues here).
    Ready,
    /// Nothing; but it is good for the caches if other threads now come as far.
    StripMine,
    /// Another thread's progress: the lane spun for a while. `nanosleep` too.
    Yield,
    /// A CTA barrier. Operands: id, count (0: all threads), predicate (for reductions); results as
    /// the op has.
    Barrier {
        /// Which.
        op: BarrierOp,
        /// `.aligned` or `bar.`.
        aligned: bool,
    },
    /// A warp operation. Operands: the op's, then the member mask if `sync`.
    Warp {
        /// Which.
        op: WarpOp,
        /// Has a member mask.
        sync: bool,
        /// Operand type (of `match`).
        ty: Type,
    },
}

/// A place where lanes wait and are resumed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResumePoint {
    /// What for.
    pub kind: ResumeKind,
    /// The PTX statement.
    pub loc: SrcLoc,
    /// What the runtime reads.
    pub operands: Vec<Operand>,
    /// What the runtime writes before resuming: (slot offset, type).
    pub results: Vec<(u32, Type)>,
    /// Slots that must be equal among lanes resumed together.
    pub uniforms: Vec<(u32, Type)>,
    /// Slots that only the first lane fills where a gang stopped as a whole: the others have the
    /// same value.
    pub shared: Vec<(u32, Type)>,
    /// Whether code counts on all lanes of the warp that have not ended going on together.
    pub is_whole: bool,
}

impl ResumePoint {
    /// Whether the runtime reads values of the lanes.
    pub fn reads_slots(&self) -> bool {
        let is_slot = |operand: &Operand| matches!(operand, Operand::Slot { .. });
        self.operands.iter().any(is_slot)
    }
}
