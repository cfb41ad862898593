//! Warps in lockstep, for programs that count on it: all lanes execute an instruction before any
//! executes the next, and diverged lanes wait for each other at the immediate post-dominator.
//!
//! A stack says which lanes run: the top entry's lanes run until each is at the entry's
//! reconvergence block, has returned from the entry's function, or has ended. A divergent branch
//! pushes an entry for each target; a call pushes one for each callee.

use ptxjit_ir::{Block, FuncId, InstData};

use crate::choose::{Event, Task};
use crate::exec::Step;
use crate::fault::Fault;
use crate::launch::Machine;
use crate::schedule::Cta;
use crate::thread::{Position, State, Thread, WaitKind, WarpWait};
use crate::warp::{self, LANES, Operands};

/// A warp's lanes and how they diverged.
pub(crate) struct Warp {
    /// Thread number of lane 0.
    first: usize,
    stack: Vec<Entry>,
}

/// Lanes that run together.
#[derive(Clone)]
struct Entry {
    lanes: Vec<usize>,
    /// Call depth at which they run.
    depth: usize,
    /// Where they wait for others; none: until they return.
    reconverge: Option<Block>,
}

impl Entry {
    /// Whether a lane has nothing more to do in this entry.
    fn is_past(&self, thread: &Thread<'_>) -> bool {
        match thread.position() {
            None => true,
            Some(at) => {
                at.depth < self.depth
                    || (at.depth == self.depth && at.next == 0 && Some(at.block) == self.reconverge)
            }
        }
    }
}

impl Warp {
    pub(crate) fn new(warp: u32, n_threads: u32) -> Warp {
        let first = warp as usize * LANES;
        let lanes = (first..(first + LANES).min(n_threads as usize)).collect();
        Warp {
            first,
            stack: vec![Entry {
                lanes,
                depth: 1,
                reconverge: None,
            }],
        }
    }
}

impl<'p> Cta<'p> {
    /// Every warp runs for a while.
    pub(crate) fn run_warps(&mut self, machine: &mut Machine<'p, '_>) -> Result<(), Fault> {
        (0..self.lockstep.len()).try_for_each(|idx| self.run_warp(machine, idx, false))
    }

    /// A warp runs until it waits: with `by_points` as far as the schedule has it, else for a
    /// while.
    pub(crate) fn run_warp(
        &mut self,
        machine: &mut Machine<'p, '_>,
        idx: usize,
        by_points: bool,
    ) -> Result<(), Fault> {
        let none = Warp {
            first: 0,
            stack: Vec::new(),
        };
        let Some(warp) = self.lockstep.get_mut(idx) else {
            return Err(self.departed());
        };
        let mut warp = std::mem::replace(warp, none);
        let result = self.advance_warp(machine, &mut warp, by_points);
        self.lockstep[idx] = warp;
        result
    }

    fn advance_warp(
        &mut self,
        machine: &mut Machine<'p, '_>,
        warp: &mut Warp,
        by_points: bool,
    ) -> Result<(), Fault> {
        let end = self.threads.len().min(warp.first + LANES);
        let task = Task {
            cta: self.env.cta,
            group: (warp.first / LANES) as u32,
            lanes: u32::MAX,
        };
        let mut left = match by_points {
            true => u32::MAX,
            false => machine.launch.limits.quantum.max(1),
        };
        while left > 0 {
            left = left.saturating_sub(u32::from(!by_points));
            if (warp.first..end).any(|idx| self.threads[idx].wait().is_some()) {
                return Ok(());
            }
            let Some(entry) = warp.stack.last() else {
                return Ok(());
            };
            let active: Vec<usize> = entry
                .lanes
                .iter()
                .copied()
                .filter(|&idx| !entry.is_past(&self.threads[idx]))
                .collect();
            if active.is_empty() {
                warp.stack.pop();
                continue;
            }
            let depth = entry.depth;
            self.poll(machine, active[0], active.len() as u64)?;
            let before = self.threads[active[0]].position();
            let yields = self.step_lanes(machine, &active)?;
            let is_divergent = self.diverge(machine, warp, &active, (depth, before));
            if yields {
                machine.chooser.note(Event::Yields(task));
                return Ok(());
            }
            if by_points && (is_divergent || self.is_at_point(active[0])) {
                machine.points += 1;
                if machine.chooser.stop_here(task) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// One instruction for each lane; true if it asks to let others run.
    fn step_lanes(
        &mut self,
        machine: &mut Machine<'p, '_>,
        active: &[usize],
    ) -> Result<bool, Fault> {
        let mut yields = false;
        let is_memory = machine.watch.is_some() && self.is_at_memory(active[0]);
        for &idx in active {
            match machine.step(&mut self.env, &mut self.threads[idx]) {
                Ok(Step::Next) => {}
                Ok(Step::Yield) => yields = true,
                Ok(Step::Wait(wait)) => self.threads[idx].state = State::Waiting(wait),
                Ok(Step::Exit) => self.threads[idx].exit(),
                Err(kind) => return Err(self.fault(idx, kind)),
            }
        }
        // Lanes in lockstep see what all did before, but not what they do by one instruction.
        if let (true, Some(watch)) = (is_memory, &mut machine.watch) {
            let lanes: Vec<u32> = active.iter().map(|&idx| idx as u32).collect();
            watch.meet(self.env.cta, &lanes);
        }
        self.warp_operation(active);
        Ok(yields)
    }

    /// Whether a lane's next instruction accesses memory.
    fn is_at_memory(&self, idx: usize) -> bool {
        let Some(frame) = self.threads[idx].frames.last() else {
            return false;
        };
        let next = frame.func.blocks[frame.block].insts.get(frame.next);
        let data = next.map(|&inst| &frame.func.insts[inst].data);
        matches!(
            data,
            Some(InstData::Load { .. } | InstData::Store { .. } | InstData::Atomic { .. })
        )
    }

    /// A warp operation is over as soon as the lanes that run have executed it.
    pub(crate) fn warp_operation(&mut self, active: &[usize]) {
        let mut operands: Operands = [const { None }; LANES];
        let mut op: Option<WarpWait> = None;
        for &idx in active {
            if let Some(WaitKind::Warp(wait)) = self.threads[idx].wait().map(|wait| &wait.kind) {
                operands[idx % LANES] = Some(wait.args.clone());
                op = Some(wait.clone());
            }
        }
        let Some(op) = op else { return };
        let results = warp::evaluate(op.op, op.ty, &operands);
        for &idx in active {
            self.threads[idx].resume(&results[idx % LANES]);
        }
    }

    /// Pushes entries if the lanes are in different places now, of which the result tells, or in a
    /// callee.
    fn diverge(
        &self,
        machine: &mut Machine<'p, '_>,
        warp: &mut Warp,
        active: &[usize],
        (depth, before): (usize, Option<Position>),
    ) -> bool {
        let Some(before) = before else { return false };
        let mut places: Vec<(Position, Vec<usize>)> = Vec::new();
        for &idx in active {
            let Some(at) = self.threads[idx].position().filter(|at| at.depth >= depth) else {
                continue;
            };
            match places.iter_mut().find(|(place, _)| *place == at) {
                Some((_, lanes)) => lanes.push(idx),
                None => places.push((at, vec![idx])),
            }
        }
        let called = places.iter().any(|(place, _)| place.depth > depth);
        let is_divergent = places.len() > 1;
        if !is_divergent && !called {
            return false;
        }
        let reconverge = if called {
            None
        } else {
            self.post_dominator(machine, before.func, before.block)
        };
        // The first lane's group runs first.
        for (place, lanes) in places
            .into_iter()
            .rev()
            .filter(|(place, _)| called || Some(place.block) != reconverge)
        {
            warp.stack.push(Entry {
                lanes,
                depth: place.depth,
                reconverge,
            });
        }
        is_divergent
    }

    fn post_dominator(
        &self,
        machine: &mut Machine<'p, '_>,
        id: FuncId,
        block: Block,
    ) -> Option<Block> {
        let func = machine.function(id)?;
        machine.post_dominators.of(id, func, block)
    }
}
