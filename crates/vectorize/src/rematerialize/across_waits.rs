//! Rematerializes values behind waits instead of saving them.
//!
//! A gang that waits saves the live values of its lanes, and restores them when it is resumed. A
//! value that takes a few operations on thread numbers and parameters, as the partner of a sorting
//! network `tid ^ 4`, is cheaper to compute where it is used: compilers like to compute it once,
//! far ahead.
//!
//! ```text
//! block0: v2 = xor v1, 4; ...          block0: ...
//! block1: barrier; ...           =>    block1: barrier; ...
//! block2: v9 = load [v2]               block2: v8 = xor v1, 4; v9 = load [v8]
//! ```

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, Inst, InstData, Space, Type, Value, ValueDef};
use rustc_hash::FxHashMap;

use crate::analysis::divergence::Divergence;
use crate::analysis::liveness;
use crate::analysis::variability::Variability;
use crate::cost;
use crate::speculate::ssa_repair::predecessors;

/// Returns how many values are computed again.
pub(crate) fn run(
    func: &mut Function,
    waits: &SecondaryMap<Block, bool>,
    optimistic: &Divergence,
) -> usize {
    let stops: Vec<Block> = func.blocks.keys().filter(|&block| waits[block]).collect();
    if optimistic.gang == 1 || stops.is_empty() {
        return 0;
    }
    let live = liveness::run(func, &predecessors(func));
    let mut waits_across: SecondaryMap<Value, u32> = SecondaryMap::new();
    let mut candidates: Vec<Value> = Vec::new();
    for &block in &stops {
        for &value in &live.live_in[block] {
            if waits_across[value] == 0 {
                candidates.push(value);
            }
            waits_across[value] += 1;
        }
    }
    let is_live = |value: Value, block: Block| live.live_in[block].binary_search(&value).is_ok();
    let mut n_values = 0;
    for value in candidates {
        let is_varying = optimistic.variability[value] == Some(Variability::Varying);
        let cost = ops(func, optimistic, value, cost::DEPTH_TO_RECOMPUTE)
            .filter(|&ops| ops <= cost::MOST_OPS_TO_RECOMPUTE && is_varying);
        let Some(cost) = cost else { continue };
        let behind = behind_waits(func, &stops, &|block| is_live(value, block));
        let users: Vec<Block> = behind
            .into_iter()
            .filter(|&block| uses(func, block).any(|arg| arg == value))
            .collect();
        // A wait's own operands must be in their slots.
        let is_seen = |&block: &Block| {
            waits[block]
                && func.insts[func.blocks[block].insts[0]]
                    .data
                    .args()
                    .contains(&value)
        };
        let pays = cost * users.len() as u32 <= cost::COST_OF_WAIT * waits_across[value];
        if !pays || users.iter().any(is_seen) {
            continue;
        }
        for block in users {
            rematerialize(func, waits, optimistic, block, value);
        }
        n_values += 1;
    }
    n_values
}

/// How many varying operations compute a value from thread numbers, parameters and constants;
/// `None` if it depends on anything else.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are kept")]
fn ops(func: &Function, optimistic: &Divergence, value: Value, depth: u32) -> Option<u32> {
    let depth = depth.checked_sub(1)?;
    let ValueDef::Result(inst, _) = func.values[value].def else {
        return None;
    };
    let varies = optimistic.variability[value] == Some(Variability::Varying);
    let data = &func.insts[inst].data;
    let own = match *data {
        InstData::Const { .. } => return Some(0),
        InstData::Sreg { sreg } if !varies && !sreg.is_volatile() => return Some(0),
        InstData::Load {
            space: Space::Param,
            n: 1,
            ..
        } if !varies => 0,
        InstData::IntUnary { .. }
        | InstData::IntBinary { .. }
        | InstData::Lop3 { .. }
        | InstData::Resize { .. }
        | InstData::Compare { .. }
        | InstData::VarAddr { .. }
        | InstData::Select { .. } => u32::from(varies) * n_vectors(func.ty(value)),
        _ => return None,
    };
    data.args().iter().try_fold(own, |sum, &arg| {
        Some(sum + ops(func, optimistic, arg, depth)?)
    })
}

fn n_vectors(ty: Type) -> u32 {
    match ty {
        Type::B64 => 2,
        Type::B1 | Type::B8 | Type::B16 | Type::B32 => 1,
    }
}

/// The blocks that are reached behind a wait while a value is live.
fn behind_waits(func: &Function, stops: &[Block], is_live: &dyn Fn(Block) -> bool) -> Vec<Block> {
    let mut seen: SecondaryMap<Block, bool> = SecondaryMap::new();
    let mut found: Vec<Block> = Vec::new();
    let mut work: Vec<Block> = stops
        .iter()
        .copied()
        .filter(|&block| is_live(block))
        .collect();
    while let Some(block) = work.pop() {
        if std::mem::replace(&mut seen[block], true) {
            continue;
        }
        found.push(block);
        let targets = func.blocks[block].term.targets();
        work.extend(
            targets
                .iter()
                .map(|call| call.block)
                .filter(|&to| is_live(to)),
        );
    }
    found
}

fn uses(func: &Function, block: Block) -> impl Iterator<Item = Value> {
    let data = &func.blocks[block];
    let mut args: Vec<Value> = Vec::new();
    for &inst in &data.insts {
        args.extend(func.insts[inst].data.args());
    }
    data.term.for_each_arg(|arg| args.push(arg));
    args.into_iter()
}

/// Computes a value again ahead of its first use in a block, and uses that.
fn rematerialize(
    func: &mut Function,
    waits: &SecondaryMap<Block, bool>,
    optimistic: &Divergence,
    block: Block,
    value: Value,
) {
    let insts = func.blocks[block].insts.clone();
    let user = |inst: &Inst| func.insts[*inst].data.args().contains(&value);
    let at = insts.iter().position(user).unwrap_or(insts.len());
    let at = at.max(usize::from(waits[block]));
    let mut made: Vec<Inst> = Vec::new();
    let mut copies: FxHashMap<Value, Value> = FxHashMap::default();
    let now = copy(func, optimistic, value, &mut made, &mut copies);
    func.blocks[block].insts.splice(at..at, made);
    let new = |arg: &mut Value| {
        if *arg == value {
            *arg = now;
        }
    };
    for &inst in &insts[at..] {
        func.insts[inst].data.args_mut().into_iter().for_each(new);
    }
    func.blocks[block].term.for_each_arg_mut(new);
}

/// Copies the definition of a value, down to values that are not varying, which are never saved.
fn copy(
    func: &mut Function,
    optimistic: &Divergence,
    value: Value,
    made: &mut Vec<Inst>,
    copies: &mut FxHashMap<Value, Value>,
) -> Value {
    if optimistic.variability[value] != Some(Variability::Varying) {
        return value;
    }
    if let Some(&copied) = copies.get(&value) {
        return copied;
    }
    let ValueDef::Result(inst, _) = func.values[value].def else {
        unreachable!("parameters are not made of other values");
    };
    let (mut data, loc) = (func.insts[inst].data.clone(), func.insts[inst].loc);
    for arg in data.args_mut() {
        *arg = copy(func, optimistic, *arg, made, copies);
    }
    let copied = func.make_inst(data, &[func.ty(value)], loc);
    made.push(copied);
    let result = func.insts[copied].results[0];
    copies.insert(value, result);
    result
}
