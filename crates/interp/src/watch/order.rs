//! What orders accesses of different threads: barriers, and values in memory through which threads
//! synchronize.
//!
//! PTX ISA, "Memory Consistency Model", sections "Release and Acquire Patterns" and
//! "Synchronizes-With": a release pattern on a location synchronizes with an acquire pattern that
//! observes it, also through a chain of read-modify-writes, if the scopes of both include each
//! other. For each location that is accessed strongly the pasts are kept that its value carries:
//! those released at device scope, and for each CTA those that its own threads released for it.
//! `fence.sc` counts as `fence.acq_rel`: the order among such fences is a matter of luck.

use std::collections::{BTreeMap, VecDeque};

use ptxjit_ir::{MemSem, Scope};
use rustc_hash::FxHashMap;

use super::clock::{Agent, AgentKind, Clock, Epoch};
use super::copies::{Begun, Late};
use super::history::Clusters;

/// Which memory an address is of: that of the device, or a CTA's shared memory.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Place {
    Device,
    Shared(u32),
}

/// What a thread knows and hands on.
#[derive(Clone, Default, Debug)]
pub(crate) struct Past {
    pub(crate) clock: Clock,
    epoch: Epoch,
    /// What its latest fence lets strong writes carry: within the CTA, and beyond.
    fenced: [Clock; 2],
    /// What strong reads have seen, for a fence to take over: from its own CTA, and from anywhere.
    seen: [Clock; 2],
    /// What it has released or seen by its latest operations on single locations.
    at: VecDeque<AtLocation>,
    copies: Copies,
    bulk: Copies,
}

/// Locations of which a thread remembers what its operations there did: the two operations of a
/// pattern stand close together.
const MOST_LOCATIONS: usize = 4;

/// The first half of patterns of two operations on one location (PTX ISA, "Release and Acquire
/// Patterns"): a release lets later strong writes there carry its past, a strong read lets later
/// acquires there have what it has seen. It holds whichever thread writes there in between.
#[derive(Clone, Debug)]
struct AtLocation {
    key: (Place, u64),
    /// Within the CTA, and beyond.
    released: [Clock; 2],
    /// From its own CTA, and from anywhere.
    seen: [Clock; 2],
}

/// A thread's asynchronous copies, by their numbers.
#[derive(Clone, Default, Debug)]
struct Copies {
    issued: Epoch,
    /// The last copy of each group.
    groups: Vec<Epoch>,
}

impl Past {
    /// The epoch of accesses now.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch + 1
    }

    /// The number of the next bulk copy that completes in a group.
    pub(crate) fn issue_bulk(&mut self) -> Epoch {
        self.bulk.issued += 1;
        self.bulk.issued
    }

    pub(crate) fn commit_bulk(&mut self) {
        let last = self.bulk.issued;
        self.bulk.groups.push(last);
    }

    /// Knows the bulk copies of all groups but so many last ones, or only that they have read.
    pub(crate) fn wait_bulk(&mut self, agent: Agent, n: usize, reads: bool) {
        let groups = &self.bulk.groups;
        let Some(idx) = groups.len().checked_sub(n.saturating_add(1)) else {
            return;
        };
        let last = groups[idx];
        self.clock.set(agent.of_kind(AgentKind::BulkReader), last);
        if !reads {
            self.clock.set(agent.of_kind(AgentKind::BulkWriter), last);
        }
    }

    /// The async proxy knows all that the thread knows, and what it did itself.
    pub(crate) fn fence_proxies(&mut self, agent: Agent) {
        self.hand_on(agent);
        self.clock.fence_proxies();
    }

    /// What the thread remembers of a location.
    fn at(&mut self, key: (Place, u64)) -> &mut AtLocation {
        if let Some(idx) = self.at.iter().position(|it| it.key == key) {
            return &mut self.at[idx];
        }
        if self.at.len() == MOST_LOCATIONS {
            self.at.pop_front();
        }
        self.at.push_back(AtLocation {
            key,
            released: Default::default(),
            seen: Default::default(),
        });
        let last = self.at.len() - 1;
        &mut self.at[last]
    }

    /// All that happened before now, to hand on. What the thread does next is not part of it.
    fn hand_on(&mut self, agent: Agent) -> Clock {
        self.epoch += 1;
        self.clock.set(agent, self.epoch);
        self.clock.clone()
    }

    /// The number of the next copy.
    pub(crate) fn issue(&mut self) -> Epoch {
        self.copies.issued += 1;
        self.copies.issued
    }

    pub(crate) fn commit_group(&mut self) {
        let last = self.copies.issued;
        self.copies.groups.push(last);
    }

    /// Knows the copies of all groups but so many last ones.
    pub(crate) fn wait_group(&mut self, agent: Agent, n: usize) {
        let groups = &self.copies.groups;
        if let Some(idx) = groups.len().checked_sub(n + 1) {
            let last = groups[idx];
            self.clock.set(agent.copier(), last);
        }
    }

    pub(crate) fn wait_all(&mut self, agent: Agent) {
        let last = self.copies.issued;
        self.clock.set(agent.copier(), last);
    }
}

/// A strong access to a location.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct StrongAccess {
    pub(crate) place: Place,
    pub(crate) addr: u64,
    pub(crate) size: u32,
    pub(crate) scope: Scope,
    pub(crate) sem: MemSem,
}

/// What the value of a location carries.
#[derive(Default)]
struct Location {
    /// The last strong write: by whom, scope and size.
    last: Option<(Agent, Scope, u32)>,
    device: Clock,
    by_cta: BTreeMap<u32, Clock>,
}

/// An mbarrier: the pasts of arrivals in this phase, and of the phase before.
#[derive(Default)]
struct Mbarrier {
    parity: bool,
    /// How many phases are over.
    phase: u64,
    arriving: Clock,
    complete: Clock,
    /// The phase in which each thread has arrived last, if its state can be asked for.
    arrived_in: FxHashMap<Agent, u64>,
}

impl Mbarrier {
    /// Takes notice of the phase.
    fn turn_to(&mut self, parity: bool) {
        if self.parity != parity {
            self.parity = parity;
            self.phase += 1;
            // Arrivals are read-modify-writes: a phase hands on what those before it did, to
            // threads that look late.
            self.complete.join(&std::mem::take(&mut self.arriving));
        }
    }
}

/// A thread, its past and its epoch.
type Arrival = (u32, Clock, Epoch);

/// The synchronization of a launch.
pub(crate) struct Order {
    clusters: Clusters,
    locations: BTreeMap<(Place, u64), Location>,
    mbarriers: FxHashMap<(u32, u64), Mbarrier>,
    /// Arrivals at barriers of CTAs.
    arrivals: FxHashMap<(u32, usize), Vec<Arrival>>,
    /// For each mbarrier on which bulk copies complete, by CTA and address: its number in the CTA,
    /// and how many there were.
    bulk: FxHashMap<u32, FxHashMap<u64, (u32, Epoch)>>,
    /// Operations that complete late, and have not yet.
    pub(super) begun: FxHashMap<Late, Begun>,
    /// Barriers of clusters: the pasts of arrivals in this phase, and of the phase before.
    at_cluster: FxHashMap<[u32; 3], [Clock; 2]>,
}

fn acquires(sem: MemSem) -> bool {
    matches!(sem, MemSem::Acquire | MemSem::AcqRel | MemSem::Sc)
}

fn releases(sem: MemSem) -> bool {
    matches!(sem, MemSem::Release | MemSem::AcqRel | MemSem::Sc)
}

impl Order {
    pub(crate) fn new(clusters: Clusters) -> Order {
        Order {
            clusters,
            locations: BTreeMap::new(),
            mbarriers: FxHashMap::default(),
            arrivals: FxHashMap::default(),
            bulk: FxHashMap::default(),
            begun: FxHashMap::default(),
            at_cluster: FxHashMap::default(),
        }
    }

    pub(crate) fn clusters(&self) -> &Clusters {
        &self.clusters
    }

    /// Whether a scope reaches beyond the CTA. One of clusters counts as the device's where
    /// clusters have several CTAs.
    fn is_wide(&self, scope: Scope) -> bool {
        match scope {
            Scope::Cta => false,
            Scope::Cluster => self.clusters.cluster != [1; 3],
            Scope::Gpu | Scope::Sys => true,
        }
    }

    fn is_strong_with(
        &self,
        last: (Agent, Scope, u32),
        agent: Agent,
        access: &StrongAccess,
    ) -> bool {
        let (other, scope, size) = last;
        let includes = |scope, from, to| self.clusters.includes(scope, from, to);
        size == access.size
            && includes(scope, other.cta, agent.cta)
            && includes(access.scope, agent.cta, other.cta)
    }

    /// A strong read whose value the program gets.
    pub(crate) fn strong_read(&mut self, agent: Agent, past: &mut Past, access: &StrongAccess) {
        let key = (access.place, access.addr);
        if acquires(access.sem)
            && let Some(at) = past.at.iter().find(|at| at.key == key)
        {
            past.clock
                .join(&at.seen[usize::from(self.is_wide(access.scope))]);
        }
        let Some(location) = self.locations.get(&(access.place, access.addr)) else {
            return;
        };
        if !location
            .last
            .is_some_and(|last| self.is_strong_with(last, agent, access))
        {
            return;
        }
        let near = location.by_cta.get(&agent.cta).cloned().unwrap_or_default();
        let mut all = near.clone();
        if self.is_wide(access.scope) {
            all.join(&location.device);
        }
        if acquires(access.sem) {
            past.clock.join(&all);
        }
        past.seen[0].join(&near);
        past.seen[1].join(&all);
        if !all.is_empty() {
            let at = past.at(key);
            at.seen[0].join(&near);
            at.seen[1].join(&all);
        }
    }

    /// A strong write; `is_update` if it is that of a read-modify-write.
    pub(crate) fn strong_write(
        &mut self,
        agent: Agent,
        past: &mut Past,
        access: &StrongAccess,
        is_update: bool,
    ) {
        let key = (access.place, access.addr);
        let [mut near, mut far] = past.fenced.clone();
        if releases(access.sem) {
            near = past.hand_on(agent);
            if self.is_wide(access.scope) {
                far = near.clone();
            }
            past.at(key).released = [near.clone(), far.clone()];
        } else if let Some(at) = past.at.iter().find(|at| at.key == key) {
            near.join(&at.released[0]);
            far.join(&at.released[1]);
        }
        if !self.is_wide(access.scope) {
            far = Clock::default();
        }
        let carries = near.is_empty() && far.is_empty();
        if carries && !self.locations.contains_key(&key) {
            return;
        }
        let last = self.locations.get(&key).and_then(|location| location.last);
        let is_own = last.is_some_and(|(other, ..)| other == agent) && !is_update;
        let goes_on =
            is_update && last.is_some_and(|last| self.is_strong_with(last, agent, access));
        let location = self.locations.entry(key).or_default();
        if !is_own && !goes_on {
            *location = Location::default();
        }
        location.last = Some((agent, access.scope, access.size));
        location.device.join(&far);
        if !near.is_empty() {
            location.by_cta.entry(agent.cta).or_default().join(&near);
        }
    }

    /// A weak write: what was carried there is gone.
    pub(crate) fn weak_write(&mut self, place: Place, addr: u64, size: u32) {
        let end = addr + u64::from(size);
        if !self.locations.is_empty() {
            let first = addr.saturating_sub(15);
            let hit: Vec<_> = (self.locations.range((place, first)..(place, end)))
                .map(|(&key, _)| key)
                .filter(|&(_, at)| at + 16 > addr)
                .collect();
            for key in hit {
                self.locations.remove(&key);
            }
        }
        if let Place::Shared(cta) = place
            && !self.mbarriers.is_empty()
        {
            self.mbarriers
                .retain(|&(of, at), _| of != cta || at >= end || at + 8 <= addr);
        }
    }

    pub(crate) fn fence(&mut self, agent: Agent, past: &mut Past, sem: MemSem, scope: Scope) {
        let is_wide = self.is_wide(scope);
        if acquires(sem) {
            let seen = past.seen[usize::from(is_wide)].clone();
            past.clock.join(&seen);
        }
        if releases(sem) {
            let clock = past.hand_on(agent);
            if is_wide {
                past.fenced[1] = clock.clone();
            }
            past.fenced[0] = clock;
        }
    }

    /// An arrival at an mbarrier, which has this parity behind it.
    pub(crate) fn mbarrier_arrive(
        &mut self,
        (agent, past): (Agent, &mut Past),
        at: (u32, u64),
        releases: bool,
        parity: bool,
    ) {
        let mbarrier = self.mbarriers.entry(at).or_default();
        mbarrier.arrived_in.insert(agent, mbarrier.phase);
        // A relaxed arrival is a strong write: it carries what a fence before it lets go.
        let carried = match releases {
            true => past.hand_on(agent),
            false => past.fenced[usize::from(agent.cta != at.0)].clone(),
        };
        mbarrier.arriving.join(&carried);
        mbarrier.turn_to(parity);
    }

    /// All that happened before now, to be handed on later; with the thread's copies so far.
    pub(crate) fn past_with_copies(&mut self, agent: Agent, past: &mut Past) -> Clock {
        let mut clock = past.hand_on(agent);
        clock.set(agent.copier(), past.copies.issued);
        clock
    }

    /// All that happened before now, to be handed on later.
    pub(crate) fn past(&mut self, agent: Agent, past: &mut Past) -> Clock {
        past.hand_on(agent)
    }

    /// What happened before an arrival at an mbarrier, which has this parity behind it.
    pub(crate) fn mbarrier_learns(&mut self, at: (u32, u64), clock: &Clock, parity: bool) {
        let mbarrier = self.mbarriers.entry(at).or_default();
        mbarrier.arriving.join(clock);
        mbarrier.turn_to(parity);
    }

    /// How many phases of an mbarrier are over since a thread has arrived last; none if it has not.
    pub(crate) fn phases_since_arrival(&self, agent: Agent, at: (u32, u64)) -> u64 {
        let Some(mbarrier) = self.mbarriers.get(&at) else {
            return 0;
        };
        let arrived = mbarrier.arrived_in.get(&agent);
        arrived.map_or(0, |phase| mbarrier.phase - phase)
    }

    /// What makes the bulk copies that complete on an mbarrier, and the number of the next.
    pub(crate) fn issue_on(&mut self, at: (u32, u64)) -> (Agent, Epoch) {
        let of_cta = self.bulk.entry(at.0).or_default();
        let n = of_cta.len() as u32;
        let (idx, issued) = of_cta.entry(at.1).or_insert((n, 0));
        *issued += 1;
        let agent = Agent {
            cta: at.0,
            kind: AgentKind::Bulk,
            idx: *idx,
        };
        (agent, *issued)
    }

    /// A bulk copy arrives at an mbarrier, which has this parity behind it.
    pub(crate) fn mbarrier_bytes(
        &mut self,
        at: (u32, u64),
        (agent, number): (Agent, Epoch),
        parity: bool,
    ) {
        let mbarrier = self.mbarriers.entry(at).or_default();
        mbarrier.arriving.set(agent, number);
        mbarrier.turn_to(parity);
    }

    /// The thread's copies arrive at an mbarrier, too.
    pub(crate) fn mbarrier_copies(&mut self, agent: Agent, past: &mut Past, at: (u32, u64)) {
        let clock = self.past_with_copies(agent, past);
        let mbarrier = self.mbarriers.entry(at).or_default();
        mbarrier.arriving.join(&clock);
    }

    /// A phase was found complete. A thread that does not acquire by that can by a fence.
    pub(crate) fn mbarrier_complete(&mut self, past: &mut Past, at: (u32, u64), acquires: bool) {
        let Some(mbarrier) = self.mbarriers.get(&at) else {
            return;
        };
        if acquires {
            past.clock.join(&mbarrier.complete);
        }
        for seen in &mut past.seen {
            seen.join(&mbarrier.complete);
        }
    }

    /// A thread arrives at the barrier of its cluster.
    pub(crate) fn cluster_arrive(&mut self, agent: Agent, past: &mut Past) {
        let clock = past.hand_on(agent);
        let cluster = self.clusters.cluster_of(agent.cta);
        self.at_cluster.entry(cluster).or_default()[0].join(&clock);
    }

    /// All threads of the cluster of a CTA have arrived.
    pub(crate) fn cluster_complete(&mut self, cta: u32) {
        let cluster = self.clusters.cluster_of(cta);
        let [arriving, complete] = self.at_cluster.entry(cluster).or_default();
        *complete = std::mem::take(arriving);
    }

    /// A thread has waited for the barrier of its cluster.
    pub(crate) fn cluster_wait(&mut self, cta: u32, past: &mut Past) {
        if let Some([_, complete]) = self.at_cluster.get(&self.clusters.cluster_of(cta)) {
            past.clock.join(complete);
        }
    }

    /// A thread has come to a barrier of its CTA.
    pub(crate) fn barrier_arrive(&mut self, agent: Agent, past: &mut Past, id: usize) {
        past.epoch += 1;
        // What each knows of itself is put in on completion: now it would be a copy for each
        // thread.
        let arrivals = self.arrivals.entry((agent.cta, id)).or_default();
        arrivals.push((agent.idx, past.clock.clone(), past.epoch));
    }

    /// The pasts of all that have arrived at a barrier, but for those that `belongs_to_next` use of
    /// it.
    pub(crate) fn barrier_complete(
        &mut self,
        cta: u32,
        id: usize,
        belongs_to_next: &dyn Fn(u32) -> bool,
    ) -> Clock {
        let arrivals = self.arrivals.entry((cta, id)).or_default();
        let mut clock = Clock::default();
        let mut later = Vec::new();
        for (thread, past, epoch) in arrivals.drain(..) {
            if belongs_to_next(thread) {
                later.push((thread, past, epoch));
            } else {
                clock.join(&past);
                clock.set(Agent::thread(cta, thread), epoch);
            }
        }
        *arrivals = later;
        clock
    }

    /// The lanes of a warp know what all of them know.
    pub(crate) fn meet(&mut self, cta: u32, lanes: &mut [(u32, &mut Past)]) {
        let mut clock = Clock::default();
        for (thread, past) in lanes.iter_mut() {
            past.epoch += 1;
            clock.join(&past.clock);
            clock.set(Agent::thread(cta, *thread), past.epoch);
        }
        for (_, past) in lanes.iter_mut() {
            past.clock = clock.clone();
        }
    }

    /// A CTA has ended.
    pub(crate) fn end_cta(&mut self, cta: u32) {
        self.mbarriers.retain(|&(of, _), _| of != cta);
        self.arrivals.retain(|&(of, _), _| of != cta);
        let shared = Place::Shared(cta);
        self.locations.retain(|&(place, _), _| place != shared);
    }
}
