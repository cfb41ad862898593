//! The steps of a product for which processors have instructions of their own: in plain code, and
//! with AVX2, FMA and F16C.

use ptxjit_ir::{Convert, MatrixFmt, NumFmt, eval};

use super::COLUMNS;

/// What stands for every NaN in a sum.
const CANONICAL_NAN: u32 = 0x7fff_ffff;

/// A loop over steps, compiled as a function of its own for the instructions of the processor: one
/// function with the loops of all forms takes minutes to compile.
pub(super) trait Work {
    /// What it gives.
    type Output;

    /// Runs it. Implementations are always inlined, since steps are compiled with instructions
    /// that functions around them need not have.
    fn run(self, steps: &impl Steps) -> Self::Output;
}

/// Operations on rows of eight words, whose columns stand in the order of
/// [`column_slot`](super::operands::column_slot).
pub(super) trait Steps: Sized {
    /// Eight words.
    type Row: Copy;
    /// Four f64.
    type Wide: Copy;
    /// Rows of sums that the registers of the processor have room for beside the factors: 8 or 16.
    const SUMS: usize = 8;

    /// Runs a loop with these steps.
    fn compiled<W: Work>(&self, work: W) -> W::Output;
    /// A row from its even columns and its odd ones.
    fn row(&self, even: [u32; 4], odd: [u32; 4]) -> Self::Row;
    /// The even columns and the odd ones.
    fn columns(&self, row: Self::Row) -> [[u32; 4]; 2];
    /// The values of eight f16 that lie side by side.
    fn from_halves(&self, words: [u32; 4]) -> [u32; 8];
    /// A row of f32 from eight f16 in the order of their columns.
    fn row_of_halves(&self, words: [u32; 4]) -> Self::Row;
    /// The same of bf16.
    fn row_of_bf16(&self, words: [u32; 4]) -> Self::Row;
    /// The opposite of [`Steps::row_of_halves`], rounded.
    fn to_halves(&self, row: Self::Row) -> [u32; 4];
    /// The values of eight bf16 that lie side by side.
    fn from_bf16(&self, words: [u32; 4]) -> [u32; 8];
    /// 16 signed bytes as pairs of i16.
    fn from_signed_bytes(&self, words: [u32; 4]) -> [u32; 8];
    /// Eight words that lie side by side.
    fn load(&self, words: &[u32; COLUMNS]) -> Self::Row;
    /// The opposite.
    fn words(&self, row: Self::Row) -> [u32; COLUMNS];
    /// One word in all columns.
    fn splat(&self, word: u32) -> Self::Row;
    /// `a * b + sum` in f32.
    fn add_float(&self, a: Self::Row, b: Self::Row, sum: Self::Row) -> Self::Row;
    /// The sum of two products of i16 and `sum`.
    fn add_pair(&self, a: Self::Row, b: Self::Row, sum: Self::Row) -> Self::Row;
    /// Bits that are set in both.
    fn and(&self, a: Self::Row, b: Self::Row) -> Self::Row;
    /// Bits that differ.
    fn xor(&self, a: Self::Row, b: Self::Row) -> Self::Row;
    /// How many bits of each word are set, and `sum`.
    fn add_bits(&self, bits: Self::Row, sum: Self::Row) -> Self::Row;
    /// f32 with one NaN.
    fn canonical(&self, row: Self::Row) -> Self::Row;
    /// Eight words of each column become rows.
    fn transpose(&self, columns: &[[u32; 8]; COLUMNS]) -> [[u32; COLUMNS]; 8];
    /// Eight f64 that lie side by side.
    fn wide_load(&self, values: &[f64; COLUMNS]) -> [Self::Wide; 2];
    /// The opposite.
    fn wide_columns(&self, row: [Self::Wide; 2]) -> [f64; COLUMNS];
    /// One f64 in all columns.
    fn wide_splat(&self, value: f64) -> Self::Wide;
    /// `a * b + sum` in f64.
    fn wide_add(&self, a: Self::Wide, b: Self::Wide, sum: Self::Wide) -> Self::Wide;
}

pub(super) struct Plain;

impl Steps for Plain {
    type Row = [u32; COLUMNS];
    type Wide = [f64; 4];

    fn compiled<W: Work>(&self, work: W) -> W::Output {
        work.run(self)
    }

    fn row(&self, even: [u32; 4], odd: [u32; 4]) -> Self::Row {
        std::array::from_fn(|n| if n < 4 { even[n] } else { odd[n - 4] })
    }

    fn columns(&self, row: Self::Row) -> [[u32; 4]; 2] {
        [0, 4].map(|first| std::array::from_fn(|n| row[first + n]))
    }

    fn from_halves(&self, words: [u32; 4]) -> [u32; 8] {
        std::array::from_fn(|n| {
            let half = words[n / 2] >> (n % 2 * 16) & 0xffff;
            eval::matrix_element(MatrixFmt::F16, half.into()) as u32
        })
    }

    fn row_of_halves(&self, words: [u32; 4]) -> Self::Row {
        let values = self.from_halves(words);
        std::array::from_fn(|n| values[n % 4 * 2 + n / 4])
    }

    fn row_of_bf16(&self, words: [u32; 4]) -> Self::Row {
        let values = self.from_bf16(words);
        std::array::from_fn(|n| values[n % 4 * 2 + n / 4])
    }

    fn to_halves(&self, row: Self::Row) -> [u32; 4] {
        let to_half = Convert::new(NumFmt::F32, NumFmt::F16);
        let halves = row.map(|x| eval::convert(&to_half, x.into()) as u32);
        std::array::from_fn(|n| halves[n] | halves[n + 4] << 16)
    }

    fn from_bf16(&self, words: [u32; 4]) -> [u32; 8] {
        std::array::from_fn(|n| words[n / 2] >> (n % 2 * 16) << 16)
    }

    fn from_signed_bytes(&self, words: [u32; 4]) -> [u32; 8] {
        let half = |n: usize| i16::from((words[n / 4] >> (n % 4 * 8)) as i8) as u16;
        std::array::from_fn(|n| u32::from(half(2 * n)) | u32::from(half(2 * n + 1)) << 16)
    }

    fn load(&self, words: &[u32; COLUMNS]) -> Self::Row {
        *words
    }

    fn words(&self, row: Self::Row) -> [u32; COLUMNS] {
        row
    }

    fn splat(&self, word: u32) -> Self::Row {
        [word; COLUMNS]
    }

    fn add_float(&self, a: Self::Row, b: Self::Row, sum: Self::Row) -> Self::Row {
        let [a, b, sum] = [a, b, sum].map(|row| row.map(f32::from_bits));
        std::array::from_fn(|n| a[n].mul_add(b[n], sum[n]).to_bits())
    }

    fn add_pair(&self, a: Self::Row, b: Self::Row, sum: Self::Row) -> Self::Row {
        let halves = |word: u32| [word as i16, (word >> 16) as i16].map(i32::from);
        std::array::from_fn(|n| {
            let ([low, high], [b_low, b_high]) = (halves(a[n]), halves(b[n]));
            sum[n].wrapping_add((low * b_low + high * b_high) as u32)
        })
    }

    fn and(&self, a: Self::Row, b: Self::Row) -> Self::Row {
        std::array::from_fn(|n| a[n] & b[n])
    }

    fn xor(&self, a: Self::Row, b: Self::Row) -> Self::Row {
        std::array::from_fn(|n| a[n] ^ b[n])
    }

    fn add_bits(&self, bits: Self::Row, sum: Self::Row) -> Self::Row {
        std::array::from_fn(|n| sum[n] + bits[n].count_ones())
    }

    fn canonical(&self, row: Self::Row) -> Self::Row {
        row.map(|x| match f32::from_bits(x).is_nan() {
            true => CANONICAL_NAN,
            false => x,
        })
    }

    fn transpose(&self, columns: &[[u32; 8]; COLUMNS]) -> [[u32; COLUMNS]; 8] {
        std::array::from_fn(|k| columns.map(|column| column[k]))
    }

    fn wide_load(&self, values: &[f64; COLUMNS]) -> [[f64; 4]; 2] {
        [0, 4].map(|first| std::array::from_fn(|n| values[first + n]))
    }

    fn wide_columns(&self, [low, high]: [[f64; 4]; 2]) -> [f64; COLUMNS] {
        std::array::from_fn(|n| if n < 4 { low[n] } else { high[n - 4] })
    }

    fn wide_splat(&self, value: f64) -> [f64; 4] {
        [value; 4]
    }

    fn wide_add(&self, a: [f64; 4], b: [f64; 4], sum: [f64; 4]) -> [f64; 4] {
        std::array::from_fn(|n| a[n].mul_add(b[n], sum[n]))
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use avx2::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use core::arch::x86_64::{
        __m128i, __m256d, __m256i, _CMP_UNORD_Q, _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128,
        _mm_setr_epi8, _mm256_add_epi8, _mm256_add_epi32, _mm256_and_si256, _mm256_blendv_ps,
        _mm256_broadcastsi128_si256, _mm256_castps_si256, _mm256_castsi256_ps, _mm256_cmp_ps,
        _mm256_cvtepi8_epi16, _mm256_cvtepu16_epi32, _mm256_cvtph_ps, _mm256_cvtps_ph,
        _mm256_fmadd_pd, _mm256_fmadd_ps, _mm256_loadu_pd, _mm256_loadu_si256, _mm256_madd_epi16,
        _mm256_maddubs_epi16, _mm256_permute2x128_si256, _mm256_permutevar8x32_epi32,
        _mm256_set_m128i, _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_set1_pd,
        _mm256_setr_epi32, _mm256_shuffle_epi8, _mm256_slli_epi32, _mm256_sllv_epi32,
        _mm256_srli_epi32, _mm256_storeu_pd, _mm256_unpackhi_epi32, _mm256_unpackhi_epi64,
        _mm256_unpacklo_epi32, _mm256_unpacklo_epi64, _mm256_xor_si256,
    };

    use super::{CANONICAL_NAN, COLUMNS, Steps, Work};

    /// A processor with AVX2, FMA and F16C, whose registers have room for so many rows of sums.
    #[derive(Copy, Clone)]
    pub(in super::super) struct Vectors<const SUMS: usize>(());

    /// With 16 registers.
    pub(in super::super) type Avx2 = Vectors<8>;
    /// With 32 registers, which instructions of AVX-512 can name. Vectors still have 256 bits.
    pub(in super::super) type Avx512 = Vectors<16>;

    impl<const SUMS: usize> Vectors<SUMS> {
        /// If the processor has the instructions.
        pub(in super::super) fn detect() -> Option<Self> {
            let has_all = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
                && (SUMS == Avx2::SUMS
                    || is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl"));
            has_all.then_some(Vectors(()))
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

    #[target_feature(enable = "avx2,fma,f16c")]
    fn by_vectors<W: Work>(work: W, steps: &impl Steps) -> W::Output {
        work.run(steps)
    }

    #[target_feature(enable = "avx512f,avx512vl,avx2,fma,f16c")]
    fn with_32_registers<W: Work>(work: W, steps: &impl Steps) -> W::Output {
        work.run(steps)
    }

    // SAFETY of each block below: a `Vectors` is made only after the processor said that it has the
    // instructions.
    impl<const N: usize> Steps for Vectors<N> {
        type Row = __m256i;
        type Wide = __m256d;
        const SUMS: usize = N;

        fn compiled<W: Work>(&self, work: W) -> W::Output {
            // SAFETY: as above.
            unsafe {
                match N == Avx2::SUMS {
                    true => by_vectors(work, self),
                    false => with_32_registers(work, self),
                }
            }
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
        fn from_halves(&self, halves: [u32; 4]) -> [u32; 8] {
            // SAFETY: as above.
            words(unsafe { _mm256_cvtph_ps(load(&halves)) })
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
        fn row_of_bf16(&self, pairs: [u32; 4]) -> __m256i {
            // SAFETY: as above.
            unsafe {
                let pairs = _mm256_broadcastsi128_si256(load(&pairs));
                let up = _mm256_setr_epi32(16, 16, 16, 16, 0, 0, 0, 0);
                let high = _mm256_set1_epi32(0xffff_0000_u32 as i32);
                _mm256_and_si256(_mm256_sllv_epi32(pairs, up), high)
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
        fn from_bf16(&self, halves: [u32; 4]) -> [u32; 8] {
            // SAFETY: as above.
            words(unsafe { _mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(load(&halves))) })
        }

        #[inline(always)]
        fn from_signed_bytes(&self, bytes: [u32; 4]) -> [u32; 8] {
            // SAFETY: as above.
            words(unsafe { _mm256_cvtepi8_epi16(load(&bytes)) })
        }

        #[inline(always)]
        fn load(&self, words: &[u32; COLUMNS]) -> __m256i {
            // SAFETY: as above; the array has the size of what is loaded.
            unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
        }

        #[inline(always)]
        fn words(&self, row: __m256i) -> [u32; COLUMNS] {
            words(row)
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
        fn add_pair(&self, a: __m256i, b: __m256i, sum: __m256i) -> __m256i {
            // SAFETY: as above.
            unsafe { _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)) }
        }

        #[inline(always)]
        fn and(&self, a: __m256i, b: __m256i) -> __m256i {
            // SAFETY: as above.
            unsafe { _mm256_and_si256(a, b) }
        }

        #[inline(always)]
        fn xor(&self, a: __m256i, b: __m256i) -> __m256i {
            // SAFETY: as above.
            unsafe { _mm256_xor_si256(a, b) }
        }

        #[inline(always)]
        fn add_bits(&self, bits: __m256i, sum: __m256i) -> __m256i {
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
        fn transpose(&self, columns: &[[u32; 8]; COLUMNS]) -> [[u32; COLUMNS]; 8] {
            let mut halves = [[self.row([0; 4], [0; 4]); 4]; 2];
            for (columns, half) in columns.as_chunks::<4>().0.iter().zip(&mut halves) {
                *half = quarters(columns);
            }
            let [low, high] = halves;
            let mut rows = [[0; COLUMNS]; 8];
            let (first, last) = rows.split_at_mut(4);
            for n in 0..4 {
                // SAFETY: as above.
                unsafe {
                    first[n] = words(_mm256_permute2x128_si256::<0x20>(low[n], high[n]));
                    last[n] = words(_mm256_permute2x128_si256::<0x31>(low[n], high[n]));
                }
            }
            rows
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

    /// Of each half of eight words, a vector of the first word of the columns, the second and so
    /// on.
    #[inline(always)]
    fn quarters(columns: &[[u32; 8]; 4]) -> [__m256i; 4] {
        let [a, b, c, d] = columns;
        // SAFETY: only `Vectors` calls this; the arrays have the size of what is loaded.
        unsafe {
            let a = _mm256_loadu_si256(a.as_ptr().cast());
            let b = _mm256_loadu_si256(b.as_ptr().cast());
            let c = _mm256_loadu_si256(c.as_ptr().cast());
            let d = _mm256_loadu_si256(d.as_ptr().cast());
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
}
