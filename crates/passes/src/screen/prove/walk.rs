//! Follows all threads of a grid through the code at once.
//!
//! The threads at a block are a [`Region`], and registers are [`Form`]s. Where a condition is not
//! the same for all threads, both sides are followed, and their threads meet again at the block
//! that comes first in an order in which loops are contiguous; only then is it executed. So when
//! nothing waits elsewhere, all threads are at one place, and a barrier there is one of all.
//!
//! Iterations of loops are followed one by one while the code decides how many there are, or in one
//! go, see [`summary`](super::summary). Nothing is known of what is in memory.

use std::collections::BTreeMap;

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, BlockCall, Function, Inst, InstData, MemSem, Space, Terminator, Type, Value,
};
use rustc_hash::FxHashMap;

use super::copies::Copies;
use super::covered::Covered;
use super::form::Form;
use super::log::{Log, Made};
use super::plan::Plan;
use super::region::{Limits, Pred, Region};
use super::tables::Tables;
use super::{Facts, Unproven};
use crate::analysis::loops::Loop;
use crate::screen::access::Access;
use crate::screen::admit;
use crate::screen::loads::Kept;

/// Instructions that are followed for one launch: some milliseconds of work.
const MOST_STEPS: u32 = 100_000;

/// Threads that will go on at a block, and the values of its parameters.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) region: Region,
    pub(super) args: Vec<Form>,
}

/// A loop that threads are in.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) id: Loop,
    /// What has left the loop in values that code behind it uses.
    left: FxHashMap<Value, Form>,
    pub(super) mode: Mode,
    /// When threads came to it, see [`copies`](super::copies).
    pub(super) step: u32,
}

/// How iterations of a loop are followed.
#[derive(Debug)]
pub(super) enum Mode {
    /// One by one; whether it was tried to do otherwise.
    Single { tried: bool },
    /// Many at once. Threads do not go back to the header, and if `last` is given, not out of the
    /// loop by the edge from that block: it has the last iteration, which is followed on its own.
    Many { last: Option<(Block, Box<Pending>)> },
}

pub(super) struct Walk<'a> {
    pub(super) func: &'a Function,
    pub(super) plan: &'a Plan,
    pub(super) facts: &'a Facts<'a>,
    kept: &'a Kept,
    pub(super) vals: SecondaryMap<Value, Form>,
    pub(super) preds: FxHashMap<Value, Pred>,
    /// Threads on their way to blocks by forward edges, by position.
    forward: BTreeMap<u32, Pending>,
    /// Threads on their way back to headers of loops, by position.
    back: BTreeMap<u32, Pending>,
    pub(super) active: Vec<Active>,
    /// Threads of blocks that have been executed last, for those that they dominate.
    at_end: SecondaryMap<Block, Option<Box<Region>>>,
    /// Barriers of the CTA so far.
    pub(super) interval: u32,
    /// What orders accesses of a thread, or of its warp, so far.
    pub(super) step: u32,
    pub(super) tables: Tables,
    pub(super) copies: Copies,
    /// Some threads have ended.
    ended: bool,
    steps: u32,
    pub(super) log: Log,
    pub(super) covered: Covered,
}

impl Active {
    /// Whether many of its iterations are followed at once.
    pub(super) fn is_many(&self) -> bool {
        matches!(self.mode, Mode::Many { .. })
    }
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        func: &'a Function,
        plan: &'a Plan,
        facts: &'a Facts<'a>,
        kept: &'a Kept,
    ) -> Walk<'a> {
        Walk {
            func,
            plan,
            facts,
            kept,
            vals: SecondaryMap::with_default(Form::unknown(64)),
            preds: FxHashMap::default(),
            forward: BTreeMap::new(),
            back: BTreeMap::new(),
            active: Vec::new(),
            at_end: SecondaryMap::new(),
            interval: 0,
            step: 0,
            tables: Tables::default(),
            copies: Copies::default(),
            ended: false,
            steps: 0,
            log: Log::default(),
            covered: Covered::default(),
        }
    }

    pub(super) fn run(&mut self) -> Result<(), Unproven> {
        let entry = self.func.entry;
        let args = vec![Form::unknown(64); self.func.blocks[entry].params.len()];
        let region = self.facts.shape.all.clone();
        self.forward
            .insert(self.position(entry), Pending { region, args });
        while let Some((block, pending)) = self.next()? {
            self.block(block, pending)?;
        }
        Ok(())
    }

    fn position(&self, block: Block) -> u32 {
        self.plan.forest.position[block]
    }

    /// The block that is executed next: loops are finished before what lies behind them, and an
    /// iteration before the next one.
    fn next(&mut self) -> Result<Option<(Block, Pending)>, Unproven> {
        loop {
            let forest = &self.plan.forest;
            let forward = self.forward.keys().next().copied();
            let block = forward.map(|at| forest.order[at as usize]);
            if let Some(active) = self.active.last() {
                let id = active.id;
                if let Some(block) = block.filter(|&block| forest.contains(id, block)) {
                    return Ok(self.take_forward(block));
                }
                let header = forest.loops[id].header;
                if let Some(pending) = self.back.remove(&self.position(header)) {
                    if let Some(pending) = self.again(id, pending)? {
                        return Ok(Some((header, pending)));
                    }
                    continue;
                }
                if let Some(pending) = self.last_iteration() {
                    return Ok(Some((header, pending)));
                }
                self.leave();
                continue;
            }
            return Ok(block.and_then(|block| self.take_forward(block)));
        }
    }

    /// Takes the threads that go forward to a block, which may begin loops.
    fn take_forward(&mut self, block: Block) -> Option<(Block, Pending)> {
        let pending = self.forward.remove(&self.position(block))?;
        if let Some(id) = self.plan.forest.headed_by(block) {
            self.active.push(Active {
                id,
                left: FxHashMap::default(),
                mode: Mode::Single { tried: false },
                step: self.step,
            });
        }
        Some((block, pending))
    }

    /// The last iteration of a loop whose others were followed at once.
    fn last_iteration(&mut self) -> Option<Pending> {
        let active = self.active.last_mut()?;
        let Mode::Many { last } = &mut active.mode else {
            return None;
        };
        let (_, pending) = last.take()?;
        active.mode = Mode::Single { tried: true };
        Some(*pending)
    }

    /// All threads have left the innermost loop.
    fn leave(&mut self) {
        if let Some(active) = self.active.pop() {
            for (value, form) in active.left {
                self.vals[value] = form;
                self.preds.remove(&value);
            }
        }
    }

    fn block(&mut self, block: Block, pending: Pending) -> Result<(), Unproven> {
        let data = &self.func.blocks[block];
        for (&param, form) in data.params.iter().zip(&pending.args) {
            self.vals[param] = *form;
            self.preds.remove(&param);
        }
        let region = self.rejoined(block, pending.region);
        self.steps += 1;
        for &inst in &data.insts {
            if self.plan.needed[inst] {
                self.steps += 1;
                if self.steps > MOST_STEPS {
                    return Err(Unproven("it has too many iterations to follow"));
                }
                self.inst(inst, &region)?;
            }
        }
        self.branch(block, &data.term, &region)?;
        self.at_end[block] = Some(Box::new(region));
        Ok(())
    }

    /// The threads that come to a block. If they have parted at the block that dominates it and all
    /// meet here, they are those of that block.
    fn rejoined(&self, block: Block, region: Region) -> Region {
        let forest = &self.plan.forest;
        let Some(from) = self.plan.dom.idom(block) else {
            return region;
        };
        let same_loop =
            forest.innermost(from) == forest.innermost(block) && forest.headed_by(block).is_none();
        match (&self.at_end[from], self.plan.post.idom(from)) {
            (Some(before), Some(end)) if same_loop && end == block => (**before).clone(),
            _ => region,
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "all else only computes something"
    )]
    fn inst(&mut self, inst: Inst, region: &Region) -> Result<(), Unproven> {
        let node = &self.func.insts[inst];
        if let Some(access) = Access::of(self.func, &node.data) {
            return self.access(inst, access, region);
        }
        match node.data {
            ref barrier if admit::is_barrier(barrier) => self.barrier()?,
            InstData::Barrier { .. } if self.plan.unsure.contains(&inst) => {
                return Err(Unproven("threads may diverge before `wgmma.wait_group`"));
            }
            InstData::Warp { op, ref args, .. } => self.warp((inst, op, args), region)?,
            InstData::Device { ref op, ref args } => self.device(op, args, region)?,
            _ => {}
        }
        self.own_access(&node.data, region);
        for (idx, &result) in node.results.iter().enumerate() {
            let ty = self.func.ty(result);
            let form = if idx == 0 {
                self.result(inst, ty, region)
            } else {
                self.further_result(&node.data, ty, idx)
            };
            self.vals[result] = form;
            if ty == Type::B1 {
                let pred = self.pred(&node.data, region);
                match pred.or_else(|| of_bit(&self.vals[result], region)) {
                    Some(pred) => self.preds.insert(result, pred),
                    None => self.preds.remove(&result),
                };
                if let Some(known) = self.known(result, region) {
                    self.vals[result] = Form::constant(known.into());
                }
            }
        }
        Ok(())
    }

    /// The form of a result that is not the first.
    fn further_result(&self, data: &InstData, ty: Type, idx: usize) -> Form {
        if let InstData::Load {
            space: Space::Param,
            addr,
            offset,
            ..
        } = *data
        {
            let offset = offset + idx as i32 * ty.bytes() as i32;
            if let Some(form) = self.param(ty, addr, offset) {
                return form;
            }
        }
        Form::unknown(ty.bits())
    }

    /// All threads of the CTA must be here.
    fn barrier(&mut self) -> Result<(), Unproven> {
        let is_alone = self.forward.is_empty() && self.back.is_empty() && !self.ended;
        let in_sum = self.active.iter().any(Active::is_many);
        if !is_alone || in_sum {
            return Err(Unproven("threads may diverge before a barrier"));
        }
        self.interval += 1;
        self.step += 1;
        self.covered.barrier(&self.tables, &self.facts.shape);
        Ok(())
    }

    /// The integer that an access takes for its address, if it is known. In windows that is the
    /// signed low word of the register, and an offset does not wrap.
    fn place(&self, (space, addr, offset): (Space, Value, i32), region: &Region) -> Option<Form> {
        let form = &self.vals[addr];
        if !matches!(space, Space::Generic | Space::Global) {
            return form.signed(32, region)?.plus(offset.into());
        }
        let ty = self.func.ty(addr);
        match ty == Type::B64 {
            true => form.plus(offset.into())?.unsigned(64, region),
            false => form.unsigned(ty.bits(), region)?.plus(offset.into()),
        }
    }

    /// Accesses to memory that threads do not share are not compared. Of those to windows that only
    /// exact bounds look at it must be known that they stay inside.
    fn own_access(&mut self, data: &InstData, region: &Region) {
        // Instrumented code looks at local memory.
        let wants_bounds = self.facts.wanted.locals();
        if let InstData::Store { space, .. } | InstData::Atomic { space, .. } = *data {
            self.log.may_fail |= space != Space::Local || wants_bounds;
            return;
        }
        let InstData::Load {
            space,
            ty,
            n,
            addr,
            offset,
            ..
        } = *data
        else {
            return;
        };
        let bytes = ty.bytes() * u32::from(n);
        let is_inside = match space == Space::Local {
            true => !wants_bounds,
            false => {
                let form = self.place((space, addr, offset), region);
                form.is_some_and(|form| self.facts.is_readable(space, &form, region, bytes))
            }
        };
        self.log.may_fail |= !is_inside;
    }

    fn access(&mut self, inst: Inst, access: Access, region: &Region) -> Result<(), Unproven> {
        let addr = self.vals[access.addr];
        let form = self.place((access.space, access.addr, access.offset), region);
        let node = &self.func.insts[inst];
        let is_noncoherent = self.kept.is_noncoherent(node.loc)
            || matches!(
                node.data,
                InstData::Load {
                    sem: MemSem::NonCoherent,
                    ..
                }
            );
        let made = Made {
            inst,
            access,
            form: form.map(|it| Form {
                near: addr.near,
                ..it
            }),
            near: addr.near,
            is_noncoherent,
            at: self.moment(inst),
        };
        let state = (self.facts, &self.tables, &mut self.covered);
        if let Some(pending) = self.log.add(state, made, region)? {
            self.issue(pending);
        }
        for &result in &node.results {
            self.vals[result] = Form::unknown(self.func.ty(result).bits());
        }
        Ok(())
    }

    fn branch(&mut self, block: Block, term: &Terminator, region: &Region) -> Result<(), Unproven> {
        match term {
            Terminator::Jump(call) => self.go(block, call, region.clone()),
            Terminator::Brif { cond, then_, else_ } => {
                let pred = match self.known(*cond, region) {
                    Some(true) => return self.go(block, then_, region.clone()),
                    Some(false) => return self.go(block, else_, region.clone()),
                    None => self.preds.get(cond).cloned().unwrap_or_default(),
                };
                if let Some(region) = region.within(&pred.yes) {
                    self.go(block, then_, region)?;
                }
                match region.within(&pred.no) {
                    Some(region) => self.go(block, else_, region),
                    None => Ok(()),
                }
            }
            Terminator::Switch {
                index,
                targets,
                default,
            } => {
                if let Some(index) = self.vals[*index].as_const() {
                    let index = index.rem_euclid(1 << 32) as usize;
                    let call = targets.get(index).unwrap_or(default);
                    return self.go(block, call, region.clone());
                }
                let some = region.within(&Limits::default()).unwrap_or(region.clone());
                for call in targets.iter().chain([default]) {
                    self.go(block, call, some.clone())?;
                }
                Ok(())
            }
            Terminator::Ret(_) | Terminator::Exit => {
                self.ended = true;
                Ok(())
            }
            Terminator::Trap(_) => {
                self.log.may_fail = true;
                self.ended = true;
                Ok(())
            }
            Terminator::Dispatch(_) => Err(Unproven("it calls functions")),
        }
    }

    /// Sends threads along an edge.
    fn go(&mut self, from: Block, call: &BlockCall, region: Region) -> Result<(), Unproven> {
        let forest = &self.plan.forest;
        let is_back = forest.is_back_edge(from, call.block);
        for active in self.active.iter_mut().rev() {
            let header = forest.loops[active.id].header;
            if let Mode::Many { last } = &active.mode {
                let leaves = !forest.contains(active.id, call.block);
                let is_last = last.as_ref().is_some_and(|(block, _)| *block == from);
                if (is_back && call.block == header) || (leaves && is_last) {
                    return Ok(());
                }
            }
        }
        for active in &mut self.active {
            if forest.contains(active.id, call.block) {
                continue;
            }
            for &value in self.plan.leaving.get(&active.id).into_iter().flatten() {
                let bits = self.func.ty(value).bits();
                let form = self.vals[value];
                let left = active.left.entry(value).or_insert(form);
                *left = left.join(&form, bits);
            }
        }
        let args: Vec<Form> = call.args.iter().map(|&arg| self.vals[arg]).collect();
        let params = &self.func.blocks[call.block].params;
        let position = self.position(call.block);
        let pending = if is_back {
            &mut self.back
        } else {
            &mut self.forward
        };
        match pending.get_mut(&position) {
            None => {
                pending.insert(position, Pending { region, args });
            }
            Some(pending) => {
                pending.region = pending.region.join(&region);
                let forms = pending.args.iter_mut().zip(&args);
                for ((form, arg), &param) in forms.zip(params) {
                    *form = form.join(arg, self.func.ty(param).bits());
                }
            }
        }
        Ok(())
    }
}

/// What a bit says that is a sum of digits.
fn of_bit(bit: &Form, region: &Region) -> Option<Pred> {
    let bit = bit.unsigned(1, region)?;
    if !bit.is_exact() || bit.has_table() {
        return None;
    }
    let limits = |form: Form| Limits {
        forms: vec![form],
        is_all: true,
    };
    Some(Pred {
        yes: limits(bit.plus(-1)?),
        no: limits(bit.scale(-1)?),
    })
}
