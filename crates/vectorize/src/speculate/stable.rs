//! Affine values that later analyses cannot make varying, so that a guard on the first and the last
//! lane covers all lanes.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, InstData, Value, ValueDef};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::Order;
use crate::analysis::variability::Variability;
use crate::cost;

/// Whether every value whose first or last lane is read is affine or uniform.
pub(crate) fn hold(func: &Function, variability: &SecondaryMap<Value, Variability>) -> bool {
    let mut insts = func.blocks.values().flat_map(|data| &data.insts);
    insts.all(|&inst| {
        if let InstData::EndLane { arg, .. } = func.insts[inst].data {
            matches!(
                variability[arg],
                Variability::Uniform | Variability::Affine { may_wrap: None, .. }
            )
        } else {
            true
        }
    })
}

/// Where values are defined, and which are stable.
#[derive(Default)]
pub(crate) struct Stable {
    order: Order,
    home: SecondaryMap<Value, Option<Block>>,
    /// The arguments of loop parameters that are assumed to be affine, and the blocks that pass
    /// them.
    passed: FxHashMap<Value, Vec<(Value, Block)>>,
}

impl Stable {
    /// `assume_affine`: loop parameters are assumed to be affine; [`hold`] checks it against the
    /// finished plan.
    pub(crate) fn new(func: &Function, order: Order, assume_affine: bool) -> Stable {
        let mut home: SecondaryMap<Value, Option<Block>> = SecondaryMap::new();
        for (block, data) in func.blocks.iter() {
            for &inst in &data.insts {
                for &result in &func.insts[inst].results {
                    home[result] = Some(block);
                }
            }
        }
        let mut passed: FxHashMap<Value, Vec<(Value, Block)>> = FxHashMap::default();
        for (block, data) in func.blocks.iter().filter(|_| assume_affine) {
            for call in data.term.targets() {
                if order.loop_range(call.block).is_none() {
                    continue;
                }
                for (&param, &arg) in func.blocks[call.block].params.iter().zip(&call.args) {
                    home[param] = Some(call.block);
                    passed.entry(param).or_default().push((arg, block));
                }
            }
        }
        Stable {
            order,
            home,
            passed,
        }
    }

    /// Whether no later analysis of branches can change the variability that a value has in a
    /// block: it depends on no parameters but those of loops, and it does not come out of loops,
    /// which lanes may leave in different iterations.
    pub(crate) fn is_stable_in(&self, func: &Function, value: Value, block: Block) -> bool {
        let mut seen: FxHashSet<(Value, Block)> = FxHashSet::default();
        let mut work = vec![(value, block)];
        while let Some((value, user)) = work.pop() {
            if !seen.insert((value, user)) {
                continue;
            }
            let Some(home) = self.home[value] else {
                return false;
            };
            if seen.len() > cost::MOST_DEFINITIONS || !self.is_inside(home, user) {
                return false;
            }
            let ValueDef::Result(inst, _) = func.values[value].def else {
                let Some(passed) = self.passed.get(&value) else {
                    return false;
                };
                work.extend(passed);
                continue;
            };
            let args = func.insts[inst].data.args();
            work.extend(args.into_iter().map(|arg| (arg, home)));
        }
        true
    }

    /// Whether a block is in the innermost loop that contains another, if there is one.
    fn is_inside(&self, home: Block, user: Block) -> bool {
        self.order.innermost(home).is_none_or(|header| {
            let (range, at) = (self.order.loop_range(header), self.order.block_pos[user]);
            let holds = |at: u32| range.is_some_and(|range| range.contains(&(at as usize)));
            at.is_some_and(holds)
        })
    }
}
