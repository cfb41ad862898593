//! Compares rounding in every direction, `.ftz`, `.sat` and `.relu` with exact arithmetic, on
//! random and corner operands.
//!
//! `cargo run --release -p ptxjit-bench --example rounding -- [--count N] [--gang N] [--seed N]
//! [NAME…]` runs each instruction on N triples of operands (a million if nothing else is said), at
//! each gang width and for a small part in the interpreter, and ends with an error if a result is
//! not the exact one rounded once. NaNs count as equal.
//!
//! The reference shares nothing with ptxjit: it computes with 128-bit integers and a sticky bit. It
//! is compared with the host's own operations first, which round to nearest.
//!
//! The file is long because an example is one file.

#![expect(clippy::print_stdout, reason = "a program that prints a table")]

use std::process::ExitCode;

use ptxjit::{Device, Engine, Kernel, Module};

/// Operands per launch.
const CHUNK: usize = 1 << 17;
/// Operands that the interpreter sees, which takes a microsecond for each.
const INTERPRETED: usize = 1 << 12;
const GANGS: [u32; 5] = [1, 4, 8, 16, 32];

/// A binary floating-point format of IEEE 754.
#[derive(Copy, Clone, PartialEq, Eq)]
struct Format {
    exp_bits: u32,
    man_bits: u32,
}

const F16: Format = Format {
    exp_bits: 5,
    man_bits: 10,
};
const BF16: Format = Format {
    exp_bits: 8,
    man_bits: 7,
};
const F32: Format = Format {
    exp_bits: 8,
    man_bits: 23,
};
const F64: Format = Format {
    exp_bits: 11,
    man_bits: 52,
};

#[derive(Copy, Clone, PartialEq, Eq)]
enum Round {
    Near,
    Zero,
    Down,
    Up,
}

/// What an instruction does to its operands and its result.
#[derive(Copy, Clone)]
struct Mode {
    round: Round,
    ftz: bool,
    sat: bool,
    relu: bool,
}

/// A number as it is, without a format: `(-1)^neg * (sig + s) * 2^exp` with `0 < s < 1` if sticky
/// and `s = 0` if not.
#[derive(Copy, Clone)]
enum Exact {
    Nan,
    Inf { neg: bool },
    Zero { neg: bool },
    Number(Number),
}

#[derive(Copy, Clone)]
struct Number {
    neg: bool,
    sig: u128,
    exp: i32,
    sticky: bool,
}

impl Format {
    fn sign(self) -> u64 {
        1 << (self.exp_bits + self.man_bits)
    }

    fn bias(self) -> i32 {
        (1 << (self.exp_bits - 1)) - 1
    }

    fn infinity(self) -> u64 {
        ((1 << self.exp_bits) - 1) << self.man_bits
    }

    fn is_nan(self, bits: u64) -> bool {
        bits & (self.sign() - 1) > self.infinity()
    }

    fn one(self) -> u64 {
        (self.bias() as u64) << self.man_bits
    }

    fn unpack(self, bits: u64, ftz: bool) -> Exact {
        let neg = bits & self.sign() != 0;
        let magnitude = bits & (self.sign() - 1);
        let man = magnitude & ((1 << self.man_bits) - 1);
        let biased = (magnitude >> self.man_bits) as i32;
        if magnitude > self.infinity() {
            Exact::Nan
        } else if magnitude == self.infinity() {
            Exact::Inf { neg }
        } else if magnitude == 0 || ftz && biased == 0 {
            Exact::Zero { neg }
        } else {
            let hidden = if biased == 0 { 0 } else { 1 << self.man_bits };
            Exact::Number(Number {
                neg,
                sig: u128::from(man | hidden),
                exp: biased.max(1) - self.bias() - self.man_bits as i32,
                sticky: false,
            })
        }
    }

    fn pack(self, value: Exact, mode: Mode) -> u64 {
        let bits = match value {
            Exact::Nan => self.infinity() + 1,
            Exact::Inf { neg } => self.infinity() | if neg { self.sign() } else { 0 },
            Exact::Zero { neg } => {
                if neg {
                    self.sign()
                } else {
                    0
                }
            }
            Exact::Number(number) => self.round(number, mode),
        };
        let neg = bits & self.sign() != 0;
        if mode.sat {
            return match () {
                () if neg || self.is_nan(bits) => 0,
                () => bits.min(self.one()),
            };
        }
        if mode.relu && neg && !self.is_nan(bits) {
            return 0;
        }
        bits
    }

    fn round(self, number: Number, mode: Mode) -> u64 {
        let least = 1 - self.bias() - self.man_bits as i32;
        let sign = if number.neg { self.sign() } else { 0 };
        let unbounded = self.round_at(number, mode.round, i32::MIN);
        if mode.ftz && unbounded.1 + top(unbounded.0) < least + self.man_bits as i32 {
            // Flushed is what is below the least normal number after it was rounded to the
            // precision of the format.
            return sign;
        }
        let (sig, exp) = self.round_at(number, mode.round, least);
        if sig == 0 {
            return sign;
        }
        if exp + top(sig) > self.bias() {
            let away = match mode.round {
                Round::Near => true,
                Round::Zero => false,
                Round::Down => number.neg,
                Round::Up => !number.neg,
            };
            return sign | (self.infinity() - u64::from(!away));
        }
        // The significand has its full length unless the number is subnormal.
        let (sig, exp) = if top(sig) > self.man_bits as i32 {
            (sig >> 1, exp + 1)
        } else {
            (sig, exp)
        };
        let biased = if sig >> self.man_bits == 0 {
            0
        } else {
            (exp - least + 1) as u64
        };
        sign | biased << self.man_bits | (sig as u64 & ((1 << self.man_bits) - 1))
    }

    /// Rounded to the bits of the significand, or to a multiple of `2^least` if that is coarser.
    fn round_at(self, number: Number, round: Round, least: i32) -> (u128, i32) {
        let exp = (number.exp + top(number.sig) - self.man_bits as i32).max(least);
        let shift = exp - number.exp;
        if shift <= 0 {
            // Sticky numbers have many more bits than any format.
            return (number.sig << -shift, exp);
        }
        let (kept, half, rest) = match shift {
            1..=127 => {
                let cut = number.sig & ((1 << shift) - 1);
                let half = 1u128 << (shift - 1);
                (number.sig >> shift, cut & half != 0, cut & (half - 1) != 0)
            }
            _ => (0, shift == 128 && number.sig >> 127 != 0, true),
        };
        let rest = rest || number.sticky;
        let up = match round {
            Round::Near => half && (rest || kept & 1 != 0),
            Round::Zero => false,
            Round::Down => number.neg && (half || rest),
            Round::Up => !number.neg && (half || rest),
        };
        (kept + u128::from(up), exp)
    }
}

/// The place of the highest bit.
fn top(sig: u128) -> i32 {
    127 - sig.leading_zeros() as i32
}

fn negate(value: Exact) -> Exact {
    match value {
        Exact::Nan => Exact::Nan,
        Exact::Inf { neg } => Exact::Inf { neg: !neg },
        Exact::Zero { neg } => Exact::Zero { neg: !neg },
        Exact::Number(number) => Exact::Number(Number {
            neg: !number.neg,
            ..number
        }),
    }
}

fn sum(a: Exact, b: Exact, round: Round) -> Exact {
    match (a, b) {
        (Exact::Nan, _) | (_, Exact::Nan) => Exact::Nan,
        (Exact::Inf { neg: x }, Exact::Inf { neg: y }) if x != y => Exact::Nan,
        (Exact::Inf { .. }, _) => a,
        (_, Exact::Inf { .. }) => b,
        (Exact::Zero { neg: x }, Exact::Zero { neg: y }) => Exact::Zero {
            neg: if x == y { x } else { round == Round::Down },
        },
        (Exact::Zero { .. }, _) => b,
        (_, Exact::Zero { .. }) => a,
        (Exact::Number(x), Exact::Number(y)) => sum_of_numbers(x, y, round),
    }
}

fn sum_of_numbers(x: Number, y: Number, round: Round) -> Exact {
    // The larger first, its highest bit at bit 125.
    let weight = |n: &Number| n.exp + top(n.sig);
    let align = |n: Number| {
        let shift = 125 - top(n.sig);
        (n.sig << shift, n.exp - shift)
    };
    let (big, small) = if weight(&x) >= weight(&y) {
        (x, y)
    } else {
        (y, x)
    };
    let ((big_sig, exp), (small_sig, small_exp)) = (align(big), align(small));
    let gap = (exp - small_exp) as u32;
    let (shifted, lost) = if gap > 127 {
        (0, true)
    } else {
        (
            small_sig >> gap,
            gap > 0 && small_sig & ((1u128 << gap) - 1) != 0,
        )
    };
    let number = |neg, sig| {
        Exact::Number(Number {
            neg,
            sig,
            exp,
            sticky: lost,
        })
    };
    if big.neg == small.neg {
        return number(big.neg, big_sig + shifted);
    }
    // What was cut off makes the difference smaller: one less, and a rest that is not zero.
    let (larger, smaller, neg) = if big_sig >= shifted {
        (big_sig, shifted, big.neg)
    } else {
        (shifted, big_sig, small.neg)
    };
    match larger - smaller - u128::from(lost) {
        0 => Exact::Zero {
            neg: round == Round::Down,
        },
        sig => number(neg, sig),
    }
}

fn product(a: Exact, b: Exact) -> Exact {
    let neg = is_negative(a) != is_negative(b);
    match (a, b) {
        (Exact::Nan, _) | (_, Exact::Nan) => Exact::Nan,
        (Exact::Inf { .. }, Exact::Zero { .. }) | (Exact::Zero { .. }, Exact::Inf { .. }) => {
            Exact::Nan
        }
        (Exact::Inf { .. }, _) | (_, Exact::Inf { .. }) => Exact::Inf { neg },
        (Exact::Zero { .. }, _) | (_, Exact::Zero { .. }) => Exact::Zero { neg },
        (Exact::Number(x), Exact::Number(y)) => Exact::Number(Number {
            neg,
            sig: x.sig * y.sig,
            exp: x.exp + y.exp,
            sticky: false,
        }),
    }
}

fn quotient(a: Exact, b: Exact) -> Exact {
    let neg = is_negative(a) != is_negative(b);
    match (a, b) {
        (Exact::Nan, _) | (_, Exact::Nan) => Exact::Nan,
        (Exact::Inf { .. }, Exact::Inf { .. }) | (Exact::Zero { .. }, Exact::Zero { .. }) => {
            Exact::Nan
        }
        (Exact::Inf { .. }, _) | (_, Exact::Zero { .. }) => Exact::Inf { neg },
        (_, Exact::Inf { .. }) | (Exact::Zero { .. }, _) => Exact::Zero { neg },
        (Exact::Number(x), Exact::Number(y)) => {
            let shift = 126 - top(x.sig);
            let dividend = x.sig << shift;
            Exact::Number(Number {
                neg,
                sig: dividend / y.sig,
                exp: x.exp - shift - y.exp,
                sticky: !dividend.is_multiple_of(y.sig),
            })
        }
    }
}

fn root(a: Exact) -> Exact {
    match a {
        Exact::Number(x) if !x.neg => {
            // An even exponent, and at least 58 bits of root.
            let shift = 120 - top(x.sig);
            let shift = shift - (x.exp - shift).rem_euclid(2);
            let (sig, exp) = (x.sig << shift, x.exp - shift);
            let root = sig.isqrt();
            Exact::Number(Number {
                neg: false,
                sig: root,
                exp: exp / 2,
                sticky: root * root != sig,
            })
        }
        Exact::Number(_) | Exact::Inf { neg: true } => Exact::Nan,
        Exact::Nan | Exact::Inf { .. } | Exact::Zero { .. } => a,
    }
}

fn is_negative(value: Exact) -> bool {
    match value {
        Exact::Nan => false,
        Exact::Inf { neg } | Exact::Zero { neg } => neg,
        Exact::Number(number) => number.neg,
    }
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Op {
    Add,
    Sub,
    Mul,
    Fma,
    Div,
    Rcp,
    Sqrt,
    /// The first operand in another format.
    Convert,
}

impl Op {
    fn n_operands(self) -> usize {
        match self {
            Op::Rcp | Op::Sqrt | Op::Convert => 1,
            Op::Add | Op::Sub | Op::Mul | Op::Div => 2,
            Op::Fma => 3,
        }
    }

    fn exact(self, v: [Exact; 3], round: Round) -> Exact {
        let one = Exact::Number(Number {
            neg: false,
            sig: 1,
            exp: 0,
            sticky: false,
        });
        match self {
            Op::Add => sum(v[0], v[1], round),
            Op::Sub => sum(v[0], negate(v[1]), round),
            Op::Mul => product(v[0], v[1]),
            Op::Fma => sum(product(v[0], v[1]), v[2], round),
            Op::Div => quotient(v[0], v[1]),
            Op::Rcp => quotient(one, v[0]),
            Op::Sqrt => root(v[0]),
            Op::Convert => v[0],
        }
    }
}

/// What an operand's 64 bits are.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Operand {
    Float(Format),
    /// Two of them, the first in the low half.
    Pair(Format),
    /// Of so many bits, signed or not.
    Int(u32, bool),
}

impl Operand {
    fn exact(self, bits: u64, ftz: bool) -> Exact {
        match self {
            Operand::Float(format) | Operand::Pair(format) => format.unpack(bits, ftz),
            Operand::Int(width, signed) => {
                let value = if signed {
                    i128::from((bits << (64 - width)) as i64 >> (64 - width))
                } else {
                    i128::from(bits & (u64::MAX >> (64 - width)))
                };
                match value {
                    0 => Exact::Zero { neg: false },
                    _ => Exact::Number(Number {
                        neg: value < 0,
                        sig: value.unsigned_abs(),
                        exp: 0,
                        sticky: false,
                    }),
                }
            }
        }
    }
}

/// One instruction with one set of modifiers.
struct Form {
    /// The instruction, from `%a`, `%b` and `%c` to `%d`.
    instruction: String,
    mode: Mode,
}

/// An operation on one set of types, in all its forms.
struct Case {
    name: String,
    op: Op,
    operands: [Operand; 3],
    result: Operand,
    forms: Vec<Form>,
}

const ROUNDS: [(&str, Round); 4] = [
    (".rn", Round::Near),
    (".rz", Round::Zero),
    (".rm", Round::Down),
    (".rp", Round::Up),
];

fn case(
    op: Op,
    opcode: &str,
    types: &str,
    operands: [Operand; 3],
    result: Operand,
    rounds: &[(&str, Round)],
    options: &[&str],
) -> Case {
    let sources = ["%d, %a", "%d, %a, %b", "%d, %a, %b, %c"][op.n_operands() - 1];
    let forms = rounds.iter().flat_map(|&(rnd, round)| {
        options.iter().map(move |option| Form {
            instruction: format!("{opcode}{rnd}{option}{types} {sources};"),
            mode: Mode {
                round,
                ftz: option.contains(".ftz"),
                sat: option.contains(".sat"),
                relu: option.contains(".relu"),
            },
        })
    });
    Case {
        name: format!("{opcode}{types}"),
        op,
        operands,
        result,
        forms: forms.collect(),
    }
}

fn cases() -> Vec<Case> {
    const ALL: [(Op, &str); 7] = [
        (Op::Add, "add"),
        (Op::Sub, "sub"),
        (Op::Mul, "mul"),
        (Op::Fma, "fma"),
        (Op::Div, "div"),
        (Op::Rcp, "rcp"),
        (Op::Sqrt, "sqrt"),
    ];
    let near = &ROUNDS[..1];
    let mut cases = Vec::new();
    for (op, opcode) in ALL {
        let single = [Operand::Float(F32); 3];
        let options: &[&str] = if op.n_operands() > 1 && op != Op::Div {
            &["", ".ftz", ".sat", ".ftz.sat"]
        } else {
            &["", ".ftz"]
        };
        cases.push(case(
            op, opcode, ".f32", single, single[0], &ROUNDS, options,
        ));
        let double = [Operand::Float(F64); 3];
        cases.push(case(op, opcode, ".f64", double, double[0], &ROUNDS, &[""]));
        if matches!(op, Op::Add | Op::Sub | Op::Mul | Op::Fma) {
            let pair = [Operand::Pair(F32); 3];
            cases.push(case(
                op,
                opcode,
                ".f32x2",
                pair,
                pair[0],
                &ROUNDS,
                &["", ".ftz"],
            ));
            for (ty, format) in [("f16", F16), ("bf16", BF16)] {
                let options: &[&str] = match (op, ty) {
                    (Op::Fma, "f16") => &["", ".ftz", ".sat", ".ftz.sat", ".relu", ".ftz.relu"],
                    (Op::Fma, _) => &["", ".relu"],
                    (_, "f16") => &["", ".ftz", ".sat", ".ftz.sat"],
                    _ => &[""],
                };
                let one = [Operand::Float(format); 3];
                let two = [Operand::Pair(format); 3];
                cases.push(case(
                    op,
                    opcode,
                    &format!(".{ty}"),
                    one,
                    one[0],
                    near,
                    options,
                ));
                cases.push(case(
                    op,
                    opcode,
                    &format!(".{ty}x2"),
                    two,
                    two[0],
                    near,
                    options,
                ));
            }
        }
    }
    for (ty, format) in [("f16", F16), ("bf16", BF16)] {
        let (narrow, wide) = (Operand::Float(format), Operand::Float(F32));
        let types = format!(".f32.{ty}");
        for (op, opcode) in [(Op::Add, "add"), (Op::Sub, "sub")] {
            let operands = [narrow, wide, wide];
            cases.push(case(
                op,
                opcode,
                &types,
                operands,
                wide,
                &ROUNDS,
                &["", ".sat"],
            ));
        }
        let operands = [narrow, narrow, wide];
        cases.push(case(
            Op::Fma,
            "fma",
            &types,
            operands,
            wide,
            &ROUNDS,
            &["", ".sat"],
        ));
    }
    cases.extend(conversions());
    cases
}

fn conversions() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut convert = |types: &str, from, to, rounds: &[(&str, Round)], options: &[&str]| {
        cases.push(case(
            Op::Convert,
            "cvt",
            types,
            [from; 3],
            to,
            rounds,
            options,
        ));
    };
    let (f16, bf16, f32, f64) = (
        Operand::Float(F16),
        Operand::Float(BF16),
        Operand::Float(F32),
        Operand::Float(F64),
    );
    convert(
        ".f32.f64",
        f64,
        f32,
        &ROUNDS,
        &["", ".ftz", ".sat", ".ftz.sat"],
    );
    convert(".f16.f64", f64, f16, &ROUNDS, &["", ".sat"]);
    convert(
        ".f16.f32",
        f32,
        f16,
        &ROUNDS,
        &["", ".ftz", ".sat", ".ftz.sat"],
    );
    convert(".f16.f32", f32, f16, &ROUNDS[..2], &[".relu"]);
    convert(".bf16.f32", f32, bf16, &ROUNDS[..2], &["", ".relu"]);
    convert(".bf16.f32", f32, bf16, &ROUNDS[2..], &[""]);
    convert(".bf16.f64", f64, bf16, &ROUNDS, &[""]);
    for (int, width, signed) in [
        ("s8", 8, true),
        ("u8", 8, false),
        ("s16", 16, true),
        ("u16", 16, false),
        ("s32", 32, true),
        ("u32", 32, false),
        ("s64", 64, true),
        ("u64", 64, false),
    ] {
        let from = Operand::Int(width, signed);
        convert(&format!(".f64.{int}"), from, f64, &ROUNDS, &[""]);
        convert(&format!(".f32.{int}"), from, f32, &ROUNDS, &["", ".sat"]);
        convert(&format!(".f16.{int}"), from, f16, &ROUNDS, &["", ".sat"]);
        if width > 8 {
            convert(&format!(".bf16.{int}"), from, bf16, &ROUNDS, &[""]);
        }
    }
    cases
}

/// The type of a register for an operand, and how it comes from 64 bits and goes there.
fn register(operand: Operand) -> (&'static str, &'static str, &'static str) {
    const WORD: (&str, &str, &str) = ("b32", "cvt.u32.u64 {r}, {w};", "cvt.u64.u32 {w}, {r};");
    const HALF: (&str, &str, &str) = ("b16", "cvt.u16.u64 {r}, {w};", "cvt.u64.u16 {w}, {r};");
    const LONG: (&str, &str, &str) = ("b64", "mov.b64 {r}, {w};", "mov.b64 {w}, {r};");
    match operand {
        Operand::Float(F64) | Operand::Pair(F32) | Operand::Int(64, _) => LONG,
        Operand::Float(F32) | Operand::Pair(_) | Operand::Int(32, _) => WORD,
        Operand::Float(_) | Operand::Int(..) => HALF,
    }
}

/// A kernel that applies all forms of a case to the operands of each thread.
fn kernel(device: &Device, case: &Case) -> Kernel {
    let mut body = String::new();
    for (name, operand) in ["a", "b", "c"]
        .iter()
        .zip(case.operands)
        .take(case.op.n_operands())
    {
        let (ty, load, _) = register(operand);
        let load = load
            .replace("{r}", &format!("%{name}"))
            .replace("{w}", "%w");
        body += &format!(
            "    .reg .{ty} %{name};\n    ld.param.u64 %p, [p_{name}];\n    add.u64 %p, %p, %o;\n    ld.global.b64 %w, [%p];\n    {load}\n"
        );
    }
    let (ty, _, store) = register(case.result);
    let store = store.replace("{r}", "%d").replace("{w}", "%w");
    body += &format!("    .reg .{ty} %d;\n    ld.param.u64 %p, [out];\n    add.u64 %p, %p, %o;\n");
    for (n, form) in case.forms.iter().enumerate() {
        let at = n * CHUNK * 8;
        body += &format!(
            "    {}\n    {store}\n    st.global.b64 [%p+{at}], %w;\n",
            form.instruction
        );
    }
    let ptx = format!(
        ".version 8.7\n.target sm_100a\n.address_size 64\n
.visible .entry k(.param .u64 p_a, .param .u64 p_b, .param .u64 p_c, .param .u64 out)
{{
    .reg .b32 %i<3>;
    .reg .b64 %o, %p, %w;
    mov.u32 %i0, %ctaid.x;
    mov.u32 %i1, %tid.x;
    mad.lo.u32 %i0, %i0, 256, %i1;
    mul.wide.u32 %o, %i0, 8;
{body}    ret;
}}
"
    );
    let module = Module::from_source(device, "rounding.ptx", &ptx)
        .unwrap_or_else(|error| panic!("{}: {error}\n{ptx}", case.name));
    module.kernel("k").expect("it is there")
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// All kinds of floats: any bits, few significant bits, corners of the format, and neighbours
    /// of `other`.
    fn float(&mut self, format: Format, other: u64) -> u64 {
        let sign = self.next() & format.sign();
        let magnitude = format.sign() - 1;
        let man = (1u64 << format.man_bits) - 1;
        let corner = [
            0,
            1,
            2,
            man - 1,
            man,
            man + 1,
            man + 2,
            format.one() - 1,
            format.one(),
            format.one() + 1,
            format.infinity() - 2,
            format.infinity() - 1,
            format.infinity(),
            format.infinity() + 1 + man / 2,
            format.one() + man / 2,
            format.one() + man / 2 + 1,
        ];
        let bits = match self.below(8) {
            0 => corner[self.below(corner.len() as u64) as usize],
            // Few bits at the top or at the bottom, or all ones but for a few: ties and carries.
            1 => {
                let few = man & !(man >> self.below(6));
                self.next() & (format.infinity() | few)
            }
            2 => {
                self.next() & (format.infinity() | 7)
                    | if self.next() & 1 == 0 { 0 } else { man ^ 7 }
            }
            // Around the exponent of the other, so that sums cancel or just reach each other.
            3 | 4 => {
                let gap = self.below(2 * u64::from(format.man_bits) + 6) as i64
                    - i64::from(format.man_bits)
                    - 3;
                let exp = ((other & magnitude) >> format.man_bits) as i64 + gap;
                let most = (format.infinity() >> format.man_bits) as i64;
                ((exp.clamp(0, most - 1) as u64) << format.man_bits) | self.next() & man
            }
            // About the least normal number.
            5 => self.next() & (man << 1 | 1),
            _ => self.next() & magnitude,
        };
        sign | bits & magnitude
    }

    fn operand(&mut self, operand: Operand, other: u64) -> u64 {
        match operand {
            Operand::Float(format) => self.float(format, other),
            Operand::Pair(format) => {
                let width = 1 + format.exp_bits + format.man_bits;
                let low = self.float(format, other);
                self.float(format, other >> width) << width | low
            }
            Operand::Int(width, _) => {
                let bits = self.next() >> self.below(64);
                let bits = match self.below(4) {
                    0 => bits.wrapping_neg(),
                    1 => bits | 1 << self.below(64),
                    2 => (1u64 << self.below(64))
                        .wrapping_add(self.below(3))
                        .wrapping_sub(1),
                    _ => bits,
                };
                bits & (u64::MAX >> (64 - width))
            }
        }
    }
}

/// The result that an instruction must have.
fn expected(case: &Case, mode: Mode, operands: [u64; 3]) -> u64 {
    let one = |operands: [u64; 3], result: Format| {
        let mut values = [Exact::Nan; 3];
        for (n, value) in values.iter_mut().enumerate() {
            // `.ftz` of a conversion is about its f32 side.
            let ftz =
                mode.ftz && (case.op != Op::Convert || case.operands[n] == Operand::Float(F32));
            *value = case.operands[n].exact(operands[n], ftz);
        }
        let ftz = mode.ftz && (case.op != Op::Convert || result == F32);
        result.pack(case.op.exact(values, mode.round), Mode { ftz, ..mode })
    };
    match case.result {
        Operand::Float(format) => one(operands, format),
        Operand::Pair(format) => {
            let width = 1 + format.exp_bits + format.man_bits;
            let low = operands.map(|bits| bits & (u64::MAX >> (64 - width)));
            one(operands.map(|bits| bits >> width), format) << width | one(low, format)
        }
        Operand::Int(..) => unreachable!("no result is an integer"),
    }
}

fn same(result: Operand, got: u64, want: u64) -> bool {
    match result {
        Operand::Pair(format) => {
            let width = 1 + format.exp_bits + format.man_bits;
            let mask = u64::MAX >> (64 - width);
            let part = Operand::Float(format);
            same(part, got & mask, want & mask) && same(part, got >> width, want >> width)
        }
        Operand::Float(format) => got == want || format.is_nan(got) && format.is_nan(want),
        Operand::Int(..) => got == want,
    }
}

/// The reference against the host.
fn check_reference(count: usize) {
    let mode = Mode {
        round: Round::Near,
        ftz: false,
        sat: false,
        relu: false,
    };
    let mut random = Random(1);
    for _ in 0..count {
        let a = random.float(F64, 0);
        let (b, c) = (random.float(F64, a), random.float(F64, a));
        let [x, y, z] = [a, b, c].map(f64::from_bits);
        let v = [a, b, c].map(|bits| F64.unpack(bits, false));
        for (op, native) in [
            (Op::Add, x + y),
            (Op::Sub, x - y),
            (Op::Mul, x * y),
            (Op::Div, x / y),
            (Op::Sqrt, x.sqrt()),
            (Op::Fma, x.mul_add(y, z)),
        ] {
            let got = F64.pack(op.exact(v, Round::Near), mode);
            let is_same = same(Operand::Float(F64), got, native.to_bits());
            assert!(
                is_same,
                "the reference is wrong: {x:e} {y:e} {z:e}: {got:x}, not {native:e}"
            );
        }
        let got = F32.pack(v[0], mode);
        let want = u64::from((x as f32).to_bits());
        assert!(
            same(Operand::Float(F32), got, want),
            "the reference is wrong: {x:e} as f32"
        );
    }
}

struct Args {
    count: usize,
    gangs: Vec<u32>,
    seed: u64,
    names: Vec<String>,
}

fn args() -> Args {
    let mut args = Args {
        count: 1_000_000,
        gangs: GANGS.to_vec(),
        seed: 1,
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
            "--count" => args.count = number() as usize,
            "--gang" => args.gangs = vec![number() as u32],
            "--seed" => args.seed = number(),
            _ => args.names.push(arg),
        }
    }
    args
}

/// The number of wrong results.
fn run(device: &Device, case: &Case, args: &Args) -> usize {
    let kernel = kernel(device, case);
    let mut random = Random(args.seed);
    let mut wrong = 0;
    let mut seen = 0;
    while seen < args.count {
        let mut inputs = [(); 3].map(|()| Vec::with_capacity(CHUNK));
        for _ in 0..CHUNK {
            let a = random.operand(case.operands[0], 0);
            inputs[0].push(a);
            inputs[1].push(random.operand(case.operands[1], a));
            inputs[2].push(random.operand(case.operands[2], a));
        }
        let wanted: Vec<Vec<u64>> = case
            .forms
            .iter()
            .map(|form| {
                (0..CHUNK)
                    .map(|at| expected(case, form.mode, [0, 1, 2].map(|n: usize| inputs[n][at])))
                    .collect()
            })
            .collect();
        let interpreter = (seen == 0).then_some(None);
        for gang in args.gangs.iter().copied().map(Some).chain(interpreter) {
            let results = launch(device, &kernel, &inputs, case.forms.len(), gang);
            let checked = if gang.is_some() { CHUNK } else { INTERPRETED };
            for (n, form) in case.forms.iter().enumerate() {
                for at in 0..checked {
                    let (got, want) = (results[n * CHUNK + at], wanted[n][at]);
                    if same(case.result, got, want) {
                        continue;
                    }
                    wrong += 1;
                    if wrong <= 8 {
                        let [a, b, c] = [0, 1, 2].map(|n: usize| inputs[n][at]);
                        println!(
                            "  {} of {a:x} {b:x} {c:x} at {gang:?}: {got:x}, not {want:x}",
                            form.instruction
                        );
                    }
                }
            }
        }
        seen += CHUNK;
    }
    println!(
        "{:14} {} forms, {seen} operands: {wrong} wrong",
        case.name,
        case.forms.len()
    );
    wrong
}

/// The results of all forms, one after another; the interpreter computes the first few only.
fn launch(
    device: &Device,
    kernel: &Kernel,
    inputs: &[Vec<u64>; 3],
    n_forms: usize,
    gang: Option<u32>,
) -> Vec<u64> {
    let buffers = [0, 1, 2].map(|n: usize| device.alloc_from(&inputs[n]).expect("memory"));
    let out = device.alloc::<u64>(n_forms * CHUNK).expect("memory");
    let count = if gang.is_some() { CHUNK } else { INTERPRETED };
    let mut launch = kernel.launch().grid((count / 256) as u32).block(256);
    for buffer in &buffers {
        launch = launch.arg(buffer);
    }
    launch = launch.arg(&out);
    launch = match gang {
        Some(gang) => launch.gang(gang),
        None => launch.engine(Engine::Interp),
    };
    launch.run().unwrap_or_else(|error| panic!("{error}"));
    out.read().expect("results")
}

fn main() -> ExitCode {
    let args = args();
    check_reference(args.count.min(1_000_000));
    let device = Device::new().expect("a device");
    let wanted =
        |name: &str| args.names.is_empty() || args.names.iter().any(|wanted| wanted == name);
    let mut wrong = 0;
    for case in cases().iter().filter(|case| wanted(&case.name)) {
        wrong += run(&device, case, &args);
    }
    if wrong == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
