//! How each node is emitted.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, FloatMode, FloatUnaryOp, Inst, InstData, MemSem, Round, Space, Terminator, Value,
};
use ptxjit_vectorize::{Node, SingleLane, Variability};
use rustc_hash::FxHashSet;

use super::mask_classes::MaskClass;
use super::{Assumed, Decisions, is_pure};
use crate::chains::{self, Schedule};

/// How a node is emitted.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum NodeForm {
    /// The back edge of a loop, which has no instructions.
    LoopEnd,
    /// For one lane after the other.
    LaneLoop,
    /// For one lane.
    SingleLane,
    /// Once, without versions of accesses for whole gangs: few gangs come here.
    Cold,
    /// Twice: for gangs of which all lanes run, and for others.
    Twice,
    /// Once, for all lanes of the node.
    Once,
}

/// Nodes with more operations, of quads and of scalars, than this are emitted only once.
const MOST_TWICE: usize = 1000;

/// With more other work per access than this, testing the mask at each access costs nothing
/// noticeable.
const MOST_WORK: usize = 32;

/// About how many vector operations an instruction takes.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are one instruction")]
fn work(data: &InstData) -> usize {
    let is_nearest = |mode: FloatMode| mode.round == Round::Rn;
    match *data {
        InstData::FloatUnary { op, .. } => match op {
            FloatUnaryOp::Neg | FloatUnaryOp::Abs | FloatUnaryOp::Copy => 1,
            FloatUnaryOp::CanonicalNan => 2,
            FloatUnaryOp::Sat | FloatUnaryOp::Relu | FloatUnaryOp::RoundInt => 4,
            FloatUnaryOp::Sqrt
            | FloatUnaryOp::RcpApprox
            | FloatUnaryOp::SqrtApprox
            | FloatUnaryOp::RsqrtApprox
            | FloatUnaryOp::SinApprox
            | FloatUnaryOp::CosApprox
            | FloatUnaryOp::Lg2Approx
            | FloatUnaryOp::Ex2Approx
            | FloatUnaryOp::TanhApprox => 16,
        },
        InstData::Fma { mode, .. } if !is_nearest(mode) => 32,
        InstData::FloatBinary { mode, .. } if !is_nearest(mode) => 16,
        InstData::Convert { .. } | InstData::ConvertRs { .. } => 4,
        _ => 1,
    }
}

impl<'a> Decisions<'a> {
    pub(super) fn form(&self, pos: usize) -> NodeForm {
        let Node::Block(block) = self.plan.order.nodes[pos] else {
            return NodeForm::LoopEnd;
        };
        if self.region_of[pos].is_some() {
            NodeForm::LaneLoop
        } else if self.plan.single_lane[block] != SingleLane::No {
            NodeForm::SingleLane
        } else if self.plan.cold[block] {
            NodeForm::Cold
        } else if self.wants_two_versions(pos, block) {
            NodeForm::Twice
        } else {
            NodeForm::Once
        }
    }

    /// Whether a node continues the one before: it is only reached from there, by all of its lanes,
    /// so that values cached for the one are valid in the other.
    pub(crate) fn continues(&self, pos: usize) -> bool {
        let nodes = &self.plan.order.nodes;
        let Some(before) = pos.checked_sub(1) else {
            return false;
        };
        let (Node::Block(from), Node::Block(block)) = (nodes[before], nodes[pos]) else {
            return false;
        };
        let class = self.classes.body[pos];
        self.forms[before] == NodeForm::Once
            && matches!(self.func.blocks[from].term, Terminator::Jump(ref call) if call.block == block)
            && self.predecessors[block].len() == 1
            && self.plan.wait_of[block].is_none()
            && !matches!(self.forms[pos], NodeForm::LaneLoop | NodeForm::SingleLane)
            && self.plan.pending_in[pos].is_empty()
            && self.classes.arrive[pos] == class
            && self.classes.body[before] == class
    }

    /// Whether a node's code follows that of the node before in one block of CLIF.
    pub(crate) fn falls_through(&self, pos: usize) -> bool {
        self.continues(pos) && self.forms[pos] != NodeForm::Cold
    }

    /// See [`Decisions::crosses`].
    pub(super) fn crossing(&self) -> SecondaryMap<Value, bool> {
        // Each node that continues none starts a chain.
        let nodes = &self.plan.order.nodes;
        let mut chain_of: SecondaryMap<Block, usize> = SecondaryMap::new();
        let mut chain = 0;
        for (pos, node) in nodes.iter().enumerate() {
            chain += usize::from(!self.continues(pos));
            if let Node::Block(block) = *node {
                chain_of[block] = chain;
            }
        }
        let mut crosses = self.plan.escapes.clone();
        let mut home: SecondaryMap<Value, usize> = SecondaryMap::new();
        for block in self.func.blocks.keys() {
            for &result in self.func.results_in(block) {
                (home[result], crosses[result]) = (chain_of[block], false);
            }
        }
        for block in self.func.blocks.keys() {
            let mark = |value: Value| crosses[value] |= home[value] != chain_of[block];
            self.func.for_each_arg(block, mark);
        }
        crosses
    }

    /// The blocks without parameters whose nodes continue that of `block`, in order.
    pub(crate) fn blocks_behind(&self, block: Block) -> impl Iterator<Item = Block> {
        let first = self.plan.order.pos(block) + 1;
        let behind = self.plan.order.nodes.iter().enumerate().skip(first);
        behind.map_while(|(pos, node)| {
            let block = node.block()?;
            let is_next = self.continues(pos)
                && self.forms[pos] == NodeForm::Once
                && self.func.blocks[block].params.is_empty();
            is_next.then_some(block)
        })
    }

    /// The instructions of a block but the one at which its lanes wait.
    pub(crate) fn insts_after_wait(&self, block: Block) -> &'a [Inst] {
        self.plan.insts_after_wait(self.func, block)
    }

    /// Whether a node's code gets much shorter if accesses need not test which lanes run.
    fn wants_two_versions(&self, pos: usize, block: Block) -> bool {
        let insts = self.insts_after_wait(block);
        let is_full = self.inputs.whole_gangs && self.classes.body[pos] == MaskClass::Entry;
        let asks = |&inst: &Inst| {
            let Some(access) = self.func.insts[inst].data.access() else {
                return 0;
            };
            match self.plan.variability[access.addr] {
                // Inactive lanes are redirected one by one.
                _ if access.space == Space::Local => 4,
                Variability::Varying => 4,
                Variability::Affine { .. } => 1,
                Variability::Uniform => 0,
            }
        };
        let asked: usize = insts.iter().map(asks).sum();
        let work = insts.iter().map(|&inst| work(&self.func.insts[inst].data));
        let work: usize = work.sum();
        let pays = work <= MOST_WORK * asked
            || self.plan.affine_inputs[block].is_some()
            || self.has_chains(block, insts);
        if is_full && self.plan.affine_inputs[block].is_none() {
            return false;
        }
        let size: usize = insts.iter().map(|&inst| self.operations(inst)).sum();
        self.plan.gang > 1 && asked > 0 && size < MOST_TWICE && pays
    }

    /// How many operations an instruction is: one for each quad, or one on a scalar.
    fn operations(&self, inst: Inst) -> usize {
        let results = &self.func.insts[inst].results;
        let is_scalar =
            |&result: &Value| !self.plan.is_varying(result) || self.invariants.is_pinned(result);
        match !results.is_empty() && results.iter().all(is_scalar) {
            true => 1,
            false => self.plan.gang.div_ceil(4) as usize,
        }
    }

    /// Whether a part of a node is emitted in another order if all lanes run.
    fn has_chains(&self, block: Block, insts: &[Inst]) -> bool {
        let mut rest = insts;
        while !rest.is_empty() {
            let n = self.stretch(rest, Assumed::default());
            let chains = self.by_chains(block, &rest[..n], Assumed::default());
            if chains.is_some() {
                return true;
            }
            rest = &rest[n.max(1)..];
        }
        false
    }

    /// How many instructions from the first on are pure, or loads that can be repeated.
    pub(crate) fn stretch(&self, insts: &[Inst], assumed: Assumed<'_>) -> usize {
        let is_inside = |&inst: &Inst| {
            is_pure(&self.func.insts[inst].data) || self.is_repeatable(inst, assumed)
        };
        insts.iter().take_while(|inst| is_inside(inst)).count()
    }

    /// Loads that can be repeated: from the CTA's own memory, which only its own threads write, or
    /// from read-only memory, uniform or affine, so that no code tests where the lanes are.
    fn is_repeatable(&self, inst: Inst, assumed: Assumed<'_>) -> bool {
        let node = &self.func.insts[inst];
        let InstData::Load {
            space: Space::Shared | Space::Const | Space::Param,
            sem: MemSem::Weak | MemSem::NonCoherent,
            addr,
            ..
        } = node.data
        else {
            return false;
        };
        self.variability(addr, assumed) != Variability::Varying
            && !self.invariants.is_pinned(node.results[0])
    }

    /// The schedule of a run with more values live than registers, if it consists of chains that do
    /// not depend on each other.
    pub(crate) fn by_chains(
        &self,
        block: Block,
        stretch: &[Inst],
        assumed: Assumed<'_>,
    ) -> Option<Schedule> {
        let is_long = stretch.len() >= chains::FEWEST_INSTS;
        let is_subword = |&inst: &Inst| self.makes_subword(inst, assumed);
        if !is_long
            || self.plan.gang == 1
            || (self.inputs.memcheck && self.inputs.foreign)
            || assumed.one_lane
            || stretch.iter().any(is_subword)
        {
            return None;
        }
        let insts = stretch.iter().copied();
        let insts: Vec<Inst> = insts.filter(|&inst| !self.is_done(inst)).collect();
        let kept = self.read_beside(block, &insts);
        chains::by_chains(&chains::Run {
            func: self.func,
            insts: &insts,
            // Predicates held as bits are computed from scalars.
            variability: &|value| match self.in_bits[value] {
                true => Variability::Uniform,
                false => self.variability(value, assumed),
            },
            is_kept: &|value| self.plan.escapes[value] || kept.contains(&value),
        })
    }

    /// The values that a block reads, some instructions aside.
    fn read_beside(&self, block: Block, insts: &[Inst]) -> FxHashSet<Value> {
        let inside: FxHashSet<Inst> = insts.iter().copied().collect();
        let data = &self.func.blocks[block];
        let mut read: FxHashSet<Value> = FxHashSet::default();
        data.term.for_each_arg(|arg| read.extend([arg]));
        for inst in data.insts.iter().filter(|inst| !inside.contains(inst)) {
            read.extend(self.func.insts[*inst].data.args());
        }
        read
    }

    /// Whether an instruction needs no code where it stands.
    pub(crate) fn is_done(&self, inst: Inst) -> bool {
        let node = &self.func.insts[inst];
        let is_pinned = |&result: &Value| self.invariants.is_pinned(result);
        matches!(node.data, InstData::Const { .. }) || node.results.first().is_some_and(is_pinned)
    }
}
