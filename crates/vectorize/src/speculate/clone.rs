//! Clones of regions, for speculation.

use ptxjit_ir::{
    Block, BlockData, Class, Function, Inst, InstData, InstNode, Terminator, Type, Value,
};
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

/// Whether a block must not be cloned, because lanes wait in it or it calls a function.
pub(crate) fn has_fixed(func: &Function, gang: u32, block: Block) -> bool {
    let is_fixed = |data: &InstData| data.class() == Class::Call || waits::can_wait(data, gang);
    func.insts_in(block).any(|node| is_fixed(&node.data))
}

/// Whether a region, and a block from an instruction on, can be cloned: no other block leads into
/// the region, and the clone gives no second definition to a value whose first and last lane a
/// guard elsewhere reads, since that value has to stay affine.
pub(crate) fn can_copy(func: &Function, start: Block, at: usize, region: &[Block]) -> bool {
    let preds = predecessors(func);
    let is_inside = |block: &Block| *block == start || region.contains(block);
    let mut blocks = region.iter();
    if !blocks.all(|&block| preds[block].iter().all(is_inside)) {
        return false;
    }
    let insts = region.iter().flat_map(|&block| &func.blocks[block].insts);
    let insts = insts.chain(&func.blocks[start].insts[at..]);
    let copied: FxHashSet<Inst> = insts.copied().collect();
    let others = func.blocks.values().flat_map(|data| &data.insts);
    let others = others.filter(|inst| !copied.contains(inst));
    let ends = others.filter_map(|&inst| func.insts[inst].data.as_end_lane());
    let mut work: Vec<Value> = ends.map(|(arg, _)| arg).collect();
    let mut seen: FxHashSet<Value> = FxHashSet::default();
    while let Some(value) = work.pop() {
        if let Some(inst) = func.maker(value).filter(|_| seen.insert(value)) {
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
    let data = &mut func.blocks[block];
    let rest = BlockData {
        params: Vec::new(),
        insts: data.insts.split_off(at),
        term: std::mem::replace(&mut data.term, Terminator::Exit),
        term_loc: data.term_loc,
    };
    func.blocks.push(rest)
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
            func.copy_params(block, new);
            for inst in func.blocks[block].insts.clone() {
                let InstNode { data, results, loc } = func.insts[inst].clone();
                let types: Vec<Type> = results.iter().map(|&result| func.ty(result)).collect();
                let copied = func.make_inst(data, &types, loc);
                func.blocks[new].insts.push(copied);
            }
            func.blocks[new].term = func.blocks[block].term.clone();
            func.blocks[new].term_loc = func.blocks[block].term_loc;
            let pairs = func.defined_in(block).zip(func.defined_in(new));
            copies.values.extend(pairs);
            copies.blocks.insert(block, new);
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
        func.for_each_arg_mut(block, new);
        for call in func.blocks[block].term.targets_mut() {
            call.block = self.blocks.get(&call.block).copied().unwrap_or(call.block);
        }
    }

    /// Repairs SSA form for values that are used elsewhere, which have two definitions now. A third
    /// way to their uses leads through `bypass`, where they may be anything.
    pub(crate) fn repair_uses(&self, func: &mut Function, bypass: Option<Block>) {
        let copies: Vec<Block> = self.blocks.values().copied().collect();
        let mut outside: Vec<Block> = func.blocks.keys().collect();
        outside.retain(|block| !self.old.contains(block) && !copies.contains(block));
        let preds = predecessors(func);
        for &home in &self.old {
            for value in func.defined_in(home).collect::<Vec<_>>() {
                let mut used = outside.clone();
                used.retain(|&block| func.uses(block, value));
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
                    func.replace_uses(block, value, now);
                }
            }
        }
    }
}

/// Some value of a type, as an instruction at the end of a block.
pub(crate) fn any_value(func: &mut Function, block: Block, ty: Type) -> Value {
    let loc = func.blocks[block].term_loc;
    func.append(block, InstData::Const { ty, bits: 0 }, ty, loc)
}
