//! A node's instructions, in each of its versions: once, or for gangs of which all lanes run and
//! for others.

use cranelift_codegen::ir::InstBuilder;
use ptxjit_ir::{self as ir, Inst};

use crate::decisions::Assumed;
use crate::lower::Lower;

impl<'a> Lower<'a, '_> {
    /// Emits a node's instructions, in its versions.
    pub(super) fn emit_versions(&mut self, pos: usize, block: ir::Block) {
        match self.decided.versions(pos, block)[..] {
            [version] => self.emit_version(pos, block, version),
            [whole, others] => self.emit_twice(pos, block, [whole, others]),
            _ => unreachable!("there is one for all gangs, or one for whole ones beside it"),
        }
    }

    /// One version for when all lanes run, one for when some do. Where accesses are tested once per
    /// CTA, the first is for CTAs that have passed: few have not.
    fn emit_twice(&mut self, pos: usize, block: ir::Block, [whole, others]: [Assumed<'a>; 2]) {
        let [all, some] = self.b.create_blocks();
        let proven = whole.is_proven.then(|| self.cta_is_proven());
        let guard = match (self.unless_full(), proven) {
            (Some(full), Some(proven)) => Some(self.b.ins().band(full, proven)),
            (full, proven) => full.or(proven),
        };
        match guard {
            Some(guard) => self.b.ins().brif(guard, all, &[], some, &[]),
            None => self.b.ins().jump(all, &[]),
        };
        self.b.switch_to_block(all);
        self.in_full(|lower| {
            if let Some(affine_inputs) = whole.affine_inputs {
                lower.unless_affine(affine_inputs, some);
            }
            lower.emit_version(pos, block, whole);
        });
        self.b.set_cold_block(some);
        self.b.switch_to_block(some);
        self.emit_version(pos, block, others);
    }

    /// Emits the version of a node in which this holds.
    fn emit_version(&mut self, pos: usize, block: ir::Block, version: Assumed<'a>) {
        self.node.version = version;
        self.emit_body(pos, block);
        self.node.version = Assumed::default();
    }

    fn emit_body(&mut self, pos: usize, block: ir::Block) {
        let (early, late) = self.decided.early_and_late(block);
        self.emit_early(block, &early);
        self.loc(self.func.blocks[block].term_loc);
        if self.take_decided(pos, block) {
            self.emit_late(&late);
        }
        self.emit_terminator(pos, block);
    }

    /// Emits what only a branch needs that is not decided for the CTA.
    fn emit_late(&mut self, insts: &[Inst]) {
        let mut units = Vec::new();
        self.decided.in_order(insts, self.assumed(), &mut units);
        self.emit_units(&units);
    }

    /// Emits instructions of a block that come after those that are done.
    fn emit_early(&mut self, block: ir::Block, insts: &[Inst]) {
        self.node.block = Some(block);
        let n_done = self.node.n_done.min(insts.len());
        let assumed = self.assumed();
        let units = self.decided.units(block, &insts[n_done..], assumed);
        self.node.n_done = self.node.n_done - n_done + units.beyond;
        self.emit_units(&units.units);
    }
}
