//! What is decided about a function and its plan before the first CLIF instruction exists: how each
//! value and each mask is held, what is computed ahead of the nodes, which phases there are, and where
//! lanes keep their values while they wait. `lower` reads it.

mod counted;
mod float_values;
pub(crate) mod frame;
mod invariants;
pub(crate) mod lane_loops;
pub(crate) mod mask_classes;
mod packed;
mod patterns;
mod phases;
pub(crate) mod predicates;

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Class, Function, InstData, Space, Value};
use ptxjit_vectorize::{Plan, predecessors};

use crate::slots::Slots;
use frame::Frame;
use invariants::Invariants;
use mask_classes::MaskClasses;
use patterns::Patterns;
use phases::Phases;

/// All of it.
pub(crate) struct Decisions<'a> {
    /// Scalars that are held in float registers.
    pub is_float: SecondaryMap<Value, bool>,
    /// Predicates that are held as bits.
    pub in_bits: SecondaryMap<Value, bool>,
    /// Values held as packed vectors of their own width.
    pub is_subword: SecondaryMap<Value, bool>,
    pub is_used: SecondaryMap<Value, bool>,
    pub invariants: Invariants,
    pub patterns: Patterns<'a>,
    pub predecessors: SecondaryMap<Block, Vec<Block>>,
    /// For each node, the lane loop that it belongs to.
    pub region_of: Vec<Option<usize>>,
    pub classes: MaskClasses,
    /// Nodes whose lanes are held as bits.
    pub counted: Vec<bool>,
    pub phases: Phases,
    pub slots: Slots,
}

/// Decides, and lays out the frame.
pub(crate) fn of<'a>(func: &'a Function, plan: &'a Plan) -> (Decisions<'a>, Frame) {
    let in_bits = predicates::in_bits(func, plan);
    let classes = MaskClasses::of(func, plan);
    let counted = counted::find(func, plan, &classes, &in_bits);
    let finder = invariants::Finder::new(func, plan, &in_bits);
    let frame = Frame::new(func, plan, &|value| finder.is_invariant(value));
    let invariants = finder.find();
    let decided = Decisions {
        is_float: float_values::float_values(func),
        is_subword: packed::values(func, plan),
        is_used: float_values::used_values(func),
        invariants,
        patterns: Patterns::new(func, plan),
        predecessors: predecessors(func),
        region_of: lane_loops::places(plan),
        phases: phases::find(func, plan, &classes),
        slots: Slots::of(func),
        classes,
        counted,
        in_bits,
    };
    (decided, frame)
}

/// Whether an instruction has no effect and reads nothing but its operands, so that it is emitted in
/// runs with others.
pub(crate) fn is_pure(data: &InstData) -> bool {
    if let InstData::ToGeneric { space, .. } | InstData::FromGeneric { space, .. } = data {
        *space != Space::Local
    } else {
        matches!(data.class(), Class::Constant | Class::Arithmetic)
    }
}
