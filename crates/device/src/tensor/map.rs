//! Tensor maps: what a copy knows of a tensor and of the boxes that it takes.

use std::fmt;

/// Most dimensions that a tensor has.
pub const MAX_RANK: usize = 5;

/// Defines an enumeration whose members have the numbers of `tensormap.replace` and the names of
/// case files.
macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($(#[$member_doc:meta])* $member:ident = $number:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
        pub enum $name {
            $($(#[$member_doc])* $member = $number,)*
        }

        impl $name {
            /// All of them, by their numbers in PTX.
            pub const ALL: &[$name] = &[$($name::$member,)*];

            /// The one of a number in PTX.
            pub fn from_number(number: u64) -> Option<$name> {
                let number = usize::try_from(number).ok()?;
                $name::ALL.get(number).copied()
            }

            /// The one of a name.
            pub fn from_name(name: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|value| value.name() == name)
            }

            /// Its name, as case files have it.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$member => $text,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

numbered! {
    /// Type of a tensor's elements.
    ElementType {
        /// `.u8`
        U8 = 0 "u8",
        /// `.u16`
        U16 = 1 "u16",
        /// `.u32`
        U32 = 2 "u32",
        /// `.s32`
        I32 = 3 "i32",
        /// `.u64`
        U64 = 4 "u64",
        /// `.s64`
        I64 = 5 "i64",
        /// `.f16`
        F16 = 6 "f16",
        /// `.f32`
        F32 = 7 "f32",
        /// `.f32.ftz`
        F32Ftz = 8 "f32_ftz",
        /// `.f64`
        F64 = 9 "f64",
        /// `.bf16`
        Bf16 = 10 "bf16",
        /// `.tf32`
        Tf32 = 11 "tf32",
        /// `.tf32.ftz`
        Tf32Ftz = 12 "tf32_ftz",
        /// Sixteen elements of 4 bits in 8 bytes.
        B4x16 = 13 "b4x16",
        /// Sixteen elements of 4 bits in 8 bytes, in shared memory followed by 8 more.
        B4x16P64 = 14 "b4x16_p64",
        /// Sixteen elements of 6 bits in 12 bytes. In shared memory these are followed by 4 more
        /// after a load, and each element takes a byte before a store.
        B6x16P32 = 15 "b6x16_p32",
    }
}

numbered! {
    /// How channels are interleaved.
    Interleave {
        /// They are not.
        None = 0 "none",
        /// In slices of 16 bytes.
        B16 = 1 "16B",
        /// In slices of 32 bytes.
        B32 = 2 "32B",
    }
}

numbered! {
    /// How far the bytes of a box are permuted in shared memory.
    SwizzleMode {
        /// They are not.
        None = 0 "none",
        /// Within 32 bytes.
        B32 = 1 "32B",
        /// Within 64 bytes.
        B64 = 2 "64B",
        /// Within 128 bytes.
        B128 = 3 "128B",
        /// As within 32 bytes, for rows of 96 bytes.
        B96 = 4 "96B",
    }
}

numbered! {
    /// What a permutation within 128 bytes keeps together.
    Atomicity {
        /// 16 bytes.
        B16 = 0 "16B",
        /// 32 bytes.
        B32 = 1 "32B",
        /// 32 bytes, whose halves of 16 have their own halves exchanged in every other line.
        B32Flip8 = 2 "32B_FLIP_8B",
        /// 64 bytes.
        B64 = 3 "64B",
    }
}

numbered! {
    /// What stands for elements outside of the tensor.
    Fill {
        /// Zero.
        Zero = 0 "zero",
        /// NaN.
        Nan = 1 "nan",
    }
}

numbered! {
    /// How much of a tensor a GPU fetches to its L2 cache; without effect.
    L2Promotion {
        /// As much as needed.
        None = 0 "none",
        /// 64 bytes.
        B64 = 1 "64B",
        /// 128 bytes.
        B128 = 2 "128B",
        /// 256 bytes.
        B256 = 3 "256B",
    }
}

/// A permutation of a box in shared memory: mode and atomicity.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Swizzle {
    /// How far bytes are permuted.
    pub mode: SwizzleMode,
    /// What stays together.
    pub atomicity: Atomicity,
}

impl Swizzle {
    /// All that the driver's encoder knows, by its numbers, and the one of 96 bytes.
    pub const ALL: [(Swizzle, &'static str); 8] = {
        const fn swizzle(mode: SwizzleMode, atomicity: Atomicity) -> Swizzle {
            Swizzle { mode, atomicity }
        }
        [
            (swizzle(SwizzleMode::None, Atomicity::B16), "none"),
            (swizzle(SwizzleMode::B32, Atomicity::B16), "32B"),
            (swizzle(SwizzleMode::B64, Atomicity::B16), "64B"),
            (swizzle(SwizzleMode::B128, Atomicity::B16), "128B"),
            (swizzle(SwizzleMode::B128, Atomicity::B32), "128B_ATOM_32B"),
            (
                swizzle(SwizzleMode::B128, Atomicity::B32Flip8),
                "128B_ATOM_32B_FLIP_8B",
            ),
            (swizzle(SwizzleMode::B128, Atomicity::B64), "128B_ATOM_64B"),
            (swizzle(SwizzleMode::B96, Atomicity::B16), "96B"),
        ]
    };

    /// None.
    pub const NONE: Swizzle = Swizzle::ALL[0].0;

    /// The one of a name in case files.
    pub fn from_name(name: &str) -> Option<Swizzle> {
        let found = Swizzle::ALL.iter().find(|(_, text)| *text == name);
        found.map(|&(swizzle, _)| swizzle)
    }

    /// Most bytes of a box's row; none if there is no limit.
    pub fn span(self) -> Option<u64> {
        match self.mode {
            SwizzleMode::None => None,
            SwizzleMode::B32 => Some(32),
            SwizzleMode::B64 => Some(64),
            SwizzleMode::B96 => Some(96),
            SwizzleMode::B128 => Some(128),
        }
    }
}

impl fmt::Display for Swizzle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Swizzle::ALL.iter().find(|(swizzle, _)| swizzle == self) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "{} with atoms of {}", self.mode, self.atomicity),
        }
    }
}

/// How elements lie in memory: so many of them make a unit of so many bytes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unit {
    /// Elements of a unit.
    pub(crate) elements: u64,
    /// Its bytes in global memory.
    pub(crate) global: u64,
    /// Its bytes in shared memory.
    pub(crate) shared: u64,
}

impl Unit {
    /// Bytes in shared memory of so many in global memory.
    pub(crate) fn in_shared(self, bytes: usize) -> usize {
        bytes / self.global as usize * self.shared as usize
    }
}

impl ElementType {
    pub(crate) fn unit(self) -> Unit {
        let (elements, global, shared) = match self {
            ElementType::U8 => (1, 1, 1),
            ElementType::U16 | ElementType::F16 | ElementType::Bf16 => (1, 2, 2),
            ElementType::U32
            | ElementType::I32
            | ElementType::F32
            | ElementType::F32Ftz
            | ElementType::Tf32
            | ElementType::Tf32Ftz => (1, 4, 4),
            ElementType::U64 | ElementType::I64 | ElementType::F64 => (1, 8, 8),
            ElementType::B4x16 => (2, 1, 1),
            ElementType::B4x16P64 => (16, 8, 16),
            ElementType::B6x16P32 => (16, 12, 16),
        };
        Unit {
            elements,
            global,
            shared,
        }
    }

    /// Whether units are larger in shared than in global memory.
    pub(crate) fn is_padded(self) -> bool {
        matches!(self, ElementType::B4x16P64 | ElementType::B6x16P32)
    }

    /// The NaN that stands for elements outside; none for integers. Which NaN it is the ISA leaves
    /// open: this is the canonical one of its other instructions.
    pub(crate) fn nan(self) -> Option<u64> {
        Some(match self {
            ElementType::F16 | ElementType::Bf16 => 0x7fff,
            ElementType::F32 | ElementType::F32Ftz | ElementType::Tf32 | ElementType::Tf32Ftz => {
                0x7fff_ffff
            }
            ElementType::F64 => 0x7fff_ffff_ffff_ffff,
            _ => return None,
        })
    }
}

/// Which copies a map is for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Access {
    /// Boxes.
    Tiled {
        /// Elements of a box in each dimension.
        box_dims: [u32; MAX_RANK],
    },
    /// Columns of pixels of images.
    Im2col(Pixels),
    /// Columns of pixels along the width; of the corners, only the first numbers count.
    Im2colWide(Pixels),
}

/// What the columns of im2col are.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Pixels {
    /// Where filters begin in width, height and depth, at the lower end: so far from 0.
    pub lower: [i32; 3],
    /// At the upper end: so far from the last pixel.
    pub upper: [i32; 3],
    /// Channels of a pixel.
    pub channels: u32,
    /// Pixels of a column.
    pub per_column: u32,
}

/// What a tensor map says. Lists begin with the innermost dimension; those beyond the rank are
/// ignored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorMap {
    /// Where the tensor begins in global memory.
    pub address: u64,
    /// Number of dimensions.
    pub rank: u32,
    /// Type of the elements.
    pub dtype: ElementType,
    /// Elements in each dimension.
    pub dims: [u64; MAX_RANK],
    /// Bytes from one element to the next, from dimension 1 on.
    pub strides: [u64; MAX_RANK - 1],
    /// Step from one copied element to the next in each dimension, in elements.
    pub element_strides: [u32; MAX_RANK],
    /// How channels are interleaved.
    pub interleave: Interleave,
    /// How a box is permuted in shared memory.
    pub swizzle: Swizzle,
    /// Without effect.
    pub l2_promotion: L2Promotion,
    /// What stands for elements outside.
    pub fill: Fill,
    /// What is copied.
    pub access: Access,
}

impl TensorMap {
    /// Dimensions that count.
    pub(crate) fn n_dims(&self) -> usize {
        (self.rank as usize).min(MAX_RANK)
    }

    /// Elements of a box's row.
    pub(crate) fn inner(&self) -> u64 {
        match &self.access {
            Access::Tiled { box_dims } => box_dims[0].into(),
            Access::Im2col(pixels) | Access::Im2colWide(pixels) => pixels.channels.into(),
        }
    }

    /// The step in a dimension. Without interleave, the innermost has none: the encoder ignores it.
    pub(crate) fn step(&self, dim: usize) -> u64 {
        match (dim, self.interleave) {
            (0, Interleave::None) => 1,
            _ => self.element_strides[dim].max(1).into(),
        }
    }
}
