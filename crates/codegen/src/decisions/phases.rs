//! Phases: the loops over gangs, one for each resume point, and the nodes that they run.
//!
//! A phase enters all gangs at one resume point. Where all paths from there end at one wait, which
//! the lanes reach together, no code records where the gangs have stopped: the phase of that wait
//! is next. The code of most nodes belongs to one phase, and gangs that stop in it go on to its
//! next gang; code that several phases run records where the gang stopped, and tests which phase it
//! is.

use std::cell::Cell;

use ptxjit_ir::{Function, Terminator};
use ptxjit_vectorize::{Node, Plan};

use super::mask_classes::{MaskClass, MaskClasses, always_waits};
use ptxjit_abi::LaneState;

/// Nodes looked at behind all waits of a kernel. Behind one are mostly few until the next, but
/// thousands of loops that wait for other threads each have all of those after them behind them.
const MOST_STEPS: u32 = 1 << 21;

/// The phases that reach a node.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Predecessors {
    None,
    One(usize),
    Several,
}

impl Predecessors {
    fn join(self, other: Predecessors) -> Predecessors {
        match (self, other) {
            (Predecessors::None, only) | (only, Predecessors::None) => only,
            (a, b) if a == b => a,
            _ => Predecessors::Several,
        }
    }

    fn only(self) -> Option<usize> {
        match self {
            Predecessors::One(phase) => Some(phase),
            Predecessors::None | Predecessors::Several => None,
        }
    }
}

/// The phases and what they reach.
#[derive(Default, Debug)]
pub(crate) struct Phases {
    arrive: Vec<Predecessors>,
    body: Vec<Predecessors>,
    /// For each phase, the state in which all gangs are after it, each as a whole, if that is
    /// certain.
    next: Vec<Option<u16>>,
    /// For each phase, a state in which gangs can be after it.
    expected_next: Vec<u16>,
}

impl Phases {
    /// The only phase that reaches the start of a node.
    pub(crate) fn arriving(&self, pos: usize) -> Option<usize> {
        self.arrive[pos].only()
    }

    /// The only phase that runs a node.
    pub(crate) fn running(&self, pos: usize) -> Option<usize> {
        self.body[pos].only()
    }

    pub(crate) fn next(&self, phase: usize) -> Option<u16> {
        self.next[phase]
    }

    /// The state in which gangs probably are after a phase.
    pub(crate) fn expected_next(&self, phase: usize) -> u16 {
        self.expected_next[phase]
    }
}

/// Finds the phases and what they reach.
pub(super) fn find(func: &Function, plan: &Plan, classes: &MaskClasses) -> Phases {
    Finder {
        func,
        plan,
        classes,
        steps_left: Cell::new(MOST_STEPS),
    }
    .run()
}

struct Finder<'a> {
    func: &'a Function,
    plan: &'a Plan,
    classes: &'a MaskClasses,
    /// Nodes that may still be looked at to find what is behind the waits.
    steps_left: Cell<u32>,
}

impl Finder<'_> {
    fn run(&self) -> Phases {
        let n = self.plan.order.nodes.len();
        let mut phases = Phases {
            arrive: vec![Predecessors::None; n],
            body: vec![Predecessors::None; n],
            next: Vec::new(),
            expected_next: Vec::new(),
        };
        for number in 0..self.plan.waits.len() {
            let pos = self.resumed_at(number);
            phases.body[pos] = phases.body[pos].join(Predecessors::One(number));
        }
        loop {
            let before = (phases.arrive.clone(), phases.body.clone());
            for pos in 0..n {
                if !always_waits(self.func, self.plan, pos) {
                    phases.body[pos] = phases.body[pos].join(phases.arrive[pos]);
                }
                for target in self.successors(pos) {
                    phases.arrive[target] = phases.arrive[target].join(phases.body[pos]);
                }
                // A node that leaves no lane behind runs pending ones next.
                for (pending, reached_from) in [
                    (&self.plan.pending_in[pos], phases.arrive[pos]),
                    (&self.plan.pending[pos], phases.body[pos]),
                ] {
                    if let Some(&next) = pending.first() {
                        phases.arrive[next] = phases.arrive[next].join(reached_from);
                    }
                }
            }
            if before == (phases.arrive.clone(), phases.body.clone()) {
                break;
            }
        }
        let numbers = || 0..self.plan.waits.len();
        phases.next = numbers().map(|number| self.state_after(number)).collect();
        phases.expected_next = numbers()
            .map(|number| self.some_state_after(number))
            .collect();
        phases
    }

    fn resumed_at(&self, number: usize) -> usize {
        self.plan.order.pos(self.plan.waits[number].block)
    }

    fn successors(&self, pos: usize) -> Vec<usize> {
        match self.plan.order.nodes[pos] {
            Node::LoopEnd(header) => vec![self.plan.order.pos(header)],
            Node::Block(_) => self.plan.order.targets(self.func, pos),
        }
    }

    /// The state in which all lanes that are resumed at a wait stop together.
    fn state_after(&self, number: usize) -> Option<u16> {
        let mut seen = vec![false; self.plan.order.nodes.len()];
        let mut work = vec![self.resumed_at(number)];
        let mut found = None;
        while let Some(pos) = work.pop() {
            if std::mem::replace(&mut seen[pos], true) {
                continue;
            }
            if !self.step() {
                return None;
            }
            let mut stop = |state: u16, class: MaskClass| {
                let same = found.is_none_or(|other| other == state);
                found = Some(state);
                same && class == MaskClass::Entry
            };
            match self.plan.order.nodes[pos] {
                Node::LoopEnd(header) if self.plan.yields[header].is_some() => return None,
                Node::LoopEnd(_) => {}
                Node::Block(block) => match self.func.blocks[block].term {
                    Terminator::Dispatch(_) => return None,
                    Terminator::Ret(_) | Terminator::Exit => {
                        if !stop(LaneState::EXITED, self.classes.body[pos]) {
                            return None;
                        }
                    }
                    Terminator::Jump(_)
                    | Terminator::Brif { .. }
                    | Terminator::Switch { .. }
                    | Terminator::Trap(_) => {}
                },
            }
            for target in self.successors(pos) {
                match self.wait_at(target) {
                    None => work.push(target),
                    Some(wait) => {
                        let sure = always_waits(self.func, self.plan, target);
                        if !sure || !stop(wait as u16, self.classes.arrive[target]) {
                            return None;
                        }
                    }
                }
            }
        }
        found
    }

    /// A state in which lanes that are resumed at a wait can stop: that of another wait, as most of
    /// them are in loops, or of the end.
    fn some_state_after(&self, number: usize) -> u16 {
        let mut seen = vec![false; self.plan.order.nodes.len()];
        let mut work = vec![self.resumed_at(number)];
        while let Some(pos) = work.pop() {
            if !self.step() {
                break;
            }
            if std::mem::replace(&mut seen[pos], true) {
                continue;
            }
            for target in self.successors(pos) {
                match self.wait_at(target) {
                    Some(wait) => return wait as u16,
                    None => work.push(target),
                }
            }
        }
        LaneState::EXITED
    }

    /// Whether there is a step left, which is taken.
    fn step(&self) -> bool {
        let left = self.steps_left.get();
        self.steps_left.set(left.saturating_sub(1));
        left > 0
    }

    /// The wait at the start of a node.
    fn wait_at(&self, pos: usize) -> Option<u32> {
        let block = self.plan.order.nodes[pos].block()?;
        let is_at_inst = self.plan.wait_at(block)?.is_at_inst();
        self.plan.wait_of[block].filter(|_| is_at_inst)
    }
}
