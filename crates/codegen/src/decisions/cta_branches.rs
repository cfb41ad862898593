//! Branches that all threads of most CTAs take in one direction, which is found once per CTA.
//!
//! Kernels start with `if (x >= width || y >= height) return`, and the vectorizer adds guards of
//! indices that must not wrap. What such a condition compares has a range over the CTA
//! (`cta_ranges`). Where the ranges decide the condition, gangs take the branch without evaluating
//! it (`lower/access/cta_branches.rs`): in a large grid only CTAs at its borders have to.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, CompareOp, Function, Inst, InstData, IntBinaryOp, IntUnaryOp, Terminator, Type, Value,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::cta_ranges::{Finder, Form};
use super::nodes::NodeForm;
use super::{Decisions, is_pure};

/// Conditions are followed this deep through logic.
const DEPTH: u32 = 8;

/// Bounds on code size, and on what each CTA computes ahead of its gangs.
const MOST: usize = 12;
const MOST_COMPARES: usize = 48;

/// A uniform condition that takes fewer instructions than this in each gang is as cheap as the
/// result of the test.
const FEWEST_LATE: usize = 3;

/// What decides a condition.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Condition {
    /// The same for all threads of a CTA.
    Uniform,
    /// Lanes are in order, as they are where ranges hold the values: always true.
    InOrder([Value; 2]),
    Compare(CompareOp, [Value; 2]),
    And([Value; 2]),
    Or([Value; 2]),
    Not(Value),
}

/// A branch that is decided for the whole CTA, if the ranges tell.
#[derive(Copy, Clone, Debug)]
pub(crate) struct CtaBranch {
    pub block: Block,
    pub cond: Value,
    /// The value of the condition that is tested for.
    pub expected: bool,
}

/// The branches that are decided once per CTA.
#[derive(Default)]
pub(crate) struct CtaBranches {
    pub branches: Vec<CtaBranch>,
    /// Instructions that only these branches use: they are emitted where a branch is not decided.
    pub late: FxHashMap<Block, Vec<Inst>>,
}

impl CtaBranches {
    /// Whether an instruction is emitted just before its block's branch.
    pub(crate) fn is_late(&self, block: Block, inst: Inst) -> bool {
        self.late
            .get(&block)
            .is_some_and(|late| late.contains(&inst))
    }
}

impl Finder<'_> {
    /// How a condition is decided: `None` if ranges cannot.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others have no ranges")]
    pub(crate) fn condition(&self, value: Value) -> Option<Condition> {
        if self.form(value) == Some(Form::Uniform) {
            return Some(Condition::Uniform);
        }
        match *self.func.def_inst(value)? {
            InstData::Compare {
                op: CompareOp::Sle,
                ty: Type::B32,
                args: [first, last],
            } if self.are_ends(first, last) => Some(Condition::InOrder([first, last])),
            InstData::Compare { op, ty, args } if ty == Type::B32 || ty == Type::B64 => {
                Some(Condition::Compare(op, args))
            }
            InstData::IntBinary { op, ty, args } => match (op, ty) {
                (IntBinaryOp::And, Type::B1) => Some(Condition::And(args)),
                (IntBinaryOp::Or, Type::B1) => Some(Condition::Or(args)),
                _ => None,
            },
            InstData::IntUnary {
                op: IntUnaryOp::Not,
                ty: Type::B1,
                arg,
            } => Some(Condition::Not(arg)),
            _ => None,
        }
    }

    /// Whether these are the values of the first and the last lane, perhaps with one constant added
    /// to both, and the first has the least.
    fn are_ends(&self, first: Value, last: Value) -> bool {
        let end = |value| self.func.def_inst(value)?.as_end_lane();
        if let (Some((a, false)), Some((b, true))) = (end(first), end(last)) {
            return a == b && self.is_rising(a) && self.has_range(a);
        }
        let sum = |value| match self.func.as_binary(value)? {
            (IntBinaryOp::Add, Type::B32, [x, added]) => Some((x, self.func.as_const(added)?)),
            _ => None,
        };
        match (sum(first), sum(last)) {
            (Some((a, x)), Some((b, y))) => x == y && self.are_ends(a, b),
            _ => false,
        }
    }

    /// Gathers the comparisons of a condition; `None` if ranges cannot decide it.
    fn compares(&self, cond: Value, depth: u32, found: &mut Vec<[Value; 2]>) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match self.condition(cond)? {
            Condition::Uniform | Condition::InOrder(_) => Some(()),
            Condition::Not(arg) => self.compares(arg, depth, found),
            Condition::And(args) | Condition::Or(args) => {
                let mut args = args.into_iter();
                args.try_for_each(|arg| self.compares(arg, depth, found))
            }
            Condition::Compare(_, args) => {
                found.push(args);
                let is_known = |&arg: &Value| self.has_range(arg) && self.is_exact(arg);
                args.iter().all(is_known).then_some(())
            }
        }
    }

    /// Whether a range holds the values themselves: sums of 64 bits may wrap.
    fn is_exact(&self, value: Value) -> bool {
        let form = self.form(value);
        self.func.ty(value) == Type::B32
            || matches!(
                form,
                Some(Form::Uniform | Form::SignExtended(_) | Form::ZeroExtended(_))
            )
    }

    /// Whether some operand differs from CTA to CTA or from launch to launch. Thread numbers and
    /// constants alone compare alike in all CTAs, mostly as not decided.
    fn depends_on_cta(&self, value: Value) -> bool {
        self.any_operand(value, &|value, form| {
            matches!(form, Form::Register(_) | Form::CtaidX)
                || form == Form::Uniform && self.func.as_const(value).is_none()
        })
    }
}

impl Decisions<'_> {
    /// Chooses the branches.
    pub(super) fn cta_branches(&self, finder: &Finder<'_>) -> CtaBranches {
        let mut found = CtaBranches::default();
        let mut n_compares = 0;
        let mut n_uses: Option<SecondaryMap<Value, u32>> = None;
        for (pos, block) in self.plan.order.places() {
            let Some(cond) = self.func.blocks[block].term.condition() else {
                continue;
            };
            let is_of_gang = matches!(self.forms[pos], NodeForm::Twice | NodeForm::Once);
            let mut compares: Vec<[Value; 2]> = Vec::new();
            let is_apart = |arg: &Value| finder.depends_on_cta(*arg);
            if !is_of_gang
                || found.branches.len() == MOST
                || finder.compares(cond, DEPTH, &mut compares).is_none()
                || n_compares + compares.len() > MOST_COMPARES
                || !compares.iter().flatten().any(is_apart)
            {
                continue;
            }
            let n_uses = n_uses.get_or_insert_with(|| count_uses(self.func));
            let late = self.only_for_branch(block, n_uses);
            if !self.plan.is_varying(cond) && late.len() < FEWEST_LATE {
                continue;
            }
            n_compares += compares.len();
            let expected = self.expected(finder, block, cond);
            found.branches.push(CtaBranch {
                block,
                cond,
                expected,
            });
            found.late.insert(block, late);
        }
        found
    }

    /// The direction that CTAs away from the borders of a grid probably take: not to the end, and
    /// else as a chain of comparisons has it.
    fn expected(&self, finder: &Finder<'_>, block: Block, cond: Value) -> bool {
        let ends = |block: Block| {
            let data = &self.func.blocks[block];
            data.insts.is_empty() && matches!(data.term, Terminator::Ret(_) | Terminator::Exit)
        };
        let ends: SmallVec<[bool; 2]> = self.func.successors(block).map(ends).collect();
        match ends[..] {
            [true, false] => false,
            [false, true] => true,
            _ => match finder.condition(cond) {
                Some(Condition::Or(_) | Condition::Not(_))
                | Some(Condition::Compare(CompareOp::Eq, _)) => false,
                Some(
                    Condition::And(_)
                    | Condition::Compare(..)
                    | Condition::Uniform
                    | Condition::InOrder(_),
                )
                | None => true,
            },
        }
    }

    /// The pure instructions of a block of which only its branch needs the results.
    fn only_for_branch(&self, block: Block, n_uses: &SecondaryMap<Value, u32>) -> Vec<Inst> {
        let mut used_late: SecondaryMap<Value, u32> = SecondaryMap::new();
        let cond = self.func.blocks[block].term.condition();
        used_late[cond.expect("called for branches")] = 1;
        let mut late: Vec<Inst> = Vec::new();
        for &inst in self.insts_after_wait(block).iter().rev() {
            let node = &self.func.insts[inst];
            let [result] = node.results[..] else {
                continue;
            };
            let is_late = used_late[result] > 0
                && used_late[result] == n_uses[result]
                && is_pure(&node.data)
                && !self.plan.escapes[result];
            // What is rematerialized is emitted at its use.
            let is_at_use = self.invariants.rematerialized[result].is_some();
            if !is_late || self.is_done(inst) && !is_at_use {
                continue;
            }
            if !is_at_use {
                late.push(inst);
            }
            for arg in node.data.args() {
                used_late[arg] += 1;
            }
        }
        late.reverse();
        late
    }
}

pub(super) fn count_uses(func: &Function) -> SecondaryMap<Value, u32> {
    let mut uses: SecondaryMap<Value, u32> = SecondaryMap::new();
    for block in func.blocks.keys() {
        func.for_each_arg(block, |arg| uses[arg] += 1);
    }
    uses
}
