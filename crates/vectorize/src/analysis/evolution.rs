//! Scalar evolution: how far a value moves in one iteration of a loop, or from one CTA to the next.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, Effect, Function, Inst, InstData, InstNode, IntBinaryOp, ResizeOp, Space, SpecialReg,
    SrcLoc, Type, Value, ValueDef,
};

use rustc_hash::{FxHashMap, FxHashSet};
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
        let positions = order.loop_range(header)?;
        let is_inner = |node: &Node| matches!(*node, Node::LoopEnd(other) if other != header);
        Some(Loop {
            order,
            header,
            members: order.blocks_in(positions.clone()).collect(),
            has_inner: order.nodes[positions.clone()].iter().any(is_inner),
            positions,
        })
    }

    /// The instructions of its blocks.
    pub(crate) fn insts<'f>(&self, func: &'f Function) -> impl Iterator<Item = &'f InstNode> {
        let members = self.members.iter();
        members.flat_map(|&block| func.insts_in(block))
    }

    pub(crate) fn contains(&self, block: Block) -> bool {
        self.order.is_in(&self.positions, block)
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

    /// How many numbers and values the expression has.
    fn n_terms(&self) -> usize {
        match self {
            Step::Const(_) | Step::Is(_) => 1,
            Step::Sum(of) | Step::Difference(of) | Step::Product(of) => {
                of.iter().map(Step::n_terms).sum()
            }
            Step::Resized(_, _, of) => of.n_terms(),
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
            Step::Sum(of) | Step::Difference(of) | Step::Product(of) => {
                let args = [0, 1].map(|i| of[i].emit(func, block, ty));
                InstData::binary(self.op(), ty, args)
            }
        };
        func.append(block, data, ty, SrcLoc::default())
    }

    /// The operation that combines two steps.
    fn op(&self) -> IntBinaryOp {
        match self {
            Step::Sum(_) => IntBinaryOp::Add,
            Step::Difference(_) => IntBinaryOp::Sub,
            Step::Product(_) => IntBinaryOp::Mul,
            Step::Const(_) | Step::Is(_) | Step::Resized(..) => unreachable!("of one value"),
        }
    }
}

/// Steps that were found, by how deep definitions are followed: where a value is both operands of
/// another one, and that one both of the next, each would be asked for many times.
#[derive(Default)]
struct Known(RefCell<FxHashMap<(Value, u32), Option<Step>>>);

impl Known {
    /// A step that is known, or is found with one definition less to follow. Long ones are not
    /// taken.
    fn or_find(
        &self,
        value: Value,
        depth: u32,
        find: impl FnOnce(u32) -> Option<Step>,
    ) -> Option<Step> {
        let depth = depth.checked_sub(1)?;
        if let Some(step) = self.0.borrow().get(&(value, depth)) {
            return step.clone();
        }
        let step = find(depth).filter(|step| step.n_terms() <= cost::MOST_TERMS_OF_STEP);
        self.0.borrow_mut().insert((value, depth), step.clone());
        step
    }
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
        for (param, arg) in func.passed() {
            passed[param].push(arg);
        }
        CtaSteps { func, passed }
    }

    /// The step of a value. This is a guess that ignores clamps and wrapping. `None` if the value
    /// depends on memory that kernels write, or on a thread's control flow in another way in each
    /// CTA: so the operands of the step are available wherever the value is.
    pub(crate) fn of(&self, value: Value) -> Option<Step> {
        self.step(value, cost::DEPTH_OF_STEP, &Known::default())
    }

    fn step(&self, value: Value, depth: u32, known: &Known) -> Option<Step> {
        known.or_find(value, depth, |depth| self.find_step(value, depth, known))
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "others do not move, or have no step"
    )]
    fn find_step(&self, value: Value, depth: u32, known: &Known) -> Option<Step> {
        let unmoved = || self.is_independent(value).then_some(Step::Const(0));
        let step = |value: Value| self.step(value, depth, known);
        let Some(data) = self.func.def_inst(value) else {
            return unmoved();
        };
        match *data {
            InstData::Const { .. } => Some(Step::Const(0)),
            InstData::Sreg { sreg } => Some(Step::Const(i64::from(sreg == SpecialReg::CtaidX))),
            InstData::Resize { op, from, arg, .. } => Some(step(arg)?.resized(op, from)),
            InstData::IntBinary { op, ty, args } => match op {
                IntBinaryOp::Smin | IntBinaryOp::Smax | IntBinaryOp::Umin | IntBinaryOp::Umax => {
                    either(step(args[0])?, step(args[1])?)
                }
                IntBinaryOp::Or | IntBinaryOp::Xor => Some(step(args[0])?.plus(step(args[1])?)),
                _ => combined(self.func, op, ty, args, step).or_else(unmoved),
            },
            InstData::Select { args: [a, b], .. } => either(step(a)?, step(b)?),
            _ => unmoved(),
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
            let (is_same, operands) = match self.func.def_inst(value) {
                Some(data) => (is_same_in_next_cta(data), data.args().to_vec()),
                // Callers pass parameters of functions.
                None => (!self.passed[value].is_empty(), self.passed[value].to_vec()),
            };
            if !is_same {
                return false;
            }
            work.extend(operands);
        }
        true
    }
}

/// Whether an instruction has the same results in the next CTA if it has the same operands.
fn is_same_in_next_cta(data: &InstData) -> bool {
    if let InstData::Sreg { sreg } = *data {
        sreg != SpecialReg::CtaidX && !sreg.is_volatile()
    } else if let InstData::Load { space, .. } = *data {
        matches!(space, Space::Param | Space::Const)
    } else {
        data.effect() == Effect::Pure
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
        IntBinaryOp::SmulWide | IntBinaryOp::UmulWide => {
            let extend = match op == IntBinaryOp::SmulWide {
                true => ResizeOp::Sext,
                false => ResizeOp::Uext,
            };
            let wide = |step: Step| step.resized(extend, ty);
            product([x, y].map(wide), args.map(factor).map(wide))?
        }
        _ => return None,
    })
}

fn constant(func: &Function, value: Value) -> Step {
    let number = func.as_signed(value);
    number.map_or(Step::Is(value), Step::Const)
}

impl<'a> Steps<'a> {
    pub(crate) fn new(func: &'a Function, around: &'a Loop<'a>) -> Steps<'a> {
        let mut is_inside = SecondaryMap::new();
        let blocks = around.members.iter();
        let insts = blocks.flat_map(|&block| &func.blocks[block].insts);
        insts.for_each(|&inst| is_inside[inst] = true);
        Steps {
            func,
            around,
            is_inside,
        }
    }

    /// The step of a value; `None` if the analysis cannot show that it moves by the same step in
    /// each iteration.
    pub(crate) fn of(&self, value: Value) -> Option<Step> {
        self.step(value, cost::DEPTH_OF_STEP, &Known::default())
    }

    fn step(&self, value: Value, depth: u32, known: &Known) -> Option<Step> {
        known.or_find(value, depth, |depth| self.find_step(value, depth, known))
    }

    fn is_inside(&self, value: Value) -> bool {
        match self.func.values[value].def {
            ValueDef::Param(block, _) => self.around.contains(block),
            ValueDef::Result(inst, _) => self.is_inside[inst],
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "others have no known step")]
    fn find_step(&self, value: Value, depth: u32, known: &Known) -> Option<Step> {
        if self.func.as_const(value).is_some() || !self.is_inside(value) {
            return Some(Step::Const(0));
        }
        if let ValueDef::Param(block, idx) = self.func.values[value].def {
            return self.of_param(value, (block, idx), depth, known);
        }
        let step = |value: Value| self.step(value, depth, known);
        match *self.func.def_inst(value)? {
            InstData::Resize { op, from, arg, .. } => Some(step(arg)?.resized(op, from)),
            InstData::IntBinary { op, ty, args } => combined(self.func, op, ty, args, step),
            _ => None,
        }
    }

    /// What blocks of the loop pass for a parameter.
    fn passed(&self, (block, idx): (Block, u32)) -> impl Iterator<Item = Value> {
        let preds = self.around.members.iter();
        preds.flat_map(move |&pred| {
            let targets = self.func.blocks[pred].term.targets().into_iter();
            let calls = targets.filter(move |call| call.block == block);
            calls.map(move |call| call.args[idx as usize])
        })
    }

    fn of_param(
        &self,
        param: Value,
        place: (Block, u32),
        depth: u32,
        known: &Known,
    ) -> Option<Step> {
        let mut steps = self.passed(place).map(|arg| {
            if place.0 == self.around.header {
                self.distance(param, arg, depth)
            } else {
                self.step(arg, depth, known)
            }
        });
        let first = steps.next()??;
        steps
            .all(|next| next.as_ref() == Some(&first))
            .then_some(first)
    }

    /// `arg - param`, if `arg` is `param` plus a value that does not change in the loop.
    fn distance(&self, param: Value, arg: Value, depth: u32) -> Option<Step> {
        let depth = depth.checked_sub(1)?;
        if arg == param {
            return Some(Step::Const(0));
        }
        if let ValueDef::Param(block, idx) = self.func.values[arg].def {
            // The value may pass through a block with one predecessor in the loop.
            let mut args = self.passed((block, idx));
            let (first, second) = (args.next()?, args.next());
            let passes = block != self.around.header && second.is_none();
            return passes.then(|| self.distance(param, first, depth))?;
        }
        let rest = |rest: Value| self.distance(param, rest, depth);
        let change = |change: Value| constant(self.func, change);
        match self.func.as_binary(arg)? {
            (IntBinaryOp::Add, _, [a, b]) if self.is_change(a) => Some(rest(b)?.plus(change(a))),
            (IntBinaryOp::Add, _, [a, b]) if self.is_change(b) => Some(rest(a)?.plus(change(b))),
            (IntBinaryOp::Sub, _, [a, b]) if self.is_change(b) => Some(rest(a)?.minus(change(b))),
            _ => None,
        }
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
