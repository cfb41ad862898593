//! The form and the locality of accesses: merged stores, strip-mined loops, prefetches.

pub(crate) mod merge_stores;
pub(crate) mod prefetch;
pub(crate) mod strip_mine;
