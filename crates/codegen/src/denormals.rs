//! Whether a kernel may run with subnormals flushed by the hardware.

use ptxjit_ir::{FloatFmt, FloatUnaryOp, Function, InstData, NumFmt};

/// True if some f32 operation flushes, all do whose result depends on it, and no other format is
/// worked in.
pub(crate) fn all_flush(func: &Function) -> bool {
    let insts = func.blocks.values().flat_map(|block| &block.insts);
    let mut each = insts.filter_map(|&inst| flushes(&func.insts[inst].data));
    each.next() == Some(true) && each.all(|flushes| flushes)
}

/// None: the mode does not matter to the instruction.
#[expect(clippy::wildcard_enum_match_arm, reason = "others compute no floats")]
fn flushes(data: &InstData) -> Option<bool> {
    match *data {
        InstData::FloatUnary { op, fmt, mode, .. } => {
            if matches!(
                op,
                FloatUnaryOp::Neg
                    | FloatUnaryOp::Abs
                    | FloatUnaryOp::Copy
                    | FloatUnaryOp::CanonicalNan
                    | FloatUnaryOp::Sat
                    | FloatUnaryOp::Relu
            ) {
                // These are done by bits, or by comparisons with numbers that are not subnormal.
                None
            } else {
                Some(mode.ftz && fmt == FloatFmt::F32)
            }
        }
        InstData::FloatBinary { fmt, mode, .. } => Some(mode.ftz && fmt == FloatFmt::F32),
        InstData::Fma { fmt, mode, .. } => Some(mode.ftz && fmt == FloatFmt::F32),
        InstData::FloatCompare { fmt, ftz, .. } => Some(ftz && fmt == FloatFmt::F32),
        InstData::Convert { cvt, .. } => {
            let float = |fmt: NumFmt| !fmt.is_int();
            if !float(cvt.from) && !float(cvt.to) {
                return None;
            }
            // Integers have no subnormals and become none.
            if cvt.from.is_int() && cvt.to == NumFmt::F32 {
                return None;
            }
            Some(cvt.ftz && (cvt.from == NumFmt::F32 || cvt.to == NumFmt::F32))
        }
        InstData::ConvertRs { .. } => Some(false),
        InstData::Atomic {
            fmt: ptxjit_ir::AtomicFmt::F32 | ptxjit_ir::AtomicFmt::F64,
            ..
        } => None,
        _ => None,
    }
}
