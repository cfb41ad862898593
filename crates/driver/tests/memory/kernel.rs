//! A kernel that reads and writes one place in memory.

use std::ffi::{CStr, CString};

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
    load(PTX, c"increment")
}

/// A kernel of a module, loaded into the current context.
pub(crate) fn load(text: &str, name: &CStr) -> CUfunction {
    let text = CString::new(text).unwrap();
    let options = Options {
        count: 0,
        keys: HostPtr::NULL,
        values: HostPtr::NULL,
    };
    let module = module::load_data(HostPtr(text.as_ptr() as u64), options).unwrap();
    module::get_function(module, HostPtr(name.as_ptr() as u64)).unwrap()
}

/// Launches a kernel of one thread that takes an address.
pub(crate) fn launch(function: CUfunction, address: u64) -> Result<(), CUresult> {
    let params = [&raw const address as u64];
    let arguments = Arguments {
        params: HostPtr(params.as_ptr() as u64),
        extra: HostPtr::NULL,
    };
    let (one, stream) = ([1; 3], CUstream::NULL);
    launch::kernel(function, one, one, 0, stream, arguments, false)
}

/// Runs the kernel to its end.
pub(crate) fn run(function: CUfunction, address: u64) -> Result<(), CUresult> {
    launch(function, address)?;
    context::synchronize(Default::default())
}
