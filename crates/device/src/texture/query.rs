//! Questions about textures, samplers and surfaces. PTX ISA, "txq" and "suq".

use ptxjit_ir::{ImageQuery, OpaqueKind};

use super::object::{ChannelType, Image, Object, Resource, Sampler, Shape, Surface};
use super::{Found, sampler_of};
use crate::Fault;

/// The answer of `txq`; sampling fields are those of a sampler or, in the unified mode, of the
/// texture.
pub(super) fn answer(found: &Found, query: ImageQuery, level: Option<u32>) -> Result<u32, Fault> {
    match query {
        ImageQuery::AddressMode(_) | ImageQuery::FilterMode | ImageQuery::ForceUnnormalized => {
            of_sampler(&sampler(found)?, query)
        }
        ImageQuery::NormalizedCoords => Ok(found.texture()?.sampler.normalized.into()),
        _ => {
            let texture = found.texture()?;
            of_image(&texture.image, texture.is_fraction(), query, level)
        }
    }
}

/// The answer of `suq`.
pub(super) fn of_surface(surface: &Surface, query: ImageQuery) -> Result<u32, Fault> {
    of_image(&surface.image, surface.is_fraction, query, None)
}

fn sampler(found: &Found) -> Result<Sampler, Fault> {
    match found {
        Found::Object(object) => match &**object {
            Object::Texture(texture) => Ok(texture.sampler),
            Object::Sampler(sampler) => Ok(*sampler),
            Object::Surface(_) => Err(found.wrong(OpaqueKind::Sampler)),
        },
        Found::Unbound(unbound) if unbound.kind == OpaqueKind::Sampler => Ok(sampler_of(unbound)),
        Found::Unbound(_) => Err(found.wrong(found.kind())),
    }
}

fn of_sampler(sampler: &Sampler, query: ImageQuery) -> Result<u32, Fault> {
    Ok(match query {
        ImageQuery::AddressMode(d) => sampler.address[usize::from(d)].number(),
        ImageQuery::FilterMode => sampler.linear.into(),
        _ => (!sampler.normalized).into(),
    })
}

fn of_image(
    image: &Image,
    is_fraction: bool,
    query: ImageQuery,
    level: Option<u32>,
) -> Result<u32, Fault> {
    let size = image.base().size;
    let side = |d: usize| match level {
        _ if d >= image.shape.n_dims() => 0,
        Some(level) => size[d].checked_shr(level).unwrap_or(0).max(1),
        None => size[d],
    };
    Ok(match query {
        ImageQuery::Width => side(0),
        ImageQuery::Height => side(1),
        ImageQuery::Depth => side(2),
        ImageQuery::ChannelDataType => data_type(image.dtype, is_fraction),
        // CL_R, CL_RG, CL_RGBA.
        ImageQuery::ChannelOrder => match image.channels {
            1 => 0x10b0,
            2 => 0x10b2,
            _ => 0x10b5,
        },
        ImageQuery::ArraySize => match image.shape {
            Shape::Layers1 | Shape::Layers2 => image.layers,
            Shape::Cubes => image.layers / 6,
            Shape::D1 | Shape::D2 | Shape::D3 | Shape::Cube => 0,
        },
        ImageQuery::NumMipmapLevels => match image.is_mipmap {
            true => image.levels.len() as u32,
            false => 0,
        },
        ImageQuery::MemoryLayout => (image.resource != Resource::Array).into(),
        ImageQuery::NumSamples
        | ImageQuery::NormalizedCoords
        | ImageQuery::AddressMode(_)
        | ImageQuery::FilterMode
        | ImageQuery::ForceUnnormalized => 0,
    })
}

/// The number of OpenCL for a type of channel. PTX ISA, "Channel Data Type and Channel Order
/// Fields".
fn data_type(dtype: ChannelType, is_fraction: bool) -> u32 {
    match dtype {
        ChannelType::I8 if is_fraction => 0x10d0,
        ChannelType::I16 if is_fraction => 0x10d1,
        ChannelType::U8 if is_fraction => 0x10d2,
        ChannelType::U16 if is_fraction => 0x10d3,
        ChannelType::I8 => 0x10d7,
        ChannelType::I16 => 0x10d8,
        ChannelType::I32 => 0x10d9,
        ChannelType::U8 => 0x10da,
        ChannelType::U16 => 0x10db,
        ChannelType::U32 => 0x10dc,
        ChannelType::F16 => 0x10dd,
        ChannelType::F32 => 0x10de,
    }
}
