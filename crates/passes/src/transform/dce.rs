//! Removes what nobody reads: instructions without effect, loads, block parameters, and the dynamic
//! stack if unused.
//!
//! **Needs**: nothing. **Ensures**: each instruction has an effect or is read by something that
//! matters in the end; so are block parameters (cycles of parameters and instructions that only
//! feed each other are gone).
//!
//! How: marks from effects and conditions backwards. A load that nobody reads goes even if its
//! address were bad: PTX promises no fault for it, and the hardware's own compiler does the same.
//!
//! ```text
//! block1(v1): v2 = iadd.b32 v1, v0; brif v9, block1(v2), block2
//!   ==>   block1: brif v9, block1, block2
//! ```

use cranelift_entity::{EntitySet, SecondaryMap};
use ptxjit_ir::{Block, BlockData, Effect, Function, Inst, InstData, Terminator, Value, ValueDef};

use crate::transform::rewrite;

/// Runs the pass; says whether something changed.
pub fn run(func: &mut Function) -> bool {
    let mut changed = remove_unused_stack(func);
    let live = mark(func);
    for block in func.blocks.keys() {
        let mut insts = std::mem::take(&mut func.blocks[block].insts);
        let n_before = insts.len();
        insts.retain(|&inst| {
            is_root(&func.insts[inst].data)
                || func.insts[inst].results.iter().any(|&v| live.contains(v))
        });
        changed |= insts.len() != n_before;
        func.blocks[block].insts = insts;
    }
    rewrite::retain_params(func, |param| live.contains(param)) || changed
}

/// Whether the instruction matters whoever reads its results.
fn is_root(data: &InstData) -> bool {
    match data.effect() {
        Effect::Pure | Effect::Read => false,
        Effect::Write => !matches!(
            data,
            InstData::Sreg { .. } | InstData::StackSave | InstData::Alloca { .. } | InstData::Nop
        ),
        Effect::Convergent => true,
    }
}

fn mark(func: &Function) -> EntitySet<Value> {
    let mut live = Marks {
        set: EntitySet::new(),
        work: Vec::new(),
    };
    for data in func.blocks.values() {
        for &inst in &data.insts {
            if is_root(&func.insts[inst].data) {
                live.mark_args(func, inst);
            }
        }
        live.mark_end(func, data);
    }
    let branches = branches_into(func);
    while let Some(value) = live.work.pop() {
        match func.values[value].def {
            ValueDef::Result(inst, _) => live.mark_args(func, inst),
            ValueDef::Param(block, idx) => {
                for &pred in &branches[block] {
                    for call in func.blocks[pred].term.targets() {
                        if call.block == block {
                            live.mark(call.args[idx as usize]);
                        }
                    }
                }
            }
        }
    }
    live.set
}

fn branches_into(func: &Function) -> SecondaryMap<Block, Vec<Block>> {
    let mut into: SecondaryMap<Block, Vec<Block>> = SecondaryMap::new();
    for (from, data) in &func.blocks {
        for call in data.term.targets() {
            if into[call.block].last() != Some(&from) {
                into[call.block].push(from);
            }
        }
    }
    into
}

struct Marks {
    set: EntitySet<Value>,
    work: Vec<Value>,
}

impl Marks {
    fn mark(&mut self, value: Value) {
        if self.set.insert(value) {
            self.work.push(value);
        }
    }

    fn mark_args(&mut self, func: &Function, inst: Inst) {
        func.insts[inst]
            .data
            .args()
            .into_iter()
            .for_each(|arg| self.mark(arg));
    }

    /// Marks what decides how the block ends; what it passes on matters only if the parameter does.
    fn mark_end(&mut self, func: &Function, data: &BlockData) {
        match &data.term {
            Terminator::Brif { cond, .. } => self.mark(*cond),
            Terminator::Switch { index, .. } => self.mark(*index),
            Terminator::Dispatch(state) => self.mark(*state),
            Terminator::Ret(values) => values.iter().for_each(|&value| self.mark(value)),
            Terminator::Jump(_) | Terminator::Exit | Terminator::Trap(_) => {}
        }
        for call in data
            .term
            .targets()
            .into_iter()
            .filter(|call| call.block == func.entry)
        {
            call.args.iter().for_each(|&arg| self.mark(arg));
        }
    }
}

/// Where no address on the stack is read, saving and restoring its top has no effect. Such an
/// address comes from an `alloca`, or is a saved top: calls that are not inlined have their frames
/// there.
fn remove_unused_stack(func: &mut Function) -> bool {
    let any = |func: &Function, test: &dyn Fn(Inst) -> bool| {
        func.blocks
            .values()
            .any(|data| data.insts.iter().any(|&inst| test(inst)))
    };
    if !any(func, &|inst| is_restore(func, inst)) {
        return false;
    }
    let live = mark(func);
    let is_used = |inst: Inst| {
        func.insts[inst]
            .results
            .iter()
            .any(|&value| live.contains(value))
    };
    if any(func, &|inst| {
        matches!(func.insts[inst].data, InstData::Alloca { .. }) && is_used(inst)
    }) || is_top_read(func)
    {
        return false;
    }
    for block in func.blocks.keys() {
        let mut insts = std::mem::take(&mut func.blocks[block].insts);
        insts.retain(|&inst| !is_restore(func, inst));
        func.blocks[block].insts = insts;
    }
    true
}

/// Whether a saved top of the stack is used for anything but to be restored.
fn is_top_read(func: &Function) -> bool {
    let is_top = |value: Value| matches!(func.def_inst(value), Some(InstData::StackSave));
    func.blocks.values().any(|data| {
        let mut is_passed = false;
        data.term.for_each_arg(|arg| is_passed |= is_top(arg));
        let mut others = data.insts.iter().filter(|&&inst| !is_restore(func, inst));
        is_passed || others.any(|&inst| func.insts[inst].data.args().into_iter().any(is_top))
    })
}

fn is_restore(func: &Function, inst: Inst) -> bool {
    matches!(func.insts[inst].data, InstData::StackRestore { .. })
}
