//! Intervals of values of up to 32 bits, as far as they follow from the widths of loads.

use ptxjit_ir::{InstData, IntBinaryOp, IntUnaryOp, ResizeOp, Type, Value};

/// An interval that holds a value, up to a multiple of two to the power of its width.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub lo: i64,
    pub hi: i64,
}

/// Factors and operands of left shifts beyond this many bits end the analysis, so that no bound
/// overflows.
const FACTOR_BITS: u32 = 20;

/// Intervals that reach further from zero are dropped.
const FAR: i64 = 1 << 40;

impl Span {
    pub(super) const fn new(lo: i64, hi: i64) -> Span {
        Span { lo, hi }
    }

    pub(super) fn unsigned(ty: Type) -> Span {
        Span::new(0, ty.mask() as i64)
    }

    /// Whether signed integers of so many bits hold all of it; of fewer than 64.
    pub(super) fn is_signed_in(self, bits: u32) -> bool {
        self.lo >= -(1 << (bits - 1)) && self.hi < 1 << (bits - 1)
    }

    pub(super) fn is_unsigned_in(self, bits: u32) -> bool {
        self.lo >= 0 && self.hi < 1 << bits
    }

    /// Whether this many bits distinguish all numbers of the interval.
    pub(super) fn fits(self, bits: u32) -> bool {
        self.is_signed_in(bits) || self.is_unsigned_in(bits)
    }

    pub(super) fn join(self, other: Span) -> Span {
        Span::new(self.lo.min(other.lo), self.hi.max(other.hi))
    }

    fn near(self) -> Option<Span> {
        (self.lo > -FAR && self.hi < FAR).then_some(self)
    }

    /// The results of an operation that is monotonic in each operand.
    fn of_ends(self, other: Span, op: fn(i64, i64) -> i64) -> Option<Span> {
        let ends = [
            op(self.lo, other.lo),
            op(self.lo, other.hi),
            op(self.hi, other.lo),
            op(self.hi, other.hi),
        ];
        let span = Span::new(*ends.iter().min()?, *ends.iter().max()?);
        span.near()
    }

    fn product(self, other: Span) -> Option<Span> {
        let is_short = self.fits(FACTOR_BITS) && other.fits(FACTOR_BITS);
        is_short.then(|| self.of_ends(other, |a, b| a * b))?
    }

    /// The least interval of the form `-2^n` to `2^n - 1`, or from 0, that contains both.
    fn of_bits(self, other: Span) -> Span {
        let both = self.join(other);
        let far = both.hi.max(!both.lo).max(0) as u64;
        let top = (far + 1).next_power_of_two() as i64 - 1;
        Span::new(if both.lo < 0 { -top - 1 } else { 0 }, top)
    }
}

/// The interval of an instruction's result, if the operands are in the intervals that `of` gives.
#[expect(clippy::wildcard_enum_match_arm, reason = "others may be anything")]
pub(super) fn of(data: &InstData, of: &dyn Fn(Value) -> Option<Span>) -> Option<Span> {
    match *data {
        InstData::Const { ty, bits } if ty != Type::B64 => {
            Some(Span::new(ty.signed(bits), ty.signed(bits)))
        }
        InstData::Load {
            ty: ty @ (Type::B8 | Type::B16),
            ..
        }
        | InstData::MaskedLoad {
            ty: ty @ (Type::B8 | Type::B16),
            ..
        } => Some(Span::unsigned(ty)),
        InstData::Resize { op, from, to, arg } if to != Type::B64 => resize(op, from, to, of(arg)),
        InstData::Select {
            ty, args: [a, b], ..
        } if ty != Type::B64 => Some(of(a)?.join(of(b)?)),
        InstData::IntUnary { op, ty, arg } if ty != Type::B64 => unary(op, ty, of(arg)?),
        InstData::IntBinary {
            op,
            ty,
            args: [a, b],
        } if ty != Type::B64 => binary(op, ty.bits(), of(a)?, of(b)?),
        _ => None,
    }
}

fn resize(op: ResizeOp, from: Type, to: Type, arg: Option<Span>) -> Option<Span> {
    match (op, from) {
        (ResizeOp::Trunc, _) => arg.filter(|span| span.fits(to.bits())),
        (ResizeOp::Uext, Type::B1) => Some(Span::new(0, 1)),
        (ResizeOp::Sext, Type::B1) => Some(Span::new(-1, 0)),
        (ResizeOp::Uext, Type::B8 | Type::B16) => {
            let own = arg.filter(|span| span.is_unsigned_in(from.bits()));
            own.or(Some(Span::unsigned(from)))
        }
        (ResizeOp::Sext, Type::B8 | Type::B16) => {
            let own = arg.filter(|span| span.is_signed_in(from.bits()));
            let far = 1i64 << (from.bits() - 1);
            own.or(Some(Span::new(-far, far - 1)))
        }
        _ => None,
    }
}

fn unary(op: IntUnaryOp, ty: Type, x: Span) -> Option<Span> {
    match op {
        IntUnaryOp::Not => Some(Span::new(!x.hi, !x.lo)),
        IntUnaryOp::Neg => Some(Span::new(-x.hi, -x.lo)),
        IntUnaryOp::Abs if x.is_signed_in(ty.bits()) => {
            let (low, high) = (x.lo.abs(), x.hi.abs());
            let has_zero = x.lo <= 0 && x.hi >= 0;
            let least = if has_zero { 0 } else { low.min(high) };
            Some(Span::new(least, low.max(high)))
        }
        IntUnaryOp::Abs | IntUnaryOp::Popc | IntUnaryOp::Clz | IntUnaryOp::Brev => None,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "others may be anything")]
fn binary(op: IntBinaryOp, bits: u32, x: Span, y: Span) -> Option<Span> {
    let both = x.join(y);
    let is_signed = both.is_signed_in(bits);
    let is_unsigned = both.is_unsigned_in(bits);
    // Counts are unsigned.
    let count = (y.lo == y.hi).then_some(y.lo as u32);
    let down = || count.map(|n| Span::new(x.lo >> n.min(31), x.hi >> n.min(31)));
    let least = || Some(Span::new(x.lo.min(y.lo), x.hi.min(y.hi)));
    let greatest = || Some(Span::new(x.lo.max(y.lo), x.hi.max(y.hi)));
    match op {
        IntBinaryOp::Add => x.of_ends(y, |a, b| a + b),
        IntBinaryOp::Sub => x.of_ends(y, |a, b| a - b),
        IntBinaryOp::Mul => x.product(y),
        IntBinaryOp::UmulWide if is_unsigned => x.product(y),
        IntBinaryOp::SmulWide if is_signed => x.product(y),
        IntBinaryOp::And if x.lo >= 0 && y.lo >= 0 => Some(Span::new(0, x.hi.min(y.hi))),
        IntBinaryOp::And if x.lo >= 0 => Some(Span::new(0, x.hi)),
        IntBinaryOp::And if y.lo >= 0 => Some(Span::new(0, y.hi)),
        IntBinaryOp::And | IntBinaryOp::Or | IntBinaryOp::Xor => Some(x.of_bits(y)),
        IntBinaryOp::Shl => {
            let n = count.filter(|&n| n < bits && x.fits(FACTOR_BITS))?;
            Some(Span::new(x.lo << n, x.hi << n))
        }
        IntBinaryOp::Ushr if x.is_unsigned_in(bits) => down(),
        IntBinaryOp::Sshr if x.is_signed_in(bits) => down(),
        IntBinaryOp::Smin if is_signed => least(),
        IntBinaryOp::Umin if is_unsigned => least(),
        IntBinaryOp::Smax if is_signed => greatest(),
        IntBinaryOp::Umax if is_unsigned => greatest(),
        _ => None,
    }
}
