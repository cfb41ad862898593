//! Dominator and post-dominator trees.
//!
//! The algorithm is Semi-NCA (Georgiadis, "Linear-Time Algorithms for Dominators and Related
//! Problems", 2005): unlike plain iteration it does not slow down on a join of thousands of early
//! exits. Both trees hang below a place outside of the function, which has no name: where control
//! comes in (the entry and other roots), or where it ends.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use ptxjit_ir::{Block, Function};

use crate::analysis::cfg::Cfg;

/// A dominator or post-dominator tree over the blocks in reach.
#[derive(Clone, Debug)]
pub struct DomTree {
    /// Parents before children.
    preorder: Vec<Block>,
    idom: SecondaryMap<Block, PackedOption<Block>>,
    /// Positions in `preorder` of the block's subtree; empty for blocks out of reach.
    span: SecondaryMap<Block, (u32, u32)>,
    depth: SecondaryMap<Block, u32>,
}

/// Which blocks come before others on every way from outside.
pub fn run(cfg: &Cfg) -> DomTree {
    let nodes = Nodes::new(cfg);
    let mut succs = vec![nodes.indices(&cfg.roots)];
    succs.extend(
        cfg.rpo
            .iter()
            .map(|&block| nodes.indices(&cfg.succs[block])),
    );
    tree(cfg, &immediate_dominators(&succs))
}

/// Which blocks come after others on every way to an end of the thread or function.
///
/// Blocks from which no end can be reached (endless loops) are given one: the last block in reverse
/// post-order of each such region counts as an end.
pub fn run_post(func: &Function, cfg: &Cfg) -> DomTree {
    let nodes = Nodes::new(cfg);
    let mut succs = vec![Vec::new()];
    succs.extend(
        cfg.rpo
            .iter()
            .map(|&block| nodes.indices(&cfg.preds[block])),
    );
    let mut seen = vec![false; succs.len()];
    let is_end = |block: Block| func.blocks[block].term.targets().is_empty();
    let ends = cfg.rpo.iter().rev().filter(|&&block| is_end(block));
    for &block in ends.chain(cfg.rpo.iter().rev()) {
        let node = nodes.index(block);
        if !seen[node] {
            succs[0].push(node);
            mark(&succs, node, &mut seen);
        }
    }
    tree(cfg, &immediate_dominators(&succs))
}

impl DomTree {
    /// The closest block that dominates `block` and is not `block`. None for roots, and for blocks
    /// out of reach.
    pub fn idom(&self, block: Block) -> Option<Block> {
        self.idom[block].expand()
    }

    /// Whether `a` is on every way to `b`. A block dominates itself. False if either is out of
    /// reach.
    pub fn dominates(&self, a: Block, b: Block) -> bool {
        let ((start, end), (at, at_end)) = (self.span[a], self.span[b]);
        at < at_end && start <= at && at < end
    }

    /// The closest block that dominates both, if one does.
    pub fn common(&self, mut a: Block, mut b: Block) -> Option<Block> {
        while a != b {
            if self.depth[a] >= self.depth[b] {
                a = self.idom(a)?;
            } else {
                b = self.idom(b)?;
            }
        }
        Some(a)
    }

    /// All blocks in reach, each after its dominators; the subtree of a block is contiguous.
    pub fn preorder(&self) -> &[Block] {
        &self.preorder
    }
}

/// Blocks as numbers: 0 is the place outside, others follow reverse post-order.
struct Nodes<'a> {
    cfg: &'a Cfg,
}

impl Nodes<'_> {
    fn new(cfg: &Cfg) -> Nodes<'_> {
        Nodes { cfg }
    }

    fn index(&self, block: Block) -> usize {
        self.cfg.rpo_number(block) as usize + 1
    }

    fn indices(&self, blocks: &[Block]) -> Vec<usize> {
        blocks.iter().map(|&block| self.index(block)).collect()
    }
}

fn mark(succs: &[Vec<usize>], from: usize, seen: &mut [bool]) {
    let mut work = vec![from];
    seen[from] = true;
    while let Some(node) = work.pop() {
        for &succ in &succs[node] {
            if !std::mem::replace(&mut seen[succ], true) {
                work.push(succ);
            }
        }
    }
}

/// Makes the tree from immediate dominators by node number.
fn tree(cfg: &Cfg, idom: &[usize]) -> DomTree {
    let mut children = vec![Vec::new(); idom.len()];
    for (node, &parent) in idom.iter().enumerate().skip(1) {
        children[parent].push(node);
    }
    let mut tree = DomTree {
        preorder: Vec::with_capacity(cfg.rpo.len()),
        idom: SecondaryMap::new(),
        span: SecondaryMap::new(),
        depth: SecondaryMap::new(),
    };
    // The second visit of a node, marked by `true`, closes its span.
    let mut stack: Vec<(usize, bool)> = children[0]
        .iter()
        .rev()
        .map(|&node| (node, false))
        .collect();
    while let Some((node, done)) = stack.pop() {
        let block = cfg.rpo[node - 1];
        let at = tree.preorder.len() as u32;
        if done {
            tree.span[block].1 = at;
            continue;
        }
        tree.preorder.push(block);
        tree.span[block].0 = at;
        if let Some(up) = idom[node].checked_sub(1) {
            tree.idom[block] = cfg.rpo[up].into();
            tree.depth[block] = tree.depth[cfg.rpo[up]] + 1;
        }
        stack.push((node, true));
        stack.extend(children[node].iter().rev().map(|&node| (node, false)));
    }
    tree
}

/// The immediate dominator of each node; of node 0, from which all can be reached, 0.
fn immediate_dominators(succs: &[Vec<usize>]) -> Vec<usize> {
    let mut search = Search::new(succs);
    search.find_semidominators();
    let mut idom = search.parent.clone();
    for w in 1..idom.len() {
        let mut up = idom[w];
        while up > search.semi[w] {
            up = idom[up];
        }
        idom[w] = up;
    }
    let mut by_node = vec![0; succs.len()];
    for (number, &node) in search.node.iter().enumerate() {
        by_node[node] = search.node[idom[number]];
    }
    by_node
}

/// A depth-first search; everything but `node` is in terms of its preorder numbers.
struct Search {
    node: Vec<usize>,
    parent: Vec<usize>,
    preds: Vec<Vec<usize>>,
    semi: Vec<usize>,
    /// The virtual forest of the algorithm, with path compression.
    ancestor: Vec<usize>,
    label: Vec<usize>,
}

impl Search {
    fn new(succs: &[Vec<usize>]) -> Search {
        let n = succs.len();
        let (mut number, mut node, mut parent) = (
            vec![usize::MAX; n],
            Vec::with_capacity(n),
            Vec::with_capacity(n),
        );
        let mut stack = vec![(0, 0)];
        while let Some((at, from)) = stack.pop() {
            if number[at] != usize::MAX {
                continue;
            }
            number[at] = node.len();
            node.push(at);
            parent.push(from);
            let number = number[at];
            stack.extend(succs[at].iter().rev().map(|&succ| (succ, number)));
        }
        let mut preds = vec![Vec::new(); node.len()];
        for (from, &at) in node.iter().enumerate() {
            for &succ in &succs[at] {
                preds[number[succ]].push(from);
            }
        }
        let identity: Vec<usize> = (0..node.len()).collect();
        Search {
            node,
            ancestor: parent.clone(),
            parent,
            preds,
            semi: identity.clone(),
            label: identity,
        }
    }

    fn find_semidominators(&mut self) {
        let mut path = Vec::new();
        for w in (1..self.node.len()).rev() {
            let mut semi = self.parent[w];
            for i in 0..self.preds[w].len() {
                let best = self.eval(self.preds[w][i], w + 1, &mut path);
                semi = semi.min(self.semi[best]);
            }
            self.semi[w] = semi;
        }
    }

    /// The node with the smallest semidominator on the way from `v` up to the root of its tree in
    /// the forest of nodes that were dealt with: those from `linked` on.
    fn eval(&mut self, v: usize, linked: usize, path: &mut Vec<usize>) -> usize {
        let mut at = v;
        while self.ancestor[at] >= linked {
            path.push(at);
            at = self.ancestor[at];
        }
        let mut best = self.label[at];
        let top = self.ancestor[at];
        while let Some(below) = path.pop() {
            if self.semi[best] < self.semi[self.label[below]] {
                self.label[below] = best;
            } else {
                best = self.label[below];
            }
            self.ancestor[below] = top;
        }
        self.label[v]
    }
}

#[cfg(test)]
mod tests;
