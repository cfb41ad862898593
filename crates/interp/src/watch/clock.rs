//! Vector clocks: what one thread knows of the past of others.
//!
//! A thread's accesses carry its *epoch*, a number that grows each time the thread hands its past on. A clock says for each thread up
//! to which epoch its accesses are ordered before what follows. Clocks of threads that were synchronized together are the same
//! object, so comparing and joining them costs little.

use std::rc::Rc;

/// How often a thread had handed its past on, plus one.
pub(crate) type Epoch = u32;

/// What accesses memory: a thread of the launch, or what copies for it beside it.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Agent {
    /// Linear number of the CTA in the grid.
    pub(crate) cta: u32,
    /// Twice the number of the thread in its CTA, plus one for its copies.
    pub(crate) idx: u32,
}

impl Agent {
    pub(crate) fn thread(cta: u32, thread: u32) -> Agent {
        Agent {
            cta,
            idx: 2 * thread,
        }
    }

    /// What copies for the same thread.
    pub(crate) fn copier(self) -> Agent {
        Agent {
            idx: self.idx | 1,
            ..self
        }
    }

    pub(crate) fn is_copier(self) -> bool {
        self.idx & 1 != 0
    }

    pub(crate) fn thread_idx(self) -> u32 {
        self.idx / 2
    }
}

/// Epochs of one CTA's agents, 0 beyond the end.
type Epochs = Rc<Vec<Epoch>>;

/// See the module. The default knows nothing.
#[derive(Clone, Default, Debug)]
pub(crate) struct Clock {
    /// By CTA, in ascending order.
    ctas: Option<Rc<Vec<(u32, Epochs)>>>,
}

impl Clock {
    /// Up to which epoch an agent's accesses are known.
    pub(crate) fn get(&self, agent: Agent) -> Epoch {
        let Some(ctas) = &self.ctas else { return 0 };
        match ctas.binary_search_by_key(&agent.cta, |&(cta, _)| cta) {
            Ok(at) => ctas[at].1.get(agent.idx as usize).copied().unwrap_or(0),
            Err(_) => 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ctas.is_none()
    }

    /// Knows an agent up to this epoch.
    pub(crate) fn set(&mut self, agent: Agent, epoch: Epoch) {
        if self.get(agent) >= epoch {
            return;
        }
        let ctas = Rc::make_mut(self.ctas.get_or_insert_default());
        let at = match ctas.binary_search_by_key(&agent.cta, |&(cta, _)| cta) {
            Ok(at) => at,
            Err(at) => {
                ctas.insert(at, (agent.cta, Epochs::default()));
                at
            }
        };
        let epochs = Rc::make_mut(&mut ctas[at].1);
        let idx = agent.idx as usize;
        if epochs.len() <= idx {
            epochs.resize(idx + 1, 0);
        }
        epochs[idx] = epoch;
    }

    /// Knows what the other knows, too.
    pub(crate) fn join(&mut self, other: &Clock) {
        let Some(theirs) = &other.ctas else { return };
        let Some(own) = &mut self.ctas else {
            self.ctas = Some(theirs.clone());
            return;
        };
        if Rc::ptr_eq(own, theirs) {
            return;
        }
        let own = Rc::make_mut(own);
        for (cta, epochs) in theirs.iter() {
            match own.binary_search_by_key(cta, |&(cta, _)| cta) {
                Ok(at) => join_epochs(&mut own[at].1, epochs),
                Err(at) => own.insert(at, (*cta, epochs.clone())),
            }
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
        let [a, b, c] = [(0, 0), (0, 5), (7, 1)].map(|(cta, idx)| Agent::thread(cta, idx));
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
    }
}
