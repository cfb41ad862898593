//! What marks of the frontend tell those who watch ([`MarkOp`]).

use ptxjit_ir::{
    AsyncGroup, AsyncOp, Completion, DeviceOp, InstNode, MarkOp, MemSem, Scope, Space, TensorOp,
};

use crate::access::Address;
use crate::fault::FaultKind;
use crate::launch::Machine;
use crate::memory::read_le;
use crate::observe::Region;
use crate::schedule::Env;
use crate::thread::Thread;
use crate::watch::copies::Late;
use crate::watch::finding::{AccessOp, FindingKind};
use crate::watch::shadow::Shadow;
use crate::watch::{Accessed, Who};

/// An mbarrier: the CTA that has it, and its offset in shared memory.
type Mbarrier = (u32, u64);

impl<'p> Machine<'p, '_> {
    /// Executes a mark.
    pub(crate) fn mark(
        &mut self,
        env: &mut Env,
        thread: &mut Thread<'p>,
        (op, args): (MarkOp, &[u64]),
        node: &InstNode,
    ) -> Result<(), FaultKind> {
        let who = self.who(env, thread);
        let Some(watch) = self.watch.as_mut() else {
            return Ok(());
        };
        match op {
            MarkOp::Undefined(_) => {
                let kind = FindingKind::UninitializedRead;
                let origin = watch.origin(who, AccessOp::Load, kind, (Space::Generic, None, None));
                let shadow = Shadow {
                    bits: u64::MAX,
                    origin,
                    computed: false,
                };
                if self.watches_values() {
                    thread.frame().set_shadow(node.results[0], shadow);
                }
            }
            MarkOp::UsedBytes(mask) => watch.set_used_bytes(&who, mask),
            MarkOp::Reduction => watch.set_reduction(&who),
            MarkOp::AsyncBegin => watch.begin_copy(&who),
            MarkOp::AsyncEnd => watch.end_copy(&who),
            MarkOp::CommitGroup => watch.commit_group(&who),
            MarkOp::WaitGroup(n) => watch.wait_group(&who, n as usize),
            MarkOp::WaitAll => watch.wait_all(&who),
            MarkOp::RelaxedArrival => watch.set_relaxed(&who),
            MarkOp::ProductBegin => watch.set_product(&who, true),
            MarkOp::ProductEnd => watch.set_product(&who, false),
            MarkOp::BarrierBegin => watch.set_quiet(&who, true),
            MarkOp::BulkBegin => watch.begin_bulk(&who),
            MarkOp::BulkCommit => watch.commit_bulk(&who),
            MarkOp::BulkWait { n, reads } => watch.wait_bulk(&who, n as usize, reads),
            MarkOp::ProxyFence => watch.fence_proxies(&who),
            MarkOp::BulkBeginOn { space, offset }
            | MarkOp::BulkBytes { space, offset }
            | MarkOp::BarrierInit { space, offset }
            | MarkOp::BarrierArrive { space, offset, .. }
            | MarkOp::BarrierCopies { space, offset }
            | MarkOp::BarrierTest { space, offset, .. }
            | MarkOp::BarrierInval { space, offset } => {
                watch.set_quiet(&who, false);
                let addr = self.marked_address(space, offset, args[0]);
                if let Region::Shared(cta, at) = self.region(addr) {
                    let word = self.mbarrier_word(thread, addr);
                    self.mbarrier_mark(who, (op, args), (cta, at), word);
                }
            }
        }
        Ok(())
    }

    fn marked_address(&self, space: Space, offset: i32, addr: u64) -> u64 {
        let base = match space.is_window() {
            true => addr as u32 as i32 as u64,
            false => addr,
        };
        self.generic(Address {
            space,
            base,
            offset,
        })
    }

    fn mbarrier_word(&mut self, thread: &Thread<'p>, addr: u64) -> u64 {
        let mut bytes = [0; 8];
        let read = self.read_at(thread, addr, &mut bytes);
        read.map_or(0, |()| read_le(&bytes))
    }

    fn mbarrier_mark(&mut self, who: Who, (op, args): (MarkOp, &[u64]), at: Mbarrier, word: u64) {
        let Some(watch) = self.watch.as_mut() else {
            return;
        };
        if !matches!(op, MarkOp::BarrierInit { .. } | MarkOp::BulkBeginOn { .. }) {
            watch.needs_mbarrier(&who, at);
        }
        match op {
            MarkOp::BulkBeginOn { .. } => watch.begin_bulk_on(&who, at),
            MarkOp::BulkBytes { .. } => watch.bulk_bytes(&who, at, word >> 63 != 0),
            MarkOp::BarrierInit { .. } => watch.mbarrier_init(at),
            MarkOp::BarrierArrive { releases, .. } => {
                watch.access(who, mbarrier_access(at, AccessOp::Atomic));
                watch.mbarrier_arrive(&who, at, releases, word >> 63 != 0);
                let [left, most] = [0, 42].map(|field| word >> field & ((1 << 20) - 1));
                // A count below zero takes from the field above.
                if left > most {
                    let text =
                        "arrives at an mbarrier at which as many have arrived as its phase takes";
                    watch.mbarrier_misuse(&who, text);
                }
            }
            MarkOp::BarrierCopies { .. } => watch.mbarrier_copies(&who, at),
            MarkOp::BarrierTest {
                acquires, by_state, ..
            } => {
                watch.access(who, mbarrier_access(at, AccessOp::Load));
                let is_valid = !by_state || watch.has_recent_state(&who, at);
                if is_valid && args[1] & 1 != 0 {
                    watch.mbarrier_complete(&who, at, acquires);
                }
            }
            MarkOp::BarrierInval { .. } => {
                watch.mbarrier_inval(at);
                watch.access(who, mbarrier_access(at, AccessOp::Store));
            }
            other => unreachable!("{other} is not about an mbarrier"),
        }
    }
}

impl<'p> Machine<'p, '_> {
    /// An operation of the device that copies begins: what it accesses is the copy's.
    pub(crate) fn begin_device_copy(
        &mut self,
        (env, thread): (&Env, &Thread<'p>),
        op: &DeviceOp,
        args: &[u64],
    ) {
        let &DeviceOp::Tensor(op) = op else { return };
        let who = self.who(env, thread);
        let barrier = match op {
            TensorOp::Load { .. } => args.get(2).map(|&addr| self.region(addr)),
            TensorOp::Store { .. } => None,
            TensorOp::Replace(_) => return,
        };
        self.begin_bulk(&who, barrier);
    }

    fn begin_bulk(&mut self, who: &Who, barrier: Option<Region>) {
        let Some(watch) = self.watch.as_mut() else {
            return;
        };
        match barrier {
            None => watch.begin_bulk(who),
            Some(Region::Shared(cta, at)) => watch.begin_bulk_on(who, (cta, at)),
            // It will fail.
            Some(_) => {}
        }
    }

    /// A copy that completes late begins: what it accesses is the copy's. False if the thread
    /// itself accesses, or nothing does that is watched.
    pub(crate) fn begin_late_copy(
        &mut self,
        (env, thread): (&Env, &Thread<'p>),
        op: &AsyncOp,
        barrier: Option<u64>,
    ) -> bool {
        let who = self.who(env, thread);
        match op {
            AsyncOp::Copy(Completion::Group(AsyncGroup::Copies)) => {
                if let Some(watch) = self.watch.as_mut() {
                    watch.begin_copy(&who);
                }
                true
            }
            AsyncOp::Copy(_) | AsyncOp::Reduce { .. } | AsyncOp::Tensor(_) => {
                let barrier = barrier.map(|barrier| self.region(barrier));
                self.begin_bulk(&who, barrier);
                true
            }
            AsyncOp::Store { .. }
            | AsyncOp::Update { .. }
            | AsyncOp::TensorMemory(_)
            | AsyncOp::ArriveAfterCopies { .. }
            | AsyncOp::ArriveAfterProducts
            | AsyncOp::Commit(_)
            | AsyncOp::Wait { .. }
            | AsyncOp::WaitStores
            | AsyncOp::Poll => false,
        }
    }

    /// An operation that completed late has arrived at its mbarrier.
    pub(crate) fn arrived_late(
        &mut self,
        (env, thread): (&Env, &Thread<'p>),
        late: Late,
        barrier: u64,
    ) {
        let Region::Shared(cta, at) = self.region(barrier) else {
            return;
        };
        let who = self.who(env, thread);
        let word = self.mbarrier_word(thread, barrier);
        if let Some(watch) = self.watch.as_mut() {
            watch.arrived_late(&who, late, (cta, at), word >> 63 != 0);
        }
    }

    /// An access that an operation of the device makes for the thread or its copy.
    pub(crate) fn device_access(
        &mut self,
        (env, thread): (&Env, &Thread<'p>),
        (addr, len): (u64, usize),
        (op, keeps): (AccessOp, bool),
    ) {
        let who = self.who(env, thread);
        let (shared_of, at) = match self.region(addr) {
            Region::Shared(cta, at) => (Some(cta), at),
            Region::Device => (None, addr),
            Region::Local(_) | Region::ReadOnly => return,
        };
        let word = self.mbarrier_word(thread, addr);
        let Some(watch) = self.watch.as_mut() else {
            return;
        };
        match (op, shared_of) {
            // The only word of shared memory that copies update is that of the mbarrier.
            (AccessOp::Atomic, Some(cta)) if watch.is_copying(env.cta, thread.linear) => {
                watch.bulk_bytes(&who, (cta, at), word >> 63 != 0);
            }
            _ => watch.access(
                who,
                Accessed {
                    shared_of,
                    addr: at,
                    size: u32::try_from(len).unwrap_or(u32::MAX),
                    op,
                    sem: match op {
                        AccessOp::Atomic => MemSem::Relaxed,
                        _ => MemSem::Weak,
                    },
                    scope: Scope::Gpu,
                    keeps,
                },
            ),
        }
    }

    pub(crate) fn end_device_copy(&mut self, env: &Env, thread: &Thread<'p>) {
        let who = self.who(env, thread);
        if let Some(watch) = self.watch.as_mut() {
            watch.end_copy(&who);
        }
    }
}

/// An operation on an mbarrier is a strong access to its word, but for those that begin and end its
/// use.
fn mbarrier_access((cta, addr): Mbarrier, op: AccessOp) -> Accessed {
    Accessed {
        shared_of: Some(cta),
        addr,
        size: 8,
        op,
        sem: match op {
            AccessOp::Store => MemSem::Weak,
            _ => MemSem::Relaxed,
        },
        scope: Scope::Cluster,
        keeps: false,
    }
}
