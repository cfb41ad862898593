//! `tcgen05.mma`: D = A * B + D, with D in tensor memory, A there or in shared memory, and B in
//! shared memory. PTX ISA, "TensorCore 5th Generation Matrix Multiply and accumulate Operations".
//!
//! Each element of D starts with its old value, or zero, goes along K, and is rounded to the
//! nearest f32 at each step, as in the other products; factors of blocks are multiplied with the
//! elements without rounding. Of integers the sum is exact and is wrapped or clamped once.
//!
//! [`sums`] has D's elements and their cells.

mod sums;

use ptxjit_ir::TensorMma;
use ptxjit_tile::Sums;

use super::columns::ZeroColumns;
use super::elements::{decode_cells, factor};
use super::matrix::{Descriptor, Major, Swizzle};
use super::shape::{Factors, Layout, Shape};
use super::stored::{Matrix, Stored};
use super::{Ctas, copy};
use crate::Fault;

/// Operands of [`ptxjit_ir::TensorMemoryOp::Mma`].
pub(super) struct Operands {
    d: Place,
    /// An address, or the descriptor.
    a: u64,
    b: u64,
    descriptor: u32,
    adds_d: bool,
    metadata: Place,
    factors: [Place; 2],
    lane_mask: Vec<u32>,
    column_mask: u64,
}

/// An address in tensor memory.
#[derive(Copy, Clone, Default)]
struct Place {
    lane: usize,
    column: usize,
}

impl Place {
    fn new(address: u64) -> Place {
        Place {
            lane: (address >> 16 & 0xffff) as usize,
            column: (address & 0xffff) as usize,
        }
    }
}

impl Operands {
    pub(super) fn new(op: &TensorMma, args: &[u64]) -> Operands {
        let mut args = args.iter().copied();
        let mut next = || args.next().unwrap_or(0);
        let (d, a, b) = (Place::new(next()), next(), next());
        let (descriptor, adds_d) = (next() as u32, next() & 1 == 1);
        let mut place = |is_there: bool| match is_there {
            true => Place::new(next()),
            false => Place::default(),
        };
        let metadata = place(op.sparse);
        let factors = [(); 2].map(|()| place(op.scale.is_some()));
        let lane_mask = (0..op.mask_words()).map(|_| next() as u32).collect();
        Operands {
            d,
            a,
            b,
            descriptor,
            adds_d,
            metadata,
            factors,
            lane_mask,
            column_mask: if op.column_mask { next() } else { 0 },
        }
    }
}

/// A product under way.
struct Product<'a> {
    op: &'a TensorMma,
    shape: Shape,
    operands: &'a Operands,
    /// The first lane of half of a quarter: 0 or 16.
    half: usize,
}

/// Executes a product.
pub(super) fn execute(
    op: &TensorMma,
    ctas: &mut Ctas<'_>,
    operands: &Operands,
) -> Result<(), Fault> {
    let shape = Shape::decode(op, operands.descriptor)?;
    let product = Product {
        op,
        half: half(shape.layout, operands.d)?,
        shape,
        operands,
    };
    product.check_memory(ctas)?;
    let columns = ZeroColumns::decode(operands.column_mask, &shape)?;
    let mut a = if op.a_in_tensor_memory {
        product.a_of_tensor_memory(ctas)
    } else {
        product.a_of_shared_memory(ctas)?
    };
    let mut kept = Vec::new();
    if op.sparse {
        (a, kept) = product.spread(ctas, &a);
    }
    let mut b = product.b(ctas, columns.shift)?;
    columns.clear(&mut b);
    if shape.factors.is_none() && product.is_in_place() && !meets_zeros(&b, &kept) {
        product.add_in_place(ctas, &a, &b);
    } else {
        let mut d = product.old_d(ctas);
        match shape.factors {
            Some(factors) => product.add_scaled(ctas, factors, (&mut a, &mut b), &kept, &mut d),
            None => add(&a, &b, &kept, &mut d),
        }
        product.store(ctas, &d);
    }
    if op.shifts_a {
        product.shift_a(ctas);
    }
    Ok(())
}

/// Whether the zeros of a sparse A would meet an infinity or a NaN of B.
fn meets_zeros(b: &Matrix, kept: &[bool]) -> bool {
    !kept.is_empty() && !b.elements.iter().all(|x| x.is_finite())
}

/// Adds A * B to D. `kept` tells which elements a sparse A has; it is empty for others.
fn add(a: &Matrix, b: &Matrix, kept: &[bool], d: &mut Matrix) {
    if !meets_zeros(b, kept) {
        let (n, rows) = (d.columns, d.elements.len() / d.columns);
        let mut bits: Vec<u32> = d.elements.iter().map(|sum| sum.to_bits()).collect();
        let sums = Sums {
            bits: &mut bits,
            pitch: n,
        };
        ptxjit_tile::multiply_add(a.factor(), b.factor(), sums, [rows, n, a.columns]);
        for (sum, bits) in d.elements.iter_mut().zip(bits) {
            *sum = f32::from_bits(bits);
        }
        return;
    }
    for (row, sums) in d.elements.chunks_exact_mut(d.columns).enumerate() {
        let kept = &kept[row * a.columns..][..a.columns];
        for (k_idx, (a, &is_kept)) in a.row(row).iter().zip(kept).enumerate() {
            if !is_kept {
                continue;
            }
            for (sum, &b) in sums.iter_mut().zip(b.row(k_idx)) {
                *sum = a.mul_add(b, *sum);
            }
        }
    }
}

/// The first lane that D takes in a quarter.
fn half(layout: Layout, d: Place) -> Result<usize, Fault> {
    let is_right = d.lane == 0 || d.lane == 16 && layout.is_half();
    if is_right {
        return Ok(d.lane);
    }
    let rule = if layout.is_half() { "0 or 16" } else { "0" };
    Err(Fault::refused(format!(
        "D of `tcgen05.mma` begins in lane {}: it must be {rule} for this shape",
        d.lane
    )))
}

impl Product<'_> {
    /// Refuses columns that are not allocated, in any of the CTAs.
    fn check_memory(&self, ctas: &Ctas<'_>) -> Result<(), Fault> {
        let Shape { m, n, layout, .. } = self.shape;
        let mut taken = vec![(self.operands.d, n / layout.parts(), "D")];
        if self.op.a_in_tensor_memory {
            let place = Place::new(self.operands.a);
            let bits = self.shape.stored_k(self.op) * self.shape.a.bits();
            taken.push((place, bits / 32, "A"));
            self.check_lane(place, "A")?;
        }
        if self.op.sparse {
            let place = self.operands.metadata;
            let first = Place {
                column: place.column + self.shape.selector,
                ..place
            };
            let n = match self.shape.a.bits() {
                16.. => 1,
                _ => 2,
            };
            taken.push((first, n, "the metadata"));
            self.check_lane(place, "the metadata")?;
        }
        if let Some(factors) = self.shape.factors {
            let rows = if self.op.pair { m / 2 } else { m };
            let [a, b] = self.operands.factors;
            taken.push((a, factors.columns(rows, factors.a_id), "the factors of A"));
            let columns = factors.columns(n / self.halves(false), factors.b_id);
            taken.push((b, columns, "the factors of B"));
        }
        for memory in ctas.memories() {
            for &(place, count, what) in &taken {
                let what = format!("`tcgen05.mma`: {what}");
                memory.check(place.column as u32, count as u32, &what)?;
            }
        }
        Ok(())
    }

    /// A and the metadata lie in the same lanes as D.
    fn check_lane(&self, place: Place, what: &str) -> Result<(), Fault> {
        if place.lane == self.half {
            return Ok(());
        }
        Err(Fault::refused(format!(
            "`tcgen05.mma`: {what} begins in lane {}, and D in lane {}",
            place.lane, self.half
        )))
    }

    /// The descriptor of a matrix in shared memory.
    fn descriptor(&self, bits: u64, major: Major, what: &str) -> Result<Descriptor, Fault> {
        let descriptor = Descriptor::decode(bits, self.op.wide_k, what)?;
        let is_word = self.shape.a.bits() == 32;
        let is_by_32 = descriptor.swizzle == Swizzle::Bytes128By32;
        if major == Major::Mn && is_word != is_by_32 {
            let rule = if is_word { "needs" } else { "cannot have" };
            return Err(Fault::refused(format!(
                "{what} is transposed and {rule} 128-byte swizzling by 32 bytes"
            )));
        }
        if major == Major::Mn && descriptor.is_absolute() {
            return Err(Fault::refused(format!(
                "{what} is transposed and cannot lie in two pieces"
            )));
        }
        Ok(descriptor)
    }

    /// A from tensor memory, without the zeros of a sparse one.
    fn a_of_tensor_memory(&self, ctas: &Ctas<'_>) -> Matrix {
        let place = Place::new(self.operands.a);
        let mut a = Matrix::zero(self.shape.m, self.shape.stored_k(self.op));
        for row in 0..self.shape.m {
            let (cta, lane) = self.shape.layout.place(row, 0);
            let cells = &ctas.memory(cta).lane(self.half + lane)[place.column..];
            decode_cells(self.shape.a, cells, a.row_mut(row));
        }
        negate(&mut a, self.shape.negates_a);
        a
    }

    /// A from shared memory: half of it from that of each CTA of a pair.
    fn a_of_shared_memory(&self, ctas: &Ctas<'_>) -> Result<Matrix, Fault> {
        const WHAT: &str = "A of `tcgen05.mma`";
        let Shape {
            m,
            a: fmt,
            a_major: major,
            ..
        } = self.shape;
        let descriptor = self.descriptor(self.operands.a, major, WHAT)?;
        let stored = Stored {
            descriptor,
            fmt,
            major,
            what: WHAT,
        };
        let k = self.shape.stored_k(self.op);
        let rows = m / ctas.count();
        let mut a = if major == Major::K && rows == m {
            stored.read(ctas.shared(0), 0..m, k)?
        } else {
            let mut a = Matrix::zero(m, k);
            for (cta, to) in a.elements.chunks_exact_mut(rows * k).enumerate() {
                let part = stored.read(ctas.shared(cta), 0..rows, k)?;
                match major {
                    Major::K => to.copy_from_slice(&part.elements),
                    Major::Mn => part.transpose(to, k),
                }
            }
            a
        };
        negate(&mut a, self.shape.negates_a);
        Ok(a)
    }

    /// B by its rows, from the column `shift` on: half of it from the shared memory of each CTA of
    /// a pair.
    fn b(&self, ctas: &Ctas<'_>, shift: usize) -> Result<Matrix, Fault> {
        const WHAT: &str = "B of `tcgen05.mma`";
        let Shape {
            n,
            k,
            b: fmt,
            b_major: major,
            ..
        } = self.shape;
        let descriptor = self.descriptor(self.operands.b, major, WHAT)?;
        let stored = Stored {
            descriptor,
            fmt,
            major,
            what: WHAT,
        };
        let columns = n / ctas.count();
        let mut b = if major == Major::Mn && columns == n {
            stored.read(ctas.shared(0), shift..shift + n, k)?
        } else {
            let mut b = Matrix::zero(k, n);
            for cta in 0..ctas.count() {
                let part = stored.read(ctas.shared(cta), shift..shift + columns, k)?;
                match major {
                    Major::K => part.transpose(&mut b.elements[cta * columns..], n),
                    Major::Mn => {
                        for k_idx in 0..k {
                            let to = &mut b.row_mut(k_idx)[cta * columns..][..columns];
                            to.copy_from_slice(part.row(k_idx));
                        }
                    }
                }
            }
            b
        };
        negate(&mut b, self.shape.negates_b);
        Ok(b)
    }

    /// A sparse A with zeros for what it does not store, and which elements it stores. PTX ISA,
    /// "Sparse Matrices".
    fn spread(&self, ctas: &Ctas<'_>, stored: &Matrix) -> (Matrix, Vec<bool>) {
        let (kept, whole) = match self.shape.a.bits() {
            32 => (1, 2),
            4 => (4, 8),
            _ => (2, 4),
        };
        let mut a = Matrix::zero(self.shape.m, self.shape.k);
        let mut is_kept = vec![false; self.shape.m * self.shape.k];
        for row in 0..self.shape.m {
            for chunk in 0..self.shape.k / whole {
                let code = self.metadata(ctas, row, chunk);
                for i in 0..kept {
                    // Two bits name one of four: elements, pairs of them, or halves of one.
                    let within = match kept {
                        1 => (code & 3) as usize / 2,
                        2 => (code >> (2 * i) & 3) as usize,
                        _ => (code >> (i / 2 * 2) & 3) as usize * 2 + i % 2,
                    };
                    let k_idx = chunk * whole + within;
                    a.row_mut(row)[k_idx] = stored.row(row)[chunk * kept + i];
                    is_kept[row * self.shape.k + k_idx] = true;
                }
            }
        }
        (a, is_kept)
    }

    /// The four bits of metadata of a chunk of a row of A. PTX ISA, "Sparsity selector".
    fn metadata(&self, ctas: &Ctas<'_>, row: usize, chunk: usize) -> u32 {
        let first = self.operands.metadata.column;
        let (cta, lane) = self.shape.layout.place(row, 0);
        let lane = self.half + lane;
        if self.shape.a.bits() >= 16 {
            // Sixteen rows share sixteen lanes: one for eight rows and half of the chunks each.
            let lane = lane / 16 * 16 + row % 8 + chunk / 4 * 8;
            let word = ctas.memory(cta).lane(lane)[first + self.shape.selector];
            word >> (16 * (row / 8 % 2) + 4 * (chunk % 4)) & 0xf
        } else {
            let word = ctas.memory(cta).lane(lane)[first + chunk / 8];
            word >> (4 * (chunk % 8)) & 0xf
        }
    }

    /// Adds the products of elements and factors to D.
    fn add_scaled(
        &self,
        ctas: &Ctas<'_>,
        factors: Factors,
        (a, b): (&mut Matrix, &mut Matrix),
        kept: &[bool],
        d: &mut Matrix,
    ) {
        let k = self.shape.k;
        let of_a: Vec<f64> = self.factors(ctas, factors, true);
        let of_b: Vec<f64> = self.factors(ctas, factors, false);
        let block = |k_idx: usize| k_idx * factors.blocks / k;
        let scaled_a = |row: usize, k_idx: usize| {
            f64::from(a.row(row)[k_idx]) * of_a[row * factors.blocks + block(k_idx)]
        };
        let scaled_b = |k_idx: usize, column: usize| {
            f64::from(b.row(k_idx)[column]) * of_b[column * factors.blocks + block(k_idx)]
        };
        let wide_a: Vec<f64> = (0..self.shape.m * k)
            .map(|n| scaled_a(n / k, n % k))
            .collect();
        let columns = self.shape.n;
        let wide_b: Vec<f64> = (0..k * columns)
            .map(|n| scaled_b(n / columns, n % columns))
            .collect();
        let is_exact = |&x: &f64| x.is_nan() || f64::from(x as f32) == x;
        if wide_a.iter().chain(&wide_b).all(is_exact) {
            let narrow = |wide: Vec<f64>, matrix: &mut Matrix| {
                matrix.elements = wide.into_iter().map(|x| x as f32).collect();
            };
            narrow(wide_a, a);
            narrow(wide_b, b);
            return add(a, b, kept, d);
        }
        // The sum of f64 is rounded twice, which makes no difference: a product has 16 bits, so
        // what the first rounding cuts off is too far from the middle between two f32.
        for (row, sums) in d.elements.chunks_exact_mut(columns).enumerate() {
            for (k_idx, a) in wide_a[row * k..][..k].iter().enumerate() {
                if kept.get(row * k + k_idx) == Some(&false) {
                    continue;
                }
                for (sum, b) in sums.iter_mut().zip(&wide_b[k_idx * columns..]) {
                    *sum = (f64::from(*sum) + a * b) as f32;
                }
            }
        }
    }

    /// Groups of lanes that hold the factors of A, or of B, each of a part: in one layout the
    /// second half of the columns is worked on where the upper lanes are.
    fn halves(&self, of_a: bool) -> usize {
        if !of_a && self.shape.layout == Layout::B {
            2
        } else {
            1
        }
    }

    /// The factors of all rows of A, or of all columns of B. PTX ISA, "Scale Factor A ID", "Scale
    /// Factor B ID".
    fn factors(&self, ctas: &Ctas<'_>, factors: Factors, of_a: bool) -> Vec<f64> {
        let (count, place, id) = match of_a {
            true => (self.shape.m, self.operands.factors[0], factors.a_id),
            false => (self.shape.n, self.operands.factors[1], factors.b_id),
        };
        let rows = if of_a { count / ctas.count() } else { count };
        let halves = self.halves(of_a);
        let step = Factors::group(rows) / halves;
        let mut out = Vec::with_capacity(count * factors.blocks);
        for n in 0..count {
            let (cta, within) = (n / rows, n % rows);
            let (half, within) = (within / (rows / halves), within % (rows / halves));
            let cells = ctas.memory(cta).lane(within % 32 + 64 * half);
            for block in 0..factors.blocks {
                let byte = id + block;
                let cell = cells[place.column + within / 32 + step * (byte / 4)];
                out.push(factor(factors.fmt, (cell >> (8 * (byte % 4))) as u8));
            }
        }
        out
    }

    /// `.ashift`: the product has taken A as it was; then its rows move.
    fn shift_a(&self, ctas: &mut Ctas<'_>) {
        let place = Place::new(self.operands.a);
        let columns = self.shape.stored_k(self.op) * self.shape.a.bits() / 32;
        for cta in 0..ctas.count() {
            let memory = ctas.memory_mut(cta);
            copy::shift_cells(memory, 0..super::LANES, place.column, columns);
        }
    }
}

impl Factors {
    /// Columns from one group of four factors of so many rows to the next.
    fn group(rows: usize) -> usize {
        4 * rows.div_ceil(128)
    }

    /// Columns that the factors of so many rows take.
    fn columns(self, rows: usize, id: usize) -> usize {
        let groups = (id + self.blocks - 1) / 4;
        rows.div_ceil(32) + Factors::group(rows) * groups
    }
}

fn negate(matrix: &mut Matrix, negates: bool) {
    if negates {
        matrix.elements.iter_mut().for_each(|x| *x = -*x);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of two elements, of which the sparse A has one each.
    #[test]
    fn zeros_of_a_sparse_matrix_meet_no_infinity() {
        let matrix = |elements: [f32; 4]| Matrix {
            columns: 2,
            elements: elements.to_vec(),
        };
        let (a, kept) = (matrix([2.0, 0.0, 0.0, 3.0]), [true, false, false, true]);
        let b = matrix([1.0, 4.0, f32::INFINITY, 5.0]);
        let mut d = matrix([10.0, 20.0, 30.0, 40.0]);
        add(&a, &b, &kept, &mut d);
        assert_eq!(d.elements, [12.0, 28.0, f32::INFINITY, 55.0]);
        let mut d = matrix([0.0; 4]);
        add(&a, &b, &[], &mut d);
        assert!(d.elements[0].is_nan(), "{:?}", d.elements);
    }
}
