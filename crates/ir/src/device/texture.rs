//! Reads of textures, accesses of surfaces, and questions about them. PTX ISA, "Texture
//! Instructions" and "Surface Instructions".

use std::fmt;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::TypeList;
use crate::ops::{AtomicOp, Effect};
use crate::types::{AtomicFmt, Type};

/// What kind of image an instruction works on.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Geometry {
    /// `.1d`
    D1,
    /// `.2d`
    D2,
    /// `.3d`
    D3,
    /// `.a1d`: layers of one dimension.
    A1,
    /// `.a2d`: layers of two dimensions.
    A2,
    /// `.cube`
    Cube,
    /// `.acube`: an array of cubes.
    CubeArray,
    /// `.2dms`: several samples for each element.
    Samples,
    /// `.a2dms`: layers of these.
    SamplesArray,
}

impl Geometry {
    /// Coordinates of an instruction, which are operands in the order of the ISA: the layer first,
    /// or the sample and then the layer.
    pub fn n_coordinates(self) -> usize {
        self.n_indices() + self.n_axes()
    }

    /// How many of the coordinates are an index, of a layer or a sample.
    pub fn n_indices(self) -> usize {
        match self {
            Geometry::D1 | Geometry::D2 | Geometry::D3 | Geometry::Cube => 0,
            Geometry::A1 | Geometry::A2 | Geometry::CubeArray | Geometry::Samples => 1,
            Geometry::SamplesArray => 2,
        }
    }

    /// How many of the coordinates say the place within a layer.
    pub fn n_axes(self) -> usize {
        match self {
            Geometry::D1 | Geometry::A1 => 1,
            Geometry::D2 | Geometry::A2 | Geometry::Samples | Geometry::SamplesArray => 2,
            Geometry::D3 | Geometry::Cube | Geometry::CubeArray => 3,
        }
    }

    /// The modifier of an instruction.
    pub fn name(self) -> &'static str {
        match self {
            Geometry::D1 => "1d",
            Geometry::D2 => "2d",
            Geometry::D3 => "3d",
            Geometry::A1 => "a1d",
            Geometry::A2 => "a2d",
            Geometry::Cube => "cube",
            Geometry::CubeArray => "acube",
            Geometry::Samples => "2dms",
            Geometry::SamplesArray => "a2dms",
        }
    }
}

/// How the level of a mipmap is chosen.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Lod {
    /// `.base`, or no modifier: level 0.
    Base,
    /// `.level`: an operand says it.
    Level,
    /// `.grad`: two vectors of derivatives say it.
    Grad,
}

/// The form of the results.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Color {
    /// Four words: floats, or integers where the image has those.
    Words,
    /// Four halves, each in the low part of a word.
    Halves,
    /// `.f16x2`: two words of two halves.
    PackedHalves,
}

/// A read of a texture (`tex`, `tld4`): texture, sampler if `sampler`, coordinates, level or
/// derivatives, offsets, and the reference value of a depth comparison.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Fetch {
    /// The image.
    pub geometry: Geometry,
    /// Coordinates (and the level) are integers: the element at the place is read as it is.
    pub integer: bool,
    /// The level.
    pub lod: Lod,
    /// The component of the four elements around the place that are the result (`tld4`).
    pub gather: Option<u8>,
    /// A sampler is an operand (`texmode_independent`).
    pub sampler: bool,
    /// Offsets are operands, one for each axis of a layer.
    pub offsets: bool,
    /// Elements are compared with an operand.
    pub depth: bool,
    /// The results.
    pub color: Color,
}

impl Fetch {
    /// Operands of each vector of derivatives.
    pub fn n_derivatives(&self) -> usize {
        match self.lod {
            Lod::Grad => self.geometry.n_axes(),
            Lod::Base | Lod::Level => 0,
        }
    }

    /// Operands behind the handles, all of which are words.
    pub fn n_words(&self) -> usize {
        self.geometry.n_coordinates()
            + usize::from(self.lod == Lod::Level)
            + 2 * self.n_derivatives()
            + self.n_offsets()
            + usize::from(self.depth)
    }

    /// Operands that are offsets.
    pub fn n_offsets(&self) -> usize {
        match self.offsets {
            true => self.geometry.n_axes(),
            false => 0,
        }
    }
}

/// What a query asks for.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum ImageQuery {
    /// Elements in the first dimension.
    Width,
    /// Elements in the second.
    Height,
    /// Elements in the third.
    Depth,
    /// Type of a channel, in numbers of OpenCL.
    ChannelDataType,
    /// Which channels there are, likewise.
    ChannelOrder,
    /// Whether coordinates are fractions of the size.
    NormalizedCoords,
    /// Layers.
    ArraySize,
    /// Levels of the mipmap.
    NumMipmapLevels,
    /// Samples of an element.
    NumSamples,
    /// 1 for linear memory.
    MemoryLayout,
    /// What stands for elements outside in a dimension.
    AddressMode(u8),
    /// How elements are mixed.
    FilterMode,
    /// Whether a sampler overrides normalized coordinates.
    ForceUnnormalized,
}

/// What becomes of an access to a surface that is not inside.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Outside {
    /// The grid stops.
    Trap,
    /// The nearest place inside is accessed.
    Clamp,
    /// A load gives 0, a store does nothing.
    Zero,
}

/// An access to a surface: the surface, coordinates, and the values of a store or reduction.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct SurfaceAccess {
    /// The image.
    pub geometry: Geometry,
    /// What becomes of an access that is not inside.
    pub outside: Outside,
    /// Bytes of each value: 1, 2, 4 or 8.
    pub bytes: u8,
    /// How many values.
    pub n: u8,
    /// The first coordinate counts elements, not bytes, and values are converted to the format of
    /// the surface (`.p`).
    pub formatted: bool,
}

impl SurfaceAccess {
    /// The type of a value.
    pub fn ty(&self) -> Type {
        match self.bytes {
            8 => Type::B64,
            _ => Type::B32,
        }
    }
}

/// The kinds of opaque variables.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum OpaqueKind {
    /// `.texref`
    Texture,
    /// `.samplerref`
    Sampler,
    /// `.surfref`
    Surface,
}

impl OpaqueKind {
    /// What it is called in messages.
    pub fn name(self) -> &'static str {
        match self {
            OpaqueKind::Texture => "texture",
            OpaqueKind::Sampler => "sampler",
            OpaqueKind::Surface => "surface",
        }
    }
}

/// What an opaque variable of a module says before the host binds an object to it: its kind, and
/// the sampling fields of its initializer. Eight bytes, where otherwise the handle of the object
/// stands.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Unbound {
    /// The type of the variable.
    pub kind: OpaqueKind,
    /// `addr_mode_0` to `addr_mode_2`, in numbers of the ISA's order: wrap, mirror, clamp_ogl,
    /// clamp_to_edge, clamp_to_border.
    pub modes: [u8; 3],
    /// `filter_mode` is linear.
    pub linear: bool,
    /// `normalized_coords`, if the initializer has it.
    pub normalized: Option<bool>,
    /// `force_unnormalized_coords`.
    pub force_unnormalized: bool,
}

impl Unbound {
    /// No user address has these bits.
    const MAGIC: u64 = 0x7ec5 << 48;

    /// `clamp_to_edge`.
    pub const CLAMP_TO_EDGE: u8 = 3;

    /// A variable without initializer.
    pub fn new(kind: OpaqueKind) -> Unbound {
        Unbound {
            kind,
            modes: [Unbound::CLAMP_TO_EDGE; 3],
            linear: false,
            normalized: None,
            force_unnormalized: false,
        }
    }

    /// The contents of the variable.
    pub fn to_bits(self) -> u64 {
        let modes = self.modes.map(u64::from);
        Unbound::MAGIC
            | self.kind as u64
            | modes[0] << 4
            | modes[1] << 8
            | modes[2] << 12
            | u64::from(self.linear) << 16
            | u64::from(self.normalized.is_some()) << 17
            | u64::from(self.normalized == Some(true)) << 18
            | u64::from(self.force_unnormalized) << 19
    }

    /// What such contents say; none if they are a handle, or anything else.
    pub fn from_bits(bits: u64) -> Option<Unbound> {
        if bits & 0xffff << 48 != Unbound::MAGIC {
            return None;
        }
        let kind = match bits & 15 {
            0 => OpaqueKind::Texture,
            1 => OpaqueKind::Sampler,
            2 => OpaqueKind::Surface,
            _ => return None,
        };
        let flag = |n: u32| bits >> n & 1 != 0;
        let modes = [4, 8, 12].map(|n| (bits >> n & 15) as u8);
        let unbound = Unbound {
            kind,
            modes,
            linear: flag(16),
            normalized: flag(17).then(|| flag(18)),
            force_unnormalized: flag(19),
        };
        (unbound.to_bits() == bits && modes.iter().all(|&mode| mode <= 4)).then_some(unbound)
    }
}

/// An operation on textures, samplers or surfaces. The first operand is what the program has for
/// the object: its handle, or the generic address of an opaque variable.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum TextureOp {
    /// A read of a texture.
    Fetch(Fetch),
    /// A question about a texture or sampler; the level of the mipmap is another operand if
    /// `level`.
    Query {
        /// Which.
        query: ImageQuery,
        /// Of a level.
        level: bool,
    },
    /// A question about a surface.
    SurfaceQuery(ImageQuery),
    /// Whether the object is of a kind.
    IsKind(OpaqueKind),
    /// A load from a surface.
    Load(SurfaceAccess),
    /// A store to a surface.
    Store(SurfaceAccess),
    /// An atomic update of an element of a surface, without a result. Bits are compared as the
    /// format of the surface says.
    Reduce(AtomicOp, AtomicFmt, SurfaceAccess),
}

impl TextureOp {
    /// Types of the operands.
    pub fn args(self) -> TypeList {
        let mut args: TypeList = SmallVec::from_slice(&[Type::B64]);
        match self {
            TextureOp::Fetch(fetch) => {
                if fetch.sampler {
                    args.push(Type::B64);
                }
                args.resize(args.len() + fetch.n_words(), Type::B32);
            }
            TextureOp::Query { level, .. } => args.resize(1 + usize::from(level), Type::B32),
            TextureOp::SurfaceQuery(_) | TextureOp::IsKind(_) => {}
            TextureOp::Load(access) => args.resize(1 + access.geometry.n_coordinates(), Type::B32),
            TextureOp::Store(access) | TextureOp::Reduce(_, _, access) => {
                args.resize(1 + access.geometry.n_coordinates(), Type::B32);
                args.resize(args.len() + usize::from(access.n), access.ty());
            }
        }
        args
    }

    /// Types of the results.
    pub fn results(self) -> TypeList {
        match self {
            TextureOp::Fetch(fetch) => match fetch.color {
                Color::Words | Color::Halves => SmallVec::from_elem(Type::B32, 4),
                Color::PackedHalves => SmallVec::from_elem(Type::B32, 2),
            },
            TextureOp::Query { .. } | TextureOp::SurfaceQuery(_) | TextureOp::IsKind(_) => {
                SmallVec::from_elem(Type::B32, 1)
            }
            TextureOp::Load(access) => SmallVec::from_elem(access.ty(), access.n.into()),
            TextureOp::Store(_) | TextureOp::Reduce(..) => SmallVec::new(),
        }
    }

    /// What passes must respect.
    pub fn effect(self) -> Effect {
        match self {
            TextureOp::Fetch(_)
            | TextureOp::Query { .. }
            | TextureOp::SurfaceQuery(_)
            | TextureOp::IsKind(_)
            | TextureOp::Load(_) => Effect::Read,
            TextureOp::Store(_) | TextureOp::Reduce(..) => Effect::Write,
        }
    }
}

impl fmt::Display for TextureOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TextureOp::Fetch(fetch) => {
                let name = if fetch.gather.is_some() {
                    "gather"
                } else {
                    "fetch"
                };
                write!(f, "{name}.{}.{:?}", fetch.geometry.name(), fetch.lod)?;
                if let Some(component) = fetch.gather {
                    write!(f, ".{component}")?;
                }
                let flags = [
                    (fetch.integer, ".integer"),
                    (fetch.sampler, ".sampler"),
                    (fetch.offsets, ".offsets"),
                    (fetch.depth, ".depth"),
                ];
                flags
                    .into_iter()
                    .filter(|&(is_set, _)| is_set)
                    .try_for_each(|(_, name)| f.write_str(name))?;
                write!(f, ".{:?}", fetch.color)
            }
            TextureOp::Query { query, level } => {
                write!(f, "query.{query:?}{}", if *level { ".level" } else { "" })
            }
            TextureOp::SurfaceQuery(query) => write!(f, "surface.query.{query:?}"),
            TextureOp::IsKind(kind) => write!(f, "is_{}", kind.name()),
            TextureOp::Load(access) => write!(f, "surface.load.{access}"),
            TextureOp::Store(access) => write!(f, "surface.store.{access}"),
            TextureOp::Reduce(op, fmt, access) => write!(f, "surface.{op}.{fmt:?}.{access}"),
        }
    }
}

impl fmt::Display for SurfaceAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let formatted = if self.formatted { ".formatted" } else { "" };
        write!(
            f,
            "{}.{}x{}.{:?}{formatted}",
            self.geometry.name(),
            self.n,
            self.bytes,
            self.outside
        )
    }
}
