//! What a plan for a wide gang says about how wide gangs should be.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, InstData, Space, Type, Value};
use ptxjit_passes::vectorize::{self, Node, Plan, PlanFacts, Shape, Yield};

use crate::calls;

/// Figures of a kernel's loops.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Weights {
    /// Words of each thread's own that a loop keeps alive and works much with, at most.
    pub live_words: usize,
    /// In loops that lanes leave at different turns: accesses at places that do not lie side by side.
    pub scattered: usize,
    /// In the same loops: arithmetic on each thread's own values.
    pub arithmetic: usize,
    /// Gangs take turns in a loop that steps widely through memory.
    pub takes_turns: bool,
    /// There is a long stretch of arithmetic with few accesses to memory.
    pub computes: bool,
    /// There are no loops, and accesses to memory are many for the instructions that there are.
    pub only_moves: bool,
}

/// Instructions of a block for each word that it keeps alive.
const DENSE: usize = 8;

/// The same if the block accesses no memory, so that nothing hides what spilled words cost.
const DENSE_ARITHMETIC: usize = 2;

/// A block of so many instructions, and so many for each access to memory, computes.
const COMPUTES: usize = 100;
const COMPUTES_PER_ACCESS: usize = 16;

/// A kernel of at most so many instructions, and so many for each access to memory, only moves bytes.
const MOVES: usize = 80;
const MOVES_PER_ACCESS: usize = 8;

/// So many words fit no registers, however narrow the gang.
const MANY: usize = 32;

/// An instruction in a loop counts this much more than one around it.
const PER_LOOP: usize = 8;

impl Weights {
    /// Plans the kernel for gangs of 16 in blocks of this shape.
    pub(crate) fn of(program: &ptxjit_ir::Program, block: [u32; 3]) -> Weights {
        const GANG: u32 = 16;
        let mut merged = calls::merge(program);
        let facts = crate::abi::Facts::of([1, 1, 1], block.map(|n| n.max(1)), GANG);
        let facts = PlanFacts {
            one_dimensional: facts.one_dimensional,
            whole_rows: facts.whole_rows,
            small_grid: true,
            small_ctaid: true,
        };
        let plan = vectorize::run(&mut merged.function, &merged.entries, GANG, facts);
        weigh(&merged.function, &plan)
    }

    /// Whether lanes that part gain nothing from each other: they fetch one by one what they compute little with.
    pub(crate) fn is_scattered(&self) -> bool {
        self.scattered > 0 && 5 * self.scattered >= self.arithmetic
    }
}

fn weigh(func: &Function, plan: &Plan) -> Weights {
    let n = plan.order.nodes.len();
    let (mut depth, mut parts) = (vec![0u32; n], vec![false; n]);
    let mut weights = Weights::default();
    for node in &plan.order.nodes {
        let Node::LoopEnd(header) = *node else {
            continue;
        };
        let range = plan
            .order
            .loop_range(header)
            .expect("a loop that ends has a range");
        let is_left_apart = range.clone().any(|pos| match plan.order.nodes[pos] {
            Node::Block(block) => {
                plan.divergent[block]
                    && func.blocks[block]
                        .term
                        .targets()
                        .iter()
                        .any(|call| !range.contains(&plan.order.target(pos, call.block)))
            }
            Node::LoopEnd(_) => false,
        });
        weights.takes_turns |= matches!(plan.yields[header], Some(Yield::Turns(_)));
        for pos in range {
            depth[pos] += 1;
            parts[pos] |= is_left_apart;
        }
    }
    let preds = vectorize::predecessors(func);
    let live = vectorize::live_in(func, &preds);
    let (mut n_insts, mut n_accesses) = (0, 0);
    for (pos, node) in plan.order.nodes.iter().enumerate() {
        let Node::Block(block) = *node else { continue };
        let data = &func.blocks[block];
        let accesses = accesses(func, block);
        n_insts += data.insts.len();
        n_accesses += accesses;
        weights.computes |= data.insts.len() >= COMPUTES.max(COMPUTES_PER_ACCESS * accesses);
        if depth[pos] == 0 {
            continue;
        }
        let words = words(func, plan, data.params.iter().chain(&live[block]));
        // Where little is done with them, it matters little where they are kept, unless they are very many.
        let dense = match accesses {
            _ if words >= MANY => 1,
            0 => DENSE_ARITHMETIC,
            _ => DENSE,
        };
        if data.insts.len() >= dense * words {
            weights.live_words = weights.live_words.max(words);
        }
        if !parts[pos] {
            continue;
        }
        let weight = PER_LOOP.pow(depth[pos].min(4));
        for &inst in &data.insts {
            let node = &func.insts[inst];
            let is_own = |value: Value| {
                let better = plan.in_step[block]
                    .as_ref()
                    .and_then(|in_step| in_step.shapes.get(&value));
                *better.unwrap_or(&plan.shapes[value]) == Shape::Varying
            };
            match node.data {
                InstData::Load { addr, space, .. }
                | InstData::Store { addr, space, .. }
                | InstData::Atomic { addr, space, .. } => {
                    // Threads' local memories lie apart.
                    let is_scattered = space == Space::Local || is_own(addr);
                    weights.scattered += weight * usize::from(is_scattered);
                }
                _ => {
                    let is_arithmetic = node.results.first().is_some_and(|&result| is_own(result));
                    weights.arithmetic += weight * usize::from(is_arithmetic);
                }
            }
        }
    }
    weights.only_moves = depth.iter().all(|&depth| depth == 0)
        && n_insts <= MOVES.min(MOVES_PER_ACCESS * n_accesses);
    weights
}

/// Accesses to memory in a block.
fn accesses(func: &Function, block: Block) -> usize {
    let insts = func.blocks[block].insts.iter();
    insts
        .filter(|&&inst| {
            matches!(
                func.insts[inst].data,
                InstData::Load { .. } | InstData::Store { .. } | InstData::Atomic { .. }
            )
        })
        .count()
}

fn words<'a>(func: &Function, plan: &Plan, values: impl Iterator<Item = &'a Value>) -> usize {
    let mut seen: SecondaryMap<Value, bool> = SecondaryMap::new();
    values
        .filter(|&&value| {
            plan.shapes[value] == Shape::Varying && !std::mem::replace(&mut seen[value], true)
        })
        .map(|&value| match func.ty(value) {
            Type::B64 => 2,
            Type::B1 | Type::B8 | Type::B16 | Type::B32 => 1,
        })
        .sum()
}
