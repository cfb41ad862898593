//! Loads.
//!
//! Contiguous lanes are accessed as vectors when all of them run, or when the places of those that
//! do not may be read as well; otherwise one call to a stub loads for the lanes that run. Gathers
//! access lanes one by one (`gathers`), those that do not run at memory of our own.

use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use ptxjit_ir::{Inst, InstData, Type, Value};

use super::stubs::Transfer;
use super::{Buffer, Lower};
use crate::ops::{
    Address, Parts, Place, Val, Wrapping, device, int_type, small_stride_width, vector_type, words,
};
use crate::slots::lane_bytes;

impl Lower<'_, '_> {
    pub(super) fn load(&mut self, inst: Inst) {
        let node = &self.func.insts[inst];
        let InstData::Load {
            space,
            ty,
            n,
            addr,
            offset,
            ..
        } = node.data
        else {
            unreachable!("called for loads")
        };
        if self.makes_subword(inst) {
            return self.load_subword(inst);
        }
        let results = node.results.clone();
        let (word, words) = words(ty, usize::from(n));
        let parts =
            if self.is_speculated_contiguous(space, addr, i64::from(ty.bytes()) * i64::from(n)) {
                self.load_speculated(inst, (words, word), space, addr, offset)
            } else {
                let place = self.place(space, addr, offset, ty.bytes() * u32::from(n), 0);
                match place.address {
                    Address::Scalar(at) => return self.load_scalar(&results, ty, at, place.offset),
                    Address::Strided(at, stride) => {
                        self.load_strided(words, word, at, stride, place.offset)
                    }
                    Address::MayWrap(wrapping) => {
                        self.load_may_wrap(words, word, wrapping, place.offset)
                    }
                    Address::Lanes(_) | Address::Lanes32(..) => self.load_lanes(words, word, place),
                }
            };
        let parts = self.b.unpacked(&parts, word, ty);
        let per = self.b.n_parts(ty);
        for (k, &result) in results.iter().enumerate() {
            let parts = parts[k * per..(k + 1) * per].iter().copied().collect();
            self.def(result, Val::Varying(parts));
        }
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

    pub(super) fn load_lanes(&mut self, n: usize, ty: Type, place: Place) -> Vec<cl::Value> {
        let address = self.redirect(place.address, place.offset);
        let elems = self.load_each_lane(
            n,
            ty,
            &Place {
                address,
                offset: place.offset,
            },
        );
        elems.into_iter().flatten().collect()
    }

    pub(super) fn load_strided(
        &mut self,
        n: usize,
        ty: Type,
        at: cl::Value,
        stride: i64,
        offset: i32,
    ) -> Vec<cl::Value> {
        match self.unless_full() {
            None => self.load_whole(n, ty, at, stride, offset),
            Some(_) if self.node.is_general => self.load_some(n, ty, at, stride, offset),
            Some(full) => self.either(
                full,
                vec![vector_type(ty); n * self.b.n_parts(ty)],
                |lower| lower.load_whole(n, ty, at, stride, offset),
                |lower| lower.load_some(n, ty, at, stride, offset),
            ),
        }
    }

    /// Lanes at a constant stride, unless the address shows that an index wrapped.
    fn load_may_wrap(
        &mut self,
        n: usize,
        ty: Type,
        wrapping: Wrapping,
        offset: i32,
    ) -> Vec<cl::Value> {
        let inside = self.b.is_unwrapped(&wrapping);
        self.either(
            inside,
            vec![vector_type(ty); n * self.b.n_parts(ty)],
            |lower| lower.load_strided(n, ty, wrapping.at, wrapping.stride, offset),
            |lower| {
                let addrs = lower.resolve_wrapped(&wrapping);
                lower.load_gathered(n, ty, addrs, offset)
            },
        )
    }

    /// Runs `fast` if `full`, else `cold`; both return vectors of the given types.
    pub(super) fn either(
        &mut self,
        full: cl::Value,
        types: Vec<cl::Type>,
        fast: impl FnOnce(&mut Self) -> Vec<cl::Value>,
        cold: impl FnOnce(&mut Self) -> Vec<cl::Value>,
    ) -> Vec<cl::Value> {
        let (yes, no, join) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        let params: Vec<cl::Value> = types
            .iter()
            .map(|&ty| self.b.append_block_param(join, ty))
            .collect();
        self.b.ins().brif(full, yes, &[], no, &[]);
        self.b.set_cold_block(no);
        self.b.switch_to_block(yes);
        let values: Vec<cl::BlockArg> = self
            .scoped(fast)
            .into_iter()
            .zip(&types)
            .map(|(x, &ty)| self.b.cast_vector(x, ty).into())
            .collect();
        self.b.ins().jump(join, &values);
        self.b.switch_to_block(no);
        let values: Vec<cl::BlockArg> = self
            .scoped(cold)
            .into_iter()
            .zip(&types)
            .map(|(x, &ty)| self.b.cast_vector(x, ty).into())
            .collect();
        self.b.ins().jump(join, &values);
        self.b.switch_to_block(join);
        params
    }

    /// The values, or the result of `cold` if `rare`.
    pub(super) fn unless(
        &mut self,
        rare: cl::Value,
        values: &[cl::Value],
        cold: impl FnOnce(&mut Self) -> Vec<cl::Value>,
    ) -> Vec<cl::Value> {
        let (join, params) = self.b.begin_rare(rare, values);
        let values = self.scoped(cold);
        self.b.jump_with(join, &values);
        self.b.switch_to_block(join);
        params
    }

    /// All lanes run: parts of element 0, then of element 1, and so on.
    pub(super) fn load_whole(
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

    /// Some lanes run. If the contiguous places lie in one page, all are read; else a stub loads
    /// for the lanes that run.
    pub(super) fn load_some(
        &mut self,
        n: usize,
        ty: Type,
        at: cl::Value,
        stride: i64,
        offset: i32,
    ) -> Vec<cl::Value> {
        if stride != i64::from(ty.bytes()) * n as i64 {
            return self.load_theirs(n, ty, at, stride, offset);
        }
        let near = self.b.in_one_page(at, stride, offset);
        self.either(
            near,
            vec![vector_type(ty); n * self.b.n_parts(ty)],
            |lower| lower.load_whole(n, ty, at, stride, offset),
            |lower| lower.load_theirs(n, ty, at, stride, offset),
        )
    }

    fn load_theirs(
        &mut self,
        n: usize,
        ty: Type,
        at: cl::Value,
        stride: i64,
        offset: i32,
    ) -> Vec<cl::Value> {
        self.load_by_stub(n, ty, |lower, bits, buf, more| {
            let stub = Transfer {
                store: false,
                gather: false,
                bytes: ty.bytes(),
            };
            lower.call_stub(stub, at, i64::from(offset) + more, stride, bits, buf);
        })
    }

    /// The running lanes' addresses lie in a buffer: a stub loads them.
    pub(super) fn load_gathered(
        &mut self,
        n: usize,
        ty: Type,
        addrs: cl::Value,
        offset: i32,
    ) -> Vec<cl::Value> {
        self.load_by_stub(n, ty, |lower, bits, buf, more| {
            let stub = Transfer {
                store: false,
                gather: true,
                bytes: ty.bytes(),
            };
            lower.call_stub_with(stub, addrs, i64::from(offset) + more, bits, buf);
        })
    }

    /// Elements in sequence; `call` has a stub load one, this many bytes from the first, to
    /// a buffer.
    fn load_by_stub(
        &mut self,
        n: usize,
        ty: Type,
        call: impl Fn(&mut Self, cl::Value, cl::Value, i64),
    ) -> Vec<cl::Value> {
        let bits = self.mask_as_bits();
        let mut out = Vec::new();
        for k in 0..n {
            let slot = self.buffer(Buffer::Data);
            let buf = self.b.ins().stack_addr(types::I64, slot, 0);
            call(self, bits, buf, k as i64 * i64::from(ty.bytes()));
            let per_part = if ty == Type::B64 { 2 } else { 4 };
            for part in 0..self.b.n_parts(ty) {
                let at = (part * per_part) as i32 * lane_bytes(ty) as i32;
                out.push(
                    self.b
                        .ins()
                        .load(vector_type(ty), MemFlagsData::trusted(), buf, at),
                );
            }
        }
        out
    }
}
