//! Texture references.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::memory::texture_reference as reference;
use ptxjit_driver::types::{
    CUDA_ARRAY_DESCRIPTOR_v2, CUaddress_mode, CUarray, CUarray_format, CUdeviceptr, CUfilter_mode,
    CUmipmappedArray, CUtexref,
};

use crate::call::{In, Out, exports};

exports! {
    /// Makes a texture reference.
    fn cuTexRefCreate(out: Out<CUtexref>) {
        out.fill(reference::create)
    }

    /// Ends a texture reference.
    fn cuTexRefDestroy(handle: CUtexref) {
        reference::destroy(handle)
    }

    /// Sets the array that a reference reads.
    fn cuTexRefSetArray(handle: CUtexref, array: CUarray, flags: u32) {
        reference::set_array(handle, array, flags)
    }

    /// The array that a reference reads.
    fn cuTexRefGetArray(out: Out<CUarray>, handle: CUtexref) {
        out.fill(|| reference::array(handle))
    }

    /// Sets the mipmapped array that a reference reads.
    fn cuTexRefSetMipmappedArray(handle: CUtexref, array: CUmipmappedArray, flags: u32) {
        reference::set_mipmap(handle, array, flags)
    }

    /// The mipmapped array that a reference reads.
    fn cuTexRefGetMipmappedArray(out: Out<CUmipmappedArray>, handle: CUtexref) {
        out.fill(|| reference::mipmap(handle))
    }

    /// Sets the memory that a reference reads.
    fn cuTexRefSetAddress_v2(
        offset: Out<usize>, handle: CUtexref, address: CUdeviceptr, bytes: usize,
    ) {
        let between = reference::set_address(handle, address, bytes)?;
        offset.put_if_wanted(between)
    }

    /// Sets the rows of memory that a reference reads.
    fn cuTexRefSetAddress2D_v2(
        handle: CUtexref, desc: In<CUDA_ARRAY_DESCRIPTOR_v2>, address: CUdeviceptr, pitch: usize,
    ) {
        reference::set_address_2d(handle, &desc.get()?, address, pitch)
    }

    /// Sets the rows of memory that a reference reads.
    fn cuTexRefSetAddress2D_v3(
        handle: CUtexref, desc: In<CUDA_ARRAY_DESCRIPTOR_v2>, address: CUdeviceptr, pitch: usize,
    ) {
        reference::set_address_2d(handle, &desc.get()?, address, pitch)
    }

    /// The memory that a reference reads.
    fn cuTexRefGetAddress_v2(out: Out<CUdeviceptr>, handle: CUtexref) {
        out.fill(|| reference::address(handle))
    }

    /// Sets the format of elements.
    fn cuTexRefSetFormat(handle: CUtexref, format: CUarray_format, channels: i32) {
        reference::set_format(handle, format, channels)
    }

    /// The format of elements.
    fn cuTexRefGetFormat(format: Out<CUarray_format>, channels: Out<i32>, handle: CUtexref) {
        let found = reference::format(handle)?;
        format.put_if_wanted(found.0)?;
        channels.put_if_wanted(found.1)
    }

    /// Sets what is read outside of a dimension.
    fn cuTexRefSetAddressMode(handle: CUtexref, dim: i32, mode: CUaddress_mode) {
        reference::set_address_mode(handle, dim, mode)
    }

    /// What is read outside of a dimension.
    fn cuTexRefGetAddressMode(out: Out<CUaddress_mode>, handle: CUtexref, dim: i32) {
        out.fill(|| reference::address_mode(handle, dim))
    }

    /// Sets how elements are filtered.
    fn cuTexRefSetFilterMode(handle: CUtexref, mode: CUfilter_mode) {
        reference::set_filter_mode(handle, mode, false)
    }

    /// How elements are filtered.
    fn cuTexRefGetFilterMode(out: Out<CUfilter_mode>, handle: CUtexref) {
        out.fill(|| reference::filter_mode(handle, false))
    }

    /// Sets how levels are filtered.
    fn cuTexRefSetMipmapFilterMode(handle: CUtexref, mode: CUfilter_mode) {
        reference::set_filter_mode(handle, mode, true)
    }

    /// How levels are filtered.
    fn cuTexRefGetMipmapFilterMode(out: Out<CUfilter_mode>, handle: CUtexref) {
        out.fill(|| reference::filter_mode(handle, true))
    }

    /// Sets what is added to levels.
    fn cuTexRefSetMipmapLevelBias(handle: CUtexref, bias: f32) {
        reference::set_level_bias(handle, bias)
    }

    /// What is added to levels.
    fn cuTexRefGetMipmapLevelBias(out: Out<f32>, handle: CUtexref) {
        out.fill(|| reference::level_bias(handle))
    }

    /// Sets bounds of levels.
    fn cuTexRefSetMipmapLevelClamp(handle: CUtexref, min: f32, max: f32) {
        reference::set_level_clamp(handle, min, max)
    }

    /// Bounds of levels.
    fn cuTexRefGetMipmapLevelClamp(min: Out<f32>, max: Out<f32>, handle: CUtexref) {
        let found = reference::level_clamp(handle)?;
        min.put_if_wanted(found.0)?;
        max.put_if_wanted(found.1)
    }

    /// Sets the highest anisotropy.
    fn cuTexRefSetMaxAnisotropy(handle: CUtexref, max: u32) {
        reference::set_max_anisotropy(handle, max)
    }

    /// The highest anisotropy.
    fn cuTexRefGetMaxAnisotropy(out: Out<i32>, handle: CUtexref) {
        out.fill(|| reference::max_anisotropy(handle))
    }

    /// Sets the color of the border.
    fn cuTexRefSetBorderColor(handle: CUtexref, color: In<[f32; 4]>) {
        reference::set_border_color(handle, color.get()?)
    }

    /// The color of the border.
    fn cuTexRefGetBorderColor(out: Out<[f32; 4]>, handle: CUtexref) {
        out.fill(|| reference::border_color(handle))
    }

    /// Sets flags of a reference.
    fn cuTexRefSetFlags(handle: CUtexref, flags: u32) {
        reference::set_flags(handle, flags)
    }

    /// Flags of a reference.
    fn cuTexRefGetFlags(out: Out<u32>, handle: CUtexref) {
        out.fill(|| reference::flags(handle))
    }
}
