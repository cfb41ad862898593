//! `cudaDeviceProp`, which each major version of the runtime has in a layout of its own.
//!
//! The fields are one list, in C's order; each says in which versions it exists. Their places
//! follow from C's rules.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use crate::call::{Result, exports};
use crate::device;
use crate::driver::cu;
use crate::host;

/// Layouts: up to CUDA 11, whose name of the function libcudart.so.12 has still; of CUDA 12; of
/// CUDA 13.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layout {
    V11,
    #[cfg_attr(
        all(cudart13, not(test)),
        expect(dead_code, reason = "tests of the other version ask for it")
    )]
    V12,
    V13,
}

/// What a field holds.
enum Field {
    Name,
    Uuid,
    Luid,
    LuidMask,
    TotalMemory,
    /// A `size_t` from an attribute of the device.
    Size(i32),
    /// One or more `int`s from attributes.
    Ints(&'static [i32]),
}

/// The versions that have a field.
#[derive(Clone, Copy)]
enum In {
    All,
    Before13,
    From12,
    From13,
}

impl In {
    fn has(self, layout: Layout) -> bool {
        match self {
            In::All => true,
            In::Before13 => layout != Layout::V13,
            In::From12 => layout != Layout::V11,
            In::From13 => layout == Layout::V13,
        }
    }
}

use Field::{Ints, Luid, LuidMask, Name, Size, TotalMemory, Uuid};
use In::{All, Before13, From12, From13};

const FIELDS: &[(In, Field)] = &[
    (All, Name),
    (All, Uuid),
    (All, Luid),
    (All, LuidMask),
    (All, TotalMemory),
    (All, Size(8)),              // sharedMemPerBlock
    (All, Ints(&[12, 10])),      // regsPerBlock, warpSize
    (All, Size(11)),             // memPitch
    (All, Ints(&[1])),           // maxThreadsPerBlock
    (All, Ints(&[2, 3, 4])),     // maxThreadsDim
    (All, Ints(&[5, 6, 7])),     // maxGridSize
    (Before13, Ints(&[13])),     // clockRate
    (All, Size(9)),              // totalConstMem
    (All, Ints(&[75, 76])),      // major, minor
    (All, Size(14)),             // textureAlignment
    (All, Size(51)),             // texturePitchAlignment
    (Before13, Ints(&[15])),     // deviceOverlap
    (All, Ints(&[16])),          // multiProcessorCount
    (Before13, Ints(&[17])),     // kernelExecTimeoutEnabled
    (All, Ints(&[18, 19])),      // integrated, canMapHostMemory
    (Before13, Ints(&[20])),     // computeMode
    (All, Ints(&[21, 77])),      // maxTexture1D, maxTexture1DMipmap
    (Before13, Ints(&[69])),     // maxTexture1DLinear
    (All, Ints(&[22, 23])),      // maxTexture2D
    (All, Ints(&[73, 74])),      // maxTexture2DMipmap
    (All, Ints(&[70, 71, 72])),  // maxTexture2DLinear
    (All, Ints(&[45, 46])),      // maxTexture2DGather
    (All, Ints(&[24, 25, 26])),  // maxTexture3D
    (All, Ints(&[47, 48, 49])),  // maxTexture3DAlt
    (All, Ints(&[52, 42, 43])),  // maxTextureCubemap, maxTexture1DLayered
    (All, Ints(&[27, 28, 29])),  // maxTexture2DLayered
    (All, Ints(&[53, 54])),      // maxTextureCubemapLayered
    (All, Ints(&[55, 56, 57])),  // maxSurface1D, maxSurface2D
    (All, Ints(&[58, 59, 60])),  // maxSurface3D
    (All, Ints(&[61, 62])),      // maxSurface1DLayered
    (All, Ints(&[63, 64, 65])),  // maxSurface2DLayered
    (All, Ints(&[66, 67, 68])),  // maxSurfaceCubemap, maxSurfaceCubemapLayered
    (All, Size(30)),             // surfaceAlignment
    (All, Ints(&[31, 32])),      // concurrentKernels, ECCEnabled
    (All, Ints(&[33, 34, 50])),  // pciBusID, pciDeviceID, pciDomainID
    (All, Ints(&[35, 40, 41])),  // tccDriver, asyncEngineCount, unifiedAddressing
    (Before13, Ints(&[36])),     // memoryClockRate
    (All, Ints(&[37, 38, 108])), // memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize
    (All, Ints(&[39, 78])),      // maxThreadsPerMultiProcessor, streamPrioritiesSupported
    (All, Ints(&[79, 80])),      // globalL1CacheSupported, localL1CacheSupported
    (All, Size(81)),             // sharedMemPerMultiprocessor
    (All, Ints(&[82, 83])),      // regsPerMultiprocessor, managedMemory
    (All, Ints(&[84, 85, 86])),  // isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported
    (Before13, Ints(&[87])),     // singleToDoublePrecisionPerfRatio
    (All, Ints(&[88, 89, 90])), // pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported
    (All, Ints(&[91, 95])),     // canUseHostPointerForRegisteredMem, cooperativeLaunch
    (Before13, Ints(&[96])),    // cooperativeMultiDeviceLaunch
    (All, Size(97)),            // sharedMemPerBlockOptin
    (All, Ints(&[100, 101])), // pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost
    (All, Ints(&[106, 109])), // maxBlocksPerMultiProcessor, accessPolicyMaxWindowSize
    (All, Size(111)),         // reservedSharedMemPerBlock
    (From12, Ints(&[99, 112])), // hostRegisterSupported, sparseCudaArraySupported
    (From12, Ints(&[113, 114])), // hostRegisterReadOnlySupported, timelineSemaphoreInteropSupported
    (From12, Ints(&[115, 116])), // memoryPoolsSupported, gpuDirectRDMASupported
    (From12, Ints(&[117, 118])), // gpuDirectRDMAFlushWritesOptions, gpuDirectRDMAWritesOrdering
    (From12, Ints(&[119, 121])), // memoryPoolSupportedHandleTypes, deferredMappingCudaArraySupported
    (From12, Ints(&[125, 120])), // ipcEventSupported, clusterLaunch
    (From12, Ints(&[129])),      // unifiedFunctionPointers
    (From13, Ints(&[130, 131])), // deviceNumaConfig, deviceNumaId
    (From13, Ints(&[133, 134])), // mpsEnabled, hostNumaId
    (From13, Ints(&[139, 140])), // gpuPciDeviceID, gpuPciSubsystemID
    (From13, Ints(&[143])),      // hostNumaMultinodeIpcSupported
];

/// Bytes of the structure.
fn size(layout: Layout) -> usize {
    match layout {
        Layout::V11 => end_of_fields(layout).next_multiple_of(8),
        Layout::V12 => 1032,
        Layout::V13 => 1008,
    }
}

fn end_of_fields(layout: Layout) -> usize {
    place(layout, |_, _| {})
}

/// Calls `each` with every field of a layout and its place, and returns where the last one ends.
fn place(layout: Layout, mut each: impl FnMut(&Field, usize)) -> usize {
    let mut at = 0_usize;
    for (_, field) in FIELDS.iter().filter(|(within, _)| within.has(layout)) {
        let (size, align) = match field {
            Name => (256, 1),
            Uuid => (16, 1),
            Luid => (8, 1),
            LuidMask => (4, 4),
            TotalMemory | Size(_) => (8, 8),
            Ints(ids) => (4 * ids.len(), 4),
        };
        at = at.next_multiple_of(align);
        each(field, at);
        at += size;
    }
    at
}

fn properties(layout: Layout, device: i32) -> Result<Vec<u8>> {
    device::check(device)?;
    let mut bytes = vec![0_u8; size(layout)];
    let (mut name, mut uuid, mut luid, mut mask) = ([0_u8; 256], [0_u8; 16], [0_u8; 8], 0_u32);
    let mut total = 0_usize;
    cu!(cuDeviceGetName(&mut name, 256_i32, device))?;
    cu!(cuDeviceGetUuid_v2(&mut uuid, device))?;
    cu!(cuDeviceTotalMem_v2(&mut total, device))?;
    // Only Windows has such numbers.
    let _ = cu!(cuDeviceGetLuid(&mut luid, &mut mask, device));
    place(layout, |field, at| {
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        match field {
            Name => put(at, &name),
            Uuid => put(at, &uuid),
            Luid => put(at, &luid),
            LuidMask => put(at, &mask.to_ne_bytes()),
            TotalMemory => put(at, &total.to_ne_bytes()),
            Size(id) => put(at, &(device::attribute(*id, device) as usize).to_ne_bytes()),
            Ints(ids) => {
                for (idx, &id) in ids.iter().enumerate() {
                    put(at + 4 * idx, &device::attribute(id, device).to_ne_bytes());
                }
            }
        }
    });
    Ok(bytes)
}

#[cfg(not(cudart13))]
exports! {
    /// What a device is, in the structure of CUDA 11.
    early cudaGetDeviceProperties(out: u64, device: i32) {
        host::put_bytes(out, &properties(Layout::V11, device)?)
    }

    /// What a device is.
    early cudaGetDeviceProperties_v2(out: u64, device: i32) {
        host::put_bytes(out, &properties(Layout::V12, device)?)
    }
}

#[cfg(cudart13)]
exports! {
    /// What a device is.
    early cudaGetDeviceProperties(out: u64, device: i32) {
        host::put_bytes(out, &properties(Layout::V13, device)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a `size_t` of an attribute, or the first of a list of `int`s, lies.
    fn offset(layout: Layout, attribute: i32) -> usize {
        let mut found = None;
        place(layout, |field, at| match field {
            Size(id) if *id == attribute => found = Some(at),
            Ints(ids) => {
                let idx = ids.iter().position(|&id| id == attribute);
                found = found.or(idx.map(|idx| at + 4 * idx));
            }
            Name | Uuid | Luid | LuidMask | TotalMemory | Size(_) => {}
        });
        found.unwrap()
    }

    /// The offsets were asked of a C compiler with the headers of CUDA 12.9 and 13.5.
    #[test]
    fn fields_lie_where_c_has_them() {
        let attributes = [5, 75, 16, 30, 38, 97, 111, 115, 129];
        let of = |layout| attributes.map(|attribute| offset(layout, attribute));
        assert_eq!(of(Layout::V12), V12_OFFSETS);
        assert_eq!(of(Layout::V13), V13_OFFSETS);
        assert_eq!(end_of_fields(Layout::V12), 780);
        assert_eq!(end_of_fields(Layout::V13), 784);
        assert_eq!(end_of_fields(Layout::V11), offset(Layout::V12, 111) + 8);
    }

    /// Places of the fields of these attributes, in CUDA 12 and 13.
    const V12_OFFSETS: [usize; 9] = [336, 360, 388, 568, 616, 696, 720, 744, 776];
    const V13_OFFSETS: [usize; 9] = [336, 360, 384, 552, 596, 672, 696, 720, 752];
}
