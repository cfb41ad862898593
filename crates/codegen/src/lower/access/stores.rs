//! Stores: the mirror of loads in `memory`.

use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use ptxjit_ir::{Inst, InstData, Space, Type, Value};

use crate::lower::stubs::Transfer;
use crate::lower::{Buffer, Lower};
use crate::ops::{Address, Parts, Place, Val, device, int_type, words};
use crate::slots::lane_bytes;

impl Lower<'_, '_> {
    pub(in crate::lower) fn store(&mut self, inst: Inst) {
        let func = self.func;
        let InstData::Store {
            space,
            ty,
            addr,
            offset,
            ref args,
            ..
        } = func.insts[inst].data
        else {
            unreachable!("called for stores")
        };
        let (word, words) = words(ty, args.len());
        let packed = |lower: &mut Self| {
            let parts = args.iter().map(|&arg| lower.parts(arg)).collect();
            lower.b.packed(parts, ty, words)
        };
        // The words of merged stores are aligned, not what they are together.
        let size = match self.plan.merged[inst] {
            true => ty.bytes(),
            false => ty.bytes() * args.len() as u32,
        };
        if self.is_speculated_contiguous(space, addr, i64::from(ty.bytes()) * args.len() as i64) {
            let parts = packed(self);
            return self.store_speculated(inst, &parts, word, space, addr, (offset, size));
        }
        let place = self.place(space, addr, offset, size, 1);
        match place.address {
            Address::Scalar(at) => self.store_scalar(args, ty, at, place.offset),
            Address::Strided(at, stride)
                if self.store_subword(args, ty, at, stride, place.offset) => {}
            Address::Strided(at, stride) => {
                let parts = packed(self);
                let is_own = space == Space::Shared;
                self.store_strided(&parts, word, at, stride, place.offset, is_own);
            }
            Address::MayWrap(wrapping) => {
                let (at, stride) = (wrapping.at, wrapping.stride);
                let inside = self.b.is_unwrapped(&wrapping);
                self.either(
                    inside,
                    Vec::new(),
                    |lower| {
                        if !lower.store_subword(args, ty, at, stride, place.offset) {
                            let parts = packed(lower);
                            lower.store_strided(&parts, word, at, stride, place.offset, false);
                        }
                        Vec::new()
                    },
                    |lower| {
                        let parts = packed(lower);
                        let addrs = lower.resolve_wrapped(&wrapping);
                        lower.scatter(&parts, word, addrs, place.offset);
                        Vec::new()
                    },
                );
            }
            Address::Lanes(_) | Address::Lanes32(..) => {
                let parts = packed(self);
                self.store_lanes(&parts, word, place);
            }
        }
    }

    /// All lanes store to one place: the last one's value stays.
    fn store_scalar(&mut self, args: &[Value], ty: Type, at: cl::Value, offset: i32) {
        for (k, &arg) in args.iter().enumerate() {
            let offset = offset + (k as u32 * ty.bytes()) as i32;
            let x = if self.is_uniform(arg) {
                match self.get(arg) {
                    Val::Uniform(x) | Val::Affine(x, _) => x,
                    Val::Varying(_) => unreachable!(
                        "{arg} is uniform and so a scalar: {:?}",
                        self.func.values[arg]
                    ),
                }
            } else {
                self.last_lane(ty, arg)
            };
            self.b.ins().store(device(), x, at, offset);
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
        let at = self
            .b
            .ins()
            .ishl_imm_s(lane, i64::from(lane_bytes(ty).trailing_zeros()));
        let at = self.b.ins().iadd(buf, at);
        self.b
            .ins()
            .load(int_type(ty), MemFlagsData::trusted(), at, 0)
    }

    fn store_lanes(&mut self, parts: &[Parts], ty: Type, place: Place) {
        let address = self.redirect(place.address, place.offset);
        self.store_each_lane(
            parts,
            ty,
            &Place {
                address,
                offset: place.offset,
            },
        );
    }

    /// `is_own`: to the CTA's own memory, which no other CTA writes.
    fn store_strided(
        &mut self,
        parts: &[Parts],
        ty: Type,
        at: cl::Value,
        stride: i64,
        offset: i32,
        is_own: bool,
    ) {
        match self.unless_full() {
            None => self.store_whole(parts, ty, at, stride, offset),
            Some(_) if self.node.is_general => {
                self.store_some(parts, ty, at, stride, offset, is_own)
            }
            Some(full) => {
                self.either(
                    full,
                    Vec::new(),
                    |lower| {
                        lower.store_whole(parts, ty, at, stride, offset);
                        Vec::new()
                    },
                    |lower| {
                        lower.store_some(parts, ty, at, stride, offset, is_own);
                        Vec::new()
                    },
                );
            }
        }
    }

    fn store_some(
        &mut self,
        parts: &[Parts],
        ty: Type,
        at: cl::Value,
        stride: i64,
        offset: i32,
        is_own: bool,
    ) {
        let contiguous = stride == i64::from(ty.bytes()) * parts.len() as i64;
        if !contiguous || !is_own {
            return self.store_theirs(parts, ty, at, stride, offset);
        }
        let near = self.b.in_one_page(at, stride, offset);
        self.either(
            near,
            Vec::new(),
            |lower| {
                lower.store_among(parts, ty, at, stride, offset);
                Vec::new()
            },
            |lower| {
                lower.store_theirs(parts, ty, at, stride, offset);
                Vec::new()
            },
        );
    }

    /// No other CTA writes here: the elements of inactive lanes are read and written again.
    fn store_among(&mut self, parts: &[Parts], ty: Type, at: cl::Value, stride: i64, offset: i32) {
        let mask = self.mask_vectors();
        let old = self.load_whole(parts.len(), ty, at, stride, offset);
        let old = old.chunks(self.b.n_parts(ty));
        let new: Vec<Parts> = parts
            .iter()
            .zip(old)
            .map(|(new, old)| self.blend(ty, &mask, new, old))
            .collect();
        self.store_whole(&new, ty, at, stride, offset);
    }

    fn scatter(&mut self, parts: &[Parts], ty: Type, addrs: cl::Value, offset: i32) {
        let bits = self.mask_as_bits();
        let stub = Transfer {
            store: true,
            gather: true,
            bytes: ty.bytes(),
        };
        for (k, parts) in parts.iter().enumerate() {
            let buf = self.store_to_buffer(Buffer::Data, parts);
            let offset = i64::from(offset) + k as i64 * i64::from(ty.bytes());
            self.call_stub_with(stub, addrs, offset, bits, buf);
        }
    }
}
