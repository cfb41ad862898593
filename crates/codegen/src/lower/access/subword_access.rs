//! Contiguous accesses of bytes and half-words that stay packed in their vectors.

use cranelift_codegen::ir::{self as cl, InstBuilder};
use ptxjit_ir::{Inst, Type};
use ptxjit_vectorize::Variability;

use super::forms::{Form, Kind};
use super::stores::Stored;
use crate::lower::Lower;
use crate::ops::{Address, Strided, Words, int_type, subword_type};

impl Lower<'_, '_> {
    /// A load of one narrow element for each lane.
    pub(super) fn load_subword(&mut self, inst: Inst) -> Vec<cl::Value> {
        let (access, Words { ty, .. }) = self.read_by(inst);
        let form = Form::LoadPacked(ty);
        if self.is_speculated_contiguous(access) {
            return self.access_speculated(inst, form, access, access.bytes);
        }
        let place = self.place(access, Kind::Load);
        let offset = place.offset;
        match place.address {
            Address::Scalar(at) => {
                let x = self.b.load_device(int_type(ty), at, offset);
                let n = self.subword_types(ty).len();
                vec![self.b.ins().splat(subword_type(ty), x); n]
            }
            Address::Strided(at, stride) => {
                self.load_subword_strided(ty, Strided { at, stride, offset })
            }
            Address::MayWrap(wrapping) => {
                let inside = self.b.is_unwrapped(&wrapping);
                self.either(
                    inside,
                    self.types_of_form(form),
                    |lower| lower.load_subword_strided(ty, wrapping.strided(offset)),
                    |lower| lower.access_wrapped(form, &wrapping, offset),
                )
            }
            Address::Lanes(_) | Address::Lanes32(..) => self.access_lanes(form, place),
        }
    }

    fn load_subword_strided(&mut self, ty: Type, lanes: Strided) -> Vec<cl::Value> {
        let word = Words::one(ty);
        if word.are_contiguous(lanes.stride) || self.b.packs_stride(ty, lanes.stride) {
            return self.access_strided(Form::LoadPacked(ty), lanes);
        }
        let quads = self.access_strided(Form::Load(word), lanes);
        self.b.packed_to(&quads, ty).to_vec()
    }

    /// The store of a value that stays packed: one value that is, stored contiguously.
    pub(super) fn stays_packed(&self, stored: Stored<'_>, stride: i64) -> Option<Form<'static>> {
        let (&[arg], ty) = (stored.args, stored.ty) else {
            return None;
        };
        let is_carried =
            self.decided.packed.carried[arg] && self.variability(arg) == Variability::Varying;
        let is_packed = is_carried || self.available.subword.contains_key(&arg);
        let is_row = Words::one(ty).are_contiguous(stride);
        (is_row && is_packed && !self.node.version.is_general).then_some(Form::StorePacked(arg, ty))
    }
}
