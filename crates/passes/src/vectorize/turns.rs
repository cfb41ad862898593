//! Loops in which the gangs of a CTA take turns, for the sake of caches.
//!
//! In a loop that goes through memory in wide steps, while neighbouring lanes access neighbouring words, a gang uses a cache line or two of
//! each place it comes to and moves on. If it ran to the loop's end before the next gang starts, that one would have to fetch all
//! the lines and pages again. So gangs leave such a loop after some turns, for the others to come as far.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, InstData, IntBinaryOp, Space, Type, Value, ValueDef};

use super::order::{Node, Order};
use super::shape::Shape;
use super::shapes::Shapes;

/// Lines that a gang should fetch in one go: enough to make up for saving and restoring what it holds, few enough to stay in the first cache
/// until the last gang has come by.
const LINES: u32 = 32;

/// Neighbouring lanes at most this far apart share lines and pages.
const NEAR_LANES: u64 = 32;

/// A step of this many bytes or more leaves nothing of a line for the next turn.
const FAR_STEP: u64 = 512;

/// Vectors per lane that are worth saving and restoring.
const MOST_HELD: usize = 6;

/// For each header of such a loop: after how many turns the next gang comes.
pub(super) fn run(
    func: &Function,
    order: &Order,
    waits: &SecondaryMap<Block, bool>,
    hopeful: &Shapes,
) -> SecondaryMap<Block, Option<u32>> {
    let mut out = SecondaryMap::new();
    if hopeful.gang == 1 {
        return out;
    }
    for node in &order.nodes {
        if let Node::LoopEnd(header) = *node {
            out[header] = turns(func, order, waits, hopeful, header);
        }
    }
    out
}

fn turns(
    func: &Function,
    order: &Order,
    waits: &SecondaryMap<Block, bool>,
    hopeful: &Shapes,
    header: Block,
) -> Option<u32> {
    let range = order.loop_range(header)?;
    let mut members = Vec::new();
    for node in &order.nodes[range] {
        match *node {
            Node::Block(block) if waits[block] => return None,
            Node::Block(block) => members.push(block),
            Node::LoopEnd(other) if other != header => return None,
            Node::LoopEnd(_) => {}
        }
    }
    let held = func.blocks[header]
        .params
        .iter()
        .filter(|&&param| hopeful.shapes[param] == Some(Shape::Varying))
        .map(|&param| if func.ty(param) == Type::B64 { 2 } else { 1 })
        .sum::<usize>();
    if held > MOST_HELD {
        return None;
    }
    let steps = Steps {
        func,
        header,
        members: &members,
    };
    let mut far = 0;
    for &block in &members {
        for &inst in &func.blocks[block].insts {
            match func.insts[inst].data {
                InstData::Load { addr, space, .. } | InstData::Store { addr, space, .. }
                    if matches!(space, Space::Global | Space::Generic) =>
                {
                    let is_near = matches!(
                        hopeful.shapes[addr],
                        Some(Shape::Affine { stride, .. }) if stride.unsigned_abs() <= NEAR_LANES
                    );
                    far += u32::from(is_near && steps.of(addr, DEPTH) == Some(Step::Far));
                }
                InstData::Call { .. } | InstData::CallIndirect { .. } => return None,
                _ => {}
            }
        }
    }
    (far > 0).then(|| (LINES / far).clamp(1, LINES))
}

/// How much a value changes from turn to turn.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Step {
    Near(i64),
    /// By a distance that only the launch tells, or a long one.
    Far,
}

impl Step {
    fn by(distance: i64) -> Step {
        if distance.unsigned_abs() >= FAR_STEP {
            Step::Far
        } else {
            Step::Near(distance)
        }
    }

    fn times(self, factor: i64) -> Step {
        match self {
            Step::Near(distance) => Step::by(distance.saturating_mul(factor)),
            Step::Far => Step::Far,
        }
    }
}

/// Definitions are followed this deep.
const DEPTH: u32 = 24;

struct Steps<'a> {
    func: &'a Function,
    header: Block,
    members: &'a [Block],
}

impl Steps<'_> {
    fn is_inside(&self, value: Value) -> bool {
        match self.func.values[value].def {
            ValueDef::Param(block, _) => self.members.contains(&block),
            ValueDef::Result(inst, _) => self
                .members
                .iter()
                .any(|&block| self.func.blocks[block].insts.contains(&inst)),
        }
    }

    /// Nothing if the value does not move steadily.
    fn of(&self, value: Value, depth: u32) -> Option<Step> {
        let depth = depth.checked_sub(1)?;
        if self.func.as_const(value).is_some() || !self.is_inside(value) {
            return Some(Step::Near(0));
        }
        if let ValueDef::Param(block, idx) = self.func.values[value].def {
            return self.of_param(value, block, idx as usize, depth);
        }
        match *self.func.def_inst(value)? {
            InstData::Resize { arg, .. } => self.of(arg, depth),
            InstData::IntBinary {
                op, args: [a, b], ..
            } => {
                let (x, y) = (self.of(a, depth)?, self.of(b, depth)?);
                let sum = |sign: i64| match (x, y) {
                    (Step::Near(x), Step::Near(y)) => Step::by(x.saturating_add(sign * y)),
                    _ => Step::Far,
                };
                let constant = self.func.as_const(b).map(|bits| bits as i64);
                match op {
                    IntBinaryOp::Add => Some(sum(1)),
                    IntBinaryOp::Sub => Some(sum(-1)),
                    IntBinaryOp::Shl => Some(x.times(1 << constant.filter(|&c| c < 32)?)),
                    IntBinaryOp::Mul | IntBinaryOp::SmulWide | IntBinaryOp::UmulWide => {
                        Some(match (x, y, constant) {
                            (Step::Near(0), Step::Near(0), _) => Step::Near(0),
                            (x, _, Some(factor)) => x.times(factor),
                            _ => Step::Far,
                        })
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn of_param(&self, param: Value, block: Block, idx: usize, depth: u32) -> Option<Step> {
        let mut step = None;
        for &pred in self.members {
            for call in self.func.blocks[pred].term.targets() {
                if call.block != block {
                    continue;
                }
                let arg = call.args[idx];
                let next = if block == self.header {
                    self.distance(param, arg, depth)?
                } else {
                    self.of(arg, depth)?
                };
                if step.is_some_and(|step| step != next) {
                    return None;
                }
                step = Some(next);
            }
        }
        step
    }

    /// `arg - param`, if the former is the latter and something that does not change in the loop.
    fn distance(&self, param: Value, arg: Value, depth: u32) -> Option<Step> {
        let depth = depth.checked_sub(1)?;
        if arg == param {
            return Some(Step::Near(0));
        }
        if let ValueDef::Param(block, idx) = self.func.values[arg].def {
            // Handed through by a block with one predecessor in the loop.
            let mut args = self.members.iter().flat_map(|&pred| {
                let targets = self.func.blocks[pred].term.targets();
                let calls = targets.into_iter().filter(|call| call.block == block);
                calls
                    .map(|call| call.args[idx as usize])
                    .collect::<Vec<_>>()
            });
            let (first, second) = (args.next()?, args.next());
            return if block != self.header && second.is_none() {
                self.distance(param, first, depth)
            } else {
                None
            };
        }
        let &InstData::IntBinary {
            op: op @ (IntBinaryOp::Add | IntBinaryOp::Sub),
            args: [a, b],
            ..
        } = self.func.def_inst(arg)?
        else {
            return None;
        };
        let (rest, change) = if op == IntBinaryOp::Add && self.is_change(a) {
            (b, a)
        } else if self.is_change(b) {
            (a, b)
        } else {
            return None;
        };
        let change = match self.func.as_const(change) {
            Some(bits) => {
                let ty = self.func.ty(change);
                Step::by((bits << (64 - ty.bits())) as i64 >> (64 - ty.bits()))
            }
            None => Step::Far,
        };
        Some(match (self.distance(param, rest, depth)?, change) {
            (Step::Near(x), Step::Near(y)) => Step::by(x.saturating_add(y)),
            _ => Step::Far,
        })
    }

    fn is_change(&self, value: Value) -> bool {
        self.func.as_const(value).is_some() || !self.is_inside(value)
    }
}
