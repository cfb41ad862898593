//! Asynchronous operations that complete as late as the program allows, so that a program that
//! forgets to wait for one gives another result. PTX ISA, "Asynchronous operations".
//!
//! An instruction that begins an operation only puts it into the [`Queue`] of its cluster. It is
//! taken out and performed, in the name of the thread that has begun it, by the first of these:
//!
//! ```text
//!   wait for a group (`cp.async.wait_group`, `cp.async.bulk.wait_group`), `tcgen05.wait::st`
//!       the operations of that thread and group; with `.read` only their sources are read
//!   look at an mbarrier (`test_wait`, `try_wait`) whose phase is not complete
//!       those that complete on it, one by one, until the phase is complete; now and then a look is
//!       answered before that, as it would be on a machine that is still busy
//!   end of the CTA
//!       all that its threads have begun
//!   threads that only turn in loops
//!       one, whichever
//! ```
//!
//! Which comes first among operations that nothing orders is drawn from the schedule's seed. What
//! PTX orders stays in order: a thread's products, copies and shifts in tensor memory with their
//! commits, and `cp.async.mbarrier.arrive` behind the copies before it.
//!
//! Loads from tensor memory to registers complete at once, as do products with results in
//! registers (`wgmma`): a register has one value.

mod perform;
mod queue;

use ptxjit_ir::{AsyncOp, TensorOp};

use crate::{Fault, Site, Thread, mbarrier, tensor};

use queue::Op;
pub use queue::Queue;

/// Who has begun an operation.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Issuer {
    /// The operation's number among those of the launch's cluster.
    pub op: u64,
    /// `%cluster_ctarank` of the thread's CTA.
    pub rank: u32,
    /// The thread's place in its CTA.
    pub thread: u32,
    /// The thread, and the instruction.
    pub site: Site,
    /// The `mbarrier` that learns of the operation.
    pub barrier: Option<u64>,
}

/// Executes an instruction for one thread.
pub(crate) fn execute(op: &AsyncOp, thread: &mut dyn Thread, args: &[u64]) -> Result<(), Fault> {
    let own = (thread.cluster_rank(), thread.number());
    match op {
        AsyncOp::Commit(group) => {
            thread.queue().commit(own, *group);
            Ok(())
        }
        AsyncOp::Wait { group, n, reads } => {
            let ops = thread.queue().in_groups(own, *group, *n);
            ops.into_iter().try_for_each(|number| match reads {
                true => read_sources(thread, number),
                false => complete(thread, number),
            })
        }
        AsyncOp::WaitStores => {
            let ops = thread.queue().stores_of(own);
            complete_all(thread, ops)
        }
        AsyncOp::Poll => poll(thread, args[0], args[1]),
        AsyncOp::Tensor(op @ TensorOp::Load { .. }) => tensor::each_box(*op, thread, args)?
            .into_iter()
            .try_for_each(|(op, args)| begin(thread, AsyncOp::Tensor(op), &args)),
        AsyncOp::ArriveAfterCopies { counts } => {
            if !counts {
                mbarrier::expect_one(thread, args[0])?;
            }
            begin(thread, op.clone(), args)
        }
        AsyncOp::Copy(_)
        | AsyncOp::Reduce { .. }
        | AsyncOp::Store { .. }
        | AsyncOp::Update { .. }
        | AsyncOp::Tensor(TensorOp::Store { .. } | TensorOp::Replace(_))
        | AsyncOp::TensorMemory(_)
        | AsyncOp::ArriveAfterProducts => begin(thread, op.clone(), args),
    }
}

/// Does all that an operation does, for an engine that looks at its accesses before it is completed
/// and changes nothing.
pub fn rehearse(
    issuer: &Issuer,
    op: &AsyncOp,
    thread: &mut dyn Thread,
    args: &[u64],
) -> Result<(), Fault> {
    perform::complete(&Op::new(*issuer, op.clone(), args), thread)
}

/// A CTA has ended: completes what its threads have begun. `thread` is any of them.
pub fn finish(thread: &mut dyn Thread) -> Result<(), Fault> {
    let rank = thread.cluster_rank();
    let ops = thread.queue().of_cta(rank);
    complete_all(thread, ops)
}

/// The threads of a cluster only turn in loops: completes an operation, if there is one.
pub fn complete_any(thread: &mut dyn Thread) -> Result<bool, Fault> {
    match thread.queue().any() {
        Some(number) => complete(thread, number).map(|()| true),
        None => Ok(false),
    }
}

fn begin(thread: &mut dyn Thread, op: AsyncOp, args: &[u64]) -> Result<(), Fault> {
    perform::check_places(&op, args)?;
    let issuer = Issuer {
        op: thread.queue().next_number(),
        rank: thread.cluster_rank(),
        thread: thread.number(),
        site: Site {
            ctaid: thread.ctaid(),
            tid: thread.tid(),
            loc: thread.loc(),
        },
        barrier: perform::barrier_of(&op, args),
    };
    thread.begun(&issuer, &op, args)?;
    thread.queue().push(Op::new(issuer, op, args));
    Ok(())
}

fn complete_all(thread: &mut dyn Thread, ops: Vec<u64>) -> Result<(), Fault> {
    ops.into_iter()
        .try_for_each(|number| complete(thread, number))
}

/// Completes an operation and those that come before it, unless that has happened.
fn complete(thread: &mut dyn Thread, number: u64) -> Result<(), Fault> {
    for number in thread.queue().up_to(number) {
        let Some(op) = thread.queue().take(number) else {
            continue;
        };
        let issuer = op.issuer;
        thread
            .act_as(&issuer, &mut |thread| perform::complete(&op, thread))
            .map_err(|fault| fault.of(issuer.site))?;
    }
    Ok(())
}

/// Reads the source of an operation, which will be written later.
fn read_sources(thread: &mut dyn Thread, number: u64) -> Result<(), Fault> {
    let Some(mut op) = thread.queue().take(number) else {
        return Ok(());
    };
    let issuer = op.issuer;
    thread
        .act_as(&issuer, &mut |thread| perform::read_source(&mut op, thread))
        .map_err(|fault| fault.of(issuer.site))?;
    thread.queue().push(op);
    Ok(())
}

/// A thread is about to ask for a phase of an `mbarrier`.
fn poll(thread: &mut dyn Thread, barrier: u64, asked: u64) -> Result<(), Fault> {
    // What is wrong with the address shows when the word is read.
    while mbarrier::is_complete(thread, barrier, asked) == Some(false) {
        let Some(number) = thread.queue().next_on(barrier) else {
            break;
        };
        complete(thread, number)?;
    }
    Ok(())
}
