//! Predicates as bits, one for each lane.
//!
//! Where an affine value is compared with a uniform one, as in `if (tid < n)`, the lanes for which
//! it holds are those from one end up to some lane, or a single one: scalar arithmetic computes
//! which. Such predicates, and logical combinations of them, are held as an integer with one bit
//! per lane.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{CompareOp, Inst, InstData, IntBinaryOp, Type, Value};

use crate::decisions::predicates;
use crate::lower::Lower;
use crate::ops::{Parts, condition};

impl Lower<'_, '_> {
    /// The lanes for which a comparison is true.
    fn affine_bits(&mut self, compare: predicates::AffineCompare) -> cl::Value {
        let (in_order, bits) = if compare.ty == Type::B64 {
            self.wide_affine_bits(compare)
        } else {
            self.narrow_affine_bits(compare)
        };
        let Some(in_order) = in_order else {
            return bits;
        };
        self.either(
            in_order,
            vec![types::I32],
            |_| vec![bits],
            |lower| {
                let (affine, bound) = (lower.parts(compare.affine), lower.parts(compare.bound));
                let cc = condition(compare.op);
                let hits: Parts = affine
                    .iter()
                    .zip(&bound)
                    .map(|(&x, &y)| lower.b.ins().icmp(cc, x, y))
                    .collect();
                let hits = if compare.ty == Type::B64 {
                    hits.chunks(2)
                        .map(|pair| lower.b.narrow(pair[0], pair[1]))
                        .collect()
                } else {
                    hits
                };
                vec![lower.b.bits_of(&hits)]
            },
        )[0]
    }

    /// Emits an instruction whose result is held as bits.
    #[expect(clippy::wildcard_enum_match_arm, reason = "`in_bits` admits no others")]
    pub(in crate::lower) fn emit_bits(&mut self, inst: Inst) {
        let data = &self.func.insts[inst].data;
        let bits = match *data {
            InstData::IntBinary {
                op, args: [a, b], ..
            } => {
                let (a, b) = (self.pred_bits(a), self.pred_bits(b));
                match op {
                    IntBinaryOp::And => self.b.ins().band(a, b),
                    IntBinaryOp::Or => self.b.ins().bor(a, b),
                    _ => self.b.ins().bxor(a, b),
                }
            }
            InstData::IntUnary { arg, .. } => {
                let bits = self.pred_bits(arg);
                self.b.ins().bnot(bits)
            }
            _ => {
                let compare =
                    predicates::find(self.plan, data).expect("only those are kept as bits");
                self.affine_bits(compare)
            }
        };
        let result = self.func.insts[inst].results[0];
        self.available.bits.insert(result, bits);
        if self.decided.crosses[result] && !self.decided.invariants.is_pinned(result) {
            let var = self.variables(result)[0];
            self.b.def_var(var, bits);
        }
    }

    /// Whether the lanes are in order, unless they are known to be, and if so the lanes for which
    /// the comparison is true.
    fn narrow_affine_bits(
        &mut self,
        compare: predicates::AffineCompare,
    ) -> (Option<cl::Value>, cl::Value) {
        let signed = !predicates::is_unsigned(compare.op);
        let wide = |lower: &mut Self, x| {
            if signed {
                lower.b.ins().sextend(types::I64, x)
            } else {
                lower.b.ins().uextend(types::I64, x)
            }
        };
        let first = self.scalar(compare.affine);
        let first = wide(self, first);
        let bound = match self.func.as_const(compare.bound) {
            Some(bits) => {
                let bits = bits as u32;
                let bound = if signed {
                    i64::from(bits as i32)
                } else {
                    i64::from(bits)
                };
                self.b.ins().iconst(types::I64, bound)
            }
            None => {
                let bound = self.scalar(compare.bound);
                wide(self, bound)
            }
        };
        if compare.in_order {
            return (None, self.hits(compare, first, bound));
        }
        let last = self.b.ins().iadd_imm_s(first, compare.span);
        let wrapped = self.b.ins().ireduce(types::I32, last);
        let wrapped = wide(self, wrapped);
        let in_order = self.b.ins().icmp(IntCC::Equal, last, wrapped);
        (Some(in_order), self.hits(compare, first, bound))
    }

    /// A predicate as bits; bits above the gang's lanes are undefined.
    pub(in crate::lower) fn pred_bits(&mut self, value: Value) -> cl::Value {
        if self.decided.in_bits[value] {
            if let Some(&bits) = self.available.bits.get(&value) {
                return bits;
            }
            if let Some(inst) = self.decided.invariants.rematerialized[value] {
                self.emit_bits(inst);
                return self.available.bits[&value];
            }
            let var = self.variables(value)[0];
            let bits = self.b.use_var(var);
            self.available.bits.insert(value, bits);
            return bits;
        }
        if self.is_uniform(value) {
            let x = self.scalar(value);
            let x = self.b.ins().uextend(types::I32, x);
            return self.b.ins().ineg(x);
        }
        self.bits_of_predicate(value)
    }

    fn wide_affine_bits(
        &mut self,
        compare: predicates::AffineCompare,
    ) -> (Option<cl::Value>, cl::Value) {
        let (first, bound) = (self.scalar(compare.affine), self.scalar(compare.bound));
        let last = self.b.ins().iadd_imm_s(first, compare.span);
        let order = match (predicates::is_unsigned(compare.op), compare.span > 0) {
            (false, true) => IntCC::SignedGreaterThanOrEqual,
            (false, false) => IntCC::SignedLessThanOrEqual,
            (true, true) => IntCC::UnsignedGreaterThanOrEqual,
            (true, false) => IntCC::UnsignedLessThanOrEqual,
        };
        let in_order = if compare.in_order {
            None
        } else {
            Some(self.b.ins().icmp(order, last, first))
        };
        let hits = self.hits(compare, first, bound);
        if matches!(compare.op, CompareOp::Eq | CompareOp::Ne) {
            return (in_order, hits);
        }
        // The distance to a bound that is not among the lanes may not fit.
        let cc = condition(compare.op);
        let at_first = self.b.ins().icmp(cc, first, bound);
        let at_last = self.b.ins().icmp(cc, last, bound);
        let ends_equal = self.b.ins().icmp(IntCC::Equal, at_first, at_last);
        let all = self.b.ins().uextend(types::I32, at_first);
        let all = self.b.ins().ineg(all);
        (in_order, self.b.ins().select(ends_equal, all, hits))
    }

    /// A predicate's lanes as bits.
    fn bits_of_predicate(&mut self, pred: Value) -> cl::Value {
        let Some(masks) = self.available.subword.get(&pred).cloned() else {
            let parts = self.mask_parts(pred);
            return self.b.bits_of(&parts);
        };
        if let [mask] = masks[..] {
            // Eight lanes of 16 bits: there is no second vector to narrow the masks with.
            return self.b.ins().vhigh_bits(types::I32, mask);
        }
        let bytes = self.b.masks_of_width(masks, 8);
        let mut parts = bytes.into_iter();
        let first = parts.next().expect("there are lanes");
        let low = self.b.ins().vhigh_bits(types::I32, first);
        match parts.next() {
            Some(high) => {
                let high = self.b.ins().vhigh_bits(types::I32, high);
                let high = self.b.ins().ishl_imm_s(high, 16);
                self.b.ins().bor(low, high)
            }
            None => low,
        }
    }

    /// The lanes for which a comparison is true, from 64-bit numbers whose difference does not
    /// wrap.
    fn hits(
        &mut self,
        compare: predicates::AffineCompare,
        first: cl::Value,
        bound: cl::Value,
    ) -> cl::Value {
        let step = compare.stride.abs();
        let up = compare.stride > 0;
        let distance = if up {
            self.b.ins().isub(bound, first)
        } else {
            self.b.ins().isub(first, bound)
        };
        // Lanes up to the bound, exclusive or inclusive; and whether these satisfy the comparison
        // or the others do.
        let (inclusive, before) = match compare.op {
            CompareOp::Eq | CompareOp::Ne => {
                let hit = self.hit(distance, step);
                return if compare.op == CompareOp::Eq {
                    hit
                } else {
                    self.b.ins().bnot(hit)
                };
            }
            CompareOp::Slt | CompareOp::Ult => (!up, up),
            CompareOp::Sle | CompareOp::Ule => (up, up),
            CompareOp::Sgt | CompareOp::Ugt => (up, !up),
            CompareOp::Sge | CompareOp::Uge => (!up, !up),
        };
        let round = step - 1 + i64::from(inclusive);
        let reach = match round {
            0 => distance,
            _ => self.b.ins().iadd_imm_s(distance, round),
        };
        let count = self.quotient(reach, step);
        let zero = self.b.ins().iconst(types::I64, 0);
        let lanes = self.b.lanes;
        let lanes = self.b.ins().iconst(types::I64, lanes as i64);
        let count = self.b.ins().smax(count, zero);
        let count = self.b.ins().smin(count, lanes);
        let one = self.b.ins().iconst(types::I64, 1);
        let end = self.b.ins().ishl(one, count);
        let bits = self.b.ins().iadd_imm_s(end, -1);
        let bits = self.b.ins().ireduce(types::I32, bits);
        if before {
            bits
        } else {
            self.b.ins().bnot(bits)
        }
    }

    /// The lane at a distance from the first, if there is one.
    fn hit(&mut self, distance: cl::Value, step: i64) -> cl::Value {
        let lane = self.quotient(distance, step);
        let lanes = self.b.lanes as i64;
        let mut hit = self
            .b
            .ins()
            .icmp_imm_u(IntCC::UnsignedLessThan, lane, lanes);
        if step != 1 {
            let there = self.b.ins().imul_imm_s(lane, step);
            let exact = self.b.ins().icmp(IntCC::Equal, there, distance);
            hit = self.b.ins().band(exact, hit);
        }
        let one = self.b.ins().uextend(types::I32, hit);
        let lane = self.b.ins().ireduce(types::I32, lane);
        self.b.ins().ishl(one, lane)
    }

    /// The quotient rounded down, or, of negative numbers, to some negative number or zero.
    fn quotient(&mut self, x: cl::Value, step: i64) -> cl::Value {
        if step == 1 {
            return x;
        }
        if step.count_ones() == 1 {
            let shift = i64::from(step.trailing_zeros());
            return self.b.ins().sshr_imm_s(x, shift);
        }
        let step = self.b.ins().iconst(types::I64, step);
        self.b.ins().sdiv(x, step)
    }
}
