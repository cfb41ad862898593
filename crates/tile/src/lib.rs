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
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has these instructions.
        return unsafe { vectors::multiply_add_512(a, b, d, [m, n, k]) };
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has these instructions.
        return unsafe { vectors::multiply_add_256(a, b, d, [m, n, k]) };
    }
    multiply_add_plain(a, b, d, [m, n, k]);
}

fn multiply_add_plain(a: Factor<'_>, b: Factor<'_>, d: Sums<'_>, [m, n, k]: [usize; 3]) {
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

/// Writes the columns of a matrix of words as rows: row `n` of `to` has the words of column `n` of
/// `from` in the order of its rows. With each matrix stands its pitch, the words from one row to
/// the next; rows and columns are those of `from`.
///
/// # Panics
///
/// If a matrix has fewer words, or a pitch is less than the columns.
pub fn transpose(
    (from, from_pitch): (&[u32], usize),
    [rows, columns]: [usize; 2],
    (to, pitch): (&mut [u32], usize),
) {
    assert!(from_pitch >= columns && pitch >= rows, "rows overlap");
    let from = &from[..span(rows, columns, from_pitch)];
    let to = &mut to[..span(columns, rows, pitch)];
    #[cfg(target_arch = "x86_64")]
    let [whole_rows, whole_columns] = match is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the instructions.
        true => unsafe { vectors::transpose((from, from_pitch), [rows, columns], (to, pitch)) },
        false => [0; 2],
    };
    #[cfg(not(target_arch = "x86_64"))]
    let [whole_rows, whole_columns] = [0; 2];
    for row in 0..rows {
        let first = if row < whole_rows { whole_columns } else { 0 };
        for column in first..columns {
            to[column * pitch + row] = from[row * from_pitch + column];
        }
    }
}

/// The values of f16.
///
/// `plain` converts one, where the processor has no instruction for it.
pub fn from_halves(halves: &[u8], out: &mut [f32], plain: impl Fn(u16) -> f32) {
    let halves = halves.as_chunks::<2>().0;
    #[cfg(target_arch = "x86_64")]
    let done = match is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c") {
        // SAFETY: the processor has these instructions.
        true => unsafe { vectors::from_halves(halves, out) },
        false => 0,
    };
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    for (out, &half) in out.iter_mut().zip(halves).skip(done) {
        *out = plain(u16::from_le_bytes(half));
    }
}

/// The values of bf16.
pub fn from_bf16(halves: &[u8], out: &mut [f32]) {
    let halves = halves.as_chunks::<2>().0;
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has these instructions.
        return unsafe { vectors::from_bf16(halves, out) };
    }
    each_from_bf16(halves, out);
}

#[inline(always)]
fn each_from_bf16(halves: &[[u8; 2]], out: &mut [f32]) {
    for (out, &half) in out.iter_mut().zip(halves) {
        *out = f32::from_bits(u32::from(u16::from_le_bytes(half)) << 16);
    }
}

#[cfg(target_arch = "x86_64")]
mod vectors;

#[cfg(test)]
mod tests;
