//! The reference for conversions: a format is the list of its values, and rounding is a search in
//! that list, exact in f64.
//!
//! It shares nothing with the IR's evaluation, which works on the bits of encodings.

use std::sync::LazyLock;

/// Directions of rounding.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Round {
    Rn,
    Rna,
    Rz,
    Rm,
    Rp,
    /// With random bits: so many, of this value.
    Rs(u32, u32),
}

impl Round {
    pub(super) fn of(name: &str) -> Round {
        match name {
            "rn" | "" => Round::Rn,
            "rna" => Round::Rna,
            "rz" => Round::Rz,
            "rm" => Round::Rm,
            "rp" => Round::Rp,
            _ => unreachable!("no rounding {name}"),
        }
    }
}

/// Modifiers of a conversion other than its direction.
#[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Mods {
    pub(super) relu: bool,
    pub(super) sat: bool,
    pub(super) satfinite: bool,
    pub(super) ftz: bool,
}

impl Mods {
    pub(super) fn of(modifiers: &str) -> Mods {
        let has = |name: &str| modifiers.split('.').any(|other| other == name);
        Mods {
            relu: has("relu"),
            sat: has("sat"),
            satfinite: has("satfinite"),
            ftz: has("ftz"),
        }
    }
}

/// What lies above the finite numbers.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Above {
    /// Infinity and NaNs.
    Ieee,
    /// One NaN.
    Nan,
    Nothing,
}

#[derive(Clone)]
pub(super) struct Format {
    /// Positive finite numbers by their encoding.
    values: Vec<f64>,
    /// By the exponent field of an f64: how many of them are below the numbers with that exponent.
    starts: Vec<usize>,
    sign: u32,
    above: Above,
    /// In the lowest bits of a register these are zero.
    shift: u32,
    /// Encoding of the number one.
    one: u32,
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
        let powers: Vec<f64> = (0..1 << exp_bits)
            .map(|exp| 2f64.powi(exp - bias - man_bits as i32))
            .collect();
        let value = |code: u32| {
            let (exp, man) = (code >> man_bits, code & ((1 << man_bits) - 1));
            let (exp, man) = if exp == 0 {
                (1, man)
            } else {
                (exp, man | 1 << man_bits)
            };
            f64::from(man) * powers[exp as usize]
        };
        let values: Vec<f64> = (0..count).map(value).collect();
        let start = |field: u64| values.partition_point(|value| value.to_bits() >> 52 < field);
        Format {
            one: values.partition_point(|&value| value < 1.0) as u32,
            starts: (0..=2048).map(start).collect(),
            values,
            sign: all,
            above,
            shift: 0,
        }
    }

    pub(super) fn of(name: &str) -> Format {
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

    /// The least positive number.
    pub(super) fn least(&self) -> f64 {
        self.values[1]
    }

    pub(super) fn decode(&self, code: u32) -> f64 {
        let magnitude = code & (self.sign - 1);
        let value = match self.values.get(magnitude as usize) {
            Some(&value) => value,
            None if self.above == Above::Ieee && magnitude == self.most() + 1 => f64::INFINITY,
            None => f64::NAN,
        };
        if code & self.sign != 0 { -value } else { value }
    }

    /// What the conversion gives, with the format's place in a register.
    pub(super) fn encode(&self, round: Round, mods: Mods, x: f64) -> u32 {
        self.code(round, mods, x) << self.shift
    }

    fn code(&self, round: Round, mods: Mods, x: f64) -> u32 {
        if x.is_nan() {
            return match self.above {
                _ if mods.sat => 0,
                Above::Nothing => self.most(),
                Above::Ieee | Above::Nan => self.sign - 1,
            };
        }
        let negative = x.is_sign_negative();
        if negative && (mods.relu || mods.sat) {
            return 0;
        }
        let size = x.abs();
        let below = self.below(size);
        let goes_up = self.goes_up(round, negative, below, size);
        let mut magnitude = below as u32 + u32::from(goes_up);
        if size.is_infinite() || magnitude > self.most() {
            magnitude = if mods.satfinite || self.above == Above::Nothing {
                self.most()
            } else {
                self.most() + 1
            };
        }
        if mods.sat {
            magnitude = magnitude.min(self.one);
        }
        magnitude | if negative { self.sign } else { 0 }
    }

    /// The place of the greatest value up to this size.
    fn below(&self, size: f64) -> usize {
        let field = (size.to_bits() >> 52) as usize;
        let (start, end) = (self.starts[field], self.starts[field + 1]);
        start + self.values[start..end].partition_point(|&value| value <= size) - 1
    }

    /// Whether a number of this size, between the values number `below` and the next, goes to the
    /// next. Above the greatest number a further one is imagined where it would be.
    fn goes_up(&self, round: Round, negative: bool, below: usize, size: f64) -> bool {
        let low = self.values[below];
        if size == low || size.is_infinite() {
            return false;
        }
        let high = match self.values.get(below + 1) {
            Some(&value) => value,
            None => 2.0 * low - self.values[below - 1],
        };
        let (down, up) = (size - low, high - size);
        match round {
            Round::Rn if down == up => below % 2 == 1,
            Round::Rna if down == up => true,
            Round::Rn | Round::Rna => down > up,
            Round::Rz => false,
            Round::Rm => negative,
            Round::Rp => !negative,
            Round::Rs(count, random) => {
                // The random bits stand at the top of what is discarded: a carry out of the sum of
                // both rounds away. What is too large for the format has no neighbors in it; there
                // the steps are those of the number's own binade.
                let discarded = if size < high {
                    down / (high - low)
                } else {
                    let doublings = (size / high).log2().floor() as i32;
                    let step = (high - low) * 2f64.powi(doublings + 1);
                    (size / step).fract()
                };
                let all = f64::from(1u32 << count);
                discarded * all + f64::from(random) >= all
            }
        }
    }
}

/// The exponent format without sign, zero and infinity: 2^(code - 127), and a NaN.
pub(super) fn ue8m0(round: Round, satfinite: bool, x: f64) -> u32 {
    if x.is_nan() {
        return 255;
    }
    let above = if satfinite { 254 } else { 255 };
    let size = x.abs();
    let values = &*UE8M0;
    if size.is_infinite() {
        return above;
    }
    if size <= values[0] {
        return 0;
    }
    // A number of f32 or bf16 is below 2^128, so that there is a power of two at or below it.
    let below = values.partition_point(|&value| value <= size) as u32 - 1;
    if round == Round::Rz || values[below as usize] == size {
        below
    } else if below == 254 {
        above
    } else {
        below + 1
    }
}

/// What ue8m0 stands for.
pub(super) fn decode_ue8m0(code: u32) -> f64 {
    UE8M0.get(code as usize).copied().unwrap_or(f64::NAN)
}

/// Numbers of ue8m0 by their encoding.
static UE8M0: LazyLock<Vec<f64>> =
    LazyLock::new(|| (-127..=127).map(|exponent| 2f64.powi(exponent)).collect());

/// Rounds to f32 in a direction. The hardware's conversion is to nearest; the others follow from
/// where that went.
pub(super) fn round_f32(round: Round, x: f64) -> f32 {
    let nearest = x as f32;
    let (too_high, too_low) = (f64::from(nearest) > x, f64::from(nearest) < x);
    match round {
        Round::Rm if too_high => nearest.next_down(),
        Round::Rp if too_low => nearest.next_up(),
        Round::Rz if too_high && x > 0.0 => nearest.next_down(),
        Round::Rz if too_low && x < 0.0 => nearest.next_up(),
        _ => nearest,
    }
}

/// To nearest, toward zero, down and up at once.
pub(super) fn round_f32_all(x: f64) -> [f32; 4] {
    let nearest = x as f32;
    let [mut zero, mut down, mut up] = [nearest; 3];
    if f64::from(nearest) > x {
        down = nearest.next_down();
        zero = if x > 0.0 { down } else { nearest };
    } else if f64::from(nearest) < x {
        up = nearest.next_up();
        zero = if x < 0.0 { up } else { nearest };
    }
    [nearest, zero, down, up]
}

/// The bits of a result in f32, of which every NaN is the canonical one.
pub(super) fn f32_bits(x: f32) -> u64 {
    if x.is_nan() {
        0x7fff_ffff
    } else {
        u64::from(x.to_bits())
    }
}

/// `.ftz` on an f32.
pub(super) fn flush(x: f32) -> f32 {
    if x.is_subnormal() {
        0f32.copysign(x)
    } else {
        x
    }
}

/// `.sat` on a float.
pub(super) fn saturate(x: f64) -> f64 {
    // Negative zero and NaN become positive zero.
    if x > 0.0 { x.min(1.0) } else { 0.0 }
}

/// An integer rounding modifier and what it does.
type IntegerRound = (&'static str, fn(f64) -> f64);

pub(super) const INTEGER_ROUNDS: [IntegerRound; 4] = [
    ("rni", f64::round_ties_even),
    ("rzi", f64::trunc),
    ("rmi", f64::floor),
    ("rpi", f64::ceil),
];

/// Integer types.
pub(super) const INTEGERS: [&str; 8] = ["u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64"];

/// An integral number to an integer type, clamped; types of less than 32 bits are extended to a
/// 32-bit register.
pub(super) fn to_integer(ty: &str, x: f64) -> u64 {
    match ty {
        _ if x.is_nan() && ty.ends_with("64") => 1 << 63,
        "u8" => u64::from(x as u8),
        "u16" => u64::from(x as u16),
        "u32" => u64::from(x as u32),
        "u64" => x as u64,
        "s8" => u64::from(i32::from(x as i8) as u32),
        "s16" => u64::from(i32::from(x as i16) as u32),
        "s32" => u64::from(x as i32 as u32),
        "s64" => x as i64 as u64,
        _ => unreachable!("no integer type {ty}"),
    }
}

/// All texts of a modifier from each list, each behind a dot.
pub(super) fn choices(lists: &[&[&str]]) -> Vec<String> {
    lists.iter().fold(vec![String::new()], |texts, list| {
        let with = |text: &String, item: &str| match item {
            "" => text.clone(),
            _ => format!("{text}.{item}"),
        };
        texts
            .iter()
            .flat_map(|text| list.iter().map(move |item| with(text, item)))
            .collect()
    })
}
