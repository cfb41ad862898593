//! The loops over gangs, one for each resume point, and around them the loop over CTAs.
//!
//! A gang all of whose lanes stop together has one state. While all gangs stop at the same state,
//! and that wait may be left, the code does not return to the runtime; nor does it while CTAs end
//! as a whole and there are more in the row. Where it is certain at which state the gangs stop
//! (`phases`), the state is written only before a return.

use core::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use cranelift_frontend::{FunctionBuilder, Switch};
use ptxjit_abi::{CtaContext, LaneState};
use ptxjit_ir as ir;
use rustc_hash::FxHashMap;

use crate::compile::CompileError;
use crate::decisions::mask_classes::MaskClass;
use crate::limits::Growth;
use crate::lower::Lower;
use crate::lower::flow::stop_states::Several;

/// Iterations of loops that may wait for others before a gang lets other threads run.
pub(super) const BUDGET: i64 = 1024;

/// What the loops over gangs share.
pub(in crate::lower) struct Loops {
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
    pub(in crate::lower) fn emit_gang_loops(
        &mut self,
        growth: &Growth,
    ) -> Result<(), CompileError> {
        let params = self.b.block_params(self.emitted.prologue).to_vec();
        let (state, first, end) = (params[1], params[2], params[3]);
        self.b.load_fields();
        let start = self.b.create_block();
        let mut args = vec![state.into()];
        args.extend(self.nothing_known());
        self.b.ins().jump(start, &args);
        let state = self.b.append_block_param(start, types::I32);
        let known = self.known_of_start(start);
        self.b.switch_to_block(start);
        self.emit_cta_invariants();
        self.emit_known_of_cta(known, state, [first, end]);
        self.declare_gang();
        let n = self.plan.waits.len();
        let loops = self.declare_loops(n, [first, end]);
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

    /// The blocks of the loops over gangs from `first` to `end`, with `n` phases.
    fn declare_loops(&mut self, n: usize, [first, end]: [cl::Value; 2]) -> Loops {
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
        Loops {
            first,
            end,
            heads,
            latches,
            stops,
            dispatch: self.b.create_block(),
            ended: self.b.create_block(),
            leave: self.b.create_block(),
            several,
        }
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
        let (head, latch) = (loops.heads[number], loops.latches[number]);
        let idx_var = self.gangs.gang.as_ref().expect("declared before").idx;
        let idx = self.b.append_block_param(head, types::I32);
        let [enter, done] = self.b.create_blocks();
        self.b.switch_to_block(head);
        self.b.def_var(idx_var, idx);
        let at_end = IntCC::UnsignedGreaterThanOrEqual;
        let at_end = self.b.ins().icmp(at_end, idx, loops.end);
        // Cranelift lays out the code behind a branch's last target first: this keeps the loop in
        // one place.
        self.b.ins().brif(at_end, done, &[], enter, &[]);

        self.b.switch_to_block(enter);
        self.emit_gang_entry(loops, number, latch, between);

        self.b.switch_to_block(loops.stops[number]);
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
        self.emit_phase_end(loops, number);
    }

    /// All gangs have left a phase: goes on to the next one.
    fn emit_phase_end(&mut self, loops: &Loops, number: usize) {
        let next = self.decided.phases.next(number);
        let (Some(several), false) = (loops.several, next == Some(LaneState::EXITED)) else {
            self.b.ins().jump(loops.ended, &[]);
            return;
        };
        let Some(next) = next else {
            let next = self.common_state(loops, several);
            self.b.ins().jump(loops.dispatch, &[next.into()]);
            return;
        };
        let state = self.b.ins().iconst(types::I32, i64::from(next));
        let may = self.may_go_on(state);
        let go_on = self.b.create_block();
        let leave = [state.into()];
        self.b.ins().brif(may, go_on, &[], loops.leave, &leave);
        self.b.switch_to_block(go_on);
        self.b.def_var(several.state, state);
        self.expect(several, usize::from(next));
        let head = loops.heads[usize::from(next)];
        self.b.ins().jump(head, &[loops.first.into()]);
    }

    /// Where gangs go that have stopped, in code of this phase alone; in other code,
    /// `stopped_in_any`.
    pub(in crate::lower) fn way_out(&mut self, phase: Option<usize>) -> cl::Block {
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
    pub(in crate::lower) fn emit_stopped_in_any(&mut self) {
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
        let [head, some, note, next, done] = self.b.create_blocks();
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
        let left_at = offset_of!(CtaContext, ctas_left) as i32;
        let cta = self.b.cta;
        let left = self.b.load_own(types::I32, cta, left_at);
        let poll = self.b.field(offset_of!(CtaContext, poll));
        // Another thread may set it at any time.
        let stop = self.b.load_own(types::I32, poll, 0);
        let zero = self.b.ins().iconst(types::I32, 0);
        let more = self.b.ins().select(stop, zero, left);
        let [next, leave] = self.b.branch(more);

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
        self.b.store_own(left, cta, left_at);
        for at in [
            offset_of!(CtaContext, ctaid),
            offset_of!(CtaContext, clusterid),
        ] {
            let cta = self.b.cta;
            let idx = self.b.load_own(types::I32, cta, at as i32);
            let idx = self.b.ins().iadd_imm_s(idx, 1);
            let cta = self.b.cta;
            self.b.store_own(idx, cta, at as i32);
        }
        let mut args = vec![zero.into()];
        args.extend(self.known_of_next());
        self.b.ins().jump(start, &args);
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
        let current = offset_of!(CtaContext, current_gang) as i32;
        let cta = self.b.cta;
        self.b.store_own(idx, cta, current);
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

    /// The values that variables carry from node to node.
    fn values_between_nodes(&self) -> Vec<ir::Value> {
        let crosses = |&value: &ir::Value| {
            self.decided.crosses[value]
                && !self.decided.invariants.is_pinned(value)
                && self.decided.residents.home(value).is_none()
        };
        self.func.values.keys().filter(crosses).collect()
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
