//! Facts about a function, as plain data. A transformation makes what it needs and throws it away.

pub mod call_graph;
pub mod cfg;
pub mod dominators;
pub mod float_bounds;
pub mod joinable;
pub mod loops;
pub mod memory;
pub mod progress;
pub mod slots;
