//! `PTXJIT_SANITIZE=init`: what the host writes, by whatever call, or may write, is initialized.

#[path = "memory/kernel.rs"]
mod kernel;
#[path = "memory/start.rs"]
mod start;

use ptxjit_driver::memory::{alloc, copy, fill};
use ptxjit_driver::types::CUstream;
use ptxjit_driver::{context, fault, stream};

use kernel::{increment, run};
use start::start;

/// How many reads of what was never written the kernel makes at an address.
fn found(addr: u64) -> usize {
    run(increment(), addr).unwrap();
    let faults = std::iter::from_fn(fault::take);
    faults
        .filter(|fault| fault.kind == "uninitialized-read")
        .count()
}

#[test]
fn what_the_host_has_written_is_initialized() {
    start(&[("PTXJIT_SANITIZE", "init"), ("PTXJIT_QUIET", "1")]);
    context::create(0, 0, 3020).unwrap();
    let fresh = || alloc::alloc(64).unwrap();
    let number = [7u32];
    let host = number.as_ptr() as u64;

    // A statement is told of once: what must not be found comes first.
    let copied = fresh();
    copy::to_device(copied + 8, host, 4).unwrap();
    assert_eq!(found(copied + 8), 0);
    let within = fresh();
    copy::on_device(within, copied + 8, 4).unwrap();
    assert_eq!(found(within), 0);
    let queued = fresh();
    copy::to_device_async(queued, host, 4, CUstream::NULL).unwrap();
    stream::synchronize(CUstream::NULL).unwrap();
    assert_eq!(found(queued), 0);
    let filled = fresh();
    fill::fill(filled, 0, 1, 4).unwrap();
    assert_eq!(found(filled), 0);
    assert_eq!(found(alloc::alloc_managed(64, 1).unwrap()), 0);
    assert_eq!(found(alloc::host_alloc(64, 0).unwrap()), 0);

    assert_eq!(found(copied + 12), 1);
}
