//! What kernels of one device see of another's memory, and managed variables, of which all devices
//! have one copy.

use std::ffi::CString;

use ptxjit_driver::image::jit::Options;
use ptxjit_driver::memory::value::Value;
use ptxjit_driver::memory::{alloc, copy, pointer, pool};
use ptxjit_driver::types::{
    CUcontext, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationType, CUmemLocation,
    CUmemLocationType, CUmemPoolProps, CUpointer_attribute, CUresult, CUstream, HostPtr,
};
use ptxjit_driver::{context, library, module, peer};

use crate::common;
use crate::kernel::{increment, run};

fn number(addr: u64) -> u32 {
    let mut value = 0_u32;
    copy::to_host(&raw mut value as u64, addr, 4).unwrap();
    value
}

/// Allocates a number on a device, in a context that it returns; no context is current after that.
fn on(device: i32, value: u32) -> (CUcontext, u64) {
    let context = common::context_on(device);
    let addr = alloc::alloc(4).unwrap();
    copy::to_device(addr, &raw const value as u64, 4).unwrap();
    (context, addr)
}

#[test]
fn memory_of_another_device_is_out_of_reach_until_its_context_is_a_peer() {
    for (here, there) in [(0, 1), (1, 0)] {
        let (other, addr) = on(there, 5);
        common::context_on(here);
        peer::enable(other, 0).unwrap();
        let function = increment();
        run(function, addr).unwrap();
        assert_eq!(number(addr), 6);
        // The same function again, whose launch is prepared.
        run(function, addr).unwrap();
        peer::disable(other).unwrap();
        assert_eq!(run(function, addr), Err(CUresult::ILLEGAL_ADDRESS));

        let context = common::context_on(here);
        assert_eq!(run(increment(), addr), Err(CUresult::ILLEGAL_ADDRESS));
        context::destroy(context).unwrap();
        context::set_current(other).unwrap();
        run(increment(), addr).unwrap();
        assert_eq!(number(addr), 8, "the other context is well");
    }
}

#[test]
fn own_memory_is_within_reach_whatever_the_peers() {
    for device in [0, 1] {
        let (_, addr) = on(device, 5);
        // Of another context of the same device.
        let context = common::context_on(device);
        run(increment(), addr).unwrap();
        let own = alloc::alloc(4).unwrap();
        run(increment(), own).unwrap();
        assert_eq!(number(addr), 6);
        context::destroy(context).unwrap();
    }
}

#[test]
fn pinned_and_managed_memory_is_within_reach_of_all() {
    common::context_on(1);
    let pinned = alloc::host_alloc(4, 0).unwrap();
    let managed = alloc::alloc_managed(4, 1).unwrap();
    let zero = 0_u32;
    for addr in [pinned, managed] {
        copy::to_device(addr, &raw const zero as u64, 4).unwrap();
    }
    for device in [0, 1] {
        common::context_on(device);
        for addr in [pinned, managed] {
            run(increment(), addr).unwrap();
            assert_eq!(number(addr), device as u32 + 1);
        }
    }
}

#[test]
fn a_pool_says_which_devices_may_access_it() {
    common::context_on(0);
    let location = |device| CUmemLocation {
        type_: CUmemLocationType::DEVICE,
        id: device,
    };
    let made = pool::create(&CUmemPoolProps {
        allocType: CUmemAllocationType::PINNED,
        location: location(0),
        ..CUmemPoolProps::default()
    });
    let made = made.unwrap();
    let addr = pool::alloc_from_pool_async(4, made, CUstream::NULL).unwrap();
    context::synchronize(CUcontext::NULL).unwrap();
    let five = 5_u32;
    copy::to_device(addr, &raw const five as u64, 4).unwrap();
    common::context_on(1);
    assert_eq!(run(increment(), addr), Err(CUresult::ILLEGAL_ADDRESS));
    common::context_on(1);
    let set = |flags| {
        let location = location(1);
        pool::set_access(made, &[CUmemAccessDesc { location, flags }])
    };
    set(CUmemAccess_flags::READWRITE).unwrap();
    run(increment(), addr).unwrap();
    assert_eq!(number(addr), 6);
    set(CUmemAccess_flags::NONE).unwrap();
    assert_eq!(run(increment(), addr), Err(CUresult::ILLEGAL_ADDRESS));
}

/// A managed variable, a plain one, and a kernel that adds 1 to the former.
const VARIABLES: &str = "
.version 7.0
.target sm_80
.address_size 64
.visible .global .attribute(.managed) .align 4 .u32 shared = 5;
.visible .global .align 4 .u32 own = 7;
.visible .entry count()
{
    .reg .b32 %r<2>;
    ld.global.u32 %r0, [shared];
    add.u32 %r1, %r0, 1;
    st.global.u32 [shared], %r1;
    ld.global.u32 %r0, [own];
    add.u32 %r1, %r0, 1;
    st.global.u32 [own], %r1;
    ret;
}
";

const OPTIONS: Options = Options {
    count: 0,
    keys: HostPtr::NULL,
    values: HostPtr::NULL,
};

#[test]
fn all_devices_have_one_copy_of_a_librarys_managed_variable() {
    common::context_on(0);
    let text = CString::new(VARIABLES).unwrap();
    let made = library::load_data(HostPtr(text.as_ptr() as u64), OPTIONS).unwrap();
    let shared = HostPtr(c"shared".as_ptr() as u64);
    let own = HostPtr(c"own".as_ptr() as u64);
    let (addr, size) = library::get_managed(made, shared).unwrap();
    assert_eq!((number(addr), size), (5, 4));
    assert_eq!(library::get_managed(made, own), Err(CUresult::NOT_FOUND));
    let is_managed = pointer::attribute(CUpointer_attribute::IS_MANAGED, addr);
    assert_eq!(is_managed, Ok(Value::Int(1)));
    let mut own_addrs = Vec::new();
    for device in [1, 0] {
        common::context_on(device);
        let (at, _) = library::get_global(made, own).unwrap();
        let name = HostPtr(c"count".as_ptr() as u64);
        let kernel = library::get_kernel(made, name).unwrap();
        // The kernel has no parameters: it does not look at this one.
        run(library::get_function(kernel).unwrap(), 0).unwrap();
        assert_eq!(number(at), 8, "the variable is the context's own");
        own_addrs.push(at);
        assert_eq!(library::get_global(made, shared), Ok((addr, 4)));
    }
    assert_ne!(own_addrs[0], own_addrs[1]);
    assert_eq!(number(addr), 7, "both have counted");
    library::unload(made).unwrap();
    let gone = pointer::attribute(CUpointer_attribute::IS_MANAGED, addr);
    assert_eq!(gone, Err(CUresult::INVALID_VALUE));
}

#[test]
fn a_modules_managed_variable_can_be_accessed_on_each_device() {
    common::context_on(1);
    let text = CString::new(VARIABLES).unwrap();
    let made = module::load_data(HostPtr(text.as_ptr() as u64), OPTIONS).unwrap();
    let name = |name: &std::ffi::CStr| HostPtr(name.as_ptr() as u64);
    let (shared, _) = module::get_global(made, name(c"shared")).unwrap();
    let (own, _) = module::get_global(made, name(c"own")).unwrap();
    common::context_on(0);
    run(increment(), shared).unwrap();
    assert_eq!(number(shared), 6);
    assert_eq!(run(increment(), own), Err(CUresult::ILLEGAL_ADDRESS));
}
