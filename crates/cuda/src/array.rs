//! Arrays and mipmapped arrays.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::memory::array;
use ptxjit_driver::types::{
    CUDA_ARRAY_DESCRIPTOR_v2, CUDA_ARRAY_MEMORY_REQUIREMENTS, CUDA_ARRAY3D_DESCRIPTOR_v2, CUarray,
    CUmipmappedArray,
};

use crate::call::{In, Out, exports};

exports! {
    /// Makes an array of one or two dimensions.
    fn cuArrayCreate_v2(out: Out<CUarray>, desc: In<CUDA_ARRAY_DESCRIPTOR_v2>) {
        let desc = desc.get()?;
        out.fill(|| array::create_2d(&desc))
    }

    /// Makes an array.
    fn cuArray3DCreate_v2(out: Out<CUarray>, desc: In<CUDA_ARRAY3D_DESCRIPTOR_v2>) {
        let desc = desc.get()?;
        out.fill(|| array::create(&desc))
    }

    /// What an array of one or two dimensions was made from.
    fn cuArrayGetDescriptor_v2(out: Out<CUDA_ARRAY_DESCRIPTOR_v2>, array: CUarray) {
        out.fill(|| array::descriptor_2d(array))
    }

    /// What an array was made from.
    fn cuArray3DGetDescriptor_v2(out: Out<CUDA_ARRAY3D_DESCRIPTOR_v2>, array: CUarray) {
        out.fill(|| array::descriptor(array))
    }

    /// Ends an array.
    fn cuArrayDestroy(array: CUarray) {
        array::destroy(array)
    }

    /// What memory an array needs whose memory is mapped later.
    fn cuArrayGetMemoryRequirements(
        out: Out<CUDA_ARRAY_MEMORY_REQUIREMENTS>, array: CUarray, device: i32,
    ) {
        out.fill(|| array::requirements(array, device))
    }

    /// Makes a mipmapped array.
    fn cuMipmappedArrayCreate(
        out: Out<CUmipmappedArray>, desc: In<CUDA_ARRAY3D_DESCRIPTOR_v2>, levels: u32,
    ) {
        let desc = desc.get()?;
        out.fill(|| array::create_mipmap(&desc, levels))
    }

    /// A level of a mipmapped array.
    fn cuMipmappedArrayGetLevel(out: Out<CUarray>, array: CUmipmappedArray, level: u32) {
        out.fill(|| array::level(array, level))
    }

    /// Ends a mipmapped array.
    fn cuMipmappedArrayDestroy(array: CUmipmappedArray) {
        array::destroy_mipmap(array)
    }

    /// What memory a mipmapped array needs whose memory is mapped later.
    fn cuMipmappedArrayGetMemoryRequirements(
        out: Out<CUDA_ARRAY_MEMORY_REQUIREMENTS>, array: CUmipmappedArray, device: i32,
    ) {
        out.fill(|| array::mipmap_requirements(array, device))
    }
}
