//! Vectors of 256 bits, which are single rows.

use core::arch::x86_64::{
    __m128i, __m256i, _CMP_UNORD_Q, _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128, _mm_setr_epi8,
    _mm_storeu_si128, _mm256_add_epi8, _mm256_add_epi16, _mm256_add_epi32, _mm256_and_si256,
    _mm256_blendv_ps, _mm256_broadcastsi128_si256, _mm256_castps_si256, _mm256_castsi256_ps,
    _mm256_castsi256_si128, _mm256_cmp_ps, _mm256_cmpeq_epi16, _mm256_cmpeq_epi32, _mm256_cvtph_ps,
    _mm256_cvtps_ph, _mm256_extracti128_si256, _mm256_fmadd_ps, _mm256_loadu_si256,
    _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_max_epu16, _mm256_max_epu32, _mm256_min_epu16,
    _mm256_min_epu32, _mm256_movemask_epi8, _mm256_permutevar8x32_epi32, _mm256_set_m128i,
    _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_setr_epi32, _mm256_shuffle_epi8,
    _mm256_slli_epi32, _mm256_srai_epi32, _mm256_srli_epi32, _mm256_storeu_si256, _mm256_sub_epi32,
    _mm256_xor_si256,
};

use super::{Block, Blocks, Register};
use crate::mma::COLUMNS;
use crate::mma::steps::{CANONICAL_NAN, Plain, Processor, Steps, Work};

/// A processor with AVX2, FMA and F16C.
#[derive(Copy, Clone)]
pub(in crate::mma) struct Blocks256(());

impl Processor for Blocks256 {
    fn detect() -> Option<Self> {
        let has_all = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        has_all.then_some(Blocks256(()))
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn with_features<W: Work>(work: W, steps: &impl Steps) -> W::Output {
    work.run(steps)
}

// SAFETY of each block below: a `Blocks256` is made only after the processor said that it has the
// instructions.
impl Blocks for Blocks256 {
    type Vector = __m256i;
    type Rows = [__m256i; 4];
    type OfA = [__m256i; 4];
    type OfB = [__m256i; 1];
    const ROOM: usize = 2;
    const TAKES_ROWS: bool = true;
    const ADDS_BF16: bool = false;
    const ADDS_BYTES: bool = false;

    fn compiled<W: Work>(self, work: W, steps: &impl Steps) -> W::Output {
        // SAFETY: as above.
        unsafe { with_features(work, steps) }
    }

    #[inline(always)]
    fn splat(self, word: u32) -> Self::Rows {
        // SAFETY: as above.
        [unsafe { _mm256_set1_epi32(word as i32) }; 4]
    }

    #[inline(always)]
    fn load(self, even: &Block, odd: &Block) -> Self::Rows {
        let mut rows = self.splat(0);
        let quads = even.as_chunks().0.iter().zip(odd.as_chunks().0);
        for (row, (even, odd)) in rows.iter_mut().zip(quads) {
            // SAFETY: as above.
            *row = unsafe { _mm256_set_m128i(quad(odd), quad(even)) };
        }
        rows
    }

    #[inline(always)]
    fn store(self, rows: Self::Rows, even: &mut Block, odd: &mut Block) {
        let even = even.as_chunks_mut::<4>().0.iter_mut();
        let quads = even.zip(odd.as_chunks_mut::<4>().0);
        for (row, (even, odd)) in rows.into_iter().zip(quads) {
            // SAFETY: as above; the arrays have the size of what is stored.
            unsafe {
                _mm_storeu_si128(even.as_mut_ptr().cast(), _mm256_castsi256_si128(row));
                _mm_storeu_si128(odd.as_mut_ptr().cast(), _mm256_extracti128_si256::<1>(row));
            }
        }
    }

    #[inline(always)]
    fn load_halves(self, pairs: &Block) -> Self::Rows {
        let mut rows = self.splat(0);
        for (row, pairs) in rows.iter_mut().zip(pairs.as_chunks().0) {
            // SAFETY: as above.
            *row = unsafe {
                let values = _mm256_castps_si256(_mm256_cvtph_ps(quad(pairs)));
                _mm256_permutevar8x32_epi32(values, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7))
            };
        }
        rows
    }

    #[inline(always)]
    fn store_halves(self, rows: Self::Rows, pairs: &mut Block) {
        for (row, pairs) in rows.into_iter().zip(pairs.as_chunks_mut::<4>().0) {
            // SAFETY: as above; the array has the size of what is stored.
            unsafe {
                let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
                let values = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(row, order));
                let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values);
                _mm_storeu_si128(pairs.as_mut_ptr().cast(), halves);
            }
        }
    }

    #[inline(always)]
    fn load_words(self, words: &Register) -> Self::Rows {
        let mut rows = self.splat(0);
        for (row, words) in rows.iter_mut().zip(words.as_chunks::<COLUMNS>().0) {
            // SAFETY: as above; the array has the size of what is loaded.
            *row = unsafe { _mm256_loadu_si256(words.as_ptr().cast()) };
        }
        rows
    }

    #[inline(always)]
    fn store_words(self, words: Self::Rows, to: &mut Register) {
        for (words, to) in words.into_iter().zip(to.as_chunks_mut::<COLUMNS>().0) {
            // SAFETY: as above; the array has the size of what is stored.
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), words) };
        }
    }

    #[inline(always)]
    fn of_a<const K: usize>(self, rows: &[[u32; K]; 4], column: usize) -> Self::OfA {
        let mut elements = self.splat(0);
        for (element, row) in elements.iter_mut().zip(rows) {
            // SAFETY: as above.
            *element = unsafe { _mm256_set1_epi32(row[column] as i32) };
        }
        elements
    }

    #[inline(always)]
    fn of_b(self, row: &[u32; COLUMNS]) -> Self::OfB {
        // SAFETY: as above; the array has the size of what is loaded.
        [unsafe { _mm256_loadu_si256(row.as_ptr().cast()) }]
    }

    #[inline(always)]
    fn add_float(self, a: __m256i, b: __m256i, sum: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe {
            let (a, b) = (_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
            _mm256_castps_si256(_mm256_fmadd_ps(a, b, _mm256_castsi256_ps(sum)))
        }
    }

    #[inline(always)]
    fn add_bf16(self, a: __m256i, b: __m256i, sum: __m256i) -> __m256i {
        let ([a_high, a_low], [b_high, b_low]) = (self.split_bf16(a), self.split_bf16(b));
        self.add_float(a_low, b_low, self.add_float(a_high, b_high, sum))
    }

    #[inline(always)]
    fn split_bf16(self, words: __m256i) -> [__m256i; 2] {
        // SAFETY: as above.
        unsafe {
            let high = _mm256_set1_epi32(0xffff_0000_u32 as i32);
            [
                _mm256_and_si256(words, high),
                _mm256_slli_epi32::<16>(words),
            ]
        }
    }

    #[inline(always)]
    fn add_pair(self, a: __m256i, b: __m256i, sum: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)) }
    }

    #[inline(always)]
    fn add_bytes(self, a: __m256i, b: __m256i, sum: __m256i) -> __m256i {
        let [a, b, sum] = [a, b, sum].map(words);
        vector(Plain::<true>.add_bytes(a, b, sum))
    }

    #[inline(always)]
    fn add_bits(self, bits: __m256i, sum: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe {
            // Of each nibble by a table, then the sums of the bytes of each word.
            let counts = _mm256_broadcastsi128_si256(_mm_setr_epi8(
                0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
            ));
            let nibble = _mm256_set1_epi8(0xf);
            let low = _mm256_and_si256(bits, nibble);
            let high = _mm256_and_si256(_mm256_srli_epi32::<4>(bits), nibble);
            let of_bytes = _mm256_add_epi8(
                _mm256_shuffle_epi8(counts, low),
                _mm256_shuffle_epi8(counts, high),
            );
            let of_pairs = _mm256_maddubs_epi16(of_bytes, _mm256_set1_epi8(1));
            let of_words = _mm256_madd_epi16(of_pairs, _mm256_set1_epi16(1));
            _mm256_add_epi32(sum, of_words)
        }
    }

    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_and_si256(a, b) }
    }

    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_xor_si256(a, b) }
    }

    #[inline(always)]
    fn add(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_add_epi32(a, b) }
    }

    #[inline(always)]
    fn add_saturating(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe {
            let sum = _mm256_add_epi32(a, b);
            // It has overflowed if its sign differs from that of both.
            let overflow = _mm256_and_si256(_mm256_xor_si256(a, sum), _mm256_xor_si256(b, sum));
            let largest = _mm256_set1_epi32(i32::MAX);
            let limit = _mm256_xor_si256(_mm256_srai_epi32::<31>(a), largest);
            let (sum, limit) = (_mm256_castsi256_ps(sum), _mm256_castsi256_ps(limit));
            _mm256_castps_si256(_mm256_blendv_ps(sum, limit, _mm256_castsi256_ps(overflow)))
        }
    }

    #[inline(always)]
    fn subtract(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_sub_epi32(a, b) }
    }

    #[inline(always)]
    fn canonical(self, words: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe {
            let values = _mm256_castsi256_ps(words);
            let nan = _mm256_castsi256_ps(_mm256_set1_epi32(CANONICAL_NAN as i32));
            let is_nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(values, values);
            _mm256_castps_si256(_mm256_blendv_ps(values, nan, is_nan))
        }
    }

    #[inline(always)]
    fn least_bf16(self, words: __m256i, least: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe {
            let magnitudes = _mm256_add_epi16(words, words);
            let less_one = _mm256_add_epi16(magnitudes, _mm256_set1_epi16(-1));
            _mm256_min_epu16(less_one, least)
        }
    }

    #[inline(always)]
    fn is_half_below(self, halves: __m256i, bound: u16) -> bool {
        // SAFETY: as above.
        unsafe {
            let at_least = _mm256_max_epu16(halves, _mm256_set1_epi16(bound as i16));
            _mm256_movemask_epi8(_mm256_cmpeq_epi16(at_least, halves)) != -1
        }
    }

    #[inline(always)]
    fn least_float(self, words: __m256i, least: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe {
            let magnitudes = _mm256_add_epi32(words, words);
            let less_one = _mm256_add_epi32(magnitudes, _mm256_set1_epi32(-1));
            _mm256_min_epu32(less_one, least)
        }
    }

    #[inline(always)]
    fn is_word_below(self, words: __m256i, bound: u32) -> bool {
        // SAFETY: as above.
        unsafe {
            let at_least = _mm256_max_epu32(words, _mm256_set1_epi32(bound as i32));
            _mm256_movemask_epi8(_mm256_cmpeq_epi32(at_least, words)) != -1
        }
    }
}

fn quad(words: &[u32; 4]) -> __m128i {
    // SAFETY: all of x86-64 has the instruction, and the array has the size of what is loaded.
    unsafe { _mm_loadu_si128(words.as_ptr().cast()) }
}

fn words(vector: __m256i) -> [u32; COLUMNS] {
    // SAFETY: both have the same size, and any bits are words.
    unsafe { core::mem::transmute(vector) }
}

fn vector(words: [u32; COLUMNS]) -> __m256i {
    // SAFETY: both have the same size, and a vector is any bits.
    unsafe { core::mem::transmute(words) }
}
