//! Products of one form that a whole warp computes in sequence, in registers that lie in a
//! frame.
//!
//! Each factor is decoded once for all products that it is in, and neighbors that share A go
//! through the multiplying loops together.

use std::cell::Cell;

use ptxjit_ir::{Mma, WarpOp};
use serde::{Deserialize, Serialize};

use super::operands::{Factor, MAX_WORDS, Side, decode};
#[cfg(target_arch = "x86_64")]
use super::steps::Avx2;
use super::steps::{Plain, Steps};
use super::sums::{self, Sums};
use super::{Words, compute, is_by_rows};
use crate::float_env::with_default_rounding;
use crate::warp_ops::{Lanes, WARP};

/// No form has more registers of A, B, C or D.
pub const MOST_REGISTERS: usize = 8;
/// No form has more registers behind those of C.
pub const MOST_FURTHER: usize = 3;
/// Factors decoded at a time: with as many values as any form has they take half of a first-level
/// cache of 32 KiB, and no more than 16 of them are common in kernels.
pub const MOST_A: usize = 4;
/// As [`MOST_A`], for B.
pub const MOST_B: usize = 8;

/// Where the registers of a matrix are, in bytes from the frame's start. Those that the form does
/// not have are zero.
pub type Offsets = [u32; MOST_REGISTERS];

/// Products of one form, in order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Products {
    pub mma: Mma,
    /// The different factors: at most [`MOST_A`] and [`MOST_B`]. No product writes them.
    pub a: Vec<Offsets>,
    pub b: Vec<Offsets>,
    pub products: Vec<Product>,
}

/// One product.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Product {
    /// Which factors.
    pub a: usize,
    pub b: usize,
    pub c: Offsets,
    pub further: [u32; MOST_FURTHER],
    /// These can be the registers of C.
    pub d: Offsets,
    /// Whether the next product has the same A and does not read this one's D.
    pub goes_with_next: bool,
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
        u32::MAX if is_by_rows(&products.mma) => by_rows(products, &frame),
        group => one_by_one(products, group, &frame),
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

    #[inline(always)]
    fn factor<'a>(&self, offsets: &'a Offsets, n: usize) -> Factor<'a> {
        // SAFETY: by the promise to `products_op`; no product writes a factor.
        unsafe { Factor::at(self.0, offsets, n) }
    }

    #[inline(always)]
    fn sums<'a>(&self, product: &'a Product) -> Sums<'a> {
        // SAFETY: only this call uses the frame, and no reference to a sum exists.
        unsafe { Sums::at((self.0, &product.c), (self.0, &product.d)) }
    }
}

/// What any product can have, or some of the lanes.
fn one_by_one(products: &Products, group: u32, frame: &Frame) {
    let mma = &products.mma;
    for product in &products.products {
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
}

/// Decoded factors.
#[repr(align(64))]
struct Factors {
    a: [[u32; MAX_WORDS]; MOST_A],
    b: [[u32; MAX_WORDS / 2]; MOST_B],
}

thread_local! {
    static FACTORS: Cell<Option<Box<Factors>>> = const { Cell::new(None) };
}

fn by_rows(products: &Products, frame: &Frame) {
    let mut factors = FACTORS.take().unwrap_or_else(|| {
        Box::new(Factors {
            a: [[0; MAX_WORDS]; MOST_A],
            b: [[0; MAX_WORDS / 2]; MOST_B],
        })
    });
    by_any_rows(products, frame, &mut factors);
    FACTORS.set(Some(factors));
}

fn by_any_rows(products: &Products, frame: &Frame, factors: &mut Factors) {
    #[cfg(target_arch = "x86_64")]
    if let Some(steps) = Avx2::detect() {
        // SAFETY: the processor has these instructions.
        return unsafe { by_vectors(products, frame, factors, &steps) };
    }
    rows_by(products, frame, factors, &Plain);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn by_vectors(products: &Products, frame: &Frame, factors: &mut Factors, steps: &Avx2) {
    rows_by(products, frame, factors, steps);
}

#[inline(always)]
fn rows_by(products: &Products, frame: &Frame, factors: &mut Factors, steps: &impl Steps) {
    let mma = &products.mma;
    for (offsets, words) in products.a.iter().zip(&mut factors.a) {
        let registers = frame.factor(offsets, mma.a_registers());
        decode(mma, Side::A, registers, words, steps);
    }
    for (offsets, words) in products.b.iter().zip(&mut factors.b) {
        let registers = frame.factor(offsets, mma.b_registers());
        decode(mma, Side::B, registers, words, steps);
    }
    let mut rest = &products.products[..];
    while let [first, behind @ ..] = rest {
        let a = &factors.a[first.a][..];
        let b = &factors.b[first.b][..];
        rest = behind;
        match behind {
            [second, behind @ ..] if first.goes_with_next => {
                rest = behind;
                let both = [frame.sums(first), frame.sums(second)];
                sums::add(mma, a, [b, &factors.b[second.b]], both, steps);
            }
            _ => sums::add(mma, a, [b], [frame.sums(first)], steps),
        }
    }
}
