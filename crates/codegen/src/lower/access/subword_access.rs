//! Contiguous accesses of bytes and half-words that stay packed in their vectors.

use cranelift_codegen::ir::{self as cl, InstBuilder};
use ptxjit_ir::Inst;
use ptxjit_vectorize::Variability;

use super::forms::{Form, Kind};
use super::stores::Stored;
use crate::decisions::access_kinds::AccessKind;
use crate::lower::Lower;
use crate::ops::{Address, Words, int_type, subword_type};

impl Lower<'_, '_> {
    /// A load of one narrow element for each lane.
    pub(super) fn load_subword(&mut self, inst: Inst, kind: AccessKind) -> Vec<cl::Value> {
        let (access, Words { ty, .. }) = self.read_by(inst);
        let form = Form::LoadPacked(ty);
        if kind == AccessKind::Guarded {
            return self.access_speculated(inst, form, access, access.bytes);
        }
        let place = self.place(access, Kind::Load);
        let Address::Scalar(at) = place.address else {
            return self.load_at(form, place);
        };
        let x = self.b.load_device(int_type(ty), at, place.offset);
        let n = self.subword_types(ty).len();
        vec![self.b.ins().splat(subword_type(ty), x); n]
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
