//! Clones of regions, for speculation.

use ptxjit_ir::{Block, Function, Inst, InstData, Terminator, Type, Value, ValueDef};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::speculate::ssa_repair::{Repair, predecessors};
use crate::waits;

/// The clone of a region: its blocks and values.
#[derive(Default)]
pub(crate) struct Copies {
    /// The blocks that were cloned.
    pub old: Vec<Block>,
    pub blocks: FxHashMap<Block, Block>,
    pub values: FxHashMap<Value, Value>,
}

/// Whether an instruction must not be cloned, because lanes wait at it or it calls a function.
pub(crate) fn is_fixed(func: &Function, gang: u32, inst: Inst) -> bool {
    let data = &func.insts[inst].data;
    let is_call = matches!(data, InstData::Call { .. } | InstData::CallIndirect { .. });
    is_call || waits::can_wait(data, gang)
}

/// Whether a region, and a block from an instruction on, can be cloned: no other block leads into
/// the region, and the clone gives no second definition to a value whose first and last lane a
/// guard elsewhere reads, since that value has to stay affine.
pub(crate) fn can_copy(func: &Function, start: Block, at: usize, region: &[Block]) -> bool {
    let preds = predecessors(func);
    let is_inside = |block: &Block| *block == start || region.contains(block);
    if !region
        .iter()
        .all(|&block| preds[block].iter().all(is_inside))
    {
        return false;
    }
    let rest = &func.blocks[start].insts[at..];
    let copied: FxHashSet<Inst> = region
        .iter()
        .flat_map(|&block| &func.blocks[block].insts)
        .chain(rest)
        .copied()
        .collect();
    let insts = func.blocks.values().flat_map(|data| &data.insts);
    let mut work: Vec<Value> = insts
        .filter(|inst| !copied.contains(inst))
        .filter_map(|&inst| {
            if let InstData::EndLane { arg, .. } = func.insts[inst].data {
                Some(arg)
            } else {
                None
            }
        })
        .collect();
    let mut seen: FxHashSet<Value> = FxHashSet::default();
    while let Some(value) = work.pop() {
        if !seen.insert(value) {
            continue;
        }
        if let ValueDef::Result(inst, _) = func.values[value].def {
            if copied.contains(&inst) {
                return false;
            }
            work.extend(func.insts[inst].data.args());
        }
    }
    true
}

/// Moves a block's instructions from one on, and its terminator, to a new block. The block is left
/// without a terminator.
pub(crate) fn split(func: &mut Function, block: Block, at: usize) -> Block {
    let rest = func.new_block();
    let data = &mut func.blocks[block];
    let insts = data.insts.split_off(at);
    let term = std::mem::replace(&mut data.term, Terminator::Exit);
    let term_loc = data.term_loc;
    func.blocks[rest].insts = insts;
    func.blocks[rest].term = term;
    func.blocks[rest].term_loc = term_loc;
    rest
}

impl Copies {
    /// Clones blocks, with `known` in place of some values.
    pub(crate) fn new(func: &mut Function, old: Vec<Block>, known: &[(Value, Value)]) -> Copies {
        let mut copies = Copies {
            old,
            ..Copies::default()
        };
        for &block in &copies.old {
            let new = func.new_block();
            copies.blocks.insert(block, new);
            for param in func.blocks[block].params.clone() {
                let ty = func.ty(param);
                copies.values.insert(param, func.add_param(new, ty));
            }
            for inst in func.blocks[block].insts.clone() {
                let node = &func.insts[inst];
                let (data, loc, results) = (node.data.clone(), node.loc, node.results.clone());
                let types: Vec<Type> = results.iter().map(|&result| func.ty(result)).collect();
                let copied = func.make_inst(data, &types, loc);
                let pairs = results.iter().zip(func.insts[copied].results.clone());
                copies.values.extend(pairs.map(|(&old, new)| (old, new)));
                func.blocks[new].insts.push(copied);
            }
            func.blocks[new].term = func.blocks[block].term.clone();
            func.blocks[new].term_loc = func.blocks[block].term_loc;
        }
        copies.values.extend(known.iter().copied());
        for &block in &copies.old {
            copies.rename(func, copies.blocks[&block]);
        }
        copies
    }

    /// Replaces operands and targets by their clones.
    fn rename(&self, func: &mut Function, block: Block) {
        let new = |arg: &mut Value| *arg = self.values.get(arg).copied().unwrap_or(*arg);
        for inst in func.blocks[block].insts.clone() {
            func.insts[inst].data.args_mut().into_iter().for_each(new);
        }
        let term = &mut func.blocks[block].term;
        term.for_each_arg_mut(new);
        for call in term.targets_mut() {
            call.block = self.blocks.get(&call.block).copied().unwrap_or(call.block);
        }
    }

    /// Repairs SSA form for values that are used elsewhere, which have two definitions now. A third
    /// way to their uses leads through `bypass`, where they may be anything.
    pub(crate) fn repair_uses(&self, func: &mut Function, bypass: Option<Block>) {
        let copies: Vec<Block> = self.blocks.values().copied().collect();
        let outside: Vec<Block> = func
            .blocks
            .keys()
            .filter(|block| !self.old.contains(block) && !copies.contains(block))
            .collect();
        let preds = predecessors(func);
        for &home in &self.old {
            let data = &func.blocks[home];
            let results = data
                .insts
                .iter()
                .flat_map(|&inst| func.insts[inst].results.clone());
            let defined: Vec<Value> = data.params.iter().copied().chain(results).collect();
            for value in defined {
                let used: Vec<Block> = outside
                    .iter()
                    .copied()
                    .filter(|&block| uses(func, block, value))
                    .collect();
                if used.is_empty() {
                    continue;
                }
                let mut repair = Repair::new(&preds, func.ty(value));
                repair.define(home, value);
                repair.define(self.blocks[&home], self.values[&value]);
                if let Some(bypass) = bypass {
                    repair.define(bypass, any_value(func, bypass, func.ty(value)));
                }
                for block in used {
                    let now = repair.start(func, block);
                    let new = |arg: &mut Value| {
                        if *arg == value {
                            *arg = now;
                        }
                    };
                    for inst in func.blocks[block].insts.clone() {
                        func.insts[inst].data.args_mut().into_iter().for_each(new);
                    }
                    func.blocks[block].term.for_each_arg_mut(new);
                }
            }
        }
    }
}

/// Some value of a type, as an instruction at the end of a block.
pub(crate) fn any_value(func: &mut Function, block: Block, ty: Type) -> Value {
    let inst = func.make_inst(
        InstData::Const { ty, bits: 0 },
        &[ty],
        func.blocks[block].term_loc,
    );
    func.blocks[block].insts.push(inst);
    func.insts[inst].results[0]
}

fn uses(func: &Function, block: Block, value: Value) -> bool {
    let data = &func.blocks[block];
    let mut found = false;
    data.term.for_each_arg(|arg| found |= arg == value);
    let in_inst = |&inst: &Inst| func.insts[inst].data.args().contains(&value);
    found || data.insts.iter().any(in_inst)
}
