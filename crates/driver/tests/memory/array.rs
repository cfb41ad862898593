//! Arrays and mipmapped arrays.

use ptxjit_driver::memory::{alloc, array};
use ptxjit_driver::types::{
    CUDA_ARRAY3D_CUBEMAP, CUDA_ARRAY3D_DESCRIPTOR_v2 as Desc, CUDA_ARRAY3D_LAYERED,
    CUDA_ARRAY3D_SPARSE, CUarray, CUarray_format as Format, CUmipmappedArray, CUresult,
};
use ptxjit_driver::{context, device};

use crate::common;

fn desc(sizes: [usize; 3], flags: u32) -> Desc {
    Desc {
        Width: sizes[0],
        Height: sizes[1],
        Depth: sizes[2],
        Format: Format::FLOAT,
        NumChannels: 1,
        Flags: flags,
    }
}

#[test]
fn sizes_fit_the_kind_of_array() {
    common::context();
    let good = [
        desc([131_072, 0, 0], 0),
        desc([64, 64, 0], 0),
        desc([16, 16, 16], 0),
        desc([16, 0, 5], CUDA_ARRAY3D_LAYERED),
        desc([16, 16, 6], CUDA_ARRAY3D_CUBEMAP),
        desc([16, 16, 12], CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED),
    ];
    for desc in good {
        let made = array::create(&desc).unwrap();
        assert_eq!(array::descriptor(made), Ok(desc));
        assert_eq!(array::descriptor_2d(made).is_ok(), desc.Depth == 0);
        array::destroy(made).unwrap();
    }
    let wrong = [
        desc([0, 0, 0], 0),
        desc([131_073, 0, 0], 0),
        desc([16, 0, 16], 0),
        desc([16, 16, usize::MAX], 0),
        desc([16, 0, 0], CUDA_ARRAY3D_LAYERED),
        desc([16, 8, 6], CUDA_ARRAY3D_CUBEMAP),
        desc([16, 16, 7], CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED),
        desc([16, 0, 0], 1 << 30),
        Desc {
            NumChannels: 3,
            ..desc([16, 0, 0], 0)
        },
        Desc {
            Format: Format(5),
            ..desc([16, 0, 0], 0)
        },
    ];
    for desc in wrong {
        assert_eq!(
            array::create(&desc),
            Err(CUresult::INVALID_VALUE),
            "{desc:?}"
        );
    }
    let sparse = desc([16, 16, 0], CUDA_ARRAY3D_SPARSE);
    assert_eq!(array::create(&sparse), Err(CUresult::NOT_SUPPORTED));
    let compressed = Desc {
        Format: Format::BC1_UNORM,
        NumChannels: 4,
        ..desc([16, 16, 0], 0)
    };
    assert_eq!(array::create(&compressed), Err(CUresult::NOT_SUPPORTED));
    let huge = desc([16_384, 16_384, 16_384], 0);
    assert_eq!(array::create(&huge), Err(CUresult::OUT_OF_MEMORY));
}

#[test]
fn an_array_takes_memory_until_it_ends() {
    common::context_on(1);
    assert_eq!(device::count(), Ok(2));
    // More than all other tests allocate on this device meanwhile.
    let made = array::create(&desc([16_384, 16_384, 0], 0)).unwrap();
    let with = alloc::info().unwrap().0;
    array::destroy(made).unwrap();
    assert!(alloc::info().unwrap().0 > with);
    for garbage in [CUarray::NULL, made, CUarray(1), CUarray(u64::MAX)] {
        assert_eq!(array::destroy(garbage), Err(CUresult::INVALID_HANDLE));
        assert_eq!(array::descriptor(garbage), Err(CUresult::INVALID_HANDLE));
        assert_eq!(
            array::requirements(garbage, 0),
            Err(CUresult::INVALID_HANDLE)
        );
    }
}

#[test]
fn arrays_end_with_their_context() {
    let handle = common::context();
    let made = array::create(&desc([16, 0, 0], 0)).unwrap();
    context::destroy(handle).unwrap();
    assert_eq!(array::descriptor(made), Err(CUresult::INVALID_HANDLE));
}

#[test]
fn levels_are_half_as_large_each() {
    common::context();
    let made = array::create_mipmap(&desc([20, 8, 0], 0), 100).unwrap();
    let sizes = [(20, 8), (10, 4), (5, 2), (2, 1), (1, 1)];
    for (idx, size) in sizes.into_iter().enumerate() {
        let level = array::level(made, idx as u32).unwrap();
        let desc = array::descriptor(level).unwrap();
        assert_eq!((desc.Width, desc.Height, desc.Depth), (size.0, size.1, 0));
        assert_eq!(array::level(made, idx as u32), Ok(level));
        assert_eq!(array::destroy(level), Err(CUresult::INVALID_HANDLE));
    }
    let first = array::level(made, 0).unwrap();
    assert_eq!(array::level(made, 5), Err(CUresult::INVALID_VALUE));
    array::destroy_mipmap(made).unwrap();
    assert_eq!(array::descriptor(first), Err(CUresult::INVALID_HANDLE));
    for garbage in [made, CUmipmappedArray::NULL, CUmipmappedArray(first.0)] {
        assert_eq!(
            array::destroy_mipmap(garbage),
            Err(CUresult::INVALID_HANDLE)
        );
        assert_eq!(array::level(garbage, 0), Err(CUresult::INVALID_HANDLE));
    }
    let layered = desc([8, 8, 3], CUDA_ARRAY3D_LAYERED);
    let made = array::create_mipmap(&layered, 2).unwrap();
    let second = array::descriptor(array::level(made, 1).unwrap()).unwrap();
    assert_eq!(
        (second.Width, second.Height, second.Depth),
        (4, 4, 3),
        "layers stay"
    );
}
