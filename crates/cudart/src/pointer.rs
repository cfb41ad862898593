//! What is behind a pointer.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use crate::call::{Code, Result, exports};
use crate::driver::cu;
use crate::host;

host::plain! {
    /// `cudaPointerAttributes`, without the fields of later versions, which are zeros.
    PointerAttributes { kind: u32, device: i32, device_pointer: u64, host_pointer: u64 }
}

/// Values of `cudaMemoryType`.
const UNREGISTERED: u32 = 0;
const HOST: u32 = 1;
const DEVICE: u32 = 2;
const MANAGED: u32 = 3;

/// The number of no device.
const NO_DEVICE: i32 = -2;

#[cfg(not(cudart13))]
type Whole = [u64; 3];
#[cfg(cudart13)]
type Whole = [u64; 11];

fn attributes(address: u64) -> Result<PointerAttributes> {
    /// `CU_POINTER_ATTRIBUTE_…`: memory type, device pointer, host pointer, whether it is managed,
    /// ordinal of the device.
    const IDS: [u32; 5] = [2, 3, 4, 8, 9];
    let (mut kind, mut is_managed, mut device) = (0_u32, 0_u32, 0_i32);
    let (mut device_pointer, mut host_pointer) = (0_u64, 0_u64);
    let data = [
        std::ptr::from_mut(&mut kind).expose_provenance(),
        std::ptr::from_mut(&mut device_pointer).expose_provenance(),
        std::ptr::from_mut(&mut host_pointer).expose_provenance(),
        std::ptr::from_mut(&mut is_managed).expose_provenance(),
        std::ptr::from_mut(&mut device).expose_provenance(),
    ];
    cu!(cuPointerGetAttributes(IDS.len(), &IDS, &data, address))?;
    Ok(match (kind, is_managed & 1) {
        // What the driver does not know is memory of the host.
        (0, _) => PointerAttributes {
            kind: UNREGISTERED,
            device: NO_DEVICE,
            device_pointer: 0,
            host_pointer: address,
        },
        (_, 1) => PointerAttributes {
            kind: MANAGED,
            device,
            device_pointer: address,
            host_pointer: address,
        },
        (HOST, _) => PointerAttributes {
            kind: HOST,
            device,
            device_pointer,
            host_pointer,
        },
        _ => PointerAttributes {
            kind: DEVICE,
            device,
            device_pointer: address,
            host_pointer: 0,
        },
    })
}

exports! {
    /// What is behind a pointer.
    fn cudaPointerGetAttributes(out: u64, address: u64) {
        if out == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let whole: Whole = host::extended(&attributes(address)?);
        host::put(out, whole)
    }
}
