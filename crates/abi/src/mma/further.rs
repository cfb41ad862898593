//! What some products have behind C: the metadata of a sparse A, and the factors of blocks. With
//! them decoded factors become those of a product that has nothing behind C, or, if A is sparse and
//! has floats, a list of its elements and the rows of B that they meet: what is not stored must not
//! meet an infinity of B.

use std::sync::LazyLock;

use ptxjit_ir::{Convert, Mma, NumFmt, SumFmt, eval};

use super::blocks::Blocks;
use super::form::Form;
use super::operands::{LARGEST_A, LARGEST_B, column_slot, to_blocks};
use super::steps::{Plain, Steps};
use super::{COLUMNS, Words};

/// Factors of blocks with which every element is exact in f32, as is its product with an element
/// of the other matrix in the multiply-add: elements are zero or from 2^-16 to 2^16 large, and
/// both have a few bits. PTX ISA section 9.7.14.3, "Block Scaling".
const EXACT: std::ops::RangeInclusive<f32> = 2e-30..=2e30;

/// The form of factors that have something behind C, which is that of all steps.
fn form(mma: &Mma) -> Form {
    Form::of::<Plain<false>>(mma)
}

/// An element of a sparse A.
#[derive(Copy, Clone)]
pub(super) struct Kept {
    /// Its value in f32.
    pub(super) element: u32,
    /// The row of B that it is multiplied with.
    pub(super) row: u32,
}

/// What is kept of eight rows of a sparse A: their first elements, their second ones and so on.
pub(super) type KeptRows = [Kept; 8];

/// A and B of a product.
#[derive(Copy, Clone)]
pub(super) enum Pair<'a> {
    Dense(&'a [u32], &'a [u32]),
    Sparse(&'a [KeptRows], &'a [u32]),
}

/// No form has more elements of a sparse A, for every eight of them.
const MOST_KEPT: usize = LARGEST_A / 2 / 8;

/// Room for the factors of one product.
#[repr(align(64))]
pub(super) struct Complete {
    a: [u32; LARGEST_A],
    /// The same by blocks, if the loops take that.
    blocks_of_a: [u32; LARGEST_A],
    kept: [KeptRows; MOST_KEPT],
    b: [u32; LARGEST_B],
}

impl Complete {
    pub(super) const ZERO: Complete = Complete {
        a: [0; LARGEST_A],
        blocks_of_a: [0; LARGEST_A],
        kept: [[Kept { element: 0, row: 0 }; 8]; MOST_KEPT],
        b: [0; LARGEST_B],
    };

    /// A of a product from the decoded one and what is behind C; false if f32 cannot hold it.
    #[inline(always)]
    pub(super) fn set_a<S: Steps>(
        &mut self,
        mma: &Mma,
        a: &[u32],
        further: &[Words],
        _: &S,
    ) -> bool {
        if let (Some(selector), [metadata, ..], SumFmt::S32) = (mma.selector, further, mma.c) {
            spread(mma, selector, a, metadata, &mut self.a);
            self.set_order::<S>(mma);
            return true;
        }
        let k = form(mma).stored_along_k(mma);
        let room = &mut self.a[..mma.m * k];
        room.copy_from_slice(&a[..mma.m * k]);
        if let (Some(scale), [.., of_a, _]) = (mma.scale, further) {
            let words = k / scale.blocks;
            for (row, of_row) in room.chunks_exact_mut(k).enumerate() {
                let bytes = of_a[4 * (row % 8) + row / 8].to_le_bytes();
                for (of_block, byte) in of_row.chunks_exact_mut(words).zip(bytes) {
                    let Some(factor) = factor(scale.fmt, byte) else {
                        return false;
                    };
                    for element in of_block {
                        *element = times(*element, factor);
                    }
                }
            }
        }
        if let (Some(selector), [metadata, ..]) = (mma.selector, further) {
            keep(mma, selector, room, metadata, &mut self.kept);
        } else {
            self.set_order::<S>(mma);
        }
        true
    }

    /// Puts a dense A into the order in which it is multiplied.
    fn set_order<S: Steps>(&mut self, mma: &Mma) {
        if !S::Blocks::TAKES_ROWS {
            let k = form(mma).words_along_k(mma);
            to_blocks(&self.a[..mma.m * k], k, &mut self.blocks_of_a);
        }
    }

    /// A that was set, and B of a product from the decoded one and what is behind C; `None` if f32
    /// cannot hold it.
    #[inline(always)]
    pub(super) fn with_b<'a, S: Steps>(
        &'a mut self,
        mma: &Mma,
        b: &'a [u32],
        further: &[Words],
        _: &S,
    ) -> Option<Pair<'a>> {
        let k = form(mma).words_along_k(mma);
        let mut b = b;
        if let (Some(scale), [.., of_b]) = (mma.scale, further) {
            let words = k / scale.blocks;
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
            b = &self.b;
        }
        if mma.selector.is_some() && mma.c != SumFmt::S32 {
            return Some(Pair::Sparse(
                &self.kept[..mma.m * form(mma).stored_along_k(mma) / 8],
                b,
            ));
        }
        let a = match S::Blocks::TAKES_ROWS {
            true => &self.a,
            false => &self.blocks_of_a,
        };
        Some(Pair::Dense(&a[..mma.m * k], b))
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
    let factor = match fmt == NumFmt::E4m3 {
        true => TABLES[1][usize::from(byte & 0x7f)],
        false => TABLES[0][usize::from(byte)],
    };
    (factor == 0.0 || factor.is_nan() || EXACT.contains(&factor)).then_some(factor)
}

/// Lists the elements of a sparse A of floats. Two bits of metadata name one of four elements; of
/// four pairs of them, if elements have four bits; or one of two, if they have 32. PTX ISA section
/// 9.7.14.6.1, "Sparse matrix storage".
#[inline(always)]
fn keep(mma: &Mma, selector: u8, stored: &[u32], metadata: &Words, out: &mut [KeptRows]) {
    let k = form(mma).stored_along_k(mma);
    let chunk = mma.chunk();
    for (row, of_row) in stored.chunks_exact(k).enumerate() {
        let mut codes = codes(mma, selector, row, metadata);
        let out = &mut out[row / 8 * k..][..k];
        let chunks = of_row.chunks_exact(chunk.stored);
        for (n, (elements, out)) in chunks.zip(out.chunks_exact_mut(chunk.stored)).enumerate() {
            let [low, high] = places(codes);
            let rows = match chunk.stored {
                1 => [low / 2; 4],
                2 => [low, high, 0, 0],
                _ => [2 * low, 2 * low + 1, 2 * high, 2 * high + 1],
            };
            for ((&element, place), out) in elements.iter().zip(rows).zip(out) {
                out[row % 8] = Kept {
                    element,
                    row: (n * chunk.whole + place) as u32,
                };
            }
            codes >>= 4;
        }
    }
}

/// A sparse A of integers with its zeros, as pairs of 16 bits.
#[inline(always)]
fn spread(mma: &Mma, selector: u8, stored: &[u32], metadata: &Words, out: &mut [u32]) {
    let (k, stored_k) = (form(mma).words_along_k(mma), form(mma).stored_along_k(mma));
    let out = &mut out[..mma.m * k];
    out.fill(0);
    let rows = stored.chunks_exact(stored_k).zip(out.chunks_exact_mut(k));
    for (row, (from, to)) in rows.enumerate() {
        let mut codes = codes(mma, selector, row, metadata);
        if mma.chunk().stored == 2 {
            // A word is two of four bytes, each in 16 bits.
            for (from, to) in from.iter().zip(to.as_chunks_mut::<2>().0) {
                for (place, half) in places(codes).into_iter().zip([from & 0xffff, from >> 16]) {
                    let word = &mut to[place / 2];
                    *word = add_pairs(*word, half << (place % 2 * 16));
                }
                codes >>= 4;
            }
        } else {
            // Two words are two of four pairs of nibbles.
            let from = from.as_chunks::<2>().0;
            for (from, to) in from.iter().zip(to.as_chunks_mut::<4>().0) {
                for (place, &pair) in places(codes).into_iter().zip(from) {
                    to[place] = add_pairs(to[place], pair);
                }
                codes >>= 4;
            }
        }
    }
}

/// The sums of two pairs of 16 bits: metadata that name an element twice add what is stored.
fn add_pairs(a: u32, b: u32) -> u32 {
    let low = a.wrapping_add(b) & 0xffff;
    low | (a >> 16).wrapping_add(b >> 16) << 16
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
