//! The steps of products for which processors have vector instructions.

#![expect(
    unsafe_code,
    reason = "vector instructions are chosen when running, and read and write through pointers"
)]

use ptxjit_ir::{Convert, MatrixFmt, NumFmt, eval};

use super::{COLUMNS, Factors};

/// Columns as rows.
#[inline(always)]
pub(super) fn transpose<T: Copy, const N: usize>(
    columns: &[[T; N]; COLUMNS],
    rows: &mut [[T; COLUMNS]],
) {
    for (k, row) in rows.iter_mut().enumerate() {
        for (element, column) in row.iter_mut().zip(columns) {
            *element = column[k];
        }
    }
}

/// The steps for which there are special instructions.
pub(super) trait Steps {
    /// The values of eight f16.
    fn from_halves(&self, words: [u32; 4]) -> [f32; 8];
    /// A row rounded to f16.
    fn to_halves(&self, row: &[f32; COLUMNS]) -> [u16; COLUMNS];
    /// Columns as rows.
    fn transpose<const N: usize>(&self, columns: &[[f32; N]; COLUMNS], rows: &mut [[f32; COLUMNS]]);
    /// Adds to `sums` the product of eight rows of A, from `first` on, and B, along `k` of K.
    fn add_rows<const K: usize>(
        &self,
        factors: &Factors<f32, K>,
        first: usize,
        k: usize,
        sums: &mut [[f32; COLUMNS]; 8],
    );
}

pub(super) struct Plain;

impl Steps for Plain {
    fn from_halves(&self, words: [u32; 4]) -> [f32; 8] {
        std::array::from_fn(|n| {
            let half = words[n / 2] >> (n % 2 * 16) & 0xffff;
            f32::from_bits(eval::matrix_element(MatrixFmt::F16, half.into()) as u32)
        })
    }

    fn to_halves(&self, row: &[f32; COLUMNS]) -> [u16; COLUMNS] {
        let to_half = Convert::new(NumFmt::F32, NumFmt::F16);
        row.map(|x| eval::convert(&to_half, x.to_bits().into()) as u16)
    }

    fn transpose<const N: usize>(
        &self,
        columns: &[[f32; N]; COLUMNS],
        rows: &mut [[f32; COLUMNS]],
    ) {
        transpose(columns, rows);
    }

    fn add_rows<const K: usize>(
        &self,
        factors: &Factors<f32, K>,
        first: usize,
        k: usize,
        sums: &mut [[f32; COLUMNS]; 8],
    ) {
        for (row, sums) in factors.a[first..].iter().zip(sums) {
            for (&a, b) in row[..k].iter().zip(&factors.b) {
                for (sum, &b) in sums.iter_mut().zip(b) {
                    *sum = a.mul_add(b, *sum);
                }
            }
        }
    }
}

/// AVX2, FMA and F16C. Whoever has one has found out that the processor has these.
#[cfg(target_arch = "x86_64")]
pub(super) struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Steps for Avx2 {
    #[inline(always)]
    fn from_halves(&self, words: [u32; 4]) -> [f32; 8] {
        use core::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};
        let mut out = [0.0; 8];
        // SAFETY: the processor has the instructions; both arrays have the size of what is loaded and stored.
        unsafe {
            let packed = _mm_loadu_si128(words.as_ptr().cast());
            _mm256_storeu_ps(out.as_mut_ptr(), _mm256_cvtph_ps(packed));
        }
        out
    }

    #[inline(always)]
    fn to_halves(&self, row: &[f32; COLUMNS]) -> [u16; COLUMNS] {
        use core::arch::x86_64::{
            _MM_FROUND_TO_NEAREST_INT, _mm_storeu_si128, _mm256_cvtps_ph, _mm256_loadu_ps,
        };
        let mut out = [0; COLUMNS];
        // SAFETY: as above.
        unsafe {
            let row = _mm256_loadu_ps(row.as_ptr());
            let packed = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(row);
            _mm_storeu_si128(out.as_mut_ptr().cast(), packed);
        }
        out
    }

    #[inline(always)]
    fn transpose<const N: usize>(
        &self,
        columns: &[[f32; N]; COLUMNS],
        rows: &mut [[f32; COLUMNS]],
    ) {
        if !N.is_multiple_of(8) {
            return transpose(columns, rows);
        }
        for (n, rows) in rows.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            // SAFETY: the processor has the instructions; column `n` of blocks of eight ends within each column.
            unsafe { transpose_8x8(std::array::from_fn(|c| columns[c][8 * n..].as_ptr()), rows) };
        }
    }

    #[inline(always)]
    fn add_rows<const K: usize>(
        &self,
        factors: &Factors<f32, K>,
        first: usize,
        k: usize,
        sums: &mut [[f32; COLUMNS]; 8],
    ) {
        use core::arch::x86_64::{
            _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_storeu_ps,
        };
        // SAFETY: as above.
        unsafe {
            let mut vectors = sums.map(|row| _mm256_loadu_ps(row.as_ptr()));
            for (k, b) in factors.b[..k].iter().enumerate() {
                let b = _mm256_loadu_ps(b.as_ptr());
                for (row, sums) in vectors.iter_mut().enumerate() {
                    let a = _mm256_set1_ps(factors.a[first + row][k]);
                    *sums = _mm256_fmadd_ps(a, b, *sums);
                }
            }
            for (row, vector) in sums.iter_mut().zip(vectors) {
                _mm256_storeu_ps(row.as_mut_ptr(), vector);
            }
        }
    }
}

/// Eight rows from eight columns.
///
/// # Safety
///
/// The processor has AVX; eight elements can be read from each column on.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn transpose_8x8(columns: [*const f32; COLUMNS], rows: &mut [[f32; COLUMNS]; 8]) {
    use core::arch::x86_64::{
        _mm256_loadu_ps, _mm256_permute2f128_ps, _mm256_shuffle_ps, _mm256_storeu_ps,
        _mm256_unpackhi_ps, _mm256_unpacklo_ps,
    };
    // SAFETY: the caller's promise; rows have the size of what is stored.
    unsafe {
        let c = columns.map(|column| _mm256_loadu_ps(column));
        // Pairs of columns, then four of them, then all eight.
        let pairs = [0, 2, 4, 6].map(|n| {
            let (x, y) = (c[n], c[n + 1]);
            (_mm256_unpacklo_ps(x, y), _mm256_unpackhi_ps(x, y))
        });
        let fours = [(pairs[0], pairs[1]), (pairs[2], pairs[3])].map(|(x, y)| {
            [
                _mm256_shuffle_ps::<0x44>(x.0, y.0),
                _mm256_shuffle_ps::<0xee>(x.0, y.0),
                _mm256_shuffle_ps::<0x44>(x.1, y.1),
                _mm256_shuffle_ps::<0xee>(x.1, y.1),
            ]
        });
        for n in 0..4 {
            let (x, y) = (fours[0][n], fours[1][n]);
            _mm256_storeu_ps(rows[n].as_mut_ptr(), _mm256_permute2f128_ps::<0x20>(x, y));
            _mm256_storeu_ps(
                rows[n + 4].as_mut_ptr(),
                _mm256_permute2f128_ps::<0x31>(x, y),
            );
        }
    }
}
