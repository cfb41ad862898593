//! How an asynchronous operation is carried out.

use ptxjit_ir::{AsyncGroup, AsyncOp, AtomicFmt, AtomicOp, Completion, TensorOp, eval};

use super::queue::Op;
use crate::tensor::Outgoing;
use crate::{Fault, Thread, mbarrier, tcgen05, tensor};

/// What an operation has read and is going to write.
pub(super) enum Source {
    Bytes(Vec<u8>),
    Tensor(Box<Outgoing>),
}

/// The `mbarrier` that an operation completes on.
pub(super) fn barrier_of(op: &AsyncOp, args: &[u64]) -> Option<u64> {
    match (op, op.completion()) {
        // Its coordinates stand behind.
        (AsyncOp::Tensor(_), Some(Completion::Barrier)) => args.get(2).copied(),
        (_, Some(Completion::Barrier)) => args.last().copied(),
        (_, Some(Completion::Group(_) | Completion::End) | None) => None,
    }
}

/// Refuses places of single threads' copies and stores that are no multiples of their size. Those
/// of copies in bulk have been looked at before.
pub(super) fn check_places(op: &AsyncOp, args: &[u64]) -> Result<(), Fault> {
    let (places, size) = match (op, args) {
        (AsyncOp::Store { bytes, .. }, [to, ..]) => (std::slice::from_ref(to), u32::from(*bytes)),
        (AsyncOp::Copy(Completion::Group(AsyncGroup::Copies)), [_, _, bytes, ..]) => {
            (&args[..2], *bytes as u32)
        }
        (
            AsyncOp::Copy(_)
            | AsyncOp::Store { .. }
            | AsyncOp::Reduce { .. }
            | AsyncOp::Update { .. }
            | AsyncOp::Tensor(_)
            | AsyncOp::TensorMemory(_)
            | AsyncOp::ArriveAfterProducts
            | AsyncOp::ArriveAfterCopies { .. }
            | AsyncOp::Commit(_)
            | AsyncOp::Wait { .. }
            | AsyncOp::WaitStores
            | AsyncOp::Poll,
            _,
        ) => return Ok(()),
    };
    match places.iter().find(|addr| !addr.is_multiple_of(size.into())) {
        Some(&addr) => Err(Fault::Misaligned { addr, size }),
        None => Ok(()),
    }
}

/// Reads what an operation is going to write, if that has not happened.
pub(super) fn read_source(op: &mut Op, thread: &mut dyn Thread) -> Result<(), Fault> {
    if op.source.is_none() {
        op.source = source(&op.op, thread, &op.args)?;
    }
    Ok(())
}

/// What an operation reads from memory at the addresses of its operands, apart from what it
/// changes.
fn source(op: &AsyncOp, thread: &mut dyn Thread, args: &[u64]) -> Result<Option<Source>, Fault> {
    match (op, args) {
        (AsyncOp::Copy(_), &[_, from, bytes, read, ..]) => {
            let mut source = vec![0; bytes as usize];
            thread.read(from, &mut source[..read.min(bytes) as usize])?;
            Ok(Some(Source::Bytes(source)))
        }
        (AsyncOp::Reduce { .. }, &[_, from, bytes, ..]) => {
            let mut source = vec![0; bytes as usize];
            thread.read(from, &mut source)?;
            Ok(Some(Source::Bytes(source)))
        }
        (AsyncOp::Tensor(op @ TensorOp::Store { .. }), args) => {
            let outgoing = tensor::outgoing(*op, thread, args)?;
            Ok(Some(Source::Tensor(Box::new(outgoing))))
        }
        // These carry their values as operands, or read what they change.
        (
            AsyncOp::Copy(_)
            | AsyncOp::Store { .. }
            | AsyncOp::Reduce { .. }
            | AsyncOp::Update { .. }
            | AsyncOp::Tensor(_)
            | AsyncOp::TensorMemory(_)
            | AsyncOp::ArriveAfterProducts
            | AsyncOp::ArriveAfterCopies { .. }
            | AsyncOp::Commit(_)
            | AsyncOp::Wait { .. }
            | AsyncOp::WaitStores
            | AsyncOp::Poll,
            _,
        ) => Ok(None),
    }
}

/// Carries out an operation, and tells its `mbarrier`.
pub(super) fn complete(op: &Op, thread: &mut dyn Thread) -> Result<(), Fault> {
    let args = &op.args[..];
    let fresh;
    let source = match &op.source {
        Some(source) => Some(source),
        None => {
            fresh = source(&op.op, thread, args)?;
            fresh.as_ref()
        }
    };
    let bytes = write(&op.op, thread, args, source)?;
    match op.issuer.barrier {
        Some(barrier) if bytes != 0 => mbarrier::complete(thread, barrier, bytes),
        Some(_) | None => Ok(()),
    }
}

/// Writes what an operation writes; the result is how many bytes its `mbarrier` learns of.
fn write(
    op: &AsyncOp,
    thread: &mut dyn Thread,
    args: &[u64],
    source: Option<&Source>,
) -> Result<u64, Fault> {
    match (op, source, args) {
        (AsyncOp::Copy(_), Some(Source::Bytes(bytes)), &[to, _, _, _, mask, ..]) => {
            write_masked(thread, to, bytes, mask as u16)?;
            Ok(bytes.len() as u64)
        }
        (AsyncOp::Reduce { op, fmt, .. }, Some(Source::Bytes(bytes)), &[to, ..]) => {
            let size = fmt.ty().bytes() as usize;
            for (to, element) in (to..).step_by(size).zip(bytes.chunks_exact(size)) {
                let mut word = [0; 8];
                word[..size].copy_from_slice(element);
                update(thread, (*op, *fmt), to, u64::from_le_bytes(word))?;
            }
            Ok(bytes.len() as u64)
        }
        (AsyncOp::Store { bytes, .. }, _, &[to, low, high, ..]) => {
            let words = (u128::from(low) | u128::from(high) << 64).to_le_bytes();
            thread.write(to, &words[..usize::from(*bytes)])?;
            Ok((*bytes).into())
        }
        (AsyncOp::Update { op, fmt, .. }, _, &[to, operand, ..]) => {
            update(thread, (*op, *fmt), to, operand)?;
            Ok(fmt.ty().bytes().into())
        }
        (AsyncOp::Tensor(_), Some(Source::Tensor(outgoing)), _) => {
            outgoing.write(thread)?;
            Ok(0)
        }
        // These tell the barrier themselves, if there is one.
        (AsyncOp::Tensor(op), ..) => tensor::execute(*op, thread, args).map(|()| 0),
        (AsyncOp::TensorMemory(op), ..) => tcgen05::execute(op, thread, args, &mut []).map(|()| 0),
        (AsyncOp::ArriveAfterCopies { .. } | AsyncOp::ArriveAfterProducts, _, &[barrier]) => {
            mbarrier::arrive(thread, barrier).map(|()| 0)
        }
        (other, ..) => unreachable!("`{other}` does not wait to be carried out so"),
    }
}

/// Writes those bytes of each sixteen whose bits are set.
fn write_masked(thread: &mut dyn Thread, to: u64, bytes: &[u8], mask: u16) -> Result<(), Fault> {
    if mask == u16::MAX {
        return thread.write(to, bytes);
    }
    let is_set = |at: usize| mask >> (at % 16) & 1 != 0;
    let mut at = 0;
    while at < bytes.len() {
        let run = (at..bytes.len())
            .take_while(|&next| is_set(next) == is_set(at))
            .count();
        if is_set(at) {
            thread.write(to + at as u64, &bytes[at..at + run])?;
        }
        at += run;
    }
    Ok(())
}

fn update(
    thread: &mut dyn Thread,
    (op, fmt): (AtomicOp, AtomicFmt),
    to: u64,
    operand: u64,
) -> Result<(), Fault> {
    // On shared memory subnormal numbers are kept.
    let flush = thread.rank_of(to).is_none();
    let mut change = |old| eval::atomic(op, fmt, old, &[operand], flush);
    thread.update(to, fmt.ty().bytes(), &mut change).map(drop)
}
