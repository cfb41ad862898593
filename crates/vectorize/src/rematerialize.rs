//! Values that are computed again where they are used, instead of kept.

pub(crate) mod across_waits;
pub(crate) mod addresses;
