//! Atomic operations of a whole gang on one element.

use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{IntBinaryOp, Type};
use ptxjit_vectorize::Variability;

use crate::lower::Lower;
use crate::lower::access::atomics::Operands;
use crate::ops::{Parts, int_type, vector_type};

/// The neutral operand.
#[expect(clippy::wildcard_enum_match_arm, reason = "sums begin at zero")]
fn neutral(op: IntBinaryOp, ty: Type) -> u64 {
    match op {
        IntBinaryOp::And | IntBinaryOp::Umin => ty.mask(),
        IntBinaryOp::Smin => ty.mask() >> 1,
        IntBinaryOp::Smax => (ty.mask() >> 1) + 1,
        _ => 0,
    }
}

impl Lower<'_, '_> {
    /// One operation with the combined operands of all running lanes.
    pub(super) fn update_combined(
        &mut self,
        op: IntBinaryOp,
        operands: &Operands<'_>,
        at: cl::Value,
    ) {
        let all = self.combined(op, operands);
        self.rmw(operands.rmw, at, &[all]);
    }

    /// The combined operands of all running lanes.
    fn combined(&mut self, op: IntBinaryOp, operands: &Operands<'_>) -> cl::Value {
        let arg = operands.args[0];
        let ty = operands.rmw.fmt.ty();
        if self.variability(arg) == Variability::Uniform {
            return self.repeated(op, ty, arg);
        }
        let mut parts = self.parts(arg);
        if self.unless_full().is_some() {
            let rest = self.b.vconst(ty, neutral(op, ty));
            let masks = self.masks_for(ty);
            for (part, mask) in parts.iter_mut().zip(masks) {
                *part = self.b.ins().blendv(mask, *part, rest);
            }
        }
        let mut sum = parts[0];
        for &part in &parts[1..] {
            sum = self.b.combine(op, ty, sum, part);
        }
        let upper = [8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7];
        let other = self.b.rotated(sum, upper);
        sum = self.b.combine(op, ty, sum, other);
        if ty == Type::B32 {
            let next = [4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11];
            let other = self.b.rotated(sum, next);
            sum = self.b.combine(op, ty, sum, other);
        }
        self.b.ins().extractlane(sum, 0)
    }

    /// An operand that all running lanes have in common, combined.
    fn repeated(&mut self, op: IntBinaryOp, ty: Type, arg: ptxjit_ir::Value) -> cl::Value {
        let x = self.scalar(arg);
        let clif = int_type(ty);
        if !matches!(op, IntBinaryOp::Add | IntBinaryOp::Xor) {
            return x;
        }
        let lanes = self.b.lanes;
        let n = match self.unless_full() {
            Some(_) => {
                let bits = self.mask_as_bits();
                self.b.ins().popcnt(bits)
            }
            None => self.b.ins().iconst(types::I32, lanes as i64),
        };
        let n = if ty == Type::B64 {
            self.b.ins().uextend(clif, n)
        } else {
            n
        };
        if op == IntBinaryOp::Add {
            return self.b.ins().imul(x, n);
        }
        let odd = self.b.ins().band_imm_s(n, 1);
        self.b.ins().imul(x, odd)
    }

    /// Additions of one number by all running lanes: each gets the sum before it.
    pub(super) fn tickets(&mut self, operands: &Operands<'_>, at: cl::Value) -> Parts {
        let arg = operands.args[0];
        let all = self.repeated(IntBinaryOp::Add, Type::B32, arg);
        let old = self.rmw(operands.rmw, at, &[all]);
        let old = self.b.splat(Type::B32, old);
        let step = self.scalar(arg);
        let step = self.b.splat(Type::B32, step);
        let bits = match self.unless_full() {
            Some(_) => {
                let bits = self.mask_as_bits();
                Some(self.b.splat(Type::B32, bits))
            }
            None => None,
        };
        (0..self.b.quads())
            .map(|q| {
                let lanes = (4 * q as u32..).take(4);
                let before = match bits {
                    None => {
                        let bytes: Vec<u8> = lanes.flat_map(u32::to_le_bytes).collect();
                        self.b.vconst_bytes(vector_type(Type::B32), &bytes)
                    }
                    Some(bits) => {
                        let bytes: Vec<u8> = lanes
                            .flat_map(|lane| ((1u32 << lane) - 1).to_le_bytes())
                            .collect();
                        let lower = self.b.vconst_bytes(vector_type(Type::B32), &bytes);
                        let lower = self.b.ins().band(bits, lower);
                        self.b.popc_lanes(lower, 32)
                    }
                };
                let sum = self.b.ins().imul(before, step);
                self.b.ins().iadd(old, sum)
            })
            .collect()
    }

    /// Updates one element by the operands of all running lanes in their order, reading and writing
    /// it once.
    pub(super) fn update_in_order(&mut self, operands: &Operands<'_>, at: cl::Value) -> Parts {
        let rmw = operands.rmw;
        let bits = self.unless_full().map(|_| self.mask_as_bits());
        let args: Vec<_> = (0..self.b.lanes)
            .map(|lane| self.lane_operands(operands, lane))
            .collect();
        self.cas_loop(rmw, at, |lower, old| {
            let mut new = old;
            for (lane, args) in args.iter().enumerate() {
                let next = lower.b.raw_update(rmw, at, new, args);
                new = match bits {
                    Some(bits) => {
                        let runs = lower.b.ins().band_imm_s(bits, 1 << lane);
                        lower.b.ins().select(runs, next, new)
                    }
                    None => next,
                };
            }
            // At least one lane runs.
            lower.b.as_seen(rmw, new)
        });
        Parts::new()
    }
}
