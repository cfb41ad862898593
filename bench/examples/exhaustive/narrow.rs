//! Unary instructions on f16, bf16, the formats of 8, 6 and 4 bits and ue8m0, and conversions out
//! of them, over all their inputs.

use super::format::{
    Format, INTEGER_ROUNDS, INTEGERS, Mods, Round, choices, decode_ue8m0, f32_bits, flush,
    saturate, to_integer, ue8m0,
};
use super::forms::{Form, Group};
use super::from_f32::{TAKE_F64, f64_bits};
use super::sweep::{self, Chunk, Inputs, Sweep};
use super::{Args, Row};

/// What an instruction makes of an input.
type Want = Box<dyn Fn(u32) -> u64 + Sync>;

struct Case {
    form: Form,
    want: Want,
}

pub(super) fn groups() -> Vec<Group> {
    let mut groups = Vec::new();
    for from in ["f16", "bf16"] {
        groups.push(group(&format!("{from} to integers"), 16, to_integers(from)));
        groups.push(group(&format!("{from} to floats"), 16, to_floats(from)));
        groups.push(group(&format!("{from} signs"), 16, signs(from)));
    }
    groups.push(group("f16x2 to 8 bits", 16, pair_to_small()));
    groups.push(group("bf16x2 to ue8m0x2", 16, pair_to_ue8m0()));
    for from in ["e4m3", "e5m2", "e2m3", "e3m2"] {
        groups.push(group(
            &format!("{from}x2 to f16x2"),
            16,
            small_to_pair(from),
        ));
    }
    groups.push(group("e2m1x2 to f16x2", 8, small_to_pair("e2m1")));
    groups.push(group("ue8m0x2 to bf16x2", 16, ue8m0_to_pair()));
    groups
}

fn group(name: &str, bits: u32, cases: Vec<Case>) -> Group {
    let (forms, wants): (Vec<Form>, Vec<Want>) =
        cases.into_iter().map(|case| (case.form, case.want)).unzip();
    Group {
        name: name.to_owned(),
        bits,
        grain: 1,
        prelude: String::new(),
        forms,
        wants: Box::new(move |input, out| {
            for (out, want) in out.iter_mut().zip(&wants) {
                *out = want(input);
            }
        }),
    }
}

/// An instruction from `source` (`%h1` the input's low half, `%t1` all of it) to `result`.
fn case(
    name: String,
    result: &str,
    source: &str,
    want: impl Fn(u32) -> u64 + Sync + 'static,
) -> Case {
    let take = match result {
        "%h2" => "cvt.u32.u16 %r2, %h2;",
        "%f1" => "mov.b32 %r2, %f1;",
        "%q1" => "mov.b64 {%r2, %r3}, %q1;",
        "%d1" => TAKE_F64,
        _ => "mov.b32 %r2, %t2;",
    };
    Case {
        form: Form {
            code: format!(
                "cvt.u16.u32 %h1, %r1; mov.b32 %t1, %r1; {PAIR} {name} {result}, {source}; {take}"
            ),
            is_wide: matches!(result, "%q1" | "%d1"),
            on_edges: false,
            name,
        },
        want: Box::new(want),
    }
}

/// Makes `%t3`, a pair: the input above, and below it another number that also takes all values.
const PAIR: &str = "mad.lo.u32 %t3, %r1, 0x6a5d, 0x1234; and.b32 %t3, %t3, 0xffff; shl.b32 %t2, %r1, 16; or.b32 %t3, %t3, %t2;";

/// The same pair.
fn pair(input: u32) -> [u32; 2] {
    [
        input,
        input.wrapping_mul(0x6a5d).wrapping_add(0x1234) & 0xffff,
    ]
}

fn to_integers(from: &'static str) -> Vec<Case> {
    let sat: &[&str] = if from == "f16" { &["", "sat"] } else { &[""] };
    let mut cases = Vec::new();
    for ty in INTEGERS {
        let result = if ty.ends_with("64") { "%q1" } else { "%t2" };
        for (name, round) in INTEGER_ROUNDS {
            for text in choices(&[&[name], sat]) {
                let format = Format::of(from);
                let name = format!("cvt{text}.{ty}.{from}");
                let want = move |x| to_integer(ty, round(format.decode(x)));
                let mut case = case(name, result, "%h1", want);
                if from == "bf16" && matches!(ty, "u8" | "s8" | "u16" | "s16") {
                    // With bf16 the destination cannot be a wider register: the result is extended
                    // apart.
                    let register = if ty.ends_with('8') { "%b1" } else { "%h2" };
                    let extend =
                        format!("{register}, %h1; cvt.{}32.{ty} %t2, {register};", &ty[..1]);
                    case.form.code = case.form.code.replacen("%t2, %h1;", &extend, 1);
                }
                cases.push(case);
            }
        }
    }
    cases
}

fn to_floats(from: &'static str) -> Vec<Case> {
    const ROUNDS: [&str; 4] = ["rn", "rz", "rm", "rp"];
    let is_half = from == "f16";
    let mut cases = Vec::new();
    // To itself.
    let sat: &[&str] = if is_half { &["", "sat"] } else { &[""] };
    for text in choices(&[&["", "rni", "rzi", "rmi", "rpi"], sat]) {
        let round = INTEGER_ROUNDS.iter().find(|(name, _)| text.contains(name));
        let round = round.map_or((|x| x) as fn(f64) -> f64, |&(_, round)| round);
        let (format, mods) = (Format::of(from), Mods::of(&text));
        let is_copy = text.is_empty();
        let want = move |x| {
            let value = format.decode(x);
            if is_copy && value.is_nan() {
                return u64::from(x);
            }
            u64::from(format.encode(Round::Rn, mods, round(value)))
        };
        cases.push(case(format!("cvt{text}.{from}.{from}"), "%h2", "%h1", want));
    }
    // To f32 and f64, which is exact; bf16 may name a rounding all the same.
    let round: &[&str] = if is_half {
        &[""]
    } else {
        &["", "rn", "rz", "rm", "rp"]
    };
    for text in choices(&[round, &["", "ftz"], sat]) {
        let (format, mods) = (Format::of(from), Mods::of(&text));
        let want = move |x| {
            let value = format.decode(x);
            let value = if mods.sat { saturate(value) } else { value };
            let value = value as f32;
            // As an H100 does it: a bf16 is the upper half of an f32, NaNs included.
            if !is_half && value.is_nan() {
                return u64::from(x) << 16;
            }
            f32_bits(if mods.ftz { flush(value) } else { value })
        };
        cases.push(case(format!("cvt{text}.f32.{from}"), "%f1", "%h1", want));
    }
    for text in choices(&[round, sat]) {
        let (format, mods) = (Format::of(from), Mods::of(&text));
        let want = move |x| {
            let value = format.decode(x);
            f64_bits(if mods.sat { saturate(value) } else { value })
        };
        cases.push(case(format!("cvt{text}.f64.{from}"), "%d1", "%h1", want));
    }
    // To each other.
    let to = if is_half { "bf16" } else { "f16" };
    for round in ROUNDS {
        let (source, target) = (Format::of(from), Format::of(to));
        let direction = Round::of(round);
        let want = move |x| u64::from(target.encode(direction, Mods::default(), source.decode(x)));
        cases.push(case(format!("cvt.{round}.{to}.{from}"), "%h2", "%h1", want));
    }
    cases
}

fn signs(from: &'static str) -> Vec<Case> {
    let ftz: &[&str] = if from == "f16" { &["", "ftz"] } else { &[""] };
    let mut cases = Vec::new();
    for op in ["abs", "neg"] {
        for text in choices(&[ftz]) {
            let one = {
                let (format, text) = (Format::of(from), text.clone());
                move |x: u32| {
                    let is_subnormal = format.decode(x).abs() < 2f64.powi(-14);
                    let x = if is_subnormal && !text.is_empty() {
                        x & 0x8000
                    } else {
                        x
                    };
                    match op {
                        "abs" => x & 0x7fff,
                        _ => x ^ 0x8000,
                    }
                }
            };
            let single = one.clone();
            let name = format!("{op}{text}.{from}");
            cases.push(case(name, "%h2", "%h1", move |x| u64::from(single(x))));
            let name = format!("{op}{text}.{from}x2");
            cases.push(case(name, "%t2", "%t3", move |x| {
                let [upper, lower] = pair(x).map(&one);
                u64::from(upper << 16 | lower)
            }));
        }
    }
    cases
}

fn pair_to_small() -> Vec<Case> {
    let mut cases = Vec::new();
    for to in ["e4m3", "e5m2"] {
        for text in choices(&[&["rn"], &["satfinite"], &["", "relu"]]) {
            let (source, target, mods) = (Format::of("f16"), Format::of(to), Mods::of(&text));
            let name = format!("cvt{text}.{to}x2.f16x2");
            cases.push(case(name, "%h2", "%t3", move |x| {
                let [upper, lower] =
                    pair(x).map(|x| target.encode(Round::Rn, mods, source.decode(x)));
                u64::from(upper << 8 | lower)
            }));
        }
    }
    cases
}

fn pair_to_ue8m0() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, round) in [("rz", Round::Rz), ("rp", Round::Rp)] {
        for text in choices(&[&[name], &["", "satfinite"]]) {
            let (source, mods) = (Format::of("bf16"), Mods::of(&text));
            let name = format!("cvt{text}.ue8m0x2.bf16x2");
            cases.push(case(name, "%h2", "%t3", move |x| {
                let [upper, lower] =
                    pair(x).map(|x| ue8m0(round, mods.satfinite, source.decode(x)));
                u64::from(upper << 8 | lower)
            }));
        }
    }
    cases
}

/// Pairs of all numbers.
fn small_to_pair(from: &'static str) -> Vec<Case> {
    let (source, mask, shift) = match from {
        "e2m1" => ("%b1", 0xff, 4),
        // The two bits above each number must be zero.
        "e2m3" | "e3m2" => ("%h1", 0x3f3f, 8),
        _ => ("%h1", 0xffff, 8),
    };
    let texts = choices(&[&["rn"], &["", "relu"]]);
    let case = |text: &String| {
        let (format, target, mods) = (Format::of(from), Format::of("f16"), Mods::of(text));
        let name = format!("cvt{text}.f16x2.{from}x2");
        let want = move |x: u32| {
            let x = x & mask;
            let [upper, lower] = [x >> shift, x & ((1 << shift) - 1)]
                .map(|x| target.encode(Round::Rn, mods, format.decode(x)));
            u64::from(upper << 16 | lower)
        };
        let mut case = case(name, "%t2", source, want);
        case.form.code = format!(
            "and.b32 %t1, %r1, {mask}; cvt.u8.u32 %b1, %t1; {}",
            case.form
                .code
                .replace("cvt.u16.u32 %h1, %r1;", "cvt.u16.u32 %h1, %t1;")
        );
        case
    };
    texts.iter().map(case).collect()
}

fn ue8m0_to_pair() -> Vec<Case> {
    let format = Format::of("bf16");
    let want = move |x: u32| {
        let [upper, lower] =
            [x >> 8, x & 0xff].map(|x| format.encode(Round::Rn, Mods::default(), decode_ue8m0(x)));
        u64::from(upper << 16 | lower)
    };
    vec![case("cvt.rn.bf16x2.ue8m0x2".to_owned(), "%t2", "%h1", want)]
}

/// An approximation of halves.
struct Half {
    instruction: &'static str,
    format: &'static str,
    function: fn(f64) -> f64,
    is_relative: bool,
    /// As a power of two.
    bound: f64,
}

const HALVES: [Half; 4] = [
    Half {
        instruction: "tanh.approx",
        format: "f16",
        function: f64::tanh,
        is_relative: false,
        bound: -10.987,
    },
    Half {
        instruction: "tanh.approx",
        format: "bf16",
        function: f64::tanh,
        is_relative: false,
        bound: -8.0,
    },
    Half {
        instruction: "ex2.approx",
        format: "f16",
        function: f64::exp2,
        is_relative: true,
        bound: -9.9,
    },
    Half {
        instruction: "ex2.approx.ftz",
        format: "bf16",
        function: f64::exp2,
        is_relative: true,
        bound: -7.0,
    },
];

/// The largest errors of approximations in f16 and bf16, single and in pairs; whether all keep to
/// the bounds.
pub(super) fn approximations(args: &Args) -> bool {
    let mut good = true;
    for half in &HALVES {
        for pair in ["", "x2"] {
            let name = format!("{}.{}{pair}", half.instruction, half.format);
            let is_wanted = |wanted: &String| name.starts_with(wanted.as_str());
            if args.names.is_empty() || args.names.iter().any(is_wanted) {
                good &= half.measure(args, &name, pair == "x2");
            }
        }
    }
    good
}

#[derive(Default)]
struct Worst {
    error: f64,
    at: u32,
    wrong: u64,
    first_wrong: Option<(u32, u32)>,
}

impl Half {
    fn measure(&self, args: &Args, name: &str, is_pair: bool) -> bool {
        let body = if is_pair {
            format!(".reg .b32 %t<4>; {PAIR} {name} %out0, %t3;")
        } else {
            format!(
                ".reg .b16 %h<3>; cvt.u16.u32 %h1, %r1; {name} %h2, %h1; cvt.u32.u16 %out0, %h2;"
            )
        };
        let sweep = Sweep {
            name,
            body: &body,
            words: 1,
            inputs: Inputs::All(16),
        };
        let swept = sweep::run(args, &sweep, &|worst: &mut Worst, chunk: &Chunk| {
            let format = Format::of(self.format);
            for (i, &result) in chunk.word(0).iter().enumerate() {
                if is_pair {
                    let [upper, lower] = pair(chunk.input(i));
                    self.note(&format, worst, upper, result >> 16);
                    self.note(&format, worst, lower, result & 0xffff);
                } else {
                    self.note(&format, worst, chunk.input(i), result);
                }
            }
        });
        let worst = &swept.states[0];
        let kind = if self.is_relative {
            "relative"
        } else {
            "absolute"
        };
        let first = worst
            .first_wrong
            .map_or(String::new(), |(x, y)| format!("{x:04x} -> {y:04x}"));
        let error = if worst.error == 0.0 {
            "rounded correctly".to_owned()
        } else {
            format!("{kind} 2^{:.2} at {:04x}", worst.error.log2(), worst.at)
        };
        args.print(&Row {
            name,
            what: "1 form",
            error: &error,
            bound: &format!(
                "{kind} 2^{} ({})",
                self.bound,
                &name[..4].trim_end_matches('.')
            ),
            wrong: worst.wrong,
            first: &first,
            gangs: &swept.gangs(),
            wall: swept.wall,
        });
        worst.wrong == 0 && swept.gangs_agree()
    }

    /// Results rounded correctly do not count as errors, whatever the bound: a format may be too
    /// coarse for it.
    fn note(&self, format: &Format, worst: &mut Worst, input: u32, result: u32) {
        let ftz = self.instruction.contains(".ftz");
        let least = if ftz {
            f64::from(f32::MIN_POSITIVE)
        } else {
            0.0
        };
        let x = format.decode(input);
        let x = if x.abs() < least { 0f64.copysign(x) } else { x };
        let (want, got) = ((self.function)(x), format.decode(result));
        let nearest = format.decode(format.encode(Round::Rn, Mods::default(), want));
        let mut wrong = false;
        if want.is_nan() || got.is_nan() {
            wrong = !(want.is_nan() && result == 0x7fff);
        } else if got.to_bits() != nearest.to_bits() && !(got == 0.0 && want < least) {
            let size = if self.is_relative { want.abs() } else { 1.0 };
            let error = (got - want).abs() / size;
            // Subnormal results have fewer bits than the bound speaks of; they must be a neighbor
            // of the right one.
            let is_subnormal = self.is_relative && want < 2f64.powi(-14);
            wrong = if is_subnormal {
                (got - want).abs() > format.least()
            } else {
                error.log2() > self.bound
            };
            if error > worst.error {
                (worst.error, worst.at) = (error, input);
            }
        }
        if wrong {
            worst.wrong += 1;
            worst.first_wrong.get_or_insert((input, result));
        }
    }
}
