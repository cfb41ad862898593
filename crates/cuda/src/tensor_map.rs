//! Tensor maps.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::memory::tensor_map::{self, Common};
use ptxjit_driver::types::{
    CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapIm2ColWideMode,
    CUtensorMapInterleave, CUtensorMapL2promotion, CUtensorMapSwizzle,
};

use crate::call::{In, Out, exports};

exports! {
    /// Makes a map of boxes.
    fn cuTensorMapEncodeTiled(
        out: Out<CUtensorMap>, dtype: CUtensorMapDataType, rank: u32, address: u64,
        dims: In<u64>, strides: In<u64>, box_dims: In<u32>, steps: In<u32>,
        interleave: CUtensorMapInterleave, swizzle: CUtensorMapSwizzle,
        promotion: CUtensorMapL2promotion, fill: CUtensorMapFloatOOBfill,
    ) {
        let n = tensor_map::check(out.address(), rank)?;
        let common = Common {
            dtype,
            address,
            dims: dims.get_all(n)?,
            strides: strides.get_all(n - 1)?,
            steps: steps.get_all(n)?,
            interleave,
            swizzle,
            promotion,
            fill,
        };
        let box_dims = box_dims.get_all(n)?;
        out.fill(|| tensor_map::tiled(&common, &box_dims))
    }

    /// Makes a map of columns of pixels.
    fn cuTensorMapEncodeIm2col(
        out: Out<CUtensorMap>, dtype: CUtensorMapDataType, rank: u32, address: u64,
        dims: In<u64>, strides: In<u64>, lower: In<i32>, upper: In<i32>,
        channels: u32, pixels: u32, steps: In<u32>,
        interleave: CUtensorMapInterleave, swizzle: CUtensorMapSwizzle,
        promotion: CUtensorMapL2promotion, fill: CUtensorMapFloatOOBfill,
    ) {
        let n = tensor_map::check_images(out.address(), rank)?;
        let common = Common {
            dtype,
            address,
            dims: dims.get_all(n)?,
            strides: strides.get_all(n - 1)?,
            steps: steps.get_all(n)?,
            interleave,
            swizzle,
            promotion,
            fill,
        };
        let corners = [lower.get_all(n - 2)?, upper.get_all(n - 2)?];
        out.fill(|| tensor_map::im2col(&common, &corners, channels, pixels))
    }

    /// Makes a map of columns of pixels along the width.
    fn cuTensorMapEncodeIm2colWide(
        out: Out<CUtensorMap>, dtype: CUtensorMapDataType, rank: u32, address: u64,
        dims: In<u64>, strides: In<u64>, lower: i32, upper: i32,
        channels: u32, pixels: u32, steps: In<u32>,
        interleave: CUtensorMapInterleave, mode: CUtensorMapIm2ColWideMode,
        swizzle: CUtensorMapSwizzle,
        promotion: CUtensorMapL2promotion, fill: CUtensorMapFloatOOBfill,
    ) {
        let n = tensor_map::check_images(out.address(), rank)?;
        let common = Common {
            dtype,
            address,
            dims: dims.get_all(n)?,
            strides: strides.get_all(n - 1)?,
            steps: steps.get_all(n)?,
            interleave,
            swizzle,
            promotion,
            fill,
        };
        out.fill(|| tensor_map::im2col_wide(&common, mode, [lower, upper], channels, pixels))
    }

    /// Gives a map another address.
    fn cuTensorMapReplaceAddress(out: Out<CUtensorMap>, address: u64) {
        tensor_map::check_place(out.address())?;
        let map = out.get()?;
        out.fill(|| tensor_map::at(&map, address))
    }
}
