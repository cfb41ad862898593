//! Schedules by priorities: the task with the greatest one runs.
//!
//! * Adversarial: newer tasks go first. What ran first on every machine that the author has seen
//!   runs last here.
//! * PCT: priorities are random, and at `depth - 1` random points of the launch the task that runs
//!   falls behind all others. A bug that
//!   needs `depth` orderings of `n` tasks that pass `k` points is found with a probability of at
//!   least `1 / (n * k^(depth - 1))`.
//!
//! A task that yields, or that passes very many points on end, falls behind too: it may be waiting
//! for one that has no turn.

use rustc_hash::FxHashMap;

use super::{Chooser, Departed, Event, NextCta, NextGroup, Rng, Task};

/// Points that a task passes on end before others have their turn.
const PATIENCE: u32 = 4096;

/// See the module.
pub(super) struct Priorities {
    /// The seed of the priorities; none for the order of age.
    seed: Option<u64>,
    /// Points at which the task that runs falls behind, the next one last.
    demotions: Vec<u64>,
    /// Points passed.
    passed: u64,
    /// Tasks that have fallen behind, and how many had before them.
    behind: FxHashMap<(u32, u32), u32>,
    /// The task that runs, and the points that it has passed on end.
    runs: ((u32, u32), u32),
    /// When CTAs were seen first.
    ages: FxHashMap<u32, u32>,
}

impl Priorities {
    /// The newest first.
    pub(super) fn adversarial() -> Priorities {
        Priorities::new(None, Vec::new())
    }

    /// Random priorities, and `depth - 1` demotions among so many points.
    pub(super) fn pct(seed: u64, depth: u32, points: u64) -> Priorities {
        let mut rng = Rng::new(seed);
        let mut demotions: Vec<u64> = (1..depth).map(|_| rng.below(points.max(1))).collect();
        demotions.sort_unstable_by_key(|&point| std::cmp::Reverse(point));
        Priorities::new(Some(seed), demotions)
    }

    fn new(seed: Option<u64>, demotions: Vec<u64>) -> Priorities {
        Priorities {
            seed,
            demotions,
            passed: 0,
            behind: FxHashMap::default(),
            runs: ((0, 0), 0),
            ages: FxHashMap::default(),
        }
    }

    /// The greater, the earlier it runs: first all that have not fallen behind.
    fn priority(&self, task: &Task) -> (std::cmp::Reverse<u32>, u64, u32) {
        let key = (task.cta, task.group);
        let behind = self.behind.get(&key).copied().unwrap_or(0);
        let rank = match self.seed {
            Some(seed) => {
                let number = u64::from(task.cta) << 32 | u64::from(task.group);
                Rng::new(seed ^ Rng::new(number).next()).next()
            }
            None => self.ages.get(&task.cta).copied().unwrap_or(0).into(),
        };
        (std::cmp::Reverse(behind), rank, task.group)
    }

    fn greatest(&mut self, tasks: &[Task]) -> Result<Task, Departed> {
        for task in tasks {
            let age = self.ages.len() as u32;
            self.ages.entry(task.cta).or_insert(age);
        }
        let greatest = tasks.iter().max_by_key(|task| self.priority(task));
        greatest.copied().ok_or(Departed)
    }

    fn fall_behind(&mut self, task: Task) {
        let last = self.behind.values().max().copied().unwrap_or(0);
        self.behind.insert((task.cta, task.group), last + 1);
        self.runs.1 = 0;
    }
}

impl Chooser for Priorities {
    fn next_cta(
        &mut self,
        may_start: bool,
        tasks: &dyn Fn() -> Vec<Task>,
    ) -> Result<NextCta, Departed> {
        if may_start {
            // The order in which CTAs begin is as open as all else; of the few that are live,
            // priorities choose.
            let last = match self.seed {
                Some(seed) => Rng::new(seed).next() & 1 == 1,
                None => true,
            };
            return Ok(NextCta::Start { last });
        }
        Ok(NextCta::One(self.greatest(&tasks())?.cta))
    }

    fn next_group(&mut self, tasks: &dyn Fn() -> Vec<Task>) -> Result<NextGroup, Departed> {
        let Task { cta, group, lanes } = self.greatest(&tasks())?;
        if self.runs.0 != (cta, group) {
            self.runs = ((cta, group), 0);
        }
        Ok(NextGroup::One { group, lanes })
    }

    fn stop_here(&mut self, task: Task) -> bool {
        self.passed += 1;
        self.runs.1 += 1;
        let is_due = self.demotions.last().is_some_and(|&at| at < self.passed);
        if is_due {
            self.demotions.pop();
        }
        if is_due || self.runs.1 >= PATIENCE {
            self.fall_behind(task);
            return true;
        }
        // What the task did may have let one with a greater priority go on.
        self.seed.is_some()
    }

    fn note(&mut self, event: Event) {
        let Event::Yields(task) = event;
        self.fall_behind(task);
    }
}
