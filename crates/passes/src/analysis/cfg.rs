//! The control-flow graph of a function: predecessors, successors and a reverse post-order of the
//! blocks in reach.
//!
//! **Ensures**: `rpo` starts with the entry; blocks that cannot be reached are in no list. After
//! calls were lowered, control also arrives from outside at the blocks that a `StateOf` in reach
//! names: they are roots beside the entry.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, InstData};
use smallvec::SmallVec;

/// Neighbors of each block.
pub type Edges = SecondaryMap<Block, SmallVec<[Block; 2]>>;

/// The graph of the blocks in reach.
#[derive(Clone, Debug)]
pub struct Cfg {
    /// Where control comes in from outside: the entry, then resume points.
    pub roots: Vec<Block>,
    /// All blocks in reach, each before its successors except along back edges; the then-side
    /// before the else-side.
    pub rpo: Vec<Block>,
    /// Predecessors in reach, each once, in `rpo` order.
    pub preds: Edges,
    /// Successors, each once, in the order of the terminator.
    pub succs: Edges,
    number: SecondaryMap<Block, u32>,
}

/// Stands in `number` for blocks out of reach.
const UNREACHED: u32 = u32::MAX;

/// Walks the function.
pub fn run(func: &Function) -> Cfg {
    let (roots, succs) = reach(func);
    let rpo = reverse_postorder(&roots, &succs);
    let mut number = SecondaryMap::with_default(UNREACHED);
    let mut preds = Edges::new();
    for (i, &block) in rpo.iter().enumerate() {
        number[block] = i as u32;
        for &succ in &succs[block] {
            preds[succ].push(block);
        }
    }
    Cfg {
        roots,
        rpo,
        preds,
        succs,
        number,
    }
}

impl Cfg {
    /// Whether control can reach the block.
    pub fn is_reachable(&self, block: Block) -> bool {
        self.number[block] != UNREACHED
    }

    /// Position in `rpo`; greater than any for blocks out of reach.
    pub fn rpo_number(&self, block: Block) -> u32 {
        self.number[block]
    }
}

/// The roots, and the successors of all blocks in reach.
fn reach(func: &Function) -> (Vec<Block>, Edges) {
    let mut roots = vec![func.entry];
    let mut succs = Edges::new();
    let mut seen: SecondaryMap<Block, bool> = SecondaryMap::new();
    let mut is_root: SecondaryMap<Block, bool> = SecondaryMap::new();
    seen[func.entry] = true;
    is_root[func.entry] = true;
    let mut work = vec![func.entry];
    while let Some(block) = work.pop() {
        let data = &func.blocks[block];
        for call in data.term.targets() {
            // Wide switches have few distinct targets, so a scan is cheap enough.
            if !succs[block].contains(&call.block) {
                succs[block].push(call.block);
            }
        }
        for &inst in &data.insts {
            if let InstData::StateOf { block } = func.insts[inst].data
                && !std::mem::replace(&mut is_root[block], true)
            {
                roots.push(block);
                if !std::mem::replace(&mut seen[block], true) {
                    work.push(block);
                }
            }
        }
        work.extend(
            succs[block]
                .iter()
                .copied()
                .filter(|&succ| !std::mem::replace(&mut seen[succ], true)),
        );
    }
    (roots, succs)
}

/// Depth-first from each root. Roots are entered last to first and so are successors, so that the
/// reverse order shows the entry first, and the then-side before the else-side.
fn reverse_postorder(roots: &[Block], succs: &Edges) -> Vec<Block> {
    let mut order = Vec::new();
    let mut seen: SecondaryMap<Block, bool> = SecondaryMap::new();
    for &root in roots.iter().rev() {
        let mut stack = Vec::new();
        if !std::mem::replace(&mut seen[root], true) {
            stack.push((root, succs[root].len()));
        }
        while let Some((block, left)) = stack.last_mut() {
            let Some(next) = left.checked_sub(1) else {
                order.push(*block);
                stack.pop();
                continue;
            };
            *left = next;
            let succ = succs[*block][next];
            if !std::mem::replace(&mut seen[succ], true) {
                stack.push((succ, succs[succ].len()));
            }
        }
    }
    order.reverse();
    order
}
