//! Typed indices of the IR's entities.

use cranelift_entity::entity_impl;
use serde::{Deserialize, Serialize};

/// An SSA value.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Value(u32);
entity_impl!(Value, "v");

/// An instruction of a function.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Inst(u32);
entity_impl!(Inst, "inst");

/// A basic block.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Block(u32);
entity_impl!(Block, "block");

/// A piece of a thread's local memory that belongs to one activation of a function.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StackSlot(u32);
entity_impl!(StackSlot, "ss");

/// A function of a PTX module: the number is module-wide, the same in all programs made from the
/// module.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FuncId(u32);
entity_impl!(FuncId, "fn");

/// A module-scope (or function-scope static) variable in `.global`, `.const` or `.shared`;
/// module-wide number.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VarId(u32);
entity_impl!(VarId, "var");

/// A call signature used by indirect calls of a program.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SigId(u32);
entity_impl!(SigId, "sig");
