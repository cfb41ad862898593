//! Saving what lanes that wait need, their states, and what lanes that resume load.

use core::mem::offset_of;

use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_abi::{CtaContext, LaneState};
use ptxjit_ir::{Type, Value};
use ptxjit_vectorize::Variability;

use crate::decisions::frame::is_shared;
use crate::decisions::mask_classes::MaskClass;
use crate::lower::{Lower, Stub};
use crate::ops::{Parts, Val, int_type, subword_type, vector_type};
use crate::slots::lane_bytes;

impl Lower<'_, '_> {
    /// The lanes of the current mask save their live values and leave.
    ///
    /// A whole gang writes to its frame. If only some lanes wait, others may have left values
    /// there: the same code writes to the shadow frame, from which a stub copies the slots of these
    /// lanes.
    pub(super) fn suspend(&mut self, wait: u32) {
        let frame = self.gang_frame();
        let Some(full) = self.unless_full() else {
            self.save(wait, frame);
            self.stopped_at(wait);
            return;
        };
        let slots = &self.out.frame.waits[wait as usize];
        if slots.saves.is_empty() && slots.copies.is_empty() {
            self.store_states(wait);
            return;
        }
        let shadow = self.shadow_frame();
        let at = self.b.ins().select(full, frame, shadow);
        self.scoped(|lower| lower.save(wait, at));
        let [whole, some, join] = self.b.create_blocks();
        self.b.ins().brif(full, whole, &[], some, &[]);
        self.b.set_cold_block(some);
        self.b.switch_to_block(whole);
        self.stopped_at(wait);
        self.b.ins().jump(join, &[]);
        self.b.switch_to_block(some);
        self.scoped(|lower| {
            lower.merge_slots(wait, shadow);
            lower.store_states(wait);
        });
        self.b.ins().jump(join, &[]);
        self.b.switch_to_block(join);
    }

    /// Writes the lanes' live values to the slots at `frame`; uniform ones once.
    fn save(&mut self, wait: u32, frame: cl::Value) {
        let slots = &self.out.frame.waits[wait as usize];
        let (saves, copies) = (slots.saves.clone(), slots.copies.clone());
        for (value, at) in saves {
            if self.b.lanes == 1 || is_shared(self.plan, value) {
                let x = self.scalar(value);
                let x = self.b.lane_scalar(self.func.ty(value), x);
                self.b.store_own(x, frame, at as i32);
            } else {
                self.save_parts(value, frame, at);
            }
        }
        for (value, at) in copies {
            self.save_parts(value, frame, at);
        }
    }

    fn save_parts(&mut self, value: Value, frame: cl::Value, at: u32) {
        for (i, part) in self.parts(value).into_iter().enumerate() {
            let at = at as i32 + 16 * i as i32;
            self.b.store_own(part, frame, at);
        }
    }

    /// Sets the state of the current lanes, if the runtime or a later phase reads it.
    pub(super) fn store_states(&mut self, state: u32) {
        if self.plan.waits.len() == 1 {
            return;
        }
        let state = self.b.ins().iconst(types::I32, i64::from(state));
        self.store_shared_state(state);
    }

    /// Sets the current lanes to one state, a scalar.
    fn store_shared_state(&mut self, state: cl::Value) {
        let Some(all) = self.unless_all_entered() else {
            self.stopped_at_scalar(state);
            return;
        };
        let [whole, some, join] = self.b.create_blocks();
        self.b.ins().brif(all, whole, &[], some, &[]);
        self.b.set_cold_block(some);
        self.b.switch_to_block(whole);
        self.stopped_at_scalar(state);
        self.b.ins().jump(join, &[]);
        self.b.switch_to_block(some);
        self.scoped(|lower| {
            // The state of lanes that have ended has this bit anyway.
            let partial = i64::from(LaneState::PARTIAL);
            let marked = lower.b.ins().bor_imm_s(state, partial);
            let at = lower.states_address();
            let bits = lower.mask_as_bits();
            lower.call(Stub::SetStates, &[at, bits, marked]);
        });
        self.b.ins().jump(join, &[]);
        self.b.switch_to_block(join);
    }

    pub(super) fn states_address(&mut self) -> cl::Value {
        let states = self.b.field(offset_of!(CtaContext, lane_states));
        let thread = self.gang_thread();
        let thread = self.b.ins().uextend(types::I64, thread);
        let at = self.b.ins().ishl_imm_s(thread, 1);
        self.b.ins().iadd(states, at)
    }

    /// Stores states of eight lanes per vector under the current mask.
    fn store_state_vectors(&mut self, new: &[cl::Value]) {
        let at = self.states_address();
        let mask = self.mask_vectors();
        let mask = self.narrow_lanes(&mask);
        for (i, (&new, &mask)) in new.iter().zip(&mask).enumerate() {
            let old = self.b.load_own(subword_type(Type::B8), at, 16 * i as i32);
            let new = self.b.cast_vector(new, subword_type(Type::B8));
            let blended = self.b.ins().blendv(mask, new, old);
            self.b.store_own(blended, at, 16 * i as i32);
        }
    }

    /// The low halves of 32-bit lanes, eight per vector; a missing second quad is zero.
    fn narrow_lanes(&mut self, parts: &[cl::Value]) -> Parts {
        let zero = self.b.zero_vector(Type::B32);
        parts
            .chunks(2)
            .map(|pair| {
                let second = pair.get(1).copied().unwrap_or(zero);
                self.b.shuffle(
                    pair[0],
                    second,
                    [0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29],
                )
            })
            .collect()
    }

    /// The current lanes go on at the states that `state` says.
    pub(super) fn store_dispatch(&mut self, state: Value) {
        if self.plan.variability[state] == Variability::Uniform {
            let x = self.scalar(state);
            self.store_shared_state(x);
            return;
        }
        let partial = self.b.vconst(Type::B32, u64::from(LaneState::PARTIAL));
        let parts: Parts = self
            .parts(state)
            .iter()
            .map(|&part| self.b.ins().bor(part, partial))
            .collect();
        let narrow = self.narrow_lanes(&parts);
        self.store_state_vectors(&narrow);
    }

    /// From the head of a phase to the code after the wait.
    pub(super) fn resume(&mut self, number: usize) {
        let block = self.plan.waits[number].block;
        let pos = self.plan.order.block_pos[block].expect("waits are in the order") as usize;
        let slots = &self.out.frame.waits[number];
        let loads: Vec<(Value, u32)> = slots.saves.iter().chain(&slots.results).copied().collect();
        let first = self.first_lane();
        for (value, at) in loads {
            let val = self.load_slot(value, at, first);
            self.define_variables(value, &val);
        }
        if self.decided.classes.body[pos] == MaskClass::Own(pos) && self.b.lanes > 1 {
            let entered = self.class_lanes(MaskClass::Entry);
            self.set_mask(pos, &entered);
        }
        let pending = self.plan.pending[pos].clone();
        self.clear_masks(&pending);
        let body = self.node_body(pos);
        self.b.ins().jump(body, &[]);
    }

    fn load_slot(&mut self, value: Value, at: u32, first: Option<cl::Value>) -> Val {
        let ty = self.func.ty(value);
        let frame = self.gang_frame();
        let variability = self.plan.variability[value];
        if variability == Variability::Varying && self.b.lanes > 1 {
            let parts = (0..self.b.n_parts(ty)).map(|i| {
                self.b
                    .load_own(vector_type(ty), frame, at as i32 + 16 * i as i32)
            });
            return Val::Varying(parts.collect());
        }
        let address = match first {
            Some(first) => self.slot_of_lane(first, lane_bytes(ty)),
            None => frame,
        };
        let wide = if ty == Type::B64 {
            types::I64
        } else {
            types::I32
        };
        let raw = self.b.load_own(wide, address, at as i32);
        let x = match ty {
            Type::B32 | Type::B64 => raw,
            Type::B8 | Type::B16 => self.b.ins().ireduce(int_type(ty), raw),
            Type::B1 => {
                let low = self.b.ins().band_imm_s(raw, 1);
                self.b.ins().ireduce(types::I8, low)
            }
        };
        let x = self.b.cast_scalar(x, self.scalar_type(value));
        match variability {
            Variability::Affine { stride, .. } => Val::Affine(x, stride),
            Variability::Uniform | Variability::Varying => Val::Uniform(x),
        }
    }

    /// Where a lane's element of a slot at offset 0 is.
    fn slot_of_lane(&mut self, lane: cl::Value, lane_bytes: u32) -> cl::Value {
        let frame = self.gang_frame();
        let shift = i64::from(lane_bytes.trailing_zeros());
        let at = self.b.ins().ishl_imm_s(lane, shift);
        self.b.ins().iadd(frame, at)
    }
}
