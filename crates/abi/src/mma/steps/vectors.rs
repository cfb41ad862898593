//! The steps with the vector instructions of x86-64.

use core::arch::x86_64::{
    __m128i, __m256d, __m256i, _CMP_UNORD_Q, _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128,
    _mm256_blendv_ps, _mm256_castps_si256, _mm256_castsi256_ps, _mm256_cmp_ps, _mm256_cvtph_ps,
    _mm256_cvtps_ph, _mm256_fmadd_pd, _mm256_fmadd_ps, _mm256_loadu_pd, _mm256_loadu_si256,
    _mm256_permutevar8x32_epi32, _mm256_set_m128i, _mm256_set1_epi32, _mm256_set1_pd,
    _mm256_setr_epi32, _mm256_storeu_pd,
};

use super::{CANONICAL_NAN, COLUMNS, Steps};
use crate::mma::blocks::{Blocks256, Blocks512};
use crate::mma::shuffles::Shuffles;

/// What a processor has of AVX2, FMA, F16C and more.
pub(in crate::mma) trait Processor: Shuffles {
    /// If it has the instructions.
    fn detect() -> Option<Self>;
}

/// A processor with AVX2, FMA and F16C, and with what its blocks need.
#[derive(Copy, Clone)]
pub(in crate::mma) struct Vectors<B>(B);

pub(in crate::mma) type Avx2 = Vectors<Blocks256>;
/// With vectors of 512 bits for blocks.
pub(in crate::mma) type Avx512 = Vectors<Blocks512<false, false>>;
/// With dot products of bytes, too.
pub(in crate::mma) type ByteDots = Vectors<Blocks512<false, true>>;
/// With dot products of pairs of bf16, too.
pub(in crate::mma) type Dots = Vectors<Blocks512<true, true>>;

impl<B: Processor> Vectors<B> {
    /// If the processor has the instructions.
    pub(in crate::mma) fn detect() -> Option<Self> {
        B::detect().map(Vectors)
    }
}

impl Dots {
    /// If the processor has the instructions, and is not faster without those for bf16.
    pub(in crate::mma) fn detect_fast() -> Option<Self> {
        Self::detect().filter(|steps| steps.0.adds_bf16_fast())
    }
}

fn load(words: &[u32; 4]) -> __m128i {
    // SAFETY: all of x86-64 has the instruction, and the array has the size of what is loaded.
    unsafe { _mm_loadu_si128(words.as_ptr().cast()) }
}

fn words<const N: usize, T>(vector: T) -> [u32; N] {
    const { assert!(size_of::<T>() == 4 * N) }
    // SAFETY: both have the same size, and any bits are words.
    unsafe { core::mem::transmute_copy(&vector) }
}

// SAFETY of each block below: a `Vectors` is made only after the processor said that it has the
// instructions.
impl<B: Processor> Steps for Vectors<B> {
    type Row = __m256i;
    type Wide = __m256d;
    type Blocks = B;

    #[inline(always)]
    fn blocks(&self) -> B {
        self.0
    }

    #[inline(always)]
    fn row(&self, even: [u32; 4], odd: [u32; 4]) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_set_m128i(load(&odd), load(&even)) }
    }

    #[inline(always)]
    fn columns(&self, row: __m256i) -> [[u32; 4]; 2] {
        let words: [u32; 8] = words(row);
        [0, 4].map(|first| std::array::from_fn(|n| words[first + n]))
    }

    #[inline(always)]
    fn row_of_halves(&self, halves: [u32; 4]) -> __m256i {
        // SAFETY: as above.
        unsafe {
            let values = _mm256_castps_si256(_mm256_cvtph_ps(load(&halves)));
            _mm256_permutevar8x32_epi32(values, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7))
        }
    }

    #[inline(always)]
    fn to_halves(&self, row: __m256i) -> [u32; 4] {
        // SAFETY: as above.
        unsafe {
            let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
            let values = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(row, order));
            words(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values))
        }
    }

    #[inline(always)]
    fn load(&self, words: &[u32; COLUMNS]) -> __m256i {
        // SAFETY: as above; the array has the size of what is loaded.
        unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
    }

    #[inline(always)]
    fn splat(&self, word: u32) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_set1_epi32(word as i32) }
    }

    #[inline(always)]
    fn add_float(&self, a: __m256i, b: __m256i, sum: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe {
            let (a, b) = (_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
            _mm256_castps_si256(_mm256_fmadd_ps(a, b, _mm256_castsi256_ps(sum)))
        }
    }

    #[inline(always)]
    fn canonical(&self, row: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe {
            let row = _mm256_castsi256_ps(row);
            let nan = _mm256_castsi256_ps(_mm256_set1_epi32(CANONICAL_NAN as i32));
            let is_nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(row, row);
            _mm256_castps_si256(_mm256_blendv_ps(row, nan, is_nan))
        }
    }

    #[inline(always)]
    fn wide_load(&self, values: &[f64; COLUMNS]) -> [__m256d; 2] {
        // SAFETY: as above; the array has the size of what is loaded.
        unsafe {
            [
                _mm256_loadu_pd(values.as_ptr()),
                _mm256_loadu_pd(values[4..].as_ptr()),
            ]
        }
    }

    #[inline(always)]
    fn wide_columns(&self, row: [__m256d; 2]) -> [f64; COLUMNS] {
        let mut values = [0.0; COLUMNS];
        // SAFETY: as above; the array has the size of what is stored.
        unsafe {
            _mm256_storeu_pd(values.as_mut_ptr(), row[0]);
            _mm256_storeu_pd(values[4..].as_mut_ptr(), row[1]);
        }
        values
    }

    #[inline(always)]
    fn wide_splat(&self, value: f64) -> __m256d {
        // SAFETY: as above.
        unsafe { _mm256_set1_pd(value) }
    }

    #[inline(always)]
    fn wide_add(&self, a: __m256d, b: __m256d, sum: __m256d) -> __m256d {
        // SAFETY: as above.
        unsafe { _mm256_fmadd_pd(a, b, sum) }
    }
}
