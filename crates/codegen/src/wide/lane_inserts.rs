//! Vectors built from elements that lanes load one by one.
//!
//! Cranelift merges a load into the instruction that inserts it into a vector only if no value
//! computed from the vector has two uses. So such vectors are passed to a new block as its
//! parameters, which count as one use. That has to happen behind the pass that removes redundant
//! block parameters.

use cranelift_codegen::ir::{Block, BlockArg, Function, Value};
use rustc_hash::FxHashMap;

/// Vectors that are complete at the end of a block, which jumps to another one.
#[derive(Clone, Debug)]
pub(crate) struct LaneInserts {
    pub from: Block,
    pub to: Block,
    pub vectors: Vec<Value>,
}

/// Passes the vectors as parameters.
pub(crate) fn pass_on(func: &mut Function, lane_inserts: &[LaneInserts]) {
    let mut params: FxHashMap<Value, (Block, Value)> = FxHashMap::default();
    let mut args: Vec<(Block, Value)> = Vec::new();
    for LaneInserts { from, to, vectors } in lane_inserts {
        if !func.layout.is_block_inserted(*from) {
            continue;
        }
        for &vector in vectors {
            let vector = func.dfg.resolve_aliases(vector);
            let ty = func.dfg.value_type(vector);
            if params.contains_key(&vector) {
                continue;
            }
            params.insert(vector, (*from, func.dfg.append_block_param(*to, ty)));
            args.push((*from, vector));
        }
    }
    let mut next_block = func.layout.entry_block();
    while let Some(block) = next_block {
        let mut next = func.layout.first_inst(block);
        while let Some(inst) = next {
            func.dfg
                .map_inst_values(inst, |value| match params.get(&value) {
                    Some(&(from, param)) if from != block => param,
                    _ => value,
                });
            next = func.layout.next_inst(inst);
        }
        next_block = func.layout.next_block(block);
    }
    for (from, vector) in args {
        let jump = func.layout.last_inst(from).expect("blocks have an end");
        let dfg = &mut func.dfg;
        let targets =
            dfg.insts[jump].branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables);
        targets[0].append_argument(BlockArg::Value(vector), &mut dfg.value_lists);
    }
}
