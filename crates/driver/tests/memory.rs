//! Memory through the safe interface: pools, pointers, copies, arrays, virtual memory.

#[path = "memory/common.rs"]
mod common;

#[path = "memory/pool.rs"]
mod pool;
