//! Conversions of integers up to 32 bits to floats, and unary instructions of 32-bit integers, over
//! all inputs.

use super::format::{Format, INTEGERS, Mods, Round, choices, round_f32, saturate};
use super::forms::{Form, Group};
use super::sweep::CHUNK;

pub(super) fn groups() -> Vec<Group> {
    let mut groups = vec![unary()];
    let types = INTEGERS.iter().filter(|ty| !ty.ends_with("64"));
    groups.extend(types.map(|ty| to_floats(ty)));
    groups
}

fn unary() -> Group {
    type Op = (&'static str, fn(u32) -> u32);
    const OPS: [Op; 10] = [
        ("popc.b32", u32::count_ones),
        ("clz.b32", u32::leading_zeros),
        ("brev.b32", u32::reverse_bits),
        ("bfind.u32", |x| x.checked_ilog2().unwrap_or(u32::MAX)),
        ("bfind.s32", |x| {
            (x ^ (x as i32 >> 31) as u32)
                .checked_ilog2()
                .unwrap_or(u32::MAX)
        }),
        ("bfind.shiftamt.u32", |x| {
            x.checked_ilog2().map_or(u32::MAX, |n| 31 - n)
        }),
        ("not.b32", |x| !x),
        ("cnot.b32", |x| u32::from(x == 0)),
        ("neg.s32", u32::wrapping_neg),
        ("abs.s32", |x| (x as i32).wrapping_abs() as u32),
    ];
    let form = |(name, _): Op| Form {
        name: name.to_owned(),
        code: format!("{name} %r2, %r1;"),
        is_wide: false,
        on_edges: false,
    };
    Group {
        name: "integer unary".to_owned(),
        bits: 32,
        grain: 1,
        prelude: String::new(),
        forms: OPS.map(form).into(),
        wants: Box::new(|x, out| {
            for (out, (_, op)) in out.iter_mut().zip(OPS) {
                *out = u64::from(op(x));
            }
        }),
    }
}

/// The number that the low bits of a register are.
fn number(ty: &str, x: u32) -> f64 {
    match ty {
        "u8" => f64::from(x as u8),
        "s8" => f64::from(x as i8),
        "u16" => f64::from(x as u16),
        "s16" => f64::from(x as i16),
        "u32" => f64::from(x),
        "s32" => f64::from(x as i32),
        _ => unreachable!("no integer type {ty}"),
    }
}

fn to_floats(ty: &'static str) -> Group {
    const ROUNDS: &[&str] = &["rn", "rz", "rm", "rp"];
    let (bits, source) = match ty {
        "u8" | "s8" => (8, "%b1"),
        "u16" | "s16" => (16, "%h1"),
        _ => (32, "%r1"),
    };
    let mut forms = Vec::new();
    let mut cases = Vec::new();
    let sat: &[&str] = &["", "sat"];
    let targets: [(&str, &str, &str, &[&str]); 4] = [
        ("f16", "%h2", "cvt.u32.u16 %r2, %h2;", sat),
        ("bf16", "%h2", "cvt.u32.u16 %r2, %h2;", &[""]),
        ("f32", "%f1", "mov.b32 %r2, %f1;", sat),
        ("f64", "%d1", "mov.b64 {%r2, %r3}, %d1;", sat),
    ];
    for (target, result, take, sat) in targets {
        for round in ROUNDS {
            for text in choices(&[&[round], sat]) {
                let name = format!("cvt{text}.{target}.{ty}");
                forms.push(Form {
                    code: format!("cvt.u16.u32 %h1, %r1; cvt.u8.u32 %b1, %r1; {name} {result}, {source}; {take}"),
                    is_wide: target == "f64",
                    on_edges: bits == 32,
                    name,
                });
                cases.push((target, Round::of(round), Mods::of(&text)));
            }
        }
    }
    let (f16, bf16) = (Format::of("f16"), Format::of("bf16"));
    Group {
        name: format!("{ty} to floats"),
        bits,
        grain: CHUNK,
        prelude: String::new(),
        forms,
        wants: Box::new(move |x, out| {
            let x = number(ty, x);
            for (out, &(target, round, mods)) in out.iter_mut().zip(&cases) {
                let value = if mods.sat { saturate(x) } else { x };
                *out = match target {
                    "f16" => u64::from(f16.encode(round, mods, x)),
                    "bf16" => u64::from(bf16.encode(round, mods, x)),
                    "f32" => u64::from(round_f32(round, value).to_bits()),
                    _ => value.to_bits(),
                };
            }
        }),
    }
}
