//! How a gang carries out an atomic: chosen once in each version of its node.

use ptxjit_ir::{AtomicFmt, AtomicOp, FloatFmt, Inst, InstData, IntBinaryOp, Space, Type};
use ptxjit_vectorize::Variability;

use super::{Assumed, Decisions};

/// An atomic without its operands.
#[derive(Copy, Clone)]
pub(crate) struct Rmw {
    pub op: AtomicOp,
    pub fmt: AtomicFmt,
    pub space: Space,
}

/// How the lanes of an atomic update memory.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum AtomicKind {
    /// Only one lane does.
    Lane,
    /// All at one place, in one operation with their combined operands.
    Combined(IntBinaryOp),
    /// All add one number at one place, in one operation: each gets the sum before it.
    Tickets,
    /// All at one place, which is read and written once.
    InOrder,
    /// Contiguous rows share compare-and-swaps, if all lanes run and the rows are aligned.
    Rows(Update),
    /// Lane after lane, unrolled if all lanes run.
    Unrolled,
    /// Lane after lane, in a loop.
    Loop,
}

/// How a row of elements is updated.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Update {
    Int(IntBinaryOp, Type),
    Sum(FloatFmt),
}

impl Rmw {
    pub(crate) fn of(data: &InstData) -> Option<Rmw> {
        let InstData::Atomic { op, fmt, space, .. } = *data else {
            return None;
        };
        Some(Rmw { op, fmt, space })
    }

    /// On memory of the CTA, which never runs on two workers at once: it needs no locked
    /// instructions.
    pub(crate) fn is_shared(self) -> bool {
        matches!(self.space, Space::Shared | Space::SharedCluster)
    }

    /// Whether [`Emitter::update`](crate::ops::Emitter::update) supports it. Where the hardware
    /// flushes subnormals, it supports only additions that have to flush them.
    pub(crate) fn has_update(self, flush_denormals: bool) -> bool {
        match (self.op, self.fmt) {
            (AtomicOp::Add, AtomicFmt::F32) if flush_denormals => self.space == Space::Global,
            (AtomicOp::Add | AtomicOp::Min | AtomicOp::Max, fmt) if fmt.is_float() => {
                !flush_denormals
            }
            _ => true,
        }
    }

    /// The op that combines operands before the element is updated, for ops whose order does not
    /// matter.
    fn combining(self) -> Option<IntBinaryOp> {
        self.int_op().filter(|_| self.fmt.ty() >= Type::B32)
    }

    /// The op on integers that makes the new element from the old one and the operand.
    pub(crate) fn int_op(self) -> Option<IntBinaryOp> {
        if self.fmt.is_float() {
            return None;
        }
        let signed = matches!(self.fmt, AtomicFmt::S32 | AtomicFmt::S64);
        match self.op {
            AtomicOp::Add => Some(IntBinaryOp::Add),
            AtomicOp::And => Some(IntBinaryOp::And),
            AtomicOp::Or => Some(IntBinaryOp::Or),
            AtomicOp::Xor => Some(IntBinaryOp::Xor),
            AtomicOp::Min if signed => Some(IntBinaryOp::Smin),
            AtomicOp::Min => Some(IntBinaryOp::Umin),
            AtomicOp::Max if signed => Some(IntBinaryOp::Smax),
            AtomicOp::Max => Some(IntBinaryOp::Umax),
            AtomicOp::Exch | AtomicOp::Cas | AtomicOp::Inc | AtomicOp::Dec => None,
        }
    }

    /// How a row of elements is updated at once.
    fn of_rows(self) -> Option<Update> {
        use AtomicFmt::{F32, F64, S32, S64, U32, U64};
        Some(match (self.op, self.fmt) {
            // Whether subnormals are flushed depends on the space.
            (AtomicOp::Add, F32) if self.space == Space::Global => Update::Sum(FloatFmt::F32),
            (AtomicOp::Add, F64) => Update::Sum(FloatFmt::F64),
            (AtomicOp::Min, U32 | U64) => Update::Int(IntBinaryOp::Umin, self.fmt.ty()),
            (AtomicOp::Max, U32 | U64) => Update::Int(IntBinaryOp::Umax, self.fmt.ty()),
            (AtomicOp::Min, S32 | S64) => Update::Int(IntBinaryOp::Smin, self.fmt.ty()),
            (AtomicOp::Max, S32 | S64) => Update::Int(IntBinaryOp::Smax, self.fmt.ty()),
            _ => return None,
        })
    }
}

impl Decisions<'_> {
    /// How a gang carries out an atomic; `None` for other instructions.
    pub(super) fn atomic_kind(&self, inst: Inst, assumed: Assumed<'_>) -> Option<AtomicKind> {
        let data = &self.func.insts[inst].data;
        let (rmw, addr) = (Rmw::of(data)?, data.address()?);
        if self.plan.gang == 1 || assumed.one_lane {
            return Some(AtomicKind::Lane);
        }
        let together = match self.variability(addr, assumed) {
            _ if rmw.space == Space::Local => None,
            Variability::Uniform => self.at_one_place(inst, rmw, assumed),
            Variability::Affine { stride, .. } => self.by_rows(rmw, stride, assumed),
            Variability::Varying => None,
        };
        // Other operations take longer than the loop around them.
        let is_plain = rmw.is_shared() && self.has_update(rmw);
        let alone = match is_plain && !assumed.is_general {
            true => AtomicKind::Unrolled,
            false => AtomicKind::Loop,
        };
        Some(together.unwrap_or(alone))
    }

    fn has_update(&self, rmw: Rmw) -> bool {
        rmw.has_update(self.inputs.flush_denormals)
    }

    /// The operations of all running lanes on one element, as if in sequence, in ascending order;
    /// `None` if they must be.
    fn at_one_place(&self, inst: Inst, rmw: Rmw, assumed: Assumed<'_>) -> Option<AtomicKind> {
        let node = &self.func.insts[inst];
        let is_used = (node.results.first()).is_some_and(|&result| self.is_used[result]);
        let operand = self.variability(node.data.args()[1], assumed);
        match rmw.combining() {
            Some(op) if !is_used => Some(AtomicKind::Combined(op)),
            Some(IntBinaryOp::Add) if rmw.fmt.ty() == Type::B32 => {
                (operand == Variability::Uniform).then_some(AtomicKind::Tickets)
            }
            Some(_) => None,
            None => (!is_used && self.has_update(rmw)).then_some(AtomicKind::InOrder),
        }
    }

    /// The operations of contiguous lanes by rows, if there are such compare-and-swaps.
    fn by_rows(&self, rmw: Rmw, stride: i64, assumed: Assumed<'_>) -> Option<AtomicKind> {
        let is_row = stride == i64::from(rmw.fmt.ty().bytes());
        let is_possible = !rmw.is_shared() && !assumed.is_general && self.has_update(rmw);
        (is_row && is_possible && self.inputs.target.wide_cas)
            .then(|| rmw.of_rows().map(AtomicKind::Rows))?
    }
}
