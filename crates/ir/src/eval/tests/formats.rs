//! The narrow formats, exhaustively, against values decoded from their definition.

use crate::eval::softfloat::Layout;
use crate::eval::{convert, convert_rs};
use crate::{Convert, NumFmt, Round};

/// The value of an encoding by the formula of its format: exponent and mantissa widths, bias, and
/// the first magnitude that is no number.
fn value(exp_bits: i32, man_bits: i32, bias: i32, bits: u64) -> f64 {
    let man = bits & ((1 << man_bits) - 1);
    let exp = (bits >> man_bits & ((1 << exp_bits) - 1)) as i32;
    let sign = if bits >> (exp_bits + man_bits) & 1 != 0 {
        -1.0
    } else {
        1.0
    };
    let fraction = man as f64 / 2f64.powi(man_bits);
    sign * if exp == 0 {
        fraction * 2f64.powi(1 - bias)
    } else {
        (1.0 + fraction) * 2f64.powi(exp - bias)
    }
}

/// (format, exponent bits, mantissa bits, bias, greatest finite magnitude), from the ISA's
/// "Alternate Floating-Point Data Formats" and the OCP definitions.
const FORMATS: [(NumFmt, i32, i32, i32, u64); 7] = [
    (NumFmt::E4m3, 4, 3, 7, 0x7e),
    (NumFmt::E5m2, 5, 2, 15, 0x7b),
    (NumFmt::E2m3, 2, 3, 1, 0x1f),
    (NumFmt::E3m2, 3, 2, 3, 0x1f),
    (NumFmt::E2m1, 2, 1, 1, 0x7),
    (NumFmt::F16, 5, 10, 15, 0x7bff),
    (NumFmt::Bf16, 8, 7, 127, 0x7f7f),
];

fn f32_of(fmt: NumFmt, bits: u64) -> f32 {
    f32::from_bits(convert(&Convert::new(fmt, NumFmt::F32), bits) as u32)
}

#[test]
fn every_encoding_decodes() {
    for (fmt, exp_bits, man_bits, bias, max) in FORMATS {
        let sign = 1 << (exp_bits + man_bits);
        for magnitude in 0..=max {
            for bits in [magnitude, magnitude | sign] {
                let (got, want) = (f32_of(fmt, bits), value(exp_bits, man_bits, bias, bits));
                assert_eq!(
                    f64::from(got).to_bits(),
                    want.to_bits(),
                    "{fmt:?} {bits:#x}"
                );
            }
        }
        for magnitude in max + 1..sign {
            let got = f32_of(fmt, magnitude);
            let is_inf =
                matches!(fmt, NumFmt::E5m2 | NumFmt::F16 | NumFmt::Bf16) && magnitude == max + 1;
            assert!(
                if is_inf {
                    got == f32::INFINITY
                } else {
                    got.is_nan()
                },
                "{fmt:?} {magnitude:#x}"
            );
        }
    }
    assert_eq!(f32_of(NumFmt::E4m3, 0x7e), 448.0);
    assert_eq!(f32_of(NumFmt::E5m2, 0x7b), 57344.0);
    assert_eq!(f32_of(NumFmt::E2m3, 0x1f), 7.5);
    assert_eq!(f32_of(NumFmt::E3m2, 0x1f), 28.0);
    assert_eq!(f32_of(NumFmt::E2m1, 0x7), 6.0);
}

/// Between every two neighbours: the numbers themselves, points just beside them, the midpoint and
/// points just beside it.
#[test]
fn every_interval_rounds() {
    for (fmt, exp_bits, man_bits, bias, max) in FORMATS {
        let sign = 1u64 << (exp_bits + man_bits);
        for low in 0..max {
            let (a, b) = (
                value(exp_bits, man_bits, bias, low),
                value(exp_bits, man_bits, bias, low + 1),
            );
            let middle = (a + b) / 2.0;
            let even = if low % 2 == 0 { low } else { low + 1 };
            let below = |x: f64| f64::from_bits(x.to_bits() - 1);
            let above = |x: f64| f64::from_bits(x.to_bits() + 1);
            // (x, to nearest, ties away); toward zero gives `low` except at `b`.
            let points = [
                (a, low, low),
                (above(a), low, low),
                (below(middle), low, low),
                (middle, even, low + 1),
                (above(middle), low + 1, low + 1),
                (below(b), low + 1, low + 1),
            ];
            for (x, nearest, away) in points {
                let exact = x == a;
                let up = if exact { low } else { low + 1 };
                let want = [
                    (Round::Rn, nearest),
                    (Round::Rna, away),
                    (Round::Rz, low),
                    (Round::Rm, low),
                    (Round::Rp, up),
                ];
                for (round, want) in want {
                    let cvt = Convert {
                        round,
                        satfinite: true,
                        ..Convert::new(NumFmt::F64, fmt)
                    };
                    assert_eq!(convert(&cvt, x.to_bits()), want, "{fmt:?} {x:e} {round:?}");
                }
                // Mirrored: downward for negative numbers is upward for positive ones.
                let cvt = Convert {
                    round: Round::Rm,
                    satfinite: true,
                    ..Convert::new(NumFmt::F64, fmt)
                };
                assert_eq!(convert(&cvt, (-x).to_bits()), up | sign, "{fmt:?} {:e}", -x);
            }
        }
    }
}

#[test]
#[expect(clippy::wildcard_enum_match_arm, reason = "others saturate to it")]
fn beyond_the_greatest_number() {
    let huge = 1e38f64;
    for (fmt, exp_bits, man_bits, _, max) in FORMATS {
        let sign = 1u64 << (exp_bits + man_bits);
        let huge = if fmt == NumFmt::Bf16 { 1e39 } else { huge };
        for x in [huge, f64::INFINITY] {
            let finite = Convert {
                satfinite: true,
                ..Convert::new(NumFmt::F64, fmt)
            };
            assert_eq!(convert(&finite, x.to_bits()), max, "{fmt:?}");
            assert_eq!(convert(&finite, (-x).to_bits()), max | sign, "{fmt:?}");
            let relu = Convert {
                relu: true,
                ..finite
            };
            assert_eq!(convert(&relu, (-x).to_bits()), 0, "{fmt:?}");
        }
        let nan = convert(
            &Convert {
                satfinite: true,
                ..Convert::new(NumFmt::F64, fmt)
            },
            f64::NAN.to_bits(),
        );
        let want = match fmt {
            NumFmt::E2m3 | NumFmt::E3m2 | NumFmt::E2m1 => max,
            NumFmt::F16 | NumFmt::Bf16 => 0x7fff,
            _ => 0x7f,
        };
        assert_eq!(nan, want, "{fmt:?}");
    }
}

#[test]
fn powers_of_two_in_ue8m0() {
    let cvt = |round, satfinite| Convert {
        round,
        satfinite,
        ..Convert::new(NumFmt::F32, NumFmt::Ue8m0)
    };
    let cases = [
        (1.0f32, 127, 127),
        (-1.0, 127, 127),
        (1.5, 127, 128),
        (0.0, 0, 0),
        (f32::from_bits(0x0080_0000), 1, 1),
        (f32::from_bits(0x0080_0001), 1, 2),
        // 2^-127 is the least power; below it everything is.
        (f32::from_bits(0x0040_0000), 0, 0),
        (f32::from_bits(0x0040_0001), 0, 1),
        (f32::from_bits(0x0000_0001), 0, 0),
        (f32::MAX, 254, 255),
        (f32::INFINITY, 255, 255),
        (f32::NAN, 255, 255),
    ];
    for (x, down, up) in cases {
        let bits = u64::from(x.to_bits());
        assert_eq!(convert(&cvt(Round::Rz, false), bits), down, "{x:e}");
        assert_eq!(convert(&cvt(Round::Rp, false), bits), up, "{x:e}");
        let finite = if x.is_nan() { 255 } else { up.min(254) };
        assert_eq!(convert(&cvt(Round::Rp, true), bits), finite, "{x:e}");
    }
    let back = Convert::new(NumFmt::Ue8m0, NumFmt::Bf16);
    assert_eq!(
        [0, 1, 127, 254, 255].map(|bits| convert(&back, bits)),
        [0x0040, 0x0080, 0x3f80, 0x7f00, 0x7fff]
    );
}

#[test]
fn tf32_keeps_ten_bits() {
    let cvt = |round| Convert {
        round,
        ..Convert::new(NumFmt::F32, NumFmt::Tf32)
    };
    assert_eq!(convert(&cvt(Round::Rna), 0x3f80_1000), 0x3f80_2000);
    assert_eq!(convert(&cvt(Round::Rn), 0x3f80_1000), 0x3f80_0000);
    assert_eq!(convert(&cvt(Round::Rz), 0x3f80_1fff), 0x3f80_0000);
    assert_eq!(convert(&cvt(Round::Rna), 0x7f7f_ffff), 0x7f80_0000);
    let finite = Convert {
        satfinite: true,
        ..cvt(Round::Rna)
    };
    assert_eq!(convert(&finite, 0x7f7f_ffff), 0x7f7f_e000);
    assert!(Layout::F32.is_nan(convert(&cvt(Round::Rna), 0x7f80_0001)));
}

/// No random bits truncate; all ones go away from zero unless the number is exact; half the range
/// does so for half of it.
#[test]
fn stochastic_rounding() {
    let cvt = Convert {
        relu: false,
        satfinite: true,
        ..Convert::new(NumFmt::F32, NumFmt::F16)
    };
    let one_and = |tail: u64| 0x3f80_0000 | tail;
    assert_eq!(convert_rs(&cvt, one_and(0x1fff), 0), 0x3c00);
    assert_eq!(convert_rs(&cvt, one_and(0x0001), 0xffff_ffff), 0x3c01);
    assert_eq!(convert_rs(&cvt, one_and(0), 0xffff_ffff), 0x3c00);
    // 0x1000 of 0x2000 discarded: carries with 0x80000000 and not with anything less.
    assert_eq!(convert_rs(&cvt, one_and(0x1000), 0x8000_0000), 0x3c01);
    assert_eq!(convert_rs(&cvt, one_and(0x1000), 0x7fff_ffff), 0x3c00);
    assert_eq!(
        convert_rs(&cvt, 0x8000_0000 | one_and(0x1000), 0x8000_0000),
        0xbc01
    );
    assert_eq!(convert_rs(&cvt, 0x7f7f_ffff, 0), 0x7bff);
}
