//! Virtual memory, and memory of the host that is registered; what kernels see of both.

use ptxjit_driver::context;
use ptxjit_driver::memory::{alloc, copy, fill, vmm};
use ptxjit_driver::types::{
    CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags,
    CUmemAllocationHandleType, CUmemAllocationProp, CUmemAllocationType, CUmemLocation,
    CUmemLocationType, CUresult,
};

use crate::common;
use crate::kernel::{increment, run};

const GRANULE: usize = 2 << 20;

fn on(device: i32) -> CUmemLocation {
    CUmemLocation {
        type_: CUmemLocationType::DEVICE,
        id: device,
    }
}

fn props() -> CUmemAllocationProp {
    CUmemAllocationProp {
        type_: CUmemAllocationType::PINNED,
        location: on(0),
        ..CUmemAllocationProp::default()
    }
}

fn access(flags: CUmemAccess_flags) -> CUmemAccessDesc {
    CUmemAccessDesc {
        location: on(0),
        flags,
    }
}

#[test]
fn memory_is_mapped_to_addresses() {
    common::context();
    let addr = vmm::reserve(2 * GRANULE, 0, 0).unwrap();
    let (first, second) = (
        vmm::create(GRANULE, &props(), 0).unwrap(),
        vmm::create(GRANULE, &props(), 0).unwrap(),
    );
    vmm::map(addr, GRANULE, 0, first, 0).unwrap();
    vmm::map(addr + GRANULE as u64, GRANULE, 0, second, 0).unwrap();
    let read_write = access(CUmemAccess_flags::READWRITE);
    vmm::set_access(addr, 2 * GRANULE, &[read_write]).unwrap();
    assert_eq!(vmm::access(on(0), addr), Ok(CUmemAccess_flags::READWRITE));
    assert_eq!(vmm::access(on(1), addr), Ok(CUmemAccess_flags::NONE));
    // Copies and fills go from one mapping into the next, kernels reach both.
    let middle = addr + GRANULE as u64 - 4;
    fill::fill(middle, 7, 4, 2).unwrap();
    run(increment(), middle + 4).unwrap();
    let mut out = [0_u32; 2];
    copy::to_host(out.as_mut_ptr() as u64, middle, 8).unwrap();
    assert_eq!(out, [7, 8]);
    let past = copy::to_host(out.as_mut_ptr() as u64, addr + 2 * GRANULE as u64 - 4, 8);
    assert_eq!(past, Err(CUresult::INVALID_VALUE));
    // The same memory twice, after it was released.
    vmm::release(first).unwrap();
    assert_eq!(vmm::properties(first), Err(CUresult::INVALID_VALUE));
    assert_eq!(vmm::retain(addr + 5), Ok(first));
    assert_eq!(vmm::properties(first), Ok(props()));
    let other = vmm::reserve(GRANULE, 0, 0).unwrap();
    vmm::map(other, GRANULE, 0, first, 0).unwrap();
    vmm::set_access(other, GRANULE, &[read_write]).unwrap();
    copy::to_host(out.as_mut_ptr() as u64, other + GRANULE as u64 - 4, 4).unwrap();
    assert_eq!(out[0], 7);
    vmm::unmap(other, GRANULE).unwrap();
    vmm::unmap(addr, 2 * GRANULE).unwrap();
    vmm::release(first).unwrap();
    assert_eq!(vmm::release(first), Err(CUresult::INVALID_VALUE));
    vmm::release(second).unwrap();
    vmm::free(addr, 2 * GRANULE).unwrap();
    vmm::free(other, GRANULE).unwrap();
    assert_eq!(
        copy::to_host(out.as_mut_ptr() as u64, addr, 4),
        Err(CUresult::INVALID_VALUE)
    );
}

#[test]
fn what_may_not_be_accessed_is_a_fault() {
    let handle = common::context();
    let addr = vmm::reserve(GRANULE, 0, 0).unwrap();
    let memory = vmm::create(GRANULE, &props(), 0).unwrap();
    vmm::map(addr, GRANULE, 0, memory, 0).unwrap();
    vmm::set_access(addr, GRANULE, &[access(CUmemAccess_flags::READ)]).unwrap();
    assert_eq!(run(increment(), addr), Err(CUresult::ILLEGAL_ADDRESS));
    context::destroy(handle).unwrap();
    vmm::unmap(addr, GRANULE).unwrap();
    common::context();
    assert_eq!(run(increment(), addr), Err(CUresult::ILLEGAL_ADDRESS));
    vmm::free(addr, GRANULE).unwrap();
    vmm::release(memory).unwrap();
}

#[test]
fn wrong_mappings_are_refused() {
    common::context();
    let invalid = Err(CUresult::INVALID_VALUE);
    let minimum = CUmemAllocationGranularity_flags::MINIMUM;
    assert_eq!(vmm::granularity(&props(), minimum), Ok(GRANULE));
    let unknown = CUmemAllocationGranularity_flags(2);
    assert_eq!(
        vmm::granularity(&props(), unknown),
        Err(CUresult::INVALID_VALUE)
    );
    for size in [0, 1, GRANULE + 1] {
        assert_eq!(vmm::reserve(size, 0, 0), Err(CUresult::INVALID_VALUE));
        assert_eq!(vmm::create(size, &props(), 0), Err(CUresult::INVALID_VALUE));
    }
    assert_eq!(vmm::reserve(GRANULE, 3, 0), Err(CUresult::INVALID_VALUE));
    assert_eq!(vmm::reserve(GRANULE, 0, 1), Err(CUresult::INVALID_VALUE));
    assert!(vmm::reserve(usize::MAX / GRANULE * GRANULE, 0, 0).is_err());
    let huge = vmm::create(usize::MAX / GRANULE * GRANULE, &props(), 0);
    assert_eq!(huge, Err(CUresult::OUT_OF_MEMORY));
    let exported = CUmemAllocationProp {
        requestedHandleTypes: CUmemAllocationHandleType::POSIX_FILE_DESCRIPTOR,
        ..props()
    };
    // Memory that could be exported, but for the export.
    vmm::release(vmm::create(GRANULE, &exported, 0).unwrap()).unwrap();
    let nowhere = CUmemAllocationProp {
        location: on(9),
        ..props()
    };
    assert_eq!(
        vmm::create(GRANULE, &nowhere, 0),
        Err(CUresult::INVALID_DEVICE)
    );
    let addr = vmm::reserve(2 * GRANULE, 0, 0).unwrap();
    let memory = vmm::create(GRANULE, &props(), 0).unwrap();
    assert_eq!(vmm::map(addr, GRANULE, 0, 99, 0), invalid);
    assert_eq!(vmm::map(addr, GRANULE, GRANULE, memory, 0), invalid);
    assert_eq!(vmm::map(addr, 2 * GRANULE, 0, memory, 0), invalid);
    assert_eq!(vmm::map(addr + 4096, GRANULE, 0, memory, 0), invalid);
    assert_eq!(
        vmm::map(alloc::alloc(GRANULE).unwrap(), GRANULE, 0, memory, 0),
        invalid
    );
    vmm::map(addr, GRANULE, 0, memory, 0).unwrap();
    assert_eq!(vmm::map(addr, GRANULE, 0, memory, 0), invalid);
    assert_eq!(vmm::free(addr, 2 * GRANULE), invalid);
    assert_eq!(vmm::unmap(addr, 2 * GRANULE), invalid);
    assert_eq!(vmm::unmap(addr, 0), invalid);
    assert_eq!(alloc::free(addr), invalid);
    let read = access(CUmemAccess_flags::READ);
    assert_eq!(vmm::set_access(addr, 2 * GRANULE, &[read]), invalid);
    assert_eq!(vmm::set_access(addr, GRANULE, &[]), invalid);
    assert_eq!(
        vmm::set_access(addr, GRANULE, &[access(CUmemAccess_flags(8))]),
        invalid
    );
    assert_eq!(
        vmm::retain(addr + GRANULE as u64),
        Err(CUresult::INVALID_VALUE)
    );
    vmm::unmap(addr, GRANULE).unwrap();
    vmm::free(addr, 2 * GRANULE).unwrap();
    assert_eq!(vmm::free(addr, 2 * GRANULE), invalid);
}

#[test]
fn kernels_reach_registered_memory_of_the_host() {
    common::context();
    let function = increment();
    let mut values = vec![5_u32; 10_000];
    let addr = values.as_mut_ptr() as u64;
    alloc::host_register(addr, 40_000, 0).unwrap();
    assert_eq!(alloc::host_device_pointer(addr + 4000, 0), Ok(addr + 4000));
    run(function, addr + 20_000).unwrap();
    assert_eq!(values[4999..5002], [5, 6, 5]);
    let again = alloc::host_register(addr + 39_999, 100, 0);
    assert_eq!(again, Err(CUresult::HOST_MEMORY_ALREADY_REGISTERED));
    assert_eq!(
        alloc::host_unregister(addr + 4),
        Err(CUresult::INVALID_VALUE)
    );
    alloc::host_unregister(addr).unwrap();
    assert_eq!(
        alloc::host_unregister(addr),
        Err(CUresult::HOST_MEMORY_NOT_REGISTERED)
    );
    assert_eq!(run(function, addr), Err(CUresult::ILLEGAL_ADDRESS));
}

#[test]
fn what_is_no_memory_of_the_host_is_not_registered() {
    common::context();
    let device = alloc::alloc(4096).unwrap();
    let invalid = Err(CUresult::INVALID_VALUE);
    assert_eq!(alloc::host_register(0, 4096, 0), invalid);
    assert_eq!(alloc::host_register(4096, 4096, 0), invalid);
    assert_eq!(alloc::host_register(u64::MAX - 10, 4096, 0), invalid);
    let value = 0_u64;
    let addr = &raw const value as u64;
    assert_eq!(alloc::host_register(addr, 0, 0), invalid);
    assert_eq!(alloc::host_register(addr, 8, 16), invalid);
    assert_eq!(
        alloc::host_register(addr, 8, 4),
        Err(CUresult::NOT_SUPPORTED)
    );
    let known = alloc::host_register(device, 4096, 0);
    assert_eq!(known, Err(CUresult::HOST_MEMORY_ALREADY_REGISTERED));
}
