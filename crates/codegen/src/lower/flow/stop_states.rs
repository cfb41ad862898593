//! The states at which gangs have stopped. Mostly all gangs stop at one state, which is then not
//! recorded.

use core::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use cranelift_frontend::{Switch, Variable};
use ptxjit_abi::{CtaContext, LaneState};

use crate::lower::Lower;
use crate::lower::flow::gangs::Loops;

/// This many phases are compared in sequence; more are looked up in a table.
const MOST_COMPARED: usize = 5;

/// State of kernels with several phases.
#[derive(Copy, Clone)]
pub(super) struct Several {
    /// The phase.
    pub state: Variable,
    /// The state in which all gangs so far have stopped, or `MIXED`; at first the expected one.
    pub common: Variable,
    /// A gang has stopped in another state.
    pub differs: cl::Block,
}

/// Gangs have stopped in different states, and each has recorded its own.
const MIXED: i64 = 0x1_0000;

impl Lower<'_, '_> {
    /// On to the next gang of the phase, whichever it is. The first phase is run once, later ones
    /// in loops.
    pub(super) fn to_latch(&mut self, loops: &Loops, several: Several) {
        let state = self.b.use_var(several.state);
        if loops.latches.len() > MOST_COMPARED {
            let mut switch = Switch::new();
            let mut entries = Vec::new();
            for (number, &latch) in loops.latches.iter().enumerate().skip(1) {
                let entry = self.b.create_block();
                switch.set_entry(number as u128, entry);
                entries.push((entry, latch));
            }
            switch.emit(&mut self.b, state, loops.latches[0]);
            for (entry, latch) in entries {
                self.b.switch_to_block(entry);
                // The arguments for a latch are then found at a jump and not at the table, where
                // finding each takes as many steps as the table has targets.
                self.b.seal_block(entry);
                self.b.ins().jump(latch, &[]);
            }
            return;
        }
        for (number, &latch) in loops.latches.iter().enumerate().skip(1).rev() {
            let other = self.b.create_block();
            let is_this = self.b.ins().icmp_imm_s(IntCC::Equal, state, number as i64);
            self.b.ins().brif(is_this, latch, &[], other, &[]);
            self.b.switch_to_block(other);
        }
        self.b.ins().jump(loops.latches[0], &[]);
    }

    /// A gang has stopped in another state than expected. If it is the first of the phase, the
    /// expectation changes; else all gangs record their states.
    pub(super) fn emit_differs(&mut self, loops: &Loops, several: Several) {
        let [head, entered, note, next, alone, divergent, on] = self.b.create_blocks();
        for block in [several.differs, head, entered, note, next, divergent] {
            self.b.set_cold_block(block);
        }
        self.b.switch_to_block(several.differs);
        let stopped = self
            .b
            .use_var(self.gangs.stopped.expect("declared where lanes can wait"));
        let common = self.b.use_var(several.common);
        let own = self.gang_idx();
        let is_noted = self.b.ins().icmp_imm_s(IntCC::Equal, common, MIXED);
        let zero = self.b.ins().iconst(types::I32, 0);
        self.b.ins().brif(
            is_noted,
            divergent,
            &[],
            head,
            &[loops.first.into(), zero.into()],
        );

        // The gangs before this one.
        let idx = self.b.append_block_param(head, types::I32);
        let any = self.b.append_block_param(head, types::I32);
        self.b.switch_to_block(head);
        let more = self.b.ins().icmp(IntCC::UnsignedLessThan, idx, own);
        let end = self.b.create_block();
        self.b.ins().brif(more, entered, &[], end, &[]);
        self.b.switch_to_block(entered);
        let bits = self.mask_to_enter(idx);
        self.b.ins().brif(bits, note, &[], next, &[any.into()]);
        self.b.switch_to_block(note);
        self.note_state(idx, common);
        self.b.ins().jump(next, &[bits.into()]);
        let any = self.b.append_block_param(next, types::I32);
        self.b.switch_to_block(next);
        let idx = self.b.ins().iadd_imm_s(idx, 1);
        self.b.ins().jump(head, &[idx.into(), any.into()]);
        self.b.switch_to_block(end);
        let any = self.b.func.dfg.block_params(head)[1];
        self.b.ins().brif(any, divergent, &[], alone, &[]);

        self.b.switch_to_block(alone);
        self.b.def_var(several.common, stopped);
        self.b.ins().jump(on, &[]);

        self.b.switch_to_block(divergent);
        self.note_state(own, stopped);
        let mixed = self.b.ins().iconst(types::I32, MIXED);
        self.b.def_var(several.common, mixed);
        self.b.ins().jump(on, &[]);

        self.b.switch_to_block(on);
        self.to_latch(loops, several);
    }

    /// Sets the state in which the gangs of a phase probably stop.
    pub(super) fn expect(&mut self, several: Several, phase: usize) {
        let state = self.decided.phases.expected_next(phase);
        let state = self.b.ins().iconst(types::I32, i64::from(state));
        self.b.def_var(several.common, state);
    }

    /// The gang has stopped: goes on to `then` if the others have stopped at the same state.
    pub(super) fn check_common_state(&mut self, several: Several, then: cl::Block) {
        let stopped = self.gangs.stopped.expect("declared where lanes can wait");
        let stopped = self.b.use_var(stopped);
        let common = self.b.use_var(several.common);
        let is_same = self.b.ins().icmp(IntCC::Equal, stopped, common);
        self.b.ins().brif(is_same, then, &[], several.differs, &[]);
    }

    /// All gangs have stopped: goes to `ended` if they have ended, and returns from the function
    /// unless all go on at the returned state.
    pub(super) fn common_state(&mut self, loops: &Loops, several: Several) -> cl::Value {
        let [listed, go_on, other, unlisted, noted] = self.b.create_blocks();
        let common = self.b.use_var(several.common);
        let n_states = self.plan.waits.len() as i64;
        // States that are no resume point's are greater.
        let is_point = self
            .b
            .ins()
            .icmp_imm_s(IntCC::UnsignedLessThan, common, n_states);
        self.b.ins().brif(is_point, listed, &[], other, &[]);

        self.b.switch_to_block(other);
        let exited = i64::from(LaneState::EXITED);
        let is_end = self.b.ins().icmp_imm_s(IntCC::Equal, common, exited);
        self.b.ins().brif(is_end, loops.ended, &[], unlisted, &[]);

        self.b.switch_to_block(unlisted);
        let is_noted = self.b.ins().icmp_imm_s(IntCC::Equal, common, MIXED);
        self.b
            .ins()
            .brif(is_noted, noted, &[], loops.leave, &[common.into()]);
        self.b.switch_to_block(noted);
        let zero = self.b.ins().iconst(types::I32, 0);
        self.b.ins().return_(&[zero]);

        self.b.switch_to_block(listed);
        let may = self.may_go_on(common);
        self.b
            .ins()
            .brif(may, go_on, &[], loops.leave, &[common.into()]);
        self.b.switch_to_block(go_on);
        common
    }

    pub(super) fn note_state(&mut self, idx: cl::Value, state: cl::Value) {
        let states = self.b.field(offset_of!(CtaContext, gang_states));
        let at = self.b.ins().uextend(types::I64, idx);
        let at = self.b.ins().ishl_imm_s(at, 1);
        let at = self.b.ins().iadd(states, at);
        self.b.ins().istore16(MemFlagsData::trusted(), state, at, 0);
    }
}
