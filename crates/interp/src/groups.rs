//! Groups of lanes: what runs between two preemption points under all schedules but the
//! deterministic one.
//!
//! The lanes of a group are at one place and execute an instruction each in turn. Those that come
//! to another place, or wait while others do not, are a group of their own from then on; a barrier
//! and `bar.warp.sync` join the lanes of a warp that they let go on.

use ptxjit_ir::{DeviceOp, InstData, MemSem, Terminator};

use crate::choose::{Event, NextGroup, Task};
use crate::exec::Step;
use crate::fault::{Fault, FaultKind};
use crate::launch::Machine;
use crate::schedule::Cta;
use crate::thread::State;
use crate::warp::LANES;

/// Lanes that run together.
#[derive(Copy, Clone)]
pub(crate) struct Group {
    /// See [`Task::group`].
    pub(crate) id: u32,
    pub(crate) warp: u32,
    pub(crate) lanes: u32,
}

impl Group {
    /// Numbers of its threads.
    fn threads(&self) -> impl Iterator<Item = usize> + use<> {
        let (first, lanes) = (self.warp as usize * LANES, self.lanes);
        (0..LANES)
            .filter(move |lane| lanes >> lane & 1 != 0)
            .map(move |lane| first + lane)
    }
}

/// The groups of a CTA.
#[derive(Default)]
pub(crate) struct Groups {
    list: Vec<Group>,
    next: u32,
}

impl Groups {
    /// A group for each warp.
    pub(crate) fn of_warps(n_threads: u32) -> Groups {
        let n_warps = n_threads.div_ceil(LANES as u32);
        let group = |warp| Group {
            id: warp,
            warp,
            lanes: lanes_of(warp, n_threads),
        };
        Groups {
            list: (0..n_warps).map(group).collect(),
            next: n_warps,
        }
    }

    /// The group with this number.
    fn find(&self, id: u32) -> Option<Group> {
        self.list.iter().find(|group| group.id == id).copied()
    }

    /// Takes lanes out of whatever groups they are in.
    fn remove(&mut self, warp: u32, lanes: u32) {
        for group in self.list.iter_mut().filter(|group| group.warp == warp) {
            group.lanes &= !lanes;
        }
    }

    fn add(&mut self, group: Group) {
        self.list.retain(|group| group.lanes != 0);
        let at = self.list.partition_point(|other| other.id < group.id);
        self.list.insert(at, group);
    }

    /// Makes lanes of a warp a group of their own.
    fn part(&mut self, warp: u32, lanes: u32) -> Group {
        self.remove(warp, lanes);
        let id = self.next;
        self.next += 1;
        let group = Group { id, warp, lanes };
        self.add(group);
        group
    }

    /// Makes lanes of a warp one group, which has the least number of those that they were in.
    fn join(&mut self, warp: u32, lanes: u32) {
        let are_in = self
            .list
            .iter()
            .filter(|group| group.warp == warp && group.lanes & lanes != 0);
        let Some(id) = are_in.map(|group| group.id).min() else {
            return;
        };
        let rest = self.find(id).map_or(0, |group| group.lanes & !lanes);
        self.remove(warp, lanes);
        if rest != 0 {
            // The others of that group go on under another number.
            self.part(warp, rest);
        }
        self.add(Group { id, warp, lanes });
    }

    /// The lanes of the group that a lane is in.
    pub(crate) fn lanes_with(&self, warp: u32, lane: u32) -> u32 {
        let has = |group: &&Group| group.warp == warp && group.lanes >> lane & 1 != 0;
        self.list.iter().find(has).map_or(0, |group| group.lanes)
    }
}

/// Mask of the lanes that a warp has.
fn lanes_of(warp: u32, n_threads: u32) -> u32 {
    let n = (n_threads - warp * LANES as u32).min(LANES as u32);
    u32::MAX >> (LANES as u32 - n)
}

/// What a run to the next preemption point came to.
struct Segment {
    /// Whether it ended at a preemption point: otherwise only where lanes may have diverged.
    at_point: bool,
    yields: bool,
}

impl<'p> Cta<'p> {
    /// The groups that can run. Without any that do more than turn in waiting loops, all that can.
    pub(crate) fn tasks(&self, progress: u64) -> Vec<Task> {
        let can_run = |idx: usize| self.can_run(idx);
        let moves = |idx: usize| can_run(idx) && self.threads[idx].spin.since != Some(progress);
        let of = |counts: &dyn Fn(usize) -> bool| -> Vec<Task> {
            let groups = self.groups.list.iter().map(|group| Task {
                cta: self.env.cta,
                group: group.id,
                lanes: group
                    .threads()
                    .filter(|&idx| counts(idx))
                    .fold(0, |lanes, idx| lanes | 1 << (idx % LANES)),
            });
            groups.filter(|task| task.lanes != 0).collect()
        };
        let moving = of(&moves);
        if moving.is_empty() {
            of(&can_run)
        } else {
            moving
        }
    }

    /// Runs what the schedule chooses.
    pub(crate) fn run_chosen(&mut self, machine: &mut Machine<'p, '_>) -> Result<(), Fault> {
        let progress = machine.progress;
        let next = machine.chooser.next_group(&|| self.tasks(progress));
        let next = next.map_err(|_| self.departed())?;
        let (group, lanes) = match next {
            NextGroup::Everyone if let Some(plan) = machine.launch.plan => {
                return self.run_gangs(machine, plan);
            }
            NextGroup::Everyone if self.lockstep.is_empty() => {
                return (0..self.threads.len()).try_for_each(|idx| self.run(machine, idx));
            }
            NextGroup::Everyone => return self.run_warps(machine),
            NextGroup::One { group, lanes } => (group, lanes),
        };
        if !self.lockstep.is_empty() {
            return self.run_warp(machine, group as usize, true);
        }
        let Some(group) = self.groups.find(group) else {
            return Err(self.departed());
        };
        let others = group.lanes & !lanes;
        let are_ready = (group.threads())
            .filter(|idx| others >> (idx % LANES) & 1 != 0)
            .any(|idx| self.threads[idx].is_ready());
        let group = match are_ready {
            true => self.groups.part(group.warp, lanes),
            false => group,
        };
        self.run_group(machine, group.id)
    }

    /// The launch that runs is not the one whose schedule was recorded.
    pub(crate) fn departed(&self) -> Fault {
        self.cta_fault(FaultKind::Departed)
    }

    /// Runs a group until it stops at a preemption point, or no lane of it can run.
    fn run_group(&mut self, machine: &mut Machine<'p, '_>, id: u32) -> Result<(), Fault> {
        loop {
            let Some(group) = self.groups.find(id) else {
                return Ok(());
            };
            let ready = group.threads().filter(|&idx| self.threads[idx].is_ready());
            let ready: Vec<usize> = ready.collect();
            let Some(&first) = ready.first() else {
                return Ok(());
            };
            let segment = self.run_segment(machine, &ready)?;
            let has_parted = self.part_lanes(group);
            let task = Task {
                cta: self.env.cta,
                group: id,
                lanes: group.lanes,
            };
            if segment.yields {
                machine.chooser.note(Event::Yields(task));
                return Ok(());
            }
            if !self.threads[first].is_ready() {
                return Ok(());
            }
            let at_point = segment.at_point || has_parted;
            if at_point {
                machine.points += 1;
            }
            if at_point && machine.chooser.stop_here(task) {
                return Ok(());
            }
        }
    }

    /// Runs lanes that are at one place until some wait, or may have diverged, or come to a
    /// preemption point.
    fn run_segment(
        &mut self,
        machine: &mut Machine<'p, '_>,
        lanes: &[usize],
    ) -> Result<Segment, Fault> {
        let mut segment = Segment {
            at_point: false,
            yields: false,
        };
        loop {
            let kind = self.next_kind(lanes[0]);
            let mut ends = kind != Kind::Plain;
            self.poll(machine, lanes[0], lanes.len() as u64)?;
            for &idx in lanes {
                let was_quiet = self.step_whole(machine, idx, &mut segment.yields)?;
                ends |= was_quiet || !self.threads[idx].is_ready();
            }
            segment.at_point = kind == Kind::LoopEnd || self.is_at_point(lanes[0]);
            if ends || segment.at_point || segment.yields {
                return Ok(segment);
            }
        }
    }

    /// One instruction of a thread; one that others see as a whole is executed as a whole, of which
    /// the result tells.
    fn step_whole(
        &mut self,
        machine: &mut Machine<'p, '_>,
        idx: usize,
        yields: &mut bool,
    ) -> Result<bool, Fault> {
        let mut was_quiet = false;
        loop {
            let thread = &mut self.threads[idx];
            match machine.step(&mut self.env, thread) {
                Ok(Step::Next) => {}
                Ok(Step::Yield) => *yields = true,
                Ok(Step::Wait(wait)) => thread.state = State::Waiting(wait),
                Ok(Step::Exit) => {
                    thread.exit();
                    machine.progress += 1;
                }
                Err(kind) => return Err(self.fault(idx, kind)),
            }
            if thread.is_ready() {
                machine.look_for_spinning(thread);
            }
            if !machine.is_quiet(&self.env, thread) {
                return Ok(was_quiet);
            }
            was_quiet = true;
        }
    }

    /// Makes groups of the lanes of a group that are at other places than its first one. Whether
    /// there are any that can run.
    fn part_lanes(&mut self, group: Group) -> bool {
        let mut places: Vec<(_, u32)> = Vec::new();
        for idx in group.threads() {
            let thread = &self.threads[idx];
            if thread.is_exited() {
                continue;
            }
            let at = (thread.position(), thread.is_ready());
            let lane = 1 << (idx % LANES);
            match places.iter_mut().find(|(place, _)| *place == at) {
                Some((_, lanes)) => *lanes |= lane,
                None => places.push((at, lane)),
            }
        }
        for &(_, lanes) in places.iter().skip(1) {
            self.groups.part(group.warp, lanes);
        }
        places.len() > 1
    }

    /// A barrier or `bar.warp.sync` lets threads go on: those of a warp that are at one place are a
    /// group.
    pub(crate) fn join_lanes(&mut self, threads: &[u32]) {
        if self.groups.list.is_empty() {
            return;
        }
        let mut places: Vec<(_, u32)> = Vec::new();
        for &idx in threads {
            let warp = idx / LANES as u32;
            let at = (warp, self.threads[idx as usize].position());
            let lane = 1 << (idx % LANES as u32);
            match places.iter_mut().find(|(place, _)| *place == at) {
                Some((_, lanes)) => *lanes |= lane,
                None => places.push((at, lane)),
            }
        }
        for ((warp, _), lanes) in places {
            self.groups.join(warp, lanes);
        }
    }

    /// What the next instruction of a thread does to the group that it is in.
    fn next_kind(&self, idx: usize) -> Kind {
        let Some(frame) = self.threads[idx].frames.last() else {
            return Kind::Plain;
        };
        let block = &frame.func.blocks[frame.block];
        if let Some(&inst) = block.insts.get(frame.next) {
            let is_indirect = matches!(frame.func.insts[inst].data, InstData::CallIndirect { .. });
            return if is_indirect {
                Kind::Branch
            } else {
                Kind::Plain
            };
        }
        // Every loop has a jump to a block that is not behind.
        let is_back = |call: &ptxjit_ir::BlockCall| call.block <= frame.block;
        match &block.term {
            Terminator::Jump(call) if is_back(call) => Kind::LoopEnd,
            Terminator::Brif { then_, else_, .. } if is_back(then_) || is_back(else_) => {
                Kind::LoopEnd
            }
            Terminator::Jump(_) => Kind::Plain,
            Terminator::Brif { .. }
            | Terminator::Switch { .. }
            | Terminator::Dispatch(_)
            | Terminator::Ret(_)
            | Terminator::Exit
            | Terminator::Trap(_) => Kind::Branch,
        }
    }

    /// Whether a thread is before an instruction by which threads see what others do, or wait for
    /// them.
    pub(crate) fn is_at_point(&self, idx: usize) -> bool {
        let Some(frame) = self.threads[idx].frames.last() else {
            return false;
        };
        let next = frame.func.blocks[frame.block].insts.get(frame.next);
        match next.map(|&inst| &frame.func.insts[inst].data) {
            Some(InstData::Load { sem, .. } | InstData::Store { sem, .. }) => {
                !matches!(sem, MemSem::Weak | MemSem::NonCoherent)
            }
            Some(InstData::Device { op, .. }) => {
                !matches!(op, DeviceOp::Mark(_) | DeviceOp::AlignedRow)
            }
            Some(data) => matches!(
                data,
                InstData::Atomic { .. }
                    | InstData::Fence { .. }
                    | InstData::Barrier { .. }
                    | InstData::Warp { .. }
                    | InstData::Nanosleep { .. }
            ),
            None => false,
        }
    }
}

/// See [`Cta::next_kind`].
#[derive(Copy, Clone, PartialEq, Eq)]
enum Kind {
    Plain,
    /// Lanes may be at different places after it.
    Branch,
    /// The same, and it ends an iteration of a loop.
    LoopEnd,
}
