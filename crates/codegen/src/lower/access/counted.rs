//! Ranges of the counters of loops over all iterations.
//!
//! Each iteration but the last passes the loop's test, so that the tested counter does not leave
//! its bound by more than a step. How often the loop repeats follows from that, and bounds the
//! other counters.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{CompareOp, Type, Value};

use super::proven::{Proof, Range};
use crate::decisions::counters::{Step, Test};
use crate::lower::Lower;

/// The counter that a loop tests, as a range at the loop's entry, and what bounds it.
struct Tested {
    test: Test,
    init: Range,
    step: Range,
    bound: Range,
}

impl Lower<'_, '_> {
    /// The range of a counter. The caller requires it to fit, by which the counter does not wrap.
    pub(super) fn counter_range(&mut self, value: Value, proof: &mut Proof<'_>) -> Range {
        let (counter, test) = proof.finder.counter(value).expect("a counter");
        let tested = self.tested_counter(test, proof);
        if test.counter == value {
            return self.tested_range(&tested, proof);
        }
        // So that the tested counter does not wrap, either.
        self.range(test.counter, proof);
        let repeats = match proof.repeats.get(&counter.header) {
            Some(&repeats) => repeats,
            None => {
                let repeats = self.repeats(&tested, proof);
                proof.repeats.insert(counter.header, repeats);
                repeats
            }
        };
        let init = self.union(&counter.inits, proof);
        let step = self.step_range(&counter.step, proof);
        let zero = self.b.ins().iconst(types::I64, 0);
        let [low, high] = self.product([zero, repeats], step);
        self.require(Type::B64, [low, high], proof);
        self.sum_of([init, [low, high]])
    }

    fn tested_counter(&mut self, test: Test, proof: &mut Proof<'_>) -> Tested {
        let (counter, _) = proof
            .finder
            .counter(test.counter)
            .expect("tests are of counters");
        let init = self.union(&counter.inits, proof);
        let init = match test.not_initially {
            Some(number) => self.without(init, number),
            None => init,
        };
        let step = self.step_range(&counter.step, proof);
        let bound = self.range(test.bound, proof);
        if test.ty == Type::B64 {
            self.require(Type::B64, init, proof);
            self.require(Type::B64, bound, proof);
        }
        Tested {
            test,
            init,
            step,
            bound,
        }
    }

    /// A range without a number, if that is one of its ends.
    fn without(&mut self, [low, high]: Range, number: i64) -> Range {
        let number = self.b.ins().iconst(types::I64, number);
        let [is_low, is_high] = [low, high].map(|end| {
            let is_end = self.b.ins().icmp(IntCC::Equal, end, number);
            self.b.ins().uextend(types::I64, is_end)
        });
        let low = self.b.ins().iadd(low, is_low);
        [low, self.b.ins().isub(high, is_high)]
    }

    /// What an iteration adds: it has less than 32 bits, so that a product with a number of
    /// iterations fits.
    fn step_range(&mut self, step: &Step, proof: &mut Proof<'_>) -> Range {
        let constant = self.b.ins().iconst(types::I64, step.constant);
        let mut sum = [constant; 2];
        for &value in &step.added {
            let range = self.narrow_range(value, proof);
            sum = self.sum_of([sum, range]);
        }
        for &value in &step.subtracted {
            let [low, high] = self.narrow_range(value, proof);
            let negated = [high, low].map(|x| self.b.ins().ineg(x));
            sum = self.sum_of([sum, negated]);
        }
        if step.values().next().is_some() {
            self.require(Type::B32, sum, proof);
        }
        sum
    }

    /// The range of a value that is required to fit into 32 bits.
    fn narrow_range(&mut self, value: Value, proof: &mut Proof<'_>) -> Range {
        let range = self.range(value, proof);
        self.require(Type::B32, range, proof);
        range
    }

    fn sum_of(&mut self, [x, y]: [Range; 2]) -> Range {
        [0, 1].map(|end| self.b.ins().iadd(x[end], y[end]))
    }

    /// The range of the tested counter: it starts at its first value and moves to the bound.
    fn tested_range(&mut self, tested: &Tested, proof: &mut Proof<'_>) -> Range {
        let Tested {
            test, init, step, ..
        } = *tested;
        let rises = self.rises(tested, proof);
        let past = self.last_passing(tested);
        let end = match test.op == CompareOp::Ne {
            true => past,
            false => self.b.ins().iadd(past, step[usize::from(rises)]),
        };
        let range = match rises {
            true => [init[0], self.b.ins().smax(init[1], end)],
            false => [self.b.ins().smin(init[0], end), init[1]],
        };
        let ty = self.func.ty(test.counter);
        let compared = range.map(|x| self.b.plus(x, test.offset));
        self.require(ty, compared, proof);
        if crate::decisions::predicates::is_unsigned(test.op) {
            self.require_positive(compared[0], proof);
            self.require_positive(tested.bound[0], proof);
        }
        if test.op == CompareOp::Ne {
            self.require_bound_is_met(tested, rises, proof);
        }
        range
    }

    /// Whether the tested counter grows. A step that is no constant is required to be positive.
    fn rises(&mut self, tested: &Tested, proof: &mut Proof<'_>) -> bool {
        let [low, high] = tested.step;
        if let (Some(step), true) = (self.constant_of(low), low == high) {
            return step > 0;
        }
        let less = self.b.ins().iadd_imm_s(low, -1);
        self.require_positive(less, proof);
        true
    }

    /// The number that a value was made of.
    fn constant_of(&self, value: cl::Value) -> Option<i64> {
        let cl::ValueDef::Result(inst, _) = self.b.func.dfg.value_def(value) else {
            return None;
        };
        let cl::InstructionData::UnaryImm { imm, .. } = self.b.func.dfg.insts[inst] else {
            return None;
        };
        Some(imm.bits())
    }

    /// The counter's last value, or none behind it, that passes the test; for a test by `ne`, its
    /// first value that does not.
    fn last_passing(&mut self, tested: &Tested) -> cl::Value {
        let [low, high] = tested.bound;
        let offset = tested.test.offset;
        let (bound, inside) = match tested.test.op {
            CompareOp::Slt | CompareOp::Ult => (high, -1),
            CompareOp::Sle | CompareOp::Ule => (high, 0),
            CompareOp::Sgt | CompareOp::Ugt => (low, 1),
            CompareOp::Sge | CompareOp::Uge => (low, 0),
            CompareOp::Ne | CompareOp::Eq => match self.constant_of(tested.step[0]) {
                Some(step) if step < 0 => (low, 0),
                _ => (high, 0),
            },
        };
        self.b.plus(bound, inside - offset)
    }

    /// How often the body runs again, at most.
    fn repeats(&mut self, tested: &Tested, proof: &mut Proof<'_>) -> cl::Value {
        let Tested {
            test, init, step, ..
        } = *tested;
        let rises = self.rises(tested, proof);
        let past = self.last_passing(tested);
        let distance = match rises {
            true => self.b.ins().isub(past, init[0]),
            false => self.b.ins().isub(init[1], past),
        };
        let (distance, step) = match (test.op, self.constant_of(step[0])) {
            (CompareOp::Ne, Some(step)) => (distance, step.abs()),
            (_, Some(step)) => (self.b.plus(distance, step.abs()), step.abs()),
            (_, None) => return self.steps_in(distance, step),
        };
        let zero = self.b.ins().iconst(types::I64, 0);
        let distance = self.b.ins().smax(distance, zero);
        if step.count_ones() == 1 {
            let shift = i64::from(step.trailing_zeros());
            return self.b.ins().ushr_imm_s(distance, shift);
        }
        let step = self.b.ins().iconst(types::I64, step);
        self.b.ins().udiv(distance, step)
    }

    /// How many steps, each of a range of lengths, a distance takes at most, and one more.
    fn steps_in(&mut self, distance: cl::Value, step: Range) -> cl::Value {
        let zero = self.b.ins().iconst(types::I64, 0);
        let one = self.b.ins().iconst(types::I64, 1);
        let distance = self.b.ins().iadd(distance, step[1]);
        let distance = self.b.ins().smax(distance, zero);
        let step = self.b.ins().smax(step[0], one);
        self.b.ins().udiv(distance, step)
    }

    /// Requires that the counter reaches its bound, in whole steps.
    fn require_bound_is_met(&mut self, tested: &Tested, rises: bool, proof: &mut Proof<'_>) {
        let Tested {
            test,
            init,
            step,
            bound,
        } = *tested;
        let distance = match rises {
            true => self.b.ins().isub(bound[0], init[1]),
            false => self.b.ins().isub(init[0], bound[1]),
        };
        let offset = if rises { -test.offset } else { test.offset };
        let distance = self.b.plus(distance, offset);
        self.require_positive(distance, proof);
        let step = self.constant_of(step[0]).expect("chosen with a constant");
        if step.abs() == 1 {
            return;
        }
        let step = self.b.ins().iconst(types::I64, step.abs());
        let zero = self.b.ins().iconst(types::I64, 0);
        let distance = self.b.ins().smax(distance, zero);
        let rest = self.b.ins().urem(distance, step);
        let is_odd = self.b.ins().icmp(IntCC::NotEqual, rest, zero);
        let is_odd = self.b.ins().uextend(types::I64, is_odd);
        self.gather(&mut proof.inexact, is_odd);
    }
}
