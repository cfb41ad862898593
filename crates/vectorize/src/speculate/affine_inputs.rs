//! Versions of blocks for gangs whose merged inputs turn out to be affine.
//!
//! A value is varying where diverged lanes meet, even if all lanes of a gang nearly always take the
//! same path: behind the remainder iterations of an unrolled loop, say. Where accesses depend on
//! such a value, the block gets a version for gangs in which a guard finds it affine after all.

use std::collections::BTreeMap;

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, InstData, Type, Value};

use crate::analysis::divergence::Divergence;
use crate::analysis::flow::{Flow, numbers_in};
use crate::analysis::order::Order;
use crate::analysis::variability::{Because, Variability};
use crate::cost;
use crate::scalarize::single_lane::SingleLane;

/// What holds in the version of a block behind the guard.
#[derive(Clone, Debug, Default)]
pub struct AffineInputs {
    /// Values from elsewhere that are held as vectors, and the variability that the guard tests
    /// for.
    pub inputs: Vec<(Value, Variability)>,
    /// The inputs and results of the block whose variability improves.
    pub variability: BTreeMap<Value, Variability>,
}

/// Finds such blocks. `optimistic` has the variability of values if lanes never diverge.
pub(crate) fn run(
    func: &Function,
    order: &Order,
    flow: &Flow,
    optimistic: &Divergence,
    cold: &SecondaryMap<Block, bool>,
) -> SecondaryMap<Block, Option<AffineInputs>> {
    let mut out = SecondaryMap::new();
    if optimistic.gang == 1 {
        return out;
    }
    let is_asked = |&block: &Block| flow.single_lane[block] == SingleLane::No && !cold[block];
    for block in order.blocks().filter(is_asked) {
        let finder = Finder {
            func,
            flow,
            optimistic,
            block,
        };
        out[block] = finder.find();
    }
    out
}

struct Finder<'a> {
    func: &'a Function,
    flow: &'a Flow,
    optimistic: &'a Divergence,
    block: Block,
}

impl Finder<'_> {
    fn find(&self) -> Option<AffineInputs> {
        let inputs = self.inputs();
        if inputs.is_empty() || inputs.len() > cost::MOST_INPUTS {
            return None;
        }
        let mut local = Divergence::new(self.optimistic.gang, self.optimistic.facts);
        for value in self.func.values.keys() {
            local.variability[value] = Some(self.flow.variability[value]);
        }
        loop {
            let variability = self.propagate(&mut local, &inputs);
            let mut numbers = self.numbers(&local);
            let better = |value: &Value| variability.get(value).copied().unwrap_or_default();
            numbers.retain(|value| better(value).hides_wrap());
            if numbers.is_empty() {
                return Some(AffineInputs {
                    inputs,
                    variability,
                });
            }
            let numbers = numbers.into_iter();
            numbers.for_each(|value| local.spread[value] = true);
        }
    }

    /// Varying values from elsewhere that addresses in the block depend on, and that are affine if
    /// lanes came by the same path.
    fn inputs(&self) -> Vec<(Value, Variability)> {
        let insts = self.func.insts_in(self.block);
        let accesses = insts.filter_map(|node| node.data.access());
        let mut work: Vec<Value> = accesses.map(|access| access.addr).collect();
        let mut seen: SecondaryMap<Value, bool> = SecondaryMap::new();
        let mut found = Vec::new();
        while let Some(value) = work.pop() {
            if self.optimistic.may_vary(value)
                || !self.is_vector(value)
                || std::mem::replace(&mut seen[value], true)
            {
                continue;
            }
            if let Some(data) = self.made_here(value) {
                work.extend(data.args());
            } else if matches!(self.func.ty(value), Type::B32 | Type::B64) {
                // The guard tests every lane, so no wrap can go unnoticed.
                let stride = self.optimistic.variability(value).stride();
                let affine = stride.map(|stride| Variability::affine(stride, 0));
                found.push((value, affine.unwrap_or(Variability::Uniform)));
            }
        }
        found.sort_unstable_by_key(|&(value, _)| value);
        found
    }

    /// The instruction of the block that computes a value.
    fn made_here(&self, value: Value) -> Option<&InstData> {
        let inst = self.func.maker(value)?;
        let insts = &self.func.blocks[self.block].insts;
        insts.contains(&inst).then(|| &self.func.insts[inst].data)
    }

    /// Whether a value is varying without the inputs' better variability.
    fn is_vector(&self, value: Value) -> bool {
        self.flow.variability[value] == Variability::Varying
    }

    /// The values whose variability improves if the inputs have theirs.
    fn propagate(
        &self,
        local: &mut Divergence,
        inputs: &[(Value, Variability)],
    ) -> BTreeMap<Value, Variability> {
        let mut better: BTreeMap<Value, Variability> = inputs.iter().copied().collect();
        for &(value, variability) in inputs {
            local.variability[value] = Some(variability);
        }
        let waits = |data: &InstData| {
            matches!(
                data,
                InstData::Warp { .. } | InstData::Barrier { .. } | InstData::Nanosleep { .. }
            )
        };
        let nodes = self.func.insts_in(self.block);
        for node in nodes.filter(|node| !waits(&node.data)) {
            for (idx, &result) in node.results.iter().enumerate() {
                let before = self.flow.variability[result];
                let variability = match local.result(self.func, &node.data, idx) {
                    _ if local.spread[result] => Variability::Varying,
                    (variability, Because::NotVarying) if self.is_vector(result) => variability,
                    _ => before,
                };
                local.variability[result] = Some(variability);
                if variability != before {
                    better.insert(result, variability);
                }
            }
        }
        better
    }

    /// The values that the block uses as numbers, lane by lane, or passes on as vectors.
    fn numbers(&self, local: &Divergence) -> Vec<Value> {
        let mut numbers = Vec::new();
        for node in self.func.insts_in(self.block) {
            numbers.extend(numbers_in(local, node));
            let is_passed = |result: &Value| self.is_vector(*result) && self.flow.escapes[*result];
            numbers.extend(node.results.iter().copied().filter(is_passed));
        }
        let term = &self.func.blocks[self.block].term;
        term.for_each_arg(|arg| numbers.push(arg));
        numbers
    }
}
