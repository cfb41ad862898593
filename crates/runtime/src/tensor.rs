//! What operations of the device keep for a CTA, and find through its context: its tensor memory,
//! and for the first CTA of a cluster what the cluster's threads have begun and not completed.
//!
//! Most kernels have no tensor memory: it is made when it is first used, and stays with the context
//! for later CTAs.

#![expect(
    unsafe_code,
    reason = "operations reach the memory through the context that compiled code hands on"
)]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicPtr, Ordering};

use ptxjit_abi::CtaContext;
use ptxjit_device::Site;
use ptxjit_device::asynchronous::Queue;
use ptxjit_device::tcgen05::{Leak, TensorMemory};
use ptxjit_ir::MAX_CLUSTER;

use crate::error::{LaunchError, Threads, Trap, TrapCause};
use crate::grid::Grid;
use crate::launch::Schedule;
use crate::view::cluster_of;

impl Grid {
    /// A CTA has ended with tensor memory allocated.
    pub(crate) fn leaked(&self, leak: &Leak) -> LaunchError {
        let note = leak.to_string();
        self.trap_at(TrapCause::BadCall { note }, leak.site())
    }

    /// What a thread did has stopped the launch.
    pub(crate) fn trap_at(&self, cause: TrapCause, site: Site) -> LaunchError {
        LaunchError::Trap(Box::new(Trap {
            cause,
            kernel: self.name.to_string(),
            ctaid: site.ctaid,
            last_ctaid: site.ctaid,
            threads: Threads {
                first: site.tid,
                last: site.tid,
                count: 1,
            },
            loc: Some(site.loc),
        }))
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct TensorSlot(Box<UnsafeCell<Slot>>);

#[derive(Debug)]
struct Slot {
    memory: Option<Box<TensorMemory>>,
    /// The CTA that used it last. Compiled code goes from a CTA to the next by itself.
    ctaid: [u32; 3],
    queue: Queue,
    /// Of the CTA.
    ctx: *const CtaContext,
}

impl TensorSlot {
    /// Without memory.
    pub(crate) fn new() -> TensorSlot {
        TensorSlot(Box::new(UnsafeCell::new(Slot {
            memory: None,
            ctaid: [0; 3],
            queue: Queue::default(),
            ctx: std::ptr::null(),
        })))
    }

    /// Makes ready for a CTA, whose context does not move, and lets operations find it.
    pub(crate) fn start(&mut self, ctx: &mut CtaContext, schedule: Schedule) {
        let slot = self.0.get_mut();
        slot.ctaid = ctx.ctaid;
        slot.ctx = &raw const *ctx;
        if let Schedule::Seed(seed) = schedule {
            // Each cluster draws its own choices.
            let [x, y, z] = ctx.ctaid.map(u64::from);
            slot.queue = Queue::new(seed ^ (x << 42 | y << 21 | z).rotate_left(17));
        }
        if let Some(memory) = &mut slot.memory {
            memory.reset();
        }
        ctx.tensor_memory = self.0.get().cast();
    }

    /// What the last CTA that used the memory has not given back.
    pub(crate) fn leak(&mut self) -> Option<Leak> {
        self.0.get_mut().leak()
    }
}

impl Slot {
    fn leak(&self) -> Option<Leak> {
        self.memory.as_ref()?.leak()
    }
}

/// Where the CTAs of a cluster, by rank, have their tensor memory.
#[derive(Debug, Default)]
pub(crate) struct ClusterTensors([AtomicPtr<Slot>; MAX_CLUSTER as usize]);

impl ClusterTensors {
    /// Lets the other CTAs find the memory of the one with this rank. Relaxed, since one thread at
    /// a time runs the cluster.
    pub(crate) fn set(&self, rank: u32, of: &TensorSlot) {
        self.0[rank as usize].store(of.0.get(), Ordering::Relaxed);
    }

    /// The memory of the CTA with this rank.
    ///
    /// # Safety
    ///
    /// That CTA has been started, and nothing else asks for its memory while the result is used.
    pub(crate) unsafe fn memory_of<'a>(&self, rank: u32) -> &'a mut Option<Box<TensorMemory>> {
        let slot = self.0[rank as usize].load(Ordering::Relaxed);
        // SAFETY: `Cta::prepare` has set it for each CTA of the cluster, which keeps its slot as
        // long as it is run; the caller sees to it that this is the only reference.
        unsafe { &mut (*slot).memory }
    }
}

impl ClusterTensors {
    fn slot(&self, rank: u32) -> *mut Slot {
        self.0[rank as usize].load(Ordering::Relaxed)
    }
}

/// What the threads of the cluster of a CTA have begun and not completed.
///
/// # Safety
///
/// The context is that of a started CTA. While the result is used, nothing else asks for it.
pub(crate) unsafe fn queue_of<'a>(ctx: &CtaContext) -> &'a mut Queue {
    let slot = match cluster_of(ctx) {
        Some(cluster) => cluster.tensors.slot(0),
        None => ctx.tensor_memory.cast::<Slot>(),
    };
    // SAFETY: set by `TensorSlot::start` or `ClusterTensors::set`, and kept as long as the cluster
    // is run; the caller sees to it that this is the only reference.
    unsafe { &mut (*slot).queue }
}

/// The context of the CTA of a rank in the cluster of another.
pub(crate) fn context_of(ctx: &CtaContext, rank: u32) -> &CtaContext {
    match cluster_of(ctx) {
        // SAFETY: the CTAs of a cluster are started together, and each keeps its slot and its
        // context as long as the cluster is run; compiled code does not write to the contexts while
        // it waits for a callback.
        Some(cluster) => unsafe { &*(*cluster.tensors.slot(rank)).ctx },
        None => ctx,
    }
}

/// The memory of the CTA that runs in a context; if the one before it has left something allocated
/// there, that.
///
/// # Safety
///
/// The context is that of a started CTA. While the result is used, nothing else asks for it.
pub(crate) unsafe fn memory_of<'a>(
    ctx: &CtaContext,
) -> Result<&'a mut Option<Box<TensorMemory>>, Leak> {
    // SAFETY: set by `TensorSlot::start`, and the CTA owns the slot; the caller sees to it that
    // this is the only reference.
    let slot = unsafe { &mut *ctx.tensor_memory.cast::<Slot>() };
    if slot.ctaid != ctx.ctaid {
        if let Some(leak) = slot.leak() {
            return Err(leak);
        }
        slot.ctaid = ctx.ctaid;
        if let Some(memory) = &mut slot.memory {
            memory.reset();
        }
    }
    Ok(&mut slot.memory)
}
