//! NaNs, infinities, signed zeros, flushing and saturation: the ISA's tables and prose, case by
//! case.

use crate::eval::{atomic, convert, float_binary, float_compare, float_unary, fma};
use crate::{
    AtomicFmt, AtomicOp, Convert, FloatBinaryOp as B, FloatCompareOp, FloatFmt, FloatMode,
    FloatUnaryOp as U, NumFmt, Round,
};

const NAN: u64 = 0x7fff_ffff;
const INF: u64 = 0x7f80_0000;
const NEG: u64 = 0x8000_0000;
const ONE: u64 = 0x3f80_0000;
const FTZ: FloatMode = FloatMode {
    round: Round::Rn,
    ftz: true,
};
const RN: FloatMode = FloatMode::RN;

#[test]
fn approximations_at_special_values() {
    // (op, argument, result), f32
    let cases = [
        (U::RcpApprox, NEG | INF, NEG),
        (U::RcpApprox, NEG, NEG | INF),
        (U::RcpApprox, 0, INF),
        (U::RcpApprox, INF, 0),
        (U::SqrtApprox, NEG | INF, NAN),
        (U::SqrtApprox, NEG | ONE, NAN),
        (U::SqrtApprox, NEG, NEG),
        (U::SqrtApprox, INF, INF),
        (U::RsqrtApprox, NEG | INF, NAN),
        (U::RsqrtApprox, NEG | ONE, NAN),
        (U::RsqrtApprox, NEG, NEG | INF),
        (U::RsqrtApprox, 0, INF),
        (U::RsqrtApprox, INF, 0),
        (U::SinApprox, NEG | INF, NAN),
        (U::SinApprox, NEG, NEG),
        (U::SinApprox, 0, 0),
        (U::CosApprox, INF, NAN),
        (U::CosApprox, NEG, ONE),
        (U::Lg2Approx, NEG | INF, NAN),
        (U::Lg2Approx, NEG | ONE, NAN),
        (U::Lg2Approx, NEG, NEG | INF),
        (U::Lg2Approx, 0, NEG | INF),
        (U::Lg2Approx, INF, INF),
        (U::Ex2Approx, NEG | INF, 0),
        (U::Ex2Approx, NEG, ONE),
        (U::Ex2Approx, INF, INF),
        (U::TanhApprox, NEG | INF, NEG | ONE),
        (U::TanhApprox, NEG, NEG),
        (U::TanhApprox, INF, ONE),
        // Subnormals pass through.
        (U::TanhApprox, NEG | 5, NEG | 5),
    ];
    for (op, a, want) in cases {
        assert_eq!(float_unary(op, FloatFmt::F32, RN, a), want, "{op} {a:#x}");
        assert_eq!(float_unary(op, FloatFmt::F32, RN, NAN), NAN, "{op}");
    }
}

#[test]
fn approximations_of_subnormals_under_ftz() {
    let cases = [
        (U::RcpApprox, NEG | 1, NEG | INF),
        (U::SqrtApprox, NEG | 1, NEG),
        (U::RsqrtApprox, 1, INF),
        (U::Lg2Approx, NEG | 1, NEG | INF),
        (U::SinApprox, NEG | 1, NEG),
        (U::Ex2Approx, 1, ONE),
        // 2^127 has a subnormal reciprocal.
        (U::RcpApprox, 0x7f00_0000, 0),
    ];
    for (op, a, want) in cases {
        assert_eq!(float_unary(op, FloatFmt::F32, FTZ, a), want, "{op} {a:#x}");
    }
    assert_eq!(
        float_unary(U::RcpApprox, FloatFmt::F32, RN, 0x7f00_0000),
        0x0040_0000
    );
}

/// `rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64` see and write the high word only.
#[test]
fn high_word_approximations() {
    let nan = 0x7fff_ffff_0000_0000;
    let minus = 1 << 63;
    let inf = 0x7ff0_0000_0000_0000;
    let cases = [
        (U::RcpApprox, 2f64.to_bits(), 0.5f64.to_bits()),
        (U::RcpApprox, 2f64.to_bits() | 0xffff_ffff, 0.5f64.to_bits()),
        (U::RcpApprox, minus | inf, minus),
        (U::RcpApprox, minus | 7 << 32, minus | inf),
        (U::RcpApprox, 0, inf),
        (U::RcpApprox, 0x7ff8_0000_0000_0000, nan),
        // 2^1023 has a subnormal reciprocal.
        (U::RcpApprox, 0x7fe0_0000_0000_0000, 0),
        (U::RsqrtApprox, 16f64.to_bits(), 0.25f64.to_bits()),
        (U::RsqrtApprox, minus | inf, nan),
        (U::RsqrtApprox, minus | 7 << 32, minus | inf),
        (U::RsqrtApprox, inf, 0),
    ];
    for (op, a, want) in cases {
        assert_eq!(float_unary(op, FloatFmt::F64, FTZ, a), want, "{op} {a:#x}");
    }
    let third = float_unary(U::RcpApprox, FloatFmt::F64, FTZ, 3f64.to_bits());
    assert_eq!(third & 0xffff_ffff, 0);
    assert!((f64::from_bits(third) - 1.0 / 3.0).abs() < 1e-6);
}

#[test]
fn approximate_division() {
    let div = |op, a, b| float_binary(op, FloatFmt::F32, RN, a, b);
    // |b| above 2^126: zero of the quotient's sign, NaN for infinite a.
    assert_eq!(div(B::DivApprox, NEG | ONE, 0x7e80_0001), NEG);
    assert_eq!(div(B::DivApprox, INF, 0x7f00_0000), NAN);
    assert_eq!(div(B::DivApprox, ONE, 0x7e80_0000), 0x0080_0000);
    assert_eq!(div(B::DivFull, 0x7f00_0000, 0x7f00_0000), ONE);
    assert_eq!(div(B::DivFull, ONE, 0), INF);
    assert_eq!(div(B::DivApprox, 0, 0), NAN);
}

#[test]
fn minimum_and_maximum() {
    // (op, a, b, result), f32
    let cases = [
        (B::Min, 0, NEG, NEG),
        (B::Min, NEG, 0, NEG),
        (B::Max, NEG, 0, 0),
        (B::Min, NAN, ONE, ONE),
        (B::Max, ONE, 0x7f80_0001, ONE),
        (B::Min, 0xffc0_0000, 0x7fc0_0000, NAN),
        (B::MinNan, ONE, 0xff80_0001, NAN),
        (B::MaxNan, NEG | INF, ONE, ONE),
        (B::MinNan, NEG | INF, ONE, NEG | INF),
    ];
    for (op, a, b, want) in cases {
        assert_eq!(
            float_binary(op, FloatFmt::F32, RN, a, b),
            want,
            "{op} {a:#x} {b:#x}"
        );
    }
    // Flushed operands are zeros with their signs.
    assert_eq!(float_binary(B::Max, FloatFmt::F32, FTZ, 5, NEG | 7), 0);
    assert_eq!(
        float_binary(B::MinNan, FloatFmt::Bf16, RN, 0x3f80, 0x7f81),
        0x7fff
    );
    assert_eq!(float_binary(B::Max, FloatFmt::F16, RN, 0x8000, 0x0000), 0);
}

#[test]
fn sign_bit_ops_keep_payloads() {
    assert_eq!(
        float_unary(U::Neg, FloatFmt::F32, RN, 0x7fa1_2345),
        0xffa1_2345
    );
    assert_eq!(
        float_unary(U::Abs, FloatFmt::F64, RN, 0xfff0_0000_0000_0001),
        0x7ff0_0000_0000_0001
    );
    assert_eq!(float_unary(U::Neg, FloatFmt::F32, FTZ, 1), NEG);
    assert_eq!(float_unary(U::Copy, FloatFmt::F32, FTZ, NEG | 1), NEG);
    assert_eq!(float_unary(U::Copy, FloatFmt::F16, RN, 0x7c01), 0x7c01);
}

#[test]
fn saturation_and_relu() {
    let sat = |a| float_unary(U::Sat, FloatFmt::F32, RN, a);
    assert_eq!(
        [NAN, NEG, NEG | ONE, INF, 0x4000_0000, 0x3f00_0000, 1].map(sat),
        [0, 0, 0, ONE, ONE, 0x3f00_0000, 1]
    );
    let relu = |a| float_unary(U::Relu, FloatFmt::F16, RN, a);
    assert_eq!(
        [0xfe01, 0x7e01, 0x8000, 0xfc00, 0x3c00].map(relu),
        [0x7fff, 0x7fff, 0, 0, 0x3c00]
    );
}

#[test]
fn rounding_to_integers_in_place() {
    let cases = [
        (Round::Rn, 2.5f32, 2.0),
        (Round::Rn, -0.5, -0.0),
        (Round::Rz, -2.9, -2.0),
        (Round::Rm, -0.1, -1.0),
        (Round::Rm, -0.0, -0.0),
        (Round::Rp, -0.1, -0.0),
        (Round::Rp, 8_388_609.0, 8_388_609.0),
    ];
    for (round, x, want) in cases {
        let got = float_unary(
            U::RoundInt,
            FloatFmt::F32,
            FloatMode { round, ftz: false },
            x.to_bits().into(),
        );
        assert_eq!(got, u64::from(f32::to_bits(want)), "{round:?} {x}");
    }
    assert_eq!(float_unary(U::RoundInt, FloatFmt::F16, RN, 0x3e00), 0x4000);
}

/// f64 keeps the payload of its first NaN operand, and makes the NaN that x86 makes; the others
/// give the canonical NaN.
#[test]
fn nan_results() {
    let (first, second) = (0x7ff0_0000_0000_0123, 0xfff8_0000_0000_0456);
    let one = 1f64.to_bits();
    assert_eq!(
        float_binary(B::Add, FloatFmt::F64, RN, first, second),
        0x7ff8_0000_0000_0123
    );
    assert_eq!(fma(FloatFmt::F64, RN, one, one, second), second);
    let inf = f64::INFINITY.to_bits();
    assert_eq!(
        float_binary(B::Sub, FloatFmt::F64, RN, inf, inf),
        0xfff8_0000_0000_0000
    );
    assert_eq!(float_binary(B::Mul, FloatFmt::F32, RN, 0, INF), NAN);
    assert_eq!(
        float_binary(B::Add, FloatFmt::F32, RN, 0xffc0_1234, ONE),
        NAN
    );
    assert_eq!(fma(FloatFmt::Bf16, RN, 0x7f80, 0, 0x3f80), 0x7fff);
}

#[test]
fn comparisons() {
    use FloatCompareOp as C;
    let holds = |a, b| {
        C::ALL
            .iter()
            .copied()
            .filter(|&op| float_compare(op, FloatFmt::F32, false, a, b))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        holds(ONE, 0),
        [C::Ne, C::Gt, C::Ge, C::Neu, C::Gtu, C::Geu, C::Num]
    );
    assert_eq!(
        holds(NEG, 0),
        [C::Eq, C::Le, C::Ge, C::Equ, C::Leu, C::Geu, C::Num]
    );
    assert_eq!(
        holds(NAN, ONE),
        [C::Equ, C::Neu, C::Ltu, C::Leu, C::Gtu, C::Geu, C::Nan]
    );
    assert!(!float_compare(C::Eq, FloatFmt::F32, false, 1, 2));
    assert!(float_compare(C::Eq, FloatFmt::F32, true, 1, NEG | 2));
    assert!(float_compare(C::Lt, FloatFmt::Bf16, false, 0x3f80, 0x4000));
}

#[test]
fn conversions_to_integers_clamp() {
    let to = |from, to, a| {
        convert(
            &Convert {
                round: Round::Rz,
                ..Convert::new(from, to)
            },
            a,
        )
    };
    let f32s = |x: f32| u64::from(x.to_bits());
    assert_eq!(to(NumFmt::F32, NumFmt::S32, f32s(3e9)), 0x7fff_ffff);
    assert_eq!(to(NumFmt::F32, NumFmt::U8, f32s(-1.0)), 0);
    assert_eq!(to(NumFmt::F32, NumFmt::S8, f32s(-129.0)), 0x80);
    assert_eq!(to(NumFmt::F32, NumFmt::U64, INF), u64::MAX);
    // NaN: zero, or the indefinite integer where f64 or 64 bits are involved.
    assert_eq!(to(NumFmt::F32, NumFmt::S32, NAN), 0);
    assert_eq!(to(NumFmt::F32, NumFmt::U64, NAN), 1 << 63);
    assert_eq!(
        to(NumFmt::F64, NumFmt::S32, f64::NAN.to_bits()),
        0x8000_0000
    );
    assert_eq!(to(NumFmt::F64, NumFmt::U8, f64::NAN.to_bits()), 0x80);
    assert_eq!(to(NumFmt::F16, NumFmt::S16, 0x7e00), 0);
    // Flushed before rounding up.
    let up = Convert {
        round: Round::Rp,
        ftz: true,
        ..Convert::new(NumFmt::F32, NumFmt::S32)
    };
    assert_eq!(
        (convert(&up, 1), convert(&Convert { ftz: false, ..up }, 1)),
        (0, 1)
    );
}

#[test]
fn conversions_between_integers() {
    let sat = |from, to, a| {
        convert(
            &Convert {
                sat: true,
                ..Convert::new(from, to)
            },
            a,
        )
    };
    assert_eq!(sat(NumFmt::S32, NumFmt::U8, 0xffff_ffff), 0);
    assert_eq!(sat(NumFmt::S32, NumFmt::S8, 200), 127);
    assert_eq!(sat(NumFmt::U64, NumFmt::S64, u64::MAX), i64::MAX as u64);
    assert_eq!(sat(NumFmt::S64, NumFmt::U64, u64::MAX), 0);
    assert_eq!(
        convert(&Convert::new(NumFmt::S8, NumFmt::U32), 0x80),
        0xffff_ff80
    );
    assert_eq!(
        convert(&Convert::new(NumFmt::U64, NumFmt::S16), 0x1_8000),
        0x8000
    );
}

#[test]
fn conversions_between_floats() {
    let to = |cvt: Convert, a| convert(&cvt, a);
    let narrow = Convert::new(NumFmt::F64, NumFmt::F32);
    assert_eq!(to(narrow, 0xfffc_0000_2000_0000), 0xffe0_0001);
    assert_eq!(to(narrow, 0x7ff0_0000_0000_0003), 0x7fc0_0000);
    assert_eq!(
        to(
            Convert {
                sat: true,
                ..narrow
            },
            (-0.0f64).to_bits()
        ),
        0
    );
    assert_eq!(
        to(
            Convert {
                sat: true,
                ..narrow
            },
            1.5f64.to_bits()
        ),
        ONE
    );
    assert_eq!(
        to(
            Convert {
                ftz: true,
                ..narrow
            },
            (-1e-40f64).to_bits()
        ),
        NEG
    );
    assert_eq!(
        to(
            Convert {
                round: Round::Rz,
                ..narrow
            },
            1e300f64.to_bits()
        ),
        INF - 1
    );
    // A copy keeps the payload, and flushes where told to.
    let copy = Convert::new(NumFmt::F32, NumFmt::F32);
    assert_eq!(to(copy, 0x7f80_0001), 0x7f80_0001);
    assert_eq!(to(Convert { ftz: true, ..copy }, 1), 0);
    assert_eq!(
        to(
            Convert {
                integral: true,
                round: Round::Rp,
                ..copy
            },
            1
        ),
        ONE
    );
}

#[test]
fn atomics() {
    use AtomicFmt as F;
    // (op, format, old, operands, new)
    let cases: [(AtomicOp, F, u64, &[u64], u64); 19] = [
        (AtomicOp::Exch, F::B64, 1, &[2], 2),
        (AtomicOp::Cas, F::B16, 0x1_0005, &[5, 9], 9),
        (AtomicOp::Cas, F::B32, 4, &[5, 9], 4),
        (AtomicOp::Add, F::U32, 0xffff_ffff, &[2], 1),
        (AtomicOp::Inc, F::U32, 3, &[4], 4),
        (AtomicOp::Inc, F::U32, 4, &[4], 0),
        (AtomicOp::Inc, F::U32, 9, &[4], 0),
        (AtomicOp::Dec, F::U32, 0, &[4], 4),
        (AtomicOp::Dec, F::U32, 9, &[4], 4),
        (AtomicOp::Dec, F::U32, 4, &[4], 3),
        (AtomicOp::Min, F::S32, 1, &[0xffff_ffff], 0xffff_ffff),
        (AtomicOp::Min, F::U32, 1, &[0xffff_ffff], 1),
        (AtomicOp::Max, F::S64, u64::MAX, &[0], 0),
        (AtomicOp::Max, F::U64, u64::MAX, &[0], u64::MAX),
        (AtomicOp::And, F::B32, 0b1100, &[0b1010], 0b1000),
        (AtomicOp::Or, F::B32, 0b1100, &[0b1010], 0b1110),
        (AtomicOp::Xor, F::B32, 0b1100, &[0b1010], 0b0110),
        // 1 + 2 and 0.5 + 0.5 in the halves.
        (
            AtomicOp::Add,
            F::F16x2,
            0x3800_3c00,
            &[0x3800_4000],
            0x3c00_4200,
        ),
        (
            AtomicOp::Max,
            F::Bf16x2,
            0x3f80_7fc0,
            &[0x4000_3f80],
            0x4000_3f80,
        ),
    ];
    for (op, fmt, old, args, want) in cases {
        assert_eq!(
            atomic(op, fmt, old, args, false),
            want,
            "{op} {fmt:?} {old:#x}"
        );
    }
    assert_eq!(atomic(AtomicOp::Add, F::F32, 1, &[1], true), 0);
    assert_eq!(atomic(AtomicOp::Add, F::F32, 1, &[1], false), 2);
    assert_eq!(atomic(AtomicOp::Add, F::F64, 1, &[1], true), 2);
    assert_eq!(atomic(AtomicOp::Cas, F::B32, 0, &[], false), 0);
}
