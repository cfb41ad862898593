//! Bounds tests of whole CTAs, and of rows of them.
//!
//! Once per CTA the range of each address over all of its threads is computed, as `cta_ranges`
//! tells how. If no index wraps in any thread and all ranges lie in the arena, gangs run versions
//! of their nodes in which these accesses have no tests. Where addresses follow from `%ctaid.x` by
//! such arithmetic, too, the ranges are those of all CTAs that are left of the row, and the result
//! holds for these. If a row fails, its first half is tested, and so on down to the first CTA.
//!
//! Ranges are pairs of 64-bit integers that hold 32-bit values as signed numbers. All results of
//! 32 bits are found to fit into them, so that the arithmetic of each thread is that of integers.
//! Of 64-bit values, products and shifted values are found to have less than 48 bits; sums of these
//! and of one address may wrap, but ranges have less than 2^63 elements. So if both ends lie in the
//! arena, all that is between does.

use core::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use ptxjit_abi::CtaContext;
use ptxjit_ir::{Block, Space, SpecialReg, Type, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::decisions::cta_ranges::{Access, Finder, Form, Scope};
use crate::lower::{Available, Lower};
use crate::ops::{Alignment, Val};

/// Fewer gangs are not tested together: their own tests take less time.
const FEWEST_GANGS: i64 = 4;

/// A CTA that failed and those behind it are not tested again: what fails once, mostly does always.
const UNPROVEN_TOGETHER: i64 = 8;

/// The least and the greatest value.
pub(in crate::lower) type Range = [cl::Value; 2];

/// What has been emitted for a CTA or a row.
#[derive(Default)]
pub(in crate::lower) struct Proof {
    /// How many CTAs follow in the row; `None` for one CTA.
    n_following: Option<cl::Value>,
    ranges: FxHashMap<Value, Range>,
    /// 32-bit numbers, moved so that those that fit into 32 bits are not negative and less than
    /// 2^32; all together.
    narrow: Option<cl::Value>,
    /// 64-bit numbers, moved so that those with less than 48 bits are less than 2^48; all together.
    wide: Option<cl::Value>,
    /// Bits that must be zero for ranges to hold the values.
    pub inexact: Option<cl::Value>,
    /// Bits that must be zero for accesses to be proven.
    bad: Option<cl::Value>,
    /// What is tested to be aligned.
    aligned: FxHashSet<(Value, u32)>,
    ends: FxHashSet<(Value, i32)>,
    /// How often each loop's body runs again, at most.
    pub repeats: FxHashMap<Block, cl::Value>,
}

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
struct KnownOfRow {
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

    fn known_params(&mut self, block: cl::Block) -> KnownOfRow {
        let mut param = |ty| self.b.append_block_param(block, ty);
        let n_ctas = param(types::I32);
        KnownOfRow {
            n_ctas,
            is_proven: param(types::I8),
            is_exact: param(types::I8),
        }
    }

    /// Emits what is found once per CTA, in the block `start` of the loop over CTAs, which enters
    /// gangs from `first` to `end` in some state. Threads that have waited find what was known when
    /// they started: code of either tier knows the same.
    pub(in crate::lower) fn emit_known_of_cta(
        &mut self,
        start: cl::Block,
        state: cl::Value,
        [first, end]: [cl::Value; 2],
    ) {
        if !self.has_cta_proof() {
            return;
        }
        let before = self.known_params(start);
        let n_gangs = self.b.ins().isub(end, first);
        let can_resume = self.plan.waits.len() > 1;
        let resumed = can_resume.then(|| {
            let [fresh, resumed] = [(); 2].map(|()| self.b.create_block());
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
        let bits = self.b.ins().load(types::I32, flags, cta, at);
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
    pub(in crate::lower) fn cta_is_proven(&mut self) -> Option<cl::Value> {
        let known = self.emitted.known_of_cta?;
        Some(self.b.ins().ireduce(types::I8, known.bits))
    }

    /// Whether all threads of the CTA take a branch as expected.
    pub(in crate::lower) fn all_take(&mut self, branch: usize) -> cl::Value {
        let known = self.emitted.known_of_cta.expect("emitted before");
        self.b.ins().band_imm_s(known.bits, 2 << branch)
    }

    /// Emits the test of the CTA, or of those that are left of the row, unless it was tested with
    /// those before.
    fn emit_cta_proof(&mut self, before: KnownOfRow, n_gangs: cl::Value) -> KnownOfRow {
        let [untested, test, failed, join] = [(); 4].map(|()| self.b.create_block());
        let known = self.known_params(join);
        self.b
            .ins()
            .brif(before.n_ctas, join, &before.args(), untested, &[]);

        self.b.switch_to_block(untested);
        let n_following = match self.decided.cta_ranges.scope {
            Scope::Cta => self.b.ins().iconst(types::I32, 0),
            Scope::Row => {
                let (cta, at) = (self.b.cta, offset_of!(CtaContext, ctas_left) as i32);
                let flags = MemFlagsData::trusted();
                self.b.ins().load(types::I32, flags, cta, at)
            }
        };
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

        self.b.switch_to_block(join);
        self.available = Available::default();
        known
    }

    /// Tests the current CTA and those that follow it: whether accesses pass, and whether ranges
    /// hold the values.
    fn emit_ranges(&mut self, n_following: cl::Value) -> [cl::Value; 2] {
        let (multiples, counters) = (
            self.decided.multiples.clone(),
            self.decided.counters.clone(),
        );
        let scope = self.decided.cta_ranges.scope;
        let (program, known) = ((self.func, self.plan), (&multiples, &*counters));
        let finder = Finder::new(program, scope, &self.decided.invariants, known);
        let mut proof = Proof {
            n_following: (scope == Scope::Row).then_some(n_following),
            ..Proof::default()
        };
        for (space, access) in self.decided.cta_ranges.accesses.clone() {
            self.prove(&finder, space, access, &mut proof);
        }
        for branch in self.decided.cta_branches.branches.clone() {
            self.ranges_of_condition(&finder, branch.cond, &mut proof);
        }
        for (moved, bits) in [(proof.narrow, 32), (proof.wide, 48)] {
            if let Some(moved) = moved {
                let above = self.b.ins().ushr_imm_s(moved, bits);
                self.gather(&mut proof.inexact, above);
            }
        }
        let is_zero = |lower: &mut Self, bits: Option<cl::Value>| match bits {
            Some(bits) => lower.b.ins().icmp_imm_s(IntCC::Equal, bits, 0),
            None => lower.b.ins().iconst(types::I8, 1),
        };
        let is_exact = is_zero(self, proof.inexact);
        let in_bounds = is_zero(self, proof.bad);
        [self.b.ins().band(in_bounds, is_exact), is_exact]
    }

    /// Whether the code being emitted runs only in CTAs in which this access passes its tests in
    /// all threads.
    pub(super) fn is_proven(&self, addr: Value, offset: i32, size: u32) -> bool {
        self.node.is_proven
            && self
                .decided
                .cta_ranges
                .tested
                .contains(&(addr, offset, size))
    }

    fn prove(
        &mut self,
        finder: &Finder<'_>,
        space: Space,
        (addr, offset, size): Access,
        proof: &mut Proof,
    ) {
        let alignment = self.alignment(space, addr, offset, size);
        let [low, high] = self.range(finder, addr, proof);
        // Small offsets stay within the margins of the arena.
        let added = if alignment.stays(offset) { 0 } else { offset };
        if proof.ends.insert((addr, added)) {
            let arena = self.b.field(offset_of!(CtaContext, arena_base));
            let forbidden = self.b.forbidden_bits(Alignment::KNOWN);
            for end in [low, high] {
                let end = self.b.plus(end, i64::from(added));
                let distance = self.b.ins().bxor(end, arena);
                let outside = self.b.ins().band(distance, forbidden);
                self.gather(&mut proof.bad, outside);
            }
        }
        if !alignment.is_known() {
            self.prove_aligned(finder, addr, size, proof);
            let odd = i64::from(offset) & i64::from(size - 1);
            let odd = self.b.ins().iconst(types::I64, odd);
            self.gather(&mut proof.bad, odd);
        }
    }

    /// A sum is aligned if all its terms are, a value that is one of several if these are.
    fn prove_aligned(&mut self, finder: &Finder<'_>, value: Value, size: u32, proof: &mut Proof) {
        if finder.is_multiple(value, size) || !proof.aligned.insert((value, size)) {
            return;
        }
        let Some(terms) = finder.terms(value, size) else {
            // A CTA invariant: others are not chosen.
            let [x, _] = self.range(finder, value, proof);
            let low = self.b.ins().band_imm_s(x, i64::from(size - 1));
            return self.gather(&mut proof.bad, low);
        };
        for term in terms {
            self.prove_aligned(finder, term, size, proof);
        }
    }

    pub(super) fn gather(&mut self, all: &mut Option<cl::Value>, bits: cl::Value) {
        *all = Some(match *all {
            None => bits,
            Some(all) => self.b.ins().bor(all, bits),
        });
    }

    /// The range of a value that has one.
    pub(in crate::lower) fn range(
        &mut self,
        finder: &Finder<'_>,
        value: Value,
        proof: &mut Proof,
    ) -> Range {
        if let Some(&known) = proof.ranges.get(&value) {
            return known;
        }
        let ty = self.func.ty(value);
        let form = finder.form(value).expect("decided before");
        let of = |lower: &mut Self, arg, proof: &mut Proof| lower.range(finder, arg, proof);
        let range = match form {
            Form::Uniform => self.uniform_range(value),
            Form::Register(sreg) => self.register_range(sreg),
            Form::CtaidX => self.ctaid_range(proof),
            Form::Thread(size) => self.thread_range(size),
            Form::SignExtended(arg) | Form::Lane(arg) => of(self, arg, proof),
            Form::ZeroExtended(arg) => {
                let [low, high] = of(self, arg, proof);
                // Negative numbers have the upper bits, others of 32 bits have not.
                let sign = self.b.ins().ushr_imm_s(low, 32);
                self.gather(&mut proof.inexact, sign);
                [low, high]
            }
            Form::Negated(arg) => {
                let [low, high] = of(self, arg, proof);
                self.each([high, low], |lower, x| lower.b.ins().ineg(x))
            }
            Form::Shifted(arg, count) => {
                let arg = of(self, arg, proof);
                if ty == Type::B64 && !fits(finder, form) {
                    self.require(Type::B64, arg, proof);
                }
                self.each(arg, |lower, x| lower.b.ins().ishl_imm_s(x, count))
            }
            Form::ShiftedRight(arg, count, is_unsigned) => {
                let arg = of(self, arg, proof);
                if is_unsigned {
                    let sign = self.b.ins().ushr_imm_s(arg[0], 32);
                    self.gather(&mut proof.inexact, sign);
                }
                self.each(arg, |lower, x| lower.b.ins().sshr_imm_s(x, count))
            }
            Form::Masked(arg, mask) if finder.is_single_value(arg) => {
                let arg = of(self, arg, proof);
                self.each(arg, |lower, x| lower.b.ins().band_imm_s(x, mask))
            }
            Form::Masked(_, mask) => [0, mask].map(|x| self.b.ins().iconst(types::I64, x)),
            Form::MaskedBy(mask) => {
                let [low, high] = of(self, mask, proof);
                let sign = self.b.ins().ushr_imm_s(low, 32);
                self.gather(&mut proof.inexact, sign);
                [self.b.ins().iconst(types::I64, 0), high]
            }
            Form::Remainder([number, divisor]) => {
                let ([number, _], [least, most]) =
                    (of(self, number, proof), of(self, divisor, proof));
                let below = self.b.ins().iadd_imm_s(least, -1);
                for x in [number, below] {
                    let sign = self.b.ins().ushr_imm_s(x, 32);
                    self.gather(&mut proof.inexact, sign);
                }
                let zero = self.b.ins().iconst(types::I64, 0);
                [zero, self.b.ins().iadd_imm_s(most, -1)]
            }
            Form::Counter => self.counter_range(finder, value, proof),
            Form::Merge => self.union(finder, finder.merged(value), proof),
            Form::OneOf(args) => self.union(finder, &args, proof),
            Form::Sum(args)
            | Form::Difference(args)
            | Form::Product(args)
            | Form::Least(args)
            | Form::Greatest(args) => {
                let args = args.map(|arg| of(self, arg, proof));
                self.range_of_two(form, args)
            }
        };
        let is_new = !matches!(
            form,
            Form::Uniform
                | Form::Register(_)
                | Form::CtaidX
                | Form::Lane(_)
                | Form::Thread(_)
                | Form::Masked(..)
        );
        let starts_anew = matches!(
            form,
            Form::Product(_) | Form::Negated(_) | Form::Shifted(..) | Form::Counter | Form::Merge
        );
        if is_new && (ty == Type::B32 || starts_anew && !fits(finder, form)) {
            self.require(ty, range, proof);
        }
        proof.ranges.insert(value, range);
        range
    }

    fn uniform_range(&mut self, value: Value) -> Range {
        let x = self.scalar(value);
        let x = if self.func.ty(value) == Type::B64 {
            x
        } else {
            self.b.ins().sextend(types::I64, x)
        };
        [x, x]
    }

    fn register_range(&mut self, sreg: SpecialReg) -> Range {
        let Val::Uniform(x) = self.sreg(sreg) else {
            unreachable!("the same for the CTA")
        };
        [self.b.ins().sextend(types::I64, x); 2]
    }

    fn ctaid_range(&mut self, proof: &Proof) -> Range {
        let Val::Uniform(x) = self.sreg(SpecialReg::CtaidX) else {
            unreachable!("the index of a CTA is uniform")
        };
        let n_following = proof.n_following.expect("a form of rows");
        let low = self.b.ins().uextend(types::I64, x);
        let n_following = self.b.ins().uextend(types::I64, n_following);
        [low, self.b.ins().iadd(low, n_following)]
    }

    fn thread_range(&mut self, size: SpecialReg) -> Range {
        let Val::Uniform(n) = self.sreg(size) else {
            unreachable!("sizes are uniform")
        };
        let n = self.b.ins().uextend(types::I64, n);
        let zero = self.b.ins().iconst(types::I64, 0);
        [zero, self.b.ins().iadd_imm_s(n, -1)]
    }

    fn range_of_two(&mut self, form: Form, [x, y]: [Range; 2]) -> Range {
        match form {
            Form::Difference(_) => {
                self.both(x, [y[1], y[0]], |lower, x, y| lower.b.ins().isub(x, y))
            }
            Form::Least(_) => self.both(x, y, |lower, x, y| lower.b.ins().smin(x, y)),
            Form::Greatest(_) => self.both(x, y, |lower, x, y| lower.b.ins().smax(x, y)),
            Form::Product(_) => self.product(x, y),
            Form::Sum(_)
            | Form::Uniform
            | Form::Register(_)
            | Form::CtaidX
            | Form::Lane(_)
            | Form::Thread(_)
            | Form::Shifted(..)
            | Form::ShiftedRight(..)
            | Form::Negated(_)
            | Form::Masked(..)
            | Form::MaskedBy(_)
            | Form::Remainder(_)
            | Form::OneOf(_)
            | Form::Counter
            | Form::Merge
            | Form::SignExtended(_)
            | Form::ZeroExtended(_) => self.both(x, y, |lower, x, y| lower.b.ins().iadd(x, y)),
        }
    }

    fn each(
        &mut self,
        [low, high]: Range,
        op: impl Fn(&mut Self, cl::Value) -> cl::Value,
    ) -> Range {
        let first = op(self, low);
        if low == high {
            return [first, first];
        }
        [first, op(self, high)]
    }

    fn both(
        &mut self,
        x: Range,
        y: Range,
        op: impl Fn(&mut Self, cl::Value, cl::Value) -> cl::Value,
    ) -> Range {
        let low = op(self, x[0], y[0]);
        if x[0] == x[1] && y[0] == y[1] {
            return [low, low];
        }
        [low, op(self, x[1], y[1])]
    }

    /// The range of values of which a thread has one.
    pub(super) fn union(
        &mut self,
        finder: &Finder<'_>,
        values: &[Value],
        proof: &mut Proof,
    ) -> Range {
        let mut all = self.range(finder, values[0], proof);
        for &value in &values[1..] {
            let [low, high] = self.range(finder, value, proof);
            let low = self.b.ins().smin(all[0], low);
            all = [low, self.b.ins().smax(all[1], high)];
        }
        all
    }

    /// The least and the greatest of the products of the ends.
    pub(super) fn product(&mut self, x: Range, y: Range) -> Range {
        let distinct = |of: Range| {
            if of[0] == of[1] {
                vec![of[0]]
            } else {
                of.to_vec()
            }
        };
        let mut products = Vec::new();
        for &x in &distinct(x) {
            for &y in &distinct(y) {
                products.push(self.b.ins().imul(x, y));
            }
        }
        let (mut low, mut high) = (products[0], products[0]);
        for &product in &products[1..] {
            low = self.b.ins().smin(low, product);
            high = self.b.ins().smax(high, product);
        }
        [low, high]
    }

    /// Requires that a range of 32-bit numbers fits into these, of others that it fits into 48
    /// bits.
    pub(super) fn require(&mut self, ty: Type, range: Range, proof: &mut Proof) {
        let half = if ty == Type::B64 { 1 << 47 } else { 1 << 31 };
        let moved = self.each(range, |lower, x| lower.b.ins().iadd_imm_s(x, half));
        let all = if ty == Type::B64 {
            &mut proof.wide
        } else {
            &mut proof.narrow
        };
        self.gather(all, moved[0]);
        if moved[0] != moved[1] {
            self.gather(all, moved[1]);
        }
    }
}

/// Whether the result certainly has less than 48 bits: 32 that are extended, and shifted by no more
/// than 15.
fn fits(finder: &Finder<'_>, form: Form) -> bool {
    let Form::Shifted(arg, _) = form else {
        return false;
    };
    let form = finder.form(arg);
    matches!(form, Some(Form::SignExtended(_) | Form::ZeroExtended(_)))
}
