//! Launches of small blocks, of which several side by side run as one.
//!
//! Gangs stay within a row of threads, so those of small blocks are narrow, and what a gang
//! computes by itself is a large part of them. A kernel that [cannot tell](joinable) such blocks
//! from one as wide as all of them runs in the wide one, whose gangs are wider. Blocks of several
//! rows are also joined so that each row of threads accesses some cache lines one behind the other:
//! a block accesses other rows of memory for each of its own. Where the blocks of a row cannot be
//! divided, the last ones are a launch of their own.

use ptxjit_passes::analysis::joinable;

use crate::compile::{Failed, Limit, Variants, WARP};
use crate::launch::FEW_THREADS;
use crate::module::KernelInner;
use crate::{Dim3, Engine, Error, Launch, Schedule};

/// A row of blocks in which as many joined ones are beside others: these have most threads.
const LEAST_DIVIDED: u32 = 8;

/// Columns of joined blocks: accesses of a row of bytes are two cache lines.
const LONGEST: u32 = 128;

/// So many blocks side by side along x run as one.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Joined(pub(crate) u32);

impl Joined {
    /// The blocks whose rows have the widest gangs, and of these the most.
    fn most(Dim3(grid): Dim3, Dim3(block): Dim3) -> Joined {
        let n_threads = block.iter().fold(1, |all: u32, &n| all.saturating_mul(n));
        let fits = |joined: u32| {
            block[0].saturating_mul(joined) <= LONGEST
                && n_threads.saturating_mul(joined) <= ptxjit_runtime::MAX_THREADS
                && (grid[0].is_multiple_of(joined) || grid[0] / joined >= LEAST_DIVIDED)
        };
        // A grid that is too large is refused as a whole.
        if i32::try_from(grid[0]).is_err() {
            return Joined(1);
        }
        let gang = |joined: u32| (block[0] * joined).trailing_zeros().min(WARP.ilog2());
        let all = (1..=LONGEST).filter(|&joined| fits(joined));
        Joined(
            all.max_by_key(|&joined| (gang(joined), joined))
                .unwrap_or(1),
        )
    }

    pub(crate) fn grid(self, Dim3([x, y, z]): Dim3) -> Dim3 {
        Dim3([x.div_ceil(self.0), y, z])
    }

    pub(crate) fn block(self, Dim3([x, y, z]): Dim3) -> Dim3 {
        Dim3([x.saturating_mul(self.0), y, z])
    }
}

/// Columns of blocks.
#[derive(Copy, Clone)]
pub(crate) struct Columns {
    pub(crate) first: u32,
    pub(crate) n: u32,
    pub(crate) joined: Joined,
}

impl Columns {
    /// All of a grid, each block by itself.
    pub(crate) fn all(Dim3([n, ..]): Dim3) -> Columns {
        Columns {
            first: 0,
            n,
            joined: Joined(1),
        }
    }
}

impl Launch {
    /// The columns of joined blocks, and those that are left.
    pub(crate) fn columns(&self, limit: Limit) -> Result<(Columns, Option<Columns>), Error> {
        let Dim3([n, ..]) = self.n_blocks();
        let joined = self.joined(limit)?;
        let rest = n % joined.0;
        let columns = |first, n, joined| Columns { first, n, joined };
        let left = (rest != 0).then(|| columns(n - rest, rest, Joined(1)));
        Ok((columns(0, n - rest, joined), left))
    }

    /// None are joined where results tell of single blocks.
    fn joined(&self, limit: Limit) -> Result<Joined, Error> {
        let options = &self.options;
        let is_plain = self.actual_engine() == Engine::Jit
            && options.gang.is_none()
            && !options.memcheck
            && !options.sanitize.any()
            && options.coverage.is_none()
            && options.schedule == Schedule::Parallel
            && !self.keeps_choices()
            && !self.cooperative
            && self.cluster_shape() == Dim3([1; 3]);
        if !is_plain || self.n_threads() <= FEW_THREADS {
            return Ok(Joined(1));
        }
        let most = Joined::most(self.n_blocks(), self.block);
        if most == Joined(1) {
            return Ok(most);
        }
        let kernel = &self.kernel.inner;
        let block = most.block(self.block);
        let is_worth_it = kernel.variants.joins(kernel, block, self.block, limit)?;
        Ok(if is_worth_it { most } else { Joined(1) })
    }
}

impl Variants {
    /// Whether the kernel cannot tell, and joined blocks have wider gangs than a single one has
    /// columns, or longer rows than one.
    fn joins(
        &self,
        kernel: &KernelInner,
        joined: Dim3,
        single: Dim3,
        limit: Limit,
    ) -> Result<bool, Error> {
        let stored = kernel.stored.as_ref();
        let can_join = self.can_join.get(limit.until, || {
            let known = stored.and_then(|stored| stored.cache.get(stored.can_join_key()));
            if let Some(&[can_join]) = known.as_deref() {
                return Ok(can_join != 0);
            }
            let can_join = joinable::run(&*self.optimized(kernel, limit)?);
            if let Some(stored) = stored {
                stored.cache.put(stored.can_join_key(), &[can_join.into()]);
            }
            Ok(can_join)
        });
        let can_join = can_join.map_err(|why: Failed| limit.error(kernel, why))?;
        let gang = self.choose(kernel, joined, limit)?.gang;
        let has_rows = single.0[1..] != [1, 1];
        Ok(can_join && gang > 1 && (gang > single.0[0] || has_rows))
    }
}

#[cfg(test)]
mod tests {
    use super::Joined;
    use crate::Dim3;

    /// How many blocks of such a row are joined.
    fn joined(n_blocks: u32, block: [u32; 3]) -> u32 {
        Joined::most(Dim3([n_blocks, 1, 1]), Dim3(block)).0
    }

    #[test]
    fn the_widest_gangs_come_first_and_then_the_longest_rows() {
        assert_eq!(joined(64, [8, 4, 1]), 16);
        // Ten blocks are more columns, in gangs of eight.
        assert_eq!(joined(40, [12, 4, 1]), 8);
    }

    #[test]
    fn few_blocks_are_left_and_threads_are_no_more_than_a_block_may_have() {
        assert_eq!(joined(5, [32, 4, 1]), 1);
        assert_eq!(joined(67, [8, 4, 1]), 8);
        assert_eq!(joined(64, [32, 16, 1]), 2);
    }
}
