//! The steps of a product for which processors have instructions of their own: in plain code, and
//! with AVX2, FMA and F16C. The multiplying loops have theirs in [`blocks`](super::blocks).

use ptxjit_ir::{Convert, MatrixFmt, NumFmt, eval};

use super::COLUMNS;
use super::blocks::Blocks;
use super::shuffles::Shuffles;

/// What stands for every NaN in a sum.
pub(super) const CANONICAL_NAN: u32 = 0x7fff_ffff;

/// A loop over steps, compiled as a function of its own for the instructions of the processor: one
/// function with the loops of all forms takes minutes to compile.
pub(super) trait Work {
    /// What it gives.
    type Output;

    /// Runs it. Implementations are always inlined, since steps are compiled with instructions
    /// that functions around them need not have.
    fn run<S: Steps>(self, steps: &S) -> Self::Output;
}

/// Operations on rows of eight words, whose columns stand in the order of
/// [`column_slot`](super::operands::column_slot).
pub(super) trait Steps: Sized {
    /// Eight words.
    type Row: Copy;
    /// Four f64.
    type Wide: Copy;
    /// Operations on blocks.
    type Blocks: Shuffles;

    /// Operations on blocks.
    fn blocks(&self) -> Self::Blocks;
    /// Runs a loop with these steps.
    fn compiled<W: Work>(&self, work: W) -> W::Output {
        self.blocks().compiled(work, self)
    }
    /// A row from its even columns and its odd ones.
    fn row(&self, even: [u32; 4], odd: [u32; 4]) -> Self::Row;
    /// The even columns and the odd ones.
    fn columns(&self, row: Self::Row) -> [[u32; 4]; 2];
    /// A row of f32 from eight f16 in the order of their columns.
    fn row_of_halves(&self, words: [u32; 4]) -> Self::Row;
    /// The opposite of [`Steps::row_of_halves`], rounded.
    fn to_halves(&self, row: Self::Row) -> [u32; 4];
    /// Eight words that lie side by side.
    fn load(&self, words: &[u32; COLUMNS]) -> Self::Row;
    /// One word in all columns.
    fn splat(&self, word: u32) -> Self::Row;
    /// `a * b + sum` in f32.
    fn add_float(&self, a: Self::Row, b: Self::Row, sum: Self::Row) -> Self::Row;
    /// f32 with one NaN.
    fn canonical(&self, row: Self::Row) -> Self::Row;
    /// Eight f64 that lie side by side.
    fn wide_load(&self, values: &[f64; COLUMNS]) -> [Self::Wide; 2];
    /// The opposite.
    fn wide_columns(&self, row: [Self::Wide; 2]) -> [f64; COLUMNS];
    /// One f64 in all columns.
    fn wide_splat(&self, value: f64) -> Self::Wide;
    /// `a * b + sum` in f64.
    fn wide_add(&self, a: Self::Wide, b: Self::Wide, sum: Self::Wide) -> Self::Wide;
}

/// Code for any processor, and if `DOTS`, what is done where processors have dot products.
#[derive(Copy, Clone)]
pub(super) struct Plain<const DOTS: bool = false>;

impl<const DOTS: bool> Steps for Plain<DOTS> {
    type Row = [u32; COLUMNS];
    type Wide = [f64; 4];
    type Blocks = Self;

    fn blocks(&self) -> Self {
        *self
    }

    fn row(&self, even: [u32; 4], odd: [u32; 4]) -> Self::Row {
        std::array::from_fn(|n| if n < 4 { even[n] } else { odd[n - 4] })
    }

    fn columns(&self, row: Self::Row) -> [[u32; 4]; 2] {
        [0, 4].map(|first| std::array::from_fn(|n| row[first + n]))
    }

    fn row_of_halves(&self, words: [u32; 4]) -> Self::Row {
        std::array::from_fn(|n| {
            let half = words[n % 4] >> (n / 4 * 16) & 0xffff;
            eval::matrix_element(MatrixFmt::F16, half.into()) as u32
        })
    }

    fn to_halves(&self, row: Self::Row) -> [u32; 4] {
        let to_half = Convert::new(NumFmt::F32, NumFmt::F16);
        let halves = row.map(|x| eval::convert(&to_half, x.into()) as u32);
        std::array::from_fn(|n| halves[n] | halves[n + 4] << 16)
    }

    fn load(&self, words: &[u32; COLUMNS]) -> Self::Row {
        *words
    }

    fn splat(&self, word: u32) -> Self::Row {
        [word; COLUMNS]
    }

    fn add_float(&self, a: Self::Row, b: Self::Row, sum: Self::Row) -> Self::Row {
        let [a, b, sum] = [a, b, sum].map(|row| row.map(f32::from_bits));
        std::array::from_fn(|n| a[n].mul_add(b[n], sum[n]).to_bits())
    }

    fn canonical(&self, row: Self::Row) -> Self::Row {
        row.map(|x| match f32::from_bits(x).is_nan() {
            true => CANONICAL_NAN,
            false => x,
        })
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
mod vectors;
#[cfg(target_arch = "x86_64")]
pub(super) use vectors::{Avx2, Avx512, ByteDots, Dots, Processor};
