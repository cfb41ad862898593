//! Predicates on affine values, as bits.
//!
//! Where an affine value is compared with a uniform one, as in `if (tid < n)`, the lanes for which
//! it holds are those from one end up to some lane, or a single one: scalar arithmetic computes
//! which. Such predicates, and logical combinations of them, are held as an integer with one bit
//! per lane. A branch on them is uniform in gangs where all lanes have one result.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{Block, CompareOp, Inst, InstData, IntBinaryOp, Type, Value, ValueDef};

use super::{Buffer, Lower};
use crate::decisions::predicates;
use crate::ops::{Parts, Val, condition, int_type};
use crate::slots::lane_bytes;

/// What a comparison of the first and last lane tells of a predicate.
#[derive(Copy, Clone)]
pub(super) struct EndLanes {
    /// Whether all lanes satisfy it; `None` if that cannot be.
    pub all: Option<cl::Value>,
    /// Whether any lane may satisfy it; `None` if some do.
    pub any: Option<cl::Value>,
}

impl Lower<'_, '_> {
    /// A predicate as bits; bits above the gang's lanes are undefined.
    pub(super) fn pred_bits(&mut self, value: Value) -> cl::Value {
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

    /// Emits an instruction whose result is held as bits.
    #[expect(clippy::wildcard_enum_match_arm, reason = "`in_bits` admits no others")]
    pub(super) fn emit_bits(&mut self, inst: Inst) {
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
        if self.plan.escapes[result] && !self.decided.invariants.is_pinned(result) {
            let var = self.variables(result)[0];
            self.b.def_var(var, bits);
        }
    }

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

    /// What the first and last lane tell of a predicate, if its operands are available in `block`.
    /// Where an index wraps between the two, they tell nothing. Although the ends differ, the
    /// predicate may hold for none or for all of the lanes that run: those lanes are then sent both
    /// ways, and the node that gets no lane is skipped.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others need all lanes")]
    pub(super) fn end_lanes(&mut self, block: Block, cond: Value) -> Option<EndLanes> {
        if self.is_uniform(cond) {
            let x = self.scalar(cond);
            return Some(EndLanes {
                all: Some(x),
                any: Some(x),
            });
        }
        let ValueDef::Result(inst, _) = self.func.values[cond].def else {
            return None;
        };
        let insts = &self.func.blocks[block].insts;
        if self.decided.invariants.rematerialized[cond].is_none()
            && !insts.iter().rev().any(|&other| other == inst)
        {
            return None;
        }
        match self.func.insts[inst].data {
            InstData::IntBinary {
                op: op @ (IntBinaryOp::And | IntBinaryOp::Or),
                args: [a, b],
                ..
            } => {
                let (a, b) = (self.end_lanes(block, a)?, self.end_lanes(block, b)?);
                Some(self.both_ends(op, a, b))
            }
            InstData::IntUnary { arg, .. } => {
                let ends = self.end_lanes(block, arg)?;
                let mut not = |x| self.b.ins().bxor_imm_s(x, 1);
                Some(EndLanes {
                    all: ends.any.map(&mut not),
                    any: ends.all.map(&mut not),
                })
            }
            InstData::Compare { .. } => self.compared_ends(inst),
            _ => None,
        }
    }

    /// The same for two predicates together. The result misses the case that all lanes satisfy one
    /// or the other if some satisfy only one, some only the other.
    fn both_ends(&mut self, op: IntBinaryOp, a: EndLanes, b: EndLanes) -> EndLanes {
        let mut join = |x, y| {
            if op == IntBinaryOp::And {
                self.b.ins().band(x, y)
            } else {
                self.b.ins().bor(x, y)
            }
        };
        let is_and = op == IntBinaryOp::And;
        EndLanes {
            all: match (a.all, b.all) {
                (Some(x), Some(y)) => Some(join(x, y)),
                (one, other) => one.or(other).filter(|_| !is_and),
            },
            any: match (a.any, b.any) {
                (Some(x), Some(y)) => Some(join(x, y)),
                (one, other) => one.or(other).filter(|_| is_and),
            },
        }
    }

    fn compared_ends(&mut self, inst: Inst) -> Option<EndLanes> {
        let compare = predicates::find(self.plan, &self.func.insts[inst].data)?;
        let (first, bound) = (self.scalar(compare.affine), self.scalar(compare.bound));
        let last = self.b.ins().iadd_imm_s(first, compare.span);
        let [low, high] = if compare.stride > 0 {
            [first, last]
        } else {
            [last, first]
        };
        let cc = condition(compare.op);
        let [all, any] = match compare.op {
            CompareOp::Slt | CompareOp::Sle | CompareOp::Ult | CompareOp::Ule => [high, low],
            CompareOp::Sgt | CompareOp::Sge | CompareOp::Ugt | CompareOp::Uge => [low, high],
            CompareOp::Eq | CompareOp::Ne => return Some(self.equal_ends(compare, low, bound)),
        };
        let all = self.b.ins().icmp(cc, all, bound);
        let any = self.b.ins().icmp(cc, any, bound);
        if compare.in_order {
            return Some(EndLanes {
                all: Some(all),
                any: Some(any),
            });
        }
        let [rises, wraps] = match predicates::is_unsigned(compare.op) {
            false => [IntCC::SignedLessThanOrEqual, IntCC::SignedGreaterThan],
            true => [IntCC::UnsignedLessThanOrEqual, IntCC::UnsignedGreaterThan],
        };
        let rises = self.b.ins().icmp(rises, low, high);
        let wraps = self.b.ins().icmp(wraps, low, high);
        Some(EndLanes {
            all: Some(self.b.ins().band(all, rises)),
            any: Some(self.b.ins().bor(any, wraps)),
        })
    }

    /// Whether a lane may equal the bound: by the distance from the lowest lane, which is beyond
    /// all lanes if the bound is below it, and which needs no order.
    fn equal_ends(
        &mut self,
        compare: predicates::AffineCompare,
        low: cl::Value,
        bound: cl::Value,
    ) -> EndLanes {
        let distance = self.b.ins().isub(bound, low);
        let span = compare.span.abs();
        match compare.op == CompareOp::Eq {
            true => {
                let cc = IntCC::UnsignedLessThanOrEqual;
                EndLanes {
                    all: None,
                    any: Some(self.b.ins().icmp_imm_u(cc, distance, span)),
                }
            }
            false => {
                let cc = IntCC::UnsignedGreaterThan;
                EndLanes {
                    all: Some(self.b.ins().icmp_imm_u(cc, distance, span)),
                    any: None,
                }
            }
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

impl Lower<'_, '_> {
    /// A value at the first or the last lane of the gang.
    pub(super) fn end_lane(&mut self, ty: Type, last: bool, value: Value) -> cl::Value {
        match self.get(value) {
            Val::Uniform(x) => self.b.cast_scalar(x, int_type(ty)),
            Val::Affine(x, stride) => {
                let first = self.b.cast_scalar(x, int_type(ty));
                let steps = if last { self.b.lanes as i64 - 1 } else { 0 };
                self.b.ins().iadd_imm_s(first, stride.wrapping_mul(steps))
            }
            // Held as vectors, since some use needs numbers.
            Val::Varying(parts) => {
                let lane = if last { self.b.lanes - 1 } else { 0 };
                self.b.extract(ty, &parts, lane)
            }
        }
    }

    /// A value at the first lane that runs.
    pub(super) fn first_running(&mut self, ty: Type, value: Value) -> cl::Value {
        let held = self.get(value);
        if let Val::Uniform(x) = held {
            return self.b.cast_scalar(x, int_type(ty));
        }
        if self.mask.is_full {
            return self.end_lane(ty, false, value);
        }
        let bits = self.mask_as_bits();
        let lane = self.b.ins().ctz(bits);
        match held {
            Val::Affine(x, stride) => {
                let first = self.b.cast_scalar(x, int_type(ty));
                let lane = self.b.cast_scalar(lane, int_type(ty));
                let distance = self.b.ins().imul_imm_s(lane, stride);
                self.b.ins().iadd(first, distance)
            }
            Val::Uniform(_) | Val::Varying(_) => {
                let parts = self.parts(value);
                let buffer = self.store_to_buffer(Buffer::Data, &parts);
                let lane = self.b.ins().uextend(types::I64, lane);
                self.b.load_lane(buffer, lane, int_type(ty), lane_bytes(ty))
            }
        }
    }
}
