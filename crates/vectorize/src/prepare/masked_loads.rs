//! Turns divergent branches around loads into masked loads and selects.
//!
//! `a == x || b[i] == x || …` and `s == 2 && b[i]` load only where they must, so compilers make a
//! branch of each operator. A divergent branch costs more than the few operations that it avoids:
//! masks are computed, tested and joined, and values that reach a block on two paths are blended.
//! Here the sides become straight-line code, whose loads keep the condition as their mask. No lane
//! accesses what the program does not access in it.
//!
//! Branches around gathers stay: a lane that does not load would be redirected, which costs as much
//! as the branch. Branches on comparisons of affine with uniform values stay, too: most gangs, and
//! most CTAs, take one side of them, and versions rely on that.
//!
//! **Needs**: that the scalar `if_convert` has run, for straight lines are one block then.
//! **Ensures**: the sides that were converted have no block.
//!
//! ```text
//! block0: brif v0, block2(v1), block1                       block0: v5 = not.b1 v0
//! block1: v3 = load.b32 [v2]; jump block2(v3)          ==>          v3 = masked_load.b32 v5, [v2]
//! block2(v4): ...                                                   v6 = select.b32 v0, v1, v3
//!                                                                   jump block2(v6)
//! ```

use ptxjit_ir::{
    Block, Function, Inst, InstData, IntBinaryOp, IntUnaryOp, MemSem, Space, Terminator, Value,
};
use ptxjit_passes::transform::if_convert::{self, Rules};
use ptxjit_passes::transform::{cfg_cleanup, dce, simplify};

use crate::analysis::divergence::Divergence;
use crate::analysis::order;
use crate::{Setup, cost};

/// Converts branches; returns how many.
pub(crate) fn run(func: &mut Function, setup: &Setup<'_>) -> usize {
    let has_loads = func.blocks.keys().any(|block| is_side(func, block));
    if !setup.starts_together() || setup.facts.keeps_accesses || !has_loads {
        return 0;
    }
    let mut divergence = Divergence::new(setup.gang, setup.facts);
    divergence.propagate(func, &order::run(func, &[]));
    // Values that conversions make are new to the analysis.
    let is_varying = |value: Value| divergence.may_vary(value);
    let may_convert = |func: &Function, block: Block| {
        let is_open =
            |cond| is_varying(cond) && !is_decided(func, &is_varying, cond, cost::DEPTH_OF_TESTS);
        let mut sides = func.successors(block);
        func.blocks[block].term.condition().is_some_and(is_open)
            && sides.any(|side| is_side(func, side))
    };
    let price = |func: &Function, inst: Inst| {
        let node = &func.insts[inst];
        if let Some(access) = node.data.access().filter(|_| may_mask(&node.data)) {
            return (!is_varying(access.addr)).then_some(cost::COST_OF_MASKED_LOAD);
        }
        let price = if_convert::cost(func, &node.data)?;
        let is_vector = node.results.iter().any(|&result| is_varying(result));
        Some(if is_vector { price } else { 0 })
    };
    let rules = Rules {
        may_convert: &may_convert,
        cost: &price,
        max_cost: cost::MOST_BESIDE_MASKED_LOADS,
        max_selects: cost::MOST_SELECTS,
    };
    let n_converted = if_convert::run_by(func, &rules);
    // Conditions of other sides are negated, most of which are comparisons.
    if n_converted > 0 {
        simplify::run(func);
        cfg_cleanup::run(func);
        dce::run(func);
    }
    n_converted
}

/// Whether a block jumps on and has a load that may be masked.
fn is_side(func: &Function, block: Block) -> bool {
    let mut nodes = func.insts_in(block);
    matches!(func.blocks[block].term, Terminator::Jump(_)) && nodes.any(|it| may_mask(&it.data))
}

/// Whether a load may be masked.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are not masked")]
pub(crate) fn may_mask(data: &InstData) -> bool {
    match *data {
        InstData::MaskedLoad { .. } => true,
        InstData::Load { space, sem, n, .. } => {
            let is_weak = matches!(sem, MemSem::Weak | MemSem::NonCoherent);
            n == 1 && is_weak && matches!(space, Space::Global | Space::Generic | Space::Shared)
        }
        _ => false,
    }
}

/// Whether a condition follows from comparisons of affine with uniform values alone. Signs of
/// several at once are tested one by one later (`sign_tests`).
fn is_decided(
    func: &Function,
    is_varying: &dyn Fn(Value) -> bool,
    value: Value,
    depth: u32,
) -> bool {
    let Some(depth) = depth.checked_sub(1) else {
        return false;
    };
    if !is_varying(value) {
        return true;
    }
    let is_decided = |&arg: &Value| is_decided(func, is_varying, arg, depth);
    match func.def_inst(value) {
        Some(InstData::Compare { args, .. }) => args.iter().all(is_decided),
        Some(InstData::IntBinary {
            op: IntBinaryOp::And | IntBinaryOp::Or | IntBinaryOp::Xor,
            args,
            ..
        }) => args.iter().all(is_decided),
        Some(InstData::IntUnary {
            op: IntUnaryOp::Not,
            arg,
            ..
        }) => is_decided(arg),
        _ => false,
    }
}
