//! Chooses which factor of a fused multiply-add stands first.
//!
//! x86 writes the result over the first factor. A value with later uses would be copied before, so
//! a factor without any is put first. In f32 alone: a NaN result is made canonical there, while in
//! f64 the order decides which NaN operand is returned.

use crate::clif;
use cranelift_codegen::ir::{Block, Function, InstructionData, Opcode, Value, types};
use cranelift_entity::SecondaryMap;

/// Puts the factors of the function's multiply-adds in order.
pub(crate) fn order(func: &mut Function) {
    let mut uses: SecondaryMap<Value, u32> = SecondaryMap::new();
    let mut found = false;
    for_each_arg(func, |func, arg, opcode| {
        found |= opcode == Opcode::Fma;
        uses[register(func, arg)] += 1;
    });
    if !found {
        return;
    }
    let blocks: Vec<Block> = func.layout.blocks().collect();
    for block in blocks {
        let mut next = func.layout.first_inst(block);
        while let Some(inst) = next {
            next = func.layout.next_inst(inst);
            let opcode = func.dfg.insts[inst].opcode();
            if opcode == Opcode::Bitcast {
                continue;
            }
            for arg in func.dfg.inst_values(inst) {
                uses[register(func, arg)] -= 1;
            }
            if opcode != Opcode::Fma {
                continue;
            }
            let ends = |factor: Value| {
                let value = register(func, factor);
                let home = func.dfg.value_def(value).inst();
                uses[value] == 0
                    && home.and_then(|home| func.layout.inst_block(home)) == Some(block)
            };
            let [x, y] = [0, 1].map(|idx| func.dfg.inst_args(inst)[idx]);
            if func.dfg.value_type(x).lane_type() == types::F32 && !ends(x) && ends(y) {
                func.dfg.inst_args_mut(inst)[..2].copy_from_slice(&[y, x]);
            }
        }
    }
}

fn for_each_arg(func: &Function, mut visit: impl FnMut(&Function, Value, Opcode)) {
    for inst in clif::insts(func) {
        let opcode = func.dfg.insts[inst].opcode();
        if opcode != Opcode::Bitcast {
            let args = func.dfg.inst_values(inst);
            args.for_each(|arg| visit(func, arg, opcode));
        }
    }
}

/// The value whose register this one shares: casts between types of vectors are no instructions.
fn register(func: &Function, value: Value) -> Value {
    let mut value = func.dfg.resolve_aliases(value);
    while let Some(inst) = func.dfg.value_def(value).inst()
        && let InstructionData::LoadNoOffset {
            opcode: Opcode::Bitcast,
            arg,
            ..
        } = func.dfg.insts[inst]
    {
        value = func.dfg.resolve_aliases(arg);
    }
    value
}
