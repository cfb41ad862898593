//! Parameters that receive one value from the first edges to their block.
//!
//! Where lanes of several blocks meet, each edge blends its arguments into the parameters, since
//! other lanes may be there already. If all that can be there have brought the same value, the
//! whole vector of it is as good: so it is for conditions that are tested one after the other, as
//! in `if (a || b || c)`.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, BlockCall, Function, Value};
use ptxjit_vectorize::{Node, Plan, SingleLane, Variability};

/// For each parameter the value of the first edges, and the last position in the order from which
/// it comes.
#[derive(Default)]
pub(crate) struct SameArguments(SecondaryMap<Value, Option<(Value, usize)>>);

impl SameArguments {
    /// Whether all lanes that may be at the block already have brought the same value as these,
    /// which come from a position in the order.
    pub(crate) fn is_same(&self, func: &Function, from: usize, param: Value, arg: Value) -> bool {
        self.0[param].is_some_and(|(first, last)| from <= last && are_same(func, first, arg))
    }
}

fn are_same(func: &Function, one: Value, other: Value) -> bool {
    let number = |value| func.as_const(value);
    one == other || number(one).is_some_and(|n| Some(n) == number(other))
}

/// Finds them.
pub(super) fn find(
    func: &Function,
    plan: &Plan,
    predecessors: &SecondaryMap<Block, Vec<Block>>,
) -> SameArguments {
    let mut found = SameArguments::default();
    let defined_in = defining_blocks(func);
    for node in &plan.order.nodes {
        let &Node::Block(block) = node else {
            continue;
        };
        // Lanes come to a loop's header in each iteration.
        if plan.order.end_pos[block].is_some() || predecessors[block].len() < 2 {
            continue;
        }
        let Some(edges) = edges(func, plan, block, &predecessors[block]) else {
            continue;
        };
        for (n, &param) in func.blocks[block].params.iter().enumerate() {
            let first = edges[0].1.args[n];
            if plan.variability[param] == Variability::Varying
                && stays(plan, defined_in[first], block)
                && let Some(last) = last_with(func, &edges, n)
            {
                found.0[param] = Some((first, last));
            }
        }
    }
    found
}

/// The block that defines each value.
fn defining_blocks(func: &Function) -> SecondaryMap<Value, Option<Block>> {
    let mut blocks = SecondaryMap::new();
    for (block, data) in func.blocks.iter() {
        let results = data
            .insts
            .iter()
            .flat_map(|&inst| &func.insts[inst].results);
        for &value in data.params.iter().chain(results) {
            blocks[value] = Some(block);
        }
    }
    blocks
}

/// The edges to a block in the order of where they come from. None if single lanes come.
fn edges<'f>(
    func: &'f Function,
    plan: &Plan,
    block: Block,
    predecessors: &[Block],
) -> Option<Vec<(usize, &'f BlockCall)>> {
    let mut edges = Vec::new();
    for &from in predecessors {
        if plan.single_lane[from] != SingleLane::No {
            return None;
        }
        // Code that no lane reaches has no position.
        let Some(pos) = plan.order.block_pos[from] else {
            continue;
        };
        let calls = func.blocks[from].term.targets().into_iter();
        edges.extend(
            calls
                .filter(|call| call.block == block)
                .map(|call| (pos as usize, call)),
        );
    }
    edges.sort_by_key(|&(pos, _)| pos);
    (!edges.is_empty()).then_some(edges)
}

/// Whether a value is defined once before the lanes that wait at a block run it: in no loop, or in
/// one around the block.
fn stays(plan: &Plan, defined_in: Option<Block>, block: Block) -> bool {
    let Some(header) = defined_in.and_then(|from| plan.order.innermost(from)) else {
        return true;
    };
    let pos = plan.order.block_pos[block].map(|pos| pos as usize);
    let range = plan.order.loop_range(header);
    range.is_some_and(|range| pos.is_some_and(|pos| range.contains(&pos)))
}

/// The last position from which, and from all before, the value of the first edge comes.
fn last_with(func: &Function, edges: &[(usize, &BlockCall)], n: usize) -> Option<usize> {
    let first = edges[0].1.args[n];
    let other = edges
        .iter()
        .find(|(_, call)| !are_same(func, first, call.args[n]));
    let end = other.map_or(usize::MAX, |&(pos, _)| pos);
    edges
        .iter()
        .map(|&(pos, _)| pos)
        .take_while(|&pos| pos < end)
        .last()
}
