//! Scalar evolution: how far a value moves in one iteration of a loop, or from one CTA to the next.

use std::ops::RangeInclusive;

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, Effect, Function, Inst, InstData, IntBinaryOp, ResizeOp, Space, SpecialReg, SrcLoc,
    Type, Value, ValueDef,
};

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::analysis::order::{Node, Order};
use crate::cost;

/// A loop of the order.
pub(crate) struct Loop<'o> {
    order: &'o Order,
    pub(crate) header: Block,
    /// Its blocks, the header first.
    pub(crate) members: Vec<Block>,
    /// Whether other loops are in it.
    pub(crate) has_inner: bool,
    positions: RangeInclusive<usize>,
}

impl<'o> Loop<'o> {
    pub(crate) fn new(order: &'o Order, header: Block) -> Option<Loop<'o>> {
        let mut out = Loop {
            order,
            header,
            members: Vec::new(),
            has_inner: false,
            positions: order.loop_range(header)?,
        };
        for node in &order.nodes[out.positions.clone()] {
            match *node {
                Node::Block(block) => out.members.push(block),
                Node::LoopEnd(other) => out.has_inner |= other != header,
            }
        }
        Some(out)
    }

    pub(crate) fn contains(&self, block: Block) -> bool {
        let at = self.order.block_pos[block];
        at.is_some_and(|at| self.positions.contains(&(at as usize)))
    }
}

/// The distance, as an expression of values that do not change. The analysis ignores wrapping.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Const(i64),
    Is(Value),
    Sum(Box<[Step; 2]>),
    Difference(Box<[Step; 2]>),
    Product(Box<[Step; 2]>),
    /// A step that is extended to a wider type.
    Resized(ResizeOp, Type, Box<Step>),
}

impl Step {
    fn plus(self, other: Step) -> Step {
        match (self, other) {
            (Step::Const(x), Step::Const(y)) => Step::Const(x.wrapping_add(y)),
            (Step::Const(0), other) | (other, Step::Const(0)) => other,
            (x, y) => Step::Sum(Box::new([x, y])),
        }
    }

    fn minus(self, other: Step) -> Step {
        match (self, other) {
            (x, Step::Const(y)) => x.plus(Step::Const(y.wrapping_neg())),
            (x, y) => Step::Difference(Box::new([x, y])),
        }
    }

    pub(crate) fn times(self, other: Step) -> Step {
        match (self, other) {
            (Step::Const(x), Step::Const(y)) => Step::Const(x.wrapping_mul(y)),
            (Step::Const(0), _) | (_, Step::Const(0)) => Step::Const(0),
            (Step::Const(1), other) | (other, Step::Const(1)) => other,
            (x, y) => Step::Product(Box::new([x, y])),
        }
    }

    fn resized(self, op: ResizeOp, from: Type) -> Step {
        match self {
            Step::Const(_) => self,
            other @ (Step::Is(_)
            | Step::Sum(_)
            | Step::Difference(_)
            | Step::Product(_)
            | Step::Resized(..)) => Step::Resized(op, from, Box::new(other)),
        }
    }

    /// Whether `is` holds for all values of the expression.
    pub(crate) fn all(&self, is: &impl Fn(Value) -> bool) -> bool {
        match self {
            Step::Const(_) => true,
            Step::Is(value) => is(*value),
            Step::Sum(of) | Step::Difference(of) | Step::Product(of) => {
                of.iter().all(|step| step.all(is))
            }
            Step::Resized(_, _, of) => of.all(is),
        }
    }

    /// Appends instructions to `block` that compute it as a value of type `ty`.
    pub(crate) fn emit(&self, func: &mut Function, block: Block, ty: Type) -> Value {
        let data = match self {
            Step::Is(value) => return *value,
            Step::Const(number) => InstData::Const {
                ty,
                bits: *number as u64 & ty.mask(),
            },
            Step::Resized(op, from, of) => InstData::Resize {
                op: *op,
                from: *from,
                to: ty,
                arg: of.emit(func, block, *from),
            },
            Step::Sum(of) => binary(IntBinaryOp::Add, of, func, block, ty),
            Step::Difference(of) => binary(IntBinaryOp::Sub, of, func, block, ty),
            Step::Product(of) => binary(IntBinaryOp::Mul, of, func, block, ty),
        };
        let inst = func.make_inst(data, &[ty], SrcLoc::default());
        func.blocks[block].insts.push(inst);
        func.insts[inst].results[0]
    }
}

fn binary(
    op: IntBinaryOp,
    of: &[Step; 2],
    func: &mut Function,
    block: Block,
    ty: Type,
) -> InstData {
    let args = [0, 1].map(|i| of[i].emit(func, block, ty));
    InstData::IntBinary { op, ty, args }
}

/// The steps of one loop's values.
pub(crate) struct Steps<'a> {
    func: &'a Function,
    around: &'a Loop<'a>,
    is_inside: SecondaryMap<Inst, bool>,
}

/// How far values move from one CTA to its neighbor in x.
pub(crate) struct CtaSteps<'a> {
    func: &'a Function,
    /// What edges pass to the parameters of blocks.
    passed: SecondaryMap<Value, SmallVec<[Value; 2]>>,
}

impl<'a> CtaSteps<'a> {
    pub(crate) fn new(func: &'a Function) -> CtaSteps<'a> {
        let mut passed: SecondaryMap<Value, SmallVec<[Value; 2]>> = SecondaryMap::new();
        for call in func.blocks.values().flat_map(|data| data.term.targets()) {
            let params = &func.blocks[call.block].params;
            params
                .iter()
                .zip(&call.args)
                .for_each(|(&param, &arg)| passed[param].push(arg));
        }
        CtaSteps { func, passed }
    }

    /// The step of a value. This is a guess that ignores clamps and wrapping. `None` if the value
    /// depends on memory that kernels write, or on a thread's control flow in another way in each
    /// CTA: so the operands of the step are available wherever the value is.
    pub(crate) fn of(&self, value: Value) -> Option<Step> {
        self.step(value, cost::DEPTH_OF_STEP)
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "others do not move, or have no step"
    )]
    fn step(&self, value: Value, depth: u32) -> Option<Step> {
        let depth = depth.checked_sub(1)?;
        let ValueDef::Result(inst, _) = self.func.values[value].def else {
            return self.is_independent(value).then_some(Step::Const(0));
        };
        let step = |value: Value| self.step(value, depth);
        let data = &self.func.insts[inst].data;
        match *data {
            InstData::Const { .. } => Some(Step::Const(0)),
            InstData::Sreg { sreg } => Some(Step::Const(i64::from(sreg == SpecialReg::CtaidX))),
            InstData::Resize { op, from, arg, .. } => Some(step(arg)?.resized(op, from)),
            InstData::IntBinary { op, ty, args } => match op {
                IntBinaryOp::Smin | IntBinaryOp::Smax | IntBinaryOp::Umin | IntBinaryOp::Umax => {
                    either(step(args[0])?, step(args[1])?)
                }
                IntBinaryOp::Or | IntBinaryOp::Xor => Some(step(args[0])?.plus(step(args[1])?)),
                _ => combined(self.func, op, ty, args, step)
                    .or_else(|| self.is_independent(value).then_some(Step::Const(0))),
            },
            InstData::Select { args: [a, b], .. } => either(step(a)?, step(b)?),
            _ => self.is_independent(value).then_some(Step::Const(0)),
        }
    }

    /// Whether a value is the same in the next CTA.
    fn is_independent(&self, value: Value) -> bool {
        let mut seen: FxHashSet<Value> = FxHashSet::default();
        let mut work = vec![value];
        while let Some(value) = work.pop() {
            if !seen.insert(value) {
                continue;
            }
            if seen.len() > cost::MOST_DEFINITIONS {
                return false;
            }
            let ValueDef::Result(inst, _) = self.func.values[value].def else {
                // Callers pass parameters of functions.
                if self.passed[value].is_empty() {
                    return false;
                }
                work.extend(&self.passed[value]);
                continue;
            };
            let data = &self.func.insts[inst].data;
            let is_same = if let InstData::Sreg { sreg } = *data {
                sreg != SpecialReg::CtaidX && !sreg.is_volatile()
            } else if let InstData::Load { space, .. } = *data {
                matches!(space, Space::Param | Space::Const)
            } else {
                data.effect() == Effect::Pure
            };
            if !is_same {
                return false;
            }
            work.extend(data.args());
        }
        true
    }
}

/// Of two alternative steps of a value, the one that is not zero.
fn either(x: Step, y: Step) -> Option<Step> {
    match (x, y) {
        (x, Step::Const(0)) | (Step::Const(0), x) => Some(x),
        (x, y) => (x == y).then_some(x),
    }
}

/// The step of a sum, a difference or a product.
#[expect(clippy::wildcard_enum_match_arm, reason = "others have no known step")]
fn combined(
    func: &Function,
    op: IntBinaryOp,
    ty: Type,
    args: [Value; 2],
    step: impl Fn(Value) -> Option<Step>,
) -> Option<Step> {
    let [x, y] = [step(args[0])?, step(args[1])?];
    let factor = |value: Value| constant(func, value);
    Some(match op {
        IntBinaryOp::Add => x.plus(y),
        IntBinaryOp::Sub => x.minus(y),
        IntBinaryOp::Shl => {
            let count = func.as_const(args[1]).filter(|&count| count < 32)?;
            x.times(Step::Const(1 << count))
        }
        IntBinaryOp::Mul => product([x, y], args.map(factor))?,
        IntBinaryOp::SmulWide => product(
            [x, y].map(|step| step.resized(ResizeOp::Sext, ty)),
            args.map(|value| factor(value).resized(ResizeOp::Sext, ty)),
        )?,
        IntBinaryOp::UmulWide => product(
            [x, y].map(|step| step.resized(ResizeOp::Uext, ty)),
            args.map(|value| factor(value).resized(ResizeOp::Uext, ty)),
        )?,
        _ => return None,
    })
}

fn constant(func: &Function, value: Value) -> Step {
    match func.as_const(value) {
        Some(bits) => {
            let ty = func.ty(value);
            Step::Const((bits << (64 - ty.bits())) as i64 >> (64 - ty.bits()))
        }
        None => Step::Is(value),
    }
}

impl<'a> Steps<'a> {
    pub(crate) fn new(func: &'a Function, around: &'a Loop<'a>) -> Steps<'a> {
        let mut is_inside = SecondaryMap::new();
        for &block in &around.members {
            for &inst in &func.blocks[block].insts {
                is_inside[inst] = true;
            }
        }
        Steps {
            func,
            around,
            is_inside,
        }
    }

    /// The step of a value; `None` if the analysis cannot show that it moves by the same step in
    /// each iteration.
    pub(crate) fn of(&self, value: Value) -> Option<Step> {
        self.step(value, cost::DEPTH_OF_STEP)
    }

    fn is_inside(&self, value: Value) -> bool {
        match self.func.values[value].def {
            ValueDef::Param(block, _) => self.around.contains(block),
            ValueDef::Result(inst, _) => self.is_inside[inst],
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "others have no known step")]
    fn step(&self, value: Value, depth: u32) -> Option<Step> {
        let depth = depth.checked_sub(1)?;
        if self.func.as_const(value).is_some() || !self.is_inside(value) {
            return Some(Step::Const(0));
        }
        if let ValueDef::Param(block, idx) = self.func.values[value].def {
            return self.of_param(value, block, idx as usize, depth);
        }
        match *self.func.def_inst(value)? {
            InstData::Resize { op, from, arg, .. } => {
                Some(self.step(arg, depth)?.resized(op, from))
            }
            InstData::IntBinary { op, ty, args } => {
                combined(self.func, op, ty, args, |value| self.step(value, depth))
            }
            _ => None,
        }
    }

    fn of_param(&self, param: Value, block: Block, idx: usize, depth: u32) -> Option<Step> {
        let mut step = None;
        for &pred in &self.around.members {
            for call in self.func.blocks[pred].term.targets() {
                if call.block != block {
                    continue;
                }
                let arg = call.args[idx];
                let next = if block == self.around.header {
                    self.distance(param, arg, depth)?
                } else {
                    self.step(arg, depth)?
                };
                if step.as_ref().is_some_and(|step| *step != next) {
                    return None;
                }
                step = Some(next);
            }
        }
        step
    }

    /// `arg - param`, if `arg` is `param` plus a value that does not change in the loop.
    fn distance(&self, param: Value, arg: Value, depth: u32) -> Option<Step> {
        let depth = depth.checked_sub(1)?;
        if arg == param {
            return Some(Step::Const(0));
        }
        if let ValueDef::Param(block, idx) = self.func.values[arg].def {
            // The value may pass through a block with one predecessor in the loop.
            let mut args = self.around.members.iter().flat_map(|&pred| {
                let targets = self.func.blocks[pred].term.targets();
                let calls = targets.into_iter().filter(|call| call.block == block);
                calls
                    .map(|call| call.args[idx as usize])
                    .collect::<Vec<_>>()
            });
            let (first, second) = (args.next()?, args.next());
            return if block != self.around.header && second.is_none() {
                self.distance(param, first, depth)
            } else {
                None
            };
        }
        let &InstData::IntBinary {
            op: op @ (IntBinaryOp::Add | IntBinaryOp::Sub),
            args: [a, b],
            ..
        } = self.func.def_inst(arg)?
        else {
            return None;
        };
        let (rest, change) = if op == IntBinaryOp::Add && self.is_change(a) {
            (b, a)
        } else if self.is_change(b) {
            (a, b)
        } else {
            return None;
        };
        let (rest, change) = (
            self.distance(param, rest, depth)?,
            constant(self.func, change),
        );
        Some(if op == IntBinaryOp::Add {
            rest.plus(change)
        } else {
            rest.minus(change)
        })
    }

    fn is_change(&self, value: Value) -> bool {
        self.func.as_const(value).is_some() || !self.is_inside(value)
    }
}

/// The step of a product, one factor of which does not change.
fn product([x, y]: [Step; 2], [a, b]: [Step; 2]) -> Option<Step> {
    match (x, y) {
        (x, Step::Const(0)) => Some(x.times(b)),
        (Step::Const(0), y) => Some(y.times(a)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
