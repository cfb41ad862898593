//! Which values are held as packed sub-word vectors (`lower/state/subword.rs`).

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, Inst, InstData, IntBinaryOp, IntUnaryOp, Space, Type, Value};
use ptxjit_vectorize::{Node, Plan, SingleLane, Variability};

/// Which values are packed.
#[derive(Default)]
pub(crate) struct Packed {
    /// By the instruction that computes them.
    pub made: SecondaryMap<Value, bool>,
    /// In the variables that carry them between nodes; other values are widened for those.
    pub carried: SecondaryMap<Value, bool>,
}

/// Passes over a function, each of which may find more parameters whose arguments are packed.
const MOST_PASSES: usize = 4;

/// The values that are packed.
pub(crate) fn values(func: &Function, plan: &Plan) -> Packed {
    let wanted = wanted(func, plan);
    let mut packed = Packed::default();
    for _ in 0..MOST_PASSES {
        packed.made = made(func, plan, &wanted, &packed.carried);
        let carried = carried(func, plan, &packed);
        if carried == packed.carried {
            return packed;
        }
        packed.carried = carried;
    }
    packed.made = made(func, plan, &wanted, &packed.carried);
    packed
}

/// The results that are computed as packed vectors.
fn made(
    func: &Function,
    plan: &Plan,
    wanted: &SecondaryMap<Value, bool>,
    carried: &SecondaryMap<Value, bool>,
) -> SecondaryMap<Value, bool> {
    let mut made: SecondaryMap<Value, bool> = SecondaryMap::new();
    for (block, data) in func.blocks.iter() {
        if plan.single_lane[block] != SingleLane::No {
            continue;
        }
        let mut here = carried.clone();
        for &inst in &data.insts {
            let [result] = func.insts[inst].results[..] else {
                continue;
            };
            let is_subword = plan.variability[result] == Variability::Varying
                && is_made_subword(func, plan, inst, wanted, &here);
            (here[result], made[result]) = (is_subword, is_subword);
        }
    }
    made
}

/// The values that stay packed between nodes: those that are made so, and parameters all of whose
/// varying arguments are. Lane loops keep what they pass on as quads.
fn carried(func: &Function, plan: &Plan, packed: &Packed) -> SecondaryMap<Value, bool> {
    let mut carried = packed.carried.clone();
    if !plan.lane_loops.is_empty() {
        return carried;
    }
    let is_narrow = |value: Value| {
        let ty = func.ty(value);
        matches!(ty, Type::B8 | Type::B16)
            && fills(plan, ty)
            && plan.variability[value] == Variability::Varying
    };
    // Of each parameter: whether an argument is packed, and whether one prevents that.
    let mut args: SecondaryMap<Value, (bool, bool)> = SecondaryMap::new();
    for (block, data) in func.blocks.iter() {
        let by_one = plan.single_lane[block] != SingleLane::No;
        for call in data.term.targets() {
            let to_one = plan.single_lane[call.block] != SingleLane::No;
            for (&param, &arg) in func.blocks[call.block].params.iter().zip(&call.args) {
                let (is_some_packed, has_other) = &mut args[param];
                let is_packed = packed.made[arg] || carried[arg];
                let is_other = plan.variability[arg] == Variability::Varying && !is_packed;
                *is_some_packed |= is_packed;
                *has_other |= is_other || by_one || to_one;
            }
        }
        for &inst in &data.insts {
            for &result in &func.insts[inst].results {
                carried[result] |= is_narrow(result) && packed.made[result] && plan.escapes[result];
            }
        }
    }
    for data in func.blocks.values() {
        for &param in &data.params {
            let (is_packed, has_other) = args[param];
            carried[param] |= is_narrow(param) && is_packed && !has_other;
        }
    }
    carried
}

/// Whether all lanes fill vectors.
fn fills(plan: &Plan, ty: Type) -> bool {
    match ty {
        Type::B8 => plan.gang.is_multiple_of(16),
        Type::B16 => plan.gang.is_multiple_of(8),
        Type::B1 | Type::B32 | Type::B64 => false,
    }
}

/// The values that have a use that prefers them packed, in a block or as an argument of one.
fn wanted(func: &Function, plan: &Plan) -> SecondaryMap<Value, bool> {
    let mut wanted: SecondaryMap<Value, bool> = SecondaryMap::new();
    for _ in 0..MOST_PASSES {
        let before = wanted.clone();
        for node in plan.order.nodes.iter().rev() {
            if let Node::Block(block) = *node {
                wanted_by_block(func, plan, block, &mut wanted);
            }
        }
        if before == wanted {
            break;
        }
    }
    wanted
}

#[expect(clippy::wildcard_enum_match_arm, reason = "others want 32 bits")]
fn wanted_by_block(
    func: &Function,
    plan: &Plan,
    block: Block,
    wanted: &mut SecondaryMap<Value, bool>,
) {
    let data = &func.blocks[block];
    for call in data.term.targets() {
        for (&param, &arg) in func.blocks[call.block].params.iter().zip(&call.args) {
            wanted[arg] |= wanted[param];
        }
    }
    for &inst in data.insts.iter().rev() {
        match func.insts[inst].data {
            InstData::Store { ty, ref args, .. } if fills(plan, ty) && args.len() == 1 => {
                wanted[args[0]] = true
            }
            InstData::Resize { from, to, arg, .. } if fills(plan, to) => {
                wanted[arg] |= from != Type::B32 && wanted[func.insts[inst].results[0]];
            }
            InstData::Compare { ty, args, .. } if fills(plan, ty) => {
                args.iter().for_each(|&arg| wanted[arg] = true)
            }
            ref data if is_subword_op(func, plan, data) => {
                data.args().into_iter().for_each(|arg| wanted[arg] = true)
            }
            _ => {}
        }
    }
}

/// Operations that exist for sub-word lanes.
#[expect(clippy::wildcard_enum_match_arm, reason = "others have no packed form")]
fn is_subword_op(func: &Function, plan: &Plan, data: &InstData) -> bool {
    match *data {
        InstData::IntUnary { op, ty, .. } => {
            fills(plan, ty) && matches!(op, IntUnaryOp::Not | IntUnaryOp::Neg | IntUnaryOp::Abs)
        }
        InstData::IntBinary { op, ty, args } if fills(plan, ty) => match op {
            IntBinaryOp::Add
            | IntBinaryOp::Sub
            | IntBinaryOp::And
            | IntBinaryOp::Or
            | IntBinaryOp::Xor => true,
            IntBinaryOp::Smin | IntBinaryOp::Smax | IntBinaryOp::Umin | IntBinaryOp::Umax => true,
            IntBinaryOp::Mul => ty == Type::B16,
            IntBinaryOp::Shl => ty == Type::B16 && is_count(func, ty, args[1]),
            IntBinaryOp::Ushr | IntBinaryOp::Sshr => is_count(func, ty, args[1]),
            _ => false,
        },
        InstData::Select { ty, .. } => fills(plan, ty),
        _ => false,
    }
}

fn is_count(func: &Function, ty: Type, count: Value) -> bool {
    func.as_const(count)
        .is_some_and(|count| count < u64::from(ty.bits()))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the rest are asked as ops")]
fn is_made_subword(
    func: &Function,
    plan: &Plan,
    inst: Inst,
    wanted: &SecondaryMap<Value, bool>,
    here: &SecondaryMap<Value, bool>,
) -> bool {
    let node = &func.insts[inst];
    let is_wanted = wanted[node.results[0]];
    match node.data {
        InstData::Load { ty, space, .. } | InstData::MaskedLoad { ty, space, .. } => {
            fills(plan, ty) && is_wanted && !matches!(space, Space::Param | Space::Local)
        }
        InstData::Resize { to, from, arg, .. } if fills(plan, to) => match from {
            Type::B8 | Type::B16 => here[arg],
            Type::B1 | Type::B32 => is_wanted,
            Type::B64 => false,
        },
        InstData::Compare { ty, args, .. } if fills(plan, ty) => args.iter().any(|&arg| here[arg]),
        InstData::IntBinary {
            op: IntBinaryOp::And | IntBinaryOp::Or | IntBinaryOp::Xor,
            ty: Type::B1,
            args,
        } => args.iter().any(|&arg| here[arg]),
        InstData::IntUnary {
            op: IntUnaryOp::Not,
            ty: Type::B1,
            arg,
        } => here[arg],
        InstData::Select { args, .. } => {
            is_subword_op(func, plan, &node.data)
                && (is_wanted || args.iter().any(|&arg| here[arg]))
        }
        ref data => is_subword_op(func, plan, data) && data.args().iter().any(|&arg| here[arg]),
    }
}
