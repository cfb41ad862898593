//! The word of an `mbarrier`, as operations that complete on one change it. The frontend says what
//! its fields are, and has the same for instructions.

use crate::{Fault, Thread};

/// Where the field of bytes begins.
const BYTES: u32 = 20;
/// Where the field of arrivals of a phase begins.
const ARRIVALS: u32 = 42;
/// Bytes of the word.
const SIZE: u32 = 8;

/// Whether the phase that a word's first bit names is complete.
pub(crate) fn is_complete(thread: &mut dyn Thread, barrier: u64, asked: u64) -> Option<bool> {
    let mut word = [0; SIZE as usize];
    thread.read(barrier, &mut word).ok()?;
    Some((u64::from_le_bytes(word) ^ asked) >> 63 != 0)
}

/// So many bytes have come.
pub(crate) fn complete(thread: &mut dyn Thread, barrier: u64, bytes: u64) -> Result<(), Fault> {
    change(thread, barrier, (bytes << BYTES).wrapping_neg()).map(drop)
}

/// One more arrival is to come in this phase.
pub(crate) fn expect_one(thread: &mut dyn Thread, barrier: u64) -> Result<(), Fault> {
    change(thread, barrier, 1).map(drop)
}

/// An arrival.
pub(crate) fn arrive(thread: &mut dyn Thread, barrier: u64) -> Result<(), Fault> {
    let old = change(thread, barrier, u64::MAX)?;
    match arrivals(old) {
        0 => Err(uninitialized(barrier)),
        _ => Ok(()),
    }
}

pub(crate) fn uninitialized(barrier: u64) -> Fault {
    Fault::refused(format!(
        "the `mbarrier` at {barrier:#x} was never initialized"
    ))
}

/// Arrivals that a phase takes. Bytes that came before they were expected have borrowed one.
fn arrivals(word: u64) -> u64 {
    word.wrapping_add(1 << (ARRIVALS - 1)) << 1 >> (ARRIVALS + 1)
}

/// Adds `delta` and begins the next phase if nothing is left to come; the result is what the word
/// was before.
fn change(thread: &mut dyn Thread, barrier: u64, delta: u64) -> Result<u64, Fault> {
    const COUNTS: u64 = (1 << ARRIVALS) - 1;
    thread.update(barrier, SIZE, &mut |old| {
        let new = old.wrapping_add(delta);
        match new & COUNTS {
            0 => new.wrapping_add(arrivals(new)).wrapping_add(1 << 63),
            _ => new,
        }
    })
}
