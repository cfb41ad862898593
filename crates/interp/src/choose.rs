//! In what order threads make progress.

/// A way to choose who goes on next, and how far.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Schedule {
    /// Threads in order, each as far as it gets; CTAs in sequence.
    #[default]
    Deterministic,
    /// One instruction of each thread in turn, some CTAs at a time.
    RoundRobin,
    /// Any thread of any of some CTAs, for a number of instructions drawn from the seed.
    Random(u64),
    /// The newest first and as long as possible, the last CTA first.
    Adversarial,
    /// By random priorities, with so many points less one at which the thread that runs falls behind all others: Burckhardt
    /// et al., "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs" (ASPLOS 2010). Tasks are threads.
    Pct {
        /// Of the priorities and the points.
        seed: u64,
        /// Depth of the bugs that are looked for.
        depth: u32,
    },
}

impl Schedule {
    /// CTAs that run side by side.
    pub(crate) fn live_ctas(self) -> usize {
        match self {
            Schedule::Deterministic => 1,
            _ => 4,
        }
    }

    pub(crate) fn seed(self) -> u64 {
        match self {
            Schedule::Random(seed) | Schedule::Pct { seed, .. } => seed,
            Schedule::Deterministic | Schedule::RoundRobin | Schedule::Adversarial => 0,
        }
    }
}

/// Random numbers: Steele et al., "Fast Splittable Pseudorandom Number Generators" (OOPSLA 2014), SplitMix64.
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
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}
