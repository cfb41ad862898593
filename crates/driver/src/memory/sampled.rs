//! Arrays and memory as the engine's images, and textures and surfaces of them under the handles of
//! the driver's objects.

use ptxjit::{ChannelType, Image, ImageBuilder, Shape, Surface, Texture};

use crate::device::Device;
use crate::error::{self, Result};
use crate::types::{
    CU_TRSF_NORMALIZED_COORDINATES, CU_TRSF_READ_AS_INTEGER, CU_TRSF_SRGB, CUDA_ARRAY3D_CUBEMAP,
    CUDA_ARRAY3D_DESCRIPTOR_v2, CUDA_ARRAY3D_LAYERED, CUDA_RESOURCE_DESC, CUDA_RESOURCE_VIEW_DESC,
    CUDA_TEXTURE_DESC, CUaddress_mode, CUarray_format, CUfilter_mode, CUresourceViewFormat,
    CUresourcetype, CUresult,
};

use super::array;

/// The type of a format's channels, and whether its integers are fractions whatever a texture says.
fn channel(format: CUarray_format) -> Result<(ChannelType, bool)> {
    type Format = CUarray_format;
    Ok(match format {
        Format::UNSIGNED_INT8 => (ChannelType::U8, false),
        Format::UNSIGNED_INT16 => (ChannelType::U16, false),
        Format::UNSIGNED_INT32 => (ChannelType::U32, false),
        Format::SIGNED_INT8 => (ChannelType::I8, false),
        Format::SIGNED_INT16 => (ChannelType::I16, false),
        Format::SIGNED_INT32 => (ChannelType::I32, false),
        Format::HALF => (ChannelType::F16, false),
        Format::FLOAT => (ChannelType::F32, false),
        Format::UNORM_INT8X1 | Format::UNORM_INT8X2 | Format::UNORM_INT8X4 => {
            (ChannelType::U8, true)
        }
        Format::SNORM_INT8X1 | Format::SNORM_INT8X2 | Format::SNORM_INT8X4 => {
            (ChannelType::I8, true)
        }
        Format::UNORM_INT16X1 | Format::UNORM_INT16X2 | Format::UNORM_INT16X4 => {
            (ChannelType::U16, true)
        }
        Format::SNORM_INT16X1 | Format::SNORM_INT16X2 | Format::SNORM_INT16X4 => {
            (ChannelType::I16, true)
        }
        _ => return Err(CUresult::NOT_SUPPORTED),
    })
}

/// Type and number of channels of a view's format; none if the view takes them from the array.
fn view_channel(format: CUresourceViewFormat) -> Result<Option<(ChannelType, u32)>> {
    const TYPES: [ChannelType; 8] = [
        ChannelType::U8,
        ChannelType::I8,
        ChannelType::U16,
        ChannelType::I16,
        ChannelType::U32,
        ChannelType::I32,
        ChannelType::F16,
        ChannelType::F32,
    ];
    match format.0 {
        0 => Ok(None),
        // Each type with one, two and four channels.
        number @ 1..=24 => {
            let n = number as usize - 1;
            Ok(Some((TYPES[n / 3], 1 << (n % 3))))
        }
        _ => Err(CUresult::NOT_SUPPORTED),
    }
}

/// An image, and whether its integers are fractions.
struct Seen {
    image: Image,
    dtype: ChannelType,
    is_fraction: bool,
    is_linear: bool,
}

fn engine<T>(result: std::result::Result<T, ptxjit::Error>) -> Result<T> {
    result.map_err(|err| error::code_of(&err))
}

/// The image of an array or of the levels of a mipmapped one.
fn of_array(
    device: &'static Device,
    desc: &CUDA_ARRAY3D_DESCRIPTOR_v2,
    levels: Option<&[u64]>,
    base: u64,
    view: Option<&CUDA_RESOURCE_VIEW_DESC>,
) -> Result<Seen> {
    let has = |flag| desc.Flags & flag != 0;
    let (shape, n_dims) = match (has(CUDA_ARRAY3D_CUBEMAP), has(CUDA_ARRAY3D_LAYERED)) {
        (true, true) => (Shape::Cubes, 2),
        (true, false) => (Shape::Cube, 2),
        (false, true) if desc.Height == 0 => (Shape::Layers1, 1),
        (false, true) => (Shape::Layers2, 2),
        (false, false) if desc.Height == 0 => (Shape::D1, 1),
        (false, false) if desc.Depth == 0 => (Shape::D2, 2),
        (false, false) => (Shape::D3, 3),
    };
    let sizes = [desc.Width, desc.Height, desc.Depth].map(|size| size as u32);
    let (mut dtype, mut is_fraction) = channel(desc.Format)?;
    let mut channels = desc.NumChannels;
    if let Some((other, n)) = view
        .map(|view| view_channel(view.format))
        .transpose()?
        .flatten()
    {
        let bytes = |dtype: ChannelType, n: u32| dtype.bytes() * n;
        if bytes(other, n) != bytes(dtype, channels) {
            return Err(CUresult::INVALID_VALUE);
        }
        (dtype, channels, is_fraction) = (other, n, false);
    }
    let mut builder = Image::new(dtype, channels, &sizes[..n_dims]).shape(shape);
    if !matches!(shape, Shape::D1 | Shape::D2 | Shape::D3) {
        builder = builder.layers(sizes[2]);
    }
    let place = device.engine()?;
    let image = match levels {
        None => engine(builder.at(place, base))?,
        Some(levels) => engine(builder.levels(levels.len() as u32).at_levels(place, levels))?,
    };
    Ok(Seen {
        image,
        dtype,
        is_fraction,
        is_linear: false,
    })
}

/// The image that a resource is.
fn of_resource(
    device: &'static Device,
    desc: &CUDA_RESOURCE_DESC,
    view: Option<&CUDA_RESOURCE_VIEW_DESC>,
) -> Result<Seen> {
    let memory = |builder: ImageBuilder, addr, format, is_linear| {
        let (dtype, is_fraction) = channel(format)?;
        Ok(Seen {
            image: engine(builder.at(device.engine()?, addr))?,
            dtype,
            is_fraction,
            is_linear,
        })
    };
    match desc.resType {
        CUresourcetype::ARRAY => {
            let array = array::get(desc.array())?;
            of_array(device, array.desc(), None, array.base(), view)
        }
        CUresourcetype::MIPMAPPED_ARRAY => {
            let mipmap = array::get_mipmap(desc.mipmapped_array())?;
            of_array(device, &mipmap.desc, Some(&mipmap.bases()), 0, view)
        }
        CUresourcetype::LINEAR => {
            let linear = desc.linear();
            let (dtype, _) = channel(linear.format)?;
            let element = u64::from(dtype.bytes() * linear.numChannels);
            let n = u32::try_from(linear.sizeInBytes as u64 / element.max(1));
            let n = n.map_err(|_| CUresult::INVALID_VALUE)?;
            let builder = Image::new(dtype, linear.numChannels, &[n]).linear();
            memory(builder, linear.devPtr, linear.format, true)
        }
        _ => {
            let rows = desc.pitch_2d();
            let (dtype, _) = channel(rows.format)?;
            let sizes = [rows.width as u32, rows.height as u32];
            let builder =
                Image::new(dtype, rows.numChannels, &sizes).pitch(rows.pitchInBytes as u64);
            memory(builder, rows.devPtr, rows.format, false)
        }
    }
}

/// Lets a texture object's handle mean a texture to kernels.
pub(super) fn register_texture(
    device: &'static Device,
    handle: u64,
    resource: &CUDA_RESOURCE_DESC,
    desc: &CUDA_TEXTURE_DESC,
    view: Option<&CUDA_RESOURCE_VIEW_DESC>,
) -> Result<()> {
    let seen = of_resource(device, resource, view)?;
    let has = |flag| desc.flags & flag != 0;
    let is_small = matches!(
        seen.dtype,
        ChannelType::U8 | ChannelType::I8 | ChannelType::U16 | ChannelType::I16
    );
    let normalized_read = is_small && (seen.is_fraction || !has(CU_TRSF_READ_AS_INTEGER));
    let is_linear_filter = |filter| filter == CUfilter_mode::LINEAR && !seen.is_linear;
    let modes = desc.addressMode.map(|mode| match mode {
        CUaddress_mode::WRAP => "wrap",
        CUaddress_mode::MIRROR => "mirror",
        CUaddress_mode::BORDER => "border",
        _ => "clamp",
    });
    let texture = Texture::new(&seen.image)
        .address(&modes)
        .border(desc.borderColor)
        .linear(is_linear_filter(desc.filterMode))
        .mip_linear(is_linear_filter(desc.mipmapFilterMode))
        .mip_bias(desc.mipmapLevelBias)
        .mip_clamp(desc.minMipmapLevelClamp, desc.maxMipmapLevelClamp)
        .normalized(has(CU_TRSF_NORMALIZED_COORDINATES) && !seen.is_linear)
        .normalized_read(normalized_read)
        .srgb(has(CU_TRSF_SRGB) && seen.dtype == ChannelType::U8 && normalized_read);
    engine(texture.build_as(handle))
}

/// Lets a surface object's handle mean a surface to kernels.
pub(super) fn register_surface(
    device: &'static Device,
    handle: u64,
    resource: &CUDA_RESOURCE_DESC,
) -> Result<()> {
    let seen = of_resource(device, resource, None)?;
    engine(Surface::build_as(&seen.image, seen.is_fraction, handle))
}

/// From now on the handle means nothing to kernels.
pub(super) fn forget(device: &'static Device, handle: u64) {
    if let Ok(engine) = device.engine() {
        engine.forget_handle(handle);
    }
}
