//! What each pure op computes, bit for bit, on plain integers: serves constant folding, the
//! interpreter, and compiled code for ops without an inline lowering.
//!
//! Operands and results are bits in a `u64`; bits above an operand's width are ignored, bits above
//! a result's width are zero. Every function here is total: it returns for all inputs and never
//! panics.
//!
//! Choices where the PTX ISA leaves one: a NaN result of arithmetic is `0x7fffffff` in f32 and
//! `0x7fff` in f16 and bf16; in f64, which keeps payloads, it is the first NaN operand made quiet,
//! or `0xfff8000000000000` if none is NaN. (Compiled code may take the payload of another operand
//! if several are NaN, and the sign of a NaN from before a `neg`, whose result the ISA leaves
//! open.) A conversion to f64 keeps the payload too. `.ftz` flushes a result that is below the
//! least normal number once rounded to the format's precision (so does ptxas where it folds
//! constants, and x86's FTZ). The `.approx` ops do what compiled code does, step by step, so that
//! all engines give the same bits.

pub mod approx;
mod atomic;
mod convert;
mod exact;
mod float;
mod int;
mod mma;
mod softfloat;
#[cfg(test)]
mod tests;

pub use atomic::{atomic, atomic_float_add};
pub use convert::{convert, convert_rs};
pub use float::{float_binary, float_compare, float_unary, fma};
pub use int::{bfi, compare, int_binary, int_ternary, int_unary, lop3, resize};
pub use mma::{LaneRegisters, matrix_element, mma};

use crate::inst::InstData;

/// `cond ? a : b`; a `B1` condition is its lowest bit.
pub fn select(cond: u64, a: u64, b: u64) -> u64 {
    if cond & 1 != 0 { a } else { b }
}

/// The result of a pure instruction with one result whose meaning depends on nothing but its
/// operands, in the order of [`InstData::args`]. None for all others (addresses, special registers,
/// memory, warp operations) and if `args` are too few.
pub fn inst(data: &InstData, args: &[u64]) -> Option<u64> {
    let arg = |idx: usize| args.get(idx).copied();
    let result = match *data {
        InstData::Const { bits, .. } => bits,
        InstData::IntUnary { op, ty, .. } => int_unary(op, ty, arg(0)?),
        InstData::IntBinary { op, ty, .. } => int_binary(op, ty, arg(0)?, arg(1)?),
        InstData::IntTernary { op, ty, .. } => int_ternary(op, ty, arg(0)?, arg(1)?, arg(2)?),
        InstData::Lop3 { lut, .. } => lop3(lut, arg(0)?, arg(1)?, arg(2)?),
        InstData::Bfi { ty, .. } => bfi(ty, arg(0)?, arg(1)?, arg(2)?, arg(3)?),
        InstData::Resize { op, from, to, .. } => resize(op, from, to, arg(0)?),
        InstData::Compare { op, ty, .. } => compare(op, ty, arg(0)?, arg(1)?).into(),
        InstData::FloatUnary { op, fmt, mode, .. } => float_unary(op, fmt, mode, arg(0)?),
        InstData::FloatBinary { op, fmt, mode, .. } => {
            float_binary(op, fmt, mode, arg(0)?, arg(1)?)
        }
        InstData::Fma { fmt, mode, .. } => fma(fmt, mode, arg(0)?, arg(1)?, arg(2)?),
        InstData::FloatCompare { op, fmt, ftz, .. } => {
            float_compare(op, fmt, ftz, arg(0)?, arg(1)?).into()
        }
        InstData::Convert { cvt, .. } => convert(&cvt, arg(0)?),
        InstData::ConvertRs { cvt, .. } => convert_rs(&cvt, arg(0)?, arg(1)?),
        InstData::Select { ty, .. } => select(arg(0)?, arg(1)?, arg(2)?) & ty.mask(),
        InstData::Sreg { .. }
        | InstData::VarAddr { .. }
        | InstData::FuncAddr { .. }
        | InstData::StackAddr { .. }
        | InstData::ToGeneric { .. }
        | InstData::FromGeneric { .. }
        | InstData::IsSpace { .. }
        | InstData::EndLane { .. }
        | InstData::FirstRunning { .. }
        | InstData::Load { .. }
        | InstData::MaskedLoad { .. }
        | InstData::Store { .. }
        | InstData::Atomic { .. }
        | InstData::Fence { .. }
        | InstData::Barrier { .. }
        | InstData::Warp { .. }
        | InstData::Call { .. }
        | InstData::CallIndirect { .. }
        | InstData::Device { .. }
        | InstData::StackSave
        | InstData::StackRestore { .. }
        | InstData::Alloca { .. }
        | InstData::Nanosleep { .. }
        | InstData::Prefetch { .. }
        | InstData::Count { .. }
        | InstData::Nop
        | InstData::StateOf { .. } => return None,
    };
    Some(result)
}
