//! What is decided about a function and its plan before the first CLIF instruction exists: how each
//! value and each mask is held, what is computed ahead of the nodes, which phases there are, and
//! where lanes keep their values while they wait. `lower` reads it.

pub(crate) mod access_kinds;
pub(crate) mod atomics;
mod copies;
mod counted;
pub(crate) mod counters;
pub(crate) mod cta_branches;
pub(crate) mod cta_ranges;
mod float_values;
pub(crate) mod frame;
mod invariants;
pub(crate) mod lane_loops;
pub(crate) mod mask_classes;
pub(crate) mod multiples;
pub(crate) mod nodes;
mod packed;
mod patterns;
mod phases;
pub(crate) mod predicates;
pub(crate) mod print;
pub(crate) mod products;
pub(crate) mod program;
pub(crate) mod residents;
pub(crate) mod units;
pub(crate) mod verify;

use std::rc::Rc;

use cranelift_entity::{EntitySet, SecondaryMap};
use ptxjit_ir::{Block, Class, Function, Inst, InstData, Space, Value};
use ptxjit_vectorize::heuristics::Heuristic;
use ptxjit_vectorize::{AffineInputs, Plan, Variability, predecessors};

use crate::lower::Inputs;
use crate::slots::Slots;
use counters::Counters;
use cta_branches::CtaBranches;
use cta_ranges::{CtaRanges, Scope};
use frame::Frame;
use invariants::Invariants;
use mask_classes::MaskClasses;
use nodes::NodeForm;
use packed::Packed;
pub(crate) use patterns::Differences;
use patterns::Patterns;
use phases::Phases;
use residents::Residents;

/// All of it.
pub(crate) struct Decisions<'a> {
    func: &'a Function,
    plan: &'a Plan,
    inputs: &'a Inputs<'a>,
    /// Scalars that are held in float registers.
    pub is_float: SecondaryMap<Value, bool>,
    /// Predicates that are held as bits.
    pub in_bits: SecondaryMap<Value, bool>,
    /// Values held as packed vectors of their own width.
    pub packed: Packed,
    pub is_used: SecondaryMap<Value, bool>,
    /// log2 of a power of two that each value is a multiple of.
    pub multiples: SecondaryMap<Value, u8>,
    pub invariants: Invariants,
    pub patterns: Patterns<'a>,
    pub predecessors: SecondaryMap<Block, Vec<Block>>,
    /// For each node, the lane loop that it belongs to.
    pub region_of: Vec<Option<usize>>,
    pub classes: MaskClasses,
    /// Nodes whose lanes are held as bits.
    pub counted: Vec<bool>,
    pub phases: Phases,
    pub residents: Residents,
    pub slots: Slots,
    /// How each node is emitted.
    pub forms: Vec<NodeForm>,
    /// Values that variables carry: parameters, and those used in a node that does not
    /// [continue](Decisions::continues) the one that defines them.
    pub crosses: SecondaryMap<Value, bool>,
    /// Shared with what tells ranges.
    pub counters: Rc<Counters>,
    /// Loads that are emitted together with the store behind them.
    pub copies: EntitySet<Inst>,
    /// Accesses that are tested once per CTA.
    pub cta_ranges: CtaRanges,
    /// Branches that are decided once per CTA.
    pub cta_branches: CtaBranches,
}

/// What holds in a piece of code beside what the plan proves.
#[derive(Copy, Clone, Default)]
pub(crate) struct Assumed<'a> {
    /// All lanes run.
    pub is_full: bool,
    /// No version of an access for whole gangs is emitted: few of them come here, or another
    /// version of the node is for them.
    pub is_general: bool,
    /// Few gangs come here.
    pub is_cold: bool,
    /// The code runs only in CTAs whose accesses have passed their tests.
    pub is_proven: bool,
    /// One lane runs: everything is a scalar.
    pub one_lane: bool,
    /// A guard has found these inputs affine.
    pub affine_inputs: Option<&'a AffineInputs>,
}

impl Decisions<'_> {
    /// The variability of a value in a piece of code.
    pub(crate) fn variability(&self, value: Value, assumed: Assumed<'_>) -> Variability {
        if assumed.one_lane {
            return Variability::Uniform;
        }
        let inputs = assumed.affine_inputs;
        let better = inputs.and_then(|inputs| inputs.variability.get(&value));
        better.copied().unwrap_or(self.plan.variability[value])
    }

    /// Whether an instruction's result is packed.
    pub(crate) fn makes_subword(&self, inst: Inst, assumed: Assumed<'_>) -> bool {
        let [result] = self.func.insts[inst].results[..] else {
            return false;
        };
        self.packed.made[result] && self.variability(result, assumed) == Variability::Varying
    }
}

impl Decisions<'_> {
    /// Chooses what is tested once per CTA or row of CTAs.
    fn find_for_ctas(&mut self, has_ranges: bool, has_branches: bool) {
        let [by_row, by_cta] = [Scope::Row, Scope::Cta].map(|scope| {
            let program = (self.func, self.plan);
            let known = (&self.multiples, &*self.counters);
            cta_ranges::Finder::new(program, scope, &self.invariants, known)
        });
        let [of_row, of_cta] = [&by_row, &by_cta].map(|finder| match has_ranges {
            true => finder.find(&self.forms),
            false => CtaRanges::new(finder),
        });
        let (ranges, finder) = match of_row.accesses.len() >= of_cta.accesses.len() {
            true => (of_row, &by_row),
            false => (of_cta, &by_cta),
        };
        let branches = has_branches.then(|| self.cta_branches(finder));
        self.cta_branches = branches.unwrap_or_default();
        self.cta_ranges = ranges;
    }
}

/// Decides, and lays out the frame.
pub(crate) fn of<'a>(inputs: &'a Inputs<'a>) -> (Decisions<'a>, Frame) {
    let (func, plan) = (inputs.func, inputs.plan);
    let in_bits = predicates::in_bits(func, plan);
    let classes = MaskClasses::of(func, plan);
    let packed = packed::values(func, plan);
    let counted = counted::find(func, plan, &classes, &|cond| {
        in_bits[cond] || packed.made[cond]
    });
    let invariants = invariants::Finder::new(func, plan, &in_bits).find();
    let is_invariant = |value| func.as_const(value).is_some() || invariants.is_pinned(value);
    let finder = residents::Finder {
        func,
        plan,
        packed: &packed,
        invariants: &invariants,
    };
    let mut residents = finder.find();
    let is_elsewhere = |value| is_invariant(value) || residents.home(value).is_some();
    let mut frame = Frame::new(func, plan, &is_elsewhere);
    frame.size = residents.put_behind(frame.slots);
    let predecessors = predecessors(func);
    let counters = match plan.gang {
        1 => Counters::default(),
        _ => counters::find(func, plan, &predecessors),
    };
    let mut decided = Decisions {
        func,
        plan,
        inputs,
        is_float: float_values::float_values(func),
        packed,
        is_used: float_values::used_values(func),
        multiples: multiples::find(func, plan, &predecessors, inputs.align_of),
        invariants,
        patterns: Patterns::new(func, plan),
        predecessors,
        region_of: lane_loops::places(plan),
        phases: phases::find(func, plan, &classes),
        residents,
        slots: Slots::of(func),
        classes,
        counted,
        in_bits,
        forms: Vec::new(),
        crosses: SecondaryMap::new(),
        counters: Rc::new(counters),
        copies: copies::find(func),
        cta_ranges: CtaRanges::default(),
        cta_branches: CtaBranches::default(),
    };
    let n_nodes = plan.order.nodes.len();
    decided.forms = (0..n_nodes).map(|pos| decided.form(pos)).collect();
    decided.crosses = decided.crossing();
    // Memory of the host lies outside of the arena.
    let has_arena = !inputs.memcheck && !inputs.foreign;
    if plan.gang > 1 {
        let has_ranges = has_arena && inputs.switches.is_on(Heuristic::CtaRanges);
        decided.find_for_ctas(has_ranges, inputs.switches.is_on(Heuristic::CtaBranches));
    }
    (decided, frame)
}

/// Whether an instruction has no effect and reads nothing but its operands, so that it is emitted
/// in runs with others.
pub(crate) fn is_pure(data: &InstData) -> bool {
    if let InstData::ToGeneric { space, .. } | InstData::FromGeneric { space, .. } = data {
        *space != Space::Local
    } else {
        matches!(data.class(), Class::Constant | Class::Arithmetic)
    }
}
