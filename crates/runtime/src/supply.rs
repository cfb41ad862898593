//! Which CTAs a worker starts, and in which order.

use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::grid::Grid;
use crate::sched::Rng;

/// A worker takes so many at a time of the CTAs that are left that each worker could take as many
/// again so often: memory is walked through in long stretches, and in the end the workers are done
/// together.
const CHUNKS_LEFT: u64 = 4;
const MOST_IN_CHUNK: u64 = 2048;

/// CTAs of a random schedule are shuffled within windows of this many.
const SHUFFLE_WINDOW: u64 = 16;

/// The CTAs that a worker has taken and not started.
pub(crate) struct Supply<'a> {
    grid: &'a Grid,
    chunk: Range<u64>,
    shuffled: Vec<u64>,
    total: u64,
}

impl Grid {
    /// Takes a CTA, or a cluster, that no worker has taken yet, so that none starts it: `%ctaid` of
    /// its first CTA.
    pub(crate) fn take_unit(&self) -> Option<[u32; 3]> {
        let total = self.n_units();
        let is_left = |idx: u64| (idx < total).then_some(idx + 1);
        let taken = (self.next).fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_left);
        let extents = match self.in_clusters {
            true => self.cluster.unwrap_or([1; 3]),
            false => [1; 3],
        };
        let units = std::array::from_fn(|axis| self.grid[axis] / extents[axis]);
        let unit = ctaid_of(taken.ok()?, units);
        Some(std::array::from_fn(|axis| unit[axis] * extents[axis]))
    }
}

impl Supply<'_> {
    pub(crate) fn new(grid: &Grid) -> Supply<'_> {
        let total = grid.n_units();
        Supply {
            grid,
            chunk: 0..0,
            shuffled: Vec::new(),
            total,
        }
    }

    /// The next CTA to start.
    pub(crate) fn next(&mut self, rng: &mut Option<Rng>) -> Option<u64> {
        if let Some(idx) = self.shuffled.pop() {
            return Some(idx);
        }
        if let Some(rng) = rng {
            let start = self.grid.next.fetch_add(SHUFFLE_WINDOW, Ordering::Relaxed);
            self.shuffled = (start..(start + SHUFFLE_WINDOW).min(self.total)).collect();
            for last in (1..self.shuffled.len()).rev() {
                self.shuffled
                    .swap(last, rng.below(last as u32 + 1) as usize);
            }
            return self.shuffled.pop();
        }
        if self.chunk.is_empty() {
            let taken = self.grid.next.load(Ordering::Relaxed);
            let left = self.total.checked_sub(taken).filter(|&left| left > 0)?;
            let share = left / (u64::from(self.grid.n_workers) * CHUNKS_LEFT);
            let size = share.clamp(1, MOST_IN_CHUNK);
            let start = self.grid.next.fetch_add(size, Ordering::Relaxed);
            self.chunk = start.min(self.total)..(start + size).min(self.total);
        }
        self.chunk.next()
    }

    /// How many CTAs after `idx` this worker has, up to the end of the row in the first dimension.
    pub(crate) fn n_following(&self, idx: u64) -> u32 {
        let x = u64::from(self.grid.grid[0]);
        (self.chunk.end - self.chunk.start).min(x - 1 - idx % x) as u32
    }

    /// Takes so many CTAs off the list: they have been started.
    pub(crate) fn skip(&mut self, n: u32) {
        self.chunk.start += u64::from(n);
    }

    /// Takes back a CTA that could not be started.
    pub(crate) fn put_back(&mut self, idx: u64) {
        self.shuffled.push(idx);
    }
}

/// `%ctaid` of the CTA with this linear index.
pub(crate) fn ctaid_of(idx: u64, grid: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = grid.map(u64::from);
    [(idx % x) as u32, (idx / x % y) as u32, (idx / x / y) as u32]
}
