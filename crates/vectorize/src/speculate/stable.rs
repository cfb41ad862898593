//! Affine values that later analyses cannot make varying, so that a guard on the first and the last
//! lane covers all lanes.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::Order;
use crate::analysis::variability::Variability;
use crate::cost;

/// Whether every value whose first or last lane is read is affine or uniform.
pub(crate) fn hold(func: &Function, variability: &SecondaryMap<Value, Variability>) -> bool {
    let is_even = |value: Value| {
        let found = variability[value];
        found == Variability::Uniform || found.exact_stride().is_some()
    };
    let nodes = func.blocks.keys().flat_map(|block| func.insts_in(block));
    let mut ends = nodes.filter_map(|node| node.data.as_end_lane());
    ends.all(|(arg, _)| is_even(arg))
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
        for block in func.blocks.keys() {
            let results = func.results_in(block);
            results.for_each(|&result| home[result] = Some(block));
        }
        let mut passed: FxHashMap<Value, Vec<(Value, Block)>> = FxHashMap::default();
        for (block, data) in func.blocks.iter().filter(|_| assume_affine) {
            let targets = data.term.targets().into_iter();
            for call in targets.filter(|call| order.loop_range(call.block).is_some()) {
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
            let home = self.home[value].filter(|&home| self.is_inside(home, user));
            let Some(home) = home.filter(|_| seen.len() <= cost::MOST_DEFINITIONS) else {
                return false;
            };
            if let Some(data) = func.def_inst(value) {
                let args = data.args().into_iter();
                work.extend(args.map(|arg| (arg, home)));
            } else if let Some(passed) = self.passed.get(&value) {
                work.extend(passed);
            } else {
                return false;
            }
        }
        true
    }

    /// Whether a block is in the innermost loop that contains another, if there is one.
    fn is_inside(&self, home: Block, user: Block) -> bool {
        let around = self.order.enclosing(home);
        around.is_none_or(|range| self.order.is_in(&range, user))
    }
}
