//! Advice on managed memory.

use ptxjit_driver::memory::{advice, alloc};
use ptxjit_driver::types::{
    CUmem_advise as Advise, CUmem_range_attribute as Attr, CUmemLocation, CUmemLocationType,
    CUresult, CUstream,
};

use crate::common;

fn one(attribute: Attr, addr: u64, len: usize) -> i32 {
    advice::range_attribute(attribute, 4, addr, len).unwrap()[0]
}

#[test]
fn a_range_has_what_all_of_it_has() {
    common::context();
    let addr = alloc::alloc_managed(4096, 1).unwrap();
    let device = advice::location_of(0);
    assert_eq!(one(Attr::READ_MOSTLY, addr, 4096), 0);
    assert_eq!(one(Attr::PREFERRED_LOCATION, addr, 4096), -2);
    advice::advise(addr + 1000, 1000, Advise::SET_READ_MOSTLY, device).unwrap();
    advice::advise(addr + 500, 1000, Advise::SET_PREFERRED_LOCATION, device).unwrap();
    assert_eq!(one(Attr::READ_MOSTLY, addr + 1000, 1000), 1);
    assert_eq!(one(Attr::READ_MOSTLY, addr + 999, 1000), 0);
    assert_eq!(one(Attr::READ_MOSTLY, addr + 1001, 1000), 0);
    assert_eq!(one(Attr::PREFERRED_LOCATION, addr + 500, 1000), 0);
    assert_eq!(one(Attr::PREFERRED_LOCATION, addr + 500, 1001), -2);
    let host = advice::location_of(-1);
    advice::advise(addr, 4096, Advise::SET_PREFERRED_LOCATION, host).unwrap();
    assert_eq!(one(Attr::PREFERRED_LOCATION, addr, 4096), -1);
    assert_eq!(one(Attr::PREFERRED_LOCATION_TYPE, addr, 4096), 2);
    assert_eq!(one(Attr::READ_MOSTLY, addr + 1000, 1000), 1);
    advice::advise(addr, 4096, Advise::UNSET_READ_MOSTLY, device).unwrap();
    advice::advise(addr, 4096, Advise::UNSET_PREFERRED_LOCATION, device).unwrap();
    assert_eq!(one(Attr::READ_MOSTLY, addr + 1000, 1000), 0);
    assert_eq!(one(Attr::PREFERRED_LOCATION, addr, 4096), -2);
}

#[test]
fn accessors_fill_the_room_that_is_given() {
    common::context();
    let addr = alloc::alloc_managed(100, 1).unwrap();
    for device in [0, 1, 1] {
        let location = advice::location_of(device);
        advice::advise(addr, 100, Advise::SET_ACCESSED_BY, location).unwrap();
    }
    let get = |size| advice::range_attribute(Attr::ACCESSED_BY, size, addr, 100);
    assert_eq!(get(12), Ok(vec![0, 1, -2]));
    assert_eq!(get(4), Ok(vec![0]));
    let location = advice::location_of(0);
    advice::advise(addr, 50, Advise::UNSET_ACCESSED_BY, location).unwrap();
    assert_eq!(get(12), Ok(vec![1, -2, -2]));
    assert_eq!(
        [get(0), get(6)],
        [Err(CUresult::INVALID_VALUE), Err(CUresult::INVALID_VALUE)]
    );
}

#[test]
fn prefetches_are_noted() {
    common::context();
    let (addr, stream) = (alloc::alloc_managed(100, 1).unwrap(), common::stream());
    advice::prefetch(addr, 100, advice::location_of(1), 0, stream).unwrap();
    assert_eq!(one(Attr::LAST_PREFETCH_LOCATION, addr, 100), 1);
    assert_eq!(one(Attr::LAST_PREFETCH_LOCATION_TYPE, addr, 100), 1);
    assert_eq!(one(Attr::LAST_PREFETCH_LOCATION_ID, addr, 100), 1);
    alloc::free(addr).unwrap();
    let codes = [
        advice::prefetch(addr, 100, advice::location_of(1), 0, stream),
        advice::prefetch(
            alloc::alloc(100).unwrap(),
            100,
            advice::location_of(0),
            0,
            stream,
        ),
        advice::prefetch(0, 0, advice::location_of(0), 0, stream),
    ];
    assert_eq!(codes, [Err(CUresult::INVALID_VALUE); 3]);
}

#[test]
fn wrong_advice_is_refused() {
    common::context();
    let addr = alloc::alloc_managed(100, 1).unwrap();
    let advise = |len, what, location| advice::advise(addr, len, what, location);
    let device = advice::location_of(0);
    let invalid = Err(CUresult::INVALID_VALUE);
    assert_eq!(advise(101, Advise::SET_READ_MOSTLY, device), invalid);
    assert_eq!(advise(0, Advise::SET_READ_MOSTLY, device), invalid);
    assert_eq!(advise(usize::MAX, Advise::SET_READ_MOSTLY, device), invalid);
    assert_eq!(advise(100, Advise(9), device), invalid);
    let nowhere = CUmemLocation::default();
    assert_eq!(
        advise(100, Advise::SET_PREFERRED_LOCATION, nowhere),
        invalid
    );
    let node = CUmemLocation {
        type_: CUmemLocationType::HOST_NUMA,
        id: 0,
    };
    assert_eq!(advise(100, Advise::SET_PREFERRED_LOCATION, node), Ok(()));
    assert_eq!(advise(100, Advise::SET_ACCESSED_BY, node), invalid);
    let missing = Err(CUresult::INVALID_DEVICE);
    assert_eq!(
        advise(100, Advise::SET_ACCESSED_BY, advice::location_of(5)),
        missing
    );
    let attribute = advice::range_attribute(Attr::READ_MOSTLY, 8, addr, 100);
    assert_eq!(attribute, Err(CUresult::INVALID_VALUE));
}

#[test]
fn managed_memory_is_attached_as_a_whole() {
    common::context();
    let (addr, stream) = (alloc::alloc_managed(100, 1).unwrap(), common::stream());
    let (global, host, single) = (1, 2, 4);
    for flags in [global, host, single] {
        assert_eq!(advice::attach(stream, addr, 0, flags), Ok(()));
        assert_eq!(advice::attach(stream, addr, 100, flags), Ok(()));
    }
    let device = alloc::alloc(100).unwrap();
    let wrong = [
        advice::attach(CUstream::NULL, addr, 0, single),
        advice::attach(stream, addr, 50, single),
        advice::attach(stream, addr, 0, 3),
        advice::attach(stream, device, 0, global),
        advice::attach(stream, 0, 0, global),
    ];
    assert_eq!(wrong, [Err(CUresult::INVALID_VALUE); 5]);
}

#[test]
fn batches_have_managed_memory_only() {
    common::context();
    let (addr, stream) = (alloc::alloc_managed(100, 1).unwrap(), common::stream());
    let ranges = [(addr, 10), (addr + 10, 10), (addr + 20, 10)];
    let places = [advice::location_of(1), advice::location_of(-1)];
    advice::prefetch_batch(&ranges, &places, &[0, 2], 0, stream).unwrap();
    let last = |addr| one(Attr::LAST_PREFETCH_LOCATION, addr, 10);
    assert_eq!([last(addr), last(addr + 10), last(addr + 20)], [1, 1, -1]);
    assert_eq!(advice::discard_batch(&ranges, 0, stream), Ok(()));
    let device = alloc::alloc(100).unwrap();
    let wrong = [
        advice::discard_batch(&[(addr, 10), (device, 10)], 0, stream),
        advice::discard_batch(&ranges, 1, stream),
        advice::discard_batch(&[], 0, stream),
        advice::discard_batch(&ranges, 0, CUstream::NULL),
        advice::prefetch_batch(&ranges, &places, &[0, 3], 0, stream),
        advice::prefetch_batch(&ranges, &places, &[1, 2], 0, stream),
        advice::prefetch_batch(&ranges, &places, &[0], 0, stream),
    ];
    assert_eq!(wrong, [Err(CUresult::INVALID_VALUE); 7]);
}
