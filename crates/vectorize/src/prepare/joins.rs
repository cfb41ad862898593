//! Gives branches a block of their own to reconverge at, where the whole warp may wait in between.
//!
//! **Needs**: blocks split where lanes wait ([`waits::split`](crate::waits::split)).
//!
//! **Ensures**: a branch inside of a conditional region with a wait has its reconvergence point to
//! itself, unless it leaves a loop. Without, the point is one of several paths: if the branch
//! around it is uniform, either all lanes come past it or none, but the interval from the outer
//! branch on, in which lanes stop, would be no [reconvergence](crate::analysis::reconvergence).
//!
//! ```text
//! block1: brif v1, block2, block4        block1: brif v1, block2, block4
//! block2: wait                           block2: wait
//!         brif v2, block3, block4   =>           brif v2, block3, block5
//! block3: jump block4                    block3: jump block5
//!                                        block5: jump block4
//! ```

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, BlockCall, Function, Terminator};
use ptxjit_passes::analysis::dominators::DomTree;
use ptxjit_passes::analysis::{cfg, dominators};

use crate::cost;

/// Splits reconvergence points.
pub(crate) fn run(func: &mut Function, waits: &SecondaryMap<Block, bool>) {
    for _ in 0..cost::MOST_NESTED_JOINS {
        let found = shared_joins(func, waits);
        found.iter().for_each(|join| split(func, join));
        if found.is_empty() {
            break;
        }
    }
}

/// A reconvergence point and what leads there from behind one branch.
struct Join {
    block: Block,
    branch: Block,
    preds: Vec<Block>,
}

/// The outermost branches whose reconvergence point others lead to as well.
fn shared_joins(func: &Function, waits: &SecondaryMap<Block, bool>) -> Vec<Join> {
    let cfg = cfg::run(func);
    let (dom, post) = (dominators::run(&cfg), dominators::run_post(func, &cfg));
    let is_branch = |block: &Block| cfg.succs[*block].len() > 1;
    let branches: Vec<Block> = dom.preorder().iter().copied().filter(is_branch).collect();
    let waits = cfg.rpo.iter().copied().filter(|&block| waits[block]);
    let waits: Vec<Block> = waits.collect();
    if branches.len() * waits.len() > cost::MOST_BRANCHES_AND_WAITS {
        return Vec::new();
    }
    let mut found: Vec<Join> = Vec::new();
    for branch in branches {
        let Some(block) = post.idom(branch) else {
            continue;
        };
        let Some(outer) = dom.idom(block) else {
            continue;
        };
        let is_loop = dom.dominates(block, branch) || outer == branch;
        let mut waits = waits.iter();
        if is_loop || !waits.any(|&wait| is_between(outer, wait, block, &dom, &post)) {
            continue;
        }
        let mut others = found.iter().filter(|join| join.block == block);
        if others.any(|join| dom.dominates(join.branch, branch)) {
            continue;
        }
        let preds = cfg.preds[block].iter().copied();
        let preds: Vec<Block> = preds.filter(|&pred| dom.dominates(branch, pred)).collect();
        if !preds.is_empty() {
            found.push(Join {
                block,
                branch,
                preds,
            });
        }
    }
    found
}

/// Whether a block lies between a branch and its reconvergence point.
fn is_between(outer: Block, block: Block, join: Block, dom: &DomTree, post: &DomTree) -> bool {
    block != join && block != outer && dom.dominates(outer, block) && post.dominates(join, block)
}

/// Leads the predecessors through a block of their own.
fn split(func: &mut Function, join: &Join) {
    let own = func.new_block();
    func.copy_params(join.block, own);
    func.blocks[own].term = Terminator::Jump(BlockCall {
        block: join.block,
        args: func.blocks[own].params.as_slice().into(),
    });
    func.blocks[own].term_loc = func.blocks[join.branch].term_loc;
    for &pred in &join.preds {
        func.redirect(pred, join.block, own);
    }
}
