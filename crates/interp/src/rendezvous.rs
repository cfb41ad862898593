//! Ends waits: barriers, warp operations; finds deadlocks.
//!
//! Lanes meet at a `.sync` warp operation if the operation, its qualifiers and the member mask agree, wherever they execute it;
//! members that have ended are not waited for. A form without a member mask means the lanes that are converged; as lanes run on
//! their own here, those are taken to be the lanes that come to the same instruction before the others of the warp have run out
//! of things to do (or have spun for a long while).

use std::collections::BTreeMap;

use ptxjit_ir::BarrierOp;

use crate::barrier::Arrival;
use crate::fault::{Fault, FaultKind, WaitGroup};
use crate::schedule::{AtCluster, Cta};
use crate::thread::{State, Thread, Wait, WaitKind, WarpWait};
use crate::warp::{self, LANES, Operands};

/// Turns that lanes at an operation without a member mask wait for others that run on.
const PATIENCE: u32 = 64;

impl<'p> Cta<'p> {
    /// Ends all waits that have been met. It is a deadlock if then no thread can run.
    pub(crate) fn resolve(&mut self) -> Result<bool, Fault> {
        let mut woke = self.resolve_barriers()? | self.resolve_cluster()?;
        for first in (0..self.threads.len()).step_by(LANES) {
            woke |= self.resolve_warp(first)?;
        }
        if woke || self.is_done() || self.threads.iter().any(Thread::is_ready) {
            return Ok(true);
        }
        if self.threads.iter().any(waits_for_cluster) {
            return Ok(false);
        }
        Err(self.cta_fault(FaultKind::Deadlock(self.wait_groups())))
    }

    /// For each warp the lanes that a barrier must wait for. In lockstep a warp arrives as a whole, whoever executes it.
    fn live_masks(&self) -> Vec<u32> {
        let mask = |lanes: &[Thread<'p>], counts: &dyn Fn(&Thread<'p>) -> bool| {
            lanes.iter().enumerate().fold(0, |mask, (lane, thread)| {
                mask | u32::from(counts(thread)) << lane
            })
        };
        let at_barrier = |thread: &Thread<'p>| {
            matches!(
                thread.wait(),
                Some(Wait {
                    kind: WaitKind::Barrier { op, .. },
                    ..
                }) if !op.is_cluster()
            )
        };
        let of_warp = |lanes: &[Thread<'p>]| {
            let waiting = mask(lanes, &at_barrier);
            if !self.lockstep.is_empty() && waiting != 0 {
                waiting
            } else {
                mask(lanes, &|thread| !thread.is_exited())
            }
        };
        self.threads.chunks(LANES).map(of_warp).collect()
    }

    /// Registers arrivals in thread order and wakes the threads of barriers that are complete.
    fn resolve_barriers(&mut self) -> Result<bool, Fault> {
        let live = self.live_masks();
        let mut woke = false;
        for idx in 0..self.threads.len() {
            let Some(&Wait {
                kind:
                    WaitKind::Barrier {
                        op,
                        id,
                        count,
                        pred,
                        registered: false,
                    },
                ..
            }) = self.threads[idx].wait()
            else {
                continue;
            };
            if op.is_cluster() {
                continue;
            }
            let Some(barrier) = usize::try_from(id)
                .ok()
                .and_then(|id| self.barriers.get_mut(id))
            else {
                return Err(self.fault(idx, FaultKind::Host(format!("there is no barrier {id}"))));
            };
            if let Some(why) = barrier.conflict(count, self.env.n_threads) {
                let why = format!("barrier {id}: {why}");
                return Err(self.fault(idx, FaultKind::Host(why)));
            }
            if !barrier.arrive(Arrival {
                thread: idx as u32,
                op,
                count,
                pred,
            }) {
                continue;
            }
            let completed = barrier.update(&live);
            if op == BarrierOp::Arrive {
                self.threads[idx].resume(&[]);
                woke = true;
            } else if let State::Waiting(Wait {
                kind: WaitKind::Barrier { registered, .. },
                ..
            }) = &mut self.threads[idx].state
            {
                *registered = true;
            }
            woke |= self.wake(completed);
        }
        // Threads that ended may have completed a barrier.
        for idx in 0..self.barriers.len() {
            let completed = self.barriers[idx].update(&live);
            woke |= self.wake(completed);
        }
        Ok(woke)
    }

    /// Arrivals at the barrier of the cluster, and waits for a phase that is complete.
    pub(crate) fn resolve_cluster(&mut self) -> Result<bool, Fault> {
        let mut woke = false;
        for idx in 0..self.threads.len() {
            let Some(op) = cluster_op(&self.threads[idx]) else {
                continue;
            };
            let (now, goes) = match (op, self.at_cluster[idx]) {
                (BarrierOp::ClusterArrive, AtCluster::No) => (AtCluster::Arrived, true),
                (BarrierOp::ClusterArrive, _) => {
                    let why =
                        "arrives at the barrier of the cluster a second time without having waited";
                    return Err(self.fault(idx, FaultKind::Host(why.to_owned())));
                }
                (_, AtCluster::No) => {
                    let why = "waits for the barrier of the cluster without having arrived";
                    return Err(self.fault(idx, FaultKind::Host(why.to_owned())));
                }
                (_, AtCluster::Arrived) => (AtCluster::Arrived, false),
                (_, AtCluster::Passed) => (AtCluster::No, true),
            };
            self.at_cluster[idx] = now;
            if goes {
                self.threads[idx].resume(&[]);
                woke = true;
            }
        }
        Ok(woke)
    }

    fn wake(&mut self, completed: Option<Vec<(u32, u64)>>) -> bool {
        let completed = completed.unwrap_or_default();
        for &(thread, result) in &completed {
            self.threads[thread as usize].resume(&[result]);
        }
        !completed.is_empty()
    }

    /// Warp operations of the warp whose lane 0 is thread `first`.
    fn resolve_warp(&mut self, first: usize) -> Result<bool, Fault> {
        let end = self.threads.len().min(first + LANES);
        let mut woke = false;
        for lane in 0..end - first {
            if let Some(wait) = self
                .warp_wait(first + lane)
                .filter(|wait| wait.mask.is_some())
                .cloned()
            {
                let mask = wait.mask.unwrap_or(0);
                if mask >> lane & 1 == 0 {
                    let why = format!(
                        "`{}` with member mask {mask:#010x} by lane {lane}, which the mask does not name",
                        wait.op
                    );
                    return Err(self.fault(first + lane, FaultKind::Host(why)));
                }
                woke |= self.meet(first, &wait);
            }
        }
        Ok(woke | self.resolve_converged(first, end))
    }

    fn warp_wait(&self, idx: usize) -> Option<&WarpWait> {
        match &self.threads.get(idx)?.wait()?.kind {
            WaitKind::Warp(wait) => Some(wait),
            WaitKind::Barrier { .. } => None,
        }
    }

    /// Performs the operation that a lane waits for if all members that have not ended wait for it too.
    fn meet(&mut self, first: usize, wanted: &WarpWait) -> bool {
        let members = wanted.mask.unwrap_or(0);
        let mut operands: Operands = [const { None }; LANES];
        for member in (0..LANES).filter(|member| members >> member & 1 != 0) {
            if self
                .threads
                .get(first + member)
                .is_none_or(Thread::is_exited)
            {
                continue;
            }
            match self.warp_wait(first + member) {
                Some(wait)
                    if (wait.op, wait.ty, wait.mask) == (wanted.op, wanted.ty, wanted.mask) =>
                {
                    operands[member] = Some(wait.args.clone());
                }
                Some(_) | None => return false,
            }
        }
        self.perform(first, wanted, &operands);
        true
    }

    fn perform(&mut self, first: usize, wait: &WarpWait, operands: &Operands) {
        let results = warp::evaluate(wait.op, wait.ty, operands);
        for lane in (0..LANES).filter(|&lane| operands[lane].is_some()) {
            self.threads[first + lane].resume(&results[lane]);
        }
    }

    /// Operations without a member mask: one group of lanes at the same instruction, the innermost and then the first in the
    /// program.
    fn resolve_converged(&mut self, first: usize, end: usize) -> bool {
        let is_converged_wait =
            |idx: &usize| self.warp_wait(*idx).is_some_and(|wait| wait.mask.is_none());
        let waiting: Vec<usize> = (first..end).filter(is_converged_wait).collect();
        let warp = first / LANES;
        if waiting.is_empty() {
            self.patience[warp] = 0;
            return false;
        }
        self.patience[warp] += 1;
        let can_run = (first..end).any(|idx| self.threads[idx].is_ready());
        if can_run && self.patience[warp] < PATIENCE {
            return false;
        }
        self.patience[warp] = 0;
        let order = |idx: usize| {
            self.threads[idx]
                .position()
                .map(|at| (std::cmp::Reverse(at.depth), at))
        };
        let Some(at) = waiting.iter().map(|&idx| order(idx)).min() else {
            return false;
        };
        let group: Vec<usize> = waiting
            .into_iter()
            .filter(|&idx| order(idx) == at)
            .collect();
        let Some(wait) = self.warp_wait(group[0]).cloned() else {
            return false;
        };
        let mut operands: Operands = [const { None }; LANES];
        for idx in group {
            operands[idx - first] = self.warp_wait(idx).map(|wait| wait.args.clone());
        }
        self.perform(first, &wait, &operands);
        true
    }

    /// What every waiting thread waits for, grouped.
    pub(crate) fn wait_groups(&self) -> Vec<WaitGroup> {
        let live = self.live_masks();
        let mut groups: BTreeMap<String, WaitGroup> = BTreeMap::new();
        for (idx, thread) in self.threads.iter().enumerate() {
            let Some(wait) = thread.wait() else { continue };
            let what = match &wait.kind {
                WaitKind::Barrier { op, .. } if op.is_cluster() => {
                    "`barrier.cluster.wait`".to_owned()
                }
                WaitKind::Barrier { id, .. } => {
                    let barrier = &self.barriers[*id as usize];
                    format!(
                        "barrier {id}: {} of {} threads arrived",
                        barrier.arrived(),
                        barrier.expected(&live)
                    )
                }
                WaitKind::Warp(WarpWait {
                    op,
                    mask: Some(mask),
                    ..
                }) => {
                    format!(
                        "`{op}` with member mask {mask:#010x} in warp {}",
                        idx / LANES
                    )
                }
                WaitKind::Warp(WarpWait { op, mask: None, .. }) => {
                    format!("`{op}` in warp {}", idx / LANES)
                }
            };
            let group = groups.entry(what.clone()).or_insert(WaitGroup {
                what,
                threads: Vec::new(),
                loc: thread.loc,
            });
            group.threads.push(idx as u32);
        }
        groups.into_values().collect()
    }
}

/// What a thread executes, if that is about the barrier of the cluster.
fn cluster_op(thread: &Thread<'_>) -> Option<BarrierOp> {
    match thread.wait()?.kind {
        WaitKind::Barrier { op, .. } if op.is_cluster() => Some(op),
        WaitKind::Barrier { .. } | WaitKind::Warp(_) => None,
    }
}

fn waits_for_cluster(thread: &Thread<'_>) -> bool {
    cluster_op(thread).is_some()
}
