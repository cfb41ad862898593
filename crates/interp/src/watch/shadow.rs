//! Which bits of values were never written, and how that spreads.
//!
//! A value has a *shadow*: a bit for each of its own, set where that was never written. Moves,
//! logic, shifts, permutations and choices are exact; a sum is spoilt from the lowest such bit up,
//! all other arithmetic as a whole. Comparisons are spoilt unless the bits that are known decide.

use ptxjit_ir::{
    CompareOp, FloatUnaryOp, InstData, IntBinaryOp, IntTernaryOp, IntUnaryOp, ResizeOp, Type, eval,
};

/// Where a value that was never written came from, as a number; 0 for none.
pub(crate) type OriginId = u32;

/// The shadow of a value.
#[derive(Copy, Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Shadow {
    /// Bits that were never written.
    pub(crate) bits: u64,
    pub(crate) origin: OriginId,
    /// The value was computed from such bits, not only moved.
    pub(crate) computed: bool,
}

impl Shadow {
    pub(crate) const NONE: Shadow = Shadow {
        bits: 0,
        origin: 0,
        computed: false,
    };

    pub(crate) fn is_clean(&self) -> bool {
        self.bits == 0
    }
}

/// The shadow of what an instruction without memory computes from `args`.
pub(crate) fn propagate(data: &InstData, args: &[u64], shadows: &[Shadow]) -> Shadow {
    let Some(first) = shadows.iter().find(|shadow| !shadow.is_clean()) else {
        return Shadow::NONE;
    };
    let was_computed = shadows
        .iter()
        .any(|shadow| shadow.computed && !shadow.is_clean());
    let bits: Vec<u64> = shadows.iter().map(|shadow| shadow.bits).collect();
    let (bits, moves) = spread(data, args, &bits);
    let computed = was_computed || !moves;
    match bits {
        0 => Shadow::NONE,
        bits => Shadow {
            bits,
            origin: first.origin,
            computed,
        },
    }
}

/// Bits of the result that are spoilt, and whether it is nothing but a move.
fn spread(data: &InstData, args: &[u64], shadows: &[u64]) -> (u64, bool) {
    match *data {
        InstData::IntUnary { op, ty, .. } => (unary(op, ty, shadows[0]), false),
        InstData::IntBinary { op, ty, .. } => binary(op, ty, args, shadows),
        InstData::IntTernary { op, .. } => ternary(op, data, args, shadows),
        InstData::Lop3 { lut, .. } => (lop3(lut, args, shadows), false),
        InstData::Bfi { .. } => by_parts(data, args, shadows, &[2, 3]),
        InstData::Resize { op, from, to, .. } => (resize(op, from, to, shadows[0]), true),
        InstData::Compare { op, ty, .. } => (compare(op, ty, args, shadows), false),
        InstData::Select { ty, .. } => select(ty, args, shadows),
        InstData::FloatUnary {
            op: FloatUnaryOp::Copy | FloatUnaryOp::CanonicalNan,
            ..
        } => (shadows[0], true),
        InstData::FloatCompare { .. } => (1, false),
        _ => (u64::MAX, false),
    }
}

fn unary(op: IntUnaryOp, ty: Type, shadow: u64) -> u64 {
    match op {
        IntUnaryOp::Not => shadow,
        IntUnaryOp::Brev => eval::int_unary(op, ty, shadow),
        IntUnaryOp::Neg => from_lowest(shadow),
        IntUnaryOp::Abs | IntUnaryOp::Popc | IntUnaryOp::Clz => u64::MAX,
    }
}

/// All bits from the lowest that is set.
fn from_lowest(shadow: u64) -> u64 {
    match shadow {
        0 => 0,
        shadow => u64::MAX << shadow.trailing_zeros(),
    }
}

fn binary(op: IntBinaryOp, ty: Type, args: &[u64], shadows: &[u64]) -> (u64, bool) {
    let ([a, b], [sa, sb]) = ([args[0], args[1]], [shadows[0], shadows[1]]);
    match op {
        // A bit that is known to be 0, or 1, decides.
        IntBinaryOp::And => (sa & (b | sb) | sb & (a | sa), false),
        IntBinaryOp::Or => (sa & (!b | sb) | sb & (!a | sa), false),
        IntBinaryOp::Xor => (sa | sb, false),
        IntBinaryOp::Shl | IntBinaryOp::Ushr | IntBinaryOp::Sshr => match sb {
            0 => (eval::int_binary(op, ty, sa, b), false),
            _ => (u64::MAX, false),
        },
        IntBinaryOp::Add | IntBinaryOp::Sub => (from_lowest(sa | sb), false),
        // Zeros at the end of a factor push the other's bits out.
        IntBinaryOp::Mul if sb == 0 && b & ty.mask() == 0 => (0, false),
        IntBinaryOp::Mul if sa == 0 && a & ty.mask() == 0 => (0, false),
        _ => (u64::MAX, false),
    }
}

fn ternary(op: IntTernaryOp, data: &InstData, args: &[u64], shadows: &[u64]) -> (u64, bool) {
    match op {
        IntTernaryOp::ShfL | IntTernaryOp::ShfR | IntTernaryOp::Prmt => {
            by_parts(data, args, shadows, &[2])
        }
        IntTernaryOp::UBfe | IntTernaryOp::SBfe => by_parts(data, args, shadows, &[1, 2]),
        _ => (u64::MAX, false),
    }
}

/// Of operations that put bits of operands in other places, as the `controls` say: the shadows go
/// the same way.
fn by_parts(data: &InstData, args: &[u64], shadows: &[u64], controls: &[usize]) -> (u64, bool) {
    if controls.iter().any(|&idx| shadows[idx] != 0) {
        return (u64::MAX, false);
    }
    let mut moved: Vec<u64> = shadows.to_vec();
    for &idx in controls {
        moved[idx] = args[idx];
    }
    (eval::inst(data, &moved).unwrap_or(u64::MAX), true)
}

/// A bit is spoilt if some choice of the bits that are not known changes it.
fn lop3(lut: u8, args: &[u64], shadows: &[u64]) -> u64 {
    let choices = |idx: usize, up: bool| match up {
        true => args[idx] | shadows[idx],
        false => args[idx] & !shadows[idx],
    };
    let (mut all, mut any) = (u64::MAX, 0);
    for choice in 0..8 {
        let [a, b, c] = [0, 1, 2].map(|idx| choices(idx, choice >> idx & 1 != 0));
        let result = eval::lop3(lut, a, b, c);
        all &= result;
        any |= result;
    }
    any & !all
}

fn resize(op: ResizeOp, from: Type, to: Type, shadow: u64) -> u64 {
    eval::resize(op, from, to, shadow & from.mask())
}

/// Compares the bounds that the known bits leave.
fn compare(op: CompareOp, ty: Type, args: &[u64], shadows: &[u64]) -> u64 {
    let mask = ty.mask();
    let [a, b] = [args[0] & mask, args[1] & mask];
    let [sa, sb] = [shadows[0] & mask, shadows[1] & mask];
    if sa | sb == 0 {
        return 0;
    }
    let known = !(sa | sb) & mask;
    if (a ^ b) & known != 0 && matches!(op, CompareOp::Eq | CompareOp::Ne) {
        return 0;
    }
    let is_signed = matches!(
        op,
        CompareOp::Slt | CompareOp::Sle | CompareOp::Sgt | CompareOp::Sge
    );
    // With the sign bit flipped, signed numbers are ordered as unsigned ones.
    let flip = if is_signed { mask ^ mask >> 1 } else { 0 };
    let bounds = |x: u64, shadow: u64| ((x ^ flip) & !shadow, (x ^ flip) | shadow);
    let ((low_a, high_a), (low_b, high_b)) = (bounds(a, sa), bounds(b, sb));
    let decided = match op {
        CompareOp::Eq | CompareOp::Ne => high_a < low_b || high_b < low_a,
        CompareOp::Slt | CompareOp::Ult | CompareOp::Sge | CompareOp::Uge => {
            high_a < low_b || low_a >= high_b
        }
        CompareOp::Sle | CompareOp::Ule | CompareOp::Sgt | CompareOp::Ugt => {
            high_a <= low_b || low_a > high_b
        }
    };
    u64::from(!decided)
}

fn select(ty: Type, args: &[u64], shadows: &[u64]) -> (u64, bool) {
    if shadows[0] & 1 == 0 {
        let chosen = if args[0] & 1 != 0 { 1 } else { 2 };
        return (shadows[chosen] & ty.mask(), true);
    }
    (
        (shadows[1] | shadows[2] | args[1] ^ args[2]) & ty.mask(),
        false,
    )
}

#[cfg(test)]
mod tests {
    use ptxjit_ir::{Value, eval};

    use super::*;

    fn int(op: IntBinaryOp, args: [u64; 2], shadows: [u64; 2]) -> u64 {
        let data = InstData::IntBinary {
            op,
            ty: Type::B8,
            args: [Value::from_u32(0); 2],
        };
        spread(&data, &args, &shadows).0 & 0xff
    }

    /// A bit is spoilt if two choices of the unknown bits of the operands give it different values.
    fn exact(op: IntBinaryOp, args: [u64; 2], shadows: [u64; 2]) -> u64 {
        let (mut all, mut any) = (0xff, 0);
        for choice in 0..=0xffff_u64 {
            let [a, b] = [0, 8].map(|shift| choice >> shift & 0xff);
            if a & !shadows[0] != 0 || b & !shadows[1] != 0 {
                continue;
            }
            let result = eval::int_binary(
                op,
                Type::B8,
                args[0] & !shadows[0] | a,
                args[1] & !shadows[1] | b,
            );
            all &= result;
            any |= result;
        }
        any & !all
    }

    #[test]
    fn logic_is_exact_and_the_rest_errs_on_one_side() {
        let cases = [
            (0x35, 0x0f, 0xc1, 0x11),
            (0x80, 0x80, 0x7f, 0),
            (0, 0xff, 0, 0),
            (0xf0, 0x0c, 0x2, 0),
        ];
        for (a, sa, b, sb) in cases {
            for op in [IntBinaryOp::And, IntBinaryOp::Or, IntBinaryOp::Xor] {
                let found = int(op, [a, b], [sa, sb]);
                assert_eq!(found, exact(op, [a, b], [sa, sb]), "{op} {a} {b}");
            }
            for op in [
                IntBinaryOp::Add,
                IntBinaryOp::Sub,
                IntBinaryOp::Mul,
                IntBinaryOp::Umax,
            ] {
                let missed = exact(op, [a, b], [sa, sb]) & !int(op, [a, b], [sa, sb]);
                assert_eq!(missed, 0, "{op} {a} {b}");
            }
        }
    }

    #[test]
    fn comparisons_are_spoilt_unless_known_bits_decide() {
        let result = |op, args: [u64; 2], shadows: [u64; 2]| compare(op, Type::B8, &args, &shadows);
        assert_eq!(result(CompareOp::Eq, [0x10, 0x20], [0x0f, 0]), 0);
        assert_eq!(result(CompareOp::Eq, [0x20, 0x20], [0x0f, 0]), 1);
        assert_eq!(result(CompareOp::Ult, [0x10, 0x20], [0x0f, 0]), 0);
        assert_eq!(result(CompareOp::Ult, [0x10, 0x18], [0x0f, 0]), 1);
        assert_eq!(result(CompareOp::Slt, [0x80, 0], [0x0f, 0]), 0);
        assert_eq!(result(CompareOp::Ult, [0xff, 0], [0xff, 0]), 0);
        assert_eq!(result(CompareOp::Ult, [0, 1], [0x01, 0]), 1);
    }
}
