//! Keeps the optimizer from removing and merging loads: one whose value is not used may race like
//! any other.

use ptxjit_ir::{Function, InstData, MemSem, Program, Space, SrcLoc};
use rustc_hash::FxHashSet;

/// Where the program has loads that were volatile from the start.
#[derive(Clone, Debug, Default)]
pub struct Kept(FxHashSet<SrcLoc>);

/// Makes weak loads of memory that threads share volatile, until [`release`].
pub fn keep(program: &mut Program) -> Kept {
    let mut kept = Kept::default();
    for func in program.functions.values_mut() {
        each_load(func, |sem, loc| match sem {
            MemSem::Weak | MemSem::NonCoherent => *sem = MemSem::Volatile,
            MemSem::Volatile => {
                kept.0.insert(loc);
            }
            MemSem::Relaxed | MemSem::Acquire | MemSem::Release | MemSem::AcqRel | MemSem::Sc => {}
        });
    }
    kept
}

/// Makes them weak again.
pub(super) fn release(func: &mut Function, kept: &Kept) {
    each_load(func, |sem, loc| {
        if *sem == MemSem::Volatile && !kept.0.contains(&loc) {
            *sem = MemSem::Weak;
        }
    });
}

fn each_load(func: &mut Function, mut change: impl FnMut(&mut MemSem, SrcLoc)) {
    for node in func.insts.values_mut() {
        if let InstData::Load {
            space: Space::Global | Space::Shared | Space::Generic,
            sem,
            ..
        } = &mut node.data
        {
            change(sem, node.loc);
        }
    }
}
