//! Versions of blocks for gangs whose merged inputs turn out to be affine.
//!
//! A value is varying where diverged lanes meet, even if all lanes of a gang nearly always take the
//! same path: behind the remainder iterations of an unrolled loop, say. Where accesses depend on
//! such a value, the block gets a version for gangs in which a guard finds it affine after all.

use std::collections::BTreeMap;

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, InstData, Type, Value, ValueDef};

use crate::analysis::divergence::Divergence;
use crate::analysis::flow::Flow;
use crate::analysis::order::{Node, Order};
use crate::analysis::variability::{Because, Variability};
use crate::cost;
use crate::scalarize::single_lane::SingleLane;

/// What holds in the version of a block behind the guard.
#[derive(Clone, Debug, Default)]
pub struct AffineInputs {
    /// Values from elsewhere that are held as vectors, and the variability that the guard tests
    /// for.
    pub inputs: Vec<(Value, Variability)>,
    /// The inputs and results of the block whose variability improves.
    pub variability: BTreeMap<Value, Variability>,
}

/// Finds such blocks. `optimistic` has the variability of values if lanes never diverge.
pub(crate) fn run(
    func: &Function,
    order: &Order,
    flow: &Flow,
    optimistic: &Divergence,
    cold: &SecondaryMap<Block, bool>,
) -> SecondaryMap<Block, Option<AffineInputs>> {
    let mut out = SecondaryMap::new();
    if optimistic.gang == 1 {
        return out;
    }
    for node in &order.nodes {
        if let Node::Block(block) = *node
            && flow.single_lane[block] == SingleLane::No
            && !cold[block]
        {
            out[block] = affine_inputs_of(func, flow, optimistic, block);
        }
    }
    out
}

fn affine_inputs_of(
    func: &Function,
    flow: &Flow,
    optimistic: &Divergence,
    block: Block,
) -> Option<AffineInputs> {
    let inputs = inputs(func, flow, optimistic, block);
    if inputs.is_empty() || inputs.len() > cost::MOST_INPUTS {
        return None;
    }
    let mut local = Divergence::new(optimistic.gang, optimistic.facts);
    for value in func.values.keys() {
        local.variability[value] = Some(flow.variability[value]);
    }
    loop {
        let variability = propagate(func, flow, &mut local, block, &inputs);
        let numbers = numbers(func, flow, &local, block);
        let mut changed = false;
        for value in numbers {
            let may_wrap = variability
                .get(&value)
                .and_then(|variability| variability.may_wrap());
            if may_wrap.is_some_and(|may_wrap| may_wrap.sums_left == 0) {
                local.spread[value] = true;
                changed = true;
            }
        }
        if !changed {
            return Some(AffineInputs {
                inputs,
                variability,
            });
        }
    }
}

/// Varying values from elsewhere that addresses in the block depend on, and that are affine if
/// lanes came by the same path.
fn inputs(
    func: &Function,
    flow: &Flow,
    optimistic: &Divergence,
    block: Block,
) -> Vec<(Value, Variability)> {
    let may_be = |value: Value| {
        optimistic.variability[value].filter(|&variability| variability != Variability::Varying)
    };
    let mut work: Vec<Value> = Vec::new();
    for &inst in &func.blocks[block].insts {
        let access = func.insts[inst].data.access();
        work.extend(access.map(|access| access.addr));
    }
    let mut seen: SecondaryMap<Value, bool> = SecondaryMap::new();
    let mut found = Vec::new();
    while let Some(value) = work.pop() {
        let is_open = flow.variability[value] == Variability::Varying && !seen[value];
        let Some(variability) = may_be(value).filter(|_| is_open) else {
            continue;
        };
        seen[value] = true;
        match func.values[value].def {
            ValueDef::Result(inst, _) if func.blocks[block].insts.contains(&inst) => {
                work.extend(func.insts[inst].data.args());
            }
            _ if matches!(func.ty(value), Type::B32 | Type::B64) => {
                // The guard tests every lane, so no wrap can go unnoticed.
                let variability = match variability {
                    Variability::Affine { stride, .. } => Variability::Affine {
                        stride,
                        align: 0,
                        may_wrap: None,
                    },
                    other @ (Variability::Uniform | Variability::Varying) => other,
                };
                found.push((value, variability));
            }
            ValueDef::Result(..) | ValueDef::Param(..) => {}
        }
    }
    found.sort_unstable_by_key(|&(value, _)| value);
    found
}

/// The values whose variability improves if the inputs have theirs.
fn propagate(
    func: &Function,
    flow: &Flow,
    local: &mut Divergence,
    block: Block,
    inputs: &[(Value, Variability)],
) -> BTreeMap<Value, Variability> {
    let mut better: BTreeMap<Value, Variability> = inputs.iter().copied().collect();
    for &(value, variability) in inputs {
        local.variability[value] = Some(variability);
    }
    for &inst in &func.blocks[block].insts {
        let node = &func.insts[inst];
        if matches!(
            node.data,
            InstData::Warp { .. } | InstData::Barrier { .. } | InstData::Nanosleep { .. }
        ) {
            continue;
        }
        for (idx, &result) in node.results.iter().enumerate() {
            let variability = match local.result(func, &node.data, idx) {
                _ if local.spread[result] => Variability::Varying,
                (variability, Because::NotVarying)
                    if flow.variability[result] == Variability::Varying =>
                {
                    variability
                }
                _ => flow.variability[result],
            };
            local.variability[result] = Some(variability);
            if variability != flow.variability[result] {
                better.insert(result, variability);
            }
        }
    }
    better
}

/// The values that the block uses as numbers, lane by lane, or passes on as vectors.
fn numbers(func: &Function, flow: &Flow, local: &Divergence, block: Block) -> Vec<Value> {
    let mut numbers = Vec::new();
    let data = &func.blocks[block];
    for &inst in &data.insts {
        crate::analysis::flow::numbers_in(func, local, inst, &mut numbers);
        let escaping = func.insts[inst].results.iter().copied();
        numbers.extend(escaping.filter(|&result| {
            flow.variability[result] == Variability::Varying && flow.escapes[result]
        }));
    }
    data.term.for_each_arg(|arg| numbers.push(arg));
    numbers
}
