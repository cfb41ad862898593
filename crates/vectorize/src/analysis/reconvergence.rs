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
    let mut targets: Vec<Vec<usize>> = Vec::with_capacity(n);
    let mut first_pred = vec![usize::MAX; n];
    for (pos, node) in order.nodes.iter().enumerate() {
        let found: Vec<usize> = match *node {
            Node::Block(block) => {
                let calls = func.blocks[block].term.targets();
                calls
                    .iter()
                    .map(|call| order.target(pos, call.block))
                    .collect()
            }
            Node::LoopEnd(_) => Vec::new(),
        };
        for &target in &found {
            first_pred[target] = first_pred[target].min(pos);
        }
        targets.push(found);
    }
    let mut out = Reconvergence {
        straight: vec![None; n],
        over_strip_mined: vec![None; n],
    };
    for start in 0..n {
        if let Some((join, has_strip_mined)) = join_of(
            func,
            order,
            stops,
            is_strip_mined,
            &targets,
            &first_pred,
            start,
        ) {
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
fn join_of(
    func: &Function,
    order: &Order,
    stops: &dyn Fn(Block) -> bool,
    is_strip_mined: &dyn Fn(Block) -> bool,
    targets: &[Vec<usize>],
    first_pred: &[usize],
    start: usize,
) -> Option<(usize, bool)> {
    let mut has_strip_mined = false;
    // The last node that edges and open loops reach.
    let mut reach = start;
    for pos in start..order.nodes.len() {
        // Lanes may arrive here from before the interval, or from the runtime.
        if pos > start && !(start..pos).contains(&first_pred[pos]) {
            return None;
        }
        if pos > start && pos == reach {
            return Some((pos, has_strip_mined));
        }
        match order.nodes[pos] {
            Node::Block(block) => {
                let ends = matches!(
                    func.blocks[block].term,
                    Terminator::Ret(_) | Terminator::Exit | Terminator::Dispatch(_)
                );
                if ends || (pos > start && stops(block) && !is_strip_mined(block)) {
                    return None;
                }
                has_strip_mined |= pos > start && is_strip_mined(block);
                if let Some(end) = order.end_pos[block].filter(|_| pos > start) {
                    reach = reach.max(end as usize + 1);
                }
            }
            Node::LoopEnd(header) => {
                let begin = order.block_pos[header]? as usize;
                if begin <= start {
                    return None;
                }
            }
        }
        reach = targets[pos].iter().copied().fold(reach, usize::max);
        if reach == pos {
            return None;
        }
    }
    None
}
