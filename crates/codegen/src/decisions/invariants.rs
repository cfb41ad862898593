//! Values that are computed once per CTA or once per gang, and so never saved at a wait.
//!
//! CTA invariants (parameters, `%ntid`, `%ctaid`, and values computed from them) are emitted before
//! the loops over gangs, gang invariants (`%tid` and scalar arithmetic on it) in each of them,
//! before its nodes. Predicates on them that are held as bits are rematerialized where they are
//! used: a kernel has many, one for each step of a tree, and a gang between two waits needs one. So
//! are predicates that only their own block's branch uses, which tests the first and last lane
//! first (`affine_predicates`).
//!
//! A CTA invariant lives as long as the code runs. So there are only so many: of the others, those
//! that need one instruction (parameters, addresses of variables) are rematerialized, and the rest
//! are values like any other.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Function, Inst, InstData, SharedBy, Space, Type, Value};
use ptxjit_vectorize::{Plan, SingleLane, Variability};

use super::cta_branches::count_uses;
use super::{is_pure, lane_loops};

/// The loop in which a value is invariant.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Level {
    Cta,
    Gang,
}

/// Definitions are followed this deep.
const DEPTH: u32 = 12;

/// CTA invariants that are emitted ahead of the nodes, operands of others included. Far fewer fit
/// in registers, and a kernel can name tens of thousands of variables: the time of register
/// allocation grows with the product of what lives throughout the code and the blocks.
const MOST_OF_CTA: usize = 256;

/// Where values are computed that need not be computed in nodes.
#[derive(Default)]
pub(crate) struct Invariants {
    /// Computed once per CTA, and at the head of each phase; operands come first.
    pub of_cta: Vec<(Value, Inst)>,
    pub of_gang: Vec<(Value, Inst)>,
    is_ahead: SecondaryMap<Value, bool>,
    /// Values that are rematerialized where they are used, and their instructions: predicates as
    /// bits, and scalars of one instruction.
    pub rematerialized: SecondaryMap<Value, Option<Inst>>,
}

impl Invariants {
    /// Whether a value is emitted ahead of all nodes, or rematerialized where it is used.
    pub(crate) fn is_pinned(&self, value: Value) -> bool {
        self.is_ahead[value] || self.rematerialized[value].is_some()
    }
}

/// What tells the level of a value.
pub(super) struct Finder<'a> {
    func: &'a Function,
    plan: &'a Plan,
    in_bits: &'a SecondaryMap<Value, bool>,
    of_one: SecondaryMap<Value, bool>,
}

impl<'a> Finder<'a> {
    pub(super) fn new(
        func: &'a Function,
        plan: &'a Plan,
        in_bits: &'a SecondaryMap<Value, bool>,
    ) -> Finder<'a> {
        Finder {
            func,
            plan,
            in_bits,
            of_one: lane_loops::values(func, plan),
        }
    }

    pub(super) fn find(&self) -> Invariants {
        let mut found = Invariants::default();
        for value in self.wanted(Level::Cta) {
            let before = found.of_cta.len();
            self.list(value, Level::Cta, &mut found);
            if found.of_cta.len() > MOST_OF_CTA {
                let listed = found.of_cta.drain(before..);
                listed.for_each(|(value, _)| found.is_ahead[value] = false);
                self.rematerialize(value, &mut found);
            }
        }
        for value in self.wanted(Level::Gang) {
            self.list(value, Level::Gang, &mut found);
        }
        self.find_rematerialized(&mut found);
        found
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "others stay at their uses")]
    fn level(&self, value: Value, depth: u32) -> Option<Level> {
        let depth = depth.checked_sub(1)?;
        let varies = self.plan.variability[value] == Variability::Varying;
        if (varies && !self.in_bits[value]) || self.of_one[value] {
            return None;
        }
        let data = self.func.def_inst(value)?;
        let own = match *data {
            InstData::Sreg { sreg } if sreg.is_volatile() => return None,
            InstData::Sreg { sreg } => match sreg.shared_by() {
                SharedBy::None | SharedBy::Warp => Level::Gang,
                SharedBy::Cta => Level::Cta,
            },
            InstData::Load {
                space: Space::Param,
                n: 1,
                ..
            } => Level::Cta,
            InstData::StateOf { .. } => Level::Cta,
            // A predicate as bits.
            _ if varies => Level::Gang,
            _ if is_pure(data) => Level::Cta,
            _ => return None,
        };
        data.args().iter().try_fold(own, |level, &arg| {
            if self.func.as_const(arg).is_some() {
                Some(level)
            } else {
                Some(level.max(self.level(arg, depth)?))
            }
        })
    }

    /// Predicates as bits that only their own block's branch uses: it rarely needs them.
    fn find_rematerialized(&self, found: &mut Invariants) {
        let uses = count_uses(self.func);
        for (block, data) in self.func.blocks.iter() {
            let is_for_all = self.plan.single_lane[block] == SingleLane::No;
            let cond = data.term.condition().filter(|_| is_for_all);
            let mut work: Vec<Value> = cond.into_iter().collect();
            while let Some(pred) = work.pop() {
                if let Some(inst) = self.func.maker(pred)
                    && self.in_bits[pred]
                    && uses[pred] == 1
                    && data.insts.contains(&inst)
                {
                    found.rematerialized[pred] = Some(inst);
                    // Logic on predicates uses them as well.
                    let args = self.func.insts[inst].data.args();
                    work.extend(args.iter().filter(|&&arg| self.func.ty(arg) == Type::B1));
                }
            }
        }
    }

    /// The invariants of a level that lanes would have to save otherwise, or that are computed for
    /// all of a CTA anyway.
    fn wanted(&self, level: Level) -> Vec<Value> {
        let live = self.plan.waits.iter().flat_map(|wait| &wait.live);
        let mut wanted: Vec<Value> = live.copied().collect();
        if level == Level::Cta {
            wanted.extend(self.func.results_in(self.func.entry));
        }
        let is_own = |value| self.level(value, DEPTH) == Some(level);
        wanted.retain(|&value| self.func.as_const(value).is_none() && is_own(value));
        wanted
    }

    /// Lists a CTA invariant that is rematerialized, if that takes one instruction.
    fn rematerialize(&self, value: Value, found: &mut Invariants) {
        if let Some(inst) = self.maker(value, found) {
            let args = self.func.insts[inst].data.args();
            if args.iter().all(|&arg| self.func.as_const(arg).is_some()) {
                found.rematerialized[value] = Some(inst);
            }
        }
    }

    /// The instruction that defines a value, unless the value is pinned or a constant.
    fn maker(&self, value: Value, found: &Invariants) -> Option<Inst> {
        if found.is_pinned(value) || self.func.as_const(value).is_some() {
            return None;
        }
        let inst = self.func.maker(value);
        Some(inst.expect("parameters are not invariant"))
    }

    /// Lists a value, after its operands. Predicates as bits are computed where they are used.
    fn list(&self, value: Value, level: Level, found: &mut Invariants) {
        let Some(inst) = self.maker(value, found) else {
            return;
        };
        for arg in self.func.insts[inst].data.args() {
            self.list(arg, level, found);
        }
        match level {
            Level::Gang if self.in_bits[value] => {
                found.rematerialized[value] = Some(inst);
                return;
            }
            Level::Gang => found.of_gang.push((value, inst)),
            Level::Cta => found.of_cta.push((value, inst)),
        }
        found.is_ahead[value] = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptxjit_ir::VarId;
    use ptxjit_passes::effort::Effort;
    use ptxjit_testing::function;
    use ptxjit_vectorize::PlanFacts;

    /// A function that stores to so many variables, and adds a parameter to each address.
    fn stores(n: u32) -> Function {
        function(&[], Type::B64, |b, _| {
            let zero = b.iconst(Type::B64, 0);
            let param = b.load(Space::Param, Type::B64, zero, 0);
            let mut sums = Vec::new();
            for var in 0..n {
                let (var, offset) = (VarId::from_u32(var), 0);
                let addr = b.b.ins(InstData::VarAddr { var, offset }, Type::B64);
                b.store(Space::Global, addr, 0, param);
                sums.push(b.add(addr, param));
            }
            for &sum in &sums {
                b.store(Space::Global, sum, 0, param);
            }
            b.ret(param);
        })
    }

    fn found(n: u32) -> (Function, Invariants) {
        let mut func = stores(n);
        let effort = Effort::unlimited();
        let plan = ptxjit_vectorize::run(&mut func, &[], 8, PlanFacts::default(), &effort);
        let (plan, in_bits) = (plan.unwrap(), SecondaryMap::new());
        let found = Finder::new(&func, &plan, &in_bits).find();
        (func, found)
    }

    #[test]
    fn few_invariants_are_all_ahead() {
        let (_, found) = found(100);
        // The parameter, the addresses and the sums.
        assert_eq!(found.of_cta.len(), 201);
    }

    #[test]
    fn of_many_invariants_addresses_are_rematerialized_and_sums_are_plain() {
        let (func, found) = found(1000);
        assert_eq!(found.of_cta.len(), MOST_OF_CTA);
        for (value, _) in func.values.iter() {
            let is_addr = matches!(func.def_inst(value), Some(InstData::VarAddr { .. }));
            assert!(found.is_pinned(value) || !is_addr, "{value}");
        }
    }
}
