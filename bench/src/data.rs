//! Contents of arrays: made from seeds, packed into words, compared.
//!
//! Arrays are vectors of 64-bit words, little-endian like the device, so that C code finds every
//! element aligned.

use crate::cases::{BufferSpec, Check, Dtype, Init, ROW};

impl Dtype {
    fn size(self) -> usize {
        match self {
            Dtype::U8 | Dtype::S8 | Dtype::E4m3 => 1,
            Dtype::U16 | Dtype::Bf16 | Dtype::F16 => 2,
            Dtype::F32 | Dtype::U32 | Dtype::S32 => 4,
            Dtype::F64 | Dtype::U64 => 8,
        }
    }

    /// The element with this place in `words`, as its bits.
    fn get(self, words: &[u64], idx: usize) -> u64 {
        let per = 8 / self.size();
        let bits = 8 * self.size();
        let shifted = words[idx / per] >> (idx % per * bits);
        if bits == 64 {
            shifted
        } else {
            shifted & ((1 << bits) - 1)
        }
    }

    fn number(self, bits: u64) -> f64 {
        match self {
            Dtype::F32 => f64::from(f32::from_bits(bits as u32)),
            Dtype::F64 => f64::from_bits(bits),
            Dtype::Bf16 => f64::from(f32::from_bits((bits as u32) << 16)),
            Dtype::F16 => widen(bits, (5, 10)),
            Dtype::E4m3 => widen(bits, (4, 3)),
            Dtype::S8 => f64::from(bits as i8),
            Dtype::S32 => f64::from(bits as i32),
            Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => bits as f64,
        }
    }
}

/// A well-mixed number for each `idx`, another sequence for each seed.
fn mix(seed: u64, idx: u64) -> u64 {
    let mut z = seed
        .wrapping_mul(0xD1342543DE82EF95)
        .wrapping_add((idx + 1).wrapping_mul(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D049BB133111EB);
    z ^ (z >> 31)
}

/// Words for `count` elements.
pub(crate) fn words(spec: &BufferSpec) -> usize {
    (spec.count * spec.dtype.size()).div_ceil(8)
}

/// The first contents of an array.
pub(crate) fn make(spec: &BufferSpec) -> Vec<u64> {
    let mut result = vec![0; words(spec)];
    let size = spec.dtype.size();
    let per = 8 / size;
    if matches!(spec.init, Init::Zeros) {
        return result;
    }
    for idx in 0..spec.count {
        result[idx / per] |= element(spec, idx as u64) << (idx % per * 8 * size);
    }
    result
}

/// The bits of the element at `idx`.
fn element(spec: &BufferSpec, idx: u64) -> u64 {
    let count = spec.count as u64;
    match spec.init {
        Init::Zeros => 0,
        Init::Random { seed, lo, hi } => match spec.dtype {
            Dtype::F32 => u64::from(real(seed, idx, [lo, hi]).to_bits()),
            Dtype::F64 => f64::from(real(seed, idx, [lo, hi])).to_bits(),
            Dtype::Bf16 => u64::from(real(seed, idx, [lo, hi]).to_bits() >> 16),
            Dtype::F16 => narrow(real(seed, idx, [lo, hi]), (5, 10)),
            Dtype::E4m3 => narrow(real(seed, idx, [lo, hi]), (4, 3)),
            Dtype::S8 | Dtype::S32 => {
                let size = 8 * spec.dtype.size();
                let value = lo as i64 + (mix(seed, idx) >> 11) as i64 % (hi - lo) as i64;
                value as u64 & ((1 << size) - 1)
            }
            Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => {
                lo as u64 + (mix(seed, idx) >> 11) % (hi - lo) as u64
            }
        },
        // Lengths go up and down such that two rows together always have the same.
        Init::RowStarts => {
            let row = ROW as u64;
            let odd = row / 2 + mix(0, idx / 2) % row;
            idx / 2 * 2 * row + idx % 2 * odd
        }
        Init::Columns { seed } => {
            let (drawn, columns) = (mix(seed, idx), count / ROW as u64);
            if drawn % 2 == 0 {
                (idx / ROW as u64 + (drawn >> 1) % 129 + columns - 64) % columns
            } else {
                (drawn >> 1) % columns
            }
        }
    }
}

/// A number from `lo` to below `hi`.
fn real(seed: u64, idx: u64, [lo, hi]: [f64; 2]) -> f32 {
    let unit = (mix(seed, idx) >> 40) as f64 / f64::from(1 << 24);
    (lo + (hi - lo) * unit) as f32
}

/// A float with these bits of exponent and mantissa, toward zero; of denormals, zero. `x` is small
/// enough for the format.
fn narrow(x: f32, (exponent, mantissa): (u32, u32)) -> u64 {
    let bits = x.to_bits();
    let sign = bits >> 31 << (exponent + mantissa);
    let lowered = (bits & 0x7fff_ffff).saturating_sub((127 - bias(exponent)) << 23);
    let magnitude = match lowered >> 23 {
        0 => 0,
        _ => lowered >> (23 - mantissa),
    };
    u64::from(sign | magnitude)
}

/// The opposite, of normal numbers and zero.
fn widen(bits: u64, (exponent, mantissa): (u32, u32)) -> f64 {
    let bits = bits as u32;
    let magnitude = bits & ((1 << (exponent + mantissa)) - 1);
    let raised = match magnitude {
        0 => 0,
        _ => (magnitude << (23 - mantissa)) + ((127 - bias(exponent)) << 23),
    };
    let sign = bits >> (exponent + mantissa) << 31;
    f64::from(f32::from_bits(sign | raised))
}

fn bias(exponent: u32) -> u32 {
    (1 << (exponent - 1)) - 1
}

/// Whether `got` is what the native version computed, and if not, a message about it.
pub(crate) fn compare(
    spec: &BufferSpec,
    check: Check,
    got: &[u64],
    native: &[u64],
) -> Result<(), String> {
    let differs = |&idx: &usize| {
        let (got, native) = (spec.dtype.get(got, idx), spec.dtype.get(native, idx));
        match check {
            Check::Exact | Check::Mostly(_) => got != native,
            Check::Close { rel, abs } => {
                let (got, native) = (spec.dtype.number(got), spec.dtype.number(native));
                let near = (got - native).abs() <= abs + rel * native.abs();
                // Of two numbers that cannot be compared, one is NaN: they are not near.
                !near
            }
        }
    };
    let mut wrong = (0..spec.count).filter(differs);
    let Some(first) = wrong.next() else {
        return Ok(());
    };
    let number = 1 + wrong.count();
    let allowed = match check {
        Check::Exact | Check::Close { .. } => 0.0,
        Check::Mostly(part) => part,
    };
    if number as f64 <= allowed * spec.count as f64 {
        return Ok(());
    }
    let show = |words| spec.dtype.number(spec.dtype.get(words, first));
    Err(format!(
        "{number} of {} elements differ, first at {first}: {} and natively {}",
        spec.count,
        show(got),
        show(native)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::Role;

    const BYTES: BufferSpec = BufferSpec {
        dtype: Dtype::U8,
        count: 9,
        init: Init::Zeros,
        role: Role::In,
    };

    #[test]
    fn differences_are_found_in_every_element() {
        for idx in 0..9 {
            let mut other = vec![0; 2];
            other[idx / 8] = 1 << (idx % 8 * 8);
            let message = compare(&BYTES, Check::Exact, &[0; 2], &other).unwrap_err();
            assert_eq!(
                message,
                format!("1 of 9 elements differ, first at {idx}: 0 and natively 1")
            );
        }
    }

    #[test]
    fn small_floats_are_the_numbers_that_they_stand_for() {
        let f16 = [
            (1.0, 0x3c00),
            (-0.5, 0xb800),
            (0.333, 0x3553),
            (1e-6, 0x0000),
        ];
        for (x, bits) in f16 {
            assert_eq!(narrow(x, (5, 10)), bits, "{x}");
        }
        assert_eq!(narrow(-1.2, (4, 3)), 0xb9);
        assert_eq!(widen(0xb9, (4, 3)), -1.125);
        assert_eq!(widen(0x3553, (5, 10)), 0.332_763_671_875);
        assert_eq!(widen(0x8000, (5, 10)), 0.0);
    }

    #[test]
    fn what_is_behind_the_last_element_does_not_count() {
        assert_eq!(compare(&BYTES, Check::Exact, &[0, 0], &[0, 256]), Ok(()));
    }

    #[test]
    fn not_a_number_is_not_close() {
        let spec = BufferSpec {
            dtype: Dtype::F32,
            count: 1,
            ..BYTES
        };
        let nan = [u64::from(f32::NAN.to_bits())];
        let check = Check::Close {
            rel: 1.0,
            abs: 1000.0,
        };
        assert!(compare(&spec, check, &nan, &[0]).is_err());
        assert!(compare(&spec, check, &[0], &nan).is_err());
    }

    #[test]
    fn rows_of_the_sparse_matrix_ascend_and_end_with_the_columns() {
        let spec = BufferSpec {
            dtype: Dtype::U32,
            count: 101,
            init: Init::RowStarts,
            role: Role::In,
        };
        let starts: Vec<u64> = (0..101).map(|idx| element(&spec, idx)).collect();
        assert!(starts.is_sorted());
        assert_eq!(starts[0], 0);
        assert_eq!(starts[100], 100 * ROW as u64);
    }
}
