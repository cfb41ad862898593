//! Counters of coverage: each worker has a table of its own, which is added to the common one when
//! it leaves.

use std::sync::{Mutex, PoisonError};

use ptxjit_abi::COUNTER_WORDS;

use crate::buf::RawBuf;

/// How often launches have run what they count, by the counters of their program. Launches add to
/// it.
#[derive(Debug)]
pub struct Counters(Mutex<Vec<[u64; COUNTER_WORDS]>>);

impl Counters {
    /// So many counters.
    pub fn new(n: u32) -> Counters {
        Counters(Mutex::new(vec![[0; COUNTER_WORDS]; n as usize]))
    }

    /// Takes what was counted so far; counting goes on from zero.
    pub fn take(&self) -> Vec<[u64; COUNTER_WORDS]> {
        // Additions cannot panic half-way.
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let n = sums.len();
        std::mem::replace(&mut sums, vec![[0; COUNTER_WORDS]; n])
    }
}

/// A worker's table.
pub(crate) struct Table<'a> {
    words: RawBuf<u64>,
    counters: &'a Counters,
}

impl Table<'_> {
    pub(crate) fn new(counters: &Counters) -> Table<'_> {
        let sums = counters.0.lock().unwrap_or_else(PoisonError::into_inner);
        let n_words = sums.len() * COUNTER_WORDS;
        Table {
            words: RawBuf::new(n_words),
            counters,
        }
    }

    /// For compiled code.
    pub(crate) fn ptr(&self) -> *mut u64 {
        self.words.ptr()
    }
}

impl Drop for Table<'_> {
    fn drop(&mut self) {
        let mut sums = self
            .counters
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let counted = self.words.slice().chunks_exact(COUNTER_WORDS);
        for (sum, counted) in sums.iter_mut().zip(counted) {
            for (sum, n) in sum.iter_mut().zip(counted) {
                *sum = sum.saturating_add(*n);
            }
        }
    }
}
