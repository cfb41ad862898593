//! Registered memory of the host under checks that watch each access.

#[path = "memory/kernel.rs"]
mod kernel;

use ptxjit_driver::memory::alloc;
use ptxjit_driver::types::CUresult;
use ptxjit_driver::{context, init};

use kernel::{increment, run};

#[test]
#[expect(unsafe_code, reason = "sets environment variables")]
fn watched_kernels_access_registered_memory_and_no_other() {
    for (name, value) in [("PTXJIT_SANITIZE", "race"), ("PTXJIT_QUIET", "1")] {
        // SAFETY: this is the only test here, and nothing has read the environment yet, but
        // through std, which has a lock.
        unsafe { std::env::set_var(name, value) };
    }
    init(0).unwrap();
    context::create(0, 0, 3020).unwrap();
    let mut numbers = vec![1u32; 100];
    let addr = numbers.as_mut_ptr() as u64;
    alloc::host_register(addr, 200, 0).unwrap();
    assert_eq!(run(increment(), addr + 196), Ok(()));
    assert_eq!(numbers[49], 2);
    assert_eq!(run(increment(), addr + 200), Err(CUresult::ILLEGAL_ADDRESS));
    assert_eq!(numbers[50], 1);
}
