//! Suspending lanes at a wait and resuming them.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, types};
use ptxjit_ir::Block;
use ptxjit_vectorize::{WaitKind, Yield};

use crate::decisions::mask_classes::has_fast_path;
use crate::lower::Lower;
use crate::lower::flow::control::Edge;
use crate::lower::flow::gangs::BUDGET;

impl Lower<'_, '_> {
    /// Emits the wait at a block's start and goes on to its body.
    pub(in crate::lower) fn emit_wait(&mut self, pos: usize, block: Block) {
        match self.plan.wait_of[block].map(|wait| (wait, self.plan.waits[wait as usize].kind)) {
            Some((wait, WaitKind::Inst(inst))) => {
                self.loc(self.func.insts[inst].loc);
                if has_fast_path(self.func, self.plan, inst) {
                    self.emit_fast_path(pos, inst);
                }
                self.suspend(wait);
                let pending = self.plan.pending_in[pos].clone();
                self.go(&[], &pending);
            }
            Some((
                _,
                WaitKind::Entry | WaitKind::Ready | WaitKind::Yield | WaitKind::StripMine,
            ))
            | None => self.enter_body(pos),
        }
        if !self.decided.falls_through(pos) {
            let start = self.node_body(pos);
            self.b.switch_to_block(start);
        }
        if !self.decided.continues(pos) {
            self.start_region(self.decided.classes.body[pos]);
        }
    }

    /// At the end of a loop that lets others run: when the budget of iterations is spent, the lanes
    /// still in the loop wait. Gangs that are strip-mined as a whole do so as long as all of their
    /// lanes are in the loop.
    fn emit_yield(&mut self, pos: usize, header: Block) {
        let (cost, only_whole) =
            match self.plan.yields[header].expect("only loops that yield come here") {
                Yield::Spin(cost) => (i64::from(cost), false),
                Yield::StripMine(strip_mine) => {
                    (BUDGET / i64::from(strip_mine), self.plan.strip_mines_full)
                }
            };
        let wait = self.plan.wait_of[header].expect("a loop that yields is a wait");
        self.loc(self.func.blocks[header].term_loc);
        let var = self.gangs.budget.expect("set at gang entry");
        let left = self.b.use_var(var);
        let left = self.b.ins().iadd_imm_s(left, -cost);
        self.b.def_var(var, left);
        let [stop, go_on] = self.b.create_blocks();
        let spent = self
            .b
            .ins()
            .icmp_imm_s(IntCC::SignedLessThanOrEqual, left, 0);
        self.b.ins().brif(spent, stop, &[], go_on, &[]);
        self.b.set_cold_block(stop);
        self.b.switch_to_block(stop);
        // No lane of a whole gang is elsewhere.
        let pending = match only_whole {
            true => Vec::new(),
            false => self.plan.pending[pos].clone(),
        };
        self.scoped(|lower| {
            let was_full = lower.mask.is_full;
            if only_whole && let Some(full) = lower.unless_full() {
                let whole = lower.b.create_block();
                lower.b.ins().brif(full, whole, &[], go_on, &[]);
                lower.b.set_cold_block(whole);
                lower.b.switch_to_block(whole);
                lower.mask.is_full = true;
            }
            lower.suspend(wait);
            lower.go(&[], &pending);
            lower.mask.is_full = was_full;
        });
        self.b.switch_to_block(go_on);
    }

    pub(in crate::lower) fn emit_loop_end(&mut self, pos: usize, header: Block) {
        if self.plan.yields[header].is_some() {
            self.emit_yield(pos, header);
        }
        let target = self.plan.order.block_pos[header].expect("headers are in the order") as usize;
        let pending = self.plan.pending[pos].clone();
        self.mask.class = self.decided.classes.arrive[pos];
        self.go_to(
            &[Edge {
                target,
                call: None,
                mask: None,
            }],
            &pending,
            Some(target),
        );
        // Loop ends have no body of their own.
        let start = self.node_body(pos);
        self.b.switch_to_block(start);
        let zero = self.b.ins().iconst(types::I32, 0);
        self.b.ins().return_(&[zero]);
    }
}
