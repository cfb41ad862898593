//! Branches that are decided once per CTA, as `decisions/cta_branches.rs` chooses them.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{CompareOp, Value};

use super::proven::{Proof, Range};
use crate::decisions::cta_branches::Condition;
use crate::decisions::cta_ranges::{Finder, Scope};
use crate::decisions::predicates;
use crate::lower::{Available, Lower};

/// CTAs of fewer gangs are not asked: to evaluate the conditions takes less time.
const FEWEST_GANGS: i64 = 2;

impl Lower<'_, '_> {
    /// Emits the tests whether all threads of the CTA take the branches as expected: a bit for
    /// each, from bit 1 on. Ranges tell only if they hold the values.
    pub(super) fn emit_cta_branches(
        &mut self,
        n_gangs: cl::Value,
        is_exact: cl::Value,
    ) -> Option<cl::Value> {
        let branches = self.decided.cta_branches.branches.clone();
        if branches.is_empty() {
            return None;
        }
        let [ask, join] = self.b.create_blocks();
        let pays = IntCC::UnsignedGreaterThanOrEqual;
        let pays = self.b.ins().icmp_imm_s(pays, n_gangs, FEWEST_GANGS);
        let asks = self.b.ins().band(pays, is_exact);
        let none = self.b.ins().iconst(types::I32, 0);
        self.b.ins().brif(asks, ask, &[], join, &[none.into()]);

        self.b.switch_to_block(ask);
        let (multiples, counters) = (
            self.decided.multiples.clone(),
            self.decided.counters.clone(),
        );
        let (program, known) = ((self.func, self.plan), (&multiples, &*counters));
        let finder = Finder::new(program, Scope::Cta, &self.decided.invariants, known);
        let mut proof = Proof::new(&finder, None);
        let mut bits = none;
        for (number, branch) in (1..).zip(&branches) {
            let taken = self.certainly(branch.cond, branch.expected, &mut proof);
            let taken = self.b.ins().uextend(types::I32, taken);
            let taken = self.b.ins().ishl_imm_s(taken, number);
            bits = self.b.ins().bor(bits, taken);
        }
        self.b.ins().jump(join, &[bits.into()]);

        self.b.switch_to_block(join);
        self.available = Available::default();
        Some(self.b.append_block_param(join, types::I32))
    }

    /// Requires of what a condition compares that ranges hold the values.
    pub(super) fn ranges_of_condition(&mut self, cond: Value, proof: &mut Proof<'_>) {
        let args = match proof
            .finder
            .condition(cond)
            .expect("chosen with its conditions")
        {
            Condition::Uniform => return,
            Condition::Not(arg) => return self.ranges_of_condition(arg, proof),
            Condition::And(args) | Condition::Or(args) => {
                return args
                    .iter()
                    .for_each(|&arg| self.ranges_of_condition(arg, proof));
            }
            Condition::InOrder(args) | Condition::Compare(_, args) => args,
        };
        for arg in args {
            self.range(arg, proof);
        }
    }

    /// Whether a condition certainly has a value in all threads.
    fn certainly(&mut self, cond: Value, value: bool, proof: &mut Proof<'_>) -> cl::Value {
        match proof
            .finder
            .condition(cond)
            .expect("chosen with its conditions")
        {
            Condition::Uniform => {
                let x = self.scalar(cond);
                if value {
                    x
                } else {
                    self.b.ins().bxor_imm_s(x, 1)
                }
            }
            Condition::InOrder(_) => self.b.ins().iconst(types::I8, i64::from(value)),
            Condition::Not(arg) => self.certainly(arg, !value, proof),
            condition @ (Condition::And(args) | Condition::Or(args)) => {
                let [a, b] = args.map(|arg| self.certainly(arg, value, proof));
                // All of a conjunction's terms must be true, one of them false.
                if matches!(condition, Condition::And(_)) == value {
                    self.b.ins().band(a, b)
                } else {
                    self.b.ins().bor(a, b)
                }
            }
            Condition::Compare(op, args) => {
                let ranges = args.map(|arg| self.range(arg, proof));
                let op = if value { op } else { op.inverse() };
                self.certainly_compares(op, ranges)
            }
        }
    }

    /// Whether a comparison is certainly true of values in these ranges, which are signed. So
    /// unsigned ones are only decided of values that are not negative.
    fn certainly_compares(&mut self, op: CompareOp, [a, b]: [Range; 2]) -> cl::Value {
        let less = |lower: &mut Self, cc, [x, y]: [Range; 2]| lower.b.ins().icmp(cc, x[1], y[0]);
        let (lt, le) = (IntCC::SignedLessThan, IntCC::SignedLessThanOrEqual);
        let holds = match op {
            CompareOp::Slt | CompareOp::Ult => less(self, lt, [a, b]),
            CompareOp::Sle | CompareOp::Ule => less(self, le, [a, b]),
            CompareOp::Sgt | CompareOp::Ugt => less(self, lt, [b, a]),
            CompareOp::Sge | CompareOp::Uge => less(self, le, [b, a]),
            CompareOp::Eq => {
                let [up, down] = [[a, b], [b, a]].map(|both| less(self, le, both));
                self.b.ins().band(up, down)
            }
            CompareOp::Ne => {
                let [below, above] = [[a, b], [b, a]].map(|both| less(self, lt, both));
                self.b.ins().bor(below, above)
            }
        };
        if !predicates::is_unsigned(op) {
            return holds;
        }
        let signs = self.b.ins().bor(a[0], b[0]);
        let cc = IntCC::SignedGreaterThanOrEqual;
        let no_sign = self.b.ins().icmp_imm_s(cc, signs, 0);
        self.b.ins().band(holds, no_sign)
    }
}
