//! Where all lanes of an earlier node reconverge, so that the later node has the earlier one's
//! mask.
//!
//! A node `n` is the reconvergence of `p` if all lanes at `p` reach `n` before anything behind `n`
//! runs, and no other lane reaches `n`. In the layout order that is an interval: edges into the
//! nodes after `p` up to `n` begin in it, edges from `p` and the nodes before `n` end in it, no
//! lane stops or is resumed inside, and loops inside are inside as a whole.

use ptxjit_ir::{Block, Function, Terminator};

use crate::analysis::order::{Node, Order};

/// For each node, an earlier one whose lanes all reconverge here, if there is one. For a loop's
/// header this concerns its first arrival, from outside of the loop.
#[derive(Debug)]
pub struct Reconvergence {
    /// No lane stops between the two nodes.
    pub straight: Vec<Option<usize>>,
    /// There are strip-mined loops between the two nodes: the whole gang stops in them, and every
    /// resumed lane arrives here, too. So this helps only if all lanes of the gang are at the
    /// earlier node.
    pub over_strip_mined: Vec<Option<usize>>,
}

/// Finds the reconvergence points. Lanes stop at some blocks, of which some are headers of
/// strip-mined loops that only full gangs leave.
pub(crate) fn run(
    func: &Function,
    order: &Order,
    stops: &dyn Fn(Block) -> bool,
    is_strip_mined: &dyn Fn(Block) -> bool,
) -> Reconvergence {
    let n = order.nodes.len();
    let targets: Vec<_> = (0..n).map(|pos| order.targets(func, pos)).collect();
    let mut first_pred = vec![usize::MAX; n];
    for (pos, targets) in targets.iter().enumerate().rev() {
        targets.iter().for_each(|&target| first_pred[target] = pos);
    }
    let finder = Finder {
        func,
        order,
        stops,
        is_strip_mined,
        targets,
        first_pred,
    };
    finder.run()
}

struct Finder<'a> {
    func: &'a Function,
    order: &'a Order,
    stops: &'a dyn Fn(Block) -> bool,
    is_strip_mined: &'a dyn Fn(Block) -> bool,
    /// The nodes that each node leads to, loop ends aside.
    targets: Vec<Vec<usize>>,
    /// The first node that leads to each node.
    first_pred: Vec<usize>,
}

impl Finder<'_> {
    fn run(&self) -> Reconvergence {
        let n = self.order.nodes.len();
        let mut out = Reconvergence {
            straight: vec![None; n],
            over_strip_mined: vec![None; n],
        };
        for start in 0..n {
            if let Some((join, has_strip_mined)) = self.join_of(start) {
                let reconvergence = match has_strip_mined {
                    true => &mut out.over_strip_mined,
                    false => &mut out.straight,
                };
                reconvergence[join] = reconvergence[join].or(Some(start));
            }
        }
        out
    }

    /// The first node at which the lanes of `start` reconverge, and whether strip-mined loops lie
    /// between the two.
    fn join_of(&self, start: usize) -> Option<(usize, bool)> {
        let mut has_strip_mined = false;
        // The last node that edges and open loops reach.
        let mut reach = start;
        for pos in start..self.order.nodes.len() {
            // Lanes may arrive here from before the interval, or from the runtime.
            if pos > start && !(start..pos).contains(&self.first_pred[pos]) {
                return None;
            }
            if pos > start && pos == reach {
                return Some((pos, has_strip_mined));
            }
            match self.order.nodes[pos] {
                Node::Block(block) if self.ends_at(block) => return None,
                Node::Block(block) if pos > start => {
                    let is_strip_mined = (self.is_strip_mined)(block);
                    if !is_strip_mined && (self.stops)(block) {
                        return None;
                    }
                    has_strip_mined |= is_strip_mined;
                    let end = self.order.end_pos[block];
                    reach = end.map_or(reach, |end| reach.max(end as usize + 1));
                }
                Node::LoopEnd(header) if self.order.pos(header) <= start => return None,
                Node::Block(_) | Node::LoopEnd(_) => {}
            }
            reach = self.targets[pos].iter().copied().fold(reach, usize::max);
            if reach == pos {
                return None;
            }
        }
        None
    }

    /// Whether lanes end at a block, or go on where the runtime tells.
    fn ends_at(&self, block: Block) -> bool {
        matches!(
            self.func.blocks[block].term,
            Terminator::Ret(_) | Terminator::Exit | Terminator::Dispatch(_)
        )
    }
}
