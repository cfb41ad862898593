//! Operations that the device does for a thread beside computing: they reach memory, objects or
//! units that instructions of the IR cannot name.
//!
//! Each is a value: operand and result types follow from it ([`DeviceOp::args`],
//! [`DeviceOp::results`]), so that passes, both engines and the code generator treat all of them
//! alike. What an operation does is written once, in the crate `ptxjit-device`, and called by the
//! interpreter and by compiled code.

mod asynchronous;
mod mark;
mod tcgen05;
mod tensor;
mod texture;
mod trace;

use std::fmt;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::ops::{Builtin, Effect};
use crate::types::Type;

pub use asynchronous::{AsyncGroup, AsyncOp, Completion};
pub use mark::MarkOp;
pub use tcgen05::{
    BlockScale, CopyShape, MmaKind, RegisterAccess, RegisterShape, TensorMemoryOp, TensorMma,
    Unpack,
};
pub use tensor::{MapField, TensorMode, TensorOp};
pub use texture::{
    Color, Fetch, Geometry, ImageQuery, Lod, OpaqueKind, Outside, SurfaceAccess, TextureOp, Unbound,
};
pub use trace::TraceOp;

/// Bytes of a row of a tile, as `ldmatrix` moves it.
pub const ROW_BYTES: u32 = 16;

/// Types of operands or results, in order.
pub type TypeList = SmallVec<[Type; 8]>;

/// An operation of the device.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum DeviceOp {
    /// A function of the device runtime.
    Builtin(Builtin),
    /// On tensors and tensor maps.
    Tensor(TensorOp),
    /// On textures, samplers and surfaces.
    Texture(TextureOp),
    /// Nothing but a mark for those who watch.
    Mark(MarkOp),
    /// Stops the grid unless a row of a tile is aligned to [`ROW_BYTES`], whatever its words are;
    /// operand: its offset in shared memory. Engines check this themselves.
    AlignedRow,
    /// Nothing but a note of an access, for profiles.
    Trace(TraceOp),
    /// On tensor memory.
    TensorMemory(TensorMemoryOp),
    /// Replaces 16 bytes atomically. Generic address, with `compares` the two halves that must be
    /// found there, the two new ones; the results are the old halves. The low one stands first.
    Exchange128 {
        /// Only if what is there is what is expected.
        compares: bool,
    },
    /// Zeros in shared memory. Generic address, number of bytes.
    Clear,
    /// Asynchronous, and complete late; or a wait for such.
    Async(AsyncOp),
    /// Takes a cluster that was not launched yet off the grid; the result is a response in two
    /// words: `%ctaid` of its first CTA (x in the low 32 bits, then 16 bits each of y and z), and
    /// whether there was one.
    CancelLaunch,
    /// Stops the grid: a bulk copy whose operands (destination, source, bytes) are no multiples of
    /// 16.
    BadBulk,
    /// Stops the grid: an `mbarrier`, whose generic address is the operand, was never initialized.
    BadBarrier,
}

impl DeviceOp {
    /// Types of the operands.
    pub fn args(&self) -> TypeList {
        match self {
            DeviceOp::Builtin(builtin) => SmallVec::from_slice(builtin.args()),
            DeviceOp::Tensor(op) => op.args(),
            DeviceOp::Texture(op) => op.args(),
            DeviceOp::Mark(op) => op.args(),
            DeviceOp::AlignedRow => SmallVec::from_slice(&[Type::B32]),
            DeviceOp::Trace(op) => SmallVec::from_slice(&[op.addr]),
            DeviceOp::TensorMemory(op) => op.args(),
            DeviceOp::Exchange128 { compares: false } => SmallVec::from_slice(&[Type::B64; 3]),
            DeviceOp::Exchange128 { compares: true } => SmallVec::from_slice(&[Type::B64; 5]),
            DeviceOp::Clear => SmallVec::from_slice(&[Type::B64; 2]),
            DeviceOp::Async(op) => op.args(),
            DeviceOp::CancelLaunch => SmallVec::new(),
            DeviceOp::BadBulk => SmallVec::from_slice(&[Type::B64, Type::B64, Type::B32]),
            DeviceOp::BadBarrier => SmallVec::from_slice(&[Type::B64]),
        }
    }

    /// Types of the results.
    pub fn results(&self) -> TypeList {
        match self {
            DeviceOp::Builtin(builtin) => SmallVec::from_slice(builtin.results()),
            DeviceOp::Tensor(_)
            | DeviceOp::AlignedRow
            | DeviceOp::Clear
            | DeviceOp::Async(_)
            | DeviceOp::BadBulk
            | DeviceOp::BadBarrier
            | DeviceOp::Trace(_) => SmallVec::new(),
            DeviceOp::Exchange128 { .. } | DeviceOp::CancelLaunch => {
                SmallVec::from_slice(&[Type::B64; 2])
            }
            DeviceOp::Texture(op) => op.results(),
            DeviceOp::Mark(op) => op.results(),
            DeviceOp::TensorMemory(op) => op.results(),
        }
    }

    /// What passes must respect.
    pub fn effect(&self) -> Effect {
        match self {
            DeviceOp::Builtin(_)
            | DeviceOp::Tensor(_)
            | DeviceOp::TensorMemory(_)
            | DeviceOp::Mark(_)
            | DeviceOp::AlignedRow
            | DeviceOp::Trace(_)
            | DeviceOp::Exchange128 { .. }
            | DeviceOp::Clear
            | DeviceOp::Async(_)
            | DeviceOp::CancelLaunch
            | DeviceOp::BadBulk
            | DeviceOp::BadBarrier => Effect::Write,
            DeviceOp::Texture(op) => op.effect(),
        }
    }

    /// Whether the thread executes the next instruction for certain: it neither ends the thread nor
    /// stops the grid as part of its meaning.
    pub fn returns(&self) -> bool {
        match self {
            DeviceOp::Builtin(_) | DeviceOp::BadBulk | DeviceOp::BadBarrier => false,
            DeviceOp::Tensor(_)
            | DeviceOp::TensorMemory(_)
            | DeviceOp::Texture(_)
            | DeviceOp::Exchange128 { .. }
            | DeviceOp::Clear
            | DeviceOp::Async(_)
            | DeviceOp::CancelLaunch
            | DeviceOp::AlignedRow
            | DeviceOp::Trace(_)
            | DeviceOp::Mark(_) => true,
        }
    }
}

impl fmt::Display for DeviceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceOp::Builtin(builtin) => write!(f, "call {builtin}"),
            DeviceOp::Tensor(op) => write!(f, "tensor.{op}"),
            DeviceOp::Texture(op) => write!(f, "texture.{op}"),
            DeviceOp::Mark(op) => write!(f, "mark.{op}"),
            DeviceOp::AlignedRow => f.write_str("aligned_row"),
            DeviceOp::Trace(op) => write!(f, "trace.{op}"),
            DeviceOp::TensorMemory(op) => write!(f, "tcgen05.{op}"),
            DeviceOp::Exchange128 { compares: false } => f.write_str("exch.128"),
            DeviceOp::Exchange128 { compares: true } => f.write_str("cas.128"),
            DeviceOp::Clear => f.write_str("clear"),
            DeviceOp::Async(op) => write!(f, "async.{op}"),
            DeviceOp::CancelLaunch => f.write_str("cancel_launch"),
            DeviceOp::BadBulk => f.write_str("bad_bulk"),
            DeviceOp::BadBarrier => f.write_str("bad_barrier"),
        }
    }
}

impl Builtin {
    /// Types of the operands.
    pub fn args(self) -> &'static [Type] {
        match self {
            Builtin::Vprintf => &[Type::B64; 2],
            Builtin::Malloc | Builtin::Free => &[Type::B64],
            Builtin::AssertFail => &[Type::B64, Type::B64, Type::B32, Type::B64, Type::B64],
            Builtin::SetConditional => &[Type::B64, Type::B32],
        }
    }

    /// Types of the results.
    pub fn results(self) -> &'static [Type] {
        match self {
            Builtin::Vprintf => &[Type::B32],
            Builtin::Malloc => &[Type::B64],
            Builtin::Free | Builtin::AssertFail | Builtin::SetConditional => &[],
        }
    }
}
