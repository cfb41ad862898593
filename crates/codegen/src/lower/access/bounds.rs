//! The test of an access's address: that it lies in the arena, and is aligned.
//!
//! One mask finds both: it has the bits in which no address in the arena differs from the arena's
//! base, and the low bits that an aligned address has not. Accesses in windows, which are guarded
//! by unmapped memory, are tested for their low bits alone, and not at all where `multiples` proves
//! that they are aligned.

use core::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder};
use ptxjit_abi::CtaContext;
use ptxjit_ir::{self as ir, Access, Space, Type, Value};

use crate::lower::Lower;
use crate::ops::{Address, Alignment, Parts};

impl Lower<'_, '_> {
    /// Stops the CTA if the row of a tile at this offset of shared memory is misaligned. Under
    /// `memcheck`, too: the map's test knows only the words that are accessed.
    pub(in crate::lower) fn check_row(&mut self, row: Value) {
        let bytes = ir::ROW_BYTES;
        if 1 << self.decided.multiples[row] >= bytes {
            return;
        }
        let val = self.get(row);
        let address = self.resolve_value(Space::Shared, row, val);
        let alignment = Alignment {
            bytes,
            ..Alignment::KNOWN
        };
        self.check_alignment(&address, alignment);
        self.note_aligned_row(row);
    }

    /// What has to be found out about an access's alignment. Under `memcheck` the map's test does.
    pub(super) fn alignment(&self, access: Access) -> Alignment {
        let Access { offset, bytes, .. } = access;
        let is_multiple = 1 << self.decided.multiples[access.addr] >= bytes;
        let is_known = is_multiple && offset % bytes as i32 == 0;
        let asked = match self.inputs.foreign && !access.space.is_window() {
            true => bytes,
            false => 0,
        };
        if self.inputs.memcheck || !bytes.is_power_of_two() || is_known {
            return Alignment {
                asked,
                ..Alignment::KNOWN
            };
        }
        Alignment {
            bytes,
            offset,
            asked,
        }
    }

    /// Stops the CTA if a running lane's address lies outside the arena, or is misaligned. The
    /// arena's first and last pages are never mapped, so that nearby lanes and small offsets cannot
    /// leave it.
    pub(in crate::lower) fn check(&mut self, address: &Address, alignment: Alignment) {
        let arena = self.b.field(offset_of!(CtaContext, arena_base));
        let distance = match address {
            Address::Scalar(x) => self.b.ins().bxor(*x, arena),
            Address::Strided(x, stride) if alignment.holds_for_all(*stride) => {
                self.b.ins().bxor(*x, arena)
            }
            Address::Strided(..) | Address::Lanes(_) => {
                let parts = self.lane_addresses(address);
                let splat = self.b.splat(Type::B64, arena);
                let distances: Parts = self.b.each(&parts, |b, part| b.ins().bxor(part, splat));
                self.bits_of_lanes(&distances)
            }
            Address::MayWrap(..) => return,
            Address::Lanes32(..) => unreachable!("guarded by their window"),
        };
        // Both tests in one: the bits in which addresses in the arena equal its base, and the low
        // ones, of which the base has none.
        let forbidden = self.b.forbidden_bits(alignment);
        let bad = self.b.ins().band(distance, forbidden);
        self.stop_if_bad(bad, address, alignment);
    }

    /// Stops the CTA if a running lane's address is misaligned.
    pub(super) fn check_alignment(&mut self, address: &Address, alignment: Alignment) {
        if !alignment.is_known() && !matches!(address, Address::MayWrap(_)) {
            let low = self.misaligned_bits(address, alignment);
            self.stop_if_bad(low, address, alignment);
        }
    }

    fn stop_if_bad(&mut self, bad: cl::Value, address: &Address, alignment: Alignment) {
        let bad = self.b.ins().icmp_imm_s(IntCC::NotEqual, bad, 0);
        let fine = self.b.begin_cold(bad);
        self.in_cold_blocks(|lower| lower.report_bad(address, alignment, fine));
        self.b.switch_to_block(fine);
    }
}
