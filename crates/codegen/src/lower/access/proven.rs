//! Bounds tests of whole CTAs.
//!
//! Once per CTA the range of each address over all of its threads is computed, as `cta_ranges`
//! tells how. If no index wraps in any thread and all ranges lie in the arena, gangs run versions
//! of their nodes in which these accesses have no tests.
//!
//! Ranges are pairs of 64-bit integers that hold 32-bit values as signed numbers. All results of
//! 32 bits are found to fit into them, so that the arithmetic of each thread is that of integers.
//! Of 64-bit values, products and shifted values are found to have less than 48 bits; sums of these
//! and of one address may wrap, but ranges have less than 2^63 elements. So if both ends lie in the
//! arena, all that is between does.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_abi::CtaContext;
use ptxjit_ir::{Space, SpecialReg, Type, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::decisions::cta_ranges::{Access, Finder, Form};
use crate::lower::{Available, Lower};
use crate::ops::{Alignment, Val};

/// CTAs of fewer gangs are not tested: the tests of their gangs take less time.
const FEWEST_GANGS: i64 = 4;

/// The least and the greatest value.
type Range = [cl::Value; 2];

/// What has been emitted for a CTA.
#[derive(Default)]
struct Proof {
    ranges: FxHashMap<Value, Range>,
    /// 32-bit numbers, moved so that those that fit into 32 bits are not negative and less than
    /// 2^32; all together.
    narrow: Option<cl::Value>,
    /// 64-bit numbers, moved so that those with less than 48 bits are less than 2^48; all together.
    wide: Option<cl::Value>,
    /// Bits that must be zero.
    bad: Option<cl::Value>,
    /// What is tested to be aligned.
    aligned: FxHashSet<(Value, u32)>,
    ends: FxHashSet<(Value, i32)>,
}

impl Lower<'_, '_> {
    /// Emits the test of the CTA, for gangs from `first` to `end`.
    pub(in crate::lower) fn emit_cta_proof(&mut self, first: cl::Value, end: cl::Value) {
        if self.decided.cta_ranges.accesses.is_empty() {
            return;
        }
        let (test, join) = (self.b.create_block(), self.b.create_block());
        let holds = self.b.append_block_param(join, types::I8);
        let n_gangs = self.b.ins().isub(end, first);
        let pays = IntCC::UnsignedGreaterThanOrEqual;
        let pays = self.b.ins().icmp_imm_s(pays, n_gangs, FEWEST_GANGS);
        let no = self.b.ins().iconst(types::I8, 0);
        self.b.ins().brif(pays, test, &[], join, &[no.into()]);
        self.b.switch_to_block(test);
        let multiples = self.decided.multiples.clone();
        let finder = Finder::new(self.func, &self.decided.invariants, &multiples);
        let mut proof = Proof::default();
        for (space, access) in self.decided.cta_ranges.accesses.clone() {
            self.prove(&finder, space, access, &mut proof);
        }
        for (moved, bits) in [(proof.narrow, 32), (proof.wide, 48)] {
            if let Some(moved) = moved {
                let above = self.b.ins().ushr_imm_s(moved, bits);
                self.gather(&mut proof.bad, above);
            }
        }
        let bad = proof.bad.expect("there are accesses");
        let all = self.b.ins().icmp_imm_s(IntCC::Equal, bad, 0);
        self.b.ins().jump(join, &[all.into()]);
        self.b.switch_to_block(join);
        self.emitted.cta_is_proven = Some(holds);
        self.available = Available::default();
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
            let arena = self.b.field(core::mem::offset_of!(CtaContext, arena_base));
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

    /// A sum is aligned if all its terms are.
    fn prove_aligned(&mut self, finder: &Finder<'_>, value: Value, size: u32, proof: &mut Proof) {
        if finder.is_multiple(value, size) || !proof.aligned.insert((value, size)) {
            return;
        }
        if let Some(Form::Sum(args)) = finder.form(value) {
            for arg in args {
                self.prove_aligned(finder, arg, size, proof);
            }
        } else {
            // A CTA invariant: others are not chosen.
            let [x, _] = self.range(finder, value, proof);
            let low = self.b.ins().band_imm_s(x, i64::from(size - 1));
            self.gather(&mut proof.bad, low);
        }
    }

    fn gather(&mut self, all: &mut Option<cl::Value>, bits: cl::Value) {
        *all = Some(match *all {
            None => bits,
            Some(all) => self.b.ins().bor(all, bits),
        });
    }

    fn range(&mut self, finder: &Finder<'_>, value: Value, proof: &mut Proof) -> Range {
        if let Some(&known) = proof.ranges.get(&value) {
            return known;
        }
        let ty = self.func.ty(value);
        let form = finder.form(value).expect("decided before");
        let of = |lower: &mut Self, arg, proof: &mut Proof| lower.range(finder, arg, proof);
        let range = match form {
            Form::Uniform => self.uniform_range(value),
            Form::Thread(size) => self.thread_range(size),
            Form::SignExtended(arg) => of(self, arg, proof),
            Form::ZeroExtended(arg) => {
                let [low, high] = of(self, arg, proof);
                // Negative numbers have the upper bits, others of 32 bits have not.
                let sign = self.b.ins().ushr_imm_s(low, 32);
                self.gather(&mut proof.bad, sign);
                [low, high]
            }
            Form::Shifted(arg, count) => {
                let arg = of(self, arg, proof);
                if ty == Type::B64 && !fits(finder, form) {
                    self.require(Type::B64, arg, proof);
                }
                self.each(arg, |lower, x| lower.b.ins().ishl_imm_s(x, count))
            }
            Form::Sum(args)
            | Form::Difference(args)
            | Form::Product(args)
            | Form::Least(args)
            | Form::Greatest(args) => {
                let args = args.map(|arg| of(self, arg, proof));
                self.range_of_two(form, args)
            }
        };
        let is_new = !matches!(form, Form::Uniform | Form::Thread(_));
        let is_product = matches!(form, Form::Product(_) | Form::Shifted(..));
        if is_new && (ty == Type::B32 || is_product && !fits(finder, form)) {
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
            | Form::Thread(_)
            | Form::Shifted(..)
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

    /// The least and the greatest of the products of the ends.
    fn product(&mut self, x: Range, y: Range) -> Range {
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
    fn require(&mut self, ty: Type, range: Range, proof: &mut Proof) {
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
