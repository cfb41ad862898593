//! Columns of B that products with stationary weights take for zero, or leave out.

use super::shape::Shape;
use super::stored::Matrix;
use crate::Fault;

/// Columns of B that count as zero. PTX ISA, "Zero-Column Mask Descriptor".
pub(super) struct ZeroColumns {
    zeros: Vec<bool>,
    /// The first column of B that is used.
    pub(super) shift: usize,
}

impl ZeroColumns {
    pub(super) fn decode(bits: u64, shape: &Shape) -> Result<ZeroColumns, Fault> {
        let field = |from: usize, n: u32| (bits >> from) as usize & ((1 << n) - 1);
        let refuse = |why: String| {
            Fault::refused(format!(
                "the zero-column mask descriptor {bits:#018x}: {why}"
            ))
        };
        if field(36, 3) != 0 || field(62, 2) != 0 {
            return Err(refuse("reserved bits must be zero".into()));
        }
        let (shift, limit) = (field(56, 6), if shape.m == 32 { 16 } else { 32 });
        if shift > limit {
            return Err(refuse(format!(
                "columns cannot be shifted by more than {limit}"
            )));
        }
        let mut zeros = Vec::new();
        let parts = 128 / shape.m.clamp(32, 128);
        // A mask of its own for each part of the columns: runs of zeros and of ones by turns,
        // without what comes before the start.
        for part in (0..parts).filter(|_| field(39, 1) == 1) {
            let (start, mut is_zero) = (field(8 * part, 8), field(32 + part, 1) == 1);
            let mut run = Vec::new();
            while run.len() < start + shape.n / parts {
                let span = if is_zero { field(40, 8) } else { field(48, 8) };
                run.extend(std::iter::repeat_n(is_zero, span + 1));
                is_zero = !is_zero;
            }
            zeros.extend_from_slice(&run[start..][..shape.n / parts]);
        }
        Ok(ZeroColumns { zeros, shift })
    }

    pub(super) fn clear(&self, b: &mut Matrix) {
        if self.zeros.is_empty() {
            return;
        }
        for row in b.elements.chunks_exact_mut(b.columns) {
            for (element, &is_zero) in row.iter_mut().zip(&self.zeros) {
                *element = if is_zero { 0.0 } else { *element };
            }
        }
    }
}
