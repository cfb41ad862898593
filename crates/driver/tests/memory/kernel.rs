//! A kernel that reads and writes one place in memory.

use std::ffi::CString;

use ptxjit_driver::image::jit::Options;
use ptxjit_driver::launch::{self, Arguments};
use ptxjit_driver::types::{CUfunction, CUresult, CUstream, HostPtr};
use ptxjit_driver::{context, module};

/// Adds 1 to the number at an address.
const PTX: &str = "
.version 7.0
.target sm_80
.address_size 64
.visible .entry increment(.param .u64 address)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [address];
    ld.u32 %r0, [%rd0];
    add.u32 %r1, %r0, 1;
    st.u32 [%rd0], %r1;
    ret;
}
";

/// The kernel, loaded into the current context.
pub(crate) fn increment() -> CUfunction {
    let text = CString::new(PTX).unwrap();
    let options = Options {
        count: 0,
        keys: HostPtr::NULL,
        values: HostPtr::NULL,
    };
    let module = module::load_data(HostPtr(text.as_ptr() as u64), options).unwrap();
    let name = c"increment";
    module::get_function(module, HostPtr(name.as_ptr() as u64)).unwrap()
}

/// Runs the kernel to its end.
pub(crate) fn run(function: CUfunction, address: u64) -> Result<(), CUresult> {
    let params = [&raw const address as u64];
    let arguments = Arguments {
        params: HostPtr(params.as_ptr() as u64),
        extra: HostPtr::NULL,
    };
    launch::kernel(
        function,
        [1; 3],
        [1; 3],
        0,
        CUstream::NULL,
        arguments,
        false,
    )?;
    context::synchronize(Default::default())
}
