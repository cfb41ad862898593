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

/// Adds A * B to D: A has `m` rows of `k` elements, B `k` rows of `n`, D `m` rows of `n`, each row
/// right behind the one before.
///
/// # Panics
///
/// If a matrix has fewer elements.
pub fn multiply_add(a: &[f32], b: &[f32], d: &mut [f32], [m, n, k]: [usize; 3]) {
    let (a, b, d) = (&a[..m * k], &b[..k * n], &mut d[..m * n]);
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has these instructions.
        return unsafe { avx2::multiply_add(a, b, d, [m, n, k]) };
    }
    for row in 0..m {
        add_row(&a[row * k..][..k], b, &mut d[row * n..][..n], n);
    }
}

/// Adds the product of a row of A and B to columns of D; rows of B have `n` elements.
fn add_row(a: &[f32], b: &[f32], sums: &mut [f32], n: usize) {
    for (k, &a) in a.iter().enumerate() {
        for (sum, &b) in sums.iter_mut().zip(&b[k * n..]) {
            *sum = a.mul_add(b, *sum);
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
        __m256, _mm_loadu_si128, _mm256_cvtph_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps,
        _mm256_storeu_ps,
    };

    /// Elements of a vector.
    const LANES: usize = 8;

    /// As outside; the sizes fit.
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn multiply_add(a: &[f32], b: &[f32], d: &mut [f32], [m, n, k]: [usize; 3]) {
        let mut column = 0;
        // Eight sums are under way at a time, as many as a multiply-add takes to be done, twice
        // over. A block of B stays in the first cache for all rows.
        while column + 2 * LANES <= n {
            let mut row = 0;
            while row + 4 <= m {
                block::<4, 2>(
                    &a[row * k..],
                    &b[column..],
                    &mut d[row * n + column..],
                    [n, k],
                );
                row += 4;
            }
            while row < m {
                block::<1, 2>(
                    &a[row * k..],
                    &b[column..],
                    &mut d[row * n + column..],
                    [n, k],
                );
                row += 1;
            }
            column += 2 * LANES;
        }
        while column + LANES <= n {
            let mut row = 0;
            while row + 8 <= m {
                block::<8, 1>(
                    &a[row * k..],
                    &b[column..],
                    &mut d[row * n + column..],
                    [n, k],
                );
                row += 8;
            }
            while row < m {
                block::<1, 1>(
                    &a[row * k..],
                    &b[column..],
                    &mut d[row * n + column..],
                    [n, k],
                );
                row += 1;
            }
            column += LANES;
        }
        if column < n {
            for row in 0..m {
                for (k_idx, &a) in a[row * k..][..k].iter().enumerate() {
                    for x in column..n {
                        d[row * n + x] = a.mul_add(b[k_idx * n + x], d[row * n + x]);
                    }
                }
            }
        }
    }

    /// `ROWS` rows and `VECTORS` vectors of columns.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn block<const ROWS: usize, const VECTORS: usize>(
        a: &[f32],
        b: &[f32],
        d: &mut [f32],
        [n, k]: [usize; 2],
    ) {
        if k == 0 {
            return;
        }
        let width = VECTORS * LANES;
        // What is read and written below lies in these.
        let (a, b) = (&a[..ROWS * k], &b[..(k - 1) * n + width]);
        let d = &mut d[..(ROWS - 1) * n + width];
        // SAFETY: rows of D, of B and of A end within the slices above.
        unsafe {
            let mut sums: [[__m256; VECTORS]; ROWS] = std::array::from_fn(|row| {
                std::array::from_fn(|v| _mm256_loadu_ps(d.as_ptr().add(row * n + v * LANES)))
            });
            for k_idx in 0..k {
                let b: [__m256; VECTORS] =
                    std::array::from_fn(|v| _mm256_loadu_ps(b.as_ptr().add(k_idx * n + v * LANES)));
                for (row, sums) in sums.iter_mut().enumerate() {
                    let a = _mm256_set1_ps(*a.as_ptr().add(row * k + k_idx));
                    for (sum, &b) in sums.iter_mut().zip(&b) {
                        *sum = _mm256_fmadd_ps(a, b, *sum);
                    }
                }
            }
            for (row, sums) in sums.iter().enumerate() {
                for (v, &sum) in sums.iter().enumerate() {
                    _mm256_storeu_ps(d.as_mut_ptr().add(row * n + v * LANES), sum);
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
