//! Strip-mines loops that step widely through memory, and interleaves gangs, for the sake of
//! caches.
//!
//! In a loop that goes through memory in wide steps, while neighboring lanes access neighboring
//! words, a gang uses a cache line or two of each place and moves on. If it ran to the loop's end
//! before the next gang starts, that one would have to fetch all the lines and pages again. So
//! gangs leave such a loop after some iterations, for the next gang to run as many.

use std::cell::OnceCell;

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Class, Function, Space, Type, Value};

use crate::analysis::divergence::Divergence;
use crate::analysis::evolution::{Loop, Step, Steps};
use crate::analysis::grid::Ctas;
use crate::analysis::order::Order;
use crate::cost;
use crate::memory::merge_stores;

/// For each header of such a loop: after how many iterations the next gang runs.
pub(crate) fn run(
    func: &Function,
    order: &Order,
    waits: &SecondaryMap<Block, bool>,
    (optimistic, ctas): (&Divergence, &OnceCell<Ctas>),
) -> SecondaryMap<Block, Option<u32>> {
    let mut out = SecondaryMap::new();
    if optimistic.gang == 1 {
        return out;
    }
    for header in order.headers() {
        out[header] = strip_mine(func, order, waits, (optimistic, ctas), header);
    }
    out
}

fn strip_mine(
    func: &Function,
    order: &Order,
    waits: &SecondaryMap<Block, bool>,
    (optimistic, ctas): (&Divergence, &OnceCell<Ctas>),
    header: Block,
) -> Option<u32> {
    let around = Loop::new(order, header)?;
    if around.has_inner || around.members.iter().any(|&block| waits[block]) {
        return None;
    }
    if held(func, optimistic, header) > cost::MOST_HELD {
        return None;
    }
    let accesses = contiguous_accesses(func, &around, optimistic)?;
    let far = |access: &&Access| access.is_far(&accesses);
    let far: Vec<&Access> = accesses.iter().filter(far).collect();
    if far.is_empty() {
        return None;
    }
    let is_first = |&at: &usize| !far[..at].iter().any(|other| other.shares(far[at]));
    let places = (0..far.len()).filter(is_first).map(|at| far[at]);
    let ctas = ctas.get_or_init(|| Ctas::new(func, order));
    let strides_grid = |access: &&Access| !access.step.all(&|step| !ctas.depends_on_size(step));
    if far.iter().any(strides_grid) {
        let lines: u64 = places.map(Access::lines).sum();
        return Some((cost::LINES_PER_GRID_STRIP / lines.max(1) as u32).max(1));
    }
    Some((cost::PLACES_PER_STRIP / places.count() as u32).max(1))
}

/// How many vectors the parameters of a header take.
fn held(func: &Function, optimistic: &Divergence, header: Block) -> usize {
    let params = func.blocks[header].params.iter();
    let varying = params.filter(|&&param| optimistic.is_varying(param));
    let is_wide = varying.map(|&param| func.ty(param) == Type::B64);
    is_wide.map(|is_wide| 1 + usize::from(is_wide)).sum()
}

/// The accesses of a loop that move with its iterations; none if it calls a function.
fn contiguous_accesses(
    func: &Function,
    around: &Loop<'_>,
    optimistic: &Divergence,
) -> Option<Vec<Access>> {
    let steps = Steps::new(func, around);
    let mut insts = around.insts(func);
    if insts.any(|node| node.data.class() == Class::Call) {
        return None;
    }
    let is_global = |it: &ptxjit_ir::Access| matches!(it.space, Space::Global | Space::Generic);
    let accesses = around
        .insts(func)
        .filter_map(|node| node.data.access().filter(is_global));
    let accesses = accesses.filter_map(|ptxjit_ir::Access { addr, .. }| {
        let stride = optimistic.variability(addr).stride()?.unsigned_abs();
        let step = steps.of(addr).filter(|_| stride <= cost::NEAR_LANES)?;
        let (root, offset) = merge_stores::from_root(func, addr);
        Some(Access {
            root,
            offset,
            step,
            bytes: stride * u64::from(optimistic.gang),
        })
    });
    Some(accesses.collect())
}

/// A contiguous access of neighboring lanes in one iteration.
struct Access {
    /// The value from which the address differs by a constant.
    root: Value,
    /// That constant.
    offset: i64,
    step: Step,
    /// Bytes that the gang accesses.
    bytes: u64,
}

impl Access {
    /// Cache lines that the gang accesses.
    fn lines(&self) -> u64 {
        self.bytes.div_ceil(cost::LINE.into())
    }

    /// Whether both are in the same lines, nearly.
    fn shares(&self, other: &Access) -> bool {
        self.root == other.root
            && self.step == other.step
            && self.offset.abs_diff(other.offset) < self.bytes.max(cost::LINE.into())
    }

    /// Whether the next iteration accesses a distant place, at a distance that only the launch
    /// tells or that is long, and skips what lies between.
    fn is_far(&self, all: &[Access]) -> bool {
        let Step::Const(distance) = self.step else {
            return true;
        };
        let is_near = |other: &&Access| other.root == self.root && other.step == self.step;
        let near = all.iter().filter(is_near);
        let covered: u64 = near.map(|other| other.bytes).sum();
        distance.unsigned_abs() >= cost::FAR_STEP && covered < distance.unsigned_abs()
    }
}
