//! Products of matrices, element by element.
//!
//! The ISA leaves open in which order products are added up and how sums of floats are rounded.
//! Here each sum starts with C, goes along K and takes one rounding per element: in f64 as the
//! instruction says, in all other float formats to the nearest f32. D is rounded to f16 in the end,
//! if it is f16. With block scaling the products of elements and factors are exact. Sums of
//! integers are exact before they are wrapped or clamped. What a sparse A does not store takes no
//! part: an infinity of B there is no NaN in D, as on GPUs.

use super::{convert, fma};
use crate::mma::{MMA_COLUMNS, MatrixFmt, Mma, Place, ProductOp, Scale, SumFmt};
use crate::types::{Convert, FloatFmt, FloatMode, NumFmt};

/// A register of each lane.
pub type LaneRegisters = [u64; 32];

/// The registers of D, from those of A, B and C, the metadata and the factors. Missing operands are
/// zero.
pub fn mma(mma: &Mma, args: &[LaneRegisters]) -> Vec<LaneRegisters> {
    let split = |at: usize| args.split_at(at.min(args.len()));
    let (a, rest) = split(mma.a_registers());
    let (b, rest) = rest.split_at(mma.b_registers().min(rest.len()));
    let (c, further) = rest.split_at(mma.c_registers().min(rest.len()));
    let a = collect(
        [mma.n_products(), mma.m, mma.stored_k()],
        a,
        mma.a.bits(),
        |lane, i| mma.place_in_a(lane, i),
    );
    let metadata = match (mma.selector, further) {
        (Some(selector), [metadata, ..]) => Some((selector, metadata)),
        _ => None,
    };
    let factors = match (mma.scale, further) {
        (Some(scale), [.., of_a, of_b]) => Some((scale, of_a, of_b)),
        _ => None,
    };
    let b = collect(
        [mma.n_products(), mma.k, MMA_COLUMNS],
        b,
        mma.b.bits(),
        |lane, i| mma.place_in_b(lane, i),
    );
    let sums = collect(
        [mma.n_products(), mma.m, MMA_COLUMNS],
        c,
        sum_bits(mma.c),
        |lane, i| mma.place_of_sum(mma.c, lane, i),
    );
    let mut out = vec![[0; 32]; mma.d_registers()];
    let (n, bits) = (mma.d.per_register(), sum_bits(mma.d));
    for (lane, i) in (0..32).flat_map(|lane| (0..mma.sums()).map(move |i| (lane, i))) {
        let Place {
            product,
            row,
            column,
        } = mma.place_of_sum(mma.d, lane, i);
        let pairs = (0..mma.stored_k()).map(|i| {
            let k = match metadata {
                Some((selector, metadata)) => place_in_row(mma, selector, metadata, row, i),
                None => i,
            };
            (a.at(product, row, i), b.at(product, k, column))
        });
        let c = sums.at(product, row, column);
        let sum = match factors {
            Some((scale, of_a, of_b)) => {
                let factors = (of_a[4 * (row % 8) + row / 8], of_b[4 * column]);
                scaled_sum(mma, scale, factors, c, pairs)
            }
            None => sum(mma, c, pairs),
        };
        out[i / n][lane] |= sum << (i % n * bits);
    }
    out
}

/// Matrices of the same size, one after the other, by rows.
struct Matrices {
    rows: usize,
    columns: usize,
    elements: Vec<u64>,
}

impl Matrices {
    fn at(&self, product: usize, row: usize, column: usize) -> u64 {
        self.elements[(product * self.rows + row) * self.columns + column]
    }
}

/// Puts the elements of the lanes' fragments in their places.
fn collect(
    [products, rows, columns]: [usize; 3],
    registers: &[LaneRegisters],
    bits: usize,
    place: impl Fn(usize, usize) -> Place,
) -> Matrices {
    let mut elements = vec![0; products * rows * columns];
    let width = if bits == 64 { 64 } else { 32 };
    let mask = u64::MAX >> (64 - bits);
    for lane in 0..32 {
        for (register, of_lanes) in registers.iter().enumerate() {
            for within in 0..width / bits {
                let at = place(lane, register * (width / bits) + within);
                let element = of_lanes[lane] >> (within * bits) & mask;
                elements[(at.product * rows + at.row) * columns + at.column] = element;
            }
        }
    }
    Matrices {
        rows,
        columns,
        elements,
    }
}

/// The column of A that a stored element of a row has. PTX ISA section 9.7.14.6.1, "Sparse matrix
/// storage".
fn place_in_row(
    mma: &Mma,
    selector: u8,
    metadata: &LaneRegisters,
    row: usize,
    stored: usize,
) -> usize {
    let chunk = mma.chunk();
    let (n, i) = (stored / chunk.stored, stored % chunk.stored);
    let (lane, from) = mma.place_of_metadata(selector, row, n);
    let places = metadata[lane] >> from & 0xf;
    // Two bits name one of four: elements, pairs of them if they have four bits, or halves of one
    // if it has 32.
    let within = match chunk.stored {
        1 => (places & 3) as usize / 2,
        2 => (places >> (2 * i) & 3) as usize,
        _ => (places >> (i / 2 * 2) & 3) as usize * 2 + i % 2,
    };
    n * chunk.whole + within
}

const fn sum_bits(fmt: SumFmt) -> usize {
    match fmt {
        SumFmt::F16 => 16,
        SumFmt::F32 | SumFmt::S32 => 32,
        SumFmt::F64 => 64,
    }
}

/// One element of D.
fn sum(mma: &Mma, c: u64, pairs: impl Iterator<Item = (u64, u64)>) -> u64 {
    match mma.c {
        SumFmt::S32 => {
            let products = pairs.map(|(a, b)| match mma.op {
                ProductOp::Mul => integer(mma.a, a) * integer(mma.b, b),
                ProductOp::And => (a & b) as i64,
                ProductOp::Xor => (a ^ b) as i64,
            });
            let sum = i64::from(c as u32 as i32) + products.sum::<i64>();
            let sum = if mma.saturates {
                sum.clamp(i32::MIN.into(), i32::MAX.into())
            } else {
                sum
            };
            u64::from(sum as u32)
        }
        SumFmt::F64 => {
            let mode = FloatMode {
                round: mma.round,
                ftz: false,
            };
            pairs.fold(c, |sum, (a, b)| fma(FloatFmt::F64, mode, a, b, sum))
        }
        SumFmt::F16 | SumFmt::F32 => {
            let c = if mma.c == SumFmt::F16 {
                convert(&Convert::new(NumFmt::F16, NumFmt::F32), c)
            } else {
                c
            };
            let sum = pairs.fold(c, |sum, (a, b)| {
                let (a, b) = (matrix_element(mma.a, a), matrix_element(mma.b, b));
                fma(FloatFmt::F32, FloatMode::RN, a, b, sum)
            });
            if mma.d == SumFmt::F16 {
                convert(&Convert::new(NumFmt::F32, NumFmt::F16), sum)
            } else {
                sum
            }
        }
    }
}

/// One element of D in f32, with factors of the blocks of a row of A and of a column of B in the
/// bytes of two words.
fn scaled_sum(
    mma: &Mma,
    scale: Scale,
    (of_a, of_b): (u64, u64),
    c: u64,
    pairs: impl Iterator<Item = (u64, u64)>,
) -> u64 {
    let factor = |word: u64, block: usize| {
        let mask = if scale.fmt == NumFmt::E4m3 {
            0x7f
        } else {
            0xff
        };
        let bits = convert(
            &Convert::new(scale.fmt, NumFmt::F32),
            word >> (8 * block) & mask,
        );
        f64::from(f32::from_bits(bits as u32))
    };
    let value = |fmt, element| f64::from(f32::from_bits(matrix_element(fmt, element) as u32));
    let mut sum = f32::from_bits(c as u32);
    for (i, (a, b)) in pairs.enumerate() {
        let block = i * scale.blocks / mma.stored_k();
        let product =
            value(mma.a, a) * value(mma.b, b) * (factor(of_a, block) * factor(of_b, block));
        sum = (f64::from(sum) + product) as f32;
    }
    if sum.is_nan() {
        return 0x7fff_ffff;
    }
    sum.to_bits().into()
}

/// An element's value as an integer.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are unsigned")]
fn integer(fmt: MatrixFmt, element: u64) -> i64 {
    match fmt {
        MatrixFmt::S8 => i64::from(element as u8 as i8),
        MatrixFmt::S4 => i64::from((element as u8 as i8) << 4 >> 4),
        _ => element as i64,
    }
}

/// The value of an element of a matrix of floats, other than f64, as the bits of an f32, in which
/// all formats are exact.
pub fn matrix_element(fmt: MatrixFmt, element: u64) -> u64 {
    let (from, bits) = match fmt {
        MatrixFmt::F16 => (NumFmt::F16, element),
        MatrixFmt::Bf16 => (NumFmt::Bf16, element),
        MatrixFmt::E4m3 => (NumFmt::E4m3, element),
        MatrixFmt::E5m2 => (NumFmt::E5m2, element),
        MatrixFmt::E3m2 => (NumFmt::E3m2, element & 0x3f),
        MatrixFmt::E2m3 => (NumFmt::E2m3, element & 0x3f),
        MatrixFmt::E2m1 => (NumFmt::E2m1, element >> 2 & 0xf),
        MatrixFmt::PackedE2m1 => (NumFmt::E2m1, element),
        MatrixFmt::Tf32
        | MatrixFmt::F64
        | MatrixFmt::S8
        | MatrixFmt::U8
        | MatrixFmt::S4
        | MatrixFmt::U4
        | MatrixFmt::B1 => (NumFmt::F32, element & 0xffff_e000),
    };
    if from == NumFmt::F32 {
        return bits;
    }
    convert(&Convert::new(from, NumFmt::F32), bits)
}
