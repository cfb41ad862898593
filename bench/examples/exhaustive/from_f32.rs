//! Every conversion of f32 to another type, or to f32 itself, and the exact unary instructions of
//! f32.

use super::format::{
    Format, INTEGER_ROUNDS, INTEGERS, Mods, Round, choices, f32_bits, flush, round_f32_all,
    saturate, to_integer, ue8m0,
};
use super::forms::{Form, Group};
use super::sweep::CHUNK;

pub(super) fn groups() -> Vec<Group> {
    let mut groups = vec![to_f32(), to_f64(), signs(), classes()];
    groups.extend([root(), reciprocal()]);
    groups.extend(INTEGERS.into_iter().map(to_integers));
    groups.extend(["f16", "bf16"].map(to_half));
    groups.extend(["f16", "bf16"].map(to_pair));
    groups.push(to_tf32());
    groups.extend(["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"].map(to_small_pair));
    groups.push(to_ue8m0());
    groups.extend(["f16", "bf16"].map(to_pair_random));
    groups.extend(["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"].map(to_four_random));
    groups
}

/// A form from `%f1` to `result`, one of `%f2`, `%f3`, `%d1`, `%q1`, `%h1`, `%b1`, or of `%t1`.
fn form(name: String, result: &str, operands: &str) -> Form {
    let take = match result {
        "%f2" => "mov.b32 %r2, %f2;",
        // Copies and changes of sign keep what a NaN carries or not, says the ISA: any NaN will do.
        "%f3" => {
            "testp.notanumber.f32 %p1, %f3; mov.b32 %r2, %f3; selp.b32 %r2, 0x7fffffff, %r2, %p1;"
        }
        "%d1" => TAKE_F64,
        "%q1" => "mov.b64 {%r2, %r3}, %q1;",
        "%h1" => "cvt.u32.u16 %r2, %h1;",
        "%b1" => "cvt.u32.u8 %r2, %b1;",
        _ => "mov.b32 %r2, %t1;",
    };
    Form {
        code: format!("mov.b32 %f1, %r1; {name} {result}, {operands}; {take}"),
        is_wide: matches!(result, "%d1" | "%q1"),
        on_edges: is_variant(&name),
        name,
    }
}

/// Whether an instruction is another one with a modifier that changes little.
fn is_variant(name: &str) -> bool {
    let is_modified = name.split('.').any(|part| part == "ftz" || part == "sat");
    is_modified && !name.starts_with("abs") && !name.starts_with("neg")
}

fn group(
    name: &str,
    grain: u32,
    forms: Vec<Form>,
    wants: impl Fn(f32, &mut [u64]) + Sync + 'static,
) -> Group {
    Group {
        name: name.to_owned(),
        bits: 32,
        grain,
        prelude: String::new(),
        forms,
        wants: Box::new(move |bits, out| wants(f32::from_bits(bits), out)),
    }
}

fn flush_if(ftz: bool, x: f32) -> f64 {
    f64::from(if ftz { flush(x) } else { x })
}

/// Copies and rounding to integral values.
fn to_f32() -> Group {
    let rounds = ["", "rni", "rzi", "rmi", "rpi"];
    let texts = choices(&[&rounds, &["", "ftz"], &["", "sat"]]);
    let forms = texts
        .iter()
        .map(|text| form(format!("cvt{text}.f32.f32"), "%f3", "%f1"))
        .collect();
    group("cvt.f32.f32", CHUNK, forms, move |x, out| {
        for (n, out) in out.chunks_exact_mut(4).enumerate() {
            for (out, x) in out.chunks_exact_mut(2).zip([x, flush(x)]) {
                // From 2^23 on, every number is integral.
                let x = match n {
                    0 => x,
                    _ if x.abs() >= 8_388_608.0 => x,
                    _ => INTEGER_ROUNDS[n - 1].1(f64::from(x)) as f32,
                };
                out[0] = f32_bits(x);
                out[1] = u64::from((saturate(f64::from(x)) as f32).to_bits());
            }
        }
    })
}

fn to_f64() -> Group {
    let texts = choices(&[&["", "ftz"], &["", "sat"]]);
    let cases: Vec<Mods> = texts.iter().map(|text| Mods::of(text)).collect();
    let forms = texts
        .iter()
        .map(|text| form(format!("cvt{text}.f64.f32"), "%d1", "%f1"))
        .collect();
    group("cvt.f64.f32", 1, forms, move |x, out| {
        for (out, mods) in out.iter_mut().zip(&cases) {
            let x = flush_if(mods.ftz, x);
            *out = f64_bits(if mods.sat { saturate(x) } else { x });
        }
    })
}

/// Puts the result `%d1` away. NaNs keep what they carry, which the ISA does not promise: here they
/// are all made the same.
pub(super) const TAKE_F64: &str = "testp.notanumber.f64 %p1, %d1; mov.b64 %q1, %d1; \
     selp.b64 %q1, 0x7fffffffffffffff, %q1, %p1; mov.b64 {%r2, %r3}, %q1;";

/// The bits of a result in f64; NaNs become the canonical one.
pub(super) fn f64_bits(x: f64) -> u64 {
    if x.is_nan() {
        0x7fff_ffff_ffff_ffff
    } else {
        x.to_bits()
    }
}

fn signs() -> Group {
    let names = ["abs.f32", "abs.ftz.f32", "neg.f32", "neg.ftz.f32"];
    let forms = names.map(|name| form(name.to_owned(), "%f3", "%f1"));
    group("abs, neg", 1, forms.into(), |x, out| {
        for (n, out) in out.iter_mut().enumerate() {
            let x = if n % 2 == 1 { flush(x) } else { x };
            *out = f32_bits(if n < 2 { x.abs() } else { -x });
        }
    })
}

fn classes() -> Group {
    type Test = (&'static str, fn(f32) -> bool);
    const TESTS: [Test; 6] = [
        ("finite", |x| x.is_finite()),
        ("infinite", |x| x.is_infinite()),
        ("number", |x| !x.is_nan()),
        ("notanumber", |x| x.is_nan()),
        // Zeros count as normal, says the ISA.
        ("normal", |x| x.is_normal() || x == 0.0),
        ("subnormal", |x| x.is_subnormal()),
    ];
    let forms = TESTS.map(|(name, _)| Form {
        name: format!("testp.{name}.f32"),
        code: format!("mov.b32 %f1, %r1; testp.{name}.f32 %p1, %f1; selp.u32 %r2, 1, 0, %p1;"),
        is_wide: false,
        on_edges: false,
    });
    group("testp.f32", CHUNK, forms.into(), |x, out| {
        for (out, (_, test)) in out.iter_mut().zip(TESTS) {
            *out = u64::from(test(x));
        }
    })
}

/// Exact results of `sqrt` and `rcp`, from the value in f64.
///
/// That value is itself rounded, by at most 2^-53 of it. Neither a root nor a reciprocal of a
/// number of 24 bits lies closer than 2^-49 of it to a number of 25 bits without being one, so that
/// rounding twice gives what rounding once would.
fn rounded(name: &str, function: fn(f64) -> f64) -> Group {
    let forms = ["", ".ftz"].into_iter().flat_map(|ftz| {
        let form = move |round: &&str| form(format!("{name}.{round}{ftz}.f32"), "%f2", "%f1");
        ROUNDS.iter().map(form)
    });
    let label = format!("{name}.rnd.f32");
    group(&label, 1, forms.collect(), move |x, out| {
        let value = function(f64::from(x));
        let flushed = if x.is_subnormal() {
            function(f64::from(flush(x)))
        } else {
            value
        };
        let results = round_f32_all(value);
        let flushed = flush_tiny(flushed);
        for n in 0..4 {
            out[n] = f32_bits(results[n]);
            out[n + 4] = f32_bits(flushed[n]);
        }
    })
}

/// Rounds in all directions and flushes what is below the least normal number when rounded to 24
/// bits, as if exponents had no end. (The ISA does not say whether a result is subnormal if it only
/// becomes a normal number by having fewer bits; IEEE 754 calls this detecting tininess after
/// rounding.)
fn flush_tiny(value: f64) -> [f32; 4] {
    const UP: f64 = (1u128 << 100) as f64;
    let least = f64::from(f32::MIN_POSITIVE);
    if value.is_nan() || value.abs() >= least || value == 0.0 {
        return round_f32_all(value);
    }
    round_f32_all(value * UP).map(|result| {
        if f64::from(result).abs() < least * UP {
            0f32.copysign(result)
        } else {
            f32::MIN_POSITIVE.copysign(result)
        }
    })
}

fn root() -> Group {
    rounded("sqrt", f64::sqrt)
}

fn reciprocal() -> Group {
    rounded("rcp", f64::recip)
}

fn to_integers(ty: &'static str) -> Group {
    let rounds = INTEGER_ROUNDS.map(|(name, _)| name);
    let texts = choices(&[&rounds, &["", "ftz"], &["", "sat"]]);
    let result = if ty.ends_with("64") { "%q1" } else { "%t1" };
    let forms = texts
        .iter()
        .map(|text| form(format!("cvt{text}.{ty}.f32"), result, "%f1"))
        .collect();
    let grain = CHUNK;
    group(&format!("cvt.{ty}.f32"), grain, forms, move |x, out| {
        for (out, (_, round)) in out.chunks_exact_mut(4).zip(INTEGER_ROUNDS) {
            let plain = to_integer(ty, round(f64::from(x)));
            let flushed = if x.is_subnormal() { 0 } else { plain };
            // `.sat` is what they do anyway.
            out.copy_from_slice(&[plain, plain, flushed, flushed]);
        }
    })
}

/// Texts of modifiers, each with its meaning.
fn parsed(texts: &[String], rounds: &[&str]) -> Vec<(Round, Mods)> {
    let parse = |text: &String| {
        let round = rounds
            .iter()
            .find(|&&name| text.split('.').any(|other| other == name));
        (
            Round::of(round.expect("each has a rounding")),
            Mods::of(text),
        )
    };
    texts.iter().map(parse).collect()
}

const ROUNDS: &[&str] = &["rn", "rz", "rm", "rp"];

fn relu_and_satfinite() -> Vec<String> {
    choices(&[&["rn", "rz"], &["", "relu"], &["", "satfinite"]])
}

fn to_half(to: &'static str) -> Group {
    let sat: &[&str] = if to == "f16" { &["", "sat"] } else { &[""] };
    let mut texts = choices(&[ROUNDS, &["", "ftz"], sat]);
    let more = relu_and_satfinite();
    texts.extend(more.into_iter().filter(|text| text.len() > 3));
    let cases = parsed(&texts, ROUNDS);
    let forms = texts
        .iter()
        .map(|text| form(format!("cvt{text}.{to}.f32"), "%h1", "%f1"))
        .collect();
    let format = Format::of(to);
    group(&format!("cvt.{to}.f32"), CHUNK, forms, move |x, out| {
        for (out, &(round, mods)) in out.iter_mut().zip(&cases) {
            *out = u64::from(format.encode(round, mods, flush_if(mods.ftz, x)));
        }
    })
}

fn to_tf32() -> Group {
    let mut texts = choices(&[&["rn", "rz"], &["", "satfinite"], &["", "relu"]]);
    texts.extend(choices(&[&["rna"], &["", "satfinite"]]));
    let cases = parsed(&texts, &["rna", "rn", "rz"]);
    let forms = texts
        .iter()
        .map(|text| form(format!("cvt{text}.tf32.f32"), "%t1", "%f1"))
        .collect();
    let format = Format::of("tf32");
    group("cvt.tf32.f32", CHUNK, forms, move |x, out| {
        for (out, &(round, mods)) in out.iter_mut().zip(&cases) {
            *out = u64::from(format.encode(round, mods, f64::from(x)));
        }
    })
}

/// Inputs that share the other operands of an instruction with several.
const BLOCK: u32 = 1 << 12;

/// For instructions on several numbers: `%r4`, another number, and `%r5`, random bits, both fixed
/// within a block; and `%pa`, `%pb`, the input and the other one or, in every second block, the
/// other and the input.
const OTHERS: &str = ".reg .f32 %pa, %pb, %pn; .reg .pred %odd; shr.u32 %r5, %r1, 12; mul.lo.u32 %r4, %r5, 0x9E3779B1; shr.u32 %r6, %r4, 15; \
     xor.b32 %r4, %r4, %r6; mul.lo.u32 %r4, %r4, 0x85EBCA6B; shr.u32 %r6, %r4, 13; xor.b32 %r4, %r4, %r6; and.b32 %r6, %r5, 1; \
     setp.ne.u32 %odd, %r6, 0; mul.lo.u32 %r5, %r4, 0xC2B2AE35; shr.u32 %r6, %r5, 16; xor.b32 %r5, %r5, %r6; \
     selp.b32 %r6, %r4, %r1, %odd; mov.b32 %pa, %r6; selp.b32 %r6, %r1, %r4, %odd; mov.b32 %pb, %r6; \
     xor.b32 %r6, %r1, 0x80000000; mov.b32 %pn, %r6;";

/// The same: first and second operand, and the random bits.
fn others(input: u32) -> (f64, f64, u32) {
    let block = input / BLOCK;
    let other = block.wrapping_mul(0x9E37_79B1);
    let other = (other ^ other >> 15).wrapping_mul(0x85EB_CA6B);
    let other = other ^ other >> 13;
    let random = other.wrapping_mul(0xC2B2_AE35);
    let number = |bits| f64::from(f32::from_bits(bits));
    let (a, b) = if block % 2 == 1 {
        (number(other), number(input))
    } else {
        (number(input), number(other))
    };
    (a, b, random ^ random >> 16)
}

fn several(
    name: &str,
    forms: Vec<Form>,
    wants: impl Fn(u32, &mut [u64]) + Sync + 'static,
) -> Group {
    Group {
        name: name.to_owned(),
        bits: 32,
        grain: BLOCK,
        prelude: OTHERS.to_owned(),
        forms,
        wants: Box::new(wants),
    }
}

fn to_pair(to: &'static str) -> Group {
    let texts = relu_and_satfinite();
    let cases = parsed(&texts, ROUNDS);
    let forms = texts
        .iter()
        .map(|text| form(format!("cvt{text}.{to}x2.f32"), "%t1", "%pa, %pb"))
        .collect();
    let format = Format::of(to);
    several(&format!("cvt.{to}x2.f32"), forms, move |input, out| {
        let (a, b, _) = others(input);
        for (out, &(round, mods)) in out.iter_mut().zip(&cases) {
            let [a, b] = [a, b].map(|x| format.encode(round, mods, x));
            *out = u64::from(a << 16 | b);
        }
    })
}

fn to_small_pair(to: &'static str) -> Group {
    let texts = choices(&[&["rn"], &["satfinite"], &["", "relu"]]);
    let cases = parsed(&texts, ROUNDS);
    let (result, shift) = if to == "e2m1" { ("%b1", 4) } else { ("%h1", 8) };
    let forms = texts
        .iter()
        .map(|text| form(format!("cvt{text}.{to}x2.f32"), result, "%pa, %pb"))
        .collect();
    let format = Format::of(to);
    several(&format!("cvt.{to}x2.f32"), forms, move |input, out| {
        let (a, b, _) = others(input);
        for (out, &(round, mods)) in out.iter_mut().zip(&cases) {
            let [a, b] = [a, b].map(|x| format.encode(round, mods, x));
            *out = u64::from(a << shift | b);
        }
    })
}

fn to_ue8m0() -> Group {
    let texts = choices(&[&["rz", "rp"], &["", "satfinite"]]);
    let cases = parsed(&texts, ROUNDS);
    let forms = texts
        .iter()
        .map(|text| form(format!("cvt{text}.ue8m0x2.f32"), "%h1", "%pa, %pb"))
        .collect();
    several("cvt.ue8m0x2.f32", forms, move |input, out| {
        let (a, b, _) = others(input);
        for (out, &(round, mods)) in out.iter_mut().zip(&cases) {
            let [a, b] = [a, b].map(|x| ue8m0(round, mods.satfinite, x));
            *out = u64::from(a << 8 | b);
        }
    })
}

/// Random bits to try: a number, or what the block of inputs has.
const RANDOM: [Option<u32>; 4] = [Some(0), Some(u32::MAX), Some(0x6C07_93D5), None];

/// Forms with each of the random bits: the instruction, what goes before the random bits, and the
/// bits.
fn random_forms(texts: &[String], ty: &str, result: &str, operands: &str) -> Vec<Form> {
    let with = |text: &String, random: Option<u32>| {
        let mut form = form(format!("cvt{text}.{ty}.f32"), result, operands);
        let (bits, label) = match random {
            Some(bits) => (format!("{bits}"), format!(" bits {bits:#x}")),
            None => ("%r5".to_owned(), " bits vary".to_owned()),
        };
        form.code = format!(
            "mov.b32 %t2, {bits}; {}",
            form.code.replacen(operands, &format!("{operands}, %t2"), 1)
        );
        form.name += &label;
        form.on_edges = text.contains("relu") || matches!(random, Some(0 | u32::MAX));
        form
    };
    texts
        .iter()
        .flat_map(|text| RANDOM.map(|random| with(text, random)))
        .collect()
}

fn to_pair_random(to: &'static str) -> Group {
    let texts = choices(&[&["rs"], &["", "relu"], &["", "satfinite"]]);
    let forms = random_forms(&texts, &format!("{to}x2"), "%t1", "%pa, %pb");
    let cases: Vec<Mods> = texts.iter().map(|text| Mods::of(text)).collect();
    let format = Format::of(to);
    let count = if to == "f16" { 13 } else { 16 };
    several(&format!("cvt.rs.{to}x2.f32"), forms, move |input, out| {
        let (a, b, random) = others(input);
        let all = cases
            .iter()
            .flat_map(|&mods| RANDOM.map(|bits| (mods, bits)));
        for (out, (mods, bits)) in out.iter_mut().zip(all) {
            let bits = bits.unwrap_or(random);
            let mask = (1 << count) - 1;
            let one = |x, bits| format.encode(Round::Rs(count, bits & mask), mods, x);
            *out = u64::from(one(a, bits >> 16) << 16 | one(b, bits));
        }
    })
}

/// To four numbers of a vector: the pair, and the input negated between two others.
fn to_four_random(to: &'static str) -> Group {
    let texts = choices(&[&["rs"], &["", "relu"], &["satfinite"]]);
    let (result, shift) = if to == "e2m1" { ("%h1", 4) } else { ("%t1", 8) };
    let operands = "{%pa, %pb, %pn, %pa}";
    let forms = random_forms(&texts, &format!("{to}x4"), result, operands);
    let cases: Vec<Mods> = texts.iter().map(|text| Mods::of(text)).collect();
    let format = Format::of(to);
    several(&format!("cvt.rs.{to}x4.f32"), forms, move |input, out| {
        let (a, b, random) = others(input);
        let negated = -f64::from(f32::from_bits(input));
        let all = cases
            .iter()
            .flat_map(|&mods| RANDOM.map(|bits| (mods, bits)));
        for (out, (mods, bits)) in out.iter_mut().zip(all) {
            let bits = bits.unwrap_or(random);
            let [upper, lower] = if to == "e2m1" {
                // Upper bytes of both halves for the first two numbers, lower bytes for the others.
                [
                    (bits >> 16 & 0xff00) | (bits >> 8 & 0xff),
                    (bits >> 8 & 0xff00) | (bits & 0xff),
                ]
            } else {
                [bits >> 16, bits & 0xffff]
            };
            let one = |x, bits| u64::from(format.encode(Round::Rs(16, bits), mods, x));
            *out = [(a, upper), (b, upper), (negated, lower), (a, lower)]
                .into_iter()
                .fold(0, |word, (x, bits)| word << shift | one(x, bits));
        }
    })
}
