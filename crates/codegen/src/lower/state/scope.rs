//! Code on side paths, stack slots, and what else all of lowering uses.

use cranelift_codegen::ir::{self as cl, InstBuilder, SourceLoc, types};
use ptxjit_abi::SlowForm;
use ptxjit_ir::{self as ir, Type, Value};
use ptxjit_vectorize::Variability;

use crate::decisions::Assumed;
use crate::decisions::mask_classes::MaskClass;
use crate::lower::{Available, Buffer, Lower, Mask};
use crate::ops::{Emitter, Parts, int_type};

impl<'a> Lower<'a, '_> {
    /// A stack slot of one gang's lanes at 8 bytes each, for use within one instruction or one lane
    /// loop.
    pub(in crate::lower) fn buffer(&mut self, purpose: Buffer) -> cl::StackSlot {
        let found = self
            .slots
            .buffers
            .iter()
            .find(|(other, _)| *other == purpose);
        if let Some(&(_, slot)) = found {
            return slot;
        }
        let size = 8 * self.b.lanes.max(4) as u32;
        let data = cl::StackSlotData::new(cl::StackSlotKind::ExplicitSlot, size, 4);
        let slot = self.b.create_sized_stack_slot(data);
        self.slots.buffers.push((purpose, slot));
        slot
    }

    /// The address of such a slot.
    pub(in crate::lower) fn buffer_address(&mut self, purpose: Buffer) -> cl::Value {
        let slot = self.buffer(purpose);
        self.b.ins().stack_addr(types::I64, slot, 0)
    }

    pub(in crate::lower) fn loc(&mut self, loc: ir::SrcLoc) {
        self.node.loc = loc;
        self.b.set_srcloc(SourceLoc::new(loc.0));
    }

    /// See [`Decisions::strip`](crate::decisions::Decisions::strip).
    pub(in crate::lower) fn strip(&self) -> usize {
        self.decided.strip()
    }

    /// Notes that the instruction being emitted has no vector form.
    pub(in crate::lower) fn note_slow(&mut self, form: SlowForm) {
        let worst = self.out.slow.entry(self.node.loc).or_insert(form);
        *worst = form.max(*worst);
    }

    /// Emits code on a side path: values that it caches are dropped behind it.
    pub(in crate::lower) fn scoped<T>(&mut self, emit: impl FnOnce(&mut Self) -> T) -> T {
        let (available, active) = (self.available.clone(), self.lane.active.clone());
        let mask = self.mask.clone();
        let taken = self.slots.fragments.enter_branch();
        let result = emit(self);
        self.slots.fragments.come_back(taken);
        (self.available, self.lane.active) = (available, active);
        self.available.looked_up.clear();
        self.mask = Mask {
            class: self.mask.class,
            is_full: self.mask.is_full,
            ..mask
        };
        result
    }

    /// Runs `fast` if `full`, else `cold`; both return vectors of the given types.
    pub(in crate::lower) fn either(
        &mut self,
        full: cl::Value,
        types: Vec<cl::Type>,
        fast: impl FnOnce(&mut Self) -> Vec<cl::Value>,
        cold: impl FnOnce(&mut Self) -> Vec<cl::Value>,
    ) -> Vec<cl::Value> {
        let [yes, no, join] = self.b.create_blocks();
        let params = self.b.each(&types, |b, ty| b.append_block_param(join, ty));
        self.b.ins().brif(full, yes, &[], no, &[]);
        self.b.set_cold_block(no);
        self.b.switch_to_block(yes);
        let values = self.scoped(fast);
        self.jump_cast(join, &values, &types);
        self.b.switch_to_block(no);
        let values = self.in_cold_blocks(|lower| lower.scoped(cold));
        self.jump_cast(join, &values, &types);
        self.b.switch_to_block(join);
        params
    }

    /// Goes on to a block whose parameters have these types.
    fn jump_cast(&mut self, to: cl::Block, values: &[cl::Value], types: &[cl::Type]) {
        let cast = |b: &mut Emitter<'_>, x, ty| b.cast_vector(x, ty).into();
        let args: Vec<cl::BlockArg> = self.b.each_of_two((values, types), cast);
        self.b.ins().jump(to, &args);
    }

    /// Emits code that starts in a cold block: the blocks that it creates are cold, too. Otherwise
    /// they would lie between those of the usual path, which would jump over them.
    pub(in crate::lower) fn in_cold_blocks<T>(&mut self, emit: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.b.func.dfg.num_blocks();
        let result = emit(self);
        for block in before..self.b.func.dfg.num_blocks() {
            self.b.set_cold_block(cl::Block::from_u32(block as u32));
        }
        result
    }

    /// The values, or the result of `cold` if `rare`.
    pub(in crate::lower) fn unless(
        &mut self,
        rare: cl::Value,
        values: &[cl::Value],
        cold: impl FnOnce(&mut Self) -> Vec<cl::Value>,
    ) -> Vec<cl::Value> {
        let (join, params) = self.b.begin_rare(rare, values);
        let values = self.in_cold_blocks(|lower| lower.scoped(cold));
        self.b.jump_with(join, &values);
        self.b.switch_to_block(join);
        params
    }

    /// `mask ? new : old` for all parts of a value.
    pub(in crate::lower) fn blend(
        &mut self,
        ty: Type,
        mask: &[cl::Value],
        new: &[cl::Value],
        old: &[cl::Value],
    ) -> Parts {
        let wide = (ty == Type::B64).then(|| self.b.widen_lanes(mask));
        let mask = wide.as_deref().unwrap_or(mask);
        (0..new.len())
            .map(|i| self.b.choose(mask[i], new[i], old[i]))
            .collect()
    }

    /// The variability of a value in the code being emitted.
    pub(in crate::lower) fn variability(&self, value: ir::Value) -> Variability {
        self.decided.variability(value, self.assumed())
    }

    /// What holds in the code being emitted.
    pub(in crate::lower) fn assumed(&self) -> Assumed<'a> {
        Assumed {
            is_full: self.mask.is_full,
            one_lane: self.lane.active.is_some(),
            ..self.node.version
        }
    }

    /// The scalar CLIF type in which a uniform value is kept.
    pub(in crate::lower) fn scalar_type(&self, value: ir::Value) -> cl::Type {
        match (self.func.ty(value), self.decided.is_float[value]) {
            (Type::B32, true) => types::F32,
            (Type::B64, true) => types::F64,
            (ty, _) => int_type(ty),
        }
    }

    /// Whether a value is the same for all lanes.
    pub(in crate::lower) fn is_uniform(&self, value: Value) -> bool {
        self.b.lanes == 1 || self.variability(value) == Variability::Uniform
    }

    /// Stores parts side by side in a buffer and returns its address.
    pub(in crate::lower) fn store_to_buffer(
        &mut self,
        purpose: Buffer,
        parts: &[cl::Value],
    ) -> cl::Value {
        let at = self.buffer_address(purpose);
        self.b.store_own_vectors(parts, at, 0);
        at
    }

    /// Drops cached values, since other predecessors may lead here.
    pub(in crate::lower) fn start_region(&mut self, class: MaskClass) {
        self.available = Available::default();
        self.slots.fragments.forget();
        let is_full = self.inputs.whole_gangs && class == MaskClass::Entry;
        self.mask = Mask::new(class, is_full);
    }

    /// The stride of an address within each quad, if it is known.
    pub(in crate::lower) fn quad_step(&mut self, value: Value) -> Option<i32> {
        let assumed = self.assumed();
        self.decided.quad_step(value, assumed)
    }
}
