//! Accesses of whole gangs, and of the lanes that run, at tested places.

use cranelift_codegen::ir::{self as cl, InstBuilder};
use ptxjit_ir::Type;

use crate::lower::stubs::Transfer;
use crate::lower::{Buffer, Lower};
use crate::ops::{Address, Parts, Place, device, small_stride_width, subword_type, vector_type};
use crate::wide::masked;

/// Whether this many interleaved words per lane fill vectors.
fn can_interleave(ty: Type, n_words: usize) -> bool {
    matches!((ty, n_words), (Type::B32, 1 | 2 | 4) | (Type::B64, 1 | 2))
}

impl Lower<'_, '_> {
    /// All lanes run: parts of element 0, then of element 1, and so on.
    pub(in crate::lower) fn load_whole(
        &mut self,
        n: usize,
        ty: Type,
        at: cl::Value,
        stride: i64,
        offset: i32,
    ) -> Vec<cl::Value> {
        let contiguous = stride == i64::from(ty.bytes()) * n as i64;
        match (ty, n) {
            (Type::B32 | Type::B64, 1) if contiguous => (0..self.b.n_parts(ty))
                .map(|i| {
                    self.b
                        .ins()
                        .load(vector_type(ty), device(), at, offset + 16 * i as i32)
                })
                .collect(),
            (Type::B16, 1) if contiguous => (0..self.b.quads())
                .map(|q| self.b.ins().uload16x4(device(), at, offset + 8 * q as i32))
                .collect(),
            (Type::B8, 1) if contiguous && self.b.quads() == 1 => {
                vec![self.b.load_bytes(at, offset)]
            }
            (Type::B8, 1) if contiguous => (0..self.b.quads() as i32)
                .step_by(2)
                .flat_map(|q| {
                    let halves = self.b.ins().uload8x8(device(), at, offset + 4 * q);
                    let low = self.b.ins().uwiden_low(halves);
                    [low, self.b.ins().uwiden_high(halves)]
                })
                .collect(),
            (Type::B32, 4) if contiguous => self.b.load_rows4(at, offset),
            (Type::B32 | Type::B64, 2) if contiguous => self.b.load_rows2(ty, at, offset),
            (Type::B8 | Type::B16 | Type::B32, 1) if small_stride_width(ty, stride).is_some() => {
                self.b.load_small_stride(ty, at, stride, offset)
            }
            _ => self.load_far(n, ty, at, stride, offset),
        }
    }

    /// Lanes at a constant stride: element by element.
    fn load_far(
        &mut self,
        n: usize,
        ty: Type,
        at: cl::Value,
        stride: i64,
        offset: i32,
    ) -> Vec<cl::Value> {
        let address = Address::Strided(at, stride);
        let elems = self.load_each_lane(n, ty, &Place { address, offset });
        elems.into_iter().flatten().collect()
    }

    pub(super) fn store_whole(
        &mut self,
        parts: &[Parts],
        ty: Type,
        at: cl::Value,
        stride: i64,
        offset: i32,
    ) {
        let contiguous = stride == i64::from(ty.bytes()) * parts.len() as i64;
        if contiguous && can_interleave(ty, parts.len()) {
            for i in 0..self.b.n_parts(ty) {
                let interleaved = self.b.interleaved(ty, parts, i);
                let offset = offset + (16 * i * interleaved.len()) as i32;
                for (k, &row) in interleaved.iter().enumerate() {
                    self.b
                        .ins()
                        .store(device(), row, at, offset + 16 * k as i32);
                }
            }
            return;
        }
        match (ty, parts) {
            (Type::B8 | Type::B16, [parts]) if contiguous => {
                self.b.store_narrow(parts, ty, at, offset)
            }
            _ => self.store_far(parts, ty, at, stride, offset),
        }
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
            let old = self.b.load_quads(parts.len(), ty, &[at], offset);
            let own = per_quad * q..per_quad * (q + 1);
            let new: Vec<Parts> = parts
                .iter()
                .zip(old.chunks(per_quad))
                .map(|(new, old)| self.blend(ty, &mask[q..=q], &new[own.clone()], old))
                .collect();
            self.b.store_quads(&new, ty, &[at], offset);
        }
    }

    /// All lanes run and are contiguous.
    pub(super) fn load_subword_contiguous(
        &mut self,
        ty: Type,
        at: cl::Value,
        offset: i32,
    ) -> Vec<cl::Value> {
        let types = self.subword_types(ty);
        (0..types.len())
            .map(|i| {
                self.b
                    .ins()
                    .load(types[i], device(), at, offset + 16 * i as i32)
            })
            .collect()
    }

    /// One narrow element per lane, loaded one by one.
    pub(super) fn load_subword_lanes(&mut self, ty: Type, place: &Place) -> Vec<cl::Value> {
        let elems = self.load_each_lane(1, ty, place);
        let quads: Parts = elems.into_iter().flatten().collect();
        self.b.packed_to(&quads, ty).to_vec()
    }

    pub(super) fn store_theirs(
        &mut self,
        parts: &[Parts],
        ty: Type,
        at: cl::Value,
        stride: i64,
        offset: i32,
    ) {
        let contiguous = stride == i64::from(ty.bytes()) * parts.len() as i64;
        if contiguous && can_interleave(ty, parts.len()) && self.inputs.has_masked_stores {
            return self.store_masked(parts, ty, at, offset);
        }
        let bits = self.mask_as_bits();
        for (k, parts) in parts.iter().enumerate() {
            let buf = self.store_to_buffer(Buffer::Data, parts);
            let offset = i64::from(offset) + k as i64 * i64::from(ty.bytes());
            self.call_stub(
                Transfer {
                    store: true,
                    gather: false,
                    bytes: ty.bytes(),
                },
                at,
                offset,
                stride,
                bits,
                buf,
            );
        }
    }

    /// Masked stores of the running lanes.
    fn store_masked(&mut self, parts: &[Parts], ty: Type, at: cl::Value, offset: i32) {
        let mut masks = self.mask_vectors();
        if ty == Type::B64 {
            masks = self.b.widen_lanes(&masks);
        }
        let masks = vec![masks; parts.len()];
        for i in 0..self.b.n_parts(ty) {
            let (interleaved, masks) = (
                self.b.interleaved(ty, parts, i),
                self.b.interleaved(ty, &masks, i),
            );
            let offset = offset + (16 * i * interleaved.len()) as i32;
            for (k, (row, mask)) in interleaved.into_iter().zip(masks).enumerate() {
                let (masks, at) = (self.inputs.masks(), (at, offset + 16 * k as i32));
                masked::store(&mut self.b, (row, mask), masks, ty, at);
            }
        }
    }

    fn store_far(&mut self, parts: &[Parts], ty: Type, at: cl::Value, stride: i64, offset: i32) {
        let address = Address::Strided(at, stride);
        self.store_each_lane(parts, ty, &Place { address, offset });
    }

    pub(super) fn subword_types(&self, ty: Type) -> Vec<cl::Type> {
        vec![subword_type(ty); self.b.lanes * ty.bytes() as usize / 16]
    }
}
