//! Ranges of counters of loops, and of values that meet at a block.

use ptxjit_ir::{CompareOp, Value};
use smallvec::SmallVec;

use super::{DEPTH, Finder, Form};
use crate::decisions::counters::{Counter, Step, Test};

/// A value that is the same for all threads is found through so few instructions: each can branch.
const DEPTH_OF_SINGLE: u32 = 8;

impl<'a> Finder<'a> {
    /// Whether a counter, or values that meet, have ranges.
    pub(super) fn are_inputs_known(&self, value: Value, nested: u32) -> bool {
        if let Some(&known) = self.known.borrow().get(&value) {
            return known;
        }
        let Some(nested) = nested.checked_sub(1) else {
            return false;
        };
        // Until more is known: a counter must not depend on itself.
        self.known.borrow_mut().insert(value, false);
        let is_known = |input| self.is_known(input, DEPTH, nested);
        let inputs = self.inputs(value);
        let known = inputs.is_some_and(|inputs| inputs.into_iter().all(is_known));
        self.known.borrow_mut().insert(value, known);
        known
    }

    /// The values from which the range of a counter, or of values that meet, is computed.
    pub(super) fn inputs(&self, value: Value) -> Option<SmallVec<[Value; 8]>> {
        if let Some(args) = self.counters.merges.get(&value) {
            return Some(args.iter().copied().collect());
        }
        let counter = self.counters.counters.get(&value)?;
        let test = self.counters.tests.get(&counter.header)?;
        let tested = self.counters.counters.get(&test.counter)?;
        if !self.is_bounding(tested, test) {
            return None;
        }
        let mut inputs: SmallVec<[Value; 8]> = SmallVec::new();
        for counter in [counter, tested] {
            inputs.extend(counter.inits.iter().copied());
            inputs.extend(counter.step.values());
        }
        inputs.push(test.bound);
        Some(inputs)
    }

    /// Whether a test bounds the iterations: the counter moves towards the bound.
    fn is_bounding(&self, tested: &Counter, test: &Test) -> bool {
        let is_constant = tested.step.values().next().is_none();
        let step = tested.step.constant;
        match test.op {
            CompareOp::Slt | CompareOp::Sle | CompareOp::Ult | CompareOp::Ule => {
                is_constant && step > 0 || self.is_one_value(&tested.step)
            }
            CompareOp::Sgt | CompareOp::Sge | CompareOp::Ugt | CompareOp::Uge => {
                is_constant && step < 0
            }
            // The bound must be met.
            CompareOp::Ne => {
                let mut ends = tested.inits.iter().chain([&test.bound]);
                let are_single =
                    tested.inits.len() == 1 && ends.all(|&end| self.is_single_value(end));
                is_constant && (step.abs() == 1 || step != 0 && are_single)
            }
            CompareOp::Eq => false,
        }
    }

    /// Whether what is added is the same for all threads: a value that is found to be positive.
    fn is_one_value(&self, step: &Step) -> bool {
        step.constant == 0
            && step.subtracted.is_empty()
            && matches!(step.added[..], [value] if self.is_single_value(value))
    }

    /// Whether a value is the same for all threads, and known.
    pub(crate) fn is_single_value(&self, value: Value) -> bool {
        self.is_single(value, DEPTH_OF_SINGLE)
    }

    fn is_single(&self, value: Value, depth: u32) -> bool {
        let Some(depth) = depth.checked_sub(1) else {
            return false;
        };
        match self.form(value) {
            Some(
                Form::CtaidX
                | Form::Lane(_)
                | Form::Thread(_)
                | Form::OneOf(_)
                | Form::Bits(_)
                | Form::MaskedBy(_)
                | Form::Remainder(_)
                | Form::Counter
                | Form::Merge,
            )
            | None => false,
            Some(Form::Masked(arg, _)) => self.is_single(arg, depth),
            Some(
                form @ (Form::Uniform
                | Form::Register(_)
                | Form::Sum(_)
                | Form::Difference(_)
                | Form::Product(_)
                | Form::Negated(_)
                | Form::Shifted(..)
                | Form::ShiftedRight(..)
                | Form::Quotient(..)
                | Form::SignExtended(_)
                | Form::ZeroExtended(_)
                | Form::Least(_)
                | Form::Greatest(_)),
            ) => {
                let mut operands = self.operands(value, form).into_iter();
                operands.all(|operand| self.is_single(operand, depth))
            }
        }
    }

    /// The counter that a value is, and the test of its loop.
    pub(crate) fn counter(&self, value: Value) -> Option<(&'a Counter, Test)> {
        let counter = self.counters.counters.get(&value)?;
        Some((counter, *self.counters.tests.get(&counter.header)?))
    }

    /// What edges pass to a parameter of a block.
    pub(crate) fn merged(&self, value: Value) -> &'a [Value] {
        &self.counters.merges[&value]
    }
}
