//! What several places ask of functions in CLIF.

use cranelift_codegen::ir::{Function, Inst, Value};
use cranelift_entity::SecondaryMap;

/// All instructions, in layout order.
pub(crate) fn insts(func: &Function) -> impl Iterator<Item = Inst> {
    let blocks = func.layout.blocks();
    blocks.flat_map(|block| func.layout.block_insts(block))
}

/// How often each value is used.
pub(crate) fn count_uses(func: &Function) -> SecondaryMap<Value, u32> {
    let mut n_uses: SecondaryMap<Value, u32> = SecondaryMap::new();
    for value in insts(func).flat_map(|inst| func.dfg.inst_values(inst)) {
        n_uses[func.dfg.resolve_aliases(value)] += 1;
    }
    n_uses
}
