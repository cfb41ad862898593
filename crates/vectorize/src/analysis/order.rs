//! The order in which the blocks of a function are laid out for a gang.
//!
//! **Ensures**: every loop (also an irreducible one) is contiguous, begins with its header and ends
//! with a [`Node::LoopEnd`]; every edge of the function leads forward in the order, or to the
//! header of a loop around it, which stands for the loop's end.
//!
//! How: strongly connected components in topological order; a component with a cycle is a loop, its
//! header the first block entered from outside; without the edges to the header the rest is ordered
//! in the same way.

use std::ops::RangeInclusive;

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function};

use crate::speculate::ssa_repair::predecessors;
use ptxjit_passes::effort::{Effort, Spent};

/// An element of the order.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Node {
    /// A basic block.
    Block(Block),
    /// The place from which the loop with this header is repeated.
    LoopEnd(Block),
}

impl Node {
    /// The block, unless the node is the end of a loop.
    pub fn block(self) -> Option<Block> {
        match self {
            Node::Block(block) => Some(block),
            Node::LoopEnd(_) => None,
        }
    }
}

/// Blocks and loop ends in order.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// Position of each reachable block.
    pub block_pos: SecondaryMap<Block, Option<u32>>,
    /// Position of the loop end of each header.
    pub end_pos: SecondaryMap<Block, Option<u32>>,
    /// The header of the innermost loop around each block.
    innermost: SecondaryMap<Block, Option<Block>>,
}

impl Order {
    /// The position of a reachable block.
    pub fn pos(&self, block: Block) -> usize {
        self.block_pos[block].expect("the block is reachable") as usize
    }

    /// The blocks.
    pub fn blocks(&self) -> impl Iterator<Item = Block> {
        self.nodes.iter().filter_map(|node| node.block())
    }

    /// The blocks at these positions.
    pub fn blocks_in(&self, range: RangeInclusive<usize>) -> impl Iterator<Item = Block> {
        self.nodes[range].iter().filter_map(|node| node.block())
    }

    /// The blocks, with their positions.
    pub fn places(&self) -> impl Iterator<Item = (usize, Block)> {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter_map(|(pos, node)| Some((pos, node.block()?)))
    }

    /// The headers of the loops, in the order of the loops' ends.
    pub fn headers(&self) -> impl Iterator<Item = Block> {
        self.nodes.iter().filter_map(|node| match *node {
            Node::LoopEnd(header) => Some(header),
            Node::Block(_) => None,
        })
    }

    /// Whether a block is at one of these positions.
    pub fn is_in(&self, range: &RangeInclusive<usize>, block: Block) -> bool {
        self.block_pos[block].is_some_and(|pos| range.contains(&(pos as usize)))
    }

    /// Whether a block is in the loop with this header, if there is one.
    pub fn is_in_loop(&self, header: Block, block: Block) -> bool {
        let range = self.loop_range(header);
        range.is_some_and(|range| self.is_in(&range, block))
    }

    /// The node where lanes go that branch from position `from` to `to`.
    pub fn target(&self, from: usize, to: Block) -> usize {
        let pos = self.pos(to);
        if pos > from {
            pos
        } else {
            self.end_pos[to].expect("a backward edge leads to a loop header") as usize
        }
    }

    /// The nodes where lanes go from position `pos`, in the order of the block's targets.
    pub fn targets(&self, func: &Function, pos: usize) -> Vec<usize> {
        let block = self.nodes[pos].block();
        let blocks = block.into_iter().flat_map(|block| func.successors(block));
        blocks.map(|to| self.target(pos, to)).collect()
    }

    /// Whether lanes that go to `target` must not overwrite the parameters of its block for other
    /// lanes: because other lanes may be there already, or, at a loop's end, because lanes are
    /// still in the loop and need the header's parameters of this iteration. `elsewhere` has the
    /// nodes where other lanes may be.
    pub fn must_blend(&self, target: usize, elsewhere: impl IntoIterator<Item = usize>) -> bool {
        let inside = match self.nodes[target] {
            Node::LoopEnd(header) => self.loop_range(header),
            Node::Block(_) => None,
        };
        elsewhere.into_iter().any(|node| {
            node == target || inside.as_ref().is_some_and(|range| range.contains(&node))
        })
    }

    /// The header of the innermost loop around a block.
    pub fn innermost(&self, block: Block) -> Option<Block> {
        self.innermost[block]
    }

    /// The members of the innermost loop around a block, as positions.
    pub fn enclosing(&self, block: Block) -> Option<RangeInclusive<usize>> {
        self.loop_range(self.innermost(block)?)
    }

    /// The members of the loop with this header, as positions.
    pub fn loop_range(&self, header: Block) -> Option<RangeInclusive<usize>> {
        let end = self.end_pos[header]? as usize;
        Some(self.pos(header)..=end)
    }
}

/// Orders the blocks reachable from the entry and from `extra_entries`, however long it takes.
pub(crate) fn run(func: &Function, extra_entries: &[Block]) -> Order {
    match within(func, extra_entries, &Effort::unlimited()) {
        Ok(order) => order,
        Err(spent) => unreachable!("{spent}, though there is no limit"),
    }
}

/// The same within an effort, which grows with the blocks and the loops around each of them.
pub(crate) fn within(
    func: &Function,
    extra_entries: &[Block],
    effort: &Effort,
) -> Result<Order, Spent> {
    let roots = [&[func.entry], extra_entries].concat();
    let reachable = reachable(func, &roots);
    let mut ctx = Ctx {
        func,
        preds: predecessors(func),
        region: SecondaryMap::new(),
        n_regions: 0,
        marks: SecondaryMap::new(),
        component: SecondaryMap::new(),
        order: Order::default(),
        effort,
    };
    ctx.all(&roots, &reachable)?;
    find_positions(&mut ctx.order);
    find_innermost(&mut ctx.order);
    Ok(ctx.order)
}

fn find_positions(order: &mut Order) {
    for (pos, node) in order.nodes.iter().enumerate() {
        match *node {
            Node::Block(block) => order.block_pos[block] = Some(pos as u32),
            Node::LoopEnd(header) => order.end_pos[header] = Some(pos as u32),
        }
    }
}

fn find_innermost(order: &mut Order) {
    let mut around = Vec::new();
    for node in &order.nodes {
        match *node {
            Node::Block(block) => {
                if order.end_pos[block].is_some() {
                    around.push(block);
                }
                order.innermost[block] = around.last().copied();
            }
            Node::LoopEnd(_) => drop(around.pop()),
        }
    }
}

/// The blocks that are reached from some others, in the order of a search.
pub(crate) fn reachable(func: &Function, roots: &[Block]) -> Vec<Block> {
    let mut seen: SecondaryMap<Block, bool> = SecondaryMap::new();
    let mut work: Vec<Block> = roots.iter().rev().copied().collect();
    let mut out = Vec::new();
    while let Some(block) = work.pop() {
        if !std::mem::replace(&mut seen[block], true) {
            out.push(block);
            work.extend(func.successors(block).rev());
        }
    }
    out
}

struct Ctx<'a> {
    func: &'a Function,
    preds: SecondaryMap<Block, Vec<Block>>,
    /// The number of the region that a block was last in; components are found region by region.
    region: SecondaryMap<Block, u32>,
    n_regions: u32,
    marks: SecondaryMap<Block, Marks>,
    /// One more than the position of the block's component among those of its region.
    component: SecondaryMap<Block, u32>,
    order: Order,
    effort: &'a Effort,
}

/// Tarjan's numbers; 0 for blocks not yet visited in this region.
#[derive(Copy, Clone, PartialEq, Eq, Default)]
struct Marks {
    index: u32,
    low: u32,
    on_stack: bool,
}

/// Pending parts of the order.
enum Work {
    Component(Vec<Block>),
    LoopEnd(Block),
}

impl Ctx<'_> {
    /// Orders `blocks`; `starts` are tried first as roots of the search. Loops can nest as deep as
    /// there are blocks, so the pending parts are kept in a list instead of on the call stack.
    fn all(&mut self, starts: &[Block], blocks: &[Block]) -> Result<(), Spent> {
        let mut work = self.split(starts, blocks)?;
        while let Some(item) = work.pop() {
            let component = match item {
                Work::Component(component) => component,
                Work::LoopEnd(header) => {
                    self.order.nodes.push(Node::LoopEnd(header));
                    continue;
                }
            };
            let first = component[0];
            if component.len() == 1 && !self.successors(first).contains(&first) {
                self.order.nodes.push(Node::Block(first));
                continue;
            }
            let header = self.header(&component);
            self.order.nodes.push(Node::Block(header));
            work.push(Work::LoopEnd(header));
            self.region[header] = 0;
            let rest = component.iter().copied().filter(|&block| block != header);
            let rest: Vec<Block> = rest.collect();
            work.extend(self.split(&self.successors(header), &rest)?);
        }
        Ok(())
    }

    /// The components of a region, the topologically first at the end, where work is taken from.
    fn split(&mut self, starts: &[Block], blocks: &[Block]) -> Result<Vec<Work>, Spent> {
        self.effort.spend(blocks.len())?;
        self.n_regions += 1;
        for &block in blocks {
            self.region[block] = self.n_regions;
            self.marks[block] = Marks::default();
        }
        let components = self.components(starts, blocks);
        for (number, component) in components.iter().enumerate() {
            for &block in component {
                self.component[block] = number as u32 + 1;
            }
        }
        // They were found in reverse topological order.
        Ok(components.into_iter().map(Work::Component).collect())
    }

    fn successors(&self, block: Block) -> Vec<Block> {
        self.func.successors(block).collect()
    }

    /// Tarjan's algorithm with an explicit stack; components of the last region in reverse
    /// topological order.
    fn components(&mut self, starts: &[Block], blocks: &[Block]) -> Vec<Vec<Block>> {
        let region = self.n_regions;
        let (mut next, mut stack, mut out) = (1, Vec::new(), Vec::new());
        for &root in starts.iter().chain(blocks) {
            if self.region[root] != region || self.marks[root].index != 0 {
                continue;
            }
            let mut frames: Vec<(Block, Vec<Block>)> = Vec::new();
            let mut enter = Some(root);
            loop {
                if let Some(block) = enter.take() {
                    self.marks[block] = Marks {
                        index: next,
                        low: next,
                        on_stack: true,
                    };
                    next += 1;
                    stack.push(block);
                    // Popped from the end. The search reverses the order of siblings, so the first
                    // successor is visited last and comes first in the result.
                    frames.push((block, self.successors(block)));
                }
                let Some((block, succs)) = frames.last_mut() else {
                    break;
                };
                let block = *block;
                match succs.pop() {
                    Some(succ) if self.region[succ] != region => {}
                    Some(succ) if self.marks[succ].index == 0 => enter = Some(succ),
                    Some(succ) => {
                        if self.marks[succ].on_stack {
                            let index = self.marks[succ].index;
                            self.marks[block].low = self.marks[block].low.min(index);
                        }
                    }
                    None => {
                        frames.pop();
                        let low = self.marks[block].low;
                        if let Some((parent, _)) = frames.last() {
                            self.marks[*parent].low = self.marks[*parent].low.min(low);
                        }
                        if low == self.marks[block].index {
                            out.push(self.pop_component(&mut stack, block));
                        }
                    }
                }
            }
        }
        out
    }

    /// Takes the component with this root off the stack.
    fn pop_component(&mut self, stack: &mut Vec<Block>, root: Block) -> Vec<Block> {
        let at = stack.iter().rposition(|&block| block == root);
        let at = at.expect("a component's root is on the stack");
        let component = stack.split_off(at);
        let members = component.iter();
        members.for_each(|&block| self.marks[block].on_stack = false);
        component
    }

    /// The first block of the component (in search order) that is entered from outside of it.
    fn header(&self, component: &[Block]) -> Block {
        let place = |block: Block| (self.region[block], self.component[block]);
        let here = place(component[0]);
        let is_entered = |&block: &Block| self.preds[block].iter().any(|&pred| place(pred) != here);
        let mut blocks = component.iter().copied();
        blocks.find(is_entered).unwrap_or(component[0])
    }
}
