//! Prefetches for loops with barriers.
//!
//! Hardware prefetches what lies on the few pages that are being walked through. Between two barriers a CTA fetches a few bytes each from many
//! pages, as of the rows of a tile, and with the next turn of the loop the bytes beside them or far away. There, an access is followed by a
//! hint for where the gang will access with its next turn.
//!
//! In loops without barriers the next turn comes too soon for that, and in those where gangs take turns the distances are often powers of two: what
//! is fetched ahead for many gangs competes for the same few cache sets.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, Inst, InstData, Space, Type, Value};

use super::order::{Node, Order};
use super::shape::Shape;
use super::shapes::Shapes;
use super::steps::{Loop, Step, Steps};
use super::turns::NEAR_LANES;

/// Puts in prefetches; says whether there are any.
pub(super) fn run(
    func: &mut Function,
    order: &Order,
    entries: &[Block],
    waits: &SecondaryMap<Block, bool>,
    shapes: &Shapes,
) -> bool {
    let mut found = Vec::new();
    for node in &order.nodes {
        let Node::LoopEnd(header) = *node else {
            continue;
        };
        let Some(around) = Loop::new(order, header) else {
            continue;
        };
        if !around.members.iter().any(|&block| waits[block]) {
            continue;
        }
        if let Some(before) = entered_from(func, order, entries, &around) {
            let hints = hints(func, order, &around, shapes);
            found.extend(hints.into_iter().map(|hint| (before, hint)));
        }
    }
    let mut emitted: Vec<(Block, Step, Value)> = Vec::new();
    for (before, hint) in &found {
        let known = emitted
            .iter()
            .find(|(block, other, _)| block == before && *other == hint.step);
        let value = match known {
            Some(&(_, _, value)) => value,
            None => {
                let value = hint.step.emit(func, *before, Type::B64);
                emitted.push((*before, hint.step.clone(), value));
                value
            }
        };
        hint.emit(func, value);
    }
    !found.is_empty()
}

/// An access, and how far it moves in a turn of its loop.
struct Hint {
    block: Block,
    inst: Inst,
    step: Step,
}

impl Hint {
    fn emit(&self, func: &mut Function, step: Value) {
        let node = &func.insts[self.inst];
        let data = match node.data {
            InstData::Load {
                addr,
                offset,
                ty,
                n,
                ..
            } => InstData::Prefetch {
                addr,
                step,
                offset,
                size: ty.bytes() * u32::from(n),
            },
            InstData::Store {
                addr,
                offset,
                ty,
                ref args,
                ..
            } => InstData::Prefetch {
                addr,
                step,
                offset,
                size: ty.bytes() * args.len() as u32,
            },
            _ => unreachable!("loads and stores have hints"),
        };
        let loc = node.loc;
        let hint = func.make_inst(data, &[], loc);
        let insts = &mut func.blocks[self.block].insts;
        let at = insts.iter().position(|&inst| inst == self.inst);
        insts.insert(at.expect("it is there") + 1, hint);
    }
}

fn hints(func: &Function, order: &Order, around: &Loop, shapes: &Shapes) -> Vec<Hint> {
    let steps = Steps::new(func, around);
    let is_uniform = |value: Value| shapes.shapes[value] == Some(Shape::Uniform);
    let mut hints = Vec::new();
    for &block in &around.members {
        if order.innermost(block) != Some(around.header) {
            continue;
        }
        for &inst in &func.blocks[block].insts {
            let (InstData::Load { addr, space, .. } | InstData::Store { addr, space, .. }) =
                func.insts[inst].data
            else {
                continue;
            };
            let is_near = matches!(
                shapes.shapes[addr],
                Some(Shape::Affine { stride, .. }) if stride.unsigned_abs() <= NEAR_LANES
            );
            if space != Space::Global || !is_near || func.ty(addr) != Type::B64 {
                continue;
            }
            match steps.of(addr) {
                Some(Step::Const(0)) | None => {}
                Some(step) if step.all(&is_uniform) => hints.push(Hint { block, inst, step }),
                Some(_) => {}
            }
        }
    }
    hints
}

/// The only block from which a loop is entered, if that is at its header, and no loop is left on the way.
fn entered_from(func: &Function, order: &Order, entries: &[Block], around: &Loop) -> Option<Block> {
    if around.contains(func.entry) || entries.iter().any(|&entry| around.contains(entry)) {
        return None;
    }
    let mut before = None;
    for node in &order.nodes {
        let Node::Block(block) = *node else {
            continue;
        };
        if around.contains(block) {
            continue;
        }
        let targets = func.blocks[block].term.targets();
        let mut inside = targets.iter().filter(|call| around.contains(call.block));
        if let Some(call) = inside.next() {
            if call.block != around.header || before.is_some() || inside.next().is_some() {
                return None;
            }
            before = Some(block);
        }
    }
    let before = before?;
    let at = order.block_pos[before]? as usize;
    let header_at = order.block_pos[around.header]? as usize;
    let leaves = order.nodes.iter().any(|node| match *node {
        Node::LoopEnd(header) => order
            .loop_range(header)
            .is_some_and(|range| range.contains(&at) && !range.contains(&header_at)),
        Node::Block(_) => false,
    });
    (!leaves).then_some(before)
}
