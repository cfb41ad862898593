//! Arrays, boxes and textures, whose structures the runtime has in forms of its own.
#![expect(
    unsafe_code,
    reason = "calls functions of a loaded library, as a client does"
)]

#[path = "client/common.rs"]
mod common;

use std::sync::LazyLock;

use common::Folder;
use libloading::Library;

const HOST_TO_DEVICE: u32 = 1;
const DEVICE_TO_HOST: u32 = 2;

/// `cudaChannelFormatDesc` of one and of four `float`s.
const FLOAT: [i32; 5] = [32, 0, 0, 0, 2];
const FLOAT4: [i32; 5] = [32, 32, 32, 32, 2];

#[derive(Clone, Copy, Default, PartialEq, Debug)]
#[repr(C)]
struct Extent {
    width: usize,
    height: usize,
    depth: usize,
}

#[derive(Clone, Copy, Default, PartialEq, Debug)]
#[repr(C)]
struct Pitched {
    ptr: u64,
    pitch: usize,
    xsize: usize,
    ysize: usize,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Parms {
    source_array: u64,
    source_pos: [usize; 3],
    source: Pitched,
    target_array: u64,
    target_pos: [usize; 3],
    target: Pitched,
    extent: Extent,
    kind: u32,
}

static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    let folder = Folder::new("arrays");
    // SAFETY: loading this library runs no code of it.
    let library = unsafe { Library::new(folder.path("libcudart.so.12")) };
    let library = library.expect("the library can be loaded");
    // SAFETY: the function takes a pointer; the driver must be found while the folder exists.
    let free = unsafe { library.get::<unsafe extern "C" fn(u64) -> u32>(b"cudaFree") };
    // SAFETY: null is allowed.
    assert_eq!(unsafe { free.unwrap()(0) }, 0);
    library
});

/// Calls a function by name, with the types that its arguments have, and gives its code.
macro_rules! call {
    ($name:literal $(, $arg:expr => $ty:ty)* $(,)?) => {{
        // SAFETY: the types are those of `cuda_runtime_api.h`.
        let function = unsafe { LIBRARY.get::<unsafe extern "C" fn($($ty),*) -> u32>($name) };
        let function = function.expect("every function is exported");
        // SAFETY: pointers are null or refer to values that live long enough.
        unsafe { function($($arg),*) }
    }};
}

fn at<T: ?Sized>(value: &T) -> u64 {
    std::ptr::from_ref(value).cast::<u8>().expose_provenance() as u64
}

fn at_mut<T: ?Sized>(value: &mut T) -> u64 {
    std::ptr::from_mut(value).cast::<u8>().expose_provenance() as u64
}

/// A box of memory of the host.
fn boxed(ptr: u64, row: usize, height: usize) -> Pitched {
    Pitched {
        ptr,
        pitch: row,
        xsize: row,
        ysize: height,
    }
}

#[test]
fn boxes_of_arrays_are_counted_in_elements() {
    let extent = Extent {
        width: 4,
        height: 3,
        depth: 2,
    };
    let mut array = 0_u64;
    let code = call!(b"cudaMalloc3DArray", at_mut(&mut array) => u64, at(&FLOAT4) => u64, extent => Extent, 0 => u32);
    assert_eq!(code, 0);
    let values: Vec<f32> = (0..96).map(|n| n as f32).collect();
    let to = Parms {
        source: boxed(at(&values[..]), 64, 3),
        target_array: array,
        extent,
        kind: HOST_TO_DEVICE,
        ..Parms::default()
    };
    assert_eq!(call!(b"cudaMemcpy3D", at(&to) => u64), 0);
    // The last two elements of the last row but one of the second layer.
    let mut back = [0_f32; 8];
    let from = Parms {
        source_array: array,
        source_pos: [2, 1, 1],
        target: boxed(at_mut(&mut back), 32, 1),
        extent: Extent {
            width: 2,
            height: 1,
            depth: 1,
        },
        kind: DEVICE_TO_HOST,
        ..Parms::default()
    };
    assert_eq!(call!(b"cudaMemcpy3D", at(&from) => u64), 0);
    // Layer 1 begins at 48, its row 1 at 64, element 2 at 72.
    assert_eq!(back, [72., 73., 74., 75., 76., 77., 78., 79.]);
    let neither = Parms {
        extent,
        ..Parms::default()
    };
    assert_eq!(call!(b"cudaMemcpy3D", at(&neither) => u64), 1);

    let (mut channels, mut size, mut flags) = ([0_i32; 5], Extent::default(), 7_u32);
    let code = call!(
        b"cudaArrayGetInfo", at_mut(&mut channels) => u64, at_mut(&mut size) => u64, at_mut(&mut flags) => u64, array => u64
    );
    assert_eq!((code, channels, size, flags), (0, FLOAT4, extent, 0));
    assert_eq!(call!(b"cudaFreeArray", array => u64), 0);
    assert_eq!(call!(b"cudaFreeArray", array => u64), 400);
}

#[test]
fn runs_of_bytes_go_on_in_the_next_row() {
    let mut array = 0_u64;
    let code = call!(b"cudaMallocArray", at_mut(&mut array) => u64, at(&FLOAT) => u64, 4 => usize, 3 => usize, 0 => u32);
    assert_eq!(code, 0);
    let values: [f32; 7] = [1., 2., 3., 4., 5., 6., 7.];
    // From the third element of the first row on, to the first of the third.
    let code = call!(
        b"cudaMemcpyToArray", array => u64, 8 => usize, 0 => usize, at(&values) => u64, 28 => usize, HOST_TO_DEVICE => u32
    );
    assert_eq!(code, 0);
    let mut rows = [[0_f32; 4]; 3];
    let code = call!(
        b"cudaMemcpy2DFromArray", at_mut(&mut rows) => u64, 16 => usize, array => u64, 0 => usize, 0 => usize,
        16 => usize, 3 => usize, DEVICE_TO_HOST => u32
    );
    assert_eq!(code, 0);
    assert_eq!(rows[0][2..], [1., 2.]);
    assert_eq!(rows[1], [3., 4., 5., 6.]);
    assert_eq!(rows[2][0], 7.);
    assert_eq!(call!(b"cudaFreeArray", array => u64), 0);
}

#[test]
fn layers_of_memory_are_set_and_copied() {
    let extent = Extent {
        width: 5,
        height: 4,
        depth: 3,
    };
    let mut memory = Pitched::default();
    assert_eq!(
        call!(b"cudaMalloc3D", at_mut(&mut memory) => u64, extent => Extent),
        0
    );
    assert!(memory.pitch >= 5 && memory.ptr != 0);
    assert_eq!((memory.xsize, memory.ysize), (5, 4));
    assert_eq!(
        call!(b"cudaMemset3D", memory => Pitched, 1 => i32, extent => Extent),
        0
    );
    // Two rows of each layer, which leaves the others.
    let part = Extent {
        height: 2,
        ..extent
    };
    assert_eq!(
        call!(b"cudaMemset3D", memory => Pitched, 2 => i32, part => Extent),
        0
    );
    let mut back = [[[0_u8; 5]; 4]; 3];
    let parms = Parms {
        source: memory,
        target: boxed(at_mut(&mut back), 5, 4),
        extent,
        kind: DEVICE_TO_HOST,
        ..Parms::default()
    };
    assert_eq!(call!(b"cudaMemcpy3D", at(&parms) => u64), 0);
    assert_eq!(back, [[[2; 5], [2; 5], [1; 5], [1; 5]]; 3]);
    assert_eq!(call!(b"cudaFree", memory.ptr => u64), 0);
}

/// `cudaResourceDesc` as words; a kind, an address, and what follows.
type Resource = [u64; 8];

#[test]
fn textures_tell_what_they_were_made_from() {
    let mut memory = 0_u64;
    assert_eq!(
        call!(b"cudaMalloc", at_mut(&mut memory) => u64, 256 => usize),
        0
    );
    // Linear, of `int2`: the description lies from byte 16 on, the size at byte 40.
    let bits = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let resource: Resource = [2, memory, bits(32, 32), 0, 0, 256, 0, 0];
    // `cudaTextureDesc`: clamp, border and mirror; element type; normalized coordinates; a bias and
    // levels.
    let mut texture = [0_u32; 18];
    texture[..3].copy_from_slice(&[1, 3, 2]);
    texture[10] = 1;
    texture[11] = 4;
    texture[13..16].copy_from_slice(&[0.5, 1.0, 2.0].map(f32::to_bits));
    let mut object = 0_u64;
    let code = call!(
        b"cudaCreateTextureObject", at_mut(&mut object) => u64, at(&resource) => u64, at(&texture) => u64, 0 => u64
    );
    assert_eq!(code, 0);
    let (mut same, mut same_texture): (Resource, _) = ([7; 8], [7_u32; 18]);
    assert_eq!(
        call!(b"cudaGetTextureObjectResourceDesc", at_mut(&mut same) => u64, object => u64),
        0
    );
    assert_eq!(
        call!(b"cudaGetTextureObjectTextureDesc", at_mut(&mut same_texture) => u64, object => u64),
        0
    );
    assert_eq!((same, same_texture), (resource, texture));
    assert_eq!(call!(b"cudaDestroyTextureObject", object => u64), 0);

    // Integers that are read as fractions: not those of 32 bits.
    texture[4] = 1;
    let code = call!(
        b"cudaCreateTextureObject", at_mut(&mut object) => u64, at(&resource) => u64, at(&texture) => u64, 0 => u64
    );
    assert_eq!(code, 27);
    let resource: Resource = [2, memory, bits(8, 8), 0, 0, 256, 0, 0];
    let code = call!(
        b"cudaCreateTextureObject", at_mut(&mut object) => u64, at(&resource) => u64, at(&texture) => u64, 0 => u64
    );
    assert_eq!(code, 0);
    assert_eq!(
        call!(b"cudaGetTextureObjectTextureDesc", at_mut(&mut same_texture) => u64, object => u64),
        0
    );
    assert_eq!(same_texture, texture);

    let wrong: Resource = [2, memory, bits(32, 8), 0, 0, 256, 0, 0];
    let code = call!(
        b"cudaCreateTextureObject", at_mut(&mut object) => u64, at(&wrong) => u64, at(&texture) => u64, 0 => u64
    );
    assert_eq!(code, 20);
}
