//! A CTA: its threads take turns, then what they wait for is resolved.

use ptxjit_device::Site;
use ptxjit_device::tcgen05::TensorMemory;
use ptxjit_ir::{Function, SrcLoc, WARPS_OF_WARPGROUP};

use crate::barrier::Barrier;
use crate::choose::Schedule;
use crate::exec::Step;
use crate::fault::{Fault, FaultKind};
use crate::groups::Groups;
use crate::launch::Machine;
use crate::lockstep::Warp;
use crate::thread::{Frame, State, Thread};

/// What the threads of a CTA share.
pub(crate) struct Env {
    /// Linear number of the CTA in the grid.
    pub(crate) cta: u32,
    pub(crate) ctaid: [u32; 3],
    pub(crate) n_threads: u32,
    /// In the cluster.
    pub(crate) rank: u32,
}

/// A CTA in flight.
pub(crate) struct Cta<'p> {
    pub(crate) env: Env,
    pub(crate) threads: Vec<Thread<'p>>,
    pub(crate) barriers: Vec<Barrier>,
    /// Warps that run in lockstep; empty if threads run on their own.
    pub(crate) lockstep: Vec<Warp>,
    /// Groups of lanes; none if threads run on their own, or in lockstep.
    pub(crate) groups: Groups,
    /// For each warp: turns since one of its lanes began to wait without a member mask.
    pub(crate) patience: Vec<u32>,
    /// For each thread: how far it is with the barrier of the cluster.
    pub(crate) at_cluster: Vec<AtCluster>,
}

/// How far a thread is with the barrier of the cluster.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum AtCluster {
    /// It has not arrived since it last waited.
    No,
    /// It has arrived in this phase.
    Arrived,
    /// The phase in which it arrived is complete.
    Passed,
}

/// Barriers that a program names; those of the warpgroups come behind them.
pub(crate) const N_BARRIERS: usize = 16;
const WARP: u32 = 32;
/// Instructions between two questions whether the launch is cancelled.
const POLL_INTERVAL: u64 = 1 << 14;

impl<'p> Cta<'p> {
    /// A CTA whose threads are about to start.
    pub(crate) fn new(
        machine: &mut Machine<'p, '_>,
        kernel: &'p Function,
        (cta, ctaid): (u32, [u32; 3]),
        rank: u32,
    ) -> Result<Cta<'p>, Fault> {
        let launch = machine.launch;
        let [x, y, _] = launch.block;
        let n_threads = launch.block.iter().product::<u32>();
        let n_warps = n_threads.div_ceil(WARP);
        let n_shared = machine.layout.static_size as usize + launch.dynamic_shared as usize;
        if let Some(watch) = &mut machine.watch {
            watch.start_cta(cta, n_threads, n_shared);
        }
        let env = Env {
            cta,
            ctaid,
            n_threads,
            rank,
        };
        let threads = (0..n_threads)
            .map(|i| Thread::new(cta, [i % x, i / x % y, i / x / y], i))
            .collect();
        let lockstep = if launch.program.lockstep {
            (0..n_warps)
                .map(|warp| Warp::new(warp, n_threads))
                .collect()
        } else {
            vec![]
        };
        let groups = match launch.schedule {
            Schedule::Deterministic => Groups::default(),
            _ => Groups::of_warps(n_threads),
        };
        let n_warpgroups = (n_warps as usize).div_ceil(WARPS_OF_WARPGROUP);
        let barriers = vec![Barrier::default(); N_BARRIERS + n_warpgroups];
        let mut cta = Cta {
            env,
            threads,
            barriers,
            lockstep,
            groups,
            patience: vec![0; n_warps as usize],
            at_cluster: vec![AtCluster::No; n_threads as usize],
        };
        for idx in 0..cta.threads.len() {
            let frame = Frame::new((launch.program.entry, kernel), &[], &[], 0);
            let pushed = machine.push(&mut cta.threads[idx], frame);
            pushed.map_err(|kind| cta.fault(idx, kind))?;
            if launch.plan.is_some() {
                // Frames of calls that are merged into the kernel begin at multiples of 16.
                let top = &mut cta.threads[idx].stack_top;
                *top = top.next_multiple_of(16);
            }
        }
        Ok(cta)
    }

    /// Whether all threads have ended.
    pub(crate) fn is_done(&self) -> bool {
        self.threads.iter().all(Thread::is_exited)
    }

    /// The CTA has ended: its tensor memory must have been given back.
    pub(crate) fn check_end(&self, memory: Option<&TensorMemory>) -> Result<(), Fault> {
        match memory.and_then(TensorMemory::leak) {
            None => Ok(()),
            Some(leak) => Err(self.late_fault(leak.site(), FaultKind::Host(leak.to_string()))),
        }
    }

    /// A fault of something that has ended, or has begun, earlier.
    fn late_fault(&self, site: Site, kind: FaultKind) -> Fault {
        Fault {
            ctaid: site.ctaid,
            tid: Some(site.tid),
            loc: site.loc,
            ..self.cta_fault(kind)
        }
    }

    /// A fault while no thread runs.
    pub(crate) fn fault_outside(&self, kind: FaultKind) -> Fault {
        match kind {
            FaultKind::Late { site, kind } => self.late_fault(site, *kind),
            other => self.cta_fault(other),
        }
    }

    /// Threads run for a while, as the schedule has it; then waits that have been met end.
    ///
    /// False if no thread can run before the barrier of the cluster is complete.
    pub(crate) fn turn(&mut self, machine: &mut Machine<'p, '_>) -> Result<bool, Fault> {
        self.run_chosen(machine)?;
        self.resolve(machine)
    }

    /// Runs a thread until it waits, ends, yields or has used up its quantum.
    pub(crate) fn run(&mut self, machine: &mut Machine<'p, '_>, idx: usize) -> Result<(), Fault> {
        let thread = &mut self.threads[idx];
        if !thread.is_ready() {
            return Ok(());
        }
        let mut left = machine.launch.limits.quantum.max(1);
        while left > 0 || machine.is_quiet(&self.env, thread) {
            left = left.saturating_sub(1);
            machine.steps += 1;
            match machine.step(&mut self.env, thread) {
                Ok(Step::Next) => {}
                Ok(Step::Yield) => break,
                Ok(Step::Wait(wait)) => {
                    thread.state = State::Waiting(wait);
                    break;
                }
                Ok(Step::Exit) => {
                    thread.exit();
                    machine.progress += 1;
                    break;
                }
                Err(kind) => return Err(self.fault(idx, kind)),
            }
            machine.look_for_spinning(thread);
            if machine.steps.is_multiple_of(POLL_INTERVAL) && machine.host.cancelled() {
                return Err(self.fault(idx, FaultKind::Cancelled));
            }
        }
        Ok(())
    }

    /// Whether all threads wait, or turn in loops without anything having changed.
    pub(crate) fn is_stuck(&self, progress: u64) -> bool {
        let turns = |idx: usize| self.threads[idx].spin.since == Some(progress);
        (0..self.threads.len()).all(|idx| !self.can_run(idx) || turns(idx))
    }

    /// Whether a thread can run. In lockstep none can while another of its warp waits.
    pub(crate) fn can_run(&self, idx: usize) -> bool {
        let first = idx / WARP as usize * WARP as usize;
        let mut lanes = self.threads[first..].iter().take(WARP as usize);
        self.threads[idx].is_ready()
            && (self.lockstep.is_empty() || !lanes.any(|lane| lane.wait().is_some()))
    }

    /// Whether any thread can run.
    pub(crate) fn any_can_run(&self) -> bool {
        (0..self.threads.len()).any(|idx| self.can_run(idx))
    }

    /// Polls for cancellation on behalf of a warp in lockstep.
    pub(crate) fn poll(
        &self,
        machine: &mut Machine<'p, '_>,
        idx: usize,
        steps: u64,
    ) -> Result<(), Fault> {
        let before = machine.steps / POLL_INTERVAL;
        machine.steps += steps;
        if machine.steps / POLL_INTERVAL != before && machine.host.cancelled() {
            return Err(self.fault(idx, FaultKind::Cancelled));
        }
        Ok(())
    }

    /// A fault of one thread.
    pub(crate) fn fault(&self, idx: usize, kind: FaultKind) -> Fault {
        if let FaultKind::Late { site, kind } = kind {
            return self.late_fault(site, *kind);
        }
        let thread = &self.threads[idx];
        let function = thread
            .frames
            .last()
            .map_or(String::new(), |frame| frame.func.name.clone());
        Fault {
            kind,
            ctaid: self.env.ctaid,
            tid: Some(thread.tid),
            function,
            loc: thread.loc,
            calls: thread.calls(),
        }
    }

    /// A fault of the CTA.
    pub(crate) fn cta_fault(&self, kind: FaultKind) -> Fault {
        Fault {
            kind,
            ctaid: self.env.ctaid,
            tid: None,
            function: String::new(),
            loc: SrcLoc::default(),
            calls: Vec::new(),
        }
    }
}
