//! Values as sums of multiples of other values and a constant, for guesses: wrapping is ignored.

use ptxjit_ir::{Function, InstData, IntBinaryOp, Value};

use crate::cost;

/// A sum of multiples of values, and a constant.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sum {
    /// Values with their factors, in the order of the values, none twice.
    pub(crate) terms: Vec<(Value, i64)>,
    pub(crate) constant: i64,
}

impl Sum {
    pub(crate) fn of(func: &Function, value: Value) -> Sum {
        let mut sum = Sum::default();
        sum.add(func, value, 1, cost::DEPTH_OF_SUM);
        sum.terms.sort_unstable_by_key(|&(value, _)| value);
        sum.terms.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 = kept.1.wrapping_add(next.1);
            }
            is_same
        });
        sum.terms.retain(|&(_, factor)| factor != 0);
        sum
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "what others compute is a term"
    )]
    fn add(&mut self, func: &Function, value: Value, factor: i64, steps: u32) {
        if let Some(number) = func.as_signed(value) {
            self.constant = self.constant.wrapping_add(number.wrapping_mul(factor));
            return;
        }
        let inst = func.def_inst(value);
        let Some(inst) = inst.filter(|_| steps > 0 && self.terms.len() < cost::MOST_TERMS) else {
            self.terms.push((value, factor));
            return;
        };
        match *inst {
            InstData::IntBinary { op, args, .. } => match (op, func.as_signed(args[1])) {
                (IntBinaryOp::Add, _) => {
                    self.add(func, args[0], factor, steps - 1);
                    self.add(func, args[1], factor, steps - 1);
                }
                (IntBinaryOp::Sub, _) => {
                    self.add(func, args[0], factor, steps - 1);
                    self.add(func, args[1], factor.wrapping_neg(), steps - 1);
                }
                (IntBinaryOp::Mul, Some(number)) => {
                    self.add(func, args[0], factor.wrapping_mul(number), steps - 1);
                }
                (IntBinaryOp::Shl, Some(amount @ 0..64)) => {
                    self.add(func, args[0], factor << amount, steps - 1);
                }
                _ => self.terms.push((value, factor)),
            },
            InstData::Resize { from, to, arg, .. } if from.bits() < to.bits() => {
                self.add(func, arg, factor, steps - 1);
            }
            _ => self.terms.push((value, factor)),
        }
    }
}
