//! Addresses whose range over all threads of a CTA can be computed from its thread numbers.
//!
//! Such a value is made of thread numbers, constants, CTA invariants and counters of loops by sums,
//! products and what else is monotone in each operand. The range of the whole CTA, or of a row of
//! CTAs, is computed once (`lower/access/proven.rs`), and if it lies in the arena, the gangs need
//! no tests of their own.

mod forms;
mod loops;

use std::cell::RefCell;

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Function, InstData, Space, SpecialReg, Type, Value};
use ptxjit_vectorize::Plan;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::counters::Counters;
use super::invariants::Invariants;
use super::nodes::NodeForm;

/// Definitions are followed this deep, and as deep again behind counters and where values meet:
/// these are found to have less than 48 bits. Sums of so many terms cannot overflow 64 bits,
/// either.
const DEPTH: u32 = 14;

/// So many counters and places where values meet are followed one behind the other.
const MOST_NESTED: u32 = 6;

/// A range takes about as many instructions as the tests of two gangs. With fewer accesses than
/// this, the branch to the version without tests takes what it saves, and more so if the ranges are
/// those of one CTA.
const FEWEST: usize = 3;
const FEWEST_OF_ROW: usize = 2;

/// Bound on compile time.
const MOST: usize = 64;

/// The threads over which ranges are computed.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Scope {
    /// Those of a CTA.
    #[default]
    Cta,
    /// Those of the CTAs that compiled code runs one by one, which differ in `%ctaid.x` alone.
    Row,
}

/// How the range of a value follows from those of its operands.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// The same for all threads: a constant, or computed once per CTA.
    Uniform,
    /// The same for all threads, read from the CTA's context.
    Register(SpecialReg),
    /// `%ctaid.x`, over a row of CTAs.
    CtaidX,
    /// The value of some of the threads, as `InstData::EndLane` has it.
    Lane(Value),
    /// A thread number in the dimension of this register, which has the CTA's size in it.
    Thread(SpecialReg),
    Sum([Value; 2]),
    Difference([Value; 2]),
    /// Of 32-bit integers, signed; the result may have 64 bits.
    Product([Value; 2]),
    Negated(Value),
    Shifted(Value, i64),
    SignExtended(Value),
    ZeroExtended(Value),
    Least([Value; 2]),
    Greatest([Value; 2]),
    OneOf([Value; 2]),
    /// Any bits, of which all but those of a positive number are cleared.
    Masked(Value, i64),
    /// The same by a number that is known when it runs.
    MaskedBy(Value),
    /// A remainder of numbers that are not negative, by one number.
    Remainder([Value; 2]),
    /// Shifted to the right; as an unsigned number it must have no sign.
    ShiftedRight(Value, i64, bool),
    /// Divided by a constant of 2 or more; as an unsigned number it must have no sign.
    Quotient(Value, i64, bool),
    /// The bits of both.
    Bits([Value; 2]),
    /// A counter of a loop.
    Counter,
    /// What the edges to a block pass.
    Merge,
}

/// An access: its address, the offset that is added, and the bytes of one lane.
pub(crate) type Access = (Value, i32, u32);

/// The accesses whose range over the CTA is tested.
#[derive(Default)]
pub(crate) struct CtaRanges {
    pub accesses: Vec<(Space, Access)>,
    /// The same, to look them up.
    pub tested: FxHashSet<Access>,
    /// The threads over which they are tested at once.
    pub scope: Scope,
    /// Nodes with such accesses.
    pub nodes: FxHashSet<usize>,
    /// Values that a range is computed of: none of them wraps in any thread.
    pub ranges: SecondaryMap<Value, bool>,
}

impl CtaRanges {
    /// No accesses.
    pub(super) fn new(finder: &Finder<'_>) -> CtaRanges {
        CtaRanges {
            scope: finder.scope,
            ..CtaRanges::default()
        }
    }
}

/// Whether an instruction reads what differs between the CTAs of a row.
fn is_ctaid_x(data: &InstData) -> bool {
    matches!(
        data,
        InstData::Sreg {
            sreg: SpecialReg::CtaidX | SpecialReg::ClusterIdX
        }
    )
}

/// What tells the forms of values.
pub(crate) struct Finder<'a> {
    pub(super) func: &'a Function,
    plan: &'a Plan,
    scope: Scope,
    /// Values that are the same for all threads of the scope.
    is_uniform: SecondaryMap<Value, bool>,
    /// log2 of a power of two that each value is a multiple of.
    multiples: &'a SecondaryMap<Value, u8>,
    counters: &'a Counters,
    /// Whether counters and values that meet have ranges, as far as that is known.
    known: RefCell<FxHashMap<Value, bool>>,
    /// Forms so far: that of a value can depend on those of its operands.
    forms: RefCell<FxHashMap<Value, Option<Form>>>,
}

impl<'a> Finder<'a> {
    pub(crate) fn new(
        (func, plan): (&'a Function, &'a Plan),
        scope: Scope,
        invariants: &Invariants,
        (multiples, counters): (&'a SecondaryMap<Value, u8>, &'a Counters),
    ) -> Finder<'a> {
        let mut is_uniform: SecondaryMap<Value, bool> = SecondaryMap::new();
        // Operands come first.
        for &(value, inst) in &invariants.of_cta {
            let data = &func.insts[inst].data;
            let is_same = |&arg: &Value| is_uniform[arg] || func.as_const(arg).is_some();
            is_uniform[value] =
                scope == Scope::Cta || !is_ctaid_x(data) && data.args().iter().all(is_same);
        }
        Finder {
            func,
            plan,
            scope,
            is_uniform,
            multiples,
            counters,
            known: RefCell::default(),
            forms: RefCell::default(),
        }
    }

    /// Chooses the accesses in nodes that have a version for whole gangs.
    pub(super) fn find(&self, forms: &[NodeForm]) -> CtaRanges {
        let mut found = CtaRanges::new(self);
        let places = self.plan.order.places();
        for (pos, block) in places.filter(|&(pos, _)| forms[pos] == NodeForm::Twice) {
            let nodes = self.func.insts_in(block);
            for (space, access) in nodes.filter_map(|node| self.access(&node.data)) {
                let (addr, _, size) = access;
                if found.accesses.len() < MOST
                    && self.has_range(addr)
                    && self.may_be_aligned(addr, size)
                {
                    if found.tested.insert(access) {
                        found.accesses.push((space, access));
                    }
                    found.nodes.insert(pos);
                }
            }
        }
        let fewest = match self.scope {
            Scope::Cta => FEWEST,
            Scope::Row => FEWEST_OF_ROW,
        };
        if found.accesses.len() < fewest {
            return CtaRanges::new(self);
        }
        for (_, (addr, ..)) in &found.accesses {
            self.mark(*addr, &mut found.ranges);
        }
        found
    }

    /// A plain access to memory in which addresses are tested.
    fn access(&self, data: &InstData) -> Option<(Space, Access)> {
        let ptxjit_ir::Access {
            space,
            addr,
            offset,
            bytes: size,
        } = data.access()?;
        let is_tested = !space.is_window() && self.func.ty(addr) == Type::B64;
        (is_tested && size.is_power_of_two()).then_some((space, (addr, offset, size)))
    }

    /// Whether the range of a value can be computed.
    pub(super) fn has_range(&self, value: Value) -> bool {
        self.is_known(value, DEPTH, MOST_NESTED)
    }

    fn is_known(&self, value: Value, depth: u32, nested: u32) -> bool {
        let Some(depth) = depth.checked_sub(1) else {
            return false;
        };
        match self.form(value) {
            None => false,
            Some(Form::Counter | Form::Merge) => self.are_inputs_known(value, nested),
            Some(form) => {
                let mut operands = self.operands(value, form).into_iter();
                operands.all(|operand| self.is_known(operand, depth, nested))
            }
        }
    }

    /// The values from whose ranges that of a value is computed.
    fn operands(&self, value: Value, form: Form) -> SmallVec<[Value; 8]> {
        match form {
            Form::Uniform | Form::Register(_) | Form::CtaidX | Form::Thread(_) => SmallVec::new(),
            Form::Masked(arg, _) if self.is_single_value(arg) => SmallVec::from_slice(&[arg]),
            Form::Masked(..) => SmallVec::new(),
            Form::Lane(arg)
            | Form::MaskedBy(arg)
            | Form::Shifted(arg, _)
            | Form::ShiftedRight(arg, ..)
            | Form::Quotient(arg, ..)
            | Form::Negated(arg)
            | Form::SignExtended(arg)
            | Form::ZeroExtended(arg) => SmallVec::from_slice(&[arg]),
            Form::Sum(args)
            | Form::Difference(args)
            | Form::Product(args)
            | Form::Least(args)
            | Form::Greatest(args)
            | Form::OneOf(args)
            | Form::Bits(args)
            | Form::Remainder(args) => SmallVec::from_slice(&args),
            Form::Counter | Form::Merge => self.inputs(value).unwrap_or_default(),
        }
    }

    /// Whether a value, or one from which it is computed, is as asked. The value has a range.
    pub(super) fn any_operand(&self, value: Value, is: &impl Fn(Value, Form) -> bool) -> bool {
        let mut seen: FxHashSet<Value> = FxHashSet::default();
        let mut work = vec![value];
        while let Some(value) = work.pop() {
            let Some(form) = self.form(value).filter(|_| seen.insert(value)) else {
                continue;
            };
            if is(value, form) {
                return true;
            }
            work.extend(self.operands(value, form));
        }
        false
    }

    /// Whether a test of CTA invariants can tell that a known value is a multiple of `size`. A
    /// product with a pitch in bytes, say, is tested gang by gang.
    fn may_be_aligned(&self, value: Value, size: u32) -> bool {
        if self.is_multiple(value, size) {
            return true;
        }
        match self.terms(value, size) {
            None => self.form(value) == Some(Form::Uniform),
            Some(terms) => terms.iter().all(|&term| self.may_be_aligned(term, size)),
        }
    }

    /// Whether a value is known to be a multiple of a power of two.
    pub(crate) fn is_multiple(&self, value: Value, size: u32) -> bool {
        u32::from(self.multiples[value]) >= size.ilog2()
    }

    /// The values by whose alignment to `size` a value is aligned, if it is a sum or one of
    /// several.
    pub(crate) fn terms(&self, value: Value, size: u32) -> Option<SmallVec<[Value; 8]>> {
        match self.form(value)? {
            Form::Sum(args) | Form::OneOf(args) => Some(args.iter().copied().collect()),
            Form::Merge => Some(self.merged(value).iter().copied().collect()),
            Form::Counter => {
                let (counter, _) = self.counter(value)?;
                let inits = counter.inits.iter().copied();
                let is_aligned = counter.step.constant % i64::from(size) == 0;
                is_aligned.then(|| inits.chain(counter.step.values()).collect())
            }
            Form::Uniform
            | Form::Register(_)
            | Form::CtaidX
            | Form::Lane(_)
            | Form::Thread(_)
            | Form::Difference(_)
            | Form::Product(_)
            | Form::Shifted(..)
            | Form::ShiftedRight(..)
            | Form::Quotient(..)
            | Form::Bits(_)
            | Form::Negated(_)
            | Form::SignExtended(_)
            | Form::ZeroExtended(_)
            | Form::Least(_)
            | Form::Greatest(_)
            | Form::Masked(..)
            | Form::MaskedBy(_)
            | Form::Remainder(_) => None,
        }
    }

    /// Whether a value grows from lane to lane.
    pub(super) fn is_rising(&self, value: Value) -> bool {
        let stride = self.plan.variability[value].stride();
        stride.is_some_and(|stride| stride > 0)
    }

    /// Marks a value and what its range is computed from.
    fn mark(&self, value: Value, marked: &mut SecondaryMap<Value, bool>) {
        let Some(form) = self.form(value) else {
            return;
        };
        if !std::mem::replace(&mut marked[value], true) {
            let operands = self.operands(value, form);
            operands.into_iter().for_each(|arg| self.mark(arg, marked));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptxjit_ir::ResizeOp;
    use ptxjit_passes::effort::Effort;
    use ptxjit_testing::function;
    use ptxjit_vectorize::PlanFacts;

    /// Which of two addresses have a range: of an index made of thread numbers, and of one that
    /// memory has.
    fn have_ranges() -> [bool; 2] {
        let mut func = function(&[], Type::B64, |b, _| {
            let zero = b.iconst(Type::B64, 0);
            let base = b.load(Space::Param, Type::B64, zero, 0);
            let sreg = SpecialReg::TidY;
            let thread = b.b.ins(InstData::Sreg { sreg }, Type::B32);
            let loaded = b.load(Space::Global, Type::B32, base, 0);
            for index in [thread, loaded] {
                let (op, from, to) = (ResizeOp::Sext, Type::B32, Type::B64);
                let arg = index;
                let wide = b.b.ins(InstData::Resize { op, from, to, arg }, Type::B64);
                let addr = b.add(base, wide);
                b.store(Space::Global, addr, 0, wide);
            }
            b.ret(base);
        });
        let effort = Effort::unlimited();
        let plan = ptxjit_vectorize::run(&mut func, &[], 8, PlanFacts::default(), &effort);
        let (plan, in_bits) = (plan.unwrap(), SecondaryMap::new());
        let invariants = super::super::invariants::Finder::new(&func, &plan, &in_bits).find();
        let multiples = SecondaryMap::new();
        let counters = Counters::default();
        let inputs = (&multiples, &counters);
        let finder = Finder::new((&func, &plan), Scope::Cta, &invariants, inputs);
        let stores = func.blocks[func.entry].insts.iter();
        let mut stores = stores.filter_map(|&inst| {
            if let InstData::Store { addr, .. } = func.insts[inst].data {
                Some(finder.has_range(addr))
            } else {
                None
            }
        });
        [(); 2].map(|()| stores.next().unwrap())
    }

    #[test]
    fn an_index_of_thread_numbers_has_a_range_and_one_from_memory_has_none() {
        assert_eq!(have_ranges(), [true, false]);
    }
}
