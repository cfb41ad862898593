//! Which bytes of allocations were never written, for those who look for uses of such.
//!
//! Nothing is kept until [`Contents::track`] is called; what was allocated before counts as
//! written. The host's copies and fills count as writes; kernels tell of theirs, or are taken to
//! have written everything.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Of a byte that was never written.
const UNDEFINED: u8 = 0xff;

#[derive(Default, Debug)]
struct State {
    is_tracked: bool,
    /// Allocations that are not written as a whole: a state for each byte.
    blocks: BTreeMap<u64, Vec<u8>>,
}

/// See the module.
#[derive(Default, Debug)]
pub(crate) struct Contents(Mutex<State>);

impl Contents {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements that could panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn track(&self) {
        self.lock().is_tracked = true;
    }

    pub(crate) fn allocated(&self, addr: u64, size: u64) {
        let mut state = self.lock();
        if state.is_tracked && size < 1 << 32 {
            state.blocks.insert(addr, vec![UNDEFINED; size as usize]);
        }
    }

    pub(crate) fn freed(&self, addr: u64) {
        self.lock().blocks.remove(&addr);
    }

    pub(crate) fn written(&self, addr: u64, len: u64) {
        let mut state = self.lock();
        if state.blocks.is_empty() {
            return;
        }
        if let Some((start, block)) = state.blocks.range_mut(..=addr).next_back() {
            let size = block.len() as u64;
            let (first, end) = (addr - start, (addr - start).saturating_add(len).min(size));
            if first == 0 && end == size {
                let start = *start;
                state.blocks.remove(&start);
            } else if first < end {
                block[first as usize..end as usize].fill(0);
            }
        }
    }

    /// A kernel has run that did not tell what it wrote.
    pub(crate) fn all_written(&self) {
        self.lock().blocks.clear();
    }

    /// Allocations that are not written as a whole, with the states of their bytes.
    pub(crate) fn unwritten(&self) -> Vec<(u64, Vec<u8>)> {
        let state = self.lock();
        state
            .blocks
            .iter()
            .map(|(&start, states)| (start, states.clone()))
            .collect()
    }

    /// The same by start and size alone.
    pub(crate) fn unwritten_blocks(&self) -> Vec<(u64, u64)> {
        let state = self.lock();
        let blocks = state.blocks.iter();
        blocks
            .map(|(&start, states)| (start, states.len() as u64))
            .collect()
    }

    pub(crate) fn states(&self, addr: u64, states: &mut [u8]) {
        states.fill(0);
        let state = self.lock();
        if let Some((start, block)) = state.blocks.range(..=addr).next_back() {
            let from = block.get((addr - start) as usize..).unwrap_or(&[]);
            for (state, &from) in states.iter_mut().zip(from) {
                *state = from;
            }
        }
    }

    pub(crate) fn set_states(&self, addr: u64, states: &[u8]) {
        let mut state = self.lock();
        if let Some((start, block)) = state.blocks.range_mut(..=addr).next_back() {
            let to = block.get_mut((addr - start) as usize..).unwrap_or(&mut []);
            for (to, &state) in to.iter_mut().zip(states) {
                *to = state;
            }
        }
    }
}
