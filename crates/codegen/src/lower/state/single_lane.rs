//! Blocks that one lane runs at a time: every value is a scalar. Of values from elsewhere, it is
//! that lane's element. `lane_loop` has the loops over lanes.

use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::Value;
use rustc_hash::FxHashMap;

use crate::lower::Lower;
use crate::ops::{Parts, Val};

/// The lane that runs.
#[derive(Clone)]
pub(in crate::lower) struct ActiveLane {
    /// Its number in the gang, 64 bits wide.
    pub lane: cl::Value,
    /// Values at that lane.
    pub vals: FxHashMap<Value, Val>,
    pub(in crate::lower) splats: FxHashMap<Value, Parts>,
    /// Its local window, once used.
    pub window: Option<cl::Value>,
}

impl ActiveLane {
    pub(in crate::lower) fn new(lane: cl::Value) -> ActiveLane {
        ActiveLane {
            lane,
            vals: FxHashMap::default(),
            splats: FxHashMap::default(),
            window: None,
        }
    }
}

impl Lower<'_, '_> {
    /// From here to the end of the node, values are those of the lane that runs.
    pub(in crate::lower) fn begin_single_lane(&mut self) {
        let bits = self.mask_as_bits();
        let lane = self.b.ins().ctz(bits);
        let lane = self.b.ins().uextend(types::I64, lane);
        self.lane.active = Some(ActiveLane::new(lane));
    }
}
