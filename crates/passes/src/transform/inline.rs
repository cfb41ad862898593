//! Puts the bodies of device functions in place of calls.
//!
//! **Needs**: callees first (`call_graph::bottom_up`), so that what is put in is simple already.
//! **Ensures**: no direct call is left of a function that is not recursive, unless the caller would
//! outgrow the budget; such calls stay calls.
//!
//! A call depends on who runs it together, and so does what is in it: the body runs exactly where
//! the call was, once per call. The callee's slots become the caller's; what it takes by `alloca`
//! is given back as its return would have.
//!
//! ```text
//! v1 = call fn1(v0); ret v1
//!   ==>   jump block1(v0)   block1(v2): v3 = iadd.b32 v2, v2; jump block2(v3)   block2(v1): ret v1
//! ```

use std::collections::BTreeMap;

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use ptxjit_ir::{
    Block, BlockCall, BlockData, Class, FuncId, Function, Inst, InstData, Program, SrcLoc,
    StackSlot, Terminator, Type, Value,
};

/// Blocks that one function may grow to. Later passes and the code generator take memory for pairs
/// of a block and a value.
const MOST_BLOCKS: usize = 2048;

/// What an operation counts at which threads wait for each other: each makes a block of its own,
/// and code that is resumed there.
const WAIT: usize = 32;

/// Inlines into one function of the program what `allowed` lets; `budget` limits its [size].
/// Gives the number of calls replaced.
pub fn run(
    program: &mut Program,
    caller: FuncId,
    allowed: &dyn Fn(FuncId) -> bool,
    budget: usize,
) -> usize {
    let Some(mut func) = program.functions.remove(&caller) else {
        return 0;
    };
    let mut sum = size(&func);
    let mut n_blocks = func.blocks.len();
    let mut n_inlined = 0;
    let mut sizes: BTreeMap<FuncId, usize> = BTreeMap::new();
    // The blocks made on the way hold no calls but those that were refused.
    let mut work: Vec<Block> = func.blocks.keys().collect();
    while let Some(block) = work.pop() {
        let mut from = 0;
        while let Some((idx, id)) = next_call(&func, block, from) {
            let callee = program.functions.get(&id).filter(|_| allowed(id));
            let callee = callee.map(|it| (it, *sizes.entry(id).or_insert_with(|| size(it))));
            let fits = |&(callee, size): &(&Function, usize)| {
                sum + size <= budget && n_blocks + callee.blocks.len() <= MOST_BLOCKS
            };
            let Some((callee, size)) = callee.filter(fits) else {
                from = idx + 1;
                continue;
            };
            sum += size;
            // The rest of the caller's block is one more.
            n_blocks += callee.blocks.len() + 1;
            n_inlined += 1;
            // The rest of the block is another one now.
            work.push(replace_call(&mut func, block, idx, callee));
            break;
        }
    }
    program.functions.insert(caller, func);
    n_inlined
}

/// Instructions in blocks, terminators included.
pub fn n_insts(func: &Function) -> usize {
    func.blocks.values().map(|data| data.insts.len() + 1).sum()
}

/// Instructions, and more for those that wait.
pub fn size(func: &Function) -> usize {
    let insts = func.blocks.values().flat_map(|data| &data.insts);
    let waits = |&&inst: &&Inst| func.insts[inst].data.class() == Class::Convergent;
    n_insts(func) + WAIT * insts.filter(waits).count()
}

fn next_call(func: &Function, block: Block, from: usize) -> Option<(usize, FuncId)> {
    let insts = func.blocks[block].insts.iter().enumerate().skip(from);
    insts.into_iter().find_map(|(idx, &inst)| {
        if let InstData::Call { func: id, .. } = func.insts[inst].data {
            Some((idx, id))
        } else {
            None
        }
    })
}

/// Replaces the call at `idx`; gives the block that goes on after it.
fn replace_call(func: &mut Function, block: Block, idx: usize, callee: &Function) -> Block {
    let after = func.new_block();
    let rest = func.blocks[block].insts.split_off(idx + 1);
    let call = func.blocks[block].insts.pop().expect("the call is there");
    let term_loc = func.blocks[block].term_loc;
    func.blocks[after] = BlockData {
        params: Vec::new(),
        insts: rest,
        term: std::mem::replace(&mut func.blocks[block].term, Terminator::Exit),
        term_loc,
    };
    let InstData::Call { args, .. } = func.insts[call].data.clone() else {
        unreachable!("the caller found a call")
    };
    // The results become parameters of the block after the call.
    for result in std::mem::take(&mut func.insts[call].results) {
        let idx = func.blocks[after].params.len() as u32;
        func.values[result].def = ptxjit_ir::ValueDef::Param(after, idx);
        func.blocks[after].params.push(result);
    }
    let loc = func.insts[call].loc;
    let saved = has_alloca(callee).then(|| save_stack(func, block, after, loc));
    debug_assert!(saved.is_none_or(|value| func.ty(value) == Type::B64));
    let entry = copy_body(func, callee, after);
    func.blocks[block].term = Terminator::Jump(BlockCall { block: entry, args });
    func.blocks[block].term_loc = loc;
    after
}

fn has_alloca(func: &Function) -> bool {
    let is_alloca = |inst: &Inst| matches!(func.insts[*inst].data, InstData::Alloca { .. });
    func.blocks
        .values()
        .any(|data| data.insts.iter().any(is_alloca))
}

fn save_stack(func: &mut Function, block: Block, after: Block, loc: SrcLoc) -> Value {
    let save = func.make_inst(InstData::StackSave, &[Type::B64], loc);
    func.blocks[block].insts.push(save);
    let saved = func.insts[save].results[0];
    let restore = func.make_inst(InstData::StackRestore { arg: saved }, &[], loc);
    func.blocks[after].insts.insert(0, restore);
    saved
}

/// Copies the callee's blocks; returns lead to `after`. Gives the copy of the entry.
fn copy_body(func: &mut Function, callee: &Function, after: Block) -> Block {
    let mut blocks: SecondaryMap<Block, PackedOption<Block>> = SecondaryMap::new();
    let mut values: SecondaryMap<Value, PackedOption<Value>> = SecondaryMap::new();
    let mut slots: SecondaryMap<StackSlot, PackedOption<StackSlot>> = SecondaryMap::new();
    for (slot, data) in &callee.slots {
        slots[slot] = func.slots.push(data.clone()).into();
    }
    for (block, data) in &callee.blocks {
        let copy = func.new_block();
        blocks[block] = copy.into();
        for &param in &data.params {
            values[param] = func.add_param(copy, callee.ty(param)).into();
        }
        for &inst in &data.insts {
            let node = &callee.insts[inst];
            let types: smallvec::SmallVec<[Type; 8]> = node
                .results
                .iter()
                .map(|&result| callee.ty(result))
                .collect();
            let copied = func.make_inst(node.data.clone(), &types, node.loc);
            for (&result, &now) in node.results.iter().zip(&func.insts[copied].results) {
                values[result] = now.into();
            }
            func.blocks[copy].insts.push(copied);
        }
    }
    let block_of = |block: Block| blocks[block].expand().expect("all blocks were copied");
    // A value that is defined nowhere can only be used where control never comes.
    let value_of = |value: Value| values[value].expand();
    for (block, data) in &callee.blocks {
        let copy = block_of(block);
        for idx in 0..func.blocks[copy].insts.len() {
            let inst = func.blocks[copy].insts[idx];
            let data = &mut func.insts[inst].data;
            data.args_mut()
                .into_iter()
                .for_each(|arg| *arg = value_of(*arg).expect("operands are defined"));
            if let InstData::StackAddr { slot, .. } = data {
                *slot = slots[*slot].expect("all slots were copied");
            }
        }
        let mut term = data.term.clone();
        term.for_each_arg_mut(|arg| *arg = value_of(*arg).expect("operands are defined"));
        for call in term.targets_mut() {
            call.block = block_of(call.block);
        }
        if let Terminator::Ret(results) = term {
            term = Terminator::Jump(BlockCall {
                block: after,
                args: results.into_iter().collect(),
            });
        }
        func.blocks[copy].term = term;
        func.blocks[copy].term_loc = data.term_loc;
    }
    block_of(callee.entry)
}
