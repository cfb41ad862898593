//! Which loops must let other threads run from time to time: those that may wait for them.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, InstData};
use ptxjit_passes::analysis::progress::{exit_depends_on, is_own, synchronizes, tells_of_others};

use crate::Order;
use crate::cost;

/// For each header of such a loop, what one iteration costs against the budget.
pub(crate) fn run(func: &Function, order: &Order) -> SecondaryMap<Block, Option<u32>> {
    let mut yields = SecondaryMap::new();
    for header in order.headers() {
        yields[header] = cost(func, order, header);
    }
    yields
}

fn cost(func: &Function, order: &Order, header: Block) -> Option<u32> {
    let members = order.blocks_in(order.loop_range(header)?);
    let members: Vec<Block> = members.collect();
    let insts = || {
        let nodes = members.iter().flat_map(|&block| func.insts_in(block));
        nodes.map(|node| &node.data)
    };
    // A value that a thread has stored to its own memory in the loop may be one that it read from
    // others.
    let tells = |data: &InstData| tells_of_others(data) && !is_own(data);
    if !insts().any(tells) || !exit_depends_on(func, &members, tells_of_others) {
        return None;
    }
    let disturbs = insts().any(synchronizes);
    Some(if disturbs { cost::SPIN_COST } else { 1 })
}
