//! Operations that PTX calls asynchronous, in the form in which they complete late: their
//! instruction only begins them, and others wait for them. PTX ISA, "Asynchronous operations".
//!
//! Programs have them where the order of progress is to show who forgets to wait. All other
//! programs have loads, stores and atomic operations instead, which complete at once.

use std::fmt;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::{TensorMemoryOp, TensorOp, TypeList};
use crate::ops::AtomicOp;
use crate::types::{AtomicFmt, Type};

/// A sequence of groups of a thread's operations.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum AsyncGroup {
    /// `cp.async.commit_group`
    Copies,
    /// `cp.async.bulk.commit_group`
    Bulk,
}

/// How a program learns that an operation is complete.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Completion {
    /// By a wait for a group of the thread's operations.
    Group(AsyncGroup),
    /// An `mbarrier` learns of the bytes; its generic address is the last operand.
    Barrier,
    /// Not before the CTA ends.
    End,
}

/// An asynchronous operation, or a wait for some. Addresses are generic, `B64`; numbers of bytes
/// are `B32`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum AsyncOp {
    /// Bytes: destination, source, how many are written, how many of them are read (the others are
    /// zero), and a mask with a bit for each of sixteen bytes (`B32`).
    Copy(Completion),
    /// Elements that change others: destination, source, bytes.
    Reduce {
        /// How.
        op: AtomicOp,
        /// What the elements are.
        fmt: AtomicFmt,
        /// How it completes.
        on: Completion,
    },
    /// Up to sixteen bytes of two words: destination, words (`B64`), the low one first.
    Store {
        /// How many.
        bytes: u8,
        /// How it completes.
        on: Completion,
    },
    /// A number that changes an element: destination, number (`B64`).
    Update {
        /// How.
        op: AtomicOp,
        /// What the element is.
        fmt: AtomicFmt,
        /// How it completes.
        on: Completion,
    },
    /// A copy between a tensor and shared memory; the operands are those of the copy.
    Tensor(TensorOp),
    /// A product, a copy, a shift or a store that changes tensor memory; likewise.
    TensorMemory(TensorMemoryOp),
    /// An `mbarrier`, the operand, learns that the thread's copies (`cp.async`) so far are done.
    ArriveAfterCopies {
        /// This is one of the arrivals that a phase takes (`.noinc`).
        counts: bool,
    },
    /// An `mbarrier`, the operand, learns that the thread's products, copies and shifts in tensor
    /// memory so far are done.
    ArriveAfterProducts,
    /// What the thread has begun since the last group is a group.
    Commit(AsyncGroup),
    /// Waits for all groups of the thread but so many last ones.
    Wait {
        /// In which sequence.
        group: AsyncGroup,
        /// So many.
        n: u32,
        /// Only until sources have been read.
        reads: bool,
    },
    /// Waits for what the thread has stored to tensor memory.
    WaitStores,
    /// A thread is about to look at an `mbarrier`: its address, and a word (`B64`) whose first bit
    /// is the parity of the phase that it asks for.
    Poll,
}

impl AsyncOp {
    /// How it completes, if the operation itself says.
    pub fn completion(&self) -> Option<Completion> {
        match self {
            AsyncOp::Copy(on)
            | AsyncOp::Reduce { on, .. }
            | AsyncOp::Store { on, .. }
            | AsyncOp::Update { on, .. } => Some(*on),
            AsyncOp::Tensor(TensorOp::Load { .. })
            | AsyncOp::ArriveAfterCopies { .. }
            | AsyncOp::ArriveAfterProducts => Some(Completion::Barrier),
            AsyncOp::Tensor(TensorOp::Store { .. }) => Some(Completion::Group(AsyncGroup::Bulk)),
            AsyncOp::Tensor(TensorOp::Replace(_))
            | AsyncOp::TensorMemory(_)
            | AsyncOp::Commit(_)
            | AsyncOp::Wait { .. }
            | AsyncOp::WaitStores
            | AsyncOp::Poll => None,
        }
    }

    /// Types of the operands.
    pub(super) fn args(&self) -> TypeList {
        let own: &[Type] = match self {
            AsyncOp::Copy(_) => &[Type::B64, Type::B64, Type::B32, Type::B32, Type::B32],
            AsyncOp::Reduce { .. } => &[Type::B64, Type::B64, Type::B32],
            AsyncOp::Store { .. } => &[Type::B64; 3],
            AsyncOp::Update { .. } | AsyncOp::Poll => &[Type::B64; 2],
            AsyncOp::Tensor(op) => return op.args(),
            AsyncOp::TensorMemory(op) => return op.args(),
            AsyncOp::ArriveAfterCopies { .. } | AsyncOp::ArriveAfterProducts => {
                return SmallVec::from_slice(&[Type::B64]);
            }
            AsyncOp::Commit(_) | AsyncOp::Wait { .. } | AsyncOp::WaitStores => &[],
        };
        let mut args: TypeList = SmallVec::from_slice(own);
        if self.completion() == Some(Completion::Barrier) {
            args.push(Type::B64);
        }
        args
    }
}

impl fmt::Display for AsyncOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AsyncOp::Copy(on) => write!(f, "copy.{on}"),
            AsyncOp::Reduce { op, fmt, on } => write!(f, "reduce.{op}.{fmt:?}.{on}"),
            AsyncOp::Store { bytes, on } => write!(f, "store.{bytes}.{on}"),
            AsyncOp::Update { op, fmt, on } => write!(f, "update.{op}.{fmt:?}.{on}"),
            AsyncOp::Tensor(op) => write!(f, "tensor.{op}"),
            AsyncOp::TensorMemory(op) => write!(f, "tcgen05.{op}"),
            AsyncOp::ArriveAfterCopies { counts: false } => f.write_str("arrive.copies"),
            AsyncOp::ArriveAfterCopies { counts: true } => f.write_str("arrive.copies.noinc"),
            AsyncOp::ArriveAfterProducts => f.write_str("arrive.products"),
            AsyncOp::Commit(group) => write!(f, "commit.{group}"),
            AsyncOp::Wait { group, n, reads } => {
                write!(f, "wait.{group}{} {n}", if *reads { ".read" } else { "" })
            }
            AsyncOp::WaitStores => f.write_str("wait.stores"),
            AsyncOp::Poll => f.write_str("poll"),
        }
    }
}

impl fmt::Display for AsyncGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AsyncGroup::Copies => "copies",
            AsyncGroup::Bulk => "bulk",
        })
    }
}

impl fmt::Display for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Completion::Group(group) => write!(f, "{group}"),
            Completion::Barrier => f.write_str("mbarrier"),
            Completion::End => f.write_str("end"),
        }
    }
}
