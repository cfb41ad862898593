//! A worker's part of a launch whose CTAs run by clusters: all CTAs of a cluster are started
//! together, and one worker runs them in turns. Shared memory of a cluster is touched by one thread
//! of the host at a time, as that of a CTA.

use std::collections::VecDeque;

use super::{Ctas, PATIENCE, TURNS_BETWEEN_STARTS};
use crate::error::LaunchError;
use crate::grid::Grid;
use crate::memory::ClusterWindow;
use crate::sched::cluster::Cluster;
use crate::sched::{Outcome, Runner};
use crate::supply::Supply;
use crate::supply::ctaid_of;

/// Runs clusters until nothing is left to take.
pub(super) fn run(mut runner: Runner<'_>, ctas: &mut Ctas<'_>) -> Result<(), LaunchError> {
    let grid = runner.grid;
    let mut supply = Supply::new(grid);
    let mut idle: Vec<Cluster> = Vec::new();
    let mut aside: VecDeque<Cluster> = VecDeque::new();
    loop {
        if grid.is_stopped() {
            return Err(grid.stop_error());
        }
        let mut fresh = false;
        if let Some(idx) = supply.next(&mut runner.rng) {
            match ctas.start_cluster(idx, &mut idle, runner.rng.is_some()) {
                Ok(cluster) => {
                    fresh = true;
                    turn(
                        &mut runner,
                        ctas,
                        cluster,
                        PATIENCE,
                        (&mut idle, &mut aside),
                    )?;
                }
                // See `run_ctas`.
                Err(error) if aside.is_empty() || grid.cooperative => return Err(error),
                Err(_) => supply.put_back(idx),
            }
        }
        if aside.is_empty() {
            if fresh {
                continue;
            }
            let ctas = idle.into_iter().flat_map(|cluster| cluster.ctas);
            ctas.for_each(|cta| grid.shared.give_cta(cta));
            return Ok(());
        }
        if fresh && grid.cooperative {
            continue;
        }
        let n_turns = match fresh {
            true => aside.len().min(TURNS_BETWEEN_STARTS),
            false => aside.len(),
        };
        let mut any_progress = fresh;
        for _ in 0..n_turns {
            if let Some(cluster) = aside.pop_front() {
                any_progress |= turn(&mut runner, ctas, cluster, 1, (&mut idle, &mut aside))?;
            }
        }
        if !any_progress {
            // What they wait for is up to another worker, which may need this core.
            std::thread::yield_now();
        }
    }
}

/// Runs a cluster for a while and puts it where it belongs then. Whether it got further.
fn turn(
    runner: &mut Runner<'_>,
    ctas: &mut Ctas<'_>,
    mut cluster: Cluster,
    patience: u32,
    (idle, aside): (&mut Vec<Cluster>, &mut VecDeque<Cluster>),
) -> Result<bool, LaunchError> {
    let (outcome, progress) = runner.run_cluster(&mut cluster, patience)?;
    if outcome == Outcome::Done {
        ctas.n_in_flight -= cluster.ctas.len();
        ctas.n_done += cluster.ctas.len() as u64;
        idle.push(cluster);
    } else {
        aside.push_back(cluster);
    }
    Ok(progress)
}

impl Ctas<'_> {
    /// Starts the CTAs of the cluster with this linear index.
    fn start_cluster(
        &mut self,
        idx: u64,
        idle: &mut Vec<Cluster>,
        lane_wise: bool,
    ) -> Result<Cluster, LaunchError> {
        let grid = self.grid;
        let n = grid.cluster_size() as usize;
        let mut cluster = match idle.pop() {
            Some(cluster) => cluster,
            None if self.n_in_flight + n > super::MAX_IN_FLIGHT => {
                return Err(LaunchError::System("too many CTAs in flight".into()));
            }
            None => self.new_cluster(n)?,
        };
        if let Some(shared) = &cluster.shared {
            shared.start()?;
        }
        let extents = grid.cluster.unwrap_or([1; 3]);
        let clusters: [u32; 3] = std::array::from_fn(|axis| grid.grid[axis] / extents[axis]);
        let clusterid = ctaid_of(idx, clusters);
        for (rank, cta) in cluster.ctas.iter_mut().enumerate() {
            let within = ctaid_of(rank as u64, extents);
            let at = |axis: usize| clusterid[axis] * extents[axis] + within[axis];
            cta.start(grid, std::array::from_fn(at), lane_wise);
        }
        cluster.is_live.fill(true);
        self.n_in_flight += n;
        Ok(cluster)
    }

    fn new_cluster(&mut self, n: usize) -> Result<Cluster, LaunchError> {
        let grid: &Grid = self.grid;
        let shared = match n {
            1 => None,
            _ => {
                let bytes = u64::from(grid.shared_bytes);
                Some(Box::new(ClusterWindow::new(&grid.arena, n as u32, bytes)?))
            }
        };
        let mut cluster = Cluster {
            ctas: Vec::with_capacity(n),
            shared,
            is_live: vec![false; n],
        };
        for rank in 0..n as u32 {
            let mut cta = grid.shared.take_cta();
            let shared = cluster.shared.as_deref().map(|shared| (shared, rank));
            cta.prepare(grid, self.worker, shared)?;
            cta.set_counters(self.counters.as_ref());
            cluster.ctas.push(cta);
        }
        Ok(cluster)
    }
}
