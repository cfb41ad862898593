//! Divergence of integer arithmetic: which results are affine, with what stride.

use ptxjit_ir::{CompareOp, Function, InstData, IntBinaryOp, IntUnaryOp, ResizeOp, Type, Value};
use ptxjit_passes::transform::simplify::possible_bits;

use super::Divergence;
use crate::analysis::multiples::trailing_zeros;
use crate::analysis::range;
use crate::analysis::variability::{MayWrap, Variability, join, scaled};

impl Divergence {
    /// `-arg`, or `-1 - arg`.
    pub(super) fn negated(&self, arg: Value, op: IntUnaryOp) -> Variability {
        match self.variability(arg) {
            Variability::Affine {
                stride,
                align,
                may_wrap: None,
            } => Variability::Affine {
                stride: -stride,
                align: if op == IntUnaryOp::Neg { align } else { 0 },
                may_wrap: None,
            },
            Variability::Affine { .. } => Variability::Varying,
            variability @ (Variability::Uniform | Variability::Varying) => variability,
        }
    }

    /// One of two values for all lanes, if that is known to be affine.
    pub(super) fn selected(&self, cond: Value, a: Value, b: Value) -> Option<Variability> {
        let is_affine = |value| matches!(self.variability(value), Variability::Affine { .. });
        let is_known =
            self.variability(cond) == Variability::Uniform && is_affine(a) && is_affine(b);
        is_known.then(|| join(self.variability(a), self.variability(b)))
    }

    /// An address in another space: at a distance that is the same for all lanes.
    pub(super) fn shifted(&self, arg: Value) -> Variability {
        match self.variability(arg) {
            Variability::Affine {
                stride,
                align,
                may_wrap,
            } => Variability::Affine {
                stride,
                align,
                may_wrap: may_wrap.map(|may_wrap| may_wrap.plus(false)),
            },
            variability @ (Variability::Uniform | Variability::Varying) => variability,
        }
    }
    pub(super) fn resize(
        &self,
        func: &Function,
        op: ResizeOp,
        from: Type,
        to: Type,
        arg: Value,
    ) -> Variability {
        let variability = self.variability(arg);
        let Variability::Affine { stride, align, .. } = variability else {
            return variability;
        };
        if from == Type::B1 || !matches!(to, Type::B32 | Type::B64) {
            return Variability::Varying;
        }
        match op {
            // A wrap moved lanes by multiples of 2^32.
            ResizeOp::Trunc => Variability::Affine {
                stride: i64::from(stride as i32),
                align,
                may_wrap: None,
            },
            ResizeOp::Sext | ResizeOp::Uext if from == Type::B32 => {
                self.extend(func, op == ResizeOp::Sext, arg, (stride, align))
            }
            ResizeOp::Sext | ResizeOp::Uext => Variability::Varying,
        }
    }

    /// A 32-bit affine index made 64 bits wide.
    fn extend(
        &self,
        func: &Function,
        signed: bool,
        arg: Value,
        (stride, align): (i64, u8),
    ) -> Variability {
        let may_wrap = match range::signed(func, self.facts, arg) {
            Some((lo, _)) if signed || lo >= 0 => None,
            _ if stride.unsigned_abs() >= MAX_WRAPPED_STRIDE => return Variability::Varying,
            _ => Some(MayWrap {
                scale: 1,
                above: stride < 0,
                sums_left: MAX_SUMS,
            }),
        };
        Variability::Affine {
            stride,
            align,
            may_wrap,
        }
    }

    pub(super) fn int_binary(
        &self,
        func: &Function,
        op: IntBinaryOp,
        ty: Type,
        a: Value,
        b: Value,
    ) -> Variability {
        let (sa, sb) = (self.variability(a), self.variability(b));
        if sa == Variability::Uniform && sb == Variability::Uniform {
            return Variability::Uniform;
        }
        if !matches!(ty, Type::B32 | Type::B64) {
            return Variability::Varying;
        }
        let parts = |value: Value, variability: Variability| match variability {
            Variability::Uniform => Some((0, self.known_align(func, value), None)),
            Variability::Affine {
                stride,
                align,
                may_wrap,
            } => Some((stride, align, may_wrap)),
            Variability::Varying => None,
        };
        let (Some((sta, ala, foa)), Some((stb, alb, fob))) = (parts(a, sa), parts(b, sb)) else {
            return Variability::Varying;
        };
        let constant = func
            .as_const(b)
            .map(|bits| (bits << (64 - ty.bits())) as i64 >> (64 - ty.bits()));
        if foa.is_some() || fob.is_some() {
            return may_wrap_binary(func, op, (a, sta, ala, foa), (b, stb, alb, fob), constant);
        }
        self.affine_binary(func, (op, ty), (a, sta, ala), (b, stb, alb), constant)
    }

    /// An operation with operands of constant strides, and what the second one is if it is
    /// constant.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others keep no stride")]
    fn affine_binary(
        &self,
        func: &Function,
        (op, ty): (IntBinaryOp, Type),
        (a, sta, ala): (Value, i64, u8),
        (b, stb, alb): (Value, i64, u8),
        constant: Option<i64>,
    ) -> Variability {
        let affine = |stride: i64, align: u8| affine(ty, stride, align);
        match op {
            IntBinaryOp::Add => affine(sta.wrapping_add(stb), ala.min(alb)),
            // An `or` of values without common bits is a sum.
            IntBinaryOp::Or if possible_bits(func, a) & possible_bits(func, b) == 0 => {
                affine(sta.wrapping_add(stb), ala.min(alb))
            }
            IntBinaryOp::Sub => affine(sta.wrapping_sub(stb), ala.min(alb)),
            IntBinaryOp::Mul => match (constant, func.as_const(a)) {
                (Some(c), _) => affine(
                    sta.wrapping_mul(c),
                    (ala + c.trailing_zeros() as u8).min(31),
                ),
                (_, Some(c)) => affine(
                    stb.wrapping_mul(c as i64),
                    (alb + c.trailing_zeros() as u8).min(31),
                ),
                _ => Variability::Varying,
            },
            IntBinaryOp::Shl => match constant {
                Some(c) if (0..i64::from(ty.bits())).contains(&c) => {
                    affine(sta.wrapping_shl(c as u32), (ala + c as u8).min(31))
                }
                _ => Variability::Varying,
            },
            IntBinaryOp::SmulWide | IntBinaryOp::UmulWide => {
                self.wide(func, op, ty, (a, sta, ala), (b, stb))
            }
            IntBinaryOp::And => match constant {
                Some(c) => self.low_bits(sta, ala, c),
                None => Variability::Varying,
            },
            IntBinaryOp::Ushr | IntBinaryOp::Sshr => match constant {
                // All lanes have the same bits above those that the lane number reaches.
                Some(c)
                    if self.lanes_fit(sta, ala.min(c as u8))
                        && c >= 0
                        && c < i64::from(ty.bits()) =>
                {
                    Variability::Uniform
                }
                _ => Variability::Varying,
            },
            _ => Variability::Varying,
        }
    }

    /// Whether all lanes are on one side of a uniform bound, since they differ in low bits that the
    /// bound does not have: with gangs of 32, `%tid.x < 64` is true or false for all lanes.
    pub(super) fn is_on_one_side(&self, func: &Function, op: CompareOp, args: [Value; 2]) -> bool {
        let (op, [value, bound]) = match self.variability(args[0]) {
            Variability::Uniform => (op.swapped(), [args[1], args[0]]),
            Variability::Affine { .. } | Variability::Varying => (op, args),
        };
        let Variability::Affine {
            stride,
            align,
            may_wrap: None,
        } = self.variability(value)
        else {
            return false;
        };
        let align = align.min(match op {
            CompareOp::Eq | CompareOp::Ne => return false,
            CompareOp::Slt | CompareOp::Sge | CompareOp::Ult | CompareOp::Uge => {
                self.known_align(func, bound)
            }
            // Those up to the bound, which is the last with its high bits.
            CompareOp::Sle | CompareOp::Sgt | CompareOp::Ule | CompareOp::Ugt => func
                .as_const(bound)
                .map_or(0, |bits| bits.trailing_ones() as u8),
        });
        self.variability(bound) == Variability::Uniform && self.lanes_fit(stride, align)
    }

    /// What a uniform value is known to be a multiple of, as log2.
    pub(super) fn known_align(&self, func: &Function, value: Value) -> u8 {
        // The amount that compilers add to a possibly negative number before they divide it.
        match range::signed(func, self.facts, value) {
            Some((0, 0)) => 31,
            _ => trailing_zeros(func, value, self.row_align()),
        }
    }

    /// What `%ntid.x` is known to be a multiple of, as log2.
    pub(super) fn row_align(&self) -> u8 {
        if self.facts.whole_rows {
            self.gang.trailing_zeros() as u8
        } else {
            0
        }
    }

    /// Whether `stride * lane` stays below `1 << bits` for every lane.
    pub(super) fn lanes_fit(&self, stride: i64, bits: u8) -> bool {
        stride >= 0 && bits < 63 && stride.saturating_mul(i64::from(self.gang) - 1) < 1 << bits
    }

    /// `x & mask` for x with a base that is a multiple of `1 << align`.
    pub(super) fn low_bits(&self, stride: i64, align: u8, mask: i64) -> Variability {
        if self.lanes_fit(stride, align) {
            // Lanes differ in these bits alone, and no carry leaves them for the base.
            let differ = (0..i64::from(self.gang)).fold(0, |bits, lane| bits | (stride * lane));
            if differ & !mask == 0 {
                return Variability::Affine {
                    stride,
                    align,
                    may_wrap: None,
                };
            }
            if differ & mask == 0 {
                return Variability::Uniform;
            }
        }
        Variability::Varying
    }

    fn wide(
        &self,
        func: &Function,
        op: IntBinaryOp,
        ty: Type,
        (a, stride, align): (Value, i64, u8),
        (b, stb): (Value, i64),
    ) -> Variability {
        let Some(bits) = func.as_const(b) else {
            return Variability::Varying;
        };
        if stb != 0 || ty != Type::B32 {
            return Variability::Varying;
        }
        let signed = op == IntBinaryOp::SmulWide;
        let factor = if signed {
            i64::from(bits as i32)
        } else {
            bits as i64
        };
        match self.extend(func, signed, a, (stride, align)) {
            Variability::Affine { may_wrap, .. } => scaled(stride, align, may_wrap, factor),
            other @ (Variability::Uniform | Variability::Varying) => other,
        }
    }
}

fn affine(ty: Type, stride: i64, align: u8) -> Variability {
    let stride = match ty {
        Type::B32 => i64::from(stride as i32),
        Type::B1 | Type::B8 | Type::B16 | Type::B64 => stride,
    };
    match stride {
        0 => Variability::Uniform,
        _ => Variability::Affine {
            stride,
            align,
            may_wrap: None,
        },
    }
}

/// An operation with one operand that stems from an index that may have wrapped.
fn may_wrap_binary(
    func: &Function,
    op: IntBinaryOp,
    (a, sta, ala, foa): (Value, i64, u8, Option<MayWrap>),
    (b, stb, alb, fob): (Value, i64, u8, Option<MayWrap>),
    constant: Option<i64>,
) -> Variability {
    let sum = |stride: i64, may_wrap: MayWrap, other: Value| {
        // Lanes that wrapped differ from the others even at stride zero.
        if stride == 0 {
            return Variability::Varying;
        }
        Variability::Affine {
            stride,
            align: ala.min(alb),
            may_wrap: Some(may_wrap.plus(is_small(func, other))),
        }
    };
    match (op, foa, fob) {
        (IntBinaryOp::Add, Some(may_wrap), None) => sum(sta.wrapping_add(stb), may_wrap, b),
        (IntBinaryOp::Add, None, Some(may_wrap)) => sum(sta.wrapping_add(stb), may_wrap, a),
        (IntBinaryOp::Sub, Some(may_wrap), None) => sum(sta.wrapping_sub(stb), may_wrap, b),
        (IntBinaryOp::Mul, Some(_), None) => match constant {
            Some(factor) => scaled(sta, ala, foa, factor),
            None => Variability::Varying,
        },
        (IntBinaryOp::Shl, Some(_), None) => match constant {
            Some(count) if (0..14).contains(&count) => scaled(sta, ala, foa, 1 << count),
            _ => Variability::Varying,
        },
        _ => Variability::Varying,
    }
}

/// Indices with larger strides can wrap more than once between the lanes of a gang.
const MAX_WRAPPED_STRIDE: u64 = 1 << 24;

/// This many small values can be added to an extended index before it may be mistaken for a marked
/// one.
const MAX_SUMS: u8 = 100;

/// Whether a 64-bit value is surely less than `1 << 33` in magnitude.
fn is_small(func: &Function, value: Value) -> bool {
    match func.def_inst(value) {
        Some(&InstData::Const { bits, .. }) => (bits as i64).unsigned_abs() < 1 << 33,
        Some(&InstData::Resize { from, to, .. }) => from.bits() < to.bits(),
        _ => false,
    }
}
