//! Texture references, which came before texture objects: a state that is set piece by piece.
//!
//! Those of a program's own are kept and told; modules have none yet, as kernels cannot read
//! textures.

use std::sync::Arc;

use parking_lot::Mutex;
use ptxjit::sanitize::AccessOp;

use crate::error::Result;
use crate::handle::{Kind, Object, Slab};
use crate::state;
use crate::types::{
    CU_TRSA_OVERRIDE_FORMAT, CU_TRSF_NORMALIZED_COORDINATES, CU_TRSF_READ_AS_INTEGER, CU_TRSF_SRGB,
    CUDA_ARRAY_DESCRIPTOR_v2, CUaddress_mode, CUarray, CUarray_format, CUdeviceptr, CUfilter_mode,
    CUmipmappedArray, CUresult, CUtexref,
};

use super::{array, check_device_range, texture};

static REFERENCES: Slab<Reference> = Slab::new(Kind::TexRef);

/// What addresses of textures are multiples of.
const ALIGN: u64 = 512;

/// A texture reference.
struct Reference {
    handle: u64,
    state: Mutex<State>,
}

impl Object for Reference {
    fn handle(&self) -> u64 {
        self.handle
    }
}

/// What a reference reads.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Bound {
    Nothing,
    Memory(CUdeviceptr),
    Array(CUarray),
    Mipmap(CUmipmappedArray),
}

/// How a reference reads, as programs set it and ask for it.
#[derive(Copy, Clone, PartialEq, Debug)]
struct State {
    bound: Bound,
    format: (CUarray_format, u32),
    modes: [CUaddress_mode; 3],
    filter: CUfilter_mode,
    mipmap_filter: CUfilter_mode,
    bias: f32,
    clamp: (f32, f32),
    anisotropy: u32,
    border: [f32; 4],
    flags: u32,
}

/// Whether a handle is that of a reference.
pub(crate) fn check(handle: CUtexref) -> Result<()> {
    get(handle).map(|_| ())
}

fn get(handle: CUtexref) -> Result<Arc<Reference>> {
    state::state()?;
    REFERENCES.get(handle.0).ok_or(CUresult::INVALID_HANDLE)
}

fn change(handle: CUtexref, change: impl FnOnce(&mut State) -> Result<()>) -> Result<()> {
    change(&mut get(handle)?.state.lock())
}

fn of<T>(handle: CUtexref, read: impl FnOnce(&State) -> T) -> Result<T> {
    Ok(read(&get(handle)?.state.lock()))
}

// --- The interface ---

/// `cuTexRefCreate`.
pub fn create() -> Result<CUtexref> {
    let made = REFERENCES.insert(|handle| Reference {
        handle,
        state: Mutex::new(State {
            bound: Bound::Nothing,
            format: (CUarray_format::FLOAT, 1),
            modes: [CUaddress_mode::CLAMP; 3],
            filter: CUfilter_mode::POINT,
            mipmap_filter: CUfilter_mode::POINT,
            bias: 0.0,
            clamp: (0.0, 0.0),
            anisotropy: 0,
            border: [0.0; 4],
            flags: 0,
        }),
    })?;
    Ok(CUtexref(made.handle))
}

/// `cuTexRefDestroy`.
pub fn destroy(handle: CUtexref) -> Result<()> {
    REFERENCES
        .remove(handle.0)
        .map(|_| ())
        .ok_or(CUresult::INVALID_HANDLE)
}

/// `cuTexRefSetArray`.
pub fn set_array(handle: CUtexref, array: CUarray, flags: u32) -> Result<()> {
    if flags != CU_TRSA_OVERRIDE_FORMAT {
        return Err(CUresult::INVALID_VALUE);
    }
    let format = array::get(array)?.format();
    change(handle, |state| {
        (state.bound, state.format) = (Bound::Array(array), format);
        Ok(())
    })
}

/// `cuTexRefGetArray`.
pub fn array(handle: CUtexref) -> Result<CUarray> {
    match of(handle, |state| state.bound)? {
        Bound::Array(array) => Ok(array),
        Bound::Nothing | Bound::Memory(_) | Bound::Mipmap(_) => Err(CUresult::INVALID_VALUE),
    }
}

/// `cuTexRefSetMipmappedArray`.
pub fn set_mipmap(handle: CUtexref, mipmap: CUmipmappedArray, flags: u32) -> Result<()> {
    if flags != CU_TRSA_OVERRIDE_FORMAT {
        return Err(CUresult::INVALID_VALUE);
    }
    let desc = array::get_mipmap(mipmap)?.desc;
    change(handle, |state| {
        state.bound = Bound::Mipmap(mipmap);
        state.format = (desc.Format, desc.NumChannels);
        Ok(())
    })
}

/// `cuTexRefGetMipmappedArray`.
pub fn mipmap(handle: CUtexref) -> Result<CUmipmappedArray> {
    match of(handle, |state| state.bound)? {
        Bound::Mipmap(mipmap) => Ok(mipmap),
        Bound::Nothing | Bound::Memory(_) | Bound::Array(_) => Err(CUresult::INVALID_VALUE),
    }
}

/// `cuTexRefSetAddress`: the bytes between the aligned address, which is bound, and the one given.
pub fn set_address(handle: CUtexref, addr: CUdeviceptr, bytes: usize) -> Result<usize> {
    let reference = get(handle)?;
    // No memory at all undoes what was bound.
    if addr == 0 && bytes == 0 {
        reference.state.lock().bound = Bound::Nothing;
        return Ok(0);
    }
    check_device_range(addr, (bytes as u64).max(1), AccessOp::Load)?;
    let aligned = addr / ALIGN * ALIGN;
    reference.state.lock().bound = Bound::Memory(aligned);
    Ok((addr - aligned) as usize)
}

/// `cuTexRefSetAddress2D`.
pub fn set_address_2d(
    handle: CUtexref,
    desc: &CUDA_ARRAY_DESCRIPTOR_v2,
    addr: CUdeviceptr,
    pitch: usize,
) -> Result<()> {
    let element = array::element_bytes(desc.Format, desc.NumChannels)?;
    let sizes = [desc.Width as u64, desc.Height as u64];
    texture::check_rows(addr, sizes, pitch as u64, element)?;
    change(handle, |state| {
        state.bound = Bound::Memory(addr);
        state.format = (desc.Format, desc.NumChannels);
        Ok(())
    })
}

/// `cuTexRefGetAddress`.
pub fn address(handle: CUtexref) -> Result<CUdeviceptr> {
    match of(handle, |state| state.bound)? {
        Bound::Memory(addr) => Ok(addr),
        Bound::Nothing | Bound::Array(_) | Bound::Mipmap(_) => Err(CUresult::INVALID_VALUE),
    }
}

/// `cuTexRefSetFormat`.
pub fn set_format(handle: CUtexref, format: CUarray_format, channels: i32) -> Result<()> {
    let channels = u32::try_from(channels).map_err(|_| CUresult::INVALID_VALUE)?;
    array::element_bytes(format, channels)?;
    change(handle, |state| {
        state.format = (format, channels);
        Ok(())
    })
}

/// `cuTexRefGetFormat`.
pub fn format(handle: CUtexref) -> Result<(CUarray_format, i32)> {
    of(handle, |state| (state.format.0, state.format.1 as i32))
}

fn axis(dim: i32) -> Result<usize> {
    let axis = usize::try_from(dim).ok().filter(|&axis| axis < 3);
    axis.ok_or(CUresult::INVALID_VALUE)
}

/// `cuTexRefSetAddressMode`.
pub fn set_address_mode(handle: CUtexref, dim: i32, mode: CUaddress_mode) -> Result<()> {
    change(handle, |state| {
        mode.c_name().ok_or(CUresult::INVALID_VALUE)?;
        state.modes[axis(dim)?] = mode;
        Ok(())
    })
}

/// `cuTexRefGetAddressMode`.
pub fn address_mode(handle: CUtexref, dim: i32) -> Result<CUaddress_mode> {
    let axis = axis(dim)?;
    of(handle, |state| state.modes[axis])
}

/// `cuTexRefSetFilterMode` and, for levels, `cuTexRefSetMipmapFilterMode`.
pub fn set_filter_mode(handle: CUtexref, mode: CUfilter_mode, of_levels: bool) -> Result<()> {
    change(handle, |state| {
        mode.c_name().ok_or(CUresult::INVALID_VALUE)?;
        match of_levels {
            true => state.mipmap_filter = mode,
            false => state.filter = mode,
        }
        Ok(())
    })
}

/// `cuTexRefGetFilterMode` and, for levels, `cuTexRefGetMipmapFilterMode`.
pub fn filter_mode(handle: CUtexref, of_levels: bool) -> Result<CUfilter_mode> {
    of(handle, |state| match of_levels {
        true => state.mipmap_filter,
        false => state.filter,
    })
}

/// `cuTexRefSetMipmapLevelBias`.
pub fn set_level_bias(handle: CUtexref, bias: f32) -> Result<()> {
    change(handle, |state| {
        state.bias = bias;
        Ok(())
    })
}

/// `cuTexRefGetMipmapLevelBias`.
pub fn level_bias(handle: CUtexref) -> Result<f32> {
    of(handle, |state| state.bias)
}

/// `cuTexRefSetMipmapLevelClamp`.
pub fn set_level_clamp(handle: CUtexref, min: f32, max: f32) -> Result<()> {
    change(handle, |state| {
        state.clamp = (min, max);
        Ok(())
    })
}

/// `cuTexRefGetMipmapLevelClamp`.
pub fn level_clamp(handle: CUtexref) -> Result<(f32, f32)> {
    of(handle, |state| state.clamp)
}

/// `cuTexRefSetMaxAnisotropy`; more than there is is as good as the most.
pub fn set_max_anisotropy(handle: CUtexref, max: u32) -> Result<()> {
    change(handle, |state| {
        state.anisotropy = max.min(texture::MAX_ANISOTROPY);
        Ok(())
    })
}

/// `cuTexRefGetMaxAnisotropy`.
pub fn max_anisotropy(handle: CUtexref) -> Result<i32> {
    of(handle, |state| state.anisotropy as i32)
}

/// `cuTexRefSetBorderColor`.
pub fn set_border_color(handle: CUtexref, color: [f32; 4]) -> Result<()> {
    change(handle, |state| {
        state.border = color;
        Ok(())
    })
}

/// `cuTexRefGetBorderColor`.
pub fn border_color(handle: CUtexref) -> Result<[f32; 4]> {
    of(handle, |state| state.border)
}

/// `cuTexRefSetFlags`.
pub fn set_flags(handle: CUtexref, flags: u32) -> Result<()> {
    const KNOWN: u32 = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB;
    change(handle, |state| {
        if flags & !KNOWN != 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        state.flags = flags;
        Ok(())
    })
}

/// `cuTexRefGetFlags`.
pub fn flags(handle: CUtexref) -> Result<u32> {
    of(handle, |state| state.flags)
}
