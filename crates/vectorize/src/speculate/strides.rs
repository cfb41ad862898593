//! Speculated strides: varying addresses that are probably affine although no analysis proves it.
//!
//! Indices that wrap around or are clamped at a border, as in `(x + 1) % w` or `min(x + 1, w - 1)`,
//! differ by one from lane to lane in nearly all gangs. A guard at run time finds those, and their
//! accesses are contiguous.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Access, Function, InstData, IntBinaryOp, Value};

use crate::cost;
use crate::{Plan, Variability};

/// The speculated stride of each varying address of a load or store, where there is one.
pub(crate) fn run(func: &Function, plan: &Plan) -> SecondaryMap<Value, Option<i64>> {
    let mut out = SecondaryMap::new();
    let accesses = func.insts.values().filter_map(|node| node.data.access());
    for Access { addr, .. } in accesses.filter(|access| plan.is_varying(access.addr)) {
        out[addr] = distance(func, plan, addr, cost::DEPTH_OF_STRIDE);
    }
    out
}

#[expect(clippy::wildcard_enum_match_arm, reason = "others may be anything")]
fn distance(func: &Function, plan: &Plan, value: Value, depth: u32) -> Option<i64> {
    let depth = depth.checked_sub(1)?;
    match plan.variability[value] {
        Variability::Uniform => return Some(0),
        Variability::Affine { stride, .. } => return Some(stride),
        Variability::Varying => {}
    }
    let of = |value: Value| distance(func, plan, value, depth);
    match *func.def_inst(value)? {
        InstData::Resize { arg, .. } => of(arg),
        InstData::Select { args: [a, b], .. } => either(of(a)?, of(b)?),
        InstData::IntBinary {
            op, args: [a, b], ..
        } => match op {
            IntBinaryOp::Add => of(a)?.checked_add(of(b)?),
            IntBinaryOp::Sub => of(a)?.checked_sub(of(b)?),
            IntBinaryOp::Mul | IntBinaryOp::UmulWide | IntBinaryOp::SmulWide => {
                match (func.as_const(a), func.as_const(b)) {
                    (_, Some(factor)) => of(a)?.checked_mul(factor as i64),
                    (Some(factor), _) => of(b)?.checked_mul(factor as i64),
                    (None, None) => None,
                }
            }
            IntBinaryOp::Shl => of(a)?.checked_mul(1 << func.as_const(b).filter(|&n| n < 32)?),
            // A remainder, or a mask of a power of two: most lanes are below the border.
            IntBinaryOp::Urem | IntBinaryOp::Srem => (of(b)? == 0).then(|| of(a))?,
            // Uniform bits are mostly above or below the bits in which neighboring lanes differ.
            IntBinaryOp::And | IntBinaryOp::Or | IntBinaryOp::Xor => either(of(a)?, of(b)?),
            IntBinaryOp::Smin | IntBinaryOp::Smax | IntBinaryOp::Umin | IntBinaryOp::Umax => {
                either(of(a)?, of(b)?)
            }
            IntBinaryOp::UmulHi
            | IntBinaryOp::SmulHi
            | IntBinaryOp::Udiv
            | IntBinaryOp::Sdiv
            | IntBinaryOp::Ushr
            | IntBinaryOp::Sshr
            | IntBinaryOp::SaddSat
            | IntBinaryOp::SsubSat => None,
        },
        _ => None,
    }
}

/// Of a uniform border and an index within it, the stride of the latter.
fn either(a: i64, b: i64) -> Option<i64> {
    match (a, b) {
        (0, other) | (other, 0) => Some(other),
        _ => (a == b).then_some(a),
    }
}
