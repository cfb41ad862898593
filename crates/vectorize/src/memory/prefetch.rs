//! Prefetches for the next CTA, for the next gang and for loops with barriers.
//!
//! Consecutive CTAs run on one thread of the host, and mostly work on consecutive bytes. Hardware
//! prefetches these late, from the first miss on each page, and not at all if a CTA takes little
//! from each of many pages. So an access outside of loops, or in one that fills shared memory, is
//! followed by a hint for where the same gang will access in the next CTA. By the time that CTA
//! runs the line is there.
//!
//! Hardware prefetches within the few pages that a program streams through. Between two barriers a
//! CTA fetches a few bytes each from many pages, as of the rows of a tile, and in the next
//! iteration of the loop the bytes beside them or far away. There, an access is followed by a hint
//! for where the gang will access in its next iteration. Lanes that are scattered, as those that
//! copy the rows of a tile, get hints if each accesses a good part of a line.
//!
//! In loops without barriers the next iteration comes too soon for that, and in strip-mined loops
//! the distances are often powers of two: what many gangs prefetch competes for the same few cache
//! sets. There, the hint names the place behind what the gang accesses, where the next gang will
//! access: so few bytes of so many pages that hardware does not predict them. Places that several
//! CTAs access are not worth hints: most of them are in some cache.

use std::cell::OnceCell;

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Effect, Function, Inst, InstData, InstNode, Space, Type, Value};
use rustc_hash::FxHashMap;

use crate::analysis::divergence::Divergence;
use crate::analysis::evolution::{CtaSteps, Loop, Step, Steps};
use crate::analysis::grid::Ctas;
use crate::analysis::order::Order;
use crate::analysis::sums::Sum;
use crate::analysis::variability::Variability;
use crate::cost;
use crate::speculate::ssa_repair::predecessors;

/// Inserts prefetches; returns how many.
pub(crate) fn run(
    func: &mut Function,
    order: &Order,
    entries: &[Block],
    (waits, strip_mine): (
        &SecondaryMap<Block, bool>,
        &SecondaryMap<Block, Option<u32>>,
    ),
    (divergence, ctas): (&Divergence, &OnceCell<Ctas>),
) -> usize {
    let mut found = Vec::new();
    let mut near: Vec<Hint> = for_next_cta(func, order, waits, divergence);
    let preds = predecessors(func);
    for around in order.headers().filter_map(|it| Loop::new(order, it)) {
        if strip_mine[around.header].is_some() && near.len() < cost::MOST_HINTS {
            let ctas = ctas.get_or_init(|| Ctas::new(func, order));
            near.extend(for_next_gang(func, ctas, &around, divergence));
        }
        let is_full = found.len() >= cost::MOST_HINTS;
        if is_full || !around.members.iter().any(|&block| waits[block]) {
            continue;
        }
        if let Some(before) = entered_from(func, order, entries, (&around, &preds)) {
            let hints = hints(func, order, &around, divergence);
            found.extend(hints.into_iter().map(|hint| (before, hint)));
        }
    }
    let mut emitted = Emitted::default();
    for (before, hint) in &found {
        let value = emitted.step(func, *before, &hint.step);
        hint.emit(func, value);
    }
    let mut of_cta = Emitted::default();
    for hint in &near {
        hint.emit_with_step(func, &mut of_cta);
    }
    found.len() + near.len()
}

/// Steps that are computed at the ends of blocks.
#[derive(Default)]
struct Emitted(Vec<(Block, Step, Value)>);

impl Emitted {
    /// Whether a step is computed anywhere.
    fn has(&self, step: &Step) -> bool {
        self.0.iter().any(|(_, other, _)| other == step)
    }

    /// The value of a step, which is computed once in each block.
    fn step(&mut self, func: &mut Function, block: Block, step: &Step) -> Value {
        let mut known = self.0.iter();
        if let Some(&(.., value)) = known.find(|(at, other, _)| *at == block && other == step) {
            return value;
        }
        let value = step.emit(func, block, Type::B64);
        self.0.push((block, step.clone(), value));
        value
    }
}

fn for_next_cta(
    func: &Function,
    order: &Order,
    waits: &SecondaryMap<Block, bool>,
    divergence: &Divergence,
) -> Vec<Hint> {
    let mut hints: Vec<Hint> = Vec::new();
    let mut near = Near::default();
    let steps = CtaSteps::new(func);
    let filling = fills(func, order, waits);
    let is_asked = |&block: &Block| {
        let around = order.innermost(block);
        around.is_none_or(|header| filling.contains(&header))
    };
    for block in order.blocks().filter(is_asked) {
        for &inst in &func.blocks[block].insts {
            let is_large =
                |access: &Access| access.size * divergence.gang >= cost::LEAST_PREFETCHED;
            let Some(access) = access(func, divergence, inst).filter(is_large) else {
                continue;
            };
            let place = near.place(func, &access);
            if let Some((idx, distance)) = near.find(place) {
                hints[idx].access.include(&access, distance);
                continue;
            }
            if hints.len() >= cost::MOST_HINTS {
                continue;
            }
            let step = steps.of(access.addr);
            if let Some(hint) = Hint::new(divergence, (block, inst), access, step) {
                near.add(place, hints.len());
                hints.push(hint);
            }
        }
    }
    hints
}

/// The headers of loops, in no other loop, that bring memory to shared variables: a CTA takes no
/// more than fits there.
fn fills(func: &Function, order: &Order, waits: &SecondaryMap<Block, bool>) -> Vec<Block> {
    let loops = order.headers();
    let loops = loops.filter_map(|header| Loop::new(order, header));
    let loops: Vec<Loop<'_>> = loops.collect();
    let is_outermost = |around: &&Loop<'_>| {
        let mut others = loops.iter().filter(|other| other.header != around.header);
        !around.has_inner && !others.any(|other| other.contains(around.header))
    };
    let fills = |around: &&Loop<'_>| {
        let stored = |space: Space| {
            around.insts(func).any(|InstNode { data, .. }| {
                let access = data.access().filter(|_| data.effect() == Effect::Write);
                access.is_some_and(|access| access.space == space)
            })
        };
        let waits = around.members.iter().any(|&block| waits[block]);
        stored(Space::Shared) && !stored(Space::Global) && !stored(Space::Generic) && !waits
    };
    let found = loops.iter().filter(is_outermost).filter(fills);
    found.map(|around| around.header).collect()
}

fn for_next_gang(
    func: &Function,
    ctas: &Ctas,
    around: &Loop<'_>,
    divergence: &Divergence,
) -> Vec<Hint> {
    let mut hints: Vec<Hint> = Vec::new();
    let mut near = Near::default();
    for &block in &around.members {
        for &inst in &func.blocks[block].insts {
            let Some(access) = access(func, divergence, inst) else {
                continue;
            };
            if hints.len() >= cost::MOST_HINTS {
                return hints;
            }
            let place = near.place(func, &access);
            if near.find(place).is_some() || !ctas.each_has_its_own(access.addr) {
                continue;
            }
            let step = Step::Const(access.stride * i64::from(divergence.gang));
            if let Some(hint) = Hint::new(divergence, (block, inst), access, Some(step)) {
                near.add(place, hints.len());
                hints.push(hint);
            }
        }
    }
    hints
}

/// Which hints name lines near to an address. Addresses are compared as sums: neighbors of an
/// element are often computed from indices of their own.
#[derive(Default)]
struct Near {
    /// The number of each sum without its constant.
    sums: FxHashMap<Vec<(Value, i64)>, u32>,
    /// Hints by sum and line, with where they begin.
    lines: FxHashMap<(u32, i64), Vec<(usize, i64)>>,
}

/// The number of a sum, and the constant that is added to it.
type Place = (u32, i64);

impl Near {
    fn place(&mut self, func: &Function, access: &Access) -> Place {
        let sum = Sum::of(func, access.addr);
        let next = self.sums.len() as u32;
        let number = *self.sums.entry(sum.terms).or_insert(next);
        (number, sum.constant.wrapping_add(access.offset.into()))
    }

    /// A hint less than a line away, and how far the place is behind its start.
    fn find(&self, (sum, at): Place) -> Option<(usize, i64)> {
        let line = at.div_euclid(cost::LINE.into());
        let hints = [line, line - 1, line + 1].into_iter();
        let mut hints = hints.flat_map(|line| self.lines.get(&(sum, line)).into_iter().flatten());
        let near = hints.find(|&&(_, start)| at.abs_diff(start) < cost::LINE.into());
        near.map(|&(idx, start)| (idx, at - start))
    }

    fn add(&mut self, (sum, at): Place, hint: usize) {
        let line = at.div_euclid(cost::LINE.into());
        self.lines.entry((sum, line)).or_default().push((hint, at));
    }
}

/// Bytes of global memory that the lanes of a gang access contiguously.
#[derive(Copy, Clone)]
struct Access {
    addr: Value,
    offset: i32,
    /// The offset before others were included.
    first: i64,
    /// Bytes of one lane.
    size: u32,
    /// Distance between lanes; of scattered ones 0.
    stride: i64,
}

impl Access {
    /// Reaches to another access, so many bytes behind where this one began.
    fn include(&mut self, other: &Access, distance: i64) {
        let start = i64::from(self.offset);
        let first = (self.first + distance).clamp(i32::MIN.into(), i32::MAX.into());
        let end = (start + i64::from(self.size)).max(first + i64::from(other.size));
        let start = start.min(first);
        (self.offset, self.size) = (start as i32, (end - start) as u32);
    }
}

/// An access of lanes that are near to each other.
fn access(func: &Function, divergence: &Divergence, inst: Inst) -> Option<Access> {
    let access = global_access(func, inst)?;
    let stride = divergence.variability(access.addr).stride()?;
    let is_near = stride.unsigned_abs() <= cost::NEAR_LANES;
    is_near.then_some(Access { stride, ..access })
}

/// A load of scattered lanes, each of a part of a line.
fn scattered_load(func: &Function, divergence: &Divergence, inst: Inst) -> Option<Access> {
    if !matches!(func.insts[inst].data, InstData::Load { .. }) {
        return None;
    }
    let access = global_access(func, inst)?;
    let is_scattered = divergence.is_varying(access.addr);
    (is_scattered && access.size >= cost::LEAST_PREFETCHED_OF_LANE).then_some(access)
}

/// An access of global memory, without its stride.
fn global_access(func: &Function, inst: Inst) -> Option<Access> {
    let access = func.insts[inst].data.access()?;
    let is_global = access.space == Space::Global && func.ty(access.addr) == Type::B64;
    is_global.then_some(Access {
        addr: access.addr,
        offset: access.offset,
        first: access.offset.into(),
        size: access.bytes,
        stride: 0,
    })
}

/// An access, and how far it moves in an iteration of its loop, or from one gang or CTA to the
/// next.
struct Hint {
    block: Block,
    inst: Inst,
    access: Access,
    step: Step,
}

impl Hint {
    /// A hint for an access that moves by this step, if that leads elsewhere, and equally far for
    /// all lanes.
    fn new(
        divergence: &Divergence,
        (block, inst): (Block, Inst),
        access: Access,
        step: Option<Step>,
    ) -> Option<Hint> {
        let is_uniform = |value: Value| divergence.variability[value] == Some(Variability::Uniform);
        let step = step.filter(|step| *step != Step::Const(0) && step.all(&is_uniform))?;
        Some(Hint {
            block,
            inst,
            access,
            step,
        })
    }

    /// Inserts the hint behind the access, and behind the store that takes what a load gives.
    fn emit(&self, func: &mut Function, step: Value) {
        let data = InstData::Prefetch {
            addr: self.access.addr,
            step,
            offset: self.access.offset,
            size: self.access.size,
        };
        let InstNode { loc, results, .. } = func.insts[self.inst].clone();
        let hint = func.make_inst(data, &[], loc);
        let after = self.position(func) + 1;
        let next = func.insts_in(self.block).nth(after);
        let is_stored = next.is_some_and(
            |next| matches!(&next.data, InstData::Store { args, .. } if args[..] == results[..]),
        );
        let at = after + usize::from(is_stored);
        func.blocks[self.block].insts.insert(at, hint);
    }

    /// The place of the access in its block.
    fn position(&self, func: &Function) -> usize {
        let mut insts = func.blocks[self.block].insts.iter();
        let at = insts.position(|&inst| inst == self.inst);
        at.expect("it is there")
    }

    /// Inserts the hint behind the access. What of its step is the same in all of a CTA is computed
    /// in the function's first block, once for all hints of that step; other steps before the
    /// access.
    fn emit_with_step(&self, func: &mut Function, of_cta: &mut Emitted) {
        let step = match self.is_known_at_entry(func) || of_cta.has(&self.step) {
            true => of_cta.step(func, func.entry, &self.step),
            false => self.emit_step_before(func),
        };
        self.emit(func, step);
    }

    /// Whether the values of the step are computed in the function's first block.
    fn is_known_at_entry(&self, func: &Function) -> bool {
        let first = &func.blocks[func.entry].insts;
        let is_first = |value| func.maker(value).is_some_and(|inst| first.contains(&inst));
        self.block != func.entry && self.step.all(&is_first)
    }

    fn emit_step_before(&self, func: &mut Function) -> Value {
        let at = self.position(func);
        let insts = &mut func.blocks[self.block].insts;
        let behind = insts.split_off(at);
        let step = self.step.emit(func, self.block, Type::B64);
        func.blocks[self.block].insts.extend(behind);
        step
    }
}

fn hints(func: &Function, order: &Order, around: &Loop<'_>, divergence: &Divergence) -> Vec<Hint> {
    let steps = Steps::new(func, around);
    let mut hints = Vec::new();
    let members = around.members.iter();
    let own = members.filter(|&&block| order.innermost(block) == Some(around.header));
    for &block in own {
        for &inst in &func.blocks[block].insts {
            let access = access(func, divergence, inst);
            if let Some(access) = access.or_else(|| scattered_load(func, divergence, inst)) {
                let step = steps.of(access.addr);
                hints.extend(Hint::new(divergence, (block, inst), access, step));
            }
        }
    }
    hints
}

/// The only block from which a loop is entered, if it enters at the header and leaves no other
/// loop.
fn entered_from(
    func: &Function,
    order: &Order,
    entries: &[Block],
    (around, preds): (&Loop<'_>, &SecondaryMap<Block, Vec<Block>>),
) -> Option<Block> {
    if around.contains(func.entry) || entries.iter().any(|&entry| around.contains(entry)) {
        return None;
    }
    let mut before = None;
    for &block in &around.members {
        let is_outside = |pred: &Block| order.block_pos[*pred].is_some() && !around.contains(*pred);
        for pred in preds[block].iter().copied().filter(is_outside) {
            if block != around.header || before.is_some() {
                return None;
            }
            before = Some(pred);
        }
    }
    let before = before?;
    let edges = func.successors(before).filter(|&to| to == around.header);
    let outer = order.enclosing(before);
    let leaves = outer.is_some_and(|range| !order.is_in(&range, around.header));
    (edges.count() == 1 && !leaves).then_some(before)
}
