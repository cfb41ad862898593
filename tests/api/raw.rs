//! Raw device memory, and devices that share an address space.

use std::sync::atomic::{AtomicBool, Ordering};

use ptxjit::{Device, Error, Module, Pattern};

use crate::{ADD, ptx};

#[test]
fn patterns_and_long_copies_arrive() {
    let device = Device::new().unwrap();
    // Longer than the steps in which copies are done, and no multiple of them.
    let len = 1_000_003u64;
    let (a, b) = (
        device.alloc_raw(len, 1).unwrap(),
        device.alloc_raw(len, 4096).unwrap(),
    );
    assert!(a.is_multiple_of(256) && b.is_multiple_of(4096));
    let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + i / 251) as u8).collect();
    let mut back = vec![0; len as usize];
    device.write_raw(a, &bytes).unwrap();
    device.copy_raw(b, a, len).unwrap();
    device.read_raw(b, &mut back).unwrap();
    assert!(back == bytes);
    for (to, from) in [(b + 1000, b), (b, b + 1000)] {
        device.write_raw(b, &bytes).unwrap();
        device.copy_raw(to, from, len - 1000).unwrap();
        let mut moved = bytes.clone();
        let (to, from) = ((to - b) as usize, (from - b) as usize);
        moved.copy_within(from..from + (len - 1000) as usize, to);
        device.read_raw(b, &mut back).unwrap();
        assert!(back == moved);
    }
    device
        .fill_raw(a, Pattern::U32(0x0403_0201), len / 4)
        .unwrap();
    device.read_raw(a, &mut back).unwrap();
    assert!(
        back[..1_000_000]
            .iter()
            .enumerate()
            .all(|(i, &byte)| usize::from(byte) == i % 4 + 1)
    );
    assert_eq!(back[1_000_000..], bytes[1_000_000..]);
    device.fill_raw(a + 1, Pattern::U16(0xaabb), 2).unwrap();
    device.fill_raw(a + 5, Pattern::U8(9), 1).unwrap();
    device.read_raw(a, &mut back[..8]).unwrap();
    assert_eq!(back[..8], [1, 0xbb, 0xaa, 0xbb, 0xaa, 9, 3, 4]);
}

#[test]
fn what_is_not_inside_one_allocation_is_refused() {
    let device = Device::new().unwrap();
    let addr = device.alloc_raw(100, 256).unwrap();
    let refused = |result: Result<(), Error>| matches!(result, Err(Error::Address(_)));
    let mut bytes = [0; 101];
    assert!(refused(device.read_raw(addr, &mut bytes)));
    assert!(refused(device.write_raw(addr + 100, &[1])));
    assert!(refused(device.fill_raw(addr, Pattern::U32(0), 26)));
    assert!(refused(device.fill_raw(addr, Pattern::U32(0), u64::MAX)));
    assert!(refused(device.copy_raw(addr, addr + 1, 100)));
    assert!(refused(device.copy_raw(addr, bytes.as_ptr() as u64, 100)));
    assert!(refused(device.free_raw(addr + 1)) && refused(device.free_raw(0)));
    assert!(matches!(device.alloc_raw(1, 3), Err(Error::Usage { .. })));
    assert!(matches!(
        device.alloc_raw(u64::MAX, 256),
        Err(Error::OutOfMemory { .. })
    ));
    for wild in [
        0,
        8,
        u64::MAX,
        bytes.as_ptr() as u64,
        device.arena_range().end - 8,
    ] {
        assert_eq!(device.range_of(wild), None);
        assert!(refused(device.read_raw(wild, &mut bytes[..1])));
    }
    device.read_raw(addr, &mut bytes[..100]).unwrap();
    device.read_raw(wild_but_empty(), &mut []).unwrap();
    device.free_raw(addr).unwrap();
    assert!(refused(device.free_raw(addr)));
}

/// A copy of nothing may name any address.
fn wild_but_empty() -> u64 {
    12345
}

#[test]
fn allocations_go_on_beside_long_copies() {
    let device = Device::new().unwrap();
    let big = device.alloc_raw(64 << 20, 256).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            device.fill_raw(big, Pattern::U8(1), 64 << 20).unwrap();
            device.copy_raw(big, big + 1, (64 << 20) - 1).unwrap();
            done.store(true, Ordering::Release);
        });
        let mut rounds = 0;
        while !done.load(Ordering::Acquire) || rounds < 100 {
            let (small, large) = (
                device.alloc_raw(100, 256).unwrap(),
                device.alloc_raw(1 << 20, 256).unwrap(),
            );
            device.write_raw(small, &[2; 100]).unwrap();
            device.copy_raw(large, small, 100).unwrap();
            device.free_raw(small).unwrap();
            device.free_raw(large).unwrap();
            rounds += 1;
        }
    });
    let mut last = [0; 2];
    device.read_raw(big + (64 << 20) - 2, &mut last).unwrap();
    assert_eq!(last, [1, 1]);
}

#[test]
fn siblings_reach_each_other() {
    let devices = Device::siblings(3, Some(2)).unwrap();
    let addrs: Vec<u64> = devices
        .iter()
        .map(|device| device.alloc_raw(400, 256).unwrap())
        .collect();
    for (n, device) in devices.iter().enumerate() {
        assert_eq!((device.ordinal(), device.used_bytes()), (n, 400));
        for (of, &addr) in addrs.iter().enumerate() {
            assert_eq!(device.device_of(addr), Some(of));
        }
        // Each device adds to the memory of all.
        let module = Module::from_source(device, "test.ptx", ptx(ADD)).unwrap();
        for &addr in &addrs {
            if n == 0 {
                device.fill_raw(addr, Pattern::U32(0), 100).unwrap();
            }
            let add = module.kernel("add").unwrap();
            add.launch()
                .block(128)
                .arg(addr)
                .arg(1u32 << (8 * n))
                .arg(100u32)
                .run()
                .unwrap();
        }
    }
    let mut bytes = [0; 400];
    for addr in addrs {
        devices[1].read_raw(addr, &mut bytes).unwrap();
        assert!(bytes.chunks(4).all(|word| word == [1, 1, 1, 0]));
    }
    assert!(Device::siblings(0, None).is_err() && Device::siblings(65, None).is_err());
}

#[test]
fn each_device_has_its_limit() {
    let devices = Device::siblings(2, Some(1)).unwrap();
    let small = devices[0].clone().with_memory_limit(1000);
    assert_eq!(
        (devices[0].memory_limit(), devices[1].memory_limit()),
        (Some(1000), None)
    );
    let addr = small.alloc_raw(600, 256).unwrap();
    assert!(matches!(
        devices[0].alloc_raw(401, 256),
        Err(Error::OutOfMemory { .. })
    ));
    assert!(matches!(
        devices[0].alloc::<u8>(401),
        Err(Error::OutOfMemory { .. })
    ));
    devices[1].alloc_raw(1 << 20, 256).unwrap();
    small.alloc_raw(400, 256).unwrap();
    // A sibling may free it.
    devices[1].free_raw(addr).unwrap();
    small.alloc_raw(600, 256).unwrap();
}
