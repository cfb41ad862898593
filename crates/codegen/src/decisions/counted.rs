//! In which form each node's lanes are held: as bits, or as lane masks.

use ptxjit_ir::{Function, Value};
use ptxjit_vectorize::{Node, Plan};

use super::mask_classes::{MaskClass, MaskClasses};

/// Finds the nodes whose lanes are held as bits: those that are only reached from such nodes, or by
/// the lanes the gang was entered with, and whose divergent branches have conditions that come as
/// bits, or are turned into bits by fewer instructions than into lane masks.
pub(super) fn find(
    func: &Function,
    plan: &Plan,
    classes: &MaskClasses,
    has_bits: &dyn Fn(Value) -> bool,
) -> Vec<bool> {
    let order = &plan.order;
    let mut counted = vec![true; order.nodes.len()];
    loop {
        let mut changed = false;
        for (pos, node) in order.nodes.iter().enumerate() {
            // Loop ends have no body of their own.
            let class = match node {
                Node::LoopEnd(_) => classes.arrive[pos],
                Node::Block(_) => classes.body[pos],
            };
            let from_bits = match class {
                // Lanes of a predicate are those of an instruction, not of a node.
                MaskClass::Entry | MaskClass::Lane | MaskClass::Predicate => true,
                MaskClass::Own(node) => counted[node],
            };
            let mut reach = |target: usize, as_bits: bool| {
                changed |= !as_bits && std::mem::replace(&mut counted[target], false);
            };
            match *node {
                Node::LoopEnd(header) => reach(order.pos(header), from_bits),
                Node::Block(block) => {
                    let cond = func.blocks[block].term.condition();
                    let keeps_bits = cond.is_some_and(has_bits) || !plan.divergent[block];
                    let targets = order.targets(func, pos).into_iter();
                    targets.for_each(|target| reach(target, from_bits && keeps_bits));
                }
            }
        }
        if !changed {
            return counted;
        }
    }
}
