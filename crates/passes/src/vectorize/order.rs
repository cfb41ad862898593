//! The order in which the blocks of a function are laid out for a gang.
//!
//! **Ensures**: every loop (also an irreducible one) is contiguous, begins with its header and ends with a [`Node::LoopEnd`]; every
//! edge of the function leads forward in the order, or to the header of a loop around it, which stands for the loop's end.
//!
//! How: strongly connected components in topological order; a component with a cycle is a loop, its header the first
//! block entered from outside; without the edges to the header the rest is ordered in the same way.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function};

/// An element of the order.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Node {
    /// A basic block.
    Block(Block),
    /// The place from which the loop with this header is repeated.
    LoopEnd(Block),
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
}

impl Order {
    /// The node where lanes go that branch from position `from` to `to`.
    pub fn target(&self, from: usize, to: Block) -> usize {
        let pos = self.block_pos[to].expect("branch target is reachable") as usize;
        if pos > from {
            pos
        } else {
            self.end_pos[to].expect("a backward edge leads to a loop header") as usize
        }
    }

    /// Whether lanes that go to `target` must leave the parameters of its block alone for others: because lanes may be there
    /// already, or, at a loop's end, because lanes are still in the loop and need the header's parameters of this turn. `elsewhere`
    /// are the nodes where other lanes may be.
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
        let at = self.block_pos[block]? as usize;
        // Loops are nested: the first to end after the block, and begin before it.
        self.nodes[at..].iter().find_map(|node| match *node {
            Node::LoopEnd(header) if self.block_pos[header]? as usize <= at => Some(header),
            _ => None,
        })
    }

    /// The members of the loop with this header, as positions.
    pub fn loop_range(&self, header: Block) -> Option<std::ops::RangeInclusive<usize>> {
        let end = self.end_pos[header]? as usize;
        Some(self.block_pos[header].expect("headers are reachable") as usize..=end)
    }
}

/// Orders the blocks reachable from the entry and from `extra_entries`.
pub fn run(func: &Function, extra_entries: &[Block]) -> Order {
    let roots: Vec<Block> = std::iter::once(func.entry)
        .chain(extra_entries.iter().copied())
        .collect();
    let reachable = reachable(func, &roots);
    let mut ctx = Ctx {
        func,
        level: SecondaryMap::new(),
        order: Order::default(),
    };
    for &block in &reachable {
        ctx.level[block] = 1;
    }
    ctx.region(&roots, &reachable, 1);
    for (pos, node) in ctx.order.nodes.iter().enumerate() {
        match *node {
            Node::Block(block) => ctx.order.block_pos[block] = Some(pos as u32),
            Node::LoopEnd(header) => ctx.order.end_pos[header] = Some(pos as u32),
        }
    }
    ctx.order
}

fn reachable(func: &Function, roots: &[Block]) -> Vec<Block> {
    let mut seen: SecondaryMap<Block, bool> = SecondaryMap::new();
    let mut work: Vec<Block> = roots.iter().rev().copied().collect();
    let mut out = Vec::new();
    while let Some(block) = work.pop() {
        if std::mem::replace(&mut seen[block], true) {
            continue;
        }
        out.push(block);
        work.extend(
            func.blocks[block]
                .term
                .targets()
                .iter()
                .rev()
                .map(|call| call.block),
        );
    }
    out
}

struct Ctx<'a> {
    func: &'a Function,
    /// Blocks of the region in work carry its level; others belong elsewhere.
    level: SecondaryMap<Block, u32>,
    order: Order,
}

impl Ctx<'_> {
    /// Orders the blocks whose level is `level`; `starts` are tried first as roots of the search.
    fn region(&mut self, starts: &[Block], blocks: &[Block], level: u32) {
        for component in self.components(starts, blocks, level) {
            let first = component[0];
            let cyclic = component.len() > 1 || self.successors(first).contains(&first);
            if !cyclic {
                self.order.nodes.push(Node::Block(first));
                continue;
            }
            let header = self.header(&component);
            self.order.nodes.push(Node::Block(header));
            for &block in &component {
                self.level[block] = level + 1;
            }
            self.level[header] = 0;
            let rest: Vec<Block> = component
                .iter()
                .copied()
                .filter(|&block| block != header)
                .collect();
            let starts = self.successors(header);
            self.region(&starts, &rest, level + 1);
            self.order.nodes.push(Node::LoopEnd(header));
        }
    }

    fn successors(&self, block: Block) -> Vec<Block> {
        self.func.blocks[block]
            .term
            .targets()
            .iter()
            .map(|call| call.block)
            .collect()
    }

    /// Tarjan's algorithm with an explicit stack; components in topological order.
    fn components(&self, starts: &[Block], blocks: &[Block], level: u32) -> Vec<Vec<Block>> {
        let mut index: SecondaryMap<Block, u32> = SecondaryMap::new();
        let mut low: SecondaryMap<Block, u32> = SecondaryMap::new();
        let mut on_stack: SecondaryMap<Block, bool> = SecondaryMap::new();
        let (mut next, mut stack, mut out) = (1, Vec::new(), Vec::new());
        for &root in starts.iter().chain(blocks) {
            if self.level[root] != level || index[root] != 0 {
                continue;
            }
            let mut frames: Vec<(Block, Vec<Block>)> = Vec::new();
            let mut enter = Some(root);
            loop {
                if let Some(block) = enter.take() {
                    index[block] = next;
                    low[block] = next;
                    next += 1;
                    stack.push(block);
                    on_stack[block] = true;
                    // Popped from the end. The search reverses the order of siblings, so the first successor is
                    // visited last and comes first in the result.
                    frames.push((block, self.successors(block)));
                }
                let Some((block, succs)) = frames.last_mut() else {
                    break;
                };
                let block = *block;
                match succs.pop() {
                    Some(succ) if self.level[succ] != level => {}
                    Some(succ) if index[succ] == 0 => enter = Some(succ),
                    Some(succ) => {
                        if on_stack[succ] {
                            low[block] = low[block].min(index[succ]);
                        }
                    }
                    None => {
                        frames.pop();
                        if let Some((parent, _)) = frames.last() {
                            low[*parent] = low[*parent].min(low[block]);
                        }
                        if low[block] == index[block] {
                            let at = stack
                                .iter()
                                .rposition(|&b| b == block)
                                .expect("a component's root is on the stack");
                            let component: Vec<Block> = stack.drain(at..).collect();
                            component.iter().for_each(|&b| on_stack[b] = false);
                            out.push(component);
                        }
                    }
                }
            }
        }
        out.reverse();
        out
    }

    /// The first block of the component (in search order) that is entered from outside of it.
    fn header(&self, component: &[Block]) -> Block {
        let mut member: SecondaryMap<Block, bool> = SecondaryMap::new();
        component.iter().for_each(|&block| member[block] = true);
        let entered: Vec<Block> = self
            .func
            .blocks
            .iter()
            .filter(|&(block, _)| !member[block])
            .flat_map(|(_, data)| {
                data.term
                    .targets()
                    .iter()
                    .map(|call| call.block)
                    .collect::<Vec<_>>()
            })
            .filter(|&block| member[block])
            .collect();
        component
            .iter()
            .copied()
            .find(|block| entered.contains(block))
            .unwrap_or(component[0])
    }
}
