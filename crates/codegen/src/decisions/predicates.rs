//! Which predicates are held as bits: those that compare affine values with uniform ones, and logic
//! on them (`lower/state/predicates.rs`).

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{CompareOp, Function, InstData, IntBinaryOp, IntUnaryOp, Type, Value};
use ptxjit_vectorize::{Plan, Variability};

/// `affine op bound`, one result per lane.
#[derive(Copy, Clone)]
pub(crate) struct AffineCompare {
    pub op: CompareOp,
    pub ty: Type,
    pub affine: Value,
    /// Difference from lane to lane, and from the first to the last.
    pub stride: i64,
    pub span: i64,
    pub bound: Value,
    /// The lanes are known to be in order.
    pub in_order: bool,
}

/// The predicates that are held as bits.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are held as lanes")]
pub(crate) fn in_bits(func: &Function, plan: &Plan) -> SecondaryMap<Value, bool> {
    let mut out: SecondaryMap<Value, bool> = SecondaryMap::new();
    for node in plan.order.blocks().flat_map(|block| func.insts_in(block)) {
        let result = node.results.first();
        let Some(&result) = result.filter(|&&result| plan.is_varying(result)) else {
            continue;
        };
        let has_bits = |arg: &Value| out[*arg] || plan.variability[*arg] == Variability::Uniform;
        out[result] = match node.data {
            InstData::Compare { .. } => find(plan, &node.data).is_some(),
            InstData::IntBinary {
                op: IntBinaryOp::And | IntBinaryOp::Or | IntBinaryOp::Xor,
                ty: Type::B1,
                args,
            } => args.iter().all(has_bits),
            InstData::IntUnary {
                op: IntUnaryOp::Not,
                ty: Type::B1,
                arg,
            } => out[arg],
            _ => false,
        };
    }
    out
}

/// The comparison of an affine value with a uniform one, if it is one.
pub(crate) fn find(plan: &Plan, data: &InstData) -> Option<AffineCompare> {
    let (op, ty, [a, b]) = data.as_compare()?;
    let most = match ty {
        Type::B32 => i64::from(i32::MAX),
        Type::B64 => i64::MAX,
        Type::B1 | Type::B8 | Type::B16 => return None,
    };
    let (op, affine, bound) = match (plan.variability[a], plan.variability[b]) {
        (Variability::Affine { .. }, Variability::Uniform) => (op, a, b),
        (Variability::Uniform, Variability::Affine { .. }) => (op.swapped(), b, a),
        _ => return None,
    };
    let stride = plan.variability[affine].exact_stride()?;
    let span = stride.checked_mul(i64::from(plan.gang) - 1)?;
    let unsigned = is_unsigned(op);
    let in_order = plan.bounds[affine].is_some_and(|(lo, hi)| {
        let least = if unsigned { 0 } else { -most - 1 };
        let low = lo.checked_add(span.min(0));
        let high = hi.checked_add(span.max(0));
        low.is_some_and(|low| low >= least) && high.is_some_and(|high| high <= most)
    });
    // With a longer span, a wrap could not be detected from the first and last lane.
    (stride != 0 && span.checked_abs()? <= most).then_some(AffineCompare {
        op,
        ty,
        affine,
        stride,
        span,
        bound,
        in_order,
    })
}

pub(crate) fn is_unsigned(op: CompareOp) -> bool {
    matches!(
        op,
        CompareOp::Ult | CompareOp::Ule | CompareOp::Ugt | CompareOp::Uge
    )
}
