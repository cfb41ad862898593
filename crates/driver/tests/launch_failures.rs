//! Launches that fail without a fault: the program is told once, and goes on.

#[path = "memory/kernel.rs"]
mod kernel;

use std::fmt::Write;

use ptxjit_driver::memory::{alloc, copy};
use ptxjit_driver::types::{CUresult, CUstream};
use ptxjit_driver::{context, init, stream};

use kernel::{increment, launch, load, run};

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
#[expect(unsafe_code, reason = "sets an environment variable")]
fn a_launch_that_cannot_be_compiled_is_told_once() {
    // SAFETY: this is the only test here, and nothing has read the environment yet, but through
    // std, which has a lock.
    unsafe { std::env::set_var("PTXJIT_QUIET", "1") };
    init(0).unwrap();
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
