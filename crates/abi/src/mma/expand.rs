//! What the words of registers become in decoded factors.

use std::sync::LazyLock;

use ptxjit_ir::{MatrixFmt, eval};

use super::shuffles::Shuffles;

/// A format of words.
pub(super) trait Expand<const N: usize>: Copy {
    /// The words that each word becomes, in their order along K.
    fn expand<B: Shuffles>(self, words: B::Vector, blocks: B) -> [B::Vector; N];
}

/// As they are.
#[derive(Copy, Clone)]
pub(super) struct Kept;

impl Expand<1> for Kept {
    #[inline(always)]
    fn expand<B: Shuffles>(self, words: B::Vector, _: B) -> [B::Vector; 1] {
        [words]
    }
}

/// Pairs with the first half of two in the high half.
#[derive(Copy, Clone)]
pub(super) struct FirstHigh;

impl Expand<1> for FirstHigh {
    #[inline(always)]
    fn expand<B: Shuffles>(self, words: B::Vector, blocks: B) -> [B::Vector; 1] {
        [blocks.swap_halves(words)]
    }
}

/// Signed bytes with their [`bias`](super::form::bias).
#[derive(Copy, Clone)]
pub(super) struct BiasedBytes;

impl Expand<1> for BiasedBytes {
    #[inline(always)]
    fn expand<B: Shuffles>(self, words: B::Vector, blocks: B) -> [B::Vector; 1] {
        [blocks.xor(words, blocks.splat(0x8080_8080).as_ref()[0])]
    }
}

/// tf32 as f32, without the bits that it does not have.
#[derive(Copy, Clone)]
pub(super) struct Tf32;

impl Expand<1> for Tf32 {
    #[inline(always)]
    fn expand<B: Shuffles>(self, words: B::Vector, blocks: B) -> [B::Vector; 1] {
        [blocks.and(words, blocks.splat(0xffff_e000).as_ref()[0])]
    }
}

/// f16 as f32.
#[derive(Copy, Clone)]
pub(super) struct F16;

impl Expand<2> for F16 {
    #[inline(always)]
    fn expand<B: Shuffles>(self, words: B::Vector, blocks: B) -> [B::Vector; 2] {
        blocks.split_f16(words)
    }
}

/// bf16 as f32.
#[derive(Copy, Clone)]
pub(super) struct Bf16;

impl Expand<2> for Bf16 {
    #[inline(always)]
    fn expand<B: Shuffles>(self, words: B::Vector, blocks: B) -> [B::Vector; 2] {
        let [high, low] = blocks.split_bf16(words);
        [low, high]
    }
}

/// Bytes as pairs of i16.
#[derive(Copy, Clone)]
pub(super) struct PairsOfBytes {
    pub(super) are_signed: bool,
}

impl Expand<2> for PairsOfBytes {
    #[inline(always)]
    fn expand<B: Shuffles>(self, words: B::Vector, blocks: B) -> [B::Vector; 2] {
        blocks.split_bytes(words, self.are_signed)
    }
}

/// Nibbles as pairs of i16. `SIGN` is the bit of the sign, if there is one.
#[derive(Copy, Clone)]
pub(super) struct PairsOfNibbles<const SIGN: i16>;

impl<const SIGN: i16> Expand<4> for PairsOfNibbles<SIGN> {
    #[inline(always)]
    fn expand<B: Shuffles>(self, words: B::Vector, blocks: B) -> [B::Vector; 4] {
        let value = |nibble: u8| u32::from(((i16::from(nibble) ^ SIGN) - SIGN) as u16);
        blocks.map(words, |word| {
            let nibbles = nibbles(word);
            std::array::from_fn(|n| value(nibbles[2 * n]) | value(nibbles[2 * n + 1]) << 16)
        })
    }
}

/// Nibbles as bytes. `SIGN` is the bit of the sign, if there is one, and `BIAS` what is too much.
#[derive(Copy, Clone)]
pub(super) struct BytesOfNibbles<const SIGN: u8, const BIAS: u8>;

impl<const SIGN: u8, const BIAS: u8> Expand<2> for BytesOfNibbles<SIGN, BIAS> {
    #[inline(always)]
    fn expand<B: Shuffles>(self, words: B::Vector, blocks: B) -> [B::Vector; 2] {
        let value = |nibble: u8| (nibble ^ SIGN).wrapping_sub(BIAS);
        blocks.map(words, |word| {
            let nibbles = nibbles(word).map(value);
            let [low, high] = [0, 4].map(|first| std::array::from_fn(|n| nibbles[first + n]));
            [low, high].map(u32::from_le_bytes)
        })
    }
}

/// Bytes as f32, by their values in a format.
#[derive(Copy, Clone)]
pub(super) struct FloatsOfBytes(&'static [u32; 256]);

impl FloatsOfBytes {
    pub(super) fn of(fmt: MatrixFmt) -> FloatsOfBytes {
        FloatsOfBytes(values(fmt))
    }
}

impl Expand<4> for FloatsOfBytes {
    #[inline(always)]
    fn expand<B: Shuffles>(self, words: B::Vector, blocks: B) -> [B::Vector; 4] {
        let FloatsOfBytes(values) = self;
        blocks.map(words, |word| {
            (word.to_le_bytes()).map(|byte| values[usize::from(byte)])
        })
    }
}

/// Nibbles as f32, by their values in `PackedE2m1`.
#[derive(Copy, Clone)]
pub(super) struct FloatsOfNibbles(&'static [u32; 256]);

impl FloatsOfNibbles {
    pub(super) fn new() -> FloatsOfNibbles {
        FloatsOfNibbles(values(MatrixFmt::PackedE2m1))
    }
}

impl Expand<8> for FloatsOfNibbles {
    #[inline(always)]
    fn expand<B: Shuffles>(self, words: B::Vector, blocks: B) -> [B::Vector; 8] {
        let FloatsOfNibbles(values) = self;
        blocks.map(words, |word| {
            nibbles(word).map(|nibble| values[usize::from(nibble)])
        })
    }
}

fn nibbles(word: u32) -> [u8; 8] {
    std::array::from_fn(|n| (word >> (4 * n) & 0xf) as u8)
}

/// The values of all bytes in a format, as f32.
fn values(fmt: MatrixFmt) -> &'static [u32; 256] {
    static TABLES: LazyLock<[[u32; 256]; 6]> = LazyLock::new(|| {
        FORMATS.map(|fmt| std::array::from_fn(|byte| eval::matrix_element(fmt, byte as u64) as u32))
    });
    const FORMATS: [MatrixFmt; 6] = [
        MatrixFmt::E4m3,
        MatrixFmt::E5m2,
        MatrixFmt::E3m2,
        MatrixFmt::E2m3,
        MatrixFmt::E2m1,
        MatrixFmt::PackedE2m1,
    ];
    let number = FORMATS.iter().position(|&other| other == fmt);
    &TABLES[number.unwrap_or(0)]
}
