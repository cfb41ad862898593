//! Vectors of 512 bits, which are blocks: one of even columns, and one of odd ones.

use core::arch::x86_64::{
    __cpuid, __m512bh, __m512i, _CMP_UNORD_Q, _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128,
    _mm_setr_epi8, _mm256_setzero_si256, _mm512_add_epi8, _mm512_add_epi16, _mm512_add_epi32,
    _mm512_and_si512, _mm512_broadcast_i32x4, _mm512_castps_si512, _mm512_castsi512_ps,
    _mm512_cmp_ps_mask, _mm512_cmplt_epi32_mask, _mm512_cmplt_epu16_mask, _mm512_cmplt_epu32_mask,
    _mm512_cvtepi32_epi16, _mm512_cvtepu16_epi32, _mm512_cvtph_ps, _mm512_cvtps_ph,
    _mm512_dpbf16_ps, _mm512_dpbusd_epi32, _mm512_fmadd_ps, _mm512_loadu_si512, _mm512_madd_epi16,
    _mm512_maddubs_epi16, _mm512_mask_mov_epi32, _mm512_min_epu16, _mm512_min_epu32,
    _mm512_or_si512, _mm512_set1_epi8, _mm512_set1_epi16, _mm512_set1_epi32, _mm512_setzero_si512,
    _mm512_shuffle_epi8, _mm512_shuffle_epi32, _mm512_slli_epi32, _mm512_srai_epi32,
    _mm512_srli_epi32, _mm512_storeu_si512, _mm512_sub_epi32, _mm512_xor_si512,
};
use std::sync::LazyLock;

use super::{Block, Blocks, Register};
use crate::mma::COLUMNS;
use crate::mma::steps::{CANONICAL_NAN, Plain, Processor, Steps, Work};

/// A processor with AVX-512, and with dot products of pairs of bf16 and of bytes, if that is said.
#[derive(Copy, Clone)]
pub(in crate::mma) struct Blocks512<const OF_BF16: bool, const OF_BYTES: bool>(());

impl<const OF_BF16: bool, const OF_BYTES: bool> Processor for Blocks512<OF_BF16, OF_BYTES> {
    fn detect() -> Option<Self> {
        let has_all = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
            && (!OF_BF16 || is_x86_feature_detected!("avx512bf16"))
            && (!OF_BYTES || is_x86_feature_detected!("avx512vnni"));
        has_all.then_some(Blocks512(()))
    }
}

impl Blocks512<true, true> {
    /// Whether `vdpbf16ps` takes no longer than two multiply-adds. Intel's processors start one in
    /// two cycles, and in the same time four multiply-adds of 512 bits.
    pub(in crate::mma) fn adds_bf16_fast(&self) -> bool {
        static IS_INTEL: LazyLock<bool> = LazyLock::new(|| {
            let vendor = __cpuid(0);
            let name = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
            name.as_flattened() == b"GenuineIntel"
        });
        !*IS_INTEL
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
fn with_features<W: Work>(work: W, steps: &impl Steps) -> W::Output {
    work.run(steps)
}

#[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
fn with_dots_of_bytes<W: Work>(work: W, steps: &impl Steps) -> W::Output {
    work.run(steps)
}

#[target_feature(enable = "avx512bf16,avx512vnni,avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
fn with_dots<W: Work>(work: W, steps: &impl Steps) -> W::Output {
    work.run(steps)
}

// SAFETY of each block below: a `Blocks512` is made only after the processor said that it has the
// instructions.
impl<const OF_BF16: bool, const OF_BYTES: bool> Blocks for Blocks512<OF_BF16, OF_BYTES> {
    type Vector = __m512i;
    type Rows = [__m512i; 2];
    type OfA = [__m512i; 1];
    type OfB = [__m512i; 2];
    const ROOM: usize = 8;
    const TAKES_ROWS: bool = false;
    const ADDS_BF16: bool = OF_BF16;
    const ADDS_BYTES: bool = OF_BYTES;

    fn compiled<W: Work>(self, work: W, steps: &impl Steps) -> W::Output {
        // SAFETY: as above.
        unsafe {
            match (OF_BF16, OF_BYTES) {
                (true, _) => with_dots(work, steps),
                (false, true) => with_dots_of_bytes(work, steps),
                (false, false) => with_features(work, steps),
            }
        }
    }

    #[inline(always)]
    fn splat(self, word: u32) -> Self::Rows {
        // SAFETY: as above.
        [unsafe { _mm512_set1_epi32(word as i32) }; 2]
    }

    #[inline(always)]
    fn load(self, even: &Block, odd: &Block) -> Self::Rows {
        [block(even), block(odd)]
    }

    #[inline(always)]
    fn store(self, [of_even, of_odd]: Self::Rows, even: &mut Block, odd: &mut Block) {
        set_block(even, of_even);
        set_block(odd, of_odd);
    }

    #[inline(always)]
    fn load_halves(self, pairs: &Block) -> Self::Rows {
        let mut both = [block(pairs); 2];
        // SAFETY: as above.
        unsafe {
            both[1] = _mm512_srli_epi32::<16>(both[1]);
            for half in &mut both {
                *half = _mm512_castps_si512(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(*half)));
            }
        }
        both
    }

    #[inline(always)]
    fn store_halves(self, rows: Self::Rows, pairs: &mut Block) {
        // SAFETY: as above.
        unsafe {
            let mut halves = [_mm256_setzero_si256(); 2];
            for (half, values) in halves.iter_mut().zip(rows) {
                let values = _mm512_castsi512_ps(values);
                *half = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values);
            }
            let high = _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(halves[1]));
            let both = _mm512_or_si512(_mm512_cvtepu16_epi32(halves[0]), high);
            set_block(pairs, both);
        }
    }

    #[inline(always)]
    fn load_words(self, words: &Register) -> Self::Rows {
        let blocks = words.as_chunks().0;
        [block(&blocks[0]), block(&blocks[1])]
    }

    #[inline(always)]
    fn store_words(self, words: Self::Rows, to: &mut Register) {
        for (words, to) in words.into_iter().zip(to.as_chunks_mut().0) {
            set_block(to, words);
        }
    }

    #[inline(always)]
    fn of_a<const K: usize>(self, rows: &[[u32; K]; 4], column: usize) -> Self::OfA {
        let rows = block(&rows.as_flattened().as_chunks().0[column / 4]);
        // SAFETY: as above.
        unsafe {
            [match column % 4 {
                0 => _mm512_shuffle_epi32::<0x00>(rows),
                1 => _mm512_shuffle_epi32::<0x55>(rows),
                2 => _mm512_shuffle_epi32::<0xaa>(rows),
                _ => _mm512_shuffle_epi32::<0xff>(rows),
            }]
        }
    }

    #[inline(always)]
    fn of_b(self, row: &[u32; COLUMNS]) -> Self::OfB {
        let mut both = self.splat(0);
        for (half, words) in both.iter_mut().zip(row.as_chunks::<4>().0) {
            // SAFETY: as above; the array has the size of what is loaded.
            *half = unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(words.as_ptr().cast())) };
        }
        both
    }

    #[inline(always)]
    fn add_float(self, a: __m512i, b: __m512i, sum: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe {
            let (a, b) = (_mm512_castsi512_ps(a), _mm512_castsi512_ps(b));
            _mm512_castps_si512(_mm512_fmadd_ps(a, b, _mm512_castsi512_ps(sum)))
        }
    }

    /// `vdpbf16ps` takes the high halves first and rounds to the nearest after each multiply-add,
    /// but takes subnormal operands and results for zero.
    #[inline(always)]
    fn add_bf16(self, a: __m512i, b: __m512i, sum: __m512i) -> __m512i {
        if !OF_BF16 {
            let ([a_high, a_low], [b_high, b_low]) = (self.split_bf16(a), self.split_bf16(b));
            return self.add_float(a_low, b_low, self.add_float(a_high, b_high, sum));
        }
        // SAFETY: as above; a vector of bf16 is any 512 bits.
        unsafe {
            let a = core::mem::transmute::<__m512i, __m512bh>(a);
            let b = core::mem::transmute::<__m512i, __m512bh>(b);
            _mm512_castps_si512(_mm512_dpbf16_ps(_mm512_castsi512_ps(sum), a, b))
        }
    }

    #[inline(always)]
    fn split_bf16(self, words: __m512i) -> [__m512i; 2] {
        // SAFETY: as above.
        unsafe {
            let high = _mm512_set1_epi32(0xffff_0000_u32 as i32);
            [
                _mm512_and_si512(words, high),
                _mm512_slli_epi32::<16>(words),
            ]
        }
    }

    #[inline(always)]
    fn add_pair(self, a: __m512i, b: __m512i, sum: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_add_epi32(sum, _mm512_madd_epi16(a, b)) }
    }

    #[inline(always)]
    fn add_bytes(self, a: __m512i, b: __m512i, sum: __m512i) -> __m512i {
        if !OF_BYTES {
            let ([a, b], mut sums) = ([a, b].map(words), words(sum));
            for half in 0..2 {
                sums[half] = Plain::<true>.add_bytes(a[half], b[half], sums[half]);
            }
            return block(sums.as_flattened().as_array().expect("two halves"));
        }
        // SAFETY: as above.
        unsafe { _mm512_dpbusd_epi32(sum, a, b) }
    }

    #[inline(always)]
    fn add_bits(self, bits: __m512i, sum: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe {
            // Of each nibble by a table, then the sums of the bytes of each word.
            let counts = _mm512_broadcast_i32x4(_mm_setr_epi8(
                0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
            ));
            let nibble = _mm512_set1_epi8(0xf);
            let low = _mm512_and_si512(bits, nibble);
            let high = _mm512_and_si512(_mm512_srli_epi32::<4>(bits), nibble);
            let of_bytes = _mm512_add_epi8(
                _mm512_shuffle_epi8(counts, low),
                _mm512_shuffle_epi8(counts, high),
            );
            let of_pairs = _mm512_maddubs_epi16(of_bytes, _mm512_set1_epi8(1));
            let of_words = _mm512_madd_epi16(of_pairs, _mm512_set1_epi16(1));
            _mm512_add_epi32(sum, of_words)
        }
    }

    #[inline(always)]
    fn and(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_and_si512(a, b) }
    }

    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_xor_si512(a, b) }
    }

    #[inline(always)]
    fn add(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_add_epi32(a, b) }
    }

    #[inline(always)]
    fn add_saturating(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe {
            let sum = _mm512_add_epi32(a, b);
            // It has overflowed if its sign differs from that of both.
            let overflow = _mm512_and_si512(_mm512_xor_si512(a, sum), _mm512_xor_si512(b, sum));
            let largest = _mm512_set1_epi32(i32::MAX);
            let limit = _mm512_xor_si512(_mm512_srai_epi32::<31>(a), largest);
            let has_overflowed = _mm512_cmplt_epi32_mask(overflow, _mm512_setzero_si512());
            _mm512_mask_mov_epi32(sum, has_overflowed, limit)
        }
    }

    #[inline(always)]
    fn subtract(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_sub_epi32(a, b) }
    }

    #[inline(always)]
    fn canonical(self, words: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe {
            let values = _mm512_castsi512_ps(words);
            let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(values, values);
            _mm512_mask_mov_epi32(words, is_nan, _mm512_set1_epi32(CANONICAL_NAN as i32))
        }
    }

    #[inline(always)]
    fn least_bf16(self, words: __m512i, least: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe {
            let magnitudes = _mm512_add_epi16(words, words);
            let less_one = _mm512_add_epi16(magnitudes, _mm512_set1_epi16(-1));
            _mm512_min_epu16(less_one, least)
        }
    }

    #[inline(always)]
    fn is_half_below(self, halves: __m512i, bound: u16) -> bool {
        // SAFETY: as above.
        unsafe { _mm512_cmplt_epu16_mask(halves, _mm512_set1_epi16(bound as i16)) != 0 }
    }

    #[inline(always)]
    fn least_float(self, words: __m512i, least: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe {
            let magnitudes = _mm512_add_epi32(words, words);
            let less_one = _mm512_add_epi32(magnitudes, _mm512_set1_epi32(-1));
            _mm512_min_epu32(less_one, least)
        }
    }

    #[inline(always)]
    fn is_word_below(self, words: __m512i, bound: u32) -> bool {
        // SAFETY: as above.
        unsafe { _mm512_cmplt_epu32_mask(words, _mm512_set1_epi32(bound as i32)) != 0 }
    }
}

#[inline(always)]
fn block(words: &Block) -> __m512i {
    // SAFETY: only `Blocks512` calls this; the array has the size of what is loaded.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

#[inline(always)]
fn set_block(words: &mut Block, vector: __m512i) {
    // SAFETY: only `Blocks512` calls this; the array has the size of what is stored.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), vector) }
}

fn words(vector: __m512i) -> [[u32; COLUMNS]; 2] {
    // SAFETY: both have the same size, and any bits are words.
    unsafe { core::mem::transmute(vector) }
}
