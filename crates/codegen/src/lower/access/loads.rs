//! Loads.
//!
//! Contiguous lanes are accessed as vectors when all of them run, or when the places of those that
//! do not may be read as well; otherwise one call to a stub loads for the lanes that run. Gathers
//! access lanes one by one (`gathers`), those that do not run at memory of our own.

use cranelift_codegen::ir::{self as cl, InstBuilder};
use ptxjit_ir::{Inst, Space, Type, Value};

use crate::lower::Lower;
use crate::ops::{Address, Parts, Val, device, int_type, words};

/// What a load reads: so many elements per lane.
#[derive(Copy, Clone)]
pub(super) struct Read {
    pub space: Space,
    pub ty: Type,
    pub n: usize,
    pub addr: Value,
    pub offset: i32,
}

/// What was loaded.
pub(super) enum Loaded {
    /// All lanes read the elements at one place, an address and an offset: nothing yet.
    Shared(cl::Value, i32),
    /// The parts of each element.
    Lanes(Parts),
}

impl Lower<'_, '_> {
    pub(in crate::lower) fn load(&mut self, inst: Inst) {
        let results = &self.func.insts[inst].results;
        if self.makes_subword(inst) {
            let parts = self.load_subword(inst);
            return self.def_subword(results[0], parts.into_iter().collect());
        }
        let Read { ty, .. } = self.read_by(inst);
        let parts = match self.load_lanes_of(inst) {
            Loaded::Shared(at, offset) => return self.load_scalar(results, ty, at, offset),
            Loaded::Lanes(parts) => parts,
        };
        let per = self.b.n_parts(ty);
        for (k, &result) in results.iter().enumerate() {
            let parts = parts[k * per..(k + 1) * per].iter().copied().collect();
            self.def(result, Val::Varying(parts));
        }
    }

    /// What a load reads, masked or not.
    pub(super) fn read_by(&self, inst: Inst) -> Read {
        let node = &self.func.insts[inst];
        let access = node.data.access().expect("callers pass loads");
        Read {
            space: access.space,
            ty: self.func.ty(node.results[0]),
            n: node.results.len(),
            addr: access.addr,
            offset: access.offset,
        }
    }

    /// Loads what an instruction reads, unless all lanes read one place.
    pub(super) fn load_lanes_of(&mut self, inst: Inst) -> Loaded {
        let Read {
            space,
            ty,
            n,
            addr,
            offset,
        } = self.read_by(inst);
        let (word, words) = words(ty, n);
        let parts = if self.is_speculated_contiguous(space, addr, i64::from(ty.bytes()) * n as i64)
        {
            self.load_speculated(inst, (words, word), space, addr, offset)
        } else {
            let place = self.place(space, addr, offset, ty.bytes() * n as u32, 0);
            match place.address {
                Address::Scalar(at) => return Loaded::Shared(at, place.offset),
                Address::Strided(at, stride) => {
                    self.load_strided(words, word, at, stride, place.offset)
                }
                Address::MayWrap(wrapping) => {
                    self.load_may_wrap(words, word, wrapping, place.offset)
                }
                Address::Lanes(_) | Address::Lanes32(..) => self.load_lanes(words, word, place),
            }
        };
        Loaded::Lanes(self.b.unpacked(&parts, word, ty).into_iter().collect())
    }

    /// One access for all lanes.
    fn load_scalar(&mut self, results: &[Value], ty: Type, at: cl::Value, offset: i32) {
        for (k, &result) in results.iter().enumerate() {
            let offset = offset + (k as u32 * ty.bytes()) as i32;
            let clif = if self.decided.is_float[result] {
                self.scalar_type(result)
            } else {
                int_type(ty)
            };
            let x = self.b.ins().load(clif, device(), at, offset);
            self.def_loaded(result, Val::Uniform(x));
        }
    }

    /// A uniform load can still have a varying result where diverged lanes share it.
    fn def_loaded(&mut self, result: Value, val: Val) {
        let val = match val {
            Val::Uniform(x) if !self.is_uniform(result) => {
                let ty = self.func.ty(result);
                let splat = self.b.splat(ty, x);
                Val::Varying(Parts::from_elem(splat, self.b.n_parts(ty)))
            }
            other @ (Val::Uniform(_) | Val::Affine(..) | Val::Varying(_)) => other,
        };
        self.def(result, val);
    }
}
