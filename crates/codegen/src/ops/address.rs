//! Parts of addresses, and tests of whether an access lies in the arena and is aligned.

use core::mem::offset_of;

use std::rc::Rc;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_abi::CtaContext;
use ptxjit_ir::{Space, Type};
use ptxjit_vectorize::MayWrap;

use super::{Emitter, Parts, Strided, Val};

/// Whether an offset needs no test of its own.
pub(crate) fn small(offset: i32) -> bool {
    offset.unsigned_abs() <= SMALL_OFFSET
}

/// Offsets up to this stay within the unmapped margins of the arena and of the windows.
pub(crate) const SMALL_OFFSET: u32 = 32 << 10;

/// Lanes at a constant distance from lane 0's address, unless the index wrapped.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Wrapping {
    pub at: cl::Value,
    pub stride: i64,
    pub may_wrap: MayWrap,
    pub alignment: Alignment,
}

impl Wrapping {
    /// The lanes where no index wrapped.
    pub(crate) fn strided(&self, offset: i32) -> Strided {
        let Wrapping { at, stride, .. } = *self;
        Strided { at, stride, offset }
    }
}

/// What a test must find out about an access beside that it is in the arena: its address plus
/// `offset` must be a multiple of `bytes`, which is 1 where that is known.
///
/// PTX ISA, "Addresses as Operands": an address must be a multiple of the access size.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Alignment {
    pub bytes: u32,
    pub offset: i32,
    /// Bytes of a lane's access where the runtime is asked about what lies outside of the arena,
    /// else 0: it can tell only of the very bytes, so the offset has to be part of the address.
    pub asked: u32,
}

impl Alignment {
    /// Nothing has to be found out.
    pub(crate) const KNOWN: Alignment = Alignment {
        bytes: 1,
        offset: 0,
        asked: 0,
    };

    pub(crate) fn is_known(self) -> bool {
        self.bytes == 1
    }

    /// Whether an offset need not be added to an address before that is tested.
    pub(crate) fn stays(self, offset: i32) -> bool {
        self.asked == 0 && small(offset) && offset % self.bytes as i32 == 0
    }

    /// Whether lanes at this distance are aligned if one of them is.
    pub(crate) fn holds_for_all(self, stride: i64) -> bool {
        stride % i64::from(self.bytes) == 0
    }
}

/// The host addresses of a gang's access.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    /// One for all lanes.
    Scalar(cl::Value),
    /// Lane 0's address and the constant stride.
    Strided(cl::Value, i64),
    /// The same, unless the index wrapped. Not tested yet: the bounds test finds wrapped indices,
    /// too.
    MayWrap(Wrapping),
    /// One per lane, `i64x2` per two lanes.
    Lanes(Parts),
    /// Each lane's signed 32-bit distance from a base.
    Lanes32(Distances),
}

/// Signed 32-bit distances from a base.
#[derive(Clone, Debug)]
pub(crate) struct Distances {
    pub base: cl::Value,
    /// Each lane's.
    pub parts: Parts,
    /// For lanes that do not run.
    pub junk: i64,
    pub known: Option<KnownDistances>,
}

/// Distances that are known at compile time but for few words: then no lane's address is taken from
/// a vector.
#[derive(Clone, Debug)]
pub(crate) struct KnownDistances {
    /// The different host addresses that lanes' are known distances from.
    pub bases: Rc<[cl::Value]>,
    /// From which of them each lane's address is how far.
    pub lanes: Rc<[(usize, i32)]>,
    /// A power of two that the distances of bases from each other are multiples of.
    pub multiple: u32,
}

impl KnownDistances {
    /// The base that a lane's address is this far from.
    pub(crate) fn of(&self, lane: usize) -> (cl::Value, i32) {
        let (base, more) = self.lanes[lane];
        (self.bases[base], more)
    }
}

impl Distances {
    /// Whether lanes are aligned if the first one is.
    pub(crate) fn are_multiples(&self, bytes: u32) -> bool {
        let known = self.known.as_ref();
        known.is_some_and(|known| {
            let mut lanes = known.lanes.iter();
            known.multiple >= bytes && lanes.all(|(_, more)| more % bytes as i32 == 0)
        })
    }
}

/// An access's address, ready to use: all necessary tests have been made.
pub(crate) struct Place {
    pub address: Address,
    pub offset: i32,
}

impl Emitter<'_> {
    /// The address of offset 0 of a window (of the first lane's for `.local`), or nothing for
    /// spaces without.
    pub(crate) fn window(&self, space: Space) -> Option<cl::Value> {
        let field = match space {
            Space::Generic | Space::Global | Space::Local => return None,
            Space::Shared | Space::SharedCluster => offset_of!(CtaContext, shared_base),
            Space::Const => offset_of!(CtaContext, const_base),
            Space::Param => offset_of!(CtaContext, params),
        };
        Some(self.field(field))
    }

    /// The window base that `cvta` adds.
    pub(crate) fn window_base(&mut self, space: Space) -> cl::Value {
        match self.window(space) {
            Some(base) => base,
            None => self.ins().iconst(types::I64, 0),
        }
    }

    pub(crate) fn low_word(&mut self, ty: Type, addr: Val) -> Val {
        if ty != Type::B64 {
            return match addr {
                Val::Uniform(x) => Val::Uniform(self.cast_scalar(x, types::I32)),
                Val::Affine(x, stride) => Val::Affine(self.cast_scalar(x, types::I32), stride),
                Val::Varying(parts) => Val::Varying(parts),
            };
        }
        match addr {
            Val::Uniform(x) => {
                let x = self.cast_scalar(x, types::I64);
                Val::Uniform(self.ins().ireduce(types::I32, x))
            }
            Val::Affine(x, stride) => {
                let x = self.cast_scalar(x, types::I64);
                Val::Affine(self.ins().ireduce(types::I32, x), stride)
            }
            Val::Varying(parts) => Val::Varying(self.each_pair(&parts, |b, x, y| b.narrow(x, y))),
        }
    }

    /// Each 32-bit lane as one of 64 bits, with its sign.
    pub(crate) fn widen_lanes(&mut self, parts: &[cl::Value]) -> Parts {
        parts
            .iter()
            .flat_map(|&part| self.widen_mask(part))
            .collect()
    }

    /// Two words of a vector, the first or the second two, each sign-extended to 64 bits. Both
    /// together take fewer instructions than each by itself.
    pub(crate) fn signed_words(&mut self, part: cl::Value, half: usize) -> [cl::Value; 2] {
        let both = self.pick64(part, half);
        let low = self.ins().ireduce(types::I32, both);
        [
            self.ins().sextend(types::I64, low),
            self.ins().sshr_imm_s(both, 32),
        ]
    }

    /// One lane's host address out of per-lane ones.
    pub(crate) fn lane_address(&mut self, address: &Address, lane: usize) -> cl::Value {
        match address {
            Address::Scalar(x) => *x,
            Address::Strided(x, stride) => self.plus(*x, stride * lane as i64),
            Address::MayWrap(..) => unreachable!("its lanes are asked for all together"),
            Address::Lanes(parts) => self.pick64(parts[lane / 2], lane % 2),
            Address::Lanes32(Distances {
                known: Some(known), ..
            }) => {
                let (base, more) = known.of(lane);
                self.plus(base, more.into())
            }
            Address::Lanes32(Distances { base, parts, .. }) => {
                let x = self.ins().extractlane(parts[lane / 4], (lane % 4) as u8);
                let x = self.ins().sextend(types::I64, x);
                self.ins().iadd(*base, x)
            }
        }
    }

    /// The host addresses of two neighboring lanes, the first of which is even.
    pub(crate) fn lane_addresses_of_pair(
        &mut self,
        address: &Address,
        pair: usize,
    ) -> [cl::Value; 2] {
        match address {
            Address::Lanes32(Distances {
                base,
                parts,
                known: None,
                ..
            }) => {
                let offsets = self.signed_words(parts[pair / 2], pair % 2);
                offsets.map(|offset| self.ins().iadd(*base, offset))
            }
            Address::Scalar(_)
            | Address::Strided(..)
            | Address::MayWrap(..)
            | Address::Lanes32(_)
            | Address::Lanes(_) => {
                [2 * pair, 2 * pair + 1].map(|lane| self.lane_address(address, lane))
            }
        }
    }

    /// Calls a function of the runtime that returns a status.
    pub(crate) fn call_runtime(
        &mut self,
        fns: cl::Value,
        offset: usize,
        args: &[cl::Value],
    ) -> cl::Value {
        let mut sig = cl::Signature::new(cranelift_codegen::isa::CallConv::triple_default(
            &target_lexicon::Triple::host(),
        ));
        sig.params.extend(
            args.iter()
                .map(|&arg| cl::AbiParam::new(self.func.dfg.value_type(arg))),
        );
        sig.returns.push(cl::AbiParam::new(types::I32));
        let sig = self.import_signature(sig);
        let callee = self.load_own(types::I64, fns, offset as i32);
        let call = self.ins().call_indirect(sig, callee, args);
        self.inst_results(call)[0]
    }

    /// An address plus some bytes. A sum with zero is not emitted: it would take a register beside
    /// those of its operands.
    pub(crate) fn plus(&mut self, at: cl::Value, bytes: i64) -> cl::Value {
        match bytes {
            0 => at,
            _ => self.ins().iadd_imm_s(at, bytes),
        }
    }

    /// The bits in which an address may not differ from the arena's base.
    pub(crate) fn forbidden_bits(&self, alignment: Alignment) -> cl::Value {
        self.forbidden[alignment.bytes.trailing_zeros() as usize]
    }

    /// Whether an address lies in the arena. A marked one does not.
    pub(crate) fn is_inside(&mut self, at: cl::Value) -> cl::Value {
        self.is_aligned_inside(at, Alignment::KNOWN)
    }

    fn is_aligned_inside(&mut self, at: cl::Value, alignment: Alignment) -> cl::Value {
        let arena = self.field(offset_of!(CtaContext, arena_base));
        let forbidden = self.forbidden_bits(alignment);
        let distance = self.ins().bxor(at, arena);
        let bad = self.ins().band(distance, forbidden);
        self.ins().icmp_imm_s(IntCC::Equal, bad, 0)
    }

    /// Whether lanes lie at a constant distance, in the arena and aligned.
    pub(crate) fn is_unwrapped(&mut self, wrapping: &Wrapping) -> cl::Value {
        match wrapping.alignment.holds_for_all(wrapping.stride) {
            true => self.is_aligned_inside(wrapping.at, wrapping.alignment),
            false => self.ins().iconst(types::I8, 0),
        }
    }
}
