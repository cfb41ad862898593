//! What the words of registers become in decoded factors.

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

/// Bytes that hold narrow floats, as f32.
///
/// Sign, exponent and fraction go where f16 has them. As its exponent has another bias, the value
/// is then too small by a power of two, subnormal numbers and zeros included.
#[derive(Copy, Clone)]
pub(super) struct NarrowFloats {
    /// Of each byte, the bit of the sign.
    sign: u8,
    /// How far up from there the sign of an f16 is, if the byte is its low one.
    sign_up: u32,
    /// The bits of exponent and fraction.
    magnitude: u8,
    magnitude_up: u32,
    /// How many powers of two the f16 is too small.
    scale: u32,
    /// Whether the largest magnitude is NaN, which it is not as an f16.
    has_nan: bool,
}

impl NarrowFloats {
    pub(super) const E4M3: NarrowFloats = NarrowFloats {
        has_nan: true,
        ..NarrowFloats::new(0x80, 0x7f, 7, 8)
    };
    pub(super) const E5M2: NarrowFloats = NarrowFloats::new(0x80, 0x7f, 8, 0);
    pub(super) const E3M2: NarrowFloats = NarrowFloats::new(0x20, 0x1f, 8, 12);
    pub(super) const E2M3: NarrowFloats = NarrowFloats::new(0x20, 0x1f, 7, 14);
    /// With two bits below the number.
    pub(super) const E2M1: NarrowFloats = NarrowFloats::new(0x20, 0x1c, 7, 14);
    /// Of two E2M1 in a byte, the low one and the high one.
    const PACKED_E2M1: [NarrowFloats; 2] = [
        NarrowFloats::new(0x08, 0x07, 9, 14),
        NarrowFloats::new(0x80, 0x70, 5, 14),
    ];

    const fn new(sign: u8, magnitude: u8, magnitude_up: u32, scale: u32) -> NarrowFloats {
        NarrowFloats {
            sign,
            sign_up: 15 - sign.trailing_zeros(),
            magnitude,
            magnitude_up,
            scale,
            has_nan: false,
        }
    }

    /// The f16 of bytes that are the low ones of halves, which may be too small.
    #[inline(always)]
    fn halves<B: Shuffles>(self, bytes: B::Vector, blocks: B) -> B::Vector {
        let of_halves = |half: u32| blocks.splat(half << 16 | half).as_ref()[0];
        let up = |words, bits| blocks.shift_left(words, blocks.splat(bits).as_ref()[0]);
        let sign = blocks.and(bytes, of_halves(self.sign.into()));
        let mut magnitude = blocks.and(bytes, of_halves(self.magnitude.into()));
        if self.has_nan {
            // One more than the largest is the least with the bit above it. With this bit, too, the
            // exponent is that of NaN.
            let next = blocks.add(magnitude, of_halves(1));
            let above = blocks.and(next, of_halves(u32::from(self.magnitude) + 1));
            magnitude = blocks.add(magnitude, above);
        }
        blocks.add(up(sign, self.sign_up), up(magnitude, self.magnitude_up))
    }
}

impl Expand<4> for NarrowFloats {
    #[inline(always)]
    fn expand<B: Shuffles>(self, words: B::Vector, blocks: B) -> [B::Vector; 4] {
        let scale = blocks.splat((127 + self.scale) << 23).as_ref()[0];
        // A sum with it leaves the signs of zeros.
        let zero = blocks.splat((-0.0_f32).to_bits()).as_ref()[0];
        let mut expanded = [words; 4];
        let pairs = blocks.split_bytes(words, false);
        for (pair, expanded) in pairs.into_iter().zip(expanded.as_chunks_mut::<2>().0) {
            *expanded = blocks.split_f16(self.halves(pair, blocks));
            for values in expanded {
                *values = blocks.add_float(*values, scale, zero);
            }
        }
        expanded
    }
}

/// Pairs of E2M1 in bytes, as f32.
#[derive(Copy, Clone)]
pub(super) struct FloatsOfNibbles;

impl Expand<8> for FloatsOfNibbles {
    #[inline(always)]
    fn expand<B: Shuffles>(self, words: B::Vector, blocks: B) -> [B::Vector; 8] {
        let mut expanded = [words; 8];
        for (n, of_nibble) in NarrowFloats::PACKED_E2M1.into_iter().enumerate() {
            let values = of_nibble.expand(words, blocks);
            for (pair, values) in expanded.as_chunks_mut::<2>().0.iter_mut().zip(values) {
                pair[n] = values;
            }
        }
        expanded
    }
}

fn nibbles(word: u32) -> [u8; 8] {
    std::array::from_fn(|n| (word >> (4 * n) & 0xf) as u8)
}
