//! Copies of boxes: every kind of memory to every other, against a copy byte by byte.

use ptxjit_driver::memory::shape::{self, Linear};
use ptxjit_driver::memory::{alloc, array, batch, copy};
use ptxjit_driver::stream;
use ptxjit_driver::types::{
    CUDA_ARRAY3D_DESCRIPTOR_v2, CUDA_MEMCPY2D_v2, CUDA_MEMCPY3D_BATCH_OP, CUDA_MEMCPY3D_PEER_v1,
    CUDA_MEMCPY3D_v2, CUarray, CUarray_format, CUcontext, CUextent3D, CUmemcpy3DArrayOperand,
    CUmemcpy3DOperand, CUmemcpy3DOperandType, CUmemcpy3DPointerOperand, CUmemcpyAttributes,
    CUmemcpySrcAccessOrder, CUmemorytype, CUresult, CUstream, HostPtr, Union,
};

use crate::common;

/// Bytes of a row, rows of a layer and layers of all memory in these tests.
const ROOM: [usize; 3] = [20, 5, 3];
const BYTES: usize = ROOM[0] * ROOM[1] * ROOM[2];

/// Where a box may lie.
#[derive(Copy, Clone, Debug)]
enum Memory {
    Host(u64),
    Pinned(u64),
    Device(u64),
    Unified(u64),
    Array(CUarray),
}

fn desc() -> CUDA_ARRAY3D_DESCRIPTOR_v2 {
    CUDA_ARRAY3D_DESCRIPTOR_v2 {
        Width: ROOM[0] / 4,
        Height: ROOM[1],
        Depth: ROOM[2],
        Format: CUarray_format::UNSIGNED_INT16,
        NumChannels: 2,
        Flags: 0,
    }
}

/// Fills memory through linear copies, which other tests try.
fn write(memory: Memory, bytes: &[u8]) {
    let from = Linear::Host(bytes.as_ptr() as u64);
    let to = match memory {
        Memory::Host(addr) | Memory::Pinned(addr) => Linear::Host(addr),
        Memory::Device(addr) | Memory::Unified(addr) => Linear::Device(addr),
        Memory::Array(array) => Linear::Array(array, 0),
    };
    shape::copy_linear(to, from, bytes.len()).unwrap();
}

fn read(memory: Memory) -> Vec<u8> {
    let mut bytes = vec![0_u8; BYTES];
    let from = match memory {
        Memory::Host(addr) | Memory::Pinned(addr) => Linear::Host(addr),
        Memory::Device(addr) | Memory::Unified(addr) => Linear::Device(addr),
        Memory::Array(array) => Linear::Array(array, 0),
    };
    shape::copy_linear(Linear::Host(bytes.as_mut_ptr() as u64), from, BYTES).unwrap();
    bytes
}

/// Parameters of a copy; the start of each side is in bytes, rows and layers.
fn params(
    (to, to_start): (Memory, [usize; 3]),
    (from, from_start): (Memory, [usize; 3]),
    extent: [usize; 3],
) -> CUDA_MEMCPY3D_v2 {
    let side = |memory| match memory {
        Memory::Host(addr) | Memory::Pinned(addr) => (CUmemorytype::HOST, addr, 0, CUarray::NULL),
        Memory::Device(addr) => (CUmemorytype::DEVICE, 0, addr, CUarray::NULL),
        Memory::Unified(addr) => (CUmemorytype::UNIFIED, 0, addr, CUarray::NULL),
        Memory::Array(array) => (CUmemorytype::ARRAY, 0, 0, array),
    };
    let (to, from) = (side(to), side(from));
    CUDA_MEMCPY3D_v2 {
        srcXInBytes: from_start[0],
        srcY: from_start[1],
        srcZ: from_start[2],
        srcMemoryType: from.0,
        srcHost: HostPtr(from.1),
        srcDevice: from.2,
        srcArray: from.3,
        srcPitch: ROOM[0],
        srcHeight: ROOM[1],
        dstXInBytes: to_start[0],
        dstY: to_start[1],
        dstZ: to_start[2],
        dstMemoryType: to.0,
        dstHost: HostPtr(to.1),
        dstDevice: to.2,
        dstArray: to.3,
        dstPitch: ROOM[0],
        dstHeight: ROOM[1],
        WidthInBytes: extent[0],
        Height: extent[1],
        Depth: extent[2],
        ..CUDA_MEMCPY3D_v2::default()
    }
}

fn memories(host: &mut [u8]) -> [Memory; 5] {
    [
        Memory::Host(host.as_mut_ptr() as u64),
        Memory::Pinned(alloc::host_alloc(BYTES, 0).unwrap()),
        Memory::Device(alloc::alloc(BYTES).unwrap()),
        Memory::Unified(alloc::alloc_managed(BYTES, 1).unwrap()),
        Memory::Array(array::create(&desc()).unwrap()),
    ]
}

const BACKGROUND: u8 = 0xee;

/// What the target holds after a copy from memory with the bytes 0, 1, 2, …
fn expected(to_start: [usize; 3], from_start: [usize; 3], extent: [usize; 3]) -> Vec<u8> {
    let at = |start: [usize; 3], x: usize, y: usize, z: usize| {
        ((start[2] + z) * ROOM[1] + start[1] + y) * ROOM[0] + start[0] + x
    };
    let mut bytes = vec![BACKGROUND; BYTES];
    for z in 0..extent[2] {
        for y in 0..extent[1] {
            for x in 0..extent[0] {
                bytes[at(to_start, x, y, z)] = at(from_start, x, y, z) as u8;
            }
        }
    }
    bytes
}

#[test]
fn boxes_go_from_everywhere_to_everywhere() {
    common::context();
    let (mut one, mut other) = (vec![0; BYTES], vec![0; BYTES]);
    let (sources, targets) = (memories(&mut one), memories(&mut other));
    let source: Vec<u8> = (0..BYTES).map(|byte| byte as u8).collect();
    let stream = common::stream();
    let cases = [
        ([4, 1, 0], [8, 2, 1], [12, 3, 2]),
        ([0, 0, 0], [0, 0, 0], ROOM),
        ([0, 3, 2], [16, 0, 0], [4, 1, 1]),
        ([0, 0, 1], [0, 0, 0], [20, 5, 2]),
    ];
    for (from, to) in sources
        .into_iter()
        .flat_map(|from| targets.map(|to| (from, to)))
    {
        for (to_start, from_start, extent) in cases {
            let params = params((to, to_start), (from, from_start), extent);
            for is_async in [false, true] {
                write(from, &source);
                write(to, &[BACKGROUND; BYTES]);
                match is_async {
                    false => shape::copy_3d(&params).unwrap(),
                    true => shape::copy_3d_async(&params, stream).unwrap(),
                }
                stream::synchronize(stream).unwrap();
                stream::synchronize(CUstream::NULL).unwrap();
                let wanted = expected(to_start, from_start, extent);
                assert_eq!(read(to), wanted, "{from:?} to {to:?}: {params:?}");
            }
        }
    }
}

#[test]
fn rectangles_are_boxes_of_one_layer() {
    common::context();
    let device = alloc::alloc(BYTES).unwrap();
    copy::to_device(device, [BACKGROUND; BYTES].as_ptr() as u64, BYTES).unwrap();
    let host: Vec<u8> = (0..BYTES).map(|byte| byte as u8).collect();
    let params = CUDA_MEMCPY2D_v2 {
        srcXInBytes: 3,
        srcY: 1,
        srcMemoryType: CUmemorytype::HOST,
        srcHost: HostPtr(host.as_ptr() as u64),
        srcPitch: ROOM[0],
        dstXInBytes: 1,
        dstY: 2,
        dstMemoryType: CUmemorytype::DEVICE,
        dstDevice: device,
        dstPitch: ROOM[0],
        WidthInBytes: 7,
        Height: 3,
        ..CUDA_MEMCPY2D_v2::default()
    };
    shape::copy_2d(&params).unwrap();
    assert_eq!(
        read(Memory::Device(device)),
        expected([1, 2, 0], [3, 1, 0], [7, 3, 1])
    );
    let narrow = CUDA_MEMCPY2D_v2 {
        dstPitch: 7,
        ..params
    };
    assert_eq!(shape::copy_2d(&narrow), Err(CUresult::INVALID_VALUE));
    let unknown = CUDA_MEMCPY2D_v2 {
        srcMemoryType: CUmemorytype(7),
        ..params
    };
    assert_eq!(
        shape::copy_2d_async(&unknown, common::stream()),
        Err(CUresult::INVALID_VALUE)
    );
    let empty = CUDA_MEMCPY2D_v2 {
        Height: 0,
        ..params
    };
    assert_eq!(shape::copy_2d(&empty), Ok(()));
}

#[test]
fn what_is_not_inside_is_refused() {
    common::context();
    let device = Memory::Device(alloc::alloc(BYTES).unwrap());
    let array = array::create(&desc()).unwrap();
    let invalid = Err(CUresult::INVALID_VALUE);
    let good = params((device, [0; 3]), (Memory::Array(array), [0; 3]), ROOM);
    assert_eq!(shape::copy_3d(&good), Ok(()));
    for axis in 0..3 {
        let mut start = [0; 3];
        start[axis] = 4;
        assert_eq!(
            shape::copy_3d(&params(
                (device, start),
                (Memory::Array(array), [0; 3]),
                ROOM
            )),
            invalid
        );
        assert_eq!(
            shape::copy_3d(&params(
                (device, [0; 3]),
                (Memory::Array(array), start),
                ROOM
            )),
            invalid
        );
        start[axis] = usize::MAX;
        assert_eq!(
            shape::copy_3d(&params(
                (device, start),
                (Memory::Array(array), [0; 3]),
                ROOM
            )),
            invalid
        );
        assert_eq!(
            shape::copy_3d(&params(
                (device, [0; 3]),
                (Memory::Array(array), start),
                ROOM
            )),
            invalid
        );
        let mut extent = ROOM;
        extent[axis] = usize::MAX;
        assert_eq!(
            shape::copy_3d(&params(
                (device, [0; 3]),
                (Memory::Array(array), [0; 3]),
                extent
            )),
            invalid
        );
    }
    let cases = [
        CUDA_MEMCPY3D_v2 { srcLOD: 1, ..good },
        CUDA_MEMCPY3D_v2 {
            srcXInBytes: 2,
            WidthInBytes: 4,
            ..good
        },
        CUDA_MEMCPY3D_v2 {
            WidthInBytes: 3,
            ..good
        },
        CUDA_MEMCPY3D_v2 {
            dstPitch: 0,
            ..good
        },
        CUDA_MEMCPY3D_v2 {
            dstPitch: usize::MAX,
            ..good
        },
        CUDA_MEMCPY3D_v2 {
            dstHeight: 4,
            ..good
        },
        CUDA_MEMCPY3D_v2 {
            dstHeight: usize::MAX,
            ..good
        },
        CUDA_MEMCPY3D_v2 {
            dstDevice: 0,
            ..good
        },
        CUDA_MEMCPY3D_v2 {
            dstDevice: u64::MAX - 8,
            ..good
        },
        CUDA_MEMCPY3D_v2 {
            dstMemoryType: CUmemorytype::HOST,
            ..good
        },
        CUDA_MEMCPY3D_v2 {
            dstMemoryType: CUmemorytype::UNIFIED,
            dstDevice: 0,
            ..good
        },
    ];
    for case in cases {
        assert_eq!(shape::copy_3d(&case), invalid, "{case:?}");
    }
    let garbage = CUDA_MEMCPY3D_v2 {
        srcArray: CUarray(99),
        ..good
    };
    assert_eq!(shape::copy_3d(&garbage), Err(CUresult::INVALID_HANDLE));
    array::destroy(array).unwrap();
    assert_eq!(shape::copy_3d(&good), Err(CUresult::INVALID_HANDLE));
    // Memory of the host that is not there.
    let wild = CUDA_MEMCPY3D_v2 {
        srcMemoryType: CUmemorytype::HOST,
        srcHost: HostPtr(4096),
        ..good
    };
    assert_eq!(shape::copy_3d_async(&wild, common::stream()), invalid);
}

#[test]
fn linear_copies_count_bytes_of_an_array() {
    common::context();
    let (one, other) = (
        array::create(&desc()).unwrap(),
        array::create(&desc()).unwrap(),
    );
    let bytes: Vec<u8> = (0..BYTES).map(|byte| byte as u8).collect();
    let (from, device) = (
        Linear::Host(bytes.as_ptr() as u64),
        alloc::alloc(BYTES).unwrap(),
    );
    shape::copy_linear(Linear::Array(one, 0), from, BYTES).unwrap();
    shape::copy_linear(Linear::Array(other, 8), Linear::Array(one, 4), 100).unwrap();
    shape::copy_linear(Linear::Device(device), Linear::Array(other, 8), 100).unwrap();
    let mut out = [0_u8; 100];
    let stream = common::stream();
    shape::copy_linear(Linear::Array(one, 100), Linear::Device(device), 100).unwrap();
    stream::synchronize(CUstream::NULL).unwrap();
    let to = Linear::Host(out.as_mut_ptr() as u64);
    shape::copy_linear_async(to, Linear::Array(one, 100), 100, stream).unwrap();
    stream::synchronize(stream).unwrap();
    assert_eq!(out[..], bytes[4..104]);
    let wrong = [
        shape::copy_linear(Linear::Array(one, 1), from, BYTES),
        shape::copy_linear(Linear::Array(one, usize::MAX), from, 2),
        shape::copy_linear(Linear::Device(device + 1), Linear::Array(one, 0), BYTES),
        shape::copy_linear(Linear::Host(0), Linear::Array(one, 0), 4),
    ];
    assert_eq!(wrong, [Err(CUresult::INVALID_VALUE); 4]);
    let freed = shape::copy_linear(Linear::Array(CUarray(5), 0), from, 4);
    assert_eq!(freed, Err(CUresult::INVALID_HANDLE));
}

#[test]
fn memory_goes_from_one_device_to_another() {
    let other = common::context_on(1);
    let far = alloc::alloc(64).unwrap();
    let own = common::context();
    let near = alloc::alloc(64).unwrap();
    copy::to_device(near, [9_u8; 64].as_ptr() as u64, 64).unwrap();
    shape::copy_peer(far, other, near, own, 64, common::stream()).unwrap();
    ptxjit_driver::context::synchronize(CUcontext::NULL).unwrap();
    let mut out = [0_u8; 64];
    copy::to_host(out.as_mut_ptr() as u64, far, 64).unwrap();
    assert_eq!(out, [9; 64]);
    let wrong = shape::copy_peer(far, CUcontext(9), near, own, 64, CUstream::NULL);
    assert_eq!(wrong, Err(CUresult::INVALID_CONTEXT));
    let long = shape::copy_peer(far, other, near, own, 65, CUstream::NULL);
    assert_eq!(long, Err(CUresult::INVALID_VALUE));
    let params = CUDA_MEMCPY3D_PEER_v1 {
        srcMemoryType: CUmemorytype::DEVICE,
        srcDevice: far,
        srcContext: other,
        dstMemoryType: CUmemorytype::DEVICE,
        dstDevice: near + 32,
        dstContext: own,
        WidthInBytes: 32,
        Height: 1,
        Depth: 1,
        ..CUDA_MEMCPY3D_PEER_v1::default()
    };
    shape::copy_3d_peer(&params, CUstream::NULL).unwrap();
    let wrong = CUDA_MEMCPY3D_PEER_v1 {
        srcContext: CUcontext::NULL,
        ..params
    };
    assert_eq!(
        shape::copy_3d_peer(&wrong, CUstream::NULL),
        Err(CUresult::INVALID_CONTEXT)
    );
}

fn attributes(order: CUmemcpySrcAccessOrder) -> CUmemcpyAttributes {
    CUmemcpyAttributes {
        srcAccessOrder: order,
        ..CUmemcpyAttributes::default()
    }
}

#[test]
fn a_batch_copies_all_or_nothing() {
    common::context();
    let (addr, stream) = (alloc::alloc(64).unwrap(), common::stream());
    let (first, second) = ([1_u8; 16], [2_u8; 16]);
    let copies = [
        (addr, first.as_ptr() as u64, 16),
        (addr + 16, second.as_ptr() as u64, 16),
        (addr + 32, addr, 32),
    ];
    let any = [
        attributes(CUmemcpySrcAccessOrder::ANY),
        attributes(CUmemcpySrcAccessOrder::STREAM),
    ];
    batch::copy_batch(&copies, &any, &[0, 2], stream).unwrap();
    let mut out = [0_u8; 32];
    copy::to_host_async(out.as_mut_ptr() as u64, addr + 32, 32, stream).unwrap();
    stream::synchronize(stream).unwrap();
    assert_eq!(out[..], [first, second].concat());
    let refused = |copies: &[_], firsts: &[usize], stream| {
        batch::copy_batch(copies, &any[..firsts.len()], firsts, stream)
    };
    let invalid = CUresult::INVALID_VALUE;
    assert_eq!(refused(&copies, &[1], stream), Err((None, invalid)));
    assert_eq!(refused(&copies, &[0, 0], stream), Err((None, invalid)));
    assert_eq!(refused(&copies, &[0, 3], stream), Err((None, invalid)));
    assert_eq!(refused(&[], &[0], stream), Err((None, invalid)));
    assert_eq!(refused(&copies, &[0], CUstream::NULL), Err((None, invalid)));
    let wrong = [copies[0], (addr + 60, addr, 16)];
    assert_eq!(refused(&wrong, &[0], stream), Err((Some(1), invalid)));
    let empty = [(addr, addr, 0)];
    assert_eq!(refused(&empty, &[0], stream), Err((Some(0), invalid)));
}

#[test]
fn a_source_is_read_when_its_attribute_says() {
    common::context();
    let (addr, stream) = (alloc::alloc(4).unwrap(), common::stream());
    let pinned = alloc::host_alloc(4, 0).unwrap();
    let put = |value: u32| copy::unified(pinned, &raw const value as u64, 4).unwrap();
    for (order, seen) in [
        (CUmemcpySrcAccessOrder::DURING_API_CALL, 1),
        (CUmemcpySrcAccessOrder::STREAM, 2),
    ] {
        put(1);
        let gate = common::block(stream);
        batch::copy_with_attributes(addr, pinned, 4, &attributes(order), stream).unwrap();
        put(2);
        drop(gate);
        stream::synchronize(stream).unwrap();
        let mut out = 0_u32;
        copy::to_host(&raw mut out as u64, addr, 4).unwrap();
        assert_eq!(out, seen, "{order:?}");
    }
    let wrong = attributes(CUmemcpySrcAccessOrder::INVALID);
    let result = batch::copy_with_attributes(addr, pinned, 4, &wrong, stream);
    assert_eq!(result, Err(CUresult::INVALID_VALUE));
}

#[test]
fn boxes_of_a_batch_count_elements() {
    common::context();
    let (addr, stream) = (alloc::alloc(BYTES).unwrap(), common::stream());
    let target = array::create(&desc()).unwrap();
    let bytes: Vec<u8> = (0..BYTES).map(|byte| byte as u8).collect();
    copy::to_device(addr, bytes.as_ptr() as u64, BYTES).unwrap();
    write(Memory::Array(target), &[BACKGROUND; BYTES]);
    let pointer = CUmemcpy3DPointerOperand {
        ptr: addr,
        rowLength: ROOM[0] / 4,
        layerHeight: ROOM[1],
        ..CUmemcpy3DPointerOperand::default()
    };
    let mut of_array = CUmemcpy3DArrayOperand {
        array: target,
        ..CUmemcpy3DArrayOperand::default()
    };
    of_array.offset.x = 1;
    let op = CUDA_MEMCPY3D_BATCH_OP {
        src: CUmemcpy3DOperand {
            type_: CUmemcpy3DOperandType::POINTER,
            op: Union::of(pointer),
        },
        dst: CUmemcpy3DOperand {
            type_: CUmemcpy3DOperandType::ARRAY,
            op: Union::of(of_array),
        },
        extent: CUextent3D {
            width: 3,
            height: 2,
            depth: 2,
        },
        srcAccessOrder: CUmemcpySrcAccessOrder::STREAM,
        flags: 0,
    };
    batch::copy_batch_3d(&[op], 0, stream).unwrap();
    stream::synchronize(stream).unwrap();
    assert_eq!(
        read(Memory::Array(target)),
        expected([4, 0, 0], [0; 3], [12, 2, 2])
    );
    let mut wide = op;
    wide.extent.width = 5;
    let result = batch::copy_batch_3d(&[op, wide], 0, stream);
    assert_eq!(result, Err((Some(1), CUresult::INVALID_VALUE)));
    assert_eq!(
        batch::copy_3d_with_attributes(&op, 1, stream),
        Err(CUresult::INVALID_VALUE)
    );
    assert_eq!(batch::copy_3d_with_attributes(&op, 0, stream), Ok(()));
    stream::synchronize(stream).unwrap();
}
