//! Addresses of a gang's accesses.

use core::mem::offset_of;

use std::rc::Rc;

use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_abi::warp_ops::WARP;
use ptxjit_abi::{CtaContext, IDLE_OFFSET};
use ptxjit_ir::{self as ir, Access, InstData, IntBinaryOp, Space, Type, Value};
use ptxjit_vectorize::MayWrap;

use crate::decisions::Differences;
use crate::lower::{Buffer, Lower};
use crate::ops::{
    Address, Alignment, Distances, KnownDistances, Parts, Val, Wrapping, small, vector_type,
};

/// The terms of sums are followed this deep.
const DEPTH: u32 = 4;

/// Words that are computed for places that are known but for them.
const MOST_BASES: usize = 8;

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
    /// Offsets that the test has to cover are added to the address.
    fn fold_offset(&mut self, access: Access, alignment: Alignment) -> (Val, i32) {
        let Access {
            space,
            addr,
            offset,
            ..
        } = access;
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

    /// The address in a window, or elsewhere, that a value is.
    pub(super) fn resolve_value(&mut self, space: Space, value: Value, val: Val) -> Address {
        let mut address = self.resolve(space, self.func.ty(value), val);
        if let Address::Lanes32(distances) = &mut address {
            distances.known = self.known_distances(value, distances.base);
        }
        address
    }

    /// The address of an access, and the offset that is left to be added to it.
    pub(super) fn locate(&mut self, access: Access, alignment: Alignment) -> (Address, i32) {
        let (val, left) = self.fold_offset(access, alignment);
        let address = match left == access.offset {
            true => self.resolve_value(access.space, access.addr, val),
            false => self.resolve(access.space, self.func.ty(access.addr), val),
        };
        (address, left)
    }

    /// The distances of lanes in a window that begins at `base`, if all lanes run and their places
    /// are known but for few words.
    pub(super) fn known_distances(
        &mut self,
        value: Value,
        base: cl::Value,
    ) -> Option<KnownDistances> {
        let is_whole = self.lane.active.is_none() && self.unless_full().is_none();
        let Differences { more, swizzled } =
            is_whole.then(|| self.decided.patterns.differences(value))??;
        // Sums of farther ones might leave the unmapped memory around the window.
        let is_near = |bytes: &u32| small(*bytes as i32);
        let (term, bits) = match swizzled {
            Some((term, bits)) => (Some(term), bits),
            None => (None, [0; WARP]),
        };
        let is_there = term.is_none_or(|term| term == value || self.is_at_hand(term));
        if !more.iter().chain(&bits).all(is_near) || !is_there {
            return None;
        }
        let mut different = bits.to_vec();
        different.sort_unstable();
        different.dedup();
        if different.len() > MOST_BASES {
            return None;
        }
        let bases = self.bases(value, (term, &different), base);
        let lanes = bits.iter().zip(more).map(|(bits, more)| {
            let base = different.binary_search(bits).expect("one of them");
            (base, more as i32)
        });
        let all = different.iter().fold(0, |all, bits| all | bits);
        Some(KnownDistances {
            bases,
            lanes: lanes.collect(),
            multiple: 1 << all.trailing_zeros().min(31),
        })
    }

    /// The first lane's address, with other bits of a term for each base.
    fn bases(
        &mut self,
        value: Value,
        (term, different): (Option<Value>, &[u32]),
        base: cl::Value,
    ) -> Rc<[cl::Value]> {
        let first = self.first_word(value, DEPTH);
        let term = term.map(|term| self.first_word(term, DEPTH));
        let bases = different.iter().map(|&bits| {
            let word = match term.filter(|_| bits != 0) {
                Some(term) => {
                    let rest = self.b.ins().isub(first, term);
                    let other = self.b.ins().bxor_imm_u(term, i64::from(bits));
                    self.b.ins().iadd(rest, other)
                }
                None => first,
            };
            let word = self.b.ins().sextend(types::I64, word);
            self.b.ins().iadd(base, word)
        });
        bases.collect()
    }

    /// The low word of a value in the first lane: the sum of those of its terms, where these are at
    /// hand, so that no vector is computed for it.
    fn first_word(&mut self, value: Value, depth: u32) -> cl::Value {
        if let Some(&InstData::IntBinary {
            op: IntBinaryOp::Add,
            args,
            ..
        }) = self.func.def_inst(value)
            && depth > 0
            && args.iter().all(|arg| self.is_at_hand(*arg))
        {
            let [a, b] = args.map(|arg| self.first_word(arg, depth - 1));
            return self.b.ins().iadd(a, b);
        }
        let x = match self.get(value) {
            Val::Uniform(x) | Val::Affine(x, _) => x,
            Val::Varying(parts) => self.b.extract(self.func.ty(value), &parts, 0),
        };
        match self.func.ty(value) {
            Type::B64 => {
                let x = self.b.cast_scalar(x, types::I64);
                self.b.ins().ireduce(types::I32, x)
            }
            Type::B1 | Type::B8 | Type::B16 | Type::B32 => self.b.cast_scalar(x, types::I32),
        }
    }

    /// Whether a value has been computed here, or is a constant.
    fn is_at_hand(&self, value: Value) -> bool {
        self.func.as_const(value).is_some() || self.available.vals.contains_key(&value)
    }

    /// Window addresses are taken as signed 32-bit offsets, whatever the width of the register.
    fn resolve(&mut self, space: Space, ty: Type, addr: Val) -> Address {
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
            Val::Varying(parts) => Address::Lanes32(Distances {
                base,
                parts,
                junk: junk_offset(space),
                known: None,
            }),
        }
    }

    /// Each lane has its own window. This one belongs to the only lane of the gang, or the lane
    /// that a single-lane region runs.
    pub(in crate::lower) fn only_window(&mut self) -> Option<cl::Value> {
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
                let splat = self.b.splat(Type::B64, x);
                Parts::from_elem(splat, windows.len())
            }
            Val::Affine(x, stride) => {
                let x = self.b.ins().sextend(types::I64, x);
                self.b.affine_parts(Type::B64, x, stride)
            }
            Val::Varying(parts) => self.b.widen_lanes(&parts),
        };
        Address::Lanes(
            self.b
                .each_of_two((&windows, &offsets), |b, window, offset| {
                    b.ins().iadd(window, offset)
                }),
        )
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
    fn wide_mask(&mut self) -> Option<Parts> {
        self.unless_full()?;
        Some(self.masks_for(Type::B64))
    }

    /// Each lane's host address.
    pub(super) fn lane_addresses(&mut self, address: &Address) -> Parts {
        match address {
            Address::Scalar(x) => {
                let splat = self.b.splat(Type::B64, *x);
                Parts::from_elem(splat, self.b.n_parts(Type::B64))
            }
            Address::Strided(x, stride) => self.b.affine_parts(Type::B64, *x, *stride),
            Address::MayWrap(wrapping) => {
                let inside = self.b.is_unwrapped(wrapping);
                let n = self.b.n_parts(Type::B64);
                let parts = self.either(
                    inside,
                    vec![vector_type(Type::B64); n],
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
            Address::Lanes32(Distances { base, parts, .. }) => {
                let wide = self.b.widen_lanes(parts);
                let base = self.b.splat(Type::B64, *base);
                self.b.each(&wide, |b, part| b.ins().iadd(part, base))
            }
        }
    }

    /// Sends lanes that do not run to memory of our own.
    pub(super) fn redirect(&mut self, address: Address, offset: i32) -> Address {
        if self.unless_full().is_none() {
            return address;
        }
        match address {
            Address::Lanes32(distances) => {
                let mask = self.mask_vectors();
                let junk = (distances.junk - i64::from(offset)) as u64;
                let junk = self.b.vconst(Type::B32, junk);
                let parts = (distances.parts.iter().zip(&mask))
                    .map(|(&part, &mask)| self.b.ins().blendv(mask, part, junk))
                    .collect();
                Address::Lanes32(Distances {
                    parts,
                    known: None,
                    ..distances
                })
            }
            Address::Lanes(parts) => {
                let wide = self.wide_mask().expect("the mask may have gaps");
                let junk = self.b.field(offset_of!(CtaContext, junk));
                let junk = self.b.plus(junk, -i64::from(offset));
                let junk = self.b.splat(Type::B64, junk);
                Address::Lanes(self.b.each_of_two((&parts, &wide), |b, part, mask| {
                    b.ins().blendv(mask, part, junk)
                }))
            }
            Address::Scalar(_) | Address::Strided(..) | Address::MayWrap(..) => {
                unreachable!("these have other ways for lanes that do not run")
            }
        }
    }

    /// The address of the lane that runs, where the gang's index may have wrapped; else `None`.
    fn own_address(&mut self, space: ir::Space, addr: Value) -> Option<Val> {
        let lane = self.lane.active.as_ref()?.lane;
        let may_wrap = self.plan.variability[addr].may_wrap()?;
        let Val::Affine(base, stride) = self.for_gang(|lower| lower.get(addr)) else {
            return None;
        };
        // Marks are above the bits that count in a window.
        let x = if space.is_window() {
            self.lane_of_affine(addr, base, stride, lane)
        } else {
            self.unless_wrapped(addr, (base, stride, may_wrap), lane)
        };
        Some(Val::Uniform(x))
    }

    /// The local window of the lane that runs, if only one does.
    pub(in crate::lower) fn own_window(&mut self) -> Option<cl::Value> {
        let active_lane = self.lane.active.as_ref()?;
        if active_lane.window.is_some() {
            return active_lane.window;
        }
        let lane = active_lane.lane;
        let thread = self.gang_thread();
        let thread = self.b.ins().uextend(types::I64, thread);
        let thread = self.b.ins().iadd(thread, lane);
        let stride = self.b.field(offset_of!(CtaContext, local_stride));
        let base = self.b.field(offset_of!(CtaContext, local_base));
        let distance = self.b.ins().imul(thread, stride);
        let window = self.b.ins().iadd(base, distance);
        self.lane.active.as_mut()?.window = Some(window);
        Some(window)
    }

    fn unless_wrapped(
        &mut self,
        addr: Value,
        (base, stride, may_wrap): (cl::Value, i64, MayWrap),
        lane: cl::Value,
    ) -> cl::Value {
        let wrapping = Wrapping {
            at: base,
            stride,
            may_wrap,
            alignment: Alignment::KNOWN,
        };
        let inside = self.b.is_unwrapped(&wrapping);
        self.either(
            inside,
            vec![types::I64],
            |lower| vec![lower.lane_of_affine(addr, base, stride, lane)],
            |lower| {
                let buf = lower.resolve_wrapped(&wrapping);
                vec![lower.b.load_lane(buf, lane, types::I64, 8)]
            },
        )[0]
    }

    /// On the cold path: writes each lane's own address to a buffer, whose address it returns, and
    /// stops the CTA if that of a running lane lies outside the arena or is misaligned.
    pub(super) fn resolve_wrapped(&mut self, wrapping: &Wrapping) -> cl::Value {
        let &Wrapping {
            at,
            stride,
            may_wrap,
            alignment,
        } = wrapping;
        let buf = self.buffer_address(Buffer::Addresses);
        // Marks lie above all addresses of the process, in the arena or not.
        let zero = self.b.ins().iconst(types::I64, 0);
        self.call_resolve_wrapped(at, stride, may_wrap, zero, buf);
        let bits = self.mask_as_bits();
        // Neither marks nor where wrapped lanes lie change the low bits.
        self.exit_if_misaligned(&Address::Strided(at, stride), alignment, bits);
        self.stop_if_outside(buf, bits, alignment, None);
        buf
    }

    /// All bits of the running lanes together; each vector holds two words of 64 bits, or four of
    /// 32 bits if there are half as many vectors.
    pub(super) fn bits_of_lanes(&mut self, parts: &[cl::Value]) -> cl::Value {
        let mask = match parts.len() == self.b.n_parts(Type::B64) {
            true => self.wide_mask(),
            false => self.unless_full().map(|_| self.mask_vectors()),
        };
        let mut all = None;
        for (i, &part) in parts.iter().enumerate() {
            let mut bits = part;
            if let Some(mask) = &mask {
                let mask = self.b.cast_vector(mask[i], vector_type(Type::B64));
                bits = self.b.ins().band(bits, mask);
            }
            all = Some(match all {
                None => bits,
                Some(all) => self.b.ins().bor(all, bits),
            });
        }
        let all = all.expect("a gang has lanes");
        let lo = self.b.ins().extractlane(all, 0);
        let hi = self.b.ins().extractlane(all, 1);
        self.b.ins().bor(lo, hi)
    }

    /// Not zero if a running lane's address is misaligned.
    pub(super) fn misaligned_bits(&mut self, address: &Address, alignment: Alignment) -> cl::Value {
        let low = i64::from(alignment.bytes - 1);
        let bits = match address {
            Address::Scalar(x) => *x,
            Address::Strided(x, stride) if alignment.holds_for_all(*stride) => *x,
            Address::Strided(..) | Address::Lanes(_) => {
                let parts = self.lane_addresses(address);
                self.bits_of_lanes(&parts)
            }
            Address::Lanes32(distances) if distances.are_multiples(alignment.bytes) => {
                self.b.lane_address(address, 0)
            }
            Address::Lanes32(Distances { parts, .. }) => {
                let parts: Parts = self
                    .b
                    .each(parts, |b, part| b.cast_vector(part, vector_type(Type::B64)));
                let both = self.bits_of_lanes(&parts);
                return self.b.ins().band_imm_s(both, low << 32 | low);
            }
            Address::MayWrap(..) => unreachable!("tested when it is resolved"),
        };
        self.b.ins().band_imm_s(bits, low)
    }
}
