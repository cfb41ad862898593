//! Finds regions that a *lane loop* runs one lane at a time, by scalar code with real branches.
//!
//! Where lanes leave a loop in different iterations and mostly gather, vector code gains nothing:
//! each gather extracts the addresses lane by lane, while most lanes wait for a few. Such a loop,
//! or the region behind a divergent branch that mostly consists of such loops, is run for one lane,
//! then for the next; the code around it stays vector code.
//!
//! A region is entered by edges to its root alone, and nothing in it waits. The lane loop extracts
//! the lane's element of incoming values; values that leave do so through parameters alone, as of
//! any loop after [`crate::prepare::lcssa`], and are inserted at the lane's place there. Threads of
//! a gang run in no particular order between waits, so this order is as good as any other.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, BlockCall, Function, InstData, IntBinaryOp, IntUnaryOp, Space, Terminator, Type, Value,
};

use crate::analysis::flow::Flow;
use crate::analysis::variability::Variability;
use crate::cost;
use crate::scalarize::single_lane::{self, SingleLane};
use crate::speculate::affine_inputs::AffineInputs;
use crate::{Node, Order};

/// A region that a lane loop runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaneLoop {
    /// The block through which all lanes enter.
    pub root: Block,
    /// The positions of the region's nodes, loop ends included.
    pub range: std::ops::RangeInclusive<usize>,
    /// The nodes that lanes leave to, ascending.
    pub exits: Vec<usize>,
    /// Whether lanes may exit the kernel here.
    pub ends: bool,
}

impl LaneLoop {
    /// The blocks.
    pub fn blocks<'a>(&self, order: &'a Order) -> impl Iterator<Item = Block> + 'a {
        let nodes = &order.nodes[self.range.clone()];
        nodes.iter().filter_map(|node| match *node {
            Node::Block(block) => Some(block),
            Node::LoopEnd(_) => None,
        })
    }

    /// The nodes that the blocks lead to, if all edges into them lead to the root.
    fn new(
        func: &Function,
        order: &Order,
        preds: &SecondaryMap<Block, Vec<Block>>,
        root: Block,
        range: std::ops::RangeInclusive<usize>,
    ) -> Option<LaneLoop> {
        let mut region = LaneLoop {
            root,
            range: range.clone(),
            exits: Vec::new(),
            ends: false,
        };
        let inside = |block: Block| {
            order.block_pos[block].is_some_and(|pos| range.contains(&(pos as usize)))
        };
        for pos in range.clone() {
            match order.nodes[pos] {
                Node::Block(block) => {
                    if block != root && !preds[block].iter().all(|&pred| inside(pred)) {
                        return None;
                    }
                    let targets = func.blocks[block].term.targets();
                    let ends = matches!(func.blocks[block].term, Terminator::Exit);
                    region.ends |= ends;
                    let exits = targets.iter().filter(|call| !inside(call.block));
                    region
                        .exits
                        .extend(exits.map(|call| order.target(pos, call.block)));
                    // A root that its own region branches back to would need parameters of both
                    // kinds.
                    if targets.iter().any(|call| call.block == root) {
                        return None;
                    }
                }
                Node::LoopEnd(header) if inside(header) => {}
                Node::LoopEnd(_) => return None,
            }
        }
        region.exits.sort_unstable();
        region.exits.dedup();
        (order.nodes[*range.start()] == Node::Block(root)).then_some(region)
    }
}

/// The results of analyses that the choice is based on.
pub(crate) struct Choice<'a> {
    pub func: &'a Function,
    pub order: &'a Order,
    pub preds: &'a SecondaryMap<Block, Vec<Block>>,
    pub flow: &'a Flow,
    pub affine_inputs: &'a SecondaryMap<Block, Option<AffineInputs>>,
    pub cold: &'a SecondaryMap<Block, bool>,
    pub can_stop: &'a dyn Fn(Block) -> bool,
}

/// The roots of regions, and the headers of loops that need a root in front of them.
#[derive(Default)]
pub(crate) struct Chosen {
    /// Root and last block.
    pub roots: Vec<(Block, Block)>,
    pub headers: Vec<Block>,
}

impl Chosen {
    pub(crate) fn is_empty(&self) -> bool {
        self.roots.is_empty() && self.headers.is_empty()
    }
}

impl Choice<'_> {
    /// Chooses the regions, from the analyses of the function without any.
    pub(crate) fn run(&self) -> Chosen {
        let mut chosen = Chosen::default();
        let mut loops = self.gather_bound_loops();
        if loops.is_empty() {
            return chosen;
        }
        let mut end = 0;
        for (pos, node) in self.order.nodes.iter().enumerate() {
            let Node::Block(block) = *node else { continue };
            if pos < end {
                continue;
            }
            if let Some(region) = self.behind(block, &loops) {
                let last = region.blocks(self.order).last();
                chosen
                    .roots
                    .push((region.root, last.unwrap_or(region.root)));
                loops.retain(|&header| !region.range.contains(&self.pos(header)));
                end = *region.range.end();
            }
        }
        chosen.headers = loops;
        chosen
    }

    fn pos(&self, block: Block) -> usize {
        self.order.block_pos[block].expect("reachable") as usize
    }

    /// The outermost loops that lanes leave in different iterations and that mostly gather, by
    /// their headers.
    fn gather_bound_loops(&self) -> Vec<Block> {
        let mut found: Vec<Block> = Vec::new();
        let mut end = 0;
        for (pos, node) in self.order.nodes.iter().enumerate() {
            let Node::Block(header) = *node else { continue };
            let Some(range) = self.order.loop_range(header) else {
                continue;
            };
            if pos >= end && self.exits_diverge(&range) && self.is_gather_bound(&range) {
                end = *range.end();
                found.push(header);
            }
        }
        found
    }

    /// Whether lanes leave a loop in different iterations, and not only because a bound cuts the
    /// last gang in two.
    fn exits_diverge(&self, range: &std::ops::RangeInclusive<usize>) -> bool {
        let mut is_left = false;
        for pos in range.clone() {
            let Node::Block(block) = self.order.nodes[pos] else {
                continue;
            };
            if !self.can_run_in_lane_loop(block) {
                return false;
            }
            is_left |= self.parts(block) && {
                let targets = self.func.blocks[block].term.targets();
                targets
                    .iter()
                    .any(|call| !range.contains(&self.order.target(pos, call.block)))
            };
        }
        is_left
    }

    /// Whether lanes diverge at a block because of their own data.
    fn parts(&self, block: Block) -> bool {
        self.flow.divergent[block] && diverges_widely(self.func, &self.flow.variability, block)
    }

    fn can_run_in_lane_loop(&self, block: Block) -> bool {
        let data = &self.func.blocks[block];
        let is_fixed = |data: &InstData| {
            matches!(
                data,
                InstData::Warp { .. }
                    | InstData::Barrier { .. }
                    | InstData::Nanosleep { .. }
                    | InstData::Call { .. }
                    | InstData::CallIndirect { .. }
            )
        };
        !(self.can_stop)(block)
            && !self.cold[block]
            && self.flow.single_lane[block] == SingleLane::No
            && !matches!(data.term, Terminator::Dispatch(_) | Terminator::Ret(_))
            && !data
                .insts
                .iter()
                .any(|&inst| is_fixed(&self.func.insts[inst].data))
    }

    /// Whether diverged lanes gain nothing from vector code: they gather, and compute little with
    /// what they gather.
    fn is_gather_bound(&self, range: &std::ops::RangeInclusive<usize>) -> bool {
        let (mut gathers, mut arithmetic) = (0, 0);
        for (pos, weight) in self.weights(range) {
            if let Node::Block(block) = self.order.nodes[pos] {
                let counts = count_own(
                    self.func,
                    &self.flow.variability,
                    &self.affine_inputs[block],
                    block,
                );
                gathers += weight * counts.gathers;
                arithmetic += weight * counts.arithmetic;
            }
        }
        is_gather_bound(gathers, arithmetic)
    }

    /// The weight of an instruction at each position.
    fn weights(
        &self,
        range: &std::ops::RangeInclusive<usize>,
    ) -> impl Iterator<Item = (usize, usize)> {
        let mut depth = 0;
        range.clone().map(move |pos| {
            if let Node::Block(block) = self.order.nodes[pos]
                && self.order.end_pos[block].is_some()
            {
                depth += 1;
            }
            let here = cost::PER_LOOP.pow(depth.min(cost::MOST_LOOPS));
            if matches!(self.order.nodes[pos], Node::LoopEnd(_)) {
                depth -= 1;
            }
            (pos, here)
        })
    }

    /// The region behind a divergent branch, if it mostly consists of some of these loops.
    fn behind(&self, block: Block, loops: &[Block]) -> Option<LaneLoop> {
        let Terminator::Brif { then_, else_, .. } = &self.func.blocks[block].term else {
            return None;
        };
        if !self.parts(block) || then_.block == else_.block {
            return None;
        }
        [then_.block, else_.block].into_iter().find_map(|root| {
            if self.preds[root] != [block] {
                return None;
            }
            let around = single_lane::enclosing(self.order, block);
            let mut blocks = single_lane::region(self.func, self.order, self.preds, root);
            blocks.retain(|&block| {
                let pos = self.pos(block);
                around.as_ref().is_none_or(|range| range.contains(&pos))
            });
            if !blocks.iter().all(|&block| self.can_run_in_lane_loop(block)) {
                return None;
            }
            let ends = blocks.iter().map(|&block| {
                self.order.end_pos[block].map_or(self.pos(block), |end| end as usize)
            });
            let range = self.pos(root)..=ends.max()?;
            let n_blocks = range
                .clone()
                .filter(|&pos| matches!(self.order.nodes[pos], Node::Block(_)))
                .count();
            if n_blocks != blocks.len() {
                return None;
            }
            let region = LaneLoop::new(self.func, self.order, self.preds, root, range)?;
            // A value that is carried around an outer loop would be each lane's own.
            let goes_on = |&exit: &usize| matches!(self.order.nodes[exit], Node::LoopEnd(_));
            if region.exits.iter().any(goes_on) {
                return None;
            }
            self.loops_fill(&region, loops).then_some(region)
        })
    }

    /// Whether a region mostly consists of some of the loops.
    fn loops_fill(&self, region: &LaneLoop, loops: &[Block]) -> bool {
        let inside: Vec<_> = loops
            .iter()
            .filter(|&&header| region.range.contains(&self.pos(header)))
            .filter_map(|&header| self.order.loop_range(header))
            .collect();
        let (mut needed, mut around) = (0, 0);
        for (pos, weight) in self.weights(&region.range) {
            let Node::Block(block) = self.order.nodes[pos] else {
                continue;
            };
            let insts = self.func.blocks[block].insts.iter();
            let counted = insts
                .filter(|&&inst| !matches!(self.func.insts[inst].data, InstData::Const { .. }));
            let sum = if inside.iter().any(|range| range.contains(&pos)) {
                &mut needed
            } else {
                &mut around
            };
            *sum += weight * counted.count();
        }
        !inside.is_empty() && around <= cost::AROUND_LOOPS + needed / cost::PER_AROUND
    }
}

/// Whether lanes diverge at a block because of their own data, and not only in the one gang that a
/// bound cuts in two.
pub fn diverges_widely(
    func: &Function,
    variability: &SecondaryMap<Value, Variability>,
    block: Block,
) -> bool {
    if let Terminator::Brif { cond, .. } = func.blocks[block].term {
        !is_affine_condition(func, variability, cond, cost::DEPTH_OF_CONDITION)
    } else {
        true
    }
}

/// Whether a predicate comes from comparing affine values, so that nearly all gangs have one
/// answer.
fn is_affine_condition(
    func: &Function,
    variability: &SecondaryMap<Value, Variability>,
    cond: Value,
    depth: u32,
) -> bool {
    let Some(depth) = depth.checked_sub(1) else {
        return false;
    };
    if variability[cond] == Variability::Uniform {
        return true;
    }
    let is_affine_condition = |arg: &Value| is_affine_condition(func, variability, *arg, depth);
    match func.def_inst(cond) {
        Some(InstData::Compare { args, .. }) => args
            .iter()
            .all(|&arg| variability[arg] != Variability::Varying),
        Some(InstData::IntBinary {
            op: IntBinaryOp::And | IntBinaryOp::Or | IntBinaryOp::Xor,
            args,
            ..
        }) => args.iter().all(is_affine_condition),
        Some(InstData::IntUnary {
            op: IntUnaryOp::Not,
            arg,
            ..
        }) => is_affine_condition(arg),
        _ => false,
    }
}

/// Inserts a block in front of each of these loops, as the root of its region.
pub(crate) fn add_roots(func: &mut Function, order: &Order, chosen: &mut Chosen) {
    for header in std::mem::take(&mut chosen.headers) {
        let range = order.loop_range(header).expect("a loop's header");
        let last = order.nodes[range.clone()]
            .iter()
            .rev()
            .find_map(|node| match *node {
                Node::Block(block) => Some(block),
                Node::LoopEnd(_) => None,
            });
        let root = func.new_block();
        let types: Vec<Type> = func.blocks[header]
            .params
            .iter()
            .map(|&param| func.ty(param))
            .collect();
        let params: Vec<Value> = types.iter().map(|&ty| func.add_param(root, ty)).collect();
        for block in func.blocks.keys().collect::<Vec<_>>() {
            let is_inside =
                order.block_pos[block].is_some_and(|pos| range.contains(&(pos as usize)));
            if is_inside || block == root {
                continue;
            }
            for call in func.blocks[block].term.targets_mut() {
                if call.block == header {
                    call.block = root;
                }
            }
        }
        let mut call = BlockCall::new(header);
        call.args.extend(params);
        func.blocks[root].term = Terminator::Jump(call);
        func.blocks[root].term_loc = func.blocks[header].term_loc;
        chosen.roots.push((root, last.unwrap_or(header)));
    }
}

/// The regions, in the final order.
pub(crate) fn regions(
    func: &Function,
    order: &Order,
    preds: &SecondaryMap<Block, Vec<Block>>,
    chosen: &Chosen,
) -> Vec<LaneLoop> {
    let mut out: Vec<LaneLoop> = chosen
        .roots
        .iter()
        .filter_map(|&(root, last)| {
            let start = order.block_pos[root]? as usize;
            let mut end = order.block_pos[last]? as usize;
            // Loops that begin in the region end in it.
            while let Some(&Node::LoopEnd(header)) = order.nodes.get(end + 1)
                && order.block_pos[header]? as usize >= start
            {
                end += 1;
            }
            LaneLoop::new(func, order, preds, root, start..=end)
        })
        .collect();
    out.sort_unstable_by_key(|region| *region.range.start());
    out
}

/// What a block does in a loop that lanes leave in different iterations.
#[derive(Default)]
pub struct Counts {
    /// Accesses that are not contiguous, each weighted by the arithmetic that it outweighs.
    pub gathers: usize,
    /// Arithmetic on varying values.
    pub arithmetic: usize,
}

/// Counts the gathers and the varying arithmetic of a block.
pub fn count_own(
    func: &Function,
    variability: &SecondaryMap<Value, Variability>,
    affine_inputs: &Option<AffineInputs>,
    block: Block,
) -> Counts {
    let is_own = |value: Value| {
        let better = affine_inputs
            .as_ref()
            .and_then(|affine_inputs| affine_inputs.variability.get(&value));
        *better.unwrap_or(&variability[value]) == Variability::Varying
    };
    let mut counts = Counts::default();
    for &inst in &func.blocks[block].insts {
        let node = &func.insts[inst];
        if let InstData::Load { addr, space, .. }
        | InstData::MaskedLoad { addr, space, .. }
        | InstData::Store { addr, space, .. }
        | InstData::Atomic { addr, space, .. } = node.data
        {
            // Threads' local memories are not contiguous.
            counts.gathers += if space == Space::Local {
                cost::PER_OWN_ACCESS
            } else if is_own(addr) {
                cost::PER_ACCESS
            } else {
                0
            };
        } else {
            let is_arithmetic = node.results.first().is_some_and(|&result| is_own(result));
            counts.arithmetic += usize::from(is_arithmetic);
        }
    }
    counts
}

/// Whether this many gathers outweigh this much arithmetic.
pub fn is_gather_bound(gathers: usize, arithmetic: usize) -> bool {
    gathers > 0 && gathers >= arithmetic
}
