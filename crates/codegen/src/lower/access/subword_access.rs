//! Contiguous accesses of bytes and half-words that stay packed in their vectors.

use cranelift_codegen::ir::{self as cl, InstBuilder};
use ptxjit_ir::{Inst, Type, Value};
use ptxjit_vectorize::Variability;

use super::loads::Read;
use crate::lower::Lower;
use crate::ops::{Address, device, int_type, subword_type};

impl Lower<'_, '_> {
    /// A load of one narrow element for each lane.
    pub(super) fn load_subword(&mut self, inst: Inst) -> Vec<cl::Value> {
        let Read {
            space,
            ty,
            addr,
            offset,
            ..
        } = self.read_by(inst);
        if self.is_speculated_contiguous(space, addr, i64::from(ty.bytes())) {
            let types = self.subword_types(ty);
            self.load_subword_speculated(inst, types)
        } else {
            let place = self.place(space, addr, offset, ty.bytes(), 0);
            let at_offset = place.offset;
            match place.address {
                Address::Scalar(at) => {
                    let x = self.b.ins().load(int_type(ty), device(), at, at_offset);
                    let n = self.subword_types(ty).len();
                    vec![self.b.ins().splat(subword_type(ty), x); n]
                }
                Address::Strided(at, stride) => {
                    self.load_subword_strided(ty, at, stride, at_offset)
                }
                Address::MayWrap(wrapping) => {
                    let (at, stride) = (wrapping.at, wrapping.stride);
                    let inside = self.b.is_unwrapped(&wrapping);
                    let types = self.subword_types(ty);
                    self.either(
                        inside,
                        types,
                        |lower| lower.load_subword_strided(ty, at, stride, at_offset),
                        |lower| {
                            let addrs = lower.resolve_wrapped(&wrapping);
                            let quads = lower.load_gathered(1, ty, addrs, at_offset);
                            lower.b.packed_to(&quads, ty).to_vec()
                        },
                    )
                }
                Address::Lanes(_) | Address::Lanes32(..) => {
                    let quads = self.load_lanes(1, ty, place);
                    self.b.packed_to(&quads, ty).to_vec()
                }
            }
        }
    }

    fn load_subword_strided(
        &mut self,
        ty: Type,
        at: cl::Value,
        stride: i64,
        offset: i32,
    ) -> Vec<cl::Value> {
        let is_row = stride == i64::from(ty.bytes());
        if !is_row && !self.b.packs_stride(ty, stride) {
            let quads = self.load_strided(1, ty, at, stride, offset);
            return self.b.packed_to(&quads, ty).to_vec();
        }
        let whole = |lower: &mut Self| match is_row {
            true => lower.load_subword_contiguous(ty, at, offset),
            false => lower.b.load_packed_stride(ty, at, stride, offset).to_vec(),
        };
        let some = |lower: &mut Self| match is_row {
            true => lower.load_some_subword(ty, at, offset),
            false => {
                let quads = lower.load_theirs(1, ty, at, stride, offset);
                lower.b.packed_to(&quads, ty).to_vec()
            }
        };
        match self.unless_full() {
            None => whole(self),
            Some(_) if self.node.is_general => some(self),
            Some(full) => {
                let types = self.subword_types(ty);
                self.either(full, types, whole, some)
            }
        }
    }

    /// Some lanes run. As with wider elements, all are read if their places lie in one page.
    fn load_some_subword(&mut self, ty: Type, at: cl::Value, offset: i32) -> Vec<cl::Value> {
        let stride = i64::from(ty.bytes());
        let near = self.b.in_one_page(at, stride, offset);
        let types = self.subword_types(ty);
        self.either(
            near,
            types,
            |lower| lower.load_subword_contiguous(ty, at, offset),
            |lower| {
                let quads = lower.load_theirs(1, ty, at, stride, offset);
                lower.b.packed_to(&quads, ty).to_vec()
            },
        )
    }

    /// Stores a packed value contiguously if all lanes run, and returns whether it did.
    pub(super) fn store_subword(
        &mut self,
        args: &[Value],
        ty: Type,
        at: cl::Value,
        stride: i64,
        offset: i32,
    ) -> bool {
        let [arg] = *args else { return false };
        let is_carried =
            self.decided.packed.carried[arg] && self.variability(arg) == Variability::Varying;
        let is_packed = is_carried || self.available.subword.contains_key(&arg);
        let is_row = stride == i64::from(ty.bytes());
        if !is_row || !is_packed || self.node.is_general {
            return false;
        }
        let whole = |lower: &mut Self| {
            let parts = lower.subword_parts(arg, ty);
            for (i, part) in parts.into_iter().enumerate() {
                lower
                    .b
                    .ins()
                    .store(device(), part, at, offset + 16 * i as i32);
            }
        };
        let Some(full) = self.unless_full() else {
            whole(self);
            return true;
        };
        self.either(
            full,
            Vec::new(),
            |lower| {
                whole(lower);
                Vec::new()
            },
            |lower| {
                let quads = [lower.parts(arg)];
                lower.store_theirs(&quads, ty, at, stride, offset);
                Vec::new()
            },
        );
        true
    }
}
