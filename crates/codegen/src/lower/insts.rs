//! A node's instructions, in each of its versions: once, or for gangs of which all lanes run and
//! for others.

use cranelift_codegen::ir::InstBuilder;
use ptxjit_ir::Block;

use crate::decisions::Assumed;
use crate::decisions::program::Version;
use crate::lower::Lower;

impl<'a> Lower<'a, '_> {
    /// Emits a node's instructions, in its versions.
    pub(super) fn emit_versions(&mut self, pos: usize, block: Block, versions: &[Version<'a>]) {
        match versions {
            [version] => self.emit_version(pos, block, version),
            [whole, others] => self.emit_twice(pos, block, [whole, others]),
            _ => unreachable!("there is one for all gangs, or one for whole ones beside it"),
        }
    }

    /// One version for when all lanes run, one for when some do. Where accesses are tested once per
    /// CTA, the first is for CTAs that have passed: few have not.
    fn emit_twice(&mut self, pos: usize, block: Block, [whole, others]: [&Version<'a>; 2]) {
        let [all, some] = self.b.create_blocks();
        let proven = whole.assumed.is_proven.then(|| self.cta_is_proven());
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
            if let Some(affine_inputs) = whole.assumed.affine_inputs {
                lower.unless_affine(affine_inputs, some);
            }
            lower.emit_version(pos, block, whole);
        });
        self.b.set_cold_block(some);
        self.b.switch_to_block(some);
        self.emit_version(pos, block, others);
    }

    fn emit_version(&mut self, pos: usize, block: Block, version: &Version<'a>) {
        self.node.version = version.assumed;
        self.node.block = Some(block);
        self.emit_units(&version.early);
        self.loc(self.func.blocks[block].term_loc);
        if self.take_decided(pos, block) {
            self.emit_units(&version.late);
        }
        self.emit_terminator(pos, block);
        self.node.version = Assumed::default();
    }
}
