//! Strip-mines loops that step widely through memory, and interleaves gangs, for the sake of
//! caches.
//!
//! In a loop that goes through memory in wide steps, while neighboring lanes access neighboring
//! words, a gang uses a cache line or two of each place and moves on. If it ran to the loop's end
//! before the next gang starts, that one would have to fetch all the lines and pages again. So
//! gangs leave such a loop after some iterations, for the next gang to run as many.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, InstData, Space, Type, Value};

use crate::analysis::divergence::Divergence;
use crate::analysis::evolution::{Loop, Step, Steps};
use crate::analysis::order::{Node, Order};
use crate::analysis::variability::Variability;
use crate::cost;
use crate::memory::merge_stores;

/// For each header of such a loop: after how many iterations the next gang runs.
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

#[expect(clippy::wildcard_enum_match_arm, reason = "others do not move data")]
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
    if held > cost::MOST_HELD {
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
                    if let Some(step) = steps.of(addr).filter(|_| stride <= cost::NEAR_LANES) {
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
        far => Some((cost::LINES_PER_STRIP / far).clamp(1, cost::LINES_PER_STRIP)),
    }
}

/// A contiguous access of neighboring lanes in one iteration.
struct Access {
    /// The value from which the address differs by a constant.
    root: Value,
    step: Step,
    /// Bytes that the gang accesses.
    bytes: u64,
}

impl Access {
    /// Whether the next iteration accesses a distant place, at a distance that only the launch
    /// tells or that is long, and skips what lies between.
    fn is_far(&self, all: &[Access]) -> bool {
        let Step::Const(distance) = self.step else {
            return true;
        };
        let near = all
            .iter()
            .filter(|other| other.root == self.root && other.step == self.step);
        let covered: u64 = near.map(|other| other.bytes).sum();
        distance.unsigned_abs() >= cost::FAR_STEP && covered < distance.unsigned_abs()
    }
}
