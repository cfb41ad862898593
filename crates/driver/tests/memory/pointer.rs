//! Attributes of pointers.

use ptxjit_driver::memory::value::Value;
use ptxjit_driver::memory::{alloc, pointer, pool};
use ptxjit_driver::types::{CUpointer_attribute as Attr, CUresult};

use crate::common;

/// Host, and device or managed, as `CUmemorytype` has them.
const HOST: Value = Value::Int(1);
const DEVICE: Value = Value::Int(2);

#[test]
fn each_sort_of_memory_says_what_it_is() {
    let context = common::context();
    let device = alloc::alloc(100).unwrap();
    let managed = alloc::alloc_managed(100, 1).unwrap();
    let pinned = alloc::host_alloc(100, 0).unwrap();
    let pooled = pool::alloc_async(100, common::stream()).unwrap();
    for (addr, kind, is_managed) in [
        (device, DEVICE, 0),
        (managed, DEVICE, 1),
        (pinned, HOST, 0),
        (pooled, DEVICE, 0),
    ] {
        let get = |attribute| pointer::attribute(attribute, addr + 7);
        assert_eq!(get(Attr::MEMORY_TYPE), Ok(kind));
        assert_eq!(get(Attr::DEVICE_POINTER), Ok(Value::Long(addr + 7)));
        assert_eq!(get(Attr::IS_MANAGED), Ok(Value::Int(is_managed)));
        assert_eq!(get(Attr::DEVICE_ORDINAL), Ok(Value::Int(0)));
        assert_eq!(get(Attr::RANGE_START_ADDR), Ok(Value::Long(addr)));
        assert_eq!(get(Attr::RANGE_SIZE), Ok(Value::Long(100)));
        assert_eq!(get(Attr::MAPPED), Ok(Value::Bool(true)));
        let owner = if addr == pooled { 0 } else { context.0 };
        assert_eq!(get(Attr::CONTEXT), Ok(Value::Long(owner)));
    }
    let host = |addr| pointer::attribute(Attr::HOST_POINTER, addr);
    assert_eq!(host(pinned), Ok(Value::Long(pinned)));
    assert_eq!(host(managed), Ok(Value::Long(managed)));
    assert_eq!(host(device), Err(CUresult::INVALID_VALUE));
    let default = pool::current_pool(0).unwrap();
    let of_pool = pointer::attribute(Attr::MEMPOOL_HANDLE, pooled);
    assert_eq!(of_pool, Ok(Value::Long(default.0)));
}

#[test]
fn allocations_have_numbers_of_their_own() {
    common::context();
    let first = alloc::alloc(100).unwrap();
    let number = |addr| pointer::attribute(Attr::BUFFER_ID, addr).unwrap();
    let of_first = number(first);
    assert_eq!(number(first + 99), of_first);
    alloc::free(first).unwrap();
    assert_ne!(number(alloc::alloc(100).unwrap()), of_first);
}

#[test]
fn unknown_memory_has_no_attributes() {
    common::context();
    let local = 0_u64;
    let freed = alloc::alloc(64).unwrap();
    alloc::free(freed).unwrap();
    for addr in [0, &raw const local as u64, freed, u64::MAX] {
        let result = pointer::attribute(Attr::DEVICE_POINTER, addr);
        assert_eq!(result, Err(CUresult::INVALID_VALUE));
        let all = [Attr::MEMORY_TYPE, Attr::DEVICE_POINTER, Attr::IS_MANAGED];
        let nothing = vec![Value::Int(0), Value::Long(0), Value::Int(0)];
        assert_eq!(pointer::attributes(&all, addr), Ok(nothing));
    }
}

#[test]
fn in_the_plural_what_does_not_apply_is_null() {
    common::context();
    let addr = alloc::alloc(64).unwrap();
    let values = pointer::attributes(&[Attr::HOST_POINTER, Attr::MEMORY_TYPE], addr);
    assert_eq!(values, Ok(vec![Value::Long(0), DEVICE]));
    let invalid = Err(CUresult::INVALID_VALUE);
    assert_eq!(pointer::attributes(&[], addr), invalid);
    assert_eq!(pointer::attributes(&[Attr(0)], addr), invalid);
    assert_eq!(pointer::attributes(&[Attr(1000)], 0), invalid);
    assert_eq!(
        pointer::attribute(Attr(1000), addr),
        Err(CUresult::INVALID_VALUE)
    );
}

#[test]
fn only_synchronous_operations_can_be_set() {
    common::context();
    let addr = alloc::alloc(64).unwrap();
    let (on, off) = (1_u32, 0_u32);
    let get = || pointer::attribute(Attr::SYNC_MEMOPS, addr + 1);
    assert_eq!(get(), Ok(Value::Bool(false)));
    pointer::set_attribute(&raw const on as u64, Attr::SYNC_MEMOPS, addr).unwrap();
    assert_eq!(get(), Ok(Value::Bool(true)));
    pointer::set_attribute(&raw const off as u64, Attr::SYNC_MEMOPS, addr).unwrap();
    assert_eq!(get(), Ok(Value::Bool(false)));
    let wrong = [
        pointer::set_attribute(0, Attr::SYNC_MEMOPS, addr),
        pointer::set_attribute(&raw const on as u64, Attr::MEMORY_TYPE, addr),
        pointer::set_attribute(&raw const on as u64, Attr::SYNC_MEMOPS, 0),
    ];
    assert_eq!(wrong, [Err(CUresult::INVALID_VALUE); 3]);
}

#[test]
fn values_are_put_in_their_own_size() {
    common::start();
    let mut bytes = [0xee_u8; 16];
    let at = bytes.as_mut_ptr() as u64;
    Value::Bool(true).put(at).unwrap();
    assert_eq!(bytes[..2], [1, 0xee]);
    Value::Int(-2).put(at).unwrap();
    assert_eq!(bytes[..5], [0xfe, 0xff, 0xff, 0xff, 0xee]);
    Value::Tokens(5, 6).put(at).unwrap();
    assert_eq!(bytes[..13], [5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0xee]);
    assert_eq!(Value::Long(1).put(0), Err(CUresult::INVALID_VALUE));
    assert_eq!(Value::Long(1).put(64), Err(CUresult::INVALID_VALUE));
}
