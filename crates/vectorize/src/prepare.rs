//! Forms that the analyses rely on: loop-closed SSA, one latch per loop, reconvergence points of
//! one branch, masked loads, sub-word arithmetic.

pub(crate) mod joins;
pub(crate) mod latches;
pub(crate) mod lcssa;
pub(crate) mod masked_loads;
pub(crate) mod sign_tests;
pub(crate) mod subword;
