//! Divergence analysis: finds which values are uniform, affine or varying, and why.

mod integers;

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, Class, Function, InstData, IntUnaryOp, SharedBy, Space, SpecialReg, Type, Value, WarpOp,
};

use crate::analysis::order::Node;
use crate::analysis::variability::{Because, Variability, join};
use crate::scalarize::single_lane::{self, SingleLane};
use crate::{Order, PlanFacts};

pub(crate) struct Divergence {
    /// `None`: not reached yet.
    pub variability: SecondaryMap<Value, Option<Variability>>,
    pub because: SecondaryMap<Value, Because>,
    pub facts: PlanFacts,
    pub gang: u32,
    /// Parameters that lanes write on different paths.
    pub merged: SecondaryMap<Value, bool>,
    /// Values that must be vectors: they may stem from an index that wrapped, they are used as
    /// numbers, and their bits do not tell whether the index wrapped.
    pub spread: SecondaryMap<Value, bool>,
    /// Blocks that one lane runs at a time.
    pub single_lane: SecondaryMap<Block, SingleLane>,
}

impl Divergence {
    pub(crate) fn new(gang: u32, facts: PlanFacts) -> Divergence {
        Divergence {
            variability: SecondaryMap::new(),
            because: SecondaryMap::new(),
            facts,
            gang,
            merged: SecondaryMap::new(),
            spread: SecondaryMap::new(),
            single_lane: SecondaryMap::new(),
        }
    }

    /// Propagates to a fixed point.
    pub(crate) fn propagate(&mut self, func: &Function, order: &Order) {
        for &param in func.params() {
            self.set(param, Variability::Varying, Because::Source);
        }
        loop {
            let mut changed = false;
            for node in &order.nodes {
                if let Node::Block(block) = *node {
                    changed |= self.block(func, block);
                }
            }
            if !changed {
                break;
            }
        }
    }

    fn block(&mut self, func: &Function, block: Block) -> bool {
        let mut changed = false;
        for &inst in &func.blocks[block].insts {
            let node = &func.insts[inst];
            for idx in 0..node.results.len() {
                let (variability, because) = if self.is_single_lane(block, &node.data) {
                    (Variability::Uniform, Because::NotVarying)
                } else {
                    self.result(func, &node.data, idx)
                };
                changed |= self.set(node.results[idx], variability, because);
            }
        }
        for call in func.blocks[block].term.targets() {
            for (&param, &arg) in func.blocks[call.block].params.iter().zip(&call.args) {
                let Some(arg_variability) = self.variability[arg] else {
                    continue;
                };
                let (variability, because) = self.join(param, arg, arg_variability, call.block);
                changed |= self.set(param, variability, because);
            }
        }
        changed
    }

    /// Whether an instruction's result is a scalar because one lane runs it at a time.
    fn is_single_lane(&self, block: Block, data: &InstData) -> bool {
        self.single_lane[block] != SingleLane::No && single_lane::is_scalar(data)
    }

    fn join(
        &self,
        param: Value,
        arg: Value,
        arg_variability: Variability,
        block: Block,
    ) -> (Variability, Because) {
        if self.single_lane[block] == SingleLane::Inner {
            return (Variability::Uniform, Because::NotVarying);
        }
        if self.merged[param] {
            return (Variability::Varying, Because::Merge(block));
        }
        // The sum that a parameter accumulates over the iterations of a loop is unknown.
        let arg_variability = match arg_variability {
            Variability::Affine {
                stride,
                align,
                may_wrap: Some(may_wrap),
            } => Variability::Affine {
                stride,
                align,
                may_wrap: Some(may_wrap.plus(false)),
            },
            other @ (Variability::Uniform | Variability::Affine { .. } | Variability::Varying) => {
                other
            }
        };
        match self.variability[param] {
            None if arg_variability == Variability::Varying => {
                (Variability::Varying, Because::Operand(arg))
            }
            None => (arg_variability, Because::NotVarying),
            Some(Variability::Varying) => (Variability::Varying, self.because[param]),
            Some(old) => match join(old, arg_variability) {
                Variability::Varying => (Variability::Varying, Because::Operand(arg)),
                variability @ (Variability::Uniform | Variability::Affine { .. }) => {
                    (variability, Because::NotVarying)
                }
            },
        }
    }

    /// The variability of a value only ever descends the lattice, which bounds the iteration.
    fn set(&mut self, value: Value, variability: Variability, because: Because) -> bool {
        let (variability, because) = if self.spread[value] {
            (Variability::Varying, Because::MayWrap)
        } else {
            (variability, because)
        };
        let old = self.variability[value];
        let variability = old.map_or(variability, |old| join(old, variability));
        if old == Some(variability) {
            return false;
        }
        self.variability[value] = Some(variability);
        self.because[value] = if variability == Variability::Varying {
            because
        } else {
            Because::NotVarying
        };
        true
    }

    fn variability(&self, value: Value) -> Variability {
        self.variability[value].unwrap_or(Variability::Uniform)
    }

    /// The variability of a result, from that of the operands.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others follow operands")]
    pub(crate) fn result(
        &self,
        func: &Function,
        data: &InstData,
        idx: usize,
    ) -> (Variability, Because) {
        if self.gang == 1 {
            return (Variability::Uniform, Because::NotVarying);
        }
        let args = data.args();
        let varying_arg = args
            .iter()
            .copied()
            .find(|&arg| self.variability(arg) != Variability::Uniform);
        let from_args = || match varying_arg {
            None => (Variability::Uniform, Because::NotVarying),
            Some(arg) => (Variability::Varying, Because::Operand(arg)),
        };
        let ok = |variability: Variability| match (variability, varying_arg) {
            (Variability::Varying, Some(arg)) => (Variability::Varying, Because::Operand(arg)),
            (Variability::Varying, None) => (Variability::Varying, Because::Source),
            _ => (variability, Because::NotVarying),
        };
        match data.class() {
            Class::Device(_) | Class::Stack => return (Variability::Varying, Because::Source),
            Class::Constant | Class::Call | Class::Order => return from_args(),
            Class::Arithmetic
            | Class::Window
            | Class::Place
            | Class::Access
            | Class::Convergent => {}
        }
        match *data {
            InstData::Sreg { sreg } => ok(self.sreg(sreg)),
            InstData::EndLane { .. } | InstData::FirstRunning { .. } => {
                (Variability::Uniform, Because::NotVarying)
            }
            InstData::IntBinary {
                op,
                ty,
                args: [a, b],
            } => ok(self.int_binary(func, op, ty, a, b)),
            // `not x` is `-1 - x`.
            InstData::IntUnary {
                op: op @ (IntUnaryOp::Neg | IntUnaryOp::Not),
                ty: Type::B32 | Type::B64,
                arg,
            } => ok(self.negated(arg, op)),
            InstData::Resize { op, from, to, arg } => ok(self.resize(func, op, from, to, arg)),
            InstData::Compare { op, args, .. } if self.is_on_one_side(func, op, args) => {
                (Variability::Uniform, Because::NotVarying)
            }
            InstData::Select {
                cond, args: [a, b], ..
            } => self.selected(cond, a, b).map_or_else(from_args, ok),
            // Each thread has local memory of its own.
            InstData::ToGeneric {
                space: Space::Local,
                ..
            }
            | InstData::FromGeneric {
                space: Space::Local,
                ..
            }
            | InstData::Load {
                space: Space::Local,
                ..
            }
            | InstData::Atomic { .. } => (Variability::Varying, Because::Source),
            InstData::ToGeneric { arg, .. } | InstData::FromGeneric { arg, .. } => {
                ok(self.shifted(arg))
            }
            InstData::Warp { op, ref args, .. } => self.warp(func, op, args, idx),
            InstData::Barrier { .. } => (Variability::Uniform, Because::NotVarying),
            _ => from_args(),
        }
    }

    fn sreg(&self, sreg: SpecialReg) -> Variability {
        let gang_align = self.gang.trailing_zeros() as u8;
        let in_rows = self.facts.one_dimensional || self.facts.whole_rows;
        if sreg == SpecialReg::LaneId || (sreg == SpecialReg::TidX && in_rows) {
            return Variability::Affine {
                stride: 1,
                align: gang_align,
                may_wrap: None,
            };
        }
        if matches!(sreg, SpecialReg::TidY | SpecialReg::TidZ) && in_rows {
            return Variability::Uniform;
        }
        match sreg.shared_by() {
            SharedBy::None => Variability::Varying,
            SharedBy::Warp | SharedBy::Cta => Variability::Uniform,
        }
    }

    /// A warp operation has one result for all lanes that took part with one member mask.
    fn warp(
        &self,
        func: &Function,
        op: WarpOp,
        args: &[Value],
        idx: usize,
    ) -> (Variability, Because) {
        let is_uniform = |&arg: &Value| self.variability(arg) == Variability::Uniform;
        let mask_uniform = args[op.n_args().min(args.len())..].iter().all(is_uniform);
        let shared = match op {
            // All lanes read one lane: with the number of a warp, programs choose what it does.
            WarpOp::ShflIdx => is_uniform(&args[1]) && op.reads_any_lane(func.as_const(args[2])),
            WarpOp::ShflUp
            | WarpOp::ShflDown
            | WarpOp::ShflBfly
            | WarpOp::MatchAny
            | WarpOp::Transpose
            | WarpOp::Mma(_) => false,
            WarpOp::Elect => idx == 0,
            WarpOp::VoteAll
            | WarpOp::VoteAny
            | WarpOp::VoteUni
            | WarpOp::Ballot
            | WarpOp::MatchAll
            | WarpOp::ReduxAdd
            | WarpOp::ReduxUmin
            | WarpOp::ReduxUmax
            | WarpOp::ReduxSmin
            | WarpOp::ReduxSmax
            | WarpOp::ReduxAnd
            | WarpOp::ReduxOr
            | WarpOp::ReduxXor
            | WarpOp::ReduxFmin
            | WarpOp::ReduxFmax
            | WarpOp::ReduxFminNan
            | WarpOp::ReduxFmaxNan
            | WarpOp::Sync
            | WarpOp::AlignedSync
            | WarpOp::ActiveMask => true,
        };
        if shared && mask_uniform {
            (Variability::Uniform, Because::NotVarying)
        } else {
            (Variability::Varying, Because::Source)
        }
    }
}
