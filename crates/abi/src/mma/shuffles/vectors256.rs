//! Vectors of 256 bits, which are two quads.

use core::arch::x86_64::{
    __m256i, _mm_storeu_si128, _mm256_castps_si256, _mm256_castsi256_si128, _mm256_cvtph_ps,
    _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_or_si256, _mm256_permute2x128_si256,
    _mm256_permute4x64_epi64, _mm256_setr_epi8, _mm256_shuffle_epi8, _mm256_slli_epi32,
    _mm256_sllv_epi32, _mm256_srai_epi16, _mm256_srli_epi16, _mm256_srli_epi32,
    _mm256_storeu_si256, _mm256_unpackhi_epi32, _mm256_unpackhi_epi64, _mm256_unpacklo_epi32,
    _mm256_unpacklo_epi64,
};

use super::{MOST_WORDS, Shuffles};
use crate::mma::COLUMNS;
use crate::mma::blocks::Blocks256;

// SAFETY of each block below: a `Blocks256` is made only after the processor said that it has the
// instructions.
impl Shuffles for Blocks256 {
    const QUADS: usize = 2;

    #[inline(always)]
    fn to_words(self, vector: __m256i) -> [u32; MOST_WORDS] {
        let mut words = [0; MOST_WORDS];
        // SAFETY: as above; the array is larger than what is stored.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), vector) };
        words
    }

    #[inline(always)]
    fn from_words(self, words: &[u32; MOST_WORDS]) -> __m256i {
        // SAFETY: as above; the array is larger than what is loaded.
        unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
    }

    #[inline(always)]
    fn split_f16(self, words: __m256i) -> [__m256i; 2] {
        // SAFETY: as above.
        unsafe {
            let low_first = _mm256_setr_epi8(
                0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, //
                0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,
            );
            let of_quads = _mm256_shuffle_epi8(words, low_first);
            let halves = _mm256_permute4x64_epi64::<0b11_01_10_00>(of_quads);
            let low = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
            let high = _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(halves));
            [_mm256_castps_si256(low), _mm256_castps_si256(high)]
        }
    }

    #[inline(always)]
    fn split_bytes(self, words: __m256i, are_signed: bool) -> [__m256i; 2] {
        // SAFETY: as above.
        unsafe {
            let low_bytes = _mm256_setr_epi8(
                -1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, //
                -1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13,
            );
            let high_bytes = _mm256_setr_epi8(
                -1, 2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15, //
                -1, 2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15,
            );
            let mut pairs = [words; 2];
            for (pairs, bytes) in pairs.iter_mut().zip([low_bytes, high_bytes]) {
                let high = _mm256_shuffle_epi8(words, bytes);
                *pairs = match are_signed {
                    true => _mm256_srai_epi16::<8>(high),
                    false => _mm256_srli_epi16::<8>(high),
                };
            }
            pairs
        }
    }

    #[inline(always)]
    fn shift_left(self, words: __m256i, bits: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_sllv_epi32(words, bits) }
    }

    #[inline(always)]
    fn swap_halves(self, words: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe {
            let up = _mm256_slli_epi32::<16>(words);
            _mm256_or_si256(up, _mm256_srli_epi32::<16>(words))
        }
    }

    #[inline(always)]
    fn interleave(self, [first, second]: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: as above.
        unsafe {
            [
                _mm256_unpacklo_epi32(first, second),
                _mm256_unpackhi_epi32(first, second),
            ]
        }
    }

    #[inline(always)]
    fn transpose(self, [a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
        // SAFETY: as above.
        unsafe {
            let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
            let (ab_high, cd_high) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
            [
                _mm256_unpacklo_epi64(ab, cd),
                _mm256_unpackhi_epi64(ab, cd),
                _mm256_unpacklo_epi64(ab_high, cd_high),
                _mm256_unpackhi_epi64(ab_high, cd_high),
            ]
        }
    }

    /// Each vector has an even column and the next one, so the even ones of all are side by side
    /// then, and the odd ones.
    #[inline(always)]
    fn rows_of_columns(self, register: [__m256i; 4]) -> [__m256i; 4] {
        self.transpose(register)
    }

    #[inline(always)]
    fn interleave_quads(self, [first, second]: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: as above.
        unsafe {
            [
                _mm256_permute2x128_si256::<0x20>(first, second),
                _mm256_permute2x128_si256::<0x31>(first, second),
            ]
        }
    }

    #[inline(always)]
    fn store_quads(self, quads: __m256i, to: &mut [u32], stride: usize) {
        let low = to[..4].as_mut_ptr();
        // SAFETY: as above; the slices have the size of what is stored.
        unsafe { _mm_storeu_si128(low.cast(), _mm256_castsi256_si128(quads)) };
        let high = to[stride..][..4].as_mut_ptr();
        // SAFETY: as before.
        unsafe { _mm_storeu_si128(high.cast(), _mm256_extracti128_si256::<1>(quads)) };
    }

    #[inline(always)]
    fn store_rows(self, rows: __m256i, to: &mut [u32], _: usize) {
        let to = to[..COLUMNS].as_mut_ptr();
        // SAFETY: as above; the slice has the size of what is stored.
        unsafe { _mm256_storeu_si256(to.cast(), rows) };
    }
}
