//! Renumbers a function: only blocks, instructions, values and slots in use are left, in a readable
//! order.
//!
//! **Needs**: nothing. **Ensures**: every block can be reached, blocks are in the linear order of
//! the loop forest, every instruction is in a block, every slot is named by an instruction. Passes
//! leave holes behind; whatever comes after has tables by number.

use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{PrimaryMap, SecondaryMap};
use ptxjit_ir::{Block, Function, InstData, StackSlot, Value};

use crate::analysis::{cfg, loops};

/// Runs the pass.
pub fn run(func: &mut Function) {
    let cfg = cfg::run(func);
    let order = loops::run(&cfg).order;
    let mut old = std::mem::replace(func, Function::new(String::new(), func.kind, Vec::new()));
    let mut map = Map {
        blocks: SecondaryMap::new(),
        values: SecondaryMap::new(),
        slots: SecondaryMap::new(),
    };
    let mut new = Function {
        name: std::mem::take(&mut old.name),
        kind: old.kind,
        rets: std::mem::take(&mut old.rets),
        entry: old.entry,
        blocks: PrimaryMap::new(),
        insts: PrimaryMap::with_capacity(old.insts.len()),
        values: PrimaryMap::with_capacity(old.values.len()),
        slots: PrimaryMap::new(),
    };
    for &block in &order {
        map.blocks[block] = new.new_block().into();
    }
    new.entry = map.block(old.entry);
    // Values first: a block may name values of a block that comes later, around a loop.
    for &block in &order {
        move_block(&mut old, &mut new, &mut map, block);
    }
    for data in new.blocks.values_mut() {
        data.term.for_each_arg_mut(|arg| *arg = map.value(*arg));
        for call in data.term.targets_mut() {
            call.block = map.block(call.block);
        }
    }
    for node in new.insts.values_mut() {
        node.data
            .args_mut()
            .into_iter()
            .for_each(|arg| *arg = map.value(*arg));
    }
    *func = new;
}

struct Map {
    blocks: SecondaryMap<Block, PackedOption<Block>>,
    values: SecondaryMap<Value, PackedOption<Value>>,
    slots: SecondaryMap<StackSlot, PackedOption<StackSlot>>,
}

impl Map {
    fn block(&self, block: Block) -> Block {
        self.blocks[block]
            .expand()
            .expect("branches lead to blocks in reach")
    }

    fn value(&self, value: Value) -> Value {
        self.values[value].expect("a value in use is defined in reach")
    }
}

/// Moves parameters, instructions and terminator; operands keep their old numbers.
#[expect(clippy::wildcard_enum_match_arm, reason = "others name no block")]
fn move_block(old: &mut Function, new: &mut Function, map: &mut Map, block: Block) {
    let to = map.block(block);
    let data = std::mem::take(&mut old.blocks[block]);
    for param in data.params {
        map.values[param] = new.add_param(to, old.values[param].ty).into();
    }
    new.blocks[to].insts.reserve(data.insts.len());
    for inst in data.insts {
        let node = &mut old.insts[inst];
        let mut moved = std::mem::replace(&mut node.data, InstData::Nop);
        match &mut moved {
            InstData::StackAddr { slot, .. } => {
                let known = &mut map.slots[*slot];
                if known.is_none() {
                    *known = new.slots.push(old.slots[*slot].clone()).into();
                }
                *slot = known.expect("just set");
            }
            InstData::StateOf { block } => *block = map.block(*block),
            _ => {}
        }
        let types: smallvec::SmallVec<[_; 8]> = node
            .results
            .iter()
            .map(|&result| old.values[result].ty)
            .collect();
        let copy = new.make_inst(moved, &types, node.loc);
        for (&result, &now) in node.results.iter().zip(&new.insts[copy].results) {
            map.values[result] = now.into();
        }
        new.blocks[to].insts.push(copy);
    }
    new.blocks[to].term = data.term;
    new.blocks[to].term_loc = data.term_loc;
}
