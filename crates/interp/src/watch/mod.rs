//! Watches how a launch runs, to find races, uses of what was never written, and misuse of
//! barriers: exactly, and slowly.
//!
//! Every access goes through [`Watch::access`], with the thread's past as [`order`] knows it;
//! [`history`] compares it with earlier ones. [`shadow`] follows values that were never written
//! through registers; memory has a state for each byte. What counts as an access, and how an
//! instruction takes part in the order, is said by the instructions and by the marks of the
//! frontend ([`ptxjit_ir::MarkOp`]).

mod clock;
pub(crate) mod copies;
pub(crate) mod finding;
mod history;
mod mbarrier;
mod order;
mod report;
pub(crate) mod shadow;
mod writes;

use std::collections::BTreeSet;

use ptxjit_ir::{BarrierOp, MemSem, Scope, Space, SrcLoc};
use rustc_hash::FxHashMap;

use clock::Agent;
use copies::Copy;
use finding::{AccessOp, Finding, FindingKind, Findings, Object, Severity, Site};
use history::{Clusters, Event, History, SiteId, Strength};
use order::{Order, Past, Place, StrongAccess};
use shadow::{OriginId, Shadow};
pub use writes::LastWrites;

/// What to look for.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct Checks {
    /// Exact bounds, lifetime, alignment.
    pub mem: bool,
    /// Races.
    pub race: bool,
    /// Writes of the value that is there already are errors, too.
    pub same_value: bool,
    /// Uses of what was never written.
    pub init: bool,
    /// Misuse of barriers and warp operations.
    pub sync: bool,
    /// Memory that is never freed.
    pub leak: bool,
}

impl Checks {
    /// Whether anything is looked for.
    pub fn any(&self) -> bool {
        self.mem || self.race || self.init || self.sync || self.leak
    }
}

/// What is known of a byte of memory: the bits of it that were never written.
pub(crate) mod byte {
    /// All were.
    pub(crate) const WRITTEN: u8 = 0;
    /// None was.
    pub(crate) const UNDEFINED: u8 = 0xff;
    /// Written with what was computed from such bits. Fields of bits leave runs of them, never this
    /// pattern.
    pub(crate) const SPOILT: u8 = 0x55;
}

/// The thread that does something, and where.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Who {
    pub(crate) cta: u32,
    pub(crate) ctaid: [u32; 3],
    pub(crate) thread: u32,
    pub(crate) tid: [u32; 3],
    pub(crate) site: SiteId,
}

impl Who {
    fn agent(&self) -> Agent {
        Agent::thread(self.cta, self.thread)
    }
}

/// An access as an instruction makes it.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Accessed {
    /// The CTA of whose shared memory it is; none for the device's.
    pub(crate) shared_of: Option<u32>,
    /// The generic address, or the offset in shared memory.
    pub(crate) addr: u64,
    pub(crate) size: u32,
    pub(crate) op: AccessOp,
    pub(crate) sem: MemSem,
    pub(crate) scope: Scope,
    /// A write of what is there.
    pub(crate) keeps: bool,
}

/// Where an undefined value came from.
struct Origin {
    who: Who,
    op: AccessOp,
    kind: FindingKind,
    space: Space,
    address: Option<u64>,
    object: Option<Object>,
}

/// What is known of a thread.
#[derive(Default)]
struct ThreadState {
    past: Past,
    /// How an mbarrier operation is done is no access of the program.
    is_quiet: bool,
    /// The copy whose accesses follow.
    copy: Option<Copy>,
    is_reduction: bool,
    /// What it reads is for the product of its warpgroup.
    is_product: bool,
    /// The next arrival at the barrier of the cluster is `.relaxed`.
    is_relaxed: bool,
    used_bytes: Option<u64>,
    /// States of the bytes of local memory; what lies beyond was never written.
    local: Vec<u8>,
}

/// What is known of a CTA.
struct CtaState {
    threads: Vec<ThreadState>,
    shared: History,
    bytes: Vec<u8>,
    /// Where mbarriers are.
    mbarriers: BTreeSet<u64>,
}

/// Names of what lies in memory.
#[derive(Default)]
pub(crate) struct Names {
    /// Offset, size and name of shared variables.
    pub(crate) shared: Vec<(u64, u64, String)>,
    /// Address, size and name of variables.
    pub(crate) globals: Vec<(u64, u64, String)>,
    /// Values and names of parameters.
    pub(crate) params: Vec<(u64, String)>,
}

/// A word: a number for its memory, and its place there.
pub(crate) type WordKey = (u64, u64);

/// See the module.
pub(crate) struct Watch {
    pub(crate) checks: Checks,
    order: Order,
    device: History,
    ctas: FxHashMap<u32, CtaState>,
    sites: Vec<Site>,
    site_ids: FxHashMap<Site, SiteId>,
    /// Of those without calls.
    kernel_sites: FxHashMap<SrcLoc, SiteId>,
    origins: Vec<Origin>,
    /// Of words that were written with what was never written: where that came from.
    origins_at: FxHashMap<WordKey, OriginId>,
    names: Names,
    grid: [u32; 3],
    block: [u32; 3],
    findings: Findings,
    allocated: FxHashMap<u64, (u64, Who)>,
    /// If they are wanted.
    pub(crate) writes: Option<LastWrites>,
}

/// A block that a launch allocated and did not free.
#[derive(Clone, Debug)]
pub struct Allocated {
    /// Its address.
    pub addr: u64,
    /// Its size.
    pub size: u64,
    /// The call that made it.
    pub access: finding::Access,
}

impl Watch {
    pub(crate) fn new(
        checks: Checks,
        (grid, block, cluster): ([u32; 3], [u32; 3], [u32; 3]),
        names: Names,
    ) -> Watch {
        Watch {
            checks,
            order: Order::new(Clusters { grid, cluster }),
            device: History::default(),
            ctas: FxHashMap::default(),
            sites: Vec::new(),
            site_ids: FxHashMap::default(),
            kernel_sites: FxHashMap::default(),
            origins: Vec::new(),
            origins_at: FxHashMap::default(),
            names,
            grid,
            block,
            findings: Findings::default(),
            allocated: FxHashMap::default(),
            writes: None,
        }
    }

    pub(crate) fn start_cta(&mut self, cta: u32, n_threads: u32, shared: usize) {
        let state = CtaState {
            threads: (0..n_threads).map(|_| ThreadState::default()).collect(),
            shared: History::default(),
            bytes: vec![byte::UNDEFINED; shared],
            mbarriers: BTreeSet::new(),
        };
        self.ctas.insert(cta, state);
    }

    pub(crate) fn end_cta(&mut self, cta: u32) {
        self.ctas.remove(&cta);
        self.order.end_cta(cta);
    }

    /// The number of a statement with the calls that led to it.
    pub(crate) fn site(&mut self, loc: SrcLoc, calls: Vec<SrcLoc>) -> SiteId {
        let site = Site { loc, calls };
        if let Some(&id) = self.site_ids.get(&site) {
            return id;
        }
        let id = self.sites.len() as SiteId;
        self.sites.push(site.clone());
        self.site_ids.insert(site, id);
        id
    }

    /// The number of a statement of the kernel itself.
    pub(crate) fn kernel_site(&mut self, loc: SrcLoc) -> SiteId {
        if let Some(&id) = self.kernel_sites.get(&loc) {
            return id;
        }
        let id = self.site(loc, Vec::new());
        self.kernel_sites.insert(loc, id);
        id
    }

    fn thread(&mut self, who: &Who) -> &mut ThreadState {
        let cta = self.ctas.get_mut(&who.cta).expect("it was started");
        &mut cta.threads[who.thread as usize]
    }

    /// Notes an access, and what it races with.
    pub(crate) fn access(&mut self, who: Who, accessed: Accessed) {
        if !self.checks.race {
            return;
        }
        let place = accessed.place();
        if self.thread(&who).is_quiet {
            return;
        }
        let mut history = self.take_history(place);
        let Some(cta) = self.ctas.get_mut(&who.cta) else {
            return;
        };
        let state = &mut cta.threads[who.thread as usize];
        let is_reduction = std::mem::take(&mut state.is_reduction);
        let strength = match accessed.sem {
            MemSem::Weak => Strength::Weak,
            MemSem::NonCoherent => Strength::NonCoherent,
            MemSem::Volatile => Strength::Strong(Scope::Sys),
            _ => Strength::Strong(accessed.scope),
        };
        let agent = who.agent();
        let is_write = accessed.op != AccessOp::Load;
        let strong = match strength {
            Strength::Strong(scope) => Some(StrongAccess {
                place,
                addr: accessed.addr,
                size: accessed.size,
                scope,
                sem: accessed.sem,
            }),
            Strength::Weak | Strength::NonCoherent => None,
        };
        // What is acquired by the access itself orders what follows, not the access.
        let (agent_now, epoch, op) = match state.copy {
            Some(copy) => {
                let (agent, number) = copy.by(is_write);
                (agent, number, AccessOp::Copy)
            }
            None => (agent, state.past.epoch(), accessed.op),
        };
        let event = Event {
            agent: agent_now,
            by: agent,
            epoch,
            site: who.site,
            op,
            is_write,
            strength,
            addr: accessed.addr,
            size: accessed.size,
            keeps: accessed.keeps,
            is_kept: !state.is_product,
        };
        let mut races = Vec::new();
        let clusters = *self.order.clusters();
        history.access(event, &state.past.clock, &clusters, &mut |race| {
            races.push(race);
        });
        // Copies synchronize by other means than the values that they move.
        match strong.filter(|_| state.copy.is_none()) {
            Some(strong) => {
                let is_update = accessed.op == AccessOp::Atomic;
                if !is_write || is_update && !is_reduction {
                    self.order.strong_read(agent, &mut state.past, &strong);
                }
                if is_write {
                    self.order
                        .strong_write(agent, &mut state.past, &strong, is_update);
                }
            }
            None if is_write => {
                self.order.weak_write(place, accessed.addr, accessed.size);
                self.overwrite_mbarriers(place, accessed.addr, accessed.size);
            }
            None => {}
        }
        self.put_history(place, history);
        for race in races {
            self.report_race(who, place, race);
        }
    }

    pub(crate) fn fence(&mut self, who: &Who, sem: MemSem, scope: Scope) {
        let Some(cta) = self.ctas.get_mut(&who.cta) else {
            return;
        };
        let state = &mut cta.threads[who.thread as usize];
        self.order.fence(who.agent(), &mut state.past, sem, scope);
    }

    pub(crate) fn set_quiet(&mut self, who: &Who, is_quiet: bool) {
        self.thread(who).is_quiet = is_quiet;
    }

    pub(crate) fn is_quiet(&mut self, cta: u32, thread: u32) -> bool {
        self.ctas
            .get(&cta)
            .is_some_and(|cta| cta.threads[thread as usize].is_quiet)
    }

    pub(crate) fn set_reduction(&mut self, who: &Who) {
        self.thread(who).is_reduction = true;
    }

    /// Reads of a product race with what is not ordered before them. What comes later is ordered by
    /// `wgmma.wait_group`, which any thread of the warpgroup can hand on for all: they are not
    /// kept.
    pub(crate) fn set_product(&mut self, who: &Who, is_product: bool) {
        self.thread(who).is_product = is_product;
    }

    pub(crate) fn set_relaxed(&mut self, who: &Who) {
        self.thread(who).is_relaxed = true;
    }

    // ---- barriers and warps ----

    pub(crate) fn barrier_arrive(&mut self, cta: u32, thread: u32, id: usize) {
        if let Some(state) = self.ctas.get_mut(&cta) {
            let past = &mut state.threads[thread as usize].past;
            self.order
                .barrier_arrive(Agent::thread(cta, thread), past, id);
        }
    }

    /// A barrier is complete: the threads that waited know what all know that came.
    pub(crate) fn barrier_complete(
        &mut self,
        cta: u32,
        id: usize,
        woken: &[(u32, u64)],
        belongs_to_next: &dyn Fn(u32) -> bool,
    ) {
        let clock = self.order.barrier_complete(cta, id, belongs_to_next);
        let Some(state) = self.ctas.get_mut(&cta) else {
            return;
        };
        for &(thread, _) in woken {
            let past = &mut state.threads[thread as usize].past;
            if past.clock.is_empty() {
                past.clock = clock.clone();
            } else {
                let mut joined = clock.clone();
                joined.join(&past.clock);
                past.clock = joined;
            }
        }
    }

    /// A thread arrives at the barrier of its cluster, or has waited for it.
    pub(crate) fn at_cluster_barrier(&mut self, (cta, thread): (u32, u32), op: BarrierOp) {
        let Some(state) = self.ctas.get_mut(&cta) else {
            return;
        };
        let state = &mut state.threads[thread as usize];
        let is_relaxed = std::mem::take(&mut state.is_relaxed);
        let agent = Agent::thread(cta, thread);
        match op {
            BarrierOp::ClusterWait => self.order.cluster_wait(cta, &mut state.past),
            _ if is_relaxed => {}
            _ => self.order.cluster_arrive(agent, &mut state.past),
        }
    }

    /// All threads of a CTA's cluster have arrived.
    pub(crate) fn cluster_complete(&mut self, cta: u32) {
        self.order.cluster_complete(cta);
    }

    /// Lanes have synchronized their memory.
    pub(crate) fn meet(&mut self, cta: u32, threads: &[u32]) {
        let Some(state) = self.ctas.get_mut(&cta) else {
            return;
        };
        let mut lanes: Vec<(u32, &mut Past)> = Vec::new();
        for (idx, thread) in state.threads.iter_mut().enumerate() {
            if threads.contains(&(idx as u32)) {
                lanes.push((idx as u32, &mut thread.past));
            }
        }
        self.order.meet(cta, &mut lanes);
    }

    // ---- what was written ----

    /// States of bytes of shared memory.
    pub(crate) fn shared_bytes(&mut self, cta: u32) -> &mut Vec<u8> {
        &mut self.ctas.get_mut(&cta).expect("it was started").bytes
    }

    /// States of bytes of local memory; what lies beyond was never written.
    pub(crate) fn local_bytes(&mut self, cta: u32, thread: u32) -> &mut Vec<u8> {
        let cta = self.ctas.get_mut(&cta).expect("it was started");
        &mut cta.threads[thread as usize].local
    }

    pub(crate) fn set_used_bytes(&mut self, who: &Who, mask: u64) {
        self.thread(who).used_bytes = Some(mask);
    }

    pub(crate) fn take_used_bytes(&mut self, cta: u32, thread: u32) -> Option<u64> {
        let cta = self.ctas.get_mut(&cta)?;
        cta.threads[thread as usize].used_bytes.take()
    }

    /// Something that was never written comes into a register.
    pub(crate) fn origin(
        &mut self,
        who: Who,
        op: AccessOp,
        kind: FindingKind,
        (space, address, object): (Space, Option<u64>, Option<Object>),
    ) -> OriginId {
        // The same statement of the same thread may do so very often.
        if let Some(last) = self.origins.last()
            && (last.who.site, last.who.thread, last.who.cta) == (who.site, who.thread, who.cta)
            && last.address == address
        {
            return self.origins.len() as OriginId;
        }
        self.origins.push(Origin {
            who,
            op,
            kind,
            space,
            address,
            object,
        });
        self.origins.len() as OriginId
    }

    /// A word was written with something that was never written.
    pub(crate) fn set_origin(&mut self, word: WordKey, origin: OriginId) {
        self.origins_at.insert(word, origin);
    }

    /// Where it came from.
    pub(crate) fn origin_at(&self, word: WordKey) -> Option<OriginId> {
        self.origins_at.get(&word).copied()
    }

    /// A value of which something was never written is used.
    pub(crate) fn used(&mut self, who: Who, op: AccessOp, shadow: Shadow, how: &str) {
        let Some(origin) = (shadow.origin as usize)
            .checked_sub(1)
            .and_then(|idx| self.origins.get(idx))
        else {
            return;
        };
        let by = self.by(&who);
        let (message, kind) = match origin.kind {
            FindingKind::ShflSource => (
                format!("{by} {how} what a shuffle took from a lane that takes no part in it"),
                FindingKind::ShflSource,
            ),
            _ => (
                format!(
                    "{by} {how} a value from {} that was never written",
                    report::space_name(origin.space)
                ),
                FindingKind::UninitializedRead,
            ),
        };
        let accesses = vec![
            self.access_of(&who, op),
            self.access_of(&origin.who, origin.op),
        ];
        let (space, address, object) = (origin.space, origin.address, origin.object.clone());
        self.findings.add(Finding {
            space: Some(space),
            address,
            object,
            ..Finding::new(kind, Severity::Error, message, accesses)
        });
    }

    // ---- the heap ----

    pub(crate) fn allocated(&mut self, who: Who, addr: u64, size: u64) {
        self.device.forget(addr, size);
        self.allocated.insert(addr, (size, who));
    }

    /// Memory is freed: a write of the whole block.
    pub(crate) fn freed(&mut self, who: Who, addr: u64, size: Option<u64>) {
        let known = self.allocated.remove(&addr).map(|(size, _)| size);
        let Some(size) = known.or(size).filter(|&size| size > 0) else {
            return;
        };
        self.access(
            who,
            Accessed {
                shared_of: None,
                addr,
                size: u32::try_from(size).unwrap_or(u32::MAX),
                op: AccessOp::Free,
                sem: MemSem::Weak,
                scope: Scope::Cta,
                keeps: false,
            },
        );
        self.device.forget(addr, size);
    }

    /// Adds a finding of another kind.
    pub(crate) fn add(&mut self, finding: Finding) {
        self.findings.add(finding);
    }

    /// A thread has changed device memory.
    pub(crate) fn wrote(
        &mut self,
        who: Who,
        range: (u64, u64),
        op: AccessOp,
        is_float_atomic: bool,
    ) {
        if let Some(writes) = &mut self.writes {
            writes.note(who, range, op, is_float_atomic);
        }
    }

    /// The findings, the blocks that are left, and the last writes.
    pub(crate) fn finish(mut self) -> (Vec<Finding>, Vec<Allocated>, LastWrites) {
        let mut left: Vec<Allocated> = self
            .allocated
            .iter()
            .map(|(&addr, (size, who))| Allocated {
                addr,
                size: *size,
                access: self.access_of(who, AccessOp::Alloc),
            })
            .collect();
        left.sort_by_key(|block| block.addr);
        let mut writes = self.writes.take().unwrap_or_default();
        writes.sites = self.sites;
        (self.findings.into_list(), left, writes)
    }
}
