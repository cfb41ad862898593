//! The test of an access's address: that it lies in the arena, and is aligned.
//!
//! One mask finds both: it has the bits in which no address in the arena differs from the arena's
//! base, and the low bits that an aligned address has not. Accesses in windows, which are guarded
//! by unmapped memory, are tested for their low bits alone, and not at all where `multiples` proves
//! that they are aligned.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{self as ir, Space, Type, Value};

use super::{Buffer, Lower};
use crate::ops::{Address, Alignment, Parts, Wrapping};
use ptxjit_abi::CtaContext;

impl Lower<'_, '_> {
    /// What has to be found out about an access's alignment. Under `memcheck` the map's test does.
    pub(super) fn alignment(&self, space: Space, addr: Value, offset: i32, size: u32) -> Alignment {
        let is_known = 1 << self.decided.multiples[addr] >= size && offset % size as i32 == 0;
        let asked = match self.inputs.foreign && !space.is_window() {
            true => size,
            false => 0,
        };
        if self.inputs.memcheck || !size.is_power_of_two() || is_known {
            return Alignment {
                asked,
                ..Alignment::KNOWN
            };
        }
        Alignment {
            bytes: size,
            offset,
            asked,
        }
    }

    /// Stops the CTA if the row of a tile at this offset of shared memory is misaligned. Under
    /// `memcheck`, too: the map's test knows only the words that are accessed.
    pub(super) fn check_row(&mut self, row: Value) {
        let bytes = ir::ROW_BYTES;
        if 1 << self.decided.multiples[row] >= bytes {
            return;
        }
        let val = self.get(row);
        let address = self.resolve(Space::Shared, self.func.ty(row), val);
        let alignment = Alignment {
            bytes,
            ..Alignment::KNOWN
        };
        self.check_alignment(&address, alignment);
    }

    /// Stops the CTA if a running lane's address lies outside the arena, or is misaligned. The
    /// arena's first and last pages are never mapped, so that nearby lanes and small offsets cannot
    /// leave it.
    pub(super) fn check(&mut self, address: &Address, alignment: Alignment) {
        let arena = self.b.field(core::mem::offset_of!(CtaContext, arena_base));
        let distance = match address {
            Address::Scalar(x) => self.b.ins().bxor(*x, arena),
            Address::Strided(x, stride) if alignment.holds_for_all(*stride) => {
                self.b.ins().bxor(*x, arena)
            }
            Address::Strided(..) | Address::Lanes(_) => {
                let parts = self.lane_addresses(address);
                let splat = self.b.ins().splat(types::I64X2, arena);
                let distances: Parts = parts
                    .iter()
                    .map(|&part| self.b.ins().bxor(part, splat))
                    .collect();
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
        let (fail, fine) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(bad, fail, &[], fine, &[]);
        self.b.set_cold_block(fail);
        self.b.switch_to_block(fail);
        self.report_bad(address, alignment, fine);
        self.b.switch_to_block(fine);
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
            Address::Lanes32(_, parts, _) => {
                let parts: Parts = parts
                    .iter()
                    .map(|&part| self.b.cast_vector(part, types::I64X2))
                    .collect();
                let both = self.bits_of_lanes(&parts);
                return self.b.ins().band_imm_s(both, low << 32 | low);
            }
            Address::MayWrap(..) => unreachable!("tested when it is resolved"),
        };
        self.b.ins().band_imm_s(bits, low)
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
        let slot = self.buffer(Buffer::Addresses);
        let buf = self.b.ins().stack_addr(types::I64, slot, 0);
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
    fn bits_of_lanes(&mut self, parts: &[cl::Value]) -> cl::Value {
        let mask = match parts.len() == self.b.n_parts(Type::B64) {
            true => self.wide_mask(),
            false => self.unless_full().map(|_| self.mask_vectors()),
        };
        let mut all = None;
        for (i, &part) in parts.iter().enumerate() {
            let mut bits = part;
            if let Some(mask) = &mask {
                let mask = self.b.cast_vector(mask[i], types::I64X2);
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
}
