//! Element types of buffers and scalar arguments, and how numbers become their bytes.

use std::fmt;

use anyhow::{Result, anyhow, bail, ensure};
use serde::Deserialize;

use crate::half;

/// The type of a buffer's elements or of a scalar argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    F64,
    F32,
    F16,
    Bf16,
    I64,
    U64,
    I32,
    U32,
    I16,
    U16,
    I8,
    U8,
}

/// A value before it has a type, or after it lost it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Int(value) => value as f64,
            Number::Float(value) => value,
        }
    }
}

impl DType {
    /// The type called `name`; `s32` and `b32` are other names of `i32` and `u32`.
    pub fn from_name(name: &str) -> Option<DType> {
        Some(match name {
            "f64" => DType::F64,
            "f32" => DType::F32,
            "f16" => DType::F16,
            "bf16" => DType::Bf16,
            "i64" | "s64" => DType::I64,
            "u64" | "b64" => DType::U64,
            "i32" | "s32" => DType::I32,
            "u32" | "b32" => DType::U32,
            "i16" | "s16" => DType::I16,
            "u16" | "b16" => DType::U16,
            "i8" | "s8" => DType::I8,
            "u8" | "b8" => DType::U8,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            DType::F64 => "f64",
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
            DType::I64 => "i64",
            DType::U64 => "u64",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::I16 => "i16",
            DType::U16 => "u16",
            DType::I8 => "i8",
            DType::U8 => "u8",
        }
    }

    /// Size of an element in bytes.
    pub fn size(self) -> usize {
        match self {
            DType::F64 | DType::I64 | DType::U64 => 8,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F16 | DType::Bf16 | DType::I16 | DType::U16 => 2,
            DType::I8 | DType::U8 => 1,
        }
    }

    pub fn is_float(self) -> bool {
        match self {
            DType::F64 | DType::F32 | DType::F16 | DType::Bf16 => true,
            DType::I64 | DType::U64 | DType::I32 | DType::U32 => false,
            DType::I16 | DType::U16 | DType::I8 | DType::U8 => false,
        }
    }

    /// The first `size()` bytes of `bytes` as a number.
    pub fn decode(self, bytes: &[u8]) -> Number {
        let float = Number::Float;
        let int = Number::Int;
        match self {
            DType::F64 => float(f64::from_le_bytes(first(bytes))),
            DType::F32 => float(f64::from(f32::from_le_bytes(first(bytes)))),
            DType::F16 => float(half::f16_to_f64(u16::from_le_bytes(first(bytes)))),
            DType::Bf16 => float(f64::from(half::bf16_to_f32(u16::from_le_bytes(first(
                bytes,
            ))))),
            DType::I64 => int(i64::from_le_bytes(first(bytes)).into()),
            DType::U64 => int(u64::from_le_bytes(first(bytes)).into()),
            DType::I32 => int(i32::from_le_bytes(first(bytes)).into()),
            DType::U32 => int(u32::from_le_bytes(first(bytes)).into()),
            DType::I16 => int(i16::from_le_bytes(first(bytes)).into()),
            DType::U16 => int(u16::from_le_bytes(first(bytes)).into()),
            DType::I8 => int(i8::from_le_bytes(first(bytes)).into()),
            DType::U8 => int(bytes[0].into()),
        }
    }

    /// Appends `number` in this type; an integer type takes what its bits can say, signed or
    /// unsigned.
    pub fn encode(self, number: Number, out: &mut Vec<u8>) -> Result<()> {
        if self.is_float() {
            self.encode_float(number.as_f64(), out);
            return Ok(());
        }
        let value = match number {
            Number::Int(value) => value,
            Number::Float(value) if value.fract() == 0.0 && value.abs() < 1e30 => value as i128,
            Number::Float(value) => bail!("`{value}` is not a value of type {self}"),
        };
        let bits = self.size() as u32 * 8;
        let fits = value >= -(1 << (bits - 1)) && value < 1 << bits;
        ensure!(fits, "`{value}` does not fit in {self}");
        out.extend_from_slice(&value.to_le_bytes()[..self.size()]);
        Ok(())
    }

    /// Appends `value` rounded to this type, which must be a float type.
    pub fn encode_float(self, value: f64, out: &mut Vec<u8>) {
        match self {
            DType::F64 => out.extend(value.to_le_bytes()),
            DType::F32 => out.extend((value as f32).to_le_bytes()),
            DType::F16 => out.extend(half::f16_from_f64(value).to_le_bytes()),
            // Through f32, as the corpus defines its bf16 data.
            DType::Bf16 => out.extend(half::bf16_from_f32(value as f32).to_le_bytes()),
            DType::I64
            | DType::U64
            | DType::I32
            | DType::U32
            | DType::I16
            | DType::U16
            | DType::I8
            | DType::U8 => {
                unreachable!("asked for a float encoding of {self}")
            }
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes[..N]
        .try_into()
        .expect("the slice has the array's length")
}

/// The bytes of a scalar written as text, for a type called `type_name`: any of [`DType`]'s names
/// or `b128`.
///
/// Beside decimal numbers, `nan` and `inf`: hexadecimal gives an integer, or the bits of a float
/// type; `0f` and `0d` give the bits of an f32 or f64, which a wider or narrower float type
/// converts.
pub fn parse_scalar(type_name: &str, text: &str) -> Result<Vec<u8>> {
    if type_name == "b128" {
        return parse_b128(text);
    }
    let dtype = DType::from_name(type_name).ok_or_else(|| anyhow!("unknown type `{type_name}`"))?;
    let mut out = Vec::with_capacity(8);
    match parse_number(text, dtype)? {
        Literal::Number(number) => dtype.encode(number, &mut out)?,
        Literal::Bits(bits) => out.extend_from_slice(&bits.to_le_bytes()[..dtype.size()]),
    }
    Ok(out)
}

/// Like [`parse_scalar`] for a bound or a step, which need not fit in the type itself.
pub fn parse_bound(dtype: DType, text: &str) -> Result<Number> {
    match parse_number(text, dtype)? {
        Literal::Number(number) => Ok(number),
        Literal::Bits(bits) => Ok(dtype.decode(&bits.to_le_bytes())),
    }
}

enum Literal {
    Number(Number),
    Bits(u64),
}

fn parse_number(text: &str, dtype: DType) -> Result<Literal> {
    let bad = || anyhow!("`{text}` is not a value of type {dtype}");
    if let Some(literal) = parse_bits(text, dtype)? {
        return Ok(literal);
    }
    let (sign, magnitude) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if let Some(hex) = strip_any(magnitude, &["0x", "0X"]) {
        let value = u64::from_str_radix(hex, 16).map_err(|_| bad())?;
        if !dtype.is_float() {
            return Ok(Literal::Number(Number::Int(sign * i128::from(value))));
        }
        let fits = sign == 1 && (dtype.size() == 8 || value >> (dtype.size() * 8) == 0);
        ensure!(fits, "`{text}` is not the bits of a {dtype}");
        return Ok(Literal::Bits(value));
    }
    if dtype.is_float() {
        let value: f64 = text.parse().map_err(|_| bad())?;
        return Ok(Literal::Number(Number::Float(value)));
    }
    if let Ok(value) = text.parse::<i128>() {
        return Ok(Literal::Number(Number::Int(value)));
    }
    let value: f64 = text.parse().map_err(|_| bad())?;
    Ok(Literal::Number(Number::Float(value)))
}

/// PTX's `0f3F800000` and `0d3FF0000000000000`.
fn parse_bits(text: &str, dtype: DType) -> Result<Option<Literal>> {
    let (digits, single) = match (
        strip_any(text, &["0f", "0F"]),
        strip_any(text, &["0d", "0D"]),
    ) {
        (Some(digits), _) => (digits, true),
        (None, Some(digits)) => (digits, false),
        (None, None) => return Ok(None),
    };
    let wanted = if single { 8 } else { 16 };
    let bits = u64::from_str_radix(digits, 16)
        .ok()
        .filter(|_| digits.len() == wanted);
    let bits = bits.ok_or_else(|| anyhow!("`{text}` needs exactly {wanted} hexadecimal digits"))?;
    if dtype.size() * 2 == wanted {
        return Ok(Some(Literal::Bits(bits)));
    }
    ensure!(dtype.is_float(), "`{text}` is not a value of type {dtype}");
    let value = if single {
        f64::from(f32::from_bits(bits as u32))
    } else {
        f64::from_bits(bits)
    };
    Ok(Some(Literal::Number(Number::Float(value))))
}

fn parse_b128(text: &str) -> Result<Vec<u8>> {
    let bad = || anyhow!("`{text}` is not a value of type b128");
    let value = match strip_any(text, &["0x", "0X"]) {
        Some(hex) => u128::from_str_radix(hex, 16).map_err(|_| bad())?,
        None if text.starts_with('-') => text.parse::<i128>().map_err(|_| bad())? as u128,
        None => text.parse::<u128>().map_err(|_| bad())?,
    };
    Ok(value.to_le_bytes().to_vec())
}

fn strip_any<'a>(text: &'a str, prefixes: &[&str]) -> Option<&'a str> {
    prefixes.iter().find_map(|prefix| text.strip_prefix(prefix))
}

/// Bytes written as pairs of hexadecimal digits.
pub fn parse_hex(text: &str) -> Result<Vec<u8>> {
    let digits = text.as_bytes();
    ensure!(
        digits.len().is_multiple_of(2),
        "`{text}` has an odd number of hexadecimal digits"
    );
    let byte = |pair: &[u8]| {
        let digit = |c: u8| char::from(c).to_digit(16);
        Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8)
    };
    let bytes = digits
        .chunks_exact(2)
        .map(byte)
        .collect::<Option<Vec<u8>>>();
    bytes.ok_or_else(|| anyhow!("`{text}` is not hexadecimal"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(type_name: &str, text: &str) -> Option<Vec<u8>> {
        parse_scalar(type_name, text).ok()
    }

    #[test]
    fn scalars() {
        assert_eq!(bytes("u32", "10000"), Some(10000u32.to_le_bytes().to_vec()));
        assert_eq!(bytes("s32", "-1"), Some(vec![0xff; 4]));
        assert_eq!(bytes("u64", "0xffffffffffffffff"), Some(vec![0xff; 8]));
        assert_eq!(bytes("u64", "18446744073709551615"), Some(vec![0xff; 8]));
        assert_eq!(bytes("i8", "-0x80"), Some(vec![0x80]));
        assert_eq!(bytes("f32", "2.5"), Some(2.5f32.to_le_bytes().to_vec()));
        assert_eq!(
            bytes("f32", "0f3F800000"),
            Some(1f32.to_le_bytes().to_vec())
        );
        assert_eq!(
            bytes("f64", "0f3F800000"),
            Some(1f64.to_le_bytes().to_vec())
        );
        assert_eq!(
            bytes("f32", "0d3FF0000000000000"),
            Some(1f32.to_le_bytes().to_vec())
        );
        assert_eq!(
            bytes("b32", "0f3F800000"),
            Some(1f32.to_le_bytes().to_vec())
        );
        assert_eq!(bytes("f16", "0x3c00"), Some(vec![0, 0x3c]));
        assert_eq!(bytes("bf16", "1.0"), Some(vec![0x80, 0x3f]));
        assert_eq!(
            bytes("f64", "-inf"),
            Some(f64::NEG_INFINITY.to_le_bytes().to_vec())
        );
        assert_eq!(bytes("b128", "0x1"), Some(1u128.to_le_bytes().to_vec()));
        assert_eq!(bytes("u8", "1e2"), Some(vec![100]));
    }

    #[test]
    fn bad_scalars() {
        for (type_name, text) in [
            ("u32", "4294967296"),
            ("i8", "-129"),
            ("u8", "1.5"),
            ("f32", "0f3F8"),
            ("f16", "0x13c00"),
            ("u16", "0f3F800000"),
            ("u32", ""),
            ("f32", "x"),
            ("q32", "1"),
            ("b128", "0xg"),
        ] {
            assert_eq!(bytes(type_name, text), None, "{type_name}={text}");
        }
        assert!(parse_hex("0g").is_err());
        assert!(parse_hex("é0").is_err());
        assert_eq!(parse_hex("00ff").unwrap(), [0, 255]);
    }
}
