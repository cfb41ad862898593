//! Regions that are run one lane at a time, by scalar code.

pub(crate) mod lane_loops;
pub(crate) mod single_lane;
