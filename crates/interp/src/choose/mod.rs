//! In what order threads make progress: a [`Schedule`] names it, a [`Chooser`] makes its choices.
//!
//! Under [`Schedule::Deterministic`] every thread runs as far as it gets. Under all others the
//! lanes of a warp run as a group that stops at *preemption points* only: before strong accesses,
//! fences, barriers, warp operations and calls of the device runtime, after branches at which lanes
//! diverged, and at the ends of loops. Diverged lanes are groups of their own until a barrier or
//! `bar.warp.sync` joins them: nothing else promises that they converge (PTX ISA, "Execution of
//! threads").

mod plain;
mod priority;
mod replay;

pub(crate) use replay::{Recorder, Replay};
pub use replay::{Turn, Turns};

/// A way to choose who goes on next, and how far.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Schedule {
    /// Threads in order, each as far as it gets; CTAs in sequence.
    #[default]
    Deterministic,
    /// One group after the other, each up to its next preemption point.
    RoundRobin,
    /// Any group, drawn from the seed at each preemption point; now and then some lanes of a group
    /// leave it.
    Random(u64),
    /// The newest first and as long as possible, the last CTA first.
    Adversarial,
    /// By random priorities, with so many points less one at which the group that runs falls behind
    /// all others: Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of
    /// Finding Bugs" (ASPLOS 2010).
    Pct {
        /// Of the priorities and the points.
        seed: u64,
        /// Depth of the bugs that are looked for.
        depth: u32,
        /// Preemption points of the launch, as [`Watched::points`](crate::Watched::points) of a run
        /// at depth 1 tells.
        points: u64,
    },
}

impl Schedule {
    /// CTAs, or clusters, that run side by side.
    pub(crate) fn live_ctas(self) -> usize {
        match self {
            Schedule::Deterministic => 1,
            Schedule::RoundRobin
            | Schedule::Random(_)
            | Schedule::Adversarial
            | Schedule::Pct { .. } => 4,
        }
    }

    /// Of choices that are no turns.
    pub(crate) fn seed(self) -> u64 {
        match self {
            Schedule::Random(seed) | Schedule::Pct { seed, .. } => seed,
            Schedule::Deterministic | Schedule::RoundRobin | Schedule::Adversarial => 0,
        }
    }

    /// What makes the choices.
    pub(crate) fn chooser(self) -> Box<dyn Chooser> {
        match self {
            Schedule::Deterministic => Box::new(plain::InOrder),
            Schedule::RoundRobin => Box::new(plain::RoundRobin::default()),
            Schedule::Random(seed) => Box::new(plain::Random(Rng::new(seed))),
            Schedule::Adversarial => Box::new(priority::Priorities::adversarial()),
            Schedule::Pct {
                seed,
                depth,
                points,
            } => Box::new(priority::Priorities::pct(seed, depth, points)),
        }
    }
}

/// A group of lanes that can run.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Task {
    /// Linear number of the CTA in the grid.
    pub(crate) cta: u32,
    /// Number of the group in the CTA, given in the order in which groups came to be; at first,
    /// that of the warp.
    pub(crate) group: u32,
    /// Its lanes that can run.
    pub(crate) lanes: u32,
}

/// Where the launch goes on.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum NextCta {
    /// All CTAs have their turn.
    Everyone,
    /// The CTA with this number.
    One(u32),
    /// One that is not started yet is: the first or the last of those.
    Start { last: bool },
}

/// Who goes on in the CTA.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum NextGroup {
    /// All threads, in order, each as far as it gets.
    Everyone,
    /// These lanes of the group.
    One { group: u32, lanes: u32 },
}

/// What choosers are told.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// The task asks for others to have their turn.
    Yields(Task),
}

/// A launch that a recorded schedule does not fit.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Departed;

/// Makes the choices of a launch.
pub(crate) trait Chooser {
    /// Where to go on. `tasks` makes the list of all that can run, those of a CTA side by side;
    /// without `may_start` there is no CTA to start, or no room for it.
    fn next_cta(
        &mut self,
        may_start: bool,
        tasks: &dyn Fn() -> Vec<Task>,
    ) -> Result<NextCta, Departed>;

    /// Who of the CTA goes on, out of the list of those who can.
    fn next_group(&mut self, tasks: &dyn Fn() -> Vec<Task>) -> Result<NextGroup, Departed>;

    /// Whether the task that runs stops at this preemption point.
    fn stop_here(&mut self, task: Task) -> bool;

    /// Something has happened.
    fn note(&mut self, event: Event);

    /// The choices so far, if they are kept.
    fn turns(&mut self) -> Turns {
        Turns::default()
    }
}

/// Random numbers: Steele et al., "Fast Splittable Pseudorandom Number Generators" (OOPSLA 2014),
/// SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed ^ 0x5851_f42d_4c95_7f2d)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `n`, which is not zero.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
}
