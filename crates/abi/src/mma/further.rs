//! What some products have behind C: the metadata of a sparse A, and the factors of blocks. With
//! them decoded factors become those of a product that has nothing behind C.

use std::sync::LazyLock;

use ptxjit_ir::{Convert, Mma, NumFmt, eval};

use super::operands::{LARGEST_A, LARGEST_B, column_slot, stored_along_k, words_along_k};
use super::{COLUMNS, Words};

/// Factors of blocks with which every element is exact in f32, as is its product with an element
/// of the other matrix in the multiply-add: elements are zero or from 2^-16 to 2^16 large, and
/// both have a few bits. PTX ISA section 9.7.14.3, "Block Scaling".
const EXACT: std::ops::RangeInclusive<f32> = 2e-30..=2e30;

/// Room for the factors of one product.
#[repr(align(64))]
pub(super) struct Complete {
    a: [u32; LARGEST_A],
    b: [u32; LARGEST_B],
}

impl Complete {
    pub(super) const ZERO: Complete = Complete {
        a: [0; LARGEST_A],
        b: [0; LARGEST_B],
    };

    /// The factors of a product from decoded ones and what is behind C; `None` if f32 cannot hold
    /// them.
    #[inline(always)]
    pub(super) fn of<'a>(
        &'a mut self,
        mma: &Mma,
        a: &'a [u32],
        b: &'a [u32],
        further: &[Words],
    ) -> Option<(&'a [u32], &'a [u32])> {
        let k = words_along_k(mma);
        let room = &mut self.a[..mma.m * k];
        let mut is_copy = false;
        if let (Some(selector), [metadata, ..]) = (mma.selector, further) {
            spread(mma, selector, a, metadata, room);
            is_copy = true;
        }
        let (Some(scale), [.., of_a, of_b]) = (mma.scale, further) else {
            return Some((if is_copy { room } else { a }, b));
        };
        if !is_copy {
            room.copy_from_slice(&a[..mma.m * k]);
        }
        let words = k / scale.blocks;
        for (row, of_row) in room.chunks_exact_mut(k).enumerate() {
            let bytes = of_a[4 * (row % 8) + row / 8].to_le_bytes();
            for (of_block, byte) in of_row.chunks_exact_mut(words).zip(bytes) {
                let factor = factor(scale.fmt, byte)?;
                for element in of_block {
                    *element = times(*element, factor);
                }
            }
        }
        let rows = b.as_chunks::<COLUMNS>().0.chunks_exact(words);
        let to = self.b.as_chunks_mut::<COLUMNS>().0.chunks_exact_mut(words);
        for (block, (rows, to)) in rows.zip(to).take(scale.blocks).enumerate() {
            let mut factors = [0.0; COLUMNS];
            for column in 0..COLUMNS {
                let byte = of_b[4 * column].to_le_bytes()[block];
                factors[column_slot(column)] = factor(scale.fmt, byte)?;
            }
            for (row, to) in rows.iter().zip(to) {
                for ((to, &element), factor) in to.iter_mut().zip(row).zip(factors) {
                    *to = times(element, factor);
                }
            }
        }
        Some((room, &self.b))
    }
}

fn times(element: u32, factor: f32) -> u32 {
    (f32::from_bits(element) * factor).to_bits()
}

/// A factor, if it is one of [`EXACT`], zero or NaN.
fn factor(fmt: NumFmt, byte: u8) -> Option<f32> {
    static TABLES: LazyLock<[[f32; 256]; 2]> = LazyLock::new(|| {
        [NumFmt::Ue8m0, NumFmt::E4m3].map(|fmt| {
            let to_single = Convert::new(fmt, NumFmt::F32);
            std::array::from_fn(
                |byte| f32::from_bits(eval::convert(&to_single, byte as u64) as u32),
            )
        })
    });
    // E4M3 has no sign here.
    let factor = match fmt {
        NumFmt::E4m3 => TABLES[1][usize::from(byte & 0x7f)],
        _ => TABLES[0][usize::from(byte)],
    };
    (factor == 0.0 || factor.is_nan() || EXACT.contains(&factor)).then_some(factor)
}

/// A sparse A with its zeros. Two bits of metadata name one of four elements; of four pairs of
/// them, if elements have four bits; or one of two, if they have 32. PTX ISA section 9.7.14.6.1,
/// "Sparse matrix storage".
#[inline(always)]
fn spread(mma: &Mma, selector: u8, stored: &[u32], metadata: &Words, out: &mut [u32]) {
    out.fill(0);
    let (k, stored_k) = (words_along_k(mma), stored_along_k(mma));
    let rows = stored.chunks_exact(stored_k).zip(out.chunks_exact_mut(k));
    let chunk = mma.chunk();
    for (row, (from, to)) in rows.enumerate() {
        let mut codes = codes(mma, selector, row, metadata);
        match (chunk.whole, stored_k * chunk.whole / mma.k) {
            // One of two floats.
            (2, _) => {
                for (from, to) in from.iter().zip(to.as_chunks_mut::<2>().0) {
                    to[(codes >> 1 & 1) as usize] = *from;
                    codes >>= 4;
                }
            }
            // A word is two of four bytes, each in 16 bits.
            (_, 1) => {
                for (from, to) in from.iter().zip(to.as_chunks_mut::<2>().0) {
                    let [low, high] = places(codes);
                    let first = u64::from(from & 0xffff) << (16 * low);
                    let bits = first & !(0xffff << (16 * high));
                    let bits = bits | u64::from(from >> 16) << (16 * high);
                    *to = [bits as u32, (bits >> 32) as u32];
                    codes >>= 4;
                }
            }
            // Two of four floats, or two of four pairs of nibbles.
            (_, 2) => {
                let from = from.as_chunks::<2>().0;
                for (from, to) in from.iter().zip(to.as_chunks_mut::<4>().0) {
                    let [low, high] = places(codes);
                    to[low] = from[0];
                    to[high] = from[1];
                    codes >>= 4;
                }
            }
            // Two of four pairs of floats.
            _ => {
                let from = from.as_chunks::<4>().0;
                for (from, to) in from.iter().zip(to.as_chunks_mut::<8>().0) {
                    let [low, high] = places(codes);
                    let to = to.as_chunks_mut::<2>().0;
                    to[low] = [from[0], from[1]];
                    to[high] = [from[2], from[3]];
                    codes >>= 4;
                }
            }
        }
    }
}

/// The metadata of a row: four bits for each chunk, of which four lie side by side in any form.
fn codes(mma: &Mma, selector: u8, row: usize, metadata: &Words) -> u64 {
    let mut codes = 0;
    for chunk in (0..mma.k / mma.chunk().whole).step_by(4) {
        let (lane, first) = mma.place_of_metadata(selector, row, chunk);
        codes |= u64::from(metadata[lane] >> first & 0xffff) << (4 * chunk);
    }
    codes
}

/// What the first four bits of metadata name.
fn places(codes: u64) -> [usize; 2] {
    [codes & 3, codes >> 2 & 3].map(|place| place as usize)
}
