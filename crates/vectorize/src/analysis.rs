//! What holds for the values and blocks of a function, without changing it.

pub(crate) mod divergence;
pub(crate) mod evolution;
pub(crate) mod flow;
pub(crate) mod grid;
pub(crate) mod liveness;
mod meetings;
pub(crate) mod multiples;
pub(crate) mod order;
pub(crate) mod progress;
pub(crate) mod range;
pub(crate) mod reconvergence;
pub(crate) mod sums;
pub(crate) mod variability;
