//! Values in test directives: literals, expected results, and how close is close enough.

use std::fmt;

use anyhow::{Context, Result, anyhow, bail, ensure};
use ptxjit_cli::dtype::DType;

/// How the bits of a value are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Pred,
    /// Width in bits; signed or not makes no difference to the bits.
    Int(u32),
    Float(DType),
    /// Two floats of 16 bits side by side.
    Pair(DType),
}

impl Kind {
    /// The kind of a PTX type by its name without the dot; the types of `cvt` count as the integers
    /// that hold them.
    pub(crate) fn of(name: &str) -> Option<Kind> {
        Some(match name {
            "pred" => Kind::Pred,
            "b8" | "u8" | "s8" => Kind::Int(8),
            "b16" | "u16" | "s16" => Kind::Int(16),
            "b32" | "u32" | "s32" => Kind::Int(32),
            "b64" | "u64" | "s64" => Kind::Int(64),
            "b128" => Kind::Int(128),
            "f16" => Kind::Float(DType::F16),
            "bf16" => Kind::Float(DType::Bf16),
            "f32" => Kind::Float(DType::F32),
            "f64" => Kind::Float(DType::F64),
            "f16x2" => Kind::Pair(DType::F16),
            "bf16x2" => Kind::Pair(DType::Bf16),
            _ => return None,
        })
    }

    pub(crate) fn bits(self) -> u32 {
        match self {
            Kind::Pred => 1,
            Kind::Int(bits) => bits,
            Kind::Float(dtype) => dtype.size() as u32 * 8,
            Kind::Pair(_) => 32,
        }
    }

    pub(crate) fn mask(self) -> u128 {
        u128::MAX >> (128 - self.bits())
    }

    /// The bits that `text` stands for.
    pub(crate) fn parse(self, text: &str) -> Result<u128> {
        let text = text.trim();
        let bad = || anyhow!("`{text}` is no value of type {self}");
        if let Some(bits) = self.parse_bits(text)? {
            return Ok(bits);
        }
        match self {
            Kind::Float(dtype) => {
                let value: f64 = text.parse().map_err(|_| bad())?;
                let mut bytes = Vec::new();
                // Through f64 and then to the type; the decimal literals of tests are short enough
                // for that to be exact.
                dtype.encode_float(value, &mut bytes);
                Ok(from_bytes(&bytes))
            }
            Kind::Pair(_) => Err(bad()),
            Kind::Pred | Kind::Int(_) => {
                let negative = text.starts_with('-');
                if negative {
                    let value: i128 = text.parse().map_err(|_| bad())?;
                    ensure!(
                        self != Kind::Pred && value >= -(1 << (self.bits() - 1)),
                        "`{text}` does not fit {self}"
                    );
                    return Ok(value as u128 & self.mask());
                }
                let value: u128 = text.parse().map_err(|_| bad())?;
                ensure!(value <= self.mask(), "`{text}` does not fit {self}");
                Ok(value)
            }
        }
    }

    /// Hexadecimal integers, and `0f…`, `0d…` where the width is theirs. All give the bits as they
    /// are.
    fn parse_bits(self, text: &str) -> Result<Option<u128>> {
        let (negative, magnitude) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let forms = [
            ("0x", 0),
            ("0X", 0),
            ("0f", 32),
            ("0F", 32),
            ("0d", 64),
            ("0D", 64),
        ];
        let form = forms
            .iter()
            .find_map(|&(prefix, bits)| Some((magnitude.strip_prefix(prefix)?, bits)));
        let Some((digits, bits)) = form else {
            return Ok(None);
        };
        let value = u128::from_str_radix(digits, 16).with_context(|| format!("`{text}`"))?;
        if bits != 0 {
            let whole = self.bits() == bits && digits.len() as u32 * 4 == bits && !negative;
            ensure!(whole, "`{text}` has not the width of {self}");
        }
        ensure!(value <= self.mask(), "`{text}` does not fit {self}");
        Ok(Some(if negative {
            value.wrapping_neg() & self.mask()
        } else {
            value
        }))
    }

    /// The floats in `bits`, if it holds floats.
    fn floats(self, bits: u128) -> Vec<(DType, u128)> {
        match self {
            Kind::Pred | Kind::Int(_) => Vec::new(),
            Kind::Float(dtype) => vec![(dtype, bits)],
            Kind::Pair(dtype) => vec![(dtype, bits & 0xffff), (dtype, bits >> 16 & 0xffff)],
        }
    }

    /// For messages: the bits, and the number they are.
    pub(crate) fn show(self, bits: u128) -> String {
        let hex = format!("{bits:#0width$x}", width = self.bits() as usize / 4 + 2);
        match self {
            Kind::Pred => bits.to_string(),
            Kind::Int(_) => format!("{hex} ({bits})"),
            Kind::Float(_) | Kind::Pair(_) => {
                let numbers = self
                    .floats(bits)
                    .into_iter()
                    .map(|(dtype, bits)| to_f64(dtype, bits).to_string());
                format!("{hex} ({})", numbers.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Pred => f.write_str(".pred"),
            Kind::Int(bits) => write!(f, ".b{bits}"),
            Kind::Float(dtype) => write!(f, ".{dtype}"),
            Kind::Pair(dtype) => write!(f, ".{dtype}x2"),
        }
    }
}

/// Little-endian bytes as a number.
pub(crate) fn from_bytes(bytes: &[u8]) -> u128 {
    bytes
        .iter()
        .rev()
        .fold(0, |bits, &byte| bits << 8 | u128::from(byte))
}

fn to_f64(dtype: DType, bits: u128) -> f64 {
    dtype.decode(&bits.to_le_bytes()).as_f64()
}

/// A value that a test expects.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expected {
    pub(crate) text: String,
    pub(crate) closeness: Closeness,
    /// What the bits mean, if the declared type does not say it.
    pub(crate) kind: Option<Kind>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Closeness {
    /// Bit for bit, but `nan` is any NaN.
    #[default]
    Exact,
    /// At most so many values of the type apart.
    Ulp(f64),
    Relative(f64),
    Absolute(f64),
}

impl Expected {
    /// `V`, `(V, V)`, each list followed by what may be wrong: `ulp 2`, `rel 1e-6`, `abs 1e-6`, `as
    /// bf16`.
    pub(crate) fn parse_list(text: &str) -> Result<Vec<Expected>> {
        let (values, suffix) = match text.strip_prefix('(') {
            Some(rest) => {
                let (inside, suffix) = rest.split_once(')').context("a `)` is missing")?;
                (split_top(inside), suffix)
            }
            None => {
                let (value, suffix) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
                (vec![value.to_owned()], suffix)
            }
        };
        let (closeness, kind) = parse_suffix(suffix)?;
        ensure!(
            values.iter().all(|value| !value.is_empty()),
            "a value is missing"
        );
        Ok(values
            .into_iter()
            .map(|text| Expected {
                text,
                closeness,
                kind,
            })
            .collect())
    }

    /// Whether `got`, declared as `declared`, is as expected; if not, what was expected.
    pub(crate) fn check(
        &self,
        declared: Kind,
        got: u128,
    ) -> Result<std::result::Result<(), String>> {
        let kind = self.kind.unwrap_or(declared);
        ensure!(
            kind.bits() == declared.bits(),
            "{kind} has not the width of {declared}"
        );
        let is_nan = |(dtype, bits): (DType, u128)| to_f64(dtype, bits).is_nan();
        if self.text.eq_ignore_ascii_case("nan") {
            let floats = kind.floats(got);
            ensure!(!floats.is_empty(), "{kind} has no NaN");
            return Ok(if floats.into_iter().all(is_nan) {
                Ok(())
            } else {
                Err("nan".to_owned())
            });
        }
        let want = kind.parse(&self.text)?;
        let close = match self.closeness {
            Closeness::Exact => got == want,
            _ => {
                let (got, want) = (kind.floats(got), kind.floats(want));
                ensure!(
                    !got.is_empty(),
                    "a tolerance needs a float type, not {kind}; say `as f32` or the like"
                );
                got.into_iter()
                    .zip(want)
                    .all(|(got, want)| self.closeness.holds(got, want))
            }
        };
        Ok(if close {
            Ok(())
        } else {
            Err(format!("{}{}", kind.show(want), self.closeness))
        })
    }
}

fn parse_suffix(text: &str) -> Result<(Closeness, Option<Kind>)> {
    let mut closeness = Closeness::Exact;
    let mut kind = None;
    let words: Vec<&str> = text.split_whitespace().collect();
    ensure!(
        words.len().is_multiple_of(2),
        "`{text}` is not a list of `ulp N`, `rel X`, `abs X`, `as TYPE`"
    );
    for pair in words.chunks_exact(2) {
        let number = || {
            let number = pair[1]
                .parse::<f64>()
                .ok()
                .filter(|number| *number >= 0.0 && number.is_finite());
            number.with_context(|| format!("`{}` is not a bound", pair[1]))
        };
        match pair[0] {
            "ulp" => closeness = Closeness::Ulp(number()?),
            "rel" => closeness = Closeness::Relative(number()?),
            "abs" => closeness = Closeness::Absolute(number()?),
            "as" => {
                kind =
                    Some(Kind::of(pair[1]).with_context(|| format!("unknown type `{}`", pair[1]))?)
            }
            word => bail!("unknown word `{word}`"),
        }
    }
    Ok((closeness, kind))
}

impl Closeness {
    fn holds(self, (dtype, got_bits): (DType, u128), (_, want_bits): (DType, u128)) -> bool {
        let (got, want) = (to_f64(dtype, got_bits), to_f64(dtype, want_bits));
        if got.is_nan() || want.is_nan() {
            return got.is_nan() && want.is_nan();
        }
        match self {
            Closeness::Exact => got_bits == want_bits,
            Closeness::Ulp(bound) => {
                ordinal(dtype, got_bits).abs_diff(ordinal(dtype, want_bits)) as f64 <= bound
            }
            Closeness::Relative(_) | Closeness::Absolute(_)
                if got.is_infinite() || want.is_infinite() =>
            {
                got == want
            }
            Closeness::Relative(bound) => (got - want).abs() <= bound * want.abs(),
            Closeness::Absolute(bound) => (got - want).abs() <= bound,
        }
    }
}

impl fmt::Display for Closeness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Closeness::Exact => Ok(()),
            Closeness::Ulp(bound) => write!(f, " within {bound} ulp"),
            Closeness::Relative(bound) => write!(f, " within {bound} of it"),
            Closeness::Absolute(bound) => write!(f, " within {bound}"),
        }
    }
}

/// Position of a float among all floats of its type; both zeros are at 0.
fn ordinal(dtype: DType, bits: u128) -> i128 {
    let sign_bit = 1u128 << (dtype.size() * 8 - 1);
    let magnitude = (bits & (sign_bit - 1)) as i128;
    if bits & sign_bit == 0 {
        magnitude
    } else {
        -magnitude
    }
}

/// Splits at the commas that no bracket encloses.
pub(crate) fn split_top(text: &str) -> Vec<String> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    let mut parts = vec![String::new()];
    let mut depth = 0i32;
    for c in text.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().expect("never empty").push(c);
    }
    parts.iter().map(|part| part.trim().to_owned()).collect()
}

/// Called by `main`.
pub(crate) mod tests {
    use super::*;

    pub(crate) fn literals() {
        let parse = |kind: &str, text: &str| Kind::of(kind).unwrap().parse(text).ok();
        assert_eq!(parse("s32", "-1"), Some(0xffff_ffff));
        assert_eq!(parse("s32", "-0x1"), Some(0xffff_ffff));
        assert_eq!(parse("u16", "65536"), None);
        assert_eq!(parse("s8", "-129"), None);
        assert_eq!(parse("f32", "1.0"), Some(0x3f80_0000));
        assert_eq!(parse("f32", "-inf"), Some(0xff80_0000));
        assert_eq!(parse("f32", "0f7F800001"), Some(0x7f80_0001));
        assert_eq!(parse("b32", "0f3F800000"), Some(0x3f80_0000));
        assert_eq!(
            parse("f64", "0d3FF0000000000000"),
            Some(0x3ff0_0000_0000_0000)
        );
        assert_eq!(parse("f64", "0f3F800000"), None);
        assert_eq!(parse("f16", "0.5"), Some(0x3800));
        assert_eq!(parse("f16", "0x3c00"), Some(0x3c00));
        assert_eq!(parse("pred", "1"), Some(1));
        assert_eq!(parse("pred", "2"), None);
        assert_eq!(parse("pred", "-1"), None);
        assert_eq!(
            parse("b128", "0xffffffffffffffffffffffffffffffff"),
            Some(u128::MAX)
        );
        assert_eq!(parse("f16x2", "1.0"), None);
    }

    fn check(kind: &str, want: &str, got: u128) -> bool {
        let expected = Expected::parse_list(want).unwrap();
        expected[0]
            .check(Kind::of(kind).unwrap(), got)
            .unwrap()
            .is_ok()
    }

    pub(crate) fn closeness() {
        assert!(check("f32", "1.0", 0x3f80_0000));
        assert!(!check("f32", "1.0", 0x3f80_0001));
        assert!(check("f32", "1.0 ulp 1", 0x3f80_0001));
        assert!(!check("f32", "1.0 ulp 1", 0x3f80_0002));
        assert!(check("f32", "0.0 ulp 1", 0x8000_0001));
        assert!(!check("f32", "0.0", 0x8000_0000));
        assert!(check("f32", "nan", 0xffc0_1234));
        assert!(!check("f32", "nan", 0x7f80_0000));
        assert!(!check("f32", "0f7FC00000", 0x7fff_ffff));
        assert!(check("f32", "inf rel 0.1", 0x7f80_0000));
        assert!(!check("f32", "inf rel 0.1", 0x7f7f_ffff));
        assert!(check("f32", "100.0 rel 0.01", 0x42c9_0000));
        assert!(check("b16", "1.0 ulp 1 as bf16", 0x3f81));
        assert!(!check("b32", "0x3c003c00 ulp 1 as f16x2", 0x3c02_3c00));
        assert!(check("b32", "0x3c003c00 ulp 2 as f16x2", 0x3c02_3c00));
        assert!(
            Expected::parse_list("1 ulp 2").unwrap()[0]
                .check(Kind::Int(32), 1)
                .is_err()
        );
        assert!(Expected::parse_list("1.0 ulp").is_err());
        assert!(Expected::parse_list("(1, ) ulp 1").is_err());
    }
}
