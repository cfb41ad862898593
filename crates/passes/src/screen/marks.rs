//! Marks of asynchronous copies, which proofs need and compiled code does not have.

use ptxjit_ir::{DeviceOp, Function, InstData, MarkOp, Program};

/// Leaves of a program's marks only those of copies; says whether there are any.
pub fn keep_copies(program: &mut Program) -> bool {
    let mut found = false;
    for func in program.functions.values_mut() {
        found |= has_copies(func);
        remove(func, |mark| !is_of_copies(mark));
    }
    found
}

/// Whether a function has asynchronous copies.
pub(super) fn has_copies(func: &Function) -> bool {
    let mut insts = func.blocks.values().flat_map(|block| &block.insts);
    insts.any(|&inst| mark(&func.insts[inst].data).is_some_and(is_of_copies))
}

/// Removes all marks.
pub(super) fn remove_all(func: &mut Function) {
    remove(func, |_| true);
}

fn remove(func: &mut Function, is_removed: impl Fn(MarkOp) -> bool) {
    for node in func.insts.values_mut() {
        if let Some(MarkOp::Undefined(ty)) = mark(&node.data) {
            // Such a register is zero.
            node.data = InstData::Const { ty, bits: 0 };
        }
    }
    let insts = &func.insts;
    for block in func.blocks.values_mut() {
        block
            .insts
            .retain(|&inst| !mark(&insts[inst].data).is_some_and(&is_removed));
    }
}

/// The mark that an instruction is.
pub(super) fn mark(inst: &InstData) -> Option<MarkOp> {
    if let InstData::Device {
        op: DeviceOp::Mark(mark),
        ..
    } = inst
    {
        return Some(*mark);
    }
    None
}

fn is_of_copies(mark: MarkOp) -> bool {
    matches!(
        mark,
        MarkOp::AsyncBegin
            | MarkOp::AsyncEnd
            | MarkOp::CommitGroup
            | MarkOp::WaitGroup(_)
            | MarkOp::WaitAll
    )
}
