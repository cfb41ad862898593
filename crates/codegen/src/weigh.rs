//! Figures of a plan for 16 lanes, from which rules derive the gang width.

use std::time::Instant;

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Class, Function, Inst, InstData, Program, Space, Type, Value};
use ptxjit_passes::effort::Spent;
use ptxjit_vectorize::heuristics::Switches;
use ptxjit_vectorize::{
    self as vectorize, Node, Plan, PlanFacts, SingleLane, Variability, WaitKind, Yield,
};

use crate::calls;
use crate::compile;
use crate::decisions;

/// Figures of a kernel's loops.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Weights {
    /// The most varying words that a busy loop keeps live.
    pub live_words: usize,
    /// Gathers and scatters in loops that lanes leave in different iterations, each weighted by the
    /// arithmetic that it outweighs.
    pub gathers: usize,
    /// In the same loops: varying arithmetic.
    pub arithmetic: usize,
    /// A loop is strip-mined.
    pub is_strip_mined: bool,
    /// Branches in loops that may diverge.
    pub divergences: usize,
    /// There is a long run of arithmetic with few accesses to memory.
    pub computes: bool,
    /// Lane loops run most of the kernel, since lanes leave its loops in different iterations.
    pub lane_loops: bool,
    /// There, lanes mostly access their own memory: a stack of a search, a row of a table.
    pub searches: bool,
    /// There are no loops, and many accesses to memory for the number of instructions.
    pub only_moves: bool,
    /// Most accesses to memory are to single bytes.
    pub has_bytes: bool,
    /// Lanes stay together, and most of the code moves contiguous vectors and computes little with
    /// them.
    pub streams: bool,
}

/// Instructions of a block for each word that it keeps live.
const DENSE: usize = 8;

/// The same if the block accesses no memory, so that nothing hides the cost of spilled words.
const DENSE_ARITHMETIC: usize = 2;

/// A block of this many instructions, and this many for each access to memory, computes.
const COMPUTES: usize = 100;
const COMPUTES_PER_ACCESS: usize = 16;

/// A kernel of at most this many instructions, and this many for each access to memory, only moves
/// bytes.
const MOVES: usize = 80;
const MOVES_PER_ACCESS: usize = 8;

/// This many words fit no registers, however narrow the gang.
const MANY: usize = 32;

/// Code streams with at most this many instructions for each access to memory, of which all but one
/// in so many are contiguous or the same for all lanes.
const STREAMS_PER_ACCESS: usize = 8;
const CONTIGUOUS: usize = 8;

/// An instruction in a loop counts this much more than one outside: a typical trip count.
const PER_LOOP: usize = 8;

impl Weights {
    /// Plans the kernel for gangs of 16 in blocks of this shape.
    pub(crate) fn of(
        program: &Program,
        block: [u32; 3],
        until: Option<Instant>,
    ) -> Result<Weights, Spent> {
        let (func, plan) = planned(program, block, 16, until)?;
        Ok(weigh(&func, &plan))
    }

    /// Whether diverged lanes gain nothing from vector code: they gather, and compute little with
    /// what they gather.
    pub(crate) fn is_gather_bound(&self) -> bool {
        vectorize::is_gather_bound(self.gathers, self.arithmetic)
    }
}

/// Whether most warp operations need no wait in gangs that are warps.
pub(crate) fn warp_ops_need_no_wait(
    program: &Program,
    block: [u32; 3],
    until: Option<Instant>,
) -> Result<bool, Spent> {
    let (func, plan) = planned(program, block, 32, until)?;
    let n_met = decisions::mask_classes::met_by_all(&func, &plan)
        .always
        .len();
    let warp_ops = plan.waits.iter().filter(|wait| match wait.kind {
        WaitKind::Inst(inst) => decisions::mask_classes::has_fast_path(&func, &plan, inst),
        WaitKind::Entry | WaitKind::Ready | WaitKind::Yield | WaitKind::StripMine => false,
    });
    Ok(2 * n_met > warp_ops.count())
}

/// The kernel in blocks of this shape, and the plan for it.
fn planned(
    program: &Program,
    block: [u32; 3],
    gang: u32,
    until: Option<Instant>,
) -> Result<(Function, Plan), Spent> {
    // What is too complex for any width is refused when it is compiled.
    let mut merged = calls::merge(program).map_err(|_| Spent::Work)?;
    let facts = ptxjit_abi::Facts::of([1; 3], block.map(|n| n.max(1)), [1; 3], gang);
    let facts = PlanFacts {
        one_dimensional: facts.one_dimensional,
        whole_rows: facts.whole_rows,
        small_grid: true,
        small_ctaid: true,
        keeps_accesses: false,
        switches: Switches::default(),
    };
    let effort = compile::effort(gang, false, until);
    let plan = vectorize::run(&mut merged.function, &merged.entries, gang, facts, &effort)?;
    Ok((merged.function, plan))
}

fn weigh(func: &Function, plan: &Plan) -> Weights {
    let places = places(func, plan);
    let mut weights = Weights {
        is_strip_mined: func
            .blocks
            .keys()
            .any(|block| matches!(plan.yields[block], Some(Yield::StripMine(_)))),
        ..Weights::default()
    };
    let preds = vectorize::predecessors(func);
    let live = vectorize::live_in(func, &preds);
    let (mut n_insts, mut n_accesses, mut has_loops) = (0, 0, false);
    let (mut lane_loops, mut by_gang) = (0, 0);
    let (mut own, mut common) = (0, 0);
    for (place, node) in places.iter().zip(&plan.order.nodes) {
        let Node::Block(block) = *node else { continue };
        if plan.cold[block] {
            continue;
        }
        let data = &func.blocks[block];
        let accesses = accesses(func, block);
        let weight = place.weight();
        *(if plan.single_lane[block] == SingleLane::No {
            &mut by_gang
        } else {
            &mut lane_loops
        }) += weight * data.insts.len();
        n_insts += data.insts.len();
        n_accesses += accesses;
        weights.computes |= data.insts.len() >= COMPUTES.max(COMPUTES_PER_ACCESS * accesses);
        if place.depth == 0 {
            continue;
        }
        has_loops = true;
        weights.divergences += usize::from(plan.divergent[block]);
        if plan.single_lane[block] != SingleLane::No {
            let n_own = local_accesses(func, block);
            own += weight * n_own;
            common += weight * (accesses - n_own);
            continue;
        }
        let words = words(func, plan, data.params.iter().chain(&live[block]));
        if is_dense(data.insts.len(), accesses, words) {
            weights.live_words = weights.live_words.max(words);
        }
        if place.exits_diverge {
            let counts =
                vectorize::count_own(func, &plan.variability, &plan.affine_inputs[block], block);
            weights.gathers += weight * counts.gathers;
            weights.arithmetic += weight * counts.arithmetic;
        }
    }
    weights.has_bytes = has_bytes(func);
    weights.lane_loops = !plan.lane_loops.is_empty() && lane_loops > by_gang;
    weights.searches = weights.lane_loops && own > common;
    weights.streams = streams(func, plan, &places);
    weights.only_moves = !has_loops && n_insts <= MOVES.min(MOVES_PER_ACCESS * n_accesses);
    weights
}

/// Whether so many words that are live are worth registers: spilling words with few uses costs
/// little, unless they are very many.
fn is_dense(n_insts: usize, n_accesses: usize, words: usize) -> bool {
    let dense = match n_accesses {
        _ if words >= MANY => 1,
        0 => DENSE_ARITHMETIC,
        _ => DENSE,
    };
    n_insts >= dense * words
}

/// Where a node stands.
#[derive(Clone, Default)]
struct Place {
    /// Number of loops around it.
    depth: u32,
    /// Whether lanes leave one of them in different iterations.
    exits_diverge: bool,
}

impl Place {
    /// What an instruction counts here.
    fn weight(&self) -> usize {
        PER_LOOP.pow(self.depth.min(4))
    }
}

/// Whether lanes stay together, and most of the code moves contiguous vectors.
fn streams(func: &Function, plan: &Plan, places: &[Place]) -> bool {
    let (mut n_insts, mut n_accesses, mut n_others) = (0, 0, 0);
    for (place, node) in places.iter().zip(&plan.order.nodes) {
        let Node::Block(block) = *node else { continue };
        if place.exits_diverge {
            return false;
        }
        if !plan.cold[block] {
            let weight = place.weight();
            n_insts += weight * func.blocks[block].insts.len();
            n_accesses += weight * accesses(func, block);
            n_others += weight * accesses_of_lanes(func, plan, block);
        }
    }
    n_insts <= STREAMS_PER_ACCESS * n_accesses && CONTIGUOUS * n_others <= n_accesses
}

/// The places of the plan's nodes.
fn places(func: &Function, plan: &Plan) -> Vec<Place> {
    let mut places = vec![Place::default(); plan.order.nodes.len()];
    for node in &plan.order.nodes {
        let Node::LoopEnd(header) = *node else {
            continue;
        };
        let range = plan
            .order
            .loop_range(header)
            .expect("a loop that ends has a range");
        let exits_diverge = range.clone().any(|pos| match plan.order.nodes[pos] {
            Node::Block(block) => {
                plan.divergent[block]
                    && vectorize::diverges_widely(func, &plan.variability, block)
                    && func.blocks[block]
                        .term
                        .targets()
                        .iter()
                        .any(|call| !range.contains(&plan.order.target(pos, call.block)))
            }
            Node::LoopEnd(_) => false,
        });
        for place in &mut places[range] {
            place.depth += 1;
            place.exits_diverge |= exits_diverge;
        }
    }
    places
}

/// Whether most accesses to memory are to one byte of each thread.
#[expect(clippy::wildcard_enum_match_arm, reason = "others access no memory")]
fn has_bytes(func: &Function) -> bool {
    let (mut bytes, mut others) = (0, 0);
    for &inst in func.blocks.values().flat_map(|data| &data.insts) {
        match func.insts[inst].data {
            InstData::Load {
                space: Space::Param,
                ..
            } => {}
            InstData::Load {
                ty: Type::B8, n: 1, ..
            }
            | InstData::MaskedLoad { ty: Type::B8, .. } => bytes += 1,
            InstData::Store {
                ty: Type::B8,
                ref args,
                ..
            } if args.len() == 1 => bytes += 1,
            ref data if data.class() == Class::Access => others += 1,
            _ => {}
        }
    }
    bytes > others
}

/// Accesses to memory in a block.
fn accesses(func: &Function, block: Block) -> usize {
    let insts = func.blocks[block].insts.iter();
    let is_access = |inst: &&Inst| func.insts[**inst].data.class() == Class::Access;
    insts.filter(is_access).count()
}

/// Accesses in a block that are neither contiguous nor the same for all lanes.
fn accesses_of_lanes(func: &Function, plan: &Plan, block: Block) -> usize {
    let is_contiguous = |access: ptxjit_ir::Access| match plan.variability[access.addr] {
        Variability::Uniform => true,
        Variability::Affine { stride, .. } => stride.unsigned_abs() == u64::from(access.bytes),
        Variability::Varying => false,
    };
    let insts = func.blocks[block].insts.iter();
    let data = insts.map(|&inst| &func.insts[inst].data);
    let accesses = data.filter(|data| data.class() == Class::Access);
    accesses
        .filter(|data| !data.access().is_some_and(is_contiguous))
        .count()
}

/// Accesses to the threads' own memories in a block.
fn local_accesses(func: &Function, block: Block) -> usize {
    let insts = func.blocks[block].insts.iter();
    insts
        .filter(|&&inst| {
            if let InstData::Load { space, .. } | InstData::Store { space, .. } =
                func.insts[inst].data
            {
                space == Space::Local
            } else {
                false
            }
        })
        .count()
}

fn words<'a>(func: &Function, plan: &Plan, values: impl Iterator<Item = &'a Value>) -> usize {
    let mut seen: SecondaryMap<Value, bool> = SecondaryMap::new();
    values
        .filter(|&&value| {
            plan.variability[value] == Variability::Varying
                && !std::mem::replace(&mut seen[value], true)
        })
        .map(|&value| match func.ty(value) {
            Type::B64 => 2,
            Type::B1 | Type::B8 | Type::B16 | Type::B32 => 1,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use ptxjit_ir::{Function, InstData, ResizeOp, Space, SpecialReg, Type};
    use ptxjit_passes::effort::Effort;
    use ptxjit_testing::function;
    use ptxjit_vectorize::PlanFacts;

    use super::{places, streams};

    /// A function that loads a word per thread, `step` bytes from one to the next, adds it to
    /// itself so often, and stores the sum.
    fn of_words(step: u64, n_sums: usize) -> Function {
        function(&[], Type::B32, |b, _| {
            let zero = b.iconst(Type::B64, 0);
            let base = b.load(Space::Param, Type::B64, zero, 0);
            let sreg = SpecialReg::TidX;
            let tid = b.b.ins(InstData::Sreg { sreg }, Type::B32);
            let step = b.iconst(Type::B32, step);
            let arg = b.int(ptxjit_ir::IntBinaryOp::Mul, tid, step);
            let (op, from, to) = (ResizeOp::Uext, Type::B32, Type::B64);
            let wide = b.b.ins(InstData::Resize { op, from, to, arg }, Type::B64);
            let addr = b.add(base, wide);
            let mut sum = b.load(Space::Global, Type::B32, addr, 0);
            for _ in 0..n_sums {
                sum = b.add(sum, sum);
            }
            b.store(Space::Global, addr, 0, sum);
            b.ret(sum);
        })
    }

    fn does_stream(mut func: Function) -> bool {
        let facts = PlanFacts {
            one_dimensional: true,
            whole_rows: true,
            ..PlanFacts::default()
        };
        let plan = ptxjit_vectorize::run(&mut func, &[], 16, facts, &Effort::unlimited()).unwrap();
        streams(&func, &plan, &places(&func, &plan))
    }

    #[test]
    fn few_sums_of_contiguous_words_stream() {
        assert!(does_stream(of_words(4, 4)));
    }

    #[test]
    fn much_arithmetic_and_words_apart_do_not_stream() {
        assert!(!does_stream(of_words(4, 40)));
        assert!(!does_stream(of_words(12, 4)));
    }
}
