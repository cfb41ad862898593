//! Immediate post-dominators: where lanes that diverged at a block's end meet again.
//!
//! Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", on the reversed graph with one
//! virtual exit. Blocks from which no return can be reached (traps, endless loops) do not count as
//! ways out, so they do not keep lanes apart.

use std::collections::BTreeMap;

use ptxjit_ir::{Block, FuncId, Function, Terminator};

/// Post-dominators of the functions asked for so far.
#[derive(Default)]
pub(crate) struct PostDominators {
    functions: BTreeMap<FuncId, Vec<Option<Block>>>,
}

impl PostDominators {
    /// The immediate post-dominator of a block; none if that is the end of the function.
    pub(crate) fn of(&mut self, id: FuncId, func: &Function, block: Block) -> Option<Block> {
        let table = self.functions.entry(id).or_insert_with(|| compute(func));
        table.get(block.as_u32() as usize).copied().flatten()
    }
}

/// The immediate post-dominator of each block.
pub(crate) fn compute(func: &Function) -> Vec<Option<Block>> {
    let exit = func.blocks.len();
    let mut succs: Vec<Vec<usize>> = vec![Vec::new(); exit + 1];
    let mut preds: Vec<Vec<usize>> = vec![Vec::new(); exit + 1];
    for (block, data) in func.blocks.iter() {
        let from = block.as_u32() as usize;
        let mut to: Vec<usize> = data
            .term
            .targets()
            .iter()
            .map(|call| call.block.as_u32() as usize)
            .collect();
        if matches!(data.term, Terminator::Ret(_) | Terminator::Exit) {
            to.push(exit);
        }
        to.iter().for_each(|&to| preds[to].push(from));
        succs[from] = to;
    }
    let order = reverse_post_order(&preds, exit);
    let mut number = vec![usize::MAX; exit + 1];
    order
        .iter()
        .enumerate()
        .for_each(|(i, &node)| number[node] = i);
    let mut idom: Vec<Option<usize>> = vec![None; exit + 1];
    idom[exit] = Some(exit);
    let mut changed = true;
    while changed {
        changed = false;
        for &node in order.iter().skip(1) {
            let ready = succs[node]
                .iter()
                .copied()
                .filter(|&succ| idom[succ].is_some());
            let new = ready.reduce(|a, b| meet(&idom, &number, a, b));
            if new.is_some() && idom[node] != new {
                idom[node] = new;
                changed = true;
            }
        }
    }
    let as_block = |node: usize| (node < exit).then(|| Block::from_u32(node as u32));
    (0..exit)
        .map(|node| idom[node].and_then(as_block))
        .collect()
}

/// The nearest node on both chains of dominators.
fn meet(idom: &[Option<usize>], number: &[usize], mut a: usize, mut b: usize) -> usize {
    while a != b {
        let deeper = if number[a] > number[b] {
            &mut a
        } else {
            &mut b
        };
        // Both have a dominator: only such nodes are met.
        *deeper = idom[*deeper].unwrap_or(*deeper);
    }
    a
}

fn reverse_post_order(edges: &[Vec<usize>], root: usize) -> Vec<usize> {
    let mut order = Vec::new();
    let mut seen = vec![false; edges.len()];
    let mut stack = vec![(root, 0)];
    seen[root] = true;
    while let Some((node, next)) = stack.last_mut() {
        match edges[*node].get(*next) {
            Some(&to) => {
                *next += 1;
                if !seen[to] {
                    seen[to] = true;
                    stack.push((to, 0));
                }
            }
            None => {
                order.push(*node);
                stack.pop();
            }
        }
    }
    order.reverse();
    order
}
