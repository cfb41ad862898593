//! Who has accessed which bytes, and whether two accesses race.
//!
//! PTX ISA, "Memory Consistency Model": two overlapping accesses, one of them a write, race unless
//! causality orders them or they are morally strong. For each word of memory the accesses are kept
//! that a later one may race with. One that is ordered before a newer one goes, if whatever races
//! with it would race with the newer one, too.

use ptxjit_ir::Scope;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::Place;
use super::clock::{Agent, Clock, Epoch};
use super::finding::{AccessOp, Hazard, Reason};

/// A statement with the calls that led to it, as a number.
pub(crate) type SiteId = u32;

/// Bytes that a cell is about.
const WORD: u64 = 4;

/// More readers of a word than this are not kept, nor more writers: with so many that nothing
/// orders, one will do.
const MOST_READERS: usize = 48;
const MOST_WRITERS: usize = 16;

/// How an access is ordered by itself.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Strength {
    Weak,
    /// Weak, and through a cache that no write reaches.
    NonCoherent,
    Strong(Scope),
}

/// An access to memory.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Event {
    pub(crate) agent: Agent,
    /// The thread that makes it, or asked for it.
    pub(crate) by: Agent,
    pub(crate) epoch: Epoch,
    pub(crate) site: SiteId,
    pub(crate) op: AccessOp,
    pub(crate) is_write: bool,
    pub(crate) strength: Strength,
    pub(crate) addr: u64,
    pub(crate) size: u32,
    /// A write of what is there already.
    pub(crate) keeps: bool,
    /// Later accesses may race with it.
    pub(crate) is_kept: bool,
}

impl Event {
    fn end(&self) -> u64 {
        self.addr + u64::from(self.size)
    }

    fn overlaps(&self, other: &Event) -> bool {
        self.addr < other.end() && other.addr < self.end()
    }

    fn is_copy(&self) -> bool {
        self.agent.is_copier()
    }
}

/// A pair of accesses that race.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Race {
    pub(crate) old: Event,
    pub(crate) new: Event,
    pub(crate) hazard: Hazard,
    pub(crate) reason: Reason,
}

/// How CTAs lie in clusters: for scopes.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Clusters {
    pub(crate) grid: [u32; 3],
    pub(crate) cluster: [u32; 3],
}

impl Clusters {
    pub(crate) fn cluster_of(&self, cta: u32) -> [u32; 3] {
        let [x, y, _] = self.grid;
        let ctaid = [cta % x, cta / x % y, cta / x / y];
        std::array::from_fn(|axis| ctaid[axis] / self.cluster[axis])
    }

    /// Whether a scope seen from one CTA includes threads of the other.
    pub(crate) fn includes(&self, scope: Scope, from: u32, to: u32) -> bool {
        match scope {
            Scope::Cta => from == to,
            Scope::Cluster => from == to || self.cluster_of(from) == self.cluster_of(to),
            Scope::Gpu | Scope::Sys => true,
        }
    }
}

type Cell = SmallVec<[Event; 2]>;

/// The accesses to one memory: that of the device, or a CTA's shared memory.
#[derive(Default)]
pub(crate) struct History {
    cells: FxHashMap<u64, Cell>,
}

impl History {
    /// Notes an access by an agent whose past is `clock`, and calls `found` for each race.
    pub(crate) fn access(
        &mut self,
        new: Event,
        clock: &Clock,
        clusters: &Clusters,
        found: &mut dyn FnMut(Race),
    ) {
        let mut last: Option<Event> = None;
        for word in new.addr / WORD..new.end().div_ceil(WORD) {
            let cell = self.cells.entry(word).or_default();
            for old in cell.iter() {
                // Words of a wide access have the same neighbours: each pair once.
                let is_known = last.is_some_and(|last| {
                    (last.agent, last.site, last.epoch, last.is_write)
                        == (old.agent, old.site, old.epoch, old.is_write)
                });
                if is_known || !new.overlaps(old) {
                    continue;
                }
                if let Some(race) = race(old, &new, clock, clusters) {
                    last = Some(*old);
                    found(race);
                }
            }
            if !new.is_kept {
                continue;
            }
            cell.retain(|old| !replaces(&new, old, clock));
            let n_alike = cell
                .iter()
                .filter(|old| old.is_write == new.is_write)
                .count();
            let most = if new.is_write {
                MOST_WRITERS
            } else {
                MOST_READERS
            };
            if n_alike >= most {
                if !new.is_write {
                    continue;
                }
                let oldest = cell.iter().position(|old| old.is_write);
                oldest.map(|at| cell.remove(at));
            }
            cell.push(new);
        }
    }

    /// Memory whose history starts again.
    pub(crate) fn forget(&mut self, addr: u64, size: u64) {
        let words = addr / WORD..(addr + size).div_ceil(WORD);
        if words.end - words.start > self.cells.len() as u64 {
            self.cells.retain(|word, _| !words.contains(word));
            return;
        }
        for word in words {
            self.cells.remove(&word);
        }
    }
}

/// Whether two accesses are those of one copy, which zero-fills what it does not read.
fn are_of_one_copy(old: &Event, new: &Event) -> bool {
    new.is_copy() && (old.agent, old.epoch) == (new.agent, new.epoch)
}

/// Whether an earlier access is ordered before what an agent with this past does now.
fn is_ordered(old: &Event, new: &Event, clock: &Clock) -> bool {
    // A thread's own copies run beside it; they come after what it did before it asked for them.
    old.agent == new.by || clock.get(old.agent) >= old.epoch
}

/// Whether the async proxy may not see an ordinary write yet.
fn lacks_proxy_fence(old: &Event, new: &Event, clock: &Clock) -> bool {
    let crosses = new.agent.is_bulk() && !old.agent.is_bulk();
    crosses && old.is_write && clock.get_proxied(old.agent) < old.epoch
}

fn race(old: &Event, new: &Event, clock: &Clock, clusters: &Clusters) -> Option<Race> {
    if !old.is_write && !new.is_write || are_of_one_copy(old, new) {
        return None;
    }
    let hazard = match (old.is_write, new.is_write) {
        (true, false) => Hazard::Raw,
        (false, _) => Hazard::War,
        (true, true) => Hazard::Waw,
    };
    let race = |reason| {
        Some(Race {
            old: *old,
            new: *new,
            hazard,
            reason,
        })
    };
    let is_non_coherent = |event: &Event| event.strength == Strength::NonCoherent;
    if is_non_coherent(old) || is_non_coherent(new) {
        return race(Reason::Proxy);
    }
    if is_ordered(old, new, clock) {
        return match lacks_proxy_fence(old, new, clock) {
            true => race(Reason::Proxy),
            false => None,
        };
    }
    if let (Strength::Strong(theirs), Strength::Strong(own)) = (old.strength, new.strength) {
        let (a, b) = (old.agent.cta, new.agent.cta);
        if !clusters.includes(theirs, a, b) || !clusters.includes(own, b, a) {
            return race(Reason::Scope);
        }
        if (old.addr, old.size) != (new.addr, new.size) {
            return race(Reason::MixedSize);
        }
        return None;
    }
    race(match old.is_copy() || new.is_copy() {
        true => Reason::Async,
        false => Reason::Order,
    })
}

/// Whether whatever races with the old access later would race with the new one, too.
fn replaces(new: &Event, old: &Event, clock: &Clock) -> bool {
    if old.strength == Strength::NonCoherent || new.strength == Strength::NonCoherent {
        return old.strength == new.strength && (old.agent, old.addr) == (new.agent, new.addr);
    }
    let covers = new.addr <= old.addr && old.end() <= new.end();
    let conflicts = new.is_write || !old.is_write;
    let is_weaker = match (new.strength, old.strength) {
        (Strength::Weak, _) => true,
        (Strength::Strong(new_scope), Strength::Strong(old_scope)) => {
            new_scope <= old_scope && (old.addr, old.size) == (new.addr, new.size)
        }
        _ => false,
    };
    // A write that changes nothing must not hide one that does.
    let tells = !new.keeps || old.keeps || !old.is_write;
    covers && conflicts && is_weaker && tells && is_ordered(old, new, clock)
}

impl super::Watch {
    /// The history of a memory, which must be put back.
    pub(super) fn take_history(&mut self, place: Place) -> History {
        match place {
            Place::Device => std::mem::take(&mut self.device),
            Place::Shared(cta) => {
                let cta = self.ctas.get_mut(&cta);
                cta.map_or_else(History::default, |cta| std::mem::take(&mut cta.shared))
            }
        }
    }

    pub(super) fn put_history(&mut self, place: Place, history: History) {
        match place {
            Place::Device => self.device = history,
            Place::Shared(cta) => {
                if let Some(cta) = self.ctas.get_mut(&cta) {
                    cta.shared = history;
                }
            }
        }
    }
}
