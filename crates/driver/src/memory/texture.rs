//! Texture and surface objects: what programs describe, check, ask for again and give to kernels,
//! which know them by the same handles.

use std::sync::Arc;

use ptxjit::sanitize::AccessOp;

use crate::context;
use crate::device::Device;
use crate::error::Result;
use crate::handle::{Kind, Object, Slab};
use crate::types::{
    CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION, CU_TRSF_NORMALIZED_COORDINATES,
    CU_TRSF_READ_AS_INTEGER, CU_TRSF_SEAMLESS_CUBEMAP, CU_TRSF_SRGB, CUDA_RESOURCE_DESC,
    CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC, CUresourcetype, CUresult, CUsurfObject,
    CUtexObject,
};

use super::array;
use super::check_device_range;
use super::sampled;

pub(crate) static TEXTURES: Slab<Texture> = Slab::new(Kind::Texture);
pub(crate) static SURFACES: Slab<Surface> = Slab::new(Kind::Surface);

/// What addresses of linear memory are multiples of, and pitches.
const ALIGN: u64 = 512;
const PITCH_ALIGN: u64 = 32;

pub(super) const MAX_ANISOTROPY: u32 = 16;

const FLAGS: u32 = CU_TRSF_READ_AS_INTEGER
    | CU_TRSF_NORMALIZED_COORDINATES
    | CU_TRSF_SRGB
    | CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION
    | CU_TRSF_SEAMLESS_CUBEMAP;

/// A texture object.
pub(crate) struct Texture {
    handle: u64,
    context: u64,
    device: &'static Device,
    resource: CUDA_RESOURCE_DESC,
    texture: CUDA_TEXTURE_DESC,
    view: Option<CUDA_RESOURCE_VIEW_DESC>,
}

/// A surface object.
pub(crate) struct Surface {
    handle: u64,
    context: u64,
    device: &'static Device,
    resource: CUDA_RESOURCE_DESC,
}

impl Object for Texture {
    fn handle(&self) -> u64 {
        self.handle
    }
}

impl Object for Surface {
    fn handle(&self) -> u64 {
        self.handle
    }
}

/// Linear memory that a texture reads: its start is aligned, and all of it is one allocation.
pub(crate) fn check_linear(addr: u64, bytes: u64, element: u64) -> Result<()> {
    if bytes < element || !addr.is_multiple_of(ALIGN) {
        return Err(CUresult::INVALID_VALUE);
    }
    check_device_range(addr, bytes, AccessOp::Load)
}

/// Likewise, rows of memory.
pub(crate) fn check_rows(addr: u64, sizes: [u64; 2], pitch: u64, element: u64) -> Result<()> {
    let [width, height] = sizes;
    let row = width.checked_mul(element).ok_or(CUresult::INVALID_VALUE)?;
    let is_pitch = pitch >= row && pitch.is_multiple_of(PITCH_ALIGN);
    if width == 0 || height == 0 || !is_pitch || !addr.is_multiple_of(ALIGN) {
        return Err(CUresult::INVALID_VALUE);
    }
    let last_row = pitch.checked_mul(height - 1);
    let bytes = last_row.and_then(|bytes| bytes.checked_add(row));
    check_device_range(addr, bytes.ok_or(CUresult::INVALID_VALUE)?, AccessOp::Load)
}

fn check_resource(desc: &CUDA_RESOURCE_DESC) -> Result<()> {
    if desc.flags != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    match desc.resType {
        CUresourcetype::ARRAY => array::get(desc.array()).map(|_| ()),
        CUresourcetype::MIPMAPPED_ARRAY => array::get_mipmap(desc.mipmapped_array()).map(|_| ()),
        CUresourcetype::LINEAR => {
            let linear = desc.linear();
            let element = array::element_bytes(linear.format, linear.numChannels)?;
            check_linear(linear.devPtr, linear.sizeInBytes as u64, element)
        }
        CUresourcetype::PITCH2D => {
            let rows = desc.pitch_2d();
            let element = array::element_bytes(rows.format, rows.numChannels)?;
            let sizes = [rows.width as u64, rows.height as u64];
            check_rows(rows.devPtr, sizes, rows.pitchInBytes as u64, element)
        }
        _ => Err(CUresult::INVALID_VALUE),
    }
}

fn check_texture(desc: &CUDA_TEXTURE_DESC) -> Result<()> {
    let modes = desc.addressMode.iter().all(|mode| mode.c_name().is_some());
    let filters = [desc.filterMode, desc.mipmapFilterMode];
    let has_filters = filters.iter().all(|filter| filter.c_name().is_some());
    let is_known = desc.flags & !FLAGS == 0 && desc.maxAnisotropy <= MAX_ANISOTROPY;
    match modes && has_filters && is_known {
        true => Ok(()),
        false => Err(CUresult::INVALID_VALUE),
    }
}

/// A view is one of an array, in a format that there is, with its ranges in order.
fn check_view(resource: &CUDA_RESOURCE_DESC, view: &CUDA_RESOURCE_VIEW_DESC) -> Result<()> {
    let is_array = [CUresourcetype::ARRAY, CUresourcetype::MIPMAPPED_ARRAY];
    let is_good = is_array.contains(&resource.resType)
        && view.format.c_name().is_some()
        && view.firstMipmapLevel <= view.lastMipmapLevel
        && view.firstLayer <= view.lastLayer;
    match is_good {
        true => Ok(()),
        false => Err(CUresult::INVALID_VALUE),
    }
}

fn get(handle: CUtexObject) -> Result<Arc<Texture>> {
    TEXTURES.get(handle).ok_or(CUresult::INVALID_HANDLE)
}

/// Ends all objects of a context.
pub(crate) fn remove_all(context: u64) {
    for texture in TEXTURES.all() {
        if texture.context == context {
            let _ = destroy(texture.handle);
        }
    }
    for surface in SURFACES.all() {
        if surface.context == context {
            let _ = destroy_surface(surface.handle);
        }
    }
}

// --- The interface ---

/// `cuTexObjectCreate`.
pub fn create(
    resource: &CUDA_RESOURCE_DESC,
    texture: &CUDA_TEXTURE_DESC,
    view: Option<CUDA_RESOURCE_VIEW_DESC>,
) -> Result<CUtexObject> {
    let current = context::current()?;
    let (context, device) = (current.raw().0, current.device);
    check_resource(resource)?;
    check_texture(texture)?;
    if let Some(view) = &view {
        check_view(resource, view)?;
    }
    let made = TEXTURES.insert(|handle| Texture {
        handle,
        context,
        device,
        resource: *resource,
        texture: *texture,
        view,
    })?;
    let handle = made.handle;
    match sampled::register_texture(device, handle, resource, texture, view.as_ref()) {
        Ok(()) => Ok(handle),
        Err(code) => {
            TEXTURES.remove(handle);
            Err(code)
        }
    }
}

/// `cuTexObjectDestroy`.
pub fn destroy(handle: CUtexObject) -> Result<()> {
    if let Some(texture) = TEXTURES.remove(handle) {
        sampled::forget(texture.device, handle);
    }
    Ok(())
}

/// `cuTexObjectGetResourceDesc`.
pub fn resource(handle: CUtexObject) -> Result<CUDA_RESOURCE_DESC> {
    Ok(get(handle)?.resource)
}

/// `cuTexObjectGetTextureDesc`.
pub fn description(handle: CUtexObject) -> Result<CUDA_TEXTURE_DESC> {
    Ok(get(handle)?.texture)
}

/// `cuTexObjectGetResourceViewDesc`: an error if the object was made without.
pub fn view(handle: CUtexObject) -> Result<CUDA_RESOURCE_VIEW_DESC> {
    get(handle)?.view.ok_or(CUresult::INVALID_VALUE)
}

/// `cuSurfObjectCreate`: of an array that was made for surfaces.
pub fn create_surface(resource: &CUDA_RESOURCE_DESC) -> Result<CUsurfObject> {
    let current = context::current()?;
    let (context, device) = (current.raw().0, current.device);
    if resource.resType != CUresourcetype::ARRAY || resource.flags != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    if !array::get(resource.array())?.is_for_surfaces() {
        return Err(CUresult::INVALID_VALUE);
    }
    let made = SURFACES.insert(|handle| Surface {
        handle,
        context,
        device,
        resource: *resource,
    })?;
    let handle = made.handle;
    match sampled::register_surface(device, handle, resource) {
        Ok(()) => Ok(handle),
        Err(code) => {
            SURFACES.remove(handle);
            Err(code)
        }
    }
}

/// `cuSurfObjectDestroy`.
pub fn destroy_surface(handle: CUsurfObject) -> Result<()> {
    if let Some(surface) = SURFACES.remove(handle) {
        sampled::forget(surface.device, handle);
    }
    Ok(())
}

/// `cuSurfObjectGetResourceDesc`.
pub fn surface_resource(handle: CUsurfObject) -> Result<CUDA_RESOURCE_DESC> {
    let surface = SURFACES.get(handle).ok_or(CUresult::INVALID_HANDLE)?;
    Ok(surface.resource)
}
