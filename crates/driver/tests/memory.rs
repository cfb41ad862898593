//! Memory and what streams and contexts do with it, through the safe interface: pools, pointers,
//! advice, values that streams wait for, settings, and functions that use it.

#[path = "memory/common.rs"]
mod common;
#[path = "memory/kernel.rs"]
mod kernel;

#[path = "memory/advice.rs"]
mod advice;
#[path = "memory/array.rs"]
mod array;
#[path = "memory/function.rs"]
mod function;
#[path = "memory/memop.rs"]
mod memop;
#[path = "memory/peer.rs"]
mod peer;
#[path = "memory/pointer.rs"]
mod pointer;
#[path = "memory/pool.rs"]
mod pool;
#[path = "memory/settings.rs"]
mod settings;
#[path = "memory/shape.rs"]
mod shape;
#[path = "memory/texture.rs"]
mod texture;
#[path = "memory/vmm.rs"]
mod vmm;
