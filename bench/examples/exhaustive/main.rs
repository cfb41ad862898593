//! Measures unary f32 instructions, conversions and unary instructions of narrower formats over all their inputs, and some others
//! against the IR's evaluation.
//!
//! `cargo run --release -p ptxjit-bench --example exhaustive -- [--gang N] [--stride N] [NAME…]` compiles a small kernel per
//! instruction, runs it over every input (every `stride`-th with `--stride`) and prints the largest error beside the PTX ISA's
//! bound. It ends with an error if a bound is broken. References are the standard library's f64 functions, and lists of the values of
//! each narrow format (`formats.rs`).
//!
//! The file is long because an example is one file.

#![expect(clippy::print_stdout, reason = "a program that prints a table")]

mod formats;

use std::process::ExitCode;

use ptxjit::{Device, Engine, Kernel, Module};

/// Inputs per launch.
const CHUNK: u64 = 1 << 24;

/// How a result may differ from the reference.
#[derive(Copy, Clone)]
enum Bound {
    Ulp(f64),
    Absolute(f64),
    Relative(f64),
    /// Within units of the last place of f32, that is rounded correctly.
    Exact,
}

struct Case {
    name: &'static str,
    /// From `%f1` to `%f2`.
    instruction: &'static str,
    function: fn(f64) -> f64,
    /// Inputs for which the bound holds.
    range: (f64, f64),
    bound: Bound,
    ftz: bool,
}

const TURN: f64 = std::f64::consts::TAU;

fn case(
    name: &'static str,
    instruction: &'static str,
    function: fn(f64) -> f64,
    range: (f64, f64),
    bound: Bound,
) -> Case {
    Case {
        name,
        instruction,
        function,
        range,
        bound,
        ftz: instruction.contains(".ftz"),
    }
}

fn cases() -> Vec<Case> {
    let all = (f64::NEG_INFINITY, f64::INFINITY);
    let (sin, cos, lg2, ex2, tanh): (
        fn(f64) -> f64,
        fn(f64) -> f64,
        fn(f64) -> f64,
        fn(f64) -> f64,
        fn(f64) -> f64,
    ) = (f64::sin, f64::cos, f64::log2, f64::exp2, f64::tanh);
    let two_to = |x: f64| x.exp2();
    let mut cases = Vec::new();
    for (name, ins) in [
        ("sin", "sin.approx.f32 %f2, %f1;"),
        ("sin.ftz", "sin.approx.ftz.f32 %f2, %f1;"),
    ] {
        cases.push(case(
            name,
            ins,
            sin,
            (-TURN, TURN),
            Bound::Absolute(two_to(-20.5)),
        ));
        cases.push(case(
            name,
            ins,
            sin,
            (-50.0 * TURN, 50.0 * TURN),
            Bound::Absolute(two_to(-14.7)),
        ));
    }
    for (name, ins) in [
        ("cos", "cos.approx.f32 %f2, %f1;"),
        ("cos.ftz", "cos.approx.ftz.f32 %f2, %f1;"),
    ] {
        cases.push(case(
            name,
            ins,
            cos,
            (-TURN, TURN),
            Bound::Absolute(two_to(-20.5)),
        ));
        cases.push(case(
            name,
            ins,
            cos,
            (-50.0 * TURN, 50.0 * TURN),
            Bound::Absolute(two_to(-14.7)),
        ));
    }
    for (name, ins) in [
        ("lg2", "lg2.approx.f32 %f2, %f1;"),
        ("lg2.ftz", "lg2.approx.ftz.f32 %f2, %f1;"),
    ] {
        cases.push(case(
            name,
            ins,
            lg2,
            (0.5, 2.0),
            Bound::Absolute(two_to(-22.0)),
        ));
        cases.push(case(
            name,
            ins,
            lg2,
            (f64::NEG_INFINITY, 0.5),
            Bound::Relative(two_to(-22.0)),
        ));
        cases.push(case(
            name,
            ins,
            lg2,
            (2.0, f64::INFINITY),
            Bound::Relative(two_to(-22.0)),
        ));
    }
    for (name, ins) in [
        ("ex2", "ex2.approx.f32 %f2, %f1;"),
        ("ex2.ftz", "ex2.approx.ftz.f32 %f2, %f1;"),
    ] {
        cases.push(case(name, ins, ex2, all, Bound::Ulp(2.0)));
    }
    cases.push(case(
        "tanh",
        "tanh.approx.f32 %f2, %f1;",
        tanh,
        all,
        Bound::Relative(two_to(-11.0)),
    ));
    for (name, ins) in [
        ("rcp", "rcp.approx.f32 %f2, %f1;"),
        ("rcp.ftz", "rcp.approx.ftz.f32 %f2, %f1;"),
    ] {
        cases.push(case(name, ins, |x| 1.0 / x, all, Bound::Ulp(1.0)));
    }
    for (name, ins) in [
        ("sqrt", "sqrt.approx.f32 %f2, %f1;"),
        ("sqrt.ftz", "sqrt.approx.ftz.f32 %f2, %f1;"),
    ] {
        cases.push(case(
            name,
            ins,
            f64::sqrt,
            all,
            Bound::Relative(two_to(-23.0)),
        ));
    }
    for (name, ins) in [
        ("rsqrt", "rsqrt.approx.f32 %f2, %f1;"),
        ("rsqrt.ftz", "rsqrt.approx.ftz.f32 %f2, %f1;"),
    ] {
        cases.push(case(
            name,
            ins,
            |x| 1.0 / x.sqrt(),
            all,
            Bound::Relative(two_to(-22.9)),
        ));
    }
    cases.push(case(
        "cos.one",
        "abs.f32 %f1, %f1; min.f32 %f1, %f1, 0f47FFFFFF; cos.approx.f32 %f2, %f1; \
         mul.f32 %f2, %f2, %f2; sub.f32 %f2, 0f3F800000, %f2; sqrt.rn.f32 %f2, %f2;",
        |_| 0.0,
        all,
        Bound::Absolute(1.0),
    ));
    cases.push(case(
        "sqrt.rn",
        "sqrt.rn.f32 %f2, %f1;",
        f64::sqrt,
        all,
        Bound::Exact,
    ));
    cases.push(case(
        "rcp.rn",
        "rcp.rn.f32 %f2, %f1;",
        |x| 1.0 / x,
        all,
        Bound::Exact,
    ));
    cases.push(case(
        "f32.f64.f32",
        "cvt.f64.f32 %d1, %f1; cvt.rn.f32.f64 %f2, %d1;",
        |x| x,
        all,
        Bound::Exact,
    ));
    cases
}

/// A kernel that applies `body` (from `%r1` to `%r2`) to numbers `base + i * stride`.
fn kernel(device: &Device, body: &str) -> Kernel {
    let ptx = format!(
        ".version 9.0\n.target sm_100a\n.address_size 64\n
.visible .entry k(.param .u64 out, .param .u32 base, .param .u32 stride)
{{
    .reg .pred %p<2>;
    .reg .b16 %h<4>;
    .reg .b32 %r<8>;
    .reg .f32 %f<8>;
    .reg .f64 %d<8>;
    .reg .b64 %rd<8>;
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.u32 %r3, %r3, %r4, %r5;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r6, [base];
    ld.param.u32 %r7, [stride];
    mad.lo.u32 %r1, %r3, %r7, %r6;
    {body}
    mul.wide.u32 %rd2, %r3, 4;
    add.u64 %rd1, %rd1, %rd2;
    st.global.u32 [%rd1], %r2;
    ret;
}}
"
    );
    let module = Module::from_source(device, "exhaustive.ptx", &ptx)
        .unwrap_or_else(|error| panic!("{error}"));
    module.kernel("k").expect("it is there")
}

struct Args {
    gang: Option<u32>,
    stride: u32,
    names: Vec<String>,
}

fn args() -> Args {
    let mut args = Args {
        gang: None,
        stride: 1,
        names: Vec::new(),
    };
    let mut rest = std::env::args().skip(1);
    while let Some(arg) = rest.next() {
        let mut number = || {
            rest.next()
                .and_then(|text| text.parse().ok())
                .expect("a number follows")
        };
        match arg.as_str() {
            "--gang" => args.gang = Some(number()),
            "--stride" => args.stride = number(),
            _ => args.names.push(arg),
        }
    }
    args
}

/// Calls `each` with all inputs and results.
fn run(device: &Device, kernel: &Kernel, args: &Args, mut each: impl FnMut(u32, u32)) {
    let out = device.alloc::<u32>(CHUNK as usize).expect("memory");
    let count = (1u64 << 32).div_ceil(u64::from(args.stride));
    let chunk = count.next_multiple_of(256).min(CHUNK);
    let mut at = 0;
    while at < count {
        let base = (at * u64::from(args.stride)) as u32;
        let mut launch = kernel
            .launch()
            .grid((chunk / 256) as u32)
            .block(256)
            .arg(&out)
            .arg(base)
            .arg(args.stride);
        if let Some(gang) = args.gang {
            launch = launch.gang(gang);
        }
        launch.run().unwrap_or_else(|error| panic!("{error}"));
        let results = out.read().expect("results");
        for (i, &result) in results.iter().enumerate().take((count - at) as usize) {
            each(
                base.wrapping_add((i as u32).wrapping_mul(args.stride)),
                result,
            );
        }
        at += chunk;
    }
}

/// The largest errors seen.
#[derive(Default)]
struct Worst {
    ulp: f64,
    absolute: f64,
    relative: f64,
    at: u32,
    /// Inputs whose result breaks the bound or is of another class (NaN, infinity, zero).
    wrong: u64,
    first_wrong: Option<(u32, u32)>,
}

fn flush(x: f32) -> f32 {
    if x.is_subnormal() {
        0f32.copysign(x)
    } else {
        x
    }
}

fn ulp_of(x: f64) -> f64 {
    let rounded = (x.abs() as f32).min(f32::MAX);
    let below = f32::from_bits(rounded.to_bits().max(1) - 1);
    (f64::from(rounded) - f64::from(below)).max(f64::from(f32::from_bits(1)))
}

impl Worst {
    fn note(&mut self, case: &Case, input: u32, result: u32) {
        let x = f32::from_bits(input);
        let x = if case.ftz { flush(x) } else { x };
        let want = (case.function)(f64::from(x));
        let got = f32::from_bits(result);
        let nearest = want as f32;
        let nearest = if case.ftz { flush(nearest) } else { nearest };
        if got.to_bits() == nearest.to_bits() || (got.is_nan() && nearest.is_nan()) {
            if nearest.is_finite() && nearest != 0.0 {
                self.measure(want, got);
            }
            return;
        }
        let tiny = case.ftz
            && want.abs() < f64::from(f32::MIN_POSITIVE) * 1.000_001
            && got.abs() <= f32::MIN_POSITIVE;
        let overflow = got.is_infinite() && want.abs() >= f64::from(f32::MAX);
        if tiny || overflow {
            return;
        }
        if !got.is_finite() || !nearest.is_finite() {
            self.mark(input, result);
            return;
        }
        let error = self.measure(want, got);
        let broken = match case.bound {
            Bound::Ulp(bound) => error.0 > bound,
            Bound::Absolute(bound) => error.1 > bound,
            Bound::Relative(bound) => error.2 > bound,
            Bound::Exact => true,
        };
        if broken {
            self.mark(input, result);
        }
        if error.0 >= self.ulp {
            self.at = input;
        }
    }

    fn measure(&mut self, want: f64, got: f32) -> (f64, f64, f64) {
        let error = (f64::from(got) - want).abs();
        let (ulp, relative) = (
            error / ulp_of(want),
            if error == 0.0 {
                0.0
            } else {
                error / want.abs()
            },
        );
        self.ulp = self.ulp.max(ulp);
        self.absolute = self.absolute.max(error);
        self.relative = self.relative.max(relative);
        (ulp, error, relative)
    }

    fn mark(&mut self, input: u32, result: u32) {
        self.wrong += 1;
        self.first_wrong.get_or_insert((input, result));
    }
}

fn measure(device: &Device, case: &Case, args: &Args) -> bool {
    let body = format!("mov.b32 %f1, %r1; {} mov.b32 %r2, %f2;", case.instruction);
    let kernel = kernel(device, &body);
    let mut worst = Worst::default();
    run(device, &kernel, args, |input, result| {
        let x = f64::from(f32::from_bits(input));
        let special = x.is_nan() || x.is_infinite();
        if special || (x >= case.range.0 && x <= case.range.1) {
            worst.note(case, input, result);
        }
    });
    let bound = match case.bound {
        Bound::Ulp(bound) => format!("{bound} ulp"),
        Bound::Absolute(bound) => format!("absolute 2^{:.1}", bound.log2()),
        Bound::Relative(bound) => format!("relative 2^{:.1}", bound.log2()),
        Bound::Exact => "correctly rounded".to_owned(),
    };
    println!(
        "{:12} [{:9.3e}, {:9.3e}]  {:.3} ulp at {:08x}, absolute 2^{:.2}, relative 2^{:.2}  bound: {bound}  wrong: {}{}",
        case.name,
        case.range.0,
        case.range.1,
        worst.ulp,
        worst.at,
        worst.absolute.log2(),
        worst.relative.log2(),
        worst.wrong,
        worst
            .first_wrong
            .map_or(String::new(), |(x, y)| format!(" first {x:08x} -> {y:08x}")),
    );
    worst.wrong == 0
}

/// Instructions that must agree with the interpreter bit for bit, on bits `%r1` to `%r2`, over the low `bits` of the input.
fn exact() -> Vec<(&'static str, u32, String)> {
    let half = |name: &'static str, ins: &str| {
        (
            name,
            16,
            format!("cvt.u16.u32 %h1, %r1; {ins} cvt.u32.u16 %r2, %h2;"),
        )
    };
    let to_word =
        |name: &'static str, ins: &str| (name, 16, format!("cvt.u16.u32 %h1, %r1; {ins}"));
    let from_word = |name: &'static str, ins: &str| {
        (
            name,
            32,
            format!("mov.b32 %f1, %r1; {ins} cvt.u32.u16 %r2, %h2;"),
        )
    };
    let word = |name: &'static str, ins: &str| (name, 32, format!("mov.b32 %f1, %r1; {ins}"));
    vec![
        to_word("f32.f16", "cvt.f32.f16 %f2, %h1; mov.b32 %r2, %f2;"),
        to_word("f32.f16.ftz", "cvt.ftz.f32.f16 %f2, %h1; mov.b32 %r2, %f2;"),
        to_word("f32.bf16", "cvt.f32.bf16 %f2, %h1; mov.b32 %r2, %f2;"),
        to_word("s32.f16", "cvt.rni.s32.f16 %r2, %h1;"),
        to_word("u32.f16", "cvt.rpi.u32.f16 %r2, %h1;"),
        half("s8.f16", "cvt.rzi.s8.f16 %h2, %h1;"),
        half("neg.f16", "neg.f16 %h2, %h1;"),
        half("abs.ftz.f16", "abs.ftz.f16 %h2, %h1;"),
        half("neg.bf16", "neg.bf16 %h2, %h1;"),
        half("rni.f16", "cvt.rni.f16.f16 %h2, %h1;"),
        half("f16.sat", "cvt.sat.f16.f16 %h2, %h1;"),
        half("f16.s16", "cvt.rn.f16.s16 %h2, %h1;"),
        half("bf16.u16", "cvt.rn.bf16.u16 %h2, %h1;"),
        from_word("f16.f32", "cvt.rn.f16.f32 %h2, %f1;"),
        from_word("f16.f32.sat", "cvt.rn.sat.f16.f32 %h2, %f1;"),
        from_word("f16.f32.relu", "cvt.rn.relu.f16.f32 %h2, %f1;"),
        from_word("bf16.f32", "cvt.rn.bf16.f32 %h2, %f1;"),
        from_word("bf16.f32.relu", "cvt.rn.relu.bf16.f32 %h2, %f1;"),
        word("s32.f32", "cvt.rni.s32.f32 %r2, %f1;"),
        word("u32.f32.ftz", "cvt.rmi.ftz.u32.f32 %r2, %f1;"),
        word("sat.f32", "cvt.sat.f32.f32 %f2, %f1; mov.b32 %r2, %f2;"),
        (
            "f16.s32",
            32,
            "cvt.rn.f16.s32 %h2, %r1; cvt.u32.u16 %r2, %h2;".to_owned(),
        ),
        (
            "bf16.u32",
            32,
            "cvt.rn.bf16.u32 %h2, %r1; cvt.u32.u16 %r2, %h2;".to_owned(),
        ),
        (
            "f32.s32",
            32,
            "cvt.rn.f32.s32 %f2, %r1; mov.b32 %r2, %f2;".to_owned(),
        ),
        ("popc", 32, "popc.b32 %r2, %r1;".to_owned()),
        ("clz", 32, "clz.b32 %r2, %r1;".to_owned()),
        ("brev", 32, "brev.b32 %r2, %r1;".to_owned()),
        ("bfind", 32, "bfind.s32 %r2, %r1;".to_owned()),
    ]
    .into_iter()
    .chain(two_operands())
    .collect()
}

/// Ops of two and three operands, the others made from the first: of all sizes, small ones often.
fn two_operands() -> impl Iterator<Item = (&'static str, u32, String)> {
    const OTHERS: &str = "mul.lo.u32 %r6, %r1, 0x9E3779B1; and.b32 %r7, %r1, 31; shr.u32 %r7, %r6, %r7; \
         mul.lo.u32 %r6, %r6, 0x85EBCA6B; shr.u32 %r5, %r6, 13; xor.b32 %r6, %r6, %r5; \
         cvt.u16.u32 %h1, %r1; cvt.u16.u32 %h2, %r6; shr.u32 %r5, %r6, 16; cvt.u16.u32 %h3, %r5;";
    let word = |name: &'static str, ins: &str| (name, 32, format!("{OTHERS} {ins}"));
    let half =
        |name: &'static str, ins: &str| (name, 32, format!("{OTHERS} {ins} cvt.u32.u16 %r2, %h2;"));
    let flag = |name: &'static str, ins: &str| {
        (name, 32, format!("{OTHERS} {ins} selp.u32 %r2, 1, 0, %p1;"))
    };
    let single = |name: &'static str, ins: &str| {
        // Results around the least normal number, other inputs flushed or not.
        let body = "and.b32 %r5, %r1, 0x80ffffff; or.b32 %r5, %r5, 0x1f000000; and.b32 %r6, %r6, 0x00ffffff; \
             or.b32 %r6, %r6, 0x1f800000; mov.b32 %f1, %r5; mov.b32 %f3, %r6; and.b32 %r7, %r7, 0x81ffffff; \
             mov.b32 %f4, %r7; cvt.f64.f32 %d1, %f4;";
        (name, 32, format!("{OTHERS} {body} {ins} mov.b32 %r2, %f2;"))
    };
    [
        word("div.u32", "div.u32 %r2, %r1, %r7;"),
        word("rem.u32", "rem.u32 %r2, %r1, %r7;"),
        word("div.s32", "div.s32 %r2, %r1, %r7;"),
        word("rem.s32", "rem.s32 %r2, %r6, %r7;"),
        word("div.u32/7", "div.u32 %r2, %r1, 7;"),
        word("div.u32/10", "div.u32 %r2, %r1, 10;"),
        word("rem.u32/big", "rem.u32 %r2, %r1, 0xfffffffb;"),
        word("div.s32/-7", "div.s32 %r2, %r1, -7;"),
        word("rem.s32/8", "rem.s32 %r2, %r1, 8;"),
        word("div.s32/min", "div.s32 %r2, %r1, 0x80000000;"),
        word("div.s32/-1", "div.s32 %r2, %r1, -1;"),
        word("div.u32/0", "div.u32 %r2, %r1, 0;"),
        half("div.u16", "div.u16 %h2, %h1, %h3;"),
        half("rem.s16", "rem.s16 %h2, %h1, %h3;"),
        half("div.s16/-3", "div.s16 %h2, %h1, -3;"),
        word("mul.hi.u32", "mul.hi.u32 %r2, %r1, %r6;"),
        word("mul.hi.s32", "mul.hi.s32 %r2, %r1, %r6;"),
        half("mul.hi.s16", "mul.hi.s16 %h2, %h1, %h3;"),
        word("add.sat", "add.sat.s32 %r2, %r1, %r6;"),
        word("sub.sat", "sub.sat.s32 %r2, %r1, %r6;"),
        word("shl", "and.b32 %r7, %r6, 63; shl.b32 %r2, %r1, %r7;"),
        word("shr.u32", "and.b32 %r7, %r6, 63; shr.u32 %r2, %r1, %r7;"),
        word("shr.s32", "and.b32 %r7, %r6, 63; shr.s32 %r2, %r1, %r7;"),
        word("shr.huge", "shr.s32 %r2, %r1, %r6;"),
        half("shl.b16", "and.b32 %r7, %r6, 31; shl.b16 %h2, %h1, %r7;"),
        half("shr.s16", "and.b32 %r7, %r6, 31; shr.s16 %h2, %h1, %r7;"),
        word("bfe.u32", "bfe.u32 %r2, %r1, %r6, %r7;"),
        word("bfe.s32", "and.b32 %r7, %r7, 63; and.b32 %r6, %r6, 31; bfe.s32 %r2, %r1, %r6, %r7;"),
        word("bfe.s32 3 7", "bfe.s32 %r2, %r1, 3, 7;"),
        word("bfe.s32 28 9", "bfe.s32 %r2, %r1, 28, 9;"),
        word("bfe.u32 40 9", "bfe.u32 %r2, %r1, 40, 9;"),
        word("bfi 5 11", "bfi.b32 %r2, %r1, %r6, 5, 11;"),
        word("bfi 30 11", "bfi.b32 %r2, %r1, %r6, 30, 11;"),
        word("bfi", "and.b32 %r7, %r7, 63; bfi.b32 %r2, %r1, %r6, %r7, 9;"),
        word("bfe.s64", "cvt.u64.u32 %rd3, %r6; mul.lo.u64 %rd3, %rd3, %rd3; bfe.s64 %rd3, %rd3, 33, 21; cvt.u32.u64 %r2, %rd3;"),
        word("popc.b64", "cvt.u64.u32 %rd3, %r6; mul.lo.u64 %rd3, %rd3, %rd3; popc.b64 %r2, %rd3;"),
        word("brev.b64", "cvt.u64.u32 %rd3, %r6; mul.lo.u64 %rd3, %rd3, %rd3; brev.b64 %rd3, %rd3; cvt.u32.u64 %r2, %rd3;"),
        word("clz small", "clz.b32 %r2, %r7;"),
        word("prmt", "prmt.b32 %r2, %r1, %r6, 0x7d2f;"),
        word("prmt any", "prmt.b32 %r2, %r1, %r6, %r7;"),
        word("dp4a", "dp4a.s32.u32 %r2, %r1, %r6, %r7;"),
        word("dp2a.hi", "dp2a.hi.u32.s32 %r2, %r1, %r6, %r7;"),
        half("add.f16", "add.rn.f16 %h2, %h1, %h3;"),
        half("sub.ftz.f16", "sub.rn.ftz.f16 %h2, %h1, %h3;"),
        half("mul.f16", "mul.rn.f16 %h2, %h1, %h3;"),
        half("mul.ftz.f16", "mul.rn.ftz.sat.f16 %h2, %h1, %h3;"),
        half("fma.f16", "fma.rn.f16 %h2, %h1, %h3, %h2;"),
        half("fma.ftz.f16", "fma.rn.ftz.f16 %h2, %h1, %h3, %h2;"),
        half("fma.relu.f16", "fma.rn.relu.f16 %h2, %h1, %h3, %h2;"),
        half("add.bf16", "add.rn.bf16 %h2, %h1, %h3;"),
        half("mul.bf16", "mul.rn.bf16 %h2, %h1, %h3;"),
        half("fma.bf16", "fma.rn.bf16 %h2, %h1, %h3, %h2;"),
        half("min.f16", "min.f16 %h2, %h1, %h3;"),
        half("max.NaN.bf16", "max.NaN.bf16 %h2, %h1, %h3;"),
        flag("setp.f16", "setp.ltu.f16 %p1, %h1, %h3;"),
        flag("setp.ftz.f16", "setp.eq.ftz.f16 %p1, %h1, %h3;"),
        single("mul.ftz.f32", "mul.ftz.f32 %f2, %f1, %f3; cvt.rn.f16.f32 %h1, %f2;"),
        single("fma.ftz.f32", "fma.rn.ftz.f32 %f2, %f1, %f3, %f4; add.f32 %f1, %f1, %f3;"),
        single("div.ftz.f32", "mul.f32 %f3, %f3, 0f5F000000; mul.f32 %f3, %f3, 0f5F000000; div.rn.ftz.f32 %f2, %f1, %f3;"),
        single("f32.f64.ftz", "mul.f64 %d1, %d1, 0d3fe0000000000001; cvt.rn.ftz.f32.f64 %f2, %d1;"),
    ]
    .into_iter()
}

/// Makes `%f1`, `%f3` and `%f4` of a number's bits: of all sizes; of similar size, so that digits cancel; around the least normal
/// number; zeros, infinities, small powers of two and their neighbors.
const OPERANDS: [(&str, &str); 4] = [
    (
        "any",
        "mov.b32 %f1, %r1; mov.b32 %f3, %r6; mul.lo.u32 %r5, %r6, 0xC2B2AE35; xor.b32 %r5, %r5, %r7; mov.b32 %f4, %r5;",
    ),
    (
        "near",
        "and.b32 %r5, %r1, 0x80ffffff; or.b32 %r5, %r5, 0x3f000000; mov.b32 %f1, %r5; and.b32 %r5, %r6, 0x80ffffff; \
         or.b32 %r5, %r5, 0x3f000000; mov.b32 %f3, %r5; mul.lo.u32 %r5, %r6, 0xC2B2AE35; and.b32 %r5, %r5, 0x80ffffff; \
         or.b32 %r5, %r5, 0x3e000000; mov.b32 %f4, %r5;",
    ),
    (
        "small",
        "and.b32 %r5, %r1, 0x80ffffff; or.b32 %r5, %r5, 0x1f000000; mov.b32 %f1, %r5; and.b32 %r5, %r6, 0x80ffffff; \
         or.b32 %r5, %r5, 0x1f800000; mov.b32 %f3, %r5; and.b32 %r5, %r7, 0x81ffffff; mov.b32 %f4, %r5;",
    ),
    (
        "special",
        "and.b32 %r5, %r1, 7; setp.eq.u32 %p1, %r5, 0; and.b32 %r5, %r1, 0xff800001; @%p1 or.b32 %r5, %r5, 0x7f800000; \
         mov.b32 %f1, %r5; and.b32 %r5, %r6, 48; setp.eq.u32 %p1, %r5, 0; and.b32 %r5, %r6, 0xff800001; \
         @%p1 and.b32 %r5, %r5, 0x80000001; mov.b32 %f3, %r5; and.b32 %r5, %r7, 0xc0000001; mov.b32 %f4, %r5;",
    ),
];

/// Ops in f32 in the directions other than to nearest: the bits of all three results put together.
fn directed() -> impl Iterator<Item = (String, u32, String)> {
    const OTHERS: &str = "mul.lo.u32 %r6, %r1, 0x9E3779B1; shr.u32 %r7, %r6, 15; xor.b32 %r6, %r6, %r7; \
         mul.lo.u32 %r6, %r6, 0x85EBCA6B; shr.u32 %r7, %r6, 13; xor.b32 %r7, %r7, %r6; mul.lo.u32 %r7, %r7, 0x9E3779B1;";
    let ops: [(&str, bool, &str); 10] = [
        ("add", true, "add.R.f32 %f2, %f1, %f3;"),
        ("sub", true, "sub.R.f32 %f2, %f4, %f3;"),
        ("mul", true, "mul.R.f32 %f2, %f1, %f3;"),
        ("fma", true, "fma.R.f32 %f2, %f1, %f3, %f4;"),
        ("div", true, "div.R.f32 %f2, %f4, %f3;"),
        ("sqrt", true, "sqrt.R.f32 %f2, %f3;"),
        ("rcp", true, "rcp.R.f32 %f2, %f1;"),
        (
            "f32.f64",
            true,
            "mul.f64 %d1, %d2, %d3; cvt.R.f32.f64 %f2, %d1;",
        ),
        ("f32.s64", false, "cvt.R.f32.s64 %f2, %rd3;"),
        ("f32.u64", false, "cvt.R.f32.u64 %f2, %rd3;"),
    ];
    let case = |(op, with_ftz, ins): (&str, bool, &str),
                (kind, operands): (&str, &str),
                ftz: bool| {
        let suffix = if ftz && with_ftz { ".ftz" } else { "" };
        let last = format!("max.NaN{suffix}.f32 %f2, %f2, %f2; mov.b32 %r5, %f2;");
        let each: String = ["rz", "rm", "rp", "rn"]
            .map(|round| {
                let ins = ins.replace('R', &format!("{round}{suffix}"));
                format!("{ins} {last} shf.l.wrap.b32 %r2, %r2, %r2, 7; xor.b32 %r2, %r2, %r5;\n")
            })
            .concat();
        let wide = "shr.u32 %r5, %r7, 26; mov.b64 %rd3, {%r6, %r7}; shr.s64 %rd3, %rd3, %r5; cvt.f64.f32 %d2, %f1; cvt.f64.f32 %d3, %f3;";
        (
            format!("{op}{suffix} {kind}"),
            32,
            format!("{OTHERS} {operands} {wide} mov.u32 %r2, 0; {each}"),
        )
    };
    ops.into_iter().flat_map(move |op| {
        OPERANDS
            .into_iter()
            .flat_map(move |kind| [false, true].map(|ftz| case(op, kind, ftz)))
    })
}

/// Interpreted inputs; more would take hours.
const SAMPLES: u32 = 1 << 20;

fn compare(device: &Device, name: &str, bits: u32, body: &str, args: &Args) -> bool {
    let kernel = kernel(device, body);
    let count = if bits == 16 { 1 << 16 } else { SAMPLES };
    let stride = if bits == 16 { 1u32 } else { 4099 };
    let outputs = [Engine::default(), Engine::Interp].map(|engine| {
        let out = device.alloc::<u32>(count as usize).expect("memory");
        let mut launch = kernel
            .launch()
            .grid(count / 256)
            .block(256)
            .arg(&out)
            .arg(0u32)
            .arg(stride)
            .engine(engine);
        if let (Some(gang), Engine::Jit) = (args.gang, engine) {
            launch = launch.gang(gang);
        }
        launch
            .run()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        out.read().expect("results")
    });
    let differ = (0..count as usize).filter(|&i| outputs[0][i] != outputs[1][i]);
    let first = differ.clone().next().map(|i| {
        format!(
            " first {:08x} -> {:08x}, not {:08x}",
            (i as u32).wrapping_mul(stride),
            outputs[0][i],
            outputs[1][i]
        )
    });
    let wrong = differ.count();
    println!(
        "{name:14} {count} inputs, {wrong} differ from the interpreter{}",
        first.unwrap_or_default()
    );
    wrong == 0
}

fn main() -> ExitCode {
    let args = args();
    let device = Device::new().expect("a device");
    let wanted =
        |name: &str| args.names.is_empty() || args.names.iter().any(|wanted| wanted == name);
    let mut good = true;
    for (name, bits, body) in exact() {
        if wanted(name) {
            good &= compare(&device, name, bits, &body, &args);
        }
    }
    for (name, bits, body) in directed() {
        if wanted(&name) || wanted(name.split(['.', ' ']).next().unwrap_or_default()) {
            good &= compare(&device, &name, bits, &body, &args);
        }
    }
    good &= formats::check(&device, &args, &wanted);
    for case in cases() {
        if wanted(case.name) {
            good &= measure(&device, &case, &args);
        }
    }
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
