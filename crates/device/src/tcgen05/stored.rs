//! Matrices of numbers, and how they are read from shared memory.

use ptxjit_ir::MatrixFmt;

use super::elements::{decode_units, per_unit};
use super::matrix::{Descriptor, Major, UNIT, unit_at};
use crate::Fault;

/// A matrix by rows.
pub(super) struct Matrix {
    pub(super) columns: usize,
    pub(super) elements: Vec<f32>,
}

impl Matrix {
    pub(super) fn zero(rows: usize, columns: usize) -> Matrix {
        Matrix {
            columns,
            elements: vec![0.0; rows * columns],
        }
    }

    pub(super) fn row(&self, row: usize) -> &[f32] {
        &self.elements[row * self.columns..][..self.columns]
    }

    pub(super) fn row_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.elements[row * self.columns..][..self.columns]
    }
}

impl Matrix {
    /// Writes the columns as rows, `pitch` elements from one to the next.
    pub(super) fn transpose(&self, to: &mut [f32], pitch: usize) {
        for (column, row) in self.elements.chunks_exact(self.columns).enumerate() {
            for (n, &element) in row.iter().enumerate() {
                to[n * pitch + column] = element;
            }
        }
    }
}

/// A or B in shared memory.
pub(super) struct Stored {
    pub(super) descriptor: Descriptor,
    pub(super) fmt: MatrixFmt,
    pub(super) major: Major,
    pub(super) what: &'static str,
}

impl Stored {
    /// What a CTA has of rows of A or columns of B, `k` elements each: by these, or by rows along K
    /// if their elements do not lie side by side.
    pub(super) fn read(
        &self,
        shared: &[u8],
        rows: std::ops::Range<usize>,
        k: usize,
    ) -> Result<Matrix, Fault> {
        let n = per_unit(self.fmt);
        let (outer, inner, columns) = match self.major {
            Major::K => (rows.clone(), k.div_ceil(n), k),
            Major::Mn => (rows.start / n..rows.end.div_ceil(n), k, rows.len()),
        };
        let mut bytes = Vec::with_capacity(outer.len() * inner * UNIT);
        let mut take = |outer, inner| {
            let at = self.descriptor.unit(self.major, outer, inner);
            bytes.extend_from_slice(unit_at(shared, at, self.what)?);
            Ok::<_, Fault>(())
        };
        match self.major {
            Major::K => outer
                .clone()
                .try_for_each(|outer| (0..inner).try_for_each(|inner| take(outer, inner)))?,
            Major::Mn => (0..inner)
                .try_for_each(|inner| outer.clone().try_for_each(|outer| take(outer, inner)))?,
        }
        let mut elements = vec![0.0; bytes.len() / UNIT * n];
        decode_units(self.fmt, &bytes, &mut elements);
        let (width, first) = match self.major {
            Major::K => (inner * n, 0),
            Major::Mn => (outer.len() * n, rows.start % n),
        };
        if width != columns {
            let cut = |row: &[f32]| row[first..first + columns].to_vec();
            elements = elements.chunks_exact(width).flat_map(cut).collect();
        }
        Ok(Matrix { columns, elements })
    }
}
