//! Vector clocks: what one thread knows of the past of others.
//!
//! A thread's accesses carry its *epoch*, a number that grows each time the thread hands its past
//! on. A clock says for each thread up to which epoch its accesses are ordered before what follows.
//! Clocks of threads that were synchronized together are the same object, so comparing and joining
//! them costs little.

use std::rc::Rc;

/// How often a thread had handed its past on, plus one.
pub(crate) type Epoch = u32;

/// What an agent is.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum AgentKind {
    /// A thread of the CTA.
    Thread,
    /// What copies for the thread beside it (`cp.async`).
    Copier,
    /// What reads for the thread's bulk copies that complete in groups.
    BulkReader,
    /// What writes for them.
    BulkWriter,
    /// What makes the bulk copies that complete on an mbarrier of the CTA.
    Bulk,
}

/// What accesses memory.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Agent {
    /// Linear number of the CTA in the grid.
    pub(crate) cta: u32,
    pub(crate) kind: AgentKind,
    /// Number of the thread, or of the mbarrier, in the CTA.
    pub(crate) idx: u32,
}

impl Agent {
    pub(crate) fn thread(cta: u32, thread: u32) -> Agent {
        Agent {
            cta,
            kind: AgentKind::Thread,
            idx: thread,
        }
    }

    /// What does this for the same thread.
    pub(crate) fn of_kind(self, kind: AgentKind) -> Agent {
        Agent { kind, ..self }
    }

    /// What copies for the same thread.
    pub(crate) fn copier(self) -> Agent {
        self.of_kind(AgentKind::Copier)
    }

    pub(crate) fn is_copier(self) -> bool {
        self.kind != AgentKind::Thread
    }

    /// Whether it goes by the async proxy.
    pub(crate) fn is_bulk(self) -> bool {
        match self.kind {
            AgentKind::Thread | AgentKind::Copier => false,
            AgentKind::BulkReader | AgentKind::BulkWriter | AgentKind::Bulk => true,
        }
    }
}

/// Epochs of one CTA's agents of a kind, 0 beyond the end.
type Epochs = Rc<Vec<Epoch>>;

/// By CTA and kind, in ascending order.
type Known = Option<Rc<Vec<((u32, AgentKind), Epochs)>>>;

/// See the module. The default knows nothing.
#[derive(Clone, Default, Debug)]
pub(crate) struct Clock {
    known: Known,
    /// What of it a fence between the proxies has made known to the async proxy, too.
    proxied: Known,
}

impl Clock {
    /// Up to which epoch an agent's accesses are known.
    pub(crate) fn get(&self, agent: Agent) -> Epoch {
        get(&self.known, agent)
    }

    /// Up to which epoch the async proxy knows of them.
    pub(crate) fn get_proxied(&self, agent: Agent) -> Epoch {
        get(&self.proxied, agent)
    }

    /// The async proxy knows all that is known now.
    pub(crate) fn fence_proxies(&mut self) {
        self.proxied = self.known.clone();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_none()
    }

    /// Knows an agent up to this epoch.
    pub(crate) fn set(&mut self, agent: Agent, epoch: Epoch) {
        if self.get(agent) >= epoch {
            return;
        }
        let known = Rc::make_mut(self.known.get_or_insert_default());
        let key = (agent.cta, agent.kind);
        let at = match known.binary_search_by_key(&key, |&(key, _)| key) {
            Ok(at) => at,
            Err(at) => {
                known.insert(at, (key, Epochs::default()));
                at
            }
        };
        let epochs = Rc::make_mut(&mut known[at].1);
        let idx = agent.idx as usize;
        if epochs.len() <= idx {
            epochs.resize(idx + 1, 0);
        }
        epochs[idx] = epoch;
    }

    /// Knows what the other knows, too.
    pub(crate) fn join(&mut self, other: &Clock) {
        join(&mut self.known, &other.known);
        join(&mut self.proxied, &other.proxied);
    }
}

fn get(known: &Known, agent: Agent) -> Epoch {
    let Some(known) = known else { return 0 };
    let key = (agent.cta, agent.kind);
    match known.binary_search_by_key(&key, |&(key, _)| key) {
        Ok(at) => known[at].1.get(agent.idx as usize).copied().unwrap_or(0),
        Err(_) => 0,
    }
}

fn join(own: &mut Known, theirs: &Known) {
    let Some(theirs) = theirs else { return };
    let Some(own) = own else {
        *own = Some(theirs.clone());
        return;
    };
    if Rc::ptr_eq(own, theirs) {
        return;
    }
    let own = Rc::make_mut(own);
    for (key, epochs) in theirs.iter() {
        match own.binary_search_by_key(key, |&(key, _)| key) {
            Ok(at) => join_epochs(&mut own[at].1, epochs),
            Err(at) => own.insert(at, (*key, epochs.clone())),
        }
    }
}

fn join_epochs(own: &mut Epochs, theirs: &Epochs) {
    if Rc::ptr_eq(own, theirs) {
        return;
    }
    let knows_more = |(idx, &epoch): (usize, &Epoch)| own.get(idx).copied().unwrap_or(0) < epoch;
    if !theirs.iter().enumerate().any(knows_more) {
        return;
    }
    let epochs = Rc::make_mut(own);
    if epochs.len() < theirs.len() {
        epochs.resize(theirs.len(), 0);
    }
    for (mine, &epoch) in epochs.iter_mut().zip(theirs.iter()) {
        *mine = (*mine).max(epoch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joining_takes_the_greater_of_each() {
        let [a, b, c] = [(0, 0), (0, 2), (7, 1)].map(|(cta, idx)| Agent::thread(cta, idx));
        let (mut x, mut y) = (Clock::default(), Clock::default());
        x.set(a, 3);
        x.set(b, 1);
        y.set(b, 4);
        y.set(c, 2);
        let before = x.clone();
        x.join(&y);
        assert_eq!([a, b, c].map(|agent| x.get(agent)), [3, 4, 2]);
        // Clones are values of their own.
        assert_eq!([a, b, c].map(|agent| before.get(agent)), [3, 1, 0]);
        x.set(b, 2);
        assert_eq!(x.get(b), 4);
        assert_eq!(x.get(b.copier()), 0);
        x.fence_proxies();
        x.set(b, 9);
        assert_eq!([x.get(b), x.get_proxied(b)], [9, 4]);
    }
}
