//! The library from the outside: buffers, modules, launches, errors, and all of it from several
//! threads.

mod boxes;
mod buffers;
mod complexity;
mod documents;
mod failures;
mod host_memory;
mod joined;

mod late;
mod launches;
mod linking;
mod litmus;
mod modules;
mod placement;
mod proofs;
mod raw;
mod screening;
mod surface;
mod textures;
mod threads;
mod virtual_memory;

use ptxjit::{Device, Kernel, Module};

/// PTX with the header that all these tests need.
fn ptx(body: &str) -> String {
    format!(".version 7.0\n.target sm_80\n.address_size 64\n{body}")
}

/// A module with one kernel.
fn kernel(device: &Device, body: &str) -> Kernel {
    let module =
        Module::from_source(device, "test.ptx", ptx(body)).unwrap_or_else(|err| panic!("{err}"));
    module.only_kernel().unwrap_or_else(|err| panic!("{err}"))
}

/// `data[i] += delta` for the first `count` elements.
const ADD: &str = "
.visible .entry add(.param .u64 data, .param .u32 delta, .param .u32 count)
{
    .reg .pred %p;
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r1, %r1, %r2, %r3;
    ld.param.u32 %r4, [count];
    setp.ge.u32 %p, %r1, %r4;
    @%p bra DONE;
    ld.param.u64 %rd1, [data];
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    ld.global.u32 %r4, [%rd3];
    ld.param.u32 %r5, [delta];
    add.u32 %r4, %r4, %r5;
    st.global.u32 [%rd3], %r4;
DONE:
    ret;
}
";
