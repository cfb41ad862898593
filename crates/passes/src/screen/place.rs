//! Where the tags of an access lie.

use ptxjit_ir::{InstData, Space, Type, Value};

use super::access::Access;
use super::instrument::Instrument;
use super::tags::{ATOMICS, READERS, WRITERS};

/// Offset in shared memory whose tags stand for all that is not shared; there is none below 0.
const UNUSED: i64 = -16;

/// Where tags lie, and whose they are.
pub(super) struct Place {
    /// Addresses in the tables of writers, readers and atomic operations; the same offset is added
    /// to each.
    pub(super) tables: [Value; 3],
    pub(super) offset: i32,
    /// Whether the memory is the CTA's own, if that is known now or when the code runs; only that
    /// of generic addresses is not.
    pub(super) is_shared: Shared,
    /// Lanes whose access counts; all if none.
    pub(super) counts: Option<Value>,
}

#[derive(Copy, Clone)]
pub(super) enum Shared {
    Known(bool),
    If(Value),
}

impl Instrument<'_> {
    /// Where the tags of an access lie.
    pub(super) fn place(&mut self, access: Access) -> Place {
        let scale = 4 / self.facts.granule;
        let at = |pass: &mut Self, addr: Value, tables: [Value; 3]| {
            let factor = pass.emit.iconst(Type::B64, scale.into());
            let addr = if scale == 1 {
                addr
            } else {
                pass.emit.mul(addr, factor)
            };
            tables.map(|table| pass.emit.add(addr, table))
        };
        let offset = access.offset.wrapping_mul(scale as i32);
        let (device, shared) = (self.common.device, self.common.shared);
        if access.space == Space::Shared {
            // Offsets in the window may have 32 bits.
            let addr = match self.emit.func.ty(access.addr) == Type::B64 {
                true => access.addr,
                false => self.emit.widen(access.addr, Type::B64),
            };
            let tables = at(self, addr, shared);
            return Place {
                tables,
                offset,
                is_shared: Shared::Known(true),
                counts: None,
            };
        }
        if access.space == Space::Global || !self.facts.windows {
            let tables = at(self, access.addr, device);
            return Place {
                tables,
                offset,
                is_shared: Shared::Known(false),
                counts: None,
            };
        }
        self.generic_place(access.addr, offset, at)
    }

    /// A generic address may be one of device memory, of shared memory, or of a window that threads
    /// do not share.
    fn generic_place(
        &mut self,
        addr: Value,
        offset: i32,
        at: impl Fn(&mut Self, Value, [Value; 3]) -> [Value; 3],
    ) -> Place {
        let [is_shared, is_device] = [Space::Shared, Space::Global].map(|space| {
            let data = InstData::IsSpace { space, arg: addr };
            self.emit.value(data, Type::B1)
        });
        let data = InstData::FromGeneric {
            space: Space::Shared,
            arg: addr,
        };
        let in_window = self.emit.value(data, Type::B64);
        let counts = self.emit.or(is_shared, is_device);
        let (device, shared) = (self.common.device, self.common.shared);
        let zero = self.emit.iconst(Type::B64, 0);
        let unused = self.emit.iconst(Type::B64, UNUSED as u64);
        let elsewhere = self.emit.select(is_shared, [in_window, unused]);
        let addr = self.emit.select(is_device, [addr, elsewhere]);
        let tables = [WRITERS, READERS, ATOMICS]
            .map(|idx| self.emit.select(is_device, [device[idx], shared[idx]]));
        let tables = at(self, addr, tables);
        // Only those of device memory and shared memory have tags of their own.
        let wide = self.emit.iconst(Type::B64, i64::from(offset) as u64);
        let offset = self.emit.select(counts, [wide, zero]);
        let tables = tables.map(|table| self.emit.add(table, offset));
        Place {
            tables,
            offset: 0,
            is_shared: Shared::If(is_shared),
            counts: Some(counts),
        }
    }
}
