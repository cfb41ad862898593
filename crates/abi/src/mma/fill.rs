//! Where the words of registers go in decoded factors.

use super::COLUMNS;
use super::blocks::Blocks;
use super::expand::Expand;
use super::operands::Encoded;
use super::shuffles::Shuffles;
use super::steps::{Steps, Work};

/// Decodes A, of which four lanes hold words along K of one row.
pub(super) struct FillA<'a, E, const N: usize> {
    pub(super) expand: E,
    pub(super) encoded: Encoded<'a>,
    /// Each factor's words, which follow those of the factor before.
    pub(super) out: &'a mut [u32],
    pub(super) m: usize,
    /// Words of a row.
    pub(super) k: usize,
    /// Whether A is kept by rows.
    pub(super) is_by_rows: bool,
}

impl<E: Expand<N>, const N: usize> Work for FillA<'_, E, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Steps>(self, steps: &S) {
        let (blocks, k) = (steps.blocks(), self.k);
        let eights = self.m / 8;
        for (factor, out) in self.out.chunks_exact_mut(self.m * k).enumerate() {
            for n in 0..self.encoded.n_registers() {
                // Registers side by side hold the same columns of different rows.
                let (first_row, column) = (n % eights * 8, n / eights * 4 * N);
                let quads = blocks.load_words(self.encoded.register(factor, n));
                for (n, &quads) in quads.as_ref().iter().enumerate() {
                    let row = first_row + n * S::Blocks::QUADS;
                    let along_k = along_k(self.expand.expand(quads, blocks), blocks);
                    for (n, &quads) in along_k.iter().enumerate() {
                        let column = column + 4 * n;
                        let (at, stride) = match self.is_by_rows {
                            true => (row * k + column, k),
                            false => (row / 4 * 4 * k + 4 * column + row % 4 * 4, 4),
                        };
                        blocks.store_quads(quads, &mut out[at..], stride);
                    }
                }
            }
        }
    }
}

/// Decodes B, of which four lanes hold words along K of one column.
pub(super) struct FillColumns<'a, E, const N: usize> {
    pub(super) expand: E,
    pub(super) encoded: Encoded<'a>,
    /// Each factor's words, which follow those of the factor before.
    pub(super) out: &'a mut [u32],
    /// Words of a factor.
    pub(super) words: usize,
}

impl<E: Expand<N>, const N: usize> Work for FillColumns<'_, E, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Steps>(self, steps: &S) {
        let blocks = steps.blocks();
        for (factor, out) in self.out.chunks_exact_mut(self.words).enumerate() {
            for n in 0..self.encoded.n_registers() {
                let register = blocks.load_words(self.encoded.register(factor, n));
                let out = &mut out[4 * N * COLUMNS * n..];
                let rows = blocks.rows_of_columns(register);
                for (n, &rows) in rows.as_ref().iter().enumerate() {
                    let out = &mut out[n * rows_of::<S>() * N * COLUMNS..];
                    let expanded = self.expand.expand(rows, blocks);
                    for (n, &rows) in expanded.iter().enumerate() {
                        blocks.store_rows(rows, &mut out[n * COLUMNS..], N * COLUMNS);
                    }
                }
            }
        }
    }
}

/// Decodes B, of which four lanes hold a row of elements of 16 bits.
pub(super) struct FillRows<'a, E> {
    pub(super) expand: E,
    pub(super) encoded: Encoded<'a>,
    /// Each factor's words, which follow those of the factor before.
    pub(super) out: &'a mut [u32],
    /// Words of a factor.
    pub(super) words: usize,
}

impl<E: Expand<2>> Work for FillRows<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Steps>(self, steps: &S) {
        let (blocks, words) = (steps.blocks(), COLUMNS * rows_of::<S>());
        for (factor, out) in self.out.chunks_exact_mut(self.words).enumerate() {
            for n in 0..self.encoded.n_registers() {
                let register = blocks.load_words(self.encoded.register(factor, n));
                let out = &mut out[8 * COLUMNS * n..][..8 * COLUMNS];
                for (n, &rows) in register.as_ref().iter().enumerate() {
                    // The even columns of each row, and the odd ones.
                    let columns = self.expand.expand(rows, blocks);
                    let [first, second] = blocks.interleave_quads(columns);
                    blocks.store_rows(first, &mut out[2 * n * words..], COLUMNS);
                    blocks.store_rows(second, &mut out[(2 * n + 1) * words..], COLUMNS);
                }
            }
        }
    }
}

/// As [`FillRows`] for pairs of bf16, which are in two rows.
pub(super) struct FillPairsOfRows<'a> {
    pub(super) encoded: Encoded<'a>,
    /// Each factor's words, which follow those of the factor before.
    pub(super) out: &'a mut [u32],
    /// Words of a factor.
    pub(super) words: usize,
}

impl Work for FillPairsOfRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Steps>(self, steps: &S) {
        let (blocks, words) = (steps.blocks(), COLUMNS * rows_of::<S>());
        for (factor, out) in self.out.chunks_exact_mut(self.words).enumerate() {
            for n in 0..self.encoded.n_registers() {
                let register = blocks.load_words(self.encoded.register(factor, n));
                let out = &mut out[4 * COLUMNS * n..][..4 * COLUMNS];
                for (n, &rows) in register.as_ref().iter().enumerate() {
                    let pairs = blocks.pairs_of_rows(rows);
                    blocks.store_rows(pairs, &mut out[n * words..], COLUMNS);
                }
            }
        }
    }
}

/// Rows of eight columns in a vector.
const fn rows_of<S: Steps>() -> usize {
    S::Blocks::QUADS / 2
}

/// From the words that each word became: vectors with the first four of each quad, the next four
/// and so on.
#[inline(always)]
fn along_k<B: Shuffles, const N: usize>(mut expanded: [B::Vector; N], blocks: B) -> [B::Vector; N] {
    if N == 2 {
        for both in expanded.as_chunks_mut::<2>().0 {
            *both = blocks.interleave(*both);
        }
    }
    for four in expanded.as_chunks_mut::<4>().0 {
        *four = blocks.transpose(*four);
    }
    if N == 8 {
        let halves = expanded;
        for (n, quads) in expanded.iter_mut().enumerate() {
            *quads = halves[n % 2 * 4 + n / 2];
        }
    }
    expanded
}
