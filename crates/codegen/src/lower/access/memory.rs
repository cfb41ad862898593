//! Loads at a tested place: of lanes that all run or may all be read, else of those that run.

use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use ptxjit_ir::Type;

use crate::lower::stubs::Transfer;
use crate::lower::{Buffer, Lower};
use crate::ops::{Place, Wrapping, vector_type};
use crate::slots::lane_bytes;

impl Lower<'_, '_> {
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
    pub(super) fn load_may_wrap(
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

    pub(super) fn load_theirs(
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
