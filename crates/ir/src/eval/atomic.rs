//! What an atomic operation leaves in memory.

use super::float::{float_binary, input};
use super::softfloat::Layout;
use super::{int, select};
use crate::ops::{AtomicOp, CompareOp, FloatBinaryOp, IntBinaryOp};
use crate::types::{AtomicFmt, FloatFmt, FloatMode, Type};

/// The new value of an element whose old value is `old`. `Cas` has the operands (compare, new), the
/// others one; missing operands count as zero. `flush_f32` is true for `.global` addresses: there
/// f32 additions flush subnormals.
pub fn atomic(op: AtomicOp, fmt: AtomicFmt, old: u64, args: &[u64], flush_f32: bool) -> u64 {
    let ty = fmt.ty();
    let mask = ty.mask();
    let arg = |idx: usize| args.get(idx).copied().unwrap_or(0) & mask;
    let (old, a) = (old & mask, arg(0));
    match op {
        AtomicOp::Exch => a,
        AtomicOp::Cas => select((old == a).into(), arg(1), old),
        AtomicOp::Inc => {
            if old >= a {
                0
            } else {
                old + 1
            }
        }
        AtomicOp::Dec => {
            if old == 0 || old > a {
                a
            } else {
                old - 1
            }
        }
        AtomicOp::And => old & a,
        AtomicOp::Or => old | a,
        AtomicOp::Xor => old ^ a,
        AtomicOp::Add => arithmetic(Arithmetic::Add, fmt, old, a, flush_f32),
        AtomicOp::Min => arithmetic(Arithmetic::Min, fmt, old, a, flush_f32),
        AtomicOp::Max => arithmetic(Arithmetic::Max, fmt, old, a, flush_f32),
    }
}

/// Sum of two floats as `atom.add` computes it.
pub fn atomic_float_add(fmt: FloatFmt, old: u64, a: u64, flush: bool) -> u64 {
    float_binary(
        FloatBinaryOp::Add,
        fmt,
        FloatMode {
            ftz: flush,
            ..FloatMode::RN
        },
        old,
        a,
    )
}

/// The operations whose meaning depends on the format.
#[derive(Copy, Clone)]
enum Arithmetic {
    Add,
    Min,
    Max,
}

fn arithmetic(op: Arithmetic, fmt: AtomicFmt, old: u64, a: u64, flush_f32: bool) -> u64 {
    match fmt {
        AtomicFmt::B16 | AtomicFmt::B32 | AtomicFmt::B64 | AtomicFmt::U32 | AtomicFmt::U64 => {
            integer(op, fmt.ty(), CompareOp::Ult, old, a)
        }
        AtomicFmt::S32 | AtomicFmt::S64 => integer(op, fmt.ty(), CompareOp::Slt, old, a),
        AtomicFmt::F16 => float(op, FloatFmt::F16, old, a, false),
        AtomicFmt::Bf16 => float(op, FloatFmt::Bf16, old, a, false),
        AtomicFmt::F32 => float(op, FloatFmt::F32, old, a, flush_f32),
        AtomicFmt::F64 => float(op, FloatFmt::F64, old, a, false),
        AtomicFmt::F16x2 => halves(op, FloatFmt::F16, old, a),
        AtomicFmt::Bf16x2 => halves(op, FloatFmt::Bf16, old, a),
    }
}

fn integer(op: Arithmetic, ty: Type, less: CompareOp, old: u64, a: u64) -> u64 {
    let a_is_less = int::compare(less, ty, a, old);
    match op {
        Arithmetic::Add => int::int_binary(IntBinaryOp::Add, ty, old, a),
        Arithmetic::Min => select(a_is_less.into(), a, old),
        Arithmetic::Max => select(a_is_less.into(), old, a),
    }
}

fn float(op: Arithmetic, fmt: FloatFmt, old: u64, a: u64, flush: bool) -> u64 {
    let layout = Layout::of(fmt);
    let binary = |op| {
        float_binary(
            op,
            fmt,
            FloatMode::RN,
            input(layout, flush, old),
            input(layout, flush, a),
        )
    };
    match op {
        Arithmetic::Add => atomic_float_add(fmt, old, a, flush),
        Arithmetic::Min => binary(FloatBinaryOp::Min),
        Arithmetic::Max => binary(FloatBinaryOp::Max),
    }
}

fn halves(op: Arithmetic, fmt: FloatFmt, old: u64, a: u64) -> u64 {
    float(op, fmt, old & 0xffff, a & 0xffff, false)
        | (float(op, fmt, old >> 16, a >> 16, false) << 16)
}
