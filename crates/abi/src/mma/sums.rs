//! The multiplying loops: rows of C, to which products of decoded factors are added, become rows of
//! D.
//!
//! A lane holds a pair of columns, the even one in one register and the odd one in the next. So the
//! four lanes of a row, in two registers, are eight columns in the order of
//! [`column_slot`](super::operands::column_slot).

use ptxjit_ir::{Mma, ProductOp, SumFmt};

use super::blocks::{Block, Blocks};
use super::form::{Form, least};
use super::further::{KeptRows, Pair};
use super::steps::{Steps, Work};
use super::{COLUMNS, Offsets};

/// The registers of C and D of one product. They can be the same, as a row of C is read before that
/// of D is written.
#[derive(Copy, Clone)]
pub(super) struct Sums<'a> {
    c: (*const u8, &'a Offsets),
    d: (*mut u8, &'a Offsets),
}

impl<'a> Sums<'a> {
    /// # Safety
    ///
    /// For as long as the result is used, these are the registers of all lanes of a product, at
    /// offsets from two places, and nothing else writes them or reads those of D.
    #[inline(always)]
    pub(super) unsafe fn at(c: (*const u8, &'a Offsets), d: (*mut u8, &'a Offsets)) -> Sums<'a> {
        Sums { c, d }
    }

    /// The words of the four lanes that hold row `row % 8` in register `n` of C.
    #[inline(always)]
    fn quad_of_c(&self, n: usize, row: usize) -> [u32; 4] {
        let (base, offsets) = self.c;
        // SAFETY: by the promise of `at`; a register has eight quads.
        unsafe {
            let register = base.add(offsets[n] as usize);
            register.cast::<[u32; 4]>().add(row % 8).read()
        }
    }

    #[inline(always)]
    fn set_quad_of_d(&self, n: usize, row: usize, words: [u32; 4]) {
        let (base, offsets) = self.d;
        // SAFETY: as in `quad_of_c`.
        unsafe {
            let register = base.add(offsets[n] as usize);
            register.cast::<[u32; 4]>().add(row % 8).write(words);
        }
    }

    /// Four rows in register `n` of C.
    #[inline(always)]
    fn block_of_c(&self, n: usize, rows: usize) -> *const Block {
        let (base, offsets) = self.c;
        // SAFETY: by the promise of `at`.
        unsafe { block_at(base.cast_mut(), offsets[n], rows) }
    }

    /// Four rows in register `n` of D.
    #[inline(always)]
    fn block_of_d(&self, n: usize, rows: usize) -> *mut Block {
        let (base, offsets) = self.d;
        // SAFETY: by the promise of `at`.
        unsafe { block_at(base, offsets[n], rows) }
    }

    /// Four rows of C.
    #[inline(always)]
    fn rows<B: Blocks, const C: Kind>(&self, rows: usize, blocks: B) -> B::Rows {
        let below = rows / 2;
        // SAFETY: by the promise of `at`, nothing writes these meanwhile.
        unsafe {
            if C == HALF {
                return blocks.load_halves(&*self.block_of_c(below, rows));
            }
            let even = &*self.block_of_c(2 * below, rows);
            blocks.load(even, &*self.block_of_c(2 * below + 1, rows))
        }
    }

    /// Stores four rows of D.
    #[inline(always)]
    fn set_rows<B: Blocks, const D: Kind>(&self, rows: usize, sums: B::Rows, blocks: B) {
        let below = rows / 2;
        // SAFETY: by the promise of `at`, nothing else uses these; even and odd columns have
        // registers of their own.
        unsafe {
            if D == HALF {
                return blocks.store_halves(sums, &mut *self.block_of_d(below, rows));
            }
            let even = &mut *self.block_of_d(2 * below, rows);
            blocks.store(sums, even, &mut *self.block_of_d(2 * below + 1, rows));
        }
    }

    /// The sums of four rows as D has them. To integers C is added last, since it is this sum that
    /// saturates. Before, at most 128 products of 16 bits cannot wrap, nor can those of bytes.
    #[inline(always)]
    fn complete<B: Blocks, const D: Kind>(
        &self,
        rows: usize,
        mut sums: B::Rows,
        blocks: B,
    ) -> B::Rows {
        if is_float(D) {
            for sums in sums.as_mut() {
                *sums = blocks.canonical(*sums);
            }
            return sums;
        }
        let c = self.rows::<B, D>(rows, blocks);
        for (sums, &c) in sums.as_mut().iter_mut().zip(c.as_ref()) {
            *sums = match matches!(D, SATURATING | SATURATING_BYTES) {
                true => blocks.add_saturating(c, *sums),
                false => blocks.add(c, *sums),
            };
        }
        sums
    }

    /// A row of C.
    #[inline(always)]
    fn float_row<const C: Kind, S: Steps>(&self, row: usize, steps: &S) -> S::Row {
        let below = row / 8;
        if C == HALF {
            return steps.row_of_halves(self.quad_of_c(below, row));
        }
        let (even, odd) = (
            self.quad_of_c(2 * below, row),
            self.quad_of_c(2 * below + 1, row),
        );
        steps.row(even, odd)
    }

    #[inline(always)]
    fn set_float_row<const D: Kind, S: Steps>(&self, row: usize, sums: S::Row, steps: &S) {
        let (below, sums) = (row / 8, steps.canonical(sums));
        if D == HALF {
            return self.set_quad_of_d(below, row, steps.to_halves(sums));
        }
        let [even, odd] = steps.columns(sums);
        self.set_quad_of_d(2 * below, row, even);
        self.set_quad_of_d(2 * below + 1, row, odd);
    }
}

/// One of the two blocks of the register at an offset: that of four rows.
///
/// # Safety
///
/// There is a register.
#[inline(always)]
unsafe fn block_at(base: *mut u8, offset: u32, rows: usize) -> *mut Block {
    // SAFETY: the caller's promise.
    unsafe { base.add(offset as usize).cast::<Block>().add(rows % 2) }
}

/// What sums are. A constant in the loops, so that they test nothing.
pub(super) type Kind = u8;
const HALF: Kind = 0;
const SINGLE: Kind = 1;
/// As [`SINGLE`], of factors that are pairs of bf16, by an instruction that adds both products.
const PAIRED: Kind = 2;
/// As [`PAIRED`], of factors or sums that may be too small for that.
const SPLIT: Kind = 3;
const WRAPPING: Kind = 4;
const SATURATING: Kind = 5;
/// As [`WRAPPING`] and [`SATURATING`], of factors that are bytes.
const WRAPPING_BYTES: Kind = 6;
const SATURATING_BYTES: Kind = 7;
/// As [`WRAPPING`], of bits that are set in both factors.
const BOTH: Kind = 8;
/// As [`WRAPPING`], of bits that differ.
const EITHER: Kind = 9;

/// Whether sums are floats.
const fn is_float(kind: Kind) -> bool {
    kind <= SPLIT
}

/// Whether factors are bytes.
const fn is_of_bytes(kind: Kind) -> bool {
    matches!(kind, WRAPPING_BYTES | SATURATING_BYTES)
}

/// Decoded factors of products that share A.
#[derive(Copy, Clone)]
pub(super) struct Pass<'a, const N: usize> {
    pub(super) a: &'a [u32],
    pub(super) b: [&'a [u32]; N],
}

impl<const N: usize> Default for Pass<'_, N> {
    fn default() -> Self {
        Pass {
            a: &[],
            b: [&[]; N],
        }
    }
}

/// Products of one form, for which loops are compiled by what they depend on.
pub(super) trait Multiply {
    /// Runs the loops for `K` words along K, C and D of these kinds. Always inlined, see [`Work`].
    fn run<S: Steps, const K: usize, const C: Kind, const D: Kind>(self, steps: &S);
}

/// Runs the loops that a form needs. `are_small`: an element may be too small to be multiplied in
/// pairs.
///
/// Without dot products no form is bytes or pairs of bf16. The constant says so to the compiler,
/// which makes no loops for them then.
pub(super) fn multiply<S: Steps>(mma: &Mma, products: impl Multiply, are_small: bool, steps: &S) {
    let k = Form::of::<S>(mma).words_along_k(mma);
    match (Form::of::<S>(mma), mma.c, mma.d) {
        (Form::Bits, _, _) if mma.op == ProductOp::And => any::<BOTH, BOTH>(k, products, steps),
        (Form::Bits, _, _) => any::<EITHER, EITHER>(k, products, steps),
        (Form::Bytes, _, _) if S::Blocks::ADDS_BYTES && mma.saturates => {
            short::<SATURATING_BYTES, SATURATING_BYTES>(k, products, steps);
        }
        (Form::Bytes, _, _) if S::Blocks::ADDS_BYTES => {
            short::<WRAPPING_BYTES, WRAPPING_BYTES>(k, products, steps);
        }
        (Form::PairOfBf16, _, _) if S::Blocks::ADDS_BF16 && are_small => {
            short::<SPLIT, SPLIT>(k, products, steps);
        }
        (Form::PairOfBf16, _, _) if S::Blocks::ADDS_BF16 => {
            short::<PAIRED, PAIRED>(k, products, steps)
        }
        (_, SumFmt::S32, _) if mma.saturates => {
            any::<SATURATING, SATURATING>(k, products, steps);
        }
        (_, SumFmt::S32, _) => any::<WRAPPING, WRAPPING>(k, products, steps),
        (_, SumFmt::F16, SumFmt::F16) => any::<HALF, HALF>(k, products, steps),
        (_, SumFmt::F16, _) => any::<HALF, SINGLE>(k, products, steps),
        (_, _, SumFmt::F16) => any::<SINGLE, HALF>(k, products, steps),
        (_, _, _) => any::<SINGLE, SINGLE>(k, products, steps),
    }
}

/// Any number of words along K.
fn any<const C: Kind, const D: Kind>(k: usize, products: impl Multiply, steps: &impl Steps) {
    match k {
        32 => steps.compiled(Along::<32, C, D, _>(products)),
        64 => steps.compiled(Along::<64, C, D, _>(products)),
        _ => short::<C, D>(k, products, steps),
    }
}

/// Words along K that have several elements.
fn short<const C: Kind, const D: Kind>(k: usize, products: impl Multiply, steps: &impl Steps) {
    match k {
        4 => steps.compiled(Along::<4, C, D, _>(products)),
        8 => steps.compiled(Along::<8, C, D, _>(products)),
        16 => steps.compiled(Along::<16, C, D, _>(products)),
        k => unreachable!("no product has {k} words along K"),
    }
}

struct Along<const K: usize, const C: Kind, const D: Kind, M>(M);

impl<const K: usize, const C: Kind, const D: Kind, M: Multiply> Work for Along<K, C, D, M> {
    type Output = ();

    #[inline(always)]
    fn run<S: Steps>(self, steps: &S) {
        self.0.run::<S, K, C, D>(steps);
    }
}

/// D = A * B + C.
pub(super) struct Single<'a> {
    pub(super) m: usize,
    pub(super) pass: Pass<'a, 1>,
    pub(super) sums: Sums<'a>,
}

impl Multiply for Single<'_> {
    #[inline(always)]
    fn run<S: Steps, const K: usize, const C: Kind, const D: Kind>(self, steps: &S) {
        add_along::<S, K, C, D, 1>(self.m, &[self.pass], &[self.sums], steps);
    }
}

/// D = A * B + C for factors that were completed by what is behind C.
pub(super) fn add_pair_of(mma: &Mma, pair: Pair<'_>, sums: Sums<'_>, steps: &impl Steps) {
    match pair {
        Pair::Dense(a, b) => {
            let pass = Pass { a, b: [b] };
            let m = mma.m;
            // Nothing is known of its factors.
            multiply(mma, Single { m, pass, sums }, true, steps);
        }
        Pair::Sparse(a, b) => match (mma.c == SumFmt::F16, mma.d == SumFmt::F16) {
            (true, true) => steps.compiled(Kept::<HALF, HALF> { mma, a, b, sums }),
            (true, false) => steps.compiled(Kept::<HALF, SINGLE> { mma, a, b, sums }),
            (false, true) => steps.compiled(Kept::<SINGLE, HALF> { mma, a, b, sums }),
            (false, false) => steps.compiled(Kept::<SINGLE, SINGLE> { mma, a, b, sums }),
        },
    }
}

/// Products of what is kept of a sparse A with rows of B.
struct Kept<'a, const C: Kind, const D: Kind> {
    mma: &'a Mma,
    a: &'a [KeptRows],
    b: &'a [u32],
    sums: Sums<'a>,
}

impl<const C: Kind, const D: Kind> Work for Kept<'_, C, D> {
    type Output = ();

    #[inline(always)]
    fn run<S: Steps>(self, steps: &S) {
        let b = self.b.as_chunks::<COLUMNS>().0;
        let strips = self
            .a
            .chunks_exact(Form::of::<S>(self.mma).stored_along_k(self.mma));
        for (strip, a) in strips.enumerate() {
            let mut rows = [steps.splat(0); 8];
            for (r, row) in rows.iter_mut().enumerate() {
                *row = self.sums.float_row::<C, _>(8 * strip + r, steps);
            }
            for kept in a {
                for (row, kept) in rows.iter_mut().zip(kept) {
                    let element = steps.splat(kept.element);
                    *row = steps.add_float(element, steps.load(&b[kept.row as usize]), *row);
                }
            }
            for (r, &row) in rows.iter().enumerate() {
                self.sums.set_float_row::<D, _>(8 * strip + r, row, steps);
            }
        }
    }
}

/// With `K` words along K. As many rows of sums as there is room for stay in registers of the
/// processor: its multiply-adds need eight vectors to hide how long each takes, and rows of several
/// products take fewer loads.
#[inline(always)]
pub(super) fn add_along<S: Steps, const K: usize, const C: Kind, const D: Kind, const N: usize>(
    m: usize,
    passes: &[Pass<'_, N>],
    sums: &[Sums<'_>; N],
    steps: &S,
) {
    let (fours, blocks) = (m / 4, steps.blocks());
    let most = S::Blocks::ROOM / N;
    if most >= 4 && fours == 4 {
        add_strip::<_, K, 4, C, D, N>(0, passes, sums, blocks);
    } else if most >= 2 {
        for first in (0..fours).step_by(2) {
            add_strip::<_, K, 2, C, D, N>(first, passes, sums, blocks);
        }
    } else {
        for first in 0..fours {
            add_strip::<_, K, 1, C, D, N>(first, passes, sums, blocks);
        }
    }
}

/// `R` times four rows of each product.
type Strip<B, const R: usize, const N: usize> = [[<B as Blocks>::Rows; R]; N];

// Below are loops where closures would be shorter: a closure is compiled without the instructions
// of the vector forms around it, and then not inlined.

#[inline(always)]
fn add_strip<
    B: Blocks,
    const K: usize,
    const R: usize,
    const C: Kind,
    const D: Kind,
    const N: usize,
>(
    first: usize,
    passes: &[Pass<'_, N>],
    sums: &[Sums<'_>; N],
    blocks: B,
) {
    let mut strip: Strip<B, R, N> = [[blocks.splat(0); R]; N];
    if is_float(C) {
        for (rows, sums) in strip.iter_mut().zip(sums) {
            for (r, rows) in rows.iter_mut().enumerate() {
                *rows = sums.rows::<B, C>(first + r, blocks);
            }
        }
    }
    match C == PAIRED && are_small(&strip, blocks) {
        false => add_passes::<B, K, R, C, N>(first, passes, &mut strip, blocks),
        true => add_passes::<B, K, R, SPLIT, N>(first, passes, &mut strip, blocks),
    }
    for (rows, sums) in strip.iter().zip(sums) {
        for (r, &rows) in rows.iter().enumerate() {
            let rows = sums.complete::<B, D>(first + r, rows, blocks);
            sums.set_rows::<B, D>(first + r, rows, blocks);
        }
    }
}

/// Whether a sum is too small for pairs to be added to it.
#[inline(always)]
fn are_small<B: Blocks, const R: usize, const N: usize>(strip: &Strip<B, R, N>, blocks: B) -> bool {
    let mut least = blocks.splat(u32::MAX).as_ref()[0];
    for rows in strip.as_flattened() {
        for &sums in rows.as_ref() {
            least = blocks.least_float(sums, least);
        }
    }
    blocks.is_word_below(least, least::SUM)
}

/// Adds the products of some rows.
#[inline(always)]
fn add_passes<B: Blocks, const K: usize, const R: usize, const KIND: Kind, const N: usize>(
    first: usize,
    passes: &[Pass<'_, N>],
    strip: &mut Strip<B, R, N>,
    blocks: B,
) {
    let mut sums = *strip;
    if is_of_bytes(KIND) {
        for (n, sums) in sums.iter_mut().enumerate() {
            *sums = [without_bias::<B, K, N>(n, passes, blocks); R];
        }
    }
    for pass in passes {
        let a: &[[[u32; K]; 4]] = &pass.a.as_chunks().0.as_chunks().0[first..][..R];
        let mut b = [&[[0; COLUMNS]; K]; N];
        for (b, values) in b.iter_mut().zip(pass.b) {
            *b = values.as_chunks().0.first_chunk().expect("B has K rows");
        }
        for k in (0..K).step_by(4) {
            for k in k..k + 4 {
                let mut of_b = [blocks.of_b(&[0; COLUMNS]); N];
                for (of_b, b) in of_b.iter_mut().zip(b) {
                    *of_b = blocks.of_b(&b[k]);
                }
                for r in 0..R {
                    let of_a = blocks.of_a(&a[r], k);
                    for n in 0..N {
                        add_product::<B, KIND>(of_a, of_b[n], &mut sums[n][r], blocks);
                    }
                }
            }
        }
    }
    *strip = sums;
}

/// What bytes of A that are too large add to the sums of a product, with the opposite sign.
#[inline(always)]
fn without_bias<B: Blocks, const K: usize, const N: usize>(
    n: usize,
    passes: &[Pass<'_, N>],
    blocks: B,
) -> B::Rows {
    let mut rows = blocks.splat(0);
    for pass in passes {
        let behind = blocks.of_b(&pass.b[n].as_chunks().0[K]);
        let behind = behind.as_ref();
        for (n, row) in rows.as_mut().iter_mut().enumerate() {
            *row = blocks.subtract(*row, behind[n % behind.len()]);
        }
    }
    rows
}

/// Adds the product of a column of A and a row of B to four rows.
#[inline(always)]
fn add_product<B: Blocks, const KIND: Kind>(a: B::OfA, b: B::OfB, sums: &mut B::Rows, blocks: B) {
    let (a, b) = (a.as_ref(), b.as_ref());
    for (n, sum) in sums.as_mut().iter_mut().enumerate() {
        *sum = add::<B, KIND>(a[n % a.len()], b[n % b.len()], *sum, blocks);
    }
}

/// Adds products of words.
#[inline(always)]
fn add<B: Blocks, const KIND: Kind>(
    a: B::Vector,
    b: B::Vector,
    sum: B::Vector,
    blocks: B,
) -> B::Vector {
    match KIND {
        HALF | SINGLE => blocks.add_float(a, b, sum),
        PAIRED => blocks.add_bf16(a, b, sum),
        SPLIT => {
            let ([a_high, a_low], [b_high, b_low]) = (blocks.split_bf16(a), blocks.split_bf16(b));
            blocks.add_float(a_low, b_low, blocks.add_float(a_high, b_high, sum))
        }
        WRAPPING_BYTES | SATURATING_BYTES => blocks.add_bytes(a, b, sum),
        BOTH => blocks.add_bits(blocks.and(a, b), sum),
        EITHER => blocks.add_bits(blocks.xor(a, b), sum),
        _ => blocks.add_pair(a, b, sum),
    }
}
