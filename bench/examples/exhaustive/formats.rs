//! Conversions between float formats, and the unary ops of halves, over all their inputs.
//!
//! The reference knows a format by the list of its values: rounding is a search in that list, exact in f64. It shares nothing with the
//! IR's evaluation.

use ptxjit::{Device, Kernel};

use super::{Args, kernel, run};

/// What lies above the finite numbers.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Above {
    /// Infinity and NaNs.
    Ieee,
    /// One NaN.
    Nan,
    Nothing,
}

struct Format {
    /// Positive finite numbers by their encoding.
    values: Vec<f64>,
    sign: u32,
    above: Above,
    /// In the lowest bits of a register these are zero.
    shift: u32,
}

impl Format {
    fn new(exp_bits: u32, man_bits: u32, above: Above) -> Format {
        let bias = (1 << (exp_bits - 1)) - 1;
        let all = 1u32 << (exp_bits + man_bits);
        let count = match above {
            Above::Ieee => all - (1 << man_bits),
            Above::Nan => all - 1,
            Above::Nothing => all,
        };
        let value = |code: u32| {
            let (exp, man) = (code >> man_bits, code & ((1 << man_bits) - 1));
            let (exp, man) = if exp == 0 {
                (1, man)
            } else {
                (exp, man | 1 << man_bits)
            };
            f64::from(man) * 2f64.powi(exp as i32 - bias - man_bits as i32)
        };
        Format {
            values: (0..count).map(value).collect(),
            sign: all,
            above,
            shift: 0,
        }
    }

    fn of(name: &str) -> Format {
        match name {
            "f16" => Format::new(5, 10, Above::Ieee),
            "bf16" => Format::new(8, 7, Above::Ieee),
            "tf32" => Format {
                shift: 13,
                ..Format::new(8, 10, Above::Ieee)
            },
            "e4m3" => Format::new(4, 3, Above::Nan),
            "e5m2" => Format::new(5, 2, Above::Ieee),
            "e2m3" => Format::new(2, 3, Above::Nothing),
            "e3m2" => Format::new(3, 2, Above::Nothing),
            "e2m1" => Format::new(2, 1, Above::Nothing),
            _ => unreachable!("no format {name}"),
        }
    }

    fn most(&self) -> u32 {
        self.values.len() as u32 - 1
    }

    fn decode(&self, code: u32) -> f64 {
        let magnitude = code & (self.sign - 1);
        let value = match self.values.get(magnitude as usize) {
            Some(&value) => value,
            None if self.above == Above::Ieee && magnitude == self.most() + 1 => f64::INFINITY,
            None => f64::NAN,
        };
        if code & self.sign != 0 { -value } else { value }
    }

    fn encode(&self, modifiers: &str, x: f64) -> u32 {
        let has = |name: &str| modifiers.split('.').any(|other| other == name);
        let infinity = if has("satfinite") || self.above == Above::Nothing {
            self.most()
        } else {
            self.most() + 1
        };
        if x.is_nan() {
            return match self.above {
                _ if has("sat") => 0,
                Above::Nothing => self.most(),
                Above::Ieee | Above::Nan => self.sign - 1,
            };
        }
        if x.is_sign_negative() && (has("relu") || has("sat")) {
            return 0;
        }
        let size = x.abs();
        let below = self.values.partition_point(|&value| value <= size) - 1;
        let (low, high) = (
            self.values[below],
            match self.values.get(below + 1) {
                Some(&value) => value,
                None => 2.0 * self.values[below] - self.values[below - 1],
            },
        );
        let (down, up) = (size - low, high - size);
        let goes_up = if has("rz") {
            false
        } else if down == up {
            has("rna") || below % 2 == 1
        } else {
            down > up
        };
        let magnitude = below as u32 + u32::from(goes_up && !size.is_infinite());
        let magnitude = if size.is_infinite() || magnitude > self.most() {
            infinity
        } else {
            magnitude
        };
        let one = self.values.partition_point(|&value| value < 1.0) as u32;
        let magnitude = if has("sat") {
            magnitude.min(one)
        } else {
            magnitude
        };
        magnitude | if x.is_sign_negative() { self.sign } else { 0 }
    }
}

/// From f32: destination, modifiers, and the instruction's name for the destination.
const FROM_F32: [(&str, &str, &str); 31] = [
    ("f16", "rn", "f16"),
    ("f16", "rz", "f16"),
    ("f16", "rn.relu", "f16"),
    ("f16", "rz.relu", "f16"),
    ("f16", "rn.sat", "f16"),
    ("f16", "rz.sat", "f16"),
    ("bf16", "rn", "bf16"),
    ("bf16", "rz", "bf16"),
    ("bf16", "rn.relu", "bf16"),
    ("bf16", "rz.relu", "bf16"),
    ("tf32", "rna", "tf32"),
    ("tf32", "rn", "tf32"),
    ("tf32", "rz", "tf32"),
    ("tf32", "rn.relu", "tf32"),
    ("tf32", "rz.relu", "tf32"),
    ("tf32", "rna.satfinite", "tf32"),
    ("tf32", "rn.satfinite", "tf32"),
    ("tf32", "rz.satfinite", "tf32"),
    ("tf32", "rn.satfinite.relu", "tf32"),
    ("tf32", "rz.satfinite.relu", "tf32"),
    ("e4m3", "rn.satfinite", "e4m3x2"),
    ("e4m3", "rn.satfinite.relu", "e4m3x2"),
    ("e5m2", "rn.satfinite", "e5m2x2"),
    ("e5m2", "rn.satfinite.relu", "e5m2x2"),
    ("e2m3", "rn.satfinite", "e2m3x2"),
    ("e2m3", "rn.satfinite.relu", "e2m3x2"),
    ("e3m2", "rn.satfinite", "e3m2x2"),
    ("e3m2", "rn.satfinite.relu", "e3m2x2"),
    ("e2m1", "rn.satfinite", "e2m1x2"),
    ("e2m1", "rn.satfinite.relu", "e2m1x2"),
    ("bf16", "rn.satfinite", "bf16"),
];

fn from_f32((to, modifiers, name): (&str, &str, &str)) -> String {
    let pair = name.ends_with("x2");
    let second = if pair { ", %f1" } else { "" };
    let (result, take) = match name {
        "tf32" => ("%r2", ""),
        "e2m1x2" => ("%b1", "cvt.u32.u8 %r2, %b1; and.b32 %r2, %r2, 15;"),
        _ if pair => ("%h2", "cvt.u32.u16 %r2, %h2; and.b32 %r2, %r2, 255;"),
        _ => ("%h2", "cvt.u32.u16 %r2, %h2;"),
    };
    debug_assert!(name.starts_with(to));
    format!(
        ".reg .b8 %b<2>; mov.b32 %f1, %r1; cvt.{modifiers}.{name}.f32 {result}, %f1{second}; {take}"
    )
}

/// One unary instruction from one small format to another, and what it does to a number.
struct Small {
    name: String,
    bits: u32,
    body: String,
    want: Box<dyn Fn(u32) -> u32>,
}

fn small() -> Vec<Small> {
    let mut all = Vec::new();
    let half = |ins: &str| format!("cvt.u16.u32 %h1, %r1; {ins} cvt.u32.u16 %r2, %h2;");
    for from in ["f16", "bf16"] {
        all.push(Small {
            name: format!("f32.{from}"),
            bits: 16,
            body: format!("cvt.u16.u32 %h1, %r1; cvt.f32.{from} %f2, %h1; mov.b32 %r2, %f2;"),
            want: {
                let format = Format::of(from);
                Box::new(move |x| match format.decode(x) {
                    x if x.is_nan() => 0x7fff_ffff,
                    x => (x as f32).to_bits(),
                })
            },
        });
        for (op, flip) in [("neg", true), ("abs", false)] {
            all.push(Small {
                name: format!("{op}.{from}"),
                bits: 16,
                body: half(&format!("{op}.{from} %h2, %h1;")),
                want: Box::new(move |x| if flip { x ^ 0x8000 } else { x & 0x7fff }),
            });
        }
        let rounds: [(&str, fn(f64) -> f64); 4] = [
            ("rni", f64::round_ties_even),
            ("rzi", f64::trunc),
            ("rmi", f64::floor),
            ("rpi", f64::ceil),
        ];
        for (round, function) in rounds.into_iter().filter(|_| from == "f16") {
            let format = Format::of(from);
            all.push(Small {
                name: format!("{round}.{from}"),
                bits: 16,
                body: half(&format!("cvt.{round}.{from}.{from} %h2, %h1;")),
                want: Box::new(move |x| format.encode("rn", function(format.decode(x)))),
            });
        }
    }
    for (from, to) in [("f16", "bf16"), ("bf16", "f16")] {
        for round in ["rn", "rz"] {
            let (source, target) = (Format::of(from), Format::of(to));
            all.push(Small {
                name: format!("{to}.{from}.{round}"),
                bits: 16,
                body: half(&format!("cvt.{round}.{to}.{from} %h2, %h1;")),
                want: Box::new(move |x| target.encode(round, source.decode(x))),
            });
        }
    }
    for from in ["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"] {
        for relu in ["", ".relu"] {
            let (source, target) = (Format::of(from), Format::of("f16"));
            let (bits, input) = match from {
                "e2m1" => (4, ".reg .b8 %b<2>; cvt.u8.u32 %b1, %r1;"),
                "e2m3" | "e3m2" => (6, "cvt.u16.u32 %h1, %r1;"),
                _ => (8, "cvt.u16.u32 %h1, %r1;"),
            };
            let reg = if from == "e2m1" { "%b1" } else { "%h1" };
            all.push(Small {
                name: format!("f16.{from}{relu}"),
                bits,
                body: format!(
                    "{input} cvt.rn{relu}.f16x2.{from}x2 %r2, {reg}; and.b32 %r2, %r2, 0xffff;"
                ),
                want: Box::new(move |x| target.encode(&relu.replace('.', ""), source.decode(x))),
            });
        }
    }
    for to in ["e4m3", "e5m2"] {
        let (source, target) = (Format::of("f16"), Format::of(to));
        all.push(Small {
            name: format!("{to}.f16"),
            bits: 16,
            body: format!(
                "cvt.rn.satfinite.{to}x2.f16x2 %h2, %r1; cvt.u32.u16 %r2, %h2; and.b32 %r2, %r2, 255;"
            ),
            want: Box::new(move |x| target.encode("rn.satfinite", source.decode(x))),
        });
    }
    all.push(Small {
        name: "bf16.ue8m0".to_owned(),
        bits: 8,
        body: "cvt.u16.u32 %h1, %r1; cvt.rn.bf16x2.ue8m0x2 %r2, %h1; and.b32 %r2, %r2, 0xffff;"
            .to_owned(),
        want: Box::new(|x| match x {
            255 => 0x7fff,
            0 => 0x40,
            _ => x << 7,
        }),
    });
    all
}

/// The results for all inputs of so many bits.
fn results(device: &Device, kernel: &Kernel, bits: u32, args: &Args) -> Vec<u32> {
    let count = 1usize << bits;
    let block = count.min(256);
    let out = device.alloc::<u32>(count).expect("memory");
    let mut launch = kernel
        .launch()
        .grid((count / block) as u32)
        .block(block as u32)
        .arg(&out)
        .arg(0u32)
        .arg(1u32);
    if let Some(gang) = args.gang {
        launch = launch.gang(gang);
    }
    launch.run().unwrap_or_else(|error| panic!("{error}"));
    out.read().expect("results")
}

fn report(name: &str, inputs: u64, wrong: u64, first: Option<(u32, u32, u32)>) -> bool {
    let first = first.map_or(String::new(), |(x, got, want)| {
        format!(" first {x:08x} -> {got:08x}, not {want:08x}")
    });
    println!("{name:22} {inputs} inputs, {wrong} wrong{first}");
    wrong == 0
}

/// Approximations of halves: the largest error, and the ISA's bound.
fn halves(device: &Device, args: &Args, wanted: &dyn Fn(&str) -> bool) -> bool {
    type Case = (&'static str, &'static str, fn(f64) -> f64, bool, f64);
    let cases: [Case; 4] = [
        ("tanh.approx.f16", "f16", f64::tanh, false, -10.987),
        ("tanh.approx.bf16", "bf16", f64::tanh, false, -8.0),
        ("ex2.approx.f16", "f16", f64::exp2, true, -9.9),
        ("ex2.approx.ftz.bf16", "bf16", f64::exp2, true, -7.0),
    ];
    let mut good = true;
    for (name, format, function, relative, bound) in cases {
        if !wanted(name) {
            continue;
        }
        let body = format!("cvt.u16.u32 %h1, %r1; {name} %h2, %h1; cvt.u32.u16 %r2, %h2;");
        let kernel = kernel(device, &body);
        let format = Format::of(format);
        let least = if name.contains("ftz") {
            f64::from(f32::MIN_POSITIVE)
        } else {
            0.0
        };
        let (mut worst, mut at, mut wrong) = (0f64, 0, 0u64);
        for (x, &result) in results(device, &kernel, 16, args).iter().enumerate() {
            let (want, got) = (function(format.decode(x as u32)), format.decode(result));
            let nearest = format.decode(format.encode("rn", want));
            if want.is_nan() || got.is_nan() {
                wrong += u64::from(!(want.is_nan() && result == 0x7fff));
            } else if got != nearest && !(got == 0.0 && want < least) {
                let error = (got - want).abs() / if relative { want.abs() } else { 1.0 };
                // Subnormal results have fewer bits than the bound speaks of; they must be a neighbor of the right one.
                let is_subnormal = relative && want < 2f64.powi(-14);
                wrong += u64::from(!is_subnormal && error.log2() > bound);
                wrong += u64::from(is_subnormal && (got - want).abs() > format.values[1]);
                if error > worst {
                    (worst, at) = (error, x);
                }
            }
        }
        let kind = if relative { "relative" } else { "absolute" };
        println!(
            "{name:22} 65536 inputs, worst of those not rounded correctly: {kind} 2^{:.2} at {at:04x}  bound: 2^{bound}  wrong: {wrong}",
            worst.log2()
        );
        good &= wrong == 0;
    }
    good
}

/// Everything in this file; whether all is right.
pub(super) fn check(device: &Device, args: &Args, wanted: &dyn Fn(&str) -> bool) -> bool {
    let mut good = halves(device, args, wanted);
    for case in small().iter().filter(|case| wanted(&case.name)) {
        let kernel = kernel(device, &case.body);
        let (mut wrong, mut first) = (0, None);
        for (x, &got) in results(device, &kernel, case.bits, args).iter().enumerate() {
            let want = (case.want)(x as u32);
            if got != want {
                wrong += 1;
                first.get_or_insert((x as u32, got, want));
            }
        }
        good &= report(&case.name, 1 << case.bits, wrong, first);
    }
    for conversion in FROM_F32 {
        let (to, modifiers, name) = conversion;
        let label = format!("{name}.f32.{modifiers}");
        if !wanted(&label) {
            continue;
        }
        let kernel = kernel(device, &from_f32(conversion));
        let format = Format::of(to);
        let (mut inputs, mut wrong, mut first) = (0, 0, None);
        run(device, &kernel, args, |x, got| {
            let want = format.encode(modifiers, f64::from(f32::from_bits(x))) << format.shift;
            inputs += 1;
            if got != want {
                wrong += 1;
                first.get_or_insert((x, got, want));
            }
        });
        good &= report(&label, inputs, wrong, first);
    }
    good
}
