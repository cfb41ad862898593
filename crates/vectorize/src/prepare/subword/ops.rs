//! Operations with fewer bits that give the same numbers.

use ptxjit_ir::{CompareOp, InstData, IntBinaryOp, IntUnaryOp, Type, Value};

use super::intervals::Span;

/// An operation at a narrow width.
pub(super) struct Plan {
    pub bits: u32,
    pub data: InstData,
    /// Whether the result is extended with its sign.
    pub is_signed: bool,
}

/// The narrow integers.
pub(super) fn type_of(bits: u32) -> Type {
    if bits == 8 { Type::B8 } else { Type::B16 }
}

/// The narrowest operation for one of up to 32 bits whose operands all lie in `both`, and whose
/// result lies in `result`; `None` if no narrower one exists.
#[expect(clippy::wildcard_enum_match_arm, reason = "others stay wide")]
pub(super) fn narrowest(
    data: &InstData,
    both: Span,
    result: Option<Span>,
    least: u32,
) -> Option<Plan> {
    let spans = Spans {
        both,
        result,
        least,
    };
    let (bits, narrow) = match *data {
        InstData::IntUnary { op, arg, .. } => spans.unary(op, arg)?,
        InstData::IntBinary { op, ty, args } => spans.binary(op, ty, args)?,
        InstData::Select { cond, args, .. } => {
            let bits = spans.of_low_bits(8)?;
            let ty = type_of(bits);
            (bits, InstData::Select { ty, cond, args })
        }
        InstData::Compare { op, ty, args } => {
            let bits = spans.width(8, &|bits| both.fits(bits))?;
            let op = comparison(op, both, ty, bits)?;
            let ty = type_of(bits);
            (bits, InstData::Compare { op, ty, args })
        }
        _ => return None,
    };
    if result.is_none() && !matches!(data, InstData::Compare { .. }) {
        return None;
    }
    let is_narrower = if let InstData::IntUnary { ty, .. }
    | InstData::IntBinary { ty, .. }
    | InstData::Select { ty, .. } = *data
    {
        bits < ty.bits() || is_wide_product(data)
    } else {
        true
    };
    is_narrower.then_some(Plan {
        bits,
        data: narrow,
        is_signed: result.is_some_and(|span| span.lo < 0),
    })
}

fn is_wide_product(data: &InstData) -> bool {
    let op = data.as_binary().map(|(op, ..)| op);
    matches!(op, Some(IntBinaryOp::UmulWide | IntBinaryOp::SmulWide))
}

struct Spans {
    both: Span,
    result: Option<Span>,
    /// Vectors are not filled with lanes of fewer bits.
    least: u32,
}

impl Spans {
    /// The least sufficient width.
    fn width(&self, least: u32, is_enough: &dyn Fn(u32) -> bool) -> Option<u32> {
        let least = least.max(self.least);
        let mut widths = [8, 16].into_iter();
        widths.find(|&bits| bits >= least && is_enough(bits))
    }

    /// The same for operations whose low result bits depend on the low bits of the operands alone.
    fn of_low_bits(&self, least: u32) -> Option<u32> {
        let result = self.result?;
        self.width(least, &|bits| result.fits(bits))
    }

    fn unary(&self, op: IntUnaryOp, arg: Value) -> Option<(u32, InstData)> {
        let bits = match op {
            IntUnaryOp::Not | IntUnaryOp::Neg => self.of_low_bits(8)?,
            IntUnaryOp::Abs => self.width(8, &|bits| self.both.is_signed_in(bits))?,
            IntUnaryOp::Popc | IntUnaryOp::Clz | IntUnaryOp::Brev => return None,
        };
        let ty = type_of(bits);
        Some((bits, InstData::IntUnary { op, ty, arg }))
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest are extremes")]
    fn binary(&self, op: IntBinaryOp, full: Type, args: [Value; 2]) -> Option<(u32, InstData)> {
        let both = self.both;
        let (bits, op) = match op {
            IntBinaryOp::Add
            | IntBinaryOp::Sub
            | IntBinaryOp::And
            | IntBinaryOp::Or
            | IntBinaryOp::Xor => (self.of_low_bits(8)?, op),
            // Vectors have no products of bytes, nor shifts to the left.
            IntBinaryOp::Mul | IntBinaryOp::Shl => (self.of_low_bits(16)?, op),
            IntBinaryOp::UmulWide | IntBinaryOp::SmulWide => {
                (self.of_low_bits(16)?, IntBinaryOp::Mul)
            }
            IntBinaryOp::Ushr | IntBinaryOp::Sshr if both.lo >= 0 => {
                let bits = self.width(8, &|bits| both.is_unsigned_in(bits))?;
                (bits, IntBinaryOp::Ushr)
            }
            IntBinaryOp::Sshr => (self.width(8, &|bits| both.is_signed_in(bits))?, op),
            _ => {
                let bits = self.width(8, &|bits| both.fits(bits))?;
                (bits, extreme(op, both, full, bits)?)
            }
        };
        let ty = type_of(bits);
        Some((bits, InstData::IntBinary { op, ty, args }))
    }
}

/// The minimum or maximum of numbers in a span, in so many bits.
#[expect(clippy::wildcard_enum_match_arm, reason = "others stay wide")]
fn extreme(op: IntBinaryOp, both: Span, full: Type, bits: u32) -> Option<IntBinaryOp> {
    let (unsigned, is_signed) = match op {
        IntBinaryOp::Smin => (IntBinaryOp::Umin, true),
        IntBinaryOp::Smax => (IntBinaryOp::Umax, true),
        IntBinaryOp::Umin | IntBinaryOp::Umax => (op, false),
        _ => return None,
    };
    is_read_right(both, is_signed, full).then_some(match both.is_unsigned_in(bits) {
        true => unsigned,
        false => op,
    })
}

/// A comparison of numbers in a span, in so many bits.
fn comparison(op: CompareOp, both: Span, full: Type, bits: u32) -> Option<CompareOp> {
    let (unsigned, is_signed) = match op {
        CompareOp::Eq | CompareOp::Ne => return Some(op),
        CompareOp::Slt => (CompareOp::Ult, true),
        CompareOp::Sle => (CompareOp::Ule, true),
        CompareOp::Sgt => (CompareOp::Ugt, true),
        CompareOp::Sge => (CompareOp::Uge, true),
        CompareOp::Ult | CompareOp::Ule | CompareOp::Ugt | CompareOp::Uge => (op, false),
    };
    is_read_right(both, is_signed, full).then_some(match both.is_unsigned_in(bits) {
        true => unsigned,
        false => op,
    })
}

/// Whether an operation on values of a type reads the numbers of an interval unchanged.
fn is_read_right(both: Span, is_signed: bool, ty: Type) -> bool {
    match is_signed {
        true => both.is_signed_in(ty.bits()),
        false => both.is_unsigned_in(ty.bits()),
    }
}
