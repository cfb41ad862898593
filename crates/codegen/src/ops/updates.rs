//! How atomic operations update an element.

use core::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, AtomicRmwOp, InstBuilder, types};
use ptxjit_abi::CtaContext;
use ptxjit_ir::{
    AtomicFmt, AtomicOp, FloatBinaryOp, FloatFmt, FloatMode, IntBinaryOp, Round, Space, Type,
};

use super::{Emitter, WINDOW, int_type};
use crate::decisions::atomics::Rmw;

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

impl Rmw {
    /// CLIF's own atomic, where it fits.
    #[expect(clippy::wildcard_enum_match_arm, reason = "CLIF has atomics of these")]
    pub(crate) fn native(self) -> Option<AtomicRmwOp> {
        if self.is_shared() {
            return None;
        }
        if self.op == AtomicOp::Exch {
            return Some(AtomicRmwOp::Xchg);
        }
        match self.int_op()? {
            IntBinaryOp::Add => Some(AtomicRmwOp::Add),
            IntBinaryOp::And => Some(AtomicRmwOp::And),
            IntBinaryOp::Or => Some(AtomicRmwOp::Or),
            IntBinaryOp::Xor => Some(AtomicRmwOp::Xor),
            IntBinaryOp::Smin => Some(AtomicRmwOp::Smin),
            IntBinaryOp::Smax => Some(AtomicRmwOp::Smax),
            IntBinaryOp::Umin => Some(AtomicRmwOp::Umin),
            IntBinaryOp::Umax => Some(AtomicRmwOp::Umax),
            _ => None,
        }
    }
}

impl Emitter<'_> {
    /// Whether the operation needs a compare-and-swap loop.
    pub(crate) fn needs_cas_loop(&self, rmw: Rmw) -> bool {
        let is_other = rmw.is_shared() || rmw.native().is_some() || rmw.op == AtomicOp::Cas;
        !is_other && self.has_update(rmw)
    }

    /// Whether an f32 addition at this place flushes subnormals: on global memory yes, on shared
    /// memory no.
    pub(crate) fn flushes(&mut self, space: Space, at: cl::Value) -> cl::Value {
        match space {
            Space::Shared | Space::SharedCluster => self.ins().iconst(types::I64, 0),
            Space::Generic => {
                let shared = self.field(offset_of!(CtaContext, shared_base));
                let distance = self.ins().isub(at, shared);
                let limit = self.ins().iconst(types::I64, WINDOW);
                let outside = self
                    .ins()
                    .icmp(IntCC::UnsignedGreaterThanOrEqual, distance, limit);
                self.ins().uextend(types::I64, outside)
            }
            Space::Global | Space::Local | Space::Const | Space::Param => {
                self.ins().iconst(types::I64, 1)
            }
        }
    }

    /// The address of the first lane in `bits`, which is not empty.
    pub(crate) fn lowest_lane(&mut self, bits: cl::Value, addrs: cl::Value) -> cl::Value {
        let lane = self.ins().ctz(bits);
        let lane = self.ins().uextend(types::I64, lane);
        self.load_lane(addrs, lane, types::I64, 8)
    }

    /// A sum of f32 with subnormals flushed and canonical NaNs, as atomics on global memory compute
    /// it. Both are rare, and the test for them does not delay the sum.
    fn quick_sum(
        &mut self,
        old: cl::Value,
        arg: cl::Value,
        exact: impl FnOnce(&mut Self) -> cl::Value,
    ) -> cl::Value {
        let [x, y] = [old, arg].map(|x| self.as_float(FloatFmt::F32, x));
        let sum = self.ins().fadd(x, y);
        let sum = self.cast_scalar(sum, types::I32);
        let rare = [old, arg, sum].map(|bits| self.is_special(bits));
        let rare = rare
            .into_iter()
            .reduce(|x, y| self.ins().bor(x, y))
            .expect("three");
        self.unless(rare, &[sum], |emit| vec![exact(emit)])[0]
    }

    /// Whether the bits of an f32 are zero, subnormal or NaN.
    fn is_special(&mut self, bits: cl::Value) -> cl::Value {
        const LEAST_NORMAL: i64 = 0x0080_0000 << 1;
        const INFINITY: i64 = 0x7f80_0000 << 1;
        let bits = self.cast_scalar(bits, types::I32);
        let magnitude = self.ins().ishl_imm_s(bits, 1);
        let from = self.ins().iadd_imm_s(magnitude, -LEAST_NORMAL);
        self.ins()
            .icmp_imm_u(IntCC::UnsignedGreaterThan, from, INFINITY - LEAST_NORMAL)
    }
    /// Whether [`Emitter::update`] supports an operation.
    pub(crate) fn has_update(&self, rmw: Rmw) -> bool {
        rmw.has_update(self.flush_denormals)
    }

    /// The new value of an element.
    pub(crate) fn update(
        &mut self,
        rmw: Rmw,
        at: cl::Value,
        old: cl::Value,
        args: &[cl::Value],
    ) -> cl::Value {
        let exact = |emit: &mut Self| {
            let new = emit.raw_update(rmw, at, old, args);
            emit.as_seen(rmw, new)
        };
        let is_sum = (rmw.op, rmw.fmt) == (AtomicOp::Add, AtomicFmt::F32);
        if is_sum && rmw.space == Space::Global {
            self.quick_sum(old, args[0], exact)
        } else {
            exact(self)
        }
    }

    /// The result of [`Emitter::raw_update`] in the form that memory holds.
    pub(crate) fn as_seen(&mut self, rmw: Rmw, new: cl::Value) -> cl::Value {
        if (rmw.op, rmw.fmt) != (AtomicOp::Add, AtomicFmt::F32) {
            return new;
        }
        let new = self.as_float(FloatFmt::F32, new);
        let seen = self.with_canonical_nans(FloatFmt::F32, new);
        self.cast_scalar(seen, types::I32)
    }

    /// The new value; f32 sums may be any NaN.
    pub(crate) fn raw_update(
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
                let same = self.ins().icmp(IntCC::Equal, old, a);
                self.ins().select(same, args[1], old)
            }
            AtomicOp::Inc => {
                let wrap = self.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, old, a);
                let next = self.ins().iadd_imm_s(old, 1);
                let zero = self.ins().iconst(types::I32, 0);
                self.ins().select(wrap, zero, next)
            }
            AtomicOp::Dec => {
                let zero = self.ins().icmp_imm_s(IntCC::Equal, old, 0);
                let above = self.ins().icmp(IntCC::UnsignedGreaterThan, old, a);
                let wrap = self.ins().bor(zero, above);
                let less = self.ins().iadd_imm_s(old, -1);
                self.ins().select(wrap, a, less)
            }
            AtomicOp::And
            | AtomicOp::Or
            | AtomicOp::Xor
            | AtomicOp::Add
            | AtomicOp::Min
            | AtomicOp::Max => match (float_fmt(rmw.fmt), rmw.int_op()) {
                (Some((fmt, false)), _) => self.float_update(rmw, fmt, at, old, a),
                (Some((fmt, true)), _) => self.update_halves(rmw, fmt, at, old, a),
                (None, Some(op)) => self.plain_op(op, old, a),
                (None, None) => unreachable!("elements are integers or floats"),
            },
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
                self.ins().select(flushes, flushed, plain)
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
                let word = self.ins().ushr_imm_s(word, shift);
                self.ins().ireduce(types::I16, word)
            });
            let half = self.float_update(rmw, fmt, at, old, a);
            self.ins().uextend(types::I32, half)
        });
        let high = self.ins().ishl_imm_s(high, 16);
        self.ins().bor(low, high)
    }

    pub(crate) fn combine(
        &mut self,
        op: IntBinaryOp,
        ty: Type,
        x: cl::Value,
        y: cl::Value,
    ) -> cl::Value {
        self.vector_simple(op, ty, x, y)
            .expect("simple ops have a vector form")
    }

    pub(crate) fn rotated(&mut self, x: cl::Value, order: [u8; 16]) -> cl::Value {
        let ty = self.func.dfg.value_type(x);
        let rotated = self.shuffle(x, x, order);
        self.cast_vector(rotated, ty)
    }
}
