//! A cluster: its CTAs take turns, and wait for each other at its barrier.

use ptxjit_device::asynchronous::Queue;
use ptxjit_device::tcgen05::TensorMemory;
use ptxjit_ir::Function;

use crate::fault::{Fault, FaultKind};
use crate::launch::{Machine, ctaid};
use crate::schedule::{AtCluster, Cta};

/// A cluster in flight.
pub(crate) struct Cluster<'p> {
    /// By rank.
    pub(crate) ctas: Vec<Cta<'p>>,
    /// Shared memory by rank, none of CTAs that have ended; while the cluster has its turn, the
    /// machine has it.
    shared: Vec<Option<Vec<u8>>>,
    /// Tensor memory by rank, once it has been used; likewise.
    tensor: Vec<Option<Box<TensorMemory>>>,
    /// Numbers of the CTAs in the grid, by rank.
    members: Vec<u32>,
    /// What its threads have begun and not completed; likewise.
    queue: Queue,
}

impl<'p> Cluster<'p> {
    /// A cluster whose first CTA has this `%ctaid`; its threads are about to start.
    pub(crate) fn new(
        machine: &mut Machine<'p, '_>,
        kernel: &'p Function,
        first: [u32; 3],
    ) -> Result<Cluster<'p>, Fault> {
        let launch = machine.launch;
        let shape = launch.cluster_shape();
        let bytes = machine.layout.static_size as usize + launch.dynamic_shared as usize;
        let n = shape.iter().product::<u32>();
        let mut cta = |rank: u32| {
            let within = ctaid(shape, rank.into());
            let at = std::array::from_fn(|axis| first[axis] + within[axis]);
            let [x, y, _] = launch.grid;
            let [i, j, k]: [u32; 3] = at;
            let number = i.wrapping_add(x.wrapping_mul(j.wrapping_add(y.wrapping_mul(k))));
            Cta::new(machine, kernel, (number, at), rank)
        };
        let ctas: Vec<Cta<'p>> = (0..n).map(&mut cta).collect::<Result<_, _>>()?;
        let first_number = ctas[0].env.cta;
        Ok(Cluster {
            members: ctas.iter().map(|cta| cta.env.cta).collect(),
            ctas,
            shared: vec![Some(vec![0; bytes]); n as usize],
            tensor: (0..n).map(|_| None).collect(),
            queue: Queue::new(launch.schedule.seed() ^ u64::from(first_number)),
        })
    }

    pub(crate) fn is_done(&self) -> bool {
        self.ctas.iter().all(Cta::is_done)
    }

    /// Whether no thread has seen anything new since `progress`.
    pub(crate) fn is_stuck(&self, progress: u64) -> bool {
        self.ctas.iter().all(|cta| cta.is_stuck(progress))
    }

    /// The rank of the CTA with this number, if it is in the cluster.
    pub(crate) fn rank_of(&self, cta: u32) -> Option<usize> {
        self.ctas.iter().position(|it| it.env.cta == cta)
    }

    /// Each CTA has its turn, or the one with this rank.
    pub(crate) fn turn(
        &mut self,
        machine: &mut Machine<'p, '_>,
        only: Option<usize>,
    ) -> Result<(), Fault> {
        self.swap_memory(machine);
        let can_run = match only {
            Some(rank) => self.turn_of(machine, rank),
            None => self.turns(machine),
        };
        self.swap_memory(machine);
        let can_run = can_run?;
        if self.complete_barrier(machine) {
            // Their turns may not come before they can run.
            let mut ctas = self.ctas.iter_mut();
            return ctas.try_for_each(|cta| cta.resolve_cluster(machine).map(drop));
        }
        if can_run || self.is_done() {
            return Ok(());
        }
        if only.is_some() && self.ctas.iter().any(Cta::any_can_run) {
            return Ok(());
        }
        let waits = |cta: &&Cta<'p>| !cta.is_done();
        let Some(cta) = self.ctas.iter().find(waits) else {
            return Ok(());
        };
        Err(cta.cta_fault(FaultKind::Deadlock(cta.wait_groups())))
    }

    fn swap_memory(&mut self, machine: &mut Machine<'p, '_>) {
        std::mem::swap(&mut self.shared, &mut machine.shared);
        std::mem::swap(&mut self.tensor, &mut machine.tensor);
        std::mem::swap(&mut self.members, &mut machine.members);
        std::mem::swap(&mut self.queue, &mut machine.queue);
    }

    /// Its threads only turn in loops: completes an operation that they have begun, if there is
    /// one.
    pub(crate) fn complete_any(&mut self, machine: &mut Machine<'p, '_>) -> Result<bool, Fault> {
        self.swap_memory(machine);
        let done = machine.complete_any(&self.ctas[0].env);
        self.swap_memory(machine);
        done.map_err(|kind| self.ctas[0].fault_outside(kind))
    }

    /// Whether any thread can run.
    fn turns(&mut self, machine: &mut Machine<'p, '_>) -> Result<bool, Fault> {
        let mut can_run = false;
        for rank in 0..self.ctas.len() {
            if !self.ctas[rank].is_done() {
                can_run |= self.turn_of(machine, rank)?;
            }
        }
        Ok(can_run)
    }

    fn turn_of(&mut self, machine: &mut Machine<'p, '_>, rank: usize) -> Result<bool, Fault> {
        let cta = &mut self.ctas[rank];
        let can_run = cta.turn(machine)?;
        if cta.is_done() {
            let finished = machine.finish(&cta.env);
            finished.map_err(|kind| cta.fault_outside(kind))?;
            cta.check_end(machine.tensor[rank].as_deref())?;
            if self.ctas.len() > 1 {
                machine.shared[rank] = None;
            }
        }
        Ok(can_run)
    }

    /// Begins the next phase of the barrier if all threads that have not ended have arrived.
    /// Whether they have.
    fn complete_barrier(&mut self, machine: &mut Machine<'p, '_>) -> bool {
        let mut any = false;
        for cta in &self.ctas {
            for (thread, at) in cta.threads.iter().zip(&cta.at_cluster) {
                let has_arrived = *at == AtCluster::Arrived;
                if !has_arrived && !thread.is_exited() {
                    return false;
                }
                any |= has_arrived;
            }
        }
        let all = self.ctas.iter_mut().flat_map(|cta| &mut cta.at_cluster);
        all.filter(|at| **at == AtCluster::Arrived)
            .for_each(|at| *at = AtCluster::Passed);
        if let (true, Some(watch)) = (any, &mut machine.watch) {
            watch.cluster_complete(self.ctas[0].env.cta);
        }
        any
    }
}
