//! Buffers: copies, bounds, sharing.

use ptxjit::{Device, Error};

#[test]
fn copies_arrive() {
    let device = Device::new().unwrap();
    let buffer = device.alloc_from(&[1i16, -2, 3]).unwrap();
    assert_eq!((buffer.len(), buffer.address() % 256), (3, 0));
    buffer.write_at(1, &[7, 8]).unwrap();
    assert_eq!(buffer.read().unwrap(), [1, 7, 8]);
    assert_eq!(buffer.read_range(2, 1).unwrap(), [8]);
    buffer.fill_bytes(0xff).unwrap();
    assert_eq!(buffer.clone().read().unwrap(), [-1, -1, -1]);
    let wide = device.alloc_from(&[1u128 << 100]).unwrap();
    assert_eq!(wide.read().unwrap(), [1 << 100]);
}

#[test]
fn copies_outside_are_refused() {
    let device = Device::new().unwrap();
    let buffer = device.alloc::<f64>(4).unwrap();
    let refused = |result: Result<(), Error>| matches!(result, Err(Error::Usage { .. }));
    assert!(refused(buffer.write(&[0.0; 5])));
    assert!(refused(buffer.write_at(4, &[0.0])));
    assert!(refused(buffer.write_at(usize::MAX, &[0.0])));
    assert!(refused(buffer.read_range(3, 2).map(drop)));
    assert!(buffer.write_at(4, &[]).is_ok());
}

#[test]
fn memory_is_given_back() {
    let device = Device::new().unwrap();
    let before = device.used_bytes();
    let buffer = device.alloc::<u8>(1 << 20).unwrap();
    let clone = buffer.clone();
    drop(buffer);
    assert!(device.used_bytes() >= before + (1 << 20));
    drop(clone);
    assert_eq!(device.used_bytes(), before);
}

#[test]
fn too_much_is_an_error() {
    let device = Device::new().unwrap();
    assert!(matches!(
        device.alloc::<u64>(usize::MAX),
        Err(Error::OutOfMemory { .. })
    ));
    assert!(matches!(
        device.alloc::<u8>(1 << 60),
        Err(Error::OutOfMemory { .. })
    ));
    let empty = device.alloc::<u32>(0).unwrap();
    assert!(empty.is_empty() && empty.address() != 0 && empty.read().unwrap().is_empty());
}
