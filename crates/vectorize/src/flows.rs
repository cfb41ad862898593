//! Flow analysis for a plan: of the function as it is, and again with the loops that lanes run
//! serially, which are chosen by what was found.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, Value};
use ptxjit_passes::effort::{Effort, Spent};

use crate::analysis::{divergence, flow, order};
use crate::heuristics::Heuristic;
use crate::scalarize::{lane_loops, single_lane};
use crate::speculate::affine_inputs;
use crate::{
    AffineInputs, LaneLoop, Order, PlanFacts, SingleLane, Variability, Yield, predecessors,
};

/// Where threads may stop, and other code may continue.
pub(crate) struct Stops<'a> {
    pub entries: &'a [Block],
    /// Blocks that start with a wait.
    pub waits: &'a SecondaryMap<Block, bool>,
    pub yields: &'a SecondaryMap<Block, Option<Yield>>,
}

impl Stops<'_> {
    pub(crate) fn can_stop(&self, func: &Function, block: Block) -> bool {
        let is_entry = block == func.entry || self.entries.contains(&block);
        is_entry || self.waits[block] || self.yields[block].is_some()
    }
}

/// What flow analysis starts from.
pub(crate) struct Flows<'a> {
    pub stops: &'a Stops<'a>,
    pub cold: &'a SecondaryMap<Block, bool>,
    pub facts: PlanFacts,
    pub effort: &'a Effort,
}

/// What it finds, and what is chosen by it.
pub(crate) struct Found {
    pub preds: SecondaryMap<Block, Vec<Block>>,
    pub flow: flow::Flow,
    pub affine_inputs: SecondaryMap<Block, Option<AffineInputs>>,
    pub lane_loops: Vec<LaneLoop>,
}

impl Flows<'_> {
    /// Analyzes the function, and again with the loops that lanes run serially.
    pub(crate) fn run(
        &self,
        func: &mut Function,
        order: &mut Order,
        optimistic: &mut divergence::Divergence,
    ) -> Result<Found, Spent> {
        let mut preds = predecessors(func);
        let mut flow = self.solve(func, order, &preds, optimistic, &[])?;
        let mut affine_inputs = self.affine_inputs(func, order, &flow, optimistic);
        let mut lane_loops = Vec::new();
        let mut chosen = lane_loops::Choice {
            func,
            order,
            preds: &preds,
            flow: &flow,
            affine_inputs: &affine_inputs,
            cold: self.cold,
            can_stop: &|block| self.stops.can_stop(func, block),
        }
        .run();
        if self.facts.switches.is_on(Heuristic::LaneLoops) && !chosen.is_empty() {
            lane_loops::add_roots(func, order, &mut chosen);
            *order = order::within(func, self.stops.entries, self.effort)?;
            preds = predecessors(func);
            optimistic.propagate(func, order);
            lane_loops = lane_loops::regions(func, order, &preds, &chosen);
            flow = self.solve(func, order, &preds, optimistic, &lane_loops)?;
            affine_inputs = self.affine_inputs(func, order, &flow, optimistic);
        }
        Ok(Found {
            preds,
            flow,
            affine_inputs,
            lane_loops,
        })
    }

    fn solve(
        &self,
        func: &Function,
        order: &Order,
        preds: &SecondaryMap<Block, Vec<Block>>,
        optimistic: &divergence::Divergence,
        lane_loops: &[LaneLoop],
    ) -> Result<flow::Flow, Spent> {
        let given = flow::Given {
            func,
            order,
            waits: self.stops.waits,
            yields: self.stops.yields,
            gang: optimistic.gang,
            facts: self.facts,
            lane_loops,
            effort: self.effort,
        };
        let can_stop = |block| self.stops.can_stop(func, block);
        solve(&given, preds, optimistic, &can_stop)
    }

    fn affine_inputs(
        &self,
        func: &Function,
        order: &Order,
        flow: &flow::Flow,
        optimistic: &divergence::Divergence,
    ) -> SecondaryMap<Block, Option<AffineInputs>> {
        match self.facts.switches.is_on(Heuristic::AffineInputs) {
            true => affine_inputs::run(func, order, flow, optimistic, self.cold),
            false => SecondaryMap::new(),
        }
    }
}

/// Solves divergence of values and of control flow, and with them which blocks one lane runs at a
/// time.
fn solve(
    given: &flow::Given<'_>,
    preds: &SecondaryMap<Block, Vec<Block>>,
    optimistic: &divergence::Divergence,
    can_stop: &dyn Fn(Block) -> bool,
) -> Result<flow::Flow, Spent> {
    let &flow::Given {
        func, order, gang, ..
    } = given;
    let find_single_lane = |variability: &dyn Fn(Value) -> Variability| {
        let mut single_lane = match given.facts.switches.is_on(Heuristic::SingleLane) {
            true => single_lane::run(func, order, gang, preds, variability, can_stop),
            false => SecondaryMap::new(),
        };
        for region in given.lane_loops {
            for block in region.blocks(order) {
                single_lane[block] = if block == region.root {
                    SingleLane::Root
                } else {
                    SingleLane::Inner
                };
            }
        }
        single_lane
    };
    let single_lane =
        find_single_lane(&|value| optimistic.variability[value].unwrap_or(Variability::Uniform));
    let mut flow = flow::run(given, single_lane)?;
    loop {
        // Where lanes diverged, some values that were assumed to be affine are not. With fewer
        // regions the variability of values only descends.
        let still = find_single_lane(&|value| flow.variability[value]);
        let mut blocks = func.blocks.keys();
        if blocks.all(|block| still[block] == flow.single_lane[block]) {
            return Ok(flow);
        }
        flow = flow::run(given, still)?;
    }
}
