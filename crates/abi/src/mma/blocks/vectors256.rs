//! Blocks in pairs of vectors of 256 bits: two rows in each.

use core::arch::x86_64::{
    __m128i, __m256i, _CMP_UNORD_Q, _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128, _mm_setr_epi8,
    _mm_unpackhi_epi16, _mm_unpacklo_epi16, _mm256_add_epi8, _mm256_add_epi16, _mm256_add_epi32,
    _mm256_and_si256, _mm256_blendv_ps, _mm256_broadcastsi128_si256, _mm256_castps_si256,
    _mm256_castsi256_ps, _mm256_castsi256_si128, _mm256_cmp_ps, _mm256_cmpeq_epi16,
    _mm256_cmpeq_epi32, _mm256_cvtph_ps, _mm256_cvtps_ph, _mm256_extracti128_si256,
    _mm256_fmadd_ps, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_max_epu16,
    _mm256_max_epu32, _mm256_min_epu16, _mm256_min_epu32, _mm256_movemask_epi8,
    _mm256_permute4x64_epi64, _mm256_set_m128i, _mm256_set1_epi8, _mm256_set1_epi16,
    _mm256_set1_epi32, _mm256_shuffle_epi8, _mm256_shuffle_epi32, _mm256_slli_epi32,
    _mm256_srai_epi32, _mm256_srli_epi32, _mm256_storeu_si256, _mm256_sub_epi32, _mm256_xor_si256,
};

use super::{BLOCK, Blocks};
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

/// Both vectors of a block, which `each` makes from those of others.
macro_rules! each {
    (|$($name:ident),+| $each:expr) => {{
        // A loop, as a closure is compiled without the vector instructions, and then not inlined.
        let mut both = [$($name),+][0];
        for half in 0..2 {
            $(let $name = $name[half];)+
            // SAFETY: a `Blocks256` is made only after the processor said that it has the
            // instructions.
            both[half] = unsafe { $each };
        }
        both
    }};
}

// SAFETY of each block below: as above.
impl Blocks for Blocks256 {
    type Block = [__m256i; 2];
    const ROOM: usize = 4;
    const HAS_DOTS: bool = false;

    fn compiled<W: Work>(self, work: W, steps: &impl Steps) -> W::Output {
        // SAFETY: as above.
        unsafe { with_features(work, steps) }
    }

    #[inline(always)]
    fn load(self, words: &[u32; BLOCK]) -> Self::Block {
        // SAFETY: as above; the array has the size of what is loaded.
        unsafe {
            [
                _mm256_loadu_si256(words.as_ptr().cast()),
                _mm256_loadu_si256(words[8..].as_ptr().cast()),
            ]
        }
    }

    #[inline(always)]
    fn store(self, [low, high]: Self::Block, to: &mut [u32; BLOCK]) {
        // SAFETY: as above; the array has the size of what is stored.
        unsafe {
            _mm256_storeu_si256(to.as_mut_ptr().cast(), low);
            _mm256_storeu_si256(to[8..].as_mut_ptr().cast(), high);
        }
    }

    #[inline(always)]
    fn splat(self, word: u32) -> Self::Block {
        // SAFETY: as above.
        [unsafe { _mm256_set1_epi32(word as i32) }; 2]
    }

    #[inline(always)]
    fn rows(self, words: &[u32; 4]) -> Self::Block {
        // SAFETY: as above; the array has the size of what is loaded.
        [unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(words.as_ptr().cast())) }; 2]
    }

    #[inline(always)]
    fn column(self, block: Self::Block, column: usize) -> Self::Block {
        match column {
            0 => each!(|block| _mm256_shuffle_epi32::<0x00>(block)),
            1 => each!(|block| _mm256_shuffle_epi32::<0x55>(block)),
            2 => each!(|block| _mm256_shuffle_epi32::<0xaa>(block)),
            _ => each!(|block| _mm256_shuffle_epi32::<0xff>(block)),
        }
    }

    #[inline(always)]
    fn add_float(self, a: Self::Block, b: Self::Block, sum: Self::Block) -> Self::Block {
        each!(|a, b, sum| {
            let (a, b) = (_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
            _mm256_castps_si256(_mm256_fmadd_ps(a, b, _mm256_castsi256_ps(sum)))
        })
    }

    #[inline(always)]
    fn add_bf16(self, a: Self::Block, b: Self::Block, sum: Self::Block) -> Self::Block {
        let ([a_high, a_low], [b_high, b_low]) = (self.split_bf16(a), self.split_bf16(b));
        self.add_float(a_low, b_low, self.add_float(a_high, b_high, sum))
    }

    #[inline(always)]
    fn split_bf16(self, block: Self::Block) -> [Self::Block; 2] {
        let high = self.splat(0xffff_0000);
        [
            self.and(block, high),
            each!(|block| _mm256_slli_epi32::<16>(block)),
        ]
    }

    #[inline(always)]
    fn add_pair(self, a: Self::Block, b: Self::Block, sum: Self::Block) -> Self::Block {
        each!(|a, b, sum| _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)))
    }

    #[inline(always)]
    fn add_bytes(self, a: Self::Block, b: Self::Block, sum: Self::Block) -> Self::Block {
        let [mut a_words, mut b_words, mut sum_words] = [[0; BLOCK]; 3];
        self.store(a, &mut a_words);
        self.store(b, &mut b_words);
        self.store(sum, &mut sum_words);
        self.load(&Plain::<true>.add_bytes(a_words, b_words, sum_words))
    }

    #[inline(always)]
    fn add_bits(self, bits: Self::Block, sum: Self::Block) -> Self::Block {
        each!(|bits, sum| {
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
        })
    }

    #[inline(always)]
    fn and(self, a: Self::Block, b: Self::Block) -> Self::Block {
        each!(|a, b| _mm256_and_si256(a, b))
    }

    #[inline(always)]
    fn xor(self, a: Self::Block, b: Self::Block) -> Self::Block {
        each!(|a, b| _mm256_xor_si256(a, b))
    }

    #[inline(always)]
    fn add(self, a: Self::Block, b: Self::Block) -> Self::Block {
        each!(|a, b| _mm256_add_epi32(a, b))
    }

    #[inline(always)]
    fn add_saturating(self, a: Self::Block, b: Self::Block) -> Self::Block {
        each!(|a, b| {
            let sum = _mm256_add_epi32(a, b);
            // It has overflowed if its sign differs from that of both.
            let overflow = _mm256_and_si256(_mm256_xor_si256(a, sum), _mm256_xor_si256(b, sum));
            let largest = _mm256_set1_epi32(i32::MAX);
            let limit = _mm256_xor_si256(_mm256_srai_epi32::<31>(a), largest);
            let (sum, limit) = (_mm256_castsi256_ps(sum), _mm256_castsi256_ps(limit));
            _mm256_castps_si256(_mm256_blendv_ps(sum, limit, _mm256_castsi256_ps(overflow)))
        })
    }

    #[inline(always)]
    fn subtract(self, a: Self::Block, b: Self::Block) -> Self::Block {
        each!(|a, b| _mm256_sub_epi32(a, b))
    }

    #[inline(always)]
    fn canonical(self, block: Self::Block) -> Self::Block {
        each!(|block| {
            let block = _mm256_castsi256_ps(block);
            let nan = _mm256_castsi256_ps(_mm256_set1_epi32(CANONICAL_NAN as i32));
            let is_nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(block, block);
            _mm256_castps_si256(_mm256_blendv_ps(block, nan, is_nan))
        })
    }

    #[inline(always)]
    fn from_halves(self, block: Self::Block) -> [Self::Block; 2] {
        // SAFETY: as above.
        unsafe {
            let [a, b] = [block[0], block[1]];
            let ([a_low, a_high], [b_low, b_high]) = (sorted_halves(a), sorted_halves(b));
            [
                [single(a_low), single(b_low)],
                [single(a_high), single(b_high)],
            ]
        }
    }

    #[inline(always)]
    fn to_halves(self, [low, high]: [Self::Block; 2]) -> Self::Block {
        each!(|low, high| {
            let [low, high] = [half(low), half(high)];
            _mm256_set_m128i(_mm_unpackhi_epi16(low, high), _mm_unpacklo_epi16(low, high))
        })
    }

    #[inline(always)]
    fn least_bf16(self, block: Self::Block, least: Self::Block) -> Self::Block {
        each!(|block, least| {
            let magnitudes = _mm256_add_epi16(block, block);
            let less_one = _mm256_add_epi16(magnitudes, _mm256_set1_epi16(-1));
            _mm256_min_epu16(less_one, least)
        })
    }

    #[inline(always)]
    fn is_half_below(self, [a, b]: Self::Block, bound: u16) -> bool {
        // SAFETY: as above.
        unsafe {
            let halves = _mm256_min_epu16(a, b);
            let at_least = _mm256_max_epu16(halves, _mm256_set1_epi16(bound as i16));
            _mm256_movemask_epi8(_mm256_cmpeq_epi16(at_least, halves)) != -1
        }
    }

    #[inline(always)]
    fn least_float(self, block: Self::Block, least: Self::Block) -> Self::Block {
        each!(|block, least| {
            let magnitudes = _mm256_add_epi32(block, block);
            let less_one = _mm256_add_epi32(magnitudes, _mm256_set1_epi32(-1));
            _mm256_min_epu32(less_one, least)
        })
    }

    #[inline(always)]
    fn is_word_below(self, [a, b]: Self::Block, bound: u32) -> bool {
        // SAFETY: as above.
        unsafe {
            let words = _mm256_min_epu32(a, b);
            let at_least = _mm256_max_epu32(words, _mm256_set1_epi32(bound as i32));
            _mm256_movemask_epi8(_mm256_cmpeq_epi32(at_least, words)) != -1
        }
    }
}

/// The low halves of eight words, and the high ones.
///
/// # Safety
///
/// The processor has AVX2, and F16C below.
#[inline(always)]
unsafe fn sorted_halves(words: __m256i) -> [__m128i; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        let order = _mm256_broadcastsi128_si256(_mm_setr_epi8(
            0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,
        ));
        let of_quads = _mm256_shuffle_epi8(words, order);
        let sorted = _mm256_permute4x64_epi64::<0b11_01_10_00>(of_quads);
        [
            _mm256_castsi256_si128(sorted),
            _mm256_extracti128_si256::<1>(sorted),
        ]
    }
}

/// # Safety
///
/// As [`sorted_halves`].
#[inline(always)]
unsafe fn single(halves: __m128i) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_castps_si256(_mm256_cvtph_ps(halves)) }
}

/// # Safety
///
/// As [`sorted_halves`].
#[inline(always)]
unsafe fn half(values: __m256i) -> __m128i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_castsi256_ps(values)) }
}
