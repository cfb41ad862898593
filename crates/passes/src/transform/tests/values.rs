//! Passes that look at values: simplification, numbering, dead code.

use ptxjit_ir::{
    CompareOp, Convert, FloatBinaryOp, FloatFmt, FloatMode, Function, InstData, IntBinaryOp,
    IntTernaryOp, IntUnaryOp, MemSem, NumFmt, ResizeOp, Scope, Space, Type, Value,
};

use crate::testing::text::check;
use crate::transform::{address_fold, dce, gvn, narrow_windows, simplify};
use ptxjit_testing::{Build, function};

const B1: Type = Type::B1;
const B8: Type = Type::B8;
const B16: Type = Type::B16;
const B32: Type = Type::B32;
const B64: Type = Type::B64;

/// A function that returns what `make` makes of its parameters, after simplification.
fn simplified(
    params: &[Type],
    ret: Type,
    make: impl FnOnce(&mut Build<'_>, &[Value]) -> Value,
) -> Function {
    let mut func = function(params, ret, |b, params| {
        let value = make(b, params);
        b.ret(value);
    });
    simplify::run(&mut func);
    dce::run(&mut func);
    func
}

pub(super) fn resize(b: &mut Build<'_>, op: ResizeOp, to: Type, arg: Value) -> Value {
    let from = b.b.func.ty(arg);
    b.b.ins(InstData::Resize { op, from, to, arg }, to)
}

pub(super) fn shift(b: &mut Build<'_>, op: IntBinaryOp, value: Value, count: u64) -> Value {
    let count = b.iconst(B32, count);
    b.int(op, value, count)
}

#[test]
fn constants_are_folded() {
    let func = simplified(&[], B32, |b, _| {
        let (x, y) = (b.iconst(B32, 7), b.iconst(B32, 9));
        let product = b.int(IntBinaryOp::Mul, x, y);
        shift(b, IntBinaryOp::Shl, product, 1)
    });
    check(
        &func,
        "block0: \n v0 = const.b32 0x7e \n ret v0"
            .replace("block0: ", "block0:")
            .as_str(),
    );
}

#[test]
fn an_or_of_a_constant_without_bits_in_common_is_a_sum() {
    let func = simplified(&[B32, B32], B32, |b, params| {
        let twice = shift(b, IntBinaryOp::Shl, params[0], 1);
        let one = b.iconst(B32, 1);
        let odd = b.int(IntBinaryOp::Or, twice, one);
        let three = b.iconst(B32, 3);
        let other = b.int(IntBinaryOp::Or, twice, three);
        let both = b.int(IntBinaryOp::Mul, odd, other);
        b.int(IntBinaryOp::Or, both, params[1])
    });
    let expected = "
        block0(v0: b32, v1: b32):
        v2 = const.b32 0x1
        v3 = shl.b32 v0, v2
        v4 = const.b32 0x1
        v5 = iadd.b32 v3, v4
        v6 = const.b32 0x3
        v7 = or.b32 v3, v6
        v8 = imul.b32 v5, v7
        v9 = or.b32 v8, v1
        ret v9";
    check(&func, expected);
}

#[test]
fn an_or_with_a_sign_extended_multiple_is_a_sum() {
    let func = simplified(&[B32], B64, |b, params| {
        let multiple = shift(b, IntBinaryOp::Shl, params[0], 4);
        let wide = resize(b, ResizeOp::Sext, B64, multiple);
        let eight = b.iconst(B64, 8);
        b.int(IntBinaryOp::Or, wide, eight)
    });
    let expected = "
        block0(v0: b32):
        v1 = const.b32 0x4
        v2 = shl.b32 v0, v1
        v3 = sext.b64.b32 v2
        v4 = const.b64 0x8
        v5 = iadd.b64 v3, v4
        ret v5";
    check(&func, expected);
}

/// Whether a number that is shifted to the right is converted to f32 as a signed one.
fn is_converted_as_signed(count: u64) -> bool {
    let func = simplified(&[B32], B32, |b, params| {
        let arg = shift(b, IntBinaryOp::Ushr, params[0], count);
        let cvt = Convert::new(NumFmt::U32, NumFmt::F32);
        b.b.ins(InstData::Convert { cvt, arg }, B32)
    });
    let mut insts = func.blocks[func.entry].insts.iter();
    insts.any(|&inst| {
        matches!(func.insts[inst].data, InstData::Convert { cvt, .. } if cvt.from == NumFmt::S32)
    })
}

#[test]
fn numbers_whose_top_bit_is_clear_are_converted_as_signed_ones() {
    assert!(is_converted_as_signed(8));
    assert!(!is_converted_as_signed(0));
}

#[test]
fn division_by_zero_is_folded_as_the_op_says() {
    let func = simplified(&[], B32, |b, _| {
        let (x, y) = (b.iconst(B32, 7), b.iconst(B32, 0));
        b.int(IntBinaryOp::Udiv, x, y)
    });
    check(&func, "block0:\n v0 = const.b32 0xffffffff\n ret v0");
}

/// The quotient that a product with `m` and shifts are, if they are one.
fn quotient_of(make: impl FnOnce(&mut Build<'_>, Value) -> Value) -> Option<(IntBinaryOp, u64)> {
    let func = simplified(&[B32], B32, |b, params| make(b, params[0]));
    let insts = func.blocks[func.entry].insts.iter();
    let mut data = insts.map(|&inst| &func.insts[inst].data);
    data.find_map(|data| {
        let &InstData::IntBinary { op, args, .. } = data else {
            return None;
        };
        let divides = matches!(op, IntBinaryOp::Sdiv | IntBinaryOp::Udiv);
        divides.then(|| Some((op, func.as_const(args[1])?)))?
    })
}

fn high(b: &mut Build<'_>, op: IntBinaryOp, x: Value, m: u64) -> Value {
    let m = b.iconst(B32, m);
    b.int(op, x, m)
}

#[test]
fn products_with_reciprocals_are_quotients() {
    let signed = |m: u64, count: u64, adds: bool| {
        quotient_of(|b, x| {
            let high = high(b, IntBinaryOp::SmulHi, x, m);
            let high = if adds { b.add(high, x) } else { high };
            let shifted = shift(b, IntBinaryOp::Sshr, high, count);
            let sign = shift(b, IntBinaryOp::Ushr, high, 31);
            b.add(shifted, sign)
        })
    };
    assert_eq!(signed(0x2e8b_a2e9, 2, false), Some((IntBinaryOp::Sdiv, 22)));
    assert_eq!(signed(0x9249_2493, 2, true), Some((IntBinaryOp::Sdiv, 7)));
    assert_eq!(signed(0x2e8b_a2e8, 2, false), None);
    assert_eq!(signed(0x9249_2493, 2, false), None);

    let unsigned = |m: u64, count: u64| {
        quotient_of(|b, x| {
            let high = high(b, IntBinaryOp::UmulHi, x, m);
            shift(b, IntBinaryOp::Ushr, high, count)
        })
    };
    assert_eq!(unsigned(0xcccc_cccd, 2), Some((IntBinaryOp::Udiv, 5)));
    assert_eq!(unsigned(0xcccc_cccc, 2), None);
    // Right for dividends up to 2^31 alone.
    assert_eq!(unsigned(0x9249_2493, 2), None);
}

#[test]
fn dividends_that_were_shifted_first_are_whole_again() {
    let found = quotient_of(|b, x| {
        let half = shift(b, IntBinaryOp::Ushr, x, 1);
        let high = high(b, IntBinaryOp::UmulHi, half, 0x9249_2493);
        shift(b, IntBinaryOp::Ushr, high, 2)
    });
    assert_eq!(found, Some((IntBinaryOp::Udiv, 14)));
}

#[test]
fn reciprocals_of_33_bits_are_quotients() {
    let by = |count: u64| {
        quotient_of(|b, x| {
            let high = high(b, IntBinaryOp::UmulHi, x, 0x2492_4925);
            let rest = b.int(IntBinaryOp::Sub, x, high);
            let half = shift(b, IntBinaryOp::Ushr, rest, 1);
            let sum = b.add(half, high);
            shift(b, IntBinaryOp::Ushr, sum, count)
        })
    };
    assert_eq!(by(2), Some((IntBinaryOp::Udiv, 7)));
    assert_eq!(by(0), None);
}

#[test]
fn approximations_are_not_folded() {
    let func = simplified(&[], B32, |b, _| {
        let arg = b.iconst(B32, 0x4000_0000);
        let op = ptxjit_ir::FloatUnaryOp::RcpApprox;
        b.b.ins(
            InstData::FloatUnary {
                op,
                fmt: FloatFmt::F32,
                mode: FloatMode::RN,
                arg,
            },
            B32,
        )
    });
    check(
        &func,
        "block0:\n v0 = const.b32 0x40000000\n v1 = rcp.approx.f32 v0\n ret v1",
    );
}

#[test]
fn neutral_operands_vanish() {
    let func = simplified(&[B32], B32, |b, params| {
        let (zero, one, ones) = (
            b.iconst(B32, 0),
            b.iconst(B32, 1),
            b.iconst(B32, 0xffff_ffff),
        );
        let x = b.add(zero, params[0]);
        let x = b.int(IntBinaryOp::Mul, x, one);
        let x = b.int(IntBinaryOp::And, x, ones);
        let x = b.int(IntBinaryOp::Xor, x, zero);
        shift(b, IntBinaryOp::Sshr, x, 0)
    });
    check(&func, "block0(v0: b32):\n ret v0");
}

#[test]
fn multiplication_and_division_by_powers_of_two_are_shifts() {
    let func = simplified(&[B32], B32, |b, params| {
        let (eight, four) = (b.iconst(B32, 8), b.iconst(B32, 4));
        let product = b.int(IntBinaryOp::Mul, params[0], eight);
        let rest = b.int(IntBinaryOp::Urem, params[0], four);
        b.int(IntBinaryOp::Xor, product, rest)
    });
    let expected = "
        block0(v0: b32):
        v1 = const.b32 0x3
        v2 = shl.b32 v0, v1
        v3 = const.b32 0x3
        v4 = and.b32 v0, v3
        v5 = xor.b32 v2, v4
        ret v5";
    check(&func, expected);
}

#[test]
fn terms_of_a_sum_cancel() {
    // A quotient, and what is divided: `88 * q + 4 * (i - 22 * q) + 8`.
    let func = simplified(&[B32, B32], B32, |b, params| {
        let (quotient, index) = (params[0], params[1]);
        let [width, row, eight] = [22, 88, 8].map(|n| b.iconst(B32, n));
        let start = b.int(IntBinaryOp::Mul, quotient, width);
        let rest = b.int(IntBinaryOp::Sub, index, start);
        let row = b.int(IntBinaryOp::Mul, quotient, row);
        let rest = shift(b, IntBinaryOp::Shl, rest, 2);
        let rest = b.int(IntBinaryOp::Add, rest, eight);
        b.int(IntBinaryOp::Add, row, rest)
    });
    let expected = "
        block0(v0: b32, v1: b32):
        v2 = const.b32 0x2
        v3 = shl.b32 v1, v2
        v4 = const.b32 0x8
        v5 = iadd.b32 v3, v4
        ret v5";
    check(&func, expected);
}

#[test]
fn terms_of_a_sum_stay_if_none_cancels() {
    let func = simplified(&[B32, B32], B32, |b, params| {
        let (quotient, index) = (params[0], params[1]);
        let [width, row] = [22, 92].map(|n| b.iconst(B32, n));
        let start = b.int(IntBinaryOp::Mul, quotient, width);
        let rest = b.int(IntBinaryOp::Sub, index, start);
        let row = b.int(IntBinaryOp::Mul, quotient, row);
        let rest = shift(b, IntBinaryOp::Shl, rest, 2);
        b.int(IntBinaryOp::Add, row, rest)
    });
    let expected = "
        block0(v0: b32, v1: b32):
        v2 = const.b32 0x16
        v3 = const.b32 0x5c
        v4 = imul.b32 v0, v2
        v5 = isub.b32 v1, v4
        v6 = imul.b32 v0, v3
        v7 = const.b32 0x2
        v8 = shl.b32 v5, v7
        v9 = iadd.b32 v6, v8
        ret v9";
    check(&func, expected);
}

#[test]
fn constants_of_an_address_gather_in_the_access() {
    let mut func = function(&[B64, B64], B32, |b, params| {
        let four = b.iconst(B64, 4);
        let index = b.add(params[1], four);
        let scaled = shift(b, IntBinaryOp::Shl, index, 2);
        let addr = b.add(params[0], scaled);
        let value = b.load(Space::Global, B32, addr, 8);
        b.ret(value);
    });
    simplify::run(&mut func);
    address_fold::run(&mut func);
    dce::run(&mut func);
    let expected = "
        block0(v0: b64, v1: b64):
        v2 = const.b32 0x2
        v3 = shl.b64 v1, v2
        v4 = iadd.b64 v0, v3
        v5 = load.global.b32 [v4+24]
        ret v5";
    check(&func, expected);
}

#[test]
fn addresses_in_windows_need_low_halves_only() {
    let mut func = function(&[B64, B64], B32, |b, params| {
        let scaled = shift(b, IntBinaryOp::Shl, params[0], 2);
        let addr = b.add(params[1], scaled);
        let x = b.load(Space::Shared, B32, addr, 8);
        // What is no arithmetic stays, and so do addresses of other memory.
        let y = b.load(Space::Shared, B32, params[1], 0);
        let z = b.load(Space::Global, B32, addr, 0);
        let sum = b.add(x, y);
        let sum = b.add(sum, z);
        b.ret(sum);
    });
    narrow_windows::run(&mut func);
    let expected = "
        block0(v0: b64, v1: b64):
        v2 = trunc.b32.b64 v1
        v3 = trunc.b32.b64 v0
        v4 = const.b32 0x2
        v5 = shl.b64 v0, v4
        v6 = shl.b32 v3, v4
        v7 = iadd.b64 v1, v5
        v8 = iadd.b32 v2, v6
        v9 = load.shared.b32 [v8+8]
        v10 = load.shared.b32 [v1]
        v11 = load.global.b32 [v7]
        v12 = iadd.b32 v9, v10
        v13 = iadd.b32 v12, v11
        ret v13";
    check(&func, expected);
}

#[test]
fn large_constants_stay_in_narrow_addresses() {
    let mut func = function(&[B32], B32, |b, params| {
        let (small, large) = (b.iconst(B32, 64), b.iconst(B32, 0x4000_0000));
        let near = b.add(params[0], small);
        let far = b.add(params[0], large);
        let x = b.load(Space::Shared, B32, near, 0);
        let y = b.load(Space::Shared, B32, far, 0);
        let sum = b.add(x, y);
        b.ret(sum);
    });
    address_fold::run(&mut func);
    dce::run(&mut func);
    let expected = "
        block0(v0: b32):
        v1 = const.b32 0x40000000
        v2 = iadd.b32 v0, v1
        v3 = load.shared.b32 [v0+64]
        v4 = load.shared.b32 [v2]
        v5 = iadd.b32 v3, v4
        ret v5";
    check(&func, expected);
}

#[test]
fn a_value_put_together_from_its_parts_is_the_value() {
    let func = simplified(&[B64], B64, |b, params| {
        let low = resize(b, ResizeOp::Trunc, B32, params[0]);
        let high = shift(b, IntBinaryOp::Ushr, params[0], 32);
        let high = resize(b, ResizeOp::Trunc, B32, high);
        let low = resize(b, ResizeOp::Uext, B64, low);
        let high = resize(b, ResizeOp::Uext, B64, high);
        let high = shift(b, IntBinaryOp::Shl, high, 32);
        b.int(IntBinaryOp::Or, high, low)
    });
    check(&func, "block0(v0: b64):\n ret v0");
}

#[test]
fn parts_in_the_wrong_order_stay_apart() {
    let func = simplified(&[B32], B32, |b, params| {
        let low = resize(b, ResizeOp::Trunc, B16, params[0]);
        let low = resize(b, ResizeOp::Uext, B32, low);
        let low = shift(b, IntBinaryOp::Shl, low, 16);
        let high = shift(b, IntBinaryOp::Ushr, params[0], 16);
        b.int(IntBinaryOp::Or, high, low)
    });
    assert!(crate::testing::text::text(&func).contains("or.b32"));
}

#[test]
fn a_part_of_a_pair_is_found() {
    let func = simplified(&[B32, B32], B32, |b, params| {
        let low = resize(b, ResizeOp::Uext, B64, params[0]);
        let high = resize(b, ResizeOp::Uext, B64, params[1]);
        let high = shift(b, IntBinaryOp::Shl, high, 32);
        let pair = b.int(IntBinaryOp::Or, low, high);
        let high = shift(b, IntBinaryOp::Ushr, pair, 32);
        resize(b, ResizeOp::Trunc, B32, high)
    });
    check(&func, "block0(v0: b32, v1: b32):\n ret v1");
}

#[test]
fn masks_of_clear_bits_vanish() {
    let func = simplified(&[B8], B32, |b, params| {
        let wide = resize(b, ResizeOp::Uext, B32, params[0]);
        let mask = b.iconst(B32, 0xff);
        b.int(IntBinaryOp::And, wide, mask)
    });
    check(&func, "block0(v0: b8):\n v1 = uext.b32.b8 v0\n ret v1");
}

#[test]
fn a_sum_has_one_bit_more_than_its_parts() {
    let masked = |mask: u64| {
        simplified(&[B8, B8], B32, move |b, params| {
            let x = resize(b, ResizeOp::Uext, B32, params[0]);
            let y = resize(b, ResizeOp::Uext, B32, params[1]);
            let sum = b.add(x, y);
            let mask = b.iconst(B32, mask);
            b.int(IntBinaryOp::And, sum, mask)
        })
    };
    assert!(crate::testing::text::text(&masked(0xff)).contains("and.b32"));
    assert!(!crate::testing::text::text(&masked(0x1ff)).contains("and.b32"));
}

/// As fields of matrix descriptors are read that a constant was added to.
#[test]
fn high_bits_of_a_sum_without_a_carry_are_those_of_one_operand() {
    let high_of = |op: IntBinaryOp, constant: u64, mask: u64| {
        simplified(&[B32], B64, move |b, params| {
            let mask = b.iconst(B32, mask);
            let low = b.int(IntBinaryOp::And, params[0], mask);
            let wide = resize(b, ResizeOp::Uext, B64, low);
            let constant = b.iconst(B64, constant);
            let sum = b.int(op, wide, constant);
            let count = b.iconst(B32, 16);
            b.int(IntBinaryOp::Ushr, sum, count)
        })
    };
    for (op, constant) in [
        (IntBinaryOp::Or, 0x4000_0040_0000_0000),
        (IntBinaryOp::Or, 0x4000_0040_0000_ffff),
        (IntBinaryOp::Add, 0x4000_0040_0000_c000),
    ] {
        let text = crate::testing::text::text(&high_of(op, constant, 0x3fff));
        assert!(text.ends_with("const.b64 0x400000400000\nret v1"), "{text}");
    }
    // The low operand has a bit as high as the count, or the sum may carry.
    for (op, constant, mask) in [
        (IntBinaryOp::Or, 0x4000_0000, 0x1_ffff),
        (IntBinaryOp::Add, 0x4000_ffff, 0x3fff),
    ] {
        let text = crate::testing::text::text(&high_of(op, constant, mask));
        assert!(text.contains("and.b32"), "{text}");
    }
}

#[test]
fn a_predicate_made_number_made_predicate_is_the_predicate() {
    let func = simplified(&[B1], B1, |b, params| {
        let (one, zero) = (b.iconst(B32, 1), b.iconst(B32, 0));
        let number = b.b.ins(
            InstData::Select {
                ty: B32,
                cond: params[0],
                args: [one, zero],
            },
            B32,
        );
        b.compare(CompareOp::Ne, number, zero)
    });
    check(&func, "block0(v0: b1):\n ret v0");
}

#[test]
fn a_complemented_comparison_is_the_inverse_one() {
    let func = simplified(&[B32, B32], B1, |b, params| {
        let less = b.compare(CompareOp::Slt, params[0], params[1]);
        b.b.ins(
            InstData::IntUnary {
                op: IntUnaryOp::Not,
                ty: B1,
                arg: less,
            },
            B1,
        )
    });
    check(
        &func,
        "block0(v0: b32, v1: b32):\n v2 = sge.b32 v0, v1\n ret v2",
    );
}

#[test]
fn logic_tables_of_two_operands_are_plain_logic() {
    // a & ~c, whatever b is: true for (a, b, c) = 100 and 110.
    let func = simplified(&[B32, B32, B32], B32, |b, params| {
        let args = [params[0], params[1], params[2]];
        b.b.ins(InstData::Lop3 { lut: 0x50, args }, B32)
    });
    check(
        &func,
        "block0(v0: b32, v1: b32, v2: b32):\n v3 = not.b32 v2\n v4 = and.b32 v0, v3\n ret v4",
    );
}

#[test]
fn permutations_of_rows_are_shifts() {
    let func = simplified(&[B32, B32], B32, |b, params| {
        let selector = b.iconst(B32, 0x7632);
        let args = [params[0], params[1], selector];
        b.b.ins(
            InstData::IntTernary {
                op: IntTernaryOp::Prmt,
                ty: B32,
                args,
            },
            B32,
        )
    });
    let expected = "
        block0(v0: b32, v1: b32):
        v2 = const.b32 0x10
        v3 = ushr.b32 v0, v2
        v4 = const.b32 0xffff0000
        v5 = and.b32 v1, v4
        v6 = or.b32 v3, v5
        ret v6";
    check(&func, expected);
}

#[test]
fn division_by_a_power_of_two_is_multiplication() {
    let divide = |divisor: u64| {
        simplified(&[B32], B32, move |b, params| {
            let divisor = b.iconst(B32, divisor);
            let args = [params[0], divisor];
            let op = FloatBinaryOp::Div;
            b.b.ins(
                InstData::FloatBinary {
                    op,
                    fmt: FloatFmt::F32,
                    mode: FloatMode::RN,
                    args,
                },
                B32,
            )
        })
    };
    // By 8.
    check(
        &divide(0x4100_0000),
        "block0(v0: b32):\n v1 = const.b32 0x3e000000\n v2 = fmul.f32 v0, v1\n ret v2",
    );
    // By 3, and by 2^127, whose reciprocal is subnormal.
    check(
        &divide(0x4040_0000),
        "block0(v0: b32):\n v1 = const.b32 0x40400000\n v2 = fdiv.f32 v0, v1\n ret v2",
    );
    check(
        &divide(0x7f00_0000),
        "block0(v0: b32):\n v1 = const.b32 0x7f000000\n v2 = fdiv.f32 v0, v1\n ret v2",
    );
}

#[test]
fn adding_zero_to_a_float_is_not_nothing() {
    let func = simplified(&[B32], B32, |b, params| {
        let zero = b.iconst(B32, 0);
        let args = [params[0], zero];
        let op = FloatBinaryOp::Add;
        b.b.ins(
            InstData::FloatBinary {
                op,
                fmt: FloatFmt::F32,
                mode: FloatMode::RN,
                args,
            },
            B32,
        )
    });
    check(
        &func,
        "block0(v0: b32):\n v1 = const.b32 0x0\n v2 = fadd.f32 v0, v1\n ret v2",
    );
}

#[test]
fn an_access_through_a_window_names_its_space() {
    let func = simplified(&[B64, B64], B32, |b, params| {
        let base = b.b.ins(
            InstData::ToGeneric {
                space: Space::Shared,
                arg: params[0],
            },
            B64,
        );
        let addr = b.add(base, params[1]);
        b.load(Space::Generic, B32, addr, 4)
    });
    check(
        &func,
        "block0(v0: b64, v1: b64):\n v2 = iadd.b64 v0, v1\n v3 = load.shared.b32 [v2+4]\n ret v3",
    );
}

#[test]
fn there_and_back_is_nothing() {
    let func = simplified(&[B64], B64, |b, params| {
        let generic = b.b.ins(
            InstData::ToGeneric {
                space: Space::Shared,
                arg: params[0],
            },
            B64,
        );
        b.b.ins(
            InstData::FromGeneric {
                space: Space::Shared,
                arg: generic,
            },
            B64,
        )
    });
    check(&func, "block0(v0: b64):\n ret v0");
    // Into another window it is another address.
    let func = simplified(&[B64], B64, |b, params| {
        let generic = b.b.ins(
            InstData::ToGeneric {
                space: Space::Shared,
                arg: params[0],
            },
            B64,
        );
        b.b.ins(
            InstData::FromGeneric {
                space: Space::Local,
                arg: generic,
            },
            B64,
        )
    });
    assert!(crate::testing::text::text(&func).contains("from_generic.local"));
}

#[test]
fn equal_operations_are_computed_once() {
    let mut func = function(&[B32, B32], B32, |b, params| {
        let x = b.add(params[0], params[1]);
        let y = b.add(params[1], params[0]);
        let product = b.int(IntBinaryOp::Mul, x, y);
        b.ret(product);
    });
    assert!(gvn::run(&mut func));
    check(
        &func,
        "block0(v0: b32, v1: b32):\n v2 = iadd.b32 v0, v1\n v3 = imul.b32 v2, v2\n ret v3",
    );
}

#[test]
fn operations_of_different_branches_are_not_shared() {
    let mut func = function(&[B1, B32], B32, |b, params| {
        let (left, right, (join, joined)) = (b.block(), b.block(), b.block_of(B32));
        b.brif(params[0], (left, &[]), (right, &[]));
        for side in [left, right] {
            b.at(side);
            let x = b.add(params[1], params[1]);
            b.jump(join, &[x]);
        }
        b.at(join);
        b.ret(joined);
    });
    assert!(!gvn::run(&mut func));
}

#[test]
fn dead_cycles_of_parameters_go() {
    let mut func = function(&[B1, B32], B32, |b, params| {
        let (head, count) = b.block_of(B32);
        let exit = b.block();
        b.jump(head, &[params[1]]);
        b.at(head);
        let next = b.add(count, params[1]);
        b.brif(params[0], (head, &[next]), (exit, &[]));
        b.at(exit);
        b.ret(params[1]);
    });
    assert!(dce::run(&mut func));
    check(
        &func,
        "
        block0(v0: b1, v1: b32):
        jump block1
        block1:
        brif v0, block1, block2
        block2:
        ret v1",
    );
}

#[test]
fn volatile_loads_stay_though_unread() {
    let mut func = function(&[B64], B64, |b, params| {
        b.load(Space::Global, B32, params[0], 0);
        let sem = MemSem::Volatile;
        let data = InstData::Load {
            space: Space::Global,
            sem,
            scope: Scope::Sys,
            ty: B32,
            n: 1,
            addr: params[0],
            offset: 4,
        };
        b.b.ins(data, B32);
        b.ret(params[0]);
    });
    dce::run(&mut func);
    check(
        &func,
        "block0(v0: b64):\n v1 = load.global.volatile.b32 [v0+4]\n ret v0",
    );
}

/// Frames of calls that are not inlined lie there.
#[test]
fn a_dynamic_stack_with_frames_stays() {
    let mut func = function(&[B64], B64, |b, params| {
        let top = b.b.ins(InstData::StackSave, B64);
        let size = b.iconst(B64, 16);
        let above = b.int(IntBinaryOp::Add, top, size);
        b.b.inst(InstData::StackRestore { arg: above }, &[]);
        b.ret(params[0]);
    });
    dce::run(&mut func);
    check(
        &func,
        "block0(v0: b64):
            v1 = stack_save
            v2 = const.b64 0x10
            v3 = iadd.b64 v1, v2
            stack_restore v3
            ret v0",
    );
}

#[test]
fn an_unused_dynamic_stack_goes() {
    let mut func = function(&[B64], B64, |b, params| {
        let saved = b.b.ins(InstData::StackSave, B64);
        b.b.ins(
            InstData::Alloca {
                size: params[0],
                align: 8,
            },
            B64,
        );
        b.b.inst(InstData::StackRestore { arg: saved }, &[]);
        b.ret(params[0]);
    });
    dce::run(&mut func);
    check(&func, "block0(v0: b64):\n ret v0");
}
