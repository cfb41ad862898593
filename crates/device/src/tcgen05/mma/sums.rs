//! Elements of D: where they lie in tensor memory, what they start with, and how they are stored.

use std::ops::Range;

use ptxjit_ir::{Convert, NumFmt, SumFmt, eval};
use ptxjit_tile::{CANONICAL_NAN, Factor, Sums};

use super::Product;
use crate::tcgen05::stored::Matrix;
use crate::tcgen05::{COLUMNS, Ctas, LANES};

impl Product<'_> {
    /// What the sums start with.
    pub(super) fn old_d(&self, ctas: &Ctas<'_>) -> Matrix {
        let mut d = Matrix::zero(self.shape.m, self.shape.n);
        if !self.operands.adds_d || self.shape.d == SumFmt::S32 {
            return d;
        }
        let to_single = Convert::new(NumFmt::F16, NumFmt::F32);
        let scale = f32::from_bits((127 - u32::from(self.op.d_scale)) << 23);
        self.each_part(|row, columns, (cta, lane)| {
            let cells = &ctas.memory(cta).lane(lane)[self.operands.d.column..];
            for (sum, &cell) in d.row_mut(row)[columns].iter_mut().zip(cells) {
                let bits = match self.shape.d {
                    SumFmt::F16 => eval::convert(&to_single, u64::from(cell & 0xffff)) as u32,
                    _ => cell,
                };
                *sum = f32::from_bits(bits) * scale;
            }
        });
        d
    }

    /// Whether the cells of D are the sums of f32 that products are added to.
    pub(super) fn is_in_place(&self) -> bool {
        let lane_mask = &self.operands.lane_mask;
        self.shape.d == SumFmt::F32
            && self.op.d_scale == 0
            && lane_mask.iter().all(|&lanes| lanes == 0)
    }

    /// Adds A * B to D in its cells.
    pub(super) fn add_in_place(&self, ctas: &mut Ctas<'_>, a: &Matrix, b: &Matrix) {
        let k = a.columns;
        self.each_run(|rows, columns, (cta, lane)| {
            let memory = ctas.memory_mut(cta);
            if !self.operands.adds_d {
                for lane in lane..lane + rows.len() {
                    memory.lane_mut(lane)[self.operands.d.column..][..columns.len()].fill(0);
                }
            }
            let a = Factor {
                elements: &a.elements[rows.start * k..rows.end * k],
                pitch: k,
            };
            let sizes = [rows.len(), columns.len(), k];
            let b = Factor {
                elements: b.elements.get(columns.start..).unwrap_or(&[]),
                pitch: b.columns,
            };
            let sums = Sums {
                bits: &mut memory.lanes_mut(lane)[self.operands.d.column..],
                pitch: COLUMNS,
            };
            ptxjit_tile::multiply_add(a, b, sums, sizes);
        });
    }

    /// As [`Self::each_part`], with rows whose lanes follow each other together.
    fn each_run(&self, mut f: impl FnMut(Range<usize>, Range<usize>, (usize, usize))) {
        let parts = self.shape.layout.parts();
        let columns = self.shape.n / parts;
        for part in 0..parts {
            let place = |row| self.shape.layout.place(row, part);
            let mut first = 0;
            while first < self.shape.m {
                let (cta, lane) = place(first);
                let follows = |&row: &usize| place(row) == (cta, lane + row - first);
                let rows = (first..self.shape.m).take_while(follows).count();
                let columns = part * columns..(part + 1) * columns;
                f(first..first + rows, columns, (cta, self.half + lane));
                first += rows;
            }
        }
    }

    /// Calls `f` with each row of D, a range of its columns, and the CTA and the lane that hold
    /// these.
    fn each_part(&self, mut f: impl FnMut(usize, Range<usize>, (usize, usize))) {
        let parts = self.shape.layout.parts();
        let columns = self.shape.n / parts;
        for row in 0..self.shape.m {
            for part in 0..parts {
                let (cta, lane) = self.shape.layout.place(row, part);
                f(
                    row,
                    part * columns..(part + 1) * columns,
                    (cta, self.half + lane),
                );
            }
        }
    }

    /// Puts D in its cells.
    pub(super) fn store(&self, ctas: &mut Ctas<'_>, d: &Matrix) {
        let to_half = Convert::new(NumFmt::F32, NumFmt::F16);
        self.each_part(|row, columns, (cta, lane)| {
            let number = cta * LANES + lane;
            let mask = self.operands.lane_mask.get(number / 32).copied();
            if mask.unwrap_or(0) >> (number % 32) & 1 == 1 {
                return;
            }
            let cells = &mut ctas.memory_mut(cta).lane_mut(lane)[self.operands.d.column..];
            for (cell, &sum) in cells.iter_mut().zip(&d.row(row)[columns]) {
                let bits = if sum.is_nan() {
                    CANONICAL_NAN
                } else {
                    sum.to_bits()
                };
                *cell = match self.shape.d {
                    SumFmt::F16 => eval::convert(&to_half, bits.into()) as u32,
                    SumFmt::S32 => self.integer(*cell, sum),
                    SumFmt::F32 | SumFmt::F64 => bits,
                };
            }
        });
    }

    /// The sum of an integer and products, which are a whole number that f32 has exactly: at most
    /// 64 products of 16 bits.
    fn integer(&self, old: u32, products: f32) -> u32 {
        let old = if self.operands.adds_d { old as i32 } else { 0 };
        let products = products as i32;
        if self.shape.saturates {
            old.saturating_add(products) as u32
        } else {
            old.wrapping_add(products) as u32
        }
    }
}
