//! The loop nesting forest, for any control flow, and a linear order of the blocks in which loops
//! are contiguous.
//!
//! **Ensures**: each cycle of the control-flow graph goes through the header of a loop that
//! contains it. In `order` each loop is contiguous with its header first, and every edge leads
//! forward or back to the header of a loop around it. An irreducible loop has further entries:
//! edges from outside to members that are not the header, which lead forward in `order` as well.
//!
//! How: strongly connected components (Tarjan); each with a cycle is a loop, headed by the member
//! that comes first in reverse post-order, which is always an entry. Without the edges to its
//! header, a loop falls apart into components again (the recursive definition of Havlak's and
//! Steensgaard's forests).

use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{PrimaryMap, SecondaryMap, entity_impl};
use ptxjit_ir::Block;

use crate::analysis::cfg::Cfg;

/// A loop of a function.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Loop(u32);
entity_impl!(Loop, "loop");

/// What is known of a loop.
#[derive(Clone, Debug)]
pub struct LoopData {
    /// Where back edges lead.
    pub header: Block,
    /// The innermost loop around this one.
    pub parent: Option<Loop>,
    /// 1 for outermost loops.
    pub depth: u32,
    /// All members, those of inner loops included: a range of positions in `LoopForest::order`.
    pub span: std::ops::Range<usize>,
    /// The header is the only member with predecessors outside.
    pub is_reducible: bool,
}

/// The loops of a function.
#[derive(Clone, Debug, Default)]
pub struct LoopForest {
    /// Outer loops before inner ones.
    pub loops: PrimaryMap<Loop, LoopData>,
    /// The innermost loop around each block.
    pub innermost: SecondaryMap<Block, PackedOption<Loop>>,
    /// All blocks in reach.
    pub order: Vec<Block>,
    /// Position of each block in `order`; no meaning for blocks out of reach.
    pub position: SecondaryMap<Block, u32>,
}

/// Finds all loops.
pub fn run(cfg: &Cfg) -> LoopForest {
    let mut finder = Finder {
        cfg,
        forest: LoopForest::default(),
        region: SecondaryMap::new(),
        n_regions: 0,
        index: SecondaryMap::new(),
        lowlink: SecondaryMap::new(),
    };
    let mut work = Vec::new();
    finder.split(&cfg.rpo, None, &mut work);
    while let Some(item) = work.pop() {
        match item {
            Work::Component(blocks, parent) => finder.place(blocks, parent, &mut work),
            Work::Close(id) => finder.forest.loops[id].span.end = finder.forest.order.len(),
        }
    }
    finder.find_side_entries();
    finder.forest
}

impl LoopForest {
    /// The members of a loop, in order.
    pub fn members(&self, id: Loop) -> &[Block] {
        &self.order[self.loops[id].span.clone()]
    }

    /// Whether the loop contains the block (which must be in reach).
    pub fn contains(&self, id: Loop, block: Block) -> bool {
        self.loops[id]
            .span
            .contains(&(self.position[block] as usize))
    }

    /// The innermost loop around the block.
    pub fn innermost(&self, block: Block) -> Option<Loop> {
        self.innermost[block].expand()
    }

    /// The loops around the block, innermost first.
    pub fn around(&self, block: Block) -> impl Iterator<Item = Loop> + '_ {
        std::iter::successors(self.innermost(block), |&id| self.loops[id].parent)
    }

    /// How many loops are around the block.
    pub fn depth(&self, block: Block) -> u32 {
        self.innermost(block).map_or(0, |id| self.loops[id].depth)
    }

    /// The loop that the block heads.
    pub fn headed_by(&self, block: Block) -> Option<Loop> {
        self.innermost(block)
            .filter(|&id| self.loops[id].header == block)
    }

    /// Whether the edge goes back to the header of a loop around `from`.
    pub fn is_back_edge(&self, from: Block, to: Block) -> bool {
        self.position[to] <= self.position[from]
    }
}

enum Work {
    /// A strongly connected component, in reverse post-order, and the loop around it.
    Component(Vec<Block>, Option<Loop>),
    /// All members of the loop are placed.
    Close(Loop),
}

struct Finder<'a> {
    cfg: &'a Cfg,
    forest: LoopForest,
    /// The number of the piece of the graph that a block was last in; components are found piece by
    /// piece.
    region: SecondaryMap<Block, u32>,
    n_regions: u32,
    /// Tarjan's numbers; 0 for blocks not yet visited in this region.
    index: SecondaryMap<Block, u32>,
    lowlink: SecondaryMap<Block, u32>,
}

/// `index` of blocks whose component is known.
const DONE: u32 = u32::MAX;

impl Finder<'_> {
    fn place(&mut self, blocks: Vec<Block>, parent: Option<Loop>, work: &mut Vec<Work>) {
        let header = blocks[0];
        let is_cycle = blocks.len() > 1 || self.cfg.succs[header].contains(&header);
        let at = self.forest.order.len();
        let around = if is_cycle {
            let depth = parent.map_or(0, |parent| self.forest.loops[parent].depth) + 1;
            let data = LoopData {
                header,
                parent,
                depth,
                span: at..at,
                is_reducible: true,
            };
            Some(self.forest.loops.push(data))
        } else {
            parent
        };
        self.forest.order.push(header);
        self.forest.position[header] = at as u32;
        self.forest.innermost[header] = around.into();
        if let Some(id) = around.filter(|_| is_cycle) {
            work.push(Work::Close(id));
            self.split(&blocks[1..], around, work);
        }
    }

    /// Puts the components of a piece of the graph on `work`, so that the topologically first is
    /// taken first.
    fn split(&mut self, blocks: &[Block], around: Option<Loop>, work: &mut Vec<Work>) {
        self.n_regions += 1;
        for &block in blocks {
            self.region[block] = self.n_regions;
            self.index[block] = 0;
        }
        let mut open = Vec::new();
        let mut n_visited = 0;
        // Roots and successors last to first: Tarjan's order, reversed, is then reverse post-order
        // again.
        for &root in blocks.iter().rev() {
            if self.index[root] == 0 {
                self.components_from(root, around, &mut open, &mut n_visited, work);
            }
        }
    }

    fn components_from(
        &mut self,
        root: Block,
        around: Option<Loop>,
        open: &mut Vec<Block>,
        n_visited: &mut u32,
        work: &mut Vec<Work>,
    ) {
        let mut stack = Vec::new();
        self.visit(root, n_visited, open, &mut stack);
        while let Some((block, left)) = stack.last_mut() {
            let block = *block;
            if let Some(next) = left.checked_sub(1) {
                *left = next;
                let succ = self.cfg.succs[block][next];
                if self.region[succ] != self.region[block] || self.index[succ] == DONE {
                    continue;
                }
                if self.index[succ] == 0 {
                    self.visit(succ, n_visited, open, &mut stack);
                } else {
                    self.lowlink[block] = self.lowlink[block].min(self.index[succ]);
                }
                continue;
            }
            stack.pop();
            if let Some(&(parent, _)) = stack.last() {
                self.lowlink[parent] = self.lowlink[parent].min(self.lowlink[block]);
            }
            if self.lowlink[block] == self.index[block] {
                let from = open
                    .iter()
                    .rposition(|&member| member == block)
                    .expect("an open component has its root");
                let mut members = open.split_off(from);
                members.iter().for_each(|&member| self.index[member] = DONE);
                members.sort_unstable_by_key(|&member| self.cfg.rpo_number(member));
                work.push(Work::Component(members, around));
            }
        }
    }

    fn visit(
        &mut self,
        block: Block,
        n_visited: &mut u32,
        open: &mut Vec<Block>,
        stack: &mut Vec<(Block, usize)>,
    ) {
        *n_visited += 1;
        self.index[block] = *n_visited;
        self.lowlink[block] = *n_visited;
        open.push(block);
        stack.push((block, self.cfg.succs[block].len()));
    }

    /// Marks the loops that are entered elsewhere than at the header.
    fn find_side_entries(&mut self) {
        let forest = &mut self.forest;
        for &block in &self.cfg.rpo {
            for &pred in &self.cfg.preds[block] {
                let mut at = forest.innermost[block].expand();
                while let Some(id) = at {
                    let data = &mut forest.loops[id];
                    if data.span.contains(&(forest.position[pred] as usize)) {
                        break;
                    }
                    data.is_reducible &= data.header == block;
                    at = data.parent;
                }
            }
        }
        for &root in &self.cfg.roots {
            let mut at = forest.innermost[root].expand();
            while let Some(id) = at {
                forest.loops[id].is_reducible &= forest.loops[id].header == root;
                at = forest.loops[id].parent;
            }
        }
    }
}

#[cfg(test)]
mod tests;
