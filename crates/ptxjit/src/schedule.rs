//! Orders of progress, and their names.

use std::fmt;
use std::str::FromStr;

/// In what order the threads of a launch make progress.
///
/// [`Schedule::Parallel`], [`Schedule::Deterministic`] and [`Schedule::Random`] run compiled code,
/// unless the launch is interpreted for another reason: its checks, or because the schedule is
/// recorded or replayed. The others always run in the interpreter, one group of lanes between two
/// preemption points at a time. The same number draws another random order in compiled code.
///
/// Under all but the first two, what PTX calls asynchronous completes as late as the program
/// allows: a program that forgets to wait for a copy or a product gives another result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Schedule {
    /// As it comes: all workers take blocks in ascending order. In the interpreter the same as
    /// [`Schedule::Deterministic`].
    #[default]
    Parallel,
    /// One worker, a fixed order: a launch does the same every time.
    Deterministic,
    /// One group of lanes after the other, each to its next preemption point.
    RoundRobin,
    /// One worker, an order drawn from a seed: the same seed gives the same order.
    Random(u64),
    /// The newest lanes first and as long as possible, the last block first.
    Adversarial,
    /// Random priorities and `depth - 1` points at which the one that runs falls behind all others:
    /// Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs"
    /// (ASPLOS 2010).
    Pct {
        /// Of the priorities and the points.
        seed: u64,
        /// Depth of the bugs that are looked for.
        depth: u32,
    },
}

impl Schedule {
    /// Whether only the interpreter has it.
    pub(crate) fn is_interpreted(self) -> bool {
        match self {
            Schedule::Parallel | Schedule::Deterministic | Schedule::Random(_) => false,
            Schedule::RoundRobin | Schedule::Adversarial | Schedule::Pct { .. } => true,
        }
    }

    /// Whether asynchronous copies and products complete as late as the program allows.
    pub(crate) fn completes_late(self) -> bool {
        match self {
            Schedule::Parallel | Schedule::Deterministic => false,
            Schedule::Random(_)
            | Schedule::RoundRobin
            | Schedule::Adversarial
            | Schedule::Pct { .. } => true,
        }
    }

    /// The interpreter's schedule, for a launch with so many preemption points.
    pub(crate) fn interpreted(self, points: u64) -> ptxjit_interp::Schedule {
        match self {
            Schedule::Parallel | Schedule::Deterministic => ptxjit_interp::Schedule::Deterministic,
            Schedule::RoundRobin => ptxjit_interp::Schedule::RoundRobin,
            Schedule::Random(seed) => ptxjit_interp::Schedule::Random(seed),
            Schedule::Adversarial => ptxjit_interp::Schedule::Adversarial,
            Schedule::Pct { seed, depth } => ptxjit_interp::Schedule::Pct {
                seed,
                depth,
                points,
            },
        }
    }

    /// The runtime's schedule; the interpreter's are none.
    pub(crate) fn compiled(self) -> ptxjit_runtime::Schedule {
        match self {
            Schedule::Parallel => ptxjit_runtime::Schedule::Parallel,
            Schedule::Random(seed) => ptxjit_runtime::Schedule::Seed(seed),
            Schedule::Deterministic
            | Schedule::RoundRobin
            | Schedule::Adversarial
            | Schedule::Pct { .. } => ptxjit_runtime::Schedule::Deterministic,
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedule::Parallel => f.write_str("parallel"),
            Schedule::Deterministic => f.write_str("deterministic"),
            Schedule::RoundRobin => f.write_str("roundrobin"),
            Schedule::Random(seed) => write!(f, "random:{seed}"),
            Schedule::Adversarial => f.write_str("adversarial"),
            Schedule::Pct { seed, depth } => write!(f, "pct:{seed}:{depth}"),
        }
    }
}

/// A name that is no schedule's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{0}` is none of deterministic, roundrobin, random:SEED, adversarial, pct:SEED, pct:SEED:DEPTH"
)]
pub struct NoSchedule(String);

/// The names of [`Display`](fmt::Display); `seed:N` stands for `random:N`, and `pct:SEED` for depth
/// 3.
impl FromStr for Schedule {
    type Err = NoSchedule;

    fn from_str(text: &str) -> Result<Schedule, NoSchedule> {
        let mut words = text.split(':');
        let (name, numbers) = (words.next().unwrap_or(""), words.collect::<Vec<_>>());
        let schedule = match (name, numbers.as_slice()) {
            ("parallel", []) => Some(Schedule::Parallel),
            ("deterministic", []) => Some(Schedule::Deterministic),
            ("roundrobin", []) => Some(Schedule::RoundRobin),
            ("adversarial", []) => Some(Schedule::Adversarial),
            ("random" | "seed", [seed]) => seed.parse().ok().map(Schedule::Random),
            ("pct", [seed]) => seed
                .parse()
                .ok()
                .map(|seed| Schedule::Pct { seed, depth: 3 }),
            ("pct", [seed, depth]) => {
                let depth = depth
                    .parse()
                    .ok()
                    .filter(|depth| (1..=1000).contains(depth));
                let seed = seed.parse().ok();
                seed.zip(depth)
                    .map(|(seed, depth)| Schedule::Pct { seed, depth })
            }
            _ => None,
        };
        schedule.ok_or_else(|| NoSchedule(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in [
            "parallel",
            "deterministic",
            "roundrobin",
            "random:7",
            "adversarial",
            "pct:7:2",
        ] {
            let schedule: Schedule = name.parse().unwrap();
            assert_eq!(schedule.to_string(), name);
        }
        assert_eq!("seed:7".parse(), Ok(Schedule::Random(7)));
        assert_eq!("pct:7".parse(), Ok(Schedule::Pct { seed: 7, depth: 3 }));
        for name in [
            "",
            "random",
            "random:",
            "random:x",
            "pct",
            "pct:1:0",
            "pct:1:2:3",
            "Random:1",
        ] {
            assert!(name.parse::<Schedule>().is_err(), "{name}");
        }
    }
}
