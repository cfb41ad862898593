//! Loop-closed SSA: a value defined in a loop is used outside of it only through a parameter of a
//! block that the loop exits to.
//!
//! **Needs**: no unreachable blocks. **Ensures**: the above, for the loops of an [`Order`],
//! irreducible ones included.
//!
//! Lanes may leave a loop in different iterations; the parameter keeps, lane by lane, the value of
//! the iteration in which the lane left. Code for a single lane needs none of this.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, Value};

use crate::analysis::evolution::Loop;
use crate::analysis::liveness::{self, Liveness};
use crate::analysis::order::Order;
use crate::speculate::ssa_repair::{Repair, predecessors};
use ptxjit_passes::effort::{Effort, Spent};

/// Closes all loops in the order of their headers: a value that is carried past a later loop, or
/// through an inner loop, may get parameters there, and these are closed when that loop is reached.
pub(crate) fn run(func: &mut Function, order: &Order, effort: &Effort) -> Result<(), Spent> {
    let mut headers: Vec<Block> = order.headers().collect();
    headers.sort_unstable_by_key(|&header| order.block_pos[header]);
    let preds = predecessors(func);
    let mut live = None;
    for header in headers {
        let known = match live.take() {
            Some(live) => live,
            None => liveness::within(func, &preds, effort)?,
        };
        let around = Loop::new(order, header).expect("the header has a loop end");
        let exits = exits(func, &around);
        let closing = Closing {
            around,
            exits,
            preds: &preds,
            live: &known,
            effort,
        };
        if !closing.run(func)? {
            live = Some(known);
        }
    }
    Ok(())
}

/// The blocks outside of a loop that lead on from it, in ascending order.
fn exits(func: &Function, around: &Loop<'_>) -> Vec<Block> {
    let members = around.members.iter();
    let targets = members.flat_map(|&block| func.successors(block));
    let mut exits: Vec<Block> = targets.filter(|&to| !around.contains(to)).collect();
    exits.sort_unstable();
    exits.dedup();
    exits
}

/// What closes one loop.
struct Closing<'a> {
    around: Loop<'a>,
    exits: Vec<Block>,
    preds: &'a SecondaryMap<Block, Vec<Block>>,
    live: &'a Liveness,
    effort: &'a Effort,
}

impl Closing<'_> {
    /// Whether closing the loop changed which values are live where.
    fn run(&self, func: &mut Function) -> Result<bool, Spent> {
        if self.exits.is_empty() {
            return Ok(false);
        }
        let mut escaping: Vec<(Block, Value)> = Vec::new();
        for &block in &self.around.members {
            for value in func.defined_in(block) {
                self.effort.spend(self.exits.len())?;
                if func.as_const(value).is_none() && !self.exits_with(value).is_empty() {
                    escaping.push((block, value));
                }
            }
        }
        for &(home, value) in &escaping {
            self.effort.spend(func.blocks.len())?;
            self.close(func, value, home);
        }
        Ok(!escaping.is_empty())
    }

    /// The exits at which a value is live.
    fn exits_with(&self, value: Value) -> Vec<Block> {
        let exits = self.exits.iter().copied();
        let live = exits.filter(|&exit| self.live.is_live(value, exit));
        live.collect()
    }

    fn close(&self, func: &mut Function, value: Value, home: Block) {
        let mut repair = Repair::new(self.preds, func.ty(value));
        repair.define(home, value);
        repair.define_start(home, value);
        let exits = self.exits_with(value);
        // The definition dominates the exits, and so the blocks that leave to them: the value
        // itself is there, whatever lies in between.
        let preds = exits.iter().flat_map(|&exit| &self.preds[exit]);
        let leaving = preds.filter(|&&pred| self.around.contains(pred));
        leaving.for_each(|&pred| repair.define(pred, value));
        repair.add_params(func, &exits);
        let blocks: Vec<Block> = func.blocks.keys().collect();
        for block in blocks {
            let is_outside = self.live.is_live(value, block) && !self.around.contains(block);
            if is_outside && func.uses(block, value) {
                let reaching = repair.start(func, block);
                func.replace_uses(block, value, reaching);
            }
        }
    }
}
