//! Products of small matrices of f32 by rows, and the conversions that lead there: what all matrix
//! instructions have in common.
//!
//! Each sum starts with what is in D, goes along K, and is rounded to the nearest f32 at each step.
//! So the results are the same with and without vector instructions, and in whatever order the sums
//! are worked on.

#![warn(missing_docs)]
#![expect(
    unsafe_code,
    reason = "vector instructions are chosen when running, and read and write through pointers"
)]

/// What stands for every NaN in a sum.
pub const CANONICAL_NAN: u32 = 0x7fff_ffff;

/// A matrix by rows: elements, and how many there are from one row to the next.
#[derive(Copy, Clone, Debug)]
pub struct Factor<'a> {
    /// The first row's first element is the first.
    pub elements: &'a [f32],
    /// At least the columns.
    pub pitch: usize,
}

/// Sums as the bits of f32, by rows.
#[derive(Debug)]
pub struct Sums<'a> {
    /// The first row's first sum is the first.
    pub bits: &'a mut [u32],
    /// From one row to the next; at least the columns.
    pub pitch: usize,
}

/// Elements from the first of so many rows to the last.
fn span(rows: usize, columns: usize, pitch: usize) -> usize {
    match rows {
        0 => 0,
        _ => (rows - 1) * pitch + columns,
    }
}

/// Adds A * B to D: A has `m` rows of `k` elements, B `k` rows of `n`, D `m` rows of `n`. Each NaN
/// in D is [`CANONICAL_NAN`] then.
///
/// # Panics
///
/// If a matrix has fewer elements, or a pitch is less than the columns.
pub fn multiply_add(a: Factor<'_>, b: Factor<'_>, d: Sums<'_>, [m, n, k]: [usize; 3]) {
    assert!(a.pitch >= k && b.pitch >= n && d.pitch >= n, "rows overlap");
    let a = Factor {
        elements: &a.elements[..span(m, k, a.pitch)],
        ..a
    };
    let b = Factor {
        elements: &b.elements[..span(k, n, b.pitch)],
        ..b
    };
    let d = Sums {
        bits: &mut d.bits[..span(m, n, d.pitch)],
        ..d
    };
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has these instructions.
        return unsafe { avx2::multiply_add(a, b, d, [m, n, k]) };
    }
    for row in 0..m {
        let sums = &mut d.bits[row * d.pitch..][..n];
        add_row(&a.elements[row * a.pitch..][..k], b, sums);
    }
}

/// Adds the product of a row of A and B to columns of D.
fn add_row(a: &[f32], b: Factor<'_>, sums: &mut [u32]) {
    for (column, bits) in sums.iter_mut().enumerate() {
        let steps = a.iter().enumerate();
        let sum = steps.fold(f32::from_bits(*bits), |sum, (k, &a)| {
            a.mul_add(b.elements[k * b.pitch + column], sum)
        });
        *bits = match sum.is_nan() {
            true => CANONICAL_NAN,
            false => sum.to_bits(),
        };
    }
}

/// Writes the columns of a matrix as rows: row `n` of `to` has the elements of column `n` of `from`
/// in the order of its rows.
///
/// # Panics
///
/// If a matrix has fewer elements, or a pitch is less than the columns.
pub fn transpose(from: Factor<'_>, [rows, columns]: [usize; 2], to: &mut [f32], pitch: usize) {
    assert!(from.pitch >= columns && pitch >= rows, "rows overlap");
    let elements = &from.elements[..span(rows, columns, from.pitch)];
    let to = &mut to[..span(columns, rows, pitch)];
    // Blocks of eight by eight stay in registers, and what is left goes one by one.
    let (whole_rows, whole_columns) = (rows / 8 * 8, columns / 8 * 8);
    for row in (0..whole_rows).step_by(8) {
        for column in (0..whole_columns).step_by(8) {
            let block: [[f32; 8]; 8] = std::array::from_fn(|n| {
                let at = (row + n) * from.pitch + column;
                std::array::from_fn(|m| elements[at..][..8][m])
            });
            for n in 0..8 {
                let row = &mut to[(column + n) * pitch + row..][..8];
                for (element, from) in row.iter_mut().zip(&block) {
                    *element = from[n];
                }
            }
        }
    }
    for row in 0..rows {
        let first = if row < whole_rows { whole_columns } else { 0 };
        for column in first..columns {
            to[column * pitch + row] = elements[row * from.pitch + column];
        }
    }
}

/// The values of f16.
///
/// `plain` converts one, where the processor has no instruction for it.
pub fn from_halves(halves: &[u8], out: &mut [f32], plain: impl Fn(u16) -> f32) {
    let halves = halves.as_chunks::<2>().0;
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c") {
        // SAFETY: the processor has these instructions.
        let n = unsafe { avx2::from_halves(halves, out) };
        for (out, &half) in out.iter_mut().zip(halves).skip(n) {
            *out = plain(u16::from_le_bytes(half));
        }
        return;
    }
    for (out, &half) in out.iter_mut().zip(halves) {
        *out = plain(u16::from_le_bytes(half));
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use core::arch::x86_64::{
        __m256, _CMP_UNORD_Q, _mm_loadu_si128, _mm256_blendv_ps, _mm256_castsi256_ps,
        _mm256_cmp_ps, _mm256_cvtph_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_epi32,
        _mm256_set1_ps, _mm256_storeu_ps,
    };

    use std::ops::Range;

    use super::{CANONICAL_NAN, Factor, Sums, add_row, span};

    /// Elements of a vector.
    const LANES: usize = 8;

    /// Elements of B that stay in the first-level cache while all rows of A pass: half of it.
    const PANEL: usize = 4096;

    /// As outside; the sizes fit.
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn multiply_add(a: Factor<'_>, b: Factor<'_>, d: Sums<'_>, [m, n, k]: [usize; 3]) {
        let panel = (PANEL / k.max(1) / (2 * LANES)).max(1) * 2 * LANES;
        let a_row = |row: usize| Factor {
            elements: a.elements.get(row * a.pitch..).unwrap_or(&[]),
            ..a
        };
        for first in (0..n).step_by(panel) {
            let columns = first..n.min(first + panel);
            let mut row = 0;
            // A processor begins two sums in each of the four or five cycles that one takes: so at
            // least eight are under way, and as many as there are registers for.
            while row < m {
                let (a, left) = (a_row(row), m - row);
                let bits = &mut d.bits[row * d.pitch..];
                let d = Sums { bits, ..d };
                match left {
                    6.. => add_rows::<6, 2>(a, b, d, columns.clone(), k),
                    4 | 5 => add_rows::<4, 2>(a, b, d, columns.clone(), k),
                    2 | 3 => add_rows::<2, 4>(a, b, d, columns.clone(), k),
                    _ => add_rows::<1, 8>(a, b, d, columns.clone(), k),
                }
                row += match left {
                    6.. => 6,
                    4 | 5 => 4,
                    2 | 3 => 2,
                    _ => 1,
                };
            }
        }
    }

    /// Some columns of the first `ROWS` rows, so many vectors of them at a time.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn add_rows<const ROWS: usize, const VECTORS: usize>(
        a: Factor<'_>,
        b: Factor<'_>,
        d: Sums<'_>,
        columns: Range<usize>,
        k: usize,
    ) {
        let mut column = columns.start;
        while column + VECTORS * LANES <= columns.end {
            block::<ROWS, VECTORS>(a, b, (d.bits, d.pitch), column, k);
            column += VECTORS * LANES;
        }
        while column + LANES <= columns.end {
            block::<ROWS, 1>(a, b, (d.bits, d.pitch), column, k);
            column += LANES;
        }
        for row in 0..ROWS {
            let sums = &mut d.bits[row * d.pitch..][column..columns.end];
            if !sums.is_empty() && k > 0 {
                let elements = &b.elements[column..];
                add_row(
                    &a.elements[row * a.pitch..][..k],
                    Factor { elements, ..b },
                    sums,
                );
            }
        }
    }

    /// `ROWS` rows and `VECTORS` vectors of columns from `column` on.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn block<const ROWS: usize, const VECTORS: usize>(
        a: Factor<'_>,
        b: Factor<'_>,
        (d, pitch): (&mut [u32], usize),
        column: usize,
        k: usize,
    ) {
        let width = VECTORS * LANES;
        // What is read and written below lies in these.
        let from_a = &a.elements[..span(ROWS, k, a.pitch)];
        let from_b = match k {
            0 => &[][..],
            _ => &b.elements[column..][..span(k, width, b.pitch)],
        };
        let d = &mut d[column..][..span(ROWS, width, pitch)];
        // SAFETY: rows of D, of B and of A end within the slices above.
        unsafe {
            let mut sums: [[__m256; VECTORS]; ROWS] = std::array::from_fn(|row| {
                std::array::from_fn(|v| {
                    _mm256_loadu_ps(d.as_ptr().add(row * pitch + v * LANES).cast())
                })
            });
            for k_idx in 0..k {
                let b: [__m256; VECTORS] = std::array::from_fn(|v| {
                    _mm256_loadu_ps(from_b.as_ptr().add(k_idx * b.pitch + v * LANES))
                });
                for (row, sums) in sums.iter_mut().enumerate() {
                    let a = _mm256_set1_ps(*from_a.as_ptr().add(row * a.pitch + k_idx));
                    for (sum, &b) in sums.iter_mut().zip(&b) {
                        *sum = _mm256_fmadd_ps(a, b, *sum);
                    }
                }
            }
            let nan = _mm256_castsi256_ps(_mm256_set1_epi32(CANONICAL_NAN as i32));
            for (row, sums) in sums.iter().enumerate() {
                for (v, &sum) in sums.iter().enumerate() {
                    let is_nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(sum, sum);
                    let sum = _mm256_blendv_ps(sum, nan, is_nan);
                    _mm256_storeu_ps(d.as_mut_ptr().add(row * pitch + v * LANES).cast(), sum);
                }
            }
        }
    }

    /// As outside; returns how many have been converted, whole vectors.
    #[target_feature(enable = "avx2,f16c")]
    pub(super) fn from_halves(halves: &[[u8; 2]], out: &mut [f32]) -> usize {
        let mut n = 0;
        for (from, to) in halves
            .as_chunks::<LANES>()
            .0
            .iter()
            .zip(out.as_chunks_mut::<LANES>().0)
        {
            // SAFETY: both have the size of what is read and written.
            unsafe {
                let packed = _mm_loadu_si128(from.as_ptr().cast());
                _mm256_storeu_ps(to.as_mut_ptr(), _mm256_cvtph_ps(packed));
            }
            n += LANES;
        }
        n
    }
}

#[cfg(test)]
mod tests;
