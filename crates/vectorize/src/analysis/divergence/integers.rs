//! Divergence of integer arithmetic: which results are affine, with what stride.

use ptxjit_ir::{CompareOp, Function, InstData, IntBinaryOp, IntUnaryOp, ResizeOp, Type, Value};
use ptxjit_passes::transform::simplify::possible_bits;

use super::Divergence;
use crate::analysis::multiples::trailing_zeros;
use crate::analysis::range;
use crate::analysis::variability::{MayWrap, Variability, join};

/// An operand of an operation that is uniform or affine.
#[derive(Copy, Clone)]
struct Operand {
    value: Value,
    stride: i64,
    align: u8,
    may_wrap: Option<MayWrap>,
}

/// An operation on two such operands.
struct Binary<'a> {
    divergence: &'a Divergence,
    func: &'a Function,
    op: IntBinaryOp,
    ty: Type,
    a: Operand,
    b: Operand,
    /// What the second operand is, if it is constant.
    constant: Option<i64>,
}

impl Divergence {
    /// `-arg`, or `-1 - arg`.
    pub(super) fn negated(&self, arg: Value, op: IntUnaryOp) -> Variability {
        let variability = self.variability(arg);
        let Variability::Affine { align, .. } = variability else {
            return variability;
        };
        let align = if op == IntUnaryOp::Neg { align } else { 0 };
        let negated = |stride: i64| Variability::affine(-stride, align);
        let stride = variability.exact_stride();
        stride.map_or(Variability::Varying, negated)
    }

    /// One of two values for all lanes, if that is known to be affine.
    pub(super) fn selected(&self, cond: Value, args: [Value; 2]) -> Option<Variability> {
        let [a, b] = args.map(|arg| self.variability(arg));
        let is_known = self.variability(cond) == Variability::Uniform
            && a.stride().is_some()
            && b.stride().is_some();
        is_known.then(|| join(a, b))
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
            ResizeOp::Trunc => Variability::affine(i64::from(stride as i32), align),
            ResizeOp::Sext | ResizeOp::Uext if from == Type::B32 => {
                self.extend(func, op == ResizeOp::Sext, arg)
            }
            ResizeOp::Sext | ResizeOp::Uext => Variability::Varying,
        }
    }

    /// A 32-bit affine index made 64 bits wide.
    fn extend(&self, func: &Function, signed: bool, arg: Value) -> Variability {
        let variability = self.variability(arg);
        let Variability::Affine { stride, align, .. } = variability else {
            return variability;
        };
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
        args: [Value; 2],
    ) -> Variability {
        if args.map(|arg| self.variability(arg)) == [Variability::Uniform; 2] {
            return Variability::Uniform;
        }
        let [Some(a), Some(b)] = args.map(|arg| self.operand(func, arg)) else {
            return Variability::Varying;
        };
        let binary = Binary {
            divergence: self,
            func,
            op,
            ty,
            a,
            b,
            constant: func.as_const(b.value).map(|bits| ty.signed(bits)),
        };
        match ty {
            Type::B32 | Type::B64 => binary.variability(),
            Type::B1 | Type::B8 | Type::B16 => Variability::Varying,
        }
    }

    fn operand(&self, func: &Function, value: Value) -> Option<Operand> {
        let (stride, align, may_wrap) = match self.variability(value) {
            Variability::Uniform => (0, self.known_align(func, value), None),
            Variability::Affine {
                stride,
                align,
                may_wrap,
            } => (stride, align, may_wrap),
            Variability::Varying => return None,
        };
        Some(Operand {
            value,
            stride,
            align,
            may_wrap,
        })
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
    fn known_align(&self, func: &Function, value: Value) -> u8 {
        // The amount that compilers add to a possibly negative number before they divide it.
        match range::signed(func, self.facts, value) {
            Some((0, 0)) => 31,
            _ => trailing_zeros(func, value, self.row_align()),
        }
    }

    /// What `%ntid.x` is known to be a multiple of, as log2.
    fn row_align(&self) -> u8 {
        let align = self.gang.trailing_zeros() as u8;
        if self.facts.whole_rows { align } else { 0 }
    }

    /// Whether `stride * lane` stays below `1 << bits` for every lane.
    fn lanes_fit(&self, stride: i64, bits: u8) -> bool {
        stride >= 0 && bits < 63 && stride.saturating_mul(i64::from(self.gang) - 1) < 1 << bits
    }
}

impl Binary<'_> {
    fn variability(&self) -> Variability {
        match self.a.may_wrap.is_some() || self.b.may_wrap.is_some() {
            true => self.may_wrap(),
            false => self.affine(),
        }
    }

    /// The result of operands of constant strides.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others keep no stride")]
    fn affine(&self) -> Variability {
        let (a, b) = (self.a, self.b);
        let align = a.align.min(b.align);
        match self.op {
            IntBinaryOp::Add => self.of_stride(a.stride.wrapping_add(b.stride), align),
            // An `or` of values without common bits is a sum.
            IntBinaryOp::Or if self.has_no_common_bits() => {
                self.of_stride(a.stride.wrapping_add(b.stride), align)
            }
            IntBinaryOp::Sub => self.of_stride(a.stride.wrapping_sub(b.stride), align),
            IntBinaryOp::Mul => match (self.constant, self.func.as_const(a.value)) {
                (Some(factor), _) => self.multiple(a, factor),
                (_, Some(factor)) => self.multiple(b, factor as i64),
                _ => Variability::Varying,
            },
            IntBinaryOp::Shl => match self.count() {
                Some(count) => {
                    let align = (a.align + count as u8).min(31);
                    self.of_stride(a.stride.wrapping_shl(count), align)
                }
                None => Variability::Varying,
            },
            IntBinaryOp::SmulWide | IntBinaryOp::UmulWide => self.wide(),
            IntBinaryOp::And => match self.constant {
                Some(mask) => self.low_bits(mask),
                None => Variability::Varying,
            },
            IntBinaryOp::Ushr | IntBinaryOp::Sshr => match self.count() {
                // All lanes have the same bits above those that the lane number reaches.
                Some(count) if self.lanes_fit(a.align.min(count as u8)) => Variability::Uniform,
                _ => Variability::Varying,
            },
            _ => Variability::Varying,
        }
    }

    fn has_no_common_bits(&self) -> bool {
        let possible = |operand: Operand| possible_bits(self.func, operand.value);
        possible(self.a) & possible(self.b) == 0
    }

    /// The number of bits of a shift that does not shift out all of them, if it is constant.
    fn count(&self) -> Option<u32> {
        let count = u32::try_from(self.constant?).ok()?;
        (count < self.ty.bits()).then_some(count)
    }

    fn lanes_fit(&self, bits: u8) -> bool {
        self.divergence.lanes_fit(self.a.stride, bits)
    }

    fn of_stride(&self, stride: i64, align: u8) -> Variability {
        let stride = match self.ty {
            Type::B32 => i64::from(stride as i32),
            Type::B1 | Type::B8 | Type::B16 | Type::B64 => stride,
        };
        match stride {
            0 => Variability::Uniform,
            _ => Variability::affine(stride, align),
        }
    }

    fn multiple(&self, of: Operand, factor: i64) -> Variability {
        let align = (of.align + factor.trailing_zeros() as u8).min(31);
        self.of_stride(of.stride.wrapping_mul(factor), align)
    }

    /// `x & mask` for x with a base that is a multiple of `1 << align`.
    fn low_bits(&self, mask: i64) -> Variability {
        let Operand { stride, align, .. } = self.a;
        if self.lanes_fit(align) {
            // Lanes differ in these bits alone, and no carry leaves them for the base.
            let lanes = 0..i64::from(self.divergence.gang);
            let differ = lanes.fold(0, |bits, lane| bits | (stride * lane));
            if differ & !mask == 0 {
                return Variability::affine(stride, align);
            }
            if differ & mask == 0 {
                return Variability::Uniform;
            }
        }
        Variability::Varying
    }

    fn wide(&self) -> Variability {
        let Some(bits) = self.func.as_const(self.b.value) else {
            return Variability::Varying;
        };
        if self.b.stride != 0 || self.ty != Type::B32 {
            return Variability::Varying;
        }
        let is_signed = self.op == IntBinaryOp::SmulWide;
        let index = self.divergence.extend(self.func, is_signed, self.a.value);
        index.scaled(match is_signed {
            true => i64::from(bits as i32),
            false => bits as i64,
        })
    }

    /// The result where one operand stems from an index that may have wrapped.
    fn may_wrap(&self) -> Variability {
        let (a, b) = (self.a, self.b);
        let [sum, difference] = [
            a.stride.wrapping_add(b.stride),
            a.stride.wrapping_sub(b.stride),
        ];
        let scaled = |factor| self.divergence.variability(a.value).scaled(factor);
        match (self.op, a.may_wrap, b.may_wrap) {
            (IntBinaryOp::Add, Some(may_wrap), None) => self.sum(sum, may_wrap, b),
            (IntBinaryOp::Add, None, Some(may_wrap)) => self.sum(sum, may_wrap, a),
            (IntBinaryOp::Sub, Some(may_wrap), None) => self.sum(difference, may_wrap, b),
            (IntBinaryOp::Mul, Some(_), None) => self.constant.map_or(Variability::Varying, scaled),
            (IntBinaryOp::Shl, Some(_), None) => match self.constant {
                Some(count @ 0..14) => scaled(1 << count),
                _ => Variability::Varying,
            },
            _ => Variability::Varying,
        }
    }

    fn sum(&self, stride: i64, may_wrap: MayWrap, other: Operand) -> Variability {
        // Lanes that wrapped differ from the others even at stride zero.
        if stride == 0 {
            return Variability::Varying;
        }
        Variability::Affine {
            stride,
            align: self.a.align.min(self.b.align),
            may_wrap: Some(may_wrap.plus(is_small(self.func, other.value))),
        }
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
