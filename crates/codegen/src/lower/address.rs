//! Addresses of a gang's accesses.

use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{Space, Type, Value};
use ptxjit_vectorize::{MayWrap, Variability};

use super::stubs::Stub;
use super::{Buffer, Lower};
use crate::ops::{Address, Alignment, Parts, Place, Val, Wrapping};
use ptxjit_abi::{CtaContext, FaultKind, IDLE_OFFSET};

/// Lanes that do not run are sent to this window offset: far below the first shared variable, where
/// no variable lies; at the first byte of windows that are only read, which is mapped if the window
/// holds anything.
fn junk_offset(space: Space) -> i64 {
    match space {
        Space::Shared | Space::SharedCluster => IDLE_OFFSET,
        Space::Const | Space::Param | Space::Local | Space::Global | Space::Generic => 0,
    }
}

impl Lower<'_, '_> {
    /// Resolves an address and emits its bounds test where no guard page covers the access, unless
    /// the index may have wrapped. `size` is that of the whole access of one lane.
    pub(super) fn place(
        &mut self,
        space: Space,
        addr: Value,
        offset: i32,
        size: u32,
        write: u32,
    ) -> Place {
        let alignment = self.alignment(space, addr, offset, size);
        let (address, offset) = self.tested_address(space, addr, offset, alignment);
        if self.inputs.memcheck {
            let access = (offset, size, write);
            // Other accesses of the block with the same address and mask were looked at.
            if self.available.looked_up.insert((addr, space, access)) {
                self.check_exactly((space, addr), &address, access);
            }
            return Place { address, offset };
        }
        let place = Place { address, offset };
        self.settle_before(space, &place);
        place
    }

    /// The address and offset of an access, tested unless the index may have wrapped.
    fn tested_address(
        &mut self,
        space: Space,
        addr: Value,
        offset: i32,
        alignment: Alignment,
    ) -> (Address, i32) {
        let key = (addr, space);
        let stays = alignment.stays(offset);
        let known = self.available.addresses.get(&key).filter(|_| stays);
        if let Some((address, bytes)) = known
            && *bytes >= alignment.bytes
        {
            let address = match *address {
                Address::MayWrap(wrapping) => Address::MayWrap(Wrapping {
                    alignment,
                    ..wrapping
                }),
                Address::Scalar(_)
                | Address::Strided(..)
                | Address::Lanes(_)
                | Address::Lanes32(..) => address.clone(),
            };
            return (address, offset);
        }
        let (val, offset) = self.fold_offset(space, addr, offset, alignment);
        let alignment = Alignment {
            offset,
            ..alignment
        };
        let address = match self.resolve(space, self.func.ty(addr), val) {
            Address::Strided(at, stride) => match self.variability(addr).may_wrap() {
                Some(may_wrap) if !space.is_window() => Address::MayWrap(Wrapping {
                    at,
                    stride,
                    may_wrap,
                    alignment,
                }),
                _ => Address::Strided(at, stride),
            },
            other @ (Address::Scalar(_)
            | Address::MayWrap(..)
            | Address::Lanes(_)
            | Address::Lanes32(..)) => other,
        };
        // Windows have two gigabytes of unmapped memory on both sides: all that 32 bits reach.
        match space.is_window() || self.may_alias_private_sum(&address) {
            true => self.check_alignment(&address, alignment),
            false => self.check(&address, alignment),
        }
        if stays {
            let tested = (address.clone(), alignment.bytes);
            self.available.addresses.insert(key, tested);
        }
        (address, offset)
    }

    /// Offsets that the test has to cover are added to the address.
    pub(super) fn fold_offset(
        &mut self,
        space: Space,
        addr: Value,
        offset: i32,
        alignment: Alignment,
    ) -> (Val, i32) {
        let val = match self.own_address(space, addr) {
            Some(own) => own,
            None => self.get(addr),
        };
        if alignment.stays(offset) {
            return (val, offset);
        }
        let val = match val {
            Val::Uniform(x) => Val::Uniform(self.b.plus(x, i64::from(offset))),
            Val::Affine(x, stride) => Val::Affine(self.b.plus(x, i64::from(offset)), stride),
            Val::Varying(parts) => {
                let add = self.b.vconst(self.func.ty(addr), offset as i64 as u64);
                let sums = parts.iter().map(|&part| self.b.ins().iadd(part, add));
                Val::Varying(sums.collect())
            }
        };
        (val, 0)
    }

    /// Window addresses are taken as signed 32-bit offsets, whatever the width of the register.
    pub(super) fn resolve(&mut self, space: Space, ty: Type, addr: Val) -> Address {
        let addr = if space.is_window() {
            self.b.low_word(ty, addr)
        } else {
            addr
        };
        if space == Space::Local {
            return self.resolve_local(addr);
        }
        let Some(base) = self.b.window(space) else {
            return match addr {
                Val::Uniform(x) => Address::Scalar(self.b.cast_scalar(x, types::I64)),
                Val::Affine(x, stride) => {
                    Address::Strided(self.b.cast_scalar(x, types::I64), stride)
                }
                Val::Varying(parts) => Address::Lanes(parts),
            };
        };
        match addr {
            Val::Uniform(x) => {
                let x = self.b.ins().sextend(types::I64, x);
                Address::Scalar(self.b.ins().iadd(base, x))
            }
            Val::Affine(x, stride) => {
                let x = self.b.ins().sextend(types::I64, x);
                Address::Strided(self.b.ins().iadd(base, x), stride)
            }
            Val::Varying(parts) => Address::Lanes32(base, parts, junk_offset(space)),
        }
    }

    /// Each lane has its own window. This one belongs to the only lane of the gang, or the lane
    /// that a single-lane region runs.
    pub(super) fn only_window(&mut self) -> Option<cl::Value> {
        match self.b.lanes {
            1 => Some(self.windows()[0]),
            _ => self.own_window(),
        }
    }

    fn resolve_local(&mut self, addr: Val) -> Address {
        if let Some(window) = self.only_window() {
            let (Val::Uniform(x) | Val::Affine(x, _)) = addr else {
                unreachable!("one lane has scalars only")
            };
            let x = self.b.ins().sextend(types::I64, x);
            return Address::Scalar(self.b.ins().iadd(window, x));
        }
        let windows = self.windows();
        let offsets: Parts = match addr {
            Val::Uniform(x) => {
                let x = self.b.ins().sextend(types::I64, x);
                let splat = self.b.ins().splat(types::I64X2, x);
                Parts::from_elem(splat, windows.len())
            }
            Val::Affine(x, stride) => {
                let x = self.b.ins().sextend(types::I64, x);
                self.b.affine_parts(Type::B64, x, stride)
            }
            Val::Varying(parts) => self.b.widen_lanes(&parts),
        };
        Address::Lanes(
            windows
                .iter()
                .zip(offsets)
                .map(|(&window, offset)| self.b.ins().iadd(window, offset))
                .collect(),
        )
    }

    /// Writes the lanes of a value that may have wrapped to a buffer; an unmarked value is near
    /// `origin`.
    pub(super) fn call_resolve_wrapped(
        &mut self,
        base: cl::Value,
        stride: i64,
        may_wrap: MayWrap,
        origin: cl::Value,
        buf: cl::Value,
    ) {
        let stride = self.b.ins().iconst(types::I64, stride);
        let scale = if may_wrap.above {
            -may_wrap.scale
        } else {
            may_wrap.scale
        };
        let scale = self.b.ins().iconst(types::I64, scale);
        let lanes = self.b.lanes;
        let lanes = self.b.ins().iconst(types::I32, lanes as i64);
        let args = [base, stride, scale, origin, lanes, buf];
        self.call(Stub::ResolveWrapped, &args);
    }

    /// The running lanes as bits; one lane always runs.
    pub(super) fn mask_as_bits_or_one(&mut self) -> cl::Value {
        if self.b.lanes == 1 {
            self.b.ins().iconst(types::I32, 1)
        } else {
            self.mask_as_bits()
        }
    }

    /// The mask for 64-bit lanes, two per vector.
    pub(super) fn wide_mask(&mut self) -> Option<Parts> {
        self.unless_full()?;
        let mask = self.mask_vectors();
        Some(
            mask.iter()
                .flat_map(|&part| self.b.widen_mask(part))
                .collect(),
        )
    }

    /// Stores parts side by side in a buffer and returns its address.
    pub(super) fn store_to_buffer(&mut self, purpose: Buffer, parts: &[cl::Value]) -> cl::Value {
        let slot = self.buffer(purpose);
        let at = self.b.ins().stack_addr(types::I64, slot, 0);
        for (i, &part) in parts.iter().enumerate() {
            self.b
                .ins()
                .store(cl::MemFlagsData::trusted(), part, at, 16 * i as i32);
        }
        at
    }

    /// Each lane's host address.
    pub(super) fn lane_addresses(&mut self, address: &Address) -> Parts {
        match address {
            Address::Scalar(x) => {
                let splat = self.b.ins().splat(types::I64X2, *x);
                Parts::from_elem(splat, self.b.n_parts(Type::B64))
            }
            Address::Strided(x, stride) => self.b.affine_parts(Type::B64, *x, *stride),
            Address::MayWrap(wrapping) => {
                let inside = self.b.is_unwrapped(wrapping);
                let n = self.b.n_parts(Type::B64);
                let parts = self.either(
                    inside,
                    vec![types::I64X2; n],
                    |lower| {
                        let (at, stride) = (wrapping.at, wrapping.stride);
                        lower.b.affine_parts(Type::B64, at, stride).to_vec()
                    },
                    |lower| {
                        let addrs = lower.resolve_wrapped(wrapping);
                        lower.b.load_buffer(addrs, Type::B64).to_vec()
                    },
                );
                Parts::from_vec(parts)
            }
            Address::Lanes(parts) => parts.clone(),
            Address::Lanes32(base, parts, _) => {
                let wide = self.b.widen_lanes(parts);
                let base = self.b.ins().splat(types::I64X2, *base);
                wide.iter()
                    .map(|&part| self.b.ins().iadd(part, base))
                    .collect()
            }
        }
    }

    /// Sends lanes that do not run to memory of our own.
    pub(super) fn redirect(&mut self, address: Address, offset: i32) -> Address {
        if self.unless_full().is_none() {
            return address;
        }
        match address {
            Address::Lanes32(base, parts, junk_at) => {
                let mask = self.mask_vectors();
                let junk = self
                    .b
                    .vconst(Type::B32, (junk_at - i64::from(offset)) as u64);
                let parts = parts
                    .iter()
                    .zip(&mask)
                    .map(|(&part, &mask)| self.b.ins().blendv(mask, part, junk))
                    .collect();
                Address::Lanes32(base, parts, junk_at)
            }
            Address::Lanes(parts) => {
                let wide = self.wide_mask().expect("the mask may have gaps");
                let junk = self.b.field(core::mem::offset_of!(CtaContext, junk));
                let junk = self.b.plus(junk, -i64::from(offset));
                let junk = self.b.ins().splat(types::I64X2, junk);
                Address::Lanes(
                    parts
                        .iter()
                        .zip(&wide)
                        .map(|(&part, &mask)| self.b.ins().blendv(mask, part, junk))
                        .collect(),
                )
            }
            Address::Scalar(_) | Address::Strided(..) | Address::MayWrap(..) => {
                unreachable!("these have other ways for lanes that do not run")
            }
        }
    }

    /// Stops the CTA if the runtime returned an error.
    pub(super) fn stop_if(&mut self, status: cl::Value, bits: cl::Value) {
        let (fail, fine) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(status, fail, &[], fine, &[]);
        self.b.set_cold_block(fail);
        self.b.switch_to_block(fail);
        self.fault(FaultKind::Runtime, bits, None);
        self.b.switch_to_block(fine);
    }

    /// Whether a value is the same for all lanes.
    pub(super) fn is_uniform(&self, value: Value) -> bool {
        self.b.lanes == 1 || self.variability(value) == Variability::Uniform
    }
}
