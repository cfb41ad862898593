//! Initial contents of buffers.

use anyhow::{Context, Result};

use crate::contents::Contents;
use crate::dtype::{DType, Number};

/// An empty vector with room for `count` elements, or an error where a plain one would end the
/// process.
fn room(dtype: DType, count: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let size = count.checked_mul(dtype.size());
    let reserved = size.is_some_and(|size| bytes.try_reserve_exact(size).is_ok());
    anyhow::ensure!(reserved, "no memory for {count} elements of type {dtype}");
    Ok(bytes)
}

/// `count` zeros, if there could be so many.
pub fn zeros(dtype: DType, count: usize) -> Result<Contents> {
    room(dtype, count)?;
    Ok(Contents::Zeros)
}

/// `count` times `value`.
pub fn fill(dtype: DType, count: usize, value: &[u8]) -> Result<Vec<u8>> {
    debug_assert_eq!(value.len(), dtype.size());
    let mut bytes = room(dtype, count)?;
    for _ in 0..count {
        bytes.extend_from_slice(value);
    }
    Ok(bytes)
}

/// `start`, `start + step`, …: exact for integers, in f64 for floats.
pub fn arange(dtype: DType, count: usize, start: Number, step: Number) -> Result<Vec<u8>> {
    let mut out = room(dtype, count)?;
    for idx in 0..count {
        let value = match (start, step) {
            (Number::Int(start), Number::Int(step)) => {
                wrap(dtype, start.wrapping_add(step.wrapping_mul(idx as i128)))
            }
            _ => Number::Float(start.as_f64() + idx as f64 * step.as_f64()),
        };
        dtype.encode(value, &mut out)?;
    }
    Ok(out)
}

/// A counter that leaves the range of a narrow type starts again, as a cast in C would make it.
fn wrap(dtype: DType, value: i128) -> Number {
    if dtype.is_float() {
        return Number::Int(value);
    }
    Number::Int(value & ((1 << (dtype.size() * 8)) - 1))
}

/// The corpus's generator: `count` numbers from `lo` (inclusive) to `hi` (exclusive), the same
/// everywhere.
pub fn random(dtype: DType, count: usize, seed: u64, lo: Number, hi: Number) -> Result<Vec<u8>> {
    let mut out = room(dtype, count)?;
    if dtype.is_float() {
        let (lo, hi) = (lo.as_f64(), hi.as_f64());
        for idx in 0..count as u64 {
            let unit = (bits(seed, idx) >> 40) as f64 * 2f64.powi(-24);
            dtype.encode_float(lo + (hi - lo) * unit, &mut out);
        }
        return Ok(out);
    }
    let (lo, hi) = (integer(lo)?, integer(hi)?);
    let span = hi.checked_sub(lo).filter(|&span| span > 0);
    let span = span.with_context(|| format!("no random numbers from {lo} to below {hi}"))?;
    for idx in 0..count as u64 {
        let value = lo + i128::from(bits(seed, idx) >> 11) % span;
        dtype.encode(Number::Int(value), &mut out)?;
    }
    Ok(out)
}

fn integer(number: Number) -> Result<i128> {
    match number {
        Number::Int(value) => Ok(value),
        Number::Float(value) if value.fract() == 0.0 => Ok(value as i128),
        Number::Float(value) => anyhow::bail!("`{value}` is not an integer"),
    }
}

/// SplitMix64's output function over a counter that starts at a multiple of the seed.
fn bits(seed: u64, idx: u64) -> u64 {
    let start = seed.wrapping_mul(0xD134_2543_DE82_EF95);
    let mut z = start.wrapping_add((idx + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix() {
        // With seed 0 the generator is SplitMix64 from state 0, whose first outputs are published.
        assert_eq!(bits(0, 0), 0xE220_A839_7B1D_CDAF);
        assert_eq!(bits(0, 1), 0x6E78_9E6A_A1B9_65F4);
        assert_eq!(bits(0, 2), 0x06C4_5D18_8009_454F);
    }

    #[test]
    fn ranges() {
        let bytes = random(DType::I8, 1000, 7, Number::Int(-3), Number::Int(4)).unwrap();
        let values: std::collections::BTreeSet<i8> = bytes.iter().map(|&byte| byte as i8).collect();
        assert_eq!(
            values.into_iter().collect::<Vec<_>>(),
            [-3, -2, -1, 0, 1, 2, 3]
        );
        assert!(random(DType::U8, 1, 0, Number::Int(1), Number::Int(1)).is_err());
        let halves = arange(DType::F16, 3, Number::Int(0), Number::Float(0.5)).unwrap();
        assert_eq!(halves, [0, 0, 0, 0x38, 0, 0x3c]);
        assert_eq!(
            arange(DType::U8, 257, Number::Int(0), Number::Int(1)).unwrap()[256],
            0
        );
    }
}
