//! Integer ops on vectors: 32-bit lanes, where narrow integers are zero-extended, and 64-bit lanes.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder};
use ptxjit_ir::{CompareOp, IntBinaryOp, IntUnaryOp, ResizeOp, Type};

use super::{Emitter, Quad, condition};

fn is_signed(op: CompareOp) -> bool {
    use CompareOp::{Sge, Sgt, Sle, Slt};
    matches!(op, Slt | Sle | Sgt | Sge)
}

fn signed_condition(op: CompareOp) -> IntCC {
    match op {
        CompareOp::Ult => IntCC::SignedLessThan,
        CompareOp::Ule => IntCC::SignedLessThanOrEqual,
        CompareOp::Ugt => IntCC::SignedGreaterThan,
        CompareOp::Uge => IntCC::SignedGreaterThanOrEqual,
        CompareOp::Eq
        | CompareOp::Ne
        | CompareOp::Slt
        | CompareOp::Sle
        | CompareOp::Sgt
        | CompareOp::Sge => condition(op),
    }
}

impl Emitter<'_> {
    /// Sign-extends narrow lanes in place.
    pub(crate) fn lanes_signed(&mut self, ty: Type, x: cl::Value) -> cl::Value {
        let shift = 32 - i64::from(ty.bits());
        let up = self.ins().ishl_imm_s(x, shift);
        self.ins().sshr_imm_s(up, shift)
    }

    /// Clears the bits that an op left above a narrow type's width.
    pub(crate) fn lanes_masked(&mut self, ty: Type, x: cl::Value) -> cl::Value {
        match ty {
            Type::B8 | Type::B16 => {
                let mask = self.vconst(Type::B32, ty.mask());
                self.ins().band(x, mask)
            }
            Type::B1 | Type::B32 | Type::B64 => x,
        }
    }

    pub(crate) fn vector_int_unary(&mut self, op: IntUnaryOp, ty: Type, x: Quad) -> Option<Quad> {
        let narrow = matches!(ty, Type::B8 | Type::B16);
        match op {
            IntUnaryOp::Not | IntUnaryOp::Neg => Some(
                x.into_iter()
                    .map(|x| {
                        let y = if op == IntUnaryOp::Not {
                            self.ins().bnot(x)
                        } else {
                            self.ins().ineg(x)
                        };
                        self.lanes_masked(ty, y)
                    })
                    .collect(),
            ),
            IntUnaryOp::Abs if narrow => {
                let signed = self.lanes_signed(ty, x[0]);
                let abs = self.ins().iabs(signed);
                Some(Quad::from_elem(self.lanes_masked(ty, abs), 1))
            }
            IntUnaryOp::Abs => Some(x.into_iter().map(|x| self.ins().iabs(x)).collect()),
            IntUnaryOp::Popc | IntUnaryOp::Clz | IntUnaryOp::Brev => self.vector_count(op, ty, &x),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "others have longer forms")]
    pub(crate) fn vector_simple(
        &mut self,
        op: IntBinaryOp,
        ty: Type,
        x: cl::Value,
        y: cl::Value,
    ) -> Option<cl::Value> {
        let signed_narrow = matches!(ty, Type::B8 | Type::B16)
            && matches!(op, IntBinaryOp::Smin | IntBinaryOp::Smax);
        let (x, y) = if signed_narrow {
            (self.lanes_signed(ty, x), self.lanes_signed(ty, y))
        } else {
            (x, y)
        };
        let z = match op {
            IntBinaryOp::Smin | IntBinaryOp::Smax | IntBinaryOp::Umin | IntBinaryOp::Umax
                if ty == Type::B64 =>
            {
                let cc = match op {
                    IntBinaryOp::Smin => IntCC::SignedLessThan,
                    IntBinaryOp::Smax => IntCC::SignedGreaterThan,
                    IntBinaryOp::Umin => IntCC::UnsignedLessThan,
                    _ => IntCC::UnsignedGreaterThan,
                };
                let pick = self.ins().icmp(cc, x, y);
                self.ins().blendv(pick, x, y)
            }
            _ => self.one_inst(op, x, y)?,
        };
        if matches!(op, IntBinaryOp::And | IntBinaryOp::Or | IntBinaryOp::Xor) {
            return Some(z);
        }
        Some(self.lanes_masked(ty, z))
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "callers pass shifts")]
    pub(crate) fn shift_lanes(
        &mut self,
        op: IntBinaryOp,
        ty: Type,
        x: cl::Value,
        count: cl::Value,
    ) -> cl::Value {
        match op {
            IntBinaryOp::Shl => {
                let y = self.ins().ishl(x, count);
                self.lanes_masked(ty, y)
            }
            IntBinaryOp::Sshr => {
                let x = if matches!(ty, Type::B8 | Type::B16) {
                    self.lanes_signed(ty, x)
                } else {
                    x
                };
                let y = self.ins().sshr(x, count);
                self.lanes_masked(ty, y)
            }
            _ => self.ins().ushr(x, count),
        }
    }

    pub(crate) fn vector_resize(&mut self, op: ResizeOp, from: Type, to: Type, x: Quad) -> Quad {
        if from == Type::B64 {
            let low = self.narrow(x[0], x[1]);
            return self.vector_resize(op, Type::B32, to, Quad::from_elem(low, 1));
        }
        let x = x[0];
        let lanes = match (op, from) {
            (ResizeOp::Trunc, _) if to == Type::B1 => {
                let up = self.ins().ishl_imm_s(x, 31);
                self.ins().sshr_imm_s(up, 31)
            }
            (ResizeOp::Trunc, _) => self.lanes_masked(to, x),
            (ResizeOp::Uext, Type::B1) => self.ins().ushr_imm_s(x, 31),
            (ResizeOp::Uext, _) => x,
            (ResizeOp::Sext, Type::B1 | Type::B32) => self.lanes_masked(to, x),
            (ResizeOp::Sext, _) => {
                let signed = self.lanes_signed(from, x);
                self.lanes_masked(to, signed)
            }
        };
        if to != Type::B64 {
            return Quad::from_elem(lanes, 1);
        }
        Quad::from(self.widened(op == ResizeOp::Sext, lanes))
    }

    pub(crate) fn vector_compare(&mut self, op: CompareOp, ty: Type, x: Quad, y: Quad) -> Quad {
        let cc = condition(op);
        let mask = match ty {
            Type::B64 => {
                let lo = self.compare_lanes(cc, x[0], y[0]);
                let hi = self.compare_lanes(cc, x[1], y[1]);
                self.narrow(lo, hi)
            }
            Type::B8 | Type::B16 if is_signed(op) => {
                let (x, y) = (self.lanes_signed(ty, x[0]), self.lanes_signed(ty, y[0]));
                self.ins().icmp(cc, x, y)
            }
            // Zero-extended lanes are not negative: the signed comparison, which is cheaper, gives
            // the same.
            Type::B8 | Type::B16 => self.compare_lanes(signed_condition(op), x[0], y[0]),
            Type::B1 | Type::B32 => self.compare_lanes(cc, x[0], y[0]),
        };
        Quad::from_elem(mask, 1)
    }
}
