//! Accesses of which the lanes of each quad are contiguous.

use cranelift_codegen::ir::{self as cl, InstBuilder};
use ptxjit_ir::Type;

use super::Lower;
use super::memory::device;
use super::values::{Parts, vector_type};

impl Lower<'_, '_> {
    /// Words of quads that begin at `firsts`.
    pub(super) fn load_quads(
        &mut self,
        n: usize,
        ty: Type,
        firsts: &[cl::Value],
        offset: i32,
    ) -> Vec<cl::Value> {
        let mut columns = vec![Vec::new(); n];
        for &at in firsts {
            let mut vector = |nth: i32| {
                self.b
                    .ins()
                    .load(vector_type(ty), device(), at, offset + 16 * nth)
            };
            match (ty, n) {
                (Type::B32, 2) => {
                    let (x, y) = (vector(0), vector(1));
                    let transposed = self.unzip(ty, x, y);
                    for (column, part) in columns.iter_mut().zip(transposed) {
                        column.push(part);
                    }
                }
                (Type::B64, _) => columns[0].extend([vector(0), vector(1)]),
                _ => columns[0].push(vector(0)),
            }
        }
        columns.concat()
    }

    /// No other CTA writes here: the elements of inactive lanes are read and written again, quad by
    /// quad, since quads may overlap.
    pub(super) fn store_among_quads(
        &mut self,
        parts: &[Parts],
        ty: Type,
        firsts: &[cl::Value],
        offset: i32,
    ) {
        let mask = self.mask_vectors();
        let per_quad = if ty == Type::B64 { 2 } else { 1 };
        for (q, &at) in firsts.iter().enumerate() {
            let old = self.load_quads(parts.len(), ty, &[at], offset);
            let own = per_quad * q..per_quad * (q + 1);
            let new: Vec<Parts> = parts
                .iter()
                .zip(old.chunks(per_quad))
                .map(|(new, old)| self.blend(ty, &mask[q..=q], &new[own.clone()], old))
                .collect();
            self.store_quads(&new, ty, &[at], offset);
        }
    }

    /// The mirror of `load_quads`.
    pub(super) fn store_quads(
        &mut self,
        parts: &[Parts],
        ty: Type,
        firsts: &[cl::Value],
        offset: i32,
    ) {
        for (q, &at) in firsts.iter().enumerate() {
            let vectors = match (ty, parts) {
                (Type::B32, [a, b]) => self.zip(ty, a[q], b[q]).to_vec(),
                (Type::B64, [parts]) => parts[2 * q..2 * q + 2].to_vec(),
                _ => vec![parts[0][q]],
            };
            for (nth, vector) in vectors.into_iter().enumerate() {
                self.b
                    .ins()
                    .store(device(), vector, at, offset + 16 * nth as i32);
            }
        }
    }
}
