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

use std::ops::RangeInclusive;

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, BlockCall, Class, Function, InstData, InstNode, IntBinaryOp, IntUnaryOp, Space,
    Terminator, Value,
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
    pub range: RangeInclusive<usize>,
    /// The nodes that lanes leave to, ascending.
    pub exits: Vec<usize>,
    /// Whether lanes may exit the kernel here.
    pub ends: bool,
}

impl LaneLoop {
    /// The blocks.
    pub fn blocks<'a>(&self, order: &'a Order) -> impl Iterator<Item = Block> + 'a {
        order.blocks_in(self.range.clone())
    }

    /// The nodes that the blocks lead to, if all edges into them lead to the root.
    fn new(
        func: &Function,
        order: &Order,
        preds: &SecondaryMap<Block, Vec<Block>>,
        root: Block,
        range: RangeInclusive<usize>,
    ) -> Option<LaneLoop> {
        let mut region = LaneLoop {
            root,
            range: range.clone(),
            exits: Vec::new(),
            ends: false,
        };
        let inside = |block: Block| order.is_in(&range, block);
        for pos in range.clone() {
            match order.nodes[pos] {
                Node::Block(block) => {
                    if block != root && !preds[block].iter().all(|&pred| inside(pred)) {
                        return None;
                    }
                    region.ends |= matches!(func.blocks[block].term, Terminator::Exit);
                    let exits = func.successors(block).filter(|&to| !inside(to));
                    region.exits.extend(exits.map(|to| order.target(pos, to)));
                    // A root that its own region branches back to would need parameters of both
                    // kinds.
                    if func.successors(block).any(|to| to == root) {
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
        for (pos, block) in self.order.places() {
            if pos >= end
                && let Some(region) = self.behind(block, &loops)
            {
                let last = region.blocks(self.order).last();
                let last = last.unwrap_or(region.root);
                chosen.roots.push((region.root, last));
                loops.retain(|&header| !self.order.is_in(&region.range, header));
                end = *region.range.end();
            }
        }
        chosen.headers = loops;
        chosen
    }

    /// The outermost loops that lanes leave in different iterations and that mostly gather, by
    /// their headers.
    fn gather_bound_loops(&self) -> Vec<Block> {
        let mut found: Vec<Block> = Vec::new();
        let mut end = 0;
        for (pos, header) in self.order.places() {
            if let Some(range) = self.order.loop_range(header)
                && pos >= end
                && self.exits_diverge(&range)
                && self.is_gather_bound(&range)
            {
                end = *range.end();
                found.push(header);
            }
        }
        found
    }

    /// Whether lanes leave a loop in different iterations, and not only because a bound cuts the
    /// last gang in two.
    fn exits_diverge(&self, range: &RangeInclusive<usize>) -> bool {
        let blocks = || self.order.blocks_in(range.clone());
        let is_exit = |block: Block| {
            let mut targets = self.func.successors(block);
            targets.any(|to| !self.order.is_in(range, to)) && self.parts(block)
        };
        blocks().all(|block| self.can_run_in_lane_loop(block)) && blocks().any(is_exit)
    }

    /// Whether lanes diverge at a block because of their own data.
    fn parts(&self, block: Block) -> bool {
        self.flow.divergent[block] && diverges_widely(self.func, &self.flow.variability, block)
    }

    fn can_run_in_lane_loop(&self, block: Block) -> bool {
        let term = &self.func.blocks[block].term;
        let is_fixed = |data: &InstData| {
            matches!(data.class(), Class::Convergent | Class::Call)
                || matches!(data, InstData::Nanosleep { .. })
        };
        let mut nodes = self.func.insts_in(block);
        !(self.can_stop)(block)
            && !self.cold[block]
            && self.flow.single_lane[block] == SingleLane::No
            && !matches!(term, Terminator::Dispatch(_) | Terminator::Ret(_))
            && !nodes.any(|node| is_fixed(&node.data))
    }

    /// Whether diverged lanes gain nothing from vector code: they gather, and compute little with
    /// what they gather.
    fn is_gather_bound(&self, range: &RangeInclusive<usize>) -> bool {
        let (mut gathers, mut arithmetic) = (0, 0);
        for (block, weight) in self.weights(range) {
            let (variability, inputs) = (&self.flow.variability, &self.affine_inputs[block]);
            let counts = count_own(self.func, variability, inputs, block);
            gathers += weight * counts.gathers;
            arithmetic += weight * counts.arithmetic;
        }
        is_gather_bound(gathers, arithmetic)
    }

    /// The blocks at some positions, with the weight of an instruction in each.
    fn weights(&self, range: &RangeInclusive<usize>) -> impl Iterator<Item = (Block, usize)> {
        let mut depth: u32 = 0;
        let nodes = self.order.nodes[range.clone()].iter();
        nodes.filter_map(move |node| match *node {
            Node::Block(block) => {
                depth += u32::from(self.order.end_pos[block].is_some());
                Some((block, cost::PER_LOOP.pow(depth.min(cost::MOST_LOOPS))))
            }
            Node::LoopEnd(_) => {
                depth -= 1;
                None
            }
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
            let region = self.entered_at(root, self.order.enclosing(block))?;
            // A value that is carried around an outer loop would be each lane's own.
            let goes_on = |&exit: &usize| matches!(self.order.nodes[exit], Node::LoopEnd(_));
            let stays = !region.exits.iter().any(goes_on);
            (stays && self.loops_fill(&region, loops)).then_some(region)
        })
    }

    /// The region that is entered at a block and that a lane loop could run, in the loop around it.
    fn entered_at(&self, root: Block, around: Option<RangeInclusive<usize>>) -> Option<LaneLoop> {
        let order = self.order;
        let mut blocks = single_lane::region(self.func, order, self.preds, root);
        blocks.retain(|&block| {
            let is_inside = |range| order.is_in(range, block);
            around.as_ref().is_none_or(is_inside)
        });
        if !blocks.iter().all(|&block| self.can_run_in_lane_loop(block)) {
            return None;
        }
        let end =
            |&block: &Block| order.end_pos[block].map_or(order.pos(block), |end| end as usize);
        let range = order.pos(root)..=blocks.iter().map(end).max()?;
        let is_whole = order.blocks_in(range.clone()).count() == blocks.len();
        is_whole.then(|| LaneLoop::new(self.func, order, self.preds, root, range))?
    }

    /// Whether a region mostly consists of some of the loops.
    fn loops_fill(&self, region: &LaneLoop, loops: &[Block]) -> bool {
        let loops = loops.iter().copied();
        let inside = loops.filter(|&header| self.order.is_in(&region.range, header));
        let inside: Vec<Block> = inside.collect();
        let (mut needed, mut around) = (0, 0);
        for (block, weight) in self.weights(&region.range) {
            let mut loops = inside.iter();
            let sum = match loops.any(|&header| self.order.is_in_loop(header, block)) {
                true => &mut needed,
                false => &mut around,
            };
            let is_counted = |node: &&InstNode| !matches!(node.data, InstData::Const { .. });
            *sum += weight * self.func.insts_in(block).filter(is_counted).count();
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
    let cond = func.blocks[block].term.condition();
    cond.is_none_or(|cond| !is_affine_condition(func, variability, cond, cost::DEPTH_OF_CONDITION))
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
        Some(InstData::Compare { args, .. }) => {
            let mut args = args.iter();
            args.all(|&arg| variability[arg] != Variability::Varying)
        }
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
        let last = order.blocks_in(range.clone()).last();
        let blocks: Vec<Block> = func.blocks.keys().collect();
        let root = func.new_block();
        func.copy_params(header, root);
        for block in blocks {
            if !order.is_in(&range, block) {
                func.redirect(block, header, root);
            }
        }
        let mut call = BlockCall::new(header);
        call.args.extend_from_slice(&func.blocks[root].params);
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
    let regions = chosen.roots.iter().filter_map(|&(root, last)| {
        let start = order.block_pos[root]? as usize;
        let mut end = order.block_pos[last]? as usize;
        // Loops that begin in the region end in it.
        while let Some(&Node::LoopEnd(header)) = order.nodes.get(end + 1)
            && order.block_pos[header]? as usize >= start
        {
            end += 1;
        }
        LaneLoop::new(func, order, preds, root, start..=end)
    });
    let mut out: Vec<LaneLoop> = regions.collect();
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
        let inputs = affine_inputs.as_ref();
        let better = inputs.and_then(|inputs| inputs.variability.get(&value));
        *better.unwrap_or(&variability[value]) == Variability::Varying
    };
    let mut counts = Counts::default();
    for node in func.insts_in(block) {
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
