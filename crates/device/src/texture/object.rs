//! Textures, surfaces and samplers as descriptions: where images lie, what their elements are, and
//! how a texture is sampled.

use std::fmt;

use ptxjit_ir::OpaqueKind;

/// Type of a channel in memory.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum ChannelType {
    /// Unsigned, 8 bits.
    U8,
    /// Signed, 8 bits.
    I8,
    /// Unsigned, 16 bits.
    U16,
    /// Signed, 16 bits.
    I16,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 32 bits.
    I32,
    /// Half precision.
    F16,
    /// Single precision.
    F32,
}

impl ChannelType {
    /// Bytes of a channel.
    #[inline]
    pub fn bytes(self) -> u32 {
        match self {
            ChannelType::U8 | ChannelType::I8 => 1,
            ChannelType::U16 | ChannelType::I16 | ChannelType::F16 => 2,
            ChannelType::U32 | ChannelType::I32 | ChannelType::F32 => 4,
        }
    }

    /// Whether it holds floats.
    #[inline]
    pub fn is_float(self) -> bool {
        matches!(self, ChannelType::F16 | ChannelType::F32)
    }

    /// Whether it holds signed integers.
    pub fn is_signed(self) -> bool {
        matches!(self, ChannelType::I8 | ChannelType::I16 | ChannelType::I32)
    }

    /// The largest integer of a type that can be read as a fraction of it.
    #[inline]
    pub fn full_scale(self) -> Option<f64> {
        match self {
            ChannelType::U8 => Some(255.0),
            ChannelType::I8 => Some(127.0),
            ChannelType::U16 => Some(65535.0),
            ChannelType::I16 => Some(32767.0),
            ChannelType::U32 | ChannelType::I32 | ChannelType::F16 | ChannelType::F32 => None,
        }
    }

    /// As case files write it.
    pub fn name(self) -> &'static str {
        match self {
            ChannelType::U8 => "u8",
            ChannelType::I8 => "i8",
            ChannelType::U16 => "u16",
            ChannelType::I16 => "i16",
            ChannelType::U32 => "u32",
            ChannelType::I32 => "i32",
            ChannelType::F16 => "f16",
            ChannelType::F32 => "f32",
        }
    }
}

/// The shape of an image.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Shape {
    /// A line.
    D1,
    /// A plane.
    D2,
    /// A volume.
    D3,
    /// Lines.
    Layers1,
    /// Planes.
    Layers2,
    /// The six faces of a cube: +x, -x, +y, -y, +z, -z.
    Cube,
    /// Cubes, each of six layers.
    Cubes,
}

impl Shape {
    /// Dimensions of a layer.
    pub fn n_dims(self) -> usize {
        match self {
            Shape::D1 | Shape::Layers1 => 1,
            Shape::D2 | Shape::Layers2 | Shape::Cube | Shape::Cubes => 2,
            Shape::D3 => 3,
        }
    }

    /// Whether it consists of layers.
    pub fn is_layered(self) -> bool {
        !matches!(self, Shape::D1 | Shape::D2 | Shape::D3)
    }

    /// As case files write it.
    pub fn name(self) -> &'static str {
        match self {
            Shape::D1 => "1d",
            Shape::D2 => "2d",
            Shape::D3 => "3d",
            Shape::Layers1 => "1d_layered",
            Shape::Layers2 => "2d_layered",
            Shape::Cube => "cube",
            Shape::Cubes => "cube_layered",
        }
    }
}

/// What kind of memory an image is.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Resource {
    /// An array of its own.
    Array,
    /// Elements side by side in linear memory: read at integer coordinates only, with zeros
    /// outside.
    Linear,
    /// Rows of linear memory.
    Pitch,
}

/// One level of a mipmap in global memory. Rows follow each other at even distances, planes of a
/// volume and layers without gaps between their rows.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Level {
    /// Address of the first element.
    pub addr: u64,
    /// Elements by width, height and depth; 1 in dimensions that there are not.
    pub size: [u32; 3],
    /// Bytes from one row to the next.
    pub pitch: u64,
}

impl Level {
    /// Bytes of a layer.
    pub fn layer_bytes(&self) -> u64 {
        self.pitch * u64::from(self.size[1]) * u64::from(self.size[2])
    }
}

/// An image: what textures read and surfaces access.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    /// Its shape.
    pub shape: Shape,
    /// Type of the channels.
    pub dtype: ChannelType,
    /// How many: 1, 2 or 4.
    pub channels: u32,
    /// Layers; 1 where there are none, 6 for a cube.
    pub layers: u32,
    /// At least one.
    pub levels: Vec<Level>,
    /// Its memory.
    pub resource: Resource,
    /// It was made with a number of levels, be it one.
    pub is_mipmap: bool,
}

impl Image {
    /// Bytes of an element.
    #[inline]
    pub fn element_bytes(&self) -> u32 {
        self.dtype.bytes() * self.channels
    }

    /// Level 0.
    #[inline]
    pub fn base(&self) -> &Level {
        &self.levels[0]
    }

    /// Bytes of a level from its first element to its last.
    #[inline]
    pub fn level_bytes(&self, level: &Level) -> u64 {
        let rows = u64::from(level.size[1]) * u64::from(level.size[2]) * u64::from(self.layers);
        let row = u64::from(level.size[0]) * u64::from(self.element_bytes());
        (rows - 1) * level.pitch + row
    }
}

/// What stands for elements outside of an image.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum AddressMode {
    /// The image repeats; as `Clamp` without normalized coordinates.
    Wrap,
    /// Every other repetition is reversed; as `Clamp` without normalized coordinates.
    Mirror,
    /// The nearest element at the edge.
    Clamp,
    /// The border color.
    Border,
}

impl AddressMode {
    /// The number that queries give (PTX ISA, "txq").
    pub fn number(self) -> u32 {
        match self {
            AddressMode::Wrap => 0,
            AddressMode::Mirror => 1,
            AddressMode::Clamp => 3,
            AddressMode::Border => 4,
        }
    }

    /// The mode of such a number. `clamp_ogl`, coordinates held within the image with its border
    /// beyond, is taken for `clamp_to_edge`.
    pub fn from_number(number: u8) -> AddressMode {
        match number {
            0 => AddressMode::Wrap,
            1 => AddressMode::Mirror,
            4 => AddressMode::Border,
            _ => AddressMode::Clamp,
        }
    }
}

/// How a texture is sampled.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Sampler {
    /// By dimension.
    pub address: [AddressMode; 3],
    /// Elements around the place are mixed.
    pub linear: bool,
    /// The two levels around the level of detail are mixed.
    pub mip_linear: bool,
    /// Added to the level of detail.
    pub mip_bias: f32,
    /// Least and greatest level of detail.
    pub mip_clamp: [f32; 2],
    /// The border color.
    pub border: [f32; 4],
    /// Coordinates are fractions of the size. Of a sampler of its own: false overrides what the
    /// texture says.
    pub normalized: bool,
}

impl Default for Sampler {
    fn default() -> Sampler {
        Sampler {
            address: [AddressMode::Clamp; 3],
            linear: false,
            mip_linear: false,
            mip_bias: 0.0,
            mip_clamp: [0.0, f32::MAX],
            border: [0.0; 4],
            normalized: false,
        }
    }
}

/// A texture: an image, and how it is read.
#[derive(Clone, PartialEq, Debug)]
pub struct Texture {
    /// The image.
    pub image: Image,
    /// How it is sampled where the program gives no sampler.
    pub sampler: Sampler,
    /// Integers of 8 and 16 bits are read as fractions of the largest.
    pub normalized_read: bool,
    /// The first three channels are decoded from sRGB.
    pub srgb: bool,
}

impl Texture {
    /// Whether results are floats.
    #[inline]
    pub fn is_float(&self) -> bool {
        self.image.dtype.is_float() || self.is_fraction()
    }

    /// Whether integers are read as fractions.
    #[inline]
    pub fn is_fraction(&self) -> bool {
        self.normalized_read && self.image.dtype.full_scale().is_some()
    }

    /// Checks that the fields go together; the error names the field.
    pub fn check(&self) -> Result<(), String> {
        check_image(&self.image)?;
        if self.srgb && !(self.image.dtype == ChannelType::U8 && self.normalized_read) {
            return Err("`srgb` is for `u8` with `read` normalized_float".to_owned());
        }
        if self.sampler.linear && !self.is_float() {
            return Err(format!(
                "`filter` linear needs floats, and `{}` is read as integers",
                self.image.dtype.name()
            ));
        }
        if self.image.resource == Resource::Linear
            && (self.sampler.linear || self.sampler.normalized)
        {
            return Err(
                "a texture of linear memory has neither `filter` linear nor `normalized` coordinates"
                    .to_owned(),
            );
        }
        let finite = [self.sampler.mip_bias, self.sampler.mip_clamp[0]];
        if finite.iter().any(|value| value.is_nan()) || self.sampler.mip_clamp[1].is_nan() {
            return Err("`mip_bias` and `mip_clamp` are numbers".to_owned());
        }
        Ok(())
    }
}

/// A surface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Surface {
    /// The image, of which surfaces access level 0.
    pub image: Image,
    /// Integers are fractions for formatted stores (UNORM and SNORM).
    pub is_fraction: bool,
}

impl Surface {
    /// Checks that there can be such a surface; the error names the field.
    pub fn check(&self) -> Result<(), String> {
        check_image(&self.image)
    }
}

/// Largest sizes: by width, height and depth of a line, plane and volume, and layers.
const MAX_LINE: u64 = 1 << 28;
const MAX_SIDE: u32 = 131_072;
const MAX_LAYERS: u32 = 2048;

fn check_image(image: &Image) -> Result<(), String> {
    if ![1, 2, 4].contains(&image.channels) {
        return Err(format!("`channels` is {}: 1, 2 or 4", image.channels));
    }
    let size = image.base().size;
    if size.contains(&0) {
        return Err("a size in `dims` is 0".to_owned());
    }
    let longest = size[0].max(size[1]).max(size[2]);
    let is_line = image.resource == Resource::Linear;
    if is_line && u64::from(longest) > MAX_LINE || !is_line && longest > MAX_SIDE {
        return Err(format!("a size of {longest} in `dims` is too large"));
    }
    if image.layers == 0 || image.layers > MAX_LAYERS {
        return Err(format!("`layers` is {}: 1 to {MAX_LAYERS}", image.layers));
    }
    let is_cube = matches!(image.shape, Shape::Cube | Shape::Cubes);
    if is_cube && (size[0] != size[1] || !image.layers.is_multiple_of(6)) {
        return Err("a cube has square faces, and six `layers`".to_owned());
    }
    if image.shape == Shape::Cube && image.layers != 6
        || !image.shape.is_layered() && image.layers != 1
    {
        return Err(format!(
            "`{}` cannot have {} `layers`",
            image.shape.name(),
            image.layers
        ));
    }
    let n_levels = image.levels.len() as u32;
    if n_levels > 1 + longest.ilog2() {
        return Err(format!(
            "`levels` is {n_levels}, more than the size can be halved"
        ));
    }
    Ok(())
}

/// What a handle stands for.
#[derive(Clone, PartialEq, Debug)]
pub enum Object {
    /// A texture.
    Texture(Texture),
    /// A sampler.
    Sampler(Sampler),
    /// A surface.
    Surface(Surface),
}

impl Object {
    /// Its kind.
    pub fn kind(&self) -> OpaqueKind {
        match self {
            Object::Texture(_) => OpaqueKind::Texture,
            Object::Sampler(_) => OpaqueKind::Sampler,
            Object::Surface(_) => OpaqueKind::Surface,
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
