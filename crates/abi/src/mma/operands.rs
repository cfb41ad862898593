//! The factors of a product as the multiplying loops read them, decoded from the registers that
//! hold them.
//!
//! Everything is a word of 32 bits, which has one element or neighbors along K ([`Form`]). A is
//! kept by rows, of a sparse one what is stored, or by blocks of four rows by four words
//! ([`Blocks::TAKES_ROWS`]). B is kept by rows whose columns stand in the order of [`column_slot`],
//! which is that of two registers of C and D side by side, so that no sum is moved from lane to
//! lane.

use std::sync::LazyLock;

use ptxjit_ir::{FragmentLayout, MatrixFmt, Mma, eval};

use super::blocks::{BLOCK, Blocks, Register};
use super::form::{Form, bias, least};
use super::steps::{Steps, Work};
use super::{COLUMNS, Offsets, ROWS, Words};

/// Words along K at most of a product without metadata and factors: 32 bytes of floats, or 64
/// nibbles in pairs.
const MAX_K: usize = 32;

/// Words of a decoded A at most, without metadata and factors.
pub(super) const MAX_WORDS: usize = ROWS * MAX_K;

/// Words along K at most of any product: 128 nibbles of floats.
const LARGEST_K: usize = 128;

/// Words of a decoded A of any product at most.
pub(super) const LARGEST_A: usize = ROWS * LARGEST_K;
/// As [`LARGEST_A`], for B.
pub(super) const LARGEST_B: usize = COLUMNS * LARGEST_K;

/// Rows of B are loaded whole; none crosses a line of the cache.
const ALIGN: usize = 64;

/// Bytes in front of a fragment of A, for its decoded form: its words from the first aligned one
/// on, and in the last word what they are.
pub const DECODED_A: usize = 4 * MAX_WORDS + 2 * ALIGN;
/// As [`DECODED_A`], for B.
pub const DECODED_B: usize = 4 * COLUMNS * MAX_K + 2 * ALIGN;

/// A factor that is decoded when it is first needed.
pub(super) struct Decoded<'a> {
    words: &'a mut [u32],
    /// What the words are: zero if nothing, else [`tag`].
    tag: &'a mut u32,
}

impl<'a> Decoded<'a> {
    pub(super) fn new(words: &'a mut [u32], tag: &'a mut u32) -> Decoded<'a> {
        Decoded { words, tag }
    }

    /// The room in front of a fragment.
    ///
    /// # Safety
    ///
    /// There are `size` bytes, which only the caller uses for as long as the result lives.
    pub(super) unsafe fn before(fragment: *const Words, size: usize) -> Decoded<'a> {
        // SAFETY: by the caller's promise, since words and tag lie within the room and apart.
        unsafe {
            let end = fragment.cast_mut().cast::<u8>();
            let start = end.sub(size);
            let skipped = start.align_offset(ALIGN);
            let n_words = (size - ALIGN - skipped) / size_of::<u32>();
            Decoded {
                words: core::slice::from_raw_parts_mut(start.add(skipped).cast(), n_words),
                tag: &mut *end.cast::<u32>().sub(1),
            }
        }
    }

    /// The words of the factor.
    pub(super) fn get(
        &mut self,
        mma: &Mma,
        side: Side,
        registers: Factor<'_>,
        steps: &impl Steps,
    ) -> &[u32] {
        let wanted = tag(mma, side, steps);
        if *self.tag != wanted {
            let out = &mut *self.words;
            steps.compiled(Decode {
                mma,
                side,
                factors: core::iter::once((registers, out)),
            });
            *self.tag = wanted;
        }
        self.words
    }
}

/// Which of the forms of a product decode a factor in the same way.
fn tag<S: Steps>(mma: &Mma, side: Side, _: &S) -> u32 {
    let fmt = match side {
        Side::A => mma.a,
        Side::B => mma.b,
    };
    let is_sparse = u32::from(mma.selector.is_some());
    let is_by_rows = u32::from(side == Side::B && is_b_by_rows(mma));
    1 | is_sparse << 1
        | is_by_rows << 2
        | (Form::of::<S>(mma) as u32) << 3
        | (fmt as u32) << 8
        | (mma.m as u32) << 16
        | (mma.k as u32) << 24
}

/// Whether the lanes of a quad hold a row of a tile of B rather than a column.
fn is_b_by_rows(mma: &Mma) -> bool {
    matches!(mma.layout, FragmentLayout::Quads { b_by_rows: true })
}

/// Where a column stands in a row of B, C or D: the even columns come first. A lane holds a pair of
/// columns, the even one in one register and the odd one in the next.
pub(super) const fn column_slot(column: usize) -> usize {
    column / 2 + column % 2 * (COLUMNS / 2)
}

/// Which of the two factors.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Side {
    A,
    B,
}

/// The registers of a factor.
#[derive(Copy, Clone)]
pub(super) struct Factor<'a> {
    base: *const u8,
    offsets: &'a [u32],
}

impl<'a> Factor<'a> {
    /// # Safety
    ///
    /// At these offsets from the base there are registers, which nothing writes for as long as the
    /// result lives.
    #[inline(always)]
    pub(super) unsafe fn at(base: *const u8, offsets: &'a Offsets, n: usize) -> Factor<'a> {
        Factor {
            base,
            offsets: &offsets[..n],
        }
    }

    #[inline(always)]
    fn register(self, n: usize) -> &'a Words {
        // SAFETY: the promise of `at`.
        unsafe { &*self.base.add(self.offsets[n] as usize).cast() }
    }
}

/// Decodes factors of products of a form, each into its own words. Gives whether an element of bf16
/// is too small to be multiplied in pairs.
pub(super) struct Decode<'a, F> {
    pub(super) mma: &'a Mma,
    pub(super) side: Side,
    pub(super) factors: F,
}

impl<'f, F: Iterator<Item = (Factor<'f>, &'f mut [u32])>> Work for Decode<'_, F> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Steps>(self, steps: &S) -> bool {
        let (mma, side) = (self.mma, self.side);
        let form = Form::of::<S>(mma);
        let mut least = steps.blocks().splat(u32::MAX);
        for (registers, out) in self.factors {
            decode((mma, form), side, registers, out, steps);
            if form == Form::PairOfBf16 {
                least = least_of(registers, least, steps.blocks());
            }
        }
        (least.as_ref().iter()).any(|&least| steps.blocks().is_half_below(least, least::FACTOR))
    }
}

/// As [`Blocks::least_bf16`] of all elements.
#[inline(always)]
fn least_of<B: Blocks>(registers: Factor<'_>, mut least: B::Rows, blocks: B) -> B::Rows {
    for n in 0..registers.offsets.len() {
        let words = blocks.load_words(registers.register(n));
        for (least, &words) in least.as_mut().iter_mut().zip(words.as_ref()) {
            *least = blocks.least_bf16(words, *least);
        }
    }
    least
}

#[inline(always)]
fn decode<S: Steps>(
    (mma, form): (&Mma, Form),
    side: Side,
    registers: Factor<'_>,
    out: &mut [u32],
    steps: &S,
) {
    let fmt = match side {
        Side::A => mma.a,
        Side::B => mma.b,
    };
    if side == Side::B && is_b_by_rows(mma) {
        return match form == Form::PairOfBf16 {
            true => fill_by_pairs_of_rows(registers, out, steps),
            false => fill_by_rows(fmt, registers, out, steps),
        };
    }
    let place = Place::new::<S>(mma, form, side);
    match (fmt, form) {
        (_, Form::PairOfBf16) => place.fill(registers, out, steps, first_high),
        (_, Form::Bytes) => decode_bytes(&place, (mma, fmt), registers, out, steps),
        (MatrixFmt::F16, _) => place.fill(registers, out, steps, |words| steps.from_halves(words)),
        (MatrixFmt::Bf16, _) => place.fill(registers, out, steps, |words| steps.from_bf16(words)),
        (MatrixFmt::Tf32, _) => place.fill(registers, out, steps, from_tf32),
        (MatrixFmt::S8, _) => place.fill(registers, out, steps, |words| {
            steps.from_signed_bytes(words)
        }),
        (MatrixFmt::U8, _) => place.fill(registers, out, steps, from_unsigned_bytes),
        (MatrixFmt::S4, _) => place.fill(registers, out, steps, from_nibbles::<8>),
        (MatrixFmt::U4, _) => place.fill(registers, out, steps, from_nibbles::<0>),
        (
            MatrixFmt::E4m3 | MatrixFmt::E5m2 | MatrixFmt::E3m2 | MatrixFmt::E2m3 | MatrixFmt::E2m1,
            _,
        ) => {
            let values = byte_table(fmt);
            place.fill(registers, out, steps, |words| look_up(bytes(words), values));
        }
        (MatrixFmt::PackedE2m1, _) => {
            let values = byte_table(MatrixFmt::PackedE2m1);
            place.fill(registers, out, steps, |words| {
                look_up(nibbles(words), values)
            });
        }
        (MatrixFmt::B1, _) => place.fill(registers, out, steps, |words| words),
        (MatrixFmt::F64, _) => unreachable!("f64 has no words of 32 bits"),
    }
}

/// Of A, the sums of elements and [`bias`]. Of B, the elements, and behind them for each column
/// what the bias adds.
#[inline(always)]
fn decode_bytes(
    place: &Place,
    (mma, fmt): (&Mma, MatrixFmt),
    registers: Factor<'_>,
    out: &mut [u32],
    steps: &impl Steps,
) {
    let is_biased = place.side == Side::A;
    if fmt == MatrixFmt::S8 && is_biased {
        place.fill(registers, out, steps, biased_bytes);
    } else if fmt == MatrixFmt::S4 && is_biased {
        place.fill(registers, out, steps, nibble_bytes::<8, 0>);
    } else if fmt == MatrixFmt::S4 {
        place.fill(registers, out, steps, nibble_bytes::<8, 8>);
    } else if fmt == MatrixFmt::U4 {
        place.fill(registers, out, steps, nibble_bytes::<0, 0>);
    } else {
        place.fill(registers, out, steps, |words| words);
    }
    if is_biased {
        return;
    }
    let blocks = steps.blocks();
    let (rows, behind) = out.split_at_mut(COLUMNS * Form::Bytes.words_along_k(mma).max(8));
    let biases = blocks.splat(u32::from_ne_bytes([bias(mma); 4]));
    let mut sums = blocks.splat(0);
    for rows in rows[..COLUMNS * place.k].as_chunks().0 {
        let rows = blocks.load_words(rows);
        let pairs = biases.as_ref().iter().zip(rows.as_ref());
        for (sum, (&bias, &words)) in sums.as_mut().iter_mut().zip(pairs) {
            *sum = blocks.add_bytes(bias, words, *sum);
        }
    }
    let mut of_rows: Register = [0; 32];
    blocks.store_words(sums, &mut of_rows);
    for column in 0..COLUMNS {
        let of_row = |row: usize| of_rows[COLUMNS * row + column];
        behind[column] = (0..4).map(of_row).fold(0, u32::wrapping_add);
    }
}

/// Where the decoded words of a register go.
struct Place {
    side: Side,
    /// Registers of A side by side that hold the same columns of different rows.
    n_below: usize,
    /// Words of a row of A.
    k: usize,
    /// Whether A is kept by rows.
    is_by_rows: bool,
}

impl Place {
    fn new<S: Steps>(mma: &Mma, form: Form, side: Side) -> Place {
        Place {
            side,
            n_below: mma.m / 8,
            k: form.stored_along_k(mma),
            // What is behind C completes it by rows.
            is_by_rows: S::Blocks::TAKES_ROWS || mma.further_registers() != 0,
        }
    }

    /// Four lanes hold `N` words along K of one row of A, or of one column of B.
    #[inline(always)]
    fn fill<const N: usize>(
        &self,
        registers: Factor<'_>,
        out: &mut [u32],
        steps: &impl Steps,
        decode: impl Fn([u32; 4]) -> [u32; N],
    ) {
        match self.side {
            Side::A if self.is_by_rows => self.fill_rows(registers, out, decode),
            Side::A => self.fill_blocks(registers, out, decode),
            Side::B => fill_columns(registers, out, steps, decode),
        }
    }

    /// Which rows a register of A has, by eights, and its first word along K.
    #[inline(always)]
    fn place_of<const N: usize>(&self, register: usize) -> (usize, usize) {
        match self.n_below {
            1 => (0, register * N),
            _ => (register % 2, register / 2 * N),
        }
    }

    #[inline(always)]
    fn fill_rows<const N: usize>(
        &self,
        registers: Factor<'_>,
        out: &mut [u32],
        decode: impl Fn([u32; 4]) -> [u32; N],
    ) {
        for n in 0..registers.offsets.len() {
            let (below, k) = self.place_of::<N>(n);
            let rows = out[8 * below * self.k..][..8 * self.k].chunks_exact_mut(self.k);
            let quads = registers.register(n).as_chunks::<4>().0;
            for (row, words) in rows.zip(quads) {
                row[k..][..N].copy_from_slice(&decode(*words));
            }
        }
    }

    #[inline(always)]
    fn fill_blocks<const N: usize>(
        &self,
        registers: Factor<'_>,
        out: &mut [u32],
        decode: impl Fn([u32; 4]) -> [u32; N],
    ) {
        for n in 0..registers.offsets.len() {
            let (below, k) = self.place_of::<N>(n);
            let blocks = out[8 * below * self.k..][..8 * self.k].chunks_exact_mut(4 * self.k);
            let quads = registers.register(n).as_chunks::<4>().0.as_chunks::<4>().0;
            for (of_rows, quads) in blocks.zip(quads) {
                for (row, words) in quads.iter().enumerate() {
                    set_row_of_blocks(&mut of_rows[4 * k..], row, &decode(*words));
                }
            }
        }
    }
}

/// The blocks of an A that is kept by rows.
pub(super) fn to_blocks(rows: &[u32], k: usize, blocks: &mut [u32]) {
    let of_rows = rows.chunks_exact(4 * k).zip(blocks.chunks_exact_mut(4 * k));
    for (rows, blocks) in of_rows {
        for (row, words) in rows.chunks_exact(k).enumerate() {
            set_row_of_blocks(blocks, row, words);
        }
    }
}

/// Puts words of one of four rows into the blocks that lie along K.
#[inline(always)]
fn set_row_of_blocks(along_k: &mut [u32], row: usize, words: &[u32]) {
    let blocks = along_k.as_chunks_mut::<BLOCK>().0.iter_mut();
    for (block, words) in blocks.zip(words.as_chunks::<4>().0) {
        block[4 * row..][..4].copy_from_slice(words);
    }
}

/// Registers that hold fewer than eight words along K are taken two by two.
#[inline(always)]
fn fill_columns<const N: usize>(
    registers: Factor<'_>,
    out: &mut [u32],
    steps: &impl Steps,
    decode: impl Fn([u32; 4]) -> [u32; N],
) {
    let eights = out.as_chunks_mut::<COLUMNS>().0.as_chunks_mut::<8>().0;
    let n_registers = registers.offsets.len();
    if N >= 8 {
        for (n, rows) in eights.chunks_mut(N / 8).take(n_registers).enumerate() {
            let mut columns = [[0; N]; COLUMNS];
            for (g, words) in registers.register(n).as_chunks::<4>().0.iter().enumerate() {
                columns[column_slot(g)] = decode(*words);
            }
            for (eight, rows) in rows.iter_mut().enumerate() {
                let mut part = [[0; 8]; COLUMNS];
                for (part, column) in part.iter_mut().zip(&columns) {
                    *part = column.as_chunks().0[eight];
                }
                *rows = steps.transpose(&part);
            }
        }
        return;
    }
    let pairs = n_registers.div_ceil(8 / N);
    for (pair, rows) in eights.iter_mut().take(pairs).enumerate() {
        let mut columns = [[0; 8]; COLUMNS];
        for within in 0..8 / N {
            let n = pair * (8 / N) + within;
            if n >= n_registers {
                break;
            }
            for (g, words) in registers.register(n).as_chunks::<4>().0.iter().enumerate() {
                columns[column_slot(g)][within * N..][..N].copy_from_slice(&decode(*words));
            }
        }
        *rows = steps.transpose(&columns);
    }
}

/// The rows of B from registers with a row in each quad, of elements of 16 bits.
#[inline(always)]
fn fill_by_rows(fmt: MatrixFmt, registers: Factor<'_>, out: &mut [u32], steps: &impl Steps) {
    let eights = out.as_chunks_mut::<COLUMNS>().0.as_chunks_mut::<8>().0;
    for (n, rows) in eights.iter_mut().take(registers.offsets.len()).enumerate() {
        let quads = registers.register(n).as_chunks::<4>().0;
        for (row, words) in rows.iter_mut().zip(quads) {
            let values = match fmt == MatrixFmt::F16 {
                true => steps.row_of_halves(*words),
                false => steps.row_of_bf16(*words),
            };
            *row = steps.words(values);
        }
    }
}

/// As [`fill_by_rows`] for [`Form::PairOfBf16`]: pairs of rows.
#[inline(always)]
fn fill_by_pairs_of_rows(registers: Factor<'_>, out: &mut [u32], steps: &impl Steps) {
    let fours = out.as_chunks_mut::<COLUMNS>().0.as_chunks_mut::<4>().0;
    for (n, rows) in fours.iter_mut().take(registers.offsets.len()).enumerate() {
        let pairs = registers.register(n).as_chunks::<4>().0.as_chunks::<2>().0;
        for (row, pair) in rows.iter_mut().zip(pairs) {
            *row = steps.words(steps.row_of_pairs(pair));
        }
    }
}

/// Pairs of bf16 with the first one in the high half.
#[inline(always)]
fn first_high(words: [u32; 4]) -> [u32; 4] {
    words.map(|word| word.rotate_left(16))
}

/// Signed bytes and the [`bias`] of these.
#[inline(always)]
fn biased_bytes(words: [u32; 4]) -> [u32; 4] {
    words.map(|word| word ^ 0x8080_8080)
}

/// Nibbles as bytes: `SIGN` is the bit of the sign, if there is one, and `BIAS` what is too much.
#[inline(always)]
fn nibble_bytes<const SIGN: u8, const BIAS: u8>(words: [u32; 4]) -> [u32; 8] {
    let nibbles = nibbles(words);
    let mut out = [0; 8];
    for (out, four) in out.iter_mut().zip(nibbles.as_chunks::<4>().0) {
        *out = u32::from_le_bytes(four.map(|nibble| (nibble ^ SIGN).wrapping_sub(BIAS)));
    }
    out
}

#[inline(always)]
fn from_tf32(words: [u32; 4]) -> [u32; 4] {
    words.map(|word| word & 0xffff_e000)
}

#[inline(always)]
fn bytes(words: [u32; 4]) -> [u8; 16] {
    std::array::from_fn(|n| (words[n / 4] >> (n % 4 * 8)) as u8)
}

#[inline(always)]
fn nibbles(words: [u32; 4]) -> [u8; 32] {
    let mut nibbles = [0; 32];
    let pairs = nibbles.as_chunks_mut::<2>().0.iter_mut();
    for (pair, byte) in pairs.zip(bytes(words)) {
        *pair = [byte & 0xf, byte >> 4];
    }
    nibbles
}

/// The values of numbers. A loop, as the compiler does not inline `map` over so many.
#[inline(always)]
fn look_up<const N: usize>(numbers: [u8; N], values: &[u32; 256]) -> [u32; N] {
    let mut out = [0; N];
    for (out, number) in out.iter_mut().zip(numbers) {
        *out = values[usize::from(number)];
    }
    out
}

#[inline(always)]
fn from_unsigned_bytes(words: [u32; 4]) -> [u32; 8] {
    let values = bytes(words).map(i16::from);
    std::array::from_fn(|n| pair(values[2 * n], values[2 * n + 1]))
}

/// `SIGN` is the bit of the sign, if there is one.
#[inline(always)]
fn from_nibbles<const SIGN: i16>(words: [u32; 4]) -> [u32; 16] {
    let nibbles = nibbles(words);
    let value = |n: usize| (i16::from(nibbles[n]) ^ SIGN) - SIGN;
    std::array::from_fn(|n| pair(value(2 * n), value(2 * n + 1)))
}

fn pair(low: i16, high: i16) -> u32 {
    u32::from(low as u16) | u32::from(high as u16) << 16
}

/// The values of all bytes in a format, as f32.
fn byte_table(fmt: MatrixFmt) -> &'static [u32; 256] {
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
