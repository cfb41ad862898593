//! Stores: the mirror of `loads`.

use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{Access, Inst, InstData, Space, Type, Value};

use super::forms::{Form, Kind};
use crate::decisions::access_kinds::AccessKind;
use crate::lower::{Buffer, Lower};
use crate::ops::{Address, Strided, Val, Words, int_type, words};
use crate::slots::lane_bytes;

/// What a store writes.
#[derive(Copy, Clone)]
pub(super) struct Stored<'a> {
    pub args: &'a [Value],
    pub ty: Type,
    /// To the CTA's own memory, which no other CTA writes.
    pub is_own: bool,
}

impl Lower<'_, '_> {
    pub(in crate::lower) fn store(&mut self, inst: Inst, kind: AccessKind) {
        let data = &self.func.insts[inst].data;
        let (InstData::Store { ty, args, .. }, Some(access)) = (data, data.access()) else {
            unreachable!("called for stores")
        };
        let (ty, args) = (*ty, &args[..]);
        let is_own = access.space == Space::Shared;
        let stored = Stored { args, ty, is_own };
        // The words of merged stores are aligned, not what they are together.
        let bytes = match self.plan.merged[inst] {
            true => ty.bytes(),
            false => access.bytes,
        };
        if kind == AccessKind::Guarded {
            self.with_words(stored, |lower, form| {
                lower.access_speculated(inst, form, access, bytes)
            });
            return;
        }
        let place = self.place(Access { bytes, ..access }, Kind::Store);
        let offset = place.offset;
        match place.address {
            Address::Scalar(at) => self.store_scalar(args, ty, at, offset),
            Address::Strided(at, stride) => {
                self.store_strided(stored, Strided { at, stride, offset });
            }
            Address::MayWrap(wrapping) => {
                let inside = self.b.is_unwrapped(&wrapping);
                let wrapped = |lower: &mut Self, form: Form<'_>| {
                    lower.access_wrapped(form, &wrapping, offset)
                };
                self.either(
                    inside,
                    Vec::new(),
                    |lower| lower.store_strided(stored, wrapping.strided(offset)),
                    |lower| lower.with_words(stored, wrapped),
                );
            }
            Address::Lanes(_) | Address::Lanes32(..) => {
                self.with_words(stored, |lower, form| lower.access_lanes(form, place));
            }
        }
    }

    /// Emits a store of values as words, of which narrow ones share some.
    fn with_words<T>(&mut self, of: Stored<'_>, emit: impl FnOnce(&mut Self, Form<'_>) -> T) -> T {
        let Stored { args, ty, is_own } = of;
        let Words { ty: word, n } = words(ty, args.len());
        let parts = args.iter().map(|&arg| self.parts(arg)).collect();
        let parts = &self.b.packed(parts, ty, n);
        let ty = word;
        emit(self, Form::Store { parts, ty, is_own })
    }

    /// Nothing is returned but what forms return for stores: no vectors.
    fn store_strided(&mut self, stored: Stored<'_>, lanes: Strided) -> Vec<cl::Value> {
        match self.stays_packed(stored, lanes.stride) {
            Some(form) => self.access_strided(form, lanes),
            None => self.with_words(stored, |lower, form| lower.access_strided(form, lanes)),
        }
    }

    /// All lanes store to one place: the last one's value stays.
    fn store_scalar(&mut self, args: &[Value], ty: Type, at: cl::Value, offset: i32) {
        for (k, &arg) in args.iter().enumerate() {
            let offset = offset + (k as u32 * ty.bytes()) as i32;
            let x = match self.is_uniform(arg) {
                true => self.scalar_of_uniform(arg),
                false => self.last_lane(ty, arg),
            };
            self.b.store_device(x, at, offset);
        }
    }

    fn scalar_of_uniform(&mut self, arg: Value) -> cl::Value {
        match self.get(arg) {
            Val::Uniform(x) | Val::Affine(x, _) => x,
            Val::Varying(_) => {
                let def = self.func.values[arg].def;
                unreachable!("{arg} is uniform and so a scalar: {def:?}")
            }
        }
    }

    fn last_lane(&mut self, ty: Type, arg: Value) -> cl::Value {
        let parts = self.parts(arg);
        let buf = self.store_to_buffer(Buffer::Data, &parts);
        let bits = self.mask_as_bits();
        let zeros = self.b.ins().clz(bits);
        let top = self.b.ins().iconst(types::I32, 31);
        let lane = self.b.ins().isub(top, zeros);
        let lane = self.b.ins().uextend(types::I64, lane);
        self.b.load_lane(buf, lane, int_type(ty), lane_bytes(ty))
    }
}
