//! How atomic operations update an element, and the operations of a whole gang on one element.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{
    AtomicFmt, AtomicOp, FloatBinaryOp, FloatFmt, FloatMode, IntBinaryOp, Round, Space, Type,
};
use ptxjit_vectorize::Variability;

use super::Lower;
use super::atomics::{Operands, Rmw, is_integer};
use super::values::{Parts, int_type};

/// The format of float elements, and whether there are two of them.
fn float_fmt(fmt: AtomicFmt) -> Option<(FloatFmt, bool)> {
    match fmt {
        AtomicFmt::F16 => Some((FloatFmt::F16, false)),
        AtomicFmt::F16x2 => Some((FloatFmt::F16, true)),
        AtomicFmt::Bf16 => Some((FloatFmt::Bf16, false)),
        AtomicFmt::Bf16x2 => Some((FloatFmt::Bf16, true)),
        AtomicFmt::F32 => Some((FloatFmt::F32, false)),
        AtomicFmt::F64 => Some((FloatFmt::F64, false)),
        AtomicFmt::B16
        | AtomicFmt::B32
        | AtomicFmt::B64
        | AtomicFmt::U32
        | AtomicFmt::S32
        | AtomicFmt::U64
        | AtomicFmt::S64 => None,
    }
}

/// The op that combines operands before the element is updated, for ops whose order does not
/// matter.
fn combining(rmw: Rmw) -> Option<IntBinaryOp> {
    if !is_integer(rmw.fmt) || rmw.fmt.ty() < Type::B32 {
        return None;
    }
    let signed = matches!(rmw.fmt, AtomicFmt::S32 | AtomicFmt::S64);
    match rmw.op {
        AtomicOp::Add => Some(IntBinaryOp::Add),
        AtomicOp::And => Some(IntBinaryOp::And),
        AtomicOp::Or => Some(IntBinaryOp::Or),
        AtomicOp::Xor => Some(IntBinaryOp::Xor),
        AtomicOp::Min if signed => Some(IntBinaryOp::Smin),
        AtomicOp::Min => Some(IntBinaryOp::Umin),
        AtomicOp::Max if signed => Some(IntBinaryOp::Smax),
        AtomicOp::Max => Some(IntBinaryOp::Umax),
        AtomicOp::Exch | AtomicOp::Cas | AtomicOp::Inc | AtomicOp::Dec => None,
    }
}

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
    /// Whether [`Lower::update`] supports it. Where the hardware flushes subnormals, it supports
    /// only additions that have to flush them.
    pub(super) fn has_update(&self, rmw: Rmw) -> bool {
        match (rmw.op, rmw.fmt) {
            (AtomicOp::Add, AtomicFmt::F32) if self.inputs.flush_denormals => {
                rmw.space == Space::Global
            }
            (AtomicOp::Add | AtomicOp::Min | AtomicOp::Max, fmt) if !is_integer(fmt) => {
                !self.inputs.flush_denormals
            }
            _ => true,
        }
    }

    /// The new value of an element.
    pub(super) fn update(
        &mut self,
        rmw: Rmw,
        at: cl::Value,
        old: cl::Value,
        args: &[cl::Value],
    ) -> cl::Value {
        let exact = |lower: &mut Self| {
            let new = lower.raw_update(rmw, at, old, args);
            lower.as_seen(rmw, new)
        };
        let is_sum = (rmw.op, rmw.fmt) == (AtomicOp::Add, AtomicFmt::F32);
        if is_sum && rmw.space == Space::Global {
            self.quick_sum(old, args[0], exact)
        } else {
            exact(self)
        }
    }

    /// The result of [`Lower::raw_update`] in the form that memory holds.
    fn as_seen(&mut self, rmw: Rmw, new: cl::Value) -> cl::Value {
        if (rmw.op, rmw.fmt) != (AtomicOp::Add, AtomicFmt::F32) {
            return new;
        }
        let new = self.as_float(FloatFmt::F32, new);
        let seen = self.with_canonical_nans(FloatFmt::F32, new);
        self.cast_scalar(seen, types::I32)
    }

    /// The new value; f32 sums may be any NaN.
    fn raw_update(
        &mut self,
        rmw: Rmw,
        at: cl::Value,
        old: cl::Value,
        args: &[cl::Value],
    ) -> cl::Value {
        let a = args[0];
        match rmw.op {
            AtomicOp::Exch => a,
            AtomicOp::Cas => {
                let same = self.b.ins().icmp(IntCC::Equal, old, a);
                self.b.ins().select(same, args[1], old)
            }
            AtomicOp::Inc => {
                let wrap = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, old, a);
                let next = self.b.ins().iadd_imm_s(old, 1);
                let zero = self.b.ins().iconst(types::I32, 0);
                self.b.ins().select(wrap, zero, next)
            }
            AtomicOp::Dec => {
                let zero = self.b.ins().icmp_imm_s(IntCC::Equal, old, 0);
                let above = self.b.ins().icmp(IntCC::UnsignedGreaterThan, old, a);
                let wrap = self.b.ins().bor(zero, above);
                let less = self.b.ins().iadd_imm_s(old, -1);
                self.b.ins().select(wrap, a, less)
            }
            AtomicOp::And => self.b.ins().band(old, a),
            AtomicOp::Or => self.b.ins().bor(old, a),
            AtomicOp::Xor => self.b.ins().bxor(old, a),
            AtomicOp::Add | AtomicOp::Min | AtomicOp::Max => match float_fmt(rmw.fmt) {
                Some((fmt, false)) => self.float_update(rmw, fmt, at, old, a),
                Some((fmt, true)) => self.update_halves(rmw, fmt, at, old, a),
                None => self.int_update(rmw, old, a),
            },
        }
    }

    fn int_update(&mut self, rmw: Rmw, old: cl::Value, a: cl::Value) -> cl::Value {
        let signed = matches!(rmw.fmt, AtomicFmt::S32 | AtomicFmt::S64);
        match rmw.op {
            AtomicOp::Min if signed => self.b.ins().smin(old, a),
            AtomicOp::Min => self.b.ins().umin(old, a),
            AtomicOp::Max if signed => self.b.ins().smax(old, a),
            AtomicOp::Max => self.b.ins().umax(old, a),
            AtomicOp::Exch
            | AtomicOp::Cas
            | AtomicOp::Add
            | AtomicOp::Inc
            | AtomicOp::Dec
            | AtomicOp::And
            | AtomicOp::Or
            | AtomicOp::Xor => self.b.ins().iadd(old, a),
        }
    }

    fn float_update(
        &mut self,
        rmw: Rmw,
        fmt: FloatFmt,
        at: cl::Value,
        old: cl::Value,
        a: cl::Value,
    ) -> cl::Value {
        let op = match rmw.op {
            AtomicOp::Min => FloatBinaryOp::Min,
            AtomicOp::Max => FloatBinaryOp::Max,
            AtomicOp::Exch
            | AtomicOp::Cas
            | AtomicOp::Add
            | AtomicOp::Inc
            | AtomicOp::Dec
            | AtomicOp::And
            | AtomicOp::Or
            | AtomicOp::Xor => FloatBinaryOp::Add,
        };
        let mut result = |ftz: bool| {
            let mode = FloatMode {
                round: Round::Rn,
                ftz,
            };
            let new = self
                .float_binary(op, fmt, mode, old, a)
                .expect("rounded to nearest, these have an inline form");
            self.cast_scalar(new, int_type(fmt.ty()))
        };
        if fmt != FloatFmt::F32 {
            return result(false);
        }
        match rmw.space {
            Space::Shared | Space::SharedCluster => result(false),
            Space::Generic => {
                let (flushed, plain) = (result(true), result(false));
                let flushes = self.flushes(rmw.space, at);
                self.b.ins().select(flushes, flushed, plain)
            }
            Space::Global | Space::Local | Space::Const | Space::Param => result(true),
        }
    }

    /// Two halves in one word.
    fn update_halves(
        &mut self,
        rmw: Rmw,
        fmt: FloatFmt,
        at: cl::Value,
        old: cl::Value,
        a: cl::Value,
    ) -> cl::Value {
        let [low, high] = [0, 16].map(|shift| {
            let [old, a] = [old, a].map(|word| {
                let word = self.b.ins().ushr_imm_s(word, shift);
                self.b.ins().ireduce(types::I16, word)
            });
            let half = self.float_update(rmw, fmt, at, old, a);
            self.b.ins().uextend(types::I32, half)
        });
        let high = self.b.ins().ishl_imm_s(high, 16);
        self.b.ins().bor(low, high)
    }

    /// The operations of all running lanes on one element, as if in sequence, in ascending
    /// order; `None` if they must be.
    pub(super) fn atomic_at_one_place(
        &mut self,
        operands: &Operands<'_>,
        at: cl::Value,
    ) -> Option<Parts> {
        let rmw = operands.rmw;
        match combining(rmw) {
            Some(op) if !operands.result => {
                let all = self.combined(op, operands);
                self.rmw_once(rmw, at, all);
                Some(Parts::new())
            }
            Some(IntBinaryOp::Add) if rmw.fmt.ty() == Type::B32 => self.tickets(operands, at),
            Some(_) => None,
            None => {
                let orderly = !operands.result && self.has_update(rmw);
                orderly.then(|| self.update_in_order(operands, at))
            }
        }
    }

    fn rmw_once(&mut self, rmw: Rmw, at: cl::Value, operand: cl::Value) -> cl::Value {
        self.rmw(rmw, at, &[operand])
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
            let rest = self.vconst(ty, neutral(op, ty));
            let masks = self.masks_for(ty);
            for (part, mask) in parts.iter_mut().zip(masks) {
                *part = self.b.ins().blendv(mask, *part, rest);
            }
        }
        let mut sum = parts[0];
        for &part in &parts[1..] {
            sum = self.combine(op, ty, sum, part);
        }
        let upper = [8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7];
        let other = self.rotated(sum, upper);
        sum = self.combine(op, ty, sum, other);
        if ty == Type::B32 {
            let next = [4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11];
            let other = self.rotated(sum, next);
            sum = self.combine(op, ty, sum, other);
        }
        self.b.ins().extractlane(sum, 0)
    }

    pub(super) fn combine(
        &mut self,
        op: IntBinaryOp,
        ty: Type,
        x: cl::Value,
        y: cl::Value,
    ) -> cl::Value {
        self.vector_simple(op, ty, x, y)
            .expect("simple ops have a vector form")
    }

    fn rotated(&mut self, x: cl::Value, order: [u8; 16]) -> cl::Value {
        let ty = self.b.func.dfg.value_type(x);
        let rotated = self.shuffle(x, x, order);
        self.cast_vector(rotated, ty)
    }

    /// The masks of the running lanes, for vectors of `ty`.
    fn masks_for(&mut self, ty: Type) -> Parts {
        let masks = self.mask_vectors();
        if ty != Type::B64 {
            return masks;
        }
        masks
            .into_iter()
            .flat_map(|mask| self.widen_mask(mask))
            .collect()
    }

    /// An operand that all running lanes have in common, combined.
    fn repeated(&mut self, op: IntBinaryOp, ty: Type, arg: ptxjit_ir::Value) -> cl::Value {
        let x = self.scalar(arg);
        let clif = int_type(ty);
        if !matches!(op, IntBinaryOp::Add | IntBinaryOp::Xor) {
            return x;
        }
        let n = match self.unless_full() {
            Some(_) => {
                let bits = self.mask_as_bits();
                self.b.ins().popcnt(bits)
            }
            None => self.b.ins().iconst(types::I32, self.lanes as i64),
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
    fn tickets(&mut self, operands: &Operands<'_>, at: cl::Value) -> Option<Parts> {
        let arg = operands.args[0];
        if self.variability(arg) != Variability::Uniform {
            return None;
        }
        let all = self.repeated(IntBinaryOp::Add, Type::B32, arg);
        let old = self.rmw_once(operands.rmw, at, all);
        let old = self.splat(Type::B32, old);
        let step = self.scalar(arg);
        let step = self.splat(Type::B32, step);
        let bits = match self.unless_full() {
            Some(_) => {
                let bits = self.mask_as_bits();
                Some(self.splat(Type::B32, bits))
            }
            None => None,
        };
        let olds = (0..self.quads())
            .map(|q| {
                let lanes = (4 * q as u32..).take(4);
                let before = match bits {
                    None => {
                        let bytes: Vec<u8> = lanes.flat_map(u32::to_le_bytes).collect();
                        self.vconst_bytes(types::I32X4, &bytes)
                    }
                    Some(bits) => {
                        let bytes: Vec<u8> = lanes
                            .flat_map(|lane| ((1u32 << lane) - 1).to_le_bytes())
                            .collect();
                        let lower = self.vconst_bytes(types::I32X4, &bytes);
                        let lower = self.b.ins().band(bits, lower);
                        self.popc_lanes(lower, 32)
                    }
                };
                let sum = self.b.ins().imul(before, step);
                self.b.ins().iadd(old, sum)
            })
            .collect();
        Some(olds)
    }

    /// Updates one element by the operands of all running lanes in their order, reading and writing
    /// it once.
    fn update_in_order(&mut self, operands: &Operands<'_>, at: cl::Value) -> Parts {
        let rmw = operands.rmw;
        let bits = self.unless_full().map(|_| self.mask_as_bits());
        let args: Vec<_> = (0..self.lanes)
            .map(|lane| self.lane_operands(operands, lane))
            .collect();
        self.cas_loop(rmw, at, |lower, old| {
            let mut new = old;
            for (lane, args) in args.iter().enumerate() {
                let next = lower.raw_update(rmw, at, new, args);
                new = match bits {
                    Some(bits) => {
                        let runs = lower.b.ins().band_imm_s(bits, 1 << lane);
                        lower.b.ins().select(runs, next, new)
                    }
                    None => next,
                };
            }
            // At least one lane runs.
            lower.as_seen(rmw, new)
        });
        Parts::new()
    }
}
