//! Which values are live at the start of each block.
//!
//! How: for each value, a walk backwards from its uses to its definition; the cost is the sum of
//! the uses and the live ranges.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, Value};
use ptxjit_passes::effort::{Effort, Spent};

/// Live-in sets, each sorted.
pub(crate) struct Liveness {
    /// Values live at the start of a block, its own parameters excluded.
    pub live_in: SecondaryMap<Block, Vec<Value>>,
}

impl Liveness {
    /// Whether a value is live at the start of a block.
    pub(crate) fn is_live(&self, value: Value, block: Block) -> bool {
        self.live_in[block].binary_search(&value).is_ok()
    }
}

/// Computes liveness, however long it takes; `preds` as from `repair::predecessors`.
pub(crate) fn run(func: &Function, preds: &SecondaryMap<Block, Vec<Block>>) -> Liveness {
    match within(func, preds, &Effort::unlimited()) {
        Ok(live) => live,
        Err(spent) => unreachable!("{spent}, though there is no limit"),
    }
}

/// The same within an effort.
pub(crate) fn within(
    func: &Function,
    preds: &SecondaryMap<Block, Vec<Block>>,
    effort: &Effort,
) -> Result<Liveness, Spent> {
    let homes = func.homes();
    let mut uses: Vec<(Value, Block)> = Vec::new();
    for block in func.blocks.keys() {
        func.for_each_arg(block, |value| uses.push((value, block)));
    }
    effort.spend(func.blocks.len() + uses.len())?;
    uses.sort_unstable();
    uses.dedup();
    let mut live_in: SecondaryMap<Block, Vec<Value>> = SecondaryMap::new();
    let mut work = Vec::new();
    for (value, at) in uses {
        work.push(at);
        while let Some(block) = work.pop() {
            // Values come in ascending order: if this one is in the set already, it is the last.
            if homes[value] == Some(block) || live_in[block].last() == Some(&value) {
                continue;
            }
            live_in[block].push(value);
            effort.spend(1)?;
            work.extend(preds[block].iter().copied());
        }
    }
    Ok(Liveness { live_in })
}
