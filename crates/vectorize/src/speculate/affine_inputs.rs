//! Blocks in which lanes that came by different ways may be in step again.
//!
//! A value is varying where lanes meet that took different ways, even if all lanes of a gang nearly always take the same one: after the
//! leftover turns of an unrolled loop, say. Where accesses depend on such a value, a block gets a version of its own for
//! gangs in which a test finds it affine after all.

use std::collections::BTreeMap;

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, InstData, Type, Value, ValueDef};

use super::flow::Flow;
use super::order::{Node, Order};
use super::shape::{Because, Shape};
use super::shapes::Shapes;
use super::solo::Solo;

/// What holds in a block if its lanes are in step.
#[derive(Clone, Debug, Default)]
pub struct InStep {
    /// Values from elsewhere that are held as vectors, and are to be tested for having these shapes.
    pub inputs: Vec<(Value, Shape)>,
    /// The inputs and results of the block that then have better shapes.
    pub shapes: BTreeMap<Value, Shape>,
}

/// Values that are tested at most.
const MOST_INPUTS: usize = 6;

/// Finds such blocks. `hopeful` has the shapes of values if lanes never part.
pub(super) fn run(
    func: &Function,
    order: &Order,
    flow: &Flow,
    hopeful: &Shapes,
    seldom: &SecondaryMap<Block, bool>,
) -> SecondaryMap<Block, Option<InStep>> {
    let mut out = SecondaryMap::new();
    if hopeful.gang == 1 {
        return out;
    }
    for node in &order.nodes {
        if let Node::Block(block) = *node
            && flow.solo[block] == Solo::No
            && !seldom[block]
        {
            out[block] = block_in_step(func, flow, hopeful, block);
        }
    }
    out
}

fn block_in_step(func: &Function, flow: &Flow, hopeful: &Shapes, block: Block) -> Option<InStep> {
    let inputs = inputs(func, flow, hopeful, block);
    if inputs.is_empty() || inputs.len() > MOST_INPUTS {
        return None;
    }
    let mut local = Shapes::new(hopeful.gang, hopeful.facts);
    for value in func.values.keys() {
        local.shapes[value] = Some(flow.shapes[value]);
    }
    loop {
        let shapes = propagate(func, flow, &mut local, block, &inputs);
        let numbers = numbers(func, flow, &local, block);
        let mut changed = false;
        for value in numbers {
            let fold = shapes.get(&value).and_then(|shape| shape.fold());
            if fold.is_some_and(|fold| fold.sums_left == 0) {
                local.spread[value] = true;
                changed = true;
            }
        }
        if !changed {
            return Some(InStep { inputs, shapes });
        }
    }
}

/// Varying values from elsewhere that addresses in the block follow from, and that are affine if lanes came the same way.
fn inputs(func: &Function, flow: &Flow, hopeful: &Shapes, block: Block) -> Vec<(Value, Shape)> {
    let may_be = |value: Value| hopeful.shapes[value].filter(|&shape| shape != Shape::Varying);
    let mut work: Vec<Value> = Vec::new();
    for &inst in &func.blocks[block].insts {
        if let InstData::Load { addr, .. } | InstData::Store { addr, .. } = func.insts[inst].data {
            work.push(addr);
        }
    }
    let mut seen: SecondaryMap<Value, bool> = SecondaryMap::new();
    let mut found = Vec::new();
    while let Some(value) = work.pop() {
        let is_open = flow.shapes[value] == Shape::Varying && !seen[value];
        let Some(shape) = may_be(value).filter(|_| is_open) else {
            continue;
        };
        seen[value] = true;
        match func.values[value].def {
            ValueDef::Result(inst, _) if func.blocks[block].insts.contains(&inst) => {
                work.extend(func.insts[inst].data.args());
            }
            _ if matches!(func.ty(value), Type::B32 | Type::B64) => {
                // That the lanes lie on a line is tested: no wrap is left to reckon with.
                let shape = match shape {
                    Shape::Affine { stride, .. } => Shape::Affine {
                        stride,
                        align: 0,
                        fold: None,
                    },
                    other => other,
                };
                found.push((value, shape));
            }
            _ => {}
        }
    }
    found.sort_unstable_by_key(|&(value, _)| value);
    found
}

/// The shapes that improve if the inputs have theirs.
fn propagate(
    func: &Function,
    flow: &Flow,
    local: &mut Shapes,
    block: Block,
    inputs: &[(Value, Shape)],
) -> BTreeMap<Value, Shape> {
    let mut better: BTreeMap<Value, Shape> = inputs.iter().copied().collect();
    for &(value, shape) in inputs {
        local.shapes[value] = Some(shape);
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
            let shape = match local.result(func, &node.data, idx) {
                _ if local.spread[result] => Shape::Varying,
                (shape, Because::NotVarying) if flow.shapes[result] == Shape::Varying => shape,
                _ => flow.shapes[result],
            };
            local.shapes[result] = Some(shape);
            if shape != flow.shapes[result] {
                better.insert(result, shape);
            }
        }
    }
    better
}

/// What the block takes as numbers, lane by lane, or hands on as vectors.
fn numbers(func: &Function, flow: &Flow, local: &Shapes, block: Block) -> Vec<Value> {
    let mut numbers = Vec::new();
    let data = &func.blocks[block];
    for &inst in &data.insts {
        super::flow::numbers_in(func, local, inst, &mut numbers);
        let escaping = func.insts[inst].results.iter().copied();
        numbers.extend(
            escaping
                .filter(|&result| flow.shapes[result] == Shape::Varying && flow.escapes[result]),
        );
    }
    data.term.for_each_arg(|arg| numbers.push(arg));
    numbers
}
