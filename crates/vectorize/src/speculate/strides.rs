//! Addresses that probably lie on a line although nothing proves it.
//!
//! Indices that wrap around or are clamped at a border, as in `(x + 1) % w` or `min(x + 1, w - 1)`, differ by one from lane to lane in
//! nearly all gangs. A test at run time finds those, and their accesses are as for lines.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Function, InstData, IntBinaryOp, Value};

use crate::{Plan, Variability};

/// Definitions are followed this deep.
const DEPTH: u32 = 12;

/// The likely distance from lane to lane of each varying address of a load or store, where there is one.
pub(crate) fn run(func: &Function, plan: &Plan) -> SecondaryMap<Value, Option<i64>> {
    let mut out = SecondaryMap::new();
    for node in func.insts.values() {
        let (InstData::Load { addr, .. } | InstData::Store { addr, .. }) = node.data else {
            continue;
        };
        if plan.variability[addr] == Variability::Varying {
            out[addr] = distance(func, plan, addr, DEPTH);
        }
    }
    out
}

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
            // A remainder, or what masks make of a power of two: the border is beyond most lanes.
            IntBinaryOp::Urem | IntBinaryOp::Srem => (of(b)? == 0).then(|| of(a))?,
            // Bits that are the same for all lanes are mostly above or below those that tell neighbours apart.
            IntBinaryOp::And | IntBinaryOp::Or | IntBinaryOp::Xor => either(of(a)?, of(b)?),
            IntBinaryOp::Smin | IntBinaryOp::Smax | IntBinaryOp::Umin | IntBinaryOp::Umax => {
                either(of(a)?, of(b)?)
            }
            _ => None,
        },
        _ => None,
    }
}

/// Of a border, which is the same for all lanes, and what lies inside of it, the latter.
fn either(a: i64, b: i64) -> Option<i64> {
    match (a, b) {
        (0, other) | (other, 0) => Some(other),
        _ => (a == b).then_some(a),
    }
}
