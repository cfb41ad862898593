//! Fast copies of regions behind guards, and what is only probable of values.

pub(crate) mod affine_inputs;
pub(crate) mod clone;
pub(crate) mod groups;
pub(crate) mod no_wrap;
pub(crate) mod ssa_repair;
pub(crate) mod stable;
pub(crate) mod strides;
pub(crate) mod trip_counts;
