//! Which nodes and values belong to code for one lane.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, InstData, Space, Value};
use ptxjit_vectorize::{Plan, SingleLane};

/// The region that each node belongs to.
pub(crate) fn places(plan: &Plan) -> Vec<Option<usize>> {
    let mut places = vec![None; plan.order.nodes.len()];
    for (idx, region) in plan.lane_loops.iter().enumerate() {
        places[region.range.clone()].fill(Some(idx));
    }
    places
}

/// The values that one lane computes by itself.
pub(crate) fn values(func: &Function, plan: &Plan) -> SecondaryMap<Value, bool> {
    let mut out = SecondaryMap::new();
    let is_for_one = |block: &Block| plan.single_lane[*block] != SingleLane::No;
    for block in func.blocks.keys().filter(is_for_one) {
        let results = func.results_in(block);
        results.for_each(|&result| out[result] = true);
    }
    out
}

/// Whether an instruction needs the local window of the thread.
pub(crate) fn is_local(data: &InstData) -> bool {
    matches!(
        *data,
        InstData::Load { space, .. }
            | InstData::Store { space, .. }
            | InstData::Atomic { space, .. }
            | InstData::ToGeneric { space, .. }
            | InstData::FromGeneric { space, .. }
            if space == Space::Local
    )
}
