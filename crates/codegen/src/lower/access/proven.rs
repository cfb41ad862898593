//! Bounds tests of whole CTAs, and of rows of them.
//!
//! Once per CTA the range of each address over all of its threads is computed, as `cta_ranges`
//! tells how. If no index wraps in any thread and all ranges lie in the arena, gangs run versions
//! of their nodes in which these accesses have no tests. `known` tells when that happens.
//!
//! Ranges are pairs of 64-bit integers that hold 32-bit values as signed numbers. All results of
//! 32 bits are found to fit into them, so that the arithmetic of each thread is that of integers.
//! Of 64-bit values, products and shifted values are found to have less than 48 bits; sums of these
//! and of one address may wrap, but ranges have less than 2^63 elements. So if both ends lie in the
//! arena, all that is between does.

use core::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_abi::CtaContext;
use ptxjit_ir::{self as ir, Block, Space, SpecialReg, Type, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::decisions::cta_ranges::{Access, Finder, Form, Scope};
use crate::lower::Lower;
use crate::ops::{Alignment, Val};

/// The least and the greatest value.
pub(in crate::lower) type Range = [cl::Value; 2];

/// What has been emitted for a CTA or a row.
pub(in crate::lower) struct Proof<'p> {
    pub finder: &'p Finder<'p>,
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

impl<'p> Proof<'p> {
    pub(super) fn new(finder: &'p Finder<'p>, n_following: Option<cl::Value>) -> Proof<'p> {
        Proof {
            finder,
            n_following,
            ranges: FxHashMap::default(),
            narrow: None,
            wide: None,
            inexact: None,
            bad: None,
            aligned: FxHashSet::default(),
            ends: FxHashSet::default(),
            repeats: FxHashMap::default(),
        }
    }
}

impl Lower<'_, '_> {
    /// Tests the current CTA and those that follow it: whether accesses pass, and whether ranges
    /// hold the values.
    pub(super) fn emit_ranges(&mut self, n_following: cl::Value) -> [cl::Value; 2] {
        let (multiples, counters) = (
            self.decided.multiples.clone(),
            self.decided.counters.clone(),
        );
        let scope = self.decided.cta_ranges.scope;
        let (program, known) = ((self.func, self.plan), (&multiples, &*counters));
        let finder = Finder::new(program, scope, &self.decided.invariants, known);
        let n_following = (scope == Scope::Row).then_some(n_following);
        let mut proof = Proof::new(&finder, n_following);
        for (space, access) in self.decided.cta_ranges.accesses.clone() {
            self.prove(space, access, &mut proof);
        }
        for branch in self.decided.cta_branches.branches.clone() {
            self.ranges_of_condition(branch.cond, &mut proof);
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

    fn prove(&mut self, space: Space, (addr, offset, size): Access, proof: &mut Proof<'_>) {
        let alignment = self.alignment(ir::Access {
            space,
            addr,
            offset,
            bytes: size,
        });
        let [low, high] = self.range(addr, proof);
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
            self.prove_aligned(addr, size, proof);
            let odd = i64::from(offset) & i64::from(size - 1);
            let odd = self.b.ins().iconst(types::I64, odd);
            self.gather(&mut proof.bad, odd);
        }
    }

    /// A sum is aligned if all its terms are, a value that is one of several if these are.
    fn prove_aligned(&mut self, value: Value, size: u32, proof: &mut Proof<'_>) {
        if proof.finder.is_multiple(value, size) || !proof.aligned.insert((value, size)) {
            return;
        }
        let Some(terms) = proof.finder.terms(value, size) else {
            // A CTA invariant: others are not chosen.
            let [x, _] = self.range(value, proof);
            let low = self.b.ins().band_imm_s(x, i64::from(size - 1));
            return self.gather(&mut proof.bad, low);
        };
        for term in terms {
            self.prove_aligned(term, size, proof);
        }
    }

    pub(super) fn gather(&mut self, all: &mut Option<cl::Value>, bits: cl::Value) {
        *all = Some(match *all {
            None => bits,
            Some(all) => self.b.ins().bor(all, bits),
        });
    }

    /// The range of a value that has one.
    pub(in crate::lower) fn range(&mut self, value: Value, proof: &mut Proof<'_>) -> Range {
        if let Some(&known) = proof.ranges.get(&value) {
            return known;
        }
        let ty = self.func.ty(value);
        let form = proof.finder.form(value).expect("decided before");
        let range = self.range_of_form(value, form, proof);
        let is_new = !matches!(
            form,
            Form::Uniform
                | Form::Register(_)
                | Form::CtaidX
                | Form::Lane(_)
                | Form::Thread(_)
                | Form::Masked(..)
        );
        let is_bounded = matches!(
            form,
            Form::Product(_) | Form::Negated(_) | Form::Shifted(..) | Form::Counter | Form::Merge
        );
        if is_new && (ty == Type::B32 || is_bounded && !fits(proof.finder, form)) {
            self.require(ty, range, proof);
        }
        proof.ranges.insert(value, range);
        range
    }

    fn range_of_form(&mut self, value: Value, form: Form, proof: &mut Proof<'_>) -> Range {
        let of = |lower: &mut Self, arg, proof: &mut Proof| lower.range(arg, proof);
        match form {
            Form::Uniform => self.uniform_range(value),
            Form::Register(sreg) => self.register_range(sreg),
            Form::CtaidX => self.ctaid_range(proof),
            Form::Thread(size) => self.thread_range(size),
            Form::SignExtended(arg) | Form::Lane(arg) => of(self, arg, proof),
            Form::ZeroExtended(arg) => self.range_above_zero(arg, true, proof),
            Form::Negated(arg) => {
                let [low, high] = of(self, arg, proof);
                self.each([high, low], |lower, x| lower.b.ins().ineg(x))
            }
            Form::Shifted(arg, count) => {
                let arg = of(self, arg, proof);
                if self.func.ty(value) == Type::B64 && !fits(proof.finder, form) {
                    self.require(Type::B64, arg, proof);
                }
                self.each(arg, |lower, x| lower.b.ins().ishl_imm_s(x, count))
            }
            Form::ShiftedRight(arg, count, is_unsigned) => {
                let arg = self.range_above_zero(arg, is_unsigned, proof);
                self.each(arg, |lower, x| lower.b.ins().sshr_imm_s(x, count))
            }
            Form::Quotient(arg, divisor, is_unsigned) => {
                let arg = self.range_above_zero(arg, is_unsigned, proof);
                self.each(arg, |lower, x| lower.divided(x, divisor))
            }
            Form::Masked(arg, mask) => self.masked_range((arg, mask), proof),
            Form::MaskedBy(mask) => {
                let [_, most] = self.range_above_zero(mask, true, proof);
                [self.b.ins().iconst(types::I64, 0), most]
            }
            Form::Remainder(args) => {
                let [number, divisor] = args.map(|arg| of(self, arg, proof));
                self.remainder(number, divisor, proof)
            }
            Form::Counter => self.counter_range(value, proof),
            Form::Merge => self.union(proof.finder.merged(value), proof),
            Form::OneOf(args) => self.union(&args, proof),
            Form::Sum(args)
            | Form::Difference(args)
            | Form::Bits(args)
            | Form::Product(args)
            | Form::Least(args)
            | Form::Greatest(args) => {
                let args = args.map(|arg| of(self, arg, proof));
                self.range_of_two(form, args)
            }
        }
    }

    fn masked_range(&mut self, (arg, mask): (Value, i64), proof: &mut Proof<'_>) -> Range {
        if !proof.finder.is_single_value(arg) {
            return [0, mask].map(|x| self.b.ins().iconst(types::I64, x));
        }
        let arg = self.range(arg, proof);
        self.each(arg, |lower, x| lower.b.ins().band_imm_s(x, mask))
    }

    /// The range of a value that, as an unsigned number, must not be negative.
    fn range_above_zero(&mut self, value: Value, unsigned: bool, proof: &mut Proof<'_>) -> Range {
        let [low, high] = self.range(value, proof);
        if unsigned {
            self.require_no_sign(low, proof);
        }
        [low, high]
    }

    /// Requires that a number of 64 bits is not negative.
    pub(super) fn require_positive(&mut self, number: cl::Value, proof: &mut Proof<'_>) {
        let sign = self.b.ins().ushr_imm_s(number, 63);
        self.gather(&mut proof.inexact, sign);
    }

    /// Requires of a number of 32 bits that it is not negative: others have the upper bits.
    fn require_no_sign(&mut self, number: cl::Value, proof: &mut Proof<'_>) {
        let sign = self.b.ins().ushr_imm_s(number, 32);
        self.gather(&mut proof.inexact, sign);
    }

    /// The quotient of a number that is found to fit into 32 bits.
    fn divided(&mut self, x: cl::Value, divisor: i64) -> cl::Value {
        let x = self.b.ins().ireduce(types::I32, x);
        let quotient = self.b.scalar_divide_constant(true, x, divisor);
        let quotient = quotient.expect("the divisor is 2 or more");
        self.b.ins().sextend(types::I64, quotient)
    }

    /// The range of numbers with the bits of two: a negative one is at least the negative operand,
    /// and numbers without signs have no more bits than their sum.
    fn bits_of_both(&mut self, [x, y]: [Range; 2]) -> Range {
        let low = self.b.ins().smin(x[0], y[0]);
        let zero = self.b.ins().iconst(types::I64, 0);
        let [x, y] = [x, y].map(|range| self.b.ins().smax(range[1], zero));
        let sum = self.b.ins().iadd(x, y);
        let most = self.b.ins().iconst(types::I64, i64::from(i32::MAX));
        [low, self.b.ins().smin(sum, most)]
    }

    /// The range of remainders, of which neither number may be negative, nor the divisor zero.
    fn remainder(&mut self, number: Range, divisor: Range, proof: &mut Proof<'_>) -> Range {
        let [below_least, most] = divisor.map(|x| self.b.ins().iadd_imm_s(x, -1));
        self.require_no_sign(number[0], proof);
        self.require_no_sign(below_least, proof);
        [self.b.ins().iconst(types::I64, 0), most]
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

    fn ctaid_range(&mut self, proof: &Proof<'_>) -> Range {
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
            Form::Bits(_) => self.bits_of_both([x, y]),
            Form::Sum(_)
            | Form::Uniform
            | Form::Register(_)
            | Form::CtaidX
            | Form::Lane(_)
            | Form::Thread(_)
            | Form::Shifted(..)
            | Form::ShiftedRight(..)
            | Form::Quotient(..)
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

    fn each(&mut self, range: Range, op: impl Fn(&mut Self, cl::Value) -> cl::Value) -> Range {
        let [low, high] = range;
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
    pub(super) fn union(&mut self, values: &[Value], proof: &mut Proof<'_>) -> Range {
        let mut all = self.range(values[0], proof);
        for &value in &values[1..] {
            let [low, high] = self.range(value, proof);
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
    pub(super) fn require(&mut self, ty: Type, range: Range, proof: &mut Proof<'_>) {
        let half = if ty == Type::B64 { 1 << 47 } else { 1 << 31 };
        let moved = self.each(range, |lower, x| lower.b.ins().iadd_imm_s(x, half));
        let all = match ty {
            Type::B64 => &mut proof.wide,
            Type::B1 | Type::B8 | Type::B16 | Type::B32 => &mut proof.narrow,
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
