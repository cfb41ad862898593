//! Vectors of 512 bits, which are four quads.

use core::arch::x86_64::{
    __m512i, _mm_setr_epi8, _mm_storeu_si128, _mm256_storeu_si256, _mm512_broadcast_i32x4,
    _mm512_castps_si512, _mm512_castsi512_si128, _mm512_castsi512_si256, _mm512_cvtepi32_epi16,
    _mm512_cvtph_ps, _mm512_extracti32x4_epi32, _mm512_extracti64x4_epi64, _mm512_loadu_si512,
    _mm512_permutex2var_epi32, _mm512_permutex2var_epi64, _mm512_permutexvar_epi16,
    _mm512_rol_epi32, _mm512_shuffle_epi8, _mm512_sllv_epi32, _mm512_srai_epi16, _mm512_srli_epi16,
    _mm512_srli_epi32, _mm512_storeu_si512, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64,
    _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
};

use super::{MOST_WORDS, Shuffles};
use crate::mma::COLUMNS;
use crate::mma::blocks::Blocks512;

// SAFETY of each block below: a `Blocks512` is made only after the processor said that it has the
// instructions.
impl<const OF_BF16: bool, const OF_BYTES: bool> Shuffles for Blocks512<OF_BF16, OF_BYTES> {
    const QUADS: usize = 4;

    #[inline(always)]
    fn to_words(self, vector: __m512i) -> [u32; MOST_WORDS] {
        let mut words = [0; MOST_WORDS];
        // SAFETY: as above; the array has the size of what is stored.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), vector) };
        words
    }

    #[inline(always)]
    fn from_words(self, words: &[u32; MOST_WORDS]) -> __m512i {
        // SAFETY: as above; the array has the size of what is loaded.
        unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
    }

    #[inline(always)]
    fn split_f16(self, words: __m512i) -> [__m512i; 2] {
        // SAFETY: as above.
        unsafe {
            let low = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words));
            let high = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(words)));
            [_mm512_castps_si512(low), _mm512_castps_si512(high)]
        }
    }

    #[inline(always)]
    fn split_bytes(self, words: __m512i, are_signed: bool) -> [__m512i; 2] {
        // SAFETY: as above.
        unsafe {
            let low_bytes = _mm512_broadcast_i32x4(_mm_setr_epi8(
                -1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13,
            ));
            let high_bytes = _mm512_broadcast_i32x4(_mm_setr_epi8(
                -1, 2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15,
            ));
            let mut pairs = [words; 2];
            for (pairs, bytes) in pairs.iter_mut().zip([low_bytes, high_bytes]) {
                let high = _mm512_shuffle_epi8(words, bytes);
                *pairs = match are_signed {
                    true => _mm512_srai_epi16::<8>(high),
                    false => _mm512_srli_epi16::<8>(high),
                };
            }
            pairs
        }
    }

    #[inline(always)]
    fn shift_left(self, words: __m512i, bits: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_sllv_epi32(words, bits) }
    }

    #[inline(always)]
    fn swap_halves(self, words: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_rol_epi32::<16>(words) }
    }

    #[inline(always)]
    fn interleave(self, [first, second]: [__m512i; 2]) -> [__m512i; 2] {
        // SAFETY: as above.
        unsafe {
            [
                _mm512_unpacklo_epi32(first, second),
                _mm512_unpackhi_epi32(first, second),
            ]
        }
    }

    #[inline(always)]
    fn transpose(self, [a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
        // SAFETY: as above.
        unsafe {
            let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
            let (ab_high, cd_high) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
            [
                _mm512_unpacklo_epi64(ab, cd),
                _mm512_unpackhi_epi64(ab, cd),
                _mm512_unpacklo_epi64(ab_high, cd_high),
                _mm512_unpackhi_epi64(ab_high, cd_high),
            ]
        }
    }

    #[inline(always)]
    fn rows_of_columns(self, [low, high]: [__m512i; 2]) -> [__m512i; 2] {
        /// Where the words of two rows are in a register.
        static FIRST: [u32; 16] = [0, 8, 16, 24, 4, 12, 20, 28, 1, 9, 17, 25, 5, 13, 21, 29];
        static SECOND: [u32; 16] = [2, 10, 18, 26, 6, 14, 22, 30, 3, 11, 19, 27, 7, 15, 23, 31];
        let (first, second) = (self.from_words(&FIRST), self.from_words(&SECOND));
        // SAFETY: as above.
        unsafe {
            [
                _mm512_permutex2var_epi32(low, first, high),
                _mm512_permutex2var_epi32(low, second, high),
            ]
        }
    }

    #[inline(always)]
    fn interleave_quads(self, [first, second]: [__m512i; 2]) -> [__m512i; 2] {
        static LOW: [u64; 8] = [0, 1, 8, 9, 2, 3, 10, 11];
        static HIGH: [u64; 8] = [4, 5, 12, 13, 6, 7, 14, 15];
        // SAFETY: as above; the arrays have the size of what is loaded.
        unsafe {
            let low = _mm512_loadu_si512(LOW.as_ptr().cast());
            let high = _mm512_loadu_si512(HIGH.as_ptr().cast());
            [
                _mm512_permutex2var_epi64(first, low, second),
                _mm512_permutex2var_epi64(first, high, second),
            ]
        }
    }

    #[inline(always)]
    fn pairs_of_rows(self, rows: __m512i) -> __m512i {
        /// Of each column, the half of the second row, which stand from 8 on, and of the first;
        /// then those of the next two rows.
        static ORDER: [u16; 32] = [
            8, 0, 10, 2, 12, 4, 14, 6, 9, 1, 11, 3, 13, 5, 15, 7, //
            24, 16, 26, 18, 28, 20, 30, 22, 25, 17, 27, 19, 29, 21, 31, 23,
        ];
        // SAFETY: as above; the array has the size of what is loaded.
        unsafe { _mm512_permutexvar_epi16(_mm512_loadu_si512(ORDER.as_ptr().cast()), rows) }
    }

    #[inline(always)]
    fn store_quads(self, quads: __m512i, to: &mut [u32], stride: usize) {
        if stride == 4 {
            let to = to[..MOST_WORDS].as_mut_ptr();
            // SAFETY: as above; the slice has the size of what is stored.
            return unsafe { _mm512_storeu_si512(to.cast(), quads) };
        }
        let mut to_quad = |n: usize| to[n * stride..][..4].as_mut_ptr();
        let places = [to_quad(0), to_quad(1), to_quad(2), to_quad(3)];
        // SAFETY: as above; the slices have the size of what is stored.
        unsafe {
            _mm_storeu_si128(places[0].cast(), _mm512_castsi512_si128(quads));
            _mm_storeu_si128(places[1].cast(), _mm512_extracti32x4_epi32::<1>(quads));
            _mm_storeu_si128(places[2].cast(), _mm512_extracti32x4_epi32::<2>(quads));
            _mm_storeu_si128(places[3].cast(), _mm512_extracti32x4_epi32::<3>(quads));
        }
    }

    #[inline(always)]
    fn store_rows(self, rows: __m512i, to: &mut [u32], stride: usize) {
        let first = to[..COLUMNS].as_mut_ptr();
        // SAFETY: as above; the slice has the size of what is stored.
        unsafe { _mm256_storeu_si256(first.cast(), _mm512_castsi512_si256(rows)) };
        let second = to[stride..][..COLUMNS].as_mut_ptr();
        // SAFETY: as before.
        unsafe { _mm256_storeu_si256(second.cast(), _mm512_extracti64x4_epi64::<1>(rows)) };
    }
}
