//! The loop over gangs, around it the loop over states, and around that the loop over CTAs.
//!
//! A gang all of whose lanes stop together has one state. While all gangs agree on a state that all may leave, there is no way back to the
//! runtime; nor is there one while CTAs end as a whole and there are more in the row.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use cranelift_frontend::{FunctionBuilder, Variable};
use rustc_hash::FxHashMap;

use super::{Gang, Lower, MaskClass};
use crate::abi::{CtaContext, LaneState};

/// The states in which gangs so far have stopped, which are one if all of their bits agree.
#[derive(Copy, Clone)]
struct Agreement {
    /// Bits that are set in all of them.
    all: Variable,
    /// Bits that are set in some.
    some: Variable,
}

impl Lower<'_, '_> {
    /// The loop over gangs and the dispatch on the state, in a loop over states where lanes can wait, in a loop over CTAs.
    pub(super) fn emit_gang_loop(&mut self) {
        let params = self.b.block_params(self.prologue).to_vec();
        let (state, first, end) = (params[1], params[2], params[3]);
        self.load_fields();
        let start = self.b.create_block();
        self.b.ins().jump(start, &[state.into()]);
        let state = self.b.append_block_param(start, types::I32);
        self.b.switch_to_block(start);
        self.emit_cta_invariants();
        let waits = self.plan.waits.len() > 1;
        let head = self.b.create_block();
        let idx = self.b.append_block_param(head, types::I32);
        let state = if waits {
            let var = self.b.declare_var(types::I32);
            self.b.def_var(var, state);
            Some(var)
        } else {
            None
        };
        let agreement = waits.then(|| self.begin_agreement());
        let enter = self.b.create_block();
        let done = self.b.create_block();
        let ended = self.b.create_block();
        let skip = self.b.create_block();
        self.b.ins().jump(head, &[first.into()]);

        self.b.switch_to_block(head);
        let more = self.b.ins().icmp(IntCC::UnsignedLessThan, idx, end);
        self.b.ins().brif(more, enter, &[], done, &[]);

        self.b.switch_to_block(done);
        if let (Some(agreement), Some(state)) = (agreement, state) {
            let next = self.agreed_state(agreement, ended);
            self.b.def_var(state, next);
            self.b.ins().jump(head, &[first.into()]);
        } else {
            self.b.ins().jump(ended, &[]);
        }

        self.b.switch_to_block(ended);
        self.emit_next_cta(start);

        self.b.switch_to_block(self.next_gang);
        if let Some(agreement) = agreement {
            self.add_to_agreement(agreement, idx);
        }
        self.b.ins().jump(skip, &[]);
        self.b.switch_to_block(skip);
        let next = self.b.ins().iadd_imm_s(idx, 1);
        self.b.ins().jump(head, &[next.into()]);

        self.b.switch_to_block(enter);
        self.emit_gang_entry(idx, skip);
        self.forget_nodes();
        let state = match state {
            Some(var) => self.b.use_var(var),
            None => params[1],
        };
        self.emit_dispatch(state);
    }

    /// A CTA has ended: starts the next one, or returns if that is up to the runtime.
    fn emit_next_cta(&mut self, start: cl::Block) {
        let flags = MemFlagsData::trusted();
        let left_at = core::mem::offset_of!(CtaContext, ctas_left) as i32;
        let left = self.b.ins().load(types::I32, flags, self.cta, left_at);
        let poll = self.field(core::mem::offset_of!(CtaContext, poll));
        // Another thread may set it at any time.
        let stop = self.b.ins().load(types::I32, flags, poll, 0);
        let zero = self.b.ins().iconst(types::I32, 0);
        let more = self.b.ins().select(stop, zero, left);
        let (next, leave) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(more, next, &[], leave, &[]);

        self.b.switch_to_block(leave);
        self.b.ins().return_(&[zero]);

        self.b.switch_to_block(next);
        let left = self.b.ins().iadd_imm_s(left, -1);
        self.b.ins().store(flags, left, self.cta, left_at);
        for at in [
            core::mem::offset_of!(CtaContext, ctaid),
            core::mem::offset_of!(CtaContext, clusterid),
        ] {
            let idx = self.b.ins().load(types::I32, flags, self.cta, at as i32);
            let idx = self.b.ins().iadd_imm_s(idx, 1);
            self.b.ins().store(flags, idx, self.cta, at as i32);
        }
        self.b.ins().jump(start, &[zero.into()]);
    }

    fn emit_gang_entry(&mut self, idx: cl::Value, skip: cl::Block) {
        let flags = MemFlagsData::trusted();
        let masks = self.field(core::mem::offset_of!(CtaContext, masks));
        let idx64 = self.b.ins().uextend(types::I64, idx);
        let at = self.b.ins().ishl_imm_s(idx64, 2);
        let at = self.b.ins().iadd(masks, at);
        let bits = self.b.ins().load(types::I32, flags, at, 0);
        self.b.ins().store(
            flags,
            idx,
            self.cta,
            core::mem::offset_of!(CtaContext, current_gang) as i32,
        );
        self.b.ins().store(
            flags,
            bits,
            self.cta,
            core::mem::offset_of!(CtaContext, current_mask) as i32,
        );
        let some = self.b.create_block();
        self.b.ins().brif(bits, some, &[], skip, &[]);
        self.b.switch_to_block(some);

        let slots = self.field(core::mem::offset_of!(CtaContext, slots));
        let frame = self
            .b
            .ins()
            .imul_imm_s(idx64, i64::from(self.out.frame.size));
        let frame = self.b.ins().iadd(slots, frame);
        let shift = i64::from(self.lanes.trailing_zeros());
        let thread = self.b.ins().ishl_imm_s(idx, shift);
        let full = self.full_bits();
        let all_on = self.b.ins().icmp_imm_s(IntCC::Equal, bits, full);
        let first_lane = self.b.ins().ctz(bits);
        let first_lane = self.b.ins().uextend(types::I64, first_lane);
        let local = self.local_windows(thread);
        self.gang = Some(Gang {
            idx,
            thread,
            frame,
            bits,
            all_on,
            first_lane,
            local,
        });
        if self.plan.waits.len() > 1 {
            self.stopped_at(u32::from(LaneState::APART));
        }
        self.emit_gang_invariants();
    }

    /// Nothing that nodes left behind for one gang holds for the next. Without this, what is read where no lane waits
    /// (a parameter blended with itself) would be kept alive around the loop over gangs.
    fn forget_nodes(&mut self) {
        let mut zeros: FxHashMap<cl::Type, cl::Value> = FxHashMap::default();
        for value in self.func.values.keys() {
            if !self.plan.escapes[value] || self.is_pinned(value) {
                continue;
            }
            for var in self.variables(value) {
                let ty = self.variable_type(value);
                let zero = *zeros.entry(ty).or_insert_with(|| zero(&mut self.b, ty));
                self.b.def_var(var, zero);
            }
        }
    }

    fn begin_agreement(&mut self) -> Agreement {
        self.stopped = Some(self.b.declare_var(types::I32));
        let agreement = Agreement {
            all: self.b.declare_var(types::I32),
            some: self.b.declare_var(types::I32),
        };
        self.reset_agreement(agreement);
        agreement
    }

    fn reset_agreement(&mut self, agreement: Agreement) {
        // Without a gang they do not agree.
        let ones = self.b.ins().iconst(types::I32, -1);
        let zero = self.b.ins().iconst(types::I32, 0);
        self.b.def_var(agreement.all, ones);
        self.b.def_var(agreement.some, zero);
    }

    /// Gang `idx` has stopped.
    fn add_to_agreement(&mut self, agreement: Agreement, idx: cl::Value) {
        let stopped = self.stopped.expect("declared where lanes can wait");
        let stopped = self.b.use_var(stopped);
        let states = self.field(core::mem::offset_of!(CtaContext, gang_states));
        let at = self.b.ins().uextend(types::I64, idx);
        let at = self.b.ins().ishl_imm_s(at, 1);
        let at = self.b.ins().iadd(states, at);
        self.b
            .ins()
            .istore16(MemFlagsData::trusted(), stopped, at, 0);
        let all = self.b.use_var(agreement.all);
        let all = self.b.ins().band(all, stopped);
        self.b.def_var(agreement.all, all);
        let some = self.b.use_var(agreement.some);
        let some = self.b.ins().bor(some, stopped);
        self.b.def_var(agreement.some, some);
    }

    /// All gangs have stopped: goes to `ended` if they have ended, and returns from the function unless all go on at the state that
    /// this gives.
    fn agreed_state(&mut self, agreement: Agreement, ended: cl::Block) -> cl::Value {
        let flags = MemFlagsData::trusted();
        let (listed, go_on, other, leave) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        let common = self.b.use_var(agreement.all);
        let some = self.b.use_var(agreement.some);
        let differs = self.b.ins().bxor(common, some);
        // States that are no resume point's are greater; so is what differs.
        let beyond = self.b.ins().ishl_imm_s(differs, 16);
        let both = self.b.ins().bor(common, beyond);
        let n_states = self.plan.waits.len() as i64;
        let is_point = self
            .b
            .ins()
            .icmp_imm_s(IntCC::UnsignedLessThan, both, n_states);
        self.b.ins().brif(is_point, listed, &[], other, &[]);

        self.b.switch_to_block(other);
        let exited = i64::from(LaneState::EXITED);
        let is_end = self.b.ins().icmp_imm_s(IntCC::Equal, both, exited);
        self.b.ins().brif(is_end, ended, &[], leave, &[]);

        self.b.switch_to_block(leave);
        let zero = self.b.ins().iconst(types::I32, 0);
        self.b.ins().return_(&[zero]);

        self.b.switch_to_block(listed);
        let table = self.field(core::mem::offset_of!(CtaContext, go_on));
        let at = self.b.ins().uextend(types::I64, common);
        let at = self.b.ins().iadd(table, at);
        let may = self.b.ins().uload8(types::I32, flags, at, 0);
        let poll = self.field(core::mem::offset_of!(CtaContext, poll));
        // Another thread may set it at any time.
        let stop = self.b.ins().load(types::I32, flags, poll, 0);
        let may = self.b.ins().icmp(IntCC::UnsignedGreaterThan, may, stop);
        self.b.ins().brif(may, go_on, &[], leave, &[]);
        self.b.switch_to_block(go_on);
        self.reset_agreement(agreement);
        common
    }

    /// Notes that all lanes of the gang stop here.
    pub(super) fn stopped_at(&mut self, state: u32) {
        let state = self.b.ins().iconst(types::I32, i64::from(state));
        self.stopped_at_scalar(state);
    }

    pub(super) fn stopped_at_scalar(&mut self, state: cl::Value) {
        let var = self.stopped.expect("declared where lanes can wait");
        self.b.def_var(var, state);
    }

    /// Whether the lanes of the current mask are all that the gang was entered with: nothing if that is certain.
    pub(super) fn unless_all_entered(&mut self) -> Option<cl::Value> {
        if self.lanes == 1 || self.certainly_full || self.mask == MaskClass::Entry {
            return None;
        }
        let bits = self.mask_as_bits();
        let entered = self.gang().bits;
        Some(self.b.ins().icmp(IntCC::Equal, bits, entered))
    }
}

fn zero(b: &mut FunctionBuilder<'_>, ty: cl::Type) -> cl::Value {
    if ty.is_vector() {
        let zeros = b.func.dfg.constants.insert(vec![0; 16].into());
        b.ins().vconst(ty, zeros)
    } else if ty == types::F32 {
        b.ins().f32const(0.0)
    } else if ty == types::F64 {
        b.ins().f64const(0.0)
    } else {
        b.ins().iconst(ty, 0)
    }
}
