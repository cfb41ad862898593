//! Accesses of whole gangs at tested places, and masked stores.

use cranelift_codegen::ir::{self as cl, InstBuilder};
use ptxjit_ir::{Type, Value};

use crate::lower::Lower;
use crate::ops::{Parts, Strided, Words, device, small_stride_width, subword_type, vector_type};
use crate::wide::masked;

impl Lower<'_, '_> {
    /// All lanes run: parts of element 0, then of element 1, and so on.
    pub(in crate::lower) fn load_whole(&mut self, words: Words, lanes: Strided) -> Vec<cl::Value> {
        let Words { ty, n } = words;
        let Strided { at, offset, .. } = lanes;
        if words.are_contiguous(lanes.stride) {
            match (ty, n) {
                (Type::B8 | Type::B16, 1) => return self.load_narrow(ty, at, offset),
                (Type::B32 | Type::B64, 1) => return self.load_vectors(ty, at, offset),
                (Type::B32 | Type::B64, 2) => return self.b.load_rows2(ty, at, offset),
                (Type::B32, 4) => return self.b.load_rows4(at, offset),
                _ => {}
            }
        }
        let is_narrow = matches!((ty, n), (Type::B8 | Type::B16 | Type::B32, 1));
        match is_narrow && small_stride_width(ty, lanes.stride).is_some() {
            true => self.b.load_small_stride(ty, lanes),
            false => self.load_each_lane(words, &lanes.place()),
        }
    }

    /// Contiguous words as vectors.
    fn load_vectors(&mut self, ty: Type, at: cl::Value, offset: i32) -> Vec<cl::Value> {
        let parts = 0..self.b.n_parts(ty);
        let vector = |i: usize| {
            self.b
                .load_device(vector_type(ty), at, offset + 16 * i as i32)
        };
        parts.map(vector).collect()
    }

    /// Contiguous bytes or half-words, zero-extended.
    fn load_narrow(&mut self, ty: Type, at: cl::Value, offset: i32) -> Vec<cl::Value> {
        let quads = self.b.quads() as i32;
        if ty == Type::B16 {
            let quad = |q: i32| self.b.ins().uload16x4(device(), at, offset + 8 * q);
            return (0..quads).map(quad).collect();
        }
        if quads == 1 {
            return vec![self.b.load_bytes(at, offset)];
        }
        let two_quads = |q: i32| {
            let halves = self.b.ins().uload8x8(device(), at, offset + 4 * q);
            let low = self.b.ins().uwiden_low(halves);
            [low, self.b.ins().uwiden_high(halves)]
        };
        (0..quads).step_by(2).flat_map(two_quads).collect()
    }

    /// All lanes run.
    pub(super) fn store_whole(&mut self, parts: &[Parts], ty: Type, lanes: Strided) {
        let words = Words { ty, n: parts.len() };
        let Strided { at, offset, .. } = lanes;
        if !words.are_contiguous(lanes.stride) {
            return self.store_each_lane(parts, ty, &lanes.place());
        }
        match (ty, parts) {
            _ if words.fill_vectors() => {
                for i in 0..self.b.n_parts(ty) {
                    let interleaved = self.b.interleaved(ty, parts, i);
                    let offset = offset + (16 * i * interleaved.len()) as i32;
                    self.b.store_vectors(&interleaved, at, offset);
                }
            }
            (Type::B8 | Type::B16, [parts]) => self.b.store_narrow(parts, ty, at, offset),
            _ => self.store_each_lane(parts, ty, &lanes.place()),
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
        let words = Words { ty, n: parts.len() };
        let mask = self.mask_vectors();
        let per_quad = if ty == Type::B64 { 2 } else { 1 };
        for (q, &at) in firsts.iter().enumerate() {
            let old = self.b.load_quads(words, &[at], offset);
            let own = per_quad * q..per_quad * (q + 1);
            let new: Vec<Parts> = parts
                .iter()
                .zip(old.chunks(per_quad))
                .map(|(new, old)| self.blend(ty, &mask[q..=q], &new[own.clone()], old))
                .collect();
            self.b.store_quads(&new, ty, &[at], offset);
        }
    }

    /// All lanes run: packed elements, contiguous or at a stride at which they can be
    /// [packed](crate::ops::Emitter::packs_stride).
    pub(super) fn load_packed_whole(&mut self, ty: Type, lanes: Strided) -> Vec<cl::Value> {
        let Strided { at, offset, .. } = lanes;
        if !Words::one(ty).are_contiguous(lanes.stride) {
            return self.b.load_packed_stride(ty, lanes).to_vec();
        }
        let vectors = self.subword_types(ty).into_iter();
        let vectors = vectors.zip((offset..).step_by(16));
        let loads = vectors.map(|(ty, offset)| self.b.load_device(ty, at, offset));
        loads.collect()
    }

    /// All lanes run and are contiguous.
    pub(super) fn store_packed_whole(&mut self, arg: Value, ty: Type, lanes: Strided) {
        let parts = self.subword_parts(arg, ty);
        self.b.store_vectors(&parts, lanes.at, lanes.offset);
    }

    /// Whether lanes at this stride are stored by masked stores where only some of them run.
    pub(super) fn may_store_masked(&self, words: Words, stride: i64) -> bool {
        words.are_contiguous(stride) && words.fill_vectors() && self.inputs.has_masked_stores
    }

    /// Masked stores of the running lanes.
    pub(super) fn store_masked(&mut self, parts: &[Parts], ty: Type, at: cl::Value, offset: i32) {
        let masks = self.masks_for(ty);
        let masks = vec![masks; parts.len()];
        for i in 0..self.b.n_parts(ty) {
            let rows = self.b.interleaved(ty, parts, i);
            let masks = self.b.interleaved(ty, &masks, i);
            let offset = offset + (16 * i * rows.len()) as i32;
            for (k, pair) in rows.into_iter().zip(masks).enumerate() {
                let place = (at, offset + 16 * k as i32);
                masked::store(&mut self.b, pair, self.inputs.masks(), ty, place);
            }
        }
    }

    pub(super) fn subword_types(&self, ty: Type) -> Vec<cl::Type> {
        vec![subword_type(ty); self.b.lanes * ty.bytes() as usize / 16]
    }
}
