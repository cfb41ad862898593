//! Lines that stay lines, so that their ends tell of all lanes.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, Value, ValueDef};
use rustc_hash::FxHashSet;

use super::Order;

/// What more definitions than these make is taken for unstable.
const MOST: usize = 64;

/// Where a function's values are defined.
#[derive(Default)]
pub(super) struct Homes {
    order: Order,
    home: SecondaryMap<Value, Option<Block>>,
}

impl Homes {
    pub(super) fn new(func: &Function, order: Order) -> Homes {
        let mut home: SecondaryMap<Value, Option<Block>> = SecondaryMap::new();
        for (block, data) in func.blocks.iter() {
            for &inst in &data.insts {
                for &result in &func.insts[inst].results {
                    home[result] = Some(block);
                }
            }
        }
        Homes { order, home }
    }

    /// Whether nothing that is found out later about branches can change the shape that a value has in a block: it is made of no parameters,
    /// nor does it come out of loops, which lanes may leave at different turns.
    pub(super) fn is_stable_in(&self, func: &Function, value: Value, block: Block) -> bool {
        let mut seen: FxHashSet<(Value, Block)> = FxHashSet::default();
        let mut work = vec![(value, block)];
        while let Some((value, user)) = work.pop() {
            if !seen.insert((value, user)) {
                continue;
            }
            let Some(home) = self.home[value] else {
                return false;
            };
            let ValueDef::Result(inst, _) = func.values[value].def else {
                return false;
            };
            if seen.len() > MOST || !self.is_inside(home, user) {
                return false;
            }
            let args = func.insts[inst].data.args();
            work.extend(args.into_iter().map(|arg| (arg, home)));
        }
        true
    }

    /// Whether a block is in the innermost loop around another, if there is one.
    fn is_inside(&self, home: Block, user: Block) -> bool {
        self.order.innermost(home).is_none_or(|header| {
            let (range, at) = (self.order.loop_range(header), self.order.block_pos[user]);
            let holds = |at: u32| range.is_some_and(|range| range.contains(&(at as usize)));
            at.is_some_and(holds)
        })
    }
}
