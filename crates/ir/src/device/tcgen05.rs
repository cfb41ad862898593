//! Tensor memory and what works on it. PTX ISA, "TensorCore 5th Generation Family Instructions".

use std::fmt;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::TypeList;
use crate::types::Type;

/// Cells that the registers of a warp are loaded from or stored to (`.shape`), for one repetition.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum RegisterShape {
    /// `.16x64b`
    Lanes16x64,
    /// `.16x128b`
    Lanes16x128,
    /// `.16x256b`
    Lanes16x256,
    /// `.32x32b`
    Lanes32x32,
    /// `.16x32bx2`; the second access begins so many columns behind the first.
    Lanes16x32x2 {
        /// `immHalfSplitoff`
        split: u32,
    },
}

impl RegisterShape {
    /// Registers of a thread for one repetition.
    pub const fn registers(self) -> usize {
        match self {
            RegisterShape::Lanes16x64
            | RegisterShape::Lanes32x32
            | RegisterShape::Lanes16x32x2 { .. } => 1,
            RegisterShape::Lanes16x128 => 2,
            RegisterShape::Lanes16x256 => 4,
        }
    }

    /// Lanes of tensor memory that a warp accesses.
    pub const fn lanes(self) -> u32 {
        match self {
            RegisterShape::Lanes32x32 => 32,
            RegisterShape::Lanes16x64
            | RegisterShape::Lanes16x128
            | RegisterShape::Lanes16x256
            | RegisterShape::Lanes16x32x2 { .. } => 16,
        }
    }
}

/// An access of tensor memory by a warp.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct RegisterAccess {
    /// Which cells.
    pub shape: RegisterShape,
    /// Repetitions along the columns (`.num`): 1 to 128.
    pub count: u8,
    /// Two cells of 16 bits in each register: `.pack::16b`, `.unpack::16b`.
    pub packed: bool,
}

impl RegisterAccess {
    /// Registers of a thread: 1 to 128.
    pub const fn registers(self) -> usize {
        self.shape.registers() * self.count as usize
    }
}

/// Rows of a matrix in shared memory that are copied to tensor memory, and the lanes that they go
/// to (`.shape`, `.multicast`).
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum CopyShape {
    /// `.128x256b`: a lane for each row.
    Rows128x256,
    /// `.4x256b`: a row for each warp's first lane.
    Rows4x256,
    /// `.128x128b`
    Rows128x128,
    /// `.64x128b.warpx2::02_13`: all rows twice, 64 lanes apart.
    Rows64x128Pairs02And13,
    /// `.64x128b.warpx2::01_23`: each half of the rows twice, 32 lanes apart.
    Rows64x128Pairs01And23,
    /// `.32x128b.warpx4`: four times, 32 lanes apart.
    Rows32x128,
}

/// Elements that are made bytes on their way to tensor memory. Sixteen of them and padding take 16
/// bytes.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Unpack {
    /// `.b4x16_p64`
    Bits4,
    /// `.b6x16_p32`
    Bits6,
}

/// What the elements of A and B are, more or less: the instruction descriptor says which exactly
/// (`.kind`).
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are PTX's own")]
pub enum MmaKind {
    F16,
    Tf32,
    F8f6f4,
    I8,
    Mxf8f6f4,
    Mxf4,
    Mxf4nvf4,
}

/// How many factors a row of A and a column of B have (`.scale_vectorsize`).
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum BlockScale {
    /// So many: 1, 2 or 4.
    Factors(u8),
    /// One for so many elements: 16 or 32.
    Elements(u8),
}

/// A form of `tcgen05.mma`.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct TensorMma {
    /// `.kind`
    pub kind: MmaKind,
    /// The matrices are spread over two CTAs (`.cta_group::2`).
    pub pair: bool,
    /// `.ws`
    pub weight_stationary: bool,
    /// `.sp`
    pub sparse: bool,
    /// A is in tensor memory.
    pub a_in_tensor_memory: bool,
    /// `.ashift`
    pub shifts_a: bool,
    /// Factors of A and B, for the kinds that have them.
    pub scale: Option<BlockScale>,
    /// An operand names lanes of D that stay as they are.
    pub lane_mask: bool,
    /// An operand names columns of B that count as zero.
    pub column_mask: bool,
    /// `scale-input-d`
    pub d_scale: u8,
    /// The target has products of 96 elements along K, and matrices in two pieces along K
    /// (`sm_103a`).
    pub wide_k: bool,
}

impl TensorMma {
    /// Words of the operand that names lanes of D.
    pub const fn mask_words(&self) -> usize {
        match (self.lane_mask, self.pair) {
            (false, _) => 0,
            (true, false) => 4,
            (true, true) => 8,
        }
    }

    fn args(&self) -> TypeList {
        let mut args: TypeList = SmallVec::from_slice(&[Type::B32]);
        args.push(if self.a_in_tensor_memory {
            Type::B32
        } else {
            Type::B64
        });
        args.extend([Type::B64, Type::B32, Type::B32]);
        let words = usize::from(self.sparse) + 2 * usize::from(self.scale.is_some());
        args.resize(args.len() + words + self.mask_words(), Type::B32);
        if self.column_mask {
            args.push(Type::B64);
        }
        args
    }
}

/// An operation on tensor memory. Of those that a whole warp executes for all of its threads
/// ([`TensorMemoryOp::Alloc`], [`TensorMemoryOp::Dealloc`], [`TensorMemoryOp::Relinquish`]) only
/// the first lane's counts.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum TensorMemoryOp {
    /// Generic address that gets the address of the columns, number of columns. The result is
    /// whether that is done: if not, columns must be given back first.
    Alloc {
        /// In both CTAs of a pair.
        pair: bool,
    },
    /// Address, number of columns.
    Dealloc {
        /// In both CTAs of a pair.
        pair: bool,
    },
    /// Nothing will be allocated from now on.
    Relinquish,
    /// Address; the results are the registers of a thread.
    Load(RegisterAccess),
    /// Address, registers of a thread.
    Store(RegisterAccess),
    /// Address, descriptor of the matrix in shared memory.
    Copy {
        /// Which rows.
        shape: CopyShape,
        /// In both CTAs of a pair.
        pair: bool,
        /// What happens to elements.
        unpack: Option<Unpack>,
    },
    /// Address.
    Shift {
        /// In both CTAs of a pair.
        pair: bool,
    },
    /// Address of D, address or descriptor of A, descriptor of B, instruction descriptor, whether D
    /// is added, address of the metadata, addresses of the factors of A and B, words that name
    /// lanes, mask of columns.
    Mma(TensorMma),
}

impl TensorMemoryOp {
    /// Types of the operands.
    pub fn args(&self) -> TypeList {
        match self {
            TensorMemoryOp::Alloc { .. } => SmallVec::from_slice(&[Type::B64, Type::B32]),
            TensorMemoryOp::Dealloc { .. } => SmallVec::from_slice(&[Type::B32; 2]),
            TensorMemoryOp::Relinquish => SmallVec::new(),
            TensorMemoryOp::Load(_) | TensorMemoryOp::Shift { .. } => {
                SmallVec::from_slice(&[Type::B32])
            }
            TensorMemoryOp::Store(access) => smallvec::smallvec![Type::B32; 1 + access.registers()],
            TensorMemoryOp::Copy { .. } => SmallVec::from_slice(&[Type::B32, Type::B64]),
            TensorMemoryOp::Mma(mma) => mma.args(),
        }
    }

    /// Types of the results.
    pub fn results(&self) -> TypeList {
        match self {
            TensorMemoryOp::Alloc { .. } => SmallVec::from_slice(&[Type::B1]),
            TensorMemoryOp::Load(access) => smallvec::smallvec![Type::B32; access.registers()],
            TensorMemoryOp::Dealloc { .. }
            | TensorMemoryOp::Relinquish
            | TensorMemoryOp::Store(_)
            | TensorMemoryOp::Copy { .. }
            | TensorMemoryOp::Shift { .. }
            | TensorMemoryOp::Mma(_) => SmallVec::new(),
        }
    }
}

impl fmt::Display for TensorMemoryOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pair = |pair: &bool| if *pair { ".pair" } else { "" };
        match self {
            TensorMemoryOp::Alloc { pair: two } => write!(f, "alloc{}", pair(two)),
            TensorMemoryOp::Dealloc { pair: two } => write!(f, "dealloc{}", pair(two)),
            TensorMemoryOp::Relinquish => f.write_str("relinquish"),
            TensorMemoryOp::Load(access) => write!(f, "load.{access}"),
            TensorMemoryOp::Store(access) => write!(f, "store.{access}"),
            TensorMemoryOp::Copy {
                shape,
                pair: two,
                unpack,
            } => {
                write!(f, "copy.{shape:?}{}", pair(two))?;
                unpack.map_or(Ok(()), |unpack| write!(f, ".{unpack:?}"))
            }
            TensorMemoryOp::Shift { pair: two } => write!(f, "shift{}", pair(two)),
            TensorMemoryOp::Mma(mma) => write!(f, "{mma}"),
        }
    }
}

impl fmt::Display for RegisterAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}.x{}", self.shape, self.count)?;
        f.write_str(if self.packed { ".packed" } else { "" })
    }
}

impl fmt::Display for TensorMma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mma.{:?}", self.kind)?;
        let flags = [
            (self.pair, ".pair"),
            (self.weight_stationary, ".ws"),
            (self.sparse, ".sp"),
            (self.a_in_tensor_memory, ".ts"),
            (self.shifts_a, ".ashift"),
            (self.lane_mask, ".lanes"),
            (self.column_mask, ".columns"),
        ];
        for (_, name) in flags.into_iter().filter(|&(is_set, _)| is_set) {
            f.write_str(name)?;
        }
        if let Some(scale) = self.scale {
            write!(f, ".{scale:?}")?;
        }
        match self.d_scale {
            0 => Ok(()),
            by => write!(f, ".d>>{by}"),
        }
    }
}
