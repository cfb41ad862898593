//! Loop-closed SSA: a value defined in a loop is used outside of it only through a parameter of a
//! block that the loop exits to.
//!
//! **Needs**: no unreachable blocks. **Ensures**: the above, for the loops of an [`Order`],
//! irreducible ones included.
//!
//! Lanes may leave a loop in different iterations; the parameter keeps, lane by lane, the value of
//! the iteration in which the lane left. Code for a single lane needs none of this.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, Inst, Value};

use crate::analysis::liveness;
use crate::analysis::order::{Node, Order};
use crate::speculate::ssa_repair::{Repair, predecessors};
use ptxjit_passes::effort::{Effort, Spent};

/// Closes all loops in the order of their headers: a value that is carried past a later loop, or
/// through an inner loop, may get parameters there, and these are closed when that loop is reached.
pub(crate) fn run(func: &mut Function, order: &Order, effort: &Effort) -> Result<(), Spent> {
    let mut headers: Vec<Block> = order
        .nodes
        .iter()
        .filter_map(|node| match *node {
            Node::LoopEnd(header) => Some(header),
            Node::Block(_) => None,
        })
        .collect();
    headers.sort_unstable_by_key(|&header| order.block_pos[header]);
    let preds = predecessors(func);
    let mut live = None;
    for header in headers.drain(..) {
        let known = match live.take() {
            Some(live) => live,
            None => liveness::within(func, &preds, effort)?,
        };
        if !close(func, order, header, (&preds, &known), effort)? {
            live = Some(known);
        }
    }
    Ok(())
}

/// Closes one loop. Whether that changed which values are live where.
fn close(
    func: &mut Function,
    order: &Order,
    header: Block,
    (preds, live): (&SecondaryMap<Block, Vec<Block>>, &liveness::Liveness),
    effort: &Effort,
) -> Result<bool, Spent> {
    let range = order.loop_range(header).expect("the header has a loop end");
    let inside =
        |block: Block| order.block_pos[block].is_some_and(|pos| range.contains(&(pos as usize)));
    let members: Vec<Block> = order.nodes[range.clone()]
        .iter()
        .filter_map(|node| match *node {
            Node::Block(block) => Some(block),
            Node::LoopEnd(_) => None,
        })
        .collect();
    let exits = exits(func, &members, &inside);
    if exits.is_empty() {
        return Ok(false);
    }
    let mut escaping: Vec<Value> = Vec::new();
    let mut home: SecondaryMap<Value, Option<Block>> = SecondaryMap::new();
    for &block in &members {
        let results = func.blocks[block]
            .insts
            .iter()
            .flat_map(|&inst| func.insts[inst].results.iter());
        for &value in func.blocks[block].params.iter().chain(results) {
            home[value] = Some(block);
            effort.spend(exits.len())?;
            if func.as_const(value).is_some() {
                continue;
            }
            if exits
                .iter()
                .any(|&exit| live.live_in[exit].binary_search(&value).is_ok())
            {
                escaping.push(value);
            }
        }
    }
    let changes = !escaping.is_empty();
    for value in escaping {
        let def = home[value].expect("escaping values are defined in the loop");
        effort.spend(func.blocks.len())?;
        close_value(func, preds, value, def, &exits, live, &inside);
    }
    Ok(changes)
}

/// The blocks outside of a loop that lead on from it, in ascending order.
fn exits(func: &Function, members: &[Block], inside: &dyn Fn(Block) -> bool) -> Vec<Block> {
    let mut exits = Vec::new();
    for &block in members {
        let targets = func.blocks[block].term.targets();
        let blocks = targets.iter().map(|call| call.block);
        exits.extend(blocks.filter(|&block| !inside(block)));
    }
    exits.sort_unstable();
    exits.dedup();
    exits
}

fn close_value(
    func: &mut Function,
    preds: &SecondaryMap<Block, Vec<Block>>,
    value: Value,
    def: Block,
    exits: &[Block],
    live: &liveness::Liveness,
    inside: &impl Fn(Block) -> bool,
) {
    let mut repair = Repair::new(preds, func.ty(value));
    repair.define(def, value);
    repair.define_start(def, value);
    for &exit in exits {
        if live.live_in[exit].binary_search(&value).is_ok() {
            // The definition dominates the exit, and so the blocks that leave to it: the value
            // itself is there, whatever lies in between.
            preds[exit]
                .iter()
                .filter(|&&pred| inside(pred))
                .for_each(|&pred| repair.define(pred, value));
        }
    }
    let wanted: Vec<Block> = exits
        .iter()
        .copied()
        .filter(|&exit| live.live_in[exit].binary_search(&value).is_ok())
        .collect();
    repair.add_params(func, &wanted);
    let blocks: Vec<Block> = func.blocks.keys().filter(|&block| !inside(block)).collect();
    for block in blocks {
        if live.live_in[block].binary_search(&value).is_err() {
            continue;
        }
        let insts: Vec<Inst> = func.blocks[block].insts.clone();
        let in_insts = insts
            .iter()
            .any(|&inst| func.insts[inst].data.args().contains(&value));
        let mut in_term = false;
        func.blocks[block]
            .term
            .for_each_arg(|arg| in_term |= arg == value);
        if !in_insts && !in_term {
            continue;
        }
        let reaching = repair.start(func, block);
        for inst in insts {
            for arg in func.insts[inst].data.args_mut() {
                if *arg == value {
                    *arg = reaching;
                }
            }
        }
        func.blocks[block].term.for_each_arg_mut(|arg| {
            if *arg == value {
                *arg = reaching;
            }
        });
    }
}
