//! Loads.

use cranelift_codegen::ir as cl;
use ptxjit_ir::{Access, Inst, Type, Value};

use super::forms::{Form, Kind};
use crate::decisions::access_kinds::AccessKind;
use crate::lower::Lower;
use crate::ops::{Address, Parts, Place, Strided, Val, Words, int_type, words};

/// What was loaded.
pub(super) enum Loaded {
    /// All lanes read the elements at one place, an address and an offset: nothing yet.
    Shared(cl::Value, i32),
    /// The parts of each element.
    Lanes(Parts),
}

impl Lower<'_, '_> {
    pub(in crate::lower) fn load(&mut self, inst: Inst, kind: AccessKind) {
        let results = &self.func.insts[inst].results;
        if self.makes_subword(inst) {
            let parts = self.load_subword(inst, kind);
            return self.def_subword(results[0], parts.into_iter().collect());
        }
        let (_, Words { ty, .. }) = self.read_by(inst);
        match self.load_lanes_of(inst, kind) {
            Loaded::Shared(at, offset) => self.load_scalar(results, ty, at, offset),
            Loaded::Lanes(parts) => self.def_elements(results, ty, &parts),
        }
    }

    /// Defines the elements of a load.
    fn def_elements(&mut self, results: &[Value], ty: Type, parts: &[cl::Value]) {
        let parts = parts.chunks_exact(self.b.n_parts(ty));
        for (&result, parts) in results.iter().zip(parts) {
            self.def(result, Val::Varying(parts.iter().copied().collect()));
        }
    }

    /// Where a load reads, masked or not, and how many elements per lane.
    pub(in crate::lower) fn read_by(&self, inst: Inst) -> (Access, Words) {
        let node = &self.func.insts[inst];
        let access = node.data.access().expect("callers pass loads");
        let (ty, n) = (self.func.ty(node.results[0]), node.results.len());
        (access, Words { ty, n })
    }

    /// Loads what an instruction reads, unless all lanes read one place.
    pub(super) fn load_lanes_of(&mut self, inst: Inst, kind: AccessKind) -> Loaded {
        let (access, Words { ty, n }) = self.read_by(inst);
        let words = words(ty, n);
        let form = Form::Load(words);
        let parts = if kind == AccessKind::Guarded {
            self.access_speculated(inst, form, access, access.bytes)
        } else {
            let place = self.place(access, Kind::Load);
            if let Address::Scalar(at) = place.address {
                return Loaded::Shared(at, place.offset);
            }
            self.load_at(form, place)
        };
        Loaded::Lanes(self.b.unpacked(&parts, words.ty, ty).into_iter().collect())
    }

    /// Loads at a place that not all lanes share.
    pub(super) fn load_at(&mut self, form: Form<'_>, place: Place) -> Vec<cl::Value> {
        let offset = place.offset;
        match place.address {
            Address::Strided(at, stride) => self.load_strided(form, Strided { at, stride, offset }),
            Address::MayWrap(wrapping) => {
                let inside = self.b.is_unwrapped(&wrapping);
                self.either(
                    inside,
                    self.types_of_form(form),
                    |lower| lower.load_strided(form, wrapping.strided(offset)),
                    |lower| lower.access_wrapped(form, &wrapping, offset),
                )
            }
            Address::Lanes(_) | Address::Lanes32(..) => self.access_lanes(form, place),
            Address::Scalar(_) => unreachable!("callers load once for all lanes"),
        }
    }

    /// Loads lanes at a constant stride; narrow elements that are too far apart for packed vectors
    /// as words, which are packed then.
    fn load_strided(&mut self, form: Form<'_>, lanes: Strided) -> Vec<cl::Value> {
        if let Form::LoadPacked(ty) = form
            && !form.words().are_contiguous(lanes.stride)
            && !self.b.packs_stride(ty, lanes.stride)
        {
            let quads = self.access_strided(Form::Load(form.words()), lanes);
            return self.b.packed_to(&quads, ty).to_vec();
        }
        self.access_strided(form, lanes)
    }

    /// One access for all lanes.
    fn load_scalar(&mut self, results: &[Value], ty: Type, at: cl::Value, offset: i32) {
        for (k, &result) in results.iter().enumerate() {
            let offset = offset + (k as u32 * ty.bytes()) as i32;
            let clif = self.type_of_load(result, ty);
            let x = self.b.load_device(clif, at, offset);
            self.def_loaded(result, x);
        }
    }

    /// The type in which a scalar is loaded: its result's, if that is a float.
    pub(super) fn type_of_load(&self, result: Value, ty: Type) -> cl::Type {
        match self.decided.is_float[result] {
            true => self.scalar_type(result),
            false => int_type(ty),
        }
    }

    /// A uniform load can still have a varying result where diverged lanes share it.
    fn def_loaded(&mut self, result: Value, x: cl::Value) {
        if self.is_uniform(result) {
            return self.def(result, Val::Uniform(x));
        }
        let ty = self.func.ty(result);
        let parts = self.b.splat_parts(ty, x);
        self.def(result, Val::Varying(parts));
    }
}
