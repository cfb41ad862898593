//! Operations on blocks, in which the multiplying loops work: four rows of four words.
//!
//! A register of C or D has the even or the odd columns of eight rows, four words in each quad of
//! lanes ([`column_slot`](super::operands::column_slot)): two blocks side by side, which are loaded
//! and stored as they are. What they are multiplied with is a column of four words of A in all four
//! columns of a block, and four words of B in all four rows.

use ptxjit_ir::{Convert, MatrixFmt, NumFmt, eval};

use super::steps::{CANONICAL_NAN, Plain, Steps, Work};

/// Words of a block.
pub(super) const BLOCK: usize = 16;

/// Operations of a processor on blocks, word by word unless something else is said.
pub(super) trait Blocks: Copy {
    /// Four rows of four words.
    type Block: Copy;
    /// Blocks of sums that the registers of the processor have room for beside the factors.
    const ROOM: usize;
    /// Whether [`Blocks::add_bf16`] and [`Blocks::add_bytes`] are one instruction each.
    const HAS_DOTS: bool;

    /// Runs a loop with these steps.
    fn compiled<W: Work>(self, work: W, steps: &impl Steps) -> W::Output;
    /// Words that lie side by side, row by row.
    fn load(self, words: &[u32; BLOCK]) -> Self::Block;
    /// The opposite.
    fn store(self, block: Self::Block, to: &mut [u32; BLOCK]);
    /// One word everywhere.
    fn splat(self, word: u32) -> Self::Block;
    /// Four words in each row.
    fn rows(self, words: &[u32; 4]) -> Self::Block;
    /// The word that each row has in one column, in all columns.
    fn column(self, block: Self::Block, column: usize) -> Self::Block;
    /// `a * b + sum` in f32.
    fn add_float(self, a: Self::Block, b: Self::Block, sum: Self::Block) -> Self::Block;
    /// `a * b + sum` of the high halves as bf16, then of the low ones, where no factor and no sum
    /// is subnormal.
    fn add_bf16(self, a: Self::Block, b: Self::Block, sum: Self::Block) -> Self::Block;
    /// The high halves of words as bf16 in f32, and the low ones.
    fn split_bf16(self, block: Self::Block) -> [Self::Block; 2];
    /// The sum of two products of i16 and `sum`.
    fn add_pair(self, a: Self::Block, b: Self::Block, sum: Self::Block) -> Self::Block;
    /// The sum of the four products of unsigned bytes of `a` and signed ones of `b`, and `sum`.
    fn add_bytes(self, a: Self::Block, b: Self::Block, sum: Self::Block) -> Self::Block;
    /// How many bits of each word are set, and `sum`.
    fn add_bits(self, bits: Self::Block, sum: Self::Block) -> Self::Block;
    /// Bits that are set in both.
    fn and(self, a: Self::Block, b: Self::Block) -> Self::Block;
    /// Bits that differ.
    fn xor(self, a: Self::Block, b: Self::Block) -> Self::Block;
    /// The sum of integers.
    fn add(self, a: Self::Block, b: Self::Block) -> Self::Block;
    /// The sum of signed integers, or the largest or smallest one.
    fn add_saturating(self, a: Self::Block, b: Self::Block) -> Self::Block;
    /// The difference of integers.
    fn subtract(self, a: Self::Block, b: Self::Block) -> Self::Block;
    /// f32 with one NaN.
    fn canonical(self, block: Self::Block) -> Self::Block;
    /// The values of the low halves of words as f16, and of the high ones.
    fn from_halves(self, block: Self::Block) -> [Self::Block; 2];
    /// The opposite, rounded.
    fn to_halves(self, low_and_high: [Self::Block; 2]) -> Self::Block;
    /// The least of the halves of `least` and of the magnitudes of bf16, which are their bits
    /// without the sign, times two, less one: zero is the greatest.
    fn least_bf16(self, block: Self::Block, least: Self::Block) -> Self::Block;
    /// Whether a half is less than a bound.
    fn is_half_below(self, halves: Self::Block, bound: u16) -> bool;
    /// As [`Blocks::least_bf16`], of words that are f32.
    fn least_float(self, block: Self::Block, least: Self::Block) -> Self::Block;
    /// Whether a word is less than a bound.
    fn is_word_below(self, words: Self::Block, bound: u32) -> bool;
}

impl<const DOTS: bool> Blocks for Plain<DOTS> {
    type Block = [u32; BLOCK];
    const ROOM: usize = 4;
    const HAS_DOTS: bool = DOTS;

    fn compiled<W: Work>(self, work: W, steps: &impl Steps) -> W::Output {
        work.run(steps)
    }

    fn load(self, words: &[u32; BLOCK]) -> Self::Block {
        *words
    }

    fn store(self, block: Self::Block, to: &mut [u32; BLOCK]) {
        *to = block;
    }

    fn splat(self, word: u32) -> Self::Block {
        [word; BLOCK]
    }

    fn rows(self, words: &[u32; 4]) -> Self::Block {
        std::array::from_fn(|n| words[n % 4])
    }

    fn column(self, block: Self::Block, column: usize) -> Self::Block {
        std::array::from_fn(|n| block[n / 4 * 4 + column])
    }

    fn add_float(self, a: Self::Block, b: Self::Block, sum: Self::Block) -> Self::Block {
        let [a, b, sum] = [a, b, sum].map(|block| block.map(f32::from_bits));
        std::array::from_fn(|n| a[n].mul_add(b[n], sum[n]).to_bits())
    }

    fn add_bf16(self, a: Self::Block, b: Self::Block, sum: Self::Block) -> Self::Block {
        let ([a_high, a_low], [b_high, b_low]) = (self.split_bf16(a), self.split_bf16(b));
        self.add_float(a_low, b_low, self.add_float(a_high, b_high, sum))
    }

    fn split_bf16(self, block: Self::Block) -> [Self::Block; 2] {
        [
            block.map(|word| word & 0xffff_0000),
            block.map(|word| word << 16),
        ]
    }

    fn add_pair(self, a: Self::Block, b: Self::Block, sum: Self::Block) -> Self::Block {
        let halves = |word: u32| [word as i16, (word >> 16) as i16].map(i32::from);
        std::array::from_fn(|n| {
            let ([low, high], [b_low, b_high]) = (halves(a[n]), halves(b[n]));
            sum[n].wrapping_add((low * b_low + high * b_high) as u32)
        })
    }

    fn add_bytes(self, a: Self::Block, b: Self::Block, sum: Self::Block) -> Self::Block {
        std::array::from_fn(|n| {
            let pairs = a[n].to_le_bytes().into_iter().zip(b[n].to_le_bytes());
            let products = pairs.map(|(a, b)| i32::from(a) * i32::from(b as i8));
            sum[n].wrapping_add(products.sum::<i32>() as u32)
        })
    }

    fn add_bits(self, bits: Self::Block, sum: Self::Block) -> Self::Block {
        std::array::from_fn(|n| sum[n] + bits[n].count_ones())
    }

    fn and(self, a: Self::Block, b: Self::Block) -> Self::Block {
        std::array::from_fn(|n| a[n] & b[n])
    }

    fn xor(self, a: Self::Block, b: Self::Block) -> Self::Block {
        std::array::from_fn(|n| a[n] ^ b[n])
    }

    fn add(self, a: Self::Block, b: Self::Block) -> Self::Block {
        std::array::from_fn(|n| a[n].wrapping_add(b[n]))
    }

    fn add_saturating(self, a: Self::Block, b: Self::Block) -> Self::Block {
        std::array::from_fn(|n| (a[n] as i32).saturating_add(b[n] as i32) as u32)
    }

    fn subtract(self, a: Self::Block, b: Self::Block) -> Self::Block {
        std::array::from_fn(|n| a[n].wrapping_sub(b[n]))
    }

    fn canonical(self, block: Self::Block) -> Self::Block {
        block.map(|x| match f32::from_bits(x).is_nan() {
            true => CANONICAL_NAN,
            false => x,
        })
    }

    fn from_halves(self, block: Self::Block) -> [Self::Block; 2] {
        [0, 16].map(|shift| {
            block.map(|word| {
                let half = word >> shift & 0xffff;
                eval::matrix_element(MatrixFmt::F16, half.into()) as u32
            })
        })
    }

    fn to_halves(self, low_and_high: [Self::Block; 2]) -> Self::Block {
        let to_half = Convert::new(NumFmt::F32, NumFmt::F16);
        let [low, high] =
            low_and_high.map(|block| block.map(|x| eval::convert(&to_half, x.into()) as u32));
        std::array::from_fn(|n| low[n] | high[n] << 16)
    }

    fn least_bf16(self, block: Self::Block, least: Self::Block) -> Self::Block {
        std::array::from_fn(|n| {
            let [low, high] = [0, 16].map(|shift| {
                let magnitude = ((block[n] >> shift) as u16) << 1;
                magnitude.wrapping_sub(1).min((least[n] >> shift) as u16)
            });
            u32::from(low) | u32::from(high) << 16
        })
    }

    fn is_half_below(self, halves: Self::Block, bound: u16) -> bool {
        (halves.iter()).any(|&word| [word, word >> 16].iter().any(|&half| (half as u16) < bound))
    }

    fn least_float(self, block: Self::Block, least: Self::Block) -> Self::Block {
        std::array::from_fn(|n| (block[n] << 1).wrapping_sub(1).min(least[n]))
    }

    fn is_word_below(self, words: Self::Block, bound: u32) -> bool {
        words.iter().any(|&word| word < bound)
    }
}

#[cfg(target_arch = "x86_64")]
mod vectors256;
#[cfg(target_arch = "x86_64")]
mod vectors512;
#[cfg(target_arch = "x86_64")]
pub(super) use {vectors256::Blocks256, vectors512::Blocks512};
