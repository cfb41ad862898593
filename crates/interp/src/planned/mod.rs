//! Gangs run as the vectorizer has planned them.
//!
//! A [`Plan`] annotates the code of one thread; this module gives it its meaning as the program of
//! a gang. The lanes of a gang run through the nodes of the plan's order under masks, divergent
//! branches leave lanes pending at their targets, lanes stop at waits and keep what is live there.
//! Each lane also computes all of its values by itself, as under any other schedule, so that each
//! claim of the plan can be compared with them ([`held`]): a claim that does not hold is a
//! [`FaultKind::Plan`], whether or not it would have changed a result.
//!
//! Nothing here is shared with the code generator, which lowers the same plan.

mod held;

use std::collections::BTreeMap;

use ptxjit_ir::{Block, Function, Inst, InstData, Terminator, Value};
pub(crate) use ptxjit_vectorize::Plan;
use ptxjit_vectorize::{LaneLoop, Node, SingleLane, Wait, WaitKind, Yield};
use smallvec::SmallVec;

use self::held::{Bits, HeldValues};
use crate::exec::Step;
use crate::fault::{Fault, FaultKind};
use crate::launch::Machine;
use crate::schedule::Cta;
use crate::thread::State;

/// Iterations of a loop that lets others run before it does so.
const MOST_ITERATIONS: u32 = 3;

/// The lanes of a mask, ascending.
fn lanes_of(mask: u32) -> impl Iterator<Item = u32> {
    (0..u32::BITS).filter(move |lane| mask >> lane & 1 != 0)
}

impl<'p> Cta<'p> {
    /// Each gang runs until its lanes wait, end, or let others run.
    pub(crate) fn run_gangs(
        &mut self,
        machine: &mut Machine<'p, '_>,
        plan: &'p Plan,
    ) -> Result<(), Fault> {
        (0..self.threads.len())
            .step_by(plan.gang as usize)
            .try_for_each(|first| self.run_gang(machine, plan, first))
    }

    /// Enters the code of a gang once for each place at which lanes of it can go on.
    fn run_gang(
        &mut self,
        machine: &mut Machine<'p, '_>,
        plan: &'p Plan,
        first: usize,
    ) -> Result<(), Fault> {
        let mut ready: BTreeMap<usize, u32> = BTreeMap::new();
        let lanes = self.threads[first..].iter().take(plan.gang as usize);
        for (lane, thread) in lanes.enumerate() {
            if let (true, Some(at)) = (thread.is_ready(), thread.position()) {
                let is_start = thread.is_fresh;
                let number = if is_start {
                    Some(0)
                } else {
                    plan.wait_of[at.block]
                };
                let Some(number) = number else {
                    let what = format!("lane {lane} stops at {}, where nothing waits", at.block);
                    return Err(self.fault(first + lane, FaultKind::Plan(what)));
                };
                *ready.entry(number as usize).or_default() |= 1 << lane;
            }
        }
        for (number, mut lanes) in ready {
            while lanes != 0 {
                let mut run = Run::new(self, machine, plan, first)?;
                let together = run.agreeing(number, lanes);
                run.enter(number, together)?;
                lanes &= !together;
            }
        }
        Ok(())
    }
}

/// A gang in its code, from one entry until no lane is left in it.
struct Run<'r, 'p, 'm> {
    cta: &'r mut Cta<'p>,
    machine: &'r mut Machine<'p, 'm>,
    plan: &'p Plan,
    func: &'p Function,
    /// The thread that is lane 0.
    first: usize,
    /// The lanes pending at each node.
    pending: BTreeMap<usize, u32>,
    held: HeldValues<'p>,
    /// The mask with which each node ran last.
    last_mask: Vec<u32>,
    /// The node whose wait is over for the lanes that arrive there next.
    resumed: Option<usize>,
    /// The header that lanes come back to for another iteration.
    repeated: Option<usize>,
    /// The lane loop whose lanes run.
    lane_loop: Option<&'p LaneLoop>,
    /// Iterations since this entry.
    iterations: u32,
}

impl<'r, 'p, 'm> Run<'r, 'p, 'm> {
    fn new(
        cta: &'r mut Cta<'p>,
        machine: &'r mut Machine<'p, 'm>,
        plan: &'p Plan,
        first: usize,
    ) -> Result<Self, Fault> {
        let Some(func) = machine.function(machine.launch.program.entry) else {
            return Err(cta.fault(first, FaultKind::Unreachable));
        };
        Ok(Run {
            cta,
            machine,
            plan,
            func,
            first,
            pending: BTreeMap::new(),
            held: HeldValues::new(plan, func),
            last_mask: vec![0; plan.order.nodes.len()],
            resumed: None,
            repeated: None,
            lane_loop: None,
            iterations: 0,
        })
    }

    /// Those lanes at a wait that can go on with the first of them: a gang has one scalar for what
    /// is uniform or affine, but lanes may have come to the wait in different iterations.
    fn agreeing(&self, number: usize, mask: u32) -> u32 {
        let lowest = mask.trailing_zeros();
        let live = &self.plan.waits[number].live;
        let agrees = |&lane: &u32| {
            let pair = 1 << lowest | 1 << lane;
            live.iter()
                .all(|&value| self.held.agree(value, &self.bits(value, pair)))
        };
        lanes_of(mask)
            .filter(agrees)
            .fold(0, |mask, lane| mask | 1 << lane)
    }

    /// Runs lanes from a wait, with what it keeps and nothing else.
    fn enter(&mut self, number: usize, mask: u32) -> Result<(), Fault> {
        let Wait {
            block, kind, live, ..
        } = &self.plan.waits[number];
        let pos = self.position(*block);
        lanes_of(mask)
            .for_each(|lane| self.cta.threads[self.first + lane as usize].is_fresh = false);
        for &value in live {
            self.define(value, mask)?;
        }
        if let WaitKind::Inst(inst) = *kind {
            for &result in &self.func.insts[inst].results {
                self.define(result, mask)?;
            }
        }
        self.resumed = Some(pos);
        self.pending.insert(pos, mask);
        self.run_to(self.plan.order.nodes.len())
    }

    /// Runs the nodes before `end`, in order, while lanes are pending at any.
    fn run_to(&mut self, end: usize) -> Result<(), Fault> {
        while let Some((&pos, &mask)) = self.pending.range(..end).next() {
            self.pending.remove(&pos);
            match self.plan.order.nodes[pos] {
                Node::Block(block) => self.node(pos, block, mask)?,
                Node::LoopEnd(header) => self.loop_end(pos, header, mask)?,
            }
        }
        Ok(())
    }

    fn position(&self, block: Block) -> usize {
        self.plan.order.block_pos[block].map_or(0, |pos| pos as usize)
    }

    /// Lanes have finished an iteration: they go on with the next, or let others run.
    fn loop_end(&mut self, pos: usize, header: Block, mask: u32) -> Result<(), Fault> {
        self.check_pending(pos, mask)?;
        self.iterations += 1;
        let all_in_loop = self.pending.is_empty() && mask == self.all_lanes();
        let most = match self.plan.yields[header] {
            Some(Yield::Spin(_)) => MOST_ITERATIONS,
            Some(Yield::StripMine(most)) if all_in_loop || !self.plan.strip_mines_full => {
                most.min(MOST_ITERATIONS)
            }
            Some(Yield::StripMine(_)) | None => u32::MAX,
        };
        if self.iterations >= most {
            self.iterations = 0;
            return self.check_kept(self.plan.wait_of[header], mask);
        }
        let start = self.position(header);
        self.repeated = Some(start);
        self.pending.insert(start, mask);
        Ok(())
    }

    /// All lanes that the gang has.
    fn all_lanes(&self) -> u32 {
        let n = (self.cta.threads.len() - self.first).min(self.plan.gang as usize);
        u32::MAX >> (u32::BITS as usize - n)
    }

    /// Lanes that stop at a wait must be able to save what it keeps.
    fn check_kept(&mut self, number: Option<u32>, mask: u32) -> Result<(), Fault> {
        let Some(number) = number else { return Ok(()) };
        let live = &self.plan.waits[number as usize].live;
        live.iter()
            .try_for_each(|&value| self.check_use(value, mask))
    }

    /// A block, for the lanes that have arrived.
    fn node(&mut self, pos: usize, block: Block, mask: u32) -> Result<(), Fault> {
        let is_resumed = self.resumed.take() == Some(pos);
        let is_repeated = self.repeated.take() == Some(pos);
        let lane_loop = self
            .plan
            .lane_loops
            .iter()
            .find(|region| region.root == block);
        if let (Some(region), None) = (lane_loop, self.lane_loop) {
            return self.run_lane_loop(region, pos, mask);
        }
        if self.lane_loop.is_none() && !is_resumed {
            self.check_masks(pos, block, (mask, is_repeated))?;
        }
        self.last_mask[pos] = mask;
        self.held.version = self.held.version_of(block, &|value| self.bits(value, mask));
        let mut insts = self.func.blocks[block].insts.as_slice();
        let waits_at = self.plan.wait_of[block].map(|number| &self.plan.waits[number as usize]);
        if let Some(Wait {
            kind: WaitKind::Inst(inst),
            ..
        }) = waits_at
        {
            if !is_resumed {
                self.check_kept(self.plan.wait_of[block], mask)?;
                return self.wait_at(*inst, mask);
            }
            insts = &insts[1..];
        }
        for &inst in insts {
            self.inst(inst, mask)?;
        }
        self.terminator(pos, block, mask)
    }

    /// Runs the region of a lane loop for one lane after another.
    fn run_lane_loop(&mut self, region: &'p LaneLoop, pos: usize, mask: u32) -> Result<(), Fault> {
        self.check_pending(pos, mask)?;
        let elsewhere = &self.plan.pending[pos];
        for &exit in &region.exits {
            let others = region.exits.iter().filter(|&&other| other != exit);
            let others = elsewhere.iter().chain(others).copied();
            if !self.plan.order.must_blend(exit, others) {
                let params = &self.func.blocks[self.block_at(exit)].params;
                params.iter().for_each(|&param| self.held.forget(param));
            }
        }
        self.lane_loop = Some(region);
        for lane in lanes_of(mask) {
            self.pending.insert(pos, 1 << lane);
            self.run_to(region.range.end() + 1)?;
        }
        self.lane_loop = None;
        Ok(())
    }

    /// The block at a node, or whose parameters lanes at a loop's end have.
    fn block_at(&self, pos: usize) -> Block {
        match self.plan.order.nodes[pos] {
            Node::Block(block) | Node::LoopEnd(block) => block,
        }
    }

    /// What the plan says of the masks of a node. Where lanes reconverge at a header, that is
    /// before the first iteration.
    fn check_masks(
        &mut self,
        pos: usize,
        block: Block,
        (mask, is_repeated): (u32, bool),
    ) -> Result<(), Fault> {
        self.check_pending(pos, mask)?;
        let is_single = self.plan.single_lane[block] != SingleLane::No;
        if is_single && mask.count_ones() != 1 {
            let what = format!("{block} is for one lane, but lanes {mask:#x} arrive");
            return self.fail(mask, what);
        }
        if let (false, Some(from)) = (is_repeated, self.plan.reconvergence.straight[pos])
            && self.last_mask[from] != mask
        {
            let before = self.last_mask[from];
            let what = format!("lanes {before:#x} reconverge at {block}, but {mask:#x} arrive");
            return self.fail(mask, what);
        }
        Ok(())
    }

    /// Lanes may be pending only where the plan says so, at a node or on arrival before its wait.
    fn check_pending(&mut self, pos: usize, mask: u32) -> Result<(), Fault> {
        let listed = &self.plan.pending[pos];
        let listed_in = &self.plan.pending_in[pos];
        let is_missing = |&&at: &&usize| !listed.contains(&at) && !listed_in.contains(&at);
        match self.pending.keys().find(is_missing) {
            Some(at) if self.lane_loop.is_none() => {
                let what = format!("lanes are pending at node {at} while node {pos} runs");
                self.fail(mask, what)
            }
            _ => Ok(()),
        }
    }

    /// An instruction for each lane of a mask.
    fn inst(&mut self, inst: Inst, mask: u32) -> Result<(), Fault> {
        let node = &self.func.insts[inst];
        for arg in node.data.args() {
            self.check_use(arg, mask)?;
        }
        match node.data {
            InstData::EndLane { last, arg, .. } => {
                let lane = if last { self.plan.gang - 1 } else { 0 };
                let own = self.bits(arg, 1 << lane & self.all_lanes());
                let Some(bits) = self.held.at_lane(arg, lane, &own) else {
                    return self.fail(mask, format!("{arg} is not known of lane {lane}"));
                };
                self.skip_with(node.results[0], bits, mask);
            }
            InstData::FirstRunning { arg, .. } => {
                let bits = self.bits(arg, mask)[0].1;
                self.skip_with(node.results[0], bits, mask);
            }
            InstData::Sreg { sreg } if sreg.is_volatile() => {
                self.read_once(node.results[0], mask)?
            }
            InstData::Store { .. } if self.plan.merged[inst] => self.store_merged(inst, mask)?,
            // Each lane executes all others by itself.
            _ => self.step_all(mask)?,
        }
        node.results
            .iter()
            .try_for_each(|&result| self.define(result, mask))
    }

    /// Defines a value of each lane, whose next instruction that is.
    fn skip_with(&mut self, result: Value, bits: u64, mask: u32) {
        for lane in lanes_of(mask) {
            let frame = self.cta.threads[self.first + lane as usize].frame();
            frame.set(result, bits);
            frame.next += 1;
        }
    }

    /// Reads a clock once for the gang: a moment later it would tell another time.
    fn read_once(&mut self, result: Value, mask: u32) -> Result<(), Fault> {
        let first = mask.trailing_zeros();
        self.step(self.first + first as usize)?;
        let bits = self.bits(result, 1 << first)[0].1;
        self.skip_with(result, bits, mask & !(1 << first));
        Ok(())
    }

    /// Stores the words of each lane one by one, as the program has them: together they may be
    /// misaligned.
    fn store_merged(&mut self, inst: Inst, mask: u32) -> Result<(), Fault> {
        for lane in lanes_of(mask) {
            let idx = self.first + lane as usize;
            let thread = &mut self.cta.threads[idx];
            thread.frame().next += 1;
            thread.loc = self.func.insts[inst].loc;
            let stored = self.machine.store_words(thread, &self.func.insts[inst]);
            stored.map_err(|kind| self.cta.fault(idx, kind))?;
        }
        Ok(())
    }

    /// One step of each lane; an operation of the warp that does not wait is over at once.
    fn step_all(&mut self, mask: u32) -> Result<(), Fault> {
        let active: Vec<usize> = lanes_of(mask)
            .map(|lane| self.first + lane as usize)
            .collect();
        self.cta
            .poll(self.machine, active[0], active.len() as u64)?;
        for &idx in &active {
            self.step(idx)?;
        }
        self.cta.warp_operation(&active);
        Ok(())
    }

    fn step(&mut self, idx: usize) -> Result<(), Fault> {
        let thread = &mut self.cta.threads[idx];
        match self.machine.step(&mut self.cta.env, thread) {
            Ok(Step::Next | Step::Yield) => {}
            Ok(Step::Wait(wait)) => thread.state = State::Waiting(wait),
            Ok(Step::Exit) => {
                thread.exit();
                self.machine.progress += 1;
            }
            Err(kind) => return Err(self.cta.fault(idx, kind)),
        }
        Ok(())
    }

    /// Lanes come to an instruction that waits, and leave the gang's code.
    fn wait_at(&mut self, inst: Inst, mask: u32) -> Result<(), Fault> {
        for arg in self.func.insts[inst].data.args() {
            self.check_use(arg, mask)?;
        }
        lanes_of(mask).try_for_each(|lane| self.step(self.first + lane as usize))
    }

    /// The end of a block: lanes become pending at the nodes that they branch to.
    fn terminator(&mut self, pos: usize, block: Block, mask: u32) -> Result<(), Fault> {
        let term = &self.func.blocks[block].term;
        let calls = term.targets();
        let mut taken: SmallVec<[u32; 2]> = SmallVec::from_elem(0, calls.len());
        for lane in lanes_of(mask) {
            if let Some(edge) = self.edge(term, lane) {
                taken[edge] |= 1 << lane;
            }
        }
        if let Terminator::Brif { cond: value, .. } | Terminator::Switch { index: value, .. } = term
        {
            self.check_use(*value, mask)?;
            if !self.plan.divergent[block] && taken.iter().filter(|&&lanes| lanes != 0).count() > 1
            {
                return self.fail(mask, format!("lanes diverge at the end of {block}"));
            }
        }
        for (call, &lanes) in calls.iter().zip(&taken) {
            call.args
                .iter()
                .try_for_each(|&arg| self.check_use(arg, lanes))?;
        }
        self.step_all(mask)?;
        let targets: SmallVec<[usize; 2]> = calls
            .iter()
            .map(|call| self.plan.order.target(pos, call.block))
            .collect();
        for (edge, (call, &lanes)) in calls.iter().zip(&taken).enumerate() {
            if lanes == 0 {
                continue;
            }
            let others = (0..targets.len()).filter(|&other| other != edge);
            let others = others.map(|other| targets[other]);
            let elsewhere = self.plan.pending[pos].iter().copied().chain(others);
            let blends = self.plan.order.must_blend(targets[edge], elsewhere);
            self.held.keep_others(
                &self.func.blocks[call.block].params,
                blends || self.leaves(targets[edge]),
            );
            for &param in &self.func.blocks[call.block].params {
                self.define_param(param, lanes)?;
            }
            *self.pending.entry(targets[edge]).or_default() |= lanes;
        }
        Ok(())
    }

    /// Whether this node is outside of the lane loop that runs.
    fn leaves(&self, target: usize) -> bool {
        self.lane_loop
            .is_some_and(|region| !region.range.contains(&target))
    }

    /// The edge of a terminator that a lane takes.
    fn edge(&self, term: &Terminator, lane: u32) -> Option<usize> {
        let get = |value: Value| self.bits(value, 1 << lane)[0].1;
        match term {
            Terminator::Jump(_) => Some(0),
            Terminator::Brif { cond, .. } => Some(usize::from(get(*cond) & 1 == 0)),
            Terminator::Switch { index, targets, .. } => {
                let index = usize::try_from(get(*index)).unwrap_or(usize::MAX);
                Some(index.min(targets.len()))
            }
            Terminator::Ret(_)
            | Terminator::Exit
            | Terminator::Trap(_)
            | Terminator::Dispatch(_) => None,
        }
    }

    /// What a value is for the lanes of a mask.
    fn bits(&self, value: Value, mask: u32) -> Bits {
        let of = |lane: u32| {
            let thread = &self.cta.threads[self.first + lane as usize];
            thread.frames.last().map(|frame| (lane, frame.get(value)))
        };
        lanes_of(mask).filter_map(of).collect()
    }

    /// An instruction, or a wait that is over, defines a value for the lanes of a mask.
    fn define(&mut self, value: Value, mask: u32) -> Result<(), Fault> {
        let bits = self.bits(value, mask);
        let defined = self.held.define(value, &bits);
        defined.or_else(|what| self.fail(mask, what))
    }

    fn define_param(&mut self, param: Value, mask: u32) -> Result<(), Fault> {
        let bits = self.bits(param, mask);
        let defined = self.held.define_param(param, &bits);
        defined.or_else(|what| self.fail(mask, what))
    }

    fn check_use(&mut self, value: Value, mask: u32) -> Result<(), Fault> {
        if mask == 0 {
            return Ok(());
        }
        let bits = self.bits(value, mask);
        let used = self.held.check_use(value, &bits);
        used.or_else(|what| self.fail(mask, what))
    }

    /// A claim of the plan that does not hold.
    fn fail(&self, mask: u32, what: String) -> Result<(), Fault> {
        let lane = mask.trailing_zeros() as usize % self.plan.gang as usize;
        Err(self.cta.fault(self.first + lane, FaultKind::Plan(what)))
    }
}
