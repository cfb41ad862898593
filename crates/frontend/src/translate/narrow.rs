//! Generic addresses of 32 bits, for modules whose addresses are that narrow.
//!
//! The engines' generic addresses have 64 bits. Global memory of a device for such modules lies
//! below [`CONST`], so that its addresses are the same in both forms. What lies above stands for
//! offsets in the windows; [`Translator::widen`] turns such an address into one of 64 bits and
//! leaves all others as they are, [`Translator::narrow`] is the way back.
//!
//! Addresses and sizes of windows are no part of PTX: programs learn them only by `cvta` and
//! `mapa`.

use ptxjit_ir::{CompareOp, InstData, IntBinaryOp, Space, Type, Value};

use super::Translator;

/// Where offsets in the window of constants begin: nothing of global memory lies here or above.
pub(super) const CONST: u64 = 0xe000_0000;
/// Parameters of kernels.
const PARAM: u64 = 0xe400_0000;
/// A thread's local memory.
const LOCAL: u64 = 0xe800_0000;
/// Shared memory of the cluster: sixteen CTAs of 16 MB each.
const SHARED: u64 = 0xf000_0000;
/// Where 32 bits end.
const END: u64 = 1 << 32;

/// The first address and the end of what stands for a window.
fn range(space: Space) -> Option<(u64, u64)> {
    match space {
        Space::Const => Some((CONST, PARAM)),
        Space::Param => Some((PARAM, LOCAL)),
        Space::Local => Some((LOCAL, SHARED)),
        Space::Shared | Space::SharedCluster => Some((SHARED, END)),
        Space::Generic | Space::Global => None,
    }
}

impl Translator<'_> {
    /// The instruction, with the address of 32 bits in global memory or any by which it may access
    /// memory made one of 64.
    pub(super) fn with_whole_address(&mut self, mut data: InstData) -> InstData {
        if self.has_wide_addresses() {
            return data;
        }
        let (InstData::Load {
            space: space @ (Space::Generic | Space::Global),
            addr,
            offset,
            ..
        }
        | InstData::Store {
            space: space @ (Space::Generic | Space::Global),
            addr,
            offset,
            ..
        }
        | InstData::Atomic {
            space: space @ (Space::Generic | Space::Global),
            addr,
            offset,
            ..
        }) = &mut data
        else {
            return data;
        };
        if self.value_ty(*addr) == Type::B32 {
            // Sums of addresses have 32 bits, too.
            let sum = self.add_offset(*addr, i64::from(*offset));
            let sum = self.zext_or_trunc(sum, Type::B64);
            let whole = match space {
                Space::Generic => self.widen(sum),
                _ => sum,
            };
            (*addr, *offset) = (whole, 0);
        }
        data
    }

    /// The generic address of 64 bits that one of 32, zero-extended, stands for. Others stay as
    /// they are.
    pub fn widen(&mut self, addr: Value) -> Value {
        if self.has_wide_addresses() {
            return addr;
        }
        let mut whole = addr;
        for space in [Space::Const, Space::Param, Space::Local, Space::Shared] {
            let Some((start, end)) = range(space) else {
                continue;
            };
            let [first, size] = [start, end - start].map(|n| self.iconst(Type::B64, n));
            let offset = self.binary(IntBinaryOp::Sub, addr, first);
            let is_here = self.compare(CompareOp::Ult, offset, size);
            let here = self.ins(InstData::ToGeneric { space, arg: offset }, Type::B64);
            whole = self.select(is_here, here, whole);
        }
        whole
    }

    /// The generic address of 32 bits, zero-extended, of an offset in a space.
    pub fn narrow(&mut self, space: Space, offset: Value) -> Value {
        let Some((start, end)) = range(space) else {
            return offset;
        };
        let [start, mask] = [start, end - start - 1].map(|n| self.iconst(Type::B64, n));
        let offset = self.binary(IntBinaryOp::And, offset, mask);
        self.binary(IntBinaryOp::Add, offset, start)
    }
}
