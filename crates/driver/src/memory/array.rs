//! Arrays and mipmapped arrays.
//!
//! An array's elements lie row by row and layer by layer without gaps in memory that no pointer
//! leads to.

use std::sync::Arc;

use crate::command::checked;
use crate::context;
use crate::device::{self, Device};
use crate::error::Result;
use crate::findings::Site;
use crate::handle::{Kind, Object, Slab};
use crate::types::{
    CUDA_ARRAY_DESCRIPTOR_v2, CUDA_ARRAY_MEMORY_REQUIREMENTS, CUDA_ARRAY3D_COLOR_ATTACHMENT,
    CUDA_ARRAY3D_CUBEMAP, CUDA_ARRAY3D_DEFERRED_MAPPING, CUDA_ARRAY3D_DEPTH_TEXTURE,
    CUDA_ARRAY3D_DESCRIPTOR_v2, CUDA_ARRAY3D_LAYERED, CUDA_ARRAY3D_SPARSE,
    CUDA_ARRAY3D_SURFACE_LDST, CUDA_ARRAY3D_TEXTURE_GATHER, CUDA_ARRAY3D_VIDEO_ENCODE_DECODE,
    CUarray, CUarray_format, CUmipmappedArray, CUresult,
};

pub(crate) static ARRAYS: Slab<Array> = Slab::new(Kind::Array);
pub(crate) static MIPMAPS: Slab<Mipmap> = Slab::new(Kind::MipmappedArray);

/// Alignment of arrays.
const ALIGN: u64 = 512;

/// Largest sizes, as the attributes of a device tell them.
const MAX_LINE: usize = 131_072;
const MAX_PLANE: [usize; 2] = [131_072, 65_536];
const MAX_CUBE: usize = 16_384;
const MAX_LAYERED: usize = 32_768;
const MAX_LAYERS: usize = 2048;

/// An array.
pub(crate) struct Array {
    handle: u64,
    context: u64,
    desc: CUDA_ARRAY3D_DESCRIPTOR_v2,
    memory: Memory,
    /// Whether it is a level of a mipmapped array, with which it ends.
    is_level: bool,
}

/// Memory that is freed with its array; copies in streams hold its address only, as those of other
/// memory do.
struct Memory {
    device: &'static Device,
    base: u64,
    /// The call that has made it, if anything is to be told of that.
    site: Option<Arc<Site>>,
}

impl Memory {
    fn new(device: &'static Device, bytes: u64) -> Result<Memory> {
        let base = checked(device.engine()?.alloc_raw(bytes, ALIGN))?;
        let site = Site::here();
        Ok(Memory { device, base, site })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Ok(engine) = self.device.engine() {
            // The engine knows the allocation, as it made it.
            let _ = engine.free_raw(self.base);
        }
    }
}

/// A mipmapped array.
pub(crate) struct Mipmap {
    handle: u64,
    context: u64,
    pub(crate) desc: CUDA_ARRAY3D_DESCRIPTOR_v2,
    levels: Vec<Arc<Array>>,
}

impl Mipmap {
    /// Addresses of its levels.
    pub(crate) fn bases(&self) -> Vec<u64> {
        self.levels.iter().map(|level| level.base()).collect()
    }
}

impl Object for Array {
    fn handle(&self) -> u64 {
        self.handle
    }
}

impl Object for Mipmap {
    fn handle(&self) -> u64 {
        self.handle
    }
}

impl Array {
    fn make(
        context: u64,
        device: &'static Device,
        desc: CUDA_ARRAY3D_DESCRIPTOR_v2,
        is_level: bool,
    ) -> Result<Arc<Array>> {
        let bytes = extent_of(&desc)
            .into_iter()
            .try_fold(1_u64, u64::checked_mul);
        let memory = Memory::new(device, bytes.ok_or(CUresult::OUT_OF_MEMORY)?)?;
        ARRAYS.insert(|handle| Array {
            handle,
            context,
            desc,
            memory,
            is_level,
        })
    }

    /// What it was made from.
    pub(crate) fn desc(&self) -> &CUDA_ARRAY3D_DESCRIPTOR_v2 {
        &self.desc
    }

    /// Address of the first element.
    pub(crate) fn base(&self) -> u64 {
        self.memory.base
    }

    /// Bytes of a row, rows of a layer, layers.
    pub(crate) fn extent(&self) -> [u64; 3] {
        extent_of(&self.desc)
    }

    /// Bytes of a row.
    pub(crate) fn pitch(&self) -> u64 {
        self.extent()[0]
    }

    /// Bytes in all.
    pub(crate) fn bytes(&self) -> u64 {
        self.extent().iter().product()
    }

    /// Handle of its context.
    pub(crate) fn context(&self) -> u64 {
        self.context
    }

    /// Its bytes and the call that has made it, for a report that it was never destroyed. Levels
    /// end with what they are levels of.
    pub(crate) fn leak(&self) -> Option<(u64, Arc<Site>)> {
        Some((self.bytes(), self.memory.site.clone()?))
    }

    /// Whether surface objects may write it.
    pub(crate) fn is_for_surfaces(&self) -> bool {
        self.desc.Flags & CUDA_ARRAY3D_SURFACE_LDST != 0
    }

    /// Format and channels of its elements.
    pub(crate) fn format(&self) -> (CUarray_format, u32) {
        (self.desc.Format, self.desc.NumChannels)
    }

    /// Bytes of an element.
    pub(crate) fn element_bytes(&self) -> u64 {
        element_bytes(self.desc.Format, self.desc.NumChannels).unwrap_or(1)
    }
}

fn extent_of(desc: &CUDA_ARRAY3D_DESCRIPTOR_v2) -> [u64; 3] {
    let element = element_bytes(desc.Format, desc.NumChannels).unwrap_or(1);
    [
        desc.Width as u64 * element,
        desc.Height.max(1) as u64,
        desc.Depth.max(1) as u64,
    ]
}

/// Bytes of an element; the formats of video and of compressed textures are not to be had.
pub(crate) fn element_bytes(format: CUarray_format, channels: u32) -> Result<u64> {
    type Format = CUarray_format;
    let (bytes, own_channels) = match format {
        Format::UNSIGNED_INT8 | Format::SIGNED_INT8 => (1, None),
        Format::UNSIGNED_INT16 | Format::SIGNED_INT16 | Format::HALF => (2, None),
        Format::UNSIGNED_INT32 | Format::SIGNED_INT32 | Format::FLOAT => (4, None),
        Format::UNORM_INT8X1 | Format::SNORM_INT8X1 => (1, Some(1)),
        Format::UNORM_INT8X2 | Format::SNORM_INT8X2 => (1, Some(2)),
        Format::UNORM_INT8X4 | Format::SNORM_INT8X4 => (1, Some(4)),
        Format::UNORM_INT16X1 | Format::SNORM_INT16X1 => (2, Some(1)),
        Format::UNORM_INT16X2 | Format::SNORM_INT16X2 => (2, Some(2)),
        Format::UNORM_INT16X4 | Format::SNORM_INT16X4 => (2, Some(4)),
        _ if format.c_name().is_some() && format != Format::MAX => {
            return Err(CUresult::NOT_SUPPORTED);
        }
        _ => return Err(CUresult::INVALID_VALUE),
    };
    let is_right = match own_channels {
        Some(own) => own == channels,
        None => [1, 2, 4].contains(&channels),
    };
    match is_right {
        true => Ok(bytes * u64::from(channels)),
        false => Err(CUresult::INVALID_VALUE),
    }
}

/// Checks what an array is made from.
fn check(desc: &CUDA_ARRAY3D_DESCRIPTOR_v2) -> Result<()> {
    const KNOWN: u32 = CUDA_ARRAY3D_LAYERED
        | CUDA_ARRAY3D_SURFACE_LDST
        | CUDA_ARRAY3D_CUBEMAP
        | CUDA_ARRAY3D_TEXTURE_GATHER
        | CUDA_ARRAY3D_DEPTH_TEXTURE
        | CUDA_ARRAY3D_COLOR_ATTACHMENT;
    const NOT_TO_BE_HAD: u32 =
        CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING | CUDA_ARRAY3D_VIDEO_ENCODE_DECODE;
    element_bytes(desc.Format, desc.NumChannels)?;
    if desc.Flags & !(KNOWN | NOT_TO_BE_HAD) != 0 || !has_sizes(desc) {
        return Err(CUresult::INVALID_VALUE);
    }
    match desc.Flags & NOT_TO_BE_HAD {
        0 => Ok(()),
        _ => Err(CUresult::NOT_SUPPORTED),
    }
}

/// Whether sizes fit the kind of array and its limits.
fn has_sizes(desc: &CUDA_ARRAY3D_DESCRIPTOR_v2) -> bool {
    let has = |flag| desc.Flags & flag != 0;
    let (width, height, depth) = (desc.Width, desc.Height, desc.Depth);
    if width == 0 {
        return false;
    }
    if has(CUDA_ARRAY3D_CUBEMAP) {
        let is_depth = match has(CUDA_ARRAY3D_LAYERED) {
            true => depth != 0 && depth.is_multiple_of(6) && depth <= MAX_LAYERS,
            false => depth == 6,
        };
        return width == height && width <= MAX_LAYERED && is_depth;
    }
    if has(CUDA_ARRAY3D_LAYERED) {
        return width <= MAX_LAYERED && height <= MAX_LAYERED && (1..=MAX_LAYERS).contains(&depth);
    }
    if has(CUDA_ARRAY3D_TEXTURE_GATHER) && (height == 0 || depth != 0) {
        return false;
    }
    match (height, depth) {
        (0, 0) => width <= MAX_LINE,
        (_, 0) => width <= MAX_PLANE[0] && height <= MAX_PLANE[1],
        (0, _) => false,
        (_, _) => width <= MAX_CUBE && height <= MAX_CUBE && depth <= MAX_CUBE,
    }
}

/// The array of a handle.
pub(crate) fn get(handle: CUarray) -> Result<Arc<Array>> {
    ARRAYS.get(handle.0).ok_or(CUresult::INVALID_HANDLE)
}

/// The mipmapped array of a handle.
pub(crate) fn get_mipmap(handle: CUmipmappedArray) -> Result<Arc<Mipmap>> {
    MIPMAPS.get(handle.0).ok_or(CUresult::INVALID_HANDLE)
}

/// Ends all arrays of a context.
pub(crate) fn remove_all(context: u64) {
    for mipmap in MIPMAPS.all() {
        if mipmap.context == context {
            MIPMAPS.remove(mipmap.handle);
        }
    }
    for array in ARRAYS.all() {
        if array.context == context {
            ARRAYS.remove(array.handle);
        }
    }
}

// --- The interface ---

/// `cuArray3DCreate`.
pub fn create(desc: &CUDA_ARRAY3D_DESCRIPTOR_v2) -> Result<CUarray> {
    let context = context::current()?;
    check(desc)?;
    let array = Array::make(context.raw().0, context.device, *desc, false)?;
    Ok(CUarray(array.handle))
}

/// `cuArrayCreate`.
pub fn create_2d(desc: &CUDA_ARRAY_DESCRIPTOR_v2) -> Result<CUarray> {
    create(&CUDA_ARRAY3D_DESCRIPTOR_v2 {
        Width: desc.Width,
        Height: desc.Height,
        Format: desc.Format,
        NumChannels: desc.NumChannels,
        ..CUDA_ARRAY3D_DESCRIPTOR_v2::default()
    })
}

/// `cuArrayDestroy`. What was submitted may still use the array, so it ends once that has run.
pub fn destroy(handle: CUarray) -> Result<()> {
    let array = get(handle)?;
    if array.is_level {
        return Err(CUresult::INVALID_HANDLE);
    }
    if let Some(context) = context::CONTEXTS.get(array.context) {
        context.wait();
    }
    ARRAYS
        .remove(handle.0)
        .map(|_| ())
        .ok_or(CUresult::INVALID_HANDLE)
}

/// `cuArray3DGetDescriptor`.
pub fn descriptor(handle: CUarray) -> Result<CUDA_ARRAY3D_DESCRIPTOR_v2> {
    Ok(get(handle)?.desc)
}

/// `cuArrayGetDescriptor`: for arrays of one or two dimensions.
pub fn descriptor_2d(handle: CUarray) -> Result<CUDA_ARRAY_DESCRIPTOR_v2> {
    let desc = descriptor(handle)?;
    match desc.Depth {
        0 => Ok(CUDA_ARRAY_DESCRIPTOR_v2 {
            Width: desc.Width,
            Height: desc.Height,
            Format: desc.Format,
            NumChannels: desc.NumChannels,
        }),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// `cuArrayGetMemoryRequirements`, `GetSparseProperties` and `GetPlane`: of arrays that cannot be
/// made here.
pub fn requirements(handle: CUarray, device: i32) -> Result<CUDA_ARRAY_MEMORY_REQUIREMENTS> {
    get(handle)?;
    device::get(device)?;
    Err(CUresult::INVALID_VALUE)
}

/// `cuMipmappedArrayCreate`.
pub fn create_mipmap(desc: &CUDA_ARRAY3D_DESCRIPTOR_v2, levels: u32) -> Result<CUmipmappedArray> {
    let context = context::current()?;
    check(desc)?;
    let is_layered = desc.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP) != 0;
    let depth = if is_layered { 1 } else { desc.Depth };
    let largest = desc.Width.max(desc.Height).max(depth);
    // More levels than halvings are clamped.
    let n_levels = levels.clamp(1, 1 + largest.ilog2());
    let halved = |size: usize, level: u32| if size == 0 { 0 } else { (size >> level).max(1) };
    let level_desc = |level| CUDA_ARRAY3D_DESCRIPTOR_v2 {
        Width: halved(desc.Width, level),
        Height: halved(desc.Height, level),
        Depth: if is_layered {
            desc.Depth
        } else {
            halved(desc.Depth, level)
        },
        ..*desc
    };
    let mut made = Vec::new();
    for level in 0..n_levels {
        match Array::make(context.raw().0, context.device, level_desc(level), true) {
            Ok(array) => made.push(array),
            Err(code) => {
                made.iter()
                    .for_each(|array| drop(ARRAYS.remove(array.handle)));
                return Err(code);
            }
        }
    }
    let mipmap = MIPMAPS.insert(|handle| Mipmap {
        handle,
        context: context.raw().0,
        desc: *desc,
        levels: made,
    })?;
    Ok(CUmipmappedArray(mipmap.handle))
}

/// `cuMipmappedArrayGetLevel`.
pub fn level(handle: CUmipmappedArray, level: u32) -> Result<CUarray> {
    let mipmap = get_mipmap(handle)?;
    let array = mipmap.levels.get(level as usize);
    Ok(CUarray(array.ok_or(CUresult::INVALID_VALUE)?.handle))
}

/// `cuMipmappedArrayDestroy`.
pub fn destroy_mipmap(handle: CUmipmappedArray) -> Result<()> {
    let mipmap = get_mipmap(handle)?;
    if let Some(context) = context::CONTEXTS.get(mipmap.context) {
        context.wait();
    }
    MIPMAPS.remove(handle.0).ok_or(CUresult::INVALID_HANDLE)?;
    for array in &mipmap.levels {
        ARRAYS.remove(array.handle);
    }
    Ok(())
}

/// `cuMipmappedArrayGetMemoryRequirements` and `GetSparseProperties`: of arrays that cannot be made
/// here.
pub fn mipmap_requirements(
    handle: CUmipmappedArray,
    device: i32,
) -> Result<CUDA_ARRAY_MEMORY_REQUIREMENTS> {
    get_mipmap(handle)?;
    device::get(device)?;
    Err(CUresult::INVALID_VALUE)
}
