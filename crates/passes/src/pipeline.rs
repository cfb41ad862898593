//! The order of the passes.
