//! Integer ops: values worked by hand from the pseudo-code of the PTX ISA.

use crate::eval::{bfi, compare, int_binary, int_ternary, int_unary, lop3, resize};
use crate::{CompareOp, IntBinaryOp as B, IntTernaryOp as T, IntUnaryOp as U, ResizeOp, Type};

#[test]
fn unary() {
    let cases = [
        (U::Not, Type::B1, 1, 0),
        (U::Not, Type::B16, 0x00ff, 0xff00),
        (U::Neg, Type::B32, 1, 0xffff_ffff),
        (U::Neg, Type::B8, 0x80, 0x80),
        (U::Abs, Type::B32, 0xffff_fffb, 5),
        (U::Abs, Type::B16, 0x8000, 0x8000),
        (U::Abs, Type::B64, 1 << 63, 1 << 63),
        (U::Popc, Type::B64, u64::MAX, 64),
        (U::Popc, Type::B32, 0xffff_ffff_0000_0001, 1),
        (U::Clz, Type::B32, 0, 32),
        (U::Clz, Type::B64, 1, 63),
        (U::Clz, Type::B16, 0x0100, 7),
        (U::Brev, Type::B32, 1, 0x8000_0000),
        (U::Brev, Type::B8, 0b0000_0110, 0b0110_0000),
        (
            U::Brev,
            Type::B64,
            0x8000_0000_0000_0001,
            0x8000_0000_0000_0001,
        ),
    ];
    for (op, ty, a, want) in cases {
        assert_eq!(int_unary(op, ty, a), want, "{op} {ty} {a:#x}");
    }
}

#[test]
fn arithmetic() {
    let cases = [
        (B::Add, Type::B8, 0xff, 2, 1),
        (B::Sub, Type::B64, 0, 1, u64::MAX),
        (B::Mul, Type::B16, 0x1234, 0x5678, 0x0060),
        (B::UmulHi, Type::B32, 0xffff_ffff, 0xffff_ffff, 0xffff_fffe),
        (B::SmulHi, Type::B32, 0xffff_ffff, 0xffff_ffff, 0),
        (B::SmulHi, Type::B32, 0x8000_0000, 3, 0xffff_fffe),
        (B::UmulHi, Type::B64, u64::MAX, u64::MAX, u64::MAX - 1),
        (B::SmulHi, Type::B64, 1 << 63, 2, u64::MAX),
        (B::UmulWide, Type::B16, 0xffff, 0xffff, 0xfffe_0001),
        (B::SmulWide, Type::B16, 0xffff, 2, 0xffff_fffe),
        (B::UmulWide, Type::B32, 0xffff_ffff, 2, 0x1_ffff_fffe),
        (B::SmulWide, Type::B32, 0xffff_ffff, 2, u64::MAX - 1),
        (B::Udiv, Type::B32, 7, 2, 3),
        (B::Udiv, Type::B32, 7, 0, 0xffff_ffff),
        (B::Udiv, Type::B64, 7, 0, u64::MAX),
        (B::Sdiv, Type::B32, 0xffff_fff9, 2, 0xffff_fffd),
        (B::Sdiv, Type::B32, 0x8000_0000, 0xffff_ffff, 0x8000_0000),
        (B::Sdiv, Type::B64, 1 << 63, u64::MAX, 1 << 63),
        (B::Sdiv, Type::B16, 5, 0, 0xffff),
        (B::Urem, Type::B32, 7, 0, 0xffff_ffff),
        (B::Urem, Type::B64, 7, 0, u64::MAX),
        (B::Urem, Type::B16, 7, 0, 0xffff),
        (B::Urem, Type::B16, 7, 4, 3),
        (B::Srem, Type::B32, 0xffff_fff9, 2, 0xffff_ffff),
        (B::Srem, Type::B32, 0x8000_0000, 0xffff_ffff, 0),
        (B::Srem, Type::B64, 1 << 63, u64::MAX, 0),
        (B::Srem, Type::B64, 5, 0, u64::MAX),
        (B::SaddSat, Type::B32, 0x7fff_ffff, 1, 0x7fff_ffff),
        (B::SaddSat, Type::B32, 0x8000_0000, 0xffff_ffff, 0x8000_0000),
        (B::SsubSat, Type::B64, 0, 1 << 63, i64::MAX as u64),
        (B::SsubSat, Type::B16, 0x8000, 1, 0x8000),
    ];
    check_binary(&cases);
}

#[test]
fn logic_shifts_and_bounds() {
    let cases = [
        (B::And, Type::B1, 3, 1, 1),
        (B::Or, Type::B32, 0xf0, 0x0f, 0xff),
        (B::Xor, Type::B16, 0xffff, 0x00ff, 0xff00),
        // The count is 32 bits wide, whatever the type, and is clamped.
        (B::Shl, Type::B16, 1, 15, 0x8000),
        (B::Shl, Type::B16, 1, 16, 0),
        (B::Shl, Type::B64, 1, 63, 1 << 63),
        (B::Shl, Type::B64, 1, 64, 0),
        (B::Shl, Type::B64, 1, 0x1_0000_0001, 2),
        (B::Shl, Type::B32, 1, 0xffff_ffff, 0),
        (B::Ushr, Type::B32, 0x8000_0000, 31, 1),
        (B::Ushr, Type::B32, 0x8000_0000, 32, 0),
        (B::Sshr, Type::B32, 0x8000_0000, 4, 0xf800_0000),
        (B::Sshr, Type::B32, 0x8000_0000, 0xffff_ffff, 0xffff_ffff),
        (B::Sshr, Type::B64, 1 << 62, 100, 0),
        (B::Smin, Type::B32, 0xffff_ffff, 1, 0xffff_ffff),
        (B::Umin, Type::B32, 0xffff_ffff, 1, 1),
        (B::Smax, Type::B16, 0x8000, 0x7fff, 0x7fff),
        (B::Umax, Type::B16, 0x8000, 0x7fff, 0x8000),
    ];
    check_binary(&cases);
}

fn check_binary(cases: &[(B, Type, u64, u64, u64)]) {
    for &(op, ty, a, b, want) in cases {
        assert_eq!(int_binary(op, ty, a, b), want, "{op} {ty} {a:#x} {b:#x}");
    }
}

/// High halves against a 128-bit product by schoolbook parts.
#[test]
fn high_products() {
    let numbers = [
        0,
        1,
        2,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        0x1234_5678_9abc_def0,
        1 << 63,
        (1 << 63) - 1,
        u64::MAX,
    ];
    for a in numbers {
        for b in numbers {
            let (ah, al, bh, bl) = (a >> 32, a & 0xffff_ffff, b >> 32, b & 0xffff_ffff);
            let mid = ah * bl + ((al * bl) >> 32);
            let high = ah * bh + (mid >> 32) + (((mid & 0xffff_ffff) + al * bh) >> 32);
            assert_eq!(int_binary(B::UmulHi, Type::B64, a, b), high);
            let correction =
                if a >> 63 != 0 { b } else { 0 }.wrapping_add(if b >> 63 != 0 { a } else { 0 });
            assert_eq!(
                int_binary(B::SmulHi, Type::B64, a, b),
                high.wrapping_sub(correction)
            );
        }
    }
}

#[test]
fn ternary() {
    let cases = [
        (T::ShfL, 0x1111_1111, 0x2222_2222, 4, 0x2222_2221),
        (T::ShfL, 0x1111_1111, 0x2222_2222, 0, 0x2222_2222),
        (T::ShfL, 0x1111_1111, 0x2222_2222, 32, 0x1111_1111),
        (T::ShfL, 0x1111_1111, 0x2222_2222, 99, 0x1111_1111),
        (T::ShfR, 0x1111_1111, 0x2222_2222, 4, 0x2111_1111),
        (T::ShfR, 0x1111_1111, 0x2222_2222, 0, 0x1111_1111),
        (T::ShfR, 0x1111_1111, 0x2222_2222, 32, 0x2222_2222),
        // Bytes 7..0 of {b, a}: 77 66 55 44 33 22 91 00.
        (T::Prmt, 0x3322_9100, 0x7766_5544, 0x7531, 0x7755_3391),
        (T::Prmt, 0x3322_9100, 0x7766_5544, 0x9a01, 0xff00_0091),
        (T::UBfe, 0xabcd_1234, 8, 8, 0x12),
        (T::UBfe, 0xabcd_1234, 24, 16, 0xab),
        (T::UBfe, 0xabcd_1234, 40, 8, 0),
        (T::UBfe, 0xabcd_1234, 0x108, 0x204, 0x2),
        (T::SBfe, 0xabcd_1234, 24, 8, 0xffff_ffab),
        (T::SBfe, 0xabcd_1234, 28, 16, 0xffff_fffa),
        (T::SBfe, 0xabcd_1234, 40, 8, 0xffff_ffff),
        (T::SBfe, 0xabcd_1234, 40, 0, 0),
        (T::SBfe, 0x4bcd_1234, 40, 8, 0),
        (T::SBfe, 0xabcd_1234, 0, 32, 0xabcd_1234),
        (T::Fns, 0xffff_ffff, 3, 1, 3),
        (T::Fns, 0xffff_ffff, 3, 0xffff_ffff, 3),
        (T::Fns, 0xffff_ffff, 2, 0xffff_fffe, 1),
        (T::Fns, 0x0000_0100, 3, 0, 0xffff_ffff),
        (T::Fns, 0x8000_0001, 1, 1, 31),
        (T::Fns, 0x8000_0001, 1, 2, 0xffff_ffff),
        (T::Fns, 0xffff_ffff, 31, 0x8000_0000, 0xffff_ffff),
        (
            T::Dp4aUU,
            0x01ff_0203,
            0x02ff_0401,
            10,
            2 + 255 * 255 + 8 + 3 + 10,
        ),
        (T::Dp4aSS, 0x01ff_0203, 0x02ff_0401, 10, 2 + 1 + 8 + 3 + 10),
        (
            T::Dp4aUS,
            0x00ff_0000,
            0x00ff_0000,
            0,
            (-255i32) as u32 as u64,
        ),
        (
            T::Dp4aSU,
            0x00ff_0000,
            0x00ff_0000,
            0xffff_ffff,
            (-256i32) as u32 as u64,
        ),
        (
            T::Dp2aLoUU,
            0xffff_0002,
            0x0705_ff03,
            1,
            6 + 0xffff * 255 + 1,
        ),
        (T::Dp2aLoSS, 0xffff_0002, 0x0705_ff03, 1, 6 + 1 + 1),
        (
            T::Dp2aLoSU,
            0xffff_0002,
            0x0705_ff03,
            1,
            (6 - 255 + 1i32) as u32 as u64,
        ),
        (
            T::Dp2aLoUS,
            0xffff_0002,
            0x0705_ff03,
            1,
            (6 - 65535 + 1i32) as u32 as u64,
        ),
        (
            T::Dp2aHiUU,
            0xffff_0002,
            0x0705_ff03,
            1,
            10 + 0xffff * 7 + 1,
        ),
        (T::Dp2aHiSS, 0xffff_0002, 0xff05_ff03, 0, 10 + 1),
        (
            T::Dp2aHiSU,
            0xffff_0002,
            0xff05_ff03,
            0,
            (10 - 255i32) as u32 as u64,
        ),
        (
            T::Dp2aHiUS,
            0xffff_0002,
            0xff05_ff03,
            0,
            (10 - 65535i32) as u32 as u64,
        ),
    ];
    for (op, a, b, c, want) in cases {
        assert_eq!(
            int_ternary(op, Type::B32, a, b, c),
            want,
            "{op} {a:#x} {b:#x} {c:#x}"
        );
    }
    assert_eq!(int_ternary(T::UBfe, Type::B64, u64::MAX, 60, 8), 0xf);
    assert_eq!(int_ternary(T::SBfe, Type::B64, 1 << 63, 60, 8), !0x7);
    assert_eq!(int_ternary(T::SBfe, Type::B64, u64::MAX, 0, 64), u64::MAX);
    assert_eq!(int_ternary(T::UBfe, Type::B64, u64::MAX, 255, 255), 0);
}

#[test]
fn bit_field_insert() {
    // (type, a, b, position, length)
    let cases = [
        (Type::B32, 0xff, 0, 8, 4, 0xf00),
        (Type::B32, 0, 0xffff_ffff, 8, 8, 0xffff_00ff),
        (Type::B32, 0xff, 0x1234_5678, 28, 16, 0xf234_5678),
        (Type::B32, 0xff, 0x1234_5678, 32, 8, 0x1234_5678),
        (Type::B32, 0xff, 0x1234_5678, 8, 0, 0x1234_5678),
        (Type::B32, 0xff, 0x1234_5678, 0x100, 0x108, 0x1234_56ff),
        (Type::B64, 0x1234, 0, 48, 255, 0x1234_0000_0000_0000),
        (Type::B64, u64::MAX, 5, 0, 64, u64::MAX),
    ];
    for (ty, a, b, pos, len, want) in cases {
        assert_eq!(
            bfi(ty, a, b, pos, len),
            want,
            "{ty} {a:#x} {b:#x} {pos} {len}"
        );
    }
}

/// The table of the ISA: applying the function to 0xf0, 0xcc, 0xaa gives its own lookup table.
#[test]
fn lookup_tables_reproduce_themselves() {
    for lut in 0..=255 {
        assert_eq!(lop3(lut, 0xf0, 0xcc, 0xaa) & 0xff, u64::from(lut));
    }
    assert_eq!(lop3(0xf0 & 0xcc, u64::MAX, u64::MAX, 0), 0xffff_ffff);
}

#[test]
fn widths_and_comparisons() {
    assert_eq!(resize(ResizeOp::Trunc, Type::B64, Type::B8, 0x1ff), 0xff);
    assert_eq!(resize(ResizeOp::Uext, Type::B8, Type::B64, 0xfff), 0xff);
    assert_eq!(
        resize(ResizeOp::Sext, Type::B8, Type::B32, 0x80),
        0xffff_ff80
    );
    assert_eq!(resize(ResizeOp::Sext, Type::B1, Type::B16, 1), 0xffff);
    assert_eq!(resize(ResizeOp::Uext, Type::B1, Type::B32, 1), 1);
    let (minus_one, one) = (0xffff_ffff, 1);
    let holds = |op| compare(op, Type::B32, minus_one, one);
    let want = [
        false, true, true, true, false, false, false, false, true, true,
    ];
    assert_eq!(
        CompareOp::ALL
            .iter()
            .map(|&op| holds(op))
            .collect::<Vec<_>>(),
        want
    );
    assert!(
        CompareOp::ALL
            .iter()
            .filter(|&&op| compare(op, Type::B64, 7, 7))
            .count()
            == 5
    );
}
