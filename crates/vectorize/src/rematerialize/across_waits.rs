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
use ptxjit_ir::{Block, Function, Inst, InstData, InstNode, Space, Type, Value};
use rustc_hash::FxHashMap;

use crate::analysis::divergence::Divergence;
use crate::analysis::liveness;
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
    let mut n_values = 0;
    for value in candidates {
        let cost = ops(func, optimistic, value, cost::DEPTH_TO_RECOMPUTE)
            .filter(|&ops| ops <= cost::MOST_OPS_TO_RECOMPUTE && optimistic.is_varying(value));
        let Some(cost) = cost else { continue };
        let mut users = behind_waits(func, &stops, &|block| live.is_live(value, block));
        users.retain(|&block| func.uses(block, value));
        // A wait's own operands must be in their slots.
        let is_seen = |&block: &Block| {
            let mut first = func.insts_in(block).take(1);
            waits[block] && first.any(|node| node.data.args().contains(&value))
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
    let data = func.def_inst(value)?;
    let varies = optimistic.is_varying(value);
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
    let mut work = stops.to_vec();
    while let Some(block) = work.pop() {
        if is_live(block) && !std::mem::replace(&mut seen[block], true) {
            found.push(block);
            work.extend(func.successors(block));
        }
    }
    found
}

/// Computes a value again ahead of its first use in a block, and uses that.
fn rematerialize(
    func: &mut Function,
    waits: &SecondaryMap<Block, bool>,
    optimistic: &Divergence,
    block: Block,
    value: Value,
) {
    let uses = |node: &InstNode| node.data.args().contains(&value);
    let at = func.insts_in(block).position(uses);
    let at = at.unwrap_or(func.blocks[block].insts.len());
    let at = at.max(usize::from(waits[block]));
    let mut copies = Copies {
        func,
        optimistic,
        made: Vec::new(),
        known: FxHashMap::default(),
    };
    let now = copies.copy(value);
    let made = copies.made;
    func.replace_uses(block, value, now);
    func.blocks[block].insts.splice(at..at, made);
}

/// Copies of what a value is computed from.
struct Copies<'a> {
    func: &'a mut Function,
    optimistic: &'a Divergence,
    made: Vec<Inst>,
    known: FxHashMap<Value, Value>,
}

impl Copies<'_> {
    /// Copies the definition of a value, down to values that are not varying, which are never
    /// saved.
    fn copy(&mut self, value: Value) -> Value {
        if !self.optimistic.is_varying(value) {
            return value;
        }
        if let Some(&copied) = self.known.get(&value) {
            return copied;
        }
        let inst = self.func.maker(value);
        let inst = inst.expect("parameters are not made of other values");
        let node = &self.func.insts[inst];
        let (mut data, loc) = (node.data.clone(), node.loc);
        for arg in data.args_mut() {
            *arg = self.copy(*arg);
        }
        let copied = self.func.make_inst(data, &[self.func.ty(value)], loc);
        self.made.push(copied);
        let result = self.func.result(copied);
        self.known.insert(value, result);
        result
    }
}
