//! What encoders refuse, and what the bytes of maps tell.

use ptxjit_ir::MapField;

use super::bytes::{MAP_BYTES, replace};
use super::*;

/// 96 x 48 halves in rows of 192 bytes, boxes of 64 x 8.
fn matrix() -> TensorMap {
    TensorMap {
        address: 0x1000,
        rank: 2,
        dtype: ElementType::F16,
        dims: [96, 48, 0, 0, 0],
        strides: [192, 0, 0, 0],
        element_strides: [1, 1, 0, 0, 0],
        interleave: Interleave::None,
        swizzle: Swizzle::NONE,
        l2_promotion: L2Promotion::B128,
        fill: Fill::Zero,
        access: Access::Tiled {
            box_dims: [64, 8, 0, 0, 0],
        },
    }
}

/// Two images of 14 x 9 pixels with 64 channels.
fn images() -> TensorMap {
    TensorMap {
        rank: 4,
        dims: [64, 14, 9, 2, 0],
        strides: [128, 1792, 16128, 0],
        element_strides: [1, 1, 1, 1, 0],
        access: Access::Im2col(Pixels {
            lower: [-1, -1, 0],
            upper: [-1, -1, 0],
            channels: 32,
            per_column: 64,
        }),
        ..matrix()
    }
}

fn boxed(rank: u32, side: u32) -> TensorMap {
    TensorMap {
        rank,
        dims: [64; MAX_RANK],
        strides: [128, 8192, 1 << 20, 1 << 30],
        element_strides: [1; MAX_RANK],
        access: Access::Tiled {
            box_dims: [side, 1, 1, 1, 1],
        },
        ..matrix()
    }
}

#[track_caller]
fn refused(map: &TensorMap, text: &str) {
    let got = map.check().expect_err(text).to_string();
    assert!(got.contains(text), "{got}\nis not\n{text}");
}

fn changed(mut map: TensorMap, change: impl FnOnce(&mut TensorMap)) -> TensorMap {
    change(&mut map);
    map
}

fn pixels(change: impl FnOnce(&mut Pixels)) -> TensorMap {
    changed(images(), |map| {
        let Access::Im2col(pixels) = &mut map.access else {
            panic!("a map of images")
        };
        change(pixels);
    })
}

#[test]
fn limits_of_tensors() {
    assert_eq!(matrix().check(), Ok(()));
    assert_eq!(boxed(1, 256).check(), Ok(()));
    assert_eq!(boxed(5, 8).check(), Ok(()));
    refused(&boxed(0, 8), "`dims` has 0 dimensions");
    refused(&boxed(6, 8), "`dims` has 6 dimensions");
    refused(&changed(matrix(), |map| map.dims[1] = 0), "`dims[1]` is 0");
    let large = |dim| changed(matrix(), |map| map.dims[1] = dim);
    assert_eq!(large(1 << 32).check(), Ok(()));
    refused(&large((1 << 32) + 1), "`dims[1]` is 4294967297");
    refused(
        &changed(matrix(), |map| map.address = 0x1008),
        "`address` is 0x1008",
    );
    let stride = |stride| changed(matrix(), |map| map.strides[0] = stride);
    refused(
        &stride(200),
        "`strides_bytes[0]` is 200: a stride is a multiple of 16",
    );
    assert_eq!(stride((1 << 40) - 16).check(), Ok(()));
    refused(&stride(1 << 40), "`strides_bytes[0]` is 1099511627776");
    let step = |step| changed(matrix(), |map| map.element_strides[1] = step);
    assert_eq!(step(8).check(), Ok(()));
    refused(&step(0), "`element_strides[1]` is 0");
    refused(&step(9), "`element_strides[1]` is 9");
    let nan = |dtype| {
        changed(matrix(), |map| {
            map.fill = Fill::Nan;
            map.dtype = dtype;
        })
    };
    assert_eq!(nan(ElementType::Bf16).check(), Ok(()));
    refused(&nan(ElementType::U16), "`oob_fill` is nan");
    refused(&nan(ElementType::B4x16), "`oob_fill` is nan");
}

#[test]
fn limits_of_boxes() {
    refused(&boxed(2, 0), "`box[0]` is 0");
    refused(&boxed(2, 257), "`box[0]` is 257");
    refused(
        &boxed(2, 12),
        "`box[0]` is 12: that is 24 bytes, no multiple of 16",
    );
    for (swizzle, name) in Swizzle::ALL {
        let Some(span) = swizzle.span() else { continue };
        let side = |side| changed(boxed(2, side), |map| map.swizzle = swizzle);
        assert_eq!(side(span as u32 / 2).check(), Ok(()), "{name}");
        refused(&side(span as u32 / 2 + 8), "`box[0]` is");
    }
    let atoms = Swizzle {
        mode: SwizzleMode::B64,
        atomicity: Atomicity::B32,
    };
    refused(
        &changed(boxed(2, 8), |map| map.swizzle = atoms),
        "`swizzle` is 64B",
    );
}

#[test]
fn limits_of_interleave() {
    let interleaved = |rank, interleave, swizzle: &str| {
        changed(boxed(rank, 16), |map| {
            map.interleave = interleave;
            map.swizzle = Swizzle::from_name(swizzle).unwrap();
        })
    };
    assert_eq!(interleaved(3, Interleave::B16, "64B").check(), Ok(()));
    assert_eq!(interleaved(5, Interleave::B32, "32B").check(), Ok(()));
    refused(
        &interleaved(2, Interleave::B16, "none"),
        "`dims` has 2 dimensions",
    );
    refused(
        &interleaved(3, Interleave::B32, "none"),
        "`swizzle` is none",
    );
    refused(
        &interleaved(3, Interleave::B16, "96B"),
        "`interleave` is 16B",
    );
    let map = changed(interleaved(3, Interleave::B32, "32B"), |map| {
        map.address = 0x1010
    });
    refused(&map, "`address` is 0x1010, no multiple of 32");
    let map = changed(interleaved(3, Interleave::B32, "32B"), |map| {
        map.strides[1] = 8208
    });
    refused(&map, "`strides_bytes[1]` is 8208");
}

#[test]
fn limits_of_packed_elements() {
    let packed = |dtype, side| {
        changed(boxed(2, side), |map| {
            map.dtype = dtype;
            map.dims[0] = 256;
        })
    };
    assert_eq!(packed(ElementType::B4x16, 32).check(), Ok(()));
    refused(
        &packed(ElementType::B4x16, 16),
        "`box[0]` is 16: that is 8 bytes",
    );
    let odd = changed(packed(ElementType::B4x16, 32), |map| map.dims[0] = 255);
    refused(&odd, "`dims[0]` is 255");
    for dtype in [ElementType::B4x16P64, ElementType::B6x16P32] {
        assert_eq!(packed(dtype, 128).check(), Ok(()));
        refused(&packed(dtype, 64), "`box[0]` is 64");
        refused(
            &changed(packed(dtype, 128), |map| map.dims[0] = 192),
            "`dims[0]` is 192",
        );
        refused(
            &changed(packed(dtype, 128), |map| map.address = 16),
            "`address` is 0x10",
        );
        refused(
            &changed(packed(dtype, 128), |map| map.strides[0] = 144),
            "`strides_bytes[0]`",
        );
        let swizzled = |name: &str| {
            changed(packed(dtype, 128), |map| {
                map.swizzle = Swizzle::from_name(name).unwrap()
            })
        };
        assert_eq!(swizzled("128B_ATOM_64B").check(), Ok(()));
        refused(&swizzled("64B"), "`swizzle` is 64B");
        refused(
            &swizzled("128B_ATOM_32B_FLIP_8B"),
            "`swizzle` is 128B_ATOM_32B_FLIP_8B",
        );
    }
}

#[test]
fn limits_of_images() {
    assert_eq!(images().check(), Ok(()));
    let flat = changed(images(), |map| map.rank = 2);
    refused(
        &flat,
        "`dims` has 2 dimensions: a tensor of images has 3 to 5",
    );
    assert_eq!(pixels(|pixels| pixels.lower[0] = -128).check(), Ok(()));
    refused(
        &pixels(|pixels| pixels.lower[0] = -129),
        "`lower[0]` is -129",
    );
    refused(&pixels(|pixels| pixels.upper[1] = 128), "`upper[1]` is 128");
    refused(
        &pixels(|pixels| pixels.upper[1] = -20),
        "`upper[1]` leaves no pixel",
    );
    refused(
        &pixels(|pixels| pixels.channels = 0),
        "`channels_per_pixel` is 0",
    );
    refused(
        &pixels(|pixels| pixels.channels = 257),
        "`channels_per_pixel` is 257",
    );
    refused(
        &pixels(|pixels| pixels.channels = 4),
        "`channels_per_pixel` is 4: that is 8 bytes",
    );
    assert_eq!(pixels(|pixels| pixels.per_column = 1024).check(), Ok(()));
    refused(
        &pixels(|pixels| pixels.per_column = 1025),
        "`pixels_per_column` is 1025",
    );
    refused(
        &pixels(|pixels| pixels.per_column = 0),
        "`pixels_per_column` is 0",
    );
    let of_rank = |rank, lower| {
        changed(pixels(|pixels| pixels.lower[0] = lower), |map| {
            map.rank = rank;
            map.dims[4] = 2;
            map.strides[3] = 32256;
            map.element_strides[4] = 1;
        })
    };
    assert_eq!(of_rank(3, -32768).check(), Ok(()));
    refused(&of_rank(3, -32769), "`lower[0]` is -32769");
    assert_eq!(of_rank(5, -16).check(), Ok(()));
    refused(&of_rank(5, -17), "`lower[0]` is -17");
    let wide = changed(images(), |map| {
        map.access = Access::Im2colWide(Pixels {
            lower: [-128, 0, 0],
            channels: 32,
            per_column: 8,
            ..Pixels::default()
        });
    });
    assert_eq!(wide.check(), Ok(()));
    let wider = changed(wide.clone(), |map| {
        if let Access::Im2colWide(pixels) = &mut map.access {
            pixels.lower[0] = -129;
        }
    });
    refused(&wider, "`lower[0]` is -129");
    let wide = changed(wide, |map| map.interleave = Interleave::B16);
    refused(&wide, "`interleave` is 16B: the wide mode has none");
}

#[test]
fn bytes_hold_maps() {
    for map in [matrix(), images(), boxed(5, 8)] {
        let bytes = map.encode();
        assert_eq!(TensorMap::decode(&bytes), Some(map));
        // Any other bit makes it none.
        for at in 0..MAP_BYTES * 8 {
            let mut other = bytes;
            other[at / 8] ^= 1 << (at % 8);
            assert_eq!(TensorMap::decode(&other), None, "bit {at}");
        }
    }
}

#[test]
fn zeros_become_a_map() {
    let mut bytes = [0; MAP_BYTES];
    let unset = |bytes: &MapBytes| TensorMap::decode(bytes).unwrap().check().unwrap_err();
    assert_eq!(unset(&bytes).field, "dims");
    let fields = [
        (MapField::GlobalAddress, 0x1000),
        (MapField::Rank, 1),
        (MapField::GlobalDim(0), 96),
        (MapField::GlobalDim(1), 48),
        (MapField::GlobalStride(0), 192),
        (MapField::ElementStride(0), 1),
        (MapField::ElementStride(1), 1),
        (MapField::ElementType, 6),
        (MapField::BoxDim(0), 64),
    ];
    for (field, value) in fields {
        replace(&mut bytes, field, value).unwrap();
    }
    assert_eq!((unset(&bytes).field, unset(&bytes).index), ("box", Some(1)));
    replace(&mut bytes, MapField::BoxDim(1), 8).unwrap();
    let expected = changed(matrix(), |map| map.l2_promotion = L2Promotion::None);
    assert_eq!(TensorMap::decode(&bytes), Some(expected));
}

#[test]
fn fields_have_ranges() {
    let mut bytes = matrix().encode();
    let before = bytes;
    for (field, value) in [
        (MapField::Rank, 5),
        (MapField::BoxDim(0), 257),
        (MapField::ElementStride(0), 9),
        (MapField::GlobalStride(0), 1 << 40),
        (MapField::GlobalStride(4), 16),
        (MapField::ElementType, 16),
        (MapField::Interleave, 3),
        (MapField::Swizzle, 5),
        (MapField::Atomicity, 4),
        (MapField::Fill, 2),
    ] {
        assert!(replace(&mut bytes, field, value).is_err(), "{field:?}");
        assert_eq!(bytes, before);
    }
    assert!(replace(&mut images().encode(), MapField::Rank, 1).is_err());
    assert!(replace(&mut [1; MAP_BYTES], MapField::Rank, 1).is_err());
}
