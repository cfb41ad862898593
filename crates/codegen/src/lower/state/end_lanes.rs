//! What the first and the last lane of a gang tell of a predicate.
//!
//! A branch on a comparison of an affine value with a uniform one is uniform in gangs where all
//! lanes have one result.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{Block, CompareOp, Inst, InstData, IntBinaryOp, Type, Value, ValueDef};

use crate::decisions::predicates;
use crate::lower::{Buffer, Lower};
use crate::ops::{Val, condition, int_type};
use crate::slots::lane_bytes;

/// What a comparison of the first and last lane tells of a predicate.
#[derive(Copy, Clone)]
pub(in crate::lower) struct EndLanes {
    /// Whether all lanes satisfy it; `None` if that cannot be.
    pub all: Option<cl::Value>,
    /// Whether any lane may satisfy it; `None` if some do.
    pub any: Option<cl::Value>,
}

impl Lower<'_, '_> {
    /// What the first and last lane tell of a predicate, if its operands are available in `block`.
    /// Where an index wraps between the two, they tell nothing. Although the ends differ, the
    /// predicate may hold for none or for all of the lanes that run: those lanes are then sent both
    /// ways, and the node that gets no lane is skipped.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others need all lanes")]
    pub(in crate::lower) fn end_lanes(&mut self, block: Block, cond: Value) -> Option<EndLanes> {
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
        let mut join = |x, y| self.b.plain_op(op, x, y);
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
}

impl Lower<'_, '_> {
    /// A value at the first or the last lane of the gang.
    pub(in crate::lower) fn end_lane(&mut self, ty: Type, last: bool, value: Value) -> cl::Value {
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
    pub(in crate::lower) fn first_running(&mut self, ty: Type, value: Value) -> cl::Value {
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
