//! The vectors of `vectors.txt`, which `reference.py` computed with exact rational arithmetic.

use crate::eval::softfloat::Layout;
use crate::eval::{convert, exact, float_binary, float_unary, fma};
use crate::{Convert, FloatBinaryOp, FloatFmt, FloatMode, FloatUnaryOp, NumFmt, Round};

const MODES: [Round; 5] = [Round::Rn, Round::Rna, Round::Rz, Round::Rm, Round::Rp];

/// `PTXJIT_VECTORS` names another file to check, for more vectors than are worth keeping.
#[test]
fn reference_vectors() {
    let text = match std::env::var_os("PTXJIT_VECTORS") {
        Some(path) => std::fs::read_to_string(path).unwrap(),
        None => include_str!("vectors.txt").to_owned(),
    };
    assert!(text.lines().count() > 1000);
    text.lines().for_each(check_line);
}

fn check_line(line: &str) {
    let (left, right) = line.split_once(" : ").unwrap();
    let left: Vec<&str> = left.split(' ').collect();
    let want: Vec<u64> = right.split(' ').map(number).collect();
    match left[0] {
        "approx" => check_approx(line, &left, want[0]),
        "cvt" => check_convert(line, &left, &want),
        op => check_arithmetic(line, op, &left, &want),
    }
}

fn check_convert(line: &str, left: &[&str], want: &[u64]) {
    let (from, to, flags) = (num_fmt(left[1]), num_fmt(left[2]), left[3]);
    for (&round, &want) in MODES.iter().zip(want) {
        let (satfinite, relu) = (flags.contains("satfinite"), flags.contains("relu"));
        let cvt = Convert {
            round,
            satfinite,
            relu,
            ..Convert::new(from, to)
        };
        let got = convert(&cvt, number(left[4]));
        assert!(
            same(Layout::of_num(to), got, want),
            "{line}\n{round:?}: got {got:#x}, want {want:#x}"
        );
    }
}

fn check_arithmetic(line: &str, op: &str, left: &[&str], want: &[u64]) {
    let fmt = float_fmt(left[1]);
    let args: Vec<u64> = left[2..].iter().map(|text| number(text)).collect();
    for (&round, &want) in MODES.iter().zip(want) {
        let got = arithmetic(op, fmt, round, &args);
        assert!(
            same(Some(Layout::of(fmt)), got, want),
            "{line}\n{round:?}: got {got:#x}, want {want:#x}"
        );
    }
}

fn arithmetic(op: &str, fmt: FloatFmt, round: Round, args: &[u64]) -> u64 {
    let (name, ftz) = op
        .strip_suffix(".ftz")
        .map_or((op, false), |name| (name, true));
    let mode = FloatMode { round, ftz };
    let binary = |op| float_binary(op, fmt, mode, args[0], args[1]);
    match name {
        "add" => binary(FloatBinaryOp::Add),
        "sub" => binary(FloatBinaryOp::Sub),
        "mul" => binary(FloatBinaryOp::Mul),
        "div" => binary(FloatBinaryOp::Div),
        "sqrt" => float_unary(FloatUnaryOp::Sqrt, fmt, mode, args[0]),
        "fma" => fma(fmt, mode, args[0], args[1], args[2]),
        other => panic!("no op {other}"),
    }
}

/// Within the ISA's bound of the correctly rounded result, itself half a unit in the last place off
/// at most.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are exact")]
fn check_approx(line: &str, left: &[&str], want: u64) {
    let op = match left[1] {
        "rcp" => FloatUnaryOp::RcpApprox,
        "sqrt" => FloatUnaryOp::SqrtApprox,
        "rsqrt" => FloatUnaryOp::RsqrtApprox,
        "sin" => FloatUnaryOp::SinApprox,
        "cos" => FloatUnaryOp::CosApprox,
        "lg2" => FloatUnaryOp::Lg2Approx,
        "ex2" => FloatUnaryOp::Ex2Approx,
        "tanh" => FloatUnaryOp::TanhApprox,
        other => panic!("no op {other}"),
    };
    let fmt = float_fmt(left[2]);
    let layout = Layout::of(fmt);
    let arg = number(left[3]);
    let got = float_unary(op, fmt, FloatMode::RN, arg);
    let units = layout.order(got).abs_diff(layout.order(want));
    let [x, y, want] = [arg, got, want].map(|bits| exact::to_f64(fmt, bits));
    let absolute = match op {
        _ if fmt != FloatFmt::F32 => 0.0,
        FloatUnaryOp::SinApprox | FloatUnaryOp::CosApprox if x.abs() <= core::f64::consts::TAU => {
            2f64.powf(-20.5)
        }
        FloatUnaryOp::SinApprox | FloatUnaryOp::CosApprox => 2f64.powf(-14.7),
        FloatUnaryOp::Lg2Approx if (0.5..2.0).contains(&x) => 2f64.powi(-22),
        FloatUnaryOp::TanhApprox => want.abs() * 2f64.powi(-11),
        _ => 0.0,
    };
    assert!(
        units <= 1 || (y - want).abs() <= absolute,
        "{line}\ngot {got:#x}"
    );
}

/// Equal bits; of f64 NaNs only that they are NaNs, since payloads are kept.
fn same(layout: Option<Layout>, got: u64, want: u64) -> bool {
    got == want
        || layout.is_some_and(|layout| {
            layout.man_bits == 52 && layout.is_nan(got) && layout.is_nan(want)
        })
}

fn number(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}

fn float_fmt(text: &str) -> FloatFmt {
    match text {
        "f16" => FloatFmt::F16,
        "bf16" => FloatFmt::Bf16,
        "f32" => FloatFmt::F32,
        "f64" => FloatFmt::F64,
        other => panic!("no format {other}"),
    }
}

fn num_fmt(text: &str) -> NumFmt {
    match text {
        "u8" => NumFmt::U8,
        "u16" => NumFmt::U16,
        "u32" => NumFmt::U32,
        "u64" => NumFmt::U64,
        "s8" => NumFmt::S8,
        "s16" => NumFmt::S16,
        "s32" => NumFmt::S32,
        "s64" => NumFmt::S64,
        "tf32" => NumFmt::Tf32,
        "e4m3" => NumFmt::E4m3,
        "e5m2" => NumFmt::E5m2,
        "e2m3" => NumFmt::E2m3,
        "e3m2" => NumFmt::E3m2,
        "e2m1" => NumFmt::E2m1,
        float => float_fmt(float).num(),
    }
}
