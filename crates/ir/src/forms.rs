//! Short ways to make and to recognize common instructions.

use crate::entities::Value;
use crate::inst::{InstData, Terminator};
use crate::ops::{CompareOp, IntBinaryOp, IntUnaryOp};
use crate::types::Type;

impl InstData {
    /// An operation on two integers of a type.
    pub const fn binary(op: IntBinaryOp, ty: Type, args: [Value; 2]) -> InstData {
        InstData::IntBinary { op, ty, args }
    }

    /// A comparison of two integers of a type.
    pub const fn compare(op: CompareOp, ty: Type, args: [Value; 2]) -> InstData {
        InstData::Compare { op, ty, args }
    }

    /// The opposite of a predicate.
    pub const fn not(arg: Value) -> InstData {
        let (op, ty) = (IntUnaryOp::Not, Type::B1);
        InstData::IntUnary { op, ty, arg }
    }

    /// The operation on two integers that the instruction is, their type, and the operands.
    pub const fn as_binary(&self) -> Option<(IntBinaryOp, Type, [Value; 2])> {
        if let InstData::IntBinary { op, ty, args } = *self {
            Some((op, ty, args))
        } else {
            None
        }
    }

    /// The value of which the instruction takes that of the first or the last lane, and whether it
    /// is the last.
    pub const fn as_end_lane(&self) -> Option<(Value, bool)> {
        if let InstData::EndLane { arg, last, .. } = *self {
            Some((arg, last))
        } else {
            None
        }
    }

    /// The comparison of two integers that the instruction is, their type, and the operands.
    pub const fn as_compare(&self) -> Option<(CompareOp, Type, [Value; 2])> {
        if let InstData::Compare { op, ty, args } = *self {
            Some((op, ty, args))
        } else {
            None
        }
    }
}

impl Terminator {
    /// The condition of a branch to one of two blocks.
    pub const fn condition(&self) -> Option<Value> {
        if let Terminator::Brif { cond, .. } = *self {
            Some(cond)
        } else {
            None
        }
    }
}
