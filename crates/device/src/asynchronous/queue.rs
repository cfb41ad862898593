//! What the threads of a cluster have begun and not completed.

use std::collections::BTreeMap;
use std::fmt;

use ptxjit_ir::{AsyncGroup, AsyncOp, Completion, TensorMemoryOp};
use smallvec::SmallVec;

use super::Issuer;
use super::perform::Source;

/// A thread: the rank of its CTA in the cluster, and its place there.
pub(super) type ThreadId = (u32, u32);

/// Looks in succession at mbarriers that find nothing new although there are operations to
/// complete.
const MOST_REFUSALS: u32 = 3;

/// An operation that has been begun.
pub(super) struct Op {
    pub(super) issuer: Issuer,
    pub(super) op: AsyncOp,
    pub(super) args: SmallVec<[u64; 8]>,
    /// What it has read, if that has happened.
    pub(super) source: Option<Source>,
    /// The number of its group among those of the thread, once that has been committed.
    group: Option<u64>,
}

impl Op {
    pub(super) fn new(issuer: Issuer, op: AsyncOp, args: &[u64]) -> Op {
        Op {
            issuer,
            op,
            args: SmallVec::from_slice(args),
            source: None,
            group: None,
        }
    }

    fn thread(&self) -> ThreadId {
        (self.issuer.rank, self.issuer.thread)
    }

    fn is_in(&self, sequence: AsyncGroup) -> bool {
        self.op.completion() == Some(Completion::Group(sequence))
    }

    /// Works in tensor memory for a thread in the order in which it was asked for. PTX ISA,
    /// "tcgen05 memory consistency model: pipelined instructions".
    fn is_pipelined(&self) -> bool {
        match &self.op {
            AsyncOp::TensorMemory(op) => !matches!(op, TensorMemoryOp::Store(_)),
            AsyncOp::ArriveAfterProducts => true,
            AsyncOp::Copy(_)
            | AsyncOp::Reduce { .. }
            | AsyncOp::Store { .. }
            | AsyncOp::Update { .. }
            | AsyncOp::Tensor(_)
            | AsyncOp::ArriveAfterCopies { .. }
            | AsyncOp::Commit(_)
            | AsyncOp::Wait { .. }
            | AsyncOp::WaitStores
            | AsyncOp::Poll => false,
        }
    }

    fn follows_copies(&self) -> bool {
        matches!(self.op, AsyncOp::ArriveAfterCopies { .. })
    }

    /// Whether PTX may order others before this one.
    fn may_come_after_others(&self) -> bool {
        self.is_pipelined() || self.follows_copies()
    }

    /// Whether PTX orders another operation of its thread before this one.
    fn comes_after(&self, other: &Op) -> bool {
        let is_older = other.thread() == self.thread() && other.issuer.op < self.issuer.op;
        let is_copied = self.follows_copies() && other.is_in(AsyncGroup::Copies);
        is_older && (self.is_pipelined() && other.is_pipelined() || is_copied)
    }
}

/// See the module.
pub struct Queue {
    /// By number, so in the order in which they were begun. A thread that stores registers to
    /// tensor memory begins one for each, so that there are thousands.
    ops: BTreeMap<u64, Op>,
    /// Groups that threads have committed, for each sequence.
    groups: BTreeMap<ThreadId, [u64; 2]>,
    n_begun: u64,
    n_refusals: u32,
    random: u64,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue::new(0)
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("n_ops", &self.ops.len())
            .finish_non_exhaustive()
    }
}

impl Queue {
    /// An empty one, whose choices depend on nothing but `seed`.
    pub fn new(seed: u64) -> Queue {
        Queue {
            ops: BTreeMap::new(),
            groups: BTreeMap::new(),
            n_begun: 0,
            n_refusals: 0,
            random: seed,
        }
    }

    /// Whether nothing is left to complete.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.n_begun += 1;
        self.n_begun
    }

    pub(super) fn push(&mut self, op: Op) {
        self.ops.insert(op.issuer.op, op);
    }

    pub(super) fn take(&mut self, number: u64) -> Option<Op> {
        let op = self.ops.remove(&number)?;
        self.n_refusals = 0;
        Some(op)
    }

    /// What a thread has begun since its last group is one.
    pub(super) fn commit(&mut self, thread: ThreadId, sequence: AsyncGroup) {
        let committed = &mut self.groups.entry(thread).or_default()[sequence as usize];
        let own = |op: &&mut Op| op.thread() == thread && op.is_in(sequence);
        for op in self.ops.values_mut().filter(own) {
            op.group.get_or_insert(*committed);
        }
        *committed += 1;
    }

    /// A thread's operations in all its groups but the last `n`.
    pub(super) fn in_groups(&mut self, thread: ThreadId, sequence: AsyncGroup, n: u32) -> Vec<u64> {
        let committed = self.groups.entry(thread).or_default()[sequence as usize];
        let end = committed.saturating_sub(n.into());
        let is_waited_for = |op: &Op| op.group.is_some_and(|group| group < end);
        self.drawn(|op| op.thread() == thread && op.is_in(sequence) && is_waited_for(op))
    }

    /// A thread's stores to tensor memory.
    pub(super) fn stores_of(&mut self, thread: ThreadId) -> Vec<u64> {
        let is_store = |op: &AsyncOp| matches!(op, AsyncOp::TensorMemory(TensorMemoryOp::Store(_)));
        self.drawn(|op| op.thread() == thread && is_store(&op.op))
    }

    /// What the threads of a CTA have begun.
    pub(super) fn of_cta(&mut self, rank: u32) -> Vec<u64> {
        self.drawn(|op| op.issuer.rank == rank)
    }

    /// Any operation.
    pub(super) fn any(&mut self) -> Option<u64> {
        self.drawn(|_| true).first().copied()
    }

    /// An operation that completes on an `mbarrier`; now and then none, although there are some.
    pub(super) fn next_on(&mut self, barrier: u64) -> Option<u64> {
        let ops = self.drawn(|op| op.issuer.barrier == Some(barrier));
        let &first = ops.first()?;
        if self.n_refusals < MOST_REFUSALS && self.below(2) == 0 {
            self.n_refusals += 1;
            return None;
        }
        // Of those that PTX orders the first.
        let up_to_it = self.up_to(first);
        ops.into_iter().filter(|op| up_to_it.contains(op)).min()
    }

    /// The operations that come before one, and that one.
    pub(super) fn up_to(&self, number: u64) -> Vec<u64> {
        let Some(last) = self.ops.get(&number) else {
            return Vec::new();
        };
        let mut numbers = Vec::new();
        if last.may_come_after_others() {
            let before = self.ops.range(..number);
            let before = before.filter(|(_, op)| last.comes_after(op));
            numbers.extend(before.map(|(&number, _)| number));
        }
        numbers.push(number);
        numbers
    }

    /// The operations of a kind in an order drawn by lot.
    fn drawn(&mut self, is_one: impl Fn(&Op) -> bool) -> Vec<u64> {
        let ops = self.ops.iter().filter(|(_, op)| is_one(op));
        let mut numbers: Vec<u64> = ops.map(|(&number, _)| number).collect();
        for n in (1..numbers.len()).rev() {
            let other = self.below(n as u64 + 1) as usize;
            numbers.swap(n, other);
        }
        numbers
    }

    /// A number below `n`, which is not zero. Steele et al., "Fast Splittable Pseudorandom Number
    /// Generators" (OOPSLA 2014), SplitMix64.
    fn below(&mut self, n: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = self.random;
        let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % n
    }
}
