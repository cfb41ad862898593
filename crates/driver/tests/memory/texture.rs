//! Texture and surface objects, and texture references.

use ptxjit_driver::memory::{alloc, array, texture, texture_reference as reference};
use ptxjit_driver::types::{
    CUDA_ARRAY_DESCRIPTOR_v2, CUDA_ARRAY3D_DESCRIPTOR_v2, CUDA_ARRAY3D_SURFACE_LDST,
    CUDA_RESOURCE_DESC, CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC, CUaddress_mode, CUarray,
    CUarray_format, CUfilter_mode, CUlinearResource, CUpitch2DResource, CUresourcetype, CUresult,
    CUtexref, Union,
};

use crate::common;

fn made_array(flags: u32) -> CUarray {
    array::create(&CUDA_ARRAY3D_DESCRIPTOR_v2 {
        Width: 16,
        Height: 16,
        Format: CUarray_format::FLOAT,
        NumChannels: 1,
        Flags: flags,
        ..CUDA_ARRAY3D_DESCRIPTOR_v2::default()
    })
    .unwrap()
}

fn of_array(array: CUarray) -> CUDA_RESOURCE_DESC {
    CUDA_RESOURCE_DESC {
        resType: CUresourcetype::ARRAY,
        res: Union::of(array),
        flags: 0,
    }
}

fn linear(addr: u64, bytes: usize) -> CUDA_RESOURCE_DESC {
    let linear = CUlinearResource {
        devPtr: addr,
        format: CUarray_format::FLOAT,
        numChannels: 4,
        sizeInBytes: bytes,
    };
    CUDA_RESOURCE_DESC {
        resType: CUresourcetype::LINEAR,
        res: Union::of(linear),
        flags: 0,
    }
}

fn rows(addr: u64, width: usize, height: usize, pitch: usize) -> CUDA_RESOURCE_DESC {
    let rows = CUpitch2DResource {
        devPtr: addr,
        format: CUarray_format::UNSIGNED_INT8,
        numChannels: 1,
        width,
        height,
        pitchInBytes: pitch,
    };
    CUDA_RESOURCE_DESC {
        resType: CUresourcetype::PITCH2D,
        res: Union::of(rows),
        flags: 0,
    }
}

#[test]
fn objects_tell_what_they_were_made_from() {
    common::context();
    let resource = of_array(made_array(0));
    let desc = CUDA_TEXTURE_DESC {
        addressMode: [CUaddress_mode::MIRROR; 3],
        filterMode: CUfilter_mode::LINEAR,
        maxAnisotropy: 4,
        borderColor: [1.0, 2.0, 3.0, 4.0],
        ..CUDA_TEXTURE_DESC::default()
    };
    let view = CUDA_RESOURCE_VIEW_DESC {
        width: 16,
        height: 16,
        ..CUDA_RESOURCE_VIEW_DESC::default()
    };
    let with = texture::create(&resource, &desc, Some(view)).unwrap();
    let without = texture::create(&resource, &desc, None).unwrap();
    assert_eq!(texture::resource(with), Ok(resource));
    assert_eq!(texture::description(with), Ok(desc));
    assert_eq!(texture::view(with), Ok(view));
    assert_eq!(texture::view(without), Err(CUresult::INVALID_VALUE));
    texture::destroy(with).unwrap();
    for garbage in [0, with, 77, u64::MAX] {
        // As on a GPU, programs may destroy what is not there.
        assert_eq!(texture::destroy(garbage), Ok(()));
        assert_eq!(texture::resource(garbage), Err(CUresult::INVALID_HANDLE));
    }
}

#[test]
fn textures_read_memory_that_is_there() {
    common::context();
    let addr = alloc::alloc(4096).unwrap();
    let make = |resource| texture::create(&resource, &CUDA_TEXTURE_DESC::default(), None);
    assert!(make(linear(addr, 4096)).is_ok());
    assert!(make(rows(addr, 100, 32, 128)).is_ok());
    let wrong = [
        linear(addr, 4097),
        linear(addr, 8),
        linear(addr + 16, 64),
        linear(0, 64),
        rows(addr, 100, 33, 128),
        rows(addr, 129, 2, 128),
        rows(addr, 100, 2, 120),
        rows(addr, 0, 2, 128),
        rows(addr, 100, usize::MAX, 128),
        CUDA_RESOURCE_DESC {
            flags: 1,
            ..linear(addr, 64)
        },
        CUDA_RESOURCE_DESC {
            resType: CUresourcetype(9),
            ..linear(addr, 64)
        },
    ];
    for resource in wrong {
        assert_eq!(make(resource), Err(CUresult::INVALID_VALUE), "{resource:?}");
    }
    assert_eq!(make(of_array(CUarray(5))), Err(CUresult::INVALID_HANDLE));
    let view = Some(CUDA_RESOURCE_VIEW_DESC::default());
    let result = texture::create(&linear(addr, 64), &CUDA_TEXTURE_DESC::default(), view);
    assert_eq!(
        result,
        Err(CUresult::INVALID_VALUE),
        "a view is one of an array"
    );
    let wild = CUDA_TEXTURE_DESC {
        filterMode: CUfilter_mode(2),
        ..CUDA_TEXTURE_DESC::default()
    };
    let result = texture::create(&linear(addr, 64), &wild, None);
    assert_eq!(result, Err(CUresult::INVALID_VALUE));
}

#[test]
fn surfaces_are_of_arrays_that_are_made_for_them() {
    common::context();
    let resource = of_array(made_array(CUDA_ARRAY3D_SURFACE_LDST));
    let made = texture::create_surface(&resource).unwrap();
    assert_eq!(texture::surface_resource(made), Ok(resource));
    texture::destroy_surface(made).unwrap();
    assert_eq!(texture::destroy_surface(made), Ok(()));
    let plain = texture::create_surface(&of_array(made_array(0)));
    assert_eq!(plain, Err(CUresult::INVALID_VALUE));
    let memory = texture::create_surface(&linear(alloc::alloc(64).unwrap(), 64));
    assert_eq!(memory, Err(CUresult::INVALID_VALUE));
}

#[test]
fn references_keep_what_is_set() {
    common::context();
    let made = reference::create().unwrap();
    assert_eq!(reference::address(made), Err(CUresult::INVALID_VALUE));
    let array = made_array(0);
    reference::set_array(made, array, 1).unwrap();
    assert_eq!(reference::array(made), Ok(array));
    assert_eq!(reference::format(made), Ok((CUarray_format::FLOAT, 1)));
    assert_eq!(reference::mipmap(made), Err(CUresult::INVALID_VALUE));
    let addr = alloc::alloc(4096).unwrap();
    assert_eq!(
        reference::set_address(made, addr + 4, 100),
        Ok((addr % 512) as usize + 4)
    );
    assert_eq!(reference::address(made), Ok(addr / 512 * 512));
    reference::set_address_mode(made, 2, CUaddress_mode::BORDER).unwrap();
    assert_eq!(reference::address_mode(made, 2), Ok(CUaddress_mode::BORDER));
    reference::set_filter_mode(made, CUfilter_mode::LINEAR, true).unwrap();
    assert_eq!(
        reference::filter_mode(made, true),
        Ok(CUfilter_mode::LINEAR)
    );
    assert_eq!(
        reference::filter_mode(made, false),
        Ok(CUfilter_mode::POINT)
    );
    reference::set_level_bias(made, 0.5).unwrap();
    assert_eq!(reference::level_bias(made), Ok(0.5));
    reference::set_level_clamp(made, 1.0, 2.0).unwrap();
    assert_eq!(reference::level_clamp(made), Ok((1.0, 2.0)));
    reference::set_max_anisotropy(made, 99).unwrap();
    assert_eq!(reference::max_anisotropy(made), Ok(16));
    reference::set_flags(made, 3).unwrap();
    assert_eq!(reference::flags(made), Ok(3));
    reference::set_border_color(made, [0.5; 4]).unwrap();
    assert_eq!(reference::border_color(made), Ok([0.5; 4]));
    let desc = CUDA_ARRAY_DESCRIPTOR_v2 {
        Width: 100,
        Height: 32,
        Format: CUarray_format::UNSIGNED_INT8,
        NumChannels: 1,
    };
    let aligned = addr.next_multiple_of(512);
    assert_eq!(
        reference::set_address_2d(made, &desc, aligned, 64),
        Err(CUresult::INVALID_VALUE)
    );
    let wrong = [
        reference::set_array(made, array, 0),
        reference::set_address(made, 4, 4).map(|_| ()),
        reference::set_address_mode(made, 3, CUaddress_mode::WRAP),
        reference::set_address_mode(made, 0, CUaddress_mode(4)),
        reference::set_filter_mode(made, CUfilter_mode(2), false),
        reference::set_format(made, CUarray_format::FLOAT, 3),
        reference::set_flags(made, 1 << 20),
    ];
    assert_eq!(wrong, [Err(CUresult::INVALID_VALUE); 7]);
    reference::destroy(made).unwrap();
    for garbage in [CUtexref::NULL, made] {
        assert_eq!(reference::flags(garbage), Err(CUresult::INVALID_HANDLE));
        assert_eq!(reference::destroy(garbage), Err(CUresult::INVALID_HANDLE));
    }
}

#[test]
fn any_allocation_can_be_a_linear_texture() {
    common::context();
    // Small ones lie close together: each begins where a texture may, and so do rows.
    let memory: Vec<_> = (1..=20).map(|n| alloc::alloc(16 * n).unwrap()).collect();
    for (n, addr) in (1..).zip(&memory) {
        let resource = linear(*addr, 16 * n);
        let object = texture::create(&resource, &CUDA_TEXTURE_DESC::default(), None);
        texture::destroy(object.unwrap()).unwrap();
        alloc::free(*addr).unwrap();
    }
}
