//! Which edges into a block meet: lanes that took one of them can still be pending at the block
//! while others take the other.
//!
//! A parameter for which all edges that meet have the same argument needs no blend. An unrolled
//! loop with a divergent branch in its body is the usual case: its remainder leaves through a chain
//! of uniform branches, each with another value of the counter, and only the edges of the last link
//! meet.
//!
//! ```text
//! block3: brif v1, block12(v4), block4                 uniform: meets no other
//! block4: brif v2, block6(v5), block5                  divergent: meets block5's edge
//! block5: ...; jump block6(v5)
//! block6: jump block12(v6)
//! ```

use ptxjit_ir::Block;
use rustc_hash::FxHashMap;

use super::flow::{Given, Pending};
use crate::analysis::order::Node;
use crate::cost;
use ptxjit_passes::effort::Spent;

/// Two edges that meet, by their numbers among the edges into the block.
pub(super) struct Meeting {
    pub edges: [usize; 2],
    /// The first may have been taken in an earlier iteration of a loop around the other.
    pub over_iterations: bool,
}

/// The edges over which lanes have come that are pending at the block, as sets of bits.
#[derive(Copy, Clone, PartialEq, Eq, Default)]
struct Taken {
    now: u64,
    /// In earlier iterations of a loop.
    before: u64,
}

impl Taken {
    fn with(self, other: Taken) -> Taken {
        Taken {
            now: self.now | other.now,
            before: self.before | other.before,
        }
    }

    fn in_next_iteration(self) -> Taken {
        Taken {
            now: 0,
            before: self.now | self.before,
        }
    }
}

/// The search for one block.
pub(super) struct Search<'a> {
    given: &'a Given<'a>,
    pending: &'a Pending,
    diverges: &'a dyn Fn(Block) -> bool,
    /// The block's position.
    target: usize,
    /// Where the edges come from, in the order of their numbers.
    sources: &'a [usize],
    /// What has come to the nodes so far.
    arrived: FxHashMap<usize, Taken>,
    work: Vec<usize>,
    meetings: Vec<Meeting>,
}

impl<'a> Search<'a> {
    /// `sources` has the position of the branch of each edge into the block; an edge that goes to
    /// the end of a loop with this header is not among them.
    pub(super) fn new(
        given: &'a Given<'a>,
        pending: &'a Pending,
        diverges: &'a dyn Fn(Block) -> bool,
        target: usize,
        sources: &'a [usize],
    ) -> Search<'a> {
        Search {
            given,
            pending,
            diverges,
            target,
            sources,
            arrived: FxHashMap::default(),
            work: sources.to_vec(),
            meetings: Vec::new(),
        }
    }

    /// The edges that meet, or `None` if finding them takes too long.
    pub(super) fn run(mut self) -> Result<Option<Vec<Meeting>>, Spent> {
        if self.sources.len() > u64::BITS as usize {
            return Ok(None);
        }
        let mut n_visits = 0;
        while let Some(pos) = self.work.pop() {
            n_visits += 1;
            if n_visits > cost::MOST_VISITS_TO_MEET {
                return Ok(None);
            }
            self.given.effort.spend(1)?;
            self.visit(pos);
        }
        Ok(Some(self.meetings))
    }

    /// What is pending at the block goes on as lanes do; see [`Pending`].
    fn visit(&mut self, pos: usize) {
        let Given { order, yields, .. } = *self.given;
        let pending = self.pending;
        let arrived = self.arrived.get(&pos).copied().unwrap_or_default();
        let skipped = pending.arrive[pos].first().copied();
        if let Some(region) = self.given.lane_loop_at(pos) {
            let left = region.exits.iter().chain(&pending.body[pos]).min();
            self.flow(arrived, left.copied());
            self.flow(arrived, skipped);
            return;
        }
        match order.nodes[pos] {
            Node::Block(block) => self.block(pos, block, arrived),
            Node::LoopEnd(header) => {
                self.flow(arrived.in_next_iteration(), Some(order.pos(header)));
                if pending.maybe_empty[pos] || yields[header].is_some() {
                    self.flow(arrived, skipped);
                }
            }
        }
    }

    fn block(&mut self, pos: usize, block: Block, arrived: Taken) {
        let (given, pending) = (self.given, self.pending);
        if given.waits[block] || pending.maybe_empty[pos] {
            self.flow(arrived, pending.arrive[pos].first().copied());
        }
        let before = match given.always_waits(block) {
            true => Taken::default(),
            false => arrived,
        };
        let targets = given.order.targets(given.func, pos);
        let sources = self.sources.iter().enumerate();
        let mut edges = sources.filter(|&(_, &at)| at == pos);
        let edges: Vec<Option<usize>> = targets
            .iter()
            .map(|&to| (to == self.target).then(|| edges.next().map(|(number, _)| number))?)
            .collect();
        let elsewhere = pending.body[pos].first().copied();
        if (self.diverges)(block) || targets.is_empty() {
            let mut taken = before;
            for edge in edges.into_iter().flatten() {
                taken = self.take(edge, taken);
            }
            let next = targets.iter().copied().chain(elsewhere).min();
            self.flow(taken, next);
            return;
        }
        for (edge, to) in edges.into_iter().zip(targets) {
            let taken = match edge {
                Some(edge) => self.take(edge, before),
                None => before,
            };
            self.flow(taken, Some(elsewhere.map_or(to, |node| node.min(to))));
        }
    }

    /// Lanes take an edge while those of `taken` are pending.
    fn take(&mut self, edge: usize, taken: Taken) -> Taken {
        for (set, over_iterations) in [(taken.now, false), (taken.before, true)] {
            for other in (0..self.sources.len()).filter(|other| set >> other & 1 != 0) {
                self.meetings.push(Meeting {
                    edges: [other, edge],
                    over_iterations,
                });
            }
        }
        Taken {
            now: taken.now | 1 << edge,
            ..taken
        }
    }

    /// Lanes go on at `next`; at the block itself none of them is pending any more.
    fn flow(&mut self, taken: Taken, next: Option<usize>) {
        let Some(next) = next.filter(|&next| next != self.target) else {
            return;
        };
        let before = self.arrived.entry(next).or_default();
        let after = before.with(taken);
        if std::mem::replace(before, after) != after {
            self.work.push(next);
        }
    }
}
