//! A CTA barrier: who has arrived, and when all go on.
//!
//! Arrivals count by warps, 32 threads each, once every thread of a warp that has not ended has
//! arrived (PTX ISA, "Parallel Synchronization and Communication Instructions: bar, barrier").
//! Threads may arrive at different instructions. A thread that ends no longer has to arrive.

use ptxjit_ir::BarrierOp;

/// Threads of a warp.
pub const WARP: u64 = 32;

/// One barrier of a CTA. Starts empty, and is empty again after each completion.
#[derive(Clone, Default, Debug)]
pub struct Barrier {
    /// Lanes of each warp that have arrived while their warp is not complete.
    pending: Vec<u32>,
    /// How often each warp has been counted.
    counted: Vec<u32>,
    /// Threads to wait for; 0 for all of the CTA. From the latest arrival.
    count: u64,
    waiters: Vec<(u32, BarrierOp)>,
    n_true: u64,
    n_preds: u64,
}

/// An arrival at a barrier.
#[derive(Copy, Clone, Debug)]
pub struct Arrival {
    /// Linear number of the thread.
    pub thread: u32,
    /// What it executes.
    pub op: BarrierOp,
    /// Threads that take part, 0 for all of the CTA.
    pub count: u64,
    /// Predicate, for the reductions.
    pub pred: bool,
}

impl Barrier {
    /// What is wrong with an arrival with this count, in a CTA of so many threads: counts are of
    /// whole warps, and all who meet name the same. No count means all of the CTA.
    pub fn conflict(&self, count: u64, n_threads: u32) -> Option<String> {
        if !count.is_multiple_of(WARP) {
            return Some(format!(
                "a count of {count} threads is no multiple of {WARP}"
            ));
        }
        let is_idle =
            self.waiters.is_empty() && self.pending.iter().chain(&self.counted).all(|&it| it == 0);
        let all = u64::from(n_threads).next_multiple_of(WARP);
        let named = |count| if count == 0 { all } else { count };
        let (mine, theirs) = (named(count), named(self.count));
        (!is_idle && mine != theirs).then(|| {
            format!("a count of {mine} threads, where others that are there have named {theirs}")
        })
    }

    /// Registers an arrival. False if the thread has arrived already and its warp is not complete:
    /// it must try again later.
    pub fn arrive(&mut self, arrival: Arrival) -> bool {
        let (warp, lane) = ((arrival.thread / 32) as usize, arrival.thread % 32);
        if self.pending.len() <= warp {
            self.pending.resize(warp + 1, 0);
            self.counted.resize(warp + 1, 0);
        }
        if self.pending[warp] >> lane & 1 != 0 {
            return false;
        }
        self.pending[warp] |= 1 << lane;
        self.count = arrival.count;
        match arrival.op {
            BarrierOp::Arrive | BarrierOp::ClusterArrive | BarrierOp::ClusterWait => {}
            BarrierOp::Sync | BarrierOp::Warpgroup => {
                self.waiters.push((arrival.thread, arrival.op))
            }
            BarrierOp::RedPopc | BarrierOp::RedAnd | BarrierOp::RedOr => {
                self.waiters.push((arrival.thread, arrival.op));
                self.n_preds += 1;
                self.n_true += u64::from(arrival.pred);
            }
        }
        true
    }

    /// Counts warps that are complete. `live` has a mask of the threads that have not ended for
    /// each warp. If the barrier is complete it becomes empty, and the threads that waited are
    /// returned with their results.
    pub fn update(&mut self, live: &[u32]) -> Option<Vec<(u32, u64)>> {
        for (warp, pending) in self.pending.iter_mut().enumerate() {
            let live = live.get(warp).copied().unwrap_or(0);
            if *pending != 0 && live & !*pending == 0 {
                *pending = 0;
                self.counted[warp] += 1;
            }
        }
        if !self.is_complete(live) {
            return None;
        }
        let mut done = std::mem::take(self);
        // Lanes whose warp is not complete yet belong to the next use.
        self.pending = std::mem::take(&mut done.pending);
        self.counted = vec![0; self.pending.len()];
        self.count = done.count;
        let is_pending = |&(thread, _): &(u32, BarrierOp)| {
            self.pending[(thread / 32) as usize] >> (thread % 32) & 1 != 0
        };
        let (next, woken): (Vec<_>, Vec<_>) =
            done.waiters.iter().partition(|&waiter| is_pending(waiter));
        self.waiters = next;
        Some(
            woken
                .iter()
                .map(|&(thread, op)| (thread, done.result(op)))
                .collect(),
        )
    }

    /// Whether a thread's warp has arrived as a whole in this phase.
    pub fn is_counted(&self, thread: u32) -> bool {
        let counted = self.counted.get((thread / 32) as usize);
        counted.is_some_and(|&n| n != 0)
    }

    /// Whether a thread has arrived and its warp is not complete.
    pub fn is_pending(&self, thread: u32) -> bool {
        let pending = self.pending.get((thread / 32) as usize);
        pending.is_some_and(|pending| pending >> (thread % 32) & 1 != 0)
    }

    /// Threads that have arrived, as warps count.
    pub fn arrived(&self) -> u64 {
        self.counted.iter().map(|&n| u64::from(n) * WARP).sum()
    }

    /// Threads that must arrive.
    pub fn expected(&self, live: &[u32]) -> u64 {
        if self.count != 0 {
            return self.count;
        }
        let takes_part = |(warp, &live): (usize, &u32)| {
            live != 0 || self.counted.get(warp).is_some_and(|&n| n != 0)
        };
        live.iter()
            .enumerate()
            .filter(|&entry| takes_part(entry))
            .count() as u64
            * WARP
    }

    fn is_complete(&self, live: &[u32]) -> bool {
        if self.count != 0 {
            return self.arrived() >= self.count;
        }
        let counted = |warp: usize| self.counted.get(warp).is_some_and(|&n| n != 0);
        self.counted.iter().any(|&n| n != 0)
            && live
                .iter()
                .enumerate()
                .all(|(warp, &live)| live == 0 || counted(warp))
    }

    fn result(&self, op: BarrierOp) -> u64 {
        match op {
            BarrierOp::Sync
            | BarrierOp::Arrive
            | BarrierOp::ClusterArrive
            | BarrierOp::ClusterWait
            | BarrierOp::Warpgroup => 0,
            BarrierOp::RedPopc => self.n_true,
            BarrierOp::RedAnd => u64::from(self.n_true == self.n_preds),
            BarrierOp::RedOr => u64::from(self.n_true != 0),
        }
    }
}
