//! Saving the values of some lanes of a gang.
//!
//! The code for the whole gang writes to a shadow frame then, and the slots of these lanes are
//! copied to the frame: by masked stores if there are few, or else by a stub.

use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::Type;

use crate::decisions::frame::is_shared;
use crate::lower::{Lower, Stub};
use crate::ops::{Parts, vector_type};
use crate::wide::masked;

/// At most this many values, times the places that save them, are saved by masked stores where only
/// some lanes wait: it is more code than a call.
const MOST_MASKED: usize = 48;

impl Lower<'_, '_> {
    /// The address of the shadow frame.
    pub(super) fn shadow_frame(&mut self) -> cl::Value {
        let size = self.out.frame.slots;
        let slot = *self.slots.shadow_frame.get_or_insert_with(|| {
            let data = cl::StackSlotData::new(cl::StackSlotKind::ExplicitSlot, size, 4);
            self.b.create_sized_stack_slot(data)
        });
        self.b.ins().stack_addr(types::I64, slot, 0)
    }

    /// Copies the current lanes' slots from `shadow` to the gang's frame.
    pub(super) fn merge_slots(&mut self, wait: u32, shadow: cl::Value) {
        let waits = &self.out.frame.waits;
        let slots = &waits[wait as usize];
        let n_values = waits.len() * (slots.saves.len() + slots.copies.len());
        if self.inputs.has_masked_stores && n_values <= MOST_MASKED {
            return self.save_masked(wait);
        }
        let layout = self.out.frame.waits[wait as usize].layout;
        let bits = self.mask_as_bits();
        let counts = self.b.ins().iconst(types::I64, layout.counts() as i64);
        let shape = i64::from(layout.wide_start) << 32 | self.b.lanes as i64;
        let shape = self.b.ins().iconst(types::I64, shape);
        let frame = self.gang_frame();
        self.call(Stub::MergeSlots, &[frame, shadow, bits, counts, shape]);
    }

    /// As [`Lower::save`], to the slots of the current lanes alone; uniform values are saved per
    /// lane.
    fn save_masked(&mut self, wait: u32) {
        let frame = self.gang_frame();
        let slots = &self.out.frame.waits[wait as usize];
        let (saves, copies) = (slots.saves.clone(), slots.copies.clone());
        let mask = self.mask_vectors();
        let wide = self.b.widen_lanes(&mask);
        let of_each = copies.iter().map(|&copy| (copy, false));
        let of_all = saves
            .iter()
            .map(|&save| (save, is_shared(self.plan, save.0)));
        for ((value, at), is_shared) in of_all.chain(of_each) {
            let ty = self.func.ty(value);
            let mask = if ty == Type::B64 { &wide } else { &mask };
            let parts = if is_shared {
                let x = self.scalar(value);
                let x = self.b.lane_scalar(ty, x);
                let splat = self.b.ins().splat(vector_type(ty), x);
                Parts::from_elem(splat, mask.len())
            } else {
                self.parts(value)
            };
            for (i, (&part, &mask)) in parts.iter().zip(mask).enumerate() {
                let at = at as i32 + 16 * i as i32;
                let masks = self.inputs.masks();
                masked::store(&mut self.b, (part, mask), masks, ty, (frame, at));
            }
        }
    }
}
