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

/// What vectors of rows of eight halves become.
pub(super) trait OfRows<const N: usize>: Copy {
    /// The rows of B that each vector becomes.
    fn rows<B: Shuffles>(self, halves: B::Vector, blocks: B) -> [B::Vector; N];
}

/// Each row becomes one of B.
#[derive(Copy, Clone)]
pub(super) struct Single<E>(pub(super) E);

impl<E: Expand<2>> OfRows<2> for Single<E> {
    #[inline(always)]
    fn rows<B: Shuffles>(self, halves: B::Vector, blocks: B) -> [B::Vector; 2] {
        // The even columns of each row, and the odd ones.
        let Single(expand) = self;
        blocks.interleave_quads(expand.expand(halves, blocks))
    }
}

/// Two rows become one of pairs of bf16.
#[derive(Copy, Clone)]
pub(super) struct Paired;

impl OfRows<1> for Paired {
    #[inline(always)]
    fn rows<B: Shuffles>(self, halves: B::Vector, blocks: B) -> [B::Vector; 1] {
        [blocks.pairs_of_rows(halves)]
    }
}

/// Decodes B, of which four lanes hold a row of elements of 16 bits.
pub(super) struct FillRows<'a, R, const N: usize> {
    pub(super) of_rows: R,
    pub(super) encoded: Encoded<'a>,
    /// Each factor's words, which follow those of the factor before.
    pub(super) out: &'a mut [u32],
    /// Words of a factor.
    pub(super) words: usize,
}

impl<R: OfRows<N>, const N: usize> Work for FillRows<'_, R, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Steps>(self, steps: &S) {
        let (blocks, words) = (steps.blocks(), COLUMNS * rows_of::<S>());
        for (factor, out) in self.out.chunks_exact_mut(self.words).enumerate() {
            for n in 0..self.encoded.n_registers() {
                let register = blocks.load_words(self.encoded.register(factor, n));
                let out = &mut out[4 * N * COLUMNS * n..][..4 * N * COLUMNS];
                for (n, &halves) in register.as_ref().iter().enumerate() {
                    let vectors = self.of_rows.rows(halves, blocks);
                    for (v, &rows) in vectors.iter().enumerate() {
                        blocks.store_rows(rows, &mut out[(N * n + v) * words..], COLUMNS);
                    }
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
