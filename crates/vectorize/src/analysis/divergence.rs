//! Divergence analysis: finds which values are uniform, affine or varying, and why.

mod integers;

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, Class, Function, InstData, IntUnaryOp, SharedBy, Space, SpecialReg, Type, Value, WarpOp,
};

use crate::analysis::variability::{Because, Variability, join};
use crate::scalarize::single_lane::{self, SingleLane};
use crate::{Order, PlanFacts};

/// How a value varies, and why.
type Reasoned = (Variability, Because);

const UNIFORM: Reasoned = (Variability::Uniform, Because::NotVarying);
/// Varying by itself.
const SOURCE: Reasoned = (Variability::Varying, Because::Source);

#[derive(Default)]
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
            facts,
            gang,
            ..Divergence::default()
        }
    }

    /// Propagates to a fixed point.
    pub(crate) fn propagate(&mut self, func: &Function, order: &Order) {
        for &param in func.params() {
            self.set(param, SOURCE);
        }
        while self.pass(func, order) {}
    }

    /// Whether the variability of a value in the blocks descends.
    fn pass(&mut self, func: &Function, order: &Order) -> bool {
        let mut changed = false;
        for block in order.blocks() {
            changed |= self.results(func, block) | self.arguments(func, block);
        }
        changed
    }

    /// Whether the variability of a result in the block descends.
    fn results(&mut self, func: &Function, block: Block) -> bool {
        let mut changed = false;
        for node in func.insts_in(block) {
            for (idx, &result) in node.results.iter().enumerate() {
                let found = match self.is_single_lane(block, &node.data) {
                    true => UNIFORM,
                    false => self.result(func, &node.data, idx),
                };
                changed |= self.set(result, found);
            }
        }
        changed
    }

    /// Whether that of a parameter to which the block passes arguments does.
    fn arguments(&mut self, func: &Function, block: Block) -> bool {
        let mut changed = false;
        for call in func.blocks[block].term.targets() {
            for (&param, &arg) in func.blocks[call.block].params.iter().zip(&call.args) {
                let joined = self.join(param, arg, call.block);
                changed |= joined.is_some_and(|joined| self.set(param, joined));
            }
        }
        changed
    }

    /// Whether an instruction's result is a scalar because one lane runs it at a time.
    fn is_single_lane(&self, block: Block, data: &InstData) -> bool {
        self.single_lane[block] != SingleLane::No && single_lane::is_scalar(data)
    }

    /// What an argument makes of a block's parameter; `None` while nothing is known of it.
    fn join(&self, param: Value, arg: Value, block: Block) -> Option<Reasoned> {
        // The sum that a parameter accumulates over the iterations of a loop is unknown.
        let passed = self.variability[arg]?.moved();
        if self.single_lane[block] == SingleLane::Inner {
            return Some(UNIFORM);
        }
        if self.merged[param] {
            return Some((Variability::Varying, Because::Merge(block)));
        }
        let old = self.variability[param];
        if old == Some(Variability::Varying) {
            return Some((Variability::Varying, self.because[param]));
        }
        let joined = old.map_or(passed, |old| join(old, passed));
        Some((joined, Because::Operand(arg)))
    }

    /// Whether the variability of a value descends the lattice. It never ascends, which bounds the
    /// iteration.
    fn set(&mut self, value: Value, (variability, because): Reasoned) -> bool {
        let (variability, because) = match self.spread[value] {
            true => (Variability::Varying, Because::MayWrap),
            false => (variability, because),
        };
        let old = self.variability[value];
        let variability = old.map_or(variability, |old| join(old, variability));
        self.variability[value] = Some(variability);
        if old != Some(variability) {
            let is_varying = variability == Variability::Varying;
            self.because[value] = if is_varying {
                because
            } else {
                Because::NotVarying
            };
        }
        old != Some(variability)
    }

    /// Makes a value varying for another reason than its definition.
    pub(crate) fn make_varying(&mut self, value: Value, because: Because) {
        self.variability[value] = Some(Variability::Varying);
        self.because[value] = because;
    }

    /// The variability of a value; uniform if it was not reached.
    pub(crate) fn variability(&self, value: Value) -> Variability {
        self.variability[value].unwrap_or(Variability::Uniform)
    }

    /// Whether a value was found to be varying.
    pub(crate) fn is_varying(&self, value: Value) -> bool {
        self.variability[value] == Some(Variability::Varying)
    }

    /// Whether a value is a vector, or new to the analysis.
    pub(crate) fn may_vary(&self, value: Value) -> bool {
        self.variability[value].is_none_or(|found| found == Variability::Varying)
    }

    /// The variability of a result, from that of the operands.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others follow operands")]
    pub(crate) fn result(&self, func: &Function, data: &InstData, idx: usize) -> Reasoned {
        if self.gang == 1 {
            return UNIFORM;
        }
        let mut args = data.args().into_iter();
        let varying_arg = args.find(|&arg| self.variability(arg) != Variability::Uniform);
        let from_args = || match varying_arg {
            None => UNIFORM,
            Some(arg) => (Variability::Varying, Because::Operand(arg)),
        };
        let ok = |variability: Variability| match (variability, varying_arg) {
            (Variability::Varying, Some(arg)) => (Variability::Varying, Because::Operand(arg)),
            (Variability::Varying, None) => SOURCE,
            _ => (variability, Because::NotVarying),
        };
        match data.class() {
            Class::Device(_) | Class::Stack => return SOURCE,
            Class::Constant | Class::Call | Class::Order => return from_args(),
            Class::Arithmetic
            | Class::Window
            | Class::Place
            | Class::Access
            | Class::Convergent => {}
        }
        match *data {
            InstData::Sreg { sreg } => ok(self.sreg(sreg)),
            InstData::EndLane { .. } | InstData::FirstRunning { .. } => UNIFORM,
            InstData::IntBinary { op, ty, args } => ok(self.int_binary(func, op, ty, args)),
            // `not x` is `-1 - x`.
            InstData::IntUnary {
                op: op @ (IntUnaryOp::Neg | IntUnaryOp::Not),
                ty: Type::B32 | Type::B64,
                arg,
            } => ok(self.negated(arg, op)),
            InstData::Resize { op, from, to, arg } => ok(self.resize(func, op, from, to, arg)),
            InstData::Compare { op, args, .. } if self.is_on_one_side(func, op, args) => UNIFORM,
            InstData::Select { cond, args, .. } => {
                self.selected(cond, args).map_or_else(from_args, ok)
            }
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
            | InstData::Atomic { .. } => SOURCE,
            // An address in another space is at a distance that is the same for all lanes.
            InstData::ToGeneric { arg, .. } | InstData::FromGeneric { arg, .. } => {
                ok(self.variability(arg).moved())
            }
            InstData::Warp { op, ref args, .. } => self.warp(func, op, args, idx),
            InstData::Barrier { .. } => UNIFORM,
            _ => from_args(),
        }
    }

    fn sreg(&self, sreg: SpecialReg) -> Variability {
        let in_rows = self.facts.one_dimensional || self.facts.whole_rows;
        if sreg == SpecialReg::LaneId || (sreg == SpecialReg::TidX && in_rows) {
            return Variability::affine(1, self.gang.trailing_zeros() as u8);
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
    fn warp(&self, func: &Function, op: WarpOp, args: &[Value], idx: usize) -> Reasoned {
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
            UNIFORM
        } else {
            SOURCE
        }
    }
}
