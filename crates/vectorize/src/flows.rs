//! Flow analysis for a plan: of the function as it is, and again with the loops that lanes run
//! serially, which are chosen by what was found.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, Value};
use ptxjit_passes::effort::{Effort, Spent};

use crate::analysis::{divergence, flow, order, reconvergence};
use crate::heuristics::Heuristic;
use crate::scalarize::{lane_loops, single_lane};
use crate::speculate::affine_inputs;
use crate::{
    AffineInputs, LaneLoop, Order, PlanFacts, Reconvergence, SingleLane, Variability, Yield,
    is_strip_mined, predecessors,
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

    /// Where lanes reconverge, if only full gangs leave strip-mined loops or if partial ones do.
    pub(crate) fn reconvergence(
        &self,
        func: &Function,
        order: &Order,
        strip_mines_full: bool,
    ) -> Reconvergence {
        let is_strip_mined = |block| strip_mines_full && is_strip_mined(self.yields, block);
        let can_stop = |block| self.can_stop(func, block);
        reconvergence::run(func, order, &can_stop, &is_strip_mined)
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
        let regions = Regions {
            given: &given,
            preds,
            can_stop: &|block| self.stops.can_stop(func, block),
        };
        regions.solve(optimistic)
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

/// What tells which blocks one lane runs at a time.
struct Regions<'a> {
    given: &'a flow::Given<'a>,
    preds: &'a SecondaryMap<Block, Vec<Block>>,
    can_stop: &'a dyn Fn(Block) -> bool,
}

impl Regions<'_> {
    /// Solves divergence of values and of control flow, and with them which blocks one lane runs at
    /// a time.
    fn solve(&self, optimistic: &divergence::Divergence) -> Result<flow::Flow, Spent> {
        let single_lane = self.single_lane(&|value| optimistic.variability(value));
        let mut flow = flow::run(self.given, single_lane)?;
        loop {
            // Where lanes diverged, some values that were assumed to be affine are not. With fewer
            // regions the variability of values only descends.
            let still = self.single_lane(&|value| flow.variability[value]);
            let mut blocks = self.given.func.blocks.keys();
            if blocks.all(|block| still[block] == flow.single_lane[block]) {
                return Ok(flow);
            }
            flow = flow::run(self.given, still)?;
        }
    }

    fn single_lane(
        &self,
        variability: &dyn Fn(Value) -> Variability,
    ) -> SecondaryMap<Block, SingleLane> {
        let given = self.given;
        let mut single_lane = match given.facts.switches.is_on(Heuristic::SingleLane) {
            true => single_lane::run(given, self.preds, variability, self.can_stop),
            false => SecondaryMap::new(),
        };
        for region in given.lane_loops {
            let blocks = region.blocks(given.order);
            blocks.for_each(|block| single_lane[block] = SingleLane::Inner);
            single_lane[region.root] = SingleLane::Root;
        }
        single_lane
    }
}
