//! Affine 32-bit indices extended to 64 bits: the scalar, marked in the rare case that the index
//! wraps between lanes.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{Inst, InstData, IntBinaryOp, ResizeOp, Value};
use ptxjit_vectorize::{MayWrap, Variability};

use crate::lower::Lower;

/// An extension, with the multiplication that `mul.wide` includes.
struct Extension {
    index: Value,
    signed: bool,
    factor: i64,
}

impl Lower<'_, '_> {
    /// The scalar of an extension whose index may wrap; `None` for other instructions.
    pub(in crate::lower) fn marked_extension(&mut self, inst: Inst) -> Option<cl::Value> {
        let result = self.func.insts[inst].results[0];
        self.variability(result).may_wrap()?;
        let extension = self.extension(&self.func.insts[inst].data)?;
        let Variability::Affine { stride, .. } = self.variability(extension.index) else {
            return None;
        };
        let first = self.scalar(extension.index);
        let wide = self.extended(&extension, first);
        if self.node.version.is_proven && self.decided.cta_ranges.ranges[result] {
            return Some(wide);
        }
        let reach = stride * (self.b.lanes as i64 - 1);
        let last = self.b.ins().iadd_imm_s(first, reach);
        let in_order = match (extension.signed, stride > 0) {
            (true, true) => IntCC::SignedGreaterThanOrEqual,
            (true, false) => IntCC::SignedLessThanOrEqual,
            (false, true) => IntCC::UnsignedGreaterThanOrEqual,
            (false, false) => IntCC::UnsignedLessThanOrEqual,
        };
        let plain = self.b.ins().icmp(in_order, last, first);
        let x = self.either(
            plain,
            vec![types::I64],
            |_| vec![wide],
            |lower| {
                let mark = lower.mark(&extension, first, stride);
                vec![lower.b.ins().iadd(wide, mark)]
            },
        );
        Some(x[0])
    }

    /// What the extension of lane 0's index gives.
    fn extended(&mut self, extension: &Extension, first: cl::Value) -> cl::Value {
        let wide = match extension.signed {
            true => self.b.ins().sextend(types::I64, first),
            false => self.b.ins().uextend(types::I64, first),
        };
        match extension.factor {
            1 => wide,
            factor => self.b.ins().imul_imm_s(wide, factor),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "others extend no index")]
    fn extension(&self, data: &InstData) -> Option<Extension> {
        match *data {
            InstData::Resize { op, arg, .. } => Some(Extension {
                index: arg,
                signed: op == ResizeOp::Sext,
                factor: 1,
            }),
            InstData::IntBinary {
                op: op @ (IntBinaryOp::SmulWide | IntBinaryOp::UmulWide),
                args: [a, b],
                ..
            } => {
                let signed = op == IntBinaryOp::SmulWide;
                let bits = self.func.as_const(b)?;
                Some(Extension {
                    index: a,
                    signed,
                    factor: if signed {
                        i64::from(bits as i32)
                    } else {
                        bits as i64
                    },
                })
            }
            _ => None,
        }
    }

    /// The mark, which says from which lane on the index has wrapped.
    fn mark(&mut self, extension: &Extension, first: cl::Value, stride: i64) -> cl::Value {
        // How far lane 0 is from the value after which the index wraps.
        let left = match (extension.signed, stride > 0) {
            (true, true) => {
                let top = self.b.ins().iconst(types::I32, i64::from(i32::MAX));
                self.b.ins().isub(top, first)
            }
            (true, false) => self.b.ins().bxor_imm_s(first, i64::from(i32::MIN)),
            (false, true) => self.b.ins().bnot(first),
            (false, false) => first,
        };
        let step = self
            .b
            .ins()
            .iconst(types::I32, stride.unsigned_abs() as i64);
        let before = self.b.ins().udiv(left, step);
        let first_wrapped = self.b.ins().iadd_imm_s(before, 1);
        let first_wrapped = self.b.ins().uextend(types::I64, first_wrapped);
        let unit = extension.factor << MayWrap::BITS;
        self.b.ins().imul_imm_s(first_wrapped, unit)
    }
}
