//! Pools under memcheck: blocks are exact and are not used again, so that wrong accesses are found.

#[path = "memory/kernel.rs"]
mod kernel;
#[path = "memory/start.rs"]
mod start;

use ptxjit_driver::context;
use ptxjit_driver::memory::pool;
use ptxjit_driver::types::{CUresult, CUstream};

use kernel::{increment, run};
use start::start;

/// Allocates 100 bytes of the default pool in a context of its own.
fn allocate() -> u64 {
    static START: std::sync::Once = std::sync::Once::new();
    START.call_once(|| start(&[("PTXJIT_MEMCHECK", "1"), ("PTXJIT_QUIET", "1")]));
    context::create(0, 0, 3020).unwrap();
    pool::alloc_async(100, CUstream::NULL).unwrap()
}

#[test]
fn an_access_past_the_end_is_found() {
    let addr = allocate();
    let function = increment();
    assert_eq!(run(function, addr + 96), Ok(()));
    assert_eq!(run(function, addr + 100), Err(CUresult::ILLEGAL_ADDRESS));
}

#[test]
fn an_access_after_the_free_is_found() {
    let addr = allocate();
    let function = increment();
    assert_eq!(run(function, addr), Ok(()));
    pool::free_async(addr, CUstream::NULL).unwrap();
    let again = pool::alloc_async(100, CUstream::NULL).unwrap();
    assert_ne!(again, addr);
    assert_eq!(run(function, addr), Err(CUresult::ILLEGAL_ADDRESS));
}
