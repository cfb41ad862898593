//! A node's instructions, in each of its versions: once, or for gangs of which all lanes run and
//! for others.

use cranelift_codegen::ir::InstBuilder;
use ptxjit_ir::{self as ir, Inst};

use crate::lower::Lower;

impl Lower<'_, '_> {
    /// Emits instructions in order, except for runs that no other instruction can observe.
    fn emit_insts(&mut self, block: ir::Block, insts: &[Inst]) {
        self.node.block = Some(block);
        let mut rest = self.skip_done(insts);
        while let Some(&first) = rest.first() {
            let n = self.decided.stretch(rest, self.assumed());
            if n == 0 {
                self.node.n_done = self.emit_products(block, rest);
                if self.node.n_done > 0 {
                    rest = self.skip_done(rest);
                    continue;
                }
                let n_copied = self.emit_copy(rest);
                if n_copied > 0 {
                    rest = &rest[n_copied..];
                    continue;
                }
                self.loc(self.func.insts[first].loc);
                self.emit_effect(first);
                rest = &rest[1..];
                continue;
            }
            let (stretch, others) = rest.split_at(n);
            // Masked loads test the mask, and code with branches keeps no schedule.
            let schedule = match self.mask.is_full {
                true => self.decided.by_chains(block, stretch, self.assumed()),
                false => None,
            };
            match schedule {
                Some(schedule) => self.emit_steps(&schedule),
                None => self.emit_in_order(stretch),
            }
            rest = others;
        }
    }

    fn skip_done<'b>(&mut self, insts: &'b [Inst]) -> &'b [Inst] {
        let n_done = self.node.n_done.min(insts.len());
        self.node.n_done -= n_done;
        &insts[n_done..]
    }

    pub(super) fn emit_body(&mut self, pos: usize, block: ir::Block) {
        let insts = self.decided.insts_after_wait(block);
        if self.decided.cta_branches.late.contains_key(&block) {
            let mut early = insts.to_vec();
            early.retain(|&inst| !self.decided.cta_branches.is_late(block, inst));
            self.emit_insts(block, &early);
        } else {
            self.emit_insts(block, insts);
        }
        self.loc(self.func.blocks[block].term_loc);
        if self.take_decided(pos, block) {
            let late = self.decided.cta_branches.late[&block].clone();
            self.emit_in_order(&late);
        }
        self.emit_terminator(pos, block);
    }

    /// One version for when all lanes run, one for when some do. Where accesses are tested once per
    /// CTA, the first is for CTAs that have passed: few have not.
    pub(super) fn emit_twice(&mut self, pos: usize, block: ir::Block) {
        let (all, some) = (self.b.create_block(), self.b.create_block());
        let has_proof = self.decided.cta_ranges.nodes.contains(&pos);
        let proven = match has_proof {
            true => self.cta_is_proven(),
            false => None,
        };
        let guard = match (self.unless_full(), proven) {
            (Some(full), Some(proven)) => Some(self.b.ins().band(full, proven)),
            (full, proven) => full.or(proven),
        };
        match guard {
            Some(guard) => self.b.ins().brif(guard, all, &[], some, &[]),
            None => self.b.ins().jump(all, &[]),
        };
        self.b.switch_to_block(all);
        let affine_inputs = self.plan.affine_inputs[block].as_ref();
        self.in_full(|lower| {
            if let Some(affine_inputs) = affine_inputs {
                lower.unless_affine(affine_inputs, some);
            }
            lower.node.affine_inputs = affine_inputs;
            lower.node.is_proven = proven.is_some();
            lower.emit_body(pos, block);
            lower.node.is_proven = false;
            lower.node.affine_inputs = None;
        });
        self.b.set_cold_block(some);
        self.b.switch_to_block(some);
        // Whole gangs come here, too, if their CTA has not passed.
        match has_proof {
            true => self.emit_body(pos, block),
            false => self.in_general(|lower| lower.emit_body(pos, block)),
        }
    }

    /// Emits code without versions for whole gangs.
    pub(super) fn in_general(&mut self, emit: impl FnOnce(&mut Self)) {
        self.node.is_general = true;
        emit(self);
        self.node.is_general = false;
    }
}
