//! Pools, and allocations in the order of streams.

use ptxjit_driver::memory::value::Value;
use ptxjit_driver::memory::{alloc, copy, pool};
use ptxjit_driver::types::{
    CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationHandleType, CUmemAllocationType,
    CUmemLocation, CUmemLocationType, CUmemPool_attribute as Attr, CUmemPoolProps, CUmemoryPool,
    CUresult, CUstream,
};
use ptxjit_driver::{context, stream};

use crate::common;

fn props(device: i32) -> CUmemPoolProps {
    CUmemPoolProps {
        allocType: CUmemAllocationType::PINNED,
        location: on(device),
        ..CUmemPoolProps::default()
    }
}

fn on(device: i32) -> CUmemLocation {
    CUmemLocation {
        type_: CUmemLocationType::DEVICE,
        id: device,
    }
}

/// A pool that keeps what is freed.
fn keeping_pool() -> CUmemoryPool {
    let made = pool::create(&props(0)).unwrap();
    set(made, Attr::RELEASE_THRESHOLD, u64::MAX).unwrap();
    made
}

fn set(pool: CUmemoryPool, attribute: Attr, value: u64) -> Result<(), CUresult> {
    pool::set_attribute(pool, attribute, &raw const value as u64)
}

fn get(pool: CUmemoryPool, attribute: Attr) -> u64 {
    match pool::attribute(pool, attribute).unwrap() {
        Value::Long(value) => value,
        other => panic!("{attribute:?} is {other:?}"),
    }
}

#[test]
fn memory_of_a_pool_can_be_used_and_is_reused() {
    common::context();
    let (made, stream) = (keeping_pool(), common::stream());
    let first = pool::alloc_from_pool_async(1000, made, stream).unwrap();
    assert!(first.is_multiple_of(256));
    let mut bytes = [0_u8; 1000];
    copy::to_device_async(first, [7_u8; 1000].as_ptr() as u64, 1000, stream).unwrap();
    copy::to_host_async(bytes.as_mut_ptr() as u64, first, 1000, stream).unwrap();
    stream::synchronize(stream).unwrap();
    assert!(bytes == [7; 1000]);
    assert_eq!(alloc::address_range(first + 999), Ok((first, 1000)));
    pool::free_async(first, stream).unwrap();
    let second = pool::alloc_from_pool_async(900, made, stream).unwrap();
    assert_eq!(second, first, "a block that is free is used again");
    assert_eq!(alloc::address_range(second), Ok((second, 900)));
    pool::free_async(second, stream).unwrap();
}

#[test]
fn memory_is_reused_in_the_order_of_streams() {
    common::context();
    let made = keeping_pool();
    let (busy, other) = (common::stream(), common::stream());
    let first = pool::alloc_from_pool_async(4096, made, busy).unwrap();
    let gate = common::block(busy);
    pool::free_async(first, busy).unwrap();
    let of_other = pool::alloc_from_pool_async(4096, made, other).unwrap();
    assert_ne!(of_other, first, "commands before the free may still use it");
    let again = pool::alloc_from_pool_async(4096, made, busy).unwrap();
    assert_eq!(
        again, first,
        "later commands of the stream run after the free"
    );
    pool::free_async(again, busy).unwrap();
    drop(gate);
    stream::synchronize(busy).unwrap();
    let at_last = pool::alloc_from_pool_async(4096, made, other).unwrap();
    assert_eq!(at_last, first);
}

#[test]
fn a_free_in_the_default_stream_waits_for_blocking_streams() {
    common::context();
    let made = keeping_pool();
    let blocking = stream::create(0, 0).unwrap();
    let addr = pool::alloc_from_pool_async(4096, made, blocking).unwrap();
    let gate = common::block(blocking);
    pool::free_async(addr, CUstream::NULL).unwrap();
    let other = pool::alloc_from_pool_async(4096, made, common::stream()).unwrap();
    assert_ne!(other, addr);
    drop(gate);
    context::synchronize(Default::default()).unwrap();
    let again = pool::alloc_from_pool_async(4096, made, common::stream()).unwrap();
    assert_eq!(again, addr);
}

#[test]
fn attributes_count_what_is_held_and_used() {
    common::context();
    let (made, stream) = (keeping_pool(), common::stream());
    assert_eq!(get(made, Attr::RESERVED_MEM_CURRENT), 0);
    let addrs: Vec<u64> = (0..3)
        .map(|_| pool::alloc_from_pool_async(1 << 20, made, stream).unwrap())
        .collect();
    assert_eq!(get(made, Attr::USED_MEM_CURRENT), 3 << 20);
    assert_eq!(get(made, Attr::RESERVED_MEM_CURRENT), 3 << 20);
    for &addr in &addrs[..2] {
        pool::free_async(addr, stream).unwrap();
    }
    stream::synchronize(stream).unwrap();
    assert_eq!(get(made, Attr::USED_MEM_CURRENT), 1 << 20);
    assert_eq!(get(made, Attr::USED_MEM_HIGH), 3 << 20);
    assert_eq!(get(made, Attr::RESERVED_MEM_CURRENT), 3 << 20);
    set(made, Attr::USED_MEM_HIGH, 0).unwrap();
    assert_eq!(get(made, Attr::USED_MEM_HIGH), 1 << 20);
    pool::trim_to(made, 2 << 20).unwrap();
    assert_eq!(get(made, Attr::RESERVED_MEM_CURRENT), 2 << 20);
    set(made, Attr::RELEASE_THRESHOLD, 0).unwrap();
    stream::synchronize(stream).unwrap();
    assert_eq!(get(made, Attr::RESERVED_MEM_CURRENT), 1 << 20);
    assert_eq!(get(made, Attr::RESERVED_MEM_HIGH), 3 << 20);
}

#[test]
fn reuse_flags_are_on_until_they_are_set() {
    common::context();
    let made = keeping_pool();
    let flags = [
        Attr::REUSE_FOLLOW_EVENT_DEPENDENCIES,
        Attr::REUSE_ALLOW_OPPORTUNISTIC,
        Attr::REUSE_ALLOW_INTERNAL_DEPENDENCIES,
    ];
    for flag in flags {
        assert_eq!(pool::attribute(made, flag), Ok(Value::Int(1)));
        set(made, flag, 0).unwrap();
        assert_eq!(pool::attribute(made, flag), Ok(Value::Int(0)));
    }
    // Without opportunistic reuse, what another stream freed is not used even if its commands have
    // run.
    let (one, other) = (common::stream(), common::stream());
    let gate = common::block(one);
    let addr = pool::alloc_from_pool_async(512, made, one).unwrap();
    pool::free_async(addr, one).unwrap();
    drop(gate);
    stream::synchronize(one).unwrap();
    assert_ne!(pool::alloc_from_pool_async(512, made, other), Ok(addr));
}

#[test]
fn a_pool_without_room_waits_for_its_own_memory_or_fails() {
    common::context();
    let limited = CUmemPoolProps {
        maxSize: 1 << 20,
        ..props(0)
    };
    let made = pool::create(&limited).unwrap();
    assert_eq!(get(made, Attr::MAX_POOL_SIZE), 1 << 20);
    let (busy, other) = (common::stream(), common::stream());
    let addr = pool::alloc_from_pool_async(1 << 20, made, busy).unwrap();
    assert_eq!(
        pool::alloc_from_pool_async(512, made, busy),
        Err(CUresult::OUT_OF_MEMORY)
    );
    let gate = common::block(busy);
    pool::free_async(addr, busy).unwrap();
    // The other stream gets the block, and waits for the commands that use it.
    let again = pool::alloc_from_pool_async(1 << 20, made, other).unwrap();
    assert_eq!(again, addr);
    assert_eq!(stream::query(other), Err(CUresult::NOT_READY));
    drop(gate);
    stream::synchronize(other).unwrap();
    pool::free_async(again, other).unwrap();
    set(made, Attr::REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0).unwrap();
    let gate = common::block(busy);
    let addr = pool::alloc_from_pool_async(1 << 20, made, busy).unwrap();
    pool::free_async(addr, busy).unwrap();
    assert_eq!(
        pool::alloc_from_pool_async(1 << 20, made, other),
        Err(CUresult::OUT_OF_MEMORY)
    );
    drop(gate);
}

#[test]
fn pools_give_way_to_other_allocations() {
    common::context_on(1);
    let made = pool::create(&props(1)).unwrap();
    set(made, Attr::RELEASE_THRESHOLD, u64::MAX).unwrap();
    let stream = common::stream();
    let size = common::MEMORY / 4 * 3;
    let addr = pool::alloc_from_pool_async(size, made, stream).unwrap();
    pool::free_async(addr, stream).unwrap();
    let other = alloc::alloc(size).unwrap();
    assert_eq!(get(made, Attr::RESERVED_MEM_CURRENT), 0);
    alloc::free(other).unwrap();
    assert_eq!(
        pool::alloc_from_pool_async(usize::MAX, made, stream),
        Err(CUresult::OUT_OF_MEMORY)
    );
    assert_eq!(
        pool::alloc_from_pool_async(common::MEMORY + 1, made, stream),
        Err(CUresult::OUT_OF_MEMORY)
    );
}

#[test]
fn a_pool_that_is_destroyed_keeps_its_allocations() {
    common::context();
    let (made, stream) = (keeping_pool(), common::stream());
    let addr = pool::alloc_from_pool_async(100, made, stream).unwrap();
    pool::destroy(made).unwrap();
    assert_eq!(pool::destroy(made), Err(CUresult::INVALID_HANDLE));
    assert_eq!(
        pool::alloc_from_pool_async(100, made, stream),
        Err(CUresult::INVALID_HANDLE)
    );
    copy::to_device(addr, [1_u8; 100].as_ptr() as u64, 100).unwrap();
    pool::free_async(addr, stream).unwrap();
    assert_eq!(alloc::address_range(addr), Err(CUresult::NOT_FOUND));
}

#[test]
fn frees_of_what_is_not_there_fail() {
    common::context();
    let (made, stream) = (keeping_pool(), common::stream());
    let addr = pool::alloc_from_pool_async(100, made, stream).unwrap();
    let invalid = Err(CUresult::INVALID_VALUE);
    for wrong in [1, addr + 1, addr + 4096, u64::MAX] {
        assert_eq!(pool::free_async(wrong, stream), invalid, "{wrong:#x}");
    }
    let garbage = CUstream(0xdead_beef);
    assert_eq!(
        pool::free_async(addr, garbage),
        Err(CUresult::INVALID_HANDLE)
    );
    pool::free_async(addr, stream).unwrap();
    assert_eq!(pool::free_async(addr, stream), invalid);
    let device = alloc::alloc(100).unwrap();
    assert_eq!(pool::free_async(device, stream), Ok(()));
    assert_eq!(alloc::free(device), invalid);
    // The other way round, memory of a pool may be freed at once.
    let addr = pool::alloc_from_pool_async(100, made, stream).unwrap();
    alloc::free(addr).unwrap();
    assert_eq!(alloc::free(addr), invalid);
    assert_eq!(get(made, Attr::USED_MEM_CURRENT), 0);
}

#[test]
fn wrong_pools_and_attributes_are_refused() {
    common::context();
    let invalid = Err(CUresult::INVALID_VALUE);
    let wrong_type = CUmemPoolProps {
        allocType: CUmemAllocationType(77),
        ..props(0)
    };
    assert_eq!(pool::create(&wrong_type), invalid);
    let nowhere = CUmemPoolProps {
        location: CUmemLocation::default(),
        ..props(0)
    };
    assert_eq!(pool::create(&nowhere), invalid);
    assert_eq!(pool::create(&props(7)), Err(CUresult::INVALID_DEVICE));
    let exported = CUmemPoolProps {
        handleTypes: CUmemAllocationHandleType::POSIX_FILE_DESCRIPTOR,
        ..props(0)
    };
    assert_eq!(pool::create(&exported), Err(CUresult::NOT_SUPPORTED));
    let made = keeping_pool();
    for attribute in [0, 99] {
        assert_eq!(pool::attribute(made, Attr(attribute)).err(), invalid.err());
        assert_eq!(set(made, Attr(attribute), 0).err(), invalid.err());
    }
    assert_eq!(set(made, Attr::USED_MEM_HIGH, 5).err(), invalid.err());
    assert_eq!(set(made, Attr::USED_MEM_CURRENT, 0).err(), invalid.err());
    assert_eq!(
        pool::set_attribute(made, Attr::RELEASE_THRESHOLD, 0).err(),
        invalid.err()
    );
    for garbage in [0, 1, 0xdead_beef, common::stream().0] {
        let garbage = CUmemoryPool(garbage);
        let result = pool::attribute(garbage, Attr::RELEASE_THRESHOLD);
        assert_eq!(result, Err(CUresult::INVALID_HANDLE));
        assert_eq!(pool::trim_to(garbage, 0), Err(CUresult::INVALID_HANDLE));
        assert_eq!(pool::destroy(garbage), Err(CUresult::INVALID_HANDLE));
    }
}

#[test]
fn devices_have_a_default_pool_and_a_current_one() {
    common::context();
    let default = pool::default_pool(0).unwrap();
    assert_eq!(
        pool::default_pool_at(on(0), CUmemAllocationType::PINNED),
        Ok(default)
    );
    assert_eq!(pool::destroy(default), Err(CUresult::INVALID_VALUE));
    assert_eq!(pool::default_pool(2), Err(CUresult::INVALID_DEVICE));
    assert_eq!(pool::current_pool(-1), Err(CUresult::INVALID_DEVICE));
    assert_ne!(pool::default_pool(1), Ok(default));
    let of_other = pool::create(&props(1)).unwrap();
    assert_eq!(
        pool::set_current_pool(0, of_other),
        Err(CUresult::INVALID_VALUE)
    );
    pool::set_current_pool(1, of_other).unwrap();
    assert_eq!(pool::current_pool(1), Ok(of_other));
    assert_eq!(
        pool::current_pool_at(on(1), CUmemAllocationType::PINNED),
        Ok(of_other)
    );
    pool::destroy(of_other).unwrap();
    assert_eq!(pool::current_pool(1), pool::default_pool(1));
}

#[test]
fn places_have_pools_for_each_kind_of_memory() {
    common::context();
    let at = |type_, id| CUmemLocation { type_, id };
    let (managed, pinned) = (CUmemAllocationType::MANAGED, CUmemAllocationType::PINNED);
    let anywhere = at(CUmemLocationType::NONE, 0);
    let host = at(CUmemLocationType::HOST, 0);
    let places = [
        (anywhere, managed),
        (host, managed),
        (host, pinned),
        (on(0), managed),
    ];
    let (stream, mut seen) = (common::stream(), vec![pool::default_pool(0).unwrap()]);
    for (location, kind) in places {
        let default = pool::default_pool_at(location, kind).unwrap();
        assert_eq!(pool::current_pool_at(location, kind), Ok(default));
        assert!(!seen.contains(&default), "each has pools of its own");
        seen.push(default);
        let memory = pool::alloc_from_pool_async(64, default, stream).unwrap();
        pool::free_async(memory, stream).unwrap();
        assert_eq!(pool::destroy(default), Err(CUresult::INVALID_VALUE));

        let props = CUmemPoolProps {
            allocType: kind,
            location,
            ..CUmemPoolProps::default()
        };
        let own = pool::create(&props).unwrap();
        pool::set_current_pool_at(location, kind, own).unwrap();
        assert_eq!(pool::current_pool_at(location, kind), Ok(own));
        assert_eq!(pool::default_pool_at(location, kind), Ok(default));
        pool::destroy(own).unwrap();
        assert_eq!(pool::current_pool_at(location, kind), Ok(default));
    }
    let invalid = Err(CUresult::INVALID_VALUE);
    assert_eq!(pool::current_pool_at(anywhere, pinned), invalid);
    let of_device = pool::default_pool(0).unwrap();
    assert_eq!(
        pool::set_current_pool_at(host, managed, of_device),
        Err(CUresult::INVALID_VALUE)
    );
}

#[test]
fn no_bytes_are_no_memory() {
    common::context();
    let (made, stream) = (keeping_pool(), common::stream());
    assert_eq!(pool::alloc_async(0, stream), Ok(0));
    assert_eq!(pool::alloc_from_pool_async(0, made, stream), Ok(0));
    pool::free_async(0, stream).unwrap();
    assert_eq!(get(made, Attr::RESERVED_MEM_CURRENT), 0);
}

#[test]
fn access_of_other_devices_is_kept() {
    common::context();
    let made = keeping_pool();
    let access = |device, flags| CUmemAccessDesc {
        location: on(device),
        flags,
    };
    assert_eq!(pool::access(made, on(0)), Ok(CUmemAccess_flags::READWRITE));
    assert_eq!(pool::access(made, on(1)), Ok(CUmemAccess_flags::NONE));
    pool::set_access(made, &[access(1, CUmemAccess_flags::READWRITE)]).unwrap();
    assert_eq!(pool::access(made, on(1)), Ok(CUmemAccess_flags::READWRITE));
    let wrong = [
        (access(0, CUmemAccess_flags::NONE), CUresult::INVALID_VALUE),
        (access(1, CUmemAccess_flags(9)), CUresult::INVALID_VALUE),
        (access(5, CUmemAccess_flags::READ), CUresult::INVALID_DEVICE),
    ];
    for (desc, code) in wrong {
        assert_eq!(pool::set_access(made, &[desc]), Err(code));
    }
    assert_eq!(pool::access(made, on(9)), Err(CUresult::INVALID_DEVICE));
}
