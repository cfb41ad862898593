//! Ends waits: barriers, warp operations; finds deadlocks.
//!
//! Lanes meet at a `.sync` warp operation if the operation, its qualifiers and the member mask
//! agree, wherever they execute it; members that have ended are not waited for. A form without a
//! member mask means the lanes that are converged; as lanes run on their own here, those are taken
//! to be the lanes that come to the same instruction before the others of the warp have run out of
//! things to do (or have spun for a long while).

use std::borrow::Cow;
use std::collections::BTreeMap;

use ptxjit_ir::{BarrierOp, WARPS_OF_WARPGROUP, WarpOp};

use crate::barrier::Arrival;
use crate::choose::Schedule;
use crate::fault::{Fault, FaultKind, WaitGroup};
use crate::launch::Machine;
use crate::schedule::{AtCluster, Cta, N_BARRIERS};
use crate::thread::{State, Thread, Wait, WaitKind, WarpWait};
use crate::warp::{self, LANES, Operands};
use crate::watch::finding::{AccessOp, FindingKind, Severity};
use crate::watch::shadow::Shadow;

/// Turns that lanes at an operation without a member mask wait for others that run on.
const PATIENCE: u32 = 64;

impl<'p> Cta<'p> {
    /// Ends all waits that have been met. It is a deadlock if then no thread can run.
    pub(crate) fn resolve(&mut self, machine: &mut Machine<'p, '_>) -> Result<bool, Fault> {
        let mut woke = self.resolve_barriers(machine)? | self.resolve_cluster(machine)?;
        for first in (0..self.threads.len()).step_by(LANES) {
            woke |= self.resolve_warp(machine, first)?;
        }
        if woke {
            machine.progress += 1;
        }
        if woke || self.is_done() || self.any_can_run() {
            return Ok(true);
        }
        if self.threads.iter().any(waits_for_cluster) {
            return Ok(false);
        }
        if machine.checks().sync
            && let Some(fault) = self.mask_conflict()
        {
            return Err(fault);
        }
        Err(self.no_progress())
    }

    /// All threads wait, or turn in loops that wait.
    pub(crate) fn no_progress(&self) -> Fault {
        self.cta_fault(FaultKind::Deadlock(self.wait_groups()))
    }

    /// A lane that waits for lanes of which one waits elsewhere.
    fn mask_conflict(&self) -> Option<Fault> {
        for (idx, _) in self.threads.iter().enumerate() {
            let Some(WarpWait {
                op,
                mask: Some(mask),
                ..
            }) = self.warp_wait(idx)
            else {
                continue;
            };
            let first = idx / LANES * LANES;
            let elsewhere = (0..LANES)
                .filter(|lane| mask >> lane & 1 != 0)
                .find(|lane| {
                    let other = self.threads.get(first + lane);
                    other.is_some_and(|other| {
                        other.wait().is_some()
                            && self
                                .warp_wait(first + lane)
                                .map(|wait| (wait.op, wait.mask))
                                != Some((*op, Some(*mask)))
                    })
                });
            if let Some(lane) = elsewhere {
                let why = format!(
                    "`{op}` with member mask {mask:#010x} waits for lane {lane}, which waits for something else"
                );
                return Some(self.fault(idx, FaultKind::BadMask(why)));
            }
        }
        None
    }

    /// For each warp the lanes that a barrier must wait for. In lockstep a warp arrives as a whole,
    /// the thread that executes it.
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
    fn resolve_barriers(&mut self, machine: &mut Machine<'p, '_>) -> Result<bool, Fault> {
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
                        ..
                    },
                ..
            }) = self.threads[idx].wait()
            else {
                continue;
            };
            if op.is_cluster() {
                continue;
            }
            let place = match usize::try_from(id) {
                _ if op == BarrierOp::Warpgroup => N_BARRIERS + idx / LANES / WARPS_OF_WARPGROUP,
                Ok(id) if id < N_BARRIERS => id,
                _ => {
                    let why = format!("there is no barrier {id}");
                    return Err(self.fault(idx, FaultKind::BadBarrier(why)));
                }
            };
            let barrier = &mut self.barriers[place];
            if let Some(why) = barrier.conflict(count, self.env.n_threads) {
                let why = format!("barrier {id}: {why}");
                return Err(self.fault(idx, FaultKind::BadBarrier(why)));
            }
            let again = barrier.is_counted(idx as u32);
            if !barrier.arrive(Arrival {
                thread: idx as u32,
                op,
                count,
                pred,
            }) {
                continue;
            }
            let completed = barrier.update(&live_at(&live, place));
            if again && machine.checks().sync {
                let who = machine.who(&self.env, &self.threads[idx]);
                let text = format!("arrives at barrier {id} a second time in one phase");
                let (kind, severity) = (FindingKind::BarrierCount, Severity::Error);
                machine.misuse(who, kind, severity, (AccessOp::Barrier, text));
            }
            if let (true, Some(watch)) = (place < N_BARRIERS, &mut machine.watch) {
                watch.barrier_arrive(self.env.cta, idx as u32, place);
            }
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
            woke |= self.wake(machine, place, completed);
        }
        // Threads that ended may have completed a barrier.
        for idx in 0..self.barriers.len() {
            let completed = self.barriers[idx].update(&live_at(&live, idx));
            woke |= self.wake(machine, idx, completed);
        }
        Ok(woke)
    }

    /// Arrivals at the barrier of the cluster, and waits for a phase that is complete.
    pub(crate) fn resolve_cluster(&mut self, machine: &mut Machine<'p, '_>) -> Result<bool, Fault> {
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
            if let (true, Some(watch)) = (goes, &mut machine.watch) {
                watch.at_cluster_barrier((self.env.cta, idx as u32), op);
            }
            if goes {
                self.threads[idx].resume(&[]);
                woke = true;
            }
        }
        Ok(woke)
    }

    fn wake(
        &mut self,
        machine: &mut Machine<'p, '_>,
        place: usize,
        completed: Option<Vec<(u32, u64)>>,
    ) -> bool {
        let Some(completed) = completed else {
            return false;
        };
        if machine.checks().sync {
            self.look_for_divergence(machine, &completed);
        }
        if let (true, Some(watch)) = (place < N_BARRIERS, &mut machine.watch) {
            let barrier = &self.barriers[place];
            watch.barrier_complete(self.env.cta, place, &completed, &|thread| {
                barrier.is_pending(thread)
            });
        }
        for &(thread, result) in &completed {
            self.threads[thread as usize].resume(&[result]);
        }
        let woken: Vec<u32> = completed.iter().map(|&(thread, _)| thread).collect();
        self.join_lanes(&woken);
        !completed.is_empty()
    }

    /// Warp operations of the warp whose lane 0 is thread `first`.
    fn resolve_warp(&mut self, machine: &mut Machine<'p, '_>, first: usize) -> Result<bool, Fault> {
        let end = self.threads.len().min(first + LANES);
        if machine.checks().sync {
            self.look_for_masks(machine, first..end);
        }
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
                    return Err(self.fault(first + lane, FaultKind::BadMask(why)));
                }
                woke |= self.meet(machine, first, &wait);
            }
        }
        Ok(woke | self.resolve_converged(machine, first, end))
    }

    pub(crate) fn warp_wait(&self, idx: usize) -> Option<&WarpWait> {
        match &self.threads.get(idx)?.wait()?.kind {
            WaitKind::Warp(wait) => Some(wait),
            WaitKind::Barrier { .. } => None,
        }
    }

    /// Performs the operation that a lane waits for if all members that have not ended wait for it
    /// too.
    fn meet(&mut self, machine: &mut Machine<'p, '_>, first: usize, wanted: &WarpWait) -> bool {
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
        self.perform(machine, first, wanted, &operands);
        true
    }

    fn perform(
        &mut self,
        machine: &mut Machine<'p, '_>,
        first: usize,
        wait: &WarpWait,
        operands: &Operands,
    ) {
        let results = warp::evaluate(wait.op, wait.ty, operands);
        let lanes: Vec<usize> = (0..LANES)
            .filter(|&lane| operands[lane].is_some())
            .collect();
        if let (Some(watch), WarpOp::Sync | WarpOp::AlignedSync) = (&mut machine.watch, wait.op) {
            let threads: Vec<u32> = lanes.iter().map(|lane| (first + lane) as u32).collect();
            watch.meet(self.env.cta, &threads);
        }
        let shadows = match machine.watches_values() {
            true => self.warp_shadows(machine, first, wait, operands),
            false => Vec::new(),
        };
        for &lane in &lanes {
            let thread = &mut self.threads[first + lane];
            let of = thread.wait().map_or(&[][..], |wait| wait.results);
            thread.resume(&results[lane]);
            if let Some(shadows) = shadows.get(lane) {
                for (&result, &shadow) in of.iter().zip(shadows) {
                    thread.frame().set_shadow(result, shadow);
                }
            }
        }
        if matches!(wait.op, WarpOp::Sync | WarpOp::AlignedSync) && wait.mask.is_some() {
            let threads: Vec<u32> = lanes.iter().map(|lane| (first + lane) as u32).collect();
            self.join_lanes(&threads);
        }
    }

    /// Shadows of the results of each lane.
    fn warp_shadows(
        &mut self,
        machine: &mut Machine<'p, '_>,
        first: usize,
        wait: &WarpWait,
        operands: &Operands,
    ) -> Vec<Vec<Shadow>> {
        let none = || vec![Vec::new(); LANES];
        let shadow_of = |cta: &Self, lane: usize, arg: usize| {
            let thread = cta.threads.get(first + lane);
            let shadow = thread.and_then(|thread| thread.waiting_shadows.get(arg));
            shadow.copied().unwrap_or(Shadow::NONE)
        };
        let mut shadows = none();
        for lane in (0..LANES).filter(|&lane| operands[lane].is_some()) {
            let args = operands[lane].as_ref().expect("it takes part");
            shadows[lane] = match wait.op {
                WarpOp::ShflUp | WarpOp::ShflDown | WarpOp::ShflBfly | WarpOp::ShflIdx => {
                    let (source, _) = warp::shuffle_source(wait.op, lane as u32, args[1], args[2]);
                    match operands.get(source as usize) {
                        Some(Some(_)) => vec![shadow_of(self, source as usize, 0)],
                        _ => vec![self.absent_source(machine, first + lane)],
                    }
                }
                WarpOp::Mma(_) | WarpOp::Transpose => {
                    let all = (0..LANES)
                        .flat_map(|lane| (0..wait.op.n_args()).map(move |arg| (lane, arg)));
                    let bad = all
                        .map(|(lane, arg)| shadow_of(self, lane, arg))
                        .find(|shadow| !shadow.is_clean());
                    let bad = bad.map(|bad| Shadow {
                        bits: u64::MAX,
                        computed: true,
                        ..bad
                    });
                    vec![bad.unwrap_or(Shadow::NONE); wait.op.n_results()]
                }
                _ => Vec::new(),
            };
        }
        shadows
    }

    /// A shuffle from a lane that takes no part in it.
    fn absent_source(&mut self, machine: &mut Machine<'p, '_>, idx: usize) -> Shadow {
        let who = machine.who(&self.env, &self.threads[idx]);
        let checks = machine.checks();
        let Some(watch) = &mut machine.watch else {
            return Shadow::NONE;
        };
        if !checks.init {
            if checks.sync {
                let text = "takes a value from a lane that takes no part in the shuffle".to_owned();
                let (kind, severity) = (FindingKind::ShflSource, Severity::Error);
                machine.misuse(who, kind, severity, (AccessOp::Warp, text));
            }
            return Shadow::NONE;
        }
        let place = (ptxjit_ir::Space::Generic, None, None);
        let origin = watch.origin(who, AccessOp::Warp, FindingKind::ShflSource, place);
        Shadow {
            bits: u64::MAX,
            origin,
            computed: false,
        }
    }

    /// Operations without a member mask: one group of lanes at the same instruction, the innermost
    /// and then the first in the program.
    fn resolve_converged(
        &mut self,
        machine: &mut Machine<'p, '_>,
        first: usize,
        end: usize,
    ) -> bool {
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
        let are_grouped = machine.launch.schedule != Schedule::Deterministic;
        if can_run && !are_grouped && self.patience[warp] < PATIENCE {
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
        // Lanes of a group are converged, and others are not.
        let with_first = match are_grouped {
            true => (self.groups).lanes_with(warp as u32, (group[0] % LANES) as u32),
            false => u32::MAX,
        };
        let is_with = |idx: &usize| with_first >> (idx % LANES) & 1 != 0;
        let group: Vec<usize> = group.into_iter().filter(is_with).collect();
        let Some(wait) = self.warp_wait(group[0]).cloned() else {
            return false;
        };
        let mut operands: Operands = [const { None }; LANES];
        for idx in group {
            operands[idx - first] = self.warp_wait(idx).map(|wait| wait.args.clone());
        }
        self.perform(machine, first, &wait, &operands);
        true
    }

    /// What every waiting thread waits for, grouped.
    pub(crate) fn wait_groups(&self) -> Vec<WaitGroup> {
        let live = self.live_masks();
        let mut groups: BTreeMap<String, WaitGroup> = BTreeMap::new();
        for (idx, thread) in self.threads.iter().enumerate() {
            if thread.is_ready() {
                let what = "a loop that waits for memory to change".to_owned();
                // Loops at different places are different groups.
                let key = format!("{what} {}", thread.loc.0);
                let group = groups.entry(key).or_insert(WaitGroup {
                    what,
                    threads: Vec::new(),
                    loc: thread.loc,
                    calls: thread.calls(),
                    tid: thread.tid,
                });
                group.threads.push(idx as u32);
                continue;
            }
            let Some(wait) = thread.wait() else { continue };
            let what = match &wait.kind {
                WaitKind::Barrier { op, .. } if op.is_cluster() => {
                    "`barrier.cluster.wait`".to_owned()
                }
                WaitKind::Barrier {
                    op: BarrierOp::Warpgroup,
                    ..
                } => {
                    let warpgroup = idx / LANES / WARPS_OF_WARPGROUP;
                    format!("`wgmma.wait_group` in warpgroup {warpgroup}")
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
                calls: thread.calls(),
                tid: thread.tid,
            });
            group.threads.push(idx as u32);
        }
        groups.into_values().collect()
    }
}

/// Of the lanes that have not ended, by warps, those that a barrier waits for: a warpgroup's
/// barrier concerns its own warps alone.
fn live_at(live: &[u32], place: usize) -> Cow<'_, [u32]> {
    let Some(warpgroup) = place.checked_sub(N_BARRIERS) else {
        return Cow::Borrowed(live);
    };
    let is_member = |warp: usize| warp / WARPS_OF_WARPGROUP == warpgroup;
    let warps = live.iter().enumerate();
    warps
        .map(|(warp, &live)| if is_member(warp) { live } else { 0 })
        .collect()
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
