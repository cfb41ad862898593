//! The operations that decode factors: words of a register change their format, their places, or
//! both.
//!
//! Vectors hold whole quads of lanes, each of them four words along K of a row of A or of a column
//! of B ([`Blocks`]).

use ptxjit_ir::{MatrixFmt, eval};

use super::COLUMNS;
use super::blocks::Blocks;
use super::steps::Plain;

/// Words of a vector at most.
const MOST_WORDS: usize = 16;

/// Operations of a processor on vectors of quads.
pub(super) trait Shuffles: Blocks {
    /// Quads of a vector. Two of them are a row of eight columns.
    const QUADS: usize;

    /// The words, and zeros behind them.
    fn to_words(self, vector: Self::Vector) -> [u32; MOST_WORDS];
    /// The opposite.
    fn from_words(self, words: &[u32; MOST_WORDS]) -> Self::Vector;
    /// The values of the f16 in the low halves, and of those in the high halves.
    fn split_f16(self, words: Self::Vector) -> [Self::Vector; 2];
    /// The two low bytes as a pair of i16, and the two high ones.
    fn split_bytes(self, words: Self::Vector, are_signed: bool) -> [Self::Vector; 2];
    /// Each word so many bits up.
    fn shift_left(self, words: Self::Vector, bits: Self::Vector) -> Self::Vector;
    /// The low half where the high one is, and the opposite.
    fn swap_halves(self, words: Self::Vector) -> Self::Vector;
    /// The words of each quad of the first vector and of the second one in turn: the first two of
    /// both, then the last two.
    fn interleave(self, quads: [Self::Vector; 2]) -> [Self::Vector; 2];
    /// The first words of each quad of the vectors, then the second ones and so on.
    fn transpose(self, quads: [Self::Vector; 4]) -> [Self::Vector; 4];
    /// From a register with a column of B in each quad, rows of eight columns in the order of
    /// [`column_slot`](super::operands::column_slot).
    fn rows_of_columns(self, register: Self::Rows) -> Self::Rows;
    /// Quads of the first vector and of the second one in turn.
    fn interleave_quads(self, vectors: [Self::Vector; 2]) -> [Self::Vector; 2];
    /// From rows of eight halves, of two rows each pairs of a column in the order of
    /// [`column_slot`](super::operands::column_slot), the first row's in the high half.
    fn pairs_of_rows(self, rows: Self::Vector) -> Self::Vector {
        let (from, mut to) = (self.to_words(rows), [0; MOST_WORDS]);
        let pairs = from.as_chunks::<COLUMNS>().0.iter();
        for (rows, to) in pairs.zip(to.as_chunks_mut::<COLUMNS>().0) {
            for n in 0..4 {
                let (first, second) = (rows[n], rows[4 + n]);
                to[n] = first << 16 | second & 0xffff;
                to[4 + n] = first & 0xffff_0000 | second >> 16;
            }
        }
        self.from_words(&to)
    }
    /// Stores quads, so many words apart.
    fn store_quads(self, quads: Self::Vector, to: &mut [u32], stride: usize);
    /// Stores rows of eight columns, so many words apart.
    fn store_rows(self, rows: Self::Vector, to: &mut [u32], stride: usize);

    /// What each word becomes, one by one.
    #[inline(always)]
    fn map<const N: usize>(
        self,
        words: Self::Vector,
        map: impl Fn(u32) -> [u32; N],
    ) -> [Self::Vector; N] {
        let (from, mut to) = (self.to_words(words), [[0; MOST_WORDS]; N]);
        for place in 0..4 * Self::QUADS {
            for (to, word) in to.iter_mut().zip(map(from[place])) {
                to[place] = word;
            }
        }
        let mut vectors = [words; N];
        for (vector, to) in vectors.iter_mut().zip(&to) {
            *vector = self.from_words(to);
        }
        vectors
    }
}

impl<const DOTS: bool> Shuffles for Plain<DOTS> {
    const QUADS: usize = 2;

    fn to_words(self, vector: Self::Vector) -> [u32; MOST_WORDS] {
        let mut words = [0; MOST_WORDS];
        words[..COLUMNS].copy_from_slice(&vector);
        words
    }

    fn from_words(self, words: &[u32; MOST_WORDS]) -> Self::Vector {
        *words.first_chunk().expect("a vector has fewer words")
    }

    fn split_f16(self, words: Self::Vector) -> [Self::Vector; 2] {
        let value = |half| eval::matrix_element(MatrixFmt::F16, half) as u32;
        [
            words.map(|word| value(u64::from(word & 0xffff))),
            words.map(|word| value(u64::from(word >> 16))),
        ]
    }

    fn split_bytes(self, words: Self::Vector, are_signed: bool) -> [Self::Vector; 2] {
        let half = |byte: u8| match are_signed {
            true => u32::from(i16::from(byte as i8) as u16),
            false => u32::from(byte),
        };
        let pair = |low, high| half(low) | half(high) << 16;
        let bytes = words.map(u32::to_le_bytes);
        [
            bytes.map(|bytes| pair(bytes[0], bytes[1])),
            bytes.map(|bytes| pair(bytes[2], bytes[3])),
        ]
    }

    fn shift_left(self, words: Self::Vector, bits: Self::Vector) -> Self::Vector {
        std::array::from_fn(|n| words[n] << bits[n])
    }

    fn swap_halves(self, words: Self::Vector) -> Self::Vector {
        words.map(|word| word.rotate_left(16))
    }

    fn interleave(self, quads: [Self::Vector; 2]) -> [Self::Vector; 2] {
        [0, 2].map(|first| std::array::from_fn(|n| quads[n % 2][n / 4 * 4 + first + n % 4 / 2]))
    }

    fn transpose(self, quads: [Self::Vector; 4]) -> [Self::Vector; 4] {
        std::array::from_fn(|word| std::array::from_fn(|n| quads[n % 4][n / 4 * 4 + word]))
    }

    fn rows_of_columns(self, register: Self::Rows) -> Self::Rows {
        self.transpose(register)
    }

    fn interleave_quads(self, vectors: [Self::Vector; 2]) -> [Self::Vector; 2] {
        [0, 4].map(|first| std::array::from_fn(|n| vectors[n / 4][first + n % 4]))
    }

    fn store_quads(self, quads: Self::Vector, to: &mut [u32], stride: usize) {
        to[..4].copy_from_slice(&quads[..4]);
        to[stride..][..4].copy_from_slice(&quads[4..]);
    }

    fn store_rows(self, rows: Self::Vector, to: &mut [u32], _: usize) {
        to[..COLUMNS].copy_from_slice(&rows);
    }
}

#[cfg(target_arch = "x86_64")]
mod vectors256;
#[cfg(target_arch = "x86_64")]
mod vectors512;
