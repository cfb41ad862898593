//! Keeps the optimizer from removing and merging loads: one whose value is not used may race like
//! any other.

use ptxjit_ir::{Function, InstData, MemSem, Program, Space, SrcLoc};
use rustc_hash::FxHashSet;

use super::admit::Wanted;

/// What loads were before they were kept, by their places in the program.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    volatile: FxHashSet<SrcLoc>,
    noncoherent: FxHashSet<SrcLoc>,
}

impl Kept {
    /// Whether a load takes for granted that the launch does not write what it reads.
    pub(super) fn is_noncoherent(&self, loc: SrcLoc) -> bool {
        self.noncoherent.contains(&loc)
    }
}

/// Makes weak loads of memory that threads share volatile, until [`release`]; if local memory is
/// checked, also its loads and stores.
pub fn keep(program: &mut Program, wanted: Wanted) -> Kept {
    let mut kept = Kept::default();
    for func in program.functions.values_mut() {
        if wanted.locals() {
            each_of_local(func, |sem, loc| {
                if *sem == MemSem::Volatile {
                    kept.volatile.insert(loc);
                }
                *sem = MemSem::Volatile;
            });
        }
        each_load(func, |sem, loc| match sem {
            MemSem::Weak => *sem = MemSem::Volatile,
            MemSem::NonCoherent => {
                *sem = MemSem::Volatile;
                kept.noncoherent.insert(loc);
            }
            MemSem::Volatile => {
                kept.volatile.insert(loc);
            }
            MemSem::Relaxed | MemSem::Acquire | MemSem::Release | MemSem::AcqRel | MemSem::Sc => {}
        });
    }
    kept
}

/// Makes them weak again.
pub(super) fn release(func: &mut Function, kept: &Kept) {
    each_of_local(func, |sem, loc| {
        if *sem == MemSem::Volatile && !kept.volatile.contains(&loc) {
            *sem = MemSem::Weak;
        }
    });
    each_load(func, |sem, loc| {
        if *sem == MemSem::Volatile && !kept.volatile.contains(&loc) {
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

fn each_of_local(func: &mut Function, mut change: impl FnMut(&mut MemSem, SrcLoc)) {
    for node in func.insts.values_mut() {
        if let InstData::Load {
            space: Space::Local,
            sem,
            ..
        }
        | InstData::Store {
            space: Space::Local,
            sem,
            ..
        } = &mut node.data
        {
            change(sem, node.loc);
        }
    }
}
