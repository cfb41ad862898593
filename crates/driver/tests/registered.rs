//! Registered memory of the host under checks that watch each access.

#[path = "memory/kernel.rs"]
mod kernel;
#[path = "memory/start.rs"]
mod start;

use ptxjit_driver::context;
use ptxjit_driver::memory::alloc;
use ptxjit_driver::types::CUresult;

use kernel::{increment, run};
use start::start;

#[test]
fn watched_kernels_access_registered_memory_and_no_other() {
    start(&[("PTXJIT_SANITIZE", "race"), ("PTXJIT_QUIET", "1")]);
    context::create(0, 0, 3020).unwrap();
    let mut numbers = vec![1u32; 100];
    let addr = numbers.as_mut_ptr() as u64;
    alloc::host_register(addr, 200, 0).unwrap();
    assert_eq!(run(increment(), addr + 196), Ok(()));
    assert_eq!(numbers[49], 2);
    assert_eq!(run(increment(), addr + 200), Err(CUresult::ILLEGAL_ADDRESS));
    assert_eq!(numbers[50], 1);
}
