//! Launches that fail without a fault: the program is told once, and goes on.

#[path = "memory/kernel.rs"]
mod kernel;
#[path = "memory/start.rs"]
mod start;

use std::fmt::Write;

use ptxjit_driver::memory::{alloc, copy};
use ptxjit_driver::types::{CUresult, CUstream};
use ptxjit_driver::{context, stream};

use kernel::{increment, launch, load, run};
use start::start;

/// A kernel with more barriers than the state of a thread can tell apart.
fn too_complex() -> String {
    let mut text = ".version 7.0\n.target sm_80\n.address_size 64\n\
         .visible .entry large(.param .u64 address)\n{\n\
         .reg .b64 %rd;\nld.param.u64 %rd, [address];\n"
        .to_owned();
    for n in 0..0x10010 {
        let _ = writeln!(text, "st.volatile.u32 [%rd], {n};\nbar.sync 0;");
    }
    text + "ret;\n}\n"
}

#[test]
fn a_launch_that_cannot_be_compiled_is_told_once() {
    start(&[("PTXJIT_QUIET", "1")]);
    context::create(0, 0, 3020).unwrap();
    let addr = alloc::alloc(4).unwrap();
    let number = [7u32];
    let host = number.as_ptr() as u64;
    copy::to_device(addr, host, 4).unwrap();
    let large = load(&too_complex(), c"large");

    assert_eq!(launch(large, addr), Ok(()));
    let failed = Err(CUresult::NOT_SUPPORTED);
    assert_eq!(stream::synchronize(CUstream::NULL), failed);
    assert_eq!(stream::synchronize(CUstream::NULL), Ok(()));
    assert_eq!(run(large, addr), failed);

    // What does not wait does not take the error from what does.
    assert_eq!(launch(large, addr), Ok(()));
    let other = alloc::alloc(4).unwrap();
    assert_eq!(alloc::free(other), Ok(()));
    let mut found = [0u32];
    let to = found.as_mut_ptr() as u64;
    assert_eq!(copy::to_host(to, addr, 4), failed);

    assert_eq!(run(increment(), addr), Ok(()));
    copy::to_host(to, addr, 4).unwrap();
    assert_eq!(found, [8]);
}
