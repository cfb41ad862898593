//! Marks: what a program says that the rest of the IR does not, for those who watch how it runs.
//!
//! Programs that are to be compiled have none of them; the frontend puts them in when it is asked
//! to. They change no result, so an engine that watches nothing passes over them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::types::{Space, Type};

use super::TypeList;

/// A mark. Addresses are as the instruction gives them: an offset in the window of the space, or a
/// generic address, in 64 bits.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum MarkOp {
    /// The value of a register that was never written; its bits are zero.
    Undefined(Type),
    /// Of the next load only these bytes are used, a bit for each.
    UsedBytes(u64),
    /// The next atomic operation gives no result: it orders nothing before what follows.
    Reduction,
    /// Accesses up to [`MarkOp::AsyncEnd`] are those of a copy that runs beside the thread.
    AsyncBegin,
    /// See [`MarkOp::AsyncBegin`].
    AsyncEnd,
    /// Accesses up to [`MarkOp::AsyncEnd`] are those of a bulk copy, which goes by the async proxy
    /// and completes as part of a group.
    BulkBegin,
    /// The same of one that completes on an mbarrier; operand: its address.
    BulkBeginOn {
        /// State space of the address.
        space: Space,
        /// Added to the address.
        offset: i32,
    },
    /// The bytes of the bulk copy have come, as far as the mbarrier is concerned; operand: its
    /// address.
    BulkBytes {
        /// State space of the address.
        space: Space,
        /// Added to the address.
        offset: i32,
    },
    /// The bulk copies since the last group are a group.
    BulkCommit,
    /// Waits for all groups of bulk copies but so many last ones.
    BulkWait {
        /// So many.
        n: u32,
        /// Only until they have read their sources.
        reads: bool,
    },
    /// Accesses so far come before those by the async proxy that follow.
    ProxyFence,
    /// The copies since the last group are a group.
    CommitGroup,
    /// Waits for all groups but so many last ones.
    WaitGroup(u32),
    /// Waits for all copies.
    WaitAll,
    /// The next arrival at the barrier of the cluster hands nothing on.
    RelaxedArrival,
    /// What follows are reads of a product of a warpgroup, for which one thread may arrive for all.
    ProductBegin,
    /// The end of that.
    ProductEnd,
    /// What follows up to a mark about an mbarrier is how that operation is done.
    BarrierBegin,
    /// The word that was just stored is an mbarrier; operand: its address.
    BarrierInit {
        /// State space of the address.
        space: Space,
        /// Added to the address.
        offset: i32,
    },
    /// An arrival at the mbarrier, or bytes that have come; operand: its address.
    BarrierArrive {
        /// State space of the address.
        space: Space,
        /// Added to the address.
        offset: i32,
        /// What the thread did before is ordered before what threads do that wait for the phase.
        releases: bool,
    },
    /// All copies of the thread so far arrive at the mbarrier when they are done; operand: its
    /// address.
    BarrierCopies {
        /// State space of the address.
        space: Space,
        /// Added to the address.
        offset: i32,
    },
    /// A look whether a phase of the mbarrier is complete; operands: its address, and the answer.
    BarrierTest {
        /// State space of the address.
        space: Space,
        /// Added to the address.
        offset: i32,
        /// If it is complete, what was done before its arrivals is ordered before what the thread
        /// does next.
        acquires: bool,
        /// It asks for the phase of an arrival, not for one of a parity.
        by_state: bool,
    },
    /// The memory of the mbarrier can be used for something else; operand: its address.
    BarrierInval {
        /// State space of the address.
        space: Space,
        /// Added to the address.
        offset: i32,
    },
}

impl MarkOp {
    /// Types of the operands.
    pub(super) fn args(self) -> TypeList {
        let types: &[Type] = match self {
            MarkOp::Undefined(_)
            | MarkOp::UsedBytes(_)
            | MarkOp::Reduction
            | MarkOp::AsyncBegin
            | MarkOp::AsyncEnd
            | MarkOp::BulkBegin
            | MarkOp::BulkCommit
            | MarkOp::BulkWait { .. }
            | MarkOp::ProxyFence
            | MarkOp::CommitGroup
            | MarkOp::WaitGroup(_)
            | MarkOp::WaitAll
            | MarkOp::RelaxedArrival
            | MarkOp::ProductBegin
            | MarkOp::ProductEnd
            | MarkOp::BarrierBegin => &[],
            MarkOp::BulkBeginOn { .. }
            | MarkOp::BulkBytes { .. }
            | MarkOp::BarrierInit { .. }
            | MarkOp::BarrierArrive { .. }
            | MarkOp::BarrierCopies { .. }
            | MarkOp::BarrierInval { .. } => &[Type::B64],
            MarkOp::BarrierTest { .. } => &[Type::B64, Type::B1],
        };
        TypeList::from_slice(types)
    }

    /// Types of the results.
    pub(super) fn results(self) -> TypeList {
        if let MarkOp::Undefined(ty) = self {
            TypeList::from_slice(&[ty])
        } else {
            TypeList::new()
        }
    }
}

impl fmt::Display for MarkOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MarkOp::Undefined(_) => f.write_str("undefined"),
            MarkOp::UsedBytes(mask) => write!(f, "used_bytes {mask:#x}"),
            MarkOp::Reduction => f.write_str("reduction"),
            MarkOp::AsyncBegin => f.write_str("async.begin"),
            MarkOp::AsyncEnd => f.write_str("async.end"),
            MarkOp::BulkBegin => f.write_str("bulk.begin"),
            MarkOp::BulkBeginOn { .. } => f.write_str("bulk.begin_on"),
            MarkOp::BulkBytes { .. } => f.write_str("bulk.bytes"),
            MarkOp::BulkCommit => f.write_str("bulk.commit"),
            MarkOp::BulkWait { n, reads: false } => write!(f, "bulk.wait {n}"),
            MarkOp::BulkWait { n, reads: true } => write!(f, "bulk.wait_read {n}"),
            MarkOp::ProxyFence => f.write_str("proxy_fence"),
            MarkOp::CommitGroup => f.write_str("commit_group"),
            MarkOp::WaitGroup(n) => write!(f, "wait_group {n}"),
            MarkOp::WaitAll => f.write_str("wait_all"),
            MarkOp::RelaxedArrival => f.write_str("relaxed_arrival"),
            MarkOp::BarrierInit { .. } => f.write_str("mbarrier.init"),
            MarkOp::ProductBegin => f.write_str("product.begin"),
            MarkOp::ProductEnd => f.write_str("product.end"),
            MarkOp::BarrierBegin => f.write_str("mbarrier.begin"),
            MarkOp::BarrierArrive { .. } => f.write_str("mbarrier.arrive"),
            MarkOp::BarrierCopies { .. } => f.write_str("mbarrier.copies"),
            MarkOp::BarrierTest { .. } => f.write_str("mbarrier.test"),
            MarkOp::BarrierInval { .. } => f.write_str("mbarrier.inval"),
        }
    }
}
