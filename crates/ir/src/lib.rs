//! The SSA intermediate representation of ptxjit.
//!
//! A [`Program`] is one kernel together with every device function it can reach. Functions are
//! scalar: they say what *one thread* does. Gang width exists only after this crate, in the
//! vectorizer and the code generator.
//!
//! # Rules of the IR
//!
//! * Values are SSA and typed by **width only** ([`Type`]): `B1` (a predicate), `B8`, `B16`, `B32`,
//!   `B64`. Whether the
//!   bits are signed or a float is a matter of the op that reads them. 128-bit PTX values are pairs
//!   of `B64`.
//! * Blocks have parameters; terminators pass arguments. The entry block's parameters are the
//!   function's parameters
//!   (kernels have none: their parameters live in the `Param` state space).
//! * Every op is total: division by zero, shifts beyond the width and the like have a defined
//!   result (see the op). Only
//!   memory operations, calls and traps can stop a thread.
//! * Every implicit conversion of PTX is an explicit instruction here; nothing below looks at PTX
//!   text.
//! * State-space addresses are `B64`, or `B32` in the windows (`Shared`, `Local`, `Const`,
//!   `Param`), where a `B32` address is
//!   sign-extended. A window address is an offset in its window; `ToGeneric` adds the window's
//!   base.
//! * A *convergent* instruction (barriers, warp operations, calls) depends on who executes it
//!   together: no pass may
//!   duplicate it, move it across a divergent branch, or sink it.
//!
//! Per-op meaning lives in [`eval`], which serves constant folding and the interpreter alike.

#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![deny(clippy::wildcard_enum_match_arm)]

mod access;
mod builder;
mod device;
mod entities;
pub mod eval;
mod forms;
mod function;
mod inst;
mod mma;
mod ops;
pub mod print;
mod program;
mod types;
pub mod verify;

pub use access::Access;
pub use builder::{FunctionBuilder, Variable};
pub use device::{
    AsyncGroup, AsyncOp, BlockScale, Color, Completion, CopyShape, DeviceOp, Fetch, Geometry,
    ImageQuery, Lod, MapField, MarkOp, MmaKind, OpaqueKind, Outside, ROW_BYTES, RegisterAccess,
    RegisterShape, SurfaceAccess, TensorMemoryOp, TensorMma, TensorMode, TensorOp, TextureOp,
    TraceOp, TypeList, Unbound, Unpack,
};
pub use entities::{Block, FuncId, Inst, SigId, StackSlot, Value, VarId};
pub use function::{
    BlockData, Function, FunctionKind, InstNode, StackSlotData, ValueData, ValueDef,
};
pub use inst::{BlockCall, Class, InstData, Terminator, TrapKind};
pub use mma::{
    Chunk, FragmentLayout, MMA_COLUMNS, MatrixFmt, Mma, Place, ProductOp, Scale, SumFmt,
};
pub use ops::{
    AtomicOp, BarrierOp, Builtin, CompareOp, Effect, FloatBinaryOp, FloatCompareOp, FloatUnaryOp,
    IntBinaryOp, IntTernaryOp, IntUnaryOp, ResizeOp, WARPS_OF_WARPGROUP, WarpOp,
};
pub use program::{
    CTA_SHIFT, Counted, Counters, KernelAttrs, KernelParam, MAX_CLUSTER, MAX_LOCAL_BYTES,
    MAX_SHARED_BYTES, Program, Reloc, RelocTarget, SharedLayout, Sides, Signature, Traced, Var,
    VarInit,
};
pub use types::{
    AtomicFmt, Convert, FloatFmt, FloatMode, MemSem, NumFmt, Round, Scope, SharedBy, Space,
    SpecialReg, SrcLoc, Type,
};
