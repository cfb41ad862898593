//! Which regions get a version without wrapping indices.

use ptxjit_ir::{Block, BlockCall, Effect, Function, Inst, Terminator, Value};
use rustc_hash::FxHashSet;

use super::Site;
use crate::cost;
use crate::speculate::clone;
use ptxjit_passes::analysis::{cfg, dominators};

/// Gives a single-block loop a latch of its own, so that the code before it can be cloned. Values
/// that do not depend on the wrapping indices, as the loop's counter, are computed ahead of them,
/// and keep their one definition.
pub(super) fn detach_end(func: &mut Function, block: Block, sites: &[Site]) {
    let insts = std::mem::take(&mut func.blocks[block].insts);
    let is_site = |inst: Inst| sites.iter().any(|site| site.inst == inst);
    let at = insts.iter().position(|&inst| is_site(inst));
    let (before, rest) = insts.split_at(at.expect("the wraps are there"));
    let mut follows: FxHashSet<Value> = FxHashSet::default();
    let (behind, ahead): (Vec<Inst>, Vec<Inst>) = rest.iter().partition(|&&inst| {
        let node = &func.insts[inst];
        let stays = is_site(inst)
            || node.data.effect() != Effect::Pure
            || node.data.args().iter().any(|arg| follows.contains(arg));
        if stays {
            follows.extend(&node.results);
        }
        stays
    });
    let n_insts = insts.len();
    func.blocks[block].insts = [before, &ahead, &behind].concat();
    let end = clone::split(func, block, n_insts);
    func.blocks[block].term = Terminator::Jump(BlockCall::new(end));
}

/// The blocks that can be reached from a block, or those up to the last post-dominator for which
/// the region can be cloned.
pub(super) fn region(func: &Function, gang: u32, start: Block) -> Option<Vec<Block>> {
    let graph = cfg::run(func);
    let (dom, post) = (dominators::run(&graph), dominators::run_post(func, &graph));
    let is_fixed = |block: Block| clone::has_fixed(func, gang, block);
    let up_to = |end: Option<Block>| {
        let mut region: Vec<Block> = Vec::new();
        let mut work: Vec<Block> = graph.succs[start].to_vec();
        while let Some(block) = work.pop() {
            if Some(block) != end && !region.contains(&block) {
                let is_own = block != start && dom.dominates(start, block);
                if !is_own || region.len() >= cost::COPIED_FOR_NO_WRAP.blocks || is_fixed(block) {
                    return None;
                }
                region.push(block);
                work.extend(&graph.succs[block]);
            }
        }
        let of = |&block: &Block| func.blocks[block].insts.len();
        let n_insts: usize = region.iter().map(of).sum();
        (n_insts + of(&start) <= cost::COPIED_FOR_NO_WRAP.insts).then_some(region)
    };
    if is_fixed(start) {
        return None;
    }
    up_to(None).or_else(|| {
        let mut ends = std::iter::successors(post.idom(start), |&end| post.idom(end));
        let mut largest = None;
        while let Some(region) = ends.next().and_then(|end| up_to(Some(end))) {
            largest = Some(region);
        }
        largest
    })
}

/// Whether the region accesses memory at addresses that depend on an index that may wrap.
pub(super) fn is_accessed(
    func: &Function,
    start: (Block, usize),
    region: &[Block],
    sites: &[Site],
) -> bool {
    let rest = &func.blocks[start.0].insts[start.1..];
    let others = region.iter().flat_map(|&block| &func.blocks[block].insts);
    let insts: Vec<Inst> = rest.iter().chain(others).copied().collect();
    let mut follows: FxHashSet<Value> = FxHashSet::default();
    loop {
        let n_before = follows.len();
        for &inst in &insts {
            let node = &func.insts[inst];
            let access = node.data.access();
            if access.is_some_and(|access| follows.contains(&access.addr)) {
                return true;
            }
            let is_site = sites.iter().any(|site| site.inst == inst);
            if is_site || node.data.args().iter().any(|arg| follows.contains(arg)) {
                follows.extend(&node.results);
            }
        }
        // Blocks may be stored in another order than they run in.
        if follows.len() == n_before {
            return false;
        }
    }
}
