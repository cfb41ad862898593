//! Matrices of numbers, and how they are read from shared memory.

use ptxjit_ir::MatrixFmt;
use ptxjit_tile::{Factor, Outside};
use smallvec::SmallVec;

use super::elements::{decode_halves, decode_unit, per_unit};
use super::matrix::{Descriptor, Major, Units, outside, unit_at};
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
        let sizes = [self.elements.len() / self.columns, self.columns];
        let elements = bytemuck::cast_slice(&self.elements);
        let to = bytemuck::cast_slice_mut(to);
        ptxjit_tile::transpose((elements, self.columns), sizes, (to, pitch));
    }

    /// For the tiles that products consist of.
    pub(super) fn factor(&self) -> Factor<'_> {
        Factor {
            elements: &self.elements,
            pitch: self.columns,
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
        let places = self.descriptor.units(self.major);
        let along_outer = places.along_outer(outer.clone());
        let along_inner: SmallVec<[usize; 64]> = (0..inner).map(|n| places.along_row(n)).collect();
        let along = match self.major {
            Major::K => [&along_outer[..], &along_inner],
            Major::Mn => [&along_inner[..], &along_outer],
        };
        let read = Reading {
            stored: self,
            shared,
            places,
            along,
        };
        let mut elements = read.decoded()?;
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

/// A matrix that is being read.
struct Reading<'a> {
    stored: &'a Stored,
    shared: &'a [u8],
    places: Units,
    /// How far units are along the rows that are made, and within these.
    along: [&'a [usize]; 2],
}

impl Reading<'_> {
    /// The elements of all units in sequence.
    fn decoded(&self) -> Result<Vec<f32>, Fault> {
        let (fmt, per_unit) = (self.stored.fmt, per_unit(self.stored.fmt));
        let units = self.units();
        let mut elements = vec![0.0; units.len() * per_unit];
        if fmt.bits() == 16 {
            let decoded = decode_halves(fmt, self.shared, &units, &mut elements);
            return match decoded {
                Ok(()) => Ok(elements),
                Err(Outside { at }) => Err(outside(self.shared, at, self.stored.what)),
            };
        }
        for (&at, out) in units.iter().zip(elements.chunks_exact_mut(per_unit)) {
            let unit = unit_at(self.shared, at, self.stored.what)?;
            decode_unit(fmt, unit, out);
        }
        Ok(elements)
    }

    /// Where all units begin, in sequence.
    fn units(&self) -> Vec<usize> {
        let (places, [slow, fast]) = (self.places, self.along);
        let mut units = Vec::with_capacity(slow.len() * fast.len());
        for &slow in slow {
            units.extend(fast.iter().map(|&fast| places.of(slow, fast)));
        }
        units
    }
}
