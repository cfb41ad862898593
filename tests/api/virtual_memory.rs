//! Reserved addresses, physical memory, and mappings of one to the other.

use ptxjit::{Access, Device, Error, ErrorKind, FailureKind, PhysicalMemory, Shortage};

use crate::{ADD, kernel};

const MIB: u64 = 1 << 20;
const GRANULE: u64 = Device::VM_GRANULE;

#[test]
fn kernels_access_what_is_mapped_and_allowed() {
    let device = Device::new().unwrap();
    let add = kernel(&device, ADD);
    let addr = device.vm_reserve(4 * GRANULE, 0).unwrap();
    let memory = PhysicalMemory::new(&device, 3 * GRANULE).unwrap();
    // The last granule first; a gap after the second.
    device.vm_map(addr, &memory, 2 * GRANULE, GRANULE).unwrap();
    device.vm_map(addr + GRANULE, &memory, 0, GRANULE).unwrap();
    device
        .vm_map(addr + 3 * GRANULE, &memory, 0, GRANULE)
        .unwrap();
    let run = |addr: u64, memcheck: bool| {
        let launch = add.launch().block(64).arg(addr).arg(5u32).arg(64u32);
        launch.memcheck(memcheck).run().map(drop)
    };
    let faults = |addr: u64, what: &str| {
        for memcheck in [false, true] {
            let Err(Error::Launch(failure)) = run(addr, memcheck) else {
                panic!("{addr:#x} can be accessed")
            };
            assert_eq!(failure.kind(), FailureKind::BadAddress);
            assert!(failure.message().contains(what), "{failure}");
        }
    };
    faults(addr, "may not be accessed");
    device
        .vm_protect(addr, 2 * GRANULE, Access::ReadWrite)
        .unwrap();
    // Across the border of two mappings.
    for memcheck in [false, true] {
        run(addr, memcheck).unwrap();
        run(addr + GRANULE - 128, memcheck).unwrap();
    }
    faults(addr + 2 * GRANULE, "nothing is mapped");
    faults(addr + 3 * GRANULE, "may not be accessed");
    device
        .vm_protect(addr + 3 * GRANULE, GRANULE, Access::Read)
        .unwrap();
    faults(addr + 3 * GRANULE, "may only be read");
    // The same memory at two addresses.
    let mut bytes = [0; 136];
    device.read_raw(addr + 3 * GRANULE, &mut bytes).unwrap();
    assert!(bytes[..128].chunks(4).all(|word| word == [10, 0, 0, 0]) && bytes[128..] == [0; 8]);
    device.vm_protect(addr, GRANULE, Access::None).unwrap();
    faults(addr, "may not be accessed");
    device.vm_protect(addr, GRANULE, Access::ReadWrite).unwrap();
    device.read_raw(addr, &mut bytes[..4]).unwrap();
    assert_eq!(bytes[..4], [10, 0, 0, 0]);
    device.vm_unmap(addr, 2 * GRANULE).unwrap();
    faults(addr, "nothing is mapped");
}

#[test]
fn copies_keep_to_what_is_allowed() {
    let device = Device::new().unwrap();
    let addr = device.vm_reserve(2 * GRANULE, 1 << 30).unwrap();
    assert!(addr.is_multiple_of(1 << 30));
    let memory = PhysicalMemory::new(&device, 2 * GRANULE).unwrap();
    let refused = |result: Result<(), Error>| result.unwrap_err().kind() == ErrorKind::Address;
    let mut bytes = vec![7; 3 * MIB as usize];
    assert!(refused(device.read_raw(addr, &mut bytes)));
    device.vm_map(addr, &memory, 0, GRANULE).unwrap();
    device
        .vm_map(addr + GRANULE, &memory, GRANULE, GRANULE)
        .unwrap();
    assert!(refused(device.read_raw(addr, &mut bytes)));
    device.vm_protect(addr, GRANULE, Access::ReadWrite).unwrap();
    device
        .vm_protect(addr + GRANULE, GRANULE, Access::Read)
        .unwrap();
    assert_eq!(device.vm_access(addr + GRANULE + 5), Some(Access::Read));
    assert!(refused(device.write_raw(addr, &bytes)));
    assert!(refused(device.copy_raw(addr + MIB, addr, 2 * MIB)));
    device.write_raw(addr, &bytes[..GRANULE as usize]).unwrap();
    device.vm_protect(addr, GRANULE, Access::Read).unwrap();
    assert!(refused(device.write_raw(addr, &[1])));
    device.read_raw(addr, &mut bytes).unwrap();
    let written = GRANULE as usize;
    assert!(bytes[..written].iter().all(|&byte| byte == 7));
    assert!(bytes[written..].iter().all(|&byte| byte == 0));
    assert_eq!(
        device.range_of(addr + GRANULE + 1),
        Some((addr + GRANULE, GRANULE))
    );
}

#[test]
fn misuse_is_refused() {
    let device = Device::new().unwrap().with_memory_limit(16 * MIB);
    let refused = |result: Result<(), Error>| result.unwrap_err().kind() == ErrorKind::Address;
    let addr = device.vm_reserve(4 * GRANULE, 0).unwrap();
    let memory = PhysicalMemory::new(&device, 2 * GRANULE).unwrap();
    assert_eq!(device.used_bytes(), 2 * GRANULE);
    let err = PhysicalMemory::new(&device, 16 * MIB).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::OutOfMemory(Shortage::Device));
    assert!(refused(PhysicalMemory::new(&device, GRANULE + 1).map(drop)));
    assert!(refused(device.vm_reserve(5, 0).map(drop)));
    assert!(refused(device.vm_reserve(GRANULE, 3).map(drop)));
    assert!(refused(device.vm_map(addr + 1, &memory, 0, GRANULE)));
    assert!(refused(device.vm_map(addr, &memory, 0, 3 * GRANULE)));
    assert!(refused(device.vm_map(addr, &memory, 2 * GRANULE, GRANULE)));
    assert!(refused(device.vm_map(
        addr + 3 * GRANULE,
        &memory,
        0,
        2 * GRANULE
    )));
    assert!(refused(device.vm_map(addr - GRANULE, &memory, 0, GRANULE)));
    assert!(refused(device.vm_map(0, &memory, 0, GRANULE)));
    device
        .vm_map(addr + GRANULE, &memory, 0, 2 * GRANULE)
        .unwrap();
    assert!(refused(device.vm_map(addr, &memory, 0, 2 * GRANULE)));
    assert!(refused(device.vm_map(
        addr + 2 * GRANULE,
        &memory,
        0,
        GRANULE
    )));
    assert!(refused(device.vm_unmap(addr + GRANULE, GRANULE)));
    assert!(refused(device.vm_protect(addr, 2 * GRANULE, Access::Read)));
    assert!(refused(device.vm_free(addr, 4 * GRANULE)));
    // The mapping keeps the memory.
    drop(memory);
    assert_eq!(device.used_bytes(), 2 * GRANULE);
    device.vm_unmap(addr + GRANULE, 2 * GRANULE).unwrap();
    assert_eq!(device.used_bytes(), 0);
    assert!(refused(device.vm_free(addr, GRANULE)) && refused(device.free_raw(addr)));
    device.vm_free(addr, 4 * GRANULE).unwrap();
    assert!(refused(device.vm_free(addr, 4 * GRANULE)));
}
