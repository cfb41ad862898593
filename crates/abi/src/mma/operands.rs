//! The factors of a product as the multiplying loops read them, decoded from the registers that
//! hold them.
//!
//! Everything is a word of 32 bits, which has one element or neighbors along K ([`Form`]). A is
//! kept by rows, of a sparse one what is stored, or by blocks of four rows by four words
//! ([`Blocks::TAKES_ROWS`]). B is kept by rows whose columns stand in the order of [`column_slot`],
//! which is that of two registers of C and D side by side, so that no sum is moved from lane to
//! lane.

use ptxjit_ir::{FragmentLayout, MatrixFmt, Mma};

use super::blocks::{BLOCK, Blocks, Register};
use super::expand::{
    Bf16, BiasedBytes, BytesOfNibbles, Expand, F16, FirstHigh, FloatsOfNibbles, Kept, NarrowFloats,
    PairsOfBytes, PairsOfNibbles, Tf32,
};
use super::fill::{FillA, FillColumns, FillRows, OfRows, Paired, Single};
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
        encoded: Encoded<'_>,
        steps: &impl Steps,
    ) -> &[u32] {
        let wanted = tag(mma, side, steps);
        if *self.tag != wanted {
            decode(mma, side, encoded, self.words, steps);
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

/// The registers of factors of one form.
#[derive(Copy, Clone)]
pub(super) struct Encoded<'a> {
    base: *const u8,
    factors: &'a [Offsets],
    n_registers: usize,
}

impl<'a> Encoded<'a> {
    /// # Safety
    ///
    /// At the first `n_registers` offsets of each factor from the base there are registers, which
    /// nothing writes for as long as the result lives.
    #[inline(always)]
    pub(super) unsafe fn at(
        base: *const u8,
        factors: &'a [Offsets],
        n_registers: usize,
    ) -> Encoded<'a> {
        Encoded {
            base,
            factors,
            n_registers,
        }
    }

    /// How many each factor has.
    #[inline(always)]
    pub(super) fn n_registers(self) -> usize {
        self.n_registers
    }

    #[inline(always)]
    pub(super) fn register(self, factor: usize, n: usize) -> &'a Words {
        let offsets = &self.factors[factor][..self.n_registers];
        // SAFETY: the promise of `at`.
        unsafe { &*self.base.add(offsets[n] as usize).cast() }
    }
}

/// Decodes factors of products of a form, one behind the other. Gives whether an element of bf16 is
/// too small to be multiplied in pairs.
pub(super) fn decode<S: Steps>(
    mma: &Mma,
    side: Side,
    encoded: Encoded<'_>,
    out: &mut [u32],
    steps: &S,
) -> bool {
    let decode = Decode {
        mma,
        form: Form::of::<S>(mma),
        side,
        encoded,
        steps,
    };
    decode.run(out)
}

/// Words of a decoded factor.
pub(super) fn words<S: Steps>(mma: &Mma, side: Side, _: &S) -> usize {
    let form = Form::of::<S>(mma);
    match side {
        Side::A => mma.m * form.stored_along_k(mma),
        Side::B => COLUMNS * form.rows_of_b(mma),
    }
}

/// Factors to be decoded. For each format a loop is compiled by itself: together they would keep
/// the constants of all formats at hand.
struct Decode<'a, S> {
    mma: &'a Mma,
    form: Form,
    side: Side,
    encoded: Encoded<'a>,
    steps: &'a S,
}

impl<S: Steps> Decode<'_, S> {
    fn run(&self, out: &mut [u32]) -> bool {
        let words = words(self.mma, self.side, self.steps);
        let out = &mut out[..words * self.encoded.factors.len()];
        let fmt = match self.side {
            Side::A => self.mma.a,
            Side::B => self.mma.b,
        };
        match self.form {
            Form::PairOfBf16 => return self.pairs_of_bf16(out),
            Form::Bytes => self.bytes(fmt, out),
            Form::Float | Form::PairOfIntegers | Form::Bits => self.elements(fmt, out),
        }
        false
    }

    /// Elements that are words, or become them one by one or in pairs.
    fn elements(&self, fmt: MatrixFmt, out: &mut [u32]) {
        match fmt {
            MatrixFmt::F16 => self.halves(F16, out),
            MatrixFmt::Bf16 => self.halves(Bf16, out),
            MatrixFmt::Tf32 => self.fill(Tf32, out),
            MatrixFmt::S8 => self.fill(PairsOfBytes { are_signed: true }, out),
            MatrixFmt::U8 => self.fill(PairsOfBytes { are_signed: false }, out),
            MatrixFmt::S4 => self.fill(PairsOfNibbles::<8>, out),
            MatrixFmt::U4 => self.fill(PairsOfNibbles::<0>, out),
            MatrixFmt::E4m3 => self.fill(NarrowFloats::E4M3, out),
            MatrixFmt::E5m2 => self.fill(NarrowFloats::E5M2, out),
            MatrixFmt::E3m2 => self.fill(NarrowFloats::E3M2, out),
            MatrixFmt::E2m3 => self.fill(NarrowFloats::E2M3, out),
            MatrixFmt::E2m1 => self.fill(NarrowFloats::E2M1, out),
            MatrixFmt::PackedE2m1 => self.fill(FloatsOfNibbles, out),
            MatrixFmt::B1 => self.fill(Kept, out),
            MatrixFmt::F64 => unreachable!("f64 has no words of 32 bits"),
        }
    }

    /// Elements of 16 bits, which B may have by rows.
    fn halves(&self, expand: impl Expand<2>, out: &mut [u32]) {
        if self.side == Side::A || !is_b_by_rows(self.mma) {
            return self.fill(expand, out);
        }
        self.fill_rows(Single(expand), out);
    }

    fn fill_rows<const N: usize>(&self, of_rows: impl OfRows<N>, out: &mut [u32]) {
        self.steps.compiled(FillRows {
            of_rows,
            encoded: self.encoded,
            out,
            words: words(self.mma, self.side, self.steps),
        });
    }

    /// Gives whether one is too small.
    fn pairs_of_bf16(&self, out: &mut [u32]) -> bool {
        if self.side == Side::B && is_b_by_rows(self.mma) {
            self.fill_rows(Paired, out);
        } else {
            self.fill(FirstHigh, out);
        }
        self.steps.compiled(HasSmall(self.encoded))
    }

    /// Of A, the sums of elements and [`bias`]. Of B, the elements, and behind them for each column
    /// what the bias adds.
    fn bytes(&self, fmt: MatrixFmt, out: &mut [u32]) {
        match (fmt, self.side) {
            (MatrixFmt::S8, Side::A) => self.fill(BiasedBytes, out),
            (MatrixFmt::S4, Side::A) => self.fill(BytesOfNibbles::<8, 0>, out),
            (MatrixFmt::S4, Side::B) => self.fill(BytesOfNibbles::<8, 8>, out),
            (MatrixFmt::U4, _) => self.fill(BytesOfNibbles::<0, 0>, out),
            (MatrixFmt::S8, Side::B) | (MatrixFmt::U8, _) => self.fill(Kept, out),
            (
                MatrixFmt::F16
                | MatrixFmt::Bf16
                | MatrixFmt::Tf32
                | MatrixFmt::F64
                | MatrixFmt::B1
                | MatrixFmt::E4m3
                | MatrixFmt::E5m2
                | MatrixFmt::E3m2
                | MatrixFmt::E2m3
                | MatrixFmt::E2m1
                | MatrixFmt::PackedE2m1,
                _,
            ) => unreachable!("{fmt:?} has no bytes that are integers"),
        }
        if self.side == Side::B {
            self.steps.compiled(SetBias {
                rows: Form::Bytes.words_along_k(self.mma),
                bias: bias(self.mma),
                out,
                words: words(self.mma, self.side, self.steps),
            });
        }
    }

    fn fill<const N: usize>(&self, expand: impl Expand<N>, out: &mut [u32]) {
        let (mma, encoded) = (self.mma, self.encoded);
        match self.side {
            Side::A => self.steps.compiled(FillA {
                expand,
                encoded,
                out,
                m: mma.m,
                k: self.form.stored_along_k(mma),
                // What is behind C completes it by rows.
                is_by_rows: S::Blocks::TAKES_ROWS || mma.further_registers() != 0,
            }),
            Side::B => self.steps.compiled(FillColumns {
                expand,
                encoded,
                out,
                words: words(mma, self.side, self.steps),
            }),
        }
    }
}

/// Whether a bf16 is too small to be multiplied in pairs.
struct HasSmall<'a>(Encoded<'a>);

impl Work for HasSmall<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Steps>(self, steps: &S) -> bool {
        let (HasSmall(encoded), blocks) = (self, steps.blocks());
        let mut least = blocks.splat(u32::MAX);
        for factor in 0..encoded.factors.len() {
            for n in 0..encoded.n_registers {
                let words = blocks.load_words(encoded.register(factor, n));
                for (least, &words) in least.as_mut().iter_mut().zip(words.as_ref()) {
                    *least = blocks.least_bf16(words, *least);
                }
            }
        }
        (least.as_ref().iter()).any(|&least| blocks.is_half_below(least, least::FACTOR))
    }
}

/// Stores behind each B what the bias of A adds to the sums of its columns.
struct SetBias<'a> {
    /// Of a factor.
    rows: usize,
    bias: u8,
    out: &'a mut [u32],
    /// Words of a factor.
    words: usize,
}

impl Work for SetBias<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Steps>(self, steps: &S) {
        let blocks = steps.blocks();
        let biases = blocks.splat(u32::from_ne_bytes([self.bias; 4]));
        for out in self.out.chunks_exact_mut(self.words) {
            let (rows, behind) = out.split_at_mut(COLUMNS * self.rows);
            let mut sums = blocks.splat(0);
            for rows in rows.as_chunks().0 {
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
