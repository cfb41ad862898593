//! The order in which the parts of a run of pure instructions are emitted.
//!
//! Op by op keeps operands shared by quads (uniform scalars, constants) in registers; strip by
//! strip (as many quads as a register holds) keeps the intermediate values of one strip in
//! registers. The choice follows the number of vector values live at once.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Function, Inst, Type, Value};
use ptxjit_vectorize::{Plan, Variability};

/// Vector registers that one order of emission may count on.
pub(crate) const REGISTERS: usize = 14;

/// The greatest number of vectors per quad that are live at once inside a run.
pub(crate) fn pressure(func: &Function, plan: &Plan, run: &[Inst]) -> usize {
    let mut last_use: SecondaryMap<Value, usize> = SecondaryMap::new();
    let mut inside: SecondaryMap<Value, bool> = SecondaryMap::new();
    for (at, &inst) in run.iter().enumerate() {
        for arg in func.insts[inst].data.args() {
            last_use[arg] = at;
        }
        inside[func.insts[inst].results[0]] = true;
    }
    let weight = |value: Value| match plan.variability[value] {
        Variability::Varying if func.ty(value) == Type::B64 => 2,
        Variability::Varying => 1,
        Variability::Uniform | Variability::Affine { .. } => 0,
    };
    let (mut alive, mut most) = (0usize, 0usize);
    for (at, &inst) in run.iter().enumerate() {
        let node = &func.insts[inst];
        let result = node.results[0];
        if last_use[result] > at {
            alive += weight(result);
        }
        most = most.max(alive);
        for (idx, &arg) in node.data.args().iter().enumerate() {
            let repeated = node.data.args()[..idx].contains(&arg);
            if last_use[arg] == at && !repeated && inside[arg] {
                alive = alive.saturating_sub(weight(arg));
            }
        }
    }
    most
}
