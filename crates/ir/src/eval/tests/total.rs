//! Every op returns for every kind of operand, with no bits above the result's width.

use crate::eval::{
    atomic, convert, convert_rs, float_binary, float_compare, float_unary, fma, inst, int_binary,
    int_ternary, int_unary,
};
use crate::{
    AtomicFmt, AtomicOp, Convert, Effect, FloatBinaryOp, FloatCompareOp, FloatFmt, FloatMode,
    FloatUnaryOp, InstData, IntBinaryOp, IntTernaryOp, IntUnaryOp, NumFmt, Round, SpecialReg, Type,
    Value,
};

/// Bits at the ends of every width, and patterns in between.
const CORNERS: [u64; 16] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7c00,
    0x7fff,
    0x8000,
    0xffff,
    0x007f_ffff,
    0x7f7f_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7ff0_0000_0000_0001,
    1 << 63,
    u64::MAX,
];

const TYPES: [Type; 5] = [Type::B1, Type::B8, Type::B16, Type::B32, Type::B64];
const FMTS: [FloatFmt; 4] = [FloatFmt::F16, FloatFmt::Bf16, FloatFmt::F32, FloatFmt::F64];
const ROUNDS: [Round; 5] = [Round::Rn, Round::Rna, Round::Rz, Round::Rm, Round::Rp];
const NUMS: [NumFmt; 19] = [
    NumFmt::U8,
    NumFmt::U16,
    NumFmt::U32,
    NumFmt::U64,
    NumFmt::S8,
    NumFmt::S16,
    NumFmt::S32,
    NumFmt::S64,
    NumFmt::F16,
    NumFmt::Bf16,
    NumFmt::F32,
    NumFmt::F64,
    NumFmt::Tf32,
    NumFmt::E4m3,
    NumFmt::E5m2,
    NumFmt::E2m3,
    NumFmt::E3m2,
    NumFmt::E2m1,
    NumFmt::Ue8m0,
];

#[test]
fn integers() {
    for ty in TYPES {
        for (a, b) in CORNERS.into_iter().flat_map(|a| CORNERS.map(|b| (a, b))) {
            for &op in IntUnaryOp::ALL {
                assert!(int_unary(op, ty, a) <= ty.mask().max(64));
            }
            for &op in IntBinaryOp::ALL {
                let is_wide = matches!(op, IntBinaryOp::UmulWide | IntBinaryOp::SmulWide);
                assert!(
                    is_wide || int_binary(op, ty, a, b) <= ty.mask(),
                    "{op} {ty} {a:#x} {b:#x}"
                );
                int_binary(op, ty, a, b);
            }
            for (&op, c) in IntTernaryOp::ALL
                .iter()
                .flat_map(|op| CORNERS.map(|c| (op, c)))
            {
                let result = int_ternary(op, ty, a, b, c);
                assert!(
                    result <= ty.mask().max(Type::B32.mask()),
                    "{op} {ty} {a:#x} {b:#x} {c:#x}"
                );
            }
        }
    }
}

#[test]
fn floats() {
    for (fmt, round, ftz) in FMTS.into_iter().flat_map(|f| {
        ROUNDS
            .into_iter()
            .flat_map(move |r| [(f, r, false), (f, r, true)])
    }) {
        let mode = FloatMode { round, ftz };
        let mask = fmt.ty().mask();
        for (a, b) in CORNERS.into_iter().flat_map(|a| CORNERS.map(|b| (a, b))) {
            for &op in FloatUnaryOp::ALL {
                assert!(float_unary(op, fmt, mode, a) <= mask, "{op} {fmt:?} {a:#x}");
            }
            for &op in FloatBinaryOp::ALL {
                assert!(
                    float_binary(op, fmt, mode, a, b) <= mask,
                    "{op} {fmt:?} {a:#x} {b:#x}"
                );
            }
            for c in CORNERS {
                assert!(
                    fma(fmt, mode, a, b, c) <= mask,
                    "{fmt:?} {a:#x} {b:#x} {c:#x}"
                );
            }
            for &op in FloatCompareOp::ALL {
                float_compare(op, fmt, ftz, a, b);
            }
        }
    }
}

#[test]
fn conversions() {
    for (from, to, round) in NUMS.into_iter().flat_map(|f| {
        NUMS.into_iter()
            .flat_map(move |t| ROUNDS.map(|r| (f, t, r)))
    }) {
        for flags in 0..32 {
            let flag = |bit: u32| flags >> bit & 1 != 0;
            let (integral, ftz, sat, satfinite, relu) =
                (flag(0), flag(1), flag(2), flag(3), flag(4));
            let cvt = Convert {
                from,
                to,
                round,
                integral,
                ftz,
                sat,
                satfinite,
                relu,
            };
            for a in CORNERS {
                assert!(convert(&cvt, a) <= to.ty().mask(), "{cvt:?} {a:#x}");
                if !to.is_int() {
                    assert!(convert_rs(&cvt, a, a) <= to.ty().mask(), "{cvt:?} {a:#x}");
                }
            }
        }
    }
}

#[test]
fn atomics() {
    use AtomicFmt as F;
    let fmts = [
        F::B16,
        F::B32,
        F::B64,
        F::U32,
        F::S32,
        F::U64,
        F::S64,
        F::F16,
        F::F16x2,
        F::Bf16,
        F::Bf16x2,
        F::F32,
        F::F64,
    ];
    for (fmt, &op) in fmts
        .into_iter()
        .flat_map(|fmt| AtomicOp::ALL.iter().map(move |op| (fmt, op)))
    {
        for (old, a) in CORNERS.into_iter().flat_map(|a| CORNERS.map(|b| (a, b))) {
            assert!(
                atomic(op, fmt, old, &[a, old], true) <= fmt.ty().mask(),
                "{op} {fmt:?}"
            );
        }
    }
}

#[test]
fn instructions_without_a_value_have_none() {
    let sreg = InstData::Sreg {
        sreg: SpecialReg::TidX,
    };
    assert_eq!((inst(&sreg, &[]), sreg.effect()), (None, Effect::Pure));
    let arg = Value::from_u32(0);
    let add = InstData::IntBinary {
        op: IntBinaryOp::Add,
        ty: Type::B32,
        args: [arg, arg],
    };
    assert_eq!(inst(&add, &[1]), None);
    assert_eq!(inst(&add, &[1, 2]), Some(3));
    let select = InstData::Select {
        ty: Type::B8,
        cond: arg,
        args: [arg, arg],
    };
    assert_eq!(inst(&select, &[1, 0x1ff, 0]), Some(0xff));
}
