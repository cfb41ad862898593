//! The tensor memory of a CTA, which operations of the device find through its context.
//!
//! Most kernels have none: it is made when it is first used, and stays with the context for later CTAs.

#![expect(
    unsafe_code,
    reason = "operations reach the memory through the context that compiled code hands on"
)]

use std::cell::UnsafeCell;

use ptxjit_abi::CtaContext;
use ptxjit_device::tcgen05::{Allocation, TensorMemory};

use crate::error::{LaunchError, Threads, Trap, TrapCause};
use crate::grid::Grid;

impl Grid {
    /// A CTA has ended with tensor memory allocated.
    pub(crate) fn leaked(&self, ctaid: [u32; 3], allocation: &Allocation) -> LaunchError {
        let tid = allocation.site.tid;
        LaunchError::Trap(Box::new(Trap {
            cause: TrapCause::BadCall {
                note: allocation.leaked(),
            },
            kernel: self.name.to_string(),
            ctaid,
            threads: Threads {
                first: tid,
                last: tid,
                count: 1,
            },
            loc: Some(allocation.site.loc),
        }))
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct TensorSlot(Box<UnsafeCell<Slot>>);

#[derive(Debug, Default)]
struct Slot {
    memory: Option<Box<TensorMemory>>,
    /// The CTA that used it last. Compiled code goes from a CTA to the next by itself.
    ctaid: [u32; 3],
}

impl TensorSlot {
    /// Without memory.
    pub(crate) fn new() -> TensorSlot {
        TensorSlot(Box::default())
    }

    /// Makes ready for a CTA, and lets operations find it.
    pub(crate) fn start(&mut self, ctx: &mut CtaContext) {
        let slot = self.0.get_mut();
        slot.ctaid = ctx.ctaid;
        if let Some(memory) = &mut slot.memory {
            memory.reset();
        }
        ctx.tensor_memory = self.0.get().cast();
    }

    /// What the last CTA that used the memory has not given back, and which CTA that is.
    pub(crate) fn leak(&mut self) -> Option<([u32; 3], Allocation)> {
        self.0.get_mut().leak()
    }
}

impl Slot {
    fn leak(&self) -> Option<([u32; 3], Allocation)> {
        let live = self.memory.as_ref()?.live();
        live.first().map(|&first| (self.ctaid, first))
    }
}

/// The memory of the CTA that runs in a context; if the one before it has left something allocated there, that.
///
/// # Safety
///
/// The context is that of a started CTA. While the result is used, nothing else asks for it.
pub(crate) unsafe fn memory_of<'a>(
    ctx: &CtaContext,
) -> Result<&'a mut Option<Box<TensorMemory>>, ([u32; 3], Allocation)> {
    // SAFETY: set by `TensorSlot::start`, and the CTA owns the slot; the caller sees to it that this is the only reference.
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
