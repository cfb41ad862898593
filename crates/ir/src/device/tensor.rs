//! Copies between tensors in global memory and boxes in shared memory, and changes of tensor maps.
//! PTX ISA, "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor" and "tensormap.replace".

use std::fmt;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::TypeList;
use crate::ops::AtomicOp;
use crate::types::Type;

/// Which elements of a tensor a copy takes (`.load_mode`).
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum TensorMode {
    /// A box.
    Tile,
    /// Four rows: `.tile::gather4` and `.tile::scatter4`.
    Rows4,
    /// A column of pixels of images, with offsets when loading.
    Im2col,
    /// Pixels along the width.
    Im2colW,
    /// 128 pixels along the width.
    Im2colW128,
}

impl TensorMode {
    /// Coordinates that an instruction gives for a tensor of `rank` dimensions.
    pub fn n_coordinates(self, rank: u8) -> usize {
        if self == TensorMode::Rows4 {
            5
        } else {
            rank.into()
        }
    }

    /// Offsets that an instruction gives beside the coordinates when it loads: those of im2col, or
    /// `wHalo` and `wOffset`.
    pub fn n_offsets(self, rank: u8) -> usize {
        match self {
            TensorMode::Tile | TensorMode::Rows4 => 0,
            TensorMode::Im2col => usize::from(rank).saturating_sub(2),
            TensorMode::Im2colW | TensorMode::Im2colW128 => 2,
        }
    }
}

/// A field of a tensor map; the number is that of the dimension, or of the stride.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum MapField {
    /// Where the tensor begins.
    GlobalAddress,
    /// The number of dimensions, less one.
    Rank,
    /// Elements of a box in a dimension.
    BoxDim(u8),
    /// Elements of the tensor in a dimension.
    GlobalDim(u8),
    /// Bytes from one element to the next in the dimension of the next number.
    GlobalStride(u8),
    /// Step from one copied element of a box to the next, in elements.
    ElementStride(u8),
    /// Type of the elements.
    ElementType,
    /// How channels are interleaved.
    Interleave,
    /// How a box is permuted in shared memory.
    Swizzle,
    /// What stays together when it is.
    Atomicity,
    /// What stands for elements outside of the tensor.
    Fill,
}

/// An operation on tensors. Addresses are generic; the map's is the first operand.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum TensorOp {
    /// To shared memory: map, destination, `mbarrier`, coordinates, offsets, and the mask of CTAs
    /// if there is one.
    Load {
        /// Dimensions of the tensor.
        rank: u8,
        /// Which elements.
        mode: TensorMode,
        /// A mask says which CTAs of the cluster get the box.
        multicast: bool,
        /// The `mbarrier` may lie in the CTA that the destination's is paired with
        /// (`.cta_group::2`).
        pair: bool,
    },
    /// From shared memory: map, source, coordinates.
    Store {
        /// Dimensions of the tensor.
        rank: u8,
        /// Which elements.
        mode: TensorMode,
        /// How elements of the tensor change, unless they are replaced.
        reduce: Option<AtomicOp>,
    },
    /// Another value for a field of a map: map, value.
    Replace(MapField),
}

impl TensorOp {
    /// Types of the operands.
    pub fn args(self) -> TypeList {
        let mut args: TypeList = SmallVec::new();
        let (rank, mode, n_addresses) = match self {
            TensorOp::Load { rank, mode, .. } => (rank, mode, 3),
            TensorOp::Store { rank, mode, .. } => (rank, mode, 2),
            TensorOp::Replace(_) => return SmallVec::from_slice(&[Type::B64; 2]),
        };
        args.resize(n_addresses, Type::B64);
        args.resize(n_addresses + mode.n_coordinates(rank), Type::B32);
        if let TensorOp::Load { multicast, .. } = self {
            let n = args.len() + mode.n_offsets(rank) + usize::from(multicast);
            args.resize(n, Type::B32);
        }
        args
    }
}

impl fmt::Display for TensorOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TensorOp::Load {
                rank,
                mode,
                multicast,
                pair,
            } => {
                write!(f, "load.{rank}d.{mode:?}")?;
                f.write_str(if *multicast { ".multicast" } else { "" })?;
                f.write_str(if *pair { ".pair" } else { "" })
            }
            TensorOp::Store {
                rank,
                mode,
                reduce: None,
            } => write!(f, "store.{rank}d.{mode:?}"),
            TensorOp::Store {
                rank,
                mode,
                reduce: Some(op),
            } => write!(f, "reduce.{rank}d.{mode:?}.{op}"),
            TensorOp::Replace(field) => write!(f, "replace.{field:?}"),
        }
    }
}
