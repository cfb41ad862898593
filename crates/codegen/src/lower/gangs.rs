//! The loops over gangs, one for each resume point, and around them the loop over CTAs.
//!
//! A gang all of whose lanes stop together has one state. While all gangs stop at the same state,
//! and that wait may be left, the code does not return to the runtime; nor does it while CTAs end
//! as a whole and there are more in the row. Where it is certain at which state the gangs stop
//! (`phases`), the state is written only before a return.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use cranelift_frontend::{FunctionBuilder, Switch, Variable};
use ptxjit_ir as ir;
use rustc_hash::FxHashMap;

use super::Lower;
use super::stop_states::Several;
use crate::compile::CompileError;
use crate::decisions::lane_loops::is_local;
use crate::decisions::mask_classes::MaskClass;
use crate::limits::Growth;
use crate::ops::Parts;
use ptxjit_abi::{CtaContext, LaneState};

/// Iterations of loops that may wait for others before a gang lets other threads run.
pub(super) const BUDGET: i64 = 1024;

/// What holds while one gang runs.
pub(super) struct Gang {
    idx: Variable,
    /// Linear index of its first thread.
    thread: Variable,
    /// Where its slots are.
    frame: Variable,
    /// The lanes that it was entered with.
    bits: Variable,
    /// Generic address of each lane's local window, `i64x2` per two lanes; a scalar at one lane.
    /// Only where the kernel uses it.
    local: Vec<Variable>,
}

/// What the loops over gangs share.
pub(super) struct Loops {
    pub first: cl::Value,
    end: cl::Value,
    /// Each phase's loop, and where it goes on to the next gang.
    heads: Vec<cl::Block>,
    pub latches: Vec<cl::Block>,
    /// Where gangs of a phase stop: they record how before they go on.
    stops: Vec<cl::Block>,
    /// Goes to the phase of a state.
    dispatch: cl::Block,
    /// The CTA has ended.
    pub ended: cl::Block,
    /// All gangs have stopped at a state, but none has recorded it, and the runtime must go on.
    pub leave: cl::Block,
    /// What gangs record, if there are several phases.
    several: Option<Several>,
}

impl Lower<'_, '_> {
    /// The loops over gangs and the dispatch on the state, in a loop over CTAs.
    pub(super) fn emit_gang_loops(&mut self, growth: &Growth) -> Result<(), CompileError> {
        let params = self.b.block_params(self.emitted.prologue).to_vec();
        let (state, first, end) = (params[1], params[2], params[3]);
        self.b.load_fields();
        let start = self.b.create_block();
        self.b.ins().jump(start, &[state.into()]);
        let state = self.b.append_block_param(start, types::I32);
        self.b.switch_to_block(start);
        self.emit_cta_invariants();
        self.declare_gang();
        let n = self.plan.waits.len();
        let several = (n > 1).then(|| {
            self.gangs.stopped = Some(self.b.declare_var(types::I32));
            Several {
                state: self.b.declare_var(types::I32),
                common: self.b.declare_var(types::I32),
                differs: self.b.create_block(),
            }
        });
        let mut blocks = || (0..n).map(|_| self.b.create_block()).collect();
        let (heads, latches, stops) = (blocks(), blocks(), blocks());
        let loops = Loops {
            first,
            end,
            heads,
            latches,
            stops,
            dispatch: self.b.create_block(),
            ended: self.b.create_block(),
            leave: self.b.create_block(),
            several,
        };
        self.b.ins().jump(loops.dispatch, &[state.into()]);
        self.emit_dispatch(&loops);
        let between = self.values_between_nodes();
        // Each phase defines all of them.
        between
            .iter()
            .for_each(|&value| drop(self.variables(value)));
        self.declare_masks();
        growth.check(self.b.func, self.vars.count)?;
        for number in 0..n {
            self.emit_phase(&loops, number, &between);
            growth.check(self.b.func, self.vars.count)?;
        }
        self.emit_leave(&loops);
        if let Some(several) = loops.several {
            self.emit_differs(&loops, several);
        }
        self.b.switch_to_block(loops.ended);
        self.emit_next_cta(&loops, start);
        self.gangs.loops = Some(loops);
        Ok(())
    }

    /// Dispatches from a state to its phase.
    fn emit_dispatch(&mut self, loops: &Loops) {
        self.b.switch_to_block(loops.dispatch);
        let state = self.b.append_block_param(loops.dispatch, types::I32);
        let Some(several) = loops.several else {
            self.b.ins().jump(loops.heads[0], &[loops.first.into()]);
            return;
        };
        self.b.def_var(several.state, state);
        let bad = self.b.create_block();
        let mut switch = Switch::new();
        let mut entries = Vec::new();
        for (number, &head) in loops.heads.iter().enumerate() {
            let entry = self.b.create_block();
            switch.set_entry(number as u128, entry);
            entries.push((entry, head));
        }
        switch.emit(&mut self.b, state, bad);
        for (number, (entry, head)) in entries.into_iter().enumerate() {
            self.b.switch_to_block(entry);
            // Otherwise it would have parameters for what is read behind it, and finding the
            // branch's target for each takes as many steps as there are targets.
            self.b.seal_block(entry);
            self.expect(several, number);
            self.b.ins().jump(head, &[loops.first.into()]);
        }
        self.b.switch_to_block(bad);
        self.b.set_cold_block(bad);
        let one = self.b.ins().iconst(types::I32, 1);
        self.b.ins().return_(&[one]);
    }

    /// The loop that enters all gangs at one resume point.
    fn emit_phase(&mut self, loops: &Loops, number: usize, between: &[ir::Value]) {
        let (head, latch, stop) = (
            loops.heads[number],
            loops.latches[number],
            loops.stops[number],
        );
        let idx_var = self.gangs.gang.as_ref().expect("declared before").idx;
        let idx = self.b.append_block_param(head, types::I32);
        let (enter, done) = (self.b.create_block(), self.b.create_block());
        self.b.switch_to_block(head);
        self.b.def_var(idx_var, idx);
        let at_end = IntCC::UnsignedGreaterThanOrEqual;
        let at_end = self.b.ins().icmp(at_end, idx, loops.end);
        // Cranelift lays out the code behind a branch's last target first: this keeps the loop in
        // one place.
        self.b.ins().brif(at_end, done, &[], enter, &[]);

        self.b.switch_to_block(enter);
        self.emit_gang_entry(loops, number, latch, between);

        self.b.switch_to_block(stop);
        match loops.several {
            Some(several) => self.check_common_state(several, latch),
            None => {
                self.b.ins().jump(latch, &[]);
            }
        }

        self.b.switch_to_block(latch);
        let idx = self.b.use_var(idx_var);
        let next = self.b.ins().iadd_imm_s(idx, 1);
        self.b.ins().jump(head, &[next.into()]);

        self.b.switch_to_block(done);
        let Some(several) = loops.several else {
            self.b.ins().jump(loops.ended, &[]);
            return;
        };
        match self.decided.phases.next(number) {
            None => {
                let next = self.common_state(loops, several);
                self.b.ins().jump(loops.dispatch, &[next.into()]);
            }
            Some(LaneState::EXITED) => {
                self.b.ins().jump(loops.ended, &[]);
            }
            Some(next) => {
                let state = self.b.ins().iconst(types::I32, i64::from(next));
                let may = self.may_go_on(state);
                let go_on = self.b.create_block();
                self.b
                    .ins()
                    .brif(may, go_on, &[], loops.leave, &[state.into()]);
                self.b.switch_to_block(go_on);
                self.b.def_var(several.state, state);
                self.expect(several, usize::from(next));
                let head = loops.heads[usize::from(next)];
                self.b.ins().jump(head, &[loops.first.into()]);
            }
        }
    }

    /// Where gangs go that have stopped, in code of this phase alone; in other code,
    /// `stopped_in_any`.
    pub(super) fn way_out(&mut self, phase: Option<usize>) -> cl::Block {
        let loops = self.gangs.loops.as_ref().expect("emitted before nodes");
        match phase {
            Some(phase) if loops.several.is_none() || self.decided.phases.next(phase).is_some() => {
                loops.latches[phase]
            }
            Some(phase) => loops.stops[phase],
            None => *self
                .gangs
                .stopped_in_any
                .get_or_insert_with(|| self.b.create_block()),
        }
    }

    /// A gang has stopped in code that several phases run.
    pub(super) fn emit_stopped_in_any(&mut self) {
        let Some(block) = self.gangs.stopped_in_any else {
            return;
        };
        self.b.switch_to_block(block);
        let loops = self.gangs.loops.take().expect("emitted before");
        let Some(several) = loops.several else {
            self.b.ins().jump(loops.latches[0], &[]);
            return;
        };
        let all_same = self.b.create_block();
        self.check_common_state(several, all_same);
        self.b.switch_to_block(all_same);
        self.to_latch(&loops, several);
        self.gangs.loops = Some(loops);
    }

    /// All gangs that were entered have stopped at a state that none has recorded.
    fn emit_leave(&mut self, loops: &Loops) {
        let state = self.b.append_block_param(loops.leave, types::I32);
        self.b.switch_to_block(loops.leave);
        let [head, some, note, next, done] = std::array::from_fn(|_| self.b.create_block());
        let idx = self.b.append_block_param(head, types::I32);
        self.b.ins().jump(head, &[loops.first.into()]);
        self.b.switch_to_block(head);
        let more = self.b.ins().icmp(IntCC::UnsignedLessThan, idx, loops.end);
        self.b.ins().brif(more, some, &[], done, &[]);
        self.b.switch_to_block(some);
        let bits = self.mask_to_enter(idx);
        self.b.ins().brif(bits, note, &[], next, &[]);
        self.b.switch_to_block(note);
        self.note_state(idx, state);
        self.b.ins().jump(next, &[]);
        self.b.switch_to_block(next);
        let idx = self.b.ins().iadd_imm_s(idx, 1);
        self.b.ins().jump(head, &[idx.into()]);
        self.b.switch_to_block(done);
        let zero = self.b.ins().iconst(types::I32, 0);
        self.b.ins().return_(&[zero]);
    }

    /// A CTA has ended: starts the next one, or returns if the runtime has to.
    fn emit_next_cta(&mut self, loops: &Loops, start: cl::Block) {
        let flags = MemFlagsData::trusted();
        let left_at = core::mem::offset_of!(CtaContext, ctas_left) as i32;
        let cta = self.b.cta;
        let left = self.b.ins().load(types::I32, flags, cta, left_at);
        let poll = self.b.field(core::mem::offset_of!(CtaContext, poll));
        // Another thread may set it at any time.
        let stop = self.b.ins().load(types::I32, flags, poll, 0);
        let zero = self.b.ins().iconst(types::I32, 0);
        let more = self.b.ins().select(stop, zero, left);
        let (next, leave) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(more, next, &[], leave, &[]);

        self.b.switch_to_block(leave);
        if loops.several.is_some() {
            let state = i64::from(LaneState::EXITED);
            let state = self.b.ins().iconst(types::I32, state);
            self.b.ins().jump(loops.leave, &[state.into()]);
        } else {
            self.b.ins().return_(&[zero]);
        }

        self.b.switch_to_block(next);
        let left = self.b.ins().iadd_imm_s(left, -1);
        let cta = self.b.cta;
        self.b.ins().store(flags, left, cta, left_at);
        for at in [
            core::mem::offset_of!(CtaContext, ctaid),
            core::mem::offset_of!(CtaContext, clusterid),
        ] {
            let cta = self.b.cta;
            let idx = self.b.ins().load(types::I32, flags, cta, at as i32);
            let idx = self.b.ins().iadd_imm_s(idx, 1);
            let cta = self.b.cta;
            self.b.ins().store(flags, idx, cta, at as i32);
        }
        self.b.ins().jump(start, &[zero.into()]);
    }

    /// The lanes to enter of a gang.
    pub(super) fn mask_to_enter(&mut self, idx: cl::Value) -> cl::Value {
        let masks = self.b.field(core::mem::offset_of!(CtaContext, masks));
        let at = self.b.ins().uextend(types::I64, idx);
        let at = self.b.ins().ishl_imm_s(at, 2);
        let at = self.b.ins().iadd(masks, at);
        self.b
            .ins()
            .load(types::I32, MemFlagsData::trusted(), at, 0)
    }

    fn emit_gang_entry(
        &mut self,
        loops: &Loops,
        number: usize,
        latch: cl::Block,
        between: &[ir::Value],
    ) {
        let gang = self.gangs.gang.as_ref().expect("declared before");
        let (idx, bits_var) = (gang.idx, gang.bits);
        let idx = self.b.use_var(idx);
        let current = core::mem::offset_of!(CtaContext, current_gang) as i32;
        let flags = MemFlagsData::trusted();
        let cta = self.b.cta;
        self.b.ins().store(flags, idx, cta, current);
        if !self.inputs.whole_gangs {
            let bits = self.mask_to_enter(idx);
            let some = self.b.create_block();
            self.b.ins().brif(bits, some, &[], latch, &[]);
            self.b.switch_to_block(some);
            self.b.def_var(bits_var, bits);
        }
        self.forget_nodes(between);
        self.start_region(MaskClass::Entry);
        if loops.several.is_some() && self.decided.phases.next(number).is_none() {
            self.stopped_at(u32::from(LaneState::DIVERGED));
        }
        if let Some(budget) = self.gangs.budget {
            let iterations = self.b.ins().iconst(types::I32, BUDGET);
            self.b.def_var(budget, iterations);
        }
        self.define_places();
        self.emit_gang_invariants();
        self.start_region(MaskClass::Entry);
        self.resume(number);
    }

    fn declare_gang(&mut self) {
        let uses_windows = self.func.insts.values().any(|node| is_local(&node.data));
        let n_windows = match (uses_windows, self.b.lanes) {
            (false, _) => 0,
            (true, 1) => 1,
            (true, lanes) => lanes / 2,
        };
        let ty = if self.b.lanes == 1 {
            types::I64
        } else {
            types::I64X2
        };
        self.gangs.gang = Some(Gang {
            idx: self.b.declare_var(types::I32),
            thread: self.b.declare_var(types::I32),
            frame: self.b.declare_var(types::I64),
            bits: self.b.declare_var(types::I32),
            local: (0..n_windows).map(|_| self.b.declare_var(ty)).collect(),
        });
        let yields = self
            .func
            .blocks
            .keys()
            .any(|block| self.plan.yields[block].is_some());
        self.gangs.budget = yields.then(|| self.b.declare_var(types::I32));
    }

    fn gang(&self) -> &Gang {
        self.gangs.gang.as_ref().expect("declared before nodes")
    }

    /// The number of the gang.
    pub(super) fn gang_idx(&mut self) -> cl::Value {
        let idx = self.gang().idx;
        self.b.use_var(idx)
    }

    /// Linear index of the gang's first thread.
    pub(super) fn gang_thread(&mut self) -> cl::Value {
        let thread = self.gang().thread;
        self.b.use_var(thread)
    }

    /// Where the gang's slots are.
    pub(super) fn gang_frame(&mut self) -> cl::Value {
        let frame = self.gang().frame;
        self.b.use_var(frame)
    }

    /// The lanes that the gang was entered with.
    pub(super) fn gang_bits(&mut self) -> cl::Value {
        if self.inputs.whole_gangs {
            let all = self.b.full_bits();
            return self.b.ins().iconst(types::I32, all);
        }
        let bits = self.gang().bits;
        self.b.use_var(bits)
    }

    /// Whether the gang was entered with all lanes.
    pub(super) fn gang_is_full(&mut self) -> cl::Value {
        let (bits, full) = (self.gang_bits(), self.b.full_bits());
        self.b.ins().icmp_imm_s(IntCC::Equal, bits, full)
    }

    /// Number of the first lane that the gang was entered with; none if that is the first of all.
    pub(super) fn first_lane(&mut self) -> Option<cl::Value> {
        if self.b.lanes == 1 || self.inputs.whole_gangs {
            return None;
        }
        let bits = self.gang_bits();
        let first = self.b.ins().ctz(bits);
        Some(self.b.ins().uextend(types::I64, first))
    }

    /// Where the lanes' local windows are.
    pub(super) fn windows(&mut self) -> Parts {
        let vars = self.gang().local.clone();
        assert!(!vars.is_empty(), "a value uses the local windows");
        vars.iter().map(|&var| self.b.use_var(var)).collect()
    }

    /// Defines the values that follow from the gang's number.
    fn define_places(&mut self) {
        let gang = self.gang();
        let (thread_var, frame_var, vars) = (gang.thread, gang.frame, gang.local.clone());
        let idx = self.gang_idx();
        let shift = i64::from(self.b.lanes.trailing_zeros());
        let thread = self.b.ins().ishl_imm_s(idx, shift);
        self.b.def_var(thread_var, thread);
        let slots = self.b.field(core::mem::offset_of!(CtaContext, slots));
        let size = i64::from(self.out.frame.size);
        let idx = self.b.ins().uextend(types::I64, idx);
        let at = self.b.ins().imul_imm_s(idx, size);
        let frame = self.b.ins().iadd(slots, at);
        self.b.def_var(frame_var, frame);
        if vars.is_empty() {
            return;
        }
        let windows = self.b.local_windows(thread);
        vars.iter()
            .zip(windows)
            .for_each(|(&var, window)| self.b.def_var(var, window));
    }

    /// The values that variables carry from node to node.
    fn values_between_nodes(&self) -> Vec<ir::Value> {
        let escapes = |&value: &ir::Value| {
            self.plan.escapes[value]
                && !self.decided.invariants.is_pinned(value)
                && self.decided.residents.home(value).is_none()
        };
        self.func.values.keys().filter(escapes).collect()
    }

    /// Variables that nodes left behind for one gang are dead in the next. Without this, values
    /// that are read where no lane waits (a parameter blended with itself) would stay live around
    /// the loop over gangs.
    fn forget_nodes(&mut self, between: &[ir::Value]) {
        let mut zeros: FxHashMap<cl::Type, cl::Value> = FxHashMap::default();
        for &value in between {
            for var in self.variables(value) {
                let ty = self.variable_type(value);
                let zero = *zeros.entry(ty).or_insert_with(|| zero(&mut self.b, ty));
                self.b.def_var(var, zero);
            }
        }
        if self.b.lanes > 1 {
            let nodes: Vec<usize> = (0..self.plan.order.nodes.len()).collect();
            self.clear_masks(&nodes);
        }
    }

    /// Whether gangs that have all stopped at a resume point go on without the runtime.
    pub(super) fn may_go_on(&mut self, state: cl::Value) -> cl::Value {
        let flags = MemFlagsData::trusted();
        let table = self.b.field(core::mem::offset_of!(CtaContext, go_on));
        let at = self.b.ins().uextend(types::I64, state);
        let at = self.b.ins().iadd(table, at);
        let may = self.b.ins().uload8(types::I32, flags, at, 0);
        let poll = self.b.field(core::mem::offset_of!(CtaContext, poll));
        // Another thread may set it at any time.
        let stop = self.b.ins().load(types::I32, flags, poll, 0);
        self.b.ins().icmp(IntCC::UnsignedGreaterThan, may, stop)
    }

    /// Records that all lanes of the gang stop here.
    pub(super) fn stopped_at(&mut self, state: u32) {
        let state = self.b.ins().iconst(types::I32, i64::from(state));
        self.stopped_at_scalar(state);
    }

    pub(super) fn stopped_at_scalar(&mut self, state: cl::Value) {
        let var = self.gangs.stopped.expect("declared where lanes can wait");
        self.b.def_var(var, state);
    }

    /// Whether the lanes of the current mask are all that the gang was entered with: `None` if that
    /// is certain.
    pub(super) fn unless_all_entered(&mut self) -> Option<cl::Value> {
        if self.b.lanes == 1 || self.mask.is_full || self.mask.class == MaskClass::Entry {
            return None;
        }
        let bits = self.mask_as_bits();
        let entered = self.gang_bits();
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
