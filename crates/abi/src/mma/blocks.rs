//! The operations of the multiplying loops, on four rows of eight columns.
//!
//! A register of C or D has the even or the odd columns of eight rows, four words in each quad of
//! lanes ([`column_slot`](super::operands::column_slot)). A block of four rows is half of it.
//! Vectors of 256 bits are single rows of both; those of 512 bits are blocks as they lie in the
//! register.

use ptxjit_ir::{Convert, MatrixFmt, NumFmt, eval};

use super::COLUMNS;
use super::steps::{CANONICAL_NAN, Plain, Steps, Work};

/// Four rows of four words.
pub(super) type Block = [u32; BLOCK];

/// Words of a block.
pub(super) const BLOCK: usize = 16;

/// The words of a register.
pub(super) type Register = [u32; 32];

/// Operations of a processor, word by word unless something else is said.
pub(super) trait Blocks: Copy {
    /// Words that an instruction changes.
    type Vector: Copy;
    /// Four rows of eight columns: the vectors of single rows, or of the even columns and the odd
    /// ones.
    type Rows: Copy + AsRef<[Self::Vector]> + AsMut<[Self::Vector]>;
    /// What of A is multiplied with the vectors of rows, in their order; if there is one for all, a
    /// single one.
    type OfA: Copy + AsRef<[Self::Vector]>;
    /// The same of B.
    type OfB: Copy + AsRef<[Self::Vector]>;
    /// How often the registers of the processor have room for four rows of sums, beside the
    /// factors.
    const ROOM: usize;
    /// Whether A is taken by rows.
    const TAKES_ROWS: bool;
    /// Whether [`Blocks::add_bf16`] is one instruction, and as fast as two multiply-adds.
    const ADDS_BF16: bool;
    /// Whether [`Blocks::add_bytes`] is one instruction.
    const ADDS_BYTES: bool;

    /// Runs a loop with these steps.
    fn compiled<W: Work>(self, work: W, steps: &impl Steps) -> W::Output;
    /// One word everywhere.
    fn splat(self, word: u32) -> Self::Rows;
    /// The even columns and the odd ones.
    fn load(self, even: &Block, odd: &Block) -> Self::Rows;
    /// The opposite.
    fn store(self, rows: Self::Rows, even: &mut Block, odd: &mut Block);
    /// The values of pairs of f16, which are an even and an odd column.
    fn load_halves(self, pairs: &Block) -> Self::Rows;
    /// The opposite, rounded.
    fn store_halves(self, rows: Self::Rows, pairs: &mut Block);
    /// Words as they lie.
    fn load_words(self, words: &Register) -> Self::Rows;
    /// The opposite.
    fn store_words(self, words: Self::Rows, to: &mut Register);
    /// A column of four rows of A, which lie row by row if [`Blocks::TAKES_ROWS`], and else block
    /// by block.
    fn of_a<const K: usize>(self, rows: &[[u32; K]; 4], column: usize) -> Self::OfA;
    /// A row of B.
    fn of_b(self, row: &[u32; COLUMNS]) -> Self::OfB;
    /// `a * b + sum` in f32.
    fn add_float(self, a: Self::Vector, b: Self::Vector, sum: Self::Vector) -> Self::Vector;
    /// `a * b + sum` of the high halves as bf16, then of the low ones, where no factor and no sum
    /// is subnormal.
    fn add_bf16(self, a: Self::Vector, b: Self::Vector, sum: Self::Vector) -> Self::Vector;
    /// The high halves of words as bf16 in f32, and the low ones.
    fn split_bf16(self, words: Self::Vector) -> [Self::Vector; 2];
    /// The sum of two products of i16 and `sum`.
    fn add_pair(self, a: Self::Vector, b: Self::Vector, sum: Self::Vector) -> Self::Vector;
    /// The sum of the four products of unsigned bytes of `a` and signed ones of `b`, and `sum`.
    fn add_bytes(self, a: Self::Vector, b: Self::Vector, sum: Self::Vector) -> Self::Vector;
    /// How many bits of each word are set, and `sum`.
    fn add_bits(self, bits: Self::Vector, sum: Self::Vector) -> Self::Vector;
    /// Bits that are set in both.
    fn and(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Bits that differ.
    fn xor(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The sum of integers.
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The sum of signed integers, or the largest or smallest one.
    fn add_saturating(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The difference of integers.
    fn subtract(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// f32 with one NaN.
    fn canonical(self, words: Self::Vector) -> Self::Vector;
    /// The least of the halves of `least` and of the magnitudes of bf16, which are their bits
    /// without the sign, times two, less one: zero is the greatest.
    fn least_bf16(self, words: Self::Vector, least: Self::Vector) -> Self::Vector;
    /// Whether a half is less than a bound.
    fn is_half_below(self, halves: Self::Vector, bound: u16) -> bool;
    /// As [`Blocks::least_bf16`], of words that are f32.
    fn least_float(self, words: Self::Vector, least: Self::Vector) -> Self::Vector;
    /// Whether a word is less than a bound.
    fn is_word_below(self, words: Self::Vector, bound: u32) -> bool;
}

impl<const DOTS: bool> Blocks for Plain<DOTS> {
    type Vector = [u32; COLUMNS];
    type Rows = [Self::Vector; 4];
    type OfA = [Self::Vector; 4];
    type OfB = [Self::Vector; 1];
    const ROOM: usize = 2;
    const TAKES_ROWS: bool = true;
    const ADDS_BF16: bool = DOTS;
    const ADDS_BYTES: bool = DOTS;

    fn compiled<W: Work>(self, work: W, steps: &impl Steps) -> W::Output {
        work.run(steps)
    }

    fn splat(self, word: u32) -> Self::Rows {
        [[word; COLUMNS]; 4]
    }

    fn load(self, even: &Block, odd: &Block) -> Self::Rows {
        std::array::from_fn(|row| std::array::from_fn(|n| [even, odd][n / 4][4 * row + n % 4]))
    }

    fn store(self, rows: Self::Rows, even: &mut Block, odd: &mut Block) {
        for (row, words) in rows.iter().enumerate() {
            even[4 * row..][..4].copy_from_slice(&words[..4]);
            odd[4 * row..][..4].copy_from_slice(&words[4..]);
        }
    }

    fn load_halves(self, pairs: &Block) -> Self::Rows {
        let [even, odd] = [0, 16].map(|shift| {
            pairs.map(|word| {
                let half = word >> shift & 0xffff;
                eval::matrix_element(MatrixFmt::F16, half.into()) as u32
            })
        });
        self.load(&even, &odd)
    }

    fn store_halves(self, rows: Self::Rows, pairs: &mut Block) {
        let to_half = Convert::new(NumFmt::F32, NumFmt::F16);
        for (row, words) in rows.iter().enumerate() {
            let halves = words.map(|x| eval::convert(&to_half, x.into()) as u32);
            for n in 0..4 {
                pairs[4 * row + n] = halves[n] | halves[n + 4] << 16;
            }
        }
    }

    fn load_words(self, words: &Register) -> Self::Rows {
        std::array::from_fn(|row| words.as_chunks().0[row])
    }

    fn store_words(self, words: Self::Rows, to: &mut Register) {
        to.copy_from_slice(words.as_flattened());
    }

    fn of_a<const K: usize>(self, rows: &[[u32; K]; 4], column: usize) -> Self::OfA {
        rows.map(|row| [row[column]; COLUMNS])
    }

    fn of_b(self, row: &[u32; COLUMNS]) -> Self::OfB {
        [*row]
    }

    fn add_float(self, a: Self::Vector, b: Self::Vector, sum: Self::Vector) -> Self::Vector {
        let [a, b, sum] = [a, b, sum].map(|block| block.map(f32::from_bits));
        std::array::from_fn(|n| a[n].mul_add(b[n], sum[n]).to_bits())
    }

    fn add_bf16(self, a: Self::Vector, b: Self::Vector, sum: Self::Vector) -> Self::Vector {
        let ([a_high, a_low], [b_high, b_low]) = (self.split_bf16(a), self.split_bf16(b));
        self.add_float(a_low, b_low, self.add_float(a_high, b_high, sum))
    }

    fn split_bf16(self, words: Self::Vector) -> [Self::Vector; 2] {
        [
            words.map(|word| word & 0xffff_0000),
            words.map(|word| word << 16),
        ]
    }

    fn add_pair(self, a: Self::Vector, b: Self::Vector, sum: Self::Vector) -> Self::Vector {
        let halves = |word: u32| [word as i16, (word >> 16) as i16].map(i32::from);
        std::array::from_fn(|n| {
            let ([low, high], [b_low, b_high]) = (halves(a[n]), halves(b[n]));
            sum[n].wrapping_add((low * b_low + high * b_high) as u32)
        })
    }

    fn add_bytes(self, a: Self::Vector, b: Self::Vector, sum: Self::Vector) -> Self::Vector {
        std::array::from_fn(|n| {
            let pairs = a[n].to_le_bytes().into_iter().zip(b[n].to_le_bytes());
            let products = pairs.map(|(a, b)| i32::from(a) * i32::from(b as i8));
            sum[n].wrapping_add(products.sum::<i32>() as u32)
        })
    }

    fn add_bits(self, bits: Self::Vector, sum: Self::Vector) -> Self::Vector {
        std::array::from_fn(|n| sum[n] + bits[n].count_ones())
    }

    fn and(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        std::array::from_fn(|n| a[n] & b[n])
    }

    fn xor(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        std::array::from_fn(|n| a[n] ^ b[n])
    }

    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        std::array::from_fn(|n| a[n].wrapping_add(b[n]))
    }

    fn add_saturating(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        std::array::from_fn(|n| (a[n] as i32).saturating_add(b[n] as i32) as u32)
    }

    fn subtract(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        std::array::from_fn(|n| a[n].wrapping_sub(b[n]))
    }

    fn canonical(self, words: Self::Vector) -> Self::Vector {
        words.map(|x| match f32::from_bits(x).is_nan() {
            true => CANONICAL_NAN,
            false => x,
        })
    }

    fn least_bf16(self, words: Self::Vector, least: Self::Vector) -> Self::Vector {
        std::array::from_fn(|n| {
            let [low, high] = [0, 16].map(|shift| {
                let magnitude = ((words[n] >> shift) as u16) << 1;
                magnitude.wrapping_sub(1).min((least[n] >> shift) as u16)
            });
            u32::from(low) | u32::from(high) << 16
        })
    }

    fn is_half_below(self, halves: Self::Vector, bound: u16) -> bool {
        (halves.iter()).any(|&word| [word, word >> 16].iter().any(|&half| (half as u16) < bound))
    }

    fn least_float(self, words: Self::Vector, least: Self::Vector) -> Self::Vector {
        std::array::from_fn(|n| (words[n] << 1).wrapping_sub(1).min(least[n]))
    }

    fn is_word_below(self, words: Self::Vector, bound: u32) -> bool {
        words.iter().any(|&word| word < bound)
    }
}

#[cfg(target_arch = "x86_64")]
mod vectors256;
#[cfg(target_arch = "x86_64")]
mod vectors512;
#[cfg(target_arch = "x86_64")]
pub(super) use {vectors256::Blocks256, vectors512::Blocks512};
