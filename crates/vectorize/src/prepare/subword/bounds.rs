//! Numbers of the launch with which narrow values are compared.
//!
//! `pixel > threshold` compares bytes with a parameter that may be any number of 32 bits, so each
//! lane would be widened for it. Clamped to just outside of the range of the lanes, the parameter
//! gives the same results and is as narrow as they are; it is one scalar.
//!
//! ```text
//! v2 = sgt.b32 v0, v1    ; v0 in 0..=255
//! =>
//! v3 = smax.b32 v1, -1; v4 = smin.b32 v3, 256; v2 = sgt.b32 v0, v4
//! ```

use ptxjit_ir::{Class, CompareOp, Function, InstData, IntBinaryOp, SharedBy, Space, Type, Value};
use smallvec::SmallVec;

use super::intervals::Span;
use crate::cost;

/// How the number that a comparison's operand is compared with is clamped.
pub(super) struct Clamp {
    /// Which operand it is.
    pub idx: usize,
    /// Operations with these constants.
    pub steps: SmallVec<[(IntBinaryOp, i64); 2]>,
    /// Where it lies then.
    pub span: Span,
}

/// Finds how to clamp an operand of a comparison whose other operand, `x`, lies in a span. `None`
/// if that is no number of the launch.
pub(super) fn clamp(func: &Function, data: &InstData, x: usize, span: Span) -> Option<Clamp> {
    let (op, Type::B32, args) = data.as_compare()? else {
        return None;
    };
    let idx = 1 - x;
    if !is_of_launch(func, args[idx], cost::DEPTH_TO_RECOMPUTE) {
        return None;
    }
    let (below, above) = (span.lo - 1, span.hi + 1);
    let (steps, span): (SmallVec<_>, _) = match op {
        CompareOp::Ult | CompareOp::Ule | CompareOp::Ugt | CompareOp::Uge if span.lo >= 0 => {
            let steps = [(IntBinaryOp::Umin, above)];
            (SmallVec::from_slice(&steps), Span::new(0, above))
        }
        CompareOp::Ult | CompareOp::Ule | CompareOp::Ugt | CompareOp::Uge => return None,
        CompareOp::Eq
        | CompareOp::Ne
        | CompareOp::Slt
        | CompareOp::Sle
        | CompareOp::Sgt
        | CompareOp::Sge => {
            let steps = [(IntBinaryOp::Smax, below), (IntBinaryOp::Smin, above)];
            (SmallVec::from_buf(steps), Span::new(below, above))
        }
    };
    Some(Clamp { idx, steps, span })
}

/// Whether all threads of a CTA compute the same number, from parameters and from the CTA's place.
fn is_of_launch(func: &Function, value: Value, depth: u32) -> bool {
    let Some(depth) = depth.checked_sub(1) else {
        return false;
    };
    let Some(data) = func.def_inst(value) else {
        return false;
    };
    if let InstData::Sreg { sreg } = data {
        return sreg.shared_by() == SharedBy::Cta && !sreg.is_volatile();
    }
    let is_own = matches!(data.class(), Class::Constant | Class::Arithmetic)
        || matches!(
            data,
            InstData::Load {
                space: Space::Param,
                ..
            }
        );
    let mut args = data.args().into_iter();
    is_own && args.all(|arg| is_of_launch(func, arg, depth))
}
