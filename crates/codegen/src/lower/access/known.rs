//! What is found once for a CTA, or for the CTAs that are left of a row, and when.
//!
//! Where addresses follow from `%ctaid.x` by arithmetic with ranges, too (`proven`), the ranges are
//! those of all CTAs that are left of the row, and the result holds for these. If a row fails, its
//! first half is tested, and so on down to the first CTA.

use core::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use ptxjit_abi::CtaContext;

use crate::decisions::cta_ranges::Scope;
use crate::lower::{Available, Lower};

/// Fewer gangs are not tested together: their own tests take less time.
const FEWEST_GANGS: i64 = 4;

/// A CTA that failed and those behind it are not tested again: what fails once, mostly does always.
const UNPROVEN_TOGETHER: i64 = 8;

/// What is known of a CTA.
#[derive(Copy, Clone)]
pub(in crate::lower) struct KnownOfCta {
    /// Whether the accesses that are tested once per CTA have passed, as bit 0, and whether all
    /// threads take the branches that are decided once per CTA, from bit 1 on.
    bits: cl::Value,
    of_row: KnownOfRow,
}

/// What is known of the CTAs that follow in a row. The values are parameters of the loop over CTAs.
#[derive(Copy, Clone)]
pub(in crate::lower) struct KnownOfRow {
    /// For how many CTAs, from the current one, the rest is known.
    n_ctas: cl::Value,
    /// Whether accesses have passed.
    is_proven: cl::Value,
    /// Whether ranges hold the values.
    is_exact: cl::Value,
}

impl KnownOfRow {
    fn args(self) -> [cl::BlockArg; 3] {
        [self.n_ctas, self.is_proven, self.is_exact].map(cl::BlockArg::from)
    }
}

impl Lower<'_, '_> {
    /// What is known when the code is entered, as arguments of the loop over CTAs, and of the next
    /// CTA: none if nothing is tested.
    pub(in crate::lower) fn nothing_known(&mut self) -> Vec<cl::BlockArg> {
        if !self.has_cta_proof() {
            return Vec::new();
        }
        let none = self.b.ins().iconst(types::I32, 0);
        let no = self.b.ins().iconst(types::I8, 0);
        [none, no, no].map(cl::BlockArg::from).to_vec()
    }

    pub(in crate::lower) fn known_of_next(&mut self) -> Vec<cl::BlockArg> {
        let Some(KnownOfCta { of_row, .. }) = self.emitted.known_of_cta else {
            return Vec::new();
        };
        let n_ctas = self.b.ins().iadd_imm_s(of_row.n_ctas, -1);
        KnownOfRow { n_ctas, ..of_row }.args().to_vec()
    }

    fn has_cta_proof(&self) -> bool {
        let decided = &self.decided;
        !decided.cta_ranges.accesses.is_empty() || !decided.cta_branches.branches.is_empty()
    }

    /// The parameters of the block `start` of the loop over CTAs, before its first instruction.
    pub(in crate::lower) fn known_of_start(&mut self, start: cl::Block) -> Option<KnownOfRow> {
        self.has_cta_proof().then(|| self.known_params(start))
    }

    fn known_params(&mut self, block: cl::Block) -> KnownOfRow {
        let mut param = |ty| self.b.append_block_param(block, ty);
        let n_ctas = param(types::I32);
        KnownOfRow {
            n_ctas,
            is_proven: param(types::I8),
            is_exact: param(types::I8),
        }
    }

    /// Emits what is found once per CTA, in the loop over CTAs, which enters gangs from `first` to
    /// `end` in some state and knows `before` of the row. Threads that have waited find what was
    /// known when they started: code of either tier knows the same.
    pub(in crate::lower) fn emit_known_of_cta(
        &mut self,
        before: Option<KnownOfRow>,
        state: cl::Value,
        [first, end]: [cl::Value; 2],
    ) {
        let Some(before) = before else {
            return;
        };
        let n_gangs = self.b.ins().isub(end, first);
        let can_resume = self.plan.waits.len() > 1;
        let resumed = can_resume.then(|| {
            let [fresh, resumed] = self.b.create_blocks();
            self.b.ins().brif(state, resumed, &[], fresh, &[]);
            self.b.switch_to_block(fresh);
            resumed
        });
        let of_row = self.emit_cta_proof(before, n_gangs);
        let bits = self.emit_cta_branches(n_gangs, of_row.is_exact);
        let proven = self.b.ins().uextend(types::I32, of_row.is_proven);
        let bits = match bits {
            Some(bits) => self.b.ins().bor(bits, proven),
            None => proven,
        };
        let known = match resumed {
            None => KnownOfCta { bits, of_row },
            Some(resumed) => self.keep_known(KnownOfCta { bits, of_row }, resumed),
        };
        self.emitted.known_of_cta = Some(known);
    }

    /// Stores what is known, for when threads of the CTA have waited.
    fn keep_known(&mut self, known: KnownOfCta, resumed: cl::Block) -> KnownOfCta {
        let at = offset_of!(CtaContext, known) as i32;
        let flags = MemFlagsData::trusted();
        let ready = self.b.create_block();
        let cta = self.b.cta;
        self.b.ins().store(flags, known.bits, cta, at);
        let mut args = known.of_row.args().to_vec();
        args.push(known.bits.into());
        self.b.ins().jump(ready, &args);

        self.b.switch_to_block(resumed);
        let bits = self.b.load_own(types::I32, cta, at);
        let n_ctas = self.b.ins().iconst(types::I32, 1);
        let no = self.b.ins().iconst(types::I8, 0);
        let args = [n_ctas, no, no, bits].map(cl::BlockArg::from);
        self.b.ins().jump(ready, &args);

        self.b.switch_to_block(ready);
        let of_row = self.known_params(ready);
        let bits = self.b.append_block_param(ready, types::I32);
        KnownOfCta { bits, of_row }
    }

    /// Whether the CTA's accesses have passed: the low bit, others are undefined.
    pub(in crate::lower) fn cta_is_proven(&mut self) -> cl::Value {
        let known = self.emitted.known_of_cta.expect("emitted before");
        self.b.ins().ireduce(types::I8, known.bits)
    }

    /// Whether all threads of the CTA take a branch as expected.
    pub(in crate::lower) fn all_take(&mut self, branch: usize) -> cl::Value {
        let known = self.emitted.known_of_cta.expect("emitted before");
        self.b.ins().band_imm_s(known.bits, 2 << branch)
    }

    /// Emits the test of the CTA, or of those that are left of the row, unless it was tested with
    /// those before.
    fn emit_cta_proof(&mut self, before: KnownOfRow, n_gangs: cl::Value) -> KnownOfRow {
        let [untested, test, failed, join] = self.b.create_blocks();
        let known = self.known_params(join);
        self.b
            .ins()
            .brif(before.n_ctas, join, &before.args(), untested, &[]);

        self.b.switch_to_block(untested);
        let n_following = self.n_following();
        let one = self.b.ins().iconst(types::I32, 1);
        let no = self.b.ins().iconst(types::I8, 0);
        let n_ctas = self.b.ins().iadd(n_following, one);
        let all_gangs = self.b.ins().imul(n_gangs, n_ctas);
        let pays = IntCC::UnsignedGreaterThanOrEqual;
        let pays = self.b.ins().icmp_imm_s(pays, all_gangs, FEWEST_GANGS);
        let nothing = KnownOfRow {
            n_ctas,
            is_proven: no,
            is_exact: no,
        };
        self.b
            .ins()
            .brif(pays, test, &[n_following.into()], join, &nothing.args());

        self.test_until_proven(test, failed, join);
        self.b.switch_to_block(join);
        self.available = Available::default();
        known
    }

    /// How many CTAs follow that are tested with this one.
    fn n_following(&mut self) -> cl::Value {
        match self.decided.cta_ranges.scope {
            Scope::Cta => self.b.ins().iconst(types::I32, 0),
            Scope::Row => {
                let at = offset_of!(CtaContext, ctas_left) as i32;
                self.b.load_own(types::I32, self.b.cta, at)
            }
        }
    }

    /// Tests CTAs in `test`; of those that fail, the first half again.
    fn test_until_proven(&mut self, test: cl::Block, failed: cl::Block, join: cl::Block) {
        self.b.switch_to_block(test);
        let n_following = self.b.append_block_param(test, types::I32);
        let [is_proven, is_exact] = self.emit_ranges(n_following);
        let n_ctas = self.b.ins().iadd_imm_s(n_following, 1);
        let found = KnownOfRow {
            n_ctas,
            is_proven,
            is_exact,
        };
        self.b
            .ins()
            .brif(is_proven, join, &found.args(), failed, &[]);

        self.b.switch_to_block(failed);
        let half = self.b.ins().ushr_imm_s(n_following, 1);
        let n_ctas = self.b.ins().iconst(types::I32, UNPROVEN_TOGETHER);
        let found = KnownOfRow { n_ctas, ..found };
        self.b
            .ins()
            .brif(n_following, test, &[half.into()], join, &found.args());
    }
}
