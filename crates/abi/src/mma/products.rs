//! Products of one form that a whole warp computes in sequence, in registers that lie in a
//! frame.
//!
//! Each factor is decoded once for all products that it is in, and products that share A or are
//! added to the same sums go through the multiplying loops together ([`tiles`]).

use ptxjit_ir::{Mma, WarpOp};
use serde::{Deserialize, Serialize};

use super::factors::Factors;
use super::further::Complete;
use super::operands::{self, Encoded, Side};
#[cfg(target_arch = "x86_64")]
use super::steps::{Avx2, Avx512, ByteDots, Dots};
use super::steps::{Plain, Steps};
use super::sums::{self, Kind, Multiply, Pass, Sums};
use super::tiles::{self, MOST_ALONG_K, Tile};
use super::{Method, Words, compute};
use crate::float_env::with_default_rounding;
use crate::warp_ops::{Lanes, WARP};

/// No form has more registers of A, B, C or D.
pub const MOST_REGISTERS: usize = 8;
/// No form has more registers behind those of C.
pub const MOST_FURTHER: usize = 3;
/// Factors that products of one call have: those of four steps along K for 64 by 64 sums of a warp.
/// Of halves, decoded ones take half of a first-level cache of 32 KiB.
pub const MOST_A: usize = 16;
/// As [`MOST_A`], for B.
pub const MOST_B: usize = 32;

/// Where the registers of a matrix are, in bytes from the frame's start. Those that the form does
/// not have are zero.
pub type Offsets = [u32; MOST_REGISTERS];

/// Products of one form, in order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Products {
    pub mma: Mma,
    /// The different factors.
    pub a: Vec<Offsets>,
    pub b: Vec<Offsets>,
    pub products: Vec<Product>,
    tiles: Vec<Tile>,
}

/// Words of the factors of a product as steps multiply them.
#[derive(Copy, Clone)]
struct Sizes {
    a: usize,
    b: usize,
}

impl Sizes {
    fn of(mma: &Mma, steps: &impl Steps) -> Sizes {
        Sizes {
            a: operands::words(mma, Side::A, steps),
            b: operands::words(mma, Side::B, steps),
        }
    }

    /// One of the decoded A.
    #[inline(always)]
    fn a_of<'a>(&self, a: &'a [u32], n: usize) -> &'a [u32] {
        &a[n * self.a..][..self.a]
    }

    /// One of the decoded B.
    #[inline(always)]
    fn b_of<'a>(&self, b: &'a [u32], n: usize) -> &'a [u32] {
        &b[n * self.b..][..self.b]
    }
}

impl Products {
    /// Of at most [`MOST_A`] and [`MOST_B`] different factors, which no product writes.
    pub fn new(mma: Mma, a: Vec<Offsets>, b: Vec<Offsets>, products: Vec<Product>) -> Products {
        let tiles = tiles::tiles(&mma, &products);
        Products {
            mma,
            a,
            b,
            products,
            tiles,
        }
    }
}

/// One product.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Product {
    /// Which factors.
    pub a: usize,
    pub b: usize,
    pub c: Offsets,
    pub further: [u32; MOST_FURTHER],
    /// These can be the registers of C, in the same order, if both have the same format.
    pub d: Offsets,
}

/// Computes products for the lanes of `group`, which are all that take part in them, and changes
/// the registers of these lanes.
///
/// # Safety
///
/// `products` is kept by the running kernel; `frame` is where its registers are, each a word of 32
/// lanes, and only this call uses them.
pub unsafe extern "C" fn products_op(products: *const Products, group: u64, frame: *mut u8) {
    // SAFETY: the caller's promise.
    let (products, frame) = unsafe { (&*products, Frame(frame)) };
    with_default_rounding(|| match group as u32 {
        u32::MAX if Method::of(&products.mma) == Method::Rows => by_rows(products, &frame),
        group => {
            for product in &products.products {
                one(products, product, group, &frame);
            }
        }
    });
}

/// Where registers are.
struct Frame(*mut u8);

impl Frame {
    fn register(&self, offset: u32) -> *mut Words {
        // SAFETY: by the promise to `products_op`, offsets lie in the frame.
        unsafe { self.0.add(offset as usize).cast() }
    }

    fn read(&self, offset: u32) -> Lanes {
        // SAFETY: as above, and nothing else uses the register.
        let words = unsafe { self.register(offset).read_unaligned() };
        words.map(u64::from)
    }

    fn write(&self, offset: u32, group: u32, lanes: &Lanes) {
        let register = self.register(offset).cast::<u32>();
        for (lane, &bits) in lanes.iter().enumerate() {
            if group >> lane & 1 != 0 {
                // SAFETY: as above; a register has a word of each lane.
                unsafe { register.add(lane).write_unaligned(bits as u32) };
            }
        }
    }

    fn encoded<'a>(&self, factors: &'a [Offsets], n_registers: usize) -> Encoded<'a> {
        // SAFETY: by the promise to `products_op`; no product writes a factor.
        unsafe { Encoded::at(self.0, factors, n_registers) }
    }

    /// What is behind the registers of C; the first one where the form has fewer.
    fn further(&self, product: &Product) -> [Words; MOST_FURTHER] {
        // SAFETY: by the promise to `products_op`, offsets lie in the frame; a copy is made, as a
        // product may write what is behind its C.
        (product.further).map(|offset| unsafe { self.register(offset).read_unaligned() })
    }

    #[inline(always)]
    fn sums<'a>(&self, product: &'a Product) -> Sums<'a> {
        // SAFETY: only this call uses the frame, and no reference to a sum exists.
        unsafe { Sums::at((self.0, &product.c), (self.0, &product.d)) }
    }
}

/// A product for the lanes of a group.
fn one(products: &Products, product: &Product, group: u32, frame: &Frame) {
    let mma = &products.mma;
    let args = [
        (&products.a[product.a][..], mma.a_registers()),
        (&products.b[product.b], mma.b_registers()),
        (&product.c, mma.c_registers()),
        (&product.further, mma.further_registers()),
    ];
    let args: Vec<Lanes> = args
        .iter()
        .flat_map(|&(offsets, n)| &offsets[..n])
        .map(|&offset| frame.read(offset))
        .collect();
    let mut out = [[0; WARP]; WarpOp::MAX_RESULTS];
    compute(mma, group, &args, &mut out);
    for (&offset, lanes) in product.d[..mma.d_registers()].iter().zip(&out) {
        frame.write(offset, group, lanes);
    }
}

/// As [`products_op`] for all lanes, with steps that the processor has.
///
/// # Safety
///
/// As there.
#[cfg(test)]
pub(super) unsafe fn products_by(products: &Products, frame: *mut u8, steps: &impl Steps) {
    with_default_rounding(|| {
        let mut factors = Factors::take();
        rows_by(products, &Frame(frame), &mut factors, steps);
        factors.give_back();
    });
}

fn by_rows(products: &Products, frame: &Frame) {
    let mut factors = Factors::take();
    by_any_rows(products, frame, &mut factors);
    factors.give_back();
}

fn by_any_rows(products: &Products, frame: &Frame, factors: &mut Factors) {
    #[cfg(target_arch = "x86_64")]
    if let Some(steps) = Dots::detect_fast() {
        return rows_by(products, frame, factors, &steps);
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(steps) = ByteDots::detect() {
        return rows_by(products, frame, factors, &steps);
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(steps) = Avx512::detect() {
        return rows_by(products, frame, factors, &steps);
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(steps) = Avx2::detect() {
        return rows_by(products, frame, factors, &steps);
    }
    rows_by(products, frame, factors, &Plain::<false>);
}

fn rows_by(products: &Products, frame: &Frame, factors: &mut Factors, steps: &impl Steps) {
    let mma = &products.mma;
    let sizes = Sizes::of(mma, steps);
    let Factors { a, b, complete } = factors;
    let of_a = frame.encoded(&products.a, mma.a_registers());
    let of_b = frame.encoded(&products.b, mma.b_registers());
    let has_small_a = operands::decode(mma, Side::A, of_a, a, steps);
    let has_small_b = operands::decode(mma, Side::B, of_b, b, steps);
    if mma.further_registers() != 0 {
        return one_by_one((products, sizes), frame, (a, b, complete), steps);
    }
    let tiles = Tiles {
        products,
        sizes,
        frame,
        a,
        b,
    };
    sums::multiply(mma, tiles, has_small_a || has_small_b, steps);
}

/// Products with something behind C, each of which completes its factors.
fn one_by_one(
    (products, sizes): (&Products, Sizes),
    frame: &Frame,
    (a, b, complete): (&[u32], &[u32], &mut Complete),
    steps: &impl Steps,
) {
    let mma = &products.mma;
    // Products that follow each other often share A and what is behind C for it.
    let mut set = None;
    let behind_a = mma.further_registers() - usize::from(mma.scale.is_some());
    for tile in &products.tiles {
        let product = &products.products[tile.columns[0]];
        let further = frame.further(product);
        let further = &further[..mma.further_registers()];
        let of_a = (product.a, &product.further[..behind_a]);
        if set != Some(of_a) {
            let a = sizes.a_of(a, product.a);
            set = complete.set_a(mma, a, further, steps).then_some(of_a);
        }
        match complete
            .with_b(mma, sizes.b_of(b, product.b), further, steps)
            .filter(|_| set.is_some())
        {
            Some(pair) => sums::add_pair_of(mma, pair, frame.sums(product), steps),
            None => one(products, product, u32::MAX, frame),
        }
    }
}

/// The tiles of products, whose factors are decoded.
struct Tiles<'a> {
    products: &'a Products,
    sizes: Sizes,
    frame: &'a Frame,
    a: &'a [u32],
    b: &'a [u32],
}

impl Multiply for Tiles<'_> {
    #[inline(always)]
    fn run<S: Steps, const K: usize, const C: Kind, const D: Kind>(self, steps: &S) {
        for tile in &self.products.tiles {
            self.add_tile::<S, K, C, D>(tile, steps);
        }
    }
}

impl Tiles<'_> {
    #[inline(always)]
    fn add_tile<S: Steps, const K: usize, const C: Kind, const D: Kind>(
        &self,
        tile: &Tile,
        steps: &S,
    ) {
        match tile.columns.len() {
            1 => self.add::<S, K, C, D, 1>(tile, steps),
            _ => self.add::<S, K, C, D, 2>(tile, steps),
        }
    }

    /// The products of `N` columns of a tile.
    #[inline(always)]
    fn add<S: Steps, const K: usize, const C: Kind, const D: Kind, const N: usize>(
        &self,
        tile: &Tile,
        steps: &S,
    ) {
        let (m, sizes) = (self.products.mma.m, &self.sizes);
        let columns: &[usize; N] = tile.columns.first_chunk().expect("a whole tile");
        let sums = columns.map(|column| self.frame.sums(&self.products.products[column]));
        let mut passes = [Pass::<N>::default(); MOST_ALONG_K];
        for (pass, (a, b)) in passes.iter_mut().zip(&tile.factors) {
            pass.a = sizes.a_of(self.a, *a);
            for (column, &b) in pass.b.iter_mut().zip(b) {
                *column = sizes.b_of(self.b, b);
            }
        }
        sums::add_along::<S, K, C, D, N>(m, &passes[..tile.factors.len()], &sums, steps);
    }
}
