//! Loops in which the gangs of a CTA take turns, for the sake of caches.
//!
//! In a loop that goes through memory in wide steps, while neighbouring lanes access neighbouring words, a gang uses a cache line or two of
//! each place it comes to and moves on. If it ran to the loop's end before the next gang starts, that one would have to fetch all
//! the lines and pages again. So gangs leave such a loop after some turns, for the others to come as far.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, InstData, Space, Type, Value};

use crate::analysis::divergence::Divergence;
use crate::analysis::evolution::{Loop, Step, Steps};
use crate::analysis::order::{Node, Order};
use crate::analysis::variability::Variability;
use crate::memory::merge_stores;

/// Lines that a gang should fetch in one go: enough to make up for saving and restoring what it holds, few enough to stay in the second cache
/// until the last gang has come by.
const LINES: u32 = 32;

/// Neighbouring lanes at most this far apart share lines and pages.
pub(crate) const NEAR_LANES: u64 = 32;

/// A step of this many bytes or more leaves nothing of a line for the next turn.
const FAR_STEP: u64 = 512;

/// Vectors per lane that are worth saving and restoring.
const MOST_HELD: usize = 6;

/// For each header of such a loop: after how many turns the next gang comes.
pub(crate) fn run(
    func: &Function,
    order: &Order,
    waits: &SecondaryMap<Block, bool>,
    optimistic: &Divergence,
) -> SecondaryMap<Block, Option<u32>> {
    let mut out = SecondaryMap::new();
    if optimistic.gang == 1 {
        return out;
    }
    for node in &order.nodes {
        if let Node::LoopEnd(header) = *node {
            out[header] = strip_mine(func, order, waits, optimistic, header);
        }
    }
    out
}

fn strip_mine(
    func: &Function,
    order: &Order,
    waits: &SecondaryMap<Block, bool>,
    optimistic: &Divergence,
    header: Block,
) -> Option<u32> {
    let around = Loop::new(order, header)?;
    if around.has_inner || around.members.iter().any(|&block| waits[block]) {
        return None;
    }
    let held = func.blocks[header]
        .params
        .iter()
        .filter(|&&param| optimistic.variability[param] == Some(Variability::Varying))
        .map(|&param| if func.ty(param) == Type::B64 { 2 } else { 1 })
        .sum::<usize>();
    if held > MOST_HELD {
        return None;
    }
    let steps = Steps::new(func, &around);
    let mut accesses: Vec<Access> = Vec::new();
    for &block in &around.members {
        for &inst in &func.blocks[block].insts {
            match func.insts[inst].data {
                InstData::Load { addr, space, .. } | InstData::Store { addr, space, .. }
                    if matches!(space, Space::Global | Space::Generic) =>
                {
                    let stride = match optimistic.variability[addr] {
                        Some(Variability::Affine { stride, .. }) => stride.unsigned_abs(),
                        _ => continue,
                    };
                    if let Some(step) = steps.of(addr).filter(|_| stride <= NEAR_LANES) {
                        accesses.push(Access {
                            root: merge_stores::from_root(func, addr).0,
                            step,
                            bytes: stride * u64::from(optimistic.gang),
                        });
                    }
                }
                InstData::Call { .. } | InstData::CallIndirect { .. } => return None,
                _ => {}
            }
        }
    }
    let far = accesses.iter().filter(|access| access.is_far(&accesses));
    match far.count() as u32 {
        0 => None,
        far => Some((LINES / far).clamp(1, LINES)),
    }
}

/// What neighbouring lanes access side by side in one turn.
struct Access {
    /// What the address is a constant away from.
    root: Value,
    step: Step,
    /// How much the gang accesses.
    bytes: u64,
}

impl Access {
    /// Whether the next turn is far away, by a distance that only the launch tells or by a long one, and what is between is left out.
    fn is_far(&self, all: &[Access]) -> bool {
        let Step::Const(distance) = self.step else {
            return true;
        };
        let near = all
            .iter()
            .filter(|other| other.root == self.root && other.step == self.step);
        let covered: u64 = near.map(|other| other.bytes).sum();
        distance.unsigned_abs() >= FAR_STEP && covered < distance.unsigned_abs()
    }
}
